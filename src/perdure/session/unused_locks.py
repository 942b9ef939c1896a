"""Removes the locks of sessions that are gone: with an unused session its own, with the trash all of them.

A lock is removed by a process that holds it, after a look, under the lock, at the home and its trash: a
session moves between these two only under its lock. A session that is created meanwhile loses nothing: its
creator makes the lock after the session, and makes it anew where this one was removed.

Every doubt keeps the lock: a folder that cannot be looked into may hold any session, a file that is not
written as we write them is not ours, and a home may be several programs' at once.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from io import FileIO

from perdure import config, registry
from perdure.errors import PerdureError, Unreadable
from perdure.session import ids, listing
from perdure.session.holder import try_to_lock
from perdure.session.layouts import LAYOUTS, Home
from perdure.session.stores import files
from perdure.session.stores.lock import Lock, remove_file

_LOCKS, _TRASH = "locks", "trash"
_SUFFIX = ".lock"
_AT_ONCE = 100
"""How many locks are held for one look at the home: each takes a descriptor."""
_OURS = re.compile(rb"(\d+ +\d+|removed) *\n")
_LONGEST_HEAD = 64
_NUMBERED = re.compile(r"(.+)\.\d+")
_MANY_IN_ONE = ("pi", "cortext")
"""Layouts in whose listing a folder that cannot be looked into stands for all that is in it."""


def remove_all(home: str) -> None:
    """Remove every lock in the home that belongs to no session."""
    stems = [name.removesuffix(_SUFFIX) for name in files.names(home, _LOCKS) if name.endswith(_SUFFIX)]
    unused = _unused(home, filter(_is_of_a_session, stems)) if stems else []
    for start in range(0, len(unused), _AT_ONCE):
        with contextlib.ExitStack() as held:
            locked = {
                stem: file for stem in unused[start : start + _AT_ONCE] if (file := _locked(home, stem, held))
            }
            for stem in _unused(home, locked):
                with contextlib.suppress(OSError):
                    remove_file(locked[stem].fileno(), home, _place(stem))


def remove(home: str, lock: Lock) -> None:
    """Release a lock that this process holds, and remove it if it belongs to no session any more."""
    stem = os.path.basename(lock.path).removesuffix(_SUFFIX)
    if _unused(home, [stem]):
        lock.remove()
    else:
        lock.release()


def _is_of_a_session(stem: str) -> bool:
    """False for the locks that guard something else, as `trash~.lock` does."""
    return all(ids.file_name(part) == part for part in stem.split("~"))


def _unused(home: str, stems: Iterable[str]) -> list[str]:
    """Those locks whose session is neither in the home nor in its trash; none if that cannot be known."""
    try:
        in_use = {ids.lock_name(id) for id in _sessions(home)}
        trashed = set(_trash_folders(home))
    except (OSError, PerdureError):
        return []
    return [
        stem for stem in stems if stem not in in_use and ids.file_name(stem.replace("~", "/")) not in trashed
    ]


def _sessions(home: str) -> Iterator[str]:
    """The ids of all sessions, of any layout, whose locks are in this home. Where a layout has no folder for
    its sessions, they are in the home itself."""
    home = config.real_path(home)
    for program, layout in LAYOUTS.items():
        id_of = listing.namer(program)
        listed: Callable[[str], Iterator[listing.Place]] = registry.load(layout.listing)
        if layout.marker:
            above, name = os.path.split(home)
            roots = [listed(above)] if name == layout.marker else []
        else:
            here = listing.places(Home("pi", home), home) if program == "pi" else listed(home)
            roots = [listed(os.path.join(home, layout.sessions)), here]
        for places in roots:
            for name, path, status, _ in places:
                if status is None and program in _MANY_IN_ONE:
                    raise Unreadable(path, "it may hold any session")
                yield id_of(name)


def _trash_folders(home: str) -> Iterator[str]:
    """What the trash of a session may be called, for each session in it."""
    try:
        names = files.contents(home, _TRASH)
    except FileNotFoundError:
        return
    for name in names:
        yield name
        if several := _NUMBERED.fullmatch(name):
            yield several[1]


def _locked(home: str, stem: str, held: contextlib.ExitStack) -> FileIO | None:
    """The lock's file, locked until `held` is closed; None if somebody holds it, or it is not ours."""
    try:
        file = held.enter_context(files.open_beneath(home, _place(stem), os.O_RDWR | os.O_NONBLOCK))
        own = os.fstat(file.fileno())
        if not stat.S_ISREG(own.st_mode) or not try_to_lock(file.fileno()):
            return None
        head = os.pread(file.fileno(), _LONGEST_HEAD, 0)
        there = files.status(home, _place(stem))
    except OSError:
        return None
    is_at_path = there is not None and (there.st_ino, there.st_dev) == (own.st_ino, own.st_dev)
    return file if is_at_path and (not head or _OURS.match(head)) else None


def _place(stem: str) -> str:
    return os.path.join(_LOCKS, f"{stem}{_SUFFIX}")
