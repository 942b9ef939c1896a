"""Cortext, from outside: what its store has a part in of COR-01, COR-02, COR-03 and COR-15."""

import json
import os
import shutil
import signal

import pytest

from perdure.errors import Held, UsageError
from perdure.session.entry import Custom
from perdure.session.lifecycle import CORTEXT, recorded
from perdure.session.session import Session
from perdure.session.stores import Found, open_store
from perdure.session.stores.cortext_folder import CortextStore
from perdure.testing import assistant_entry, tool_call_entry, tool_result_entry, user_entry
from perdure.testing.durable import holding, needs_fork
from tests.cortext_files import GOLDEN, folder_of, lines_of, marks_of, state_of, store_in, transcript_of

CONFIG = {
    "command": "/workspace.brainstorm",
    "system_prompt_hash": "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "model": "claude-sonnet",
    "tools": ["read", "mcp__files__search"],
}
FACTS = {"conversation_type": "brainstorm", "title": "API Design Discussion", "agent_config": CONFIG}


@pytest.fixture
def store(tmp_path, monkeypatch):
    """That of the workspace this process is somewhere in."""
    (tmp_path / ".workspace").mkdir()
    (tmp_path / "deep" / "below").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "below")
    return open_store("cortext")


def talk(store: CortextStore) -> Found:
    with Session.create(store, facts=FACTS) as session:
        CORTEXT.resume(session)
        session.append(user_entry("REST or GraphQL?"))
        session.append(tool_call_entry("read", {"path": "README.md"}, call_id="c1"))
        session.append(tool_result_entry("Internal APIs.", call_id="c1", name="read"))
        session.append(assistant_entry("REST, for its simplicity."))
        return session.ref


def status_of(store: CortextStore, ref: Found) -> str:
    page = store.read(ref)
    return recorded(page.header, page.entries)


@pytest.mark.parametrize("status", ["paused", "completed"])
def test_cor_01_a_conversation_that_ends_has_its_state_in_three_files(store, tmp_path, status):
    """In the document's folder: session.json with the status, the messages, and the readable transcript."""
    with Session.open(store, talk(store)) as session:
        CORTEXT.resume(session)
        CORTEXT.change(session, status)
    folder = folder_of(session.ref)
    day, name = session.id.split("/")
    assert folder == tmp_path / "conversations" / day / "001-brainstorm-api-design-discussion"
    assert name == folder.name
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == {"brainstorm.md", ".session/session.json", ".session/messages.jsonl"}
    state = state_of(session.ref)
    assert (state["version"], state["conversation_id"], state["status"]) == ("1.0", name, status)
    assert (state["title"], state["message_count"]) == ("API Design Discussion", 4)
    assert transcript_of(session.ref).startswith("# API Design Discussion\n")


def test_cor_01_the_transcript_shows_each_message_once_behind_its_mark(store):
    """However often the conversation is resumed; what is in it is never rewritten."""
    ref = talk(store)
    before = transcript_of(ref)
    for number in range(3):
        with Session.open(store, ref) as session:
            CORTEXT.resume(session)
            session.append(user_entry(f"more {number}"))
            CORTEXT.change(session, "paused")
        after = transcript_of(ref)
        assert after.startswith(before)
        before = after
    messages = [entry for entry in store.read(ref).entries if entry.type == "message"]
    assert marks_of(ref) == [entry.id for entry in messages]


def test_cor_02_the_agents_configuration_is_in_session_json(store):
    """Command, hash of the prompt, model and tools; the last one that was recorded counts."""
    ref = talk(store)
    assert state_of(ref)["agent_config"] == CONFIG
    changed = {**CONFIG, "model": "another", "system_prompt_hash": "sha256:00"}
    with Session.open(store, ref) as session:
        session.append(Custom("perdure.agent_config", changed))
    assert state_of(ref)["agent_config"] == changed
    assert store.read(ref).header.facts["agent_config"] == changed


def test_cor_03_each_message_is_a_json_line_with_role_content_and_timestamp(store):
    """In the order they happened, tool results too; what is no message is one in words."""
    ref = talk(store)
    with Session.open(store, ref) as session:
        CORTEXT.resume(session)
    lines = lines_of(ref)
    assert all({"role", "content", "timestamp"} <= line.keys() for line in lines)
    assert [line["role"] for line in lines[:4]] == ["user", "assistant", "tool", "assistant"]
    assert lines[0]["content"] == "REST or GraphQL?"
    assert [line["content"] for line in lines[4:]] == ["Status: paused", "Status: active"]
    assert [line["timestamp"] for line in lines] == sorted(line["timestamp"] for line in lines)


def test_cor_03_messages_are_appended_as_they_happen(store):
    """Each is on disk, whole, before the next step; no byte of what is there is written again."""
    with Session.create(store, facts=FACTS) as session:
        path, before = session.ref.path, b""
        for number in range(5):
            session.append(user_entry(f"message {number}"))
            with open(path, "rb") as file:
                after = file.read()
            assert after.startswith(before)
            assert json.loads(after.removeprefix(before))["content"] == f"message {number}"
            before = after


@pytest.mark.parametrize(
    ("steps", "allowed"),
    [
        (["paused"], True),
        (["completed"], True),
        (["paused", "active"], True),
        (["paused", "completed"], True),
        (["completed", "paused"], False),
        (["completed", "active"], False),
        (["archived"], False),
    ],
)
def test_cor_15_a_status_changes_as_the_document_says(store, steps, allowed):
    """And in no other way: what is refused is not recorded, and what is allowed instead is named."""
    ref = talk(store)
    with Session.open(store, ref) as session:
        CORTEXT.resume(session)
        *before, last = steps
        for status in before:
            CORTEXT.change(session, status)
        if allowed:
            CORTEXT.change(session, last)
        else:
            with pytest.raises(UsageError) as refused:
                CORTEXT.change(session, last)
            assert refused.value.hint
    expected = last if allowed else (before or ["active"])[-1]
    assert state_of(ref)["status"] == status_of(store, ref) == expected


def test_cor_15_a_completed_conversation_is_resumed_only_by_who_insists(store):
    """Then it is active again."""
    ref = talk(store)
    with Session.open(store, ref) as session:
        CORTEXT.resume(session)
        CORTEXT.change(session, "completed")
    with Session.open(store, ref) as session:
        with pytest.raises(UsageError):
            CORTEXT.resume(session)
        assert state_of(ref)["status"] == "completed"
        assert CORTEXT.resume(session, insist=True) == "completed"
    assert state_of(ref)["status"] == "active"


@pytest.mark.process
@needs_fork
def test_cor_15_an_active_conversation_whose_owner_died_was_paused(store):
    """While it lives nobody else resumes it; afterwards the next owner records the pause, and goes on."""
    ref = talk(store)
    with holding(lambda: store.writer(ref)) as pid:
        with pytest.raises(Held):
            Session.open(store, ref, wait=0)
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert CORTEXT.shown(status_of(store, ref), is_alive=store.holder(ref) is not None) == "paused"
        with Session.open(store, ref) as session:
            assert CORTEXT.resume(session) == "paused"
    statuses = [line["content"] for line in lines_of(ref) if "entry" in line]
    assert statuses == ["Status: paused", "Status: active"]
    assert state_of(ref)["status"] == "active"


def test_cor_03_conversations_in_the_folders_of_a_registry_open_too(tmp_path):
    """An older workspace keeps each type in a folder of its own, with or without a folder for the day."""
    shutil.copytree(GOLDEN / "registry", tmp_path / "workspace")
    store = store_in(tmp_path / "workspace")
    found = {ref.id: store.read(ref) for ref in store.list()}
    assert {id: [entry.text for entry in page.entries] for id, page in found.items()} == {
        "2025-11-20/001-brainstorm-old": ["An old idea", "Go on."],
        "002-learn-undated": ["How do monads work?"],
    }
    assert [page.problems for page in found.values()] == [[], []]
    assert found["2025-11-20/001-brainstorm-old"].header.facts["title"] == "Old"
