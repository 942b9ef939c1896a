"""aimock, an independent mock of the providers' servers, as these tests meet it: a real process on loopback.

One process serves a whole run. Each `answering` scripts one answer under a name of its own, which the model
it returns sends along in a header, so tests do not meet each other's answers.

    def test_…(aimock):
        model = aimock.answering("openai-completions", {"content": "Hello"})

`response` and `options` are aimock's own: `content`, `reasoning`, `toolCalls`, `blocks`, `usage`; or `error`
with `status` and `retryAfter`; `chunkSize`, `truncateAfterChunks`, `disconnectAfterMs`, and `chaos`.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.agent.models import Model

Json = dict[str, Any]

_PEERS = Path(__file__).parents[2] / "peers" / "node_modules"
_NODE = _PEERS / ".bin" / "node"
_AIMOCK = _PEERS / "@copilotkit" / "aimock" / "dist" / "aimock-cli.js"
INSTALLED = (_PEERS / "installed").exists() and _AIMOCK.exists()
_PATIENCE = 30  # seconds: only a process that hangs takes as long

_BASES = {
    "openai-completions": "/v1",
    "openai-responses": "/v1",
    "anthropic-messages": "",
    "google-generative-ai": "/v1beta",
}
_IDS = {
    "openai-completions": ("openai", "o3"),
    "openai-responses": ("openai", "o3"),
    "anthropic-messages": ("anthropic", "claude-sonnet-4-5"),
    "google-generative-ai": ("google", "gemini-2.5-pro"),
}


class Aimock:
    def __init__(self, url: str) -> None:
        self.url = url
        self._names = itertools.count()

    def answering(self, api: str, response: Json, /, **options: Any) -> Model:
        """A model that gives this answer whatever it is asked."""
        context = f"answer-{next(self._names)}"
        fixture = {"match": {"context": context}, "response": response, **options}
        self._ask("POST", "/fixtures", {"fixtures": [fixture]})
        provider, id = _IDS[api]
        return Model(
            id=id,
            provider=provider,
            api=api,
            base_url=self.url + _BASES[api],
            reasoning=True,
            input=("text", "image"),
            headers={"X-AIMock-Context": context, "X-Test-Id": context},
        )

    def requests(self, model: Model) -> list[Json]:
        """The bodies that a model of `answering` was sent, as aimock understood them, in order."""
        said = self._ask("GET", f"/journal?testId={model.headers['X-Test-Id']}")
        return [each["body"] for each in (said if isinstance(said, list) else said["entries"])]

    def _ask(self, method: str, path: str, body: Json | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/__aimock{path}", data, method=method)
        with urllib.request.urlopen(request, timeout=_PATIENCE) as response:
            return json.load(response)


@pytest.fixture(scope="session")
def aimock(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aimock]:
    if not INSTALLED:
        pytest.skip("needs aimock (make peers)")
    config = tmp_path_factory.mktemp("aimock") / "aimock.json"
    config.write_text(json.dumps({"llm": {"latency": 0}, "port": 0}))
    said = config.with_suffix(".log")
    with (
        open(said, "wb") as output,
        subprocess.Popen(
            [_NODE, _AIMOCK, "--config", config, "--port", "0", "--host", "127.0.0.1"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            yield Aimock(_address(process, said))
        finally:
            process.kill()


def _address(process: subprocess.Popen[bytes], said: Path) -> str:
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end and process.poll() is None:
        _, found, rest = said.read_text().partition("listening on ")
        if found and "\n" in rest:
            return rest.split()[0]
        time.sleep(0.02)
    raise AssertionError(f"aimock did not start: {said.read_text()}")
