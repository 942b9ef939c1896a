"""What the sessions of a home have decided, or those of one project. Most have decided nothing, and a line of
them says so without more of them being understood."""

from __future__ import annotations

import os
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from perdure.errors import PerdureError
from perdure.programs.soleur.decisions import UNDECIDED, Decision, decided, unfiled, withdrawals
from perdure.session.catalog import Catalog, Lasting, Row, Scope
from perdure.session.layouts import Home
from perdure.session.projects import Project, root_of
from perdure.session.stores import Found, Header, Store, ledger_files, open_store
from perdure.session.stores.whole_file import WholeFileStore

_NOTHING_DECIDED = b'\n  "decisions": []'  # as it stands in a document of ours, and nowhere else in one


class SessionFacts(Lasting, namedtuple("SessionFacts", "id path root cwd project")):
    """Where a session is, and what it says of its project: all that the catalog is asked for here."""

    __slots__ = ()

    path: str
    root: str
    cwd: str
    project: str


class Recorded(NamedTuple):
    """Of a project, in the order in which they were made."""

    decisions: list[Decision]
    missed: list[Decision]
    """Those of them that have not come into the ledger."""
    withdrawn: dict[str, str]
    """When decisions were withdrawn, by their likeness."""

    @classmethod
    def nothing(cls) -> Recorded:
        return cls([], [], {})

    def add(self, other: Recorded) -> None:
        self.decisions.extend(other.decisions)
        self.missed.extend(other.missed)
        for like, when in other.withdrawn.items():
            self.withdrawn[like] = max(when, self.withdrawn.get(like, ""))
        for decisions in (self.decisions, self.missed):
            decisions.sort(key=lambda decision: decision.timestamp)


def project_in(header: Header, moved: Mapping[str, str]) -> Project:
    """The project that a session is about: by its root, of an older one by its directory, else by its
    name. `moved` has the roots of projects by their former ones."""
    project = _project_in(header)
    root = moved.get(project.root)
    return Project(os.path.basename(root), root) if root else project


def _project_in(header: Header) -> Project:
    name, root = (each if isinstance(each := header.facts.get(fact), str) else "" for fact in _FACTS)
    if root or not name or not (found := root_of(header.cwd)):
        return Project(name, root)
    root = found
    is_default = name == os.path.basename(header.cwd)  # else somebody gave it that name
    return Project(os.path.basename(root) if is_default else name, root)


_FACTS = ("project_name", "project_root")


def by_project(home: str, told: Callable[[PerdureError], object]) -> dict[Project, Recorded]:
    """`told` hears of each session that cannot be read."""
    store = open_store("soleur", home)
    return _by_project(store, store.list(), told)


def of_project(home: str, project: Project, *, beside: str, since: int | None = None) -> Recorded:
    """Of the sessions of one project beside one of them; only of those that were written to `since` then, in
    nanoseconds. Which sessions are the project's the catalog knows: a home may have very many of others."""
    others = [each for each in sessions(home) if each.id != beside]
    paths = paths_of(project, others, home)
    store = open_store("soleur", home)
    refs = (ref for ref in store.list() if ref.path in paths and ref.mtime_ns >= (since or 0))
    found = Recorded.nothing()
    for each in _by_project(store, refs, lambda _: None).values():
        found.add(each)
    return found


def sessions(home: str) -> list[SessionFacts]:
    """Of all sessions."""
    scope = Scope((Home("soleur", home),))
    with Catalog() as catalog:
        catalog.catch_up(scope)
        return catalog.some(scope, SessionFacts)


def paths_of(project: Project, every: Iterable[SessionFacts | Row], home: str) -> set[str]:
    """The files of those sessions that are the project's. Many of them say the same, which is judged once."""
    by_place: dict[tuple[str, str, str], list[str]] = {}
    for each in every:
        by_place.setdefault((each.root, each.cwd, each.project), []).append(each.path)
    return {path for place in ledger_files.places_of(project, by_place, home) for path in by_place[place]}


def _by_project(
    store: Store, refs: Iterable[Found], told: Callable[[PerdureError], object]
) -> dict[Project, Recorded]:
    assert isinstance(store, WholeFileStore)
    found: dict[Project, Recorded] = {}
    moved = ledger_files.moved(store.home)
    for ref in refs:
        try:
            data = store.bytes_of(ref)
        except PerdureError as error:
            told(error)
            continue
        if _NOTHING_DECIDED in data and b"perdure.decision" not in data and UNDECIDED.encode() not in data:
            continue
        document = store.parse(ref, data)
        entries = document.entries
        recorded = Recorded(decided(entries), unfiled(entries), withdrawals(entries))
        found.setdefault(project_in(document.header, moved), Recorded.nothing()).add(recorded)
    return {project: each for project, each in found.items() if each.decisions or each.withdrawn}
