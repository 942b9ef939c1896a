"""`stats`: how many sessions there are, how much was said in them and how much room they take."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import SimpleNamespace
from typing import NamedTuple

from perdure.front.ages import ago
from perdure.front.amounts import counted, size
from perdure.front.output import Output, Styled
from perdure.front.table import table
from perdure.session import reference
from perdure.session.catalog import Catalog, Row, Scope, stamp
from perdure.session.layouts import LAYOUTS
from perdure.session.reference import Deleted

_HEADS = ("PROGRAM", "SESSIONS", "MESSAGES", "SIZE", "OLDEST", "NEWEST", "TRASH", "TRASH SIZE")


class _Sums(NamedTuple):
    sessions: int
    messages: int
    size: int
    oldest: int
    """When the first was made, in milliseconds since 1970; 0 if none says so."""
    newest: int
    """When somebody last said something."""
    deleted: int
    deleted_size: int

    @property
    def facts(self) -> dict[str, object]:
        return {**self._asdict(), "oldest": _stamp(self.oldest), "newest": _stamp(self.newest)}


def stats(options: SimpleNamespace, out: Output) -> int:
    scope = Scope.everything()
    with Catalog() as catalog:
        with out.progress("Reading sessions") as progress:
            problems = catalog.catch_up(scope, progress.update)
        rows = catalog.rows(scope)
        notices = [catalog.notice] if catalog.notice else []
    gone = reference.deleted(scope.homes, problems)
    for problem in dict.fromkeys((*problems, *notices)):
        out.note(Styled(problem, "yellow"))
    if uncounted := sum(row.messages is None for row in rows):
        out.note(f"The messages of {counted(uncounted, 'large session')} are not counted.")
    programs = {
        name: _sums(
            [row for row in rows if row.program == name], [each for each in gone if each.store.name == name]
        )
        for name in LAYOUTS
    }
    everything = _sums(rows, gone)
    own = _size_of(catalog.path)
    if out.json:
        found = {name: sums.facts for name, sums in programs.items()}
        out.data({"programs": found, "all": everything.facts, "catalog": {"path": catalog.path, "size": own}})
        return 0
    shown = {name: sums for name, sums in programs.items() if sums.sessions or sums.deleted}
    lines = [_line(name, sums) for name, sums in {**shown, "all": everything}.items()]
    table(out, _HEADS, lines, flexible=0, right=(1, 2, 3, 6, 7))
    out.line(Styled(f"The catalog takes {size(own)}: {catalog.path}", "dim"))
    return 0


def _sums(rows: Sequence[Row], gone: Sequence[Deleted]) -> _Sums:
    return _Sums(
        len(rows),
        sum(row.messages or 0 for row in rows),
        sum(row.size for row in rows),
        min((row.created for row in rows if row.created), default=0),
        max((row.active for row in rows), default=0),
        len(gone),
        sum(each.trashed.size for each in gone),
    )


def _line(name: str, sums: _Sums) -> list[str]:
    oldest, newest = (ago(when / 1000) or "-" for when in (sums.oldest, sums.newest))
    counts = [f"{sums.sessions:,}", f"{sums.messages:,}", size(sums.size)]
    return [name, *counts, oldest, newest, f"{sums.deleted:,}", size(sums.deleted_size)]


def _stamp(when: int) -> str:
    return stamp(when) if when else ""


def _size_of(path: str) -> int:
    """With what SQLite has not moved into it yet. A catalog that is kept in memory takes nothing."""
    total = 0
    for suffix in ("", "-wal", "-shm"):
        try:
            total += os.stat(path + suffix).st_size
        except OSError:
            pass
    return total
