"""A large session is listed by its beginning and its end, and too large a document is refused in a sentence.

Here what is large is made small; `tests/crash/test_large_files.py` has files that are large.
"""

import os
from pathlib import Path

import pytest

from perdure import SessionManager
from perdure.errors import LargeDocument, PerdureError
from perdure.programs import guarded
from perdure.session import doctor, summary
from perdure.session.catalog import Catalog, Scope
from perdure.session.layouts import Home
from perdure.session.session import Session
from perdure.session.stores import A_PART, Found, Header, Store, jsonl, whole_file
from perdure.session.stores.file_store import FileStore
from perdure.session.stores.jsonl import JsonlStore
from perdure.session.stores.whole_file import WholeFileStore
from perdure.testing.writing import turns
from tests.layouts import ALL, store_of

STAMP = "2026-01-31T09:05:00.123Z"
DOCUMENTS = ("soleur", "sibyl")
TURNS = 401
WORD = "turn " + "x" * (4 * A_PART // TURNS)


@pytest.fixture(params=ALL)
def layout(request) -> str:
    return request.param


@pytest.fixture(autouse=True)
def large(monkeypatch) -> None:
    monkeypatch.setattr(JsonlStore, "large", 2**20)
    monkeypatch.setattr(WholeFileStore, "large", 2**20)


@pytest.fixture
def session(layout, tmp_path) -> tuple[FileStore, Found]:
    """Of four times what is read of a large one."""
    store = store_of(layout, tmp_path)
    assert isinstance(store, FileStore)
    return store, filled(store)


def filled(store: Store) -> Found:
    header = Header("", STAMP, cwd="/home/me/api")
    said = turns(TURNS, word=WORD)
    return store.create(header._replace(id=store.new_id(header)), said)


@pytest.fixture
def bytes_read(monkeypatch) -> list[int]:
    read: list[int] = []
    pread = os.pread

    def counted(descriptor, length, offset):
        data = pread(descriptor, length, offset)
        read.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", counted)
    return read


def test_r15_a_large_session_is_listed_by_its_beginning_and_its_end(session, layout, bytes_read):
    """Its title, its last word and its project are known; how much is said in it only if it says so."""
    store, ref = session
    whole = summary.of_session(store_of(layout, store.home), ref)
    assert sum(bytes_read) < 4 * A_PART < os.path.getsize(ref.path)
    part = store.excerpt(ref)
    assert part
    assert whole.messages in (None, TURNS)
    assert whole.turns is None
    assert whole.title.startswith("turn x") or layout == "cortext"  # which names them itself
    assert whole.preview.startswith("turn x")
    assert part.first[0].text == f"{WORD} 0"
    assert part.last[-1].text == f"{WORD} {TURNS - 1}"
    assert whole.problem is None
    page = store.read(ref)
    assert (whole.cwd, whole.created) == (page.header.cwd, page.header.timestamp)
    assert whole.active == page.entries[-1].timestamp
    assert {entry.id for entry in (*part.first, *part.last)} <= {entry.id for entry in page.entries}


def test_a_session_that_is_not_large_is_read_whole(layout, tmp_path):
    """Nothing is unknown of it."""
    store = store_of(layout, tmp_path)
    assert isinstance(store, FileStore)
    ref = store.create(Header(store.new_id(Header("", STAMP)), STAMP), turns(3))
    assert store.excerpt(ref) is None
    assert summary.of_session(store, ref).messages == 3


def test_the_catalog_knows_what_it_read_of_a_large_session(session, layout, monkeypatch):
    """It is listed, found by its first and by its last words, and not by those between them."""
    store, _ = session
    home = Home(layout, store.home)
    with Catalog() as catalog:
        catalog.catch_up(Scope((home,)), text=True)
        (row,) = catalog.rows(Scope((home,)))
        assert row.messages in (None, TURNS)
        assert row.problem is None
        assert row.title
        assert row.size > 4 * A_PART
        found = {number for number in range(TURNS) if catalog.search(Scope((home,)), f'"{number}"').hits}
        assert {0, TURNS - 1} <= found
        assert TURNS // 2 not in found
        assert catalog.count_in_part(Scope((home,))) == 1


def test_a_session_that_was_known_before_it_grew_large_is_still_known_whole(tmp_path, monkeypatch):
    """What is appended to it is read from where the last reading stopped: no count is lost."""
    store = store_of("pi", tmp_path)
    assert isinstance(store, FileStore)
    ref = filled(store)
    os.utime(ref.path, (1, 1))
    home = Home("pi", str(tmp_path))
    monkeypatch.setattr(JsonlStore, "large", 2**25)
    with Catalog() as catalog:
        catalog.catch_up(Scope((home,)))
        monkeypatch.setattr(JsonlStore, "large", 2**20)
        with Session.open(store, ref) as session:
            session.append(*turns(2))
        catalog.catch_up(Scope((home,)))
        (row,) = catalog.rows(Scope((home,)))
        assert catalog.count_in_part(Scope((home,))) == 0
    assert row.messages == TURNS + 2


def test_r13_a_file_of_very_many_lines_is_large_whatever_its_size(tmp_path, monkeypatch):
    """Each of them takes memory, also where it says nothing."""
    monkeypatch.setattr(jsonl, "_MOST_LINES", 1000)
    store = store_of("pi", tmp_path)
    assert isinstance(store, FileStore)
    header = Header(store.new_id(Header("", STAMP)), STAMP)
    ref = store.create(header, turns(3))
    with open(ref.path, "ab") as file:
        file.write((b"{" + b" " * 100 + b"\n") * 12_000)
    part = store.excerpt(Found(ref.id, ref.path, 0, os.path.getsize(ref.path), 0))
    assert part
    assert [entry.text for entry in part.first] == ["turn 0", "turn 1", "turn 2"]
    assert part.problems
    assert SessionManager(os.path.dirname(ref.path)).list_sessions()[0].problem


@pytest.mark.parametrize("end", [b"", b"\0" * 4096, b'{"role":'])
@pytest.mark.parametrize("layout", DOCUMENTS, indirect=True)
def test_a_large_document_that_ends_too_early_is_listed_with_a_reason(session, end):
    """It was cut, or its end was never written."""
    store, ref = session
    os.truncate(ref.path, os.path.getsize(ref.path) // 2)
    with open(ref.path, "ab") as file:
        file.write(end)
    about = summary.of_session(store, ref)
    assert about.title
    assert about.problem


@pytest.mark.parametrize("layout", DOCUMENTS, indirect=True)
def test_too_large_a_document_is_refused_in_a_sentence_and_listed_with_the_reason(
    session, monkeypatch, tmp_path
):
    """Wherever it could be opened; the sentence names the file, both sizes, and what can be done."""
    store, ref = session
    limit = 2**20
    monkeypatch.setattr(whole_file, "LARGEST", limit)
    before = Path(ref.path).read_bytes()
    for opened in (
        lambda: store.read(ref),
        lambda: list(store.read_back(ref)),
        lambda: store.writer(ref),
        lambda: Session.view(store, ref),
        lambda: Session.open(store, ref),
        lambda: store.repair(ref),
    ):
        with pytest.raises(PerdureError) as refused:
            opened()
        assert isinstance(refused.value, LargeDocument)
        assert ref.path in refused.value.message
        assert " 1 " in refused.value.message
        assert refused.value.hint
        assert refused.value.exit_code == 1
    (finding,) = doctor.examine(store, ref).findings
    assert ref.path in finding
    about = summary.of_session(store, ref)
    assert about.title
    assert about.problem
    assert "MB" in about.problem
    assert Path(ref.path).read_bytes() == before


@pytest.mark.parametrize("layout", DOCUMENTS, indirect=True)
def test_a_document_for_which_the_memory_does_not_do_is_an_error_that_names_it(session, monkeypatch):
    """No traceback: a sentence, whoever asked for it."""
    store, ref = session

    def exhausted(*given: object) -> None:
        raise MemoryError

    monkeypatch.setattr(type(store), "parse", exhausted)
    for opened in (lambda: store.read(ref), lambda: list(store.read_back(ref)), lambda: store.writer(ref)):
        with pytest.raises(PerdureError, match="memory") as refused:
            opened()
        assert ref.path in refused.value.message
    assert doctor.examine(store, ref).findings


def test_a_command_for_which_the_memory_does_not_do_ends_with_a_sentence(capsys):
    """Exit code 1, and nothing else than that on stderr."""

    def exhausted() -> int:
        raise MemoryError

    assert guarded("pi", exhausted) == 1
    told = capsys.readouterr()
    assert "memory" in told.err
    assert "Traceback" not in told.err
    assert told.out == ""


def test_a_document_of_very_many_messages_is_listed_by_its_ends_though_it_is_small(tmp_path, monkeypatch):
    """A message of two bytes takes hundreds of times as many in memory."""
    monkeypatch.setattr(WholeFileStore, "large", 2**23)
    store = store_of("soleur", tmp_path)
    assert isinstance(store, WholeFileStore)
    ref = filled(store)
    assert store.excerpt(ref) is None  # as large, with fewer
    Path(ref.path).write_text('{"id": "x", "messages": [' + "{}," * 400_000 + "{}]}")
    part = store.excerpt(ref._replace(size=0))
    assert part is not None
    assert 0 < len(part.first) + len(part.last) < 50_000
