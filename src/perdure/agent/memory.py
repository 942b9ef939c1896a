"""A session as its agent sees it: what is recorded, and what of it a model is sent.

What is sent is kept in memory as it grows, so that a step costs the same in a long session. It is read from
the session when it is first wanted, and anew where a turn was left half done, after a compaction, and when
the conversation goes on elsewhere: what is on disk decides.

What arrived and was refused by the disk is not lost: it waits here, in its order, and is written before
anything else is. All that is written takes turns, so nothing is written twice, or before what it follows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from perdure.agent.aside import in_thread, settled
from perdure.agent.draft import priced
from perdure.agent.events import EventMessage
from perdure.agent.hooks import in_words
from perdure.agent.models import Model, Sent, Usage
from perdure.agent.tokens import Counter
from perdure.errors import PerdureError, TooLarge, UsageError
from perdure.session import context
from perdure.session.context import RESET, Chosen, Context
from perdure.session.entry import (
    AnyMessage,
    Assistant,
    BashExecution,
    Body,
    Compaction,
    Custom,
    CustomMessage,
    Entry,
    Label,
    Message,
    ModelChange,
    SessionInfo,
    ThinkingLevelChange,
    ToolResult,
    User,
    decode,
    new,
)
from perdure.session.record import dumps
from perdure.session.session import Session

_QUICK = 0.005
"""Seconds for which nobody notices that the event loop stands still."""
_KEPT = "what arrived is kept in memory, and is saved with what is said next"
_KEPT_BEFORE = _KEPT.replace("arrived", "arrived before it")

NO_MARKS: Mapping[str, Any] = {}
Change = ModelChange | ThinkingLevelChange | SessionInfo | Custom
"""What is recorded with the next message."""
Alongside = Callable[[Assistant], Iterable[Body]]
"""What belongs to a whole answer: both are on disk, or neither."""
Keep = Callable[[Iterable[AnyMessage]], Iterable[AnyMessage]]
"""Takes what is sent, the newest first, and returns what of it is needed, in its order."""
_ASIDE = (Custom, Label, SessionInfo)
"""What is never sent, and does not move the head."""


class Spent(Struct, frozen=True):
    """What a conversation has come to."""

    tokens: int
    """What is sent with the next request, as its provider counted or as we estimate. 0 if that is not known
    yet: a session is read when something is said in it."""
    window: int
    """The most that the model can be sent."""
    cost: float
    """US dollars, for all answers since the agent was started."""


class Memory:
    def __init__(
        self, session: Session, beside: int, alongside: Alongside | None = None, keep: Keep | None = None
    ) -> None:
        """`beside` are the tokens that are sent beside the messages; `keep` makes do with a part of them."""
        self.session = session
        self.beside = beside
        self.added: list[EventMessage] = []
        """Since somebody last emptied it."""
        self.cost = 0.0
        """US dollars, for all answers and all requests for summaries since this was made."""
        self.marks = NO_MARKS
        """What is recorded with every message, beside what it says, until its user says something."""
        self._alongside = alongside
        self._keep = keep
        self._changes: list[Change] = []
        self._unsaved: list[Body | Entry] = []
        self._turns = _Turns()
        self._messages: list[Sent] | None = None
        self._condensed = 0
        """How many of them are a compaction's: see `Context`."""
        self._tokens = Counter()
        self._is_disk_quick = False
        if session.head is None:
            self._remember(_NOTHING)  # which need not be read

    @property
    def tokens(self) -> int:
        """How much a model is sent, as its provider counted or as we estimate: when that was last read, or 0
        if it was not."""
        return self._tokens.total

    def spent(self, window: int) -> Spent:
        return Spent(self.tokens, window, self.cost)

    @property
    def has_unsaved(self) -> bool:
        """Whether something arrived that is not on disk, because that refused it."""
        return bool(self._unsaved)

    def pay(self, usage: Usage, model: Model) -> None:
        """Adds what a summary cost as soon as its model has answered, whether or not the answer is used."""
        self.cost += priced(usage, model.cost)["cost"]["total"]

    def note(self, change: Change) -> None:
        """Recorded with the next message: a session in which nothing is said stays empty. Of each kind the
        last one counts; one that the session's layout forbids is no reason to write."""
        is_setting = isinstance(change, ModelChange | ThinkingLevelChange)
        if is_setting and self.session.store.forbidden(new(change)):
            return
        self._changes = [each for each in self._changes if _kind(each) != _kind(change)] + [change]

    # --- what is recorded ----------------------------------------------------------------------------

    async def keep(self, message: EventMessage) -> str:
        """Durable when this returns what it is called from then on."""
        alongside: list[Body] = []
        failed: Exception | None = None
        if isinstance(message, Assistant):
            self.cost += message.usage["cost"]["total"]
            if self._alongside is not None and not message.is_broken_off:
                try:
                    alongside = [*self._alongside(message)]
                    for body in alongside:
                        new(body)  # what cannot be recorded must not take the answer with it
                except Exception as error:
                    alongside, failed = [], error
        has_arrived = not isinstance(message, User)
        if not has_arrived:
            self.marks = NO_MARKS  # its user has something to say, and so has who answers that
        async with self._turns:
            said = _marked(Message(message), self.marks)
            entries = await self._write([said, *alongside], has_arrived=has_arrived)
        self.added.append(message)
        if (isinstance(message, Assistant) and message.is_broken_off) or not _are_aside(alongside):
            self.forget()  # the session knows what of it is sent
        elif not isinstance(message, Assistant) or message.content:
            self._add(message)
        if failed is not None:
            raise PerdureError(f"What belongs to the answer was not recorded: {in_words(failed)}") from failed
        return entries[0].id

    async def keep_command(self, ran: BashExecution) -> None:
        """One of the user's own, durable when this returns."""
        async with self._turns:
            entries = await self._write([Message(ran)], has_arrived=True)
        ((_, message),) = context.said(entries)
        if isinstance(message, User):
            self._add(message)

    async def keep_compaction(self, body: Compaction, *settings: ModelChange | ThinkingLevelChange) -> None:
        """With the settings of the moment beside it, nobody has to look for them further back. What is sent
        from now on is read at once: it is not much, and it is wanted next."""
        async with self._turns:
            await self._write([*settings, body], has_arrived=True)
        self.forget()
        await self.sent()

    async def record(self, *bodies: Body) -> None:
        """Entries of a program's own, durable when this returns. Like a prompt, they are not kept here if the
        disk refuses them: who brought them can bring them again."""
        async with self._turns:
            await self._write(bodies)
        if not _are_aside(bodies):
            self.forget()

    async def save(self) -> bool:
        """Write what is not on disk; whether that was something. In a session in which nothing was said,
        changes are nothing."""
        async with self._turns:
            if not self._unsaved and (not self._changes or self.session.is_empty):
                return False
            await self._write()
        return True

    async def reset(self) -> Chosen:
        """What was said stays, and is not sent any more; returns what was chosen. An empty session stays
        empty."""
        if self._unsaved or not self.session.is_empty:
            await self.record(Custom(RESET))
            self._remember(_NOTHING)
        return await in_thread(self.session.chosen)

    async def _write(self, bodies: Sequence[Body | Entry] = (), *, has_arrived: bool = False) -> list[Entry]:
        """What the disk refused before, the changes if something is said, and these; returns these. What
        `has_arrived` waits for the next time if it is refused, unless nothing can ever hold it."""
        unsaved = self._unsaved
        is_said = not bodies or not _are_aside(bodies)
        changes = self._changes if is_said else []
        everything = (*unsaved, *changes, *bodies)
        try:
            if self._is_disk_quick:
                entries = self._append(everything)
            else:
                entries = await in_thread(self._append, everything)
        except PerdureError as error:
            if has_arrived and not isinstance(error, UsageError | TooLarge):
                self._unsaved = [*unsaved, *bodies]
            if self._unsaved:
                kept = _KEPT if has_arrived or not bodies else _KEPT_BEFORE
                error.also = kept
                error.add_note(kept)
            raise
        self._unsaved = []
        # What is noted meanwhile is recorded next time.
        self._changes = [each for each in self._changes if not any(each is saved for saved in changes)]
        if unsaved:
            self.forget()
        return entries[len(unsaved) + len(changes) :]

    def _append(self, bodies: Sequence[Body | Entry]) -> list[Entry]:
        """A trip to a thread costs more than most appends. So it is made while the disk is slow, and until it
        is known that it is not."""
        self._is_disk_quick = False
        begun = time.perf_counter()
        entries = self.session.append(*bodies)
        self._is_disk_quick = time.perf_counter() - begun < _QUICK
        return entries

    # --- what is sent --------------------------------------------------------------------------------

    def _add(self, message: Sent) -> None:
        if self._messages is not None:
            self._messages.append(message)
            self._tokens.add(message)

    async def sent(self) -> list[Sent]:
        """All that a model is sent now, but for the system prompt and the tools."""
        if self._messages is None:
            async with self._turns:
                if self._messages is None:
                    self._remember(await in_thread(self._read))
        assert self._messages is not None
        return self._messages

    def _read(self) -> Context:
        if self._keep is not None:
            try:
                kept = self._keep(self.session.messages_back())
                return Context(context.answered(kept), None, "off")
            except LookupError:
                pass  # only a whole reading tells the order
        return self.session.context()

    async def live(self) -> list[Entry]:
        """The entries that it is made of."""
        return await in_thread(self.session.live)

    async def has_said(self, message: CustomMessage) -> bool:
        """Whether it is among what is sent already: an answer to it may have failed."""
        return any(each.type == "custom_message" and each.body == message for each in await self.live())

    def weigh(self, beside: int) -> None:
        """So many tokens are sent beside the messages from now on."""
        self.beside = beside
        if self._messages is not None:
            self._tokens = Counter.of(self._messages, self._condensed, beside)

    async def move(self, entry_id: str | None) -> Chosen:
        """Go on from another entry; returns what was chosen there. What is not saved yet belongs where the
        conversation stands."""
        async with self._turns:
            is_elsewhere = entry_id != self.session.head
            if is_elsewhere:  # else what is chained behind the head stays: a reset, for one
                if self._unsaved:
                    await self._write()
                await in_thread(self.session.move, entry_id)
            self.forget()
            self._tokens = Counter()
        return await in_thread(self.session.chosen)

    def forget(self) -> None:
        """Read it anew when it is wanted."""
        self._messages = None

    def _remember(self, found: Context) -> None:
        self._messages = [m for m in found.messages if isinstance(m, User | Assistant | ToolResult)]
        self._condensed = found.condensed
        self._tokens = Counter.of(self._messages, found.condensed, self.beside)


_NOTHING = Context([], None, "off")


class _Turns:
    """One at a time, in the order in which they came. Whoever is cancelled while it waits here learns of it
    later, because what it brings would be lost."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._count = 0

    async def __aenter__(self) -> None:
        self._count += 1
        taken = self._lock.acquire()
        await (taken if self._count == 1 else settled(taken))

    async def __aexit__(self, *exception: object) -> None:
        self._count -= 1
        self._lock.release()


def _marked(body: Body, marks: Mapping[str, Any]) -> Body | Entry:
    return decode(b"%b,%b" % (new(body).raw[:-1], dumps(marks)[1:])) if marks else body


def _kind(change: Change) -> tuple[type[Change], str]:
    return type(change), change.custom_type if isinstance(change, Custom) else ""


def _are_aside(bodies: Sequence[Body | Entry]) -> bool:
    return all(isinstance(body, _ASIDE) for body in bodies)
