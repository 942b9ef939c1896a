"""JSON as text: laid out in lines, on one line, and what is whole in a document that is damaged.

Every token keeps its bytes: numbers their digits, strings their escapes, so that laying out changes nothing
but the blanks between them.

A document here is an object of which some members are long lists of objects. A damaged one is walked through
as far as it makes sense. There the next line that begins an item of such a list, or a member, as the lines
before it did, is looked for, and the walk goes on from it: a torn item costs itself.
"""

from __future__ import annotations

import codecs
import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from json import JSONDecodeError
from typing import Any, NamedTuple

import msgspec

from perdure.session.record import LONG, REFUSED, STRING

DEEPEST = 200
"""How deeply a value may be nested that others than its writer are to read."""
_CHEAP = 2**28
_A_PIECE = 2**20
_NO_OBJECT = 2**14  # what an item costs that is none, as if so many characters had been in vain
_TOKEN = re.compile(STRING + rb'|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)
_BRACKET = re.compile(STRING + rb"|([\[{])|([\]}])", re.DOTALL)
_BRACKET_IN_TEXT = re.compile(_BRACKET.pattern.decode(), re.DOTALL)
_any_value = msgspec.json.Decoder(msgspec.Raw)
_OPEN, _CLOSE, _COMMA = frozenset(b"[{"), frozenset(b"]}"), ord(",")
_SPACE = re.compile(r"[ \t\r\n]*+")


def laid_out(raw: bytes, depth: int = 0) -> bytes:
    """With a line for each value and two spaces a level, as it stands `depth` levels inside a document.

    What looks like that already is left alone. So is, on one line, what is nested so deeply that its
    indentation would be many times longer than itself.
    """
    indent = b"\n" + b"  " * depth
    if depth and raw.startswith(b"{%b  " % indent) and raw.endswith(indent + b"}"):
        return raw
    if not _is_worth_it(raw):
        return on_one_line(raw)
    try:
        text = msgspec.json.format(raw, indent=2)
    except REFUSED:
        text = _laid_out(_TOKEN.findall(raw))
    return text.replace(b"\n", indent)


def _is_worth_it(raw: bytes) -> bool:
    most = 64 * len(raw) + 2**12
    brackets = raw.count(b"[") + raw.count(b"{")
    lines = 2 * (brackets + raw.count(b","))
    return lines * brackets <= most or lines * _depth(raw) <= most


def on_one_line(raw: bytes) -> bytes:
    if b"\n" not in raw and b"\r" not in raw:
        return raw
    try:
        return msgspec.json.format(raw, indent=-1)
    except REFUSED:
        return b"".join(_TOKEN.findall(raw))


def is_sound(raw: bytes) -> bool:
    """Whether it may stand inside a document: JSON to the letter, in UTF-8, and not nested too deeply for
    whoever reads that as a whole."""
    if raw.count(b"[") + raw.count(b"{") > DEEPEST and _depth(raw) > DEEPEST:
        return False
    try:
        text = raw.decode()
        try:
            msgspec.json.format(raw, indent=-1)
        except REFUSED:
            json.loads(text, parse_constant=_refuse, parse_int=float)  # takes lone surrogates
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _depth(raw: bytes) -> int:
    depth = deepest = 0
    for match in _BRACKET.finditer(raw):
        if match[1]:
            depth += 1
            deepest = max(deepest, depth)
        elif match[2]:
            depth -= 1
    return deepest


def _laid_out(tokens: Sequence[bytes]) -> bytes:
    """As msgspec does it, for what it refuses."""
    parts: list[bytes] = []
    line = b"\n"
    before = b""
    for token in tokens:
        if token in (b"}", b"]"):
            line = line[:-2]
            if before not in (b"{", b"["):
                parts.append(line)
        elif before in (b"{", b"["):
            parts.append(line)
        if token in (b"{", b"["):
            line += b"  "
        parts.append(token)
        if token == b",":
            parts.append(line)
        elif token == b":":
            parts.append(b" ")
        before = token
    return b"".join(parts)


def check_utf8(data: bytes) -> None:
    """Raise what `data.decode()` would, without a text that may be four times as long."""
    decode, view = codecs.getincrementaldecoder("utf-8")().decode, memoryview(data)
    for start in range(0, len(data), _A_PIECE):
        decode(view[start : start + _A_PIECE])
    decode(b"", final=True)


def count_of_items(array: memoryview, most: int) -> int:
    """How many a sound array has that is not empty; of more than `most` no more are counted."""
    depth = commas = 0
    for token in _TOKEN.finditer(array):
        first = array[token.start()]
        depth += (first in _OPEN) - (first in _CLOSE)
        commas += first == _COMMA and depth == 1
        if commas >= most:
            break
    return commas + 1


# --- a document that is not as it should be -------------------------------------------------------------


class Piece(NamedTuple):
    offset: int
    raw: bytes


class Damage(NamedTuple):
    offset: int
    reason: str


Step = Callable[[], Any]
Kind = Callable[[Any], str]


def walked(text: str, lists: Mapping[str, str], kind: Kind, most: int) -> Walk:
    """What is whole in a text: the members of its one object, and the items of those that are `lists`.

    `lists` gives for each such list the name its items begin with, by which they are known where a text has
    no lines. `kind` tells by its value which list an item belongs to that was found behind damage. Of more
    than `most` items no more are looked at.
    """
    walk = Walk(text, lists, kind, most)
    if walk.damage and walk.has_lines and not walk.is_crowded:
        # A hole over some brackets gives others a new meaning: an item swallows those behind it, or ends the
        # document. Only the lines tell.
        by_lines = Walk(text, lists, kind, most, by_lines=True)
        if by_lines.count >= walk.count:
            return by_lines
    return walk


class Walk:
    def __init__(
        self, text: str, lists: Mapping[str, str], kind: Kind, most: int, *, by_lines: bool = False
    ) -> None:
        self.members: dict[str, Piece] = {}
        """In their order; those that are such lists with nothing in them."""
        self.lists: dict[str, list[Piece | None]] = {}
        """Their items in order; None where one is torn."""
        self.damage: list[Damage] = []
        self.is_crowded = False
        """Whether there are more items than were looked at."""
        self._text = text
        self._left = most
        self._names = lists
        self._kind = kind
        self._by_lines = by_lines
        self._at = 0
        self._list: str | None = ""
        """The list the walk is in; empty if only the items can tell, None inside something else."""
        self._guessing = True
        self._worth = max(_CHEAP, 16 * len(text))  # how much of failed tries is still worth its time
        step: Step | None = self._start
        while step is not None:
            try:
                step = step()
            except (ValueError, RecursionError) as error:
                step = self._resumed(step, error)

    @property
    def count(self) -> int:
        """How many items are whole."""
        return sum(piece is not None for pieces in self.lists.values() for piece in pieces)

    @property
    def has_lines(self) -> bool:
        """Whether they would tell more, and the walk did not cost too much already."""
        return self._unit is not None and self._worth > 0 and self.count > 0

    # --- what should be there ------------------------------------------------------------------------

    def _start(self) -> Step:
        self._expect("{")
        return self._after_member if self._next() == "}" else self._member

    def _member(self) -> Step:
        if self._next() != '"':
            raise self._error("no member")
        start = self._at
        name, self._at = _decoded(self._text, start)
        self._expect(":")
        if name in self.members:
            self._note(start, f"there is a second {name[:40]!r}")
        if self._next() == "[" and name in self._names:
            self._at += 1
            self._list, self._guessing = name, False
            self.members.setdefault(name, Piece(start, b""))
            self.lists.setdefault(name, [])
            return self._after_item if self._next() == "]" else self._item
        self._list, self._guessing = name if name in self._names else None, True
        self.members[name] = self._whole_value() or self._piece()[0]
        return self._after_member

    def _after_member(self) -> Step:
        self._list, self._guessing = "", True
        if self._next() == ",":
            self._at += 1
            return self._member
        self._expect("}")
        return self._end

    def _item(self) -> Step | None:
        if self._next() != "{":
            self._worth -= _NO_OBJECT
            if self._worth <= 0:
                raise self._error("too many items that are no objects")
        whole = None if self._guessing else self._whole_value()
        piece, value = (whole, None) if whole else self._piece()
        if self._by_lines and self._unit is not None:
            self._check_lines(piece.offset, self._unit)
        name = self._list
        if name is not None and self._guessing:
            name = self._kind(value) or name
        if name:
            self.lists.setdefault(name, []).append(piece)
        self._left -= 1
        self.is_crowded = self._left < 0
        return None if self.is_crowded else self._after_item

    def _after_item(self) -> Step:
        if self._next() == ",":
            self._at += 1
            return self._item
        self._expect("]")
        return self._after_member

    def _end(self) -> Step | None:
        self._next()
        rest = len(self._text) - self._at
        if rest and not self.lists and self._beginning.search(self._text, self._at):
            return self._without_beginning()
        if rest:
            self._note(self._at, f"{rest} characters behind the end of the document; left out")
        return None

    # --- and what is there instead -------------------------------------------------------------------

    def _resumed(self, step: Step, error: ValueError | RecursionError) -> Step | None:
        """Go on behind damage, from the next place where an item or a member begins."""
        text, start = self._text, self._at
        where = error.pos if isinstance(error, JSONDecodeError) else start
        spent = where if isinstance(error, JSONDecodeError) else len(text)
        self._worth -= spent // 8 + 4 * (spent - start) + 1
        if step == self._item or (step == self._member and text[start : start + 1] == '"'):
            start += 1
        else:  # what is wrong may be just before something that begins well
            while start and text[start - 1].isspace():
                start -= 1
        if step == self._item and self._list:
            self.lists.setdefault(self._list, []).append(None)
        self._guessing = True
        found = self._beginning.search(text, start) if self._worth > 0 else None
        reason = error.msg.removesuffix(" at") if isinstance(error, JSONDecodeError) else "nested too deeply"
        if found is None:
            torn = where >= len(text.rstrip()) or reason.startswith("Unterminated string")
            self._note(where, "it ends in the middle" if torn else f"no document from here on ({reason})")
            return None
        self._note(where, f"damaged ({reason})")
        self._at = found.end() - 1
        return self._member if text[self._at] == '"' else self._item

    def _check_lines(self, start: int, unit: str) -> None:
        """Raise if an item holds a line on which another one begins, or ends on one on which none does."""
        end = self._at
        inner = self._beginning.search(self._text, start + 1, end)
        if inner is None and (
            "\n" not in self._text[start:end] or self._text.endswith(f"\n{unit * 2}}}", 0, end)
        ):
            return
        self._at = start
        raise JSONDecodeError("closed in the wrong place", self._text, inner.end() - 1 if inner else end - 1)

    def _without_beginning(self) -> Step:
        """What was taken for the document is something out of it, left at the start: an item, perhaps."""
        self.members.clear()
        if not self.damage and re.match(rf'\s*+\{{\r?\n{(self._unit or "") * 3}"', self._text):
            self._note(0, "its beginning is missing")
            self._at = 0
            return self._item
        raise self._error("no document")

    @functools.cached_property
    def _unit(self) -> str | None:
        """By how much one level is indented in this text; None if it has no lines."""
        lists = "|".join(map(re.escape, self._names))
        line = re.search(rf'\n([ \t]+)"(?:{lists})"[ \t]*+:', self._text)
        if line:
            return line[1]
        return None if re.search(rf'"(?:{lists})"\s*+:', self._text) else "  "

    @functools.cached_property
    def _beginning(self) -> re.Pattern[str]:
        """How an item or a member begins: by its indentation, or by its name where there is none."""
        if self._unit is not None:
            return re.compile(rf'\n{self._unit}(?:"|{self._unit}\{{)')
        lists, first = ("|".join(map(re.escape, names)) for names in (self._names, self._names.values()))
        item = rf'[\[,]\s*+\{{(?=\s*+"(?:{first})"\s*+:)'
        return re.compile(rf'{item}|[,{{]\s*+"(?=(?:{lists})"\s*+:)')

    def _next(self) -> str:
        """The next character that is no blank; none at the end."""
        match = _SPACE.match(self._text, self._at)
        self._at = match.end() if match else self._at
        return self._text[self._at : self._at + 1]

    def _expect(self, character: str) -> None:
        if self._next() != character:
            raise self._error(f"no {character!r}")
        self._at += 1

    def _piece(self) -> tuple[Piece, Any]:
        start = self._at
        value, self._at = _decoded(self._text, start)
        return Piece(start, self._text[start : self._at].encode("utf-8", "surrogateescape")), value

    def _whole_value(self) -> Piece | None:
        """A sound object or list, without making the values in it, of which there may be very many."""
        text, start = self._text, self._at
        if len(text) < LONG or self._worth <= 0 or text[start : start + 1] not in ("{", "["):
            return None
        end, depth = len(text), 0
        for match in _BRACKET_IN_TEXT.finditer(text, start):
            depth += bool(match[1]) - bool(match[2])
            if not depth:
                end = match.end()
                raw = text[start:end].encode("utf-8", "surrogateescape")
                try:
                    _any_value.decode(raw)
                except REFUSED:
                    break
                self._at = end
                return Piece(start, raw)
        self._worth -= 8 * (end - start)
        return None

    def _error(self, reason: str) -> JSONDecodeError:
        return JSONDecodeError(reason, self._text, self._at)

    def _note(self, offset: int, reason: str) -> None:
        self.damage.append(Damage(offset, reason))


_decode = json.JSONDecoder().raw_decode
_decode_any = json.JSONDecoder(parse_int=float).raw_decode


def _decoded(text: str, start: int) -> tuple[Any, int]:
    try:
        return _decode(text, start)
    except JSONDecodeError:
        raise
    except ValueError:  # a number of more digits than the interpreter converts
        return _decode_any(text, start)
