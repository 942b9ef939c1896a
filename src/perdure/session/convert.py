"""A session of one layout as a new session of another, with every entry; what is left behind is counted.

Only a layout whose own rules forbid it to keep something leaves anything behind.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from perdure.session import lifecycle
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
    header = page.header._replace(covers=0)
    if status := lifecycle.recorded(page.header, page.entries):
        header = header._replace(facts={**header.facts, "status": status})
    header = header._replace(id=id or target.new_id(header))
    dropped = Counter(kind for entry in page.entries for kind in target.forbidden(entry))
    return Converted(target.create(header, page.entries), dropped, page.problems)
