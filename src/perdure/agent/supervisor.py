"""Processes that end with this program, however it ends, and with the conversation that they belong to.

A `Supervisor` starts them by way of a process of its own (supervisor_process.py), which ends them and all
that they have started when it is closed or this program dies. That process is started with the first of them.
If somebody kills it, what it had started is ended from here, as far as sessions and marks tell, and the next
command gets a new one. A supervisor may be used from any thread and event loop.
"""

from __future__ import annotations

import atexit
import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from perdure import config
from perdure.agent.process_origin import MARK
from perdure.agent.supervisor_process import GIVE_UP, GRACE, HAS_PROC, RELEASE, all_processes, has_members

if TYPE_CHECKING:
    import subprocess
    from types import ModuleType

_LOADER_VARIABLES = ("LD_", "DYLD_")  # what an interpreter may need to be loaded
_ANSWER_WITHIN_S = 10.0
_MOST_NAMED = 5


class BackgroundProcess(NamedTuple):
    """One that a command has started and left running."""

    pid: int
    name: str


def describe_processes(processes: Sequence[BackgroundProcess]) -> str:
    """Their pids and names, for a sentence: the first few of many."""
    named = [f"{each.pid} {each.name}".rstrip() for each in processes]
    more = f" and {len(named) - _MOST_NAMED:,} more" if len(named) > _MOST_NAMED else ""
    return f"{', '.join(named[:_MOST_NAMED])}{more}"


class Process:
    """One that was started. Its exit code is negative if a signal ended it, as that of `subprocess` is."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.exit_code: int | None = None
        self.may_have_left_others = False
        """Whether others, of this call or another one, were running when it ended."""
        self.is_lost = False
        """True if its supervisor was killed: how it ended is not known, and it may not have."""
        self._ended = threading.Event()
        self._callbacks: list[Callable[[], object]] = []
        self._lock = threading.Lock()

    def on_end(self, callback: Callable[[], object]) -> None:
        """Call it when the process has ended: in another thread, or at once if it has already."""
        with self._lock:
            if not self._ended.is_set():
                self._callbacks.append(callback)
                return
        callback()

    def wait(self, timeout: float | None = None) -> bool:
        """False if it has not ended within so many seconds."""
        return self._ended.wait(timeout)

    def end(self, exit_code: int, *, may_have_left_others: bool) -> None:
        """Called by the supervisor."""
        with self._lock:
            self.exit_code, self.may_have_left_others = exit_code, may_have_left_others
            self._ended.set()
            callbacks, self._callbacks = self._callbacks, []
        for each in callbacks:
            each()


class Supervisor:
    def __init__(self) -> None:
        self.mark = uuid4().hex[:16]
        """In the environment of what is started here, if whoever starts it puts it there: see `MARK`."""
        self._link: _Link | None = None
        self._lock = threading.Lock()

    @property
    def is_running(self) -> bool:
        """True if the next process is started without a wait for the supervisor's own."""
        return self._link is not None and self._link.is_usable

    def begin(self) -> None:
        """Start the supervisor's process, if there is none, and wait until it is there: some milliseconds.
        OSError if it cannot be started."""
        if os.name == "posix":
            with self._lock:
                self._linked()

    def start(
        self, command: Sequence[str], *, cwd: str, environment: Mapping[str, str], files: Mapping[int, int]
    ) -> Process:
        """Start a command as the first process of a new session. `files` are descriptors of ours by the
        numbers that they have there; 0, 1 and 2 are among them. OSError if it cannot be started."""
        texts = [cwd, " ".join(map(str, files)), str(len(command)), *command]
        texts += [f"{name}={value}" for name, value in environment.items()]
        if any("\0" in text for text in texts):
            raise ValueError("embedded null byte")
        if os.name != "posix":
            return _unsupervised(command, cwd, environment, files)
        request = b"\0".join(map(os.fsencode, texts))
        with self._lock:
            answer = self._linked().ask(request, list(files.values()))
        if isinstance(answer, Process):
            return answer
        where, number = answer
        raise OSError(number, os.strerror(number), cwd if where == "directory" else command[0])

    def close(self) -> list[BackgroundProcess]:
        """End all that it has started, and all that this started in turn. Returns what was still running. It
        may be used again."""
        with self._lock:
            link, self._link = self._link, None
        if link is None or not link.is_ours:
            return []
        link.close()
        return link.ended

    def release(self) -> None:
        """Leave what it has started to itself."""
        with self._lock:
            link, self._link = self._link, None
        if link is not None and link.is_ours:
            link.close(is_released=True)

    def _linked(self) -> _Link:
        if self._link is None or not self._link.is_usable:
            self._link = _Link(self.mark)
        return self._link


def _unsupervised(
    command: Sequence[str], cwd: str, environment: Mapping[str, str], files: Mapping[int, int]
) -> Process:
    """Where there is neither a fork nor a descriptor that can be handed over."""
    import subprocess

    stdin, stdout, stderr = (files[number] for number in range(3))
    started = subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, cwd=cwd, env=environment)
    process = Process(started.pid)

    def wait() -> None:
        process.end(started.wait(), may_have_left_others=False)

    threading.Thread(target=wait, daemon=True).start()
    return process


def _compiled(module: ModuleType) -> str:
    """The file of a module as an interpreter loads it quickest."""
    cached = getattr(module, "__cached__", None)
    return cached if cached and os.path.exists(cached) else str(module.__file__)


@functools.cache
def of_this_program() -> Supervisor:
    """For what belongs to no conversation: it ends with the program."""
    supervisor = Supervisor()
    atexit.register(supervisor.close)
    return supervisor


class _Link:
    """The supervisor's process, and the socket to it."""

    def __init__(self, mark: str) -> None:
        import queue
        import socket
        import subprocess
        import sys

        from perdure.agent import supervisor_process

        environment = {
            name: value
            for name, value in config.environment().items()
            if name.startswith(_LOADER_VARIABLES) or name in ("PATH", MARK)
        }
        # Isolated: nothing that lies in the directory, or that the environment names, is imported.
        # An interpreter that is part of another program may have no executable; any other will do.
        python = [sys.executable or "python3", "-I", "-S", "-X", "utf8", "-W", "ignore"]
        self._socket, theirs = socket.socketpair()
        with theirs:
            try:
                self._process: subprocess.Popen[bytes] = subprocess.Popen(
                    [*python, _compiled(supervisor_process), str(os.getpid())],
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd=os.sep,
                    env=environment,
                    start_new_session=True,
                )
            except BaseException:
                self._socket.close()
                raise
        self._mark = mark.encode("ascii")
        self._owner = os.getpid()
        self._running: dict[int, Process] = {}
        self.ended: list[BackgroundProcess] = []
        """Those that were still running when it was closed."""
        self._answers: queue.SimpleQueue[Process | tuple[str, int] | None] = queue.SimpleQueue()
        self._is_closing = self._is_lost = False
        self._is_done = False
        """True if the process has ended all that it had started, or was to leave it."""
        self._reader = threading.Thread(target=self._read, daemon=True, name="supervisor")
        self._reader.start()
        self._answer()

    def _answer(self) -> Process | tuple[str, int]:
        import queue

        answer = None
        with suppress(queue.Empty):
            answer = self._answers.get(timeout=_ANSWER_WITHIN_S)
        if answer is None:  # it was killed, or hangs; another one is started for the next command
            self._process.kill()
            raise OSError("the process that runs commands does not answer")
        return answer

    @property
    def is_ours(self) -> bool:
        """False in a process that was forked from the one that this belongs to."""
        return self._owner == os.getpid()

    @property
    def is_usable(self) -> bool:
        return self.is_ours and not self._is_lost

    def ask(self, request: bytes, descriptors: list[int]) -> Process | tuple[str, int]:
        import socket

        with suppress(OSError):  # of a process that was killed, which the missing answer says
            socket.send_fds(self._socket, [len(request).to_bytes(4, "big")], descriptors)
            self._socket.sendall(request)
        return self._answer()

    def close(self, *, is_released: bool = False) -> None:
        import socket

        self._is_closing = True
        with suppress(OSError):
            if is_released:
                self._is_done = True
                self._socket.sendall(RELEASE)
            self._socket.shutdown(socket.SHUT_WR)
        # Its end is read before it is waited for: to wait with a time-out is to look, ever less often.
        self._reader.join(GRACE + 2 * GIVE_UP)
        if self._reader.is_alive():
            self._process.kill()
            self._reader.join()
        self._process.wait()
        self._socket.close()

    def _read(self) -> None:
        with suppress(OSError), self._socket.makefile("r", encoding="utf-8", newline="\n") as lines:
            for line in lines:
                kind, *rest = line.rstrip("\n").split(" ", 3)
                if kind == "exited":
                    pid, code, others = map(int, rest)
                    self._running.pop(pid).end(code, may_have_left_others=bool(others))
                elif kind == "ended":
                    self.ended.append(BackgroundProcess(int(rest[0]), " ".join(rest[1:])))
                elif kind == "done":
                    self._is_done = True
                elif kind == "started":
                    process = self._running[int(rest[0])] = Process(int(rest[0]))
                    self._answers.put(process)
                else:
                    self._answers.put((rest[0], int(rest[1])) if rest else ("", 0))
        self._is_lost = True
        if not self._is_done:  # it was killed, perhaps while it was closing
            self._end_what_is_left()
        if not self._is_closing:
            self._process.wait()
            self._socket.close()
        self._answers.put(None)
        for process in [*self._running.values()]:
            process.is_lost = True
            process.end(-_SIGKILL, may_have_left_others=False)

    def _end_what_is_left(self) -> None:
        """Of a supervisor that was killed: the sessions that it began, and what has its mark."""
        give_up_at = time.monotonic() + GIVE_UP
        misses = 0
        while misses < 2 and time.monotonic() < give_up_at:
            table = all_processes()
            living = [
                each.pid
                for each in table
                if each.group in self._running or each.session in self._running or self._is_marked(each.pid)
            ]
            if not table:
                living = [-pid for pid in self._running if has_members(pid)]
            for pid in living:
                with suppress(OSError):
                    os.kill(pid, _SIGKILL)
            misses = 0 if living else misses + 1
            time.sleep(0.01 if living else 0)

    def _is_marked(self, pid: int) -> bool:
        if not HAS_PROC or pid == os.getpid():
            return False
        with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            return self._mark in file.read()
        return False


_SIGKILL: Any = getattr(signal, "SIGKILL", 0)
