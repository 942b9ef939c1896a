"""Prompt templates: Markdown files that are commands.

`prompts/review.md` is `/review`, and what it says, with the words behind the command in their places, is the
prompt.

The files, their heads and their places are those of the original pi. A file that cannot be used is left out
with one notice and stops nothing else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from perdure import config
from perdure.agent import places
from perdure.agent.frontmatter import can_be_typed, named, one_line, read
from perdure.agent.reading import Reader, text_of

if TYPE_CHECKING:
    from perdure.agent.extensions import Api, CommandContext
    from perdure.agent.prompt import Notice

MOST = 64 * 1024
"""Bytes of one file."""
_DESCRIPTION = 1024
_FIRST_LINE = 60

_NONE: Mapping[str, Reader] = {}

_PLAIN = re.compile(r"\$(?P<plain>ARGUMENTS|@|[0-9]+)")
_BRACED = re.compile(
    r"\$\{(?P<chosen>[0-9]+|ARGUMENTS|@):-(?P<default>[^}]*)\}"
    rf"|\$\{{@:(?P<start>[0-9]+)(?::(?P<count>[0-9]+))?\}}|{_PLAIN.pattern}"
)
_PIECE = re.compile(
    r"""(?P<blanks>\s++)|(?P<bare>[^\s"']++)|"(?P<double>[^"]*+)(?:"|\Z)|'(?P<single>[^']*+)(?:'|\Z)"""
)


class Template(NamedTuple):
    name: str
    """What is typed behind the slash."""
    description: str
    hint: str
    """Which arguments it takes, in its author's words."""
    text: str
    path: str


# --- the files ----------------------------------------------------------------------------------------


def find(
    folders: Iterable[str], paths: Iterable[str], notice: Notice, readers: Mapping[str, Reader] = _NONE
) -> list[Template]:
    """The templates in `folders`, which need not be there, then those the user named: files, or folders of
    them. Of two with one name the first counts. `readers` are for those folders that the user did not
    name."""
    found: dict[str, Template] = {}
    for path in dict.fromkeys(_files(folders, paths, notice)):
        try:
            template = _template(path, readers.get(os.path.dirname(path), text_of))
        except ValueError as error:
            notice(f"{named(path)} is left out: {error}")
            continue
        first = found.setdefault(template.name, template)
        if first is not template and config.real_path(first.path) != config.real_path(path):
            notice(f"{named(path)} is left out: /{template.name} is already {named(first.path)}")
    return list(found.values())


def _files(folders: Iterable[str], paths: Iterable[str], notice: Notice) -> Iterator[str]:
    for folder in map(os.path.abspath, folders):
        try:
            yield from places.templates_in(folder)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError as error:
            notice(f"{named(folder)} is left out: {error.strerror or error}")
    for path in map(os.path.abspath, paths):
        if not config.checked_path(path):
            notice(f"{named(path)} is left out: no file can have that name")
            continue
        try:
            yield from places.templates_in(path) if os.path.isdir(path) else [path]
        except OSError as error:
            notice(f"{named(path)} is left out: {error.strerror or error}")


def _template(path: str, text: Reader) -> Template:
    file = os.path.basename(path)
    name = file.removesuffix(places.TEMPLATE)
    head, body, is_cut = read(path, MOST, text)
    if not file.endswith(places.TEMPLATE):
        raise ValueError(f"its name does not end with {places.TEMPLATE}")
    if not can_be_typed(name):
        raise ValueError("its name cannot be typed as a command")
    if is_cut:
        raise ValueError(f"it is larger than {MOST // 1024} KB")
    if not body.strip():
        raise ValueError("there is no text in it")
    description = one_line(head.get("description"), _DESCRIPTION)
    first_line = body.lstrip().partition("\n")[0]
    return Template(
        name,
        description or one_line(first_line, _FIRST_LINE),
        one_line(head.get("argument-hint"), _FIRST_LINE),
        body,
        path,
    )


# --- the prompt ---------------------------------------------------------------------------------------


def fill(text: str, arguments: str) -> str:
    """The text with the arguments in their places. What they say is never taken for a place itself."""
    words = _words(arguments)

    def said(found: re.Match[str]) -> str:
        place = found.groupdict()
        if start := place.get("start"):
            at = max(0, _number(start) - 1)
            count = place["count"]
            return " ".join(words[at:] if count is None else words[at : at + _number(count)])
        which = place.get("chosen") or place["plain"]
        if which in ("@", "ARGUMENTS"):
            value = " ".join(words)
        else:
            at = _number(which)
            value = words[at - 1] if 0 < at <= len(words) else ""
        return value or place.get("default") or ""

    # Behind the last brace none is looked for: each `${1:-` there would be followed to the end of the text.
    end = text.rfind("}") + 1
    return _BRACED.sub(said, text[:end]) + _PLAIN.sub(said, text[end:])


def _words(arguments: str) -> list[str]:
    """As a shell would split them, with quotes but no escapes; one that is never closed runs to the end."""
    words: list[list[str]] = [[]]
    for piece in _PIECE.finditer(arguments):
        if piece.lastgroup == "blanks":
            words.append([])
        else:
            words[-1].append(piece[piece.lastgroup or 0])
    return list(filter(None, map("".join, words)))


def _number(digits: str) -> int:
    """However many they are: no list is as long as ten digits say."""
    return int(digits.lstrip("0")[:10] or "0")


def register(api: Api, templates: Iterable[Template]) -> None:
    for template in templates:
        shown = " ".join(filter(None, (template.hint, template.description)))
        api.command(template.name, _filling(template.text), shown)


def _filling(text: str) -> Callable[[str, CommandContext], str]:
    return lambda arguments, _: fill(text, arguments)
