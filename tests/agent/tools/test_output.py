"""What a model gets to read of a long text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.tools.output import BYTES, LINES, count_lines, head, tail

CHARACTERS = ["a", "é", "水", "\U0001f600", "\n", "\r", "\x0c", "\u2028", "\ud800", "\x00"]
texts = st.lists(st.sampled_from(CHARACTERS)).map("".join)
bounds = st.tuples(st.integers(1, 8), st.integers(1, 24))


def size(text):
    return len(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("cut", [head, tail])
@given(text=texts, bound=bounds)
def test_bounded_text_never_exceeds_the_limits_and_counts_itself(cut, text, bound):
    """Lines and bytes stay within the bounds, and the counts are those of the texts."""
    lines, most = bound
    shown = cut(text, lines=lines, size=most)
    assert size(shown.text) <= most
    assert count_lines(shown.text) == shown.shown_lines <= lines or (shown.partial and shown.shown_lines == 1)
    assert shown.total_lines == count_lines(text)


@pytest.mark.parametrize("cut", [head, tail])
@given(text=texts, bound=bounds)
def test_bounded_text_is_the_text_if_and_only_if_that_fits(cut, text, bound):
    """Whatever fits is not touched, and `by` says what did not fit."""
    lines, most = bound
    shown = cut(text, lines=lines, size=most)
    assert (shown.by is None) == (not shown.truncated) == (shown.text == text)
    assert shown.truncated == (size(text) > most or count_lines(text) > lines)


@given(text=texts, bound=bounds)
def test_head_is_as_many_whole_first_lines_as_fit(text, bound):
    """A beginning of the text, cut after a line, to which no further line could be added."""
    lines, most = bound
    shown = head(text, lines=lines, size=most)
    assert text.startswith(shown.text)
    if shown.truncated:
        assert shown.text == "" or shown.text.endswith("\n")
        rest = text[len(shown.text) :].split("\n")
        following = shown.text + rest[0] + ("\n" if len(rest) > 1 else "")
        assert count_lines(following) > lines or size(following) > most
        assert shown.by == ("lines" if shown.shown_lines == lines else "bytes")


@given(text=texts, bound=bounds)
def test_tail_is_as_many_whole_last_lines_as_fit(text, bound):
    """An end of the text that begins with a line, unless the last line alone is too long: then its end."""
    lines, most = bound
    shown = tail(text, lines=lines, size=most)
    assert text.endswith(shown.text)
    before = text[: len(text) - len(shown.text)]
    if shown.partial:
        last = text.removesuffix("\n").rpartition("\n")[2] + "\n" * text.endswith("\n")
        assert size(last) > most
        assert last.endswith(shown.text)
        assert size(before[-1] + shown.text) > most
    elif shown.truncated:
        assert before.endswith("\n")
        wider = before.removesuffix("\n").rpartition("\n")[2] + "\n" + shown.text
        assert count_lines(wider) > lines or size(wider) > most
        assert shown.by == ("lines" if shown.shown_lines == lines else "bytes")


@pytest.mark.parametrize("cut", [head, tail])
def test_the_limits_are_2000_lines_or_50_kb(cut):
    """One line and one byte more is too much."""
    assert (LINES, BYTES) == (2000, 51_200)
    assert cut("x\n" * 2000).by is None
    assert cut("x\n" * 2001).by == "lines"
    assert cut("x" * 51_200).by is None
    assert cut("x" * 51_201).by == "bytes"
    assert cut("é\n" * 3000).shown_lines == 2000
    assert cut(("é" * 50 + "\n") * 1000).shown_lines == 51_200 // 101


def test_a_line_that_is_too_long_shows_its_end_in_a_tail_and_nothing_in_a_head():
    """Both are told apart from an empty text by the counts."""
    text = "first\n" + "é" * 40_000
    assert head(text[6:]).text == ""
    assert head(text[6:]).total_lines == 1
    shown = tail(text)
    assert (shown.text, shown.partial, shown.shown_lines, shown.total_lines) == ("é" * 25_600, True, 1, 2)
