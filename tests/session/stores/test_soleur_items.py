"""What a Soleur document lists: decisions, attached context, and what other programs wrote or left out."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.session.entry import decode, meaning, placed
from perdure.session.session import Session
from perdure.session.stores import Found, Header
from perdure.session.stores.soleur_json import SoleurStore
from perdure.session.stores.whole_file import Document
from perdure.testing import user_entry
from perdure.testing.corpus import message_record, record
from perdure.testing.writing import child, turns
from tests.soleur_files import (
    GOLDEN,
    ID,
    STAMP,
    WHOLE,
    append,
    attached,
    custom,
    decision,
    document,
    golden,
    meanings,
    put,
    rewritten,
    store_in,
)

# --- decisions ------------------------------------------------------------------------------------------


def test_a_decision_stands_in_its_list(tmp_path):
    """The document's members, then ours; what is said after it gives it a place in the order."""
    store = store_in(tmp_path)
    said = turns(2)
    made = decision("Use Postgres", "d1", said[-1].id)
    ref = store.create(Header(ID, STAMP), [*said, made])
    assert document(ref)["decisions"] == [
        {
            **{"content": "Use Postgres", "timestamp": STAMP, "session_id": ID, "tags": ["db"]},
            **{"source": "Manual", "id": "d1", "parent_id": said[-1].id},
        }
    ]
    after = child(user_entry("and then?"), made)
    append(store, ref, after)
    assert document(ref)["entries"] == [{"after": 2, "decision": 0}]
    assert meanings(store.read(ref).entries) == meanings([*said, made, after])


@pytest.mark.parametrize(
    "entry",
    [
        decision("x", "d1", tags="none"),
        decision("x", "d1", content=5),
        decision("x", "d1", id="mine"),
        decision("x", "d1", parent_id=None),
        custom("perdure.decision", {"content": "x"}, "d1"),
        custom("perdure.decision", ["x"], "d1"),
        custom("perdure.decision", None, "d1"),
        decode(decision("x", "d1").raw[:-1] + b',"more":1}'),
        record("custom", b',"customType":"perdure.decision"'),
    ],
    ids=lambda entry: entry.raw[-60:].decode(),
)
def test_what_only_looks_like_a_decision_is_kept_as_it_is(entry):
    """In `entries`, whole."""
    found = rewritten([entry, user_entry("after")])
    assert meaning(found.entries[0]) == meaning(entry)
    assert found.problems == []


@pytest.mark.parametrize(
    "entry",
    [
        decision("x", "d1", timestamp="2020-01-01T00:00:00Z"),
        decision("x", "d1", why={"cost": [1, 2]}),
        decision("\ud800 \u2028", "d1", tags=[], source="AutoDetected"),
        decision("x", "d1", entry_id=4, type="t"),
    ],
    ids=lambda entry: ascii(entry.raw[-60:]),
)
def test_a_decision_is_kept_to_the_letter(entry):
    """With a time of its own, members nobody named, and any text."""
    found = rewritten([entry])
    assert len(json.loads(SoleurStore("/x").print(found, STAMP))["decisions"]) == 1
    assert meanings(found.entries) == meanings([entry])


# --- context --------------------------------------------------------------------------------------------


def test_what_is_attached_is_shown_to_other_programs(tmp_path):
    """Each part under its name; the same name again replaces its part, where it stands."""
    store = store_in(tmp_path)
    ref = store.create(
        Header(ID, STAMP), [attached("README.md", "old", "x1"), attached("b.txt", "two", "x2")]
    )
    assert document(ref)["project_context"] == "# README.md\n\nold\n\n# b.txt\n\ntwo"
    append(store, ref, attached("README.md", "new", "x3"))
    assert document(ref)["project_context"] == "# README.md\n\nnew\n\n# b.txt\n\ntwo"
    assert "project_context" not in store.read(ref).header.facts
    assert [entry.id for entry in store.read(ref).entries] == ["x1", "x2", "x3"]


@given(
    before=st.one_of(st.none(), st.text(max_size=20), st.just({"any": ["thing"]})),
    names=st.lists(st.sampled_from(["a", "b", "# a\n\nx"]), max_size=4),
)
def test_a_context_another_program_wrote_stays_a_fact(before, names):
    """Before what is attached, and told apart from it; if it is no text, it is left alone."""
    store, ref = SoleurStore("/nowhere"), Found(ID, "s.json")
    facts = {} if before is None else {"project_context": before}
    entries = [attached(name, f"content {number}", f"x{number}") for number, name in enumerate(names)]
    found = store.parse(
        ref, store.print(Document(Header(ID, STAMP, facts=facts), entries[:2], [], {}), STAMP)
    )
    found = store.parse(ref, store.print(found._replace(entries=[*found.entries, *entries[2:]]), STAMP))
    assert found.header.facts.get("project_context") == before
    assert meanings(found.entries) == meanings(entries)


# --- files of other programs ----------------------------------------------------------------------------


def test_a_plain_document_is_one_chain(tmp_path):
    """Messages are named by their places, and each follows the one before it."""
    store, ref = golden(tmp_path, "plain")
    page = store.read(ref)
    assert [(entry.id, entry.parent_id, entry.role) for entry in page.entries] == [
        ("r1", None, "system"),
        ("r2", "r1", "user"),
        ("r3", "r2", "assistant"),
    ]
    assert [entry.text for entry in page.entries][1:] == [
        "Should we cache tokens? é 👀",
        "What breaks\nif you do not?",
    ]
    assert page.header == Header(
        ID, "2026-01-31T09:05:00Z", facts={"agent_type": "sparring", "project_name": "api"}
    )
    assert page.problems == []


def test_roles_may_begin_with_a_capital(tmp_path):
    """As Rust writes its enums; and decisions without ids are named by their places too."""
    store, ref = golden(tmp_path, "rust")
    page = store.read(ref)
    assert [entry.role for entry in page.entries[:3]] == ["user", "assistant", "user"]
    assert [(entry.id, entry.parent_id) for entry in page.entries[3:]] == [("d1", "r3"), ("d2", "d1")]
    data = [json.loads(entry.raw)["data"] for entry in page.entries[3:]]
    assert [each["source"] for each in data] == ["AutoDetected", "Imported"]
    assert data[1]["rationale"] == {"cost": 2}
    assert page.header.facts["theme"] == {"dark": True, "accent": [1, 2.5]}
    assert page.header.facts["project_context"] == "# The API\n\nA small service."


def test_much_may_be_missing(tmp_path):
    """Ids, times, tags, sources, whole members; or a decision is nothing but a text."""
    store, ref = golden(tmp_path, "old")
    page = store.read(ref)
    assert [entry.text for entry in page.entries[:3]] == ["hello", "hi", "bye"]
    assert [entry.timestamp for entry in page.entries[:3]] == [
        *("", "2026-01-31T09:05:00.000Z", "2026-01-31T09:06:00.123Z")
    ]
    data = [json.loads(entry.raw)["data"] for entry in page.entries[3:]]
    assert [each["content"] for each in data] == ["Keep it simple", "Ship on Friday", "Or not"]
    assert [(each["source"], each["session_id"]) for each in data] == [("Manual", ID)] * 3
    assert [each["tags"] for each in data] == [[], [], None]
    assert page.problems == []


@pytest.mark.parametrize("name", [path.stem for path in WHOLE])
def test_what_another_program_wrote_is_written_back_as_it_was(tmp_path, name):
    """Item by item and member by member, whatever nobody here knows included; only blanks may change."""
    before = json.loads((GOLDEN / f"{name}.json").read_bytes(), parse_float=str, object_pairs_hook=list)
    store, ref = golden(tmp_path, name)
    entries = store.read(ref).entries
    append(store, ref, child(user_entry("one more"), entries[-1]))
    after = json.loads(Path(ref.path).read_bytes(), parse_float=str, object_pairs_hook=list)
    was, now = dict(before), dict(after)
    for member in was.keys() - {"messages", "updated_at", "entries"}:
        assert now[member] == was[member]
    assert now["messages"][:-1] == was["messages"]
    places = [
        [("after", len(was["messages"])), ("decision", number)] for number in range(len(was["decisions"]))
    ]
    assert now.get("entries", []) == was.get("entries", places)
    assert meanings(store.read(ref).entries[:-1]) == meanings(entries)


def test_the_first_save_to_a_file_as_ours_changes_only_what_was_said(tmp_path):
    """Not one line of a file that is laid out as ours are: a program of another kind wrote it."""
    store, ref = golden(tmp_path, "rust")
    before = Path(ref.path).read_text().splitlines()
    append(store, ref, placed(user_entry("more"), parent_id="d2"))
    after = Path(ref.path).read_text().splitlines()
    lost = [line for line in before if line not in after and f"{line}," not in after]
    assert lost == ['  "updated_at": "2026-01-31T09:09:00Z",']


def test_an_object_that_is_no_message_is_kept_in_its_place(tmp_path):
    """It is an entry of no known shape, and stands in `messages` as it was."""
    odd = {"event": "joined", "who": ["me"], "timestamp": "then"}
    store, ref = put(
        tmp_path, json.dumps({"messages": [odd, {"role": "user", "content": "hi"}, odd]}).encode()
    )
    page = store.read(ref)
    assert [(entry.id, entry.text) for entry in page.entries] == [("r1", ""), ("r2", "hi"), ("r3", "")]
    append(store, ref, placed(user_entry("more"), parent_id="r3"))
    assert document(ref)["messages"][:3] == [odd, {"role": "user", "content": "hi"}, odd]
    copy = store.create(Header("copy", STAMP), store.read(ref).entries)
    assert meanings(store.read(copy).entries) == meanings(store.read(ref).entries)


@pytest.mark.parametrize(
    "more", ['"type":"text"', '"parentId":7', '"id":12', '"id":null', '"message":"x"', '"thinking":1']
)
def test_a_member_may_have_a_name_of_ours(tmp_path, more):
    """What it says is neither lost nor taken for something else."""
    item = f'{{"role":"user","content":"hi",{more}}}'
    store, ref = put(tmp_path, f'{{"messages":[{item},{item}]}}'.encode())
    page = store.read(ref)
    assert [entry.type for entry in page.entries] == ["message", "message"]
    append(store, ref, placed(user_entry("more"), parent_id=page.entries[-1].id))
    assert document(ref)["messages"][:2] == [json.loads(item)] * 2
    copy = store.create(Header("copy", STAMP), page.entries)
    assert meanings(store.read(copy).entries) == meanings(page.entries)


def test_a_message_that_was_named_by_its_place_keeps_its_name_when_it_moves(tmp_path):
    """To another place, or off the active path and back, now or in another process."""
    data = {"messages": [{"role": "user", "content": content} for content in "abcd"]}
    store, ref = put(tmp_path, json.dumps(data).encode())
    with Session.open(store, ref) as session:
        session.append(user_entry("e"))
        assert [each["content"] for each in document(ref)["messages"]] == ["a", "b", "c", "d", "e"]
        for at in ("r1", "r3", "r1", "r4"):
            session.move(at)
            session.append(user_entry(f"behind {at}"))
            assert meanings(store.read(ref).entries) == meanings(session.entries)
    assert [entry.id for entry in store.read(ref).entries[:4]] == ["r1", "r2", "r3", "r4"]


def test_entries_are_read_however_somebody_wrote_them(tmp_path):
    """Out of order, counting too far, without ids, without the wrapping; each is kept."""
    said: list[dict[str, object]] = [
        {"role": "user", "content": str(number), "id": f"m{number}"} for number in range(3)
    ]
    others = [
        {
            "after": 1,
            "entry": {"type": "label", "id": "a", "parentId": "m0", "targetId": "m0"},
            "note": "mine",
        },
        {"after": 99, "entry": {"type": "zebra"}},
        {"after": 0, "entry": {"type": "zebra", "id": "b"}},
        {"type": "bare", "id": "c", "x": 1},
        {"after": "x", "entry": {"type": "zebra", "id": "d"}},
        {"after": 2, "decision": 7},
        {"after": True, "what": "ever"},
    ]
    store, ref = put(tmp_path, json.dumps({"messages": said, "entries": others}).encode())
    page = store.read(ref)
    assert [entry.id for entry in page.entries] == ["m0", "a", "m1", "m2", "e2", "b", "c", "d", "e7"]
    assert page.problems == []
    append(store, ref, placed(user_entry("more"), parent_id="m2"))
    assert document(ref)["entries"][0] == others[0]
    assert document(ref)["messages"][:3] == said
    assert meanings(store.read(ref).entries[:-1]) == meanings(page.entries)


# --- records that are not quite JSON ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [b"NaN", b"-Infinity", b'"\xff\xfe"', b"[" * 400 + b"]" * 400, rb'"\ud800"', b"1e999", b"7" * 5000],
    ids=lambda value: ascii(value[:12]),
)
def test_a_record_that_not_every_reader_takes_does_not_spoil_the_document(value, tmp_path):
    """Whoever reads JSON reads it, whatever is in it; and the record comes back to the byte."""
    store = store_in(tmp_path)
    odd = record("custom", b',"customType":"x","data":%b' % value)
    said = message_record(value)
    ref = store.create(Header(ID, STAMP), [user_entry("before"), odd, said, user_entry("after")])
    json.loads(Path(ref.path).read_text(encoding="utf-8"), parse_int=str, parse_constant=pytest.fail)
    page = store.read(ref)
    assert page.problems == []
    assert [entry.raw for entry in page.entries[1:3]] == [odd.raw, said.raw]
