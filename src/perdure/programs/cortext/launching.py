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
from tempfile import mkstemp
from typing import NamedTuple

from perdure import config
from perdure.agent.process_origin import AgentMark
from perdure.errors import NotSaved, PerdureError
from perdure.front.output import Output, Styled
from perdure.front.visible import one_line
from perdure.programs.cortext import pausing, resuming
from perdure.programs.cortext.commands import FIRST_PROMPT
from perdure.programs.cortext.profile import Cortext
from perdure.programs.cortext.workspace import FOLDER, Workspace, program
from perdure.session.catalog import Row
from perdure.session.git_exclude import keep_out
from perdure.session.lifecycle import CORTEXT
from perdure.session.session import Session
from perdure.session.stores import files

_LARGEST = 100 * 1024
"""Bytes of a prompt that is handed over on a command line."""
_PROMPTS = os.path.join(FOLDER, "prompts")


def launch(tool: str, row: Row, profile: Cortext, out: Output) -> int:
    if tool not in FIRST_PROMPT:
        raise PerdureError(
            f"There is no AI tool {tool!r:.40}", f"it is one of builtin, {', '.join(FIRST_PROMPT)}"
        )
    workspace = profile.workspace
    found = _found(tool, workspace.path)
    meant = profile.resumed(row)
    workspace.remember()
    instructions = profile.instructions(meant.header)
    with meant.open() as session:
        if notice := profile.notice_of_change(session):
            out.note(Styled(notice, "yellow"))
        before = profile.take_up(session)
        prompt = _first_prompt(instructions, workspace, session, before)
        out.line(f'[Resuming "{one_line(row.title)}"]')
        out.flush()
        try:
            with _handed_over(prompt, workspace.path) as handed:
                ended = _run([found, *FIRST_PROMPT[tool], handed], workspace.path)
        finally:
            CORTEXT.change(session, "paused")
        if not ended.is_told_to:
            _commit(session, workspace, out)
    return ended.code


def _commit(session: Session, workspace: Workspace, out: Output) -> None:
    found = pausing.secrets(session, workspace)
    if not found or pausing.is_wanted(found, out):
        out.note(Styled(pausing.committed(session, workspace, "paused"), "dim"))


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
def _handed_over(prompt: str, workspace: str) -> Iterator[str]:
    """The prompt itself, or, where it is too long for a command line, one that names a file with it. The file
    is in the workspace, where every tool may read, and out of git."""
    if len(prompt.encode("utf-8", "replace")) <= _LARGEST and "\0" not in prompt:
        yield prompt.encode("utf-8", "replace").decode()
        return
    folder = os.path.join(workspace, _PROMPTS)
    with files.told(NotSaved, folder):
        files.new_folder(workspace, _PROMPTS, private=False)
        keep_out(workspace, [_PROMPTS])
        descriptor, path = mkstemp(".md", "conversation-", folder)  # nobody else's to read: 0600
        with open(descriptor, "wb") as file:
            file.write(prompt.encode("utf-8", "replace"))
    try:
        yield (
            f"Read all of {os.path.relpath(path, workspace)} first: it holds your instructions, and a "
            "conversation that you go on with. Then do what its end says."
        )
    finally:
        with files.told(NotSaved, path):
            os.unlink(path)


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
