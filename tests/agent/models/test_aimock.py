"""Every protocol with an independent server: it is understood, and it understands what it is sent."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import registry
from perdure.agent.models import APIS, Finished, Request, Usage
from perdure.errors import ContextOverflow, ModelError, ModelUnavailable
from perdure.session.entry import Assistant, Block, Text, Thinking, ToolCall, ToolResult, User
from tests.agent.models.aimock import Aimock
from tests.agent.models.asking import BASH, KEY, ask

pytestmark = [pytest.mark.process, pytest.mark.xdist_group("aimock")]

PROTOCOLS = {api: registry.load(place)() for api, place in APIS.items()}
ASKED = Request(messages=[User("hello")], tools=[BASH], thinking="low")
SCRIPT = {
    "reasoning": "Let me see.",
    "content": "Naïve 👩‍👩‍👧",
    "toolCalls": [
        {"id": "call_a", "name": "bash", "arguments": {"command": "ls ü"}},
        {"id": "call_b", "name": "read", "arguments": "{}"},
    ],
    "usage": {"input_tokens": 30, "output_tokens": 12},
}
MEANT = [
    Thinking("Let me see."),
    Text("Naïve 👩‍👩‍👧"),
    ToolCall("call_a", "bash", {"command": "ls ü"}),
    ToolCall("call_b", "read", {}),
]
SIGNED = {
    "openai-completions": Thinking("Let me see.", "reasoning_content"),
    "anthropic-messages": Thinking("Let me see.", "aimock-placeholder-signature"),
    "google-generative-ai": Thinking("Let me see."),
}
"""Where nothing but the thought is signed; Responses gives every block an id."""


def unsigned(message: Assistant) -> list[Block]:
    bare: list[Block] = []
    for block in message.content:
        match block:
            case Thinking(thinking=text):
                bare.append(Thinking(text))
            case Text(text=text):
                bare.append(Text(text))
            case ToolCall(id=id, name=name, arguments=arguments):
                bare.append(ToolCall(id.partition("|")[0], name, arguments))
    return bare


@pytest.mark.parametrize("api", APIS)
def test_aimock_is_understood(aimock: Aimock, api):
    """Thinking, text, two calls at once, and the figures, in pieces of three characters."""
    answer = ask(aimock.answering(api, SCRIPT, chunkSize=3), PROTOCOLS[api], ASKED)
    assert unsigned(answer.message) == MEANT
    if api in SIGNED:
        assert answer.message.content == [SIGNED[api], *MEANT[1:]]
    assert answer.end == Finished("toolUse", Usage(30, 12))
    assert len(answer.pieces) > (10 if api == "google-generative-ai" else 15)  # there, calls come whole


@pytest.mark.parametrize("api", APIS)
def test_aimock_takes_back_what_it_said(aimock: Aimock, api):
    """The conversation arrives as it was, and goes on."""
    model = aimock.answering(api, SCRIPT)
    answer = ask(model, PROTOCOLS[api], ASKED).message
    results = [ToolResult(call.id, call.name, [Text("done")]) for call in answer.calls]
    history = [*ASKED.messages, answer, *results]
    again = ask(model, PROTOCOLS[api], Request(messages=history, tools=[BASH], system="Be brief."))
    assert unsigned(again.message) == MEANT
    roles = [each["role"] for each in aimock.requests(model)[1]["messages"]]
    answers = 3 if api == "openai-responses" else 1  # there, the text and each call stand alone
    assert roles == ["system", "user", *["assistant"] * answers, "tool", "tool"]


def refusal(status: int, message: str, type: str = "", **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": type}, "status": status, **more}


LONG = {"content": "a long answer " * 20}
BUSY = refusal(429, "slow down", "rate_limit_error", retryAfter=7)
GOOGLES_BUSY = refusal(429, "slow down", "RESOURCE_EXHAUSTED", retryAfter=7)
WRONG_KEY = refusal(401, "invalid x-api-key", "authentication_error")
GOOGLES_WRONG_KEY = refusal(400, "API key not valid.", "INVALID_ARGUMENT")
TOO_LONG = refusal(400, "prompt is too long: 3 > 2", "invalid_request_error")
FAULTS: dict[str, tuple[dict[str, Any], dict[str, Any], type[ModelError], str, float | None]] = {
    "busy": (BUSY, {}, ModelUnavailable, "slow down", 7),
    "busy, in Google's words": (GOOGLES_BUSY, {}, ModelUnavailable, "slow down", 7),
    "broken": (refusal(503, "Oh"), {}, ModelUnavailable, "Oh", None),
    "wrong key": (WRONG_KEY, {}, ModelError, "did not accept the key", None),
    "wrong key, in Google's words": (GOOGLES_WRONG_KEY, {}, ModelError, "did not accept the key", None),
    "too long": (TOO_LONG, {}, ContextOverflow, "too long", None),
    "cut off": (LONG, {"truncateAfterChunks": 3, "chunkSize": 5}, ModelUnavailable, "broke off", None),
    "bad JSON": (LONG, {"chaos": {"malformedRate": 1}}, ModelUnavailable, "broke off", None),
    "rate limit": (LONG, {"chaos": {"rateLimitRate": 1}}, ModelUnavailable, "rate limit", 1),
    "disconnected": (LONG, {"chaos": {"disconnectRate": 1}}, ModelUnavailable, "broke off", None),
}
"""An answer and how it is spoilt; then the error, a word of it, and for how long it asks to wait."""


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("api", APIS)
def test_aimocks_faults_are_told_in_plain_words(aimock: Aimock, api, fault):
    """What may pass is worth another try, after as long as the server asks for; and no key is shown."""
    response, options, error, words, wait = FAULTS[fault]
    with pytest.raises(error, match=words) as raised:
        ask(aimock.answering(api, response, **options), PROTOCOLS[api], ASKED)
    assert type(raised.value) is error
    assert getattr(raised.value, "retry_after", None) == wait
    assert KEY not in str(raised.value)
