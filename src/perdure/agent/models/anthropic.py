"""The Anthropic messages protocol.

A request keeps this server's rules whatever the history holds, as it is refused otherwise: user and assistant
take turns, the user begins and ends, results stand first in the message right behind their calls, no text is
blank, every call has an id of its own in the server's alphabet, and thinking goes back unchanged, only to the
model that thought it, or not at all. The same history is always sent as the same bytes, so that the server's
cache holds; it is told at up to four places how far it shall hold what it reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from perdure.agent.models import (
    Call,
    Finished,
    Model,
    Piece,
    Request,
    Sent,
    ToolSpec,
    Usage,
    arguments_of,
    is_own,
)
from perdure.agent.models.history import NO_OUTPUT, NO_TEXT, Ids, Images, blocks_of, json_text, name_of, shown
from perdure.agent.models.http_errors import declined, failure
from perdure.session.entry import Assistant, Content, Image, Text, Thinking, ToolCall, ToolResult, User
from perdure.session.record import loads

_VERSION = "2023-06-01"
_BINDING = "thinking-binding-controls-2026-08-01"
_IMAGES = Images(frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"}), 5 * 2**20)
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CACHED = {"type": "ephemeral"}
_THOUGHTS = frozenset({"thinking", "redacted_thinking"})

_Block = dict[str, Any]


class AnthropicMessages:
    def call(self, model: Model, request: Request, key: str) -> Call:
        limit = _limit(model, request)
        thinking = _thinking(model, request, limit)
        messages = _Conversation(model, thinking.shown).of(request.messages)
        if thinking.is_budget and _is_amid_unthinking_turn(messages):
            thinking = _ThinkingWanted()
            messages = _Conversation(model, thinking.shown).of(request.messages)
        headers = {"anthropic-version": _VERSION, **({"x-api-key": key} if key else {})}
        body: dict[str, Any] = {"model": model.id, "max_tokens": limit, "stream": True}
        if request.system.strip():
            body["system"] = [{"type": "text", "text": request.system, "cache_control": _CACHED}]
        body |= _tools(request, messages)
        body["messages"] = _marked(messages)
        if thinking.config:
            body["thinking"] = dict(thinking.config)
            if _sends_thinking(messages) and _binds_thinking(model):
                # A compaction or a new system prompt changes what stood before a thought. Then the server
                # shall leave the thought out; otherwise it would refuse the request.
                body["thinking"]["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
                headers["anthropic-beta"] = _BINDING
        if thinking.effort:
            body["output_config"] = {"effort": thinking.effort}
        return Call(f"{_root(model.base_url)}/v1/messages", headers, body)

    def reader(self, model: Model) -> _Reader:
        return _Reader(model)


def _root(base_url: str) -> str:
    return base_url.rstrip("/").removesuffix("/v1")


def _limit(model: Model, request: Request) -> int:
    return min(request.max_tokens or model.max_tokens, model.max_tokens)


# --- thinking -----------------------------------------------------------------------------------
# Up to Claude 4.5, and with others who speak this protocol, thinking has a budget of tokens. From 4.6 on it
# is adaptive and has an effort; later models refuse a budget. From 5 on a model thinks unless it is told not
# to, and some cannot be told.

_BUDGETS = {"minimal": 1024, "low": 4096, "medium": 10_240, "high": 20_480, "xhigh": 32_768}
_LEAST_BUDGET = 1024
_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh"}
_CLAUDE = re.compile(
    r"claude-(?P<name>[a-z]+)(?:-(?P<major>\d{1,2})(?:[-.](?P<minor>\d{1,2}))?(?!\d)|-preview)", re.ASCII
)
_ADAPTIVE, _HAS_XHIGH, _HIDES_THINKING, _ALWAYS_THINKS, _BINDS = (4, 6), (4, 7), (4, 7), (5, 0), (5, 1)
_TURNED_OFF = {
    ("opus", (5, 0)): "disabled",
    ("sonnet", (5, 0)): "disabled",
    ("haiku", (5, 5)): "disabled",
    ("sonnet", (5, 5)): "between_tools",
}
"""How those that think of themselves are told not to. The others are asked for little."""


class _ThinkingWanted(NamedTuple):
    config: _Block | None = None
    effort: str = ""
    shown: bool = False
    """Whether the model is shown what it thought before."""
    is_budget: bool = False


def _claude(model: Model) -> tuple[str, tuple[int, int]]:
    """Family and version; version 0 of what is not Claude, or from before Claude 4."""
    found = _CLAUDE.search(model.id.lower())
    if found is None:
        return "", (0, 0)
    if found["major"] is None:
        return found["name"], _HIDES_THINKING  # claude-mythos-preview
    return found["name"], (int(found["major"]), int(found["minor"] or 0))


def _thinking(model: Model, request: Request, limit: int) -> _ThinkingWanted:
    family, version = _claude(model)
    level = request.thinking
    if not model.reasoning:
        return _ThinkingWanted()
    if version >= _ADAPTIVE:
        if level not in _EFFORTS:
            if version < _ALWAYS_THINKS:
                return _ThinkingWanted()
            if off := _TURNED_OFF.get((family, version)):
                return _ThinkingWanted({"type": off})
        effort = _EFFORTS.get(level, "low")
        if effort == "xhigh" and version < _HAS_XHIGH:
            effort = "max"
        display = {"display": "summarized"} if version >= _HIDES_THINKING else {}
        return _ThinkingWanted({"type": "adaptive", **display}, effort, shown=True)
    budget = min(_BUDGETS.get(level, 0), limit // 2)  # the other half is for the answer
    if budget < _LEAST_BUDGET:
        return _ThinkingWanted()
    return _ThinkingWanted({"type": "enabled", "budget_tokens": budget}, shown=True, is_budget=True)


def _is_amid_unthinking_turn(messages: Sequence[_Block]) -> bool:
    """Whether the calls being answered were made without thinking, or by another model. Until the user speaks
    again, a budget is refused then."""
    first: _Block | None = None
    for message in reversed(messages):
        if message["role"] == "assistant":
            first = message
        elif message["content"][0]["type"] != "tool_result":
            break
    return first is not None and first["content"][0]["type"] not in _THOUGHTS


def _binds_thinking(model: Model) -> bool:
    own_betas = any(name.lower() == "anthropic-beta" for name in model.headers)  # these would replace ours
    return _claude(model)[1] >= _BINDS and not own_betas


def _sends_thinking(messages: Sequence[_Block]) -> bool:
    return any(block["type"] in _THOUGHTS for message in messages for block in message["content"])


def _thought(block: object) -> _Block | None:
    """A block of thinking as it came, if it came with what the server knows it by."""
    if not isinstance(block, Thinking) or not block.thinking_signature:
        return None
    if block.redacted is True:
        return {"type": "redacted_thinking", "data": block.thinking_signature}
    return {"type": "thinking", "thinking": block.thinking, "signature": block.thinking_signature}


# --- the conversation ---------------------------------------------------------------------------


class _Conversation:
    """Messages as the server takes them. It knows the calls that were made and have no result yet."""

    def __init__(self, model: Model, shows_thinking: bool) -> None:
        self._model = model
        self._shows_thinking = shows_thinking
        self._ids = Ids(_ID, 32)

    def of(self, messages: Iterable[Sent]) -> list[_Block]:
        turns: list[_Block] = []
        for message in messages:
            role, blocks = self._said(message)
            if not blocks:
                continue
            if not turns and role == "assistant":
                turns.append({"role": "user", "content": [_text(NO_TEXT)]})
            if turns and turns[-1]["role"] == role:
                turns[-1]["content"] += blocks
            else:
                turns.append({"role": role, "content": blocks})
        if not turns or turns[-1]["role"] == "assistant":
            turns.append({"role": "user", "content": [_text(NO_TEXT)]})
        for turn in turns:
            if turn["role"] == "user":
                turn["content"].sort(key=lambda block: block["type"] != "tool_result")
        return turns

    def _said(self, message: Sent) -> tuple[str, list[_Block]]:
        match message:
            case User(content=content):
                return "user", self._shown(content)
            case Assistant():
                return "assistant", list(self._answered(message))
            case ToolResult(content=content) if id := self._ids.of_result(message.tool_call_id):
                said = self._shown(content) or [_text(NO_OUTPUT)]
                result = {"type": "tool_result", "tool_use_id": id, "content": said}
                return "user", [{**result, "is_error": True} if message.is_error else result]
        return "user", []

    def _shown(self, content: Content) -> list[_Block]:
        return [_part(each) for each in shown(content, self._model, _IMAGES)]

    def _answered(self, message: Assistant) -> Iterator[_Block]:
        returns_thinking = self._shows_thinking and is_own(message, self._model)
        for block in blocks_of(message.content):
            if isinstance(block, ToolCall):
                yield {
                    "type": "tool_use",
                    "id": self._ids.of_call(block.id),
                    "name": name_of(block.name, longest=128),
                    "input": arguments_of(block),
                }
            elif isinstance(block, Text) and block.text.strip():
                yield _text(block.text)
            elif returns_thinking and (thought := _thought(block)):
                yield thought


def _text(text: str) -> _Block:
    return {"type": "text", "text": text}


def _part(part: str | Image) -> _Block:
    if isinstance(part, str):
        return _text(part)
    source = {"type": "base64", "media_type": part.mime_type, "data": part.data}
    return {"type": "image", "source": source}


def _tool(tool: ToolSpec) -> _Block:
    schema = {"type": "object", **tool.parameters}
    return {"name": tool.name, "description": tool.description, "input_schema": schema}


def _tools(request: Request, messages: Sequence[_Block]) -> _Block:
    """The tools. Where there are none any more, those that were called are named: the server wants to know
    every tool that a conversation speaks of."""
    if request.tools:
        tools = [_tool(tool) for tool in request.tools]
        tools[-1]["cache_control"] = _CACHED
        return {"tools": tools}
    called = dict.fromkeys(
        block["name"] for each in messages for block in each["content"] if block["type"] == "tool_use"
    )
    if not called:
        return {}
    nothing = {"type": "object", "properties": {}}
    return {
        "tools": [{"name": name, "input_schema": nothing} for name in called],
        "tool_choice": {"type": "none"},
    }


def _marked(messages: list[_Block]) -> list[_Block]:
    """With the end of the last two messages of the user marked for the cache: the server looks back only some
    twenty blocks for what it holds, and the one before the last is what it was sent last time."""
    of_user = [message for message in messages if message["role"] == "user"]
    for message in of_user[-2:]:
        message["content"][-1] = {**message["content"][-1], "cache_control": _CACHED}
    return messages


# --- the answer ---------------------------------------------------------------------------------


_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
"""In the order of `Usage`."""


_KINDS: dict[str, Literal["text", "thinking", "toolCall"]] = {
    "text": "text",
    "thinking": "thinking",
    "redacted_thinking": "thinking",
    "tool_use": "toolCall",
}
_REASONS: dict[str, Literal["stop", "length", "toolUse"]] = {
    "max_tokens": "length",
    # What was said until then stands; the next request is compacted by its size.
    "model_context_window_exceeded": "length",
    "tool_use": "toolUse",
}


class _Open(Struct):
    """A block of the answer that has begun."""

    index: int
    kind: Literal["text", "thinking", "toolCall"]
    input: Any = None
    """What a call was begun with; its pieces count, where there are any."""


class _Reader:
    def __init__(self, model: Model) -> None:
        self._model = model
        self._open: dict[int, _Open] = {}
        self._last: _Open | None = None
        self._begun = 0
        self._counts: dict[str, int] = {}
        self._reason = ""
        self._finished = False

    def feed(self, event: str, data: str) -> Iterable[Piece | Finished]:
        said = loads(data.encode("utf-8", "surrogatepass"))
        match said.get("type") or event:
            case "error":
                raise failure(self._model, 0, data)
            case "message_start":
                self._count(_object(said, "message"))
            case "content_block_start":
                # Of one call at a time: else a server that ends none of them would fill the memory.
                rest = self._input_of(self._last)
                return (*rest, *self._start(_index(said), _object(said, "content_block")))
            case "content_block_delta":
                return self._grow(_index(said), _object(said, "delta"))
            case "content_block_stop":
                return self._stop(_index(said))
            case "message_delta":
                self._count(said)
                self._stopped(_object(said, "delta"))
            case "message_stop":
                self._reason = self._reason or "end_turn"
                return self.end()
        return ()

    def end(self) -> Iterable[Piece | Finished]:
        if not self._reason or self._finished:
            return ()
        self._finished = True
        usage = Usage(*(self._counts.get(name, 0) for name in _COUNTS))
        return (Finished(_REASONS.get(self._reason, "stop"), usage),)

    def _start(self, at: int, block: _Block) -> Iterable[Piece]:
        kind = _KINDS.get(_string(block, "type"))
        if kind is None:
            self._open.pop(at, None)
            return ()
        opened = self._open[at] = self._last = _Open(self._begun, kind, block.get("input"))
        self._begun += 1
        if block["type"] == "redacted_thinking":
            return (Piece(opened.index, kind, signature=_string(block, "data"), redacted=True),)
        if kind == "toolCall":
            return (Piece(opened.index, kind, id=_string(block, "id"), name=_string(block, "name")),)
        return (Piece(opened.index, kind, _string(block, kind), signature=_string(block, "signature")),)

    def _grow(self, at: int, delta: _Block) -> Iterable[Piece]:
        opened = self._open.get(at)
        if opened is None:
            return ()
        match opened.kind, delta.get("type"):
            case "text", "text_delta":
                more = Piece(opened.index, "text", _string(delta, "text"))
            case "thinking", "thinking_delta":
                more = Piece(opened.index, "thinking", _string(delta, "thinking"))
            case "thinking", "signature_delta":
                more = Piece(opened.index, "thinking", signature=_string(delta, "signature"))
            case "toolCall", "input_json_delta":
                more = Piece(opened.index, "toolCall", _string(delta, "partial_json"))
                opened.input = None if more.text else opened.input
            case _:
                return ()
        return (more,)

    def _stop(self, at: int) -> Iterable[Piece]:
        return self._input_of(self._open.pop(at, None))

    def _input_of(self, opened: _Open | None) -> Iterable[Piece]:
        """What a call was begun with, once."""
        if opened is None or not opened.input:
            return ()
        whole, opened.input = json_text(opened.input), None
        return (Piece(opened.index, "toolCall", whole),)

    def _count(self, said: _Block) -> None:
        """Later figures are totals too, and need not be all of them."""
        usage = said.get("usage")
        if isinstance(usage, dict):
            self._counts |= {name: usage[name] for name in _COUNTS if isinstance(usage.get(name), int)}

    def _stopped(self, delta: _Block) -> None:
        reason = _string(delta, "stop_reason")
        if reason == "refusal":
            details = delta.get("stop_details")
            raise declined(self._model, _string(details, "explanation") if isinstance(details, dict) else "")
        self._reason = reason or self._reason


def _index(said: _Block) -> int:
    index = said.get("index")
    if not isinstance(index, int):
        raise ValueError("a block without its number")
    return index


def _object(said: _Block, name: str) -> _Block:
    value = said.get(name)
    if not isinstance(value, dict):
        raise ValueError(f"an event without its {name}")
    return value


def _string(given: _Block, name: str) -> str:
    value = given.get(name)
    return value if isinstance(value, str) else ""
