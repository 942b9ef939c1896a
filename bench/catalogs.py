"""The rows of the catalog: every session listed, the newest, searched, caught up with (P6 to P8, P10)."""

from __future__ import annotations

import os
import sqlite3
from contextlib import ExitStack, closing
from functools import partial

import msgspec

from bench.engine import decode_record, lines
from bench.ground import Ground
from bench.machine import COMMON, Machine
from bench.measure import Contender
from bench.row import Scale
from bench.sessions import turns
from perdure.session.catalog import Catalog, Row, Scope
from perdure.session.layouts import Home
from perdure.session.session import Session
from perdure.session.stores.pi_jsonl import PiStore

_SHOWN = 20
_FIELDS = [(name, str | int | None) for name in Row._fields]
_PlainRow = msgspec.defstruct("_PlainRow", _FIELDS, array_like=True)


def list_all(ground: Ground, scale: Scale, stack: ExitStack) -> list[Contender]:
    machine, scope, catalog = _caught_up(ground, scale, stack)
    path = os.path.join(ground.folder, "p6")
    with open(path, "wb") as file:
        file.write(msgspec.json.encode(catalog.rows(scope)))
    decode = msgspec.json.Decoder(list[_PlainRow]).decode  # type: ignore[valid-type]

    def limit() -> list[object]:
        with open(path, "rb") as file:
            return decode(file.read())

    name = "one file of rows, msgspec"
    return [
        Contender(name, limit),
        Contender("Catalog.rows", lambda: catalog.rows(scope), name, 2.0),
        *ground.peers.contenders(stack, "list", name, every={"pi": 15}, home=machine.home),
    ]


def list_newest(ground: Ground, scale: Scale, stack: ExitStack) -> list[Contender]:
    _, scope, catalog = _caught_up(ground, scale, stack)
    plain = _database(ground, stack, "p7", catalog)
    plain.execute(f"CREATE TABLE session AS SELECT {', '.join(Row._fields)} FROM catalog.session")
    plain.execute("CREATE INDEX newest ON session (active)")
    plain.commit()

    def limit() -> list[object]:
        return plain.execute("SELECT * FROM main.session ORDER BY active DESC LIMIT ?", (_SHOWN,)).fetchall()

    name, calls = f"sqlite, the newest {_SHOWN}", scale.calls
    return [
        Contender(name, limit, calls=calls),
        Contender(
            f"Catalog.rows, the newest {_SHOWN}", lambda: catalog.rows(scope, limit=_SHOWN), name, 2, calls
        ),
    ]


def search(ground: Ground, scale: Scale, stack: ExitStack) -> list[Contender]:
    machine, scope, catalog = _caught_up(ground, scale, stack, text=True)
    plain = _database(ground, stack, "p8", catalog)
    plain.execute("CREATE VIRTUAL TABLE said USING fts5 (text)")
    plain.execute(_FILL)
    plain.commit()

    def contenders(kind: str, word: str, at_most: float, calls: int) -> list[Contender]:
        def limit() -> list[object]:
            ranked = "SELECT rowid FROM main.said WHERE said MATCH ? ORDER BY rank LIMIT ?"
            return plain.execute(ranked, (word, _SHOWN)).fetchall()

        def ours() -> object:
            return catalog.search(scope, word, limit=_SHOWN)

        assert limit(), "nothing is found: this would measure something else"
        name = f"FTS5, the best {_SHOWN}, {kind} word"
        return [
            Contender(name, limit, calls=calls),
            Contender(f"Catalog.search, {kind} word", ours, name, at_most, calls),
            *ground.peers.contenders(
                stack, "search", name, f", {kind} word", every={"pi": 15}, home=machine.home, query=word
            ),
        ]

    return [*contenders("rare", machine.rare, 2.0, scale.calls), *contenders("common", COMMON, 0.05, 1)]


_FILL = "INSERT INTO main.said (rowid, text) SELECT rowid, text FROM catalog.said"


def catch_up(ground: Ground, scale: Scale, stack: ExitStack) -> list[Contender]:
    machine, scope, catalog = _caught_up(ground, scale, stack, text=True)
    plain = _database(ground, stack, "p10-plain", catalog)
    new, changing, message = os.path.join(ground.folder, "p10"), machine.sessions[-1], turns()[0][0]
    session = stack.enter_context(Session.open(PiStore(machine.home, durability="process"), changing))
    moment = os.stat(changing.path).st_mtime_ns

    def read_all() -> None:
        for each in machine.sessions:
            for batch in lines(each.path):
                for line in batch:
                    decode_record(line)

    def index_all() -> None:
        plain.execute("CREATE VIRTUAL TABLE said USING fts5 (text)")
        plain.execute(_FILL)
        plain.commit()

    def make(text: bool) -> None:
        with Catalog(new) as made:
            made.catch_up(scope, text=text)

    def remove() -> None:
        plain.execute("DROP TABLE IF EXISTS main.said")
        for name in os.listdir(ground.folder):
            if name in (os.path.basename(new) + suffix for suffix in ("", "-wal", "-shm")):
                os.unlink(os.path.join(ground.folder, name))

    def look() -> None:
        for project in os.scandir(os.path.join(machine.home, "sessions")):
            for item in os.scandir(project.path):
                item.stat()

    def add() -> None:
        """A minute after the one before, a year ago: what changed just now would be looked at again."""
        nonlocal moment
        session.append(message)
        moment += 60 * 10**9
        os.utime(changing.path, ns=(moment, moment))

    reading, indexing, looking = "read and decode, msgspec", "FTS5 of the same texts", "one stat a file"
    once = partial(Contender, before=remove, every=19)
    return [
        once(reading, read_all),
        once("a new catalog, to list", lambda: make(text=False), reading, 3.0),
        once("a new catalog, to search", lambda: make(text=True), reading, 3.0),
        once(indexing, index_all, reading),
        Contender(looking, look),
        Contender("Catalog.catch_up, nothing new", lambda: catalog.catch_up(scope), looking, 1.5),
        Contender("Catalog.catch_up, one message", lambda: catalog.catch_up(scope), looking, 1.5, before=add),
    ]


def _caught_up(
    ground: Ground, scale: Scale, stack: ExitStack, *, text: bool = False
) -> tuple[Machine, Scope, Catalog]:
    """The machine, all its sessions, and the one catalog of them for all rows."""
    machine = ground.machine(scale.sessions)
    scope = Scope((Home("pi", machine.home),))
    catalog = stack.enter_context(Catalog(os.path.join(ground.folder, "catalog.db")))
    catalog.catch_up(scope, text=text)
    return machine, scope, catalog


def _database(ground: Ground, stack: ExitStack, name: str, catalog: Catalog) -> sqlite3.Connection:
    """A new one, and the catalog beside it to be copied from."""
    plain = stack.enter_context(closing(sqlite3.connect(os.path.join(ground.folder, name))))
    plain.execute("PRAGMA journal_mode = WAL")
    plain.execute("ATTACH ? AS catalog", (catalog.path,))
    return plain
