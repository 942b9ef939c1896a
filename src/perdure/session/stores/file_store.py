"""What all stores of files share: where a session's lock and trash are, and that nothing is outside.

A store has a root, below which no symbolic link is followed, and a home, in which its locks and its trash
are. A session is named from the root: by its file, or by its folder where it has one of its own.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from perdure import config, registry
from perdure.errors import (
    Held,
    InvalidId,
    NotFound,
    NotSaved,
    OthersMayWrite,
    PerdureError,
    Unreadable,
    UsageError,
)
from perdure.session import ids, listing, strangers, trash, unused_locks
from perdure.session.entry import Entry
from perdure.session.layouts import LAYOUTS
from perdure.session.stores import START, Cursor, Durability, Excerpt, Found, Header, Page, files
from perdure.session.stores.lock import Lock, holder
from perdure.session.trash import Leaving
from perdure.session.trash_note import Trashed, is_relative

_UNPLAIN = re.compile(r"(^|[\\/])(\.|[\\/]|$)")  # a step that is empty, or begins with a dot


class FileStore(ABC):
    name: str
    depth: ClassVar[int] = 0
    """How many folders a session's file may be below the root."""
    private: ClassVar[bool] = True
    """Whether what is made is for its owner only; else the user's umask rules."""
    large: ClassVar[int]
    """In bytes: a file that has more is not read whole to be listed, or to be searched in."""

    def __init__(
        self, home: str, root: str, durability: Durability, *, cwd: str | None = None, file: str = ""
    ) -> None:
        """`file` is the session that its user named by its path, where the store is opened for it alone."""
        if durability not in ("power", "process"):
            raise UsageError(f"Unknown durability {durability!r}", "it is 'power' or 'process'")
        self.home = home
        self.root = root
        self._is_shared = bool(file) and strangers.is_everybodys(root)
        """Whether others keep files in its folder, too."""
        if self._is_shared:
            strangers.refuse(file)
            self._refuse_locks(os.path.basename(file))
        else:
            for folder in dict.fromkeys((home, root)):
                strangers.refuse_open(folder)
        self._prefix = os.path.join(root, "")
        self.durability = durability
        self._cwd = cwd
        self.watch: Callable[[int], object] = lambda offset: None
        """Called while a large file is read, with how far that is."""

    @property
    def synced(self) -> bool:
        return self.durability == "power"

    @property
    def cwd(self) -> str:
        """The directory a new session is about, where its header does not name one."""
        try:
            return os.path.abspath(self._cwd or "")
        except OSError:
            return ""  # the directory this process was started in is gone

    def excerpt(self, ref: Found) -> Excerpt | None:
        """What a listing has to know of a session that is larger than `large`, from its beginning and its end
        alone; None for any other, which is read whole."""
        return None

    def is_large(self, ref: Found) -> bool:
        try:
            found = files.status(self.root, self.relative(ref))
        except OSError:
            return False  # reading it says why
        return found is not None and found.st_size > self.large

    def header(self, ref: Found) -> Header:
        """What is known of a session as a whole before its entries are read; `read` may know more."""
        return Header(ref.id, "")

    def forbidden(self, entry: Entry) -> Sequence[str]:
        return ()

    def forbidden_facts(self, facts: Mapping[str, Any]) -> Sequence[str]:
        return ()

    def holder(self, ref: Found) -> int | None:
        return holder(*self._lock_place(ref.id, self.relative(ref)))

    def own_path(self, ref: Found) -> str:
        """A session's file, or the folder that it has for itself."""
        return os.path.join(self.root, self._whole(self.relative(ref)))

    def lock_path(self, ref: Found) -> str:
        return os.path.join(*self._lock_place(ref.id, self.relative(ref)))

    def delete(
        self, ref: Found, title: str = "", *, check: Callable[[Lock], object] = lambda lock: None
    ) -> Trashed:
        """Move it to the trash, whole, with the title by which people know it again. `Held` while a process
        has the right to write to it. `check` is called under the lock, right before the move: what it raises
        is the end of it."""
        (gone,) = self.delete_all([(ref, title)], check=lambda _, lock: check(lock))
        if isinstance(gone, Exception):
            raise gone
        return gone

    def delete_all(
        self,
        wanted: Sequence[tuple[Found, str]],
        *,
        check: Callable[[Found, Lock], object] = lambda ref, lock: None,
    ) -> Sequence[Trashed | Exception]:
        """The same for several, each with its title: for each what is in the trash now, or what kept it from
        there. Their locks are held together, so that the disk is waited for once and not for each."""
        results: dict[int, Trashed | Exception] = {}
        homes: dict[str, list[int]] = {}  # in whose trash they go
        with contextlib.ExitStack() as locks:
            for at, (ref, _) in enumerate(wanted):
                try:
                    place = self._place(self.relative(ref))
                    check(ref, locks.enter_context(self.lock(ref, 0)))
                    homes.setdefault(os.path.join(*place), []).append(at)
                except Exception as error:
                    results[at] = error
            # Listed under the locks: whoever sets something aside beside a session holds its lock.
            names_in = functools.cache(lambda folder: sorted(files.names(self.root, folder)))
            for home, those in homes.items():
                leaving = [self._leaving(*wanted[at], names_in) for at in those]
                done: Sequence[Trashed | Exception]
                try:
                    done = trash.discard_all(home, self.name, leaving, private=self.private)
                except PerdureError as error:  # the trash itself cannot be changed
                    done = [error] * len(those)
                for at, result in zip(those, done, strict=True):
                    results[at] = result
                    if isinstance(result, Trashed):
                        self._deleted(wanted[at][0])
        return [results[at] for at in range(len(wanted))]

    def _leaving(self, ref: Found, title: str, names_in: Callable[[str], Sequence[str]]) -> Leaving:
        relative = self.relative(ref)
        return Leaving(ref.id, self.root, [*self._beside(relative, names_in), self._whole(relative)], title)

    def trashed(self) -> Sequence[Trashed]:
        """What was deleted and can be restored, last deleted first."""
        everything = [each for home in self._homes() for each in trash.listed(home)]
        mine = [each for each in everything if each.program in (self.name, "")]
        return sorted(mine, key=lambda each: each.deleted, reverse=True)

    def remove_empty(self, ref: Found) -> bool:
        """Leave no trace of a session in which nothing was said. Whether it is gone: not if there is
        anything in it, or set aside of it, and not while somebody writes to it."""
        relative = self.relative(ref)
        with contextlib.suppress(Held, Unreadable), self.lock(ref, 0) as lock:
            try:
                page = self.read(ref)
                if not page.entries and not page.problems and not self._beside(relative):
                    self._remove(relative)
                    self._deleted(ref)
                    return True
            finally:
                self.release(lock, ref)
        return False

    def take_back(self, made: Found) -> bool:
        """Leave no trace of what `create` made and returned. Whether it is gone: not if it was written to
        since, and not while somebody may."""
        with contextlib.suppress(Held), self.lock(made, 0) as lock:
            try:
                if found(made.id, made.path) == made and made.inode:
                    self._remove(self.relative(made))
                    self._deleted(made)
                    return True
            finally:
                self.release(lock, made)
        return False

    def restore(self, text: str) -> Found:
        """A deleted session, back in its place under its own id; the error says why not."""
        return self.bring_back(self._find_deleted(text))

    def bring_back(self, gone: Trashed) -> Found:
        """The same for one that was found already."""
        relative = gone.names[-1] if gone.names and gone.root else ""
        if not is_relative(relative):
            relative = ""  # and then `trash.restore` says so
        place = self._lock_place(gone.id, relative)
        with Lock(*place, gone.id, 0, private=self.private) as lock:
            lock.note(ids.stamp(ids.now()))
            *_, path = trash.restore(
                gone.home,
                gone,
                self.root,
                is_taken=lambda: any(each.id == gone.id for each in self.list()),
                private=self.private,
            )
            back = next((each for each in self.list() if each.id == gone.id), Found(gone.id, path))
            self._restored(back)
        return back

    def expire(
        self,
        days: float = trash.DAYS,
        now: ids.Clock = ids.now,
        *,
        before: Callable[[], object] = lambda: None,
    ) -> Sequence[Trashed]:
        """Delete for good what was deleted that long ago. Returns what is gone. `before` is called before the
        first goes."""
        everything = [
            gone
            for home in self._homes()
            for gone in trash.expire(
                home,
                days=days,
                now=now,
                keep=lambda each: each.program != self.name,
                before=before,
                private=self.private,
            )
        ]
        self.remove_unused_locks()
        return everything

    def remove_for_good(self, chosen: Callable[[Trashed], bool]) -> Sequence[Trashed]:
        """Delete for good what was deleted and is chosen. Returns what is gone."""
        everything = [
            gone
            for home in self._homes()
            for gone in trash.remove_for_good(home, chosen, private=self.private)
        ]
        self.remove_unused_locks()
        return everything

    def remove_unused_locks(self) -> None:
        """Remove the locks of sessions that are neither in their place nor in the trash."""
        for home in self._homes("locks"):
            unused_locks.remove_all(home)

    def release(self, lock: Lock, ref: Found) -> None:
        """Give a session's lock back, and leave none of a session that is gone."""
        if os.path.lexists(ref.path):
            lock.release()
        else:
            unused_locks.remove(os.path.join(*self._place(self.relative(ref))), lock)

    def _find_deleted(self, text: str) -> Trashed:
        homes = self._homes()
        for home in homes[:-1]:
            try:
                return trash.find(home, text)
            except NotFound:
                continue
        return trash.find(homes[-1], text)

    def lock(self, ref: Found, wait: float) -> Lock:
        relative = self.relative(ref)
        lock = Lock(*self._lock_place(ref.id, relative), ref.id, wait, private=self.private)
        if self._is_shared:
            try:
                self._refuse_locks(relative)
            except OthersMayWrite:
                lock.release()
                raise
        return lock

    def _refuse_locks(self, relative: str) -> None:
        """OthersMayWrite, if the folder of a session's lock is somebody else's, who could remove the lock."""
        place = os.path.dirname(os.path.join(*self._lock_place("", relative)))
        if found := strangers.doubt(place):
            remedy = "copy the session into a folder of your own"
            raise OthersMayWrite(config.as_typed(place), found.why, remedy)

    def relative(self, ref: Found) -> str:
        """The session's file as named from the root. Whatever a caller calls a session, it is in there."""
        relative = ref.path.removeprefix(self._prefix)
        if relative == ref.path or _UNPLAIN.search(relative):  # else it is spelt as a listing spells it
            relative = os.path.relpath(ref.path, self.root)
        try:
            inside = relative.split(os.sep)[0] != os.pardir and relative.count(os.sep) <= self.depth
            if inside and b"\0" not in os.fsencode(relative):
                return relative
        except UnicodeEncodeError:
            pass
        raise InvalidId(ref.path, f"that of a session in {self.root}")

    def list(self) -> Iterator[Found]:
        places: Callable[[str], Iterator[listing.Place]] = registry.load(LAYOUTS[self.name].listing)
        id_of = listing.namer(self.name)
        for name, path, status, _ in places(self.root):
            yield _found(id_of(name), path, status)

    @abstractmethod
    def read(self, ref: Found, after: Cursor = START) -> Page: ...

    # --- what a layout says otherwise --------------------------------------------------------------

    def _place(self, relative: str) -> tuple[str, str]:
        """Where the locks and the trash of a session are: a root, and a folder below it."""
        return self.home, ""

    def _homes(self, holding: str = "trash") -> Sequence[str]:
        """Every folder that has a trash of this store's sessions, or that `holding`."""
        return [os.path.join(*self._place(""))]

    def _whole(self, relative: str) -> str:
        """What a session consists of: its file, or the folder it has for itself."""
        return relative

    def _beside(self, relative: str, names_in: Callable[[str], Sequence[str]] | None = None) -> Sequence[str]:
        """What was set aside of a session, and lies beside it: in a folder of its own nothing does.
        `names_in` has the sorted names in a folder, for a caller that asks for many sessions."""
        if self._whole(relative) != relative:
            return ()
        folder, name = os.path.split(relative)
        suffix = os.path.splitext(name)[1]  # which a session has whose name only begins like this one's
        names = names_in(folder) if names_in else sorted(files.names(self.root, folder))
        beside = names[bisect_left(names, f"{name}.") : bisect_left(names, f"{name}/")]  # `/` follows `.`
        return [os.path.join(folder, each) for each in beside if not each.endswith(suffix)]

    def _remove(self, relative: str) -> None:
        """Remove a session that holds nothing, under its lock."""
        path = os.path.join(self.root, relative)
        with files.told(NotSaved, path), files.folder_of(self.root, relative) as (folder, name):
            os.unlink(name, dir_fd=folder)
            files.sync_names(folder)
        if (own := self._whole(relative)) != relative:
            files.remove_folder(self.root, own)

    def _deleted(self, ref: Found) -> None:
        """Called under the lock, when it is in the trash or removed."""
        return

    def _restored(self, ref: Found) -> None:
        """Called under the lock, when it is back."""
        return

    def _lock_place(self, id: str, relative: str) -> tuple[str, str]:
        root, folder = self._place(relative)
        return root, os.path.join(folder, "locks", f"{ids.lock_name(id)}.lock")


def counted(entries: Sequence[Entry]) -> str:
    return f"{len(entries)} {'entry' if len(entries) == 1 else 'entries'}"


def found(id: str, path: str) -> Found:
    """A session's file as it is now."""
    try:
        return _found(id, path, os.stat(path, follow_symlinks=False))
    except OSError:
        return Found(id, path)  # gone again already, or nothing to look at


def _found(id: str, path: str, status: os.stat_result | None) -> Found:
    if status is None:
        return Found(id, path)
    return Found(id, path, status.st_ino, status.st_size, status.st_mtime_ns)
