"""The wait before a model that is busy is asked again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from perdure.agent import loop
from perdure.agent.events import AgentEvent, AutoRetryEnd, AutoRetryStart, MessageEnd
from perdure.agent.settings import Retry
from perdure.agent.switch import Stopped, Switch
from perdure.errors import ModelUnavailable
from perdure.session.entry import Assistant


async def waiting(
    error: ModelUnavailable, attempt: int, *, retry: Retry, switch: Switch
) -> AsyncGenerator[AgentEvent, None]:
    """Until the next try; raises the error if there is none. `attempt` is its number."""
    delay = _delay(error, attempt - 1, retry)
    if delay is None:
        if attempt > 1:
            yield AutoRetryEnd(False, attempt - 1, error.message)
        raise error
    yield AutoRetryStart(attempt, retry.max_retries, round(delay * 1000), error.message)
    try:
        await switch.unless_stopped(lambda: asyncio.sleep(delay))
    except Stopped:
        yield AutoRetryEnd(False, attempt, loop.BY_USER)
        raise


def _delay(error: ModelUnavailable, tried: int, retry: Retry) -> float | None:
    """Seconds until the next try; None if there is none."""
    if not retry.enabled or tried >= retry.max_retries:
        return None
    longest = retry.max_delay_ms / 1000
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= longest else None
    return float(min(retry.base_delay_ms / 1000 * 2**tried, longest))


def is_enough(event: AgentEvent) -> bool:
    """Whether it tells of a whole answer."""
    return (
        isinstance(event, MessageEnd)
        and isinstance(event.message, Assistant)
        and not event.message.is_broken_off
    )
