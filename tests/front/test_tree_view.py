"""`/tree`: what is drawn, what the keys choose, and that looking changes nothing."""

import asyncio
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import NotSaved, PerdureError
from perdure.front.tree_view import Fork, Move, _Tree
from perdure.session import tree
from perdure.session.entry import Entry, placed
from perdure.session.session import Session
from perdure.testing import assistant_entry, tool_call_entry, tool_result_entry, user_entry
from perdure.testing.corpus import record
from perdure.testing.writing import child, turns
from tests.front.test_render import kept
from tests.front.test_show import chained, left_and_here
from tests.front.tree_screen import (
    CTRL_C,
    CTRL_U,
    DOWN,
    END,
    ENTER,
    ESC,
    HOME,
    LEFT,
    PAGE_DOWN,
    PAGE_UP,
    RIGHT,
    UP,
    Screen,
    at_tree,
)
from tests.generated import sessions
from tests.layouts import store_of

PASTED = "\x1b[200~{}\x1b[201~"


def session_of(folder: Path | str, entries: list[Entry]) -> Session:
    return kept(store_of("pi", folder), entries)


@pytest.fixture
def talked(tmp_path) -> Session:
    return session_of(tmp_path, left_and_here())


def called() -> list[Entry]:
    """Two calls and their results, and an answer."""
    calls = [{"type": "toolCall", "id": id, "name": "read", "arguments": {"path": f"{id}.py"}} for id in "ab"]
    return chained(
        user_entry("compare them"),
        Entry.message("assistant", [{"type": "text", "text": "I look."}, *calls]),
        tool_result_entry("first", call_id="a"),
        tool_result_entry("second", call_id="b"),
        assistant_entry("They differ."),
    )


# --- what is drawn ------------------------------------------------------------------------------------


def test_the_branches_are_drawn_with_who_said_what_and_where_one_is(tmp_path):
    """Tools are counted, a branch that was left says when, and the marks are at the edge."""
    two_hours = datetime.now(UTC) - timedelta(hours=2, minutes=1)
    calls = [{"type": "toolCall", "id": id, "name": "read", "arguments": {}} for id in "abc"]
    ask, look, regex, tokenizer = chained(
        user_entry("fix the parser"),
        Entry.message("assistant", [{"type": "text", "text": "I'll look at it\nnow"}, *calls]),
        placed(user_entry("use a regex"), timestamp=two_hours.isoformat()),
        user_entry("write a real tokenizer"),
    )
    tokenizer = child(tokenizer, look)

    async def look_at(screen: Screen) -> None:
        assert screen.lines[:5] == [
            "user       fix the parser",
            f"assistant  {'I`ll look at it …'.replace('`', chr(39)):60}[3 tools]",
            f"├─ user       {'use a regex':52}(left 2 h ago)",
            f"└─ user       {'write a real tokenizer':60}● here",
            "",
        ]
        assert screen.chosen == screen.lines[3]

    assert at_tree(session_of(tmp_path, [ask, look, regex, tokenizer]), look_at, ESC) is None


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (119, 24), (120, 24), (200, 60), (80, 10)], ids=str)
def test_what_is_highlighted_is_previewed_where_there_is_space(columns, rows, tmp_path):
    """Beside the branches or below them; with what tools answered. And the keys are always named."""

    async def look_at(screen: Screen) -> None:
        await screen.has_chosen("I look.")
        shown = screen.text
        assert ("│" in shown) == (columns >= 120)
        assert ("───" in shown) == (columns < 120 and rows >= 14)
        assert ("▸ read  a.py" in shown) == ("  first" in shown) == (rows >= 14)
        assert screen.lines[-1].startswith("Enter go there · l label · f fork · / search")
        assert screen.lines[-1].endswith("2 of 3")

    session = session_of(tmp_path, called())
    assert at_tree(session, UP, look_at, "q", columns=columns, rows=rows) is None


def test_a_session_in_which_nothing_was_said_says_so(tmp_path):
    """And no key fails there."""

    async def look_at(screen: Screen) -> None:
        assert screen.lines[0] == "Nothing was said yet."

    keys = "".join((UP, DOWN, LEFT, RIGHT, HOME, END, PAGE_UP, PAGE_DOWN, "l", "f", "n", "N", ENTER))
    assert at_tree(session_of(tmp_path, []), look_at, keys, "/x", ENTER, "q") is None


@pytest.mark.slow
def test_without_colours_none_reaches_the_terminal(talked):
    """What is highlighted is seen all the same."""

    async def plain(screen: Screen) -> None:
        assert screen.colours == set()
        assert "tokenizer" in screen.chosen

    async def coloured(screen: Screen) -> None:
        assert {"cyan", "green"} <= screen.colours

    at_tree(talked, plain, ESC, has_colour=False)
    at_tree(talked, coloured, ESC)


# --- what is chosen -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_to_choose_where_one_is_is_to_leave(talked):
    """The cursor starts there. Enter, Esc, q and Ctrl+C then say the same."""
    for key in (ENTER, "\n", ESC, "q", CTRL_C):
        assert at_tree(talked, key) is None


def test_a_terminal_that_goes_away_is_left(talked):
    """Without an error that nobody could read."""

    async def hang_up(screen: Screen) -> None:
        screen.hang_up()

    assert at_tree(talked, UP, hang_up) is None


@pytest.mark.slow
def test_a_users_message_is_chosen_to_be_said_differently(talked):
    """One goes before it, and gets its words back."""
    ask, _, _, answer, regex, *_ = talked.entries
    assert at_tree(talked, UP, ENTER) == Move(answer.id, "use a regex")
    assert at_tree(talked, UP, "f") == Fork(answer.id, "use a regex")
    assert at_tree(talked, HOME, ENTER) == Move(None, "fix the parser")
    assert at_tree(talked, HOME, "f") == Fork(None, "fix the parser")
    assert at_tree(talked, "f") == Fork(answer.id, "write a real tokenizer")
    talked.move(answer.id)  # also where one is before it already
    assert at_tree(talked, DOWN, ENTER) == Move(regex.parent_id, "use a regex")
    assert ask.text == "fix the parser"


def test_behind_anything_else_one_goes_on(talked):
    """And a fork ends there."""
    answer = talked.entries[3]
    assert at_tree(talked, UP, UP, ENTER) == Move(answer.id)
    assert at_tree(talked, UP, UP, "f") == Fork(answer.id)


@pytest.mark.slow
def test_behind_a_call_one_goes_on_behind_its_results(tmp_path):
    """A call without them counts as interrupted; which it is where only one of several branches has them."""
    entries = called()
    _, call, first, second, _ = entries
    session = session_of(tmp_path / "line", entries)
    assert at_tree(session, UP, ENTER) == Move(second.id)
    assert at_tree(session, UP, "f") == Fork(second.id)
    session.move(second.id)
    assert at_tree(session, UP, ENTER) is None
    parted = session_of(tmp_path / "parted", [*entries, child(user_entry("wait"), call)])
    assert at_tree(parted, HOME, DOWN, ENTER) == Move(call.id)
    between = session_of(tmp_path / "between", [*entries, child(user_entry("wait"), first)])
    assert at_tree(between, HOME, DOWN, ENTER) == Move(first.id)


def test_what_was_noted_between_messages_is_in_nobodys_way(tmp_path):
    """One goes on behind it, as the message did; and is there where it hangs."""
    ask, answer, name, again = chained(
        user_entry("one"), assistant_entry("two"), record("session_info", b',"name":"x"'), user_entry("three")
    )
    session = session_of(tmp_path, [ask, answer, name, again, child(user_entry("four"), again)])
    assert at_tree(session, UP, ENTER) == Move(name.id, "three")
    session.move(name.id)

    async def look_at(screen: Screen) -> None:
        assert screen.chosen.startswith("assistant  two")
        assert screen.chosen.endswith("● here")

    assert at_tree(session, look_at, ENTER) is None


@given(entries=sessions(), data=st.data())
def test_whatever_is_chosen_the_session_can_go_there_and_is_there_then(entries, data):
    """Any row of any session, from anywhere; and only for a user's words does one go before them."""
    with tempfile.TemporaryDirectory() as folder:
        session = session_of(folder, entries)
        session.move(data.draw(st.sampled_from([None, *(entry.id for entry in session.entries)])))
        shown = _Tree(session)
        for at, place in enumerate(shown.places):
            entry, fork = place.entry, shown.fork(at)
            assert shown.move(at) in (None, Move(*fork))
            if entry.role == "user":
                assert fork == Fork(entry.parent_id, entry.text)
            else:
                assert entry in tree.path(session.entries, fork.entry_id)
        if shown.places:
            at = data.draw(st.integers(0, len(shown.places) - 1))
            chosen, fork = shown.places[at].entry, shown.fork(at)
            session.move(fork.entry_id)
            moved = _Tree(session)  # it may have another row: a tool's answer has one while it is the head
            (at,) = (row for row, place in enumerate(moved.places) if place.entry == chosen)
            assert moved.move(at) == (Move(*fork) if fork.text else None)


def test_looking_writes_nothing(talked):
    """Neither moving about, nor searching, nor choosing; nor a label that is not kept."""
    path = Path(talked.ref.path)
    before = path.read_bytes()
    at_tree(talked, HOME, END, LEFT, "/regex", ENTER, "n", "l", "mine", ESC, ENTER)
    at_tree(talked, UP, "f")
    assert path.read_bytes() == before


# --- getting about ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_keys_go_by_lines_pages_and_branches(tmp_path):
    """And never beyond the first or the last one."""
    trunk = turns(40)
    left = turns(30, after=trunk[19], word="left")
    session = session_of(tmp_path, [*trunk, *left])

    def lands_on(text: str):
        async def look_at(screen: Screen) -> None:
            await screen.has_chosen(f" {text}")

        return look_at

    walk = [
        *("", "left 29", UP, "left 28", "k", "left 27", DOWN, "left 28", "jjj", "left 29"),
        *(HOME, "turn 0", UP, "turn 0", RIGHT, "turn 19", RIGHT, "turn 39", RIGHT, "left 29"),
        *(RIGHT, "left 29", LEFT, "turn 39", LEFT, "turn 19", LEFT, "turn 0", LEFT, "turn 0"),
        *(END, "left 29", PAGE_UP, "left 13", PAGE_DOWN, "left 29", HOME, "turn 0", PAGE_DOWN, "turn 16"),
    ]
    steps = [lands_on(step) if at % 2 else step for at, step in enumerate(walk)]
    assert at_tree(session, *steps, "q", rows=24) is None


@pytest.mark.slow
def test_a_search_goes_to_what_was_said_while_it_is_typed(tmp_path):
    """In any part of a text, without regard to case, also in calls and labels; n and N go on, and around."""
    entries = chained(
        user_entry("alpha\nthe Zebra"),
        assistant_entry("beta zeal"),
        tool_call_entry("bash", {"command": "grep zebra"}),
        tool_result_entry("ok"),
        user_entry("gamma"),
    )
    label = record("label", b',"targetId":"%b","label":"zebra crossing"' % entries[1].id.encode())
    session = session_of(tmp_path, [*entries, child(label, entries[-1])])

    async def search(screen: Screen) -> None:
        await screen.has_chosen("gamma")
        for keys, text in (("/ze", "alpha"), ("al", "beta"), ("\x7f\x7fbra c", "beta"), ("zz", "gamma")):
            screen.press(keys)
            await screen.has_chosen(text)
        await screen.shows("not found")
        screen.press(CTRL_U + "zebra")
        await screen.has_chosen("alpha")
        screen.press(ENTER)
        await screen.shows("Esc leave")
        for key, text in (("n", "beta"), ("n", "grep"), ("n", "alpha"), ("N", "grep"), ("N", "beta")):
            screen.press(key)
            await screen.has_chosen(text)

    assert at_tree(session, search, ENTER) == Move(entries[1].id)


@pytest.mark.slow
def test_a_search_that_is_given_up_leads_back(talked):
    """Esc ends it, and another one leaves."""

    async def search(screen: Screen) -> None:
        screen.press("/fix")
        await screen.has_chosen("fix the parser")
        screen.press(ESC)
        await screen.has_chosen("tokenizer")
        await screen.shows("Esc leave")

    assert at_tree(talked, search, "nN", search, ENTER) is None


# --- labels -------------------------------------------------------------------------------------------


@pytest.fixture
def labelling(tmp_path):
    """A session that is open, and what labels an entry of it."""
    store = store_of("pi", tmp_path)
    with Session.open(store, kept(store, left_and_here()).ref) as session:

        async def label(entry_id: str, text: str) -> None:
            await asyncio.to_thread(session.label, entry_id, text or None)

        yield session, label


@pytest.mark.slow
def test_a_label_is_kept_and_drawn_and_taken_away(labelling):
    """It begins with the one there is, and the place of the conversation stays."""
    session, label = labelling
    ask, head = session.entries[0].id, session.head

    async def change(screen: Screen) -> None:
        screen.press(HOME + "l")
        await screen.shows("Label: start")
        screen.press("ing point" + ENTER)
        await screen.shows("“starting point”")
        assert session.labels == {ask: "starting point"}
        screen.press("l" + CTRL_U + ENTER)
        await screen.until(lambda: "“" not in screen.text)
        assert session.labels == {}
        screen.press(DOWN + "l  the call " + ENTER)
        await screen.shows("“the call”")

    assert at_tree(session, change, END, ENTER, label=label) is None
    assert session.labels == {session.entries[1].id: "the call"}
    assert session.head == head


def test_a_label_that_stays_as_it_is_is_not_written(talked):
    """Nor one that is cancelled. Keys that mean something elsewhere are letters there."""

    async def look_at(screen: Screen) -> None:
        screen.press("lfjkq/n")
        await screen.shows("Label: startfjkq/n")
        screen.press(ESC)
        await screen.shows("Esc leave")

    assert at_tree(talked, HOME, "l", ENTER, "l", " ", ENTER, look_at, ENTER) == Move(None, "fix the parser")


def test_a_label_that_cannot_be_kept_is_said_and_changes_nothing(talked):
    """In the line at the foot, until the next key; and one does not leave over it."""

    async def full(entry_id: str, text: str) -> None:
        raise NotSaved("/x/\x1b[2Jy", "the disk is full")

    async def look_at(screen: Screen) -> None:
        await screen.shows("Not saved: /x/\\x1b[2Jy: the disk is full")
        assert "“start”" in screen.text
        screen.press(DOWN)
        await screen.shows("Esc leave")

    async def searching(screen: Screen) -> None:
        screen.press("ling" + ENTER + "/fix")
        await screen.shows("Not saved: /x/")
        assert "/fix" in screen.lines[-1]

    keys = HOME + "l" + "ing" + ENTER + "q"
    chosen = at_tree(talked, keys, look_at, searching, ENTER, ENTER, label=full)
    assert chosen == Move(None, "fix the parser")


def test_who_leaves_while_a_label_is_saved_leaves_when_it_is(talked):
    """With what they chose meanwhile."""
    kept = []

    async def slowly(entry_id: str, text: str) -> None:
        await asyncio.sleep(0.05)
        kept.append((entry_id, text))

    chosen = at_tree(talked, "l" + "mine" + ENTER + HOME + ENTER, label=slowly)
    assert chosen == Move(None, "fix the parser")
    assert kept == [(talked.head, "mine")]


def test_a_defect_of_whoever_labels_is_not_hidden(talked):
    """It reaches whoever asked, and the terminal is theirs again."""

    async def broken(entry_id: str, text: str) -> None:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as raised:
        at_tree(talked, "l" + "mine" + ENTER, label=broken)
    assert raised.group_contains(ZeroDivisionError)
    assert not raised.group_contains(PerdureError)
