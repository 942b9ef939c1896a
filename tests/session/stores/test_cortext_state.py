"""session.json of Cortext's layout: what it says, what changes it, and how much of the log it knows."""

from datetime import UTC, datetime

import pytest

from perdure.session import lifecycle
from perdure.session.entry import Body, Custom, SessionInfo
from perdure.session.session import Session
from perdure.session.stores import Header
from perdure.testing import user_entry
from tests.cortext_files import check_complete, folder_of, golden, put, state_of, store_in

OURS, FOREIGN = golden("ours"), golden("foreign")
LOG, STATE = ".session/messages.jsonl", ".session/session.json"
HEADER = Header("2026-01-31/001-a-b", "2026-01-31T09:05:00.123Z")


def append(store, ref, *bodies):
    with Session.open(store, ref) as session:
        return session.append(*bodies)


def test_session_json_has_what_the_document_names_in_its_order_and_then_ours(tmp_path):
    """A member a line; facts nobody named are kept behind them, also those with a name of ours."""
    facts = {"conversation_type": "plan", "title": "Größe", "mood": [1.50], "log_bytes": "a fact", "cwd": 1}
    store = store_in(tmp_path)
    ref = store.create(HEADER._replace(facts=facts, parent_session="/old/file.jsonl"), [user_entry("x")])
    names = ["version", "conversation_id", "conversation_type", "title", "status", "created_at"]
    names += ["last_active", "message_count", "agent_config", "context_summary", "log_bytes"]
    state = state_of(ref)
    assert list(state) == [*names, "mood", "parent_session", "facts"]
    assert "Größe" in (folder_of(ref) / STATE).read_text(encoding="utf-8")
    header = store.read(ref).header
    assert header.facts.items() >= facts.items()
    assert header.parent_session == "/old/file.jsonl"


def test_nothing_in_session_json_names_the_workspace(tmp_path):
    """It is in git, and others have it elsewhere; read, it is where it is now."""
    store, ref = put(tmp_path / "here", OURS)
    with Session.open(store, ref) as session:
        fork = session.fork()
    assert str(tmp_path) not in (folder_of(fork) / STATE).read_text()
    (tmp_path / "here").rename(tmp_path / "there")
    store = store_in(tmp_path / "there")
    header = store.read(next(each for each in store.list() if each.id == fork.id)).header
    assert header.cwd == str(tmp_path / "there")
    assert header.parent_session == ref.path.replace("/here/", "/there/")


def test_entries_change_what_session_json_says(tmp_path):
    """The last word of each kind counts, and is there as soon as the append returns."""
    config = {"command": "/workspace.debug", "system_prompt_hash": "sha256:00", "model": "m", "tools": ["x"]}
    store, ref = put(tmp_path, OURS)
    bodies: list[Body] = [
        lifecycle.body("completed"),
        Custom("perdure.agent_config", {**config, "model": "old"}),
        Custom("perdure.agent_config", config),
        Custom("perdure.summary", {"summary": "Decided for REST."}),
        SessionInfo("  New title "),
        SessionInfo(""),
        Custom("perdure.status", {"status": 5}),
        Custom("someone.else", {"status": "lost"}),
    ]
    with Session.open(store, ref) as session:
        session.append(*bodies)
        state = state_of(ref)
    assert (state["status"], state["title"]) == ("completed", "New title")
    assert (state["agent_config"], state["context_summary"]) == (config, "Decided for REST.")
    facts = store.read(ref).header.facts
    assert facts == {name: state[name] for name in facts}


def test_what_another_program_puts_into_session_json_stays(tmp_path):
    """Also while a writer is open; numbers keep their digits."""
    store, ref = put(tmp_path, OURS)
    path = folder_of(ref) / STATE
    with Session.open(store, ref) as session:
        session.append(user_entry("one"))
        text = path.read_text().replace('"paused"', '"completed"').replace('"API Design"', '"Renamed"')
        path.write_text(
            text.replace('"version"', '"theirs": {"n": 0.10, "big": 18446744073709551617},\n"version"')
        )
        session.append(user_entry("two"))
    state = state_of(ref)
    assert (state["status"], state["title"], state["message_count"]) == ("completed", "Renamed", 4)
    assert '"n": 0.10,\n    "big": 18446744073709551617' in path.read_text()
    assert lifecycle.recorded(store.read(ref).header, store.read(ref).entries) == "completed"


@pytest.mark.parametrize("behind", ["all of it", "the status", "nothing"])
def test_entries_session_json_does_not_cover_are_newer(tmp_path, behind):
    """And those it covers are older than what it says, whatever they say."""
    status, other = OURS[LOG].splitlines(keepends=True)[2], OURS[STATE].replace(b'"paused"', b'"completed"')
    covered = {"all of it": 0, "the status": len(OURS[LOG]) - len(status), "nothing": len(OURS[LOG])}[behind]
    state = other.replace(b'"log_bytes": %d' % len(OURS[LOG]), b'"log_bytes": %d' % covered)
    state = state.replace(b'"message_count": 2', b'"message_count": 77')
    store, ref = put(tmp_path, {**OURS, STATE: state})
    page = store.read(ref)
    expected = "completed" if behind == "nothing" else "paused"
    assert lifecycle.recorded(page.header, page.entries) == page.header.facts["status"] == expected
    append(store, ref, user_entry("go on"))
    assert state_of(ref)["status"] == expected
    assert state_of(ref)["message_count"] == (78 if behind == "nothing" else 3)


def test_a_session_json_that_does_not_say_how_much_it_covers_covers_all(tmp_path):
    """Another program wrote it, beside the log; from the first save on it says so."""
    store, ref = put(tmp_path, {**OURS, STATE: FOREIGN[STATE].replace(b'"paused"', b'"completed"')})
    assert store.read(ref).header.facts["status"] == "completed"
    append(store, ref, user_entry("go on"))
    assert state_of(ref)["status"] == "completed"
    check_complete(ref)
    assert state_of(ref)["agent_config"]["temperature"] == 0.1


def test_a_status_written_twice_after_a_doubtful_save_is_not_overruled(tmp_path):
    """An entry that is in the log twice counts once for a tree, and so for what the header covers."""
    log = OURS[LOG] + OURS[LOG].splitlines(keepends=True)[0]
    store, ref = put(tmp_path, {**OURS, LOG: log})
    with Session.open(store, ref) as session:
        lifecycle.CORTEXT.resume(session)
        assert lifecycle.recorded(session.header, session.entries) == "active"
        lifecycle.CORTEXT.change(session, "completed")
        assert lifecycle.recorded(session.header, session.entries) == "completed"
    assert state_of(ref)["status"] == "completed"


def test_last_active_is_when_something_was_last_said_whatever_the_clock_did(tmp_path):
    """The latest moment, not the last line's; and nothing but a message counts."""
    lines = [
        b'{"role":"user","content":"a","timestamp":"2026-01-31T10:00:00+02:00"}',
        b'{"role":"user","content":"b","timestamp":"2026-01-31T09:30:00Z"}',
        b'{"role":"user","content":"c","timestamp":"2026-01-31T01:00:00Z"}',
        b'{"role":"user","content":"d","timestamp":"no time at all"}',
    ]
    store, ref = put(tmp_path, {LOG: b"".join(line + b"\n" for line in lines)})
    with Session.open(store, ref, clock=lambda: datetime(2027, 1, 1, tzinfo=UTC)) as session:
        session.append(lifecycle.body("paused"))
    assert state_of(ref)["last_active"] == "2026-01-31T09:30:00Z"
    assert state_of(ref)["message_count"] == 4
