"""A model that says what it was told to say: the one fake that tests of an agent need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from itertools import count

from perdure.agent.models import Finished, Model, Piece, Request, Usage
from perdure.agent.tokens import of_message, of_text
from perdure.errors import ModelError
from perdure.session.entry import Assistant, Text, Thinking, ToolCall
from perdure.session.record import dumps

Part = str | Text | Thinking | ToolCall | Finished | asyncio.Event | BaseException
Reply = Part | Sequence[Part] | Callable[[Request], "Part | Sequence[Part]"]

SCRIPTED = Model(
    id="scripted",
    name="Scripted",
    provider="scripted",
    api="scripted",
    context_window=200_000,
    max_tokens=8_192,
)
_PIECE = 7
"""Characters: so that a word, and a tool call's arguments, come in several pieces."""


class ScriptedModel:
    """Answers each request with the next reply.

    A reply is what the model says: text, thinking, tool calls; several of them in a list. An exception in it
    is raised there, an `asyncio.Event` is waited for, and `Finished` sets how it ends and what it used. A
    function is given the request and returns the reply. `requests` are those that came.
    """

    def __init__(self, *replies: Reply, model: Model = SCRIPTED) -> None:
        self.model = model
        self.requests: list[Request] = []
        self._replies = iter(replies)

    async def stream(self, request: Request) -> AsyncGenerator[Piece | Finished, None]:
        self.requests.append(request)
        try:
            reply = next(self._replies)
        except StopIteration:
            raise ModelError(
                "The script has no more replies", "give ScriptedModel one for every request"
            ) from None
        reply = reply(request) if callable(reply) else reply
        parts: Sequence[Part] = reply if isinstance(reply, list | tuple) else [reply]  # type: ignore[list-item]
        numbers = count()
        blocks: list[Text | Thinking | ToolCall] = []
        end: Finished | None = None
        for part in parts:
            match part:
                case BaseException():
                    raise part
                case asyncio.Event():
                    await part.wait()
                case Finished():
                    end = part
                case _:
                    block = Text(part) if isinstance(part, str) else part
                    blocks.append(block)
                    for piece in _pieces(block, next(numbers)):
                        yield piece
        yield end or self._end(request, blocks)

    def _end(self, request: Request, blocks: list[Text | Thinking | ToolCall]) -> Finished:
        beside = of_text(request.system) + of_text(dumps(request.tools).decode())
        sent = sum(map(of_message, request.messages)) + beside
        has_calls = any(isinstance(block, ToolCall) for block in blocks)
        return Finished("toolUse" if has_calls else "stop", Usage(sent, of_message(Assistant([*blocks]))))


def _pieces(block: Text | Thinking | ToolCall, index: int) -> Iterator[Piece]:
    match block:
        case Text(text=text, text_signature=signature):
            kind, signed = "text", signature
        case Thinking(thinking=text, thinking_signature=signature):
            kind, signed = "thinking", signature
        case ToolCall(id=id, name=name, arguments=arguments, thought_signature=signature):
            kind, signed = "toolCall", signature
            text = arguments if isinstance(arguments, str) else dumps(arguments).decode()
            yield Piece(index, "toolCall", id=id, name=name)
    for at in range(0, len(text), _PIECE):
        yield Piece(index, kind, text[at : at + _PIECE])  # type: ignore[arg-type]
    if isinstance(signed, str):
        yield Piece(index, kind, signature=signed)  # type: ignore[arg-type]
