"""A process without threads, kept warm, that forks another one for every call. A new interpreter with its
imports costs a quarter of a second; this costs a hundredth of that.

What is called has an interpreter of its own, as it is after the imports, and whatever it changes or breaks
ends with it. It has its caller's environment and a process group, which is killed if the caller is stopped.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]


class Ended(NamedTuple):
    code: int
    """Or minus the signal that ended it."""
    out: str
    err: str


class Forker:
    """The process that forks, from the first call until this process ends."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        program = "import sys; from tests.crash.forking import serve; serve(int(sys.argv[1]))"
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", program, str(theirs.fileno())],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self._answers = self._socket.makefile("rb")
        atexit.register(self.close)

    def call(self, body: Callable[..., Any], arguments: dict[str, Any]) -> Ended:
        request = [body.__module__, body.__qualname__, arguments, dict(os.environ)]
        with TemporaryFile() as out, TemporaryFile() as err:
            line = json.dumps(request).encode() + b"\n"
            socket.send_fds(self._socket, [b"%d\n" % len(line)], [out.fileno(), err.fileno()])
            self._socket.sendall(line)
            pid = int(self._answers.readline())
            try:
                code = int(self._answers.readline())
            except BaseException:
                with suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)  # a time limit, or Ctrl-C: its children go with it
                self._answers.readline()
                raise
            return Ended(code, *(_read(each.fileno()) for each in (out, err)))

    def close(self) -> None:
        atexit.unregister(self.close)
        self._answers.close()
        self._socket.close()
        self._process.wait()


def _read(file: int) -> str:
    return os.pread(file, os.fstat(file).st_size, 0).decode()


def serve(descriptor: int) -> None:
    """The other side: until the caller is gone."""
    with socket.socket(fileno=descriptor) as calls:
        while received := _received(calls):
            (module, name, arguments, environment), files = received
            with suppress(Exception):  # it is told by the process that is to run it
                import_module(module)
            gc.freeze()  # what is here by now is shared, and no collection need touch it
            pid = os.fork()
            if pid == 0:
                os.setsid()
                for number, file in enumerate(files, 1):
                    os.dup2(file, number)
                calls.close()
                os.environ.clear()
                os.environ.update(environment)
                _run(module, name, arguments)
            for file in files:
                os.close(file)
            calls.sendall(b"%d\n" % pid)
            calls.sendall(b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _received(calls: socket.socket) -> tuple[list[Any], list[int]] | None:
    first, files, _, _ = socket.recv_fds(calls, 64, 2)
    if not first:
        return None
    length, _, line = first.partition(b"\n")
    while len(line) < int(length):
        line += calls.recv(2**16)
    return json.loads(line), files


def _run(module: str, name: str, arguments: dict[str, Any]) -> None:
    status = 1
    try:
        body = getattr(import_module(module), name)
        print(json.dumps(body(**arguments)), flush=True)
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)
