"""`grep`: lines that match a pattern, in the files below a directory or in one file.

They come in the order of their paths, so the same question gets the same answer, and the search ends as soon
as there is as much as is shown.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from perdure.agent.tools import AgentToolResult, Tool, ToolContext
from perdure.agent.tools.output import BYTES, LINES, head
from perdure.agent.tools.ripgrep import Enough, Line, glob_of, lines, locate
from perdure.agent.tools.walk import Search
from perdure.agent.tools.workspace import (
    SNIFFED,
    Place,
    Refused,
    filled,
    in_thread,
    is_binary,
    open_regular,
    place,
    readable,
    status,
    telling,
)

_COLUMNS = 500
_MOST_CONTEXT = 100


class Grep(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    pattern: Annotated[str, Meta(description="A regular expression, or text if `literal` is true.")]
    path: Annotated[str, Meta(description="Where to look: a directory or a file. Default: `.`")] = "."
    glob: (
        Annotated[str, Meta(description="Only in files like this, such as `*.py` or `src/**/*.{ts,tsx}`.")]
        | UnsetType
    ) = UNSET
    ignore_case: Annotated[bool, Meta(description="Take capital and small letters for the same.")] = False
    literal: Annotated[bool, Meta(description="Look for the pattern as it is written.")] = False
    context: Annotated[int, Meta(description="Lines to show before and after each match.", ge=0)] = 0
    limit: Annotated[int, Meta(description="How many matches to show. Default: 100", ge=1)] = 100


@telling
async def grep(args: Grep, ctx: ToolContext) -> AgentToolResult:
    target = place(ctx, args.path)
    glob = None if args.glob is UNSET else glob_of(args.glob)
    directory, only = await in_thread(_where, target)
    if glob is not None and not only:
        (directory, _), glob = await in_thread(locate, glob.text, target, ctx)
    found = _Found(args.limit, min(args.context, _MOST_CONTEXT))
    # One more than is shown, to know whether there are more.
    search = Search(args.pattern, args.literal, args.ignore_case, found.context, min(args.limit + 1, 2**31))
    complete = await lines(directory, search, ctx, found.take, only=only, glob=glob)
    return _result(found, directory, ctx, complete=complete)


GREP = Tool(
    "grep",
    "Search files for a pattern, line by line. Shows `path:line: text`, and `path-line- text` for context. "
    "Hidden files are searched; those in .gitignore and binary ones are not. Lines are cut at "
    f"{_COLUMNS} characters.",
    Grep,
    grep,
    is_read_only=True,
)


def _where(_stop: threading.Event, target: Place) -> tuple[str, str]:
    """The directory, and the one file in it if it is about one."""
    if stat.S_ISDIR(status(target).st_mode):
        return target.path, ""
    with open_regular(target) as file:
        if is_binary(filled(file, SNIFFED)):
            raise Refused(f"{target.shown} is a binary file: search it with bash (grep -a, strings).")
    directory, name = os.path.split(target.path)
    return directory, name


class _Found:
    def __init__(self, limit: int, context: int) -> None:
        self.limit = limit
        self.context = context
        self.lines: list[Line] = []
        self.matches = 0
        self.more = False
        self._size = 0

    def take(self, line: Line) -> None:
        if line.matches and self.matches == self.limit:
            self.more = True
            self._drop_context_of_the_next()
            raise Enough
        self.matches += line.matches
        self.lines.append(line)
        self._size += min(len(line.text), _COLUMNS) + len(line.path)
        if self._size > BYTES or len(self.lines) > LINES:  # what is shown is longer than this
            raise Enough

    def _drop_context_of_the_next(self) -> None:
        last = next(line for line in reversed(self.lines) if line.matches)
        while self.lines[-1].path != last.path or self.lines[-1].number > last.number + self.context:
            self.lines.pop()


def _result(found: _Found, directory: str, ctx: ToolContext, *, complete: bool) -> AgentToolResult:
    unread = [] if complete else ["Some files could not be read."]
    if not found.lines:
        return AgentToolResult(" ".join(["No matches found.", *unread]))
    shown = head("\n".join(_formatted(found, directory, ctx)))
    notes = []
    if shown.truncated:
        notes.append("There is more than can be shown. Use a narrower pattern, path or glob.")
    elif found.more:
        again = f"Use limit={found.limit * 2}, or a narrower pattern."
        notes.append(f"The first {found.limit} matches; there are more. {again}")
    if any(len(line.text) > _COLUMNS for line in found.lines):
        notes.append(f"Lines with … are cut at {_COLUMNS} characters: use read or bash to see all of them.")
    notes += unread
    text = "\n\n".join([shown.text.removesuffix("\n"), *(f"[{note}]" for note in notes)])
    return AgentToolResult(text, {"matchLimitReached": found.limit} if found.more else UNSET)


def _formatted(found: _Found, directory: str, ctx: ToolContext) -> Iterator[str]:
    before: Line | None = None
    for line in found.lines:
        if found.context and before and (line.path, line.number) != (before.path, before.number + 1):
            yield "--"
        before = line
        path = readable(os.path.join(directory, line.path), ctx)
        text = line.text if len(line.text) <= _COLUMNS else f"{line.text[:_COLUMNS]}…"
        yield f"{path}:{line.number}: {text}" if line.matches else f"{path}-{line.number}- {text}"
