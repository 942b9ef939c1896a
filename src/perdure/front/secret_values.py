"""The value behind a name: what of a text may be one, and where it ends.

Whether it is a secret is judged by its beginning, which is short, so that the time is linear in the text. It
ends at the closing quote, or at the next blank: the last characters of a password are of use, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_SHORTEST = 8
_LONGEST_BEGINNING = 200
_FARTHEST_QUOTE = 2000
_MOST_QUOTES = 32  # that are looked at for the closing one
_PUNCTUATION = b",;|)]}>"  # behind a value, and no part of it

# What is a value for sure: no program and no list goes on there.
_PLAIN = re.compile(
    rf"""[^\x00-\x20"'`\\,;<>(){{}}\[\]|$]{{{_SHORTEST},{_LONGEST_BEGINNING}}}+(?![(\[{{$])""".encode()
)
# A name that another value takes the place of, a rule or an expression that describes values.
_TEMPLATE = re.compile(
    rb"\$[({]|\A\$\w+\Z|%\(|\{\{|\{[\w.]*[A-Za-z_][\w.]*(?::[^{}]*)?\}|\A[<(%\[][^\x00]*[>)%\]]\Z"
    rb"|\(\?|\[[^\]]*[=-][^\]]*\]|\{\d+,?\d*\}|\\[dsw]|\|[a-z]+:"
)
_EXPRESSION = re.compile(_TEMPLATE.pattern + rb"|\A[$<(%\[{]|\A[A-Za-z_][\w.]*[(\[]")
# A tag, a closing quote and an escape of JSON's end it.
_UNQUOTED = re.compile(
    rb"""(?:[^\x00-\x20"'`\\<]|<(?!/)|["'`](?=[A-Za-z0-9])|\\++(?![\x00-\x20"'`\\/bfnrtu])){0,100000}+"""
)


def assigned(name: bytes) -> re.Pattern[bytes]:
    """A name of that form, a sign, and the beginning of a value."""
    sign = rb"""[\\"'\]]{0,6}[ \t]{0,4}(?P<sign>:=|=>|==?|:|>)[ \t]{0,4}"""
    quote = rb"""(?P<quote>[\\"'`]{0,5}["'`])?+(?(quote)|\\{0,6})"""
    value = rb"""(?P<value>(?(quote)[^\x00-\x20]|[^\x00-\x20"'`\\]){%d,%d}+)"""
    beginning = value % (_SHORTEST, _LONGEST_BEGINNING)
    return re.compile(rb"(?i)(?P<name>" + name + rb")" + sign + quote + beginning)


def candidates(match: re.Match[bytes]) -> Iterator[bytes]:
    """What may be the value, or its beginning. In quotes, and in `NAME=value`, it may hold anything."""
    start, end = match.span("value")
    if plain := _PLAIN.match(match.string, start, end):
        yield plain[0]
    if match["quote"]:
        end, other = min(end, _closing_quote(match)), _TEMPLATE
    elif match["sign"] == b"=" and match["name"].isupper():
        other = _EXPRESSION
    else:
        return
    value = match.string[start:end] if end > start else b""
    if len(value) >= _SHORTEST and not other.search(value):
        yield value.replace(b"\\", b"")


def end_of_value(match: re.Match[bytes]) -> int:
    """Beyond the beginning that was matched, unless the expression says what ends it."""
    start, end = match.span("value")
    if end < match.end():
        return end
    if match["quote"] and (closing := _closing_quote(match)) >= 0:
        return closing
    rest = _UNQUOTED.match(match.string, start)
    assert rest is not None
    value = rest[0].partition(b"<")[0] if match["sign"] == b">" else rest[0]
    return start + len(value.rstrip(_PUNCTUATION))


def _closing_quote(match: re.Match[bytes]) -> int:
    """Where it is, with the backslashes that it has in JSON within JSON; -1 if it is not on the line. One
    that has more of them is a character of the value, and so is one in the middle of a word."""
    text, start, quote = match.string, match.start("value"), match["quote"]
    limit = start + _FARTHEST_QUOTE
    line = text.find(b"\n", start, limit)
    limit = limit if line < 0 else line
    backslashes = len(quote) - 1 - len(quote[:-1].rstrip(b"\\"))
    at = start - 1
    for _ in range(_MOST_QUOTES):
        at = text.find(quote[-1:], at + 1, limit)
        if at < 0:
            break
        value = text[start:at]
        before = len(value) - len(value.rstrip(b"\\"))
        if before % (2 * backslashes + 2) == backslashes and not text[at + 1 : at + 2].isalnum():
            return at - backslashes
    return -1
