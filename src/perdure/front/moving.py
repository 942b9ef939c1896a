"""A session of another directory: go there, bring it here as a fork, or stay."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

from perdure import config
from perdure.front.opening import Meant
from perdure.front.output import Styled
from perdure.front.visible import fit

if TYPE_CHECKING:
    from perdure.front.face import Face

_LONGEST_SHOWN = 200
"""Columns of a directory's path."""

Where = Literal["go", "fork", "stay"]


def elsewhere(meant: Meant, here: str) -> str:
    """The directory of its project, as the session names it, if that is another one than this."""
    cwd = config.checked_path(meant.header.cwd)
    return "" if cwd and config.real_path(cwd) == config.real_path(here) else meant.header.cwd


def stays(other: str, here: str) -> str:
    """What is said where nobody can be asked."""
    return f"This session belongs to {_shown(other)}; staying in {_shown(here)}."


def _shown(directory: str) -> str:
    return fit(config.as_typed(directory), _LONGEST_SHOWN)


async def ask(other: str, here: str, face: Face) -> Where | None:
    """None if its user wants none of that. Where nobody can be asked, it stays, and says so."""
    there, this = _shown(other), _shown(here)
    if not face.is_drawn:
        face.note(Styled(stays(other, here), "yellow"))
        return "stay"
    from perdure.front.choosing import Choice

    is_there = os.path.isdir(other)
    choices = [
        Choice("go", "Go there", f"and work in {there}"),
        Choice("fork", "Bring it here as a fork", f"a copy goes on in {this}"),
        Choice("stay", "Stay here", f"the same session goes on, and works in {this}"),
    ]
    gone = "" if is_there else ", which is not there any more"
    chosen = await face.choose(
        f"This session belongs to {there}{gone}.", choices if is_there else choices[1:], can_filter=False
    )
    match chosen:
        case "go" | "fork" | "stay":
            return chosen
    return None
