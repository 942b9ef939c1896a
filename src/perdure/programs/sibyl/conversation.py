"""A conversation as the document's functions know one: messages, and a summary of what came before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from perdure.session import ids, tree
from perdure.session.entry import Compaction, Entry, content_of, new, placed
from perdure.session.stores.sibyl_document import summary_of
from perdure.session.stores.sibyl_rules import stripped
from perdure.session.stores.whole_file import Document


def is_empty(messages: Sequence[Entry]) -> bool:
    """Whether nothing was said in it that a session here keeps."""
    return not any(stripped(message) for message in messages)


def entries_behind(there: Sequence[Entry], messages: Sequence[Entry], summary: str | None) -> list[Entry]:
    """What of a conversation is not there yet, behind what is."""
    folded = tree.fold(there)
    known = {entry.id: entry for entry in folded.entries}
    tip = folded.ends.tip
    fresh: list[Entry] = []
    first: Any = msgspec.UNSET

    def add(entry: Entry) -> None:
        nonlocal tip
        fresh.append(entry)
        known[entry.id] = entry
        tip = entry.id

    for message in messages:
        left = stripped(message)
        if left is None:
            continue
        id = left.id or ids.new_id()
        if id in known and content_of(known[id]) != content_of(left):
            id = ids.new_id()
        if id not in known:
            add(placed(left, id=id, parent_id=tip, timestamp=left.timestamp or ids.stamp(ids.now())))
        first = id if first is msgspec.UNSET else first
    if summary and summary != summary_of([*folded.entries, *fresh]):
        body = Compaction(summary, first)
        add(new(body, id=ids.new_id(), parent_id=tip, timestamp=ids.stamp(ids.now())))
    return fresh


def conversation_of(document: Document) -> tuple[list[Entry], str | None]:
    """All its messages, and the summary of its past."""
    folded = tree.fold(document.entries)
    path = tree.path(folded.entries, folded.ends.head)
    return [entry for entry in path if entry.type == "message"], summary_of(folded.entries)
