"""The wait for a session that another process holds.

Whoever waits is told for which process, and how to end the wait. Ctrl+C ends it, as everywhere. So does
Ctrl+D at a terminal: nothing else reads the keyboard at that moment. What is typed meanwhile is kept for
whoever reads next.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from perdure.agent.aside import PATIENCE, when_free
from perdure.errors import Held
from perdure.front.opening import Meant
from perdure.front.output import Output, Styled
from perdure.front.visible import one_line
from perdure.session.session import Session

if TYPE_CHECKING:
    from perdure.front.shell import Shell

_TOLD_AFTER_S = 0.5
"""A save is over by then, a conversation is not."""


async def open_when_free(shell: Shell, meant: Meant) -> Session:
    """Open the session that a conversation begins with. `Held` after the wait; `CancelledError` if the user
    leaves before: with 130 by Ctrl+C, with 0 by Ctrl+D."""
    notice = WaitNotice(shell.out, shell.face.note)

    def wait(error: Held) -> None:
        if shell.leaves_with == 0:
            shell.face.note(Styled("Nothing was opened.", "dim"))
        if shell.leaves_with is not None:
            raise asyncio.CancelledError
        notice.show(error)

    with watch_for_ctrl_d(shell.out, lambda: shell.leave(0)):
        return await when_free(meant.open, waiting=wait)


class WaitNotice:
    """One line that says who is waited for, how long, and how to end the wait. It is shown once."""

    def __init__(self, out: Output, note: Callable[[Styled], object]) -> None:
        self._out = out
        self._note = note
        self._due = time.monotonic() + _TOLD_AFTER_S

    def show(self, error: Held) -> None:
        if time.monotonic() > self._due:
            self._due = float("inf")
            ends = " Press Ctrl+C or Ctrl+D to stop waiting." if self._out.has_echo else ""
            said = f"{error.message}; waiting up to {PATIENCE:.0f} s for it to leave.{ends}"
            self._note(Styled(one_line(said), "dim"))


@contextmanager
def watch_for_ctrl_d(out: Output, ended: Callable[[], object]) -> Iterator[None]:
    """Call `ended` when Ctrl+D is pressed on an empty line. Only at a terminal: a pipe that ends has nothing
    more to say, and is no wish to leave."""
    loop = asyncio.get_running_loop()
    keyboard = out.stdin.fileno() if out.has_echo and out.stdin is not None else -1

    def read() -> None:
        try:
            typed = os.read(keyboard, 65536)
        except OSError:
            typed = b""  # the terminal is gone
        if typed:
            out.keep_unread(typed)
        else:
            loop.remove_reader(keyboard)
            ended()

    try:
        if keyboard >= 0:
            loop.add_reader(keyboard, read)
    except (OSError, NotImplementedError):
        keyboard = -1  # a loop that cannot watch a terminal
    try:
        yield
    finally:
        if keyboard >= 0:
            loop.remove_reader(keyboard)
