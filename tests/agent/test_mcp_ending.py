"""The end of MCP servers: their own, or ours. Nothing of them is left, and nothing of it is printed."""

import asyncio
import gc
import json
import logging
import subprocess
import sys
import textwrap
import threading
from operator import attrgetter
from pathlib import Path
from uuid import uuid4

import pytest

from perdure.agent.mcp import program
from perdure.agent.session import AgentSession
from perdure.testing import ScriptedModel
from tests.agent.mcp_running import HANGS, Running, hurry, processes, running, until, until_none_is_left
from tests.agent.mcp_servers import raw

pytestmark = [pytest.mark.process, pytest.mark.anyio]

ROOT = Path(__file__).parents[2]


@pytest.fixture
def impatient(monkeypatch):
    hurry(monkeypatch)


async def test_a_server_that_dies_is_one_notice_and_its_tools_say_so(tmp_path):
    """It is not started again, and the other one goes on."""
    mark = uuid4().hex
    async with running(tmp_path, a=raw("server", mark), b=raw("server")) as found:
        waiting = asyncio.ensure_future(found.call("a_wait"))
        await asyncio.sleep(0)  # it is called first
        died = await found.call("a_die")
        assert (died.is_error, died.text) == (True, "MCP server a ended before die gave an answer")
        assert (await waiting).text == "MCP server a ended before wait gave an answer"
        await until_none_is_left(mark)
        await until(lambda: found.notices)
        for _ in range(2):
            again = await found.call("a_echo")
            assert (again.is_error, again.text) == (True, "MCP server a has ended: exit code 7: boom")
        assert found.notices == ["MCP server a has ended: exit code 7: boom"]
        assert found.state("a").state == "failed"
        assert not (await found.call("b_echo")).is_error
        assert processes(mark) == []


async def test_a_server_whose_child_holds_its_pipes_has_ended_all_the_same(tmp_path, impatient):
    mark = uuid4().hex
    async with running(tmp_path, a=raw("leaving", mark)) as found:
        died = await asyncio.wait_for(found.call("a_die"), HANGS)
        assert died.text == "MCP server a ended before die gave an answer"
        await until_none_is_left(mark)


async def test_complaints_without_end_block_nothing(tmp_path):
    """They are read, and all but the last of them forgotten."""
    mark = uuid4().hex
    async with running(tmp_path, a=raw("noisy", mark)) as found:
        (server,) = found.servers._servers
        assert server._program is not None
        tail = attrgetter("_program._tail")
        await until(lambda: len(tail(server)) == 8192)
        for number in range(20):
            assert (await found.call("a_echo", x=number)).text == json.dumps({"x": number})
        assert len(tail(server)) == 8192
    await until_none_is_left(mark)


async def test_ending_takes_with_it_all_that_was_started(tmp_path, impatient):
    """Also those that do not want to; side by side, and as often as one likes."""
    mark = uuid4().hex
    kinds = {
        f"{kind}{number}": raw(kind, mark)
        for kind in ("stubborn", "leaving", "server")
        for number in range(2)
    }
    found = Running(kinds, str(tmp_path))
    await found.start()
    assert len(processes(mark)) == 10
    async with asyncio.timeout(HANGS):
        await asyncio.gather(found.servers.close(), found.servers.close())
    await found.servers.close()
    await until_none_is_left(mark)
    assert (await found.call("server0_echo")).is_error
    assert found.notices == []


async def test_even_a_server_that_resists_is_ended_within_seconds():
    assert sum(seconds for _, seconds in program._PATIENCE) <= 3


async def test_ending_goes_on_when_whoever_waits_for_it_is_cancelled(tmp_path, impatient):
    mark = uuid4().hex
    found = Running({"a": raw("stubborn", mark)}, str(tmp_path))
    await found.start()
    closing = asyncio.ensure_future(found.servers.close())
    for _ in range(3):
        await asyncio.sleep(0.05)
        closing.cancel()
    await asyncio.wait([closing])
    assert closing.cancelled()
    await until_none_is_left(mark)


async def test_servers_are_ended_while_they_start(tmp_path, impatient):
    mark = uuid4().hex
    found = Running(
        {"a": raw("silent", mark), "b": raw("stubborn", mark), "c": raw("exits", "1", mark)}, str(tmp_path)
    )
    found.servers.begin()
    await until(lambda: processes(mark))
    async with asyncio.timeout(HANGS):
        await found.servers.close()
    await until_none_is_left(mark)
    assert await found.servers.tools() is not None
    assert all("did not start: exit code 1" in notice for notice in found.notices)


@pytest.mark.parametrize("at_once", [True, False])
async def test_an_agent_that_ends_while_its_servers_start_leaves_none(home, tmp_path, at_once, impatient):
    """And does not wait for them to be ready, which would take a minute. They start side by side."""
    mark = uuid4().hex
    servers = {name: raw(name, mark, startupTimeoutSec=60) for name in ("deaf", "silent")}
    async with AgentSession(cwd=str(tmp_path), settings={"mcp_servers": servers}) as session:
        await session.start(ScriptedModel())
        waiting = asyncio.ensure_future(session.ready())
        await asyncio.sleep(0.01)
        if not at_once:
            await until(lambda: len(processes(mark)) == 2)
        async with asyncio.timeout(HANGS):
            await session.close()
            await asyncio.wait([waiting])
        assert processes(mark) == []
        assert session.notices == []


def test_servers_that_are_only_made_need_no_event_loop_and_leave_nothing(tmp_path):
    found = Running({"a": raw("server"), "off": {"command": "x", "disabled": True}}, str(tmp_path))
    assert found.servers.waiting_for == ["a"]
    del found
    gc.collect()  # a warning would be an error
    later = Running({"a": raw("exits", "1", "")}, str(tmp_path))
    assert asyncio.run(later.servers.tools()) == []


async def test_servers_that_were_never_started_can_be_ended(tmp_path):
    found = Running({"a": raw("server")}, str(tmp_path))
    await found.servers.close()
    assert await found.servers.tools() == []
    assert found.notices == []


def test_an_event_loop_that_ends_ends_its_servers(tmp_path, impatient):
    """Though nobody closed them, as after Ctrl+C."""
    mark = uuid4().hex

    async def main() -> None:
        await Running({"a": raw("server", mark), "b": raw("stubborn", mark)}, str(tmp_path)).start()
        assert len(processes(mark)) == 3

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    asyncio.run(until_none_is_left(mark))


# --- nothing is printed ---------------------------------------------------------------------------------


def test_nothing_of_all_this_reaches_the_terminal(tmp_path):
    """No log, no warning, no exception that nobody retrieved, and nothing that servers write."""
    source = f"""
        import asyncio, gc, sys
        sys.path.insert(0, {str(ROOT)!r})
        from perdure.agent.mcp import program
        from tests.agent.mcp_servers import raw
        from tests.agent.mcp_running import Running

        program._PATIENCE = [(number, 0.1) for number, _ in program._PATIENCE]

        async def main():
            kinds = ("server", "junk", "leaving", "closesoutput", "oldversion")
            kinds = {{kind: raw(kind) for kind in kinds}}
            kinds["exits"] = raw("exits", "1", "complaint")
            kinds["silent"] = raw("silent", startupTimeoutSec=0.1)
            kinds["http"] = {{"url": "http://127.0.0.1:9"}}
            found = Running(kinds, ".")
            await found.start()
            call = asyncio.ensure_future(found.call("server_wait"))
            await asyncio.sleep(0.05)
            call.cancel()
            await found.call("junk_echo")
            await found.call("server_die")
            await found.servers.close()

        asyncio.run(main(), debug=False)
        gc.collect()
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(source)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


async def test_whoever_has_set_up_logging_sees_what_the_sdk_logs(tmp_path, caplog):
    async with running(tmp_path, a=raw("server")):
        pass
    for name in ("mcp", "client"):
        assert logging.getLogger(name).propagate
        with caplog.at_level(logging.WARNING):
            logging.getLogger(name).warning("from %s", name)
    assert [record.getMessage() for record in caplog.records] == ["from mcp", "from client"]
