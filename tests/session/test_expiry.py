"""Sessions that nobody used for long: what counts as use, and all that keeps one."""

import errno
import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perdure.errors import UsageError
from perdure.session import expiry, ids, trash
from perdure.session.catalog import Catalog, Scope
from perdure.session.expiry import Cleaned
from perdure.session.layouts import Home
from perdure.session.session import Session
from perdure.session.stores import Cursor, Found, Page, files, open_store
from perdure.session.stores.aurora_jsonl import AuroraStore
from perdure.session.stores.file_store import FileStore
from perdure.session.stores.lock import Lock
from perdure.testing import user_entry
from perdure.testing.durable import holding, needs_fork
from tests.aged_sessions import Sessions, touch, turn

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
OLD = NOW - timedelta(days=31)
YOUNG = NOW - timedelta(days=29)
DAYS = 30


def clean(sessions: Sessions, days: float = DAYS, spare: str = "") -> Cleaned:
    return expiry.clean(sessions.home, days, spare=spare, now=lambda: NOW)


def gone(done: Cleaned) -> list[str]:
    return sorted(each.id for each in done.removed)


@pytest.fixture
def sessions(tmp_path):
    return Sessions(tmp_path / "aurora")


@pytest.fixture
def before_lock(monkeypatch):
    """Does something once, between the look at a session and its lock."""

    def arrange(act: Callable[[], object]) -> None:
        acts = [act]
        lock = FileStore.lock

        def locked(store: FileStore, ref: Found, wait: float) -> Lock:
            if acts:
                acts.pop()()
            return lock(store, ref, wait)

        monkeypatch.setattr(FileStore, "lock", locked)

    return arrange


# --- how old a session is -------------------------------------------------------------------------------


def test_aur_08_older_than_so_many_days_is_removed_and_exactly_so_old_is_kept(sessions):
    """To the millisecond, and the number is known."""
    moment = NOW - timedelta(days=DAYS)
    tick = timedelta(milliseconds=1)
    for id, when in {"older": moment - tick, "exactly": moment, "younger": moment + tick}.items():
        sessions.write(id, when, turn(when))
    done = clean(sessions)
    assert (gone(done), done[1:]) == (["older"], ([], [], [], []))
    assert sessions.ids == ["exactly", "younger"]


@pytest.mark.parametrize(
    "last",
    [
        turn(YOUNG),
        {
            "type": "tool_result",
            "tool_call_id": "c",
            "name": "ls",
            "content": "",
            "timestamp": ids.stamp(YOUNG),
        },
        {"type": "status", "status": "completed", "timestamp": ids.stamp(YOUNG)},
        {"type": "entry", "entry": {"type": "label", "targetId": "x", "timestamp": ids.stamp(YOUNG)}},
        {"type": "somebody-else's", "timestamp": ids.stamp(YOUNG)},
        {**turn(0), "timestamp": YOUNG.timestamp()},
        {**turn(0), "timestamp": int(YOUNG.timestamp() * 1000)},
        {**turn(0), "timestamp": "2026-05-03T17:30:00+05:30"},
        {**turn(0), "timestamp": "2026-05-03T12:00:00"},
    ],
    ids=lambda line: f"{line['type']} {line.get('timestamp', '')}",
)
def test_aur_08_age_is_last_activity_of_any_kind(sessions, last):
    """Wherever in the file it stands: a clock that was set back counts by its latest word."""
    sessions.write("used", OLD, turn(OLD), last)
    sessions.write("used-before", OLD, last, turn(OLD))
    sessions.write("unused", OLD, turn(OLD))
    assert gone(clean(sessions)) == ["unused"]
    assert sessions.ids == ["used", "used-before"]


def test_aur_08_the_times_of_files_count_for_nothing(sessions):
    for id, when, mtime in (
        ("old-untouched", OLD, OLD.timestamp()),
        ("old-touched", OLD, NOW.timestamp()),
        ("old-from-1970", OLD, 0.0),
        ("young-untouched", YOUNG, OLD.timestamp()),
        ("young-from-1970", YOUNG, 0.0),
        ("young-from-the-future", YOUNG, NOW.timestamp() + 10**8),
    ):
        touch(sessions.write(id, when, turn(when)).path, mtime)
    assert gone(clean(sessions)) == ["old-from-1970", "old-touched", "old-untouched"]


@pytest.mark.parametrize(
    "when",
    [
        *(None, "", "yesterday", True, [], "2026-13-45"),
        *(0, "1970-01-01T00:00:00Z", "1969-12-31", -(10**12), 10**400),
        *(
            "0001-01-01T00:00:00+23:59",
            "9999-12-31T23:59:59-23:59",
            ids.stamp(NOW + timedelta(milliseconds=1)),
        ),
    ],
    ids=lambda when: f"{when!r:.30}",
)
def test_aur_08_a_session_is_kept_if_one_of_its_times_is_none(sessions, when):
    """Missing, unreadable, to come, or no later than 1970: created, first said or last said."""
    line = turn(when) if when is not None else {"type": "turn", "role": "user", "content": "said"}
    sessions.write("made", when, turn(OLD))
    sessions.write("first", OLD, line, turn(OLD))
    sessions.write("last", OLD, turn(OLD), line)
    sessions.write("alone", when)
    for ref in sessions.store.list():
        touch(ref.path, OLD.timestamp())  # else a file's time may say that it is young
    done = clean(sessions)
    assert (gone(done), done.held, done.problems) == ([], [], [])
    assert sorted(done.undated) == sessions.ids == ["alone", "first", "last", "made"]


def test_aur_08_a_damaged_session_is_kept_and_named(sessions):
    """But not one whose last line was cut off: that is all that a crash leaves."""
    sessions.write("damaged", OLD, turn(OLD), end=b"{broken\n" + json.dumps(turn(OLD)).encode() + b"\n")
    sessions.write("torn", OLD, turn(OLD), end=b'{"type":"turn","role":"us')
    Path(sessions.store.root, "empty.jsonl").touch()
    Path(sessions.store.root, "folder.jsonl").mkdir()
    for name in ("empty.jsonl", "folder.jsonl"):
        touch(Path(sessions.store.root, name), OLD.timestamp())
    done = clean(sessions)
    assert gone(done) == ["torn"]
    assert sorted(each.split()[0] for each in done.damaged) == ["damaged", "empty"]
    assert "line 3: not a record" in str(done.damaged)
    assert [each.split()[0] for each in done.problems] == ["folder"]
    assert sessions.ids == ["damaged", "empty", "folder"]


@pytest.mark.parametrize(
    "days",
    [-1, -0.001, float("nan"), float("inf"), -float("inf"), True, False, None, "30", b"3", [], 10**400],
    ids=lambda days: f"{days!r:.30}",
)
def test_aur_08_what_is_no_number_of_days_removes_nothing(sessions, days):
    sessions.write("old", OLD)
    for act in (lambda: clean(sessions, days), lambda: expiry.empty_trash([sessions.home], days=days)):
        with pytest.raises(UsageError, match="Not a number of days that is 0 or more"):
            act()
    assert sessions.ids == ["old"]
    assert not Path(sessions.home.path, "trash").exists()


def test_aur_08_any_good_number_of_days_is_obeyed(sessions):
    """Also one that is longer than there are dates."""
    for id, hours in (("now", 0), ("then", 13)):
        sessions.write(id, NOW - timedelta(hours=hours))
    for days in (1e300, 10**9, 0.55):
        assert gone(clean(sessions, days)) == []
    assert gone(clean(sessions, 0.5)) == ["then"]
    assert gone(clean(sessions, 0)) == []
    assert sessions.ids == ["now"]


# --- who else is there ----------------------------------------------------------------------------------


@pytest.mark.process
@needs_fork
def test_aur_08_a_session_that_a_live_process_holds_is_never_removed(sessions):
    """Another's, or ours."""
    theirs, ours = sessions.write("theirs", OLD), sessions.write("ours", OLD)
    sessions.write("nobodys", OLD)
    with holding(lambda: sessions.store.writer(theirs)), sessions.store.writer(ours):
        done = clean(sessions)
        assert (gone(done), sorted(done.held)) == (["nobodys"], ["ours", "theirs"])
        assert sessions.ids == ["ours", "theirs"]
    assert gone(clean(sessions)) == ["ours", "theirs"]


def test_aur_08_what_was_used_between_the_look_and_the_lock_stays(sessions, before_lock):
    """By a writer that is gone again: its status alone is a use."""
    ref = sessions.write("used", OLD, turn(OLD))

    def use() -> None:
        with Session.open(sessions.store, ref) as session:
            session.append(user_entry("I am back"))

    before_lock(use)
    done = clean(sessions)
    assert done == ([], [], [], [], [])
    assert b"I am back" in Path(ref.path).read_bytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(path.read_bytes()),
        lambda path: touch(path, 1),
        lambda path: (
            path.with_suffix(".new").write_bytes(path.read_bytes()),
            path.with_suffix(".new").replace(path),
        ),
        lambda path: path.write_bytes(path.read_bytes() + json.dumps(turn(OLD)).encode() + b"\n"),
        lambda path: path.write_bytes(path.read_bytes() + b"{\n{}\n"),
    ],
    ids=["written again", "touched", "replaced", "grew by what is old", "was damaged"],
)
def test_aur_08_what_is_not_the_file_that_was_looked_at_stays(sessions, before_lock, change):
    """Whatever it says by now: somebody is at work there."""
    path = Path(sessions.write("changed", OLD, turn(OLD)).path)
    before_lock(lambda: change(path))
    assert clean(sessions) == ([], [], [], [], [])
    assert sessions.ids == ["changed"]


def test_aur_08_what_is_born_during_a_sweep_stays(sessions, before_lock):
    """Also if it comes under the name of one that goes: its clock is ahead of when the sweep began."""
    sessions.write("old", OLD)
    later = NOW + timedelta(seconds=1)

    def bear() -> None:
        sessions.write("new", later, turn(later))
        os.unlink(Path(sessions.store.root, "old.jsonl"))
        sessions.write("old", later)

    before_lock(bear)
    assert gone(clean(sessions)) == []
    assert sessions.ids == ["new", "old"]


def test_aur_08_two_sweeps_at_once_remove_each_session_once(sessions, before_lock):
    for number in range(4):
        sessions.write(f"old-{number}", OLD)
    sessions.write("young", YOUNG)
    others: list[Cleaned] = []
    before_lock(lambda: others.append(clean(sessions)))
    done = clean(sessions)
    assert gone(others[0]) == ["old-0", "old-1", "old-2", "old-3"]
    assert done == ([], [], [], [], [])
    assert len(sessions.store.trashed()) == 4
    assert sessions.ids == ["young"]


def test_aur_08_one_that_cannot_be_removed_is_told_and_stops_no_other(sessions):
    """Here its lock cannot be made."""
    for id in ("a", "b", "c"):
        sessions.write(id, OLD)
    Path(sessions.home.path, "locks", "b.lock").mkdir(parents=True)
    done = clean(sessions)
    assert gone(done) == ["a", "c"]
    (problem,) = done.problems
    assert problem.startswith("b was kept: ")
    assert "b.lock" in problem
    assert sessions.ids == ["b"]


def test_aur_08_while_somebody_changes_the_trash_each_is_kept_and_told(sessions, monkeypatch):
    """And so is what was found out of others. The next call removes them."""
    monkeypatch.setattr(trash, "_WAIT", 0)
    for id in ("a", "b"):
        sessions.write(id, OLD)
    sessions.write("damaged", OLD, end=b"no record\n")
    with Lock(sessions.home.path, "locks/trash~.lock", "trash", 0):
        done = clean(sessions)
    assert sorted(each.partition(": ")[0] for each in done.problems) == ["a was kept", "b was kept"]
    assert all(f"in use by process {os.getpid()}" in each for each in done.problems)
    assert (gone(done), len(done.damaged), len(sessions.ids)) == ([], 1, 3)
    assert gone(clean(sessions)) == ["a", "b"]


def test_aur_08_where_nothing_can_be_moved_all_is_kept(sessions):
    """A file in place of the trash; and a home that cannot be listed."""
    sessions.write("old", OLD)
    Path(sessions.home.path, "trash").touch()
    done = clean(sessions)
    assert (gone(done), len(done.problems), sessions.ids) == ([], 1, ["old"])
    os.rename(sessions.store.root, f"{sessions.store.root}.elsewhere")
    Path(sessions.store.root).touch()
    done = clean(sessions)
    assert (gone(done), len(done.problems)) == ([], 1)


# --- the way back ---------------------------------------------------------------------------------------


def test_aur_08_what_was_removed_comes_back_with_its_bytes_and_then_stays(sessions):
    """Whoever brings a session back wants it: its time in the trash is no reason to take it again."""
    path = Path(sessions.write("old", OLD, turn(OLD, "what is the password policy?")).path)
    before = path.read_bytes()
    (removed,) = expiry.clean(sessions.home, DAYS).removed
    assert removed.title == "what is the password policy?"
    assert not path.exists()
    ref = sessions.store.restore("old")
    assert (ref.path, path.read_bytes()) == (str(path), before)
    with sessions.store.writer(ref):  # what its lock remembers is in nobody's way
        assert sessions.store.holder(ref) == os.getpid()
    assert gone(expiry.clean(sessions.home, DAYS)) == []
    in_a_month = lambda: ids.now() + timedelta(days=DAYS + 1)  # noqa: E731
    assert gone(expiry.clean(sessions.home, DAYS, now=in_a_month)) == ["old"]


def test_aur_08_what_was_recovered_stays(sessions):
    ref = sessions.write("old", OLD, turn(OLD), end=b"{broken\n" + json.dumps(turn(OLD)).encode() + b"\n")
    assert sessions.store.repair(ref)
    assert expiry.clean(sessions.home, DAYS) == ([], [], [], [], [])
    assert sessions.ids == ["old"]


def test_aur_08_one_session_can_be_spared(sessions):
    ref = sessions.write("wanted", OLD)
    sessions.write("old", OLD)
    assert gone(clean(sessions, spare=ref.path)) == ["old"]


# --- what it costs, and what it is asked of --------------------------------------------------------------


def test_aur_08_where_nothing_is_old_no_session_is_read(sessions, monkeypatch):
    """Once the catalog knows them, a sweep is a listing."""
    for number in range(20):
        sessions.write(f"young-{number}", YOUNG, turn(YOUNG))
    monkeypatch.setattr("perdure.session.indexing._SETTLED", 0)  # as if they had been there for a while
    assert gone(clean(sessions)) == []
    read: list[str] = []
    reading = AuroraStore.read

    def noted(store: AuroraStore, ref: Found, *after: Cursor) -> Page:
        read.append(ref.id)
        return reading(store, ref, *after)

    monkeypatch.setattr(AuroraStore, "read", noted)
    assert gone(clean(sessions)) == []
    assert read == []
    assert gone(clean(sessions, 1))
    assert len(read) == 40


def test_aur_08_the_file_decides_and_not_the_catalog(sessions, monkeypatch):
    """Which is a cache, and may say anything."""
    sessions.write("young", YOUNG, turn(YOUNG))
    monkeypatch.setattr("perdure.session.indexing._SETTLED", 0)
    with Catalog() as catalog:
        catalog.catch_up(Scope((sessions.home,)))
        catalog._db.execute("UPDATE session SET active = 1000, created = 1000, problem = NULL")
    done = clean(sessions)
    assert done == ([], [], [], [], [])
    assert sessions.ids == ["young"]


def test_aur_09_the_trash_of_every_home_is_emptied_after_thirty_days(tmp_path, sessions):
    """One that cannot be looked at is told, and stops no other; what does not say its age stays."""
    other = open_store("soleur", str(tmp_path / "soleur"))
    broken = Home("sibyl", str(tmp_path / "sibyl"))
    (tmp_path / "sibyl" / "trash" / "x").mkdir(parents=True)
    (tmp_path / "sibyl" / "locks" / "trash~.lock").mkdir(parents=True)
    for store in (sessions.store, other):
        with Session.create(store) as session:
            session.append(user_entry("hello"))
        store.delete(session.ref)
    nameless = tmp_path / "aurora" / "trash" / "nameless"
    nameless.mkdir()
    (nameless / "x.jsonl").touch()
    homes = [broken, sessions.home, Home("soleur", str(tmp_path / "soleur"))]
    soon, later = (lambda: ids.now() + timedelta(days=29)), (lambda: ids.now() + timedelta(days=31))
    assert expiry.empty_trash(homes, now=soon).gone == []
    done = expiry.empty_trash(homes, now=later)
    assert sorted(each.program for each in done.gone) == ["aurora", "soleur"]
    assert [each.folder for each in trash.listed(sessions.home.path)] == ["nameless"]
    (problem,) = done.problems
    assert "trash~.lock" in problem


# --- many at once -----------------------------------------------------------------------------------------


def test_aur_08_many_are_removed_without_a_look_at_all_others_for_each(sessions, monkeypatch):
    """The folder of the sessions is listed, and synced, once for dozens: a sweep takes a time that grows with
    what it removes, and not with its square."""
    listings, syncs = [], []
    names, sync = files.names, files.sync_folder_below

    def listed(root: str, relative: str) -> list[str]:
        listings.append((root, relative))
        return names(root, relative)

    def synced(root: str, relative: str) -> None:
        syncs.append((root, relative))
        sync(root, relative)

    monkeypatch.setattr(files, "names", listed)
    monkeypatch.setattr(files, "sync_folder_below", synced)
    for number in range(70):
        sessions.write(f"s-{number}", OLD, turn(OLD))
    done = clean(sessions)
    assert len(gone(done)) == 70
    assert listings.count((sessions.store.root, "")) == 2
    assert syncs.count((sessions.store.root, "")) == 2
    assert [relative for _, relative in syncs].count("trash") == 2


def test_aur_08_no_power_cut_takes_the_old_names_of_many_before_they_have_their_new_ones(
    sessions, monkeypatch
):
    """The folder they leave is synced when those they came to all are."""
    syncs = []
    sync = files.sync_folder_below

    def synced(root: str, relative: str) -> None:
        syncs.append(os.path.relpath(os.path.join(root, relative), sessions.home.path))
        sync(root, relative)

    monkeypatch.setattr(files, "sync_folder_below", synced)
    new_places = [os.path.join("trash", f"s-{number}") for number in range(20)]
    for place in new_places:
        sessions.write(os.path.basename(place), OLD, turn(OLD))
    clean(sessions)
    assert {*new_places} <= {*syncs}
    old_place = os.path.relpath(sessions.store.root, sessions.home.path)
    last_of_new = max(at for at, place in enumerate(syncs) if place in new_places)
    assert syncs.index(old_place) > last_of_new


def test_aur_08_where_the_trash_cannot_be_locked_all_are_kept_and_named(sessions):
    """It is no error of the clean-up as a whole: what else it found is told, too."""
    for name in ("one", "two"):
        sessions.write(name, OLD, turn(OLD))
    sessions.write("undated", "garbage", turn(OLD))
    Path(sessions.home.path, "locks", "trash~.lock").mkdir(parents=True)
    done = clean(sessions)
    assert gone(done) == []
    assert done.undated == ["undated"]
    assert sorted(each.partition(":")[0] for each in done.problems) == ["one was kept", "two was kept"]
    assert len(os.listdir(sessions.store.root)) == 3


@pytest.mark.parametrize("fails", ["note", "move"])
def test_aur_08_one_of_many_that_cannot_be_removed_is_where_it_was_and_the_others_go(
    sessions, monkeypatch, fails
):
    """Whether the disk refuses its note or its new place: it is kept whole, named, and not in the trash."""
    for name in ("one", "two", "three"):
        sessions.write(name, OLD, turn(OLD))
    before = Path(sessions.store.root, "two.jsonl").read_bytes()
    sync = files.sync_folder_below
    seen = []

    def synced(root: str, relative: str) -> None:
        if os.path.basename(relative) == "two":
            seen.append(relative)
            if len(seen) == (1 if fails == "note" else 2):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(root, relative)

    monkeypatch.setattr(files, "sync_folder_below", synced)
    done = clean(sessions)
    assert gone(done) == ["one", "three"]
    assert [each.startswith("two was kept: ") for each in done.problems] == [True]
    assert Path(sessions.store.root, "two.jsonl").read_bytes() == before
    assert sorted(os.listdir(Path(sessions.home.path, "trash"))) == ["one", "three"]
    monkeypatch.undo()
    assert gone(clean(sessions)) == ["two"]
    assert sessions.store.restore("one").id == "one"
