"""Text from anywhere, made fit for a terminal.

What a session says may come from a model, a web page, a file: from anyone. A terminal obeys characters, and
people are deceived by those it does not draw. So nothing reaches a terminal that it would obey, and nothing
that nobody would see: such a character is written as its escape, `\\x1b` or `\\u202e`. It is never dropped,
because what is left out deceives too.

Line feeds and tabs stay. Joiners and variation selectors stay where writing needs them, which is behind a
character that is not ASCII: Persian, the scripts of India, emoji.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

# Controls, surrogates, separators, format controls, and all that Unicode calls default ignorable: bidi
# controls, fillers, invisible operators, tags, annotations.
_UNSAFE = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
_JOINERS = "\u200c\u200d"
_SELECTORS = "\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef"
_BASE = f"[^{_UNSAFE}{_JOINERS}{_SELECTORS}\\s\\x00-\\x7f]"  # what one of those may stand behind

_NOT_FIT = (
    f"[{_UNSAFE}]"
    f"|(?<!{_BASE})(?<!{_BASE}[{_SELECTORS}])[{_JOINERS}]"
    f"|(?<!{_BASE})(?<![0-9#*])[{_SELECTORS}]"  # 1, U+FE0F, U+20E3 is a key cap
)

# Python calls printable what a terminal draws, but for these. Asking that is much quicker than the patterns,
# which are compiled when a text first needs one.
_NOT_DRAWN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0").union(
    map(chr, range(0xFE00, 0xFE10)), map(chr, range(0xE0100, 0xE01F0))
)

# Characters that stand alone, whatever is beside them, and the columns they take; the common ones first.
# Measuring others needs wcwidth, whose import takes longer than a whole listing.
_ALONE = (
    *((" ", "~", 1), ("\xae", "\u02ff", 1), ("\xa1", "\xac", 1), ("\u4e00", "\u9fff", 2)),
    *(("\u3041", "\u3096", 2), ("\u309b", "\u30ff", 2), ("\uac00", "\ud7a3", 2), ("\u0400", "\u0482", 1)),
    *(("\u2010", "\u2027", 1), ("\u3001", "\u3029", 2), ("\uff01", "\uff60", 2), ("\u0370", "\u03ff", 1)),
    *(("\U0001f442", "\U0001f4fc", 2), ("\U0001f5fb", "\U0001f64f", 2), ("\U0001f680", "\U0001f6c5", 2)),
    *(("\U0001f90c", "\U0001f93a", 2), ("\U0001f947", "\U0001f9ff", 2), ("\U0001f400", "\U0001f43e", 2)),
    *(("\u2190", "\u22ff", 1), ("\u2500", "\u25fc", 1), ("\u2030", "\u205e", 1), ("\u20a0", "\u20bf", 1)),
    *(("\u2705", "\u2705", 2), ("\u2728", "\u2728", 2), ("\u274c", "\u274c", 2), ("\u2713", "\u2714", 1)),
    *(("\u048a", "\u052f", 1), ("\u3400", "\u4dbf", 2)),
)


def visible(text: str) -> str:
    """The text with nothing in it that a terminal obeys or hides, but line feeds and tabs."""
    return respelled(text, escape)


def respelled(text: str, spell: Callable[[str], str]) -> str:
    """The text with every character that is not fit for a terminal as `spell` writes it."""
    drawn = text.replace("\n", "").replace("\t", "")
    if drawn.isprintable() and (drawn.isascii() or _NOT_DRAWN.isdisjoint(drawn)):
        return text
    return re.sub(_NOT_FIT, lambda found: spell(found[0]), text)


def escape(character: str) -> str:
    """As a programmer writes it: `\\x1b`, `\\u202e`, `\\U000e0041`."""
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def one_line(text: str) -> str:
    """Visible, and on one line: each run of white space is one blank."""
    shown = visible(text)
    return shown if shown.isprintable() and "  " not in shown else re.sub(r"\s+", " ", shown)


def are_plain(texts: Sequence[str]) -> bool:
    """Whether all are on one line as they stand, and take a column a character; asked of all at once."""
    together = "|".join(texts)
    return together.isascii() and together.isprintable() and "  " not in together


def width(text: str) -> int:
    """How many columns of a terminal the text takes on one line, line feeds and tabs as blanks."""
    text = _flat(text)
    return len(text) if text.isascii() else sum(columns for _, columns in _cells(text))


def fit(text: str, columns: int) -> str:
    """The text on one line of at most so many columns: cut between two characters as people see them, with
    `…` where it was cut."""
    text = _flat(text)
    if text.isascii() and len(text) <= columns:
        return text
    used = at = end = 0
    for cell, taken in _cells(text):
        used += taken
        at += len(cell)
        if used > columns:
            return f"{text[:end]}…" if columns > 0 else ""
        if used < columns:
            end = at
    return text


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """The text on exactly so many columns; `right` puts it at their end."""
    cut = fit(text, columns)
    blanks = " " * (columns - width(cut))
    return blanks + cut if right else cut + blanks


def _cells(text: str) -> Iterator[tuple[str, int]]:
    """What people see as one character, one after the other, and how many columns each takes."""
    taken = 0
    for at, character in enumerate(text):
        columns = _columns_alone(character)
        if not columns:
            break
        if at:
            yield text[at - 1], taken  # only now it is certain that nothing joins it
        taken = columns
    else:
        if text:
            yield text[-1], taken
        return
    from wcwidth import iter_graphemes, wcswidth

    # One by one: in a whole text wcswidth takes what follows any joiner for a part of an emoji. What begins
    # with a mark is measured behind a blank, as it stands in a table: the mark joins that and may widen it.
    cells = iter(iter_graphemes(text[at - 1 :] if at else f" {text}"))
    if not at and (joined := next(cells)) != " ":
        yield joined[1:], max(0, wcswidth(joined) - 1)
    for cell in cells:
        yield cell, max(0, wcswidth(cell))


def _columns_alone(character: str) -> int:
    """0 for a character that may not stand alone."""
    for first, last, columns in _ALONE:
        if first <= character <= last:
            return columns
    return 0


def _flat(text: str) -> str:
    return visible(text).replace("\n", " ").replace("\t", " ")


NARROWEST = 20
"""Columns on which text is folded."""


def folded(text: str, columns: int) -> list[str]:
    """On lines of so many columns, between words where there are some; on one, if no number is given."""
    text = one_line(text)
    if not columns:
        return [text]
    columns = max(columns, NARROWEST)
    found = [""]
    for word in text.split(" "):
        longer = f"{found[-1]} {word}" if found[-1] else word
        if _fits(longer, columns):
            found[-1] = longer
            continue
        found += [""] if found[-1] else []
        at = 0
        while not _fits(rest := word[at : at + columns + 1], columns):
            length = columns
            while (over := width(rest[:length]) - columns) > 0:
                length -= (over + 1) // 2  # no character takes more than two
            found[-1:] = [rest[:length], ""]
            at += length
        found[-1] = rest
    return found


def _fits(text: str, columns: int) -> bool:
    """Nor has it more characters: a long text is not measured as a whole, however narrow it may be."""
    return len(text) <= columns and width(text) <= columns
