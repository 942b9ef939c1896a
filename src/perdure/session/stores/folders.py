"""Whole folders: moved, to another disk too, and deleted. A link in one is a link, and never followed.

At no moment does half of something have the name of the whole. A copy on another disk gets its name when it
is complete and synced; a folder that is deleted loses its name before anything in it goes. What a crash
leaves has a name of one of these kinds, which are nobody's:

    .moving-…     a copy that is not whole yet; the same move, tried again, replaces it
    .dying-…      a folder that is being deleted; `remove_tree` goes on with it
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import zlib
from collections.abc import Iterator

from perdure.errors import NotSaved
from perdure.session.stores.files import (
    NO_LINKS,
    below,
    copy_in,
    folder_of,
    make_like,
    open_in,
    status_in,
    sync_names,
    told,
)

DYING = ".dying-"
MOVING = ".moving-"
_DEEPEST = 200  # folders in one another, where they are copied or measured; they are deleted at any depth
_PIECE = 2**20


def move(root: str, relative: str, new_root: str, new_relative: str, *, sync: bool = True) -> None:
    """A file, a link or a folder to another place, on another disk too; on disk when this returns, unless the
    caller syncs both folders (`sync` False).

    Never over anything. What is at the place already counts as moved there if it is the same, byte for byte:
    a move that was interrupted between copying and deleting. If this raises, nothing is lost, and at worst
    it is in both places.

    rename(2) replaces a file without a word, and a session is created under no lock. So a file gets its new
    name by a link, which is refused where the name is taken; rename(2) itself refuses to put a folder over
    one that holds anything.
    """
    path, new_path = os.path.join(root, relative), os.path.join(new_root, new_relative)
    try:
        with (
            folder_of(root, relative) as (old, name),
            folder_of(new_root, new_relative) as (new, new_name),
        ):
            if status_in(new, new_name) is None:
                try:
                    _rename(old, name, new, new_name)
                except OSError as error:
                    if error.errno != errno.EXDEV:
                        raise
                    _copy(path, old, name, new, new_name)
                    _remove(old, name)
                    _sweep(new)
            elif _is_one(old, name, new, new_name):
                return
            elif _are_same(old, name, new, new_name):
                _remove(old, name)
            else:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            if sync:
                sync_names(new)
                sync_names(old)
    except FileExistsError as error:
        raise NotSaved(new_path, error) from error
    except OSError as error:
        raise NotSaved(path, error) from error


def _rename(old: int, name: str, new: int, new_name: str) -> None:
    found = status_in(old, name)
    if found is not None and stat.S_ISREG(found.st_mode):
        try:
            os.link(name, new_name, src_dir_fd=old, dst_dir_fd=new, follow_symlinks=False)
            os.unlink(name, dir_fd=old)
            return
        except OSError as error:
            if error.errno not in NO_LINKS:
                raise
    os.rename(name, new_name, src_dir_fd=old, dst_dir_fd=new)


def are_same(root: str, relative: str, other_root: str, other_relative: str) -> bool:
    """Whether two places hold the same, byte for byte. Not if either cannot be read."""
    try:
        with (
            folder_of(root, relative) as (folder, name),
            folder_of(other_root, other_relative) as (other_folder, other_name),
        ):
            return _are_same(folder, name, other_folder, other_name)
    except OSError:
        return False


def size(root: str, relative: str) -> int:
    """The bytes of all files in a folder, as far as they can be reached."""
    total = 0
    with contextlib.suppress(OSError), folder_of(root, relative) as (folder, name):
        for _, found in _walk(folder, name):
            total += found.st_size if stat.S_ISREG(found.st_mode) else 0
    return total


def condemn(root: str, relative: str) -> str:
    """Take a folder's name away: from here on it is deleted. Returns what `remove_tree` finds it by."""
    with told(NotSaved, os.path.join(root, relative)), folder_of(root, relative) as (folder, name):
        dying = _condemn(folder, name)
        sync_names(folder)
    return os.path.join(os.path.dirname(relative), dying)


def remove_tree(root: str, relative: str) -> None:
    """Delete a folder and all in it for good. If this raises, it has lost its name, and may be tried again
    by the one `condemn` gave it."""
    if not os.path.basename(relative).startswith(DYING):
        relative = condemn(root, relative)
    with told(NotSaved, os.path.join(root, relative)), folder_of(root, relative) as (folder, name):
        _remove_dying(folder, name)
        sync_names(folder)


def sweep(root: str, relative: str) -> None:
    """Delete what is left in a folder, as far as possible, of others that were being deleted there."""
    with contextlib.suppress(OSError), folder_of(root, os.path.join(relative, "")) as (folder, _):
        _sweep(folder)


# --- copying ----------------------------------------------------------------------------------------


Steps = tuple[str, ...]


def _walk(folder: int, name: str) -> Iterator[tuple[Steps, os.stat_result]]:
    """What has this name, and all in it, a folder before what it holds."""
    waiting: list[tuple[Steps, os.stat_result]] = [
        ((name,), os.stat(name, dir_fd=folder, follow_symlinks=False))
    ]
    while waiting:
        steps, found = waiting.pop()
        yield steps, found
        if stat.S_ISDIR(found.st_mode):
            if len(steps) > _DEEPEST:
                raise OSError(errno.ENAMETOOLONG, "its folders are nested too deeply")
            with below(os.dup(folder), steps) as here:
                waiting += [
                    ((*steps, each), os.stat(each, dir_fd=here, follow_symlinks=False))
                    for each in sorted(os.listdir(here), reverse=True)
                ]


def _copy(path: str, old: int, name: str, new: int, new_name: str) -> None:
    """A whole copy with its modes and times, synced, or none."""
    originals = list(_walk(old, name))
    for steps, found in originals:
        if stat.S_IFMT(found.st_mode) not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
            special = os.path.join(path, *steps[1:])
            raise NotSaved(special, "it is no file, folder or link, and cannot be moved to another disk")
    temporary = f"{MOVING}{zlib.crc32(os.fsencode(new_name)):08x}"  # which fits, however long the name is
    if status_in(new, temporary):
        _remove(new, temporary)
    try:
        for steps, found in originals:
            _copy_one(old, steps, new, (temporary, *steps[1:]), found)
        for steps, found in reversed(originals):  # the innermost first: filling a folder changes its time
            if stat.S_ISDIR(found.st_mode):
                with below(os.dup(new), (temporary, *steps[1:])) as copy:
                    make_like(copy, found)
                    sync_names(copy)
        if _versions(originals) != _versions(list(_walk(old, name))):
            raise OSError(errno.EBUSY, "it was changed while it was copied")
        if status_in(new, new_name):  # copying took its time
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        os.replace(temporary, new_name, src_dir_fd=new, dst_dir_fd=new)
    except BaseException:
        with contextlib.suppress(OSError):
            _remove(new, temporary)
        raise
    sync_names(new)  # before anything of the original goes


def _copy_one(old: int, steps: Steps, new: int, new_steps: Steps, found: os.stat_result) -> None:
    """A file, a link, or a folder with nothing in it."""
    name, new_name = steps[-1], new_steps[-1]
    with below(os.dup(old), steps[:-1]) as source, below(os.dup(new), new_steps[:-1]) as target:
        if stat.S_ISDIR(found.st_mode):
            os.mkdir(new_name, 0o700, dir_fd=target)
        elif stat.S_ISLNK(found.st_mode):
            os.symlink(os.readlink(name, dir_fd=source), new_name, dir_fd=target)
            times = found.st_atime_ns, found.st_mtime_ns
            os.utime(new_name, ns=times, dir_fd=target, follow_symlinks=False)
        else:
            copy_in(source, name, target, new_name, like=found)


def _versions(tree: list[tuple[Steps, os.stat_result]]) -> list[tuple[object, ...]]:
    return [(steps, each.st_ino, each.st_mode, each.st_size, each.st_mtime_ns) for steps, each in tree]


def _is_one(folder: int, name: str, other_folder: int, other_name: str) -> bool:
    """Whether two names are those of one and the same thing, however they lead there: there is no copy."""
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    other = os.stat(other_name, dir_fd=other_folder, follow_symlinks=False)
    return os.path.samestat(found, other) and (stat.S_ISDIR(found.st_mode) or found.st_nlink == 1)


def _are_same(folder: int, name: str, other_folder: int, other_name: str) -> bool:
    tree, other_tree = list(_walk(folder, name)), list(_walk(other_folder, other_name))
    if [_kind(*each) for each in tree] != [_kind(*each) for each in other_tree]:
        return False
    for (steps, found), (other_steps, _) in zip(tree, other_tree, strict=True):
        with (
            below(os.dup(folder), steps[:-1]) as here,
            below(os.dup(other_folder), other_steps[:-1]) as there,
        ):
            own, other = (here, steps[-1]), (there, other_steps[-1])
            if stat.S_ISLNK(found.st_mode):
                is_same = os.readlink(own[1], dir_fd=here) == os.readlink(other[1], dir_fd=there)
            elif stat.S_ISREG(found.st_mode):
                is_same = _same_bytes(*own, *other)
            else:
                is_same = stat.S_ISDIR(found.st_mode)
        if not is_same:
            return False
    return True


def _kind(steps: Steps, found: os.stat_result) -> tuple[object, ...]:
    is_file = stat.S_ISREG(found.st_mode)
    return steps[1:], stat.S_IFMT(found.st_mode), found.st_size if is_file else 0


def _same_bytes(folder: int, name: str, other_folder: int, other_name: str) -> bool:
    with (
        open_in(folder, name, os.O_RDONLY | os.O_NONBLOCK) as file,
        open_in(other_folder, other_name, os.O_RDONLY | os.O_NONBLOCK) as other,
    ):
        while (piece := file.read(_PIECE)) == other.read(_PIECE):
            if not piece:
                return True
    return False


# --- deleting ---------------------------------------------------------------------------------------


def _remove(folder: int, name: str) -> None:
    """Delete what there is a copy of, or what is none. A folder counts as deleted once it lost its name: what
    is left of it, or of one before it, is nobody's and goes now or another time."""
    if _is_folder(folder, name):
        _condemn(folder, name)
        _sweep(folder)
    else:
        os.unlink(name, dir_fd=folder)


def _sweep(folder: int) -> None:
    with contextlib.suppress(OSError):
        for each in os.listdir(folder):
            if each.startswith(DYING):
                with contextlib.suppress(OSError):
                    _remove_dying(folder, each)


def _condemn(folder: int, name: str) -> str:
    dying = f"{DYING}{os.urandom(8).hex()}"
    os.replace(name, dying, src_dir_fd=folder, dst_dir_fd=folder)
    return dying


def _remove_dying(folder: int, name: str) -> None:
    """Level by level: what lies deeper is brought up first, so that a few open folders do for any depth.
    Another process may be at the same work: what is gone is gone, and what it brought up is to go too."""
    with contextlib.suppress(FileNotFoundError), _opened_up(folder, name) as top:
        while True:
            for each in os.listdir(top):
                with contextlib.suppress(FileNotFoundError):
                    _remove_level(top, each)
            try:
                return os.rmdir(name, dir_fd=folder)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise


def _remove_level(top: int, name: str) -> None:
    if not _is_folder(top, name):
        os.unlink(name, dir_fd=top)
        return
    with _opened_up(top, name) as here:
        for each in os.listdir(here):
            with contextlib.suppress(FileNotFoundError):
                if _is_folder(here, each):
                    with _opened_up(here, each):
                        os.replace(each, os.urandom(8).hex(), src_dir_fd=here, dst_dir_fd=top)
                else:
                    os.unlink(each, dir_fd=here)
    os.rmdir(name, dir_fd=top)


@contextlib.contextmanager
def _opened_up(folder: int, name: str) -> Iterator[int]:
    """A folder in which we may delete, also if somebody had made it read-only."""
    with below(os.dup(folder), [name]) as here:
        with contextlib.suppress(OSError):
            os.fchmod(here, 0o700)
        yield here


def _is_folder(folder: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
