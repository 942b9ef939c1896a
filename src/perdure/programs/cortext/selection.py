"""Which conversation somebody means, by its number, its id or words; and the list that they pick from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from perdure.front.ages import ago
from perdure.front.output import Output, Styled
from perdure.front.visible import fit, one_line, width
from perdure.programs.cortext.listing import short_ids, summary_of
from perdure.programs.cortext.workspace import Workspace
from perdure.session.catalog import Catalog, Row, Scope
from perdure.session.ids import composed
from perdure.session.query import is_searchable

_QUESTION = "Which conversation would you like to continue? (number or search)"
_NUMBER = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_MORE = "more"
_AT_ONCE = 10
_LINES_EACH = 4
_LINES_AROUND = 3
_SHORTEST_TITLE = 16
"""Columns; where there are fewer, a title stands without the age and the status."""


def matching(text: str, among: Sequence[Row], workspace: Workspace, out: Output) -> list[Row]:
    """Those that somebody may mean by this: an id, its beginning, words of a title or summary, of messages.
    The first of these that fits any decides. Digits alone are never words, and of an id only all the digits
    of its year or its number."""
    text = composed(text.strip().removeprefix("cortext:"))
    if not text:
        return []
    beginning = f"{text}-" if text.isdecimal() else text
    for found in (
        [row for row in among if composed(row.id) == text],
        [row for row in among if _name(row) == text],
        [row for row in among if composed(row.id).startswith(beginning) or _name(row).startswith(beginning)],
    ):
        if found:
            return found
    if text.isdecimal() or not is_searchable(text):
        return []
    titled = [row for row in among if _has_words(text, f"{row.title} {row.summary}")]
    return titled or _saying(text, among, workspace, out)


def of_number(text: str, among: Sequence[Row]) -> Row | None:
    """By its number in a list. `001` is the beginning of an id."""
    if not _NUMBER.fullmatch(text) or len(text) > len(str(len(among))) or not 1 <= int(text) <= len(among):
        return None
    return among[int(text) - 1]


def asks_again(text: str, among: Sequence[Row], workspace: Workspace, out: Output) -> bool:
    """True, and said, if this is a number that nothing has, and somebody is there to give another."""
    if not out.can_ask or not among or not _NUMBER.fullmatch(text) or matching(text, among, workspace, out):
        return False
    out.note(_no_number(text, among))
    return True


def _no_number(text: str, shown: Sequence[Row]) -> str:
    return f"There is no number {fit(text, 20)}: they go from 1 to {len(shown)}."


def _name(row: Row) -> str:
    """Without its day."""
    return composed(row.id.rpartition("/")[2])


def _has_words(text: str, where: str) -> bool:
    where = where.casefold()
    return all(word in where for word in text.casefold().split())


def _saying(text: str, among: Sequence[Row], workspace: Workspace, out: Output) -> list[Row]:
    scope = Scope((workspace.home,))
    paths = {row.path: row for row in among}
    with Catalog() as catalog:
        with out.progress("Reading conversations") as progress:
            catalog.catch_up(scope, progress.update, text=True)
        hits = catalog.search(scope, text).hits
    found = {hit.row.path for hit in hits}
    return [row for path, row in paths.items() if path in found]


# --- the list to pick from --------------------------------------------------------------------------------


def chosen(among: Sequence[Row], workspace: Workspace, out: Output) -> Row | None:
    """One of these, by its number or by words. Words that fit several show those; what fits none, and what
    cannot be searched for, is asked again."""
    shown = among
    end = _show(shown, 0, out)
    unused: list[str] = []
    while True:
        answer = out.answer(_QUESTION, in_conversation=True)
        if not answer:
            out.name_unused(unused, is_end_of_input=answer is None)
            return None
        unused.append(answer)
        if _NUMBER.fullmatch(answer):
            if row := of_number(answer, shown):
                return row
            out.note(_no_number(answer, shown))
        elif answer.lower() == _MORE and end < len(shown):
            end = _show(shown, end, out)
        else:
            found = matching(answer, among, workspace, out)
            if len(found) == 1:
                return found[0]
            if found:
                shown = found
                end = _show(shown, 0, out)
            elif is_searchable(answer):
                out.note(one_line(f"Nothing here is called or says {answer!r}."))
            else:
                out.note(one_line(f"{answer!r} cannot be searched for: type a number, or words."))


def _show(rows: Sequence[Row], first: int, out: Output) -> int:
    """Print them from `first` on: all of them through a pipe, and at a terminal at most ten, so briefly that
    the newest are still on the screen. Returns where it stopped."""
    end = min(len(rows), first + _AT_ONCE) if out.is_terminal else len(rows)
    is_brief = out.is_terminal and _LINES_EACH * (end - first) + _LINES_AROUND > out.rows
    columns = out.columns - 1 if out.is_terminal else 0
    if not first:
        out.line("Here are your resumable conversations:")
    for at in range(first, end):
        for line in _brief(at + 1, rows[at], columns) if is_brief else _whole(at + 1, rows[at], columns):
            out.line(*line)
    if not is_brief:
        out.line("")
    if end < len(rows):
        out.line(
            Styled(f"{len(rows) - end} more: type `{_MORE}` to see them, or words to search in all.", "dim")
        )
    return end


_Line = tuple[str | Styled, ...]


def _whole(number: int, row: Row, columns: int) -> Iterator[_Line]:
    head = f"{number}. [{one_line(row.kind)}] "
    inside = " " * len(f"{number}. ")
    yield ("",)
    yield (head, Styled(_fit(row.title or "-", columns - len(head)), "bold"))
    state = f"{inside}Last active: {_since(row)} | Status: {row.status} | "
    is_wide = 0 < columns < width(f"{state}{row.id}")
    yield (f"{state}{short_ids([row])[0] if is_wide else row.id}",)
    if summary := one_line(summary_of(row)):
        yield (inside, _fit(f"Summary: {summary}", columns - len(inside)))


def _brief(number: int, row: Row, columns: int) -> Iterator[_Line]:
    head = f"{number:>2}. [{fit(one_line(row.kind), 13)}] "
    state = f"  {_since(row)}, {row.status}"
    room = columns - width(head) - len(state)
    if room < _SHORTEST_TITLE:
        state, room = "", columns - width(head)
    yield (head, Styled(_fit(row.title or "-", room), "bold"), Styled(state, "dim"))
    if summary := one_line(summary_of(row)):
        yield ("    ", _fit(f"Summary: {summary}", columns - 4))


def _fit(text: str, columns: int) -> str:
    return fit(text, columns) if columns > 0 else text


def _since(row: Row) -> str:
    return ago(row.active / 1000) or "-"
