"""Markdown as it arrives: nothing is lost, what is finished stays as it would be in the whole, and the work
for each piece does not grow with the answer."""

import random
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from perdure.front import streaming
from perdure.front.laid_out import Layout
from perdure.front.streaming import BOUND, CODE_LINES, Block, Blocks
from tests.front import answers

LAYOUT = Layout(80, has_colour=False)


def blocks(text: str, pieces: Sequence[str] = ()) -> list[Block]:
    stream = Blocks()
    return [block for piece in pieces or [text] for block in stream.add(piece)] + stream.end()


lines_of = cache(LAYOUT.lines)


def laid_out(finished: Sequence[Block]) -> list[str]:
    """As a shell prints them, one after the other."""
    printed: list[str] = []
    for block in finished:
        lines = lines_of(block.markdown)
        printed += [""] * (block.is_apart and bool(lines)) + lines
    return printed


@contextmanager
def bound(characters: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "BOUND", characters)
        yield


# --- the laws -----------------------------------------------------------------------------------------

MARKS = [
    *("# ", "- ", "1. ", "2) ", "> ", "```", "~~~", "````", "    ", "  ", "\t", "| a | b |", "|---|---|"),
    *("---", "===", "***", "text", "two words", "*", "`", "\n", "\n\n", "\r\n", "\r", "\x0c", "\0", "\u2028"),
    *("e\u0301", "👩\u200d👧", "\ud83d", "\ude00", "日本", "\\", "<b>", "&amp;"),
]
TEXTS = st.lists(st.sampled_from(MARKS) | st.text(max_size=5), max_size=40).map("".join)
BOUNDS = st.sampled_from([16, 50, BOUND])


@given(TEXTS, BOUNDS, st.randoms(use_true_random=False))
def test_blocks_are_the_text_however_it_came(text, characters, chance):
    """No character is lost, and where the text is cut does not depend on how it arrived."""
    with bound(characters):
        whole = blocks(text)
        assert "".join(block.source for block in whole) == text
        assert blocks(text, [*text]) == whole
        ends = sorted(chance.randrange(len(text) + 1) for _ in range(5))
        assert blocks(text, [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]) == whole


@given(TEXTS, BOUNDS)
def test_what_is_open_is_bounded_and_is_the_rest(text, characters):
    """What is finished and what is open are the text so far, at every moment."""
    with bound(characters):
        stream = Blocks()
        done = ""
        for at, character in enumerate(text, 1):
            done += "".join(block.source for block in stream.add(character))
            assert len(stream.open.source) <= characters
            assert done + stream.open.source == text[:at]
        stream.end()
        assert stream.open == Block("", "", False)


@pytest.mark.parametrize(
    "unit", ["x", "x y ", "- ", "> > ", "# ", "`", "~", "|", "\n", " ", "\t", "\r", "e\u0301"]
)
def test_no_text_stays_open(unit):
    """Whatever it repeats, and however long it is, a line or none."""
    text = unit * (3 * BOUND)
    stream = Blocks()
    finished = []
    for at in range(0, len(text), 997):
        finished += stream.add(text[at : at + 997])
        assert len(stream.open.source) <= BOUND
    finished += stream.end()
    assert "".join(block.source for block in finished) == text


@given(
    st.sampled_from(["```", "````", "~~~", "~~~~~"]),
    st.sampled_from(["", "py", " python title", "c++", "a\\*b &amp; c"]),
    st.sampled_from(["", " ", "   "]),
    st.lists(
        st.sampled_from(
            ["", "x", "  y", "``", "~~", "    ```", "    ~~~~", "\tz", "word " * 20, "```x", "\r"]
        ),
        max_size=80,
    ),
    st.sampled_from([100, BOUND]),
)
def test_each_part_of_a_fence_is_a_fence(mark, info, indent, code, characters):
    """One with the same info string, and together they hold all of the code."""
    parser = MarkdownIt("commonmark")
    text = "\n".join(f"{indent}{line}" for line in [mark + info, *code, mark, ""])
    (whole,) = parser.parse(text)
    with bound(characters):
        shown = [block.markdown for block in blocks(text) if block.markdown]
    held = ""
    for part in shown:
        (fence,) = parser.parse(part)
        assert (fence.type, fence.info) == ("fence", whole.info)
        held += fence.content
    assert "".join(held.split()) == "".join(whole.content.split())


LINES = [
    *(
        "",
        "",
        "text *a*",
        "more `b`",
        "- item *x*",
        "- item",
        "* star",
        "+ plus",
        "1. one",
        "2. two",
        "1) one",
    ),
    *("```", "```py", "~~~", "`````", "> quote *q*", "> - in a quote", "# head", "## head *s*", "---", "***"),
    *("===", "--", "* * *", "| a | b |", "|---|---|", "| 1 | 2 |", "a | b", "- - deep *d*", "1. - mixed"),
    *(
        "- ```",
        "- > quote",
        "- # head",
        "-     code",
        "- | a | b |",
        "- ---",
        "<div>",
        "[x](http://a.b)",
        "x\\",
    ),
]
INDENTS = ["", "", "", " ", "  ", "   ", "    ", "      ", "\t"]


@given(st.lists(st.tuples(st.sampled_from(INDENTS), st.sampled_from(LINES)).map("".join), max_size=12))
def test_blocks_look_as_the_whole_does(lines):
    """Whatever stands below whatever, as long as no bound cuts it. The heading makes it Markdown: plain text
    is laid out as it stands."""
    text = "\n".join(["# title", "", *lines, ""])
    assert laid_out(blocks(text)) == LAYOUT.lines(text)


# --- answers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", answers.ALL)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_answer_looks_as_the_whole_does(name, end):
    """With either kind of line end, which are not shown."""
    text = answers.ALL[name]
    assert laid_out(blocks(text.replace("\n", end))) == LAYOUT.lines(text)


@pytest.mark.parametrize("name", answers.ALL)
def test_at_every_moment_an_answer_looks_as_far_as_it_has_come(name):
    """What was finished stands above what is open as it will in the end; lines of which it is not certain
    what they are may be missing."""
    text = answers.ALL[name]
    stream, finished = Blocks(), list[Block]()
    end = laid_out(blocks(text))
    for at in range(0, len(text), 13):
        finished += stream.add(text[at : at + 13])
        above = laid_out(finished)
        assert above == end[: len(above)]
        below = laid_out([*finished, stream.open])
        assert below[: len(above)] == above
        assert len(below) <= len(end) + 3


def test_long_lists_and_headings_do_not_stay_open():
    """An item is finished when the next one is there, a heading at its line's end, text at a blank line."""
    stream = Blocks()
    assert stream.add("# Title\n") == [Block("# Title\n", "# Title", False)]
    assert stream.add("text\n") == []
    assert stream.add("\n") == [Block("text\n\n", "text", True)]
    assert stream.add("1. one\n\n   more\n") == []
    assert stream.add("2. two\n") == [Block("1. one\n\n   more\n", "1. one\n\n   more", True)]
    assert stream.add("\n") == []
    assert stream.add("text\n") == [Block("2. two\n\n", "2. two", False)]
    assert stream.add("====\n") == [Block("text\n====\n", "text\n====", True)]
    assert stream.open == Block("", "", False)


def test_a_list_of_many_numbers_is_aligned_item_by_item():
    """By design: how wide the numbers get is not known when the first items are printed."""
    text = "".join(f"{number}. item\n" for number in range(1, 13))
    assert [line.split() for line in laid_out(blocks(text))] == [line.split() for line in LAYOUT.lines(text)]
    assert laid_out(blocks(text))[0] == " 1 item"
    assert LAYOUT.lines(text)[0] == "  1 item"


# --- the open block -----------------------------------------------------------------------------------


def test_an_open_fence_is_closed():
    """So that what is laid out below it is not code; a mark that may close it is not shown as code."""
    stream = Blocks()
    stream.add("- item\n  ~~~py\n  x = 1\n  y")
    assert stream.open == Block(
        "- item\n  ~~~py\n  x = 1\n  y", "- item\n  ~~~py\n  x = 1\n  y\n  ~~~", False
    )
    stream.add("\n  ~~")
    assert stream.open.markdown == "- item\n  ~~~py\n  x = 1\n  y\n  ~~~"
    stream.add("x")
    assert stream.open.markdown.endswith("\n  ~~x\n  ~~~")


def test_text_is_no_heading_while_a_list_begins_below_it():
    """`-` may underline it, or be the first mark of a list."""
    stream = Blocks()
    stream.add("Steps:\n-")
    assert stream.open == Block("Steps:\n-", "Steps:", False)
    assert stream.add(" one\n") == [Block("Steps:\n", "Steps:", False)]
    assert stream.open == Block("- one\n", "- one", True)


def test_half_a_line_end_is_not_shown():
    """The other half comes with the next piece."""
    stream = Blocks()
    stream.add("text\r")
    assert stream.open == Block("text\r", "text", False)


# --- what the bound cuts ------------------------------------------------------------------------------

CODE = [f"line {number}" if number % 10 else "" for number in range(1, 4 * CODE_LINES)]


@pytest.mark.parametrize("indent", ["", "1. item\n\n   ", "- item\n  - inner\n    "])
def test_long_code_looks_as_the_whole_does(indent):
    """Also in an item of a list, at the column where it began. Without colours: what a string over many lines
    is coloured like is lost to the part below."""
    at = " " * len(indent.rpartition("\n")[2])
    code = "\n".join(f"{at}{line}" if line else "" for line in CODE)
    text = f"{indent}```py\n{code}\n{at}```\n"
    finished = blocks(text)
    assert len(finished) == 4
    assert [line for line in finished[1].markdown.split("\n") if "```" in line] == ["```py", "```"]
    assert laid_out(finished) == LAYOUT.lines(text)


def test_a_mark_that_closes_long_code_shows_nothing():
    """It is a block all the same: nothing that was said is missing."""
    text = "```\n" + "x\n" * (CODE_LINES + 1) + "```\ntext\n"
    assert [block[1:] for block in blocks(text)][1:] == [("", False), ("text", True)]


def test_short_code_is_one_block():
    """However often a line comes by itself."""
    text = "```\n" + "x\n" * CODE_LINES + "```\n"
    assert blocks(text, [*text]) == [Block(text, text.rstrip(), False)]


@pytest.mark.slow
def test_the_head_of_a_long_table_stands_above_each_part():
    """By design it is seen more than once; all rows are there once."""
    head = "| number | square |\n|-------:|-------:|\n"
    finished = blocks(head + "".join(f"| {n} | {n * n} |\n" for n in range(800)))
    assert len(finished) == 4
    assert all(block.markdown.startswith(head) for block in finished)
    rows = [line.split() for line in laid_out(finished)]
    assert [row for row in rows if row and row[0].isdigit()] == [[str(n), str(n * n)] for n in range(800)]


@pytest.mark.slow
def test_long_quotes_code_and_text_look_as_the_whole_does():
    """Where there are line ends to cut at."""
    for mark, line in [("> ", "quoted *line*"), ("    ", "code"), ("", "some *words* of text")]:
        text = "".join(f"{mark}{line} {number}\n" for number in range(700)) + "\n*end*\n"
        finished = blocks(text)
        assert len(finished) > 2
        assert laid_out(finished) == LAYOUT.lines(text)


@pytest.mark.slow
def test_what_goes_on_inside_an_item_is_no_code():
    """By design it stands at the left: Markdown has no way to go on with an item that was begun elsewhere."""
    text = "- top\n" + "".join(f"  - inner *{number}*\n    - innermost\n" for number in range(300))
    finished = blocks(text)
    assert len(finished) > 2
    assert [line.strip() for line in laid_out(finished)] == [line.strip() for line in LAYOUT.lines(text)]


def test_an_endless_line_is_cut_before_words():
    """And no word begins what would be a heading, a list or code."""
    chance = random.Random(1)
    words = [chance.choice(["word", "#", "1.", "-", ">", "    ", "it's"]) for _ in range(5000)]
    finished = blocks(" ".join(words))
    assert len(finished) > 3
    assert all(block.source[0].isalpha() and not block.is_apart for block in finished[1:])


@pytest.mark.parametrize("character", ["e\u0301\u0323", "👩\u200d👩\u200d👧", "👍\U0001f3fd", "\ud83d\ude00"])
def test_no_character_is_cut(character):
    """As people see them."""
    for before in range(len(character)):
        finished = blocks("." * before + character * BOUND)
        assert len(finished) > 2
        assert all(block.source.endswith(character) for block in finished)


def test_marks_without_end_are_cut_all_the_same():
    """A character of 8,000 marks is nobody's."""
    text = "e" + "\u0301" * (2 * BOUND)
    assert unicodedata.category(text[1]) == "Mn"
    assert len(blocks(text)) == 3


# --- the work -----------------------------------------------------------------------------------------


def work(text: str, size: int) -> int:
    """How many functions are called while the text comes in, and how many characters they are given."""
    done = 0

    def count(frame, event, _argument):
        nonlocal done
        if event == "call":
            names = frame.f_code.co_varnames[: frame.f_code.co_argcount]
            given = [frame.f_locals[name] for name in names]
            done += 1 + sum(len(each) for each in given if isinstance(each, str | list))
        elif event == "c_call":
            done += 1

    stream = Blocks()
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for at in range(0, len(text), size):
            stream.add(text[at : at + size])
        stream.end()
    finally:
        sys.setprofile(before)
    return done


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "unit"),
    [
        ("", answers.MIXED),
        ("```\n", "x = 1\n"),
        ("", "word "),
        ("", "- an item of a list\n"),
        ("- item\n", "  - an inner item of a list\n"),
        ("| a | b |\n|---|---|\n", "| 1 | 2 |\n"),
    ],
    ids=["mixed", "code", "line", "list", "item", "table"],
)
def test_the_work_for_a_piece_does_not_grow_with_the_answer(start, unit):
    """In a long one a character costs what it costs in a short one, also in pieces of four characters."""
    short, long = (start + unit * (size // len(unit)) for size in (2 * BOUND, 8 * BOUND))
    assert work(long, 4) / len(long) < 1.05 * work(short, 4) / len(short)
