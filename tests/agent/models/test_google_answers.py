"""Answers in the Google generative AI protocol: of bytes, of a server, and as Google's own SDK reads them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.models import Finished, Request, Usage
from perdure.agent.models.google import GoogleGenerativeAI
from perdure.agent.models.history import json_text
from perdure.errors import ContextOverflow, ModelError, ModelUnavailable
from perdure.session.entry import Assistant, Text, Thinking, ToolCall, ToolResult, User
from tests.agent.models.asking import BASH, KEY, ask, gemini, read, said_by
from tests.agent.models.wire_server import WireServer, events
from tests.effort import FEW

pytestmark = pytest.mark.xdist_group("google")  # whose SDK is slow to load

PROTOCOL = GoogleGenerativeAI()
CALL = ToolCall("abc", "bash", {"command": "ls"})
RESULT = ToolResult("abc", "bash", [Text("a.txt")])


def sse(*said: dict[str, Any]) -> bytes:
    """With every character as it is, none escaped."""
    return "".join(f"data: {json.dumps(each, ensure_ascii=False)}\r\n\r\n" for each in said).encode()


def chunk(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": [*parts]}, "index": 0}
    end = {name: more.pop(name) for name in ("finishReason", "finishMessage") if name in more}
    return {"candidates": [{**candidate, **end}], "responseId": "r1", "modelVersion": "gemini-3", **more}


COUNTS = {
    "promptTokenCount": 1007,
    "cachedContentTokenCount": 1000,
    "candidatesTokenCount": 21,
    "thoughtsTokenCount": 10,
    "totalTokenCount": 1038,
}
SAID = [
    chunk({"text": "They greet ", "thought": True}, usageMetadata={"promptTokenCount": 1007}),
    chunk({"text": "me 👋.", "thought": True}),
    chunk({"text": "Grüße, "}),
    chunk({"text": "世界 👩‍👩‍👧!"}),
    chunk({"text": "", "thoughtSignature": "dGV4dA=="}),
    chunk({"functionCall": {"id": "abc", "name": "bash", "args": {"command": "echo ü"}},
           "thoughtSignature": "Y2FsbA=="}),
    chunk({"functionCall": {"name": "now", "args": {}}}, {"functionCall": {"name": "now"}}),
    chunk(finishReason="STOP", usageMetadata=COUNTS),
]  # fmt: skip
USAGE = Usage(input=7, output=31, cache_read=1000)


def is_what_was_said(message: Assistant) -> bool:
    assert isinstance(message.content, list)
    *rest, first, second = message.content
    assert isinstance(first, ToolCall)
    assert isinstance(second, ToolCall)
    assert first.id
    assert second.id not in ("", first.id)
    return (first.name, first.arguments, second.arguments) == ("now", {}, {}) and rest == [
        Thinking("They greet me 👋."),
        Text("Grüße, 世界 👩‍👩‍👧!", "dGV4dA=="),
        ToolCall("abc", "bash", {"command": "echo ü"}, "Y2FsbA=="),
    ]


@pytest.mark.slow
def test_an_answer_is_read_as_googles_own_sdk_reads_it(wire_server: WireServer):
    """The same bytes for both: the same thoughts, words, calls and figures. And the SDK sends the same."""
    from google import genai
    from google.genai import types

    wire_server.script(events(sse(*SAID)))
    model = gemini(base_url=f"{wire_server.url}/v1beta")
    request = Request(
        messages=[
            User("hello"),
            said_by(model, Text("I look."), ToolCall("abc", "bash", {}, "Y2FsbA==")),
            RESULT,
        ],
        system="Be brief.",
        tools=[BASH],
        thinking="high",
        max_tokens=1000,
    )
    answer = ask(model, PROTOCOL, request)
    assert is_what_was_said(answer.message)
    assert answer.end == Finished("toolUse", USAGE)

    ours = wire_server.requests[0]
    config = types.GenerateContentConfig(
        system_instruction=types.Content.model_validate(ours.body["systemInstruction"]),
        tools=[types.Tool.model_validate(tool) for tool in ours.body["tools"]],
        thinking_config=types.ThinkingConfig.model_validate(ours.body["generationConfig"]["thinkingConfig"]),
        max_output_tokens=ours.body["generationConfig"]["maxOutputTokens"],
    )
    contents = [types.Content.model_validate(content) for content in ours.body["contents"]]
    options = types.HttpOptions(base_url=wire_server.url, api_version="v1beta")
    with genai.Client(api_key=KEY, http_options=options) as client:
        chunks = [*client.models.generate_content_stream(model=model.id, contents=[*contents], config=config)]
    theirs = wire_server.requests[1]
    # The server takes both spellings of a name, and the SDK uses both.
    spelt_alike = re.sub(rb'(?<=[a-z])_([a-z])(?=\w*":)', lambda found: found[1].upper(), theirs.raw)
    assert (ours.target, ours.body) == (theirs.target, json.loads(spelt_alike))
    assert ours.headers["x-goog-api-key"] == theirs.headers["x-goog-api-key"]

    said: list[Any] = [*chunks]  # in the SDK's types all is optional
    parts = [part for each in said for part in each.candidates[0].content.parts or ()]
    assert "".join(part.text for part in parts if part.text and part.thought) == "They greet me 👋."
    assert "".join(part.text for part in parts if part.text and not part.thought) == "Grüße, 世界 👩‍👩‍👧!"
    calls = [part.function_call for part in parts if part.function_call]
    assert [(call.name, call.args or {}) for call in calls] == [
        (call.name, call.arguments) for call in answer.message.calls
    ]
    assert said[-1].usage_metadata.total_token_count == answer.end.usage.total


@pytest.mark.slow
def test_where_the_bytes_are_cut_does_not_matter():
    """At every offset, inside characters too."""
    whole = sse(*SAID)
    for at in range(len(whole) + 1):
        answer = read(gemini(), PROTOCOL.reader(gemini()), whole[:at], whole[at:])
        assert is_what_was_said(answer.message)
        assert answer.end.usage == USAGE


def test_a_character_cut_in_two_packets_arrives_whole(wire_server: WireServer):
    """Over a real socket, at each place inside the characters of one word."""
    whole = sse(*SAID)
    word = whole.index("世".encode())
    for at in range(word, word + 12):
        wire_server.script(events(whole[:at], whole[at:]))
        assert is_what_was_said(ask(gemini(base_url=wire_server.url), PROTOCOL).message)


@pytest.mark.parametrize("extent", range(len(SAID)))
def test_an_answer_that_breaks_off_is_never_taken_for_whole(extent, wire_server: WireServer):
    wire_server.script(events(sse(*SAID[:extent])))
    with pytest.raises(ModelUnavailable, match="broke off"):
        ask(gemini(base_url=wire_server.url), PROTOCOL)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ([chunk({"text": "Hi"}, finishReason="STOP")], "stop"),
        ([chunk(finishReason="STOP")], "stop"),
        ([chunk({"text": "Hi"}, finishReason="MAX_TOKENS")], "length"),
        ([chunk({"functionCall": {"name": "now"}}), chunk(finishReason="STOP")], "toolUse"),
        ([chunk({"functionCall": {"name": "now"}}, finishReason="MAX_TOKENS")], "length"),
        ([chunk({"text": "Hi"}, finishReason="SOMETHING_NEW")], "stop"),
        (
            [chunk({"text": "Hi"}, finishReason="FINISH_REASON_UNSPECIFIED"), chunk(finishReason="STOP")],
            "stop",
        ),
    ],
)
def test_each_reason_to_stop_has_its_meaning(said, reason):
    end = read(gemini(), PROTOCOL.reader(gemini()), sse(*said)).end
    assert end.reason == reason


BUSY = {"error": {"code": 503, "message": "Overloaded.", "status": "UNAVAILABLE"}}
MORE = "The input token count (9) exceeds the maximum number of tokens allowed (8)."
TOO_LONG = {"error": {"code": 400, "message": MORE, "status": "INVALID_ARGUMENT"}}


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        (chunk({"text": "Hi"}, finishReason="SAFETY"), ModelError, "declined to answer"),
        (chunk(finishReason="RECITATION", finishMessage="As in\na book."), ModelError, "As in a book"),
        (chunk(finishReason="SOMETHING_NEW"), ModelError, "SOMETHING_NEW"),
        ({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}, ModelError, "PROHIBITED_CONTENT"),
        (chunk(finishReason="MALFORMED_FUNCTION_CALL"), ModelUnavailable, "cannot be read"),
        (BUSY, ModelUnavailable, "Overloaded"),
        (TOO_LONG, ContextOverflow, "more than"),
    ],
)
def test_an_answer_that_is_none_says_why(said, error, words, wire_server: WireServer):
    """What may be tried again, what can be compacted, and what is refused for good."""
    wire_server.script(events(sse(said)))
    with pytest.raises(error, match=words) as raised:
        ask(gemini(base_url=wire_server.url), PROTOCOL)
    assert type(raised.value) is error


def test_an_id_that_is_missing_or_used_twice_is_made():
    """The same every time, each its own, and not sent to the server, which does not know it."""
    twins = [{"functionCall": {"name": "now", **given}} for given in ({}, {}, {"id": "a"}, {"id": "a"})]
    said = sse(chunk(*twins, finishReason="STOP"))
    one, other = (read(gemini(), PROTOCOL.reader(gemini()), said).message for _ in range(2))
    ids = [call.id for call in one.calls]
    assert one == other
    assert (len({*ids}), ids[2]) == (4, "a")
    results = [ToolResult(id, "now", [Text("noon")]) for id in ids]
    call = PROTOCOL.call(gemini(), Request(messages=[User("hello"), one, *results]), KEY)
    sent = call.body["contents"][1]["parts"]
    assert [part["functionCall"].get("id") for part in sent] == [None, None, "a", None]


ODD: list[Any] = [None, True, 3, -1.5, "STOP", "\ud800", [], [{}], [3], {}, {"parts": [{}, 3, {"text": 3}]}]
odd = st.sampled_from(ODD)
oddities = st.recursive(
    odd,
    lambda inner: (
        st.dictionaries(
            st.sampled_from(
                ["content", "parts", "text", "functionCall", "args", "name", "id", "finishReason"]
            ),
            inner,
        )
        | st.lists(inner, max_size=2)
    ),
    max_leaves=5,
)


@FEW
@given(st.dictionaries(st.sampled_from(["candidates", "usageMetadata", "promptFeedback", "error"]), oddities))
def test_no_event_is_too_odd(said):
    """Anything is read, or refused with what the reader may refuse it with."""
    reader = PROTOCOL.reader(gemini())
    try:
        [*reader.feed("", json_text(said))]
    except (ValueError, ModelError):
        return
    assert len([*reader.end()]) <= 1
