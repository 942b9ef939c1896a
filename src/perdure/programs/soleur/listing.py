"""`soleur sessions` and `soleur decisions`: what there is, as tables and as JSON."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import SimpleNamespace

from perdure import config
from perdure.errors import NotFound, PerdureError, UsageError
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
    from perdure.programs.soleur.recorded import Recorded
    from perdure.session.projects import Project

_PREVIEW = 50
"""Characters of what was said last."""
_BESIDE_DECISIONS = len("2026-01-31 09:05    ")
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


def last(project: Project, out: Output) -> tuple[Row | None, list[Row]]:
    """The last one talked in, and not in now: of this project, or else of all. And those that would be it, if
    anything of them could be read."""
    from perdure.programs.soleur import recorded

    rows = [row for row in _rows(out)[0] if row.status != "active"]
    own = recorded.paths_of(project, rows, layouts.home_of("soleur"))
    rows.sort(key=lambda row: row.path not in own)
    lost: list[Row] = []
    for row in rows:
        if row.problem is None or _holds_something(row):
            return row, lost
        lost.append(row)
    return None, lost


def offered(row: Row, columns: int, here: Project) -> Iterable[Sequence[str | Styled]]:
    """In a line; on a terminal that has not so many columns, in two. Its damage has a line of its own.
    Another project that has the name of this one is shown with its path."""
    is_namesake = row.project == here.name and row.root != here.root and os.path.isdir(row.root)
    where = f" ({config.as_typed(row.root)})" if is_namesake else ""
    project = f"  {one_line(row.project + where)}" if row.project else ""
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
        rows = [
            row for row in catalog.rows(scope) if row.messages != 0 or row.problem or _holds_something(row)
        ]
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
    from perdure.programs.soleur import project_files, recorded
    from perdure.programs.soleur.decisions import has_tag
    from perdure.session.projects import Project
    from perdure.session.stores import ledger_files

    home = layouts.home_of("soleur")
    by_project = recorded.by_project(home, lambda error: _note(error, out))
    in_files = {Project(file.project, file.root) for file in ledger_files.ledger_files(home)}
    known = project_files.without_twins({*by_project, *in_files})
    wanted = None
    if options.project is not None:
        with suppress(NotFound):
            wanted = project_files.named(options.project, known)
    found: list[Known] = []
    for project in known if options.project is None else filter(None, [wanted]):
        found += _decided(home, project, by_project, known, out)
    if out.json:
        shown = [each for each in found if options.tag is None or has_tag(each.tags, options.tag)]
        out.data([{**each._asdict(), "tags": [*each.tags]} for each in shown])
    elif options.project is not None and not found:
        others = sorted({each.name for each in known if each.name != options.project})
        out.line(f"No decisions of {one_line(options.project)} recorded yet")
        if others:
            out.note(one_line(f"There are some of {', '.join(others)}."))
    else:
        show_decisions(found, out, tag=options.tag or "")
    return 0


def _decided(
    home: str,
    project: Project,
    by_project: Mapping[Project, Recorded],
    known: Sequence[Project],
    out: Output,
) -> list[Known]:
    """Of one project. What has only its name is its own, too, if no other project has that name."""
    from perdure.programs.soleur import ledger
    from perdure.programs.soleur.decisions import in_force
    from perdure.programs.soleur.recorded import Recorded

    is_only = sum(each.name == project.name for each in known) == 1
    both = [project, project._replace(root="")] if is_only and project.root else [project]
    recorded = Recorded.nothing()
    for each in (by_project[each] for each in both if each in by_project):
        recorded.add(each)
    withdrawn = recorded.withdrawn
    lines = _lines(home, project, out, is_only=is_only)
    decided = recorded.decisions if lines is not None else in_force(recorded.decisions, withdrawn)
    known_ones = ledger.known(lines, decided, in_force(recorded.missed, withdrawn), project)
    return [*known_ones, *ledger.withdrawn(known_ones, recorded.decisions, withdrawn, project)]


def show_decisions(known: Sequence[Known], out: Output, *, tag: str = "", is_numbered: bool = False) -> None:
    """Project by project; those of one name with their roots. With a `tag`, those that have it. The numbers
    are those of all decisions of the project that are in force."""
    from perdure.programs.soleur.decisions import has_tag

    numbers = {id(each): str(at) for at, each in enumerate(known, 1) if not each.withdrawn}
    every, known = known, [each for each in known if not tag or has_tag(each.tags, tag)]
    if not known:
        with_tag = f" with #{one_line(tag.removeprefix('#'))}" if tag else ""
        out.line(f"No decisions{with_tag} recorded yet")
        if tags := sorted({f"#{each}" for one in every for each in one.tags}) if tag else []:
            out.note(one_line(f"There are some with {', '.join(tags)}."))
    projects = dict.fromkeys((each.project, each.project_root) for each in known)
    names = [name for name, _ in projects]
    for at, (name, root) in enumerate(projects):
        if at:
            out.line("")
        where = one_line(config.as_typed(root)) if names.count(name) > 1 else ""
        out.line(
            Styled(one_line(name) or "(no project)", "bold"), Styled(f"  {where}" if where else "", "dim")
        )
        own = [each for each in known if (each.project, each.project_root) == (name, root)]
        here = [_shown(each) for each in own]
        numbered = [numbers.get(id(each), "") for each in own]
        wide = max(map(len, numbered)) + len("  ") if is_numbered else 0
        room = out.columns - _BESIDE_DECISIONS - max(len(how) for _, how, _ in here) - wide
        if out.is_terminal and room < NARROWEST:
            for number, (decided, how, text) in zip(numbered, here, strict=True):
                shown = f"{number}  " if is_numbered and number else ""
                out.line(Styled(f"{shown}{decided}  {how}", "dim"))
                for line in folded(text, out.columns - len(_BELOW_DATES)):
                    out.line(_BELOW_DATES, line)
            continue
        lines = []
        for number, (decided, how, text) in zip(numbered, here, strict=True):
            first, *further = folded(text, room if out.is_terminal else 0)
            lines.append((number, decided, how, first))
            lines += [("", "", "", line) for line in further]
        heads, skipped = ("N", "DATE", "HOW", "DECISION"), 0 if is_numbered else 1
        table(out, heads[skipped:], [line[skipped:] for line in lines], flexible=3 - skipped)


def _shown(each: Known) -> tuple[str, str, str]:
    is_day = len(each.timestamp) == len("2026-01-31")  # as somebody wrote it, wherever that was
    decided = (each.timestamp if is_day else when(seconds(each.timestamp))) or "-"
    how = "Withdrawn" if each.withdrawn else "Auto" if each.source == "AutoDetected" else "Manual"
    return decided, how, " ".join([each.content, *(f"#{tag}" for tag in each.tags)])


def _lines(home: str, project: Project, out: Output, *, is_only: bool) -> list[Line] | None:
    """None if there is no ledger, or none that can be read, or it is perhaps another project's."""
    from perdure.programs.soleur.ledger import Ledger
    from perdure.session.stores.ledger_files import UNCLAIMED

    try:
        ledger = Ledger(home, project)
        is_its = ledger.is_own or (is_only and ledger.whose == UNCLAIMED)
        return ledger.read() if is_its else None
    except UsageError:
        return None  # a project of that name has none
    except PerdureError as error:
        _note(error, out)
        return None


def _note(error: PerdureError, out: Output) -> None:
    out.note(Styled(one_line(error.said), "yellow"))
