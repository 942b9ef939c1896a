"""How long the processes live that pi starts: a command's to its end or its time-out, those it leaves in the
background as long as the conversation, and none of them longer than pi, however that ends."""

import os
import random
import re
import signal
import sys
import time

import pytest

from tests.agent.models.wire_server import HANG, events, wire_server
from tests.front.one_prompt import called, pi, said, until
from tests.front.piped import Piped
from tests.front.terminal import Terminal

__all__ = ["pi", "wire_server"]

pytestmark = pytest.mark.process

PI = (sys.executable, "-m", "perdure")
GONE_WITHIN_S = 2.0
LEFT_BEHIND = (
    "sleep {tag} & setsid sleep {tag} & (setsid sleep {tag} &)"
    "\n(setsid env -i sleep {tag} </dev/null >/dev/null 2>&1 &)"
    "\n(trap '' TERM; setsid sleep {tag} >/dev/null 2>&1 &)"
)
"""In the background, in sessions of their own, orphans, without the environment, and deaf to SIGTERM."""


def sleepers(tag: str) -> set[int]:
    found = set()
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", tag.encode()]:
            found.add(int(name))
    return found


def gone(tag: str) -> None:
    """All of them, in time."""
    until(lambda: not sleepers(tag), GONE_WITHIN_S)


@pytest.fixture
def tag():
    """A number of seconds that nothing else on this machine sleeps for."""
    tag = f"987653.{random.randrange(10**12):012}"
    yield tag
    for pid in sleepers(tag):
        os.kill(pid, signal.SIGKILL)


# --- kill -9 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_over", [False, True], ids=["while it runs", "when it has ended"])
def test_pi_07_kill_9_of_a_prompt_ends_all_that_its_command_started(pi, wire_server, tag, is_over):
    """Also what has left its session, parents and environment; also when the command itself is over."""
    command = LEFT_BEHIND.format(tag=tag) + ("" if is_over else f"\nsleep {tag}")
    wire_server.script(events(called(("a", "bash", {"command": command}))), events(HANG))
    pi.use(wire_server)
    with pi.started("-p", "go") as process:
        until(lambda: len(sleepers(tag)) == (5 if is_over else 6))
        if is_over:
            until(lambda: len(wire_server.requests) == 2)
        process.kill()
        process.wait()
        gone(tag)


def test_pi_07_kill_9_of_a_conversation_at_a_terminal_ends_all_that_its_commands_started(
    pi, wire_server, tag
):
    """Those of the model, and those that its user has typed."""
    command = LEFT_BEHIND.format(tag=tag)
    wire_server.script(events(called(("a", "bash", {"command": command}))), events(said("left them")))
    pi.use(wire_server)
    with Terminal(*PI, cwd=pi.project) as terminal:
        terminal.send("go\r")
        terminal.until(lambda: "left them" in "\n".join(terminal.screen))
        terminal.send(f"!setsid sleep {tag} & sleep {tag}\r")
        until(lambda: len(sleepers(tag)) == 7)
        terminal.process.kill()
        terminal.process.wait()
        gone(tag)


def test_pi_07_kill_9_ends_an_mcp_server_and_what_it_started(pi, wire_server, tag):
    """A server need not read its stdin, the end of which would tell it."""
    script = f"trap '' TERM; setsid sleep {tag} & (setsid sleep {tag} &) ; exec sleep {tag}"
    pi.use(wire_server, mcp_servers={"deaf": {"command": "sh", "args": ["-c", script]}})
    with pi.started("-p", "go") as process:
        until(lambda: len(sleepers(tag)) == 3)
        process.kill()
        process.wait()
        gone(tag)


def test_pi_16_kill_9_ends_a_command_that_is_to_print_a_key(pi, wire_server, tag):
    pi.use(wire_server)
    model = {"id": "m", "base_url": f"{wire_server.url}/v1", "api_key": f"!setsid sleep {tag} & sleep {tag}"}
    pi.use(wire_server, models=[model], default_model="m")
    with pi.started("-p", "go") as process:
        until(lambda: len(sleepers(tag)) == 2)
        process.kill()
        process.wait()
        gone(tag)


# --- the end of the conversation ----------------------------------------------------------------------


def test_pi_07_a_prompt_ends_what_it_left_in_the_background_and_says_so_before(pi, wire_server, tag):
    command = LEFT_BEHIND.format(tag=tag)
    wire_server.script(events(called(("a", "bash", {"command": command}))), events(said("done")))
    pi.use(wire_server)
    done = pi("-p", "go")
    assert (done.returncode, done.stdout) == (0, b"done\n")
    assert re.search(r"Ended with the conversation: (\d+ \S+?(, )?){5}\n", done.stderr.decode())
    assert not sleepers(tag)
    (result,) = [text for role, text in pi.messages() if role == "toolResult"]
    assert re.fullmatch(
        r"\(no output\)\n\n\[Still running in the background: (\d+ \S+?(, )?){5}\. "
        r"They end with this conversation\.\]",
        result,
    )
    tools = wire_server.requests[0].body["tools"]
    (description,) = [each["function"]["description"] for each in tools if each["function"]["name"] == "bash"]
    assert "until the conversation ends, which with `pi -p` is when the answer is given" in description


@pytest.mark.parametrize("leaving", ["/new", "/quit"])
def test_pi_07_what_is_left_in_the_background_lives_as_long_as_the_conversation(
    pi, wire_server, tag, leaving
):
    """Through the turns that follow, until its user begins another one or leaves."""
    command = LEFT_BEHIND.format(tag=tag)
    wire_server.script(
        events(called(("a", "bash", {"command": command}))), events(said("left")), events(said("still"))
    )
    pi.use(wire_server)
    with Piped(cwd=pi.project) as talk:
        talk.say("go")
        talk.until("left")
        talk.say("next")
        talk.until("still")
        assert len(sleepers(tag)) == 5
        talk.say(leaving)
        gone(tag)
        talk.until(lambda: "Ended with the conversation: " in talk.out + talk.err)


def test_pi_23_a_command_of_the_users_says_what_it_left_running(pi, wire_server, tag):
    pi.use(wire_server)
    with Piped(cwd=pi.project) as talk:
        talk.say(f"!setsid sleep {tag} >/dev/null 2>&1 &")
        talk.until(lambda: "Still running in the background: " in talk.out + talk.err)
        (left,) = sleepers(tag)
        assert f"{left} sleep; until this conversation ends" in talk.out + talk.err
        assert talk.leave() == 0
    assert not sleepers(tag)


# --- time-out -----------------------------------------------------------------------------------------


def test_pi_07_a_server_in_the_foreground_does_not_hang_a_prompt_for_ever(pi, wire_server, tag):
    """The time-out is the model's to choose, up to an hour; what is more is an error that it reads."""
    wire_server.script(
        events(called(("a", "bash", {"command": f"sleep {tag}", "timeout": 3601}))),
        events(called(("b", "bash", {"command": f"sleep {tag}", "timeout": 0.2}))),
        events(said("gave up")),
    )
    pi.use(wire_server)
    began = time.monotonic()
    done = pi("-p", "go")
    assert (done.returncode, done.stdout) == (0, b"gave up\n")
    assert time.monotonic() - began < 30
    too_long, timed_out = [text for role, text in pi.messages() if role == "toolResult"]
    assert "timeout is at most 3600 seconds" in too_long
    assert "timed out after 0.2 s" in timed_out
    tools = wire_server.requests[0].body["tools"]
    (parameters,) = [each["function"]["parameters"] for each in tools if each["function"]["name"] == "bash"]
    assert parameters["properties"]["timeout"]["maximum"] == 3600
    assert "120" in parameters["properties"]["timeout"]["description"]
