"""`edit`: the first place where a text stands exactly so, replaced by another text.

Work is done on bytes, so whatever is not replaced stays as it was: bytes that are no text, a byte order mark,
a last line without an end. Only line ends are not compared, since a model cannot see them; new lines end as
those around them do. Several replacements are made one after the other, or none of them.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import threading
import time
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct

from perdure.agent.tools import AgentToolResult, Tool, ToolContext, respell
from perdure.agent.tools.replacing import changes, replace
from perdure.agent.tools.workspace import (
    SNIFFED,
    Place,
    Refused,
    filled,
    in_thread,
    is_binary,
    open_regular,
    place,
    telling,
    turn,
)

_LARGEST = 128 * 2**20
_PLACES_NAMED = 5
_UTF_16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}

_LINES_COMPARED, _COLUMNS_COMPARED, _SECONDS_COMPARED = 100_000, 300, 0.5
_LINES_SHOWN, _COLUMNS_SHOWN = 20, 200
_LEAST_ALIKE = 0.5
_LOOK_ALIKE = {ord(quote): "'" for quote in "\u2018\u2019\u201a\u201b"}
_LOOK_ALIKE |= {ord(quote): '"' for quote in "\u201c\u201d\u201e\u201f"}
_LOOK_ALIKE |= dict.fromkeys([*range(0x2010, 0x2016), 0x2212], "-")


class Replacement(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    old_text: Annotated[str, Meta(description="The text to find, exactly as it is in the file.")]
    new_text: Annotated[str, Meta(description="The text to put in its place.")]


class Edit(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    path: Annotated[str, Meta(description="The file, relative to the working directory or absolute.")]
    old_text: Annotated[
        str,
        Meta(description="The text to find, exactly as it is in the file, with enough of it to be unique."),
    ]
    new_text: Annotated[str, Meta(description="The text to put in its place.")]
    edits: Annotated[
        tuple[Replacement, ...],
        Meta(description="More replacements in the same file, made after this one. All are made, or none."),
    ] = ()


def as_meant(given: dict[str, Any]) -> dict[str, Any]:
    """`edits` alone, also as JSON in a string."""
    edits = given.get("edits")
    if isinstance(edits, str):
        try:
            edits = json.loads(edits)
        except (ValueError, RecursionError):
            return given
    if isinstance(edits, list):
        edits = respell(edits, Replacement)
        both = {"oldText", "newText"}
        if edits and not given.keys() & both and isinstance(edits[0], dict) and edits[0].keys() == both:
            given |= edits.pop(0)
        given["edits"] = edits
    return given


@telling
async def edit(args: Edit, ctx: ToolContext) -> AgentToolResult:
    target = place(ctx, args.path)
    async with turn(target):
        return await in_thread(_edit, target, (Replacement(args.old_text, args.new_text), *args.edits))


EDIT = Tool(
    "edit",
    "Change a file: the first place where `oldText` stands exactly so, white space included, becomes "
    "`newText`. Read the file first. To add text, give a line as `oldText`, and as `newText` that line with "
    "the addition.",
    Edit,
    edit,
    as_meant,
)


class _Source(NamedTuple):
    data: bytes
    """In UTF-8, or bytes that are mostly that."""
    encoding: str
    """What the file is in, if that is something else."""
    status: os.stat_result


def _edit(_stop: threading.Event, target: Place, edits: Sequence[Replacement]) -> AgentToolResult:
    source = _read(target)
    data = source.data
    notes = []
    for number, each in enumerate(edits, 1):
        which = f"Edit {number} of {len(edits)}: " if len(edits) > 1 else ""
        try:
            data, note = replaced(data, each.old_text, each.new_text)
        except Refused as refusal:
            nothing = "\nNone of the edits was made." if which else ""
            raise Refused(f"{target.shown} was not edited. {which}{refusal}{nothing}") from None
        notes.append(f"{which}{note}")
    replace(target, _encoded(data, source.encoding), unless_changed=source.status)
    details = changes(source.data.decode("utf-8", "replace"), data.decode("utf-8", "replace"), target.shown)
    return AgentToolResult("\n".join([f"Edited {target.shown}.", *notes]), details)


def _read(target: Place) -> _Source:
    with open_regular(target) as file:
        status = os.fstat(file.fileno())
        if status.st_size > _LARGEST:
            raise Refused(
                f"{target.shown} has {status.st_size:,} bytes, too many for edit: use sed with bash."
            )
        try:
            data = filled(file, _LARGEST)
        except OSError as error:
            raise Refused(f"{target.shown} cannot be read: {error.strerror or error}.") from None
    if is_binary(data[:SNIFFED]):
        raise Refused(f"{target.shown} is a binary file, and edit is for text.")
    encoding = _UTF_16.get(data[:2], "")
    if encoding:
        try:
            data = data.decode(encoding, "surrogatepass").encode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise Refused(f"{target.shown} begins like UTF-16 and is none: change it with bash.") from None
    return _Source(data, encoding, status)


def _encoded(data: bytes, encoding: str) -> bytes:
    if not encoding:
        return data
    return data.decode("utf-8", "surrogatepass").encode(encoding, "surrogatepass")


# --- one replacement ----------------------------------------------------------------------------


def replaced(data: bytes, old_text: str, new_text: str) -> tuple[bytes, str]:
    """The data with the first occurrence replaced, and what to say about it."""
    old, new = _lines_alike(old_text), _lines_alike(new_text)
    if not old:
        raise Refused("oldText is empty: give the text to replace, or use write for a whole file.")
    if old == new:
        raise Refused("oldText and newText are the same: there is nothing to change.")
    places = re.finditer(re.escape(old).replace(b"\\\n", b"\r?\n"), data)
    found = next(places, None)
    if found is None:
        raise Refused(f"oldText is not in the file. {_nearest(data, old.decode())}")
    start, end = found.span()
    first, last = _line(data, start), _line(data, end - 1)
    at = f"line {first:,}" if first == last else f"lines {first:,}-{last:,}"
    note = f"Replaced {at}."
    if others := [place.start() for place in places]:
        lines = ", ".join(f"{_line(data, other):,}" for other in others[:_PLACES_NAMED])
        more = ", …" if len(others) > _PLACES_NAMED else ""
        note = (
            f"Replaced the first of {len(others) + 1:,} occurrences, at {at}; the others are at line "
            f"{lines}{more}. To change another one, give more of the text around it."
        )
    return data[:start] + new.replace(b"\n", _line_end(data, start)) + data[end:], note


def _lines_alike(text: str) -> bytes:
    try:
        return text.replace("\r\n", "\n").encode()
    except UnicodeEncodeError:
        raise Refused("The texts have lone surrogates, which are not text: leave them out.") from None


def _line_end(data: bytes, start: int) -> bytes:
    """How lines end there: the first at or after the place, or else the last before it."""
    end = data.find(b"\n", start)
    if end < 0:
        end = data.rfind(b"\n", 0, start)
    return b"\r\n" if end > 0 and data[end - 1 : end] == b"\r" else b"\n"


def _line(data: bytes, at: int) -> int:
    return data.count(b"\n", 0, at) + 1


# --- what was meant, perhaps --------------------------------------------------------------------


def _nearest(data: bytes, old: str) -> str:
    lines = [line.removesuffix("\r") for line in data.decode("utf-8", "replace").split("\n", _LINES_COMPARED)]
    wanted = old.strip("\n").split("\n")
    folded, sought = [_folded(line) for line in lines[:_LINES_COMPARED]], [_folded(line) for line in wanted]
    if not any(sought):
        return "Give some text with the white space."
    if (at := _find(folded, sought)) is not None:
        hint = "It differs only in white space, quotes or dashes: copy it exactly."
    elif (at := _most_alike(folded, sought)) is not None:
        hint = "Read the file again, and copy the text exactly, white space included."
    else:
        return "Nothing in it is like that: read it again, or look for the text with grep."
    shown = range(at, min(at + min(len(wanted), _LINES_SHOWN), len(lines)))
    text = "\n".join(f"{number + 1}: {lines[number][:_COLUMNS_SHOWN]}" for number in shown)
    return f"The nearest there is, with line numbers:\n{text}\n{hint}"


def _folded(line: str) -> str:
    """What two lines have in common that a reader takes for the same."""
    return "".join(line[:_COLUMNS_COMPARED].translate(_LOOK_ALIKE).split())


def _find(lines: Sequence[str], sought: Sequence[str]) -> int | None:
    """Where lines that were folded stand; the first may begin, and the last end, inside a line."""
    first, last = sought[0], sought[-1]
    if len(sought) == 1:
        return next((at for at, line in enumerate(lines) if first in line), None)
    for at in range(len(lines) - len(sought) + 1):
        if (
            lines[at].endswith(first)
            and lines[at + len(sought) - 1].startswith(last)
            and lines[at + 1 : at + len(sought) - 1] == sought[1:-1]
        ):
            return at
    return None


def _most_alike(lines: Sequence[str], sought: Sequence[str]) -> int | None:
    """Where the lines may begin, by the one line that is most like the longest of them; in bounded time."""
    from difflib import SequenceMatcher

    longest = max(range(len(sought)), key=lambda at: len(sought[at]))
    matcher = SequenceMatcher(None, "", sought[longest], autojunk=False)
    until = time.monotonic() + _SECONDS_COMPARED
    best, found = _LEAST_ALIKE, None
    for at, line in enumerate(lines):
        matcher.set_seq1(line)
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
            ratio = matcher.ratio()
            if ratio > best:
                best, found = ratio, at
        if time.monotonic() > until:
            break
    return None if found is None else max(found - longest, 0)
