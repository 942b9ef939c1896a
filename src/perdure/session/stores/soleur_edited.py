"""A Soleur document that somebody edited by hand: `messages` is the conversation, in the order of the file.

Our messages name their parents, and records in `entries` name messages and count them. Who inserts, removes
or moves a message by hand leaves these names as they were, and then they lead past some messages: those would
no longer be sent. So each message is linked to the one before it, as the list says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from perdure.session.entry import placed
from perdure.session.stores.soleur_format import Item, item_of
from perdure.session.tree import METADATA, on_active_path


def is_one_conversation(items: Sequence[Item], messages: Iterable[int]) -> bool:
    """True if all messages are on the active path, as in every document that was not edited by hand.

    `messages` has the number of each item of `messages` among the items."""
    is_active = on_active_path([item.entry for item in items])
    return all(is_active[number] for number in messages)


def linked(items: Sequence[Item], places: Mapping[int, int]) -> list[Item]:
    """The items with all messages on one path, and between them the records that were there.

    `places` has the place of each item of `messages`, by its number among the items."""
    between = _between(items, places)
    ids: set[str] = set()
    made: list[Item] = []
    tail: str | None = None
    for number, item in enumerate(items):
        if number in places:
            is_copy = item.entry.id in ids  # somebody copied a message, and changed its text
            if is_copy or item.entry.parent_id != tail:
                item = item.behind(tail, places[number], keeps_id=not is_copy)
            tail = item.entry.id
        elif number in between:
            if item.entry.parent_id != tail:
                item = item_of(placed(item.entry, parent_id=tail))
            tail = item.entry.id
        ids.add(item.entry.id)
        made.append(item)
    return made


def _between(items: Sequence[Item], places: Mapping[int, int]) -> set[int]:
    """The numbers of the records that belong to the conversation: those that lead from a message to the one
    before it, and not those of abandoned branches."""
    numbers = {item.entry.id: number for number, item in enumerate(items)}
    found: set[int] = set()

    def walk(id: str | None) -> int:
        """Collect the records from here back to a message, and return its number: -1 where the path begins,
        a number beyond all others where it breaks off."""
        while id is not None:
            number = numbers.get(id, len(items))
            if number in places or number in found or number == len(items):
                return number
            found.add(number)
            id = items[number].entry.parent_id
        return -1

    reached = {number: walk(items[number].entry.parent_id) for number in places if items[number].has_parent}
    for number in places:
        before = number - 1
        if number in reached or before < 0 or before in places or before in found:
            continue
        # It names no parent, so it followed the record before it; unless it was inserted behind an abandoned
        # branch, which the next message that names its parent has left out.
        following = next((each for each in reached if each > number), None)
        if following is None or reached[following] > before:
            walk(items[before].entry.id)
    last = max(places, default=-1)
    for number in range(len(items) - 1, last, -1):
        if items[number].entry.type not in METADATA:
            walk(items[number].entry.id)
            break
    return found
