"""`pi mcp`: the MCP servers of the settings, whether they start, and what their tools are."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from perdure import config
from perdure.agent.mcp import Servers, ServerState, check_installed
from perdure.agent.process_privacy import close_to_others
from perdure.agent.settings import FILE, McpServer, Settings, pi_home
from perdure.errors import NotFound
from perdure.front import trusting
from perdure.front.amounts import counted
from perdure.front.output import Output, Styled
from perdure.front.table import table
from perdure.session.layouts import home_of

_HEADS = ("NAME", "STATE", "TOOLS", "WHERE")
_COLOURS = {"ready": "green", "failed": "red", "disabled": "dim", "starting": "yellow"}
_EXAMPLE = (
    '{ "mcpServers": {',
    '    "files": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "${PWD}"] }',
    "} }",
)
_PACE = 0.2  # seconds between two looks at who is still starting


def mcp(options: SimpleNamespace, out: Output) -> int:
    check_installed()
    home_of("pi")  # where servers are set up
    cwd = config.here()
    settings = Settings.load(project=trusting.project(cwd, out, may_ask=True))
    configured = _wanted(settings.mcp_servers, options.name)
    if not configured:
        if out.json:
            out.data([])
        file = config.as_typed(os.path.join(pi_home(), FILE))
        out.note(f"No MCP server is configured. In {file} one is written like this:")
        for line in _EXAMPLE:
            out.note(f"  {line}")
        return 0
    close_to_others()  # servers are programs of others, and see what their settings give them
    notices: list[str] = []
    servers = Servers(configured, cwd=cwd, environment=config.environment(), notice=notices.append)
    asyncio.run(_start(servers, out))
    if out.json:
        out.data([_facts(each) for each in servers.states])
    else:
        _show(servers.states, out, with_tools=bool(options.name))
    for notice in _unsaid(notices, servers.states):
        out.note(Styled(f"{notice}.", "yellow"))
    return 1 if any(each.state == "failed" for each in servers.states) else 0


def _wanted(configured: Mapping[str, McpServer], names: Sequence[str]) -> dict[str, McpServer]:
    for name in names:
        if name not in configured:
            raise NotFound("MCP server", name, hint=f"there are: {', '.join(configured) or 'none'}")
    return {name: server for name, server in configured.items() if not names or name in names}


async def _start(servers: Servers, out: Output) -> None:
    """They are ended again before anything is shown."""
    try:
        servers.begin()
        waiting = asyncio.ensure_future(servers.tools())
        while not waiting.done():
            out.transient(f"Starting {', '.join(servers.waiting_for)} …")
            await asyncio.wait([waiting], timeout=_PACE)
        await waiting
    finally:
        out.transient("")
        with _no_interrupts():  # it takes a moment to end them, and they are to be ended
            await servers.close()


@contextmanager
def _no_interrupts() -> Iterator[None]:
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # a thread, which gets none
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _show(states: Sequence[ServerState], out: Output, *, with_tools: bool) -> None:
    rows: list[list[str | Styled]] = [
        [
            Styled(each.name, "cyan"),
            Styled(each.state, _COLOURS[each.state]),
            str(len(each.tools)) if each.state == "ready" else "",
            each.address,
        ]
        for each in states
    ]
    table(out, _HEADS, rows, flexible=3, right=(2,), below=[each.why for each in states])
    for each in states if with_tools else ():
        if each.tools:
            out.line()
            out.line(Styled(each.name, "cyan"), f": {_about(each)}")
            lines = [[tool.name, _first_line(tool.description)] for tool in each.tools]
            table(out, ("TOOL", "DESCRIPTION"), lines, flexible=1)
    if not with_tools and any(each.tools for each in states):
        out.note(f"`{out.program} mcp NAME` shows a server's tools.")


def _about(state: ServerState) -> str:
    took = f"started in {state.seconds:.1f} s" if state.seconds is not None else ""
    speaks = f"MCP {state.protocol}" if state.protocol else ""
    return ", ".join(filter(None, (state.version, speaks, counted(len(state.tools), "tool"), took)))


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]


def _unsaid(notices: Sequence[str], states: Sequence[ServerState]) -> list[str]:
    """What is not in the answer already: why a server failed is."""
    said = {each.why for each in states if each.why}
    return [each for each in notices if not any(why in each for why in said)]


def _facts(state: ServerState) -> dict[str, Any]:
    return {
        "name": state.name,
        "state": state.state,
        "why": state.why,
        "address": state.address,
        "server": state.version,
        "protocol": state.protocol,
        "seconds": round(state.seconds, 3) if state.seconds is not None else None,
        "tools": [{"name": tool.name, "description": tool.description} for tool in state.tools],
    }
