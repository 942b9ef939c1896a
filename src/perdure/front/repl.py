"""A conversation, at the terminal or through pipes. Here it is decided what it is shown on."""

from __future__ import annotations

import asyncio
import os
import stat
from contextlib import suppress
from types import SimpleNamespace

from perdure import config
from perdure.errors import NoHome, UsageError
from perdure.front import signals, starting
from perdure.front.face import Face
from perdure.front.output import Output
from perdure.front.profile import Profile
from perdure.front.shell import Shell


def repl(options: SimpleNamespace, out: Output) -> int:
    """pi's."""
    starting.check_tools(options)
    if options.message and _is_fed(out):
        raise UsageError(
            "There is a message, and stdin is no terminal",
            "--print sends both as one prompt; without a message, each line of stdin is one",
        )
    return talk(Profile(options), out, starting.in_directory(options.C))


def talk(profile: Profile, out: Output, cwd: str) -> int:
    """Until its user leaves; returns the exit code."""
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        raise UsageError("A conversation cannot be held in an event loop", "give it a thread of its own")
    with signals.given_back():
        return asyncio.run(_run(profile, out, cwd))


async def _run(profile: Profile, out: Output, cwd: str) -> int:
    shell = Shell(profile, out, cwd)
    shell.face = _face(shell, out)
    return await shell.run()


def _face(shell: Shell, out: Output) -> Face:
    if not out.has_echo or config.setting("TERM", "dumb") == "dumb":
        from perdure.front.plain import Plain

        out.be_plain()
        prompt = shell.profile.prompt
        return Plain(out, prompt=lambda: prompt(shell), continues_lines=shell.profile.continues_lines)
    from prompt_toolkit.history import History, InMemoryHistory

    from perdure.front.screen import Screen
    from perdure.front.typing_aid import Aid, Remembered

    aid = Aid(lambda: shell.known, shell.values, lambda: shell.cwd)
    history: History = InMemoryHistory()
    if shell.profile.is_kept:
        with suppress(NoHome):  # it is a convenience; sessions need not be there
            history = Remembered(os.path.join(shell.profile.home, "shell-history"))
    return Screen(out, prompt=lambda: shell.profile.prompt(shell), history=history, completer=aid)


def _is_fed(out: Output) -> bool:
    """Whether something may come in that nobody types."""
    try:
        mode = os.fstat(out.stdin.fileno()).st_mode if out.stdin is not None else 0
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)
