"""The peers that are quick to install. What comes from PyPI goes into an environment that is thrown away; the
original pi is the one the interoperability tests use, and stays. One that cannot be had is left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from bench.peers import ROOT, Peer, Peers

_PI = ROOT / "tests" / "peers"
_FROM_PYPI = {
    "openai-agents": "bench.peers.openai_agents",
    "llm": "bench.peers.llm_logs",
    "pydantic-ai-slim": "bench.peers.pydantic_ai_agent",
    "langgraph": "bench.peers.langgraph_agent",
}


def install(folder: str) -> Peers:
    place = os.path.join(folder, "peers")
    venv.create(place, symlinks=True)
    found = [_original_pi(), *(_from_pypi(place, name, module) for name, module in _FROM_PYPI.items())]
    return Peers([peer for peer in found if peer is not None], folder)


def _from_pypi(place: str, name: str, module: str) -> Peer | None:
    python = os.path.join(place, "bin", "python")
    print(f"Installing {name} into a throw-away environment", end=": ", file=sys.stderr, flush=True)
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check", "--quiet"]
    asked = f"from importlib.metadata import version; print(version({name!r}))"
    if (version := _output(name, [*pip, "install", name], [python, "-c", asked])) is None:
        return None
    program = os.path.join(place, "bin", name)
    return Peer(name, version, [python, "-m", module], [program] if os.path.exists(program) else [])


def _original_pi() -> Peer | None:
    node, program = (str(_PI / "node_modules" / ".bin" / name) for name in ("node", "pi"))
    print("The original pi", end=": ", file=sys.stderr, flush=True)
    installing = ["make", "--silent", "-C", str(ROOT), "peers"]
    if (node_version := _output("pi", installing, [node, "--version"])) is None:
        return None
    package = _PI / "node_modules" / "@earendil-works" / "pi-coding-agent" / "package.json"
    version = f"{json.loads(package.read_bytes())['version']} on node {node_version.lstrip('v')}"
    driver = str(Path(__file__).parent / "pi.mjs")
    return Peer("pi", version, [node, driver], [node, program])


def _output(name: str, *commands: Sequence[str]) -> str | None:
    """What the last of the commands prints; None if one of them failed, and the reason is told."""
    said = ""
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            reason = getattr(error, "stderr", "") or str(error)
            print(f"failed, so the run goes on without {name}:\n{reason.strip()}", file=sys.stderr)
            return None
        said = done.stdout.strip()
    print(said, file=sys.stderr)
    return said
