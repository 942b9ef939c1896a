"""A disk that is full or broken: told in the call that meets it, and nothing is left half done.

What must hold after each fault: the call that met it raised an error with the file and the cause in it,
the session reads as exactly what was acknowledged, and once the fault is over the next append is clean,
on the same `Session` and from a new process.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import NotSaved, Unreadable
from perdure.session.entry import Entry
from perdure.session.manager import SessionManager
from perdure.session.session import Session
from tests.crash.killing import (
    SLOW,
    alone,
    append_in_a_new_process,
    check_told,
    message,
    said,
    store_in,
    texts_in,
)
from tests.effort import some
from tests.small_disk import BALLAST, fill, make_room, needed_disk

# --- faults made in this process --------------------------------------------------------------------


@contextmanager
def failing(name: str, fail: Callable[..., Any]) -> Iterator[None]:
    """`os.<name>` replaced by `fail(real, *arguments)`."""
    real = getattr(os, name)
    setattr(os, name, lambda *arguments: fail(real, *arguments))
    try:
        yield
    finally:
        setattr(os, name, real)


def refused(number: int) -> Callable[..., Any]:
    def fail(real: Callable[..., Any], *arguments: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


def short(length: int, number: int) -> Callable[..., Any]:
    """The first write stores `length` bytes and says so; the next one tells why."""
    calls = count()

    def fail(write: Callable[..., int], descriptor: int, data: bytes) -> int:
        if next(calls):
            raise OSError(number, os.strerror(number))
        return write(descriptor, data[:length])

    return fail


@pytest.mark.slow
def test_r9_a_write_cut_short_at_any_length_leaves_nothing(layout, tmp_path):
    """The disk takes n bytes of an append and then is full, for each third n or every: nothing changed."""
    store = store_in(str(tmp_path), layout, "process")
    for entries_before in (0, 1):
        with Session.create(store) as session:
            for number in range(entries_before):
                session.append(message(f"before {number}"))
            before = texts_in(store, session.ref)
            size = os.stat(session.ref.path).st_size
            for length in count(step=some(3, everything=1)):
                with failing("write", short(length, errno.ENOSPC)):
                    try:
                        session.append(message("refused"), message("too"))
                        break
                    except NotSaved as error:
                        check_told(error, session.ref.path, errno.ENOSPC)
                assert os.stat(session.ref.path).st_size == size
                assert texts_in(store, session.ref) == before
            assert length > 200
            session.append(message("after"))
        assert texts_in(store, session.ref) == [*before, "refused", "too", "after"]


def test_r10_a_failed_sync_acknowledges_nothing_and_is_not_asked_again(layout, tmp_path):
    """The entry is taken back, and the next append writes its own bytes and syncs those."""
    store = store_in(str(tmp_path), layout)
    calls: list[str] = []

    def noted(name: str, real: Callable[..., Any], *arguments: Any) -> Any:
        calls.append(name)
        return real(*arguments)

    with Session.create(store) as session:
        session.append(message("kept"))
        with failing("fdatasync", refused(errno.EIO)), pytest.raises(NotSaved, match=os.strerror(errno.EIO)):
            session.append(message("refused"))
        assert texts_in(store, session.ref) == ["kept"]
        with failing("write", partial(noted, "write")), failing("fdatasync", partial(noted, "sync")):
            session.append(message("next"))
    assert texts_in(store, session.ref) == ["kept", "next"]
    assert calls[:2] == ["write", "sync"]


def test_r10_an_entry_saved_again_after_a_failed_sync_is_written_again(tmp_path):
    """The same entry, by its id: refused once, then there once, and not from the bytes whose sync failed."""
    manager = SessionManager(tmp_path)
    id = manager.create_session()
    entry = Entry.message("user", "at last")
    with failing("fdatasync", refused(errno.EIO)), pytest.raises(NotSaved):
        manager.save(id, [entry])
    assert manager.load_session(id) == []
    manager.save(id, [entry])
    assert [each.id for each in manager.load_session(id)] == [entry.id]


def test_r10_bytes_whose_sync_failed_are_never_acknowledged_even_if_they_cannot_be_taken_back(tmp_path):
    """A disk that turned read-only keeps refused bytes in memory: a second save must not call them saved."""
    manager = SessionManager(tmp_path)
    id = manager.create_session()
    manager.save(id, [Entry.message("user", "first")])
    entry = Entry.message("user", "refused")
    written: list[bytes] = []

    def noted(write: Callable[..., int], descriptor: int, data: bytes) -> int:
        written.append(data)
        return write(descriptor, data)

    with (
        failing("fdatasync", refused(errno.EIO)),
        failing("ftruncate", refused(errno.EROFS)),
        pytest.raises(NotSaved),
    ):
        manager.save(id, [entry])
    with failing("write", noted):
        manager.save(id, [entry])
    assert entry.id.encode() in b"".join(written), "acknowledged without having been written again"
    assert [each.text for each in manager.load_session(id)] == ["first", "refused"]


def test_an_entry_found_written_but_not_synced_is_synced_before_it_counts_as_saved(tmp_path):
    """Its writer was killed before the sync; saving it again writes nothing, and must still sync."""
    id = SessionManager(tmp_path).create_session()
    entry = Entry.message("user", "killed before the sync")
    SessionManager(tmp_path, durability="process").save(id, [entry])
    synced: list[int] = []

    def noted(sync: Callable[..., None], descriptor: int) -> None:
        sync(descriptor)
        synced.append(os.fstat(descriptor).st_ino)

    with failing("fdatasync", noted):
        SessionManager(tmp_path).save(id, [entry])
    (found,) = (each for each in tmp_path.glob("*.jsonl") if id in each.name)
    assert found.stat().st_ino in synced


@pytest.mark.parametrize("kept", [0, 1, 100, 8000], ids="{} bytes stay".format)
def test_what_cannot_be_taken_back_is_sealed_and_never_glued(layout, tmp_path, kept):
    """A torn record that the disk will not give up becomes a line of its own; its neighbours are whole."""
    store = store_in(str(tmp_path), layout)
    with Session.create(store) as session:
        session.append(message("before"))
        with (
            failing("write", short(kept, errno.ENOSPC)),
            failing("ftruncate", refused(errno.EIO)),
            pytest.raises(NotSaved),
        ):
            session.append(message("torn" * 2000))
        with failing("ftruncate", refused(errno.EIO)):
            session.append(message("after"))
        session.append(message("later"))
    page = store.read(session.ref)
    found = [entry.text for entry in page.entries if not entry.text.startswith("torn")]
    assert found == ["before", "after", "later"]
    assert all(problem.reason.endswith("left out") for problem in page.problems)


def test_a_file_with_a_bad_sector_is_told_and_hides_no_other(tmp_path):
    """Reading it raises an error with the file and the cause in it; a listing shows it with its problem."""
    manager = SessionManager(tmp_path)
    good, bad = manager.create_session(), manager.create_session()
    for id in (good, bad):
        manager.save(id, [Entry.message("user", "hello")])
    (path,) = (each for each in tmp_path.glob("*.jsonl") if bad in each.name)
    inode = path.stat().st_ino

    def unreadable(read: Callable[..., bytes], descriptor: int, *rest: int) -> bytes:
        if os.fstat(descriptor).st_ino == inode:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(descriptor, *rest)

    with failing("pread", unreadable):
        with pytest.raises(Unreadable) as caught:
            manager.load_session(bad)
        listed = {each.id: each.problem for each in manager.list_sessions()}
    check_told(caught.value, str(path), errno.EIO)
    assert listed[good] is None
    assert os.strerror(errno.EIO) in (listed[bad] or "")


# --- faults the kernel makes ------------------------------------------------------------------------


@pytest.mark.process
def test_r9_a_file_size_limit_is_an_error_and_the_session_goes_on_when_it_is_lifted(layout, tmp_path):
    """RLIMIT_FSIZE, at every byte of an append: a real short write, then EFBIG. Nothing of it stays."""
    assert alone(append_below_every_limit, home=str(tmp_path), layout=layout) > 200


def append_below_every_limit(home: str, layout: str) -> int:
    import resource

    store = store_in(home, layout, "process")
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Session.create(store) as session:
        session.append(message("before"))
        size = os.stat(session.ref.path).st_size
        for length in count():
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + length, hard))
            try:
                session.append(message(said("limited", 100)))
                break
            except NotSaved as error:
                check_told(error, session.ref.path, errno.EFBIG)
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
            assert texts_in(store, session.ref) == ["before"]
        session.append(message("after"))
    append_in_a_new_process(store, session.ref)
    assert texts_in(store, session.ref) == ["before", said("limited", 100), "after", "from a new process"]
    return length


@pytest.fixture
def small_disk(layout, tmp_path):
    """A real disk of 128 KB, in memory; of 512 KB for those who keep more than one file, or replace them."""
    with needed_disk(tmp_path / "disk", "512k" if layout in SLOW else "128k") as place:
        yield place


@pytest.mark.process
def test_r9_a_full_disk_is_told_in_the_call_that_meets_it(layout, small_disk):
    """Exactly what was acknowledged is there; then room is made, and the session goes on."""
    seen = alone(append_until_full, disk=str(small_disk), layout=layout)
    assert seen["short writes"] > 0
    assert seen["errors at once"] > 0


def append_until_full(disk: str, layout: str) -> dict[str, int]:
    place = Path(disk)
    store = store_in(str(place / "home"), layout)
    seen = {"short writes": 0, "errors at once": 0}

    def noted(write: Callable[..., int], descriptor: int, data: bytes) -> int:
        try:
            length = write(descriptor, data)
        except OSError:
            seen["errors at once"] += 1
            raise
        seen["short writes"] += length < len(data)
        return length

    (place / BALLAST).write_bytes(bytes(16_000))
    with Session.create(store) as session, Session.create(store) as empty, failing("write", noted):
        acknowledged: list[str] = []
        for number in count():
            try:
                session.append(message(said(str(number), 5000)))
            except NotSaved as error:
                check_told(error, session.ref.path, errno.ENOSPC)
                break
            acknowledged.append(said(str(number), 5000))
        assert number > 10
        assert texts_in(store, session.ref) == acknowledged
        fill(place)
        for _ in range(3):
            with pytest.raises(NotSaved, match=os.strerror(errno.ENOSPC)):
                session.append(message(said("no room", 5000)))
            with pytest.raises(NotSaved, match=os.strerror(errno.ENOSPC)):
                empty.append(message(said("no room", 5000)))
            with pytest.raises(NotSaved, match=os.strerror(errno.ENOSPC)):
                session.fork()
        make_room(place)
        assert texts_in(store, session.ref) == acknowledged
        assert texts_in(store, empty.ref) == []
        for each in (session, empty):
            each.append(message("after"))
    for each, expected in ((session, [*acknowledged, "after"]), (empty, ["after"])):
        append_in_a_new_process(store, each.ref)
        assert texts_in(store, each.ref) == [*expected, "from a new process"]
    assert len(list(store.list())) == 2
    assert list(place.rglob("*.tmp")) == []
    return seen
