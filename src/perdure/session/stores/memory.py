"""Sessions that live as long as the process: for conversations nobody asked to keep, and for tests."""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Self

from perdure.errors import Conflict, Held, NotFound, NotSaved
from perdure.session import ids
from perdure.session.entry import Entry
from perdure.session.stores import NOT_A_RECORD, START, Cursor, Found, Header, Page, Problems, Repaired


class _Kept:
    def __init__(self, header: Header, entries: Iterable[Entry]) -> None:
        self.header = header
        self.entries = list(entries)
        self.lock = threading.Lock()


class MemoryStore:
    name = "memory"

    def __init__(self) -> None:
        self._sessions: dict[str, _Kept] = {}
        self._deleted: dict[str, _Kept] = {}

    def list(self) -> Iterator[Found]:
        yield from [Found(id, "", size=len(kept.entries)) for id, kept in list(self._sessions.items())]

    def read(self, ref: Found, after: Cursor = START) -> Page:
        kept = self._kept(ref)
        if after.offset > len(kept.entries):
            raise Conflict(ref.id, "is shorter than when it was last read")
        entries = kept.entries[after.offset :]
        return Page(entries, Cursor(after.offset + len(entries)), [], kept.header)

    def read_back(self, ref: Found, problems: Problems | None = None) -> Generator[Entry, None, None]:
        yield from reversed(list(self._kept(ref).entries))

    def writer(self, ref: Found, wait: float = 10.0, after: Cursor | None = START) -> MemoryWriter:
        kept = self._kept(ref)
        if not kept.lock.acquire(timeout=max(wait, 0)):
            raise Held(ref.id, os.getpid())
        return MemoryWriter(self, ref, Cursor(len(kept.entries)) if after is None else after)

    def new_id(self, header: Header) -> str:
        return ids.new_id()

    def forbidden(self, entry: Entry) -> Sequence[str]:
        return ()

    def forbidden_facts(self, facts: Mapping[str, Any]) -> Sequence[str]:
        return ()

    def create(self, header: Header, entries: Iterable[Entry] = ()) -> Found:
        ids.check(header.id)
        if header.id in self._sessions:
            raise Conflict(header.id, "exists already", "choose another id")
        self._sessions[header.id] = _Kept(header, entries)
        return Found(header.id, "")

    def delete(self, ref: Found) -> None:
        if not self._kept(ref).lock.acquire(blocking=False):
            raise Held(ref.id, os.getpid())
        self._deleted[ref.id] = self._sessions.pop(ref.id)

    def remove_empty(self, ref: Found) -> bool:
        kept = self._kept(ref)
        if kept.entries or not kept.lock.acquire(blocking=False):
            return False
        del self._sessions[ref.id]
        return True

    def restore(self, text: str) -> Found:
        id = ids.resolve(text, self._deleted)
        if id in self._sessions:
            raise Conflict(id, "is the id of another session by now", "delete that one first")
        kept = self._deleted.pop(id)
        self._sessions[id] = _Kept(kept.header, kept.entries)
        return Found(id, "")

    def remedy(self, ref: Found, page: Page | None = None) -> str:
        return ""

    def repair(self, ref: Found) -> Repaired | None:
        self._kept(ref)
        return None

    def holder(self, ref: Found) -> int | None:
        return os.getpid() if self._kept(ref).lock.locked() else None

    def _kept(self, ref: Found) -> _Kept:
        try:
            return self._sessions[ref.id]
        except KeyError:
            raise NotFound("Session", ref.id) from None


class MemoryWriter:
    def __init__(self, store: MemoryStore, ref: Found, after: Cursor) -> None:
        self._store = store
        self._ref = ref
        self._kept = store._kept(ref)
        self._cursor = after
        self._holding = True

    def catch_up(self) -> Page:
        page = self._store.read(self._ref, self._cursor)
        self._cursor = page.cursor
        return page

    def append(self, entries: Sequence[Entry]) -> Cursor:
        if not self._holding:
            raise Conflict(self._ref.id, "is not this writer's any more")
        if self._cursor.offset != len(self._kept.entries):
            raise Conflict(self._ref.id, "has entries this writer has not read")
        if any(entry.line[:1] != b"{" or b"\n" in entry.line for entry in entries):
            raise NotSaved(self._ref.id, NOT_A_RECORD)
        self._kept.entries.extend(entries)
        self._cursor = Cursor(len(self._kept.entries))
        return self._cursor

    def release(self) -> None:
        if self._holding:
            self._holding = False
            self._kept.lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()
