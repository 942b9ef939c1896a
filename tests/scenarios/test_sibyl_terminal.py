"""sibyl at a terminal: what is typed ahead is counted where it belongs, and its commands say what they did.
After each test a Lisp reads what is on disk."""

import sys
import time

import pytest

from tests.agent.models.wire_server import wire_server
from tests.front.one_prompt import until
from tests.front.shell_terminal import say, text_of
from tests.needs import needs_tool
from tests.programs.sibyl_talks import (
    corrupt,
    count,
    damaged,
    ended,
    file_of,
    fill_disk,
    free_disk,
    saved,
    texts,
)
from tests.programs.started import prompts_of, sibyl

__all__ = ["damaged", "sibyl", "wire_server"]
pytestmark = [pytest.mark.process, needs_tool("sbcl")]


def test_sib_16_what_is_typed_ahead_counts_in_the_session_it_is_said_in(sibyl, wire_server, home):
    """While a session is resumed, whose count is not known yet; and behind `/load`, which counts in the one
    before."""
    sibyl.answers(wire_server, "Hm.")
    saved("one", "two", id="session-A")
    path = file_of(home, saved("three", "four", id="session-B"))
    path.write_text(path.read_text().replace(":command-count 0", ":command-count 5"))
    code = """
import os, time
import pytest

from perdure.programs.sibyl import start_repl, talk

counted = talk.commands_of

def slow(*given):
    while not os.path.exists("go"):
        time.sleep(0.005)
    return counted(*given)

talk.commands_of = slow
raise SystemExit(start_repl(session_id="session-B"))
"""
    sibyl.command = [sys.executable, "-c", code]
    with sibyl.terminal() as terminal:
        terminal.until("sibyl[0]> ")
        terminal.send("hello\r/sessions\r/nope\r")
        terminal.until("There is no command /nope")
        assert "Loaded session" not in text_of(terminal)
        (sibyl.project / "go").touch()
        terminal.until("sibyl[8]> ")
        terminal.send("/load session-A\rand here?\r")
        until(lambda: len(wire_server.requests) == 2)
        terminal.until("sibyl[1]> ")
        terminal.keys("c-d")
        assert terminal.wait() == 0
    assert (texts("session-B")[2:], count(path)) == (["hello", "Hm."], 9)
    assert [text for _, text in prompts_of(wire_server)] == ["one", "two", "and here?"]
    assert (texts("session-A")[2:], count(file_of(home, "session-A"))) == (["and here?", "Hm."], 1)


def test_sib_09_sib_10_sib_11_sib_15_each_command_says_what_it_did(sibyl, wire_server, home, damaged):
    """And so does what saves by itself: that it failed, once, and that it works again."""
    sibyl.answers(wire_server, "Hm.")
    code = "from perdure.programs.sibyl import *; raise SystemExit(start_repl(auto_save_interval=0.05))"
    sibyl.command = [sys.executable, "-c", code]
    with sibyl.terminal(rows=40, columns=240) as terminal:
        terminal.until("sibyl[0]> ")
        say(terminal, "/sessions")
        terminal.until("No saved sessions.")
        saved("the zebra", "It has stripes.", id="session-A")
        broken = corrupt(home, damaged, saved("gone", id="session-B"))
        say(terminal, "hello")
        terminal.until("Hm.")
        (id,) = {path.parent.name for path in sibyl.files} - {"session-A", "session-B"}
        for typed, says in (
            ("/save", f"Session saved: {id}"),
            ("/load", "Usage: /load <session-id>"),
            ("/load zzz", "Session not found: zzz; "),
            ("/load session-B", f"Cannot read {broken}: line "),
        ):
            say(terminal, typed)
            terminal.until(says)
        until(lambda: count(file_of(home, id)) == 6)
        fill_disk(terminal)
        say(terminal, "/help")
        terminal.until("Auto-save failed, and is tried again later: Not saved: ")
        time.sleep(0.3)
        free_disk(terminal)
        terminal.until("Auto-save works again.")
        assert text_of(terminal).count("Auto-save") == 2
        assert count(file_of(home, id)) == 7
        say(terminal, "/load session-A")
        terminal.until("Loaded session: session-A (2 messages)")
        terminal.keys("c-d")
        assert terminal.wait() == 0
        shown = [line for line in terminal.scrollback if line]
    assert shown[-2:] == ended("session-A").splitlines()
    assert (texts(id), count(file_of(home, id))) == (["hello", "Hm."], 8)
