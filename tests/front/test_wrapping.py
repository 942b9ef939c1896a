"""Lines that are wider than the terminal: wrapped at words, and nowhere else."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.front.output import Copyable, Styled, lines_of
from perdure.front.visible import width

WORDS = st.text(st.sampled_from("abcd`ßж語🙂.-"), min_size=1, max_size=30)
TEXTS = st.lists(WORDS, min_size=1, max_size=30).map(" ".join)
UNIT = re.compile(r"(?:`[^`]*`|[^ ])+")


def shown(*parts: str | Styled, columns: int) -> list[str]:
    return lines_of(parts, columns, colour=False)


@given(text=TEXTS, columns=st.integers(20, 90))
def test_no_word_and_nothing_between_backticks_is_broken(text, columns):
    """Every unit of the text is in one line, in its order; a line is too wide only where one unit is."""
    lines = shown(text, columns=columns)
    assert " ".join(lines) == text
    assert [unit for line in lines for unit in UNIT.findall(line)] == UNIT.findall(text)
    assert all(width(line) <= columns or len(UNIT.findall(line)) == 1 for line in lines)


@given(text=TEXTS, columns=st.integers(20, 90))
def test_no_line_could_take_the_next_word(text, columns):
    """As much is on each line as fits."""
    lines = shown(text, columns=columns)
    for line, following in pairwise(lines):
        assert width(f"{line} {UNIT.findall(following)[0]}") > columns


@given(before=TEXTS, command=TEXTS, columns=st.integers(20, 90))
def test_what_is_to_be_copied_is_on_one_line(before, command, columns):
    """However wide it is, and whatever stands before it."""
    lines = shown(f"{before.replace('`', '')} ", Copyable(command), columns=columns)
    assert lines[-1].endswith(command)
    assert lines_of([Copyable(f"  {command}", "dim")], columns, colour=False) == [f"  {command}"]


@pytest.mark.parametrize(
    ("parts", "lines"),
    [
        (["one two three four five six"], ["one two three four", "five six"]),
        (["  two blanks stay in front"], ["  two blanks stay in", "  front"]),
        (["/name  ", "what it does, in words"], ["/name  what it does,", "       in words"]),
        (["/name", "  what it does, in words"], ["/name  what it does,", "       in words"]),
        (["  /name  what it does, ok"], ["  /name  what it", "         does, ok"]),
        (["/a-rather-long-name  ", "what it does"], ["/a-rather-long-name", "    what it does"]),
        (["> ", "a message of some words"], ["> a message of some", "  words"]),
        (["Deleted ", "abc", "; restore it if you like"], ["Deleted abc; restore", "it if you like"]),
        (["first\nsecond, which is too long"], ["first", "second, which is too", "long"]),
        (["語語語語 語語語語 語語"], ["語語語語 語語語語", "語語"]),
        (["a tab\tis as wide as its place"], ["a tab\tis as wide as its place"]),
        (["x" * 50], ["x" * 50]),
        ([""], [""]),
    ],
)
def test_lines_are_laid_out_like_this(parts, lines):
    """At 20 columns: what follows the first line stands below what it goes on with."""
    assert shown(*parts, columns=20) == lines


def test_a_style_goes_on_in_the_next_line_and_is_ended_in_each():
    """So that a pager, or a line that is printed between them, is not coloured."""
    lines = lines_of([Styled("some words in red ", "red"), "and more"], 20, colour=True)
    assert [re.sub(r"\x1b\[\d*m", "", line) for line in lines] == ["some words in red", "and more"]
    assert all(line.count("\x1b[31m") == line.count("\x1b[m") for line in lines)


def test_without_a_number_of_columns_nothing_is_wrapped():
    """As through a pipe."""
    text = "word " * 100
    assert lines_of([text], 0, colour=False) == [text]
