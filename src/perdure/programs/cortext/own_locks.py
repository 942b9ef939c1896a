"""The locks of git that are ours, known again after a kill or a power cut.

Git locks a file by making another one beside it, `<file>.lock`, and nobody can see whose that is. So ours
have a second name, a link in the repository's folder. What has one is ours, and left behind: whoever looks
has our lock of the workspace, which the kernel frees when the last process of an earlier pause has ended, its
git included.

A moment passes between git's making of a lock and our second name for it. So a note is on the disk before git
is asked: in which run of the machine, and which reference will be locked. What was locked there right
afterwards, in a run of the machine that is over, is held by nobody. Every other lock may be that of a git at
work, or is for its user to judge.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator

from perdure import config
from perdure.errors import NotSaved, Unreadable
from perdure.programs.cortext.git import Failed
from perdure.programs.cortext.syncing import sync
from perdure.session.stores import files

_COARSE = 2.0  # seconds: as exactly as every file system keeps a time
_AFTERWARDS = 130.0  # seconds: git is ended before
_LONGEST_NOTE = 2**13


class OwnLocks:
    """Of one workspace in one working tree.

    `home` is where git keeps what is this working tree's, `common` what it shares with others.
    """

    def __init__(self, home: str, common: str, workspace: str) -> None:
        self.home, self.common = home, common
        self._name = f"cortext-{hashlib.sha256(os.fsencode(workspace)).hexdigest()[:8]}"
        self.index = config.real_path(os.path.join(home, "index"))
        self.index_lock = f"{self.index}.lock"
        self.own_index = os.path.join(os.path.dirname(self.index), f"{self._name}.index")
        """One that is ours until it becomes the user's, and that is the second name of the lock meanwhile."""

    def announce(self, reference: str) -> None:
        """Say what will be locked; empty if HEAD is on no branch."""
        try:
            files.replace(
                self.home, f"{self._name}.note", os.fsencode(f"{boot()}\n{reference}\n"), private=False
            )
        except NotSaved as error:
            raise Failed(f"fatal: {error.message}") from error

    def are_taken(self, reference: str, id: str) -> bool:
        """Whether git has locked a reference, and written the last of the locks, to move it to that id."""
        lock = [*self._of_references(reference)][-1 if reference else 0]
        try:
            with open(lock, "rb") as file:
                return file.read(len(id) + 1) == f"{id}\n".encode()
        except OSError:
            return False

    def name(self, reference: str) -> None:
        """Give the locks of a reference their second names, and return when these are on the disk; and what
        is in the locks, as that becomes the reference."""
        locks = self._of_references(reference)
        for lock, second_name in locks.items():
            try:
                os.link(lock, second_name, follow_symlinks=False)
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ENOTDIR, *files.NO_LINKS):
                    raise Failed(f"fatal: {second_name}: {error.strerror}") from error
        sync([*locks, self.home], self.common)

    def forget(self) -> None:
        """Remove what is ours, when no lock is left."""
        for folder in {self.home, os.path.dirname(self.index)}:
            with contextlib.suppress(OSError):
                for name in os.listdir(folder):
                    if name.startswith(f"{self._name}."):
                        os.unlink(os.path.join(folder, name))

    def remove_stale(self) -> None:
        """Remove the locks that a pause of this workspace left behind."""
        found = list(self._stale())
        try:
            for lock in found:
                os.unlink(lock)
        except OSError as error:
            raise Failed(f"fatal: {lock}: {error.strerror}") from error
        sync(map(os.path.dirname, found), self.common)
        self.forget()

    def _stale(self) -> Iterator[str]:
        if are_same(self.index_lock, self.own_index):
            yield self.index_lock
        noted = self._noted()
        if noted is None:
            return
        run, reference, moment = noted
        is_over = bool(run and boot() and run != boot())
        for lock, second_name in self._of_references(reference).items():
            status = _status(lock)
            if status and (
                are_same(lock, second_name)
                or (is_over and moment - _COARSE <= status.st_mtime <= moment + _AFTERWARDS)
            ):
                yield lock

    def _noted(self) -> tuple[str, str, float] | None:
        try:
            with files.open_to_read(self.home, f"{self._name}.note") as file:
                text = os.fsdecode(files.read_all(file.fileno(), _LONGEST_NOTE))
                moment = os.fstat(file.fileno()).st_mtime
        except Unreadable:
            return None
        run, _, reference = text.partition("\n")
        return run, reference.rstrip("\n"), moment

    def _of_references(self, reference: str) -> dict[str, str]:
        """The locks that git may take, however it keeps references, and their second names."""
        places = [os.path.join(self.home, "HEAD")]
        places += [os.path.join(each, "reftable", "tables.list") for each in (self.home, self.common)]
        if reference.startswith("refs/") and os.path.normpath(reference) == reference:
            places.append(os.path.join(self.common, reference))
        return {f"{place}.lock": self._own(str(number)) for number, place in enumerate(places)}

    def _own(self, name: str) -> str:
        return os.path.join(self.home, f"{self._name}.{name}")


def boot() -> str:
    """Which run of the machine this is; empty where nobody says."""
    try:
        if sys.platform == "darwin":
            asked = ["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"]
            return subprocess.run(asked, capture_output=True, text=True, timeout=5).stdout.strip()
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""


def are_same(path: str, second_name: str) -> bool:
    """Whether both are names of one file."""
    one, other = _status(path), _status(second_name)
    return bool(one and other and os.path.samestat(one, other))


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None
