"""The last time that was seen: which clock is believed, and what is noted of it."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perdure import config
from perdure.session.last_seen import Judgement, Seen, judge, judge_clock
from perdure.session.session import Session
from perdure.session.stores import open_store
from perdure.session.stores.file_store import FileStore
from perdure.testing import user_entry
from tests.aged_sessions import remember, touch

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)
BELIEVED = Judgement(True)
NOT_BELIEVED = Judgement(False)


def ago(**time: float) -> datetime:
    return NOW - timedelta(**time)


@pytest.mark.parametrize(
    ("seen", "trace", "noted", "judgement"),
    [
        (Seen(ago(hours=1), True), None, None, BELIEVED),
        (Seen(ago(hours=1), False), None, None, NOT_BELIEVED),
        (Seen(ago(hours=1), False), ago(days=2), None, NOT_BELIEVED),
        (Seen(ago(days=1), False), None, Seen(NOW, True), BELIEVED),
        (Seen(ago(days=30), True), None, Seen(NOW, True), BELIEVED),
        (Seen(ago(days=30, hours=1), True), None, Seen(NOW, False), Judgement(False, ago(days=30, hours=1))),
        (Seen(ago(days=365), True), ago(days=2), Seen(NOW, False), Judgement(False, ago(days=365))),
        (Seen(ago(hours=-1), True), ago(days=2), Seen(NOW, False), NOT_BELIEVED),
        (Seen(ago(days=-365), True), None, Seen(NOW, False), NOT_BELIEVED),
        (None, None, Seen(NOW, False), NOT_BELIEVED),
        (None, ago(days=2), Seen(NOW, True), BELIEVED),
        (None, ago(days=31), Seen(NOW, False), Judgement(False, ago(days=31))),
    ],
)
def test_a_clock_is_believed_if_a_time_of_the_last_thirty_days_agrees(seen, trace, noted, judgement):
    """A start of an earlier day; a session's file only where no start is noted; never what may be of this
    start."""

    def newest_trace(until: datetime) -> datetime | None:
        assert seen is None
        assert until == ago(days=1)
        return trace

    assert judge(seen, NOW, newest_trace) == (noted or seen, judgement)


def test_it_is_noted_at_most_once_a_day(home):
    """For its user alone, and where a cache may be deleted at any moment."""
    assert judge_clock(lambda: NOW) == NOT_BELIEVED
    path = Path(config.cache("last-seen"))
    assert path.read_text() == "2026-11-18T12:00:00.000Z alone\n"
    assert path.stat().st_mode & 0o777 == 0o600
    noted = path.stat()
    assert judge_clock(lambda: NOW + timedelta(hours=23)) == NOT_BELIEVED
    assert path.stat() == noted
    assert judge_clock(lambda: NOW + timedelta(hours=24)) == BELIEVED
    assert path.read_text() == "2026-11-19T12:00:00.000Z agreed\n"


@pytest.mark.parametrize(
    "text",
    ["", "agreed", "2026-11-18T11:00:00.000Z", "2026-11-18T11:00:00.000Z perhaps", "x agreed", "\xff" * 200],
)
def test_what_is_no_note_is_none(home, text):
    path = remember(ago(hours=1))
    path.write_bytes(text.encode("latin-1"))
    assert judge_clock(lambda: NOW) == NOT_BELIEVED
    assert path.read_text() == "2026-11-18T12:00:00.000Z alone\n"


def test_where_nothing_can_be_noted_nothing_is_believed(home):
    """Also where somebody made it a pipe, or a link, which is not followed."""
    path = remember(ago(hours=1))
    path.unlink()
    os.mkfifo(path)
    assert judge_clock(lambda: NOW) == NOT_BELIEVED
    path.unlink()
    (home / "other").write_text("2026-11-18T11:00:00.000Z agreed\n")
    path.symlink_to(home / "other")
    assert judge_clock(lambda: NOW) == NOT_BELIEVED
    path.unlink()
    path.mkdir()
    assert judge_clock(lambda: NOW) == NOT_BELIEVED


@pytest.mark.parametrize(("age", "judgement"), [(2, True), (0.5, False), (-3, False), (40, False)])
def test_a_sessions_file_of_an_earlier_day_agrees(home, age, judgement):
    """Of any program, where nothing is noted. One of today may be of this very start; one that is still to
    come agrees with none."""
    store = open_store("soleur")
    assert isinstance(store, FileStore)
    with Session.create(store) as session:
        session.append(user_entry("hello"))
    touch(session.ref.path, ago(days=age).timestamp())
    assert judge_clock(lambda: NOW).is_believed is judgement


def test_a_file_that_a_wrong_clock_wrote_agrees_with_no_later_one(home):
    """A year ahead on one day, and almost as far on another, with days in between on which it was right."""
    store = open_store("soleur")
    assert isinstance(store, FileStore)
    assert judge_clock(lambda: NOW) == NOT_BELIEVED
    with Session.create(store) as session:
        session.append(user_entry("hello"))
    touch(session.ref.path, (NOW + timedelta(days=366)).timestamp())
    days = [366, 1.2, 2.4, 3.6, 4 + 364]
    believed = [judge_clock(lambda at=at: NOW + timedelta(days=at)).is_believed for at in days]  # type: ignore[misc]
    assert believed == [False, False, True, True, False]
