"""S8: whatever the umask lets through, what the programs write is for its owner only."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.front.commands import SESSIONS
from perdure.programs import pi as pi_program
from perdure.programs.aur.commands import ACTIONS
from perdure.programs.cortext.commands import COMMANDS as CORTEXT
from perdure.programs.soleur.commands import COMMANDS as SOLEUR
from perdure.session.stores import open_store
from tests.agent.models.wire_server import wire_server
from tests.front.one_prompt import Pi
from tests.programs.started import Done, Program
from tests.programs.workspaces import GIT_CONFIG

__all__ = ["wire_server"]

pytestmark = pytest.mark.process


@pytest.fixture
def everybody() -> Iterator[None]:
    """May do everything with what is made without a mode of its own."""
    before = os.umask(0)
    yield
    os.umask(before)


def wide(*folders: Path) -> dict[str, str]:
    """All that anybody else can read, write or enter."""
    found = [path for folder in folders for path in folder.rglob("*") if not path.is_symlink()]
    modes = {str(path): stat.S_IMODE(path.stat().st_mode) for path in found}
    return {path: oct(mode) for path, mode in modes.items() if mode & 0o077}


def ran(done: Done) -> Done:
    assert done.code == 0, done.err
    return done


def test_s8_every_command_of_pi_writes_for_its_owner_only(home, tmp_path, monkeypatch, everybody):
    """Sessions, names of them, locks, trash, caches, settings, documents, what a command printed."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    os.chmod(home, 0o700)
    project = home / "project"
    project.mkdir(0o700)
    pi = Pi(home, project)
    talk = (
        "one\n/name x\n/session\n/export\n/export html page.html\n/fork\ntwo\n!seq 20000\n!!seq 5\n/compact\n"
    )
    assert pi(stdin=talk + "/new\n/search one\n/quit\n").returncode == 0
    assert pi("-p", "where is one").returncode == 0
    (id, *others) = [ref.id for ref in open_store("pi").list()]
    torn = others[0]
    path = next(ref.path for ref in open_store("pi").list() if ref.id == torn)
    Path(path).write_bytes(Path(path).read_bytes() + b'{"torn')
    words: dict[str, list[list[str]]] = {
        "ls": [["--all"]],
        "show": [[id]],
        "search": [["one"]],
        "rename": [[id, "y"]],
        "fork": [[id]],
        "export": [
            *([id, "--to", to, "-o", f"exported-{to}"] for to in ("md", "html", "json", "pi", "cortext")),
            *([id, "--to", to, "--install"] for to in ("pi", "aurora", "soleur", "sibyl")),
        ],
        "doctor": [[torn, "--repair"]],
        "rm": [[id]],
        "trash": [[]],
        "restore": [[id]],
        "stats": [[]],
    }
    assert {*words} == {*SESSIONS}
    for verb, calls in words.items():
        for call in calls:
            done = pi("sessions", verb, *call)
            assert done.returncode == 0, (verb, done.stderr)
    others_of_pi = {"models": [], "mcp": [], "trust": ["--yes"], "completion": ["bash"]}
    assert {*others_of_pi, "sessions"} == {*pi_program.COMMANDS}
    for command, more in others_of_pi.items():
        pi(command, *more)
    assert wide(home, tmp_path) == {}
    assert (home / ".cache").is_dir() or (home / "Library").is_dir()


@pytest.mark.parametrize("name", ["aur", "soleur", "sibyl"])
def test_s8_every_command_of_the_other_programs_writes_for_its_owner_only(
    name, home, monkeypatch, tmp_path, everybody
):
    """In their homes, and where they are told to write."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    os.chmod(home, 0o700)
    (home / "project").mkdir(0o700)
    program = Program(name, home, home / "project")
    begin = ["spawn"] if name == "aur" else ["--fresh", "--no-context"] if name == "soleur" else []
    said = {
        "aur": "hello\n/save a.md\n/export a.json\n/import a.json\n/clear\n/exit\n",
        "soleur": "Should we?\n/decide We do\n/decisions\n/save\n/exit\n",
        "sibyl": "where is it\n/save\n/sessions\n/reset\nagain\n/exit\n",
    }
    ran(program.run(*begin, stdin=said[name]))
    ref = next(iter(open_store(program.layout).list()))
    calls: dict[str, list[list[str]]] = {
        "aur": [
            ["spawn", "--list-sessions"],
            ["spawn", "--recover", ref.id],
            ["spawn", "--clean-sessions", "30"],
            ["spawn", "--delete-session", ref.id, "--yes"],
        ],
        "soleur": [["sessions"], ["load", ref.id], ["decisions"], ["spar", "--fresh", "--no-context"]],
        "sibyl": [["--session-id", ref.id]],
    }
    if name == "aur":
        assert {word for call in calls[name] for word in call if word[:2] == "--"} == {
            *(f"--{each.replace('_', '-')}" for each in ACTIONS),
            "--yes",
        }
    if name == "soleur":
        assert {call[0] for call in calls[name]} == {*SOLEUR}
    for call in calls[name]:
        program.run(*call, stdin="hello\n/exit\n")
    assert wide(home, tmp_path) == {}


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o027, 0o077])
def test_s8_in_a_workspace_nobody_gets_a_right_that_the_umask_withholds(
    home, monkeypatch, tmp_path, everybody, umask
):
    """Whoever shares it has what the umask leaves them; everybody may write to nothing, also not to its
    repository. What lies elsewhere is its owner's."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    os.chmod(home, 0o700)
    work = home / "work"
    work.mkdir(0o700)
    cortext = Program("cortext", home, work)
    (home / ".gitconfig").write_text(GIT_CONFIG)
    (home / ".gitconfig").chmod(0o600)
    os.umask(umask)
    ran(cortext.run("init"))
    ran(cortext.run("start", "plan", "Ship it", stdin="hello\n"))
    ran(cortext.run("resume", "ship", stdin="more\n"))
    ran(cortext.run("list"))
    assert {*CORTEXT} == {"init", "start", "resume", "list"}
    withheld = umask | stat.S_IWOTH
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in work.rglob("*")}
    assert {str(path): oct(mode) for path, mode in modes.items() if mode & withheld} == {}
    assert any(path.name == "config" for path in modes)  # of the repository
    assert any(path.suffix == ".lock" for path in modes)
    elsewhere = wide(home, tmp_path)
    assert {path for path in elsewhere if not path.startswith(str(work))} == set()
