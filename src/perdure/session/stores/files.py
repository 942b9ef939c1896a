"""Files that are whole or not there: private, synced, replaced in one step, never through a symlink.

A name below a store's root may come from anywhere, so no link below the root is followed: not as a
file, not as a folder, not between a check and an open.

What is made is private, for its owner only whatever the umask, unless the caller says otherwise: then the
umask rules, as in a folder that people share, but never lets everybody write: what anybody may have written
is not used. What is replaced stays as it was, and its owner's (owners.py).
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from io import FileIO

from perdure.errors import FolderNotMade, NotAFolder, NotSaved, Unreadable
from perdure.session import layouts
from perdure.session.stores import owners

_PIECE = 2**20


def open_beneath(root: str, relative: str, flags: int, *, private: bool = True) -> FileIO:
    """Open `root/relative` if no step below `root` is a symbolic link.

    A FileIO and not a number: wherever an interrupt strikes, dropping the object closes the file.
    """
    with folder_of(root, relative) as (folder, name):
        return open_in(folder, name, flags, private=private)


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
def folder_of(root: str, relative: str) -> Iterator[tuple[int, str]]:
    """The folder a file is in, opened step by step so that every name used in it stays below `root`."""
    *steps, name = relative.split(os.sep)
    if {"", os.curdir, os.pardir} & set(steps) or name in (os.curdir, os.pardir):
        raise OSError(errno.EINVAL, "it does not lie in the store", relative)
    with below(os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), steps, root) as folder:
        yield folder, name


@contextlib.contextmanager
def below(folder: int, steps: Sequence[str], root: str = "") -> Iterator[int]:
    """The folder so many steps below one that is open, which is closed here. `root` is the path of that one,
    for errors."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        for number, step in enumerate(steps):
            try:
                deeper = os.open(step, flags, dir_fd=folder)
            except OSError as error:
                if error.errno in (errno.ENOTDIR, errno.ELOOP):
                    raise not_a_folder(os.path.join(root, *steps[: number + 1])) from None
                raise
            above, folder = folder, deeper  # in this order, so that no interrupt can close one twice
            os.close(above)
        yield folder
    finally:
        os.close(folder)


def not_a_folder(path: str) -> NotAFolder:
    """What to say of something else where a folder has to be."""
    try:
        target = os.path.join(os.path.dirname(path), os.readlink(path))
    except OSError:
        return NotAFolder(path)
    return NotAFolder(
        path,
        target,
        leads_to_a_folder=os.path.isdir(target),
        is_in_users_home=layouts.is_in_users_home(path),
    )


def open_in(folder: int, name: str, flags: int, *, private: bool = True) -> FileIO:
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC
    if flags & os.O_CREAT and owners.is_root():
        return _open_or_make_as_root(folder, name, flags, private)
    return _open(folder, name, flags, private)


def _open_or_make_as_root(folder: int, name: str, flags: int, private: bool) -> FileIO:
    while True:
        if not flags & os.O_EXCL:
            with contextlib.suppress(FileNotFoundError):
                return _open(folder, name, flags & ~os.O_CREAT, private)
        try:
            file = _open(folder, name, flags | os.O_EXCL, private)
        except FileExistsError:
            if flags & os.O_EXCL:
                raise
            continue  # another process has just made it
        owners.give_to_owner_of(folder, file.fileno())
        return file


def _open(folder: int, name: str, flags: int, private: bool) -> FileIO:
    return FileIO(
        name,
        mode="r+" if flags & (os.O_RDWR | os.O_WRONLY) else "r",
        opener=lambda path, _: os.open(path, flags, 0o600 if private else 0o664, dir_fd=folder),
    )


def make_in(folder: int, name: str, *, private: bool) -> FileIO:
    return open_in(folder, name, os.O_RDWR | os.O_CREAT | os.O_EXCL, private=private)


def status(root: str, relative: str) -> os.stat_result | None:
    """What is there, a link as the link it is; None if nothing is."""
    try:
        with folder_of(root, relative) as (folder, name):
            return status_in(folder, name)
    except FileNotFoundError:
        return None


def status_in(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def contents(root: str, relative: str) -> list[str]:
    """What is in a folder below `root`, reached without following a link."""
    with folder_of(root, os.path.join(relative, "")) as (folder, _):
        return os.listdir(folder)


def names(root: str, relative: str) -> list[str]:
    """The same; nothing if it cannot be read."""
    try:
        return contents(root, relative)
    except OSError:
        return []


def make_folder(path: str, *, private: bool = True) -> None:
    """The folder and every missing one above it, on disk when this returns."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        parent = os.path.dirname(path)
        if parent == path:
            break
        path = parent
    for folder in reversed(missing):
        above, name = os.path.split(folder)
        try:
            with below(os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), ()) as opened:
                make_folder_in(opened, name, private=private)
        except OSError as error:
            if not os.path.isdir(folder):  # which another process may just have made
                if os.path.islink(folder):
                    raise not_a_folder(folder) from None
                raise FolderNotMade(folder, error, layouts.variable_of(folder)) from None
        sync_folder(above)


def make_folder_in(folder: int, name: str, *, private: bool) -> None:
    os.mkdir(name, 0o700 if private else 0o775, dir_fd=folder)
    if owners.is_root():
        with below(os.dup(folder), [name]) as made:
            owners.give_to_owner_of(folder, made)


def make_empty(path: str) -> None:
    """A private file, and its folder, if they are not there."""
    folder, name = os.path.split(path)
    make_folder(folder)
    open_beneath(folder, name, os.O_RDWR | os.O_CREAT).close()


def new_folder(root: str, relative: str, *, private: bool = True, sync: bool = True) -> bool:
    """A folder that was not there before; False if it was."""
    try:
        with folder_of(root, relative) as (folder, name):
            make_folder_in(folder, name, private=private)
            try:
                if sync:
                    sync_names(folder)
            except OSError:
                with contextlib.suppress(OSError):
                    os.rmdir(name, dir_fd=folder)
                raise
    except FileExistsError:
        return False
    except OSError as error:
        raise NotSaved(os.path.join(root, relative), error) from error
    return True


def remove_folder(root: str, relative: str) -> None:
    """Take back a folder made by `new_folder`. One that holds anything stays."""
    with contextlib.suppress(OSError), folder_of(root, relative) as (folder, name):
        os.rmdir(name, dir_fd=folder)


def create(root: str, relative: str, data: bytes, *, sync: bool = True, private: bool = True) -> None:
    """A new file with `data` in it, under its name only once it is whole. Never over an existing one."""
    try:
        with folder_of(root, relative) as (folder, name):
            if data:
                temporary = f"{name}.{os.urandom(4).hex()}.tmp"  # no lock yet: others may create here too
                _write(folder, temporary, (data,), sync=sync, private=private)
                try:
                    _link(folder, temporary, name, private=private)
                finally:
                    os.unlink(temporary, dir_fd=folder)
            else:
                make_in(folder, name, private=private).close()
            if sync:
                sync_names(folder)
    except OSError as error:
        raise NotSaved(os.path.join(root, relative), error) from error


def replace(root: str, relative: str, data: bytes, *, sync: bool = True, private: bool = True) -> None:
    """The file's old content or its new one, at any moment and after a power cut; nothing between.

    Called under the session's lock, so one name does for what is not whole yet, and what a killed process
    left under it is gone with the next call. Without `sync`, a power cut may leave anything: that is for
    what can be made again.

    It keeps its owner, group and mode, whatever `private` says; NotSaved where that cannot be.
    """
    replace_in_pieces(root, relative, (data,), sync=sync, private=private)


def replace_in_pieces(
    root: str, relative: str, pieces: Iterable[bytes], *, sync: bool = True, private: bool = True
) -> None:
    """`replace`, for a content that is not in memory as a whole."""
    try:
        with folder_of(root, relative) as (folder, name):
            temporary = f"{name}.tmp"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
            _write(folder, temporary, pieces, sync=sync, private=private, instead_of=name)
            try:
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
            if sync:
                sync_names(folder)
    except OSError as error:
        raise NotSaved(os.path.join(root, relative), error) from error


def set_aside(root: str, relative: str, suffix: str, *, private: bool = True) -> str:
    """A second name for a file about to be replaced: `<name>.<suffix>`, numbered if that is taken."""
    for number in itertools.count(1):
        aside = f"{relative}.{suffix}" if number == 1 else f"{relative}.{suffix}.{number}"
        try:
            with folder_of(root, relative) as (folder, name):
                _link(folder, name, os.path.basename(aside), private=private)
                sync_names(folder)
            return aside
        except FileExistsError:
            if _are_one(root, relative, aside):
                return aside  # from a try that got no further
        except OSError as error:
            raise NotSaved(os.path.join(root, aside), error) from error
    raise AssertionError("unreachable")


def _are_one(root: str, relative: str, other: str) -> bool:
    """Whether two names are one file's, which a symbolic link to it is not."""
    found, same = status(root, relative), status(root, other)
    return found is not None and same is not None and os.path.samestat(found, same)


NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
"""What a file system answers that has no second names for files, or no more of them."""


def _link(folder: int, name: str, new_name: str, *, private: bool) -> None:
    """A second name for a file, never one that is taken. Where the file system has no links, a copy."""
    try:
        os.link(name, new_name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        copy_in(folder, name, folder, new_name, private=private)


def copy_in(
    folder: int,
    name: str,
    new_folder: int,
    new_name: str,
    *,
    private: bool = True,
    like: os.stat_result | None = None,
) -> None:
    """A whole copy under a name that is not taken, or none."""
    with (
        open_in(folder, name, os.O_RDONLY | os.O_NONBLOCK) as file,
        make_in(new_folder, new_name, private=private) as copy,
    ):
        try:
            while piece := file.read(_PIECE):
                write_all(copy.fileno(), piece)
            if like:
                make_like(copy.fileno(), like)
            sync_data(copy.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(new_name, dir_fd=new_folder)
            raise


def make_like(descriptor: int, found: os.stat_result) -> None:
    """Give a copy the owner, the mode and the times of the original."""
    owners.keep(descriptor, found)
    os.utime(descriptor, ns=(found.st_atime_ns, found.st_mtime_ns))


def make_same(folder: int, name: str, made: int) -> bool:
    """Give a new file the owner, group, mode and access list of the file that it is to replace, if that is
    there. Returns whether anything had to be changed."""
    before = status_in(folder, name)
    if before is None or not stat.S_ISREG(before.st_mode):
        return False
    # No call that asks for an access list takes a folder and a name.
    return owners.keep(made, before, f"/proc/self/fd/{folder}/{name}")


def _write(
    folder: int, name: str, pieces: Iterable[bytes], *, sync: bool, private: bool, instead_of: str = ""
) -> None:
    """A new file with these in it, or none; `instead_of` names the one that it is to replace."""
    with make_in(folder, name, private=private) as file:
        try:
            is_changed = bool(instead_of) and make_same(folder, instead_of, file.fileno())
            for piece in pieces:
                write_all(file.fileno(), piece)
            if sync and (is_changed or owners.is_given_away(file.fileno())):
                os.fsync(file.fileno())  # that of the data alone need not write down whose they are
            if sync:
                sync_data(file.fileno())
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
            raise


def read_all(descriptor: int, size: int) -> bytes:
    """The first `size` bytes of a file, or all there are."""
    return b"".join(read_in_pieces(descriptor, size, size))


def read_in_pieces(descriptor: int, size: int, most: int = _PIECE) -> Iterator[bytes]:
    """The same, at most so many bytes at once."""
    at = 0
    while at < size and (piece := os.pread(descriptor, min(most, size - at), at)):
        at += len(piece)
        yield piece


@contextlib.contextmanager
def told(kind: type[NotSaved] | type[Unreadable], path: str) -> Iterator[None]:
    """Whatever the operating system refuses in here is an error that names the file."""
    try:
        yield
    except OSError as error:
        raise kind(path, error) from error
    except MemoryError as error:
        raise kind(path, "there is not enough memory for it") from error


def write_all(descriptor: int, data: bytes) -> None:
    """One write, as a rule. A full disk shows as a short one; only the next call says why."""
    written = os.write(descriptor, data)
    while written < len(data):
        written += os.write(descriptor, memoryview(data)[written:])


def sync_data(descriptor: int) -> None:
    """Return when the file's bytes, and the size they need, are on the disk itself."""
    if sys.platform == "darwin":
        import fcntl

        try:
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # its fsync stops at the drive's own cache
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                raise
            os.fsync(descriptor)  # a network disk has no such call
    else:
        getattr(os, "fdatasync", os.fsync)(descriptor)


def sync_folder(path: str) -> None:
    """Make a creation or a rename in this folder survive a power cut."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_names(folder)
    finally:
        os.close(folder)


def sync_folder_below(root: str, relative: str) -> None:
    """The same for a folder below `root`, reached without following a link."""
    with folder_of(root, os.path.join(relative, "")) as (folder, _):
        sync_names(folder)


def sync_names(folder: int) -> None:
    """The same for a folder that is open."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems have nothing to sync here, and say so
            raise
