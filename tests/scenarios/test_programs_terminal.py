"""`soleur`, `sibyl` and `aur` at a terminal and through pipes: what all promise; how soleur's talks look."""

import ast
import json
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from perdure.front.visible import width
from perdure.session.session import Session
from perdure.session.stores import open_store
from perdure.testing import assistant_entry, user_entry
from tests import processes
from tests.agent.models.wire_server import HANG, READ, events, wire_server
from tests.front.one_prompt import HALF_A_LINE
from tests.front.shell_terminal import (
    edited,
    hang_up,
    is_given_back,
    say,
    streamed,
    text_of,
    until_edited,
    until_idle,
)
from tests.front.terminal import Terminal, Tmux
from tests.needs import needs_tool
from tests.programs.sibyl_talks import fill_disk, free_disk
from tests.programs.started import (
    MAINS,
    MODEL,
    SCRIPTS,
    Program,
    aur,
    document,
    first_on_path,
    prompts_of,
    sibyl,
    soleur,
)
from tests.programs.workspaces import Cortext, cortext

__all__ = ["aur", "cortext", "sibyl", "soleur", "wire_server"]

pytestmark = pytest.mark.process

CONTROL = re.compile(rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")
COMMANDS = {
    "soleur": [
        "autorecord",
        "context",
        "decide",
        "decisions",
        "detach",
        "help",
        "load",
        "model",
        "new",
        "quit",
        "save",
        "sessions",
        "start",
        "undecide",
    ],
    "sibyl": ["help", "load", "model", "quit", "reset", "save", "sessions"],
    "aur": ["agent", "clear", "exit", "export", "help", "history", "import", "model", "save", "stats"],
}
RESUME = "Resume last session? [Y/n]"
README = "Load README.md as project context? [Y/n]"


@pytest.fixture
def pi(home: Path) -> Program:
    return Program("pi", home, home / "work")


@pytest.fixture(params=["soleur", "sibyl", "aur"])
def program(request) -> Program:
    found: Program = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def gate(wire_server):
    """What `streamed` waits for; open when the test is over."""
    event = threading.Event()
    yield event
    event.set()


def fresh(program: Program) -> list[str]:
    """What begins a new session, and asks nothing."""
    return {"soleur": ["--fresh"], "aur": ["spawn"], "cortext": ["start", "plan", "Ship it"]}.get(
        program.name, []
    )


def lines_of(terminal: Terminal) -> list[str]:
    return [line for line in terminal.scrollback if line]


def resume_command(out: str) -> str:
    return re.sub(r"^Resume(?: with)?: ", "", out.rstrip().splitlines()[-1])


def kept(program: Program) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in program.files}


# --- leaving while something is not saved -----------------------------------------------------------------

LOST = "Leave and lose it?"


@pytest.fixture(params=["soleur", "sibyl", "aur", "pi", "cortext"])
def each_program(request) -> Program:
    found: Program = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("way", ["command", "c-d"])
def test_sib_14_who_leaves_on_purpose_while_an_answer_is_not_saved_is_asked(
    each_program, wire_server, gate, way
):
    """Enter stays, and so does n; yes leaves, with 1. Where there is room again, nobody is asked."""
    program = each_program

    def leave() -> None:
        if way == "c-d":
            terminal.keys("c-d")
        else:
            say(terminal, "/exit" if program.name in ("aur", "cortext") else "/quit")

    program.answers(wire_server, "one", streamed("tw", gate, "o"))
    with program.terminal(*fresh(program), rows=60) as terminal:
        terminal.until("custom/test")
        say(terminal, "hello")
        terminal.until("one")
        until_idle(terminal)
        say(terminal, "and?")
        terminal.until("tw")
        fill_disk(terminal)
        gate.set()
        terminal.until("Not saved")
        until_idle(terminal)
        leave()
        terminal.until(lambda: times_asked(terminal) == 1)
        say(terminal, "")
        until_idle(terminal)
        leave()
        terminal.until(lambda: times_asked(terminal) == 2)
        say(terminal, "y")
        assert terminal.wait() == 1
    assert texts_in_newest(program) == ["hello", "one", "and?"]
    with program.terminal(*resume_words(program), rows=60) as terminal:
        terminal.until("custom/test")
        gate.clear()
        say(terminal, "and now?")
        terminal.until("tw")
        fill_disk(terminal)
        gate.set()
        terminal.until("Not saved")
        until_idle(terminal)
        free_disk(terminal)
        leave()
        assert terminal.wait() == 0
        assert times_asked(terminal) == 0
    assert texts_in_newest(program)[-2:] == ["and now?", "two"]


def test_sib_14_who_leaves_with_ctrl_d_is_asked_at_a_terminal_without_a_screen_too(sibyl, wire_server, gate):
    """A second Ctrl+D, at the question, leaves: of a terminal that is gone no more than that is read."""
    sibyl.answers(wire_server, "one", streamed("tw", gate, "o"))
    with sibyl.terminal(kind="dumb", rows=60) as terminal:
        terminal.until("sibyl[0]>")
        say(terminal, "hello")
        terminal.until("sibyl[1]>")
        say(terminal, "and?")
        terminal.until(lambda: len(wire_server.requests) == 2)
        fill_disk(terminal)
        gate.set()
        terminal.until("Not saved")
        terminal.until("sibyl[2]>")
        for number in (1, 2):
            terminal.keys("c-d")
            terminal.until(lambda number=number: times_asked(terminal) == number)
            if number == 1:
                say(terminal, "n")
                terminal.until(lambda: text_of(terminal).count("sibyl[2]>") == 2)
        terminal.keys("c-d")
        assert terminal.wait() == 1


def times_asked(terminal: Terminal) -> int:
    """However long the path is in the question, which is wrapped."""
    return " ".join(text_of(terminal).split()).count(LOST)


def texts_in_newest(program: Program) -> list[str]:
    if isinstance(program, Cortext):
        entries = program.store.read(program.refs[-1]).entries
        return [entry.text for entry in entries if entry.type == "message"]
    return [text for _, text in program.said()]


def resume_words(program: Program) -> list[str]:
    """What goes on with the session, or begins the next."""
    match program.name:
        case "sibyl":
            return ["--session-id", program.files[0].parent.name]
        case "soleur":
            return ["-s", program.files[0].stem]
        case "aur":
            return ["spawn", "--resume", program.files[0].stem]
        case "cortext":  # whose partner speaks first in one that is resumed
            return ["start", "plan", "Another"]
    return ["--continue"]


# --- soleur at a terminal -------------------------------------------------------------------------------


def test_sol_08_sol_09_at_a_terminal_the_question_is_typed_at(soleur, wire_server):
    """What is neither yes nor no is asked again; Enter goes on, and n begins another session."""
    soleur.answers(wire_server, "Whom did you ask, and what did they say about paying twenty dollars for it?")
    soleur.run("--fresh", stdin="Should we charge per seat?\n")
    id = document(soleur.files[0])["id"]
    with soleur.terminal() as terminal:
        terminal.until(RESUME)
        head, preview, question, *rest = terminal.screen
        assert re.fullmatch(rf"{id}  \d{{4}}-\d\d-\d\d \d\d:\d\d  acme", head)
        assert preview == "  Whom did you ask, and what did they say about payi…"
        assert (question, {*rest}) == (RESUME, {""})
        say(terminal, "perhaps")
        terminal.until(lambda: text_of(terminal).count(RESUME) == 2)
        terminal.keys("enter")
        terminal.until("Resumed: 2 messages")
        terminal.until("custom/test · 0.1% of 8k")
        assert lines_of(terminal)[2:] == [
            f"{RESUME} perhaps",
            RESUME,
            "> Should we charge per seat?",
            "Whom did you ask, and what did they say about paying twenty dollars for it?",
            "Resumed: 2 messages, with custom/test",
            ">",
            f"custom/test · 0.1% of 8k · {id[:8]} · ~/acme",
        ]
        say(terminal, "/quit")
        assert terminal.wait() == 0
        assert is_given_back(terminal)
    with soleur.terminal() as terminal:
        terminal.until(RESUME)
        say(terminal, "n")
        terminal.until("Soleur, of Perdure")
        terminal.until(MODEL)
        terminal.keys("c-d")
        assert terminal.wait() == 0
        assert "Resume: " not in text_of(terminal)
    assert len(soleur.files) == 1


@pytest.mark.parametrize(
    ("leave", "code"),
    [
        pytest.param(lambda terminal: terminal.keys("c-d"), 0, id="Ctrl+D"),
        pytest.param(lambda terminal: terminal.keys("c-c"), 130, id="Ctrl+C"),
        pytest.param(lambda terminal: terminal.kill(signal.SIGTERM), 143, id="SIGTERM"),
        pytest.param(hang_up, 129, id="closed"),
    ],
)
def test_sol_08_sol_11_g_7_who_leaves_at_a_question_changes_nothing(soleur, wire_server, leave, code):
    """At either: no session is made, none is changed, and what is said of it has a line of its own."""
    with Session.create(open_store("soleur")) as session:
        session.append(user_entry("hello"), assistant_entry("ok"))
    (soleur.project / "README.md").write_text("# Acme")
    before = kept(soleur)
    for words, question in (([], RESUME), (["--fresh"], README)):
        with soleur.terminal(*words) as terminal:
            terminal.until(question)
            leave(terminal)
            assert terminal.wait() == code
            told = lines_of(terminal)
            assert told[-1] == ("soleur: Stopped" if code > 0 and leave is not hang_up else question)
        assert kept(soleur) == before
    assert wire_server.requests == []


def test_sol_11_sol_12_a_talk_at_80_columns(soleur, wire_server, gate):
    """The partner begins by itself, and its user types meanwhile. Every line as it is to be seen, once."""
    (soleur.project / "README.md").write_text("# Acme\n\nShovels as a service.\n")
    (soleur.project / "plans").mkdir()
    (soleur.project / "plans" / "plan.md").write_text("We rent shovels.\n")
    soleur.answers(
        wire_server,
        streamed("The riskiest assumption is that **gardeners** ", gate, "rent.\n\nWho did?"),
        "Noted.\n\n[DECISION: We charge per seat, 20 dollars a month.]\n\nWho pays?",
        "And the plan?",
    )
    with soleur.terminal() as terminal:
        terminal.until(README)
        terminal.keys("enter")
        terminal.until("gardeners")
        terminal.send("Per seat.")
        until_edited(terminal, "Per seat.")
        gate.set()
        terminal.until("Who did?")
        until_idle(terminal)
        assert edited(terminal) == "Per seat."
        terminal.keys("enter")
        terminal.until("Decided: ")
        until_idle(terminal)
        id = document(soleur.files[0])["id"]
        assert terminal.screen[:17] == [
            README,
            "Soleur, of Perdure 0.1.0. /help says what can be typed here.",
            "Attached: README.md, 30 B. It is in every prompt from now on.",
            "",
            "The riskiest assumption is that gardeners rent.",
            "",
            "Who did?",
            "",
            "> Per seat.",
            "",
            "Noted.",
            "",
            "[DECISION: We charge per seat, 20 dollars a month.]",
            "",
            "Who pays?",
            "",
            "Decided: We charge per seat, 20 dollars a month.",
        ]
        assert re.search(rb"\x1b\[32mDecided: [^\x1b]*\x1b\[m", terminal.raw)

        say(terminal, "/decide Only in Europe, before we have a hundred customers there. #market #plan")
        terminal.until("customers there. #market #plan")
        until_idle(terminal)
        say(terminal, "/decisions")
        terminal.until(" " * 29 + "there. #market #plan\n>")
        *_, project, head, first, second, third, _, status = lines_of(terminal)
        assert project == "acme"
        columns = [head.index(name) for name in ("DATE", "HOW", "DECISION")]
        rows = [
            [line[at:end].rstrip() for at, end in zip(columns, [*columns[1:], None], strict=True)]
            for line in (first, second, third)
        ]
        assert [row[1:] for row in rows] == [
            ["Auto", "We charge per seat, 20 dollars a month."],
            ["Manual", "Only in Europe, before we have a hundred customers"],
            ["", "there. #market #plan"],
        ]
        assert status.endswith(f" of 8k · {id[:8]} · ~/acme")

        for typed, completed in (("/context pl", "plans/"), ("pl", "plans/plan.md")):
            terminal.send(typed)
            terminal.until(f"            {completed}")
            terminal.keys("tab")
            terminal.until(f"> /context {completed}\n")
        terminal.keys("enter")
        terminal.until("Attached: plan.md, 17 B.")
        terminal.send("/load ")
        terminal.until(f" {id}")
        terminal.keys("c-u")
        until_edited(terminal, "")
        say(terminal, "/autorecord off")
        terminal.until("Decisions in answers are not recorded.")
        terminal.keys("c-o")  # there is no tool whose result could be shown
        say(terminal, "/help")
        terminal.until("@FILE")
        shown = "\n".join(lines_of(terminal))
        assert re.findall(r"^/(\w+)", shown, re.MULTILINE) == COMMANDS["soleur"]
        assert "/expand" not in shown
        terminal.keys("c-d")
        assert terminal.wait() == 0
        assert is_given_back(terminal)
        assert lines_of(terminal)[-1] == f"Resume: soleur load {id}"
        for once in ("gardeners rent.", "> Per seat.", "Decided: We charge", "Attached: README.md", "Noted."):
            assert shown.count(once) == 1, shown


def test_sol_11_g_6_the_opening_can_be_stopped_and_the_talk_goes_on(soleur, wire_server, gate):
    """By Esc, or by Ctrl+C, which leaves when it is pressed twice: what arrived is kept, marked."""
    (soleur.project / "README.md").write_text("# Acme")
    soleur.answers(
        wire_server, streamed("The riskiest ", gate), "Who pays?", streamed("Half [DECISION: of", gate)
    )
    with soleur.terminal() as terminal:
        terminal.until(README)
        terminal.keys("enter")
        terminal.until("The riskiest")
        say(terminal, "/decisions")  # also while it works
        terminal.until("No decisions recorded yet")
        terminal.keys("escape")
        terminal.until("Interrupted")
        until_idle(terminal)
        (opened,) = document(soleur.files[0])["messages"]
        assert (opened["role"], opened["content"], opened["interrupted"]) == (
            "assistant",
            "The riskiest ",
            True,
        )
        say(terminal, "Go on.")
        terminal.until("Who pays?")
        until_idle(terminal)
        say(terminal, "Nobody.")
        terminal.until("Half [DECISION")
        terminal.keys("c-c", "c-c")
        assert terminal.wait() == 130
        assert is_given_back(terminal)
    messages = document(soleur.files[0])["messages"]
    assert [(each["content"], "interrupted" in each) for each in messages] == [
        *(("The riskiest ", True), ("Go on.", False), ("Who pays?", False)),
        *(("Nobody.", False), ("Half [DECISION: of", True)),
    ]
    assert document(soleur.files[0])["decisions"] == []
    assert prompts_of(wire_server, 1)[-2:] == [("assistant", "The riskiest "), ("user", "Go on.")]


@pytest.mark.parametrize("columns", [80, 40, 26, 24])
def test_sol_12_at_a_terminal_a_decision_is_shown_to_its_end(soleur, columns):
    """Also one without blanks, in letters of any width, however narrow it is; and the tags beside it."""
    texts = ["漢字" * 60, f"See https://example.com/{'path/' * 30} for why", "Short."]
    place = soleur.home / ".soleur" / "decisions" / "acme.md"
    place.parent.mkdir(parents=True)
    place.write_text("".join(f"- [2026-01-31 09:05] [Manual] [plan] {text}\n" for text in texts))
    with soleur.terminal("decisions", columns=columns) as terminal:
        assert terminal.wait() == 0
        assert all(width(row) <= columns for row in lines_of(terminal))
        project, *rows = (line for line in lines_of(terminal) if not line.startswith("DATE"))
    shown = "".join(re.sub(r"^2026-01-31 \d\d:05  Manual", "", row) for row in rows)
    assert project == "acme"
    assert shown.replace(" ", "") == "".join(f"{text}#plan" for text in texts).replace(" ", "")


def test_sol_05_sol_06_sol_07_sol_10_at_a_terminal_sessions_are_listed_loaded_and_saved(soleur, wire_server):
    """And what is refused is one line. The session that was begun, and in which nothing was said, is gone."""
    soleur.answers(wire_server, "ok")
    with soleur.terminal("--fresh") as terminal:
        terminal.until(MODEL)
        say(terminal, "/sessions")
        terminal.until("No saved sessions found\n")
        until_idle(terminal)
        say(terminal, "/save")
        terminal.until("\nThere is nothing to save yet; say something first\n")
        until_idle(terminal)
        say(terminal, "/context plan.md")
        terminal.until("\nCannot attach plan.md: there is no such file; name a text file")
        until_idle(terminal)
        with Session.create(open_store("soleur", cwd=str(soleur.project))) as session:
            session.append(user_entry("Who pays?"), assistant_entry("漢字 " * 30))
        say(terminal, "/sessions")
        terminal.until("LAST MESSAGE")
        until_idle(terminal)
        head, row = lines_of(terminal)[-4:-2]
        assert head.split() == ["ID", "CREATED", "PROJECT", "LAST", "MESSAGE"]
        assert re.fullmatch(rf"{session.id[:8]}  \d{{4}}-\d\d-\d\d \d\d:\d\d  acme     (漢字 )+漢?…", row)
        assert width(row) in (79, 80)

        say(terminal, f"/load {session.id[:8]}")
        terminal.until("Resumed: 2 messages, with custom/test")
        assert "> Who pays?" in text_of(terminal)
        until_idle(terminal)
        say(terminal, "/save")
        terminal.until(f"Session saved: {session.id}\n~/.soleur/sessions/{session.id}.json\n")
        terminal.keys("c-d")
        assert terminal.wait() == 0
        assert lines_of(terminal)[-1] == f"Resume: soleur load {session.id}"
    assert [path.stem for path in soleur.files] == [session.id]
    assert wire_server.requests == []


def test_g_7_a_session_in_which_nothing_was_said_leaves_no_lock(program):
    """However often the program is started: what stays are locks that are not a session's."""
    for _ in range(2):
        assert program.within(*fresh(program)).code == 0
    assert program.files == []
    assert [path for path in program.home.rglob("*.lock") if not path.stem.endswith("~")] == []


def test_g_4_each_id_of_the_list_at_a_terminal_is_enough_to_load_its_session(soleur, wire_server):
    """As short as it is shown: of two that begin alike, as much as tells them apart."""
    soleur.answers(wire_server, "ok")
    ids = [f"{start}-4000-8000-000000000000" for start in ("aaaaaaaa-1111", "aaaaaaaa-1122", "bbbbbbbb-1111")]
    for id in ids:
        with Session.create(open_store("soleur")) as session:
            session.append(user_entry("hello"))
        path = Path(session.ref.path)
        path.with_name(f"{id}.json").write_text(path.read_text().replace(session.id, id))
        path.unlink()
    with soleur.terminal("sessions") as terminal:
        assert terminal.wait() == 0
        _, *rows = lines_of(terminal)
    shown = [row.split()[0] for row in rows]
    assert sorted(shown) == ["aaaaaaaa-111", "aaaaaaaa-112", "bbbbbbbb"]
    assert [soleur.within("load", each).out.split()[-1] for each in sorted(shown)] == ids


@needs_tool("tmux")
def test_sol_12_in_tmux_each_line_is_there_once(soleur, wire_server, monkeypatch):
    """Of a talk that is longer than the screen."""
    monkeypatch.setenv("TERM", "screen-256color")
    monkeypatch.setenv("PATH", first_on_path())
    points = [f"- point {number:02} of what you said" for number in range(1, 31)]
    soleur.answers(wire_server, "\n".join(points) + "\n\n[DECISION: We go.]\n\nWhy now?")
    with Tmux(*soleur.command, "--fresh", cwd=soleur.project, env={**os.environ}) as tmux:
        tmux.until(MODEL)
        tmux.send("Everything")
        tmux.send_keys("Enter")
        tmux.until("Decided: We go.")
        until_idle(tmux)
        tmux.send("/decide And soon.")
        tmux.send_keys("Enter")
        tmux.until("Decided: And soon.")
        tmux.send_keys("C-d")
        assert tmux.wait() == 0
        shown = [line.strip() for line in tmux.capture() if line.strip()]
    assert shown[1:-1] == [
        "> Everything",
        *(f"• {point[2:]}" for point in points),
        *("[DECISION: We go.]", "Why now?", "Decided: We go.", "> /decide And soon.", "Decided: And soon."),
    ]


# --- G-1 ------------------------------------------------------------------------------------------------


def test_g_1_through_pipes_a_line_is_a_message_and_only_plain_text_comes_back(
    program, wire_server, monkeypatch
):
    """Whatever the lines end with, whatever the bytes are and the answers; then a clean exit, all saved."""
    monkeypatch.setenv("TERM", "xterm-256color")
    hostile = "\x1b[31mred\x1b]0;owned\x07 \x9b2J\u202e"
    program.answers(wire_server, "**first**\n\n  of all", hostile, "third")
    lines = b"one\r\n\n  \nnext \xff\xfe w\xc3\xb6rd \x1b[31m\n/load \x1b[2J\n/sessions\nlast, without an end"
    done = program(*fresh(program), stdin=lines)
    assert done.returncode == 0
    assert CONTROL.findall(done.stdout + done.stderr) == []
    out = done.stdout.decode()
    assert out.index("**first**\n\n  of all\n") < out.index("red") < out.index("third")
    assert [text for role, text in program.said() if role == "user"] == [
        *("one", "next \ufffd\ufffd wörd \x1b[31m", "last, without an end"),
    ]
    assert program.said()[-1] == ("assistant", "third")
    assert len(program.files) == 1


def test_g_1_nothing_that_is_decided_named_or_previewed_reaches_a_terminal_as_a_control(soleur, wire_server):
    """Tables, `Decided:` lines, projects, file names and JSON: through pipes, and on a screen."""
    hostile = "owned\x07 \x9b2J \u202eback"
    soleur.project = soleur.home / "ac\x1b[31mme"
    soleur.project.mkdir()
    (soleur.project / "ev\x1b[2Jil\x07.md").write_text("x\x1b[2J")
    soleur.answers(wire_server, f"{hostile} [DECISION: {hostile} #tag\x07] why?")
    typed = ["go", "/context ev\x1b[2Jil\x07.md", "/decide Sell \x1b[31m now\x07", "/autorecord \x1b[31m"]
    typed += ["/decisions", "/sessions", "/save", "/context"]
    stdin = "".join(f"{line}\n" for line in typed)
    calls = [
        (["--fresh"], stdin),
        ([], ""),
        (["sessions"], ""),
        (["decisions"], ""),
        (["decisions", "--json"], ""),
    ]
    shown = []
    for words, given in calls:
        done = soleur(*words, stdin=given)
        assert done.returncode == 0
        assert CONTROL.findall(done.stdout + done.stderr) == [], (words, done)
        assert "\u202e" not in (done.stdout + done.stderr).decode()
        shown.append(done)
    assert rb"Decided: owned\x07 \x9b2J \u202eback" in shown[0].stderr
    assert [each["content"][:5] for each in json.loads(shown[-1].stdout)] == ["owned", "Sell "]
    with soleur.terminal("--fresh") as terminal:
        terminal.until(MODEL)
        terminal.send("/context ")
        terminal.keys("tab")
        terminal.keys("c-u")
        say(terminal, "go")
        terminal.until("why?")
        until_idle(terminal)
        say(terminal, "/decisions")
        terminal.until("DATE")
        terminal.keys("c-d")
        assert terminal.wait() == 0
        drawn = terminal.raw
    assert b"\x07" not in drawn
    assert b"\x1b[2J" not in drawn
    assert b"\xc2\x9b" not in drawn


# --- G-5 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words", "says"),
    [
        ("soleur", ["nope"], "unknown command 'nope'; run `soleur --help`"),
        ("soleur", ["sesions"], "did you mean sessions?"),
        ("soleur", ["\x1b[31m"], r"unknown command '\x1b[31m'"),
        ("soleur", ["load"], "ID is missing; run `soleur load --help`"),
        ("soleur", ["load", ""], "ID is empty; run `soleur sessions`"),
        ("soleur", ["load", "a", "b"], "'b' is one word too many"),
        ("soleur", ["-s", ""], "ID is empty"),
        ("soleur", ["-s"], "-s/--session: expected one argument"),
        ("soleur", ["-s", "a", "--fresh"], "--session and --fresh mean different sessions"),
        ("soleur", ["--fresh=1"], "--fresh"),
        ("soleur", ["--frehs"], "did you mean --fresh?"),
        ("soleur", ["sessions", "x"], "'x' is one word too many"),
        ("soleur", ["decisions", "-p", "../x"], "'../x'"),
        ("sibyl", ["nope"], "'nope' is one word too many; run `sibyl --help`"),
        ("sibyl", ["-x"], "unknown option '-x'"),
        ("sibyl", ["--session-id"], "--session-id: expected one argument"),
        ("sibyl", ["--session-id", ""], "ID is empty"),
        *(("sibyl", ["--auto-save-interval", word], f"'{word}'") for word in ("x", "-1", "nan", "1e400", "")),
        ("aur", ["nope"], "unknown command 'nope'; run `aur --help`"),
        ("aur", ["spawn", "--resume", ""], "ID is empty; run `aur spawn --list-sessions`"),
        ("aur", ["spawn", "--session", ""], "NAME is empty"),
        ("aur", ["spawn", "--agent", ""], "There is no agent ''"),
        ("aur", ["spawn", "--session", "a", "--resume", "b"], "give one of them"),
        ("aur", ["spawn", "hello"], "'hello' is one word too many"),
        ("cortext", ["nope"], "unknown command 'nope'; run `cortext --help`"),
        ("cortext", ["lst"], "did you mean list?"),
        ("cortext", ["start"], "TYPE is missing; run `cortext start --help`"),
        ("cortext", ["start", "plan"], "TITLE is missing"),
        ("cortext", ["resume", ""], "ID|TEXT is empty; run `cortext list`"),
        ("cortext", ["resume", "--status", "old"], "'old'"),
        ("cortext", ["resume", "x", "--tool", "vim"], "'vim'"),
        ("cortext", ["init", "a", "b"], "'b' is one word too many"),
    ],
)
def test_g_5_a_wrong_call_is_one_sentence_and_2(home, capsys, name, words, says):
    """Which names what is wrong, and a command that there is; nothing is made."""
    assert MAINS[name](words) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"{name}: ")
    assert says in err
    assert "`sibyl sessions" not in err
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (Path.mkdir, "it is not a regular file"),
        (os.mkfifo, "it is not a regular file"),
        (lambda path: path.write_text(" \n"), "it is empty"),
        (lambda path: path.write_bytes(b"x" * 2**20), "it is larger than 64 KB"),
        (lambda path: path.write_bytes(b"Ask caf\xe9s"), "it is not UTF-8, from byte 7 on"),
        (lambda path: path.write_bytes(b"Ask\0"), "it is binary, not text"),
        (lambda path: path.symlink_to("nowhere"), "it is a link to nothing"),
    ],
)
def test_g_5_a_prompt_that_cannot_be_used_is_named_and_nothing_is_begun(home, capsys, make, says):
    (home / ".soleur").mkdir()
    make(home / ".soleur" / "prompt.md")
    assert MAINS["soleur"](["--fresh"]) == 1
    out, err = capsys.readouterr()
    hint = "correct it there, or remove it for the usual prompt"
    assert (out, err) == ("", f"soleur: Cannot read ~/.soleur/prompt.md: {says}; {hint}\n")
    assert [path.name for path in (home / ".soleur").iterdir()] == ["prompt.md"]


def test_g_5_who_stops_reading_ends_it_and_a_home_that_is_none_is_named(program, wire_server):
    """141, as of any program in a pipe; without an output at all 1, and one sentence."""
    program.answers(wire_server, "ok")
    command = shlex.join([*program.command, *fresh(program)])
    script = f"printf 'hello\\n' | {command} | head -n0; echo ${{PIPESTATUS[1]}}; {command} >&- </dev/null"
    ended = processes.run(["bash", "-c", script], cwd=program.project, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (1, "141\n")
    assert ended.stderr == f"{program.name}: the output could not be written: standard output is closed\n"
    assert program.files == []
    for place in ("/dev/null", "/proc/none"):
        done = program.run(*fresh(program), stdin="hello\n", env={**os.environ, "HOME": place})
        assert (done.code, done.err.count("\n")) == (1, 1), done
        assert done.err.startswith(f"{program.name}: ")
        assert f"{place} is not a directory; set HOME" in done.err


@pytest.mark.parametrize("columns", ["80", "50"])
def test_g_5_the_help_fits_and_the_version_is_one_line(capsys, monkeypatch, home, columns):
    """Of the programs and of their commands."""
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("SOLEUR_HOME", str(home / "a" / "rather" / "long" / "place" / "for" / "sessions"))
    for name, words in (
        *(("soleur", [*each, "--help"]) for each in ([], ["sessions"], ["load"], ["decisions"], ["spar"])),
        ("sibyl", ["--help"]),
        ("aur", ["--help"]),
        ("aur", ["spawn", "--help"]),
        *(("cortext", [*each, "--help"]) for each in ([], ["init"], ["start"], ["resume"], ["list"])),
    ):
        assert MAINS[name](words) == 0
        out, err = capsys.readouterr()
        assert (err, f"usage: {name}" in out) == ("", True)
        assert [line for line in out.splitlines() if len(line) > 80] == [], (name, words)
    for name, main in MAINS.items():
        assert main(["--version"]) == 0
        assert re.fullmatch(rf"{name} [\d.]+\n", capsys.readouterr().out)


# --- G-3, G-6 -------------------------------------------------------------------------------------------


def test_g_6_the_first_sigint_ends_the_turn_and_the_second_leaves(program, wire_server):
    """With what arrived, marked; in between the talk goes on."""
    half = events(HALF_A_LINE, READ, HANG)
    program.answers(wire_server, half, "go on", half)
    with program.piped(*fresh(program)) as talk:
        talk.say("hello")
        talk.until(lambda: wire_server.reads == 1)
        talk.process.send_signal(signal.SIGINT)
        talk.until(lambda: "Interrupted" in talk.err)
        assert wire_server.gone.wait(60)
        assert program.said() == [("user", "hello"), ("assistant", "half an answer\n")]
        talk.say("more")
        talk.until("go on")
        talk.say("again")
        talk.until(lambda: wire_server.reads == 2)
        assert talk.leave_by_ctrl_c() == 130
    assert [text for _, text in program.said()][2:] == ["more", "go on", "again", "half an answer\n"]
    assert "Traceback" not in talk.err
    assert len(re.findall(r"^Resume(?: with)?: ", talk.out, re.MULTILINE)) == 1


@pytest.mark.parametrize(
    ("program", "number"),
    [
        *(("soleur", number) for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)),
        *(("sibyl", number) for number in (signal.SIGTERM, signal.SIGKILL)),
        ("aur", signal.SIGTERM),
    ],
    indirect=["program"],
)
def test_g_3_g_6_whatever_ends_it_in_the_middle_of_an_answer_all_that_was_acknowledged_is_there(
    program, wire_server, gate, number
):
    """At a terminal, which is given back as it was; and the next start goes on with it. Of an answer that was
    cut off, all that arrived, but after kill -9."""
    program.answers(wire_server, "the first", streamed("half of the second", gate), "the third")
    with program.terminal(*fresh(program)) as terminal:
        terminal.until(MODEL)
        say(terminal, "one")
        terminal.until("the first")
        until_idle(terminal)
        say(terminal, "two")
        terminal.until("half of the second")
        terminal.kill(number)
        code = terminal.wait()
        assert code == (-number if number == signal.SIGKILL else 128 + number)
        assert code < 0 or is_given_back(terminal)
        shown = lines_of(terminal)
    said = [("user", "one"), ("assistant", "the first"), ("user", "two")]
    said += [("assistant", "half of the second")] if code > 0 else []
    assert program.said() == said
    id = program.files[0].parent.name if program.name == "sibyl" else program.files[0].stem
    assert code < 0 or shown[-1].endswith(f" {id}")
    words = {"sibyl": ["--session-id", id], "aur": ["spawn", "--resume", id]}.get(program.name, [])
    done = program.run(*words, stdin="three\n" if words else "y\nthree\n")
    assert done.code == 0, done
    assert program.said() == [*said, ("user", "three"), ("assistant", "the third")]
    assert ("Interrupted" in done.err) == (code > 0)
    assert len(program.files) == 1


# --- G-7 ------------------------------------------------------------------------------------------------


def test_g_7_help_lists_every_command_and_the_last_line_resumes_when_it_is_run(
    program, wire_server, monkeypatch
):
    """Copied into a shell."""
    monkeypatch.setenv("PATH", first_on_path())
    program.answers(wire_server, "the first", "the second")
    done = program.run(*fresh(program), stdin="/help\nhello\n")
    assert re.findall(r"^/(\w+)", done.out, re.MULTILINE) == COMMANDS[program.name]
    command = resume_command(done.out)
    assert command.startswith(f"{program.name} ")
    again = processes.run(
        ["sh", "-c", command], input="more\n", cwd=program.project, capture_output=True, text=True
    )
    assert again.returncode == 0, again.stderr
    assert [text for _, text in program.said()] == ["hello", "the first", "more", "the second"]
    assert resume_command(again.stdout) == command


def test_g_7_the_command_that_resumes_can_be_pasted_whatever_the_programs_folder_is_called(
    soleur, wire_server, monkeypatch
):
    """With a blank in its name, and not on the PATH."""
    folders = [each for each in os.environ["PATH"].split(os.pathsep) if not Path(each, "soleur").exists()]
    monkeypatch.setenv("PATH", os.pathsep.join(folders))
    (soleur.home / "my tools").symlink_to(SCRIPTS)
    soleur.command = [str(soleur.home / "my tools" / "soleur")]
    soleur.answers(wire_server, "the first", "the second")
    command = resume_command(soleur.run("--fresh", stdin="hello\n").out)
    again = processes.run(
        ["sh", "-c", command], input="more\n", cwd=soleur.project, capture_output=True, text=True
    )
    assert again.returncode == 0, again.stderr
    assert [text for _, text in soleur.said()] == ["hello", "the first", "more", "the second"]


def test_g_7_a_session_in_which_nothing_was_said_leaves_no_file_and_no_such_line(program, wire_server):
    """Whatever else was typed; also if its model cannot be had."""
    program.answers(wire_server, "ok")
    quiet = "/help\n/sessions\n/save\n/load zzz\n/nope\n/quit\n"
    done = program.run(*fresh(program), stdin=quiet)
    assert (done.code, program.files) == (0, [])
    assert "Resume" not in done.out
    done = program.run(*fresh(program), "-m", "nope", stdin="hello\n")
    assert (done.code, done.out, program.files) == (1, "", [])
    assert wire_server.requests == []


# --- G-8 to G-10 ----------------------------------------------------------------------------------------


def test_g_8_all_that_it_writes_is_its_owners_alone_and_under_one_home(
    program, wire_server, home, monkeypatch, tmp_path_factory
):
    """Sessions, locks, ledger and what was typed, whatever the umask; its settings and its prompt are read
    there. In the user's home is nothing else, but the catalog and what is pi's."""
    place = tmp_path_factory.mktemp("elsewhere") / "deep" / "home"
    monkeypatch.setenv(f"{program.layout.upper()}_HOME", str(place))
    program.answers(wire_server, "ok [DECISION: Yes.]", models=_models(wire_server, "test", "mine"))
    place.mkdir(parents=True, mode=0o700)
    place.parent.chmod(0o700)
    kept_in, own = ("spawn", "/stats") if program.name == "aur" else ("sessions", "/sessions")
    for name, text in (
        *(("config.toml", 'default_model = "mine"\n'), ("prompt.md", "You are a pirate.\n")),
        ("config.json", '{"default_model": "mine"}'),
    ):
        (place / name).write_text(text)
        (place / name).chmod(0o600)
    before = os.umask(0)
    try:
        with program.terminal(*fresh(program)) as terminal:
            terminal.until("custom/mine")
            say(terminal, "hello")
            terminal.until("ok [DECISION: Yes.]")
            terminal.until(lambda: "Esc stops it" not in text_of(terminal))
            say(terminal, own)
            terminal.until("Context " if program.name == "aur" else "ID ")
            terminal.keys("c-d")
            assert terminal.wait() == 0
    finally:
        os.umask(before)
    assert {path.name for path in home.iterdir()} <= {".pi", ".cache", program.project.name}
    assert list(program.project.iterdir()) == []
    there = {path.name for path in place.iterdir()}
    assert {kept_in, "locks", "shell-history"} <= there
    assert ("decisions" in there) == (program.name == "soleur")
    assert "hello" in (place / "shell-history").read_text()
    assert [str(path).startswith(str(place)) for path in program.files] == [True]
    for path in (place, *place.rglob("*"), *(home / ".cache" / "perdure").rglob("*")):
        expected = 0o700 if path.is_dir() else 0o600
        assert oct(stat.S_IMODE(path.stat().st_mode)) == oct(expected), path
    told = wire_server.requests[0].body["messages"][0]["content"]
    assert ("pirate" in told) == (program.name == "soleur")


def _models(server, *names):
    return [{"id": name, "base_url": f"{server.url}/v1", "context_window": 8000} for name in names]


def test_g_9_an_option_then_the_variable_then_its_own_settings_then_pis(sibyl, wire_server, monkeypatch):
    sibyl.answers(wire_server, "ok", models=_models(wire_server, "test", "mine", "set", "asked"))
    (sibyl.home / ".sibyl").mkdir()
    sibyl.run(stdin="a\n")
    (sibyl.home / ".sibyl" / "config.toml").write_text('default_model = "mine"\n')
    sibyl.run(stdin="b\n")
    monkeypatch.setenv("PERDURE_MODEL", "set")
    sibyl.run(stdin="c\n")
    sibyl.run("-m", "asked", stdin="d\n")
    assert [each.body["model"] for each in wire_server.requests] == ["test", "mine", "set", "asked"]


@pytest.fixture
def bringing(program, wire_server):
    """In a folder that brings a model and an extension of its own."""
    program.answers(wire_server, "an answer")
    own = program.project / ".pi"
    (own / "extensions").mkdir(parents=True)
    (own / "extensions" / "it.py").write_text(
        "import pathlib\npathlib.Path('it-ran').touch()\ndef register(api):\n    pass\n"
    )
    model = {"id": "theirs", "base_url": f"{wire_server.url}/theirs"}
    (own / "settings.json").write_text(json.dumps({"models": [model], "default_model": "theirs"}))
    return program


def test_g_10_through_pipes_a_folder_that_is_not_trusted_is_one_notice(bringing, wire_server):
    """Which says how to allow it, by a command that there is."""
    done = bringing.run(*fresh(bringing), stdin="hello\nagain\n")
    assert done.code == 0
    (notice,) = done.err.splitlines()
    assert notice.startswith(".pi is not used: this folder is not trusted")
    assert notice.endswith("`pi trust` shows and allows it")
    assert {request.target for request in wire_server.requests} == {"/v1/chat/completions"}
    assert not (bringing.project / "it-ran").exists()


def test_g_10_at_a_terminal_it_is_asked_once_before_anything_of_the_folder_is_used(bringing, wire_server):
    ran = bringing.project / "it-ran"
    with bringing.terminal(*fresh(bringing), rows=40) as terminal:
        terminal.until("[y/N]")
        assert not ran.exists()
        say(terminal, "y")
        terminal.until("custom/theirs")
        assert "Trusted; `pi trust --revoke` changes that." in text_of(terminal)
        say(terminal, "hello")
        terminal.until("an answer")
        terminal.keys("c-d")
        assert terminal.wait() == 0
    assert ran.exists()
    assert [request.target for request in wire_server.requests] == ["/theirs/chat/completions"]
    with bringing.terminal(*fresh(bringing)) as terminal:
        terminal.until("custom/theirs")
        assert "[y/N]" not in text_of(terminal)


# --- what it costs to ask -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        *(("soleur", [word]) for word in ("--version", "--help", "sessions")),
        *(("sibyl", [word]) for word in ("--version", "--help")),
        *(("aur", [word]) for word in ("--version", "--help")),
        *(("cortext", [word]) for word in ("--version", "--help")),
    ],
)
def test_g_5_what_only_answers_a_question_loads_nothing_that_talks(home, name, words):
    """And the version nothing but the package."""
    module = MAINS[name].__module__
    source = (
        "import re, sys; before = set(sys.modules)\n"
        f"from {module} import main\ncode = main({words!r})\n"
        "print(repr((code, set(sys.modules) - before)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    code, loaded = ast.literal_eval(done.stderr.splitlines()[-1])
    assert code == 0
    heavy = {"asyncio", "httpx2", "rich", "prompt_toolkit", "mcp", "msgspec", "pydantic", "json"}
    assert loaded & heavy == set()
    if words == ["--version"]:
        assert {each for each in loaded if not each.startswith("perdure")} == set()
        assert loaded == {"perdure", "perdure.programs", f"perdure.programs.{name}", module}
