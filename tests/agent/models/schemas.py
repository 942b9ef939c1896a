"""Whether a provider would take a request: the types of its official SDK, and the rules that no type says.

    assert accepts("openai-completions", call.body) == []

Each problem is a sentence. A provider is one function in `CHECKS`, from a request's body to its problems. The
body is looked at as it travels: after JSON, where only whole characters exist.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import pydantic

from perdure.agent.models.history import json_text

Json = dict[str, Any]


def accepts(api: str, body: Any) -> list[str]:
    return [*CHECKS[api](json.loads(json_text(body)))]


# --- the SDKs' types ----------------------------------------------------------------------------


def misfits(adapter: pydantic.TypeAdapter[Any], body: Any) -> Iterator[str]:
    """What the SDK's type does not allow. Members it does not know are problems too."""
    try:
        known = _forced(adapter.validate_python(body))
    except pydantic.ValidationError as error:
        yield from (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
    else:
        yield from _lost(body, known, "body")


def _forced(value: Any) -> Any:
    """Pydantic looks at an `Iterable` only while somebody reads it."""
    if isinstance(value, dict):
        return {name: _forced(each) for name, each in value.items()}
    if isinstance(value, str | int | float | bool | None):
        return value
    return [_forced(each) for each in value]


def _lost(given: Any, known: Any, place: str) -> Iterator[str]:
    if isinstance(given, dict) and isinstance(known, dict):
        for name, value in given.items():
            if name not in known:
                yield f"{place}.{name} is no member that the SDK knows"
            else:
                yield from _lost(value, known[name], f"{place}.{name}")
    elif isinstance(given, list) and isinstance(known, list) and len(given) == len(known):
        for at, (one, other) in enumerate(zip(given, known, strict=True)):
            yield from _lost(one, other, f"{place}[{at}]")
    elif given != known:
        yield f"{place} is {given!r:.60}, which the SDK takes for {known!r:.60}"


# --- OpenAI -------------------------------------------------------------------------------------

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SHOWN = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+=*")


@cache
def _chat() -> pydantic.TypeAdapter[Any]:
    from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

    return pydantic.TypeAdapter(CompletionCreateParamsStreaming)


@cache
def _responses() -> pydantic.TypeAdapter[Any]:
    from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

    return pydantic.TypeAdapter(ResponseCreateParamsStreaming)


_OTHER_SERVERS = ("reasoning_content", "reasoning", "reasoning_text")
"""Members of an answer that OpenAI's SDK does not know and other servers want back."""


def openai_chat(body: Json) -> Iterator[str]:
    plain = [
        {name: value for name, value in each.items() if name not in _OTHER_SERVERS}
        for each in body["messages"]
    ]
    yield from misfits(_chat(), {**body, "messages": plain})
    open_calls: list[str] = []
    before = ""
    for at, message in enumerate(body["messages"]):
        place, role = f"messages[{at}]", message["role"]
        if role == "tool":
            if message["tool_call_id"] not in open_calls:
                yield f"{place} answers {message['tool_call_id']!r}, which is not open"
            else:
                open_calls.remove(message["tool_call_id"])
        elif open_calls:
            yield f"{place} comes before the answers to {open_calls}"
            open_calls = []
        if role == before != "tool":
            yield f"{place} is the second {role} message in a row"
        before = role
        calls = message.get("tool_calls")
        if role == "assistant" and not message.get("content") and not calls:
            yield f"{place} says nothing"
        if calls == []:
            yield f"{place} has a list of no calls"
        if role in ("user", "tool") and not message["content"]:
            yield f"{place} is empty"
        for call in calls or ():
            open_calls.append(call["id"])
            if not re.fullmatch(r"[A-Za-z0-9_-]{1,40}", call["id"]) or open_calls.count(call["id"]) > 1:
                yield f"{place} calls with the id {call['id']!r}"
            yield from _function(place, call["function"]["name"], call["function"]["arguments"])
        parts = message["content"] if isinstance(message.get("content"), list) else []
        for part in parts:
            yield from _part(place, part.get("text"), part.get("image_url", {}).get("url"))
    if open_calls:
        yield f"{open_calls} are never answered"
    yield from _tools(body, [each.get("function", {}) for each in body.get("tools", ())])


def openai_responses(body: Json) -> Iterator[str]:
    yield from misfits(_responses(), body)
    open_calls: list[str] = []
    seen: set[str] = set()
    for at, item in enumerate(body["input"]):
        place, kind = f"input[{at}]", item.get("type", "message")
        if item.get("id") is not None:
            if item["id"] in seen or not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", item["id"]):
                yield f"{place} has the id {item['id']!r}"
            seen.add(item["id"])
        if kind == "function_call":
            open_calls.append(item["call_id"])
            if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", item["call_id"]) or item["call_id"] in seen:
                yield f"{place} calls with the id {item['call_id']!r}"
            seen.add(item["call_id"])
            if not item.get("id", "fc_").startswith("fc_"):
                yield f"{place} has the id {item['id']!r}, which is no function call's"
            yield from _function(place, item["name"], item["arguments"])
        elif kind == "function_call_output":
            if item["call_id"] not in open_calls:
                yield f"{place} answers {item['call_id']!r}, which is not open"
            else:
                open_calls.remove(item["call_id"])
            if not item["output"]:
                yield f"{place} is empty"
        elif kind == "message" and open_calls:
            yield f"{place} comes before the answers to {open_calls}"
        elif kind == "reasoning" and not item.get("encrypted_content"):
            yield f"{place} refers to what was not stored"
        following = body["input"][at + 1 :][:1]
        if kind == "reasoning" and (not following or following[0].get("role", "assistant") != "assistant"):
            yield f"{place} is reasoning without what it led to"
        content = item.get("content") if kind == "message" else item.get("output")
        if kind == "message" and not content:
            yield f"{place} is empty"
        for part in content if isinstance(content, list) else ():
            yield from _part(place, part.get("text"), part.get("image_url"))
    if open_calls:
        yield f"{open_calls} are never answered"
    yield from _tools(body, body.get("tools", ()))


def _function(place: str, name: str, arguments: str) -> Iterator[str]:
    if not _NAME.fullmatch(name):
        yield f"{place} calls {name!r}"
    try:
        if not isinstance(json.loads(arguments), dict):
            yield f"{place} has arguments that are no object: {arguments!r:.60}"
    except ValueError:
        yield f"{place} has arguments that are no JSON: {arguments!r:.60}"
    if re.search(r"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])", arguments):
        yield f"{place} has arguments with half a character: {arguments!r:.60}"


def _part(place: str, text: str | None, image: str | None) -> Iterator[str]:
    if text == "":
        yield f"{place} has an empty text"
    if image is not None and not _SHOWN.fullmatch(image):
        yield f"{place} shows {image!r:.60}"


def _tools(body: Json, functions: Any) -> Iterator[str]:
    if body.get("tools") == []:
        yield "body has a list of no tools"
    for function in functions:
        if not _NAME.fullmatch(function.get("name", "")):
            yield f"body has a tool named {function.get('name')!r}"


# --- Anthropic ----------------------------------------------------------------------------------


@cache
def _messages() -> pydantic.TypeAdapter[Any]:
    from anthropic.types.beta.message_create_params import MessageCreateParamsStreaming

    return pydantic.TypeAdapter(MessageCreateParamsStreaming)


def anthropic_messages(body: Json) -> Iterator[str]:
    yield from misfits(_messages(), body)
    roles = [message["role"] for message in body["messages"]]
    if roles != ["user", "assistant"] * (len(roles) // 2) + ["user"]:
        yield f"the roles are {roles}"
    seen: set[str] = set()
    open_calls: list[str] = []
    for at, message in enumerate(body["messages"]):
        place, blocks = f"messages[{at}]", message["content"]
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(answered) != sorted(open_calls):
            yield f"{place} answers {answered}, and {open_calls} are open"
        if any(block["type"] == "tool_result" for block in blocks[len(answered) :]):
            yield f"{place} has results behind something else"
        open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        for id in open_calls:
            if id in seen or not re.fullmatch(r"[a-zA-Z0-9_-]+", id):
                yield f"{place} calls with the id {id!r}"
            seen.add(id)
        for block in blocks:
            for each in (block, *block.get("content", ())):
                yield from _block(place, each)
    for block in body.get("system", ()):
        yield from _block("system", block)
    everything = [*body.get("system", ()), *body.get("tools", ())]
    everything += [block for message in body["messages"] for block in message["content"]]
    if sum("cache_control" in block for block in everything) > 4:
        yield "body has more than four marks for the cache"
    if seen and not body.get("tools"):
        yield "body has calls, and no tools"
    thinking = body.get("thinking", {})
    if thinking.get("type") == "enabled" and not 1024 <= thinking["budget_tokens"] < body["max_tokens"]:
        yield f"body has a budget of {thinking['budget_tokens']} of {body['max_tokens']}"


def _block(place: str, block: Json) -> Iterator[str]:
    match block:
        case {"type": "text", "text": text} if not text.strip():
            yield f"{place} has a blank text"
        case {"type": "tool_use", "name": name, "input": given}:
            if not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", name) or not isinstance(given, dict):
                yield f"{place} calls {name!r} with {given!r:.60}"
        case {"type": "tool_result", "is_error": True, "content": []}:
            yield f"{place} has an error that says nothing"
        case {"type": "image", "source": {"data": data}} if not data:
            yield f"{place} has an image that shows nothing"
        case {"type": "thinking" | "redacted_thinking", "cache_control": _}:
            yield f"{place} marks thinking for the cache"


# --- Google -------------------------------------------------------------------------------------


@cache
def _generate() -> dict[str, pydantic.TypeAdapter[Any]]:
    from google.genai import types

    return {
        "contents": pydantic.TypeAdapter(list[types.Content]),
        "systemInstruction": pydantic.TypeAdapter(types.Content),
        "tools": pydantic.TypeAdapter(list[types.Tool]),
        "generationConfig": pydantic.TypeAdapter(types.GenerationConfig),
    }


def google_generative_ai(body: Json) -> Iterator[str]:
    for name, value in body.items():
        if name not in _generate():
            yield f"body.{name} is no member that the SDK knows"
            continue
        try:
            _generate()[name].validate_python(value)  # which allows no others: the SDK forbids them itself
        except pydantic.ValidationError as error:
            yield from (f"{name}.{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
    roles = [content["role"] for content in body["contents"]]
    if not roles or roles[0] != "user" or roles[-1] != "user" or ("model", "model") in pairwise(roles):
        yield f"the roles are {roles}"
    open_calls: list[tuple[str, str]] = []
    for at, content in enumerate(body["contents"]):
        place, parts = f"contents[{at}]", content["parts"]
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        answered = [(answer["name"], answer.get("id", "")) for answer in answers]
        if answered != open_calls or 0 < len(answered) < len(parts):
            yield f"{place} answers {answered} among {len(parts)} parts, and {open_calls} are open"
        calls = [part["functionCall"] for part in parts if "functionCall" in part]
        open_calls = [(call["name"], call.get("id", "")) for call in calls]
        if not parts:
            yield f"{place} is empty"
        for part in parts:
            yield from _google_part(place, content["role"], part)
    if open_calls:
        yield f"{open_calls} are never answered"
    if {"thinkingLevel", "thinkingBudget"} <= body.get("generationConfig", {}).get(
        "thinkingConfig", {}
    ).keys():
        yield "body has both a level and a budget of thinking"


def _google_part(place: str, role: str, part: Json) -> Iterator[str]:
    if len(part.keys() - {"thought", "thoughtSignature"}) != 1:
        yield f"{place} has not one thing in a part but {[*part]}"
    if "thoughtSignature" in part and role != "model":
        yield f"{place} is signed, and not the model's"
    match part:
        case {"text": ""} if "thoughtSignature" not in part:
            yield f"{place} has an empty text"
        case {"inlineData": {"data": ""}}:
            yield f"{place} has an image that shows nothing"
        case {"functionResponse": {"response": response}} if response.keys() not in ({"output"}, {"error"}):
            yield f"{place} has a result of {[*response]}"
        case {"functionCall": {"name": name, "args": given}}:
            if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}", name) or not isinstance(given, dict):
                yield f"{place} calls {name!r} with {given!r:.60}"


CHECKS: dict[str, Callable[[Any], Iterator[str]]] = {
    "openai-completions": openai_chat,
    "openai-responses": openai_responses,
    "anthropic-messages": anthropic_messages,
    "google-generative-ai": google_generative_ai,
}
