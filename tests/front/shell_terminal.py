"""The shell as tests meet it: `pi` at a terminal, and a server in place of the model that waits for them.

def test_…(shell):
    gate = shell.gate()
    shell.answers(streamed("the first half, ", gate, "the second"))
    terminal = shell.start()
    say(terminal, "hello")
    terminal.until("the first half")
    gate.set()
"""

import json
import os
import re
import shutil
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.models.wire_server import Step, WireServer
from tests.front.one_prompt import Pi, said
from tests.front.terminal import Seen, Terminal

BUSY = "Esc stops it"
MODEL = "custom/test"


class Shell:
    """What was started is ended with the test, and what waits goes on."""

    def __init__(self, pi: Pi, server: WireServer) -> None:
        self.pi, self.server = pi, server
        self.gates: list[threading.Event] = []
        self.terminals: list[Terminal] = []

    def answers(self, *steps: Step, **settings: Any) -> None:
        """The last one again and again."""
        self.server.script(*steps)
        self.pi.use(self.server, **settings)

    def gate(self) -> threading.Event:
        self.gates.append(threading.Event())
        return self.gates[-1]

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "perdure", *words]

    def start(self, *words: str, **options: Any) -> Terminal:
        """At its prompt, with a model."""
        variables = {**os.environ, "TERM": "xterm-256color", **options.pop("env", {})}
        terminal = Terminal(*self.command(*words), cwd=self.pi.project, env=variables, **options)
        self.terminals.append(terminal)
        terminal.until("> " if variables["TERM"] == "dumb" else MODEL)
        return terminal

    @property
    def asked(self) -> list[list[tuple[str, str]]]:
        """Who had said what, in each request."""
        return [
            [(message["role"], message["content"]) for message in request.body["messages"]][1:]
            for request in self.server.requests
        ]

    @property
    def prompts(self) -> list[str]:
        """What the user said last, in each request."""
        return [next(text for role, text in reversed(asked) if role == "user") for asked in self.asked]

    def close(self) -> None:
        for gate in self.gates:
            gate.set()
        for terminal in self.terminals:
            terminal.close()


@pytest.fixture
def shell(home: Path, wire_server: WireServer) -> Iterator[Shell]:
    project = home / "project"
    project.mkdir()
    shell = Shell(Pi(home, project), wire_server)
    try:
        yield shell
    finally:
        shell.close()
        shutil.rmtree(home)  # some sessions are large, and pytest would keep them


def streamed(*parts: str | bytes | threading.Event) -> Step:
    """Texts arrive one by one; an event between them is waited for."""

    def answer() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        for part in (*parts, said()):
            if isinstance(part, threading.Event):
                part.wait(20)
            else:
                sent = part if isinstance(part, bytes) else _delta(part)
                yield b"%x\r\n%b\r\n" % (len(sent), sent)
        yield b"0\r\n\r\n"

    return answer


def _delta(text: str) -> bytes:
    return b"data: %b\n\n" % json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}).encode()


def say(terminal: Terminal, text: str) -> None:
    terminal.send(text)
    terminal.keys("enter")


def text_of(terminal: Seen) -> str:
    return "\n".join(terminal.screen)


def until_idle(terminal: Seen) -> None:
    """Until the agent has ended what it does."""
    terminal.until(lambda: BUSY not in text_of(terminal) and MODEL in text_of(terminal))


def edited(terminal: Seen) -> str:
    """What stands in the editor: the last prompt on the screen, and what belongs to it."""
    found = re.search(r"(?s).*^> ?(.*?)\n\S*" + re.escape(MODEL), text_of(terminal), re.MULTILINE)
    return re.sub(r"\n  ", "\n", found[1]) if found else ""


def until_edited(terminal: Terminal, text: str) -> None:
    terminal.until(lambda: edited(terminal) == text)


def is_given_back(terminal: Terminal) -> bool:
    """Whether whoever has it next sees what they type: in lines, with a cursor, pasted without marks."""
    how = termios.tcgetattr(terminal._terminal)[3]
    last = [re.findall(rb"\x1b\[\?%d([hl])" % mode, terminal.raw)[-1] for mode in (7, 25, 2004)]
    return bool(how & termios.ECHO and how & termios.ICANON) and last == [b"h", b"h", b"l"]


def hang_up(terminal: Terminal) -> None:
    """Close it, as somebody does who closes its window. The program can still be waited for."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, terminal._terminal)
    os.close(nothing)


def peak(pid: int) -> int:
    """The most memory that it ever had, in bytes."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) * 1024
