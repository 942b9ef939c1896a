"""Whatever a text holds, it reaches a terminal as text: nothing it obeys or hides, measured as drawn."""

import itertools
import json
import os
import random
import re
import termios
import threading
import tty
from collections.abc import Iterator

import pyte
import pytest
import wcwidth

from perdure.front.output import Output, Styled
from perdure.front.visible import fit, one_line, pad, visible
from tests.front.hostile_text import EMOJI, ESCAPES, HIDDEN, TEXTS, drawn, forbidden, unescaped

STRINGS = int(os.environ.get("PERDURE_FUZZ_LINES") or 10_000)


def hostile_strings(seed: int, count: int) -> Iterator[str]:
    source = random.Random(seed)
    for _ in range(count):
        pieces = []
        for _ in range(source.randrange(1, 6)):
            kind = source.choice([ESCAPES, HIDDEN, TEXTS, TEXTS, EMOJI, None])
            pieces.append(chr(source.randrange(0x110000)) if kind is None else source.choice(kind))
        yield "".join(pieces)


WHITE_SPACE = re.compile(r"[^\S ]|  ")


def is_safe(text: str) -> bool:
    return forbidden().isdisjoint(text)


@pytest.fixture(scope="module")
def strings(seed: int) -> list[str]:
    return list(hostile_strings(seed, STRINGS))


class Terminal:
    """A real one, as its program sees it, and all that was ever written to it."""

    def __init__(self) -> None:
        self._master, slave = os.openpty()
        tty.setraw(slave)  # which would write \r\n for \n
        termios.tcsetwinsize(slave, (24, 1000))  # so wide that no text is wrapped
        self.file = open(slave, "w", encoding="utf-8", newline="")
        self.file.reconfigure(line_buffering=False)  # whoever reads it waits for all of it
        self._chunks: list[bytes] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        try:
            while chunk := os.read(self._master, 65536):
                self._chunks.append(chunk)
        except OSError:
            pass  # Linux says so that nobody has it open any more

    def written(self) -> str:
        self.file.close()
        self._reader.join()
        os.close(self._master)
        return b"".join(self._chunks).decode()


# --- text by text ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_nothing_a_terminal_obeys_or_hides_is_left_in_any_text(strings):
    """Only what is drawn, joins what is drawn, or is white space; and nothing was left out for it: the text
    can be had back from what is shown. Showing that once more changes nothing."""
    for text in strings:
        shown = visible(text)
        assert is_safe(shown), text
        assert unescaped(shown) == unescaped(text), text
        assert visible(shown) == shown, text


@pytest.mark.slow
def test_one_line_is_safe_and_one_line_whatever_the_text(strings):
    """No line break of any kind, no run of white space, and nothing a terminal obeys."""
    for text in strings:
        line = one_line(text)
        assert is_safe(line), text
        assert not WHITE_SPACE.search(line), text


@pytest.mark.slow
def test_text_fits_its_columns_and_is_cut_between_characters(strings, seed):
    """`fit` never takes more, `pad` takes exactly so many, and neither breaks what is seen as one."""
    source = random.Random(seed)
    for number, text in enumerate(strings[::3]):
        columns = source.randrange(24)
        flat = visible(text).replace("\n", " ").replace("\t", " ")
        cut = fit(text, columns)
        if drawn(flat) <= columns:
            assert cut == flat, (text, columns)
        elif columns:
            assert drawn(cut) <= columns, (text, columns)
            assert cut[-1] == "…", (text, columns)
            assert flat.startswith(cut[:-1]), (text, columns)
            cells = map(len, wcwidth.iter_graphemes(flat))
            assert len(cut) - 1 in itertools.accumulate(cells, initial=0), (text, columns)
        if number % 4 == 0:
            blanks = " " * (columns - drawn(cut))
            assert pad(text, columns) == cut + blanks, (text, columns)
            assert pad(text, columns, right=True) == blanks + cut, (text, columns)


@pytest.mark.slow
def test_text_reaches_a_terminal_as_it_was_made_visible(strings):
    """`Output.line` and `Output.note` write every text visibly, and add nothing."""
    terminal = Terminal()
    out = Output(stdout=terminal.file, stderr=terminal.file)
    assert out.is_terminal
    for text in strings:
        out.line(text)
    told = strings[: len(strings) // 5]  # each is flushed
    for text in told:
        out.note(text)
    assert terminal.written() == "".join(f"{visible(text)}\n" for text in (*strings, *told))


@pytest.mark.slow
def test_bytes_reach_a_terminal_as_visible_text(strings):
    """`Output.raw` is no way around: exported bytes, also such as are no text, are shown and not obeyed."""
    terminal = Terminal()
    out = Output(stdout=terminal.file, stderr=terminal.file)
    for text in strings:
        out.raw(text.encode("utf-8", "surrogatepass") + b"\xff\n")
    written = terminal.written()
    assert is_safe(written)
    assert written.count("\\xff\n") >= len(strings)


@pytest.mark.slow
def test_json_at_a_terminal_is_safe_and_says_the_same(strings):
    """`Output.data` escapes what a terminal would obey, and whoever parses it has the value back."""
    terminal = Terminal()
    out = Output(json=True, stdout=terminal.file, stderr=terminal.file)
    values = [{text: [text]} for text in strings[::3]]
    for start in range(0, len(values), 1000):
        out.data(values[start : start + 1000])
    written = terminal.written()
    assert is_safe(written)
    read: list[object] = []
    at = 0
    while at < len(written):
        page, at = json.JSONDecoder().raw_decode(written, at)
        at += 1
        read += page
    # JSON itself cannot tell two halves of a character side by side from the character.
    assert read == [_in_whole_characters(value) for value in values]


def _in_whole_characters(value):
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
        case dict():
            return {_in_whole_characters(key): _in_whole_characters(each) for key, each in value.items()}
        case _:
            return [_in_whole_characters(each) for each in value]


# --- a terminal that obeys ------------------------------------------------------------------------------

WIDE_ENOUGH = 1200


def seen(text: str) -> pyte.Screen:
    """An emulated terminal after it was sent a text."""
    screen = pyte.Screen(WIDE_ENOUGH, 3)
    pyte.Stream(screen).feed(text)
    return screen


def is_untouched(screen: pyte.Screen) -> bool:
    """Whether all it did was to draw characters, one after the other, on its first line."""
    fresh = pyte.Screen(WIDE_ENOUGH, 3)
    cells = [cell for line in screen.buffer.values() for cell in line.values()]
    return (
        screen.cursor.y == 0
        and all(cell[1:] == fresh.default_char[1:] for cell in [*cells, screen.cursor.attrs])
        and (screen.mode, screen.title, screen.icon_name, screen.charset, screen.margins)
        == (fresh.mode, fresh.title, fresh.icon_name, fresh.charset, fresh.margins)
    )


def is_obeyed(text: str) -> bool:
    """Whether a terminal does something else with it than to draw it."""
    try:
        return not is_untouched(seen(text))
    except ValueError:  # of the emulator's, which takes any digit of Unicode in a sequence for a number
        return True


@pytest.mark.slow
def test_a_terminal_only_draws_what_it_is_sent(strings):
    """An emulated terminal, fed with them as they are, is moved, coloured and renamed; as they are shown, it
    draws characters from left to right and does nothing else."""
    obeyed = 0
    tried = strings[:1500]
    for text in tried:
        obeyed += is_obeyed(text.replace("\n", ""))
        screen = seen(one_line(text))
        assert is_untouched(screen), text
        if one_line(text).isascii():
            assert screen.display[0].rstrip() == one_line(text).rstrip(), text
    assert obeyed > len(tried) // 15


@pytest.mark.slow
def test_colours_are_ours_alone(strings):
    """Text in a coloured part of a line has that colour, whatever it says, and none after it has it."""
    for text in strings[:300]:
        terminal = Terminal()
        Output(stdout=terminal.file).line(Styled(f"<{one_line(text)}>", "red"), "after")
        screen = seen(terminal.written().rstrip("\n"))
        row = [screen.buffer[0][column] for column in range(screen.cursor.x)]
        colours = [cell.fg for cell in row if cell.data]
        assert set(colours[:-5]) == {"red"}, text
        assert set(colours[-5:]) == {"default"}, text
