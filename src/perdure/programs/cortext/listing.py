"""Which conversations there are, and which of them somebody means: by a number, an id, or words."""

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
    from collections.abc import Iterator, Sequence
    from types import SimpleNamespace
    from typing import TypeVar

    from perdure.front.output import Output

    T = TypeVar("T", bound="Listed | Row")

NONE = "No conversations to resume; `cortext start TYPE TITLE` begins one."
_QUESTION = "Which conversation would you like to continue? (number or search)"
_STYLES = {"active": "green", "unreadable": "red"}
_FACTS = ("id", "type", "title", "status", "created", "last_active", "messages", "summary", "path", "problem")


class Listed(Lasting, namedtuple("Listed", "id kind title messages active recorded waits problem lock")):
    """What the table says of a conversation, and what that is made of."""

    __slots__ = ()

    program = "cortext"
    id: str
    kind: str
    title: str
    messages: int
    active: int
    problem: str | None


def conversations(options: SimpleNamespace, out: Output) -> int:
    """`cortext list`, and `cortext resume --list`."""
    workspace = Workspace.around()
    if out.json:
        every = rows(workspace, out, kind=options.type, status=options.status)
        out.data([{name: _facts(row)[name] for name in _FACTS} for row in every])
        return 0
    found = _some(Listed, workspace, out, options.type, options.status)
    if found:
        _table(found, out)
    else:
        out.line(_nothing(options.type, options.status))
    if damaged := sum(row.problem is not None for row in found):
        out.note(f"{damaged} damaged; `pi sessions doctor` says more.")
    return 0


def resume(options: SimpleNamespace, out: Output) -> int:
    """`cortext resume`: who only lists loads nothing that talks."""
    if options.list:
        return conversations(options, out)
    from perdure.programs.cortext import talk

    return talk.resume(options, out)


def _nothing(kind: str, status: str) -> str:
    if not kind and not status:
        return NONE
    wanted = " ".join(filter(None, ("that are", status, f"of type {one_line(kind)}" if kind else "")))
    return f"No conversations {wanted if status else wanted.removeprefix('that are ')}."


def _facts(row: Row) -> dict[str, object]:
    return {**row.facts, "type": row.kind, "summary": summary_of(row)}


def _table(found: Sequence[Listed], out: Output) -> None:
    lines = []
    for row in found:
        status = row.status
        style = _STYLES.get(status)
        lines.append(
            (
                Styled(row.id, "cyan"),
                row.kind,
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
    )


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
    return [row for row in found if (row.messages or row.problem) and kind in ("", row.kind)]


def summary_of(row: Row) -> str:
    """Where it stopped; where nobody has said so, what was said last."""
    return row.summary or row.preview


# --- which one is meant ---------------------------------------------------------------------------------


def meant(text: str, among: Sequence[Row], workspace: Workspace, out: Output) -> list[Row]:
    """Those that somebody may mean by this: an id, its beginning, words of a title or summary, of messages.
    The first of these that fits any decides."""
    text = text.strip().removeprefix("cortext:")
    for found in (
        [row for row in among if row.id == text],
        [row for row in among if _name(row) == text],
        [row for row in among if row.id.startswith(text) or _name(row).startswith(text)],
        [row for row in among if _has_words(text, f"{row.title} {row.summary}")],
    ):
        if text and found:
            return found
    return _saying(text, among, workspace, out) if text.split() else []


def _name(row: Row) -> str:
    """Without its day."""
    return row.id.rpartition("/")[2]


def _has_words(text: str, told: str) -> bool:
    words = text.casefold().split()
    told = told.casefold()
    return bool(words) and all(word in told for word in words)


def _saying(text: str, among: Sequence[Row], workspace: Workspace, out: Output) -> list[Row]:
    scope = Scope((workspace.home,))
    paths = {row.path: row for row in among}
    with Catalog() as catalog:
        with out.progress("Reading conversations") as progress:
            catalog.catch_up(scope, progress.update, text=True)
        hits = catalog.search(scope, text).hits
    found = {hit.row.path for hit in hits}
    return [row for path, row in paths.items() if path in found]


def chosen(among: Sequence[Row], workspace: Workspace, out: Output) -> Row | None:
    """One of these, by its number or by words, which are asked for again as long as they fit several."""
    shown = among
    while True:
        out.line("Here are your resumable conversations:")
        for line in numbered(shown, out.columns if out.is_terminal else 0):
            out.line(*line)
        out.line("")
        answer = out.answer(_QUESTION, in_conversation=True)
        if not answer:
            return None
        if row := of_number(answer, shown):
            return row
        found = meant(answer, among, workspace, out)
        if len(found) == 1:
            return found[0]
        if found:
            shown = found
        else:
            out.note(one_line(f"Nothing here is called or says {answer!r}."))


def of_number(text: str, among: Sequence[Row]) -> Row | None:
    """By its number in a list. `001` is the beginning of an id."""
    return next((row for number, row in enumerate(among, 1) if str(number) == text), None)


def numbered(among: Sequence[Row], columns: int) -> Iterator[tuple[str | Styled, ...]]:
    """As a person picks from them."""
    for number, row in enumerate(among, 1):
        head = f"{number}. [{one_line(row.kind)}] "
        inside = " " * len(f"{number}. ")
        yield ("",)
        yield (head, Styled(_fit(row.title or "-", columns - len(head)), "bold"))
        yield (f"{inside}Last active: {_since(row)} | Status: {row.status} | {row.id}",)
        if summary := one_line(summary_of(row)):
            yield (inside, _fit(f"Summary: {summary}", columns - len(inside)))


def _fit(text: str, columns: int) -> str:
    return fit(text, columns) if columns > 0 else text


def _since(row: Row) -> str:
    return ago(row.active / 1000) or "-"
