"""Sessions that are one document each, replaced as a whole by every save.

A layout says how a document is read (`WholeFileStore.parse`) and printed (`WholeFileStore.print`).
Everything else is the same for all of them, and here: the old document or the new one at any moment, one
writer at a time, and never over what another program wrote in the meantime.

A document that is damaged opens with every complete entry in it, and a problem for what is not. It is never
printed over: the first append sets it aside, beside the file.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
from abc import abstractmethod
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, Self
from weakref import WeakValueDictionary
from zlib import crc32

from perdure.errors import Conflict, NotSaved, PerdureError, Unreadable
from perdure.session import ids
from perdure.session.entry import Entry, decode, meaning
from perdure.session.stores import (
    A_PART,
    NOT_A_RECORD,
    START,
    Cursor,
    Durability,
    Excerpt,
    Found,
    Header,
    Page,
    Problem,
    Problems,
    Repaired,
    document_size,
    files,
    note,
)
from perdure.session.stores.file_store import FileStore, counted, found
from perdure.session.stores.lock import Lock, Turns
from perdure.session.tree import in_place

_CROWDED, _CROWDED_PART = 2**16, 2**13  # messages of a document, and of one of its ends
_A_SMALL_PART = 2**16
_PLACE = re.compile(r"[a-z]\d+")
_LONGEST_PLACE = 10
_GONE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP})


class Document(NamedTuple):
    header: Header
    entries: list[Entry]
    problems: list[Problem]
    memory: dict[Any, Any]
    """What the layout remembers from reading and printing it, so that what was read is written back as it
    stood, and a save prints only what is new."""
    is_damaged: bool = False
    """Whether the file holds bytes that printing this document would lose."""
    refusal: PerdureError | None = None
    """Why it is read and never written, if it is."""
    messages: int | None = None
    """As in a `Page`, when it was read."""


class _Saved(NamedTuple):
    """What a writer left in the file, or found there. One value, so that no interrupt can part the two."""

    text: bytes | None
    """None if it is not there any more, and was kept elsewhere; or if it is large."""
    document: Document
    digest: bytes = b""
    """Of a large text, which is not kept beside the document: where it is needed, it is printed anew."""
    is_read: bool = False
    """Whether the document is what a reading gives, and not what was appended to one."""

    @classmethod
    def of(cls, text: bytes, document: Document, large: int) -> Self:
        is_large = len(text) > large
        return cls(None if is_large else text, document, _digest(text) if is_large else b"")

    @property
    def is_kept(self) -> bool:
        """Whether there is something in the file that this writer knows of."""
        return bool(self.text or self.digest)


class WholeFileStore(FileStore):
    large = 2**23
    item_start: ClassVar[bytes] = b""
    """What each message begins with, if one of a few bytes takes hundreds of times as many in memory."""

    def __init__(self, home: str, root: str, durability: Durability, *, cwd: str | None = None) -> None:
        super().__init__(home, root, durability, cwd=cwd)
        self._writers: WeakValueDictionary[str, WholeFileWriter] = WeakValueDictionary()

    @abstractmethod
    def parse(self, ref: Found, data: bytes) -> Document:
        """Whatever is in the file; `LargeDocument` if it has too many messages."""

    @abstractmethod
    def parse_parts(self, ref: Found, first: bytes, last: bytes) -> Excerpt:
        """What is whole in the beginning of a document, and in its end. A problem is only what shows that the
        rest cannot be sound either."""

    @abstractmethod
    def print(self, document: Document, saved: str) -> bytes:
        """The document as a file; `saved` is the time of this save."""

    @abstractmethod
    def place(self, id: str) -> str:
        """Where the session of this id is, as named from the root."""

    @abstractmethod
    def salvage_id(self, header: Header, digest: bytes) -> str:
        """The id of the session that holds what could be saved of another one: always the same for the same
        damaged bytes, so that they are saved once."""

    def allowed(self, entries: Sequence[Entry], document: Document) -> list[Entry]:
        """What of the entries may be kept here, behind those of the document."""
        return list(entries)

    def read(self, ref: Found, after: Cursor = START) -> Page:
        return _page(self._document(ref), ref, after)

    def read_back(self, ref: Found, problems: Problems | None = None) -> Generator[Entry, None, None]:
        document = self._document(ref, is_for_entries=True)
        if problems is not None:
            note(problems, *document.problems)
        yield from reversed(document.entries)

    def excerpt(self, ref: Found) -> Excerpt | None:
        if not self.is_large(ref) and (not self.item_start or 0 < ref.size <= _CROWDED):
            return None
        with files.open_to_read(self.root, self.relative(ref)) as file, files.told(Unreadable, ref.path):
            descriptor = file.fileno()
            size = os.fstat(descriptor).st_size
            if size <= self.large and not self._is_crowded(files.read_all(descriptor, size), _CROWDED):
                return None
            first, last = os.pread(descriptor, A_PART, 0), os.pread(descriptor, A_PART, max(0, size - A_PART))
        if self._is_crowded(first, _CROWDED_PART) or self._is_crowded(last, _CROWDED_PART):
            first, last = first[:_A_SMALL_PART], last[-_A_SMALL_PART:]
        found = self.parse_parts(ref, first, last)
        if size > document_size.LARGEST:
            found.problems.insert(0, Problem(ref.path, 0, document_size.too_large(ref.path, size).reason))
        return found

    def _is_crowded(self, data: bytes, most: int) -> bool:
        """Whether there may be more messages in it than are read to list a session."""
        return bool(self.item_start) and data.count(self.item_start) > most

    def writer(self, ref: Found, wait: float = 10.0, after: Cursor | None = START) -> WholeFileWriter:
        lock = self.lock(ref, wait)
        try:
            with files.told(NotSaved, ref.path):
                made = self._writers[ref.path] = WholeFileWriter(self, ref, lock, after)
                return made
        except BaseException:
            self.release(lock, ref)
            raise

    def create(self, header: Header, entries: Iterable[Entry] = ()) -> Found:
        ids.check(header.id)
        relative = self.place(header.id)
        ref = Found(header.id, os.path.join(self.root, relative))
        document = Document(header, [], [], {})
        document.entries.extend(self.allowed(_checked(ref, list(entries)), document))
        text = _printed(self, ref, document)
        folder = os.path.dirname(ref.path)
        with files.told(NotSaved, ref.path):
            files.make_folder(folder, private=self.private)
        try:
            files.create(self.root, relative, text, sync=self.synced, private=self.private)
        except NotSaved:
            if os.path.dirname(relative):
                with contextlib.suppress(OSError):  # somebody else's session is in it
                    os.rmdir(folder)
            raise
        self.saved(ref, document)
        return found(header.id, ref.path)

    def remedy(self, ref: Found, page: Page | None = None) -> str:
        if page is not None and not page.problems:
            return ""  # what is damaged has one
        data = self.bytes_of(ref)
        document = self.parse(ref, data)
        if not document.is_damaged:
            return ""
        if not document.entries:
            return "Nothing complete is in it, so there is nothing a repair could save."
        id, is_done = self._salvage(document, data)
        if is_done:
            return f"What can be saved of it is in session {id} already; this one can be deleted."
        return f"A repair saves {counted(document.entries)} into a new session; this one stays as it is."

    def repair(self, ref: Found) -> Repaired | None:
        """A new session of every complete entry of a damaged one, which stays as it is."""
        with self.lock(ref, 0):
            data = self.bytes_of(ref)
            document = self.parse(ref, data)
            id, is_done = self._salvage(document, data)
            if not document.is_damaged or not document.entries or is_done:
                return None
            header = document.header._replace(id=id, parent_session=ref.path)
            entries, _ = in_place(document.entries)  # what followed an entry that is lost follows another
            return Repaired(self.create(header, entries), len(entries), ref.path)

    def mend(self, ref: Found) -> Repaired | None:
        """Replace a damaged document by one of every complete entry in it; the file as it was stays beside
        it. None if it is not damaged, or nothing in it is complete."""
        with self.lock(ref, 0), files.told(NotSaved, ref.path):
            document = self.parse(ref, self.bytes_of(ref))
            if not document.is_damaged or not document.entries:
                return None
            entries, _ = in_place(document.entries)
            whole = document._replace(entries=entries, problems=[], is_damaged=False)
            text, relative = _printed(self, ref, whole), self.relative(ref)
            aside = files.set_aside(self.root, relative, "damaged", private=self.private)
            files.replace(self.root, relative, text, sync=self.synced, private=self.private)
            self.saved(ref, whole)
            return Repaired(ref, len(entries), os.path.join(self.root, aside))

    def _document(self, ref: Found, *, is_for_entries: bool = False) -> Document:
        """A large one that a writer of this store has already is not read a second time beside it."""
        with files.told(Unreadable, ref.path):
            writer = self._writers.get(ref.path)
            known = writer.known(is_for_entries=is_for_entries) if writer else None
            return known or self.parse(ref, self.bytes_of(ref))

    def _salvage(self, document: Document, data: bytes) -> tuple[str, bool]:
        """The id of the session that holds what can be saved of a damaged one, and whether it is there."""
        id = self.salvage_id(document.header, hashlib.sha256(data).digest())
        return id, os.path.lexists(os.path.join(self.root, self.place(id)))

    def saved(self, ref: Found, document: Document) -> None:
        """Called when a document is on disk, under its lock if it was there before."""

    def bytes_of(self, ref: Found) -> bytes:
        with files.open_to_read(self.root, self.relative(ref)) as file, files.told(Unreadable, ref.path):
            return _bytes(ref, file.fileno())


class WholeFileWriter:
    def __init__(self, store: WholeFileStore, ref: Found, lock: Lock, after: Cursor | None) -> None:
        self._store = store
        self._ref = ref
        self._relative = store.relative(ref)
        self._lock = lock
        self._turn = Turns()  # threads that share a writer
        self.set_aside = ""
        """Where the damaged document is that was there before; empty while nothing replaced it."""
        self._attempt: bytes | None = None
        """A text that may be in the file without having been acknowledged."""
        self._saved = self._read()
        end = _cursor(self._saved.document.entries)
        self._cursor = end if after is None else after
        self._behind = self._cursor != end  # whether there is more than this writer was told of

    def catch_up(self) -> Page:
        with self._turn, files.told(NotSaved, self._ref.path):
            self._settle()
            if not self._is_there(self._saved):
                if self._lock.is_mine():
                    self._rescue(self._there())
                self._behind = True
                self._saved = self._read()
            try:
                page = _page(self._saved.document, self._ref, self._cursor)
            except Conflict:
                page = _page(self._saved.document, self._ref, START)
            self._cursor = page.cursor
            self._behind = False
            return page

    def append(self, entries: Sequence[Entry]) -> Cursor:
        with self._turn, files.told(NotSaved, self._ref.path):
            if not self._lock.is_mine():
                raise Conflict(
                    self._ref.path,
                    "is not this process's to write: its lock was removed, or the process forked",
                    "close the session and open it again",
                )
            if self._behind:
                raise Conflict(self._ref.path, "has entries this writer has not read")
            self._settle()
            before = self._saved.document
            added = self._store.allowed(_checked(self._ref, entries), before)
            after = before._replace(entries=[*before.entries, *added], problems=[], is_damaged=False)
            text = _printed(self._store, self._ref, after) if added else b""
            if not self._is_there(self._saved):  # the last look before the file is replaced
                self._rescue(self._there())
                raise Conflict(self._ref.path, "was changed by another program")
            if added:
                self._replace(text, after)
                self._cursor = _cursor(after.entries)
            else:
                self._sync()  # all is there, perhaps from a writer that died before it had synced it
            return self._cursor

    def release(self) -> None:
        """Give the right to write back. A forked child never had it."""
        with self._turn:
            try:
                with contextlib.suppress(PerdureError, OSError):
                    self._settle()
            finally:
                self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def _replace(self, text: bytes, document: Document) -> None:
        store, aside = self._store, ""
        if self._saved.document.is_damaged:
            aside = files.set_aside(store.root, self._relative, "damaged", private=store.private)
        self._attempt = text
        try:
            files.replace(store.root, self._relative, text, sync=store.synced, private=store.private)
        except NotSaved:
            with contextlib.suppress(PerdureError, OSError):
                self._settle()  # a sync that failed behind the replacement has not saved it
            raise
        self._saved = _Saved.of(
            text, document, store.large
        )  # from here on it is the truth, acknowledged or not
        self._attempt = None
        self.set_aside = os.path.join(store.root, aside) if aside else self.set_aside
        store.saved(self._ref, document)

    def _settle(self) -> None:
        """Put back what was there before an attempt that nobody acknowledged. Synced like any other save: a
        power cut must not find less than what was acknowledged."""
        if self._attempt is None or not self._lock.is_mine():
            return
        saved, store = self._saved, self._store
        is_saved = self._attempt == saved.text or (
            saved.digest != b"" and _digest(self._attempt) == saved.digest
        )
        if saved.is_kept and not is_saved and self._there() == self._attempt:
            text = self._text(saved)
            files.replace(store.root, self._relative, text, sync=store.synced, private=store.private)
            self._saved = _Saved.of(text, saved.document, store.large)
        self._attempt = None

    def _read(self) -> _Saved:
        text = self._store.bytes_of(self._ref)
        is_large = len(text) > self._store.large
        digest, kept, given = _digest(text) if is_large else b"", None if is_large else text, [text]
        del text  # of a large one a layout keeps what it needs
        document = self._store.parse(self._ref, given.pop())
        if document.refusal is not None:
            raise document.refusal
        return _Saved(kept, document, digest, is_read=True)

    def known(self, *, is_for_entries: bool) -> Document | None:
        """The document, if it is a large one and still what is in the file."""
        saved = self._saved
        is_it = saved.digest and (saved.is_read or is_for_entries) and self._is_there(saved)
        return saved.document if is_it else None

    def _text(self, saved: _Saved) -> bytes:
        return saved.text if saved.text is not None else _printed(self._store, self._ref, saved.document)

    def _is_there(self, saved: _Saved) -> bool:
        """Whether that is what is at the path now, byte for byte: sizes and times can be the same for another
        content."""
        if not saved.digest:
            return saved.text is not None and self._there() == saved.text
        root, path = self._store.root, self._ref.path
        digest, at = hashlib.sha256(), 0
        opened = files.open_to_read(root, self._relative)
        with self._unless_gone(), opened as file, files.told(Unreadable, path):
            while piece := os.pread(file.fileno(), A_PART, at):
                at += len(piece)
                digest.update(piece)
        return digest.digest() == saved.digest

    def _sync(self) -> None:
        if self._store.synced:
            with files.open_to_read(self._store.root, self._relative) as file:
                files.sync_data(file.fileno())
            files.sync_folder(os.path.dirname(self._ref.path))

    def _there(self) -> bytes | None:
        """What is at the path now. None if it is gone, or no file any more."""
        with self._unless_gone():
            return self._store.bytes_of(self._ref)
        return None

    @contextlib.contextmanager
    def _unless_gone(self) -> Iterator[None]:
        """Do nothing in here if the file is gone, or none any more."""
        try:
            yield
        except Unreadable as error:
            cause = error.__cause__
            if isinstance(cause, OSError) and cause.errno not in _GONE:
                raise NotSaved(self._ref.path, cause) from error  # it may be there all the same

    def _rescue(self, there: bytes | None) -> None:
        """What is at the path is not what this writer left there. Keep what was saved, and say how."""
        store, path, saved = self._store, self._ref.path, self._saved
        if saved.is_kept and there is None and not os.path.lexists(path):
            files.make_folder(os.path.dirname(path), private=store.private)
            text = self._text(saved)
            files.create(store.root, self._relative, text, private=store.private)
            self._saved = _Saved.of(text, saved.document, store.large)
            raise Conflict(path, "was deleted while in use; all that was saved is back in its place")
        self._behind = True
        if not saved.is_kept or (there is not None and self._are_all_in(there)):
            return
        aside = f"{self._relative}.{os.urandom(4).hex()}.displaced"
        files.create(store.root, aside, self._text(saved), private=store.private)
        self._saved = _Saved(None, Document(saved.document.header, [], [], {}))
        self._cursor = START  # nothing of what is there now has been read
        displaced = Conflict(
            path, f"was replaced while in use; what was saved is kept in {os.path.join(store.root, aside)}"
        )
        displaced.is_displaced = True
        raise displaced

    def _are_all_in(self, text: bytes) -> bool:
        """Whether all that was saved is in another document too, and says the same."""
        found = {(entry.id, meaning(entry)) for entry in self._store.parse(self._ref, text).entries}
        return all((entry.id, meaning(entry)) in found for entry in self._saved.document.entries)


def _checked(ref: Found, entries: Sequence[Entry]) -> Sequence[Entry]:
    """The entries, if each is a record: one that is none would spoil the whole document."""
    try:
        for entry in entries:
            if entry.line[:1] != b"{" or b"\n" in entry.line:
                raise ValueError
            decode(entry.line)
    except ValueError:
        raise NotSaved(ref.path, NOT_A_RECORD) from None
    return entries


def _printed(store: WholeFileStore, ref: Found, document: Document) -> bytes:
    text = store.print(document, ids.stamp(ids.now()))
    document_size.check(ref.path, len(document.entries), len(text))
    return text


def _page(document: Document, ref: Found, after: Cursor) -> Page:
    entries = document.entries
    if after.offset and after != _cursor(entries[: after.offset]):
        raise Conflict(ref.path, "was replaced or rewritten since it was last read")
    cursor = _cursor(entries)
    return Page(
        entries[after.offset :],
        cursor,
        document.problems,
        document.header,
        document.messages,
        document.refusal,
    )


def _cursor(entries: Sequence[Entry]) -> Cursor:
    """Behind these entries, which it knows again by their ids, or by what they say, if an id is a place's."""
    if not entries:
        return START
    parts = [
        entry.id
        if len(entry.id) > _LONGEST_PLACE or not _PLACE.fullmatch(entry.id)
        else f"{entry.id} {crc32(entry.raw)}"
        for entry in entries
    ]
    names = "\n".join(parts).encode("utf-8", "surrogatepass")
    return Cursor(len(entries), 0, 0, b"%08x" % crc32(names), len(entries), entries[-1].id)


def _digest(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()


def _bytes(ref: Found, descriptor: int) -> bytes:
    size = os.fstat(descriptor).st_size
    if size > document_size.LARGEST:
        raise document_size.too_large(ref.path, size)
    return files.read_all(descriptor, size)
