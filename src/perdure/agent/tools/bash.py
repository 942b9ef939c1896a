"""The bash tool: a command line, run in a shell of its own without terminal or input.

The model reads the end of what the command wrote; all of it is in a file, which the result names, as soon as
there is more than that. Memory is bounded by what is shown, whatever the command writes.

A call that fails, is killed or takes too long is a result with `is_error` and the output so far. One that is
cancelled has no result, since CancelledError goes through. Before it does, when the last process has ended,
`ctx.update` is given the output so far: whoever cancels and wants it keeps the last update.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Annotated, BinaryIO

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from perdure.agent.tools import AgentToolResult, Tool, ToolContext
from perdure.agent.tools.output import BYTES, LINES, Bounded, tail
from perdure.agent.tools.processes import Ended, run

_BETWEEN_UPDATES = 0.1
_MOST_LOGGED = 512 * 1024 * 1024  # the folder for temporary files is memory on many machines


class Bash(Struct, frozen=True, forbid_unknown_fields=True):
    command: Annotated[str, Meta(description="Command line for bash")]
    timeout: Annotated[float | UnsetType, Meta(description="Seconds after which the command is ended")] = (
        UNSET
    )

    def __post_init__(self) -> None:
        if self.timeout is not UNSET and not self.timeout > 0:
            raise ValueError("timeout must be more than 0 seconds")


async def bash(args: Bash, ctx: ToolContext) -> AgentToolResult:
    if "\0" in args.command:
        return AgentToolResult("Not run: the command contains a NUL character", is_error=True)
    if not os.path.isdir(ctx.cwd):
        return AgentToolResult(f"Not run: the working directory does not exist: {ctx.cwd}", is_error=True)
    timeout = None if args.timeout is UNSET else args.timeout
    output = _Output()
    live = _Live(lambda: ctx.update(_result(output)))

    def more(data: bytes) -> None:
        output.add(data)
        live.changed()

    try:
        ended = await run(
            [_shell(ctx), "-c", args.command],
            cwd=ctx.cwd,
            environment=ctx.environment,
            timeout=timeout,
            on_output=more,
        )
        return _result(output, _complaint(ended, timeout))
    except asyncio.CancelledError:
        ctx.update(_result(output))
        raise
    except (OSError, ValueError) as error:  # a command that is too long, or that no encoding can express
        return AgentToolResult(f"Not run: {getattr(error, 'strerror', None) or error}", is_error=True)
    finally:
        live.close()
        output.close()


BASH = Tool(
    "bash",
    "Run a command line in bash, in the working directory. Returns what it writes to stdout and stderr: the "
    f"last {LINES} lines or {BYTES // 1024} KB and, if there is more, the name of a file with all of it. "
    "There is no terminal and no input. To leave a process in the background, redirect its output.",
    Bash,
    bash,
)


def _shell(ctx: ToolContext) -> str:
    if os.path.exists("/bin/bash"):
        return "/bin/bash"
    path = ctx.environment.get("PATH")
    import shutil

    return shutil.which("bash", path=path) or shutil.which("sh", path=path) or "sh"


def _complaint(ended: Ended, timeout: float | None) -> str:
    match ended.reason:
        case "timed out":
            return f"Command timed out after {timeout:g} s"
        case "killed":
            return f"Command was killed by {ended.signal}"
        case "exited":
            return f"Command exited with code {ended.exit_code}" if ended.exit_code else ""


def _result(output: _Output, complaint: str = "") -> AgentToolResult:
    shown = output.shown()
    parts = [shown.text.rstrip("\n") or "(no output)", _remark(shown, output), complaint]
    return AgentToolResult(
        "\n\n".join(filter(None, parts)),
        {"fullOutputPath": output.path} if output.path else UNSET,
        is_error=bool(complaint),
    )


def _remark(shown: Bounded, output: _Output) -> str:
    if not shown.truncated:
        return ""
    total = shown.total_lines
    if shown.partial:
        said = f"The end of line {total}, which is longer than {BYTES // 1024} KB."
    else:
        said = f"Lines {total - shown.shown_lines + 1} to {total} of {total}."
    return f"[{said} {output.where}]"


class _Live:
    """Says that there is something new, at once and then not too often."""

    def __init__(self, show: Callable[[], None]) -> None:
        self._show = show
        self._shown_at = float("-inf")
        self._later: asyncio.TimerHandle | None = None

    def changed(self) -> None:
        if self._later is None:
            wait = self._shown_at + _BETWEEN_UPDATES - time.monotonic()
            if wait <= 0:
                self._now()
            else:
                self._later = asyncio.get_running_loop().call_later(wait, self._now)

    def _now(self) -> None:
        self._later = None
        self._shown_at = time.monotonic()
        self._show()

    def close(self) -> None:
        if self._later is not None:
            self._later.cancel()


class _Output:
    """What a command wrote: its end in memory, and all of it in a file if there is more than is shown."""

    def __init__(self) -> None:
        self.path = ""
        self._end = bytearray()
        self._line_breaks = 0
        self._logged = 0
        self._file: BinaryIO | None = None
        self._lost = ""

    def add(self, data: bytes) -> None:
        self._line_breaks += data.count(b"\n")
        self._end += data
        if self.path or self._lost:
            self._log(data)
        elif len(self._end) > BYTES or self._line_breaks > LINES:
            self._begin_log()
        if len(self._end) > 4 * BYTES:
            del self._end[: -2 * BYTES]

    def shown(self) -> Bounded:
        # A byte that is not UTF-8 becomes three, so what is kept is always more than what can be shown.
        shown = tail(self._end.decode("utf-8", "replace"))
        if shown.truncated and not self.path and not self._lost:
            self._begin_log()
        unended = bool(self._end) and not self._end.endswith(b"\n")
        return replace(shown, total_lines=self._line_breaks + unended)

    @property
    def where(self) -> str:
        if not self.path:
            return f"The rest could not be kept: {self._lost}."
        kept = f"The beginning of the output ({self._lost})" if self._lost else "Full output"
        return f"{kept}: {self.path}"

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _begin_log(self) -> None:
        """While memory still has all of it."""
        try:
            import tempfile  # few commands print so much

            path = os.path.join(tempfile.mkdtemp(prefix="perdure-bash-"), "output.log")
            self._file = open(path, "xb", buffering=0, opener=_private)
        except OSError as error:
            self._lost = error.strerror or str(error)
        else:
            self.path = path
            self._log(bytes(self._end))

    def _log(self, data: bytes) -> None:
        if self._file is None or self._lost:
            return
        if self._logged + len(data) > _MOST_LOGGED:
            self._lost = f"no more than {_MOST_LOGGED >> 20} MB are kept"
            return
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:  # such as a full disk, which is no fault of the command
            self._lost = error.strerror or str(error)
        self._logged += len(data)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
