"""The cache of what every session says of itself: rows to list, and text to search.

It is never the truth. Before it answers, it compares the files in the scope of the question with what it
knows of them, by names, sizes and times, and reads what is new: so it is right also after another program
wrote, and it may be deleted, damaged or out of date at any moment. What cannot be kept is kept in memory.

Here is what every listing pays for; what only a change pays for, reading sessions, is in `indexing`.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections import namedtuple

from perdure import config
from perdure.errors import NoHome, Unreadable
from perdure.session import listing
from perdure.session.catalog_file import connect, is_damage, prepared
from perdure.session.holder import holder_at
from perdure.session.layouts import LAYOUTS, Home, homes, shown_status

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Self, TypeVar

    T = TypeVar("T")
    Part = TypeVar("Part", bound="Lasting")
    Progress = Callable[[int, int], object]
    Change = tuple[Home, str, str, listing.Status, listing.Status]
    """A home, and what stands in its listing."""

MOST_RANKED = 1000

KEY_BITS = 20
LATEST = 2**43 - 1  # milliseconds, with which a key still is a number of SQLite's: in the year 2248
"""An entry's key is its time in milliseconds, and so many bits to tell apart what has the same. It is also
the number of its text in `said`: so the newest are found first, and those since a moment alone."""


class Lasting:
    """A row of the catalog, or a part of one, as a named tuple with a program, an id, a recorded status and a
    lock."""

    __slots__ = ()

    if TYPE_CHECKING:
        _fields: Any
        _make: Any

    program: str
    id: str
    recorded: str
    waits: bool
    lock: str

    @property
    def status(self) -> str:
        """As it is to be shown. Who is alive is asked of the lock, now, and only where that matters."""
        if not self.lock:
            return "unreadable"
        is_held = self.recorded in ("", "active") and holder_at(self.lock) is not None
        return shown_status(LAYOUTS[self.program].when_dead, self.recorded, waits=self.waits, is_held=is_held)


class Row(
    Lasting,
    namedtuple(
        "Row",
        "program id path title preview messages turns kind summary created active recorded waits cwd project"
        " root size problem lock title_is_cut preview_is_cut summary_is_cut key",
    ),
):
    """A session, as its files say. Times are milliseconds since 1970."""

    __slots__ = ()

    program: str
    id: str
    path: str
    title: str
    preview: str
    messages: int | None
    turns: int | None
    """None where a session is so large that only its beginning and its end were read."""
    kind: str
    summary: str
    created: int
    active: int
    """When somebody last said something, or opened it where that counts; before that, when it was made."""
    recorded: str
    """The status it has by its own record; empty where its layout records none."""
    waits: bool
    cwd: str
    project: str
    root: str
    """Of its project, where the session records it."""
    size: int
    problem: str | None
    lock: str
    title_is_cut: bool
    preview_is_cut: bool
    summary_is_cut: bool
    key: int

    @property
    def facts(self) -> dict[str, object]:
        """What is for others to know, by its name in JSON."""
        return {
            "program": self.program,
            "id": self.id,
            "title": self.title,
            "title_is_cut": bool(self.title_is_cut),
            "preview": self.preview,
            "preview_is_cut": bool(self.preview_is_cut),
            "messages": self.messages,
            "created": stamp(self.created),
            "last_active": stamp(self.active),
            "status": self.status,
            "cwd": self.cwd,
            "project": self.project,
            "path": self.path,
            "size": self.size,
            "problem": self.problem,
        }


class Hit(namedtuple("Hit", "row entry role at snippet")):
    """A message that matches. In its snippet, `query.MARK` and `query.UNMARK` are around the words."""

    __slots__ = ()

    row: Row
    entry: str
    """Its id; empty if it is the session's title that matches."""
    role: str
    at: int
    snippet: str


class Matches(namedtuple("Matches", "hits sessions is_all")):
    """What a search found."""

    __slots__ = ()

    hits: list[Hit]
    """The best message of each session, the best first."""
    sessions: int
    """How many have one."""
    is_all: bool
    """Whether all that match were looked at, and not only the newest."""


class Scope(namedtuple("Scope", "homes cwd", defaults=("",))):
    """What a question is about: all sessions of these homes, or those of one project."""

    __slots__ = ()

    homes: tuple[Home, ...]
    cwd: str

    @classmethod
    def everything(cls) -> Scope:
        return cls(tuple(homes()))

    @classmethod
    def project(cls, cwd: str) -> Scope:
        return cls(tuple(home for home in homes() if _condition(home, cwd)), cwd)

    def of(self, program: str) -> Scope:
        """The same for one program alone, if one is named."""
        return self._replace(homes=tuple(home for home in self.homes if program in ("", home.program)))

    def folder(self, home: Home) -> str:
        if self.cwd and LAYOUTS[home.program].project == "folder":
            return os.path.join(home.sessions, listing.pi_folder(self.cwd))
        return ""


class Catalog:
    def __init__(self, path: str | None = None) -> None:
        self.notice = ""
        """Why it is not kept, if it is not."""
        self._hidden: set[Home] = set()
        """Homes that could not be looked at: what is known of them may be wrong by now."""
        self._text = False
        """Whether what is said was asked for: then a catalog that is made anew has it, too."""
        self.path = path or ""
        """Empty where there is no place for it."""
        self._db = self._opened()

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # --- questions --------------------------------------------------------------------------------------

    def catch_up(self, scope: Scope, progress: Progress | None = None, *, text: bool = False) -> list[str]:
        """Learn what changed in the scope; with `text`, also what is said there, which a search needs and no
        listing pays for. Returns why a home could not be looked at, a sentence each."""
        self._text |= text
        return self._mended(lambda: self._catch_up(scope, progress, text))

    def rows(self, scope: Scope, *, status: str = "", limit: int = 0) -> list[Row]:
        """The sessions of a scope, the last talked in first; all of them if `limit` is 0."""
        return self._answered(scope, lambda: self._rows(scope, status, limit))

    def some(self, scope: Scope, kind: type[Part], *, status: str = "") -> list[Part]:
        """All of them in the same order, each as one of that kind: a named tuple with some fields of a `Row`.
        Most of what it takes to hand over thousands of rows is what nobody is going to look at."""
        return self._answered(scope, lambda: self._some(scope, kind, status))

    def count(self, scope: Scope) -> int:
        where, values = self._where(scope)
        counted = f"SELECT count(*) FROM session WHERE {where}"
        return self._answered(scope, lambda: int(self._one(counted, values)))

    def count_in_part(self, scope: Scope) -> int:
        """How many are so large that only their beginning and their end were read, and can be searched."""
        where, values = self._where(scope)
        counted = f"SELECT count(*) FROM session WHERE turns IS NULL AND {where}"
        return self._answered(scope, lambda: int(self._one(counted, values)))

    def search(self, scope: Scope, query: str, *, role: str = "", since: int = 0, limit: int = 0) -> Matches:
        """The best message of each session that has one. Of very many hits only the newest are looked at,
        unless all are asked for (`limit` 0). `since` is in milliseconds since 1970."""
        from perdure.session.query import expression

        words = expression(query)
        return self._answered(scope, lambda: self._search(scope, words, role, since, limit), text=True)

    def short(self, row: Lasting) -> str:
        """The beginning of its id that no other known one has, and that is long enough to be recognised."""
        id = row.id
        try:
            before = self._one("SELECT max(id) FROM session WHERE id < ?", (storable(id),))
            after = self._one("SELECT min(id) FROM session WHERE id > ?", (storable(id),))
        except sqlite3.DatabaseError:
            return id
        length = LAYOUTS[row.program].shortest
        if _MADE_BY_TIME.match(id):  # others that are not known here yet may begin with the same minute
            length = max(length, 13)
        while any(other and readable(other)[:length] == id[:length] for other in (before, after)):
            length += 1
        return id[:length]

    def _rows(self, scope: Scope, status: str, limit: int) -> list[Row]:
        where, values = self._where(scope)
        most = limit if limit and not status else -1
        found = self._db.execute(
            f"SELECT {_COLUMNS} FROM session WHERE {where}"
            f" ORDER BY active DESC, id DESC, path DESC LIMIT {most}",
            values,
        )
        rows = _rows(found, Row)
        if status:
            rows = [row for row in rows if row.status == status]
        return rows[:limit] if limit else rows

    def _some(self, scope: Scope, kind: type[Part], status: str) -> list[Part]:
        where, values = self._where(scope)
        # Sorting those few fields takes less than finding each row by its place in an index.
        found = self._db.execute(
            f"SELECT {', '.join(kind._fields)} FROM session WHERE {where}"
            " ORDER BY +active DESC, +id DESC, +path DESC",
            values,
        )
        rows = _rows(found, kind)
        return [row for row in rows if row.status == status] if status else rows

    def _search(self, scope: Scope, words: str, role: str, since: int, limit: int) -> Matches:
        where, values = self._where(scope)
        newest_first = self._db.execute(
            "SELECT entry.key, session.key FROM said"
            " JOIN entry ON entry.key = said.rowid JOIN session ON session.key = entry.session"
            f" WHERE said MATCH ? AND said.rowid >= ? {'AND role = ?' if role else ''} AND {where}"
            " ORDER BY said.rowid DESC",
            (words, min(since, LATEST) << KEY_BITS, *([role] if role else []), *values),
        )
        session_of: dict[int, int] = {}
        sessions: set[int] = set()
        is_all = True
        for key, session in newest_first:
            if limit and len(session_of) >= MOST_RANKED and len(sessions) >= limit:
                is_all = False
                break
            session_of[key] = session
            sessions.add(session)
        newest_first.close()
        if not session_of:
            return Matches([], 0, True)
        best: dict[int, int] = {}
        ranked = self._db.execute(
            "SELECT rowid FROM said WHERE said MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rank, rowid DESC",
            (words, min(session_of), max(session_of)),
        )
        for (key,) in ranked:
            if key in session_of:
                best.setdefault(session_of[key], key)
        chosen = list(best.values())[: limit or None]
        return Matches(self._hits(words, chosen), len(best), is_all)

    def _hits(self, words: str, keys: list[int]) -> list[Hit]:
        """In one statement: to find all words that begin like one takes longer than anything else here."""
        from perdure.session import query

        hits: dict[int, Hit] = {}
        for key, entry, role, snippet, *row in self._db.execute(
            f"SELECT said.rowid, entry, role, snippet(said, 3, ?, ?, '…', 16), {_COLUMNS} FROM said"
            " JOIN session ON session.key = said.session WHERE said MATCH ? AND said.rowid BETWEEN ? AND ?"
            " AND +said.rowid IN (SELECT value FROM json_each(?))",
            (query.MARK, query.UNMARK, words, min(keys), max(keys), str(keys)),
        ):
            about = readable(entry), readable(role), key >> KEY_BITS, query.readable(snippet)
            hits[key] = Hit(_rows([row], Row)[0], *about)
        return [hits[key] for key in keys]

    def _where(self, scope: Scope) -> tuple[str, list[str | bytes]]:
        whole = [home for home in scope.homes if home not in self._hidden]
        clauses: list[str] = []
        values: list[str] = []
        for home in [*whole] if scope.cwd else ():
            if LAYOUTS[home.program].project == "root":
                whole.remove(home)
                of_project = self._of_project(home, scope.cwd)
                if of_project:
                    marks = ", ".join(["(?, ?, ?)"] * len(of_project))
                    clauses.append(f"home = ? AND program = ? AND (root, cwd, project) IN (VALUES {marks})")
                    values += [home.path, home.program, *(each for said in of_project for each in said)]
                continue
            condition, value = _condition(home, scope.cwd) or ("", "")
            if condition:
                whole.remove(home)
                clauses.append(f"home = ? AND program = ?{condition}")
                values += [home.path, home.program, scope.folder(home) or value]
        if whole:
            # Of everything, nearly all rows are asked for: they are found in order, and not by their home.
            both = "(home, program)" if scope.cwd else "(+home, +program)"
            clauses.append(f"{both} IN (VALUES {', '.join(['(?, ?)'] * len(whole))})")
            values += [each for home in whole for each in (home.path, home.program)]
        return f"({' OR '.join(clauses) or '0'})", [*map(storable, values)]

    def _of_project(self, home: Home, cwd: str) -> list[tuple[str, str, str]]:
        """What sessions of a home say of their project, if that is the project of this directory: the root,
        the directory, the name. What is a project's root is asked of the disk, now."""
        statement = "SELECT DISTINCT root, cwd, project FROM session WHERE home = ? AND program = ?"
        said = self._db.execute(statement, [storable(home.path), home.program]).fetchall()
        if not said:
            return []
        from perdure.session.projects import project_of
        from perdure.session.stores.ledger_files import places_of

        places = [(readable(root), readable(at), readable(name)) for root, at, name in said]
        return places_of(project_of(cwd), places, home.path)

    def _one(self, statement: str, values: Sequence[object] = ()) -> Any:
        return self._db.execute(statement, values).fetchone()[0]

    # --- catching up ------------------------------------------------------------------------------------

    def _catch_up(self, scope: Scope, progress: Progress | None, text: bool) -> list[str]:
        problems: list[str] = []
        changed: list[Change] = []
        gone: list[tuple[Home, str]] = []
        now = time.time_ns()  # before anything is looked at: what changes from here on has a later time
        for home in scope.homes:
            folder = scope.folder(home)
            known = self._known(home, folder, text)
            try:
                for name, path, status, other in listing.places(home, folder):
                    if known.pop(path, None) != listing.stamp(status, other) or status is None:
                        changed.append((home, name, path, status, other))
            except Unreadable as error:
                problems.append(error.message)
                self._hidden.add(home)
                continue
            self._hidden.discard(home)
            gone.extend((home, path) for path in known)
        if changed or gone:
            from perdure.session.indexing import Indexing

            Indexing(self._db, now, text).bring_up_to_date(changed, gone, progress)
        return problems

    def _known(self, home: Home, folder: str, text: bool) -> dict[str, int]:
        """The stamp of each session; 0 for one of which not all is known that is asked for."""
        stamp = "stamp * has_text" if text else "stamp"
        inside = " AND folder = ?" if folder else ""
        values = [home.path, home.program, *([folder] if folder else [])]
        statement = f"SELECT path, {stamp} FROM session WHERE home = ? AND program = ?{inside}"
        known: dict[str, int] = dict(self._db.execute(statement, [*map(storable, values)]))
        for odd in [path for path in known if type(path) is not str]:
            known[readable(odd)] = known.pop(odd)
        return known

    # --- the file ---------------------------------------------------------------------------------------

    def _opened(self) -> sqlite3.Connection:
        try:
            self.path = self.path or config.cache("catalog.db")
            return connect(self.path)
        except NoHome as error:
            return self._in_memory(error.message)
        except (OSError, sqlite3.DatabaseError) as error:
            return self._anew() if is_damage(error) else self._in_memory(error)

    def _anew(self) -> sqlite3.Connection:
        """A damaged catalog is removed. Who has it open goes on with what has no name any more."""
        try:
            for suffix in ("", "-wal", "-shm"):
                if os.path.lexists(self.path + suffix):
                    os.unlink(self.path + suffix)
            return connect(self.path)
        except (OSError, sqlite3.Error) as error:
            return self._in_memory(error)

    def _in_memory(self, error: Exception | str) -> sqlite3.Connection:
        reason = error.strerror if isinstance(error, OSError) else error
        what = f"The catalog {self.path} cannot be used" if self.path else "The catalog cannot be kept"
        self.notice = f"{what} ({reason}), so every session is read"
        return prepared(sqlite3.connect(":memory:", isolation_level=None))

    def _answered(self, scope: Scope, question: Callable[[], T], *, text: bool = False) -> T:
        """Ask, of one moment; and if the answer shows that the catalog is damaged, ask a new one."""
        self._text |= text

        def asked() -> T:
            self._db.execute("BEGIN")
            try:
                return question()
            finally:
                self._db.execute("ROLLBACK")

        def anew() -> T:
            self._catch_up(scope, None, self._text)
            return asked()

        return self._mended(asked, anew)

    def _mended(self, work: Callable[[], T], again: Callable[[], T] | None = None) -> T:
        for has_been_made_anew in (False, True):
            try:
                return work()
            except sqlite3.DatabaseError as error:
                self._db.close()
                is_hopeless = has_been_made_anew or not is_damage(error)
                self._db = self._in_memory(error) if is_hopeless else self._anew()
                work = again or work
        return work()


def stamp(milliseconds: int) -> str:
    """2026-01-31T09:05:00.123Z"""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:03d}Z"


_COLUMNS = ", ".join(f"session.{name}" for name in Row._fields)
_MADE_BY_TIME = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7")  # a UUID of version 7


def storable(text: str) -> str | bytes:
    """Names of files, and what programs made of them, need not be text. SQLite keeps what is not as bytes."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def readable(stored: str | bytes) -> str:
    return stored if isinstance(stored, str) else stored.decode("utf-8", "surrogatepass")


def _rows(found: Iterable[Sequence[Any]], kind: type[Part]) -> list[Part]:
    values = [*found]
    for at, row in enumerate(values):
        if bytes in map(type, row):
            values[at] = [readable(each) if type(each) is bytes else each for each in row]
    return [*map(kind._make, values)]


def _condition(home: Home, cwd: str) -> tuple[str, str] | None:
    """What makes a session of a home one of a project's, as SQL, and the value it asks for."""
    by = LAYOUTS[home.program].project
    if by == "home":
        is_inside = os.path.join(cwd, "").startswith(os.path.join(home.path, ""))
        return ("", "") if is_inside else None
    values = {"folder": "", "cwd": cwd, "root": ""}
    return (f" AND {by} = ?", values[by]) if by else None
