"""Sessions for programs that talk in many, or keep no state of their own: each call stands alone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from perdure import config
from perdure.errors import Ambiguous, NotFound, PerdureError, UsageError
from perdure.session import ids, summary, tree
from perdure.session.entry import Entry, content_of, decode, placed
from perdure.session.session import Session
from perdure.session.stores import Cursor, Durability, Found, Header, Page, Store, open_store


class SessionSummary(NamedTuple):
    id: str
    title: str
    """Its name, or else the first thing the user said, on one line."""
    timestamp: str
    """When somebody last said something; before that, when it was made."""
    message_count: int | None
    """None if it is so large that only its beginning and its end were read."""
    status: str
    """active: a process is talking in it. interrupted: the last word waits for an answer. idle: neither.
    unreadable: its file cannot be opened."""
    problem: str | None
    """Why the session, or a part of it, cannot be read: the first reason, and how many more there are."""
    cwd: str
    """The directory of its project."""


class _Seen(NamedTuple):
    """How far a session has been read, so that the next save reads only what is new."""

    cursor: Cursor
    ids: set[str]
    last: str | None
    """The entry that was written last, on whatever branch."""
    ends: tree.Ends


class SessionManager:
    """Create, load, save, list and delete sessions in pi's layout.

    Without `sessions_dir` they are in pi's own home, where a new one is put with its project's. Safe to use
    from any number of processes and threads at once: a save waits its turn, and reads what others saved
    before it.
    """

    def __init__(
        self,
        sessions_dir: str | os.PathLike[str] | None = None,
        *,
        durability: Durability = "power",
        wait: float = 10.0,
    ) -> None:
        if not isinstance(wait, int | float) or not wait >= 0:
            raise UsageError(f"wait is a number of seconds, not {wait!r}")
        self._store = pi_store(sessions_dir, durability)
        self._wait = wait
        self._refs: dict[str, Found] = {}
        self._seen: dict[str, _Seen] = {}
        self._doubtful: dict[str, set[str]] = {}
        """Entries whose save did not succeed: if they are found in the file all the same, that proves nothing
        about the disk, and they are written again. Read, the two count as one."""

    def create_session(self) -> str:
        ref = self._store.create(Header(ids.new_id(), ids.stamp(ids.now())))
        self._refs[ref.id] = ref
        return ref.id

    def load_session(self, session_id: str) -> list[Entry]:
        """The messages from the first to the head: what was said, tools called and what they answered."""
        folded = tree.fold(self._store.read(self._find(session_id)).entries)
        return [entry for entry in tree.path(folded.entries, folded.ends.head) if entry.type == "message"]

    def save(self, session_id: str, entries: Iterable[Entry]) -> list[Entry]:
        """Append what is not there yet, in order; all of it durable when this returns, or none.

        An entry without a parent follows the last entry of the session, whoever wrote that. One whose id is
        there already is skipped if it says the same, and gets a new id if it does not. Returns the entries as
        they stand in the session.
        """
        given = _checked(entries)
        ref = self._find(session_id)
        seen = self._seen.pop(ref.id, None)  # back when all is saved; until then, nothing is known of the end
        with self._store.writer(ref, self._wait, *([seen.cursor] if seen else [])) as writer:
            seen = _caught_up(seen, writer.catch_up())
            placed_entries, fresh = self._placed(ref, seen, given)
            doubtful = self._doubtful.setdefault(ref.id, set())
            doubtful.update(entry.id for entry in fresh)
            cursor = writer.append(fresh)
            doubtful.difference_update(entry.id for entry in fresh)
        seen.ids.update(entry.id for entry in fresh)
        last = fresh[-1].id if fresh else seen.last
        self._seen[ref.id] = _Seen(cursor, seen.ids, last, tree.advanced(seen.ends, fresh))
        return placed_entries

    def open_session(self, session_id: str) -> Session:
        """A session to talk in, held until it is closed: appends, branches, forks, names, labels, and what a
        model would be sent. Raises `Held` while another process holds it."""
        return Session.open(self._store, self._find(session_id), wait=self._wait)

    def view_session(self, session_id: str) -> Session:
        """The same to look at only, also while another process talks in it."""
        return Session.view(self._store, self._find(session_id))

    def list_sessions(self) -> list[SessionSummary]:
        """Every session, the one last talked in first. A broken one is listed with its problem."""
        summaries = [self._summary(ref) for ref in self._store.list()]
        return sorted(summaries, key=lambda each: (each.timestamp, each.id), reverse=True)

    def delete_session(self, session_id: str) -> None:
        """Move it to the trash. Raises `Held` while a process talks in it."""
        ref = self._find(session_id)
        self._store.delete(ref)
        self._refs.pop(ref.id, None)
        self._seen.pop(ref.id, None)
        self._doubtful.pop(ref.id, None)

    def restore_session(self, session_id: str) -> str:
        """Bring a deleted session back from the trash; returns its id. The error says why not."""
        ref = self._store.restore(session_id.removeprefix(f"{self._store.name}:"))
        self._refs[ref.id] = ref
        return ref.id

    def _find(self, session_id: str) -> Found:
        """By id, by a beginning only one has, as `pi:id`, or by the path of a file that is listed."""
        if not isinstance(session_id, str):
            raise UsageError(f"A session id is a string, not {type(session_id).__name__}")
        session_id = session_id.removeprefix(f"{self._store.name}:")
        known = self._refs.get(session_id)
        if known is not None and os.path.lexists(known.path):
            return known
        found: dict[str, list[Found]] = {}
        for ref in self._store.list():
            if ref.path and ref.path == session_id:
                return ref
            found.setdefault(ref.id, []).append(ref)
        refs = found[ids.resolve(session_id, found)]
        if len(refs) > 1:
            raise Ambiguous(session_id, [ref.path for ref in refs])
        self._refs[refs[0].id] = refs[0]
        return refs[0]

    def _placed(self, ref: Found, seen: _Seen, entries: Sequence[Entry]) -> tuple[list[Entry], list[Entry]]:
        """All entries as they will stand in the session, and those of them that are to be written."""
        doubtful = self._doubtful.get(ref.id, set())
        here: dict[str, Entry] = {}
        renamed: dict[str, str] = {}  # within this call: children follow the entry they were given with
        every: list[Entry] = []
        fresh: list[Entry] = []
        parent = seen.ends.tip
        for entry in entries:
            id = entry.id
            if id in seen.ids or id in here:
                if id not in here:
                    here = {**self._by_id(ref), **here}
                there = here.get(id)
                if there is not None and _says_the_same(entry, there):
                    every.append(there)
                    if id in doubtful:
                        fresh.append(there)
                    continue
                renamed[id] = ids.new_id()
                id = renamed[id]
            above = parent if entry.parent_id is None else renamed.get(entry.parent_id, entry.parent_id)
            if above is not None and above not in seen.ids and above not in here:
                hint = "without a parent (parent_id=None) it would follow the session's last entry"
                raise NotFound("Parent entry", above, hint=hint)
            entry = placed(
                entry,
                id=id or ids.new_id(),
                parent_id=above,
                timestamp=entry.timestamp or ids.stamp(ids.now()),
            )
            here[entry.id] = entry
            every.append(entry)
            fresh.append(entry)
            parent = entry.id
        head = here.get(seen.ends.head or "")
        if fresh and fresh[-1].id in doubtful & seen.ids and head is not None and head.id != fresh[-1].id:
            fresh.append(head)  # written again behind it, the head stays where it was
        return every, fresh

    def _by_id(self, ref: Found) -> dict[str, Entry]:
        return {entry.id: entry for entry in tree.fold(self._store.read(ref).entries).entries}

    def _summary(self, ref: Found) -> SessionSummary:
        try:
            known = summary.of_session(self._store, ref)
        except PerdureError as error:
            return SessionSummary(ref.id, "", "", 0, "unreadable", error.message, "")
        active = self._store.holder(ref) is not None
        return SessionSummary(
            ref.id,
            known.title,
            known.active,
            known.messages,
            "active" if active else "interrupted" if known.waits else "idle",
            known.problem,
            known.cwd,
        )


def pi_store(
    sessions_dir: str | os.PathLike[str] | None, durability: Durability = "power", cwd: str | None = None
) -> Store:
    """pi's own home, or any folder of sessions in pi's layout. New ones are of the project in `cwd`."""
    if sessions_dir is None:
        return open_store("pi", durability=durability, cwd=cwd)
    try:
        folder = os.fspath(sessions_dir)
        if b"\0" in os.fsencode(folder) or not isinstance(folder, str):
            raise TypeError
    except (TypeError, UnicodeEncodeError):
        raise UsageError(f"Not a folder: {sessions_dir!r:.60}", "give its path as text") from None
    own = config.real_path(config.expanded(folder))
    return open_store("pi", own, sessions_dir=own, durability=durability, cwd=cwd)


def _caught_up(seen: _Seen | None, page: Page) -> _Seen:
    if seen is None or page.cursor.entries == len(page.entries):
        # All was read: it is new here, or was replaced.
        seen = _Seen(page.cursor, set(), None, tree.Ends(None, None))
    _, known, last, ends = seen
    found = []
    for entry in page.entries:
        if entry.parent_id is not None and entry.parent_id not in known:
            entry = placed(entry, parent_id=last)  # as `tree.fold` has it
        if entry.id not in known:
            known.add(entry.id)
            last = entry.id
        found.append(entry)
    return _Seen(page.cursor, known, last, tree.advanced(ends, found))


def _checked(entries: Iterable[Entry]) -> list[Entry]:
    """What `save` was given, if it is entries, and each of them a record."""
    try:
        given = list(entries)
    except TypeError:
        raise UsageError(f"Entries to save come in a list, not as {type(entries).__name__}") from None
    for entry in given:
        if not isinstance(entry, Entry):
            kind = type(entry).__name__
            raise UsageError(
                f"Not an entry but {kind}: {entry!r:.60}", "SessionEntry.message(role, text) makes one"
            )
        try:
            decode(entry.line)
        except ValueError as error:
            raise UsageError(
                f"Entry {entry.id} is no record: {error}", "SessionEntry.message makes one"
            ) from None
    return given


def _says_the_same(entry: Entry, there: Entry) -> bool:
    return entry.parent_id in (None, there.parent_id) and content_of(entry) == content_of(there)
