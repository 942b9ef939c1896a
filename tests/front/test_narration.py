"""What somebody typed, as it is shown again."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.front.narration import words

MARKS = ('<file name="a">', '<file name="', '">', "\n", "</file>", "\n</file>", "x")
FILE = re.compile(r'<file name="[^"\n]*">(?:\n.*?\n)?</file>\n?', re.DOTALL)


def test_files_that_were_named_are_no_words():
    assert words('<file name="a.md">\none\n</file>\n<file name="b"></file>\nwhat is this?') == "what is this?"


@given(st.lists(st.sampled_from(MARKS), max_size=14).map("".join))
def test_every_file_that_ends_is_left_out(text):
    assert words(text) == (FILE.sub("", text).strip("\n") or text)


@pytest.mark.parametrize("before", ["", "x\n</file>\n"])
def test_any_number_of_files_that_do_not_end_stay(before):
    """In steps that grow with their number."""
    text = before + '<file name="">\n' * 100_000 + "x"
    assert words(text) == text
