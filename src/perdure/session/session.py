"""A session that is being talked in: the one object that knows where the conversation stands.

Every entry is on disk before `append` returns it; if the disk refuses, the session is as it was.
Opening reads back to the head and no further, unless what was noted behind it belongs to an older entry: then
to that one. All entries are read when somebody asks for them, or where a parent is missing. Who
asks only for the last word on something takes `newest_first` or `newer`, which keep nothing of a large one.
Threads may share a session: they take turns.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from typing import Any, Self

from msgspec import UNSET

from perdure import config
from perdure.errors import NotSaved, PerdureError, UsageError
from perdure.session import context, ids, tree
from perdure.session.context import Chosen, Live
from perdure.session.entry import AnyMessage, Body, Entry, Label, SessionInfo, new, placed
from perdure.session.layouts import LAYOUTS
from perdure.session.stores import ALL, NO_FACTS, Found, Header, Problem, Store, Writer
from perdure.session.stores.jsonl import JsonlStore
from perdure.session.stores.lock import Turns


class Session:
    def __init__(
        self, store: Store, ref: Found, writer: Writer | None, *, clock: ids.Clock = ids.now
    ) -> None:
        """Use `create`, `open` or `view`."""
        self.store = store
        self.ref = ref
        self._writer = writer
        self._clock = clock
        self._turn = Turns()
        self._tree: tree.Tree | None = None
        self._ids: set[str] = set()  # of the tree's entries
        self._header = Header(ref.id, "")
        self.problems: list[Problem] = []
        """What was found damaged so far, in what was read so far."""
        self._moved = False
        self._ends = self._read_ends()
        self._attempt: str | None = None
        """The last entry of an append that was interrupted: only a look tells whether it is there."""

    @classmethod
    def create(cls, store: Store, *, facts: Mapping[str, Any] = NO_FACTS, clock: ids.Clock = ids.now) -> Self:
        """`facts` are what its layout says of a session as a whole: an agent, a title, …"""
        ref = _created(store, Header("", ids.stamp(clock()), facts=facts))
        return cls.open(store, ref, clock=clock)

    @classmethod
    def open(cls, store: Store, ref: Found, *, wait: float = 10.0, clock: ids.Clock = ids.now) -> Self:
        """With the right to write, until `close`. Waits for whoever has it, then raises `Held`."""
        writer = store.writer(ref, wait, after=None)
        try:
            return cls(store, ref, writer, clock=clock)
        except BaseException:
            writer.release()
            raise

    @classmethod
    def view(cls, store: Store, ref: Found) -> Self:
        """To read only, also while another process writes."""
        return cls(store, ref, None)

    @property
    def id(self) -> str:
        return self.ref.id

    @property
    def own_path(self) -> str:
        """The file, or the folder, that is this session's alone; empty where its store keeps it in none."""
        found = getattr(self.store, "own_path", None)  # not each store keeps files
        return str(found(self.ref)) if found else ""

    @property
    def head(self) -> str | None:
        """The entry the conversation goes on from; None before the first."""
        return self._ends.head

    @property
    def set_aside(self) -> str:
        """Where the damaged file is that the first append replaced; empty where none was."""
        return getattr(self._writer, "set_aside", "")  # not each store replaces files

    @property
    def is_empty(self) -> bool:
        """Whether nothing was said yet, on any branch."""
        return self._ends.head is None and not self._moved

    @property
    def header(self) -> Header:
        """What the session knows of itself as a whole."""
        if (store := self._streamed()) and (known := store.header_alone(self.ref)):
            return known
        self._folded()
        return self._header

    @property
    def is_large(self) -> bool:
        """Whether it takes long to read all of it, and less is enough."""
        return isinstance(self.store, JsonlStore) and self.store.is_large(self.ref)

    @property
    def entries(self) -> list[Entry]:
        """All of them, on every branch, in the order they were written."""
        return self._folded().entries

    @property
    def name(self) -> str:
        return tree.name(self.entries)

    @property
    def labels(self) -> dict[str, str]:
        return tree.labels(self.entries)

    @property
    def notices(self) -> list[str]:
        """What is wrong with the session as a tree, beside the `problems` of its file."""
        return self._folded().notices

    def newest_first(self) -> Generator[Entry, None, None]:
        """All entries, on every branch, from the last one on. Of a large session none is kept."""
        if store := self._streamed():
            with closing(store.read_back(self.ref)) as newest_first:
                yield from newest_first
        else:
            yield from reversed(self.entries)

    def newer(self, word: bytes) -> Generator[Entry, None, None]:
        """The entries that the header does not take into account, from the last one on; of a large session
        only those whose lines have this word in them."""
        header = self.header
        store = self._streamed()
        if store is None:
            yield from reversed(self.entries[header.covers :])
        elif header.covers != ALL:
            with closing(store.mentioning(self.ref, word)) as found:
                yield from found

    def path(self) -> list[Entry]:
        """From the first entry to the head."""
        with self._turn:
            return tree.path(self.entries, self._ends.head)

    def path_back(self) -> Generator[Entry, None, None]:
        """From what is chained behind the head to the first entry. No more is read than is asked for."""
        given = 0
        if self._tree is None:
            try:
                with closing(self.store.read_back(self.ref)) as newest_first:
                    for entry in tree.path_back(newest_first, self._ends.tip):
                        given += 1
                        yield entry
                return
            except LookupError:
                pass  # a parent is missing: the rest of the path takes a whole reading
        yield from islice(reversed(tree.path(self.entries, self._ends.tip)), given, None)

    def tail(self, count: int) -> list[Entry]:
        """The last `count` messages before the head, at a cost that does not grow with the session."""
        with closing(self.path_back()) as newest_first:
            messages = (entry for entry in newest_first if entry.type == "message")
            return list(islice(messages, max(count, 0)))[::-1]

    def context(self) -> context.Context:
        """What a model would be sent now. It is read from the end: what is not sent costs no memory."""
        return self._live().context()

    def live(self) -> list[Entry]:
        """The end of the path, as far back as a model is sent something of it; the compaction is in it, and
        what is chained behind the head."""
        return self._live().entries

    def messages_back(self) -> Generator[AnyMessage, None, None]:
        """What `context` holds, from its end and each message by itself, for who does not keep all of it.
        Raises LookupError at a compaction."""
        with closing(self.path_back()) as newest_first:
            yield from context.messages_back(newest_first)

    def chosen(self) -> Chosen:
        """The model and the way of thinking that the conversation goes on with. Nothing is kept of what is
        read for it, from the end back, and no more is read than it takes."""
        if self._tree is None:
            try:
                with closing(self.store.read_back(self.ref)) as newest_first:
                    return context.chosen(tree.path_back(newest_first, self._ends.head))
            except LookupError:
                pass  # a parent is missing: the rest of the path takes a whole reading
        return context.chosen(reversed(self.path()))

    def append(self, *bodies: Body | Entry) -> list[Entry]:
        """New entries behind the head, durable when this returns.

        An entry given here is copied to its place, with an id of that place.
        """
        with self._turn:
            return self._append(bodies)

    def _append(self, bodies: Sequence[Body | Entry]) -> list[Entry]:
        if self._writer is None:
            raise PerdureError(f"Session {self.id} is not open for writing", "open it for writing first")
        self._look_at_attempt()
        moment = ids.stamp(self._clock())
        made: list[Entry] = []
        parent = self._ends.tip
        for body, id in zip(bodies, ids.new_ids(len(bodies)), strict=True):
            made.append(_entry(body, id, parent, moment))
            parent = id
        self._attempt = parent
        try:
            self._writer.append(made)
        except PerdureError:
            self._attempt = None  # all or nothing, and it was nothing
            raise
        if self._tree is not None:
            self._tree.entries.extend(made)
            self._ids.clear()
        self._ends = tree.advanced(self._ends, made)
        self._moved &= all(entry.type in tree.METADATA for entry in made)
        self._attempt = None
        return made

    def _look_at_attempt(self) -> None:
        """After an interrupted append: it is there, and the talk goes on behind it, or it is not."""
        if self._attempt is not None:
            attempt, before, moved = self._attempt, self._ends, self._moved
            self.reload()
            if moved and attempt not in self._ends:
                self._ends, self._moved = before, True

    def rename(self, name: str) -> None:
        if not isinstance(name, str):
            raise UsageError(f"A name is a string, not {type(name).__name__}")
        self.append(SessionInfo(name))

    def refuse_if_nameless(self) -> None:
        """Not each program shows its sessions by a name. One of another's is kept, and none is given here."""
        layout = LAYOUTS.get(self.store.name)
        if layout is not None and not layout.named:
            others = ", ".join(program for program, layout in LAYOUTS.items() if layout.named)
            raise UsageError(
                f"{self.store.name}:{self.id} cannot be named: sessions of {self.store.name} have no name",
                f"those of {others} have one",
            )

    def label(self, entry_id: str, text: str | None) -> None:
        """Name an entry; None takes the name away."""
        target = self._known(entry_id)
        self.append(Label(target, text or UNSET))

    def move(self, entry_id: str | None) -> None:
        """Go on from an earlier entry; None is before the first. Kept with the next entry appended."""
        with self._turn:
            self._look_at_attempt()
            target = None if entry_id is None else self._known(entry_id)
            self._moved = target is not None or not self.is_empty
            self._ends = tree.Ends(target, target)

    def fork(self, at: str | None = None, *, cwd: str = "") -> Found:
        """A new session that shares this one's entries up to `at`, or up to the head. It stays with its
        project, wherever it is forked from, unless `cwd` names the directory of another."""
        with self._turn:
            return self._fork(at, config.directory(cwd) if cwd else "")

    def _fork(self, at: str | None, cwd: str) -> Found:
        entries = self.entries
        leaf = self._ends.tip if at is None else self._known(at)  # the name and state behind the head, too
        shared = tree.path(entries, leaf)
        on_path = {entry.id for entry in shared}
        moment = ids.stamp(self._clock())
        parent = leaf
        wanted, there = tree.labels(entries), tree.labels(shared)
        for target in sorted(on_path & (wanted.keys() | there.keys())):
            if wanted.get(target) != there.get(target):
                label = Label(target, wanted.get(target) or UNSET)
                shared.append(new(label, id=ids.new_id(), parent_id=parent, timestamp=moment))
                parent = shared[-1].id
        facts = {name: value for name, value in self._header.facts.items() if name != "status"}
        header = Header("", moment, cwd or self._header.cwd, self.ref.path or self.id, facts)
        return _created(self.store, header, shared)

    def reload(self) -> None:
        """Take in what others wrote, after a `Conflict` or at any time. The head is then the file's."""
        with self._turn:
            if self._writer is not None:
                self._writer.catch_up()
            self._tree = None
            self.problems = []
            self._ends = self._read_ends()
            self._moved, self._attempt = False, None

    def close(self) -> None:
        if self._writer is not None:
            self._writer.release()
            self._writer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _read_ends(self) -> tree.Ends:
        try:
            with closing(self.store.read_back(self.ref, self.problems)) as newest_first:
                return tree.ends(newest_first)
        except LookupError:
            return self._folded().ends  # a parent is missing: all is read for the place of its child

    def _streamed(self) -> JsonlStore | None:
        """The store of a session that is large, unless all of it was read by now."""
        if self._tree is None and isinstance(self.store, JsonlStore) and self.store.is_large(self.ref):
            return self.store
        return None

    def _folded(self) -> tree.Tree:
        with self._turn:
            if self._tree is None:
                page = self.store.read(self.ref)
                self._tree = tree.fold(page.entries)
                if not self._moved:
                    self._ends = self._tree.ends  # with the names that entries of one id have in the tree
                self._ids = set()
                self.problems = page.problems
                self._header = page.header
            return self._tree

    def _known(self, entry_id: str) -> str:
        entries = self._folded().entries
        if not self._ids:  # few ask for them
            self._ids = {entry.id for entry in entries}
        return entry_id if entry_id in self._ids else ids.resolve(entry_id, self._ids, "Entry")

    def _live(self) -> Live:
        if self._tree is None:
            try:
                with closing(self.store.read_back(self.ref)) as newest_first:
                    found = context.live(tree.path_back(newest_first, self._ends.tip))
                if len({entry.id for entry in found.entries}) == len(found.entries):
                    return found
            except LookupError:
                pass  # a parent is missing; or entries share an id, and then only the tree has names for them
        return context.live(reversed(tree.path(self.entries, self._ends.tip)))


def _created(store: Store, header: Header, entries: Sequence[Entry] = ()) -> Found:
    """A new session under a new id. Where ids have a date and a number, another process may be as quick."""
    for _ in range(_TRIES):
        try:
            return store.create(header._replace(id=store.new_id(header)), entries)
        except NotSaved as error:
            if not isinstance(error.__cause__, FileExistsError):
                raise
            taken = error
    raise taken


_TRIES = 20


def _entry(body: Body | Entry, id: str, parent: str | None, moment: str) -> Entry:
    if isinstance(body, Entry):
        return placed(body, id=id, parent_id=parent, timestamp=body.timestamp or moment)
    try:
        return new(body, id=id, parent_id=parent, timestamp=moment)
    except (KeyError, TypeError, AttributeError):
        raise UsageError(
            f"Not an entry: {body!r:.60}", "SessionEntry.message(role, text) makes one"
        ) from None
