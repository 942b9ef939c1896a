"""G-8 and G-10: a HOME that is none. An empty one, and one that is no directory, are never taken for `/`."""

import os
from tempfile import TemporaryFile

import pytest

from perdure import AgentSession, SessionManager, config
from perdure.agent.trust import Trust
from perdure.errors import NoHome
from perdure.front.completion import complete
from perdure.front.output import Output
from perdure.programs.aur.command_line import main as aur
from perdure.programs.cortext.command_line import main as cortext
from perdure.programs.pi import main as pi
from perdure.programs.sibyl.command_line import main as sibyl
from perdure.programs.soleur.command_line import main as soleur
from perdure.session.layouts import homes
from perdure.testing import user_entry

PROGRAMS = {"pi": pi, "aur": aur, "cortext": cortext, "sibyl": sibyl, "soleur": soleur}
NEEDS = [
    "pi -p hello",
    "pi sessions ls",
    "pi sessions search x",
    "pi models",
    "pi mcp",
    "pi trust --list",
    "pi trust --yes",
    "pi -C ~ -p hello",
    "soleur",
    "soleur sessions",
    "aur spawn",
    "aur spawn --list-sessions",
    "sibyl",
    "cortext init ~/work",
]
OWN = {
    "PI_CODING_AGENT_DIR": ["pi sessions ls", "pi sessions ls --all", "pi models", "pi trust --list"],
    "SOLEUR_HOME": ["soleur sessions", "soleur --fresh"],
    "AURORA_HOME": ["aur spawn --list-sessions", "aur spawn"],
    "SIBYL_HOME": ["sibyl"],
}


@pytest.fixture(params=["empty", "missing", "a file"])
def no_home(request, tmp_path, monkeypatch) -> str:
    """The HOME, in a folder where nobody has anything."""
    file = tmp_path / "file"
    file.touch()
    value = {"empty": "", "missing": str(tmp_path / "nowhere"), "a file": str(file)}[request.param]
    monkeypatch.setenv("HOME", value)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return value


@pytest.fixture
def run(capfd, monkeypatch):
    def run(line: str, typed: str = "") -> tuple[int, str]:
        name, *words = line.split()
        with TemporaryFile("w+", encoding="utf-8") as given, monkeypatch.context() as patch:
            given.write(typed)
            given.seek(0)
            patch.setattr("sys.stdin", given)
            code = PROGRAMS[name](words)
        return code, capfd.readouterr().err

    return run


def in_root() -> list[str]:
    return sorted(name for name in os.listdir("/") if name.startswith("."))


@pytest.mark.parametrize("line", NEEDS)
def test_g_10_where_a_place_under_home_is_needed_there_is_an_error(line, no_home, run, tmp_path):
    """It names HOME, or what that is, and what to do; nothing is written, least of all into `/`."""
    before = in_root()
    code, err = run(line)
    assert code == 1
    assert "There is no home directory" in err
    assert (no_home or "HOME is empty") in err
    assert "set HOME" in err
    assert in_root() == before
    assert not (tmp_path / "nowhere").exists()
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.parametrize("line", ["--help", "--version"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_g_10_help_and_version_need_no_home(program, line, no_home, run):
    assert run(f"{program} {line}") == (0, "")


@pytest.mark.parametrize("words", ["pi sessions show ", "soleur load ", "aur spawn --resume "])
def test_g_10_completion_needs_no_home(words, no_home, capfd):
    assert complete(["bash", words, str(len(words)), ""], {}, Output()) == 0
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("variable", "line"), [(name, line) for name, lines in OWN.items() for line in lines]
)
def test_g_8_a_home_that_is_named_by_its_own_variable_needs_no_other(
    variable, line, no_home, run, tmp_path, monkeypatch
):
    """Also where the catalog cannot be kept, and pi's settings are nowhere."""
    monkeypatch.setenv(variable, str(tmp_path / "own"))
    before = in_root()
    code, err = run(line, "hello\n" if line in ("soleur --fresh", "aur spawn", "sibyl") else "")
    assert code == 0, err
    assert in_root() == before


def test_g_8_a_session_is_kept_and_listed_where_only_pis_own_variable_is_set(
    no_home, run, tmp_path, monkeypatch, capfd
):
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path / "own"))
    manager = SessionManager()
    id = manager.create_session()
    manager.save(id, [user_entry("hello")])
    capfd.readouterr()
    assert pi(["sessions", "ls", "--all"]) == 0
    done = capfd.readouterr()
    assert id in done.out
    assert "cannot be kept" in done.err


@pytest.mark.process
def test_g_10_cortext_needs_no_home_in_its_workspace(no_home, run, tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    assert run("cortext init work")[0] == 0
    monkeypatch.chdir("work")
    assert run("cortext list")[0] == 0


def test_g_10_nothing_is_decided_and_nobody_trusted_without_a_home(no_home, tmp_path):
    assert not Trust().is_trusted(str(tmp_path))
    with pytest.raises(NoHome):
        Trust().decide(str(tmp_path), True)
    assert Trust(str(tmp_path / "own")).all() == {}


def test_g_10_a_path_below_no_home_is_an_error_and_others_are_not(no_home):
    for path in ("~", "~/x"):
        with pytest.raises(NoHome):
            config.expanded(path)
    assert config.expanded("/a/~/b") == "/a/~/b"
    assert config.as_typed("/a/b") == "/a/b"
    with pytest.raises(NoHome):
        homes()
    with pytest.raises(NoHome):
        AgentSession(cwd="~")


def test_the_home_is_the_users_where_home_is_not_set(monkeypatch, home):
    """By the list of users."""
    assert config.expanded("~/x") == str(home / "x")
    monkeypatch.delenv("HOME")
    assert config.user_home() == os.path.expanduser("~")
