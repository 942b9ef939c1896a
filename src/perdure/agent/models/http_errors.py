"""What a model's server means when it refuses, for all of them: a status and some text become one error.

Providers and the many servers that imitate them agree on statuses only roughly and on words not at all, so
both are asked. What a server says is shown as one bounded line, and only its beginning is looked at: whatever
it sends, the work on it is over before anybody has to wait.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from perdure.agent.models import Model
from perdure.errors import ContextOverflow, ModelError, ModelUnavailable, cut_between_words

MOST = 64 * 1024
"""Characters of what a server says that are looked at."""
_SENTENCE = 400
_OTHER_WORDS = "say it in other words, or take another model"

# What servers say when a conversation is too long for the model. The words are those of OpenAI and vLLM
# ("maximum context length is", "model's context length is only"), Anthropic ("prompt is too long", "exceed
# context limit"), Google ("exceeds the maximum number of tokens"), Bedrock ("input is too long"), xAI
# ("maximum prompt length"), Groq ("reduce the length of the messages", "request too large for model"),
# OpenRouter and Together ("longer than the model's context length"), Mistral ("too large for model with"),
# llama.cpp ("exceeds the available context size"), Ollama ("exceeded max context length"), LM Studio
# ("greater than the context length"), Kimi ("exceeded model token limit"), Qwen ("range of input length").
_OVERFLOW = re.compile(
    r"""
      context[_ ]length[_ ]exceeded | exceed_context_size | context_window_exceeded | request_too_large
    | prompt\ (?:is\ )?too\ long | inputs?\ (?:is|are)\ too\ long | request\ too\ large\ for
    | (?:maximum|max|model'?s?)\ (?:prompt|context|input|sequence)\ length
    | (?:exceed(?:s|ed)?|longer\ than|greater\ than|larger\ than)\ (?:the\ )?
      (?:(?:model'?s\ |available\ |configured\ )?context
        |(?:maximum|max)\ (?:allowed\ )?(?:context|input|number\ of\ (?:input\ )?tokens))
    | token\ count.{0,60}\ exceeds | exceeded\ model\ token\ limit | token\ limit\ exceeded
    | reduce\ the\ length\ of\ the\ (?:messages|input|prompt) | range\ of\ input\ length
    | too\ large\ for\ model\ with | context\ window\ exceeds | configured\ context\ size\ is
    """,
    re.IGNORECASE | re.VERBOSE,
)
_UNKNOWN_MODEL = re.compile(
    r"model[_ ]not[_ ]found|not a valid model|unknown model|no such model|invalid model"
    r"|models?\b.{0,120}\b(?:does not exist|not found|not available)",
    re.IGNORECASE | re.DOTALL,
)
_WRONG_KEY = re.compile(
    r"api[_ ]key[_ ](?:not valid|invalid)|(?:invalid|incorrect)[_ ]api[_ ]key|invalid x-api-key",
    re.IGNORECASE,
)
_USED_UP = re.compile(
    r"insufficient[_ ](?:quota|credits?|balance|funds)|credit balance is too low|out of credits"
    r"|billing_(?:hard_limit|not_active)|exceeded your current quota|payment required",
    re.IGNORECASE,
)
_BUSY = re.compile(
    r"overloaded|rate[_ ]?limit|too many requests|temporarily unavailable|RESOURCE_EXHAUSTED", re.IGNORECASE
)
_BUSY_STATUSES = {408, 409, 425, 429}
_UNITS = ((3600, "h"), (60, "min"), (1, "s"))
_AGAIN_IN = re.compile(
    r'(?:try again in |"retryDelay":\s*")(?:(?P<m>\d{1,6})m)?(?P<n>\d{1,9}(?:\.\d{1,9})?)(?P<unit>ms|s)',
    re.IGNORECASE,
)


def failure(model: Model, status: int, text: str, *, retry_after: float | None = None) -> ModelError:
    """What a refusal means. `text` is what the server said, JSON or not.

    `status` is 0 where the refusal came inside an answer that had begun: then the text alone tells, and what
    it does not tell is taken for a passing trouble, as the request had been accepted.
    """
    text = beginning(text)
    said = sentence(text)
    status = status if status >= 400 else _status_in(text)
    at = f"{model.provider} ({status})" if status else model.provider
    about = f": {said}" if said else ""
    if status == 413 or (status in (0, 400, 422, 429, 500) and _OVERFLOW.search(text)):
        return ContextOverflow(
            f"This is more than {model.reference} can read{about}",
            "begin a new session, or take a model that reads more",
        )
    if status == 402 or (status in (0, 400, 403, 429) and _is_used_up(text)):
        return ModelError(
            f"{at} has no quota left for this key{about}",
            "see your plan and billing there, or take another model",
        )
    if status in (401, 403) or (status in (0, 400) and _WRONG_KEY.search(text)):
        said = f"{at} did not accept the key{about}"
        return ModelError(said, f"correct the key of {model.provider}", kind="key")
    if status == 404 or (status in (0, 400, 422) and _UNKNOWN_MODEL.search(text)):
        return ModelError(
            f"{at} has no model {model.id} at {host_of(model)}{about}",
            _where_models_are_named(model),
        )
    if status == 0 or status in _BUSY_STATUSES or status >= 500 or _BUSY.search(text):
        wait = retry_after if retry_after is not None else _again_in(text)
        asks = "" if _AGAIN_IN.search(said) else _wait_asked(wait)
        return ModelUnavailable(
            f"{at} cannot answer now{asks}{about}",
            "try again then, or take another model" if asks else "try again later",
            retry_after=wait,
        )
    return ModelError(f"{at} refused the request{about}")


def declined(model: Model, why: str, reason: str = "") -> ModelError:
    """The model will not answer: in its own words why, if it says so, and the reason by its server's name."""
    named = f" ({one_line(reason)})" if reason else ""
    about = f": {said}" if (said := one_line(why)) else ""
    return ModelError(f"{model.reference} declined to answer{named}{about}", _OTHER_WORDS)


def filtered(model: Model) -> ModelError:
    return ModelError(f"The content filter of {model.provider} stopped the answer", _OTHER_WORDS)


def sentence(text: str) -> str:
    """What a server's refusal says, on one line and bounded: the message inside JSON, or the text itself."""
    said = parsed(text)
    found = _message_in(said) if said is not None else _message_in_cut(text)
    if not found and re.match(r"\s*<(?:!doctype|html|\?xml)", text, re.IGNORECASE):
        title = re.search(r"<title[^<>]*>([^<]*)", text, re.IGNORECASE)
        found = title.group(1) if title else "a web page"
    return one_line(found or text)


def masked(text: str, secrets: Iterable[str]) -> str:
    """Without the secrets. Shorter ones are no keys but the words that servers without keys are given."""
    for secret in secrets:
        if len(secret) >= 8:
            text = text.replace(secret, "…")
    return text


def _where_models_are_named(model: Model) -> str:
    """A server of the user's own has models that only it knows."""
    is_own_server = model.provider == "openai" and ".openai." not in f".{host_of(model)}"
    if is_own_server or model.provider == "ollama":
        variable = f"{model.provider.upper()}_MODEL"
        return f"name one that it has with -m NAME or {variable}; if it has this one, the base URL is wrong"
    return "`pi models` lists the models; if it is there, the base URL is wrong"


def _wait_asked(seconds: float | None) -> str:
    if seconds is None or not 1 <= seconds < 1e6:
        return ""
    size, unit = next((size, unit) for size, unit in _UNITS if seconds >= 2 * size or size == 1)
    return f" and asks to wait {math.ceil(seconds / size)} {unit}"


def _is_used_up(text: str) -> bool:
    if "RESOURCE_EXHAUSTED" in text:  # Google speaks of billing whatever the limit, also of one a minute
        return re.search(r"per ?day", text, re.IGNORECASE) is not None
    return _USED_UP.search(text) is not None


def _again_in(text: str) -> float | None:
    found = _AGAIN_IN.search(text)
    if not found:
        return None
    seconds = float(found["n"]) / (1000 if found["unit"] == "ms" else 1)
    return seconds + 60 * int(found["m"] or 0)


_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "api_error": 500,
    "server_error": 500,
    "overloaded_error": 529,
}
"""What the kinds of errors inside a stream would have been as statuses."""


def _status_in(text: str) -> int:
    said = parsed(text)
    error = said.get("error", said) if isinstance(said, dict) else {}
    for name in ("code", "status", "type") if isinstance(error, dict) else ():
        value = str(error.get(name))
        status = int(value) if re.fullmatch(r"[45]\d\d", value) else _STATUSES.get(value, 0)
        if status:
            return status
    return 0


def parsed(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value[0] if isinstance(value, list) and value else value


def _message_in(value: Any) -> str:
    """A refusal's sentence, wherever servers put it; one in front of another wraps its JSON once more."""
    if isinstance(value, str):
        inner = parsed(value) if value.lstrip().startswith("{") else None
        return _message_in(inner) or value
    if isinstance(value, list):
        return "; ".join(filter(None, map(_message_in, value[:3])))
    if isinstance(value, dict):
        metadata = value.get("metadata")  # where OpenRouter has what the provider behind it said
        raw = _message_in(metadata.get("raw")) if isinstance(metadata, dict) else ""
        for name in ("error", "message", "detail", "errors", "msg"):
            found = _message_in(value.get(name))
            if found:
                return f"{found} ({raw})" if raw else found
    return ""


_MESSAGE_AS_WRITTEN = re.compile(r'"(?:error|message|detail|msg)"\s*:\s*"((?:[^"\\]++|\\.)*+)', re.DOTALL)
_PART_OF_AN_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{0,3}$")


def _message_in_cut(text: str) -> str:
    """A refusal's sentence, or its beginning, in JSON that has no end, also if that is wrapped once more."""
    found = _MESSAGE_AS_WRITTEN.search(text) if text.lstrip().startswith(("{", "[")) else None
    if found is None:
        return ""
    try:
        message = str(json.loads(f'"{_PART_OF_AN_ESCAPE.sub("", found[1])}"', strict=False))
    except ValueError:
        return found[1]
    return _message_in_cut(message) or message


def beginning(text: str) -> str:
    """As much of a text as is looked at."""
    return cut_between_words(text, MOST)


def one_line(text: str) -> str:
    """As much of a text as is shown."""
    flat = " ".join("".join(each if each.isprintable() else " " for each in beginning(text)).split())
    return cut_between_words(flat, _SENTENCE, "…")


def host_of(model: Model) -> str:
    try:
        parts = urlsplit(model.base_url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return model.provider
    return f"{parts.hostname}:{port}" if parts.hostname else model.provider
