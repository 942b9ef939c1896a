"""What a store promises whose sessions outlive the process, beside all that every store does.

These clauses use real processes and take files away from under the store.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from perdure.errors import Held, PerdureError
from perdure.session.stores import Found, Page, Store, Writer
from perdure.testing.contract import StoreContract
from perdure.testing.writing import (
    WRITERS,
    assert_all_written,
    save,
    turns,
    write_in_parts,
    write_in_turns,
)

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


class DurableStoreContract(StoreContract):
    private: ClassVar[bool] = True
    """Whether what is made is for its owner only. In a folder that people share the umask decides."""

    def steps_to(self, store: Store, ref: Found) -> list[Path]:
        """The way to a session's entries: every folder below the store's root, then the file itself."""
        return [Path(ref.path)]

    # --- after the process, and beside others -----------------------------------------------------

    @needs_fork
    def test_another_process_sees_everything(self, store: Store, ref: Found, tmp_path: Path) -> None:
        """What one process appended another reads, and goes on from."""
        said = turns(4)
        with process(lambda: save(self.make_store(tmp_path), ref, said[:3])):
            pass
        assert self.holds(store, ref, said[:3])
        save(self.make_store(tmp_path), ref, said[3:])
        assert self.holds(store, ref, said)

    @needs_fork
    def test_sixteen_processes_lose_nothing(self, store: Store, ref: Found, tmp_path: Path) -> None:
        """Every entry of each of them is there exactly once, in the order in which it was written."""
        with contextlib.ExitStack() as running:
            for number in range(WRITERS):
                work = _Work(write_in_turns, self.make_store(tmp_path), ref, number)
                running.enter_context(process(work))
        assert_all_written(store.read(ref).entries)

    @needs_fork
    def test_a_reader_beside_a_writing_process_sees_a_prefix(
        self, store: Store, ref: Found, tmp_path: Path
    ) -> None:
        """Only whole entries, in order, none twice, whether it starts over or follows with a cursor."""
        said = turns(60)
        with process(lambda: write_in_parts(self.make_store(tmp_path).writer(ref), said)) as pid:
            self.check_prefixes(store, ref, said, lambda: is_running(pid))
        assert self.holds(store, ref, said)

    @needs_fork
    def test_a_second_process_is_told_which_one_holds_the_session(
        self, store: Store, ref: Found, tmp_path: Path
    ) -> None:
        """By its number, to whoever waits, deletes or asks."""
        with holding(lambda: self.make_store(tmp_path).writer(ref)) as pid:
            assert store.holder(ref) == pid
            with pytest.raises(Held, match=f"process {pid}"):
                store.writer(ref, wait=0.1)
            with pytest.raises(Held, match=f"process {pid}"):
                store.delete(ref)

    @needs_fork
    def test_a_process_that_dies_frees_its_session(self, store: Store, ref: Found, tmp_path: Path) -> None:
        """However it dies; nothing has to be cleaned up before the next one writes."""
        said = turns(2)
        save(store, ref, said[:1])
        with holding(lambda: self.make_store(tmp_path).writer(ref)) as pid:
            os.kill(pid, signal.SIGKILL)
            with store.writer(ref, wait=10) as writer:
                writer.catch_up()
                writer.append(said[1:])
        assert store.holder(ref) is None
        assert self.holds(store, ref, said)

    @needs_fork
    def test_a_forked_child_has_no_part_in_its_parents_writer(self, store: Store, ref: Found) -> None:
        """It cannot append with it, and its end does not take the session from the parent."""
        said = turns(2)

        def append_in_child() -> None:
            with pytest.raises(PerdureError):
                writer.append(turns(1))

        with store.writer(ref) as writer:
            writer.append(said[:1])
            with process(append_in_child):
                pass
            assert store.holder(ref) == os.getpid()
            writer.append(said[1:])
        assert self.holds(store, ref, said)

    # --- files that change under the store --------------------------------------------------------

    @pytest.mark.parametrize("how", ["deleted", "moved", "replaced", "emptied", "cut"])
    def test_a_file_taken_away_while_open_is_noticed(
        self, store: Store, ref: Found, tmp_path: Path, how: str
    ) -> None:
        """The next append says so and writes nothing; what was saved is still on disk; writing goes on."""
        said = turns(5, word=f"kept-{os.urandom(8).hex()}")
        save(store, ref, said[:3])
        with store.writer(ref) as writer:
            writer.catch_up()
            take_away(self.steps_to(store, ref), how)
            with pytest.raises(PerdureError):
                writer.append(said[3:4])
            assert not is_somewhere(tmp_path, said[3].text)
            if how not in ("emptied", "cut"):  # those bytes are gone from under every name
                assert [each.text for each in said[:3] if not is_somewhere(tmp_path, each.text)] == []
            writer.catch_up()
            writer.append(said[4:])
        found = [each.id for each in store.read(ref).entries]
        assert found[-1] == said[4].id
        assert found[:-1] == [each.id for each in said[: len(found) - 1]]

    @pytest.mark.parametrize("step", [-1, 0], ids=["the file", "the first folder"])
    def test_a_symbolic_link_in_the_store_is_not_followed(
        self, store: Store, ref: Found, tmp_path: Path, step: int
    ) -> None:
        """Neither to read nor to write."""
        save(store, ref, turns(2))
        elsewhere = put_link(self.steps_to(store, ref)[step], tmp_path)
        before = contents(elsewhere)
        with pytest.raises(PerdureError):
            store.read(ref)
        with pytest.raises(PerdureError):
            next(store.read_back(ref))
        with pytest.raises(PerdureError):
            store.writer(ref)
        assert contents(elsewhere) == before

    @pytest.mark.parametrize("step", [-1, 0], ids=["the file", "the first folder"])
    def test_deleting_takes_nothing_from_behind_a_symbolic_link(
        self, store: Store, ref: Found, tmp_path: Path, step: int
    ) -> None:
        """The link itself may go; what it leads to stays where it is, as it is."""
        save(store, ref, turns(2))
        elsewhere = put_link(self.steps_to(store, ref)[step], tmp_path)
        before = contents(elsewhere)
        with contextlib.suppress(PerdureError):
            store.delete(ref)
        assert contents(elsewhere) == before

    def test_what_is_made_is_for_its_owner_only(self, store: Store, tmp_path: Path) -> None:
        """Files 0600 and folders 0700, whatever the umask lets through; in a shared layout it decides."""
        before = os.umask(0 if self.private else 0o027)
        try:
            for how in ("", "deleted", "replaced"):
                ref = store.create(self.header(), turns(1))
                with store.writer(ref) as writer:
                    last = writer.catch_up().entries
                    writer.append(turns(1, last[-1]))
                    if how:
                        take_away(self.steps_to(store, ref), how)
                        with pytest.raises(PerdureError):
                            writer.append(turns(1))
            store.delete(store.create(self.header()))
        finally:
            os.umask(before)
        modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in tmp_path.rglob("*")}
        folder, file = (0o700, 0o600) if self.private else (0o750, 0o640)
        wide = {
            path: oct(mode) for path, mode in modes.items() if mode != (folder if path.is_dir() else file)
        }
        assert wide == {}

    @pytest.mark.parametrize("damage", ["NULs", "noise", "a folder", "a dangling link"])
    def test_a_broken_session_hides_no_other(self, store: Store, damage: str) -> None:
        """It is listed like the others, and reading it says what is wrong with it and nothing else."""
        refs = [store.create(self.header(), turns(2)) for _ in range(5)]
        broken = refs[2]
        spoil(self.steps_to(store, broken)[-1], damage)
        found = list(store.list())
        assert sorted(each.id for each in found) == sorted(ref.id for ref in refs)
        assert [each.id for each in found if problem_of(store, each)] == [broken.id]
        assert all(len(store.read(each).entries) == 2 for each in found if each.id != broken.id)

    def test_a_session_deleted_during_a_listing_hides_no_other(self, store: Store) -> None:
        """The listing goes on to its end."""
        refs = {(ref := store.create(self.header(), turns(1))).id: ref for _ in range(6)}
        listing = store.list()
        first = next(listing).id
        gone = next(ref for id, ref in refs.items() if id != first)
        self.steps_to(store, gone)[-1].unlink()
        assert refs.keys() - {gone.id} <= {first, *(each.id for each in listing)}


# --- processes --------------------------------------------------------------------------------------


class _Work:
    """A call to be made in another process."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self._function = function
        self._arguments = arguments

    def __call__(self) -> object:
        return self._function(*self._arguments)


@contextlib.contextmanager
def process(work: Callable[[], object]) -> Iterator[int]:
    """Do `work` in a child while the block runs, and wait for its end, which must be a good one."""
    pid = _start(work)
    try:
        yield pid
    except BaseException:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        raise
    finally:
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


@contextlib.contextmanager
def holding(open_writer: Callable[[], Writer]) -> Iterator[int]:
    """A child that holds a writer until the block ends or somebody kills it."""
    ready, tell = os.pipe()

    def hold() -> None:
        writer = open_writer()
        os.write(tell, b".")
        signal.pause()
        writer.release()

    pid = _start(hold)
    try:
        os.close(tell)
        assert os.read(ready, 1) == b"."
        yield pid
    finally:
        os.close(ready)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _start(work: Callable[[], object]) -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of the test runner; the child has none
        pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def is_running(pid: int) -> bool:
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


# --- damage -----------------------------------------------------------------------------------------


def take_away(steps: list[Path], how: str) -> None:
    file = steps[-1]
    match how:
        case "deleted":
            file.unlink()
        case "moved":
            steps[0].rename(steps[0].with_name("moved"))
        case "replaced":
            other = file.with_name("other")
            other.touch(0o600)
            other.chmod(file.stat().st_mode & 0o777)
            other.replace(file)
        case "emptied":
            os.truncate(file, 0)
        case "cut":
            os.truncate(file, file.stat().st_size - 10)


def put_link(place: Path, outside: Path) -> Path:
    """Move a file or folder out of the store and leave a link to it. Returns the folder it is in now."""
    elsewhere = outside / "elsewhere"
    elsewhere.mkdir()
    place.rename(elsewhere / place.name)
    place.symlink_to(elsewhere / place.name)
    return elsewhere


def spoil(file: Path, damage: str) -> None:
    size = file.stat().st_size
    file.unlink()
    match damage:
        case "NULs":
            file.write_bytes(bytes(size))
        case "noise":
            file.write_bytes(os.urandom(size))
        case "a folder":
            file.mkdir()
        case "a dangling link":
            file.symlink_to("nowhere")


def problem_of(store: Store, ref: Found) -> bool:
    try:
        page: Page = store.read(ref)
    except PerdureError:
        return True
    return bool(page.problems)


def contents(folder: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


def is_somewhere(folder: Path, text: str) -> bool:
    return any(text.encode() in path.read_bytes() for path in folder.rglob("*") if path.is_file())
