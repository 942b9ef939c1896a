"""Signals: whoever is told to stop stops, whatever it does at that moment.

In a conversation the event loop has them. While something reads and writes the terminal by itself the loop
does not run, and they end that. No moment is between the two: a signal that came when the loop could not see
to it any more ends what is about to wait for somebody.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from perdure.errors import PerdureError

T = TypeVar("T")

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")
_came: list[int] = []
"""Those that the loop has not seen to yet. It is told of each by a descriptor, also of two that come while
the main thread is in one long call, of which Python tells once."""
_ended: list[int] = []
"""Those of which the loop is still to be told, and that have ended something already."""


class Interrupted(PerdureError):
    """A signal came while something had the terminal to itself."""

    def __init__(self, number: int) -> None:
        super().__init__("Stopped")
        self.exit_code = 128 + number


def heeded() -> list[signal.Signals]:
    """What whoever started us wants ignored stays so: nohup, or a shell's background job."""
    known = [getattr(signal, name, None) for name in _NAMES]
    return [each for each in known if each and signal.getsignal(each) is not signal.SIG_IGN]


def catch(interrupt: Callable[[], None], leave: Callable[[int], None]) -> None:
    """In the running loop, until it is closed: who presses Ctrl+C once more does not end the saving."""
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    _came.clear()
    _ended.clear()

    def see_to(number: signal.Signals) -> None:
        if number in _ended:
            return _ended.remove(number)
        if number in _came:
            _came.remove(number)
        interrupt() if number == signal.SIGINT else leave(128 + number)

    for number in heeded():
        with suppress(NotImplementedError, RuntimeError):  # where loops have no signals
            loop.add_signal_handler(number, see_to, number)
            _handle(number, _note)


def directly(work: Callable[[], T]) -> T:
    """Something that reads and writes lines itself. Signals end it, `Interrupted`, and what is to be tidied
    up is tidied up. Other threads than the main one have none."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    is_working, ended_by = False, 0

    def stop(number: int, frame: object) -> None:
        nonlocal ended_by
        if not is_working:
            return _came.append(number)
        ended_by = number
        _ended.append(number)
        raise Interrupted(number)

    before = {number: signal.getsignal(number) for number in heeded()}
    for number in before:
        signal.signal(number, stop)
    try:
        try:
            is_working = True
            if _came:
                stop(_came.pop(0), None)
            result = work()
            if ended_by:  # and the work took that for something else
                raise Interrupted(ended_by)
            return result
        finally:
            is_working = False
    finally:
        is_working = False  # also if one came at the end of the work
        for number, handler in before.items():
            _handle(number, handler)
            if number in _came and handler is not _note:  # nobody would see to it later
                _came.remove(number)
                signal.raise_signal(number)


@contextmanager
def given_back() -> Iterator[None]:
    """To whoever started this from a program of their own: an event loop leaves none of their handlers."""
    numbers = [getattr(signal, name, None) for name in _NAMES]
    before = {number: signal.getsignal(number) for number in numbers if number}
    try:
        yield
    finally:
        for number, handler in before.items():
            with suppress(ValueError, TypeError):  # of another thread, or not Python's own
                signal.signal(number, handler)


def _note(number: int, frame: object) -> None:
    _came.append(number)


def _handle(number: int, handler: Any) -> None:
    """As an event loop does it: a signal that ends nothing does not break a call off."""
    signal.signal(number, handler)
    if hasattr(signal, "siginterrupt"):
        signal.siginterrupt(number, False)
