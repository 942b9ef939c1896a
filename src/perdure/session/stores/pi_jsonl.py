"""pi's layout: one JSONL file a session, a header line and then one entry a line, in a folder a project.

    <home>/sessions/--<cwd>--/<time>_<id>.jsonl      <home>/locks/<id>.lock      <home>/trash/<id>/

A new session is an empty file: its name holds id and time, and the header is written with the first
entry. The file grows by appends alone. Only one of an old version is replaced, once, by its first
append, and then the original stays beside it.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import islice
from typing import Self

from perdure.errors import Conflict, InvalidId, NotSaved, Unreadable, UsageError
from perdure.session import ids, trash
from perdure.session.entry import Entry
from perdure.session.record import dumps, loads
from perdure.session.stores import (
    START,
    Cursor,
    Durability,
    Found,
    Header,
    Page,
    Problems,
    files,
    lines,
    pi_format,
)
from perdure.session.stores.lock import Lock, Turns, holder
from perdure.session.stores.log import AppendLog

_FINGERPRINT = 32  # bytes before a cursor, to tell a file that grew from one that was rewritten


class PiStore:
    name = "pi"

    def __init__(
        self,
        home: str,
        *,
        sessions_dir: str | None = None,
        cwd: str | None = None,
        durability: Durability = "power",
    ) -> None:
        """With a `sessions_dir` of its own, the store has no folders for projects."""
        if durability not in ("power", "process"):
            raise UsageError(f"Unknown durability {durability!r}", "it is 'power' or 'process'")
        self.root = sessions_dir or os.path.join(home, "sessions")
        self._real_root = os.path.realpath(self.root)
        self._by_project = sessions_dir is None
        self._cwd = cwd
        self._durability = durability

    @property
    def cwd(self) -> str:
        try:
            return os.path.abspath(self._cwd or "")
        except OSError:
            return ""  # the directory this process was started in is gone

    def list(self) -> Iterator[Found]:
        try:
            found = list(os.scandir(self.root))
        except FileNotFoundError:
            return
        except OSError as error:
            raise Unreadable(self.root, error) from error
        for item in found:
            if item.name.endswith(".jsonl"):
                yield _found(item)
            elif item.is_dir(follow_symlinks=False):
                try:
                    below = list(os.scandir(item.path))
                except OSError:
                    yield Found(item.name, item.path)  # reading it will say why
                    continue
                yield from (_found(each) for each in below if each.name.endswith(".jsonl"))
            elif item.is_symlink() and item.is_dir():
                yield Found(item.name, item.path)

    def read(self, ref: Found, after: Cursor = START) -> Page:
        with files.open_to_read(self.root, self._relative(ref)) as file, files.told(Unreadable, ref.path):
            return self._read(ref, file.fileno(), after)

    def read_back(self, ref: Found, problems: Problems | None = None) -> Generator[Entry, None, None]:
        with files.open_to_read(self.root, self._relative(ref)) as file, files.told(Unreadable, ref.path):
            descriptor = file.fileno()
            end = os.fstat(descriptor).st_size
            reader = self._reader(ref, descriptor, end)
            given = number = numbered = 0
            if reader.sound:
                for offset, data in lines.backward(descriptor, end):
                    if data == b"":
                        continue
                    unfinished = data is not None and offset + len(data) == end
                    (reader.take_rest if unfinished else reader.take)(data, 1 if offset == 0 else _UNCOUNTED)
                    if reader.problems and problems is not None:
                        if number:
                            number -= lines.count(descriptor, offset, numbered)
                        else:
                            number = 1 + lines.count(descriptor, 0, offset)
                        numbered = offset
                        problems.extend(each._replace(line=number) for each in reader.problems)
                    reader.problems.clear()
                    if reader.adopted:
                        break  # a record without an id is named by its place, which only the start can tell
                    while reader.entries:
                        given += 1
                        yield reader.entries.pop()
                else:
                    return
            page = self._read(ref, descriptor, START, end)
            if problems is not None:
                told = set(problems)
                problems.extend(each for each in page.problems if each not in told)
            yield from islice(reversed(page.entries), given, None)

    def writer(self, ref: Found, wait: float = 10.0, after: Cursor | None = START) -> PiWriter:
        lock = self._lock(ref, wait)
        try:
            with files.told(NotSaved, ref.path):
                return PiWriter(self, ref, lock, after)
        except BaseException:
            lock.release()
            raise

    def create(self, header: Header, entries: Iterable[Entry] = ()) -> Found:
        ids.check(header.id)
        cwd = header.cwd or self.cwd
        folder = pi_format.folder_name(cwd) if self._by_project else ""
        relative = os.path.join(folder, pi_format.file_name(header))
        path = os.path.join(self.root, relative)
        entries = list(entries)
        first = pi_format.header_line(header._replace(cwd=cwd)) if entries else None
        text = pi_format.file_text(path, first, entries, checksum=True)
        with files.told(NotSaved, path):
            files.make_folder(os.path.dirname(path))
        files.create(self.root, relative, text, sync=self._durability == "power")
        return _stat(header.id, path)

    def delete(self, ref: Found) -> None:
        with self._lock(ref, 0):
            relative = self._relative(ref)
            folder, name = os.path.split(relative)
            beside = (
                os.path.join(folder, each)
                for each in sorted(files.names(self.root, folder))
                if each.startswith(f"{name}.") and not each.endswith(".jsonl")
            )
            names = [*beside, relative]  # the session itself last: until then it is all still there
            trash.discard(os.path.join(*self._home(ref)), ref.id, self.name, self.root, names)

    def holder(self, ref: Found) -> int | None:
        return holder(*self._lock_place(ref))

    def _lock(self, ref: Found, wait: float) -> Lock:
        return Lock(*self._lock_place(ref), ref.id, wait)

    def _lock_place(self, ref: Found) -> tuple[str, str]:
        root, home = self._home(ref)
        return root, os.path.join(home, "locks", f"{ids.file_name(ref.id)}.lock")

    def _home(self, ref: Found) -> tuple[str, str]:
        """Where a session's lock and trash are: a root, and a folder below it. This follows from where the
        file is and from nothing else: however a store was opened, a session has one lock."""
        root = self._real_root
        folder = os.path.dirname(self._relative(ref))
        if folder == "":
            root, folder = os.path.split(root)
        above = os.path.basename(root)
        if folder.startswith("--") and folder.endswith("--") and above == "sessions":
            return os.path.dirname(root), ""
        return root, folder

    def _relative(self, ref: Found) -> str:
        """The session's file as named from the root. Whatever a caller calls a session, it is in there."""
        relative = os.path.relpath(ref.path, self.root)
        try:
            inside = relative.split(os.sep)[0] != os.pardir and relative.count(os.sep) <= 1
            if inside and b"\0" not in os.fsencode(relative):
                return relative
        except UnicodeEncodeError:
            pass
        raise InvalidId(ref.path, f"that of a session in {self.root}")

    def _reader(self, ref: Found, descriptor: int, end: int) -> pi_format.Reader:
        """A reader that has read the header, if that is the first line, as it is in every sound file."""
        reader = pi_format.Reader(ref.path, pi_format.header_from_name(os.path.basename(ref.path)))
        first, newline, _ = os.pread(descriptor, min(end, _HEADER_WITHIN), 0).partition(b"\n")
        if newline and b'"session"' in first:
            reader.take(first, 1)
            if reader.entries:  # a record is glued to it
                return pi_format.Reader(ref.path, reader.header)
            reader.problems.clear()
        return reader

    def _read(self, ref: Found, descriptor: int, after: Cursor, end: int | None = None) -> Page:
        reader, cursor = self._scan(ref, descriptor, after, end)
        return Page(reader.entries, cursor, reader.problems, reader.header)

    def _scan(
        self, ref: Found, descriptor: int, after: Cursor, end: int | None = None
    ) -> tuple[pi_format.Reader, Cursor]:
        status = os.fstat(descriptor)
        end = status.st_size if end is None else end
        reader = self._reader(ref, descriptor, end)
        if after.offset:
            if (
                after.inode != status.st_ino
                or after.offset > end
                or _tail(descriptor, after.offset) != after.tail
            ):
                raise Conflict(ref.path, "was replaced or rewritten since it was last read")
            if after.offset == end:
                return reader, after
            if after.line == _UNCOUNTED:  # from a writer that began at the end
                _, after = self._scan(ref, descriptor, START, after.offset)
            if not reader.sound:  # what such a file says depends on its beginning
                reader, cursor = self._scan(ref, descriptor, START, end)
                del reader.entries[: after.entries]
                return reader, cursor
            reader.count, reader.last_before = after.entries, after.last
        else:
            reader = pi_format.Reader(ref.path, pi_format.header_from_name(os.path.basename(ref.path)))
        number = after.line
        if after.tail and not after.tail.endswith(b"\n"):
            number -= 1  # what follows is still that line's
        forward = lines.Forward(descriptor, after.offset, end)
        for batch in forward:
            number = reader.take_all(batch, number)
        offset = forward.offset
        if forward.rest != b"" and (taken := reader.take_rest(forward.rest, number + 1)):
            number += 1
            offset += taken
        if offset == after.offset:
            number = after.line
        tail = _tail(descriptor, offset)
        entries = reader.count + len(reader.entries)
        return reader, Cursor(offset, number, status.st_ino, tail, entries, reader.last)


class PiWriter:
    def __init__(self, store: PiStore, ref: Found, lock: Lock, after: Cursor | None) -> None:
        self._store = store
        self._ref = ref
        self._lock = lock
        self._turn = Turns()  # threads that share a writer
        self._version = pi_format.VERSION
        self._checksums = False
        self._needs_header = True
        self._log = AppendLog(store.root, store._relative(ref), lock, store._durability)
        self._look_at_header()
        if after is None:
            size = self._log.size
            status = os.fstat(self._log.fileno())
            after = Cursor(size, _UNCOUNTED, status.st_ino, _tail(self._log.fileno(), size), 0, None)
        self._cursor = after
        self._behind = after.offset != self._log.size  # whether there is more than this writer was told of

    def catch_up(self) -> Page:
        with self._turn, files.told(NotSaved, self._ref.path):
            return self._catch_up()

    def append(self, entries: Sequence[Entry]) -> Cursor:
        with self._turn:
            try:
                return self._append(entries)
            except OSError as error:
                raise NotSaved(self._ref.path, error) from error

    def _catch_up(self) -> Page:
        self._log.refresh()
        self._look_at_header()
        descriptor = self._log.fileno()
        end = self._log.size
        try:
            page = self._store._read(self._ref, descriptor, self._cursor, end)
        except Conflict:
            page = self._store._read(self._ref, descriptor, START, end)
        self._cursor = page.cursor
        self._behind = False
        return page

    def _append(self, entries: Sequence[Entry]) -> Cursor:
        path = self._ref.path
        if self._behind:
            raise Conflict(path, "has entries this writer has not read")
        if not entries:
            self._log.sync()  # they are all there, perhaps from a writer that died before it had synced them
            return self._cursor
        if self._version < pi_format.VERSION:
            self._upgrade()
        first = self._first_line() if self._needs_header else None
        checksum = self._checksums or first is not None
        text = pi_format.file_text(path, first, entries, checksum=checksum)
        at = self._cursor
        counted = at.line != _UNCOUNTED and at.offset == self._log.size  # not so behind a torn line
        self._log.append(text)
        self._checksums, self._needs_header = checksum, False
        self._cursor = Cursor(
            self._log.size,
            at.line + (first is not None) + len(entries) if counted else _UNCOUNTED,
            at.inode or os.fstat(self._log.fileno()).st_ino,
            text[-_FINGERPRINT:],
            at.entries + len(entries),
            entries[-1].id,
        )
        return self._cursor

    def release(self) -> None:
        """Give the right to write back. A forked child never had it, and only closes what it inherited."""
        with self._turn:
            try:
                self._log.close()
            finally:
                self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def _look_at_header(self) -> None:
        descriptor, size = self._log.fileno(), self._log.size
        reader = self._store._reader(self._ref, descriptor, size)
        if not reader.sound:
            reader, _ = self._store._scan(self._ref, descriptor, START, size)
        self._version = reader.version
        self._checksums = reader.checksums
        # Also where the first append of all was torn: a fragment of a header is none.
        self._needs_header = not reader.headed and not reader.entries

    def _first_line(self) -> bytes:
        name = pi_format.header_from_name(os.path.basename(self._ref.path))
        timestamp = name.timestamp or ids.stamp(ids.now())
        return pi_format.header_line(name._replace(cwd=self._store.cwd, timestamp=timestamp))

    def _upgrade(self) -> None:
        """Replace a file of an old version by the same session in today's. The original stays beside it."""
        store, relative = self._store, self._store._relative(self._ref)
        reader, _ = store._scan(self._ref, self._log.fileno(), START)
        header = dumps({**loads(reader.header_raw), "version": pi_format.VERSION})
        text = pi_format.file_text(self._ref.path, header, reader.entries, checksum=False)
        self._log.check()  # what is replaced is what was read
        files.set_aside(store.root, relative, f"v{self._version}")
        files.replace(store.root, relative, text)
        self._log.replaced()
        self.catch_up()


_UNCOUNTED = -1
_HEADER_WITHIN = 2**14


def _tail(descriptor: int, offset: int) -> bytes:
    start = max(0, offset - _FINGERPRINT)
    return os.pread(descriptor, offset - start, start)


def _found(item: os.DirEntry[str]) -> Found:
    try:
        status = item.stat(follow_symlinks=False)
    except OSError:
        return Found(pi_format.header_from_name(item.name).id, item.path)
    return Found(
        pi_format.header_from_name(item.name).id, item.path, status.st_ino, status.st_size, status.st_mtime_ns
    )


def _stat(id: str, path: str) -> Found:
    try:
        status = os.stat(path, follow_symlinks=False)
    except OSError:
        return Found(id, path)  # gone again already
    return Found(id, path, status.st_ino, status.st_size, status.st_mtime_ns)
