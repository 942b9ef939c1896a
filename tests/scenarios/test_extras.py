"""A command whose extra is not installed says what to install (G-11)."""

import json
import sys
import tomllib
from pathlib import Path

import pytest

from perdure.programs.pi import main as pi
from tests.programs.started import Program, aur, sibyl, soleur
from tests.programs.workspaces import cortext

__all__ = ["aur", "cortext", "sibyl", "soleur"]

ROOT = Path(__file__).parents[2]
COMMANDS = {
    "mcp": [["mcp"], ["mcp", "--json"], ["mcp", "files"], ["mcp", "nosuch"]],
    "rg": [],  # Python searches where there is no ripgrep: no command needs it
    "all": [],
    "dev": [],
}
"""By its extra, every command that does nothing without it."""
PACKAGES = {"mcp": "mcp"}
INSTALL = "The package {package} is not installed; pip install 'perdure[{extra}]'"
SERVERS = {"files": {"command": "true"}, "web": {"url": "http://127.0.0.1:9/mcp"}}


def configure(home: Path, servers: object) -> None:
    folder = home / ".pi" / "agent"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "settings.json").write_text(json.dumps({"mcpServers": servers}))


@pytest.fixture
def without_extras(monkeypatch):
    """As where only the package itself is installed."""
    for package in PACKAGES.values():
        monkeypatch.setitem(sys.modules, package, None)


def test_g_11_every_extra_is_known_here():
    """A new one has commands that need it, or needs none."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {*project["optional-dependencies"]} == {*COMMANDS}


@pytest.mark.parametrize("servers", [SERVERS, {}], ids=["configured", "none"])
@pytest.mark.parametrize(
    ("extra", "words"), [(extra, words) for extra, every in COMMANDS.items() for words in every]
)
def test_g_11_a_command_without_its_extra_says_what_brings_it(
    extra, words, servers, without_extras, home, tmp_path, monkeypatch, capsys
):
    """In one line on stderr, with exit code 1, whatever it is asked for."""
    configure(home, servers)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["pi"])
    assert pi(words) == 1
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"pi: {INSTALL.format(package=PACKAGES[extra], extra=extra)}\n")


@pytest.mark.process  # cortext asks git
@pytest.mark.parametrize("name", ["soleur", "sibyl", "aur", "cortext"])
def test_g_11_a_conversation_goes_on_without_the_tools_that_an_extra_brings(
    name, without_extras, home, request
):
    """One notice says why they are not there; a program without tools need not say it."""
    program: Program = request.getfixturevalue(name)
    configure(home, SERVERS)
    words = {"soleur": ["--fresh"], "aur": ["spawn"], "cortext": ["start", "plan", "API"]}.get(name, [])
    done = program.within(*words, stdin="list .\nlist .\n")
    assert done.code == 0
    assert done.err.count("pip install 'perdure[mcp]'") == (name != "soleur")
    assert "Traceback" not in done.err


def test_g_11_a_prompt_is_answered_without_them(without_extras, home, tmp_path, monkeypatch, capfd):
    """With `-p`, too."""
    configure(home, SERVERS)
    monkeypatch.chdir(tmp_path)
    assert pi(["-p", "list ."]) == 0
    out, err = capfd.readouterr()
    assert out
    assert err.count("pip install 'perdure[mcp]'") == 1
