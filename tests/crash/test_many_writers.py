"""Sixteen processes save to one session at once, some of them are killed, and one reads all the while."""

import select
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from perdure.session import tree
from perdure.session.entry import Entry
from perdure.session.manager import SessionManager
from perdure.session.stores import START, Durability, open_store
from tests.crash.killing import (
    Child,
    Gate,
    Report,
    alone,
    check_chain,
    said,
    serial_of,
    size_up_to,
    tear_a_write,
)

WRITERS = 16
LONGEST = 100_000
PATIENCE = 60.0  # a writer waits its turn behind fifteen others


@pytest.mark.parametrize(
    ("appends", "kills", "durability"),
    [
        pytest.param(200, 24, "process", id="200 appends"),
        pytest.param(20, 8, "power", id="20 synced appends"),
    ],
)
def test_r6_sixteen_processes_save_every_entry_exactly_once(tmp_path, seed, appends, kills, durability):
    """Each writer's entries are there once, in its order; nothing is interleaved or glued to a torn record.

    The reader only ever sees whole entries, and the order it sees is the one that lasts.
    """
    counted = alone(
        save_at_once, home=str(tmp_path), seed=seed, appends=appends, kills=kills, durability=durability
    )
    print(counted)
    assert counted["acknowledged"] == WRITERS * appends
    assert counted["killed"] >= kills
    assert counted["torn"] > 0
    assert counted["readings"] > 1


class Writer:
    """One of the sixteen. When it is killed, another life goes on where it stopped."""

    def __init__(self, number: int, born: Callable[[int, int, int], Child]) -> None:
        self._number = number
        self._born = born
        self.life = 0
        self.acknowledged: list[str] = []
        self.child = born(number, 0, 0)

    def works(self) -> bool:
        ended = self.child.ended()  # asked before its last reports are read
        self.acknowledged += self.child.heard()
        if ended and self.child.status == -signal.SIGKILL:
            self.kill()
            return True
        assert not ended or self.child.status == 0
        return not ended

    def kill(self) -> None:
        with self.child as dead:
            dead.kill()
            self.acknowledged += dead.heard()
        self.life += 1
        self.child = self._born(self._number, self.life, len(self.acknowledged))


def save_at_once(home: str, seed: int, appends: int, kills: int, durability: Durability) -> dict[str, int]:
    random = Random(seed)
    id = SessionManager(home).create_session()

    def born(writer: int, life: int, start: int) -> Child:
        return Child(partial(save_all, home, id, seed, range(start, appends), durability, writer, life))

    moments = sorted(random.sample(range(1, WRITERS * appends // 2), kills))
    writers: list[Writer] = []
    seen: list[Any] = []
    with Gate() as stop, Child(partial(read_all_the_while, home, id, stop)) as reader:
        try:
            writers += [Writer(number, born) for number in range(WRITERS)]
            while working := [writer for writer in writers if writer.works()]:
                seen += reader.heard()
                if moments and sum(len(writer.acknowledged) for writer in writers) >= moments[0]:
                    moments.pop(0)
                    random.choice(working).kill()
                select.select([writer.child.pipe for writer in working], [], [], 60)
        finally:
            for writer in writers:
                writer.child.__exit__()
        stop.open()
        assert reader.wait() == 0
        seen += reader.heard()
    readings = seen.pop()
    killed = sum(writer.life for writer in writers)
    torn = check_session(home, id, [writer.acknowledged for writer in writers], killed, seen)
    return {
        "acknowledged": sum(len(writer.acknowledged) for writer in writers),
        "killed": killed,
        "torn": torn,
        "readings": readings,
    }


def save_all(
    home: str,
    id: str,
    seed: int,
    numbers: range,
    durability: Durability,
    writer: int,
    life: int,
    report: Report,
) -> None:
    """One writer's entries, each acknowledged by its serial. Every other one's first life ends in a write."""
    random = Random(f"{seed}/{writer}/{life}")
    if life == 0 and writer % 2:
        tear_a_write(random, among=len(numbers) // 4)
    manager = SessionManager(home, durability=durability, wait=PATIENCE)
    for number in numbers:
        serial = f"{writer}.{number}.{life}"
        manager.save(id, [Entry.message("user", said(serial, size_up_to(random, LONGEST)))])
        report(serial)


def read_all_the_while(home: str, id: str, stop: Gate, report: Report) -> None:
    """From a cursor, now and then from the start. Reports each serial it sees, and how often it read."""
    store = open_store("pi", home, sessions_dir=home)
    ref = next(each for each in store.list() if each.id == id)
    cursor, serials, readings, stopping = START, [], 0, False
    while not stopping:
        stopping = stop.is_open(within=0.01)
        page = store.read(ref, cursor)
        cursor = page.cursor
        readings += 1
        for entry in page.entries:
            serials.append(serial_of(entry))
            report(serials[-1])
        if readings % 50 == 0:
            assert [serial_of(entry) for entry in store.read(ref).entries][: len(serials)] == serials
    report(readings)


def check_session(home: str, id: str, acknowledged: list[list[str]], killed: int, seen: list[str]) -> int:
    """How many torn records there are, beside all that must be."""
    store = open_store("pi", home, sessions_dir=home)
    ref = next(each for each in store.list() if each.id == id)
    page = store.read(ref)
    serials = [serial_of(entry) for entry in page.entries]
    assert len(set(serials)) == len(serials), "an entry was saved twice"
    assert seen == serials, "the reader saw another order"
    for writer, own in enumerate(acknowledged):
        kept = set(own)
        found = [serial for serial in serials if serial in kept]
        assert found == own, f"writer {writer} lost entries or their order"
    extra = len(serials) - sum(map(len, acknowledged))
    assert extra <= killed, "a killed writer leaves at most the entry it was saving"
    assert tree.fold(page.entries).notices == []
    check_chain(page.entries)
    for problem in page.problems:
        assert problem.reason.endswith("left out"), problem
    for line in Path(ref.path).read_bytes().split(b"\n"):
        assert line.count(b'{"type":') <= 1, f"glued to a torn record: {line[:200]!r}"
    return len(page.problems)
