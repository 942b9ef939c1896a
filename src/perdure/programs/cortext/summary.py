"""Where a conversation stopped, in a sentence or two: by its model, if that says so in time; else in the
words that were said last."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing, suppress

from perdure.agent.models import OFFLINE, LanguageModel, Piece, Request
from perdure.agent.models.offline.summary import where_it_stopped
from perdure.agent.transcript import render
from perdure.errors import PerdureError
from perdure.front.conversation import Conversation
from perdure.session.entry import AnyMessage, User

WITHIN = 10.0
"""Seconds."""
_MOST = 300
_ROOM = 4000
"""Tokens of the conversation that a model is shown for it."""
_ASKED = (
    "Say in one or two short sentences where this conversation stopped: what it is about, what it leans to "
    "or has found, and what is open. Only these sentences, as a note to somebody who goes on with it."
)


async def of(conversation: Conversation, hurried: asyncio.Event) -> str:
    """`hurried` says that nobody wants to wait for the model."""
    messages = await conversation.agent.agent.memory.sent()
    model = conversation.agent.agent.voice.model
    said = ""
    if model.model.provider != OFFLINE and not hurried.is_set():
        asked = asyncio.ensure_future(_asked(model, messages))
        waited = asyncio.ensure_future(hurried.wait())
        await asyncio.wait((asked, waited), timeout=WITHIN, return_when=asyncio.FIRST_COMPLETED)
        for each in (asked, waited):
            each.cancel()
        with suppress(PerdureError, asyncio.CancelledError):  # what was said last says enough
            said = await asked
    return one_paragraph(said) or one_paragraph(where_it_stopped(messages))


async def _asked(model: LanguageModel, messages: Sequence[AnyMessage]) -> str:
    request = Request(messages=[User(f"{render(messages, _ROOM)}\n\n{_ASKED}")], max_tokens=_MOST)
    pieces: list[str] = []
    async with aclosing(model.stream(request)) as answer:
        async for piece in answer:
            if isinstance(piece, Piece) and piece.kind == "text":
                pieces.append(piece.text)
    return "".join(pieces)


def one_paragraph(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _MOST else words[: _MOST - 1] + "…"
