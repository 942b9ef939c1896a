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
from perdure.front.output import Styled
from perdure.front.shell import Shell
from perdure.front.visible import one_line
from perdure.programs.aur import recovering, removing
from perdure.session.stores import Excerpt, Found, Page, Problem
from perdure.session.stores.file_store import FileStore
from perdure.session.stores.jsonl import JsonlStore

_QUESTION = "recover / delete / leave?"


class Damage(NamedTuple):
    problems: list[Problem]
    turns: int | None
    """Those that can be read; None where that is not known."""
    is_torn_end: bool
    """Whether it is no more than what a crash leaves."""


def look(store: FileStore, ref: Found) -> Damage:
    """Of a large session the beginning and the end are looked at: to read all of it takes long."""
    turns = None
    seen: Page | Excerpt | None = store.excerpt(ref)
    if seen is None:
        seen = store.read(ref)
        turns = sum(entry.role in ("user", "assistant", "system") for entry in seen.entries)
    is_begun = bool(seen.header.timestamp)  # else its first line is the damaged one
    return Damage(seen.problems, turns, is_begun and all(each.is_torn_end for each in seen.problems))


async def may_go_on(shell: Shell, meant: Meant) -> bool:
    """Whether the session can be opened: it is sound, or it is by now. False if it was deleted."""
    store, ref = meant.store, meant.ref
    assert isinstance(store, JsonlStore)
    damage = await in_thread(look, store, ref)
    if not damage.problems:
        return True
    if damage.is_torn_end:
        with suppress(Held):  # whoever holds it may be writing that line
            if aside := await in_thread(_set_torn_end_aside, store, ref, damage):
                said = f"{damage.problems[0].brief}; it is kept in {config.as_typed(aside)}"
                shell.face.note(Styled(one_line(said[:1].upper() + said[1:]), "yellow"))
        return True
    for line in told(ref, damage):
        shell.face.note(Styled(line, "yellow"))
    match await _decision(shell):
        case "recover":
            await shell.face.aside(lambda: recovering.mend(store, ref, shell.out))
            return True
        case "delete":
            await shell.face.aside(lambda: removing.delete(store, ref, shell.out))
            return False
    hint = f"`aur spawn --recover {shlex.quote(ref.id)}` keeps what can be read of it"
    raise PerdureError(one_line(f"Session {ref.id} is damaged, and was left as it is"), hint)


def _set_torn_end_aside(store: JsonlStore, ref: Found, damage: Damage) -> str | None:
    """Where it is kept. A repair has all of a session in memory, which would be much of a large one."""
    is_large = damage.turns is None
    if is_large and (aside := store.set_torn_end_aside(ref)):
        return aside
    repaired = store.repair(ref)
    return repaired.aside if repaired else None


async def _decision(shell: Shell) -> str | None:
    if shell.leaves_with is not None:
        return None
    words = ("recover", "delete", "leave")
    return await shell.face.aside(lambda: shell.out.choose(_QUESTION, words, "leave", in_conversation=True))


def told(ref: Found, damage: Damage) -> list[str]:
    """What is wrong with it, and what a repair would keep."""
    lines = len({each.line for each in damage.problems if each.line})
    lines += sum(each.stands_for for each in damage.problems if not each.line)
    kept = "all" if damage.turns is None else f"{counted(damage.turns, 'turn')} and all else"
    return [
        one_line(f"{config.as_typed(ref.path)} is damaged in {counted(lines, 'line')}:"),
        *(f"  {line}" for line in recovering.shown([problem.brief for problem in damage.problems])),
        f"Recovering keeps {kept} that can be read, leaves out what cannot be, and sets the file aside as it "
        "is now.",
    ]
