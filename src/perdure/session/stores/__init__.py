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

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from perdure import config, registry

if TYPE_CHECKING:
    from perdure.session.entry import Entry

Durability = Literal["power", "process"]
"""`power`: acknowledged entries survive a power cut (synced to disk first). `process`: they survive
the end of the process, not of the machine."""


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

    def __str__(self) -> str:
        return f"{self.path} line {self.line}: {self.reason}" if self.line else f"{self.path}: {self.reason}"


Problems = list[Problem]


class Page(NamedTuple):
    entries: list[Entry]
    cursor: Cursor
    problems: list[Problem]
    header: Header


NOT_A_RECORD = "an entry's record must be one JSON object on one line"
"""Why an append refuses an entry that no reading could give back."""


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

    def create(self, header: Header, entries: Iterable[Entry] = ()) -> Found: ...
    def delete(self, ref: Found) -> None: ...
    def holder(self, ref: Found) -> int | None:
        """The process that holds the session's writer now; None if nobody does."""


class Layout(NamedTuple):
    home_variable: str
    default_home: str
    store: str
    drops: frozenset[str] = frozenset()
    """Kinds of content the layout's own rules forbid it to keep."""


LAYOUTS = {
    "pi": Layout("PI_CODING_AGENT_DIR", "~/.pi/agent", "perdure.session.stores.pi_jsonl:PiStore"),
}


def home_of(layout: str) -> str:
    return config.home(LAYOUTS[layout].home_variable, LAYOUTS[layout].default_home)


def open_store(layout: str, home: str | None = None, **options: Any) -> Store:
    store: Store = registry.load(LAYOUTS[layout].store)(home or home_of(layout), **options)
    return store
