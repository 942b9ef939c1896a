"""One JSON object and its bytes: read as leniently as can be, written in one way, never changed unasked.

msgspec reads almost every record. What it refuses and JSON allows (lone surrogates, numbers out of
range, NaN) goes through the standard library; what neither reads is no record, and ValueError says why.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from typing import Any, Self

import msgspec

REFUSED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes it does not read."""

STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?+\Z)'
"""A string in JSON. One that is not closed is all that follows: were it nothing, a search would begin anew at
each quote in it, and take the square of its length."""
LONG = 2**20
"""Bytes: a shorter text has no room for so many values that they matter."""
_MOST_TOKENS = 400_000
"""Of a long text that msgspec refuses. The standard library makes every value of it, to say what is wrong."""
_TOKEN = re.compile(STRING + rb"|[\[\]{},:]", re.DOTALL)
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
"""One, or two that are one character; the group is half of one."""

LARGER_THAN_ANY_FLOAT = "1e999"


class HugeNumber(float):
    """A number that no float holds, such as 1e400. It is infinite for whoever calculates with it, and is
    written as the text it came as: JSON has no other way to write one."""

    __slots__ = ("text",)

    text: str

    def __new__(cls, text: str) -> Self:
        made = super().__new__(cls, text)
        made.text = text
        return made

    def __getnewargs__(self) -> tuple[str]:  # type: ignore[override]
        return (self.text,)


class WithArguments(msgspec.Struct, frozen=True, gc=False):
    """A record whose `arguments` are any JSON. An infinite number in them is a `HugeNumber`, so that it is
    written as a number again, wherever it comes from."""

    def __post_init__(self) -> None:
        given = getattr(self, "arguments", None)
        if (exact := with_huge_numbers(given)) is not given:
            msgspec.structs.force_setattr(self, "arguments", exact)


def _written(value: object) -> msgspec.Raw:
    if isinstance(value, HugeNumber):
        return msgspec.Raw(value.text.encode())
    raise TypeError(f"{type(value).__name__} has no place in JSON")


encode = msgspec.json.Encoder(enc_hook=_written).encode
"""Compact JSON. A lone surrogate is an error, NaN is null."""
_any_value = msgspec.json.Decoder(msgspec.Raw)
_members_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_elements_decoder = msgspec.json.Decoder(list[msgspec.Raw])


def dumps(value: Any) -> bytes:
    """Compact JSON in UTF-8. A lone surrogate is written as its escape, NaN and infinities as null, but for
    a `HugeNumber`."""
    try:
        return encode(value)
    except UnicodeEncodeError:
        mark = os.urandom(16).hex()  # which no text holds
        text = json.dumps(msgspec.to_builtins(value, enc_hook=lambda huge: mark + huge.text))
        finite = json.loads(text, parse_constant=lambda _: None)
        text = json.dumps(finite, ensure_ascii=False, separators=(",", ":"))
        return re.sub(f'"{mark}(.+?)"', r"\1", text).encode("utf-8", "backslashreplace")


def loads(raw: bytes) -> dict[str, Any]:
    """One JSON object, read as leniently as the standard library can. ValueError says why not."""
    try:
        if len(raw) > LONG:
            _any_value.decode(raw)  # what is no JSON makes no values
        value = msgspec.json.decode(raw)
    except REFUSED as refusal:
        if len(raw) > LONG and next(islice(_TOKEN.finditer(raw), _MOST_TOKENS, None), None):
            raw = _checked(raw, is_deep=isinstance(refusal, RecursionError))
        try:
            value = _decode_leniently(raw.decode("utf-8", "replace"))
        except RecursionError:
            raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError(f"not an object but {type(value).__name__}")
    return value


def _checked(raw: bytes, *, is_deep: bool) -> bytes:
    """JSON of very many values, with U+FFFD for each half of a character, if that is all that was wrong with
    it: whatever is written here can be read again."""
    whole = with_whole_characters(raw)
    try:
        _any_value.decode(whole)
    except REFUSED:
        raise ValueError("nested too deeply" if is_deep else "damaged, with too many values") from None
    return whole


def loads_some(raw: bytes, names: Collection[str]) -> dict[str, Any]:
    """The same, and of a long one these members alone, without making the others' values."""
    if len(raw) > LONG:
        try:
            found = _members_decoder.decode(with_whole_characters(raw))
            return {name: msgspec.json.decode(found[name]) for name in names if name in found}
        except REFUSED:
            pass
    return loads(raw)


def with_whole_characters(raw: bytes) -> bytes:
    """The text with U+FFFD for each escape of a lone surrogate, which is what msgspec refuses most."""
    halves = [found.start() for found in _ESCAPE.finditer(raw) if found[1]]
    if not halves:
        return raw
    whole = bytearray(raw)
    for at in halves:
        whole[at : at + 6] = b"\\ufffd"
    return bytes(whole)


def loads_exactly(raw: bytes) -> dict[str, Any]:
    """The same, with a `HugeNumber` for each number that no float holds."""
    found = loads(raw)
    has_huge_numbers = with_huge_numbers(found) is not found
    return dict(parsed_exactly(raw)) if has_huge_numbers else found


def parsed_exactly(raw: bytes) -> Any:
    """Any JSON value that can be read, with a `HugeNumber` for each number that no float holds."""
    return json.loads(raw.decode("utf-8", "replace"), parse_int=_exact_int, parse_float=_exact_float)


def with_huge_numbers(value: Any) -> Any:
    """The value with a `HugeNumber` for each infinite number in it; the value itself if there is none."""
    return _with_each(value, _huge)


def without_huge_numbers(value: Any) -> Any:
    """The value with plain infinite numbers, for whoever asks for a float and nothing else."""
    return _with_each(value, lambda each: float(each) if isinstance(each, HugeNumber) else each)


def _with_each(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value with all that is neither an object nor an array changed; itself if nothing is. It may be
    nested as deeply as JSON is read, which is deeper than calls may be."""
    if all(change(each) is each for each in _leaves(value)):
        return value
    root = [value]
    waiting: list[tuple[Any, Any]] = [(root, 0)]
    while waiting:
        holder, key = waiting.pop()
        each = holder[key]
        if isinstance(each, dict | list):
            holder[key] = each = each.copy()
            waiting += [(each, inner) for inner in (each if isinstance(each, dict) else range(len(each)))]
        else:
            holder[key] = change(each)
    return root[0]


def _leaves(value: Any) -> Iterator[Any]:
    """All that is neither an object nor an array."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
        else:
            yield each


def _huge(value: Any) -> Any:
    if type(value) is float and math.isinf(value):
        return HugeNumber(LARGER_THAN_ANY_FLOAT if value > 0 else f"-{LARGER_THAN_ANY_FLOAT}")
    return value


def canonical(record: dict[str, Any]) -> bytes:
    """The same bytes for records that say the same, however they are written.

    Neither spacing, escapes and the order of members count, nor whether a whole number is written as 1 or
    1.0, which other languages do not tell apart. True is not 1.
    """
    return json.dumps(_whole(record), sort_keys=True).encode()


def members(raw: bytes) -> Mapping[str, bytes]:
    """The top-level members of an object, each value as the bytes it was written with."""
    try:
        return {key: bytes(value) for key, value in _members_decoder.decode(raw).items()}
    except REFUSED:
        pass
    loads(raw)  # which says why it is none; the scan below trusts it to be one
    try:
        return _members_of(raw.decode("utf-8", "surrogateescape"))
    except (RecursionError, IndexError):
        raise ValueError("nested too deeply, or no object") from None


def elements(raw: bytes) -> list[bytes]:
    """The elements of an array, each as the bytes it was written with. ValueError if it is none."""
    try:
        return [bytes(element) for element in _elements_decoder.decode(raw)]
    except REFUSED:
        pass
    found: list[bytes] = []
    scan = json.JSONDecoder(parse_int=_int).raw_decode
    text = raw.decode("utf-8", "surrogateescape")
    try:
        at = _skip(text, 0)
        while text[at] == ("," if found else "["):
            start = _skip(text, at + 1)
            _, end = scan(text, start)
            found.append(text[start:end].encode("utf-8", "surrogateescape"))
            at = _skip(text, end)
    except (RecursionError, IndexError):
        raise ValueError("nested too deeply, or no array") from None
    if text[at] != "]" or text[at + 1 :].strip(" \t\r\n"):
        raise ValueError("no array")
    return found


def _members_of(text: str) -> Mapping[str, bytes]:
    members = {}
    scan = json.JSONDecoder(parse_int=_int).raw_decode
    at = _skip(text, text.index("{") + 1)
    while text[at] != "}":
        key, at = scan(text, at)
        start = _skip(text, _skip(text, at) + 1)  # past the colon
        _, at = scan(text, start)
        members[key] = text[start:at].encode("utf-8", "surrogateescape")
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
    return members


def _skip(text: str, at: int) -> int:
    while text[at] in " \t\r\n":
        at += 1
    return at


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _exact_int(digits: str) -> int | float:
    number = _int(digits)
    return HugeNumber(digits) if isinstance(number, float) and math.isinf(number) else number


def _exact_float(text: str) -> float:
    number = float(text)
    return HugeNumber(text) if math.isinf(number) else number


def _int(digits: str) -> int | float:
    return int(digits) if len(digits) < 4300 else float(digits)  # the interpreter's own limit


_decode_leniently = json.JSONDecoder(parse_int=_int).decode
