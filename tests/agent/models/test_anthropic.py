"""The Anthropic messages protocol: what is sent, what is read, and what Anthropic's own SDK says to both."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from perdure.agent.models import THINKING_LEVELS, Model, Request, Sent, ToolSpec
from perdure.agent.models.anthropic import AnthropicMessages
from perdure.agent.models.history import json_text
from perdure.session.context import INTERRUPTED
from perdure.session.entry import Assistant, Block, Image, Text, Thinking, ToolCall, ToolResult, User
from tests.agent.models.asking import BASH, KEY, claude, said_by
from tests.agent.models.histories import PIXEL, histories
from tests.agent.models.schemas import accepts
from tests.effort import FEW

pytestmark = pytest.mark.xdist_group("anthropic")  # whose SDK is slow to load

PROTOCOL = AnthropicMessages()
GENERATIONS = [
    "claude-sonnet-4-5",
    "claude-opus-4-6",
    "claude-opus-5",
    "claude-opus-5-5",
    "claude-sonnet-5-5",
]


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


@pytest.mark.slow
@given(st.data())
@FEW
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
@FEW
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
@FEW
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
    assert "thinking" not in body_of(model, *amid, User("go on"), thinking="low")
    assert "thinking" in body_of(model, *amid, said_by(model, Text("Done.")), User("more"), thinking="low")
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
