"""One MCP server, from its start to its end, in a task of its own: what the SDK enters there has to be left
there, and whatever goes wrong with one server is nothing to the others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from perdure import __version__
from perdure.agent.aside import in_thread
from perdure.agent.mcp.reach import Local, Misconfigured, Remote, reached, shown
from perdure.agent.mcp.tools import answer, is_cut_off, listed, made, one_line, some, words
from perdure.agent.models.http_errors import masked
from perdure.agent.settings import McpServer
from perdure.agent.supervisor import Supervisor
from perdure.agent.tools import AgentToolResult, Tool, ToolContext
from perdure.session.entry import Text

if TYPE_CHECKING:
    from anyio import CancelScope
    from mcp import Client
    from mcp.client._transport import TransportStreams

    from perdure.agent.mcp.program import Program

_FAREWELL = 2.0  # seconds for a server at an address to hear that we leave
_LONGEST_NAME = 60


class ServerState(Struct, frozen=True):
    name: str
    state: Literal["ready", "starting", "failed", "disabled"]
    address: str
    """A command line or a URL as it is written, without what is named like a secret or looks like one."""
    why: str = ""
    """What went wrong, if it failed."""
    protocol: str = ""
    version: str = ""
    """What it calls itself, and of which version."""
    seconds: float | None = None
    """How long it took to start."""
    tools: Sequence[Tool] = ()


class Server:
    def __init__(
        self,
        name: str,
        configured: McpServer,
        cwd: str,
        environment: Mapping[str, str],
        notice: Callable[[str], None],
        supervisor: Supervisor,
    ) -> None:
        """`supervisor` starts it, if it is a program."""
        self._supervisor = supervisor
        self._name = name
        self._configured = configured
        self._cwd = cwd
        self._environment = environment
        self._notice = notice
        self._reached: Local | Remote | None = None
        self._program: Program | None = None
        self._client: Client | None = None
        self._scope: CancelScope | None = None
        self._over = asyncio.Event()
        self._is_closing = False
        self._is_missed = False
        self.task: asyncio.Task[None] | None = None
        self.settled = asyncio.Event()
        """Ready, or known to be not."""
        state = ServerState(name, "starting", shown(configured))
        if configured.disabled:
            self.settled.set()
            state = replace(state, state="disabled")
        self.state = state

    def prepare(self) -> bool:
        """Whether it can be started, by what the settings say."""
        if self._configured.disabled:
            return False
        try:
            self._reached = reached(self._configured, self._environment, self._cwd)
        except Misconfigured as error:
            self._fail(str(error))
            return False
        return True

    def start(self, loading: asyncio.Task[str]) -> None:
        """When the SDK is loaded; the result says why it is not."""
        self.task = asyncio.create_task(self._live(loading), name=f"mcp {self._name}")

    def end(self) -> None:
        self._is_closing = True
        self._over.set()
        if self.task is None:
            self.settled.set()
        if self._scope is not None and self.state.state == "starting":
            self._scope.cancel()

    def leave_out(self, names: Container[str]) -> list[str]:
        """The tools that have one of these names, or that of another of its own."""
        kept: dict[str, Tool] = {}
        twins = []
        for tool in self.state.tools:
            if tool.name in kept or tool.name in names:
                twins.append(tool.name)
            else:
                kept[tool.name] = tool
        self.state = replace(self.state, tools=(*kept.values(),))
        return twins

    def say(self, what: str) -> None:
        self._notice(f"MCP server {one_line(self._name, _LONGEST_NAME)} {self._masked(what)}")

    # --- from start to end ---------------------------------------------------------------------------

    async def _live(self, loading: asyncio.Task[str]) -> None:
        try:
            await asyncio.wait([loading])  # others wait for it too, should this task be cancelled
            if why := loading.result():
                self.state = replace(self.state, state="failed", why=why)
            elif not self._is_closing:
                await self._serve()
        except Exception as error:
            self._fail(self._cause(error))
        finally:
            self._client = None
            self._over.set()
            self.settled.set()

    async def _serve(self) -> None:
        import anyio
        from mcp import Client
        from mcp_types import Implementation

        began = time.monotonic()
        with anyio.CancelScope() as scope, self._patience(scope.cancel) as timer:
            self._scope = scope
            about_us = Implementation(name="perdure", version=__version__)
            async with Client(self._transport(), client_info=about_us, cache=None) as client:
                tools = await self._tools(client)
                timer.cancel()
                self._client = client
                told = client.server_info
                self.state = replace(
                    self.state,
                    state="ready",
                    protocol=one_line(client.protocol_version),
                    version=one_line(f"{told.name} {told.version}") if told else "",
                    seconds=time.monotonic() - began,
                    tools=tools,
                )
                self.settled.set()
                await self._over.wait()
                scope.deadline = anyio.current_time() + _FAREWELL
        self._fail(f"has ended{self._how_it_ended()}")

    @contextmanager
    def _patience(self, end: Callable[[], None]) -> Iterator[asyncio.TimerHandle]:
        """When it is over, the server has failed, and nobody waits for its program to end too."""
        seconds = self._configured.startup_timeout_sec

        def give_up() -> None:
            self._fail(f"did not start within {seconds:g} s{self._last_words()}")
            end()

        timer = asyncio.get_running_loop().call_later(seconds, give_up)
        try:
            yield timer
        finally:
            timer.cancel()

    def _transport(self) -> AbstractAsyncContextManager[TransportStreams]:
        if isinstance(self._reached, Local):
            from perdure.agent.mcp.program import Program

            command, cwd, environment, _ = self._reached
            self._program = Program(command, cwd, environment, over=self._over, supervisor=self._supervisor)
            return self._program.connected()
        from perdure.agent.mcp.http import connected

        assert self._reached is not None
        silence = max(self._configured.tool_timeout_sec, self._configured.startup_timeout_sec) + _FAREWELL
        url, headers, _ = self._reached
        return connected(url, headers, silence=silence, trouble=self._miss)

    async def _tools(self, client: Client) -> tuple[Tool, ...]:
        found, is_all = await listed(client)
        tools, unusable = await in_thread(made, self._name, found, self._call)
        if unusable:
            self.say(f"has tools that cannot be used: {some(unusable)}")
        if not is_all:
            self.say(f"has more tools than can be used; they are the first {len(tools):,}")
        return (*tools,)

    # --- what is said of it --------------------------------------------------------------------------

    def _fail(self, what: str) -> None:
        """Said once. Its tools stay, and answer that it has ended."""
        if self.state.state == "failed" or self._is_closing:
            return
        what = self._masked(what)
        self.state = replace(self.state, state="failed", why=what)
        self.settled.set()
        self.say(what)

    def _miss(self, why: str) -> None:
        """Said once, too. A server at an address that is gone may come back."""
        if self.state.state == "ready" and not (self._is_missed or self._is_closing):
            self._is_missed = True
            self.say(f"gave no answer: {self._line(why)}")

    def _cause(self, error: Exception) -> str:
        what = "has ended" if self.state.state == "ready" else "did not start"
        if self._program is not None and is_cut_off(error):
            return f"{what}{self._how_it_ended()}"
        if isinstance(error, OSError) and isinstance(self._reached, Local):
            is_missing = error.filename == self._reached.cwd
            subject = f"the folder {self._reached.cwd}" if is_missing else self._reached.command[0]
            return f"{what}: {self._line(f'{subject}: {error.strerror or error}')}"
        return f"{what}: {self._line(words(error))}{self._last_words()}"

    def _how_it_ended(self) -> str:
        return f": {self._program.how_it_ended}{self._last_words()}" if self._program is not None else ""

    def _last_words(self) -> str:
        if self._program is None:
            return ""
        if last := self._line(self._program.last_words):
            return f": {last}"
        stray = self._line(self._program.stray) if self.state.state == "starting" else ""
        return f": it printed what is no message: {stray}" if stray else ""

    def _line(self, text: str) -> str:
        """Masked before it is cut: of a secret, no beginning is left."""
        return one_line(self._masked(text))

    def _masked(self, text: str) -> str:
        return masked(text, self._reached.secrets if self._reached is not None else ())

    # --- its tools -----------------------------------------------------------------------------------

    async def _call(
        self, tool: str, names: Mapping[str, str], arguments: dict[str, object], ctx: ToolContext
    ) -> AgentToolResult:
        """`names` are the server's for parameters that are called otherwise here."""
        if self._client is None or self._over.is_set():
            return _error(f"MCP server {self._name} {self.state.why or 'has ended'}")
        seconds = self._configured.tool_timeout_sec
        given = {names.get(name, name): value for name, value in arguments.items()}
        try:
            async with asyncio.timeout(seconds):
                return self._safe(await answer(self._client, tool, given, ctx.update))
        except TimeoutError:
            return _error(f"{tool} gave no answer within {seconds:g} seconds, and was told to end")
        except Exception as error:
            if self._over.is_set():
                return _error(f"MCP server {self._name} ended before {tool} gave an answer")
            return _error(f"{tool} failed: {self._masked(words(error))}")

    def _safe(self, result: AgentToolResult) -> AgentToolResult:
        """What a server complains about may have its key in it. What it answers is left as it is."""
        if not result.is_error:
            return result
        blocks = [Text(self._masked(each.text)) if isinstance(each, Text) else each for each in result.blocks]
        return replace(result, content=blocks)


def _error(text: str) -> AgentToolResult:
    return AgentToolResult(text, is_error=True)
