"""An agent in a session: what is said is recorded, then told.

The prompt is on disk before the model is asked, and each message before the next step. What is sent is kept
in memory as it grows, so a step costs the same in a long session; it is read anew from the session where a
turn was left half done, and after a compaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from msgspec import Struct

from perdure.agent import compaction, loop
from perdure.agent.compaction import CompactionStrategy, Reason
from perdure.agent.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    AutoRetryEnd,
    AutoRetryStart,
    CompactionEnd,
    CompactionStart,
    EventMessage,
    MessageEnd,
    MessageStart,
    QueueUpdate,
    TurnEnd,
    TurnStart,
)
from perdure.agent.loop import Bench, in_thread
from perdure.agent.models import LanguageModel, Request, Sent
from perdure.agent.settings import Retry
from perdure.agent.switch import Stopped, Switch
from perdure.agent.tokens import Counter
from perdure.errors import ContextOverflow, ModelError, ModelUnavailable, PerdureError, UsageError
from perdure.session.entry import (
    Assistant,
    Body,
    Content,
    Message,
    ModelChange,
    SessionInfo,
    ThinkingLevelChange,
    ToolResult,
    User,
)
from perdure.session.ids import clock_milliseconds
from perdure.session.session import Session

_MARGIN = 1024
"""Tokens by which our count of a context may be too low."""
_LEAST = 1024
"""Tokens that an answer is given in any case: whether they fit, the provider says."""


class Voice(Struct, frozen=True):
    """Who answers, and how."""

    model: LanguageModel
    thinking: str = "off"


class Agent:
    def __init__(
        self,
        session: Session,
        voice: Voice,
        bench: Bench,
        *,
        system: str,
        strategy: CompactionStrategy,
        summariser: Callable[[], LanguageModel] | None = None,
        retry: Retry,
    ) -> None:
        """`summariser` gives the model that condenses the conversation, if it is not the one that talks."""
        self._session = session
        self._voice = voice
        self._bench = bench
        self._system = system
        self._strategy = strategy
        self._summariser = summariser
        self._retry = retry
        self._specs = [tool.spec for tool in bench.tools.values()]
        self._switch = Switch()
        self._is_busy = False
        self._steering: list[str] = []
        self._follow_ups: list[str] = []
        self._queue_changed = False
        self._unsaved: list[Body] = []
        """Settings that were changed since the last message; they are recorded with the next."""
        self._messages: list[Sent] | None = None
        """What is sent; None when it has to be read anew."""
        self._tokens = Counter()
        self._added: list[EventMessage] = []

    # --- what others do with it ----------------------------------------------------------------------

    @property
    def voice(self) -> Voice:
        return self._voice

    @property
    def is_busy(self) -> bool:
        return self._is_busy

    @property
    def context_tokens(self) -> int:
        """How much the model was last sent, as its provider counted or as we estimate."""
        return self._tokens.total

    def speak_as(self, voice: Voice) -> None:
        """Another model, or another way of thinking, from the next request on."""
        before, self._voice = self._voice, voice
        model = voice.model.model
        if (model.provider, model.id) != (before.model.model.provider, before.model.model.id):
            self.note_change(ModelChange(model.provider, model.id))
        if voice.thinking != before.thinking:
            self.note_change(ThinkingLevelChange(voice.thinking))

    def note_change(self, change: ModelChange | ThinkingLevelChange | SessionInfo) -> None:
        """Recorded with the next message: a session in which nothing is said stays empty."""
        self._unsaved = [each for each in self._unsaved if type(each) is not type(change)] + [change]

    def abort(self) -> None:
        """End the running turn; what arrived is kept, marked as aborted. What was queued is given up."""
        if self._is_busy:
            self._switch.stop()

    def steer(self, text: str) -> None:
        """Say something as soon as the tools that are running have ended."""
        self._queue(self._steering, text)

    def follow_up(self, text: str) -> None:
        """Say something when the agent has nothing more to do."""
        self._queue(self._follow_ups, text)

    def _queue(self, waiting: list[str], text: str) -> None:
        if not self._is_busy:
            raise UsageError("The agent is not at work", "send it a message")
        waiting.append(text)
        self._queue_changed = True

    def send(self, content: Content) -> AsyncGenerator[AgentEvent, None]:
        """Say something, and watch what comes of it. The order of the events is in `perdure.agent.events`.

        A model that fails is told by the last message. What raises is `NotSaved` and the like: what was said
        could not be recorded.
        """
        return self._working(self._answering([User(content, clock_milliseconds())]))

    async def compact(self, instructions: str = "") -> AsyncGenerator[AgentEvent, None]:
        """Condense the conversation now. Raises ModelError if the summary cannot be made."""
        async with aclosing(self._working(self._compacting("manual", instructions))) as events:
            async for event in events:
                if isinstance(event, CompactionStart | CompactionEnd):
                    yield event

    # --- one prompt ----------------------------------------------------------------------------------

    async def _working(self, work: AsyncGenerator[AgentEvent, None]) -> AsyncGenerator[AgentEvent, None]:
        if self._is_busy:
            await work.aclose()
            raise UsageError("The agent is at work already", "wait for it, steer it, or abort it")
        self._is_busy = True
        self._switch.reset()
        self._added = []
        try:
            yield AgentStart()
            try:
                async with aclosing(work):
                    async for event in work:
                        yield event
                        if self._queue_changed:
                            yield self._queue_update()
            except Stopped:
                self._messages = None
            if self._steering or self._follow_ups:
                self._steering, self._follow_ups = [], []
                yield self._queue_update()
            yield AgentEnd(self._added)
        except BaseException:
            self._messages = None  # what is on disk decides
            raise
        finally:
            self._steering, self._follow_ups = [], []
            self._is_busy = False

    def _queue_update(self) -> QueueUpdate:
        self._queue_changed = False
        return QueueUpdate([*self._steering], [*self._follow_ups])

    async def _answering(self, said: Sequence[User]) -> AsyncGenerator[AgentEvent, None]:
        while True:
            yield TurnStart()
            for message in said:
                id = await self._keep(message)
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
            said = self._said_meanwhile(has_results=bool(end.tool_results))
            if not said and not end.tool_results:
                return

    def _said_meanwhile(self, *, has_results: bool) -> list[User]:
        if self._steering:
            texts, self._steering = self._steering, []
        elif self._follow_ups and not has_results:
            texts, self._follow_ups = self._follow_ups[:1], self._follow_ups[1:]
        else:
            return []
        self._queue_changed = True
        return [User(text, clock_milliseconds()) for text in texts]

    async def _persistent_turn(self) -> AsyncGenerator[AgentEvent, None]:
        """A turn, tried again where that may help: later, if the model is busy; once with less, if it was
        too much."""
        attempt = 0
        may_compact = True
        if await self._is_due():
            async with aclosing(self._compacting("threshold")) as events:
                async for event in events:
                    yield event
        while True:
            before = len(self._added)
            try:
                request = await self._request()
                turn = loop.turn(self._voice.model, request, self._bench, self._keep, self._switch)
                async with aclosing(turn) as events:
                    async for event in events:
                        yield event
                        if attempt and isinstance(event, MessageEnd) and isinstance(event.message, Assistant):
                            yield AutoRetryEnd(True, attempt)
                            attempt = 0
                return
            except ContextOverflow as error:
                failure: ModelError = error
                if may_compact and self._strategy.on_overflow:
                    may_compact = False
                    has_shrunk = False
                    async with aclosing(self._compacting("overflow")) as events:
                        async for event in events:
                            has_shrunk |= isinstance(event, CompactionEnd) and event.will_retry
                            yield event
                    if has_shrunk:
                        continue
            except ModelUnavailable as error:
                failure = error
                delay = self._delay(error, attempt)
                if delay is not None:
                    attempt += 1
                    milliseconds = round(delay * 1000)
                    yield AutoRetryStart(attempt, self._retry.max_retries, milliseconds, error.message)
                    await self._switch.unless_stopped(lambda seconds=delay: asyncio.sleep(seconds))  # type: ignore[misc]
                    continue
            except ModelError as error:
                failure = error
            async with aclosing(self._failed(failure, attempt, is_kept=len(self._added) > before)) as events:
                async for event in events:
                    yield event
            return

    async def _failed(
        self, error: ModelError, attempt: int, *, is_kept: bool
    ) -> AsyncGenerator[AgentEvent, None]:
        if attempt:
            yield AutoRetryEnd(False, attempt, error.message)
        if not is_kept:
            model = self._voice.model.model
            message = Assistant(
                [],
                model.api,
                model.provider,
                model.id,
                stop_reason="error",
                error_message="; ".join(filter(None, (error.message, error.hint))),
                timestamp=clock_milliseconds(),
            )
            id = await self._keep(message)
            yield MessageStart(message)
            yield MessageEnd(message, id)
        last = self._added[-1]
        assert isinstance(last, Assistant)
        yield TurnEnd(last, [])

    def _delay(self, error: ModelUnavailable, attempt: int) -> float | None:
        """Seconds until the next try; None if there is none."""
        if not self._retry.enabled or attempt >= self._retry.max_retries:
            return None
        longest = self._retry.max_delay_ms / 1000
        if error.retry_after is not None:
            return error.retry_after if error.retry_after <= longest else None
        return float(min(self._retry.base_delay_ms / 1000 * 2**attempt, longest))

    async def _request(self) -> Request:
        return Request(
            system=self._system,
            messages=tuple(await self._sent()),
            tools=self._specs,
            thinking=self._voice.thinking,
            max_tokens=self._room_for_an_answer(),
            session_id=self._session.id,
        )

    def _room_for_an_answer(self) -> int:
        """Less than the model could say, where its window would not hold that: some providers refuse a
        request for more. 0 where it has room."""
        model = self._voice.model.model
        room = model.context_window - self._tokens.total - _MARGIN
        return 0 if room >= model.max_tokens else max(room, _LEAST)

    # --- what is kept --------------------------------------------------------------------------------

    async def _keep(self, message: EventMessage) -> str:
        bodies = [*self._unsaved, Message(message)]
        entries = await in_thread(self._session.append, *bodies)
        self._unsaved = []
        self._added.append(message)
        if isinstance(message, Assistant) and message.stop_reason in ("error", "aborted"):
            self._messages = None  # the session knows what of it is sent
        elif self._messages is not None and (not isinstance(message, Assistant) or message.content):
            self._messages.append(message)
            self._tokens.add(message)
        return entries[-1].id

    async def _sent(self) -> list[Sent]:
        if self._messages is None:
            context = await in_thread(self._session.context)
            self._messages = [m for m in context.messages if isinstance(m, User | Assistant | ToolResult)]
            self._tokens = Counter.of(self._messages, context.condensed)
        return self._messages

    async def _is_due(self) -> bool:
        await self._sent()
        return self._strategy.is_due(self._tokens.total, self._voice.model.model)

    async def _compacting(self, reason: Reason, instructions: str = "") -> AsyncGenerator[AgentEvent, None]:
        """Tells of it, unless there is nothing to condense. Where nobody asked for it, the turn goes on if it
        fails."""
        entries = await in_thread(self._session.live)
        talking = self._voice.model.model
        if self._strategy.plan(entries, talking, reason) is None:
            if reason == "manual":
                raise PerdureError("Not compacted: there is nothing to condense")
            return
        yield CompactionStart(reason)
        try:
            body = await self._switch.unless_stopped(
                lambda: compaction.summarise(
                    entries,
                    strategy=self._strategy,
                    model=self._summariser() if self._summariser else self._voice.model,
                    talking=talking,
                    reason=reason,
                    instructions=instructions,
                )
            )
        except Stopped:
            yield CompactionEnd(reason, aborted=True)
            raise
        except ModelError as error:
            yield CompactionEnd(reason, error_message=error.message)
            if reason == "manual":
                raise
            return
        assert body is not None
        # With the settings of the moment beside it, nobody has to look for them further back.
        settings = (ModelChange(talking.provider, talking.id), ThinkingLevelChange(self._voice.thinking))
        await in_thread(self._session.append, *self._unsaved, *settings, body)
        self._unsaved = []
        self._messages = None
        result = {
            "summary": body.summary,
            "firstKeptEntryId": body.first_kept_entry_id,
            "tokensBefore": body.tokens_before,
        }
        yield CompactionEnd(reason, result, will_retry=reason == "overflow")
