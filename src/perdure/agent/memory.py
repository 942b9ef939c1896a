"""A session as its agent sees it: what is recorded, and what of it a model is sent.

What is sent is kept in memory as it grows, so that a step costs the same in a long session. It is read anew
from the session where a turn was left half done, and after a compaction: what is on disk decides.
"""

from __future__ import annotations

import time

from perdure.agent.aside import in_thread
from perdure.agent.events import EventMessage
from perdure.agent.models import Sent
from perdure.agent.tokens import Counter
from perdure.session.context import Context
from perdure.session.entry import (
    Assistant,
    Body,
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


class Memory:
    def __init__(self, session: Session, beside: int, context: Context | None = None) -> None:
        """`beside` are the tokens that are sent beside the messages; `context` is what the session says so
        far, if somebody has read it."""
        self.session = session
        self.beside = beside
        self.added: list[EventMessage] = []
        """Since somebody last emptied it."""
        self._unsaved: list[Body] = []
        self._messages: list[Sent] | None = None
        self._tokens = Counter()
        self._is_disk_quick = False
        if context is not None:
            self._remember(context)

    @property
    def tokens(self) -> int:
        """How much a model is sent, as its provider counted or as we estimate."""
        return self._tokens.total

    def note(self, change: ModelChange | ThinkingLevelChange | SessionInfo) -> None:
        """Recorded with the next message: a session in which nothing is said stays empty."""
        self._unsaved = [each for each in self._unsaved if type(each) is not type(change)] + [change]

    async def keep(self, message: EventMessage) -> str:
        """Durable when this returns what it is called from then on."""
        entries = await self.record(Message(message))
        self.added.append(message)
        if isinstance(message, Assistant) and message.is_broken_off:
            self.forget()  # the session knows what of it is sent
        elif self._messages is not None and (not isinstance(message, Assistant) or message.content):
            self._messages.append(message)
            self._tokens.add(message)
        return entries[-1].id

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
        """So many tokens are sent beside the messages from now on. How many a provider has counted already is
        in the session."""
        self.beside = beside
        self.forget()

    def forget(self) -> None:
        """Read it anew when it is wanted."""
        self._messages = None

    def _remember(self, context: Context) -> None:
        self._messages = [m for m in context.messages if isinstance(m, User | Assistant | ToolResult)]
        self._tokens = Counter.of(self._messages, context.condensed, self.beside)
