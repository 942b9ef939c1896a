"""What is shown of a text, and how many columns it takes. tests/fuzz/test_hostile_text.py tries any text."""

import subprocess
import sys
import textwrap

import pytest

from perdure.front.visible import fit, one_line, pad, visible, width
from tests.front.hostile_text import EMOJI, JOINERS, SELECTORS, TEXTS, drawn, forbidden, unescaped


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


@pytest.mark.slow
def test_every_character_is_drawn_or_spelled_out():
    """Each of Unicode's, alone: the forbidden ones, and whatever needs another before it, as an escape."""
    for code in (*range(0x20000), *range(0xE0000, 0xE2000)):  # between them are only ideographs, or nothing
        character = chr(code)
        shown = visible(character)
        if character in forbidden() or character in JOINERS or code in SELECTORS:
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


@pytest.mark.slow
def test_what_is_measured_without_wcwidth_is_measured_alike():
    """Every character of the first two planes takes the columns that wcwidth says."""
    for code in range(0x20000):
        character = chr(code)
        if visible(character) == character and character not in "\n\t":
            assert width(character) == drawn(character), hex(code)


@pytest.mark.process
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
