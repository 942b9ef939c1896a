"""OpenAI's chat completions: what is sent, what is read, and what OpenAI's own SDK says to both."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.models import THINKING_LEVELS, UNPARSED, Finished, Model, Request, Sent, Usage
from perdure.agent.models.history import json_text
from perdure.agent.models.openai_chat import OpenAIChat
from perdure.errors import ContextOverflow, ModelError, ModelUnavailable
from perdure.session.context import INTERRUPTED
from perdure.session.entry import Assistant, Image, Text, Thinking, ToolCall, ToolResult, User
from tests.agent.models.asking import BASH, KEY, Answer, ask, read
from tests.agent.models.histories import PIXEL, histories
from tests.agent.models.schemas import accepts
from tests.agent.models.wire_server import WireServer, events
from tests.effort import FEW

pytestmark = pytest.mark.xdist_group("openai")  # whose SDK is slow to load

PROTOCOL = OpenAIChat()
API = "openai-completions"


def served(provider: str, id: str, base_url: str, **fields: Any) -> Model:
    return Model(id=id, provider=provider, api=API, base_url=base_url, **fields)


SEES: dict[str, Any] = {"reasoning": True, "input": ("text", "image")}
OPENAI = served("openai", "gpt-5", "https://api.openai.com/v1", **SEES)
LOCAL = served("ollama", "qwen3", "http://127.0.0.1:11434/v1/", reasoning=True)
MISTRAL = served("mistral", "devstral", "https://api.mistral.ai/v1", **SEES)


def said_by(model: Model, *blocks: Any, **fields: Any) -> Assistant:
    return Assistant([*blocks], api=model.api, provider=model.provider, model=model.id, **fields)


def body_of(model: Model, *messages: Sent, **fields: Any) -> Any:
    call = PROTOCOL.call(model, Request(messages=[*messages], **fields), KEY)
    assert accepts(API, call.body) == []
    return json.loads(json_text(call.body))


def messages_of(model: Model, *messages: Sent, **fields: Any) -> list[Any]:
    found: list[Any] = body_of(model, *messages, **fields)["messages"]
    return found


# --- what is sent -------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.data())
@FEW
def test_any_history_is_a_request_that_servers_take(data):
    """Whoever said what: the SDK's types and the strictest server's rules have nothing against it."""
    model = data.draw(st.sampled_from([OPENAI, LOCAL, MISTRAL]))
    messages = messages_of(
        model,
        *data.draw(histories(model)),
        system=data.draw(st.sampled_from(["", "Be brief.", "lone \ud800"])),
        tools=data.draw(st.sampled_from([[], [BASH]])),
        thinking=data.draw(st.sampled_from(THINKING_LEVELS)),
        max_tokens=data.draw(st.sampled_from([0, 100])),
        session_id=data.draw(st.sampled_from(["", "s" * 100])),
    )
    if model is MISTRAL:
        roles = [message["role"] for message in messages]
        assert ("tool", "user") not in itertools.pairwise(roles)
        ids = [call["id"] for message in messages for call in message.get("tool_calls", ())]
        assert all(re.fullmatch(r"[a-zA-Z0-9]{9}", id) for id in ids)


@given(st.data())
@FEW
def test_a_longer_history_begins_as_the_shorter_one_did(data):
    """Else no cache of the server's would ever know it again."""
    history = data.draw(histories(OPENAI))
    whole = PROTOCOL.call(OPENAI, Request(messages=history), KEY).body["messages"]
    for end in range(1, len(history)):
        shorter = PROTOCOL.call(OPENAI, Request(messages=history[:end]), KEY).body["messages"]
        assert shorter[:-1] == whole[: len(shorter[:-1])]


def test_openai_is_told_what_only_openai_knows():
    """Its own name for the limit, its own levels of effort, and where the cache is."""
    body = body_of(OPENAI, User("hi"), max_tokens=9, thinking="minimal", session_id="abc")
    assert body["max_completion_tokens"] == 9
    assert (body["reasoning_effort"], body["prompt_cache_key"]) == ("minimal", "abc")
    assert "max_tokens" not in body


def test_other_servers_are_told_what_all_of_them_know():
    """The old name for the limit, three levels of effort, nothing of a cache."""
    body = body_of(LOCAL, User("hi"), max_tokens=9, thinking="xhigh", session_id="abc")
    assert (body["max_tokens"], body["reasoning_effort"]) == (9, "high")
    assert not {"max_completion_tokens", "prompt_cache_key", "tools"} & body.keys()


@pytest.mark.parametrize("model", [OPENAI, served("x", "plain", "http://127.0.0.1/v1")])
def test_thinking_is_only_asked_for_where_there_is_some(model):
    """Neither of a model that does not reason, nor where it is off."""
    level = "off" if model.reasoning else "high"
    assert "reasoning_effort" not in body_of(model, User("hi"), thinking=level)


def test_the_key_is_in_one_header_and_nowhere_else():
    """And where there is none, there is no header."""
    call = PROTOCOL.call(LOCAL, Request(messages=[User("hi")]), KEY)
    assert call.headers == {"authorization": f"Bearer {KEY}"}
    assert call.url == "http://127.0.0.1:11434/v1/chat/completions"
    assert KEY not in json_text(call.body)
    assert not PROTOCOL.call(LOCAL, Request(messages=[User("hi")]), "").headers


def test_a_turn_with_tools_as_it_is_sent():
    """System prompt, question, call, result: each in its message."""
    call = ToolCall("call_1", "bash", {"command": "ls"})
    body = body_of(
        OPENAI,
        User("List."),
        said_by(OPENAI, Text("Yes."), call),
        ToolResult("call_1", "bash", [Text("a"), Text("b")]),
        system="Be brief.",
        tools=[BASH],
    )
    function = {"name": "bash", "arguments": '{"command":"ls"}'}
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "List."},
        {
            "role": "assistant",
            "content": "Yes.",
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "a\nb"},
    ]
    (tool,) = body["tools"]
    assert tool["function"] == {
        "name": "bash",
        "description": "Runs a command.",
        "parameters": BASH.parameters,
    }


def test_images_are_shown_where_the_model_can_see():
    """A tool's stand behind the last result, as only the user may show any."""
    image = Image(PIXEL, "image/png")
    call, other = ToolCall("call_1", "read", {}), ToolCall("call_2", "read", {})
    messages = messages_of(
        OPENAI,
        User([Text("Look."), image]),
        said_by(OPENAI, call, other),
        ToolResult("call_1", "read", [image]),
        ToolResult("call_2", "read", [Text("plain")]),
    )
    shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    assert messages[0]["content"] == [{"type": "text", "text": "Look."}, shown]
    assert [message["role"] for message in messages[2:]] == ["tool", "tool", "user"]
    assert messages[-1]["content"][1:] == [shown]


@pytest.mark.parametrize(
    "image", [Image(PIXEL, "image/png"), Image("", "image/png"), Image(PIXEL, "image/tiff")]
)
def test_an_image_that_cannot_be_shown_leaves_a_word(image):
    """Not silently: the model is told that something was there."""
    model = LOCAL if image == Image(PIXEL, "image/png") else OPENAI
    (message,) = messages_of(model, User([Text("Look."), image]))
    assert "left out" in message["content"]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text"])
def test_thinking_goes_back_under_the_name_it_came_with(field):
    """To the very model that thought it; others never see it."""
    thought = Thinking("Hm.", field)
    mine, others = said_by(LOCAL, thought, Text("Yes.")), said_by(OPENAI, thought, Text("Yes."))
    assert messages_of(LOCAL, User("?"), mine, User("!"))[1] == {
        "role": "assistant",
        "content": "Yes.",
        field: "Hm.",
    }
    assert "Hm." not in json_text(messages_of(LOCAL, User("?"), others, User("!")))
    unsigned = said_by(LOCAL, Thinking("Hm.", "c2lnbmVk"), Text("Yes."))
    assert "Hm." not in json_text(messages_of(LOCAL, User("?"), unsigned, User("!")))


@pytest.mark.parametrize("model", [OPENAI, MISTRAL], ids=["OpenAI", "Mistral"])
def test_ids_of_others_are_put_into_this_alphabet_and_stay_apart(model):
    """The same for a call and its result, also if an id is used again."""
    ids = ["toolu_01A", "call_1|fc_2", "call_1|fc_3", "x" * 90, "", "é", "call_1|fc_2", "abcdefghi"]
    history: list[Sent] = [User("go")]
    for id in ids:
        history += [said_by(OPENAI, ToolCall(id, "bash", {})), ToolResult(id, "bash", f"of {id}")]
    messages = messages_of(model, *history)
    called = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert len({*called}) == len(ids)
    assert called[-1] == "abcdefghi"
    assert [m["content"] for m in messages if m["role"] == "tool"] == [f"of {id}" for id in ids]


def test_two_calls_of_one_id_get_their_results_in_order():
    """As some servers number every call alike."""
    twice = said_by(OPENAI, ToolCall("call_0", "a", {}), ToolCall("call_0", "b", {}))
    messages = messages_of(
        OPENAI, User("go"), twice, ToolResult("call_0", "a", "first"), ToolResult("call_0", "b", "second")
    )
    ids = [call["id"] for call in messages[1]["tool_calls"]]
    assert [(m["tool_call_id"], m["content"]) for m in messages[2:]] == [
        (ids[0], "first"),
        (ids[1], "second"),
    ]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [({"a": 1}, {"a": 1}), ('{"a', {UNPARSED: '{"a'}), (None, {UNPARSED: None}), ({}, {})],
)
def test_arguments_go_back_as_an_object(arguments, sent):
    """Also those that were none."""
    call = ToolCall("call_1", "bash", arguments)
    messages = messages_of(
        OPENAI, User("go"), said_by(OPENAI, call), ToolResult("call_1", "bash", INTERRUPTED)
    )
    assert json.loads(messages[1]["tool_calls"][0]["function"]["arguments"]) == sent


def test_nothing_is_sent_as_something():
    """Empty answers are left out, an empty question or a blank result says so, and roles take turns."""
    call = ToolCall("call_1", "bash", {})
    messages = messages_of(
        OPENAI,
        User(""),
        said_by(OPENAI, stop_reason="aborted"),
        User("there?"),
        said_by(OPENAI, Text("Yes"), stop_reason="aborted"),
        said_by(OPENAI, Text("and no."), call),
        ToolResult("call_1", "bash", [Text(" \n")]),
    )
    assert [(m["role"], m["content"]) for m in messages] == [
        ("user", "(empty message)\n\nthere?"),
        ("assistant", "Yes\n\nand no."),
        ("tool", "(no output)"),
    ]


# --- what is read -------------------------------------------------------------------------------


def stream(*chunks: Any, done: bool = True) -> bytes:
    lines = [b"data: " + json_text(chunk).encode() + b"\n\n" for chunk in chunks]
    return b"".join(lines) + (b"data: [DONE]\n\n" if done else b"")


def chunk(delta: Any = None, reason: str | None = None, **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": reason}
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [choice],
        **fields,
    }


def call_of(
    text: str | Any = "", index: int | None = None, id: str | None = None, name: str | None = None
) -> Any:
    function = {"name": name, "arguments": text}
    call = {"index": index, "id": id, "type": "function", "function": function}
    return {"tool_calls": [{key: value for key, value in call.items() if value is not None}]}


def answered(*chunks: Any, done: bool = True) -> Answer:
    return read(LOCAL, PROTOCOL.reader(LOCAL), stream(*chunks, done=done))


ANSWER = stream(
    chunk({"role": "assistant", "content": "", "reasoning_content": "Let me "}),
    chunk({"reasoning_content": "see 👩‍👩‍👧."}),
    chunk({"content": "Naïve "}),
    chunk({"content": "answer"}),
    chunk(call_of("", 0, "call_a", "bash")),
    chunk(call_of('{"comm', 0)),
    chunk(call_of("", 1, "call_b", "read")),
    chunk(call_of('and":"ls"}', 0)),
    chunk(call_of('{"path":"ü"}', 1)),
    chunk(reason="tool_calls"),
    {
        **chunk(),
        "choices": [],
        "usage": {
            "prompt_tokens": 100,
            "completion_tokens": 20,
            "total_tokens": 120,
            "prompt_tokens_details": {"cached_tokens": 60},
            "completion_tokens_details": {"reasoning_tokens": 5},
        },
    },
)
MEANT = [
    Thinking("Let me see 👩‍👩‍👧.", "reasoning_content"),
    Text("Naïve answer"),
    ToolCall("call_a", "bash", {"command": "ls"}),
    ToolCall("call_b", "read", {"path": "ü"}),
]


def test_an_answer_is_the_same_wherever_it_is_cut():
    """Also inside a character."""
    for at in [at for at, byte in enumerate(ANSWER) if byte > 127 or at % 11 == 0]:
        message, end, _ = read(LOCAL, PROTOCOL.reader(LOCAL), ANSWER[:at], ANSWER[at:])
        assert message.content == MEANT
        assert end == Finished("toolUse", Usage(40, 20, 60))


@pytest.mark.slow
def test_an_answer_is_read_as_openais_own_sdk_reads_it(wire_server: WireServer):
    """The same bytes from the same server, cut inside a character."""
    from openai import OpenAI

    cut = ANSWER.index("👩".encode()) + 2
    wire_server.script(events(ANSWER[:cut], ANSWER[cut:]))
    model = served("openai", "gpt-5", f"{wire_server.url}/v1")
    with (
        OpenAI(base_url=model.base_url, api_key=KEY, max_retries=0) as client,
        client.chat.completions.stream(
            model="gpt-5",
            messages=[{"role": "user", "content": "hello"}],
            stream_options={"include_usage": True},
        ) as theirs,
    ):
        completion = theirs.get_final_completion()
    message, end, _ = ask(model, PROTOCOL)
    choice = completion.choices[0].message
    assert message.content[1] == Text(choice.content or "")
    assert [(call.id, call.name, call.arguments) for call in message.content[2:]] == [  # type: ignore[union-attr]
        (call.id, call.function.name, json.loads(call.function.arguments)) for call in choice.tool_calls or ()
    ]
    assert completion.usage
    assert (end.usage.total, end.usage.output) == (
        completion.usage.total_tokens,
        completion.usage.completion_tokens,
    )
    theirs_sent, ours_sent = (asked.body for asked in wire_server.requests)
    assert ours_sent == theirs_sent


@given(st.data())
@FEW
def test_any_stream_of_openais_is_read_as_its_sdk_reads_it(data):
    """Texts and calls in any pieces, in any order between them."""
    from openai.lib.streaming.chat import ChatCompletionStreamState
    from openai.types.chat import ChatCompletionChunk

    pieces = st.lists(st.text(max_size=4), max_size=4)
    said = [{"content": each} for each in data.draw(pieces)]
    calls = [
        [call_of("", at, f"call_{at}", "bash"), *(call_of(each, at) for each in data.draw(pieces))]
        for at in range(data.draw(st.integers(0, 3)))
    ]
    # Calls begin in the order of their numbers; what follows is mixed.
    rest = data.draw(st.permutations([each for call in calls for each in call[1:]]))
    chunks = [chunk(delta) for delta in [*said, *(call[0] for call in calls), *rest]]
    chunks.append(chunk(reason="tool_calls" if calls else "stop"))

    state: Any = ChatCompletionStreamState()
    for each in chunks:
        state.handle_chunk(ChatCompletionChunk.model_validate(each))
    theirs = state.current_completion_snapshot.choices[0].message
    _, end, ours = answered(*chunks)
    text = "".join(piece.text for piece in ours if piece.kind == "text")
    arguments = {
        index: "".join(piece.text for piece in ours if piece.index == index)
        for index in dict.fromkeys(piece.index for piece in ours if piece.kind == "toolCall")
    }
    assert text == (theirs.content or "")
    assert [*arguments.values()] == [call.function.arguments for call in theirs.tool_calls or ()]
    assert end.reason == ("toolUse" if calls else "stop")


def contents(*chunks: Any, done: bool = True) -> list[Any]:
    return [*answered(*chunks, done=done).message.content]


def test_whole_calls_without_a_number():
    """Each chunk with a name begins one; arguments may be an object."""
    first, second = contents(
        chunk(call_of({"command": "ls"}, name="bash", id="a")),
        chunk(call_of('{"path":"b"}', name="read", id="b")),
        chunk(reason="stop"),
    )
    assert (first.arguments, second.arguments) == ({"command": "ls"}, {"path": "b"})


def test_calls_that_are_all_number_0():
    """Another id is another call."""
    found = contents(
        chunk(call_of("{}", 0, "a", "bash")), chunk(call_of("{}", 0, "b", "read")), chunk(reason="tool_calls")
    )
    assert [(call.id, call.name) for call in found] == [("a", "bash"), ("b", "read")]


def test_calls_without_an_id_are_given_one():
    """No two alike: their results are told apart by it."""
    first, second = contents(
        chunk(call_of("{}", 0, name="bash")), chunk(call_of("{}", 1, name="bash")), chunk(reason="tool_calls")
    )
    assert first.id
    assert second.id
    assert first.id != second.id


def test_an_id_and_a_name_that_are_said_again_with_every_piece():
    """It is one call all the same."""
    (call,) = contents(
        chunk(call_of('{"a"', 0, "x", "bash")),
        chunk(call_of(":1}", 0, "x", "bash")),
        chunk(reason="tool_calls"),
    )
    assert (call.name, call.arguments) == ("bash", {"a": 1})


def test_a_call_goes_on_without_number_and_name():
    """The last one is meant."""
    (call,) = contents(chunk(call_of("", name="bash")), chunk(call_of('{"a":1}')), chunk(reason="tool_calls"))
    assert call.arguments == {"a": 1}


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text"])
def test_thinking_under_any_name(field):
    """The name is kept: it is the way back."""
    chunks = [chunk({field: "Hm.", "content": None}), chunk({field: None, "content": "Yes."})]
    assert contents(*chunks, chunk(reason="stop")) == [Thinking("Hm.", field), Text("Yes.")]


def test_thinking_under_two_names_at_once_is_read_once():
    """As some servers send it, for programs that know the one or the other."""
    both = chunk({"reasoning_content": "Hm.", "reasoning": "Hm."})
    assert contents(both, chunk(reason="stop")) == [Thinking("Hm.", "reasoning_content")]


def test_mistrals_parts():
    """Thinking inside the content."""
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        {"type": "text", "text": "Yes."},
    ]
    assert contents(chunk({"content": parts}), chunk(reason="stop")) == [Thinking("Hm."), Text("Yes.")]


def test_a_refusal_is_what_was_said():
    """OpenAI has a member of its own for it."""
    assert contents(chunk({"refusal": "I won't."}), chunk(reason="stop")) == [Text("I won't.")]


@pytest.mark.parametrize("reason", ["stop", "eos", "length", "tool_calls", "function_call"])
@pytest.mark.parametrize("done", [True, False])
def test_how_an_answer_ended(reason, done):
    """`[DONE]` is not everywhere said."""
    _, end, _ = answered(chunk({"content": "x"}), chunk(reason=reason), done=done)
    expected = {"length": "length", "tool_calls": "toolUse", "function_call": "toolUse"}
    assert end.reason == expected.get(reason, "stop")


def test_an_answer_without_any_end_is_not_complete():
    """Whoever reads it finds no `Finished`."""
    reader = PROTOCOL.reader(LOCAL)
    assert [*reader.feed("", json.dumps(chunk({"content": "x"})))]
    assert [*reader.end()] == []


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 2}, Usage(9, 2)),
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 4}, Usage(5, 2, 4)),
        ({"prompt_tokens": 9, "completion_tokens": 2, "cached_tokens": 4}, Usage(5, 2, 4)),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 4},
            },
            Usage(2, 2, 3, 4),
        ),
        (  # xAI
            {
                "prompt_tokens": 9,
                "completion_tokens": 2,
                "total_tokens": 16,
                "completion_tokens_details": {"reasoning_tokens": 5},
            },
            Usage(9, 7),
        ),
        ({"prompt_tokens": None, "completion_tokens": None, "prompt_tokens_details": None}, Usage()),
    ],
)
@pytest.mark.parametrize("where", ["behind", "in the choice", "groq"])
def test_usage_wherever_it_stands(usage, counted, where):
    """What was read from a cache is not counted twice."""
    last = chunk(reason="stop")
    if where == "in the choice":
        last["choices"][0]["usage"] = usage
    after = {"behind": {"choices": [], "usage": usage}, "groq": {"choices": [], "x_groq": {"usage": usage}}}
    _, end, _ = answered(chunk({"content": "x"}), last, *([after[where]] if where in after else []))
    assert end.usage == counted


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"error": {"message": "Overloaded", "code": 502}}, ModelUnavailable),
        ({"error": {"message": "maximum context length is 5 tokens", "code": 400}}, ContextOverflow),
        ({"object": "error", "message": "bad", "code": 400}, ModelError),
        ({"error": "the model has crashed"}, ModelUnavailable),
        (chunk(reason="content_filter"), ModelError),
        (chunk(reason="error"), ModelUnavailable),
        (chunk(reason="model_context_window_exceeded"), ContextOverflow),
        (chunk(reason="insufficient_system_resource"), ModelUnavailable),
    ],
)
def test_an_answer_that_fails_half_way(data, kind):
    """It is told like any refusal."""
    with pytest.raises(ModelError) as raised:
        answered(chunk({"content": "x"}), data)
    assert type(raised.value) is kind


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda each: (
            st.lists(each)
            | st.dictionaries(
                st.sampled_from(
                    ["choices", "delta", "content", "tool_calls", "function", "usage", "index", "x"]
                ),
                each,
            )
        ),
        max_leaves=8,
    )
)
@FEW
def test_a_chunk_of_any_other_shape_ends_in_nothing_worse_than_an_error(value):
    """One that `http` knows: the answer broke off."""
    reader = PROTOCOL.reader(LOCAL)
    try:
        [*reader.feed("", json.dumps(value))]
    except (ModelError, ValueError, TypeError, LookupError, AttributeError):
        pass
