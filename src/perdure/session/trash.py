"""Deleted sessions go to the trash, whole, with a note of what they were and where they lay.

    <home>/trash/<id>/trash.json      and beside it the session's files; <id>.2 if that is taken

The note is there before the first file comes, and goes when the last has left, so that a crash leaves nothing
that nobody can place: what was interrupted is finished by the same call, tried again. How old something is,
its note says, and no file's time; what does not say its age never gets too old.

One lock, `locks/trash~.lock`, which no session's can be, keeps apart those who change the trash. Whoever also
needs a session's lock takes that one first.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, TypeGuard

from perdure.errors import Conflict, Held, NotFound, NotSaved, PerdureError, Unreadable, UsageError
from perdure.session import ids
from perdure.session.stores import files, folders
from perdure.session.stores.lock import Lock

NOTE = "trash.json"
DAYS = 30
_TRASH = "trash"
_LOCK = os.path.join("locks", "trash~.lock")
_WAIT = 10.0
_LONGEST_NOTE = 2**20
_OURS = (NOTE, f"{NOTE}.tmp")


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


def discard(
    home: str,
    id: str,
    program: str,
    root: str,
    names: Sequence[str],
    *,
    title: str = "",
    private: bool = True,
) -> Trashed:
    """Move a session's files and folders, named from `root`, into the trash, the session itself last.

    Called under the session's lock: what a live process holds is never moved. Returns the folder they are in
    now, as it is listed. If this raises, they are where they were.
    """
    root = os.path.abspath(root)
    with _changing(home, private):
        folder, here = _folder_for(home, id, root, names, private)
        new = [name for name in dict.fromkeys(names) if not any(_is_inside(name, other) for other in names)]
        places = {name: own for name, own in here.items() if name not in new}
        for name in new:  # behind what is there already: the session itself is the last
            places[name] = here.get(name) or _free(os.path.basename(name), [*here.values(), *places.values()])
        note = {
            "program": program,
            "id": id,
            "deleted": ids.stamp(ids.now()),
            "title": title,
            "root": root,
            "names": list(places),
            "as": list(places.values()),
        }
        try:
            files.replace(home, _in(folder, NOTE), json.dumps(note, indent=2).encode(), private=private)
            _move_all([(root, name, home, _in(folder, places[name])) for name in new])
        except PerdureError:
            _remove_if_empty(home, folder)  # what was not deleted leaves no trace
            raise
        return _trashed(home, folder)


def listed(home: str) -> list[Trashed]:
    """Everything in the trash, what was deleted last first, and what does not say when at the end."""
    with files.told(Unreadable, os.path.join(home, _TRASH)):
        try:
            names = files.contents(home, _TRASH)
        except FileNotFoundError:
            return []
    found = [
        _trashed(home, name) for name in names if _is_folder(home, name) and not _is_left_over(home, name)
    ]
    return sorted(found, key=_age_order, reverse=True)


def find(home: str, text: str) -> Trashed:
    """By its id or a beginning of it, which is the last session deleted under that id; or by its folder.

    The first of several is in a folder that is called like the id: `<id>.1` is that one.
    """
    everything = listed(home)
    by_id = {each.id: each for each in reversed(everything)}
    by_folder = {each.folder: each for each in everything}
    if isinstance(text, str) and text not in by_id:
        for folder in (text, text.removesuffix(".1")):
            if folder in by_folder:
                return by_folder[folder]
    try:
        return by_id[ids.resolve(text, by_id, "Deleted session")]
    except NotFound:
        with contextlib.suppress(NotFound):
            return by_folder[ids.resolve(text, by_folder, "Deleted session")]
        raise


def restore(
    home: str,
    trashed: Trashed,
    root: str,
    *,
    is_taken: Callable[[], bool] = lambda: False,
    private: bool = True,
) -> list[str]:
    """Move a session back to where it lay below `root`, itself last. Returns the paths of its files.

    Raises, and changes nothing, if it is not known where it lay, if something is there by now, or if
    `is_taken` says that its id is another session's. Where an earlier try was interrupted, this goes on.
    """
    with _changing(home, private):
        if not _is_folder(home, trashed.folder):
            raise NotFound("Deleted session", trashed.id, hint="it was restored, or deleted for good")
        places = _places(home, trashed.folder, root)
        found = {name: _found(home, _in(trashed.folder, own), root, name) for name, own in places.items()}
        *_, (main, (is_here, is_back)) = found.items()
        path = os.path.join(root, main)
        if not is_here and not is_back:
            raise Conflict(path, "is neither in its place nor in the trash any more", "look for a copy")
        if is_here and is_taken():
            hint = "rename or delete that session, then restore again"
            raise Conflict(path, f"has an id that another session has by now: {trashed.id}", hint)
        _bring_back(
            [
                (home, _in(trashed.folder, places[name]), root, name)
                for name, (here, _) in found.items()
                if here
            ],
            private,
        )
        _remove_if_empty(home, trashed.folder)
        return [os.path.join(root, name) for name, where in found.items() if any(where)]


def expire(
    home: str,
    *,
    days: float = DAYS,
    now: ids.Clock = ids.now,
    keep: Callable[[Trashed], bool] = lambda _: False,
    private: bool = True,
) -> list[Trashed]:
    """Delete for good what was deleted more than `days` ago. What does not say when, or says it will be, is
    kept, and what `keep` wants. Returns what is gone; what cannot be deleted is left for the next time."""
    if not days >= 0:
        raise UsageError(f"days is a number that is not negative, not {days!r}")
    today = now()

    def is_over(trashed: Trashed) -> bool:
        deleted = _moment(trashed.deleted)
        if deleted is None or keep(trashed):
            return False
        age = (today - deleted) / timedelta(days=1)
        return age > days or age == days == 0

    return remove_for_good(home, is_over, private=private)


def remove_for_good(
    home: str, chosen: Callable[[Trashed], bool] = lambda _: True, *, private: bool = True
) -> list[Trashed]:
    """Delete for good what is chosen, or all there is, whatever its age. Returns what is gone.

    Under the lock they only lose their names, which takes no time; what has none is nobody's.
    """
    if not files.names(home, _TRASH):
        return []
    with _changing(home, private):
        found = [each for each in listed(home) if chosen(each) and not _is_half_deleted(home, each)]
        going: dict[str, Trashed | None] = {each.folder: each for each in found}
        going |= {name: None for name in files.names(home, _TRASH) if _is_left_over(home, name)}
        dying = []
        for name, trashed in going.items():
            with contextlib.suppress(NotSaved):
                is_dying = name.startswith(folders.DYING)
                dying.append((_in(name) if is_dying else folders.condemn(home, _in(name)), trashed))
    gone = []
    for name, trashed in dying:
        with contextlib.suppress(NotSaved):
            folders.remove_tree(home, name)
            if trashed:
                gone.append(trashed)
    return gone


# --- the lock, and what is done under it ------------------------------------------------------------


@contextlib.contextmanager
def _changing(home: str, private: bool) -> Iterator[None]:
    try:
        lock = Lock(home, _LOCK, _TRASH, _WAIT, private=private)
    except Held as held:
        holder = f"process {held.pid}" if held.pid else "another process"
        raise Conflict(os.path.join(home, _TRASH), f"is in use by {holder}", "try again later") from held
    with lock:
        yield


def _found(home: str, place: str, root: str, name: str) -> tuple[bool, bool]:
    """Whether a thing is in the trash, and whether it is back; both, if a move got no further than its copy.
    Raises if it cannot come back."""
    path = os.path.join(root, name)
    try:
        is_here = files.status(home, place) is not None
        is_back = files.status(root, name) is not None
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise NotSaved(path, error) from error
        hint = "move that out of the way, then restore again"
        raise Conflict(path, "would lie behind a link, or in what is no folder", hint) from error
    if is_here and is_back and not folders.are_same(home, place, root, name):
        raise Conflict(path, "exists already", "rename or delete it, then restore again")
    return is_here, is_back


def _bring_back(moves: Sequence[_Move], private: bool) -> None:
    made: list[tuple[str, str]] = []
    try:
        for _, _, root, name in moves:
            with files.told(NotSaved, root):
                files.make_folder(root, private=private)
            for folder in itertools.accumulate(name.split(os.sep)[:-1], os.path.join):
                if files.new_folder(root, folder, private=private):
                    made.append((root, folder))
        _move_all(moves)
    except PerdureError:
        for root, folder in reversed(made):
            files.remove_folder(root, folder)
        raise


_Move = tuple[str, str, str, str]


def _move_all(moves: Sequence[_Move]) -> None:
    """All, or none. After a crash it may be some: the session itself is the last."""
    try:
        for move in moves:
            folders.move(*move)
    except PerdureError:
        for root, name, new_root, new_name in reversed(moves):
            with contextlib.suppress(PerdureError):  # as of those that were not moved
                folders.move(new_root, new_name, root, name)
        raise


def _remove_if_empty(home: str, folder: str) -> None:
    """A folder that holds nothing but what we made to manage it."""
    with contextlib.suppress(OSError, PerdureError):
        if not _sessions_own(home, folder):
            folders.remove_tree(home, _in(folder))


def _is_half_deleted(home: str, trashed: Trashed) -> bool:
    """Whether the session itself is still in its place, and here nothing, or its copy: a delete that was
    interrupted. Another session may be in that place by now."""
    try:
        *_, own = _places(home, trashed.folder, trashed.root or os.sep).values()
        place = _in(trashed.folder, own)
        root, name = os.path.split(os.path.join(trashed.root, trashed.names[-1]))
        return os.path.lexists(os.path.join(root, name)) and (
            files.status(home, place) is None or folders.are_same(home, place, root, name)
        )
    except (OSError, PerdureError):
        return False


# --- folders in the trash -----------------------------------------------------------------------------


def _in(folder: str, *names: str) -> str:
    return os.path.join(_TRASH, folder, *names)


def _is_folder(home: str, name: str) -> bool:
    try:
        found = files.status(home, _in(name))
    except OSError:
        return False
    return found is not None and stat.S_ISDIR(found.st_mode)


def _is_left_over(home: str, name: str) -> bool:
    """Whether a folder is being deleted, or has a note and nothing else: what that tells of is elsewhere."""
    if name.startswith(folders.DYING):
        return True
    try:
        return not _sessions_own(home, name) and bool(_note(home, name))
    except OSError:
        return False


def _sessions_own(home: str, folder: str) -> list[str]:
    """What is in a folder, without our note and what an interrupted move left."""
    ours = (folders.DYING, folders.MOVING)
    return [
        name for name in files.contents(home, _in(folder)) if name not in _OURS and not name.startswith(ours)
    ]


def _folder_for(
    home: str, id: str, root: str, names: Sequence[str], private: bool
) -> tuple[str, dict[str, str]]:
    """A folder for a session, and what of it is there already: a delete that was interrupted goes on."""
    with files.told(NotSaved, os.path.join(home, _TRASH)):
        files.make_folder(os.path.join(home, _TRASH), private=private)
    for number in itertools.count(1):
        folder = ids.file_name(id) if number == 1 else f"{ids.file_name(id)}.{number}"
        if files.new_folder(home, _in(folder), private=private):
            return folder, {}
        with contextlib.suppress(OSError, PerdureError):
            if (here := _begun(home, folder, id, root, names)) is not None:
                return folder, here
    raise AssertionError("unreachable")


def _begun(home: str, folder: str, id: str, root: str, names: Sequence[str]) -> dict[str, str] | None:
    """What a delete that was interrupted has moved here; None if the folder is of another one."""
    own = _sessions_own(home, folder)
    if not own:
        return {}
    note = _note(home, folder)
    places = _places(home, folder, root)
    *_, main = places
    here = {name: place for name, place in places.items() if place in own}
    is_this = (note.get("id"), note.get("root")) == (id, root) and len(here) == len(own)
    is_unfinished = main not in here or main in names
    are_copies = all(
        folders.are_same(home, _in(folder, place), root, name)
        for name, place in here.items()
        if name in names
    )
    return here if is_this and is_unfinished and are_copies else None


def _free(name: str, taken: Iterable[str]) -> str:
    """A name in a session's folder; where case makes no difference as well."""
    used = {each.casefold() for each in (*_OURS, *taken)}
    for number in itertools.count(1):
        own = name if number == 1 else f"{number}.{name[-50:]}"  # which is short enough in any encoding
        if own.casefold() not in used and not own.startswith((folders.DYING, folders.MOVING)):
            return own
    raise AssertionError("unreachable")


# --- notes ----------------------------------------------------------------------------------------


def _note(home: str, folder: str) -> dict[str, Any]:
    """Nothing, if it cannot be read."""
    try:
        with files.open_to_read(home, _in(folder, NOTE)) as file:
            text = files.read_all(file.fileno(), _LONGEST_NOTE + 1)
        note = json.loads(text) if len(text) <= _LONGEST_NOTE else None
    except (Unreadable, OSError, ValueError, RecursionError):
        return {}
    return note if isinstance(note, dict) else {}


def _trashed(home: str, folder: str) -> Trashed:
    note = _note(home, folder)

    def text(key: str, otherwise: str = "") -> str:
        value = note.get(key)
        return value if isinstance(value, str) else otherwise

    names = note.get("names", note.get("paths", ()))
    return Trashed(
        text("id", folder),
        text("program"),
        text("deleted") if _moment(text("deleted")) else "",
        folder,
        folders.size(home, _in(folder)),
        text("root"),
        tuple(names) if _are_texts(names) else (),
        text("title"),
        home,
    )


def _places(home: str, folder: str, root: str) -> dict[str, str]:
    """Where each thing lay, named from `root`, and its name in the folder. Only places below `root`, and only
    such as can all be there at once."""
    note = _note(home, folder)
    names, own = note.get("names"), note.get("as")
    if names is None and _are_texts(paths := note.get("paths")):  # as notes were before they had a root
        names, own = [_from(root, path) for path in paths], [os.path.basename(path) for path in paths]
    path = os.path.join(home, _in(folder))
    if not names or not _are_texts(names) or not _are_texts(own) or len(names) != len(own):
        raise Conflict(path, "does not say where it lay", "move its files to where they belong")
    for name in names:
        if not _is_relative(name) or any(_is_inside(name, other) for other in names):
            raise Conflict(path, f"names a place outside {root}: {name!r:.80}", "move its files by hand")
    for each in own:
        if not _is_relative(each) or os.sep in each or each in _OURS:
            raise Conflict(path, f"names a file outside itself: {each!r:.80}", "move its files by hand")
    places = dict(zip(names, own, strict=True))
    if not len(places) == len(set(places.values())) == len(own):
        raise Conflict(path, "names one file twice", "move its files by hand")
    return places


def _are_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _is_inside(name: str, other: str) -> bool:
    return name.startswith(f"{other}{os.sep}")


def _is_relative(name: str) -> bool:
    if {"", os.curdir, os.pardir} & set(name.split(os.sep)):
        return False
    try:
        return b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        return False


def _from(root: str, path: str) -> str:
    """The path as named from `root`; as it is, if it does not lie there."""
    for above in (os.path.abspath(root), os.path.realpath(root)):
        beginning = os.path.join(above, "")
        if path.startswith(beginning):
            return path[len(beginning) :]
    return path


def _moment(stamp: str) -> datetime | None:
    """When that was, if it is a stamp as we write them."""
    try:
        moment = datetime.fromisoformat(stamp)
        return moment if ids.stamp(moment) == stamp else None
    except (ValueError, OverflowError):
        return None


def _age_order(trashed: Trashed) -> tuple[datetime, int, str]:
    number = trashed.folder.removeprefix(f"{ids.file_name(trashed.id)}.")
    moment = _moment(trashed.deleted) or datetime.min.replace(tzinfo=UTC)
    return moment, int(number) if number.isdecimal() else 1, trashed.folder
