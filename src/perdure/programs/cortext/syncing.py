"""What git wrote, on the disk itself. Git syncs some of its files, and never a folder: a name that is not on
the disk is gone after a power cut, and the file with it."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable

from perdure.programs.cortext.git import Failed
from perdure.session.stores import files

_NOT_THERE = (FileNotFoundError, NotADirectoryError)


def sync(paths: Iterable[str], top: str) -> None:
    """Return when these files and folders, as far as they are there, are on the disk, and those that they are
    in, up to `top`: the files first, then each folder once, the deeper ones before."""
    folders = set()
    for path in paths:
        try:
            if _is_folder(path):
                folders.add(path)
        except _NOT_THERE:
            pass
        except OSError as error:
            raise _failed(path, error) from error
        if path != top:
            path = os.path.dirname(path)
            folders.add(path)
        while path.startswith(os.path.join(top, "")):
            path = os.path.dirname(path)
            folders.add(path)
    for folder in sorted(folders, key=len, reverse=True):
        try:
            with contextlib.suppress(*_NOT_THERE):
                files.sync_folder(folder)
        except OSError as error:
            raise _failed(folder, error) from error


def sync_all_in(folder: str) -> None:
    """A folder, and whatever is in it."""
    paths = [folder]
    for within, folders, names in os.walk(folder):
        paths += [os.path.join(within, name) for name in (*folders, *names)]
    sync(paths, folder)


def _is_folder(path: str) -> bool:
    """Whether it is one; what is not is synced here."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            files.sync_data(descriptor)
        return stat.S_ISDIR(mode)
    finally:
        os.close(descriptor)


def _failed(path: str, error: OSError) -> Failed:
    return Failed(f"fatal: cannot write {path} to the disk: {error.strerror}")
