"""`soleur sessions` and `soleur decisions`: what there is, as tables and as JSON."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from types import SimpleNamespace

from perdure.errors import PerdureError, UsageError
from perdure.front.ages import seconds, when
from perdure.front.amounts import counted
from perdure.front.output import Output, Styled
from perdure.front.table import table
from perdure.front.visible import NARROWEST, fit, folded, one_line, width
from perdure.session import layouts
from perdure.session.catalog import Catalog, Row, Scope
from perdure.session.layouts import LAYOUTS, Home

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from perdure.programs.soleur.ledger import Known, Line

_PREVIEW = 50
"""Characters of what was said last."""
_BESIDE_DECISIONS = len("2026-01-31 09:05  Manual  ")
_BELOW_DATES = "  "
"""Before a decision, where the terminal is too narrow for columns."""


# --- sessions ------------------------------------------------------------------------------------------


def sessions(options: SimpleNamespace, out: Output) -> int:
    rows, problems = _rows(out)
    if problems and not rows:
        raise PerdureError(problems[0])
    for problem in problems:
        out.note(Styled(problem, "yellow"))
    if out.json:
        out.data([_facts(row) for row in rows])
        return 0
    if not rows:
        out.line("No saved sessions found")
        return 0
    ids = _shortened([row.id for row in rows]) if out.is_terminal else {row.id: row.id for row in rows}
    lines = [
        (Styled(ids[row.id], "cyan"), _made(row), row.project or "-", _preview(row) or "-") for row in rows
    ]
    below = [row.problem or "" for row in rows]
    table(out, ("ID", "CREATED", "PROJECT", "LAST MESSAGE"), lines, flexible=3, spare=((2,),), below=below)
    if damaged := sum(map(bool, below)):
        out.note(f"{counted(damaged, 'session')} damaged; `pi sessions doctor` says more.")
    return 0


def _shortened(ids: Iterable[str]) -> dict[str, str]:
    """As much of each as no other begins with, and as people need to recognise it."""
    found: dict[str, str] = {}
    ordered = sorted(ids)
    for before, id, after in zip(["", *ordered], ordered, [*ordered[1:], ""], strict=False):
        length = LAYOUTS["soleur"].shortest
        while length < len(id) and id[:length] in (before[:length], after[:length]):
            length += 1
        found[id] = id[:length]
    return found


def last(cwd: str, out: Output) -> tuple[Row | None, list[Row]]:
    """The last one talked in, and not in now: of this project, or else of all. And those that would be it, if
    anything of them could be read."""
    rows = [row for row in _rows(out)[0] if row.status != "active"]
    rows.sort(key=lambda row: row.project != os.path.basename(cwd))
    lost: list[Row] = []
    for row in rows:
        if row.problem is None or _holds_something(row):
            return row, lost
        lost.append(row)
    return None, lost


def offered(row: Row, columns: int) -> Iterable[Sequence[str | Styled]]:
    """In a line; on a terminal that has not so many columns, in two. Its damage has a line of its own."""
    project = f"  {one_line(row.project)}" if row.project else ""
    about, preview = f"  {_made(row)}{project}", _preview(row)
    if not columns or width(f"{row.id}{about}  {preview}") <= columns:
        yield Styled(row.id, "cyan"), f"{about}  {preview}"
    else:
        yield Styled(row.id, "cyan"), about
        yield (fit(f"  {preview}", columns),)
    if row.problem is not None:
        yield (Styled(one_line(f"Damaged: {row.problem}; resuming repairs it"), "yellow"),)


def _rows(out: Output) -> tuple[list[Row], list[str]]:
    """And why the home could not be looked at. Without those in which there is nothing: somebody has just
    begun them, or did not come far."""
    scope = Scope((Home("soleur", layouts.home_of("soleur")),))
    with Catalog() as catalog:
        with out.progress("Reading sessions") as progress:
            problems = catalog.catch_up(scope, progress.update)
        rows = [row for row in catalog.rows(scope) if row.messages or row.problem or _holds_something(row)]
        return rows, problems


def _holds_something(row: Row) -> bool:
    from perdure.session.reference import find

    try:
        store, ref = find(row.path, [Home("soleur", layouts.home_of("soleur"))])
        return bool(store.read(ref).entries)
    except PerdureError:
        return False  # it is gone by now


def _facts(row: Row) -> dict[str, object]:
    facts = row.facts
    names = (
        *("id", "created", "last_active", "project", "preview", "preview_is_cut"),
        *("messages", "path", "problem"),
    )
    return {name: facts[name] for name in names}


def _made(row: Row) -> str:
    return when(row.created / 1000) or "-"


def _preview(row: Row) -> str:
    text = one_line(row.preview)
    return text if len(text) <= _PREVIEW else f"{text[:_PREVIEW]}…"


# --- decisions -----------------------------------------------------------------------------------------


def decisions(options: SimpleNamespace, out: Output) -> int:
    from perdure.programs.soleur import ledger, recorded

    home = layouts.home_of("soleur")
    wanted = None if options.project is None else ledger.check_project(options.project)
    by_project = recorded.by_project(home, lambda error: _note(error, out))
    found: list[Known] = []
    for project in sorted({*by_project, *ledger.projects(home)}):
        if wanted in (None, project):
            of_sessions = by_project.get(project, recorded.Recorded([], []))
            found += ledger.known(_lines(home, project, out), *of_sessions, project)
    if out.json:
        out.data([{**each._asdict(), "tags": [*each.tags]} for each in found])
    elif wanted is not None and not found:
        others = sorted({*by_project, *ledger.projects(home)} - {wanted})
        out.line(f"No decisions of {one_line(wanted)} recorded yet")
        if others:
            out.note(one_line(f"There are some of {', '.join(others)}."))
    else:
        show_decisions(found, out)
    return 0


def show_decisions(known: Sequence[Known], out: Output) -> None:
    """Project by project."""
    if not known:
        out.line("No decisions recorded yet")
    for at, project in enumerate(dict.fromkeys(each.project for each in known)):
        if at:
            out.line("")
        out.line(Styled(one_line(project) or "(no project)", "bold"))
        here = [_shown(each) for each in known if each.project == project]
        room = out.columns - _BESIDE_DECISIONS
        if out.is_terminal and room < NARROWEST:
            for decided, how, text in here:
                out.line(Styled(f"{decided}  {how}", "dim"))
                for line in folded(text, out.columns - len(_BELOW_DATES)):
                    out.line(_BELOW_DATES, line)
            continue
        lines = []
        for decided, how, text in here:
            first, *further = folded(text, room if out.is_terminal else 0)
            lines.append((decided, how, first))
            lines += [("", "", line) for line in further]
        table(out, ("DATE", "HOW", "DECISION"), lines, flexible=2)


def _shown(each: Known) -> tuple[str, str, str]:
    is_day = len(each.timestamp) == len("2026-01-31")  # as somebody wrote it, wherever that was
    decided = (each.timestamp if is_day else when(seconds(each.timestamp))) or "-"
    how = "Auto" if each.source == "AutoDetected" else "Manual"
    return decided, how, " ".join([each.content, *(f"#{tag}" for tag in each.tags)])


def _lines(home: str, project: str, out: Output) -> list[Line] | None:
    """None if there is no ledger, or none that can be read."""
    from perdure.programs.soleur.ledger import Ledger

    try:
        return Ledger(home, project).read()
    except UsageError:
        return None  # a project of that name has none
    except PerdureError as error:
        _note(error, out)
        return None


def _note(error: PerdureError, out: Output) -> None:
    out.note(Styled(one_line(error.said), "yellow"))
