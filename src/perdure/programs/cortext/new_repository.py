"""A repository for a workspace that is in none. It gets its name when it is whole, and on the disk: one that
lacks a part git neither uses nor completes. One process at a time makes it, under the lock of the workspace's
commits, so that none removes what another one makes."""

from __future__ import annotations

import contextlib
import os
import shutil

from perdure import config
from perdure.programs.cortext import repository
from perdure.programs.cortext.git import Failed, Git, NotCommitted, is_nowhere
from perdure.programs.cortext.syncing import sync, sync_all_in
from perdure.session.stores import files

_NEW = ".git.cortext.tmp"


def start(workspace: str) -> bool:
    """Make a repository, if there is none around the workspace. Returns whether one was made. NotCommitted if
    there is one that git does not use."""
    git = Git(workspace)
    unfinished = os.path.join(workspace, _NEW)
    with repository.told(workspace):
        if _is_inside(git) and not os.path.lexists(unfinished):
            return False
        with repository.alone(workspace) as lock:
            git.kept = [lock.fileno()]  # nobody removes what our git makes before it ended
            try:
                return _complete(git, workspace, unfinished)
            except OSError as error:
                raise Failed(f"fatal: {error.filename}: {error.strerror}") from error


def _complete(git: Git, workspace: str, unfinished: str) -> bool:
    _remove(unfinished)
    if _is_inside(git):
        return False
    if _holds_something(os.path.join(workspace, ".git")):
        raise _not_used(workspace)
    _make(git, workspace, unfinished)
    repository.keep_own_out(workspace)
    return True


def _is_inside(git: Git) -> bool:
    """Whether there is a repository around the workspace. Failed if git does not use the one there is."""
    try:
        git.run("rev-parse", "--git-dir")
    except Failed as failed:
        if is_nowhere(failed):
            return False
        raise
    return True


def _holds_something(path: str) -> bool:
    """Whether there is anything but an empty folder."""
    try:
        return bool(os.listdir(path))
    except FileNotFoundError:
        return os.path.islink(path)
    except NotADirectoryError:
        return True


def _not_used(workspace: str) -> NotCommitted:
    place = config.as_typed(os.path.join(workspace, ".git"))
    return NotCommitted(
        f"{place} is there, and git does not take it for a repository",
        "if it is of no use, move it away: the next `cortext init` makes a new one",
    )


def _make(git: Git, workspace: str, unfinished: str) -> None:
    files.make_folder(unfinished, private=False)
    try:
        git.run("init", "--quiet", "--template=", "--", _NEW)
        made = os.path.join(unfinished, ".git")
        sync_all_in(made)
        os.rename(made, os.path.join(workspace, ".git"))
    finally:
        _remove(unfinished)
        sync([unfinished], workspace)


def _remove(unfinished: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(unfinished)
