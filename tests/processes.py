"""Processes as tests start them: `Popen` and `run` take what those of `subprocess` take.

    from tests.processes import SCRIPTS, run

    done = run([SCRIPTS / "soleur", "--fresh"], input="Hm?\n", capture_output=True, text=True)

A Python program is forked from a warm process (tests/forking.py), which costs a fifth of a new interpreter
with its imports. It is a process like any other: its pid, session, streams, environment and end are its own.
What a fork cannot stand in for is started as `subprocess` does: other programs, options of Python's own,
variables that are read only once. A test that looks at what was imported, or at the command line that others
see, uses `subprocess` itself.

`spawn` starts a program at a terminal, for pexpect; `call` runs a function of a test module.
"""

from __future__ import annotations

import functools
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, CompletedProcess, TimeoutExpired
from tempfile import TemporaryFile
from typing import Any, NamedTuple

from pexpect import fdpexpect

from tests.forking import MCP, Forker, Request, line_from

SCRIPTS = Path(sys.executable).parent
PROGRAMS = {str(SCRIPTS / name) for name in ("aur", "cortext", "perdure", "pi", "sibyl", "soleur")}
PI = (sys.executable, "-m", "perdure")
QUOTED = re.compile(r"""'[^']*'|"[^"$`\\]*\"""")
SHELLS_OWN = {*"|&;<>()$`*?[]#~={}!\n"}
# What is read once, and as the warm process has read it.
READ_ONCE = ("PYTHON", "LANG", "LC_", "SSL_CERT_")
AS_READ = {name: value for name, value in os.environ.items() if name.startswith(READ_ONCE)} | {
    "PYTHONDONTWRITEBYTECODE": "1"  # conftest.py sets it for every test
}


class Popen(subprocess.Popen[Any]):
    """Like `subprocess.Popen`. `is_terminal` makes stdin, a terminal, the one that controls the process."""

    _status: socket.socket | None = None
    """Of a forked process: where its exit code arrives."""

    def __init__(
        self,
        args: Sequence[str | bytes | os.PathLike[str]],
        *,
        is_terminal: bool = False,
        **options: Any,
    ) -> None:
        self._is_terminal = is_terminal
        super().__init__([os.fsdecode(each) for each in args], **options)

    # A private method, which brings the process to life and closes what only that needs. All Pythons from
    # 3.11 on hand over these, in this order; test_processes.py runs on each of them.
    def _execute_child(
        self,
        args: Any,
        executable: Any,
        preexec_fn: Any,
        close_fds: Any,
        pass_fds: Any,
        cwd: Any,
        env: Any,
        startupinfo: Any,
        creationflags: Any,
        shell: Any,
        stdin: int,
        stdin_of_ours: int,
        stdout_of_ours: int,
        stdout: int,
        stderr_of_ours: int,
        stderr: int,
        restore_signals: Any,
        gid: Any,
        gids: Any,
        uid: Any,
        umask: int,
        *session_and_group: Any,
    ) -> None:
        pipes = (stdin, stdin_of_ours, stdout_of_ours, stdout, stderr_of_ours, stderr)
        environment = dict(os.environ if env is None else env)
        wants_more = executable or preexec_fn or not close_fds or pass_fds or shell or gid or gids or uid
        program = None if wants_more else warm_program(args, environment)
        if program is None and not self._is_terminal:
            before = (
                executable,
                preexec_fn,
                close_fds,
                pass_fds,
                cwd,
                env,
                startupinfo,
                creationflags,
                shell,
            )
            behind = (restore_signals, gid, gids, uid, umask, *session_and_group)
            super()._execute_child(args, *before, *pipes, *behind)  # type: ignore[misc]
            return
        request = Request(
            program or ["exec", *args],
            environment,
            os.path.join(os.getcwd(), cwd or ""),
            umask if umask >= 0 else _umask(),
            self._is_terminal,
        )
        files = [number if file < 0 else file for number, file in enumerate((stdin, stdout, stderr))]
        self.pid, self._status = _forker_for(program or []).fork(request, files)
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    # And these two, which all others ask: `waitpid` knows nothing of what another process has forked.
    def _internal_poll(self, *arguments: Any, **options: Any) -> int | None:
        if self._status is None:
            return super()._internal_poll(*arguments, **options)  # type: ignore[misc]
        return self._heard(0)

    def _wait(self, timeout: float | None) -> int:
        if self._status is None:
            return super()._wait(timeout)  # type: ignore[misc]
        code = self._heard(None if timeout is None else max(0, timeout))
        if code is None:
            raise TimeoutExpired(self.args, timeout or 0)
        return code

    def _heard(self, timeout: float | None) -> int | None:
        assert self._status is not None
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            self.returncode = int(line_from(self._status))
            self._status.close()
        return self.returncode


def run(
    args: Sequence[str | bytes | os.PathLike[str]],
    *,
    input: Any = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **options: Any,
) -> CompletedProcess[Any]:
    """Like `subprocess.run`."""
    if input is not None:
        options["stdin"] = PIPE
    if capture_output:
        options |= {"stdout": PIPE, "stderr": PIPE}
    with Popen(args, **options) as process:
        try:
            out, err = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
        done = CompletedProcess(process.args, process.wait(), out, err)
    if check:
        done.check_returncode()
    return done


def run_typed(command: str, **options: Any) -> CompletedProcess[Any]:
    """What is typed into a shell. A plain command needs none, nor does the last one of a pipe: that is forked
    if it is one of ours."""
    before, pipe, last = command.rpartition(" | ")
    if not SHELLS_OWN.isdisjoint(QUOTED.sub("", last)):
        return run(["sh", "-c", command], **options)
    if pipe:
        given = {name: options[name] for name in ("cwd", "env", "text") if name in options}
        options["input"] = run(["sh", "-c", before], stdout=PIPE, **given).stdout
    return run(shlex.split(last), **options)


class spawn(fdpexpect.fdspawn):  # type: ignore[misc]
    """Like `pexpect.spawn`."""

    child_fd = -1

    def __init__(
        self,
        command: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        dimensions: tuple[int, int] = (24, 80),
        encoding: str | None = "utf-8",
        timeout: float = 60,
    ) -> None:
        self.process, terminal = at_terminal(command, cwd=cwd, env=env, dimensions=dimensions)
        super().__init__(terminal, encoding=encoding, timeout=timeout)
        self.pid = self.process.pid

    def __del__(self) -> None:
        """A test that fails on its way leaves nothing behind."""
        if self.child_fd >= 0:
            self.process.kill()
            self.close()

    def setwinsize(self, rows: int, columns: int) -> None:
        termios.tcsetwinsize(self.child_fd, (rows, columns))

    def close(self) -> None:
        """The program has a moment to end by itself."""
        super().close()
        try:
            code = self.process.wait(5)
        except TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.exitstatus: int | None = code if code >= 0 else None
        self.signalstatus: int | None = -code if code < 0 else None


def at_terminal(
    command: Sequence[str | os.PathLike[str]], *, dimensions: tuple[int, int], **options: Any
) -> tuple[Popen, int]:
    """A program at a terminal, and our end of that."""
    ours, theirs = pty.openpty()
    try:
        termios.tcsetwinsize(theirs, dimensions)
        process = Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, is_terminal=True, **options)
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    return process, ours


class Ended(NamedTuple):
    code: int
    """Or minus the signal that ended it."""
    out: str
    err: str


def call(body: Callable[..., Any], arguments: Mapping[str, Any]) -> Ended:
    """Run a function of a module; it prints what it returns. Both ways as JSON.

    Where its caller is stopped, by a time limit or Ctrl+C, it is killed with all of its group.
    """
    program = ["call", body.__module__, body.__qualname__, json.dumps(arguments)]
    request = Request(program, dict(os.environ), os.getcwd(), _umask(), False)
    with TemporaryFile() as out, TemporaryFile() as err, open(os.devnull) as nothing:
        pid, status = _forker_for([]).fork(request, [each.fileno() for each in (nothing, out, err)])
        with status:
            try:
                code = int(line_from(status))
            except BaseException:
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
                raise
        return Ended(code, *(_read(each.fileno()) for each in (out, err)))


def warm_program(args: Sequence[str], environment: Mapping[str, str]) -> list[str] | None:
    """How the warm process is told of a Python program; None if it cannot stand in for it."""
    if {n: v for n, v in environment.items() if n.startswith(READ_ONCE)} != AS_READ:
        return None
    match args:
        case [sys.executable, "-m", "perdure", *_]:
            return ["module", *args[2:]]
        case [sys.executable, "-c", *_]:
            return ["code", *args[2:]]
        case [program, *words] if (path := shutil.which(program, path=environment.get("PATH"))) in PROGRAMS:
            return ["script", str(path), *words]
    return None


def _forker_for(program: Sequence[str]) -> Forker:
    return _forker(bool(program), any(MCP in word for word in program))


@functools.cache
def _forker(has_programs: bool, has_mcp: bool) -> Forker:
    # The tests' own switches, too: what `call` runs reads them when its module is imported.
    own = {name: value for name, value in os.environ.items() if name.startswith("PERDURE_")}
    return Forker(AS_READ | own, has_programs=has_programs, has_mcp=has_mcp)


def _umask() -> int:
    current = os.umask(0o077)
    os.umask(current)
    return current


def _read(file: int) -> str:
    return os.pread(file, os.fstat(file).st_size, 0).decode()
