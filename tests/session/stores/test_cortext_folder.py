"""Cortext's layout keeps the contract of every durable store; and its files look as they are said to."""

import contextlib
import json
import os
import re
import time
import unicodedata
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given

from perdure.errors import Held, InvalidId, NotSaved, PerdureError
from perdure.session import ids
from perdure.session.entry import decode, meaning
from perdure.session.session import Session
from perdure.session.stores import Found, Header, files, open_store
from perdure.session.stores.cortext_folder import CortextStore
from perdure.testing import DurableStoreContract, assistant_entry, user_entry
from perdure.testing.durable import needs_fork, process
from perdure.testing.writing import WRITERS, write_in_turns
from tests.cortext_files import (
    ID,
    check_complete,
    folder_of,
    golden,
    lines_of,
    put,
    state_of,
    store_in,
    transcript_of,
)
from tests.generated import sessions
from tests.pi_files import in_memory

OURS, FOREIGN = golden("ours"), golden("foreign")
LOG, STATE = ".session/messages.jsonl", ".session/session.json"
STAMP = "2026-01-31T09:05:00.123Z"
HEADER = Header("2026-01-31/001-a-b", STAMP)

_numbers = count(1)


class TestCortextStore(DurableStoreContract):
    private = False
    plain_ids = (
        "2026-01-31/001-brainstorm-topic",
        "2026-01-31/a",
        "2025-12-31/A.b_c-9",
        "0001-01-01/" + "x" * 128,
    )

    def make_store(self, tmp_path):
        return CortextStore(str(tmp_path / "workspace"), durability="process")

    def header(self):
        stamp = ids.stamp(ids.now())
        return Header(f"2026-01-31/{next(_numbers):03d}-brainstorm-topic", stamp, cwd="/home/me/code")

    def kept(self, entry):
        return meaning(entry)

    def write_behind(self, store, ref, entry):
        """As a program that shares the layout: a line at the end of the file, without a look at the rest."""
        message = json.loads(entry.raw)["message"]
        content = message.pop("content")
        line = {
            "role": message.pop("role"),
            "content": content if isinstance(content, str) else content[0]["text"],
            "timestamp": entry.timestamp,
            "id": entry.id,
            "parent_id": entry.parent_id,
            "message": message,
        }
        with open(ref.path, "a") as file:
            file.write(json.dumps(line) + "\n")

    def steps_to(self, store, ref):
        """The folders of all conversations, of a day and of this one, and what is in the last."""
        parents = [*Path(ref.path).parents]
        return [*parents[:4][::-1], Path(ref.path)]


def append(store, ref, *bodies):
    with Session.open(store, ref) as session:
        return session.append(*bodies)


def made(store, **facts) -> Found:
    with Session.create(store, facts=facts) as session:
        return session.ref


# --- which there are --------------------------------------------------------------------------------


def test_a_conversation_is_found_where_the_document_puts_it(tmp_path):
    """Its id is its day and its folder's name."""
    store, ref = put(tmp_path, OURS)
    status = os.stat(ref.path)
    found = Found(ID, ref.path, status.st_ino, status.st_size, status.st_mtime_ns)
    assert list(store.list()) == [found]
    assert open_store("cortext", str(tmp_path)).read(ref).header.facts["title"] == "API Design"


def test_the_golden_conversations_read_without_a_problem(tmp_path):
    """Ours, and another program's, whose members nobody here knows are facts, too."""
    store, ref = put(tmp_path, OURS)
    page = store.read(ref)
    assert page.problems == []
    assert [entry.role for entry in page.entries] == ["user", "assistant", ""]
    assert page.header._replace(facts={}) == Header(
        ID, "2025-11-22T10:00:00.000Z", str(tmp_path), covers=3, facts={}
    )
    store, ref = put(tmp_path, FOREIGN, "2025-11-23/002-x-y")
    (folder_of(ref) / STATE).write_bytes(FOREIGN[STATE].replace(b"001-brainstorm-api-design", b"002-x-y"))
    page = store.read(ref)
    assert page.problems == []
    assert [entry.id for entry in page.entries] == ["r1", "r2"]
    assert page.header.facts["participants"] == ["me", "claude"]


def test_what_is_no_conversation_is_not_listed(tmp_path):
    """Other files and folders, hidden ones, and what a killed process left behind."""
    for name in ("conversations/notes.md", "conversations/2026-01-31/README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for name in ("2026-01-31/001-x-y", "2026-01-31/.moving-1/.session", ".hidden/001-x/.session"):
        (tmp_path / "conversations" / name).mkdir(parents=True)
    assert list(store_in(tmp_path).list()) == []


def test_a_conversation_without_a_log_is_an_empty_one(tmp_path):
    """It can be read, and written to."""
    store, ref = put(tmp_path, {STATE: OURS[STATE].replace(b"log_bytes", b"other")})
    assert [each.id for each in store.list()] == [ID]
    page = store.read(ref)
    assert (page.entries, page.problems, page.header.facts["title"]) == ([], [], "API Design")
    assert list(store.read_back(ref)) == []
    append(store, ref, user_entry("first"))
    check_complete(ref)


def test_a_log_that_is_gone_is_told(tmp_path):
    """Session.json knows that there was one."""
    store, ref = put(tmp_path, {STATE: OURS[STATE]})
    (problem,) = store.read(ref).problems
    assert (problem.path, "messages may be missing" in problem.reason) == (ref.path, True)


def test_a_log_that_is_gone_for_a_moment_is_no_empty_session(tmp_path, monkeypatch):
    """A network folder may say once that a file is not there: no fork is made without what was said."""
    store, ref = put(tmp_path, OURS)
    said = store.read(ref).entries
    looks = count()
    real = files.status

    def status(root: str, relative: str) -> os.stat_result | None:
        return real(root, relative) if not relative.endswith(LOG) or next(looks) else None

    monkeypatch.setattr(files, "status", status)
    with Session.view(store, ref) as session:
        looks = count()
        fork = session.fork()
    assert next(looks) > 1
    assert said
    assert store.read(fork).entries == said


def test_types_may_have_folders_of_their_own(tmp_path):
    """With or without a folder for each day; those of the registry that lead elsewhere are ignored."""
    folders = {
        "brainstorm": "brainstorms/2025-11-22/001-brainstorm-a",
        "debug": "work/debug/002-debug-b",
        "plan": "conversations/2025-11-22/003-plan-c",
    }
    for name in folders.values():
        (tmp_path / name / ".session").mkdir(parents=True)
    outside = tmp_path.parent / "outside" / "004-x" / ".session"
    outside.mkdir(parents=True)
    (tmp_path / "link").symlink_to(outside.parents[1])
    named = ["brainstorms", "./work/debug/", "conversations", "../outside", str(outside.parents[1]), "link"]
    named += ["", ".", "gone", ".workspace/trash", "a\0b", "\ud800"]
    types: dict[str, object] = {str(number): {"folder": name} for number, name in enumerate(named)}
    types.update(odd=5, none={}, other={"folder": 7})
    (tmp_path / ".workspace").mkdir()
    registry = {"schema_version": "2.0", "conversation_types": types}
    (tmp_path / ".workspace" / "registry.json").write_text(json.dumps(registry))
    store = store_in(tmp_path)
    found = {ref.id: os.path.relpath(folder_of(ref), tmp_path) for ref in store.list()}
    ids = ["2025-11-22/001-brainstorm-a", "002-debug-b", "2025-11-22/003-plan-c"]
    assert found == dict(zip(ids, folders.values(), strict=True))
    for ref in store.list():
        append(store, ref, user_entry("hello"))
        check_complete(ref)
        store.delete(ref)
        assert store.restore(ref.id).path == ref.path


@pytest.mark.parametrize("registry", [b"", b"{", b"[]", b'{"conversation_types":[]}', b"\xff", b"\0" * 99])
def test_a_broken_registry_hides_no_conversation(tmp_path, registry):
    """Those in `conversations/` are there without it."""
    store, _ = put(tmp_path, OURS)
    (tmp_path / ".workspace").mkdir()
    (tmp_path / ".workspace" / "registry.json").write_bytes(registry)
    assert [ref.id for ref in store.list()] == [ID]


def test_a_linked_folder_is_listed_with_the_reason_and_not_followed(tmp_path):
    """A day, or a conversation; all others are there."""
    store, ref = put(tmp_path / "workspace", OURS)
    put(tmp_path / "elsewhere", OURS)
    days = tmp_path / "workspace" / "conversations"
    elsewhere = tmp_path / "elsewhere" / "conversations" / "2025-11-22"
    (days / "2025-11-23").symlink_to(elsewhere)
    (days / "2025-11-22" / "002-linked").symlink_to(elsewhere / "001-brainstorm-api-design")
    found = {each.id: each for each in store.list()}
    assert found.keys() == {ID, "2025-11-22/002-linked", "2025-11-23"}
    for id in found.keys() - {ID}:
        with pytest.raises(PerdureError, match="symbolic link"):
            store.read(found[id])
    assert store.read(ref).problems == []


# --- new ones ---------------------------------------------------------------------------------------


def test_a_new_conversation_has_the_days_next_number(tmp_path):
    """Whatever its type and title; numbers of other days, and what has none, do not count."""
    store = store_in(tmp_path)
    header = Header("", "2025-11-22T12:00:00.000Z")
    put(tmp_path, OURS, "2025-11-22/007-debug-old")
    put(tmp_path, OURS, "2025-11-21/900-debug-other")
    put(tmp_path, OURS, "2025-11-22/notes")
    facts: list[dict[str, object]] = [
        {"conversation_type": "brainstorm", "title": "API: Désign & more!"},
        {"conversation_type": "Project Manage"},
        {"conversation_type": "../x", "title": "../../etc/passwd"},
        {"conversation_type": 5, "title": None},
        {},
    ]
    assert [store.new_id(header._replace(facts=each)) for each in facts] == [
        "2025-11-22/008-brainstorm-api-design-more",
        "2025-11-22/009-project-manage-untitled",
        "2025-11-22/010-x-etc-passwd",
        "2025-11-22/011-5-untitled",
        "2025-11-22/012-conversation-untitled",
    ]


@pytest.mark.parametrize(
    ("title", "slug"),
    [
        ("Привет, мир", "привет-мир"),
        ("नमस्ते दुनिया", "नमस्ते-दुनिया"),
        ("ทำไม", "ทำไม"),
        ("Straße ÅNGSTRÖM naïve", "straße-angstrom-naive"),
        ("한국어 e\u0301a x\u0302", unicodedata.normalize("NFC", "한국어-ea-x")),
        ("字" * 200, "字" * 40),
        ("a" * 200, "a" * 50),
        ("\u202eevil\u3164\ufe0f\x00\ud800", "evil"),
        ("🎉 …", "untitled"),
    ],
)
def test_cor_20_a_slug_has_the_letters_of_its_title(tmp_path, title, slug):
    """Small and composed, without what nobody sees; the folder's name fits every file system, and the id is
    one that a conversation can be created by."""
    store = store_in(tmp_path)
    header = Header("", "2025-11-22T12:00:00.000Z", facts={"conversation_type": "plan", "title": title})
    id = store.new_id(header)
    assert id == f"2025-11-22/001-plan-{slug}"
    assert len(id.partition("/")[2].encode()) <= 255
    store.create(header._replace(id=id))
    assert [ref.id for ref in store.list()] == [id]


def test_a_conversation_has_one_lock_in_either_form_of_unicode(tmp_path):
    """Some file systems list a name in another form than it was made with: who opens it by that waits for who
    made it."""
    store = store_in(tmp_path)
    ref = store.create(Header("2025-11-22/001-plan-йод", "2025-11-22T12:00:00.000Z"))
    listed = ref._replace(id=unicodedata.normalize("NFD", ref.id))
    assert listed.id != ref.id
    with store.writer(ref):
        assert store.holder(listed) == os.getpid()
        with pytest.raises(Held):
            store.writer(listed, 0)


@pytest.mark.parametrize("folder", ["a\0b", "\ud800", "../x", "/x", "x/.git", "", 5, ["x"], "x/" * 9])
def test_cor_20_what_cannot_be_a_types_folder_is_not_used(tmp_path, folder):
    """Whatever a registry says, its conversations begin, and are listed."""
    (tmp_path / ".workspace").mkdir()
    registry = {"conversation_types": {"plan": {"folder": folder}}}
    (tmp_path / ".workspace" / "registry.json").write_text(json.dumps(registry))
    store = store_in(tmp_path)
    header = Header("", "2025-11-22T12:00:00.000Z", facts={"conversation_type": "plan", "title": "T"})
    ref = store.create(header._replace(id=store.new_id(header)))
    assert ref.path.startswith(str(tmp_path / "conversations"))
    assert [each.id for each in store.list()] == ["2025-11-22/001-plan-t"]


def test_the_day_is_the_users_own(tmp_path, monkeypatch):
    """Half past eleven in the evening in New York is tomorrow in Greenwich, but not there."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        evening = datetime(2026, 2, 1, 4, 30, tzinfo=UTC)
        with Session.create(store_in(tmp_path), clock=lambda: evening) as session:
            assert session.id.startswith("2026-01-31/001-")
            assert session.header.timestamp == "2026-02-01T04:30:00.000Z"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.process
@needs_fork
def test_cor_20_conversations_started_at_once_get_numbers_of_their_own(tmp_path):
    """Sixteen processes, five each: eighty numbers, and each of them is a whole conversation."""

    def start(number: int) -> None:
        for turn in range(5):
            made(store_in(tmp_path), conversation_type="plan", title=f"of {number} in {turn}")

    with contextlib.ExitStack() as running:
        for number in range(16):
            running.enter_context(process(partial(start, number)))
    refs = list(store_in(tmp_path).list())
    numbers = [int(re.findall(r"/(\d+)-", ref.id)[0]) for ref in refs]
    assert sorted(numbers) == list(range(1, 81))
    assert {store_in(tmp_path).read(ref).problems == [] for ref in refs} == {True}
    assert len({state_of(ref)["title"] for ref in refs}) == 80


@pytest.mark.parametrize("id", ["a", "001-brainstorm-topic", "2026-1-31/a", "2026-01-31/a/b", "x/2026-01-31"])
def test_a_new_conversation_has_a_day_and_a_name(tmp_path, id):
    """A name alone is only found where a type has its own folder."""
    with pytest.raises(InvalidId):
        store_in(tmp_path).create(HEADER._replace(id=id))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_something_in_it_is_not_taken(tmp_path):
    """What people put there stays; an empty one may be a conversation's."""
    store = store_in(tmp_path)
    folder = tmp_path / "conversations" / HEADER.id
    folder.mkdir(parents=True)
    (folder / "notes.md").write_text("mine")
    with pytest.raises(NotSaved):
        store.create(HEADER)
    assert [path.name for path in folder.iterdir()] == ["notes.md"]
    (folder / "notes.md").unlink()
    assert store.create(HEADER).id == HEADER.id


def test_what_a_killed_process_left_unfinished_is_cleared_away(tmp_path):
    """It never had a name."""
    store = store_in(tmp_path)
    unfinished = tmp_path / ".workspace" / "locks" / "new~" / ".session"
    unfinished.mkdir(parents=True)
    (unfinished / "messages.jsonl").touch()
    store.create(HEADER)
    assert {path.name for path in (tmp_path / ".workspace" / "locks").iterdir()} == {"conversations~.lock"}


# --- lines ------------------------------------------------------------------------------------------


def test_a_message_is_a_line_with_role_content_and_timestamp_first(tmp_path):
    """Then ours. What is no message says in words what it is, and has its record behind that."""
    store = store_in(tmp_path)
    records = [
        b'{"type":"message","id":"a","parentId":null,"timestamp":"2026-01-31T09:05:00.123Z",'
        b'"message":{"role":"user","content":"hi","timestamp":1769850300123}}',
        b'{"type":"message","id":"b","parentId":"a","timestamp":"2026-01-31T09:05:00.123Z",'
        b'"message":{"role":"system","content":"be brief","timestamp":1769850300123}}',
        b'{"type":"label","id":"c","parentId":"b","timestamp":"2026-01-31T09:05:00.123Z","targetId":"a"'
        b',"label":"start"}',
    ]
    ref = store.create(HEADER, map(decode, records))
    stamp = b'"timestamp":"2026-01-31T09:05:00.123Z"'
    assert Path(ref.path).read_bytes().splitlines() == [
        b'{"role":"user","content":"hi",%b,"id":"a","parent_id":null}' % stamp,
        b'{"role":"system","content":"be brief",%b,"id":"b","parent_id":"a"}' % stamp,
        b'{"role":"system","content":"Label: start",%b,"entry":%b}' % (stamp, records[2]),
    ]
    assert [entry.raw for entry in store.read(ref).entries] == records


@given(entries=sessions())
def test_every_session_comes_back_and_every_line_is_a_message(entries, tmp_path_factory):
    """What each entry says, in its order; and whoever reads the file finds role, content and timestamp."""
    with in_memory(tmp_path_factory.mktemp("workspace")) as folder:
        store = store_in(folder)
        ref = store.create(HEADER, entries)
        page = store.read(ref)
        assert page.problems == []
        assert list(map(meaning, page.entries)) == list(map(meaning, entries))
        for line in lines_of(ref):
            assert {"role", "timestamp"} <= {name for name, value in line.items() if isinstance(value, str)}
            assert "content" in line


# --- many at once ---------------------------------------------------------------------------------------


@pytest.mark.process
@needs_fork
def test_sixteen_processes_leave_all_three_files_in_agreement(tmp_path):
    """In one conversation: each message counted, and shown once, in the log's order."""
    store = store_in(tmp_path)
    ref = store.create(HEADER)
    with contextlib.ExitStack() as running:
        for number in range(WRITERS):
            work = partial(write_in_turns, store_in(tmp_path), ref, number)
            running.enter_context(process(work))
    check_complete(ref)
    assert store.read(ref).problems == []


# --- deleting -------------------------------------------------------------------------------------------


def test_a_deleted_conversation_goes_and_comes_back_with_all_that_is_in_its_folder(tmp_path):
    """Also what people put there."""
    store, ref = put(tmp_path, {**OURS, "sketch.png": b"\x89PNG"})
    before = {path: path.read_bytes() for path in folder_of(ref).rglob("*") if path.is_file()}
    store.delete(ref)
    assert not folder_of(ref).exists()
    (trash,) = (tmp_path / ".workspace" / "trash").iterdir()
    assert (trash / folder_of(ref).name / "sketch.png").exists()
    assert store.restore(ID).path == ref.path
    assert {path: path.read_bytes() for path in folder_of(ref).rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("what", ["nothing", "a note in the transcript", "a file", "a message"])
def test_a_conversation_in_which_nothing_was_said_can_leave_no_trace(tmp_path, what):
    """Not if anybody put anything there."""
    store = store_in(tmp_path)
    ref = made(store, conversation_type="plan", title="t")
    match what:
        case "a note in the transcript":
            (folder_of(ref) / "plan.md").write_text(transcript_of(ref) + "mine")
        case "a file":
            (folder_of(ref) / "sketch.png").touch()
        case "a message":
            append(store, ref, assistant_entry("hello"))
    assert store.remove_empty(ref) == (what == "nothing")
    assert folder_of(ref).exists() == (what != "nothing")
    assert (tmp_path / "conversations").exists()
