"""What a model gets to read of a long text, and of a long result."""

import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.tools import BUILT_IN, AgentToolResult
from perdure.agent.tools.output import BYTES, LINES, count_lines, head, tail, within_limits
from perdure.registry import load
from perdure.session.entry import Image, Text

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


LONG = st.builds(lambda text, times: text * times, texts, st.sampled_from([0, 1, 3, 2000, 30_000]))
BLOCKS = st.lists(st.builds(Text, LONG) | st.builds(Image, texts, st.just("image/png")), max_size=4)


@given(BLOCKS, st.booleans())
def test_a_result_keeps_all_but_the_text_that_is_too_much(blocks, is_error):
    """Within the limits, remarks included, it is the same object, also when it was cut before."""
    result = AgentToolResult(blocks, {"any": 1}, is_error)
    shown = within_limits(result)
    texts = [block.text for block in shown.blocks if isinstance(block, Text)]
    assert sum(map(count_lines, texts)) <= LINES + 20
    assert sum(map(size, texts)) <= BYTES + 8 * 1024
    assert within_limits(shown) is shown
    assert (shown.details, shown.is_error) == (result.details, is_error)
    assert [b for b in shown.blocks if isinstance(b, Image)] == [b for b in blocks if isinstance(b, Image)]
    if shown is not result:
        *whole, last = texts
        cut, remark = last.rsplit("[", 1)
        given = [block.text for block in blocks if isinstance(block, Text)]
        assert whole == given[: len(whole)]
        assert given[len(whole)].startswith(cut.removesuffix("\n\n"))
        assert remark.endswith("is left out. Ask for less at once.]")


@pytest.mark.parametrize(
    ("text", "shown", "remark"),
    [
        ("x\n" * 5000, "x\n" * 1999 + "x", "2,000 of 5,000 lines are shown, 4,000 of 10,000 bytes"),
        ("x" * 5_000_000, "x" * 51_200, "1 of 1 lines are shown, 51,200 of 5,000,000 bytes"),
        ("é" * 60_000, "é" * 25_600, "1 of 1 lines are shown, 51,200 of 120,000 bytes"),
        ("_é" * 40_000, "_é" * 17_066 + "_", "1 of 1 lines are shown, 51,199 of 120,000 bytes"),
        (
            "{\n" + "é" * 60_000 + "\n}",
            "{\n" + "é" * 25_599,
            "2 of 3 lines are shown, 51,200 of 120,004 bytes",
        ),
        (
            ("x" * 99 + "\n") * 1000,
            ("x" * 99 + "\n") * 511 + "x" * 99,
            "512 of 1,000 lines are shown, 51,200 of 100,000 bytes",
        ),
    ],
    ids=["lines", "one line", "characters", "half a character", "a long line", "bytes"],
)
def test_of_a_result_that_is_too_long_the_beginning_is_shown(text, shown, remark):
    """Whole lines, unless one is so long that it would hide the rest; and how much there is."""
    assert (
        within_limits(AgentToolResult(text)).text
        == f"{shown}\n\n[{remark}; the rest is left out. Ask for less at once.]"
    )


def test_the_limits_are_for_all_texts_of_a_result_together():
    """Images stay where they are, and the remark stands where the text breaks off."""
    image = Image("", "image/png")
    texts = ["a\n" * 1500, "b\n" * 1500, "c"]
    result = AgentToolResult([image, Text(texts[0]), image, Text(texts[1]), image, Text(texts[2])])
    before, first, between, second, after = within_limits(result).blocks
    assert before == between == after == image
    assert first == Text(texts[0])
    assert isinstance(second, Text)
    assert second.text.startswith("b\n" * 499 + "b\n\n[2,000 of 3,001 lines are shown, 4,000 of 6,001 bytes;")


def lines_file(root):
    (root / "f").write_bytes(b"xxxx\xff\n" * 5000)


def bytes_file(root):
    (root / "f").write_bytes((b"xxxx\xff" * 120 + b"\n") * 1000)


def many_names(root):
    for number in range(2100):
        (root / f"{number}").touch()


def long_names(root):
    for number in range(300):
        (root / f"{number:03}{'x' * 240}").touch()


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "arguments", "made"),
    [
        ("read", {"path": "f"}, lines_file),
        ("read", {"path": "f"}, bytes_file),
        ("bash", {"command": "seq 5000; exit 3"}, None),
        ("bash", {"command": "seq 100000 199999; kill -9 $$"}, None),
        ("bash", {"command": "head -c 99999 /dev/zero | tr '\\0' x; exit 3"}, None),
        ("grep", {"pattern": "x", "limit": 4000}, lines_file),
        ("grep", {"pattern": "x", "limit": 4000, "context": 1}, bytes_file),
        ("find", {"pattern": "*", "limit": 4000}, many_names),
        ("find", {"pattern": "*"}, long_names),
        ("ls", {"limit": 4000}, many_names),
        ("ls", {"limit": 250}, long_names),
    ],
)
def test_what_a_built_in_tool_shows_at_its_limit_is_not_cut_again(
    tmp_path, monkeypatch, call, name, arguments, made
):
    """With all of its remarks, also one that names a file by a very long path."""
    if made:
        made(tmp_path)
    else:
        deep = tmp_path.joinpath(*["d" * 250] * 14)
        deep.mkdir(parents=True)
        monkeypatch.setattr(tempfile, "tempdir", str(deep))
    result = call(load(BUILT_IN[name]), **arguments)
    assert count_lines(result.text) > LINES or size(result.text) > BYTES - 1024
    assert result.text.endswith(("]", "code 3", "SIGKILL"))
    assert within_limits(result) is result
