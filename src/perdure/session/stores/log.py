"""A file that only grows: one append is all of its lines, durable, or none of them.

Under its session's lock, every append first makes sure that the file is the one it knows, at the
size it left it. Then it is one write on an O_APPEND descriptor and one sync. What fails is undone at
once: bytes past the old end go if, and only if, they are the ones just attempted. What cannot be
undone is sealed with a newline before the next append, so that no record is ever glued to a torn one.
An interrupt may strike anywhere; what it leaves is settled by the next call.
"""

from __future__ import annotations

import contextlib
import os
import stat
from io import FileIO

from perdure.errors import Conflict, NotSaved, Unreadable
from perdure.session.stores import Durability, files
from perdure.session.stores.lock import Lock

_NEVER = -1


class AppendLog:
    def __init__(
        self, root: str, relative: str, lock: Lock, durability: Durability, *, private: bool = True
    ) -> None:
        self._root = root
        self._relative = relative
        self.path = os.path.join(root, relative)
        self._lock = lock
        self._durable = durability == "power"
        self._private = private
        self._attempt = b""  # what may stand past `size` without having been acknowledged
        self._file = self._open()
        self.size = os.fstat(self._file.fileno()).st_size
        self.added = 0
        """How much of that is the last append's."""

    def fileno(self) -> int:
        return self._file.fileno()

    def append(self, data: bytes) -> None:
        self.check()
        descriptor = self.fileno()
        whole = self.size == 0 or os.pread(descriptor, 1, self.size - 1) == b"\n"
        self._attempt = data if whole else b"\n" + data
        try:
            files.write_all(descriptor, self._attempt)
            if self._durable:
                files.sync_data(descriptor)
        except OSError as error:
            self._undo()
            # After a failed sync the kernel may call the next one good: only a new descriptor is trusted.
            self._file.close()
            raise NotSaved(self.path, error) from error
        self.size, self.added = self.size + len(self._attempt), len(self._attempt)
        self._attempt = b""

    def take_back(self) -> None:
        """Undo the last append: what belongs to it could not be done."""
        self.size, added, self.added = self.size - self.added, self.added, 0
        self._attempt = os.pread(self.fileno(), added, self.size)
        self._settle()

    def sync(self) -> None:
        """What is there already, by whomever it was written, is on disk when this returns."""
        self.check()
        if self._durable:
            try:
                files.sync_data(self.fileno())
            except OSError as error:
                self._file.close()
                raise NotSaved(self.path, error) from error

    def replaced(self) -> None:
        """Its holder put another file in its place: what is at the path now is the log."""
        self._file.close()

    def refresh(self) -> None:
        """Take the file as it is now, grown or replaced."""
        if not self._file.closed and self._size_at_path() is None:
            raise self._rescue()  # once: the next call takes what is at the path
        if self._file.closed:
            self._file = self._open()
        self._settle()
        self.size = os.fstat(self.fileno()).st_size

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._settle()
        self._file.close()

    def _open(self) -> FileIO:
        try:
            file = files.open_beneath(self._root, self._relative, os.O_RDWR | os.O_APPEND)
            own = os.fstat(file.fileno())
            if not stat.S_ISREG(own.st_mode):
                file.close()
                raise NotSaved(self.path, "not a regular file")
            self._identity = own.st_ino, own.st_dev  # which never changes while the file is open
            return file
        except OSError as error:
            raise NotSaved(self.path, error) from error

    def check(self) -> None:
        """Raise unless the file is the one this log knows, as it left it."""
        if not self._lock.is_mine():
            raise Conflict(
                self.path,
                "is not this process's to write: its lock was removed, or the process forked",
                "close the session and open it again",
            )
        if self._file.closed:
            self._file = self._open()
        self._settle()
        size = self._size_at_path()
        if size is None:
            raise self._rescue()
        if size != self.size:
            raise Conflict(self.path, "was changed by another program")

    def _settle(self) -> None:
        """Undo what an interrupted append left. Bytes that cannot be undone are left, to be sealed."""
        if self._attempt and not self._file.closed and self._lock.is_mine():
            if not self._undo() and self._leftover():
                self.size = os.fstat(self.fileno()).st_size
            self._attempt = b""

    def _undo(self) -> bool:
        try:
            if self._leftover():
                os.ftruncate(self.fileno(), self.size)
            self._attempt = b""
            return True
        except OSError:
            return False

    def _leftover(self) -> bool:
        """Whether the file ends in bytes of the attempt: ours to take back, where any other byte is not."""
        extra = os.fstat(self.fileno()).st_size - self.size
        return (
            0 < extra <= len(self._attempt)
            and os.pread(self.fileno(), extra, self.size) == self._attempt[:extra]
        )

    def _size_at_path(self) -> int | None:
        """The file's size, if its name still leads to it."""
        try:
            there = os.lstat(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise NotSaved(self.path, error) from error
        return there.st_size if (there.st_ino, there.st_dev) == self._identity else None

    def _rescue(self) -> Conflict:
        """The file's name leads elsewhere now; its bytes are still ours to read. Keep them, and say how."""
        saved = files.read_all(self.fileno(), self.size)
        try:
            if not os.path.lexists(self.path):
                files.make_folder(os.path.dirname(self.path), private=self._private)
                files.create(self._root, self._relative, saved, private=self._private)
                self._file.close()
                return Conflict(
                    self.path, "was deleted while in use; all that was saved is back in its place"
                )
            self._file.close()
            self.size = _NEVER  # nothing more is written here until somebody has looked at the new file
            if self._starts_with(saved):
                return Conflict(self.path, "was replaced while in use; the new file holds all that was saved")
            aside = f"{self._relative}.{os.urandom(4).hex()}.displaced"
            files.create(self._root, aside, saved, private=self._private)
            what = f"was replaced while in use; what was saved is kept in {os.path.join(self._root, aside)}"
        except (OSError, NotSaved) as error:
            what = f"was deleted or replaced while in use, and what was saved could not be put back ({error})"
        displaced = Conflict(self.path, what)
        displaced.is_displaced = True
        return displaced

    def _starts_with(self, saved: bytes) -> bool:
        try:
            with files.open_to_read(self._root, self._relative) as other:
                return files.read_all(other.fileno(), len(saved)) == saved
        except Unreadable:
            return False
