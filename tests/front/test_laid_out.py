"""Text that is not marked up, in lines of a terminal."""

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.front.laid_out import Layout, is_marked
from perdure.front.markdown_lines import Place

WORDS = st.text("abc.", min_size=1, max_size=60)


@given(st.lists(WORDS, min_size=1, max_size=8), st.integers(1, 20))
def test_words_are_wrapped_as_python_wraps_them(words, columns):
    """Also those that are longer than a line, or than many."""
    text = " ".join(words)
    expected = textwrap.wrap(text, columns, break_on_hyphens=False)
    assert Layout(columns, has_colour=False).wrapped(text) == expected


@pytest.mark.slow
def test_a_word_of_many_megabytes_is_wrapped():
    """In steps that grow with its length: none of its lines copies the rest of it."""
    word = "x" * 2**24
    assert "".join(Layout(10, has_colour=False).lines(word)) == word


@pytest.mark.parametrize(("end", "is_one"), [("", False), ("a", False), ("- a", True), (" 1. a", True)])
def test_what_is_marked_up_is_found_behind_any_number_of_blank_lines(end, is_one):
    """In steps that grow with their number."""
    assert is_marked("\n" * 2**20 + end) == is_one


@pytest.mark.parametrize("end", ["", "x"])
def test_a_very_long_line_below_the_names_of_columns_is_read(end):
    """Whether or not it makes a table of them."""
    place = Place()
    place.read("a | b\n")
    assert place.read("| - | -" + " " * 2**20 + end) == (False, False)
    assert bool(place.head) == (not end)
