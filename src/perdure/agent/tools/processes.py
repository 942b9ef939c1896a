"""A command that runs while others go on, and of which nothing is left if it is cancelled or takes too long.

A process belongs to a call if any of these is true. Honest programs escape each of them alone:

    it was started by one that does         a daemon's parent is gone
    it is in the session the call began     setsid begins another
    its environment has the call's mark     `env -i` drops it
    it writes to the call's pipe            a daemon may have closed that

Where there is no /proc only the first two are known, and a daemon made by a double fork outlives its call.
They are asked to end, and after a moment made to. Nothing else is ever signalled.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal
from uuid import uuid4

from msgspec import Struct

MARK = "PERDURE_CALL"
"""Calls a process belongs to: a Perdure that runs inside a call marks its own children in addition."""

GRACE = 0.3
"""Seconds between asking and forcing."""
_GIVE_UP = 5.0  # a process that hangs in the kernel does not end, and cannot be waited for
_QUIET = 0.1  # a child in the background may hold the pipe for ever; what the command wrote comes at once
_LONGEST_DRAIN = 0.5
_HAS_PROC = os.path.exists("/proc/self/environ")


class Ended(Struct, frozen=True):
    exit_code: int | None
    """None if it did not exit by itself."""
    reason: Literal["exited", "killed", "timed out"]
    signal: str = ""
    """The name of what killed it."""


async def run(
    command: Sequence[str],
    *,
    cwd: str,
    environment: Mapping[str, str],
    on_output: Callable[[bytes], None],
    timeout: float | None = None,
) -> Ended:
    """Run a command to its end; `on_output` gets what it and its children write, in order, as it comes.

    When the command has ended its children in the background may live on, but are not read from any more.
    When it is cancelled or `timeout` seconds have passed, none of them is left. OSError if it cannot start.
    """
    call = _Call(on_output)
    running = asyncio.ensure_future(call.run(command, cwd, environment, timeout))
    cancelled = False
    while not running.done():
        try:
            await asyncio.wait([running])
        except asyncio.CancelledError:  # also while it is ending: nothing may be left half done
            cancelled = True
            call.stop()
    if cancelled:
        if not running.cancelled():
            running.exception()
        raise asyncio.CancelledError
    return running.result()


class _Call(asyncio.SubprocessProtocol):
    def __init__(self, on_output: Callable[[bytes], None]) -> None:
        loop = asyncio.get_running_loop()
        self.on_output = on_output
        self.failure: BaseException | None = None
        self.last_output = 0.0
        self.exited, self.end_of_output, self.closed, self.stopped = (loop.create_future() for _ in range(4))

    def stop(self) -> None:
        _settle(self.stopped)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self.last_output = time.monotonic()
        if self.failure is None:
            try:
                self.on_output(data)
            except BaseException as error:
                self.failure = error
                self.stop()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        _settle(self.end_of_output)

    def process_exited(self) -> None:
        _settle(self.exited)

    def connection_lost(self, exc: Exception | None) -> None:
        _settle(self.closed)

    async def run(
        self, command: Sequence[str], cwd: str, environment: Mapping[str, str], timeout: float | None
    ) -> Ended:
        mark = uuid4().hex
        marks = ":".join(filter(None, [environment.get(MARK), mark]))
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: self,
            *command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={**environment, MARK: marks},
            start_new_session=True,
        )
        tree = _Tree(transport.get_pid(), mark, _inode(transport))
        try:
            await self._first_of(self.exited, timeout=timeout)
            in_time = self.exited.done()
            if in_time:
                await self._drain()
            if not in_time or self.stopped.done():
                await tree.end()
                await asyncio.wait([self.exited], timeout=_GIVE_UP)
                await asyncio.wait([self.end_of_output], timeout=_QUIET)
        except BaseException:  # the event loop itself is being shut down
            tree.signal(tree.living(), signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
            raise
        finally:
            transport.close()
        await asyncio.wait([self.closed], timeout=_GIVE_UP)
        if self.failure is not None:
            raise self.failure
        return _ended(transport.get_returncode(), in_time=in_time)

    async def _drain(self) -> None:
        """Until nobody can write any more or nobody does."""
        end = time.monotonic() + _LONGEST_DRAIN
        self.last_output = time.monotonic()
        while not self.end_of_output.done() and not self.stopped.done():
            now = time.monotonic()
            wait = min(end, self.last_output + _QUIET) - now
            if wait <= 0:
                return
            await self._first_of(self.end_of_output, timeout=wait)

    async def _first_of(self, future: asyncio.Future[None], timeout: float | None) -> None:
        await asyncio.wait([future, self.stopped], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _inode(transport: asyncio.SubprocessTransport) -> int:
    pipe = transport.get_pipe_transport(1)
    if pipe is None or os.name != "posix":
        return 0
    return os.fstat(pipe.get_extra_info("pipe").fileno()).st_ino


def _ended(code: int | None, *, in_time: bool) -> Ended:
    if not in_time:
        return Ended(None, "timed out")
    if code is None or code < 0:
        return Ended(None, "killed", _name_of_signal(-(code or -signal.SIGTERM)))
    return Ended(code, "exited")


def _name_of_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class _Process(Struct, frozen=True, gc=False):
    pid: int
    parent: int
    group: int
    session: int
    started: str
    """With the pid, this is one process and no other."""


class _Tree:
    """The processes of one call."""

    def __init__(self, root: int, mark: str, pipe: int) -> None:
        self.root = root
        self.mark = mark.encode("ascii")
        self.pipe = f"pipe:[{pipe}]"
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
        while misses < 2 and time.monotonic() < force_at + _GIVE_UP:
            living = self.living()
            misses = 0 if living else misses + 1
            if time.monotonic() >= force_at:
                self.signal(living, signal.SIGKILL)
            else:
                self.signal(living - asked, signal.SIGTERM)
            asked |= living
            await asyncio.sleep(0.01 if living else 0)

    def living(self) -> set[int]:
        table = {each.pid: each for each in _all_processes()}
        table.pop(os.getpid(), None)
        found = {
            each.pid
            for each in table.values()
            if self.seen.get(each.pid) == each.started
            or self.root in (each.pid, each.group, each.session)
            or (_HAS_PROC and self._is_marked(each.pid))
        }
        _add_descendants(found, table.values())
        self.seen |= {pid: table[pid].started for pid in found}
        return found - self.beyond_us

    def _is_marked(self, pid: int) -> bool:
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if self.mark in file.read():
                    return True
            return self.pipe in (os.readlink(f"/proc/{pid}/fd/1"), os.readlink(f"/proc/{pid}/fd/2"))
        except OSError:  # it has ended, or is another user's
            return False

    def signal(self, pids: Iterable[int], number: int) -> None:
        for pid in pids:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
            except PermissionError:  # another user's by now, as with sudo
                self.beyond_us.add(pid)


def _add_descendants(found: set[int], processes: Iterable[_Process]) -> None:
    children: dict[int, list[int]] = {}
    for each in processes:
        children.setdefault(each.parent, []).append(each.pid)
    waiting = list(found)
    while waiting:
        new = [pid for pid in children.get(waiting.pop(), ()) if pid not in found]
        found.update(new)
        waiting += new


def _all_processes() -> Iterator[_Process]:
    """Without those that have ended and only wait to be noticed."""
    return _from_proc() if _HAS_PROC else _from_ps()


def _from_proc() -> Iterator[_Process]:
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The second field is the program's name in brackets, and may have anything in it.
                state, parent, group, session, *rest = file.read().rpartition(b")")[2].split()
        except (OSError, ValueError):
            continue
        if state not in (b"Z", b"X"):
            yield _Process(int(name), int(parent), int(group), int(session), rest[15].decode())


def _from_ps() -> Iterator[_Process]:
    command = ["ps", "-A", "-o", "pid=,ppid=,pgid=,state=,lstart="]
    listed = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    for line in listed.stdout.decode("utf-8", "replace").splitlines():
        pid, parent, group, state, started = line.split(None, 4)
        if not state.startswith("Z"):
            yield _Process(int(pid), int(parent), int(group), int(group), started)


def _taskkill(pid: int) -> None:
    with contextlib.suppress(OSError):
        command = ["taskkill", "/T", "/F", "/PID", str(pid)]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
