"""For every layout: each problem in a sentence, every complete entry kept, no byte lost, twice as once."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import Held
from perdure.session import doctor, tree
from perdure.session.entry import meaning
from perdure.session.stores import Found, Header, Store
from perdure.testing.writing import save, turns
from tests.effort import FEW
from tests.generated import sessions
from tests.layouts import ALL, GOLDEN, store_of, tree_of

STAMP = "2026-01-31T09:05:00.123Z"


def made(store: Store, entries) -> Found:
    header = Header("", STAMP, cwd="/home/me/api")
    return store.create(header._replace(id=store.new_id(header)), entries)


def check_repair(store: Store, ref: Found, home: Path) -> None:
    """What `examine` promises `repair` does, once, and nothing that was there before is gone."""
    before = tree_of(home)
    diagnosis = doctor.examine(store, ref)
    assert tree_of(home) == before, "looking changed something"
    assert all(finding[0].isupper() or not finding[0].isalpha() for finding in diagnosis.findings)
    assert all(finding.endswith(".") for finding in diagnosis.findings)
    assert bool(diagnosis.findings) == bool(diagnosis.remedy)
    repaired = doctor.repair(store, ref)
    after = tree_of(home)
    sound = repaired.ref if repaired else ref
    there, _ = tree.in_place(store.read(sound).entries)
    assert [meaning(entry) for entry in there] == [meaning(each) for each in diagnosis.kept]
    lost = [
        name for name, data in before.items() if data and not is_cache(name) and data not in after.values()
    ]
    assert lost == [], "bytes that were there before are nowhere any more"
    if repaired:
        assert diagnosis.findings
        assert repaired.entries == len(diagnosis.kept)
        assert doctor.examine(store, sound).findings == [], "a repaired session is still marked as damaged"
    assert doctor.repair(store, ref) is None
    assert {name: data for name, data in tree_of(home).items() if not is_cache(name)} == {
        name: data for name, data in after.items() if not is_cache(name)
    }, "a second repair changed something"


def is_cache(name: str) -> bool:
    """Sibyl's index, and Cortext's counts of what is in its log."""
    return os.path.basename(name) in ("index.lisp", "session.json")


def damaged(data: bytes, how: str, at: float) -> bytes:
    place = int(len(data) * at)
    match how:
        case "cut":
            return data[:place]
        case "a hole of NULs":
            return data[:place] + bytes(min(100, len(data) - place)) + data[place + 100 :]
        case "noise":
            return data[:place] + b'\xff\x00(]}"{\n' + data[place:]
        case "a part twice":
            return data[:place] + data[max(0, place - 60) :]
        case "a part missing":
            return data[:place] + data[place + 40 :]
        case _:
            return data + b'stale {"role": (:role'


DAMAGES = ["cut", "a hole of NULs", "noise", "a part twice", "a part missing", "a stale end"]


@pytest.mark.parametrize("layout", ALL)
@FEW
@given(entries=sessions(), how=st.sampled_from(DAMAGES), at=st.floats(0, 1))
def test_r22_a_repair_keeps_what_can_be_read_and_destroys_nothing(layout, entries, how, at):
    """Whatever the damage: the promise, the repair and the original bytes; and repairing twice is as once."""
    with tempfile.TemporaryDirectory() as folder:
        store = store_of(layout, folder)
        ref = made(store, entries)
        path = Path(ref.path)
        path.write_bytes(damaged(path.read_bytes(), how, at))
        check_repair(store, ref, Path(folder))


@pytest.mark.parametrize("layout", ALL)
@pytest.mark.parametrize("how", DAMAGES)
def test_r4_every_complete_message_of_a_damaged_session_is_saved(layout, how, tmp_path):
    """Before the damage all, behind it all but the one that it hit, and perhaps a neighbour."""
    store = store_of(layout, tmp_path)
    said = turns(20, word="word " * 20)
    ref = made(store, said)
    path = Path(ref.path)
    path.write_bytes(damaged(path.read_bytes(), how, 0.5))
    diagnosis = doctor.examine(store, ref)
    found = {entry.id for entry in diagnosis.kept}
    missing = [number for number, entry in enumerate(said) if entry.id not in found]
    if how == "cut":
        assert missing == list(range(missing[0], 20))
        assert 7 <= missing[0] <= 12
    else:
        assert len(missing) <= 2, f"lost {missing}"
    assert diagnosis.findings
    check_repair(store, ref, tmp_path)


@pytest.mark.parametrize("layout", ALL)
def test_a_sound_session_has_no_findings(layout, tmp_path):
    """And nothing to repair."""
    store = store_of(layout, tmp_path)
    ref = made(store, turns(3))
    assert doctor.examine(store, ref) == doctor.Diagnosis(ref, [], store.read(ref).entries, "")
    assert list(doctor.examine_all(store)) == []
    check_repair(store, ref, tmp_path)


@pytest.mark.parametrize("layout", ALL)
def test_only_what_is_broken_is_reported_of_many_sessions(layout, tmp_path):
    """One that cannot be opened at all is among them, with the reason."""
    store = store_of(layout, tmp_path)
    refs = [made(store, turns(4, word="w" * 50)) for _ in range(5)]
    torn, gone = Path(refs[1].path), Path(refs[3].path)
    torn.write_bytes(torn.read_bytes()[:-60])
    gone.unlink()
    gone.mkdir()
    reports = {each.ref.id: each for each in doctor.examine_all(store)}
    assert set(reports) == {refs[1].id, refs[3].id}
    assert torn.name in reports[refs[1].id].findings[0]
    assert gone.name in reports[refs[3].id].findings[0]
    assert reports[refs[3].id].kept == []


@pytest.mark.parametrize("layout", ALL)
def test_what_a_process_writes_to_is_not_repaired(layout, tmp_path):
    """It is examined all the same."""
    store = store_of(layout, tmp_path)
    ref = made(store, turns(4, word="w" * 50))
    path = Path(ref.path)
    path.write_bytes(path.read_bytes()[:-60])
    before = path.read_bytes()
    with store.writer(ref):
        assert doctor.examine(store, ref).findings
        with pytest.raises(Held):
            doctor.repair(store, ref)
    assert path.read_bytes() == before


@pytest.mark.parametrize("layout", ALL)
def test_a_repaired_session_goes_on(layout, tmp_path):
    """The next append is clean."""
    store = store_of(layout, tmp_path)
    said = turns(6, word="w" * 50)
    ref = made(store, said[:5])
    path = Path(ref.path)
    path.write_bytes(path.read_bytes()[:-60])
    repaired = doctor.repair(store, ref)
    assert repaired is not None
    kept = store.read(repaired.ref).entries
    save(store, repaired.ref, turns(1, kept[-1]))
    page = store.read(repaired.ref)
    assert page.problems == []
    assert len(page.entries) == len(kept) + 1


def test_a_record_behind_a_torn_one_in_the_last_line_is_kept(tmp_path):
    """Whether or not the line has its newline."""
    store = store_of("aurora", tmp_path)
    ref = made(store, turns(2))
    path = Path(ref.path)
    *rest, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(rest) + b'{"type":"turn","ro' + last.rstrip(b"\n"))
    assert len(store.read(ref).entries) == 2
    check_repair(store, ref, tmp_path)
    assert len(store.read(ref).entries) == 2


def test_a_header_written_twice_is_one_header_after_a_repair_too(tmp_path):
    """Also where the file was renamed, and the repair puts the id right in the first of them."""
    store = store_of("aurora", tmp_path)
    (tmp_path / "spawn" / "sessions").mkdir(parents=True)
    path = tmp_path / "spawn" / "sessions" / "renamed.jsonl"
    path.write_bytes((GOLDEN / "aurora" / "damaged" / "written-twice.jsonl").read_bytes())
    (ref,) = store.list()
    check_repair(store, ref, tmp_path)


def test_what_a_log_lost_stays_on_record_after_a_repair(tmp_path):
    """session.json knew of more messages than there are; as it was it stays beside the new one."""
    store = store_of("cortext", tmp_path)
    ref = made(store, turns(2))
    path = Path(ref.path)
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    before = path.with_name("session.json").read_bytes()
    repaired = doctor.repair(store, ref)
    assert repaired is not None
    assert Path(repaired.aside).read_bytes() == before


@pytest.mark.parametrize("layout", ["pi", "aurora", "cortext"])
def test_what_followed_a_lost_line_is_mended_too(layout, tmp_path):
    """Also where an older version repaired the session, and left it marked: no line of it is bad any more.
    Every other line stays byte for byte."""
    store = store_of(layout, tmp_path)
    ref = made(store, turns(6))
    path = Path(ref.path)
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[3]
    path.write_bytes(b"".join(lines))
    assert doctor.examine(store, ref).is_repairable
    check_repair(store, ref, tmp_path)
    changed = [at for at, line in enumerate(path.read_bytes().splitlines(keepends=True)) if line != lines[at]]
    assert changed == [3]


@pytest.mark.parametrize("layout", ["soleur", "sibyl"])
def test_what_was_saved_already_is_said_to_be(layout, tmp_path):
    """No repair is promised that would do nothing."""
    store = store_of(layout, tmp_path)
    ref = made(store, turns(4, word="w" * 50))
    path = Path(ref.path)
    path.write_bytes(path.read_bytes()[:-60])
    repaired = doctor.repair(store, ref)
    assert repaired is not None
    assert repaired.ref.id in doctor.examine(store, ref).remedy
