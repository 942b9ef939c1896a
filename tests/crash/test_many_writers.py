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
from perdure.session.session import Session
from perdure.session.stores import START, Durability, Store, open_store
from tests.crash.killing import (
    LAYOUTS,
    Child,
    Gate,
    Report,
    alone,
    check_chain,
    said,
    serial_of,
    size_up_to,
    store_in,
    tear_a_write,
)
from tests.effort import some

pytestmark = pytest.mark.process

WRITERS = 16
LONGEST = 100_000
PATIENCE = 60.0  # a writer waits its turn behind fifteen others


@pytest.mark.parametrize(
    ("appends", "kills", "durability"),
    [
        pytest.param(some(15, everything=80), some(8, everything=24), "process", id="appends"),
        pytest.param(some(10, everything=20), some(5, everything=8), "power", id="synced appends"),
    ],
)
def test_r6_sixteen_processes_save_every_entry_exactly_once(tmp_path, seed, appends, kills, durability):
    """Each writer's entries are there once, in its order; nothing is interleaved or glued to a torn record.

    The reader only ever sees whole entries, and the order it sees is the one that lasts.
    """
    counted = alone(
        save_at_once,
        home=str(tmp_path),
        layout="pi",
        seed=seed,
        appends=appends,
        kills=kills,
        durability=durability,
    )
    check(counted, appends, kills)
    assert counted["torn"] > 0


@pytest.mark.parametrize("layout", [each for each in LAYOUTS if each != "pi"])
def test_r6_sixteen_processes_lose_nothing_in_any_layout(layout, tmp_path, seed):
    """The same where each of them opens the session anew for every entry: documents that are replaced too."""
    appends, kills = some(5, everything=12), some(4, everything=6)
    counted = alone(
        save_at_once,
        home=str(tmp_path),
        layout=layout,
        seed=seed,
        appends=appends,
        kills=kills,
        durability="process",
    )
    check(counted, appends, kills)


def check(counted: dict[str, int], appends: int, kills: int) -> None:
    print(counted)
    assert counted["acknowledged"] == WRITERS * appends
    assert counted["killed"] >= kills
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


def open_the(layout: str, home: str, durability: Durability = "process") -> Store:
    """pi's sessions in a folder of their own, as `SessionManager` has them; the others' in their home."""
    if layout == "pi":
        return open_store("pi", home, sessions_dir=home)
    return store_in(home, layout, durability)


def save_at_once(
    home: str, layout: str, seed: int, appends: int, kills: int, durability: Durability
) -> dict[str, int]:
    random = Random(seed)
    with Session.create(open_the(layout, home)) as created:
        id = created.id

    def born(writer: int, life: int, start: int) -> Child:
        return Child(
            partial(save_all, home, layout, id, seed, range(start, appends), durability, writer, life)
        )

    moments = sorted(random.sample(range(1, WRITERS * appends // 2), kills))
    writers: list[Writer] = []
    seen: list[Any] = []
    with Gate() as stop, Child(partial(read_all_the_while, home, layout, id, stop)) as reader:
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
    torn = check_session(home, layout, id, [writer.acknowledged for writer in writers], killed, seen)
    return {
        "acknowledged": sum(len(writer.acknowledged) for writer in writers),
        "killed": killed,
        "torn": torn,
        "readings": readings,
    }


def save_all(
    home: str,
    layout: str,
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
    save = saver(home, layout, id, durability)
    for number in numbers:
        serial = f"{writer}.{number}.{life}"
        save(Entry.message("user", said(serial, size_up_to(random, LONGEST if layout == "pi" else 1000))))
        report(serial)


def saver(home: str, layout: str, id: str, durability: Durability) -> Callable[[Entry], object]:
    if layout == "pi":
        manager = SessionManager(home, durability=durability, wait=PATIENCE)
        return lambda entry: manager.save(id, [entry])
    store = open_the(layout, home, durability)
    ref = next(each for each in store.list() if each.id == id)

    def save(entry: Entry) -> None:
        with Session.open(store, ref, wait=PATIENCE) as session:
            session.append(entry)

    return save


def read_all_the_while(home: str, layout: str, id: str, stop: Gate, report: Report) -> None:
    """From a cursor, now and then from the start. Reports each serial it sees, and how often it read."""
    store = open_the(layout, home)
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


def check_session(
    home: str, layout: str, id: str, acknowledged: list[list[str]], killed: int, seen: list[str]
) -> int:
    """How many torn records there are, beside all that must be."""
    store = open_the(layout, home)
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
    for line in Path(ref.path).read_bytes().split(b"\n") if layout == "pi" else ():
        assert line.count(b'{"type":') <= 1, f"glued to a torn record: {line[:200]!r}"
    return len(page.problems)
