"""`/tree` with hostile texts, with long sessions, and at a real terminal."""

import asyncio
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path

import pexpect
import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.front import branches
from perdure.front.tree_view import Move
from perdure.front.visible import visible
from perdure.session.entry import Entry, decode
from perdure.testing import user_entry
from perdure.testing.corpus import record
from perdure.testing.writing import child
from tests import processes
from tests.effort import FEW
from tests.front.test_show import hostile, left_and_here
from tests.front.test_tree_view import session_of
from tests.front.tree_screen import (
    CTRL_C,
    CTRL_U,
    DOWN,
    END,
    ENTER,
    ESC,
    HOME,
    LEFT,
    PAGE_DOWN,
    PAGE_UP,
    RIGHT,
    UP,
    Screen,
    at_tree,
)
from tests.generated import sessions

PASTED = "\x1b[200~{}\x1b[201~"

# --- hostile texts ------------------------------------------------------------------------------------

OURS = re.compile(r"\x1b\[[?0-9;]*[A-Za-z]|\r|\n")
NEVER_OURS = re.compile(r"\x1b\[(5|31;5)m|\x1b\][0-9]|\x1bP|\x07|\x9b")


def only_visible(screen: Screen) -> None:
    seen = screen.text
    assert visible(seen) == seen
    assert not NEVER_OURS.search(screen.written)
    rest = OURS.sub("", screen.written)
    assert visible(rest) == rest


@FEW
@given(entries=sessions(most=30), columns=st.sampled_from([20, 80, 130]))
def test_nothing_but_visible_text_reaches_the_screen(entries, columns):
    """Whatever a session holds, in its rows and previews."""

    async def look_at(screen: Screen) -> None:
        for _ in range(4):
            screen.press(UP)
            await asyncio.sleep(0.01)
            only_visible(screen)

    with tempfile.TemporaryDirectory() as folder:
        at_tree(session_of(folder, entries), look_at, CTRL_C, columns=columns)


@pytest.mark.slow
def test_nothing_hostile_is_obeyed_also_in_what_is_pasted(tmp_path):
    """As a text, a name, a label; and it is shown as what it is."""
    evil = "\x1b]0;owned\x07 \x9b31m \u202e \ud800"
    entries = hostile()
    targets = b',"targetId":"%b","label":%b' % (entries[-1].id.encode(), json.dumps(evil).encode())
    session = session_of(tmp_path, [*entries, child(record("label", targets), entries[-1])])

    async def look_at(screen: Screen) -> None:
        for key in [UP] * 20 + [PAGE_UP] * 6 + [UP] * 6:
            screen.press(key)
            await screen.until(lambda: screen.is_drawn)
            assert screen.chosen
        only_visible(screen)
        for asked in "l/":
            screen.press(asked + PASTED.format(evil.encode("utf-8", "replace").decode()))
            await screen.shows("\\u202e")
            only_visible(screen)
            screen.press(ESC)
            await screen.shows("Esc leave")

    assert at_tree(session, look_at, CTRL_C, columns=130, rows=40) is None


# --- long sessions ------------------------------------------------------------------------------------


def long(count: int) -> list[Entry]:
    """A long conversation with a branch every fifty entries."""
    lines = []
    for number in range(count):
        parent = number - 20 if number % 50 == 49 else number - 1
        role = b'"assistant","content":[{"type":"text","text":"answer %d"}]' % number
        if number % 2 == 0:
            role = b'"user","content":"question %d"' % number
        above = b'"%d"' % parent if number else b"null"
        lines.append(
            b'{"type":"message","id":"%d","parentId":%b,"timestamp":"2026-01-31T09:05:00.123Z",'
            b'"message":{"role":%b}}' % (number, above, role)
        )
    return [decode(line) for line in lines]


@pytest.mark.slow
def test_of_many_entries_only_those_on_the_screen_are_read_and_keys_are_answered_in_a_search(
    tmp_path, monkeypatch
):
    """Which is given up for another one at any letter."""
    session = session_of(tmp_path, long(30_000))
    read: list[str] = []
    row = branches.row

    def counted(place, *arguments, **options):
        read.append(place.entry.id)
        return row(place, *arguments, **options)

    monkeypatch.setattr(branches, "row", counted)

    async def press(screen: Screen, key: str) -> None:
        _ = screen.lines
        screen.press(key)
        while not screen.is_drawn:
            await asyncio.sleep(0)

    async def look_at(screen: Screen) -> None:
        await screen.has_chosen("answer 29999")
        for key in (UP, PAGE_UP, HOME, DOWN, RIGHT, PAGE_DOWN, RIGHT, END, LEFT):
            await press(screen, key)
        assert 0 < len(read) < 500
        for letter in "/nowhere":
            await press(screen, letter)
        screen.press(CTRL_U + "question 500")
        await screen.has_chosen("question 500")

    assert at_tree(session, look_at, ENTER, ENTER) == Move("499", "question 500")


@pytest.mark.slow
def test_branches_of_branches_stay_within_the_screen(tmp_path):
    """However deep they are, and however narrow it is; what is highlighted is always seen."""
    trunk: list[Entry] = []
    for number in range(400):
        parent = trunk[(number - number % 2) - 1] if number >= 2 else None
        trunk.append(child(user_entry(f"深い {number} " + "wide " * 40), parent))
    session = session_of(tmp_path, trunk)
    for columns in (1, 5, 12, 40, 120):

        async def look_at(screen: Screen, columns: int = columns) -> None:
            assert screen.chosen == screen.lines[10]
            assert columns < 5 or all(line.startswith("⋯") for line in screen.lines[:-1])
            if columns >= 40:
                assert "● here" in screen.chosen

        assert at_tree(session, look_at, "q", columns=columns, rows=12) is None


# --- a real terminal ----------------------------------------------------------------------------------

PROGRAM = """
import asyncio, sys
from perdure.front.tree_view import show_tree
from perdure.session.session import Session
from perdure.session.stores import open_store

async def label(entry_id, text):
    raise AssertionError

store = open_store("pi", sys.argv[1])
session = Session.view(store, next(iter(store.list())))
print("before")
print("chosen", asyncio.run(show_tree(session, label=label)))
print("said", input("typed? "))
"""


class Terminal:
    """A real one, and what is seen on it."""

    def __init__(self, folder: Path) -> None:
        session_of(folder, left_and_here())
        words = ["-c", PROGRAM, str(folder)]
        environment = {**os.environ, "TERM": "xterm-256color"}
        self._process = processes.spawn([sys.executable, *words], dimensions=(24, 80), env=environment)
        self.written = ""
        self.screen = pyte.Screen(80, 24)
        self._stream = pyte.Stream(self.screen)
        self.send = self._process.send

    def shows(self, text: str) -> None:
        end = time.monotonic() + 20
        while not any(text in line for line in self.screen.display):
            assert time.monotonic() < end, "\n".join(self.screen.display)
            try:
                new = self._process.read_nonblocking(65536, timeout=0.1)
            except pexpect.TIMEOUT:
                continue
            self.written += new
            self._stream.feed(new)

    def widen(self) -> None:
        self.screen.resize(24, 160)
        self._process.setwinsize(24, 160)

    def ends(self) -> None:
        self._process.expect(pexpect.EOF)
        self._process.close()
        assert self._process.exitstatus == 0


@pytest.mark.process
def test_at_a_terminal_it_has_a_screen_of_its_own(tmp_path):
    """What stood there before is untouched, nothing is asked of the terminal, and it is left as it was."""
    terminal = Terminal(tmp_path)
    terminal.shows("● here")
    before, _, within = terminal.written.partition("\x1b[?1049h")
    assert "before" in before
    assert "before" not in within
    assert not {"\x1b[6n", "\x1b[?1000h"} & set(re.findall(r"\x1b\[[?0-9;]*[A-Za-z]", terminal.written))
    terminal.send(ESC)
    terminal.shows("typed?")
    within, _, after = terminal.written.partition("\x1b[?1049l")
    assert "chosen None" in after
    assert "chosen" not in within
    terminal.send("in lines again\r")
    terminal.shows("said in lines again")
    terminal.ends()


@pytest.mark.process
def test_a_terminal_that_is_made_wider_is_used(tmp_path):
    """From a list to a list with a preview beside it."""
    terminal = Terminal(tmp_path)
    terminal.shows("● here")
    assert "│" not in "".join(terminal.screen.display)
    terminal.widen()
    terminal.shows("│ user")
    terminal.send(UP + UP + ENTER)
    terminal.shows("chosen Move(entry_id='")
    terminal.send("\r")
    terminal.ends()
