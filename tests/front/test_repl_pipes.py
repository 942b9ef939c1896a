"""The shell through pipes, and what of it a terminal is needed for to see it at all: questions, an editor.

The rules it keeps have their tests in `tests/scenarios/test_pi_shell.py`, its commands in `test_slash.py`.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
from functools import partial

import pytest

from perdure.session.entry import Compaction
from perdure.session.session import Session
from perdure.session.stores import open_store
from perdure.testing import assistant_entry, tool_call_entry, tool_result_entry
from tests import processes
from tests.agent.models.wire_server import CUT, events, refuse, wire_server
from tests.front.one_prompt import HALF, called, pi, said, until
from tests.front.picked import talk
from tests.front.piped import Piped
from tests.front.terminal import Terminal

__all__ = ["pi", "wire_server"]

pytestmark = pytest.mark.process

PI = (sys.executable, "-m", "perdure")
SMALL_FILES = ("bash", "-c", 'ulimit -f 2; exec "$@"', "bash", *PI)


def answered(text: str):
    return assistant_entry(text, provider="custom", model="test")


def said_by_user(pi) -> list[str]:
    return [text for role, text in pi.messages() if role == "user"]


# --- what comes in ------------------------------------------------------------------------------------


def test_a_line_of_a_megabyte_is_one_message_where_a_model_reads_that_much(pi, wire_server):
    """And where it reads far less, that is said, as with --print, and the next line is heard."""
    wire_server.script(events(said("all of it")))
    address = f"{wire_server.url}/v1"
    small = {"id": "test", "base_url": address, "context_window": 8000}
    pi.use(wire_server, models=[small, {"id": "big", "base_url": address, "context_window": 2_000_000}])
    line = "wörd " * 170_000 + "end"
    done = pi(stdin=f"{line}\nhello\n/model big\n/new\n{line}\n")
    assert done.returncode == 0
    assert wire_server.requests[-1].body["messages"][-1]["content"] == line
    assert pi.messages() == [("user", line), ("assistant", "all of it")]
    told = [each for each in done.stderr.decode().splitlines() if "tokens" in each]
    assert len(told) == 1, done.stderr
    assert "custom/test reads 8,000" in told[0]


def test_a_message_in_the_arguments_is_answered_first_and_the_end_of_input_ends_it(pi, wire_server):
    """As from a script without a terminal, whose stdin is /dev/null."""
    wire_server.script(events(said("the answer")))
    pi.use(wire_server)
    done = pi("explain", "this", "code")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"the answer\n> \nResume: " in done.stdout
    assert pi.messages() == [("user", "explain this code"), ("assistant", "the answer")]


def test_started_without_stdin_it_ends_in_order_and_leaves_no_session(pi, wire_server):
    pi.use(wire_server)
    command = ["sh", "-c", 'exec "$@" <&-', "sh", *PI]
    done = processes.run(command, cwd=pi.project, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")
    assert pi.sessions.list_sessions() == []


# --- what goes out ------------------------------------------------------------------------------------


def test_a_reader_that_left_ends_it_with_141_and_all_that_was_said_is_kept(pi, wire_server):
    wire_server.script(events(said("one")), events(said("x" * 200_000 + "\n" + "y" * 200_000)))
    pi.use(wire_server)
    lines = pi.project / "lines"
    lines.write_text("hello\nmore\n")
    reading, writing = os.pipe()
    with (
        lines.open() as given,
        processes.Popen(PI, cwd=pi.project, stdin=given, stdout=writing, stderr=subprocess.PIPE) as process,
    ):
        os.close(writing)
        until(lambda: len(wire_server.requests) == 2)
        os.close(reading)
        _, told = process.communicate(timeout=20)
    assert (process.returncode, told) == (141, b"")
    assert said_by_user(pi) == ["hello", "more"]
    assert pi.messages()[1] == ("assistant", "one")


def has_prompts(terminal: Terminal, number: int) -> bool:
    return sum(line.startswith(">") for line in terminal.screen) == number


@pytest.mark.parametrize("way", ["stdin is a pipe", "stdout is a pipe", "a terminal that cannot draw"])
def test_g_1_there_is_no_escape_code_if_either_end_is_no_terminal(pi, wire_server, way):
    """Though the other one is a terminal with colours."""
    wire_server.script(events(said("an **answer**")))
    pi.use(wire_server)
    lines = ["hello", "/search answer", "/new", "/nope", "more"]
    piped = f"printf '%s\\n' {shlex.join(lines)} | {shlex.join(PI)}"
    command, term = {
        "stdin is a pipe": (("sh", "-c", piped), "xterm-256color"),
        "stdout is a pipe": (("sh", "-c", f"{shlex.join(PI)} | cat"), "xterm-256color"),
        "a terminal that cannot draw": (PI, "dumb"),
    }[way]
    with Terminal(*command, cwd=pi.project, env={**os.environ, "TERM": term}, rows=40) as terminal:
        for number, line in enumerate([] if "stdin" in way else [*lines, "\x04"], 1):
            terminal.until(partial(has_prompts, terminal, number))
            terminal.send(line if line == "\x04" else f"{line}\r")
        assert terminal.wait() == 0
    assert terminal.screen.count("an **answer**") == 2
    assert "Resume: " in "\n".join(terminal.screen)
    assert b"\x1b" not in terminal.raw


def test_a_model_that_fails_is_told_and_the_conversation_goes_on(pi, wire_server):
    """What was said to it is sent again with what is said next."""
    wire_server.script(
        refuse(401, b'{"error":{"message":"Incorrect API key"}}'),
        refuse(500, b'{"error":{"message":"out of order"}}'),
        events(HALF, CUT),
        events(said("at last")),
        events(said()),
        events(said("cut", reason="length")),
    )
    pi.use(wire_server, retry={"enabled": False})
    done = pi(stdin="one\ntwo\nthree\nfour\nfive\nsix\n")
    assert done.returncode == 1
    told = done.stderr.decode().splitlines()
    assert len(told) == 5
    for line, words in zip(
        told, ["Incorrect API key", "out of order", "broke off", "nothing", "Cut off"], strict=True
    ):
        assert words in line
    assert b"half an ans\n" in done.stdout
    assert said_by_user(pi) == ["one", "two", "three", "four", "five", "six"]
    sent = [message["content"] for message in wire_server.requests[3].body["messages"]]
    assert all(each in sent[-1] for each in ("one", "two", "three", "four"))


def test_an_attempt_that_broke_off_is_written_once_if_it_is_the_last_and_else_not_at_all(pi, wire_server):
    """What is written to a pipe cannot be taken back."""
    half = [events(said(f"try {number}\nhalf").partition(b"\n\n")[0] + b"\n\n", CUT) for number in range(5)]
    wire_server.script(*half[:2], events(said("whole")), *half[2:])
    pi.use(wire_server, retry={"base_delay_ms": 1, "max_retries": 2})
    done = pi(stdin="one\ntwo\n")
    assert b"whole\n> \ntry 4\nhalf\n> \n" in done.stdout
    assert done.stdout.count(b"half") == 1
    told = done.stderr.decode().splitlines()
    assert [line.count("retrying") for line in told] == [1, 1, 1, 1, 0]
    assert "broke off" in told[-1]
    assert [text for _, text in pi.messages()] == ["one", "whole", "two", "try 4\nhalf"]


def test_g_6_a_signal_while_a_retry_is_waited_for_shows_and_keeps_what_arrived(pi, wire_server):
    """Once, marked as interrupted."""
    wire_server.script(events(HALF, CUT))
    pi.use(wire_server, retry={"base_delay_ms": 60_000})
    with Piped(cwd=pi.project) as shell:
        shell.say("hello")
        shell.until(lambda: "retrying in 60 s" in shell.err)
        assert "half" not in shell.out
        shell.process.send_signal(signal.SIGTERM)
        assert shell.wait() == 143
    assert shell.out.count("half an ans\n") == 1
    assert pi.messages() == [("user", "hello"), ("assistant", "half an ans")]
    assert pi.last().stop_reason == "aborted"


def test_what_could_not_be_saved_is_said_at_once_and_nothing_acknowledged_is_lost(pi, wire_server):
    """The file may grow by so much. What is not on disk was not sent. An answer that does not fit waits, and
    what comes behind it cannot be saved before it; who leaves without it is told, by the exit code too."""
    wire_server.script(events(said("first answer")), events(said("z" * 3000)), events(said("third answer")))
    pi.use(wire_server)
    lines = ["first", "x" * 3000, "second", "third"]
    done = processes.run(
        SMALL_FILES, input="\n".join(lines).encode(), cwd=pi.project, capture_output=True, timeout=60
    )
    assert done.returncode == 1
    told = done.stderr.decode().splitlines()
    (name,) = [os.path.basename(path) for path in _files(pi)]
    assert all(line.startswith("perdure: Not saved: ") and f"{name}: File too large" in line for line in told)
    prompt, answer, next_one, end = told
    assert "kept in memory" not in prompt
    assert "kept in memory" in answer
    assert "kept in memory" in next_one
    assert end.endswith("what is shown above and not saved is lost; all that was saved before it is there")
    assert len(wire_server.requests) == 2  # neither the second line nor the last
    assert pi.messages() == [("user", "first"), ("assistant", "first answer"), ("user", "second")]
    assert pi("-c", stdin="").returncode == 0


def test_what_could_not_be_saved_is_back_in_the_editor(pi, wire_server):
    """At a terminal, to be sent when there is space again."""
    wire_server.script(events(said("first answer")))
    pi.use(wire_server)
    with Terminal(*SMALL_FILES, cwd=pi.project, rows=60) as terminal:
        terminal.until("custom/test")
        terminal.send("first\r")
        terminal.until("first answer")
        terminal.send("word " * 500 + "end\r")
        terminal.until("Not saved")
        terminal.until(lambda: any(line.endswith(" end") for line in terminal.screen))
        terminal.keys("c-c")
        terminal.send("second\r")
        terminal.until(lambda: len(wire_server.requests) == 2)
        terminal.until(lambda: "\n".join(terminal.screen).count("first answer") == 2)
        terminal.keys("c-d")
        assert terminal.wait() == 0
    assert said_by_user(pi) == ["first", "second"]


def _files(pi) -> list[str]:
    return [str(path) for path in (pi.home / ".pi" / "agent" / "sessions").rglob("*.jsonl")]


# --- going on -----------------------------------------------------------------------------------------


def test_who_resumes_sees_the_last_exchange_and_one_line_of_what_was_restored(pi, wire_server):
    """Tools and commands in it; a session that was condensed says so, and one that broke off, where."""
    pi.use(wire_server)
    talk(
        pi.project,
        "the first question",
        answered("the first answer"),
        "the last question",
        tool_call_entry("bash", {"command": "make"}),
        tool_result_entry("line\n" * 12),
        answered("the last answer"),
        hours=2,
        id="aaaa11111111",
    )
    talk(pi.project, "do it", tool_call_entry("bash", {"command": "rm x"}), hours=1, id="bbbb22222222")
    done = pi("--session", "aaaa", stdin="/resume bbbb\n")
    assert done.returncode == 0
    first, _, second = done.stdout.decode().partition("> \n")
    assert "the first" not in first
    assert first.index("make") < first.index("12 lines") < first.index("the last answer")
    assert "bash  interrupted: its result is not known" in second
    restored = [line for line in done.stderr.decode().splitlines() if line.startswith("Resumed")]
    assert restored == ["Resumed: 6 messages, with custom/test", "Resumed: 2 messages, with custom/test"]
    assert "the last question" in first
    assert first.index("the last question") < first.index("make")
    assert "do it" in second


def test_of_a_condensed_session_it_is_said_that_it_is(pi, wire_server):
    pi.use(wire_server)
    ref = talk(
        pi.project, "old " * 50, answered("older"), "a question", answered("newest"), id="aaaa11111111"
    )
    with Session.open(open_store("pi", cwd=str(pi.project)), ref) as session:
        kept = session.path()[2].id
        session.append(Compaction("what was said", kept, 1234))
    done = pi("-c", stdin="/session\n")
    assert done.returncode == 0
    assert b"newest" in done.stdout
    (restored,) = [line for line in done.stderr.decode().splitlines() if line.startswith("Resumed")]
    assert "summary" in restored
    assert "2 messages" in restored
    assert "custom/test" in restored
    assert "Messages   4" in done.stdout.decode()


def test_through_pipes_a_session_of_another_directory_stays_here_and_says_so(
    pi, wire_server, tmp_path_factory
):
    wire_server.script(events(said("ok")))
    pi.use(wire_server)
    other = tmp_path_factory.mktemp("other")
    talk(other, "far away", answered("indeed"), id="eeee11111111")
    done = pi("--session", "eeee", stdin="!pwd\n/new\n/resume eeee\n")
    assert done.returncode == 0
    (said_once, again) = [line for line in done.stderr.decode().splitlines() if "belongs to" in line]
    assert said_once == again
    assert said_once == f"This session belongs to {other}; staying in {pi.project}."
    assert f"  {pi.project}\n" in done.stdout.decode()


def test_at_a_terminal_a_session_of_another_directory_is_a_question(pi, wire_server, tmp_path_factory):
    """Esc opens nothing, and the conversation stays; then go there, bring one here as a fork, stay."""
    wire_server.script(events(said("in the fork")), events(said("still there")))
    pi.use(wire_server)
    other = tmp_path_factory.mktemp("other")
    far = talk(other, "far away", answered("indeed"), id="eeee11111111")
    near = talk(pi.project, "close by", answered("of course"), id="aaaa11111111")
    near_before = _read(near.path)
    with Terminal(*PI, cwd=pi.project, rows=50, columns=200) as terminal:
        terminal.until("custom/test")
        ours = terminal.screen[terminal.cursor[1] + 1]
        terminal.send("/resume eeee\r")
        terminal.until("Stay here")
        terminal.keys("escape")
        terminal.until("Nothing was opened")
        terminal.until(ours)
        terminal.send("/resume eeee\r")
        terminal.until("Stay here")
        terminal.keys("enter")
        terminal.until("Resumed: 2 messages")
        terminal.send("!pwd\r")
        terminal.until(f"  {other}")
        terminal.send("/resume aaaa\r")
        terminal.until("Stay here")
        terminal.keys("down", "enter")
        terminal.until("close by")
        terminal.until(lambda: "\n".join(terminal.screen).count("Resumed: 2 messages") == 2)
        terminal.send("!pwd\r")
        terminal.until(lambda: "\n".join(terminal.screen).count(f"  {other}") == 2)
        terminal.send("go on\r")
        terminal.until("in the fork")
        assert _read(near.path) == near_before
        terminal.send("/resume aaaa\r")
        terminal.until("Stay here")
        terminal.keys("down", "down", "enter")
        terminal.until(lambda: "\n".join(terminal.screen).count("Resumed: 2 messages") == 3)
        terminal.send("here too\r")
        terminal.until("still there")
        terminal.keys("c-d")
        assert terminal.wait() == 0
    assert _read(near.path).startswith(near_before)
    assert len(_read(near.path)) > len(near_before)
    assert [b"pwd" in line for line in _read(far.path).splitlines()][-1]
    titles = sorted(summary.title for summary in pi.sessions.list_sessions())
    assert titles == ["close by", "close by", "far away"]
    fork = next(path for path in _files(pi) if path not in (near.path, far.path))
    assert os.path.dirname(fork) == os.path.dirname(far.path)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def test_a_session_that_another_program_wrote_to_can_be_opened_anew(pi, wire_server):
    """As the error says: until then nothing more is saved, and then all of it is there."""
    wire_server.script(events(said("one")), events(said("two")))
    pi.use(wire_server)
    with Piped(cwd=pi.project) as shell:
        shell.say("first")
        shell.until("one\n> ")
        (path,) = _files(pi)
        *_, last = map(json.loads, _read(path).splitlines())
        foreign = {
            **last,
            "id": "f0f0f0f0",
            "parentId": last["id"],
            "message": {"role": "user", "content": "its"},
        }
        with open(path, "a") as file:
            file.write(json.dumps(foreign) + "\n")
        shell.say("second")
        shell.until(lambda: "was changed by another program; send it again" in shell.err)
        assert len(wire_server.requests) == 1
        shell.say(f"/resume {pi.sessions.list_sessions()[0].id}", "third")
        assert shell.leave() == 1  # the second line was not taken
    assert [text for _, text in pi.messages()] == ["first", "one", "its", "third", "two"]


def test_where_the_working_directory_is_gone_that_is_said(pi, wire_server):
    """And what was said before it went is kept."""
    wire_server.script(events(said("one")))
    pi.use(wire_server)
    gone = pi.project / "gone"
    gone.mkdir()
    with Piped(cwd=gone) as shell:
        shell.say("first")
        shell.until("one\n> ")
        gone.rmdir()
        shell.say("!pwd", "/export", "/new")
        code = shell.leave()
    assert "working directory does not exist" in shell.err
    assert [text for _, text in pi.messages()] == ["first", "one"]
    assert "Traceback" not in shell.err
    assert code == 0


# --- while it starts, and while it works --------------------------------------------------------------


def test_what_is_typed_before_the_editor_is_there_is_typed(pi, wire_server):
    """Who is quicker than the start of the program need not type it again."""
    wire_server.script(events(said("the answer")))
    pi.use(wire_server)
    with Terminal(*PI, cwd=pi.project) as terminal:
        terminal.send("hello\r")
        terminal.until("custom/test")
        terminal.until("the answer", 3)
        terminal.keys("c-d")
        assert terminal.wait() == 0
    assert said_by_user(pi) == ["hello"]


def test_lines_wait_in_the_pipe_while_the_agent_works(pi, wire_server):
    """A script's next line is the next message, and is not queued into the turn that runs."""
    wire_server.script(
        events(called(("a", "bash", {"command": "sleep 0.3; echo slept"}))),
        events(said("one")),
        events(said("two")),
    )
    pi.use(wire_server)
    done = pi(stdin="first\nsecond\n/quit\n")
    assert done.returncode == 0
    roles = [role for role, _ in pi.messages()]
    assert roles == ["user", "assistant", "toolResult", "assistant", "user", "assistant"]


def test_a_command_of_the_users_is_ended_by_sigint_and_kept(pi, wire_server):
    """With what it printed."""
    pi.use(wire_server)
    with Piped(cwd=pi.project) as shell:
        shell.say("!echo begun; touch begun; sleep 60")
        until((pi.project / "begun").exists)
        shell.process.send_signal(signal.SIGINT)
        shell.until("  begun", 5)
        assert shell.leave() == 0
    assert "Traceback" not in shell.err
    ran = pi.last()
    assert (ran.command, ran.cancelled) == ("echo begun; touch begun; sleep 60", True)
    assert "begun" in ran.output
