"""Locks that are removed while others want them: never two holders, and none that stays."""

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from perdure.errors import Held, PerdureError
from perdure.session.session import Session
from perdure.session.stores import Header
from perdure.session.stores.lock import Lock
from tests.crash.killing import Child, Report, alone, message, store_in
from tests.effort import some

pytestmark = pytest.mark.process

LOCKS = ["locks/a.lock", "locks/b.lock"]
DATED = "2026-01-31/00{}-plan-x"


class Witness:
    """A second lock for the same session, of another kind and never removed: whoever holds the first must get
    it at once. It is opened before the first, so that a killed holder gives it back before the first."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT)

    def look(self) -> None:
        with self.held():
            pass

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise AssertionError("two processes hold one lock") from None
        try:
            yield
        finally:
            fcntl.lockf(self._descriptor, fcntl.LOCK_UN)


def test_no_two_processes_hold_a_lock_that_is_removed_again_and_again(tmp_path, seed):
    """Many take it and remove it or only release it, some are killed, and in the end none is left."""
    alone(take_and_remove, home=str(tmp_path), seed=seed)


def take_and_remove(home: str, seed: int) -> None:
    def work(number: int, report: Report) -> None:
        random = Random(f"{seed}/{number}")
        witnesses = [Witness(f"{home}/{at}.witness") for at in range(len(LOCKS))]
        for _ in range(some(150, everything=5_000)):
            at = random.randrange(len(LOCKS))
            with Lock(home, LOCKS[at], "x", 60) as lock:
                with witnesses[at].held():
                    assert lock.is_mine()
                    if random.random() < 0.2:
                        time.sleep(random.random() / 1000)
                if random.random() < 0.6:
                    lock.remove()
        report("done")

    run_and_kill(work, some(6, everything=24), Random(seed))
    for place in LOCKS:
        Lock(home, place, "x", 0).remove()
    assert os.listdir(f"{home}/locks") == []


def test_no_two_processes_hold_a_session_while_sessions_and_their_locks_come_and_go(layout, tmp_path, seed):
    """Made, talked in, deleted, restored, removed for good, swept: by many processes, and some are killed. In
    the end, when no session is left, no lock is."""
    alone(come_and_go, home=str(tmp_path), layout=layout, seed=seed)


def come_and_go(home: str, layout: str, seed: int) -> None:
    store: Any = store_in(home, layout, "process")
    ids = [DATED.format(number) if layout == "cortext" else f"s{number}" for number in range(3)]

    def work(number: int, report: Report) -> None:
        random = Random(f"{seed}/{number}")
        witnesses = {id: Witness(f"{home}/{at}.witness") for at, id in enumerate(ids)}
        for _ in range(some(25, everything=500)):
            id = random.choice(ids)
            with contextlib.suppress(PerdureError):
                step(store, id, witnesses[id], random)
        report("done")

    run_and_kill(work, some(4, everything=16), Random(seed))
    store.remove_for_good(lambda _: True)
    for ref in list(store.list()):
        with contextlib.suppress(Held):
            store.delete(ref)
    store.remove_for_good(lambda _: True)
    folder = Path(*store._lock_place(ids[0], "")).parent
    assert [path.stem for path in folder.glob("*.lock") if not path.stem.endswith("~")] == []


def step(store: Any, id: str, witness: Witness, random: Random) -> None:
    match random.randrange(6):
        case 0 | 1:
            made = next((each for each in store.list() if each.id == id), None)
            if made is None:
                made = store.create(Header(id, "2026-01-31T09:05:00.123Z"))
            with Session.open(store, made, wait=1) as session, witness.held():
                session.append(message("hello"))
        case 2:
            for ref in store.list():
                if ref.id == id:
                    store.delete(ref, check=lambda _: witness.look())
        case 3:
            store.restore(id)
        case 4:
            store.remove_for_good(lambda each: each.id == id)
        case _:
            store.remove_unused_locks()


def run_and_kill(work: Callable[[int, Report], None], workers: int, random: Random) -> None:
    """Start so many; kill one in four at some moment, and start another in its place."""
    numbers = count()
    children = [Child(partial(work, next(numbers))) for _ in range(workers)]
    try:
        for at in range(0, workers, 4):
            time.sleep(random.random() / 10)
            children[at].kill()
            children[at].__exit__()
            children[at] = Child(partial(work, next(numbers)))
        for child in children:
            assert child.wait(within=600) == 0, child.heard()
            assert child.heard() == ["done"]
    finally:
        for child in children:
            child.__exit__()
