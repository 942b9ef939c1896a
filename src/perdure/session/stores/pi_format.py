"""The pi layout's lines: header, checksum, records of versions 1 to 3, and what to do with damage.

In a file this project made (its header says so) every line it writes ends with a `crc` member, the
CRC-32 of the line before it. The checksum belongs to the line, not to the entry: it is taken off
when a line is read and put on when one is written, so that an entry reads the same everywhere.
Lines without one are other programs', and fine. In files of others a `crc` means nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any
from zlib import crc32

from perdure.errors import NotSaved
from perdure.session.entry import Entry, decode, placed
from perdure.session.record import dumps, loads
from perdure.session.stores import NOT_A_RECORD, Header, Problem, lines

VERSION = 3
_WRITER = "perdure"
_TRAILER = len(b',"crc":"00000000"}')
_LONGEST_FOLDER = 240
_NAME = re.compile(r"(\d{4}-\d\d-\d\dT)(\d\d)-(\d\d)-(\d\d)-(\d{3}Z)_(.+)")


# --- names --------------------------------------------------------------------------------------


def file_name(header: Header) -> str:
    return f"{re.sub('[^0-9TZ]', '-', header.timestamp)}_{header.id}.jsonl"


def folder_name(cwd: str) -> str:
    """The folder of one project's sessions: `--home-me-code--`."""
    name = re.sub(r"[/\\:]", "-", re.sub(r"^[/\\]", "", cwd))
    if len(encoded := os.fsencode(name)) > _LONGEST_FOLDER:  # than a file system's names can be
        name = os.fsdecode(encoded[: _LONGEST_FOLDER - 9]) + f"-{crc32(encoded):08x}"
    return f"--{name}--"


def header_from_name(name: str) -> Header:
    """A session's id and time as its file name tells them: all there is before the first entry."""
    stem = name.removesuffix(".jsonl")
    if match := _NAME.fullmatch(stem):
        day, hours, minutes, seconds, rest, id = match.groups()
        return Header(id, f"{day}{hours}:{minutes}:{seconds}.{rest}")
    return Header(stem, "")


# --- lines --------------------------------------------------------------------------------------


def header_line(header: Header) -> bytes:
    record: dict[str, Any] = {
        "type": "session",
        "version": VERSION,
        "id": header.id,
        "timestamp": header.timestamp,
        "cwd": header.cwd,
    }
    if header.parent_session:
        record["parentSession"] = header.parent_session
    return _sealed(dumps({**record, "writer": _WRITER}))


def file_text(path: str, header: bytes | None, entries: Sequence[Entry], *, checksum: bool) -> bytes:
    """Whole lines, each with its newline. What cannot be read again is refused before anything is written."""
    if checksum:
        # A line that was read with its checksum is copied with it, so damage stays visible in a copy.
        texts = [entry.line if entry.seal == _TRAILER else _sealed(entry.raw) for entry in entries]
    else:
        texts = [entry.raw for entry in entries]
    if any(entry.type == "session" for entry in entries):
        raise NotSaved(path, "an entry cannot be of the type 'session', which is the header's")
    longest = max(map(len, texts), default=0)
    if longest > lines.LONGEST:
        size, most = longest >> 20, lines.LONGEST >> 20
        raise NotSaved(path, f"an entry of {size} MB is longer than a line may be ({most} MB)")
    if header is not None:
        texts.insert(0, header)
    texts.append(b"")
    whole = b"\n".join(texts)
    if whole.count(b"\n") != len(texts) - 1 or not all(text[:1] == b"{" for text in texts[:-1]):
        raise NotSaved(path, NOT_A_RECORD)
    return whole


def _sealed(raw: bytes) -> bytes:
    head = raw[:-1]
    return b'%b,"crc":"%08x"}' % (head, crc32(head))


def _has_checksum(text: bytes) -> bool:
    return text[-_TRAILER:] == _trailer(text[:-_TRAILER])


def _trailer(text: bytes) -> bytes:
    return b',"crc":"%08x"}' % crc32(text)


# --- reading ------------------------------------------------------------------------------------


class Reader:
    """Lines in, entries and problems out. One for each pass over a file, from its start or from a cursor."""

    def __init__(self, path: str, header: Header) -> None:
        self.path = path
        self.header = header
        self.version = VERSION
        self.checksums = False
        self.headed = False
        """Whether a header line was read, and not only a file name."""
        self.header_raw = b"{}"
        self.entries: list[Entry] = []
        self.problems: list[Problem] = []
        self.count = 0
        """Entries before `entries`, in the same file."""
        self.adopted = False
        """Whether an entry was named by its place, because its record has no id."""
        self.last_before: str | None = None
        """The id of the last of those."""
        self._plain = False

    @property
    def sound(self) -> bool:
        """Whether a header of today's version was read: each line then stands for itself."""
        return self.headed and self.version >= VERSION

    @property
    def last(self) -> str | None:
        """The id of the last entry, and so the parent of one that names none."""
        return self.entries[-1].id if self.entries else self.last_before

    def take_all(self, texts: Sequence[bytes | None], number: int) -> int:
        """Several lines that follow line `number`; the number of the last of them.

        Nearly every line of nearly every file is whole, ours and plain, so that case is a loop of its own.
        """
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

    def take(self, text: bytes | None, number: int) -> None:
        """One line, without its newline; None for one that is too long to be read."""
        if text is None:
            self._problem(number, f"longer than {lines.LONGEST >> 20} MB; left out")
            return
        if text[:1] != b"{" or text[-1:] != b"}":
            text = text.strip(b" \t\r")
        if number == 1:
            text = text.removeprefix(b"\xef\xbb\xbf")
        if not text:
            return
        if b"{" not in text:  # most of what is no record is told without the price of parsing it
            nuls = not text.strip(b"\0")
            self._problem(
                number, f"a run of {len(text)} NUL bytes; left out" if nuls else _no_record("no object")
            )
            return
        try:
            self._add(self._checked(text, number) if self.checksums else decode(text), number)
            return
        except ValueError as error:
            reason = _why(error)  # not the error itself, which holds on to the whole text
        pieces, _ = lines.salvage(text)
        for piece in pieces:
            self._piece(piece, number)
        if pieces:
            self._problem(number, _saved(len(pieces)))
        else:
            self._problem(number, _no_record(reason))

    def take_rest(self, text: bytes | None, number: int) -> int:
        """What follows the last newline. Returns how much of it was taken: whole records from its beginning.

        No beginning of a JSON object is itself one, so a record that parses is complete: its writer only
        left out the newline. Anything else is still being written, or was torn.
        """
        if text is None:
            self._problem(number, f"the last line is longer than {lines.LONGEST >> 20} MB; left out")
            return 0
        whole_text = text.strip(b" \t\r")
        try:
            self._add(self._checked(whole_text, number) if self.checksums else decode(whole_text), number)
            return len(text)
        except ValueError:
            pieces, whole = lines.salvage(text)
        if not whole:
            self._problem(number, f"the last line is unfinished ({len(text)} bytes); left out")
            return 0
        for piece in pieces:
            self._piece(piece, number)
        if text[whole:].strip(b" \t\r"):
            self._problem(number, f"the last line is unfinished ({len(text) - whole} bytes); left out")
            return whole
        self._problem(number, _saved(len(pieces)))
        return len(text)

    def _piece(self, piece: bytes, number: int) -> None:
        try:
            self._add(self._checked(piece, number) if self.checksums else decode(piece), number)
        except ValueError as error:
            self._problem(number, _no_record(_why(error)))

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
            self._problem(
                number, "no header before the first entry; id and time are taken from the file name"
            )
        if self.version < VERSION or not entry.id:
            entry = self._adopted(entry)
        self.entries.append(entry)
        self._plain = self.version >= VERSION

    def _header(self, entry: Entry, number: int) -> None:
        record = loads(entry.raw)
        if self.headed:
            if record.get("id") != self.header.id:
                self._problem(number, f"a second header, of session {str(record.get('id'))[:60]}; ignored")
            return
        self.headed = True
        self.header_raw = entry.raw
        fields = {key: value for key, value in record.items() if isinstance(value, str)}
        self.header = Header(
            fields.get("id", self.header.id),
            fields.get("timestamp", self.header.timestamp),
            fields.get("cwd", ""),
            fields.get("parentSession", ""),
        )
        version = record.get("version", 1)
        self.checksums = record.get("writer") == _WRITER
        # A file of ours was never of an old version, whatever a flipped bit makes of the number.
        self.version = version if isinstance(version, int) and not self.checksums else VERSION
        if self.checksums or "crc" in record:
            self._checked(entry.line, number)
        if self.version > VERSION:  # read, and written to, as far as this version knows it
            self._problem(number, f"written by a newer version of the format ({self.version})")

    def _checked(self, text: bytes, number: int) -> Entry:
        """The entry of a line that may end with a checksum, which is reported if it is wrong."""
        if _has_checksum(text):
            return decode(text, _TRAILER)
        entry = decode(text)
        trailer, expected = text[-_TRAILER:], _trailer(text[:-_TRAILER])
        whole = trailer.startswith(b',"crc":"') and trailer.endswith(b'"}')
        # One flipped bit may also have hit the checksum's own quotes or its name.
        if whole or sum(a != b for a, b in zip(trailer, expected, strict=False)) == 1:
            self._problem(number, "its checksum does not match; it may not say what was written")
        return decode(text, _TRAILER) if whole else entry

    def _problem(self, number: int, reason: str) -> None:
        self.problems.append(Problem(self.path, number, reason))

    def _adopted(self, entry: Entry) -> Entry:
        """A place in the tree for a record that has none, and today's form for one of an old version."""
        if self.version < 3:
            entry = _renamed_hook_message(entry)
        if entry.id and self.version >= 2:
            return entry
        self.adopted = True
        entry = placed(entry, id=entry.id or f"r{self.count + len(self.entries) + 1}", parent_id=self.last)
        return self._named_first_kept(entry) if entry.type == "compaction" else entry

    def _named_first_kept(self, entry: Entry) -> Entry:
        """Version 1 counts the lines up to the first kept entry, the header as 0; later versions name it."""
        record = loads(entry.raw)
        index = record.pop("firstKeptEntryIndex", None)
        if "firstKeptEntryId" in record or not isinstance(index, int):
            return entry
        kept = self.entries[index - 1].id if 1 <= index <= len(self.entries) else entry.id
        return decode(dumps({**record, "firstKeptEntryId": kept}))


def _why(error: ValueError) -> str:
    """Without the decoder's own idea of lines: there is one line number in a problem."""
    return getattr(error, "msg", None) or str(error)


def _no_record(reason: str) -> str:
    return f"not a record ({reason[:80]}); left out"


def _saved(pieces: int) -> str:
    return f"damaged; {pieces} whole record{'s' if pieces > 1 else ''} saved from it"


def _renamed_hook_message(entry: Entry) -> Entry:
    if entry.type != "message" or entry.role != "hookMessage":
        return entry
    record = loads(entry.raw)
    return decode(dumps({**record, "message": {**record["message"], "role": "custom"}}))
