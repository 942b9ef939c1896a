"""Whatever happened to a file of Aurora's layout, what is whole in it is shown, and what is not is named.

Each kind of damage has its file in `tests/golden/aurora/damaged`, or is made here.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.errors import Held
from perdure.session import ids, tree
from perdure.session.entry import meaning
from perdure.session.session import Session
from perdure.session.stores import Problem
from perdure.testing import user_entry
from tests.aurora_files import DAMAGED, GOLDEN, ID, METADATA, WHOLE, chain, put, text_of, turn
from tests.effort import some_bits, some_sizes
from tests.layouts import Seen
from tests.pi_files import in_memory

FOUR_TURNS = ["one", "two", "three", "four"]
TOLD = {  # what each file lacks, on which lines that is said, and what the tree has to say
    "bad-text": ([1, 2], [], 0),
    "blank-lines": ([], [], 0),
    "byte-order-mark": ([], [], 0),
    "corrupt-middle": ([2], [4], 1),
    "crlf": ([], [], 0),
    "dangling-parent": ([2], [], 1),
    "empty": ([0, 1, 2, 3], [1], 0),
    "glued": ([], [3], 0),
    "glued-to-the-metadata": ([], [1], 0),
    "half-then-whole": ([], [4], 0),
    "metadata-in-the-middle": ([], [], 0),
    "missing-members": ([], [3, 5, 7, 8, 9], 0),
    "no-last-newline": ([], [], 0),
    "no-metadata": ([], [1], 0),
    "not-objects": ([], [3, 4, 5, 6, 8], 0),
    "nul-before-a-record": ([], [3], 0),
    "nul-file": ([0, 1, 2, 3], [1], 0),
    "nul-over-a-record": ([1], [3], 1),
    "nul-tail": ([], [6], 0),
    "of-another-session": ([], [1], 0),
    "prefix-three-times": ([], [3, 4, 5], 0),
    "same-id-twice": ([1], [], 1),
    "second-metadata": ([], [4], 0),
    "separators": ([0, 1, 2, 3], [], 0),
    "stale-end": ([], [6], 0),
    "status-last": ([], [7], 0),
    "torn-metadata": ([], [1], 0),
    "torn-prefix-glued": ([2], [4], 1),
    "torn-tail": ([3], [5], 0),
    "without-ids": ([], [], 0),
    "written-twice": ([], [], 0),
}


def damaged(name: str) -> bytes:
    return (GOLDEN / "damaged" / f"{name}.jsonl").read_bytes()


def see(home: Path, name: str) -> Seen:
    return Seen(*put(home, damaged(name)))


def go_on(store, ref) -> Seen:
    with Session.open(store, ref) as session:
        session.append(user_entry("five"))
    return Seen(store, ref)


# --- every kind of damage ---------------------------------------------------------------------------


def test_every_damaged_file_is_spoken_of():
    """None is there without being looked at."""
    assert TOLD.keys() == {path.stem for path in DAMAGED}


@pytest.mark.parametrize("name", TOLD)
def test_aur_11_a_damaged_file_shows_all_that_is_whole_and_names_the_lines_that_are_not(tmp_path, name):
    """Every complete turn, in its order; each problem with the file's name and the line's number."""
    store, ref = put(tmp_path, damaged(name))
    lost, lines, notices = TOLD[name]
    seen = Seen(store, ref)
    shown = [text for number, text in enumerate(FOUR_TURNS) if number not in lost]
    assert [text for text in seen.path if text in FOUR_TURNS] == shown
    assert (seen.lines, len(seen.notices)) == (lines, notices)
    assert all(str(each).startswith(f"{ref.path} line {each.line}: ") for each in store.read(ref).problems)


@pytest.mark.parametrize("name", TOLD)
def test_a_damaged_file_looks_the_same_from_its_end(tmp_path, name):
    """The same entries, and the same problems but for those of its first line."""
    store, ref = put(tmp_path, damaged(name))
    page = store.read(ref)
    problems: list[Problem] = []
    assert list(store.read_back(ref, problems))[::-1] == page.entries
    assert {each.line for each in problems} - {1} == {each.line for each in page.problems} - {1}


@pytest.mark.slow
@pytest.mark.parametrize("name", TOLD)
def test_one_goes_on_in_a_damaged_file(tmp_path, name):
    """What was shown before is shown with the new turn behind it, and not one old byte changes."""
    store, ref = put(tmp_path, damaged(name))
    before = Seen(store, ref)
    after = go_on(store, ref)
    assert [*filter(None, after.path)] == [*before.path, "five"]
    assert Path(ref.path).read_bytes().startswith(damaged(name))


@pytest.mark.parametrize("name", TOLD)
def test_aur_12_a_repair_keeps_every_entry_and_every_good_line(tmp_path, name):
    """The same entries are read without a problem, each behind the one it was shown behind before; the file
    as it was is beside it; twice is like once."""
    before = damaged(name)
    store, ref = put(tmp_path, before)
    read = store.read(ref)
    entries, notices = tree.in_place(read.entries)
    repaired = store.repair(ref)
    assert (repaired is None) == (not read.problems and not notices)
    page = store.read(ref)
    assert [*map(meaning, page.entries)] == [*map(meaning, entries)]
    assert (page.problems, tree.fold(page.entries).notices) == ([], [])
    mended = Path(ref.path).read_bytes()
    if repaired is None:
        assert mended == before
        return
    assert (repaired.ref, repaired.entries) == (ref, len(entries))
    assert repaired.aside == f"{ref.path}.damaged"
    assert Path(repaired.aside).read_bytes() == before
    good = [line for number, line in enumerate(before.split(b"\n")[:-1], 1) if number not in TOLD[name][1]]
    changed = [line for line in good if line not in mended.split(b"\n")]
    moved = sum(new != old for new, old in zip(entries, read.entries, strict=True))
    assert len(changed) <= moved, "a line was changed that has its place"
    assert store.repair(ref) is None
    assert Path(ref.path).read_bytes() == mended
    assert sorted(os.listdir(store.root)) == [f"{ID}.jsonl", f"{ID}.jsonl.damaged"]


# --- what some of it says ---------------------------------------------------------------------------


def test_aur_12_an_unterminated_last_line_is_only_a_notice(tmp_path):
    """Its reason says that it is unfinished, as no other does; the next append seals it."""
    store, ref = put(tmp_path, damaged("torn-tail"))
    assert Seen(store, ref).reasons == ["the last line is unfinished (70 bytes); left out"]
    assert go_on(store, ref).path == ["one", "two", "three", "five"]
    others = [
        see(tmp_path, name).reasons for name in TOLD if name not in ("torn-tail", "nul-tail", "nul-file")
    ]
    assert not any("unfinished" in reason for reasons in others for reason in reasons)


def test_aur_12_a_repaired_session_goes_on(tmp_path):
    """With what was said before the damage and behind it."""
    store, ref = put(tmp_path, damaged("glued"))
    store.repair(ref)
    assert go_on(store, ref).path == [*FOUR_TURNS, "five"]
    assert store.read(ref).problems == []


def test_aur_12_a_session_somebody_writes_to_is_not_repaired(tmp_path):
    """Whoever holds it is named, and the file stays as it is."""
    store, ref = put(tmp_path, damaged("glued"))
    with store.writer(ref), pytest.raises(Held, match=f"process {os.getpid()}"):
        store.repair(ref)
    assert Path(ref.path).read_bytes() == damaged("glued")


def test_aur_12_a_file_damaged_again_is_set_aside_again(tmp_path):
    """Under another name: what was set aside the first time is still there."""
    store, ref = put(tmp_path, damaged("glued"))
    first = store.repair(ref)
    with open(ref.path, "ab") as file:
        file.write(b"noise\n")
    second = store.repair(ref)
    assert first is not None
    assert second is not None
    assert (first.aside, second.aside) == (f"{ref.path}.damaged", f"{ref.path}.damaged.2")
    assert Path(first.aside).read_bytes() == damaged("glued")


def test_what_was_set_aside_of_a_session_goes_to_the_trash_with_it(tmp_path):
    """And comes back with it; a session whose name only begins like this one's stays."""
    store, ref = put(tmp_path, damaged("glued"))
    put(tmp_path, text_of(METADATA), f"{ID}.jsonl.damaged.too")
    store.repair(ref)
    store.delete(ref)
    assert os.listdir(store.root) == [f"{ID}.jsonl.damaged.too.jsonl"]
    store.restore(ID)
    assert Path(f"{ref.path}.damaged").read_bytes() == damaged("glued")


def test_without_its_metadata_a_session_is_known_by_its_file_name(tmp_path):
    """With the agent and the status a session has that says nothing of them."""
    for name in ("empty", "nul-file", "no-metadata", "torn-metadata"):
        header = see(tmp_path, name).header
        assert (header.id, dict(header.facts)) == (ID, {"agent": "default", "status": "active"})


@pytest.mark.parametrize("name", ["empty", "nul-file"])
def test_the_first_turn_brings_the_metadata_a_file_lost(tmp_path, name):
    """Before it, and only where nothing is in the file that could be read."""
    store, ref = put(tmp_path, damaged(name))
    go_on(store, ref)
    line, said = map(json.loads, Path(ref.path).read_bytes().splitlines()[-2:])
    assert list(line) == ["type", "session_id", "agent", "created_at", "status", "cwd"]
    assert (line["session_id"], line["agent"], line["status"]) == (ID, "default", "active")
    assert said["content"] == "five"
    store, ref = put(tmp_path, damaged("no-metadata"))
    go_on(store, ref)
    assert b'"metadata"' not in Path(ref.path).read_bytes()


@pytest.mark.parametrize("name", ["no-metadata", "torn-metadata"])
def test_a_repair_that_brings_the_metadata_says_when_the_first_turn_was(tmp_path, name):
    store, ref = put(tmp_path, damaged(name))
    first = store.read(ref).entries[0].timestamp
    assert store.repair(ref)
    assert ids.moment(first)
    assert store.read(ref).header.timestamp == first


def test_an_id_inside_a_file_is_not_the_sessions(tmp_path):
    """The file's name is; a repair puts it right."""
    store, ref = put(tmp_path, damaged("of-another-session"))
    assert Seen(store, ref).header.id == ID
    store.repair(ref)
    good = damaged("of-another-session").splitlines()[1:]
    assert Path(ref.path).read_bytes() == text_of(METADATA, *good)


def test_a_second_metadata_line_is_kept_and_does_not_rule(tmp_path):
    """The first one does; the same one again is nothing."""
    seen = see(tmp_path, "second-metadata")
    assert seen.header.facts["agent"] == "qa-test"
    assert [entry.type for entry in seen.entries] == ["message", "message", "metadata", "message", "message"]
    assert see(tmp_path, "written-twice").reasons == []


def test_a_line_that_lacks_what_it_must_have_is_kept_as_it_is(tmp_path):
    """It is an entry of its own kind, with every member it has."""
    store, ref = put(tmp_path, damaged("missing-members"))
    odd = [entry for entry in store.read(ref).entries if entry.type != "message"]
    lines = [json.loads(line) for line in damaged("missing-members").splitlines()]
    assert [entry.id for entry in odd] == ["r2", "r4", "r6", "r7", "r8"]
    for entry, number in zip(odd, (3, 5, 7, 8, 9), strict=True):
        assert lines[number - 1].items() <= json.loads(entry.raw).items()


def test_text_that_is_no_text_is_shown_and_kept(tmp_path):
    """Lone surrogates and invalid UTF-8 in, the same bytes out."""
    store, ref = put(tmp_path, damaged("bad-text"))
    page = store.read(ref)
    assert [entry.text for entry in page.entries] == [
        *("one", "two \ud83d lone", "three \ufffd\ufffd\ufffd bytes", "four")
    ]
    copy = store.create(page.header._replace(id="copy"), page.entries)
    for text in (rb'"two \ud83d lone"', b'"three \xff\xfe\xfd bytes"'):
        assert text in Path(copy.path).read_bytes()
    assert [entry.text for entry in store.read(copy).entries] == [entry.text for entry in page.entries]


def test_separators_inside_strings_end_no_line(tmp_path):
    """In text, in names and in values, twelve of them."""
    seen = see(tmp_path, "separators")
    assert seen.path == [f"a{sep}b" for sep in "\u2028\u2029\x85\x7f\x0b\x0c\x1c\x1d\x1e\r\n\u2028"]


# --- damaged lines ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "noise", [b"xyz", b"J", b"}", b'ole":"user"}', bytes(512), b'{"type":"tur'], ids=ascii
)
def test_a_whole_record_before_noise_is_saved(tmp_path, noise):
    """Of each type of line, on a line in the middle."""
    kinds = [
        turn("m2", "m1", "text 2"),
        b'{"type":"tool_result","tool_call_id":"c","name":"n","content":"","is_error":false,"id":"x"}',
        b'{"type":"status","status":"completed"}',
        b'{"type":"entry","entry":{"type":"label","id":"l","parentId":"m1","timestamp":"","targetId":"m1"}}',
        b'{"type":"note","timestamp":"2026-03-01T12:00:01Z","text":"of another program"}',
    ]
    for line in kinds:
        store, ref = put(tmp_path, text_of(METADATA, *chain(1), line + noise, turn("m9", "m1", "last")))
        page = store.read(ref)
        assert len(page.entries) == 3, line
        assert [problem.line for problem in page.problems] == [3]


@pytest.mark.slow
def test_a_line_torn_at_any_byte_invents_no_entry(tmp_path):
    """Also where it holds what looks like a turn, and is torn right behind that."""
    inner = turn("m9", None, "never said")
    line = (
        b'{"type":"entry","entry":{"type":"custom","id":"m2","parentId":"m1","timestamp":"","customType":"x",'
    )
    line += b'"data":[%b,%b]}}' % (inner, inner)
    store, ref = put(tmp_path, b"")
    for size in range(len(line)):
        for end in (b"", b"\n"):
            Path(ref.path).write_bytes(text_of(METADATA, *chain(1)) + line[:size] + end)
            assert [entry.text for entry in store.read(ref).entries] == ["text 1"], size


def test_the_record_of_an_entry_line_whose_beginning_is_gone_is_saved(tmp_path):
    """It is in pi's form, which names its place by itself."""
    record = b'{"type":"session_info","id":"n1","parentId":"m1","timestamp":"","name":"n"}'
    store, ref = put(tmp_path, text_of(METADATA, *chain(1), bytes(24) + record + b"}", turn("m2", "m1")))
    page = store.read(ref)
    assert [entry.id for entry in page.entries] == ["m1", "n1", "m2"]
    assert [problem.line for problem in page.problems] == [3]


def test_a_long_damaged_line_costs_little(tmp_path):
    """However many beginnings of records it holds, it is read through a few times at most."""
    line = b'{"type":"turn","role":' * 200_000
    store, ref = put(tmp_path, text_of(METADATA, *chain(1), line, turn("m2", "m1", "text 2")))
    assert [entry.text for entry in store.read(ref).entries] == ["text 1", "text 2"]


@pytest.mark.parametrize(
    "member",
    [
        b'"session_id":7',
        b'"cwd":[]',
        b'"created_at":{}',
        b'"status":null',
        b'"parent_session":1',
        b'"facts":2',
    ],
)
def test_metadata_with_odd_members_is_metadata(tmp_path, member):
    """The entries are there, the session can be copied, and what is odd goes with it."""
    name, value = json.loads(b"{%b}" % member).popitem()
    line = json.dumps({**json.loads(METADATA), name: value}).encode()
    store, ref = put(tmp_path, text_of(line, *chain(2)))
    page = store.read(ref)
    assert [entry.text for entry in page.entries] == ["text 1", "text 2"]
    assert page.header.id == ID
    copy = store.create(page.header._replace(id="copy"), page.entries)
    assert store.read(copy).header == page.header._replace(
        id="copy",
        timestamp=store.read(copy).header.timestamp,
        cwd=page.header.cwd or "/home/me/code",
    )


# --- one byte ---------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """Files are cut and replaced here thousands of times."""
    with in_memory(tmp_path) as path:
        yield path


def cuts(golden: bytes) -> Iterator[tuple[int, int, list[int]]]:
    """For every length of the file: that length, how many lines of it are whole, and which one is not."""
    for size in some_sizes(golden, step=7):
        *lines, rest = golden[:size].split(b"\n")
        whole = is_record(rest)
        torn = [len(lines) + 1] if (rest != b"" and not whole) or size == 0 else []
        yield size, len(lines) + whole, torn


def is_record(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_every_complete_turn_of_a_file_cut_anywhere_is_read(folder, path):
    """Each record that is there to its last brace, as it was; a notice if, and only if, one is torn."""
    golden = path.read_bytes()
    store, ref = put(folder, golden)
    whole = store.read(ref).entries
    for size, lines, torn in cuts(golden):
        os.truncate(ref.path, size)
        page = store.read(ref)
        assert page.entries == whole[: max(lines - 1, 0)], size
        assert [problem.line for problem in page.problems] == torn, size


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_the_append_after_a_cut_is_clean(folder, path):
    """Every complete turn and the new one are read, the torn one is still reported, nothing is glued."""
    golden = path.read_bytes()
    store, ref = put(folder, golden)
    whole = store.read(ref).entries
    new = user_entry("after the cut")
    for size, lines, torn in cuts(golden):
        os.truncate(ref.path, size)
        with store.writer(ref, after=None) as writer:
            writer.append([new])
        page = store.read(ref)
        assert page.entries == [*whole[: max(lines - 1, 0)], new], size
        assert [problem.line for problem in page.problems] == (torn if size else []), size


@pytest.mark.slow
@pytest.mark.long
def test_a_flipped_bit_costs_one_record_at_most(folder):
    """All others are shown, and say what they said, from whichever end the file is read."""
    golden = text_of(METADATA, *chain(3))
    store, ref = put(folder, golden)
    before = [entry.raw for entry in store.read(ref).entries]
    with open(ref.path, "r+b", buffering=0) as file:
        for at, byte in enumerate(golden):
            for bit in some_bits(at):
                os.pwrite(file.fileno(), bytes([byte ^ 1 << bit]), at)
                shown = [entry.raw for entry in store.read(ref).entries]
                assert sum(raw not in shown for raw in before) <= 1, (at, bit)
                assert [entry.raw for entry in store.read_back(ref)][::-1] == shown, (at, bit)
            os.pwrite(file.fileno(), bytes([byte]), at)
