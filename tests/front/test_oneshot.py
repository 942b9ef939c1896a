"""`pi --print` from outside: a real process, real pipes and signals, and a server in place of the model."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure.session.manager import SessionManager
from tests.agent.models.wire_server import CUT, HANG, events, refuse, wire_server

__all__ = ["wire_server"]


def said(*texts: str, reason: str = "stop") -> bytes:
    """An answer in the chat protocol, a chunk a text."""
    chunks: list[Any] = [{"choices": [{"index": 0, "delta": {"content": text}}]} for text in texts]
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    chunks.append({"choices": [], "usage": usage})
    return b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"


def called(*calls: tuple[str, str, dict[str, Any]]) -> bytes:
    made = [
        {"index": at, "id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        for at, (id, name, args) in enumerate(calls)
    ]
    chunks = [
        {"choices": [{"index": 0, "delta": {"tool_calls": made}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    ]
    return b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks) + b"data: [DONE]\n\n"


HALF = b'data: {"choices":[{"index":0,"delta":{"content":"half an ans"}}]}\n\n'


class Pi:
    def __init__(self, home: Path, project: Path) -> None:
        self.home, self.project = home, project
        self.sessions = SessionManager()

    def use(self, server, **settings) -> None:
        agent = self.home / ".pi" / "agent"
        agent.mkdir(parents=True, exist_ok=True)
        model = {"id": "test", "base_url": f"{server.url}/v1", "context_window": 8000}
        retry = {"base_delay_ms": 10, "max_delay_ms": 2000}
        text = json.dumps({"models": [model], "default_model": "test", "retry": retry, **settings})
        (agent / "settings.json").write_text(text)

    def __call__(self, *words: str, stdin: str | bytes | None = None, **options):
        given = stdin.encode() if isinstance(stdin, str) else stdin
        fed = {"stdin": subprocess.DEVNULL} if given is None else {"input": given}
        command = [sys.executable, "-m", "perdure", *words]
        return subprocess.run(command, cwd=self.project, capture_output=True, timeout=60, **fed, **options)

    @contextmanager
    def started(self, *words: str):
        command = [sys.executable, "-m", "perdure", *words]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, cwd=self.project, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
        ) as process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()

    def messages(self) -> list[tuple[str, str]]:
        """Of the newest session, as another process reads them."""
        newest, *_ = self.sessions.list_sessions()
        return [(entry.role, entry.text) for entry in self.sessions.load_session(newest.id)]


@pytest.fixture
def pi(home, tmp_path):
    return Pi(home, tmp_path)


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
    done = pi("-p", "--mode", "json", "hello")
    header, *told = [json.loads(line) for line in done.stdout.splitlines()]
    assert (header["type"], header["version"], header["cwd"]) == ("session", 3, str(pi.project))
    assert header["id"] == pi.sessions.list_sessions()[0].id
    assert (told[0]["type"], told[-1]["type"]) == ("agent_start", "agent_end")
    assert told[-1]["messages"][-1]["content"][0]["text"] == "hi"


# --- which session ------------------------------------------------------------------------------------


def ask(pi, *words: str) -> list[str]:
    """What the model was sent, after a prompt in a session chosen like that."""
    done = pi("-p", *words)
    assert done.returncode == 0, done.stderr
    return [text for _, text in pi.messages()]


@pytest.fixture
def talked(pi, wire_server):
    """A session in which something was said."""
    wire_server.script(events(said("yes")))
    pi.use(wire_server)
    assert pi("-p", "-n", "the zebra talk", "the flaky zebra").returncode == 0
    pi.id = pi.sessions.list_sessions()[0].id
    return pi


def test_c_goes_on_with_the_newest_of_this_project(talked):
    assert ask(talked, "-c", "more") == ["the flaky zebra", "yes", "more", "yes"]
    assert len(talked.sessions.list_sessions()) == 1


def test_c_without_a_session_here_is_an_error_and_makes_none(pi, wire_server):
    pi.use(wire_server)
    done = pi("-p", "-c", "more")
    assert done.returncode == 3
    assert b"without -c" in done.stderr
    assert pi.sessions.list_sessions() == []


@pytest.mark.parametrize("text", ["id", "the zebra talk", "flaky"])
def test_r_goes_on_by_id_by_name_or_by_what_was_said(talked, text):
    text = talked.id[:6] if text == "id" else text
    assert ask(talked, "-r", text, "more")[-2:] == ["more", "yes"]
    assert len(talked.sessions.list_sessions()) == 1


def test_r_with_several_hits_lists_them_and_opens_none(talked):
    assert talked("-p", "another zebra").returncode == 0
    done = talked("-p", "-r", "zebra", "more")
    assert done.returncode == 3
    assert talked.id.encode() in done.stderr
    assert all(summary.message_count == 2 for summary in talked.sessions.list_sessions())


def test_r_with_no_hit_is_not_found(talked):
    assert talked("-p", "-r", "giraffe", "more").returncode == 3


@pytest.mark.parametrize("as_path", [False, True])
def test_session_goes_on_with_that_one_or_fails(talked, as_path, tmp_path_factory):
    """Also a file outside any home."""
    name = talked.id
    if as_path:
        (found,) = (talked.home / ".pi" / "agent" / "sessions").rglob(f"*{name}.jsonl")
        moved = tmp_path_factory.mktemp("elsewhere") / found.name
        found.rename(moved)
        name = str(moved)
    assert talked("-p", "--session", name, "more").returncode == 0
    if as_path:
        assert b'"more"' in moved.read_bytes()
    assert talked("-p", "--session", "nothing", "more").returncode == 3


def test_session_id_makes_it_once_and_then_goes_on_with_it(talked):
    for _ in range(2):
        assert talked("-p", "--session-id", "my-talk", "hello").returncode == 0
    assert {s.id: s.message_count for s in talked.sessions.list_sessions()}["my-talk"] == 4
    assert talked("-p", "--session-id", "../x", "hello").returncode == 2


def test_fork_leaves_the_original_as_it_was(talked):
    (path,) = (talked.home / ".pi" / "agent" / "sessions").rglob("*.jsonl")
    before = path.read_bytes()
    assert ask(talked, "--fork", talked.id, "other way") == ["the flaky zebra", "yes", "other way", "yes"]
    assert path.read_bytes() == before
    assert len(talked.sessions.list_sessions()) == 2


def test_a_fork_that_goes_on_elsewhere_is_of_the_project_it_goes_on_in(talked, tmp_path_factory):
    talked.project = tmp_path_factory.mktemp("other")
    done = talked("-p", "--fork", talked.id, "other way")
    assert (done.returncode, b"belongs to" in done.stderr) == (0, False)
    assert ask(talked, "-c", "more")[-4:] == ["other way", "yes", "more", "yes"]


def test_what_is_piped_in_must_be_text(pi, wire_server):
    pi.use(wire_server)
    assert pi("-p", "hello", stdin=b"\0\1").returncode == 2


def test_no_session_keeps_nothing(pi, wire_server):
    wire_server.script(events(said("secret")))
    pi.use(wire_server)
    done = pi("-p", "--no-session", "hello")
    assert (done.stdout, done.stderr) == (b"secret\n", b"")
    assert pi.sessions.list_sessions() == []


def test_a_session_of_another_directory_stays_here_and_says_so(talked, tmp_path_factory):
    talked.project = tmp_path_factory.mktemp("other")
    done = talked("-p", "--session", talked.id, "more")
    assert done.returncode == 0
    assert b"belongs to" in done.stderr


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
        (["x" * 60_000], 2, b"tokens, and custom/test reads 8,000"),
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


# --- failures, signals, readers that leave ------------------------------------------------------------


def test_a_model_that_fails_is_exit_1_with_its_reason(pi, wire_server):
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
    assert done.stderr.count(b"trying again") == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_g_6_a_signal_keeps_what_arrived_and_the_session_goes_on(pi, wire_server, number):
    wire_server.script(events(HALF, HANG), events(said("go on")))
    pi.use(wire_server)
    with pi.started("-p", "hello") as process:
        _until(lambda: wire_server.requests)
        time.sleep(0.2)  # so that the half answer arrives
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (128 + number, b"")
    assert b"Go on:" in err
    assert b"Traceback" not in err
    assert pi.messages() == [("user", "hello"), ("assistant", "half an ans")]
    assert pi("-p", "-c", "more").stdout == b"go on\n"


def test_a_signal_ends_the_command_that_runs(pi, wire_server):
    """With all that it started."""
    mark = f"31{os.getpid()}.5"
    wire_server.script(events(called(("a", "bash", {"command": f"sleep {mark} & sleep {mark}"}))))
    pi.use(wire_server)
    with pi.started("-p", "hello") as process:
        _until(lambda: _running(f"sleep {mark}") == 2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode == 130
    assert _running(f"sleep {mark}") == 0
    assert pi.messages()[-1][0] == "toolResult"


def test_g_6_a_second_signal_leaves_at_once_and_all_is_kept(pi, wire_server):
    """While a command that does not want to end is being ended."""
    mark = f"32{os.getpid()}.5"
    stubborn = f"trap '' TERM INT; sleep {mark} & wait; sleep {mark}"
    wire_server.script(events(called(("a", "bash", {"command": stubborn}))), events(said("go on")))
    pi.use(wire_server)
    with pi.started("-p", "hello") as process:
        _until(lambda: _running(f"sleep {mark}"))
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert [role for role, _ in pi.messages()] == ["user", "assistant", "toolResult"]
    assert pi("-p", "-c", "more").stdout == b"go on\n"


@pytest.mark.parametrize("delay", [0.15, 0.25, 0.35])
def test_g_7_a_signal_before_anything_is_said_leaves_no_session(pi, wire_server, delay):
    wire_server.script(events(HANG))
    pi.use(wire_server)
    with pi.started("-p", "hello") as process:
        time.sleep(delay)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode in (130, -signal.SIGINT)
    assert all(summary.message_count for summary in pi.sessions.list_sessions())


def test_c_does_not_go_on_with_a_session_in_which_nothing_was_said(talked, monkeypatch):
    monkeypatch.chdir(talked.project)
    made = SessionManager().create_session()
    assert ask(talked, "-c", "more")[0] == "the flaky zebra"
    assert {s.id: s.message_count for s in talked.sessions.list_sessions()}[made] == 0


def test_processes_that_want_one_session_id_at_once_make_it_once(talked):
    command = [sys.executable, "-m", "perdure", "-p", "--session-id", "same", "hello"]
    pipe = subprocess.DEVNULL
    started = [
        subprocess.Popen(command, cwd=talked.project, stdin=pipe, stdout=pipe, stderr=pipe) for _ in range(4)
    ]
    assert [process.wait(timeout=60) for process in started] == [0] * 4
    assert [s.message_count for s in talked.sessions.list_sessions() if s.id == "same"] == [8]


def test_an_answer_that_could_not_be_saved_is_shown_and_exit_1(pi, wire_server):
    """The file may grow by the prompt and no more."""
    wire_server.script(events(said("x" * 3000)))
    pi.use(wire_server)
    limited = ["bash", "-c", 'ulimit -f 2; exec "$@"', "bash", sys.executable, "-m", "perdure"]
    done = subprocess.run(
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
    with subprocess.Popen(command, cwd=pi.project, stdin=nowhere, stdout=pipe, stderr=pipe) as process:
        _until(lambda: wire_server.requests)
        process.send_signal(signal.SIGHUP)
        out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, b"half an answhole\n")


def test_kill_minus_9_leaves_the_prompt_and_the_next_call_goes_on(pi, wire_server):
    wire_server.script(events(HALF, HANG), events(said("go on")))
    pi.use(wire_server)
    with pi.started("-p", "hello") as process:
        _until(lambda: wire_server.requests)
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
    done = subprocess.run(
        [*limited, "-p", "hello"], cwd=pi.project, capture_output=True, timeout=60, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 1
    assert b"Not saved" in done.stderr
    assert wire_server.requests == []


def _until(condition, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def _running(command: str) -> int:
    count = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().decode().split("\0")
            except OSError:
                continue
            count += " ".join(words[:2]) == command
    return count
