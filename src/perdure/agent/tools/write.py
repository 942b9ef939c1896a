"""`write`: a whole file, new or in place of what was there; the directories above it are made."""

from __future__ import annotations

import os
import threading
from typing import Annotated

from msgspec import Meta, Struct

from perdure.agent.tools import AgentToolResult, Tool, ToolContext
from perdure.agent.tools.output import count_lines
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

_SHOWN_AS_DIFF = 2**20
_CHUNK = 2**20


class Write(Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="The file, relative to the working directory or absolute.")]
    content: Annotated[str, Meta(description="All that the file is to hold.")]


@telling
async def write(args: Write, ctx: ToolContext) -> AgentToolResult:
    target = place(ctx, args.path)
    try:
        data = args.content.encode()
    except UnicodeEncodeError:
        raise Refused("The content has lone surrogates, which are not text: leave them out.") from None
    async with turn(target):
        return await in_thread(_write, target, data)


WRITE = Tool(
    "write",
    "Write a whole file: it is made, with the directories above it, or replaced. In place of a file whose "
    "lines all end with CRLF, content without any CRLF gets them. To change a part of a file, use edit.",
    Write,
    write,
)


def _write(_stop: threading.Event, target: Place, data: bytes) -> AgentToolResult:
    old = _old(target)
    # A model that was shown a file has not seen its carriage returns.
    keeps_crlf = old is not None and b"\n" in data and b"\r\n" not in data and _has_only_crlf(target)
    if keeps_crlf:
        data = data.replace(b"\n", b"\r\n")
    replace(target, data)
    content = data.decode()
    lines = count_lines(content)
    amount = f"{len(data):,} bytes ({lines:,} line{'s' * (lines != 1)})"
    what = "a new file" if old is None else "replacing what was there"
    note = " Its lines end with CRLF, as they did before." if keeps_crlf else ""
    details: dict[str, object] = {"isNew": old is None}
    if old is not None and _is_text(old):
        details |= changes(old.decode(), content, target.shown)
    return AgentToolResult(f"Wrote {amount} to {target.shown}, {what}.{note}", details)


def _old(target: Place) -> bytes | None:
    """The beginning of what is there: enough for a diff, or to know that there will be none."""
    if not os.path.exists(target.path):
        return None
    with open_regular(target) as file:
        return file.read(_SHOWN_AS_DIFF + 1) or b""


def _has_only_crlf(target: Place) -> bool:
    """True if every line break of the file is CRLF and there is one: read in pieces, as far as needed."""
    has_one = False
    end = b""
    with open_regular(target) as file:
        if is_binary(filled(file, SNIFFED)):
            return False
        file.seek(0)
        while piece := file.read(_CHUNK):
            breaks = piece.count(b"\n")
            # One at the start of a piece has its other half at the end of the piece before.
            if breaks != (end + piece).count(b"\r\n"):
                return False
            has_one = has_one or breaks > 0
            end = piece[-1:]
    return has_one


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return len(data) <= _SHOWN_AS_DIFF and not is_binary(data)
