"""Lines of a JSONL layout as entries: what is a record, what is saved of a line that is none, and why.

A layout says how a record becomes an entry (`LineReader.record`).
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from perdure.session.entry import Entry
from perdure.session.findings import MOST
from perdure.session.stores import Header, Problem, Problems, lines, note

_OVERFULL = f"more than {lines.MOST_NAMES:,} names; left out"


class LineReader(ABC):
    """Lines in, entries and problems out. One for each pass over a file, from its start or from a cursor."""

    header_mark: ClassVar[bytes] = b""
    """What only a first line contains; empty where a file begins with an entry."""
    file: ClassVar[str] = ""
    """What problems call the file, where a session has several; see `Problem`."""
    record_start: ClassVar[re.Pattern[str]] = lines.RECORD_START
    """How a record of the layout begins, wherever it stands."""

    def __init__(self, path: str, header: Header) -> None:
        self.path = path
        self.header = header
        self.headed = False
        """Whether a header line was read, and not only a file name."""
        self.header_raw = b"{}"
        """Its record, as it should stand in the file."""
        self.entries: list[Entry] = []
        self.problems: Problems = []
        self.problem_count = 0
        """All there were, also those that somebody took out of `problems`."""
        self.count = 0
        """Entries before `entries`, in the same file."""
        self.last_before: str | None = None
        """The id of the last of those."""
        self.adopted = False
        """Whether an entry was named by its place, because its record has no id."""

    @abstractmethod
    def record(self, text: bytes, number: int) -> None:
        """Take in one record: as an entry, or as the header. ValueError if it is none."""

    def is_record(self, value: Any) -> bool:
        """Whether an object found inside a damaged line is a record of the layout, and no part of one."""
        return lines.is_record(value)

    @property
    def sound(self) -> bool:
        """Whether each line stands for itself, so that a reading may begin anywhere."""
        return self.headed or not self.header_mark

    @property
    def last(self) -> str | None:
        """The id of the last entry, and so the parent of one that names none."""
        return self.entries[-1].id if self.entries else self.last_before

    @property
    def next_id(self) -> str:
        """For a record that has none: what number it is."""
        return f"r{self.count + len(self.entries) + 1}"

    def take_all(self, texts: Sequence[bytes | None], number: int) -> int:
        """Several lines that follow line `number`; the number of the last of them."""
        for text in texts:
            number += 1
            self.take(text, number)
        return number

    def take(self, text: bytes | None, number: int) -> None:
        """One line, without its newline; None for one that is too long to be read."""
        if text is None:
            self.problem(number, f"longer than {lines.LONGEST >> 20} MB; left out")
            return
        if text[:1] != b"{" or text[-1:] != b"}":
            text = text.strip(b" \t\r")
        if number == 1:
            text = text.removeprefix(b"\xef\xbb\xbf")
        if not text:
            return
        # Most of what is no record is known without the price of parsing it; why it is none is told of some.
        if b"{" not in text or (b"}" not in text and self.problem_count > MOST):
            nuls = not text.strip(b"\0")
            self.problem(
                number, f"a run of {len(text)} NUL bytes; left out" if nuls else _no_record("no object")
            )
            return
        if lines.is_overfull(text):
            self.problem(number, _OVERFULL)
            return
        try:
            self.record(text, number)
            return
        except ValueError as error:
            reason = _why(error)  # not the error itself, which holds on to the whole text
        pieces, _ = self._salvaged(text)
        for piece in pieces:
            self._piece(piece, number)
        if pieces:
            self.problem(number, _saved(len(pieces)))
        else:
            self.problem(number, _no_record(reason))

    def take_rest(self, text: bytes | None, number: int) -> int:
        """What follows the last newline. Returns how much of it was taken: whole records from its beginning.

        No beginning of a JSON object is itself one, so a record that parses is complete: its writer only
        left out the newline. Anything else is still being written, or was torn.
        """
        if text is None:
            self.problem(number, f"the last line is longer than {lines.LONGEST >> 20} MB; left out")
            return 0
        if lines.is_overfull(text):
            self.problem(number, _OVERFULL)
            return 0
        try:
            self.record(text.strip(b" \t\r"), number)
            return len(text)
        except ValueError:
            pieces, whole = self._salvaged(text)
        if pieces and text.strip(b" \t\r\0").endswith(pieces[-1]):
            whole = len(text)  # what is torn is before it
        if not whole:
            self._torn(number, len(text))
            return 0
        for piece in pieces:
            self._piece(piece, number)
        if text[whole:].strip(b" \t\r"):
            self._torn(number, len(text) - whole)
            return whole
        self.problem(number, _saved(len(pieces)))
        return len(text)

    def problem(self, number: int, reason: str, *, is_torn_end: bool = False) -> None:
        self.problem_count += 1
        note(self.problems, Problem(self.path, number, reason, self.file, is_torn_end=is_torn_end))

    def _torn(self, number: int, length: int) -> None:
        self.problem(number, f"the last line is unfinished ({length} bytes); left out", is_torn_end=True)

    def _salvaged(self, text: bytes) -> tuple[list[bytes], int]:
        return lines.salvage(text, self.record_start, self.is_record)

    def _piece(self, piece: bytes, number: int) -> None:
        try:
            self.record(piece, number)
        except ValueError as error:
            self.problem(number, _no_record(_why(error)))


def _why(error: ValueError) -> str:
    """Without the decoder's own idea of lines: there is one line number in a problem."""
    return (getattr(error, "msg", None) or str(error)).removesuffix(" at")


def _no_record(reason: str) -> str:
    return f"not a record ({reason[:80]}); left out"


def _saved(pieces: int) -> str:
    return f"damaged; {pieces} whole record{'s' if pieces > 1 else ''} saved from it"
