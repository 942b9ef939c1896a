"""Where a command's answer goes: stdout is the answer, stderr is what is said about it.

All text passes through `visible`, so no content reaches a terminal as a control. The escape codes that colour
it are ours, and are written only to a terminal that wants them. Errors of stdout are told apart from every
other failed system call: what should have been shown was not, and that must not look like success.
"""

from __future__ import annotations

import io
import os
import re
import sys
import time
from collections import namedtuple

from perdure import config
from perdure.front.visible import escape, fit, folded, one_line, respelled, visible, width

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TextIO

    from perdure.errors import PerdureError

_STYLES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
    "match": "1;31",
}
_PAGER = "less -FRX"
_PATIENCE = 1.0  # seconds of work before its progress is shown
_PACE = 0.1
_BAR = 30
_LOOKS_UP = 0.1  # seconds that a signal may have to wait while an answer is waited for
_MOST_CANDIDATES = 20
_MOST_NAMED = 200  # characters of a line of input


class Styled(namedtuple("Styled", "text style")):
    """Text, and how it looks where there is colour: bold, dim, red, green, yellow, cyan, match."""

    __slots__ = ()

    text: str
    style: str


class Copyable(Styled):
    """Text that somebody may copy, such as a command, or what one printed: no line break is put into it."""

    __slots__ = ()

    def __new__(cls, text: str, style: str = "") -> Copyable:
        return super().__new__(cls, text, style)


class OutputLost(Exception):
    """What should have been shown was not."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Output:
    """The streams of one command. Flushed at its end: the interpreter could only answer with a traceback."""

    def __init__(
        self,
        *,
        json: bool = False,
        program: str = "pi",
        stdout: TextIO | None = None,
        stderr: TextIO | None = None,
        stdin: TextIO | None = None,
    ) -> None:
        self.json = json
        """Whether the answer is wanted as JSON."""
        self.program = program
        """What the program was called by: commands that an answer names begin with it."""
        # A stream is None in a process that was started with it closed.
        self._stdout: TextIO | None = sys.stdout if stdout is None else stdout
        self._stderr: TextIO | None = sys.stderr if stderr is None else stderr
        self._stdin: TextIO | None = sys.stdin if stdin is None else stdin
        self.is_terminal = _is_terminal(self._stdout)
        self.colour = _has_colour(self._stdout)
        self._notes_have_colour = _has_colour(self._stderr)
        self._is_plain = False
        self._unread = bytearray()
        self.has_read = False
        """Whether anything came in that could be an answer."""
        self.has_unused_input = False
        """True if the input ended at a question behind lines that did not answer it: that run has failed."""
        self._is_transient_shown = False
        self.is_progress_shown = False
        """Whether a bar says how far some work is, over which nothing else should be drawn."""

    def be_plain(self) -> None:
        """No escape codes, whatever it is written to."""
        self.colour = self._notes_have_colour = False
        self._is_plain = True

    @property
    def stdout(self) -> TextIO | None:
        """For what draws on the terminal itself."""
        return self._stdout

    @property
    def stdin(self) -> TextIO | None:
        return self._stdin

    @property
    def columns(self) -> int:
        """How many fit on a line; 80 if that is not known."""
        return _columns(self._stdout)

    @property
    def rows(self) -> int:
        """How many lines the screen has; 24 if that is not known."""
        try:
            return os.get_terminal_size(self._stdout.fileno()).lines or 24 if self._stdout else 24
        except (OSError, ValueError):
            return 24

    @property
    def is_watched(self) -> bool:
        """Whether somebody sees what is said about the answer while it is made."""
        return _is_terminal(self._stderr)

    @property
    def note_columns(self) -> int:
        return _columns(self._stderr)

    def line(self, *parts: str | Styled) -> None:
        """One line of the answer, its parts joined as they are; at a terminal wrapped at words."""
        lines = lines_of(parts, self.columns if self.is_terminal else 0, self.colour)
        self._write("\n".join([*lines, ""]))

    def visible_lines(self, lines: Sequence[str]) -> None:
        """Lines of the answer whose content is visible already, and whose escape codes are ours."""
        self._write("\n".join([*lines, ""]))

    def prompt(self, text: str) -> None:
        """What stands before an answer that is waited for."""
        self._write(visible(text))
        self.flush()

    def note(self, *parts: str | Styled) -> None:
        """One line about the answer: what is hidden, a warning, that nothing was found. At a terminal it is
        wrapped at words."""
        self.transient("")
        lines = lines_of(parts, self.note_columns if self.is_watched else 0, self._notes_have_colour)
        self._tell("\n".join([*lines, ""]))

    def transient(self, text: str, *, keeps_blanks: bool = False) -> None:
        """What is going on right now, for somebody who watches; the next line, or nothing, replaces it. With
        `keeps_blanks` it is one line of ours already, in which runs of blanks are not folded."""
        if not text and not self._is_transient_shown:
            return
        if self._stderr is None or not self.is_watched or self._is_plain or config.setting("TERM") == "dumb":
            return
        self._is_transient_shown = False
        shown = visible(text) if keeps_blanks else one_line(text)
        self._tell(f"\r{fit(shown, self.note_columns - 1)}\x1b[K")
        self._is_transient_shown = bool(text)

    def failed(self, error: PerdureError) -> None:
        """What went wrong and what to do about it, in one line; or what may be meant, a line each."""
        between = " " if error.message.endswith("?") else "; "
        hint = "" if error.candidates else error.hint
        said = between.join(filter(None, (error.message, hint)))
        self.note(one_line(f"{self.program}: {said}{':' if error.candidates else ''}"))
        for candidate in error.candidates[:_MOST_CANDIDATES]:
            self.note(f"  {one_line(candidate)}")
        if (more := len(error.candidates) - _MOST_CANDIDATES) > 0:
            self.note(f"  … and {more:,} more")

    def data(self, value: object) -> None:
        """One JSON value, in which all that is not fit for a terminal is escaped as JSON does it."""
        import json

        def spell(character: str) -> str:
            return json.dumps(character)[1:-1]

        self._write(respelled(json.dumps(value, indent=2, ensure_ascii=False), spell) + "\n", spell)

    def raw(self, data: bytes) -> None:
        """The bytes, exactly; at a terminal what they say, visibly."""
        if self._stdout is None or self.is_terminal:
            return self._write(visible(data.decode(errors="backslashreplace")))
        self.transient("")
        self.flush()
        try:
            _write_all(self._stdout.buffer, data)
        except OSError as error:
            raise OutputLost(error) from error

    def page(self, text: str) -> None:
        """Text made for a terminal, its content visible already and its escape codes ours: through the user's
        pager, if somebody is there to page, the terminal can, and it is longer than the screen."""
        text = text if text.endswith("\n") else f"{text}\n"
        is_watched = self.is_terminal and _is_terminal(self._stdin) and config.setting("TERM") != "dumb"
        if not (is_watched and self._is_longer_than_the_screen(text) and self._paged(text)):
            self._write(text)

    @property
    def can_ask(self) -> bool:
        """Whether somebody is there to read a question and to type an answer."""
        return self.is_watched and _is_terminal(self._stdin)

    def ask(self, question: str, *, in_conversation: bool = False) -> bool | None:
        """Whether the answer is yes; Enter is no, None is no answer. What is asked in a conversation is part
        of it, and of what is piped in; there Enter is yes."""
        default = "yes" if in_conversation else "no"
        answer = self.choose(question, ("yes", "no"), default, in_conversation=in_conversation)
        return None if answer is None else answer == "yes"

    def choose(
        self, question: str, words: Sequence[str], default: str, *, in_conversation: bool = False
    ) -> str | None:
        """One of the words, also by its first letter; Enter is the default, None is no answer. What is none
        of them is asked again; what was piped in and is none is named."""
        known = {"": default, **{each[0]: each for each in words}, **{each: each for each in words}}
        letters = "/".join(each[0].upper() if each == default else each[0] for each in words)
        unused: list[str] = []
        while True:
            answer = self.answer(f"{question} [{letters}]", in_conversation=in_conversation)
            if answer is None or answer.lower() in known:
                self.name_unused(unused, is_end_of_input=answer is None)
                return None if answer is None else known[answer.lower()]
            unused.append(answer)

    def answer(self, question: str, *, in_conversation: bool = False) -> str | None:
        """Whatever is typed there; None if nothing can be any more."""
        if in_conversation:
            columns = self.columns if self.is_terminal else 0
        else:
            columns = self.note_columns if self.is_watched else 0
        try:
            text = "\n".join(folded(question, columns and columns - 1)) + " "
            (self.prompt if in_conversation else self._tell)(text)
            line = self.read_line()
        except BaseException:  # a signal, of which a line of its own tells
            self._tell("" if in_conversation and not self.has_echo else "\n")
            raise
        if line is None or not (self.has_echo if in_conversation else _is_terminal(self._stdin)):
            (self._write if in_conversation else self._tell)("\n")  # nobody typed one that can be seen
        return line and line.strip()

    def name_unused(self, lines: Sequence[str], *, is_end_of_input: bool) -> None:
        """Name the lines that were piped in and did not answer a question: none is swallowed. Who typed them
        at a terminal has seen that."""
        if not lines or _is_terminal(self._stdin):
            return
        self.has_unused_input |= is_end_of_input
        shown = ", ".join(repr(fit(one_line(line), _MOST_NAMED)) for line in lines)
        hint = "; pipe in an answer to the question first" if is_end_of_input else ""
        self.note(f"{self.program}: Not used, since it does not answer the question: {shown}{hint}")

    def progress(self, what: str) -> Progress:
        """How far some work is, shown on stderr if that is a terminal and the work takes its time."""
        self.flush()
        return Progress(what, self)

    def flush(self) -> None:
        try:
            if self._stdout is not None:
                self._stdout.flush()
        except OSError as error:
            raise OutputLost(error) from error

    def _write(self, text: str, spell: Callable[[str], str] = escape) -> None:
        if self._stdout is None:
            raise OutputLost(OSError("standard output is closed"))
        self.transient("")
        try:
            _write(self._stdout, text, spell)
        except OSError as error:
            raise OutputLost(error) from error

    def _tell(self, text: str) -> None:
        self.flush()  # both may be one terminal
        if self._stderr is None:
            return
        try:
            _write(self._stderr, text, escape)
            self._stderr.flush()
        except OSError:
            pass  # nowhere is left to tell it; the exit code still does

    @property
    def has_echo(self) -> bool:
        """Whether what is typed is seen where the answer is."""
        return self.is_terminal and _is_terminal(self._stdin)

    def read_line(self) -> str | None:
        """The next line of stdin without its end; None if there is no more, or if it cannot be read. Read by
        its descriptor: a thread that waits in Python's own buffer would not let the process end."""
        at = 0
        while (end := self._unread.find(b"\n", at)) < 0:
            at = len(self._unread)
            try:
                data = _read_awake(self._stdin.fileno()) if self._stdin is not None else b""
            except (OSError, ValueError):
                data = b""
            if not data:
                break
            self._unread += data
            self.has_read = True
        size = end + 1 if end >= 0 else len(self._unread)
        line = self._unread[:size].decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
        del self._unread[:size]
        return line if size else None

    def keep_unread(self, data: bytes) -> None:
        """Read already, by somebody whom it does not concern."""
        self._unread += data

    def take_unread(self) -> bytes:
        data, self._unread = bytes(self._unread), bytearray()
        return data

    def _is_longer_than_the_screen(self, text: str) -> bool:
        assert self._stdout is not None
        try:
            columns, rows = os.get_terminal_size(self._stdout.fileno())
        except OSError:
            return False
        *lines, _ = re.sub(r"\x1b\[[\d;]*m", "", text).split("\n")
        return 0 < rows <= sum(1 + max(0, width(line) - 1) // max(1, columns) for line in lines)

    def _paged(self, text: str) -> bool:
        """Whether there was a pager to show it. One that is set to nothing is not wanted."""
        import codecs
        import shlex
        import subprocess

        from perdure.agent.environment import visible

        assert self._stdout is not None
        self.flush()
        try:
            command = shlex.split(config.setting("PAGER", _PAGER))
            if not command:
                return False
            if os.path.basename(command[0]) == "less":
                command = [command[0], "-R", *command[1:]]  # or it shows our colours as text
            is_utf8 = codecs.lookup(self._stdout.encoding).name == "utf-8"
            settings = {"LESSCHARSET": "utf-8"} if is_utf8 else {}  # or it asks a locale that may be another
            pager = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=self._stdout,
                env=visible(config.environment()) | settings,
            )
        except (OSError, ValueError):
            return False
        assert pager.stdin is not None
        try:
            with pager.stdin as pipe:
                pipe.write(text.encode(self._stdout.encoding, "backslashreplace"))
        except (BrokenPipeError, KeyboardInterrupt):
            pass  # whoever has seen enough leaves; Ctrl+C is the pager's too
        while pager.returncode is None:
            try:
                pager.wait()
            except KeyboardInterrupt:
                pass
        return True


class Progress:
    """A bar that comes after a second and is gone at the end."""

    def __init__(self, what: str, out: Output) -> None:
        self._what = what
        self._out = out
        self._next = time.monotonic() + _PATIENCE

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._out.is_progress_shown:
            self._out.is_progress_shown = False
            self._out.transient("")

    def update(self, done: int, total: int, share: float | None = None) -> None:
        """So much of all of it is done; `share` is how much of the work, where not all parts are alike."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _PACE
        counts = f"{done:,}/{total:,}"
        room = self._out.note_columns - len(f"{self._what} [] {counts} ")
        longest = max(1, min(_BAR, room))
        part = share if share is not None else done / total if total > 0 else 0.0
        bar = "=" * int(longest * min(part, 1.0))
        self._out.is_progress_shown = True
        self._out.transient(f"{self._what} [{bar:{longest}}] {counts}", keeps_blanks=True)


def abandon(stream: TextIO | None) -> None:
    """Point it elsewhere, or Python fails again on what is still in its buffer."""
    if stream is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def painted(parts: Sequence[str | Styled], colour: bool) -> str:
    """The parts joined, all of them visible, in their colours or without."""
    return "".join(
        coloured(visible(part.text), part.style)
        if colour and isinstance(part, Styled)
        else visible(part.text if isinstance(part, Styled) else part)
        for part in parts
    )


def lines_of(parts: Sequence[str | Styled], columns: int, colour: bool) -> list[str]:
    """The same, wrapped at words where it is wider than so many columns; on one line where there are none."""
    if not columns:
        return [painted(parts, colour)]
    plain = painted(parts, False)
    if len(plain) <= columns and plain.isascii() and plain.isprintable():
        return [painted(parts, colour)]
    from perdure.front.wrapping import wrapped  # only a long line pays for it

    return wrapped(parts, columns, colour)


def coloured(text: str, style: str) -> str:
    """Text that is visible already, in a style, or in none."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[m" if style else text


def _write(stream: TextIO, text: str, spell: Callable[[str], str]) -> None:
    try:
        return _write_whole(stream, text)
    except UnicodeEncodeError:  # before anything was written: an encoding that knows fewer characters
        pass
    for line in re.findall(".*\n|.+", text):
        try:
            _write_whole(stream, line)
        except UnicodeEncodeError:
            _write_whole(stream, re.sub(r"[^\x00-\x7f]", lambda found: spell(found[0]), line))


def _write_whole(stream: TextIO, text: str) -> None:
    """Where Python runs unbuffered, its text streams take half a write for a whole one."""
    buffer = getattr(stream, "buffer", None)
    if isinstance(buffer, io.RawIOBase):
        _write_all(buffer, text.encode(stream.encoding, stream.errors or "strict"))
    else:
        stream.write(text)


def _write_all(buffer: Any, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[buffer.write(rest) or 0 :]


def _read_awake(descriptor: int) -> bytes:
    """What comes in next. A signal that comes right before a call that waits, or that another thread was told
    of, would wait with it until somebody types: the main thread, which has to answer it, looks up often."""
    import threading

    if os.name == "posix" and threading.current_thread() is threading.main_thread():
        import select

        while not select.select([descriptor], [], [], _LOOKS_UP)[0]:
            pass
    return os.read(descriptor, 65536)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _has_colour(stream: TextIO | None) -> bool:
    return _is_terminal(stream) and not config.setting("NO_COLOR") and config.setting("TERM") != "dumb"


def _columns(stream: TextIO | None) -> int:
    wanted = config.setting("COLUMNS")
    if wanted.isdecimal() and 0 < len(wanted) < 5 and int(wanted):
        return int(wanted)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80 if stream is not None else 80
    except (OSError, ValueError):
        return 80  # it is no terminal
