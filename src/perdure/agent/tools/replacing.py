"""A file of the user's gets new content in one step: the old or the new is there, never a part of either.

The new content is written beside it, synced, and takes its name. What the file was stays: its owner, group
and mode, and a symbolic link goes on pointing to it. A file whose owner cannot be kept is not replaced. A
session's files are private and no link to them is followed; these are the user's, who may link as they like.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from perdure import config
from perdure.agent.tools.output import head
from perdure.agent.tools.workspace import Place, Refused, refusal, special
from perdure.errors import OwnerNotKept
from perdure.session.stores import owners
from perdure.session.stores.files import sync_data, write_all

_COMPARED = 5000
"""Lines between the first and the last difference, in the old and the new together, that are compared."""
_AROUND = 3
_LARGEST = 16 * 2**20
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def replace(place: Place, data: bytes, *, unless_changed: os.stat_result | None = None) -> None:
    """`unless_changed`: what the file was when it was read; it is not replaced if it is another one now."""
    shown = place.shown
    try:
        target = config.real_path(place.path)
        before = _existing(target, shown)
        if unless_changed and not (before and _same(before, unless_changed)):
            raise Refused(f"{shown} was changed by something else in the meantime: read it again, then edit.")
        _make_folders(os.path.dirname(target))
        _replace(target, data, before)
    except (FileExistsError, NotADirectoryError):
        raise Refused(f"{shown} cannot be written: a part of the path is a file, not a directory.") from None
    except OwnerNotKept as error:
        raise Refused(
            f"{shown} was not replaced: {error.strerror}. If it is meant to be changed, write into it with "
            "bash."
        ) from None
    except PermissionError:
        raise Refused(f"No permission to write {shown} or to make files in its directory.") from None
    except OSError as error:
        raise refusal(error, place) from None


def _make_folders(path: str) -> None:
    """Make a folder and all that are missing above it, or none of them. `os.makedirs` calls itself for each,
    and a path may have more steps than Python allows calls."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        above = os.path.dirname(path)
        if above == path:
            break
        path = above
    made: list[str] = []
    try:
        for folder in reversed(missing):
            try:
                os.mkdir(folder)
                made.append(folder)
            except FileExistsError:
                if not os.path.isdir(folder):  # which another process may just have made
                    raise
    except OSError:
        for folder in reversed(made):
            try:
                os.rmdir(folder)
            except OSError:
                break  # somebody uses it already
        raise


def _existing(target: str, shown: str) -> os.stat_result | None:
    try:
        found = os.stat(target)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise Refused(f"{shown} is a directory: give the path of a file.")
    if not stat.S_ISREG(found.st_mode):
        raise Refused(f"{shown} is {special(found.st_mode)}, not a file: if you need it, use bash.")
    if not os.access(target, os.W_OK):
        raise Refused(f"{shown} is read-only: if it is meant to be changed, make it writable with bash.")
    return found


def _same(now: os.stat_result, then: os.stat_result) -> bool:
    return (now.st_ino, now.st_dev, now.st_size, now.st_mtime_ns) == (
        then.st_ino,
        then.st_dev,
        then.st_size,
        then.st_mtime_ns,
    )


def _replace(target: str, data: bytes, before: os.stat_result | None) -> None:
    # A short name of its own: the target's may be as long as a name can be.
    temporary = os.path.join(os.path.dirname(target), f".{os.urandom(6).hex()}.tmp")
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            if before:
                owners.keep(file, before, target)
            write_all(file, data)
            sync_data(file)
        finally:
            os.close(file)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


# --- what changed -------------------------------------------------------------------------------


def changes(old: str, new: str, name: str) -> dict[str, Any]:
    """For those who show a result: a unified diff, if it is quickly made, and the first line that differs."""
    if len(old) + len(new) > _LARGEST:
        return {}
    before, after = _LINE.findall(old), _LINE.findall(new)
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    first: dict[str, Any] = {"firstChangedLine": same + 1}
    start = max(same - _AROUND, 0)
    most = min(len(before), len(after)) - same
    tails = zip(before[len(before) - most :][::-1], after[len(after) - most :][::-1], strict=True)
    alike = max(sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], tails)) - _AROUND, 0)
    before, after = before[start : len(before) - alike], after[start : len(after) - alike]
    if len(before) + len(after) > _COMPARED:
        return first
    diff = head("".join(_diff(before, after, name, start)))
    return {"diff": diff.text, **first}


def _diff(before: Sequence[str], after: Sequence[str], name: str, start: int) -> Sequence[str]:
    from difflib import unified_diff

    lines = []
    for line in unified_diff(before, after, f"a/{name}", f"b/{name}", n=_AROUND):
        if line.startswith("@@ "):
            line = _moved(line, start)
        lines.append(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
    return lines


def _moved(header: str, start: int) -> str:
    """A hunk's header as it would be, had all lines been compared."""
    _, old, new, _ = header.split(" ", 3)
    return f"@@ {_shifted(old, start)} {_shifted(new, start)} @@\n"


def _shifted(extent: str, start: int) -> str:
    sign, (line, comma, count) = extent[0], extent[1:].partition(",")
    return f"{sign}{int(line) + start}{comma}{count}"
