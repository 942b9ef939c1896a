"""An agent in a session: what is said is recorded, then told.

The prompt is on disk before the model is asked, and each message before the next step. A model that is busy
is asked again later, one that was sent too much once with less, one that does not stop is stopped, and a
conversation that has grown too long is condensed before it is sent. An agent does one thing at a time.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any

from msgspec import structs

from perdure.agent import loop, retrying
from perdure.agent.aside import settled
from perdure.agent.compaction import CompactionStrategy
from perdure.agent.draft import Draft
from perdure.agent.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    AutoRetryEnd,
    CompactionEnd,
    CompactionStart,
    MessageEnd,
    MessageStart,
    Reason,
    TurnEnd,
    TurnStart,
)
from perdure.agent.hooks import Event
from perdure.agent.limits import Run
from perdure.agent.loop import Bench
from perdure.agent.memory import NO_MARKS, Alongside, Change, Memory
from perdure.agent.model_choice import Voice
from perdure.agent.models import LanguageModel, Model, Request
from perdure.agent.queue import Queue
from perdure.agent.settings import USUAL_LIMITS, Limits, Retry
from perdure.agent.summary import facts_of, summarise
from perdure.agent.switch import Stopped
from perdure.agent.tokens import of_message, of_text, room_for_an_answer
from perdure.agent.tools import AgentToolResult
from perdure.agent.work import Watched, Work
from perdure.errors import ContextOverflow, ModelError, ModelUnavailable, PerdureError
from perdure.session.context import Chosen
from perdure.session.entry import (
    Assistant,
    BashExecution,
    Content,
    CustomMessage,
    ThinkingLevelChange,
    ToolResult,
    User,
)
from perdure.session.ids import clock_milliseconds
from perdure.session.record import dumps
from perdure.session.session import Session

_FAR = 1000
"""Entries that are read back in ten milliseconds."""
OPENING = "perdure.opening"
"""What an agent that speaks first is asked to say: a program's words, and never its user's."""

Equipped = tuple[Callable[[], str], Bench]
"""What tells the system prompt, and the tools."""
Equip = Callable[[], Awaitable[Equipped]]
"""The same, when all tools are there."""


class Agent:
    def __init__(
        self,
        session: Session,
        voice: Voice,
        bench: Bench,
        *,
        system: str,
        strategy: CompactionStrategy,
        summariser: LanguageModel | None = None,
        retry: Retry,
        limits: Limits = USUAL_LIMITS,
        equip: Equip | None = None,
        alongside: Alongside | None = None,
    ) -> None:
        """`summariser` is the model that condenses the conversation, if it is not the one that talks; `equip`
        waits for tools that are still on their way, before the model is first asked."""
        self._voice = voice
        self._bench = bench
        self._system = system
        self._equip = equip
        self._equipping: asyncio.Future[Equipped] | None = None
        self._strategy = strategy
        self._summariser = summariser
        self._specs = [tool.spec for tool in bench.tools.values()]
        keep = getattr(strategy, "kept", None)  # not each strategy does without something
        self._memory = Memory(session, self._beside(), alongside, keep)
        self._work = Work()
        self._switch = self._work.switch
        self._waiting = partial(retrying.waiting, retry=retry, switch=self._switch)
        self._limits = limits
        self.run = Run(limits, lambda: self._memory.cost)
        self._queue = Queue()
        self._draft: Draft | None = None
        """The last attempt at the answer of this turn, while nothing of it is kept."""

    def _beside(self) -> int:
        return of_text(self._system) + of_text(dumps(self._specs).decode())

    # --- what others do with it ----------------------------------------------------------------------

    @property
    def bench(self) -> Bench:
        return self._bench

    @property
    def system(self) -> str:
        """What the model is told before the conversation."""
        return self._system

    def instruct(self, system: str) -> None:
        """Another system prompt, from the next request on."""
        self._system = system
        self._memory.weigh(self._beside())

    @property
    def memory(self) -> Memory:
        return self._memory

    @property
    def voice(self) -> Voice:
        return self._voice

    @property
    def is_busy(self) -> bool:
        return self._work.is_under_way

    @property
    def given_up(self) -> list[str]:
        """What was queued in the last turn and never said: it was aborted, left, or failed."""
        return [*self._queue.given_up]

    def speak_as(self, voice: Voice) -> None:
        """Another model, or another way of thinking, from the next request on."""
        before, self._voice = self._voice, voice
        if voice.model_change != before.model_change:
            self.note_change(voice.model_change)
        if voice.thinking != before.thinking:
            self.note_change(ThinkingLevelChange(voice.thinking))

    def note_change(self, change: Change) -> None:
        """Recorded with the next message: a session in which nothing is said stays empty."""
        self._memory.note(change)

    def note_what_differs(self, chosen: Chosen) -> None:
        """Of what is in use, from what the session says. All of it, where that was said so long ago that
        nobody should have to look for it again."""
        now = self._voice.model_change
        recorded = chosen.model, chosen.is_model_chosen
        is_far = chosen.distance > _FAR
        if is_far or recorded != ((now.provider, now.model_id), now.is_chosen is True):
            self.note_change(now)
        if is_far or chosen.thinking_level != self._voice.thinking:
            self.note_change(ThinkingLevelChange(self._voice.thinking))

    async def be_equipped(self) -> None:
        """Wait for all tools to be there, if some are on their way."""
        if self._equip is None:
            return
        system, bench = await asyncio.shield(self._begin_to_equip(self._equip))  # several may wait for it
        if self._equip is not None:
            self._equip = None
            self._bench = bench
            self._specs = [tool.spec for tool in bench.tools.values()]
            self.instruct(system())

    def _begin_to_equip(self, equip: Equip) -> asyncio.Future[Equipped]:
        if self._equipping is None:
            self._equipping = asyncio.ensure_future(equip())
        return self._equipping

    @property
    def is_waiting_for_tools(self) -> bool:
        return self._equip is not None and self._equipping is not None

    def abort(self) -> None:
        """End the running turn, or command; what arrived is kept, marked as aborted, and what was queued is
        in `given_up`."""
        self._work.stop()

    def steer(self, text: str) -> None:
        """Say something as soon as the tools that are running have ended."""
        self._queue.steer(text)

    def follow_up(self, text: str) -> None:
        """Say something when the agent has nothing more to do."""
        self._queue.follow_up(text)

    def send(self, content: Content) -> AsyncGenerator[AgentEvent, None]:
        """Say something, and watch what comes of it. The order of the events is in `perdure.agent.events`. A
        model that fails is told by the last message. What raises is `NotSaved` and the like: what was said
        could not be recorded."""
        return self._watch(partial(self._answering, User(content, clock_milliseconds())))

    def speak_first(self, prompt: str, marks: Mapping[str, Any]) -> AsyncGenerator[AgentEvent, None]:
        """The agent opens the conversation, as it is asked to by a program. The events are those of `send`,
        but for the prompt: it is recorded, and nobody's message."""
        return self._watch(partial(self._answering, CustomMessage(OPENING, prompt, display=False), marks))

    def compact(self, instructions: str = "") -> AsyncGenerator[AgentEvent, None]:
        """Condense the conversation now. Raises ModelError if the summary cannot be made, and PerdureError if
        there is nothing to condense."""
        return self._watch(partial(self._compacting, "manual", instructions), is_a_turn=False)

    async def run_command(
        self, command: str, *, is_sent: bool = True, watch: Callable[[AgentToolResult], None] = lambda _: None
    ) -> BashExecution:
        """Run a command of the user's own, as the bash tool does; `watch` is shown what it writes. It is on
        disk when this returns, and the model reads of it with the next request, if it `is_sent`.

        `abort` ends it with all its processes, and it is returned as cancelled. So does cancelling the task
        that waits here, which is told when that is on disk. PerdureError, and no record, if it cannot be run.
        """
        from perdure.agent import user_command

        await self._work.begin()
        try:
            return await user_command.run(
                command, self._bench, self._switch, self._memory.keep_command, is_sent=is_sent, watch=watch
            )
        finally:
            self._work.end()

    async def move(self, entry_id: str | None) -> None:
        """Go on from an earlier entry of the session, None being before the first, with the same model.
        Nothing is written before something is said there."""
        await self._work.begin()
        try:
            self.note_what_differs(await self._memory.move(entry_id))
        finally:
            self._work.end()

    async def reset(self) -> None:
        """A conversation from scratch, with the same model: nothing that was said so far is sent any more."""
        await self._work.begin()
        try:
            self.note_what_differs(await self._memory.reset())
        finally:
            self._work.end()

    async def finish(self) -> None:
        """End what is under way, and wait until that is kept: also if whoever watched it went away."""
        await self._work.finish()
        if self._equipping is not None and not self._equipping.done():
            self._equipping.cancel()
            await settled(asyncio.wait([self._equipping]))

    # --- one prompt ----------------------------------------------------------------------------------

    def _watch(
        self, work: Callable[[], AsyncGenerator[AgentEvent, None]], *, is_a_turn: bool = True
    ) -> AsyncGenerator[AgentEvent, None]:
        itself: list[Watched] = []
        watched = self._working(work, itself, is_a_turn)
        itself.append(weakref.ref(watched))
        return watched

    async def _working(
        self,
        work: Callable[[], AsyncGenerator[AgentEvent, None]],
        itself: Sequence[Watched],
        is_a_turn: bool,
    ) -> AsyncGenerator[AgentEvent, None]:
        await self._work.begin(itself[0])
        queue, listeners = self._queue, self._bench.hooks.listeners
        self._memory.added = []
        self.run.begin()
        try:
            if is_a_turn:
                queue.open()
                if self._equip is not None:
                    self._begin_to_equip(self._equip)  # beside all that comes before the model is asked
                yield await self._told(AgentStart())
            try:
                async with aclosing(work()) as events:
                    async for event in events:
                        if listeners:
                            await self._told(event)
                        yield event
                        if queue.has_changed:
                            yield await self._told(queue.update())
            except Stopped:
                self._memory.forget()
            if queue.close():
                yield await self._told(queue.update())
            if is_a_turn:
                yield await self._told(AgentEnd(self._memory.added))
        except BaseException:
            self._memory.forget()
            raise
        finally:
            queue.close()
            self._memory.marks = NO_MARKS
            self._work.end()

    async def _told(self, event: Event) -> Event:
        return await self._bench.hooks.told(event, self._switch)

    async def _answering(
        self, first: User | CustomMessage, marks: Mapping[str, Any] = NO_MARKS
    ) -> AsyncGenerator[AgentEvent, None]:
        self._memory.marks = marks
        said = [first] if isinstance(first, User) else []
        yield TurnStart()
        if isinstance(first, CustomMessage) and not await self._memory.has_said(first):
            await self._memory.record(first)
        while True:
            for message in said:
                self.run.begin()
                id = await self._memory.keep(message)
                self._queue.said()
                yield MessageStart(message)
                yield MessageEnd(message, id)
            end: TurnEnd | None = None
            async with aclosing(self._persistent_turn()) as events:
                async for event in events:
                    yield event
                    if isinstance(event, TurnEnd):
                        end = event
            if end is None or end.message.stop_reason == "error":
                return
            queued = self._queue.take(has_results=bool(end.tool_results))
            if not queued and not end.tool_results:
                return
            said = [User(text, clock_milliseconds()) for text in queued]
            yield TurnStart()

    async def _persistent_turn(self) -> AsyncGenerator[AgentEvent, None]:
        """A turn, tried again where that may help. However it ends, one answer is kept, and says how: an
        attempt that broke off only if it is the last one."""
        before = len(self._memory.added)
        self._draft = None
        try:
            if self._equip is not None:
                await self._switch.unless_stopped(self.be_equipped)
            if await self._is_due():
                async with aclosing(self._compacting("threshold")) as events:
                    async for event in events:
                        yield event
            async with aclosing(self._tries()) as events:
                async for event in events:
                    yield event
        except loop.LEFT:
            if self._draft is not None and self._draft.has_arrived and len(self._memory.added) == before:
                await self._memory.keep(self._draft.broken_off("aborted", loop.BY_USER))
            raise
        except Stopped:
            if len(self._memory.added) == before:
                for event in await self._keep_broken_off("aborted", loop.BY_USER, has_begun=False):
                    yield event
            yield self._turn_end(before)
            raise
        except ModelError as error:
            has_begun = self._draft is not None and len(self._draft) > 0
            for event in await self._keep_broken_off("error", error.said, has_begun=has_begun):
                yield event
            yield self._turn_end(before)

    async def _tries(self) -> AsyncGenerator[AgentEvent, None]:
        """Again later, if the model is busy; once with less, if it was too much. Raises what is left."""
        attempt = 0
        may_compact = True
        while True:
            try:
                self.run.ask()
                request = await self._request()
                model, bench, keep = self._voice.model, self._bench, self._memory.keep
                draft = self._next_draft()
                turn = loop.turn(model, request, bench, keep, self._switch, draft, self._limits)
                async with aclosing(turn) as events:
                    async for event in events:
                        yield event
                        if attempt and retrying.is_enough(event):
                            yield AutoRetryEnd(True, attempt)
                            attempt = 0
                return
            except ContextOverflow as error:
                has_shrunk = False
                if may_compact:
                    may_compact = False
                    async with aclosing(self._compacting("overflow")) as events:
                        async for event in events:
                            if isinstance(event, CompactionStart):
                                self._next_draft()  # the attempt is given up
                            has_shrunk |= isinstance(event, CompactionEnd) and event.will_retry
                            yield event
                if not has_shrunk:
                    if attempt:
                        yield AutoRetryEnd(False, attempt, error.message)
                    raise
            except ModelUnavailable as error:
                if self._memory.marks:  # what is only said about a conversation is not worth a wait
                    raise
                attempt += 1
                async with aclosing(self._waiting(error, attempt)) as events:
                    async for event in events:
                        yield event
            except ModelError as error:
                if attempt:
                    yield AutoRetryEnd(False, attempt, error.message)
                raise

    def _next_draft(self) -> Draft:
        """Of another attempt. What arrived in those before it stands until something arrives in this one."""
        self._draft = Draft(self._voice.model.model, clock_milliseconds(), self._draft)
        return self._draft

    async def _keep_broken_off(self, reason: str, why: str, *, has_begun: bool) -> list[AgentEvent]:
        """What arrived of the answer is kept. If nothing did, that is kept, too: it says why."""
        message = self._next_draft().broken_off(reason, why)
        end = MessageEnd(message, await self._memory.keep(message))
        return [end] if has_begun else [MessageStart(message), end]

    def _turn_end(self, before: int) -> TurnEnd:
        added = self._memory.added[before:]
        *_, answer = (message for message in added if isinstance(message, Assistant))
        return TurnEnd(answer, [message for message in added if isinstance(message, ToolResult)])

    async def _request(self) -> Request:
        messages, beside = await self._memory.sent(), self._memory.beside
        sent = self._strategy.sent(messages, beside, self._voice.model.model)
        tokens = self._memory.tokens if sent is messages else beside + sum(map(of_message, sent))
        return Request(
            system=self._system,
            messages=tuple(sent),
            tools=self._specs,
            thinking=self._voice.thinking,
            max_tokens=room_for_an_answer(self._voice.model.model, tokens),
            session_id=self._memory.session.id,
        )

    # --- condensing ----------------------------------------------------------------------------------

    async def _is_due(self) -> bool:
        await self._memory.sent()
        tokens = self._memory.tokens - self._memory.beside
        return self._strategy.is_due(tokens, self._model_for_messages())

    def _model_for_messages(self) -> Model:
        """The model, with the part of its window that is left for the conversation."""
        model = self._voice.model.model
        return structs.replace(model, context_window=max(model.context_window - self._memory.beside, 1))

    async def _compacting(self, reason: Reason, instructions: str = "") -> AsyncGenerator[AgentEvent, None]:
        """Tells of it, unless there is nothing to condense. Where nobody asked for it, the turn goes on if it
        fails."""
        talking = self._model_for_messages()
        plan = self._strategy.plan(await self._memory.live(), talking, reason)
        if plan is None:
            if reason == "manual":
                raise PerdureError("Not compacted: there is nothing to condense")
            return
        self.run.check()
        yield CompactionStart(reason)
        attempt = 0
        model = self._summariser or self._voice.model
        about = partial(summarise, plan, talking=talking, instructions=instructions)
        asked = partial(about, model=model, limits=self._limits, ask=self.run.ask, pay=self._memory.pay)
        try:
            while True:
                try:
                    body = await self._switch.unless_stopped(asked)
                    break
                except ModelUnavailable as error:
                    attempt += 1
                    async with aclosing(self._waiting(error, attempt)) as events:
                        async for event in events:
                            yield event
                except ModelError as error:
                    if attempt:
                        yield AutoRetryEnd(False, attempt, error.message)
                    raise
        except Stopped:
            yield CompactionEnd(reason, aborted=True)
            raise
        except ModelError as error:
            yield CompactionEnd(reason, error_message=error.message)
            if reason == "manual":
                raise
            self.run.check()  # what ended the summary may have to end the turn
            return
        if attempt:
            yield AutoRetryEnd(True, attempt)
        voice = self._voice
        await self._memory.keep_compaction(body, voice.model_change, ThinkingLevelChange(voice.thinking))
        yield CompactionEnd(reason, facts_of(body), will_retry=reason == "overflow")
