"""`pi --print` as tests start it: a real process, with a server in place of the model."""

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure.agent.session import AgentSession
from perdure.session.manager import SessionManager
from tests.agent.models.wire_server import Step, events
from tests.processes import PI, Popen, run


def said(*texts: str, reason: str = "stop") -> bytes:
    """An answer in the chat protocol, a chunk a text."""
    chunks: list[Any] = [{"choices": [{"index": 0, "delta": {"content": text}}]} for text in texts]
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    chunks.append({"choices": [], "usage": usage})
    return b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"


def called(*calls: tuple[str, str, dict[str, Any]]) -> bytes:
    made = [
        {"index": at, "id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        for at, (id, name, args) in enumerate(calls)
    ]
    chunks = [
        {"choices": [{"index": 0, "delta": {"tool_calls": made}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    ]
    return b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"


def endless(**delta: str) -> Step:
    """An answer of this piece, again and again until its reader leaves."""
    piece = b"data: %b\n\n" % json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode()

    def answer() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        while True:
            yield b"%x\r\n%b\r\n" % (len(piece), piece)

    return answer


HALF = b'data: {"choices":[{"index":0,"delta":{"content":"half an ans"}}]}\n\n'
HALF_A_LINE = said("half an answer\n").partition(b"\n\n")[0] + b"\n\n"
"""And what is shown of it is a line, also through a pipe."""


class Pi:
    def __init__(self, home: Path, project: Path, command: Sequence[str] = PI) -> None:
        """`command` may start another program, which asks the same models."""
        self.home, self.project, self.command = home, project, command
        self.sessions = SessionManager()

    def use(self, server, **settings) -> None:
        agent = self.home / ".pi" / "agent"
        agent.mkdir(parents=True, exist_ok=True)
        model = {"id": "test", "base_url": f"{server.url}/v1", "context_window": 8000}
        retry = {"base_delay_ms": 10, "max_delay_ms": 2000}
        text = json.dumps({"models": [model], "default_model": "test", "retry": retry, **settings})
        (agent / "settings.json").write_text(text)

    def __call__(self, *words: str, stdin: str | bytes | None = None, **options):
        given = stdin.encode() if isinstance(stdin, str) else stdin
        fed = {"stdin": subprocess.DEVNULL} if given is None else {"input": given}
        command = [*self.command, *words]
        return run(command, cwd=self.project, capture_output=True, timeout=60, **fed, **options)

    @contextmanager
    def started(self, *words: str):
        command = [*self.command, *words]
        pipe = subprocess.PIPE
        with Popen(command, cwd=self.project, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def messages(self) -> list[tuple[str, str]]:
        """Of the newest session, as another process reads them."""
        newest, *_ = self.sessions.list_sessions()
        return [(entry.role, entry.text) for entry in self.sessions.load_session(newest.id)]

    def last(self) -> Any:
        """Of the same session, what was said last."""
        newest, *_ = self.sessions.list_sessions()
        return self.sessions.load_session(newest.id)[-1].body.message  # type: ignore[union-attr]


@pytest.fixture
def pi(home, tmp_path):
    return Pi(home, tmp_path)


@pytest.fixture
def talked(pi, wire_server):
    """A session in which something was said."""
    wire_server.script(events(said("yes")))
    pi.use(wire_server)
    pi.id = asyncio.run(_say("the flaky zebra", "the zebra talk", pi.project))
    return pi


async def _say(text: str, name: str, project: Path) -> str:
    """As `pi -p -n NAME TEXT` does, without a process."""
    async with AgentSession(cwd=project) as agent:
        id = await agent.start()
        await agent.rename(name)
        async for _ in agent.send_message(text):
            pass
    return id


def until(condition, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def running(command: str) -> int:
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            count += " ".join(words[:2]) == command
    return count
