"""A session that is talked in, and the agent who answers there."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import SimpleNamespace

from perdure.agent.aside import in_thread
from perdure.agent.models.resolver import wanted
from perdure.agent.session import AgentSession
from perdure.errors import PerdureError
from perdure.front.opening import Meant
from perdure.session.entry import SessionInfo
from perdure.session.session import Session


class Conversation:
    def __init__(self, meant: Meant, session: Session, agent: AgentSession) -> None:
        self.meant = meant
        self.session = session
        self.agent = agent
        self.is_ready = False
        self.is_said = False
        """Whether something was saved in it since it was opened."""
        self._servers: asyncio.Future[None] | None = None
        self._noticed = 0

    async def start(self, options: SimpleNamespace, *, model: str, name: str) -> None:
        await self.agent.start(
            model or None,
            session=self.session,
            is_new=self.meant.is_new,
            default_model=wanted(None),
            thinking=options.thinking or None,
        )
        if name:
            self.agent.agent.note_change(SessionInfo(name))
        self.is_ready = True
        if self.agent.servers:  # while its user types
            self._servers = asyncio.ensure_future(self._equip())

    async def _equip(self) -> None:
        with suppress(PerdureError):  # which is among the notices
            await self.agent.ready()

    def notices(self) -> list[str]:
        """Those that nobody has seen."""
        new = self.agent.notices[self._noticed :]
        self._noticed += len(new)
        return new

    async def close(self) -> None:
        """What arrived is kept; a new session in which nothing was said is removed."""
        if self._servers is not None:
            self._servers.cancel()
        try:
            await self.agent.close()
        finally:
            await in_thread(self.session.close)  # where the agent did not come to hold it
            if not self.is_said:
                await in_thread(self.meant.remove_if_unused)
