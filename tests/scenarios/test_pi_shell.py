"""The shell of `pi`, driven from outside: PI-23, and the rules G-1 and G-3 to G-10 as it keeps them."""

import json
import os
import re
import shlex
import signal
import stat
import sys
import threading
import time
from pathlib import Path

import pytest

from perdure.agent.aside import PATIENCE
from perdure.front.slash import COMMANDS
from perdure.session.session import Session
from perdure.session.stores import open_store
from perdure.testing import assistant_entry
from tests import processes
from tests.agent.models.wire_server import HANG, READ, events, wire_server
from tests.front.one_prompt import HALF_A_LINE, called, pi, said, until
from tests.front.picked import talk
from tests.front.piped import Piped
from tests.front.terminal import Terminal

__all__ = ["pi", "wire_server"]

pytestmark = pytest.mark.process

PI = (sys.executable, "-m", "perdure")
CONTROL = re.compile(rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")


def answered(text: str):
    """By the model that the tests' server is."""
    return assistant_entry(text, provider="custom", model="test")


def files(home: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (home / ".pi" / "agent" / "sessions").rglob("*.jsonl")}


def resume_command(out: str) -> str:
    return out.rstrip().splitlines()[-1].removeprefix("Resume: ")


def at_prompt(terminal: Terminal, text: str) -> None:
    """Until the text is there, and below it what is typed next."""
    terminal.until(lambda: re.search(rf"{re.escape(text)}.*\n>", "\n".join(terminal.screen), re.DOTALL))


# --- G-1, G-3 -----------------------------------------------------------------------------------------


def test_g_1_through_pipes_a_line_is_a_message_and_only_plain_text_comes_back(
    pi, wire_server, monkeypatch, home
):
    """Whatever the line ends, the bytes and the answers are; the end of input is a clean exit, all saved."""
    monkeypatch.setenv("TERM", "xterm-256color")
    hostile = "\x1b[31mred\x1b]0;owned\x07 \x9b2J"
    wire_server.script(
        events(said("**first**\n\n", "  of all\tno, ", "second")),
        events(called(("a", "bash", {"command": r"printf '\033[2J\r\007done\n'"}))),
        events(said(hostile)),
        events(said("third")),
    )
    pi.use(wire_server)
    done = pi(stdin=b"one\r\n\n  \nnext \xff\xfe w\xc3\xb6rd\nlast, without an end")
    assert (done.returncode, done.stderr) == (0, b"")
    assert CONTROL.findall(done.stdout.replace(b"\t", b"")) == []
    out = done.stdout.decode()
    assert out.splitlines().count("> ") == 6  # before each line, and before the end
    assert out.index("**first**\n\n  of all") < out.index("bash") < out.index("red") < out.index("third")
    assert [text for role, text in pi.messages() if role == "user"] == [
        "one",
        "next \ufffd\ufffd wörd",
        "last, without an end",
    ]
    assert pi.messages()[-1] == ("assistant", "third")
    assert len(files(home)) == 1


def test_g_3_what_was_said_is_on_disk_before_the_next_step_and_outlives_kill_9(pi, wire_server):
    """Seen by another process, whenever the model is asked. The next start goes on with all of it."""
    seen = []

    def looked_at(step):
        def answer():
            seen.append([role for role, _ in pi.messages()])
            yield from step()

        return answer

    calls = called(("a", "bash", {"command": "echo one"}))
    wire_server.script(*map(looked_at, (events(calls), events(said("two")), events(HALF_A_LINE, HANG))))
    pi.use(wire_server)
    with Piped(cwd=pi.project) as shell:
        shell.say("go", "more")
        shell.until(lambda: len(seen) == 3)
        shell.process.kill()
    first = ["user"]
    second = [*first, "assistant", "toolResult"]
    assert seen == [first, second, [*second, "assistant", "user"]]
    wire_server.script(events(said("back")))
    done = pi("-c", stdin="and?\n")
    assert done.returncode == 0
    sent = [message["content"] for message in wire_server.requests[-1].body["messages"]]
    assert "go" in sent
    assert "more" in sent[-1]
    assert "and?" in sent[-1]


# --- G-4, G-5 -----------------------------------------------------------------------------------------


def test_g_4_resume_takes_any_id_any_beginning_of_one_a_name_and_words(pi, wire_server):
    """What is ambiguous lists the candidates, what is unknown the nearest, and the conversation stays."""
    wire_server.script(events(said("ok")))
    pi.use(wire_server)
    talk(pi.project, "the flaky zebra", answered("stripes"), hours=3, id="aaaa11111111")
    talk(pi.project, "the tall giraffe", answered("a neck"), hours=2, id="aaaa22222222")
    talk(pi.project, "the zebra again", answered("more stripes"), hours=1, id="bbbb33333333")
    done = pi(
        stdin="""\
/resume aaaa
/resume zebra
/resume aaaa22222223
/session
/resume aaaa11111111
/session
/resume giraffe
/session
/resume pi:bbbb
/name my zebra talk
/resume pi:aaaa1
/resume my zebra talk
/resume bbbb3
hello
"""
    )
    assert done.returncode == 0
    err = done.stderr.decode()
    assert "2 sessions match 'aaaa':\n  pi:aaaa11111111" in err
    assert "  pi:aaaa22222222" in err
    assert "2 sessions match 'zebra':\n" in err
    (unknown,) = re.findall(r"Session not found: aaaa22222223.*", err)
    assert "aaaa22222222" in unknown
    assert re.findall(r"Session +(\w+)\n", done.stdout.decode())[1:] == ["aaaa11111111", "aaaa22222222"]
    assert [entry.text for entry in pi.sessions.load_session("bbbb")][-2:] == ["hello", "ok"]
    assert len(pi.sessions.list_sessions()) == 3  # the one it began with is gone


def test_g_5_what_is_wrong_is_one_sentence_on_stderr_and_the_conversation_goes_on(pi, wire_server):
    """With the name of the file where there is one, and no traceback; in the end all is well: 0."""
    wire_server.script(events(said("ok")))
    pi.use(wire_server)
    wrong = {
        "/nope": "no command /nope",
        "/expnad": "did you mean /expand?",
        "/resume zzz": "Session not found: zzz",
        "/export nowhere/x.md": "nowhere/x.md: there is no folder",
        "/export .": "is a folder",
        "/model tset": "nearest: custom/test",
        "/fork zzz": "Entry not found: zzz",
        "/expand x": "/expand takes a number",
        "/search": "/search needs a word",
        "/name": "/name needs a name",
        "!": "no command behind the !",
    }
    done = pi(stdin="\n".join(["hello", *wrong, "still here?"]))
    assert done.returncode == 0
    told = done.stderr.decode().splitlines()
    assert len(told) == len(wrong)
    for line, sentence in zip(told, wrong.values(), strict=True):
        assert line.startswith("perdure: ")
        assert sentence in line
    assert [text for role, text in pi.messages() if role == "user"] == ["hello", "still here?"]


def test_g_5_a_start_that_fails_has_its_exit_code_and_leaves_no_session(pi, wire_server):
    """1 failed, 2 usage, 3 not found or ambiguous, 4 held, with whoever holds it; nothing on stdout."""
    pi.use(wire_server)
    store = open_store("pi", cwd=str(pi.project))
    ref = talk(pi.project, "the zebra", answered("yes"), id="aaaa11111111")
    talk(pi.project, "the zebra", answered("no"), id="aaaa22222222")
    with Session.open(store, ref):
        for words, code, says in [
            (["-m", "tset"], 1, "Unknown model 'tset'; nearest: custom/test"),
            (["say", "something"], 2, "There is a message, and stdin is no terminal"),
            (["--session", "aaaa11111112"], 3, "Session not found: aaaa11111112"),
            (["-r", "zebra"], 3, "2 sessions match 'zebra':\n  pi:aaaa"),
            (["-r"], 3, "pi:aaaa22222222 (the zebra)"),
            (["--session", "aaaa1"], 4, f"Session aaaa11111111 is held by process {os.getpid()}"),
        ]:
            done = pi(*words, stdin="hello\n")
            assert (done.returncode, done.stdout) == (code, b""), (words, done)
            assert says in done.stderr.decode()
            assert done.stderr.count(b"\n") == (3 if "-r" in words else 1)
        done = pi(stdin="/resume aaaa1\n/session\n")
    assert done.returncode == 0
    assert f"is held by process {os.getpid()}".encode() in done.stderr
    assert b"aaaa1111" not in done.stdout
    assert wire_server.requests == []
    assert len(pi.sessions.list_sessions()) == 2


# --- G-6, G-7 -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("keys", "code"), [("c-c", 130), ("c-d", 4)])
def test_g_5_g_6_ctrl_c_and_ctrl_d_end_the_wait_of_one_prompt_for_a_held_session(pi, wire_server, keys, code):
    """At once. Who does not wait for the 10 s has no answer: the session is still held."""
    pi.use(wire_server)
    store = open_store("pi", cwd=str(pi.project))
    ref = talk(pi.project, "the zebra", answered("yes"), id="aaaa11111111")
    with (
        Session.open(store, ref),
        Terminal(*PI, "-p", "more", "--session", "aaaa1", cwd=pi.project) as terminal,
    ):
        terminal.until("to stop waiting.")
        pressed = time.monotonic()
        terminal.keys(keys)
        assert terminal.wait() == code
        assert time.monotonic() - pressed < PATIENCE / 2
        shown = " ".join(line for line in terminal.scrollback if line)
    held = f"Session aaaa11111111 is held by process {os.getpid()}"
    assert f"{held}; waiting up to 10 s" in shown
    assert (f": {held}" in shown) == (code == 4)
    assert wire_server.requests == []


def test_g_6_sigint_ends_the_turn_and_keeps_what_arrived_and_a_second_one_leaves(pi, wire_server):
    half = events(HALF_A_LINE, READ, HANG)
    wire_server.script(half, events(said("go on")), half)
    pi.use(wire_server)
    with Piped(cwd=pi.project) as shell:
        shell.say("hello")
        shell.until(lambda: wire_server.reads == 1)
        assert "half" not in shell.out  # which may still break off, and come anew
        shell.process.send_signal(signal.SIGINT)
        shell.until(lambda: "Interrupted" in shell.err)
        assert wire_server.gone.wait(60)
        assert pi.messages() == [("user", "hello"), ("assistant", "half an answer\n")]
        assert pi.last().stop_reason == "aborted"
        shell.say("more")
        shell.until("go on")
        shell.say("and again")
        shell.until(lambda: wire_server.reads == 2)
        assert shell.leave_by_ctrl_c() == 130
    assert "Traceback" not in shell.err
    assert (shell.out.count("half an answer"), shell.out.count("Resume: ")) == (2, 1)
    assert [text for _, text in pi.messages()][-2:] == ["and again", "half an answer\n"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_g_6_a_signal_that_ends_it_in_the_middle_of_an_answer_loses_nothing(pi, wire_server, number):
    wire_server.script(events(said("one")), events(HALF_A_LINE, READ, HANG))
    pi.use(wire_server)
    with Piped(cwd=pi.project) as shell:
        shell.say("hello", "more")
        shell.until(lambda: wire_server.reads)
        shell.process.send_signal(number)
        assert shell.wait() == 128 + number
    assert "Traceback" not in shell.err
    assert [text for _, text in pi.messages()] == ["hello", "one", "more", "half an answer\n"]
    assert pi.last().stop_reason == "aborted"
    assert resume_command(shell.out).endswith(f"--session {pi.sessions.list_sessions()[0].id}")


def test_g_6_at_a_terminal_esc_ends_the_turn_and_ctrl_c_twice_leaves(pi, wire_server):
    wire_server.script(events(HALF_A_LINE, HANG))
    pi.use(wire_server)
    with Terminal(*PI, cwd=pi.project) as terminal:
        terminal.until("custom/test")
        terminal.send("hello\r")
        terminal.until("half an answer")
        terminal.keys("escape")
        terminal.until("Interrupted")
        terminal.keys("c-c")
        terminal.until("again leaves")
        terminal.keys("c-c")
        assert terminal.wait() == 130
        terminal.until("Resume: ")
    assert [text for _, text in pi.messages()] == ["hello", "half an answer\n"]
    assert pi.last().stop_reason == "aborted"


def test_g_7_help_lists_every_command_and_the_last_line_resumes_when_it_is_run(pi, wire_server, monkeypatch):
    """Copied into a shell, in the same folder."""
    monkeypatch.setenv("PATH", os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
    wire_server.script(events(said("the first answer")), events(said("the second")))
    pi.use(wire_server)
    done = pi(stdin="/help\nhello\n")
    out = done.stdout.decode()
    listed = re.findall(r"^/(\S+)", out, re.MULTILINE)
    assert {*COMMANDS, "compact", "name"} <= {*listed}
    assert len({*listed}) == len(listed)
    again = processes.run(
        ["sh", "-c", resume_command(out)], input=b"more\n", cwd=pi.project, capture_output=True, timeout=60
    )
    assert again.returncode == 0, again.stderr
    assert b"the first answer" in again.stdout
    assert [text for _, text in pi.messages()] == ["hello", "the first answer", "more", "the second"]
    assert resume_command(again.stdout.decode()) == resume_command(out)


def test_g_7_a_session_in_which_nothing_was_said_leaves_no_file_and_no_such_line(pi, wire_server, home):
    """Nor do those that it goes to in between, a fork among them."""
    pi.use(wire_server)
    talk(pi.project, "the zebra", answered("yes"), id="aaaa11111111")
    before = files(home)
    quiet = "/help\n/name x\n/model offline\n/nope\n/new\n/session\n"
    done = pi(stdin=quiet)
    assert (done.returncode, files(home)) == (0, before)
    assert b"Resume" not in done.stdout
    said_nothing = "/session\n/tree\n/new\n/resume aaaa\n/fork\n/session\n/exit\nnot said\n"
    done = pi("--fork", "aaaa", "-n", "named", "-m", "offline", stdin=said_nothing)
    assert (done.returncode, files(home)) == (0, before)
    assert b"--session" not in done.stdout
    assert wire_server.requests == []


# --- G-8 to G-10 --------------------------------------------------------------------------------------


def everything_is_private(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        expected = 0o700 if path.is_dir() else 0o600
        assert oct(stat.S_IMODE(path.stat().st_mode)) == oct(expected), path


def test_g_8_all_that_a_shell_writes_is_its_owners_alone_and_under_one_home(
    pi, home, tmp_path_factory, monkeypatch
):
    """On a machine on which there is nothing yet, whatever the umask: sessions, locks, history, catalog."""
    before = os.umask(0)
    try:
        with Terminal(*PI, cwd=pi.project) as terminal:
            terminal.until("offline/offline")
            terminal.send("hello\r")
            terminal.until("I can answer a few kinds")
            terminal.send("/search hello\r")
            at_prompt(terminal, "--entry")
            terminal.keys("c-d")
            assert terminal.wait() == 0
        elsewhere = tmp_path_factory.mktemp("elsewhere") / "deep" / "agent"
        monkeypatch.setenv("PI_CODING_AGENT_DIR", str(elsewhere))
        known = {path for path in home.rglob("*") if ".cache" not in path.parts}
        with Terminal(*PI, cwd=pi.project) as terminal:
            terminal.until("offline/offline")
            terminal.send("hello\r")
            terminal.until("I can answer a few kinds")
            terminal.keys("c-d")
            assert terminal.wait() == 0
    finally:
        os.umask(before)
    assert list(pi.project.iterdir()) == []
    assert {path.name for path in home.iterdir()} == {".pi", ".cache"}
    assert {path for path in home.rglob("*") if ".cache" not in path.parts} == known
    for place in (home / ".pi" / "agent", elsewhere):
        assert "hello" in (place / "shell-history").read_text()
        assert [path.suffix for path in (place / "sessions").rglob("*.jsonl")] == [".jsonl"]
    everything_is_private(home / ".cache" / "perdure")
    everything_is_private(elsewhere.parent)
    everything_is_private(home / ".pi")


def test_g_9_an_option_then_the_variable_then_the_settings_then_the_default(pi, wire_server, monkeypatch):
    """Whoever answers is named by /model, and is who is asked."""
    wire_server.script(events(said("ok")))
    assert "offline/offline" in pi(stdin="/model\n").stdout.decode()
    models = [{"id": id, "base_url": f"{wire_server.url}/v1"} for id in ("test", "other", "third")]
    pi.use(wire_server, models=models)
    assert "\ncustom/test\n" in pi(stdin="/model\n").stdout.decode()
    monkeypatch.setenv("PERDURE_MODEL", "other")
    assert "\ncustom/other\n" in pi(stdin="/model\nhello\n").stdout.decode()
    done = pi("-m", "third", stdin="/model\nhello\n/new\nhello\n/model test\nhello\n")
    assert "\ncustom/third\n" in done.stdout.decode()
    asked = [request.body["model"] for request in wire_server.requests]
    assert asked == ["other", "third", "third", "test"]


@pytest.fixture
def bringing(pi, wire_server):
    """A project that brings a model and an extension of its own."""
    wire_server.script(events(said("an answer")))
    pi.use(wire_server)
    own = pi.project / ".pi"
    (own / "extensions").mkdir(parents=True)
    (own / "extensions" / "it.py").write_text(
        "import pathlib\npathlib.Path('it-ran').touch()\n"
        "def register(api):\n    api.command('theirs', lambda arguments, ctx: ctx.show('theirs ran'), 'it')\n"
    )
    model = {"id": "theirs", "base_url": f"{wire_server.url}/theirs"}
    (own / "settings.json").write_text(json.dumps({"models": [model], "default_model": "theirs"}))
    return pi


def test_g_10_through_pipes_a_folder_that_is_not_trusted_is_one_notice(bringing, wire_server):
    done = bringing(stdin="hello\n/theirs\n/new\nhello\n")
    assert done.returncode == 0
    notices = [line for line in done.stderr.decode().splitlines() if "not trusted" in line]
    assert len(notices) == 1, notices
    assert b"no command /theirs" in done.stderr
    assert {request.target for request in wire_server.requests} == {"/v1/chat/completions"}
    assert not (bringing.project / "it-ran").exists()


@pytest.mark.parametrize("answer", ["y", "n"])
def test_g_10_at_a_terminal_it_is_asked_before_anything_of_the_folder_is_used(bringing, wire_server, answer):
    """Once: a new session in the same folder asks no more, and neither does the next start."""
    ran = bringing.project / "it-ran"
    with Terminal(*PI, cwd=bringing.project, rows=40) as terminal:
        terminal.until("[y/N]")
        assert not ran.exists()
        terminal.send(f"{answer}\r")
        terminal.until("· ")
        terminal.send("hello\r")
        terminal.until("an answer")
        terminal.send("/new\r")
        terminal.until(lambda: "\n".join(terminal.screen).count("/help says") == 2)
        assert "\n".join(terminal.scrollback).count("[y/N]") == 1
        terminal.keys("c-d")
        assert terminal.wait() == 0
    is_trusted = answer == "y"
    assert ran.exists() == is_trusted
    (request,) = wire_server.requests
    assert request.target.startswith("/theirs/" if is_trusted else "/v1/")
    done = bringing(stdin="/theirs\n")
    assert (b"theirs ran" in done.stdout) == is_trusted
    assert b"no command /theirs" in done.stderr or is_trusted
    assert b"trusted" not in done.stderr


# --- PI-23 --------------------------------------------------------------------------------------------


def test_pi_23_a_conversation_at_a_terminal_with_its_commands_and_its_queue(pi, wire_server):
    """What is typed while the agent works is shown as queued, and heard."""
    gate = threading.Event()

    def slowly():
        assert gate.wait(20)
        yield from events(said("the second answer"))()

    wire_server.script(events(said("the **first** answer")), slowly, events(said("the third answer")))
    pi.use(wire_server)
    with Terminal(*PI, cwd=pi.project, rows=40) as terminal:
        terminal.until("custom/test")
        terminal.send("hello\r")
        terminal.until("the first answer")
        terminal.send("/name my talk\r")
        terminal.until("is called 'my talk'")
        terminal.send("!echo from the shell\r")
        terminal.until("  from the shell")
        terminal.send("slowly\r")
        until(lambda: len(wire_server.requests) == 2)
        terminal.send("and this\r")
        terminal.until(lambda: any("queued" in line.lower() for line in terminal.screen))
        gate.set()
        terminal.until("the third answer")
        terminal.send("/session\r")
        terminal.until("Tokens")
        terminal.send("/quit\r")
        assert terminal.wait() == 0
        shown = "\n".join(terminal.scrollback)
    for once in ("the first answer", "the second answer", "the third answer", "> and this", "Resume: "):
        assert shown.count(once) == 1, shown
    assert "from the shell" in wire_server.requests[1].body["messages"][-1]["content"]
    assert wire_server.requests[2].body["messages"][-1]["content"] == "and this"
    assert pi.sessions.list_sessions()[0].title == "my talk"


def test_pi_23_the_picker_finds_a_session_by_what_was_said_and_opens_it(pi, wire_server, home):
    """Of `pi -r`; Esc leaves, 0, and has made none; words with several hits begin it with these words."""
    wire_server.script(events(said("on it goes")))
    pi.use(wire_server)
    talk(pi.project, "the flaky zebra", answered("stripes"), hours=3, id="aaaa11111111")
    talk(pi.project, "the tall giraffe", answered("a neck"), hours=2, id="bbbb22222222")
    talk(pi.project, "the zebra again", answered("more stripes"), hours=1, id="cccc33333333")
    before = files(home)
    with Terminal(*PI, "-r", cwd=pi.project) as terminal:
        terminal.until("3 sessions")
        terminal.until("more stripes")
        rows = [line for line in terminal.screen if re.match(r"[▸ ] pi ", line)]
        titles = ["the zebra again", "the tall giraffe", "the flaky zebra"]
        assert [title in row for title, row in zip(titles, rows, strict=True)] == [True] * 3
        terminal.send("girffe")
        terminal.keys(*["backspace"] * 3)
        terminal.send("affe")
        terminal.until("1 of 3")
        terminal.keys("enter")
        terminal.until("Resumed: 2 messages, with custom/test")
        shown = "\n".join(terminal.screen)
        assert "> the tall giraffe" in shown
        assert "a neck" in shown
        terminal.send("go on\r")
        terminal.until("on it goes")
        terminal.keys("c-d")
        assert terminal.wait() == 0
    assert [path.name for path, data in files(home).items() if data != before[path]] == [
        path.name for path in before if "bbbb22222222" in path.name
    ]
    before = files(home)
    with Terminal(*PI, "-r", "zebra", cwd=pi.project) as terminal:
        terminal.until("2 of 3")
        assert terminal.screen[0].startswith("> zebra")
        terminal.keys("escape")
        assert terminal.wait() == 0
        assert "Resume" not in "\n".join(terminal.scrollback)
    assert files(home) == before


def test_pi_23_the_tree_goes_to_any_entry_and_nothing_is_written_before_something_is_said(pi, wire_server):
    """Then there is a branch; a label is kept at once; a fork is a session of its own."""
    wire_server.script(events(said("with a tokenizer")), events(said("in a fork")))
    pi.use(wire_server)
    said_before = ("fix the parser", answered("I look"), "use a regex", answered("with a regex"))
    ref = talk(pi.project, *said_before, id="aaaa11111111")
    path = Path(ref.path)
    before = path.read_bytes()
    with Terminal(*PI, "--session", "aaaa", cwd=pi.project, rows=30) as terminal:
        terminal.until("Resumed: 4 messages")
        terminal.send("/tree\r")
        terminal.until("● here")
        terminal.keys("up")  # to what the user said, which is to be said differently
        terminal.keys("enter")
        terminal.until("goes on from here")
        terminal.until("> use a regex")
        assert path.read_bytes() == before
        terminal.keys("c-c")  # not so
        terminal.send("write a tokenizer\r")
        terminal.until("with a tokenizer")
        after = path.read_bytes()
        assert after.startswith(before)
        terminal.send("/tree\r")
        terminal.until("● here")
        assert "├─ user" in "\n".join(terminal.screen)
        terminal.send("lgood\r")
        terminal.until("“good”")
        until(lambda: b'"good"' in path.read_bytes())
        terminal.send("f")
        terminal.until("fork of aaaa11111111")
        labelled = path.read_bytes()
        terminal.send("go on\r")
        terminal.until("in a fork")
        terminal.keys("c-d")
        assert terminal.wait() == 0
    assert path.read_bytes() == labelled
    sent = [message["content"] for message in wire_server.requests[0].body["messages"][1:]]
    assert sent == ["fix the parser", "I look", "write a tokenizer"]
    assert [text for _, text in pi.messages()][-3:] == ["with a tokenizer", "go on", "in a fork"]
    assert len(pi.sessions.list_sessions()) == 2
    shown = "\n".join(terminal.scrollback)
    assert shlex.split(resume_command(shown.rstrip()))[-1] == pi.sessions.list_sessions()[0].id
