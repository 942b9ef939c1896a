"""Which session a call of the program means. One that is made by the call is made here, and none is opened.

A call that names a session means exactly that one, or fails: it never makes another instead.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from perdure import config
from perdure.agent.aside import PATIENCE
from perdure.errors import Ambiguous, NotFound, PerdureError, UsageError
from perdure.front.output import Output, Styled
from perdure.session import ids, layouts, reference, strangers
from perdure.session.layouts import Home
from perdure.session.session import Session
from perdure.session.stores import NO_FACTS, Found, Header, Store, open_store
from perdure.session.stores.file_store import FileStore
from perdure.session.stores.lock import Lock

if TYPE_CHECKING:  # a new session asks no catalog, and need not wait for SQLite to be loaded
    from perdure.session.catalog import Row, Scope

WAYS = ("continue", "resume", "session", "session_id", "fork", "no_session")
"""The options that say which session; at most one of them."""

_MAKING = os.path.join("locks", ".new.lock")
"""No session's own: an id does not begin with a dot."""


class Meant(NamedTuple):
    store: Store
    ref: Found
    header: Header
    """Its id, when it was made, and the directory of its project, as far as that is known."""
    is_new: bool = False
    """Whether it was made by this call, to be removed if nothing is said in it."""

    def open(self) -> Session:
        """To talk in; `Held`, at once, if another process does."""
        return Session.open(self.store, self.ref, wait=0)

    @property
    def is_kept(self) -> bool:
        """Whether it outlives the process."""
        return isinstance(self.store, FileStore)

    def remove_if_unused(self) -> None:
        """Where nothing was said in it since this call made it, also not in a fork, which is never empty."""
        if self.is_new and isinstance(self.store, FileStore):
            with suppress(PerdureError):  # why nothing was said is what its user should hear of
                self.store.take_back(self.ref)


def check(options: SimpleNamespace) -> list[str]:
    """Which of the ways is given: one, or none."""
    given = [way for way in WAYS if getattr(options, way) not in (None, False)]
    if len(given) > 1:
        said = " and ".join(f"--{way.replace('_', '-')}" for way in given)
        raise UsageError(f"{said} mean different sessions", "give one of them")
    if options.at is not None and not options.fork:
        raise UsageError("--at goes with --fork", "--fork ID --at ENTRY")
    if options.at == "":
        raise UsageError("ENTRY is empty", "--fork ID --at ENTRY")
    return given


def find_session(options: SimpleNamespace, out: Output, cwd: str) -> Meant:
    """The session that the options mean; without any, a new one of the project in `cwd`."""
    match check(options):
        case ["continue"]:
            return kept(*reference.find(_newest(out, cwd).path))
        case ["resume"]:
            return resumed(options.resume, out)
        case ["session"]:
            return _named(options.session)
        case ["session_id"]:
            return _of_id(options.session_id, cwd)
        case ["fork"]:
            return _forked(options.fork, options.at, cwd)
    return new(cwd, is_kept=not options.no_session)


def made(store: Store, cwd: str = "", id: str = "", facts: Mapping[str, Any] = NO_FACTS) -> Meant:
    """A session there, in which nothing was said yet."""
    header = Header(id, ids.stamp(ids.now()), cwd, facts=facts)
    header = header._replace(id=id or store.new_id(header))
    return Meant(store, store.create(header), header, is_new=True)


def new(cwd: str, *, is_kept: bool = True) -> Meant:
    """A session of that project, in which nothing was said yet."""
    if is_kept:
        return made(open_store("pi", cwd=cwd), cwd)
    from perdure.session.stores.memory import MemoryStore

    return made(MemoryStore(), cwd)


def at(path: str) -> Meant:
    """The session whose file this is."""
    return kept(*reference.find(path))


def forked(session: Session, store: Store, cwd: str, at: str | None = None) -> Meant:
    """A copy of it that goes on in that project, up to an entry or to where it is."""
    made = session.fork(at, cwd=cwd)
    return Meant(store, made, Header(made.id, ids.stamp(ids.now()), cwd), is_new=True)


def kept(store: Store, ref: Found) -> Meant:
    assert isinstance(store, FileStore)
    return Meant(store, ref, store.header(ref))


def _newest(out: Output, cwd: str) -> Row:
    """In which something was said."""
    from perdure.session.catalog import Scope

    for row in _rows(Scope.project(cwd).of("pi"), out, 0):
        if row.messages != 0:
            return row
    hint = "say something without -c to begin one, or resume another project's with -r"
    raise NotFound("Session of this project", cwd, hint=hint)


def _rows(scope: Scope, out: Output, limit: int) -> list[Row]:
    from perdure.session.catalog import Catalog

    with Catalog() as catalog:
        with out.progress("Reading sessions") as progress:
            problems = catalog.catch_up(scope, progress.update)
        rows = catalog.rows(scope, limit=limit)
    for problem in () if rows else problems:
        out.note(Styled(problem, "yellow"))
    return rows


def resumed(text: str, out: Output) -> Meant:
    """A unique beginning of an id, an exact name, or words that were said in one session only."""
    from perdure.session.catalog import Catalog, Scope

    scope = Scope.everything()
    if not text:
        rows = _rows(scope, out, 20)
        raise Ambiguous("-r", [_shown(row) for row in rows]) if rows else NotFound("Session", "-r")
    try:
        return kept(*reference.find(text))
    except NotFound as error:
        missing = error
    with Catalog() as catalog:
        with out.progress("Reading sessions") as progress:
            catalog.catch_up(scope, progress.update, text=True)
        rows = [row for row in catalog.rows(scope) if row.title == text]
        rows = rows or [hit.row for hit in catalog.search(scope, text, limit=20).hits]
    if not rows and missing.is_unsure:
        raise missing
    if not rows:
        near = f"nearest: {', '.join(missing.nearest)}" if missing.nearest else "nothing was said like that"
        raise NotFound("Session", text, hint=f"no id begins like that, no session is called so, and {near}")
    if len(rows) > 1:
        raise Ambiguous(text, [_shown(row) for row in rows])
    (row,) = rows
    return kept(*reference.find(row.path))


def _shown(row: Row) -> str:
    return f"{row.program}:{row.id} ({row.title or 'untitled'})"


def _named(text: str) -> Meant:
    try:
        return kept(*reference.find(text))
    except NotFound:
        path = os.path.abspath(config.expanded(text))
        if not os.path.isfile(path):
            raise
    folder = os.path.dirname(path)
    store = open_store("pi", folder, sessions_dir=folder, file=path)
    same = [ref for ref in store.list() if _is_same(ref.path, path)]
    if not same:
        raise NotFound("Session", text, hint="the file is not called like one of pi's sessions")
    return kept(store, min(same, key=lambda ref: os.path.islink(ref.path)))  # rather itself than a link to it


def _is_same(path: str, other: str) -> bool:
    """Whether two names are one file's. In a folder of everybody's a link to it is none: anybody may have
    made that."""
    look = os.lstat if strangers.is_everybodys(os.path.dirname(path)) else os.stat
    try:
        return os.path.samestat(look(path), look(other))
    except OSError:
        return False


def _of_id(id: str, cwd: str) -> Meant:
    """That session, or a new one of that id. Processes that want it at once make it once: they look and make
    under one lock."""
    ids.check(id)
    home = Home("pi", layouts.home_of("pi"))
    store = open_store("pi", cwd=cwd)
    with Lock(home.path, _MAKING, id, PATIENCE):
        for _, ref in reference.listed([home]):
            if ref.id == id:
                return kept(store, ref)
        return made(store, cwd, id)


def _forked(text: str, at: str | None, cwd: str) -> Meant:
    """It goes on here, so it is this project's."""
    store, ref = reference.find(text)
    return forked(Session.view(store, ref), store, cwd, at)
