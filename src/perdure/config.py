"""Where things live and how they are set: argument, then environment, then default.

The only module that reads the environment, and it does so when asked, never at import.
"""

from __future__ import annotations

import os

from perdure.errors import NotFound, PerdureError, UsageError


def home(variable: str, default: str) -> str:
    """A program's home directory: its environment override, or its usual place under HOME."""
    return os.path.abspath(os.path.expanduser(os.environ.get(variable) or default))


def setting(name: str, default: str = "") -> str:
    """What the environment says of `name`, also if that is empty; else the default."""
    return os.environ.get(name, default)


def environment(**settings: str) -> dict[str, str]:
    """The environment for a program that we start: ours, with these settings."""
    return os.environ | settings


def cache(name: str) -> str:
    """A file that may be deleted at any moment, and is then made again."""
    root = os.environ.get("XDG_CACHE_HOME") or ""
    root = root if os.path.isabs(root) else os.path.expanduser("~/.cache")
    return os.path.join(root, "perdure", name)


def as_typed(path: str) -> str:
    """A path as its user would type it: what is in their home begins with `~`."""
    own = os.path.expanduser("~").rstrip(os.sep)
    return f"~{path[len(own) :]}" if own and f"{path}{os.sep}".startswith(f"{own}{os.sep}") else path


def nearest(marker: str) -> str:
    """The nearest folder, from the current one upwards, that holds a folder of this name."""
    found = above(marker)
    if not found:
        hint = f"no folder above has {marker}/; `cortext init` makes one"
        raise NotFound("Workspace", here(), hint=hint)
    return found


def directory(path: str | os.PathLike[str]) -> str:
    """The absolute path of a directory to work in, which is there; UsageError if it is not."""
    try:
        at = os.path.abspath(os.path.expanduser(path))
        os.stat(os.path.join(at, ""))  # which is none of a file
        return at
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            f"Cannot work in {os.fspath(path)!r}: {why}", "give a directory that exists"
        ) from None


def here() -> str:
    """The directory this process is in."""
    try:
        return os.getcwd()
    except OSError:
        raise PerdureError("The current directory is gone", "go to another one, and try again") from None


def above(marker: str) -> str:
    """The same; empty if there is none."""
    try:
        at = os.getcwd()
    except OSError:
        return ""  # the directory this process was started in is gone
    while not os.path.isdir(os.path.join(at, marker)):
        at, below = os.path.dirname(at), at
        if at == below:
            return ""
    return at
