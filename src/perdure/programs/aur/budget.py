"""How much of a conversation is sent, and when its user is told about that: at 80 and at 90 % of the limit,
and when its middle is not sent any more. Each once, and anew where the conversation begins anew."""

from __future__ import annotations

from typing import NamedTuple

from perdure.agent.session import AgentSession
from perdure.agent.turn_window import FIRST, LAST, LeftOut, TurnWindow, estimated

_SHARES = (80, 90)
WHAT_IS_SENT = f"the first {FIRST} and the last {LAST} turns"
_BEYOND = 100


class Weighed(NamedTuple):
    tokens: int
    """Of all that was said since it began, and of what is sent beside it."""
    limit: int
    is_cut: bool
    """Whether something of it is not sent."""

    @property
    def share(self) -> float:
        return 100 * self.tokens / self.limit


class Budget:
    def __init__(self, max_tokens: int) -> None:
        self.window = TurnWindow(max_tokens)
        self._told = 0

    async def weigh(self, agent: AgentSession) -> Weighed:
        memory, limit = agent.agent.memory, max(self.window.limit(agent.model), 1)
        messages = await memory.sent()
        sent = self.window.sent(messages, memory.beside, agent.model)
        is_cut = any(isinstance(each, LeftOut) for each in sent)
        return Weighed(memory.beside + estimated(messages), limit, is_cut)

    async def news(self, agent: AgentSession) -> str:
        """What its user is to be told now; empty if that is nothing."""
        weighed = await self.weigh(agent)
        reached = max((share for share in _SHARES if weighed.share >= share), default=0)
        reached = _BEYOND if weighed.is_cut else reached
        if reached <= self._told:
            return ""
        self._told = reached
        if reached == _BEYOND:
            return (
                f"The conversation is beyond {weighed.limit:,} tokens: from now on at most {WHAT_IS_SENT} "
                "are sent. All of it stays stored; /clear begins anew."
            )
        return (
            f"{reached}% of the context is used: about {weighed.tokens:,} of {weighed.limit:,} tokens. "
            f"Beyond that only {WHAT_IS_SENT} are sent; /clear begins anew."
        )

    def begin_anew(self) -> None:
        self._told = 0
