"""The original pi as these tests meet it: its session code, its command line, and a model for it to talk to.

Its session code is driven by `tests/peers/pi_sessions.mjs`, a list of steps at a time, because each start
costs a second. Its command line starts in half of that; `say` is one prompt and one answer, and `talk` a
process that keeps a session open. The model is a server on this machine that repeats what it was told.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any

PEERS = Path(__file__).parents[1] / "peers"
INSTALLED = (PEERS / "node_modules" / "installed").exists()
_NODE = str(PEERS / "node_modules" / ".bin" / "node")
_PI = str(PEERS / "node_modules" / ".bin" / "pi")
_DRIVER = str(PEERS / "pi_sessions.mjs")
_PATIENCE = 120  # seconds: only a process that hangs takes as long

Json = dict[str, Any]


class Script:
    """Steps for pi's session code. Each returns the name of its result, an argument for later steps."""

    def __init__(self) -> None:
        self.steps: list[list[Any]] = []

    def __call__(self, verb: str, *arguments: Any) -> str:
        self.steps.append([verb, *(os.fspath(a) if isinstance(a, Path) else a for a in arguments)])
        return f"${len(self.steps) - 1}"


class OriginalPi:
    def __init__(self, home: Path, model: Model) -> None:
        """`home` becomes its agent folder: sessions, settings, locks."""
        self.home = home
        self.model = model
        home.mkdir(parents=True, exist_ok=True)
        (home / "models.json").write_text(json.dumps({"providers": {"local": model.settings()}}))

    def run(self, script: Script) -> dict[str, Any]:
        """The result of every step, by its name."""
        steps = self.home / "steps.json"  # a file and not a pipe: the driver reads no more than a pipe holds
        steps.write_text(json.dumps(script.steps))
        with open(steps) as file:
            done = self._started([_NODE, _DRIVER], cwd=self.home, stdin=file)
        return {f"${number}": result for number, result in enumerate(json.loads(done))}

    def say(self, prompt: str, *options: str, cwd: Path) -> str:
        """`pi -p`: what it prints."""
        return self._started([*self._command(*options), "-p", prompt], cwd=cwd)

    def export(self, path: str, *, cwd: Path) -> Json:
        """`pi --export`: the session inside the page it writes."""
        target = cwd / "exported.html"
        self._started([_NODE, _PI, "--export", path, str(target)], cwd=cwd)
        _, _, data = target.read_text().partition('<script id="session-data" type="application/json">')
        exported: Json = json.loads(base64.b64decode(data[: data.index("<")]))
        return exported

    @contextmanager
    def talk(self, path: str, *, cwd: Path) -> Iterator[Conversation]:
        """A process that has the session open until the block ends."""
        command = self._command("--mode", "rpc", "--session", path)
        with (
            open(self.home / "stderr", "w+b") as errors,
            subprocess.Popen(
                command,
                cwd=cwd,
                env=self._environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            ) as process,
        ):
            try:
                conversation = Conversation(process)
                conversation.ask("get_state")  # answered once the session is open
                yield conversation
            finally:
                process.kill()

    def _command(self, *options: str) -> list[str]:
        return [_NODE, _PI, "--offline", "--model", "local/parrot", *options]

    def _started(self, command: list[str], *, cwd: Path, stdin: IO[str] | int = subprocess.DEVNULL) -> str:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=self._environment(),
            stdin=stdin,
            capture_output=True,
            timeout=_PATIENCE,
        )
        assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()
        return done.stdout.decode()

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PI_CODING_AGENT_DIR": str(self.home),
            "PI_OFFLINE": "1",
            "NO_PROXY": "127.0.0.1",
        }


class Conversation:
    """A running `pi --mode rpc`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def ask(self, command: str, **arguments: Any) -> Any:
        self._send(command, **arguments)
        reply = self._until("response")
        assert reply["success"], reply
        return reply.get("data")

    def say(self, prompt: str) -> None:
        """One whole turn: it returns when the answer is in the file."""
        self._send("prompt", message=prompt)
        self._until("agent_settled")

    def _send(self, command: str, **arguments: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"type": command, **arguments}).encode() + b"\n")
        self._process.stdin.flush()

    def _until(self, kind: str) -> Json:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            record: Json = json.loads(line)
            if record["type"] == kind:
                return record
        raise AssertionError(f"pi ended before it sent {kind!r}")


class Model(ThreadingHTTPServer):
    """A model that answers "You said: …", over the protocol of OpenAI's chat completions."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Completions)
        self.requests: list[Json] = []
        """What it was sent, one for each answer."""
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        self._thread.start()

    def settings(self) -> Json:
        """As pi's models.json describes a provider."""
        parrot = {"id": "parrot", "name": "parrot", "input": ["text", "image"], "contextWindow": 1_000_000}
        return {
            "baseUrl": f"http://127.0.0.1:{self.server_port}/v1",
            "api": "openai-completions",
            "apiKey": "none",
            "models": [{**parrot, "reasoning": False, "maxTokens": 1000, "cost": dict.fromkeys(_COSTS, 0)}],
        }

    def close(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


_COSTS = ("input", "output", "cacheRead", "cacheWrite")


class _Completions(BaseHTTPRequestHandler):
    server: Model

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        prompt = next(each["content"] for each in request["messages"][::-1] if each["role"] == "user")
        said = prompt if isinstance(prompt, str) else " ".join(part.get("text", "") for part in prompt)
        answer = {"role": "assistant", "content": f"You said: {said}"}
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self._send({"index": 0, "delta": answer, "finish_reason": None})
        self._send({"index": 0, "delta": {}, "finish_reason": "stop"})
        self.wfile.write(b"data: [DONE]\n\n")

    def _send(self, choice: Json) -> None:
        chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "parrot"}
        self.wfile.write(b"data: " + json.dumps({**chunk, "choices": [choice]}).encode() + b"\n\n")

    def log_message(self, format: str, *args: Any) -> None:
        pass
