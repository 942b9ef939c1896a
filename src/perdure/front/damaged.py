"""Sessions that a listing cannot show, named with what is wrong with them: one never hides another."""

from __future__ import annotations

from perdure.front.amounts import counted
from perdure.front.output import Styled
from perdure.front.visible import one_line

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.front.output import Output


def note_damaged(problems: Mapping[str, str], out: Output) -> None:
    """By their ids."""
    for id, problem in problems.items():
        out.note(Styled(one_line(f"Damaged: {id}: {problem}"), "yellow"))
    if problems:
        out.note(f"{counted(len(problems), 'session')} damaged; `pi sessions doctor` says more.")
