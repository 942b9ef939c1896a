"""Ages: in words that a listing can use."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.front.ages import ago, seconds

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(timezones=ZONES))
def test_a_moment_is_what_the_calendar_says(then):
    """Of every year, in every zone, as ISO writes it."""
    assert seconds(then.isoformat()) == pytest.approx(then.timestamp(), abs=1e-3)
    assert seconds(then.isoformat(" ")) == seconds(then.isoformat())


@pytest.mark.parametrize(
    ("text", "since"),
    [
        ("2026-01-31T09:05:00.123Z", 1769850300.123),
        ("2026-01-31T09:05:00,123Z", 1769850300.123),
        ("2026-01-31T09:05:00", 1769850300),
        ("2026-01-31T09:05Z", 1769850300),
        ("2026-01-31T11:05:00+0200", 1769850300),
        (" 2026-01-31 04:05:00-05:00 ", 1769850300),
        ("2026-01-31", 1769817600),
    ],
)
def test_timestamps_of_all_programs_are_read(text, since):
    """With and without a zone, a time, a fraction."""
    assert seconds(text) == pytest.approx(since)


@given(st.one_of(st.text(), st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.Z+-]*)?", fullmatch=True)))
def test_what_is_no_time_is_none_and_no_crash(text):
    """Whatever a file says."""
    found = seconds(text)
    assert found is None or isinstance(found, float)
    assert isinstance(ago(found), str)


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "2026-01-32", "\u0662026-01-31", "12345"])
def test_an_impossible_time_has_no_age(text):
    """It is nothing, and not the beginning of all times."""
    assert seconds(text) is None
    assert ago(seconds(text)) == ""


@pytest.mark.parametrize(
    ("age", "words"),
    [
        (0, "just now"),
        (59, "just now"),
        (-59, "just now"),
        (60, "1 min ago"),
        (3599, "59 min ago"),
        (7200, "2 h ago"),
        (86_399, "23 h ago"),
        (3 * 86_400, "3 d ago"),
        (29.9 * 86_400, "29 d ago"),
        (60 * 86_400, "2 mo ago"),
        (364 * 86_400, "12 mo ago"),
        (800 * 86_400, "2 y ago"),
        (-7200, "in 2 h"),
    ],
)
def test_an_age_is_a_number_and_a_unit(age, words):
    """The largest that fits; ahead of us where clocks disagree."""
    assert ago(NOW - age, NOW) == words


def test_an_unknown_time_is_no_age():
    """Which is what 0 stands for."""
    assert ago(0) == ago(0.0) == ago(None) == ""


@given(st.floats(0, 4e9), st.floats(0, 4e9))
def test_ages_fit_in_eleven_columns(then, now):
    """So that a table can count on it."""
    assert len(ago(then, now)) <= 11
