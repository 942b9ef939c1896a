"""`pi --print` from outside: a real process, real pipes and signals, and a server in place of the model."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from tests import processes
from tests.agent.models.wire_server import CUT, HANG, READ, events, refuse, wire_server
from tests.front.one_prompt import HALF, called, pi, running, said, talked, until

__all__ = ["pi", "talked", "wire_server"]

pytestmark = pytest.mark.process


def test_pi_22_the_answer_alone_is_on_stdout(pi, wire_server):
    wire_server.script(events(said("Hello, ", "world")))
    pi.use(wire_server)
    done = pi("--print", "explain this code")
    assert (done.returncode, done.stdout) == (0, b"Hello, world\n")
    newest = pi.sessions.list_sessions()[0].id
    assert done.stderr.decode().strip().endswith(f" --session {newest} -p TEXT")
    assert done.stderr.count(b"\n") == 1
    assert pi.messages() == [("user", "explain this code"), ("assistant", "Hello, world")]


def test_pi_22_stdin_and_files_are_added_to_the_prompt(pi, wire_server):
    """In the order: what was piped, files, words."""
    wire_server.script(events(said("ok")))
    pi.use(wire_server)
    (pi.project / "notes.md").write_text("mind the gap\n")
    assert pi("-p", "@notes.md", "sum", "up", stdin="a diff\n").returncode == 0
    (_, prompt), _ = pi.messages()
    assert prompt == 'a diff\n<file name="notes.md">\nmind the gap\n\n</file>\nsum up'


def test_pi_22_an_image_is_sent_as_one(pi, wire_server):
    wire_server.script(events(said("a dot")))
    model = {"id": "test", "base_url": f"{wire_server.url}/v1", "input": ["text", "image"]}
    pi.use(wire_server, models=[model])
    (pi.project / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0" * 20)
    assert pi("-p", "what is this?", "@dot.png").returncode == 0
    content = wire_server.requests[0].body["messages"][-1]["content"]
    assert content[1]["image_url"]["url"].startswith("data:image/png;base64,")


def test_what_is_piped_in_must_be_text(pi, wire_server):
    pi.use(wire_server)
    assert pi("-p", "hello", stdin=b"\0\1").returncode == 2


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_is_read_in_the_encoding_its_first_bytes_tell(pi, wire_server, encoding):
    wire_server.script(events(said("ok")))
    pi.use(wire_server)
    (pi.project / "notes.md").write_text("mind the gäp", encoding=encoding)
    assert pi("-p", "@notes.md", stdin="täxt".encode(encoding)).returncode == 0
    assert pi.messages()[0][1] == 'täxt\n<file name="notes.md">\nmind the gäp\n</file>'


def test_tools_run_and_only_the_last_answer_is_printed(pi, wire_server):
    calls = called(("a", "bash", {"command": "echo from bash"}), ("b", "ls", {}))
    wire_server.script(events(calls), events(said("done")))
    pi.use(wire_server)
    (pi.project / "x.txt").write_text("")
    assert pi("-p", "go").stdout == b"done\n"
    sent = wire_server.requests[1].body["messages"]
    assert [(m["role"], m["content"].strip()) for m in sent[-2:]] == [
        ("tool", "from bash"),
        ("tool", "x.txt"),
    ]


def test_mode_json_is_the_header_and_one_event_a_line(pi, wire_server):
    wire_server.script(events(said("hi")))
    pi.use(wire_server)
    done = pi("--mode", "json", "hello")  # which implies --print
    header, *told = [json.loads(line) for line in done.stdout.splitlines()]
    assert (header["type"], header["version"], header["cwd"]) == ("session", 3, str(pi.project))
    assert header["id"] == pi.sessions.list_sessions()[0].id
    assert (told[0]["type"], told[-1]["type"]) == ("agent_start", "agent_end")
    assert told[-1]["messages"][-1]["content"][0]["text"] == "hi"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["-c", "--session", "x", "hello"], 2, b"mean different sessions"),
        (["--at", "x", "hello"], 2, b"--at goes with --fork"),
        (["--session", "", "hello"], 2, b"ID is empty"),
        ([], 2, b"There is no prompt"),
        (["@missing", "hello"], 2, b"Cannot read @missing: there is no such file"),
        (["--tools", "rd", "hello"], 2, b"There is no tool 'rd'"),
        (["--tools", "", "hello"], 2, b"--tools names no tool"),
        (["-m", "gpt-4oo", "hello"], 1, b"gpt-4o"),
        (["-m", "openai/gpt-4o", "hello"], 1, b"OPENAI_API_KEY"),
        (["-C", "nowhere", "hello"], 1, b"Cannot go to nowhere"),
        (["--system-prompt", "gone.md", "hello"], 2, b"There is no file 'gone.md'"),
        (["x" * 80_000], 1, b"about 20,000 tokens, and custom/test reads 8,000"),
        (["x" * 80_000], 1, b"`contextWindow`"),
        (["--fork", "x", "--at", "", "hello"], 2, b"ENTRY is empty"),
        (["-r", "hello"], 2, b"'hello' was taken as what to resume"),
        (["--mode", "xml", "hello"], 2, b"none of text, json"),
    ],
)
def test_g_5_what_is_wrong_is_said_in_one_line_and_nothing_is_left(pi, wire_server, words, code, says):
    """No session, no traceback, no request."""
    pi.use(wire_server)
    done = pi("-p", *words)
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert done.stdout == b""
    assert pi.sessions.list_sessions() == []
    assert wire_server.requests == []


def test_whether_a_prompt_is_too_long_says_the_provider_unless_it_is_far_too_long(pi, wire_server):
    """Its tokens are only estimated here, and this one may well have half as many."""
    wire_server.script(events(said("fits")))
    pi.use(wire_server)
    assert pi("-p", "x" * 60_000).stdout == b"fits\n"


# --- what the options ask for -------------------------------------------------------------------------


def system(body) -> str:
    return body["messages"][0]["content"]


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ([], lambda body: body["model"] == "test" and len(body["tools"]) == 7),
        (["-m", "thinker"], lambda body: body["model"] == "thinker"),
        (["-m", "thinker", "--thinking", "high"], lambda body: body["reasoning_effort"] == "high"),
        (["-m", "thinker", "--thinking", "low"], lambda body: body["reasoning_effort"] == "low"),
        (["--no-tools"], lambda body: "tools" not in body),
        (
            ["--tools", "read, ls"],
            lambda body: [tool["function"]["name"] for tool in body["tools"]] == ["read", "ls"],
        ),
        (["--system-prompt", "Be a cat."], lambda body: system(body).startswith("Be a cat.\n\n")),
        (["--system-prompt", "cat.md"], lambda body: system(body).startswith("Be a file.\n\n")),
        (
            ["--append-system-prompt", "Be brief.", "--append-system-prompt=Be kind."],
            lambda body: (
                "You are a coding agent" in system(body) and "Be brief.\n\nBe kind.\n\n" in system(body)
            ),
        ),
        (
            ["--append-system-prompt", "cat.md", "--append-system", "Be kind."],
            lambda body: "Be a file.\n\nBe kind.\n\n" in system(body),
        ),
        (["-C", "inside"], lambda body: system(body).rstrip().endswith("/inside")),
    ],
)
def test_what_an_option_says_is_asked_of_the_model(pi, wire_server, words, asked):
    wire_server.script(events(said("ok")))
    models = [
        {"id": "test", "base_url": f"{wire_server.url}/v1"},
        {"id": "thinker", "base_url": f"{wire_server.url}/v1", "reasoning": True},
    ]
    pi.use(wire_server, models=models)
    (pi.project / "inside").mkdir()
    (pi.project / "cat.md").write_text("Be a file.")
    done = pi("-p", *words, "hello")
    assert done.returncode == 0, done.stderr
    (request,) = wire_server.requests
    assert asked(request.body), request.body


@pytest.mark.parametrize(("words", "model"), [([], "other"), (["-m", "test"], "test")])
def test_g_9_the_variable_names_the_model_unless_an_option_does(pi, wire_server, monkeypatch, words, model):
    wire_server.script(events(said("ok")))
    pi.use(wire_server, models=[{"id": id, "base_url": f"{wire_server.url}/v1"} for id in ("test", "other")])
    monkeypatch.setenv("PERDURE_MODEL", "other")
    assert pi("--print", *words, "hello").returncode == 0
    assert wire_server.requests[0].body["model"] == model


# --- at a terminal ------------------------------------------------------------------------------------


def test_that_time_passes_is_shown_and_nothing_of_it_stays(pi, wire_server):
    def slowly():
        whole = iter(events(said("Hello"))())
        yield next(whole)
        time.sleep(2.5)
        yield from whole

    wire_server.script(slowly)
    pi.use(wire_server)
    child = processes.spawn(
        [*processes.PI, "-p", "hello"],
        cwd=pi.project,
        dimensions=(10, 60),
        env=dict(os.environ, TERM="xterm", NO_COLOR="1"),
        timeout=20,
    )
    text = child.read().replace("\r\n", "\n")
    child.close()
    assert child.exitstatus == 0
    assert re.search(r"\rWaiting for custom/test \([12] s\)\x1b\[K", text)
    assert "\n" not in text[text.index("\r") : text.rindex("\r")]  # each is drawn over the one before
    last = text[text.rindex("\r") :]
    assert last.startswith("\r\x1b[KHello\nGo on: ")
    assert last.count("\n") == 2


# --- failures, signals, readers that leave ------------------------------------------------------------


def test_pi_22_a_model_that_fails_is_exit_1_with_its_reason(pi, wire_server):
    wire_server.script(refuse(401, b'{"error":{"message":"Incorrect API key provided"}}'))
    pi.use(wire_server)
    done = pi("-p", "hello")
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"key" in done.stderr
    assert pi.messages()[0] == ("user", "hello")


def test_a_busy_model_is_asked_again(pi, wire_server):
    busy = refuse(429, b'{"error":{"message":"slow down"}}', {"Retry-After": "0"})
    wire_server.script(busy, events(HALF, CUT), events(said("whole")))
    pi.use(wire_server)
    done = pi("-p", "hello")
    assert (done.returncode, done.stdout) == (0, b"whole\n")
    assert done.stderr.count(b"; retrying in ") == 2
    assert pi.messages() == [("user", "hello"), ("assistant", "whole")]


def test_an_attempt_that_broke_off_is_in_the_events_and_its_end_is_that_it_is_retried(pi, wire_server):
    """So that whoever reads them knows that nothing of it is kept."""
    wire_server.script(events(HALF, CUT), events(said("whole")))
    pi.use(wire_server)
    told = [json.loads(line) for line in pi("--mode", "json", "hello").stdout.splitlines()]
    at = next(at for at, event in enumerate(told) if event["type"] == "auto_retry_start")
    before, after = told[:at], told[at:]
    assert before[-1]["assistantMessageEvent"]["error"]["content"][0]["text"] == "half an ans"
    assert [event["message"]["role"] for event in before if event["type"] == "message_end"] == ["user"]
    (whole,) = [event["message"] for event in after if event["type"] == "message_end"]
    assert (whole["role"], whole["content"][0]["text"]) == ("assistant", "whole")


def test_g_6_a_signal_while_a_retry_is_waited_for_keeps_what_arrived(pi, wire_server):
    wire_server.script(events(HALF, CUT), events(said("go on")))
    pi.use(wire_server, retry={"base_delay_ms": 60_000})
    with pi.started("-p", "hello") as process:
        assert b"retrying in 60 s" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) == (143, b"")
    assert pi.messages() == [("user", "hello"), ("assistant", "half an ans")]
    assert pi.last().stop_reason == "aborted"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_g_6_a_signal_keeps_what_arrived_and_the_session_goes_on(pi, wire_server, number):
    wire_server.script(events(HALF, READ, HANG), events(said("go on")))
    pi.use(wire_server)
    with pi.started("-p", "hello") as process:
        until(lambda: wire_server.reads)
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (128 + number, b"")
    assert b"Go on:" in err
    assert b"Traceback" not in err
    assert pi.messages() == [("user", "hello"), ("assistant", "half an ans")]
    assert pi.last().stop_reason == "aborted"
    assert pi("-p", "-c", "more").stdout == b"go on\n"


def test_a_signal_ends_the_command_that_runs(pi, wire_server):
    """With all that it started."""
    mark = f"31{os.getpid()}.5"
    wire_server.script(events(called(("a", "bash", {"command": f"sleep {mark} & sleep {mark}"}))))
    pi.use(wire_server)
    with pi.started("-p", "hello") as process:
        until(lambda: running(f"sleep {mark}") == 2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode == 130
    assert running(f"sleep {mark}") == 0
    assert pi.messages()[-1][0] == "toolResult"


def test_g_6_a_second_signal_leaves_at_once_and_all_is_kept(pi, wire_server):
    """While a command that does not want to end is being ended."""
    mark = f"32{os.getpid()}.5"
    stubborn = f"trap '' TERM INT; sleep {mark} & wait; sleep {mark}"
    wire_server.script(events(called(("a", "bash", {"command": stubborn}))), events(said("go on")))
    pi.use(wire_server)
    with pi.started("-p", "hello") as process:
        until(lambda: running(f"sleep {mark}"))
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert [role for role, _ in pi.messages()] == ["user", "assistant", "toolResult"]
    assert pi("-p", "-c", "more").stdout == b"go on\n"


@pytest.mark.parametrize("delay", [0, 0.03, 0.1])
def test_g_7_a_signal_before_anything_is_said_leaves_no_session(pi, home, wire_server, delay):
    """From the moment at which there is one. Before that, Python itself may be what is interrupted."""
    wire_server.script(events(HANG))
    pi.use(wire_server)
    with pi.started("-p", "hello") as process:
        until(lambda: [*(home / ".pi").rglob("*.jsonl")])
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode in (130, -signal.SIGINT)
    assert all(summary.message_count for summary in pi.sessions.list_sessions())


def test_an_answer_that_could_not_be_saved_is_shown_and_exit_1(pi, wire_server):
    """The file may grow by the prompt and no more."""
    wire_server.script(events(said("x" * 3000)))
    pi.use(wire_server)
    limited = ["bash", "-c", 'ulimit -f 2; exec "$@"', "bash", sys.executable, "-m", "perdure"]
    done = processes.run(
        [*limited, "-p", "hello"], cwd=pi.project, capture_output=True, timeout=60, stdin=subprocess.DEVNULL
    )
    assert (done.returncode, done.stdout) == (1, b"x" * 3000 + b"\n")
    assert b"Not saved" in done.stderr
    assert pi.messages() == [("user", "hello")]


def test_a_signal_that_somebody_wants_ignored_is(pi, wire_server):
    """As under nohup."""
    wire_server.script(events(HALF, b": wait\n\n", said("whole")))
    pi.use(wire_server)
    command = ["nohup", sys.executable, "-m", "perdure", "-p", "hello"]
    pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
    with processes.Popen(command, cwd=pi.project, stdin=nowhere, stdout=pipe, stderr=pipe) as process:
        until(lambda: wire_server.requests)
        process.send_signal(signal.SIGHUP)
        out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, b"half an answhole\n")


def test_kill_minus_9_leaves_the_prompt_and_the_next_call_goes_on(pi, wire_server):
    wire_server.script(events(HALF, HANG), events(said("go on")))
    pi.use(wire_server)
    with pi.started("-p", "hello") as process:
        until(lambda: wire_server.requests)
        process.kill()
        process.communicate()
    assert pi.messages() == [("user", "hello")]
    assert pi("-p", "-c", "more").stdout == b"go on\n"


@pytest.mark.parametrize("mode", ["text", "json"])
def test_a_reader_that_left_does_not_harm_the_session(pi, wire_server, mode):
    wire_server.script(events(said("x" * 200_000)))
    pi.use(wire_server)
    with pi.started("-p", "--mode", mode, "hello") as process:
        while mode == "json" and b'"message_end"' not in process.stdout.readline():
            pass  # before that, nothing was said
        process.stdout.close()
        process.wait(timeout=20)
        err = process.stderr.read()
    assert process.returncode == 141
    assert b"Traceback" not in err
    assert [role for role, _ in pi.messages()] == ["user", "assistant"]


def test_what_could_not_be_saved_is_never_exit_0(pi, wire_server):
    """The disk is full before the first word is said, and no request is made."""
    pi.use(wire_server)
    limited = ["bash", "-c", 'ulimit -f 0; exec "$@"', "bash", sys.executable, "-m", "perdure"]
    done = processes.run(
        [*limited, "-p", "hello"], cwd=pi.project, capture_output=True, timeout=60, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 1
    assert b"Not saved" in done.stderr
    assert wire_server.requests == []
