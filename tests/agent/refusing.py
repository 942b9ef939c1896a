"""A session whose disk refuses what it is told to, and what another process would read of it."""

import errno
from contextlib import aclosing
from typing import Any

from perdure.agent.compaction import NoCompaction
from perdure.agent.session import AgentSession
from perdure.errors import NotSaved
from perdure.session.entry import Custom
from perdure.session.session import Session
from tests.layouts import store_of

LAYOUTS = ["pi", "soleur", "sibyl"]


class Disk:
    def __init__(self, session: Any) -> None:
        self.refusals: list[int] = []
        """Which appends are refused, counted from 1."""
        self.is_full = False
        self.count = 0
        self.written: list[list[str]] = []
        """What each append wrote that was not refused."""
        self._path = session.ref.path
        self._append = session._writer.append
        session._writer.append = self.append

    def append(self, entries: Any) -> Any:
        self.count += 1
        if self.is_full or self.count in self.refusals:
            raise NotSaved(self._path, OSError(errno.ENOSPC, "No space left on device"))
        cursor = self._append(entries)
        self.written.append([entry.text or entry.type for entry in entries])
        return cursor


def session_in(layout: str, home: Any) -> Session:
    return Session.create(store_of(layout, home))


async def talking(session: Session, model: Any, **options: Any) -> AgentSession:
    agent = AgentSession(compaction=options.pop("compaction", NoCompaction()), **options)
    await agent.start(model, session=session)
    return agent


async def told(events: Any) -> list[Any]:
    async with aclosing(events):
        return [event async for event in events]


def view(session: Session) -> Session:
    return Session.view(session.store, session.ref)


def on_disk(session: Session) -> list[str]:
    """What another process would read now of what was said, and of a program's own."""
    kinds = ("message", "custom_message", "compaction", "custom")
    return [_told(entry) for entry in view(session).entries if entry.type in kinds]


def _told(entry: Any) -> str:
    return str(entry.body.custom_type) if isinstance(entry.body, Custom) else str(entry.text)


def texts(messages: Any) -> list[str]:
    return [message.text for message in messages]
