"""Where a conversation stopped, in a sentence or two: by its model, if that says so in time; else in the
words that were said last."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing, suppress

from perdure.agent.agent import Agent
from perdure.agent.limits import AnswerRoom
from perdure.agent.models import OFFLINE, Finished, Request
from perdure.agent.models.offline.summary import where_it_stopped
from perdure.agent.settings import Limits
from perdure.agent.transcript import render
from perdure.errors import PerdureError
from perdure.front.conversation import Conversation
from perdure.session.entry import AnyMessage, User

WITHIN = 10.0
"""Seconds."""
_MOST = 300
_MOST_READ = 2**20
"""Bytes of the model's answer, of which the beginning is wanted."""
_ROOM = 4000
"""Tokens of the conversation that a model is shown for it."""
_ASKED = (
    "Say in one or two short sentences where this conversation stopped: what it is about, what it leans to "
    "or has found, and what is open. Only these sentences, as a note to somebody who goes on with it."
)


async def of(conversation: Conversation, hurried: asyncio.Event) -> str:
    """`hurried` says that nobody wants to wait for the model."""
    messages = await conversation.agent.agent.memory.sent()
    agent = conversation.agent.agent
    model = agent.voice.model
    said = ""
    if model.model.provider != OFFLINE and not agent.run.is_over() and not hurried.is_set():
        asked = asyncio.ensure_future(_asked(agent, messages))
        waited = asyncio.ensure_future(hurried.wait())
        await asyncio.wait((asked, waited), timeout=WITHIN, return_when=asyncio.FIRST_COMPLETED)
        for each in (asked, waited):
            each.cancel()
        with suppress(PerdureError, asyncio.CancelledError):  # what was said last says enough
            said = await asked
    return one_paragraph(said) or one_paragraph(where_it_stopped(messages))


async def _asked(agent: Agent, messages: Sequence[AnyMessage]) -> str:
    request = Request(messages=[User(f"{render(messages, _ROOM)}\n\n{_ASKED}")], max_tokens=_MOST)
    pieces: list[str] = []
    model, room = agent.voice.model, AnswerRoom(Limits(answer_bytes=_MOST_READ))
    async with aclosing(model.stream(request)) as answer:
        async for piece in answer:
            if isinstance(piece, Finished):
                agent.memory.pay(piece.usage, model.model)
                break
            taken = room.take(piece)
            if taken is not None and taken.kind == "text":
                pieces.append(taken.text)
            if room.is_full:
                break
    return "".join(pieces)


def one_paragraph(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _MOST else words[: _MOST - 1] + "…"
