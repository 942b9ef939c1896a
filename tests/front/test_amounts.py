"""Amounts: short, in the unit that fits, and never more than there is room for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.front.amounts import counted, size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1234, "1.2 kB"),
        (9_949, "9.9 kB"),
        (9_950, "10 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (23_000_000, "23 MB"),
        (5 * 10**9, "5.0 GB"),
        (2 * 10**15, "2000 TB"),
    ],
)
def test_a_size_has_the_unit_that_fits(count, text):
    """Two digits that matter, or three."""
    assert size(count) == text


@given(st.integers(0, 10**14), st.integers(0, 10**14))
def test_sizes_fit_in_seven_columns_and_keep_their_order(one, other):
    """More bytes are never shown as fewer."""
    units = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}

    def shown(count: int) -> float:
        number, unit = size(count).split()
        return float(number) * units[unit]

    assert len(size(one)) <= 7
    assert (one <= other) <= (shown(one) <= shown(other))
    assert shown(one) == pytest.approx(one, rel=0.06)


def test_one_is_one():
    """And all else is many; very many are told in thousands."""
    assert [counted(number, "session") for number in (0, 1, 2)] == ["0 sessions", "1 session", "2 sessions"]
    assert [counted(number, "session") for number in (2000, 10**6)] == [
        "2,000 sessions",
        "1,000,000 sessions",
    ]
