"""Signals in a conversation: none is lost between the event loop and what reads the terminal by itself."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from hashlib import pbkdf2_hmac

import pytest

from perdure.errors import PerdureError
from perdure.front import signals
from perdure.front.signals import Interrupted, directly
from tests.needs import needs

pytestmark = needs("signals", given=hasattr(signal, "SIGHUP"))
EACH = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def send(number: int) -> None:
    os.kill(os.getpid(), number)


def talking(*works: Callable[[], object]) -> list[object]:
    """What is heard in a loop that catches signals, in which these are done; with what ended them."""
    heard: list[object] = []

    async def talk() -> None:
        signals.catch(lambda: heard.append("interrupt"), heard.append)
        try:
            for work in works:
                work()
        except Interrupted as error:
            heard.append(error)
        for _ in range(3):
            await asyncio.sleep(0.01)

    with signals.given_back():
        asyncio.run(talk())
    return heard


@pytest.mark.parametrize("number", EACH)
def test_g_5_g_6_a_signal_that_came_right_before_a_question_ends_it(number):
    """It would be answered only when the loop runs again, which somebody's answer would have to wait for."""
    asked: list[str] = []

    def work() -> None:
        send(number)
        directly(lambda: asked.append("asked"))

    (ended,) = talking(work)
    assert isinstance(ended, Interrupted)
    assert (ended.exit_code, asked) == (128 + number, [])


@pytest.mark.parametrize("number", EACH)
def test_g_5_g_6_a_signal_ends_what_has_the_terminal_and_is_heard_once(number):
    """Not by the loop too, when that goes on; and before and after it all are heard there."""
    (ended,) = talking(lambda: directly(lambda: send(number)))
    assert isinstance(ended, Interrupted)
    heard = "interrupt" if number == signal.SIGINT else 128 + number
    assert talking(lambda: send(number)) == [heard]
    assert talking(lambda: directly(lambda: None), lambda: send(number)) == [heard]


@pytest.mark.slow
def test_g_6_two_that_come_while_the_loop_is_busy_are_two():
    """Who presses Ctrl+C twice leaves, however slowly that is seen; also in one long call, after which Python
    tells of both as of one."""

    def press_twice() -> None:
        for _ in range(2):
            time.sleep(0.1)
            send(signal.SIGINT)
        is_over.set()

    def work() -> None:
        presser.start()
        while not is_over.is_set():
            pbkdf2_hmac("sha256", b"", b"", 2_000_000)  # some 0.5 s, in which no handler runs

    is_over, presser = threading.Event(), threading.Thread(target=press_twice)
    assert talking(work) == ["interrupt", "interrupt"]
    presser.join()
    assert talking(*[lambda: send(signal.SIGINT)] * 2) == ["interrupt", "interrupt"]


@pytest.mark.parametrize("number", EACH)
def test_g_5_what_takes_a_signal_for_an_error_is_ended_all_the_same(number):
    """As a list that leaves out what cannot be read."""

    def work() -> None:
        with suppress(PerdureError):
            send(number)

    (ended,) = talking(lambda: directly(work))
    assert isinstance(ended, Interrupted)


def test_g_5_where_a_loop_has_no_signals_the_handler_that_was_there_has_them(monkeypatch):
    """Ctrl+C at the end of a question is not kept for the next one."""
    heard: list[int] = []
    put_back = signals._handle

    def interrupted(each: int, handler: object) -> None:
        if each == signal.SIGTERM:
            send(each)
        put_back(each, handler)

    with signals.given_back():
        signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
        monkeypatch.setattr(signals, "_handle", interrupted)
        directly(lambda: None)
        assert heard == [signal.SIGTERM]
        directly(lambda: None)
    assert heard == [signal.SIGTERM] * 2


def test_a_talk_in_another_thread_leaves_the_signals_of_the_main_one_alone():
    """One that has come and is not seen to yet is seen to."""

    def work() -> None:
        send(signal.SIGTERM)
        elsewhere = threading.Thread(target=lambda: talking(lambda: directly(lambda: None)))
        elsewhere.start()
        elsewhere.join()
        assert signals._came == [signal.SIGTERM]

    assert talking(work) == [128 + signal.SIGTERM]


@pytest.mark.parametrize("number", EACH)
def test_g_5_a_signal_at_the_end_of_a_question_leaves_no_handler_behind(number, monkeypatch):
    """At any moment of putting back those that were there: then it is the loop's, or it ends the question."""
    put_back = signals._handle

    def work() -> None:
        before = [signal.getsignal(each) for each in EACH]

        def interrupted(each: int, handler: object) -> None:
            send(number)
            put_back(each, handler)
            send(number)

        monkeypatch.setattr(signals, "_handle", interrupted)
        try:
            directly(lambda: None)
        finally:
            monkeypatch.setattr(signals, "_handle", put_back)
            assert [signal.getsignal(each) for each in EACH] == before

    assert talking(work) == ["interrupt" if number == signal.SIGINT else 128 + number] * 2 * len(EACH)


def test_what_is_to_be_ignored_stays_so():
    """As nohup wants it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert talking(lambda: send(signal.SIGHUP), lambda: directly(lambda: send(signal.SIGHUP))) == []
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
