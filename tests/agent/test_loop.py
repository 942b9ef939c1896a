"""One turn: what is told in which order, what is kept before that, and what every early end leaves."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from msgspec import structs

from perdure.agent.draft import Draft
from perdure.agent.events import MessageEnd, MessageUpdate, ToolExecutionEnd, TurnEnd, to_json
from perdure.agent.loop import Bench, turn
from perdure.agent.models import UNPARSED, Cost, Finished, Request, Usage
from perdure.agent.switch import Stopped, Switch
from perdure.agent.tools import AgentToolResult, Tool
from perdure.errors import ModelError, ModelUnavailable, NotSaved
from perdure.session.context import INTERRUPTED
from perdure.session.entry import Assistant, Text, Thinking, ToolCall, ToolResult, User, text_of
from perdure.session.record import loads
from perdure.testing import ScriptedModel
from tests.agent.echo import ECHO, Said

pytestmark = pytest.mark.anyio


class Watched:
    """A turn that is watched, and what was kept when."""

    def __init__(self, *replies: Any, tools: Any = (ECHO,)) -> None:
        self.model = ScriptedModel(*replies)
        self.kept: list[Any] = []
        self.told: list[Any] = []
        self.switch = Switch()
        self.bench = Bench({tool.name: tool for tool in tools}, "/", {})

    async def keep(self, message: Any) -> str:
        await asyncio.sleep(0)  # as a disk would take its time
        self.kept.append(message)
        return f"e{len(self.kept)}"

    def events(self) -> Any:
        request = Request(messages=[User("hello")], tools=[t.spec for t in self.bench.tools.values()])
        self.draft = Draft(self.model.model, 0)
        return turn(self.model, request, self.bench, self.keep, self.switch, self.draft)

    async def run(self) -> list[Any]:
        async with aclosing(self.events()) as events:
            async for event in events:
                self.told.append(event)
        return self.told

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.told]


def call(id: str, name: str = "echo", **arguments: Any) -> ToolCall:
    return ToolCall(id, name, arguments)


async def test_an_answer_is_told_from_its_first_word_to_its_end():
    watched = Watched([Thinking("hmm"), "hello"])
    await watched.run()
    inner = [e.assistant_message_event.type for e in watched.told if isinstance(e, MessageUpdate)]
    assert watched.types[0] == "message_start"
    assert watched.types[-2:] == ["message_end", "turn_end"]
    assert inner == [
        *("start", "thinking_start", "thinking_delta", "thinking_end"),
        *("text_start", "text_delta", "text_end", "done"),
    ]
    assert watched.told[-3].assistant_message_event.message == watched.kept[0]


async def test_what_any_tool_gives_is_bounded():
    """A tool of one's own too; also what it raises."""

    async def much(args: Said, ctx: Any) -> AgentToolResult:
        if args.text == "fail":
            raise ValueError("x" * 1_000_000)
        return AgentToolResult("line\n" * 1_000_000)

    watched = Watched(
        [call("a", "much"), call("b", "much", text="fail")], tools=[Tool("much", "", Said, much)]
    )
    await watched.run()
    assert all(len(result.text) < 60_000 for result in watched.kept[1:])
    assert "1,000,000 lines" in watched.kept[1].text
    ends = [event.result for event in watched.told if isinstance(event, ToolExecutionEnd)]
    assert [end.text for end in ends] == [result.text for result in watched.kept[1:]]


async def test_pieces_of_a_block_are_joined_and_every_update_knows_the_message_so_far():
    """An update is a value: it still tells what had arrived then, when more has."""
    text = "a longer answer, in several pieces"
    watched = Watched(text)
    await watched.run()
    updates = [e for e in watched.told if isinstance(e, MessageUpdate)]
    deltas = [e for e in updates if e.assistant_message_event.type == "text_delta"]
    assert len(deltas) > 3
    assert "".join(str(e.assistant_message_event.delta) for e in deltas) == text
    seen = [text_of(e.message.content) for e in deltas]
    assert seen == sorted(seen, key=len)
    assert seen[-1] == text == text_of(watched.kept[0].content)


async def test_calls_are_answered_in_their_order_though_the_second_ends_first():
    """They only read, and run at once: each waits for the other to have begun."""
    began = [asyncio.Event(), asyncio.Event()]
    first_may_end = asyncio.Event()

    async def first(args: Said, ctx: Any) -> AgentToolResult:
        began[0].set()
        await began[1].wait()
        await first_may_end.wait()
        return AgentToolResult("first")

    async def second(args: Said, ctx: Any) -> AgentToolResult:
        began[1].set()
        await began[0].wait()
        first_may_end.set()
        return AgentToolResult("second")

    tools = [
        Tool("one", "", Said, first, is_read_only=True),
        Tool("two", "", Said, second, is_read_only=True),
    ]
    watched = Watched([call("a", "one"), call("b", "two")], tools=tools)
    await watched.run()
    results = [m for m in watched.kept if isinstance(m, ToolResult)]
    assert [(r.tool_call_id, text_of(r.content)) for r in results] == [("a", "first"), ("b", "second")]
    assert watched.told[-1] == TurnEnd(watched.kept[0], results)
    tail = watched.types[watched.types.index("tool_execution_start") :]
    each = ["tool_execution_end", "message_start", "message_end"]
    assert tail == ["tool_execution_start"] * 2 + each * 2 + ["turn_end"]


async def test_nothing_is_told_as_done_before_it_is_kept():
    """Streaming is the one exception: it tells of what is under way."""
    watched = Watched(["let me see", call("a", text="x"), call("b", text="y")])
    async with aclosing(watched.events()) as events:
        async for event in events:
            match event:
                case MessageEnd(message=message, entry_id=id):
                    assert watched.kept[int(id[1:]) - 1] is message
                case ToolExecutionEnd(tool_call_id=id):
                    assert any(isinstance(m, ToolResult) and m.tool_call_id == id for m in watched.kept)
    assert len(watched.kept) == 3


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (call("a", "nothing"), "There is no tool 'nothing'. The tools are: echo, raises."),
        (call("a", "echo", text=[1]), "Bad arguments for echo"),
        (ToolCall("a", "echo", '{"text": "cut o'), "Bad arguments for echo: the arguments are not a JSON"),
        (call("a", "raises"), "raises failed: ValueError: broken"),
    ],
)
async def test_pi_14_a_call_that_cannot_run_is_a_result_that_says_why(made, says):
    """The model reads it and can do better; nothing crashes."""

    async def raises(args: Said, ctx: Any) -> AgentToolResult:
        raise ValueError("broken")

    watched = Watched(made, tools=[ECHO, Tool("raises", "", Said, raises)])
    await watched.run()
    result = watched.kept[1]
    assert result.is_error
    assert text_of(result.content).startswith(says)


async def test_arguments_that_are_no_json_are_kept_as_they_came():
    watched = Watched(ToolCall("a", "echo", '{"text": "cut o'))
    await watched.run()
    assert watched.kept[0].calls[0].arguments == {UNPARSED: '{"text": "cut o'}


async def test_a_tool_tells_how_far_it_is():
    async def slow(args: Said, ctx: Any) -> AgentToolResult:
        ctx.update(AgentToolResult("half"))
        await asyncio.sleep(0.01)
        return AgentToolResult("all")

    watched = Watched(call("a", "slow"), tools=[Tool("slow", "", Said, slow)])
    await watched.run()
    (update,) = [e for e in watched.told if e.type == "tool_execution_update"]
    assert update.partial_result.text == "half"


async def test_usage_and_its_cost_are_part_of_the_answer():
    watched = Watched(["yes", Finished("stop", Usage(1_000_000, 2, 3, 4))])
    cost = Cost(input=2.5, output=1_000_000)
    watched.model.model = structs.replace(watched.model.model, cost=cost)
    await watched.run()
    usage = watched.kept[0].usage
    assert (usage["input"], usage["output"], usage["cacheRead"], usage["cacheWrite"]) == (1_000_000, 2, 3, 4)
    assert usage["totalTokens"] == 1_000_009
    assert (usage["cost"]["input"], usage["cost"]["output"], usage["cost"]["total"]) == (2.5, 2, 4.5)


# --- ends that come early -----------------------------------------------------------------------------------


async def test_a_failing_model_leaves_what_it_said_to_whoever_asked():
    """It is told that the attempt broke off, and nothing is kept: the model may be asked again."""
    watched = Watched(["half an ans", ModelUnavailable("gone")])
    with pytest.raises(ModelUnavailable):
        await watched.run()
    assert watched.kept == []
    assert watched.told[-1].assistant_message_event.type == "error"
    part = watched.draft.broken_off("error", "gone")
    assert (text_of(part.content), part.stop_reason, part.error_message) == ("half an ans", "error", "gone")


async def test_a_model_that_fails_before_its_first_word_leaves_nothing():
    watched = Watched(ModelError("no such model"))
    with pytest.raises(ModelError):
        await watched.run()
    assert (watched.kept, watched.told) == ([], [])


async def test_g_6_a_stopped_answer_is_kept_as_far_as_it_came():
    never = asyncio.Event()
    watched = Watched(["half an ans", never])

    async def stop() -> None:
        while not any(isinstance(e, MessageUpdate) for e in watched.told):
            await asyncio.sleep(0)
        watched.switch.stop()

    stopping = asyncio.create_task(stop())
    with pytest.raises(Stopped):
        await watched.run()
    await stopping
    (part,) = watched.kept
    assert (text_of(part.content), part.stop_reason) == ("half an ans", "aborted")
    assert watched.types[-1] == "message_end"


async def test_g_6_stopping_ends_the_tools_and_keeps_what_they_gave():
    """One had ended, one had printed something, one nothing."""
    ended = []

    async def quick(args: Said, ctx: Any) -> AgentToolResult:
        return AgentToolResult("done")

    async def slow(args: Said, ctx: Any) -> AgentToolResult:
        if args.text:
            ctx.update(AgentToolResult(args.text))
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(ctx.call_id)
        raise AssertionError

    tools = [
        Tool("quick", "", Said, quick, is_read_only=True),
        Tool("slow", "", Said, slow, is_read_only=True),
    ]
    calls = [call("a", "slow", text="so far"), call("b", "quick"), call("c", "slow")]
    watched = Watched(calls, tools=tools)

    async def stop() -> None:
        while "tool_execution_update" not in watched.types:
            await asyncio.sleep(0)
        watched.switch.stop()

    stopping = asyncio.create_task(stop())
    with pytest.raises(Stopped):
        await watched.run()
    await stopping
    assert sorted(ended) == ["a", "c"]
    results = {m.tool_call_id: (text_of(m.content), m.is_error) for m in watched.kept[1:]}
    assert results == {
        "a": (f"so far\n\n{INTERRUPTED}", True),
        "b": ("done", False),
        "c": (INTERRUPTED, True),
    }


async def test_g_6_a_call_that_waited_for_its_turn_is_not_run_and_told_as_such():
    """It has a result, as every call has, and neither began nor ended."""
    ran = []

    async def write(args: Said, ctx: Any) -> AgentToolResult:
        ran.append(ctx.call_id)
        watched.switch.stop()
        await asyncio.Event().wait()
        raise AssertionError

    watched = Watched([call("a", "write"), call("b")], tools=[Tool("write", "", Said, write), ECHO])
    with pytest.raises(Stopped):
        await watched.run()
    assert ran == ["a"]
    results = {m.tool_call_id: (text_of(m.content), m.is_error) for m in watched.kept[1:]}
    assert results == {"a": (INTERRUPTED, True), "b": ("Interrupted: this tool call was not run.", True)}
    told = [(e.type, e.tool_call_id) for e in watched.told if e.type.startswith("tool_")]
    assert told == [("tool_execution_start", "a"), ("tool_execution_end", "a")]
    assert watched.told[-1] == MessageEnd(watched.kept[-1], "e3")


async def test_a_call_behind_one_whose_result_is_refused_is_not_run():
    """What is done must be on disk before the next thing is done."""
    ran = []

    async def write(args: Said, ctx: Any) -> str:
        ran.append(ctx.call_id)
        return "done"

    watched = Watched([call("a", "write"), call("b", "write")], tools=[Tool("write", "", Said, write)])
    keep = watched.keep

    async def refuse(message: Any) -> str:
        if isinstance(message, ToolResult) and message.tool_call_id == "a":
            raise NotSaved("a file", OSError("full"))
        return await keep(message)

    watched.keep = refuse  # type: ignore[method-assign]
    with pytest.raises(NotSaved):
        await watched.run()
    assert ran == ["a"]
    assert text_of(watched.kept[-1].content) == "Interrupted: this tool call was not run."


REPLY = [Thinking("hmm"), "let me see", ToolCall("a", "echo", {"text": "x"}), ToolCall("b", "echo", {})]


WRITING = structs.replace(ECHO, is_read_only=False)


@pytest.mark.parametrize("tool", [ECHO, WRITING], ids=["reads", "writes"])
@pytest.mark.parametrize("way", ["close", "cancel"])
async def test_closing_or_cancelling_after_any_event_keeps_a_whole_turn(way, tool):
    """Every call has one result, once the answer is there; no task is left; nothing is kept twice."""
    before = asyncio.all_tasks()
    for count in range(len(await Watched(REPLY, tools=[tool]).run())):
        watched = Watched(REPLY, tools=[tool])

        async def watch(watched: Watched = watched, count: int = count) -> None:
            async with aclosing(watched.events()) as events:
                async for event in events:
                    watched.told.append(event)
                    if len(watched.told) > count:
                        if way == "close":
                            return
                        await asyncio.Event().wait()

        task = asyncio.create_task(watch())
        while not task.done() and len(watched.told) <= count:
            await asyncio.sleep(0)
        if way == "cancel":
            task.cancel()
        await asyncio.wait([task])
        answer, *results = watched.kept
        assert isinstance(answer, Assistant)
        is_whole = answer.stop_reason == "toolUse"
        assert answer.stop_reason in ("toolUse", "aborted")
        assert [r.tool_call_id for r in results] == (["a", "b"] if is_whole else [])
        assert asyncio.all_tasks() == before


async def test_a_turn_that_is_cancelled_while_it_keeps_is_kept_once():
    """The disk is not asked twice, and not left half way."""
    watched = Watched("hello")
    began = asyncio.Event()

    async def keep(message: Any) -> str:
        began.set()
        await asyncio.sleep(0.01)
        watched.kept.append(message)
        return "e"

    watched.keep = keep  # type: ignore[method-assign]
    task = asyncio.create_task(watched.run())
    await began.wait()
    task.cancel()
    await asyncio.wait([task])
    assert len(watched.kept) <= 1


# --- as JSON ------------------------------------------------------------------------------------------------


async def test_every_event_is_one_line_of_json_with_pis_names():
    watched = Watched([Text("see"), call("a", text="x\u2028y\n")])
    await watched.run()
    lines = [to_json(event) for event in watched.told]
    records = [loads(line) for line in lines]
    assert all(b"\n" not in line for line in lines)
    assert [record["type"] for record in records] == watched.types
    update = next(
        r for r in records if r["type"] == "message_update" and "delta" in r["assistantMessageEvent"]
    )
    assert update["assistantMessageEvent"].keys() == {"type", "contentIndex", "delta"}
    end = next(r for r in records if r["type"] == "tool_execution_end")
    assert end["toolCallId"] == "a"
    assert end["result"]["content"] == [{"type": "text", "text": "said x\u2028y\n"}]
    assert records[-1]["toolResults"][0]["role"] == "toolResult"
