"""One conversation: a log, session.json and a transcript, read and written as one.

    <type>.md                  the transcript, for people
    .session/messages.jsonl    the log: what was said, and the truth for it
    .session/session.json      what is known of the conversation as a whole, and the truth for its status

A save appends to the log and syncs it, adds to the transcript, and then replaces session.json, which says how
much of the log it and the transcript take into account (`log_bytes`). Killed anywhere between, the log has
more than that: entries behind `log_bytes` are newer than what session.json says, every reader here takes them
as such, and the next save brings the other two up to date.

What counts as saved. What a message says is saved when it is in the log: a transcript or a message count
that could not be written is made again from it by the next save, and until then it is a problem of the
session, for whoever reads it in this process. An append that changes what session.json is the truth for
(status, agent_config, summary, title) is saved when that is in session.json too; if it is not, the append is
taken back from the log, and refused.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

from perdure.errors import NotSaved, PerdureError, Unreadable
from perdure.session.entry import Entry
from perdure.session.stores import (
    ALL,
    START,
    Cursor,
    Durability,
    Excerpt,
    Found,
    Header,
    Page,
    Problem,
    Problems,
    Repaired,
    cortext_format,
    files,
    lines,
    note,
)
from perdure.session.stores import cortext_state as layout
from perdure.session.stores.cortext_format import CortextReader
from perdure.session.stores.cortext_state import LOG, STATE, State, Tally
from perdure.session.stores.cortext_transcript import Transcript, is_shown
from perdure.session.stores.jsonl import JsonlStore, JsonlWriter
from perdure.session.stores.line_reader import LineReader
from perdure.session.stores.lock import Lock
from perdure.session.stores.plain import Members

_LARGEST = 2**24  # of a file that is read at once
_UNNUMBERED = 1  # a line about which nothing is told


class ConversationStore(JsonlStore):
    private = False

    def __init__(self, home: str, durability: Durability) -> None:
        super().__init__(home, home, durability, cwd=home)
        self.behind: dict[str, Problem] = {}
        """What could not be brought up to date with a log, by the log's path."""

    # --- reading ----------------------------------------------------------------------------------

    def read(self, ref: Found, after: Cursor = START) -> Page:
        if after == START and self._is_unwritten(ref):
            state = self._state(ref)
            return Page([], START, [*state.problems, *_lost(ref, state, 0)], self._header(ref, state, []))
        return super().read(ref, after)

    def read_back(self, ref: Found, problems: Problems | None = None) -> Generator[Entry, None, None]:
        if problems is not None:
            note(problems, *self._state(ref).problems, *self._told(ref))
        if not self._is_unwritten(ref):
            yield from super().read_back(ref, problems)

    def read_open(self, ref: Found, descriptor: int, after: Cursor, end: int | None = None) -> Page:
        state = self._state(ref)  # before the log is measured, which then is not behind it
        end = os.fstat(descriptor).st_size if end is None else end
        reader, cursor = self.scan(ref, descriptor, after, end)
        entries: Sequence[Entry] = reader.entries
        newer: Sequence[Entry] = ()
        is_behind = state.covers(end) < end
        if after.offset and (is_behind or not layout.says_when(state.members)):
            entries = self.everything(ref, descriptor, end)  # what it says depends on the first of them
        if is_behind:
            newer = self.newer(ref, descriptor, state, entries)
        header = self._header(ref, state, entries, newer)
        if after.offset:
            header = header._replace(covers=cursor.entries)
        problems = [*reader.problems, *state.problems, *_lost(ref, state, end), *self._told(ref)]
        return Page(reader.entries, cursor, problems, header)

    def excerpt_open(self, ref: Found, descriptor: int, end: int) -> Excerpt:
        state = self._state(ref)
        found = super().excerpt_open(ref, descriptor, end)
        is_behind = state.covers(end) < end
        header = self._header(ref, state, found.first, found.last if is_behind else ())
        note(found.problems, *state.problems, *_lost(ref, state, end), *self._told(ref))
        return found._replace(header=header, messages=None if is_behind else state.messages)

    def _told(self, ref: Found) -> list[Problem]:
        return [self.behind[ref.path]] if ref.path in self.behind else []

    def everything(self, ref: Found, descriptor: int, end: int) -> Sequence[Entry]:
        return self.scan(ref, descriptor, START, end)[0].entries

    def newer(self, ref: Found, descriptor: int, state: State, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Those of all entries that session.json does not take into account."""
        _, covered = self.scan(ref, descriptor, START, state.covers(os.fstat(descriptor).st_size))
        return entries[covered.entries :]

    def _header(
        self, ref: Found, state: State, entries: Sequence[Entry], newer: Sequence[Entry] = ()
    ) -> Header:
        """With what the newer entries say, and so it covers all. Those that are there twice count once, as in
        a tree."""
        known = layout.completed(layout.folded(state.members, newer), ref.id, entries)
        return layout.header_of(known, ref.id, self.home, len({entry.id for entry in entries}))

    def header(self, ref: Found) -> Header:
        """As session.json has it: what was appended behind that is not looked at."""
        return self._header(ref, self._state(ref), ())

    def header_alone(self, ref: Found) -> Header | None:
        state = self._state(ref)
        if not layout.says_when(state.members):
            return None
        with files.open_to_read(self.root, self.relative(ref)) as file, files.told(Unreadable, ref.path):
            end = os.fstat(file.fileno()).st_size
            newer = self._entries_between(ref, file.fileno(), state.covers(end), end)
            known = layout.completed(layout.folded(state.members, newer), ref.id)
        return layout.header_of(known, ref.id, self.home, ALL)

    def _entries_between(self, ref: Found, descriptor: int, start: int, end: int) -> Iterator[Entry]:
        """Nothing is kept of them. What has no id of its own has none here either."""
        reader, forward = self.reader(ref), lines.Forward(descriptor, start, end)
        for batch in forward:
            reader.take_all(batch, _UNNUMBERED)
            yield from reader.entries
            reader.entries.clear()
        if forward.rest != b"":
            reader.take_rest(forward.rest, _UNNUMBERED)
            yield from reader.entries

    def state(self, ref: Found) -> tuple[State, object]:
        """session.json, and by what it is known again. One that may be well and cannot be read raises."""
        relative = self.beside_log(ref, STATE)
        path = os.path.join(self.root, relative)
        try:
            data, identity = contents(self.root, relative)
        except Unreadable as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return layout.missing(path), None
            raise
        return layout.parsed(path, data, ref.id), identity

    def _state(self, ref: Found) -> State:
        """The same for readers: they do without."""
        try:
            return self.state(ref)[0]
        except Unreadable as error:
            path = os.path.join(self.root, self.beside_log(ref, STATE))
            return State({}, (Problem(path, 0, error.message),), is_damaged=True)

    def reader(self, ref: Found) -> CortextReader:
        return CortextReader(ref.path, Header(ref.id, ""))

    def _is_unwritten(self, ref: Found) -> bool:
        """Whether there is a conversation, and no log in it yet. One that session.json tells of is looked for
        twice: a network folder may say for a moment that a file is not there, and all would seem empty."""
        relative = self.relative(ref)
        try:
            if files.status(self.root, relative):
                return False
            own = files.status(self.root, os.path.dirname(relative))
            if not (own and relative.endswith(os.sep + LOG) and stat.S_ISDIR(own.st_mode)):
                return False
            return not self._state(ref).log_bytes or not files.status(self.root, relative)
        except OSError:
            return False

    # --- writing ----------------------------------------------------------------------------------

    def line(self, entry: Entry, reader: LineReader) -> bytes:
        return cortext_format.line(reader.path, entry)

    def _writer(self, ref: Found, lock: Lock, after: Cursor | None) -> CortextWriter:
        if self._is_unwritten(ref):
            files.create(self.root, self.relative(ref), b"", sync=self.synced, private=False)
        return CortextWriter(self, ref, lock, after)

    def repair(self, ref: Found) -> Repaired | None:
        """session.json first: it may be older than the end of the log, and how much of the log it covers can
        only be told as long as that is as it was."""
        settled = self._settled(ref)
        mended = super().repair(ref)
        if mended:
            self._settled(ref)
        return mended or settled

    def _settled(self, ref: Found) -> Repaired | None:
        with self.writer(ref, 0) as writer:
            assert isinstance(writer, CortextWriter)
            return writer.settle()

    def beside_log(self, ref: Found, name: str) -> str:
        """A file of a conversation, as named from the root."""
        return os.path.join(self._whole(self.relative(ref)), name)

    def _whole(self, relative: str) -> str:
        is_log = relative.endswith(os.sep + LOG)
        return os.path.dirname(os.path.dirname(relative)) if is_log else relative


class _Aim(NamedTuple):
    """What session.json and the transcript should say, now that the log says more."""

    members: Members
    covered: int
    """How much of the log they take into account as they are."""
    fresh: Sequence[Entry]
    """What was just appended."""
    unshown: Sequence[Entry]
    """What may not be in the transcript yet, and must be; `fresh` at the end of it."""

    @property
    def without_transcript(self) -> Members:
        return {**self.members, "log_bytes": b"%d" % self.covered}

    @property
    def shows(self) -> bool:
        return any(map(is_shown, self.unshown))

    @property
    def first(self) -> Members:
        """What session.json can say before the transcript shows anything of it."""
        return self.without_transcript if self.shows else self.members


class CortextWriter(JsonlWriter):
    def __init__(self, store: ConversationStore, ref: Found, lock: Lock, after: Cursor | None) -> None:
        super().__init__(store, ref, lock, after)
        self._conversations = store
        self._state: State | None = None
        """session.json as this writer last read or wrote it, and by what it is known again."""
        self._identity: object = None
        self._tally = Tally()
        self._tallied = -1
        """How much of the log is in the tally."""
        self._is_placed = False
        """Whether session.json says where in the log it stands."""
        self._transcript: Transcript | None = None

    def settle(self) -> Repaired | None:
        """Bring session.json and the transcript up to date without an append. What was wrong with
        session.json is repaired then."""
        with self._turn, files.told(NotSaved, self._ref.path):
            page = self._catch_up()
            state = self._current()
            wrong = [*state.problems, *_lost(self._ref, state, self._log.size)]
            if not wrong and state.log_bytes == self._log.size:
                return None
            aim = self._aim(())
            aside = self._set_aside() if wrong and state.is_there and not state.is_damaged else ""
            aside = self._replace(aim.first) or aside
            self._finish(aim)
            return Repaired(self._ref, page.cursor.entries, aside) if wrong else None

    def _catch_up(self) -> Page:
        self._tallied, self._is_placed = -1, False  # it may be another file by now
        return super()._catch_up()

    def _append(self, entries: Sequence[Entry]) -> Cursor:
        must = any(map(layout.says_facts, entries))
        if entries and not self._is_placed and not self._behind:
            self._place(must=must)
        before = self._cursor
        cursor = super()._append(entries)
        try:
            with files.told(NotSaved, self._ref.path):
                aim = self._aim(entries)
                if must:
                    self._replace(aim.first)
        except PerdureError as error:
            if not must:
                self._remember(error)
                return cursor
            self._cursor = before
            self._take_back()
            raise self._not_saved(error) from error
        self._finish(aim)
        return cursor

    def _place(self, *, must: bool) -> None:
        """A session.json of another program does not say how much of the log it covers, nor does one that is
        missing or damaged. It says so before there is more: nobody could tell afterwards."""
        self._log.check()
        try:
            log_bytes = self._current().log_bytes
            if log_bytes is None or log_bytes > self._log.size:
                self._replace(self._aim(()).members)
            self._is_placed = True
        except PerdureError as error:
            if must:
                raise self._not_saved(error) from error

    def _aim(self, fresh: Sequence[Entry]) -> _Aim:
        store, ref, log, end = self._conversations, self._ref, self._log.fileno(), self._log.size
        start = end - self._log.added if fresh else end
        state = self._current()
        covered = state.covers(start)
        newer = unshown = fresh
        if covered < start:
            newer = store.newer(ref, log, state, store.everything(ref, log, end))
            unshown = newer if state.log_bytes is not None else fresh
        self._tally, self._tallied = self._counted(state, fresh, start), end
        known = layout.folded(state.members, newer)
        if "created_at" not in known:
            known = layout.completed(known, ref.id, store.everything(ref, log, end))
        return _Aim(layout.whole(known, ref.id, self._tally, end), covered, fresh, unshown)

    def _finish(self, aim: _Aim) -> None:
        """What cannot be done is left to the next save, and told until then."""
        store, ref = self._conversations, self._ref
        members = aim.members
        told: PerdureError | None = None
        try:
            if aim.shows:
                title, show = layout.title_in(members), self._transcript_of(members).show
                show(aim.fresh, aim.unshown, lambda: store.read_back(ref), title)
            elif self._tally.messages and (not aim.fresh or any(map(layout.says_facts, aim.fresh))):
                # It is not synced: a power cut may have torn what session.json says is there.
                title, complete = layout.title_in(members), self._transcript_of(members).complete
                complete(lambda: store.read_back(ref), title)
        except PerdureError as error:
            told, members = error, aim.without_transcript
        try:
            if self._state is None or self._state.members != members:
                with files.told(NotSaved, ref.path):
                    self._replace(members)
        except PerdureError as error:
            told = error
        store.behind.pop(ref.path, None)
        if told:
            self._remember(told)

    def _not_saved(self, error: PerdureError) -> NotSaved:
        return error if isinstance(error, NotSaved) else NotSaved(self._ref.path, error.message)

    def _remember(self, error: PerdureError) -> None:
        reason = f"what was said is saved, but not all is up to date with it: {error.message}"
        self._conversations.behind[self._ref.path] = Problem(self._ref.path, 0, reason)

    def _counted(self, state: State, fresh: Sequence[Entry], start: int) -> Tally:
        """Without reading the log, if it is known how much of it was counted before."""
        if self._tallied == start:
            return self._tally.and_of(fresh)
        if state.log_bytes == start and not state.is_damaged:
            return layout.tally_in(state).and_of(fresh)
        store = self._conversations
        return Tally().and_of(store.everything(self._ref, self._log.fileno(), self._log.size))

    def _current(self) -> State:
        """session.json as it is now: other programs change it too. What this writer knows of one that is gone
        or damaged meanwhile still counts."""
        before = self._state
        if before is not None and self._identity is not None and self._identity == self._identity_now():
            return before
        state, self._identity = self._conversations.state(self._ref)
        if before is not None and (state.is_damaged or not state.is_there):
            state = state._replace(members=before.members)
        self._state = state
        return state

    def _replace(self, members: Members) -> str:
        """Returns where a damaged session.json is now."""
        root, relative = self._conversations.root, self._conversations.beside_log(self._ref, STATE)
        aside = self._set_aside() if self._state and self._state.is_damaged else ""
        text, sync = layout.printed(members), self._conversations.synced
        files.replace(root, relative, text, sync=sync, private=False)
        self._state, self._identity = State(members), self._identity_now()
        return aside

    def _set_aside(self) -> str:
        root, relative = self._conversations.root, self._conversations.beside_log(self._ref, STATE)
        return os.path.join(root, files.set_aside(root, relative, "damaged", private=False))

    def _take_back(self) -> None:
        """Of an append that is refused nothing stays, as far as the disk allows."""
        with contextlib.suppress(OSError):
            self._log.take_back()
        state, store = self._state, self._conversations
        if state and state.is_there and not state.is_damaged and self._identity != self._identity_now():
            with contextlib.suppress(PerdureError):  # it was replaced, and only the sync behind that failed
                relative, text = store.beside_log(self._ref, STATE), layout.printed(state.members)
                files.replace(store.root, relative, text, sync=False, private=False)

    def _identity_now(self) -> object:
        relative = self._conversations.beside_log(self._ref, STATE)
        try:
            return _identity(os.lstat(os.path.join(self._conversations.root, relative)))
        except OSError:
            return None

    def _transcript_of(self, members: Members) -> Transcript:
        name = layout.transcript_name(members, self._ref.id)
        relative = self._conversations.beside_log(self._ref, name)
        if self._transcript is None or self._transcript.relative != relative:
            self._transcript = Transcript(self._conversations.root, relative, private=False)
        return self._transcript


def contents(root: str, relative: str) -> tuple[bytes, object]:
    """A small file, and by what it is known again."""
    path = os.path.join(root, relative)
    with files.open_to_read(root, relative) as file, files.told(Unreadable, path):
        status = os.fstat(file.fileno())
        if status.st_size > _LARGEST:
            raise Unreadable(path, f"it has {status.st_size >> 20} MB")
        return files.read_all(file.fileno(), status.st_size), _identity(status)


def _identity(status: os.stat_result) -> object:
    return status.st_ino, status.st_dev, status.st_size, status.st_mtime_ns


def _lost(ref: Found, state: State, size: int) -> list[Problem]:
    """A log is synced before session.json tells of it, so what that tells of was there."""
    if (state.log_bytes or 0) <= size:
        return []
    what = f"{state.log_bytes} bytes long when it was last saved, and {size} now; messages may be missing"
    return [Problem(ref.path, 0, what, os.path.basename(LOG))]
