"""The user's index, changed in one step: after a power cut, too, it is the old one or the new one.

The new one is made beside it, by git, and synced. Only then the user's is locked, as git locks it, for as
long as it takes to see that nobody has changed it meanwhile, and to put the new one in its place.
"""

from __future__ import annotations

import contextlib
import os

from perdure.programs.cortext.git import Failed, Git
from perdure.programs.cortext.own_locks import OwnLocks, are_same
from perdure.programs.cortext.syncing import sync
from perdure.session.stores import files


def change(git: Git, locks: OwnLocks, lines: bytes) -> bool:
    """Give it the entries in these lines, as `git update-index -z --index-info` reads them. False if somebody
    else has it, or has just changed it.

    The folder that it is in is left to the caller to sync.
    """
    words = ("update-index", "-z", "--index-info")
    try:
        before = _second_name(locks.index, locks.own_index)
        git.run(*words, feed=lines, index=locks.own_index)
        shared = [name for name in os.listdir(locks.home) if name.startswith("sharedindex.")]
        sync([os.path.join(locks.home, name) for name in shared] + [locks.own_index], locks.common)
        return are_same(locks.own_index, locks.index) or _replaced(locks, before)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in files.NO_LINKS:
            raise Failed(f"fatal: {error.filename}: {error.strerror}") from error
    git.run(*words, feed=lines)  # a disk without links
    sync([locks.index], locks.common)
    return True


def _second_name(index: str, own: str) -> tuple[int, ...]:
    for left in (own, f"{own}.lock"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(left)
    with contextlib.suppress(FileNotFoundError):  # as long as nothing was added
        os.link(index, own)
    return _identity(own)


def _replaced(locks: OwnLocks, before: tuple[int, ...]) -> bool:
    os.link(locks.own_index, locks.index_lock)
    try:
        if _identity(locks.index) != before:
            return False
        os.replace(locks.index_lock, locks.index)
        return True
    finally:
        if are_same(locks.index_lock, locks.own_index):  # and not that of whoever came next
            os.unlink(locks.index_lock)


def _identity(path: str) -> tuple[int, ...]:
    """What is another one for every index: git never changes one in its place."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return ()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
