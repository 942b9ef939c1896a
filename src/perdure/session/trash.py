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
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import NamedTuple

from perdure.errors import Conflict, Held, NotFound, NotSaved, PerdureError, Unreadable, UsageError
from perdure.session import ids
from perdure.session.stores import files, folders
from perdure.session.stores.lock import Lock
from perdure.session.trash_note import (
    NOTE,
    OURS,
    TRASH,
    Trashed,
    age_order,
    in_trash,
    is_folder,
    is_inside,
    is_left_over,
    moment_of,
    places_in,
    read_note,
    sessions_own,
    trashed_in,
)

DAYS = 30
_LOCK = os.path.join("locks", "trash~.lock")
_WAIT = 10.0
_SYNCS_AT_ONCE = 4
"""Threads that wait for the disk: it writes down together what is wanted together."""


class Leaving(NamedTuple):
    """A session on its way into the trash."""

    id: str
    root: str
    names: Sequence[str]
    """Its files and folders, named from `root`, the session itself last."""
    title: str = ""


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
    (done,) = discard_all(home, program, [Leaving(id, root, names, title)], private=private)
    if isinstance(done, PerdureError):
        raise done
    return done


def discard_all(
    home: str, program: str, leaving: Sequence[Leaving], *, private: bool = True
) -> list[Trashed | PerdureError]:
    """The same for several sessions, each for itself: for each what is in the trash now, or why it is not.

    All notes are synced before the first file is moved, and all moves when the last is done: a disk writes
    many changes down in the time of one. The folders that files came to are synced before those they left: a
    power cut may leave a session in both, and never in neither.
    """
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(_changing(home, private))
        except PerdureError as error:
            return [error] * len(leaving)
        states: list[_Plan | PerdureError] = []
        for each in leaving:
            try:
                states.append(_note_down(home, program, each, private))
            except PerdureError as error:
                states.append(error)
        synced = _SyncedFolders()

        def sync_note(plan: _Plan) -> None:
            _sync_note(home, plan.folder)
            synced.sync(home, TRASH)

        def remove_note(plan: _Plan) -> None:
            _remove_if_empty(home, plan.folder)

        states = _advanced(states, sync_note, undo=remove_note, at_once=_SYNCS_AT_ONCE)
        states = _advanced(states, lambda plan: _move_all(plan.moves, sync=False), undo=remove_note)

        def sync_new_place(plan: _Plan) -> None:
            _sync_folder(home, in_trash(plan.folder))

        def sync_old_places(plan: _Plan) -> None:
            for root, name, _, _ in plan.moves:
                synced.sync(root, os.path.dirname(name))

        def move_back(plan: _Plan) -> None:
            _move_back(plan.moves)
            remove_note(plan)

        states = _advanced(states, sync_new_place, undo=move_back, at_once=_SYNCS_AT_ONCE)
        states = _advanced(states, sync_old_places, undo=move_back)
        return [trashed_in(home, each.folder) if isinstance(each, _Plan) else each for each in states]


def listed(home: str) -> list[Trashed]:
    """Everything in the trash, what was deleted last first, and what does not say when at the end."""
    with files.told(Unreadable, os.path.join(home, TRASH)):
        try:
            names = files.contents(home, TRASH)
        except FileNotFoundError:
            return []
    found = [
        trashed_in(home, name) for name in names if is_folder(home, name) and not is_left_over(home, name)
    ]
    return sorted(found, key=age_order, reverse=True)


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
        if not is_folder(home, trashed.folder):
            raise NotFound("Deleted session", trashed.id, hint="it was restored, or deleted for good")
        places = places_in(home, trashed.folder, root)
        found = {
            name: _found(home, in_trash(trashed.folder, own), root, name) for name, own in places.items()
        }
        *_, (main, (is_here, is_back)) = found.items()
        path = os.path.join(root, main)
        if not is_here and not is_back:
            raise Conflict(path, "is neither in its place nor in the trash any more", "look for a copy")
        if is_here and not is_back and is_taken():  # in its place, the id is its own
            hint = "rename or delete that session, then restore again"
            raise Conflict(path, f"has an id that another session has by now: {trashed.id}", hint)
        _bring_back(
            [
                (home, in_trash(trashed.folder, places[name]), root, name)
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
    before: Callable[[], object] = lambda: None,
    private: bool = True,
) -> list[Trashed]:
    """Delete for good what was deleted more than `days` ago. What does not say when, or says it will be, is
    kept, and what `keep` wants. Returns what is gone; what cannot be deleted is left for the next time.
    `before` is called before the first goes, and where it raises, all is kept."""
    if not days >= 0:
        raise UsageError(f"days is a number that is not negative, not {days!r}")
    today = now()

    def is_over(trashed: Trashed) -> bool:
        deleted = moment_of(trashed.deleted)
        if deleted is None or keep(trashed):
            return False
        age = (today - deleted) / timedelta(days=1)
        return age > days or age == days == 0

    return remove_for_good(home, is_over, before=before, private=private)


def remove_for_good(
    home: str,
    chosen: Callable[[Trashed], bool] = lambda _: True,
    *,
    before: Callable[[], object] = lambda: None,
    private: bool = True,
) -> list[Trashed]:
    """Delete for good what is chosen, or all there is, whatever its age. Returns what is gone.

    Under the lock they only lose their names, which takes no time; what has none is nobody's.
    """
    if not files.names(home, TRASH):
        return []
    with _changing(home, private):
        found = [each for each in listed(home) if chosen(each) and not _is_half_deleted(home, each)]
        if found:
            before()
        going: dict[str, Trashed | None] = {each.folder: each for each in found}
        going |= {name: None for name in files.names(home, TRASH) if is_left_over(home, name)}
        dying = []
        for name, trashed in going.items():
            with contextlib.suppress(NotSaved):
                is_dying = name.startswith(folders.DYING)
                dying.append((in_trash(name) if is_dying else folders.condemn(home, in_trash(name)), trashed))
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
        lock = Lock(home, _LOCK, TRASH, _WAIT, private=private)
    except Held as held:
        holder = f"process {held.pid}" if held.pid else "another process"
        raise Conflict(os.path.join(home, TRASH), f"is in use by {holder}", "try again later") from held
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


def _move_all(moves: Sequence[_Move], *, sync: bool = True) -> None:
    """All, or none. After a crash it may be some: the session itself is the last."""
    try:
        for move in moves:
            folders.move(*move, sync=sync)
    except PerdureError:
        _move_back(moves)
        raise


def _move_back(moves: Sequence[_Move]) -> None:
    for root, name, new_root, new_name in reversed(moves):
        with contextlib.suppress(PerdureError):  # as of those that were not moved
            folders.move(new_root, new_name, root, name)


# --- deleting many at once ------------------------------------------------------------------------------


class _Plan(NamedTuple):
    """A session whose note is written, and the moves that delete it."""

    folder: str
    moves: list[_Move]


class _SyncedFolders:
    """Syncs each folder once, however many sessions changed it. One that failed stays failed: the kernel may
    call the next try good."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._synced: dict[tuple[str, str], PerdureError | None] = {}

    def sync(self, root: str, folder: str) -> None:
        with self._turn:
            if (root, folder) not in self._synced:
                self._synced[root, folder] = self._error_of(root, folder)
        if error := self._synced[root, folder]:
            raise error

    def _error_of(self, root: str, folder: str) -> PerdureError | None:
        try:
            _sync_folder(root, folder)
        except PerdureError as error:
            return error
        return None


def _sync_folder(root: str, folder: str) -> None:
    with files.told(NotSaved, os.path.join(root, folder)):
        files.sync_folder_below(root, folder)


def _advanced(
    states: Sequence[_Plan | PerdureError],
    step: Callable[[_Plan], None],
    *,
    undo: Callable[[_Plan], None],
    at_once: int = 1,
) -> list[_Plan | PerdureError]:
    """Every session one step further, but for those that failed, now or before."""

    def advanced(state: _Plan | PerdureError) -> _Plan | PerdureError:
        if isinstance(state, _Plan):
            try:
                step(state)
            except PerdureError as error:
                undo(state)
                return error
        return state

    if at_once == 1 or len(states) == 1:
        return [*map(advanced, states)]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(at_once) as threads:
        return [*threads.map(advanced, states)]


def _note_down(home: str, program: str, leaving: Leaving, private: bool) -> _Plan:
    """Make its folder in the trash and write its note, both still to be synced. If this raises, what was not
    deleted leaves no trace."""
    id, root, names, title = leaving
    root = os.path.abspath(root)
    folder, here = _folder_for(home, id, root, names, private)
    new = [name for name in dict.fromkeys(names) if not any(is_inside(name, other) for other in names)]
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
    text = json.dumps(note, indent=2).encode()
    try:
        # A note that is there already must not be replaced by one that a power cut would empty.
        files.replace(home, in_trash(folder, NOTE), text, sync=bool(here), private=private)
    except PerdureError:
        _remove_if_empty(home, folder)
        raise
    return _Plan(folder, [(root, name, home, in_trash(folder, places[name])) for name in new])


def _sync_note(home: str, folder: str) -> None:
    path = in_trash(folder, NOTE)
    with files.told(NotSaved, os.path.join(home, path)), files.open_beneath(home, path, os.O_RDONLY) as file:
        files.sync_data(file.fileno())
    _sync_folder(home, in_trash(folder))


def _remove_if_empty(home: str, folder: str) -> None:
    """A folder that holds nothing but what we made to manage it."""
    with contextlib.suppress(OSError, PerdureError):
        if not sessions_own(home, folder):
            folders.remove_tree(home, in_trash(folder))


def _is_half_deleted(home: str, trashed: Trashed) -> bool:
    """Whether the session itself is still in its place, and here nothing, or its copy: a delete that was
    interrupted. Another session may be in that place by now."""
    try:
        *_, own = places_in(home, trashed.folder, trashed.root or os.sep).values()
        place = in_trash(trashed.folder, own)
        root, name = os.path.split(os.path.join(trashed.root, trashed.names[-1]))
        return os.path.lexists(os.path.join(root, name)) and (
            files.status(home, place) is None or folders.are_same(home, place, root, name)
        )
    except (OSError, PerdureError):
        return False


# --- folders in the trash -----------------------------------------------------------------------------


def _folder_for(
    home: str, id: str, root: str, names: Sequence[str], private: bool
) -> tuple[str, dict[str, str]]:
    """A folder for a session, and what of it is there already: a delete that was interrupted goes on."""
    place = os.path.join(home, TRASH)
    with files.told(NotSaved, place):
        if os.path.lexists(place) and not os.path.isdir(place):
            raise files.not_a_folder(place)
        files.make_folder(place, private=private)
    for number in itertools.count(1):
        folder = ids.file_name(id) if number == 1 else f"{ids.file_name(id)}.{number}"
        if files.new_folder(home, in_trash(folder), private=private, sync=False):
            return folder, {}
        with contextlib.suppress(OSError, PerdureError):
            if (here := _begun(home, folder, id, root, names)) is not None:
                return folder, here
    raise AssertionError("unreachable")


def _begun(home: str, folder: str, id: str, root: str, names: Sequence[str]) -> dict[str, str] | None:
    """What a delete that was interrupted has moved here; None if the folder is of another one."""
    own = sessions_own(home, folder)
    if not own:
        return {}
    note = read_note(home, folder)
    places = places_in(home, folder, root)
    *_, main = places
    here = {name: place for name, place in places.items() if place in own}
    is_this = (note.get("id"), note.get("root")) == (id, root) and len(here) == len(own)
    is_unfinished = main not in here or main in names
    are_copies = all(
        folders.are_same(home, in_trash(folder, place), root, name)
        for name, place in here.items()
        if name in names
    )
    return here if is_this and is_unfinished and are_copies else None


def _free(name: str, taken: Iterable[str]) -> str:
    """A name in a session's folder; where case makes no difference as well."""
    used = {each.casefold() for each in (*OURS, *taken)}
    for number in itertools.count(1):
        own = name if number == 1 else f"{number}.{name[-50:]}"  # which is short enough in any encoding
        if own.casefold() not in used and not own.startswith((folders.DYING, folders.MOVING)):
            return own
    raise AssertionError("unreachable")
