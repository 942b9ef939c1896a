"""The Google generative AI protocol: what is sent, what is read, and what Google's own SDK says to both."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from perdure.agent.models import THINKING_LEVELS, Model, Request, Sent, ToolSpec
from perdure.agent.models.google import GoogleGenerativeAI
from perdure.agent.models.history import json_text
from perdure.session.entry import Assistant, Block, Image, Text, Thinking, ToolCall, ToolResult, User
from tests.agent.models.asking import BASH, KEY, gemini, said_by
from tests.agent.models.histories import PIXEL, histories
from tests.agent.models.schemas import accepts
from tests.effort import FEW

pytestmark = pytest.mark.xdist_group("google")  # whose SDK is slow to load

PROTOCOL = GoogleGenerativeAI()
GENERATIONS = ["gemini-2.0-flash", "gemini-2.5-pro", "gemini-3-pro-preview", "gemini-flash-latest"]
UNSIGNED = "skip_thought_signature_validator"


def body_of(model: Model, *messages: Sent, **fields: Any) -> Any:
    call = PROTOCOL.call(model, Request(messages=[*messages], **fields), KEY)
    assert accepts(model.api, call.body) == []
    return json.loads(json_text(call.body))


def parts_of(body: Any) -> list[Any]:
    return [(content["role"], part) for content in body["contents"] for part in content["parts"]]


# --- what is sent -------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.data())
@FEW
def test_any_history_is_a_request_that_google_takes(data):
    """Whoever said what: its SDK's types and the server's rules have nothing against it."""
    model = gemini(
        data.draw(st.sampled_from(GENERATIONS)),
        input=data.draw(st.sampled_from([("text",), ("text", "image")])),
    )
    body_of(
        model,
        *data.draw(histories(model)),
        system=data.draw(st.sampled_from(["", " \n", "Be brief.", "lone \ud800"])),
        tools=data.draw(st.sampled_from([(), (BASH,)])),
        thinking=data.draw(st.sampled_from(THINKING_LEVELS)),
        max_tokens=data.draw(st.sampled_from([0, 1000, 100_000])),
    )


@given(st.data())
@FEW
def test_a_signature_goes_back_to_none_but_the_model_that_signed(data):
    """Nor does anything that is no signature at all, which the server could not read."""
    model = gemini(data.draw(st.sampled_from(GENERATIONS)))
    history = data.draw(histories(model))
    sent = [part for _, part in parts_of(body_of(model, *history)) if "thoughtSignature" in part]
    is_own = any(isinstance(each, Assistant) and each.model == model.id for each in history)
    assert {part["thoughtSignature"] for part in sent} <= {UNSIGNED, *(["c2lnbmF0dXJl"] if is_own else [])}
    assert all("functionCall" in part for part in sent if part["thoughtSignature"] == UNSIGNED)


@given(st.data())
@FEW
def test_a_longer_history_begins_as_the_shorter_one_did(data):
    """Otherwise nothing of it would be found in the server's cache."""
    model = gemini()
    history = data.draw(histories(model))
    asked = [at for at, message in enumerate(history) if at and isinstance(message, Assistant)]
    assume(asked)
    shorter = parts_of(body_of(model, *history[: data.draw(st.sampled_from(asked))]))
    assume(shorter[-1][1] != {"text": "(no text)"})
    assert parts_of(body_of(model, *history))[: len(shorter)] == shorter


@pytest.mark.parametrize(
    ("base", "id", "url"),
    [
        ("https://example.test/v1beta", "gemini-3", "https://example.test/v1beta/models/gemini-3"),
        (
            "https://example.test/v1beta/",
            "tunedModels/my-own",
            "https://example.test/v1beta/tunedModels/my-own",
        ),
        ("https://example.test", "odd?key=1#a b", "https://example.test/models/odd%3Fkey%3D1%23a%20b"),
    ],
)
def test_the_model_is_in_the_address(base, id, url):
    call = PROTOCOL.call(gemini(id, base_url=base), Request(messages=[]), KEY)
    assert call.url == f"{url}:streamGenerateContent?alt=sse"


def test_the_key_is_in_one_header_and_nowhere_else():
    """Not in the address either, which is logged by whoever stands between."""
    call = PROTOCOL.call(gemini(), Request(messages=[User("hello")]), KEY)
    assert call.headers == {"x-goog-api-key": KEY}
    assert KEY not in call.url + json_text(call.body)
    assert PROTOCOL.call(gemini(), Request(messages=[]), "").headers == {}


@pytest.mark.parametrize(
    ("id", "level", "thinking"),
    [
        ("gemini-2.0-flash", "off", None),
        ("gemini-2.5-flash", "off", {"thinkingBudget": 0}),
        ("gemini-2.5-pro", "off", {"thinkingBudget": 128}),
        ("gemini-2.5-flash-lite", "minimal", {"includeThoughts": True, "thinkingBudget": 512}),
        ("gemini-2.5-flash", "xhigh", {"includeThoughts": True, "thinkingBudget": 24_576}),
        ("gemini-2.5-pro", "xhigh", {"includeThoughts": True, "thinkingBudget": 32_768}),
        ("gemini-3-pro-preview", "off", {"thinkingLevel": "LOW"}),
        ("gemini-3-pro-preview", "medium", {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        ("gemini-3.1-pro-preview", "medium", {"includeThoughts": True, "thinkingLevel": "MEDIUM"}),
        ("gemini-3-flash-preview", "off", {"thinkingLevel": "MINIMAL"}),
        ("gemini-3.7-flash", "minimal", {"includeThoughts": True, "thinkingLevel": "LOW"}),
        ("gemini-flash-latest", "xhigh", {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        ("gemma-4-31b-it", "high", {"includeThoughts": True}),
        ("gemma-4-31b-it", "off", None),
    ],
)
def test_thinking_is_asked_for_as_each_generation_wants_it(id, level, thinking):
    """A budget of Gemini 2.5, a level of later ones; what a model does not know is the nearest it knows."""
    config = body_of(gemini(id), User("hello"), thinking=level).get("generationConfig", {})
    assert config.get("thinkingConfig") == thinking


def test_a_model_that_does_not_reason_is_not_asked_to():
    assert "generationConfig" not in body_of(gemini(reasoning=False), User("hello"), thinking="high")


@pytest.mark.parametrize(("asked", "sent"), [(0, None), (1000, 1000), (100_000, 64_000)])
def test_a_limit_is_sent_if_one_is_wanted(asked, sent):
    body = body_of(gemini(), User("hello"), max_tokens=asked)
    assert body["generationConfig"].get("maxOutputTokens") == sent


CALL = ToolCall("abc", "bash", {"command": "ls"})
RESULT = ToolResult("abc", "bash", [Text("a.txt")])


def test_signatures_of_text_and_calls_come_back_where_they_were():
    """Thoughts themselves go back only if they were signed."""
    model = gemini()
    said = said_by(
        model,
        Thinking("Hm."),
        Thinking("Signed.", "dGg="),
        Text("I look.", "dGV4dA=="),
        ToolCall("abc", "bash", {}, "Y2FsbA=="),
        ToolCall("def", "read", {}),
    )
    body = body_of(model, User("hello"), said, RESULT, ToolResult("def", "read", "none", is_error=True))
    assert body["contents"][1]["parts"] == [
        {"text": "Signed.", "thought": True, "thoughtSignature": "dGg="},
        {"text": "I look.", "thoughtSignature": "dGV4dA=="},
        {"functionCall": {"id": "abc", "name": "bash", "args": {}}, "thoughtSignature": "Y2FsbA=="},
        {"functionCall": {"id": "def", "name": "read", "args": {}}},
    ]
    assert body["contents"][2]["parts"] == [
        {"functionResponse": {"id": "abc", "name": "bash", "response": {"output": "a.txt"}}},
        {"functionResponse": {"id": "def", "name": "read", "response": {"error": "none"}}},
    ]


@pytest.mark.parametrize(("id", "signature"), [("gemini-3-pro-preview", UNSIGNED), ("gemini-2.5-pro", None)])
def test_calls_of_others_go_without_their_signatures(id, signature):
    """Gemini 3 wants one with the first call of an answer: it is told that there can be none."""
    foreign = said_by(
        gemini("other"), ToolCall("a", "bash", {}, "Y2FsbA=="), ToolCall("b", "read", {}, "Y2E=")
    )
    results = [ToolResult("a", "bash", "1"), ToolResult("b", "read", "2")]
    first, second = body_of(gemini(id), User("hello"), foreign, *results)["contents"][1]["parts"]
    assert (first.get("thoughtSignature"), second.get("thoughtSignature")) == (signature, None)
    assert "id" not in first["functionCall"]


def test_images_of_results_follow_the_results():
    """Where the model cannot see, a note says that there was one."""
    seen: list[Block] = [Image(PIXEL, "image/png")]
    for model in (gemini(), gemini(input=("text",))):
        history: list[Sent] = [
            User([Text("Look:"), *seen]),
            said_by(model, CALL),
            ToolResult("abc", "bash", seen),
            User("So?"),
        ]
        contents = body_of(model, *history)["contents"]
        if "image" in model.input:
            shown = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
            assert contents[0]["parts"][1] == shown
            assert [*contents[2]["parts"][0]] == ["functionResponse"]
            assert contents[3]["parts"][1:] == [shown, {"text": "So?"}]
        else:
            assert "image" in contents[0]["parts"][1]["text"]
            assert "image" in contents[2]["parts"][0]["functionResponse"]["response"]["output"]
            assert contents[3]["parts"] == [{"text": "So?"}]


def test_an_answer_that_said_nothing_is_left_out():
    body = body_of(gemini(), User("one"), said_by(gemini(), Text(" \n"), Thinking("unsigned")), User("two"))
    assert body["contents"] == [{"role": "user", "parts": [{"text": "one"}, {"text": "two"}]}]


def test_a_tools_schema_is_sent_as_it_is():
    """The server takes JSON Schema itself."""
    schema = {"type": "object", "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}}}
    body = body_of(
        gemini(), User("hello"), tools=[ToolSpec("t", "Does.", {**schema, "additionalProperties": False})]
    )
    (declared,) = body["tools"][0]["functionDeclarations"]
    assert declared["parametersJsonSchema"] == {**schema, "additionalProperties": False}
