"""Whatever happened to the files of a conversation, what is whole in them is shown, and what is not is named.

Each kind of damage has its file in `tests/golden/cortext/damaged`: `.jsonl` for a log, `.json` for a
session.json. The other file is one that another program wrote, and is well.
"""

import os
from pathlib import Path

import pytest

from perdure.errors import Held, NotSaved
from perdure.session import lifecycle, tree
from perdure.session.session import Session
from perdure.session.stores import Found
from perdure.session.stores.cortext_folder import CortextStore
from perdure.testing import user_entry
from tests.cortext_files import GOLDEN, ID, check_complete, folder_of, golden, marks_of, put, state_of
from tests.effort import some, some_sizes
from tests.pi_files import in_memory

FOUR_TURNS = ["one", "two", "three", "four"]
FOREIGN = golden("foreign")
OURS = golden("ours")
LOG, STATE = ".session/messages.jsonl", ".session/session.json"

LOGS = {  # which turns a file lacks, on which lines that is said, and how much the tree has to say
    "bad-text": ([1], [], 0),
    "blank-lines": ([], [], 0),
    "broken-entries": ([], [7], 0),
    "byte-order-mark": ([], [], 0),
    "corrupt-middle": ([2], [3], 1),
    "crlf": ([], [], 0),
    "dangling-parent": ([], [], 1),
    "empty": ([0, 1, 2, 3], [], 0),
    "glued": ([], [2], 0),
    "half-then-whole": ([], [3], 0),
    "missing-members": ([1], [], 0),
    "no-last-newline": ([], [], 0),
    "not-objects": ([], [2, 3, 4, 6, 8], 0),
    "nul-before-a-record": ([], [2], 0),
    "nul-file": ([0, 1, 2, 3], [1], 0),
    "nul-over-a-record": ([1], [2], 1),
    "nul-tail": ([], [5], 0),
    "prefix-three-times": ([], [2, 3, 4], 0),
    "same-id-twice": ([1], [], 1),
    "separators": ([0, 1, 2, 3], [], 0),
    "stale-end": ([], [5], 0),
    "status-last": ([], [], 0),
    "torn-prefix-glued": ([2], [3], 1),
    "torn-tail": ([3], [4], 0),
    "without-ids": ([], [], 0),
    "written-twice": ([], [], 0),
}
STATES = {  # on which line something is wrong, and which facts are known from somewhere else
    "bad-text": (5, "title"),
    "byte-order-mark": (None, ""),
    "crlf": (None, ""),
    "empty": (1, "title status agent_config"),
    "glued": (19, ""),
    "missing-members": (None, "title agent_config"),
    "not-an-object": (1, "title status agent_config"),
    "nul-file": (1, "title status agent_config"),
    "nul-tail": (20, ""),
    "other-id": (0, ""),
    "stale-end": (20, ""),
    "torn": (11, "agent_config"),
    "two-colons": (9, "agent_config"),
    "wrong-types": (0, "title agent_config"),
}


def damaged(name: str) -> bytes:
    return (GOLDEN / "damaged" / name).read_bytes()


@pytest.fixture
def folder(tmp_path):
    """Files are cut and replaced here thousands of times."""
    with in_memory(tmp_path) as path:
        yield path


def spoken(store: CortextStore, ref: Found) -> list[str]:
    """What was said, along the path to the head."""
    folded = tree.fold(store.read(ref).entries)
    return [entry.text for entry in tree.path(folded.entries, folded.ends.head) if entry.text]


def append(store: CortextStore, ref: Found, text: str = "five") -> None:
    with Session.open(store, ref) as session:
        session.append(user_entry(text))


# --- the log ----------------------------------------------------------------------------------------


def test_every_damaged_file_is_spoken_of():
    """None is there without being looked at."""
    names = {path.name for path in (GOLDEN / "damaged").iterdir()}
    assert names == {f"{name}.jsonl" for name in LOGS} | {f"{name}.json" for name in STATES}


@pytest.mark.parametrize("name", LOGS)
def test_a_damaged_log_shows_all_that_is_whole_and_names_the_lines_that_are_not(tmp_path, name):
    """Every complete turn, in its order; each problem with the file's name and the line's number."""
    store, ref = put(tmp_path, {**FOREIGN, LOG: damaged(f"{name}.jsonl")})
    lost, told, notices = LOGS[name]
    page = store.read(ref)
    said = [text for text in spoken(store, ref) if text in FOUR_TURNS]
    assert said == [text for place, text in enumerate(FOUR_TURNS) if place not in lost]
    assert [(problem.path, problem.line) for problem in page.problems] == [(ref.path, line) for line in told]
    assert len(tree.fold(page.entries).notices) == notices


@pytest.mark.parametrize("name", LOGS)
def test_a_conversation_with_a_damaged_log_goes_on(tmp_path, name):
    """Nothing that was there is lost, nothing is glued, and the same lines are still named."""
    store, ref = put(tmp_path, {**FOREIGN, LOG: damaged(f"{name}.jsonl")})
    before, told = spoken(store, ref), [problem.line for problem in store.read(ref).problems]
    append(store, ref)
    assert spoken(store, ref) == [*before, "five"]
    assert [problem.line for problem in store.read(ref).problems] == told
    assert list(store.read_back(ref))[::-1] == store.read(ref).entries


@pytest.mark.parametrize("name", LOGS)
def test_a_repaired_log_has_no_problem_and_all_that_could_be_read(tmp_path, name):
    """The file as it was stays beside it, session.json knows the new one, and a second repair is none."""
    before = damaged(f"{name}.jsonl")
    store, ref = put(tmp_path, {**FOREIGN, LOG: before})
    page = store.read(ref)
    repaired = store.repair(ref)
    after = store.read(ref)
    entries, notices = tree.in_place(page.entries)
    assert (repaired is not None) == bool(page.problems or notices)
    assert [entry.id for entry in after.entries] == [entry.id for entry in entries]
    assert (after.problems, after.header.facts["status"]) == ([], "paused")
    if repaired:
        assert Path(repaired.aside).read_bytes() == before
        assert state_of(ref)["log_bytes"] == os.path.getsize(ref.path)
    assert store.repair(ref) is None


def test_a_repair_keeps_the_status_that_only_the_log_knows(tmp_path):
    """The last save was killed before session.json had it, and the mended log is shorter than it knows."""
    log = b"\0" * 400 + b"\n" + OURS[LOG] + damaged("status-last.jsonl").splitlines()[-1] + b"\n"
    state = OURS[STATE].replace(
        b'"log_bytes": %d' % len(OURS[LOG]), b'"log_bytes": %d' % (401 + len(OURS[LOG]))
    )
    store, ref = put(tmp_path, {**OURS, LOG: log, STATE: state})
    assert store.read(ref).header.facts["status"] == "completed"
    assert store.repair(ref)
    assert store.read(ref).header.facts["status"] == "completed"
    assert state_of(ref)["status"] == "completed"


def test_a_held_conversation_is_not_repaired(tmp_path):
    """Its writer may be in the middle of it."""
    store, ref = put(tmp_path, {**FOREIGN, LOG: damaged("torn-tail.jsonl")})
    with store.writer(ref), pytest.raises(Held):
        store.repair(ref)


def test_a_line_that_is_no_message_is_kept_with_all_its_members(tmp_path):
    """Also in a copy of the conversation: whatever another program put there, it may be needed."""
    store, ref = put(tmp_path, {**FOREIGN, LOG: damaged("missing-members.jsonl")})
    copy = store.create(store.read(ref).header._replace(id="2025-11-22/002-copy"), store.read(ref).entries)
    for each in (ref, copy):
        raw = b"\n".join(entry.raw for entry in store.read(each).entries)
        assert [part in raw for part in (b'"mood":"silent"', b'"note":"by another program"')] == [True] * 2
    ids = [entry.id for entry in store.read(ref).entries]
    assert ids == ["r1", "r2", "r3", "r4", "7", "r6", "r7"]
    assert [entry.parent_id for entry in store.read(ref).entries] == [None, *ids[:-1]]


# --- session.json -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STATES)
def test_a_damaged_session_json_costs_no_message_and_no_fact_that_is_whole(tmp_path, name):
    """Its problem names the file and the line; what it lacks follows from the folder's name and the log."""
    store, ref = put(tmp_path, {**FOREIGN, STATE: damaged(f"{name}.json")})
    line, lacks = STATES[name]
    page = store.read(ref)
    path = str(folder_of(ref) / STATE)
    assert [entry.text for entry in page.entries] == [
        "REST or GraphQL?",
        "Let us look at your clients first.",
    ]
    assert [(each.path, each.line) for each in page.problems] == ([] if line is None else [(path, line)])
    known = {"title": "API Design Discussion", "status": "paused"}
    for fact, value in known.items():
        assert (page.header.facts.get(fact) == value) == (fact not in lacks), fact
    command = (page.header.facts.get("agent_config") or {}).get("command")
    assert (command == "/workspace.brainstorm") == ("agent_config" not in lacks)
    assert page.header.timestamp[:10] == "2025-11-22"


@pytest.mark.parametrize("name", STATES)
def test_the_next_save_sets_a_damaged_session_json_aside(tmp_path, name):
    """Byte for byte, and the new one is whole; one that only lacks something is completed."""
    before = damaged(f"{name}.json")
    store, ref = put(tmp_path, {**FOREIGN, STATE: before})
    append(store, ref)
    asides = list((folder_of(ref) / ".session").glob("session.json.damaged*"))
    is_damaged = STATES[name][0] not in (None, 0)
    assert [path.read_bytes() for path in asides] == [before] * is_damaged
    page = store.read(ref)
    assert (page.problems, len(page.entries)) == ([], 3)
    state = state_of(ref)
    assert (state["message_count"], state["log_bytes"]) == (3, os.path.getsize(ref.path))
    assert state["conversation_id"] == "001-brainstorm-api-design"
    assert [path.name for path in folder_of(ref).iterdir() if path.suffix == ".md"] == ["brainstorm.md"]


@pytest.mark.parametrize("name", STATES)
def test_a_repaired_session_json_is_well_and_the_damaged_one_beside_it(tmp_path, name):
    """Where something was wrong; and a second repair does nothing."""
    before = damaged(f"{name}.json")
    store, ref = put(tmp_path, {**FOREIGN, STATE: before})
    facts, wrong = store.read(ref).header.facts, store.read(ref).problems
    repaired = store.repair(ref)
    assert (repaired is not None) == bool(wrong)
    assert store.read(ref).problems == []
    assert {**facts, **store.read(ref).header.facts} == {**store.read(ref).header.facts, **facts}
    if repaired and STATES[name][0]:
        assert Path(repaired.aside).read_bytes() == before
    assert store.repair(ref) is None


def test_a_missing_session_json_is_made_from_the_log(tmp_path):
    """Status, title and agent from the entries that set them; its time from the first message."""
    files = {**OURS, LOG: OURS[LOG] + damaged("status-last.jsonl").splitlines()[-1] + b"\n"}
    del files[STATE]
    store, ref = put(tmp_path, files)
    page = store.read(ref)
    assert [problem.reason.partition(";")[0] for problem in page.problems] == ["missing"]
    assert page.header.timestamp == "2025-11-22T10:00:01.000Z"
    assert page.header.facts == {
        "conversation_type": "brainstorm",
        "title": "api design",
        "status": "completed",
    }
    append(store, ref)
    assert store.read(ref).problems == []
    check_complete(ref)
    assert state_of(ref)["status"] == "completed"


def test_a_session_json_that_cannot_be_read_is_never_replaced(tmp_path):
    """A message is saved all the same, and whoever reads is told; a status is refused."""
    store, ref = put(tmp_path, OURS)
    path = folder_of(ref) / STATE
    path.unlink()
    path.mkdir()
    with Session.open(store, ref) as session:
        session.append(user_entry("kept"))
        with pytest.raises(NotSaved, match=r"session\.json"):
            session.append(lifecycle.body("completed"))
        session.append(user_entry("kept too"))
        session.reload()
        reasons = [problem.reason for problem in store.read(ref).problems]
    assert path.is_dir()
    assert [entry.text for entry in store.read(ref).entries][3:] == ["kept", "kept too"]
    assert any("what was said is saved" in reason for reason in reasons)
    path.rmdir()
    append(store, ref)
    assert store.read(ref).problems == []
    assert state_of(ref)["status"] == "paused"
    assert state_of(ref)["message_count"] == 5


# --- cut anywhere ---------------------------------------------------------------------------------------


@pytest.mark.long
def test_every_complete_turn_of_a_log_cut_anywhere_is_read(folder):
    """And whoever reads it is told, also where no line is torn: session.json knows how long the log was."""
    store, ref = put(folder, OURS)
    log = OURS[LOG]
    whole = store.read(ref).entries
    for size in some_sizes(log, step=5)[1:]:
        os.truncate(ref.path, size)
        page = store.read(ref)
        *lines, rest = log[:size].split(b"\n")
        is_whole = log[size : size + 1] == b"\n"
        assert page.entries == whole[: len(lines) + is_whole], size
        assert any("bytes long when it was last saved" in problem.reason for problem in page.problems)
        torn = [problem.line for problem in page.problems if problem.line]
        assert torn == [len(lines) + 1] * (rest != b"" and not is_whole), size
        assert page.header.facts["status"] == "paused"


@pytest.mark.slow
@pytest.mark.long
def test_the_append_after_a_cut_is_clean(folder):
    """Every complete turn and the new one are in all three files, and only a torn line is still named."""
    log = OURS[LOG]
    for size in range(0, len(log), some(13, everything=3)):
        store, ref = put(folder, {**OURS, LOG: log[:size]})
        before = store.read(ref).entries
        append(store, ref)
        page = store.read(ref)
        assert page.entries[:-1] == before
        assert [each.line for each in page.problems if not each.line] == [], size
        assert len(page.problems) <= 1
        assert state_of(ref)["log_bytes"] == os.path.getsize(ref.path)
        assert state_of(ref)["message_count"] == sum(entry.type == "message" for entry in page.entries)
        assert marks_of(ref)[-1] == page.entries[-1].id


@pytest.mark.slow
@pytest.mark.long
def test_a_session_json_cut_anywhere_costs_no_message(folder):
    """Nor the status, which is in the log as well; the next save makes a whole one."""
    state = OURS[STATE]
    for size in some_sizes(state[:-3], step=3):
        store, ref = put(folder, {**OURS, STATE: state[:size]})
        page = store.read(ref)
        assert [entry.text for entry in page.entries[:2]] == ["REST or GraphQL?", "REST, for its simplicity."]
        assert len(page.problems) == 1, size
        assert page.problems[0].path.endswith("session.json")
        assert page.problems[0].line > 0
        assert page.header.facts["status"] == "paused", size
        if size % 9 == 0:
            append(store, ref)
            assert store.read(ref).problems == []
            check_complete(ref)
            assert state_of(ref)["status"] == "paused"


def test_the_golden_conversation_is_where_the_document_puts_it():
    """So that what these tests cut is what the document shows."""
    assert ID == "2025-11-22/001-brainstorm-api-design"
    assert sorted(OURS) == [LOG, STATE, "brainstorm.md"]
