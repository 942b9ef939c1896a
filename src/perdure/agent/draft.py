"""An answer while it arrives: an append-only list of pieces, and what they amount to, as a pure fold.

A piece costs the same however long the answer is. Whoever wants the message so far asks for it. Where a model
is asked again because an attempt broke off, each attempt has a draft of its own, which knows the one before
it: what had arrived stands until something arrives anew, so that it can be kept once, at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import UNSET

from perdure.agent.models import UNPARSED, Cost, Finished, Model, Piece, Usage
from perdure.session.entry import Assistant, Block, Text, Thinking, ToolCall
from perdure.session.record import loads_exactly

_LONGEST_NAME = 256
"""Characters of the name of a tool: no tool has a longer one, and every face shows it."""


class Draft:
    def __init__(self, model: Model, timestamp: int, earlier: Draft | None = None) -> None:
        """`earlier` is the attempt at the same answer before this one, which broke off."""
        self._model = model
        self._timestamp = timestamp
        self._earlier = earlier
        self._pieces: list[Piece] = []

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def has_arrived(self) -> bool:
        """Whether anything came, in this attempt or in one before it."""
        return bool(self._pieces) or (self._earlier is not None and self._earlier.has_arrived)

    def add(self, piece: Piece) -> None:
        self._pieces.append(piece)

    def text_of(self, index: int, since: int) -> str:
        """All that was said in one block, which began with the piece of that number."""
        return "".join(piece.text for piece in self._pieces[since:] if piece.index == index)

    def message(self, extent: int | None = None) -> Assistant:
        """The answer of the first so many pieces, or of all."""
        return self._message(blocks(self._pieces[:extent]), "stop", Usage(), UNSET)

    def finished(self, end: Finished) -> Assistant:
        content = blocks(self._pieces)
        called = any(isinstance(block, ToolCall) for block in content)
        reason = end.reason if end.reason == "length" else "toolUse" if called else "stop"
        return self._message(content, reason, end.usage, UNSET)

    def broken_off(self, reason: str, why: str) -> Assistant:
        """What arrived of an answer that did not end: `aborted`, or `error`. Of several attempts it is the
        last one in which something came."""
        if not self._pieces and self._earlier is not None and self._earlier.has_arrived:
            return self._earlier.broken_off(reason, why)
        return self._message(blocks(self._pieces), reason, Usage(), why)

    def _message(self, content: list[Block], reason: str, usage: Usage, error: Any) -> Assistant:
        return Assistant(
            content=content,
            api=self._model.api,
            provider=self._model.provider,
            model=self._model.id,
            usage=priced(usage, self._model.cost),
            stop_reason=reason,
            error_message=error,
            timestamp=self._timestamp,
        )


def blocks(pieces: Sequence[Piece]) -> list[Block]:
    """The blocks that pieces make. One without any content is left out: providers refuse it."""
    of_block: dict[int, list[Piece]] = {}
    for piece in pieces:
        of_block.setdefault(piece.index, []).append(piece)
    made = (_block(each) for each in of_block.values())
    return [block for block in made if block is not None]


def _block(pieces: Sequence[Piece]) -> Block | None:
    text = "".join(piece.text for piece in pieces)
    signature = _last(piece.signature for piece in pieces) or UNSET
    match pieces[0].kind:
        case "text":
            return Text(text, signature) if text or signature else None
        case "thinking":
            redacted = any(piece.redacted for piece in pieces) or UNSET
            return Thinking(text, signature, redacted) if text or signature else None
        case "toolCall":
            id, name = _last(piece.id for piece in pieces), _last(piece.name for piece in pieces)
            return ToolCall(id, name[:_LONGEST_NAME], _arguments(text), signature)


def _arguments(text: str) -> Any:
    if not text.strip():
        return {}  # what a call without arguments looks like on most wires
    try:
        return loads_exactly(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return {UNPARSED: text}


def _last(texts: Iterable[str]) -> str:
    found = ""
    for text in texts:
        found = text or found
    return found


def priced(usage: Usage, cost: Cost) -> dict[str, Any]:
    """Usage as a session keeps it, with what it cost in US dollars."""
    paid = {
        "input": usage.input * cost.input / 1_000_000,
        "output": usage.output * cost.output / 1_000_000,
        "cacheRead": usage.cache_read * cost.cache_read / 1_000_000,
        "cacheWrite": usage.cache_write * cost.cache_write / 1_000_000,
    }
    return {
        "input": usage.input,
        "output": usage.output,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
        "totalTokens": usage.total,
        "cost": {**paid, "total": sum(paid.values())},
    }
