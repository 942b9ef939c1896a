"""The last time that was seen here: a second clock, without which nothing is removed because of its age.

A computer's clock may be years off for a while. So whatever goes by its age asks here first. The time of that
is noted:

    ~/.cache/perdure/last-seen        a time; `agreed` or `alone`; the time before a leap, until it is told

The clock is believed if it is at most 30 days ahead of the time that is noted, and that is at least a day
old, so that this start cannot have made it. After a greater leap nothing is removed, until a start that comes
at least a day later agrees. A clock that is wrong for longer is believed. The same holds where the clock was
set back.

Where nothing is noted, the time of the newest session's file stands for it, if that is at least a day old. It
counts nowhere else: a file that was written under a wrong clock would agree with the next wrong clock.

Not everyone who asks can tell the user of a leap. So it stays noted until somebody tells it, who does not
believe the clock before a day has passed since; unless the clock is back by then.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from perdure import config
from perdure.errors import NoHome, PerdureError, Unreadable
from perdure.session import ids, layouts
from perdure.session.stores import files, open_store
from perdure.session.stores.file_store import FileStore

LONGEST_LEAP = timedelta(days=30)
_DAY = timedelta(days=1)
_NAME = "last-seen"
_AGREED, _ALONE = "agreed", "alone"
_LONGEST_NOTE = 100


class Seen(NamedTuple):
    """What is noted."""

    when: datetime
    is_agreed: bool
    """True if another time agreed with it: the clock is believed."""
    untold: datetime | None = None
    """The last time seen before a leap of more than 30 days that the user has not been told of."""


def judge(seen: Seen | None, now: datetime, newest_trace: Callable[[datetime], datetime | None]) -> Seen:
    """What to note of the clock. `newest_trace` finds the latest time that something was saved at, up to the
    one it is given; it is asked where nothing is noted."""
    untold = seen.untold if seen and seen.untold and now - seen.untold > LONGEST_LEAP else None
    if seen and now < seen.when:
        return Seen(now, False, untold)
    if seen and now - seen.when < _DAY:
        return seen
    last = seen.when if seen else newest_trace(now - _DAY)
    if last is None:
        return Seen(now, False)
    is_leap = now - last > LONGEST_LEAP
    return Seen(now, not is_leap, untold or (last if is_leap else None))


def judge_clock(tell: Callable[[datetime], object] | None = None, now: ids.Clock = ids.now) -> bool:
    """Compare the clock with the last time that was seen, and note it, at most once a day. Returns whether it
    is believed. What cannot be noted is not believed the next time.

    `tell` is called with the time before a leap that the user has not been told of. If it fails, that is not
    noted as told."""
    try:
        path = config.cache(_NAME)
    except NoHome:
        return False
    before, clock = _noted(path), now()
    after = judge(before, clock, _newest_session)
    if tell and after.untold:
        tell(after.untold)
        after = Seen(clock, False)
    if after != before:
        with contextlib.suppress(PerdureError, OSError):
            folder, name = os.path.split(path)
            files.make_folder(folder)
            files.replace(folder, name, _as_text(after).encode())
    return after.is_agreed


def _as_text(seen: Seen) -> str:
    words = [ids.stamp(seen.when), _AGREED if seen.is_agreed else _ALONE]
    return " ".join([*words, *([ids.stamp(seen.untold)] if seen.untold else [])]) + "\n"


def _noted(path: str) -> Seen | None:
    """None if there is no note, or none that can be read."""
    try:
        with files.open_to_read(*os.path.split(path)) as file:
            text = files.read_all(file.fileno(), _LONGEST_NOTE).decode("ascii")
        stamp, word, *untold = text.split()
    except (Unreadable, OSError, ValueError):
        return None
    when = ids.moment(stamp)
    if not when or word not in (_AGREED, _ALONE):
        return None
    return Seen(when, word == _AGREED, ids.moment(untold[0]) if untold else None)


def _newest_session(until: datetime) -> datetime | None:
    """When the file of any session was last written, up to that time."""
    latest = until.timestamp()
    newest = 0.0
    for home in layouts.homes():
        with contextlib.suppress(PerdureError, OSError):
            store = open_store(*home)
            assert isinstance(store, FileStore)
            times = (ref.mtime_ns / 1e9 for ref in store.list())
            newest = max([newest, *(when for when in times if when <= latest)])
    return datetime.fromtimestamp(newest, UTC) if newest > 0 else None
