"""How much a model is sent: counted by its provider where it did, estimated otherwise."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.tokens import Counter, counted_in, of_message
from perdure.session import context
from perdure.session.entry import (
    Assistant,
    BashExecution,
    Compaction,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
    decode,
    new,
)
from tests.generated import messages


def answer(total, text="", reason="stop", **usage):
    return Assistant([Text(text)], usage={"totalTokens": total, **usage}, stop_reason=reason)


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (User(""), 0),
        (User("abcd"), 1),
        (User("abcde"), 2),
        (User([Text("abc"), Text("de")]), 2),
        (User([Text("abcd"), Image("x" * 100_000, "image/png")]), 1201),
        (Assistant([Thinking("abcd", "a long signature"), Text("efgh")]), 2),
        (Assistant([ToolCall("1", "bash", {"command": "ls"})]), 5),
        (ToolResult("1", "bash", [Text("x" * 400)]), 100),
        (BashExecution("ls", "x" * 398), 100),
    ],
)
def test_four_characters_are_a_token_and_an_image_is_many(message, tokens):
    assert of_message(message) == tokens


def test_a_block_nobody_knows_is_counted_by_what_it_holds():
    line = b'{"type":"message","id":"a","message":{"role":"user","content":[{"type":"new","data":"xxxx"}]}}'
    body = decode(line).body
    assert isinstance(body, Message)
    assert of_message(body.message) > 5


@given(st.lists(messages, max_size=8))
def test_any_message_has_an_estimate(said):
    """Lone surrogates, odd numbers and all; and what is counted one by one is what is counted at once."""
    assert all(of_message(message) >= 0 for message in said)
    counter = Counter()
    for message in said:
        counter.add(message)
    assert counter.total == Counter.of(said).total


def test_what_the_provider_counted_stands_for_all_before_it():
    said = [User("x" * 4000), answer(50), User("y" * 40), answer(0), answer(90), User("z" * 8)]
    assert Counter.of(said).total == 92
    assert Counter.of(said[:4]).total == 60


@pytest.mark.parametrize("reason", ["aborted", "error"])
def test_an_answer_that_broke_off_counted_nothing(reason):
    assert Counter.of([User("abcd"), answer(99, "efgh", reason)]).total == 2


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4}, 10),
        ({"totalTokens": 7, "input": 1}, 7),
        ({"totalTokens": "many"}, 0),
        ({"totalTokens": True, "input": None}, 0),
        ({"totalTokens": float("inf"), "output": -5}, 0),
        ({}, 0),
    ],
)
def test_usage_of_any_program_is_understood_or_left(usage, tokens):
    assert counted_in(Assistant([Text("x")], usage=usage)) == tokens


def test_pi_20_what_was_counted_before_a_compaction_is_not_true_any_more():
    """Or a session would be condensed again as soon as it had been."""
    entries = [
        new(Message(User("abcd")), id="e0"),
        new(Message(answer(150_000, "efgh")), id="e1"),
        new(Compaction("so far", "e0"), id="e2"),
    ]
    sent = context.build(entries)
    assert Counter.of(sent.messages, sent.condensed).total == 2 + of_message(sent.messages[0])
    sent = context.build([*entries, new(Message(answer(70)), id="e9"), new(Message(User("abcd")), id="f")])
    assert Counter.of(sent.messages, sent.condensed).total == 71
