"""The README's tour of `pi sessions`, typed at a terminal of 80 columns: what it shows is what you see."""

import json
import os
import re
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pexpect
import pytest

from perdure.front.commands import SESSIONS
from perdure.session.entry import Entry, placed
from perdure.session.ids import stamp
from perdure.session.stores import Header, open_store
from tests import processes
from tests.agent.models.wire_server import events, wire_server
from tests.front import one_prompt
from tests.front.terminal import Terminal
from tests.programs.workspaces import GIT_CONFIG

__all__ = ["wire_server"]

pytestmark = pytest.mark.process

ROOT = Path(__file__).parent.parent
PROMPT = "READY> "
TALKS = {  # program: id, age in hours, facts, what was said
    "pi": (
        "5f0c1b9a7e42",
        2,
        {},
        [
            ("user", "Why is the login test flaky?"),
            ("assistant", "It races the token refresh: two requests refresh at once, and one is refused."),
        ],
    ),
    "aurora": (
        "session-3f9c07d21ab4",
        26,
        {"agent": "qa-test", "status": "completed"},
        [("user", "Review the login flow"), ("assistant", "Two findings, both in the session cookie.")],
    ),
    "soleur": (
        "8c2e4f10-7e42-4c1d-9a6b-2f3e4d5c6b7a",
        75,
        {},
        [("user", "Should we charge per seat?"), ("assistant", "What did the last ten customers say?")],
    ),
    "sibyl": (
        "session-20260131-090500-847291",
        200,
        {},
        [("user", "Summarise the paper on write-ahead logs"), ("assistant", "It makes three claims.")],
    ),
    "cortext": (
        "2025-11-22/001-brainstorm-api-design",
        400,
        {"title": "API design", "conversation_type": "brainstorm", "status": "paused"},
        [("user", "Let us think about the API"), ("assistant", "Who calls it, and how often?")],
    ),
}


@pytest.fixture
def machine(home, monkeypatch):
    """A user who has talked in all five programs."""
    project = home / "api-server"
    workspace = home / "notes"
    (workspace / ".workspace").mkdir(parents=True)
    (home / ".cortext").mkdir()
    (home / ".cortext" / "workspaces").write_text(f"{workspace}\n")
    project.mkdir()
    for program, (id, age, facts, said) in TALKS.items():
        moment = datetime.now(UTC) - timedelta(hours=age, minutes=5)
        entries: list[Entry] = []
        for number, (role, text) in enumerate(said):
            parent = entries[-1].id if entries else None
            made = placed(
                Entry.message(role, text), id=f"{number + 1:012x}", parent_id=parent, timestamp=stamp(moment)
            )
            entries.append(made)
        store = open_store(program, str(workspace) if program == "cortext" else None)
        store.create(Header(id, stamp(moment), str(project), facts=facts), entries)
    (project / "auth.py").write_text("def refresh_token(session):\n    return session.expires\n")
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return project


def test_the_readmes_conversation_is_what_a_user_sees(machine):
    """Typed at a real terminal, of 80 columns; only the id is another one."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"^## Talk\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    (shown,) = re.findall(r"```console\n(.*?)```", section, re.DOTALL)
    with Terminal("sh", cwd=machine, env={**os.environ, "PS1": "$ "}, rows=50) as terminal:
        terminal.until("$")
        terminal.send("pi\r")
        terminal.until("offline/offline")
        for typed, answer in (
            ("where is refresh_token", "No other line"),
            ("!grep -c expires auth.py", "! grep -c"),
            ("/name token refresh", "is called"),
        ):
            terminal.send(f"{typed}\r")
            terminal.until(answer)
            terminal.until(lambda: "Esc stops it" not in "\n".join(terminal.screen))
        terminal.keys("c-d")
        terminal.until("Resume: ")
        terminal.until(lambda: terminal.screen[: len(shown.splitlines()) + 1][-1] == "$")
        seen = "\n".join(terminal.screen[: len(shown.splitlines())]) + "\n"
    id = re.compile(r"--session [0-9a-f]{12}$", re.MULTILINE)
    assert id.sub("--session ID", seen) == id.sub("--session ID", shown)


TRANSCRIPTS = {
    "Spar": (
        [
            "Everything here rests on one assumption: that a team of ten pays for what a spreadsheet does "
            "today. Who has paid you, and how much?",
            "[DECISION: We charge 20 dollars a seat.]\n\n"
            "Three is a start. What did the teams say who did not pay?",
        ],
        [
            ("soleur", "[Y/n]"),
            ("y", "how much?"),
            ("Three teams did, 20 dollars a seat. So that is the price.", "Decided: "),
            ("", "Resume: "),
            ("soleur decisions", "Auto"),
        ],
    ),
    "A REPL that saves itself": (
        ["A token that two requests refresh at once: the second one is refused."],
        [
            ("sibyl", "custom/test"),
            ("why is the login test flaky?", "refused."),
            ("/reset", "From here on"),
            ("/sessions", "MESSAGES"),
            ("", "Resume with: "),
        ],
    ),
    "Spawn an agent": (
        ["Two findings, both in the session cookie: it never expires, and it is sent over HTTP."],
        [
            ("aur spawn --agent qa-test", "custom/test"),
            ("review the login flow", "HTTP."),
            ("/clear", "From here on"),
            ("", "Resume: "),
            ("aur spawn --list-sessions", "1 session"),
        ],
    ),
    "Work in a workspace": (
        [
            "REST is simpler to cache and to debug. Does any client need many shapes of the same data?",
            "REST or GraphQL for internal APIs; leaning toward REST.",
        ],
        [
            ("cortext init", "What to build"),
            ("cortext start brainstorm API design", "custom/test"),
            ("REST or GraphQL, for internal APIs?", "same data?"),
            ("/workspace.stop-conversation", "Resume: cortext"),
            ("", "$"),
            ("cortext resume --list", "just now"),
        ],
    ),
}
"""What a model says, what is typed and what then comes; nothing typed is Ctrl+D."""
WITHOUT_AN_EDITOR = ("soleur", "aur spawn --list", "cortext init", "cortext resume", "/workspace.stop")


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_the_readmes_transcripts_of_the_other_programs_are_what_a_user_sees(name, machine, wire_server):
    """Typed at a real terminal, of 80 columns; only ids and times are others."""
    for program in ("soleur", "sibyl", "aurora"):  # the sessions of the tour
        shutil.rmtree(machine.parent / f".{program}")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (section,) = re.findall(rf"^## {name}\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    (shown,) = re.findall(r"```console\n(.*?)```", section, re.DOTALL)
    answers, steps = TRANSCRIPTS[name]
    if "README.md" in shown:
        about = "# Ledgerly\n\nBookkeeping that teams of ten pay for by the seat.\n"
        (machine / "README.md").write_text(about)
    (machine.parent / ".gitconfig").write_text(GIT_CONFIG)
    (machine.parent / ".aurora" / "agents").mkdir(parents=True)
    (machine.parent / ".aurora" / "agents" / "qa-test.md").write_text("You review changes.")
    wire_server.script(*(events(one_prompt.said(answer)) for answer in answers))
    one_prompt.Pi(machine.parent, machine).use(wire_server)
    with Terminal("sh", cwd=machine, env={**os.environ, "PS1": "$ "}, rows=50) as terminal:
        terminal.until("$")
        for typed, answer in steps:
            if typed:
                terminal.send(f"{typed}\r")
            else:
                terminal.keys("c-d")
            terminal.until(answer)
            if typed in ("", "cortext init"):
                terminal.until(lambda: [line for line in terminal.screen if line][-1] == "$")
            if typed and not typed.startswith(WITHOUT_AN_EDITOR):
                terminal.until("custom/test")  # the foot, and with it the editor
            terminal.until(lambda: "Esc stops it" not in "\n".join(terminal.screen))
        terminal.until(lambda: terminal.screen[: len(shown.splitlines()) + 1][-1] == "$")
        seen = "\n".join(terminal.screen[: len(shown.splitlines())]) + "\n"
    varying = re.compile(
        r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{8}-\d{6}-\d{6}|\d{4}-\d\d-\d\d \d\d:\d\d"
        r"|session-[0-9a-f]{6}(?:[0-9a-f]{6})?\b(?!-)|\d{4}-\d\d-\d\d/|Committed [0-9a-f]{10}"
    )
    assert varying.sub("…", seen) == varying.sub("…", shown)


def test_the_readmes_questions_are_answered(machine):
    """By the model that is always there, in a repository."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"^## Ask once\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    questions, models = re.findall(r"```console\n(.*?)```", section, re.DOTALL)
    commands = re.findall(r"^\$ (.*)$", questions, re.MULTILINE)
    assert len(commands) == 5
    processes.run(["git", "init", "-q"], cwd=machine, check=True)
    printed = []
    for command in commands:
        done = processes.run_typed(command, capture_output=True, text=True, cwd=machine)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        assert done.stdout or ">" in command, command
        printed.append(done.stdout)
    assert "auth.py" in printed[0]
    command, _, shown = models.removeprefix("$ ").partition("\n")
    listed = processes.run_typed(command, capture_output=True, text=True, cwd=machine, check=True)
    assert listed.stdout == shown


def tour() -> list[tuple[str, str]]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (section,) = re.findall(r"^## Find anything\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    found = []
    for block in re.findall(r"```console\n(.*?)```", section, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            found.append((command, shown))
    return found


def typed(machine: Path) -> list[tuple[str, str]]:
    environment = {**os.environ, "PS1": PROMPT, "TERM": "dumb", "PAGER": "cat"}
    environment.pop("PROMPT_COMMAND", None)
    shell = pexpect.spawn(
        "sh", [], env=environment, dimensions=(60, 80), encoding="utf-8", echo=False, timeout=30, cwd=machine
    )
    shell.expect_exact(PROMPT)
    seen = []
    for command, _ in tour():
        shell.sendline(command)
        shell.expect_exact(PROMPT)
        seen.append((command, shell.before.replace("\r\n", "\n")))
    shell.close(force=True)
    return seen


def test_the_tour_shows_what_a_user_sees(machine):
    """Every command of it, in order, against the same home."""
    commands = [command.split()[2] for command, _ in tour() if command.startswith("pi sessions")]
    assert {"ls", "search", "show", "export", "rm", "trash", "restore", "doctor"} <= {*commands}
    new = re.compile(r"^aurora:session-[0-9a-f]{12}$", re.MULTILINE)  # an id nobody can foresee
    for (command, seen), (_, shown) in zip(typed(machine), tour(), strict=True):
        assert new.sub("aurora:NEW", seen) == new.sub("aurora:NEW", shown), command


def test_every_command_of_the_command_lines_page_runs(machine):
    """In order, in one home. Most say something; none fails."""
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    commands = re.findall(r"^\$ (.*)$", page, re.MULTILINE)
    verbs = {command.split()[2] for command in commands if command.startswith("pi sessions ")}
    assert verbs == {*SESSIONS}
    for command in commands:
        answer = "y\n" if command == "pi trust" else None
        done = processes.run_typed(command, capture_output=True, text=True, cwd=machine, input=answer)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        assert done.stdout or done.stderr or ">" in command, command
    assert (machine / "talk.md").read_text().startswith("# ")
    assert (machine / "talk" / ".session" / "messages.jsonl").is_file()


@pytest.mark.parametrize("program", ["soleur", "cortext"])  # one file a session, and a folder
def test_the_same_holds_for_sessions_of_other_programs(program, machine):
    """Found, searched, shown, exported, deleted and restored, with what the README says."""

    def pi(*words: str) -> str:
        command = ["pi", "sessions", *words]
        return processes.run(command, capture_output=True, text=True, check=True, cwd=machine).stdout

    id, _, _, said = TALKS[program]
    called = f"{program}:{id}"
    assert id in pi("ls", "--all")
    word = re.findall(r"[a-z]{5,}", said[1][1])[-1]
    assert called in pi("search", "--all", word)
    for _, text in said:
        assert text in pi("show", called)
        assert text in pi("export", called, "--to", "html")
        assert text in pi("export", called, "--to", "md")
    pi("rm", called)
    assert id not in pi("ls", "--all")
    assert [each["id"] for each in json.loads(pi("trash", "--json"))] == [id]
    pi("restore", called)
    assert id in pi("ls", "--all")
    assert "all is well" in pi("doctor")
