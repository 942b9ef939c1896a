"""OpenAI's Responses: a conversation is a list of items, and an answer is some more of them.

Nothing is stored at the server, so reasoning comes and goes encrypted. It is kept where pi keeps it: a
reasoning item as JSON in its block's signature, a message's id in its text's, and a call's two ids as one,
`call_id|item_id`. By these ids the server knows which item belongs to which reasoning, so they go back
together, to the very model that made them, or not at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from msgspec import UNSET, UnsetType

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
from perdure.session.entry import Assistant, Image, Text, Thinking, ToolCall, ToolResult, User
from perdure.session.record import loads

Json = dict[str, Any]

_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LEAST_OUTPUT = 16  # fewer tokens are refused


class OpenAIResponses:
    def call(self, model: Model, request: Request, key: str) -> Call:
        body: Json = {"model": model.id, "input": _History(model).of(request), "stream": True, "store": False}
        if request.tools:
            body["tools"] = [_tool(spec) for spec in request.tools]
        if request.max_tokens:
            body["max_output_tokens"] = max(_LEAST_OUTPUT, request.max_tokens)
        if model.reasoning:
            body["include"] = ["reasoning.encrypted_content"]
            if wanted := effort(model, request.thinking):
                summary = {"summary": "auto"} if wanted != "none" else {}
                body["reasoning"] = {"effort": wanted, **summary}
        if request.session_id:
            body["prompt_cache_key"] = request.session_id[:64]
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return Call(f"{model.base_url.rstrip('/')}/responses", headers, body)

    def reader(self, model: Model) -> ResponsesReader:
        return ResponsesReader(model)


def _tool(spec: ToolSpec) -> Json:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", **function, "strict": False}


# --- what is sent -------------------------------------------------------------------------------


class _History:
    def __init__(self, model: Model) -> None:
        self._model = model
        self._calls = Ids(_ID, 32)
        self._sent: set[str] = set()

    def of(self, request: Request) -> list[Json]:
        return [*self._instructions(request.system), *self._conversation(request)]

    def _instructions(self, system: str) -> Iterator[Json]:
        if system:
            role = "developer" if self._model.reasoning and is_openai(self._model) else "system"
            yield {"role": role, "content": system}

    def _conversation(self, request: Request) -> Iterator[Json]:
        for message in request.messages:
            match message:
                case User():
                    parts = shown(message.content, self._model, IMAGES) or [NOTHING_SAID]
                    yield {"role": "user", "content": [_part(each) for each in parts]}
                case Assistant():
                    yield from self._answer(message)
                case ToolResult() if id := self._calls.of_result(message.tool_call_id):
                    yield {"type": "function_call_output", "call_id": id, "output": self._output(message)}

    def _answer(self, message: Assistant) -> Iterator[Json]:
        """An answer that did not end is sent as anybody's: what belonged to its reasoning may be missing."""
        ended = not message.is_broken_off
        items = self._items(message, with_ids=ended and is_own(message, self._model))
        while items and items[-1]["type"] == "reasoning":
            items.pop()
        ids = [item["id"] for item in items if "id" in item]
        if len({*ids, *self._sent}) < len(ids) + len(self._sent):
            items = [_anybodys(item) for item in items if item["type"] != "reasoning"]
        else:
            self._sent.update(ids)
        yield from items

    def _items(self, message: Assistant, *, with_ids: bool) -> list[Json]:
        blocks = blocks_of(message.content)
        thoughts = [_reasoning(block.thinking_signature) for block in blocks if isinstance(block, Thinking)]
        if not (with_ids and all(thoughts)):
            thoughts = [None] * len(thoughts)
            with_ids = False
        items: list[Json] = []
        for block in blocks:
            match block:
                case Thinking():
                    items += filter(None, [thoughts.pop(0)])
                case Text(text=text) if text:
                    items.append(_message(text, block.text_signature))
                case ToolCall():
                    items.append(self._call(block))
        return items if with_ids else [_anybodys(item) for item in items]

    def _call(self, call: ToolCall) -> Json:
        item = {
            "type": "function_call",
            "call_id": self._calls.of_call(call.id),
            "name": name_of(call.name),
            "arguments": json_text(arguments_of(call)),
        }
        _, _, id = call.id.partition("|")
        return {**item, "id": id} if id.startswith("fc") and _ID.fullmatch(id) else item

    def _output(self, result: ToolResult) -> str | list[Json]:
        parts = shown(result.content, self._model, IMAGES)
        if any(isinstance(part, Image) for part in parts):
            return [_part(each) for each in parts]
        return "\n".join(map(str, parts)) or NO_OUTPUT


def _part(part: str | Image) -> Json:
    if isinstance(part, str):
        return {"type": "input_text", "text": part}
    return {"type": "input_image", "detail": "auto", "image_url": data_url(part)}


def _message(text: str, signature: str | UnsetType) -> Json:
    """Both that the model made, and what remains if its id is not one that the server gave."""
    kept = _json(signature)
    id = kept.get("id", signature) if kept else signature
    if not (isinstance(id, str) and id.startswith("msg") and _ID.fullmatch(id)):
        return {"type": "message", "role": "assistant", "content": text}
    said = {"type": "output_text", "text": text, "annotations": []}
    phase = {"phase": kept["phase"]} if kept.get("phase") in ("commentary", "final_answer") else {}
    return {
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "id": id,
        "content": [said],
        **phase,
    }


def _reasoning(signature: str | UnsetType) -> Json | None:
    """A reasoning item that the server understands without having stored it."""
    item = _json(signature)
    id = item.get("id")
    if item.get("type") != "reasoning" or not (isinstance(id, str) and _ID.fullmatch(id)):
        return None
    if not (item.get("encrypted_content") or item.get("content")):
        return None
    kept = ("type", "id", "content", "encrypted_content")
    return {"summary": item.get("summary") or [], **{name: item[name] for name in kept if item.get(name)}}


def _anybodys(item: Json) -> Json:
    """Without what ties it to the answer it came from."""
    item = {name: value for name, value in item.items() if name not in ("id", "status", "phase")}
    if item["type"] == "message" and isinstance(item["content"], list):
        item["content"] = item["content"][0]["text"]
    return item


def _json(text: str | UnsetType) -> Json:
    if text is UNSET or not text.startswith("{"):
        return {}
    try:
        return loads(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return {}


# --- what is read -------------------------------------------------------------------------------

_KINDS: dict[str, Literal["text", "thinking", "toolCall"]] = {
    "message": "text",
    "reasoning": "thinking",
    "function_call": "toolCall",
}
_DELTAS = {
    "response.output_text.delta": "message",
    "response.refusal.delta": "message",
    "response.reasoning_summary_text.delta": "reasoning",
    "response.reasoning_text.delta": "reasoning",
    "response.function_call_arguments.delta": "function_call",
}


class _Item:
    def __init__(self, index: int, kind: Literal["text", "thinking", "toolCall"]) -> None:
        self.index = index
        self.kind = kind
        self.source = ""
        self.part = 0
        self.said: list[str] = []
        self.signature = ""

    def more(self, text: str, *, signature: str = "") -> Piece:
        self.said.append(text)
        self.signature = signature or self.signature
        return Piece(self.index, self.kind, text, signature=signature)

    def rest(self, whole: str) -> str:
        """What has not been said of it yet: some servers send no pieces, or the last one is missing."""
        so_far = "".join(self.said)
        return whole[len(so_far) :] if whole.startswith(so_far) else ""


class ResponsesReader:
    def __init__(self, model: Model) -> None:
        self._model = model
        self._items: dict[Any, _Item] = {}

    def feed(self, event: str, data: str) -> Iterable[Piece | Finished]:
        if data.strip() == "[DONE]":  # from those who know it from the other protocol
            return
        told = loads(data.encode())
        made = told.get("item") or {}
        told.setdefault("item_id", made.get("id") or made.get("call_id"))  # llama.cpp numbers no items
        kind = told.get("type") or event
        if kind in _DELTAS:
            yield from self._delta(_DELTAS[kind], kind, told)
        elif kind == "response.function_call_arguments.done":
            yield from self._arguments(told, told.get("arguments"))
        elif kind == "response.output_item.added" and told["item"].get("type") == "function_call":
            yield from self._called(told, told["item"])
        elif kind == "response.output_item.done":
            yield from self._done(told, told["item"])
        elif kind in ("response.completed", "response.incomplete"):
            yield from self._completed(told.get("response") or {}, kind)
        elif kind == "response.failed":
            raise failure(self._model, 0, json_text({"error": told.get("response", {}).get("error") or {}}))
        elif kind == "error" or told.get("error"):
            raise failure(self._model, 0, data)

    def end(self) -> Iterable[Piece | Finished]:
        return ()

    def _known(self, told: Json) -> _Item | None:
        return self._items.get(told.get("output_index", told.get("item_id")))

    def _item(self, told: Json, type: str) -> _Item:
        item = self._known(told)
        if item is None:
            item = _Item(len(self._items), _KINDS[type])
            self._items[told.get("output_index", told.get("item_id"))] = item
        if item.kind != _KINDS[type]:
            raise ValueError(f"an item that is {item.kind} and {type}")
        return item

    def _delta(self, type: str, kind: str, told: Json) -> Iterator[Piece]:
        if type == "function_call" and not self._known(told):
            raise ValueError("arguments of a call that did not begin")
        text = told.get("delta")
        if not text:
            return
        item = self._item(told, type)
        item.source = item.source or kind
        if type == "reasoning" and item.source != kind:
            return  # the same thoughts once more, as they were or as a summary
        part = told.get("summary_index", told.get("content_index")) or 0
        if type == "reasoning" and part != item.part and item.said:
            text = "\n\n" + text
        item.part = part
        yield item.more(text)

    def _called(self, told: Json, call: Json) -> Iterator[Piece]:
        item = self._item(told, "function_call")
        arguments = call.get("arguments") or ""
        item.said.append(arguments)
        id = f"{call['call_id']}|{call['id']}" if call.get("id") else call["call_id"]
        yield Piece(item.index, "toolCall", arguments, id=id, name=call["name"])

    def _arguments(self, told: Json, arguments: Any) -> Iterator[Piece]:
        item = self._item(told, "function_call")
        if rest := item.rest(arguments or ""):
            yield item.more(rest)

    def _done(self, told: Json, done: Json) -> Iterator[Piece]:
        match done.get("type"):
            case "function_call":
                if not self._known(told):
                    yield from self._called(told, done)
                yield from self._arguments(told, done.get("arguments"))
            case "message":
                parts = done.get("content") or ()
                whole = "".join(part.get("text") or part.get("refusal") or "" for part in parts)
                phase = {"phase": done["phase"]} if done.get("phase") else {}
                signature = json_text({"v": 1, "id": done["id"], **phase}) if done.get("id") else ""
                if whole or self._known(told):
                    item = self._item(told, "message")
                    yield item.more(item.rest(whole), signature=signature)
            case "reasoning":
                parts = done.get("summary") or done.get("content") or ()
                whole = "\n\n".join(part.get("text") or "" for part in parts)
                if whole or done.get("encrypted_content") or self._known(told):
                    item = self._item(told, "reasoning")
                    yield item.more(item.rest(whole), signature=json_text(done))

    def _completed(self, response: Json, kind: str) -> Iterator[Piece | Finished]:
        nothing_yet = not self._items
        for at, done in enumerate(response.get("output") or ()):
            if nothing_yet or self._lacks_its_key(at, done):
                yield from self._done({"output_index": at}, done)
        why = (response.get("incomplete_details") or {}).get("reason")
        if why == "content_filter":
            raise filtered(self._model)
        if response.get("status") == "failed" or response.get("error"):
            raise failure(self._model, 0, json_text({"error": response.get("error") or {}}))
        called = any(item.kind == "toolCall" for item in self._items.values())
        cut = kind == "response.incomplete" or response.get("status") == "incomplete"
        reason: Literal["length", "toolUse", "stop"] = "length" if cut else "toolUse" if called else "stop"
        yield Finished(reason, _usage(response.get("usage") or {}))

    def _lacks_its_key(self, at: int, done: Json) -> bool:
        """Azure sends what reasoning is encrypted to at the very end."""
        item = self._items.get(at)
        if item is None or item.kind != "thinking" or not done.get("encrypted_content"):
            return False
        return not _json(item.signature).get("encrypted_content")


def _usage(told: Json) -> Usage:
    details = told.get("input_tokens_details") or {}
    read, written = details.get("cached_tokens") or 0, details.get("cache_write_tokens") or 0
    sent, said = told.get("input_tokens") or 0, told.get("output_tokens") or 0
    return Usage(max(0, sent - read - written), said, read, written)
