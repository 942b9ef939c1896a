"""In which order the calls of one answer run: as if one after the other, and reading ones at once."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct, structs

from perdure import registry
from perdure.agent.draft import Draft
from perdure.agent.events import ToolExecutionStart
from perdure.agent.extensions import Api
from perdure.agent.hooks import Hook, Hooks
from perdure.agent.loop import Bench, turn
from perdure.agent.models import Request
from perdure.agent.session import AgentSession
from perdure.agent.switch import Switch
from perdure.agent.tools import BUILT_IN, Tool
from perdure.session.entry import ToolCall, ToolResult, User
from perdure.testing import ScriptedModel


class Steps(Struct):
    steps: int = 0


def ordered(kinds: list[tuple[str, int]], *, has_hook: bool) -> list[tuple[str, int]]:
    """What happened to each call, by its number: told, begun, ended, kept. A kind is how a call is made:
    `read`, `write`, or `turned`, which is to read, and which a hook has write."""
    log: list[tuple[str, int]] = []

    async def run(args: Steps, ctx: Any) -> str:
        number = int(ctx.call_id)
        log.append(("begun", number))
        for _ in range(args.steps):
            await asyncio.sleep(0)
        log.append(("ended", number))
        return "done"

    async def before(call: ToolCall) -> ToolCall | None:
        await asyncio.sleep(0)
        return structs.replace(call, name="write") if kinds[int(call.id)][0] == "turned" else None

    async def keep(message: Any) -> str:
        await asyncio.sleep(0)
        if isinstance(message, ToolResult):
            log.append(("kept", int(message.tool_call_id)))
        return "e"

    hooks = Hooks()
    if has_hook:
        hooks.before.append(Hook(before, "test", str))
    tools = {"read": Tool("read", "", Steps, run, is_read_only=True), "write": Tool("write", "", Steps, run)}
    names = {"read": "read", "write": "write", "turned": "read"}
    calls = [
        ToolCall(str(number), names[kind], {"steps": steps}) for number, (kind, steps) in enumerate(kinds)
    ]

    async def live() -> None:
        model = ScriptedModel(calls)
        draft = Draft(model.model, 0)
        request = Request(messages=[User("go")])
        async for event in turn(model, request, Bench(tools, "/", {}, hooks), keep, Switch(), draft):
            if isinstance(event, ToolExecutionStart):
                log.append(("told", int(event.tool_call_id)))

    asyncio.run(live())
    return log


made = st.lists(
    st.tuples(st.sampled_from(["read", "write", "turned"]), st.integers(0, 4)), min_size=1, max_size=7
)


@given(made, st.booleans())
def test_a_call_that_may_write_overlaps_nothing_and_comes_after_all_before_it(kinds, has_hook):
    """Whatever is called, however long it takes, and also where a hook made it one that writes. That it is
    started is told before, and results are kept in the order of the calls."""
    log = ordered(kinds, has_hook=has_hook)
    at = {entry: position for position, entry in enumerate(log)}
    assert len(at) == len(log) == 4 * len(kinds)
    for number, (kind, _) in enumerate(kinds):
        assert at["told", number] < at["begun", number] < at["ended", number] < at["kept", number]
        is_writing = kind == "write" or (kind == "turned" and has_hook)
        for earlier in range(number):
            assert at["kept", earlier] < at["kept", number]
            if is_writing or kinds[earlier][0] == "write" or (kinds[earlier][0] == "turned" and has_hook):
                assert at["kept", earlier] < at["begun", number]


@given(st.integers(2, 6), st.booleans())
def test_calls_that_follow_one_another_and_read_run_at_once(count, has_hook):
    """Each begins before the first one has ended, which takes its time."""
    log = ordered([("write", 1), ("read", 40), *[("read", 0)] * (count - 1), ("write", 0)], has_hook=has_hook)
    ended = log.index(("ended", 1))
    assert all(log.index(("begun", number)) < ended for number in range(1, count + 1))


def test_the_built_in_tools_that_only_read_say_so():
    tools = [registry.load(each) for each in BUILT_IN.values()]
    assert [tool.name for tool in tools if tool.is_read_only] == ["read", "grep", "find", "ls"]


def test_an_extension_says_in_plain_words_whether_its_tool_only_reads():
    """Whatever else it says there is a mistake, and no yes."""
    api = Api("mine", str)
    tool = Tool("look", "", Steps, lambda args, ctx: "")
    api.tool(structs.replace(tool, is_read_only=True))
    with pytest.raises(TypeError, match="is_read_only of other is 'no'"):
        api.tool(Tool("other", "", Steps, lambda args, ctx: "", is_read_only="no"))  # type: ignore[arg-type]


@pytest.mark.anyio
@pytest.mark.process
async def test_pi_07_pi_09_a_command_runs_what_the_call_before_it_wrote(home, tmp_path):
    """And what reads behind it sees what it did, in one answer."""
    calls = [
        ToolCall("1", "write", {"path": "run.sh", "content": "cat run.sh > copy; echo ran\n"}),
        ToolCall("2", "bash", {"command": "sh run.sh"}),
        ToolCall("3", "read", {"path": "copy"}),
        ToolCall("4", "edit", {"path": "copy", "oldText": "ran", "newText": "changed"}),
        ToolCall("5", "grep", {"pattern": "echo"}),
    ]
    model = ScriptedModel(calls, "done")
    async with AgentSession(cwd=tmp_path, extensions=[]) as agent:
        await agent.start(model=model)
        async for _ in agent.send_message("go"):
            pass
    texts = [message.text for message in model.requests[1].messages if isinstance(message, ToolResult)]
    assert "ran" in texts[1]
    assert "echo ran" in texts[2]
    assert "copy:1: cat run.sh > copy; echo changed" in texts[4]
