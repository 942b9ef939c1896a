"""Rows in columns: aligned, and at a terminal no wider than it."""

from __future__ import annotations

from perdure.front.output import Styled
from perdure.front.visible import one_line, pad, width

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.front.output import Output

_GAP = "  "
_NARROWEST = 8


def table(
    out: Output,
    heads: Sequence[str],
    rows: Sequence[Sequence[str | Styled]],
    *,
    flexible: int,
    right: Sequence[int] = (),
    below: Sequence[str] = (),
    spare: Sequence[Sequence[int]] = (),
) -> Sequence[int]:
    """Print them under their heads. At a terminal the `flexible` column gives up what does not fit, and of
    the `spare` ones, the most wanted first, those are left out that do not; through a pipe nothing is cut.
    `right` are columns of numbers, `below` has a line of text for each row, or none. Returns the columns
    shown."""
    cells = [[one_line(cell.text if isinstance(cell, Styled) else cell) for cell in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(heads, *cells, strict=True)]
    kept: Sequence[int] = range(len(heads))
    if out.is_terminal and spare:
        kept = _fitting(widths, out.columns, flexible, spare)
        heads, rows = [heads[at] for at in kept], [[row[at] for at in kept] for row in rows]
        widths = [widths[at] for at in kept]
        right = [kept.index(at) for at in right if at in kept]
        flexible = kept.index(flexible) if flexible in kept else -1
    if out.is_terminal and flexible >= 0:
        others = sum(widths) - widths[flexible] + len(_GAP) * (len(heads) - 1)
        least = min(_NARROWEST, widths[flexible])
        widths[flexible] = max(least, min(widths[flexible], out.columns - others))
    _line(out, [Styled(head, "dim") for head in heads], widths, right)
    for at, row in enumerate(rows):
        _line(out, row, widths, right)
        if below and below[at]:
            text = f"{' ' * widths[0]}{_GAP}! {one_line(below[at])}"
            out.line(Styled(pad(text, out.columns).rstrip() if out.is_terminal else text, "yellow"))
    return kept


def _fitting(
    widths: Sequence[int], columns: int, flexible: int, spare: Sequence[Sequence[int]]
) -> Sequence[int]:
    least = [min(_NARROWEST, each) if at == flexible else each for at, each in enumerate(widths)]
    kept = {at for at in range(len(widths)) if not any(at in group for group in spare)}
    for group in spare:
        wanted = kept.union(group)
        if sum(least[at] for at in wanted) + len(_GAP) * (len(wanted) - 1) <= columns:
            kept = wanted
    return sorted(kept)


def _line(out: Output, row: Sequence[str | Styled], widths: Sequence[int], right: Sequence[int]) -> None:
    parts: list[str | Styled] = []
    for at, cell in enumerate(row):
        text = one_line(cell.text if isinstance(cell, Styled) else cell)
        is_last = at == len(row) - 1
        shown = pad(text, widths[at], right=at in right)
        shown = shown.rstrip() if is_last else shown
        parts.append(Styled(shown, cell.style) if isinstance(cell, Styled) else shown)
        parts.append("" if is_last else _GAP)
    out.line(*parts)
