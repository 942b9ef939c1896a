"""`ls`: the sessions of this project, or all there are, the last talked in first."""

from __future__ import annotations

import os

from perdure.front.ages import ago
from perdure.front.output import Styled
from perdure.front.table import table
from perdure.session.catalog import Catalog, Scope

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from types import SimpleNamespace

    from perdure.front.output import Output
    from perdure.session.catalog import Row

_STYLES = {"active": "green", "interrupted": "yellow", "unreadable": "red"}


def ls(options: SimpleNamespace, out: Output) -> int:
    everything = options.all
    scope = (Scope.everything() if everything else Scope.project(os.getcwd())).of(options.program)
    with Catalog() as catalog:
        with out.progress("Reading sessions") as progress:
            problems = catalog.catch_up(scope, progress.update)
        rows = catalog.rows(scope, status=options.status, limit=options.limit)
        if options.status:
            total = len(rows) if not options.limit else len(catalog.rows(scope, status=options.status))
        else:
            total = catalog.count(scope) if options.limit and len(rows) == options.limit else len(rows)
        if out.json:
            out.data([row.facts for row in rows])
        elif rows:
            ids = [catalog.short(row) if out.is_terminal else row.id for row in rows]
            _table(out, rows, ids)
        for problem in (*problems, *([catalog.notice] if catalog.notice else ())):
            out.note(Styled(problem, "yellow"))
    where = "" if everything else " of this project"
    if not rows and not out.json:
        more = "" if everything else f"; `{out.program} sessions ls --all` looks in all of them"
        out.note(f"No sessions{where}{more}.")
    elif len(rows) < total:
        out.note(f"{len(rows)} of {total:,} sessions{where} shown; --limit 0 shows all of them.")
    return 0


def _table(out: Output, rows: list[Row], ids: list[str]) -> None:
    lines = []
    for row, id in zip(rows, ids, strict=True):
        status = row.status
        style = _STYLES.get(status)
        lines.append(
            (
                row.program,
                Styled(id, "cyan"),
                row.title or "-",
                f"{row.messages:,}",
                ago(row.active / 1000),
                Styled(status, style) if style else status,
            )
        )
    table(
        out,
        ("PROGRAM", "ID", "TITLE", "MSGS", "ACTIVE", "STATUS"),
        lines,
        flexible=2,
        right=(3,),
        below=[row.problem or "" for row in rows],
    )
