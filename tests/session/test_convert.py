"""A session goes from any layout to any other and back, and is the same; but for what a layout forbids."""

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.session import ids, lifecycle, tree
from perdure.session.convert import convert
from perdure.session.entry import Custom, Entry, meaning, new, placed
from perdure.session.layouts import LAYOUTS
from perdure.session.record import canonical, loads
from perdure.session.stores import Found, Header, Store
from perdure.testing import assistant_entry, tool_call_entry, tool_result_entry, user_entry
from perdure.testing.corpus import HOSTILE_TEXT, HOSTILE_VALUES, KINDS, message_record, record
from perdure.testing.writing import child, turns
from tests.generated import sessions
from tests.layouts import ALL, store_of

STAMP = "2026-01-31T09:05:00.123Z"
FACTS = {"agent": "qa-test", "project_name": "api", "title": "Login", "mood": {"level": [1, None, "é"]}}
WITHOUT_DROPS = [layout for layout in ALL if not LAYOUTS[layout].drops]
PAIRS = list(permutations(WITHOUT_DROPS, 2))


def made(store: Store, entries: Sequence[Entry], facts: Mapping[str, object] = FACTS) -> Found:
    header = Header("", STAMP, cwd="/home/me/api", facts=facts)
    return store.create(header._replace(id=store.new_id(header)), entries)


def said(store: Store, ref: Found) -> list[bytes]:
    page = store.read(ref)
    assert page.problems == []
    return [meaning(entry) for entry in page.entries]


def there_and_back(first: str, second: str, entries: Sequence[Entry]) -> tuple[list[bytes], Counter[str]]:
    with tempfile.TemporaryDirectory() as folder:
        one, other = store_of(first, Path(folder) / "one"), store_of(second, Path(folder) / "other")
        there = convert(one, made(one, entries), other)
        back = convert(other, there.ref, store_of(first, Path(folder) / "back"))
        return said(store_of(first, Path(folder) / "back"), back.ref), there.dropped + back.dropped


def corpus() -> list[Entry]:
    """Every kind, and hostile text and values in every place that holds any; but none of 17 MB."""
    found = [make() for make in KINDS.values()]
    for name, text in HOSTILE_TEXT.items():
        if "MB" not in name:
            found.append(message_record(b'"%b"' % text()))
            found.append(message_record(b'[{"type":"text","text":"%b"}]' % text(), b"assistant"))
    call = b'[{"type":"toolCall","id":"c","name":"n","arguments":{"x":%b}}]'
    for value in HOSTILE_VALUES.values():
        found.append(record("custom", b',"customType":"x","data":%b' % value))
        found.append(record("from_the_future", b',"member":%b' % value))
        found.append(message_record(call % value, b"assistant"))
    return found


@pytest.mark.parametrize(("first", "second"), PAIRS, ids="-".join)
def test_r21_every_kind_and_every_hostile_value_goes_there_and_back(first, second):
    """All in one session, each behind the one before it."""
    entries: list[Entry] = []
    for entry in corpus():
        entries.append(child(entry, entries[-1] if entries else None))
    back, dropped = there_and_back(first, second, entries)
    assert back == [meaning(entry) for entry in entries]
    assert not dropped


@given(entries=sessions(), pair=st.sampled_from(PAIRS))
def test_r21_any_session_goes_there_and_back(entries, pair):
    """Branches, labels, tool calls and unknown records included."""
    first, second = pair
    back, dropped = there_and_back(first, second, entries)
    assert back == [meaning(entry) for entry in entries]
    assert not dropped


def without_blanks(entry: Entry) -> bytes:
    """What an entry says, wherever it stands, without the members that only say that no model was used.

    Its parent, and the first entry a compaction keeps, are others where those are forbidden ones.
    """
    said = loads(entry.raw)
    del said["parentId"]
    said.pop("firstKeptEntryId", None)
    if isinstance(message := said.get("message"), dict):
        for name in ("api", "provider", "model", "usage"):
            message.pop(name, None)
    return canonical(said)


@given(entries=sessions(), first=st.sampled_from(WITHOUT_DROPS))
def test_r21_to_sibyl_and_back_only_what_sibyl_forbids_is_missing(entries, first):
    """What it keeps comes back as it was; going again drops nothing more."""
    with tempfile.TemporaryDirectory() as folder:
        one, sibyl = store_of(first, Path(folder) / "one"), store_of("sibyl", Path(folder) / "sibyl")
        there = convert(one, made(one, entries), sibyl)
        back = convert(sibyl, there.ref, one)
        again = convert(one, back.ref, sibyl)
        assert not back.dropped
        assert not again.dropped
        assert said(one, back.ref) == said(sibyl, there.ref) == said(sibyl, again.ref)
        kept = {entry.id for entry in sibyl.read(there.ref).entries}
        untouched = [entry for entry in entries if not sibyl.forbidden(entry)]
        assert kept >= {entry.id for entry in untouched}
        assert tree.fold(sibyl.read(there.ref).entries).notices == []
        same = {without_blanks(entry) for entry in sibyl.read(there.ref).entries}
        assert same >= {without_blanks(entry) for entry in untouched}


def test_g_2_what_sibyl_drops_is_reported_in_numbers(tmp_path):
    """Two system messages, one thought, two usages and models: so many of each, and nothing else."""
    pi, sibyl = store_of("pi", tmp_path / "pi"), store_of("sibyl", tmp_path / "sibyl")
    thought = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "yes"}]
    usage = {"input": 3, "output": 4, "totalTokens": 7}
    entries: list[Entry] = []
    for entry in [
        Entry.message("system", "be brief"),
        user_entry("hello"),
        Entry.message("assistant", thought, model="m", usage=usage),
        Entry.message("system", "be briefer"),
        assistant_entry("no", usage=usage),
    ]:
        entries.append(child(entry, entries[-1] if entries else None))
    converted = convert(pi, made(pi, entries), sibyl)
    assert converted.dropped == {"system": 2, "thinking": 1, "usage": 2, "model": 2}
    page = sibyl.read(converted.ref)
    assert [(entry.role, entry.text) for entry in page.entries] == [
        ("user", "hello"),
        ("assistant", "yes"),
        ("assistant", "no"),
    ]
    assert tree.fold(page.entries).notices == []


@pytest.mark.parametrize("layout", ALL)
def test_a_conversation_with_tools_and_branches_reads_the_same_in_every_layout(layout, tmp_path):
    """Who said what, the head, the labels: the same tree."""
    pi, other = store_of("pi", tmp_path / "pi"), store_of(layout, tmp_path / "other")
    ask = user_entry("list the files")
    call = child(tool_call_entry("bash", {"command": "ls", "n": 5, "deep": {"a": [True, None, 0.5]}}), ask)
    result = child(tool_result_entry("a.py"), call)
    left = child(assistant_entry("there is one"), result)
    again = child(user_entry("and now?"), result)
    label = child(record("label", b',"targetId":"%b","label":"start"' % ask.id.encode()), again)
    entries = [ask, call, result, left, again, label]
    moved = convert(pi, made(pi, entries), other)
    folded = tree.fold(other.read(moved.ref).entries)
    assert folded.notices == []
    assert folded.ends == (again.id, label.id)
    assert [entry.id for entry in tree.path(folded.entries, again.id)] == [
        ask.id,
        call.id,
        result.id,
        again.id,
    ]
    assert tree.labels(folded.entries) == {ask.id: "start"}
    assert [leaf.id for leaf in tree.leaves(folded.entries)] == [left.id, again.id]


@pytest.mark.parametrize(("first", "second"), PAIRS, ids="-".join)
def test_what_is_known_of_a_session_as_a_whole_goes_with_it(first, second, tmp_path):
    """When it began, in which folder, and every fact, whether the layouts know it or not."""
    one, other = store_of(first, tmp_path / "one"), store_of(second, tmp_path / "other")
    there = convert(one, made(one, turns(2)), other)
    back = convert(other, there.ref, store_of(first, tmp_path / "back"))
    header = store_of(first, tmp_path / "back").read(back.ref).header
    assert (header.timestamp, header.cwd) == (STAMP, "/home/me/api")
    assert {name: header.facts[name] for name in FACTS} == FACTS


@pytest.mark.parametrize("layout", ALL)
def test_a_status_goes_with_a_session(layout, tmp_path):
    """The last one recorded."""
    aurora, other = store_of("aurora", tmp_path / "aurora"), store_of(layout, tmp_path / "other")
    entries = turns(2)
    for status in ("interrupted", "active", "completed"):
        body = lifecycle.body(status)
        entries.append(child(Entry.message("user", status), entries[-1]))
        entries.append(lifecycle_entry(body, entries[-1]))
    converted = convert(aurora, made(aurora, entries, {"status": "active"}), other)
    page = other.read(converted.ref)
    assert lifecycle.recorded(page.header, page.entries) == "completed"


def lifecycle_entry(body, parent: Entry) -> Entry:
    return new(body, id=ids.new_id(), parent_id=parent.id, timestamp=STAMP)


def test_converting_reads_the_old_session_and_leaves_it_alone(tmp_path):
    """Also while a process talks in it, and with the problems of what could not be read."""
    pi, aurora = store_of("pi", tmp_path / "pi"), store_of("aurora", tmp_path / "aurora")
    ref = made(pi, turns(3))
    path = Path(ref.path)
    path.write_bytes(path.read_bytes() + b'{"torn')
    before = path.read_bytes()
    with pi.writer(ref):
        converted = convert(pi, ref, aurora, id="named")
    assert path.read_bytes() == before
    assert converted.ref.id == "named"
    assert len(aurora.read(converted.ref).entries) == 3
    assert [problem.line for problem in converted.problems] == [5]


@pytest.mark.parametrize("layout", ALL)
def test_an_entry_that_says_nothing_of_its_parent_stays_where_it_was(layout, tmp_path):
    """pi reads it as a first entry; another layout must not give it the one before it as its parent."""
    pi, other = store_of("pi", tmp_path / "pi"), store_of(layout, tmp_path / "other")
    ref = made(pi, turns(1))
    line = b'{"type":"zebra","id":"alone","timestamp":"2026-01-31T09:05:00.123Z","stripes":9}\n'
    Path(ref.path).write_bytes(Path(ref.path).read_bytes() + line)
    moved = convert(pi, ref, other)
    found = {entry.id: entry.parent_id for entry in other.read(moved.ref).entries}
    assert found["alone"] is None


@pytest.mark.parametrize("cwd", ["/a\0b", "/a\ud800b"], ids=ascii)
def test_a_directory_no_file_can_be_named_after_is_kept_all_the_same(cwd, tmp_path):
    """Another program's session says where it was; pi makes a folder's name of that."""
    pi = store_of("pi", tmp_path)
    ref = pi.create(Header("s1", STAMP, cwd=cwd), turns(1))
    assert [each.id for each in pi.list()] == ["s1"]
    assert pi.read(ref).header.cwd == cwd


def test_g_2_what_sibyl_forbids_of_a_whole_session_is_counted_and_the_rest_is_kept(tmp_path):
    """The model and the tools of an agent are left behind, its command is not, in facts as in entries."""
    cortext, sibyl = store_of("cortext", tmp_path / "cortext"), store_of("sibyl", tmp_path / "sibyl")
    config = {
        "command": "/workspace.plan",
        "system_prompt_hash": "h",
        "model": "gpt",
        "tools": ["Write"],
    }
    said = turns(1)
    body = Custom("perdure.agent_config", config)
    said.append(new(body, id="config", parent_id=said[0].id, timestamp=STAMP))
    converted = convert(cortext, made(cortext, said, {"title": "t"}), sibyl)
    assert converted.dropped == {"model": 2, "tools": 2}
    text = Path(converted.ref.path).read_text()
    assert "gpt" not in text
    assert "Write" not in text
    kept = sibyl.read(converted.ref)
    assert kept.header.facts["agent_config"]["command"] == "/workspace.plan"
    assert loads(kept.entries[-1].raw)["data"] == {
        "command": "/workspace.plan",
        "system_prompt_hash": "h",
    }


def test_a_status_a_header_said_last_is_said_by_the_copy_too(tmp_path):
    """Another program paused the conversation in session.json; the entries still say active."""
    cortext, aurora = store_of("cortext", tmp_path / "cortext"), store_of("aurora", tmp_path / "aurora")
    said = turns(1)
    said.append(lifecycle_entry(lifecycle.body("active"), said[0]))
    ref = made(cortext, said, {"title": "t"})
    state = Path(ref.path).with_name("session.json")
    state.write_text(state.read_text().replace('"active"', '"paused"'))
    page = aurora.read(convert(cortext, ref, aurora).ref)
    assert lifecycle.recorded(page.header, page.entries) == "paused"


@pytest.mark.parametrize(("layout", "at_rest"), [("aurora", "completed"), ("cortext", "paused")])
def test_nobody_has_died_in_a_session_that_was_answered(layout, at_rest, tmp_path):
    """One whose last word waits for an answer is left active, and so is shown as interrupted."""
    source, target = store_of("pi", tmp_path / "pi"), store_of(layout, tmp_path / layout)
    prompt = user_entry("why?")
    answer = placed(assistant_entry("because"), parent_id=prompt.id)
    for entries, expected in (([prompt, answer], at_rest), ([prompt], "active")):
        page = target.read(convert(source, made(source, entries, {}), target).ref)
        assert lifecycle.recorded(page.header, page.entries) == expected


def test_a_conversation_is_called_after_its_first_prompt_if_it_has_no_name(tmp_path):
    source, target = store_of("pi", tmp_path / "pi"), store_of("cortext", tmp_path / "work")
    there = convert(source, made(source, [user_entry("Why is the login flaky?")], {}), target).ref
    assert there.id.endswith("-conversation-why-is-the-login-flaky")
    assert target.read(there).header.facts["title"] == "why is the login flaky"
