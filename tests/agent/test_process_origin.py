"""Whether an agent started this process: real agents, whose scripted model runs real commands."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from perdure import AgentSession
from perdure.agent.process_origin import AgentMark, _is_program, is_started_by_agent
from perdure.agent.trust import Trust
from perdure.errors import PerdureError
from perdure.session.entry import ToolCall
from perdure.testing import ScriptedModel
from tests.needs import needs_tool
from tests.processes import SCRIPTS

PI = str(SCRIPTS / "pi")
SCRUBBED = 'env -i HOME="$HOME" PATH="$PATH"'

WAYS = {
    "as it is": f"{PI} trust --yes; echo code $?",
    "with an answer": f"echo y | {PI} trust; echo code $?",
    "revoking": f"{PI} trust --revoke ..; echo code $?",
    "without its environment": f"{SCRUBBED} {PI} trust --yes; echo code $?",
    "in place of the shell": f"exec {SCRUBBED} {PI} trust --yes",
    "as a daemon": (  # its exit code comes through a pipe with a name
        f"mkfifo end; ({SCRUBBED} setsid sh -c '{PI} trust --yes; echo code $? > end' </dev/null >all 2>&1 &)"
        "; cat end all"
    ),
}


@pytest.fixture
def folder(home, monkeypatch) -> Path:
    path = home / "code" / "demo"
    (path / ".pi").mkdir(parents=True)
    (path / ".pi" / "settings.json").write_text('{"defaultModel": "x"}')
    monkeypatch.chdir(path)
    return path


async def said_to_agent(command: str) -> str:
    """What a command prints that an agent's model runs."""
    model = ScriptedModel(ToolCall("1", "bash", {"command": command}), "Done.")
    async with AgentSession(trusted=False) as session:
        await session.start(model=model)
        async for _ in session.send_message("trust this folder"):
            pass
    result = model.requests[1].messages[-1]
    return result.text


@pytest.mark.process
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.anyio
async def test_g_10_a_command_that_an_agent_runs_decides_nothing(way, folder):
    """By the mark in its environment, by its ancestors, or by what it inherited."""
    Trust().decide(str(folder.parent), False)
    printed = await said_to_agent(WAYS[way])
    assert "inside a command of an agent" in printed
    assert "code 1" in printed or "code 1" in printed.replace("exited with ", "")
    assert Trust().all() == {str(folder.parent): False}


@pytest.mark.process
@pytest.mark.anyio
async def test_g_10_an_agent_may_see_what_a_folder_would_be_allowed(folder):
    assert '"trusted": false' in await said_to_agent(f"{PI} trust --json")


@pytest.mark.process
def test_g_10_the_same_command_outside_an_agent_decides(folder):
    subprocess.run(["sh", "-c", WAYS["as it is"]], check=True, capture_output=True)
    assert Trust().is_trusted(str(folder))


def test_g_10_the_library_decides_nothing_in_an_agents_command(folder, monkeypatch):
    monkeypatch.setenv("PERDURE_CALL", "a1")
    with pytest.raises(PerdureError, match="agent"):
        Trust().decide(str(folder), True)
    assert Trust().all() == {}


def test_g_10_a_process_that_runs_an_agent_may_decide_for_its_user(folder):
    """It is its user who answers there."""
    with AgentMark():
        assert not is_started_by_agent()
        Trust().decide(str(folder), True)


ASKS = "import sys; from perdure.agent import process_origin; sys.exit(process_origin.is_started_by_agent())"


@pytest.mark.process
def test_g_10_what_was_started_by_an_agent_of_any_name_knows_it():
    """Also where the agent is a program of somebody else's; and not any more when the agent has ended."""
    with AgentMark():
        assert subprocess.run([sys.executable, "-c", ASKS], check=False).returncode == 1
    assert subprocess.run([sys.executable, "-c", ASKS], check=False).returncode == 0


@needs_tool("ps")
@pytest.mark.process
@pytest.mark.parametrize(("name", "is_ours"), [("pi", True), ("soleur", True), ("other", False)])
def test_g_10_without_proc_ancestors_are_known_by_their_names(name, is_ours, tmp_path):
    """As on macOS."""
    asks = (
        "from perdure.agent.process_origin import _ancestor_commands, _is_program;"
        "print(any(map(_is_program, _ancestor_commands())))"
    )
    program = tmp_path / name
    program.write_text(f"import subprocess, sys; subprocess.run([sys.executable, '-c', {asks!r}])")
    done = subprocess.run([sys.executable, program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == str(is_ours)


@pytest.mark.process
def test_g_10_with_neither_proc_nor_ps_the_mark_has_to_do(monkeypatch):
    monkeypatch.delattr("os.memfd_create", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    assert not is_started_by_agent()
    monkeypatch.setenv("PERDURE_CALL", "a1")
    assert is_started_by_agent()


@pytest.mark.parametrize(
    ("command", "is_ours"),
    [
        ("/usr/local/bin/pi -p hi", True),
        ("/usr/bin/python3.12 /opt/bin/aur spawn", True),
        ("python -P -m perdure", True),
        ("/Library/Frameworks/Python.app/Contents/MacOS/Python /usr/local/bin/cortext", True),
        ("-bash", False),
        ("python pi.py", False),
        ("vim pi", False),
        ("", False),
    ],
)
def test_a_command_line_that_runs_one_of_our_programs(command, is_ours):
    assert _is_program(shlex.split(command)) == is_ours
