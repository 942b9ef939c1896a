"""A session of one layout as a new session of another, with every entry; what is left behind is counted.

Only a layout whose own rules forbid it to keep something leaves anything behind.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from perdure.session import ids, lifecycle, summary, tree
from perdure.session.entry import new
from perdure.session.layouts import LAYOUTS
from perdure.session.stores import Found, Problem, Store


class Converted(NamedTuple):
    ref: Found
    dropped: Counter[str]
    """What the new layout's rules forbid it to keep, by kind, and how much of it there was."""
    problems: list[Problem]
    """What could not be read of the old session."""


def convert(source: Store, ref: Found, target: Store, *, id: str = "") -> Converted:
    """Copy a session into another store. The old one is only read."""
    page = source.read(ref)
    header, entries = page.header._replace(covers=0), page.entries
    folded = tree.fold(entries)
    about = summary.of(page.header, folded.entries)
    status = lifecycle.recorded(page.header, entries)
    if not status and target.name in LAYOUTS and entries and not about.waits:
        status = LAYOUTS[target.name].at_rest  # or else it would look as if somebody had died in it
    if status:
        header = header._replace(facts={**header.facts, "status": status})
    if status != lifecycle.recorded(header, entries):  # what a header said last, entries must say elsewhere
        body, tip = lifecycle.body(status), folded.ends.tip
        entries = [*entries, new(body, id=ids.new_id(), parent_id=tip, timestamp=ids.stamp(ids.now()))]
    if not id:
        named = {"title": about.title, **header.facts}
        id = target.new_id(header._replace(facts={name: fact for name, fact in named.items() if fact}))
    dropped = Counter(kind for entry in entries for kind in target.forbidden(entry))
    dropped.update(target.forbidden_facts(header.facts))
    return Converted(target.create(header._replace(id=id), entries), dropped, page.problems)
