"""Sessions that nobody used for long go to the trash, and what is in the trash for long goes for good.

How old a session is, it says itself: by the latest time that it records, or by when it was last repaired or
brought back from the trash, which its lock knows. No time of a file counts. Where one of its times is
missing, cannot be read, is still to come or is no later than 1970, nobody knows which was the latest: such a
session is kept, and so is a damaged one.

Every doubt keeps. The catalog says which sessions cannot be old; of the others the file decides, and decides
again under the session's lock, right before the move: what a live process holds, what grew or was replaced
since it was looked at, and what was made meanwhile stays.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from perdure.errors import Held, NotSaved, PerdureError, UsageError
from perdure.session import ids, trash
from perdure.session.catalog import Catalog, Scope
from perdure.session.layouts import Home, refuse_strangers
from perdure.session.stores import Found, Page, open_store
from perdure.session.stores.file_store import FileStore, found
from perdure.session.stores.lock import Lock
from perdure.session.trash_note import Trashed

if TYPE_CHECKING:
    from perdure.session.catalog import Progress, Row

_1970 = datetime.fromtimestamp(0, UTC)
_DAY = timedelta(days=1)
_NEARLY = 1.0  # seconds by which the catalog may be wrong, which rounds
_AT_ONCE = 64
"""Sessions that are removed together: enough for the disk to write them down in one go, and few enough for
their locks not to be held for long."""
_FAULTS = (PerdureError, OSError, RecursionError, ValueError)
"""What one session may raise that must not be in the way of the others."""


class Cleaned(NamedTuple):
    removed: list[Trashed]
    """Now in the trash."""
    held: list[str]
    """Ids of sessions that are old enough, and that a live process holds."""
    undated: list[str]
    """Ids of sessions whose age is not known."""
    damaged: list[str]
    """What is wrong with sessions that may be old enough; a sentence each."""
    problems: list[str]
    """What could not be removed, or looked at; a sentence each."""


class Emptied(NamedTuple):
    gone: list[Trashed]
    """For good."""
    problems: list[str]


def clean(
    home: Home,
    days: float,
    *,
    spare: str = "",
    now: ids.Clock = ids.now,
    progress: Progress | None = None,
    before: Callable[[], object] = lambda: None,
) -> Cleaned:
    """Move to the trash what was last used more than `days` ago; not the session at the path `spare`.
    `before` is called before each move, and where it raises, the session is kept."""
    check_days(days)
    sweep = _Sweep(home, days, now(), before)
    scope = Scope((home,))
    with Catalog() as catalog:
        sweep.done.problems.extend(catalog.catch_up(scope, progress))
        old = [row for row in catalog.rows(scope) if row.path != spare and not sweep.is_surely_young(row)]
    for number, row in enumerate(old, 1):
        sweep.take(row)
        if progress is not None:
            progress(number, len(old))
    sweep.remove_old()
    sweep.remove_unused_locks()
    return sweep.done


def check_days(days: object) -> None:
    try:
        is_number = isinstance(days, int | float) and not isinstance(days, bool)
        is_good = is_number and math.isfinite(days) and days >= 0  # type: ignore[arg-type, operator]
    except OverflowError:  # as of a whole number that no float holds
        is_good = False
    if not is_good:
        raise UsageError(f"Not a number of days that is 0 or more: {days!r:.40}", "nothing was deleted")


def empty_trash(
    homes: Iterable[Home],
    *,
    days: float = trash.DAYS,
    now: ids.Clock = ids.now,
    before: Callable[[], object] = lambda: None,
) -> Emptied:
    """Delete for good what was deleted more than `days` ago, in each of these homes. `before` is called
    before the first of a home goes; where it raises, all there is kept. A program that does this unasked
    looks first whether the clock is believed (last_seen.py)."""
    check_days(days)
    emptied = Emptied([], [])
    for home in homes:
        try:
            emptied.gone.extend(_store(home).expire(days, now, before=before))
        except _FAULTS as error:
            emptied.problems.append(_said(error))
    return emptied


class _Stays(Exception):
    """Somebody used it since it was looked at."""


class _Sweep:
    def __init__(self, home: Home, days: float, now: datetime, before: Callable[[], object]) -> None:
        self.done = Cleaned([], [], [], [], [])
        self._store = _store(home)
        self._days = days
        self._now = now
        self._before = before
        self._old: list[tuple[Found, str]] = []
        """Sessions that are old enough, with their titles, to be removed together."""

    def remove_unused_locks(self) -> None:
        try:
            self._store.remove_unused_locks()
        except _FAULTS as error:
            self.done.problems.append(_said(error))

    def is_surely_young(self, row: Row) -> bool:
        """By a time that it records, whichever others there are; or by its file's, where it records none, and
        then it is not removed in any case."""
        age = self._now.timestamp() - row.active / 1000
        return 0 <= age < self._days * _DAY.total_seconds() - _NEARLY

    def take(self, row: Row) -> None:
        ref = found(row.id, row.path)
        try:
            page = self._store.read(ref)
            if damage := next((each for each in page.problems if not each.is_torn_end), None):
                self.done.damaged.append(f"{row.id} is damaged, and was kept: {damage.brief}")
                return
            age = self._age(page)
            if age is None:
                self.done.undated.append(row.id)
            elif age > self._days:
                self._old.append((ref, row.title))
        except _FAULTS as error:
            self._keep(ref, error)
        if len(self._old) == _AT_ONCE:
            self.remove_old()

    def remove_old(self) -> None:
        """Those that were found to be old and are not removed yet."""
        wanted = [each for each in self._old if self._may_go(each[0])]
        self._old.clear()
        done = self._store.delete_all(wanted, check=self._check)
        for (ref, _), result in zip(wanted, done, strict=True):
            if isinstance(result, Trashed):
                self.done.removed.append(result)
            else:
                self._keep(ref, result)

    def _may_go(self, ref: Found) -> bool:
        try:
            if self._store.holder(ref) is not None:  # which is told sooner than a lock is waited for
                raise Held(ref.id, None)
            self._before()
        except _FAULTS as error:
            self._keep(ref, error)
            return False
        return True

    def _keep(self, ref: Found, why: Exception) -> None:
        if isinstance(why, Held):
            self.done.held.append(ref.id)
        elif isinstance(why, _Stays):
            return
        elif not isinstance(why, _FAULTS):
            raise why
        elif os.path.lexists(ref.path):  # else somebody else has removed it
            self.done.problems.append(f"{ref.id} was kept: {_said(why)}")
        elif isinstance(why, NotSaved) and any(each.id == ref.id for each in self._store.trashed()):
            self.done.problems.append(
                f"{ref.id} is in the trash, and may be back after a power cut: {_said(why)}"
            )

    def _check(self, ref: Found, lock: Lock) -> None:
        page = self._store.read(ref)
        age = self._age(page, lock.noted)
        is_the_same = found(ref.id, ref.path) == ref
        if not is_the_same or not all(each.is_torn_end for each in page.problems):
            raise _Stays
        if age is None or age <= self._days:
            raise _Stays

    def _age(self, page: Page, wanted: str = "") -> float | None:
        """In days; None if one of its times is none. `wanted` is a further one, if there is one."""
        stamps = {page.header.timestamp, *(entry.timestamp for entry in page.entries)}
        times = [ids.moment(stamp) for stamp in stamps]
        if since := ids.moment(wanted):
            times.append(since)
        ages = [self._since(when) for when in times]
        return min((age for age in ages if age is not None), default=None) if None not in ages else None

    def _since(self, when: datetime | None) -> float | None:
        try:
            return (self._now - when) / _DAY if when and _1970 < when <= self._now else None
        except OverflowError:  # a time that is none in UTC
            return None


def _store(home: Home) -> FileStore:
    refuse_strangers(home)
    store = open_store(*home)
    assert isinstance(store, FileStore)
    return store


def _said(error: Exception) -> str:
    return error.message if isinstance(error, PerdureError) else str(error) or type(error).__name__
