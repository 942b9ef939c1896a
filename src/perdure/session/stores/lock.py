"""One lock per session: a file that is never replaced, and removed by its holder alone, held by the kernel.

The kernel frees it when its process dies, however that happens, so there is no stale lock and no
guessing who is alive. The file holds the holder's pid, for the message to whoever waits, a
generation that grows with every holder, and, behind them, a note that a holder may leave for later ones.

Only a holder removes the file, and only when its session is gone (`unused_locks.py`). Others may have opened
it by then, so a lock counts only if its path leads to the file that is locked. The holder also writes into
the file that it is removed, before it removes it: on a network file system a path can be out of date, and
what is read under a lock cannot. Who finds that written opens the path anew, which no cache answers.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
import weakref
from io import FileIO
from typing import Self

from perdure.errors import Held, NotSaved
from perdure.session.holder import (
    MOST_ASKED,
    REMOVED,
    REMOVED_GENERATION,
    has_name,
    holder_of,
    try_to_lock,
    unlock,
    written_in,
)
from perdure.session.stores import files

_SHORTEST_WAIT = 0.05  # even "do not wait" outlasts a reader that only asks who holds the lock
_PAUSES = (0.0005, 0.02)
_HOLDER = 32  # bytes that say who it is
_NOTE_AT = 64  # behind all that is read to learn who it is
_LONGEST_NOTE = 64


class Lock:
    """Held from construction until `release`, or until it is dropped, or the process ends."""

    def __init__(self, root: str, relative: str, session: str, wait: float, *, private: bool = True) -> None:
        self.path = os.path.join(root, relative)
        self._place = root, relative
        deadline = time.monotonic() + max(wait, _SHORTEST_WAIT)
        pause = _PAUSES[0]
        while True:
            try:
                self._file = _opened(root, relative, private)
                own = os.fstat(self._file.fileno())
                self._identity = own.st_ino, own.st_dev  # which never changes while the file is open
                if try_to_lock(self._file.fileno()) and self.is_mine():
                    _, before = written_in(self._file.fileno())
                    if before != REMOVED_GENERATION or self._is_at_path_anew():
                        break
            except OSError as error:
                if hasattr(self, "_file"):
                    self._file.close()  # whoever keeps the error must not keep the lock with it
                # A network file system's word for a file that was removed, or for a folder that is gone.
                if error.errno != errno.ESTALE or time.monotonic() >= deadline:
                    raise NotSaved(self.path, error) from error
                time.sleep(pause)
                continue
            if time.monotonic() >= deadline:
                pid, _ = written_in(self._file.fileno())
                self._file.close()
                raise Held(session, pid)
            self._file.close()
            time.sleep(pause)
            pause = min(pause * 1.5, _PAUSES[1])
        self._pid = os.getpid()
        self.generation = max(before, 0) + 1
        try:
            # Always of one length, so that nothing need be cut off: a file that was cut to nothing and then
            # written is flushed to disk by ext4 when it is closed, at the price of a sync.
            os.pwrite(
                self._file.fileno(), b"%-10d %-20d\n" % (self._pid, self.generation), 0
            )  # _HOLDER bytes
        except OSError:
            pass  # who holds it is a courtesy; that it is held is the kernel's word
        _held.add(self)

    def fileno(self) -> int:
        """A process that is started with it open holds the lock too, should this one be killed."""
        return self._file.fileno()

    def is_mine(self) -> bool:
        """Whether the lock still guards the path: not after a fork, nor after somebody removed the file."""
        if self._file.closed:
            return False
        try:
            there = os.lstat(self.path)
            return (there.st_ino, there.st_dev) == self._identity
        except FileNotFoundError:
            return False

    @property
    def noted(self) -> str:
        """What an earlier holder left; empty if none did. A session's says when it was last wanted by
        somebody who wrote nothing into it."""
        try:
            return os.pread(self._file.fileno(), _LONGEST_NOTE, _NOTE_AT).decode("ascii", "replace").strip()
        except OSError:
            return ""

    def note(self, text: str) -> None:
        """Leave a short word for later holders, if the disk lets us: nothing depends on it but a kindness."""
        padding = b" " * (_NOTE_AT - _HOLDER)
        try:
            os.pwrite(self._file.fileno(), padding + b"%-*b\n" % (_LONGEST_NOTE - 1, text.encode()), _HOLDER)
        except OSError:
            pass

    @property
    def is_this_process(self) -> bool:
        return os.getpid() == self._pid

    def release(self) -> None:
        try:
            # Unlocked by name and not by the close alone: a child that another thread forked in the
            # meantime may share the descriptor, and must not hold the lock for us.
            if not self._file.closed and self.is_this_process:
                unlock(self._file.fileno())
        except OSError:
            pass  # then the close does it
        finally:
            self._file.close()

    def remove(self) -> None:
        """Release the lock, and remove its file if the disk lets us. Only where its session is gone."""
        if self.is_this_process and not self._file.closed:
            with contextlib.suppress(OSError):
                if self.is_mine():
                    remove_file(self._file.fileno(), *self._place)
        self.release()

    def _is_at_path_anew(self) -> bool:
        """Whether the path leads to this file, asked by opening it: after a crash a file may be there that is
        called removed."""
        try:
            with files.open_beneath(*self._place, os.O_RDONLY) as there:
                own = os.fstat(there.fileno())
                return (own.st_ino, own.st_dev) == self._identity
        except FileNotFoundError:
            return False

    def let_go(self) -> None:
        """Close a forked child's copy, which leaves the parent's lock alone."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()


class Turns:
    """Threads of one process, one at a time. A forked child starts with turns of its own: a thread that had
    the parent's at that moment does not exist there, and would never give it back."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._pid = os.getpid()

    def __enter__(self) -> None:
        if self._pid != os.getpid():
            self.__init__()  # type: ignore[misc]
        self._lock.acquire()

    def __exit__(self, *exception: object) -> None:
        self._lock.release()


def holder(root: str, relative: str) -> int | None:
    """The process that holds the lock now; 0 if one does that does not say which; None if nobody does."""
    answer = None
    for _ in range(MOST_ASKED):
        try:
            with files.open_beneath(root, relative, os.O_RDONLY) as file:
                answer = holder_of(file.fileno())
                if has_name(file.fileno()):
                    break
        except OSError:
            return None
    return answer


def remove_file(descriptor: int, root: str, relative: str) -> None:
    """Remove a lock file whose path leads to it, and which this process has locked by `descriptor`."""
    os.pwrite(descriptor, b"%-*b\n" % (_HOLDER - 1, REMOVED), 0)
    with files.folder_of(root, relative) as (folder, name):
        os.unlink(name, dir_fd=folder)


_held: weakref.WeakSet[Lock] = weakref.WeakSet()


def _let_go_in_child() -> None:
    for lock in list(_held):
        lock.let_go()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go_in_child)


def _opened(root: str, relative: str, private: bool) -> FileIO:
    try:
        return files.open_beneath(root, relative, os.O_RDWR | os.O_CREAT, private=private)
    except FileNotFoundError:
        files.make_folder(root, private=private)
        steps = os.path.dirname(relative).split(os.sep)
        for count in range(len(steps)):
            files.new_folder(root, os.path.join(*steps[: count + 1]), private=private)
        return files.open_beneath(root, relative, os.O_RDWR | os.O_CREAT, private=private)
