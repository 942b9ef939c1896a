"""`find`: files by a glob, and the directories that files are in.

An empty directory, or one in which everything is ignored, is not found: git does not know it either.
"""

from __future__ import annotations

import os
from typing import Annotated

from msgspec import UNSET, Meta, Struct

from perdure.agent.tools import AgentToolResult, Tool, ToolContext
from perdure.agent.tools.output import BYTES, LINES, head
from perdure.agent.tools.ripgrep import Enough, files, locate
from perdure.agent.tools.walk import Glob
from perdure.agent.tools.workspace import Place, in_thread, place, readable, telling


class Find(Struct, frozen=True, forbid_unknown_fields=True):
    pattern: Annotated[
        str,
        Meta(
            description="A glob: `*.py` at any depth; with a slash, from `path` on: `src/**/*.{js,ts}`. "
            "It may name a place elsewhere: `/etc/*.conf`."
        ),
    ]
    path: Annotated[str, Meta(description="The directory to look in. Default: `.`")] = "."
    limit: Annotated[int, Meta(description="How many to show. Default: 1000", ge=1)] = 1000


@telling
async def find(args: Find, ctx: ToolContext) -> AgentToolResult:
    target, glob = await in_thread(locate, args.pattern, place(ctx, args.path), ctx)
    found = _Found(glob, args.limit)
    complete = await files(target.path, ctx, found.take)
    return _result(found, target, ctx, complete=complete)


FIND = Tool(
    "find",
    "Find files and directories by a glob. Directories have a `/` behind them. Hidden files are found; what "
    ".gitignore leaves out, empty directories and symbolic links are not.",
    Find,
    find,
    is_read_only=True,
)


class _Found:
    def __init__(self, glob: Glob, limit: int) -> None:
        self.paths: list[str] = []
        self.more = False
        self._glob = glob
        self.limit = limit
        self._above: list[str] = []
        self._size = 0

    def take(self, path: str) -> None:
        *above, _ = path.split("/")
        if above != self._above:
            for depth in range(1, len(above) + 1):
                if above[:depth] != self._above[:depth]:
                    self._match("/".join(above[:depth]), is_dir=True)
            self._above = above
        self._match(path, is_dir=False)

    def _match(self, path: str, *, is_dir: bool) -> None:
        if self._glob.matches(path, is_dir=is_dir):
            if len(self.paths) == self.limit:
                self.more = True
                raise Enough
            self.paths.append(path + "/" * is_dir)
            self._size += len(path)
            if self._size > BYTES or len(self.paths) > LINES:
                raise Enough


def _result(found: _Found, target: Place, ctx: ToolContext, *, complete: bool) -> AgentToolResult:
    unread = [] if complete else ["Some directories could not be read."]
    if not found.paths:
        return AgentToolResult(" ".join(["No files found.", *unread]))
    paths = (os.path.join(target.path, path) for path in found.paths)
    shown = head("\n".join(readable(path, ctx) for path in paths))
    notes = []
    if shown.truncated:
        notes.append(f"{shown.shown_lines:,} are shown; there are more. Use a narrower pattern or path.")
    elif found.more:
        notes.append(
            f"The first {found.limit}; there are more. Use limit={found.limit * 2}, or a narrower pattern."
        )
    text = "\n\n".join([shown.text.removesuffix("\n"), *(f"[{note}]" for note in (*notes, *unread))])
    return AgentToolResult(text, {"resultLimitReached": found.limit} if found.more else UNSET)
