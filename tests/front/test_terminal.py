"""The terminals of the tests, for what they show is what others believe."""

import os
import signal
import sys

import pytest

from tests.front.one_prompt import running, until
from tests.front.terminal import KEYS, Terminal, Tmux
from tests.needs import needs_tool

pytestmark = pytest.mark.process


def python(code: str) -> tuple[str, ...]:
    return sys.executable, "-c", code


@pytest.fixture
def numbers(tmp_path):
    path = tmp_path / "numbers.txt"
    path.write_text("".join(f"number {number}\n" for number in range(1, 501)))
    return path


def test_what_scrolls_away_is_above_and_each_line_is_there_once(tmp_path):
    with Terminal("seq", "1", "500", cwd=tmp_path) as terminal:
        assert terminal.wait() == 0
        assert terminal.scrollback == [*map(str, range(1, 501)), ""]
        assert terminal.screen == [*map(str, range(478, 501)), ""]
        assert terminal.raw == b"".join(b"%d\r\n" % number for number in range(1, 501))


def test_more_is_written_than_a_terminal_holds_and_nothing_is_missing(tmp_path):
    with Terminal("seq", "1", "12000", cwd=tmp_path) as terminal:
        assert terminal.wait() == 0
    assert terminal.raw.count(b"\r\n") == 12_000


@needs_tool("less")
def test_the_alternate_screen_is_another_one(numbers):
    """Nothing of it is above, and what was there before comes back. Arrows are what the program asks for."""
    script = f"echo before; less -R {numbers.name}; echo after"
    env = {**os.environ, "TERM": "xterm-256color", "LESS": ""}
    with Terminal("sh", "-c", script, cwd=numbers.parent, env=env) as terminal:
        terminal.until(lambda: terminal.screen[0] == "number 1" and terminal.screen[22] == "number 23")
        terminal.keys("down")
        terminal.until(lambda: terminal.screen[0] == "number 2" and terminal.screen[22] == "number 24")
        assert b"\x1b[?1h" in terminal.raw
        terminal.keys("pagedown")
        terminal.until("number 47")
        terminal.resize(40, 10)
        terminal.send("r")  # what came right before it waited for a key, it looks at after the next one
        terminal.until(lambda: terminal.screen[8].startswith("number") and terminal.screen[9] == ":")
        terminal.send("q")
        assert terminal.wait() == 0
        assert [line for line in terminal.scrollback if line] == ["before", "after"]


def test_it_says_where_the_cursor_is_and_nothing_else(tmp_path):
    """Its own place, counted from 1."""
    asking = """if True:
        import os, select, tty
        tty.setraw(0)
        os.write(1, b"\\x1b[c\\x1b[5n\\x1b[>q\\x1b[?6n\\x1b]11;?\\x07\\x1b[3;5H\\x1b[6n")
        said = b""
        while select.select([0], [], [], 0.2)[0]:
            said += os.read(0, 100)
        os.write(1, repr(said).encode())
    """
    with Terminal(*python(asking), cwd=tmp_path) as terminal:
        terminal.until(r"b'\x1b[3;5R'")
    with Terminal(*python(asking), cwd=tmp_path, answers=False) as terminal:
        terminal.until("b''")


KEYS_READ = """if True:
    import os, sys, tty
    tty.setraw(0)
    os.write(1, b"\\x1b[?2004h" + b"ready")
    count = int(sys.argv[1])
    read = b""
    while len(read) < count:
        read += os.read(0, 1000)
        if count > 100:
            os.write(1, read[-1000:])
    os.write(1, b"\\r\\n" + (repr(read).encode() if count < 100 else b"%d read" % len(read)))
"""


def test_keys_and_text_arrive_as_they_are(tmp_path):
    with Terminal(*python(KEYS_READ), "22", cwd=tmp_path) as terminal:
        terminal.until("ready")
        terminal.send("hé")
        terminal.keys("enter", "c-c", "c-d", "c-j", "c-o", "alt-enter", "up", "pageup", "alt-c-c", "s-tab")
        terminal.until(repr(b"h\xc3\xa9\r\x03\x04\n\x0f\x1b\r\x1b[A\x1b[5~\x1b\x03\x1b[Z"))
        with pytest.raises(KeyError):
            terminal.keys("any")
    assert len({*KEYS.values()}) == len(KEYS)


def test_what_is_pasted_is_marked_where_that_is_wanted(tmp_path):
    with Terminal(*python(KEYS_READ), "15", cwd=tmp_path) as terminal:
        terminal.until("ready")
        terminal.paste("a\nb")
        terminal.until(repr(b"\x1b[200~a\rb\x1b[201~"))


def test_more_is_typed_than_a_program_reads_at_once(tmp_path):
    """Although it writes as much meanwhile, and would wait for somebody to look."""
    with Terminal(*python(KEYS_READ), "100000", cwd=tmp_path) as terminal:
        terminal.until("ready")
        terminal.send("x" * 100_000)
        terminal.until("100000 read")


def test_wide_characters_and_those_without_width_are_drawn(tmp_path):
    """At the edge a wide one takes the next line. A joiner hides nothing of what follows."""
    text = "123456789漢字\ne\u0301 ❤\ufe0f x\u200dy"
    with Terminal("printf", text, cwd=tmp_path, columns=10) as terminal:
        terminal.wait()
        assert terminal.screen[:3] == ["123456789", "漢字", "é ❤ xy"]


def test_half_a_wide_character_is_a_blank(tmp_path):
    """The half that was not drawn over."""
    with Terminal("printf", r"漢字\rab\r\n漢字\ra\r\n漢字\033[3Dx", cwd=tmp_path) as terminal:
        terminal.wait()
        assert terminal.screen[:3] == ["ab字", "a 字", " x字"]


def test_less_high_and_higher_again_nothing_is_lost(tmp_path):
    """What leaves at the top comes back, and the cursor stays at its text."""
    with Terminal("sh", "-c", "seq 1 30; printf '> '; read line; echo $line", cwd=tmp_path) as terminal:
        terminal.until("> ")
        before = terminal.scrollback
        for rows in (5, 10, 24, 60):
            terminal.resize(80, rows)
            assert len(terminal.screen) == rows
            assert [line for line in terminal.scrollback if line] == [line for line in before if line]
            assert terminal.screen[terminal.cursor[1]] == ">"
        terminal.send("typed\n")
        terminal.wait()
        assert terminal.scrollback[30:32] == ["> typed", "typed"]


def test_a_program_hears_of_its_new_size(tmp_path):
    code = """if True:
        import os, signal, time
        signal.signal(signal.SIGWINCH, lambda *_: os.write(1, str(os.get_terminal_size()).encode()))
        print("ready", flush=True)
        time.sleep(20)
    """
    with Terminal(*python(code), cwd=tmp_path) as terminal:
        terminal.until("ready")
        terminal.resize(100, 30)
        terminal.until("columns=100, lines=30")


def test_how_it_ended_is_told(tmp_path):
    for script, code in (("exit 3", 3), ("kill -TERM $$", -signal.SIGTERM), ("kill -HUP $$", -signal.SIGHUP)):
        with Terminal("sh", "-c", script, cwd=tmp_path) as terminal:
            assert terminal.wait() == code
    with Terminal("sleep", "20", cwd=tmp_path) as terminal:
        terminal.kill(signal.SIGINT)
        assert terminal.wait() == -signal.SIGINT
    with Terminal("cat", cwd=tmp_path) as terminal:
        terminal.keys("c-c")
        assert terminal.wait() == -signal.SIGINT


STUBBORN = "trap '' HUP INT TERM; echo ready; {sleeps}; {sleeps}"  # also when its terminal is gone


def test_nothing_is_left_running(tmp_path):
    """Nor what the program started."""
    sleeps = "sleep 20.125"
    with Terminal("sh", "-c", STUBBORN.format(sleeps=sleeps), cwd=tmp_path) as terminal:
        terminal.until(lambda: running(sleeps))
    until(lambda: not running(sleeps))
    with pytest.raises(ProcessLookupError):
        os.kill(terminal.pid, 0)
    terminal.close()


def test_a_failure_shows_the_screen(tmp_path):
    """At once if the program has ended, and otherwise in time."""
    with (
        Terminal("echo", "something else", cwd=tmp_path) as terminal,
        pytest.raises(AssertionError, match=r"(?s)it ended before it showed 'this'.*│ something else"),
    ):
        terminal.until("this")
    with Terminal("sh", "-c", "echo waiting; sleep 20", cwd=tmp_path) as terminal:
        with pytest.raises(AssertionError, match=r"(?s)not within 0.3 s.*│ waiting"):
            terminal.until("this", seconds=0.3)
        with pytest.raises(AssertionError, match=r"(?s)did not end within 0.1 s.*│ waiting"):
            terminal.wait(0.1)


def test_the_environment_is_what_is_given(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    with Terminal("env", cwd=tmp_path) as terminal:
        terminal.wait()
        assert "TERM=xterm-256color" in terminal.scrollback
        assert "NO_COLOR=1" not in terminal.scrollback
    given = {"PATH": os.environ["PATH"], "TERM": "dumb", "A": "b;"}
    with Terminal("env", cwd=tmp_path, env=given) as terminal:
        terminal.wait()
        assert {"TERM=dumb", "A=b;"} < {*terminal.scrollback}


# --- tmux ---------------------------------------------------------------------------------------------


@needs_tool("tmux")
def test_tmux_shows_what_was_written_and_what_is_above_it(tmp_path):
    """Each line once, however high it is; and how the program ended."""
    script = "trap '' HUP; seq 1 500; read line; echo \"<$line>\"; exit 3"
    with Tmux("sh", "-c", script, cwd=tmp_path, columns=60, rows=12) as tmux:
        tmux.until("500")
        assert len(tmux.screen) == 12
        tmux.resize(30, 6)
        tmux.resize(70, 20)
        assert len(tmux.screen) == 20
        tmux.send("é; a semicolon;")
        tmux.send_keys("Enter")
        assert tmux.wait() == 3
        shown = [line for line in tmux.capture() if line]
        assert shown == [*map(str, range(1, 501)), "é; a semicolon;", "<é; a semicolon;>"]
    with Tmux("sh", "-c", "kill -TERM $$", cwd=tmp_path) as tmux:
        assert tmux.wait() == -signal.SIGTERM


@needs_tool("tmux")
def test_tmux_has_the_environment_that_is_given_and_leaves_nothing(tmp_path):
    """Neither processes nor the socket of its server."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "A": "b;"}
    sleeps = "sleep 20.25"
    command = f"env; pwd; {STUBBORN.format(sleeps=sleeps)}"
    with Tmux("sh", "-c", command, cwd=tmp_path, env=env, columns=300) as tmux:  # no path is that long
        tmux.until(lambda: running(sleeps))
        tmux.until("ready")
        assert {"A=b;", f"HOME={tmp_path}", "TERM=screen-256color", str(tmp_path)} < {*tmux.capture()}
        socket = tmux._about("socket_path")
        assert os.path.exists(socket)
    assert not os.path.exists(socket)
    until(lambda: not running(sleeps))
