"""Each system call of each way to save fails once with each error, and some fail for a while.

strace makes the kernel refuse the k-th call of a kind, in a process that creates, appends, forks, saves
and deletes. A life without faults is counted first, and k goes from the first to the last of its calls,
so that none is forgotten. A default run tries a sample by seed; `make crash` tries them all.
"""

import errno
import os
import re
import shutil
import signal
import subprocess
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from perdure.errors import Conflict, PerdureError
from perdure.session.entry import Entry
from perdure.session.manager import SessionManager
from perdure.session.session import Session
from perdure.session.stores import Found, Store
from tests.crash.killing import Child, Gate, Report, alone, message, share, store_in, texts_in
from tests.needs import needs_tool

pytestmark = [pytest.mark.process, needs_tool("strace")]

# By group, because a C library may use either name. One that a machine does not have is never counted.
CALLS = {
    "write": ["write"],
    "read": ["pread64"],
    "sync": ["fdatasync", "fsync"],
    "open": ["open", "openat"],
    "link": ["link", "linkat", "unlink", "unlinkat"],
    "rename": ["rename", "renameat", "renameat2"],
    "stat": ["stat", "lstat", "fstat", "newfstatat"],
    "mkdir": ["mkdir", "mkdirat"],
    "lock": ["flock"],
}
ERRORS = ["EIO", "ENOSPC", "EDQUOT", "EACCES", "EROFS", "EMFILE", "ENOENT"]


class Fault(NamedTuple):
    call: str
    number: int
    error: str

    def __str__(self) -> str:
        return f"{self.call}:error={self.error}:when={self.number}"


@pytest.fixture(scope="module", autouse=True)
def tracing():
    if not alone(can_trace):
        pytest.skip("needs a strace that may attach to a process")


@pytest.mark.parametrize("calls", CALLS)
def test_r11_a_call_that_fails_once_is_told_and_harms_nothing(layout, calls, seed, tmp_path):
    """What was acknowledged is there, what was refused is not, and the same step works when tried again."""
    counted = alone(fail_each_once, layout=layout, calls=calls, seed=seed, home=str(tmp_path))
    print(f"{counted['tried']} of {counted['possible']} faults in {calls}, {counted['struck']} struck")
    assert counted["struck"] > 0
    if counted["wrong"]:
        pytest.fail(f"{len(counted['wrong'])} of them:\n" + "\n".join(counted["wrong"][:5]), pytrace=False)


LASTING = [
    ["write:error=ENOSPC"],
    ["write:error=EDQUOT"],
    ["fdatasync:error=EIO"],
    ["fdatasync:error=EIO", "ftruncate:error=EROFS"],
    ["write:error=ENOSPC:when=2+", "ftruncate:error=EIO"],
    ["openat:error=EMFILE"],
    ["openat:error=EROFS:when=2+", "mkdir:error=EROFS", "write:error=EROFS"],
    ["flock:error=EIO"],
]


@pytest.mark.parametrize("faults", LASTING, ids=" ".join)
def test_r11_while_a_fault_lasts_nothing_is_acknowledged_that_is_not_there(layout, faults, tmp_path):
    """Each call that meets it is told, and when it is over the same `Session` and manager go on."""
    alone(fail_for_a_while, layout=layout, faults=faults, home=str(tmp_path))


# --- strace ---------------------------------------------------------------------------------------


@contextmanager
def traced(pid: int, log: str, calls: list[str], faults: list[str]) -> Iterator[Callable[[], None]]:
    """Every call of these kinds is logged, and fails as told, until the yielded function is called."""
    kinds = ",".join(f"?{call}" for call in calls)
    injections = [f"--inject=?{fault}" for fault in faults]
    tracer = subprocess.Popen(
        ["strace", f"--attach={pid}", f"--output={log}", f"--trace={kinds}", "--signal=none", *injections],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert tracer.stderr is not None

    def stop() -> None:
        if tracer.poll() is None:
            tracer.send_signal(signal.SIGINT)
        try:
            tracer.wait(timeout=20)
        except subprocess.TimeoutExpired:
            tracer.kill()
            raise

    with tracer:
        try:
            told = tracer.stderr.readline()
            if b"attached" not in told:
                raise PermissionError(told.decode())
            yield stop
        finally:
            stop()


def may_be_traced() -> None:
    """Where the kernel only lets parents trace (Yama), this process lets anybody of its owner."""
    import ctypes

    ctypes.CDLL(None).prctl(0x59616D61, ctypes.c_ulong(-1 % 2**64), 0, 0, 0)


def can_trace() -> bool:
    def work(report: Report) -> None:
        may_be_traced()
        report("ready")
        gate.wait()

    with Gate() as gate, Child(work) as child:
        child.next()
        try:
            with traced(child.pid, os.devnull, ["write"], []):
                gate.open()
                return child.wait() == 0
        except PermissionError:
            return False


# --- a life with one fault in it --------------------------------------------------------------------


class Steps:
    """Does one step after another, each until it works, and reports what was attempted and answered."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self.session: Session | None = None

    def __call__(self, session: str, act: Callable[..., Any], *texts: str) -> Any:
        answers = []
        for trial in ("first", "second"):
            said = [f"{text}, {trial} trial" for text in texts]
            try:
                result = act(*said)
            except PerdureError as error:
                answers.append(_told(error))
                self._report({"session": session, "texts": said, "error": answers[-1]})
                if isinstance(error, Conflict) and self.session:
                    self.session.reload()  # as the error's hint says
            else:
                self._report({"session": session, "texts": said, "error": None})
                return result
        raise AssertionError(f"refused twice, though the fault was over: {answers}")


def _told(error: PerdureError) -> str:
    return f"{type(error).__name__}: {error.message}"


def live(home: str, store: Store, report: Report) -> None:
    """Every way to save."""
    step = Steps(report)
    session: Session = step("", lambda: Session.create(store))
    step.session = session
    step("main", lambda text: session.append(message(text)), "one")
    step("main", lambda *both: session.append(*map(message, both)), "two", "three")
    fork: Found = step("", lambda: session.fork())
    step("fork", lambda text: _append(store, fork, text), "four")
    step("main", lambda text: session.append(message(text)), "five")
    doomed: Found = step("", lambda: session.fork())
    session.close()
    trials = count()
    step("", lambda: _delete(store, doomed, again=next(trials) > 0))
    step("", lambda: list(store.list()))

    manager = SessionManager(f"{home}/own")
    id: str = step("", manager.create_session)
    for text in ("six", "seven"):
        step("own", lambda text: manager.save(id, [Entry.message("user", text)]), text)
    step("", lambda: SessionManager(f"{home}/own").load_session(id))
    report({"main": session.id, "fork": fork.id, "doomed": doomed.id, "own": id})


def _append(store: Store, ref: Found, text: str) -> None:
    with Session.open(store, ref, wait=0) as session:
        session.append(message(text))


def _delete(store: Store, ref: Found, *, again: bool) -> None:
    if again and not os.path.lexists(ref.path):
        return  # only the sync had failed
    store.delete(ref)


def warm_up(home: str, layout: str) -> None:
    """So that no import is left for a life that is traced."""
    live(home, store_in(home, layout), lambda report: None)


def fail_each_once(layout: str, calls: str, seed: int, home: str) -> dict[str, Any]:
    names = CALLS[calls]
    warm_up(f"{home}/warm", layout)
    _, log = live_with(f"{home}/clean", layout, names, [])
    made = Counter(re.findall(r"^(\w+)\(", log, re.MULTILINE))
    possible = [
        Fault(call, number, error)
        for call in names
        for number in range(1, made[call] + 1)
        for error in ERRORS
    ]
    chosen = Random(seed).sample(possible, share(2, len(possible), layout))
    struck, wrong = 0, []
    for number, fault in enumerate(chosen):
        place = f"{home}/{number}"
        try:
            reports, log = live_with(place, layout, names, [str(fault)])
            struck += "(INJECTED)" in log
            check_life(place, layout, reports, fault)
        except Exception:
            wrong.append(f"{fault}: {traceback.format_exc(limit=-3)}")
        shutil.rmtree(place)
    return {"tried": len(chosen), "possible": len(possible), "struck": struck, "wrong": wrong}


def live_with(home: str, layout: str, calls: list[str], faults: list[str]) -> tuple[list[Any], str]:
    def work(report: Report) -> None:
        may_be_traced()
        report("ready")
        gate.wait()
        live(home, store, report)

    os.mkdir(home)
    store = store_in(home, layout)
    log = f"{home}/calls.log"
    with Gate() as gate, Child(work) as child:
        child.next()
        with traced(child.pid, log, calls, faults):
            gate.open()
            child.wait()
        return child.heard(), Path(log).read_text()


def check_life(home: str, layout: str, reports: list[Any], fault: Fault) -> None:
    """Exactly what was acknowledged is there, and each session takes an append from this other process."""
    *steps, names = reports
    cause = os.strerror(getattr(errno, fault.error))
    for told in (each["error"] for each in steps if each["error"]):
        if fault.error == "ENOENT" and told.startswith(("Conflict", "NotFound")):
            continue  # what the kernel says is not there, may be called that
        assert home in told, f"does not name the file: {told}"
        # What the kernel first says is not there, and then that it is, is told with its last word.
        is_last_word = fault.error == "ENOENT" and os.strerror(errno.EEXIST) in told
        assert cause in told or is_last_word, f"does not name the cause: {told}"

    acknowledged: dict[str, list[str]] = {name: [] for name in names}
    for each in steps:
        if not each["error"] and each["session"]:
            acknowledged[each["session"]] += each["texts"]
    acknowledged["fork"] = acknowledged["main"][:3] + acknowledged["fork"]
    acknowledged["doomed"] = acknowledged["main"]

    store, manager = store_in(home, layout), SessionManager(f"{home}/own")
    refs = {ref.id: ref for ref in store.list()}
    assert names["doomed"] not in refs
    for name in ("main", "fork"):
        ref = refs[names[name]]
        assert texts_in(store, ref) == acknowledged[name], name
        _append(store, ref, "after")
        assert texts_in(store, ref) == [*acknowledged[name], "after"], name
    assert [entry.text for entry in manager.load_session(names["own"])] == acknowledged["own"]
    manager.save(names["own"], [Entry.message("user", "after")])
    assert [entry.text for entry in manager.load_session(names["own"])] == [*acknowledged["own"], "after"]
    assert "unlink" in fault.call or list(Path(home).rglob("*.tmp")) == []


# --- a fault that lasts -----------------------------------------------------------------------------


def fail_for_a_while(layout: str, faults: list[str], home: str) -> None:
    warm_up(f"{home}/warm", layout)
    store, manager = store_in(home, layout), SessionManager(f"{home}/own")
    id = manager.create_session()
    ref = Session.create(store).ref
    _append(store, ref, "before")

    def work(report: Report) -> None:
        may_be_traced()
        with Session.open(store, ref) as session:
            for phase in ("during", "after"):
                report("ready")
                gate.wait()
                report([_attempt(store, session, manager, id, f"{phase} {number}") for number in range(3)])

    with Gate() as gate, Child(work) as child:
        child.next()
        calls = [fault.partition(":")[0] for fault in faults]
        with traced(child.pid, f"{home}/calls.log", calls, faults) as stop:
            gate.open()
            during, _ = child.next(2)
            stop()
        gate.open()
        (after,) = child.next(1)
        assert child.wait() == 0
    assert "(INJECTED)" in Path(home, "calls.log").read_text()
    assert [told for each in after for told in each.values()] == [None] * 12, after
    told = [told for each in during for told in each.values() if told]
    assert told, "the fault changed nothing"
    assert [each for each in told if home not in each] == [], "does not name the file"

    _append(store, ref, "from another process")
    manager.save(id, [Entry.message("user", "from another process")])
    may_stay = any("ftruncate" in fault for fault in faults)
    for way, found, first in (("append", ref, ["before"]), ("save", manager._find(id), [])):
        attempted = {f"during {number}": during[number][way] for number in range(3)}
        attempted |= {f"after {number}": after[number][way] for number in range(3)}
        kept = [text for text, error in attempted.items() if error is None]
        where = store if way == "append" else manager._store
        page = where.read(found)
        said = [entry.text for entry in page.entries]
        assert [text for text in said if not attempted.get(text)] == [*first, *kept, "from another process"]
        assert may_stay or len(said) == len(first) + len(kept) + 1, f"refused, and there all the same: {said}"
        assert all(problem.reason.endswith("left out") for problem in page.problems), page.problems


def _attempt(
    store: Store, session: Session, manager: SessionManager, id: str, text: str
) -> dict[str, str | None]:
    """Every way to save, once: the error each of them raised."""
    ways: dict[str, Callable[[], Any]] = {
        "append": lambda: session.append(message(text)),
        "save": lambda: manager.save(id, [Entry.message("user", text)]),
        "create": lambda: Session.create(store).close(),
        "fork": lambda: session.fork(),
    }
    answers: dict[str, str | None] = {}
    for way, act in ways.items():
        try:
            act()
            answers[way] = None
        except PerdureError as error:
            answers[way] = _told(error)
    return answers
