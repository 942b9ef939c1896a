"""The switch: it ends what is awaited behind it, and nothing else."""

import asyncio

import pytest

from perdure.agent.switch import Stopped, Switch

pytestmark = pytest.mark.anyio


async def test_what_is_awaited_is_given_back_while_nobody_stops():
    async def work():
        await asyncio.sleep(0)
        return "done"

    assert await Switch().unless_stopped(work) == "done"


async def test_stopping_cancels_what_is_under_way_and_leaves_the_task_uncancelled():
    """Whoever goes on after it can await again."""
    switch, cancelled = Switch(), asyncio.Event()

    async def work():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    asyncio.get_running_loop().call_later(0.01, switch.stop)
    with pytest.raises(Stopped):
        await switch.unless_stopped(work)
    assert cancelled.is_set()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_what_comes_after_a_stop_is_never_begun_until_a_reset():
    switch, begun = Switch(), []

    async def work():
        begun.append(True)

    switch.stop()
    with pytest.raises(Stopped):
        await switch.unless_stopped(work)
    assert not begun
    switch.reset()
    await switch.unless_stopped(work)
    assert begun


async def test_work_that_stops_itself_and_ends_at_once_is_not_cancelled_later():
    """The model of a turn runs in the turn's own task, and so may whoever presses the button."""
    switch = Switch()

    async def work():
        switch.stop()
        return "done"

    assert await switch.unless_stopped(work) == "done"
    for _ in range(3):
        await asyncio.sleep(0)


async def test_stopping_twice_is_stopping_once():
    switch = Switch()

    def stop_twice():
        switch.stop()
        switch.stop()

    asyncio.get_running_loop().call_later(0.01, stop_twice)
    with pytest.raises(Stopped):
        await switch.unless_stopped(lambda: asyncio.sleep(60))
    await asyncio.sleep(0)


async def test_a_task_that_others_cancel_too_is_cancelled():
    """Being stopped must not swallow their word."""
    switch = Switch()
    task = asyncio.create_task(switch.unless_stopped(lambda: asyncio.sleep(60)))
    await asyncio.sleep(0)
    switch.stop()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def test_what_fails_by_itself_says_so_also_when_it_was_stopped():
    async def work():
        switch.stop()
        raise ValueError("its own")

    switch = Switch()
    with pytest.raises(ValueError, match="its own"):
        await switch.unless_stopped(work)
    await asyncio.sleep(0)
