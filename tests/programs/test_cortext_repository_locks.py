"""Git's locks, after a pause that was ended in the middle: ours go with the next one, all others stay."""

import os
import signal
import sys
import time
from pathlib import Path
from unittest.mock import patch

import pytest

from perdure.programs.cortext import own_locks
from perdure.programs.cortext.own_locks import OwnLocks
from tests import processes
from tests.programs.git_workspace import FOLDER, GIT, Workspace, not_committed, stand_in, template, workspace
from tests.programs.test_cortext_repository_faults import ONE

__all__ = ["template", "workspace"]

pytestmark = pytest.mark.process

TALKED_WITH = """
if [ "$step" = update-ref ]; then
    mkfifo $here/told
    {git} "$@" < $here/told & git=$!
    exec 9> $here/told
    while read -r line; do
        if [ "$line" = commit ]; then {at_commit}; exit; fi
        echo "$line" >&9
    done
fi
"""
"""A git whose references are locked, and that does something else than to move them."""


def locks_in(workspace: Workspace) -> set[str]:
    git = workspace.path / ".git"
    return {str(path.relative_to(git)) for path in git.rglob("*.lock")}


def own_of(workspace: Workspace) -> set[str]:
    return {path.name for path in workspace.top.glob(".git/cortext-*")}


def kill_at_commit(workspace: Workspace, folder: Path, monkeypatch, at_commit: str) -> None:
    with monkeypatch.context() as patch:
        stand_in(folder, patch, TALKED_WITH.format(git=GIT, at_commit=at_commit))
        killed = processes.run([sys.executable, "-c", ONE, str(workspace.path), FOLDER], timeout=60)
    assert killed.returncode == -signal.SIGKILL


def check_gone_on(workspace: Workspace) -> None:
    """With the next pause, and by the user."""
    assert workspace.commit()
    assert locks_in(workspace) | own_of(workspace) == set()
    assert workspace.git("status", "--porcelain") == ""
    workspace.git("commit", "-q", "--allow-empty", "-m", "theirs")
    assert workspace.log() == ["theirs", "session state saved", "mine"]


def test_cor_18_locks_of_a_git_of_ours_that_was_killed_are_known_by_their_second_names(
    workspace, tmp_path, monkeypatch
):
    """Git and cortext end at once, as when a container is stopped."""
    kill_at_commit(workspace, tmp_path / "bin", monkeypatch, "kill -9 $PPID $git")
    assert locks_in(workspace) == {"HEAD.lock", "refs/heads/main.lock"}
    check_gone_on(workspace)


def test_cor_18_a_lock_of_ours_is_not_stale_while_our_git_lives(workspace, tmp_path, monkeypatch):
    """Though cortext was killed: the next pause waits for it."""
    kill_at_commit(
        workspace, tmp_path / "bin", monkeypatch, "kill -9 $PPID; until [ -e $here/go ]; do sleep 0.02; done"
    )
    before = locks_in(workspace)
    assert before == {"HEAD.lock", "refs/heads/main.lock"}
    assert "is at work" in not_committed(workspace, wait=0).message
    assert locks_in(workspace) == before
    (tmp_path / "bin" / "go").touch()
    check_gone_on(workspace)


def test_cor_18_an_index_of_ours_that_was_about_to_be_put_in_place_is_known(workspace):
    """By the second name of its lock."""
    locks = OwnLocks(str(workspace.path / ".git"), str(workspace.path / ".git"), "")
    Path(locks.own_index).write_bytes(Path(locks.index).read_bytes())
    os.link(locks.own_index, locks.index_lock)
    check_gone_on(workspace)


NAMES = ["HEAD.lock", "refs/heads/main.lock"]


@pytest.mark.parametrize("name", NAMES)
def test_cor_18_a_lock_from_before_the_machine_was_started_anew_is_ours_if_a_note_says_so(workspace, name):
    """Git had made it, and nobody had given it its second name yet."""
    announced(workspace)
    lock = workspace.path / ".git" / name
    lock.touch()
    assert str(lock) in not_committed(workspace, wait=0).message  # it was noted in this run of the machine
    announced(workspace)
    lock.touch()
    with patch.object(own_locks, "boot", lambda: "the next"):
        check_gone_on(workspace)


@pytest.mark.parametrize("name", [*NAMES, "index.lock"])
@pytest.mark.parametrize("when", [-60, 600])
def test_cor_18_a_lock_of_another_time_is_somebody_elses(workspace, name, when):
    """Whatever a note says; and a lock of the index, which is held while an editor is open, at any time."""
    announced(workspace)
    lock = workspace.path / ".git" / name
    lock.touch()
    if name != "index.lock":
        os.utime(lock, (time.time() + when,) * 2)
    with patch.object(own_locks, "boot", lambda: "the next"):
        assert str(lock) in not_committed(workspace, wait=0).message
    assert lock.exists()


def announced(workspace: Workspace) -> None:
    """A pause that is about to ask git for locks."""
    OwnLocks(str(workspace.path / ".git"), str(workspace.path / ".git"), "").announce("refs/heads/main")


def test_cor_18_a_note_leads_nowhere_outside_the_repository(workspace, tmp_path):
    """Whoever wrote it: the repository may come from anywhere."""
    OwnLocks(str(workspace.path / ".git"), str(workspace.path / ".git"), "").announce("refs/../../../aim")
    (tmp_path / "aim.lock").touch()
    with patch.object(own_locks, "boot", lambda: "the next"):
        assert workspace.commit()
    assert (tmp_path / "aim.lock").exists()


# --- the index ------------------------------------------------------------------------------------


def test_cor_18_what_the_user_stages_in_the_meantime_is_staged(workspace, tmp_path, monkeypatch):
    """Between our new index and its place: it is made again, from theirs."""
    (workspace.path / "staged.txt").write_text("staged")
    once = 'if [ "$step" = update-index ] && mkdir $here/once 2>/dev/null'
    stand_in(tmp_path / "bin", monkeypatch, f'{once}; then real "$@"; git add staged.txt; exit 0; fi')
    assert workspace.commit()
    assert workspace.git("status", "--porcelain") == "A  staged.txt\n"


def test_cor_18_a_disk_without_links_has_the_same_index(workspace, monkeypatch):
    """Git then locks it itself."""

    def no_links(*arguments, **options):
        raise PermissionError(1, os.strerror(1))

    monkeypatch.setattr(os, "link", no_links)
    workspace.git("rm", "-q", "--cached", "notes.txt")
    assert workspace.commit()
    assert workspace.git("status", "--porcelain") == "D  notes.txt\n?? notes.txt\n"
    assert locks_in(workspace) | own_of(workspace) == set()


# --- objects --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["blob", "tree"])
def test_cor_18_an_object_that_a_power_cut_emptied_is_named(workspace, kind):
    """Git takes it for written, and would commit what it cannot read."""
    made = workspace.commit()
    assert made is not None
    path = FOLDER if kind == "tree" else f"{FOLDER}/plan.md"
    id = workspace.git("rev-parse", f"HEAD:{path}").strip()
    workspace.git("reset", "-q", "--soft", "HEAD^")
    damaged = workspace.path / ".git" / "objects" / id[:2] / id[2:]
    damaged.unlink()
    damaged.touch()
    reason = not_committed(workspace)
    assert str(damaged) in reason.message
    assert "remove that file" in reason.hint
    damaged.unlink()
    assert workspace.commit()
    assert "error" not in workspace.git("fsck", "--strict")
