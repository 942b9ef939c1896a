"""MCP servers as sources of tools: started side by side behind whatever else goes on, ended with the agent.

A server is somebody else's program. What it sends is bounded and never obeyed: names, descriptions and
schemas are made fit for providers, and nothing that they refer to is fetched. A server that does not start,
or ends, is one notice; its tools then answer that it has ended, and the conversation goes on.

The SDK is imported when the first server is started, in a thread, because that takes most of a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from importlib.util import find_spec

from perdure.agent.aside import in_thread, settled
from perdure.agent.mcp.server import Server, ServerState
from perdure.agent.mcp.tools import one_line, some, tool_name
from perdure.agent.settings import McpServer
from perdure.agent.supervisor import Supervisor
from perdure.agent.tools import Tool
from perdure.errors import NotInstalled

__all__ = ["ServerState", "Servers", "check_installed", "tool_name"]


def check_installed() -> None:
    """NotInstalled where the SDK is not; it is not imported, for that takes long."""
    if find_spec("mcp") is None:
        raise NotInstalled("mcp", extra="mcp")


class Servers:
    def __init__(
        self,
        configured: Mapping[str, McpServer],
        *,
        cwd: str,
        environment: Mapping[str, str],
        notice: Callable[[str], None],
    ) -> None:
        """`environment` is the user's: `${NAME}` is looked up there, and servers see almost none of it.
        `${PWD}` is `cwd`, where the user works. That is not where a server starts, if its settings name a
        place: what is in that folder would be run, as by `npx` and `python -m`."""
        environment = {**environment, "PWD": cwd}
        self._notice = notice
        self._supervisor = Supervisor()
        self._servers = [
            Server(name, each, cwd, environment, notice, self._supervisor)
            for name, each in configured.items()
        ]
        self._tools: list[Tool] | None = None
        self._has_begun = False

    def begin(self) -> None:
        """Start them, and return at once. If there are none, nothing is imported."""
        if self._has_begun:
            return
        self._has_begun = True
        starting = [server for server in self._servers if server.prepare()]
        if starting:
            loading = asyncio.create_task(self._load(), name="mcp")
            for server in starting:
                server.start(loading)

    async def tools(self) -> list[Tool]:
        """Those of all servers, when each is ready or has failed; the same ones ever after."""
        self.begin()
        for server in self._servers:
            await server.settled.wait()
        if self._tools is None:
            self._tools = self._without_twins()
        return self._tools

    @property
    def waiting_for(self) -> list[str]:
        """Servers that are still starting."""
        return [each.name for each in self.states if each.state == "starting"]

    @property
    def states(self) -> list[ServerState]:
        return [server.state for server in self._servers]

    async def close(self) -> None:
        """End all of them and what they started: at once, or within some seconds where one resists."""
        self._has_begun = True
        for server in self._servers:
            server.end()
        tasks = [server.task for server in self._servers if server.task is not None]
        if tasks:
            await settled(asyncio.wait(tasks))
        await in_thread(self._supervisor.close)

    async def _load(self) -> str:
        """Why the SDK cannot be used; empty if it can."""
        try:
            await in_thread(_load)
        except Exception as error:  # of a package of another version, of that name, or broken
            is_missing = isinstance(error, ModuleNotFoundError) and error.name in ("mcp", "mcp_types")
            cause = f"the package mcp cannot be used: {one_line(str(error) or type(error).__name__)}"
            what = "the package mcp is not installed" if is_missing else cause
            why = f"{what}; {NotInstalled('mcp', extra='mcp').hint}"
            self._notice(f"MCP servers are configured but {why}")
            return why
        return ""

    def _without_twins(self) -> list[Tool]:
        found: dict[str, Tool] = {}
        for server in self._servers:
            twins = server.leave_out(found)
            if twins:
                server.say(f"has tools with the names of others, which are left out: {some(twins)}")
            found |= {tool.name: tool for tool in server.state.tools}
        return [*found.values()]


def _load() -> None:
    """Every name that is used later: whether there is one depends on the version of the package."""
    import anyio  # noqa: F401
    from mcp import Client, MCPError  # noqa: F401
    from mcp.client.streamable_http import streamable_http_client  # noqa: F401
    from mcp.shared.message import SessionMessage  # noqa: F401
    from mcp_types import (  # noqa: F401
        CONNECTION_CLOSED,
        INTERNAL_ERROR,
        METHOD_NOT_FOUND,
        CallToolRequest,
        CallToolRequestParams,
        CallToolResult,
        ErrorData,
        Implementation,
        InputRequiredResult,
        JSONRPCError,
        TextResourceContents,
        jsonrpc_message_adapter,
    )
    from pydantic import TypeAdapter, ValidationError  # noqa: F401

    from perdure.agent.mcp import http, program  # noqa: F401

    # Where nobody has set up logging, Python itself prints what a library complains about.
    for name in ("mcp", "client"):
        logger = logging.getLogger(name)
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
