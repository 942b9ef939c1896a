"""Whatever happened to a document of Soleur's, what is whole in it is shown, and what is not is named.

"Incident n" is a session that was lost or hidden in another program; each has its file in
`tests/golden/soleur/damaged`, or is made here.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.session import tree
from perdure.session.entry import meaning
from perdure.session.session import Session
from perdure.session.stores import Found
from perdure.session.stores.soleur_json import SoleurStore
from perdure.testing import user_entry
from tests.effort import some, some_sizes
from tests.pi_files import in_memory
from tests.soleur_files import DAMAGED, GOLDEN, ID, WHOLE, document, meanings, put, store_in

FOUR_TURNS = ["one", "two", "three", "four"]


class Seen:
    """A session as its readers see it."""

    def __init__(self, store: SoleurStore, ref: Found) -> None:
        page = store.read(ref)
        folded = tree.fold(page.entries)
        self.header = page.header
        self.ids = [entry.id for entry in folded.entries]
        path = tree.path(folded.entries, folded.ends.head)
        self.path = [entry.text for entry in path if entry.type == "message"]
        self.decided = [
            json.loads(each.raw)["data"]["content"] for each in page.entries if each.type == "custom"
        ]
        self.lines = [problem.line for problem in page.problems]
        self.reasons = [problem.reason for problem in page.problems]
        self.paths = {problem.path for problem in page.problems}
        self.notices = folded.notices


def damaged(tmp_path: Path, name: str) -> tuple[SoleurStore, Found]:
    return put(tmp_path, (GOLDEN / "damaged" / f"{name}.json").read_bytes())


def see(tmp_path: Path, name: str) -> Seen:
    return Seen(*damaged(tmp_path, name))


def see_after_append(tmp_path: Path, name: str) -> Seen:
    store, ref = damaged(tmp_path, name)
    with Session.open(store, ref) as session:
        session.append(user_entry("five"))
    return Seen(store, ref)


def set_aside(tmp_path: Path) -> list[bytes]:
    return [path.read_bytes() for path in sorted((tmp_path / "sessions").glob("*.damaged*"))]


# --- what costs nothing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["crlf", "byte-order-mark", "blank-lines"])
def test_blanks_of_another_kind_are_nothing(tmp_path, name):
    """All is read without a word, and the next save writes it as ours."""
    seen = see(tmp_path, name)
    assert (seen.path, seen.decided, seen.lines) == (FOUR_TURNS, ["decided"], [])
    assert see_after_append(tmp_path, name).path == [*FOUR_TURNS, "five"]
    text = next((tmp_path / "sessions").glob("*.json")).read_bytes()
    assert text.startswith(b'{\n  "id": ')
    assert b"\r" not in text
    assert set_aside(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("nul-tail", 51),
        ("stale-end", 51),
        ("two-documents", 51),
        ("missing-comma", 21),
        ("missing-bracket", 35),
        ("lost-heading", 6),
        ("half-then-whole", 23),
    ],
)
def test_damage_between_the_turns_costs_none(tmp_path, name, line):
    """Incidents 3, 5, 6 and 7: all four turns and the decision are there, and the line is named."""
    seen = see(tmp_path, name)
    assert (seen.path, seen.decided, seen.notices) == (FOUR_TURNS, ["decided"], [])
    assert seen.lines == [line]
    assert see_after_append(tmp_path, name).path == [*FOUR_TURNS, "five"]


def test_bytes_that_are_no_text_stay_as_they_are(tmp_path):
    """Shown as such, said, and written back."""
    seen = see(tmp_path, "invalid-utf-8")
    assert seen.path == ["one", "two \ufffd\ufffd", "three", "four"]
    assert seen.lines == [16]
    see_after_append(tmp_path, "invalid-utf-8")
    assert b'"two \xff\xfe"' in next((tmp_path / "sessions").glob("*.json")).read_bytes()
    assert set_aside(tmp_path) == []


# --- what costs what it hit -------------------------------------------------------------------------------


def test_a_torn_tail_costs_that_turn_alone(tmp_path):
    """Incident 1: every complete turn is shown; the append keeps the torn file beside the new one."""
    before = (GOLDEN / "damaged" / "torn-tail.json").read_bytes()
    seen = see(tmp_path, "torn-tail")
    assert seen.path == FOUR_TURNS[:3]
    assert (seen.lines, seen.reasons) == ([30], ["it ends in the middle"])
    assert seen.header.facts["project_name"] == "api"
    after = see_after_append(tmp_path, "torn-tail")
    assert (after.path, after.lines) == ([*FOUR_TURNS[:3], "five"], [])
    assert set_aside(tmp_path) == [before]


@pytest.mark.parametrize(
    ("name", "left", "line"),
    [
        ("nul-over-a-message", ["one", "three", "four"], 16),
        ("nul-over-two-messages", ["one", "four"], 17),
        ("missing-quote", ["one", "three", "four"], 16),
        ("flipped-bit", ["one", "three", "four"], 16),
        ("compact-torn-middle", ["one", "three", "four"], 1),
        ("nul-start", ["three", "four"], 1),
    ],
)
def test_damage_in_the_middle_costs_the_turns_it_hit(tmp_path, name, left, line):
    """Incident 5: those before it and those behind it are there, and so is the decision."""
    seen = see(tmp_path, name)
    assert (seen.path, seen.decided) == (left, ["decided"])
    assert seen.lines[0] == line
    assert len(seen.notices) == 1  # the child of what is lost follows what is left
    assert see_after_append(tmp_path, name).path == [*left, "five"]
    assert len(set_aside(tmp_path)) == 1


def test_a_turn_behind_damage_is_in_messages_again(tmp_path):
    """Other readers see one conversation, and not only what is behind the gap."""
    store, ref = damaged(tmp_path, "missing-quote")
    with Session.open(store, ref) as session:
        session.append(user_entry("five"))
    assert [each["content"] for each in document(ref)["messages"]] == ["one", "three", "four", "five"]


def test_what_lies_inside_a_torn_item_is_no_item(tmp_path):
    """A record's own message, or a tool's arguments, may look like one."""
    text = (GOLDEN / "ours.json").read_text()
    inner = '"arguments": {"messages": [{"role": "user", "content": "never said"}], "broken'
    torn = text.replace('"arguments": {', inner).replace('"toolCallId": "c1"', '"toolCallId": "c1')
    store, ref = put(tmp_path, torn.encode())
    seen = Seen(store, ref)
    assert seen.ids == ["m1", "b3", "m4", "d5", "m6", "l7", "x8", "f9"]
    assert len(seen.lines) == 2


def test_entries_keep_their_order_when_messages_before_them_are_lost(tmp_path):
    """`after` counts messages that are not there any more; but a parent still comes before its child."""
    text = (GOLDEN / "ours.json").read_bytes()
    start, end = text.index(b'"content": "List'), text.index(b'"id": "m2"')
    store, ref = put(tmp_path, text[:start] + bytes(end - start) + text[end:])
    entries = store.read(ref).entries
    assert [entry.id for entry in entries] == ["t3", "m4", "b3", "d5", "m6", "l7", "x8", "f9"]
    assert len(tree.fold(entries).notices) == 2  # the children of m2


# --- what is no session -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a-list", "a-number", "nul-file", "torn-early"])
def test_what_is_no_document_is_an_empty_session_with_a_problem(tmp_path, name):
    """Incident 5: it hides no neighbour, one can go on in it, and its bytes are kept."""
    before = (GOLDEN / "damaged" / f"{name}.json").read_bytes()
    seen = see(tmp_path, name)
    assert (seen.ids, len(seen.lines)) == ([], 1)
    after = see_after_append(tmp_path, name)
    assert (after.path, after.lines) == (["five"], [])
    assert set_aside(tmp_path) == [before]


@pytest.mark.parametrize("name", ["empty", "an-empty-object"])
def test_a_document_with_nothing_in_it_is_reported(tmp_path, name):
    """There is nothing to keep of it; with the first entry it is a whole one."""
    seen = see(tmp_path, name)
    assert (seen.ids, seen.lines) == ([], [1])
    assert see_after_append(tmp_path, name).path == ["five"]
    assert set_aside(tmp_path) == []
    (saved,) = (document(ref) for ref in store_in(tmp_path).list())
    assert {"id", "agent_type", "project_name", "messages", "decisions", "created_at", "updated_at"} <= {
        *saved
    }


def test_items_that_are_no_objects_are_left_out_and_said(tmp_path):
    """Each by its line; the file with them is set aside."""
    seen = see(tmp_path, "not-objects")
    assert seen.path == FOUR_TURNS
    assert (seen.lines, seen.reasons) == ([21, 22], ["no object; left out"] * 2)
    see_after_append(tmp_path, "not-objects")
    assert set_aside(tmp_path) == [(GOLDEN / "damaged" / "not-objects.json").read_bytes()]


def test_messages_that_are_no_list_are_reported(tmp_path):
    """By the line on which they begin."""
    seen = see(tmp_path, "messages-no-list")
    assert (seen.decided, seen.lines) == (["decided"], [6])
    assert see_after_append(tmp_path, "messages-no-list").path == ["five"]
    assert len(set_aside(tmp_path)) == 1


def test_a_list_that_is_there_twice_is_read_twice(tmp_path):
    """No decoder would show both."""
    seen = see(tmp_path, "messages-twice")
    assert seen.path == [*FOUR_TURNS, "five"]
    assert seen.lines == [47]


def test_an_id_inside_a_file_is_not_its_id(tmp_path):
    """The file's name is; a copy under another name is another session. Said once, and right when saved."""
    seen = see(tmp_path, "another-id")
    assert (seen.header.id, seen.path, seen.lines) == (ID, FOUR_TURNS, [2])
    assert see_after_append(tmp_path, "another-id").lines == []


def test_twins_and_orphans_are_for_the_tree(tmp_path):
    """Two messages of one id, or a parent that is nowhere: all turns are there, with a notice."""
    for name in ("duplicate-id", "dangling-parent"):
        seen = see(tmp_path, name)
        assert (seen.path, seen.lines) == (FOUR_TURNS, [])
        assert seen.notices


@pytest.mark.parametrize("path", DAMAGED, ids=lambda path: path.stem)
def test_a_damaged_document_is_never_printed_over(tmp_path, path):
    """Where the next save would lose a byte that says something, the file as it was stays beside it."""
    store, ref = put(tmp_path, path.read_bytes())
    found = store.parse(ref, path.read_bytes())
    with store.writer(ref) as writer:
        entries = writer.catch_up().entries
        writer.append([user_entry("five")])
    assert set_aside(tmp_path) == ([path.read_bytes()] if found.is_damaged else [])
    assert meanings(store.read(ref).entries[:-1]) == meanings(entries)
    assert [each for each in store.read(ref).problems if "UTF-8" not in each.reason] == []


@pytest.mark.parametrize("path", DAMAGED, ids=lambda path: path.stem)
def test_r22_a_repair_is_a_new_session_and_is_done_once(tmp_path, path):
    """With every complete entry, if there is any, each behind one that is there; the damaged file stays as it
    is."""
    store, ref = put(tmp_path, path.read_bytes())
    found = store.parse(ref, path.read_bytes())
    repaired = store.repair(ref)
    assert (repaired is not None) == (found.is_damaged and found.entries != [])
    assert Path(ref.path).read_bytes() == path.read_bytes()
    if repaired:
        page = store.read(repaired.ref)
        assert meanings(page.entries) == meanings(tree.in_place(found.entries)[0])
        assert tree.fold(page.entries).notices == []
        assert (page.problems, page.header.parent_session) == ([], ref.path)
        assert repaired.entries == len(page.entries)
    assert store.repair(ref) is None
    assert len(list(store.list())) == (2 if repaired else 1)


@pytest.mark.parametrize("path", DAMAGED, ids=lambda path: path.stem)
def test_r22_a_document_that_is_mended_in_its_place_has_its_old_bytes_beside_it(tmp_path, path):
    """The same session, with every complete entry and without a problem; what has none is left alone."""
    store, ref = put(tmp_path, path.read_bytes())
    found = store.parse(ref, path.read_bytes())
    mended = store.mend(ref)
    assert (mended is not None) == (found.is_damaged and found.entries != [])
    assert set_aside(tmp_path) == ([path.read_bytes()] if mended else [])
    if mended:
        page = store.read(ref)
        assert (mended.ref, mended.aside) == (ref, f"{ref.path}.damaged")
        assert meanings(page.entries) == meanings(tree.in_place(found.entries)[0])
        assert ([each for each in page.problems if "UTF-8" not in each.reason], store.mend(ref)) == ([], None)
    else:
        assert Path(ref.path).read_bytes() == path.read_bytes()


def test_a_session_names_the_damaged_file_that_its_first_append_replaced(tmp_path):
    """Nothing is set aside before; and of a sound one nothing at all."""
    store, ref = put(tmp_path, (GOLDEN / "damaged" / "torn-tail.json").read_bytes())
    with Session.open(store, ref) as session:
        assert session.set_aside == ""
        session.append(user_entry("five"))
        assert session.set_aside == f"{ref.path}.damaged"
    with Session.open(store, ref) as session:
        session.append(user_entry("six"))
        assert session.set_aside == ""


# --- cut off anywhere -------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """Files are cut and replaced here thousands of times."""
    with in_memory(tmp_path) as path:
        yield path


def ends(text: bytes) -> Iterator[tuple[int, str, dict[str, object]]]:
    """Each item of a document that is laid out: where it ends, the list it is in, and itself."""
    at, name = 0, ""
    for line in text.splitlines(keepends=True):
        if line.startswith(b'  "'):
            name = line.split(b'"')[1].decode()
        if line.startswith(b"    {"):
            start = at
        at += len(line)
        if line.startswith(b"    }") and name in ("messages", "decisions", "entries"):
            end = at - len(line) + len(b"    }")
            yield end, name, json.loads(text[start:end])


def complete(text: bytes, size: int) -> set[object]:
    """The ids of all that is whole within `size` bytes."""
    found: set[object] = set()
    numbers = {"messages": 0, "decisions": 0}
    for end, name, item in ends(text):
        number = numbers[name] = numbers.get(name, 0) + 1
        if end <= size and "decision" not in item:
            entry = item.get("entry", item)
            assert isinstance(entry, dict)
            found.add(entry.get("id", f"{'rd'[name == 'decisions']}{number}"))
    return found


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", ["plain", "rust", "ours"])
def test_r4_every_complete_turn_of_a_file_cut_anywhere_is_read(folder, name):
    """Every item that is there to its last brace, and a problem that names the file and the line."""
    text = (GOLDEN / f"{name}.json").read_bytes()
    store, ref = put(folder, text)
    whole = {entry.id: meaning(entry, without=("parentId",)) for entry in store.read(ref).entries}
    for size in some_sizes(text.rstrip(), step=11)[1:-1]:
        os.truncate(ref.path, size)
        page = store.read(ref)
        assert {entry.id for entry in page.entries} == complete(text, size), size
        assert all(meaning(entry, without=("parentId",)) == whole[entry.id] for entry in page.entries), size
        (problem,) = page.problems
        here = text[:size].count(b"\n") + 1
        assert (problem.path, problem.line) in [(ref.path, here), (ref.path, here - 1)], size


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", ["plain", "ours"])
def test_r4_the_append_after_a_cut_is_clean(folder, name):
    """All that was whole and the new entry are read, without a problem; the cut file is kept."""
    text = (GOLDEN / f"{name}.json").read_bytes()
    new = user_entry("after the cut")
    for size in range(len(text.rstrip()) - 1, 0, -some(29, everything=7)):
        store, ref = put(folder, text[:size])
        with store.writer(ref, after=None) as writer:
            writer.append([new])
        page = store.read(ref)
        assert {entry.id for entry in page.entries} == complete(text, size) | {new.id}, size
        assert (page.problems, set_aside(folder)) == ([], [text[:size]]), size
        Path(f"{ref.path}.damaged").unlink()


# --- anything at all --------------------------------------------------------------------------------------


@given(
    data=st.sampled_from([path.read_bytes() for path in [*WHOLE, *DAMAGED]]),
    changes=st.lists(
        st.tuples(
            st.floats(0, 1),
            st.integers(0, 60),
            st.one_of(
                st.binary(max_size=4),
                st.sampled_from(
                    [
                        b"{",
                        b"}",
                        b'"',
                        b",",
                        b"NaN",
                        b"\\ud800",
                        b"\n    {",
                        b'\n  "messages": [',
                        b'"id": ""',
                        b"\0",
                    ]
                ),
            ),
        ),
        max_size=4,
    ),
)
def test_whatever_is_in_a_file_it_is_read_and_what_was_read_is_kept(data, changes):
    """Reading never raises; and a document printed from what was read is sound, and says the same."""
    for place, length, put_there in changes:
        at = int(len(data) * place)
        data = data[:at] + put_there + data[at + length :]
    store, ref = SoleurStore("/nowhere"), Found(ID, "s.json")
    found = store.parse(ref, data)
    assert all(problem.path == "s.json" for problem in found.problems)
    again = store.parse(ref, store.print(found, "now"))
    assert meanings(again.entries) == meanings(found.entries)
    assert not again.is_damaged


SIZE = some(2**18, everything=2**20)
TORN_ITEMS = some(4000, everything=20_000)
HOSTILE = {
    "nested deeply": b'{"messages": ' + b"[" * SIZE,
    "a message nested deeply": b'{"messages": [{"role": "user", "content": %b}]}'
    % (b"[" * 9**5 + b"]" * 9**5),
    "braces": b"{" * 16 * SIZE,
    "NULs": bytes(16 * SIZE),
    "quotes": b'"' * 16 * SIZE,
    "blanks": b'{"messages": [' + b"\n  " * 4 * SIZE,
    "commas": b'{"messages": [' + b"," * 4 * SIZE,
    "numbers": b'{"messages": [' + b"1," * 2 * SIZE + b"1]}",
    "texts": b'{"messages": [' + b'"",' * SIZE + b'""]}',
    "torn items": b'{\n  "messages": [\n' + b'    {"role": "user", "content": "x\n    },\n' * TORN_ITEMS,
    "torn items on one line": b'{"messages":[' + b'{"role":"user","content":"x},' * TORN_ITEMS,
    "members that do not end": b"{\n" + b'  "a": [\n' * (4 * SIZE // 9),
    "objects that do not end": b"{\n" + b'  "a": {"a":\n' * (6 * SIZE // 12),
    "quotes in a string that does not end": b'{\n  "messages": [\n    {"a": "' + rb"\"" * 4 * SIZE,
    "items in items": b'{\n  "messages": [\n    ' + b'{"a":\n    ' * 100_000,
    "long items in items": b'{\n  "messages": [\n    ' + (b'{"a":[' + b"1," * 30_000 + b"\n    ") * 30,
}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", HOSTILE)
def test_r14_a_hostile_document_costs_no_more_than_its_size(name):
    """It is given up in the end, with a word about it, however it tries to go on."""
    found = SoleurStore("/nowhere").parse(Found(ID, "s.json"), HOSTILE[name])
    assert (found.entries, found.is_damaged) == ([], True)
    assert 1 <= len(found.problems) <= 101


def test_a_value_nested_deeply_does_not_make_a_document_many_times_longer(tmp_path):
    """Indented, each line of it would be longer than the value."""
    deep = b"[" * 150 + b"1," * 20_000 + b"1" + b"]" * 150
    store, ref = put(tmp_path, b'{"messages": [{"role": "user", "content": "x", "deep": %b}]}' % deep)
    with store.writer(ref, after=None) as writer:
        writer.append([user_entry("more")])
    assert os.path.getsize(ref.path) < 2 * len(deep)
    assert len(store.read(ref).entries) == 2
