"""The screen of the shell, drawn in this process: what each word of an answer costs, and that no text from
anywhere is obeyed by the terminal."""

import asyncio
import io
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prompt_toolkit.completion import DummyCompleter
from prompt_toolkit.data_structures import Size
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output.vt100 import Vt100_Output

from perdure.agent.events import ToolExecutionEnd, ToolExecutionStart, ToolExecutionUpdate
from perdure.agent.tools import AgentToolResult
from perdure.errors import PerdureError
from perdure.front import foot, recalling, screen
from perdure.front.laid_out import Layout
from perdure.front.narration import Narrator
from perdure.front.output import Output, Styled
from perdure.front.screen import Screen
from perdure.front.visible import one_line, visible
from perdure.session.entry import Text, ToolResult
from tests.front import answers

COLUMNS = 80


class Paper(io.StringIO):
    """A terminal that keeps what is written on it."""

    encoding = "utf-8"

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


@dataclass
class NoShell:
    facts: Sequence[str]
    is_busy = False

    def forgive(self) -> None:
        """Nobody wants to leave."""


@asynccontextmanager
async def drawn_screen(rows: int = 24, facts: Sequence[str] = ("a model",)) -> AsyncIterator[Drawn]:
    paper = Paper()
    with create_pipe_input() as keys:
        terminal = Vt100_Output(paper, lambda: Size(rows, COLUMNS), enable_cpr=False)
        face = Screen(
            Output(stdout=Paper(), stderr=Paper()),
            prompt=lambda: "> ",
            history=InMemoryHistory(),
            completer=DummyCompleter(),
            input=keys,
            output=terminal,
        )
        nobody: Any = NoShell(facts)
        talking = asyncio.ensure_future(face.talk(nobody))
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

RULES = re.compile(r"^(?:- )?(?:[-*] ?){3}$", re.MULTILINE)
"""A line as wide as the terminal, of three characters: no block of text grows like that."""
SHAPES = {
    **{name: RULES.sub("", answers.ALL[name]) for name in ("mixed", "lists", "code", "plain")},
    "fence": "```python\n"
    + "".join(f"total_{n} = compute({n})  # of all\n" for n in range(70))
    + "```\nthe end",
    "paragraph": "a word and `another` of *many* " * 80,
    "table": "| number | word |\n|---|---|\n" + "".join(f"| {n} | **cell** |\n" for n in range(50)),
    "list": "".join(f"- item *{n}* of a list\n" for n in range(60)),
    "one long word": "x" * 5000,
    "wide": "日本語 " * 250,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_a_delta_costs_at_most_four_times_its_bytes_and_one_block(name, monkeypatch):
    """Even where each is drawn by itself. A block is what it takes to draw all of the foot once, where there
    is space for all of it."""
    monkeypatch.setattr(screen, "_PACE", 0)
    monkeypatch.setattr(foot, "_PATIENCE", 0)
    size = max(10, len(SHAPES[name]) // 10)
    deltas = [SHAPES[name][at : at + size] for at in range(0, len(SHAPES[name]), size)]

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


def test_what_is_open_is_laid_out_when_it_grows_and_not_when_a_key_is_pressed(monkeypatch):
    """Nor when the spinner turns: a long table takes a tenth of a second to lay out."""
    laid_out: list[str] = []
    lines = Layout.lines

    def counted(layout: Layout, text: str) -> list[str]:
        laid_out.append(text)
        return lines(layout, text)

    monkeypatch.setattr(Layout, "lines", counted)

    async def redrawn() -> None:
        async with drawn_screen() as drawn:
            drawn.face.doing("a model answers")
            drawn.face.answer(SHAPES["table"])
            await drawn.taken()
            laid_out.clear()
            for _ in range(5):
                await drawn.taken()

    asyncio.run(redrawn())
    assert laid_out == []


# --- what a terminal is sent --------------------------------------------------------------------------

OURS = re.compile(
    r"\x1b\["
    r"(?:[0-479;]*m|(?:[0-79]+;)*[349][0-79]m|0;[0-9;]*m"  # no blinking, nothing hidden, no 24-bit colour
    r"|[0-9]*[ABCD]"
    r"|[JK]"
    r"|\?(?:1|7|12|25|2004)[hl])"
    r"|\x08(?!\x08)"  # the cursor, one back
)
ATTACKS = [
    *["\x1b[2J", "\x1b[1;1H", "\x1b[3J", "\x1b[?1049h", "\x1bc", "\x1b[8m", "\x1b[5m", "\x1b[1;5r"],
    *["\x1b[6n", "\x1b]0;title\x07", "\x1b]52;c;aGk=\x1b\\", "\x1bP+q544e\x1b\\", "\x1b_Ga=d\x1b\\"],
    *["\x1b]8;;http://x\x07", "\x9b2J", "\x9d0;title\x9c", "\x90q\x9c", "\x85", "\x0e", "\x0f"],
    *["\x08\x08", "\rover", "\x0b", "\x0c", "\x7f", "\0", "\u202e", "\u2066", "\u200f", "\u2028"],
    *["\ufeff", "\u200b", "\U000e0041", "\ud800", "\udc9b", "\udfff", "\u3164", "\u00ad"],
]
WORDS = [
    *["日本語", "👩\u200d👧", "e\u0301", "\uff57", "\t", "\n", "\n\n", "\r\n", "a word", " " * 90, "x" * 90],
    *["# ", "- ", "> ", "```", "`", "**", "[a](", ")", "<b>", "| a | b |\n|---|---|\n| c | d |"],
]
HOSTILE = st.lists(
    st.sampled_from(ATTACKS) | st.sampled_from(WORDS) | st.text(max_size=8), min_size=5, max_size=20
).map("".join)
EVERY_ATTACK = " and\n".join(ATTACKS)


def obeyed(written: str) -> list[str]:
    """What of it a terminal would obey, and people not see, beside our own codes."""
    content = OURS.sub("", re.sub(r"\r(?=[\n\x1b]|$)", "", written))
    return [character for character in content if visible(f"日{character}") != f"日{character}"]


@pytest.mark.slow
@example(EVERY_ATTACK, 1)
@given(HOSTILE, st.integers(1, 20))
def test_nothing_from_a_model_a_tool_or_a_user_is_obeyed_by_the_terminal(text, size):
    """Given as everything that a conversation shows."""

    async def shown() -> str:
        async with drawn_screen(facts=[text, "a session"]) as drawn:
            face = drawn.face
            written = []
            narrator = Narrator(face, one_line(text))
            face.said(text)
            for at in range(0, len(text), size):
                face.think(text[at : at + size])
            written.append(await drawn.taken())
            face.end_of_answer()
            for at in range(0, len(text), size):
                face.answer(text[at : at + size])
            written.append(await drawn.taken())
            face.end_of_answer()
            arguments = {text: text}
            narrator.see(ToolExecutionStart("c", text, arguments))
            narrator.see(ToolExecutionUpdate("c", text, arguments, AgentToolResult(text)))
            face.queued([text], [text, text])
            face.doing(text)
            written.append(await drawn.taken())
            narrator.see(ToolExecutionEnd("c", text, AgentToolResult(text), True))
            narrator.see(ToolExecutionStart("d", "write", arguments))
            details = {"diff": f"@@ -1 +1 @@\n-{text}\n+{text}"}
            narrator.see(ToolExecutionEnd("d", "write", AgentToolResult(text, details), False))
            recalling.show_result(recalling.Answered(ToolResult("c", text, [Text(text)]), arguments), face)
            face.failed(PerdureError(text, text))
            face.note(Styled(text, "dim"))
            narrator.end()
            written.append(await drawn.taken())
            return "".join(written)

    assert obeyed(asyncio.run(shown())) == []


@pytest.mark.slow
@example(EVERY_ATTACK)
@given(HOSTILE)
def test_what_is_given_back_to_be_edited_is_not_obeyed_by_the_terminal(text):
    """It may have been pasted. Whoever edits it sees each character."""

    async def shown() -> str:
        async with drawn_screen() as drawn:
            drawn.face.edit(text)
            return await drawn.taken()

    left = OURS.sub("", asyncio.run(shown()))
    assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", left)
