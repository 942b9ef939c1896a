"""Sessions that are one JSONL file each: lines in, entries out; read in both directions, grown by appends.

A layout says what its lines look like: how one becomes an entry (`LineReader.record`), how an entry becomes
one (`JsonlStore.line`), and what stands before the first. Everything else is the same for all of them, and
here: cursors, torn ends, damaged lines, what others wrote meanwhile.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Generator, Sequence
from itertools import islice
from typing import Self

from perdure.errors import Conflict, NotSaved, TooLarge, Unreadable
from perdure.session import ids, tree
from perdure.session.entry import Entry
from perdure.session.findings import MOST
from perdure.session.stores import (
    A_PART,
    NOT_A_RECORD,
    START,
    Cursor,
    Excerpt,
    Found,
    Header,
    Page,
    Problems,
    Repaired,
    files,
    lines,
    note,
)
from perdure.session.stores.file_store import FileStore, counted
from perdure.session.stores.line_reader import LineReader
from perdure.session.stores.lock import Lock, Turns
from perdure.session.stores.log import AppendLog

_FINGERPRINT = 32  # bytes before a cursor, to tell a file that grew from one that was rewritten
_UNCOUNTED = -1
_FAR = 2  # any line but the first: how many are before it is not known
_HEADER_WITHIN = 2**14
_MOST_LINES = 2**16  # of a file that is not large: an entry takes memory also where it says nothing
_FEW = 2**20  # bytes of a file whose lines need not be counted


class JsonlStore(FileStore):
    large = 2**25

    @abstractmethod
    def reader(self, ref: Found) -> LineReader:
        """A new one, that has read nothing."""

    @abstractmethod
    def line(self, entry: Entry, reader: LineReader) -> bytes:
        """An entry as a line, without the newline; `reader` has read the file it goes to."""

    def first_line(self, ref: Found, header: Header) -> bytes | None:
        """What stands before the first entry; None if nothing does."""
        return None

    def read(self, ref: Found, after: Cursor = START) -> Page:
        with files.open_to_read(self.root, self.relative(ref)) as file, files.told(Unreadable, ref.path):
            return self.read_open(ref, file.fileno(), after)

    def read_back(self, ref: Found, problems: Problems | None = None) -> Generator[Entry, None, None]:
        with files.open_to_read(self.root, self.relative(ref)) as file, files.told(Unreadable, ref.path):
            descriptor = file.fileno()
            end = os.fstat(descriptor).st_size
            reader = self.with_header(ref, descriptor, end)
            given = number = numbered = 0
            if reader.sound:
                for offset, data in lines.backward(descriptor, end):
                    if data == b"":
                        continue
                    unfinished = data is not None and offset + len(data) == end
                    (reader.take_rest if unfinished else reader.take)(data, 1 if offset == 0 else _UNCOUNTED)
                    if reader.problems and problems is not None:
                        if len(problems) > MOST:
                            number = 0  # it is counted, and told to nobody
                        elif number:
                            number -= lines.count(descriptor, offset, numbered)
                        else:
                            number = 1 + lines.count(descriptor, 0, offset)
                        numbered = offset
                        note(problems, *(each._replace(line=number) for each in reader.problems))
                    reader.problems.clear()
                    if reader.adopted:
                        break  # a record without an id is named by its place, which only the start can tell
                    while reader.entries:
                        given += 1
                        yield reader.entries.pop()
                else:
                    return
            page = self.read_open(ref, descriptor, START, end)
            if problems is not None:
                told = set(problems)
                note(problems, *(each for each in page.problems if each not in told))
            yield from islice(reversed(page.entries), given, None)

    def header_alone(self, ref: Found) -> Header | None:
        """What `read` says of a session as a whole, without its entries; None where only these can tell."""
        with files.open_to_read(self.root, self.relative(ref)) as file, files.told(Unreadable, ref.path):
            descriptor = file.fileno()
            reader = self.with_header(ref, descriptor, os.fstat(descriptor).st_size)
            return reader.header if reader.headed else None

    def mentioning(self, ref: Found, word: bytes) -> Generator[Entry, None, None]:
        """The entries whose lines have this word in them, the newest first. No other line is parsed."""
        with files.open_to_read(self.root, self.relative(ref)) as file, files.told(Unreadable, ref.path):
            descriptor = file.fileno()
            end = os.fstat(descriptor).st_size
            reader = self.with_header(ref, descriptor, end)
            for offset, data in lines.backward(descriptor, end):
                if data is not None and word in data:
                    reader.take(data, 1 if offset == 0 else _FAR)
                    reader.problems.clear()
                    while reader.entries:
                        yield reader.entries.pop()

    def excerpt(self, ref: Found) -> Excerpt | None:
        if not self.is_large(ref):
            return None
        with files.open_to_read(self.root, self.relative(ref)) as file, files.told(Unreadable, ref.path):
            descriptor = file.fileno()
            end = os.fstat(descriptor).st_size
            return self.excerpt_open(ref, descriptor, end)

    def is_large(self, ref: Found) -> bool:
        if super().is_large(ref):
            return True
        if ref.size and ref.size <= _FEW:
            return False
        with files.open_to_read(self.root, self.relative(ref)) as file, files.told(Unreadable, ref.path):
            size = os.fstat(file.fileno()).st_size
            return size > _FEW and lines.count(file.fileno(), 0, size) > _MOST_LINES

    def excerpt_open(self, ref: Found, descriptor: int, end: int) -> Excerpt:
        first, number = self.reader(ref), 0
        beginning = lines.Forward(descriptor, 0, A_PART)
        for batch in beginning:
            number = first.take_all(batch, number)
        if not lines.ends_within(descriptor, beginning.offset, lines.LONGEST):
            first.take(None, number + 1)
        last = self.with_header(ref, descriptor, end)
        forward = lines.Forward(descriptor, max(0, end - A_PART), end)
        torn = 1  # a line of which only the end is there
        for batch in forward:
            last.take_all(batch[torn:], _FAR)
            torn = 0
        if forward.rest != b"" and not torn:
            last.take_rest(forward.rest, _FAR)
        problems = first.problems
        note(problems, *(each._replace(line=0) for each in last.problems))
        named = last.entries if last.sound and not last.adopted else []  # else only the start tells their ids
        return Excerpt(first.entries, named, problems, first.header)

    def writer(self, ref: Found, wait: float = 10.0, after: Cursor | None = START) -> JsonlWriter:
        lock = self.lock(ref, wait)
        try:
            with files.told(NotSaved, ref.path):
                return self._writer(ref, lock, after)
        except BaseException:
            self.release(lock, ref)
            raise

    def remedy(self, ref: Found, page: Page | None = None) -> str:
        page = page or self.read(ref)
        if not page.problems and not tree.in_place(page.entries)[1]:
            return ""
        return f"A repair keeps {counted(page.entries)} and sets aside what is replaced, as it is now."

    def repair(self, ref: Found) -> Repaired | None:
        """Keep every record there is and leave out what is none. A record that follows one which is missing
        is written to follow the one before it, as every reading has it. The file as it was stays beside
        it."""
        relative = self.relative(ref)
        with self.lock(ref, 0) as lock:
            lock.note(ids.stamp(ids.now()))
            with files.open_to_read(self.root, relative) as file, files.told(Unreadable, ref.path):
                before = files.read_all(file.fileno(), os.fstat(file.fileno()).st_size)
                reader, text = self._mended(ref, file.fileno())
            is_sound = not reader.problems and not tree.in_place(reader.entries)[1]
            if text == before or is_sound:
                return None
            aside = files.set_aside(self.root, relative, "damaged", private=self.private)
            files.replace(self.root, relative, text, private=self.private)
        return Repaired(ref, len(reader.entries), os.path.join(self.root, aside))

    def set_torn_end_aside(self, ref: Found) -> str | None:
        """Take off what a crash left of the last line, in memory that does not grow with the file. Returns
        where the file stays as it was; None if there is nothing to take off, or a whole repair is needed
        because a record is in it."""
        relative = self.relative(ref)
        with (
            self.lock(ref, 0) as lock,
            files.open_to_read(self.root, relative) as file,
            files.told(Unreadable, ref.path),
        ):
            lock.note(ids.stamp(ids.now()))
            descriptor = file.fileno()
            size = os.fstat(descriptor).st_size
            offset, torn = next(lines.backward(descriptor, size), (0, b""))
            if not (offset and torn) or self.with_header(ref, descriptor, size).take_rest(torn, _UNCOUNTED):
                return None
            aside = files.set_aside(self.root, relative, "damaged", private=self.private)
            whole = files.read_in_pieces(descriptor, offset)
            files.replace_in_pieces(self.root, relative, whole, private=self.private)
        return os.path.join(self.root, aside)

    def text(self, ref: Found, first: bytes | None, entries: Sequence[Entry], reader: LineReader) -> bytes:
        """Whole lines, each with its newline. What cannot be read again is refused before it is written."""
        texts = [self.line(entry, reader) for entry in entries]
        longest = max(map(len, texts), default=0)
        if longest > lines.LONGEST:
            size, most = longest >> 20, lines.LONGEST >> 20
            raise TooLarge(ref.path, f"an entry of {size} MB is longer than a line may be ({most} MB)")
        if first is not None:
            texts.insert(0, first)
        texts.append(b"")
        whole = b"\n".join(texts)
        if whole.count(b"\n") != len(texts) - 1 or not all(text[:1] == b"{" for text in texts[:-1]):
            raise NotSaved(ref.path, NOT_A_RECORD)
        return whole

    def with_header(self, ref: Found, descriptor: int, end: int) -> LineReader:
        """A reader that has read the header, if that is the first line, as it is in every sound file."""
        reader = self.reader(ref)
        if not reader.header_mark:
            return reader
        first, newline, _ = os.pread(descriptor, min(end, _HEADER_WITHIN), 0).partition(b"\n")
        if newline and reader.header_mark in first:
            reader.take(first, 1)
            if reader.entries:  # a record is glued to it
                glued, reader = reader, self.reader(ref)
                reader.header = glued.header
                return reader
            reader.problems.clear()
        return reader

    def read_open(self, ref: Found, descriptor: int, after: Cursor, end: int | None = None) -> Page:
        reader, cursor = self.scan(ref, descriptor, after, end)
        return Page(reader.entries, cursor, reader.problems, reader.header)

    def scan(
        self, ref: Found, descriptor: int, after: Cursor, end: int | None = None
    ) -> tuple[LineReader, Cursor]:
        status = os.fstat(descriptor)
        end = status.st_size if end is None else end
        if after.offset:
            reader = self.with_header(ref, descriptor, end)
            if (
                after.inode != status.st_ino
                or after.offset > end
                or _tail(descriptor, after.offset) != after.tail
            ):
                raise Conflict(ref.path, "was replaced or rewritten since it was last read")
            if after.offset == end:
                return reader, after
            if after.line == _UNCOUNTED:  # from a writer that began at the end
                _, after = self.scan(ref, descriptor, START, after.offset)
            if not reader.sound:  # what such a file says depends on its beginning
                reader, cursor = self.scan(ref, descriptor, START, end)
                del reader.entries[: after.entries]
                return reader, cursor
            reader.count, reader.last_before = after.entries, after.last
        else:
            reader = self.reader(ref)
        number = after.line
        if after.tail and not after.tail.endswith(b"\n"):
            number -= 1  # what follows is still that line's
        forward = lines.Forward(descriptor, after.offset, end)
        for batch in forward:
            number = reader.take_all(batch, number)
            self.watch(forward.offset)
        offset = forward.offset
        if forward.rest != b"" and (taken := reader.take_rest(forward.rest, number + 1)):
            number += 1
            offset += taken
        if offset == after.offset:
            number = after.line
        tail = _tail(descriptor, offset)
        entries = reader.count + len(reader.entries)
        return reader, Cursor(offset, number, status.st_ino, tail, entries, reader.last)

    def _writer(self, ref: Found, lock: Lock, after: Cursor | None) -> JsonlWriter:
        return JsonlWriter(self, ref, lock, after)

    def _mended(self, ref: Found, descriptor: int) -> tuple[LineReader, bytes]:
        """The file's text without what is no record: good lines byte for byte, the others' records anew, and
        so those that need another id or parent."""
        reader = self.reader(ref)
        forward = lines.Forward(descriptor, 0, os.fstat(descriptor).st_size)
        kept: list[tuple[bytes, Entry | None]] = []
        number = 0
        for batch in forward:
            for text in batch:
                number += 1
                kept += self._kept(reader, reader.take, text, number)
            self.watch(forward.offset)
        if forward.rest != b"":
            kept += self._kept(reader, reader.take_rest, forward.rest, number + 1)
        in_tree = iter(tree.in_place(reader.entries)[0])
        texts = [self._in_place(text, entry and next(in_tree), entry, reader) for text, entry in kept]
        if reader.entries and not reader.headed:
            times = (entry.timestamp for entry in reader.entries if ids.moment(entry.timestamp))
            begun = reader.header.timestamp or next(times, "")
            first = self.first_line(ref, reader.header._replace(timestamp=begun))
            texts[:0] = [] if first is None else [first]
        return reader, b"".join([text + b"\n" for text in texts])

    def _in_place(self, text: bytes, placed: Entry | None, entry: Entry | None, reader: LineReader) -> bytes:
        """A record's text; written anew if the tree has another id or parent for it."""
        if placed is None or entry is None or (placed.id, placed.parent_id) == (entry.id, entry.parent_id):
            return text
        return self.line(placed, reader)

    def _kept(
        self,
        reader: LineReader,
        take: Callable[[bytes | None, int], object],
        text: bytes | None,
        number: int,
    ) -> list[tuple[bytes, Entry | None]]:
        """A good line as it stands; of any other one the records in it. Each with the entry it holds."""
        known, last, headed = len(reader.entries), reader.problems[-1:], reader.headed
        take(text, number)
        new = reader.entries[known:]
        is_good = reader.problems[-1:] == last  # which each problem changes, also one that is only counted
        if text is not None and is_good and len(new) < 2:
            return [(text, new[0] if new else None)]
        header: list[tuple[bytes, Entry | None]] = (
            [(reader.header_raw, None)] if reader.headed > headed else []
        )
        return [*header, *((self.line(entry, reader), entry) for entry in new)]


class JsonlWriter:
    def __init__(self, store: JsonlStore, ref: Found, lock: Lock, after: Cursor | None) -> None:
        self._store = store
        self._ref = ref
        self._lock = lock
        self._turn = Turns()  # threads that share a writer
        self._log = AppendLog(store.root, store.relative(ref), lock, store.durability, private=store.private)
        self._known: LineReader
        """One that has read the header, and so knows what a line of this file looks like."""
        self._is_bare: bool
        """Whether the header is still to be written."""
        self._look_at_header()
        if after is None:
            size = self._log.size
            status = os.fstat(self._log.fileno())
            after = Cursor(size, _UNCOUNTED, status.st_ino, _tail(self._log.fileno(), size), 0, None)
        self._cursor = after
        self._behind = after.offset != self._log.size  # whether there is more than this writer was told of
        if self._behind and after == START and self._has_header_alone():
            self._catch_up()  # nothing was said yet, so there is nothing it should have read

    def catch_up(self) -> Page:
        with self._turn, files.told(NotSaved, self._ref.path):
            return self._catch_up()

    def append(self, entries: Sequence[Entry]) -> Cursor:
        with self._turn:
            try:
                return self._append(entries)
            except OSError as error:
                raise NotSaved(self._ref.path, error) from error

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

    def _catch_up(self) -> Page:
        self._log.refresh()
        self._look_at_header()
        descriptor = self._log.fileno()
        end = self._log.size
        try:
            page = self._store.read_open(self._ref, descriptor, self._cursor, end)
        except Conflict:
            page = self._store.read_open(self._ref, descriptor, START, end)
        self._cursor = page.cursor
        self._behind = False
        return page

    def _append(self, entries: Sequence[Entry]) -> Cursor:
        if self._behind:
            raise Conflict(self._ref.path, "has entries this writer has not read")
        if not entries:
            self._log.sync()  # they are all there, perhaps from a writer that died before it had synced them
            return self._cursor
        first, known = None, self._known
        if self._is_bare:
            first = self._store.first_line(self._ref, known.header)
            if first is not None:
                known = self._store.reader(self._ref)
                known.record(first, 1)
        text = self._store.text(self._ref, first, entries, known)
        at = self._cursor
        counted = at.line != _UNCOUNTED and at.offset == self._log.size  # not so behind a torn line
        self._log.append(text)
        self._known, self._is_bare = known, False
        self._cursor = Cursor(
            self._log.size,
            at.line + (first is not None) + len(entries) if counted else _UNCOUNTED,
            at.inode or os.fstat(self._log.fileno()).st_ino,
            text[-_FINGERPRINT:],
            at.entries + len(entries),
            entries[-1].id,
        )
        return self._cursor

    def _has_header_alone(self) -> bool:
        size = self._log.size
        if not self._known.headed or size > _HEADER_WITHIN:
            return False
        return os.pread(self._log.fileno(), size, 0).find(b"\n") == size - 1

    def _look_at_header(self) -> None:
        descriptor, size = self._log.fileno(), self._log.size
        reader = self._store.with_header(self._ref, descriptor, size)
        if not reader.sound:
            reader, _ = self._store.scan(self._ref, descriptor, START, size)
        # Also where the first append of all was torn: a fragment of a header is none.
        self._is_bare = not reader.sound and not reader.headed and not reader.entries
        reader.entries.clear()
        self._known = reader


def _tail(descriptor: int, offset: int) -> bytes:
    start = max(0, offset - _FINGERPRINT)
    return os.pread(descriptor, offset - start, start)
