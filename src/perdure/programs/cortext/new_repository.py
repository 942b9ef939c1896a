"""A repository for a workspace that is in none."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil

from perdure.programs.cortext.git import Failed, Git, explained, is_nowhere
from perdure.programs.cortext.syncing import sync, sync_all_in
from perdure.session.stores import files

_NEW = ".git.cortext.tmp"


def start(workspace: str) -> bool:
    """A repository, where there is none around the workspace. Whether one was made."""
    git = Git(workspace)
    try:
        git.run("rev-parse", "--git-dir")
        return False
    except Failed as failed:
        if not is_nowhere(failed):
            return False
    try:
        return _made(git, workspace)
    except Failed as failed:
        raise explained(failed, workspace) from failed
    except OSError as error:
        raise explained(Failed(f"fatal: {error.filename}: {error.strerror}"), workspace) from error


def _made(git: Git, workspace: str) -> bool:
    """Whether: not if somebody else made one meanwhile. It gets its name when it is whole, and on the disk:
    one that lacks a part git neither uses nor completes."""
    beside = os.path.join(workspace, _NEW)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(beside)
    files.make_folder(beside, private=False)
    try:
        git.run("init", "--quiet", "--template=", "--", _NEW)
        sync_all_in(os.path.join(beside, ".git"))
        try:
            os.rename(os.path.join(beside, ".git"), os.path.join(workspace, ".git"))
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            return False
    finally:
        shutil.rmtree(beside)
        sync([beside], workspace)
    return True
