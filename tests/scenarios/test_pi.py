"""pi, from outside: the scenarios PI-01 to PI-04, through the public names alone."""

import json
import os
import re
import threading

import pytest

from perdure import PerdureError, SessionEntry, SessionManager
from perdure.testing import assistant_entry, tool_call_entry, tool_result_entry, user_entry
from tests.moments import next_moment


@pytest.fixture
def manager(tmp_path):
    return SessionManager(tmp_path / "store")


def files(folder):
    return sorted(folder.rglob("*.jsonl"))


def texts(entries):
    return [entry.text for entry in entries]


def test_pi_01_a_new_session_is_an_empty_file_with_a_12_digit_id(manager, tmp_path):
    """`create_session` returns 12 hex digits, and an empty JSONL file of that id is in the directory."""
    made = {manager.create_session() for _ in range(20)}
    assert len(made) == 20
    assert all(re.fullmatch("[0-9a-f]{12}", id) for id in made)
    assert {path.stem.split("_")[1] for path in files(tmp_path / "store")} == made
    assert {path.stat().st_size for path in files(tmp_path / "store")} == {0}


def test_pi_01_without_a_directory_it_stands_in_pis_own_home(home, monkeypatch, tmp_path):
    """The default is pi's layout: a folder for the project, named by its path."""
    project = tmp_path / "my project"
    project.mkdir()
    monkeypatch.chdir(project)
    id = SessionManager().create_session()
    (path,) = files(home / ".pi" / "agent" / "sessions")
    assert path.parent.name == "--" + str(project)[1:].replace("/", "-") + "--"
    assert path.name.endswith(f"_{id}.jsonl")


def test_pi_01_the_header_comes_with_the_first_entry(manager, tmp_path):
    """Until then the file is empty and the session is new, not broken; then line 1 is a version 3 header."""
    id = manager.create_session()
    (summary,) = manager.list_sessions()
    assert (summary.id, summary.message_count, summary.title, summary.problem) == (id, 0, "", None)
    assert manager.load_session(id) == []
    manager.save(id, [user_entry("hello")])
    (path,) = files(tmp_path / "store")
    header, entry = map(json.loads, path.read_text().splitlines())
    assert (header["type"], header["version"], header["id"], header["cwd"]) == ("session", 3, id, os.getcwd())
    assert entry["message"]["content"] == "hello"


def test_pi_02_a_loaded_session_has_messages_calls_and_results_in_order(manager):
    """What was said, what a tool was asked and what it answered, as entries with role and text."""
    id = manager.create_session()
    manager.save(
        id,
        [
            user_entry("list the files"),
            tool_call_entry("bash", {"command": "ls"}, call_id="c1"),
            tool_result_entry("README.md", call_id="c1"),
            assistant_entry("There is one."),
        ],
    )
    loaded = SessionManager(manager_folder(manager)).load_session(id)
    assert all(isinstance(entry, SessionEntry) for entry in loaded)
    assert [entry.role for entry in loaded] == ["user", "assistant", "toolResult", "assistant"]
    assert texts(loaded) == ["list the files", "", "README.md", "There is one."]
    assert {entry.type for entry in loaded} == {"message"}
    assert [entry.parent_id for entry in loaded] == [None, *(entry.id for entry in loaded[:-1])]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]{12}Z", entry.timestamp) for entry in loaded)
    assert json.loads(loaded[1].raw)["message"]["content"][0]["arguments"] == {"command": "ls"}


def test_pi_03_sessions_are_listed_newest_first(manager):
    """By what was last said, with title, time and count; a name goes before the first words."""
    old, new, empty = (manager.create_session() for _ in range(3))
    next_moment()
    manager.save(old, [user_entry("the\n first   question"), assistant_entry("answer")])
    next_moment()
    manager.save(new, [user_entry("second")])
    next_moment()
    manager.save(old, [user_entry("again")])
    listed = manager.list_sessions()
    assert [summary.id for summary in listed] == [old, new, empty]
    first = listed[0]
    assert (first.title, first.message_count, first.problem) == ("the first question", 3, None)
    assert first.timestamp == manager.load_session(old)[-1].timestamp
    assert [summary.status for summary in listed] == ["interrupted", "interrupted", "idle"]
    manager.save(old, [assistant_entry("done")])
    assert manager.list_sessions()[0].status == "idle"


def test_pi_04_save_returns_when_it_is_durable(manager, monkeypatch):
    """The bytes are synced to the disk before save returns, once a call."""
    synced = []
    real = os.fdatasync

    def watched(descriptor):
        synced.append(os.fstat(descriptor).st_size)
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", watched)
    id = manager.create_session()
    manager.save(id, [user_entry("one"), assistant_entry("two")])
    (path,) = files(manager_folder(manager))
    assert synced[-1] == path.stat().st_size
    before = len(synced)
    manager.save(id, [user_entry("three"), assistant_entry("four")])
    assert len(synced) == before + 1


def test_pi_04_save_appends_only_what_is_not_there(manager):
    """Saving the whole conversation again, as many programs do, adds what is new and nothing twice."""
    id = manager.create_session()
    conversation = [user_entry("one"), assistant_entry("two")]
    manager.save(id, conversation)
    manager.save(id, conversation)
    manager.save(id, [*manager.load_session(id), user_entry("three")])
    SessionManager(manager_folder(manager)).save(id, [*conversation, user_entry("four")])
    assert texts(manager.load_session(id)) == ["one", "two", "three", "four"]


def test_pi_04_two_that_save_their_whole_conversation_hide_nothing_of_each_other(manager):
    """Both know the same beginning; what each adds follows what is there when it is saved."""
    id = manager.create_session()
    other = SessionManager(manager_folder(manager))
    beginning = manager.save(id, [user_entry("q1"), assistant_entry("a1")])
    other.save(id, [*beginning, user_entry("from B"), assistant_entry("to B")])
    manager.save(id, [*beginning, user_entry("from A")])
    assert texts(manager.load_session(id)) == ["q1", "a1", "from B", "to B", "from A"]


def test_pi_04_the_same_id_with_other_content_gets_a_new_id(manager):
    """Two entries never share an id, and neither is lost."""
    id = manager.create_session()
    one = user_entry("one")
    (first,) = manager.save(id, [one])
    forged = SessionEntry(one.type, one.id, None, one.timestamp, one.raw.replace(b'"one"', b'"two"'))
    (second,) = manager.save(id, [forged])
    assert (first.id, second.id != first.id) == (one.id, True)
    assert texts(manager.load_session(id)) == ["one", "two"]


def test_pi_04_entries_without_a_parent_follow_each_other(manager):
    """Across calls and across managers: a save goes on where the last one, anybody's, ended."""
    folder = manager_folder(manager)
    id = manager.create_session()
    for number in range(6):
        SessionManager(folder).save(id, [user_entry(str(number))]) if number % 2 else manager.save(
            id, [user_entry(str(number))]
        )
    assert texts(manager.load_session(id)) == list("012345")


def test_pi_04_an_entry_with_a_parent_that_is_nowhere_is_refused(manager):
    """A clear error, and the session is as it was: also not the good entries of the same call."""
    id = manager.create_session()
    manager.save(id, [user_entry("one")])
    entry = user_entry("two")
    orphan = SessionEntry(entry.type, entry.id, "nowhere", entry.timestamp, entry.raw)
    with pytest.raises(PerdureError, match="Parent entry not found: nowhere"):
        manager.save(id, [user_entry("good"), orphan])
    assert texts(manager.load_session(id)) == ["one"]


def test_pi_04_threads_may_save_through_one_manager(manager):
    """Each waits its turn; nothing is lost and every entry is there once."""
    id = manager.create_session()
    errors = []

    def work(name):
        try:
            for number in range(20):
                manager.save(id, [user_entry(f"{name}-{number}")])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    saved = texts(manager.load_session(id))
    assert sorted(saved) == sorted(f"{name}-{number}" for name in "abcd" for number in range(20))
    for name in "abcd":
        assert [text for text in saved if text[0] == name] == [f"{name}-{number}" for number in range(20)]


def test_pi_04_a_deleted_session_is_in_the_trash(manager, tmp_path):
    """Gone from the listing and from loading; whole in the trash, with a note of where it lay."""
    id = manager.create_session()
    manager.save(id, [user_entry("keep me")])
    (path,) = files(tmp_path / "store")
    content = path.read_bytes()
    manager.delete_session(id)
    assert manager.list_sessions() == []
    with pytest.raises(PerdureError, match=f"Session not found: {id}"):
        manager.load_session(id)
    folder = tmp_path / "store" / "trash" / id
    assert (folder / path.name).read_bytes() == content
    note = json.loads((folder / "trash.json").read_text())
    assert (note["id"], note["program"]) == (id, "pi")
    assert [str(tmp_path / "store" / name) for name in note["names"]] == [str(path)]


def test_pi_04_a_session_somebody_talks_in_is_not_deleted(manager):
    from perdure.session.session import Session

    id = manager.create_session()
    manager.save(id, [user_entry("busy")])
    with (
        Session.open(manager._store, manager._find(id)),
        pytest.raises(PerdureError, match=f"held by process {os.getpid()}") as caught,
    ):
        manager.delete_session(id)
    assert caught.value.exit_code == 4
    assert texts(manager.load_session(id)) == ["busy"]


def manager_folder(manager):
    from pathlib import Path

    return Path(manager._store.root)
