"""Lines of a file, from any place on or from the end back, in bounded memory.

A line ends at byte 0x0A and nowhere else: U+2028 and its kin are legal inside JSON strings.
A line past `LONGEST` is not read but counted: the writers here refuse to make one, so it is damage or
an attack, and neither may cost more memory than a long line does.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from perdure.session.record import LONG, STRING

LONGEST = 64 * 2**20
_CHUNK = 2**20
_FIRST_BLOCK_BACK = 2**13
_SKIPPED = 2**16  # so little that its memory is used again and again


class Line(NamedTuple):
    offset: int
    data: bytes | None
    """Without its newline; None if it is longer than any line may be."""


class Forward:
    """Iterate to get the lines between `start` and `end`, in lists, each as it is without its newline.

    When the iteration ends, `offset` is where the last whole line ended and `rest` what follows it:
    a line somebody has not finished writing, or never will.
    """

    def __init__(self, descriptor: int, start: int, end: int) -> None:
        self._descriptor = descriptor
        self._end = end
        self.offset = start
        self.rest: bytes | None = b""

    def __iter__(self) -> Iterator[list[bytes | None]]:
        at = self.offset
        pieces: list[bytes] = []  # of the line that is not complete yet
        length = 0
        size = _CHUNK
        while chunk := os.pread(self._descriptor, min(size, self._end - at), at):
            at += len(chunk)
            first, *others = chunk.split(b"\n")
            length += len(first)
            if length <= LONGEST:
                pieces.append(first)
            if not others:
                if length > LONGEST:
                    pieces, size = [], _SKIPPED
                continue
            size = _CHUNK
            lines: list[bytes | None] = [b"".join(pieces) if length <= LONGEST else None, *others[:-1]]
            self.offset = at - len(others[-1])
            pieces, length = [others[-1]], len(others[-1])
            yield lines
        self.rest = b"".join(pieces) if length <= LONGEST else None


def backward(descriptor: int, end: int) -> Iterator[Line]:
    """Lines before `end`, last one first. The first is what follows the last newline: empty, as a rule."""
    block = _FIRST_BLOCK_BACK
    pieces: list[bytes] = []  # of the line whose beginning is not reached yet, last piece first
    length = 0
    at = end
    while at > 0:
        size = min(block, at)
        at -= size
        block = min(block * 2, _CHUNK)
        chunk = os.pread(descriptor, size, at)
        first, *others = chunk.split(b"\n")
        if not others:
            length += len(chunk)
            pieces = [*pieces, chunk] if length <= LONGEST else []
            continue
        start = others.pop()
        offset = at + size - len(start)
        length += len(start)
        yield Line(offset, b"".join([start, *reversed(pieces)]) if length <= LONGEST else None)
        while others:
            offset -= len(others[-1]) + 1
            yield Line(offset, others.pop())
        pieces, length = [first], len(first)
    if end > 0:
        yield Line(0, b"".join(reversed(pieces)) if length <= LONGEST else None)


def ends_within(descriptor: int, start: int, longest: int) -> bool:
    """Whether the line that begins at `start` has an end, which is also that of the file, before so many
    bytes."""
    at = start
    while at <= start + longest:
        chunk = os.pread(descriptor, _SKIPPED, at)
        if not chunk or b"\n" in chunk:
            return True
        at += len(chunk)
    return False


def count(descriptor: int, start: int, end: int) -> int:
    """How many lines end between two places."""
    ended = 0
    while start < end and (chunk := os.pread(descriptor, min(_CHUNK, end - start), start)):
        ended += chunk.count(b"\n")
        start += len(chunk)
    return ended


# --- what is refused before it is parsed -----------------------------------------------------------

MOST_NAMES = 100_000
_NAME_END = re.compile(rb'"\s*:')
_TOKEN = re.compile(STRING + rb"|[\[\]{}:]", re.DOTALL)
_OPEN, _CLOSE, _COLON = frozenset(b"[{"), frozenset(b"]}"), ord(":")


def is_overfull(line: bytes) -> bool:
    """Whether a line, or an item of a document, is an object of so many names that they would cost more than
    they say. What is inside its values does not count: they are not taken apart."""
    if len(line) < LONG or not _has_names(line, MOST_NAMES):
        return False
    depth = names = 0
    for token in _TOKEN.finditer(line):
        first = line[token.start()]
        if first in _OPEN:
            depth += 1
            if depth > MOST_NAMES:
                return False  # which no parser follows
        elif first in _CLOSE:
            depth -= 1
        elif first == _COLON and depth == 1:
            names += 1
            if names > MOST_NAMES:
                return True
    return False


def _has_names(line: bytes, most: int) -> bool:
    """Whether there may be more than so many, at any depth: what looks like one may be text."""
    return next(islice(_NAME_END.finditer(line), most, None), None) is not None


# --- what can be saved of a line that is not one record -------------------------------------------

RECORD_START = re.compile(r'\{\s*"(?:type|id|parentId|timestamp)"\s*:')
_GAP = re.compile(r"[\s\0]*")
_END = re.compile(r"[\s\0]*(?:\{|\Z)")
_LONGEST_SALVAGED = 8 * 2**20  # parsing what may be damaged takes many times its size
_MOST_FAILURES = 64
_decode = json.JSONDecoder(parse_int=float).raw_decode


def is_record(value: Any) -> bool:
    """Whether an object has the envelope of an entry, or is a header."""
    return {"type", "id", "timestamp"} <= value.keys() and ("parentId" in value or value["type"] == "session")


def salvage(
    line: bytes, start: re.Pattern[str] = RECORD_START, wanted: Callable[[Any], bool] = is_record
) -> tuple[list[bytes], int]:
    """The whole records inside a damaged line: between NULs, glued to each other, behind a torn one.

    With them how many bytes of the line are whole from its beginning on.

    A record inside a record is not one. Only what is `wanted` counts, and begins as `start` says, and only
    where nothing torn is before it, or where it does not stand as a value stands in JSON and the line ends
    behind it or another record begins.
    """
    if len(line) > _LONGEST_SALVAGED:
        return [], 0
    text = line.decode("utf-8", "surrogateescape")
    found: list[bytes] = []
    at = behind = failures = whole = 0
    parsed = 4 * len(text)  # how much of failed tries is still worth its time
    while failures < _MOST_FAILURES and parsed > 0 and (match := start.search(text, at)):
        begin = match.start()
        at = begin + 1
        try:
            value, end = _decode(text, begin)
        except (ValueError, RecursionError) as error:
            failures += 1
            parsed -= getattr(error, "pos", len(text)) - begin
            continue
        follows = _GAP.fullmatch(text, behind, begin)
        if wanted(value) and (
            follows or (_END.match(text, end) and not text[:begin].rstrip().endswith((":", ",", "[")))
        ):
            found.append(text[begin:end].encode("utf-8", "surrogateescape"))
            if follows and whole == behind:
                whole = end
            at = behind = end
        else:
            failures += 1
            parsed -= end - begin
    return found, len(text[:whole].encode("utf-8", "surrogateescape"))
