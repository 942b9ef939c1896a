"""One lock per session: a file that is never replaced or removed, held by the kernel.

The kernel frees it when its process dies, however that happens, so there is no stale lock and no
guessing who is alive. The file holds the holder's pid, for the message to whoever waits, and a
generation that grows with every holder.
"""

from __future__ import annotations

import errno
import os
import time
import weakref
from io import FileIO
from typing import Self

from perdure.errors import Held, NotSaved
from perdure.session.stores import files

_SHORTEST_WAIT = 0.05  # even "do not wait" outlasts a reader that only asks who holds the lock
_PAUSES = (0.0005, 0.02)


class Lock:
    """Held from construction until `release`, or until it is dropped, or the process ends."""

    def __init__(self, root: str, relative: str, session: str, wait: float) -> None:
        self.path = os.path.join(root, relative)
        deadline = time.monotonic() + max(wait, _SHORTEST_WAIT)
        pause = _PAUSES[0]
        while True:
            try:
                files.make_folder(os.path.dirname(self.path))
                self._file = files.open_beneath(root, relative, os.O_RDWR | os.O_CREAT)
                own = os.fstat(self._file.fileno())
                self._identity = own.st_ino, own.st_dev  # which never changes while the file is open
                if _try(self._file) and self.is_mine():
                    break
            except OSError as error:
                raise NotSaved(self.path, error) from error
            if time.monotonic() >= deadline:
                pid, _ = _holder(self._file)
                self._file.close()
                raise Held(session, pid)
            self._file.close()
            time.sleep(pause)
            pause = min(pause * 1.5, _PAUSES[1])
        self._pid = os.getpid()
        _, before = _holder(self._file)
        self.generation = before + 1
        try:
            # Always of one length, so that nothing need be cut off: a file that was cut to nothing and then
            # written is flushed to disk by ext4 when it is closed, at the price of a sync.
            os.pwrite(self._file.fileno(), b"%-10d %-20d\n" % (self._pid, self.generation), 0)
        except OSError:
            pass  # who holds it is a courtesy; that it is held is the kernel's word
        _held.add(self)

    def is_mine(self) -> bool:
        """Whether the lock still guards the path: not after a fork, nor after somebody removed the file."""
        if self._file.closed:
            return False
        try:
            there = os.lstat(self.path)
            return (there.st_ino, there.st_dev) == self._identity
        except FileNotFoundError:
            return False

    def release(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()


def holder(root: str, relative: str) -> int | None:
    """The process that holds the lock now; 0 if one does that does not say which; None if nobody does."""
    try:
        with files.open_beneath(root, relative, os.O_RDWR) as file:
            return None if _try(file) else _holder(file)[0] or 0
    except OSError:
        return None


_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def _let_go_in_child() -> None:
    """A forked child shares the parent's lock; closing its copy leaves the parent's alone."""
    for lock in list(_held):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)


def _try(file: FileIO) -> bool:
    try:
        if os.name == "nt":
            import msvcrt

            os.lseek(file.fileno(), 1 << 30, os.SEEK_SET)  # far from the text, which others must still read
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        else:
            import fcntl

            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES, errno.EDEADLK):
            return False
        raise
    return True


def _holder(file: FileIO) -> tuple[int | None, int]:
    """The pid and the generation written in a lock file; a pid that is this process's own included."""
    try:
        pid, generation = os.pread(file.fileno(), 64, 0).split()
        return int(pid), int(generation)
    except (OSError, ValueError):
        return None, 0
