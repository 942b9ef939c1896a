"""How much of a text a model gets to read: 2000 lines or 50 KB, whichever comes first, and whole lines only.

A line ends with `\\n`, which counts as a part of it; other line breaks are characters like any. What is shown
is a piece of the text as it was, to the byte. Remarks about the rest are for the tool to add; `within_limits`
adds one where a tool did not keep to this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from perdure.agent.tools import MOST_BESIDE, AgentToolResult
from perdure.session.entry import Image, Text

LINES = 2000
BYTES = 50 * 1024
_CERTAINLY_FIT = BYTES // 4  # characters: none has more bytes
_REMARK_LINES = 20
_REMARK_BYTES = 8 * 1024  # it may name a file, by a path of 4 KB


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


def within_limits(result: AgentToolResult) -> AgentToolResult:
    """The first lines of a result that has more than a model gets to read; any other as it is.

    Its details stay, and as many images as a session can hold. A tool's own remark may go beyond the limits,
    so that nothing is cut twice.
    """
    if len(result.content) == 1 and isinstance(only := result.content[0], Text):
        certainly_fits = len(only.text) <= _CERTAINLY_FIT and only.text.count("\n") < LINES
        if certainly_fits:
            return result
    images = [block for block in result.blocks if isinstance(block, Image)]
    if sum(len(image.data) for image in images) > MOST_BESIDE:
        result = replace(result, content=[*_with_first_images(result.blocks)])
    texts = [block.text for block in result.blocks if isinstance(block, Text)]
    lines, size = sum(map(count_lines, texts)), sum(len(_bytes(text)) for text in texts)
    if lines <= LINES + _REMARK_LINES and size <= BYTES + _REMARK_BYTES:
        return result
    return replace(result, content=[*_first(result.blocks, lines, size)])


def _with_first_images(blocks: Iterable[Text | Image]) -> Iterator[Text | Image]:
    left = MOST_BESIDE
    for block in blocks:
        if isinstance(block, Image):
            left -= len(block.data)
        is_left_out = isinstance(block, Image) and left < 0
        yield Text("[an image is left out: this result has more than can be kept]") if is_left_out else block


def _first(blocks: Iterable[Text | Image], total_lines: int, total_size: int) -> Iterator[Text | Image]:
    lines = size = 0
    is_cut = False
    for block in blocks:
        if isinstance(block, Image):
            yield block
        elif not is_cut:
            text = _beginning(block.text, LINES - lines, BYTES - size)
            lines += count_lines(text)
            size += len(_bytes(text))
            is_cut = len(text) < len(block.text)
            if is_cut:
                remark = (
                    f"[{lines:,} of {total_lines:,} lines are shown, {size:,} of {total_size:,} bytes; "
                    "the rest is left out. Ask for less at once.]"
                )
                text = "\n\n".join(filter(None, [text.removesuffix("\n"), remark]))
            yield replace(block, text=text)


def _beginning(text: str, lines: int, size: int) -> str:
    """Whole lines, unless a long one leaves most of the room empty: then a part of it, too."""
    shown = head(text, lines=lines, size=size)
    if shown.by != "bytes" or 2 * len(_bytes(shown.text)) > size:
        return shown.text
    return _text(_to_a_character(_bytes(text[: size + 1]), size))


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


def _to_a_character(data: bytes, end: int) -> bytes:
    while end and data[end] & 0xC0 == 0x80:
        end -= 1
    return data[:end]
