"""Reading what changed into the catalog.

A session that only grew is read from where the last reading stopped: if its file is the one it was, if what
was there then is still there, and if nothing in it was out of order. Otherwise it is read anew. Both give the
same, so nobody can tell which it was: up to 16 MB a checksum over all of it says what is still there, beyond
that one over its beginning and its last 16 MB.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import msgspec
from msgspec import Struct

from perdure.errors import Conflict, PerdureError, Unreadable
from perdure.session import listing, summary, tree
from perdure.session.catalog import KEY_BITS, LATEST, readable, storable
from perdure.session.entry import (
    Assistant,
    BashExecution,
    Entry,
    Message,
    System,
    ToolCall,
    ToolResult,
    text_of,
)
from perdure.session.ids import milliseconds
from perdure.session.layouts import LAYOUTS, Home
from perdure.session.query import searchable
from perdure.session.record import REFUSED, dumps
from perdure.session.stores import Cursor, Found, Header, Page, open_store
from perdure.session.stores.file_store import FileStore
from perdure.session.stores.jsonl import JsonlStore
from perdure.session.summary import Summary, Tally

if TYPE_CHECKING:
    from perdure.session.catalog import Change, Progress
    from perdure.session.listing import Status

_A_BATCH = 2**23  # characters of text, and so of memory, before they are written
_A_WHILE = 0.5  # seconds of reading, for the same
_SETTLED = 2 * 10**9
"""Nanoseconds after which a file's times tell every later change of it. Until then a second change may have
the time of the first, so such a file is looked at again."""
_CHECKED = 2**24  # bytes at the end of what was read
_CHECKED_FIRST = 2**16  # and at its beginning, where that is not the same
_LONGEST_SAID, _LONGEST_RESULT = 100_000, 10_000
"""Characters of a message, and of what a tool answered, that can be searched for."""
_MOST_VALUES = 500  # in one statement
_SMALL = 2**20  # bytes of a file that is read whole in any layout


class State(Struct):
    """How far a session was read, and what is needed to go on from there."""

    stamp: int
    cursor: Cursor
    check: int
    tally: Tally


class Known(NamedTuple):
    """The row of a session as it is."""

    key: int
    stamp: int
    has_text: bool
    state: bytes | None


class Learnt(NamedTuple):
    """What a reading found out."""

    summary: Summary
    entries: Sequence[Entry]
    """Those that are new."""
    is_more: bool
    """Whether they come behind what is known already, and do not take its place."""
    state: State | None
    """None if a later reading has to begin anew."""
    lock: str


class Indexing:
    def __init__(self, db: sqlite3.Connection, now: int, text: bool) -> None:
        """`now` is when the files were looked at, or before; `text` whether what is said is wanted too."""
        self._db = db
        self._now = now
        self._text = text
        self._stores: dict[Home, FileStore] = {}
        self._listed: dict[Home, set[str]] = {}

    def bring_up_to_date(
        self, changed: Sequence[Change], gone: Iterable[tuple[Home, str]], progress: Progress | None
    ) -> None:
        done = 0
        while gone or done < len(changed):
            # Read and written under one lock, for a while: whoever catches up beside us waits and sees it.
            with self._changing():
                for home, path in gone:
                    known = self._known(home, path)
                    if known and not self._is_back(home, path):
                        self._forget(known)
                gone = ()
                texts = _Texts(self._db)
                enough = time.monotonic() + _A_WHILE  # what is done stays done, whoever gets impatient
                while done < len(changed) and texts.size < _A_BATCH and time.monotonic() < enough:
                    self._take(changed[done], texts)
                    done += 1
                    if progress is not None:
                        progress(done, len(changed))
                texts.write()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def _is_back(self, home: Home, path: str) -> bool:
        """Whether what was not listed is now: somebody else may know it already. That something has its name
        does not say so: it may be reached through a link, or be a folder where a file was."""
        if not os.path.lexists(path):
            return False
        if home not in self._listed:
            with suppress(Unreadable):
                self._listed[home] = {place[1] for place in listing.places(home)}
        return path in self._listed.get(home, (path,))

    # --- one session ------------------------------------------------------------------------------------

    def _take(self, change: Change, texts: _Texts) -> None:
        """One session, whatever is in it: if it cannot be told what that is, this is its row."""
        home, name, path, status, other = change
        known = self._known(home, path)
        stamp = listing.stamp(status, other)
        lacks_text = self._text and not (known and known.has_text)
        if known and known.stamp == stamp and stamp and not lacks_text:
            return  # somebody else was here
        ref = Found(listing.namer(home.program)(name), path)
        try:
            learnt = self._learn(home, ref, status, stamp, None if lacks_text else known)
            self._keep(change, ref, known, learnt, texts)
        except sqlite3.DatabaseError:
            raise
        except Exception as error:
            if known and not os.path.lexists(path):
                self._forget(known)  # it went while we looked
            elif os.path.lexists(path):
                self._keep(change, ref, known, _unreadable(error), texts)

    def _keep(self, change: Change, ref: Found, known: Known | None, learnt: Learnt, texts: _Texts) -> None:
        home, _, _, status, other = change
        has_text = self._text or bool(known and known.has_text)  # once it is there, it stays up to date
        said = [(each, *(_said(each) if has_text else ("", ""))) for each in learnt.entries]
        kept = self._to_keep(learnt, listing.stamp(status, other), status, other)
        key = self._write(home, ref, status, {"stamp": kept, "has_text": has_text}, known, learnt)
        if known:
            self._forget_entries(key, _TITLE if learnt.is_more else None)
        for entry, role, text in said:
            texts.put(key, entry.id, milliseconds(entry.timestamp), role, text)
        about = learnt.summary
        if has_text and about.is_named:  # which can be searched for, and what it was called before cannot
            texts.put(key, _TITLE, milliseconds(about.active), "title", about.title)

    def _forget(self, known: Known) -> None:
        self._forget_entries(known.key)
        self._db.execute("DELETE FROM reading WHERE session = ?", (known.key,))
        self._db.execute("DELETE FROM session WHERE key = ?", (known.key,))

    def _known(self, home: Home, path: str) -> Known | None:
        values = [home.path, home.program, os.path.dirname(path), path]
        row = self._db.execute(
            "SELECT key, stamp, has_text, state FROM session LEFT JOIN reading ON reading.session = key"
            " WHERE home = ? AND program = ? AND folder = ? AND path = ?",
            [*map(storable, values)],
        ).fetchone()
        return Known(*row) if row else None

    def _learn(self, home: Home, ref: Found, status: Status, stamp: int, known: Known | None) -> Learnt:
        store = self._store(home)
        if known and known.state and status and (more := self._more(store, ref, status, stamp, known)):
            return more
        if status and status.st_size > _SMALL and (part := store.excerpt(ref)):
            entries = {entry.id: entry for entry in (*part.first, *part.last)}  # each once, as in a tree
            about = summary.of_excerpt(part, lambda problem: problem.brief)
            return Learnt(about, [*entries.values()], False, None, store.lock_path(ref))
        check = _check(ref.path, status.st_size if status else 0)
        page = store.read(ref)
        folded = tree.fold(page.entries)
        tally = Tally()
        tally.add(folded.entries)
        problems = [*(problem.brief for problem in page.problems), *folded.notices]
        state = _state(store, page, status, State(stamp, page.cursor, check, tally), problems)
        about = tally.summary(page.header, problems, page.messages)
        return Learnt(about, folded.entries, False, state, store.lock_path(ref))

    def _more(
        self, store: FileStore, ref: Found, status: os.stat_result, stamp: int, known: Known
    ) -> Learnt | None:
        """What came behind the known part of a session; None if it has to be read from its beginning."""
        try:
            state = _STATE.decode(known.state or b"")
        except REFUSED:
            return None
        cursor = state.cursor
        grew = status.st_size > cursor.offset
        if cursor.inode != status.st_ino or status.st_size < cursor.offset:
            return None
        if not grew and stamp != state.stamp and cursor.offset > _CHECKED:
            return None  # something else is different, and perhaps not in the part that is checked
        if _check(ref.path, cursor.offset) != state.check:
            return None
        check = _check(ref.path, status.st_size)
        try:
            page = store.read(ref, cursor)
        except Conflict:
            return None
        if not self._is_in_order(known.key, page.entries):
            return None
        state.tally.add(page.entries)
        problems = [problem.brief for problem in page.problems]
        about = state.tally.summary(page.header, problems)
        new = _state(store, page, status, State(stamp, page.cursor, check, state.tally), problems)
        return Learnt(about, page.entries, True, new, store.lock_path(ref))

    def _is_in_order(self, key: int, entries: Sequence[Entry]) -> bool:
        """Whether each entry is new, and follows one that is there: the tree is then as the file has it."""
        new: set[str] = set()
        parents: set[str] = set()
        for entry in entries:
            if entry.id in new:
                return False
            if entry.parent_id is not None and entry.parent_id not in new:
                parents.add(entry.parent_id)
            new.add(entry.id)
        return not self._which_are_known(key, new) and self._which_are_known(key, parents) == parents

    def _which_are_known(self, key: int, ids: set[str]) -> set[str]:
        every = [*ids]
        found: set[str] = set()
        for at in range(0, len(every), _MOST_VALUES):
            some = [*map(storable, every[at : at + _MOST_VALUES])]
            marks = ",".join("?" * len(some))
            rows = self._db.execute(
                f"SELECT id FROM entry WHERE session = ? AND id IN ({marks})", [key, *some]
            )
            found.update(readable(id) for (id,) in rows)
        return found

    def _to_keep(self, learnt: Learnt, stamp: int, status: Status, other: Status) -> int:
        """The stamp; 0 where the files may change, or be read better, without showing it."""
        times = [when for each in (status, other) if each for when in (each.st_mtime_ns, each.st_ctime_ns)]
        return stamp if learnt.lock and self._now - max(times, default=0) > _SETTLED else 0

    def _write(
        self,
        home: Home,
        ref: Found,
        status: Status,
        columns: dict[str, Any],
        known: Known | None,
        learnt: Learnt,
    ) -> int:
        about = learnt.summary
        mtime = status.st_mtime_ns // 10**6 if status else 0
        created = milliseconds(about.created) or min(max(0, mtime), LATEST)
        is_used_by_opening = LAYOUTS[home.program].is_used_by_opening
        opened = milliseconds(about.opened) if is_used_by_opening else 0
        columns |= {
            "program": home.program,
            "home": home.path,
            "folder": os.path.dirname(ref.path),
            "path": ref.path,
            "id": ref.id,
            "title": about.title,
            "preview": about.preview,
            "messages": about.messages,
            "turns": about.turns,
            "kind": about.kind,
            "summary": about.summary,
            "created": created,
            "active": max(milliseconds(about.active) or created, opened),
            "waits": about.waits,
            "recorded": about.status,
            "cwd": about.cwd,
            "project": about.project,
            "root": about.root,
            "size": status.st_size if status else 0,
            "problem": about.problem,
            "lock": learnt.lock,
            "title_is_cut": about.title_is_cut,
            "preview_is_cut": about.preview_is_cut,
            "summary_is_cut": about.summary_is_cut,
        }
        values = [storable(each) if isinstance(each, str) else each for each in columns.values()]
        if known:
            key = known.key
            named = ", ".join(f"{name} = ?" for name in columns)
            self._db.execute(f"UPDATE session SET {named} WHERE key = ?", [*values, key])
        else:
            marks = ", ".join("?" * len(columns))
            done = self._db.execute(f"INSERT INTO session ({', '.join(columns)}) VALUES ({marks})", values)
            key = int(done.lastrowid or 0)
        state = dumps(learnt.state) if learnt.state else None
        self._db.execute("INSERT OR REPLACE INTO reading (session, state) VALUES (?, ?)", (key, state))
        return key

    def _forget_entries(self, key: int, id: str | None = None) -> None:
        """All of a session, or one."""
        which = "session = ?" if id is None else "session = ? AND id = ?"
        values = [key, *([] if id is None else [id])]
        keys = self._db.execute(f"SELECT key FROM entry WHERE {which}", values).fetchall()
        self._db.executemany("DELETE FROM said WHERE rowid = ?", keys)
        self._db.execute(f"DELETE FROM entry WHERE {which}", values)

    def _store(self, home: Home) -> FileStore:
        if home not in self._stores:
            store = open_store(home.program, home.path)
            assert isinstance(store, FileStore)
            self._stores[home] = store
        return self._stores[home]


_STATE = msgspec.json.Decoder(State)


def _state(
    store: FileStore, page: Page, status: Status, state: State, problems: Sequence[str]
) -> State | None:
    """To be kept, if a later reading may go on from there.

    Not where anything was out of order; not behind a line that has not ended, for more of it may come; and
    not if the file had another size when its checksum was made, which was before it was read: a change in
    between makes the next reading begin anew.
    """
    is_ended = page.cursor.tail[-1:] in (b"", b"\n") and page.cursor.line >= 0
    is_whole = status is not None and page.cursor.offset == status.st_size
    return state if isinstance(store, JsonlStore) and is_ended and is_whole and not problems else None


def _unreadable(error: Exception) -> Learnt:
    if isinstance(error, OSError):
        error = Unreadable("", error)
    if isinstance(error, Unreadable):
        reason = f"cannot be read: {error.reason}"
    else:
        told = error.message if isinstance(error, PerdureError) else f"{type(error).__name__}: {error}"
        reason = f"cannot be read: {told}"
    return Learnt(Tally().summary(Header("", ""), [reason]), (), False, None, "")


def _check(path: str, end: int) -> int:
    """A checksum of a file before `end`; of a very large one of its first and its last bytes there."""
    start = max(0, end - _CHECKED)
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return 0  # reading it will say why
    try:
        first = crc32(os.pread(file, min(start, _CHECKED_FIRST), 0)) if start else 0
        return crc32(os.pread(file, end - start, start), first)
    except OSError:
        return 0  # as that of a folder, or of a pipe
    finally:
        os.close(file)


# --- text ---------------------------------------------------------------------------------------------


class _Texts:
    """Entries on their way into the catalog. They are written in the order of their keys: a full-text index
    that is given them in any other puts each by itself."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._rows: list[tuple[Any, ...]] = []
        self._count: dict[int, int] = {}
        """How many entries of each moment are among them."""
        self.size = 0

    def put(self, session: int, id: str, moment: int, role: str, text: str) -> None:
        """An entry of that moment, and what can be found of it."""
        moment = min(moment, LATEST)
        number = self._count.get(moment, 0)
        self._count[moment] = number + 1
        text = searchable(text) if text else ""
        self.size += len(text) + 100
        row = session, storable(id), storable(role), text
        self._rows.append(((moment << KEY_BITS) + number, *row))

    def write(self) -> None:
        self._db.execute("SAVEPOINT texts")
        try:
            self._write(self._rows)
        except sqlite3.IntegrityError:  # a key is taken: another session has an entry of that moment
            self._db.execute("ROLLBACK TO texts")
            free = {moment: self._free(moment) for moment in self._count}
            self._write([(key + free[key >> KEY_BITS], *row) for key, *row in self._rows])
        self._db.execute("RELEASE texts")

    def _write(self, rows: Sequence[tuple[Any, ...]]) -> None:
        rows = sorted(rows, key=itemgetter(0))
        self._db.executemany(
            "INSERT INTO entry (key, session, id) VALUES (?, ?, ?)", [row[:3] for row in rows]
        )
        self._db.executemany(
            "INSERT INTO said (rowid, session, entry, role, text) VALUES (?, ?, ?, ?, ?)",
            [row for row in rows if row[4]],
        )

    def _free(self, moment: int) -> int:
        """From which number on the keys of a moment are free."""
        first, last = moment << KEY_BITS, (moment + 1 << KEY_BITS) - 1
        statement = "SELECT max(key) FROM entry WHERE key BETWEEN ? AND ?"
        (taken,) = self._db.execute(statement, (first, last)).fetchone()
        return 0 if taken is None else int(taken) - first + 1


_TITLE = ""
"""Stands for a session's title among its entries' ids, none of which is empty."""


def _said(entry: Entry) -> tuple[str, str]:
    """Who said it, as a search tells them apart, and what there is to find."""
    if entry.type == "session_info":
        return "", ""  # the title says it
    if entry.type != "message":
        return ("custom" if entry.type == "custom_message" else "summary"), entry.text[:_LONGEST_SAID]
    match entry.body:
        case Message(message=Assistant(content=content)):
            parts = [text_of(content)]
            if not isinstance(content, str):
                parts += [
                    text for block in content if isinstance(block, ToolCall) for text in _texts_of(block)
                ]
            return "assistant", "\n".join(parts)[:_LONGEST_SAID]
        case Message(message=ToolResult(content=content)):
            return "tool", text_of(content)[:_LONGEST_RESULT]
        case Message(message=BashExecution() as ran):
            return "tool", f"{ran.command}\n{ran.output[:_LONGEST_RESULT]}"
        case Message(message=System()):
            return "system", ""
    return entry.role, entry.text[:_LONGEST_SAID]


def _texts_of(call: ToolCall) -> Iterator[str]:
    """A tool's name and whatever is text in what it was called with."""
    yield call.name
    waiting = [call.arguments]
    while waiting:
        match waiting.pop():
            case str(text):
                yield text
            case dict(members):
                waiting.extend(reversed(members.values()))
            case list(items):
                waiting.extend(reversed(items))
