"""Files with all that a command wrote, where that is more than is shown. They are the user's own, and expire.

Each is alone in a folder of the system's for temporary files, made under a name that nobody can foresee. That
place is shared: a folder of another user, or a link to one, is never looked into, whatever its name. Logs go
after seven days, if the clock is believed, and the oldest before that when all together have more than 1 GB;
never one that a process is writing, which holds its lock.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, NamedTuple

KEPT_FOR_S = 7 * 24 * 3600
MOST_BYTES = 2**30
_PREFIX = "perdure-bash-"
_NAME = "output.log"
_has_begun = threading.Event()


def create() -> BinaryIO:
    """A new one, open and locked until it is closed."""
    import tempfile  # few commands print so much

    path = os.path.join(tempfile.mkdtemp(prefix=_PREFIX), _NAME)
    file = open(path, "xb", buffering=0, opener=lambda name, flags: os.open(name, flags, 0o600))
    if os.name == "posix":
        import fcntl

        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file


def expire_once() -> None:
    """Let old ones expire, unless this process has looked already."""
    if not _has_begun.is_set():
        _has_begun.set()
        expire_in_thread()


def expire_in_thread() -> None:
    """Nobody waits for it: to remove large files takes a while."""
    threading.Thread(target=expire, daemon=True, name="bash logs").start()


def expire(folder: str = "") -> None:
    if os.name != "posix":
        return
    if not folder:
        import tempfile

        folder = tempfile.gettempdir()
    logs = sorted(_logs(folder), reverse=True)
    oldest = time.time() - KEPT_FOR_S
    if any(log.changed < oldest for log in logs) and not _is_clock_believed():
        oldest = -math.inf
    size = 0
    for log in logs:
        size += log.size
        if log.changed < oldest or size > MOST_BYTES:
            with suppress(OSError):
                _remove(log.folder)


def _is_clock_believed() -> bool:
    from perdure.session import last_seen  # few start with logs that are old

    return last_seen.judge_clock()


class _Log(NamedTuple):
    changed: float
    size: int
    folder: str


def _logs(folder: str) -> Iterator[_Log]:
    try:
        names = [name for name in os.listdir(folder) if name.startswith(_PREFIX)]
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        with suppress(OSError), _own_folder(path) as opened:
            try:
                found = os.stat(_NAME, dir_fd=opened, follow_symlinks=False)
            except FileNotFoundError:  # of a process that was killed before it made one
                yield _Log(os.fstat(opened).st_mtime, 0, path)
            else:
                yield _Log(found.st_mtime, found.st_size, path)


def _remove(path: str) -> None:
    import fcntl

    with _own_folder(path) as opened, suppress(FileNotFoundError):
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(_NAME, "rb", opener=lambda name, _: os.open(name, flags, dir_fd=opened)) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError: somebody writes it
            os.unlink(_NAME, dir_fd=opened)
    os.rmdir(path)


@contextmanager
def _own_folder(path: str) -> Iterator[int]:
    """OSError if it is a link, no folder, or another user's."""
    opened = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(opened).st_uid != os.getuid():
            raise PermissionError(path)
        yield opened
    finally:
        os.close(opened)
