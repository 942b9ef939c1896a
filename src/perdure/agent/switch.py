"""The switch that ends a turn from outside: whatever is awaited behind it stops at once.

It costs a turn nothing while nobody uses it: no task is made to wait for it.
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
        self._waiting: asyncio.Timeout | None = None

    def stop(self) -> None:
        """End what is under way, now and until `reset`. From the event loop's own thread."""
        self._is_off = True
        if self._waiting is not None:
            self._waiting.reschedule(0)  # a deadline that has passed

    def reset(self) -> None:
        self._is_off = False

    async def unless_stopped(self, begin: Callable[[], Awaitable[T]]) -> T:
        """What `begin` gives, awaited; or Stopped, and then it was cancelled, or never begun."""
        if self._is_off:
            raise Stopped
        deadline = asyncio.timeout(None)
        try:
            async with deadline:
                self._waiting = deadline
                return await begin()
        except TimeoutError:
            if deadline.expired():
                raise Stopped from None
            raise
        finally:
            self._waiting = None
