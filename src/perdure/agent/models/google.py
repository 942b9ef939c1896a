"""The Google generative AI protocol.

A request keeps this server's rules whatever the history holds: user and model take turns, the user begins and
ends, the results of all calls of one answer stand alone in the content right behind it, and no text is empty.
What a model signed goes back only to that model; to one that wants a signature with every call, the calls of
others go with the value that Google gives for this purpose.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal
from urllib.parse import quote

from perdure.agent.models import Call, Finished, Model, Piece, Request, Sent, Usage, arguments_of, is_own
from perdure.agent.models.history import NO_TEXT, Images, blocks_of, json_text, name_of, shown
from perdure.agent.models.http_errors import declined, failure
from perdure.errors import ModelError, ModelUnavailable
from perdure.session.entry import Assistant, Content, Image, Text, Thinking, ToolCall, ToolResult, User
from perdure.session.record import loads

_IMAGES = Images(
    frozenset({"image/jpeg", "image/png", "image/webp", "image/heic", "image/heif"}),
    100_000_000,  # all of a request may be no larger
)
_SEE_BELOW = "(the images follow)"
_UNSIGNED = "skip_thought_signature_validator"
"""What stands for a signature where there can be none."""

_Part = dict[str, Any]


class GoogleGenerativeAI:
    def call(self, model: Model, request: Request, key: str) -> Call:
        body: dict[str, Any] = {"contents": _contents(model, request.messages)}
        if request.system.strip():
            body["systemInstruction"] = {"parts": [{"text": request.system}]}
        if request.tools:
            declared = [
                {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters}
                for tool in request.tools
            ]
            body["tools"] = [{"functionDeclarations": declared}]
        config: dict[str, Any] = {}
        if request.max_tokens:
            config["maxOutputTokens"] = min(request.max_tokens, model.max_tokens)
        if thinking := _thinking(model, request.thinking):
            config["thinkingConfig"] = thinking
        if config:
            body["generationConfig"] = config
        name = model.id if "/" in model.id else f"models/{model.id}"
        url = f"{model.base_url.rstrip('/')}/{quote(name, safe='/')}:streamGenerateContent?alt=sse"
        return Call(url, {"x-goog-api-key": key} if key else {}, body)

    def reader(self, model: Model) -> _Reader:
        return _Reader(model)


# --- thinking -----------------------------------------------------------------------------------
# Gemini 2.5 thinks within a budget of tokens, Gemini 3 and later at a level. Not every model can be kept from
# thinking, nor knows every level: it is asked for the nearest it knows.

_BUDGETS = {"minimal": 512, "low": 2048, "medium": 8192, "high": 24_576, "xhigh": 32_768}
_LEVELS = {"minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH", "xhigh": "HIGH"}
_GEMINI = re.compile(r"gemini-(?:(\d+)(?:\.(\d+))?|(?:[a-z]+-)+(latest))", re.ASCII)
_LATEST = (99, 0)


def _generation(model: Model) -> tuple[int, int]:
    """The version of a Gemini; 0 of anything else."""
    found = _GEMINI.search(model.id.lower())
    if found is None:
        return (0, 0)
    major, minor, latest = found.groups()
    return _LATEST if latest else (int(major), int(minor or 0))


def _thinking(model: Model, level: str) -> _Part:
    if not model.reasoning:
        return {}
    generation, is_on = _generation(model), level in _BUDGETS
    shown = {"includeThoughts": True} if is_on else {}
    if generation >= (3, 0):
        return {**shown, "thinkingLevel": _level(model, generation, level)}
    if generation >= (2, 5):
        return {**shown, "thinkingBudget": _budget(model, level)}
    return shown


def _level(model: Model, generation: tuple[int, int], level: str) -> str:
    wanted = _LEVELS.get(level, "MINIMAL")
    if wanted == "MINIMAL" and not ("-flash" in model.id and generation <= (3, 6)):
        return "LOW"
    if wanted == "MEDIUM" and "-pro" in model.id and generation == (3, 0):
        return "HIGH"
    return wanted


def _budget(model: Model, level: str) -> int:
    is_pro = "-pro" in model.id
    return min(_BUDGETS[level], 32_768 if is_pro else 24_576) if level in _BUDGETS else 128 if is_pro else 0


# --- the conversation ---------------------------------------------------------------------------


def _contents(model: Model, messages: Sequence[Sent]) -> list[_Part]:
    contents: list[_Part] = []

    def add(role: str, parts: list[_Part]) -> None:
        if not parts:
            return
        if not contents and role == "model":
            add("user", [{"text": NO_TEXT}])
        if (
            contents
            and contents[-1]["role"] == role
            and _are_results(contents[-1]["parts"]) == _are_results(parts)
        ):
            contents[-1]["parts"] += parts
        else:
            contents.append({"role": role, "parts": parts})

    calls: dict[str, list[_Part]] = {}  # those made last, until their results have come
    images: list[_Part] = []  # of results; they may not stand among them
    for message in messages:
        if isinstance(message, ToolResult):
            waiting = calls.get(message.tool_call_id)
            if waiting:
                parts = _shown(model, message.content)
                seen = [part for part in parts if "inlineData" in part]
                add("user", [_result(waiting.pop(0), message, parts)])
                images += [{"text": f"Images of {message.tool_name}:"}, *seen] if seen else []
            continue
        add("user", images)
        images = []
        if isinstance(message, User):
            add("user", _shown(model, message.content))
            continue
        parts, calls = [], {}
        for id, part in _said(model, message):
            parts.append(part)
            if id is not None:
                calls.setdefault(id, []).append(part["functionCall"])
        add("model", parts)
    add("user", images)
    if not contents or contents[-1]["role"] == "model":
        add("user", [{"text": NO_TEXT}])
    return contents


def _are_results(parts: Sequence[_Part]) -> bool:
    return "functionResponse" in parts[0]


def _shown(model: Model, content: Content) -> list[_Part]:
    return [_part(each) for each in shown(content, model, _IMAGES)]


def _part(part: str | Image) -> _Part:
    if isinstance(part, str):
        return {"text": part}
    return {"inlineData": {"mimeType": part.mime_type, "data": part.data}}


def _result(call: _Part, result: ToolResult, parts: Sequence[_Part]) -> _Part:
    said = "\n".join(part["text"] for part in parts if "text" in part)
    if not said and parts:
        said = _SEE_BELOW
    response = {"error" if result.is_error else "output": said}
    of_call = {name: call[name] for name in ("id", "name") if name in call}
    return {"functionResponse": {**of_call, "response": response}}


def _said(model: Model, message: Assistant) -> Iterator[tuple[str | None, _Part]]:
    """The parts of an answer; with those that are calls, the ids by which their results speak of them."""
    own = is_own(message, model)
    wants_signature = _generation(model) >= (3, 0)  # with the first call of an answer
    for block in blocks_of(message.content):
        match block:
            case Text(text=text, text_signature=signature):
                signed = _signed(signature) if own else {}
                if text.strip() or signed:
                    yield None, {"text": text, **signed}
            case Thinking(thinking=text, thinking_signature=signature) if own and (
                signed := _signed(signature)
            ):
                yield None, {"text": text, "thought": True, **signed}
            case ToolCall(id=id, thought_signature=signature):
                signed = _signed(signature) if own else {}
                if wants_signature and not signed:
                    signed = {"thoughtSignature": _UNSIGNED}
                wants_signature = False
                given = {"id": id} if own and id and not _MADE_ID.fullmatch(id) else {}
                call = {**given, "name": _name(block.name), "args": arguments_of(block)}
                yield id, {"functionCall": call, **signed}


def _signed(signature: Any) -> _Part:
    """The server reads a signature as bytes, and refuses the request if it is none."""
    is_one = isinstance(signature, str) and _BASE64.fullmatch(signature) and len(signature) % 4 == 0
    return {"thoughtSignature": signature} if is_one else {}


def _name(name: str) -> str:
    sound = name_of(name, besides=".:")
    return sound if sound[0].isalpha() or sound[0] == "_" else f"_{sound[:63]}"


_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_MADE_ID = re.compile(r"call-[0-9a-f]{16}-\d+")


# --- the answer ---------------------------------------------------------------------------------

_CUT = frozenset({"MAX_TOKENS", "CONTINUATION"})
_REFUSALS = frozenset(
    {
        *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "OTHER"),
        *("TOO_MANY_TOOL_CALLS", "NO_IMAGE"),
        *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "IMAGE_OTHER"),
    }
)
_STUMBLES = frozenset({"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL"})
"""The model's own slips: asked once more, it mostly does better."""


class _Reader:
    def __init__(self, model: Model) -> None:
        self._model = model
        self._index = -1
        self._kind = ""
        self._ids: set[str] = set()
        self._usage = Usage()
        self._end: Literal["stop", "length"] | None = None

    def feed(self, event: str, data: str) -> Iterable[Piece | Finished]:
        said = loads(data.encode("utf-8", "surrogatepass"))
        if said.get("error"):
            raise failure(self._model, 0, data)
        if isinstance(usage := said.get("usageMetadata"), dict):
            self._usage = _usage(usage)
        blocked = _object(said, "promptFeedback").get("blockReason")
        if blocked and blocked != "BLOCKED_REASON_UNSPECIFIED":
            raise self._refused(blocked, _object(said, "promptFeedback").get("blockReasonMessage"))
        candidates = said.get("candidates")
        if not isinstance(candidates, list) or not candidates or not isinstance(candidates[0], dict):
            return
        parts = _object(candidates[0], "content").get("parts")
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                yield from self._part(part, str(said.get("responseId", "")))
        reason = str(candidates[0].get("finishReason") or "")
        if reason and reason != "FINISH_REASON_UNSPECIFIED":
            self._stopped(reason, candidates[0].get("finishMessage"))

    def end(self) -> Iterable[Piece | Finished]:
        if self._end is None:
            return ()
        reason = "toolUse" if self._ids and self._end == "stop" else self._end
        return (Finished(reason, self._usage),)

    def _part(self, part: _Part, response: str) -> Iterable[Piece]:
        signature = part.get("thoughtSignature")
        signature = signature if isinstance(signature, str) else ""
        call, text = part.get("functionCall"), part.get("text")
        if isinstance(call, dict):
            arguments = json_text(call.get("args") or {})
            name = str(call.get("name") or "")
            id = self._id(call.get("id"), f"{response}\0{name}\0{arguments}")
            self._begin("toolCall")
            yield Piece(self._index, "toolCall", arguments, id=id, name=name, signature=signature)
            self._kind = "toolCall ended"  # the next call is another
        elif isinstance(text, str) and (text or signature):
            kind: Literal["text", "thinking"] = "thinking" if part.get("thought") is True else "text"
            self._begin(kind)
            yield Piece(self._index, kind, text, signature=signature)

    def _begin(self, kind: str) -> None:
        if kind != self._kind:
            self._index += 1
            self._kind = kind

    def _id(self, given: Any, about: str) -> str:
        """The call's id, or one made of what is known of it: older models give none."""
        id = given if isinstance(given, str) else ""
        if not id or id in self._ids:
            digest = hashlib.sha256(about.encode("utf-8", "surrogatepass")).hexdigest()[:16]
            id = f"call-{digest}-{len(self._ids)}"
        self._ids.add(id)
        return id

    def _stopped(self, reason: str, why: Any) -> None:
        if reason in _STUMBLES:
            raise ModelUnavailable(
                f"{self._model.reference} made a call that cannot be read ({reason})", "try again"
            )
        is_empty_for_no_known_reason = self._index < 0 and reason != "STOP" and reason not in _CUT
        if reason in _REFUSALS or is_empty_for_no_known_reason:
            raise self._refused(reason, why)
        self._end = "length" if reason in _CUT else "stop"

    def _refused(self, reason: Any, why: Any) -> ModelError:
        return declined(self._model, why if isinstance(why, str) else "", str(reason))


def _usage(counts: _Part) -> Usage:
    def of(*names: str) -> int:
        return sum(value for name in names if isinstance(value := counts.get(name), int))

    cached = of("cachedContentTokenCount")
    return Usage(
        input=max(of("promptTokenCount", "toolUsePromptTokenCount") - cached, 0),
        output=of("candidatesTokenCount", "thoughtsTokenCount"),
        cache_read=cached,
    )


def _object(said: _Part, name: str) -> _Part:
    value = said.get(name)
    return value if isinstance(value, dict) else {}
