"""The bridge to the session engine: what is begun is awaited to its end, and a cancellation is not lost."""

import asyncio
import threading

import pytest

from perdure.agent import memory
from perdure.agent.aside import in_thread, settled
from perdure.agent.memory import Memory
from perdure.session.entry import User
from perdure.session.session import Session
from perdure.session.stores import open_store

pytestmark = pytest.mark.anyio


class Work:
    """Something slow: it goes on until it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.has_ended = False

    async def here(self) -> str:
        while not self.let_go.is_set():
            await asyncio.sleep(0)
        self.has_ended = True
        return "result"

    def there(self) -> str:
        self.let_go.wait(20)
        self.has_ended = True
        return "result"


WAYS = {"in_thread": lambda work: in_thread(work.there), "settled": lambda work: settled(work.here())}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("times", [0, 1, 3])
async def test_whoever_is_cancelled_has_the_result_and_learns_of_it_at_the_next_await(way, times):
    work = Work()
    seen: list[str] = []

    async def wait_for_it() -> None:
        seen.append(await WAYS[way](work))
        await asyncio.sleep(0)
        seen.append("was not cancelled")

    task = asyncio.create_task(wait_for_it())
    await asyncio.sleep(0)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
    is_done_early = task.done()
    work.let_go.set()
    await asyncio.wait([task])
    assert not is_done_early
    assert work.has_ended
    assert seen == (["result"] if times else ["result", "was not cancelled"])
    assert task.cancelled() == bool(times)


async def test_what_a_thread_raises_is_raised_here():
    with pytest.raises(ZeroDivisionError):
        await in_thread(lambda: 1 / 0)


async def test_the_loop_goes_on_meanwhile():
    work = Work()
    waiting = asyncio.create_task(in_thread(work.there))
    await asyncio.sleep(0)
    is_done_early = waiting.done()
    work.let_go.set()
    assert await waiting == "result"
    assert not is_done_early


@pytest.mark.parametrize(("quick", "here"), [(10.0, [False, True, True]), (0.0, [False] * 3)])
async def test_only_a_slow_disk_is_written_to_by_a_thread(home, monkeypatch, quick, here):
    """Except for the first time, when nobody knows how slow it is."""
    monkeypatch.setattr(memory, "_QUICK", quick)
    used: list[bool] = []
    with Session.create(open_store("pi", durability="process")) as session:
        real = session.append

        def append(*bodies):
            used.append(threading.current_thread() is threading.main_thread())
            return real(*bodies)

        monkeypatch.setattr(session, "append", append)
        kept = Memory(session, 0)
        for text in ("one", "two", "three"):
            await kept.keep(User(text))
        assert [entry.text for entry in session.path()] == ["one", "two", "three"]
    assert used == here
