"""`cortext`, `cortext start` and `cortext resume`, and what can be typed in the conversation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import SimpleNamespace

from perdure.agent.aside import in_thread
from perdure.errors import Ambiguous, Held, NotFound, UsageError
from perdure.front import repl, starting, trusting
from perdure.front.output import Copyable, Output, Styled
from perdure.front.shell import Shell
from perdure.front.visible import one_line
from perdure.programs.cortext import listing, pausing, prompt_file, selection
from perdure.programs.cortext.profile import Cortext, is_silent, resume_line
from perdure.programs.cortext.workspace import Workspace
from perdure.session.catalog import Row
from perdure.session.ids import nearest
from perdure.session.stores import open_store


def alone(options: SimpleNamespace, out: Output) -> int:
    return _talk(_profile(options, Workspace.around(), out), out)


def start(options: SimpleNamespace, out: Output) -> int:
    profile = _profile(options, Workspace.around(), out)
    facts = profile.facts(options.type, " ".join(options.title))
    if notice := profile.notice_of_folder(options.type):
        out.note(Styled(notice, "yellow"))
    profile.starts_with = profile.made(facts)
    return _talk(profile, out)


def resume(options: SimpleNamespace, out: Output) -> int:
    if options.json:
        raise UsageError("--json goes with --list", "cortext resume --list --json")
    workspace = Workspace.around()
    row = _wanted(options, workspace, out)
    if row is None or not _may_reopen(row, options.force, out):
        return 0
    profile = _profile(options, workspace, out)
    tool = options.tool or profile.tool
    if tool != "builtin":
        from perdure.programs.cortext import launching

        return launching.launch(tool, profile.resumed(row, options.type), profile, out)
    profile.starts_with = profile.resumed(row, options.type)
    return _talk(profile, out)


def _profile(options: SimpleNamespace, workspace: Workspace, out: Output) -> Cortext:
    """What the workspace itself sets counts if its user trusts it, which is asked before anything else."""
    prompt_file.remove_left_behind(workspace.path)
    for error in workspace.passed_over:
        out.note(Styled(one_line(error.message), "yellow"))
    trusting.ask(workspace.path, out, may_ask=True)
    profile = Cortext(options, workspace)
    profile.asked_about.add(workspace.path)
    return profile


def _talk(profile: Cortext, out: Output) -> int:
    profile.workspace.remember()
    return repl.talk(profile, out, starting.in_directory(profile.workspace.path))


def _wanted(options: SimpleNamespace, workspace: Workspace, out: Output) -> Row | None:
    """The conversation that is meant; None if its user wants none after all."""
    everything = listing.rows(workspace, out, status=options.status)
    among = _of_type(everything, options.type)
    text = " ".join(options.text)
    if row := selection.of_number(text, among):
        return row
    if selection.asks_again(text, among, workspace, out):
        text = ""
    if text:
        hint = "`cortext resume --list` shows all"
        found = _found(text, everything, options.type, workspace, out, hint)
        if len(found) == 1:
            return found[0]
        among = found
    if not among:
        out.line(listing.NONE)
        return None
    row = selection.chosen(among, workspace, out)
    if text and row is None and not out.can_ask:
        raise Ambiguous(text, [each.id for each in among], "conversations")
    return row


def _of_type(rows: Sequence[Row], kind: str) -> Sequence[Row]:
    return [row for row in rows if kind in ("", row.kind)]


def _found(
    text: str, everything: Sequence[Row], kind: str, workspace: Workspace, out: Output, listed: str
) -> list[Row]:
    """Those that may be meant: one at least. Of a type, or, as they can only be opened as another, of those
    whose type has no prompt any more."""
    among = _of_type(everything, kind)
    found = selection.matching(text, among, workspace, out)
    if not found and kind:
        types = workspace.types
        among = [row for row in everything if row.kind not in types]
        found = selection.matching(text, among, workspace, out)
    if not found:
        known = [name for row in among for name in (row.id, row.id.rpartition("/")[2])]
        near = nearest(text, known)
        raise NotFound("Session", text, near, hint="" if near else listed)
    return found


def _may_reopen(row: Row, force: bool, out: Output) -> bool:
    if row.status != "completed" or force:
        return True
    out.note(Styled(one_line(f'"{row.title}" was marked complete.'), "yellow"))
    return bool(out.ask("Reopen it?"))


# --- what can be typed -----------------------------------------------------------------------------------


async def begin(shell: Shell, arguments: str) -> None:
    """`arguments` are the type and the title."""
    kind, _, title = arguments.partition(" ")
    profile = _of(shell)
    facts = await in_thread(profile.facts, kind, title)
    if notice := await in_thread(profile.notice_of_folder, kind):
        shell.face.note(Styled(notice, "yellow"))
    await _leave_for_another(shell)
    await shell.open(await in_thread(profile.made, facts), **profile.wishes)


async def resume_one(shell: Shell, arguments: str) -> None:
    profile = _of(shell)
    kind, text = _type_and_text(arguments)
    row = await shell.face.aside(lambda: _picked(shell, kind, text))
    if row is None:
        return
    if shell.is_talking and row.path == shell.conversation.session.ref.path:
        return shell.face.note(Styled("That is this conversation.", "dim"))
    if not await shell.face.aside(lambda: _may_reopen(row, False, shell.out)):
        return shell.face.note(Styled("It stays complete; nothing was opened.", "dim"))
    meant = await in_thread(profile.resumed, row, kind)
    if (pid := await in_thread(meant.store.holder, meant.ref)) is not None:
        held = Held(meant.ref.id, pid)
        held.hint = profile.when_held(shell.out.program, meant.ref.id)
        raise held
    await _leave_for_another(shell)
    if await shell.open(meant, **profile.wishes):
        await shell.ready()
        if shell.leaves_with is None:
            await profile.acknowledge(shell)


def _type_and_text(arguments: str) -> tuple[str, str]:
    """`--type T`, where it is typed, and what else is."""
    words = arguments.split()
    if "--type" not in words:
        return "", arguments
    at = words.index("--type")
    if at + 1 == len(words):
        raise UsageError("--type needs a type", "such as: /workspace.resume --type plan api design")
    return words[at + 1], " ".join(words[:at] + words[at + 2 :])


def _picked(shell: Shell, kind: str, text: str) -> Row | None:
    workspace, out = _of(shell).workspace, shell.out
    everything = listing.rows(workspace, out)
    here = shell.conversation.session.ref.path if shell.is_talking else ""
    among = [row for row in _of_type(everything, kind) if row.path != here]
    if not everything or not (among or text):
        out.line(listing.NONE.replace("cortext start TYPE TITLE", "/workspace.TYPE TITLE"))
        return None
    if row := selection.of_number(text, among):
        return row
    if selection.asks_again(text, among, workspace, out):
        text = ""
    if text:
        found = _found(text, everything, kind, workspace, out, "/workspace.resume lists what there is")
        if len(found) == 1:
            return found[0]
        among = found
    return selection.chosen(among, workspace, out)


def ids(shell: Shell, typed: str) -> Iterable[str]:
    workspace = _of(shell).workspace
    refs = open_store("cortext", workspace.path).list()
    names = sorted((ref.id for ref in refs), reverse=True)
    return [each for id in names for each in (id, id.rpartition("/")[2]) if each.startswith(typed)]


async def stop(shell: Shell, arguments: str) -> None:
    await _put_down(shell, "paused")


async def complete(shell: Shell, arguments: str) -> None:
    await _put_down(shell, "completed")


async def _put_down(shell: Shell, status: str) -> None:
    if not shell.is_talking:
        raise UsageError("No conversation is open", "/workspace.resume goes on with one")
    conversation = shell.conversation
    if is_silent(conversation):
        await _of(shell).let_go(shell)
        return shell.face.line("Nothing was said in it: there is nothing to save.")
    title = one_line(pausing.title_of(conversation.session))
    await _of(shell).put_down(conversation, status)
    shell.face.line("Session saved.")
    shell.face.line("")
    shell.face.line(
        f'Conversation "{title}" has been {"paused" if status == "paused" else "marked complete"}.'
    )
    shell.face.line("You can continue later with /workspace.resume")
    shell.face.doing("Summing up where it stopped")
    summary = await pausing.summarise(conversation, shell.hurried)
    shell.face.doing("")
    shell.face.line("")
    shell.face.line(f"Summary: {summary}")
    await _of(shell).commit(shell, conversation, status)
    shell.face.line(Copyable(resume_line(conversation.session.id), "dim"))
    await _of(shell).let_go(shell)


async def _leave_for_another(shell: Shell) -> None:
    """Whatever is open is paused first."""
    if not shell.is_talking:
        return
    conversation = shell.conversation
    if not is_silent(conversation):
        title = one_line(pausing.title_of(conversation.session))
        await _of(shell).put_down(conversation, "paused")
        shell.face.note(Styled(f'Paused "{title}".', "dim"))
        await _of(shell).conclude(shell, conversation, "paused")
    await _of(shell).let_go(shell)


def _of(shell: Shell) -> Cortext:
    assert isinstance(shell.profile, Cortext)
    return shell.profile
