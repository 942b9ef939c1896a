"""An agent in a real session: what is on disk when, tried again, queued, condensed."""

import asyncio
import time
from contextlib import aclosing
from typing import Any

import pytest
from msgspec import structs

from perdure.agent.agent import Agent
from perdure.agent.compaction import NoCompaction, SummaryCompaction
from perdure.agent.events import AutoRetryStart, CompactionEnd, MessageEnd, MessageUpdate
from perdure.agent.loop import Bench
from perdure.agent.model_choice import Voice
from perdure.agent.models import Finished, Usage
from perdure.agent.settings import Retry
from perdure.agent.tools import AgentToolResult, Tool
from perdure.errors import ContextOverflow, ModelError, ModelUnavailable, NotSaved, PerdureError, UsageError
from perdure.session.entry import (
    Assistant,
    Compaction,
    ThinkingLevelChange,
    ToolCall,
    ToolResult,
    User,
    text_of,
)
from perdure.session.session import Session
from perdure.session.stores import open_store
from perdure.testing import ScriptedModel
from perdure.testing.scripted import SCRIPTED
from tests.agent.echo import ECHO, Said, echo

pytestmark = pytest.mark.anyio


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

SHORT = SummaryCompaction(threshold=200, keep_recent_tokens=10)


def compactions(session) -> list[Compaction]:
    path = Session.view(session.store, session.ref).path()
    return [entry.body for entry in path if isinstance(entry.body, Compaction)]


async def test_pi_20_a_long_conversation_is_condensed_before_the_answer(session):
    """The prompt is in the file first, and what was said stays there."""
    model = ScriptedModel("a" * 800, "the summary", "done")
    agent = agent_in(session, model, strategy=SHORT)
    await told(agent.send("one " * 50))
    types = [event.type for event in await told(agent.send("two"))]
    assert types.index("message_end") < types.index("compaction_end") < types.index("message_update")
    assert "the summary" in model.requests[-1].messages[0].text
    assert spoken(session) == ["one " * 50, "a" * 800, "two", "done"]


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


async def test_condensing_that_nobody_watches_any_more_does_not_block_what_is_said_next(session):
    model = ScriptedModel("a" * 3000, "b" * 3000, "a summary", "done")
    strategy = SummaryCompaction(is_automatic=False, keep_recent_tokens=10)
    agent = agent_in(session, model, strategy=strategy)
    for text in ("one", "two"):
        await told(agent.send(text))
    async for event in agent.compact():
        assert event.type == "compaction_start"
        break
    assert (await told(agent.send("three")))[-1].type == "agent_end"


async def test_the_usage_that_the_provider_counted_decides(session):
    model = ScriptedModel(["short", Finished("stop", Usage(190_000, 10))], "the summary", "done")
    agent = agent_in(session, model, strategy=SummaryCompaction(keep_recent_tokens=1))
    await told(agent.send("one " * 400))
    await told(agent.send("two"))
    assert len(compactions(session)) == 1


# --- what once went wrong -------------------------------------------------------------------------------


async def test_answers_that_break_off_every_time_are_given_up_like_any_other(session):
    """A half answer is no success: the tries are counted. The last one is kept."""
    half: list[Any] = ["half an ans", ModelUnavailable("cut off")]
    model = ScriptedModel(*[half] * 9)
    events = await told(agent_in(session, model).send("hello"))
    assert len(model.requests) == 4
    assert [e.success for e in events if e.type == "auto_retry_end"] == [False]
    assert [m.stop_reason for m in on_disk(session)[1:]] == ["error"]


@pytest.mark.parametrize("quick", [0.0, 10.0])
async def test_a_message_is_kept_once_whenever_its_turn_is_cancelled(session, monkeypatch, quick):
    """Also while the disk is writing it: for every append of a tool turn, by a thread or here."""
    monkeypatch.setattr("perdure.agent.memory._QUICK", quick)
    real = session.append
    for cancelled_at in range(1, 5):
        begun = 0
        turn: list[asyncio.Task[Any]] = []
        loop = asyncio.get_running_loop()

        def append(*bodies, cancelled_at=cancelled_at, turn=turn, loop=loop):
            nonlocal begun
            begun += 1
            if begun == cancelled_at:
                loop.call_soon_threadsafe(turn[0].cancel)
                time.sleep(0.05)
            return real(*bodies)

        monkeypatch.setattr(session, "append", append)
        before = len(on_disk(session))
        calls = [ToolCall(f"a{cancelled_at}", "echo", {}), ToolCall(f"b{cancelled_at}", "echo", {})]
        agent = agent_in(session, ScriptedModel(calls, "done"))
        turn.append(asyncio.create_task(told(agent.send("hello"))))
        await asyncio.wait(turn)
        kept = on_disk(session)[before:]
        results = [m.tool_call_id for m in kept if isinstance(m, ToolResult)]
        assert len(results) == len(set(results))
        if len(kept) > 1 and kept[1].stop_reason == "toolUse":
            assert results == [call.id for call in calls]


async def test_a_turn_that_nobody_watches_any_more_ends_and_the_next_prompt_goes_on(session):
    agent = agent_in(session, ScriptedModel(["half", asyncio.Event()], "fine"))
    async for event in agent.send("hello"):
        if isinstance(event, MessageUpdate) and event.assistant_message_event.type == "text_delta":
            break
    await told(agent.send("again"))
    assert [(m.text, getattr(m, "stop_reason", "")) for m in on_disk(session)] == [
        *(("hello", ""), ("half", "aborted")),
        *(("again", ""), ("fine", "stop")),
    ]


@pytest.mark.parametrize("way", ["waited for", "left"])
async def test_finishing_keeps_what_arrived(session, way):
    """Whether somebody waits for the next event in another task, or went away."""
    agent = agent_in(session, ScriptedModel(["half", asyncio.Event()]))
    seen: list[Any] = []

    async def watch() -> None:
        async for event in agent.send("hello"):
            seen.append(event)
            if way == "left" and isinstance(event, MessageUpdate) and event.extent:
                await asyncio.Event().wait()

    watching = asyncio.create_task(watch())
    await when(lambda: any(isinstance(e, MessageUpdate) and e.extent for e in seen))
    await agent.finish()
    assert not agent.is_busy
    assert on_disk(session)[-1].stop_reason == "aborted"
    watching.cancel()
    await asyncio.wait([watching])


async def test_what_is_sent_beside_the_messages_counts(session):
    """A system prompt that fills the window leaves no room for the longest answer, and is no reason to
    condense again and again."""
    small = structs.replace(SCRIPTED, context_window=16_000, max_tokens=16_000)
    model = ScriptedModel(*["x" * 400] * 12, model=small)
    agent = agent_in(session, model, system="s" * 26_000, strategy=SummaryCompaction())
    events = []
    for _ in range(12):
        events += await told(agent.send("y" * 400))
    assert all(request.max_tokens + 6_500 < 16_000 for request in model.requests)
    assert not any(event.type.startswith("compaction") for event in events)


async def test_settings_that_change_while_something_is_saved_are_recorded(session, monkeypatch):
    real = session.append
    agent = agent_in(session, ScriptedModel("one", "two"))
    monkeypatch.setattr(session, "append", lambda *bodies: (agent.note_change(LEVEL), real(*bodies))[1])
    agent.note_change(ThinkingLevelChange("low"))
    await told(agent.send("hello"))
    monkeypatch.undo()
    await told(agent.send("again"))
    levels = [e.body.thinking_level for e in session.entries if e.type == "thinking_level_change"]
    assert levels[-1] == "high"


LEVEL = ThinkingLevelChange("high")


async def test_nothing_can_be_queued_once_the_last_turn_has_ended(session):
    """Rather than be taken and forgotten."""
    agent = agent_in(session, ScriptedModel("one"))
    async with aclosing(agent.send("hello")) as events:
        async for event in events:
            if event.type == "agent_end":
                with pytest.raises(UsageError):
                    agent.follow_up("too late")


@pytest.mark.parametrize("during", ["auto_retry_start", "compaction_start"])
async def test_an_abort_before_the_answer_is_recorded_too(session, during):
    """Between tries, and while the conversation is condensed."""
    busy = ModelUnavailable("busy", retry_after=50)
    replies = [busy] if during == "auto_retry_start" else ["a" * 3000, asyncio.Event()]
    strategy = SummaryCompaction(threshold=100, keep_recent_tokens=10)
    agent = agent_in(session, ScriptedModel(*replies), strategy=strategy, retry=Retry())
    if during == "compaction_start":
        await told(agent.send("one"))
    seen: list[str] = []
    async with aclosing(agent.send("two")) as events:
        async for event in events:
            seen.append(event.type)
            if event.type == during:
                asyncio.get_running_loop().call_later(0.01, agent.abort)
    assert on_disk(session)[-1].stop_reason == "aborted"
    assert seen[-4:] == ["message_start", "message_end", "turn_end", "agent_end"]


async def test_a_busy_summariser_is_asked_again(session):
    busy = ModelUnavailable("busy")
    model = ScriptedModel("a" * 3000, ContextOverflow("too long"), busy, "the summary", "done")
    agent = agent_in(session, model, strategy=SummaryCompaction(keep_recent_tokens=10))
    await told(agent.send("one"))
    await told(agent.send("two"))
    assert spoken(session)[-1] == "done"
    assert len(compactions(session)) == 1


@pytest.mark.parametrize("result", [5, None, AgentToolResult("x", details=object())])
async def test_pi_14_a_tool_that_returns_nonsense_is_an_error_result(session, result):
    async def nonsense(args: Said, ctx: Any) -> Any:
        return result

    bench = Bench({"nonsense": Tool("nonsense", "", Said, nonsense)}, "/", {})
    model = ScriptedModel(ToolCall("a", "nonsense", {}), "I see")
    agent = Agent(session, Voice(model), bench, system="", strategy=NoCompaction(), retry=QUICK)
    await told(agent.send("go"))
    assert on_disk(session)[-2].is_error
    assert spoken(session)[-1] == "I see"


async def test_pi_14_a_schema_that_is_none_is_an_error_result(session):
    bad = Tool("bad", "", {"type": "nothing that JSON Schema knows"}, echo)
    model = ScriptedModel(ToolCall("a", "bad", {"x": 1}), "I see")
    agent = Agent(
        session, Voice(model), Bench({"bad": bad}, "/", {}), system="", strategy=NoCompaction(), retry=QUICK
    )
    await told(agent.send("go"))
    assert on_disk(session)[-2].is_error


async def test_a_tool_may_be_a_plain_function_that_returns_text(session):
    plain: Any = Tool("plain", "", Said, lambda args, ctx: f"said {args.text}")
    model = ScriptedModel(ToolCall("a", "plain", {"text": "x"}), "I see")
    agent = Agent(
        session,
        Voice(model),
        Bench({"plain": plain}, "/", {}),
        system="",
        strategy=NoCompaction(),
        retry=QUICK,
    )
    await told(agent.send("go"))
    assert spoken(session)[-2:] == ["said x", "I see"]
