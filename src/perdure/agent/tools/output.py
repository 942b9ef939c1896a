"""How much of a text a model gets to read: 2000 lines or 50 KB, whichever comes first, and whole lines only.

A line ends with `\\n`, which counts as a part of it; other line breaks are characters like any. What is shown
is a piece of the text as it was, to the byte. Remarks about the rest are for the tool to add.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

LINES = 2000
BYTES = 50 * 1024


class Bounded(Struct, frozen=True):
    text: str
    shown_lines: int
    total_lines: int
    by: Literal["lines", "bytes"] | None = None
    """Which bound was met first; None if all of the text is here."""
    partial: bool = False
    """Not one whole line fitted: this is the end of the last one, and counts as a line."""

    @property
    def truncated(self) -> bool:
        return self.by is not None


def head(text: str, *, lines: int = LINES, size: int = BYTES) -> Bounded:
    """The first lines; none, if the first one alone is too long."""
    total = count_lines(text)
    start = _bytes(text[: size + 1])  # a character has at least one byte: what comes later cannot fit
    if len(start) <= size and total <= lines:
        return Bounded(text, total, total)
    if len(start) > size:
        start = start[: start.rfind(b"\n", 0, size) + 1]
    whole = _lines(start)
    return _cut(whole[:lines], total, by_lines=len(whole) >= lines)


def tail(text: str, *, lines: int = LINES, size: int = BYTES) -> Bounded:
    """The last lines; if the last one alone is too long, the end of it."""
    total = count_lines(text)
    end = _bytes(text[-size - 1 :])
    if len(end) <= size and total <= lines:
        return Bounded(text, total, total)
    if len(end) > size:
        end = end[-size - 1 :]  # the first of these can only be the line break before what is shown
        before = end.find(b"\n", 0, size)
        if before < 0:
            return Bounded(_text(_from_a_character(end[1:])), 1, total, "bytes", partial=True)
        end = end[before + 1 :]
    whole = _lines(end)
    return _cut(whole[-lines:], total, by_lines=len(whole) >= lines)


def count_lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n") and text != "")


def _cut(whole: list[bytes], total: int, *, by_lines: bool) -> Bounded:
    return Bounded(_text(b"".join(whole)), len(whole), total, "lines" if by_lines else "bytes")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


def _lines(data: bytes) -> list[bytes]:
    *ended, last = data.split(b"\n")
    return [line + b"\n" for line in ended] + [last] * bool(last)


def _from_a_character(data: bytes) -> bytes:
    start = 0
    while start < len(data) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
