"""What edit and write changed, as lines of a terminal.

The details of a result hold it in one of two forms: a unified diff, which is ours, or the original pi's,
whose lines have a sign and a number. Both are shown alike: sign, number, line. Details may come from anyone
and be of any type: what is no diff has no lines, and nothing raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from perdure.front.amounts import counted
from perdure.front.visible import visible


class Line(NamedTuple):
    text: str
    style: str
    """green, red, dim, or empty."""


def lines(details: Any, arguments: Any, *, most: int = 0) -> list[Line]:
    """All of them, or the first `most` and how many there are more; none if nothing is known of a change."""
    rows = [*_rows(details)] or [*_new_file(details, arguments)]
    shown = rows[:most] if most > 0 else rows
    numbers = max((len(str(row.number)) for row in rows if row.number), default=0)
    changed = {row.text for row in rows if row.sign in "+-"}
    # A carriage return is shown where it is what changed.
    is_bare = len({text.removesuffix("\r") for text in changed}) == len(changed)
    made = [_line(row, numbers, is_bare=is_bare) for row in shown]
    if len(shown) < len(rows):
        made.append(Line(f"… {counted(len(rows) - len(shown), 'more line')}", "dim"))
    return made


def summary(details: Any) -> str:
    """`+3 -1`, or that a file is new; empty if nobody knows."""
    rows = [*_rows(details)]
    added, removed = (sum(row.sign == sign for row in rows) for sign in "+-")
    if added or removed:
        is_cut = any(row.sign == _CUT for row in rows)
        return "" if is_cut else f"+{added} -{removed}"
    return "new file" if _is_new(details) else ""


# --- reading ------------------------------------------------------------------------------------------


class _Row(NamedTuple):
    sign: str
    """+, -, a blank, or one of those below."""
    number: int
    """0 if it has none."""
    text: str


_GAP = "…"
_NOTE = "\\"
_CUT = "(cut)"
_STYLES = {"+": "green", "-": "red"}
_HUNK = re.compile(r"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@")
_NUMBERED = re.compile(r"([-+ ])( *[0-9]{1,9}) (.*)", re.DOTALL)
_LEFT_OUT = re.compile(r"[ ]+(?:\.\.\.|…)")


def _rows(details: Any) -> Iterator[_Row]:
    if not isinstance(details, dict):
        return
    for name in ("diff", "patch"):
        diff = details.get(name)
        if isinstance(diff, str) and diff.strip():
            every = diff.removesuffix("\n").split("\n")
            is_unified = any(_HUNK.match(line) for line in every)
            yield from _unified(every) if is_unified else map(_numbered, every)
            return


def _numbered(line: str) -> _Row:
    """One of the original pi's."""
    if found := _NUMBERED.fullmatch(line):
        return _Row(found[1], int(found[2]), found[3])
    if _LEFT_OUT.fullmatch(line):
        return _Row(_GAP, 0, "")
    return _Row(line[0], 0, line[1:]) if line[:1] in ("+", "-", " ") else _Row(" ", 0, line)


def _unified(every: list[str]) -> Iterator[_Row]:
    """Only what stands in hunks; how long each is, its header says."""
    old = new = olds = news = 0
    has_hunks = False
    for line in every:
        sign = line[:1] or " "
        if olds <= 0 and news <= 0:
            if found := _HUNK.match(line):
                old, new = int(found[1]), int(found[3])
                olds, news = (1 if count is None else int(count) for count in (found[2], found[4]))
                if has_hunks:
                    yield _Row(_GAP, 0, "")
                has_hunks = True
            elif sign == _NOTE and has_hunks:
                yield _Row(_NOTE, 0, line[1:].strip())
        elif sign == "+":
            yield _Row(sign, new, line[1:])
            new, news = new + 1, news - 1
        elif sign == "-":
            yield _Row(sign, old, line[1:])
            old, olds = old + 1, olds - 1
        elif sign == _NOTE:
            yield _Row(_NOTE, 0, line[1:].strip())
        else:
            yield _Row(" ", new, line[1:])
            old, olds, new, news = old + 1, olds - 1, new + 1, news - 1
    if olds > 0 or news > 0:
        yield _Row(_CUT, 0, "")


def _is_new(details: Any) -> bool:
    return isinstance(details, dict) and details.get("isNew") is True


def _new_file(details: Any, arguments: Any) -> Iterator[_Row]:
    content = arguments.get("content") if isinstance(arguments, dict) else None
    if _is_new(details) and isinstance(content, str) and content:
        for number, line in enumerate(content.removesuffix("\n").split("\n"), 1):
            yield _Row("+", number, line)


# --- showing ------------------------------------------------------------------------------------------


def _line(row: _Row, numbers: int, *, is_bare: bool) -> Line:
    margin = f"{row.number or '':>{numbers}} " if numbers else ""
    if row.sign == _GAP:
        return Line(f" {' ' * len(margin)}…", "dim")
    if row.sign == _CUT:
        return Line("… and more, which was not kept", "dim")
    if row.sign == _NOTE:
        return Line(f" {' ' * len(margin)}({visible(row.text)})", "dim")
    text = visible(row.text.removesuffix("\r") if is_bare else row.text)
    return Line(f"{row.sign}{margin}{text.expandtabs(4)}", _STYLES.get(row.sign, "dim"))
