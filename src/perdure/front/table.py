"""Rows in columns: aligned, and at a terminal no wider than it."""

from __future__ import annotations

from perdure.front.output import Styled, coloured
from perdure.front.visible import are_plain, one_line, pad, width

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perdure.front.output import Output

_GAP = "  "
_NARROWEST = 8


def number(count: int | None) -> str:
    """`3,000`; `?` where nobody counted."""
    return "?" if count is None else f"{count:,}"


def table(
    out: Output,
    heads: Sequence[str],
    rows: Sequence[Sequence[str | Styled]],
    *,
    flexible: int,
    right: Sequence[int] = (),
    below: Sequence[str] = (),
    spare: Sequence[Sequence[int]] = (),
    is_paged: bool = False,
) -> Sequence[int]:
    """Print them under their heads. At a terminal the `flexible` column gives up what does not fit, and of
    the `spare` ones, the most wanted first, those are left out that do not; through a pipe nothing is cut.
    `right` are columns of numbers, `below` has a line of text for each row, or none. `is_paged` shows what is
    longer than the screen from its beginning, in a pager. Returns the columns shown."""
    columns = [_Column(cells) for cells in zip(heads, *rows, strict=True)]
    kept: Sequence[int] = range(len(heads))
    if out.is_terminal and spare:
        kept = _fitting([each.width for each in columns], out.columns, flexible, spare)
    if out.is_terminal and flexible in kept:
        others = sum(columns[at].width for at in kept if at != flexible) + len(_GAP) * (len(kept) - 1)
        columns[flexible].narrow(out.columns - others)
    shown = [columns[at].padded(right=at in right, is_last=at == kept[-1]) for at in kept]
    if out.colour:
        styles = [["dim", *(getattr(row[at], "style", "") for row in rows)] for at in kept]
        shown = [[*map(coloured, *each)] for each in zip(shown, styles, strict=True)]
    lines = [*map(_GAP.join, zip(*shown, strict=True))]
    if any(below):
        indent = " " * columns[kept[0]].width
        lines = [
            line
            for row, why in zip(lines, ("", *below), strict=True)
            for line in (row, *([_below(f"{indent}{_GAP}! {one_line(why)}", out)] if why else ()))
        ]
    if is_paged:
        out.page("\n".join(lines))
    else:
        out.visible_lines(lines)
    return kept


class _Column:
    """Its cells, each on one line. Most are ASCII without exception: those are cleaned, measured and padded
    without a look at each character. The others are measured when their width is asked for: through a pipe
    that of the last column, which has the titles, never is."""

    def __init__(self, cells: Iterable[str | Styled]) -> None:
        self._texts = [cell.text if isinstance(cell, Styled) else cell for cell in cells]
        self._is_plain = are_plain(self._texts)
        if not self._is_plain:
            self._texts = [*map(one_line, self._texts)]
        self._width = -1
        self._is_cut = False

    @property
    def width(self) -> int:
        if self._width < 0:
            self._width = max(map(len if self._is_plain else width, self._texts))
        return self._width

    def narrow(self, columns: int) -> None:
        """To that many, if it can be."""
        if columns < self.width:
            self._width = max(min(_NARROWEST, self.width), columns)
            self._is_cut = True

    def padded(self, *, right: bool, is_last: bool) -> list[str]:
        if is_last and not right and not self._is_cut:
            texts = self._texts
        elif self._is_plain and not self._is_cut:
            texts = [each.rjust(self.width) if right else each.ljust(self.width) for each in self._texts]
        else:
            texts = [pad(each, self.width, right=right) for each in self._texts]
        return [each.rstrip() for each in texts] if is_last else texts


def _below(text: str, out: Output) -> str:
    text = pad(text, out.columns).rstrip() if out.is_terminal else text
    return coloured(text, "yellow") if out.colour else text


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
