"""`/tree` as tests see it: keys go in through a pipe, and a terminal of pyte's shows what is drawn."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pyte
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from perdure.front.tree_view import Fork, Move, show_tree
from perdure.session.session import Session

UP, DOWN, RIGHT, LEFT = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D"
HOME, END, PAGE_UP, PAGE_DOWN = "\x1b[H", "\x1b[F", "\x1b[5~", "\x1b[6~"
ENTER, ESC, CTRL_C, CTRL_U = "\r", "\x1b", "\x03", "\x15"
LIMIT = 20
"""Seconds after which nothing is waited for any more."""


class Screen:
    """A terminal, and the keys pressed at it."""

    encoding = "utf-8"

    def __init__(self, columns: int, rows: int) -> None:
        self.size = Size(rows, columns)
        self.press: Callable[[str], None]
        self.hang_up: Callable[[], None]
        self.written = ""
        self._unseen: list[str] = []
        self._pyte = pyte.Screen(columns, rows)
        self._stream = pyte.Stream(self._pyte)

    def write(self, text: str) -> int:
        self._unseen.append(text)
        return len(text)

    def flush(self) -> None:
        pass

    def isatty(self) -> bool:
        return True

    @property
    def is_drawn(self) -> bool:
        """Whether something was, since somebody looked."""
        return bool(self._unseen)

    @property
    def lines(self) -> list[str]:
        new, self._unseen = "".join(self._unseen), []
        self.written += new
        self._stream.feed(new)
        return [line.rstrip() for line in self._pyte.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def chosen(self) -> str:
        """The line in reverse."""
        found = [line for at, line in enumerate(self.lines) if self._pyte.buffer[at][0].reverse]
        return found[0] if found else ""

    @property
    def colours(self) -> set[str]:
        drawn = [cell for at, _ in enumerate(self.lines) for cell in self._pyte.buffer[at].values()]
        return {colour for cell in drawn for colour in (cell.fg, cell.bg)} - {"default"}

    async def until(self, condition: Callable[[], Any]) -> None:
        async with asyncio.timeout(LIMIT):
            while not condition():
                await asyncio.sleep(0.002)

    async def shows(self, text: str) -> None:
        await self.until(lambda: text in self.text)

    async def has_chosen(self, text: str) -> None:
        await self.until(lambda: text in self.chosen)


async def nothing_is_written(entry_id: str, text: str) -> None:
    raise AssertionError(f"{entry_id} was labelled {text}")


def at_tree(
    session: Session,
    *steps: str | Callable[[Screen], Awaitable[None]],
    columns: int = 80,
    rows: int = 24,
    label: Callable[[str, str], Awaitable[None]] = nothing_is_written,
    has_colour: bool = True,
) -> Move | Fork | None:
    """What is chosen by these keys; a function among them looks at the screen, or waits for something."""
    return asyncio.run(_at_tree(session, steps, Screen(columns, rows), label, has_colour))


async def _at_tree(session: Session, steps: Any, screen: Screen, label: Any, has_colour: bool) -> Any:
    stdout: Any = screen
    output = Vt100_Output(stdout, lambda: screen.size, term="xterm-256color", enable_cpr=False)
    with create_pipe_input() as input:
        screen.press, screen.hang_up = input.send_text, input.close
        shown = show_tree(session, label=label, has_colour=has_colour, input=input, output=output)
        async with asyncio.timeout(LIMIT), asyncio.TaskGroup() as tasks:
            view = tasks.create_task(shown)
            await screen.until(lambda: view.done() or screen.is_drawn)
            for step in steps:
                if isinstance(step, str):
                    screen.press(step)
                else:
                    await step(screen)
            return await view
