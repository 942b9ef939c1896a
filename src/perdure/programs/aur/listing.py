"""`aur spawn --list-sessions`: who was talked to, how far, when and how it ended; as a table and as JSON."""

from __future__ import annotations

from collections import namedtuple

from perdure import config
from perdure.errors import UsageError
from perdure.front.ages import when
from perdure.front.amounts import counted
from perdure.front.output import Styled
from perdure.front.table import number, table
from perdure.session.catalog import Catalog, Lasting, Scope, stamp
from perdure.session.layouts import Home, home_of

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from types import SimpleNamespace
    from typing import Any

    from perdure.front.output import Output
    from perdure.session.catalog import Row

_HEADS = ("session_id", "agent", "turn_count", "created_at", "status", "title")
_MOST_AT_A_TERMINAL = 50
_STYLES = {"active": "green", "interrupted": "yellow", "unreadable": "red"}


class Listed(Lasting, namedtuple("Listed", "id kind turns created title recorded waits problem lock")):
    """What the table says of a session, and what that is made of."""

    __slots__ = ()

    program = "aurora"
    id: str
    kind: str
    turns: int | None
    created: int
    title: str
    problem: str | None


def home() -> Home:
    return Home("aurora", home_of("aurora"))


def list_sessions(options: SimpleNamespace, out: Output) -> int:
    if options.agent == "":
        raise UsageError("--agent: an agent's name is not empty", "name one, or leave it out")
    scope = Scope((home(),))
    with Catalog() as catalog:
        with out.progress("Reading sessions") as progress:
            problems = catalog.catch_up(scope, progress.update)
        every: list[Any] = catalog.rows(scope) if out.json else catalog.some(scope, Listed)
        matching = _matching(every, options)
        shown = [(row, row.status) for row in matching[: _most(options, out) or None]]
        names = [catalog.short(row) if out.is_terminal else row.id for row, _ in shown]
        notices = [*problems, *([catalog.notice] if catalog.notice else ())]
    if out.json:
        out.data([_facts(row, status) for row, status in shown])
    elif shown or not problems:  # of what cannot be read nobody knows that there is nothing
        _show(shown, names, len(matching), len(every), options, out)
    for notice in notices:
        out.note(Styled(notice, "yellow"))
    if not out.json and (damaged := sum(bool(row.problem and row.lock) for row, _ in shown)):
        out.note(f"{damaged} damaged; `aur spawn --recover ID` keeps every good line of one.")
    return 1 if problems else 0


def _matching(every: list[Any], options: SimpleNamespace) -> list[Any]:
    rows = [row for row in every if options.agent in (None, row.kind)]
    return rows if options.status is None else [row for row in rows if row.status == options.status]


def _most(options: SimpleNamespace, out: Output) -> int:
    """How many rows are shown at most; 0 is all."""
    if options.limit is not None:
        return int(options.limit)
    return _MOST_AT_A_TERMINAL if out.is_terminal and not out.json else 0


def _show(
    shown: list[tuple[Listed, str]],
    names: list[str],
    matching: int,
    total: int,
    options: SimpleNamespace,
    out: Output,
) -> None:
    of = "" if options.agent is None else f" of {options.agent}"
    are = "is" if matching == 1 else "are"
    which = "" if options.status is None else f" that {are} {options.status}"
    if not shown:
        others = f", out of {total:,}" if total else f" in {config.as_typed(home().sessions)}"
        out.line(f"No sessions{of}{which}{others}.")
        return
    lines = [
        (
            Styled(name, "cyan"),
            row.kind or "-",
            number(row.turns),
            when(row.created / 1000) or "-",
            Styled(status, _STYLES[status]) if status in _STYLES else status,
            row.title or "-",
        )
        for (row, status), name in zip(shown, names, strict=True)
    ]
    below = [row.problem or "" for row, _ in shown]
    table(out, _HEADS, lines, flexible=_HEADS.index("title"), right=(2,), below=below)
    out.line("")
    if rest := matching - len(shown):
        out.line(f"{rest:,} more; --limit 0 lists all of them.")
    out.line(f"{counted(matching, 'session')}{of}{which}")


def _facts(row: Row, status: str) -> dict[str, object]:
    return {
        "session_id": row.id,
        "agent": row.kind,
        "turn_count": row.turns,
        "created_at": stamp(row.created),
        "last_active": stamp(row.active),
        "status": status,
        "title": row.title,
        "title_is_cut": bool(row.title_is_cut),
        "cwd": row.cwd,
        "path": row.path,
        "problem": row.problem,
    }
