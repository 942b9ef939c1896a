"""A real language model, small and on this machine: its server, and agents that talk to it.

These tests run with `make local` alone: they want a download, and a minute or two. What such a model says
means little, so nobody asks for more than that it says something.
"""

import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from perdure.agent.compaction import CompactionStrategy, NoCompaction
from perdure.agent.session import AgentSession
from tests.local.server import LONGEST, WINDOW

# A file that is named on the command line is collected all the same.
collect_ignore_glob = ["test_*.py"]

MODEL = Path(__file__).parents[2] / "build" / "local-model"
APIS = {"openai-completions": "/v1", "openai-responses": "/v1", "anthropic-messages": ""}
"""What the server speaks, and below which path."""


class Server:
    def __init__(self, address: str) -> None:
        self._address = address
        self._direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def settings(self, api: str = "openai-completions", **traits: object) -> dict[str, object]:
        """With one model, which is reached by this protocol."""
        reached = {"id": "small", "api": api, "base_url": f"{self._address}{APIS[api]}"}
        size = {"context_window": WINDOW, "max_tokens": LONGEST}
        return {"models": [reached | size | traits], "default_model": "small"}

    @property
    def work(self) -> int:
        """Steps that the model has been taken through; each makes a token of an answer, or reads a prompt."""
        return self._figure("n_decode_total")

    def work_since(self, before: int) -> int:
        """When there is no more to do."""
        while self._figure("requests_processing"):
            time.sleep(0.1)
        return self.work - before

    def _figure(self, name: str) -> int:
        with self._direct.open(f"{self._address}/metrics", timeout=60) as answer:
            found = re.search(rf"^llamacpp:{name} (\d+)$", answer.read().decode(), re.MULTILINE)
        assert found, name
        return int(found[1])


@pytest.fixture(scope="session")
def server(no_settings_from_outside, network_lock, tmp_path_factory):
    if not MODEL.is_dir():
        pytest.skip("needs a language model (make local)")
    log = tmp_path_factory.mktemp("server") / "log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [sys.executable, Path(__file__).with_name("server.py")],
            env={**os.environ, "PYTHONPATH": str(MODEL)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            assert address, f"the server did not start: {log.read_text()}"
            yield Server(address)
            process.stdin.close()
            process.wait(10)
        finally:
            process.kill()


@pytest.fixture(params=APIS)
def api(request):
    return request.param


@pytest.fixture
def sessions_dir(tmp_path):
    return tmp_path / "sessions"


@pytest.fixture
def agent(server, sessions_dir, tmp_path):
    """Makes agents that all keep their sessions in one place."""

    def made(api: str, compaction: CompactionStrategy | None = None, **traits: object) -> AgentSession:
        return AgentSession(
            cwd=tmp_path,
            sessions_dir=sessions_dir,
            settings=server.settings(api, **traits),
            tools=[],
            compaction=compaction or NoCompaction(),
            system_prompt="You are brief.",
        )

    return made


@pytest.fixture
def anyio_backend():
    return "asyncio"
