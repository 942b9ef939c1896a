"""All that is in a folder, to compare before and after."""

import os
import stat
from pathlib import Path


def snapshot(place: Path, *, times: bool = False) -> dict[str, tuple[object, ...]]:
    """By path: the mode, what is in it or where it leads, and when it was changed."""
    found = {}
    for path in [place, *(place.rglob("*") if place.is_dir() and not place.is_symlink() else [])]:
        status = path.lstat()
        content: object = None
        if stat.S_ISLNK(status.st_mode):
            content = os.readlink(path)
        elif stat.S_ISREG(status.st_mode):
            content = path.read_bytes()
        name = "" if path == place else str(path.relative_to(place))
        found[name] = (status.st_mode, content, *([status.st_mtime_ns] if times else []))
    return found
