"""Who holds a lock, asked without taking it."""

from __future__ import annotations

import os


def holder_at(path: str) -> int | None:
    """The process that holds the lock now; 0 if one does that does not say which; None if nobody does."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return holder_of(descriptor)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def holder_of(descriptor: int) -> int | None:
    if not try_to_lock(descriptor, shared=True):  # shared: two that only ask are not in each other's way
        return written_in(descriptor)[0] or 0
    unlock(descriptor)
    return None


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
    """The pid and the generation written in a lock file; a pid that is this process's own included."""
    try:
        pid, generation = os.pread(descriptor, 64, 0).split()
        return int(pid), int(generation)
    except (OSError, ValueError):
        return None, 0
