"""How much a model is sent, in tokens: what its provider counted where it did, an estimate for the rest.

The estimate is four characters a token, an image as much as 4,800 of them. It costs no tokenizer, and it only
decides when to condense a conversation: a request that is too long all the same is refused by the provider,
and then condensed. A provider counts the whole request, so what an answer tells of stands for all before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.agent.models import Model
from perdure.session.entry import AnyMessage, Assistant, BashExecution, Image, Text, Thinking, ToolCall
from perdure.session.record import dumps

CHARACTERS = 4
"""Of a token."""
_IMAGE = 4800
_MARGIN = 1024
"""Tokens by which our count of a context may be too low."""
_LEAST = 1024
"""Tokens that an answer is given in any case: whether they fit, the provider says."""


class Counter:
    """A context's tokens, kept up to date at a cost that does not grow with it."""

    def __init__(self, total: int = 0) -> None:
        self.total = total

    @classmethod
    def of(cls, messages: Sequence[AnyMessage], condensed: int = 0, beside: int = 0) -> Counter:
        """`condensed` is `Context.condensed`: what the answers among the first so many messages tell of was
        counted before a compaction, and is not true any more. `beside` is what is sent beside the messages,
        where no provider has counted it."""
        total = 0
        for at in range(len(messages) - 1, -1, -1):
            if at >= condensed and (counted := counted_in(messages[at])):
                return cls(total + counted)
            total += of_message(messages[at])
        return cls(total + beside)

    def add(self, message: AnyMessage) -> None:
        """One more message, the newest."""
        self.total = counted_in(message) or self.total + of_message(message)


def of_text(text: str) -> int:
    return -(-len(text) // CHARACTERS)


def room_for_an_answer(model: Model, tokens: int) -> int:
    """How much it may say that is sent so much. Less than it could, where its window would not hold that:
    some providers refuse a request for more. 0 where it has room."""
    room = model.context_window - tokens - _MARGIN
    return 0 if room >= model.max_tokens else min(max(room, _LEAST), model.max_tokens)


def of_message(message: AnyMessage) -> int:
    if isinstance(message, BashExecution):
        return of_text(message.command + message.output)
    if isinstance(message.content, str):
        return of_text(message.content)
    return -(-sum(map(_characters, message.content)) // CHARACTERS)


def counted_in(message: AnyMessage) -> int:
    """What the provider counted up to the end of an answer; 0 if it did not, or the answer broke off."""
    if not isinstance(message, Assistant) or message.is_broken_off:
        return 0
    parts = ("input", "output", "cacheRead", "cacheWrite")
    return used(message, "totalTokens") or sum(used(message, part) for part in parts)


def used(message: Assistant, name: str) -> int:
    """One figure of an answer's usage, which may come from any program."""
    figure = message.usage.get(name)
    if isinstance(figure, bool) or not isinstance(figure, int | float):
        return 0
    return int(figure) if 0 < figure < float("inf") else 0


def _characters(block: Any) -> int:
    match block:
        case Text(text=text):
            return len(text)
        case Thinking(thinking=text):
            return len(text)
        case Image():
            return _IMAGE
        case ToolCall(name=name, arguments=arguments):
            return len(name) + len(dumps(arguments).decode())
    return len(dumps(block).decode())  # of a kind this version does not know
