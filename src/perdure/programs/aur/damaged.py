"""A session with lines that cannot be read: its user is shown what could be kept, once, and decides.

Only what a crash left of the last line needs no decision. It is set aside as a repair sets everything aside,
before more is written behind it.
"""

from __future__ import annotations

import shlex
from contextlib import suppress
from typing import NamedTuple

from perdure import config
from perdure.agent.aside import in_thread
from perdure.errors import Held, PerdureError
from perdure.front.amounts import counted
from perdure.front.opening import Meant
from perdure.front.output import Output, Styled
from perdure.front.shell import Shell
from perdure.front.visible import one_line
from perdure.session.stores import Found, Problem, Repaired, Store
from perdure.session.stores.file_store import FileStore

_QUESTION = "recover / delete / leave?"
_MOST_SHOWN = 10


class Damage(NamedTuple):
    problems: list[Problem]
    turns: int
    """Those that can be read."""

    @property
    def is_torn_end(self) -> bool:
        return all(problem.is_torn_end for problem in self.problems)


def look(store: Store, ref: Found) -> Damage:
    page = store.read(ref)
    turns = sum(entry.role in ("user", "assistant", "system") for entry in page.entries)
    return Damage(page.problems, turns)


async def may_go_on(shell: Shell, meant: Meant) -> bool:
    """Whether the session can be opened: it is sound, or it is by now. False if it was deleted."""
    store, ref = meant.store, meant.ref
    damage = await in_thread(look, store, ref)
    if not damage.problems:
        return True
    if damage.is_torn_end:
        with suppress(Held):  # whoever holds it may be writing that line
            if repaired := await in_thread(store.repair, ref):
                said = f"{damage.problems[0].brief}; it is kept in {config.as_typed(repaired.aside)}"
                shell.face.note(Styled(one_line(said[:1].upper() + said[1:]), "yellow"))
        return True
    for line in told(ref, damage):
        shell.face.note(Styled(one_line(line), "yellow"))
    match await _decision(shell):
        case "recover":
            shell.face.line(recovered(await in_thread(store.repair, ref), ref))
            return True
        case "delete":
            delete(store, ref, shell.out)
            return False
    hint = f"`aur spawn --recover {shlex.quote(ref.id)}` keeps what can be read of it"
    raise PerdureError(one_line(f"Session {ref.id} is damaged, and was left as it is"), hint)


async def _decision(shell: Shell) -> str | None:
    if shell.leaves_with is not None:
        return None
    words = ("recover", "delete", "leave")
    return await shell.face.aside(lambda: shell.out.choose(_QUESTION, words, "leave", in_conversation=True))


def told(ref: Found, damage: Damage) -> list[str]:
    """What is wrong with it, and what a repair would keep."""
    lines = len({problem.line for problem in damage.problems})
    shown = damage.problems[:_MOST_SHOWN]
    more = len(damage.problems) - len(shown)
    return [
        f"{config.as_typed(ref.path)} is damaged in {counted(lines, 'line')}:",
        *(f"  {problem.brief}" for problem in shown),
        *([f"  … and {more:,} more"] if more else []),
        f"Recovering keeps {counted(damage.turns, 'turn')} and all else that can be read, leaves out what "
        "cannot be, and sets the file aside as it is now.",
    ]


def recovered(repaired: Repaired | None, ref: Found) -> str:
    if repaired is None:  # another process was quicker
        return f"Session {ref.id} is sound; nothing was to be done."
    kept = f"{repaired.entries:,} {'entry' if repaired.entries == 1 else 'entries'}"
    return (
        f"Recovered session {ref.id}: {kept} kept; what was there before: {config.as_typed(repaired.aside)}"
    )


def delete(store: Store, ref: Found, out: Output) -> None:
    assert isinstance(store, FileStore)
    store.delete(ref)
    out.line(one_line(f"Deleted session {ref.id}; restore: pi sessions restore {shlex.quote(ref.id)}"))
    out.flush()
