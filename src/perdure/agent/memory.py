"""A session as its agent sees it: what is recorded, and what of it a model is sent.

What is sent is kept in memory as it grows, so that a step costs the same in a long session. It is read from
the session when it is first wanted, and anew where a turn was left half done, after a compaction, and when
the conversation goes on elsewhere: what is on disk decides.
"""

from __future__ import annotations

import time

from msgspec import Struct

from perdure.agent.aside import in_thread
from perdure.agent.events import EventMessage
from perdure.agent.models import Sent
from perdure.agent.tokens import Counter
from perdure.session.context import Chosen, Context, said
from perdure.session.entry import (
    Assistant,
    BashExecution,
    Body,
    Compaction,
    Entry,
    Message,
    ModelChange,
    SessionInfo,
    ThinkingLevelChange,
    ToolResult,
    User,
)
from perdure.session.session import Session

_QUICK = 0.005
"""Seconds for which nobody notices that the event loop stands still."""


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
    def __init__(self, session: Session, beside: int) -> None:
        """`beside` are the tokens that are sent beside the messages."""
        self.session = session
        self.beside = beside
        self.added: list[EventMessage] = []
        """Since somebody last emptied it."""
        self.cost = 0.0
        """US dollars, for all answers and summaries since this was made."""
        self._unsaved: list[Body] = []
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

    def note(self, change: ModelChange | ThinkingLevelChange | SessionInfo) -> None:
        """Recorded with the next message: a session in which nothing is said stays empty."""
        self._unsaved = [each for each in self._unsaved if type(each) is not type(change)] + [change]

    async def keep(self, message: EventMessage) -> str:
        """Durable when this returns what it is called from then on."""
        entries = await self.record(Message(message))
        self.added.append(message)
        if not isinstance(message, Assistant):
            self._add(message)
            return entries[-1].id
        self.cost += message.usage["cost"]["total"]
        if message.is_broken_off:
            self.forget()  # the session knows what of it is sent
        elif message.content:
            self._add(message)
        return entries[-1].id

    async def keep_command(self, ran: BashExecution) -> None:
        """One of the user's own, durable when this returns."""
        ((_, message),) = said((await self.record(Message(ran)))[-1:])
        if isinstance(message, User):
            self._add(message)

    async def keep_compaction(self, body: Compaction, *settings: ModelChange | ThinkingLevelChange) -> None:
        """With the settings of the moment beside it, nobody has to look for them further back. What is sent
        from now on is read at once: it is not much, and it is wanted next."""
        await self.record(*settings, body)
        self.cost += body.usage["cost"]["total"]
        self.forget()
        await self.sent()

    def _add(self, message: Sent) -> None:
        if self._messages is not None:
            self._messages.append(message)
            self._tokens.add(message)

    async def record(self, *bodies: Body) -> list[Entry]:
        """With the settings that changed. What is set meanwhile is recorded next time."""
        unsaved = self._unsaved
        if self._is_disk_quick:
            entries = self._append(*unsaved, *bodies)
        else:
            entries = await in_thread(self._append, *unsaved, *bodies)
        self._unsaved = [each for each in self._unsaved if not any(each is saved for saved in unsaved)]
        return entries

    def _append(self, *bodies: Body) -> list[Entry]:
        """A trip to a thread costs more than most appends. So it is made while the disk is slow, and until it
        is known that it is not."""
        begun = time.perf_counter()
        entries = self.session.append(*bodies)
        self._is_disk_quick = time.perf_counter() - begun < _QUICK
        return entries

    async def sent(self) -> list[Sent]:
        """All that a model is sent now, but for the system prompt and the tools."""
        if self._messages is None:
            self._remember(await in_thread(self.session.context))
        assert self._messages is not None
        return self._messages

    async def live(self) -> list[Entry]:
        """The entries that it is made of."""
        return await in_thread(self.session.live)

    def weigh(self, beside: int) -> None:
        """So many tokens are sent beside the messages from now on."""
        self.beside = beside
        if self._messages is not None:
            self._tokens = Counter.of(self._messages, self._condensed, beside)

    async def move(self, entry_id: str | None) -> Chosen:
        """Go on from another entry; returns what was chosen there."""
        await in_thread(self.session.move, entry_id)
        self.forget()
        self._tokens = Counter()
        return await in_thread(self.session.chosen)

    def forget(self) -> None:
        """Read it anew when it is wanted."""
        self._messages = None

    def _remember(self, context: Context) -> None:
        self._messages = [m for m in context.messages if isinstance(m, User | Assistant | ToolResult)]
        self._condensed = context.condensed
        self._tokens = Counter.of(self._messages, context.condensed, self.beside)


_NOTHING = Context([], None, "off")
