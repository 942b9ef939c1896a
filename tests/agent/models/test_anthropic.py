"""The Anthropic messages protocol: what is sent, what is read, and what Anthropic's own SDK says to both."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from perdure.agent.models import THINKING_LEVELS, Finished, Model, Request, Sent, ToolSpec, Usage
from perdure.agent.models.anthropic import AnthropicMessages
from perdure.agent.models.http import json_text
from perdure.errors import ContextOverflow, ModelError, ModelUnavailable
from perdure.session.context import INTERRUPTED
from perdure.session.entry import Assistant, Block, Image, Text, Thinking, ToolCall, ToolResult, User
from tests.agent.models.aimock import Aimock
from tests.agent.models.asking import KEY, ask, read
from tests.agent.models.histories import PIXEL, histories
from tests.agent.models.schemas import accepts
from tests.agent.models.wire_server import WireServer, events

PROTOCOL = AnthropicMessages()
BASH = ToolSpec("bash", "Runs a command.", {"type": "object", "properties": {"command": {"type": "string"}}})
GENERATIONS = [
    "claude-sonnet-4-5",
    "claude-opus-4-6",
    "claude-opus-5",
    "claude-opus-5-5",
    "claude-sonnet-5-5",
]


def claude(id: str = "claude-sonnet-4-5", **fields: Any) -> Model:
    known: dict[str, Any] = {"max_tokens": 64_000, "reasoning": True, "input": ("text", "image")}
    return Model(
        id=id,
        provider="anthropic",
        api="anthropic-messages",
        **{"base_url": "https://example.test", **known, **fields},
    )


def said_by(model: Model, *blocks: Any) -> Assistant:
    return Assistant([*blocks], api=model.api, provider=model.provider, model=model.id)


def body_of(model: Model, *messages: Sent, **fields: Any) -> Any:
    call = PROTOCOL.call(model, Request(messages=[*messages], **fields), KEY)
    assert accepts(model.api, call.body) == []
    return json.loads(json_text(call.body))


def unmarked(body: Any) -> list[Any]:
    """Every block with the role of who said it, without the marks for the cache."""
    return [
        (message["role"], {name: value for name, value in block.items() if name != "cache_control"})
        for message in body["messages"]
        for block in message["content"]
    ]


# --- what is sent -------------------------------------------------------------------------------


@given(st.data())
@settings(max_examples=50)
def test_any_history_is_a_request_that_anthropic_takes(data):
    """Whoever said what: its SDK's types and the server's rules have nothing against it."""
    model = claude(
        data.draw(st.sampled_from(GENERATIONS)),
        input=data.draw(st.sampled_from([("text",), ("text", "image")])),
        max_tokens=data.draw(st.sampled_from([500, 4096, 64_000])),
    )
    body = body_of(
        model,
        *data.draw(histories(model)),
        system=data.draw(st.sampled_from(["", " \n", "Be brief.", "lone \ud800"])),
        tools=data.draw(st.sampled_from([(), (BASH,)])),
        thinking=data.draw(st.sampled_from(THINKING_LEVELS)),
    )
    assert body["messages"][-1]["role"] == "user"


@given(st.data())
@settings(max_examples=25)
def test_thinking_goes_back_to_none_but_the_model_that_thought_it(data):
    """Each thought that is sent is one of the model's own, with its signature, unchanged."""
    model = claude(data.draw(st.sampled_from(GENERATIONS)))
    history = data.draw(histories(model))
    body = body_of(model, *history, thinking=data.draw(st.sampled_from(THINKING_LEVELS)))
    own = [
        message.content
        for message in history
        if isinstance(message, Assistant) and message.model == model.id and isinstance(message.content, list)
    ]
    signed = [
        [block.thinking, block.thinking_signature]
        for content in own
        for block in content
        if isinstance(block, Thinking) and block.thinking_signature
    ]
    may_be_sent = json.loads(json_text(signed))  # where lone surrogates are replaced as in the body
    for _, block in unmarked(body):
        if block["type"] == "thinking":
            assert [block["thinking"], block["signature"]] in may_be_sent
        if block["type"] == "redacted_thinking":
            assert block["data"] in [signature for _, signature in may_be_sent]


@given(st.data())
@settings(max_examples=25)
def test_a_longer_history_begins_as_the_shorter_one_did(data):
    """Otherwise nothing of it would be found in the server's cache."""
    model = claude("claude-opus-5-5")
    history = data.draw(histories(model))
    asked = [at for at, message in enumerate(history) if at and isinstance(message, Assistant)]
    assume(asked)
    shorter = unmarked(body_of(model, *history[: data.draw(st.sampled_from(asked))], thinking="low"))
    assume(shorter[-1][1] != {"type": "text", "text": "(no text)"})
    longer = unmarked(body_of(model, *history, thinking="low"))
    # Results move in front of what the user said meanwhile, which then is not in the cache yet.
    assert longer[: len(shorter)] == shorter


@pytest.mark.parametrize(
    "base", ["https://example.test", "https://example.test/v1", "https://example.test/v1/"]
)
def test_a_base_url_may_end_in_v1(base):
    assert (
        PROTOCOL.call(claude(base_url=base), Request(messages=[]), KEY).url
        == "https://example.test/v1/messages"
    )


def test_the_key_is_in_one_header_and_nowhere_else():
    """And without a key there is no such header."""
    call = PROTOCOL.call(claude(), Request(messages=[User("hello")]), KEY)
    assert call.headers == {"anthropic-version": "2023-06-01", "x-api-key": KEY}
    assert KEY not in call.url + json_text(call.body)
    assert "x-api-key" not in PROTOCOL.call(claude(), Request(messages=[]), "").headers


@pytest.mark.parametrize(("asked", "sent"), [(0, 64_000), (1000, 1000), (100_000, 64_000)])
def test_the_limit_is_always_sent_and_never_above_the_models_own(asked, sent):
    assert body_of(claude(), User("hello"), max_tokens=asked)["max_tokens"] == sent


ADAPTIVE = {"type": "adaptive"}
SHOWN = {"type": "adaptive", "display": "summarized"}


@pytest.mark.parametrize(
    ("id", "level", "thinking", "effort"),
    [
        ("claude-sonnet-4-5-20250929", "off", None, None),
        ("claude-sonnet-4-5-20250929", "low", {"type": "enabled", "budget_tokens": 4096}, None),
        ("claude-opus-4-20250514", "xhigh", {"type": "enabled", "budget_tokens": 32_000}, None),
        ("claude-3-7-sonnet-20250219", "minimal", {"type": "enabled", "budget_tokens": 1024}, None),
        ("MiniMax-M2", "medium", {"type": "enabled", "budget_tokens": 10_240}, None),
        ("claude-opus-4-6", "off", None, None),
        ("claude-opus-4-6", "minimal", ADAPTIVE, "low"),
        ("anthropic/claude-opus-4.6", "xhigh", ADAPTIVE, "max"),
        ("claude-opus-4-7", "xhigh", SHOWN, "xhigh"),
        ("claude-mythos-preview", "high", SHOWN, "high"),
        ("claude-opus-5", "off", {"type": "disabled"}, None),
        ("claude-sonnet-5-5", "off", {"type": "between_tools"}, None),
        ("claude-haiku-5-5", "off", {"type": "disabled"}, None),
        ("claude-opus-5-5", "off", SHOWN, "low"),
        ("claude-fable-5-1", "off", SHOWN, "low"),
        ("claude-opus-9", "medium", SHOWN, "medium"),
    ],
)
def test_thinking_is_asked_for_as_each_generation_wants_it(id, level, thinking, effort):
    """Budgets before 4.6, efforts since; what cannot be kept from thinking is asked for little."""
    body = body_of(claude(id), User("hello"), thinking=level)
    assert body.get("thinking") == thinking
    assert body.get("output_config") == (effort and {"effort": effort})


def test_a_model_that_does_not_reason_is_not_asked_to():
    body = body_of(claude("claude-opus-5", reasoning=False), User("hello"), thinking="high")
    assert not {"thinking", "output_config"} & body.keys()


@given(st.integers(1, 100_000), st.sampled_from(THINKING_LEVELS))
def test_a_budget_leaves_room_for_the_answer(limit, level):
    """At least half of the limit; where that is too little to think, there is no thinking."""
    thinking = body_of(claude(max_tokens=limit), User("hello"), thinking=level).get("thinking")
    assert thinking is None or 1024 <= thinking["budget_tokens"] <= limit // 2


CALL = ToolCall("toolu_1", "bash", {"command": "ls"})
RESULT = ToolResult("toolu_1", "bash", [Text("a.txt")])


@pytest.mark.parametrize("id", ["claude-sonnet-4-5", "claude-opus-5-5"])
def test_thinking_and_what_is_hidden_of_it_come_back_unchanged(id):
    """Also where the text was left out and there is a signature alone."""
    model = claude(id)
    thoughts = [Thinking("Hm.\n", "c2ln"), Thinking("", "aGlkZGVu"), Thinking("", "cmVk", True)]
    body = body_of(model, User("hello"), said_by(model, *thoughts, CALL), RESULT, thinking="high")
    assert body["messages"][1]["content"][:3] == [
        {"type": "thinking", "thinking": "Hm.\n", "signature": "c2ln"},
        {"type": "thinking", "thinking": "", "signature": "aGlkZGVu"},
        {"type": "redacted_thinking", "data": "cmVk"},
    ]


@pytest.mark.parametrize("level", ["off", "high"])
@pytest.mark.parametrize("other", ["claude-opus-4-5", "gpt-5"])
def test_thinking_of_another_model_is_left_out(other, level):
    foreign = said_by(claude(other), Thinking("Hm.", "c2ln"), Text("Hi"))
    sent = body_of(claude(), User("hello"), foreign, User("and?"), thinking=level)["messages"][1]["content"]
    assert sent == [{"type": "text", "text": "Hi"}]


def test_a_thought_whose_past_was_compacted_is_the_servers_to_drop():
    """It would refuse the request otherwise. Models that do not look at it are not told."""
    for id, is_told in [("claude-opus-5-5", True), ("claude-opus-5", False), ("claude-sonnet-4-5", False)]:
        model = claude(id)
        history: list[Sent] = [
            User("hello"),
            said_by(model, Thinking("Hm.", "c2ln"), Text("Hi")),
            User("and?"),
        ]
        call = PROTOCOL.call(model, Request(messages=history, thinking="low"), KEY)
        assert ("anthropic-beta" in call.headers) == is_told == ("block_binding" in call.body["thinking"])
        assert accepts(model.api, call.body) == []
        first = PROTOCOL.call(model, Request(messages=[User("hello")], thinking="low"), KEY)
        assert "anthropic-beta" not in first.headers


def test_betas_of_the_users_own_are_left_alone():
    """They replace ours, so nothing is sent that would need ours."""
    model = claude("claude-opus-5-5", headers={"Anthropic-Beta": "context-1m-2025-08-07"})
    history: list[Sent] = [User("hello"), said_by(model, Thinking("Hm.", "c2ln"), Text("Hi")), User("and?")]
    call = PROTOCOL.call(model, Request(messages=history, thinking="low"), KEY)
    assert "block_binding" not in call.body["thinking"]
    assert "anthropic-beta" not in call.headers


def test_a_budget_waits_for_the_user_when_calls_were_made_without_thinking():
    """The server refuses thinking amid a turn that began without it, as after a change of model."""
    model = claude()
    amid: list[Sent] = [User("hello"), said_by(claude("other"), CALL), RESULT]
    own: list[Sent] = [User("hello"), said_by(model, Thinking("Hm.", "c2ln"), CALL), RESULT]
    assert "thinking" not in body_of(model, *amid, thinking="low")
    assert "thinking" in body_of(model, *own, thinking="low")
    assert "thinking" in body_of(model, *own, said_by(model, CALL), RESULT, thinking="low")
    assert "thinking" in body_of(model, *amid, User("go on"), thinking="low")
    assert "thinking" in body_of(claude("claude-opus-4-6"), *amid, thinking="low")


def test_the_cache_is_told_of_the_prompt_the_tools_and_the_ends_of_two_messages():
    model = claude()
    history: list[Sent] = [User("one"), said_by(model, Text("1")), User("two"), said_by(model, CALL), RESULT]
    body = body_of(model, *history, system="Be brief.", tools=[BASH, ToolSpec("read", "Reads.", {})])
    assert "cache_control" in body["system"][0]
    assert ["cache_control" in tool for tool in body["tools"]] == [False, True]
    marked = [message["content"] for message in body["messages"] if "cache_control" in message["content"][-1]]
    assert [content[-1]["type"] for content in marked] == ["text", "tool_result"]


def test_results_stand_first_and_the_user_speaks_behind_them():
    """Also one that says nothing, or that the call was interrupted."""
    model = claude()
    calls = said_by(model, Text("I look."), CALL, ToolCall("toolu_2", "read", {}))
    silent = ToolResult("toolu_2", "read", [Text("  ")], is_error=True)
    history: list[Sent] = [
        User("hello"),
        calls,
        ToolResult("toolu_1", "bash", INTERRUPTED),
        silent,
        User("so?"),
        User("?"),
    ]
    *results, first, second = body_of(model, *history)["messages"][-1]["content"]
    assert [(each["tool_use_id"], each["content"][0]["text"]) for each in results] == [
        ("toolu_1", INTERRUPTED),
        ("toolu_2", "(no output)"),
    ]
    assert (results[1]["is_error"], first["text"], second["text"]) == (True, "so?", "?")


def test_ids_of_others_are_put_into_this_alphabet_and_stay_apart():
    """Always in the same way, and results keep to their calls."""
    ids = ["call_1|fc_2", "call_1_fc_2", "call_1/fc_2", "é", "", "call_1|fc_2"]
    history: list[Sent] = [User("hello")]
    for id in ids:
        history += [
            said_by(claude("gpt-5"), ToolCall(id, "bash", {})),
            ToolResult(id, "bash", [Text("done")]),
        ]
    body = body_of(claude(), *history)
    used = [block["id"] for _, block in unmarked(body) if block["type"] == "tool_use"]
    answered = [block["tool_use_id"] for _, block in unmarked(body) if block["type"] == "tool_result"]
    assert used == answered
    assert (len({*used}), used[1]) == (len(ids), "call_1_fc_2")
    assert body == body_of(claude(), *history)


def test_images_are_shown_where_the_model_can_see():
    """In what the user says and in results; elsewhere a note says that there was one."""
    shown = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    seen: list[Block] = [Text("Look:"), Image(PIXEL, "image/png")]
    for model, expected in [(claude(), shown), (claude(input=("text",)), None)]:
        body = body_of(model, User(seen), said_by(model, CALL), ToolResult("toolu_1", "bash", seen))
        of_user = body["messages"][0]["content"][1]
        of_result = body["messages"][2]["content"][0]["content"][1]
        for block in (of_user, of_result):
            block.pop("cache_control", None)
            assert block == expected if expected else "image" in block["text"]


def test_tools_that_are_gone_are_named_and_not_to_be_called():
    body = body_of(claude(), User("hello"), said_by(claude(), CALL), RESULT)
    assert [tool["name"] for tool in body["tools"]] == ["bash"]
    assert body["tool_choice"] == {"type": "none"}
    assert "tools" not in body_of(claude(), User("hello"))


def test_an_answer_that_said_nothing_is_left_out():
    model = claude()
    nothing = said_by(model, Text(" \n"), Thinking("unsigned"))
    body = body_of(model, User("one"), nothing, User("two"))
    assert [block["text"] for _, block in unmarked(body)] == ["one", "two"]
    assert [message["role"] for message in body["messages"]] == ["user"]


# --- what is read -------------------------------------------------------------------------------


def sse(*said: dict[str, Any]) -> bytes:
    """With every character as it is, none escaped."""
    lines = (f"event: {each['type']}\ndata: {json.dumps(each, ensure_ascii=False)}\n\n" for each in said)
    return "".join(lines).encode()


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **more}}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def ending(reason: str | None, **more: Any) -> list[dict[str, Any]]:
    return [
        {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None, **more},
         "usage": {"output_tokens": 31}},
        {"type": "message_stop"},
    ]  # fmt: skip


BEGINNING: dict[str, Any] = {
    "type": "message_start",
    "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": [],
        "stop_reason": None, "stop_sequence": None,
        "usage": {"input_tokens": 7, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 2000,
                  "output_tokens": 1},
    },
}  # fmt: skip
SAID: list[dict[str, Any]] = [
    BEGINNING,
    {"type": "ping"},
    start(0, type="thinking", thinking="", signature=""),
    delta(0, "thinking_delta", thinking="The user greets "),
    delta(0, "thinking_delta", thinking="me 👋."),
    delta(0, "signature_delta", signature="c2lnbmF0dXJl"),
    stop(0),
    start(1, type="redacted_thinking", data="aGlkZGVu"),
    stop(1),
    start(2, type="text", text=""),
    delta(2, "text_delta", text="Grüße, "),
    delta(2, "text_delta", text="世界 👩‍👩‍👧!"),
    stop(2),
    start(3, type="tool_use", id="toolu_1", name="bash", input={}),
    delta(3, "input_json_delta", partial_json=""),
    delta(3, "input_json_delta", partial_json='{"command": "ech'),
    delta(3, "input_json_delta", partial_json='o ü"}'),
    stop(3),
    start(4, type="tool_use", id="toolu_2", name="now", input={}),
    stop(4),
    *ending("tool_use"),
]
CONTENT = [
    Thinking("The user greets me 👋.", "c2lnbmF0dXJl"),
    Thinking("", "aGlkZGVu", True),
    Text("Grüße, 世界 👩‍👩‍👧!"),
    ToolCall("toolu_1", "bash", {"command": "echo ü"}),
    ToolCall("toolu_2", "now", {}),
]
USAGE = Usage(input=7, output=31, cache_read=2000, cache_write=100)


def test_an_answer_is_read_as_anthropics_own_sdk_reads_it(wire_server: WireServer):
    """The same bytes for both: the same thoughts, words, calls and figures. And the SDK sends the same."""
    import anthropic

    wire_server.script(events(sse(*SAID)))
    model = claude(base_url=wire_server.url)
    request = Request(
        messages=[User("hello"), said_by(model, Thinking("Hm.", "c2ln"), CALL), RESULT],
        system="Be brief.",
        tools=[BASH],
        thinking="low",
    )
    answer = ask(model, PROTOCOL, request)
    assert answer.message.content == CONTENT
    assert answer.end == Finished("toolUse", USAGE)

    ours = wire_server.requests[0]
    named = {name: value for name, value in ours.body.items() if name != "stream"}
    with (
        warnings.catch_warnings(),
        anthropic.Anthropic(api_key=KEY, base_url=wire_server.url, max_retries=0) as client,
    ):
        warnings.simplefilter("ignore", DeprecationWarning)  # of a model; the protocol stays
        with client.messages.stream(**named) as stream:
            final = stream.get_final_message()
    theirs = wire_server.requests[1]
    assert (ours.target, ours.body) == (theirs.target, theirs.body)
    read_by_sdk = [block.model_dump(exclude_none=True) for block in final.content]
    for block in read_by_sdk:
        block.pop("caller", None)
    assert read_by_sdk == [
        {"type": "thinking", "thinking": "The user greets me 👋.", "signature": "c2lnbmF0dXJl"},
        {"type": "redacted_thinking", "data": "aGlkZGVu"},
        {"type": "text", "text": "Grüße, 世界 👩‍👩‍👧!"},
        {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "echo ü"}},
        {"type": "tool_use", "id": "toolu_2", "name": "now", "input": {}},
    ]
    usage = final.usage
    assert (
        Usage(
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_input_tokens or 0,
            usage.cache_creation_input_tokens or 0,
        )
        == USAGE
    )


def test_where_the_bytes_are_cut_does_not_matter():
    """At every offset, inside characters too."""
    whole = sse(*SAID)
    for at in range(len(whole) + 1):
        answer = read(claude(), PROTOCOL.reader(claude()), whole[:at], whole[at:])
        assert (answer.message.content, answer.end.usage) == (CONTENT, USAGE)


def test_a_character_cut_in_two_packets_arrives_whole(wire_server: WireServer):
    """Over a real socket, at each place inside the characters of one word."""
    whole = sse(*SAID)
    word = whole.index("世".encode())
    for at in range(word, word + 12):
        wire_server.script(events(whole[:at], whole[at:]))
        assert ask(claude(base_url=wire_server.url), PROTOCOL).message.content == CONTENT


@pytest.mark.parametrize("extent", range(len(SAID) - 1))
def test_an_answer_that_breaks_off_is_never_taken_for_whole(extent, wire_server: WireServer):
    """After whichever event. Only the reason it stopped makes it whole."""
    wire_server.script(events(sse(*SAID[:extent])))
    if SAID[:extent][-1:] == [SAID[-2]]:
        assert ask(claude(base_url=wire_server.url), PROTOCOL).end.reason == "toolUse"
        return
    with pytest.raises(ModelUnavailable, match="broke off"):
        ask(claude(base_url=wire_server.url), PROTOCOL)


@pytest.mark.parametrize(
    ("reason", "taken_for"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        (None, "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "toolUse"),
        ("something_new", "stop"),
    ],
)
def test_each_reason_to_stop_has_its_meaning(reason, taken_for):
    assert read(claude(), PROTOCOL.reader(claude()), sse(BEGINNING, *ending(reason))).end.reason == taken_for


def test_a_refusal_says_why():
    details = {"type": "refusal", "category": "bio", "explanation": "It could\nhelp to harm."}
    with pytest.raises(ModelError, match=r"claude-sonnet-4-5 declined to answer: It could help to harm\."):
        read(claude(), PROTOCOL.reader(claude()), sse(BEGINNING, *ending("refusal", stop_details=details)))


@pytest.mark.parametrize(
    ("kind", "message", "error"),
    [
        ("overloaded_error", "Overloaded", ModelUnavailable),
        ("api_error", "Internal server error", ModelUnavailable),
        ("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum", ContextOverflow),
        ("authentication_error", "invalid x-api-key", ModelError),
    ],
)
def test_an_error_inside_the_stream_is_what_it_is_outside(kind, message, error, wire_server: WireServer):
    """Busy may be tried again, too long can be compacted, and the rest is told as it is."""
    trouble = {"type": "error", "error": {"type": kind, "message": message}}
    wire_server.script(events(sse(*SAID[:5]), sse(trouble)))
    with pytest.raises(error, match=message.split(":")[0]) as raised:
        ask(claude(base_url=wire_server.url), PROTOCOL)
    assert type(raised.value) is error


def test_what_is_not_known_is_passed_over():
    """Events, blocks, pieces of blocks and members that came after this was written."""
    strange = [
        {"type": "brand_new", "message": "text where others have objects"},
        start(0, type="server_tool_use", id="srv_1", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"query"'),
        stop(0),
        start(1, type="text", text="See", citations=[]),
        delta(1, "citations_delta", citation={"cited_text": "x"}),
        delta(1, "text_delta", text=" there"),
        stop(1),
        delta(9, "text_delta", text="of no block"),
    ]
    answer = read(claude(), PROTOCOL.reader(claude()), sse(BEGINNING, *strange, *ending("end_turn")))
    assert answer.message.content == [Text("See there")]
    assert [piece.index for piece in answer.pieces] == [0, 0]


def test_arguments_that_come_at_once_count_if_no_pieces_follow():
    """As some servers that speak this protocol send them."""
    whole = [start(0, type="tool_use", id="a", name="bash", input={"command": "ls"}), stop(0)]
    answer = read(claude(), PROTOCOL.reader(claude()), sse(BEGINNING, *whole, *ending("tool_use")))
    assert answer.message.content == [ToolCall("a", "bash", {"command": "ls"})]


kinds = st.sampled_from([each["type"] for each in SAID] + ["error", "new"])
members = st.sampled_from(["index", "delta", "content_block", "message", "usage", "error", "text"])
ODD: list[Any] = [None, True, 3, -1.5, "text", "\ud800", [], [{}], {}, {"type": "text"}, {"usage": 1}]
begun = st.builds(lambda at, kind: start(at, type=kind), st.integers(0, 2), kinds)
odd = st.sampled_from(ODD) | begun


@settings(max_examples=50)
@given(st.lists(st.builds(lambda kind, more: {**more, "type": kind}, kinds, st.dictionaries(members, odd))))
def test_no_event_is_too_odd(said):
    """Anything is read, or refused with what the reader may refuse it with."""
    reader = PROTOCOL.reader(claude())
    for each in said:
        try:
            [*reader.feed("", json_text(each))]
        except (ValueError, ModelError):
            return
    assert len([*reader.end()]) <= 1


@pytest.mark.parametrize("data", ["", "[DONE]", "[]", "null", "{"])
def test_what_is_no_event_is_refused(data):
    with pytest.raises(ValueError, match=r"."):
        [*PROTOCOL.reader(claude()).feed("message_delta", data)]


# --- an independent server ----------------------------------------------------------------------

API = "anthropic-messages"


def test_aimock_is_understood(aimock: Aimock):
    """Text, thinking, two calls at once, and the figures; and it takes back what it said."""
    model = aimock.answering(
        API,
        {
            "content": "Grüße 👋",
            "reasoning": "They greet.",
            "toolCalls": [
                {"id": "toolu_a", "name": "bash", "arguments": '{"command": "ls ü"}'},
                {"id": "toolu_b", "name": "read", "arguments": "{}"},
            ],
            "usage": {"input_tokens": 11, "output_tokens": 5},
        },
        chunkSize=3,
    )
    answer = ask(model, PROTOCOL, Request(messages=[User("hello")], tools=[BASH], thinking="low"))
    assert isinstance(answer.message.content, list)
    thinking, *rest = answer.message.content
    assert isinstance(thinking, Thinking)
    assert (thinking.thinking, bool(thinking.thinking_signature)) == ("They greet.", True)
    assert rest == [
        Text("Grüße 👋"),
        ToolCall("toolu_a", "bash", {"command": "ls ü"}),
        ToolCall("toolu_b", "read", {}),
    ]
    assert answer.end == Finished("toolUse", Usage(11, 5))
    results = [ToolResult(id, "bash", [Text("done")]) for id in ("toolu_a", "toolu_b")]
    again = ask(model, PROTOCOL, Request(messages=[User("hello"), answer.message, *results], tools=[BASH]))
    assert again.message.content[1:] == rest
    assert [each["role"] for each in aimock.requests(model)[1]["messages"]] == [
        "user",
        "assistant",
        "tool",
        "tool",
    ]


@pytest.mark.parametrize(
    ("response", "options", "error", "words"),
    [
        (
            {"error": {"message": "slow down", "type": "rate_limit_error"}, "status": 429, "retryAfter": 7},
            {},
            ModelUnavailable,
            "slow down",
        ),
        (
            {"error": {"message": "invalid x-api-key", "type": "authentication_error"}, "status": 401},
            {},
            ModelError,
            "did not accept the key",
        ),
        (
            {
                "error": {"message": "prompt is too long: 3 > 2", "type": "invalid_request_error"},
                "status": 400,
            },
            {},
            ContextOverflow,
            "too long",
        ),
        (
            {"content": "a long answer " * 20},
            {"truncateAfterChunks": 4, "chunkSize": 5},
            ModelUnavailable,
            "broke",
        ),
        ({"content": "a long answer " * 20}, {"chaos": {"malformedRate": 1}}, ModelUnavailable, "broke off"),
    ],
)
def test_aimocks_faults_are_told_in_plain_words(aimock: Aimock, response, options, error, words):
    with pytest.raises(error, match=words) as raised:
        ask(aimock.answering(API, response, **options), PROTOCOL)
    assert type(raised.value) is error
    assert KEY not in str(raised.value)
    if "retryAfter" in response:
        assert raised.value.retry_after == 7
