"""What happens by itself while a conversation is open: it is saved, or paused when it is left alone.

A timer does its work in one thread, so never twice at a time. It has one life: what was stopped begins
nothing more, whoever starts it. If the work fails, the user hears of it once and not every few minutes; it is
tried again each time, and the user hears when it works again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Self

from perdure.errors import PerdureError
from perdure.front.visible import one_line


class Clock:
    """Time as a timer meets it. It never goes back, whatever is done to the date."""

    def now(self) -> float:
        return time.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Whether it was set, at once or within so many seconds."""
        return event.wait(min(seconds, threading.TIMEOUT_MAX))


class Timer:
    """`work` is done, in a thread of its own, whenever so many seconds have gone by; zero or less mean never.

    It says whether it did something, and None if it could not be tried: an empty conversation is not saved
    and one in which a turn runs is not paused. That is neither a success nor a failure, and comes round
    again. With `once`, what is done is done until there is a `touch`.

    `told` gets whole sentences that begin with `name`, in the timer's thread.
    """

    def __init__(
        self,
        seconds: float,
        work: Callable[[], bool | None],
        *,
        name: str,
        told: Callable[[str], object],
        once: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self._seconds, self._work, self._name, self._told = seconds, work, name, told
        self._is_once = once
        self._clock = clock or Clock()
        self._since = self._clock.now()
        self._is_failing = False
        self._stopped = threading.Event()
        self._was_started = threading.Lock()  # taken by the first start and never given back
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._seconds > 0 and self._was_started.acquire(blocking=False):
            # A daemon: work that hangs must not keep the program from ending.
            threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def touch(self) -> None:
        """Somebody is there: the seconds count from now on."""
        # The thread never writes this, so no touch is lost. Nor need it wake: it sleeps at most until
        # something is due, and this only puts that off.
        self._since = self._clock.now()

    def stop(self, timeout: float = 5.0) -> bool:
        """Nothing begins any more. Whether nothing is under way either, after so many seconds at most; what
        is, is the last."""
        self._stopped.set()
        thread = self._thread
        if thread is threading.current_thread():
            return False
        if thread is not None:
            thread.join(timeout)
        return thread is None or not thread.is_alive()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        self._thread = threading.current_thread()  # before any work: a stop that finds none need not wait
        wait, done_for = self._seconds, None
        while not self._clock.wait(self._stopped, wait):
            since = self._since
            if since != done_for:
                wait = since + self._seconds - self._clock.now()
                if wait > 0:
                    continue
                is_done = self._attempt()
                done_for = since if is_done and self._is_once else None
            wait = self._seconds

    def _attempt(self) -> bool:
        try:
            is_done = self._work()
        except BaseException as error:  # of any kind: nobody but the user can hear of it
            if not self._is_failing:
                self._is_failing = True
                self._tell(f"failed, and is tried again later: {_reason(error)}")
            return False
        if is_done is not None and self._is_failing:
            self._is_failing = False
            self._tell("works again.")
        return bool(is_done)

    def _tell(self, what: str) -> None:
        try:
            self._told(one_line(f"{self._name} {what}"))
        except Exception:
            pass  # where nobody can be told, the work goes on all the same


def _reason(error: BaseException) -> str:
    if isinstance(error, PerdureError):
        return error.said
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
