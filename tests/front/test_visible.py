"""Text from anywhere reaches a terminal as text: nothing it obeys, nothing it hides, measured as drawn."""

import itertools
import json
import os
import random
import re
import subprocess
import sys
import textwrap
import threading
import tty
import unicodedata
from collections.abc import Iterator

import pyte
import pytest
import wcwidth

from perdure.front.output import Output, Styled
from perdure.front.visible import fit, one_line, pad, visible, width

STRINGS = 100_000
SEED = int(os.environ.get("PERDURE_SEED") or random.randrange(2**32))

# Said here once more, in other words than the code's: what must never be left in a text.
SEEN_THOUGH_FORMAT = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
JOINERS = "\u200c\u200d"
SELECTORS = {*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0), 0x180B, 0x180C, 0x180D, 0x180F}
BLANK = {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0x2060, 0x2070)}
BLANK |= {*range(0xFFF0, 0xFFFC), *range(0x13430, 0x13440), *range(0xE0000, 0xE1000)} - SELECTORS
FORBIDDEN = {*map(chr, BLANK)} | {
    character
    for character in map(chr, range(0x110000))
    if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp", "Cf")
    and ord(character) not in SEEN_THOUGH_FORMAT
    and character not in JOINERS + "\n\t"
}

ESCAPES = [
    *("\x1b[31m", "\x1b[2J", "\x1b[10;10H", "\x1b[?1049h", "\x1b[8m", "\x1b[6n", "\x1b[1A", "\x1bc", "\x1b7"),
    *("\x1b]0;title\x07", "\x1b]52;c;ZXZpbA==\x07", "\x1b]8;;http://evil.example\x1b\\", "\x1bP+q544e\x1b\\"),
    *(
        "\x1b_apc\x1b\\",
        "\x1b^pm\x1b\\",
        "\x1bX sos\x1b\\",
        "\x9b31m",
        "\x9d0;title\x9c",
        "\x90q\x9c",
        "\x9f\x9e",
    ),
    *(
        "\x1b(0",
        "\x0e",
        "\x0f",
        "\x1b[",
        "\x1b",
        "\x07",
        "\x08",
        "\r",
        "\r\n",
        "\x0b",
        "\x0c",
        "\x00",
        "\x7f",
    ),
]
HIDDEN = [
    *("\u200b", "\u200e", "\u200f", "\u061c", "\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066"),
    *("\u2067", "\u2068", "\u2069", "\u2028", "\u2029", "\u2060", "\u2061", "\u206a", "\ufeff", "\ufff9"),
    *("\ufffb", "\u00ad", "\u034f", "\u115f", "\u3164", "\uffa0", "\u180e", "\U000e0001", "\U000e0041"),
    *("\U000e007f", "\U0001d173", "\U0001bca0", "\u200c", "\u200d", "\ufe0f", "\ufe0e", "\U000e0100"),
    *("\ud800", "\udc80", "\udfff"),
]
TEXTS = [
    *(
        "word",
        "a b",
        " ",
        "  ",
        "\t",
        "\n",
        "\n\n",
        "0",
        "#",
        "\\x1b",
        "\\",
        '"',
        "{",
        "é",
        "e\u0301",
        "ß",
        "Ω",
    ),
    *(
        "Привет",
        "你好",
        "日本語",
        "ひらがな",
        "한국어",
        "ᄒ\u1161\u11ab",
        "שלום",
        "مرحب",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "สวัสดี",
        "हिन्दी",
    ),
    *("क्\u200dष", "ঢাকা", "தமிழ்", "\u3000", "\u2003", "\xa0", "…", "—", "│", "✓", "\ue0b0", "\uffff", "\u0378"),
]
EMOJI = [
    *(
        "😀",
        "👍🏽",
        "❤\ufe0f",
        "❤",
        "☁\ufe0e",
        "👨\u200d👩\u200d👧\u200d👦",
        "🇩🇪",
        "🇩",
        "🏴",
        "1\ufe0f\u20e3",
    ),
    *("🏳\ufe0f\u200d🌈", "🧑🏿\u200d💻", "✅", "🫠", "⌚", "❤\ufe0f\u200d🔥"),
]


def hostile_strings(count: int) -> Iterator[str]:
    source = random.Random(SEED)
    for _ in range(count):
        pieces = []
        for _ in range(source.randrange(1, 6)):
            kind = source.choice([ESCAPES, HIDDEN, TEXTS, TEXTS, EMOJI, None])
            pieces.append(chr(source.randrange(0x110000)) if kind is None else source.choice(kind))
        yield "".join(pieces)


WHITE_SPACE = re.compile(r"[^\S ]|  ")
ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")


def is_safe(text: str) -> bool:
    return FORBIDDEN.isdisjoint(text)


def unescaped(text: str) -> str:
    return ESCAPE.sub(lambda found: chr(int(found[found.lastindex or 0], 16)), text)


@pytest.fixture(scope="module")
def strings() -> list[str]:
    print(f"PERDURE_SEED={SEED}")
    return list(hostile_strings(STRINGS))


class Terminal:
    """A real one, as its program sees it, and all that was ever written to it."""

    def __init__(self) -> None:
        self._master, slave = os.openpty()
        tty.setraw(slave)  # which would write \r\n for \n
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


# --- 100,000 strings ------------------------------------------------------------------------------------


def test_nothing_a_terminal_obeys_or_hides_is_left_in_any_text(strings):
    """Only what is drawn, joins what is drawn, or is white space; and nothing was left out for it: the text
    can be had back from what is shown. Showing that once more changes nothing."""
    for text in strings:
        shown = visible(text)
        assert is_safe(shown), (SEED, text)
        assert unescaped(shown) == unescaped(text), (SEED, text)
        assert visible(shown) == shown, (SEED, text)


def test_one_line_is_safe_and_one_line_whatever_the_text(strings):
    """No line break of any kind, no run of white space, and nothing a terminal obeys."""
    for text in strings:
        line = one_line(text)
        assert is_safe(line), (SEED, text)
        assert not WHITE_SPACE.search(line), (SEED, text)


def test_text_fits_its_columns_and_is_cut_between_characters(strings):
    """`fit` never takes more, `pad` takes exactly so many, and neither breaks what is seen as one."""
    source = random.Random(SEED)
    for number, text in enumerate(strings[::3]):
        columns = source.randrange(24)
        flat = visible(text).replace("\n", " ").replace("\t", " ")
        cut = fit(text, columns)
        if drawn(flat) <= columns:
            assert cut == flat, (SEED, text, columns)
        elif columns:
            assert drawn(cut) <= columns, (SEED, text, columns)
            assert cut[-1] == "…", (SEED, text, columns)
            assert flat.startswith(cut[:-1]), (SEED, text, columns)
            cells = map(len, wcwidth.iter_graphemes(flat))
            assert len(cut) - 1 in itertools.accumulate(cells, initial=0), (SEED, text, columns)
        if number % 4 == 0:
            blanks = " " * (columns - drawn(cut))
            assert pad(text, columns) == cut + blanks, (SEED, text, columns)
            assert pad(text, columns, right=True) == blanks + cut, (SEED, text, columns)


def drawn(text: str) -> int:
    """The columns a text takes behind a blank."""
    return sum(max(0, wcwidth.wcswidth(cell)) for cell in wcwidth.iter_graphemes(f" {text}")) - 1


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
    assert terminal.written() == "".join(f"{visible(text)}\n" for text in (*strings, *told)), SEED


def test_bytes_reach_a_terminal_as_visible_text(strings):
    """`Output.raw` is no way around: exported bytes, also such as are no text, are shown and not obeyed."""
    terminal = Terminal()
    out = Output(stdout=terminal.file, stderr=terminal.file)
    for text in strings:
        out.raw(text.encode("utf-8", "surrogatepass") + b"\xff\n")
    written = terminal.written()
    assert is_safe(written), SEED
    assert written.count("\\xff\n") >= len(strings)


def test_json_at_a_terminal_is_safe_and_says_the_same(strings):
    """`Output.data` escapes what a terminal would obey, and whoever parses it has the value back."""
    terminal = Terminal()
    out = Output(json=True, stdout=terminal.file, stderr=terminal.file)
    values = [{text: [text]} for text in strings[::3]]
    for start in range(0, len(values), 1000):
        out.data(values[start : start + 1000])
    written = terminal.written()
    assert is_safe(written), SEED
    read: list[object] = []
    at = 0
    while at < len(written):
        page, at = json.JSONDecoder().raw_decode(written, at)
        at += 1
        read += page
    # JSON itself cannot tell two halves of a character side by side from the character.
    assert read == [_in_whole_characters(value) for value in values], SEED


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


def test_a_terminal_only_draws_what_it_is_sent(strings):
    """An emulated terminal, fed with them as they are, is moved, coloured and renamed; as they are shown, it
    draws characters from left to right and does nothing else."""
    obeyed = 0
    for text in strings[:1500]:
        obeyed += not is_untouched(seen(text.replace("\n", "")))
        screen = seen(one_line(text))
        assert is_untouched(screen), (SEED, text)
        if one_line(text).isascii():
            assert screen.display[0].rstrip() == one_line(text).rstrip(), (SEED, text)
    assert obeyed > 100


def test_colours_are_ours_alone(strings):
    """Text in a coloured part of a line has that colour, whatever it says, and none after it has it."""
    for text in strings[:300]:
        terminal = Terminal()
        Output(stdout=terminal.file).line(Styled(f"<{one_line(text)}>", "red"), "after")
        screen = seen(terminal.written().rstrip("\n"))
        row = [screen.buffer[0][column] for column in range(screen.cursor.x)]
        colours = [cell.fg for cell in row if cell.data]
        assert set(colours[:-5]) == {"red"}, (SEED, text)
        assert set(colours[-5:]) == {"default"}, (SEED, text)


# --- one by one -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x9b31mred", r"\x9b31mred"),
        ("a\rb", r"a\x0db"),
        ("a\x00\x07\x08\x7fb", r"a\x00\x07\x08\x7fb"),
        ("user\u202etxt.exe", r"user\u202etxt.exe"),
        ("pass\u200dword", r"pass\u200dword"),
        ("zero\u200bwidth", r"zero\u200bwidth"),
        ("\ud800", r"\ud800"),
        ("tag\U000e0041", r"tag\U000e0041"),
        ("two\u2028lines", r"two\u2028lines"),
        (" \u200d\ufe0f", r" \u200d\ufe0f"),
        ("😀\ufe0f\ufe0f", "😀\ufe0f\\ufe0f"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        (r"C:\x1b is a path", r"C:\x1b is a path"),
        ("", ""),
    ],
)
def test_what_is_not_drawn_is_spelled_out(text, shown):
    """As a programmer writes it; text that looks like such an escape stays as it is."""
    assert visible(text) == shown


@pytest.mark.parametrize("text", [text for text in [*TEXTS, *EMOJI] if text.strip() and text != "\uffff"])
def test_what_writing_needs_stays(text):
    """Scripts that need joiners, emoji that need joiners and selectors, icons of terminal fonts."""
    assert visible(text) == text


def test_every_character_is_drawn_or_spelled_out():
    """Each of Unicode's, alone: the forbidden ones, and whatever needs another before it, as an escape."""
    for code in (*range(0x20000), *range(0xE0000, 0xE2000)):  # between them are only ideographs, or nothing
        character = chr(code)
        shown = visible(character)
        if character in FORBIDDEN or character in JOINERS or code in SELECTORS:
            assert shown.isascii(), hex(code)
            assert unescaped(shown) == character, hex(code)
        else:
            assert shown == character, hex(code)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("two\nlines", "two lines"),
        ("\n\n a \t\xa0 b\u3000\n", " a b "),
        ("plain", "plain"),
        ("a\r\nb", r"a\x0d b"),
    ],
)
def test_one_line_is_one_line(text, line):
    """Runs of white space, whatever it is, are one blank."""
    assert one_line(text) == line


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("", 0),
        ("abc", 3),
        ("é", 1),
        ("e\u0301", 1),
        ("你好", 4),
        ("한국어", 6),
        ("ᄒ\u1161\u11ab", 2),
        ("😀", 2),
        ("👨\u200d👩\u200d👧\u200d👦", 2),
        ("👍🏽", 2),
        ("🇩🇪", 2),
        ("1\ufe0f\u20e3", 2),
        ("❤\ufe0f", 2),
        ("❤", 1),
        ("\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", 7),
        ("สวัสดี", 4),
        ("…", 1),
        ("a\nb\tc", 5),
        ("\x1b", 4),
    ],
)
def test_width_is_what_a_terminal_needs(text, columns):
    """Wide characters, combining marks, emoji of several parts, flags, key caps, escapes."""
    assert width(text) == columns
    assert width(f"{text}|{text}") == 2 * columns + 1


def test_what_is_measured_without_wcwidth_is_measured_alike():
    """Every character of the first two planes takes the columns that wcwidth says."""
    for code in range(0x20000):
        character = chr(code)
        if visible(character) == character and character not in "\n\t":
            assert width(character) == drawn(character), hex(code)


def test_common_text_is_measured_without_loading_wcwidth():
    """Its import takes longer than a listing, and most titles need none of it."""
    code = textwrap.dedent("""
        import sys
        from perdure.front.visible import pad
        pad("Grüße — Привет, 你好, 日本語, 한국어 … 🚀 ✅", 20)
        sys.exit("wcwidth" in sys.modules)
    """)
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(
    ("text", "columns", "cut"),
    [
        ("hello world", 11, "hello world"),
        ("hello world", 8, "hello w…"),
        ("hello", 1, "…"),
        ("hello", 0, ""),
        ("hello", -3, ""),
        ("你好世界", 5, "你好…"),
        ("你好世界", 4, "你…"),
        ("👨\u200d👩\u200d👧x", 2, "…"),
        ("two\nlines", 20, "two lines"),
        ("e\u0301e\u0301e\u0301", 2, "e\u0301…"),
    ],
)
def test_fit_shows_that_it_cut(text, columns, cut):
    """With an ellipsis, for which there is always room."""
    assert fit(text, columns) == cut


def test_pad_fills_on_the_side_it_is_told():
    """Text stands at the beginning of its columns, numbers at the end."""
    assert pad("你", 4) == "你  "
    assert pad("你", 4, right=True) == "  你"
