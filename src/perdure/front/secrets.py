"""Keys, tokens and passwords in what is about to leave this machine, found before it does.

Two things tell of one: a form that only the tokens of one service have (`secret_forms.py`), and a name that
says what its value is (`DB_PASSWORD=…`, `"api_key": "…"`, `Bearer …`). That a word looks random is no sign of
one: ids and hashes do too, and a session is full of them.

The time is linear in the text. Each form has a few letters that it cannot be without; those are looked for as
they are, and an expression is tried only where they stand. No expression repeats without a bound. The text
may be JSON, and JSON within JSON: the `n` of a `\\n` is no part of the word after it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import NamedTuple

from perdure.front.secret_forms import FORMS, Form


class Secret(NamedTuple):
    line: int
    kind: str
    """In words for people: `AWS access key`, `value of DB_PASSWORD`."""
    shown: str
    """Enough to recognise it by, and of no use to anybody else."""


def find(lines: Iterable[tuple[int, str]]) -> list[Secret]:
    """Every secret of these numbered lines, in their order. One that a line has twice is told of once."""
    numbered = list(lines)
    text = "\n".join(line for _, line in numbered)
    # A byte for each character, so that a place in one is a place in the other. Tokens are of ASCII.
    ascii_text = text.encode("ascii", "replace")
    starts = [0, *accumulate(len(line) + 1 for _, line in numbered)]
    found: dict[tuple[int, str], Secret] = {}
    for start, end, kind in _apart(_tokens(ascii_text), _named(ascii_text)):
        number, value = numbered[bisect_right(starts, start) - 1][0], text[start:end]
        found.setdefault((number, value), Secret(number, kind, _masked(value)))
    return list(found.values())


class _Place(NamedTuple):
    start: int
    end: int
    kind: str


def _apart(tokens: Iterable[_Place], named: Iterable[_Place]) -> list[_Place]:
    """`OPENAI_API_KEY=sk-…` is one secret, and its form says more of it than its name."""
    kept: list[_Place] = []
    for place in sorted(tokens):
        if not kept or place.start >= kept[-1].end:
            kept.append(place)
    ends = [place.end for place in kept]
    last = 0
    for place in sorted(named):
        after = bisect_right(ends, place.start)
        is_token = after < len(ends) and kept[after].start < place.end
        if place.start >= last and not is_token:
            kept.append(place)
            last = place.end
    return sorted(kept)


def _masked(value: str) -> str:
    return value[: min(4, len(value) // 3)] + "…"


# What people write where the real one was: a few letters over and over, the alphabet, or nothing but words.
_FILLERS = (
    b"xxxx XXXX *** ... 12345678 87654321 abcdefgh ABCDEFGH deadbeef example EXAMPLE your- your_ YOUR_"
    b" insert- INSERT_ placeholder PLACEHOLDER redacted REDACTED changeme change-me CHANGEME CHANGE_ME"
).split()
_WORDS = re.compile(rb"(?:[A-Z]?[a-z]+|[A-Z]+)(?:[^A-Za-z0-9](?:[A-Z]?[a-z]+|[A-Z]+)){0,40}[^A-Za-z0-9]?")


def _is_placeholder(value: bytes) -> bool:
    if len(set(value[-16:])) < 6 or any(filler in value for filler in _FILLERS):
        return True
    return _WORDS.fullmatch(value) is not None


# --- tokens, by their form -------------------------------------------------------------------------------

# Where a word may begin: after what is no part of one, after an escape of JSON's or of an address's, after
# a terminal's colour.
_BEGINNING = r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=\\u[0-9A-Fa-f]{4})|(?<=%[0-9A-Fa-f]{2})|(?<=[0-9\[]m))"


def _tokens(text: bytes) -> Iterator[_Place]:
    for stem, forms in FORMS.items():
        literal, at = stem.encode(), -1
        patterns: list[re.Pattern[bytes]] = []
        while (at := text.find(literal, at + 1)) >= 0:
            patterns = patterns or [_compiled(stem, form) for form in forms]
            for form, pattern in zip(forms, patterns, strict=True):
                match = pattern.match(text, max(0, at - form.back))
                if match and not _is_placeholder(match[pattern.groups]):
                    yield _Place(*match.span(pattern.groups), form.kind)
                    at = match.end() - 1
                    break


def _compiled(stem: str, form: Form) -> re.Pattern[bytes]:
    before = f"{form.before}{{{form.back}}}" if form.back else _BEGINNING
    return re.compile((before + re.escape(stem) + form.after).encode())


# --- values, by their name -------------------------------------------------------------------------------


class _Named(NamedTuple):
    word: bytes
    """In small letters, what is looked for."""
    pattern: re.Pattern[bytes]
    is_secret: Callable[[str, re.Match[bytes]], bool]
    kind: str = "value of {}"


def _named(text: bytes) -> Iterator[_Place]:
    lowered = text.lower()
    for word, pattern, is_secret, kind in _NAMED:
        at = -1
        while (at := lowered.find(word, at + 1)) >= 0:
            match = pattern.match(text, at)
            if match and not _is_placeholder(match["value"]):
                name = _name(text, match)
                if is_secret(name, match):
                    yield _Place(*match.span("value"), kind.format(name))
                    at = match.end() - 1


_LONGEST_NAME = 48
_NAME = re.compile(rb"(?:(?<=\\)(?:u[0-9A-Fa-f]{4}|[bfnrt])|(?<=\[)[0-9;]{0,12}m)?([\w.-]*)\Z")


def _name(text: bytes, match: re.Match[bytes]) -> str:
    """All of it: the word that was looked for may be its end."""
    start = match.start()
    before = _NAME.search(text, max(0, start - _LONGEST_NAME), start)
    return ((before[1] if before else b"") + match["name"]).decode().lstrip("-._")


def _is_value(name: str, match: re.Match[bytes]) -> bool:
    """Whether it is no word of a program or of a sentence. A password may be short and can be read; what else
    has such a name is long and random. In `NAME=value`, as a shell has it, more counts than elsewhere."""
    value = match["value"]
    if _NO_SECRET.search(name) or _NO_VALUE.search(value):
        return False
    if not (_DIGIT.search(value) and _LETTER.search(value)):
        return False
    is_setting = name.isupper() and match["sign"] == b"="
    if _PASSWORD.search(name):
        return is_setting or bool(match["quote"]) or bool(_SYMBOL.search(value))
    longest = max(_PIECE.findall(value), key=len)
    needed = 8 if is_setting else 16
    return len(value) >= needed and len(longest) >= needed and bool(_DIGIT.search(longest))


def _is_key(name: str, match: re.Match[bytes]) -> bool:
    """A key may as well be that of a table."""
    return bool(_KEY.search(name)) and _is_value(name, match)


def _is_credential(_name: str, match: re.Match[bytes]) -> bool:
    return bool(_DIGIT.search(match["value"]) and _LETTER.search(match["value"]))


def _is_password(_name: str, match: re.Match[bytes]) -> bool:
    """Those that every manual has are none."""
    value = match["value"].lower()
    return value not in _NO_PASSWORDS and value != match["user"].lower() and not value.isdigit()


_NO_SECRET = re.compile(r"(?i)page|next|cursor|continu|csrf|xsrf|hash|public|count|sync|resume|^(?:old)?pwd$")
_NO_VALUE = re.compile(rb"://|[a-z](?:Key|Password|Secret|Token)|\A(?i:password)\d{0,3}\Z")
_PASSWORD = re.compile(r"(?i)passw|passphrase|pwd")
_KEY = re.compile(r"(?i)(?:api|access|account|admin|auth|encryption|master|private|service|signing)[-_ ]?key")
_NO_PASSWORDS = set(b"admin guest pass passwd password postgres pw pwd root secret test token user".split())
_DIGIT, _LETTER, _SYMBOL = re.compile(rb"[0-9]"), re.compile(rb"[A-Za-z]"), re.compile(rb"[!@#%^&*?~]")
_PIECE = re.compile(rb"[A-Za-z0-9+/]+")


def _assigned(name: bytes) -> re.Pattern[bytes]:
    sign = rb"""[\\"'\]]{0,6}[ \t]{0,4}(?P<sign>:=|=>|==?|:|>)[ \t]{0,4}(?P<quote>[\\"'`]{0,6})"""
    value = rb"""(?P<value>[^\x00-\x20"'`\\,;<>(){}\[\]|$]{8,200}+)(?![(\[{$])"""
    return re.compile(rb"(?i)(?P<name>" + name + rb")" + sign + value)


_CREDENTIAL = rb"(?P<value>[\w.~+/=-]{12,2000}+)"
_NAMED = (
    _Named(b"passw", _assigned(rb"passw(?:or)?d(?:[-_]?\d)?"), _is_value),
    _Named(b"passphrase", _assigned(rb"passphrase"), _is_value),
    _Named(b"pwd", _assigned(rb"pwd"), _is_value),
    _Named(b"secret", _assigned(rb"secret(?:[-_]?(?:value|base|\d))?"), _is_value),
    _Named(b"token", _assigned(rb"token(?:[-_]?(?:value|\d))?"), _is_value),
    _Named(b"key", _assigned(rb"key(?:[-_]?(?:value|base64|\d))?"), _is_key),
    _Named(b"api key", _assigned(rb"api key"), _is_value),
    _Named(b"credential", _assigned(rb"credentials?"), _is_value),
    _Named(
        b"bearer ",
        re.compile(rb"(?i)(?P<name>bearer) {1,4}" + _CREDENTIAL),
        _is_credential,
        "bearer token",
    ),
    _Named(
        b"authorization",
        re.compile(
            rb"""(?i)(?P<name>authorization)[\\"'\]]{0,6}[ \t]{0,4}[:=,][ \t]{0,4}[\\"'`]{0,6}"""
            rb"(?:basic|token|apikey|key) {1,4}" + _CREDENTIAL
        ),
        _is_credential,
        "authorization header",
    ),
    _Named(
        b"://",
        re.compile(
            rb"""(?P<name>://)(?P<user>[^\x00-\x20:/@"'\\<>{}$]{0,80}+):(?P<value>[^\x00-\x20:/@"'\\<>{}$]{3,200}+)@[\w\[]"""
        ),
        _is_password,
        "password in an address",
    ),
    _Named(
        b"curl ",
        re.compile(
            rb"""(?i)(?P<name>curl) [^\n]{0,200}? (?:-u|--user)[ =]?[\\"']{0,6}"""
            rb"""(?P<user>[^\x00-\x20:"'\\$]{1,80}+):(?P<value>[^\x00-\x20"'\\<>{}$]{6,200}+)"""
        ),
        _is_password,
        "password of a command",
    ),
    _Named(
        b"login ",
        re.compile(
            rb"""(?i)(?P<name>login) (?P<user>[^\x00-\x20"'\\$]{1,80}+)(?:\s|\\n){1,4}password """
            rb"""(?P<value>[^\x00-\x20"'\\<>{}$]{6,200}+)"""
        ),
        _is_password,
        "password of a .netrc",
    ),
)
