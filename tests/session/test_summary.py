"""What a listing says of a session is a fold of its entries that can go on where it stopped."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.session import lifecycle, summary
from perdure.session.entry import Custom, Entry, SessionInfo, new
from perdure.session.stores import Header
from perdure.session.summary import LONGEST, Tally, one_line
from perdure.testing.builders import assistant_entry, tool_call_entry, tool_result_entry, user_entry
from tests.generated import NASTY, sessions

STAMP = "2026-01-31T09:05:00.123Z"
HEADER = Header("s1", STAMP, cwd="/home/me/code")
texts = st.one_of(st.text(st.characters(), max_size=60), st.sampled_from(NASTY))
notes = st.one_of(
    st.builds(SessionInfo, texts),
    st.builds(lambda status: Custom(lifecycle.KIND, {"status": status}), texts),
)


@st.composite
def noted_sessions(draw: st.DrawFn) -> list[Entry]:
    """With names and statuses in between."""
    made: list[Entry] = []
    for entry in draw(sessions()):
        made.append(entry)
        if draw(st.booleans()):
            id = f"n{len(made)}"
            made.append(new(draw(notes), id=id, parent_id=entry.id, timestamp=STAMP))
    return made


# --- the law ------------------------------------------------------------------------------------------------


@given(entries=noted_sessions(), cuts=st.lists(st.integers(0, 30)), covers=st.integers(0, 30), data=st.data())
def test_a_summary_is_the_same_however_its_entries_came(entries, cuts, covers, data):
    """All at once, one by one, or in any parts, some of them empty; whatever the header knows already."""
    facts = data.draw(st.dictionaries(st.sampled_from(["title", "status", "project_name"]), texts))
    header = HEADER._replace(facts=facts, covers=covers)
    at_once = summary.of(header, entries)
    edges = [0, *sorted(min(cut, len(entries)) for cut in cuts), len(entries)]
    for parts in (pairwise(edges), ((at, at + 1) for at in range(len(entries)))):
        tally = Tally()
        for start, end in parts:
            tally.add(entries[start:end])
        assert tally.summary(header) == at_once
        assert tally.entries == len(entries)


@given(entries=noted_sessions(), at=st.integers(0, 30))
def test_a_tally_can_be_kept_and_gone_on_with(entries, at):
    """As the catalog keeps it: as JSON, unless there is something in it that JSON cannot hold."""
    tally = Tally()
    tally.add(entries[:at])
    try:
        kept = msgspec.json.encode(tally)
    except UnicodeEncodeError:
        assert any(ord(character) in range(0xD800, 0xE000) for character in tally.status + tally.said_at)
        return
    tally = msgspec.json.decode(kept, type=Tally)
    tally.add(entries[at:])
    assert tally.summary(HEADER) == summary.of(HEADER, entries)


# --- what it says -------------------------------------------------------------------------------------------


def test_a_session_in_which_nothing_was_said():
    """It was made, and that is all."""
    said = summary.of(HEADER, [])
    assert (said.title, said.preview, said.messages, said.waits, said.problem) == ("", "", 0, False, None)
    assert (said.created, said.active, said.cwd, said.status) == (STAMP, STAMP, "/home/me/code", "")


def test_a_title_is_the_name_or_else_the_first_prompt():
    """The last name that was given; an empty one takes it away."""
    prompts = [assistant_entry("hi"), user_entry(" \n "), user_entry("first\n one"), user_entry("second")]
    assert summary.of(HEADER, prompts).title == "first one"
    names = [new(SessionInfo(name), id=name, timestamp=STAMP) for name in ("alfa", " brav ", "")]
    assert summary.of(HEADER, [names[0], *prompts]).title == "alfa"
    assert summary.of(HEADER, [*prompts, *names[:2]]).title == "brav"
    assert summary.of(HEADER, [*prompts, *names]).title == "first one"


@pytest.mark.parametrize(("covers", "title"), [(0, "later"), (1, "fact"), (2, "fact")])
def test_a_title_of_the_header_counts_unless_a_later_name_is_there(covers, title):
    """The header says how many entries it knows."""
    header = HEADER._replace(facts={"title": "fact"}, covers=covers)
    assert summary.of(header, [new(SessionInfo("later"), id="n1", timestamp=STAMP)]).title == title


@pytest.mark.parametrize(("covers", "status"), [(0, "paused"), (1, "completed")])
def test_a_status_of_the_header_counts_unless_a_later_one_is_recorded(covers, status):
    """As `lifecycle.recorded` has it."""
    header = HEADER._replace(facts={"status": "completed"}, covers=covers)
    entries = [new(lifecycle.body("paused"), id="n1", timestamp=STAMP)]
    assert summary.of(header, entries).status == lifecycle.recorded(header, entries) == status


def test_a_status_without_a_word_is_none():
    """It takes none away that was recorded before."""
    words = [new(lifecycle.body(word), id=f"n{word}", timestamp=STAMP) for word in ("paused", "")]
    assert summary.of(HEADER, words).status == lifecycle.recorded(HEADER, words) == "paused"


@given(
    entries=noted_sessions(), covers=st.integers(0, 30), status=st.sampled_from(["", "active", "completed"])
)
def test_the_status_is_the_recorded_one(entries, covers, status):
    """Of any session."""
    header = HEADER._replace(facts={"status": status} if status else {}, covers=covers)
    assert summary.of(header, entries).status == lifecycle.recorded(header, entries)


@pytest.mark.parametrize(
    ("entries", "waits"),
    [
        ([user_entry("do it")], True),
        ([user_entry("do it"), assistant_entry("done")], False),
        ([user_entry("do it"), tool_call_entry("bash", {})], True),
        ([tool_call_entry("bash", {}), tool_result_entry("x")], True),
        ([tool_call_entry("bash", {}), tool_result_entry("x"), assistant_entry("done")], False),
        ([], False),
    ],
)
def test_a_turn_that_did_not_end_waits(entries, waits):
    """A prompt, a call or a tool's answer is its last word; names and labels behind it are none."""
    assert summary.of(HEADER, entries).waits is waits
    named = [*entries, new(SessionInfo("a name"), id="n1", timestamp=STAMP)]
    assert summary.of(HEADER, named).waits is waits


def test_the_preview_is_the_last_thing_anybody_said():
    """Not what a tool said, and not nothing."""
    entries = [
        user_entry("ask"),
        assistant_entry("say\nthis"),
        tool_call_entry("bash", {}),
        tool_result_entry("x"),
    ]
    said = summary.of(HEADER, entries)
    assert (said.preview, said.messages) == ("say this", 4)
    assert said.active == entries[2].timestamp


@pytest.mark.parametrize(
    ("problems", "told"), [([], None), (["one"], "one"), (["one", "two", "three"], "one (and 2 more)")]
)
def test_the_first_problem_is_told_and_how_many_more_there_are(problems, told):
    """On one line, as all of it."""
    assert summary.of(HEADER, [], problems).problem == told


# --- one line -----------------------------------------------------------------------------------------------


@given(text=st.one_of(st.text(st.characters()), texts, st.text("\x1b[]0;31m\x07\\P_^X? \n\u202e\x9b")))
def test_one_line_is_safe_to_show(text):
    """No line break, no control character, nothing that turns the reading direction, no half a character."""
    line = one_line(text)
    assert len(line) <= LONGEST
    assert len(line.splitlines()) <= 1
    assert line == " ".join(line.split())
    assert not any(unicodedata.category(character) in ("Cc", "Cs") for character in line)
    assert not {*line} & {*"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"}
    line.encode()
    assert one_line(line) == line


@given(words=st.lists(st.text("abcé東🙂", min_size=1, max_size=9), max_size=10))
def test_one_line_says_what_was_said(words):
    """As long as it is not too long, and its beginning then."""
    text = " ".join(words)
    assert one_line("\n\t ".join(["", *words, ""])) == text
    long = "x" * (LONGEST - len(text)) + text
    assert one_line(long) == long
    assert one_line(long + "y") == long[:-1] + "…"


def test_of_a_huge_text_only_the_beginning_is_looked_at():
    """However little of that can be shown."""
    assert one_line("x" * 10**7) == "x" * (LONGEST - 1) + "…"
    assert one_line("\0" * 10**7 + "x") == ""
