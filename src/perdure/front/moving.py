"""A session of another directory: go there, bring it here as a fork, or stay."""

from __future__ import annotations

import os
from typing import Literal

from perdure import config
from perdure.front.face import Face
from perdure.front.opening import Meant
from perdure.front.output import Styled
from perdure.front.visible import one_line

Where = Literal["go", "fork", "stay"]


def elsewhere(meant: Meant, here: str) -> str:
    """The directory of its project, if that is another one than this."""
    cwd = meant.header.cwd
    return cwd if cwd and os.path.realpath(cwd) != os.path.realpath(here) else ""


async def ask(other: str, here: str, face: Face) -> Where | None:
    """None if its user wants none of that. Where nobody can be asked, it stays, and says so."""
    there, this = one_line(config.as_typed(other)), one_line(config.as_typed(here))
    if not face.is_drawn:
        face.note(Styled(f"This session belongs to {there}; staying in {this}.", "yellow"))
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
