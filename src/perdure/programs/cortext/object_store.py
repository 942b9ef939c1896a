"""Git's objects, those that a commit of ours is made of: written by git, and on the disk."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from tempfile import TemporaryFile
from typing import IO

from perdure import config
from perdure.programs.cortext.git import Git, NotCommitted
from perdure.programs.cortext.syncing import sync

AT_ONCE = 64  # open files


class ObjectStore:
    """Of the repository whose folder for all its working trees is `common`."""

    def __init__(self, git: Git, common: str) -> None:
        self._git = git
        self._place = os.path.join(common, "objects")
        self._common = common

    def write(self, kind: str, numbers: Sequence[int]) -> list[str]:
        """What is in these open files, as it is. Git is given no names: none of the files can become a link
        to something else in the meantime."""
        feed = b"".join(b"/dev/fd/%d\n" % number for number in numbers)
        words = ("hash-object", "-w", "--no-filters", "--literally", "-t", kind, "--stdin-paths")
        return self._git.run(*words, feed=feed, files=numbers).decode().split()

    def write_trees(self, trees: Sequence[bytes]) -> list[str]:
        """As blobs are written: not every git syncs what `git mktree` writes, and an object that has its name
        and not its content is never written again."""
        made: list[str] = []
        for at in range(0, len(trees), AT_ONCE):
            with contextlib.ExitStack() as opened:
                some = [opened.enter_context(as_file(data)) for data in trees[at : at + AT_ONCE]]
                made += self.write("tree", [file.fileno() for file in some])
        return made

    def check(self, ids: AbstractSet[str]) -> None:
        """That none of those that were just written was there already, empty: git takes that for written."""
        for path in _loose(self._place, ids):
            with contextlib.suppress(OSError):
                if os.path.getsize(path) == 0:
                    raise NotCommitted(
                        f"{config.as_typed(path)} is empty, as a power cut leaves files",
                        "remove that file; the next pause writes it anew",
                    )

    def sync(self, ids: AbstractSet[str]) -> None:
        """Also those that were there before: whoever wrote them may not have waited for the disk."""
        loose = _loose(self._place, ids)
        sync(loose, self._common)
        if all(map(os.path.exists, loose)):
            return
        sync([os.path.join(self._place, "pack")], self._common)
        if os.path.exists(os.path.join(self._place, "info", "alternates")):
            for line in os.fsdecode(self._git.run("count-objects", "-v")).splitlines():
                kind, _, place = line.partition(": ")
                if kind == "alternate":
                    sync([*_loose(place, ids), os.path.join(place, "pack")], place)


def as_file(data: bytes) -> IO[bytes]:
    """One without a name, with that in it, to be read from its beginning."""
    file = TemporaryFile(buffering=0)
    # Root's git may run as the user; and what has no name nobody else can open.
    os.fchmod(file.fileno(), 0o444)
    file.write(data)
    file.seek(0)
    return file


def _loose(place: str, ids: Iterable[str]) -> list[str]:
    return [os.path.join(place, id[:2], id[2:]) for id in ids]
