"""What an agent is doing: one thing at a time, which can be stopped, and waited for."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

from perdure.agent.switch import Switch
from perdure.errors import UsageError

Watched = weakref.ref[AsyncGenerator[Any, None]]
"""A generator whose events somebody waits for; dead as soon as nobody does."""


class Work:
    def __init__(self) -> None:
        self.switch = Switch()
        self.is_under_way = False
        self._is_idle = asyncio.Event()
        self._watched: Watched | None = None

    async def begin(self, watched: Watched | None = None) -> None:
        """Until `end`, nothing else is begun. `watched` is the generator that does it, if one does."""
        while self.is_under_way and self._watched is not None and self._watched() is None:
            await self._is_idle.wait()  # nobody watches that turn any more: it is about to end
        if self.is_under_way:
            raise UsageError("The agent is at work already", "wait for it, steer it, or abort it")
        self._watched = watched
        self.is_under_way = True
        self._is_idle.clear()
        self.switch.reset()

    def end(self) -> None:
        self.is_under_way = False
        self._is_idle.set()

    def stop(self) -> None:
        if self.is_under_way:
            self.switch.stop()

    async def finish(self) -> None:
        """Stop it, and wait until it has ended: also if whoever watched it went away."""
        while self.is_under_way:
            self.switch.stop()
            watched = self._watched() if self._watched else None
            if watched is not None:
                try:
                    await watched.aclose()
                    continue
                except RuntimeError:
                    pass  # somebody waits for its next event, and gets the last ones
            del watched
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_idle.wait(), 0.05)
