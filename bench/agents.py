"""The rows of the agent: its own work in a turn, and how soon `pi --print` answers (P13, P14)."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import cycle, islice

from msgspec import Struct

from bench.ground import Ground
from bench.measure import Contender
from bench.row import Scale
from bench.sessions import TURN, turns
from perdure.agent.agent import Agent
from perdure.agent.compaction import NoCompaction
from perdure.agent.loop import Bench
from perdure.agent.model_choice import Voice
from perdure.agent.models import Finished, Model, Piece, Request, Usage
from perdure.agent.settings import Retry
from perdure.agent.tools import AgentToolResult, Tool, ToolContext
from perdure.session.entry import (
    Assistant,
    Block,
    Body,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    User,
    text_of,
)
from perdure.session.record import dumps
from perdure.session.session import Session

_SLOW = {"pydantic-ai-slim": 5, "langgraph": 2}


def turn_cpu(ground: Ground, scale: Scale, stack: ExitStack) -> list[Contender]:
    """A block is a session, from its first turn to its last."""
    count, edge = scale.calls * 100, scale.calls * 10
    script, store = _script(), ground.store("process")
    runner = stack.enter_context(asyncio.Runner())
    with Session.create(store) as session:
        runner.run(_talk(session, script, len(script)))
        said = [entry.body for entry in session.entries]
    latest: list[float] = []

    def append() -> list[float]:
        with Session.create(store) as session:
            spent = _append(session, said, count)
        os.unlink(session.ref.path)
        return spent

    def talk() -> list[float]:
        with Session.create(store) as session:
            latest[:] = runner.run(_talk(session, script, count))
        os.unlink(session.ref.path)
        return latest[:]

    block = partial(Contender, reports=True)
    name, first = "Session.append, each message", f"the first {edge} of them"
    return [
        block(name, append),
        block(f"Agent.send, {count:,} turns", talk, name, 3.0),
        block(first, lambda: latest[:edge]),  # of one run, whichever round it was in
        block(f"the last {edge} of them", lambda: latest[-edge:], first, 1.1),
        # Only so many of theirs: a turn costs them the more, the more was said before.
        *ground.peers.contenders(
            stack, "turns", name, f", the first {edge}", calls=edge, every=_SLOW, session=session.ref.path
        ),
    ]


class _Turn(Struct, frozen=True):
    prompt: str
    answers: Sequence[Sequence[Piece | Finished]]
    result: str


class _Ready:
    """A model, and a tool, that have all they say at hand: what is measured is the work around them."""

    model = Model(id="ready", provider="bench", api="bench")

    def __init__(self, script: Sequence[_Turn]) -> None:
        self._answers = cycle([answer for turn in script for answer in turn.answers])
        self._results = cycle([turn.result for turn in script])

    async def stream(self, request: Request) -> AsyncGenerator[Piece | Finished, None]:
        for piece in next(self._answers):
            yield piece

    async def read(self, arguments: _Read, context: ToolContext) -> AgentToolResult:
        return AgentToolResult(next(self._results))


class _Read(Struct):
    path: str
    limit: int


def _script() -> list[_Turn]:
    """The turns that all rows are made of. A block of an answer comes in one piece: P16 is about pieces."""
    script = []
    for bodies in turns():
        prompt, calling, result, final = (body.message for body in bodies if isinstance(body, Message))
        assert isinstance(prompt, User)
        assert isinstance(result, ToolResult)
        answers = [_pieces(calling), _pieces(final)]
        script.append(_Turn(text_of(prompt.content), answers, text_of(result.content)))
    return script


def _pieces(answer: object) -> list[Piece | Finished]:
    assert isinstance(answer, Assistant)
    return [*map(_piece, range(len(answer.content)), answer.content), Finished("stop", Usage(2_000, 200))]


def _piece(index: int, block: Block | str) -> Piece:
    match block:
        case Text(text=text):
            return Piece(index, "text", text)
        case Thinking(thinking=text, thinking_signature=str(signature)):
            return Piece(index, "thinking", text, signature=signature)
        case ToolCall(id=id, name=name, arguments=arguments):
            return Piece(index, "toolCall", dumps(arguments).decode(), id, name)
    raise TypeError(f"no turn has this in it: {block!r}")


async def _talk(session: Session, script: Sequence[_Turn], count: int) -> list[float]:
    ready = _Ready(script)
    agent = Agent(
        session,
        Voice(ready),
        Bench({"read": Tool("read", "Read a file.", _Read, ready.read)}, "/project", {}),
        system="You are measured.",
        strategy=NoCompaction(),
        retry=Retry(),
    )
    spent = []
    for turn in islice(cycle(script), count):
        start = time.process_time()
        async for _ in agent.send(turn.prompt):
            pass
        spent.append(time.process_time() - start)
    return spent


def _append(session: Session, said: Sequence[Body], count: int) -> list[float]:
    messages = cycle(said)
    spent = []
    for _ in range(count):
        turn = list(islice(messages, TURN))
        start = time.process_time()
        for message in turn:
            session.append(message)
        spent.append(time.process_time() - start)
    return spent


# --- pi --print -----------------------------------------------------------------------------------------

_PROGRAM = '''\
"""Adds numbers that are given on the command line."""

import sys


def main() -> None:
    print(total(sys.argv[1:]))


def total(words):
    return sum(map(int, words))


if __name__ == "__main__":
    main()
'''
_README = "# Total\n\nA program that adds numbers.\n"


def first_answer(ground: Ground, scale: Scale, stack: ExitStack) -> list[Contender]:
    installed = ground.installation()
    home = os.path.join(ground.folder, "p14")
    project = os.path.join(home, "project")
    os.makedirs(project)
    for name, text in (("total.py", _PROGRAM), ("README.md", _README)):
        with open(os.path.join(project, name), "w") as file:
            file.write(text)
    environment = {"HOME": home, "PATH": os.environ["PATH"]}

    def begun(*command: str) -> subprocess.Popen[bytes]:
        """A process that has said its first byte, or ended without a word."""
        process = subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=project,
            env=environment,
        )
        assert process.stdout is not None
        process.stdout.read(1)
        return process

    def ended(process: subprocess.Popen[bytes]) -> None:
        process.communicate()
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, process.args)

    def contender(
        name: str, command: Sequence[str], against: str | None = None, at_most: float | None = None
    ) -> Contender:
        return Contender(name, lambda: begun(*command), against, at_most, after=ended)

    bare = "python -c pass"
    pi = installed.script("pi", "perdure.programs.pi")
    return [
        contender(bare, [installed.python, "-c", "pass"]),
        contender("pi --print, to explain a folder", [pi, "--print", "explain this code"], bare, 15.0),
        contender("pi --print, no tool called", [pi, "--print", "hello"], bare),
    ]
