"""Wraps a line at words, for a terminal of so many columns.

No line break is put into a word, however long it is, nor into what stands between backticks or is `Copyable`:
that may be a path or a command that somebody copies. What is wider than the terminal is left to the terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from perdure.front.output import Copyable, Styled, coloured
from perdure.front.visible import NARROWEST, visible, width

_WORD = re.compile(r" +|(?:`[^`]*`|[^ ])+")
_NAME = re.compile(r" +\S+(?: \S+)*  +(?=\S)")
_NAME_ALONE = re.compile(r".*  |\W*")
_BELOW_A_LONG_NAME = 4
_Word = list[tuple[str, str]]
"""Texts that belong together, each with its style: a word, or the blanks between two."""


def wrapped(parts: Sequence[str | Styled], columns: int, colour: bool) -> list[str]:
    """The lines that the parts make, without control characters but those of the colours."""
    columns = max(columns, NARROWEST)
    return [
        "".join(coloured(text, style if colour else "") for text, style in line)
        for whole in _lines(parts)
        for line in _wrapped(whole, columns)
    ]


def _lines(parts: Sequence[str | Styled]) -> list[list[Styled]]:
    """The parts of each line; a text may have several."""
    lines: list[list[Styled]] = [[]]
    for part in parts:
        part = part if isinstance(part, Styled) else Styled(part, "")
        first, *further = visible(part.text).split("\n")
        lines[-1].append(part._replace(text=first))
        lines += [[part._replace(text=each)] for each in further]
    return lines


def _wrapped(parts: Sequence[Styled], columns: int) -> Iterator[_Word]:
    if any("\t" in part.text for part in parts):  # which is as wide as its place makes it
        yield [tuple(part) for part in parts]
        return
    indent = _indent(parts, columns)
    line: _Word = []
    used = 0
    for word in _words(parts):
        taken = sum(width(text) for text, _ in word)
        is_blank = word[0][0].isspace()
        if not is_blank and used > indent and used + taken > columns:
            yield _stripped(line)
            line, used = [(" " * indent, "")], indent
        line += word
        used += taken
    yield line


def _stripped(line: _Word) -> _Word:
    """Without the blanks at its end."""
    while len(line) > 1 and line[-1][0].isspace():
        line = line[:-1]
    return line


def _indent(parts: Sequence[Styled], columns: int) -> int:
    """Where all lines but the first begin: as that does, or, in a list, below the text behind the name."""
    head = parts[0].text
    name = _NAME.match(head)
    if len(parts) > 1:
        second = parts[1].text
        name = _NAME_ALONE.fullmatch(head + " " * (len(second) - len(second.lstrip(" "))))
    if name:
        return width(name[0]) if width(name[0]) <= columns // 2 else _BELOW_A_LONG_NAME
    return min(len(head) - len(head.lstrip(" ")), columns // 2)


def _words(parts: Sequence[Styled]) -> Iterator[_Word]:
    """Words, and the blanks between them. A word may go on in the next part."""
    word: _Word = []
    for part in parts:
        pieces = [part.text] if isinstance(part, Copyable) else _WORD.findall(part.text)
        for piece in filter(None, pieces):
            if word and word[0][0].isspace() != piece.isspace():
                yield word
                word = []
            word.append((piece, part.style))
    if word:
        yield word
