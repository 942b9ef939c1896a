"""Files as tools meet them: any path a model can write, and whatever lies there.

Whatever goes wrong is told to the model in a sentence that says what to do next. Nothing but a regular file
is opened, because a FIFO waits for ever and a device may have no end. Calls on one file take turns, in the
order they were made and whatever path led there: agents in one process work side by side, and two edits of
a file would lose one.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import os
import stat
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from io import FileIO
from itertools import islice
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from perdure import config
from perdure.agent.tools import AgentToolResult, ToolContext

SNIFFED = 8192
"""Bytes from which the kind of a file is told."""
_NAMES_COMPARED = 10_000
_LONGEST_NAME = 255

Run = Callable[[Any, ToolContext], Awaitable[AgentToolResult]]
P = ParamSpec("P")
T = TypeVar("T")


class Refused(Exception):
    """Why a call did nothing, in words for the model that made it."""


def telling(run: Run) -> Run:
    """What stops a tool, as a result the model reads."""

    @functools.wraps(run)
    async def told(args: Any, ctx: ToolContext) -> AgentToolResult:
        try:
            return await run(args, ctx)
        except Refused as refusal:
            return AgentToolResult(str(refusal), is_error=True)
        except OSError as error:
            return AgentToolResult(f"{error.strerror or error}.", is_error=True)

    return told


async def in_thread(
    work: Callable[Concatenate[threading.Event, P], T], *args: P.args, **options: P.kwargs
) -> T:
    """Blocking work, told to stop when the call is cancelled and waited for: nothing goes on unseen."""
    stop = threading.Event()
    task = asyncio.ensure_future(asyncio.to_thread(work, stop, *args, **options))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.gather(task, return_exceptions=True)
        raise


_turns: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()


@contextlib.asynccontextmanager
async def turn(place: Place) -> AsyncIterator[None]:
    """One call at a time on what lies there."""
    file = config.real_path(place.path)
    lock = _turns.setdefault((id(asyncio.get_running_loop()), file), asyncio.Lock())
    async with lock:
        yield


# --- paths --------------------------------------------------------------------------------------


class Place(NamedTuple):
    path: str
    shown: str
    """As the model called it, without an `@` that is no part of it."""


def place(ctx: ToolContext, text: str) -> Place:
    """Where a path of the model's leads."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise Refused("The path has characters that no file name can have.") from None
    if "\0" in text:
        raise Refused("The path has a NUL character, which no file name can have.")
    found = Place(ctx.path(text), printable(ctx.without_at(text)) or ".")
    if len(os.fsencode(found.path)) > config.LONGEST_PATH:
        raise refusal(OSError(errno.ENAMETOOLONG, ""), found)
    return found


def readable(path: str, ctx: ToolContext) -> str:
    """A path as the other tools take it: from the working directory if it lies there, else absolute."""
    if path == ctx.cwd:
        return "."
    inside = os.path.join(ctx.cwd, "")
    return printable(path.removeprefix(inside).replace(os.sep, "/"))


def printable(name: str) -> str:
    """A file name on one line, as text: bytes that are none, and control characters, as escapes."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(c if c >= " " and c != "\x7f" else c.encode("unicode_escape").decode() for c in text)


def status(place: Place) -> os.stat_result:
    try:
        return os.stat(place.path)
    except OSError as error:
        raise refusal(error, place) from None


def open_regular(place: Place) -> FileIO:
    """The file, to read, unbuffered. What is no regular file is not even opened."""
    _must_be_regular(status(place), place.shown)
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC  # by now it may be a FIFO
    try:
        file = FileIO(place.path, opener=lambda name, _: os.open(name, flags))
    except OSError as error:
        raise refusal(error, place) from None
    try:
        _must_be_regular(os.fstat(file.fileno()), place.shown)
    except BaseException:
        file.close()
        raise
    return file


def filled(file: FileIO, size: int) -> bytes:
    """So many bytes, or all there are: a read may return fewer than are there."""
    data = bytearray()
    while len(data) < size and (piece := file.read(size - len(data))):
        data += piece
    return bytes(data)


def _must_be_regular(found: os.stat_result, shown: str) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise Refused(f"{shown} is a directory: use ls.")
    if not stat.S_ISREG(found.st_mode):
        raise Refused(f"{shown} is {special(found.st_mode)}, not a file: if you need it, use bash.")


def special(mode: int) -> str:
    kinds = (
        (stat.S_ISFIFO, "a FIFO"),
        (stat.S_ISSOCK, "a socket"),
        (stat.S_ISCHR, "a character device"),
        (stat.S_ISBLK, "a block device"),
    )
    return next((kind for is_one, kind in kinds if is_one(mode)), "something special")


def is_binary(start: bytes) -> bool:
    """Whether a file that starts like this is no text."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return False  # UTF-16
    return b"\0" in start


# --- what went wrong ----------------------------------------------------------------------------


def refusal(error: OSError, place: Place) -> Refused:
    shown = place.shown
    match error.errno:
        case errno.ENOENT:
            return Refused(f"{shown} does not exist.{_nearest(place)}")
        case errno.ENOTDIR:
            return Refused(f"{shown} does not exist: a part of the path is a file, not a directory.")
        case errno.EISDIR:
            return Refused(f"{shown} is a directory: use ls.")
        case errno.EACCES | errno.EPERM:
            return Refused(f"No permission: {shown} may not be opened, or a directory above it.")
        case errno.ELOOP:
            return Refused(f"{shown} is a symbolic link that leads back to itself.")
        case errno.ENAMETOOLONG:
            return Refused(f"The path is too long: {_length(place.path)}.")
    return Refused(f"{shown}: {error.strerror or error}.")


def _length(path: str) -> str:
    longest = max(len(os.fsencode(name)) for name in path.split(os.sep))
    if longest > _LONGEST_NAME:
        return f"a name in it has {longest:,} bytes, and the file system allows {_LONGEST_NAME}"
    return f"it has {len(os.fsencode(path)):,} bytes, and the system allows {config.LONGEST_PATH:,}"


def _nearest(place: Place) -> str:
    """What may have been meant, from the names where the path leaves what there is."""
    path, shown = place
    missing = path
    while not os.path.isdir(above := os.path.dirname(missing)) and above != missing:
        missing = above
    name, rest = os.path.basename(missing), path[len(missing) :]
    if os.path.islink(missing):
        return f" It is a symbolic link to {printable(os.readlink(missing))}, which does not exist."
    try:
        with os.scandir(above) as entries:
            names = {entry.name.casefold(): entry.name for entry in islice(entries, _NAMES_COMPARED)}
    except OSError:
        return ""
    from difflib import get_close_matches

    near = [os.path.join(above, names[like]) for like in get_close_matches(name.casefold(), names, n=3)]
    meant = [each + rest if os.path.lexists(each + rest) else each for each in near]
    end = printable(name + rest)
    start = shown.removesuffix(end) if shown.endswith(end) else printable(os.path.join(above, ""))
    where = start or "the working directory"
    if not meant:
        missing_there = f" There is no {printable(name)} in {where}." if rest else ""
        return f"{missing_there} Use ls or find."
    said = [start + printable(os.path.relpath(each, above)) for each in meant]
    return f" Did you mean {' or '.join(said)}?"
