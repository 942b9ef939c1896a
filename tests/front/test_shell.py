"""The shell at its edges: before there is a conversation, between two of them, beside a turn, and when its
user leaves. Nothing that was typed is lost or said twice, and what nobody wanted is not made."""

import json
import os
import re
import signal
from pathlib import Path

import pytest

from perdure.testing import assistant_entry
from tests.agent.models.wire_server import events, wire_server
from tests.front.one_prompt import said
from tests.front.picked import talk
from tests.front.piped import Piped
from tests.front.shell_terminal import (
    BUSY,
    edited,
    is_given_back,
    say,
    shell,
    streamed,
    text_of,
    until_edited,
    until_idle,
)
from tests.front.terminal import Terminal

__all__ = ["shell", "wire_server"]

pytestmark = pytest.mark.process

WAITS = "while [ ! -e go ]; do sleep 0.02; done"


def answered(text: str):
    return assistant_entry(text, provider="custom", model="test")


def before_a_prompt(shell, *words: str, term: str = "xterm-256color", **options) -> Terminal:
    """Started, and not waited for: it asks something first, or ends."""
    variables = {**os.environ, "TERM": term}
    shell.terminals.append(
        Terminal(*shell.command(*words), cwd=shell.pi.project, env=variables, rows=40, **options)
    )
    return shell.terminals[-1]


def session_files(shell) -> dict[str, bytes]:
    found = (shell.pi.home / ".pi" / "agent" / "sessions").rglob("*.jsonl")
    return {str(path): path.read_bytes() for path in found}


def elapsed(terminal: Terminal) -> int:
    """Seconds, as the spinner says; 0 where there is none."""
    found = re.search(rf"(\d+) s  {BUSY}", text_of(terminal))
    return int(found[1]) if found else 0


# --- before there is a conversation -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("term", "number", "code"),
    [
        pytest.param("xterm-256color", signal.SIGTERM, 143, id="SIGTERM"),
        pytest.param("xterm-256color", signal.SIGHUP, 129, id="SIGHUP"),
        pytest.param("xterm-256color", None, 130, id="Ctrl+C"),
        pytest.param("dumb", signal.SIGTERM, 143, id="SIGTERM, dumb"),
    ],
)
def test_what_ends_it_at_the_question_of_trust_leaves_no_session(shell, term, number, code):
    shell.answers(events(said("never")))
    own = shell.pi.project / ".pi"
    own.mkdir()
    (own / "settings.json").write_text(json.dumps({"default_model": "theirs"}))
    terminal = before_a_prompt(shell, term=term)
    terminal.until("[y/N]")
    if number is None:
        terminal.keys("c-c")
    else:
        terminal.kill(number)
    assert terminal.wait() == code
    assert session_files(shell) == {}
    assert not (shell.pi.home / ".pi" / "agent" / "trust.json").exists()
    assert b"Traceback" not in terminal.raw


def test_a_start_that_its_user_does_not_want_ends_in_order_and_makes_nothing(shell, tmp_path_factory):
    """Esc at the question where to go; and at a terminal, too, two ways to say which session are too many."""
    shell.answers(events(said("never")))
    other = tmp_path_factory.mktemp("other")
    talk(other, "far away", answered("indeed"), id="eeee11111111")
    before = session_files(shell)
    terminal = before_a_prompt(shell, "--session", "eeee", columns=200)
    terminal.until("Stay here")
    terminal.keys("escape")
    assert terminal.wait() == 0
    assert is_given_back(terminal)
    assert b"Resume" not in terminal.raw

    terminal = before_a_prompt(shell, "-c", "-r", "x")
    assert terminal.wait() == 2
    assert "--continue and --resume mean different sessions" in text_of(terminal)
    assert session_files(shell) == before


# --- from one conversation to another -----------------------------------------------------------------


def test_a_damaged_session_opens_from_the_picker_and_one_line_says_that_it_is(shell):
    """What can be read of it goes on, and what cannot stays where it is."""
    shell.answers(events(said("still here")))
    ref = talk(shell.pi.project, "one", answered("two"), "three", answered("four"), id="aaaa11111111")
    lines = Path(ref.path).read_bytes().splitlines(keepends=True)
    lines[3] = b'{"type": "message", garbled\n'
    Path(ref.path).write_bytes(b"".join(lines))
    terminal = before_a_prompt(shell, "-r", columns=160)
    terminal.until("1 session")
    terminal.until("one")
    terminal.keys("enter")
    terminal.until("Damaged: ")
    until_idle(terminal)
    (told,) = [line for line in terminal.screen if "Damaged" in line]
    assert "sessions doctor aaaa11111111" in told
    say(terminal, "go on")
    terminal.until("still here")
    until_idle(terminal)
    terminal.keys("c-d")
    assert terminal.wait() == 0
    assert Path(ref.path).read_bytes().startswith(b"".join(lines))
    assert shell.pi.messages()[-2:] == [("user", "go on"), ("assistant", "still here")]


def test_a_session_that_cannot_be_opened_keeps_the_conversation_in_which_a_template_reads_no_files(shell):
    """A template's words are its author's: the files that they name are not read. Those that its user names
    behind it are."""
    shell.answers(events(said("one")), events(said("two")), events(said("three")))
    pi = shell.pi
    talk(pi.project, "the other", answered("indeed"), id="aaaa11111111")
    before = session_files(shell)
    (pi.home / "secret.txt").write_text("the secret")
    (pi.project / "notes.md").write_text("the notes")
    template = pi.home / ".pi" / "agent" / "prompts" / "review.md"
    template.parent.mkdir()
    template.write_text("---\ndescription: look at it\n---\nReview @~/secret.txt and $1.\n")
    with Piped(cwd=pi.project) as piped:
        piped.say("first")
        piped.until("one\n> ")
        pi.use(shell.server, compaction={"model": "nosuch/model"})
        piped.say("/resume aaaa")
        piped.until(lambda: "nosuch" in piped.err)
        pi.use(shell.server)
        piped.say("/review", "/review @notes.md")
        assert piped.leave() == 0
    assert "Traceback" not in piped.err
    after = session_files(shell)
    assert {path: after[path] for path in before} == before
    assert len(after) == len(before) + 1
    assert [role for role, _ in pi.messages()] == ["user", "assistant"] * 3
    first, plain, noted = shell.prompts
    assert first == "first"
    assert plain.strip() == "Review @~/secret.txt and ."
    assert "the notes" in noted
    assert "Review @~/secret.txt and @notes.md." in noted
    assert "the secret" not in noted


# --- what is typed beside a turn ----------------------------------------------------------------------


def test_ctrl_c_keeps_what_is_typed_beside_a_turn_and_what_is_given_back_comes_back_once(shell):
    """A draft is cleared, and is in the history. Who types between two of them does not mean to leave. What
    was queued when its user leaves is said not to be sent."""
    shell.answers(*(streamed(f"half {number} ", shell.gate()) for number in (1, 2, 3)))
    terminal = shell.start()
    say(terminal, "go")
    terminal.until("half 1")
    terminal.send("half typed")
    until_edited(terminal, "half typed")
    terminal.keys("c-c")
    terminal.until("Interrupted")
    until_idle(terminal)
    assert edited(terminal) == "half typed"
    terminal.send("!")
    until_edited(terminal, "half typed!")
    terminal.keys("c-c")
    until_edited(terminal, "")
    terminal.keys("up")
    until_edited(terminal, "half typed!")
    terminal.keys("c-c")
    until_edited(terminal, "")

    say(terminal, "again")
    terminal.until("half 2")
    say(terminal, "not said yet")
    terminal.until("queued: not said yet")
    terminal.keys("escape")
    until_edited(terminal, "not said yet")
    terminal.keys("c-u")
    until_edited(terminal, "")
    say(terminal, "/name foo")
    terminal.until("is called 'foo' now")
    until_idle(terminal)
    terminal.send("new")
    until_edited(terminal, "new")
    terminal.keys("c-u")

    say(terminal, "once more")
    terminal.until("half 3")
    say(terminal, "never sent")
    terminal.until("queued: never sent")
    say(terminal, "/quit")
    assert terminal.wait() == 0
    assert any(line.startswith("Not sent: never sent") for line in terminal.scrollback)
    assert shell.prompts == ["go", "again", "once more"]
    assert shell.pi.messages()[-1] == ("assistant", "half 3 ")


def test_a_command_beside_a_turn_leaves_that_alone_and_files_are_told_of(shell):
    """The spinner goes on, Alt+Enter still queues, the answer comes to its end. Who goes back to a message
    has what they typed, without the file."""
    project = shell.pi.project
    (project / "big.txt").write_text("lorem ipsum\n" * 100)
    (project / "mine.md").write_text("mine")
    gate = shell.gate()
    shell.answers(
        streamed("the first half, ", gate, "the second"),
        events(said("followed")),
        streamed("a part ", shell.gate()),
    )
    terminal = shell.start(rows=90)
    say(terminal, "see @big.txt and @gone.txt")
    terminal.until("the first half")
    assert "\n> see @big.txt and @gone.txt\n\n  with big.txt, 1.2 kB\n" in text_of(terminal)
    assert "\n  @gone.txt is no file that there is, and is sent as the word it is\n" in text_of(terminal)
    terminal.until(lambda: elapsed(terminal) >= 1)
    for command, shown in {
        "/session": "Directory  ~/project",
        "/help": "\nTools: ",
        "/export talk.md": "Wrote talk.md",
        "/export mine.md": "mine.md is there already",
    }.items():
        say(terminal, command)
        terminal.until(shown)
        terminal.until(BUSY)
        assert elapsed(terminal) >= 1
    terminal.send("afterwards")
    terminal.keys("alt-enter")
    terminal.until("queued for later: afterwards")
    assert len(shell.server.requests) == 1
    gate.set()
    terminal.until("the first half, the second")
    terminal.until("followed")
    until_idle(terminal)
    assert shell.prompts[1] == "afterwards"
    assert "lorem ipsum" in shell.prompts[0]
    assert "see @big.txt and @gone.txt" in shell.prompts[0]
    assert (project / "mine.md").read_text() == "mine"
    assert "see @big.txt" in (project / "talk.md").read_text()

    say(terminal, "/tree")
    terminal.until("● here")
    terminal.keys("up", "up", "up", "enter")  # to the first message
    terminal.until("goes on from here")
    until_edited(terminal, "see @big.txt and @gone.txt")
    terminal.keys("c-u")
    say(terminal, "otherwise")
    terminal.until("a part")
    say(terminal, "never sent")
    terminal.until("queued: never sent")
    terminal.keys("c-d")
    assert terminal.wait() == 0
    assert any(line.startswith("Not sent: never sent") for line in terminal.scrollback)


def test_what_is_typed_while_nobody_can_hear_it_is_said_afterwards_in_its_order(shell):
    """While a command of the user's runs, and while the conversation is condensed. What is typed in the turn
    of the first of them is not heard before the second."""
    first, gate = shell.gate(), shell.gate()
    shell.answers(
        streamed("one ", first),
        *(events(said(text)) for text in ("two", "three")),
        streamed("## Goal\n", gate, "the summary"),
        events(said("four")),
        models=[{"id": "test", "base_url": f"{shell.server.url}/v1", "context_window": 100_000}],
        compaction={"keep_recent_tokens": 100},
    )
    terminal = shell.start(rows=40)
    say(terminal, f"!{WAITS}")
    terminal.until(BUSY)
    say(terminal, "typed first " * 50)
    terminal.until("queued for later: typed first")
    say(terminal, "typed second " * 50)
    terminal.until("queued for later: typed second")
    assert shell.server.requests == []
    (shell.pi.project / "go").touch()
    terminal.until("\none\n")
    say(terminal, "typed third")
    terminal.until("queued for later: typed third")
    first.set()
    terminal.until("\nthree\n")
    until_idle(terminal)

    say(terminal, "/compact")
    terminal.until(lambda: len(shell.server.requests) == 4)
    say(terminal, "typed meanwhile")
    terminal.until("queued for later: typed meanwhile")
    gate.set()
    terminal.until("\nfour\n")
    until_idle(terminal)
    assert "Condensed: it was about" in "\n".join(terminal.scrollback)
    users = [" ".join(text.split()[:2]) for role, text in shell.pi.messages() if role == "user"]
    assert users == ["typed first", "typed second", "typed third", "typed meanwhile"]
    assert shell.prompts[4].endswith("typed meanwhile")
    assert edited(terminal) == ""
