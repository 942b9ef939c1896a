"""The shell through pipes, step by step: what is said next may depend on what came back.

with Piped(cwd=project) as shell:
    shell.say("hello")
    shell.until("the answer")
    assert shell.leave() == 0
"""

import itertools
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from tests.processes import PI, Popen


class Piped:
    def __init__(self, *words: str, cwd: Path, command: Sequence[str] = PI) -> None:
        pipe = subprocess.PIPE
        self.process = Popen([*command, *words], cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe)
        self._out, self._err = bytearray(), bytearray()
        streams = ((self.process.stdout, self._out), (self.process.stderr, self._err))
        self._readers = [threading.Thread(target=_drain, args=each) for each in streams]
        for reader in self._readers:
            reader.start()

    @property
    def out(self) -> str:
        return self._out.decode()

    @property
    def err(self) -> str:
        return self._err.decode()

    def say(self, *lines: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        self.process.stdin.flush()

    def until(self, condition: str | Callable[[], Any], seconds: float = 60) -> None:
        """Until the text came out, or the condition holds."""
        end = time.monotonic() + seconds
        while not (condition() if callable(condition) else condition in self.out):
            assert time.monotonic() < end, f"not within {seconds} s: {condition}\n{self.out}\n{self.err}"
            time.sleep(0.01)

    def wait(self, seconds: float = 60) -> int:
        """Its exit code, when all it wrote has been read."""
        code = self.process.wait(seconds)
        for reader in self._readers:
            reader.join()
        return code

    def leave(self, seconds: float = 60) -> int:
        """By the end of input."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.wait(seconds)

    def leave_by_ctrl_c(self) -> int:
        """Pressed until it is heard twice within two seconds, however slow the machine is. The exit code as a
        shell reports it: once all is saved and told, nobody catches one more."""
        for patience in itertools.cycle((1, 10)):
            self.process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(patience)
                break
        code = self.wait()
        return code if code >= 0 else 128 - code

    def __enter__(self) -> "Piped":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        with suppress(ProcessLookupError):  # what it started may have its pipes
            os.killpg(self.process.pid, signal.SIGKILL)
        self.wait()
        assert self.process.stdin is not None
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # what was said last, nobody read


def _drain(stream: IO[bytes], into: bytearray) -> None:
    with stream:
        while read := stream.read1(65536):  # type: ignore[attr-defined]
            into += read
