"""The screen of the shell, drawn in this process: what each word of an answer costs, and that no text from
anywhere is obeyed by the terminal."""

import asyncio
import io
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.completion import DummyCompleter
from prompt_toolkit.data_structures import Size
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from perdure.agent.events import ToolExecutionEnd, ToolExecutionStart, ToolExecutionUpdate
from perdure.agent.tools import AgentToolResult
from perdure.errors import PerdureError
from perdure.front import recalling, screen
from perdure.front.narration import Narrator
from perdure.front.output import Output, Styled
from perdure.front.screen import Screen
from perdure.front.visible import one_line, visible
from perdure.session.entry import Text, ToolResult
from tests.front import answers

COLUMNS = 80


class Paper(io.StringIO):
    """A terminal that keeps what is written on it."""

    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True

    def taken(self) -> str:
        """What was written since it was last looked at."""
        text = self.getvalue()
        self.seek(0)
        self.truncate()
        return text


class Drawn:
    """A screen, and what it wrote."""

    def __init__(self, face: Screen, paper: Paper) -> None:
        self.face, self.paper = face, paper

    async def taken(self) -> str:
        """When all that was said to it is drawn."""
        is_drawn = asyncio.Event()

        def drawn(_: Any) -> None:
            is_drawn.set()

        self.face._app.after_render += drawn
        try:
            self.face._app.invalidate()
            async with asyncio.timeout(20):
                await is_drawn.wait()
        finally:
            self.face._app.after_render -= drawn
        return self.paper.taken()


class NoShell:
    def __init__(self, *facts: str) -> None:
        self.facts = facts


@asynccontextmanager
async def drawn_screen(rows: int = 24, shell: Any = None) -> AsyncIterator[Drawn]:
    paper = Paper()
    with create_pipe_input() as keys:
        terminal = Vt100_Output(paper, lambda: Size(rows, COLUMNS), enable_cpr=False)
        face = Screen(
            Output(stdout=Paper(), stderr=Paper()),
            prompt="> ",
            history=InMemoryHistory(),
            completer=DummyCompleter(),
            input=keys,
            output=terminal,
        )
        talking = asyncio.ensure_future(face.talk(shell or NoShell("a model", "a session")))
        drawn = Drawn(face, paper)
        try:
            while not face._app.is_running:
                await asyncio.sleep(0)
            await drawn.taken()
            yield drawn
        finally:
            face.leave()
            await talking


# --- what a word costs --------------------------------------------------------------------------------

SHAPES = {
    **answers.ALL,
    "fence": "```python\n"
    + "".join(f"total_{n} = compute({n})  # of all\n" for n in range(70))
    + "```\nthe end",
    "paragraph": "a word and `another` of *many* " * 80,
    "table": "| number | word |\n|---|---|\n" + "".join(f"| {n} | **cell** |\n" for n in range(70)),
    "list": "".join(f"- item *{n}* of a list\n" for n in range(80)),
    "one long word": "x" * 5000,
    "wide": "日本語 " * 250,
}


@pytest.mark.parametrize("size", [10, 60])
@pytest.mark.parametrize("name", SHAPES)
def test_a_delta_costs_at_most_four_times_its_bytes_and_one_block(name, size, monkeypatch):
    """Even where each is drawn by itself. A block is what it takes to draw all of the foot once, when there is
    space for all of it."""
    monkeypatch.setattr(screen, "_PACE", 0)
    step = size if len(SHAPES[name]) < 1000 else 6 * size
    deltas = [SHAPES[name][at : at + step] for at in range(0, len(SHAPES[name]), step)]

    async def costs(rows: int) -> tuple[list[int], int]:
        each, block = [], 0
        async with drawn_screen(rows) as drawn:
            drawn.face.doing("a model answers")
            await drawn.taken()
            for delta in deltas:
                drawn.face.answer(delta)
                each.append(len((await drawn.taken()).encode()))
                if rows > 24:
                    drawn.face._app.renderer.erase(leave_alternate_screen=False)
                    block = max(block, len((await drawn.taken()).encode()))
        return each, block

    high, block = asyncio.run(costs(100))
    usual, _ = asyncio.run(costs(24))
    for delta, *written in zip(deltas, high, usual, strict=True):
        assert max(written) <= 4 * len(delta.encode()) + block
