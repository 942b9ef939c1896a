"""One of many is chosen with a few keys, and the terminal is then as it was."""

import asyncio
import os
import re
import sys
import textwrap
from functools import partial

import pexpect
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.front.choosing import Choice, choose, matching
from perdure.front.visible import visible
from tests import processes
from tests.front.chosen import (
    BACKSPACE,
    CTRL_C,
    CTRL_D,
    CTRL_G,
    CTRL_N,
    CTRL_P,
    CTRL_U,
    DOWN,
    END,
    ENTER,
    ESC,
    HOME,
    PAGE_DOWN,
    PAGE_UP,
    UP,
    Screen,
    on_screen,
)

MODELS = [Choice(f"p/m{n}", f"p/model-{n}", f"{n}k") for n in range(400)]
asked = partial(choose, "Which model?", MODELS)


@pytest.mark.parametrize(
    ("keys", "at"),
    [
        ((), 0),
        ((DOWN, DOWN, UP), 1),
        ((CTRL_N, CTRL_N, CTRL_P), 1),
        ((UP,), 0),
        ((END,), 399),
        ((END, DOWN), 399),
        ((END, HOME), 0),
        ((PAGE_DOWN, PAGE_UP, DOWN), 1),
        ((DOWN, PAGE_DOWN, PAGE_UP), 1),
    ],
)
def test_keys_move_the_highlight_and_enter_chooses(keys, at):
    """It stops at both ends."""
    assert on_screen(asked, *keys, ENTER) == f"p/m{at}"


def test_a_page_is_what_fits_on_the_screen():
    """So that nothing is passed unseen: the last row of a page is the first of the next."""

    async def look(screen: Screen) -> None:
        await screen.shows("model-0 ")
        last = [line for line in screen.lines if "model-" in line][-1]
        screen.press(PAGE_DOWN)
        await screen.highlights(last.split()[0])

    assert on_screen(asked, look, ENTER, rows=12) == "p/m8"


def test_it_begins_at_the_current_one_which_is_marked():
    """Enter changes nothing then."""

    async def look(screen: Screen) -> None:
        await screen.shows("Which model?")
        assert screen.highlighted.split() == ["▸", "✓", "p/model-300", "300k"]
        assert [line for line in screen.lines if "✓" in line] == [screen.highlighted]

    assert on_screen(partial(asked, current="p/m300"), look, ENTER) == "p/m300"


def test_words_make_the_list_shorter():
    """In any order and case, in what is shown and in details; what is left is counted."""

    async def look(screen: Screen) -> None:
        screen.press("39K MODEL")
        await screen.shows("> 39K MODEL", "4 of 400")
        screen.press(DOWN + BACKSPACE * 8)
        await screen.shows("> 3 ")
        assert "model-3 " in screen.highlighted  # what was highlighted is of another list
        screen.press(CTRL_U + "zebra")
        await screen.shows("0 of 400", "Nothing like that.")
        screen.press(ENTER + CTRL_U + CTRL_D)

    assert on_screen(asked, look) is None


@given(st.lists(st.builds(Choice, st.text(), st.text(), st.text())), st.text())
def test_the_list_has_all_that_match_and_nothing_else(choices, query):
    """In the order they were in, and for no word all of them."""
    found = matching(choices, query)
    words = query.casefold().split()
    assert [each for each in choices if each in found] == found
    assert all(any(word in part.casefold() for part in each) for each in found for word in words)
    assert matching(choices, "") == choices


@pytest.mark.parametrize("key", [ESC, CTRL_C, CTRL_G, CTRL_D])
def test_one_can_leave(key):
    """And nothing is chosen."""
    assert on_screen(asked, DOWN, key) is None


def test_ctrl_d_leaves_only_where_nothing_is_typed():
    """Else it deletes, as in every line."""
    assert on_screen(asked, "399", CTRL_D, ENTER) == "p/m399"


def test_a_bare_escape_is_told_from_the_keys_that_begin_with_it():
    """Alt+B is a word back, and an arrow is an arrow."""
    assert on_screen(asked, "model\x1bb9 ", DOWN, ENTER) == "p/m19"


def test_what_is_pasted_is_one_line_and_obeys_nobody():
    """A line feed in it is no Enter."""

    async def look(screen: Screen) -> None:
        screen.press("\x1b[200~model\n7\x1b]0;owned\x07\x1b[201~")
        await screen.shows(r"> model 7\x1b]0;owned\x07")

    assert on_screen(asked, look, CTRL_U, ENTER) == "p/m0"


def test_a_small_question_needs_no_filter():
    """Then letters do nothing; a long title has the lines it needs."""
    title = "This session belongs to another directory, which is not there any more. " * 2
    ways = [Choice("go", "Go there"), Choice("stay", "Stay here", "and work here")]

    async def look(screen: Screen) -> None:
        await screen.shows("Go there", "Stay here  and work here")
        assert " ".join(screen.text.split()).startswith(title.strip())
        assert "\n> " not in screen.text
        screen.press("go")

    shown = partial(choose, title, ways, can_filter=False)
    assert on_screen(shown, look, DOWN, ENTER, columns=50) == "stay"


def test_nothing_to_choose_from_is_said():
    """And one can leave."""

    async def look(screen: Screen) -> None:
        await screen.shows("There is nothing to choose from.")

    assert on_screen(partial(choose, "Which?", []), look, ENTER, DOWN, ESC) is None


def test_there_is_colour_only_where_it_is_wanted():
    """Without it the highlight is still to be seen."""
    for has_colour in (True, False):

        async def look(screen: Screen, has_colour: bool = has_colour) -> None:
            await screen.highlights("model-1")
            assert bool(screen.colours) == has_colour

        shown = partial(asked, current="p/m0", has_colour=has_colour)
        assert on_screen(shown, DOWN, look, ENTER) == "p/m1"


@pytest.mark.parametrize(("columns", "rows"), [(200, 50), (20, 5), (8, 3), (2, 1)])
def test_it_is_usable_on_a_terminal_of_any_size(columns, rows):
    """Also where hardly anything of it can be seen."""
    assert on_screen(asked, DOWN, ENTER, columns=columns, rows=rows) == "p/m1"


def test_hostile_texts_are_only_shown():
    """A title, a text and a detail with escapes, turned directions and line feeds in them."""
    evil = "\x1b[31mred\x1b]0;owned\x07\u202egnp\u200b\n家\u0301族👨\u200d👩\u200d👧"
    choices = [Choice("evil", evil, evil), Choice("good", "good", "good")]

    async def look(screen: Screen) -> None:
        await screen.shows("good")
        assert "\\x1b[31mred" in screen.highlighted
        assert screen.lines[2].split() == ["good", "good"] or screen.lines[3].split() == ["good", "good"]
        drawn = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|[\r\n\x08]", "", screen.written.getvalue())
        assert visible(drawn) == drawn

    assert on_screen(partial(choose, evil, choices), look, ENTER) == "evil"


SCRIPT = """
    import asyncio, sys, termios
    from perdure.front.choosing import Choice, choose

    def state():
        return termios.tcgetattr(sys.stdin)

    before = state()
    print("before")
    for _ in range(2):
        chosen = asyncio.run(choose("Which?", [Choice("a", "first"), Choice("b", "second")]))
        print("chosen", chosen, state() == before, flush=True)
"""


@pytest.mark.process
def test_the_terminal_is_as_it_was_however_one_leaves():
    """Its modes, and its screen: all that was drawn was drawn on the other one."""
    child = processes.spawn(
        [sys.executable, "-c", textwrap.dedent(SCRIPT)],
        env={**os.environ, "TERM": "xterm-256color"},
        dimensions=(24, 80),
    )
    written = io_of(child)
    child.expect_exact("second")
    child.send(DOWN + ENTER)
    child.expect_exact("chosen b")
    child.expect_exact("second")
    child.send(ESC)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    screens = re.split(r"\x1b\[\?1049([hl])", "".join(written))
    assert screens[1::2] == ["h", "l", "h", "l"]
    left = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", "".join(screens[0::4]))
    assert left.split() == ["before", "chosen", "b", "True", "chosen", "None", "True"]
    modes = dict(re.findall(r"\x1b\[\?(\d+)([hl])", "".join(written)))
    assert modes == {"1": "l", "7": "h", "12": "l", "25": "h", "1049": "l", "2004": "l"}


def io_of(child: processes.spawn) -> list[str]:
    """All that a program writes, from now on."""
    written: list[str] = []

    class Log:
        def write(self, text: str) -> None:
            written.append(text)

        def flush(self) -> None:
            pass

    child.logfile_read = Log()
    return written


def test_it_ends_when_it_is_cancelled():
    """The other screen is left, and nothing is left behind that would still run."""

    async def cancelled(**terminal):
        shown = asyncio.ensure_future(asked(**terminal))
        await asyncio.sleep(0.05)
        shown.cancel()
        await asyncio.gather(shown, return_exceptions=True)
        return len(asyncio.all_tasks()), terminal["output"].stdout.getvalue()

    tasks, written = on_screen(cancelled)
    assert tasks == 2  # the test's own
    assert "\x1b[?1049l" in written.partition("\x1b[?1049h")[2]
