"""The index: nothing gets lost in it, and nothing is believed that the files do not say."""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from perdure.errors import NotSaved
from perdure.session import ids
from perdure.session.sexp import Keyword
from perdure.session.stores import Found, Header, files
from perdure.session.stores.lock import Lock
from perdure.session.stores.sibyl_index import Index, Row
from perdure.session.stores.sibyl_sexp import SibylStore
from perdure.testing import user_entry
from perdure.testing.durable import is_running, needs_fork, process
from perdure.testing.writing import child, turns
from tests.effort import FEW, some
from tests.moments import next_moment
from tests.pi_files import in_memory
from tests.sibyl_files import GOLDEN, put, read_form, store_in

STAMP = "2026-01-31T09:05:00.123Z"
PROCESSES = 16
UPDATES = some(40, everything=200)


def index_of(store: SibylStore) -> Path:
    return Path(store.root) / "index.lisp"


def rows_in(store: SibylStore) -> list[dict[str, Any]]:
    """The rows of the file, as another program reads them."""
    tag, *rows = read_form(index_of(store).read_text())
    assert tag == Keyword("session-index")
    assert all(row[0] == Keyword("entry") for row in rows)
    return [{key.name: value for key, value in zip(row[1::2], row[2::2], strict=True)} for row in rows]


def append(store: SibylStore, ref: Found) -> None:
    with store.writer(ref) as writer:
        before = writer.catch_up().entries
        writer.append([child(user_entry("more"), before[-1] if before else None)])


def full_scan(store: SibylStore) -> list[Row]:
    """What a listing would be without an index."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "sessions"
        shutil.copytree(store.root, copy, symlinks=True)  # with the files' times
        (copy / "index.lisp").unlink(missing_ok=True)
        rows = SibylStore(folder, durability="process").listing()
        return [row._replace(problem=row.problem.replace(str(copy), store.root)) for row in rows]


# --- what is written --------------------------------------------------------------------------------


def test_sib_06_every_save_brings_the_index_up_to_date(tmp_path):
    """Made, saved to, deleted and restored: the row is there, with what the document asks for."""
    store = store_in(tmp_path)
    ref = store.create(Header("s1", STAMP), turns(2))
    (row,) = rows_in(store)
    assert (row["id"], row["created-at"], row["message-count"]) == ("s1", STAMP, 2)
    append(store, ref)
    (row,) = rows_in(store)
    assert row["message-count"] == 3
    assert row["last-modified"] == store.listing()[0].last_modified
    store.create(Header("s2", STAMP))
    assert [row["id"] for row in rows_in(store)] == ["s1", "s2"]
    store.delete(ref)
    assert [row["id"] for row in rows_in(store)] == ["s2"]
    store.restore("s1")
    assert sorted(row["id"] for row in rows_in(store)) == ["s1", "s2"]


def test_sib_06_a_save_does_not_depend_on_the_index(tmp_path, monkeypatch):
    """A disk that refuses it, a folder in its place, a lock somebody holds: the session is saved."""
    store = store_in(tmp_path)
    ref = store.create(Header("s1", STAMP), turns(1))
    monkeypatch.setattr("perdure.session.stores.sibyl_index._WAIT", 0.1)
    with Lock(str(tmp_path), "locks/index~.lock", "index", 0):
        append(store, ref)
    assert store.listing()[0].message_count == 2
    index_of(store).unlink()
    index_of(store).mkdir()
    append(store, ref)
    assert store.listing()[0].message_count == 3
    index_of(store).rmdir()
    replace = files.replace

    def refused(root, relative, data, **options):
        if relative == "index.lisp":
            raise NotSaved(relative, "no")
        replace(root, relative, data, **options)

    monkeypatch.setattr(files, "replace", refused)
    append(store, ref)
    assert store.listing()[0].message_count == 4


def test_sib_06_a_row_is_replaced_where_it_stands(tmp_path):
    """One line a row, and the others stay as they are."""
    index = Index(str(tmp_path), str(tmp_path))
    index.change([Row(f"s{number}", STAMP, STAMP, number, 1, 1) for number in range(1, 4)])
    before = (tmp_path / "index.lisp").read_text().splitlines()
    index.change([Row("s2", STAMP, STAMP, 99, 2, 2)])
    after = (tmp_path / "index.lisp").read_text().splitlines()
    assert [new == old for old, new in zip(before, after, strict=True)] == [True, True, False, True, True]
    index.change([], ["s1", "s3", "unknown"])
    assert [line[:16] for line in (tmp_path / "index.lisp").read_text().splitlines()] == [
        *("(:session-index", '(:entry :id "s2"', ")")
    ]


@pytest.fixture
def folder(tmp_path):
    """A file is replaced here thousands of times."""
    with in_memory(tmp_path) as path:
        yield path


@pytest.mark.long
@pytest.mark.process
@needs_fork
def test_r7_sixteen_processes_lose_no_update(folder):
    """Every row is there, and the index was whole whenever somebody looked at it."""
    index = Index(str(folder), str(folder))
    path = folder / "index.lisp"

    def update(number: int) -> Callable[[], None]:
        def work() -> None:
            for turn in range(UPDATES):
                index.change([Row(f"s-{number}-{turn}", STAMP, STAMP, turn, 1, 1)])

        return work

    looks = 0
    with contextlib.ExitStack() as running:
        pids = [running.enter_context(process(update(number))) for number in range(PROCESSES)]
        while any(map(is_running, pids)):
            if path.exists():
                text = path.read_text()
                assert text.startswith("(:session-index\n(:entry ")
                assert text.endswith(")\n)\n")
                looks += 1
            time.sleep(0.01)
    assert looks
    assert len(read_form(path.read_text())) == 1 + PROCESSES * UPDATES
    assert len(index.read()) == PROCESSES * UPDATES


# --- what is believed -------------------------------------------------------------------------------


def test_sib_08_a_listing_shows_the_last_saved_first(tmp_path):
    """With the document's figures, from the index alone where that is up to date."""
    store = store_in(tmp_path)
    for number in range(1, 4):
        ref = store.create(Header(f"s{number}", STAMP), turns(number))
        next_moment()
    append(store, Found("s1", str(Path(store.root) / "s1" / "session.lisp")))
    rows = store.listing()
    assert [(row.id, row.message_count) for row in rows] == [("s1", 2), ("s3", 3), ("s2", 2)]
    assert ref.id == "s3"


def test_sib_08_what_the_index_knows_is_not_read_again(tmp_path, monkeypatch):
    """Once the index is a moment younger than the files in it."""
    store = store_in(tmp_path)
    for number in range(5):
        store.create(Header(f"s{number}", STAMP), turns(number))
    age(store)
    expected = store.listing()
    read: list[str] = []
    monkeypatch.setattr(SibylStore, "bytes_of", lambda _, ref: read.append(ref.id))
    assert store.listing() == expected
    assert read == []


def age(store: SibylStore) -> None:
    """Let the sessions be older than they are, and the index know it."""
    for path in Path(store.root).glob("*/session.lisp"):
        os.utime(path, ns=(10**18, path.stat().st_mtime_ns - 10**9))
    store.listing()


FOREIGN = f"""((:id "s1" :created-at "{STAMP}" :last-modified "{STAMP}" :message-count 99)
 (:ID "gone" :MESSAGE-COUNT 4))"""
SPOILERS: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "NULs": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "noise": lambda path: path.write_bytes(os.urandom(200)),
    "a macro": lambda path: path.write_text("#.(quit)"),
    "nil": lambda path: path.write_text("nil"),
    "text": lambda path: path.write_text('"index"'),
    "a bare list": lambda path: path.write_text(FOREIGN),
    "another program's": lambda path: path.write_text('(:SESSION-INDEX (:ENTRY :ID "s2") (:ENTRY :ID "x"))'),
    "rows without ids": lambda path: path.write_text("(:session-index (:entry :message-count 1))"),
    "wrong figures": lambda path: path.write_text(
        path.read_text().replace(":message-count ", ":message-count 9")
    ),
    "rows twice": lambda path: path.write_text("(:session-index" + path.read_text()[15:-3] * 2 + "\n)\n"),
    "hostile ids": lambda path: path.write_text(
        '(:session-index (:entry :id "../../x") (:entry :id "a\nb"))'
    ),
    "a link": lambda path: path.rename(path.with_name("real")).with_name("index.lisp").symlink_to("real"),
}


@pytest.mark.parametrize("how", SPOILERS)
def test_r18_whatever_is_in_the_index_the_listing_is_that_of_a_full_scan(tmp_path, how):
    """And the next one as well, and the one after the next save."""
    store = store_in(tmp_path)
    refs = [store.create(Header(f"s{number}", STAMP), turns(number)) for number in range(1, 4)]
    expected = full_scan(store)
    SPOILERS[how](index_of(store))
    assert store.listing() == expected
    assert store.listing() == expected
    next_moment()
    append(store, refs[0])
    assert [row.id for row in store.listing()][:1] == ["s1"]
    if how != "a link":
        assert {row["id"] for row in rows_in(store)} == {"s1", "s2", "s3"}


def test_sib_08_another_programs_rows_stay_in_the_index(tmp_path):
    """It may list from them alone: a save here must not hide its sessions from it."""
    store = store_in(tmp_path)
    ref = store.create(Header("s1", STAMP), turns(1))
    index_of(store).write_text(
        '((:id "s1" :message-count 99) (:ID "theirs" :CREATED-AT 3949050622 :MESSAGE-COUNT 4))'
    )
    append(store, ref)
    assert [(row["id"], row["message-count"]) for row in rows_in(store)] == [("s1", 2), ("theirs", 4)]
    store.listing()
    assert [row["id"] for row in rows_in(store)] == ["s1"]  # of theirs there is no file


@pytest.mark.parametrize(
    "name", ["document", "upper-case", "numbers-and-blocks", "bare", "damaged/torn-tail", "damaged/empty"]
)
def test_sib_08_sessions_of_other_programs_and_broken_ones_are_listed(tmp_path, name):
    """A broken one with its problem, which the index keeps."""
    store, ref = put(tmp_path, (GOLDEN / f"{name}.lisp").read_bytes())
    (row,) = store.listing()
    page = store.read(ref)
    messages = sum(entry.type == "message" for entry in page.entries)
    assert (row.id, row.created_at, row.message_count) == ("s1", page.header.timestamp, messages)
    assert row.problem == (str(page.problems[0]) if page.problems else "")
    assert row.last_modified
    age(store)
    assert store.listing() == full_scan(store)


def test_sib_08_one_odd_row_does_not_cost_the_others(tmp_path, monkeypatch):
    """A reason that needs escapes in Lisp, or a line that is spoilt: only that session is read again."""
    store = store_in(tmp_path)
    for number in range(3):
        store.create(Header(f"s{number}", STAMP), turns(1))
    put(tmp_path, b'(:repl-session \x01"', "odd")
    age(store)
    expected = store.listing()
    assert "\\" in next(row.problem for row in expected if row.id == "odd")
    index = index_of(store)
    index.write_text(index.read_text().replace('"s1" :created', '"s1" :crated'))
    read: list[str] = []
    bytes_of = SibylStore.bytes_of

    def noted(self, ref):
        read.append(ref.id)
        return bytes_of(self, ref)

    monkeypatch.setattr(SibylStore, "bytes_of", noted)
    assert store.listing() == expected
    assert read == ["s1"]


def test_sib_08_a_session_that_cannot_be_opened_is_listed_and_looked_at_again(tmp_path):
    """Its folder is there; perhaps next time it can be read."""
    store, ref = put(tmp_path, (GOLDEN / "ours.lisp").read_bytes())
    Path(ref.path).rename(tmp_path / "away")
    Path(ref.path).symlink_to(tmp_path / "away")
    (row,) = store.listing()
    assert "symbolic link" in row.problem
    Path(ref.path).unlink()
    (tmp_path / "away").rename(ref.path)
    (row,) = store.listing()
    assert (row.problem, row.message_count) == ("", 4)


def test_sib_08_a_folder_of_any_name_is_listed(tmp_path):
    """One that could not be a row is read each time."""
    store, _ = put(tmp_path, (GOLDEN / "bare.lisp").read_bytes(), 'my "notes"\nétat')
    assert [row.message_count for row in store.listing()] == [2]
    assert [row.message_count for row in store.listing()] == [2]
    assert not index_of(store).exists() or rows_in(store) == []


class AnyIndex(RuleBasedStateMachine):
    """R18: the index is deleted, stale, corrupt or another program's at any moment."""

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.store = store_in(Path(self.folder.name))
        self.refs: dict[str, Found] = {}
        self.kept = b""

    def teardown(self) -> None:
        self.folder.cleanup()

    @rule(count=st.integers(0, 3))
    def create(self, count: int) -> None:
        ref = self.store.create(Header(ids.new_id(), STAMP), turns(count))
        self.refs[ref.id] = ref

    @precondition(lambda self: self.refs)
    @rule(data=st.data())
    def save(self, data: st.DataObject) -> None:
        append(self.store, self.refs[data.draw(st.sampled_from(sorted(self.refs)))])

    @precondition(lambda self: self.refs)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self.store.delete(self.refs.pop(data.draw(st.sampled_from(sorted(self.refs)))))

    @precondition(lambda self: self.refs)
    @rule(data=st.data())
    def take_away(self, data: st.DataObject) -> None:
        """As a person does."""
        id = data.draw(st.sampled_from(sorted(self.refs)))
        shutil.rmtree(Path(self.refs.pop(id).path).parent)

    @precondition(lambda self: self.refs)
    @rule(data=st.data(), name=st.sampled_from(["bare", "document", "damaged/torn-tail"]))
    def write_behind(self, data: st.DataObject, name: str) -> None:
        """As another program does, that knows no index."""
        ref = self.refs[data.draw(st.sampled_from(sorted(self.refs)))]
        Path(ref.path).write_bytes((GOLDEN / f"{name}.lisp").read_bytes())

    @precondition(lambda self: self.refs)
    @rule(data=st.data())
    def change_a_letter_behind(self, data: st.DataObject) -> None:
        """The file keeps its size, and perhaps its time."""
        path = Path(self.refs[data.draw(st.sampled_from(sorted(self.refs)))].path)
        path.write_bytes(path.read_bytes().replace(b":role", b":rule", 1))

    @rule(how=st.sampled_from(sorted(SPOILERS)))
    def spoil(self, how: str) -> None:
        if index_of(self.store).is_file() and not index_of(self.store).is_symlink():
            SPOILERS[how](index_of(self.store))

    @rule()
    def keep(self) -> None:
        if index_of(self.store).is_file() and not index_of(self.store).is_symlink():
            self.kept = index_of(self.store).read_bytes()

    @rule()
    def bring_back(self) -> None:
        """An old copy of the index, as from a backup."""
        if Path(self.store.root).is_dir() and not index_of(self.store).is_symlink():
            index_of(self.store).write_bytes(self.kept)

    @invariant()
    def the_listing_is_that_of_a_full_scan(self) -> None:
        if Path(self.store.root).is_dir():
            expected = full_scan(self.store)
            assert self.store.listing() == expected
            assert {row.id for row in expected} == self.refs.keys()


AnyIndex.TestCase.settings = settings(FEW, stateful_step_count=25)
test_r18_a_listing_is_a_full_scan_whatever_happens_to_the_index = AnyIndex.TestCase
