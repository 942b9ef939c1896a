"""Locks of sessions that are gone: which go, when, and all that keeps one."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import NotSaved, PerdureError
from perdure.session import holder as holder_module
from perdure.session.entry import Message, User
from perdure.session.holder import holder_at, try_to_lock
from perdure.session.manager import pi_store
from perdure.session.session import Session
from perdure.session.stores import Header, Store, open_store
from perdure.session.stores import lock as lock_module
from perdure.session.stores.file_store import FileStore
from perdure.session.stores.lock import Lock, holder
from tests import layouts

BEGUN = "2026-01-31T09:05:00.123Z"


@pytest.fixture(params=layouts.ALL)
def store(request, tmp_path):
    return layouts.store_of(request.param, tmp_path)


def used(store: Store) -> Session:
    """A session in which something was said, and that nobody holds."""
    session = Session.create(store)
    session.append(Message(User("hello")))
    session.close()
    return session


def folder_of(store: Store) -> Path:
    assert isinstance(store, FileStore)
    return Path(store.home, ".workspace" if store.name == "cortext" else "", "locks")


def locks(store: Store) -> list[str]:
    """The locks of sessions; those that guard something else end with `~`."""
    return sorted(path.stem for path in folder_of(store).glob("*.lock") if not path.stem.endswith("~"))


def lock_of(store: FileStore, session: Session) -> str:
    return Path(store.lock_path(session.ref)).stem


def leave(store: Store, *stems: str) -> None:
    """Locks as sessions left them that are gone."""
    for stem in stems:
        Lock(str(folder_of(store).parent), os.path.join("locks", f"{stem}.lock"), stem, 0).release()


def test_g_7_a_session_in_which_nothing_was_said_leaves_no_lock(store):
    """Neither where it is closed and looked at again, nor where its maker takes it back."""
    session = Session.create(store)
    session.close()
    made = store.create(Header(store.new_id(Header("", BEGUN)), BEGUN))
    Session.open(store, made).close()
    assert len(locks(store)) == 2
    assert store.remove_empty(session.ref)
    assert store.take_back(made)
    assert locks(store) == []


def test_who_wants_a_session_that_is_gone_leaves_no_lock(store):
    """It is removed once more, taken back, opened and read."""
    session = Session.create(store)
    session.close()
    assert store.remove_empty(session.ref)
    assert not store.remove_empty(session.ref)
    assert not store.take_back(session.ref)
    with pytest.raises(PerdureError):
        Session.open(store, session.ref, wait=0)
    assert locks(store) == []


def test_a_lock_stays_as_long_as_its_session_is_there_or_in_the_trash(store):
    """And goes when that is emptied; a restored session has kept its own."""
    kept, restored, gone = used(store), used(store), used(store)
    everything = sorted(lock_of(store, each) for each in (kept, restored, gone))
    for session in (restored, gone):
        store.delete(session.ref)
    store.remove_unused_locks()
    assert locks(store) == everything
    store.restore(restored.id)
    assert [each.id for each in store.remove_for_good(lambda _: True)] == [gone.id]
    assert locks(store) == sorted(lock_of(store, each) for each in (kept, restored))


def test_a_lock_stays_while_an_earlier_session_of_its_id_is_in_the_trash(store):
    """Also where its folder in the trash has a number."""
    session = used(store)
    entries = session.entries
    first = store.delete(session.ref)
    made = store.create(Header(session.id, BEGUN), entries)
    second = store.delete(made)
    store.remove_for_good(lambda each: each.folder == first.folder)
    assert [each.folder for each in store.trashed()] == [second.folder]
    assert locks(store) == [lock_of(store, session)]


def test_locks_that_nobody_removed_in_time_go_with_the_trash(store):
    """However many; not those that are held, nor those that guard something else than a session."""
    session = used(store)
    leave(store, *(f"gone-{number}" for number in range(250)), "2026-01-31~001-plan-gone")
    leave(store, "trash~", "decisions~")
    (folder_of(store) / "empty.lock").touch()
    (folder_of(store) / ".new.lock").touch()
    (folder_of(store) / "decisions").mkdir()
    with Lock(str(folder_of(store).parent), "locks/held.lock", "held", 0):
        store.expire()
        assert locks(store) == sorted([".new", lock_of(store, session), "held"])
        assert holder_at(str(folder_of(store) / "held.lock")) == os.getpid()
    assert (folder_of(store) / "trash~.lock").exists()
    assert (folder_of(store) / "decisions~.lock").exists()
    assert (folder_of(store) / "decisions").is_dir()


def test_a_file_that_is_no_lock_of_ours_stays(store):
    """Of another content, a folder, a link."""
    session = used(store)
    (folder_of(store) / "other.lock").write_text("{}")
    (folder_of(store) / "folder.lock").mkdir()
    (folder_of(store) / "link.lock").symlink_to(session.ref.path)
    store.remove_unused_locks()
    assert locks(store) == sorted(["other", "folder", "link", lock_of(store, session)])


def test_nothing_goes_where_it_cannot_be_seen_which_sessions_there_are(tmp_path):
    """A project's folder behind a link, and a trash that is none."""
    store: Any = layouts.store_of("pi", tmp_path)
    used(store)
    leave(store, "gone")
    (tmp_path / "sessions" / "--linked--").symlink_to(tmp_path)
    store.remove_unused_locks()
    assert "gone" in locks(store)
    (tmp_path / "sessions" / "--linked--").unlink()
    (tmp_path / "trash").touch()
    store.remove_unused_locks()
    assert "gone" in locks(store)
    (tmp_path / "trash").unlink()
    store.remove_unused_locks()
    assert "gone" not in locks(store)


def test_programs_that_share_a_home_leave_each_other_their_locks(tmp_path):
    """Each of the four that may, whoever removes."""
    stores: list[Any] = [layouts.store_of(name, tmp_path) for name in ("pi", "aurora", "soleur", "sibyl")]
    everything = sorted(lock_of(store, used(store)) for store in stores)
    for store in stores:
        store.expire()
        assert locks(store) == everything


def test_a_folder_of_pis_home_opened_alone_leaves_the_others_their_locks(tmp_path):
    """It shares their locks, and lists only its own sessions."""
    everything = layouts.store_of("pi", tmp_path)
    session, other = used(everything), used(open_store("pi", str(tmp_path), cwd="/another"))
    folder = os.path.dirname(session.ref.path)
    alone: Any = pi_store(folder)
    assert [each.id for each in alone.list()] == [session.id]
    alone.expire()
    assert locks(everything) == sorted([session.id, other.id])


@pytest.mark.parametrize("layout", ["pi", "sibyl"])
def test_sessions_right_in_a_folder_keep_their_locks(layout, tmp_path):
    """As a library's sessions lie, beside `locks/` and `trash/`."""
    store: Any = open_store(layout, str(tmp_path / "home"), sessions_dir=str(tmp_path / "mine"))
    session = used(store)
    gone = used(store)
    store.delete(gone.ref)
    store.remove_for_good(lambda _: True)
    assert [path.stem for path in Path(store.lock_path(session.ref)).parent.glob("[!ti]*")] == [session.id]


def test_a_lock_that_a_crash_left_marked_as_removed_can_be_taken(tmp_path):
    """The mark is written before the file goes, and a process may die between the two."""
    path = tmp_path / "locks" / "s.lock"
    Lock(str(tmp_path), "locks/s.lock", "s", 0).release()
    path.write_bytes(b"%-31b\n" % b"removed")
    with Lock(str(tmp_path), "locks/s.lock", "s", 0) as lock:
        assert (lock.is_mine(), lock.generation) == (True, 1)
        assert holder(str(tmp_path), "locks/s.lock") == holder_at(str(path)) == os.getpid()


@pytest.mark.parametrize("is_path_out_of_date", [False, True])
def test_who_opened_a_lock_that_was_then_removed_takes_the_one_that_is_there(
    is_path_out_of_date, tmp_path, monkeypatch
):
    """It was removed between the open and the lock. A network file system may not know that by its path."""
    place = str(tmp_path), "locks/s.lock"
    first = [Lock(*place, "s", 0)]

    def take(descriptor: int) -> bool:
        if first:
            first.pop().remove()
        return try_to_lock(descriptor)

    monkeypatch.setattr(lock_module, "try_to_lock", take)
    if is_path_out_of_date:
        monkeypatch.setattr(Lock, "is_mine", lambda lock: True)
    with Lock(*place, "s", 0) as second:
        own, there = os.fstat(second._file.fileno()), os.stat(second.path)
        assert (own.st_ino, own.st_dev, own.st_nlink) == (there.st_ino, there.st_dev, 1)


@pytest.mark.parametrize("times", [2, 10**9])
def test_a_stale_file_handle_is_opened_anew_but_not_for_ever(times, tmp_path, monkeypatch):
    """Of a lock file that was removed it is one only once; of a folder that is gone, always."""
    left = iter(range(times))
    real = lock_module._opened

    def opened(*place: Any) -> Any:
        if next(left, None) is not None:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return real(*place)

    monkeypatch.setattr(lock_module, "_opened", opened)
    if times == 2:
        Lock(str(tmp_path), "locks/s.lock", "s", 0).release()
    else:
        with pytest.raises(NotSaved, match=r"s\.lock"):
            Lock(str(tmp_path), "locks/s.lock", "s", 0)


def test_who_asks_of_a_lock_that_was_removed_meanwhile_asks_again(tmp_path, monkeypatch):
    """It is held by another process's word, whichever file was opened first."""
    place = str(tmp_path), "locks/s.lock"
    old = Lock(*place, "s", 0)
    reopened: list[Lock] = []
    real = os.open

    def opening(path, *rest, **options):
        descriptor = real(path, *rest, **options)
        if str(path).endswith("s.lock") and not reopened:
            reopened.append(old)
            old.remove()
            reopened.append(Lock(*place, "s", 0))
        return descriptor

    monkeypatch.setattr(os, "open", opening)
    assert holder_at(os.path.join(*place)) == os.getpid()
    assert len(reopened) == 2
    reopened[1].release()


def test_who_holds_a_lock_is_told_also_where_no_file_seems_to_have_a_path(tmp_path, monkeypatch):
    """Some file systems count no links: asking again changes nothing then, and ends."""
    place = str(tmp_path), "locks/s.lock"
    for module in (holder_module, lock_module):
        monkeypatch.setattr(module, "has_name", lambda descriptor: False)
    with Lock(*place, "s", 0):
        assert holder(*place) == holder_at(os.path.join(*place)) == os.getpid()
    assert holder(*place) is holder_at(os.path.join(*place)) is None
