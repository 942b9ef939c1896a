"""A session's entries as a tree. Pure: the same entries always give the same tree.

Order is file order, never time: a clock that goes backwards changes nothing here.
Whatever a damaged file holds, every entry gets a place. An entry seen twice counts once; the same id
with other content stays, under a new id; an entry whose parent is not before it in the file follows
the entry that is. Each such decision is a notice, so that nothing is repaired in silence.

The head is where the conversation goes on: the last entry in the file that is not metadata, whether it
stands there for the first time or again. Naming a session or labelling an old entry must never move it to
a dead branch.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import NamedTuple

from perdure.session.entry import Entry, Label, SessionInfo, meaning, placed
from perdure.session.findings import Notices

METADATA = frozenset({"label", "session_info", "custom", "usage", "leaf"})


class Ends(NamedTuple):
    head: str | None
    """The entry the conversation continues from."""
    tip: str | None
    """What the next entry names as its parent: the head, or metadata chained behind it."""


class Tree(NamedTuple):
    entries: list[Entry]
    """In file order, each id once, each parent before its child."""
    ends: Ends
    notices: list[str]


def fold(entries: Iterable[Entry]) -> Tree:
    kept, in_order, notices = _placed_all(entries)
    return Tree(kept, ends(reversed(in_order)), notices)


def in_place(entries: Iterable[Entry]) -> tuple[list[Entry], list[str]]:
    """Every entry as the tree has it, in file order, one for each that is given; and the notices. A file that
    holds these entries instead gives the same tree without a notice."""
    _, in_order, notices = _placed_all(entries)
    return in_order, notices


def _placed_all(entries: Iterable[Entry]) -> tuple[list[Entry], list[Entry], list[str]]:
    """The entries of the tree, the same in file order with those that are there again, and the notices."""
    kept: list[Entry] = []
    by_id: dict[str, Entry] = {}
    in_order: list[Entry] = []  # as written: an entry that is there again stands where it last stood
    twins: dict[str, dict[bytes, Entry]] = {}  # an id used twice -> what its entries say
    as_read: dict[str, Entry] = {}  # what had to be given another parent, as it was written
    current: dict[str, Entry] = {}  # an id used twice -> the one of them that children after it mean
    notices = Notices()
    for entry in entries:
        earlier = by_id.get(entry.id)
        if earlier is not None:
            known = twins.setdefault(entry.id, {_said(as_read.get(entry.id, earlier)): earlier})
            twin = known.get(said := _said(entry))
            if twin is not None:
                current[entry.id] = twin
                in_order.append(twin)
                continue
            name = _free_name(entry.id, len(known) + 1, by_id)
            notices.add(f"two entries have the id {entry.id}; the second is shown as {name}")
            entry = placed(entry, id=name)
        if entry.parent_id is not None:
            meant = current.get(entry.parent_id) or by_id.get(entry.parent_id)
            if meant is None:
                notices.add(f"the parent of entry {entry.id} is missing; it follows the entry before it")
                meant = kept[-1] if kept else None
            parent = meant.id if meant else None
            if parent != entry.parent_id:
                as_read.setdefault(entry.id, entry)
                entry = placed(entry, parent_id=parent)
        if earlier is not None:
            known[said] = current[earlier.id] = entry
        by_id[entry.id] = entry
        kept.append(entry)
        in_order.append(entry)
    return kept, in_order, notices.told()


def ends(newest_first: Iterable[Entry]) -> Ends:
    """Where a session ends, reading no further back than its last entry that is not metadata and the parents
    that the metadata behind it names.

    Raises LookupError where such a parent is not found: that metadata needs `fold` to get its place.
    """
    behind: list[Entry] = []
    head: str | None = None
    wanted: set[str] = set()
    for entry in newest_first:
        wanted.discard(entry.id)
        if head is None:
            if entry.type not in METADATA:
                head = entry.id
            else:
                behind.append(entry)
                if entry.parent_id is not None:
                    wanted.add(entry.parent_id)
        if head is not None and not wanted:
            break
    if wanted:
        raise LookupError(wanted)
    return advanced(Ends(head, head), reversed(behind))


def advanced(before: Ends, entries: Iterable[Entry]) -> Ends:
    """Where a session ends once these entries, in file order, have been added to it."""
    head, tip = before
    chained = {head, tip}
    for entry in entries:
        if entry.type not in METADATA:
            head = tip = entry.id
            chained = {head}
        elif entry.parent_id in chained:
            tip = entry.id
            chained.add(tip)
    return Ends(head, tip)


def path(entries: Sequence[Entry], leaf: str | None) -> list[Entry]:
    """From the root to `leaf`. `entries` are a tree's: folded."""
    by_id = {entry.id: entry for entry in entries}
    steps = []
    at = leaf
    while at is not None:
        entry = by_id[at]
        steps.append(entry)
        at = entry.parent_id
    steps.reverse()
    return steps


def path_back(newest_first: Iterable[Entry], leaf: str | None) -> Iterator[Entry]:
    """From `leaf` towards the root, reading no further back than the caller goes on asking.

    Raises LookupError where a parent is not found before its child: such a session needs `fold`.
    """
    wanted = leaf
    if wanted is None:
        return
    for entry in newest_first:
        if entry.id == wanted:
            yield entry
            wanted = entry.parent_id
            if wanted is None:
                return
    raise LookupError(wanted)


def on_active_path(entries: Sequence[Entry]) -> list[bool]:
    """For each entry whether it is on the way from the first one to the head: such a document shows one
    conversation, and keeps its other branches apart. A parent that is not there is the entry before, as in
    a tree."""
    flags = [False] * len(entries)
    wanted: str | None = None
    for at in range(len(entries) - 1, -1, -1):
        entry = entries[at]
        if entry.id == wanted or (wanted is None and entry.type not in METADATA):
            flags[at] = True
            wanted = entry.parent_id
            if wanted is None:
                return flags
    return flags if wanted is None else _on_broken_path(entries, flags)


def _on_broken_path(entries: Sequence[Entry], flags: list[bool]) -> list[bool]:
    places: dict[str, list[int]] = {}
    for at, entry in enumerate(entries):
        places.setdefault(entry.id, []).append(at)
    at = flags.index(True)
    while at > 0 and (parent := entries[at].parent_id) is not None:
        earlier = places.get(parent, [])
        number = bisect_left(earlier, at)
        at = earlier[number - 1] if number else at - 1
        flags[at] = True
    return flags


def children(entries: Iterable[Entry]) -> dict[str | None, list[Entry]]:
    """The conversation's own branches: metadata hangs where it was written but opens no branch."""
    below: dict[str | None, list[Entry]] = {}
    above: dict[str, str | None] = {}
    for entry in entries:
        parent = above.get(entry.parent_id, entry.parent_id) if entry.parent_id is not None else None
        if entry.type in METADATA:
            above[entry.id] = parent
        else:
            below.setdefault(parent, []).append(entry)
    return below


def leaves(entries: Sequence[Entry]) -> list[Entry]:
    """The last entry of every branch, in file order."""
    below = children(entries)
    return [entry for entry in entries if entry.type not in METADATA and entry.id not in below]


def forks(entries: Sequence[Entry]) -> list[str | None]:
    """Where branches part: ids of entries with several children; None stands for the root."""
    return [parent for parent, each in children(entries).items() if len(each) > 1]


def labels(entries: Iterable[Entry]) -> dict[str, str]:
    """Label by labelled entry; the last word counts, an absent label clears."""
    found: dict[str, str] = {}
    for entry in entries:
        if entry.type == "label" and isinstance(body := entry.body, Label):
            if isinstance(body.label, str) and body.label:
                found[body.target_id] = body.label
            else:
                found.pop(body.target_id, None)
    return found


def name(entries: Iterable[Entry]) -> str:
    """The session's name; the last word counts, an empty one clears."""
    found = ""
    for entry in entries:
        if entry.type == "session_info" and isinstance(body := entry.body, SessionInfo):
            found = body.name.strip() if isinstance(body.name, str) else ""
    return found


def _said(entry: Entry) -> bytes:
    return meaning(entry, without=("id",))


def _free_name(id: str, number: int, taken: Container[str]) -> str:
    while f"{id}.{number}" in taken:
        number += 1
    return f"{id}.{number}"
