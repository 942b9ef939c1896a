"""Lisp data as text: lists, strings, numbers, keywords, nil, t and dotted pairs, and nothing else.

A file may come from anywhere, so nothing here can name code, let alone run it: `#.`, every other reader
macro, comments and all symbols but nil and t are errors that say where they stand. A real Lisp reads what
`dumps` prints, and `loads` reads what a real Lisp prints of such data, in either case, pretty or not.

One Lisp object is one Python value:

    "text"         str; a backslash takes the next character as it is, a newline stands for itself
    12  +5  5.     int
    1.5  1d-3      float, always printed as a double float, and read as one
    1/2            Fraction; 4/2 is the int that it is to Lisp
    :role  :ROLE   Keyword("role")
    nil  ()        None; so an empty Python list is printed as nil and comes back as None
    t              True; False is no Lisp object
    (1 2)          list
    ("a" . 1)      Pair("a", 1); what is dotted without need, as in (1 . (2)), is the list it is to Lisp
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from decimal import ROUND_UP, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

DEPTH = 1000
"""As many lists may be nested, and as many pairs chained: neither reading nor printing goes further."""

LONGEST_NUMBER = 10_000
"""In digits. To convert them takes time that grows with their square, so there must be a bound."""


class Keyword(NamedTuple):
    """`:role`, by its name in lower case. No string, and never equal to one."""

    name: str


class Pair(NamedTuple):
    """A cons whose chain of cdrs does not end in nil: `(a b . c)` is `Pair(a, Pair(b, c))`. See `cons`."""

    car: Value
    cdr: Value

    def __hash__(self) -> int:
        # That of tuples goes down without a bound, so that a file with a million pairs ended the process.
        raise TypeError("a pair has no hash, as a list has none")


Value: TypeAlias = "str | int | float | Fraction | bool | Keyword | Pair | list[Value] | None"


class SexpError(ValueError):
    """Why a text is not read, and where.

    `open` has the lists that were begun and not ended, outermost first, each with what was read of it,
    and `starts` the offsets where they begin. An inner one is not in its outer one. What followed a dot
    is there like an element. A number or a keyword right at the end of the text, where it may have been
    cut, is not.
    """

    def __init__(
        self, reason: str, text: str, offset: int, open: list[list[Value]], starts: list[int]
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.offset = offset
        self.open = open
        self.starts = starts
        self._text = text

    # Counted when asked for: one who tries many places of a long text asks few of these errors.

    @property
    def line(self) -> int:
        return self._text.count("\n", 0, self.offset) + 1

    @property
    def column(self) -> int:
        return self.offset - self._text.rfind("\n", 0, self.offset)

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.reason}"


def cons(car: Value, cdr: Value) -> Value:
    """`(car . cdr)` as the one value it is: a list in front of a list or nil, a pair otherwise."""
    if cdr is None:
        return [car]
    return [car, *cdr] if isinstance(cdr, list) else Pair(car, cdr)


# --- reading --------------------------------------------------------------------------------------

_STRING, _WORD, _OPEN, _CLOSE, _OTHER = range(1, 6)
# One of these matches at every place, the end included, and none gives back what it took: time is linear.
_TOKEN = re.compile(
    r"""[ \t\n\r\f]*+ (?:
          "( [^"\\]*+ (?: \\. [^"\\]*+ )*+ )"
        | ( [^\x00-\x20\x7f"'(),;`]++ )
        | (\()
        | (\))
        | (.)
        | \Z )""",
    re.DOTALL | re.VERBOSE,
)
_NUMBER = re.compile(r"([+-]?(?=\.?[0-9])[0-9]*+)(\.[0-9]*+)?(?:[DEFLSdefls]([+-]?[0-9]++))?")
_RATIO = re.compile(r"([+-]?[0-9]++)/([0-9]++)")
# What Lisp prints as it is. A name that begins with a digit comes back between bars.
_NAME = re.compile(r"[a-z][a-z0-9*+/<>=!?$%&@^~_.-]{0,254}")

_DOT: Final[Any] = object()
_NO_TAIL, _TAIL_AWAITED, _TAIL_WAS_LIST, _TAIL_IS_LAST = range(4)


def loads(text: str) -> Value:
    """The one form in the text."""
    value, end = scan(text)
    rest = text[end:].lstrip(" \t\n\r\f")
    if rest:
        raise SexpError("there is more behind the form", text, len(text) - len(rest), [], [])
    return value


def scan(text: str, at: int = 0, most: int | None = None) -> tuple[Value, int]:
    """The form that begins at `at`, or after the whitespace there, and the offset where it ends. At most so
    many words, strings and parentheses may be in it."""
    items: list[Value] = []  # of the innermost list
    tail = _NO_TAIL  # whether a dot was in it, and what then
    around: list[tuple[list[Value], int]] = []  # the same for the lists around it
    starts: list[int] = []
    size = len(text)
    value: Value

    def refused(reason: str) -> SexpError:
        kind = token.lastindex
        offset = token.start(kind) - (kind == _STRING) if kind else token.end()
        lists = [*(each for each, _ in around), items]
        begun = [n for n in range(len(starts)) if lists[n + 1] is not lists[n]]
        return SexpError(reason, text, offset, [lists[n + 1] for n in begun], [starts[n] for n in begun])

    for token in islice(_TOKEN.finditer(text, at), most):
        kind = token.lastindex
        if tail > _TAIL_AWAITED and kind != _CLOSE and kind:
            raise refused("only one form may follow a dot")
        if kind == _STRING:
            value = token[_STRING]
            if "\\" in value:
                value = _unescaped(value)
        elif kind == _WORD:
            if starts and token.end() == size:  # more of the word may have stood there
                raise refused("the text ends inside a list")
            try:
                value = _word(token[_WORD])
            except ValueError as error:
                raise refused(str(error)) from None
            if value is _DOT:
                if not starts or tail or token.start() == starts[-1] + 1:
                    raise refused("a dot needs a form before it, and after it, in a list")
                tail = _TAIL_AWAITED
                continue
        elif kind == _OPEN:
            if len(starts) == DEPTH:
                raise refused(f"more than {DEPTH} lists in each other")
            starts.append(token.start(_OPEN))
            around.append((items, tail))
            if not tail:  # behind a dot, what is in these parentheses goes on with the list before it
                items = []
            tail = _NO_TAIL
            continue
        elif kind == _CLOSE:
            if not starts:
                raise refused("no list to end")
            if tail == _TAIL_AWAITED:
                raise refused("no form follows the dot")
            if tail == _TAIL_IS_LAST and len(items) > DEPTH + 1:
                raise refused(f"more than {DEPTH} forms before a dot")
            ended, ended_tail = items, tail
            starts.pop()
            items, tail = around.pop()
            if items is ended:
                tail = ended_tail or _TAIL_WAS_LIST
                continue
            value = _chain(ended) if ended_tail == _TAIL_IS_LAST else ended or None
        elif kind == _OTHER:
            char = token[_OTHER]
            raise refused("the string does not end" if char == '"' else f"{_short(char)} is not read here")
        else:
            raise refused("the text ends inside a list" if starts else "nothing to read")
        if not starts:
            return value, token.end()
        if tail:
            tail = _TAIL_WAS_LIST if value is None else _TAIL_IS_LAST
            if value is None:
                continue
        items.append(value)
    raise refused(f"more than {most:,} words and lists in one form")  # for some token matches at every place


def _unescaped(text: str) -> str:
    # Of a run of backslashes, the first pairs are backslashes; one that is left over escapes what follows.
    return "\\".join([part.replace("\\", "") for part in text.split("\\\\")])


def _chain(items: list[Value]) -> Value:
    value = items.pop()
    while items:
        value = Pair(items.pop(), value)
    return value


@lru_cache(maxsize=1024)
def _word(word: str) -> Value:
    """ValueError says why not."""
    if word[0] == ":":
        name = word[1:].lower()
        if not word.isascii() or not _NAME.fullmatch(name):
            raise ValueError(f"{_short(word)} is not a keyword that is read here")
        return Keyword(name)
    if word == ".":
        return _DOT  # type: ignore[no-any-return]
    if number := _NUMBER.fullmatch(word):
        return _number(word, *number.groups())
    if ratio := _RATIO.fullmatch(word):
        return _ratio(word, *ratio.groups())
    name = word.lower()
    if name in ("nil", "t"):
        return True if name == "t" else None
    if word[0] == "#":
        raise ValueError(f"{_short(word[:2])} is not read here")
    raise ValueError(f"{_short(word)} is neither a number nor a keyword, nil or t")


def _number(word: str, whole: str, fraction: str | None, exponent: str | None) -> int | float:
    if len(word.lstrip("+-")) > LONGEST_NUMBER:
        raise ValueError(f"a number of more than {LONGEST_NUMBER} digits")
    if exponent is None and fraction in (None, "."):
        try:
            return int(whole)
        except ValueError:  # longer than the interpreter is set to convert
            return int(Decimal(whole))
    number = float(f"{whole}{fraction or ''}e{exponent or 0}")
    if math.isinf(number):
        raise ValueError(f"{_short(word)} is too large for a float")
    return number


def _ratio(word: str, numerator: str, denominator: str) -> int | Fraction:
    if len(word.lstrip("+-")) > LONGEST_NUMBER:
        raise ValueError(f"a number of more than {LONGEST_NUMBER} digits")
    if not denominator.strip("0"):
        raise ValueError(f"{_short(word)} divides by zero")
    number = Fraction(int(Decimal(numerator)), int(Decimal(denominator)))
    return number.numerator if number.denominator == 1 else number


def _short(word: str) -> str:
    shown = word if len(word) <= 40 else word[:37] + "..."
    return shown if shown.isprintable() else ascii(shown)


# --- printing -------------------------------------------------------------------------------------

_TOO_LONG = 10**LONGEST_NUMBER
_SEVENTEEN_DIGITS_UP = Context(prec=17, rounding=ROUND_UP)


def dumps(value: Value) -> str:
    """The value in one line, but for the newlines in strings. ValueError if `loads` could not read it."""
    parts: list[str] = []
    add = parts.append
    items: Iterator[Value] = iter((value,))
    around: list[Iterator[Value]] = []  # what is still to come of the lists around these items
    while True:
        for item in items:
            if isinstance(item, str):
                add(_quoted(item))
            elif isinstance(item, Keyword):
                add(_colon(item.name))
            elif isinstance(item, (list, Pair)) and item:
                if len(around) == DEPTH:
                    raise ValueError(f"more than {DEPTH} lists in each other")
                around.append(items)
                items = iter(item) if isinstance(item, list) else _links(item)
                add("(")
                break
            else:
                add(_atom(item))
            add(" ")
        else:
            if not around:
                return _encodable("".join(parts[:-1]))
            items = around.pop()
            parts[-1] = ")"  # in place of the space
            add(" ")


def string(text: str) -> str:
    """What `dumps` makes of a string."""
    return _encodable(_quoted(text))


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _encodable(text: str) -> str:
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        raise ValueError("a lone surrogate is no character") from None
    return text


def _links(pair: Pair) -> Iterator[Value]:
    links: list[Value] = []
    link: Value = pair
    while isinstance(link, Pair):
        if len(links) == DEPTH:
            raise ValueError(f"more than {DEPTH} forms before a dot")
        links.append(link.car)
        link = link.cdr
    if isinstance(link, list):
        return iter(links + link)
    return iter(links if link is None else [*links, _DOT, link])


@lru_cache(maxsize=1024)
def _colon(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{_short(name)} is not the name of a keyword that is read here")
    return ":" + name


def _atom(item: Value) -> str:
    if item is None or item == []:
        return "nil"
    if item is True:
        return "t"
    if item is _DOT:
        return "."
    if isinstance(item, float):
        return _float(item)
    if isinstance(item, int) and item is not False:
        return _integer(item)
    if isinstance(item, Fraction):
        below = f"/{_integer(item.denominator)}" if item.denominator > 1 else ""
        return _integer(item.numerator) + below
    raise ValueError(f"{'False' if item is False else type(item).__name__} is no Lisp object")


def _integer(number: int) -> str:
    if not -_TOO_LONG < number < _TOO_LONG:
        raise ValueError(f"a number of more than {LONGEST_NUMBER} digits")
    try:
        return str(number)
    except ValueError:  # longer than the interpreter is set to convert
        return str(Decimal(number))


def _float(number: float) -> str:
    if not math.isfinite(number):
        raise ValueError(f"{number} is no Lisp object")
    text = repr(number)
    if abs(number) < sys.float_info.min and abs(Decimal(text)) < abs(Decimal(number)):
        # SBCL cuts a subnormal off where it should round: only a text that is not below it comes back as it.
        text = str(_SEVENTEEN_DIGITS_UP.create_decimal(number)).lower()
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}{'' if '.' in mantissa else '.0'}d{int(exponent or 0)}"
