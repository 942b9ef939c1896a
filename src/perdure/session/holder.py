"""Who holds a lock, asked without taking it.

A lock file can be removed by its holder (`stores/lock.py`), so a file that was opened by its path may have
lost that path since. Whoever asks then asks again, of the file that is there now, but not for ever: a file
system may say of every file that it has no path.
"""

from __future__ import annotations

import os

REMOVED = b"removed"
"""What a lock file begins with that its holder is about to remove, or has removed."""
REMOVED_GENERATION = -1
MOST_ASKED = 100
"""How often somebody asks anew because the lock file was removed meanwhile."""


def holder_at(path: str) -> int | None:
    """The process that holds the lock now; 0 if one does that does not say which; None if nobody does."""
    holder = None
    for _ in range(MOST_ASKED):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            holder = holder_of(descriptor)
            if has_name(descriptor):
                break
        except OSError:
            return None
        finally:
            os.close(descriptor)
    return holder


def holder_of(descriptor: int) -> int | None:
    if not try_to_lock(descriptor, shared=True):  # shared: two that only ask are not in each other's way
        return written_in(descriptor)[0] or 0
    unlock(descriptor)
    return None


def has_name(descriptor: int) -> bool:
    """False if the lock file was removed since it was opened."""
    return os.fstat(descriptor).st_nlink > 0


def try_to_lock(descriptor: int, *, shared: bool = False) -> bool:
    import fcntl

    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(descriptor: int) -> None:
    import fcntl

    fcntl.flock(descriptor, fcntl.LOCK_UN)


def written_in(descriptor: int) -> tuple[int | None, int]:
    """The pid and the generation written in a lock file; a pid that is this process's own included. The
    generation of one that was removed is `REMOVED_GENERATION`."""
    try:
        text = os.pread(descriptor, 64, 0)
        if text.startswith(REMOVED):
            return None, REMOVED_GENERATION
        pid, generation = text.split()
        return int(pid), int(generation)
    except (OSError, ValueError):
        return None, 0
