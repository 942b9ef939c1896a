"""What can be typed in `soleur`'s conversation; see `front.slash` for what a command is."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from types import SimpleNamespace

from perdure import config
from perdure.agent.aside import in_thread
from perdure.errors import Ambiguous, NotFound, PerdureError, UsageError
from perdure.front.amounts import size
from perdure.front.output import Styled
from perdure.front.shell import Shell
from perdure.front.visible import one_line
from perdure.programs.soleur import attached, listing
from perdure.programs.soleur import decisions as decided
from perdure.programs.soleur.ledger import Known
from perdure.programs.soleur.notebook import Notebook
from perdure.programs.soleur.talk import Soleur
from perdure.session import reference
from perdure.session.layouts import Home


def _of(shell: Shell) -> tuple[Soleur, Notebook]:
    assert isinstance(shell.profile, Soleur)
    return shell.profile, shell.profile.notebook(shell.conversation)


# --- files -----------------------------------------------------------------------------------------------


async def context(shell: Shell, arguments: str) -> None:
    profile, notebook = _of(shell)
    if not arguments:
        if not notebook.parts:
            raise UsageError("/context needs a file", "as in /context docs/plan.md")
        for part in notebook.parts:
            shell.face.line(f"{one_line(part.name)}, {size(len(part.content.encode()))}")
        return
    await profile.attach(shell, await in_thread(attached.read, arguments, shell.cwd, notebook.parts))
    await profile.wait_if_nothing_was_said(shell)


async def start(shell: Shell, arguments: str) -> None:
    profile, notebook = _of(shell)
    if not notebook.parts:
        raise UsageError("There is nothing to begin with", "attach a file first: /context README.md")
    await profile.open_if_nothing_was_said(shell)


async def detach(shell: Shell, arguments: str) -> None:
    profile, notebook = _of(shell)
    if not arguments:
        raise UsageError("/detach needs the name of an attached file", "/context lists them")
    await profile.detach(shell, attached.named(arguments, shell.cwd, notebook.parts))


def paths(shell: Shell, typed: str) -> Iterable[str]:
    folder, name = os.path.split(typed)
    try:
        found = sorted(
            os.scandir(os.path.join(shell.cwd, config.expanded_to_read(folder))), key=lambda each: each.name
        )
    except (OSError, ValueError):
        return
    for each in found:
        path = os.path.join(folder, each.name) + ("/" if each.is_dir() else "")
        # What is hidden is wanted by who types its dot; what cannot be seen is chosen by nobody.
        if path.isprintable() and each.name.startswith(name or each.name.lstrip(".")):
            yield path


def attached_names(shell: Shell, typed: str) -> Iterable[str]:
    _, notebook = _of(shell)
    return (part.name for part in notebook.parts if part.name.startswith(typed) and part.name.isprintable())


# --- decisions -------------------------------------------------------------------------------------------


async def decide(shell: Shell, arguments: str) -> None:
    profile, notebook = _of(shell)
    if not arguments:
        raise UsageError("/decide needs a decision", "as in /decide We charge per seat. #pricing")
    decision = await in_thread(notebook.decision, arguments)
    if decision is None:
        return shell.face.note(Styled("That is recorded already.", "dim"))
    await profile.record(shell.conversation, decision.body)
    notebook.keep(decision)
    await profile.tell_of(shell.conversation, [decision])


async def undecide(shell: Shell, arguments: str) -> None:
    """The session keeps its record of the decision, and notes that it was withdrawn."""
    profile, notebook = _of(shell)
    if not arguments:
        raise UsageError("/undecide needs a decision", "/decisions lists them with their numbers")
    known = await in_thread(notebook.known)
    try:
        wanted = _chosen(arguments, known, notebook.numbered)
    except Ambiguous:
        notebook.numbered = known  # the error names them with these numbers
        raise
    await in_thread(notebook.check_withdrawable, wanted.content)
    await profile.record(shell.conversation, decided.undecided(wanted.content))
    try:
        aside = await in_thread(notebook.withdraw, wanted.content)
    finally:
        shell.conversation.agent.tell(*await in_thread(notebook.told))
    shell.face.note(Styled(one_line(f"Withdrawn: {wanted.content}"), "green"))
    if aside:
        shell.face.note(Styled(one_line(f"The ledger as it was: {config.as_typed(aside)}"), "dim"))


def _chosen(text: str, known: Sequence[Known], numbered: Sequence[Known]) -> Known:
    """The decision of this number, or of this text: all of it, or a part that only one has. Numbers are those
    of the list that was last shown, if one was."""
    numbered = numbered or known
    is_number = text.isdecimal() and len(text) < 10 and 0 < int(text) <= len(numbered)
    like = decided.likeness(numbered[int(text) - 1].content if is_number else text)
    found = [each for each in known if decided.likeness(each.content) == like]
    if not found and not is_number:
        found = [each for each in known if like in decided.likeness(each.content)]
    if not found:
        raise NotFound("Decision", one_line(text), hint="/decisions lists them with their numbers")
    if len(found) > 1:
        candidates = [f"{known.index(each) + 1} ({one_line(each.content)})" for each in found]
        raise Ambiguous(text, candidates, "decisions")
    return found[0]


async def decisions(shell: Shell, arguments: str) -> None:
    _, notebook = _of(shell)
    listed = await in_thread(notebook.listed)
    if notebook.unreadable is not None:
        shell.face.note(Styled(one_line(notebook.unreadable.said), "yellow"))
    await shell.face.aside(lambda: listing.show_decisions(listed, shell.out, tag=arguments, is_numbered=True))


def tags(shell: Shell, typed: str) -> Iterable[str]:
    _, notebook = _of(shell)
    every = sorted({f"#{tag}" for each in notebook.known() for tag in each.tags})
    return (tag for tag in every if tag.startswith(typed) and tag.isprintable())


async def autorecord(shell: Shell, arguments: str) -> None:
    profile, notebook = _of(shell)
    if arguments:
        if arguments not in switch(shell, ""):
            raise UsageError(f"/autorecord is on or off, not {arguments!r:.40}", "as in /autorecord off")
        is_on = arguments == "on"
        if is_on != notebook.autorecords:
            notebook.autorecords = is_on
            notebook.is_switched = True  # recorded with what comes first: an empty session stays empty
            if await in_thread(lambda: shell.conversation.session.entries):
                await profile.record(shell.conversation)
    are = "are recorded" if notebook.autorecords else "are not recorded"
    shell.face.note(Styled(f"Decisions in answers {are}.", "dim"))


def switch(shell: Shell, typed: str) -> Iterable[str]:
    return ("on", "off")


# --- sessions --------------------------------------------------------------------------------------------


async def new_session(shell: Shell, arguments: str) -> None:
    profile, _ = _of(shell)
    meant = await profile.begin_anew(shell)
    if meant is not None and await shell.open(meant, model=shell.conversation.model_for_another):
        await shell.ready()
        await profile.open_if_nothing_was_said(shell)


async def sessions(shell: Shell, arguments: str) -> None:
    await shell.face.aside(lambda: listing.sessions(SimpleNamespace(), shell.out))


async def load_session(shell: Shell, arguments: str) -> None:
    profile, _ = _of(shell)
    if not arguments:
        raise UsageError("/load needs a session", "/sessions lists them")
    meant = await in_thread(profile.found, arguments)
    if await shell.change_to(meant):
        await shell.ready()
        await profile.open_if_nothing_was_said(shell)


def ids(shell: Shell, typed: str) -> Iterable[str]:
    profile, _ = _of(shell)
    found = reference.listed([Home("soleur", profile.home)])
    return (ref.id for _, ref in found if ref.id.startswith(typed))


async def save(shell: Shell, arguments: str) -> None:
    conversation = shell.conversation
    await conversation.save()
    if conversation.session.is_empty and not conversation.is_said:
        raise UsageError("There is nothing to save yet", "say something first")
    await conversation.look_on_disk()
    if conversation.refusal is not None:
        raise PerdureError(f"Not all is saved: {conversation.refusal.message}", "send it again")
    shell.face.line(f"Session saved: {conversation.session.id}")
    shell.face.note(Styled(config.as_typed(conversation.session.ref.path), "dim"))
