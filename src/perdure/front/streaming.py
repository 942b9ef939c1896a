"""Markdown as it arrives, cut into blocks.

A finished block is printed once and stays as it is; only what is open is drawn again. So a block by itself
looks as it does in the whole, and the open one is never longer than `BOUND`: a fence of many lines, a table,
a paragraph that does not end are finished in parts. Where the text is cut depends on the text alone, never
on the pieces in which it came. Each line is looked at once, when it is complete.

Where it is not certain that a block ends, it does not: two blocks laid out together look as they should, and
one laid out in two halves does not. Only what the bound cuts may look different from the whole: code keeps
its fence, a table its head, a quote its marks, but what goes on inside an item of a list stands at the left.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from perdure.front.markdown_lines import Fence, Kind, Place, is_blank, outdented

BOUND = 4000
"""Characters that may be open."""
CODE_LINES = 30
"""Lines of a fence that may be open."""
_LONGEST_CHARACTER = 64
"""Of how many code points people see one character, at most; there is no law."""


class Block(NamedTuple):
    source: str
    """Exactly what was said: the sources of all blocks are the whole text."""
    markdown: str
    """What is to be laid out; a part of something longer is made whole. Empty if there is nothing to see."""
    is_apart: bool
    """Whether a blank line stands before it."""


class Blocks:
    def __init__(self) -> None:
        self._place = Place()
        self._part = _WHOLE
        self._lines: list[str] = []
        self._pieces: list[str] = []
        """Of the line that is not complete."""
        self._size = 0
        self._code_lines = 0
        self._is_mid_line = False
        """Whether the beginning of the line that is not complete is in a block before."""
        self._is_apart = False
        self._has_shown = False

    def add(self, delta: str) -> list[Block]:
        """Those that are finished now."""
        done: list[Block] = []
        at = 0
        while at < len(delta):
            if self._size == BOUND:
                done += self._cut()
            until = at + BOUND - self._size
            end = delta.find("\n", at, until) + 1
            piece = delta[at : end or until]
            self._pieces.append(piece)
            self._size += len(piece)
            at += len(piece)
            if end:
                done += self._complete()
        return done

    @property
    def open(self) -> Block:
        """What is not finished, laid out as far as it has come."""
        line = "".join(self._pieces)
        source = "".join([*self._lines, line])
        shown = [] if not line or self._place.is_undecided(line) else [line.removesuffix("\r")]
        return self._block(source, [*self._lines, *shown], self._place.fence)

    def end(self) -> list[Block]:
        """The rest."""
        done = self._complete() if self._pieces else []
        return [*done, self._finished(self._place.fence)] if self._lines else done

    def _complete(self) -> list[Block]:
        line = "".join(self._pieces)
        self._pieces = []
        if not self._is_mid_line:
            return self._read(line)
        self._is_mid_line = False
        self._lines.append(line)
        return []

    def _read(self, line: str) -> list[Block]:
        place, fence = self._place, self._place.fence
        begins, ends = place.read(line)
        # Of a fence that was cut, no part holds what comes behind it.
        is_left = self._part.fence is not None and place.fence is not fence
        is_closed = is_left and place.fence is None and (ends or place.leaf == Kind.FENCE)
        done = []
        if begins or (is_left and not is_closed):
            if not all(map(is_blank, self._lines)):
                done.append(self._finished(fence))
            self._go_on(_WHOLE if begins else self._further(), is_apart=place.is_apart)
        self._lines.append(line)
        self._code_lines += fence is not None and place.fence is fence
        if ends or is_closed:
            done.append(self._finished(None))
            self._go_on(_WHOLE if ends else self._further(), is_apart=True)
        elif self._code_lines > CODE_LINES:
            done.append(self._cut_behind_line())
        return done

    def _cut(self) -> list[Block]:
        """What is too long, in the best place there is: behind a line, or else inside it."""
        if self._lines:
            return [self._cut_behind_line()]
        line = "".join(self._pieces)
        at = _best_place(line)
        self._pieces = [line[at:]]
        done = []
        if self._is_mid_line:
            self._lines = [line[:at]]
        else:
            done = self._read(line[:at])
        if self._lines:
            done.append(self._finished(self._place.fence))
        self._is_mid_line = True
        self._place.go_on_mid_line()
        self._part = self._further()
        self._is_apart = self._is_apart and not done[-1].markdown
        return done

    def _cut_behind_line(self) -> Block:
        is_apart = self._place.is_blank_behind(self._lines[-1])
        block = self._finished(self._place.fence)
        self._go_on(self._further(), is_apart=is_apart)
        return block

    def _finished(self, fence: Fence | None) -> Block:
        """`fence`: the one that is open at its end."""
        block = self._block("".join(self._lines), self._lines, fence)
        self._size -= len(block.source)
        self._lines = []
        self._code_lines = 0
        if block.markdown:
            self._has_shown = True
            self._is_apart = False
        return block

    def _go_on(self, part: _Part, *, is_apart: bool) -> None:
        """A blank line that was due before something that showed nothing is still due."""
        self._part = part
        self._is_apart = self._is_apart or is_apart

    def _further(self) -> _Part:
        place = self._place
        head = place.head if place.leaf == Kind.TABLE and not self._is_mid_line else ""
        offsets = tuple(item.offset for item in place.items)
        return _Part(place.leaf, place.fence, head, offsets, self._is_mid_line)

    def _block(self, source: str, lines: Sequence[str], fence: Fence | None) -> Block:
        part = self._part
        markdown = part.code(lines, is_closed=fence is None) if part.fence else part.text(lines, fence)
        if not markdown or _SHOWS_NOTHING.fullmatch(markdown):
            return Block(source, "", False)
        is_apart = self._is_apart or (part.leaf in (Kind.FENCE, Kind.CODE) and is_blank(lines[0]))
        return Block(source, markdown, self._has_shown and is_apart)


class _Part(NamedTuple):
    """What the beginning of a block stands in, if that began in a block before."""

    leaf: Kind = Kind.NONE
    fence: Fence | None = None
    head: str = ""
    offsets: tuple[int, ...] = ()
    is_mid_line: bool = False

    def code(self, lines: Sequence[str], *, is_closed: bool) -> str:
        """In a fence of its own, at the column where the layout puts the whole of it."""
        assert self.fence is not None
        mark, info, column, shown = self.fence.mark, self.fence.info, self.fence.column, self.fence.shown
        inner = "".join(self._outdented(lines[:-1] if is_closed else lines, column)).replace("\r\n", "\n")
        inner = inner.rstrip(" \t\n")
        if not inner:
            return ""
        if shown:
            inner = re.sub(r"^(?=[ \t]*[^ \t\n])", " " * shown, inner, flags=re.MULTILINE)
        longest = max(map(len, re.findall(f"{mark[0]}+", inner)), default=0)
        mark = mark[0] * max(len(mark), longest + 1)
        return f"{mark}{info}\n{inner}\n{mark}"

    def text(self, lines: Sequence[str], fence: Fence | None) -> str:
        """Without blank lines around it, and closed; `fence`: the one that is open at its end."""
        column = self._column(lines)
        text = "".join(self._outdented(lines, column)).replace("\r\n", "\n")
        text = _BLANK_LINES.sub("", text).rstrip(" \t\n")
        if not text:
            return ""
        if self.is_mid_line:
            text = _MARKS.get(self.leaf, "") + text.lstrip(" \t")
        if self.head:
            text = f"{self.head}\n{text}"
        return f"{text}\n{' ' * (fence.column - column)}{fence.mark}" if fence else text

    def _column(self, lines: Sequence[str]) -> int:
        """Where the content begins of the list's item in which this stands: by itself it would be code."""
        if self.is_mid_line:
            return max(self.offsets, default=0)
        first = next((line for line in lines if not is_blank(line)), "").expandtabs(4)
        indent = len(first) - len(first.lstrip(" "))
        return max((offset for offset in self.offsets if offset <= indent), default=0)

    def _outdented(self, lines: Sequence[str], columns: int) -> Iterator[str]:
        for at, line in enumerate(lines):
            yield line if self.is_mid_line and not at else outdented(line, columns)


_WHOLE = _Part()
_MARKS = {Kind.QUOTE: "> ", Kind.CODE: "    "}
_BLANK_LINES = re.compile(r"\A(?:[ \t]*\n)+")
_SHOWS_NOTHING = re.compile(
    r" {0,3}(?:(?P<mark>`{3,}+)[^`\n]*+(?:[ \t\n]*\n {0,3}(?P=mark)`*)?"
    r"|(?P<wave>~{3,}+)[^\n]*+(?:[ \t\n]*\n {0,3}(?P=wave)~*)?"
    r"|#{1,6}(?: +#+)?|[-+*]|[0-9]{1,9}[.)])"
)
"""A fence, a heading or an item with nothing in it."""
_BLANK = re.compile(r"[ \t](?=[^\W\d_])")  # before a letter, with which no list or heading begins


def _best_place(line: str) -> int:
    """Where a line that is too long is cut: before a word, or else not inside a character."""
    for found in reversed([*_BLANK.finditer(line, BOUND // 2)]):
        return found.end()
    last = len(line) - 1
    for at in range(last, max(last - _LONGEST_CHARACTER, 0), -1):
        if not _are_joined(line[at - 1], line[at]):
            return at
    return last


def _are_joined(left: str, right: str) -> bool:
    return (
        unicodedata.category(right)[0] == "M"
        or "\u200d" in (left, right)
        or "\U0001f3fb" <= right <= "\U0001f3ff"  # the colour of a skin
        or ("\ud800" <= left <= "\udbff" and "\udc00" <= right <= "\udfff")
    )
