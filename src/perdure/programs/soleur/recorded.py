"""What the sessions of a home have decided, or those of one project. Most have decided nothing, and a line of
them says so without more of them being understood."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from perdure.errors import PerdureError
from perdure.programs.soleur.decisions import Decision, decided, unfiled
from perdure.session.catalog import Catalog, Scope
from perdure.session.layouts import Home
from perdure.session.stores import Found, Store, open_store
from perdure.session.stores.whole_file import WholeFileStore

_NOTHING_DECIDED = b'\n  "decisions": []'  # as it stands in a document of ours, and nowhere else in one


class Recorded(NamedTuple):
    """Of a project, in the order in which they were made."""

    decisions: list[Decision]
    missed: list[Decision]
    """Those of them that have not come into the ledger."""


def by_project(home: str, told: Callable[[PerdureError], object]) -> dict[str, Recorded]:
    """`told` hears of each session that cannot be read."""
    store = open_store("soleur", home)
    return _by_project(store, store.list(), told)


def of_project(home: str, project: str, *, beside: str, since: int | None = None) -> Recorded:
    """Of the sessions of one project beside one of them; only of those that were written to `since` then, in
    nanoseconds. Which sessions are the project's the catalog knows: a home may have very many of others."""
    scope = Scope((Home("soleur", home),))
    with Catalog() as catalog:
        catalog.catch_up(scope)
        paths = {row.path for row in catalog.rows(scope) if row.project == project and row.id != beside}
    store = open_store("soleur", home)
    refs = (ref for ref in store.list() if ref.path in paths and ref.mtime_ns >= (since or 0))
    return _by_project(store, refs, lambda _: None).get(project, Recorded([], []))


def _by_project(
    store: Store, refs: Iterable[Found], told: Callable[[PerdureError], object]
) -> dict[str, Recorded]:
    assert isinstance(store, WholeFileStore)
    found: dict[str, Recorded] = {}
    for ref in refs:
        try:
            data = store.bytes_of(ref)
        except PerdureError as error:
            told(error)
            continue
        if _NOTHING_DECIDED in data and b"perdure.decision" not in data:
            continue
        document = store.parse(ref, data)
        name = document.header.facts.get("project_name")
        project = found.setdefault(name if isinstance(name, str) else "", Recorded([], []))
        project.decisions.extend(decided(document.entries))
        project.missed.extend(unfiled(document.entries))
    for decisions in (each for project in found.values() for each in project):
        decisions.sort(key=lambda decision: decision.timestamp)
    return {name: project for name, project in found.items() if project.decisions}
