"""The note in a folder of the trash: what was deleted, when, and where it lay.

It may have been changed by anybody since, so what it says is checked before it is used: only places below the
store's root count, and only files inside the folder.
"""

from __future__ import annotations

import json
import os
import stat
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeGuard

from perdure import config
from perdure.errors import Conflict, Unreadable
from perdure.session import ids
from perdure.session.stores import files, folders

TRASH = "trash"
NOTE = "trash.json"
OURS = (NOTE, f"{NOTE}.tmp")
"""What is in a folder of the trash and is not the session's."""
_LONGEST_NOTE = 2**20
_MOST_STEPS = 64
"""On the way to a session: folders are made for it, one by one, and no layout needs as many."""


class Trashed(NamedTuple):
    """A deleted session."""

    id: str
    """What it was called; the folder's name if there is no note that can be read."""
    program: str
    deleted: str
    """When, as a timestamp; empty if that is not known."""
    folder: str
    """Its folder in the trash."""
    size: int
    """The bytes of all that is in there."""
    root: str = ""
    names: tuple[str, ...] = ()
    """Where its files lay, named from `root`, or absolute where there is no root; the session itself last."""
    title: str = ""
    """What a listing called it."""
    home: str = ""
    """In whose trash it is."""


def in_trash(folder: str, *names: str) -> str:
    """A folder of the trash, or what is in it, as named from the home."""
    return os.path.join(TRASH, folder, *names)


def is_folder(home: str, name: str) -> bool:
    try:
        found = files.status(home, in_trash(name))
    except OSError:
        return False
    return found is not None and stat.S_ISDIR(found.st_mode)


def is_left_over(home: str, name: str) -> bool:
    """Whether a folder is being deleted, or has nothing of a session in it: a delete that was interrupted had
    made it, and perhaps its note, and the session is in its place."""
    if name.startswith(folders.DYING):
        return True
    try:
        return not sessions_own(home, name)
    except OSError:
        return False


def sessions_own(home: str, folder: str) -> list[str]:
    """What is in a folder, without our note and what an interrupted move left."""
    ours = (folders.DYING, folders.MOVING)
    return [
        name
        for name in files.contents(home, in_trash(folder))
        if name not in OURS and not name.startswith(ours)
    ]


def read_note(home: str, folder: str) -> dict[str, Any]:
    """Nothing, if it cannot be read."""
    try:
        with files.open_to_read(home, in_trash(folder, NOTE)) as file:
            text = files.read_all(file.fileno(), _LONGEST_NOTE + 1)
        note = json.loads(text) if len(text) <= _LONGEST_NOTE else None
    except (Unreadable, OSError, ValueError, RecursionError):
        return {}
    return note if isinstance(note, dict) else {}


def trashed_in(home: str, folder: str) -> Trashed:
    note = read_note(home, folder)

    def text(key: str, otherwise: str = "") -> str:
        value = note.get(key)
        return value if isinstance(value, str) else otherwise

    names = note.get("names", note.get("paths", ()))
    return Trashed(
        text("id", folder),
        text("program"),
        text("deleted") if moment_of(text("deleted")) else "",
        folder,
        folders.size(home, in_trash(folder)),
        text("root"),
        tuple(names) if _are_texts(names) else (),
        text("title"),
        home,
    )


def places_in(home: str, folder: str, root: str) -> dict[str, str]:
    """Where each thing lay, named from `root`, and its name in the folder. Only places below `root`, and only
    such as can all be there at once."""
    note = read_note(home, folder)
    names, own = note.get("names"), note.get("as")
    if names is None and _are_texts(paths := note.get("paths")):  # as notes were before they had a root
        names, own = [_from(root, path) for path in paths], [os.path.basename(path) for path in paths]
    path = os.path.join(home, in_trash(folder))
    if not names or not _are_texts(names) or not _are_texts(own) or len(names) != len(own):
        raise Conflict(path, "does not say where it lay", "move its files to where they belong")
    for name in names:
        if not is_relative(name) or any(is_inside(name, other) for other in names):
            raise Conflict(path, f"names a place outside {root}: {name!r:.80}", "move its files by hand")
    for each in own:
        if not is_relative(each) or os.sep in each or each in OURS:
            raise Conflict(path, f"names a file outside itself: {each!r:.80}", "move its files by hand")
    places = dict(zip(names, own, strict=True))
    if not len(places) == len(set(places.values())) == len(own):
        raise Conflict(path, "names one file twice", "move its files by hand")
    return places


def _are_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def is_inside(name: str, other: str) -> bool:
    return name.startswith(f"{other}{os.sep}")


def is_relative(name: str) -> bool:
    """Whether it can be a place below a store's root."""
    steps = name.split(os.sep)
    if {"", os.curdir, os.pardir} & set(steps) or len(steps) > _MOST_STEPS:
        return False
    return bool(config.checked_path(os.path.join(os.sep, name)))


def _from(root: str, path: str) -> str:
    """The path as named from `root`; as it is, if it does not lie there."""
    for above in (os.path.abspath(root), config.real_path(root)):
        beginning = os.path.join(above, "")
        if path.startswith(beginning):
            return path[len(beginning) :]
    return path


def moment_of(stamp: str) -> datetime | None:
    """When that was, if it is a stamp as we write them."""
    try:
        moment = datetime.fromisoformat(stamp)
        return moment if ids.stamp(moment) == stamp else None
    except (ValueError, OverflowError):
        return None


def age_order(trashed: Trashed) -> tuple[datetime, int, str]:
    number = trashed.folder.removeprefix(f"{ids.file_name(trashed.id)}.")
    moment = moment_of(trashed.deleted) or datetime.min.replace(tzinfo=UTC)
    return moment, int(number) if number.isdecimal() else 1, trashed.folder
