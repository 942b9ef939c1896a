"""A text file that anybody may have put where we look: read without waiting, and not beyond a bound."""

from __future__ import annotations

import os
import stat
from typing import NamedTuple


class Found(NamedTuple):
    text: str
    is_cut: bool
    """Whether the file goes on."""
    identity: tuple[int, int] | None
    """The same for one file under whatever name, where the system tells."""


def text_of(path: str, most: int) -> Found:
    """Its first `most` bytes as text, whatever they are."""
    data, is_cut, identity = bytes_of(path, most)
    text = data.decode("utf-8-sig", "replace")
    if is_cut:
        text = text.removesuffix("\N{REPLACEMENT CHARACTER}")  # what a cut leaves of a character
    return Found(text, is_cut, identity)


def bytes_of(path: str, most: int) -> tuple[bytes, bool, tuple[int, int] | None]:
    """Its first `most` bytes. OSError if it cannot be read or is no regular file: a device may act on being
    opened, and a pipe would be waited for."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError(0, "it is not a regular file")
    # Should it have become a pipe meanwhile, opening it must not wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(0, "it is not a regular file")
        data = file.read(most + 1)
    identity = (found.st_dev, found.st_ino) if found.st_ino else None
    return data[:most], len(data) > most, identity
