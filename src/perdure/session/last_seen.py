"""The last time that was seen here: a second clock, without which nothing is removed because of its age.

A computer's clock may be years off for a while. So whatever goes by its age asks here first. The time of that
is noted:

    ~/.cache/perdure/last-seen        a time, and `agreed` or `alone`

The clock is believed if it is at most 30 days ahead of the time that is noted, and that is at least a day
old, so that this start cannot have made it. After a greater leap nothing is removed, until a start that comes
at least a day later agrees. A clock that is wrong for longer is believed. The same holds where the clock was
set back.

Where nothing is noted, the time of the newest session's file stands for it, if that is at least a day old. It
counts nowhere else: a file that was written under a wrong clock would agree with the next wrong clock.
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
    """True if another time agreed with it."""


class Judgement(NamedTuple):
    """What is thought of the clock."""

    is_believed: bool
    leapt_from: datetime | None = None
    """The last time seen, if the clock has just left it behind by more than 30 days; None at the next start,
    so that it is said once."""


def judge(
    seen: Seen | None, now: datetime, newest_trace: Callable[[datetime], datetime | None]
) -> tuple[Seen, Judgement]:
    """What to note, and what to think of the clock. `newest_trace` finds the latest time that something was
    saved at, up to the one it is given; it is asked where nothing is noted."""
    if seen and now < seen.when:
        return Seen(now, False), Judgement(False)
    if seen and now - seen.when < _DAY:
        return seen, Judgement(seen.is_agreed)
    last = seen.when if seen else newest_trace(now - _DAY)
    if last is not None and now - last <= LONGEST_LEAP:
        return Seen(now, True), Judgement(True)
    return Seen(now, False), Judgement(False, last)


def judge_clock(now: ids.Clock = ids.now) -> Judgement:
    """Compare the clock with the last time that was seen, and note it, at most once a day. What cannot be
    noted is not believed the next time."""
    try:
        path = config.cache(_NAME)
    except NoHome:
        return Judgement(False)
    before = _noted(path)
    after, judgement = judge(before, now(), _newest_session)
    if after != before:
        with contextlib.suppress(PerdureError, OSError):
            folder, name = os.path.split(path)
            files.make_folder(folder)
            word = _AGREED if after.is_agreed else _ALONE
            files.replace(folder, name, f"{ids.stamp(after.when)} {word}\n".encode())
    return judgement


def _noted(path: str) -> Seen | None:
    """None if there is no note, or none that can be read."""
    try:
        with files.open_to_read(*os.path.split(path)) as file:
            text = files.read_all(file.fileno(), _LONGEST_NOTE).decode("ascii")
        stamp, word = text.split()
    except (Unreadable, OSError, ValueError):
        return None
    when = ids.moment(stamp)
    return Seen(when, word == _AGREED) if when and word in (_AGREED, _ALONE) else None


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
