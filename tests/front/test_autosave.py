"""The timer: when it works, what it tells, and that nothing happens once it is stopped."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.errors import Held, NotSaved
from perdure.front.autosave import Clock, Timer

EVERY = 10


@dataclass
class Scripted(Clock):
    """Time that passes only while the timer waits or works: from one step to the next, each at its moment and
    before what is due then, all in the timer's own thread. When no step is left, the timer is stopped."""

    steps: list[tuple[float, Callable[[], object]]] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)
    time: float = 0

    def now(self):
        return self.time

    def wait(self, event, seconds):
        assert seconds > 0
        due = self.time + seconds
        while self.steps and self.steps[0][0] <= due:
            at, step = self.steps.pop(0)
            self.time = max(self.time, at)
            step()
        self.time = due
        if not self.steps:
            event.set()
            self.is_over.set()
        return event.is_set()


Outcome = tuple[float, bool | BaseException]


@dataclass
class Work:
    """Takes as long, and ends, as it is told to; what comes after that succeeds at once."""

    clock: Scripted
    outcomes: list[Outcome]
    times: list[float] = field(default_factory=list)
    results: list[bool | BaseException] = field(default_factory=list)

    def __call__(self) -> bool:
        takes, outcome = self.outcomes.pop(0) if self.outcomes else (0, True)
        self.times.append(self.clock.time)
        self.results.append(outcome)
        self.clock.time += takes
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def ran(outcomes=(), touches=(), *, until=100, once=False, told: Callable[[str], object] = print) -> Work:
    clock = Scripted()
    work = Work(clock, [*outcomes])
    timer = Timer(EVERY, work, name="Auto-save", told=told, once=once, clock=clock)
    clock.steps = [*((at, timer.touch) for at in sorted(touches)), (until, lambda: None)]
    timer.start()
    assert clock.is_over.wait(20)
    assert timer.stop()
    return work


FULL = NotSaved("/s.lisp", OSError(28, "No space left on device"))


# --- when -----------------------------------------------------------------------------------------------


def test_sib_15_it_works_at_every_interval():
    assert ran(until=35).times == [10, 20, 30]


def test_sib_15_what_had_nothing_to_do_comes_round_again_in_silence():
    """An empty conversation is skipped, and saved when there is something in it."""
    told: list[str] = []
    work = ran([(0, False), (0, False), (0, True)], until=35, told=told.append)
    assert work.times == [10, 20, 30]
    assert told == []


def test_cor_16_once_is_once_until_a_touch():
    """Whoever goes away is paused one time; whoever comes back can be paused again."""
    assert ran(once=True).times == [10]
    assert ran(touches=[4, 13, 47], once=True).times == [23, 57]


def test_cor_16_what_cannot_be_done_now_is_tried_again():
    """While a turn runs there is no pause. When it ends, that is a touch."""
    assert ran([(0, False), (0, False)], touches=[27], once=True).times == [10, 20, 37]


def test_cor_16_a_touch_in_the_middle_of_the_work_is_not_forgotten():
    """Who comes back while the pause is written is there again."""
    clock = Scripted()
    times: list[float] = []

    def work() -> bool:
        times.append(clock.time)
        clock.time += 1
        timer.touch()
        clock.time += 1
        return True

    timer = Timer(EVERY, work, name="Auto-pause", told=print, once=True, clock=clock)
    clock.steps = [(40, lambda: None)]
    with timer:
        assert clock.is_over.wait(20)
    assert times == [10, 22, 34]  # never earlier than an interval after it was tried


def test_work_that_takes_longer_than_the_interval_does_not_pile_up():
    assert ran([(25, True), (0, True)], until=60).times == [10, 45, 55]


def expected(outcomes: Sequence[Outcome], touches: Sequence[float], until: float, once: bool) -> list[float]:
    """The same said in another way: from one event to the next."""
    waiting, coming = [*outcomes], sorted(touches)
    times: list[float] = []
    due: float = EVERY
    while True:
        while coming and coming[0] <= due:
            due = coming.pop(0) + EVERY
        if due >= until:
            return times
        times.append(due)
        _, outcome = waiting.pop(0) if waiting else (0, True)
        due = inf if once and outcome is True else due + EVERY


outcome = st.sampled_from([True, True, False, None, FULL, OSError(5, "I/O error"), ValueError("a bug")])


@given(
    outcomes=st.lists(st.tuples(st.just(0), outcome), max_size=8),
    touches=st.lists(st.integers(0, 99), max_size=8),
    once=st.booleans(),
)
@example(outcomes=[(0, FULL), (0, True)], touches=[], once=True)
@example(outcomes=[(0, True), (0, True)], touches=[11], once=True)
def test_the_law_of_when_and_what_is_told(outcomes, touches, once):
    """However often somebody is there, and whatever fails in between: it works exactly when it is due, an
    outage is told once, as it begins, and so is its end."""
    told: list[str] = []
    work = ran(outcomes, touches, once=once, told=told.append)
    assert work.times == expected(outcomes, touches, 100, once)
    changes, is_failing = [], False
    for result in work.results:
        if result is not None and isinstance(result, Exception) != is_failing:
            is_failing = not is_failing
            changes.append("failed," if is_failing else "works")
    assert [text.split()[1] for text in told] == changes


# --- what is told -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (FULL, "Not saved: /s.lisp: No space left on device; free some disk space, then try again"),
        (Held("s", 7), f"Session s is held by process 7; {Held('s', 7).hint}"),
        (OSError(5, "Input/output error"), "Input/output error"),
        (OSError("two\nlines, \x1b[31m"), r"two lines, \x1b[31m"),
        (ValueError("a bug"), "ValueError: a bug"),
        (KeyError(), "KeyError"),
        (SystemExit(3), "SystemExit: 3"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_sib_15_a_failure_is_told_once_and_tried_again_and_so_is_its_end(error, reason):
    """Of any kind, and in characters that a terminal may be sent."""
    told: list[str] = []
    outcomes = [(0, error), (0, error), (0, None), (0, error), (0, True)]
    assert ran(outcomes, until=75, told=told.append).times == [10, 20, 30, 40, 50, 60, 70]
    assert told == [f"Auto-save failed, and is tried again later: {reason}", "Auto-save works again."]


def test_two_outages_are_told_of_twice():
    told: list[str] = []
    ran([(0, FULL), (0, True), (0, True), (0, FULL), (0, True)], told=told.append)
    assert [text.split()[1] for text in told] == ["failed,", "works", "failed,", "works"]


def test_sib_15_an_outage_that_somebody_else_ended_is_over():
    """All was saved by hand: there is nothing left to save, and the next outage is told of."""
    told: list[str] = []
    ran([(0, FULL), (0, False), (0, False), (0, FULL), (0, True)], told=told.append)
    assert [text.split()[1] for text in told] == ["failed,", "works", "failed,", "works"]


def test_where_nobody_can_be_told_the_work_goes_on():
    """The terminal may be gone before the conversation is."""

    def gone(text: str) -> None:
        raise BrokenPipeError(text)

    assert ran([(0, FULL), (0, True)], until=45, told=gone).times == [10, 20, 30, 40]


# --- the end ----------------------------------------------------------------------------------------------


class Immediate(Clock):
    """In which every wait is over at once."""

    def __init__(self):
        self.time = 0.0

    def now(self):
        return self.time

    def wait(self, event, seconds):
        self.time += seconds
        return event.is_set()


@dataclass
class Gate:
    """Work that is under way until it is let go."""

    begun: threading.Event = field(default_factory=threading.Event)
    goes_on: threading.Event = field(default_factory=threading.Event)
    ended: int = 0

    def __call__(self):
        self.begun.set()
        assert self.goes_on.wait(20)
        self.ended += 1
        return True


def gated():
    gate = Gate()
    timer = Timer(1, gate, name="Auto-save", told=print, clock=Immediate())
    timer.start()
    assert gate.begun.wait(20)
    return gate, timer


def test_sib_15_stop_waits_for_what_is_under_way():
    """When it returns, the work is whole, and it was the last."""
    gate, timer = gated()
    threading.Timer(0.05, gate.goes_on.set).start()
    assert timer.stop()
    assert gate.ended == 1


def test_sib_15_work_that_hangs_does_not_keep_stop_and_is_the_last():
    """Nor the program: the thread is a daemon. It says that it did not wait for the end."""
    gate, timer = gated()
    thread = timer._thread
    assert thread is not None
    assert thread.daemon
    begun = time.monotonic()
    assert timer.stop(0.05) is False
    assert timer.stop(-1) is False
    assert time.monotonic() - begun < 5
    timer.start()
    assert timer._thread is thread
    gate.goes_on.set()
    assert timer.stop()
    assert gate.ended == 1


@pytest.mark.slow
def test_after_a_stop_nothing_begins():
    """At whatever moment it comes, from whichever thread."""
    for _ in range(50):
        count, first = [0], threading.Event()

        def work(count=count, first=first):
            count[0] += 1
            first.set()
            return True

        timer = Timer(1, work, name="Auto-save", told=print, clock=Immediate())
        timer.start()
        assert first.wait(20)
        assert timer.stop()
        seen = count[0]
        timer.start()
        timer.touch()
        time.sleep(0)
        assert count[0] == seen


def test_however_many_start_it_there_is_one():
    """One thread, so one work at a time."""
    at_work, most, done = [0], [0], threading.Event()

    def work():
        at_work[0] += 1
        most[0] = max(most[0], at_work[0])
        time.sleep(0.001)
        at_work[0] -= 1
        done.set()
        return True

    with Timer(1, work, name="Auto-save", told=print, clock=Immediate()) as timer:
        starting = [threading.Thread(target=timer.start) for _ in range(8)]
        for thread in starting:
            thread.start()
        for thread in starting:
            thread.join()
        assert done.wait(20)
        assert sum(thread.name == "Auto-save" for thread in threading.enumerate()) == 1
    assert most == [1]


def test_work_may_stop_its_own_timer():
    """It is told that something is under way, namely itself."""
    stopped, done = [], threading.Event()

    def work():
        stopped.append(timer.stop())
        done.set()
        return True

    timer = Timer(1, work, name="Auto-save", told=print, clock=Immediate())
    timer.start()
    assert done.wait(20)
    assert timer.stop()
    assert stopped == [False]


def test_stopping_twice_or_before_a_start_is_harmless():
    """And a timer that was stopped first never begins."""
    gate = Gate()
    timer = Timer(1, gate, name="Auto-save", told=print, clock=Immediate())
    assert timer.stop()
    assert timer.stop()
    with timer:
        assert timer.stop()
    assert not gate.begun.is_set()


@pytest.mark.parametrize("seconds", [0, -1, -0.5, float("nan")])
def test_no_seconds_mean_never(seconds):
    before = threading.active_count()
    with Timer(seconds, lambda: True, name="Auto-save", told=print) as timer:
        timer.touch()
        assert threading.active_count() == before
    assert timer.stop()


def test_by_the_real_clock():
    """Not before it is due, again and again; a wait is ended at once, and no number is too big for one."""
    begun, times, twice = time.monotonic(), [], threading.Event()

    def work():
        times.append(time.monotonic() - begun)
        if len(times) == 2:
            twice.set()
        return True

    with Timer(0.03, work, name="Auto-save", told=print):
        assert twice.wait(20)
    assert times[0] >= 0.03
    assert times[1] - times[0] >= 0.03
    with Timer(1e30, work, name="Auto-save", told=print) as timer:
        begun = time.monotonic()
        assert timer.stop()
    assert time.monotonic() - begun < 5
