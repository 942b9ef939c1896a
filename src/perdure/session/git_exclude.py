"""Keeping files out of git without git: lines in the repository's own `info/exclude`, which is in no commit.

Nobody is bothered if that does not work: it is a courtesy. No program is run, no file of the user's is
touched, and nothing is written but to a regular file in the `info` folder of what really is a repository.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Sequence

from perdure import config
from perdure.errors import PerdureError
from perdure.session import strangers
from perdure.session.stores import files

_EXCLUDE = os.path.join("info", "exclude")
_LONGEST = 2**20


def keep_out(folder: str, names: Sequence[str]) -> None:
    """Exclude the folders of these names, which are below `folder`, if that is in a repository."""
    with contextlib.suppress(OSError, ValueError, PerdureError):
        above = config.real_path(folder)
        found = _repository(above)
        if found:
            top, home = found
            below = os.path.relpath(above, top)
            _add(home, [_pattern(os.path.normpath(os.path.join(below, name))) for name in names])


def _repository(folder: str) -> tuple[str, str] | None:
    """The top of the working tree that `folder` is in, and where its repository keeps what it shares."""
    while True:
        status = files.status(folder, ".git")
        if status is not None:
            break
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    home = os.path.join(folder, ".git")
    if strangers.is_planted(home, status):
        return None
    if stat.S_ISREG(status.st_mode):  # of a further working tree, or a submodule
        said = _text(folder, ".git")
        if not said.startswith("gitdir: "):
            return None
        home = os.path.join(folder, said.removeprefix("gitdir: "))
        if files.status(home, "commondir"):
            home = os.path.join(home, _text(home, "commondir"))
    elif not stat.S_ISDIR(status.st_mode):
        return None
    return (folder, home) if _is_repository(home) else None


def _is_repository(home: str) -> bool:
    head, objects = files.status(home, "HEAD"), files.status(home, "objects")
    return bool(head and objects and stat.S_ISREG(head.st_mode) and stat.S_ISDIR(objects.st_mode))


def _text(folder: str, name: str) -> str:
    with files.open_to_read(folder, name) as file:
        return os.fsdecode(files.read_all(file.fileno(), _LONGEST)).rstrip("\n")


def _pattern(name: str) -> str:
    """A folder, named from the top; a line break in it cannot be said."""
    if "\n" in name:
        raise ValueError(name)
    return "/" + re.sub(r"([\\*?\[ ])", r"\\\1", name) + "/"


def _add(home: str, patterns: Sequence[str]) -> None:
    """Behind what is there, and only what is not."""
    files.new_folder(home, "info", private=False)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK
    with files.open_beneath(home, _EXCLUDE, flags, private=False) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return
        there = files.read_all(file.fileno(), status.st_size)
        known = there.split(b"\n")
        new = [line for pattern in patterns if (line := os.fsencode(pattern)) not in known]
        if new:
            seal = b"" if not there or there.endswith(b"\n") else b"\n"
            files.write_all(file.fileno(), seal + b"".join(line + b"\n" for line in new))
