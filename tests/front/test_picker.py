"""A session is found by its age, its project and what was said in it, and opened with Enter."""

import asyncio
import os
import re
import sys
import textwrap
from functools import partial
from pathlib import Path

import pyte
import pytest
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from perdure.front import picker
from perdure.front.finder import Answer, Finder, Told
from perdure.front.picker import pick_session
from perdure.session.session import Session
from perdure.session.stores import open_store
from perdure.testing.builders import assistant_entry, tool_call_entry, tool_result_entry, user_entry
from tests import processes
from tests.front.chosen import (
    BACKSPACE,
    CTRL_C,
    CTRL_D,
    CTRL_G,
    CTRL_U,
    DOWN,
    END,
    ENTER,
    ESC,
    TAB,
    Screen,
    on_screen,
)
from tests.front.picked import talk


@pytest.fixture
def project(tmp_path):
    (tmp_path / "api-server").mkdir()
    return tmp_path / "api-server"


@pytest.fixture
def sessions(project, tmp_path):
    """Three of this project's, and two of others."""
    return [
        talk(project, "the auth bug is back", "the race is in refresh()", hours=2),
        talk(project, "login flow", "looks fine to me", hours=26, program="aurora"),
        talk(tmp_path / "shop", "zebra crossing", "as you like", hours=30),
        talk(project, "write the tests", "which tests?", "all of them", hours=50),
        talk(tmp_path / "shop", "an old authentication", "so it is", hours=900),
    ]


def shown(screen: Screen) -> list[str]:
    """The rows, without the mark."""
    return [line[2:] for line in screen.lines if re.match("(▸| ) (pi|aurora) ", line)]


def test_the_newest_of_this_project_come_first_and_tab_shows_all(project, sessions):
    """With how many there are, and of which project each is where that is not the same."""

    async def look(screen: Screen) -> None:
        await screen.shows("3 sessions · this project")
        assert [row.split()[0] for row in shown(screen)] == ["pi", "aurora", "pi"]
        assert ["auth bug" in row for row in shown(screen)] == [True, False, False]
        assert re.search(r"auth bug is back +2 h +2 msg", screen.highlighted)
        assert "api-server" not in screen.highlighted
        screen.press(TAB)
        await screen.shows("5 sessions · all projects", "old authentication")
        assert [("shop" in row, "api-server" in row) for row in shown(screen)] == [
            *((False, True), (False, True), (True, False), (False, True), (True, False))
        ]
        screen.press(TAB)
        await screen.shows("3 sessions · this project")
        screen.press(DOWN)
        await screen.highlights("login flow")

    assert on_screen(partial(pick_session, str(project)), look, ENTER).path == sessions[1].path


def test_what_was_said_is_found_while_it_is_typed(project, sessions):
    """What is typed may be the beginning of a word; what matches is marked, and where it was said."""

    async def look(screen: Screen) -> None:
        await screen.shows("3 sessions")
        screen.press("ref")
        await screen.shows("> ref", "1 of 3 · this project", "assistant: the race is in refresh()")
        assert "the auth bug is back" in screen.highlighted
        screen.press("use")
        await screen.shows("0 of 3", "Nothing found in this project; Tab looks in all projects.")
        screen.press(BACKSPACE * 6 + "auth" + TAB)
        await screen.shows("2 of 5 · all projects")
        screen.press(CTRL_U)
        await screen.shows("5 sessions · all projects")
        screen.press('"zebra cross')
        await screen.shows("1 of 5")

    assert on_screen(partial(pick_session, str(project)), look, ENTER).path == sessions[2].path


def test_who_types_quickly_gets_what_they_typed(project, sessions):
    """Enter waits for the answer; what was highlighted before it is not meant."""
    found = on_screen(partial(pick_session, str(project), everything=True), "zebra" + ENTER)
    assert found.path == sessions[2].path


@pytest.mark.slow
def test_it_may_begin_with_a_query_in_all_projects_of_one_program(project, sessions):
    """As `-r TEXT` does where several match."""

    async def look(screen: Screen) -> None:
        await screen.shows("> auth", "2 of 4 · all projects")
        screen.press(CTRL_U)
        await screen.shows("4 sessions · all projects")

    call = partial(pick_session, str(project), query="auth", everything=True, program="pi")
    assert on_screen(call, look, END, ENTER).path == sessions[4].path


@pytest.mark.parametrize("keys", [ESC, CTRL_C, CTRL_G, CTRL_D, f"auth{CTRL_U}{CTRL_D}"])
def test_one_can_leave(project, sessions, keys):
    """And no session is chosen."""
    assert on_screen(partial(pick_session, str(project)), keys) is None


def test_the_session_that_is_open_is_not_offered(project, sessions):
    """One is in it already."""

    async def look(screen: Screen) -> None:
        await screen.shows("2 sessions · this project")
        assert "auth bug" not in screen.text

    call = partial(pick_session, str(project), exclude=sessions[0].path)
    assert on_screen(call, look, ENTER).path == sessions[1].path


def test_a_broken_session_is_shown_and_cannot_be_chosen(project, sessions):
    """Enter says what is wrong and what to do; the next key takes that away."""
    Path(sessions[0].path).unlink()
    Path(sessions[0].path).mkdir()

    async def look(screen: Screen) -> None:
        await screen.shows("3 sessions")
        await screen.highlights("! cannot be read: ")
        screen.press(ENTER)
        doctor = f"Is a directory; `pi sessions doctor pi:{sessions[0].id}` says more"
        await screen.until(lambda: " ".join(screen.lines[-2:]).endswith(doctor))
        screen.press(DOWN)
        await screen.until(lambda: "Esc leave" in screen.lines[-1])

    call = partial(pick_session, str(project))
    assert on_screen(call, look, ENTER, columns=90).path == sessions[1].path


def test_a_session_that_went_meanwhile_is_not_chosen(project, sessions):
    """That is said, and the list is made anew."""

    async def look(screen: Screen) -> None:
        await screen.shows("3 sessions")
        Path(sessions[0].path).unlink()
        screen.press(ENTER)
        await screen.shows("It is not there any more.", "2 sessions")

    assert on_screen(partial(pick_session, str(project)), look, ENTER).path == sessions[1].path


@pytest.mark.slow
def test_nothing_to_choose_is_explained(project, tmp_path):
    """No sessions at all, none here, none that is like that."""
    call = partial(pick_session, str(project))

    async def nothing_here(screen: Screen) -> None:
        await screen.shows("There is no session to open in this project; Tab looks in all projects.")
        screen.press(ENTER + DOWN + TAB)

    async def nothing_at_all(screen: Screen) -> None:
        await screen.shows("There is no session to open.", "0 sessions · all projects")
        screen.press("zebra")
        await screen.shows("There is no session to open.", "> zebra")

    async def something(screen: Screen) -> None:
        await screen.highlights("zebra")

    assert on_screen(call, nothing_here, nothing_at_all, ESC) is None
    talk(tmp_path / "shop", "zebra")
    assert on_screen(call, nothing_here, something, ESC) is None


def test_a_home_that_cannot_be_looked_at_is_told(project, sessions, home):
    """At the foot, until a key is pressed; all other sessions are there."""
    (home / ".soleur").mkdir()
    (home / ".soleur" / "sessions").write_text("no folder")

    async def look(screen: Screen) -> None:
        await screen.shows("3 sessions", "Cannot read", str(home)[:30])
        screen.press(DOWN)
        await screen.until(lambda: "Cannot read" not in screen.text)

    assert on_screen(partial(pick_session, str(project)), look, ENTER).path == sessions[1].path


def test_whose_turn_it_is_is_shown_where_it_matters(project):
    """A session that somebody is in, and one whose answer never came."""
    idle = talk(project, "a question", "an answer", hours=1)
    talk(project, "no answer came", hours=2)

    async def look(screen: Screen) -> None:
        await screen.shows("a question (active)", "no answer came (interrupted)")

    with Session.open(open_store("pi"), idle):
        on_screen(partial(pick_session, str(project)), look, ESC)


# --- the preview ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_last_exchange_is_shown_beside_or_below(project):
    """Beside the rows where there is space for both; the user's last words, and the last answer to them."""
    talk(
        project,
        user_entry("an old question"),
        assistant_entry("an old answer"),
        user_entry("please look again"),
        tool_call_entry("bash", {"command": "ls"}),
        tool_result_entry("a file"),
        assistant_entry("there is\na file"),
        tool_call_entry("bash", {"command": "cat"}),
        tool_result_entry("its text"),
    )

    async def wide(screen: Screen) -> None:
        await screen.shows("│ user: please look again", "│ assistant: there is", "│ a file")
        assert "old answer" not in screen.text
        assert all("│" in line for line in screen.lines[1:-1])

    async def narrow(screen: Screen) -> None:
        await screen.shows("─" * 80, "\nuser: please look again\nassistant: there is\na file")
        assert "│" not in screen.text

    async def low(screen: Screen) -> None:
        await screen.shows("an old question")
        assert "please" not in screen.text

    for look, columns, rows in ((wide, 200, 50), (wide, 100, 8), (narrow, 80, 24), (low, 80, 12)):
        on_screen(partial(pick_session, str(project)), look, ESC, columns=columns, rows=rows)


@pytest.mark.slow
def test_a_prompt_without_an_answer_is_shown_once(project):
    """And what only called tools is shown by what it called."""
    talk(project, user_entry("list it"), tool_call_entry("bash", {"command": "ls -la"}), hours=1)
    talk(project, "hello there", hours=2)

    async def look(screen: Screen) -> None:
        await screen.shows("user: list it", "assistant: bash ls -la")
        screen.press(DOWN)
        await screen.shows("user: hello there")
        assert screen.text.count("hello there") == 3  # its row, its title, and once more

    on_screen(partial(pick_session, str(project)), look, ESC)


def test_a_preview_that_fails_says_why(project, sessions, monkeypatch):
    """Also if that is a defect of ours; the session can still be chosen."""

    def view(*_: object) -> Session:
        raise RecursionError("too deep")

    monkeypatch.setattr(Session, "view", view)

    async def look(screen: Screen) -> None:
        await screen.shows("not shown: RecursionError: too deep")

    assert on_screen(partial(pick_session, str(project)), look, ENTER).path == sessions[0].path


def test_no_title_puts_others_out_of_place(project):
    """Whatever joins, turns or obeys in it, each row has its columns where they belong."""
    evil = "a 👨\u200d👩\u200d👧 👍🏽 🇩🇪 ❤\ufe0f \x1b[2J\x1b]0;owned\x07 \u202egnp\n漢字 e\u0301 "
    for hours in range(1, 5):
        talk(project, evil * (hours % 2 * 3) or "plain", "so it is", hours=hours)

    def check(screen: Screen) -> None:
        rows = [line for line in screen.lines if " pi  " in line]
        assert len(rows) == 4
        assert all(re.search(r"(\b|…) +[1-4] h +2 msg$", row) for row in rows)

    async def look(screen: Screen) -> None:
        await screen.shows("4 sessions", "user: a")
        check(screen)
        screen.press(DOWN)
        await screen.highlights("plain")
        await screen.shows("user: plain")
        check(screen)

    on_screen(partial(pick_session, str(project)), look, ESC)


# --- many of them ---------------------------------------------------------------------------------------


def test_the_rest_is_asked_for_when_somebody_gets_there(project, monkeypatch):
    """And the highlight stays on the session it is on."""
    for number in range(12):
        talk(project, f"talk {number:02}", hours=number + 1)
    monkeypatch.setattr(picker, "_ROWS", 3)
    monkeypatch.setattr(picker, "_NEAR_THE_END", 2)

    async def look(screen: Screen) -> None:
        await screen.shows("12 sessions", "talk 02")
        assert "talk 03" not in screen.text
        screen.press(DOWN + DOWN)
        await screen.shows("talk 11")
        assert "talk 02" in screen.highlighted
        screen.press(END)
        await screen.highlights("talk 11")

    assert on_screen(partial(pick_session, str(project)), look, ENTER).title == "talk 11"


def test_what_comes_too_late_is_dropped(project, sessions):
    """An answer to a question that is no longer asked changes nothing on the screen."""

    async def main() -> None:
        with create_pipe_input() as input:
            screen = picker._Sessions("", False, "", input=input, output=DummyOutput())
            heard: asyncio.Queue[Told] = asyncio.Queue()
            loop = asyncio.get_running_loop()
            finder = Finder(str(project), lambda told: loop.call_soon_threadsafe(heard.put_nowait, told))
            picking = asyncio.ensure_future(screen.pick(finder))
            while not isinstance(answer := await heard.get(), Answer) or not answer.is_read:
                pass
            screen.hear(answer)
            assert len(screen.items) == 3
            input.send_text("zebra")
            while screen.query != "zebra":
                await asyncio.sleep(0.01)
            screen.hear(answer._replace(offers=[]))
            assert len(screen.items) == 3
            input.send_text(ESC)
            assert await picking is None
            screen.hear(answer._replace(offers=[]))
            assert len(screen.items) == 3
            await asyncio.to_thread(finder.close)

    asyncio.run(main())


def test_an_error_of_the_catalog_ends_it(project, monkeypatch):
    """Nobody sits before a screen that never answers."""

    def fails(*_: object, **__: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr("perdure.session.catalog.Catalog.count", fails)
    with pytest.raises(ZeroDivisionError):
        on_screen(partial(pick_session, str(project)))


# --- at a terminal --------------------------------------------------------------------------------------

SCRIPT = """
    import asyncio, sys, termios
    from perdure.front.picker import pick_session

    before = termios.tcgetattr(sys.stdin)
    print("before")
    row = asyncio.run(pick_session(sys.argv[1], everything=True))
    print("picked", row.title if row else None, termios.tcgetattr(sys.stdin) == before)
"""


@pytest.mark.process
def test_at_a_terminal(project, sessions):
    """It follows the size of the terminal, finds what is typed, and leaves the terminal as it was."""
    child = processes.spawn(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(project)],
        env={**os.environ, "TERM": "xterm-256color"},
    )
    written = ""
    terminal = pyte.Screen(80, 24)
    stream = pyte.Stream(terminal)

    def until(*texts: str) -> str:
        nonlocal written
        while not all(text in "\n".join(terminal.display) for text in texts):
            new = child.read_nonblocking(65536, timeout=30)
            written += new
            stream.feed(new)
        return "\n".join(terminal.display)

    assert "│" not in until("5 sessions · all projects", "user: the auth bug is back")
    terminal.reset()
    terminal.resize(40, 200)
    child.setwinsize(40, 200)
    until("5 sessions · all projects", "│ user: the auth bug is back")
    child.send("crossing")
    until("> crossing", "1 of 5", "│ user: zebra crossing")
    child.send(ENTER)
    written += child.read()
    child.close()
    assert child.exitstatus == 0
    screens = re.split(r"\x1b\[\?1049([hl])", written)
    assert screens[1::2] == ["h", "l"]
    left = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screens[0] + screens[-1])
    assert left.split() == ["before", "picked", "zebra", "crossing", "True"]
