"""soleur, from outside: what SOL-01 to SOL-05 ask of its sessions on disk, through the store and the engine.

What they ask of the program itself, its prompts and tables, is tested where the program is.
"""

import difflib
import json
import os
import re
import stat
import sys
import uuid
from datetime import datetime
from pathlib import Path
from subprocess import run
from typing import Any

import pytest

from perdure.errors import Held, NotFound, NotSaved, PerdureError
from perdure.session import ids
from perdure.session.entry import Custom, Entry, meaning
from perdure.session.session import Session
from perdure.session.stores import Found, Store, files, open_store
from perdure.testing import assistant_entry, tool_call_entry, tool_result_entry, user_entry
from perdure.testing.durable import holding, needs_fork
from tests.moments import next_moment

FIELDS = ["id", "agent_type", "project_name", "project_context"]
FIELDS += ["messages", "decisions", "created_at", "updated_at"]


@pytest.fixture
def store(home) -> Store:
    """Soleur's own, in the user's home."""
    return open_store("soleur")


def saved(session: Session) -> dict[str, Any]:
    return json.loads(Path(session.ref.path).read_text(encoding="utf-8"))


def decided(content: str, session: Session, source: str = "Manual") -> Custom:
    data = {"content": content, "timestamp": ids.stamp(ids.now()), "session_id": session.id}
    return Custom("perdure.decision", {**data, "tags": ["db"], "source": source})


# --- SOL-01: New session creation -------------------------------------------------------------------


def test_sol_01_a_new_session_has_a_uuid_no_messages_its_time_and_no_context(store, home):
    """All eight fields, in their order, in `~/.soleur/sessions/<uuid>.json`."""
    with Session.create(store) as session:
        document = saved(session)
    assert uuid.UUID(session.id).version == 4
    assert Path(session.ref.path) == home / ".soleur" / "sessions" / f"{session.id}.json"
    assert list(document)[:8] == FIELDS
    assert (document["id"], document["messages"], document["decisions"]) == (session.id, [], [])
    assert (document["agent_type"], document["project_context"]) == ("sparring", None)
    assert document["project_name"] == os.path.basename(os.getcwd())


def test_sol_01_no_two_sessions_are_one(store):
    """However many are made."""
    for _ in range(20):
        Session.create(store).close()
    assert len({ref.id for ref in store.list()}) == 20


def test_sol_01_times_are_rfc_3339_in_utc(store):
    """When it was made, when it was saved last, and of every message."""
    with Session.create(store) as session:
        session.append(user_entry("hello"))
        document = saved(session)
    times = [document["created_at"], document["updated_at"], document["messages"][0]["timestamp"]]
    for each in times:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", each)
        assert datetime.fromisoformat(each).utcoffset() is not None
    assert times[0] <= times[1]


# --- SOL-02: Session contains message history -------------------------------------------------------


def test_sol_02_each_message_has_role_content_and_timestamp(store):
    """The three roles in lower case, in the order in which they were said."""
    with Session.create(store) as session:
        session.append(Custom("noise", None))
        session.append(
            Entry.message("system", "Ask hard questions."),
            user_entry("Cache tokens?"),
            assistant_entry("Why?"),
        )
        messages = saved(session)["messages"]
    assert [(each["role"], each["content"]) for each in messages] == [
        ("system", "Ask hard questions."),
        ("user", "Cache tokens?"),
        ("assistant", "Why?"),
    ]
    assert all(each["timestamp"] for each in messages)


# --- SOL-03: Auto-save after agent response ---------------------------------------------------------


def test_sol_03_every_message_is_on_disk_when_it_is_shown(store):
    """The prompt before the model is called, and the answer before the next prompt."""
    with Session.create(store) as session:
        for number in range(5):
            session.append(user_entry(f"question {number}"))
            assert saved(session)["messages"][-1]["content"] == f"question {number}"
            session.append(assistant_entry(f"answer {number}"))
            assert saved(session)["messages"][-1]["content"] == f"answer {number}"
        assert len(saved(session)["messages"]) == 10


@pytest.mark.process
def test_sol_03_another_process_sees_what_was_said(store, home):
    """While this one still has the session, and as any program reads JSON."""
    with Session.create(store) as session:
        session.append(user_entry("hello"))
        program = "import json, sys; print(json.load(open(sys.argv[1]))['messages'][0]['content'])"
        done = run(
            [sys.executable, "-c", program, session.ref.path], capture_output=True, text=True, check=True
        )
    assert done.stdout == "hello\n"


def test_sol_03_a_save_that_fails_is_told_and_leaves_the_last_one(store, monkeypatch):
    """The document is replaced in one step or not at all, and the next save works."""
    with Session.create(store) as session:
        session.append(user_entry("saved"))
        before = saved(session)
        with monkeypatch.context() as patch:
            patch.setattr(files, "sync_data", _refused)
            with pytest.raises(NotSaved, match=re.escape(session.ref.path)):
                session.append(user_entry("not saved"))
        assert saved(session) == before
        session.append(user_entry("after"))
        assert [each["content"] for each in saved(session)["messages"]] == ["saved", "after"]


def _refused(descriptor: int) -> None:
    raise OSError(28, "No space left on device")


def test_sol_03_sessions_are_for_their_owner_only(store, home):
    """Folders 0700 and files 0600, whatever the umask."""
    before = os.umask(0)
    try:
        with Session.create(store) as session:
            session.append(user_entry("private"))
    finally:
        os.umask(before)
    for path in (home / ".soleur").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


# --- SOL-04: Session file format --------------------------------------------------------------------


def test_sol_04_the_file_is_for_people_to_read(store):
    """Two spaces a level, text as it was typed, all data in it."""
    with Session.create(store) as session:
        session.append(user_entry("Größe? 👀"))
        text = Path(session.ref.path).read_text(encoding="utf-8")
    assert text == json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"
    assert "Größe? 👀" in text


def test_sol_04_a_diff_shows_only_what_was_said(store):
    """Between two saves nothing else changes but the time of the save, and the comma of the line before."""
    with Session.create(store) as session:
        session.append(user_entry("one"), assistant_entry("two"), decided("Use Postgres", session))
        session.append(user_entry("three"))
        before = Path(session.ref.path).read_text().splitlines()
        next_moment()
        session.append(assistant_entry("four"))
        after = Path(session.ref.path).read_text().splitlines()
    gone = [line[2:] for line in difflib.ndiff(before, after) if line.startswith("- ")]
    assert [line.split(":")[0].strip() for line in gone if not line.startswith("    }")] == ['"updated_at"']


# --- SOL-05: Load existing session ------------------------------------------------------------------


def test_sol_05_the_whole_state_comes_back(store):
    """Messages, tool calls and their answers, decisions, context, labels, the name: in any process."""
    with Session.create(store, facts={"project_name": "api", "agent_type": "coach"}) as session:
        session.append(Custom("perdure.context", {"name": "README.md", "content": "A small service."}))
        session.append(
            user_entry("List the files."), tool_call_entry("bash", {"command": "ls"}, call_id="c1")
        )
        session.append(tool_result_entry("a.py", call_id="c1"), assistant_entry("There is one."))
        session.append(decided("Start small", session, "AutoDetected"))
        session.rename("small steps")
        session.label(session.entries[1].id, "start")
        said = session.entries
    other = open_store("soleur")
    again = Session.view(other, _listed(other, session.id))
    assert [meaning(entry) for entry in again.entries] == [meaning(entry) for entry in said]
    assert [entry.text for entry in again.path() if entry.type == "message"] == [
        *("List the files.", "", "a.py", "There is one."),
    ]
    assert (again.name, again.labels, again.problems) == ("small steps", {said[1].id: "start"}, [])
    assert (again.header.facts["project_name"], again.header.facts["agent_type"]) == ("api", "coach")
    document = saved(session)
    assert document["project_context"] == "# README.md\n\nA small service."
    (decision,) = document["decisions"]
    assert (decision["content"], decision["source"], decision["tags"]) == (
        "Start small",
        "AutoDetected",
        ["db"],
    )
    assert decision["session_id"] == session.id


def _listed(store: Store, text: str) -> Found:
    found = {ref.id: ref for ref in store.list()}
    return found[ids.resolve(text, found)]


def test_sol_05_the_beginning_of_an_id_is_enough(store):
    """If only one has it; an unknown one is said to be unknown."""
    with Session.create(store) as session:
        session.append(user_entry("hello"))
    assert _listed(store, session.id[:8]).id == session.id
    with pytest.raises(NotFound, match="Session not found: nothing"):
        _listed(store, "nothing")


def test_sol_05_a_loaded_session_goes_on(store):
    """Behind its last word, in the same file."""
    with Session.create(store) as session:
        session.append(user_entry("one"))
    with Session.open(store, session.ref) as again:
        again.append(assistant_entry("two"))
        assert [entry.text for entry in again.path()] == ["one", "two"]
    assert len(list(store.list())) == 1


def test_sol_05_a_session_of_another_program_is_loaded_and_kept(store, home):
    """As the document describes one, without anything of ours."""
    folder = home / ".soleur" / "sessions"
    folder.mkdir(parents=True)
    id = str(uuid.uuid4())
    theirs = {
        **{"id": id, "agent_type": "sparring", "project_name": "api", "project_context": "A service."},
        "messages": [
            {"role": "user", "content": "hello", "timestamp": "2026-01-31T09:05:00Z"},
            {"role": "assistant", "content": "why?", "timestamp": "2026-01-31T09:05:01Z"},
        ],
        **{"decisions": [], "created_at": "2026-01-31T09:05:00Z", "updated_at": "2026-01-31T09:05:01Z"},
    }
    (folder / f"{id}.json").write_text(json.dumps(theirs, indent=2))
    with Session.open(store, _listed(store, id)) as session:
        assert [entry.text for entry in session.path()] == ["hello", "why?"]
        assert session.header.facts["project_context"] == "A service."
        session.append(user_entry("because"))
        document = saved(session)
    assert document["messages"][:2] == theirs["messages"]
    assert {name: document[name] for name in FIELDS if name not in ("messages", "updated_at")} == {
        name: theirs[name] for name in FIELDS if name not in ("messages", "updated_at")
    }


def test_sol_05_a_damaged_session_is_loaded_with_a_warning(store):
    """Every complete message, and the file and line of the damage; nothing is thrown away."""
    with Session.create(store) as session:
        session.append(user_entry("one"), assistant_entry("two"), user_entry("three"))
    path = Path(session.ref.path)
    torn = path.read_bytes()[: path.read_bytes().index(b"three")]
    path.write_bytes(torn)
    with Session.open(store, session.ref) as again:
        assert [entry.text for entry in again.path()] == ["one", "two"]
        (problem,) = again.problems
        assert (problem.path, problem.line) == (str(path), torn.count(b"\n") + 1)
        again.append(user_entry("four"))
        again.reload()
        assert ([entry.text for entry in again.path()], again.problems) == (["one", "two", "four"], [])
    assert Path(f"{path}.damaged").read_bytes() == torn


@pytest.mark.process
@needs_fork
def test_sol_05_a_session_somebody_talks_in_can_be_read_and_not_taken(store):
    """Whoever wants to write is told which process has it."""
    with Session.create(store) as session:
        session.append(user_entry("one"))
    with holding(lambda: store.writer(session.ref)) as pid:
        assert [entry.text for entry in Session.view(store, session.ref).path()] == ["one"]
        with pytest.raises(Held, match=f"process {pid}"):
            Session.open(store, session.ref, wait=0)
        with pytest.raises(PerdureError):
            store.delete(session.ref)
