"""A session as the picker draws it: its row, and what the highlighted one is about.

Pure, but for the clock. Nothing is in it that a terminal would obey.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from prompt_toolkit.utils import get_cwidth

from perdure.config import as_typed
from perdure.front.ages import ago
from perdure.front.cells import Fragments, cut, folded, padded
from perdure.front.finder import Offer
from perdure.front.table import number
from perdure.front.visible import one_line, visible
from perdure.session.catalog import Row
from perdure.session.layouts import LAYOUTS
from perdure.session.query import MARK, UNMARK

_GAP = "  "
_PROGRAM = max(map(len, LAYOUTS))
_PROJECT = 14
_AGE = len("59 min")
_MESSAGES = len("9,999 msg")
_HAS_PROJECT, _HAS_MESSAGES, _HAS_PROGRAM = 72, 56, 44
"""Columns from which on there is space for each."""
_STYLES = {"active": "ansigreen", "interrupted": "ansiyellow"}
_USUAL = ("idle", "completed")
_MATCH = "bold ansired"
_MARKED = re.compile(f"{MARK}([^{UNMARK}]*){UNMARK}")
_SPEAKERS = {"user": "bold ansicyan", "assistant": "bold ansigreen"}
_TITLE_PART, _PROMPT_PART = 10, 4
"""Of how many lines one is the title's, or the user's, so that there is space for the answer."""


class Said(NamedTuple):
    speaker: str
    text: str


def is_broken(row: Row) -> bool:
    return row.problem is not None or not row.lock


def is_unreadable(row: Row) -> bool:
    """Whether nothing of it can be read: what is only damaged can be gone on with."""
    return not row.lock


def trouble(row: Row) -> str:
    """What is wrong with it, and what to do about that."""
    doctor = shlex.join(["pi", "sessions", "doctor", f"{row.program}:{row.id}"])
    return f"{row.problem or 'it cannot be read'}; `{doctor}` says more"


def line(row: Row, status: str, columns: int, *, has_project: bool) -> Fragments:
    """A session on exactly so many columns. The title has what the rest leaves, and the rest is less where
    that is not much."""
    program = padded(cut(one_line(row.program), _PROGRAM), _PROGRAM) + _GAP
    project = cut(one_line(row.project or os.path.basename(row.cwd)), _PROJECT)
    age = cut(ago(row.active / 1000).removesuffix(" ago").replace("just now", "now"), _AGE)
    said = cut(f"{number(row.messages)} msg", _MESSAGES)
    start = [("ansicyan", program if columns >= _HAS_PROGRAM else "")]
    end = [
        ("dim", _GAP + padded(project, _PROJECT) if has_project and columns >= _HAS_PROJECT else ""),
        ("dim", _GAP + f"{age:>{_AGE}}"),
        ("dim", _GAP + f"{said:>{_MESSAGES}}" if columns >= _HAS_MESSAGES else ""),
    ]
    room = columns - sum(get_cwidth(text) for _, text in (*start, *end))
    return [*start, *_title(row, status, max(room, 0)), *end]


def _title(row: Row, status: str, columns: int) -> Fragments:
    title = one_line(row.title)
    if is_broken(row):
        text = cut(" ".join(filter(None, (title, f"! {one_line(row.problem or status)}"))), columns)
        return [("ansiyellow", padded(text, columns))]
    mark = "" if status in _USUAL else cut(f" ({one_line(status)})", columns)
    text = cut(title or "-", columns - get_cwidth(mark))
    blank = " " * (columns - get_cwidth(text) - get_cwidth(mark))
    return [("", text), (_STYLES.get(status, "dim"), mark), ("", blank)]


def about(
    offer: Offer, status: str, exchange: Sequence[Said], columns: int, lines: int
) -> Iterator[Fragments]:
    """What it is and where it is from; then what matches, and what was said last."""
    row = offer.row
    yield from _first(lines // _TITLE_PART, folded([("bold", one_line(row.title) or "-")], columns))
    facts = (f"{row.program}:{row.id}", as_typed(row.cwd), status)
    yield [("dim", cut(" · ".join(one_line(fact) for fact in facts if fact), columns))]
    if is_broken(row):
        yield from folded([("ansiyellow", one_line(trouble(row)))], columns)
    if offer.snippet:
        yield from folded([("dim", f"{one_line(offer.role)}: "), *_marked(offer.snippet)], columns)
    for at, said in enumerate(exchange):
        is_last = at == len(exchange) - 1
        yield from _first(lines if is_last else lines // _PROMPT_PART, _spoken(said, columns))


def _first(most: int, lines: Iterable[Fragments]) -> Iterable[Fragments]:
    """At least one."""
    return islice(lines, max(most, 1))


def _spoken(said: Said, columns: int) -> Iterator[Fragments]:
    start = [(_SPEAKERS.get(said.speaker, "bold ansiyellow"), f"{one_line(said.speaker)}: ")]
    for text in visible(said.text).split("\n"):
        yield from folded([*start, ("", text.expandtabs(4))], columns)
        start = []


def _marked(snippet: str) -> Fragments:
    parts = _MARKED.split(snippet)
    return [(_MATCH if at % 2 else "", one_line(part)) for at, part in enumerate(parts)]
