"""A process without threads, kept warm, that forks another one for every request.

What it forks has an interpreter of its own, as that is after its imports, and whatever it changes or breaks
ends with it. It leads a session of its own and has its caller's environment, directory, umask and streams. It
ends as an interpreter does: an exception that nobody catches is shown, threads are waited for, exit handlers
are called, streams are flushed. Only modules are not taken apart: that would take longer than all the rest.
And all that one warm process forks have one seed of hashes: sets are in the same order in all of them.

The warm process lives as long as its caller. What is left of its own when that is gone, it kills.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import io
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

ROOT = Path(__file__).parents[1]
# What our own modules, and those they use, import when they need it.
IMPORTED_LATE = (
    *("anyio._backends._asyncio", "difflib", "encodings.ascii", "encodings.utf_8_sig"),
    *("httpcore2", "markdown_it", "prompt_toolkit.input.vt100", "prompt_toolkit.key_binding.bindings.search"),
    *("prompt_toolkit.patch_stdout", "prompt_toolkit.shortcuts", "rich.markdown", "sqlite3", "truststore"),
)
# Its types are as large as all the rest, and what forks copies the table of all its memory each time.
MCP = "mcp"
NO_PROGRAM = "perdure.testing"
# A program ignores none of these, whoever started the tests and how.
OBEYED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM)


class Request(NamedTuple):
    program: Sequence[str]
    """`code SOURCE …`, `module NAME …`, `script PATH …`, `exec PATH …` or `call MODULE FUNCTION JSON`."""
    environment: Mapping[str, str]
    cwd: str
    umask: int
    is_terminal: bool
    """Whether stdin is to be its controlling terminal."""


class Forker:
    """The caller's side."""

    def __init__(self, environment: Mapping[str, str], *, has_programs: bool, has_mcp: bool) -> None:
        """A process without the imports of the programs, or of MCP, is smaller, and so quicker to fork."""
        self._lock = threading.Lock()
        self._requests, theirs = socket.socketpair()
        with theirs:
            arguments = f"{theirs.fileno()}, {has_programs}, {has_mcp}"
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from tests.forking import serve; serve({arguments})"],
                cwd=ROOT,
                # What it reads once is nobody's settings.
                env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environment},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        atexit.register(self._close)

    def fork(self, request: Request, streams: Sequence[int]) -> tuple[int, socket.socket]:
        """The pid of a new process, and where the line arrives that has its exit code when it has ended."""
        sys.audit("tests.processes.fork")
        status, theirs = socket.socketpair()
        data = json.dumps(request).encode()
        try:
            with self._lock:
                with theirs:
                    socket.send_fds(self._requests, [b"%d\n" % len(data)], [theirs.fileno(), *streams])
                    self._requests.sendall(data)
                return int(line_from(status)), status
        except BaseException:
            status.close()
            raise

    def _close(self) -> None:
        self._requests.close()
        self._process.wait()


def line_from(connection: socket.socket) -> bytes:
    """The next line, which is waited for."""
    line = b""
    while not line.endswith(b"\n"):
        byte = connection.recv(1)
        assert byte, "the warm process has ended"
        line += byte
    return line


# --- the other side -------------------------------------------------------------------------------------


def serve(descriptor: int, has_programs: bool, has_mcp: bool) -> None:
    """Until the caller is gone."""
    if has_programs:
        import_programs()
    if has_mcp:
        import_module(MCP)
    assert threading.active_count() == 1
    gc.collect()
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(ended, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, socket.socket] = {}
    requests = socket.socket(fileno=descriptor)
    while True:
        ready, _, _ = select.select([requests.fileno(), ended], [], [])
        if ended in ready:
            os.read(ended, 2**16)
            _tell_of_ended(running)
        if requests.fileno() in ready:
            received = _received(requests)
            if received is None:
                break
            request, (status_file, *streams) = received
            status = socket.socket(fileno=status_file)
            if request.program[0] == "call":
                with suppress(Exception):  # it is told by the process that is to run it
                    import_module(request.program[1])
            gc.freeze()  # what is here by now is shared, and no collection need touch it
            # A signal that comes before all is prepared is heard behind it.
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for each in (requests, *running.values()):
                    each.close()
                os.close(ended)
                os.close(wake)
                _run(request, streams, status)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            for file in streams:
                os.close(file)
            running[pid] = status
    for pid in running:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def import_programs() -> None:
    """Import what programs import, and work out what a process works out once and then keeps."""
    for name in IMPORTED_LATE:
        with suppress(ImportError):  # an extra that is not installed
            import_module(name)
    import perdure

    for module in walk_packages(perdure.__path__, "perdure."):
        if not module.name.endswith("__main__") and not module.name.startswith(NO_PROGRAM):
            import_module(module.name)
    if sys.platform != "darwin":  # whose libraries do not bear a fork once they are used
        import_module("perdure.agent.models.http")._certificates()
    import msgspec

    from perdure.agent.equipment import Equipment
    from perdure.agent.settings import Settings

    settings = msgspec.convert({}, Settings)
    tools = Equipment(settings, os.sep, project=None, own=(), notice=lambda _: None).tools
    assert [tool.spec for tool in tools.values()]


def _received(requests: socket.socket) -> tuple[Request, list[int]] | None:
    first, files, _, _ = socket.recv_fds(requests, 64, 4)
    if not first:
        return None
    length, _, data = first.partition(b"\n")
    while len(data) < int(length):
        more = requests.recv(2**16)
        if not more:
            return None
        data += more
    return Request(*json.loads(data)), files


def _tell_of_ended(running: dict[int, socket.socket]) -> None:
    with suppress(ChildProcessError):
        while running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            with running.pop(pid) as told:
                _tell(told, os.waitstatus_to_exitcode(status))


def _tell(status: socket.socket, number: int) -> None:
    with suppress(OSError):  # nobody wants to know
        status.sendall(b"%d\n" % number)


# --- what is forked -------------------------------------------------------------------------------------


def _run(request: Request, streams: Sequence[int], status: socket.socket) -> NoReturn:
    code, is_interrupted = 1, False
    try:
        with status:
            try:
                program = _prepare(request, streams)
            finally:
                _tell(status, os.getpid())  # from now on it hears signals, and keys that are typed
        program()
        code = 0
    except SystemExit as left:
        if left.code is None or isinstance(left.code, int):
            code = left.code or 0
        else:
            print(left.code, file=sys.stderr)
    except BaseException as error:
        is_interrupted = isinstance(error, KeyboardInterrupt)
        sys.excepthook(type(error), error, error.__traceback__)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if not stream.closed:
                stream.flush()
        except OSError as error:
            code = 120
            if stream is sys.stdout:
                print(f"Exception ignored in: {stream!r}\n{type(error).__name__}: {error}", file=sys.stderr)
    if is_interrupted:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code & 0xFF)


def _prepare(request: Request, streams: Sequence[int]) -> Callable[[], object]:
    os.setsid()
    if request.is_terminal:
        fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
    for number, file in enumerate(streams):
        os.dup2(file, number)
    for file in {*streams} - {0, 1, 2}:
        os.close(file)
    os.environ.clear()
    os.environ.update(request.environment)
    time.tzset()
    os.umask(request.umask)
    os.chdir(request.cwd)
    _open_streams()
    kind, *words = request.program
    if kind == "exec":
        for number in (*OBEYED, signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores the last two
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        return lambda: os.execvp(words[0], words)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    main = sys.modules["__main__"] = ModuleType("__main__")
    match kind:
        case "code":
            sys.argv, sys.path[0] = ["-c", *words[1:]], ""
            source = compile(words[0], "<string>", "exec")
            return lambda: exec(source, main.__dict__)
        case "module":
            sys.argv, sys.path[0] = words, request.cwd
            return lambda: runpy.run_module(words[0], run_name="__main__", alter_sys=True)
        case "script":
            sys.argv, sys.path[0] = words, os.path.dirname(words[0])
            return lambda: runpy.run_path(words[0], run_name="__main__")
        case _:
            sys.path[0] = str(ROOT)
            return lambda: _call(*words)


def _open_streams() -> None:
    """As an interpreter does when it starts."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        before = getattr(sys, name)
        mode = "r" if name == "stdin" else "w"
        raw = io.FileIO(number, mode, closefd=False)
        raw.name = f"<{name}>"
        is_buffered = mode == "r" or not before.write_through
        buffered: Any = io.BufferedReader if mode == "r" else io.BufferedWriter
        stream = io.TextIOWrapper(
            buffered(raw) if is_buffered else raw,
            encoding=before.encoding,
            errors=before.errors,
            newline=None if mode == "r" else "\n",
            line_buffering=is_buffered and (name == "stderr" or raw.isatty()),
            write_through=not is_buffered,
        )
        stream.mode = mode  # type: ignore[misc]
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _call(module: str, name: str, arguments: str) -> None:
    body: Any = getattr(import_module(module), name)
    print(json.dumps(body(**json.loads(arguments))), flush=True)
