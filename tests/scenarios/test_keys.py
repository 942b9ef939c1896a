"""S6: none of many secrets in the environment reaches a child, a file or a log. Real programs of an ordinary
user, with a server in place of the model."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.environments import MARK, SECRET, UNMARKED
from tests.agent.models.wire_server import events, refuse, wire_server
from tests.front.one_prompt import called, pi, said
from tests.needs import needs
from tests.ordinary_user import as_ordinary_user
from tests.processes import run

__all__ = ["pi", "wire_server"]

pytestmark = pytest.mark.process

CANARIES = {**SECRET, **UNMARKED, "PATH": os.environ["PATH"]}
del CANARIES["SHORT"]  # which is a key only where it is in use

LOOKS = """
import os, sys
MARK = "Qz7cAn" "ArYx4"
processes = {}
for name in filter(str.isdecimal, os.listdir("/proc")):
    try:
        with open(f"/proc/{name}/stat", "rb") as file:
            processes[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        pass
def line(pid):
    found = []
    while pid in processes and pid != int(os.environ["TOP"]):
        found.append(pid)
        pid = processes[pid]
    return found
program = line(os.getpid())[-1]
of_program = [pid for pid in processes if program in line(pid)]
assert len(of_program) > 2
for pid in of_program:
    for name in ("environ", "cmdline"):
        try:
            with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as file:
                print("LOOKED", name, pid, MARK in file.read())
        except OSError as error:
            print("REFUSED", name, pid)
print(dict(os.environ))
"""
"""At all that the program has started, and at itself, whatever the directory is that it is in."""


def everything_in(*folders: Path) -> Iterator[tuple[Path, bytes]]:
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file():
                yield path, path.read_bytes()


@needs("Linux", given=sys.platform == "linux")
def test_s6_no_canary_reaches_a_command_a_server_a_file_or_what_is_shown(pi, wire_server, tmp_path_factory):
    """But for the key in use, which its provider gets. A command, and a server of the settings, look at all
    processes of the program: at themselves, at those that started them, and at one another."""
    aside = tmp_path_factory.mktemp("aside")
    look = aside / "look.py"
    look.write_text(LOOKS)
    command = f"{sys.executable} -I {look}; env; cat /proc/$PPID/environ"
    wire_server.script(
        events(called(("c1", "bash", {"command": command}))),
        refuse(500, b'{"error": {"message": "no"}}'),
        events(said("done")),
    )
    pi.use(
        wire_server,
        models=[
            {
                "id": "test",
                "provider": "mine",
                "base_url": f"{wire_server.url}/v1",
                "context_window": 8000,
                "api_key": "MY_VENDOR",
            }
        ],
        mcp_servers={
            "looks": {
                "command": "sh",
                "args": ["-c", f"{sys.executable} -I {look} > {aside}/seen-by-server 2>&1"],
                "env": {"TOP": str(os.getpid())},
            }
        },
    )
    done = subprocess.run(
        as_ordinary_user([sys.executable, "-m", "perdure", "-p", "--mode", "json", "look around"]),
        cwd=pi.project,
        env=CANARIES | {"HOME": str(pi.home), "TOP": str(os.getpid()), "NO_PROXY": "*"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    shown = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, shown
    first, *_, last = wire_server.requests
    assert first.headers["authorization"] == f"Bearer {CANARIES['MY_VENDOR']}"
    seen = last.body["messages"][-1]["content"]
    assert "REFUSED environ" in seen
    assert "LOOKED environ" in seen
    assert "PAGER=cat" in seen
    assert "Permission denied" in seen
    written = dict(everything_in(pi.home, pi.project, aside))
    assert b"LOOKED environ" in written[aside / "seen-by-server"]
    assert any(b"look around" in data for data in written.values())
    texts = {"shown": shown, "sent": "".join(each.raw.decode() for each in wire_server.requests)}
    texts |= {str(path): data.decode("utf-8", "replace") for path, data in written.items()}
    for name, text in texts.items():
        assert MARK not in text, name
        assert " True\n" not in text.replace("\\n", "\n"), name
        assert not [each for each in UNMARKED.values() if each != UNMARKED["SHORT"] and each in text], name


FALLS_OVER = """
from perdure.agent.session import AgentSession
from perdure.programs.pi import main
async def start(self, *arguments, **options):
    secret = dict(__import__("os").environ)
    raise RuntimeError("nobody foresaw this")
AgentSession.start = start
main(["-p", "hello"])
"""


def test_s6_an_error_that_nobody_foresaw_shows_no_canary_and_leaves_none(home, tmp_path):
    """It says where the program fell over, and not what it held then."""
    done = run(
        [sys.executable, "-c", FALLS_OVER],
        cwd=tmp_path,
        env=CANARIES | {"HOME": str(home)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert "nobody foresaw this" in done.stderr
    assert MARK not in done.stdout + done.stderr
    assert not [path for path, data in everything_in(home, tmp_path) if MARK.encode() in data]
