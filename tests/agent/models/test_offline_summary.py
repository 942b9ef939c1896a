"""Summaries without a model: the user's own words, in a bounded text, with what an earlier summary held."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from perdure.agent.models import OFFLINE, Model, Piece, Request, Sent
from perdure.agent.models.offline import Offline
from perdure.agent.models.offline.summary import SECTIONS, Said, is_request, last_request, requested, summary
from perdure.agent.transcript import render
from perdure.session.entry import Assistant, Text, User
from tests.agent.models.offline_talk import folder, said, talk
from tests.effort import FEW

OLD_FIRST_LINE = (
    "This is the built-in `offline` model: no language model, but a program that searches this folder with "
    "real tools and does not think. For a real one, `export ANTHROPIC_API_KEY=…` (or `OPENAI_API_KEY`, "
    "`GEMINI_API_KEY`, `OLLAMA_HOST`): `pi models` lists what there is, `-m` chooses."
)
TALK = """\
<conversation>
[User]: Make the parser faster. It must stay pure Python, and never touch the cache.

[Assistant thinking]: hm

[Assistant]: I will read it first.

[Assistant tool calls]: read({"path":"src/parser.py"}); bash({"command":"make test"})

[Tool result]: (failed) AssertionError: 3 != 4

[Assistant]: Let's keep the table, because it is small.

[Assistant tool calls]: edit({"path":"src/table.py","oldText":"a","newText":"b"})

[Tool result]: done

[Assistant]: The table is built once now.

[User]: Good. Now do the same for the writer.
</conversation>

Summarise the conversation above."""


def within(text, heading):
    return text.partition(f"{heading}\n")[2].partition("\n#")[0]


def test_a_summary_has_what_was_asked_done_decided_and_seen():
    """Each under its heading, in the words that were said."""
    text = requested(TALK)
    assert [text.index(f"## {name}\n") for name in SECTIONS] == sorted(
        text.index(f"## {name}\n") for name in SECTIONS
    )
    assert "Make the parser faster." in within(text, "## Goal")
    assert "never touch the cache" in within(text, "## Constraints & Preferences")
    assert "I will read it first." in within(text, "### Done")
    assert "Let's keep the table, because it is small." in within(text, "## Key Decisions")
    assert "Good. Now do the same for the writer." in within(text, "## Next Steps")
    context = within(text, "## Critical Context")
    assert "Changed: src/table.py" in context
    assert "Looked at: src/parser.py" in context
    assert "AssertionError: 3 != 4" in context


@pytest.mark.process
def test_nothing_that_this_program_says_of_itself_is_in_a_summary(tmp_path):
    """Of a conversation that was held with it, also with older versions, whose answers began with it: neither
    when it is condensed, nor when the user asks."""
    folder(tmp_path, {"a.py": "def one(): pass\n", "b.py": "# TODO: one\n"})
    messages: list[Sent] = []
    for asked in ("explain this code", "find TODO", "where is one defined", "run it", "hello"):
        messages = talk(tmp_path, asked, before=messages)
        old = messages[-1]
        messages[-1] = structs.replace(old, content=[Text(f"{OLD_FIRST_LINE}\n\n{old.text}")])
    recap = said(tmp_path, "summarise our conversation", before=messages)
    words = OLD_FIRST_LINE.split()
    for text in (requested(render(messages)), recap):
        assert "1 line in 1 file for the text `TODO`: `b.py`" in within(text, "### Done")
        assert "`one` is defined here: `a.py:1` `def one(): pass`" in within(text, "### Done")
        assert "(none)" in within(text, "## Key Decisions")
        assert [
            words[at : at + 3] for at in range(len(words) - 2) if " ".join(words[at : at + 3]) in text
        ] == []


def test_only_a_tool_that_failed_is_in_the_way():
    """Code that was read may speak of errors too."""
    code = "[User]: read it\n\n[Tool result]: class NotSaved(PerdureError):"
    assert "NotSaved" not in requested(f"<conversation>\n{code}\n</conversation>")
    failed = "[User]: read it\n\n[Tool result]: (failed) It is a folder"
    text = requested(f"<conversation>\n{failed}\n</conversation>")
    assert "- It is a folder" in within(text, "### Blocked")


def test_what_was_condensed_is_part_of_what_a_user_asks_for(tmp_path):
    """It stands before the rest, as what it is, and not as something the user said."""
    condensed = User(f"What they held:\n\n<summary>\n{requested(TALK)}\n</summary>")
    before = [condensed, User("Use four spaces, always."), Assistant([Text("It is done.")])]
    text = said(tmp_path, "summarise our conversation", before=before)
    assert within(text, "## Goal").startswith("- Make the parser faster.")
    assert "Changed: src/table.py" in within(text, "## Critical Context")
    assert "It is done." in within(text, "### Done")
    assert "What they held" not in text


def test_a_second_summary_keeps_what_the_first_one_kept():
    """Goal, constraints and decisions of both are there; the next step is the newer one."""
    first = requested(TALK)
    more = (
        "<conversation>\n[User]: Use four spaces, always.\n\n[Assistant]: It is done.\n</conversation>\n"
        f"<previous-summary>\n{first}\n</previous-summary>\n\nLook at this in particular: the indentation\n"
    )
    text = requested(more)
    assert "Make the parser faster." in within(text, "## Goal")
    assert "never touch the cache" in within(text, "## Constraints & Preferences")
    assert "Use four spaces, always." in within(text, "## Constraints & Preferences")
    assert "Let's keep the table" in within(text, "## Key Decisions")
    assert "Changed: src/table.py" in text
    assert "do the same for the writer" not in within(text, "## Next Steps")
    assert "the indentation" in within(text, "## Critical Context")


SPEAKERS = st.sampled_from(["User", "Assistant", "Assistant thinking", "Assistant tool calls", "Tool result"])
TALKS = st.lists(st.builds(Said, SPEAKERS, st.text(max_size=400)), max_size=30)


@FEW
@given(said=TALKS, previous=st.text() | TALKS.map(summary))
def test_a_summary_is_bounded_complete_and_the_same_again(said, previous):
    """For any conversation, and any earlier summary."""
    text = summary(said, previous)
    assert text == summary(said, previous)
    assert len(text) <= 9000
    assert all(f"## {name}" in text for name in SECTIONS)


@pytest.mark.slow
def test_a_long_conversation_is_summarised_in_six_kilobytes():
    """Also when it is summarised again and again."""
    rules = " ".join(f"Rule {n}: you must never do {n} without asking first." for n in range(60))
    said = [Said("User", f"{rules} {n}") for n in range(50)] + [Said("Tool result", "error: no " * 500)] * 20
    text = ""
    for _ in range(5):
        text = summary(said, text)
        assert len(text.encode()) <= 6_500


def answer(*messages):
    async def collected():
        model = Offline(Model(id=OFFLINE, provider=OFFLINE, api=OFFLINE))
        pieces = [piece async for piece in model.stream(Request(messages=messages))]
        return "".join(piece.text for piece in pieces if isinstance(piece, Piece))

    return asyncio.run(collected())


def test_a_conversation_without_tools_is_condensed_to_what_its_user_said(tmp_path):
    """There is nothing else in it."""
    text = requested(render(talk(tmp_path, "Is my plan any good?", ())))
    assert "Is my plan any good?" in within(text, "## Goal")
    assert "(none)" in within(text, "### Done")


def test_the_model_answers_such_a_request_with_the_summary_alone():
    """Whoever reads it takes it for the conversation."""
    assert answer(User(TALK)) == requested(TALK)


def test_a_user_may_ask_for_a_summary_too():
    """Of what was said before."""
    said = User("Count the sheep."), Assistant([Text("There are 3.")])
    text = answer(*said, User("summarise our conversation"))
    assert "Count the sheep." in within(text, "## Goal")
    assert "There are 3." in within(text, "### Done")


@pytest.mark.parametrize("mark", ["conversation", "previous-summary", "summary", "request", "read-files"])
def test_any_number_of_marks_without_an_end_are_words(mark):
    """In steps that grow with their number."""
    text = f"</{mark}>" + f"<{mark}>\n" * 50_000
    assert last_request(text) == ""
    assert is_request(text) is False
    assert requested(f"<conversation>\n[User]: {text}\n</conversation>\n{text}")


def test_a_heading_of_an_earlier_summary_may_be_of_any_length():
    kept = summary([], f"## Goal{' ' * 2**20}x\n- ship it")
    assert "ship it" in kept
