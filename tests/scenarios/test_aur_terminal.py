"""aur at a terminal: how a talk looks, and the question about a damaged session."""

import os
import time

import pytest

from perdure.agent.aside import PATIENCE
from perdure.session.session import Session
from perdure.session.stores import open_store
from perdure.testing import assistant_entry, user_entry
from tests.agent.models.wire_server import wire_server
from tests.aurora_files import METADATA, chain, text_of
from tests.front.shell_terminal import is_given_back, say
from tests.front.shell_terminal import text_of as shown_on
from tests.programs.started import aur

__all__ = ["aur", "wire_server"]

pytestmark = pytest.mark.process

QUESTION = "recover / delete / leave? [r/d/L]"


def test_aur_03_aur_15_a_talk_at_80_columns(aur, wire_server):
    """Every line as it is to be seen: the banner, another agent's prompt, a message of two lines, and the
    command that goes on with it."""
    aur.answers(wire_server, "Two findings, both in the **cookie**.", "Done.")
    (aur.home / ".aurora" / "agents").mkdir(parents=True)
    (aur.home / ".aurora" / "agents" / "qa-test.md").write_text("You are a tester.")
    with aur.terminal("spawn") as terminal:
        terminal.until("custom/test")
        terminal.until("default> ")
        say(terminal, "/agent qa-test")
        terminal.until("answers from now on.")
        terminal.until("qa-test> ")
        terminal.send("Review the login flow,\\\rand the logout.\r")
        terminal.until("Two findings")
        terminal.until("custom/test")
        terminal.until(lambda: "Esc stops it" not in shown_on(terminal))
        say(terminal, "/exit")
        assert terminal.wait() == 0
        assert is_given_back(terminal)
        shown = [line for line in terminal.scrollback if line]
    id = aur.files[0].stem
    assert shown == [
        "Aurora Spawn Interactive Mode",
        "Agent: default",
        f"Session: {id}",
        "What can be typed here: /help",
        "> /agent qa-test",
        "qa-test answers from now on.",
        "> Review the login flow,",
        "  and the logout.",
        "Two findings, both in the cookie.",
        "> /exit",
        f"Resume: aur spawn --resume {id}",
    ]
    with aur.terminal("spawn", "--resume", id) as terminal:
        terminal.until("Resumed session")
        terminal.until("qa-test> ")
        terminal.keys("c-d")
        assert terminal.wait() == 0
        shown = [line for line in terminal.scrollback if line]
    assert shown[:3] == ["Aurora Spawn Interactive Mode", "Agent: qa-test", f"Session: {id}"]
    assert f"Resumed session {id}: 2 turns, last used just now, with" in " ".join(shown)
    assert not any("completed" in line for line in shown)


@pytest.mark.parametrize(("keys", "code"), [("c-c", 130), ("r", 0)])
def test_aur_12_the_question_is_typed_at(aur, keys, code):
    """Who leaves there changes nothing."""
    folder = aur.home / ".aurora" / "spawn" / "sessions"
    folder.mkdir(parents=True)
    path = folder / "session-0a1b2c3d4e5f.jsonl"
    path.write_bytes(text_of(METADATA, b"{", *chain(2)))
    before = path.read_bytes()
    with aur.terminal("spawn", "--resume", "session-0a1b") as terminal:
        terminal.until(QUESTION)
        if keys == "r":
            say(terminal, "perhaps")
            terminal.until(lambda: shown_on(terminal).count(QUESTION) == 2)
            say(terminal, "r")
            terminal.until("Resumed session")
            terminal.keys("c-d")
        else:
            terminal.keys(keys)
        assert terminal.wait() == code
        shown = [line for line in terminal.scrollback if line]
    assert (path.read_bytes() == before) == (keys != "r")
    assert any("is damaged in 1 line" in line for line in shown)
    if keys == "r":
        assert any("2 good lines kept" in line for line in shown)


def held_session() -> Session:
    """One that this process holds."""
    session = Session.create(open_store("aurora"))
    session.append(user_entry("question"), assistant_entry("answer"))
    return session


@pytest.mark.parametrize("kind", ["xterm-256color", "dumb"])
@pytest.mark.parametrize(("keys", "code"), [("c-c", 130), ("c-d", 0)])
def test_aur_13_g_6_ctrl_c_and_ctrl_d_end_the_wait_for_a_held_session(aur, keys, code, kind):
    """At once: nobody waits for the 10 s. Whom it waits for, and how to end it, is on the screen."""
    with held_session() as session:
        with aur.terminal("spawn", "--resume", session.id, kind=kind) as terminal:
            terminal.until("to stop waiting.")
            pressed = time.monotonic()
            terminal.keys(keys)
            assert terminal.wait() == code
            assert time.monotonic() - pressed < PATIENCE / 2
            shown = " ".join(line for line in terminal.scrollback if line)
        assert f"Session {session.id} is held by process {os.getpid()}; waiting up to 10 s" in shown
        assert ("Nothing was opened." in shown) == (code == 0)
        assert "Resume:" not in shown


def test_aur_13_what_is_typed_during_the_wait_is_sent_when_the_session_is_free(aur, wire_server):
    """A whole line is a message, and the beginning of one stands in the editor."""
    aur.answers(wire_server, "two")
    session = held_session()
    with aur.terminal("spawn", "--resume", session.id, "-m", "custom/test") as terminal:
        terminal.until("to stop waiting.")
        terminal.send("more\rand ")
        terminal.until("and")
        session.close()
        terminal.until("two")
        terminal.until("default> and")
        terminal.send("this\r")
        terminal.until(lambda: len(aur.said()) == 6)
        say(terminal, "/exit")
        assert terminal.wait() == 0
    assert [text for _, text in aur.said()] == ["question", "answer", "more", "two", "and this", "two"]
