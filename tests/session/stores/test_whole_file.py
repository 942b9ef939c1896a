"""A document is replaced as a whole: the old one or the new one at any moment, never over somebody else's.

Shown with Soleur's layout; what is said here is true of every layout of whole files.
"""

import errno
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import Conflict, Held, NotSaved, PerdureError, Unreadable
from perdure.session import tree
from perdure.session.entry import Entry, placed
from perdure.session.session import Session
from perdure.session.stores import START, Cursor, Found, Header, document_size, files
from perdure.session.stores.soleur_json import SoleurStore
from perdure.session.tree import on_active_path
from perdure.testing import user_entry
from perdure.testing.corpus import record
from perdure.testing.durable import needs_fork, process
from perdure.testing.writing import turns
from tests.crash.test_interrupts import struck
from tests.effort import some
from tests.generated import sessions
from tests.soleur_files import ID, STAMP, append, put

TORN = (
    b'{\n  "messages": [\n    {\n      "role": "user",\n      "content": "whole"\n    },\n    {\n      "role'
)


@pytest.fixture
def store(tmp_path):
    return SoleurStore(str(tmp_path), cwd="/home/me/code", durability="power")


@pytest.fixture
def ref(store):
    return store.create(Header(ID, STAMP), turns(2))


def texts(store: SoleurStore, ref: Found) -> list[str]:
    page = store.read(ref)
    assert page.problems == []
    return [entry.text for entry in page.entries]


def edited(path: str, change: Callable[[Any], Any]) -> bytes:
    """The document as another program would write it."""
    saved = json.loads(Path(path).read_bytes())
    change(saved)
    return json.dumps(saved, indent=4).encode()


def add_theirs(saved: Any) -> None:
    saved["messages"].append({"role": "user", "content": "theirs"})


def kept_aside(ref: Found) -> list[Path]:
    return sorted(Path(ref.path).parent.glob("*.displaced"))


# --- other programs ---------------------------------------------------------------------------------------


def in_place(path: str, data: bytes) -> None:
    Path(path).write_bytes(data)


def by_rename(path: str, data: bytes) -> None:
    other = Path(f"{path}.new")
    other.write_bytes(data)
    other.replace(path)


@pytest.mark.parametrize("rewrite", [in_place, by_rename])
def test_what_another_program_adds_and_what_is_appended_are_both_kept(store, ref, rewrite):
    """The append is told, writes nothing, and works once the other's words are read."""
    with store.writer(ref, after=None) as writer:
        theirs = edited(ref.path, add_theirs)
        rewrite(ref.path, theirs)
        with pytest.raises(Conflict, match="changed by another program"):
            writer.append([user_entry("ours")])
        assert Path(ref.path).read_bytes() == theirs
        assert [entry.text for entry in writer.catch_up().entries] == ["theirs"]
        writer.append([user_entry("ours")])
    assert texts(store, ref) == ["turn 0", "turn 1", "theirs", "ours"]
    assert kept_aside(ref) == []


def test_a_change_that_neither_size_nor_time_shows_is_noticed(store, ref):
    """Some file systems count time in steps, and some programs set it back."""
    with store.writer(ref, after=None) as writer:
        before = os.stat(ref.path)
        with open(ref.path, "r+b") as file:
            file.write(Path(ref.path).read_bytes().replace(b"turn 0", b"TURN 0"))
        os.utime(ref.path, ns=(before.st_atime_ns, before.st_mtime_ns))
        with pytest.raises(Conflict):
            writer.append([user_entry("ours")])
    assert b"TURN 0" in Path(ref.path).read_bytes()


def test_the_same_bytes_under_the_same_name_are_no_change(store, ref):
    """A backup that was put back, say."""
    with store.writer(ref, after=None) as writer:
        by_rename(ref.path, Path(ref.path).read_bytes())
        writer.append([user_entry("ours")])
        assert writer.catch_up().entries == []
    assert texts(store, ref)[-1] == "ours"


@pytest.mark.parametrize("rewrite", [in_place, by_rename])
@pytest.mark.parametrize("change", ["dropped", "changed"])
def test_what_another_program_takes_away_is_kept_beside_the_file(store, ref, rewrite, change):
    """Once, as it was saved; whoever notices it is told where."""
    before = Path(ref.path).read_bytes()

    def take_away(saved: Any) -> None:
        if change == "dropped":
            saved["messages"].pop()
        else:
            saved["messages"][0]["content"] = "never said"

    with store.writer(ref, after=None) as writer:
        rewrite(ref.path, edited(ref.path, take_away))
        for _ in range(3):
            with pytest.raises(Conflict):
                writer.append([user_entry("ours")])
        (aside,) = kept_aside(ref)
        assert aside.read_bytes() == before
        assert len(writer.catch_up().entries) == (1 if change == "dropped" else 2)
        writer.append([user_entry("ours")])
    assert kept_aside(ref) == [aside]
    assert texts(store, ref)[-1] == "ours"


def test_a_file_deleted_while_in_use_is_put_back(store, ref):
    """By an append, or by a look at it, each of which says so; the next append goes on."""
    with store.writer(ref, after=None) as writer:
        for number, act in enumerate([lambda: writer.append([user_entry("lost")]), writer.catch_up]):
            before = Path(ref.path).read_bytes()
            os.unlink(ref.path)
            with pytest.raises(Conflict, match="back in its place"):
                act()
            assert Path(ref.path).read_bytes() == before
            writer.append([user_entry(f"after {number}")])
    assert texts(store, ref) == ["turn 0", "turn 1", "after 0", "after 1"]


@pytest.mark.parametrize("what", ["a link", "a folder", "a pipe"])
def test_what_is_no_file_any_more_is_neither_read_nor_replaced(store, ref, tmp_path, what):
    """What was saved is kept beside it, once, and every call says why it does nothing."""
    elsewhere = tmp_path / "elsewhere"
    with store.writer(ref, after=None) as writer:
        os.rename(ref.path, elsewhere)
        match what:
            case "a link":
                os.symlink(elsewhere, ref.path)
            case "a folder":
                os.mkdir(ref.path)
            case "a pipe":
                os.mkfifo(ref.path)
        before = elsewhere.read_bytes()
        for _ in range(2):
            with pytest.raises(Conflict):
                writer.append([user_entry("lost")])
            with pytest.raises(Unreadable):
                writer.catch_up()
    assert elsewhere.read_bytes() == before
    assert [path.read_bytes() for path in kept_aside(ref)] == [before]


def test_a_file_that_cannot_be_looked_at_is_not_replaced(store, ref, monkeypatch):
    """It may be there, with anything in it: the append fails, and works when it can be read again."""
    with store.writer(ref, after=None) as writer:
        with monkeypatch.context() as patch:
            patch.setattr(os, "pread", refusing(errno.EIO))
            with pytest.raises(NotSaved, match=os.strerror(errno.EIO)):
                writer.append([user_entry("lost")])
        writer.append([user_entry("after")])
    assert texts(store, ref) == ["turn 0", "turn 1", "after"]
    assert kept_aside(ref) == []


def test_a_writer_that_was_told_of_other_entries_has_not_read_these(store, ref):
    """As many of them prove nothing."""
    cursor = store.read(ref).cursor
    by_rename(ref.path, edited(ref.path, lambda saved: saved["messages"][0].update(id="another")))
    with store.writer(ref, after=cursor) as writer:
        with pytest.raises(Conflict):
            writer.append([user_entry("ours")])
        assert len(writer.catch_up().entries) == 2
    with pytest.raises(Conflict):
        store.read(ref, cursor)
    assert len(store.read(ref, START).entries) == 2
    with pytest.raises(Conflict):
        store.read(ref, Cursor(5, 0, 0, b"", 5, "x"))


# --- the disk ---------------------------------------------------------------------------------------------


def refusing(number: int) -> Callable[..., Any]:
    def refuse(*arguments: Any, **options: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return refuse


@contextmanager
def failing(name: str, first: int, last: int) -> Iterator[list[int]]:
    """Calls number `first` to `last` of a function of `os` fail; the list grows with every call."""
    real, calls = getattr(os, name), list[int]()

    def call(*arguments: Any, **options: Any) -> Any:
        calls.append(len(calls) + 1)
        if first <= calls[-1] <= last:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, name, call)
        yield calls


def refusal(act: Callable[[], Any]) -> str | None:
    """What the error says that a call raised, if it did."""
    try:
        act()
    except PerdureError as error:
        return error.message
    return None


CALLS = ["open", "write", "fdatasync", "fsync", "replace", "link", "unlink", "pread", "fstat", "lstat"]


@pytest.mark.parametrize("damage", [False, True], ids=["sound", "damaged"])
@pytest.mark.parametrize("lasting", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("name", CALLS)
def test_r10_whatever_call_fails_the_old_document_or_the_new_one_is_there(tmp_path, name, lasting, damage):
    """An append that failed is told and not acknowledged. When the fault is over the writer goes on, at the
    latest when it has looked; a damaged document is still there as it was."""
    if not hasattr(os, name):
        pytest.skip(f"needs os.{name}")
    for number in range(1, 100):
        home = tmp_path / str(number)
        if damage:
            _, ref = put(home, TORN)
            store = SoleurStore(str(home))
        else:
            store = SoleurStore(str(home))
            ref = store.create(Header(ID, STAMP), [user_entry("whole")])
        before = Path(ref.path).read_bytes()
        with store.writer(ref, after=None) as writer:
            with failing(name, number, 10**6 if lasting else number) as calls:
                told = refusal(partial(writer.append, [user_entry("first")]))
            assert told is None or str(home) in told
            acknowledged = ["whole"] if told else ["whole", "first"]
            now = [entry.text for entry in SoleurStore(str(home)).read(ref).entries]
            assert now in (acknowledged, ["whole", "first"])
            try:
                writer.append([user_entry("second")])
            except Conflict:
                writer.catch_up()
                writer.append([user_entry("second")])
            acknowledged.append("second")
        assert texts(store, ref) == acknowledged
        if damage:
            assert before in [path.read_bytes() for path in Path(ref.path).parent.glob("*.damaged*")]
        assert list(Path(ref.path).parent.glob("*.tmp")) == []
        if len(calls) < number:
            break
    else:
        pytest.fail("there is no end to the calls")
    assert number > 1 or name == "link"


def test_r10_what_is_put_back_after_a_failed_sync_is_synced(store, ref, monkeypatch):
    """Or else a power cut could leave nothing of what was acknowledged before."""
    synced: list[bytes] = []
    sync, names = files.sync_data, files.sync_names
    calls = 0

    def sync_data(descriptor: int) -> None:
        sync(descriptor)
        synced.append(os.pread(descriptor, os.fstat(descriptor).st_size, 0))

    def sync_names(folder: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise OSError(errno.EIO, "no")
        names(folder)

    before = Path(ref.path).read_bytes()
    with store.writer(ref, after=None) as writer:
        monkeypatch.setattr(files, "sync_data", sync_data)
        monkeypatch.setattr(files, "sync_names", sync_names)
        with pytest.raises(NotSaved):
            writer.append([user_entry("lost")])
        assert Path(ref.path).read_bytes() == before
        assert (synced[-1], calls) == (before, 2)


def test_an_append_is_on_disk_before_it_has_its_name_and_its_name_before_it_is_acknowledged(
    store, ref, monkeypatch
):
    """In this order; and an append of nothing syncs what is there."""
    steps: list[str] = []

    def noting(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any, **options: Any) -> Any:
            steps.append(name)
            return real(*arguments, **options)

        return noted

    with store.writer(ref, after=None) as writer:
        for module, name in ((files, "sync_data"), (files, "sync_names"), (os, "replace")):
            monkeypatch.setattr(module, name, noting(name, getattr(module, name)))
        writer.append([user_entry("more")])
        assert steps == ["sync_data", "replace", "sync_names"]
        steps.clear()
        writer.append([])
        assert steps == ["sync_data", "sync_names"]


def test_a_document_too_large_to_be_read_again_is_not_written(store, ref, monkeypatch):
    """Neither as a new session; and one of somebody else's is refused with its size."""
    before = Path(ref.path).read_bytes()
    monkeypatch.setattr(document_size, "LARGEST", len(before))
    with store.writer(ref, after=None) as writer, pytest.raises(NotSaved, match="MB"):
        writer.append([user_entry("more")])
    assert Path(ref.path).read_bytes() == before
    with pytest.raises(NotSaved):
        store.create(Header("other", STAMP), turns(9))
    monkeypatch.setattr(document_size, "LARGEST", len(before) - 1)
    with pytest.raises(Unreadable, match="MB"):
        store.read(ref)


@pytest.mark.parametrize("line", [b"{bad", b'{"a":1} x', b"[]", b"5", b"", b'{"type":"x"\n}', b'{"type":"x"'])
def test_what_is_no_record_never_gets_into_a_document(store, ref, line):
    """It would take everything else with it."""
    before = Path(ref.path).read_bytes()
    bad = Entry("message", "bad", line=line)
    with store.writer(ref, after=None) as writer, pytest.raises(NotSaved):
        writer.append([user_entry("good"), bad])
    with pytest.raises(NotSaved):
        store.create(Header("other", STAMP), [bad])
    assert Path(ref.path).read_bytes() == before
    assert len(list(store.list())) == 1


# --- a damaged document -----------------------------------------------------------------------------------


def test_a_damaged_document_is_set_aside_once(tmp_path, monkeypatch):
    """Before the first append replaces it, also if that does not succeed at once; later damage beside it."""
    store, ref = put(tmp_path, TORN)
    folder = Path(ref.path).parent
    with store.writer(ref, after=None) as writer:
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", refusing(errno.ENOSPC))
            for _ in range(2):
                with pytest.raises(NotSaved):
                    writer.append([user_entry("lost")])
        assert Path(ref.path).read_bytes() == TORN
        writer.append([user_entry("one")])
        writer.append([user_entry("two")])
    assert [path.name for path in sorted(folder.glob("*.damaged*"))] == [f"{ID}.json.damaged"]
    assert (folder / f"{ID}.json.damaged").read_bytes() == TORN
    assert texts(store, ref) == ["whole", "one", "two"]
    put(tmp_path, TORN + b"again")
    append(store, ref, user_entry("three"))
    assert [path.read_bytes() for path in sorted(folder.glob("*.damaged*"))] == [TORN, TORN + b"again"]


def test_reading_a_damaged_document_changes_nothing(tmp_path):
    """Nor does opening it to write, as long as nothing is written."""
    store, ref = put(tmp_path, TORN)
    with store.writer(ref) as writer:
        writer.catch_up()
        writer.append([])
    assert Path(ref.path).read_bytes() == TORN
    assert os.listdir(Path(ref.path).parent) == [f"{ID}.json"]


def test_a_repair_waits_for_nobody_and_is_done_once(tmp_path):
    """While somebody writes it is refused; the second one finds the first."""
    store, ref = put(tmp_path, TORN)
    with store.writer(ref), pytest.raises(Held):
        store.repair(ref)
    repaired = store.repair(ref)
    assert repaired is not None
    assert texts(store, repaired.ref) == ["whole"]
    before = Path(repaired.ref.path).read_bytes()
    assert store.repair(ref) is None
    assert Path(repaired.ref.path).read_bytes() == before
    assert Path(ref.path).read_bytes() == TORN


def test_what_was_left_unfinished_is_no_session_and_in_nobodys_way(store, ref):
    """A process was killed while it wrote: the next save takes the name, and a delete takes it along."""
    left = Path(f"{ref.path}.tmp")
    left.write_bytes(b'{"messages": [{"role": "user", "content": "half')
    assert [each.id for each in store.list()] == [ID]
    assert texts(store, ref) == ["turn 0", "turn 1"]
    append(store, ref, user_entry("more"))
    assert not left.exists()
    left.write_bytes(b"half")
    store.delete(ref)
    assert os.listdir(Path(ref.path).parent) == []


# --- interrupts, threads, processes -----------------------------------------------------------------------


# What an interrupt drops, a file that is open among it, is closed by nobody but the interpreter.
drops_files = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


class Interrupted(BaseException):
    pass


def interrupted_after(name: str, patch: pytest.MonkeyPatch) -> None:
    """The first call of a function of `os` succeeds, and then comes an interrupt."""
    real = getattr(os, name)

    def call(*arguments: Any, **options: Any) -> Any:
        real(*arguments, **options)
        patch.setattr(os, name, real)
        raise Interrupted

    patch.setattr(os, name, call)


@pytest.mark.parametrize("then", ["append", "catch_up", "release"])
def test_an_append_that_was_interrupted_is_taken_back(store, ref, monkeypatch, then):
    """Nobody was told of it: the next call finds the document as it was acknowledged."""
    before = Path(ref.path).read_bytes()
    writer = store.writer(ref, after=None)
    interrupted_after("replace", monkeypatch)
    with pytest.raises(Interrupted):
        writer.append([user_entry("lost")])
    assert b"lost" in Path(ref.path).read_bytes()
    match then:
        case "append":
            writer.append([user_entry("kept")])
        case "catch_up":
            assert writer.catch_up().entries == []
    writer.release()
    assert texts(store, ref) == ["turn 0", "turn 1", *(["kept"] if then == "append" else [])]
    assert then == "append" or Path(ref.path).read_bytes() == before


def test_an_append_that_was_interrupted_is_not_taken_back_from_another_program(store, ref, monkeypatch):
    """Which has read it by then, and added something."""
    with store.writer(ref, after=None) as writer:
        interrupted_after("replace", monkeypatch)
        with pytest.raises(Interrupted):
            writer.append([user_entry("perhaps")])
        in_place(ref.path, edited(ref.path, add_theirs))
        assert [entry.text for entry in writer.catch_up().entries] == ["perhaps", "theirs"]
        writer.append([user_entry("ours")])
    assert texts(store, ref) == ["turn 0", "turn 1", "perhaps", "theirs", "ours"]


@pytest.mark.slow
@pytest.mark.long
@drops_files
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("damage", [False, True], ids=["sound", "damaged"])
def test_r12_an_interrupt_between_any_two_steps_leaves_a_session_to_go_on_with(tmp_path, number, damage):
    """All entries of the append or none, and the same writer appends again; every 23rd instruction (or
    97th), from another one on each time."""
    handler = signal.getsignal(signal.SIGTERM)
    step = some(97, everything=23)
    point, possible = 1 + os.urandom(1)[0] % step, 10**6
    try:
        while point < possible:
            home = tmp_path / str(point)
            store, ref = put(
                home, TORN if damage else b'{"messages": [{"role": "user", "content": "whole"}]}'
            )
            both = [user_entry("a"), user_entry("b")]
            with store.writer(ref, after=None) as writer:
                interrupted, seen = struck(partial(writer.append, both), number, point)
                if not interrupted:
                    possible = seen
                try:
                    writer.append([user_entry("after")])
                except Conflict:
                    writer.catch_up()
                    writer.append([user_entry("after")])
            assert store.holder(ref) is None
            assert texts(store, ref) in (
                ["whole", "a", "b", "after"],
                *([["whole", "after"]] if interrupted else []),
            ), point
            assert not damage or Path(f"{ref.path}.damaged").read_bytes() == TORN, point
            assert list(Path(ref.path).parent.glob("*.tmp")) == []
            point += step
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert possible > 300


@pytest.mark.slow
@pytest.mark.long
@drops_files
def test_r12_an_interrupt_while_catching_up_hides_nothing(tmp_path):
    """What another program wrote is then still to be read, or an append says that it is."""
    step = some(97, everything=23)
    point, possible = 1 + os.urandom(1)[0] % step, 10**6
    while point < possible:
        store, ref = put(tmp_path / str(point), b'{"messages": [{"role": "user", "content": "whole"}]}')
        with store.writer(ref, after=None) as writer:
            in_place(ref.path, edited(ref.path, add_theirs))
            interrupted, seen = struck(writer.catch_up, signal.SIGINT, point)
            if not interrupted:
                possible = seen
            try:
                writer.append([user_entry("ours")])
            except Conflict:
                writer.catch_up()
                writer.append([user_entry("ours")])
        assert texts(store, ref) == ["whole", "theirs", "ours"], point
        point += step
    assert possible > 300


@pytest.mark.process
@needs_fork
def test_a_forked_child_takes_nothing_back(store, ref, monkeypatch):
    """Its parent's unfinished append is none of its business, whatever it calls."""
    with store.writer(ref, after=None) as writer:
        interrupted_after("replace", monkeypatch)
        with pytest.raises(Interrupted):
            writer.append([user_entry("perhaps")])
        there = Path(ref.path).read_bytes()

        def meddle() -> None:
            writer.catch_up()
            with pytest.raises(Conflict):
                writer.append([user_entry("never")])
            os.rename(ref.path, f"{ref.path}.gone")
            with pytest.raises(PerdureError):
                writer.catch_up()
            os.rename(f"{ref.path}.gone", ref.path)
            writer.release()

        with process(meddle):
            pass
        assert Path(ref.path).read_bytes() == there
        assert store.holder(ref) == os.getpid()
        writer.append([user_entry("after")])
    assert texts(store, ref) == ["turn 0", "turn 1", "after"]
    assert kept_aside(ref) == []


def test_threads_that_share_a_writer_take_turns(store, ref):
    """Nothing is lost, and each thread's entries are in its order."""
    failures: list[BaseException] = []
    with store.writer(ref, after=None) as writer:

        def write(name: int) -> None:
            try:
                for number in range(8):
                    writer.append([user_entry(f"{name} {number}")])
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=write, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []
    said = texts(store, ref)[2:]
    assert sorted(said) == [f"{name} {number}" for name in range(4) for number in range(8)]
    assert [text for text in said if text.startswith("2 ")] == [f"2 {number}" for number in range(8)]


def test_an_open_session_goes_on_after_a_conflict(store, ref):
    """As a program sees it: told, reloaded, and the talk goes on behind what the other one said."""
    with Session.open(store, ref) as session:
        session.append(user_entry("ours"))
        in_place(ref.path, edited(ref.path, add_theirs))
        with pytest.raises(Conflict):
            session.append(user_entry("refused"))
        session.reload()
        session.append(user_entry("after"))
        assert [entry.text for entry in session.path()][-3:] == ["ours", "theirs", "after"]


# --- the active path --------------------------------------------------------------------------------------


def shown(entries: list[Entry]) -> list[str]:
    return [entry.id for entry, is_active in zip(entries, on_active_path(entries), strict=True) if is_active]


@given(entries=sessions(), lost=st.sets(st.integers(0, 11)))
def test_the_active_path_is_the_trees(entries, lost):
    """From the first entry to the head, also where parents are missing."""
    left = [entry for number, entry in enumerate(entries) if number not in lost]
    folded = tree.fold(left)
    assert shown(left) == [entry.id for entry in tree.path(folded.entries, folded.ends.head)]


def test_the_active_path_of_a_session_without_a_word_is_empty():
    """Metadata alone is no conversation."""
    assert on_active_path([]) == []
    assert on_active_path([record("label", b',"targetId":"a"'), record("custom", b',"customType":"x"')]) == [
        *(False, False)
    ]


def test_the_active_path_ends_where_an_entry_is_its_own_parent():
    """However the parents point, it comes to an end."""
    one, other = turns(2)
    around = [placed(one, parent_id=other.id), placed(other, parent_id=other.id)]
    assert shown(around) == [one.id, other.id]
