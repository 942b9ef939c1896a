"""A session's row has the columns there are, and shows nothing that a terminal would obey."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth

from perdure.front.finder import Offer
from perdure.front.picker_lines import Said, about, is_broken, line, trouble
from perdure.front.visible import visible
from perdure.session.catalog import Row
from perdure.session.query import MARK, UNMARK

HOSTILE = (
    "\x1b[31mred\x1b]0;owned\x07 \u202egnp\u200b\r\n\t漢字 e\u0301 👨\u200d👩\u200d👧 🇩🇪 \x9b2J \ud800 தமிழ்"
)
texts = st.text() | st.lists(st.sampled_from(HOSTILE)).map("".join) | st.just(HOSTILE)
columns = st.integers(0, 250)


def row(**about) -> Row:
    known = {
        "program": "pi",
        "id": "3f9a0c17b2de",
        "path": "/home/me/s.jsonl",
        "title": "Fix token refresh race",
        "preview": "",
        "title_is_cut": False,
        "preview_is_cut": False,
        "summary_is_cut": False,
        "messages": 48,
        "turns": 0,
        "kind": "",
        "summary": "",
        "created": 0,
        "active": int((time.time() - 2 * 3600 - 60) * 1000),
        "recorded": "",
        "waits": False,
        "cwd": "/home/me/api-server",
        "project": "",
        "root": "",
        "size": 1,
        "problem": None,
        "lock": "/home/me/s.lock",
        "key": 1,
    }
    return Row(**known | about)


rows = st.builds(
    row,
    program=texts,
    id=texts,
    title=texts,
    cwd=texts,
    project=texts,
    problem=st.none() | texts,
    lock=st.sampled_from(["", "/lock"]),
    messages=st.integers(0, 10**9),
    active=st.integers(0, 2**43 - 1),
)


def text_of(fragments) -> str:
    return "".join(text for _, text in fragments)


@given(rows, texts, columns, st.booleans())
def test_a_row_has_exactly_the_columns_there_are(each, status, columns, has_project):
    """As the terminal's library counts them, from where there is space for a title and an age."""
    shown = text_of(line(each, status, columns, has_project=has_project))
    assert get_cwidth(shown) == max(columns, len("  59 min"))
    assert visible(shown) == shown


@given(rows, texts, st.lists(st.builds(Said, texts, texts)), texts, st.integers(2, 100), st.integers(1, 40))
def test_what_a_session_is_about_fits_beside_it(each, status, exchange, snippet, columns, lines):
    """Whatever is in it."""
    offer = Offer(each, "user", f"{snippet}{MARK}{snippet}{UNMARK}{snippet}")
    for shown in about(offer, status, exchange, columns, lines):
        assert get_cwidth(text_of(shown)) <= columns
        assert visible(text_of(shown)) == text_of(shown)


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (
            90,
            "pi       Fix token refresh race                        api-server           2 h     48 msg",
        ),
        (78, "pi       Fix token refresh race            api-server           2 h     48 msg"),
        (60, "pi       Fix token refresh race             2 h     48 msg"),
        (44, "pi       Fix token refresh race            2 h"),
        (30, "Fix token refresh race     2 h"),
    ],
)
def test_a_row_has_what_there_is_space_for(columns, shown):
    """The title gives way, and in a narrow terminal whatever is missed least."""
    assert text_of(line(row(), "idle", columns, has_project=True)).split() == shown.split()


def test_the_project_is_not_said_where_it_is_the_same_for_all():
    """The title has its space."""
    shown = text_of(line(row(), "idle", 90, has_project=False))
    assert "api-server" not in shown


@pytest.mark.parametrize(
    ("status", "mark"),
    [("idle", ""), ("completed", ""), ("active", "(active)"), ("interrupted", "(interrupted)")],
)
def test_a_status_is_said_where_it_is_worth_it(status, mark):
    """Also behind a title that is too long."""
    shown = text_of(line(row(title="a long title " * 20), status, 78, has_project=True))
    assert f"…{' ' + mark if mark else ''}  api-server" in shown


def test_a_broken_session_says_what_is_wrong_and_what_to_do():
    """In its row, and in more words beside it."""
    broken = row(title="", problem="cannot be read: Permission denied", lock="")
    assert is_broken(broken)
    assert not is_broken(row())
    assert "! cannot be read: Permission denied" in text_of(line(broken, "unreadable", 90, has_project=True))
    assert trouble(broken) == (
        "cannot be read: Permission denied; `pi sessions doctor pi:3f9a0c17b2de` says more"
    )
    beside = " ".join(text_of(shown).strip() for shown in about(Offer(broken), "unreadable", [], 40, 20))
    assert trouble(broken) in beside


def test_what_matches_is_marked_and_the_last_words_follow():
    """The user's take no more than their part of the space."""
    offer = Offer(row(), "assistant", f"the {MARK}race{UNMARK} is in refresh()")
    exchange = [Said("user", "why? " * 200), Said("assistant", "two\nlines")]
    lines = [*about(offer, "idle", exchange, 40, 8)]
    assert ("bold ansired", "race") in lines[2]
    shown = [text_of(each).rstrip() for each in lines]
    assert shown[:3] == [
        "Fix token refresh race",
        "pi:3f9a0c17b2de · /home/me/api-server ·…",
        "assistant: the race is in refresh()",
    ]
    assert [each[:5] for each in shown[3:]] == ["user:", "why? ", "assis", "lines"]
