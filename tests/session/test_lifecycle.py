"""Which status may follow which, in both programs that have them, and what a death nobody recorded does."""

import itertools
import os
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import UsageError
from perdure.session import tree
from perdure.session.entry import Custom, Entry, new
from perdure.session.lifecycle import AURORA, CORTEXT, Lifecycle, body, recorded, status_of
from perdure.session.session import Session
from perdure.session.stores import Header, Writer
from perdure.session.stores.memory import MemoryStore
from perdure.testing import user_entry
from perdure.testing.durable import holding, needs_fork
from tests.layouts import store_of

CORTEXT_ALLOWS = {
    ("active", "paused"),
    ("active", "completed"),
    ("paused", "active"),
    ("paused", "completed"),
}
AURORA_ALLOWS = {
    ("active", "completed"),
    ("active", "interrupted"),
    ("completed", "active"),
    ("interrupted", "active"),
    ("interrupted", "completed"),
}


def pairs(lifecycle: Lifecycle, allowed: set[tuple[str, str]]):
    return [
        pytest.param(lifecycle, before, after, (before, after) in allowed, id=f"{before} to {after}")
        for before, after in itertools.permutations(lifecycle.after, 2)
    ]


def statuses(session: Session) -> list[str]:
    """Those that entries record, in the order in which they do."""
    return [status for entry in session.entries if (status := status_of(entry))]


def session_that_was(status: str, *, words: int = 2) -> Session:
    """An open session of that status, whoever recorded it."""
    store = MemoryStore()
    session = Session.create(store, facts={"status": "active"})
    session.append(*(user_entry("word") for _ in range(words)))
    if status != "active":
        session.append(body(status))
    session.close()
    return Session.open(store, session.ref)


def shown(store, ref, lifecycle: Lifecycle) -> str:
    """What a listing says."""
    is_alive = store.holder(ref) is not None
    page = store.read(ref)
    return lifecycle.shown(recorded(page.header, page.entries), is_alive=is_alive)


# --- transitions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("table", "before", "after", "is_allowed"), pairs(CORTEXT, CORTEXT_ALLOWS))
def test_cor_15_the_documents_four_transitions_and_no_other(table, before, after, is_allowed):
    """Any other is refused, and nothing is recorded."""
    with session_that_was(before) as session:
        if is_allowed:
            table.change(session, after)
        else:
            with pytest.raises(UsageError, match=f"{before} cannot become {after}"):
                table.change(session, after)
        assert recorded(session.header, session.entries) == (after if is_allowed else before)


@pytest.mark.parametrize(("table", "before", "after", "is_allowed"), pairs(AURORA, AURORA_ALLOWS))
def test_aur_06_a_session_is_active_and_then_completed_or_interrupted(table, before, after, is_allowed):
    """Either becomes active again, and an interrupted one may be called completed."""
    with session_that_was(before) as session:
        if is_allowed:
            table.change(session, after)
        else:
            with pytest.raises(UsageError, match=f"{before} cannot become {after}"):
                table.change(session, after)
        assert recorded(session.header, session.entries) == (after if is_allowed else before)


def test_cor_15_a_refusal_names_what_is_allowed():
    """From where the session is; and which statuses there are, for one that is none."""
    with pytest.raises(UsageError) as refused:
        AURORA.check("completed", "interrupted")
    assert refused.value.hint == "after completed it can become active"
    with pytest.raises(UsageError) as refused:
        CORTEXT.check("completed", "paused")
    assert refused.value.hint == "completed is final"
    with pytest.raises(UsageError) as refused:
        CORTEXT.check("completed", "active")
    assert refused.value.hint == "it is completed, and becomes active again only if you insist"
    with pytest.raises(UsageError) as refused:
        CORTEXT.check("active", "interrupted")
    assert refused.value.hint == "it is one of active, paused, completed"
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("table", [AURORA, CORTEXT], ids=["aurora", "cortext"])
def test_a_status_again_is_no_change(table):
    """It is allowed, and records nothing."""
    for status in table.after:
        with session_that_was(status) as session:
            before = len(session.entries)
            table.change(session, status)
            assert len(session.entries) == before


def test_a_status_nobody_here_knows_may_become_any():
    """Another program's word does not lock a session up."""
    with session_that_was("archived") as session:
        assert AURORA.resume(session) == "archived"
        assert statuses(session) == ["archived", "active"]


# --- resuming ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", AURORA.after)
def test_aur_06_resuming_makes_a_session_active_from_any_status(before):
    """It returns what the session was: an active one that was opened had been interrupted."""
    with session_that_was(before) as session:
        assert AURORA.resume(session) == ("interrupted" if before == "active" else before)
        assert recorded(session.header, session.entries) == "active"


def test_aur_06_a_death_is_recorded_at_the_next_opening():
    """In one append with what follows it."""
    with session_that_was("active") as session:
        AURORA.resume(session)
        assert statuses(session) == ["interrupted", "active"]


def test_aur_06_a_new_session_is_active_without_a_word_of_it():
    """Its metadata says so, and nobody can have died in it."""
    with Session.create(MemoryStore(), facts={"status": "active"}) as session:
        assert AURORA.resume(session) == "active"
        assert session.entries == []


def test_cor_15_an_active_conversation_whose_owner_died_is_paused_first():
    """Then active: both are in the record."""
    with session_that_was("active") as session:
        assert CORTEXT.resume(session) == "paused"
        assert statuses(session) == ["paused", "active"]


def test_cor_15_a_completed_conversation_is_reopened_only_if_somebody_insists():
    """Who does not is told, and nothing is recorded."""
    with session_that_was("completed") as session:
        with pytest.raises(UsageError, match="completed cannot become active"):
            CORTEXT.resume(session)
        assert statuses(session) == ["completed"]
        assert CORTEXT.resume(session, insist=True) == "completed"
        assert statuses(session) == ["completed", "active"]


def test_cor_15_insisting_opens_nothing_but_what_is_completed():
    """No other rule bends."""
    with pytest.raises(UsageError):
        CORTEXT.check("completed", "paused", insist=True)
    CORTEXT.check("completed", "active", insist=True)


def test_a_paused_conversation_goes_on_without_being_opened_again():
    """As after a rest, in the same process: no death is made up."""
    with session_that_was("completed") as session:
        CORTEXT.resume(session, insist=True)
        CORTEXT.change(session, "paused")
        CORTEXT.change(session, "active")
        assert statuses(session) == ["completed", "active", "paused", "active"]


# --- what is recorded -------------------------------------------------------------------------------


@given(st.lists(st.sampled_from(["active", "completed", "interrupted", ""])), st.integers(0, 8))
def test_the_last_word_counts(said, covers):
    """Of the entries the header does not know yet; before the first of those, the header's own."""
    entries = [
        new(body(status), id=f"e{n}") if status else user_entry("word") for n, status in enumerate(said)
    ]
    header = Header("s1", "", facts={"status": "of the header"}, covers=covers)
    later = [status for status in said[covers:] if status]
    assert recorded(header, entries) == (later[-1] if later else "of the header")


@pytest.mark.parametrize(
    "entry",
    [
        user_entry("active"),
        new(Custom("perdure.status", {"status": 7})),
        new(Custom("perdure.status", "active")),
        new(Custom("perdure.status")),
        new(Custom("perdure.context", {"status": "active"})),
    ],
    ids=["a message", "a number", "no object", "nothing", "another kind"],
)
def test_what_only_looks_like_a_status_is_none(entry: Entry):
    """And so it changes nothing."""
    assert status_of(entry) == ""
    assert recorded(Header("s1", "", facts={"status": "paused"}), [entry]) == "paused"
    assert recorded(Header("s1", "", facts={"status": 3}), [entry]) == ""


def test_a_status_leaves_the_head_where_it_is():
    """The conversation goes on behind what was said last."""
    with session_that_was("active") as session:
        said = session.head
        AURORA.resume(session)
        AURORA.change(session, "completed")
        assert session.head == said
        session.append(user_entry("more"))
        assert [entry.text for entry in session.path() if entry.text] == ["word", "word", "more"]
        assert tree.leaves(session.entries)[-1].text == "more"


@pytest.mark.parametrize(
    ("status", "is_alive", "expected"),
    [
        ("active", True, "active"),
        ("active", False, "interrupted"),
        ("", True, "active"),
        ("", False, "interrupted"),
        ("completed", False, "completed"),
        ("completed", True, "completed"),
        ("interrupted", False, "interrupted"),
        ("archived", False, "archived"),
    ],
)
def test_aur_06_active_is_only_what_a_live_process_holds(status, is_alive, expected):
    """What a listing shows; any other status is as it was recorded."""
    assert AURORA.shown(status, is_alive=is_alive) == expected


def test_cor_15_a_conversation_that_rests_is_paused_though_its_process_lives():
    """A rest is recorded by a process that goes on waiting."""
    assert CORTEXT.shown("paused", is_alive=True) == "paused"
    assert CORTEXT.shown("active", is_alive=False) == "paused"


# --- a process that dies ----------------------------------------------------------------------------


@pytest.mark.process
@needs_fork
@pytest.mark.parametrize("layout", ["aurora", "pi"])
def test_aur_06_a_killed_process_is_found_out_at_reading_and_recorded_at_opening(tmp_path: Path, layout):
    """Looking writes nothing, neither while it lives nor afterwards."""
    store = store_of(layout, tmp_path)
    with Session.create(store, facts={"status": "active"}) as session:
        ref = session.ref

    def talk() -> Writer:
        session = Session.open(store_of(layout, tmp_path), ref)
        AURORA.resume(session)
        session.append(user_entry("hello"))
        assert session._writer is not None
        return session._writer

    with holding(talk) as pid:
        before = Path(ref.path).read_bytes()
        assert shown(store, ref, AURORA) == "active"
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert shown(store, ref, AURORA) == "interrupted"
        assert Path(ref.path).read_bytes() == before
    with Session.open(store, ref) as session:
        assert AURORA.resume(session) == "interrupted"
        assert statuses(session) == ["interrupted", "active"]
        assert shown(store, ref, AURORA) == "active"
        AURORA.change(session, "completed")
    assert shown(store, ref, AURORA) == "completed"
