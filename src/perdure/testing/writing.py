"""What the contracts let writers write, alone and many at once, and whether all of it is there."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence

from perdure.session.entry import Entry, placed
from perdure.session.stores import Cursor, Found, Store, Writer
from perdure.testing.builders import assistant_entry, user_entry

WRITERS = 16
APPENDS = 6


def turns(count: int, after: Entry | None = None, word: str = "turn") -> list[Entry]:
    """A conversation of `count` entries, each the child of the one before it."""
    said: list[Entry] = []
    for number in range(count):
        make = user_entry if number % 2 == 0 else assistant_entry
        said.append(child(make(f"{word} {number}"), said[-1] if said else after))
    return said


def child(entry: Entry, parent: Entry | None) -> Entry:
    return placed(entry, parent_id=parent.id if parent else None)


def save(store: Store, ref: Found, entries: Sequence[Entry]) -> Cursor:
    with store.writer(ref) as writer:
        writer.catch_up()
        return writer.append(entries)


def write_in_parts(writer: Writer, said: Sequence[Entry]) -> None:
    """Appends of one, two and three entries, until all are written."""
    with writer:
        at = 0
        for size in itertools.cycle((1, 2, 3)):
            if at >= len(said):
                break
            writer.append(said[at : at + size])
            at += size
            time.sleep(0.0005)


def write_in_turns(store: Store, ref: Found, number: int) -> None:
    """One of several writers: each append waits for the session, reads what is new and goes on from it."""
    for turn in range(APPENDS):
        with store.writer(ref, wait=60) as writer:
            entries = writer.catch_up().entries
            writer.append([child(user_entry(f"{number} {turn}"), entries[-1] if entries else None)])


def assert_all_written(entries: Sequence[Entry]) -> None:
    said: dict[int, list[int]] = {number: [] for number in range(WRITERS)}
    for entry in entries:
        number, turn = entry.text.split()
        said[int(number)].append(int(turn))
    assert said == {number: list(range(APPENDS)) for number in range(WRITERS)}
    assert [entry.parent_id for entry in entries] == [None, *(entry.id for entry in entries[:-1])]
