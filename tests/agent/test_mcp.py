"""MCP servers as sources of tools: how they start or do not, what they are given, and what they offer."""

import asyncio
import json
import os
import subprocess
import sys
import textwrap
import time
from typing import Any

import pytest

from perdure.agent.mcp import tool_name
from tests.agent.mcp_running import Running, hurry, running
from tests.agent.mcp_servers import raw

pytestmark = pytest.mark.anyio

CANARIES = {
    f"{name}_{number}": f"canary-{name}-{number}"
    for number in range(4)
    for name in (
        *(
            "OPENAI_API_KEY",
            "AWS_SECRET_ACCESS_KEY",
            "GITHUB_TOKEN",
            "DATABASE_URL",
            "PASSWORD",
            "HTTP_PROXY",
        ),
        *(
            "VIRTUAL_ENV",
            "PYTHONPATH",
            "EDITOR",
            "SSH_AUTH_SOCK",
            "NODE_OPTIONS",
            "XDG_CONFIG_HOME",
            "LD_PRELOAD",
        ),
        *("MY_APP_MODE", "lower_case"),
    )
}


@pytest.fixture
def impatient(monkeypatch):
    hurry(monkeypatch)


# --- starting -------------------------------------------------------------------------------------------


def test_without_a_server_to_start_the_sdk_is_not_imported():
    """It takes most of a second. Not for those that are turned off either, or cannot be started."""
    source = """
        import asyncio, sys
        from perdure.agent.mcp import Servers
        from perdure.agent.settings import McpServer

        async def main():
            for configured in ({}, {"a": McpServer(command="x", disabled=True)}, {"b": McpServer()}):
                servers = Servers(configured, cwd="/", environment={}, notice=lambda _: None)
                servers.begin()
                assert await servers.tools() == []
                await servers.close()

        asyncio.run(main())
        print({"mcp", "mcp_types", "anyio", "httpx2"} & sys.modules.keys())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("set()\n", "")


async def test_servers_start_behind_what_goes_on(tmp_path):
    """`begin` returns at once; who waits for the tools may be cancelled, and wait again."""
    found = Running(
        {"a": raw("server"), "b": raw("server"), "off": {"command": "x", "disabled": True}}, str(tmp_path)
    )
    began = time.monotonic()
    found.servers.begin()
    assert time.monotonic() - began < 0.2
    assert found.servers.waiting_for == ["a", "b"]
    waiting = asyncio.ensure_future(found.servers.tools())
    await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    tools = await found.servers.tools()
    assert await found.servers.tools() is tools
    assert {tool.name for tool in tools} == {
        f"{server}_{tool}"
        for server in "ab"
        for tool in ("echo", "environment", "wait", "sleep", "cancelled", "die")
    }
    assert found.servers.waiting_for == []
    assert [each.state for each in found.servers.states] == ["ready", "ready", "disabled"]
    state = found.state("a")
    assert (state.protocol, state.version, state.why) == ("2025-11-25", "raw 1", "")
    assert 0 < (state.seconds or 0) < 10
    assert found.notices == []
    await found.servers.close()


async def test_the_servers_start_side_by_side(tmp_path):
    """The one that takes longest is what they take."""
    slow = {f"s{number}": raw("silent", startupTimeoutSec=0.3) for number in range(5)}
    async with running(tmp_path, a=raw("server")):
        pass  # the SDK is loaded by now
    began = time.monotonic()
    async with running(tmp_path, **slow) as found:
        assert time.monotonic() - began < 1.4
        assert len(found.notices) == 5


@pytest.mark.parametrize(
    ("configured", "why"),
    [
        (
            raw("exits", "3", "Traceback:\nValueError: no key\n\n"),
            "did not start: exit code 3: ValueError: no key",
        ),
        (raw("exits", "0", ""), "did not start: exit code 0"),
        (
            raw("exits", "1", "Error: no module x\n    at y\n}\n\nNode.js v22.1.0\n"),
            "exit code 1: Error: no module x",
        ),
        (raw("exits", "1", "\x1b[31mred\x1b[0m \x07bell\u202e\r\n"), "exit code 1: red bell"),
        (raw("exits", "1", "x" * 10_000), "exit code 1: " + "x" * 200 + "…"),
        (raw("silent", startupTimeoutSec=0.3), "did not start within 0.3 s: thinking about it"),
        (raw("closesoutput"), "did not start: it closed its output"),
        (raw("oldversion"), "did not start: Unsupported protocol version from the server: 1999-01-01"),
        ({"command": "no-such-command"}, "did not start: no-such-command: No such file or directory"),
        ({"command": "./here"}, "did not start: ./here: Permission denied"),
        (raw("server", cwd="nowhere"), "nowhere: No such file or directory"),
        ({"command": "x", "args": ["${NOT_SET}"]}, "needs the variable NOT_SET, which is not set"),
        ({"url": "http://127.0.0.1:9/mcp"}, "did not start: it cannot be reached: Connection refused"),
        (raw("tools", '[{"name": 1}]'), "did not start: it sent what is not MCP: tools.0.inputSchema"),
    ],
    ids=lambda value: None if isinstance(value, dict) else value[:40],
)
async def test_a_server_that_does_not_start_is_one_notice(configured, why, tmp_path, impatient):
    """With its cause, and nothing a terminal would obey; the others are ready all the same."""
    (tmp_path / "here").write_text("")
    async with running(tmp_path, bad=configured, good=raw("server")) as found:
        assert "good_echo" in found.tools
        (notice,) = found.notices
        assert notice.startswith("MCP server bad ")
        assert why in notice
        assert notice.isprintable()
        state = found.state("bad")
        assert (state.state, state.tools) == ("failed", ())
        assert notice == f"MCP server bad {state.why}"


async def test_a_secret_of_a_server_is_in_no_notice(tmp_path):
    environment = {"MY_TOKEN": "tok-0123456789"}
    bad = raw("exits", "1", "no access with tok-0123456789", env={"API_TOKEN": "${MY_TOKEN}"})
    async with running(tmp_path, environment, bad=bad) as found:
        assert found.notices == ["MCP server bad did not start: exit code 1: no access with …"]
        assert "tok-" not in found.state("bad").why


async def test_without_the_package_there_is_one_notice_for_all(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    async with running(tmp_path, a=raw("server"), b={"url": "http://127.0.0.1:9"}) as found:
        assert found.tools == {}
        assert found.notices == [
            "MCP servers are configured but the package mcp is not installed; pip install 'perdure[mcp]'"
        ]
        assert [each.state for each in found.servers.states] == ["failed", "failed"]


# --- what a server gets ---------------------------------------------------------------------------------


async def test_g_10_a_server_sees_nothing_of_the_environment_but_what_it_needs(tmp_path):
    """And what its settings give it. It has none of our own streams."""
    (tmp_path / "sub").mkdir()
    needed = {"HOME": "/home/me", "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TMPDIR": str(tmp_path)}
    settings = raw(
        "server", "${MY_APP_MODE_1}", "${NOT_SET:-x}", env={"OWN": "a ${MY_APP_MODE_2}"}, cwd="sub"
    )
    assert len(CANARIES) == 60
    async with running(tmp_path, CANARIES | needed, a=settings) as found:
        seen = json.loads((await found.call("a_environment")).text)
        own = {"OWN": f"a {CANARIES['MY_APP_MODE_2']}"}
        assert seen["env"].pop("LC_CTYPE", "C.UTF-8") == "C.UTF-8"  # Python's own
        assert seen["env"] == needed | own
        assert seen["argv"] == [CANARIES["MY_APP_MODE_1"], "x"]
        assert seen["cwd"] == str(tmp_path / "sub")
        assert not {os.fstat(number).st_ino for number in range(3)} & {*seen["pipes"]}
        assert found.state("a").address.endswith("server ${MY_APP_MODE_1} ${NOT_SET:-x}")


# --- its tools ------------------------------------------------------------------------------------------


async def test_tools_are_as_providers_take_them(tmp_path):
    """Names of letters, digits and `_-`, not over 64; descriptions not over 4 KB; plain schemas."""
    of_object = {"type": "object"}
    tools = [
        {"name": "plain", "description": "What it does.", "inputSchema": of_object},
        {"name": "no.dots/or\nlines ü", "title": "A title", "inputSchema": of_object},
        {
            "name": "annotated",
            "description": "",
            "annotations": {"title": "Its title"},
            "inputSchema": of_object,
        },
        {"name": "n" * 10_000, "inputSchema": of_object},
        {"name": "m" * 70, "description": "d" * 10_000, "inputSchema": of_object},
        {
            "name": "parameters",
            "inputSchema": {
                **of_object,
                "properties": {"$top": {"$ref": "#/$defs/n"}},
                "$defs": {"n": {"type": "integer"}},
            },
        },
    ]
    async with running(tmp_path, **{"my server": raw("tools", json.dumps(tools))}) as found:
        plain, odd, annotated, long, described, renamed = found.tools.values()
        assert (plain.name, plain.description) == ("my_server_plain", "What it does.")
        assert (odd.name, odd.description) == ("my_server_no_dots_or_lines__", "A title")
        assert annotated.description == "Its title"
        assert len(long.name) == len(described.name) == 64
        assert long.name.startswith("my_server_nnn")
        assert len(described.description) == 4096
        assert renamed.parameters["properties"] == {"_top_1": {"type": "integer"}}  # type: ignore[index]
        sent = json.loads((await found.call("my_server_parameters", _top_1=3)).text)
        assert sent["arguments"] == {"$top": 3}
        assert json.loads((await found.call(odd.name)).text)["name"] == "no.dots/or\nlines ü"
        assert found.notices == []


@pytest.mark.parametrize("server", ["a", "1password", "-", "ü.x", "s" * 100])
@pytest.mark.parametrize("tool", ["", "t", "t" * 100, "é/1"])
async def test_the_names_of_a_servers_tools_begin_alike(server, tool):
    name = tool_name(server, tool)
    assert name.startswith(tool_name(server, ""))
    assert len(name) <= 64
    assert name.isascii()
    assert name.replace("-", "_").isidentifier()


async def test_of_two_tools_with_one_name_the_later_is_left_out(tmp_path):
    def named(*names: str) -> dict[str, Any]:
        return raw("tools", json.dumps([{"name": name, "inputSchema": {"type": "object"}} for name in names]))

    async with running(tmp_path, a=named("x.y", "x/y", "z"), a_x=named("y", "w")) as found:
        assert [*found.tools] == ["a_x_y", "a_z", "a_x_w"]
        assert json.loads((await found.call("a_x_y")).text)["name"] == "x.y"
        assert found.notices == [
            "MCP server a has tools with the names of others, which are left out: a_x_y",
            "MCP server a_x has tools with the names of others, which are left out: a_x_y",
        ]
        assert [len(each.tools) for each in found.servers.states] == [2, 1]


async def test_tools_that_cannot_be_used_are_left_out_with_one_notice(tmp_path):
    """Nothing is fetched for them: at the address that one names, nobody is called."""
    called = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.append(await reader.read(100))

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
        port = listening.sockets[0].getsockname()[1]
        address = f"http://127.0.0.1:{port}/schema"
        schemas = [
            {"type": "object", "properties": {"x": {"$ref": address}}},
            {"type": "object", "$id": address, "properties": {"x": {"$ref": "other"}}},
            {"type": "object", "$ref": f"file://{tmp_path}/schema"},
            {"type": "object", "properties": {f"p{number}": {} for number in range(3000)}},
            {"type": "object", "$id": address, "properties": {"x": {"$ref": "#/properties/y"}}},
        ]
        tools = [{"name": f"t{number}", "inputSchema": schema} for number, schema in enumerate(schemas)]
        async with running(tmp_path, a=raw("tools", json.dumps(tools))) as found:
            assert [*found.tools] == ["a_t4"]
            (notice,) = found.notices
            assert notice.startswith(
                f"MCP server a has tools that cannot be used: t0 (its schema refers to {address},"
            )
            assert notice.endswith("and 1 more")
            await found.call("a_t4", x=1)
        await asyncio.sleep(0.05)
    assert called == []


@pytest.mark.parametrize(("size", "kept"), [("5", 500), ("2000", 1000)])
async def test_a_list_of_tools_without_end_is_cut_off(size, kept, tmp_path):
    """After 100 pages, or 1,000 tools."""
    async with running(tmp_path, a=raw("pages", size)) as found:
        assert len(found.tools) == kept
        assert found.notices == [f"MCP server a has more tools than can be used; they are the first {kept:,}"]
