"""A damaged session is repaired before somebody goes on in it: all that is complete in it is kept, and the
file as it was stays beside it."""

from __future__ import annotations

from perdure import config
from perdure.agent.aside import in_thread
from perdure.front.amounts import counted
from perdure.front.opening import Meant
from perdure.front.output import Styled
from perdure.front.shell import Shell
from perdure.front.visible import one_line
from perdure.session.stores.whole_file import WholeFileStore


async def mend(shell: Shell, meant: Meant) -> None:
    """Repair the session, and name its damage and the file that was set aside. A sound one stays as it is."""
    assert isinstance(meant.store, WholeFileStore)
    before = await in_thread(meant.store.read, meant.ref)
    repaired = await in_thread(meant.store.mend, meant.ref) if before.problems else None
    if repaired is not None:
        messages = sum(entry.type == "message" for entry in before.entries)
        notices = [
            *(f"Damaged: {problem.brief}" for problem in before.problems[:1]),
            f"Repaired: {counted(messages, 'message')} kept. "
            f"The file as it was: {config.as_typed(repaired.aside)}",
        ]
        for notice in notices:
            shell.face.note(Styled(one_line(notice), "yellow"))
