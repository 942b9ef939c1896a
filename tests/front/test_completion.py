"""Completion, in the shells themselves: what is on the command line after Tab was pressed."""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pexpect
import pyte
import pytest

from perdure import SessionManager
from perdure.front.commands import SESSIONS
from perdure.front.completion import candidates
from perdure.session.stores import Header, open_store
from tests import processes
from tests.needs import needs_tool

pytestmark = pytest.mark.process

BIN = Path(sys.executable).parent
TOP = {"sessions": "…", "mcp": "…", "trust": "…", "completion": "…"}
CONTEXT = ["--context", "--no-context"]
STAMP = "2026-01-31T10:00:00.000Z"


def texts(*words: str) -> list[str]:
    """What is offered for the last of the words."""
    return [each.text for each in candidates(words[:-1], words[-1], TOP)]


def make(program: str, *ids: str) -> None:
    store = open_store(program)
    for id in ids:
        store.create(Header(id, STAMP))


@pytest.fixture
def sessions(home):
    """Two of pi's, one of Soleur's, and one id that both have."""
    make("pi", "aaa111", "bbb222", "both33")
    make("soleur", "ccc444", "both33")


# --- what is offered --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ([""], ["sessions", "mcp", "trust", "completion"]),
        (["s"], ["sessions"]),
        (["sessions", ""], list(SESSIONS)),
        (["sessions", "re"], ["rename", "restore"]),
        (["sessions", "-"], ["--help"]),
        (["sessions", "ls", "--status", "i"], ["interrupted", "idle"]),
        (["sessions", "ls", "--"], ["--all", "--program", "--status", "--limit", "--json", "--help"]),
        (["sessions", "ls", "--l"], ["--limit"]),
        (["sessions", "ls", "--program", "s"], ["soleur", "sibyl"]),
        (["sessions", "ls", "--program=s"], ["--program=soleur", "--program=sibyl"]),
        (["sessions", "ls", "--limit", ""], []),
        (["sessions", "ls", ""], []),
        (["sessions", "search", "--role", ""], ["user", "assistant", "tool"]),
        (["sessions", "search", "word", "--role", "a"], ["assistant"]),
        (["sessions", "export", "x", "--to", "h"], ["html"]),
        (["sessions", "export", "x", "-o", "any"], [":files"]),
        (["sessions", "export", "x", "--output=any"], [":files"]),
        (["trust", ""], [":files"]),
        (["trust", "--"], ["--list", "--revoke", "--yes", "--json", "--help"]),
        (["mcp", ""], []),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["completion", "bash", ""], []),
        (["--pri"], ["--print"]),
        (["--ver"], ["--version"]),
        (["-p", "--mode", ""], ["text", "json"]),
        (["-p", "@R"], [":files"]),
        (["nothing", ""], [":files"]),
        (["sessions", "nothing", ""], []),
    ],
)
def test_commands_options_and_choices_are_offered(words, offered):
    """From the table that the command line itself is made of."""
    assert texts(*words) == offered


@pytest.mark.usefixtures("sessions")
@pytest.mark.parametrize(
    ("program", "words", "offered"),
    [
        ("soleur", ["s"], ["spar", "sessions"]),
        ("soleur", ["load", ""], ["both33", "ccc444"]),
        ("soleur", ["-s", "c"], ["ccc444"]),
        (
            "soleur",
            ["spar", "--"],
            ["--session", "--fresh", *CONTEXT, "--project", "--model", "--max-cost", "--help"],
        ),
        ("soleur", ["decisions", "--"], ["--project", "--tag", "--json", "--help"]),
        ("soleur", ["--fresh", ""], []),
        ("aur", [""], ["spawn"]),
        ("aur", ["--"], ["--version"]),
        ("aur", ["spawn", "--re"], ["--resume", "--recover"]),
        ("aur", ["spawn", "--list-sessions", "--status", ""], ["active", "completed", "interrupted"]),
        ("sibyl", ["--s"], ["--session-id"]),
        ("sibyl", ["--session-id", ""], ["session-20260131-090500-847291"]),
        ("sibyl", ["--v"], ["--version"]),
        ("sibyl", [""], []),
    ],
)
def test_the_other_programs_are_completed_from_their_own_tables(program, words, offered):
    """With the ids of their own sessions."""
    make("sibyl", "session-20260131-090500-847291")
    found = candidates(words[:-1], words[-1], TOP, program)
    assert sorted(each.text for each in found) == sorted(offered)


def test_mcp_servers_are_offered_by_their_names(home):
    """Those that no shell reads anything into."""
    (home / ".pi" / "agent").mkdir(parents=True)
    servers = {name: {"command": "x"} for name in ("files", "tracker", "a b", "$(x)")}
    (home / ".pi" / "agent" / "settings.json").write_text(json.dumps({"mcpServers": servers}))
    assert texts("mcp", "") == ["files", "tracker"]
    assert texts("mcp", "files", "t") == ["tracker"]


@pytest.mark.usefixtures("sessions")
def test_ids_are_offered_bare_where_that_is_enough():
    """With the program where two have the same, or where somebody began to type it."""
    assert texts("sessions", "show", "") == ["aaa111", "bbb222", "pi:both33", "soleur:both33", "ccc444"]
    assert texts("sessions", "show", "a") == ["aaa111"]
    assert texts("sessions", "show", "both") == []
    assert texts("sessions", "show", "pi:") == ["pi:aaa111", "pi:bbb222", "pi:both33"]
    assert texts("sessions", "show", "s") == ["soleur:both33", "soleur:ccc444"]
    assert texts("sessions", "show", "--tree", "c") == ["ccc444"]


@pytest.mark.usefixtures("sessions")
def test_ids_are_offered_where_a_verb_takes_one():
    """One for `show`, any number for `rm`, each once; behind `--` as well; none for a name."""
    assert texts("sessions", "show", "aaa111", "") == []
    assert texts("sessions", "rm", "aaa111", "pi:both33", "") == ["bbb222", "soleur:both33", "ccc444"]
    assert texts("sessions", "rm", "--", "a") == ["aaa111"]
    assert texts("sessions", "rename", "a") == ["aaa111"]
    assert texts("sessions", "rename", "aaa111", "") == []
    assert texts("sessions", "doctor", "--repair", "b") == ["bbb222"]


@pytest.mark.usefixtures("sessions")
def test_restore_is_offered_what_was_deleted():
    """And nothing else; `rm` is offered only what is left."""
    assert texts("sessions", "restore", "") == []
    SessionManager().delete_session("aaa111")
    assert texts("sessions", "restore", "") == ["aaa111"]
    assert texts("sessions", "restore", "pi:") == ["pi:aaa111"]
    assert "aaa111" not in texts("sessions", "rm", "")


@pytest.mark.parametrize(
    "name", ["$(touch x)", "a b", "a;b", "a'b", "-rf", "~", "a\nb", "a\x1b[31m", "*", "a|b"]
)
def test_an_id_that_a_shell_would_read_something_into_is_not_offered(home, name):
    """People name files as they like, and what is offered ends up on a command line."""
    folder = home / ".soleur" / "sessions"
    folder.mkdir(parents=True)
    (folder / "good-id.json").write_text("{}")
    (folder / f"{name}.json").write_text("{}")
    assert texts("sessions", "show", "") == ["good-id"]
    assert name not in texts("sessions", "show", name[:1])


# --- the program that is asked ----------------------------------------------------------------------------


def asked(*arguments: str, **options) -> str:
    answer = processes.run(
        [BIN / "perdure", "complete", *arguments], capture_output=True, text=True, timeout=60, **options
    )
    assert (answer.returncode, answer.stderr) == (0, "")
    return answer.stdout


@pytest.mark.usefixtures("sessions")
@pytest.mark.parametrize(
    ("line", "breaks", "offered"),
    [
        ("pi sess", ":=", "sessions\n"),
        ("pi  sessions   show a", ":=", "aaa111\n"),
        ("pi sessions show pi:a", ":=", "aaa111\n"),
        ("pi sessions show pi:a", "", "pi:aaa111\n"),
        ("pi sessions show 'pi:a", ":=", "pi:aaa111\n"),
        ('pi sessions show "pi:a', ":=", "pi:aaa111\n"),
        ("pi sessions export x --to=h", ":=", "html\n"),
        ("pi sessions export x --to=h", ":", "--to=html\n"),
        ("pi sessions export 'my file' -o ", ":=", ":files\n"),
        ("pi sessions search it\\'s --ro", ":=", "--role\n"),
        ("pi", ":=", ""),
        ("", ":=", ""),
    ],
)
def test_bash_gets_what_it_will_put_behind_its_last_break(line, breaks, offered):
    """The line is split as a shell does; what bash leaves in place is not given again."""
    assert asked("bash", line, breaks) == offered


def test_zsh_and_fish_get_what_a_candidate_means():
    """Behind a tab; and always whole candidates."""
    for shell in ("zsh", "fish"):
        assert asked(shell, "sessions", "sta") == f"stats\t{SESSIONS['stats'].summary}\n"
        assert asked(shell, "sessions", "export", "x", "--to=h") == "--to=html\n"


@pytest.mark.parametrize(
    "arguments",
    [[], ["bash"], ["bash", "x"], ["tcsh"], ["zsh"], ["bash", "pi 'a \"b", ":"], ["fish", "\udcff"]],
)
def test_a_question_that_makes_no_sense_is_answered_with_nothing(arguments):
    """Nobody wants to read an error while typing."""
    assert asked(*arguments) in ("", "sessions\ncompletion\n")


def test_homes_that_are_none_are_no_error(home, sessions):
    """A file where a folder should be, a directory that is gone."""
    for folder in (home / ".aurora" / "spawn" / "sessions", home / ".sibyl"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.write_text("no folder")
    assert asked("fish", "sessions", "show", "c") == "ccc444\n"
    assert asked("fish", "sessions", "restore", "") == ""
    assert asked("fish", "sessions", "show", "", env=os.environ | {"HOME": "/nowhere"}) == ""


# --- shells -----------------------------------------------------------------------------------------------

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "PS1='$ '; eval \"$(perdure completion bash)\""),
    "zsh": (["zsh", "-f", "-i"], "PS1='$ '; eval \"$(perdure completion zsh)\""),
    "fish": (
        ["fish", "--no-config", "--private"],
        "function fish_prompt; echo '$ '; end; perdure completion fish | source",
    ),
}


class Shell:
    """One that somebody types in, and its screen."""

    def __init__(self, name: str, home: Path) -> None:
        (command, *arguments), setup = SHELLS[name]
        bin = home / "bin"
        bin.mkdir(exist_ok=True)
        for program in ("pi", "perdure", "soleur", "sibyl", "aur"):
            if not (bin / program).exists():
                (bin / program).symlink_to(BIN / program)
        path = f"{bin}:/usr/local/bin:/usr/bin:/bin"
        settings = {"HOME": str(home), "PATH": path, "TERM": "xterm", "LANG": "C.UTF-8"}
        self._child = pexpect.spawn(
            command, arguments, encoding="utf-8", cwd=home, dimensions=(24, 150), env=settings
        )
        self._screen = pyte.Screen(150, 24)
        self._stream = pyte.Stream(self._screen)
        self._child.send(f"{setup}\r")
        self.sees("$ ")

    def __enter__(self) -> "Shell":
        return self

    def __exit__(self, *exception: object) -> None:
        self._child.close(force=True)

    def types(self, keys: str) -> None:
        self._child.send(keys)

    def sees(self, line: str) -> None:
        """Waits until this stands left of the cursor."""
        self._wait(lambda: self._screen.display[self._screen.cursor.y][: self._screen.cursor.x] == line)

    def sees_somewhere(self, *texts: str) -> None:
        """Waits until all of these are on the screen."""
        self._wait(lambda: all(text in "\n".join(self._screen.display) for text in texts))

    def _wait(self, is_so: Callable[[], bool]) -> None:
        end = time.monotonic() + 20
        while not is_so() and time.monotonic() < end:
            try:
                self._stream.feed(self._child.read_nonblocking(4096, 0.2))
            except pexpect.TIMEOUT:
                pass
        assert is_so(), "\n".join(line.rstrip() for line in self._screen.display).rstrip()


@pytest.fixture(
    params=[pytest.param(name, marks=needs_tool(name)) for name in SHELLS],
)
def shell(request, home, sessions):
    with Shell(request.param, home) as shell:
        yield shell


KILL_LINE = "\x15"


def test_a_shell_completes_at_tab(shell, home):
    """Commands, verbs, options, choices, ids with and without program, quoted, deleted, and names of files;
    both names of the program, and a path to it."""
    (home / "some-file.md").write_text("x")
    SessionManager().delete_session("bbb222")
    for typed, completed in [
        ("pi se", "pi sessions "),
        ("perdure comp", "perdure completion "),
        ("pi completion z", "pi completion zsh "),
        ("pi sessions exp", "pi sessions export "),
        ("pi sessions ls --lim", "pi sessions ls --limit "),
        ("pi sessions ls --program so", "pi sessions ls --program soleur "),
        ("pi sessions export x --to=au", "pi sessions export x --to=aurora "),
        ("pi sessions show aa", "pi sessions show aaa111 "),
        ("pi sessions show pi:a", "pi sessions show pi:aaa111 "),
        ("pi sessions show soleur:b", "pi sessions show soleur:both33 "),
        ('pi sessions show "pi:a', 'pi sessions show "pi:aaa111" '),
        ("pi sessions rm ccc444 aa", "pi sessions rm ccc444 aaa111 "),
        ("pi sessions restore b", "pi sessions restore bbb222 "),
        ("pi sessions export aaa111 -o some", "pi sessions export aaa111 -o some-file.md "),
        ("true; pi sessions doc", "true; pi sessions doctor "),
        ("bin/pi sessions sea", "bin/pi sessions search "),
        ("pi sessions search naïve --ro", "pi sessions search naïve --role "),
        ("soleur load cc", "soleur load ccc444 "),
        ("bin/sibyl --auto", "bin/sibyl --auto-save-interval "),
    ]:
        shell.types(f"{KILL_LINE}{typed}\t")
        shell.sees(f"$ {completed}")


def test_a_shell_lists_what_there_is(shell, request):
    """Where more than one would do, all are shown; by zsh and fish with their meanings."""
    shell.types("pi sessions re\t\t")
    shell.sees_somewhere("rename", "restore")
    if request.node.callspec.params["shell"] != "bash":
        shell.sees_somewhere(*(SESSIONS[verb].summary for verb in ("rename", "restore")))


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs_tool(name)) for name in SHELLS])
def test_the_script_is_right_for_its_shell(name):
    """The shell itself finds no fault with it, and it ends with a line break."""
    script = processes.run(
        [BIN / "pi", "completion", name], capture_output=True, text=True, check=True
    ).stdout
    assert script.endswith("\n")
    checked = processes.run([name, "-n"], input=script, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


@needs_tool("zsh")
def test_zsh_may_keep_the_script_in_a_file(home, sessions):
    """A function of `$fpath`, as packages install it, works from its first call on."""
    folder = home / "functions"
    folder.mkdir()
    script = processes.run([BIN / "pi", "completion", "zsh"], capture_output=True, text=True, check=True)
    (folder / "_perdure").write_text(script.stdout)
    with Shell("zsh", home) as shell:
        shell.types("exec zsh -f -i\r")
        shell.types("PS1='> '; fpath=(~/functions $fpath); autoload -Uz compinit; compinit -u -D\r")
        shell.sees("> ")
        for _ in range(2):
            shell.types(f"{KILL_LINE}pi sessions show pi:a\t")
            shell.sees("> pi sessions show pi:aaa111 ")


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs_tool(name)) for name in SHELLS])
def test_another_program_called_pi_is_never_run(name, home):
    """It would take the question for a prompt: what is asked is `perdure`, which nobody else is called."""
    (home / "bin").mkdir()
    (home / "other").mkdir()
    for folder in ("bin", "other"):
        other = home / folder / "pi"
        other.write_text('#!/bin/sh\ntouch "$HOME/was-run"\n')
        other.chmod(0o755)
    with Shell(name, home) as shell:
        shell.types("pi sessions sho\t")
        shell.sees("$ pi sessions show ")
        shell.types(f"{KILL_LINE}other/pi sessions sho\tx")
        shell.sees("$ other/pi sessions shox")
    assert not (home / "was-run").exists()
