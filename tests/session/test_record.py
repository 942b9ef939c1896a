"""JSON taken apart without being changed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.session.record import dumps, elements
from tests.generated import json_values


@given(st.lists(json_values, max_size=4), st.sampled_from([b"", b" ", b"\r\n\t "]))
def test_an_array_is_taken_apart_and_nothing_of_it_changes(values, gap):
    """Also where it holds what the quick decoder refuses, and blanks between its elements."""
    parts = [dumps(value) for value in values]
    assert elements(b"[" + gap + (gap + b"," + gap).join(parts) + gap + b"]") == parts


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"[", b"[1", b"[1,]", b"[,1]", b"[1 2]", b"{}", b"1", b"[]]"),
        *(
            b'["\\ud800"',
            b'["\\ud800",]',
            b'["\\ud800"] 1',
            b'["\\ud800" 1]',
            b'{"a":"\\ud800"}',
            b'"\\ud800"',
        ),
        b"[" * 100_000,
    ],
    ids=lambda raw: ascii(raw[:20]),
)
def test_what_is_no_array_has_no_elements(raw):
    """Nothing is made of half of one."""
    with pytest.raises(ValueError, match=r"."):
        elements(raw)
