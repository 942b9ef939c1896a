"""An answer that breaks off and is asked for again: it is kept once, however it ends, and whoever watches can
tell which attempt was given up."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.agent import Agent
from perdure.agent.compaction import NoCompaction, SummaryCompaction
from perdure.agent.events import AutoRetryStart, CompactionStart, MessageEnd, MessageStart, MessageUpdate
from perdure.agent.loop import BY_USER, Bench
from perdure.agent.model_choice import Voice
from perdure.agent.settings import Retry
from perdure.errors import ContextOverflow, ModelError, ModelUnavailable
from perdure.session.entry import Assistant
from perdure.session.session import Session
from perdure.session.stores.memory import MemoryStore
from perdure.testing import ScriptedModel

pytestmark = pytest.mark.anyio

CUT = ModelUnavailable("cut off")
AT_ONCE = Retry(base_delay_ms=0)
FOREVER = Retry(base_delay_ms=3_600_000, max_delay_ms=3_600_000)


@pytest.fixture
def session():
    with Session.create(MemoryStore()) as session:
        yield session


def agent_in(session, *replies: Any, retry=AT_ONCE, strategy=None) -> Agent:
    settings: Any = {"strategy": strategy or NoCompaction(), "retry": retry, "system": ""}
    return Agent(session, Voice(ScriptedModel(*replies)), Bench({}, "/", {}), **settings)


async def told(events) -> list[Any]:
    async with aclosing(events):
        return [event async for event in events]


def messages(session) -> list[Any]:
    return [entry.body.message for entry in session.entries if entry.type == "message"]


def answers(session) -> list[tuple[str, str]]:
    """Those that are kept: their text, and how they ended."""
    return [(m.text, m.stop_reason) for m in messages(session) if isinstance(m, Assistant)]


async def test_a_half_answer_leaves_no_trace_where_a_retry_succeeds(session):
    """Neither in the session nor in what the model is sent."""
    agent = agent_in(session, ["half", CUT], ["half an", CUT], "whole", "more")
    await told(agent.send("hello"))
    assert answers(session) == [("whole", "stop")]
    await told(agent.send("again"))
    sent = agent.voice.model.requests[-1].messages  # type: ignore[attr-defined]
    assert [message.text for message in sent] == ["hello", "whole", "again"]


async def test_a_half_answer_is_kept_once_where_every_retry_breaks_off(session):
    """It is the last one. Its message_end says so when it is on disk, behind the end of the retries."""
    halves = [[f"half {number}", CUT] for number in range(4)]
    events = await told(agent_in(session, *halves).send("hello"))
    assert answers(session) == [("half 3", "error")]
    assert [event.type for event in events[-4:]] == [
        *("auto_retry_end", "message_end", "turn_end", "agent_end")
    ]
    assert [m.text for m in events[-1].messages] == ["hello", "half 3"]


async def test_what_arrived_is_kept_where_nothing_comes_in_the_last_attempt(session):
    """With the reason of that one."""
    events = await told(agent_in(session, ["half", CUT], CUT, ModelError("no such model")).send("hello"))
    assert answers(session) == [("half", "error")]
    assert events[-1].messages[-1].error_message == "no such model"
    assert [event.type for event in events[-4:]] == ["message_start", "message_end", "turn_end", "agent_end"]


WAITING, ASKED = "waiting for the retry", "before its first word"


@pytest.mark.parametrize(
    ("when", "way"),
    [
        *((WAITING, way) for way in ("abort", "close", "cancel", "finish")),
        *((ASKED, way) for way in ("abort", "cancel", "finish")),
    ],
)
async def test_g_6_what_ends_a_turn_between_two_attempts_keeps_what_arrived(session, when, way):
    """Marked as interrupted, once, and before the turn is over."""
    is_waiting = when == WAITING
    retry = FOREVER if is_waiting else AT_ONCE
    agent = agent_in(session, ["half an ans", CUT], asyncio.Event(), retry=retry)
    model: Any = agent.voice.model
    seen: list[Any] = []

    async def watch() -> None:
        async with aclosing(agent.send("hello")) as events:
            async for event in events:
                seen.append(event)
                if way == "close" and isinstance(event, AutoRetryStart):
                    return

    def is_there() -> bool:
        return any(isinstance(e, AutoRetryStart) for e in seen) and (is_waiting or len(model.requests) == 2)

    watching = asyncio.create_task(watch())
    while not is_there():
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    match way:
        case "abort":
            agent.abort()
        case "finish":
            await agent.finish()
        case "cancel":
            watching.cancel()
    await asyncio.wait([watching])
    assert answers(session) == [("half an ans", "aborted")]
    assert messages(session)[-1].error_message == BY_USER


async def test_an_overflow_in_the_middle_of_an_answer_leaves_no_half_answer_behind(session):
    """It is condensed and asked for again, as where it came before the first word."""
    replies = ["a" * 3000, ["half", ContextOverflow("too long")], "the summary", "whole"]
    agent = agent_in(session, *replies, strategy=SummaryCompaction(keep_recent_tokens=10))
    await told(agent.send("one"))
    events = await told(agent.send("two"))
    assert [text for text, _ in answers(session)[1:]] == ["whole"]
    assert_each_attempt_has_an_end(events)


async def test_a_half_answer_is_kept_once_where_condensing_does_not_help(session):
    """Though that was tried twice, and the attempt was given up for it."""
    long = ContextOverflow("too long")
    replies = ["a" * 3000, ["half", long], ModelUnavailable("busy"), ModelError("no summary")]
    agent = agent_in(session, *replies, strategy=SummaryCompaction(keep_recent_tokens=10))
    await told(agent.send("one"))
    events = await told(agent.send("two"))
    assert answers(session)[1:] == [("half", "error")]
    assert events[-1].messages[-1].error_message == "too long"
    assert_each_attempt_has_an_end(events)


def assert_each_attempt_has_an_end(events: list[Any]) -> None:
    """An answer that began has its message_end, or the reason why it has none."""
    is_open = False
    for event in events:
        match event:
            case MessageStart(message=Assistant()):
                assert not is_open
                is_open = True
            case MessageEnd(message=Assistant()):
                assert is_open
                is_open = False
            case AutoRetryStart() | CompactionStart():
                is_open = False
    assert not is_open


attempts = st.sampled_from(["", "half", "half an ans"])


@given(st.lists(attempts, max_size=6), st.integers(0, 5), st.sampled_from(["stop", "error", ""]))
def test_one_answer_is_kept_whatever_the_attempts_were(broken, most, end):
    """The whole one if there was one, else the last of which something came; what is told as kept is what is
    kept, and each attempt that is told of either ends or is given up by name."""

    async def live() -> None:
        with Session.create(MemoryStore()) as session:
            failures: list[Any] = [[text, CUT] if text else CUT for text in broken]
            ends_with: dict[str, list[Any]] = {
                "stop": ["whole"],
                "error": [["ha", ModelError("wrong")]],
                "": [],
            }
            retry = Retry(max_retries=most, base_delay_ms=0)
            agent = agent_in(session, *failures, *ends_with[end], retry=retry)
            events = await told(agent.send("hello"))
            made = broken[: most + 1]
            is_last_made = len(broken) <= most
            if is_last_made and end == "stop":
                expected = ("whole", "stop")
            else:
                arrived = [*made, *(["ha"] if is_last_made and end == "error" else [])]
                expected = (next((text for text in reversed(arrived) if text), ""), "error")
            assert answers(session) == [expected]
            ended = [e.message for e in events if isinstance(e, MessageEnd)]
            assert messages(session) == ended
            assert_each_attempt_has_an_end(events)
            broke = [e for e in events if isinstance(e, MessageUpdate)]
            ends = [e for e in broke if e.assistant_message_event.type == "error"]
            assert len(ends) == sum(1 for text in made if text) + (is_last_made and end == "error")

    asyncio.run(live())
