"""Keys, tokens and passwords in what is about to leave this machine, found before it does.

Two things tell of one: a form that only the tokens of one service have (`secret_tokens.py`), and a name that
says what its value is (`DB_PASSWORD=…`, `"api_key": "…"`, `Bearer …`). That a word looks random is no sign of
one: ids and hashes do too, and a session is full of them.

The time is linear in the text: no expression repeats without a bound.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

from perdure.agent.secret_tokens import SHORTEST, Place, is_placeholder, tokens
from perdure.front.secret_values import assigned, candidates, end_of_value

REDACTED = "[redacted]"
_AT_ONCE = 2**22  # characters, so that what a search takes of memory has a bound
_TOGETHER = 4  # lines: a private key is not on the line that says so


class Secret(NamedTuple):
    line: int
    kind: str
    """In words for people: `AWS access key`, `value of DB_PASSWORD`."""
    shown: str
    """Enough to recognise it by, and of no use to anybody else."""


def valued(lines: Iterable[tuple[int, str]]) -> dict[tuple[int, str], Secret]:
    """Every secret of these numbered lines, by its line and by itself, in their order. One that a line has
    twice is there once."""
    found: dict[tuple[int, str], Secret] = {}
    for numbered in _together(lines):
        text = "\n".join(line for _, line in numbered)
        starts = [0, *accumulate(len(line) + 1 for _, line in numbered)]
        for place, value in with_values(text, places(text)):
            number = numbered[bisect_right(starts, place.start) - 1][0]
            found.setdefault((number, value), Secret(number, place.kind, masked(value)))
    return found


def with_values(text: str, found: Iterable[Place]) -> list[tuple[Place, str]]:
    """Each secret by its first place, with all of its lines: the first line of a private key may be the same
    in every one."""
    secrets: list[tuple[Place, list[str]]] = []
    for place in found:
        line = text[place.start : place.end]
        if secrets and place.is_rest:
            secrets[-1][1].append(line)
        else:
            secrets.append((place, [line]))
    return [(place, "\n".join(lines)) for place, lines in secrets]


def places(text: str) -> list[Place]:
    """Every secret in it, in their order, none within another."""
    # A byte for each character, so that a place in one is a place in the other. Tokens are of ASCII.
    ascii_text = text.encode("ascii", "replace")
    return _apart(tokens(ascii_text), _named(ascii_text))


def masked(value: str) -> str:
    """Its first characters, without half an escape of JSON's."""
    return value[: min(4, len(value) // 3)].partition("\\")[0] + "…"


def without_secrets(text: str) -> str:
    """The text with each of them masked."""
    return cut(text, places(text), lambda secret: masked(secret) + REDACTED)


def cut(text: str, found: Iterable[Place], mask: Callable[[str], str]) -> str:
    """The text with what is at these places masked."""
    pieces, at = [], 0
    for place in found:
        pieces += [text[at : place.start], mask(text[place.start : place.end])]
        at = place.end
    return "".join([*pieces, text[at:]])


def _together(lines: Iterable[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Some lines at a time, the last ones again with the next."""
    group: list[tuple[int, str]] = []
    size = 0
    for line in lines:
        group.append(line)
        size += len(line[1]) + 1
        if size > _AT_ONCE:
            yield group
            group = [each for each in group[-_TOGETHER:] if len(each[1]) < _AT_ONCE // _TOGETHER]
            size = sum(len(each[1]) + 1 for each in group)
    if group:
        yield group


def _apart(tokens: Iterable[Place], named: Iterable[Place]) -> list[Place]:
    """`OPENAI_API_KEY=sk-…` is one secret, and its form says more of it than its name."""
    kept: list[Place] = []
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


# --- values, by their name -------------------------------------------------------------------------------


class _Named(NamedTuple):
    word: bytes
    """In small letters, what is looked for."""
    pattern: re.Pattern[bytes]
    """With the groups `name`, `sign`, `quote` and `value`."""
    is_secret: Callable[[str, bytes, re.Match[bytes]], bool]
    kind: str
    values: Callable[[re.Match[bytes]], Iterable[bytes]] = lambda match: [match["value"]]


def _named(text: bytes) -> Iterator[Place]:
    lowered = text.lower()
    for word, pattern, is_secret, kind, values in _NAMED:
        at = -1
        while (at := lowered.find(word, at + 1)) >= 0:
            match = pattern.match(text, at)
            likely = [value for value in values(match) if not is_placeholder(value)] if match else []
            if match and likely:
                name = _name(text, match)
                if any(is_secret(name, value, match) for value in likely):
                    start, end = match.start("value"), end_of_value(match)
                    shown = kind.format(_shown(name))
                    yield Place(_behind_escape(text, start, end), end, shown, is_named=True)
                    at = end - 1


_ESCAPE = re.compile(rb"(?<=\\)(?:u[0-9A-Fa-f]{4}|[bfnrt/])")


def _behind_escape(text: bytes, start: int, end: int) -> int:
    """Half an escape of JSON's is no part of a value."""
    escape = _ESCAPE.match(text, start)
    return min(escape.end(), end) if escape else start


@lru_cache(1000)
def _shown(name: str) -> str:
    """It may be one itself."""
    return without_secrets(name) if len(name) >= SHORTEST else name


_LONGEST_NAME = 48
_NAME = re.compile(rb"(?:(?<=\\)(?:u[0-9A-Fa-f]{4}|[bfnrt])|(?<=\[)[0-9;]{0,12}m)?([\w.-]*)\Z")


def _name(text: bytes, match: re.Match[bytes]) -> str:
    """All of it: the word that was looked for may be its end."""
    start = match.start()
    before = _NAME.search(text, max(0, start - _LONGEST_NAME), start)
    return ((before[1] if before else b"") + match["name"]).decode().lstrip("-._")


def _is_value(name: str, value: bytes, match: re.Match[bytes]) -> bool:
    """Whether it is no word of a program or of a sentence. A password may be short and can be read, where a
    sign tells of it; what else has such a name is long and random. In `NAME=value`, as a shell has it, more
    counts than elsewhere."""
    if _NO_SECRET.search(name) or _NO_VALUE.search(value):
        return False
    if b"/" in value and _DIRECTORY.fullmatch(name):
        return False
    if not (_DIGIT.search(value) and _LETTER.search(value)):
        return False
    is_setting = name.isupper() and match["sign"] == b"="
    if _PASSWORD.search(name) and (is_setting or match["quote"] or _SYMBOL.search(value)):
        return True
    if _UUID.fullmatch(value):
        return is_setting or bool(_KEY.search(name) or _PRECISE.search(name))
    longest = max(_PIECE.findall(value), key=len)
    needed = 8 if is_setting else 16
    return len(value) >= needed and len(longest) >= needed and bool(_DIGIT.search(longest))


def _is_key(name: str, value: bytes, match: re.Match[bytes]) -> bool:
    """A key may as well be that of a table."""
    return bool(_KEY.search(name)) and _is_value(name, value, match)


def _is_credential(_name: str, value: bytes, _match: re.Match[bytes]) -> bool:
    return bool(_DIGIT.search(value) and _LETTER.search(value))


def _is_password(_name: str, value: bytes, match: re.Match[bytes]) -> bool:
    """Those that every manual has are none."""
    value = value.lower()
    return value not in _NO_PASSWORDS and value != match["user"].lower() and not value.isdigit()


_NO_SECRET = re.compile(r"(?i)page|next(?!auth)|cursor|continu|csrf|xsrf|hash|public|count|sync|resume")
_DIRECTORY = re.compile(r"(?i)(?:old)?pwd")
_NO_VALUE = re.compile(rb"://|[a-z](?:Key|Password|Secret|Token)|\A(?i:password)\d{0,3}\Z")
_PASSWORD = re.compile(r"(?i)passw|passphrase|pwd")
_KEY = re.compile(
    r"(?i)(?:api|app|access|account|admin|auth|client|encryption|master|private|role|secret|service|signing)"
    r"[-_ ]?key"
)
_NO_PASSWORDS = set(b"admin guest pass passwd password postgres pw pwd root secret test token user".split())
_DIGIT, _LETTER, _SYMBOL = re.compile(rb"[0-9]"), re.compile(rb"[A-Za-z]"), re.compile(rb"[!@#%^&*?~]")
_UUID = re.compile(rb"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_PRECISE = re.compile(r"(?i)secret|(?:access|auth|api|bearer)[-_ ]?token")
"""Names of secrets. Much else that has an id is called a token."""
_PIECE = re.compile(rb"[A-Za-z0-9+/]+")


def _assigned(
    word: bytes, name: bytes, is_secret: Callable[[str, bytes, re.Match[bytes]], bool] = _is_value
) -> _Named:
    return _Named(word, assigned(name), is_secret, "value of {}", candidates)


_CREDENTIAL = rb"(?P<value>[\w.~+/=-]{12,2000}+)"
_NAMED = (
    _assigned(b"passw", rb"passw(?:or)?d(?:[-_]?\d)?"),
    _assigned(b"passphrase", rb"passphrase"),
    _assigned(b"pwd", rb"pwd"),
    _assigned(b"secret", rb"secret(?:[-_]?(?:value|base|\d))?"),
    _assigned(b"token", rb"token(?:[-_]?(?:value|\d))?"),
    _assigned(b"key", rb"key(?:[-_]?(?:value|base64|base|data|\d))?", _is_key),
    _assigned(b"api key", rb"api key"),
    _assigned(b"credential", rb"credentials?"),
    _Named(
        b"bearer ",
        re.compile(rb"(?i)(?P<name>bearer)(?P<sign> {1,4})(?P<quote>)" + _CREDENTIAL),
        _is_credential,
        "bearer token",
    ),
    _Named(
        b"authorization",
        re.compile(
            rb"""(?i)(?P<name>authorization)[\\"'\]]{0,6}[ \t]{0,4}(?P<sign>[:=,])[ \t]{0,4}[\\"'`]{0,6}"""
            rb"(?:apikey|basic|bot|geniekey|key|sso-key|ssws|token) {1,4}(?P<quote>)" + _CREDENTIAL
        ),
        _is_credential,
        "authorization header",
    ),
    _Named(
        b"://",
        re.compile(
            rb"""(?P<name>://)(?P<user>[^\x00-\x20:/@"'\\<>{}$]{0,80}+)(?P<sign>:)(?P<quote>)"""
            rb"""(?P<value>[^\x00-\x20:/@"'\\<>{}$]{3,4000}+)@[\w\[]"""
        ),
        _is_password,
        "password in an address",
    ),
    _Named(
        b"curl ",
        re.compile(
            rb"""(?i)(?P<name>curl) (?:(?:[^\n]|\\\n){0,200}?[ \t])??"""
            rb"""(?P<sign>-\w{0,8}?u|--(?:proxy-)?user)[ =]?(?P<quote>[\\"']{0,6})"""
            rb"""(?P<user>[^\x00-\x20:"'\\$]{1,80}+):(?P<value>[^\x00-\x20"'\\<>{}$]{6,200}+)"""
        ),
        _is_password,
        "password of a command",
    ),
    _Named(
        b"login ",
        re.compile(
            rb"""(?i)(?P<name>login) (?P<user>[^\x00-\x20"'\\$]{1,80}+)(?:\s|\\n){1,4}(?P<sign>password )"""
            rb"""(?P<quote>)(?P<value>[^\x00-\x20"'\\<>{}$]{6,200}+)"""
        ),
        _is_password,
        "password of a .netrc",
    ),
)
