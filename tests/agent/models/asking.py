"""Models, what they said, and asking them: over the wire, or of bytes alone, for the whole of an answer."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from perdure.agent.draft import Draft
from perdure.agent.models import Finished, Model, Piece, Reader, Request, ToolSpec, WireProtocol
from perdure.agent.models.http import Remote, ServerEvents, Wire
from perdure.session.entry import Assistant, Block, User

KEY = "sk-secret-0123456789"
BASH = ToolSpec("bash", "Runs a command.", {"type": "object", "properties": {"command": {"type": "string"}}})
_KNOWN: dict[str, Any] = {"max_tokens": 64_000, "reasoning": True, "input": ("text", "image")}


def claude(id: str = "claude-sonnet-4-5", **fields: Any) -> Model:
    base = {"base_url": "https://example.test", **_KNOWN}
    return Model(id=id, provider="anthropic", api="anthropic-messages", **{**base, **fields})


def gemini(id: str = "gemini-3-pro-preview", **fields: Any) -> Model:
    base = {"base_url": "https://example.test/v1beta", **_KNOWN}
    return Model(id=id, provider="google", api="google-generative-ai", **{**base, **fields})


def said_by(model: Model, *blocks: Block) -> Assistant:
    return Assistant([*blocks], api=model.api, provider=model.provider, model=model.id)


class Answer(NamedTuple):
    message: Assistant
    end: Finished
    pieces: list[Piece]


def ask(model: Model, protocol: WireProtocol, request: Request | None = None) -> Answer:
    return asyncio.run(_ask(model, protocol, request or Request(messages=[User("hello")])))


async def _ask(model: Model, protocol: WireProtocol, request: Request) -> Answer:
    wire = Wire()
    try:
        return _whole(model, [item async for item in Remote(model, KEY, protocol, wire).stream(request)])
    finally:
        await wire.aclose()


def read(model: Model, reader: Reader, *chunks: bytes) -> Answer:
    """The answer in these bytes, without any network; AssertionError if it is not complete."""
    events = ServerEvents()
    items: list[Piece | Finished] = []
    for chunk in chunks:
        for name, data in events.feed(chunk):
            items += reader.feed(name, data)
    for name, data in events.end():
        items += reader.feed(name, data)
    return _whole(model, [*items, *reader.end()])


def _whole(model: Model, items: list[Piece | Finished]) -> Answer:
    draft = Draft(model, 0)
    pieces = [item for item in items if isinstance(item, Piece)]
    for piece in pieces:
        draft.add(piece)
    ends = [item for item in items if isinstance(item, Finished)]
    assert ends == items[-1:], "an answer ends once, and then it is over"
    return Answer(draft.finished(ends[0]), ends[0], pieces)
