"""The commands of the shell: what each is called, takes and does. What the agent brings (`/compact`, `/name`,
skills, templates, extensions) is typed the same way, and these come first.

A command is a function of the shell and of the words behind it:

    async def quit(shell: Shell, arguments: str) -> None
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from types import SimpleNamespace
from typing import TYPE_CHECKING, NamedTuple

from perdure import config, registry
from perdure.agent.aside import in_thread
from perdure.errors import UsageError
from perdure.front import opening, recalling
from perdure.front.amounts import counted, tokens
from perdure.front.leaving import leave_on_purpose
from perdure.front.narration import words
from perdure.front.output import Styled
from perdure.front.visible import one_line
from perdure.session.session import Session

if TYPE_CHECKING:
    from perdure.front.shell import Shell


class Slash(NamedTuple):
    name: str
    runs: str
    """The function, as `module:attr`."""
    usage: str
    """What it takes."""
    summary: str
    completes: str = ""
    """What gives values for it, as `module:attr`."""
    may_run_beside: bool = False
    """Whether it may be typed while the agent works."""
    given: str = ""
    """What its function is told before what is typed: one function may be several commands."""


def _slash(
    name: str, usage: str, summary: str, *, completes: str = "", may_run_beside: bool = False
) -> Slash:
    here = "perdure.front.slash:"
    return Slash(name, here + name, usage, summary, here + completes if completes else "", may_run_beside)


COMMANDS = {
    each.name: each
    for each in (
        _slash(
            "resume",
            "[ID|NAME|TEXT]",
            "go on with another session; without a word, pick one",
            completes="ids",
        ),
        _slash("new", "", "begin a new session"),
        _slash("session", "", "what this session is: id, file, size, tokens, cost", may_run_beside=True),
        _slash("tree", "", "all branches: go to any entry, label it, fork it"),
        _slash("fork", "[ENTRY]", "go on in a copy of this session"),
        _slash(
            "export",
            "[md|html] [--redact] [FILE]",
            "write this session as a document; --redact masks secrets",
            completes="formats",
            may_run_beside=True,
        ),
        _slash("model", "[MODEL]", "talk with another model; without a name, pick one", completes="models"),
        _slash("search", "WORD...", "find sessions by what was said in them"),
        _slash("expand", "[N]", "show all that the last tool printed; Ctrl+O, too", may_run_beside=True),
        _slash("help", "", "what can be typed here", may_run_beside=True),
        _slash("quit", "", "leave; Ctrl+D, too", may_run_beside=True),
    )
}
KEYS = (
    ("Enter", "send; while the agent works, it hears it next"),
    ("Alt+Enter", "a new line; while the agent works, send it afterwards"),
    ("Ctrl+J, or \\ Enter", "a new line"),
    ("Esc, Ctrl+C", "stop the agent; Ctrl+C twice leaves"),
    ("!COMMAND", "run a command, and send what it prints"),
    ("!!COMMAND", "run a command, and do not send it"),
    ("@FILE", "add a file"),
)


# --- which session -------------------------------------------------------------------------------------


async def resume(shell: Shell, arguments: str) -> None:
    if not arguments and not shell.face.is_drawn:
        await _verb(shell, "ls", all=False, program="", status="", limit=20)
        raise UsageError("/resume needs a session here", "one of these, as in /resume ID")
    meant = await shell.find(arguments)
    if meant is None:
        return
    await shell.change_to(meant)


async def new(shell: Shell, arguments: str) -> None:
    await shell.open(shell.profile.new(shell.cwd), model=shell.conversation.model_for_another)


async def fork(shell: Shell, arguments: str) -> None:
    await _forked(shell, arguments or None)


async def _forked(shell: Shell, entry: str | None) -> None:
    session = shell.conversation.session
    if session.is_empty:
        raise UsageError("There is nothing to fork yet", "say something first")
    before = session.id
    copied = await in_thread(opening.forked, session, shell.conversation.meant.store, shell.cwd, entry)
    await shell.open(copied, model=shell.conversation.model_for_another)
    shell.face.note(Styled(f"This is a fork of {before}, which stays as it is.", "dim"))


async def tree(shell: Shell, arguments: str) -> None:
    session = shell.conversation.session
    if session.is_empty:
        raise UsageError("There are no branches yet", "say something first")
    if not shell.face.is_drawn:
        from perdure.front.commands.show import draw

        return await shell.face.aside(lambda: draw(session, shell.out))
    from perdure.front.tree_view import Fork, Move, show_tree

    chosen = await shell.face.full_screen(
        lambda input, output: show_tree(
            session,
            label=shell.conversation.agent.label,
            has_colour=shell.face.has_colour,
            input=input,
            output=output,
        )
    )
    match chosen:
        case Move(entry_id=entry, text=text):
            await shell.conversation.agent.move(entry)
            recalling.show(await in_thread(recalling.last_exchange, session), shell.face)
            shell.face.note(Styled("The conversation goes on from here.", "dim"))
        case Fork(entry_id=None, text=text):
            await new(shell, "")
        case Fork(entry_id=str(entry), text=text):
            await _forked(shell, entry)
        case _:
            return
    if text:
        shell.face.edit(words(text))


def ids(shell: Shell, typed: str) -> Iterable[str]:
    from perdure.session.reference import listed

    return (ref.id for _, ref in listed() if ref.id.startswith(typed))


# --- this session --------------------------------------------------------------------------------------


async def session(shell: Shell, arguments: str) -> None:
    from perdure.front.facts import facts

    conversation = shell.conversation
    seen = Session.view(conversation.meant.store, conversation.session.ref)  # a turn may use the other one
    found = await in_thread(facts, seen)
    known = {**found, "Model": conversation.agent.model.reference, "Directory": config.as_typed(shell.cwd)}
    widest = max(map(len, known))
    for name, fact in known.items():
        shell.face.line(Styled(f"{name:{widest}}  ", "dim"), one_line(fact))


async def export(shell: Shell, arguments: str) -> None:
    session = shell.conversation.session
    if session.is_empty:
        raise UsageError("There is nothing to export yet", "say something first")
    config.here()  # a name is looked for there
    to, file, is_redacted = format_and_file(arguments)
    name = await in_thread(lambda: session.name) if not file else ""
    from perdure.front.commands.export import document
    from perdure.front.secrets import without_secrets

    path = config.expanded(file) or _free_name(without_secrets(name or session.id), to)
    await document(shell, to, path, is_redacted=is_redacted)


def format_and_file(arguments: str) -> tuple[str, str, bool]:
    """The third is whether secrets are masked: `--redact` is before the format, behind it or at the end."""
    is_redacted, file = redaction(arguments)
    to = re.match(r"(?:md|html)(?!\S)|\Z", file)
    if to:
        is_also_redacted, file = redaction(file[to.end() :])
        return to[0] or "md", typed_file(file), is_redacted or is_also_redacted
    if not re.search(r"[./]", file) and not os.path.lexists(file):
        raise UsageError(f"Not a format, and no name of a file: {file}", "as in /export html talk.html")
    return "html" if file.endswith((".html", ".htm")) else "md", typed_file(file), is_redacted


_REDACT = re.compile(r"\A--redact(?:\s+|\Z)|(?:\s+|\A)--redact\Z")


def redaction(arguments: str) -> tuple[bool, str]:
    """Whether `--redact` is the first or the last word, and the other words."""
    rest, count = _REDACT.subn("", arguments.strip())
    return count > 0, rest


def typed_file(typed: str) -> str:
    """The name of a file as people type it. Only in quotes it has a word that looks like an option: what
    was meant to be masked is not written under the name `--redact talk.md`."""
    if len(typed) > 1 and typed[0] in ("'", '"') and typed[0] == typed[-1]:
        return typed[1:-1]
    if re.search(r"(?<!\S)--\w", typed):
        hint = "--redact is the first word or the last one; a name with such a word is quoted"
        raise UsageError(f"Not a name of a file: {typed}", hint)
    return typed


def _free_name(title: str, to: str) -> str:
    stem = re.sub(r"[^\w.-]+", "-", title).strip("-.")[:60] or "session"
    names = (f"{stem}{number}.{to}" for number in ("", *(f"-{count}" for count in range(2, 1000))))
    return next((name for name in names if not os.path.lexists(name)), f"{stem}.{to}")


def formats(shell: Shell, typed: str) -> Iterable[str]:
    return ("md", "html", "--redact")


async def expand(shell: Shell, arguments: str) -> None:
    if arguments and not (arguments.isdecimal() and int(arguments)):
        raise UsageError("/expand takes a number", "/expand 2 is the tool before the last")
    found = await in_thread(recalling.results, shell.conversation.session)
    number = int(arguments or 1)
    if number > len(found):
        there_are = (
            f"only the last {counted(len(found), 'tool')} can be" if found else "no tool was called yet"
        )
        raise UsageError(f"There is nothing to show: {there_are}", "/expand 1 is the last one")
    recalling.show_result(found[-number], shell.face)


async def search(shell: Shell, arguments: str) -> None:
    if not arguments:
        raise UsageError("/search needs a word", "as in /search flaky test")
    query = arguments.split()
    await _verb(shell, "search", query=query, all=True, program="", role="", since="", limit=20)
    shell.face.note(Styled("/resume ID goes on with one of them.", "dim"))


# --- the model -----------------------------------------------------------------------------------------


async def model(shell: Shell, arguments: str) -> None:
    if not shell.is_talking:
        raise shell.profile.unheard()
    agent = shell.conversation.agent
    wanted: str | None = arguments
    if not wanted:
        if not shell.face.is_drawn:
            shell.face.line(agent.model.reference)
            return shell.face.note("/model NAME changes it; `pi models` lists them.")
        from perdure.front.choosing import Choice

        choices = [
            Choice(each.reference, each.reference, tokens(each.context_window))
            for each in await in_thread(agent.models)
        ]
        wanted = await shell.face.choose("Which model?", choices, agent.model.reference)
    if not wanted:
        return
    await shell.conversation.choose_model(wanted)
    shell.face.note(Styled(f"{shell.conversation.who} answers from now on.", "dim"))


def models(shell: Shell, typed: str) -> Iterable[str]:
    return (each.reference for each in shell.conversation.agent.models()) if shell.is_talking else ()


# --- the shell -----------------------------------------------------------------------------------------


async def help(shell: Shell, arguments: str) -> None:
    commands = {f"/{name} {_taken(shell, name)}".rstrip(): meaning for name, meaning in shell.known.items()}
    keys = [each for each in KEYS if shell.profile.runs_command_lines or not each[0].startswith("!")]
    widest = max(map(len, (*commands, *(key for key, _ in keys))))
    for name, meaning in (*commands.items(), ("", ""), *keys):
        padded = f"{one_line(name):{widest}}" if meaning else one_line(name)
        shell.face.line(Styled(padded, "cyan"), f"  {one_line(meaning)}" if meaning else "")
    if not shell.profile.has_tools or not shell.is_talking:
        return
    agent = shell.conversation.agent
    servers = f", and those of MCP servers: {', '.join(agent.servers)}" if agent.servers else ""
    shell.face.line("")
    shell.face.line(f"Tools: {', '.join(agent.tools) or 'none'}{servers}")


def _taken(shell: Shell, name: str) -> str:
    """What a command takes, also one of the agent's own."""
    own = {"compact": "[INSTRUCTIONS]", "name": "NAME"}
    return shell.commands[name].usage if name in shell.commands else own.get(name, "")


async def quit(shell: Shell, arguments: str) -> None:
    await leave_on_purpose(shell)


async def _verb(shell: Shell, name: str, **options: object) -> None:
    """What `pi sessions` has a verb for."""
    from perdure.front.commands import SESSIONS

    run = registry.load(SESSIONS[name].runs)

    def work() -> None:
        run(SimpleNamespace(**options), shell.out)
        shell.out.flush()

    await shell.face.aside(work)
