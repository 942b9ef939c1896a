"""A command that runs while others go on, and of which nothing is left if it is cancelled or takes too long.

A process belongs to a call if any of these is true. Honest programs escape each of them alone:

    it was started by one that does         a daemon's parent is gone
    it is in the session the call began     setsid begins another
    its environment has the call's mark     `env -i` drops it
    it writes to the call's pipe            a daemon may have closed that
    it holds the call's tether              so does one that closes all it was born with

The tether is a pipe that nobody uses and that every child inherits. What remains is a daemon that escapes all
five: its parent is gone, and it has a new session, an empty environment and no descriptor of its parent's. It
outlives its call. Where there is no /proc only the first two are known, and any double fork does; so it is
with a process that lets nobody look into it, as one of ours that runs an agent does not.
They are asked to end, and after a moment made to. Nothing else is ever signalled.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal
from uuid import uuid4

from msgspec import Struct

from perdure.agent import supervisor_process
from perdure.agent.process_origin import MARK
from perdure.agent.supervisor import BackgroundProcess, Supervisor, of_this_program
from perdure.agent.supervisor_process import (
    GIVE_UP,
    GRACE,
    add_descendants,
    all_processes,
    has_members,
    name_of,
)

_TETHER = 61  # its number in a process: shells use those from 10 on, and 255; the limit may be as low as 64
_QUIET = 0.1  # a child in the background may hold the pipe for ever; what the command wrote comes at once
_LONGEST_DRAIN = 0.5
_CHUNK = 64 * 1024
_CAN_WATCH_PIPES = os.name == "posix"


class Ended(Struct, frozen=True):
    exit_code: int | None
    """None if it did not exit by itself."""
    reason: Literal["exited", "killed", "timed out"]
    signal: str = ""
    """The name of what killed it."""
    background: tuple[BackgroundProcess, ...] = ()
    """What it has started and left running."""


async def run(
    command: Sequence[str],
    *,
    cwd: str,
    environment: Mapping[str, str],
    on_output: Callable[[bytes], None],
    timeout: float | None = None,
    supervisor: Supervisor | None = None,
) -> Ended:
    """Run a command to its end; `on_output` gets what it and its children write, in order, as it comes.

    When the command has ended its children in the background live on, but are not read from any more: until
    `supervisor` is closed, or, without one, this program ends. When it is cancelled or `timeout` seconds have
    passed, none of them is left. OSError if it cannot start.
    """
    supervisor = supervisor or of_this_program()
    if not supervisor.is_running:
        await asyncio.to_thread(supervisor.begin)
    call = _Call(command, cwd, environment, on_output, supervisor)
    watching = asyncio.ensure_future(call.watch(timeout))
    cancelled = False
    try:
        while not watching.done():
            try:
                await asyncio.wait([watching])
            except asyncio.CancelledError:  # also while it is ending: nothing may be left half done
                cancelled = True
                call.stop()
    finally:
        call.close()
    if cancelled:
        if not watching.cancelled():
            watching.exception()  # seen; being cancelled counts for more
        raise asyncio.CancelledError
    return watching.result()


class _Call:
    """Started without a pause: a loop that is shut down finds either nothing or all there is to end."""

    def __init__(
        self,
        command: Sequence[str],
        cwd: str,
        environment: Mapping[str, str],
        on_output: Callable[[bytes], None],
        supervisor: Supervisor,
    ) -> None:
        mark = supervisor.mark + uuid4().hex[:16]
        marks = ":".join(filter(None, [environment.get(MARK), mark]))
        self.pipe, written = os.pipe()
        # Our end stays open until the call is over: as long as it is, no other pipe has its number.
        self.tether, given = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        files = {0: nothing, 1: written, 2: written}
        if supervisor_process.HAS_PROC:
            files[_TETHER] = given
        try:
            self.process = supervisor.start(
                command,
                cwd=cwd,
                environment={**environment, MARK: marks},
                files=files,
            )
        except BaseException:
            os.close(self.pipe)
            os.close(self.tether)
            raise
        finally:
            for each in (written, given, nothing):
                os.close(each)
        pipe, tether = _pipe(self.pipe), _pipe(self.tether)
        self.tree = _Tree(self.process.pid, mark, {_TETHER: tether, 1: pipe, 2: pipe})
        self.on_output = on_output
        self.failure: Exception | None = None
        self.last_output = 0.0
        self.is_over = False
        self.loop = asyncio.get_running_loop()
        self.exited, self.end_of_output, self.stopped = (self.loop.create_future() for _ in range(3))
        self.process.on_end(lambda: self._tell(_settle, self.exited))
        if _CAN_WATCH_PIPES:
            os.set_blocking(self.pipe, False)
            self.loop.add_reader(self.pipe, self._readable)
        else:
            threading.Thread(target=self._pump, daemon=True).start()

    def stop(self) -> None:
        _settle(self.stopped)

    async def watch(self, timeout: float | None) -> Ended:
        await self._first_of(self.exited, timeout)
        in_time = self.exited.done()
        background: Sequence[BackgroundProcess] = ()
        if in_time:
            await self._drain()
            background = await self._left_running()
        if not in_time or self.stopped.done():
            await self.tree.end()
            await asyncio.wait([self.exited], timeout=GIVE_UP)
            await asyncio.wait([self.end_of_output], timeout=_QUIET)
        elif self.process.is_lost:
            await self.tree.end()  # what its supervisor would have ended
        self.is_over = True
        if self.failure is not None:
            raise self.failure
        return _ended(self.process.exit_code, in_time=in_time, background=background)

    async def _drain(self) -> None:
        """Until nobody can write any more or nobody does."""
        self.last_output = time.monotonic()
        end = self.last_output + _LONGEST_DRAIN
        while (wait := min(end, self.last_output + _QUIET) - time.monotonic()) > 0:
            await self._first_of(self.end_of_output, wait)
            if self.end_of_output.done() or self.stopped.done():
                return

    async def _left_running(self) -> Sequence[BackgroundProcess]:
        if not self.process.may_have_left_others or not await asyncio.to_thread(self.tree.living):
            return ()
        await self._first_of(self.stopped, _QUIET)  # some are about to end, or to become another program
        return await asyncio.to_thread(self.tree.named)

    async def _first_of(self, future: asyncio.Future[None], timeout: float | None) -> None:
        await asyncio.wait([future, self.stopped], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)

    def close(self) -> None:
        if not self.is_over:  # the loop is being shut down, and lets nobody wait
            self.tree.end_at_once()
            self.process.wait(GIVE_UP)
        if _CAN_WATCH_PIPES:
            self.loop.remove_reader(self.pipe)
            os.close(self.pipe)
        os.close(self.tether)

    def _received(self, data: bytes) -> None:
        self.last_output = time.monotonic()
        if self.failure is None:
            try:
                self.on_output(data)
            except Exception as error:
                self.failure = error
                self.stop()

    def _readable(self) -> None:
        try:
            data = os.read(self.pipe, _CHUNK)
        except BlockingIOError:
            return
        if data:
            self._received(data)
        else:
            self.loop.remove_reader(self.pipe)
            _settle(self.end_of_output)

    def _pump(self) -> None:
        """In a thread, where a loop cannot wait for pipes. A chunk is read when the one before was taken."""
        taken = threading.Semaphore(0)

        def take(data: bytes) -> None:
            self._received(data)
            taken.release()

        with open(self.pipe, "rb", buffering=0) as pipe:
            while data := pipe.read(_CHUNK):
                if not self._tell(take, data):
                    return
                taken.acquire()
        self._tell(_settle, self.end_of_output)

    def _tell(self, what: Callable[..., None], *arguments: object) -> bool:
        """From a thread. False if the loop has been closed and nobody is interested any more."""
        try:
            self.loop.call_soon_threadsafe(what, *arguments)
        except RuntimeError:
            return False
        return True


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _ended(code: int | None, *, in_time: bool, background: Iterable[BackgroundProcess]) -> Ended:
    if not in_time:
        return Ended(None, "timed out")
    if code is None or code < 0:
        return Ended(None, "killed", _name_of_signal(-(code or -signal.SIGTERM)), (*background,))
    return Ended(code, "exited", background=(*background,))


def _name_of_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class _Tree:
    """The processes of one call."""

    def __init__(self, root: int, mark: str, held: Mapping[int, str]) -> None:
        self.root = root
        self.mark = mark.encode("ascii")
        self.held = held
        """What its descriptors lead to, by their numbers."""
        self.seen: dict[int, str] = {}
        self.beyond_us: set[int] = set()

    async def end(self) -> None:
        if os.name != "posix":
            _taskkill(self.root)
            return
        asked: set[int] = set()
        force_at = time.monotonic() + GRACE
        misses = 0
        # One that forks between being listed and being looked at is seen in the second look.
        while misses < 2 and time.monotonic() < force_at + GIVE_UP:
            living = self.living()
            misses = 0 if living else misses + 1
            if time.monotonic() >= force_at:
                self.signal(living, signal.SIGKILL)
            else:
                self.signal(living - asked, signal.SIGTERM)
            asked |= living
            await asyncio.sleep(0.01 if living else 0)

    def end_at_once(self) -> None:
        if os.name != "posix":
            _taskkill(self.root)
            return
        give_up_at = time.monotonic() + GIVE_UP
        misses = 0
        while misses < 2 and time.monotonic() < give_up_at:
            living = self.living()
            misses = 0 if living else misses + 1
            self.signal(living, signal.SIGKILL)
            time.sleep(0.005 if living else 0)

    def living(self) -> set[int]:
        table = {each.pid: each for each in all_processes()}
        if not table:  # they cannot be listed: the group is all that can be signalled
            return ({-self.root} if has_members(self.root) else set()) - self.beyond_us
        table.pop(os.getpid(), None)
        found = {
            each.pid
            for each in table.values()
            if self.seen.get(each.pid) == each.started
            or self.root in (each.pid, each.group, each.session)
            or (supervisor_process.HAS_PROC and self._is_marked(each.pid))
        }
        add_descendants(found, [*table.values()])
        self.seen |= {pid: table[pid].started for pid in found}
        return found - self.beyond_us

    def named(self) -> list[BackgroundProcess]:
        """Those that run now, by their pids and the names of their programs."""
        return [BackgroundProcess(abs(pid), name_of(pid)) for pid in sorted(self.living())]

    def _is_marked(self, pid: int) -> bool:
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            with open(f"/proc/{pid}/environ", "rb") as file:
                if self.mark in file.read():
                    return True
            for number, pipe in self.held.items():
                with contextlib.suppress(FileNotFoundError):  # it was closed
                    if os.readlink(f"/proc/{pid}/fd/{number}") == pipe:
                        return True
        return False

    def signal(self, pids: Iterable[int], number: int) -> None:
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
            except PermissionError:  # another user's by now, as with sudo
                self.beyond_us.add(pid)


def _pipe(descriptor: int) -> str:
    """As /proc names it."""
    return f"pipe:[{os.fstat(descriptor).st_ino}]"


def _taskkill(pid: int) -> None:
    with contextlib.suppress(OSError):
        command = ["taskkill", "/T", "/F", "/PID", str(pid)]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
