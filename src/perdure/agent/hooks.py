"""What extensions have a say in while an agent works: before a tool runs, after it, and at every event.

A hook of somebody else's must not end a conversation. One that fails is told of once, with its place. If it
stood before a tool, the call is not run, because it may have been there to forbid it; after a tool, the
result stays as it was.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec import Struct, structs

from perdure.agent.events import AgentEvent
from perdure.agent.switch import Stopped, Switch
from perdure.agent.tools import AgentToolResult, result_of
from perdure.session.entry import ToolCall

_PATIENCE = 5.0  # seconds for those who listen to a turn that was stopped
_FAILURES = (Exception, SystemExit)  # who leaves from in here does not end the conversation
Event = TypeVar("Event", bound=AgentEvent)
Place = Callable[[BaseException], str]
"""Where in an extension something went wrong: its file and line."""


class Hook(Struct, frozen=True):
    run: Callable[..., Any]
    source: str
    """Whose it is."""
    place: Place


class Hooks:
    def __init__(self, notice: Callable[[str], None] = lambda _: None) -> None:
        self.before: list[Hook] = []
        self.after: list[Hook] = []
        self.listeners: dict[str, list[Hook]] = {}
        """By the type of event."""
        self._notice = notice
        self._failed: list[Hook] = []

    async def before_tool(self, call: ToolCall) -> ToolCall | AgentToolResult:
        """The call as it is to be run, or what it is answered with instead. Each hook sees what those before
        it made of the call, in a copy: the message that made it is on disk already."""
        import copy

        for hook in self.before:
            asked = structs.replace(call, arguments=copy.deepcopy(call.arguments))
            try:
                answer = await _called(hook.run, asked)
                if isinstance(answer, AgentToolResult | str):
                    return result_of(answer)
                if answer is not None and not (isinstance(answer, ToolCall) and isinstance(answer.name, str)):
                    kind = type(answer).__name__
                    raise TypeError(f"before_tool returns the call, an AgentToolResult or None, not {kind}")
            except _FAILURES as error:
                self._tell(hook, error, "the tools it stands before are not run")
                said = f"{call.name} was not run: the extension {hook.source} failed: {in_words(error)}"
                return AgentToolResult(said, is_error=True)
            call = structs.replace(answer or asked, id=call.id)
        return call

    async def after_tool(self, call: ToolCall, result: AgentToolResult) -> AgentToolResult:
        for hook in self.after:
            try:
                answer = await _called(hook.run, call, result)
                result = result if answer is None else result_of(answer)
            except _FAILURES as error:
                self._tell(hook, error, "results stay as they are")
        return result

    async def told(self, event: Event, switch: Switch) -> Event:
        """The event, when all who listen to its type have seen it; but who takes their time does not keep a
        turn from ending that was stopped."""
        try:
            if not switch.is_off:
                await switch.unless_stopped(lambda: self._tell_all(event))
            else:
                async with asyncio.timeout(_PATIENCE):
                    await self._tell_all(event)
        except (Stopped, TimeoutError):
            pass  # the turn itself ends at its next step
        return event

    async def _tell_all(self, event: AgentEvent) -> None:
        for hook in self.listeners.get(event.type, ()):
            try:
                await _called(hook.run, event)
            except _FAILURES as error:
                self._tell(hook, error, "the conversation goes on")

    def _tell(self, hook: Hook, error: BaseException, so: str) -> None:
        if not any(hook is other for other in self._failed):
            self._failed.append(hook)
            self._notice(f"{hook.place(error)}: {in_words(error)}; {so}")


async def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        value = function(*arguments)
        return await value if inspect.isawaitable(value) else value
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        # By itself: nobody wants the turn to end.
        raise RuntimeError("it was cancelled from within") from None


def in_words(error: BaseException) -> str:
    said = str(error.msg) if isinstance(error, SyntaxError) else str(error)
    return " ".join(": ".join(filter(None, (type(error).__name__, said))).split())[:300]
