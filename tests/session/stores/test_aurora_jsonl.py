"""Aurora's layout keeps the contract of every durable store; and its files look as they are said to."""

import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import NotSaved, PerdureError
from perdure.session import ids, lifecycle
from perdure.session.context import build
from perdure.session.entry import Assistant, Entry, Text, ToolCall, ToolResult, User, decode, meaning, new
from perdure.session.record import dumps
from perdure.session.session import Session
from perdure.session.stores import Found, Header
from perdure.session.stores.aurora_jsonl import AuroraStore
from perdure.testing import (
    DurableStoreContract,
    assistant_entry,
    tool_call_entry,
    tool_result_entry,
    user_entry,
)
from tests.aurora_files import GOLDEN, ID, METADATA, chain, put, store_in, text_of, turn
from tests.generated import json_values, sessions, texts
from tests.layouts import Seen, store_of

STAMP = "2026-01-31T09:05:00.123Z"


class TestAuroraStore(DurableStoreContract):
    def make_store(self, tmp_path):
        return AuroraStore(str(tmp_path / "aurora"), cwd="/home/me/code", durability="process")

    def kept(self, entry):
        return meaning(entry)

    def write_behind(self, store, ref, entry):
        """As another program that writes turns: a line at the end, without a look at what is there."""
        record = json.loads(entry.raw)
        said = record["message"]
        line = {"type": "turn", "role": said["role"], "content": entry.text, "timestamp": record["timestamp"]}
        line |= {"id": entry.id, "parent_id": entry.parent_id}
        line["message"] = {key: value for key, value in said.items() if key not in ("role", "content")}
        with open(ref.path, "ab") as file:
            file.write(json.dumps(line).encode() + b"\n")


def append(store, ref, *entries):
    with store.writer(ref) as writer:
        writer.catch_up()
        writer.append(entries)


def lines_of(ref: Found):
    return [json.loads(line) for line in Path(ref.path).read_bytes().splitlines()]


def said(role: str, content: object, **members: object) -> Entry:
    """A message of exactly these members, at a time of its own."""
    message = {"role": role, "content": content, "timestamp": 1769850300123, **members}
    return decode(
        dumps({"type": "message", "id": "m1", "parentId": None, "timestamp": STAMP, "message": message})
    )


def beside(entry: Entry, **members: object) -> Entry:
    """The entry with members of its own beside the message."""
    return decode(dumps({**json.loads(entry.raw), **members}))


def written(entry: Entry):
    """The line an entry becomes."""
    store = store_in(Path("/nowhere"))
    return json.loads(store.line(entry, store.reader(Found(ID, f"/nowhere/{ID}.jsonl"))))


def read_of(line: bytes) -> Entry:
    """The entry a line becomes, behind the entry `before`."""
    reader = store_in(Path("/nowhere")).reader(Found(ID, f"/nowhere/{ID}.jsonl"))
    reader.headed = True
    for text in (turn("before", None), line):
        reader.take(text, 2)
    assert len(reader.entries) == 2
    return reader.entries[1]


# --- names and metadata -----------------------------------------------------------------------------


def test_sessions_are_files_in_one_folder_named_by_their_ids(tmp_path):
    """Whatever else is in there; locks and trash are beside it, in the home."""
    store = store_in(tmp_path)
    made = [store.create(Header(store.new_id(Header("", STAMP)), STAMP)) for _ in range(3)]
    assert all(re.fullmatch("session-[0-9a-f]{12}", ref.id) for ref in made)
    assert {ref.path for ref in made} == {f"{tmp_path}/spawn/sessions/{ref.id}.jsonl" for ref in made}
    for name in ("notes.txt", "x.jsonl.damaged", "x.jsonl.tmp"):
        Path(store.root, name).touch()
    Path(store.root, "folder").mkdir()
    assert sorted(store.list()) == sorted(made)
    append(store, made[0], user_entry("hello"))
    store.delete(made[1])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["locks", "spawn", "trash"]
    assert Path(tmp_path, "locks", f"{made[0].id}.lock").exists()


def test_where_there_is_no_folder_there_are_no_sessions(tmp_path):
    """Listing neither fails nor makes one; what is no folder is said."""
    assert list(store_in(tmp_path / "nothing").list()) == []
    assert not (tmp_path / "nothing").exists()
    (tmp_path / "spawn").mkdir()
    (tmp_path / "spawn" / "sessions").touch()
    with pytest.raises(PerdureError, match="sessions"):
        list(store_in(tmp_path).list())


def test_aur_10_the_metadata_is_on_disk_as_soon_as_there_is_a_session(tmp_path):
    """In one exact form: what the document names, then where the session was started."""
    ref = store_in(tmp_path).create(Header("s1", STAMP))
    assert Path(ref.path).read_bytes() == (
        b'{"type":"metadata","session_id":"s1","agent":"default","created_at":"2026-01-31T09:05:00.123Z",'
        b'"status":"active","cwd":"/home/me/code"}\n'
    )


def test_facts_come_back_whatever_they_are_called(tmp_path):
    """Those the document names in its places, any other behind them, none in place of what is ours."""
    store = store_in(tmp_path)
    facts = {
        "agent": "qa-test",
        "status": "completed",
        "tags": ["a", {"b": None}],
        "model": "m",
        "é\u2028": 1.5,
    }
    facts |= {name: f"a fact called {name}" for name in ("type", "session_id", "created_at", "cwd", "facts")}
    header = Header("s1", STAMP, "/here", "/old/session-1.jsonl", facts)
    ref = store.create(header)
    assert store.read(ref).header == header
    line = lines_of(ref)[0]
    assert list(line)[:6] == ["type", "session_id", "agent", "created_at", "status", "cwd"]
    assert (line["type"], line["session_id"], line["cwd"]) == ("metadata", "s1", "/here")
    assert (line["agent"], line["tags"], line["parent_session"]) == ("qa-test", facts["tags"], header[3])


@given(st.dictionaries(texts, json_values, max_size=5))
def test_any_facts_come_back(facts):
    """Through the line alone: nothing else knows them."""
    store, ref = store_in(Path("/nowhere")), Found("s1", "/nowhere/s1.jsonl")
    reader = store.reader(ref)
    reader.record(store.first_line(ref, Header("s1", STAMP, "/here", facts=facts)), 1)
    assert reader.header.facts == {"agent": "default", "status": "active", **facts}


def test_a_directory_whose_name_is_not_text_can_be_in_the_metadata(tmp_path):
    """Bytes that are no UTF-8 arrive as lone surrogates, and leave as their escapes."""
    store = AuroraStore(str(tmp_path), cwd=os.fsdecode(b"/home/\xff"), durability="process")
    assert store.read(store.create(Header("s1", STAMP))).header.cwd == os.fsdecode(b"/home/\xff")


def test_a_name_that_is_taken_is_refused(tmp_path):
    """The error names the file, and what is there stays."""
    store = store_in(tmp_path)
    ref = store.create(Header("mine", STAMP), [user_entry("hello")])
    with pytest.raises(NotSaved, match=r"mine\.jsonl: File exists"):
        store.create(Header("mine", STAMP))
    assert Seen(store, ref).path == ["hello"]


# --- lines ------------------------------------------------------------------------------------------


def test_aur_10_a_session_is_written_as_the_golden_file_shows(tmp_path):
    """Every kind of line: what is read from it and written again is the same, byte for byte."""
    golden = (GOLDEN / "ours.jsonl").read_bytes()
    store, ref = put(tmp_path, golden)
    page = store.read(ref)
    assert page.problems == []
    Path(ref.path).unlink()
    copy = store.create(page.header, page.entries)
    assert Path(copy.path).read_bytes() == golden


def test_aur_10_the_documents_members_come_first_in_its_order(tmp_path):
    """In every line of every entry a conversation makes; ours follow."""
    store = store_in(tmp_path)
    ref = store.create(Header("s1", STAMP))
    with Session.open(store, ref) as session:
        session.append(user_entry("look"), tool_call_entry("bash", {"command": "ls"}))
        session.append(tool_result_entry("README.md"), assistant_entry("One file."))
        session.append(said("system", "be brief"))
        lifecycle.AURORA.change(session, "completed")
        session.rename("a name")
    document = {
        "metadata": ["type", "session_id", "agent", "created_at"],
        "turn": ["type", "role", "content", "timestamp", "tokens"],
        "tool_result": ["type", "tool_call_id", "name", "content", "is_error", "timestamp"],
        "status": ["type", "status", "timestamp", "id", "parent_id"],
        "entry": ["type", "entry"],
    }
    made = lines_of(ref)
    assert [line["type"] for line in made] == [
        *("metadata", "turn", "turn", "tool_result", "turn", "turn", "status", "entry")
    ]
    for line in made:
        named = document[line["type"]]
        assert list(line)[: len(named)] == named
    assert [line["role"] for line in made if "role" in line] == ["user", "assistant", "assistant", "system"]
    assert made[2]["tool_calls"][0]["name"] == "bash"
    assert made[5]["content"] == "be brief"


@given(sessions())
def test_what_is_written_says_the_same_when_it_is_read(made):
    """Every kind of entry, with any text in it; and each line stands for itself."""
    store, ref = store_in(Path("/nowhere")), Found("s1", "/nowhere/s1.jsonl")
    reader = store.reader(ref)
    reader.headed = True
    for line in store.text(ref, None, made, reader).split(b"\n")[:-1]:
        reader.take(line, 2)
    assert reader.problems == []
    assert not reader.adopted
    assert [meaning(entry) for entry in reader.entries] == [meaning(entry) for entry in made]


NAMES = ["tokens", "role", "content", "name", "thinking", "failed", "parent_id", "usage", "mood", "status"]


@given(
    role=st.sampled_from(["user", "assistant", "system", "toolResult", "oracle"]),
    content=st.one_of(texts, json_values),
    usage=st.one_of(st.integers(-1, 2**70), json_values),
    members=st.dictionaries(st.sampled_from(NAMES), st.one_of(st.integers(0, 3), json_values), max_size=3),
    extras=st.dictionaries(st.sampled_from(NAMES), st.one_of(st.integers(0, 3), json_values), max_size=3),
)
def test_any_message_is_kept_whatever_its_members_are_called(role, content, usage, members, extras):
    """In the message and beside it, also by names that mean something in a line of this layout."""
    message = {**members, "role": role, "content": content, "usage": {"output": usage}}
    entry = beside(
        new(lifecycle.body("x"), id="m1", timestamp=STAMP), type="message", message=message, **extras
    )
    store, ref = store_in(Path("/nowhere")), Found("s1", "/nowhere/s1.jsonl")
    assert meaning(read_of(store.line(entry, store.reader(ref)))) == meaning(entry)


def test_a_status_that_says_more_is_kept_whole():
    """Only one that says nothing else is a status line."""
    plain = new(lifecycle.body("completed"), id="c1", parent_id="m1", timestamp=STAMP)
    assert written(plain) == {
        **{"type": "status", "status": "completed", "timestamp": STAMP, "id": "c1", "parent_id": "m1"}
    }
    for odd in (
        beside(plain, data={"status": "completed", "why": "tired"}),
        beside(plain, data={"status": 7}),
        beside(plain, data=None),
        beside(plain, mood="fine"),
        beside(plain, timestamp=7),
        beside(plain, customType="perdure.context"),
    ):
        assert written(odd) == {"type": "entry", "entry": json.loads(odd.raw)}


@pytest.mark.parametrize("line", [b'{"type":"message",\n"id":"x"}', b'["no object"]', b""])
def test_what_is_no_record_on_one_line_is_not_written(tmp_path, line):
    """Nor is anything beside it."""
    store, ref = put(tmp_path, text_of(METADATA))
    with store.writer(ref) as writer, pytest.raises(NotSaved):
        writer.append([user_entry("before"), Entry("message", "x", line=line)])
    assert Path(ref.path).read_bytes() == text_of(METADATA)


@pytest.mark.slow
def test_a_record_too_long_to_be_read_again_is_not_written(tmp_path):
    """The error says so before a byte of it is on disk."""
    store, ref = put(tmp_path, text_of(METADATA))
    with store.writer(ref) as writer, pytest.raises(NotSaved, match="64 MB"):
        writer.append([user_entry("x" * (64 * 2**20))])
    assert Path(ref.path).read_bytes() == text_of(METADATA)


# --- tokens -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("four", 1),
        ("fives", 2),
        ("ééééé", 2),
        ("👩👩👩👩", 1),
        ('"\\\n\0"', 2),
        ("\ud800", 1),
    ],
)
def test_a_turn_counts_a_quarter_of_its_characters(text, tokens):
    """Rounded up, by character and not by byte, however it is escaped."""
    assert written(said("user", text))["tokens"] == tokens


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"output": 99, "input": 5}, 99),
        ({"output": 0}, 3),
        ({"output": -4}, 3),
        ({"output": "99"}, 3),
        ({"input": 5}, 3),
        ({"output": 2**70}, 3),
        (None, 3),
        ([], 3),
    ],
)
def test_a_turn_counts_what_the_provider_said_it_took(usage, tokens):
    """If it said anything that can be a count."""
    assert (
        written(said("assistant", [{"type": "text", "text": "ten bytes."}], usage=usage))["tokens"] == tokens
    )


def test_the_figure_of_another_program_is_kept(tmp_path):
    """As a member of the entry, because it does not follow from the turn; and so written again."""
    line = turn("m2", "m1", "text").replace(b'"tokens":1', b'"tokens":412')
    store, ref = put(tmp_path, text_of(METADATA, *chain(1), line))
    one, other = store.read(ref).entries
    assert "tokens" not in json.loads(one.raw)
    assert json.loads(other.raw)["tokens"] == 412
    copy = store.create(Header("copy", STAMP), [one, other])
    assert lines_of(copy)[1:] == lines_of(ref)[1:]


@pytest.mark.parametrize("tokens", [1, 1.0, 2, -1, 10**30, "1", None, [], {"output": 7}])
def test_an_entry_may_have_a_member_tokens_of_its_own(tokens):
    """Any value comes back, also the one that a turn has anyway."""
    entry = beside(said("user", "text"), tokens=tokens)
    line = written(entry)
    assert line["type"] == ("entry" if tokens == 1 and isinstance(tokens, int) else "turn")
    assert meaning(read_of(dumps(line))) == meaning(entry)


@pytest.mark.parametrize(
    "line",
    [
        '{"type":"turn","role":"user","content":["abcdefgh"],"tokens":%d}',
        '{"type":"turn","role":"user","content":[{"type":"text","text":"abcdefgh"}],"tokens":%d}',
        '{"type":"turn","role":"assistant","content":null,"tokens":%d}',
        '{"type":"turn","role":"assistant","content":"a","tokens":%d,"message":{"usage":{"output":2}}}',
        '{"type":"turn","role":"oracle","content":"abcdefgh","tokens":%d}',
        '{"type":"turn","role":"tool","content":"abcdefgh","tokens":%d}',
        '{"role":"user","content":"abcdefgh","tokens":%d}',
    ],
)
def test_the_figure_of_a_turn_in_another_form_is_kept(line):
    """What is read of it and written again says what it said, whichever figure would be ours."""
    for tokens in range(4):
        entry = read_of((line % tokens).encode())
        again = written(entry)
        assert again.get("tokens", again.get("entry", {}).get("tokens")) == tokens
        assert meaning(read_of(dumps(again))) == meaning(entry)


# --- what others write ------------------------------------------------------------------------------


def test_aur_10_a_file_as_the_document_shows_it_is_read_whole(tmp_path):
    """Its turns have no ids: each is named by its place and follows the one before it."""
    store, ref = put(tmp_path, (GOLDEN / "document.jsonl").read_bytes())
    page = store.read(ref)
    assert page.problems == []
    assert page.header == Header(
        ID, "2026-03-01T12:00:00+00:00", facts={"agent": "qa-test", "status": "active"}
    )
    assert [(entry.id, entry.parent_id, entry.role) for entry in page.entries] == [
        ("r1", None, "user"),
        ("r2", "r1", "assistant"),
    ]
    assert [entry.id for entry in store.read_back(ref)] == ["r2", "r1"]
    copy = store.create(page.header._replace(id="copy"), page.entries)
    for there, here in zip(lines_of(ref), lines_of(copy), strict=True):
        assert {**here, "session_id": ID}.items() >= {**there, "session_id": ID}.items()


def test_what_other_programs_write_is_read(tmp_path):
    """No ids, times as numbers or none, content in blocks or none, calls as OpenAI has them, other lines."""
    store, ref = put(tmp_path, (GOLDEN / "others.jsonl").read_bytes())
    page = store.read(ref)
    assert page.problems == []
    assert (page.header.id, page.header.timestamp) == (ID, "2026-03-01T12:00:00.000Z")
    assert page.header.facts == {
        **{"agent": "architect", "status": "active", "model": "gpt-4o", "tags": ["login", {"n": 1.5}]}
    }
    assert [entry.timestamp for entry in page.entries] == [
        "2026-03-01T12:00:00.000Z",
        "2026-03-01T12:00:01.000Z",
        "2026-03-01T12:00:02.500Z",
        "2026-03-01T12:00:03.000Z",
        "",
        "",
        "2026-03-01T12:00:09.000Z",
        "2026-03-01T12:00:10Z",
    ]
    assert lifecycle.recorded(page.header, page.entries) == "completed"
    told, note, status = page.entries[4:7]
    assert json.loads(told.raw)["latency_ms"] == 840
    assert (note.type, json.loads(note.raw)["pinned"]) == ("note", True)
    assert json.loads(status.raw)["data"] == {"status": "completed", "reason": "exit"}
    sent = build(Session.view(store, ref).path()).messages
    assert sent == [
        User([Text("Look at "), Text("this.")], 1772366401000),
        Assistant([ToolCall("call_9", "read_file", {"path": "a.py"})], timestamp=1772366402500),
        ToolResult("call_9", "read_file", [Text("print(1)")], timestamp=1772366403000),
        Assistant([Text("It prints 1.")]),
        User("Thanks.", 1772366410000),
    ]


@pytest.mark.parametrize("name", ["document", "others", "ours"])
def test_what_is_read_and_written_again_says_the_same(tmp_path, name):
    """In a copy, and in a copy of the copy."""
    store, ref = put(tmp_path, (GOLDEN / f"{name}.jsonl").read_bytes())
    page = store.read(ref)
    for id in ("copy", "copy-of-copy"):
        copied = store.read(store.create(page.header._replace(id=id), page.entries))
        assert [meaning(each) for each in copied.entries] == [meaning(each) for each in page.entries]
        assert copied.header.facts == page.header.facts
        page = copied


def test_what_is_appended_to_a_file_of_others_changes_none_of_its_bytes(tmp_path):
    """And the talk goes on behind its last turn, from whichever end it was opened."""
    before = (GOLDEN / "others.jsonl").read_bytes()
    store, ref = put(tmp_path, before)
    with Session.open(store, ref) as session:
        (entry,) = session.append(user_entry("more"))
    assert entry.parent_id == "r8"
    assert Path(ref.path).read_bytes().startswith(before)
    assert Seen(store, ref).path[-2:] == ["Thanks.", "more"]
    assert store.read(ref).problems == []


def test_a_line_of_an_unknown_type_names_its_place_if_it_can(tmp_path):
    """As pi does, as we do, or not at all; nothing of it is lost."""
    lines = [
        b'{"type":"a","id":"x1","parentId":"m1","timestamp":"","n":1}',
        b'{"type":"b","id":"x2","parent_id":"x1","n":2}',
        b'{"type":"c","id":"x3","n":3}',
        b'{"type":"d","n":4}',
        b'{"n":5}',
    ]
    store, ref = put(tmp_path, text_of(METADATA, *chain(1), *lines))
    page = store.read(ref)
    assert page.problems == []
    assert [(entry.id, entry.parent_id) for entry in page.entries[1:]] == [
        *(("x1", "m1"), ("x2", "x1"), ("x3", "x2"), ("r5", "x3"), ("r6", "r5"))
    ]
    for entry, line in zip(page.entries[1:], lines, strict=True):
        assert json.loads(line).items() <= json.loads(entry.raw).items()


def test_records_without_ids_are_named_by_their_place_from_a_cursor_too(tmp_path):
    """Whether the file is read from its start, its end or a cursor."""
    store, ref = put(tmp_path, (GOLDEN / "document.jsonl").read_bytes())
    cursor = store.read(ref).cursor
    with open(ref.path, "ab") as file:
        file.write(
            b'{"type":"turn","role":"user","content":"again"}\n{"type":"status","status":"completed"}\n'
        )
    more = store.read(ref, cursor).entries
    assert [(entry.id, entry.parent_id) for entry in more] == [("r3", "r2"), ("r4", "r3")]
    assert store.read(ref).entries[2:] == more
    assert [entry.id for entry in store.read_back(ref)] == ["r4", "r3", "r2", "r1"]


# --- how much is read -------------------------------------------------------------------------------


def test_the_end_of_a_session_is_read_without_the_rest(tmp_path, monkeypatch):
    """The last turns cost a block or two, however long the session is."""
    store, ref = put(
        tmp_path, text_of(METADATA, *(turn(f"m{n}", f"m{n - 1}", "x" * 1000) for n in range(3000)))
    )
    read: list[int] = []
    pread = os.pread

    def counted(descriptor, length, offset):
        read.append(length)
        return pread(descriptor, length, offset)

    monkeypatch.setattr(os, "pread", counted)
    back = store.read_back(ref)
    assert [next(back).id for _ in range(10)] == [f"m{n}" for n in range(2999, 2989, -1)]
    assert sum(read) < 200_000


# --- a session in which nothing was said ------------------------------------------------------------


@pytest.mark.parametrize("layout", ["aurora", "pi"])
class TestEmpty:
    def test_g_7_a_session_in_which_nothing_was_said_leaves_no_file(self, tmp_path, layout):
        """Neither in its place nor in the trash, and its neighbours stay."""
        store = store_of(layout, tmp_path)
        session, other = Session.create(store, facts={"agent": "qa-test"}), Session.create(store)
        session.close()
        other.close()
        assert store.remove_empty(session.ref)
        assert [each.id for each in store.list()] == [other.id]
        assert not (tmp_path / "trash").exists()
        assert not store.remove_empty(session.ref)

    def test_g_7_a_session_in_which_something_was_said_stays(self, tmp_path, layout):
        """Were it only its name."""
        store = store_of(layout, tmp_path)
        with Session.create(store) as session:
            session.rename("mine")
        assert not store.remove_empty(session.ref)
        assert [each.id for each in store.list()] == [session.id]

    def test_g_7_a_session_somebody_is_in_stays(self, tmp_path, layout):
        """Who came in meanwhile may be about to say something."""
        store = store_of(layout, tmp_path)
        with Session.create(store) as session:
            assert not store.remove_empty(session.ref)
            session.append(user_entry("hello"))
        assert len(store.read(session.ref).entries) == 1

    def test_g_7_a_session_that_lost_what_was_said_stays(self, tmp_path, layout):
        """Damage is not nothing, and what was set aside may be all there is."""
        store = store_of(layout, tmp_path)
        with Session.create(store) as session:
            pass
        with open(session.ref.path, "ab") as file:
            file.write(b"noise\n")
        assert not store.remove_empty(session.ref)
        store.repair(session.ref)
        assert store.read(session.ref).problems == []
        assert not store.remove_empty(session.ref)


def test_an_id_is_what_the_file_is_called(tmp_path):
    """Also where no session could be made under such a name."""
    store, ref = put(tmp_path, text_of(METADATA, *chain(1)), "with space")
    assert [each.id for each in store.list()] == ["with space"]
    append(store, ref, user_entry("hello"))
    assert store.read(ref).header.id == "with space"
    assert ids.file_name("with space") in {path.stem for path in Path(tmp_path, "locks").iterdir()}
