"""OpenAI's chat completions, which most servers speak: Ollama, vLLM, llama.cpp, OpenRouter, Groq, Mistral, …

They differ in what they send and in what they refuse. Read is whatever any of them is known to send. Sent is
what the strictest accepts: roles take turns, no message is empty, and nothing but OpenAI itself is told what
only OpenAI knows. Thinking goes back under the name it came with, to the model that thought it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal
from uuid import uuid4

from perdure.agent.models import (
    Call,
    Finished,
    Model,
    Piece,
    Request,
    ToolSpec,
    Usage,
    arguments_of,
    is_own,
)
from perdure.agent.models.history import NO_OUTPUT, Ids, blocks_of, json_text, name_of, shown
from perdure.agent.models.http_errors import failure, filtered
from perdure.agent.models.openai_history import IMAGES, NOTHING_SAID, data_url, effort, is_openai
from perdure.session.entry import Assistant, Block, Image, Text, Thinking, ToolCall, ToolResult, User
from perdure.session.record import loads

Json = dict[str, Any]

_THOUGHT_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")
_MISTRAL = re.compile(r"mistral|ministral|devstral|codestral|magistral|pixtral", re.IGNORECASE)


class OpenAIChat:
    def call(self, model: Model, request: Request, key: str) -> Call:
        ours = is_openai(model)
        body: Json = {
            "model": model.id,
            "messages": _History(model).of(request),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = [_tool(spec) for spec in request.tools]
        if request.max_tokens:
            body["max_completion_tokens" if ours else "max_tokens"] = request.max_tokens
        if model.reasoning and (wanted := effort(model, request.thinking)):
            body["reasoning_effort"] = wanted
        if ours and request.session_id:
            body["prompt_cache_key"] = request.session_id[:64]
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return Call(f"{model.base_url.rstrip('/')}/chat/completions", headers, body)

    def reader(self, model: Model) -> ChatReader:
        return ChatReader(model)


def _tool(spec: ToolSpec) -> Json:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}


# --- what is sent -------------------------------------------------------------------------------


class _History:
    def __init__(self, model: Model) -> None:
        self._model = model
        self._is_mistral = _MISTRAL.search(f"{model.provider} {model.base_url} {model.id}") is not None
        self._ids = (
            Ids(re.compile(r"[A-Za-z0-9]{9}"), 9)
            if self._is_mistral
            else Ids(re.compile(r"[A-Za-z0-9_-]{1,40}"), 32)
        )
        self._messages: list[Json] = []
        self._images: list[Image] = []  # of results: they can only be shown behind the last of them

    def of(self, request: Request) -> list[Json]:
        if request.system:
            self._messages.append({"role": "system", "content": request.system})
        for message in request.messages:
            if not isinstance(message, ToolResult):
                self._show_images()
            match message:
                case User():
                    self._user(shown(message.content, self._model, IMAGES) or [NOTHING_SAID])
                case Assistant():
                    self._assistant(message)
                case ToolResult():
                    self._result(message)
        self._show_images()
        return [_plain(message) for message in self._messages]

    @property
    def _last_role(self) -> str:
        return str(self._messages[-1]["role"]) if self._messages else ""

    def _user(self, parts: Sequence[str | Image]) -> None:
        if self._last_role == "tool" and self._is_mistral:
            self._messages.append(
                {"role": "assistant", "content": "Noted."}
            )  # a user may not come next there
        if self._last_role != "user":
            self._messages.append({"role": "user", "content": []})
        self._messages[-1]["content"] += [_part(each) for each in parts]

    def _assistant(self, message: Assistant) -> None:
        blocks = blocks_of(message.content)
        said: Json = {}
        text = "\n\n".join(block.text for block in blocks if isinstance(block, Text) and block.text)
        calls = [self._call(call) for call in message.calls]
        if text or calls:
            said = {"role": "assistant", "content": text or None}
        if calls:
            said["tool_calls"] = calls
        if said and is_own(message, self._model):
            said |= _thoughts(blocks)
        if said and self._last_role == "assistant":
            before = self._messages.pop()
            texts = [each["content"] for each in (before, said) if each["content"]]
            said = {**before, **said, "content": "\n\n".join(texts) or None}
        if said:
            self._messages.append(said)

    def _call(self, call: ToolCall) -> Json:
        function = {"name": name_of(call.name), "arguments": json_text(arguments_of(call))}
        return {"id": self._ids.of_call(call.id), "type": "function", "function": function}

    def _result(self, result: ToolResult) -> None:
        id = self._ids.of_result(result.tool_call_id)
        if not id:
            return
        parts = shown(result.content, self._model, IMAGES)
        images = [part for part in parts if isinstance(part, Image)]
        text = "\n".join(part for part in parts if isinstance(part, str))
        text = text or ("(see the image below)" if images else NO_OUTPUT)
        self._messages.append({"role": "tool", "tool_call_id": id, "content": text})
        self._images += images

    def _show_images(self) -> None:
        if self._images:
            self._user(["The tools' images:", *self._images])
            self._images = []


def _thoughts(blocks: Sequence[Block]) -> Json:
    """What the model thought, by the name of the field in which it said so."""
    thoughts: dict[str, list[str]] = {}
    for block in blocks:
        if isinstance(block, Thinking) and block.thinking and block.thinking_signature in _THOUGHT_FIELDS:
            thoughts.setdefault(str(block.thinking_signature), []).append(block.thinking)
    return {field: "\n\n".join(texts) for field, texts in thoughts.items()}


def _part(part: str | Image) -> Json:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image_url", "image_url": {"url": data_url(part)}}


def _plain(message: Json) -> Json:
    """Text alone is sent as a string, which servers that know no images insist on."""
    content = message["content"]
    if isinstance(content, list) and all(part["type"] == "text" for part in content):
        return {**message, "content": "\n\n".join(part["text"] for part in content)}
    return message


# --- what is read -------------------------------------------------------------------------------

_REASONS: dict[str, Literal["stop", "length", "toolUse"]] = {
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "toolUse",
    "function_call": "toolUse",
}
_FAILED = re.compile(r"error|exceeded|insufficient|abort")


class _OpenCall:
    def __init__(self, index: int, id: str, name: str) -> None:
        self.index = index
        self.id = id
        self.name = name


class ChatReader:
    def __init__(self, model: Model) -> None:
        self._model = model
        self._blocks = 0
        self._saying: tuple[str, int] = ("", -1)
        self._last_call: _OpenCall | None = None
        self._by_id: dict[str, _OpenCall] = {}
        self._at: dict[int, _OpenCall] = {}
        self._reason: Literal["stop", "length", "toolUse"] | None = None
        self._usage = Usage()

    def feed(self, event: str, data: str) -> Iterable[Piece | Finished]:
        if data.strip() == "[DONE]":
            self._reason = self._reason or "stop"
            yield from self.end()
            return
        chunk = loads(data.encode())
        if chunk.get("error") or chunk.get("object") == "error" or event == "error":
            raise failure(self._model, 0, data)
        self._count(chunk.get("usage") or (chunk.get("x_groq") or {}).get("usage"))
        for choice in (chunk.get("choices") or ())[:1]:
            self._count(choice.get("usage"))
            yield from self._said(choice.get("delta", choice.get("message")) or {})
            self._ended(choice.get("finish_reason"), data)

    def end(self) -> Iterable[Piece | Finished]:
        reason, self._reason = self._reason, None
        if reason:
            yield Finished(reason, self._usage)

    def _said(self, delta: Json) -> Iterator[Piece]:
        for field in _THOUGHT_FIELDS:  # some servers say it under two names at once
            if delta.get(field):
                yield self._more("thinking", delta[field], field)
                break
        content = delta.get("content") or delta.get("refusal")
        parts: list[Json] = content if isinstance(content, list) else [{"type": "text", "text": content}]
        for part in parts:
            if part.get("type") == "thinking":  # Mistral's way: parts within parts
                for thought in part.get("thinking") or ():
                    if thought.get("text"):
                        yield self._more("thinking", thought["text"])
            elif part.get("text"):
                yield self._more("text", part["text"])
        for call in delta.get("tool_calls") or ():
            yield self._called(call)

    def _more(self, kind: Literal["text", "thinking"], text: str, signature: str = "") -> Piece:
        if not isinstance(text, str):
            raise ValueError(f"{kind} that is no text")
        if self._saying[0] != kind:
            self._saying = (kind, self._begin())
        return Piece(self._saying[1], kind, text, signature=signature)

    def _begin(self) -> int:
        self._blocks += 1
        return self._blocks - 1

    def _called(self, delta: Json) -> Piece:
        function = delta.get("function") or {}
        arguments = function.get("arguments") or ""
        text = arguments if isinstance(arguments, str) else json_text(arguments)
        id, name = delta.get("id") or "", function.get("name") or ""
        call = self._meant(delta.get("index"), id, name)
        if call is None:
            call = _OpenCall(self._begin(), id or f"call_{uuid4().hex[:24]}", name)
            self._saying = ("", -1)
            self._last_call = call
            self._by_id.setdefault(call.id, call)
            if isinstance(delta.get("index"), int):
                self._at[delta["index"]] = call
            return Piece(call.index, "toolCall", text, id=call.id, name=name)
        if name and not call.name:
            call.name = name
            return Piece(call.index, "toolCall", text, name=name)
        return Piece(call.index, "toolCall", text)

    def _meant(self, index: Any, id: str, name: str) -> _OpenCall | None:
        """The call that has begun and goes on; None if another begins.

        There are servers that give every call the number 0, none at all, or no id.
        """
        if known := self._by_id.get(id):
            return known
        if isinstance(index, int):
            call = self._at.get(index)
            return None if call and id and name and call.name else call
        return None if name else self._last_call

    def _ended(self, reason: Any, data: str) -> None:
        if not reason:
            return
        if reason == "content_filter":
            raise filtered(self._model)
        if _FAILED.search(str(reason)):
            raise failure(self._model, 0, data)
        self._reason = _REASONS.get(reason, "stop")

    def _count(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        told = usage.get("prompt_tokens_details") or {}
        sent, said = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
        read = (
            told.get("cached_tokens")
            or usage.get("prompt_cache_hit_tokens")  # DeepSeek
            or usage.get("cached_tokens")  # Moonshot
            or 0
        )
        written = told.get("cache_write_tokens") or 0
        thought = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
        if thought and usage.get("total_tokens") == sent + said + thought:
            said += thought  # xAI does not count thinking among what was said; all others do
        self._usage = Usage(max(0, sent - read - written), said, read, written)
