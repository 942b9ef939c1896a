"""Files that are whole or not there: private, synced, replaced in one step, never through a symlink.

A name below a store's root may come from anywhere, so no link below the root is followed: not as a
file, not as a folder, not between a check and an open.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
import sys
from collections.abc import Iterator
from io import FileIO

from perdure.errors import NotSaved, Unreadable


def open_beneath(root: str, relative: str, flags: int) -> FileIO:
    """Open `root/relative` if no step below `root` is a symbolic link. New files are for their owner only.

    A FileIO and not a number: wherever an interrupt strikes, dropping the object closes the file.
    """
    with _folder_of(root, relative) as (folder, name):
        return _open(folder, name, flags)


def open_to_read(root: str, relative: str) -> FileIO:
    path = os.path.join(root, relative)
    with told(Unreadable, path):
        file = open_beneath(root, relative, os.O_RDONLY | os.O_NONBLOCK)
        try:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file
            raise Unreadable(path, "not a regular file")
        except BaseException:
            file.close()
            raise


@contextlib.contextmanager
def _folder_of(root: str, relative: str) -> Iterator[tuple[int, str]]:
    """The folder a file is in, opened step by step so that every name used in it stays below `root`."""
    *steps, name = relative.split(os.sep)
    if {"", os.curdir, os.pardir} & set(steps):
        raise OSError(errno.EINVAL, "it does not lie in the store", relative)
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for step in steps:
            below = os.open(step, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            above, folder = folder, below  # in this order, so that no interrupt can close one twice
            os.close(above)
        yield folder, name
    finally:
        os.close(folder)


def _open(folder: int, name: str, flags: int) -> FileIO:
    return FileIO(
        name,
        mode="r+" if flags & (os.O_RDWR | os.O_WRONLY) else "r",
        opener=lambda path, _: os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder),
    )


def names(root: str, relative: str) -> list[str]:
    """What is in a folder below `root`, reached without following a link; nothing if it cannot be read."""
    try:
        with _folder_of(root, os.path.join(relative, "")) as (folder, _):
            return os.listdir(folder)
    except OSError:
        return []


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


def new_folder(root: str, relative: str) -> bool:
    """A folder that was not there before; False if it was."""
    try:
        with _folder_of(root, relative) as (folder, name):
            os.mkdir(name, 0o700, dir_fd=folder)
            _sync(folder)
    except FileExistsError:
        return False
    except OSError as error:
        raise NotSaved(os.path.join(root, relative), error) from error
    return True


def remove_folder(root: str, relative: str, *names: str) -> None:
    """Take back a folder made by `new_folder` and these files in it. One that holds anything else stays."""
    with contextlib.suppress(OSError), _folder_of(root, os.path.join(relative, "")) as (folder, _):
        there = set(os.listdir(folder))
        if there <= set(names):
            for name in there:
                os.unlink(name, dir_fd=folder)
            with _folder_of(root, relative) as (parent, own_name):
                os.rmdir(own_name, dir_fd=parent)


def create(root: str, relative: str, data: bytes, *, sync: bool = True) -> None:
    """A new file with `data` in it, under its name only once it is whole. Never over an existing one."""
    try:
        with _folder_of(root, relative) as (folder, name):
            if data:
                temporary = _write_beside(folder, name, data, sync=sync)
                try:
                    _link(folder, temporary, name)
                finally:
                    os.unlink(temporary, dir_fd=folder)
            else:
                _open(folder, name, os.O_RDWR | os.O_CREAT | os.O_EXCL).close()
            if sync:
                _sync(folder)
    except OSError as error:
        raise NotSaved(os.path.join(root, relative), error) from error


def replace(root: str, relative: str, data: bytes) -> None:
    """The file's old content or its new one, at any moment and after a power cut; nothing between."""
    try:
        with _folder_of(root, relative) as (folder, name):
            temporary = _write_beside(folder, name, data, sync=True)
            try:
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                os.unlink(temporary, dir_fd=folder)
                raise
            _sync(folder)
    except OSError as error:
        raise NotSaved(os.path.join(root, relative), error) from error


def set_aside(root: str, relative: str, suffix: str) -> str:
    """A second name for a file about to be replaced: `<name>.<suffix>`, numbered if that is taken."""
    for number in itertools.count(1):
        aside = f"{relative}.{suffix}" if number == 1 else f"{relative}.{suffix}.{number}"
        try:
            with _folder_of(root, relative) as (folder, name):
                _link(folder, name, os.path.basename(aside))
                _sync(folder)
            return aside
        except FileExistsError:
            if os.path.samefile(os.path.join(root, relative), os.path.join(root, aside)):
                return aside  # from a try that got no further
        except OSError as error:
            raise NotSaved(os.path.join(root, aside), error) from error
    raise AssertionError("unreachable")


def move(root: str, relative: str, new_root: str, new_relative: str) -> None:
    """A file to another folder, on another disk too; on disk when this returns."""
    try:
        with (
            _folder_of(root, relative) as (old, name),
            _folder_of(new_root, new_relative) as (new, new_name),
        ):
            try:
                os.rename(name, new_name, src_dir_fd=old, dst_dir_fd=new)
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                _copy(old, name, new, new_name)
                _sync(new)
                os.unlink(name, dir_fd=old)
            _sync(new)
            _sync(old)
    except OSError as error:
        raise NotSaved(os.path.join(root, relative), error) from error


def _link(folder: int, name: str, new_name: str) -> None:
    """A second name for a file, never one that is taken. Where the file system has no links, a copy."""
    try:
        os.link(name, new_name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        _copy(folder, name, folder, new_name)


def _copy(folder: int, name: str, new_folder: int, new_name: str) -> None:
    """A whole copy under a name that is not taken, or none."""
    with (
        _open(folder, name, os.O_RDONLY) as file,
        _open(new_folder, new_name, os.O_RDWR | os.O_CREAT | os.O_EXCL) as copy,
    ):
        try:
            write_all(copy.fileno(), read_all(file.fileno(), os.fstat(file.fileno()).st_size))
            sync_data(copy.fileno())
        except BaseException:
            os.unlink(new_name, dir_fd=new_folder)
            raise


def _write_beside(folder: int, name: str, data: bytes, *, sync: bool) -> str:
    temporary = f"{name}.{os.urandom(4).hex()}.tmp"
    with _open(folder, temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL) as file:
        try:
            write_all(file.fileno(), data)
            if sync:
                sync_data(file.fileno())
        except BaseException:
            os.unlink(temporary, dir_fd=folder)
            raise
    return temporary


def read_all(descriptor: int, size: int) -> bytes:
    """The first `size` bytes of a file, or all there are."""
    pieces = []
    at = 0
    while at < size and (piece := os.pread(descriptor, size - at, at)):
        at += len(piece)
        pieces.append(piece)
    return b"".join(pieces)


@contextlib.contextmanager
def told(kind: type[NotSaved] | type[Unreadable], path: str) -> Iterator[None]:
    """Whatever the operating system refuses in here is an error that names the file."""
    try:
        yield
    except OSError as error:
        raise kind(path, error) from error


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
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _sync(folder)
    finally:
        os.close(folder)


def _sync(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems have nothing to sync here, and say so
            raise
