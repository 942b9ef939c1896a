"""All that an agent works with, from its start to its end: MCP servers among the rest."""

import asyncio
import os
from typing import Any

import pytest

from perdure import AgentSession, AgentToolResult, PerdureError, SessionManager, Tool
from perdure.agent.tools import BUILT_IN
from perdure.session.entry import ToolCall
from perdure.testing import ScriptedModel
from tests.agent.mcp_servers import raw

pytestmark = [pytest.mark.process, pytest.mark.anyio]

SERVERS = {"mcp_servers": {"one": raw("server"), "two": raw("server")}}


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def results(events) -> list[AgentToolResult]:
    return [event.result for event in events if event.type == "tool_execution_end"]


async def test_cor_02_the_tools_of_an_agent_are_those_of_mcp_servers_too():
    """Also its prompt, which the configuration has a hash of."""
    async with AgentSession(settings=SERVERS) as agent:
        await agent.start(model=ScriptedModel())
        assert (agent.servers, agent.waiting_for) == (["one", "two"], [])  # nobody needs them yet
        ready = asyncio.create_task(agent.ready())
        await asyncio.sleep(0)
        assert agent.waiting_for == ["one", "two"]
        await ready
        assert (agent.servers, agent.waiting_for) == ([], [])
        assert agent.tools[: len(BUILT_IN)] == [*BUILT_IN]
        assert {"one_echo", "two_echo"} <= {*agent.tools}
        assert "- one_echo: " in agent.agent.system


async def test_the_prompt_is_saved_and_then_the_first_request_waits_for_the_servers():
    model = ScriptedModel(ToolCall("a", "one_echo", {"text": "hello"}), "done")
    async with AgentSession(settings=SERVERS) as agent:
        await agent.start(model=model)
        events, waiting = [], []
        async for event in agent.send_message("go"):
            events.append(event)
            if event.type == "message_end":
                waiting.append((agent.session.head is not None, agent.waiting_for))
    assert waiting[0] == (True, ["one", "two"])
    assert waiting[1] == (True, [])
    assert "hello" in results(events)[0].text
    assert {"one_echo", "two_echo"} <= {tool.name for tool in model.requests[0].tools}
    assert len(model.requests[0].tools) == len(model.requests[1].tools)


async def test_a_server_that_fails_is_one_notice_and_the_conversation_goes_on():
    servers = {"bad": raw("exits", "1", "complaint"), "good": raw("server")}
    model = ScriptedModel("done")
    async with AgentSession(settings={"mcp_servers": servers}) as agent:
        await agent.start(model=model)
        events = [event async for event in agent.send_message("go")]
        (notice,) = agent.notices
    assert notice.startswith("MCP server bad")
    assert events[-1].type == "agent_end"
    assert "good_echo" in {tool.name for tool in model.requests[0].tools}


async def test_stopping_does_not_wait_for_a_server_and_keeps_the_prompt():
    async with AgentSession(settings={"mcp_servers": {"slow": raw("silent")}}) as agent:
        id = await agent.start(model=ScriptedModel("never"))
        events: list[Any] = []
        async with asyncio.timeout(20):  # it may take 30 to start
            async for event in agent.send_message("go"):
                events.append(event)
                if event.type == "message_end" and len(events) < 5:
                    asyncio.get_running_loop().call_later(0.05, agent.abort)
        assert events[-1].type == "agent_end"
        assert events[-1].messages[-1].stop_reason == "aborted"
    assert next(entry.text for entry in SessionManager().load_session(id)) == "go"


async def test_waiting_for_tools_and_a_turn_do_not_get_in_each_others_way():
    """`ready()` after a turn was stopped, and beside one that is."""
    async with AgentSession(settings={"mcp_servers": {"slow": raw("silent", startupTimeoutSec=1)}}) as agent:
        await agent.start(model=ScriptedModel("one", "two"))
        waiting = asyncio.create_task(agent.ready())
        events: list[Any] = []
        async for event in agent.send_message("go"):
            events.append(event)
            if event.type == "message_end" and len(events) < 5:
                asyncio.get_running_loop().call_later(0.05, agent.abort)
        assert events[-1].messages[-1].stop_reason == "aborted"
        await agent.ready()
        await waiting
        assert len(agent.notices) == 1
        assert [event async for event in agent.send_message("again")][-1].messages[-1].text == "one"  # type: ignore[union-attr]


async def test_only_the_servers_of_tools_that_are_named_are_started(tmp_path):
    """And none at all without tools."""
    started = tmp_path / "started"
    touch = {"command": "/bin/sh", "args": ["-c", f"touch '{started}'; exit 1"]}
    servers = {"mcp_servers": {"one": raw("server"), "other": touch}}
    model = ScriptedModel("done")
    async with AgentSession(settings=servers, tools=["ls", "one_echo", "one_none"]) as agent:
        await agent.start(model=model)
        assert [event async for event in agent.send_message("go")]
        (notice,) = agent.notices
    assert notice.startswith("There is no tool 'one_none'")
    assert [tool.name for tool in model.requests[0].tools] == ["ls", "one_echo"]
    async with AgentSession(settings=servers, tools=[]) as agent:
        await agent.start(model=ScriptedModel("done"))
        assert [event async for event in agent.send_message("go")]
        assert agent.tools == []
    assert not started.exists()
    with pytest.raises(PerdureError, match="There is no tool 'third_echo'"):
        AgentSession(settings=servers, tools=["third_echo"])


async def test_what_a_servers_tool_gives_is_bounded_like_any_other():
    model = ScriptedModel(ToolCall("a", "one_echo", {"text": "x" * 300_000}), "done")
    async with AgentSession(settings=SERVERS) as agent:
        await agent.start(model=model)
        events = [event async for event in agent.send_message("go")]
    (result,) = results(events)
    assert 10_000 < len(result.text) < 60_000
    assert len(model.requests[1].messages[-1].text) == len(result.text)


async def test_a_servers_tool_takes_nobodys_place():
    own = Tool("one_echo", "Mine.", {"type": "object"}, lambda args, ctx: "mine")
    model = ScriptedModel(ToolCall("a", "one_echo", {}), "done")
    async with AgentSession(settings=SERVERS, extensions=[lambda api: api.tool(own)]) as agent:
        await agent.start(model=model)
        events = [event async for event in agent.send_message("go")]
        assert [notice for notice in agent.notices if "one_echo" in notice]
    assert results(events)[0].text == "mine"


async def test_hooks_stand_before_the_tools_of_servers_too():
    def register(api):
        api.before_tool(lambda call: "refused" if call.name.startswith("one_") else call)

    model = ScriptedModel(
        [ToolCall("a", "one_echo", {"text": "x"}), ToolCall("b", "two_echo", {"text": "y"})], "done"
    )
    async with AgentSession(settings=SERVERS, extensions=[register]) as agent:
        await agent.start(model=model)
        events = [event async for event in agent.send_message("go")]
    one, two = results(events)
    assert one.text == "refused"
    assert "y" in two.text


async def test_g_10_a_trusted_project_is_read_and_an_untrusted_one_is_noticed(project):
    (project / ".pi" / "prompts").mkdir(parents=True)
    (project / ".pi" / "prompts" / "own.md").write_text("its own")
    agent = AgentSession()
    assert "own" not in agent.commands
    (notice,) = agent.notices
    assert ".pi" in notice
    assert "pi trust" in notice
    assert "own" in AgentSession(trusted=True).commands
    refused = AgentSession(trusted=False)
    assert ("own" in refused.commands, refused.notices) == (False, [])


async def test_skills_that_settings_name_and_that_are_not_there_are_noticed(home):
    agent = AgentSession(settings={"skills": ["~/none"]})
    assert agent.notices == ["~/none, named for skills in the settings, is not there"]


async def test_pi_16_a_key_is_a_command_that_is_run_when_the_model_is_first_needed(project):
    """Not to list it, and only once."""
    ran = project / "ran"
    own = {
        "id": "local",
        "provider": "mine",
        "base_url": "http://127.0.0.1:9/v1",
        "api_key": f"!echo x >> '{ran}'; echo key",
    }
    async with AgentSession(settings={"models": [own]}) as agent:
        assert not ran.exists()
        await agent.start(model="local")
        agent.set_model("mine/local")
    assert ran.read_text() == "x\n"
    broken = own | {"api_key": "!echo >&2 locked; exit 3"}
    async with AgentSession(settings={"models": [broken]}) as agent:
        with pytest.raises(PerdureError, match="locked"):
            await agent.start(model="local")
    assert os.listdir(project) == ["ran"]
    assert SessionManager().list_sessions() == []


async def test_pi_16_a_key_command_that_nobody_waits_for_any_more_is_ended(project):
    begun = project / "begun"
    own = {
        "id": "slow",
        "base_url": "http://127.0.0.1:9/v1",
        "api_key": f"!touch '{begun}'; sleep 25; echo key",
    }
    async with AgentSession(settings={"models": [own]}) as agent:
        starting = asyncio.create_task(agent.start(model="slow"))
        async with asyncio.timeout(20):
            while not begun.exists():
                await asyncio.sleep(0.01)
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
