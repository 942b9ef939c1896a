"""OpenAI's Responses: what is sent, what is read, and what OpenAI's own SDK says to both."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.models import THINKING_LEVELS, Finished, Model, Request, Sent, Usage
from perdure.agent.models.history import json_text
from perdure.agent.models.openai_responses import OpenAIResponses
from perdure.errors import ContextOverflow, ModelError, ModelUnavailable
from perdure.session.entry import Assistant, Image, Text, Thinking, ToolCall, ToolResult, User
from tests.agent.models.asking import BASH, KEY, Answer, ask, read
from tests.agent.models.histories import PIXEL, histories
from tests.agent.models.schemas import accepts
from tests.agent.models.wire_server import WireServer, events
from tests.effort import FEW

pytestmark = pytest.mark.xdist_group("openai")  # whose SDK is slow to load

PROTOCOL = OpenAIResponses()
API = "openai-responses"


def gpt(id: str = "gpt-5", **fields: Any) -> Model:
    known: dict[str, Any] = {"base_url": "https://api.openai.com/v1", "reasoning": True}
    return Model(id=id, provider="openai", api=API, **{**known, "input": ("text", "image"), **fields})


MODEL = gpt()


def said_by(model: Model, *blocks: Any, **fields: Any) -> Assistant:
    return Assistant([*blocks], api=model.api, provider=model.provider, model=model.id, **fields)


def body_of(model: Model, *messages: Sent, **fields: Any) -> Any:
    call = PROTOCOL.call(model, Request(messages=[*messages], **fields), KEY)
    assert accepts(API, call.body) == []
    return json.loads(json_text(call.body))


# --- what is sent -------------------------------------------------------------------------------

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA"}
THOUGHT = Thinking("Hm.", json_text(REASONING))
SAID = Text("Yes.", '{"v":1,"id":"msg_1","phase":"commentary"}')
CALLED = ToolCall("call_1|fc_1", "bash", {"command": "ls"})
RESULT = ToolResult("call_1|fc_1", "bash", "a")


@pytest.mark.slow
@given(st.data())
@FEW
def test_any_history_is_a_request_that_openai_takes(data):
    """Whoever said what: the SDK's types and the server's rules have nothing against it."""
    model = gpt(
        reasoning=data.draw(st.booleans()), input=data.draw(st.sampled_from([("text",), ("text", "image")]))
    )
    history = data.draw(histories(model))
    own = data.draw(st.lists(st.sampled_from([THOUGHT, SAID, Thinking("?", "x"), Text("")]), max_size=4))
    called = data.draw(st.booleans())
    reason = data.draw(st.sampled_from(["stop", "length", "aborted", "error"]))
    history += [said_by(model, *own, *([CALLED] if called else []), stop_reason=reason)]
    history += [RESULT if called else User("go on")]
    body_of(
        model,
        *history,
        system=data.draw(st.sampled_from(["", "Be brief.", "lone \ud800"])),
        tools=data.draw(st.sampled_from([[], [BASH]])),
        thinking=data.draw(st.sampled_from(THINKING_LEVELS)),
        max_tokens=data.draw(st.sampled_from([0, 1, 100])),
        session_id=data.draw(st.sampled_from(["", "s" * 100])),
    )


@given(st.data())
@FEW
def test_a_longer_history_begins_as_the_shorter_one_did(data):
    """Else no cache of the server's would ever know it again."""
    history = data.draw(histories(MODEL))
    whole = PROTOCOL.call(MODEL, Request(messages=history), KEY).body["input"]
    for end in range(1, len(history)):
        shorter = PROTOCOL.call(MODEL, Request(messages=history[:end]), KEY).body["input"]
        assert shorter == whole[: len(shorter)]


def test_a_turn_of_its_own_goes_back_as_it_came():
    """Reasoning, text and call with the ids they came with, and the result by the call's."""
    body = body_of(MODEL, User("List."), said_by(MODEL, THOUGHT, SAID, CALLED), RESULT, system="Be brief.")
    assert body["input"] == [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": "List."}]},
        REASONING,
        {
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "id": "msg_1",
            "content": [{"type": "output_text", "text": "Yes.", "annotations": []}],
            "phase": "commentary",
        },
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "bash",
            "arguments": '{"command":"ls"}',
            "id": "fc_1",
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "a"},
    ]


UNTIED: dict[str, Any] = {
    "another model": (said_by(gpt("o3"), THOUGHT, SAID, CALLED), 3),
    "another provider": (Assistant([THOUGHT, SAID, CALLED], api=API, provider="azure", model="gpt-5"), 3),
    "it did not end": (said_by(MODEL, THOUGHT, SAID, CALLED, stop_reason="aborted"), 3),
    "reasoning that was not encrypted": (
        said_by(MODEL, Thinking("Hm.", '{"type":"reasoning","id":"rs_1","summary":[]}'), SAID, CALLED),
        3,
    ),
    "reasoning of another kind": (said_by(MODEL, Thinking("Hm.", "reasoning_content"), SAID, CALLED), 3),
    "the same twice": (said_by(MODEL, THOUGHT, SAID, THOUGHT, CALLED), 3),
}


@pytest.mark.parametrize("why", UNTIED)
def test_reasoning_and_ids_go_back_together_or_not_at_all(why):
    """The server refuses one without the other."""
    answer, items = UNTIED[why]
    _, *sent = body_of(MODEL, User("List."), answer, RESULT)["input"]
    assert len(sent) == items
    assert not any("id" in item or item["type"] == "reasoning" for item in sent)
    assert sent[0] == {"type": "message", "role": "assistant", "content": "Yes."}


def test_reasoning_that_led_to_nothing_is_left_out():
    """The server wants what followed it."""
    body = body_of(MODEL, User("?"), said_by(MODEL, THOUGHT, stop_reason="length"), User("!"))
    assert [item["role"] for item in body["input"]] == ["user", "user"]


def test_what_is_asked_for():
    """Nothing is stored, so reasoning has to come encrypted."""
    body = body_of(gpt("gpt-5.2"), User("hi"), thinking="xhigh", max_tokens=1, session_id="abc", tools=[BASH])
    assert body["store"] is False
    assert body["include"] == ["reasoning.encrypted_content"]
    assert body["reasoning"] == {"effort": "xhigh", "summary": "auto"}
    assert (body["max_output_tokens"], body["prompt_cache_key"]) == (16, "abc")
    assert body["tools"][0] == {
        "type": "function",
        "name": "bash",
        "description": "Runs a command.",
        "parameters": BASH.parameters,
        "strict": False,
    }


def test_a_model_that_does_not_reason_is_not_asked_to():
    """And its instructions are the system's."""
    body = body_of(gpt(reasoning=False), User("hi"), thinking="high", system="Be brief.")
    assert not {"include", "reasoning", "tools", "max_output_tokens"} & body.keys()
    assert body["input"][0]["role"] == "system"


def test_images_are_shown_where_the_model_can_see():
    """Also those of a tool, in its result."""
    image = Image(PIXEL, "image/png")
    result = ToolResult("call_1|fc_1", "bash", [Text("Here."), image])
    shown = {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PIXEL}"}
    body = body_of(MODEL, User([image]), said_by(MODEL, CALLED), result)
    assert body["input"][0]["content"] == [shown]
    assert body["input"][-1]["output"] == [{"type": "input_text", "text": "Here."}, shown]
    blind = body_of(gpt(input=("text",)), User([image]), said_by(MODEL, CALLED), result)
    assert "left out" in blind["input"][0]["content"][0]["text"]
    assert "left out" in blind["input"][-1]["output"]


def test_the_key_is_in_one_header_and_nowhere_else():
    """And where there is none, there is no header."""
    call = PROTOCOL.call(MODEL, Request(messages=[User("hi")]), KEY)
    assert (call.url, call.headers) == (
        "https://api.openai.com/v1/responses",
        {"authorization": f"Bearer {KEY}"},
    )
    assert KEY not in json_text(call.body)
    assert not PROTOCOL.call(MODEL, Request(messages=[User("hi")]), "").headers


# --- what is read -------------------------------------------------------------------------------


def stream(*told: Any) -> bytes:
    return b"".join(
        f"event: {each['type']}\ndata: {json_text({'sequence_number': at, **each})}\n\n".encode()
        for at, each in enumerate(told)
    )


def event(type: str, at: int = 0, **fields: Any) -> Any:
    return {"type": f"response.{type}", "output_index": at, "item_id": f"item_{at}", **fields}


def ended(*output: Any, usage: Any = None, kind: str = "completed", **fields: Any) -> Any:
    response = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "gpt-5",
        "status": kind,
        "output": [*output],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
        **fields,
    }
    return {"type": f"response.{kind}", "response": response}


def summary(*texts: str) -> Any:
    return [{"type": "summary_text", "text": text} for text in texts]


REASONED = {**REASONING, "summary": summary("Let me", "see 👩‍👩‍👧.")}
MESSAGE = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Naïve answer", "annotations": []}],
}
CALLS = [
    {
        "type": "function_call",
        "id": f"fc_{at}",
        "call_id": f"call_{at}",
        "name": name,
        "arguments": arguments,
        "status": "completed",
    }
    for at, (name, arguments) in enumerate([("bash", '{"command":"ls"}'), ("read", '{"path":"ü"}')])
]
OUTPUT = [REASONED, MESSAGE, *CALLS]
USED = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 60, "cache_write_tokens": 10},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 120,
}


def begun(item: Any) -> Any:
    empty: dict[str, Any] = {"reasoning": {"summary": []}, "message": {"content": []}}
    return {**item, **empty.get(item["type"], {"arguments": ""})}


ANSWER = stream(
    {**ended(), "type": "response.created"},
    event("output_item.added", 0, item=begun(REASONED)),
    event("reasoning_summary_part.added", 0, summary_index=0, part=summary("")[0]),
    event("reasoning_summary_text.delta", 0, summary_index=0, delta="Let "),
    event("reasoning_summary_text.delta", 0, summary_index=0, delta="me"),
    event("reasoning_summary_text.done", 0, summary_index=0, text="Let me"),
    event("reasoning_summary_part.added", 0, summary_index=1, part=summary("")[0]),
    event("reasoning_summary_text.delta", 0, summary_index=1, delta="see 👩‍👩‍👧."),
    event("output_item.done", 0, item=REASONED),
    event("output_item.added", 1, item=begun(MESSAGE)),
    event(
        "content_part.added",
        1,
        content_index=0,
        part={"type": "output_text", "text": "", "annotations": [], "logprobs": []},
    ),
    event("output_text.delta", 1, content_index=0, delta="Naïve ", logprobs=[]),
    event("output_text.delta", 1, content_index=0, delta="answer", logprobs=[]),
    event("output_item.done", 1, item=MESSAGE),
    event("output_item.added", 2, item=begun(CALLS[0])),
    event("function_call_arguments.delta", 2, delta='{"comm'),
    event("output_item.added", 3, item=begun(CALLS[1])),
    event("function_call_arguments.delta", 3, delta='{"path":"ü"}'),
    event("function_call_arguments.delta", 2, delta='and":"ls"}'),
    event("function_call_arguments.done", 2, arguments=CALLS[0]["arguments"], name="bash"),
    event("output_item.done", 2, item=CALLS[0]),
    event("output_item.done", 3, item=CALLS[1]),
    ended(*OUTPUT, usage=USED),
)
MEANT = [
    Thinking("Let me\n\nsee 👩‍👩‍👧.", json_text(REASONED)),
    Text("Naïve answer", '{"v":1,"id":"msg_1"}'),
    ToolCall("call_0|fc_0", "bash", {"command": "ls"}),
    ToolCall("call_1|fc_1", "read", {"path": "ü"}),
]


def answered(*told: Any) -> Answer:
    return read(MODEL, PROTOCOL.reader(MODEL), stream(*told))


@pytest.mark.slow
def test_an_answer_is_the_same_wherever_it_is_cut():
    """Also inside a character."""
    for at in [at for at, byte in enumerate(ANSWER) if byte > 127 or at % 11 == 0]:
        message, end, _ = read(MODEL, PROTOCOL.reader(MODEL), ANSWER[:at], ANSWER[at:])
        assert message.content == MEANT
        assert end == Finished("toolUse", Usage(30, 20, 60, 10))


@pytest.mark.slow
def test_an_answer_is_read_as_openais_own_sdk_reads_it(wire_server: WireServer):
    """The same bytes from the same server, cut inside a character."""
    from openai import OpenAI

    cut = ANSWER.index("👩".encode()) + 2
    wire_server.script(events(ANSWER[:cut], ANSWER[cut:]))
    model = gpt(base_url=f"{wire_server.url}/v1", reasoning=False)
    with (
        OpenAI(base_url=model.base_url, api_key=KEY, max_retries=0) as client,
        client.responses.stream(
            model="gpt-5",
            input=[{"role": "user", "content": [{"type": "input_text", "text": "hello"}]}],
            store=False,
        ) as theirs,
    ):
        response = theirs.get_final_response()
    message, end, _ = ask(model, PROTOCOL)
    assert message.content[1].text == response.output_text  # type: ignore[union-attr]
    calls = [item for item in response.output if item.type == "function_call"]
    assert [(call.id, call.name, call.arguments) for call in message.content[2:]] == [  # type: ignore[union-attr]
        (f"{call.call_id}|{call.id}", call.name, json.loads(call.arguments)) for call in calls
    ]
    assert response.usage
    assert (end.usage.total, end.usage.output) == (response.usage.total_tokens, response.usage.output_tokens)
    theirs_sent, ours_sent = (asked.body for asked in wire_server.requests)
    assert ours_sent == theirs_sent


def test_what_was_read_goes_back_as_it_was():
    """An answer and its repetition are the same items."""
    message, _, _ = read(MODEL, PROTOCOL.reader(MODEL), ANSWER)
    results = [ToolResult(f"call_{at}|fc_{at}", "x", "ok") for at in range(2)]
    sent = body_of(MODEL, User("go"), message, *results)["input"][1:5]
    ignored = ("status",)
    assert [{k: v for k, v in item.items() if k not in ignored} for item in sent] == [
        {k: v for k, v in item.items() if k not in ignored} for item in OUTPUT
    ]


def test_items_that_come_whole():
    """Some servers send no pieces."""
    whole = [event("output_item.done", at, item=item) for at, item in enumerate(OUTPUT)]
    assert answered(*whole, ended(*OUTPUT)).message.content == MEANT
    assert answered(ended(*OUTPUT)).message.content == MEANT


def test_the_key_to_reasoning_may_come_at_the_very_end():
    """As Azure sends it."""
    without = {name: value for name, value in REASONED.items() if name != "encrypted_content"}
    message, _, _ = answered(event("output_item.done", 0, item=without), ended(REASONED))
    assert message.content == MEANT[:1]


def test_reasoning_that_is_only_encrypted_is_kept():
    """There is nothing to read in it, and yet it goes back."""
    message, _, _ = answered(event("output_item.done", 0, item=REASONING), ended(REASONING))
    assert message.content == [Thinking("", json_text(REASONING))]


def test_thoughts_as_they_are_and_as_a_summary_are_read_once():
    """Whichever comes first."""
    item = {
        **REASONING,
        "content": [{"type": "reasoning_text", "text": "Raw."}],
        "summary": summary("Short."),
    }
    message, _, _ = answered(
        event("reasoning_text.delta", 0, content_index=0, delta="Raw."),
        event("reasoning_summary_text.delta", 0, summary_index=0, delta="Short."),
        event("output_item.done", 0, item=item),
        ended(item),
    )
    assert message.content == [Thinking("Raw.", json_text(item))]


def test_empty_items_are_no_blocks():
    """Blocks are numbered without gaps."""
    nothing = {"type": "reasoning", "id": "rs_0", "summary": []}
    _, end, pieces = answered(
        event("output_item.added", 0, item=nothing),
        event("output_item.done", 0, item=nothing),
        event("output_item.done", 1, item={"type": "web_search_call", "id": "ws_1", "status": "completed"}),
        event("output_item.done", 2, item=MESSAGE),
        ended(nothing, MESSAGE),
    )
    assert [piece.index for piece in pieces] == [0]
    assert end.reason == "stop"


def test_a_refusal_is_what_was_said():
    """In pieces, or whole."""
    refused = {**MESSAGE, "content": [{"type": "refusal", "refusal": "I won't."}]}
    pieces = [event("refusal.delta", 0, content_index=0, delta=each) for each in ("I ", "won't.")]
    for told in (pieces, []):
        message, _, _ = answered(*told, event("output_item.done", 0, item=refused), ended(refused))
        assert message.content == [Text("I won't.", '{"v":1,"id":"msg_1"}')]


def test_an_answer_that_was_too_long():
    """It is cut, and says so."""
    details = {"reason": "max_output_tokens"}
    _, end, _ = answered(
        event("output_text.delta", 0, delta="x"),
        ended(kind="incomplete", incomplete_details=details, usage={"input_tokens": 3, "output_tokens": 2}),
    )
    assert end == Finished("length", Usage(3, 2))


FAILED: list[Any] = [
    (ended(kind="failed", error={"code": "server_error", "message": "Oh"}), ModelUnavailable),
    (ended(kind="failed", error={"code": "rate_limit_exceeded", "message": "Slow down"}), ModelUnavailable),
    (ended(kind="failed", error={"code": "context_length_exceeded", "message": "Long"}), ContextOverflow),
    (ended(kind="failed", error={"code": "insufficient_quota", "message": "Pay"}), ModelError),
    (ended(kind="failed"), ModelUnavailable),
    ({"type": "error", "code": "server_error", "message": "Oh", "param": None}, ModelUnavailable),
    ({"type": "error", "error": {"type": "invalid_request_error", "message": "No"}}, ModelError),
    (ended(kind="incomplete", incomplete_details={"reason": "content_filter"}), ModelError),
]


@pytest.mark.parametrize(("told", "kind"), FAILED)
def test_an_answer_that_fails_half_way(told, kind):
    """It is told like any refusal."""
    with pytest.raises(ModelError) as raised:
        answered(event("output_text.delta", 0, delta="x"), told)
    assert type(raised.value) is kind


KINDS = ["output_item.added", "output_item.done", "output_text.delta", "reasoning_text.delta", "completed"]
KINDS += ["function_call_arguments.delta", "function_call_arguments.done", "failed", "unheard.of"]
MEMBERS = st.sampled_from(["type", "id", "content", "summary", "output", "error", "usage"])
VALUES = st.none() | st.integers() | st.lists(st.integers()) | st.sampled_from(["message", "function_call"])


@given(
    st.sampled_from(KINDS),
    st.dictionaries(
        st.sampled_from(["item", "delta", "output_index", "response", "arguments"]),
        st.none() | st.integers() | st.text() | st.dictionaries(MEMBERS, VALUES),
    ),
)
@FEW
def test_an_event_of_any_other_shape_ends_in_nothing_worse_than_an_error(kind, told):
    """One that `http` knows: the answer broke off."""
    reader = PROTOCOL.reader(MODEL)
    try:
        [*reader.feed(f"response.{kind}", json.dumps(told))]
    except (ModelError, ValueError, TypeError, LookupError, AttributeError):
        pass
