"""Tokens in a text, found by the forms that services give them (`secret_forms.py`).

The time is linear in the text. Each form has a few letters that it cannot be without; those are looked for as
they are, and an expression is tried only where they stand. No expression repeats without a bound. The text
may be JSON, and JSON within JSON: the `n` of a `\\n` is no part of the word after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from perdure.agent.secret_forms import FORMS, Form


class Place(NamedTuple):
    """Where one is in a text."""

    start: int
    end: int
    kind: str
    is_named: bool = False
    """Whether only its name tells of it: where it stands without, it is not found."""
    is_rest: bool = False
    """Whether it is a further line of the one before."""


# What people write where the real one was: a few letters over and over, the alphabet, or nothing but words.
_FILLERS = (
    b"xxxx XXXX *** ... 12345678 87654321 abcdefgh ABCDEFGH deadbeef example EXAMPLE your- your_ YOUR_"
    b" insert- INSERT_ placeholder PLACEHOLDER redacted REDACTED changeme change-me CHANGEME CHANGE_ME"
).split()
_WORDS = re.compile(rb"(?:[A-Z]?[a-z]+|[A-Z]+)(?:[^A-Za-z0-9](?:[A-Z]?[a-z]+|[A-Z]+)){0,40}[^A-Za-z0-9]?")


def is_placeholder(value: bytes) -> bool:
    if len(set(value[-16:])) < 6 or any(filler in value for filler in _FILLERS):
        return True
    return _WORDS.fullmatch(value) is not None


_LONG_FILLERS = [filler for filler in _FILLERS if len(filler) >= 7]
_FEWEST_CHARACTERS = 8


def _is_placeholder_key(lines: bytes) -> bool:
    """The same of all lines of a private key. Parts of a real one repeat, too, and it is so long that four
    letters may be there by chance."""
    return len(set(lines)) < _FEWEST_CHARACTERS or any(filler in lines for filler in _LONG_FILLERS)


# Where a word may begin: after what is no part of one, after an escape of JSON's or of an address's, after
# a terminal's colour.
_BEGINNING = r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2})|(?<=[0-9\[]m))"


def tokens(text: bytes) -> Iterator[Place]:
    """Every one in it, by its form."""
    for stem in _stems_in(text):
        literal, at = stem.encode(), -1
        forms = FORMS[stem]
        patterns = [_compiled(stem, form) for form in forms]
        while (at := text.find(literal, at + 1)) >= 0:
            for form, pattern in zip(forms, patterns, strict=True):
                match = pattern.match(text, max(0, at - form.back))
                if match and (form.has_lines or not is_placeholder(match[pattern.groups])):
                    found = _whole(text, *match.span(pattern.groups), form)
                    at = max(at, found[-1].end - 1)
                    if not (form.has_lines and _is_placeholder_key(text[found[0].start : at + 1])):
                        yield from found
                    break


# Of what most of those letters are, and the rest of a token with them: they are looked for among long words
# only. A text has few of these, and there are hundreds of forms.
_OF_WORDS = b"_.~$:-+/="
_SPACED = bytes(
    each if each < 128 and (chr(each).isalnum() or each in _OF_WORDS) else 32 for each in range(256)
)
SHORTEST = 12
_OF_A_WORD = re.compile(r"[\w.~$:+/=-]+")


def _stems_in(text: bytes) -> Iterator[str]:
    """Those that there may be a token with."""
    words = {word for word in text.translate(_SPACED).split() if len(word) >= SHORTEST}
    plain = {word for word in words if _is_plain(word)}
    letters, mixed = b" ".join(plain), b" ".join(words - plain)
    for stem, forms in FORMS.items():
        literal = stem.encode()
        is_apart = forms[0].has_lines or not _OF_A_WORD.fullmatch(stem)
        if is_apart or literal in mixed or (_is_plain(literal) and literal in letters):
            yield stem


def _is_plain(word: bytes) -> bool:
    """Whether it may be Base64, of which pictures are made."""
    return word.translate(None, b"+/=").isalnum()


# A form knows how a token begins, and how long it is at least; a longer one is one, too.
_REST = re.compile(rb"[\w+/=-]{0,8000}+")
_KEY_LINES = re.compile(rb"(?:[A-Za-z0-9+/=]|\s|\\{1,8}[nr]){0,20000}+")
_KEY_LINE = re.compile(rb"(?:(?<=\\)[nr])?([A-Za-z0-9+/=]{4,})")
_LONGEST_KEY = 20_000


def _whole(text: bytes, start: int, end: int, form: Form) -> list[Place]:
    """All that belongs to a token that begins so; of a private key each line by itself."""
    if not form.has_lines:
        return [Place(start, _end(_REST, text, end), form.kind)]
    last = text.find(b"-----END", end, end + _LONGEST_KEY)
    if last < 0 or b"\0" in text[end:last]:
        last = _end(_KEY_LINES, text, end)
    lines = [line.span(1) for line in _KEY_LINE.finditer(text, start, last)]
    return [Place(start, end, form.kind, is_rest=at > 0) for at, (start, end) in enumerate(lines)]


def _end(pattern: re.Pattern[bytes], text: bytes, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start


def _compiled(stem: str, form: Form) -> re.Pattern[bytes]:
    before = f"{form.before}{{{form.back}}}" if form.back else _BEGINNING
    return re.compile((before + re.escape(stem) + form.after).encode())
