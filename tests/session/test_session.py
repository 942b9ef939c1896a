"""A session that is being talked in: what it shows is what is on disk."""

import os
import threading
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from perdure.errors import Conflict, Held, NotFound, NotSaved, PerdureError, UsageError
from perdure.session import context, ids, tree
from perdure.session.entry import Assistant as AssistantMessage
from perdure.session.entry import (
    Compaction,
    ContextEdit,
    Custom,
    Entry,
    Label,
    Message,
    ModelChange,
    Text,
    ThinkingLevelChange,
    User,
    decode,
    new,
)
from perdure.session.session import Session
from perdure.session.stores import Found, Header
from perdure.session.stores.memory import MemoryStore
from perdure.session.stores.pi_jsonl import PiStore
from tests.compacted import compacted_sessions
from tests.generated import sessions

on_disk = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def said(text: str) -> Message:
    return Message(User(text))


def answered(text: str) -> Message:
    return Message(AssistantMessage([Text(text)]))


def texts(entries):
    return [entry.text for entry in entries]


@pytest.fixture(params=["pi", "memory"])
def store(request, tmp_path):
    return PiStore(str(tmp_path), durability="process") if request.param == "pi" else MemoryStore()


@on_disk
@given(entries=sessions())
def test_context_after_reload_equals_context_before(store, entries):
    """Saved, closed and opened again, a session sends a model exactly what it did before."""
    folded = tree.fold(entries)
    ref = store.create(Header(ids.new_id(), "2026-01-31T09:05:00.000Z"), entries)
    with Session.open(store, ref) as session:
        session.append(said("one more"))
        before = session.context()
        written = session.entries
    reopened = Session.view(store, ref)
    assert reopened.context() == before
    assert reopened.entries == written
    assert reopened.entries[: len(entries)] == folded.entries
    assert reopened.problems == []


@on_disk
@given(entries=sessions())
def test_a_fork_shares_its_prefix(store, entries):
    """The fork's entries are the path's own bytes, and the original is as it was."""
    ref = store.create(Header(ids.new_id(), "2026-01-31T09:05:00.000Z"), entries)
    original = Session.view(store, ref)
    for at in [*(entry.id for entry in entries[-3:]), None]:
        fork = Session.view(store, original.fork(at))
        path = tree.path(original.entries, at or original._ends.tip)
        assert [entry.raw for entry in fork.entries[: len(path)]] == [entry.raw for entry in path]
        assert all(entry.type == "label" for entry in fork.entries[len(path) :])
        for entry in path:
            assert fork.labels.get(entry.id) == original.labels.get(entry.id)
        assert fork.context() == original_context(original, at)
    assert Session.view(store, ref).entries == original.entries


def original_context(session: Session, at: str | None):
    return context.build(tree.path(session.entries, at or session._ends.tip))


@on_disk
@given(entries=compacted_sessions())
def test_a_context_read_from_the_end_is_that_of_the_whole_path(store, entries):
    """Condensed, reset, edited, branched, with parents missing and entries there twice: it is the same."""
    ref = store.create(Header(ids.new_id(), "2026-01-31T09:05:00.000Z"), entries)
    with Session.open(store, ref) as session:
        found, live = session.context(), session.live()
        assert found == original_context(session, None)
        assert found.messages == context.build(live).messages
        assert session.context() == found  # now that all is in memory
        assert [entry.id for entry in session.live()] == [entry.id for entry in live]
        session.append(said("one more"))
        found = session.context()
    assert Session.view(store, ref).context() == found


def test_a_reset_whose_parent_is_missing_is_one_however_a_session_is_read(store):
    """It follows the entry before it, for whoever opens the session as for whoever has read all of it."""
    stamp = "2026-01-31T09:05:00.000Z"
    before = new(said("before"), id="a", parent_id=None, timestamp=stamp)
    reset = new(Custom(context.RESET), id="c", parent_id="gone", timestamp=stamp)
    ref = store.create(Header(ids.new_id(), stamp), [before, reset])
    session = Session.view(store, ref)
    assert session.context().messages == []
    assert session.entries[-1].parent_id == "a"
    assert session.context().messages == []


def said_in(session: Session) -> list[str]:
    """What a model would be sent of what users said."""
    return [each.text for each in session.context().messages if isinstance(each, User)]


def test_a_session_whose_end_has_no_parent_goes_on_behind_it(store):
    """Opened, moved about in and read again: what is said next is said after the reset."""
    stamp = "2026-01-31T09:05:00.000Z"
    before = new(said("before"), id="a", parent_id=None, timestamp=stamp)
    reset = new(Custom(context.RESET), id="c", parent_id="gone", timestamp=stamp)
    ref = store.create(Header(ids.new_id(), stamp), [before, reset])
    with Session.open(store, ref) as session:
        session.move(None)
        session.reload()
        (after,) = session.append(said("after"))
        assert after.parent_id == "c"
        assert said_in(session) == ["after"]
        fork = session.fork()
    for each in (ref, fork):
        assert said_in(Session.view(store, each)) == ["after"]


def test_a_fork_goes_to_a_project_whose_directory_is_there(store, tmp_path, monkeypatch):
    """However it is written; what is no directory is refused, and no fork is made."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other").mkdir()
    with Session.create(store) as session:
        session.append(said("hello"))
        before = [found.id for found in store.list()]
        with pytest.raises(UsageError, match="'gone': No such file"):
            session.fork(cwd="gone")
        assert [found.id for found in store.list()] == before
        fork = session.fork(cwd="other")
    assert store.read(fork).header.cwd == os.path.join(os.getcwd(), "other")


def test_what_append_returns_is_already_there_for_others(store):
    """Persist, then show: another reader sees an entry before append has told of it."""
    with Session.create(store) as session:
        (entry,) = session.append(said("hello"))
        assert Session.view(store, session.ref).entries == [entry]


def test_a_branch_is_one_append_and_hides_nothing(store):
    """Going back and on leaves the other branch where it was."""
    with Session.create(store) as session:
        first, second = session.append(said("one"), answered("two"))
        session.move(first.id)
        (other,) = session.append(answered("instead"))
        assert texts(session.path()) == ["one", "instead"]
        assert tree.leaves(session.entries) == [second, other]
        assert tree.forks(session.entries) == [first.id]
    assert texts(Session.view(store, session.ref).path()) == ["one", "instead"]


def test_moving_before_the_first_entry_starts_a_second_root(store):
    with Session.create(store) as session:
        session.append(said("one"))
        session.move(None)
        session.append(said("another beginning"))
        assert texts(session.path()) == ["another beginning"]


def test_names_and_labels_leave_the_conversation_where_it_is(store):
    with Session.create(store) as session:
        first, last = session.append(said("one"), answered("two"))
        session.rename("a name")
        session.label(first.id[:8], "here")
        assert session.head == last.id
        session.append(said("three"))
    again = Session.view(store, session.ref)
    assert (again.name, again.labels) == ("a name", {first.id: "here"})
    assert texts(e for e in again.path() if e.type == "message") == ["one", "two", "three"]


def test_an_unknown_entry_is_not_found_and_changes_nothing(store):
    with Session.create(store) as session:
        session.append(said("one"))
        for act in (session.move, lambda id: session.label(id, "x"), session.fork):
            with pytest.raises(NotFound, match="Entry not found: nowhere"):
                act("nowhere")
        assert texts(session.path()) == ["one"]


def test_a_session_opened_to_read_cannot_be_written(store):
    with Session.create(store) as session:
        session.append(said("one"))
    with pytest.raises(PerdureError, match="not open for writing"):
        Session.view(store, session.ref).append(said("two"))


def test_only_one_may_talk_in_a_session_and_others_may_watch(store):
    with Session.create(store) as session:
        with pytest.raises(Held, match=f"held by process {os.getpid()}"):
            Session.open(store, session.ref, wait=0)
        session.append(said("one"))
        assert texts(Session.view(store, session.ref).path()) == ["one"]
    with Session.open(store, session.ref, wait=0) as again:
        assert texts(again.path()) == ["one"]


def test_a_clock_that_goes_backwards_changes_no_order(store):
    """Order is the order of writing: an hour back, 1970 and 2106 included."""
    moments = iter(datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=h) for h in (0, -1, 5, -490000, 700000))
    with Session.create(store, clock=lambda: next(moments)) as session:
        for word in ("one", "two", "three", "four"):
            session.append(said(word))
        assert texts(session.path()) == ["one", "two", "three", "four"]
    again = Session.view(store, session.ref)
    assert texts(again.path()) == texts(again.tail(9)) == ["one", "two", "three", "four"]


class TestOnDisk:
    @pytest.fixture
    def store(self, tmp_path):
        return PiStore(str(tmp_path), durability="process")

    @pytest.fixture
    def long(self, store):
        entries, parent = [], None
        for number in range(3000):
            entries.append(new(said(f"{number} " + "x" * 1000), id=ids.new_id(), parent_id=parent))
            parent = entries[-1].id
        return store.create(Header("long", "2026-01-31T09:05:00.000Z"), entries)

    def test_opening_reads_no_more_than_it_shows(self, store, long, monkeypatch):
        """The end of a session is read from the end: a hundred messages of three thousand, and the header."""
        read = []
        real = os.pread

        def watched(*arguments):
            read.append(real(*arguments))
            return read[-1]

        monkeypatch.setattr(os, "pread", watched)
        with Session.open(store, long) as session:
            assert [text.split()[0] for text in texts(session.tail(100))] == [
                str(n) for n in range(2900, 3000)
            ]
            session.append(said("next"))
        assert sum(map(len, read)) < 600_000 < long.size / 5

    @pytest.mark.slow
    @pytest.mark.parametrize("settings", [[ModelChange("openai", "gpt"), ThinkingLevelChange("high")], []])
    def test_resuming_a_compacted_session_takes_memory_for_what_is_sent(self, store, settings, monkeypatch):
        """5,000 messages, 50 MB: neither kept nor, where the settings stand beside the compaction, read."""
        entries, parent = [], None
        for number in range(5000):
            entries.append(new(said(f"{number} " + "x" * 10_000), id=ids.new_id(), parent_id=parent))
            parent = entries[-1].id
        ref = store.create(Header("long", "2026-01-31T09:05:00.000Z"), entries)
        first_kept = entries[-20].id
        del entries
        with Session.open(store, ref) as session:
            session.append(*settings, Compaction("so far", first_kept), said("on"))
        read, real = [], os.pread

        def watched(*arguments):
            data = real(*arguments)
            read.append(len(data))
            return data

        monkeypatch.setattr(os, "pread", watched)
        tracemalloc.start()
        try:
            with Session.open(store, ref) as session:
                before = tracemalloc.get_traced_memory()[0]
                tracemalloc.reset_peak()
                sent = session.context().messages
                peak = tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()
        assert len(sent) == 22
        assert peak < 6_000_000 < ref.size / 8
        if settings:
            assert sum(read) < 2_000_000

    def test_two_entries_of_one_id_are_told_apart_in_what_is_sent(self, store):
        """Only the tree has names for them, so it is asked: an edit of the first is not one of the second."""
        entries = [
            new(said("a"), id="x", timestamp="t"),
            new(said("b"), id="x", parent_id="x", timestamp="t"),
            new(ContextEdit("x", None), id="y", parent_id="x", timestamp="t"),
        ]
        ref = store.create(Header("twins", "2026-01-31T09:05:00.000Z"), entries)
        session = Session.view(store, ref)
        assert session.context() == context.build(session.path())
        assert session.context().messages == [User("b")]

    def test_the_tail_of_a_damaged_session_is_the_path_all_the_same(self, store, long):
        """A lost parent costs one link: reading back falls back to reading all."""
        with open(long.path, "r+b") as file:
            lines = file.readlines()
            lines[2990] = b"damaged beyond repair\n"
            file.seek(0)
            file.truncate()
            file.writelines(lines)
        session = Session.view(store, long)
        assert len(session.tail(2500)) == 2500
        assert session.tail(2500) == [e for e in session.path() if e.type == "message"][-2500:]

    def test_a_refused_write_leaves_the_session_as_it_was(self, store, monkeypatch):
        """The disk says no: nothing is shown, nothing is there, and the next append is clean."""
        with Session.create(store) as session:
            session.append(said("one"))
            with monkeypatch.context() as patch:
                patch.setattr(os, "write", refuse)
                with pytest.raises(NotSaved, match="No space left on device"):
                    session.append(said("lost"))
            assert texts(session.path()) == ["one"]
            session.append(said("two"))
            assert texts(session.path()) == ["one", "two"]
        assert texts(Session.view(store, session.ref).path()) == ["one", "two"]

    def test_after_a_conflict_reload_takes_in_what_others_wrote(self, store):
        """A program that knows no locks wrote: this is noticed, its entry kept, and then the talk goes on."""
        with Session.create(store) as session:
            (first,) = session.append(said("one"))
            foreign = new(said("from elsewhere"), id="0badcafe", parent_id=first.id, timestamp="t")
            with open(session.ref.path, "ab") as file:
                file.write(foreign.raw + b"\n")
            with pytest.raises(Conflict, match="changed by another program"):
                session.append(said("two"))
            session.reload()
            session.append(said("two"))
            assert texts(session.path()) == ["one", "from elsewhere", "two"]

    def test_a_missing_session_is_unreadable_not_new(self, store, tmp_path):
        """gemini-cli#18593: opening what is not there never makes a new session."""
        ref = Found("gone", str(tmp_path / "sessions" / "gone.jsonl"))
        os.makedirs(tmp_path / "sessions")
        with pytest.raises(PerdureError, match=r"gone\.jsonl"):
            Session.open(store, ref)
        assert list(store.list()) == []

    def test_a_fork_names_where_it_came_from(self, store):
        with Session.create(store) as session:
            (first,) = session.append(said("one"))
            session.append(Label(first.id, "x"))
            fork = session.fork()
        assert store.read(fork).header.parent_session == session.ref.path


def refuse(*_):
    raise OSError(28, "No space left on device")


class TestSharedAndInterrupted:
    @pytest.fixture
    def store(self, tmp_path):
        return PiStore(str(tmp_path))

    def test_threads_that_share_a_session_lose_nothing(self, store):
        """Each append is acknowledged and there, in one chain, whoever made it."""
        with Session.create(store) as session:
            acknowledged: list[str] = []

            def talk(name):
                for number in range(15):
                    acknowledged.extend(entry.id for entry in session.append(said(f"{name}{number}")))

            threads = [threading.Thread(target=talk, args=(name,)) for name in "abcd"]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            path = [entry.id for entry in session.path()]
        assert sorted(path) == sorted(acknowledged)
        assert [entry.id for entry in Session.view(store, session.ref).path()] == path
        assert len(path) == 60

    def test_an_interrupt_after_the_write_is_noticed(self, store, monkeypatch):
        """The entry is on disk but nobody was told; the next append goes on behind it, here and there."""
        with Session.create(store) as session:
            session.append(said("one"))
            real = tree.advanced

            def interrupted(*_):
                monkeypatch.setattr(tree, "advanced", real)
                raise KeyboardInterrupt

            monkeypatch.setattr(tree, "advanced", interrupted)
            with pytest.raises(KeyboardInterrupt):
                session.append(said("two"))
            session.append(said("three"))
            assert texts(session.path()) == ["one", "two", "three"]
        assert texts(Session.view(store, session.ref).path()) == ["one", "two", "three"]

    def test_a_reload_never_lets_go_of_the_last_copy(self, store):
        """Deleted: put back. Replaced: kept beside. Either way it is said, and then the talk goes on."""
        with Session.create(store) as session:
            session.append(said("one"))
            os.unlink(session.ref.path)
            with pytest.raises(Conflict, match="back in its place"):
                session.reload()
            session.reload()
            session.append(said("two"))
            assert texts(session.path()) == ["one", "two"]
            before = Path(session.ref.path).read_bytes()
            os.unlink(session.ref.path)
            Path(session.ref.path).write_bytes(b"")
            with pytest.raises(Conflict, match="displaced"):
                session.reload()
            (kept,) = Path(session.ref.path).parent.glob("*.displaced")
            assert kept.read_bytes() == before
            session.reload()
            session.append(said("anew"))
            assert texts(session.path()) == ["anew"]

    def test_a_closed_session_says_that_it_is_closed(self, store):
        session = Session.create(store)
        session.close()
        with pytest.raises(PerdureError, match="not open for writing"):
            session.append(said("too late"))

    def test_entries_that_share_an_id_do_not_move_the_head(self, store, tmp_path):
        """What the session shows before and after it is opened again is the same conversation."""
        entries = [
            new(said("a"), id="x", timestamp="t"),
            new(said("b"), id="y", parent_id="x", timestamp="t"),
            new(said("c"), id="x", parent_id="y", timestamp="t"),
        ]
        ref = store.create(Header("twins", "2026-01-31T09:05:00.000Z"), entries)
        with Session.open(store, ref) as session:
            assert texts(session.path()) == ["a", "b", "c"]
            session.append(said("d"))
            assert texts(session.path()) == ["a", "b", "c", "d"]
        assert texts(Session.view(store, ref).path()) == ["a", "b", "c", "d"]

    def test_a_fork_has_the_name_and_state_behind_the_head(self, store):
        with Session.create(store) as session:
            session.append(said("one"))
            session.rename("a name")
            fork = Session.view(store, session.fork())
        assert (fork.name, texts(e for e in fork.path() if e.type == "message")) == ("a name", ["one"])

    def test_looking_while_another_thread_talks_loses_nothing(self, tmp_path):
        """Whoever asks for the path meanwhile: no acknowledged entry is out of view or doubled."""
        store = PiStore(str(tmp_path / "quick"), durability="process")
        with Session.create(store) as session:
            session.append(said("first"))
            stop = threading.Event()
            seen: list[int] = []

            def look():
                while not stop.is_set():
                    session._tree = None  # as if it had not been read yet
                    seen.append(len(session.path()))

            watcher = threading.Thread(target=look)
            watcher.start()
            try:
                for number in range(300):
                    session.append(said(str(number)))
            finally:
                stop.set()
                watcher.join()
            assert len(session.path()) == len(session.entries) == 301
        assert len(Session.view(store, session.ref).path()) == 301
        assert seen == sorted(seen)

    def test_an_entry_appended_twice_is_two_entries(self, store):
        """Each has its own place and id; the path ends."""
        entry = Entry.message("user", "again")
        with Session.create(store) as session:
            session.append(entry, entry)
            session.append(entry)
            assert texts(session.path()) == ["again"] * 3
            assert len({each.id for each in session.entries}) == 3

    @pytest.mark.parametrize("written", [True, False])
    def test_a_move_outlives_an_interrupted_append(self, store, monkeypatch, written):
        """The retry goes where the interrupted one would have gone, or behind it if that is there."""
        with Session.create(store) as session:
            first, *_ = session.append(said("one"), said("two"))
            session.move(first.id)

            def interrupted(*_):
                monkeypatch.undo()
                raise KeyboardInterrupt

            if written:
                monkeypatch.setattr(tree, "advanced", interrupted)
            else:
                monkeypatch.setattr(session._writer, "append", interrupted)
            with pytest.raises(KeyboardInterrupt):
                session.append(said("instead"))
            session.append(said("then"))
            expected = ["one", "instead", "then"] if written else ["one", "then"]
            assert texts(session.path()) == expected
        assert texts(Session.view(store, session.ref).path()) == expected

    def test_a_move_after_an_interrupted_append_wins(self, store, monkeypatch):
        with Session.create(store) as session:
            first, *_ = session.append(said("one"), said("two"))

            def interrupted(*_):
                monkeypatch.undo()
                raise KeyboardInterrupt

            monkeypatch.setattr(tree, "advanced", interrupted)
            with pytest.raises(KeyboardInterrupt):
                session.append(said("three"))
            session.move(first.id)
            session.append(said("instead"))
            assert texts(session.path()) == ["one", "instead"]

    @pytest.mark.parametrize("what", ["hello", {"role": "user"}, 7])
    def test_what_is_no_entry_is_refused_in_a_sentence(self, store, what):
        with Session.create(store) as session:
            with pytest.raises(UsageError, match="Not an entry"):
                session.append(what)
            acts: list[Any] = [session.move, session.fork, session.rename]
            for act in acts:
                with pytest.raises(UsageError):
                    act(7)
            assert session.entries == session.tail(-1) == []

    def test_an_entry_cannot_pretend_to_be_a_header(self, store):
        """It would be acknowledged and never read again."""
        with Session.create(store) as session:
            with pytest.raises(NotSaved, match="header"):
                session.append(decode(b'{"type":"session","id":"zz","timestamp":"t"}'))
            assert session.entries == []
