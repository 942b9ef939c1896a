"""Soleur's layout keeps the contract of every durable store; and its files look as they are said to."""

import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import NotSaved
from perdure.session import ids, tree
from perdure.session.entry import Message, User, meaning, new, placed
from perdure.session.session import Session
from perdure.session.stores import Found, Header, json_text, soleur_format
from perdure.session.stores.plain import joined, plain
from perdure.session.stores.soleur_json import SoleurStore
from perdure.testing import (
    DurableStoreContract,
    assistant_entry,
    tool_call_entry,
    tool_result_entry,
    user_entry,
)
from perdure.testing.writing import turns
from tests.generated import sessions
from tests.soleur_files import (
    ID,
    STAMP,
    append,
    custom,
    decision,
    document,
    meanings,
    put,
    rewritten,
    store_in,
)


class TestSoleurStore(DurableStoreContract):
    def make_store(self, tmp_path):
        return store_in(tmp_path / "soleur")

    def write_behind(self, store, ref, entry):
        """As a program does that reads the document, adds a message and writes it all in place."""
        path = Path(ref.path)
        document = json.loads(path.read_bytes())
        document["messages"].append(json.loads(joined(plain(entry) or {})))
        path.write_text(json.dumps(document, indent=2, ensure_ascii=False), encoding="utf-8")

    def kept(self, entry):
        return meaning(entry)


# --- the file -----------------------------------------------------------------------------------------


def test_a_new_session_is_a_whole_document(tmp_path):
    """With every member its readers count on, in the document's order, two spaces a level."""
    store = store_in(tmp_path)
    ref = store.create(Header(ID, STAMP))
    text = Path(ref.path).read_text()
    saved = json.loads(text)["updated_at"]
    assert Path(ref.path) == tmp_path / "sessions" / f"{ID}.json"
    assert text == (
        "{\n"
        f'  "id": "{ID}",\n'
        '  "agent_type": "sparring",\n'
        '  "project_name": "code",\n'
        '  "project_context": null,\n'
        '  "messages": [],\n'
        '  "decisions": [],\n'
        f'  "created_at": "{STAMP}",\n'
        f'  "updated_at": "{saved}",\n'
        '  "cwd": "/home/me/code"\n'
        "}\n"
    )


def test_a_message_has_what_the_document_names_first(tmp_path):
    """Role, content and time, then what is ours; text is not escaped."""
    store = store_in(tmp_path)
    ref = store.create(Header(ID, STAMP))
    entry = placed(user_entry('é 👀 "quoted"\nline'), id="m1", timestamp=STAMP)
    append(store, ref, entry)
    milliseconds = json.loads(entry.raw)["message"]["timestamp"]
    assert (
        '  "messages": [\n'
        "    {\n"
        '      "role": "user",\n'
        '      "content": "é 👀 \\"quoted\\"\\nline",\n'
        f'      "timestamp": "{STAMP}",\n'
        '      "id": "m1",\n'
        '      "parent_id": null,\n'
        '      "message": {\n'
        f'        "timestamp": {milliseconds}\n'
        "      }\n"
        "    }\n"
        "  ],\n"
    ) in Path(ref.path).read_text()


def test_a_tool_call_is_in_its_message_and_the_answer_in_the_entries(tmp_path):
    """The document knows three roles; `after` says how many messages come before it."""
    store = store_in(tmp_path)
    ref = store.create(Header(ID, STAMP))
    with Session.open(store, ref) as session:
        session.append(user_entry("list"), tool_call_entry("bash", {"command": "ls"}, call_id="c1"))
        session.append(tool_result_entry("a.py", call_id="c1"), assistant_entry("one file"))
    saved = document(ref)
    assert [message["role"] for message in saved["messages"]] == ["user", "assistant", "assistant"]
    assert saved["messages"][1]["tool_calls"][0]["arguments"] == {"command": "ls"}
    assert list(saved)[-1] == "entries"
    assert [(each["after"], each["entry"]["message"]["role"]) for each in saved["entries"]] == [
        (2, "toolResult")
    ]


def test_a_session_that_has_nothing_else_has_no_entries(tmp_path):
    """Nor does one whose last words are decisions."""
    store = store_in(tmp_path)
    ref = store.create(Header(ID, STAMP), turns(4))
    assert "entries" not in document(ref)
    append(store, ref, decision("one", "d1"), decision("two", "d2", "d1"))
    assert "entries" not in document(ref)


def test_another_branch_stands_in_the_entries(tmp_path):
    """`messages` is the way to the head, whichever branch that is on now."""
    store = store_in(tmp_path)
    ref = store.create(Header(ID, STAMP))
    with Session.open(store, ref) as session:
        root, left = session.append(user_entry("root"), assistant_entry("left"))
        session.move(root.id)
        session.append(assistant_entry("right"))
        assert [each["content"] for each in document(ref)["messages"]] == ["root", "right"]
        session.move(left.id)
        session.append(user_entry("on"))
        said = session.entries
    saved = document(ref)
    assert [each["content"] for each in saved["messages"]] == ["root", "left", "on"]
    assert [(each["after"], each["entry"]["id"]) for each in saved["entries"]] == [(2, said[2].id)]
    assert meanings(store.read(ref).entries) == meanings(said)


def test_the_listing_shows_json_files_alone(tmp_path):
    """Whatever else lies there: what was set aside, what was not finished, a folder's own files."""
    store = store_in(tmp_path)
    folder = tmp_path / "sessions"
    folder.mkdir()
    for name in [
        "a.json",
        "b.c.json",
        "a.json.tmp",
        "a.json.damaged",
        "a.json.0badcafe.displaced",
        ".json",
        "x",
    ]:
        (folder / name).write_bytes(b"{}")
    assert sorted(each.id for each in store.list()) == ["a", "b.c"]
    assert list(store_in(tmp_path / "nowhere").list()) == []


def test_what_was_set_aside_goes_with_its_session(tmp_path):
    """And what belongs to a session of a longer name stays."""
    store = store_in(tmp_path)
    ref = store.create(Header("a", STAMP), turns(1))
    other = store.create(Header("a.json.b", STAMP), turns(1))
    aside = ["a.json.damaged", "a.json.damaged.2", "a.json.0badcafe.displaced", "a.json.tmp"]
    kept = ["a.json.b.json.damaged", "a.json.b.json", "a.json.notes"]
    for name in [*aside, kept[0], kept[2]]:
        (tmp_path / "sessions" / name).write_bytes(b"x")
    store.delete(ref)
    assert sorted(os.listdir(tmp_path / "sessions")) == sorted(kept)
    assert set(aside) <= set(os.listdir(tmp_path / "trash" / "a"))
    assert len(store.read(other).entries) == 1


# --- what is known of a session as a whole --------------------------------------------------------------


def test_facts_are_members_of_the_document(tmp_path):
    """Those it names in their place, the others behind it, whatever their values."""
    facts = {
        "project_name": "api",
        "agent_type": "coach",
        "mood": {"level": [1, None, "é"]},
        "status": "active",
    }
    store = store_in(tmp_path)
    ref = store.create(Header(ID, STAMP, "/home/me/api", facts=facts))
    assert [*document(ref)][:3] == ["id", "agent_type", "project_name"]
    assert [*document(ref)][-3:] == ["cwd", "mood", "status"]
    append(store, ref, user_entry("hello"))
    assert store.read(ref).header == Header(ID, STAMP, "/home/me/api", "", facts)


def test_a_fact_may_have_any_name(tmp_path):
    """Also one the document needs for itself."""
    facts = {
        "id": 1,
        "messages": "many",
        "created_at": None,
        "entries": [],
        "cwd": {},
        "facts": {"x": 1},
        "": 2,
    }
    store = store_in(tmp_path)
    ref = store.create(Header(ID, STAMP, facts=facts), turns(1))
    found = store.read(ref)
    assert {name: found.header.facts[name] for name in facts} == facts
    assert (len(found.entries), found.problems) == (1, [])


def test_the_project_is_the_folder_unless_somebody_says_otherwise(tmp_path):
    """The header's folder, or else that of the process."""
    store = store_in(tmp_path)
    refs = [store.create(Header(id, STAMP, cwd)) for id, cwd in (("a", "/srv/shop"), ("b", ""))]
    assert [store.read(ref).header.facts["project_name"] for ref in refs] == ["shop", "code"]
    assert [store.read(ref).header.cwd for ref in refs] == ["/srv/shop", "/home/me/code"]


def test_a_document_of_another_order_keeps_it(tmp_path):
    """So that a diff shows what was said, and not who saved it; what was missing comes behind."""
    data = b'{\n  "updated_at": "x",\n  "messages": [],\n  "zebra": 1,\n  "id": "%b"\n}' % ID.encode()
    store, ref = put(tmp_path, data)
    append(store, ref, user_entry("hello"))
    assert [*document(ref)] == [
        *("updated_at", "messages", "zebra", "id"),
        *("project_context", "decisions", "created_at"),
    ]


def test_when_a_session_began_is_told_by_its_first_message_if_nothing_else_does(tmp_path):
    """And written down with the next save."""
    store, ref = put(
        tmp_path, b'{"messages":[{"role":"user","content":"x","timestamp":"2025-01-02T03:04:05Z"}]}'
    )
    assert store.read(ref).header.timestamp == "2025-01-02T03:04:05Z"
    append(store, ref, user_entry("hello"))
    assert document(ref)["created_at"] == "2025-01-02T03:04:05Z"


@pytest.mark.parametrize(
    ("raw", "moment"),
    [("1769850300", "2026-01-31T09:05:00.000Z"), ('"then"', "then"), ("null", ""), ("[]", "")],
)
def test_when_a_session_began_may_be_told_in_any_way(tmp_path, raw, moment):
    """It stays in the file as it was."""
    store, ref = put(tmp_path, f'{{"messages": [], "created_at": {raw}}}'.encode())
    assert store.read(ref).header.timestamp == moment
    append(store, ref, custom("x", 1, "c1", timestamp=""))
    assert document(ref)["created_at"] == json.loads(raw)


# --- laws -------------------------------------------------------------------------------------------------


@given(sessions())
def test_what_is_written_is_read(entries):
    """Every entry, in the session's own order, and nothing else; a second writing changes no byte."""
    store = SoleurStore("/nowhere")
    found = rewritten(entries)
    assert meanings(found.entries) == meanings(entries)
    assert (found.problems, found.is_damaged) == ([], False)
    text = store.print(found, STAMP)
    assert store.print(store.parse(Found(ID, "s.json"), text), STAMP) == text


@given(entries=sessions(), sizes=st.lists(st.integers(0, 4), max_size=8))
def test_entries_saved_in_any_parts_are_the_same_document(entries, sizes):
    """As those saved at once; only the order of a record's members may tell whether it has been a message."""
    store = SoleurStore("/nowhere")
    at_once, in_parts = rewritten(entries), rewritten(entries, [*sizes, len(entries)])
    assert meanings(in_parts.entries) == meanings(entries)
    assert json.loads(store.print(in_parts, STAMP)) == json.loads(store.print(at_once, STAMP))


@given(entries=sessions(), moves=st.lists(st.integers(0, 30), min_size=1, max_size=5))
def test_the_order_stays_when_the_head_moves_between_branches(entries, moves):
    """Whatever goes from `messages` to `entries` and back."""
    said = list(entries)
    found = rewritten(said)
    for number, move in enumerate(moves):
        parent = said[move % len(said)].id if said else None
        said.append(new(Message(User(f"turn {number}")), id=ids.new_id(), parent_id=parent, timestamp=STAMP))
        store = SoleurStore("/nowhere")
        text = store.print(found._replace(entries=[*found.entries, said[-1]]), STAMP)
        found = store.parse(Found(ID, "s.json"), text)
        assert meanings(found.entries) == meanings(said)
        shown = [each.get("id") for each in json.loads(text)["messages"]]
        path = [entry for entry in tree.path(said, said[-1].id) if entry.role in ("user", "assistant")]
        assert shown == [entry.id for entry in path if plain(entry)]


@given(sessions())
def test_any_reader_of_json_takes_the_document(entries):
    """As text, with members that are what they are said to be."""
    text = SoleurStore("/nowhere").print(rewritten(entries), STAMP)
    saved = json.loads(text.decode("utf-8"))
    assert text.startswith(b'{\n  "id": ')
    assert {message["role"] for message in saved["messages"]} <= {"user", "assistant", "system"}
    assert all(isinstance(message["content"], str) for message in saved["messages"])
    assert all(
        {"role", "content", "timestamp", "id", "parent_id"} <= message.keys() for message in saved["messages"]
    )


def lines_of(text: bytes) -> list[str]:
    """Without the comma that another item behind it needs, and with a list's brackets apart."""
    return [line.rstrip(",") for line in text.decode().replace("[]", "[\n  ]").split("\n")]


@given(entries=sessions(), text=st.text(max_size=20))
def test_sol_04_a_new_message_changes_only_what_is_new(entries, text):
    """All lines stay in their order but for the time of the save; only lines are added."""
    store = SoleurStore("/nowhere", cwd="/home/me/code")
    found = rewritten(entries)
    before = lines_of(store.print(found, STAMP))
    message = new(Message(User(text)), id="new", parent_id=tree.fold(entries).ends.tip, timestamp=STAMP)
    after = iter(lines_of(store.print(found._replace(entries=[*found.entries, message]), STAMP)))
    assert [line for line in before if line not in after] == []


def test_a_save_lays_out_only_what_is_new(tmp_path, monkeypatch):
    """However long the session is, once it was read."""
    store = store_in(tmp_path)
    said = turns(203)
    ref = store.create(Header(ID, STAMP), said[:200])
    done: list[bytes] = []

    def counted(raw: bytes, depth: int) -> bytes:
        done.append(raw)
        return json_text.laid_out(raw, depth)

    monkeypatch.setattr(soleur_format, "laid_out", counted)
    with store.writer(ref, after=None) as writer:
        writer.append(said[200:201])
        done.clear()
        writer.append(said[201:])
    assert len(done) == 2


def test_an_append_that_came_to_nothing_leaves_no_trace(tmp_path, monkeypatch):
    """Neither in the file nor in what the next save remembers."""
    store = store_in(tmp_path)
    said = turns(3)
    ref = store.create(Header(ID, STAMP), said[:1])
    with store.writer(ref, after=None) as writer:
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", refused)
            with pytest.raises(NotSaved):
                writer.append([said[1], *turns(2, said[1])])
        writer.append(said[1:])
    assert meanings(store.read(ref).entries) == meanings(said)


def refused(*arguments, **options):
    raise OSError(errno.EIO, "refused")
