"""MCP servers started for a test, what was said of them, and the processes they are."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure.agent.mcp import Servers, ServerState, program
from perdure.agent.settings import McpServer
from perdure.agent.tools import AgentToolResult, Tool, ToolContext, checked

HANGS = 30.0
"""Seconds; what takes as long has come to a standstill."""


class Running:
    """Some servers, and what was said of them."""

    def __init__(
        self, configured: dict[str, Any], cwd: str, environment: dict[str, str] | None = None
    ) -> None:
        self.notices: list[str] = []
        self.cwd = cwd
        self.servers = Servers(
            {name: msgspec.convert(each, McpServer) for name, each in configured.items()},
            cwd=cwd,
            environment={**os.environ} if environment is None else environment,
            notice=self.notices.append,
        )
        self.tools: dict[str, Tool] = {}

    async def start(self) -> None:
        self.tools = {tool.name: tool for tool in await self.servers.tools()}

    async def call(self, name: str, /, **arguments: Any) -> AgentToolResult:
        """As a model calls it."""
        tool = self.tools[name]
        result: Any = tool.run(checked(tool, arguments), ToolContext(self.cwd))
        return await result

    async def waits(self, server: str) -> tuple[int, int]:
        """How many calls of its `wait` have begun, and how many were ended; none, if it is slow."""
        answer = await self.call(f"{server}_waits")
        found = json.loads(answer.text) if not answer.is_error else {"begun": 0, "ended": 0}
        return found["begun"], found["ended"]

    async def check_cancelling(self, server: str) -> None:
        """A call of its `wait` begins, is cancelled here, and ends there."""
        begun, ended = await self.waits(server)

        async def has_begun() -> bool:
            return (await self.waits(server))[0] > begun

        async def has_ended() -> bool:
            return (await self.waits(server))[1] > ended

        call = asyncio.ensure_future(self.call(f"{server}_wait"))
        await until(has_begun)
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
        await until(has_ended)

    def state(self, name: str) -> ServerState:
        (found,) = [each for each in self.servers.states if each.name == name]
        return found


@asynccontextmanager
async def running(
    cwd: Path, environment: dict[str, str] | None = None, **configured: Any
) -> AsyncIterator[Running]:
    found = Running(configured, str(cwd), environment)
    try:
        await found.start()
        yield found
    finally:
        await found.servers.close()


def processes(mark: str) -> list[str]:
    """The command lines that have this in them. What has ended and was not noticed by anybody has none."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                command = (folder / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if mark in command:
                found.append(command)
    return found


async def until(holds: Callable[[], Awaitable[bool]] | Callable[[], object]) -> None:
    """Waits as long as it may take on a machine that is busy."""
    async with asyncio.timeout(HANGS):
        while True:
            found = holds()
            if await found if isinstance(found, Awaitable) else found:
                return
            await asyncio.sleep(0.01)


async def until_none_is_left(mark: str) -> None:
    await until(lambda: not processes(mark))


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers are ended as ever, with less time between the steps."""
    steps = [(number, min(seconds, 0.3)) for number, seconds in program._PATIENCE]
    monkeypatch.setattr(program, "_PATIENCE", steps)
