"""Which extensions are installed: found by the names of files alone, at no cost where there are none.

Nothing of them is run here; `extensions` does that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from perdure import config
from perdure.agent import places
from perdure.agent.settings import Settings

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "perdure"
"""The entry points of installed packages."""


class Installed(NamedTuple):
    files: list[str]
    packages: list[EntryPoint]

    @classmethod
    def find(cls, settings: Settings, project: str | None) -> Installed:
        """Those in pi's home, in a project that is trusted, named by the settings, and of packages. Each file
        once: one may be named by the settings and lie in its usual place."""
        folders = [*places.of_user("extensions"), *places.of_project("extensions", project)]
        usual = [path for folder in folders for path in files_in(folder)]
        found: dict[str, str] = {}
        for path in (*usual, *files_named(settings.extensions)):
            found.setdefault(config.real_path(path), path)
        return cls([*found.values()], packages())


def files_in(folder: str) -> list[str]:
    """The extensions of a folder, by name; of one that is not there, none."""
    try:
        return places.extensions_in(folder)
    except OSError:
        return []


def files_named(paths: Iterable[str]) -> Iterator[str]:
    """Those that settings name, files and folders. The original pi names its own there, which are not
    Python's."""
    for path in paths:
        if os.path.isdir(path):
            yield from files_in(path)
        elif path.endswith(places.EXTENSION) and os.path.exists(path):
            yield path


def packages() -> list[EntryPoint]:
    """Those of installed packages. The metadata's own reader is loaded only where there are some.

    What is in the current directory is not installed, although Python may look there for modules.
    """
    here = config.real_path(config.here())
    places = [each for each in sys.path if each and config.real_path(each) != here]
    if not any(map(_has_some, places)):
        return []
    from importlib.metadata import distributions

    found = {
        (entry.name, entry.value): entry
        for each in distributions(path=places)
        for entry in each.entry_points.select(group=GROUP)
    }
    return [found[key] for key in sorted(found)]


def _has_some(folder: str) -> bool:
    heading = f"[{GROUP}]".encode()
    try:
        with os.scandir(folder) as entries:
            described = [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
    except OSError:
        return False
    for path in described:
        try:
            with open(os.path.join(path, "entry_points.txt"), "rb") as file:
                if heading in file.read():
                    return True
        except OSError:
            pass
    return False
