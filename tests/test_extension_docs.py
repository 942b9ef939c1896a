"""What README and docs say about extending: every example is put where it says, and run."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import processes
from tests.agent.models.wire_server import events, wire_server
from tests.front.one_prompt import called, pi, said
from tests.needs import needs
from tests.test_docs import blocks

__all__ = ["pi", "wire_server"]

pytestmark = pytest.mark.process

ROOT = Path(__file__).parent.parent
PAGE = "docs/extensions.md"
MODULES = ROOT / "tests" / "peers" / "node_modules"
NPX = f"""#!/bin/sh
# The one thing left out is the download.
test "$1 $2" = "-y @modelcontextprotocol/server-filesystem" || exit 9
exec '{MODULES}/.bin/node' '{MODULES}/@modelcontextprotocol/server-filesystem/dist/index.js' "$3"
"""


@pytest.fixture
def agent_home(home):
    path = home / ".pi" / "agent"
    (path / "extensions").mkdir(parents=True)
    return path


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """What is typed as `pi` and, in the place of npm's, as `npx`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "npx").write_text(NPX)
    (folder / "npx").chmod(0o755)
    path = [str(folder), str(Path(sys.executable).parent), os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(path))
    return folder


def extensions(page: str) -> list[str]:
    return [block for block in blocks(page, "python") if "def register(" in block]


def test_the_readmes_tool_is_ten_lines_that_work(pi, agent_home, programs, wire_server):
    (dice,) = extensions("README.md")
    assert dice == extensions("docs/add-a-tool.md")[0]
    assert len([line for line in dice.splitlines() if line.strip()]) <= 10
    pi.use(wire_server)
    (agent_home / "extensions" / "dice.py").write_text(dice)
    wire_server.script(events(called(("a", "roll", {"sides": 1}))), events(said("a one")))
    done = pi("-p", "roll a die with 1 side")
    assert (done.returncode, done.stdout) == (0, b"a one\n"), done.stderr
    assert wire_server.requests[1].body["messages"][-1]["content"] == "1"
    tools = {each["function"]["name"]: each["function"] for each in wire_server.requests[0].body["tools"]}
    assert tools["roll"]["description"] == "Roll a die."
    assert tools["roll"]["parameters"]["properties"] == {"sides": {"type": "integer"}}
    (tour,) = [each for each in blocks("README.md", "console") if each.startswith("$ pi -p /help")]
    command, shown, again = tour.removeprefix("$ ").splitlines()
    assert again == '$ pi -p "roll a die with 20 sides"'
    done = processes.run_typed(command, capture_output=True, cwd=pi.project)
    assert done.stdout.decode() == f"{shown}\n"
    (commands,) = blocks("docs/add-a-tool.md", "console")
    for command in re.findall(r"^\$ (.*)$", commands, re.MULTILINE):
        wire_server.script(events(said("rolled")))
        done = processes.run_typed(command, capture_output=True, cwd=pi.project, stdin=subprocess.DEVNULL)
        assert (done.returncode, done.stdout) == (0, b"rolled\n"), done.stderr


def test_the_page_on_tools_is_one_program_that_runs(tmp_path):
    program = "\n".join(blocks("docs/add-a-tool.md", "python"))
    processes.run([sys.executable, "-W", "error", "-c", program], cwd=tmp_path, check=True)


@needs("MCP servers (make peers)", given=MODULES.joinpath("installed").exists())
def test_the_readmes_mcp_server_is_three_lines_that_work(pi, agent_home, programs, wire_server):
    (settings,) = blocks("README.md", "json")
    assert len(settings.splitlines()) == 3 + 2  # and the braces that the file has anyway
    (agent_home / "settings.json").write_text(settings)
    (tour,) = [each for each in blocks("README.md", "console") if each.startswith("$ pi mcp")]
    command, _, shown = tour.removeprefix("$ ").partition("\n")
    done = processes.run_typed(command, capture_output=True, text=True, cwd=pi.project)
    assert (done.returncode, done.stdout) == (0, shown), done.stderr
    pi.use(wire_server, **json.loads(settings))
    (pi.project / "note.txt").write_text("from the disk")
    reading = called(("a", "files_read_text_file", {"path": "note.txt"}))
    wire_server.script(events(reading), events(said("read")))
    done = pi("-p", "read the note")
    assert (done.returncode, done.stdout) == (0, b"read\n"), done.stderr
    assert "from the disk" in wire_server.requests[1].body["messages"][-1]["content"]


def test_each_example_of_the_page_registers_without_a_word(pi, agent_home, programs):
    found = extensions(PAGE)
    assert len(found) == 4
    for number, source in enumerate(found):
        (agent_home / "extensions" / f"example_{number}.py").write_text(source)
    done = pi("-p", "/help")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"/standup  what was done since yesterday" in done.stdout
    shown = pi("models", "parrot")
    assert b"parrot/grey" in shown.stdout
    assert pi("-p", "-m", "parrot/grey", "say it again").stdout == b"say it again\n"
    assert b"house/large" in pi("models", "house", "--all").stdout
    assert pi("-p", "/standup").stdout == b"Nothing since yesterday.\n"


@pytest.fixture
def page_files(pi, agent_home, programs):
    """The files that the page shows, in one home."""
    for number, source in enumerate(extensions(PAGE)):
        (agent_home / "extensions" / f"example_{number}.py").write_text(source)
    review, skill = blocks(PAGE, "markdown")
    (agent_home / "prompts").mkdir()
    (agent_home / "prompts" / "review.md").write_text(review)
    (agent_home / "skills" / "release").mkdir(parents=True)
    (agent_home / "skills" / "release" / "SKILL.md").write_text(skill)
    assert pi("-p", "--no-tools", "-m", "parrot/grey", "hello " * 3000).returncode == 0
    (pi.project / ".pi" / "prompts").mkdir(parents=True)
    (pi.project / ".pi" / "prompts" / "own.md").write_text("its own")


def commands_of_the_page(*, of_servers: bool) -> list[str]:
    """Those that start MCP servers, or all others."""
    commands = re.findall(r"^\$ (.*)$", (ROOT / PAGE).read_text(), re.MULTILINE)
    return [command for command in commands if command.startswith("pi mcp") == of_servers]


def run_all(commands: list[str], folder: Path) -> None:
    for command in commands:
        answer = "y\n" if command == "pi trust" else ""
        done = processes.run_typed(command, capture_output=True, text=True, cwd=folder, input=answer)
        wanted = 1 if "/compact" in command else 0  # a new session has nothing to condense
        assert done.returncode == wanted, f"{command}: {done.stdout}{done.stderr}"


def test_every_command_of_the_page_runs(pi, page_files):
    """Those of MCP servers are in the next test."""
    commands = commands_of_the_page(of_servers=False)
    assert len(commands) >= 9
    run_all(commands, pi.project)


@needs("MCP servers (make peers)", given=MODULES.joinpath("installed").exists())
def test_every_command_of_the_page_about_mcp_servers_runs(pi, page_files, agent_home):
    (settings,) = blocks(PAGE, "json")
    servers = json.loads(settings)["mcpServers"]
    del servers["tracker"]  # an address that nobody has
    (agent_home / "settings.json").write_text(json.dumps({"mcpServers": servers}))
    commands = commands_of_the_page(of_servers=True)
    assert commands
    run_all(commands, pi.project)


def test_the_example_is_installed_as_a_package_and_every_part_of_it_works(pi, wire_server, tmp_path_factory):
    site = tmp_path_factory.mktemp("site")
    example = ROOT / "docs" / "examples" / "perdure-notes"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    install += ["--no-build-isolation", "--no-index", "--target", str(site), str(example)]
    processes.run(install, check=True, capture_output=True)
    assert (site / "perdure_notes.py").is_file()
    environment = os.environ | {"PYTHONPATH": str(site)}
    pi.use(wire_server)
    note = {"text": "The parser is\nin parse.py"}
    calls = called(
        ("a", "remember", note), ("b", "write", {"path": "NOTES.md", "content": ""}), ("c", "ls", {})
    )
    reading = called(("d", "read", {"path": "NOTES.md"}))
    wire_server.script(events(calls), events(reading), events(said("noted")))
    done = pi("-p", "look around", env=environment)
    assert (done.returncode, done.stdout) == (0, b"noted\n"), done.stderr
    assert b"1 more in NOTES.md\n" in done.stderr
    assert (pi.project / "NOTES.md").read_text() == "- The parser is in parse.py\n"
    system = wire_server.requests[0].body["messages"][0]["content"]
    assert "NOTES.md holds what earlier conversations found out." in system
    _, refused, _ = [each["content"] for each in wire_server.requests[1].body["messages"][-3:]]
    assert "written by `remember` alone" in refused
    assert "`remember` adds to these notes." in wire_server.requests[2].body["messages"][-1]["content"]
    assert pi("-p", "/notes", env=environment).stdout == b"- The parser is in parse.py\n"
    assert pi("-p", "/notes", "what about it?", env=environment).returncode == 0
    asked = wire_server.requests[3].body["messages"][-1]["content"]
    assert "parse.py" in asked
    assert asked.endswith("what about it?")
    assert b"remember" not in pi("-p", "/help").stdout  # it is not installed here
