"""A table of ten thousand rows is made column by column, and looks as if it were made cell by cell."""

import io

from hypothesis import given
from hypothesis import strategies as st

from perdure.front.output import Output, Styled
from perdure.front.table import table
from perdure.front.visible import one_line, pad, width

PLAIN = ["", "a", "to do", "2026-01-31"]
ODD = ["é", "会話", "two  blanks", "a\tb\n", "\x1b[31m", "\u202e", "👩\u200d💻", "\u0301", "\udc80", " end "]
CELLS = st.sampled_from(PLAIN) | st.sampled_from([*PLAIN, *ODD])


def shown(rows: list[tuple[str | Styled, ...]], encoding: str = "utf-8", **settings) -> str:
    written = io.BytesIO()
    out = Output(stdout=io.TextIOWrapper(written, encoding=encoding))
    table(out, ("ID", "TITLE", "SIZE"), rows, flexible=1, **settings)
    out.flush()
    return written.getvalue().decode(encoding)


@given(rows=st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=5), right=st.sets(st.integers(0, 2)))
def test_every_line_is_its_cells_each_cleaned_and_padded_by_itself(rows, right):
    """However many of the others in its column are plain."""
    lines = [[one_line(cell) for cell in row] for row in [("ID", "TITLE", "SIZE"), *rows]]
    widths = [max(map(width, column)) for column in zip(*lines, strict=True)]
    expected = ""
    for line in lines:
        cells = [pad(cell, widths[at], right=at in right) for at, cell in enumerate(line)]
        expected += "  ".join([*cells[:-1], cells[-1].rstrip()]) + "\n"
    assert shown(rows, right=[*right]) == expected


def test_what_is_said_below_a_row_stands_below_that_row():
    """And below no other."""
    text = shown([("a", "first", "1"), ("b", "second", "2")], below=["", "damaged\n\x1b[31m"])
    assert text == "ID  TITLE   SIZE\na   first   1\nb   second  2\n    ! damaged \\x1b[31m\n"


def test_only_lines_that_cannot_be_written_are_escaped():
    """A character that the terminal's encoding does not know changes no line but its own."""
    text = shown([("1", "café", "x"), ("2", "café 会話", "y")], "latin-1")
    assert text.splitlines()[1:] == ["1   café       x", "2   caf\\xe9 \\u4f1a\\u8a71  y"]
