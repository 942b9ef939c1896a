"""A large session is listed by its beginning and its end, and too large a document is refused in a sentence.

Here what is large is made small; `tests/crash/test_large_files.py` has files that are large.
"""

import os
import tracemalloc
from itertools import islice
from pathlib import Path

import pytest

from perdure import SessionManager
from perdure.errors import LargeDocument, PerdureError, TooLarge
from perdure.programs import guarded
from perdure.programs.aur import damaged
from perdure.session import doctor, lifecycle, summary
from perdure.session.catalog import Catalog, Scope
from perdure.session.entry import Custom, Message, User
from perdure.session.layouts import Home
from perdure.session.record import HugeNumber
from perdure.session.session import Session
from perdure.session.stores import A_PART, Found, Header, Store, document_size, jsonl
from perdure.session.stores.document_size import MOST_ITEMS
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
    monkeypatch.setattr(document_size, "LARGEST", limit)
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


A_MESSAGE = {"soleur": (b'"messages": [', b"{},"), "sibyl": (b":messages (", b'(:role :user :content "")')}


@pytest.mark.parametrize("is_damaged", [False, True])
@pytest.mark.parametrize("layout", DOCUMENTS, indirect=True)
def test_a_document_of_very_many_messages_is_refused_before_they_are_made(session, layout, is_damaged):
    """Each would take a hundred times its length. As for one that is too large: a sentence, and a row."""
    store, ref = session
    begin, message = A_MESSAGE[layout]
    before, begin, after = Path(ref.path).read_bytes().partition(begin)
    assert begin
    text = before + begin + message * (MOST_ITEMS + 1) + (b"" if is_damaged else after)
    Path(ref.path).write_bytes(text)
    for opened in (lambda: store.read(ref), lambda: store.writer(ref), lambda: store.repair(ref)):
        with pytest.raises(LargeDocument, match="200,000") as refused:
            opened()
        assert refused.value.hint
    assert summary.of_session(store, ref)
    assert Path(ref.path).read_bytes() == text


@pytest.mark.parametrize("layout", DOCUMENTS, indirect=True)
def test_no_document_is_given_more_messages_than_are_read(session, monkeypatch):
    """What could not be opened again is not saved, and what is there stays."""
    store, ref = session
    before = Path(ref.path).read_bytes()
    with store.writer(ref) as writer:
        monkeypatch.setattr(document_size, "MOST_ITEMS", len(writer.catch_up().entries))
        with pytest.raises(TooLarge):
            writer.append(turns(1, word="one more"))
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


@pytest.mark.parametrize("layout", ["pi", "aurora", "cortext"], indirect=True)
def test_r15_the_last_word_on_a_large_session_is_found_without_keeping_all_of_it(
    session, layout, monkeypatch
):
    """Its status, who answers and its header are those that a whole reading has."""
    store, ref = session
    kind = "perdure.agent_config"
    with Session.open(store, ref) as talked:
        talked.append(lifecycle.body("completed"), Custom(kind, {"command": "/workspace.plan"}))
        talked.append(*turns(3), lifecycle.body("active"))

    def known(opened: Session) -> tuple[object, ...]:
        newest = [each.id for each in islice(opened.newest_first(), 5)]
        said = [each.body for each in opened.newer(kind.encode()) if kind.encode() in each.line]
        return lifecycle.now(opened), newest, said, opened.header._replace(covers=0)

    whole = Session.view(store, ref)
    assert whole.entries
    expected = known(whole)
    assert expected[0] == "active"

    def refused(*given: object) -> None:
        raise AssertionError("all of it is read")

    monkeypatch.setattr(type(store), "read_open", refused)
    part = Session.view(store, ref)
    assert part.is_large
    assert known(part) == expected


def test_r15_what_session_json_does_not_know_yet_is_known_of_a_large_conversation(tmp_path):
    """A process that died between the log and session.json left the newer word in the log."""
    store = store_of("cortext", tmp_path)
    ref = filled(store)
    state = Path(ref.path).with_name("session.json")
    before = state.read_bytes()
    with Session.open(store, ref) as talked:
        talked.append(lifecycle.body("completed"))
    state.write_bytes(before)
    assert lifecycle.now(Session.view(store, ref)) == "completed"


def test_a_large_session_of_aur_is_looked_at_where_it_begins_and_ends(tmp_path):
    """Damage there is found, and how much a repair would keep is not known."""
    store = store_of("aurora", tmp_path)
    assert isinstance(store, FileStore)
    ref = filled(store)
    assert damaged.look(store, ref) == ([], None, True)
    with open(ref.path, "ab") as file:
        file.write(b"not a line\n")
    damage = damaged.look(store, ref)
    assert damage.problems
    assert not damage.is_torn_end
    assert all(damaged.told(ref, damage))


@pytest.mark.parametrize("layout", ["pi", "aurora", "cortext"], indirect=True)
def test_r15_the_torn_end_of_a_large_session_is_set_aside_as_a_repair_does_it(session, layout, tmp_path):
    """The same file is left, and the same beside it; without having all of it in memory."""
    store, ref = session
    assert isinstance(store, JsonlStore)
    path = Path(ref.path)
    sound = path.read_bytes()
    assert store.set_torn_end_aside(ref) is None
    torn = sound + sound[sound.rindex(b"\n", 0, -1) + 1 : -9]
    path.write_bytes(torn)
    path.chmod(0o640)
    tracemalloc.start()
    aside = store.set_torn_end_aside(ref)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert aside is not None
    assert (path.read_bytes(), Path(aside).read_bytes()) == (sound, torn)
    assert path.stat().st_mode & 0o777 == 0o640
    assert most < 1.5 * len(sound)
    assert not store.read(ref).problems


def test_a_torn_end_with_a_whole_record_before_it_is_left_to_a_repair(tmp_path):
    """Nothing that can be read goes out of the session."""
    store = store_of("aurora", tmp_path)
    assert isinstance(store, JsonlStore)
    ref = filled(store)
    path = Path(ref.path)
    last = path.read_bytes().rstrip(b"\n").rpartition(b"\n")[2]
    with path.open("ab") as file:
        file.write(last + last[:-9])
    before = path.read_bytes()
    assert store.set_torn_end_aside(ref) is None
    assert path.read_bytes() == before


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


MANY = [[number, number] for number in range(140_000)]


@pytest.mark.slow
@pytest.mark.parametrize("layout", ALL)
def test_what_is_saved_is_read_again_however_many_values_it_has(layout, tmp_path):
    """Also with half a character in it, or a number that no float holds."""
    store = store_of(layout, tmp_path)
    said = [Custom("x", {"many": MANY, "odd": odd}) for odd in ("\\ud800\ud800", HugeNumber("1e400"))]
    with Session.create(store) as session:
        session.append(Message(User("first")))
        saved = [session.append(each)[0] for each in said]
        session.append(Message(User("last")))
        ref = session.ref
    again = Session.view(store, ref)
    assert again.problems == []
    assert [entry.id for entry in again.entries if entry.type == "custom"] == [entry.id for entry in saved]
    assert [entry.text for entry in again.entries if entry.type == "message"] == ["first", "last"]
    for entry in again.entries:
        if isinstance(body := entry.body, Custom):
            assert body.data["many"] == MANY
