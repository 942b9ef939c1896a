"""Markdown line by line: in which items of lists and in what kind of block each line stands.

Nothing is parsed twice, and no line is waited for. What a line means where it stands is CommonMark, with
tables and without HTML, as `markdown.tokens` reads it. Of what is inside a quote nothing is known here.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import NamedTuple

_DEEPEST = 40
_LONGEST_HEAD = 1000


class Kind(Enum):
    NONE = auto()
    EMPTY = auto()
    """An item of a list that began with a blank line, and has nothing in it."""
    PARAGRAPH = auto()
    HEADING = auto()
    RULE = auto()
    FENCE = auto()
    CODE = auto()
    """Indented, without a fence."""
    QUOTE = auto()
    TABLE = auto()
    ITEM = auto()


class Item(NamedTuple):
    mark: str
    """What all items of its list have: a bullet, or what stands behind the number."""
    offset: int
    """The column at which its content begins."""
    shown: int
    """How many columns the layout puts before that."""


class Fence(NamedTuple):
    mark: str
    info: str
    column: int
    offset: int
    """Of the item in which it stands."""
    shown: int


class Place:
    """Where a text stands, behind the last line that was read."""

    def __init__(self) -> None:
        self.items: list[Item] = []
        """The outermost first."""
        self.leaf = Kind.NONE
        """What the last line belongs to, be it open or closed."""
        self.fence: Fence | None = None
        self.head = ""
        """Of the last table: the names of its columns, and the line below."""
        self.is_apart = False
        """Whether the layout leaves a blank line before the block that began last."""
        self._is_open = False
        """Whether a line of text goes on with the leaf."""
        self._above = ""

    def read(self, line: str) -> tuple[bool, bool]:
        """Whether a block begins with the line, and whether one ends with it."""
        text = line.removesuffix("\n").removesuffix("\r").expandtabs(4)
        body = text.lstrip(" ")
        column = len(text) - len(body)
        if not body:
            return False, self._blank()
        if self.fence:
            if column >= self.fence.offset:
                return False, self._code(column - self.fence.offset, body)
            self.fence = None
        depth = sum(item.offset <= column for item in self.items)
        if self.leaf == Kind.EMPTY:
            depth = min(depth, len(self.items) - 1)
        indent = column - (self.items[depth - 1].offset if depth else 0)
        is_inner = depth == len(self.items)
        if is_inner and indent < 4 and self._is_open and self.leaf == Kind.PARAGRAPH:
            if _is_delimiter(body, self._above):
                self.leaf = Kind.TABLE
                self.head = f"{self._above}\n{body}" if len(self._above) <= _LONGEST_HEAD else ""
                return False, False
            if _UNDERLINE.fullmatch(body):
                return False, self._ends(Kind.HEADING)
        kind = self._kind(indent, body)
        if kind == Kind.RULE and is_inner and self._may_be_underlined() and _UNDERLINE.fullmatch(body):
            return False, self._ends(kind)
        if self._goes_on(kind, column, body, is_inner=is_inner):
            self._above = body if is_inner and kind in (Kind.PARAGRAPH, Kind.QUOTE) else ""
            return False, False
        self.is_apart = self._is_apart_from(kind, body) if depth == 0 else self.leaf in _PADDED
        del self.items[depth:]
        self._begin(column, indent, body)
        is_line = self.leaf in (Kind.HEADING, Kind.RULE)
        return depth == 0, is_line and self._ends(self.leaf)

    def go_on_mid_line(self) -> None:
        """The line that was read last is not complete; what is missing of it will not be read."""
        if not self.fence and self.leaf not in (Kind.TABLE, Kind.QUOTE, Kind.CODE):
            self.leaf = Kind.PARAGRAPH
            self._is_open = True
            self._above = ""

    def is_undecided(self, beginning: str) -> bool:
        """Whether the beginning of the next line may close what it would otherwise belong to."""
        marks = beginning.strip(" \t\r")
        if self.fence:
            return bool(marks) and not marks.strip(self.fence.mark[0])
        is_text = self._is_open and self.leaf == Kind.PARAGRAPH
        return is_text and _UNDERLINE.fullmatch(marks) is not None

    def is_blank_behind(self, line: str) -> bool:
        """Whether the layout leaves a blank line behind this one, which was read last."""
        return is_blank(line) if self.fence or self.leaf == Kind.CODE else self.leaf in _PADDED

    def _blank(self) -> bool:
        if self.fence:
            return False
        self._is_open = False
        if self.items and self.leaf == Kind.NONE:
            self.leaf = Kind.EMPTY
        return self.leaf not in (Kind.NONE, Kind.CODE) and self._ends(self.leaf)

    def _code(self, indent: int, body: str) -> bool:
        assert self.fence is not None
        run = body.rstrip(" ")
        if indent >= 4 or run.strip(self.fence.mark[0]) or len(run) < len(self.fence.mark):
            return False
        self.fence = None
        return self._ends(Kind.FENCE)

    def _ends(self, leaf: Kind) -> bool:
        self._is_open = False
        self.leaf = leaf if self.items else Kind.NONE
        return not self.items

    def _kind(self, indent: int, body: str) -> Kind:
        if indent >= 4:
            return Kind.CODE
        if body[0] == ">":
            return Kind.QUOTE
        if body[0] in "-_*" and _RULE.fullmatch(body):
            return Kind.RULE
        if body[0] == "#" and _HEADING.match(body):
            return Kind.HEADING
        if body[0] in "`~" and _FENCE.fullmatch(body):
            return Kind.FENCE
        if len(self.items) < _DEEPEST and _ITEM.match(body):
            return Kind.ITEM
        return Kind.PARAGRAPH

    def _may_be_underlined(self) -> bool:
        """Whether the line above is text of a quote without its mark, or no part of the quote."""
        return self._is_open and self.leaf == Kind.QUOTE and self._above[:1] != ">"

    def _goes_on(self, kind: Kind, column: int, body: str, *, is_inner: bool) -> bool:
        if not self._is_open:
            return self.leaf == kind == Kind.CODE and is_inner
        if self.leaf == Kind.TABLE:
            return kind == Kind.PARAGRAPH and is_inner
        if kind == Kind.QUOTE:
            return self.leaf == Kind.QUOTE and is_inner
        if kind == Kind.ITEM:
            return self.leaf == Kind.PARAGRAPH and is_inner and not _ITEM_IN_TEXT.match(body)
        if self.leaf == Kind.QUOTE and self._above and not self._above.strip("> "):
            return body[0] == ">"  # behind an empty line of a quote no text goes on
        if kind == Kind.CODE and not is_inner:
            kind = self._kind(0, body)
            is_far = column - (self.items[-2].offset if len(self.items) > 1 else 0) >= 4
            return kind == Kind.PARAGRAPH or (kind == Kind.ITEM and is_far)
        return kind in (Kind.PARAGRAPH, Kind.CODE)

    def _is_apart_from(self, kind: Kind, body: str) -> bool:
        """Items of one list stand together, unless something stands between them that has blank lines."""
        found = _ITEM.match(body) if kind == Kind.ITEM and self.items else None
        return not found or found["mark"][-1] != self.items[0].mark or self.leaf in _PADDED

    def _begin(self, column: int, indent: int, body: str) -> None:
        self.leaf = self._kind(indent, body)
        self._is_open = self.leaf in (Kind.PARAGRAPH, Kind.QUOTE)
        self._above = body
        if self.leaf == Kind.FENCE and (found := _FENCE.fullmatch(body)):
            offset = self.items[-1].offset if self.items else 0
            shown = sum(item.shown for item in self.items)
            self.fence = Fence(found["mark"], found["info"], column, offset, shown)
        if self.leaf == Kind.ITEM and (found := _ITEM.match(body)):
            self._begin_item(column, found)

    def _begin_item(self, column: int, found: re.Match[str]) -> None:
        mark, gap, number = found["mark"], len(found["gap"]), found["number"]
        content = found.string[found.end() :]
        width = len(mark) + (gap if content and gap <= 4 else 1)
        shown = len(str(int(number) + 1)) + 2 if number else 3
        self.items.append(Item(mark[-1], column + width, shown))
        self.leaf = Kind.NONE
        if content:
            indent = len(mark) + gap - width
            self._begin(column + width + indent, indent, content)


def is_blank(line: str) -> bool:
    return not line.removesuffix("\n").removesuffix("\r").strip(" \t")


def outdented(line: str, columns: int) -> str:
    """The line without its first columns, as far as those are blank."""
    if not columns:
        return line
    body = line.lstrip(" \t")
    return line[: len(line) - len(body)].expandtabs(4)[columns:] + body


_PADDED = (Kind.FENCE, Kind.CODE, Kind.RULE, Kind.TABLE)
"""What the layout leaves a blank line behind, also in an item of a list."""
_UNDERLINE = re.compile(r"(?:=+|-+) *")
_RULE = re.compile(r"([-_*])(?: *\1){2,} *")
_HEADING = re.compile(r"#{1,6}(?: |$)")
_FENCE = re.compile(r"(?P<mark>`{3,}+(?=[^`]*$)|~{3,}+)(?P<info>.*)", re.DOTALL)
_ITEM = re.compile(r"(?P<mark>[-+*]|(?P<number>[0-9]{1,9})[.)])(?P<gap> +|$)")
_ITEM_IN_TEXT = re.compile(r"(?:[-+*]|1[.)]) +[^ ]")
"""Those that no blank line has to stand before."""
_DELIMITER = re.compile(r"\|? *+:?-++:? *+(?:\| *+:?-++:? *+)*+\|? *+")


def _is_delimiter(body: str, above: str) -> bool:
    """Whether it is the line of a table below the names of its columns."""
    return "|" in above and _DELIMITER.fullmatch(body) is not None and _columns(body) == _columns(above)


def _columns(row: str) -> int:
    return len(re.findall(r"(?<!\\)\|", row.strip(" ").removeprefix("|").removesuffix("|"))) + 1
