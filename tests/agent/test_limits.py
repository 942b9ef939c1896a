"""Where a model is stopped that does not stop by itself, and what is kept then."""

import asyncio
import itertools
import os
from contextlib import aclosing
from typing import Any

import pytest
from msgspec import UNSET, structs

from perdure import AgentSession, NoCompaction, SummaryCompaction
from perdure.agent.draft import Draft
from perdure.agent.events import (
    AutoRetryEnd,
    AutoRetryStart,
    CompactionEnd,
    MessageEnd,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from perdure.agent.limits import AnswerRoom
from perdure.agent.models import Cost, Finished, Piece, Usage
from perdure.agent.settings import Limits, Settings
from perdure.agent.tools import AgentToolResult, Tool
from perdure.errors import ContextOverflow, ModelError, ModelUnavailable, NotSaved, PerdureError, TooLarge
from perdure.session.entry import Assistant, Image, Message, Text, Thinking, ToolCall, ToolResult
from perdure.session.session import Session
from perdure.session.stores.lines import LONGEST
from perdure.testing import ScriptedModel
from perdure.testing.scripted import SCRIPTED
from tests.agent.echo import ECHO, Said

pytestmark = pytest.mark.anyio

DEAR = structs.replace(SCRIPTED, cost=Cost(input=10.0, output=10.0))
A_DOLLAR = Finished("toolUse", Usage(100_000, 0))


@pytest.fixture(autouse=True)
def project(home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def agent_with(tools: Any = (ECHO,), compaction: Any = None, **limits: Any) -> AgentSession:
    settings = {"limits": limits, "retry": {"base_delay_ms": 1}}
    return AgentSession(settings=settings, tools=tools, compaction=compaction or NoCompaction())


async def said(agent: AgentSession, text: str = "hello") -> list[Any]:
    async with aclosing(agent.send_message(text)) as events:
        return [event async for event in events]


def on_disk(agent: AgentSession) -> list[Any]:
    entries = Session.view(agent.session.store, agent.session.ref).path()
    return [entry.body.message for entry in entries if isinstance(entry.body, Message)]


def call(number: int, name: str = "echo") -> ToolCall:
    return ToolCall(f"c{number}", name, {"text": str(number)})


# --- the size of an answer --------------------------------------------------------------------------------


class Endless:
    """A model that goes on for ever, in one way."""

    def __init__(self, *pieces: Piece) -> None:
        self.model, self.given, self.is_closed = SCRIPTED, pieces, False
        self.requests = 0

    async def stream(self, request: Any) -> Any:
        self.requests += 1
        try:
            yield self.given[0]
            for each in itertools.cycle(self.given[1:]):
                yield each
        finally:
            self.is_closed = True


ENDLESS = {
    "text": (Piece(0, "text", "so "), Piece(0, "text", "on, and ")),
    "letters of four bytes": (Piece(0, "text", "\U0001f600"), Piece(0, "text", "\U0001f601")),
    "thinking": (Piece(0, "thinking", "so "), Piece(0, "thinking", "on ")),
    "arguments": (Piece(0, "toolCall", '{"text":', id="c", name="echo"), Piece(0, "toolCall", "on ")),
    "nothing": (Piece(0, "text", "so"), Piece(0, "text")),
    "a signature": (
        Piece(0, "thinking", "so"),
        *(Piece(0, "thinking", signature=each * 99) for each in "ab"),
    ),
    "one and the same signature": (Piece(0, "thinking", "so"), Piece(0, "thinking", signature="a" * 999)),
    "one huge piece": (Piece(0, "text", "so "), Piece(0, "text", "on " * 100_000)),
}


@pytest.mark.parametrize("pieces", ENDLESS.values(), ids=ENDLESS)
async def test_an_endless_answer_is_ended_and_what_arrived_is_kept(pieces):
    """Once, at its limit, in bytes; the stream is closed, and nobody asks again."""
    model = Endless(*pieces)
    async with agent_with(answer_bytes=10_000) as agent:
        await agent.start(model=model)
        events = await said(agent)
        kept = on_disk(agent)[-1]
        assert events[-1].type == "agent_end"
        assert (kept.stop_reason, model.requests, model.is_closed) == ("error", 1, True)
        assert "limits.answerBytes" in kept.error_message
        assert "10,000" in kept.error_message
        whole = "".join(str(structs.asdict(block)) for block in kept.content)
        assert any(each.text.strip() in whole for each in pieces[:1])
        assert len(whole.encode()) < 12_000
        assert not any(isinstance(event, ToolExecutionStart) for event in events)


@pytest.mark.parametrize("kind", ["text", "toolCall"])
async def test_an_answer_of_endless_blocks_is_ended(kind):
    """Each has its price; and of calls there are only so many that would be answered."""

    async def stream(request: Any) -> Any:
        for number in itertools.count():
            yield Piece(number, kind, "{}", id=f"c{number}", name="echo")

    model: Any = ScriptedModel()
    model.stream = stream
    async with agent_with(answer_bytes=100_000, calls_in_one_answer=2) as agent:
        await agent.start(model=model)
        await said(agent)
        kept = on_disk(agent)[-1]
        assert kept.stop_reason == "error"
        assert len(kept.content) == 16 if kind == "toolCall" else 700 < len(kept.content) < 800
        assert ("limits.callsInOneAnswer" in kept.error_message) == (kind == "toolCall")


async def test_an_answer_that_just_fits_is_whole():
    text = "x" * 8000
    async with agent_with(answer_bytes=10_000) as agent:
        await agent.start(model=ScriptedModel([Finished("stop", Usage(1, 1)), text]))
        await said(agent)
        assert (on_disk(agent)[-1].text, on_disk(agent)[-1].stop_reason) == (text, "stop")


async def test_the_largest_answer_can_be_kept_however_it_has_to_be_written():
    """Each of its characters may be an escape of six in the file, and its entry is one line."""
    async with agent_with(answer_bytes=100_000) as agent:
        await agent.start(model=Endless(Piece(0, "text", "so"), Piece(0, "text", "\x01" * 7000)))
        await said(agent)
        assert len(on_disk(agent)[-1].text) > 99_000
        assert os.path.getsize(agent.session.ref.path) < 6 * 100_000 + 4000
    assert Settings.of({"limits": {"answer_bytes": (LONGEST - 2**21) // 6 // 2**20 * 2**20}})
    with pytest.raises(PerdureError):
        Settings.of({"limits": {"answer_bytes": LONGEST // 6}})


async def test_what_no_session_can_hold_is_not_promised_for_later(monkeypatch):
    """Neither by the error nor by what is written next."""
    monkeypatch.setattr("perdure.session.stores.lines.LONGEST", 2**16)
    async with agent_with() as agent:
        await agent.start(model=ScriptedModel("x" * 2**17, "short"))
        with pytest.raises(TooLarge) as raised:
            await said(agent)
        assert isinstance(raised.value, NotSaved)
        assert "memory" not in raised.value.said
        assert not agent.has_unsaved
        await said(agent, "again")
        assert [message.text for message in on_disk(agent)] == ["hello", "again", "short"]


async def test_a_summary_without_end_is_ended_too(tmp_path):
    """The conversation stays as it was, and the reason is told."""
    model = ScriptedModel("x" * 5000, "y" * 5000, "z" * 50_000)
    strategy = SummaryCompaction(is_automatic=False, keep_recent_tokens=10)
    async with agent_with(compaction=strategy, answer_bytes=20_000) as agent:
        await agent.start(model=model)
        await said(agent)
        await said(agent, "more")
        with pytest.raises(ModelError, match=r"limits\.answerBytes"):
            [event async for event in agent.compact()]
        assert [message.text[:1] for message in on_disk(agent)] == ["h", "x", "m", "y"]


def test_what_is_left_of_a_piece_is_whole_characters():
    room = AnswerRoom(Limits(answer_bytes=1024))
    taken = room.take(Piece(0, "text", "é" * 1000))
    assert room.is_full
    assert taken == Piece(0, "text", "é" * ((1024 - 128) // 2))


def test_the_text_of_a_block_is_found_without_looking_at_those_before_it():
    """Else an answer of many blocks would cost the square of their number."""
    draft = Draft(SCRIPTED, 0)
    for number in range(100):
        draft.add(Piece(number, "text", str(number)))
    draft._pieces[:99] = [None] * 99  # type: ignore[list-item]
    assert draft.text_of(99, since=99) == "99"


# --- calls ------------------------------------------------------------------------------------------------


async def test_no_more_calls_run_at_once_than_may():
    """400 of one answer did. All that run are ended when the turn is."""
    running, most = 0, 0

    async def count(args: Said, ctx: Any) -> AgentToolResult:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001 * (int(args.text) % 3))
        running -= 1
        return AgentToolResult(args.text)

    tool = Tool("count", "", Said, count, is_read_only=True)
    async with agent_with([tool], calls_at_once=3) as agent:
        await agent.start(model=ScriptedModel([call(n, "count") for n in range(20)], "done"))
        events = await said(agent)
        begun = [event.tool_call_id for event in events if isinstance(event, ToolExecutionStart)]
        ended = [event.tool_call_id for event in events if isinstance(event, ToolExecutionEnd)]
        assert begun == ended == [f"c{n}" for n in range(20)]
        assert [each.text for each in on_disk(agent)[2:-1]] == [str(n) for n in range(20)]
        assert most == 3


async def test_stopping_ends_those_that_run_and_answers_those_that_wait():
    is_running = asyncio.Event()
    ended = []

    async def hang(args: Said, ctx: Any) -> AgentToolResult:
        is_running.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append(args.text)
        raise AssertionError

    tool = Tool("hang", "", Said, hang, is_read_only=True)
    async with agent_with([tool], calls_at_once=2, calls_in_one_answer=4) as agent:
        await agent.start(model=ScriptedModel([call(n, "hang") for n in range(6)]))
        task = asyncio.create_task(said(agent))
        await is_running.wait()
        agent.abort()
        await task
        assert sorted(ended) == ["0", "1"]
        results = [each for each in on_disk(agent) if isinstance(each, ToolResult)]
        assert [each.tool_call_id for each in results] == [f"c{n}" for n in range(6)]


async def test_calls_beyond_those_an_answer_may_have_are_not_run_and_the_model_is_told():
    """Every call has a result, or no provider would take the conversation."""
    model = ScriptedModel([call(n) for n in range(7)], "done")
    async with agent_with(calls_in_one_answer=5) as agent:
        await agent.start(model=model)
        events = await said(agent)
        begun = [event.tool_call_id for event in events if isinstance(event, ToolExecutionStart)]
        assert begun == ["c0", "c1", "c2", "c3", "c4"]
        sent = [each for each in model.requests[1].messages if isinstance(each, ToolResult)]
        assert [(each.tool_call_id, each.is_error) for each in sent] == [
            *((f"c{n}", False) for n in range(5)),
            ("c5", True),
            ("c6", True),
        ]
        assert "5 calls" in sent[-1].text
        ids = [event.entry_id for event in events if isinstance(event, MessageEnd)]
        assert len(ids) == len({*ids}) == len(on_disk(agent)) == 10


async def test_a_name_that_no_tool_has_is_kept_as_its_beginning():
    """Every face shows it, and some show it again and again."""
    async with agent_with() as agent:
        await agent.start(model=ScriptedModel(ToolCall("c", "x" * 100_000, {}), "done"))
        await said(agent)
        (made,) = on_disk(agent)[1].calls
        assert made.name == on_disk(agent)[2].tool_name == "x" * 256


@pytest.mark.slow
async def test_a_result_that_no_session_can_hold_is_kept_without_what_is_too_much():
    """Of any tool: as many images as there is room for, and no details of many megabytes."""

    async def much(args: Said, ctx: Any) -> AgentToolResult:
        images = [Image("A" * 6 * 2**20, "image/png") for _ in range(20)]
        return AgentToolResult([Text("here"), *images], details={"all": "x" * 2**25})

    async with agent_with([Tool("much", "", Said, much)]) as agent:
        await agent.start(model=ScriptedModel(ToolCall("c", "much", {}), "done"))
        await said(agent)
        result = on_disk(agent)[2]
        assert [type(block) for block in result.content] == [Text, Image, Image, *[Text] * 18]
        assert (result.details, result.is_error) == (UNSET, False)
        assert on_disk(agent)[-1].text == "done"


# --- turns ------------------------------------------------------------------------------------------------


def loops(model: Any = SCRIPTED, end: Finished | None = None) -> ScriptedModel:
    """A model that calls a tool whatever it is told."""
    numbers = itertools.count()

    def reply(request: Any) -> Any:
        return [call(next(numbers)), *([end] if end else [])]

    return ScriptedModel(*[reply] * 1000, model=model)


async def test_a_model_that_loops_is_asked_so_often_and_the_end_is_told():
    """880 requests came in 20 seconds. A new message of the user's starts anew, also after a restart."""
    model = loops()
    async with agent_with(turns=5) as agent:
        id = await agent.start(model=model)
        events = await said(agent)
        assert len(model.requests) == 5
        assert [event.type for event in events[-4:]] == [
            "message_start",
            "message_end",
            "turn_end",
            "agent_end",
        ]
        last = on_disk(agent)[-1]
        assert (last.stop_reason, last.content) == ("error", [])
        assert "limits.turns" in last.error_message
        await said(agent, "go on")
        assert len(model.requests) == 10
    async with agent_with(turns=5) as agent:
        await agent.start(model=(after := ScriptedModel("done")), session_id=id)
        await said(agent, "and now?")
        assert on_disk(agent)[-1].text == "done"
        assert all(not isinstance(each, Assistant) or each.content for each in after.requests[0].messages)


async def test_what_is_tried_again_counts():
    """A server that fails and loops by turns got four requests for each of its answers."""
    busy = ModelUnavailable("busy")
    replies: list[Any] = [busy, busy, call(1)]
    model = ScriptedModel(*replies * 9)
    async with agent_with(turns=5) as agent:
        await agent.start(model=model)
        await said(agent)
        assert len(model.requests) == 5
        assert "limits.turns" in on_disk(agent)[-1].error_message


SUMMARY_REQUESTS: dict[str, list[Any]] = {
    "succeed": ["what was said"],
    "give nothing": [""],
    "find a server that is busy": [ModelUnavailable("busy")],
    "are too long": [ContextOverflow("too long")],
    "are too long at first": [ContextOverflow("too long"), "what was said"],
    "succeed after a while": [ModelUnavailable("busy"), ModelUnavailable("busy"), "what was said"],
    "fail": [ModelError("no")],
}


@pytest.mark.parametrize("turns", [1, 3, 7, 20])
@pytest.mark.parametrize("replies", SUMMARY_REQUESTS.values(), ids=SUMMARY_REQUESTS)
async def test_requests_for_summaries_count_whatever_comes_of_them(replies, turns):
    """One message got 988 requests: only those for answers counted. Of each try the end is told."""
    model, asked = summarised(*replies)
    async with agent_with(compaction=OFTEN, turns=turns) as agent:
        await agent.start(model=model)
        events = await said(agent)
        assert len(model.requests) == turns
        assert asked or turns < 7
        assert "limits.turns" in on_disk(agent)[-1].error_message
        told = [type(event) for event in events if isinstance(event, AutoRetryStart | AutoRetryEnd)]
        assert told[-1:] in ([], [AutoRetryEnd])


async def test_a_limit_that_ends_the_summary_of_what_was_too_long_ends_the_turn():
    """And is named, not the length."""

    def reply(request: Any) -> Any:
        return ContextOverflow("too long") if len(model.requests) > 3 else "x" * 5000

    model = ScriptedModel(*[reply] * 100)
    async with agent_with(compaction=SummaryCompaction(keep_recent_tokens=10), turns=3) as agent:
        await agent.start(model=model)
        for text in ("one", "two", "three", "four"):
            await said(agent, text)
        assert len(model.requests) == 3 + 3
        assert "limits.turns" in on_disk(agent)[-1].error_message


async def test_what_is_said_meanwhile_starts_anew():
    model, is_said = loops(), False
    async with agent_with(turns=5) as agent:
        await agent.start(model=model)
        async with aclosing(agent.send_message("hello")) as events:
            async for _ in events:
                if len(model.requests) == 3 and not is_said:
                    is_said = True
                    agent.steer("look here")
        assert len(model.requests) == 8


async def test_an_agent_that_speaks_first_is_bounded_alike():
    model = loops()
    async with agent_with(turns=4) as agent:
        await agent.start(model=model)
        async with aclosing(agent.speak_first("open it")) as events:
            [event async for event in events]
        assert len(model.requests) == 4


# --- cost -------------------------------------------------------------------------------------------------


async def test_no_model_is_asked_when_the_dollars_are_spent():
    """It is counted since the conversation was opened; the figure is in the error. Nothing of it is lost."""
    model = loops(DEAR, A_DOLLAR)
    async with agent_with(cost=2.5) as agent:
        await agent.start(model=model)
        await said(agent)
        assert len(model.requests) == 3
        assert agent.spent.cost == pytest.approx(3)
        last = on_disk(agent)[-1]
        assert last.stop_reason == "error"
        assert all(part in last.error_message for part in ("$3.0000", "$2.5000", "--max-cost", "limits.cost"))
        await said(agent, "go on")
        assert len(model.requests) == 3
        assert [each.text for each in on_disk(agent)[-2:]] == ["go on", ""]


@pytest.mark.parametrize("most", [2, 3])
async def test_a_summary_costs_too_and_none_is_made_when_nothing_may_be_spent(most):
    strategy = SummaryCompaction(is_automatic=False, keep_recent_tokens=10)
    parts: Any = (["x" * 5000, A_DOLLAR], ["y" * 5000, A_DOLLAR], ["summary", A_DOLLAR])
    model = ScriptedModel(*parts, "never", model=DEAR)
    async with agent_with(compaction=strategy, cost=most) as agent:
        await agent.start(model=model)
        await said(agent)
        await said(agent, "more")
        if most == 2:
            with pytest.raises(ModelError, match=r"limits\.cost"):
                [event async for event in agent.compact()]
        else:
            events = [event async for event in agent.compact()]
            assert isinstance(events[-1], CompactionEnd)
        await said(agent, "again")
        assert len(model.requests) == most


SUMMARIES: dict[str, Any] = {
    "one that is used": "what was said",
    "nothing": "",
    "thinking": Thinking("so"),
    "a call": call(0),
}


def summarised(*summaries: Any) -> tuple[ScriptedModel, list[Any]]:
    """A model that calls a tool whatever it is told, for nothing, until it is asked for a summary: it gives
    these in turn, for a dollar each. And the requests for summaries."""
    numbers, replies, asked = itertools.count(), itertools.cycle(summaries), []

    def reply(request: Any) -> Any:
        if request.tools:
            long = {"text": "so on " * 1000}
            return [ToolCall(f"c{next(numbers)}", "echo", long), Finished("toolUse", Usage())]
        asked.append(request)
        return [next(replies), A_DOLLAR]

    return ScriptedModel(*[reply] * 1000, model=structs.replace(DEAR, context_window=8000)), asked


OFTEN = SummaryCompaction(reserve_tokens=2000, keep_recent_tokens=500, threshold=1500)


async def test_the_cost_is_looked_at_between_the_parts_of_a_summary():
    """A turn that is cut has a summary of its own: it is not asked for when the first one spent all."""
    free = [[part, Finished("stop", Usage())] for part in ("x" * 9000, call(1), "y" * 9000)]
    model = ScriptedModel(*free, ["of the turns before", A_DOLLAR], model=DEAR)
    strategy = SummaryCompaction(is_automatic=False, keep_recent_tokens=10)
    async with agent_with(compaction=strategy, cost=1) as agent:
        await agent.start(model=model)
        await said(agent, "z" * 9000)
        await said(agent, "z" * 9000)
        with pytest.raises(ModelError, match=r"limits\.cost"):
            [event async for event in agent.compact()]
        assert len(model.requests) == 4


@pytest.mark.parametrize("summary", SUMMARIES.values(), ids=SUMMARIES)
async def test_every_summary_is_paid_whatever_becomes_of_it(summary):
    """A model whose summaries were empty was asked for 200 of them, and no limit on the cost acted."""
    model, asked = summarised(summary)
    async with agent_with(compaction=OFTEN, cost=3) as agent:
        await agent.start(model=model)
        await said(agent)
        assert len(asked) == 3
        assert agent.spent.cost == pytest.approx(3)
        assert "limits.cost" in on_disk(agent)[-1].error_message


async def test_a_price_that_nobody_knows_is_told_once_and_is_no_reason_not_to_talk():
    async with agent_with(cost=1.0) as agent:
        await agent.start(model=ScriptedModel("one", "two"))
        agent.set_model(ScriptedModel("two"))
        await said(agent)
        (notice,) = [each for each in agent.notices if "price" in each]
        assert "scripted/scripted" in notice
    async with agent_with() as agent:
        await agent.start(model=ScriptedModel("one"))
        assert not agent.notices


# --- errors -----------------------------------------------------------------------------------------------


async def test_an_error_of_any_size_is_kept_as_a_screen_of_it():
    async with agent_with() as agent:
        await agent.start(model=ScriptedModel(ModelError("it failed " * 2_000_000)))
        events = await said(agent)
        assert 1000 < len(on_disk(agent)[-1].error_message) < 2100
        assert len(events[-1].messages[-1].error_message) < 2100
