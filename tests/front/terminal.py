"""Real terminals for tests: `Terminal` draws with pyte what a program writes, `Tmux` is tmux itself.

    with Terminal(sys.executable, "-m", "perdure", cwd=project) as terminal:
        terminal.until("> ")
        terminal.send("hello")
        terminal.keys("enter")
        terminal.until("the answer")
        terminal.keys("c-d")
        assert terminal.wait() == 0

`Terminal` is quick and keeps every byte. Like xterm it cuts lines when it becomes narrower; tmux lays them
out anew. When they become higher, what has left at the top comes back in both.
"""

import copy
import os
import select
import signal
import subprocess
import termios
import time
import unicodedata
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import pyte
from wcwidth import wcwidth

from tests.processes import at_terminal

KEYS = {
    "backspace": "\x7f",
    "delete": "\x1b[3~",
    "down": "\x1b[B",
    "end": "\x1b[F",
    "enter": "\r",
    "escape": "\x1b",
    "home": "\x1b[H",
    "left": "\x1b[D",
    "pagedown": "\x1b[6~",
    "pageup": "\x1b[5~",
    "right": "\x1b[C",
    "s-tab": "\x1b[Z",
    "tab": "\t",
    "up": "\x1b[A",
}
OTHER_WHERE_ASKED_FOR = {"down", "end", "home", "left", "right", "up"}
APPLICATION_CURSOR, BRACKETED_PASTE = 1 << 5, 2004 << 5  # as pyte numbers private modes
ALTERNATE = {47, 1047, 1049}
PAUSE = 0.02


class Seen:
    """What both are waited for with."""

    @property
    def screen(self) -> list[str]:
        """As many lines as there are rows, without the blanks at their ends."""
        raise NotImplementedError

    def look(self) -> bool:
        """Take in what has changed, after a short while at most. Whether something may still change."""
        raise NotImplementedError

    def until(self, condition: str | Callable[[], object], seconds: float = 60) -> None:
        """Until the text is on the screen, or the condition holds. A text may end with a blank."""
        end = time.monotonic() + seconds
        is_going = True
        while not (condition() if callable(condition) else self._shows(condition)):
            assert time.monotonic() < end, self._failed(f"not within {seconds} s: {condition}")
            assert is_going or callable(condition), self._failed(f"it ended before it showed {condition!r}")
            is_going = self.look()

    def _shows(self, text: str) -> bool:
        return text in "\n".join(self.screen) or any(text in f"{line} " for line in self.screen)

    def _failed(self, why: str) -> str:
        return "\n".join([why, "on the screen:", *(f"│ {line}" for line in self.screen)])


class Terminal(Seen):
    """A program at a terminal that answers nothing it is asked, but where its cursor is.

    Without `env` it has the test's own environment, apart from what says how wide or colourful things are.
    """

    def __init__(
        self,
        *command: str,
        cwd: str | os.PathLike[str],
        env: Mapping[str, str] | None = None,
        columns: int = 80,
        rows: int = 24,
        answers: bool = True,
    ) -> None:
        self._drawn = Drawn(columns, rows)
        self._stream = pyte.ByteStream(self._drawn)
        self._has_answers = answers
        self._raw = bytearray()
        self._is_over = False  # nobody has the terminal open any more
        self.process, self._terminal = at_terminal(
            command, cwd=cwd, env=environment(env, "xterm-256color"), dimensions=(rows, columns)
        )
        self.pid: int = self.process.pid
        os.set_blocking(self._terminal, False)

    def send(self, text: str, seconds: float = 60) -> None:
        """Typed, also if it is more than the program reads before it writes."""
        rest, end = text.encode(), time.monotonic() + seconds
        while rest:
            _, writable, _ = select.select([], [self._terminal], [], PAUSE)
            if writable:
                rest = rest[os.write(self._terminal, rest) :]
            self._take(0)
            assert time.monotonic() < end, self._failed(f"{len(rest)} bytes were not read")

    def keys(self, *names: str) -> None:
        """By name; `c-x` for Ctrl, `alt-` before any. What comes at once after an escape belongs to it."""
        for name in names:
            self.send(self._typed(name))

    def paste(self, text: str) -> None:
        """As terminals do it: marked, if the program wants that."""
        text = text.replace("\n", "\r")
        self.send(f"\x1b[200~{text}\x1b[201~" if BRACKETED_PASTE in self._drawn.mode else text)

    @property
    def screen(self) -> list[str]:
        return [self._drawn.text(self._drawn.buffer[y]) for y in range(self._drawn.lines)]

    @property
    def scrollback(self) -> list[str]:
        """All that is seen by scrolling up: what has left the screen at its top, then the screen."""
        return [*map(self._drawn.text, self._drawn.above), *self.screen]

    @property
    def cursor(self) -> tuple[int, int]:
        """Column and row, from 0."""
        return min(self._drawn.cursor.x, self._drawn.columns - 1), self._drawn.cursor.y

    @property
    def raw(self) -> bytes:
        """All that the program wrote."""
        return bytes(self._raw)

    def resize(self, columns: int, rows: int) -> None:
        self._take(0)
        self._drawn.resize(rows, columns)
        termios.tcsetwinsize(self._terminal, (rows, columns))

    def wait(self, seconds: float = 60) -> int:
        """The exit code; negative, as in subprocess, if a signal ended the program."""
        end = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < end, self._failed(f"it did not end within {seconds} s")
            self.look()
        while self._take(0):
            assert time.monotonic() < end, self._failed("what it left behind goes on writing")
        return self.process.wait()

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    def close(self) -> None:
        """Ends the program, and what it has started in its own group."""
        if self.process.poll() is None:
            with suppress(ProcessLookupError):  # if it ends by itself right now
                os.killpg(self.pid, signal.SIGKILL)
            self.process.wait()
        if self._terminal >= 0:
            os.close(self._terminal)
            self._terminal = -1

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def look(self) -> bool:
        if self._is_over:
            time.sleep(PAUSE)
        self._take(PAUSE)
        return not self._is_over

    def _take(self, seconds: float) -> bool:
        """Draw some of what there is. Whether there was something, after so many seconds at most."""
        if self._is_over or not select.select([self._terminal], [], [], seconds)[0]:
            return False
        try:
            read = os.read(self._terminal, 1 << 16)
        except OSError:
            read = b""  # so Linux says that the last one has closed it
        self._raw += read
        self._stream.feed(read)
        answers, self._drawn.answers = "".join(self._drawn.answers), []
        if answers and self._has_answers:
            os.write(self._terminal, answers.encode())
        self._is_over = not read
        return not self._is_over

    def _typed(self, name: str) -> str:
        if name.startswith("alt-"):
            return "\x1b" + self._typed(name.removeprefix("alt-"))
        if name.startswith("c-") and len(name) == 3:
            return chr(ord(name[2].upper()) ^ 0x40)
        if name in OTHER_WHERE_ASKED_FOR and APPLICATION_CURSOR in self._drawn.mode:
            return KEYS[name].replace("[", "O")
        return KEYS[name]


class Drawn(pyte.Screen):
    """pyte's screen, with what that lacks: lines above it, an alternate one, wide characters at the edge."""

    def __init__(self, columns: int, lines: int) -> None:
        self.above: list[Any] = []
        self.answers: list[str] = []
        self._main: tuple[Any, Any] | None = None  # while the alternate screen is shown
        super().__init__(columns, lines)

    def text(self, row: Mapping[int, Any]) -> str:
        """Behind a wide character is an empty cell. If one of them was drawn over, the other is a blank."""
        cells = ["", *(row[x].data for x in range(max(row, default=-1) + 1)), ""]
        shown = []
        for before, cell, after in zip(cells, cells[1:], cells[2:], strict=False):
            is_half = columns_of(before) != 2 if not cell else columns_of(cell) == 2 and after
            shown.append(" " if is_half else cell)
        return "".join(shown).rstrip()

    def draw(self, data: str) -> None:
        for part in [data] if data.isascii() else self._drawable(data):
            super().draw(part)
            if pyte.modes.DECAWM not in self.mode:
                self.ensure_hbounds()

    def _drawable(self, data: str) -> Iterator[str]:
        for character in data:
            width = columns_of(character)
            if width == 2 and self.cursor.x == self.columns - 1:
                if pyte.modes.DECAWM not in self.mode:
                    continue
                self.carriage_return()
                self.linefeed()
            if width > 0 or unicodedata.combining(character):  # at any other pyte drops all that follows
                yield character

    def index(self) -> None:
        top, bottom = self.margins or (0, self.lines - 1)
        if self.cursor.y == bottom and top == 0 and not self._main:
            self.above.append(self.buffer[0])
        super().index()

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        if how == 3:
            self.above.clear()
        else:
            super().erase_in_display(how, *args, **kwargs)

    def set_mode(self, *modes: int, **kwargs: Any) -> None:
        super().set_mode(*modes, **kwargs)
        if kwargs.get("private") and ALTERNATE.intersection(modes) and not self._main:
            self._main = self.buffer, copy.copy(self.cursor)
            self.buffer = self.buffer.copy()
            self.buffer.clear()

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:
        super().reset_mode(*modes, **kwargs)
        if kwargs.get("private") and ALTERNATE.intersection(modes) and self._main:
            (self.buffer, self.cursor), self._main = self._main, None

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        lines, columns = lines or self.lines, columns or self.columns
        if self._main:
            alternate = self.buffer, self.cursor
            self.buffer, self.cursor = self._main
            self._fit(lines)
            self.buffer, self.cursor = alternate
        else:
            self._fit(lines)
        self.lines, self.margins = lines, None
        super().resize(lines, columns)
        self.ensure_hbounds()
        self.ensure_vbounds()

    def _fit(self, lines: int) -> None:
        """Less high: what is below the cursor goes first, then the top goes above. Higher: it comes back."""
        rows = [self.buffer[y] for y in range(self.lines)]
        del rows[max(lines, self.cursor.y + 1) :]
        if gone := rows[: max(len(rows) - lines, 0)]:
            self.above += gone
            self.cursor.y -= len(gone)
            del rows[: len(gone)]
        elif back := self.above[-(lines - len(rows)) :] if lines > len(rows) else []:
            del self.above[-len(back) :]
            self.cursor.y += len(back)
            rows = [*back, *rows]
        self.buffer.clear()
        self.buffer.update(enumerate(rows))

    def report_device_status(self, mode: int = 0, **kwargs: Any) -> None:
        if mode == 6 and not kwargs:
            self.answers.append(f"\x1b[{self.cursor.y + 1};{min(self.cursor.x + 1, self.columns)}R")

    def report_device_attributes(self, *args: Any, **kwargs: Any) -> None:
        pass


class Tmux(Seen):
    """A program in a tmux whose server is its own, and reads no settings. What has ended stays to be seen."""

    def __init__(
        self,
        *command: str,
        cwd: str | os.PathLike[str],
        env: Mapping[str, str] | None = None,
        columns: int = 80,
        rows: int = 24,
    ) -> None:
        self._server = f"perdure-{uuid.uuid4().hex[:12]}"
        self._env = environment(env, "screen-256color")
        settings = {
            "default-terminal": "screen-256color",
            "history-limit": "100000",
            "remain-on-exit": "on",
            "remain-on-exit-format": "",
            "status": "off",
        }
        size = ("-x", str(columns), "-y", str(rows))
        self._tmux(
            "start-server",
            *(word for setting in settings.items() for word in (";", "set", "-g", *setting)),
            *(";", "new-session", "-d", *size, "-c", os.fspath(cwd), "env", *map(quoted, command)),
        )
        self.pid = int(self._about("pane_pid"))

    def send(self, text: str) -> None:
        for start in range(0, len(text), 1000):  # a message to the server has its limits
            self._tmux("send-keys", "-l", "--", quoted(text[start : start + 1000]))

    def send_keys(self, *names: str) -> None:
        """As tmux calls them: `Enter`, `Escape`, `C-c`, `M-Enter`, `PageUp`."""
        self._tmux("send-keys", *names)

    def capture(self, history: bool = True) -> list[str]:
        """The screen, and what is above it."""
        shown = self._tmux("capture-pane", "-p", *(("-S", "-") if history else ()))
        return [line.rstrip() for line in shown.removesuffix("\n").split("\n")]

    @property
    def screen(self) -> list[str]:
        return self.capture(history=False)

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def wait(self, seconds: float = 60) -> int:
        """As that of `Terminal`."""
        self.until(self._ended, seconds)
        return -int(self._about("pane_dead_signal") or 0) or int(self._about("pane_dead_status"))

    def close(self) -> None:
        socket = self._about("socket_path")
        if not self._ended():
            with suppress(ProcessLookupError):  # if it ends by itself right now
                os.killpg(self.pid, signal.SIGKILL)
        self._tmux("kill-server")
        with suppress(FileNotFoundError):
            os.unlink(socket)

    def __enter__(self) -> "Tmux":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def look(self) -> bool:
        time.sleep(PAUSE)
        return not self._ended()

    def _ended(self) -> bool:
        # A pane is dead when its terminal is closed, which may be before anybody knows how the program ended.
        if self._about("pane_dead_status") or self._about("pane_dead_signal"):
            return True
        if self._about("pane_dead") == "1":
            os.kill(int(self._about("pid")), signal.SIGCHLD)  # some versions miss that of their program
        return False

    def _about(self, what: str) -> str:
        return self._tmux("display-message", "-p", f"#{{{what}}}").strip()

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-u", "-L", self._server, "-f", os.devnull, *words]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, timeout=20)
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
        return done.stdout


def environment(given: Mapping[str, str] | None, terminal: str) -> dict[str, str]:
    if given is not None:
        return {"TERM": terminal, **given}
    says_how = {"COLUMNS", "LINES", "NO_COLOR", "COLORTERM", "TMUX", "TMUX_PANE"}
    return {name: value for name, value in os.environ.items() if name not in says_how} | {"TERM": terminal}


def quoted(word: str) -> str:
    """For tmux, for which a semicolon at the end of a word is the end of a command."""
    return f"{word[:-1]}\\;" if word.endswith(";") else word


def columns_of(character: str) -> int:
    return wcwidth(character[0]) if character else 0
