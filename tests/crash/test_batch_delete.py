"""A clean-up that deletes several sessions together, stopped at any step: each session is whole in its place
or whole in the trash, comes back byte for byte, and the same clean-up made again deletes the rest.

A default run stops at a sample of the steps by seed; `make crash` stops at each of them.
"""

import errno
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from perdure.errors import PerdureError
from perdure.session.expiry import Cleaned
from perdure.session.session import Session
from perdure.session.stores import folders
from tests.crash.killing import Child, Gate, Report, alone, die, message, said, share, spread, texts_in
from tests.crash.old_sessions import OldSessions
from tests.effort import IS_LONG

pytestmark = pytest.mark.process

SESSIONS = 3
CHANGES = ["rename", "replace", "link", "symlink", "unlink", "mkdir", "rmdir", "write", "fsync", "fdatasync"]
"""Calls that change the disk, or make a change last; and `open`, where it makes a file."""
ERRORS = [errno.EIO, errno.ENOSPC]


# --- kill -9 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("disks", ["one disk", "two disks"])
def test_r17_a_clean_up_killed_at_any_step_loses_no_session_and_is_completed_by_the_next(
    layout, disks, seed, tmp_path
):
    """Also where the trash is on another disk, and is copied to."""
    counted = alone(kill_at_each_step, layout=layout, disks=disks, seed=seed, home=str(tmp_path / "home"))
    print(counted)
    assert counted["killed"] == 2 * counted["chosen"] > 0
    assert counted["steps"] > 10 * SESSIONS


def kill_at_each_step(layout: str, disks: str, seed: int, home: str) -> dict[str, int]:
    if disks == "two disks":
        patch.object(folders, "_rename", lambda *_: fail(errno.EXDEV)).start()
    steps = count_of_steps(home, layout)
    chosen = spread(range(steps), share(10, steps, layout), seed)
    killed = 0
    for step in chosen:
        for is_completed in (False, True):
            old = OldSessions(home, layout, SESSIONS)

            def work(report: Report, old: OldSessions = old, step: int = step) -> None:
                with stopping_at(step, die):
                    old.clean()

            with Child(work) as child:
                ended = child.wait()
                assert ended in (0, -signal.SIGKILL), child.heard()
                killed += ended != 0
            try:
                old.check_after_stop(is_completed=is_completed)
            except BaseException as error:
                raise AssertionError(f"killed at step {step} of {steps}") from error
    return {"steps": steps, "chosen": len(chosen), "killed": killed}


@contextmanager
def stopping_at(step: int, stop: Callable[[], object], *, lasts: bool = False) -> Iterator[list[str]]:
    """The changes made. Before the one of this number, and each behind it if this `lasts`, `stop` is called;
    of a write a part is made."""
    made: list[str] = []
    turn = threading.Lock()

    def stopped(call: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def act(*arguments: Any, **options: Any) -> Any:
            if call == "open" and not arguments[1] & os.O_CREAT:
                return real(*arguments, **options)
            with turn:
                made.append(call)
                is_now = len(made) > step >= 0 if lasts else len(made) == step + 1
            if is_now:
                if call == "write":
                    real(arguments[0], arguments[1][: len(arguments[1]) // 2])
                stop()
            return real(*arguments, **options)

        return act

    with ExitStack() as stack:
        for call in (*CHANGES, "open"):
            stack.enter_context(patch.object(os, call, stopped(call, getattr(os, call))))
        yield made


def count_of_steps(home: str, layout: str) -> int:
    """Of a clean-up that is not the first: that one makes the catalog's folder, too."""
    OldSessions(home, layout, SESSIONS).clean()
    old = OldSessions(home, layout, SESSIONS)
    with stopping_at(-1, lambda: None) as made:
        old.clean()
    old.check_deleted()
    return len(made)


# --- calls that fail ------------------------------------------------------------------------------------


def test_r17_a_call_that_fails_during_a_clean_up_keeps_a_session_whole_or_deletes_it_whole(
    layout, seed, tmp_path
):
    """What is not deleted is where it was, and is named; the same clean-up made again deletes it."""
    counted = alone(fail_at_each_step, layout=layout, seed=seed, home=str(tmp_path / "home"))
    print(counted)
    assert counted["kept"] > 0


def fail_at_each_step(layout: str, seed: int, home: str) -> dict[str, int]:
    steps = count_of_steps(home, layout)
    possible = [(step, number) for step in range(steps) for number in ERRORS]
    kept = 0
    for step, number in spread(possible, share(40, len(possible), layout), seed):
        old = OldSessions(home, layout, SESSIONS)
        with stopping_at(step, partial(fail, number)):
            done = old.clean()
        try:
            kept += check_after_failure(old, done, number)
            old.check_after_stop(is_completed=True)
        except BaseException as error:
            raise AssertionError(f"{errno.errorcode[number]} at step {step} of {steps}: {done}") from error
    return {"steps": steps, "kept": kept}


def test_r17_a_disk_that_fails_from_any_step_of_a_clean_up_on_loses_no_session(layout, seed, tmp_path):
    """When the disk is well again, what it left can be taken back or completed."""
    alone(fail_from_each_step_on, layout=layout, seed=seed, home=str(tmp_path / "home"))


def fail_from_each_step_on(layout: str, seed: int, home: str) -> None:
    steps = count_of_steps(home, layout)
    for step in spread(range(steps), share(20, steps, layout), seed):
        for number, is_completed in ((errno.EIO, True), (errno.ENOSPC, True), (errno.EIO, False)):
            old = OldSessions(home, layout, SESSIONS)
            with stopping_at(step, partial(fail, number), lasts=True):
                done = old.clean()
            try:
                check_all_are_told_of(old, done)
                old.check_after_stop(is_completed=is_completed)
            except BaseException as error:
                raise AssertionError(
                    f"{errno.errorcode[number]} from {step} of {steps} on: {done}"
                ) from error


def check_all_are_told_of(old: OldSessions, done: Cleaned) -> None:
    """Also of what could neither be saved in the trash nor be moved back."""
    removed = {each.id for each in done.removed}
    for ref in old.refs:
        assert ref.id in removed or any(ref.id in each for each in done.problems), ref.id


def fail(number: int) -> None:
    raise OSError(number, os.strerror(number))


def check_after_failure(old: OldSessions, done: Cleaned, number: int) -> int:
    """Returns how many were kept."""
    removed = {each.id for each in done.removed}
    kept = [ref for ref in old.refs if ref.id not in removed]
    in_place = {ref.id for ref in old.store.list()}
    assert in_place == {ref.id for ref in kept}
    assert {each.id for each in old.store.trashed()} == removed
    for ref in kept:
        assert any(ref.id in each and os.strerror(number) in each for each in done.problems), ref.id
    old.check_nothing_lost()
    return len(kept)


# --- others at the same time -----------------------------------------------------------------------------


def test_r17_sessions_that_others_write_to_during_clean_ups_lose_nothing(layout, tmp_path, seed):
    """Two clean-ups at once, of which one may be killed, two processes that write to the sessions, and one
    that holds a session: what was acknowledged is in the session, wherever that is; none is deleted twice."""
    counted: Counter[str] = Counter()
    for run in range(share(2, 200, layout)):
        counted.update(
            alone(clean_while_others_write, layout=layout, seed=seed + run, home=str(tmp_path / "home"))
        )
    print(dict(counted))
    if IS_LONG:
        assert min(counted["written"], counted["removed"]) > 0, "they were not at it at the same time"


def clean_while_others_write(layout: str, seed: int, home: str) -> dict[str, int]:
    old = OldSessions(home, layout, sessions=12)
    *free, held = old.refs
    first = {ref.id: texts_in(old.store, ref) for ref in old.refs}

    def write(number: int, report: Report) -> None:
        random = Random(f"{seed}/{number}")
        report("ready")
        gate.wait()
        for ref in random.sample(free, len(free)):
            text = said(f"{number}-{ref.id}", 50)
            try:
                with Session.open(old.store, ref, wait=20) as session:
                    session.append(message(text))
            except PerdureError:
                if os.path.lexists(ref.path):
                    raise
            else:
                report([ref.id, text])

    def clean(dies_at: int, report: Report) -> None:
        report("ready")
        gate.wait()
        with stopping_at(dies_at, die):
            done = old.clean()
        report([[each.id for each in done.removed], done.held, done.problems])

    dies_at = Random(seed).choice([-1, *range(12 * len(free))])
    with (
        Session.open(old.store, held, wait=0),
        Gate() as gate,
        Child(partial(write, 1)) as writer,
        Child(partial(write, 2)) as other_writer,
        Child(partial(clean, -1)) as cleaner,
        Child(partial(clean, dies_at)) as other_cleaner,
    ):
        children = (writer, other_writer, cleaner, other_cleaner)
        for child in children:
            child.next()
        gate.open(len(children))
        ended = [child.wait() for child in children]
        assert ended[:3] == [0] * 3, [child.heard() for child in children]
        assert ended[3] in (0, -signal.SIGKILL), other_cleaner.heard()
        written = [*writer.heard(), *other_writer.heard()]
        cleaned = [*cleaner.heard(), *other_cleaner.heard()]
    assert all(problems == [] for _, _, problems in cleaned), cleaned
    assert all(held.id in ids for _, ids, _ in cleaned)
    removed = [id for ids, _, _ in cleaned for id in ids]
    trashed = sorted(each.id for each in old.store.trashed())
    assert sorted(removed) == trashed if ended[3] == 0 else {*removed} <= {*trashed}
    assert held.id not in trashed
    done = old.clean()
    assert (done.problems, done.held) == ([], [])
    old.check_deleted()
    old.bring_back()
    back = {ref.id: ref for ref in old.store.list()}
    for ref in old.refs:
        texts = texts_in(old.store, back[ref.id])
        acknowledged = [text for id, text in written if id == ref.id]
        assert texts[: len(first[ref.id])] == first[ref.id]
        assert sorted(texts[len(first[ref.id]) :]) == sorted(acknowledged)
    return {"written": len(written), "removed": len(removed), "killed": ended[3] != 0}
