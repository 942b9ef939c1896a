"""The last time that was seen: which clock is believed, and what is noted of it."""

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perdure import config
from perdure.session.last_seen import Seen, judge, judge_clock
from perdure.session.session import Session
from perdure.session.stores import open_store
from perdure.session.stores.file_store import FileStore
from perdure.testing import user_entry
from tests.aged_sessions import remember, touch

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)


def ago(**time: float) -> datetime:
    return NOW - timedelta(**time)


@pytest.mark.parametrize(
    ("seen", "trace", "noted"),
    [
        (Seen(ago(hours=1), True), None, None),
        (Seen(ago(hours=1), False), None, None),
        (Seen(ago(hours=1), False), ago(days=2), None),
        (Seen(ago(days=1), False), None, Seen(NOW, True)),
        (Seen(ago(days=30), True), None, Seen(NOW, True)),
        (Seen(ago(days=30, hours=1), True), None, Seen(NOW, False, ago(days=30, hours=1))),
        (Seen(ago(days=365), True), ago(days=2), Seen(NOW, False, ago(days=365))),
        (Seen(ago(hours=-1), True), ago(days=2), Seen(NOW, False)),
        (Seen(ago(days=-365), True), None, Seen(NOW, False)),
        (None, None, Seen(NOW, False)),
        (None, ago(days=2), Seen(NOW, True)),
        (None, ago(days=31), Seen(NOW, False, ago(days=31))),
        # A leap that is still to be told.
        (Seen(ago(hours=1), False, ago(days=40)), None, None),
        (Seen(ago(days=2), False, ago(days=40)), None, Seen(NOW, True, ago(days=40))),
        (Seen(ago(days=35), True, ago(days=70)), None, Seen(NOW, False, ago(days=70))),
        (Seen(ago(days=-300), False, ago(days=40)), None, Seen(NOW, False, ago(days=40))),
        (Seen(ago(days=-365), False, ago(days=1)), None, Seen(NOW, False)),
    ],
)
def test_a_clock_is_believed_if_a_time_of_the_last_thirty_days_agrees(seen, trace, noted):
    """A start of an earlier day; a session's file only where no start is noted; never what may be of this
    start. A leap stays to be told as long as the clock is ahead by so much."""

    def newest_trace(until: datetime) -> datetime | None:
        assert seen is None
        assert until == ago(days=1)
        return trace

    assert judge(seen, NOW, newest_trace) == (noted or seen)


def at(days: float) -> Callable[[], datetime]:
    return lambda: NOW + timedelta(days=days)


def test_a_leap_is_told_once_by_who_can_tell_and_believed_a_day_after_that(home):
    """Whoever looked first, and however often."""
    told: list[datetime] = []
    remember(ago(days=1))
    assert judge_clock(told.append, at(0))
    assert [judge_clock(now=at(day)) for day in (365, 365.1, 366.5)] == [False, False, True]
    assert told == []
    days = (367, 367.5, 368.1)
    assert [judge_clock(told.append, at(day)) for day in days] == [False, False, True]
    assert told == [NOW]


def test_a_leap_that_could_not_be_told_is_told_the_next_time(home):
    told: list[datetime] = []
    remember(NOW)

    def fail(last: datetime) -> None:
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        judge_clock(fail, at(365))
    assert not judge_clock(told.append, at(365))
    assert told == [NOW]


def test_it_is_noted_at_most_once_a_day(home):
    """For its user alone, and where a cache may be deleted at any moment."""
    assert not judge_clock(now=at(0))
    path = Path(config.cache("last-seen"))
    assert path.read_text() == "2026-11-18T12:00:00.000Z alone\n"
    assert path.stat().st_mode & 0o777 == 0o600
    noted = path.stat()
    assert not judge_clock(now=at(23 / 24))
    assert path.stat() == noted
    assert judge_clock(now=at(1))
    assert path.read_text() == "2026-11-19T12:00:00.000Z agreed\n"


@pytest.mark.parametrize(
    "text",
    ["", "agreed", "2026-11-18T11:00:00.000Z", "2026-11-18T11:00:00.000Z perhaps", "x agreed", "\xff" * 200],
)
def test_what_is_no_note_is_none(home, text):
    path = remember(ago(hours=1))
    path.write_bytes(text.encode("latin-1"))
    assert not judge_clock(now=at(0))
    assert path.read_text() == "2026-11-18T12:00:00.000Z alone\n"


def test_a_leap_that_is_to_be_told_is_behind_the_note(home):
    """A note of an earlier version has none there."""
    path = remember(ago(days=60))
    assert not judge_clock(now=at(0))
    assert path.read_text() == "2026-11-18T12:00:00.000Z alone 2026-09-19T12:00:00.000Z\n"


def test_where_nothing_can_be_noted_nothing_is_believed(home):
    """Also where somebody made it a pipe, or a link, which is not followed."""
    path = remember(ago(hours=1))
    path.unlink()
    os.mkfifo(path)
    assert not judge_clock(now=at(0))
    path.unlink()
    (home / "other").write_text("2026-11-18T11:00:00.000Z agreed\n")
    path.symlink_to(home / "other")
    assert not judge_clock(now=at(0))
    path.unlink()
    path.mkdir()
    assert not judge_clock(now=at(0))


@pytest.mark.parametrize(("age", "judgement"), [(2, True), (0.5, False), (-3, False), (40, False)])
def test_a_sessions_file_of_an_earlier_day_agrees(home, age, judgement):
    """Of any program, where nothing is noted. One of today may be of this very start; one that is still to
    come agrees with none."""
    store = open_store("soleur")
    assert isinstance(store, FileStore)
    with Session.create(store) as session:
        session.append(user_entry("hello"))
    touch(session.ref.path, ago(days=age).timestamp())
    assert judge_clock(now=at(0)) is judgement


def test_a_file_that_a_wrong_clock_wrote_agrees_with_no_later_one(home):
    """A year ahead on one day, and almost as far on another, with days in between on which it was right."""
    store = open_store("soleur")
    assert isinstance(store, FileStore)
    assert not judge_clock(now=at(0))
    with Session.create(store) as session:
        session.append(user_entry("hello"))
    touch(session.ref.path, (NOW + timedelta(days=366)).timestamp())
    days = [366, 1.2, 2.4, 3.6, 4 + 364]
    assert [judge_clock(now=at(day)) for day in days] == [False, False, True, True, False]
