"""What a commit of a folder would bring that HEAD does not have, to be looked through before. Nothing is
written, not even to where git keeps its objects: what is then not committed is nowhere in the repository.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import NamedTuple

from perdure.errors import Unreadable
from perdure.programs.cortext.git import Failed, Objects
from perdure.programs.cortext.repository import Repository, told
from perdure.programs.cortext.trees import SUBMODULE, Item
from perdure.session.stores import files

_PIECE = 2**20


class Fresh(NamedTuple):
    path: str
    """From the workspace."""
    id: str
    """Of the blob that it would be."""
    data: bytes | None
    """None if it is larger than its reader wanted, or not in this clone."""
    before: bytes
    """As HEAD has it."""


def fresh(workspace: str, folder: str, largest: int) -> Iterator[Fresh]:
    """The files of that folder, a path below the workspace, that a commit of now would add or change."""
    with told(workspace):
        yield from _Reader(workspace, os.path.normpath(folder)).fresh(largest)


class _Reader(Repository):
    def fresh(self, largest: int) -> Iterator[Fresh]:
        tip, listed = self._tip(), self._listed()
        staged: dict[str, Item] = {}
        with self.git.objects() as objects:
            known = tip.blobs
            for path in sorted(self._on_disk(listed, staged)):
                try:
                    file, _ = self._opened(path)
                except Unreadable:
                    if self._status(path) is None:
                        continue  # it went since it was listed
                    raise
                with file:
                    data = files.read_all(file.fileno(), largest + 1)
                    is_large = len(data) > largest
                    id = self._id_of_large(file.fileno()) if is_large else self._id_of(data)
                if id != known.get(path):
                    before = (path in known and not is_large and _known(objects, known[path])) or b""
                    yield Fresh(self._below(path), id, None if is_large else data, before)
            for path, item in staged.items():  # which a sparse checkout keeps in git alone
                if item.mode != SUBMODULE and item.id != known.get(path):
                    held = _known(objects, item.id)
                    is_there = held is not None and len(held) <= largest
                    yield Fresh(self._below(path), item.id, held if is_there else None, b"")

    def _id_of(self, data: bytes) -> str:
        return hashlib.new(self.hash, b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()

    def _id_of_large(self, descriptor: int) -> str:
        size, at = os.fstat(descriptor).st_size, 0
        hashed = hashlib.new(self.hash, b"blob %d\0" % size, usedforsecurity=False)
        while piece := os.pread(descriptor, min(_PIECE, size - at), at):
            hashed.update(piece)
            at += len(piece)
        return hashed.hexdigest()


def _known(objects: Objects, id: str) -> bytes | None:
    """None, where a clone has only a part of its objects."""
    try:
        return objects.get(id)
    except Failed:
        return None
