"""Text in columns, as prompt_toolkit counts them.

It takes an emoji that is made of several for all of them side by side. Nothing here is wider than it may be
by that count, and nothing is drawn of which terminals do not agree how wide it is.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.utils import get_cwidth

from perdure.front.visible import fit

Fragments = list[tuple[str, str]]
"""Texts, each behind its style."""


def cut(text: str, columns: int) -> str:
    """What fits on so many columns, also as prompt_toolkit counts them: to it an emoji that is made of
    several takes the space of all of them."""
    if text.isascii() and text.isprintable():
        return text if len(text) <= columns else f"{text[: columns - 1]}…" if columns > 0 else ""
    shown = fit(text, columns)
    if get_cwidth(shown) <= columns:
        return shown
    return fit(text, bisect_right(range(columns), columns, key=lambda most: get_cwidth(fit(text, most))) - 1)


def padded(text: str, columns: int) -> str:
    return text + " " * (columns - get_cwidth(text))


def fitted(fragments: Fragments, columns: int) -> Fragments:
    """As much of them, from the left, as there is space for."""
    if width_of(fragments) <= columns:
        return fragments
    made: Fragments = []
    for style, text in fragments:
        shown = cut(text, columns)
        columns -= get_cwidth(shown)
        made.append((style, shown))
    return made


def width_of(fragments: Fragments) -> int:
    return sum(get_cwidth(text) for _, text in fragments)


_JOINING = {
    **dict.fromkeys((0x200C, 0x200D, 0x180F, *range(0x180B, 0x180E), *range(0xFE00, 0xFE10))),
    **dict.fromkeys(range(0xE0100, 0xE01F0)),
    **dict.fromkeys(range(0x1F3FB, 0x1F400), "  "),  # the colours of a skin
    **{0x1F1E6 + at: f"{letter} " for at, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ")},  # of flags
}


def steady(fragments: Fragments) -> StyleAndTextTuples:
    """With each character by itself, and as wide as it was for prompt_toolkit. Terminals do not agree on the
    width of those that join; where it is not the expected one, all that is drawn behind them on that line is
    out of place from then on."""
    return [(style, text if text.isascii() else text.translate(_JOINING)) for style, text in fragments]


_WORD = re.compile(r" +|[^ ]+")


def folded(fragments: Fragments, columns: int) -> Iterator[Fragments]:
    """One line on as many as it takes; between words, unless one is longer than a line."""
    line: Fragments = []
    room = columns
    for style, text in fragments:
        for word in _WORD.findall(text):
            if get_cwidth(word) > room and line:
                yield line
                line, room = [], columns
                word = word.lstrip(" ")
            while (end := _how_many_fit(word, columns)) < len(word):
                yield [(style, word[:end])]
                word = word[end:]
            if word:
                line.append((style, word))
                room -= get_cwidth(word)
    if line:
        yield line


def _how_many_fit(word: str, columns: int) -> int:
    """Characters of a word; at least one."""
    used = 0
    for at, character in enumerate(word):
        used += get_cwidth(character)
        if at and used > columns:
            return at
    return len(word)
