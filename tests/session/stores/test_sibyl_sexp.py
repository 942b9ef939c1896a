"""Sibyl's layout keeps the contract of every durable store; and its files look as they are said to."""

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import Held, InvalidId
from perdure.session import context, ids, sexp, tree
from perdure.session.entry import (
    BranchSummary,
    Compaction,
    ContextEdit,
    Custom,
    CustomMessage,
    Entry,
    ModelChange,
    ThinkingLevelChange,
    meaning,
    new,
)
from perdure.session.layouts import LAYOUTS
from perdure.session.session import Session
from perdure.session.sexp import Keyword
from perdure.session.stores import Header, sibyl_rules
from perdure.session.stores.sibyl_format import message_form, properties
from perdure.session.stores.sibyl_sexp import SibylStore
from perdure.testing import DurableStoreContract, assistant_entry, user_entry
from perdure.testing.corpus import message_record, record
from perdure.testing.writing import child, turns
from tests.generated import sessions
from tests.sibyl_files import GOLDEN, WHOLE, put, read_form, store_in

STAMP = "2026-01-31T09:05:00.123Z"


def kept(entry: Entry) -> Entry:
    left = sibyl_rules.stripped(entry)
    assert left
    return left


class TestSibylStore(DurableStoreContract):
    drops = LAYOUTS["sibyl"].drops

    def make_store(self, tmp_path):
        return SibylStore(str(tmp_path / "sibyl"), durability="process")

    def write_behind(self, store, ref, entry):
        """As a Lisp program would: the whole form is read, a message added, and the form printed."""
        path = Path(ref.path)
        form = read_form(path.read_text())
        at = form.index(sexp.Keyword("messages")) + 1
        form[at] = [*(form[at] or []), message_form(kept(entry))]
        path.write_text(sexp.dumps(form))

    def kept(self, entry):
        return meaning(kept(entry))

    def steps_to(self, store, ref):
        return [Path(ref.path).parent, Path(ref.path)]


class TestSibylStoreInOneFolder(TestSibylStore):
    """The same promises where somebody named the folder of the sessions."""

    # What is in a file does not depend on where that is.
    test_each_kind_of_entry_is_kept = None  # type: ignore[assignment]
    test_hostile_text_comes_back = None  # type: ignore[assignment]
    test_hostile_values_come_back = None  # type: ignore[assignment]

    def make_store(self, tmp_path):
        return SibylStore(str(tmp_path), sessions_dir=str(tmp_path / "mine"), durability="process")


def saved(store, entries, **header):
    return store.create(Header("s1", STAMP, **header), entries)


def append(store, ref, *entries):
    with store.writer(ref, after=None) as writer:
        writer.append(entries)


def chained(*entries):
    """Each the child of the one before it."""
    made: list[Entry] = []
    for entry in entries:
        made.append(child(entry, made[-1] if made else None))
    return made


def form_of(ref) -> dict[str, Any]:
    """The fields of a session's form, as Lisp's `getf` sees them."""
    form = read_form(Path(ref.path).read_text())
    assert form[:2] == [Keyword("repl-session"), [Keyword("session-version"), 1]]
    return {key.name: value for key, value in properties(form[2:]).items()}


def sent(path) -> list[Any]:
    """The contents of what a model would be sent."""
    messages: list[Any] = context.build(path).messages
    return [message.content for message in messages]


def texts(forms) -> list[sexp.Value]:
    return [properties(form)[Keyword("content")] for form in forms or []]


# --- places -----------------------------------------------------------------------------------------


def test_sib_06_a_session_is_a_file_in_a_folder_of_its_own(tmp_path):
    """Its lock, its trash and the index lie where the document and the other programs have them."""
    store = store_in(tmp_path)
    ref = saved(store, turns(1))
    assert Path(ref.path) == tmp_path / "sessions" / "s1" / "session.lisp"
    append(store, ref, user_entry("more"))
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [
        *("index.lisp", "index~.lock", "s1.lock", "session.lisp")
    ]
    assert (tmp_path / "sessions" / "index.lisp").is_file()
    store.delete(ref)
    assert (tmp_path / "trash" / "s1" / "s1" / "session.lisp").is_file()
    assert not (tmp_path / "sessions" / "s1").exists()


def test_sib_06_a_session_has_one_lock_however_it_was_opened(tmp_path):
    """Through its home, through the folder of its sessions, through a link to that: the second one waits."""
    store = store_in(tmp_path / "home")
    ref = saved(store, turns(1))
    (tmp_path / "link").symlink_to(tmp_path / "home" / "sessions")
    for folder in (tmp_path / "home" / "sessions", tmp_path / "link"):
        other = SibylStore(str(tmp_path / "elsewhere"), sessions_dir=str(folder), durability="process")
        (found,) = other.list()
        with store.writer(ref), pytest.raises(Held):
            other.writer(found, wait=0)
    named = SibylStore("ignored", sessions_dir=str(tmp_path / "mine"), durability="process")
    append(named, saved(named, turns(1)), user_entry("more"))
    assert (tmp_path / "mine" / "locks" / "s1.lock").is_file()
    assert [found.id for found in named.list()] == ["s1"]


@pytest.mark.parametrize("id", ["locks", "trash"])
def test_sib_06_a_session_is_not_made_where_locks_or_deleted_ones_are(tmp_path, id):
    """Which is beside the sessions, if somebody named their folder."""
    named = SibylStore("ignored", sessions_dir=str(tmp_path / "mine"), durability="process")
    with pytest.raises(InvalidId):
        named.create(Header(id, STAMP))
    assert store_in(tmp_path).create(Header(id, STAMP)).id == id


def test_sib_06_only_a_folder_with_a_session_in_it_is_one(tmp_path):
    """Neither the index, nor a file, nor a folder that is empty or holds something else."""
    store = store_in(tmp_path)
    saved(store, turns(1))
    (tmp_path / "sessions" / "empty").mkdir()
    (tmp_path / "sessions" / "other").mkdir()
    (tmp_path / "sessions" / "other" / "notes.txt").touch()
    (tmp_path / "sessions" / "session.lisp").touch()
    assert [found.id for found in store.list()] == ["s1"]


def test_sib_05_a_new_id_is_that_of_no_session_there_is(tmp_path, monkeypatch):
    """However unlikely it is that one comes twice."""
    store = store_in(tmp_path)
    taken = ids.sibyl_id()
    store.create(Header(taken, STAMP))
    made = iter([taken, taken, "session-20250220-143022-000001"])
    monkeypatch.setattr(ids, "sibyl_id", lambda: next(made))
    assert store.new_id(Header("", STAMP)) == "session-20250220-143022-000001"


# --- what a file looks like -------------------------------------------------------------------------


def test_sib_03_a_session_looks_as_the_document_shows_it(tmp_path):
    """The document's fields first and in its order, then ours; nothing of ours where there is nothing to
    say."""
    store = store_in(tmp_path)
    ref = saved(store, chained(user_entry("hello"), assistant_entry("yes")))
    names = re.findall(r"^ :([a-z-]+)", Path(ref.path).read_text(), re.MULTILINE)
    assert names == [
        *("id", "created-at", "last-modified", "message-count", "command-count", "summary", "messages")
    ]
    fields = form_of(ref)
    assert (fields["id"], fields["created-at"], fields["message-count"]) == ("s1", STAMP, 2)
    assert (fields["command-count"], fields["summary"]) == (0, None)
    assert texts(fields["messages"]) == ["hello", "yes"]


def test_sib_03_an_empty_session_has_no_messages(tmp_path):
    """And can be read."""
    ref = saved(store_in(tmp_path), [])
    assert form_of(ref)["messages"] is None


def test_sib_03_a_message_added_adds_a_line_and_changes_none_of_the_others(tmp_path):
    """So that a diff shows what was said."""
    store = store_in(tmp_path)
    said = turns(3)
    ref = saved(store, said[:2])
    before = Path(ref.path).read_text().splitlines()
    append(store, ref, said[2])
    after = Path(ref.path).read_text().splitlines()
    messages = [line for line in after if line.startswith("(:role")]
    assert messages[:2] == [line for line in before if line.startswith("(:role")]
    assert len(after) == len(before) + 1


@given(sessions())
def test_sib_03_any_session_comes_back(entries):
    """In its order, with every branch; but for what the document forbids."""
    with tempfile.TemporaryDirectory() as folder:
        store = store_in(Path(folder))
        ref = saved(store, entries)
        page = store.read(ref)
        assert page.problems == []
        expected = sibyl_rules.Dropped().allowed(entries, [])
        assert [meaning(entry) for entry in page.entries] == [meaning(entry) for entry in expected]
        folded = tree.fold(page.entries)
        assert folded.notices == []
        assert (folded.ends.head is None) == (tree.fold(expected).ends.head is None)
        count = form_of(ref)["message-count"]
        assert count == len(form_of(ref)["messages"] or [])


@given(sessions(), st.data())
def test_sib_03_a_session_saved_in_parts_is_the_same(entries, data):
    """What an earlier append left out is known to the later ones: the tree stays in one piece."""
    with tempfile.TemporaryDirectory() as folder:
        store = store_in(Path(folder))
        whole = saved(store, entries)
        parts = store.create(Header("s2", STAMP))
        with store.writer(parts) as writer:
            at = 0
            while at < len(entries):
                size = data.draw(st.integers(1, 3))
                writer.append(entries[at : at + size])
                at += size
        assert store.read(parts).entries == store.read(whole).entries
        fields, others = form_of(whole), form_of(parts)
        for name in ("messages", "entries", "summary", "summarized", "context-start"):
            assert fields.get(name) == others.get(name)


# --- what is not kept -------------------------------------------------------------------------------


def test_g_2_what_the_document_forbids_is_not_in_the_file(tmp_path):
    """System messages, thinking, usage, cost, models and tools: not a word of it, wherever it stood."""
    store = store_in(tmp_path)
    thought = {"type": "thinking", "thinking": "SECRET", "thinkingSignature": "SECRET"}
    usage = {"input": 987654, "cost": {"total": 987654}}
    entries = chained(
        Entry.message("system", "SECRET"),
        new(ModelChange("SECRET", "SECRET"), id="a"),
        new(ThinkingLevelChange("SECRET"), id="b"),
        record("active_tools_change", b',"activeToolNames":["SECRET"]'),
        record("usage", b',"usage":987654'),
        Entry.message("assistant", [thought, {"type": "text", "text": "yes"}], model="SECRET", usage=usage),
        Entry.message(
            "assistant", [{"type": "text", "text": "\ud800"}, thought], api="SECRET", provider="SECRET"
        ),
        Entry.message("user", [thought]),
        new(CustomMessage("x", [thought]), id="c"),  # type: ignore[list-item]
        new(ContextEdit("m", {"content": [thought], "usage": usage}), id="d"),
        new(Compaction("so far", "a", usage=usage), id="e"),
        new(BranchSummary("a", "so far", usage=usage), id="f"),
    )
    ref = saved(store, entries, facts={"model": "SECRET", "tools": ["SECRET"], "agent_config": "SECRET"})
    text = Path(ref.path).read_text()
    assert "SECRET" not in text
    assert "987654" not in text
    assert "thinking" not in text
    assert tree.fold(store.read(ref).entries).notices == []
    assert store.read(ref).header.facts == {}


@pytest.mark.parametrize(
    ("entry", "kinds"),
    [
        (Entry.message("system", "be brief"), ["system"]),
        (Entry.message("assistant", "hi"), []),
        (Entry.message("assistant", "hi", model="m", usage={"input": 1}), ["usage", "model"]),
        (Entry.message("assistant", "hi", provider="p", api="a", model="m"), ["model"]),
        (
            Entry.message(
                "assistant", [{"type": "thinking"}, {"type": "thinking"}], usage={"input": 1}, model="m"
            ),
            ["thinking", "thinking", "usage", "model"],
        ),
        (new(ModelChange("p", "m"), id="a"), ["model"]),
        (new(ThinkingLevelChange("high"), id="a"), ["thinking level"]),
        (record("active_tools_change"), ["tools"]),
        (new(Compaction("s", usage={"input": 3}), id="a"), ["usage"]),
        (new(Compaction("s", usage={"input": 0}), id="a"), []),
        (record("from_the_future", b',"usage":1,"model":"m"'), []),
        (user_entry("thinking of usage"), []),
    ],
)
def test_g_2_what_is_left_out_is_named_once_for_each_time(tmp_path, entry, kinds):
    """A usage of zero and a model without a name are nothing to report."""
    assert list(store_in(tmp_path).forbidden(entry)) == kinds
    assert set(kinds) <= LAYOUTS["sibyl"].drops


def test_g_2_a_compaction_keeps_what_it_kept_when_its_first_entry_is_left_out(tmp_path):
    """It then begins with the next one: what a model is sent stays the same."""
    store = store_in(tmp_path)
    change = new(ModelChange("p", "m"), id="change")
    entries = chained(user_entry("one"), change, user_entry("two"), new(Compaction("s", "change"), id="c"))
    ref = saved(store, entries)
    path = tree.path(store.read(ref).entries, "c")
    assert len(sent(path)) == 2
    assert sent(path)[1] == "two"
    assert form_of(ref)["summarized"] == 1


# --- branches, summaries, resets, counts ------------------------------------------------------------


def test_sib_03_messages_are_the_conversation_as_it_stands(tmp_path):
    """Other branches are kept beside it; going back to one makes it the conversation again."""
    store = store_in(tmp_path)
    one, two, three = turns(3)
    other = child(user_entry("other"), one)
    ref = saved(store, [one, two, three, other])
    assert texts(form_of(ref)["messages"]) == ["turn 0", "other"]
    append(store, ref, child(user_entry("back"), three))
    assert texts(form_of(ref)["messages"]) == ["turn 0", "turn 1", "turn 2", "back"]
    assert [entry.text for entry in store.read(ref).entries] == [
        "turn 0",
        "turn 1",
        "turn 2",
        "other",
        "back",
    ]


def test_sib_03_the_summary_is_that_of_the_last_compaction(tmp_path):
    """With the number of messages it stands for. One on another branch does not count."""
    store = store_in(tmp_path)
    said = turns(4)
    first = child(new(Compaction("first", said[1].id), id="c1"), said[3])
    second = child(new(Compaction("second", said[3].id), id="c2"), first)
    ref = saved(store, [*said, first])
    assert (form_of(ref)["summary"], form_of(ref)["summarized"]) == ("first", 1)
    append(store, ref, second)
    assert (form_of(ref)["summary"], form_of(ref)["summarized"]) == ("second", 3)
    append(store, ref, child(user_entry("elsewhere"), said[0]))
    assert form_of(ref)["summary"] is None
    assert "summarized" not in form_of(ref)


def test_sib_12_a_reset_keeps_all_messages_and_says_where_the_context_starts(tmp_path):
    """The message count counts all of them, and a summary from before says nothing any more."""
    store = store_in(tmp_path)
    said = turns(2)
    summary = child(new(Compaction("before", said[0].id), id="c"), said[-1])
    reset = child(new(Custom(context.RESET), id="reset-1"), summary)
    ref = saved(store, [*said, summary, reset])
    fields = form_of(ref)
    assert (fields["message-count"], fields["context-start"], fields["summary"]) == (2, 2, None)
    append(store, ref, child(user_entry("again"), reset))
    fields = form_of(ref)
    assert texts(fields["messages"]) == ["turn 0", "turn 1", "again"]
    assert (fields["message-count"], fields["context-start"]) == (3, 2)
    with Session.open(store, ref) as session:
        assert sent(session.path()) == ["again"]


def test_sib_16_the_command_count_is_the_highest_that_was_recorded(tmp_path):
    """By the file, or by an entry behind it."""
    store = store_in(tmp_path)
    ref = saved(store, turns(1), facts={"command_count": 5})
    assert form_of(ref)["command-count"] == 5
    assert store.read(ref).header.facts == {"command_count": 5}
    last = store.read(ref).entries[-1]
    append(store, ref, child(new(Custom("perdure.commands", {"count": 9}), id="k"), last))
    assert form_of(ref)["command-count"] == 9
    append(store, ref, user_entry("more"))
    assert form_of(ref)["command-count"] == 9


def test_g_2_what_is_known_of_a_session_as_a_whole_is_kept(tmp_path):
    """Where it was made, what it was forked from, and whatever else somebody said of it."""
    store = store_in(tmp_path)
    facts = {"title": "T \ud800", "status": "active", "deep": {"a": [1, None]}}
    ref = saved(store, turns(1), cwd="/home/me/\0", parent_session='/a "b" \\', facts=facts)
    for _ in range(2):
        header = store.read(ref).header
        assert header == Header("s1", STAMP, "/home/me/\0", '/a "b" \\', facts)
        append(store, ref, user_entry("more"))


# --- other programs' files --------------------------------------------------------------------------


def test_sib_03_a_session_of_the_document_is_read(tmp_path):
    """Messages without ids are numbered, each the child of the one before it."""
    store, ref = put(tmp_path, (GOLDEN / "document.lisp").read_bytes())
    page = store.read(ref)
    assert [(entry.id, entry.parent_id, entry.role) for entry in page.entries] == [
        ("r1", None, "user"),
        ("r2", "r1", "assistant"),
        ("r3", "r2", "toolResult"),
        ("r4", "r3", "assistant"),
    ]
    calls = json.loads(page.entries[1].raw)["message"]["content"][1:]
    assert [call["arguments"] for call in calls] == [{"command": "ls", "timeout": 5}, {}]
    assert page.header == Header("s1", "2025-02-20T14:30:22Z", facts={"command_count": 3})
    assert page.problems == []


@pytest.mark.parametrize("path", [path for path in WHOLE if path.stem != "ours"], ids=lambda path: path.stem)
def test_g_2_another_programs_file_is_written_back_as_it_was(tmp_path, path):
    """Each message in its own words, with its place in the tree behind them; and every field."""
    store, ref = put(tmp_path, path.read_bytes())
    before = store.read(ref)
    old = read_form(path.read_text())
    append(store, ref, child(user_entry("more"), before.entries[-1]))
    after = store.read(ref)
    assert after.problems == []
    assert after.entries[:-1] == before.entries
    assert after.header == before.header
    fields = form_of(ref)
    known = [each for each in old[1:] if each != [Keyword("session-version"), 1]]
    for key, value in zip(known[::2], known[1::2], strict=True):
        if key.name == "messages":
            for was, now in zip(value, fields["messages"], strict=False):
                assert now[: len(was)] == was
                assert [each.name for each in now[len(was) :: 2]] == ["entry-id", "parent-id"]
        elif key.name not in ("last-modified", "message-count"):
            assert fields[key.name] == value


def test_g_2_fields_nobody_knows_are_facts_of_the_session(tmp_path):
    """So that they go with it to any layout. A time may be counted from 1900, as Lisp does."""
    store, ref = put(tmp_path, (GOLDEN / "numbers-and-blocks.lisp").read_bytes())
    page = store.read(ref)
    assert page.header.facts == {"project": "sibyl", "mood": {"level": 1.5, "notes": ["a", "b"]}}
    assert page.header.timestamp == "2025-02-20T14:30:22.000Z"
    assert [entry.timestamp for entry in page.entries] == [
        "2025-02-20T14:30:25.000Z",
        "2025-02-20T14:30:31.000Z",
    ]
    assert json.loads(page.entries[1].raw)["tone"] == "dry"


def test_sib_03_a_summary_without_its_compaction_stands_before_the_messages(tmp_path):
    """It is sent with them, and it is the same session after the next save."""
    store, ref = put(tmp_path, (GOLDEN / "upper-case.lisp").read_bytes())
    page = store.read(ref)
    assert [entry.id for entry in page.entries] == ["summary", "r1", "r2", "r3"]
    assert "They spoke of files." in sent(page.entries)[0]
    assert len(sent(page.entries)) == 4
    append(store, ref, child(user_entry("more"), page.entries[-1]))
    assert store.read(ref).entries[:-1] == page.entries
    assert form_of(ref)["summary"] == "They spoke of files."


THREE = """(:repl-session :id "s1" {fields} :messages (
(:role :user :content "one" :entry-id "a" :parent-id nil)
(:role :user :content "two")
(:role :user :content "three" :entry-id "c" :parent-id "r2")))"""


@pytest.mark.parametrize(
    ("fields", "ids", "shown"),
    [
        (":summary nil :context-start 0", ["a", "r2", "c"], ["one", "two", "three"]),
        (':summary "s"', ["summary", "a", "r2", "c"], ["s", "one", "two", "three"]),
        (':summary "s" :summarized 1', ["a", "summary", "r2", "c"], ["s", "two", "three"]),
        (':summary "s" :summarized 2', ["a", "r2", "summary", "c"], ["s", "three"]),
        (':summary "s" :summarized 3', ["a", "r2", "c", "summary"], ["s"]),
        (':summary "s" :summarized 99', ["a", "r2", "c", "summary"], ["s"]),
        (":context-start 1", ["a", "reset", "r2", "c"], ["two", "three"]),
        (":context-start 2", ["a", "r2", "reset", "c"], ["three"]),
        (':summary "s" :context-start 2', ["a", "r2", "reset", "summary", "c"], ["s", "three"]),
    ],
)
def test_sib_12_what_only_fields_say_is_said_by_entries(tmp_path, fields, ids, shown):
    """Where the context starts and what a summary covers; the tree is whole, and the next save keeps it."""
    store, ref = put(tmp_path, THREE.format(fields=fields).encode())
    page = store.read(ref)
    assert [entry.id for entry in page.entries] == ids
    folded = tree.fold(page.entries)
    assert folded.notices == []
    path = tree.path(folded.entries, folded.ends.head)
    assert [entry.id for entry in path] == ids
    assert [re.sub(r"(?s).*<summary>\n(.*)\n</summary>", r"\1", text) for text in sent(path)] == shown
    append(store, ref, child(user_entry("more"), page.entries[-1]))
    assert store.read(ref).entries[:-1] == page.entries


def test_sib_03_a_name_somebody_else_has_is_not_given_twice(tmp_path):
    """A message without an id is numbered, but not with a number that is taken."""
    text = (
        '(:repl-session :messages ((:role :user :content "one") (:role :user :content "two" :entry-id "r1")))'
    )
    store, ref = put(tmp_path, text.encode())
    assert [entry.id for entry in store.read(ref).entries] == ["r1.2", "r1"]


def test_sib_03_a_message_another_program_adds_follows_the_conversation(tmp_path):
    """Not a branch that happens to stand before it, nor one of which it knows nothing."""
    store = store_in(tmp_path)
    one, two = turns(2)
    left = child(user_entry("left"), one)
    bash = child(message_record(b'"x"', b"oracle"), two)
    ref = saved(store, [one, left, two, bash])
    path = Path(ref.path)
    path.write_text(path.read_text().replace("\n )\n", '\n(:role :user :content "theirs")\n )\n', 1))
    entries = store.read(ref).entries
    assert [entry.text for entry in entries] == ["turn 0", "left", "turn 1", "x", "theirs"]
    assert entries[-1].parent_id == bash.id


def test_g_2_a_form_that_is_no_message_is_kept_in_its_place(tmp_path):
    """As another program may have its own in the list."""
    text = (GOLDEN / "damaged" / "not-messages.lisp").read_bytes()
    store, ref = put(tmp_path, text)
    before = store.read(ref).entries
    assert [entry.type for entry in before] == ["message", "message", "form", "message", "message"]
    append(store, ref, child(user_entry("five"), before[-1]))
    assert b'\n(:note "mine" :level 3)\n' in Path(ref.path).read_bytes()
    assert store.read(ref).entries[:-1] == before
