"""All branches of a session as lines to draw: what follows in line stands below, and only where branches part
are they indented."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from perdure.front import render
from perdure.front.render import Call
from perdure.session import tree
from perdure.session.entry import Entry


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
    """Every branch, in the order they were begun. What follows in line stands below; only where branches
    part are they indented, and no further than `deepest` steps: what lies deeper loses its outer lines."""
    below = tree.children(entries)
    drawn: list[Row] = []
    waiting = _branches(below.get(None, []), "", deepest)
    while waiting:
        entry, lead, rest = waiting.pop()
        following = below.get(entry.id, [])
        waiting += _branches(following, rest, deepest)
        is_in_line = lead == rest and len(following) == 1
        if is_in_line and entry.role == "toolResult" and entry.id != head and entry.id not in labels:
            continue  # its call stands for it
        said = render.turn(entry, labels)
        tools = sum(isinstance(part, Call) for part in said.parts)
        is_left = not following and entry.id != head
        place = (lead, entry.id, said.speaker, render.gist(said), tools, entry.timestamp, said.label)
        drawn.append(Row(*place, entry.id == head, is_left))
    return drawn


def _branches(entries: Sequence[Entry], lead: str, deepest: int) -> list[tuple[Entry, str, str]]:
    """Each with the lines before it and before what follows it; the first one last, to be taken first."""
    if len(entries) == 1:
        return [(entries[0], lead, lead)]
    if len(lead) >= 3 * deepest:
        lead = f"⋯  {lead[6:]}"
    made = [(entry, f"{lead}├─ ", f"{lead}│  ") for entry in entries]
    if made:
        made[-1] = (entries[-1], f"{lead}└─ ", f"{lead}   ")
    return made[::-1]
