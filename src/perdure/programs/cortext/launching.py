"""Going on with a conversation in another AI tool: started in the workspace, with all that was said as its
first prompt, by the option that the tool itself has for that.

While it runs the conversation is active, and nobody else talks in it; afterwards it is paused. The tool's
exit code is ours.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from perdure import config
from perdure.agent.process_origin import AgentMark
from perdure.agent.process_privacy import close_to_others
from perdure.errors import PerdureError
from perdure.front.opening import Meant
from perdure.front.output import Output, Styled
from perdure.front.visible import one_line
from perdure.programs.cortext import pausing, prompt_file, resuming
from perdure.programs.cortext.commands import FIRST_PROMPT
from perdure.programs.cortext.profile import Cortext
from perdure.programs.cortext.workspace import Workspace, program
from perdure.session.lifecycle import CORTEXT
from perdure.session.session import Session
from perdure.session.stores.cortext_folder import CortextStore

_LARGEST = 100 * 1024
"""Bytes of a prompt that is handed over on a command line."""


def launch(tool: str, meant: Meant, profile: Cortext, out: Output) -> int:
    if tool not in FIRST_PROMPT:
        raise PerdureError(
            f"There is no AI tool {tool!r:.40}", f"it is one of builtin, {', '.join(FIRST_PROMPT)}"
        )
    workspace = profile.workspace
    found = _found(tool, workspace.path)
    workspace.remember()
    instructions = profile.instructions(meant.header)
    assert isinstance(meant.store, CortextStore)
    lock = meant.store.lock_path(meant.ref)
    with meant.open() as session:
        if notice := profile.notice_of_change(session):
            out.note(Styled(notice, "yellow"))
        before = profile.take_up(session)
        prompt = _first_prompt(instructions, workspace, session, before)
        out.line(f'[Resuming "{one_line(pausing.title_of(session))}"]')
        out.flush()
        try:
            with _handed_over(prompt, workspace.path, lock) as handed:
                ended = _run([found, *FIRST_PROMPT[tool], handed], workspace.path)
        finally:
            CORTEXT.change(session, "paused")
        if not ended.is_told_to:
            _commit(session, profile, out)
    return ended.code


def _commit(session: Session, profile: Cortext, out: Output) -> None:
    if profile.why_not_committed:
        return out.note(Styled(pausing.not_committed(profile.why_not_committed), "dim"))
    workspace = profile.workspace
    try:
        searched = pausing.searched(session, workspace, "paused")
    except PerdureError as error:
        return out.note(Styled(one_line(error.said), "yellow"))
    if not searched.found or searched.is_wanted(out):
        out.note(pausing.committed(session, workspace, "paused", searched.seen))


def _found(tool: str, workspace: str) -> str:
    found = program(tool, workspace, config.setting("PATH", os.defpath))
    if not found:
        raise PerdureError(
            f"{tool} is not installed: it is in no folder of PATH",
            "install it, or go on with the agent that is built in: --tool builtin",
        )
    return found


def _first_prompt(instructions: str, workspace: Workspace, session: Session, before: str) -> str:
    """It begins with a word of ours: what a user's prompt begins with could be taken for an option."""
    told, _ = workspace.memory()
    return "\n\n".join(
        [
            "You go on with a conversation. These are your instructions:",
            instructions.strip(),
            *told,
            resuming.block(session, before),
            "# What was said so far",
            resuming.history(session),
            "# Now",
            "Say in one short reply where we stopped, and ask where to pick up.",
        ]
    )


@contextmanager
def _handed_over(prompt: str, workspace: str, lock: str) -> Iterator[str]:
    """The prompt itself, or, where it is too long for a command line, one that names a file with it."""
    data = prompt.encode("utf-8", "replace")
    if len(data) <= _LARGEST and b"\0" not in data:
        yield data.decode()
        return
    with prompt_file.written(data, workspace, lock) as name:
        yield (
            f"Read all of {name} first: it holds your instructions, and a conversation that you go on with. "
            "Then do what its end says."
        )


class _Ended(NamedTuple):
    code: int
    is_told_to: bool
    """By a signal to us, which only saves."""


def _run(command: list[str], workspace: str) -> _Ended:
    """It has the terminal, and so the signals of its keys: they are not for us. Others are handed on."""
    process: subprocess.Popen[bytes] | None = None
    early: list[int] = []
    is_told_to = False

    def hand_on(number: int, frame: object) -> None:
        nonlocal is_told_to
        is_told_to = True
        if process is None:
            early.append(number)
        else:
            process.send_signal(number)

    def leave_alone(number: int, frame: object) -> None:
        """A handler, and not none: what is ignored would stay so in the tool."""

    handlers = {"SIGINT": leave_alone, "SIGQUIT": leave_alone, "SIGTERM": hand_on, "SIGHUP": hand_on}
    known = {getattr(signal, name): each for name, each in handlers.items() if hasattr(signal, name)}
    # Before it is started: a signal in between would end us, and leave the tool behind.
    before = {number: signal.signal(number, handler) for number, handler in known.items()}
    close_to_others()
    try:
        with AgentMark():
            process = subprocess.Popen(command, cwd=workspace, env=config.environment())
            for number in early:
                process.send_signal(number)
            code = process.wait()
    except OSError as error:
        raise PerdureError(f"{command[0]} cannot be started: {error.strerror or error}") from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return _Ended(code if code >= 0 else 128 - code, is_told_to)
