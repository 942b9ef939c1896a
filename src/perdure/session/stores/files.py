"""Files that are whole or not there: private, synced, replaced in one step, never through a symlink.

A name below a store's root may come from anywhere, so no link below the root is followed: not as a
file, not as a folder, not between a check and an open.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from io import FileIO

from perdure.errors import NotSaved, Unreadable

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_DIRECTORY = getattr(os, "O_DIRECTORY", 0)
_BINARY = getattr(os, "O_BINARY", 0)


def open_beneath(root: str, relative: str, flags: int) -> FileIO:
    """Open `root/relative` if no step below `root` is a symbolic link. New files are for their owner only.

    A FileIO and not a number: wherever an interrupt strikes, dropping the object closes the file.
    """
    folder, name = os.path.split(relative)
    directory = _open_folder(root, folder)
    try:
        return FileIO(
            name,
            mode="r+" if flags & (os.O_RDWR | os.O_WRONLY) else "r",
            opener=lambda path, _: os.open(
                path, flags | _NOFOLLOW | _CLOEXEC | _BINARY, 0o600, dir_fd=directory
            ),
        )
    finally:
        os.close(directory)


def open_to_read(root: str, relative: str) -> FileIO:
    path = os.path.join(root, relative)
    try:
        file = open_beneath(root, relative, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        raise Unreadable(path, error) from error
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise Unreadable(path, "not a regular file")
    return file


def _open_folder(root: str, relative: str) -> int:
    directory = os.open(root, os.O_RDONLY | _DIRECTORY | _CLOEXEC)
    for step in relative.split("/") if relative else ():
        try:
            below = os.open(step, os.O_RDONLY | _DIRECTORY | _NOFOLLOW | _CLOEXEC, dir_fd=directory)
        finally:
            os.close(directory)
        directory = below
    return directory


def make_folder(path: str) -> None:
    """The folder and every missing one above it, for their owner only, and on disk when this returns."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        parent = os.path.dirname(path)
        if parent == path:
            break
        path = parent
    for folder in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        sync_folder(os.path.dirname(folder))


def create(root: str, relative: str, data: bytes, *, sync: bool = True) -> None:
    """A new file with `data` in it, under its name only once it is whole. Never over an existing one."""
    path = os.path.join(root, relative)
    try:
        if data:
            temporary = _write_beside(root, relative, data, sync=sync)
            _rename_to_new(temporary, path)
        else:
            open_beneath(root, relative, os.O_RDWR | os.O_CREAT | os.O_EXCL).close()
        if sync:
            sync_folder(os.path.dirname(path))
    except OSError as error:
        raise NotSaved(path, error) from error


def replace(root: str, relative: str, data: bytes) -> None:
    """The file's old content or its new one, at any moment and after a power cut; nothing between."""
    path = os.path.join(root, relative)
    temporary = _write_beside(root, relative, data, sync=True)
    try:
        os.replace(temporary, path)
        sync_folder(os.path.dirname(path))
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise NotSaved(path, error) from error


def set_aside(root: str, relative: str, suffix: str) -> str:
    """A second name for a file about to be replaced: `<name>.<suffix>`, numbered if that is taken."""
    path = os.path.join(root, relative)
    number = 1
    while True:
        aside = f"{path}.{suffix}" if number == 1 else f"{path}.{suffix}.{number}"
        try:
            os.link(path, aside, follow_symlinks=False)
            return aside
        except FileExistsError:
            number += 1
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise NotSaved(aside, error) from error
            with open_to_read(root, relative) as file:
                size = os.fstat(file.fileno()).st_size
                create(root, os.path.relpath(aside, root), read_all(file.fileno(), size))
            return aside


_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def _rename_to_new(temporary: str, path: str) -> None:
    try:
        os.link(temporary, path, follow_symlinks=False)
    except OSError as error:
        if error.errno in _NO_LINKS and not os.path.lexists(path):
            os.rename(temporary, path)
            return
        raise
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


def read_all(descriptor: int, size: int) -> bytes:
    """The first `size` bytes of a file, or all there are."""
    pieces = []
    at = 0
    while at < size and (piece := os.pread(descriptor, size - at, at)):
        at += len(piece)
        pieces.append(piece)
    return b"".join(pieces)


def _write_beside(root: str, relative: str, data: bytes, *, sync: bool) -> str:
    name = f"{relative}.{os.urandom(4).hex()}.tmp"
    path = os.path.join(root, name)
    try:
        with open_beneath(root, name, os.O_RDWR | os.O_CREAT | os.O_EXCL) as file:
            try:
                write_all(file.fileno(), data)
                if sync:
                    sync_data(file.fileno())
            except BaseException:
                os.unlink(path)
                raise
    except OSError as error:
        raise NotSaved(os.path.join(root, relative), error) from error
    return path


def write_all(descriptor: int, data: bytes) -> None:
    """One write, as a rule. A full disk shows as a short one; only the next call says why."""
    written = os.write(descriptor, data)
    while written < len(data):
        written += os.write(descriptor, memoryview(data)[written:])


def sync_data(descriptor: int) -> None:
    """Return when the file's bytes, and the size they need, are on the disk itself."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # its fsync stops at the drive's own cache
    else:
        getattr(os, "fdatasync", os.fsync)(descriptor)


def sync_folder(path: str) -> None:
    """Make a creation or a rename in this folder survive a power cut."""
    if os.name == "nt":
        return  # folders cannot be opened there
    descriptor = os.open(path, os.O_RDONLY | _DIRECTORY | _CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
