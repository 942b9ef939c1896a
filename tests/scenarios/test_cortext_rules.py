"""cortext keeps the rules of all programs: G-1 to G-10, at a terminal and through pipes."""

import json
import os
import re
import shlex
import signal
import stat

import pytest

from tests import processes
from tests.agent.models.wire_server import HANG, READ, events, wire_server
from tests.front.one_prompt import HALF_A_LINE
from tests.front.shell_terminal import is_given_back, say, streamed, text_of, until_idle
from tests.front.terminal import Tmux
from tests.needs import needs_tool
from tests.programs.started import MODEL, first_on_path
from tests.programs.workspaces import cortext
from tests.scenarios.test_programs_terminal import CONTROL, gate, resume_command

__all__ = ["cortext", "gate", "wire_server"]

pytestmark = pytest.mark.process

START = ("start", "plan", "Ship it")


def said(cortext) -> list[tuple[str, str]]:
    """What people and the model said, without what is said of it."""
    lines = [line for line in cortext.lines() if line["role"] in ("user", "assistant")]
    return [(line["role"], line["content"]) for line in lines if line.get("transcript") is not False]


def test_g_1_cor_03_through_pipes_a_line_is_a_message_and_only_plain_text_comes_back(
    cortext, wire_server, monkeypatch
):
    """Whatever the bytes are, of its user, of the model, of titles and of file names."""
    monkeypatch.setenv("TERM", "xterm-256color")
    hostile = "\x1b[31mred\x1b]0;owned\x07 \x9b2J\u202e"
    cortext.answers(wire_server, "**first**\n\n  of all", hostile, "third")
    (cortext.project / ".workspace" / "memory" / "context.md").write_text(hostile)
    lines = (
        b"one\r\n\n  \nnext \xff\xfe w\xc3\xb6rd \x1b[31m\n/workspace.resume \x1b[2J\nlast, without an end"
    )
    done = cortext("start", "plan", f"A {hostile} title", stdin=lines)
    assert done.returncode == 0
    assert CONTROL.findall(done.stdout + done.stderr) == []
    assert [text for role, text in said(cortext) if role == "user"] == [
        *("one", "next \ufffd\ufffd wörd \x1b[31m", "last, without an end"),
    ]
    for words in (["list"], ["list", "--json"], ["resume", "nope"], ["resume", "--list"]):
        listed = cortext(*words)
        assert CONTROL.findall(listed.stdout + listed.stderr) == []
    assert "\x1b" not in cortext.git("log", "--format=%B")


def test_g_3_cor_01_whatever_ends_it_in_the_middle_of_an_answer_is_kept(cortext, wire_server, gate):
    """At a terminal, which is given back; of an answer that was cut off, all that arrived."""
    cortext.answers(
        wire_server, "the first", streamed("half of the second", gate), "where we were", "the third"
    )
    with cortext.terminal(*START) as terminal:
        terminal.until(MODEL)
        say(terminal, "one")
        terminal.until("the first")
        until_idle(terminal)
        say(terminal, "two")
        terminal.until("half of the second")
        terminal.kill(signal.SIGTERM)
        assert terminal.wait() == 143
        assert is_given_back(terminal)
    before = [
        ("user", "one"),
        ("assistant", "the first"),
        ("user", "two"),
        ("assistant", "half of the second"),
    ]
    assert said(cortext) == before
    assert cortext.state()["status"] == "paused"
    gate.set()
    done = cortext.run("resume", "ship", stdin="three\n")
    assert done.code == 0, done
    assert said(cortext) == [*before, ("user", "three"), ("assistant", "the third")]


def test_g_6_cor_01_the_first_sigint_ends_the_turn_and_the_second_leaves(cortext, wire_server):
    """With what arrived, marked; in between the talk goes on."""
    half = events(HALF_A_LINE, READ, HANG)
    cortext.answers(wire_server, half, "go on", half)
    with cortext.piped(*START) as talk:
        talk.say("hello")
        talk.until(lambda: wire_server.reads == 1)
        talk.process.send_signal(signal.SIGINT)
        talk.until(lambda: "Interrupted" in talk.err)
        talk.say("more")
        talk.until("go on")
        talk.say("again")
        talk.until(lambda: wire_server.reads == 2)
        assert talk.leave_by_ctrl_c() == 130
    assert [text for _, text in said(cortext)][1:] == [
        "half an answer\n",
        "more",
        "go on",
        "again",
        "half an answer\n",
    ]
    assert "Traceback" not in talk.err
    assert cortext.subjects == []


def test_g_7_cor_12_the_last_line_resumes_when_it_is_run(cortext, wire_server, monkeypatch):
    """Copied into a shell, in the workspace."""
    monkeypatch.setenv("PATH", first_on_path())
    cortext.answers(wire_server, "the first", "summed up", "where we were", "the second")
    command = resume_command(cortext.run(*START, stdin="hello\n").out)
    assert shlex.split(command)[:2] == ["cortext", "resume"]
    again = processes.run(
        ["sh", "-c", command], input="more\n", cwd=cortext.project, capture_output=True, text=True
    )
    assert again.returncode == 0, again.stderr
    assert [text for _, text in said(cortext)] == ["hello", "the first", "more", "the second"]
    assert resume_command(again.stdout) == command


def test_g_8_cor_20_in_the_workspace_the_users_umask_rules_and_elsewhere_nobody_else_reads(
    cortext, wire_server
):
    """In the home is nothing but what was typed, the list of workspaces, the catalog and what is pi's."""
    cortext.answers(wire_server, "ok")
    before = os.umask(0o027)
    try:
        with cortext.terminal(*START) as terminal:
            terminal.until(MODEL)
            say(terminal, "hello")
            terminal.until("ok")
            until_idle(terminal)
            terminal.keys("c-d")
            assert terminal.wait() == 0
    finally:
        os.umask(before)
    for path in cortext.folder().rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o750 if path.is_dir() else 0o640), path
    own = cortext.home / ".cortext"
    assert {path.name for path in cortext.home.iterdir()} <= {
        ".pi",
        ".cache",
        ".cortext",
        ".gitconfig",
        "work",
    }
    assert {path.name for path in own.iterdir()} == {"workspaces", "shell-history"}
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in own.iterdir()} == {0o600}


def test_g_9_cor_02_an_option_then_the_variable_then_the_registry_then_pis(cortext, wire_server, monkeypatch):
    """And the conversation records which one it was."""
    models = [
        {"id": name, "base_url": f"{wire_server.url}/v1", "context_window": 8000}
        for name in ("test", "mine", "set", "asked")
    ]
    cortext.answers(wire_server, "ok", models=models)
    cortext.within("start", "plan", "a", stdin="a\n")
    cortext.set(default_model="mine")
    cortext.within("start", "plan", "b", stdin="b\n")
    monkeypatch.setenv("PERDURE_MODEL", "set")
    cortext.within("start", "plan", "c", stdin="c\n")
    cortext.within("start", "plan", "d", "-m", "asked", stdin="d\n")
    used = [cortext.state(ref)["agent_config"]["model"] for ref in cortext.refs]
    assert used == ["custom/test", "custom/mine", "custom/set", "custom/asked"]


@pytest.mark.parametrize("is_trusted", [False, True])
def test_g_10_cor_20_what_a_workspace_brings_waits_for_one_yes(cortext, wire_server, is_trusted):
    """Its settings, extensions and models; its prompts and its memory are text, and are read."""
    cortext.answers(wire_server, "an answer")
    own = cortext.project / ".pi"
    (own / "extensions").mkdir(parents=True)
    (own / "extensions" / "it.py").write_text(
        "import pathlib\npathlib.Path('it-ran').touch()\ndef register(api):\n    pass\n"
    )
    registry = cortext.project / ".workspace" / "registry.json"
    registry.write_text(json.dumps({**json.loads(registry.read_text()), "default_model": "nowhere/x"}))
    with cortext.terminal(*START, rows=40) as terminal:
        terminal.until("[y/N]")
        assert "default_model = nowhere/x" in text_of(terminal)
        assert not (cortext.project / "it-ran").exists()
        say(terminal, "y" if is_trusted else "n")
        if is_trusted:
            terminal.until("nowhere")
            assert terminal.wait() == 1
        else:
            terminal.until(MODEL)
            terminal.keys("c-d")
            assert terminal.wait() == 0
    assert (cortext.project / "it-ran").exists() == is_trusted
    done = cortext.run(*START, stdin="hello\n")
    assert "trust" not in done.err
    assert done.code == (1 if is_trusted else 0)


@needs_tool("tmux")
def test_g_1_cor_07_in_tmux_a_conversation_is_picked_from_the_list_and_each_line_is_there_once(
    cortext, wire_server, monkeypatch
):
    """The question has the terminal to itself, and gives it back."""
    monkeypatch.setenv("PATH", first_on_path())
    cortext.answers(wire_server, "We had chosen Friday.")
    cortext.talked("Ship it", "When?", "On Friday.", kind="plan")
    cortext.talked("Token expiry", "Why?", "A race.", kind="debug")
    with Tmux(*cortext.command, cwd=cortext.project) as tmux:
        tmux.until("cortext>")
        tmux.send("/workspace.resume")
        tmux.send_keys("Enter")
        tmux.until("(number or search)")
        tmux.send("ship")
        tmux.send_keys("Enter")
        tmux.until("We had chosen Friday.")
        tmux.until("plan>")
        tmux.send_keys("C-d")
        tmux.until("Resume: cortext resume")
        shown = "\n".join(tmux.capture())
    for line in ('[Resuming "Ship it"]', "We had chosen Friday.", "1. [debug] Token expiry"):
        assert shown.count(line) == 1
    assert re.search(r"Committed [0-9a-f]{10} on main\.", shown)
