"""What somebody else's code prints while a conversation is shown: told line by line, from any thread."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout


class Printed(io.TextIOBase):
    def __init__(self, loop: asyncio.AbstractEventLoop, tell: Callable[[str], None]) -> None:
        self._loop = loop
        self._tell = tell
        self._begun = ""

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            try:
                self._loop.call_soon_threadsafe(self._tell, line)
            except RuntimeError:
                pass  # the conversation is over
        return len(text)

    def writable(self) -> bool:
        return True


@contextmanager
def told_instead(tell: Callable[[str], None]) -> Iterator[None]:
    """What extensions print is told like everything else: it would be written across the foot, or into an
    answer that somebody pipes on."""
    printed = Printed(asyncio.get_running_loop(), tell)
    with redirect_stdout(printed), redirect_stderr(printed):
        yield
