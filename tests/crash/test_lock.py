"""The lock of a session: freed by death, kept through a stop, never shared by a fork, never taken twice."""

import os
import shutil
import signal
import threading
import time
from functools import partial
from typing import Any

import pytest

from perdure.errors import Conflict, Held, PerdureError
from perdure.session.entry import Entry
from perdure.session.manager import SessionManager
from perdure.session.session import Session
from perdure.session.stores import Found, Store
from perdure.session.stores.lock import Lock, Turns
from tests.crash.killing import Child, Gate, Report, alone, check_chain, lock_of, message, store_in, texts_in
from tests.effort import some

pytestmark = pytest.mark.process

CROWD = 16


def try_to_append(store: Store, ref: Found, text: str, report: Report, *, wait: float = 0) -> None:
    """Report the pid of the holder, or None after success."""
    try:
        with Session.open(store, ref, wait=wait) as session:
            session.append(message(text))
        report(None)
    except Held as error:
        report(error.pid)


def answer_of_another(store: Store, ref: Found, text: str = "from another") -> Any:
    with Child(partial(try_to_append, store, ref, text)) as other:
        return other.next()[0]


def hold(store: Store, ref: Found, gate: Gate, report: Report) -> None:
    """Hold the session until the gate opens, then append to it and let go."""
    with Session.open(store, ref) as session:
        report("holding")
        gate.wait()
        try:
            session.append(message("from the holder"))
            report("appended")
        except PerdureError as error:
            report(type(error).__name__)
            gate.wait()


# --- holders that die, stop or finish -----------------------------------------------------------------


def test_a_killed_holder_frees_the_lock(layout, tmp_path):
    """While it lives, others are told its pid; once it is killed, the next one opens at once."""
    alone(kill_the_holder, home=str(tmp_path), layout=layout)


def kill_the_holder(home: str, layout: str) -> None:
    store = store_in(home, layout)
    ref = Session.create(store).ref
    with Gate() as gate, Child(partial(hold, store, ref, gate)) as holder:
        holder.next()
        assert store.holder(ref) == holder.pid
        with pytest.raises(Held) as caught:
            Session.open(store, ref, wait=0)
        assert caught.value.pid == holder.pid
        assert str(holder.pid) in caught.value.message
        holder.kill()
        assert store.holder(ref) is None
        Session.open(store, ref, wait=0).close()


def test_r8_a_stopped_holder_keeps_the_lock_and_its_session(layout, tmp_path):
    """SIGSTOP is not death: a second opener waits as long as it was told, then learns who holds it."""
    alone(stop_the_holder, home=str(tmp_path), layout=layout)


def stop_the_holder(home: str, layout: str) -> None:
    store = store_in(home, layout)
    ref = Session.create(store).ref
    with Gate() as gate, Child(partial(hold, store, ref, gate)) as holder:
        holder.next()
        holder.signal(signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(Held) as caught:
            Session.open(store, ref, wait=0.3)
        assert 0.3 <= time.monotonic() - began < 3
        assert caught.value.pid == holder.pid
        holder.signal(signal.SIGCONT)
        gate.open()
        assert holder.next() == ["appended"]
        assert holder.wait() == 0
    assert texts_in(store, ref) == ["from the holder"]
    assert answer_of_another(store, ref) is None


def test_who_waits_gets_the_lock_when_the_holder_lets_go(layout, tmp_path):
    """And goes on behind what the holder wrote last."""
    alone(wait_for_the_holder, home=str(tmp_path), layout=layout)


def wait_for_the_holder(home: str, layout: str) -> None:
    store = store_in(home, layout)
    ref = Session.create(store).ref
    with Gate() as gate, Child(partial(hold, store, ref, gate)) as holder:
        holder.next()
        with Child(partial(try_to_append, store, ref, "from who waited", wait=30)) as waiting:
            time.sleep(0.1)
            assert waiting.heard() == []
            gate.open()
            assert waiting.next() == [None]
    assert texts_in(store, ref) == ["from the holder", "from who waited"]
    check_chain(store.read(ref).entries)


# --- a lock file that is taken away -------------------------------------------------------------------


def test_r8_a_holder_whose_lock_was_removed_is_refused(layout, tmp_path):
    """Nothing it had saved is lost, nothing it tries then is written, and opening it anew mends all."""
    store = store_in(str(tmp_path), layout)
    with Session.create(store) as session:
        session.append(message("before"))
        lock_of(store, session.ref).unlink()
        for _ in range(2):
            with pytest.raises(Conflict):
                session.append(message("refused"))
        assert texts_in(store, session.ref) == ["before"]
    with Session.open(store, session.ref, wait=0) as session:
        session.append(message("after"))
    assert texts_in(store, session.ref) == ["before", "after"]


def test_r8_a_holder_that_was_stopped_and_replaced_cannot_write_any_more(layout, tmp_path):
    """Its lock file removed, a new owner at work: what it tries once it wakes is refused and not written."""
    alone(replace_the_holder, home=str(tmp_path), layout=layout)


def replace_the_holder(home: str, layout: str) -> None:
    store = store_in(home, layout)
    ref = Session.create(store).ref
    with Gate() as gate, Child(partial(hold, store, ref, gate)) as holder:
        holder.next()
        holder.signal(signal.SIGSTOP)
        lock_of(store, ref).unlink()
        with Session.open(store, ref, wait=0) as owner:
            owner.append(message("from the new owner"))
            holder.signal(signal.SIGCONT)
            gate.open()
            assert holder.next() == ["Conflict"]
            owner.append(message("and again"))
            gate.open()
            assert holder.wait() == 0
            assert answer_of_another(store, ref) == os.getpid(), (
                "the old holder's end freed the new one's lock"
            )
    assert texts_in(store, ref) == ["from the new owner", "and again"]
    check_chain(store.read(ref).entries)


# --- forks --------------------------------------------------------------------------------------------


def test_a_forked_child_cannot_write_with_its_parents_session(layout, tmp_path):
    """It is refused; the parent goes on, and the chain has no second branch."""
    alone(write_in_a_fork, home=str(tmp_path), layout=layout)


def write_in_a_fork(home: str, layout: str) -> None:
    store = store_in(home, layout)
    with Session.create(store) as session:
        session.append(message("before"))

        def work(report: Report) -> None:
            try:
                session.append(message("from the child"))
            except Conflict:
                report("refused")

        with Child(work) as child:
            assert child.next() == ["refused"]
        session.append(message("after"))
    assert texts_in(store, session.ref) == ["before", "after"]
    check_chain(store.read(session.ref).entries)


@pytest.mark.parametrize("end", ["close", "exit", "kill"])
def test_the_end_of_a_forked_child_does_not_free_its_parents_lock(layout, end, tmp_path):
    """However it ends, and also if it closes the session it inherited."""
    alone(end_a_fork, home=str(tmp_path), layout=layout, end=end)


def end_a_fork(home: str, layout: str, end: str) -> None:
    store = store_in(home, layout)
    with Session.create(store) as session:

        def work(report: Report) -> None:
            if end == "close":
                session.close()
            elif end == "kill":
                os.kill(os.getpid(), signal.SIGKILL)

        with Child(work) as child:
            assert child.wait() == (-signal.SIGKILL if end == "kill" else 0)
        assert store.holder(session.ref) == os.getpid()
        assert answer_of_another(store, session.ref) == os.getpid()
        session.append(message("still mine"))
    assert texts_in(store, session.ref) == ["still mine"]


def test_a_child_forked_in_the_middle_of_an_append_takes_nothing_back(layout, tmp_path):
    """It inherits an append that is not finished, and closes its copy: the parent's entry stays."""
    alone(fork_during_an_append, home=str(tmp_path), layout=layout)


def fork_during_an_append(home: str, layout: str) -> None:
    store = store_in(home, layout)
    sync = os.fdatasync
    with Session.create(store) as session, Gate() as gate:
        session.append(message("before"))
        children: list[Child] = []

        def work(report: Report) -> None:
            gate.wait()
            session.close()

        def fork_and_sync(descriptor: int) -> None:
            if not children:
                children.append(Child(work))
            sync(descriptor)

        os.fdatasync = fork_and_sync  # type: ignore[assignment]
        try:
            session.append(message("during"))
        finally:
            os.fdatasync = sync
        (child,) = children
        with child:
            gate.open()
            assert child.wait() == 0
        assert texts_in(store, session.ref) == ["before", "during"]
        session.append(message("after"))
    assert texts_in(store, session.ref) == ["before", "during", "after"]


# --- sixteen at once, where nothing is there yet --------------------------------------------------------


def test_sixteen_processes_may_be_the_first_to_create(layout, tmp_path):
    """No home, no folder, no lock yet: each of them creates its session, and all sessions are there."""
    alone(create_at_once, home=str(tmp_path), layout=layout)


def create_at_once(home: str, layout: str) -> None:
    def work(place: str, report: Report) -> None:
        gate.wait()
        store = store_in(place, layout, "process")
        with Session.create(store) as session:
            session.append(message("first"))
        manager = SessionManager(f"{place}/own", durability="process")
        manager.save(manager.create_session(), [Entry.message("user", "first")])
        report(session.id)

    for turn in range(some(2, everything=5)):
        place = f"{home}/{turn}/deep/down"
        with Gate() as gate:
            ids = at_once(gate, partial(work, place))
        store = store_in(place, layout)
        assert sorted(ref.id for ref in store.list()) == sorted(ids)
        assert [texts_in(store, ref) for ref in store.list()] == [["first"]] * CROWD
        assert [each.title for each in SessionManager(f"{place}/own").list_sessions()] == ["first"] * CROWD


def test_sixteen_processes_may_be_the_first_to_open(layout, tmp_path):
    """A session without a lock file: all of them open it in turn, and each has appended once."""
    alone(open_at_once, home=str(tmp_path), layout=layout)


def open_at_once(home: str, layout: str) -> None:
    def work(store: Store, ref: Found, report: Report) -> None:
        gate.wait()
        try_to_append(store, ref, str(os.getpid()), report, wait=30)

    for turn in range(some(2, everything=5)):
        store = store_in(f"{home}/{turn}", layout, "process")
        ref = Session.create(store).ref
        shutil.rmtree(lock_of(store, ref).parent)
        with Gate() as gate:
            assert at_once(gate, partial(work, store, ref)) == [None] * CROWD
        said = texts_in(store, ref)
        assert len(said) == len(set(said)) == CROWD
        check_chain(store.read(ref).entries)


def at_once(gate: Gate, work: Any) -> list[Any]:
    children = [Child(work) for _ in range(CROWD)]
    try:
        gate.open(CROWD)
        reports = []
        for child in children:
            assert child.wait() == 0, child.heard()
            reports += child.heard()
        return reports
    finally:
        for child in children:
            child.__exit__()


def test_a_released_lock_is_free_whoever_still_has_its_descriptor(tmp_path):
    """A child that another thread forked at the wrong moment shares it; it must not hold the lock for us."""
    lock = Lock(str(tmp_path), "locks/x.lock", "x", wait=0)
    shared = os.dup(lock._file.fileno())
    try:
        lock.release()
        Lock(str(tmp_path), "locks/x.lock", "x", wait=0).release()
    finally:
        os.close(shared)


def test_a_child_forked_while_a_thread_had_its_turn_does_not_wait_for_it():
    """It is refused, at once: the thread it would wait for does not exist there."""
    alone(fork_during_a_turn)


def fork_during_a_turn() -> None:
    turns = Turns()
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with turns:
            inside.set()
            leave.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        with turns:
            os._exit(0)
    try:
        deadline = time.monotonic() + 20
        done = (0, 0)
        while done == (0, 0) and time.monotonic() < deadline:
            done = os.waitpid(child, os.WNOHANG)
            time.sleep(0.01)
        if done == (0, 0):
            os.kill(child, signal.SIGKILL)
        assert done == (child, 0)
    finally:
        leave.set()
        thread.join()
