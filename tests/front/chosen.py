"""A list to choose from, in this process: keys go in through a pipe, and pyte is the terminal."""

import asyncio
import io
from collections.abc import Awaitable, Callable
from typing import Any

import pyte
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

UP, DOWN, HOME, END, PAGE_UP, PAGE_DOWN = "\x1b[A", "\x1b[B", "\x1b[H", "\x1b[F", "\x1b[5~", "\x1b[6~"
ENTER, ESC, TAB, BACKSPACE = "\r", "\x1b", "\t", "\x7f"
CTRL_C, CTRL_D, CTRL_G, CTRL_N, CTRL_P, CTRL_U = "\x03", "\x04", "\x07", "\x0e", "\x10", "\x15"


class Screen:
    def __init__(self, columns: int, rows: int) -> None:
        self.size = Size(rows=rows, columns=columns)
        self.written = io.StringIO()
        self._pyte = pyte.Screen(columns, rows)
        self._stream = pyte.Stream(self._pyte)
        self._seen = 0
        self._lines: list[str] = []
        self.press: Callable[[str], None] = lambda keys: None

    @property
    def lines(self) -> list[str]:
        if new := self.written.getvalue()[self._seen :]:
            self._seen += len(new)
            self._stream.feed(new)
            self._lines = [line.rstrip() for line in self._pyte.display]
        return self._lines

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def highlighted(self) -> str:
        return next((line for line in self.lines if line.startswith("▸")), "")

    @property
    def colours(self) -> set[str]:
        _ = self.lines
        return {cell.fg for line in self._pyte.buffer.values() for cell in line.values()} - {"default"}

    async def until(self, condition: Callable[[], Any]) -> None:
        try:
            async with asyncio.timeout(20):
                while not condition():
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError(self.text) from None

    async def shows(self, *texts: str) -> None:
        await self.until(lambda: all(text in self.text for text in texts))

    async def highlights(self, text: str) -> None:
        await self.until(lambda: text in self.highlighted)


def on_screen(
    show: Callable[..., Awaitable[Any]],
    *steps: str | Callable[[Screen], Awaitable[None]],
    columns: int = 80,
    rows: int = 24,
) -> Any:
    """What is chosen by these keys. A function among them looks at the screen, or waits for something."""
    return asyncio.run(_on_screen(show, steps, Screen(columns, rows)))


async def _on_screen(show: Any, steps: Any, screen: Screen) -> Any:
    output = Vt100_Output(screen.written, lambda: screen.size, term="xterm-256color", enable_cpr=False)
    with create_pipe_input() as input:
        screen.press = input.send_text
        shown = asyncio.ensure_future(show(input=input, output=output))
        try:
            await screen.until(lambda: shown.done() or screen.written.getvalue())
            for step in steps:
                if isinstance(step, str):
                    screen.press(step)
                else:
                    await step(screen)
            async with asyncio.timeout(20):
                return await shown
        finally:
            shown.cancel()
