"""What can be typed in `aur`'s conversation; see `front.slash` for what a command is."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable

from perdure import config
from perdure.agent.aside import in_thread
from perdure.errors import PerdureError, UsageError
from perdure.front import recalling
from perdure.front.amounts import counted
from perdure.front.facts import facts
from perdure.front.output import Styled
from perdure.front.shell import Shell
from perdure.front.slash import redaction, typed_file
from perdure.front.visible import one_line
from perdure.programs.aur import agents, imported
from perdure.programs.aur.budget import WHAT_IS_SENT
from perdure.programs.aur.talk import Aurora, count_of_turns
from perdure.session.entry import Entry
from perdure.session.session import Session

_SHOWN = 10
"""Turns, if nobody says how many."""


def _of(shell: Shell) -> Aurora:
    assert isinstance(shell.profile, Aurora)
    return shell.profile


# --- files -----------------------------------------------------------------------------------------------


async def save(shell: Shell, arguments: str) -> None:
    await _write(shell, "save", arguments, "md")


async def export(shell: Shell, arguments: str) -> None:
    await _write(shell, "export", arguments, "json")


async def _write(shell: Shell, name: str, arguments: str, to: str) -> None:
    from perdure.front.commands.export import document, refuse_homes

    session, store = shell.conversation.session, shell.conversation.meant.store
    is_redacted, arguments = redaction(arguments)
    path = _path(name, arguments, to)
    if session.is_empty:
        raise UsageError(f"There is nothing to {name} yet", "say something first")
    await in_thread(refuse_homes, path, store)
    is_there = os.path.lexists(path) and not os.path.isdir(path)
    if is_there and not await _may_replace(shell, path):
        return shell.face.note(Styled("Nothing was written.", "dim"))
    await document(shell, to, path, is_redacted=is_redacted, may_replace=is_there)


async def _may_replace(shell: Shell, path: str) -> bool:
    question = one_line(f"{path} is there already. Replace it?")
    answer = await shell.face.aside(
        lambda: shell.out.choose(question, ("yes", "no"), "no", in_conversation=True)
    )
    return answer == "yes"


async def take_in(shell: Shell, arguments: str) -> None:
    path = _path("import", arguments, "json")
    bodies = await in_thread(imported.turns_of, path)
    if not bodies:
        raise UsageError(f"Nothing was said in {config.as_typed(path)}", "give another file")
    await _of(shell).leave_out_what_failed(shell.conversation)
    await shell.conversation.record(*bodies)
    what = f"{counted(len(bodies), 'message')} from {config.as_typed(path)}"
    shell.face.note(one_line(f"Imported {what}; what is said next comes after them."))
    await _of(shell).answered(shell.conversation)


def _path(name: str, arguments: str, ending: str) -> str:
    if not arguments:
        raise UsageError(f"/{name} needs a file", f"as in /{name} talk.{ending}")
    config.here()  # a name is looked for there
    return config.expanded(typed_file(arguments))


# --- the conversation ------------------------------------------------------------------------------------


async def history(shell: Shell, arguments: str) -> None:
    if arguments and not re.fullmatch(r"[1-9][0-9]{0,8}", arguments):
        raise UsageError("/history takes a number of turns", "as in /history 4")
    last = await in_thread(_last_turns, shell.conversation.session, int(arguments or _SHOWN))
    if not last:
        return shell.face.note(Styled("Nothing was said yet.", "dim"))
    recalling.show(last, shell.face, is_over=not shell.conversation.is_turn)


def _last_turns(session: Session, count: int) -> list[Entry]:
    """With what tools did in them."""
    said = [entry for entry in session.path() if entry.type == "message"]
    turns = [at for at, entry in enumerate(said) if entry.role in ("user", "assistant", "system")]
    return said[turns[-count] if count <= len(turns) else 0 :]


async def clear(shell: Shell, arguments: str) -> None:
    conversation = shell.conversation
    if conversation.session.is_empty:
        raise UsageError("There is nothing to clear yet", "say something first")
    await conversation.save()
    await conversation.agent.reset()
    _of(shell).budget.begin_anew()
    shell.face.note(Styled("From here on it is a new conversation; all that was said stays stored.", "dim"))


async def stats(shell: Shell, arguments: str) -> None:
    profile, conversation = _of(shell), shell.conversation
    seen = Session.view(conversation.meant.store, conversation.session.ref)  # a turn may use the other one
    found = await in_thread(facts, seen)
    weighed = await profile.budget.weigh(conversation.agent)
    minutes, seconds = divmod(int(time.monotonic() - profile.begun), 60)
    used = f"about {weighed.tokens:,} of {weighed.limit:,} tokens ({weighed.share:.1f}%)"
    sent = f"at most {WHAT_IS_SENT}" if weighed.is_cut else "all turns"
    known = {
        "Session": found["Session"],
        "Agent": profile.agent_name,
        "Model": conversation.agent.model.reference,
        "Turns": f"{await in_thread(count_of_turns, seen):,}",
        "Tokens": found.get("Tokens", "0"),
        "Cost": found.get("Cost", "$0.0000"),
        "Context": f"{used}; sent: {sent}",
        "Duration": f"{minutes // 60}:{minutes % 60:02}:{seconds:02}, begun {found.get('Begun', 'just now')}",
    }
    widest = max(map(len, known))
    for name, fact in known.items():
        shell.face.line(Styled(f"{name:{widest}}  ", "dim"), one_line(fact))


async def agent(shell: Shell, arguments: str) -> None:
    if not arguments:
        return await _list_agents(shell)
    found = await in_thread(agents.find, arguments, shell.cwd)
    await _of(shell).change_agent(shell.conversation, found)
    shell.face.note(Styled(f"{found.name} answers from now on.", "dim"))


async def _list_agents(shell: Shell) -> None:
    there = await in_thread(agents.known, shell.cwd)
    widest = max(map(len, there))
    for name in there:
        mark = "*" if name == _of(shell).agent_name else " "
        about = await _about(shell, name)
        shell.face.line(Styled(f"{mark} {name:{widest if about else 0}}", "cyan"), about)


async def _about(shell: Shell, name: str) -> str:
    try:
        about = (await in_thread(agents.find, name, shell.cwd)).about
    except PerdureError as error:
        about = error.message
    return f"  {one_line(about)}" if about else ""


def names(shell: Shell, typed: str) -> Iterable[str]:
    return (name for name in agents.known(shell.cwd) if name.startswith(typed))
