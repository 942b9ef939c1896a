"""From what a command line says to an agent that is ready to be talked to; and back, to the command line that
goes on with its session."""

from __future__ import annotations

import os
import shlex
import sys
from types import SimpleNamespace
from typing import Any

from perdure import config
from perdure.agent.models import Model
from perdure.agent.session import AgentSession
from perdure.agent.tokens import of_message
from perdure.errors import PerdureError, UsageError
from perdure.front.output import Output, Styled
from perdure.front.visible import fit, one_line
from perdure.session import layouts
from perdure.session.entry import Content, User
from perdure.session.stores import Found

_SHOWN = 200
"""Columns of a path in a sentence."""
_FAR_TOO_MUCH = 2
"""Windows of its model that a prompt fills: so much is refused, although its tokens are only estimated."""


def in_directory(wanted: str) -> str:
    """Where the program is from now on: there, if it is told so."""
    if wanted:
        try:
            os.chdir(config.expanded(wanted))
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else "no folder has such a name"
            raise PerdureError(f"Cannot go to {fit(wanted, _SHOWN)}: {why}", "give -C a folder") from None
    return config.here()


def settings_of(options: SimpleNamespace) -> dict[str, Any]:
    """What the options say in place of the user's settings."""
    return {"limits": {"cost": options.max_cost}} if options.max_cost is not None else {}


def agent_of(options: SimpleNamespace, cwd: str, *, trusted: bool) -> AgentSession:
    """As the options want it, in that directory."""
    return AgentSession(
        cwd=cwd,
        settings=settings_of(options),
        tools=_tools(options),
        system_prompt=_text_or_file(options.system_prompt),
        append_system_prompt=[_text_or_file(each) or "" for each in options.append_system_prompt],
        trusted=trusted,
    )


def check_tools(options: SimpleNamespace) -> None:
    """What contradicts itself is told before anything is asked."""
    _tools(options)


def find_model(agent: AgentSession, name: str, out: Output) -> None:
    """An extension that was left out may be the reason that there is none of that name."""
    try:
        agent.find_model(name)
    except PerdureError:
        for notice in agent.notices:
            out.note(Styled(one_line(notice), "yellow"))
        raise


def refuse_far_too_much(content: Content, model: Model, *, can_read_files: bool) -> None:
    """What could not be condensed either: it is new. `can_read_files` if it names files that the agent could
    read itself."""
    tokens, window = of_message(User(content)), model.context_window
    if tokens > _FAR_TOO_MUCH * window:
        raise PerdureError(
            f"The prompt has about {tokens:,} tokens, and {model.reference} reads {window:,}",
            f"{'name its files without @, to be read in parts' if can_read_files else 'say less at once'}, "
            "take a model that reads more, or, if it is your own and does, say so with `contextWindow`",
        )


def command_for(ref: Found, program: str) -> str:
    """What goes on with that session when it is typed."""
    is_at_home = any(ref.path.startswith(os.path.join(home.path, "")) for home in layouts.homes())
    return f"{as_called(program)} --session {shlex.quote(ref.id if is_at_home else ref.path)}"


def when_held(id: str, program: str) -> str:
    """What to do about a session of pi's that another process talks in."""
    return f"leave it there, or go on in a copy: {program} --fork {id}"


def as_called(program: str) -> str:
    """How this program can be called again: by its name, if that is found, or as it was."""
    folders = config.setting("PATH").split(os.pathsep)
    if any(os.access(os.path.join(folder, program), os.X_OK) for folder in folders if folder):
        return program
    called = sys.argv[0]
    if os.path.basename(called) == program:
        return shlex.quote(called)
    return "python -P -m perdure" if program in ("pi", "perdure") else program


def _tools(options: SimpleNamespace) -> list[str] | None:
    """None is all of them."""
    if options.no_tools:
        if options.tools is not None:
            raise UsageError("--tools and --no-tools contradict each other")
        return []
    if options.tools is None:
        return None
    named = [name.strip() for name in options.tools.split(",") if name.strip()]
    if not named:
        raise UsageError("--tools names no tool", "as in --tools read,grep; --no-tools is none")
    return named


def _text_or_file(given: str | None) -> str | None:
    """What an option says, or what is in the file that it names."""
    if not given:
        return given
    path = config.expanded(given)
    try:
        if os.path.isfile(path):
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read()
    except (OSError, ValueError):
        return given  # a text too long to be a name
    if path.endswith((".md", ".txt")) and not any(map(str.isspace, path)):
        raise UsageError(f"There is no file {given!r:.80}", "give the prompt itself, or a file that is there")
    return given
