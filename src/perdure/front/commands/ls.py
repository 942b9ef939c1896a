"""`ls`: the sessions of this project, or all there are, the last talked in first."""

from __future__ import annotations

from perdure import config
from perdure.front.ages import ago
from perdure.front.output import Styled
from perdure.front.table import number, table
from perdure.session.catalog import Catalog, Scope

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from types import SimpleNamespace

    from perdure.front.output import Output
    from perdure.session.catalog import Row

_LONGEST_ID = 24
_HEAD, _TAIL = 11, 8
_STYLES = {"active": "green", "interrupted": "yellow", "unreadable": "red"}


def ls(options: SimpleNamespace, out: Output) -> int:
    everything = options.all
    scope = (Scope.everything() if everything else Scope.project(config.here())).of(options.program)
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
            ids = [_brief(catalog.short(row), row.id) if out.is_terminal else row.id for row in rows]
            _table(out, rows, ids)
        for problem in (*problems, *([catalog.notice] if catalog.notice else ())):
            out.note(Styled(problem, "yellow"))
    where = "" if everything else " of this project"
    which = f" that are {options.status}" if options.status else ""
    if not rows and not problems and not out.json:  # of what cannot be read nobody knows that
        places = ", ".join(config.as_typed(home.path) for home in scope.homes)
        more = f" in {places}" if everything else f"; `{out.program} sessions ls --all` looks in all of them"
        out.note(f"No sessions{where}{which}{more}.")
    elif len(rows) < total:
        out.note(f"{len(rows)} of {total:,} sessions{where} shown; --limit 0 shows all of them.")
    if damaged := sum(row.problem is not None for row in rows):
        out.note(f"{damaged} damaged; `{out.program} sessions doctor` says more.")
    return 0


def _brief(short: str, id: str) -> str:
    """One that is long even so, with `…` for its middle: it is accepted like that, too."""
    return short if len(short) <= _LONGEST_ID else f"{id[:_HEAD]}…{id[-_TAIL:]}"


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
                number(row.messages),
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
