"""The one bridge from the agent, which is asynchronous, to the session engine, which is not.

What is begun here is awaited to its end whatever happens meanwhile: who is cancelled learns of it at the next
await, so that what was done and what is known of it cannot come apart. A trip to the thread and back takes
two rounds of the event loop; `asyncio.to_thread` behind a shield takes five.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from perdure.errors import Held

T = TypeVar("T")

PATIENCE = 10.0
"""Seconds to wait for a session that another process talks in."""
_PACE = 0.05
_MOST_THREADS = 8
_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, ThreadPoolExecutor] = WeakKeyDictionary()
"""An event loop's own, so that a process that was forked has none of its parent's."""


async def in_thread(work: Callable[..., T], *arguments: Any) -> T:
    """What waits for a disk, done by a thread."""
    loop = asyncio.get_running_loop()
    waiting = loop.create_future()
    results: list[T] = []
    errors: list[BaseException] = []

    def tell() -> None:
        if not waiting.done():
            waiting.set_result(None)

    def run() -> None:
        try:
            results.append(work(*arguments))
        except BaseException as error:
            errors.append(error)
        try:
            loop.call_soon_threadsafe(tell)
        except RuntimeError:
            pass  # the loop has ended, and nobody waits

    pool = _pools.get(loop)
    if pool is None:
        pool = _pools[loop] = ThreadPoolExecutor(_MOST_THREADS, "perdure")
    pool.submit(run)
    cancelled = 0
    while not results and not errors:
        try:
            await waiting
        except asyncio.CancelledError:
            cancelled += 1
            waiting = loop.create_future()
    _cancel_again(cancelled)
    if errors:
        raise errors.pop()
    return results[0]


async def in_thread_of_its_own(work: Callable[..., T], *arguments: Any) -> T:
    """Somebody else's function, which may never return. It is awaited until whoever waits is cancelled; what
    it does then is its own, and does not keep the process from ending."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if outcome.done():
            return
        if error is None:
            outcome.set_result(result)
        else:
            outcome.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = work(*arguments)
        except BaseException as caught:
            # A future takes no StopIteration.
            error = RuntimeError(repr(caught)) if isinstance(caught, StopIteration) else caught
        with suppress(RuntimeError):  # the loop has ended, and nobody waits
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="perdure tool", daemon=True).start()
    return await outcome


async def when_free(
    work: Callable[..., T], *arguments: Any, waiting: Callable[[Held], object] = lambda _: None
) -> T:
    """What needs a session that another process may hold, tried until it is let go of; or else `Held`.
    `waiting` is told whom it waits for. `work` must not wait itself: there are few threads."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return await in_thread(work, *arguments)
        except Held as error:
            if time.monotonic() > end:
                raise
            waiting(error)
        await asyncio.sleep(_PACE)


async def settled(under_way: Awaitable[T]) -> T:
    """The same for what is awaited anyway."""
    work = asyncio.ensure_future(under_way)
    cancelled = 0
    try:
        while True:
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                if work.cancelled():
                    raise
                cancelled += 1
    finally:
        _cancel_again(cancelled)


def _cancel_again(times: int) -> None:
    task = asyncio.current_task()
    assert task is not None
    for _ in range(times):
        task.uncancel()
    for _ in range(times):
        task.cancel()
