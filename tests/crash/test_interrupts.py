"""SIGINT and SIGTERM at any bytecode of a save: no stale lock, nothing half done, and the next save is clean.

A trace function raises the signal just before the n-th instruction that the engine executes, for a sample of
n by seed. With `make crash` that is each of some thousand in pi's layout, and in the others, where there are
up to 30,000, as many as fit into minutes.
"""

import signal
import sys
from collections.abc import Callable
from functools import partial
from itertools import count
from random import Random
from types import FrameType
from typing import Any

import pytest

from perdure.errors import PerdureError
from perdure.session import tree
from perdure.session.entry import Entry
from perdure.session.manager import SessionManager
from perdure.session.session import Session
from perdure.session.stores import START, Found, Page, Store
from tests.crash.killing import alone, message, share, store_in

pytestmark = pytest.mark.process

MOST_POINTS = 2000
SIGNALS = [pytest.param(signal.SIGINT, id="SIGINT"), pytest.param(signal.SIGTERM, id="SIGTERM")]


@pytest.mark.parametrize("number", SIGNALS)
def test_r12_an_interrupted_append_leaves_a_session_to_go_on_with(layout, number, seed, tmp_path):
    """All entries of the append or none are there, and the same `Session` appends again."""
    check(alone(interrupt_append, home=str(tmp_path), layout=layout, number=number, seed=seed))


@pytest.mark.parametrize("number", SIGNALS)
def test_r12_an_interrupted_conversation_leaves_no_lock(layout, number, seed, tmp_path):
    """From before `Session.open` to after `close`: once the session is dropped, another opens it at once."""
    check(alone(interrupt_conversation, home=str(tmp_path), layout=layout, number=number, seed=seed))


@pytest.mark.parametrize("number", SIGNALS)
def test_r12_an_interrupted_save_can_be_done_again(number, seed, tmp_path):
    """The second call, in the same manager or another, saves the same entries exactly once, and at once."""
    check(alone(interrupt_save, home=str(tmp_path), number=number, seed=seed))


def check(result: dict[str, Any]) -> None:
    print(f"{result['tried']} of {result['possible']} bytecodes")
    assert result["possible"] > 100  # some hundreds; newer interpreters tell of fewer
    if result["wrong"]:
        pytest.fail(f"{len(result['wrong'])} of them:\n" + "\n".join(result["wrong"][:10]), pytrace=False)


# --- signals at an instruction ----------------------------------------------------------------------


class Terminated(SystemExit):
    pass


def raise_terminated(number: int, frame: FrameType | None) -> None:
    raise Terminated


def struck(act: Callable[[], Any], number: int, point: int) -> tuple[bool, int]:
    """Do `act`, with a signal before instruction `point`. Whether it got through, and how far `act` came."""
    signal.signal(signal.SIGTERM, raise_terminated)
    seen = 0

    def step(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal seen
        if event == "opcode":
            seen += 1
            if seen == point:
                sys.settrace(None)
                signal.raise_signal(number)
        return step

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_globals.get("__name__", "").startswith("perdure."):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return step

    sys.settrace(enter)
    try:
        act()
        return False, seen
    except (KeyboardInterrupt, Terminated):
        return True, seen
    finally:
        sys.settrace(None)


def strike_all(
    trial: Callable[[str], Callable[[], Any]],
    after: Callable[[str, bool], None],
    number: int,
    seed: int,
    layout: str = "pi",
) -> dict[str, Any]:
    """`trial(name)` makes what is interrupted, `after(name, done)` tells whether what it left is well."""
    for warm in ("first", "second"):
        _, possible = struck(trial(warm), number, 0)
        after(warm, True)
    tried = min(share(80, possible, layout), possible if layout == "pi" else MOST_POINTS)
    points = sorted(Random(seed).sample(range(1, possible + 1), tried))
    wrong = []
    for point in points:
        interrupted = True
        try:
            interrupted, _ = struck(trial(str(point)), number, point)
        except PerdureError as error:
            wrong.append(f"at {point} the signal was lost: {type(error).__name__}: {error}")
        try:
            after(str(point), not interrupted)
        except (AssertionError, PerdureError) as error:
            wrong.append(f"after {point}: {type(error).__name__}: {error}")
    return {"tried": len(points), "possible": possible, "wrong": wrong}


# --- what is interrupted ----------------------------------------------------------------------------


TRIALS = 50
"""With one session. Some layouts write or read all of it each time, so it must not grow without end."""


def interrupt_append(home: str, layout: str, number: int, seed: int) -> dict[str, Any]:
    store = store_in(home, layout, "process")
    trials = count(1)
    session, cursor = Session.create(store), START

    def trial(name: str) -> Callable[[], Any]:
        nonlocal session, cursor
        if next(trials) % TRIALS == 0:
            session.close()
            check_whole(store, session.ref)
            session, cursor = Session.create(store), START
        return lambda: session.append(message(f"{name} a"), message(f"{name} b"))

    def after(name: str, done: bool) -> None:
        nonlocal cursor
        try:
            session.append(message(f"{name} after"))
        except PerdureError:
            session.reload()
            raise
        finally:
            page = store.read(session.ref, cursor)
            cursor = page.cursor
        check_said(page, name, done)

    result = strike_all(trial, after, number, seed, layout)
    session.close()
    check_whole(store, session.ref)
    return result


def interrupt_conversation(home: str, layout: str, number: int, seed: int) -> dict[str, Any]:
    store = store_in(home, layout, "process")
    trials = count(1)
    ref, cursor = Session.create(store).ref, START

    def trial(name: str) -> Callable[[], Any]:
        nonlocal ref, cursor
        if next(trials) % TRIALS == 0:
            check_whole(store, ref)
            ref, cursor = Session.create(store).ref, START

        def talk() -> None:
            with Session.open(store, ref, wait=0) as session:
                session.append(message(f"{name} a"), message(f"{name} b"))

        return talk

    def after(name: str, done: bool) -> None:
        nonlocal cursor
        assert store.holder(ref) is None
        with Session.open(store, ref, wait=0) as session:
            session.append(message(f"{name} after"))
        page = store.read(ref, cursor)
        cursor = page.cursor
        check_said(page, name, done)

    result = strike_all(trial, after, number, seed, layout)
    check_whole(store, ref)
    return result


def check_said(page: Page, name: str, done: bool) -> None:
    """All of what was struck, or nothing of it if that may be; and what was said behind it."""
    said = [entry.text for entry in page.entries]
    both = [f"{name} a", f"{name} b"]
    assert said in ([*both, f"{name} after"], *([] if done else [[f"{name} after"]])), said


def check_whole(store: Store, ref: Found) -> None:
    page = store.read(ref)
    assert page.problems == []
    assert tree.fold(page.entries).notices == []


def interrupt_save(home: str, number: int, seed: int) -> dict[str, Any]:
    manager = SessionManager(home, durability="process", wait=0)
    trials, retrials = count(), count()
    id, tried = "", [Entry()]

    def trial(name: str) -> Callable[[], Any]:
        nonlocal id, tried
        if next(trials) % TRIALS == 0:
            id = manager.create_session()
            manager.save(id, [Entry.message("user", "before")])
        tried = [Entry.message("user", f"{name} a"), Entry.message("user", f"{name} b")]
        return partial(manager.save, id, tried)

    def after(name: str, done: bool) -> None:
        other = SessionManager(home, durability="process", wait=0)
        again = (manager, other)[next(retrials) % 2]
        again.save(id, tried)
        ids = [entry.id for entry in other.load_session(id)]
        assert ids[-2:] == [entry.id for entry in tried]
        assert len(set(ids)) == len(ids)

    result = strike_all(trial, after, number, seed)
    assert [each.problem for each in manager.list_sessions() if each.problem] == []
    return result
