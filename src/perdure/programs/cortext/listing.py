"""Which conversations there are: `cortext list`, and `cortext resume --list`."""

from __future__ import annotations

from collections import namedtuple

from perdure.front.ages import ago
from perdure.front.output import Styled
from perdure.front.table import table
from perdure.front.visible import fit, one_line
from perdure.programs.cortext.workspace import Workspace
from perdure.session.catalog import Catalog, Lasting, Row, Scope

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import SimpleNamespace
    from typing import TypeVar

    from perdure.front.output import Output

    T = TypeVar("T", bound="Listed | Row")

NONE = "No conversations to resume; `cortext start TYPE TITLE` begins one."
_LONGEST_TYPE = len("projectmanage")
_STYLES = {"active": "green", "unreadable": "red"}
_FACTS = (
    *("id", "type", "title", "title_is_cut", "status", "created", "last_active", "messages"),
    *("summary", "summary_is_cut", "path", "problem"),
)


class Listed(Lasting, namedtuple("Listed", "id kind title messages active recorded waits problem lock")):
    """What the table says of a conversation, and what that is made of."""

    __slots__ = ()

    program = "cortext"
    id: str
    kind: str
    title: str
    messages: int | None
    active: int
    problem: str | None


def conversations(options: SimpleNamespace, out: Output) -> int:
    """`cortext list`."""
    return _list(options, "", out)


def _list(options: SimpleNamespace, text: str, out: Output) -> int:
    """Those of a type, with a status, and that are called or say `text`; each where it is given."""
    workspace = Workspace.around()
    for error in workspace.passed_over:
        out.note(Styled(one_line(error.message), "yellow"))
    found: Sequence[Listed | Row]
    if out.json or text:
        every = rows(workspace, out, kind=options.type, status=options.status)
        if text:
            from perdure.programs.cortext.selection import matching, of_number

            numbered = of_number(text, every)
            every = [numbered] if numbered else matching(text, every, workspace, out)
        found = every
        if out.json:
            out.data([{name: _facts(row)[name] for name in _FACTS} for row in every])
            return 0
    else:
        found = _some(Listed, workspace, out, options.type, options.status)
    if found:
        _table(found, out)
    else:
        out.line(_nothing(text, options.type, options.status))
    if damaged := sum(row.problem is not None for row in found):
        out.note(f"{damaged} damaged; `pi sessions doctor` says more.")
    return 0


def resume(options: SimpleNamespace, out: Output) -> int:
    """`cortext resume`: who only lists loads nothing that talks."""
    if options.list:
        return _list(options, " ".join(options.text), out)
    from perdure.programs.cortext import talk

    return talk.resume(options, out)


def _nothing(text: str, kind: str, status: str) -> str:
    wanted = (
        f"that are {status}" if status else "",
        f"of type {one_line(kind)}" if kind else "",
        one_line(f"that are called or say {text!r}") if text else "",
    )
    return f"No conversations {' '.join(filter(None, wanted))}." if any(wanted) else NONE


def _facts(row: Row) -> dict[str, object]:
    is_cut = row.summary_is_cut if row.summary else row.preview_is_cut
    return {**row.facts, "type": row.kind, "summary": summary_of(row), "summary_is_cut": bool(is_cut)}


def _table(found: Sequence[Listed | Row], out: Output) -> None:
    """At a terminal ids are as short as they can be typed, and types are cut: titles get the room."""
    lines = []
    ids = short_ids(found) if out.is_terminal else [row.id for row in found]
    for row, id in zip(found, ids, strict=True):
        status = row.status
        style = _STYLES.get(status)
        lines.append(
            (
                Styled(id, "cyan"),
                fit(row.kind, _LONGEST_TYPE) if out.is_terminal else row.kind,
                row.title or "-",
                Styled(status, style) if style else status,
                ago(row.active / 1000),
            )
        )
    table(
        out,
        ("ID", "TYPE", "TITLE", "STATUS", "LAST ACTIVE"),
        lines,
        flexible=2,
        below=[row.problem or "" for row in found],
        spare=[(3,), (4,), (1,)],
        is_paged=True,
    )


def short_ids(found: Sequence[Listed | Row]) -> list[str]:
    """The beginning of each one's id that no other session's has: every command takes it."""
    with Catalog() as catalog:
        return [catalog.short(row) for row in found]


def rows(workspace: Workspace, out: Output, *, kind: str = "", status: str = "") -> list[Row]:
    """The last active first; without those in which nothing was said."""
    return _some(Row, workspace, out, kind, status)


def _some(what: type[T], workspace: Workspace, out: Output, kind: str, status: str) -> list[T]:
    scope = Scope((workspace.home,))
    with Catalog() as catalog:
        with out.progress("Reading conversations") as progress:
            problems = catalog.catch_up(scope, progress.update)
        found = catalog.some(scope, what, status=status)
        for problem in (*problems, *([catalog.notice] if catalog.notice else ())):
            out.note(Styled(problem, "yellow"))
    return [row for row in found if (row.messages != 0 or row.problem) and kind in ("", row.kind)]


def summary_of(row: Row) -> str:
    """Where it stopped; where nobody has said so, what was said last."""
    return row.summary or row.preview
