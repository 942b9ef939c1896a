"""When something was, or how long ago, in the words of a listing."""

from __future__ import annotations

import time
from datetime import datetime

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_UNITS = ((365 * _DAY, "y"), (30 * _DAY, "mo"), (_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"))


def ago(then: float | None, now: float | None = None) -> str:
    """`2 h ago`; `in 2 h` where clocks disagree; nothing if it is not known when. In seconds since 1970."""
    if not then:
        return ""
    age = (time.time() if now is None else now) - then
    for length, unit in _UNITS:
        if abs(age) >= length:
            count = f"{int(abs(age) // length)} {unit}"
            return f"{count} ago" if age > 0 else f"in {count}"
    return "just now"


def when(then: float | None) -> str:
    """`2026-01-31 09:05`, by the clock of who looks; nothing if it is not known. In seconds since 1970."""
    try:
        return str(datetime.fromtimestamp(then))[:16] if then else ""
    except (OverflowError, OSError, ValueError):
        return ""


def seconds(timestamp: str) -> float | None:
    """Since 1970; None if it is no time."""
    from perdure.session.ids import moment

    found = moment(timestamp.strip())
    try:
        return found.timestamp() if found else None
    except (OverflowError, ValueError):
        return None
