"""Secrets in values of JSON, found and masked.

They are searched as values and not as text: a secret is found however a format escapes it, and what is made
of the masked values is as valid as what was there. The name of a value, as in `{"password": …}`, stands
before it in what is searched. What only its name tells of is masked where it stands without one, too.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from perdure.agent.secret_tokens import Place
from perdure.front.secrets import REDACTED, cut, masked, places, with_values

_AT_ONCE = 2**22  # characters that are searched together
_MOST_REPEATED = 200  # values that are looked for without their names, so that the time is linear
_SHORTEST_REPEATED = 8
_PIECE = 8  # characters by which a part of a private key is known
_EVERY = 5  # of them in a word one is looked at: a part of twelve has one of these in it
_FEWEST_CHARACTERS = 5  # of a piece: others are in many keys, and elsewhere
_WORD = re.compile(rf"(?<![A-Za-z0-9+/=])(?:(?<=\\)[nr])?([A-Za-z0-9+/=]{{{_PIECE + _EVERY - 1},}}+)")
_END = '"\0'  # of a string: no secret reaches beyond it


class Hit(NamedTuple):
    value: int
    """Which of the values it is in."""
    field: str
    kind: str
    secret: str
    """All lines of it."""


class _String(NamedTuple):
    """One of a value's, and where it is in a text of many."""

    start: int
    end: int
    value: int
    at: int
    field: str


class Redaction:
    """Of all strings in some values of JSON, which are put together in a few long texts: there are hundreds
    of forms to look for, and most strings are short. A value is asked for when it is looked at: those
    of a large session take many times its size together."""

    def __init__(self, count: int, value: Callable[[int], Any]) -> None:
        self._value = value
        self.hits: list[Hit] = []
        self.places: dict[int, dict[int, list[Place]]] = {}
        """In which value, and in which of its strings."""
        self._masks: dict[str, str] = {}
        self._counts: Counter[str] = Counter()
        named: dict[str, str] = {}
        pieces: dict[str, str] = {}
        for text, strings in _texts(count, value):
            found = places(text)
            secrets = {place.start: secret for place, secret in with_values(text, found)}
            for string, place in _within(strings, found):
                secret = text[place.start : place.end]
                if whole := secrets.get(place.start):
                    self.hits.append(Hit(string.value, string.field, place.kind, whole))
                self._keep(string, place)
                if place.is_named and len(secret) >= _SHORTEST_REPEATED:
                    named.setdefault(secret, place.kind)
                if whole and "\n" in whole:  # as of a private key alone
                    pieces |= dict.fromkeys(_pieces(whole), place.kind)
        few = [*named.items()][:_MOST_REPEATED]
        self.only_named = len(named) - len(few)
        """How many values are masked only where their names stand."""
        for text, strings in _texts(count, value) if few or pieces else ():
            again = [place for secret, kind in few for place in _everywhere(secret, text, kind)]
            for string, place in _within(strings, [*again, *_parts_again(pieces, text)]):
                self._keep(string, place)

    def _keep(self, string: _String, place: Place) -> None:
        own = self.places.setdefault(string.value, {}).setdefault(string.at, [])
        own.append(place._replace(start=place.start - string.start, end=place.end - string.start))

    def redacted(self, value: int) -> Any:
        found = self.places.get(value, {})
        at = -1

        def change(field: str, text: str) -> str:
            nonlocal at
            at += 1
            return cut(text, _apart(found[at]), self._mask) if at in found else text

        return _with_each_string(self._value(value), change)

    def _mask(self, secret: str) -> str:
        """One for each secret, the same wherever that is: what two entries are known by stays apart."""
        if secret not in self._masks:
            shown = masked(secret)
            self._counts[shown] += 1
            more = f"-{self._counts[shown]}" if self._counts[shown] > 1 else ""
            self._masks[secret] = f"{shown}{REDACTED[:-1]}{more}{REDACTED[-1]}"
        return self._masks[secret]


def _texts(count: int, value: Callable[[int], Any]) -> Iterator[tuple[str, list[_String]]]:
    """All strings, each behind the name of its member."""
    pieces: list[str] = []
    strings: list[_String] = []
    size = 0
    for number in range(count):
        for at, (field, text) in enumerate(_strings_of(value(number))):
            before = f'"{field}": "'
            pieces += (before, text, _END)
            start = size + len(before)
            strings.append(_String(start, start + len(text), number, at, field))
            size = start + len(text) + len(_END)
        if size > _AT_ONCE:
            yield "".join(pieces), strings
            pieces, strings, size = [], [], 0
    yield "".join(pieces), strings


def _strings_of(value: Any) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []

    def keep(field: str, text: str) -> str:
        found.append((field, text))
        return text

    _with_each_string(value, keep)
    return found


def _within(strings: Sequence[_String], found: Iterable[Place]) -> Iterator[tuple[_String, Place]]:
    """Each place with the string that it is in."""
    for place in found:
        string = strings[max(0, bisect_right(strings, (place.start + 1,)) - 1)]
        if (
            string.start <= place.start < string.end
        ):  # and not in the name before it, which is a string itself
            is_whole = place.is_named and place.start == string.start  # as its member's name says
            yield string, place._replace(end=string.end if is_whole else min(place.end, string.end))


def _everywhere(secret: str, text: str, kind: str) -> Iterator[Place]:
    at = text.find(secret)
    while at >= 0:
        yield Place(at, at + len(secret), kind)
        at = text.find(secret, at + len(secret))


def _pieces(key: str) -> Iterator[str]:
    """All of a private key, on one line, each beginning a character later."""
    line = key.replace("\n", "")
    for at in range(len(line) - _PIECE + 1):
        piece = line[at : at + _PIECE]
        if len({*piece}) >= _FEWEST_CHARACTERS:
            yield piece


def _parts_again(pieces: Mapping[str, str], text: str) -> Iterator[Place]:
    """Parts of private keys where nothing says what they are: a line, or what a tool took for a path. However
    many keys there are, each word is looked at once."""
    for found in _WORD.finditer(text) if pieces else ():
        word = found[1]
        last = len(word) - _PIECE
        if any(word[at : at + _PIECE] in pieces for at in (*range(0, last, _EVERY), last)):
            known = [at for at in range(last + 1) if word[at : at + _PIECE] in pieces]
            start = found.start(1)
            yield Place(start + known[0], start + known[-1] + _PIECE, pieces[word[known[0] :][:_PIECE]])


def _apart(found: Iterable[Place]) -> Iterator[Place]:
    end = 0
    for place in sorted(found, key=lambda each: (each.start, -each.end)):
        if place.start >= end:
            yield place
            end = place.end


def _with_each_string(value: Any, change: Callable[[str, str], str]) -> Any:
    """The value with each string in it changed, names of members too; always in the same order. It may be
    nested as deeply as JSON is read, which is deeper than calls may be."""
    root = [value]
    waiting: list[tuple[Any, Any, str]] = [(root, 0, "")]
    while waiting:
        holder, key, field = waiting.pop()
        each = holder[key]
        if isinstance(each, str):
            holder[key] = change(field, each)
        elif isinstance(each, list):
            holder[key] = made = each.copy()
            waiting += [(made, at, field) for at in range(len(made))]
        elif isinstance(each, dict):
            holder[key] = members = {}
            for name, inner in each.items():
                new = change("", name)
                while new in members:
                    new += "…"
                members[new] = inner
                waiting.append((members, new, name))
    return root[0]
