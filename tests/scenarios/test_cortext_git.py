"""cortext, from outside: conversations in git (COR-18, COR-19), and what must not get there."""

import json
import subprocess

import pytest

from tests.agent.models.wire_server import wire_server
from tests.front.shell_terminal import say, text_of
from tests.programs.workspaces import cortext

__all__ = ["cortext", "wire_server"]

pytestmark = pytest.mark.process

KEY = "AKIA" + "QYLPMN5HFIQR7XYA"  # in parts: what looks like one would be found here, too
START = ("start", "plan", "Ship it")


@pytest.fixture
def talked(cortext, wire_server):
    """A conversation that was held and committed."""
    cortext.answers(wire_server, "Soon.")
    assert cortext.within(*START, stdin="When?\n").code == 0
    return cortext


def test_cor_18_the_commit_has_the_conversations_folder_and_says_what_was_saved(talked):
    """With its `.session/`, on the branch that is checked out."""
    folder = talked.folder().relative_to(talked.project)
    assert talked.git("log", "-1", "--format=%B").split("\n\n")[:2] == [
        "[session] Pause: Ship it",
        f"Session state was saved: {talked.ref.id} is paused.",
    ]
    assert talked.git("show", "--name-only", "--format=", "HEAD").splitlines() == [
        f"{folder}/.session/messages.jsonl",
        f"{folder}/.session/session.json",
        f"{folder}/plan.md",
    ]
    assert talked.git("branch", "--show-current") == "main\n"


def test_cor_18_all_else_in_index_and_tree_stays_and_the_users_next_commit_keeps_it(talked):
    """Staged, changed, deleted and new files; and no file of the workspace's own is staged."""
    project = talked.project
    for name in ("kept.txt", "changed.txt", "gone.txt"):
        (project / name).write_text(name)
    talked.git("add", "kept.txt", "changed.txt", "gone.txt")
    talked.git("commit", "-qm", "mine")
    (project / "changed.txt").write_text("staged")
    talked.git("add", "changed.txt")
    (project / "changed.txt").write_text("not staged")
    (project / "gone.txt").unlink()
    (project / "new.txt").write_text("new")
    before = talked.git("status", "--porcelain"), talked.git("diff"), talked.git("diff", "--cached")
    assert talked.within("resume", "ship", stdin="And then?\n").code == 0
    assert (talked.git("status", "--porcelain"), talked.git("diff"), talked.git("diff", "--cached")) == before
    assert talked.subjects[0] == "[session] Pause: Ship it"
    talked.git("commit", "-qm", "mine again")
    assert talked.is_committed()
    assert talked.git("ls-tree", "-r", "--name-only", "HEAD", "conversations").count("\n") == 3
    assert talked.git("show", "HEAD:changed.txt") == "staged"


def test_cor_18_nothing_of_the_repository_runs(talked):
    """No hook, filter or monitor, whatever its settings say: of the whole way from prompt to commit."""
    fired = talked.home / "fired"
    canary = talked.home / "canary"
    canary.write_text(f'#!/bin/sh\necho "$0" >> "{fired}"\ncat\n')
    canary.chmod(0o755)
    hooks = talked.project / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("pre-commit", "post-commit", "commit-msg", "prepare-commit-msg", "post-index-change"):
        (hooks / name).symlink_to(canary)
    (hooks / "reference-transaction").symlink_to(canary)
    for name, value in (
        ("core.fsmonitor", canary),
        ("filter.evil.clean", canary),
        ("filter.evil.smudge", canary),
        ("commit.gpgsign", "true"),
        ("gpg.program", canary),
        ("core.pager", canary),
        ("core.editor", canary),
    ):
        talked.git("config", name, str(value))
    (talked.project / ".gitattributes").write_text("* filter=evil\n")
    assert talked.within("resume", "ship", stdin="And then?\n").code == 0
    assert not fired.exists()
    assert talked.subjects[0] == "[session] Pause: Ship it"
    subprocess.run(["git", "add", "."], cwd=talked.project, capture_output=True, timeout=60)
    assert fired.exists()  # so they would have


def test_cor_18_without_a_repository_it_is_saved_and_said(cortext, wire_server):
    """Also where git does not know who commits; the exit code is that of the conversation."""
    cortext.answers(wire_server, "Soon.")
    (cortext.home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n")
    done = cortext.within(*START, stdin="When?\n")
    assert done.code == 0
    assert "Not committed: git does not know who you are; `git config --global user.name" in done.err
    subprocess.run(["rm", "-rf", cortext.project / ".git"], check=True)
    done = cortext.within("resume", "ship", stdin="And then?\n")
    assert done.code == 0
    assert "Not committed: ~/work is in no git repository" in done.err
    assert cortext.state()["status"] == "paused"
    assert "And then?" in cortext.transcript()


@pytest.mark.parametrize("left", [0, 9, 30, -1])
def test_cor_18_a_transcript_that_is_cut_is_completed_before_it_is_committed(talked, left):
    """As a power cut leaves it, which spares what was synced; what people typed behind it stays as it is."""
    path = next(talked.folder().glob("*.md"))
    whole = path.read_bytes()
    path.write_bytes(whole[:left])
    assert talked.within("resume", "ship").code == 0
    assert path.read_bytes() == whole
    assert talked.is_committed()
    path.write_bytes(whole + b"\nMy own note")
    talked.within("resume", "ship")
    assert path.read_bytes() == whole + b"\nMy own note"


def test_cor_18_a_transcript_that_is_cut_after_a_pause_is_completed_when_it_is_left(talked, monkeypatch):
    """The pause of a conversation that nobody talks in has saved its status already."""
    monkeypatch.setenv("CORTEXT_INACTIVITY_SECONDS", "0.2")
    with talked.piped("resume", "ship") as talk:
        talk.until(lambda: "is saved and paused" in talk.err)
        path = next(talked.folder().glob("*.md"))
        whole = path.read_bytes()
        path.write_bytes(whole[:-9])
        talk.process.stdin.close()
        assert talk.wait() == 0
    assert path.read_bytes() == whole
    assert talked.is_committed()


def test_cor_19_only_the_session_changed_is_a_session_update(talked):
    """Resumed and paused again, the transcript is as it was."""
    assert talked.within("resume", "ship").code == 0
    assert talked.subjects == ["[session] session update: Ship it", "[session] Pause: Ship it"]
    changed = talked.git("show", "--name-only", "--format=", "HEAD").split()
    assert all("/.session/" in name for name in changed)
    assert talked.is_committed()


def test_cor_19_what_was_only_saved_is_in_the_next_commit(talked):
    """After a signal, say: no word of it is left out, and none is there twice."""
    with talked.piped("resume", "ship") as talk:
        talk.say("Between?")
        talk.until(lambda: talk.out.count("Soon.") == 2)
        talk.process.terminate()
        assert talk.wait() == 143
    assert len(talked.subjects) == 1
    assert talked.within("resume", "ship", stdin="After?\n").code == 0
    assert talked.subjects[0] == "[session] Pause: Ship it"
    folder = talked.folder().relative_to(talked.project)
    committed = talked.git("show", f"HEAD:{folder}/plan.md")
    assert [committed.count(word) for word in ("When?", "Between?", "After?")] == [1, 1, 1]


# --- secrets ----------------------------------------------------------------------------------------------


def test_cor_18_a_secret_is_saved_and_not_committed_where_nobody_can_be_asked(cortext, wire_server):
    """It is named by its line, never shown, and the exit code is 0; so it stays until somebody is asked."""
    cortext.answers(wire_server, "Soon.")
    done = cortext.within(*START, stdin=f"It works with {KEY}, why?\n")
    assert done.code == 0
    (line,) = [number for number, each in enumerate(cortext.lines(), 1) if KEY in json.dumps(each)]
    assert f"messages.jsonl, line {line}: AWS" in done.err
    assert "Saved, and not committed: nobody is here to be asked." in done.err
    assert KEY not in done.err
    assert cortext.state()["status"] == "paused"
    assert cortext.subjects == []
    assert cortext.within("resume", "ship", stdin="More.\n").code == 0
    assert cortext.subjects == []


@pytest.mark.parametrize(("answer", "commits"), [("y", 1), ("n", 0), ("", 0)])
def test_cor_18_at_a_terminal_its_user_says_whether_a_secret_is_committed(
    cortext, wire_server, answer, commits
):
    """As it is, or not at all; what was committed once is not asked about again."""
    cortext.answers(wire_server, "Soon.")
    with cortext.terminal(*START) as terminal:
        terminal.until("plan>")
        say(terminal, f"It works with {KEY}, why?")
        terminal.until("Soon.")
        say(terminal, "/workspace.stop-conversation")
        terminal.until("Commit it as it is? [y/N]")
        assert "messages.jsonl, line" in text_of(terminal)
        terminal.send(f"{answer}\r")
        terminal.until("cortext>")
        terminal.keys("c-d")
        assert terminal.wait() == 0
    assert len(cortext.subjects) == commits
    if commits:
        assert cortext.is_committed()
        done = cortext.within("resume", "ship", stdin="More.\n")
        assert "secrets" not in done.err
        assert len(cortext.subjects) == 2


@pytest.mark.parametrize("way", ["stop", "exit"])
def test_cor_18_ctrl_c_at_the_question_about_secrets_is_no(cortext, wire_server, way):
    """It is saved, and said to be not committed; who has left, has left."""
    cortext.answers(wire_server, "Soon.")
    with cortext.terminal(*START) as terminal:
        terminal.until("plan>")
        say(terminal, f"It works with {KEY}, why?")
        terminal.until("Soon.")
        say(terminal, "/exit" if way == "exit" else "/workspace.stop-conversation")
        terminal.until("Commit it as it is? [y/N]")
        terminal.keys("c-c")
        terminal.until("Not committed; the next pause asks again.")
        if way == "stop":
            terminal.until("cortext>")
            terminal.keys("c-d")
        assert terminal.wait() == 0
    assert cortext.state()["status"] == "paused"
    assert cortext.subjects == []


@pytest.mark.parametrize("where", ["title", "file", "notes"])
def test_cor_18_a_secret_anywhere_in_what_is_committed_is_asked_about(cortext, wire_server, where):
    """In the title, and so in the commit's message; in a file of the folder; in notes of the transcript."""
    cortext.answers(wire_server, "Soon.")
    title = f"Why {KEY} works" if where == "title" else "Ship it"
    assert cortext.within("start", "plan", title, "--no-commit", stdin="When?\n").code == 0
    if where == "file":
        (cortext.folder() / "keys.env").write_text(f"a\nkey={KEY}\n")
    if where == "notes":
        with (cortext.folder() / "plan.md").open("a") as transcript:
            transcript.write(f"\nwith {KEY}\n")
    done = cortext.within("resume", cortext.ref.id, stdin="And then?\n")
    assert done.code == 0
    named = {"title": ["the commit's message: AWS", "session.json, line"], "file": ["keys.env, line 2: AWS"]}
    for each in named.get(where, ["plan.md, line "]):
        assert each in done.err
    assert "Saved, and not committed: nobody is here to be asked." in done.err
    assert KEY not in done.err
    assert cortext.subjects == []
    assert cortext.state()["status"] == "paused"
    assert "And then?" in cortext.transcript()


def test_cor_20_a_secret_in_what_init_commits_is_asked_about(cortext):
    """A prompt may be there before the workspace is."""
    cortext.project = cortext.home / "fresh"
    prompt = cortext.prompt_file("plan")
    prompt.parent.mkdir(parents=True)
    prompt.write_text(f"Plan with {KEY}.")
    done = cortext.within("init")
    assert done.code == 0
    assert "commands/workspace.plan.md, line 1: AWS access key (AKIA…)" in done.err
    assert "git add .workspace" in done.out
    assert KEY not in done.out + done.err
    assert subprocess.run(["git", "log"], cwd=cortext.project, capture_output=True).returncode == 128


def test_cor_18_another_git_at_work_is_waited_for_and_its_user_is_told(talked):
    """A signal meanwhile has its exit code, and the next pause commits."""
    lock = talked.project / ".git" / "index.lock"
    lock.touch()
    with talked.piped("resume", "ship") as talk:
        talk.say("And then?", "/exit")
        talk.until(lambda: "Another git is at work in this repository; waiting for it." in talk.err)
        talk.process.terminate()
        lock.unlink()
        assert talk.wait() == 143
    assert talked.state()["status"] == "paused"
    assert talked.within("resume", "ship").code == 0
    assert talked.is_committed()
