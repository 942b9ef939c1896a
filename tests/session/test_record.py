"""JSON taken apart without being changed."""

import copy
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.session.record import HugeNumber, dumps, elements, loads, loads_exactly, without_huge_numbers
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


@pytest.mark.parametrize("number", ["1e400", "-1E+400", "1.5e999", "9" * 5000])
def test_a_number_that_no_float_holds_is_written_as_it_was_read(number):
    """Whoever calculates with it has an infinite one, also after it was copied."""
    raw = b'{"a":[{"n":%b}],"b":1.5}' % number.encode()
    read = loads_exactly(raw)
    assert dumps(read) == raw
    huge = copy.deepcopy(read)["a"][0]["n"]
    assert isinstance(huge, HugeNumber)
    assert math.isinf(huge)
    assert (huge < 0) == number.startswith("-")
    assert type(without_huge_numbers(read)["a"][0]["n"]) is float
    beside_a_surrogate = b'{"a":[{"n":%b}],"s":"\\ud800 \xc3\xa9","x":null}' % number.encode()
    read = loads_exactly(beside_a_surrogate)
    assert dumps({**read, "x": float("nan")}) == beside_a_surrogate


@pytest.mark.parametrize("depth", [500, 900])
def test_what_is_nested_as_deeply_as_json_is_read_is_read_exactly(depth):
    raw = b'{"a":' + b"[" * depth + b"1e400" + b"]" * depth + b"}"
    plain = raw.replace(b"1e400", b"1")
    assert dumps(loads_exactly(plain)) == plain
    huge = loads_exactly(raw)["a"]
    for _ in range(depth):
        (huge,) = huge
    assert huge.text == "1e400"


@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_what_floats_hold_is_read_exactly_as_it_is_otherwise(value):
    raw = dumps(value)
    assert dumps(loads_exactly(raw)) == dumps(loads(raw))
