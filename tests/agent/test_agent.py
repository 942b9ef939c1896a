"""An agent in a real session: what is on disk when, tried again, queued, condensed."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from msgspec import Struct

from perdure.agent.agent import Agent, Voice
from perdure.agent.compaction import NoCompaction, SummaryCompaction
from perdure.agent.events import AutoRetryStart, CompactionEnd, MessageEnd, MessageUpdate
from perdure.agent.loop import Bench
from perdure.agent.models import Finished, Usage
from perdure.agent.settings import Retry
from perdure.agent.tools import AgentToolResult, Tool
from perdure.errors import ContextOverflow, ModelError, ModelUnavailable, NotSaved, PerdureError, UsageError
from perdure.session.entry import Assistant, Compaction, ToolCall, ToolResult, User, text_of
from perdure.session.session import Session
from perdure.session.stores import open_store
from perdure.testing import ScriptedModel

pytestmark = pytest.mark.anyio


class Said(Struct):
    text: str = ""


async def _echo(args: Said, ctx: Any) -> AgentToolResult:
    return AgentToolResult(f"said {args.text}")


ECHO = Tool("echo", "Says it again.", Said, _echo)
QUICK = Retry(base_delay_ms=1, max_delay_ms=100)


@pytest.fixture
def session(home):
    with Session.create(open_store("pi", durability="process")) as session:
        yield session


def agent_in(session, model, **settings):
    settings = {"strategy": NoCompaction(), "retry": QUICK, "system": "be brief", **settings}
    return Agent(session, Voice(model), Bench({"echo": ECHO}, "/", {}), **settings)


async def told(events) -> list[Any]:
    async with aclosing(events):
        return [event async for event in events]


def on_disk(session) -> list[Any]:
    """What another process would read now."""
    path: Any = Session.view(session.store, session.ref).path()
    return [entry.body.message for entry in path if entry.type == "message"]


def spoken(session) -> list[str]:
    return [text_of(message.content) for message in on_disk(session)]


async def test_g_3_the_prompt_is_on_disk_before_the_model_is_called(session):
    """And so is every message before the next step."""
    seen = []

    def look(request):
        seen.append(spoken(session))
        return ToolCall("a", "echo", {"text": "x"}) if len(seen) == 1 else "done"

    await told(agent_in(session, ScriptedModel(look, look)).send("hello"))
    assert seen == [["hello"], ["hello", "", "said x"]]
    assert spoken(session) == ["hello", "", "said x", "done"]


async def test_what_is_told_is_what_is_on_disk(session):
    """At each message_end the session has that entry, by the id that is told."""
    agent = agent_in(session, ScriptedModel(["see", ToolCall("a", "echo", {})], "done"))
    async with aclosing(agent.send("hello")) as events:
        async for event in events:
            if isinstance(event, MessageEnd):
                last: Any = Session.view(session.store, session.ref).path()[-1]
                assert (last.id, last.body.message) == (event.entry_id, event.message)


async def test_the_order_of_events_of_one_prompt(session):
    agent = agent_in(session, ScriptedModel(ToolCall("a", "echo", {}), "done"))
    types = [event.type for event in await told(agent.send("hello")) if not isinstance(event, MessageUpdate)]
    one = ["message_start", "message_end"]
    assert types == [
        *("agent_start", "turn_start", *one, *one),
        *("tool_execution_start", "tool_execution_end", *one, "turn_end"),
        *("turn_start", *one, "turn_end", "agent_end"),
    ]


async def test_the_model_is_sent_what_the_session_says(session):
    """Whether the agent remembers it or reads it: the requests are the same."""
    agent = agent_in(session, first := ScriptedModel(ToolCall("a", "echo", {}), "one", "two"))
    await told(agent.send("hello"))
    await told(agent.send("again"))
    anew = agent_in(session, second := ScriptedModel("three"))
    await told(anew.send("more"))
    sent = first.requests[-1].messages
    assert second.requests[0].messages[: len(sent)] == sent
    assert [type(m) for m in sent] == [User, Assistant, ToolResult, Assistant, User]


# --- trying again -------------------------------------------------------------------------------------------


async def test_a_busy_model_is_asked_again_and_a_failed_try_leaves_no_trace(session):
    busy = ModelUnavailable("busy")
    agent = agent_in(session, ScriptedModel(busy, busy, "done"))
    events = await told(agent.send("hello"))
    retries = [event for event in events if event.type.startswith("auto_retry")]
    assert [(e.type, e.attempt) for e in retries] == [
        ("auto_retry_start", 1),
        ("auto_retry_start", 2),
        ("auto_retry_end", 2),
    ]
    assert [e.delay_ms for e in retries[:2]] == [1, 2]
    assert spoken(session) == ["hello", "done"]


async def test_a_half_answer_is_kept_and_not_sent_again(session):
    model = ScriptedModel(["half", ModelUnavailable("cut off")], "whole")
    await told(agent_in(session, model).send("hello"))
    assert [m.stop_reason for m in on_disk(session) if isinstance(m, Assistant)] == ["error", "stop"]
    assert [text_of(m.content) for m in model.requests[1].messages] == ["hello"]


async def test_a_server_is_given_the_time_it_asks_for(session):
    agent = agent_in(session, ScriptedModel(ModelUnavailable("busy", retry_after=0.05), "done"))
    (retry,) = [e for e in await told(agent.send("hello")) if isinstance(e, AutoRetryStart)]
    assert retry.delay_ms == 50


@pytest.mark.parametrize(
    ("failure", "retry"),
    [
        (ModelError("wrong key"), QUICK),
        (ModelUnavailable("busy"), Retry(enabled=False)),
        (ModelUnavailable("busy", retry_after=3600), QUICK),
        (ContextOverflow("too long"), QUICK),
    ],
)
async def test_what_no_second_try_can_help_is_told_at_once(session, failure, retry):
    """By the last message, and it is recorded; the next prompt starts from before it."""
    agent = agent_in(session, ScriptedModel(failure, "fine"), retry=retry)
    events = await told(agent.send("hello"))
    assert events[-1].type == "agent_end"
    last = events[-1].messages[-1]
    assert (last.stop_reason, last.error_message) == ("error", failure.message)
    assert on_disk(session)[-1] == last
    await told(agent.send("again"))
    assert spoken(session)[-1] == "fine"


async def test_after_the_last_try_the_failure_is_told(session):
    agent = agent_in(session, ScriptedModel(*[ModelUnavailable("busy")] * 4))
    events = await told(agent.send("hello"))
    ends = [event for event in events if event.type == "auto_retry_end"]
    assert [(end.success, end.final_error) for end in ends] == [(False, "busy")]
    assert events[-1].messages[-1].stop_reason == "error"


# --- stopping, steering, following up ---------------------------------------------------------------------


async def when(condition) -> None:
    while not condition():
        await asyncio.sleep(0)


async def test_g_6_an_aborted_turn_is_kept_and_the_next_prompt_goes_on(session):
    model = ScriptedModel(["half an ans", asyncio.Event()], "fine")
    agent = agent_in(session, model)
    events: list[Any] = []

    async def watch() -> None:
        async for event in agent.send("hello"):
            events.append(event)

    watching = asyncio.create_task(watch())
    await when(lambda: any(isinstance(e, MessageUpdate) for e in events))
    agent.abort()
    await watching
    assert events[-1].type == "agent_end"
    assert on_disk(session)[-1].stop_reason == "aborted"
    await told(agent.send("go on"))
    assert [text_of(m.content) for m in model.requests[1].messages] == ["hello", "half an ans", "go on"]


async def test_aborting_the_wait_for_the_next_try_ends_it(session):
    agent = agent_in(session, ScriptedModel(ModelUnavailable("busy", retry_after=50)), retry=Retry())
    async with aclosing(agent.send("hello")) as events:
        async for event in events:
            if isinstance(event, AutoRetryStart):
                agent.abort()
    assert event.type == "agent_end"


async def test_a_closed_turn_is_recorded_as_interrupted_before_close_returns(session):
    agent = agent_in(session, ScriptedModel(["half", asyncio.Event()], "fine"))
    async with aclosing(agent.send("hello")) as events:
        async for event in events:
            if isinstance(event, MessageUpdate) and event.assistant_message_event.type == "text_delta":
                break
    assert [m.stop_reason for m in on_disk(session)[1:]] == ["aborted"]
    await told(agent.send("again"))
    assert spoken(session)[-1] == "fine"


async def test_steering_is_said_when_the_running_tools_have_ended(session):
    agent = agent_in(session, ScriptedModel(ToolCall("a", "echo", {}), "turned"))
    async with aclosing(agent.send("hello")) as events:
        async for event in events:
            if event.type == "tool_execution_start":
                agent.steer("other way")
    assert spoken(session) == ["hello", "", "said ", "other way", "turned"]


async def test_a_follow_up_is_said_when_there_is_nothing_more_to_do(session):
    agent = agent_in(session, ScriptedModel(ToolCall("a", "echo", {}), "done", "then this"))
    queues = []
    async with aclosing(agent.send("hello")) as events:
        async for event in events:
            if event.type == "tool_execution_start":
                agent.follow_up("and then?")
            if event.type == "queue_update":
                queues.append(list(event.follow_up))
    assert spoken(session) == ["hello", "", "said ", "done", "and then?", "then this"]
    assert queues == [["and then?"], []]


async def test_only_one_prompt_at_a_time(session):
    agent = agent_in(session, ScriptedModel("one"))
    async with aclosing(agent.send("hello")) as events:
        await anext(events)
        with pytest.raises(UsageError, match="at work"):
            await anext(agent.send("again"))
    with pytest.raises(UsageError, match="not at work"):
        agent.steer("too late")


async def test_what_cannot_be_recorded_is_raised_and_not_told(session, monkeypatch):
    """The prompt is refused before the model is asked."""
    model = ScriptedModel("never")
    agent = agent_in(session, model)

    def refuse(*bodies):
        raise NotSaved(session.ref.path, OSError(28, "No space left on device"))

    monkeypatch.setattr(session, "append", refuse)
    seen: list[str] = []

    async def watch() -> None:
        async for event in agent.send("hello"):
            seen.append(event.type)

    with pytest.raises(NotSaved):
        await watch()
    assert seen == ["agent_start", "turn_start"]
    assert model.requests == []
    monkeypatch.undo()
    await told(agent.send("hello"))
    assert spoken(session) == ["hello", "never"]


# --- condensing -------------------------------------------------------------------------------------------

SHORT = SummaryCompaction(threshold=200, reserve_tokens=50, keep_recent_tokens=20)


def compactions(session) -> list[Compaction]:
    path = Session.view(session.store, session.ref).path()
    return [entry.body for entry in path if isinstance(entry.body, Compaction)]


async def test_pi_20_a_long_conversation_is_condensed_before_the_answer(session):
    """The prompt is in the file first, and what was said stays there."""
    model = ScriptedModel("a" * 600, "b" * 600, "the summary", "done")
    agent = agent_in(session, model, strategy=SHORT)
    await told(agent.send("one " * 50))
    events = await told(agent.send("two " * 50))
    assert "compaction_end" in [event.type for event in events] or compactions(session)
    events = await told(agent.send("three")) if not compactions(session) else events
    assert compactions(session)
    assert spoken(session)[0] == "one " * 50


async def test_pi_20_it_is_checked_between_tool_turns_too(session):
    big = "x" * 2000
    model = ScriptedModel("a" * 600, ToolCall("a", "echo", {"text": big}), "the summary", "done")
    agent = agent_in(session, model, strategy=SummaryCompaction(threshold=500, keep_recent_tokens=100))
    await told(agent.send("one"))
    types = [event.type for event in await told(agent.send("two"))]
    assert types.index("compaction_end") > types.index("tool_execution_end")
    assert spoken(session)[-1] == "done"
    sent = model.requests[-1].messages
    calls = [m for m in sent if isinstance(m, ToolResult)]
    assert len(calls) == sum(isinstance(m, Assistant) and m.stop_reason == "toolUse" for m in sent)


async def test_pi_20_an_overflow_is_condensed_and_tried_once_more(session):
    model = ScriptedModel("a" * 3000, ContextOverflow("too long"), "the summary", "done")
    agent = agent_in(session, model, strategy=SummaryCompaction(keep_recent_tokens=10))
    await told(agent.send("one"))
    events = await told(agent.send("two"))
    (end,) = [event for event in events if isinstance(event, CompactionEnd)]
    assert (end.reason, end.will_retry) == ("overflow", True)
    assert spoken(session)[-1] == "done"


async def test_pi_20_a_second_overflow_is_told(session):
    model = ScriptedModel("a" * 3000, ContextOverflow("too long"), "the summary", ContextOverflow("still"))
    agent = agent_in(session, model, strategy=SummaryCompaction(keep_recent_tokens=10))
    await told(agent.send("one"))
    events = await told(agent.send("two"))
    assert events[-1].messages[-1].error_message == "still"


async def test_pi_21_without_compaction_the_providers_error_is_shown(session):
    model = ScriptedModel("a" * 3000, ContextOverflow("too long"))
    agent = agent_in(session, model, strategy=NoCompaction())
    await told(agent.send("one"))
    events = await told(agent.send("two"))
    assert events[-1].messages[-1].error_message == "too long"
    assert compactions(session) == []


async def test_a_summary_that_fails_does_not_stop_the_turn(session):
    model = ScriptedModel("a" * 3000, ModelError("no"), "done")
    agent = agent_in(session, model, strategy=SummaryCompaction(threshold=100, keep_recent_tokens=10))
    await told(agent.send("one"))
    events = await told(agent.send("two"))
    (end,) = [event for event in events if isinstance(event, CompactionEnd)]
    assert end.error_message == "no"
    assert spoken(session)[-1] == "done"


async def test_condensing_by_hand_says_when_there_is_nothing_to_condense(session):
    agent = agent_in(session, ScriptedModel("one"), strategy=SummaryCompaction())
    await told(agent.send("hello"))
    with pytest.raises(PerdureError, match="nothing to condense"):
        await told(agent.compact())


async def test_the_usage_that_the_provider_counted_decides(session):
    model = ScriptedModel(["short", Finished("stop", Usage(190_000, 10))], "the summary", "done")
    agent = agent_in(session, model, strategy=SummaryCompaction(keep_recent_tokens=1))
    await told(agent.send("one " * 400))
    await told(agent.send("two"))
    assert len(compactions(session)) == 1
