"""kill -9 while entries are appended. PERDURE_KILLS says how often: half of them in each way of writing."""

import json
import shutil
import signal
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from perdure.session import tree
from perdure.session.entry import Entry
from perdure.session.manager import SessionManager
from perdure.session.session import Session
from perdure.session.stores import START, Found, Store, open_store
from tests.crash.killing import (
    SLOW,
    Child,
    Report,
    alone,
    batches,
    check_chain,
    check_found,
    die_at_sync,
    message,
    said,
    store_in,
    tear_a_write,
)
from tests.effort import ALL_KILLS, KILLS

pytestmark = pytest.mark.process

MANY = 100  # kills; of fewer, all may strike between two records
LIVES_IN_A_SESSION = 25  # then a new one is begun, so that no reading grows without end


def test_r1_kill_9_loses_nothing_a_session_acknowledged(layout, seed, tmp_path):
    """A writer that holds its session, killed at any moment: all that `append` returned is there, in order.

    And the next writer gets the lock at once, and appends.
    """
    kill_writers("session", layout, seed, tmp_path)


def test_r1_kill_9_loses_nothing_a_manager_saved(seed, tmp_path):
    """The same for `SessionManager.save`, which takes the lock for each call."""
    kill_writers("manager", "pi", seed, tmp_path)


def test_a_first_append_torn_in_its_header_does_not_leave_the_session_without_one(tmp_path):
    """The next append writes a header before its entries: the original pi opens no file without one."""
    store = store_in(str(tmp_path), "pi")
    with Session.create(store) as session:
        session.append(message("killed"))
    path = Path(session.ref.path)
    torn = path.read_bytes()[:40]
    path.write_bytes(torn)
    with Session.open(store, session.ref) as session:
        session.append(message("next"))
    first = path.read_bytes().removeprefix(torn).split(b"\n")[1]
    assert json.loads(first)["type"] == "session"


def kill_writers(way: str, layout: str, seed: int, home: Path) -> None:
    kills = (KILLS + 1) // 2 if layout == "pi" or KILLS >= ALL_KILLS else max(2 * len(ENDS), KILLS // 8)
    counted = alone(kill_one_after_another, way=way, layout=layout, kills=kills, seed=seed, home=str(home))
    print(f"{kills} kills, {counted}")
    if kills >= 2 * len(ENDS):
        assert counted["acknowledged"] > kills // (8 if layout in SLOW else 2), (
            "most writers were killed before they had done anything"
        )
    if kills >= MANY:
        assert counted["torn"] > 0, "no kill struck in the middle of a record"


# --- the two ways to write ------------------------------------------------------------------------


class ThroughSession:
    def __init__(self, home: str, layout: str) -> None:
        self.store: Store = store_in(home, layout)

    def begin(self) -> Found:
        return Session.create(self.store).ref

    def say(self, ref: Found, groups: Iterable[list[str]], done: Report) -> None:
        with Session.open(self.store, ref, wait=0) as session:
            for texts in groups:
                done([entry.id for entry in session.append(*map(message, texts))])


class ThroughManager:
    def __init__(self, home: str, layout: str) -> None:
        self.manager = SessionManager(home, wait=0)
        self.store: Store = open_store(layout, home, sessions_dir=home)

    def begin(self) -> Found:
        id = self.manager.create_session()
        return next(ref for ref in self.store.list() if ref.id == id)

    def say(self, ref: Found, groups: Iterable[list[str]], done: Report) -> None:
        for texts in groups:
            entries = [Entry.message("user", text) for text in texts]
            done([entry.id for entry in self.manager.save(ref.id, entries)])


WAYS: dict[str, type[ThroughSession] | type[ThroughManager]] = {
    "session": ThroughSession,
    "manager": ThroughManager,
}


# --- the loop -------------------------------------------------------------------------------------


def kill_one_after_another(way: str, layout: str, kills: int, seed: int, home: str) -> dict[str, int]:
    counted = {"acknowledged": 0, "torn": 0}
    for start in range(0, kills, LIVES_IN_A_SESSION):
        place = f"{home}/{start}"
        here = WAYS[way](place, layout)
        ref, known, cursor = here.begin(), [], START
        for life in range(start, min(start + LIVES_IN_A_SESSION, kills)):
            acknowledged = live_and_die(way, layout, place, ref, seed, life)
            page = here.store.read(ref, cursor)
            check_found(page.entries, acknowledged, texts_of(seed, life, len(acknowledged) + 1))
            counted["acknowledged"] += len(acknowledged)
            counted["torn"] += any("unfinished" in problem.reason for problem in page.problems)
            counted["torn"] += Path(f"{ref.path}.tmp").exists()
            known += page.entries

            after = said(f"after-{life}", life)
            ids: list[list[str]] = []
            here.say(ref, [[after]], ids.append)
            page = here.store.read(ref, page.cursor)
            check_found(page.entries, ids, [[after]])
            known += page.entries
            cursor = page.cursor
        check_from_the_start(here.store, ref, known)
        shutil.rmtree(place)
    return counted


def check_from_the_start(store: Store, ref: Found, known: list[Entry]) -> None:
    """Nothing of what was found after each kill has changed since."""
    page = store.read(ref)
    assert page.entries == known
    check_chain(page.entries)
    assert list(store.read_back(ref)) == known[::-1]
    assert tree.fold(page.entries).notices == []
    assert all(problem.reason.endswith("left out") for problem in page.problems), page.problems


def live_and_die(way: str, layout: str, home: str, ref: Found, seed: int, life: int) -> list[list[str]]:
    """One writer from its start to its violent end. The ids of what it acknowledged."""
    random = Random(f"{seed}/{life}/end")
    end = ENDS[life % len(ENDS)]

    def work(report: Report) -> None:
        if end in AIMED:
            AIMED[end](random)
        WAYS[way](home, layout).say(ref, texts_of(seed, life), report)

    with Child(work) as writer:
        if end in AIMED:
            assert writer.wait() == -signal.SIGKILL
        else:
            time.sleep(random.uniform(0, 0.012 * SLOW.get(layout, 1)))
            writer.kill()
        return list(writer.heard())


# A long record takes the kernel long enough to write that a kill may tear it.
ENDS = ["soon", "in write", "soon", "long record", "soon", "before sync", "soon", "after sync"]


def texts_of(seed: int, life: int, groups: int | None = None) -> Iterable[list[str]]:
    long = ENDS[life % len(ENDS)] == "long record"
    texts = batches(seed, life, most=2**22, together=1) if long else batches(seed, life)
    return islice(texts, groups)


AIMED: dict[str, Callable[[Random], None]] = {
    "in write": tear_a_write,
    "before sync": partial(die_at_sync, before=True),
    "after sync": partial(die_at_sync, before=False),
}
