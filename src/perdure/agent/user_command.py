"""A command that the user runs in the conversation, as the bash tool runs one, and that is recorded.

However it ends it is in the session, with what it wrote, when the last of its processes has ended: also if it
was stopped. Only one that could not be run at all leaves nothing.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from functools import partial

from msgspec import UNSET, UnsetType

from perdure.agent.loop import Bench
from perdure.agent.switch import Stopped, Switch
from perdure.agent.tools import AgentToolResult
from perdure.agent.tools.bash import Ran, run_in_shell
from perdure.session.entry import BashExecution
from perdure.session.ids import clock_milliseconds


async def run(
    command: str,
    bench: Bench,
    switch: Switch,
    keep: Callable[[BashExecution], Awaitable[None]],
    *,
    is_sent: bool,
    watch: Callable[[AgentToolResult], None],
) -> BashExecution:
    last: Ran | None = None

    def see(so_far: Ran) -> None:
        nonlocal last
        last = so_far
        watch(so_far.result())

    async def kept(*, is_cancelled: bool) -> BashExecution:
        record = _record(command, last, is_sent=is_sent, is_cancelled=is_cancelled)
        if last is not None:
            watch(last.result())  # whether it can be kept or not, somebody has seen it
        await keep(record)
        return record

    begin = partial(
        run_in_shell,
        command,
        cwd=bench.cwd,
        environment=bench.environment,
        watch=see,
        supervisor=bench.supervisor,
    )
    try:
        last = await switch.unless_stopped(begin)
    except Stopped:
        return await kept(is_cancelled=True)
    except asyncio.CancelledError:
        await kept(is_cancelled=True)
        raise
    return await kept(is_cancelled=False)


def _record(command: str, ran: Ran | None, *, is_sent: bool, is_cancelled: bool) -> BashExecution:
    """`ran` is None if it was stopped before it began."""
    return BashExecution(
        command,
        ran.shown.text if ran else "",
        UNSET if is_cancelled or ran is None else _exit_code(ran),
        cancelled=is_cancelled,
        truncated=ran is not None and ran.shown.truncated,
        full_output_path=(ran.path if ran else "") or UNSET,
        exclude_from_context=UNSET if is_sent else True,
        timestamp=clock_milliseconds(),
    )


def _exit_code(ran: Ran) -> int | UnsetType:
    """Of a command that was killed, what a shell says of it: 128 and the number of the signal. A record has
    no other place for that."""
    if ran.ended is None:
        return UNSET
    if ran.ended.exit_code is not None:
        return ran.ended.exit_code
    number = getattr(signal, ran.ended.signal, None)
    return UNSET if number is None else 128 + int(number)
