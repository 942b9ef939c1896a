"""A text file that anybody may have put where we look: read without waiting, and not beyond a bound.

Whose word it is decides how far it is believed. What the user named (`bytes_of`) may be anywhere, and
anybody's. What is always read from the user's own places (`users_bytes`) may be a link to anywhere, but it
has to be theirs. What a folder brings (`bytes_in`) has to be theirs or of a folder that they trust, and no
link in it leads further than the folder, or the repository that it is in: it is sent to a model, and could
be any secret of the user's.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from functools import partial
from io import BufferedReader
from typing import BinaryIO, NamedTuple

from perdure import config
from perdure.session import strangers
from perdure.session.projects import tree_of
from perdure.session.stores import files
from perdure.session.strangers import Doubt


class Found(NamedTuple):
    text: str
    is_cut: bool
    """Whether the file goes on."""
    identity: tuple[int, int] | None
    """The same for one file under whatever name, where the system tells."""


class LeadsOut(OSError):
    """It is a link to what does not belong to the folder."""

    def __init__(self, real: str) -> None:
        where = "it is a link that leads out of its folder and repository"
        super().__init__(0, f"{where}, to {real}, and is not followed")


class Strange(OSError):
    """Somebody else may have written it."""

    def __init__(self, found: Doubt) -> None:
        super().__init__(0, f"{found.why}; {found.advice}")
        self.doubt = found


Bytes = tuple[bytes, bool, tuple[int, int] | None]
Reader = Callable[[str, int], Found]
"""`text_of`, `users_text`, or what `brought_by` returns."""


def text_of(path: str, most: int) -> Found:
    """Its first `most` bytes as text, whatever they are."""
    return _text(*bytes_of(path, most))


def users_text(path: str, most: int) -> Found:
    return _text(*users_bytes(path, most))


def text_in(folder: str, path: str, most: int) -> Found:
    return _text(*bytes_in(folder, path, most))


def brought_by(folder: str) -> Reader:
    """`text_in` of this folder."""
    return partial(text_in, folder)


def bytes_of(path: str, most: int) -> Bytes:
    """Its first `most` bytes. OSError if it cannot be read or is no regular file: a device may act on being
    opened, and a pipe would be waited for."""
    _check_kind(os.stat(path))
    # Should it have become a pipe meanwhile, opening it must not wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(descriptor, "rb") as file:
        return _bytes(file, most)


def users_bytes(path: str, most: int) -> Bytes:
    """The same for a file of the user's own: `Strange`, if somebody else may have written it."""
    if found := strangers.doubt(path):
        raise Strange(found)
    return bytes_of(path, most)


def bytes_in(folder: str, path: str, most: int, also: int | None = None) -> Bytes:
    """The same for a file that a folder brings: `Strange`, unless the user trusts the folder; `LeadsOut`, if
    a link leads out of it. What was looked at is what is read: no link is followed on the way to it. `also`
    is an owner who counts here."""
    root, inside = place_in(folder, path, also)
    with files.folder_of(root, inside) as (at, name):
        _check_kind(os.stat(name, dir_fd=at, follow_symlinks=False))
        with BufferedReader(files.open_in(at, name, os.O_RDONLY | os.O_NONBLOCK)) as file:
            return _bytes(file, most)


def place_in(folder: str, path: str, also: int | None = None) -> tuple[str, str]:
    """Where a file really is that a folder brings: how far its links may lead, and its name from there on.
    The errors are those of `bytes_in`."""
    os.lstat(path)
    real, root = config.real_path(path), tree_of(folder)
    steps = os.path.relpath(real, root).split(os.sep)
    if real != os.path.join(config.real_path(folder), os.path.relpath(path, folder)) and (
        steps[0] == os.pardir or ".git" in map(str.lower, steps)
    ):
        raise LeadsOut(real)
    if (found := strangers.doubt(path, also)) and not _is_trusted(folder):
        raise Strange(found)
    if real == root:
        raise _no_file()
    return root, os.path.join(*steps)


def _is_trusted(folder: str) -> bool:
    from perdure.agent.trust import Trust

    return Trust().is_trusted(folder)


def _bytes(file: BinaryIO, most: int) -> Bytes:
    found = os.fstat(file.fileno())
    _check_kind(found)
    data = file.read(most + 1)
    identity = (found.st_dev, found.st_ino) if found.st_ino else None
    return data[:most], len(data) > most, identity


def _check_kind(found: os.stat_result) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if not stat.S_ISREG(found.st_mode):
        raise _no_file()


def _no_file() -> OSError:
    return OSError(0, "it is not a regular file")


def _text(data: bytes, is_cut: bool, identity: tuple[int, int] | None) -> Found:
    text = data.decode("utf-8-sig", "replace")
    if is_cut:
        text = text.removesuffix("\N{REPLACEMENT CHARACTER}")  # what a cut leaves of a character
    return Found(text, is_cut, identity)
