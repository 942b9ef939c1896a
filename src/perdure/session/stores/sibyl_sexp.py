"""Sibyl's layout: one S-expression a session, replaced as a whole by every save, in a folder of its own.

    <home>/sessions/<id>/session.lisp      <home>/sessions/index.lisp
    <home>/locks/<id>.lock                 <home>/trash/<id>/

The index is for a quick listing. It is brought up to date after a save, and that can fail without any harm:
a listing looks at the files, and takes from the index what it need not read again.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from perdure import config
from perdure.errors import InvalidId, PerdureError
from perdure.session import ids
from perdure.session.entry import Entry
from perdure.session.stores import Durability, Excerpt, Found, Header, sibyl_rules
from perdure.session.stores.file_store import found
from perdure.session.stores.sibyl_document import VERSION_FORM, Memory, text_of
from perdure.session.stores.sibyl_index import Index, Row
from perdure.session.stores.sibyl_reader import document_of, excerpt_of
from perdure.session.stores.whole_file import Document, WholeFileStore

_FILE = "session.lisp"
_BESIDE_SESSIONS = ("locks", "trash")
Entries = list[Entry]


class SibylStore(WholeFileStore):
    name = "sibyl"
    depth = 1

    def __init__(
        self, home: str, *, durability: Durability = "power", sessions_dir: str | None = None
    ) -> None:
        """Where the locks are follows from where the sessions are and from nothing else: however a store was
        opened, a session has one lock."""
        root = sessions_dir or os.path.join(home, "sessions")
        real = config.real_path(root)
        above, name = os.path.split(real)
        super().__init__(above if name == "sessions" else real, root, durability)
        self._index = Index(root, self.home)

    def new_id(self, header: Header) -> str:
        while os.path.lexists(os.path.join(self.root, id := ids.sibyl_id())):
            pass
        return id

    def listing(self) -> Sequence[Row]:
        """What there is, the last saved first. A session is read only if the index does not know it as it is
        now; a broken one is there with its problem."""
        known = self._index.read()
        rows: dict[str, Row] = {}
        fresh: list[Row] = []
        for ref in self.list():
            row = known.get(ref.id)
            if row is None or not row.is_of(ref):
                row = self._row(ref)
                if row.size >= 0:
                    fresh.append(row)
            rows[ref.id] = row
        gone = known.keys() - rows.keys()
        if fresh or gone:
            self._try_to_index(fresh, gone)
        return sorted(rows.values(), key=lambda row: (row.last_modified, row.id), reverse=True)

    def forbidden(self, entry: Entry) -> Sequence[str]:
        return sibyl_rules.forbidden(entry)

    def forbidden_facts(self, facts: Mapping[str, Any]) -> Sequence[str]:
        return sibyl_rules.split_facts(facts)[1]

    # --- what the layout says ---------------------------------------------------------------------------

    def allowed(self, entries: Sequence[Entry], document: Document) -> Entries:
        return Memory.of(document).dropped.allowed(entries, document.entries)

    def parse(self, ref: Found, data: bytes) -> Document:
        given = [data]
        del data  # a large one is not kept beside its text
        return document_of(ref.path, ref.id, given.pop())

    def parse_parts(self, ref: Found, first: bytes, last: bytes) -> Excerpt:
        return excerpt_of(ref.path, ref.id, first, last)

    def print(self, document: Document, saved: str) -> bytes:
        return text_of(document, saved).encode()

    def place(self, id: str) -> str:
        if id in _BESIDE_SESSIONS and config.real_path(self.root) == self.home:
            raise InvalidId(id, f"not one of {' and '.join(_BESIDE_SESSIONS)}")
        return os.path.join(id, _FILE)

    def salvage_id(self, header: Header, digest: bytes) -> str:
        made = re.match(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)", header.timestamp)
        year, month, day, hour, minute, second = made.groups() if made else ("0000", *["00"] * 5)
        number = int.from_bytes(digest) % 1_000_000
        return f"session-{year}{month}{day}-{hour}{minute}{second}-{number:06d}"

    def saved(self, ref: Found, document: Document) -> None:
        memory = Memory.of(document)
        if document.header.timestamp and memory.version == VERSION_FORM:
            status = found(ref.id, ref.path)
            row = Row(
                ref.id,
                document.header.timestamp,
                memory.modified,
                memory.count,
                status.size,
                status.mtime_ns,
            )
            self._try_to_index([row])

    def _whole(self, relative: str) -> str:
        return os.path.dirname(relative) or relative

    def _deleted(self, ref: Found) -> None:
        self._try_to_index(gone=[ref.id])

    def _restored(self, ref: Found) -> None:
        self._try_to_index([self._row(ref)])

    def _row(self, ref: Found) -> Row:
        try:
            if part := self.excerpt(ref):
                return self._row_of_part(ref, part)
            document = self.parse(ref, self.bytes_of(ref))
        except PerdureError as error:
            return Row(ref.id, "", "", 0, problem=error.message)
        memory = Memory.of(document)
        return Row(
            ref.id,
            document.header.timestamp,
            memory.modified or _modified(ref),
            memory.count,
            ref.size,
            ref.mtime_ns,
            str(document.problems[0]) if document.problems else "",
        )

    def _row_of_part(self, ref: Found, part: Excerpt) -> Row:
        problem = str(part.problems[0]) if part.problems else ""
        count = part.messages or 0
        return Row(ref.id, part.header.timestamp, _modified(ref), count, ref.size, ref.mtime_ns, problem)

    def _try_to_index(self, rows: Sequence[Row] = (), gone: Collection[str] = ()) -> None:
        """What is not indexed is read by the next listing."""
        with contextlib.suppress(PerdureError, OSError):
            self._index.change(rows, gone)


def _modified(ref: Found) -> str:
    """By its file."""
    return ids.stamp(datetime.fromtimestamp(ref.mtime_ns / 10**9, UTC))
