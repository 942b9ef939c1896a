"""A conversation through pipes, or on a terminal that cannot be drawn on: one line is one message, and no
escape code is written. The next line is read when the answer to the one before is all there. At a terminal an
answer is shown line by line as it arrives; through a pipe when it has ended, because what is written there
cannot be taken back if the answer breaks off and the model is asked again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NoReturn, TypeVar

from perdure.errors import PerdureError
from perdure.front.face import Running
from perdure.front.leaving import leave_on_purpose
from perdure.front.output import Copyable, Output, Styled
from perdure.front.signals import directly

if TYPE_CHECKING:
    from perdure.front.shell import Shell

T = TypeVar("T")

_GOES_ON = "... "
"""The prompt of a line that goes on."""


class Plain:
    is_drawn = False
    has_colour = False
    columns = 0

    def __init__(self, out: Output, *, prompt: Callable[[], str], continues_lines: bool = False) -> None:
        self.shows_drafts = out.has_echo
        self._out = out
        self.is_terminal = out.has_echo
        self._prompt = prompt
        self._continues_lines = continues_lines
        self._line = ""
        """The beginning of the answer's last line, which has not ended."""
        self._reading: asyncio.Future[str | None] | None = None
        self._is_over = False

    def line(self, *parts: str | Styled) -> None:
        self._out.line(*parts)
        self._out.flush()

    def note(self, *parts: str | Styled) -> None:
        self._out.note(*parts)

    def failed(self, error: PerdureError) -> None:
        self._out.failed(error)

    def said(self, text: str) -> None:
        """Who typed it has seen it."""

    def answer(self, delta: str) -> None:
        whole, is_ended, rest = (self._line + delta).rpartition("\n")
        self._line = rest
        if is_ended:
            self.line(Copyable(whole))

    def think(self, delta: str) -> None:
        """Only what is said is written."""

    def end_of_answer(self) -> None:
        line, self._line = self._line, ""
        if line:
            self.line(Copyable(line))

    def doing(self, what: str) -> None:
        """Nobody watches."""

    def running(self, every: Sequence[Running]) -> None:
        """What has ended has a line of its own."""

    def queued(self, steering: Sequence[str], follow_ups: Sequence[str]) -> None:
        """Lines wait in the pipe."""

    def echo(self, text: str) -> None:
        """Who typed it has seen it."""

    def edit(self, text: str) -> None:
        """Who sent it has it."""

    async def aside(self, work: Callable[[], T]) -> T:
        self._out.flush()
        return directly(work)

    async def full_screen(self, show: Callable[..., Awaitable[T]]) -> NoReturn:
        raise PerdureError("There is no screen to show that on", "run it at a terminal")

    async def choose(
        self, title: str, choices: Sequence[object], current: str = "", *, can_filter: bool = True
    ) -> None:
        return None

    # --- reading -----------------------------------------------------------------------------------------

    async def talk(self, shell: Shell) -> None:
        while not self._is_over:
            self._out.prompt(self._prompt())
            line = await self._typed()
            if line is None or not self._out.has_echo:
                self._out.line("")  # nobody typed a line's end that can be seen
            if line is None:
                await leave_on_purpose(shell)
                continue
            if typed := line if line.strip() else shell.profile.empty_line:
                shell.enter(typed)
                await shell.idle()

    def leave(self) -> None:
        self._is_over = True
        if self._reading is not None and not self._reading.done():
            self._reading.set_result(None)

    async def _typed(self) -> str | None:
        """A line, and those that it goes on in."""
        line = await self._next()
        while line is not None and self._continues_lines and line.endswith("\\"):
            self._out.prompt(_GOES_ON)
            more = await self._next()
            if more is None:  # and so it does not go on
                break
            line = f"{line[:-1]}\n{more}"
        return line

    async def _next(self) -> str | None:
        """None at the end, and when nobody waits any more. A thread of its own reads, that a signal need not
        wait for the next line."""
        loop = asyncio.get_running_loop()
        found: asyncio.Future[str | None] = loop.create_future()

        def settle(line: str | None) -> None:
            if not found.done():
                found.set_result(line)

        def read() -> None:
            line = self._out.read_line()
            try:
                loop.call_soon_threadsafe(settle, line)
            except RuntimeError:
                pass  # the loop has ended

        threading.Thread(target=read, name="perdure reader", daemon=True).start()
        self._reading = found
        return await found
