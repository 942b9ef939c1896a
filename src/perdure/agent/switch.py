"""The switch that ends a turn from outside: whatever is awaited behind it stops at once.

It costs a turn next to nothing while nobody uses it: no task is made to wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


class Stopped(Exception):
    """Somebody wants the turn to end."""


class Switch:
    def __init__(self) -> None:
        self._is_off = False
        self._waiting: asyncio.Task[object] | None = None
        self._stopping: asyncio.Handle | None = None
        self._has_cancelled = False

    def stop(self) -> None:
        """End what is under way, now and until `reset`. From the event loop's own thread."""
        self._is_off = True
        if self._waiting is not None and self._stopping is None:
            # In a moment, when the task surely waits: it may be the one that stops itself here.
            self._stopping = self._waiting.get_loop().call_soon(self._cancel, self._waiting)

    def _cancel(self, task: asyncio.Task[object]) -> None:
        self._has_cancelled = task.cancel()

    @property
    def is_off(self) -> bool:
        """Whether somebody wants the turn to end."""
        return self._is_off

    def reset(self) -> None:
        self._is_off = False

    async def unless_stopped(self, begin: Callable[[], Awaitable[T]]) -> T:
        """What `begin` gives, awaited; or Stopped, and then it was cancelled, or never begun.

        As `asyncio.timeout` does it, at a quarter of its price: this is paid for every word of an answer.
        """
        if self._is_off:
            raise Stopped
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        self._waiting = task
        try:
            return await begin()
        except asyncio.CancelledError:
            # Whoever else cancelled the task meanwhile is told by this very error.
            if self._has_cancelled and task.cancelling() == before + 1:
                raise Stopped from None
            raise
        finally:
            self._waiting = None
            if self._stopping is not None:
                self._stopping.cancel()
                self._stopping = None
            if self._has_cancelled:
                self._has_cancelled = False
                task.uncancel()
