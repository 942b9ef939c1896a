"""The bash tool: a command line, run in a shell of its own without terminal or input.

The model reads the end of what the command wrote; all of it is in a file, which the result names, as soon as
there is more than that. Memory is bounded by what is shown, whatever the command writes. A command of the
user's own is run in the same way, by `run_in_shell`.

A call that fails, is killed or takes too long is a result with `is_error` and the output so far. One that is
cancelled has no result, since CancelledError goes through. Before it does, when the last process has ended,
`ctx.update` is given the output so far: whoever cancels and wants it keeps the last update.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, BinaryIO

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace

from perdure.agent.supervisor import BackgroundProcess, Supervisor, describe_processes
from perdure.agent.tools import AgentToolResult, Tool, ToolContext, bash_log
from perdure.agent.tools.output import BYTES, LINES, Bounded, tail
from perdure.agent.tools.processes import Ended, run
from perdure.errors import PerdureError

DEFAULT_TIMEOUT_S = 120
LONGEST_TIMEOUT_S = 3600
_BETWEEN_UPDATES = 0.1
_MOST_LOGGED = 512 * 1024 * 1024  # the folder for temporary files is memory on many machines


class Bash(Struct, frozen=True, forbid_unknown_fields=True):
    command: Annotated[str, Meta(description="Command line for bash")]
    timeout: Annotated[
        float | UnsetType,
        Meta(
            description=f"Seconds after which the command is ended. Default: {DEFAULT_TIMEOUT_S}; "
            f"at most {LONGEST_TIMEOUT_S}",
            extra_json_schema={"maximum": LONGEST_TIMEOUT_S},
        ),
    ] = UNSET

    def __post_init__(self) -> None:
        if self.timeout is UNSET:
            return
        if not self.timeout > 0:
            raise ValueError("timeout must be more than 0 seconds")
        if self.timeout > LONGEST_TIMEOUT_S:
            raise ValueError(
                f"timeout is at most {LONGEST_TIMEOUT_S} seconds; what takes longer is run in the background"
            )


class Ran(Struct, frozen=True):
    """A command that was run, or is running."""

    shown: Bounded
    """The end of what it wrote."""
    path: str
    """A file with all of it; empty if that is no more, or could not be kept."""
    rest: str
    """Where what is not shown is, in words."""
    ended: Ended | None = None
    """None as long as it runs, and if it was cancelled."""

    def result(self, complaint: str = "") -> AgentToolResult:
        """As a model reads it."""
        parts = [
            self.shown.text.rstrip("\n") or "(no output)",
            self._remark(),
            self._left_running(),
            complaint,
        ]
        details: dict[str, Any] = {"fullOutputPath": self.path} if self.path else {}
        if self._background:
            details["background"] = describe_processes(self._background)
        return AgentToolResult("\n\n".join(filter(None, parts)), details or UNSET, is_error=bool(complaint))

    @property
    def _background(self) -> Sequence[BackgroundProcess]:
        return self.ended.background if self.ended is not None else ()

    def _remark(self) -> str:
        if not self.shown.truncated:
            return ""
        total = self.shown.total_lines
        if self.shown.partial:
            said = f"The end of line {total}, which is longer than {BYTES // 1024} KB."
        else:
            said = f"Lines {total - self.shown.shown_lines + 1} to {total} of {total}."
        return f"[{said} {self.rest}]"

    def _left_running(self) -> str:
        if not self._background:
            return ""
        verb = "It ends" if len(self._background) == 1 else "They end"
        left = describe_processes(self._background)
        return f"[Still running in the background: {left}. {verb} with this conversation.]"


async def run_in_shell(
    command: str,
    *,
    cwd: str,
    environment: Mapping[str, str],
    watch: Callable[[Ran], None],
    timeout: float | None = None,
    supervisor: Supervisor,
) -> Ran:
    """Run a command line to its end, whoever wants it run. `watch` is shown what there is so far, and, if it
    is cancelled, all there was. PerdureError if it cannot be run at all."""
    if "\0" in command:
        raise PerdureError("Not run: the command contains a NUL character")
    if not os.path.isdir(cwd):
        raise PerdureError(f"Not run: the working directory does not exist: {cwd}")
    bash_log.expire_once()
    output = _Output()
    live = _Live(lambda: watch(output.ran()))

    def more(data: bytes) -> None:
        output.add(data)
        live.changed()

    try:
        ended = await run(
            [_shell(environment), "-c", command],
            cwd=cwd,
            environment=environment,
            timeout=timeout,
            on_output=more,
            supervisor=supervisor,
        )
        return output.ran(ended)
    except asyncio.CancelledError:
        watch(output.ran())
        raise
    except (OSError, ValueError) as error:  # a command that is too long, or that no encoding can express
        why = getattr(error, "strerror", None) or "it has a NUL character or a lone surrogate"
        raise PerdureError(f"Not run: {why}") from None
    finally:
        live.close()
        output.close()


async def bash(args: Bash, ctx: ToolContext) -> AgentToolResult:
    timeout = DEFAULT_TIMEOUT_S if args.timeout is UNSET else args.timeout
    try:
        ran = await run_in_shell(
            args.command,
            cwd=ctx.cwd,
            environment=ctx.environment,
            watch=lambda so_far: ctx.update(so_far.result()),
            timeout=timeout,
            supervisor=ctx.supervisor,
        )
    except PerdureError as error:
        return AgentToolResult(error.message, is_error=True)
    complaint = _complaint(ran, timeout)
    if args.timeout is UNSET and ran.ended is not None and ran.ended.reason == "timed out":
        complaint += (
            f", the default. Set timeout, up to {LONGEST_TIMEOUT_S}, or start it in the background: "
            "command >file 2>&1 &"
        )
    return ran.result(complaint)


BASH = Tool(
    "bash",
    "Run a command line in bash, in the working directory. Returns what it writes to stdout and stderr: the "
    f"last {LINES} lines or {BYTES // 1024} KB and, if there is more, the name of a file with all of it. "
    f"There is no terminal and no input. The command is ended after `timeout` seconds: {DEFAULT_TIMEOUT_S} "
    f"unless you say otherwise, at most {LONGEST_TIMEOUT_S}. To leave a process in the background, redirect "
    "its output and end the line with `&`: it runs until the conversation ends, which with `pi -p` is when "
    "the answer is given.",
    Bash,
    bash,
)


def _shell(environment: Mapping[str, str]) -> str:
    if os.path.exists("/bin/bash"):
        return "/bin/bash"
    path = environment.get("PATH")
    import shutil

    return shutil.which("bash", path=path) or shutil.which("sh", path=path) or "sh"


def _complaint(ran: Ran, timeout: float) -> str:
    match ran.ended:
        case Ended(reason="timed out"):
            return f"Command timed out after {timeout:g} s"
        case Ended(reason="killed", signal=name):
            return f"Command was killed by {name}"
        case Ended(exit_code=int(code)) if code:
            return f"Command exited with code {code}"
    return ""


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
        self._path = ""
        self._end = bytearray()
        self._line_breaks = 0
        self._logged = 0
        self._file: BinaryIO | None = None
        self._lost = ""

    def add(self, data: bytes) -> None:
        self._line_breaks += data.count(b"\n")
        self._end += data
        if self._path or self._lost:
            self._log(data)
        elif len(self._end) > BYTES or self._line_breaks > LINES:
            self._begin_log()
        if len(self._end) > 4 * BYTES:
            del self._end[: -2 * BYTES]

    def ran(self, ended: Ended | None = None) -> Ran:
        shown = self._shown()  # which may begin the file
        return Ran(shown, self._path, self._where() if shown.truncated else "", ended)

    def _shown(self) -> Bounded:
        # A byte that is not UTF-8 becomes three, so what is kept is always more than what can be shown.
        shown = tail(self._end.decode("utf-8", "replace"))
        if shown.truncated and not self._path and not self._lost:
            self._begin_log()
        unended = bool(self._end) and not self._end.endswith(b"\n")
        return replace(shown, total_lines=self._line_breaks + unended)

    def _where(self) -> str:
        if not self._path:
            return f"The rest could not be kept: {self._lost}."
        kept = f"The beginning of the output ({self._lost})" if self._lost else "Full output"
        return f"{kept}: {self._path}"

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            bash_log.expire_in_thread()

    def _begin_log(self) -> None:
        """While memory still has all of it."""
        try:
            self._file = bash_log.create()
        except OSError as error:
            self._lost = error.strerror or str(error)
        else:
            self._path = self._file.name
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
