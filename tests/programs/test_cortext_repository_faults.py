"""Where a conversation cannot be committed, it is said why, and nothing changed; a kill loses nothing."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from perdure.programs.cortext import git
from perdure.programs.cortext.new_repository import start
from perdure.programs.cortext.repository import NotCommitted
from perdure.session.stores.lock import Lock
from tests import processes
from tests.programs.git_workspace import FOLDER, Workspace, not_committed, stand_in, template, workspace
from tests.small_disk import fill, make_room, needed_disk

__all__ = ["template", "workspace"]

pytestmark = pytest.mark.process

# --- others at work -------------------------------------------------------------------------------


def test_cor_18_a_lock_of_git_is_waited_for(workspace, tmp_path, monkeypatch):
    """Whoever has the index gives it back, and the conversation is in it."""
    lock = workspace.path / ".git" / "index.lock"
    lock.write_text("")
    script = f'if [ "$step" = update-index ]; then real "$@"; code=$?; rm -f {lock}; exit $code; fi'
    stand_in(tmp_path / "bin", monkeypatch, script)
    assert workspace.commit()
    assert workspace.git("status", "--porcelain") == ""


@pytest.mark.parametrize("name", ["index.lock", "refs/heads/main.lock", "HEAD.lock"])
def test_cor_18_a_lock_that_stays_is_named_and_left_alone(workspace, name):
    """It may be that of a git that was killed: only its user can know."""
    lock = workspace.path / ".git" / name
    lock.write_text("")
    reason = not_committed(workspace, wait=0)
    assert str(lock) in reason.message
    assert "remove that file" in reason.hint
    lock.unlink()
    assert workspace.commit()


def test_cor_18_processes_of_ours_take_turns(workspace):
    """The one that has to wait too long says for whom."""
    workspace.commit()
    workspace.say_something("again")
    lock = Lock(str(workspace.path), ".workspace/locks/commit~.lock", "commit", 0, private=False)
    with lock:
        assert f"process {os.getpid()} is at work" in not_committed(workspace, wait=0).message
    assert workspace.commit()
    assert workspace.git("status", "--porcelain") == ""  # the lock is kept out of git


def test_cor_18_a_branch_that_moved_gets_the_conversation_on_its_new_tip(workspace, tmp_path, monkeypatch):
    """What others committed meanwhile, in the conversation's own folder too, is in the history."""
    theirs = f"echo x > {FOLDER}/theirs; git add {FOLDER}/theirs; git commit -q -m theirs"
    once = 'if [ "$step" = commit-tree ] && mkdir $here/once 2>/dev/null'
    stand_in(tmp_path / "bin", monkeypatch, f"{once}; then ({theirs}) </dev/null; fi")
    (workspace.path / "staged.txt").write_text("staged")
    made = workspace.commit()
    assert made is not None
    assert workspace.log() == ["session state saved", "theirs", "mine"]
    assert made.id == workspace.git("rev-parse", "main").strip()
    assert workspace.git("status", "--porcelain") == "?? staged.txt\n"
    assert workspace.commit() is None


def test_cor_18_a_branch_that_never_stands_still_is_given_up(workspace, tmp_path, monkeypatch):
    """After a few times, and the user is told."""
    theirs = "git commit -q --only --allow-empty -m theirs </dev/null"
    stand_in(tmp_path / "bin", monkeypatch, f'if [ "$step" = commit-tree ]; then {theirs}; fi')
    with pytest.raises(NotCommitted, match="moves again and again"):
        workspace.commit()
    assert {*workspace.log()} == {"theirs", "mine"}


SIXTEEN = """
import os, sys
from perdure.programs.cortext.repository import commit

ready, go = os.pipe()
children = []
for number in range(16):
    child = os.fork()
    if not child:
        os.close(go)
        os.read(ready, 1)
        folder = f"conversations/2026-11-17/{number:03}-plan-x"
        made = commit(sys.argv[1], folder, lambda is_session_only: folder, wait=60)
        os._exit(0 if made else 1)
    children.append(child)
os.close(go)
sys.exit(max(os.waitpid(child, 0)[1] for child in children))
"""


def test_cor_18_sixteen_processes_commit_sixteen_conversations(workspace):
    """At once: each has its commit, in one line of history, and each commit has all that were before it."""
    names = [f"conversations/2026-11-17/{number:03}-plan-x" for number in range(16)]
    shutil.rmtree(workspace.path / "conversations")
    for name in names:
        workspace.say_something(name, name)
    processes.run([sys.executable, "-c", SIXTEEN, str(workspace.path)], check=True, timeout=60)
    log = workspace.log()
    assert sorted(log[:-1]) == names
    assert log[-1] == "mine"
    assert workspace.git("rev-list", "--count", "--first-parent", "HEAD").strip() == "17"
    assert len(workspace.kept()) == 2 + 16 * 3
    assert workspace.git("status", "--porcelain") == ""
    assert workspace.git("fsck", "--strict") == ""


# --- killed ---------------------------------------------------------------------------------------

ONE = """
import sys
from perdure.programs.cortext.repository import commit
commit(sys.argv[1], sys.argv[2], lambda is_session_only: "killed")
"""


@pytest.mark.parametrize(
    ("when", "step"),
    [
        *(("behind", step) for step in ("hash-object", "commit-tree", "update-index", "update-ref")),
        ("before", "update-ref"),
    ],
)
def test_cor_18_who_is_killed_at_a_step_leaves_a_repository_to_go_on_with(
    workspace, tmp_path, monkeypatch, when, step
):
    """What was staged is staged, no lock is left, and no later commit, the user's or ours, loses anything."""
    workspace.commit()
    (workspace.path / "staged.txt").write_text("staged")
    workspace.git("add", "staged.txt")
    workspace.say_something("again")
    with monkeypatch.context() as patch:
        real = 'real "$@"; ' if when == "behind" else ""
        stand_in(tmp_path / "bin", patch, f'if [ "$step" = {step} ]; then {real}kill -9 $PPID; exit 0; fi')
        killed = processes.run([sys.executable, "-c", ONE, str(workspace.path), FOLDER], timeout=60)
    assert killed.returncode == -9
    assert list((workspace.path / ".git").rglob("*.lock")) == []
    if when == "before":  # it is in the index, and not on the branch
        workspace.git("commit", "-q", "-m", "theirs")
        assert workspace.git("show", f"HEAD:{FOLDER}/plan.md") == "hello\nagain\n"
        assert workspace.commit() is None
    else:
        made = workspace.commit()
        assert (made is None) == (step == "update-ref")
        assert workspace.git("diff", "--cached", "--name-only") == "staged.txt\n"
        assert workspace.git("show", f"HEAD:{FOLDER}/plan.md") == "hello\nagain\n"
        workspace.git("commit", "-q", "-m", "theirs")
    assert len(workspace.kept()) == 2 + 3 + 1
    assert "error" not in workspace.git("fsck", "--strict")


# --- what stands in the way -----------------------------------------------------------------------


def conflict(workspace: Workspace, path: str, command: str) -> None:
    """Two branches that do not go together there."""
    workspace.git("checkout", "-q", "-b", "side")
    for branch in ("side", "main"):
        workspace.git("checkout", "-q", branch)
        (workspace.path / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace.path / path).write_text(branch)
        workspace.git("add", path)
        workspace.git("commit", "-q", "-m", branch)
    workspace.git(command, "side", check=False)
    assert "U" in workspace.git("ls-files", "-t", "-u", path) or workspace.git("ls-files", "-u", path)


def test_cor_18_a_merge_that_is_going_on_keeps_going_on(workspace):
    """Its conflicts are elsewhere; the merge commit has both, and who gives it up keeps the conversation."""
    conflict(workspace, "notes.txt", "merge")
    unmerged = workspace.git("ls-files", "-u")
    assert workspace.commit()
    assert workspace.git("ls-files", "-u") == unmerged
    workspace.git("merge", "--abort")
    assert (workspace.folder / "plan.md").read_text() == "hello\n"
    workspace.git("merge", "side", check=False)
    workspace.say_something("again")
    assert workspace.commit()
    (workspace.path / "notes.txt").write_text("both")
    workspace.git("commit", "-q", "-a", "-m", "merged")
    assert workspace.git("show", f"HEAD:{FOLDER}/plan.md") == "hello\nagain\n"
    assert len(workspace.git("log", "-1", "--format=%p").split()) == 2


def test_cor_18_a_conversation_in_conflict_waits_for_its_user(workspace):
    """What is in its files is no conversation."""
    shutil.rmtree(workspace.path / "conversations")
    conflict(workspace, f"{FOLDER}/plan.md", "merge")
    reason = not_committed(workspace)
    assert f"{workspace.folder}/plan.md is in conflict" in reason.message
    assert "git add" in reason.hint


def test_cor_18_a_rebase_would_take_the_conversation_along(workspace):
    """Whoever gives it up goes back to where it began. So nothing is committed, and the files stay."""
    conflict(workspace, "notes.txt", "rebase")
    assert "a rebase is going on" in not_committed(workspace).message
    workspace.git("rebase", "--abort")
    assert (workspace.folder / "plan.md").read_text() == "hello\n"
    assert workspace.commit()
    workspace.git("bisect", "start")
    assert workspace.commit() is None
    workspace.say_something("again")
    assert "a bisect is going on" in not_committed(workspace).message


def nobody(workspace: Workspace, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    workspace.git("config", "--remove-section", "user")
    workspace.git("config", "user.useConfigOnly", "true")


def nowhere(workspace: Workspace, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    (workspace.path / ".git").rename(tmp_path / "elsewhere")


def bare(workspace: Workspace, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    workspace.git("config", "core.bare", "true")


def elsewhere(workspace: Workspace, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    workspace.git("config", "core.worktree", str(tmp_path / "elsewhere"))


def somebody_elses(workspace: Workspace, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path / "bin", patch, "export GIT_TEST_ASSUME_DIFFERENT_OWNER=1")


def no_git(workspace: Workspace, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    """But one in the workspace, and one in the current directory."""
    for folder in (workspace.path / "bin", tmp_path / "bin"):
        stand_in(folder, patch, f"touch {tmp_path}/ran")
    patch.chdir(tmp_path / "bin")
    (tmp_path / "inward").symlink_to(workspace.path / "bin")
    patch.setenv("PATH", os.pathsep.join([str(workspace.path / "bin"), ".", "", str(tmp_path / "inward")]))


def linked(workspace: Workspace, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    (workspace.path / "conversations").rename(tmp_path / "conversations")
    (workspace.path / "conversations").symlink_to(tmp_path / "conversations")


def deleted(workspace: Workspace, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(workspace.folder)


def other_repository(workspace: Workspace, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    workspace.git("init", "-q", "conversations")


def absent_submodule(workspace: Workspace, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    head = workspace.git("rev-parse", "HEAD").strip()
    workspace.git("update-index", "--add", "--cacheinfo", f"160000,{head},conversations")
    workspace.git("commit", "-q", "-m", "submodule")


def broken(workspace: Workspace, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    (workspace.path / ".git" / "refs" / "heads" / "main").write_text("")


@pytest.mark.parametrize(
    ("spoil", "message", "hint"),
    [
        (nobody, "git does not know who you are", "git config --global user.name"),
        (nowhere, "ws is in no git repository", "git init"),
        (bare, "has no working tree", "git clone"),
        (elsewhere, "has no working tree", "git clone"),
        (somebody_elses, "belongs to somebody else", "safe.directory"),
        (no_git, "git is not installed", "install it"),
        (linked, "conversations is a symbolic link", "remove it"),
        (deleted, "001-plan-x is no folder of this workspace", "moved or deleted"),
        (other_repository, "conversations is a repository of its own", "commit there"),
        (absent_submodule, "conversations is a repository of its own", "commit there"),
        (broken, "git says: ", "git status"),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_cor_18_what_is_in_the_way_is_said_with_what_to_do(
    workspace, tmp_path, monkeypatch, spoil, message, hint
):
    """In one sentence, and nothing changed."""
    spoil(workspace, tmp_path, monkeypatch)
    reason = not_committed(workspace)
    assert reason.message.startswith("Not committed: ")
    assert message in reason.message
    assert hint in reason.hint
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("step", ["ls-files", "cat-file"])
def test_cor_18_a_git_that_hangs_is_ended(workspace, tmp_path, monkeypatch, step):
    """Whoever pauses a conversation is not held up for ever."""
    monkeypatch.setattr(git, "_LONGEST", 0.5)
    stand_in(tmp_path / "bin", monkeypatch, f'if [ "$step" = {step} ]; then exec sleep 600; fi')
    assert not_committed(workspace).message.startswith("Not committed: git says: ")


def test_cor_18_only_a_folder_of_the_workspace_is_committed(workspace):
    """Whatever is asked for."""
    (workspace.path.parent / "outside").mkdir()
    for folder in ("../outside", "conversations/../../outside", "/etc", ".", ""):
        assert "is no folder of this workspace" in not_committed(workspace, folder=folder).message


def test_cor_18_a_full_disk_and_a_read_only_one_are_told_apart(tmp_path):
    """What was said is saved beside it; when there is room again, it is committed."""
    with needed_disk(tmp_path / "disk", "1m") as disk:
        workspace = Workspace(tmp_path / "ws")
        workspace.path.mkdir()
        workspace.git("init", "-q", "-b", "main", "--template=", "--separate-git-dir", str(disk / "git"))
        workspace.identify()
        workspace.say_something()
        workspace.commit()
        workspace.say_something("again" * 10_000)
        fill(disk)
        assert "is full" in not_committed(workspace).message
        make_room(disk)
        processes.run(["mount", "-o", "remount,ro", disk], check=True)
        assert "cannot be written to" in not_committed(workspace).message
        processes.run(["mount", "-o", "remount,rw", disk], check=True)
        assert workspace.commit()


# --- a repository to start with -------------------------------------------------------------------


def test_cor_20_a_workspace_outside_any_repository_gets_one(tmp_path, home):
    """Once. With no hooks in it, whatever the user's template has, and with the branch name they set."""
    hooks = home / "template" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "post-checkout").write_text("#!/bin/sh\n")
    (home / ".gitconfig").write_text(f"[init]\ntemplateDir = {home}/template\ndefaultBranch = trunk\n")
    workspace = Workspace(tmp_path / "ws")
    (workspace.path / "below").mkdir(parents=True)
    assert start(str(workspace.path)) is True
    assert not (workspace.path / ".git" / "hooks").exists()
    assert start(str(workspace.path)) is False
    assert start(str(workspace.path / "below")) is False
    workspace.identify()
    workspace.say_something()
    made = workspace.commit()
    assert made is not None
    assert made.branch == "trunk"
    assert workspace.git("status", "--porcelain") == ""


def test_cor_20_a_repository_that_git_refuses_is_one_all_the_same(workspace, tmp_path, monkeypatch):
    """No second one is made inside it, and it is said why conversations will not be committed."""
    stand_in(tmp_path / "bin", monkeypatch, "export GIT_TEST_ASSUME_DIFFERENT_OWNER=1")
    with pytest.raises(NotCommitted, match="belongs to somebody else"):
        start(str(workspace.folder))
    assert not (workspace.folder / ".git").exists()
