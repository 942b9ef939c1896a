"""Answers in the Anthropic messages protocol: of bytes, of a server, and as Anthropic's SDK reads them."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.models import Finished, Request, Usage
from perdure.agent.models.anthropic import AnthropicMessages
from perdure.agent.models.history import json_text
from perdure.errors import ContextOverflow, ModelError, ModelUnavailable
from perdure.session.entry import Text, Thinking, ToolCall, ToolResult, User
from tests.agent.models.asking import BASH, KEY, ask, claude, read, said_by
from tests.agent.models.wire_server import WireServer, events
from tests.effort import FEW

pytestmark = pytest.mark.xdist_group("anthropic")  # whose SDK is slow to load

PROTOCOL = AnthropicMessages()
CALL = ToolCall("toolu_1", "bash", {"command": "ls"})
RESULT = ToolResult("toolu_1", "bash", [Text("a.txt")])


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


@pytest.mark.slow
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


@pytest.mark.slow
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


@FEW
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


def test_no_more_than_one_input_waits_for_the_end_of_its_call():
    """Else a server that begins many calls and ends none would fill the memory, unmeasured."""
    given = [{"command": str(at)} for at in range(3)]
    calls = [
        start(at, type="tool_use", id=f"t{at}", name="bash", input=each) for at, each in enumerate(given)
    ]
    reader = PROTOCOL.reader(claude())
    pieces = [[*reader.feed("", json.dumps(each))] for each in calls]
    assert [sum(len(getattr(each, "text", "")) for each in made) for made in pieces] == [0, 15, 15]
    whole = sse(BEGINNING, *calls, stop(0), stop(2), *ending("tool_use"))
    answer = read(claude(), PROTOCOL.reader(claude()), whole)
    assert [call.arguments for call in answer.message.calls] == given
