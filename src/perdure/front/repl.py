"""`pi`: a conversation, at the terminal or through pipes. Here it is decided what it is shown on."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Mapping
from types import SimpleNamespace
from typing import NamedTuple

from perdure import config
from perdure.errors import UsageError
from perdure.front import starting
from perdure.front.face import Face
from perdure.front.output import Output
from perdure.front.shell import Shell
from perdure.front.slash import COMMANDS, Slash


class Profile(NamedTuple):
    """What makes the shell one program's."""

    program: str
    """Whose home keeps what was typed."""
    prompt: str
    commands: Mapping[str, Slash]


PI = Profile("pi", "> ", COMMANDS)


def repl(options: SimpleNamespace, out: Output, profile: Profile = PI) -> int:
    starting.check_tools(options)
    if options.message and _is_fed(out):
        raise UsageError(
            "There is a message, and stdin is no terminal",
            "--print sends both as one prompt; without a message, each line of stdin is one",
        )
    cwd = starting.in_directory(options.C)
    return asyncio.run(_run(options, out, profile, cwd))


async def _run(options: SimpleNamespace, out: Output, profile: Profile, cwd: str) -> int:
    shell = Shell(options, out, profile.commands, cwd)
    shell.face = _face(shell, out, profile)
    return await shell.run()


def _face(shell: Shell, out: Output, profile: Profile) -> Face:
    if not out.has_echo or config.setting("TERM", "dumb") == "dumb":
        from perdure.front.plain import Plain

        out.be_plain()
        return Plain(out, prompt=profile.prompt)
    from prompt_toolkit.history import History, InMemoryHistory

    from perdure.front.screen import Screen
    from perdure.front.typing_aid import Aid, Remembered
    from perdure.session import layouts

    aid = Aid(lambda: shell.known, shell.values, lambda: shell.cwd)
    history: History = InMemoryHistory()
    if not shell.options.no_session:
        history = Remembered(os.path.join(layouts.home_of(profile.program), "shell-history"))
    return Screen(out, prompt=profile.prompt, history=history, completer=aid)


def _is_fed(out: Output) -> bool:
    """Whether something may come in that nobody types."""
    try:
        mode = os.fstat(out.stdin.fileno()).st_mode if out.stdin is not None else 0
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)
