"""One turn: an answer of the model, and the tools that it calls.

Every message goes through `keep` before anybody is told that it is there, so nothing is shown as done that is
not kept; what streams in is the one exception. However a turn is ended (stopped, its generator closed, its
task cancelled), what had arrived is kept before it ends: the broken-off answer, the results that came, and
"interrupted" for the calls that have none. Tools are ended before that. Where the model fails, or says more
than an answer may have, what arrived stays in the draft: whoever asked decides whether it is kept or the
model is asked again.

The calls of an answer are run as if one after the other. A call of a tool that is not read-only starts when
all before it have ended and their results are kept, and runs alone; what follows waits for it. Calls that
follow one another and only read run at once, as many as the limits allow, since nobody could tell the
difference. Calls beyond those that an answer may have are not run, and their results say so.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any

from msgspec import UNSET, Struct, field

from perdure.agent.aside import in_thread_of_its_own, settled
from perdure.agent.draft import Draft
from perdure.agent.events import (
    AgentEvent,
    AnswerEvent,
    EventMessage,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
)
from perdure.agent.hooks import Hooks
from perdure.agent.limits import AnswerRoom
from perdure.agent.models import Finished, LanguageModel, Piece, Request
from perdure.agent.settings import USUAL_LIMITS, Limits
from perdure.agent.supervisor import Supervisor, of_this_program
from perdure.agent.switch import Stopped, Switch
from perdure.agent.tools import AgentToolResult, BadArguments, Tool, ToolContext, checked, result_of
from perdure.agent.tools.output import within_limits
from perdure.errors import ModelError, ModelUnavailable, PerdureError
from perdure.session.context import INTERRUPTED
from perdure.session.entry import Assistant, Text, ToolCall, ToolResult
from perdure.session.ids import clock_milliseconds

Keep = Callable[[EventMessage], Awaitable[str]]
"""Makes a message durable; returns what it is called from then on."""

BY_USER = "Interrupted by the user"
_NOT_RUN = "Interrupted: this tool call was not run."
LEFT = (GeneratorExit, asyncio.CancelledError)
"""How a turn ends when whoever watched it is gone."""


class Bench(Struct, frozen=True):
    """What the tools of a turn work with."""

    tools: Mapping[str, Tool]
    cwd: str
    environment: Mapping[str, str]
    hooks: Hooks = Hooks()
    supervisor: Supervisor = field(default_factory=of_this_program)
    own_paths: Sequence[str] = ()
    """See `ToolContext`."""


async def turn(
    model: LanguageModel,
    request: Request,
    bench: Bench,
    keep: Keep,
    switch: Switch,
    draft: Draft,
    limits: Limits = USUAL_LIMITS,
) -> AsyncGenerator[AgentEvent, None]:
    """Ends with `turn_end`. Raises Stopped, and what arrived of the answer is kept; ModelError if the model
    failed, or reached a limit, and what arrived is in `draft`."""
    answer: Assistant | None = None

    async def kept(message: Assistant) -> str:
        nonlocal answer
        id = await keep(message)
        answer = message
        return id

    try:
        room = AnswerRoom(limits)
        async with aclosing(_answer(model, request, kept, switch, draft, room)) as events:
            async for event in events:
                yield event
    except LEFT:
        if answer is not None and not answer.is_broken_off:
            for call in answer.calls:
                await keep(_never_run(call))
        raise
    assert answer is not None
    results: list[ToolResult] = []
    calls = answer.calls
    if calls:
        async with aclosing(_call_tools(calls, bench, keep, switch, limits)) as events:
            async for event in events:
                if isinstance(event, MessageEnd) and isinstance(event.message, ToolResult):
                    results.append(event.message)
                yield event
    yield TurnEnd(answer, results)


# --- the answer ---------------------------------------------------------------------------------------


async def _answer(
    model: LanguageModel,
    request: Request,
    keep: Callable[[Assistant], Awaitable[str]],
    switch: Switch,
    draft: Draft,
    room: AnswerRoom,
) -> AsyncGenerator[AgentEvent, None]:
    telling = _Telling(draft)
    try:
        async with aclosing(model.stream(request)) as pieces:
            while True:
                piece = await _next(pieces, model, switch)
                if isinstance(piece, Finished):
                    break
                taken = room.take(piece)
                if taken is not None:
                    for event in telling.of(taken):
                        yield event
                if room.is_full:
                    raise room.error(model.model)
    except LEFT:
        await keep(draft.broken_off("aborted", BY_USER))
        raise
    except Stopped:
        async for event in _kept(draft.broken_off("aborted", BY_USER), telling, keep):
            yield event
        raise
    except ModelError as error:
        if len(draft):
            for event in telling.of_the_end(draft.broken_off("error", error.said)):
                yield event
        raise
    async for event in _kept(draft.finished(piece), telling, keep):
        yield event


async def _next(
    pieces: AsyncGenerator[Piece | Finished, None], model: LanguageModel, switch: Switch
) -> Piece | Finished:
    try:
        return await switch.unless_stopped(pieces.__anext__)
    except StopAsyncIteration:
        raise ModelUnavailable(f"{model.model.reference}: the answer broke off", "try again") from None


async def _kept(
    message: Assistant, telling: _Telling, keep: Callable[[Assistant], Awaitable[str]]
) -> AsyncGenerator[AgentEvent, None]:
    id = await keep(message)
    for event in telling.of_the_end(message):
        yield event
    yield MessageEnd(message, id)


class _Telling:
    """An answer's pieces as events: which block begins, goes on, ends."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._kinds: dict[int, str] = {}  # of every block that began
        self._open: int | None = None  # text or thinking that goes on until another block begins
        self._open_since = 0
        """Its first piece: an answer of many blocks would cost the square of their number otherwise."""
        self._has_begun = False

    def of(self, piece: Piece) -> list[AgentEvent]:
        index, kind = piece.index, _TOLD[piece.kind]
        told: list[AgentEvent] = []
        if index not in self._kinds:
            told += [*self._beginning(), *self._end_of_open()]
            self._kinds[index] = kind
            self._open = index if kind != "toolcall" else None
            self._open_since = len(self._draft)
            self._draft.add(piece)
            told.append(self._update(AnswerEvent(f"{kind}_start", index)))
        else:
            self._draft.add(piece)
        if piece.text:
            told.append(self._update(AnswerEvent(f"{kind}_delta", index, piece.text)))
        return told

    def of_the_end(self, message: Assistant) -> list[AgentEvent]:
        told = [*self._beginning(), *self._end_of_open()]
        calls = iter(message.calls)
        for index, kind in self._kinds.items():
            if kind == "toolcall":
                told.append(self._update(AnswerEvent("toolcall_end", index, tool_call=next(calls, UNSET))))
        reason = message.stop_reason
        if message.is_broken_off:
            return [*told, self._update(AnswerEvent("error", reason=reason, error=message))]
        return [*told, self._update(AnswerEvent("done", reason=reason, message=message))]

    def _beginning(self) -> list[AgentEvent]:
        if self._has_begun:
            return []
        self._has_begun = True
        return [MessageStart(self._draft.message()), self._update(AnswerEvent("start"))]

    def _end_of_open(self) -> list[AgentEvent]:
        if self._open is None:
            return []
        index, self._open = self._open, None
        content = self._draft.text_of(index, self._open_since)
        return [self._update(AnswerEvent(f"{self._kinds[index]}_end", index, content=content))]

    def _update(self, event: AnswerEvent) -> MessageUpdate:
        return MessageUpdate(event, self._draft, len(self._draft))


_TOLD = {"text": "text", "thinking": "thinking", "toolCall": "toolcall"}


# --- the tools ----------------------------------------------------------------------------------------


class _Running:
    """One call, on its way."""

    def __init__(self, call: ToolCall, bench: Bench, told: asyncio.Queue[_Running]) -> None:
        self.call = call
        self.progress: AgentToolResult | None = None
        self.is_reading = not bench.hooks.before and _is_read_only(call, bench)
        """Whether it is certain that it only reads: a hook may have another tool called."""
        self.is_first = asyncio.Event()
        """Set when all calls before it have ended."""
        self._told = told
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        context = ToolContext(
            bench.cwd, call.id, bench.environment, self._update, bench.supervisor, bench.own_paths
        )
        self.task = asyncio.create_task(self._run(bench, context), name=f"tool {call.name}")
        self.task.add_done_callback(lambda _: told.put_nowait(self))

    async def _run(self, bench: Bench, context: ToolContext) -> AgentToolResult:
        call, hooks = self.call, bench.hooks
        if hooks.before:
            asked = await hooks.before_tool(call)
            if isinstance(asked, AgentToolResult):
                return await hooks.after_tool(call, asked)
            call = asked
            if _is_read_only(call, bench):
                self.is_reading = True
                self._told.put_nowait(self)  # now others may start
        if not self.is_reading:
            await self.is_first.wait()
        result = await _called(call, bench.tools, context)
        return await hooks.after_tool(call, result) if hooks.after else result

    def _update(self, so_far: AgentToolResult) -> None:
        self.progress = so_far
        if threading.get_ident() == self._thread:
            self._told.put_nowait(self)
        else:
            self._loop.call_soon_threadsafe(self._told.put_nowait, self)

    def result(self) -> AgentToolResult:
        """What it gave; if it was ended before, that, and what it had printed."""
        if self.task.done() and not self.task.cancelled():
            return within_limits(self.task.result())
        so_far = within_limits(self.progress).text if self.progress else ""
        return AgentToolResult(f"{so_far}\n\n{INTERRUPTED}" if so_far else INTERRUPTED, is_error=True)

    def message(self) -> ToolResult:
        result = self.result()
        return ToolResult(
            self.call.id,
            self.call.name,
            [*result.blocks],
            result.details,
            result.is_error,
            clock_milliseconds(),
        )


async def _call_tools(
    calls: Sequence[ToolCall], bench: Bench, keep: Keep, switch: Switch, limits: Limits
) -> AsyncGenerator[AgentEvent, None]:
    most = limits.calls_in_one_answer
    told: asyncio.Queue[_Running] = asyncio.Queue()
    running: list[_Running] = []
    left = 0  # the first whose result is not kept
    try:
        while left < len(calls):
            if left >= most:
                if switch.is_off:
                    raise Stopped
                message = _beyond(calls[left], len(calls), most)
                id = await keep(message)
                left += 1
                for event in _message_events(message, id):
                    yield event
                continue
            for call in calls[len(running) : most]:
                if switch.is_off:
                    raise Stopped
                if not _may_start(call, running[left:], bench, limits.calls_at_once):
                    break
                yield ToolExecutionStart(call.id, call.name, call.arguments)
                running.append(_Running(call, bench, told))
            one = running[left]
            one.is_first.set()
            if not one.task.done():
                other = await switch.unless_stopped(told.get)
                if other.progress is not None and not other.task.done():
                    yield ToolExecutionUpdate(
                        other.call.id, other.call.name, other.call.arguments, other.progress
                    )
                continue
            message = one.message()
            id = await keep(message)
            left += 1
            for event in _ended(one, message, id):
                yield event
    except LEFT:
        await _end(running)
        await _keep_all(_results(calls, running)[left:], keep)
        raise
    except Stopped:
        await _end(running)
        for at, (message, id) in enumerate(await _keep_all(_results(calls, running)[left:], keep), left):
            for event in (
                _ended(running[at], message, id) if at < len(running) else _message_events(message, id)
            ):
                yield event
        raise
    except PerdureError:  # one was refused: others may have been run, too
        await _end(running)
        with suppress(PerdureError):
            await _keep_all(_results(calls, running)[left + 1 :], keep)
        raise
    finally:
        await _end(running)


def _may_start(call: ToolCall, unfinished: Sequence[_Running], bench: Bench, at_once: int) -> bool:
    """`unfinished` are the calls that have started, and whose results are not kept."""
    if not unfinished:
        return True
    is_beside_readers = _is_read_only(call, bench) and all(one.is_reading for one in unfinished)
    return is_beside_readers and len(unfinished) < at_once


def _is_read_only(call: ToolCall, bench: Bench) -> bool:
    tool = bench.tools.get(call.name)
    return tool is not None and tool.is_read_only


async def _keep_all(messages: Sequence[ToolResult], keep: Keep) -> list[tuple[ToolResult, str]]:
    """Each with its id. What is refused is told when all of them were brought: who keeps them may have them
    written later."""
    kept: list[tuple[ToolResult, str]] = []
    refused: PerdureError | None = None
    for message in messages:
        try:
            kept.append((message, await keep(message)))
        except PerdureError as error:
            refused = refused or error
    if refused is not None:
        raise refused
    return kept


def _results(calls: Sequence[ToolCall], running: Sequence[_Running]) -> list[ToolResult]:
    """Also of calls that were never begun."""
    return [one.message() for one in running] + [_never_run(call) for call in calls[len(running) :]]


def _never_run(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, call.name, [Text(_NOT_RUN)], UNSET, True, clock_milliseconds())


def _beyond(call: ToolCall, made: int, most: int) -> ToolResult:
    said = f"Not run: an answer may make {most} calls (limits.callsInOneAnswer), and this one made {made}."
    return ToolResult(call.id, call.name, [Text(said)], UNSET, True, clock_milliseconds())


def _ended(one: _Running, message: ToolResult, id: str) -> Iterator[AgentEvent]:
    yield ToolExecutionEnd(one.call.id, one.call.name, one.result(), message.is_error)
    yield from _message_events(message, id)


def _message_events(message: ToolResult, id: str) -> Iterator[AgentEvent]:
    yield MessageStart(message)
    yield MessageEnd(message, id)


async def _end(running: Sequence[_Running]) -> None:
    """Also if whoever waits here is cancelled meanwhile: a tool ends what it started before it ends."""
    tasks = [one.task for one in running if not one.task.done()]
    for task in tasks:
        task.cancel()
    if tasks:
        await settled(asyncio.wait(tasks))


async def _called(call: ToolCall, tools: Mapping[str, Tool], context: ToolContext) -> AgentToolResult:
    tool = tools.get(call.name)
    if tool is None:
        known = ", ".join(tools) or "none"
        return AgentToolResult(f"There is no tool {call.name!r}. The tools are: {known}.", is_error=True)
    try:
        arguments = checked(tool, call.arguments)
        if inspect.iscoroutinefunction(tool.run):
            return result_of(await tool.run(arguments, context))
        # It may wait for something: then nothing else would go on, and nobody could stop it.
        result = await in_thread_of_its_own(tool.run, arguments, context)
        return result_of(await result if isinstance(result, Awaitable) else result)
    except BadArguments as error:
        return AgentToolResult(f"Bad arguments for {call.name}: {error}", is_error=True)
    except PerdureError as error:
        return AgentToolResult(error.said, is_error=True)
    except (Exception, SystemExit) as error:
        said = f"{call.name} failed: {type(error).__name__}: {error}{_place(error, tool.run)}"
        return AgentToolResult(said, is_error=True)


def _place(error: BaseException, function: Any) -> str:
    """The line of the function's own file, for whoever wrote it; a model that did can mend it."""
    code = getattr(function, "__code__", None)
    found, at = "", error.__traceback__
    while code is not None and at is not None:
        if at.tb_frame.f_code.co_filename == code.co_filename:
            found = f" ({os.path.basename(code.co_filename)}:{at.tb_lineno})"
        at = at.tb_next
    return found
