"""The pi layout's lines: header, checksum, records of versions 1 to 3, and what to do with damage.

In a file this project made (its header says so) every line it writes ends with a `crc` member, the
CRC-32 of the line before it. The checksum belongs to the line, not to the entry: it is taken off
when a line is read and put on when one is written, so that an entry reads the same everywhere.
Lines without one are other programs', and fine. In files of others a `crc` means nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from zlib import crc32

from perdure.errors import NotSaved
from perdure.session.entry import Entry, decode, placed
from perdure.session.listing import pi_name
from perdure.session.record import dumps, loads, loads_exactly
from perdure.session.stores import NO_FACTS, Header
from perdure.session.stores.line_reader import LineReader

VERSION = 3
_WRITER = "perdure"
_TRAILER = len(b',"crc":"00000000"}')
_LONGEST_TIME = 40
"""Characters of a timestamp in a file's name; more of them are no timestamp."""


# --- names --------------------------------------------------------------------------------------


def file_name(header: Header) -> str:
    moment = re.sub("[^0-9TZ]", "-", header.timestamp[:_LONGEST_TIME])
    return f"{moment}_{header.id}.jsonl"


def header_from_name(name: str) -> Header:
    """All that is known of a session before its first entry."""
    return Header(*pi_name(name))


# --- lines --------------------------------------------------------------------------------------


def header_record(header: Header) -> dict[str, Any]:
    record: dict[str, Any] = {
        "type": "session",
        "version": VERSION,
        "id": header.id,
        "timestamp": header.timestamp,
        "cwd": header.cwd,
    }
    if header.parent_session:
        record["parentSession"] = header.parent_session
    if header.facts:
        record["facts"] = dict(header.facts)
    return record


def header_line(header: Header) -> bytes:
    return _sealed(dumps({**header_record(header), "writer": _WRITER}))


def entry_line(path: str, entry: Entry, *, checksum: bool) -> bytes:
    if entry.type == "session":
        raise NotSaved(path, "an entry cannot be of the type 'session', which is the header's")
    if not checksum:
        return entry.raw
    # A line that was read with its checksum is copied with it, so damage stays visible in a copy.
    return entry.line if entry.seal == _TRAILER else _sealed(entry.raw)


def _sealed(raw: bytes) -> bytes:
    head = raw[:-1]
    return b'%b,"crc":"%08x"}' % (head, crc32(head))


def _has_checksum(text: bytes) -> bool:
    return text[-_TRAILER:] == _trailer(text[:-_TRAILER])


def _trailer(text: bytes) -> bytes:
    return b',"crc":"%08x"}' % crc32(text)


# --- reading ------------------------------------------------------------------------------------


class PiReader(LineReader):
    header_mark = b'"session"'

    def __init__(self, path: str, header: Header) -> None:
        super().__init__(path, header)
        self.version = VERSION
        self.checksums = False
        self._plain = False

    @property
    def sound(self) -> bool:
        """Whether a header of today's version was read: each line then stands for itself."""
        return self.headed and self.version >= VERSION

    def take_all(self, texts: Sequence[bytes | None], number: int) -> int:
        """Nearly every line of nearly every file is whole, ours and plain, so that case is a loop of its
        own."""
        add = self.entries.append
        for text in texts:
            number += 1
            if text is not None and self._plain and self.checksums and _has_checksum(text):
                try:
                    entry = decode(text, _TRAILER)
                except ValueError:
                    pass
                else:
                    if entry.id and entry.type != "session":
                        add(entry)
                        continue
            self.take(text, number)
        return number

    def record(self, text: bytes, number: int) -> None:
        if self.checksums:
            entry = self._checked(text, number)
        elif not self.headed and _has_checksum(text):
            entry = decode(text, _TRAILER)  # a line of ours, whose header is lost
        else:
            entry = decode(text)
        self._add(entry, number)

    def _add(self, entry: Entry, number: int) -> None:
        if entry.id and entry.type != "session" and self._plain:
            self.entries.append(entry)
        else:
            self._special(entry, number)

    def _special(self, entry: Entry, number: int) -> None:
        """A header, the first entry where there was none, one of an old version, one without an id."""
        if entry.type == "session":
            self._header(entry, number)
            return
        if not self.headed and self.count == 0 and not self.entries:
            self.problem(number, "no header before the first entry; id and time are taken from the file name")
        if self.version < VERSION or not entry.id:
            entry = self._adopted(entry)
        self.entries.append(entry)
        self._plain = self.version >= VERSION

    def _header(self, entry: Entry, number: int) -> None:
        record = loads(entry.raw)
        if self.headed:
            if record.get("id") != self.header.id:
                self.problem(number, f"a second header, of session {str(record.get('id'))[:60]}; ignored")
            return
        self.headed = True
        self.header_raw = entry.raw
        fields = {key: value for key, value in record.items() if isinstance(value, str)}
        self.header = Header(
            fields.get("id", self.header.id),
            fields.get("timestamp", self.header.timestamp),
            fields.get("cwd", ""),
            fields.get("parentSession", ""),
            facts if isinstance(facts := record.get("facts"), dict) else NO_FACTS,
        )
        version = record.get("version", 1)
        self.checksums = record.get("writer") == _WRITER
        # A file of ours was never of an old version, whatever a flipped bit makes of the number.
        self.version = version if isinstance(version, int) and not self.checksums else VERSION
        if self.checksums or "crc" in record:
            self._checked(entry.line, number)
        if self.version > VERSION:  # read, and written to, as far as this version knows it
            self.problem(number, f"written by a newer version of the format ({self.version})")

    def _checked(self, text: bytes, number: int) -> Entry:
        """The entry of a line that may end with a checksum, which is reported if it is wrong."""
        if _has_checksum(text):
            return decode(text, _TRAILER)
        entry = decode(text)
        trailer, expected = text[-_TRAILER:], _trailer(text[:-_TRAILER])
        whole = trailer.startswith(b',"crc":"') and trailer.endswith(b'"}')
        # One flipped bit may also have hit the checksum's own quotes or its name.
        if whole or sum(a != b for a, b in zip(trailer, expected, strict=False)) == 1:
            self.problem(number, "its checksum does not match; it may not say what was written")
        return decode(text, _TRAILER) if whole else entry

    def _adopted(self, entry: Entry) -> Entry:
        """A place in the tree for a record that has none, and today's form for one of an old version."""
        if self.version < 3:
            entry = _renamed_hook_message(entry)
        if entry.id and self.version >= 2:
            return entry
        self.adopted = True
        entry = placed(entry, id=entry.id or self.next_id, parent_id=self.last)
        return self._named_first_kept(entry) if entry.type == "compaction" else entry

    def _named_first_kept(self, entry: Entry) -> Entry:
        """Version 1 counts the lines up to the first kept entry, the header as 0; later versions name it."""
        record = loads_exactly(entry.raw)
        index = record.pop("firstKeptEntryIndex", None)
        if "firstKeptEntryId" in record or not isinstance(index, int):
            return entry
        kept = self.entries[index - 1].id if 1 <= index <= len(self.entries) else entry.id
        return decode(dumps({**record, "firstKeptEntryId": kept}))


def _renamed_hook_message(entry: Entry) -> Entry:
    if entry.type != "message" or entry.role != "hookMessage":
        return entry
    record = loads_exactly(entry.raw)
    return decode(dumps({**record, "message": {**record["message"], "role": "custom"}}))
