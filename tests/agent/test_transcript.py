"""A conversation as text, as whoever summarises it reads it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.transcript import render, shortened, without
from perdure.session.entry import AnyMessage, Assistant, Image, Text, Thinking, ToolCall, ToolResult, User
from tests.generated import messages


def test_everybody_is_named():
    said: list[AnyMessage] = [
        User([Text("look"), Image("aGk=", "image/png")]),
        Assistant(
            [Thinking("hm"), Text("I see"), ToolCall("1", "read", {"path": "a.py"}), ToolCall("2", "ls", {})]
        ),
        ToolResult("1", "read", [Text("x = 1")]),
        ToolResult("2", "ls", [Text("no")], is_error=True),
        Assistant("plain"),
    ]
    assert render(said).split("\n\n") == [
        "<conversation>\n[User]: look\n[image]",
        "[Assistant thinking]: hm",
        "[Assistant]: I see",
        '[Assistant tool calls]: read({"path":"a.py"}); ls({})',
        "[Tool result]: x = 1",
        "[Tool result]: (failed) no",
        "[Assistant]: plain\n</conversation>",
    ]


def test_what_tools_are_given_and_say_is_cut_short():
    said: list[AnyMessage] = [
        Assistant([ToolCall("1", "write", {"path": "a.py", "content": "c" * 50_000})]),
        ToolResult("1", "write", [Text("begin" + "r" * 50_000 + "end")]),
    ]
    text = render(said)
    assert len(text) < 4200
    assert "begin" in text
    assert text.removesuffix("\n</conversation>").endswith("end")
    assert "characters and more are left out here" in text


def test_the_first_request_and_the_newest_are_there_whatever_the_room():
    said: list[AnyMessage] = [
        User("the first request"),
        *[Assistant([Text(f"step {n} " + "x" * 500)]) for n in range(100)],
    ]
    text = render(said, 1000)
    assert "the first request" in text
    assert "step 99" in text
    assert "step 40" not in text
    assert "parts of the conversation are left out here" in text


def test_one_long_message_has_all_the_room_there_is():
    assert len(render([User("x" * 100_000)], 1000)) > 3800


@given(st.lists(messages, max_size=8), st.integers(50, 300))
def test_any_conversation_fits(said, most):
    """Within so many tokens, hostile text and all."""
    assert len(render(said, most)) <= 4 * most
    assert render(said).startswith("<conversation>")


@given(st.text(max_size=300), st.integers(0, 300))
def test_a_text_is_shortened_to_its_beginning_and_end(text, most):
    short = shortened(text, most)
    assert len(short) <= most
    assert short == text or len(text) > most
    assert short[:20] == text[: min(20, most)][: len(short)] or most < 20


@pytest.mark.parametrize("most", [0, 1, 30])
def test_very_little_room_is_no_error(most):
    assert shortened("x" * 100, most) == "x" * most


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("a<x>b</x>c", "ac"),
        ("<x><y></x></y>", "</y>"),
        ("<y><x></x>", "<y>"),
        ("</x><x>", "</x><x>"),
        ("<x></x></x>", "</x>"),
    ],
)
def test_what_begins_and_ends_with_marks_is_left_out(text, left):
    assert without(text, {"<x>": "</x>", "<y>": "</y>"}) == left


def test_any_number_of_marks_without_an_end_stay():
    """In steps that grow with their number."""
    text = "</x>" + "<x>" * 300_000
    assert without(text, {"<x>": "</x>", "<y>": "</y>"}) == text
