"""Text that a terminal must not be sent as it is, and text that it must."""

import re
import unicodedata
from functools import cache

import wcwidth

# Said here once more, in other words than the code's: what must never be left in a text.
SEEN_THOUGH_FORMAT = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
JOINERS = "\u200c\u200d"
SELECTORS = {*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0), 0x180B, 0x180C, 0x180D, 0x180F}
BLANK = {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0x2060, 0x2070)}
BLANK |= {*range(0xFFF0, 0xFFFC), *range(0x13430, 0x13440), *range(0xE0000, 0xE1000)} - SELECTORS


@cache
def forbidden() -> set[str]:
    return {*map(chr, BLANK)} | {
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

ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")


def unescaped(text: str) -> str:
    return ESCAPE.sub(lambda found: chr(int(found[found.lastindex or 0], 16)), text)


def drawn(text: str) -> int:
    """The columns a text takes behind a blank."""
    return sum(max(0, wcwidth.wcswidth(cell)) for cell in wcwidth.iter_graphemes(f" {text}")) - 1
