"""Markdown files with a head: `key: value` lines between two lines of `---`, then the text.

Prompt templates and skills are such files. Their heads are called YAML and hold a few words and switches, so
only those are read: plain, quoted, in a block (`|`, `>`) or over several lines. Maps and lists are passed
over, and what people write and YAML refuses is taken: a colon inside a value, no blank behind the first one.

Two things could be errors and are none, because such a file most likely has no head at all: a first `---`
that is never closed, and text between two of them without a single key. All of it is text then. What is an
error names its line: a quote that is never closed, text behind a closing quote, a key that comes twice, a
line that belongs to no key. Guessing there would hide a typing mistake.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from perdure import config
from perdure.agent.reading import Reader, text_of

Head = dict[str, str | bool]

_RULE = "---"
_BLOCK = re.compile(r"([|>])([-+1-9]{0,2})(?:[ \t]+#.*)?")
_COMMENT = re.compile(r"[ \t]#.*")
_NESTED = re.compile(r"-(?:\s|$)|[\[{]|[\"']?[\w.-]++[\"']?:(?:\s|$)")
_QUOTED = {
    '"': re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL),
    "'": re.compile(r"'([^']*+(?:''[^']*+)*+)'"),
}
_LINE_BREAKS = re.compile(r"\n+")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)|\n+", re.DOTALL)
_ESCAPED = {
    **{"0": "\0", "a": "\a", "b": "\b", "t": "\t", "\t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"},
    **{"e": "\x1b", " ": " ", '"': '"', "/": "/", "\\": "\\", "N": "\x85", "_": "\xa0", "\n": ""},
    **{"L": "\u2028", "P": "\u2029"},
}
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}
_MOST_NAMED = 60
_LONGEST_TYPED = 255


class Markdown(NamedTuple):
    head: Head
    body: str
    is_cut: bool
    """Whether the file goes on."""


def read(path: str, most: int, text: Reader = text_of) -> Markdown:
    """The first `most` bytes of a file, which `text` reads. ValueError says why not, in words to put behind
    its name."""
    try:
        found = text(path, most)
    except FileNotFoundError as error:
        why = "it links to a file that is not there" if os.path.islink(path) else error.strerror
        raise ValueError(why) from None
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from None
    return Markdown(*split(found.text), found.is_cut)


def named(path: str) -> str:
    """A file for a notice: as its user would type it, on one line whatever its name is."""
    shown = config.as_typed(path)
    return shown if shown.isprintable() else repr(shown)


def can_be_typed(name: str) -> bool:
    """Whether it can stand behind the slash of a command."""
    return 0 < len(name) <= _LONGEST_TYPED and name.isprintable() and {" ", "/"}.isdisjoint(name)


def one_line(value: str | bool | None, most: int) -> str:
    """A value of a head as it is shown: nothing in it breaks a line, steers a terminal or is not seen."""
    text = value if isinstance(value, str) else ""
    drawn = "".join(each if each.isprintable() or each in "\u200c\u200d" else " " for each in text)
    words = " ".join(drawn.split())
    return words if len(words) <= most else words[: most - 1].rstrip() + "…"


def split(text: str) -> tuple[Head, str]:
    """The head, and the text behind it without the blank lines around it; no head, and all of the text."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    end = _end(lines)
    if not end or not _has_keys(lines[1:end]):
        return {}, text
    head: Head = {}
    for item in _items(lines[1:end]):
        if item.key in head:
            raise ValueError(f"line {item.line}: {_cut(item.key)} is there a second time")
        value = _value(item)
        if value is not None:
            head[item.key] = value
    return head, "\n".join(lines[end + 1 :]).strip()


def _end(lines: Sequence[str]) -> int:
    """Where the line is that closes the head; 0 if there is none."""
    if lines[0].rstrip() != _RULE:
        return 0
    return next((at for at, line in enumerate(lines) if at and line.rstrip() == _RULE), 0)


def _has_keys(lines: Sequence[str]) -> bool:
    """Whether this may be a head: it has a key, or nothing."""
    said = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return not said or any(map(_is_key, said))


def _is_key(line: str) -> bool:
    return ":" in line and line[0] not in " \t#:-[]{}"


class _Item(NamedTuple):
    line: int
    key: str
    value: str
    """What stands beside the key."""
    below: list[str]
    """The lines that belong to it too."""


def _items(lines: Sequence[str]) -> Iterator[_Item]:
    item: _Item | None = None
    for number, line in enumerate(lines, 2):
        if not line.strip() or line[0] in " \t":
            belongs = True
        else:  # the items of a list, and the end of what stands in brackets, need not be indented
            belongs = line[0] in "-]}" and item is not None and item.value[:1] in ("", "[", "{")
        if belongs and item is not None:
            item.below.append(line)
        elif not belongs and _is_key(line):
            if item is not None:
                yield item
            key, _, value = line.partition(":")
            value = value.strip()
            item = _Item(number, key.strip().strip("\"'"), "" if value.startswith("#") else value, [])
        elif line.strip() and line.lstrip()[0] != "#":
            raise ValueError(f"line {number}: {_cut(line.strip())} belongs to no key")
    if item is not None:
        yield item


def _value(item: _Item) -> str | bool | None:
    """None for what is empty, a map or a list."""
    block = _BLOCK.fullmatch(item.value)
    if block:
        return _block(item.below, is_folded=block[1] == ">", marks=block[2])
    first, below = item.value, item.below
    if not first:  # it may begin further down
        below = [line for line in below if not line.lstrip().startswith("#")]
        at = next((at for at, line in enumerate(below) if line.strip()), None)
        if at is None or _NESTED.match(below[at].strip()):
            return None
        first, below = below[at].strip(), below[at + 1 :]
    if first[0] in _QUOTED:
        return _quoted(first, below, item.line)
    # On one line, brackets are text: `argument-hint: [file]` is written by people who mean just that.
    if first[0] == "{" or (first[0] == "[" and any(map(str.strip, below))):
        return None
    lines = [line for line in (first, *map(str.strip, below)) if not line.startswith("#")]
    text = _folded([_COMMENT.sub("", line).rstrip() for line in lines])
    return _WORDS.get(text, text)


def _quoted(first: str, below: Sequence[str], line: int) -> str:
    whole = "\n".join([first, *(each.strip() for each in below)])
    found = _QUOTED[whole[0]].match(whole)
    if not found:
        raise ValueError(f"line {line}: the quote that begins here is never closed")
    if any(rest and not rest.startswith("#") for rest in map(str.strip, whole[found.end() :].split("\n"))):
        raise ValueError(f"line {line}: there is text behind the closing quote")
    if whole[0] == "'":
        return _LINE_BREAKS.sub(_break, found[1]).replace("''", "'")
    text = _ESCAPE.sub(_unescaped, found[1])
    # A character beyond the first 65,536 may be written as two escapes. Half of one is no character.
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _unescaped(found: re.Match[str]) -> str:
    escape = found[1]
    if escape is None:
        return _break(found)
    if len(escape) == 1:
        return _ESCAPED.get(escape, found[0])  # one that does not exist is text: "C:\dir"
    code = int(escape[1:], 16)
    return chr(code) if code <= 0x10FFFF else "\N{REPLACEMENT CHARACTER}"


def _break(found: re.Match[str]) -> str:
    """A line break is a blank; each empty line is one line break."""
    return "\n" * (len(found[0]) - 1) or " "


def _block(below: Sequence[str], *, is_folded: bool, marks: str) -> str:
    lines = [line if line.strip() else "" for line in below]
    after = 0
    while lines and not lines[-1]:
        lines.pop()
        after += 1
    first = next((line for line in lines if line), "")
    indent = next((int(mark) for mark in marks if mark.isdigit()), len(first) - len(first.lstrip()))
    lines = [line.lstrip() if line[:indent].strip() else line[indent:] for line in lines]
    text = _folded(lines) if is_folded else "\n".join(lines)
    if "-" in marks:
        return text
    return text + "\n" * bool(text) + "\n" * (after if "+" in marks else 0)


def _folded(lines: Sequence[str]) -> str:
    """Lines as one, but for the empty ones between them, and for those that are indented."""
    text, last, breaks = "", None, 0
    for line in lines:
        if line and last is not None:
            is_kept = last[0] in " \t" or line[0] in " \t"
            text += "\n" * (breaks + 1) if is_kept else "\n" * breaks or " "
        elif line:
            text = "\n" * breaks
        text += line
        last, breaks = (line, 0) if line else (last, breaks + 1)
    return text


def _cut(text: str) -> str:
    return repr(text if len(text) <= _MOST_NAMED else text[: _MOST_NAMED - 1] + "…")
