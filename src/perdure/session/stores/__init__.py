"""What a store is. A store knows bytes and locks; it has no tree, label or context logic.

A session is read without a lock, also while another process writes to it, and written under one.
Reading never fails for what is in a file: what cannot be read is a `Problem`, beside all that can.

    store.list()                     every session there is, from file names alone
    store.read(ref, after)           entries after a cursor, and the cursor behind them
    store.read_back(ref)             entries newest first, reading no more than is asked for
    store.writer(ref, wait)          the one right to write, waiting for whoever has it
    writer.catch_up()                what others wrote since this writer last looked
    writer.append(entries)           all of them durable when it returns, or none
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from perdure import config, registry
from perdure.session.findings import MOST, Rest
from perdure.session.layouts import home_of, layout_of

if TYPE_CHECKING:
    from perdure.errors import PerdureError
    from perdure.session.entry import Entry

Durability = Literal["power", "process"]
"""`power`: acknowledged entries survive a power cut (synced to disk first). `process`: they survive
the end of the process, not of the machine."""


NO_FACTS: Mapping[str, Any] = MappingProxyType({})


class Found(NamedTuple):
    """A session as a listing finds it, and the handle by which everything else refers to it."""

    id: str
    path: str
    inode: int = 0
    size: int = 0
    mtime_ns: int = 0


class Header(NamedTuple):
    """What a session knows of itself before its first entry."""

    id: str
    timestamp: str
    cwd: str = ""
    parent_session: str = ""
    """Where it was forked from."""
    facts: Mapping[str, Any] = NO_FACTS
    """What else its layout says of a session as a whole, by the names its document uses: agent, title, …"""
    covers: int = 0
    """How many entries were there when this was written: what the entries behind them say is newer."""


ALL = sys.maxsize
"""What a header covers that was written behind all entries, however many there are."""


class Cursor(NamedTuple):
    """A place between two entries. Opaque: only the store that made one can read it."""

    offset: int = 0
    line: int = 0
    inode: int = 0
    tail: bytes = b""
    entries: int = 0
    last: str | None = None


START = Cursor()


class Problem(NamedTuple):
    """Something in a file that is not as it should be. Everything else of the session still opens."""

    path: str
    line: int
    reason: str
    file: str = ""
    """The file's name, where a session has several files and only the name tells them apart."""
    stands_for: int = 1
    """How many there are of it: behind a hundred, one stands for all others."""
    is_torn_end: bool = False
    """Whether it is what a crash leaves of a line that was being written: nothing else is damaged."""

    def __str__(self) -> str:
        if self.stands_for > 1:
            return Rest(self.stands_for)
        return f"{self.path} line {self.line}: {self.reason}" if self.line else f"{self.path}: {self.reason}"

    @property
    def brief(self) -> str:
        """Where it is known which session it is about."""
        if self.stands_for > 1:
            return Rest(self.stands_for)
        place = " of ".join(filter(None, (f"line {self.line}" if self.line else "", self.file)))
        return f"{place}: {self.reason}" if place else self.reason


Problems = list[Problem]


def note(problems: Problems, *found: Problem) -> None:
    """Add to what is wrong with a file: behind a hundred problems the last stands for all others."""
    for problem in found:
        if len(problems) <= MOST:
            problems.append(problem)
        else:
            last = problems[-1]
            count = last.stands_for + problem.stands_for
            problems[-1] = Problem(last.path, 0, last.reason, last.file, count)


class Page(NamedTuple):
    entries: list[Entry]
    cursor: Cursor
    problems: list[Problem]
    header: Header
    messages: int | None = None
    """How many messages the whole session has by its own count, where its layout counts them."""
    refusal: PerdureError | None = None
    """Why the session is read and never written, if it is."""


class Excerpt(NamedTuple):
    """The beginning and the end of a session that is too large to be read only to be listed."""

    first: list[Entry]
    last: list[Entry]
    """Neither is in a tree: what is between them was not read."""
    problems: list[Problem]
    header: Header
    messages: int | None = None
    """How many there are in all, where the session says so itself."""


A_PART = 2**19
"""In bytes: so much is read of the beginning of such a session, and so much of its end."""

NOT_A_RECORD = "an entry's record must be one JSON object on one line"
"""Why an append refuses an entry that no reading could give back."""


class Repaired(NamedTuple):
    """What a repair did."""

    ref: Found
    """The session that is sound now: the same one, or a new one beside one that cannot be."""
    entries: int
    """How many it holds."""
    aside: str
    """Where the bytes are that were there before."""


class Writer(Protocol):
    """The one right to write to a session, for as long as it is held."""

    def catch_up(self) -> Page: ...
    def append(self, entries: Sequence[Entry]) -> Cursor: ...
    def release(self) -> None: ...
    def __enter__(self) -> Writer: ...
    def __exit__(self, *exception: object) -> None: ...


class Store(Protocol):
    name: str

    def list(self) -> Iterator[Found]: ...
    def read(self, ref: Found, after: Cursor = START) -> Page: ...
    def read_back(self, ref: Found, problems: Problems | None = None) -> Generator[Entry, None, None]:
        """Problems are added to the list as they are met."""

    def writer(self, ref: Found, wait: float = 10.0, after: Cursor | None = START) -> Writer:
        """`after` is where its `catch_up` starts; None is the end: what is there has been read already."""

    def new_id(self, header: Header) -> str:
        """An id in the layout's own pattern, for a session that will have the rest of this header."""

    def forbidden(self, entry: Entry) -> Sequence[str]:
        """What of an entry the layout's own rules do not let it keep, by kind; nothing, as a rule."""

    def forbidden_facts(self, facts: Mapping[str, Any]) -> Sequence[str]:
        """The same for what is known of a session as a whole."""

    def create(self, header: Header, entries: Iterable[Entry] = ()) -> Found: ...
    def delete(self, ref: Found) -> object:
        """To the trash."""

    def remove_empty(self, ref: Found) -> bool:
        """For good, if nothing was ever said in it and nobody writes to it. Whether it is gone."""

    def restore(self, text: str) -> Found:
        """Back from the trash, by its id, or the beginning of it."""

    def remedy(self, ref: Found, page: Page | None = None) -> str:
        """What `repair` would do, in a sentence; empty if it would do nothing. Who has read the session gives
        its `page`, so that it need not be read again."""

    def repair(self, ref: Found) -> Repaired | None:
        """Make a damaged session sound, keeping every entry that can be read. None if there was nothing to
        do; `Held` while somebody writes."""

    def holder(self, ref: Found) -> int | None:
        """The process that holds the session's writer now; None if nobody does."""


def open_store(layout: str, home: str | None = None, **options: Any) -> Store:
    known = layout_of(layout)
    home = os.path.abspath(config.expanded(home)) if home else home_of(layout)
    store: Store = registry.load(known.store)(home, **options)
    return store
