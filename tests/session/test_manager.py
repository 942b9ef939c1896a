"""SessionManager beyond its scenarios: what it was given, what it finds, what it will not do."""

import errno
import os
import tempfile
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import PerdureError, SessionEntry, SessionManager
from perdure.errors import NotSaved, UsageError
from perdure.session import context
from perdure.session.entry import Custom, decode, placed
from perdure.session.session import Session
from perdure.session.stores import folders
from perdure.testing import assistant_entry, user_entry
from tests.generated import sessions


@pytest.fixture
def manager(tmp_path):
    return SessionManager(tmp_path, durability="process")


def texts(entries):
    return [entry.text for entry in entries]


@pytest.mark.parametrize(
    "entries", [None, 7, ["hi"], [{"role": "user"}], [SessionEntry("message")], [decode(b"{}"), b"x"]]
)
def test_what_is_not_entries_is_refused_in_a_sentence(manager, entries):
    """A usage error that names what was given; nothing is written."""
    id = manager.create_session()
    with pytest.raises(UsageError):
        manager.save(id, entries)
    assert manager.load_session(id) == []


@pytest.mark.parametrize("is_known", [False, True], ids=["new to the manager", "known to it"])
def test_what_is_saved_follows_a_reset_whose_parent_is_missing(manager, tmp_path, is_known):
    """As in a session that is opened: nothing of what was reset comes back."""
    id = manager.create_session()
    manager.save(id, [user_entry("before")])
    with manager.open_session(id) as session:
        (reset,) = session.append(Custom(context.RESET))
    path = Path(session.ref.path)
    parent = f'"parentId":"{reset.parent_id}"'
    path.write_text(path.read_text().replace(parent, '"parentId":"gone"'))
    writer = manager if is_known else SessionManager(tmp_path, durability="process")
    (after,) = writer.save(id, [user_entry("after")])
    assert after.parent_id == reset.id
    assert texts(writer.view_session(id).context().messages) == ["after"]


@given(sessions(), st.randoms(use_true_random=False))
def test_what_is_saved_follows_the_end_that_a_session_has(entries, random):
    """Also where parents are lost: a manager and a session find the same end."""
    with tempfile.TemporaryDirectory() as folder:
        manager = SessionManager(folder, durability="process")
        id = manager.create_session()
        session = manager.view_session(id)
        found = [entry for entry in entries if random.random() > 0.2]
        found += [placed(each, id=f"x{each.id}", parent_id="gone") for each in found[-1:]]
        with session.store.writer(session.ref) as writer:
            writer.append(found)
        tip = manager.view_session(id)._ends.tip
        (saved,) = manager.save(id, [user_entry("next")])
        assert saved.parent_id == tip


@pytest.mark.parametrize("id", [None, 7, b"abc"])
def test_an_id_is_a_string(manager, id):
    with pytest.raises(UsageError, match="A session id is a string"):
        manager.load_session(id)


def test_a_mistyped_durability_is_refused(tmp_path):
    """It must not quietly mean the weaker one."""
    with pytest.raises(UsageError, match="pwoer"):
        SessionManager(tmp_path, durability="pwoer")  # type: ignore[arg-type]


def test_children_follow_an_entry_that_had_to_be_renamed(manager):
    """A whole conversation whose ids are taken already stays one conversation."""
    id = manager.create_session()
    manager.save(id, [_entry("r1", None, "A1"), _entry("r2", "r1", "B1")])
    manager.save(id, [_entry("r1", None, "A2"), _entry("r2", "r1", "B2")])
    assert texts(manager.load_session(id)) == ["A1", "B1", "A2", "B2"]


def test_one_and_true_are_not_the_same_content(manager):
    id = manager.create_session()
    entry = user_entry("x")
    manager.save(id, [_with(entry, b"1")])
    manager.save(id, [_with(entry, b"true")])
    assert len(manager.load_session(id)) == 2
    manager.save(id, [_with(entry, b"1.0")])
    assert len(manager.load_session(id)) == 2


def test_an_entry_saved_again_after_a_failed_sync_moves_no_head(manager, tmp_path, monkeypatch):
    """It is written again, because finding it proves nothing; the talk since then stays in view."""
    durable = SessionManager(tmp_path)
    id = durable.create_session()
    first = user_entry("A")
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", _refuse)
        patch.setattr(os, "ftruncate", _refuse)
        with pytest.raises(NotSaved):
            durable.save(id, [first])
    SessionManager(tmp_path).save(id, [assistant_entry("B")])
    durable.save(id, [first])
    durable.save(id, [user_entry("C")])
    assert texts(durable.load_session(id)) == ["A", "B", "C"]
    assert durable.list_sessions()[0].message_count == 3


def test_a_session_whose_name_begins_with_anothers_is_not_deleted_with_it(manager, tmp_path):
    """What lies beside a session goes with it; another session does not, least of all one in use."""
    line = b'{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"hi"}}\n'
    for name in ("notes.jsonl", "notes.jsonl.old.jsonl", "notes.jsonl.v1"):
        (tmp_path / name).write_bytes(line)
    with Session.open(manager._store, manager._find("notes.jsonl.old")):
        manager.delete_session("notes")
    assert [summary.id for summary in manager.list_sessions()] == ["notes.jsonl.old"]
    assert sorted(os.listdir(tmp_path / "trash" / "notes")) == ["notes.jsonl", "notes.jsonl.v1", "trash.json"]


@pytest.mark.slow
def test_listing_makes_no_session_look_active(manager):
    """Asking who holds a lock takes it from nobody, and is seen by nobody."""
    ids = [manager.create_session() for _ in range(10)]
    stop = threading.Event()

    def keep_listing():
        while not stop.is_set():
            manager.list_sessions()

    others = [threading.Thread(target=keep_listing) for _ in range(3)]
    for thread in others:
        thread.start()
    try:
        for _ in range(20):
            assert {summary.status for summary in manager.list_sessions()} == {"idle"}
    finally:
        stop.set()
        for thread in others:
            thread.join()
    assert len(ids) == 10


def test_a_session_moves_to_a_trash_on_another_disk(manager, tmp_path, monkeypatch):
    """Where a rename cannot reach, it is copied, synced and only then removed."""
    id = manager.create_session()
    manager.save(id, [user_entry("far")])
    content = (tmp_path / os.path.basename(manager._find(id).path)).read_bytes()

    def across(*_, **__):
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(folders, "_rename", across)
    manager.delete_session(id)
    assert manager.list_sessions() == []
    (moved,) = (tmp_path / "trash" / id).glob("*.jsonl")
    assert moved.read_bytes() == content


def test_a_project_with_a_very_long_path_has_sessions_too(home):
    """Its folder's name is cut and told apart by a checksum."""
    from perdure.session.stores.pi_jsonl import PiStore

    for ending in ("one", "two"):
        store = PiStore(str(home), cwd="/" + "a" * 200 + "/" + "é" * 100 + ending)
        Session.create(store).close()
    assert len(list((home / "sessions").iterdir())) == 2


@pytest.mark.slow
def test_many_entries_of_one_id_cost_no_hours(manager, tmp_path):
    """A hostile file: each is kept under a name of its own, and a listing still comes back."""
    line = b'{"type":"message","id":"x","parentId":null,"message":{"role":"user","content":"%d"}}\n'
    (tmp_path / "twins.jsonl").write_bytes(b"".join(line % number for number in range(5000)))
    start = time.monotonic()
    (summary,) = manager.list_sessions()
    assert summary.message_count == 5000
    assert time.monotonic() - start < 60  # it was hours


def test_a_parent_that_is_nowhere_is_refused_with_what_to_do(manager):
    id = manager.create_session()
    with pytest.raises(PerdureError) as caught:
        manager.save(id, [_entry("b", "nowhere", "B")])
    assert "parent_id=None" in caught.value.hint


def _entry(id: str, parent: str | None, text: str) -> SessionEntry:
    return placed(user_entry(text), id=id, parent_id=parent)


def _with(entry: SessionEntry, value: bytes) -> SessionEntry:
    return decode(entry.raw[:-1] + b',"n":' + value + b"}")


def _refuse(*_):
    raise OSError(errno.EIO, "Input/output error")


def test_a_title_is_fit_to_be_shown(manager):
    """No escape sequence, no control character, nothing that turns the reading direction, on one line."""
    id = manager.create_session()
    manager.save(id, [user_entry("\x1b]0;own\x07 red\x9b31m \u202eevil\u2066\n two\ud800")])
    (summary,) = manager.list_sessions()
    assert summary.title == "red31m evil two?"


def test_a_summary_names_the_first_problem_and_counts_the_others(manager, tmp_path):
    id = manager.create_session()
    manager.save(id, [user_entry("x")])
    with open(manager._find(id).path, "ab") as file:
        file.write(b"bad\nworse\nworst\n")
    (summary,) = manager.list_sessions()
    assert summary.problem is not None
    assert "line 3: not a record (no object); left out (and 2 more)" in summary.problem


def test_a_delete_that_failed_leaves_no_trace(manager, tmp_path, monkeypatch):
    """The session is where it was, and the trash does not pretend otherwise."""
    id = manager.create_session()
    manager.save(id, [user_entry("x")])
    for call in ("write", "link"):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, lambda *_, **__: _refuse())
            with pytest.raises(NotSaved):
                manager.delete_session(id)
        assert texts(manager.load_session(id)) == ["x"]
        assert list((tmp_path / "trash").iterdir()) == []


@pytest.mark.parametrize("arguments", [{"wait": "long"}, {"wait": -1}, {"sessions_dir": "a\0b"}])
def test_wrong_settings_are_refused_at_once(arguments):
    with pytest.raises(UsageError):
        SessionManager(**arguments)


def test_a_session_is_opened_to_talk_in_and_to_look_at(manager):
    """The two ways to more than messages, by any beginning of the id."""
    id = manager.create_session()
    with manager.open_session(id[:6]) as session:
        (entry,) = session.append(user_entry("x"))
        assert manager.list_sessions()[0].status == "active"
        assert manager.view_session(id).path() == [entry]
    assert manager.view_session(id).path() == manager.load_session(id) == [entry]
