"""Leaving on purpose, by a command or by Ctrl+D, while the last answer is not saved: the user is asked first.

Only somebody at a terminal is asked. A signal, and the end of what is piped in, leave at once: then it is
tried a last time to save the answer, and the exit code says if that failed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure.errors import PerdureError
from perdure.front.visible import one_line

if TYPE_CHECKING:
    from perdure.front.shell import Shell


async def leave_on_purpose(shell: Shell) -> None:
    if await _may_leave(shell):
        shell.leave(0)


async def _may_leave(shell: Shell) -> bool:
    """True if nothing would be lost, or if the user says so. A turn that is under way keeps what it has."""
    if not shell.is_talking or not shell.out.has_echo or shell.conversation.is_turn:
        return True
    if not shell.conversation.agent.has_unsaved:
        return True
    try:
        await shell.conversation.save()
        return True
    except PerdureError as error:
        question = one_line(f"The last answer is not saved ({error.message}). Leave and lose it?")
    words = ("yes", "no")
    answer = await shell.face.aside(lambda: shell.out.choose(question, words, "no", in_conversation=True))
    if answer is None and not shell.face.is_drawn:  # as of a terminal that is gone: nobody answers there
        return True
    return answer == "yes" and shell.leaves_with is None
