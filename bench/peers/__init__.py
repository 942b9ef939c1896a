"""Peers: what others keep conversations with, doing the same work beside us against the same limits.

A peer runs in a process of its own interpreter, one for each contender. It is started with the name of
its work and the arguments, prepares, says "ready", and from then on answers each line, a number of calls,
with one line: the seconds that each of them took, as measured over there. So a peer takes its turns in
blocks like everybody else, and the pipe is in nobody's time. One that fails is reported and left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from bench.measure import Contender, Lost

ROOT = Path(__file__).parents[2]

WORKS: Mapping[str, Mapping[str, str]] = {
    "durable append": {
        "openai-agents": "add_items",
        "pi": "appendMessage + fdatasync",  # it never syncs by itself
        "llm": "log_to_db",
    },
    "append": {"openai-agents": "add_items", "pi": "appendMessage", "llm": "log_to_db"},
    "load": {"openai-agents": "get_items", "pi": "open", "llm": "thread_messages"},
    "tail": {"openai-agents": "get_items", "pi": "open, which reads all"},
    "fork": {"openai-agents": "get_items + add_items", "pi": "forkFrom + fdatasync"},
    "list": {"pi": "listAll"},
    "search": {"pi": "listAll + its picker's filter", "llm": "logs -q"},
    "peak": {"pi": "open"},
    "turns": {"pydantic-ai-slim": "run", "langgraph": "ainvoke"},
}
"""Which peer can do which work, and what it calls that."""


class Peer(NamedTuple):
    name: str
    version: str
    measured: Sequence[str]
    """The command that does blocks of work; the work's name and arguments are added to it."""
    program: Sequence[str] = ()
    """The command a user runs, if it is a program too."""


class Peers:
    """Those that are installed: nobody, unless asked for."""

    def __init__(self, installed: Sequence[Peer] = (), folder: str = "") -> None:
        self.installed = installed
        self.folder = folder
        """Where they keep what they need to be measured with."""

    def contenders(
        self,
        stack: ExitStack,
        work: str,
        against: str,
        label: str = "",
        *,
        calls: int = 1,
        every: Mapping[str, int] = MappingProxyType({}),
        fresh: bool = False,
        **arguments: Any,
    ) -> list[Contender]:
        """One for each peer that can do this work; `fresh`: with a new process for every block.

        In `against`, {name} stands for the peer's own name and work."""
        made = []
        for peer in self.installed:
            if peer.name not in WORKS[work]:
                continue
            name = f"{peer.name} {WORKS[work][peer.name]}"
            started = partial(PeerProcess, peer, work, {"folder": self.folder, **arguments})
            try:
                block = partial(_one_block, started) if fresh else stack.enter_context(started()).block
            except Lost as lost:
                print(f"left out: {name}{label}: {lost}", file=sys.stderr)
                continue
            made.append(
                Contender(
                    name + label,
                    partial(block, calls),
                    against.format(name=name),
                    reports=True,
                    every=every.get(peer.name, 1),
                )
            )
        return made


def _one_block(started: Callable[[], PeerProcess], calls: int) -> list[float]:
    with started() as process:
        return process.block(calls)


class PeerProcess:
    def __init__(self, peer: Peer, work: str, arguments: Mapping[str, Any]) -> None:
        self._process = subprocess.Popen(
            [*peer.measured, work, json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "HOME": arguments["folder"]},  # nothing of the user's is read or touched
        )
        try:
            self._answer()
        except BaseException:
            self.close()
            raise

    def block(self, calls: int) -> list[float]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{calls}\n")
            self._process.stdin.flush()
        except OSError:
            pass  # it is gone, which its missing answer says better
        seconds: list[float] = self._answer()
        return seconds

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            raise Lost(f"its process ended with exit code {self._process.wait()}")
        try:
            return json.loads(line)
        except ValueError:
            raise Lost(f"it answered {line[:60]!r}") from None

    def close(self) -> None:
        self._process.kill()  # it holds nothing that would have to be saved
        self._process.communicate()

    def __enter__(self) -> PeerProcess:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
