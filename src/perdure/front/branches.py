"""All branches of a session as lines to draw: what follows in line stands below, and only where branches part
are they indented.

Where each entry stands is known for all of them at once; what it says is read when its line is drawn. A
hundred thousand places take a third of a second, and as many texts several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from perdure.front import render
from perdure.front.render import Call
from perdure.session import tree
from perdure.session.entry import Entry

Below = Mapping[str | None, Sequence[Entry]]
"""What follows each entry, as `tree.children` has it."""


class Lead(NamedTuple):
    """The lines that lead to an entry: the last of them, and all before it. Those before are shared, so that
    branches of branches take no more space than branches."""

    outer: Lead | None
    step: str


class Place(Struct, frozen=True, gc=False):  # as entries are: it is never part of a cycle
    """Where an entry stands in the drawing of all branches."""

    lead: Lead | None
    entry: Entry
    ways: int
    """How many entries follow it: none at the end of a branch, several where branches part."""
    is_head: bool

    @property
    def is_left(self) -> bool:
        """Whether a branch ends here that the conversation left."""
        return not self.ways and not self.is_head


class _Branch(NamedTuple):
    first: Entry
    lead: Lead | None
    rest: Lead | None
    """The lines that lead to what follows it."""


class Row(NamedTuple):
    """An entry in the drawing of all branches."""

    lead: str
    """The lines that lead to it."""
    id: str
    speaker: str
    text: str
    tools: int
    timestamp: str
    label: str
    is_head: bool
    is_left: bool
    """Whether a branch ends here that the conversation left."""


def rows(entries: Sequence[Entry], head: str | None, labels: Mapping[str, str], *, deepest: int) -> list[Row]:
    """Every branch, in the order they were begun, with what is said there."""
    return [row(place, labels, deepest=deepest) for place in places(tree.children(entries), head, labels)]


def row(place: Place, labels: Mapping[str, str], *, deepest: int) -> Row:
    """A line of the drawing, indented by at most `deepest` steps: what lies deeper loses its outer lines."""
    entry = place.entry
    said = render.turn(entry, labels)
    tools = sum(isinstance(part, Call) for part in said.parts)
    drawn = (_drawn(place.lead, deepest), entry.id, said.speaker, render.gist(said), tools)
    return Row(*drawn, entry.timestamp, said.label, place.is_head, place.is_left)


def places(below: Below, head: str | None, labels: Mapping[str, str]) -> list[Place]:
    """Every branch, in the order they were begun. What follows in line stands below; only where branches
    part are they indented."""
    found: list[Place] = []
    waiting = _branches(below.get(None, ()), None)
    while waiting:
        entry, lead, rest = waiting.pop()
        while True:
            following = below.get(entry.id, ())
            ways, is_head = len(following), entry.id == head
            is_in_line = ways == 1 and lead is rest
            if not is_in_line or is_head or entry.id in labels or entry.role != "toolResult":
                found.append(Place(lead, entry, ways, is_head))  # else its call stands for it
            if ways != 1:
                break
            entry, lead = following[0], rest
        waiting += _branches(following, rest)
    return found


def _branches(entries: Sequence[Entry], lead: Lead | None) -> list[_Branch]:
    """The first one last, to be taken first."""
    if len(entries) <= 1:
        return [_Branch(entry, lead, lead) for entry in entries]
    branch, passing = Lead(lead, "├─ "), Lead(lead, "│  ")
    *others, last = entries
    made = [_Branch(entry, branch, passing) for entry in others]
    return [_Branch(last, Lead(lead, "└─ "), Lead(lead, "   ")), *reversed(made)]


def _drawn(lead: Lead | None, deepest: int) -> str:
    steps: list[str] = []
    while lead is not None and len(steps) <= deepest:
        steps.append(lead.step)
        lead = lead.outer
    if len(steps) > deepest:
        steps[max(deepest - 1, 1) :] = ["⋯  "]
    return "".join(reversed(steps))
