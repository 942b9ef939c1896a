"""`ls`: the names in a directory, and what each of them is."""

from __future__ import annotations

import heapq
import os
import stat
import threading
from collections.abc import Iterator
from typing import Annotated

from msgspec import UNSET, Meta, Struct

from perdure.agent.tools import AgentToolResult, Tool, ToolContext
from perdure.agent.tools.output import head
from perdure.agent.tools.workspace import (
    Place,
    Refused,
    in_thread,
    place,
    printable,
    refusal,
    status,
    telling,
)


class Ls(Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="The directory. Default: `.`")] = "."
    limit: Annotated[int, Meta(description="How many names to show. Default: 500", ge=1)] = 500


@telling
async def ls(args: Ls, ctx: ToolContext) -> AgentToolResult:
    return await in_thread(_ls, place(ctx, args.path), args.limit)


LS = Tool(
    "ls",
    "List a directory in alphabetical order, dot files too. Behind a name: `/` a directory, `@ -> target` a "
    "symbolic link, `|` a FIFO, `=` a socket, `%` a device.",
    Ls,
    ls,
    is_read_only=True,
)


def _ls(stop: threading.Event, target: Place, limit: int) -> AgentToolResult:
    if not stat.S_ISDIR(status(target).st_mode):
        raise Refused(f"{target.shown} is not a directory: use read for files.")
    total = 0

    def entries() -> Iterator[os.DirEntry[str]]:
        nonlocal total
        with os.scandir(target.path) as found:
            for entry in found:
                total += 1
                yield entry
                if stop.is_set():
                    return

    try:
        chosen = heapq.nsmallest(limit, entries(), key=lambda entry: (entry.name.casefold(), entry.name))
    except OSError as error:
        raise refusal(error, target) from None
    if not chosen:
        return AgentToolResult("(empty directory)")
    shown = head("\n".join(map(_marked, chosen)))
    text = shown.text.removesuffix("\n")
    if shown.shown_lines == total:
        return AgentToolResult(text)
    more = f"Use limit={limit * 2}, or find." if not shown.truncated else "Use find with a pattern."
    note = f"[{shown.shown_lines:,} of {total:,} are shown. {more}]"
    return AgentToolResult(f"{text}\n\n{note}", {"entryLimitReached": limit} if total > limit else UNSET)


def _marked(entry: os.DirEntry[str]) -> str:
    name = printable(entry.name)
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            return f"{name}@ -> {_target(entry)}"
    except OSError:  # it went away, or nothing may be known of it
        return name
    marks = (
        (stat.S_ISDIR, "/"),
        (stat.S_ISFIFO, "|"),
        (stat.S_ISSOCK, "="),
        (stat.S_ISCHR, "%"),
        (stat.S_ISBLK, "%"),
    )
    return name + next((mark for is_one, mark in marks if is_one(mode)), "")


def _target(link: os.DirEntry[str]) -> str:
    target = printable(os.readlink(link.path))
    try:
        return target.rstrip("/") + "/" if stat.S_ISDIR(link.stat().st_mode) else target
    except OSError:
        return f"{target} (which does not exist)"
