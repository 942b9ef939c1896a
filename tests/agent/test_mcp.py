"""MCP servers as sources of tools: how they start or do not, what they are given, and what they offer."""

import asyncio
import json
import os
import subprocess
import sys
import textwrap
from typing import Any
from uuid import uuid4

import pytest

from perdure.agent.mcp import tool_name
from tests.agent.mcp_running import HANGS, Running, hurry, processes, running
from tests.agent.mcp_servers import raw

pytestmark = [pytest.mark.process, pytest.mark.anyio]

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
    found.servers.begin()
    assert found.servers.waiting_for == ["a", "b"]
    waiting = asyncio.ensure_future(found.servers.tools())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    tools = await found.servers.tools()
    assert await found.servers.tools() is tools
    assert {tool.name for tool in tools} == {
        f"{server}_{tool}"
        for server in "ab"
        for tool in ("echo", "environment", "wait", "waits", "sleep", "die")
    }
    assert found.servers.waiting_for == []
    assert [each.state for each in found.servers.states] == ["ready", "ready", "disabled"]
    state = found.state("a")
    assert (state.protocol, state.version, state.why) == ("2025-11-25", "raw 1", "")
    assert (state.seconds or 0) > 0
    assert found.notices == []
    await found.servers.close()


async def test_a_server_that_is_too_slow_has_failed_then_and_there(tmp_path, impatient):
    """Nobody waits for it to end, too. What it complained about by then is told."""
    seconds = 0.3
    while True:
        mark = uuid4().hex
        async with running(tmp_path, a=raw("deaf", mark, startupTimeoutSec=seconds)) as found:
            assert processes(mark) != []
            assert found.state("a").state == "failed"
            (notice,) = found.notices
        assert processes(mark) == []
        assert found.notices == [notice]
        assert notice.startswith(f"MCP server a did not start within {seconds:g} s")
        if notice.endswith(" s: deaf"):
            break
        seconds *= 4  # this machine is slow
        assert seconds < HANGS


DO_NOT_START: dict[str, tuple[dict[str, Any], str]] = {
    "exit": (
        raw("exits", "3", "Traceback:\nValueError: no key\n\n"),
        "did not start: exit code 3: ValueError: no key",
    ),
    "exit-0": (raw("exits", "0", ""), "did not start: exit code 0"),
    "node": (
        raw("exits", "1", "Error: no module x\n    at y\n}\n\nNode.js v22.1.0\n"),
        "exit code 1: Error: no module x",
    ),
    "colours": (raw("exits", "1", "\x1b[31mred\x1b[0m \x07bell\u202e\r\n"), "exit code 1: red bell"),
    "long": (raw("exits", "1", "x" * 10_000), "exit code 1: " + "x" * 200 + "…"),
    "silent": (raw("silent", startupTimeoutSec=0.5), "did not start within 0.5 s"),
    "chatty": (
        {"command": "/bin/sh", "args": ["-c", "echo this is not json; sleep 30"], "startupTimeoutSec": 2},
        "did not start within 2 s: it printed what is no message: this is not json",
    ),
    "closed": (raw("closesoutput"), "did not start: it closed its output"),
    "old": (raw("oldversion"), "did not start: Unsupported protocol version from the server: 1999-01-01"),
    "missing": ({"command": "no-such-command"}, "no-such-command: No such file or directory"),
    "forbidden": ({"command": "./here"}, "did not start: ./here: Permission denied"),
    "nowhere": (raw("server", cwd="nowhere"), "nowhere: No such file or directory"),
    "variable": ({"command": "x", "args": ["${NOT_SET}"]}, "needs the variable NOT_SET, which is not set"),
    "unreachable": ({"url": "http://127.0.0.1:9/mcp"}, "it cannot be reached: Connection refused"),
    "no MCP": (raw("tools", '[{"name": 1}]'), "did not start: it sent what is not MCP: tools.0.inputSchema"),
    "secret": (
        raw("exits", "1", "no access with tok-0123456789", env={"API_TOKEN": "${MY_TOKEN}"}),
        "did not start: exit code 1: no access with …",
    ),
    "cut": (
        raw("exits", "1", "x" * 190 + " tok-0123456789", "${MY_TOKEN}"),
        f"did not start: exit code 1: {'x' * 190} …",
    ),
}


async def test_a_server_that_does_not_start_is_one_notice(tmp_path, impatient):
    """With its cause, nothing that is secret, and nothing a terminal would obey; the others are ready."""
    (tmp_path / "here").write_text("")
    environment = {"PATH": os.environ["PATH"], "MY_TOKEN": "tok-0123456789"}
    bad = {name: settings for name, (settings, _) in DO_NOT_START.items()}
    async with running(tmp_path, environment, **bad, good=raw("server")) as found:
        assert "good_echo" in found.tools
        assert found.state("good").state == "ready"
        for name, (_, why) in DO_NOT_START.items():
            (notice,) = [each for each in found.notices if each.startswith(f"MCP server {name} ")]
            assert why in notice
            assert notice.isprintable()
            assert "tok-" not in notice
            state = found.state(name)
            assert (state.state, state.tools) == ("failed", ())
            assert notice == f"MCP server {name} {state.why}"
        assert len(found.notices) == len(DO_NOT_START)


async def test_without_the_package_there_is_one_notice_for_all(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    async with running(tmp_path, a=raw("server"), b={"url": "http://127.0.0.1:9"}) as found:
        assert found.tools == {}
        assert found.notices == [
            "MCP servers are configured but the package mcp is not installed; pip install 'perdure[mcp]'"
        ]
        assert [each.state for each in found.servers.states] == ["failed", "failed"]


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("ClientSession = 1", "cannot import name 'Client' from 'mcp'"),
        ("raise AttributeError('no such thing')", "no such thing"),
        ("1 +", "invalid syntax"),
    ],
    ids=["another version", "broken", "no Python"],
)
def test_with_another_package_of_that_name_servers_fail_with_one_notice(module, why, home, tmp_path):
    """Not with a traceback."""
    (tmp_path / "mcp").mkdir()
    (tmp_path / "mcp" / "__init__.py").write_text(module)
    folder = home / ".pi" / "agent"
    folder.mkdir(parents=True)
    servers = {"a": raw("server"), "b": {"url": "http://127.0.0.1:9"}}
    (folder / "settings.json").write_text(json.dumps({"mcpServers": servers}))
    done = subprocess.run(
        [sys.executable, "-m", "perdure", "mcp", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (1, "")
    for each in json.loads(done.stdout):
        assert each["state"] == "failed"
        assert each["why"].startswith("the package mcp cannot be used: ")
        assert why in each["why"]
        assert each["why"].endswith("; pip install 'perdure[mcp]'")


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


async def test_g_10_a_server_starts_where_its_settings_say_and_not_where_the_user_works(tmp_path):
    """`${PWD}` is where that is, whatever the environment calls so; the server itself is not told."""
    own, work = tmp_path / "own", tmp_path / "work"
    own.mkdir()
    work.mkdir()
    environment = {"PATH": os.environ["PATH"], "PWD": "/elsewhere"}
    settings = raw("server", "${PWD}", "${PWD}/src", cwd=str(own), env={"WHERE": "${PWD}"})
    async with running(work, environment, a=settings, b=raw("server", cwd="${PWD}")) as found:
        seen = json.loads((await found.call("a_environment")).text)
        assert seen["cwd"] == str(own)
        assert seen["argv"] == [str(work), f"{work}/src"]
        assert seen["env"]["WHERE"] == str(work)
        assert "PWD" not in seen["env"]
        assert json.loads((await found.call("b_environment")).text)["cwd"] == str(work)


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
            "annotations": {"title": "Its title", "readOnlyHint": True},
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
        assert not annotated.is_read_only  # which is its server's word alone
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
