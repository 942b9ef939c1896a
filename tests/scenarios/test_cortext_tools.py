"""cortext hands a conversation to another AI tool (COR-12): stand-ins of these tools record what they get."""

import hashlib
import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from perdure.programs.cortext import launching
from perdure.session.entry import Custom
from perdure.session.session import Session
from perdure.testing import assistant_entry, tool_call_entry, tool_result_entry, user_entry
from tests.agent.models.wire_server import wire_server
from tests.programs.workspaces import cortext

__all__ = ["cortext", "wire_server"]

pytestmark = pytest.mark.process

STAND_IN = """\
#!/bin/sh
cp .workspace/prompts/*.md "{out}.handed" 2>/dev/null
stat -c %a .workspace/prompts/*.md > "{out}.mode" 2>/dev/null
pwd > "{out}.cwd"
cat conversations/*/*/.session/session.json > "{out}.state"
for each in "$@"; do printf '%s\\0' "$each"; done > "{out}"
exit {code}
"""
OPTIONS = {"claude": [], "codex": [], "gemini": ["-i"], "opencode": ["--prompt"]}


@pytest.fixture
def tools(cortext, monkeypatch):
    """Four of them, on PATH, with an exit code each."""
    folder = cortext.home / "bin"
    folder.mkdir()
    for code, name in enumerate(OPTIONS, 3):
        _stand_in(folder, name, cortext.home / f"{name}.said", code)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def _stand_in(folder: Path, name: str, out: Path, code: int = 0) -> None:
    path = folder / name
    path.write_text(STAND_IN.format(out=out, code=code))
    path.chmod(0o755)


def words_of(cortext, name: str) -> list[str]:
    return (cortext.home / f"{name}.said").read_text().split("\0")[:-1]


@pytest.mark.parametrize("name", OPTIONS)
def test_cor_12_a_tool_is_started_in_the_workspace_with_all_that_was_said(cortext, tools, name):
    """By the option that it has for a first prompt; its exit code is ours, and afterwards it is paused."""
    ref = cortext.talked(
        "API design", "REST or GraphQL?", "REST, for its simplicity.", summary="Leaning to REST"
    )
    (cortext.project / "deep").mkdir()
    cortext.project = cortext.project / "deep"
    done = cortext.run("resume", "api", "--tool", name)
    cortext.project = cortext.project.parent
    assert done.code == 3 + [*OPTIONS].index(name)
    assert done.out == '[Resuming "API design"]\n'
    *options, prompt = words_of(cortext, name)
    assert options == OPTIONS[name]
    parts = ["# Brainstorm", "<constitution>", "<conversation-context>", "Where it stopped: Leaning to REST"]
    parts += ["## User\n\nREST or GraphQL?", "## Assistant\n\nREST, for its simplicity."]
    places = [prompt.index(part) for part in parts]
    assert places == sorted(places)
    assert not prompt.startswith("-")
    assert (cortext.home / f"{name}.said.cwd").read_text() == f"{cortext.project}\n"
    assert json.loads((cortext.home / f"{name}.said.state").read_text())["status"] == "active"
    assert cortext.state(ref)["status"] == "paused"
    assert cortext.subjects == ["[session] Pause: API design"]
    assert cortext.is_committed()


def test_cor_12_a_long_prompt_is_in_a_file_that_only_its_user_reads(cortext, tools):
    """The prompt names it; it is kept out of git, and gone afterwards."""
    long = "x" * 200_000
    ref = cortext.talked("API design", long, "Yes.")
    assert cortext.run("resume", "api", "--tool", "claude").code == 3
    (prompt,) = words_of(cortext, "claude")
    assert len(prompt) < 1000
    assert ".workspace/prompts/conversation-" in prompt
    assert long in (cortext.home / "claude.said.handed").read_text()
    assert (cortext.home / "claude.said.mode").read_text() == "600\n"
    assert [*(cortext.project / ".workspace" / "prompts").iterdir()] == []
    assert "/.workspace/prompts/\n" in (cortext.project / ".git" / "info" / "exclude").read_text()
    assert cortext.state(ref)["status"] == "paused"


def test_cor_12_a_killed_process_leaves_its_long_prompt_only_until_the_next_start(
    cortext, tools, wire_server
):
    """Of one that still runs it stays, and so does what is not ours; a link is not followed."""
    cortext.answers(wire_server, "Yes.")
    for title in ("One", "Two"):
        cortext.talked(title, title * 100_000, "Yes.")
    prompts = cortext.project / ".workspace" / "prompts"
    (tools / "claude").write_text("#!/bin/sh\necho tool $$.\nexec sleep 600\n")
    with cortext.piped("resume", "one", "--tool", "claude") as killed:
        killed.until(lambda: re.search("tool [0-9]+[.]", killed.out))
        (tool,) = map(int, re.findall("tool ([0-9]+)[.]", killed.out))
        (left,) = prompts.iterdir()
        killed.process.kill()
        os.kill(tool, signal.SIGKILL)
        killed.wait()
    assert left.stat().st_mode & 0o777 == 0o600
    assert cortext.git("status", "--porcelain", "--", ".workspace/prompts") == ""
    own = {prompts / name for name in ("notes.md", "conversation-notes.md", "conversation-security.md")}
    for path in own:
        path.write_text("my own")
    older = prompts / "conversation-0ld_name.md"
    older.write_text("of an older version")
    older.chmod(0o600)
    with cortext.piped("resume", "two", "--tool", "claude") as alive:
        alive.until("tool ")
        (used,) = {*prompts.iterdir()} - own
        assert "TwoTwo" in used.read_text()
        cortext.within("start", "plan", "Next", stdin="Well?\n")
        assert {*prompts.iterdir()} == {used, *own}
        os.kill(alive.process.pid, signal.SIGTERM)
        alive.wait()
    assert {*prompts.iterdir()} == own
    elsewhere = cortext.home / "elsewhere"
    prompts.rename(elsewhere)
    not_ours = elsewhere / "conversation-x.12345678.md"
    not_ours.write_text("not ours")
    not_ours.chmod(0o600)
    prompts.symlink_to(elsewhere)
    cortext.within("start", "plan", "Last", stdin="Well?\n")
    assert not_ours.exists()


def test_cor_12_a_long_prompt_is_not_written_through_a_link(cortext, tools):
    """A workspace may be somebody else's, and lead elsewhere. The tool is not started."""
    cortext.talked("API design", "x" * 200_000, "Yes.")
    elsewhere = cortext.home / "elsewhere"
    elsewhere.mkdir()
    (cortext.project / ".workspace" / "prompts").symlink_to(elsewhere)
    done = cortext.run("resume", "api", "--tool", "claude")
    assert (done.code, ".workspace/prompts" in done.err) == (1, True)
    assert not (cortext.home / "claude.said").exists()
    assert [*elsewhere.iterdir()] == []
    assert cortext.state()["status"] == "paused"


def test_cor_12_a_tool_may_remove_its_long_prompt(cortext, tools):
    """Its exit code is ours all the same, and the conversation is committed."""
    cortext.talked("API design", "x" * 200_000, "Yes.")
    (tools / "claude").write_text("#!/bin/sh\nrm -r .workspace/prompts\nexit 3\n")
    done = cortext.run("resume", "api", "--tool", "claude")
    assert done.code == 3
    assert "Committed" in done.err


def test_cor_12_the_registrys_tool_counts_where_its_user_trusts_the_workspace(cortext, tools):
    """Else it waits for a yes, with one notice, and the agent that is built in goes on."""
    cortext.talked("API design", "REST?", "Yes.")
    registry = cortext.project / ".workspace" / "registry.json"
    registry.write_text(registry.read_text().replace('"builtin"', '"codex"'))
    done = cortext.run("resume", "api")
    assert done.code == 0
    assert done.err.count("registry.json is not used: this folder is not trusted (settings)") == 1
    assert not (cortext.home / "codex.said").exists()
    cortext.set()
    assert cortext.run("resume", "api").code == 4
    assert words_of(cortext, "codex")
    assert cortext.run("resume", "api", "--tool", "builtin").code == 0


def test_cor_12_a_tool_in_the_workspace_is_never_started(cortext, monkeypatch):
    """Nor one that a link leads to from PATH; a tool that is nowhere else is not installed."""
    cortext.talked("API design", "REST?", "Yes.")
    _stand_in(cortext.project, "claude", cortext.home / "said")
    elsewhere = cortext.home / "bin"
    elsewhere.mkdir()
    (elsewhere / "claude").symlink_to(cortext.project / "claude")
    usual = os.environ["PATH"]
    monkeypatch.setenv("PATH", f".:{cortext.project}::{elsewhere}:{usual}")
    before = cortext.lines()
    done = cortext.within("resume", "api", "--tool", "claude")
    assert done.code == 1
    assert "claude is not installed" in done.err
    assert "--tool builtin" in done.err
    assert not (cortext.home / "said").exists()
    assert cortext.lines() == before


def test_cor_12_an_unknown_tool_is_a_usage_error(cortext):
    """From the command line; from the registry it is named as what it is."""
    cortext.talked("API design", "REST?", "Yes.")
    assert cortext.within("resume", "api", "--tool", "vim").code == 2
    cortext.set(tool="vim")
    done = cortext.within("resume", "api")
    assert done.code == 1
    assert "There is no AI tool 'vim'; it is one of builtin, claude, codex, gemini, opencode" in done.err


def test_cor_12_a_tool_that_is_ended_by_a_signal_is_told_like_a_shell_does(cortext, tools):
    """And the conversation is paused all the same. A signal to us is handed on to it."""
    ref = cortext.talked("API design", "REST?", "Yes.")
    path = tools / "claude"
    path.write_text("#!/bin/sh\nkill -9 $$\n")
    assert cortext.run("resume", "api", "--tool", "claude").code == 128 + signal.SIGKILL
    assert cortext.state(ref)["status"] == "paused"
    path.write_text("#!/bin/sh\ntrap 'exit 42' TERM\necho ready\nwhile :; do sleep 0.1; done\n")
    with cortext.piped("resume", "api", "--tool", "claude") as talk:
        talk.until("ready")
        talk.process.send_signal(signal.SIGTERM)
        assert talk.wait() == 42
    assert cortext.state(ref)["status"] == "paused"
    assert len(cortext.subjects) == 1  # of the first time: a signal to us only saves


def test_cor_12_a_signal_that_comes_while_a_tool_starts_is_handed_on(tmp_path, monkeypatch):
    """It neither ends us, which would leave the tool behind, nor is it lost."""
    start = subprocess.Popen

    def interrupted(*arguments, **options):
        process = start(*arguments, **options)
        os.kill(os.getpid(), signal.SIGTERM)
        return process

    before = signal.signal(signal.SIGTERM, lambda *_: pytest.fail("it is not handed on"))
    try:
        monkeypatch.setattr(subprocess, "Popen", interrupted)
        ended = launching._run(["sleep", "60"], str(tmp_path))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended == (128 + signal.SIGTERM, True)


def test_cor_12_while_a_tool_talks_nobody_else_does(cortext, tools):
    """It is held, as by any process that is in it."""
    cortext.talked("API design", "REST?", "Yes.")
    (tools / "claude").write_text("#!/bin/sh\necho ready\nread line\n")
    with cortext.piped("resume", "api", "--tool", "claude") as talk:
        talk.until("ready")
        done = cortext.within("resume", "api")
        assert done.code == 4
        assert f"held by process {talk.process.pid}" in done.err
        assert " active " in cortext.within("list").out
        talk.say("")
        assert talk.wait() == 0


def test_cor_12_a_prompt_of_the_users_that_begins_with_a_dash_is_no_option(cortext, tools):
    """Nor is anything else in it: it is one word of the command line."""
    cortext.prompt_file("plan").write_text("--dangerously-skip-permissions\n'; rm -rf ~ #\n")
    cortext.talked("Ship", "When?", "Soon.", kind="plan")
    assert cortext.run("resume", "ship", "--tool", "gemini").code == 5
    option, prompt = words_of(cortext, "gemini")
    assert option == "-i"
    assert "--dangerously-skip-permissions\n'; rm -rf ~ #" in prompt


def test_cor_12_what_tools_said_before_is_handed_over_whole(cortext, tools):
    """No result is cut."""
    result = "\n".join(f"line {number}" for number in range(500))
    ref = cortext.talked("API design", "REST?", "Yes.")
    with Session.open(cortext.store, ref) as session:
        session.append(user_entry("look"), tool_call_entry("read", {"path": "a.txt"}, call_id="c1"))
        session.append(tool_result_entry(result, call_id="c1", name="read"), assistant_entry("I see."))
    assert cortext.run("resume", "api", "--tool", "claude").code == 3
    (prompt,) = words_of(cortext, "claude")
    assert f"## Tool result: read\n\n{result}" in prompt
    assert '## Tool call: read\n\n{"path":"a.txt"}' in prompt


def test_cor_12_what_was_said_about_the_conversation_is_not_handed_over(cortext, tools):
    """Neither what asked an agent to acknowledge that it goes on, nor that it did."""
    cortext.talked("API design", "REST?", "Yes.")
    assert cortext.within("resume", "api").code == 0
    assert cortext.run("resume", "api", "--tool", "claude").code == 3
    (prompt,) = words_of(cortext, "claude")
    assert "resumed at" not in prompt
    assert prompt.count("## Assistant") == prompt.count("## User") == 1


def test_cor_02_cor_10_a_tool_goes_on_by_the_prompt_whose_hash_is_recorded(cortext, tools, wire_server):
    """Unchanged instructions are not called changed, and their hash stays; changed ones are, once."""
    cortext.answers(wire_server, "Yes.")
    cortext.within("start", "brainstorm", "Topic", stdin="Well?\n")
    before = cortext.state()["agent_config"]
    for _ in range(2):
        assert "instructions" not in cortext.run("resume", "topic", "--tool", "claude").err
        assert cortext.state()["agent_config"] == before
    assert "instructions" not in cortext.within("resume", "topic").err
    cortext.prompt_file("brainstorm").write_text("Only ask.")
    assert (
        "instructions of /workspace.brainstorm changed"
        in cortext.run("resume", "topic", "--tool", "claude").err
    )
    hashed = hashlib.sha256(b"Only ask.").hexdigest()
    assert cortext.state()["agent_config"]["system_prompt_hash"] == f"sha256:{hashed}"
    assert "instructions" not in cortext.within("resume", "topic").err


def test_cor_10_the_hash_of_nothing_that_an_older_version_recorded_is_no_change(cortext, wire_server):
    """No prompt is empty: that hash says only that none was taken."""
    cortext.answers(wire_server, "Yes.")
    nothing = f"sha256:{hashlib.sha256(b'').hexdigest()}"
    with Session.open(cortext.store, cortext.talked("Topic", "Well?", "Yes.")) as session:
        session.append(
            Custom(
                "perdure.agent_config", {"command": "/workspace.brainstorm", "system_prompt_hash": nothing}
            )
        )
    assert "instructions" not in cortext.within("resume", "topic").err
    assert cortext.state()["agent_config"]["system_prompt_hash"] not in ("", nothing)
