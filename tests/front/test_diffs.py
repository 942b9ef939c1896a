"""What a tool changed, in lines: ours and the original pi's, and nothing at all from what is no diff."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.tools.replacing import changes
from perdure.front.diffs import Line, lines, summary
from perdure.front.visible import visible

OLD = "".join(f"line {number}\n" for number in range(1, 31))
NEW = OLD.replace("line 8\n", "line eight\n\tand more\n").replace("line 25\n", "")

# What the original pi says of the same change.
ORIGINAL = {
    "diff": "    ...\n  6 line 6\n  7 line 7\n- 8 line 8\n+ 8 line eight\n+ 9 \tand more\n  9 line 9\n"
    " 10 line 10\n    ...\n 23 line 23\n 24 line 24\n-25 line 25\n 26 line 26\n 27 line 27\n    ...",
    "patch": "--- f\n+++ f\n@@ -6,5 +6,6 @@\n line 6\n line 7\n-line 8\n+line eight\n+\tand more\n line 9\n"
    " line 10\n@@ -23,5 +24,4 @@\n line 23\n line 24\n-line 25\n line 26\n line 27\n",
    "firstChangedLine": 8,
}


def test_our_diff_has_signs_numbers_and_colours():
    """Removed lines have the number they had, all others the one they have."""
    details = changes(OLD, NEW, "f")
    assert lines(details, {}) == [
        Line("  5 line 5", "dim"),
        Line("  6 line 6", "dim"),
        Line("  7 line 7", "dim"),
        Line("- 8 line 8", "red"),
        Line("+ 8 line eight", "green"),
        Line("+ 9     and more", "green"),
        Line(" 10 line 9", "dim"),
        Line(" 11 line 10", "dim"),
        Line(" 12 line 11", "dim"),
        Line("    …", "dim"),
        Line(" 23 line 22", "dim"),
        Line(" 24 line 23", "dim"),
        Line(" 25 line 24", "dim"),
        Line("-25 line 25", "red"),
        Line(" 26 line 26", "dim"),
        Line(" 27 line 27", "dim"),
        Line(" 28 line 28", "dim"),
    ]
    assert summary(details) == "+2 -2"


@pytest.mark.parametrize("details", [ORIGINAL, {"patch": ORIGINAL["patch"]}], ids=["diff", "patch"])
def test_the_original_pis_says_the_same(details):
    """In its own form, or in a patch if there is nothing else."""
    ours = changes(OLD, NEW, "f")
    assert changed(lines(details, None)) == changed(lines(ours, None))
    assert Line("    …", "dim") in lines(details, None)
    assert summary(details) == "+2 -2"


def changed(shown: list[Line]) -> list[Line]:
    return [line for line in shown if line.style in ("green", "red")]


def test_a_line_that_looks_like_a_header_is_a_line():
    """What stands in a hunk is content, whatever it says."""
    details = changes("-- a\n@@ -1 +1 @@\n", "++ b\n@@ -1 +1 @@\n", "f")
    assert lines(details, {}) == [
        Line("-1 -- a", "red"),
        Line("+1 ++ b", "green"),
        Line(" 2 @@ -1 +1 @@", "dim"),
    ]


def test_a_missing_line_end_is_told():
    """It may be all that changed."""
    assert lines(changes("a", "a\n", "f"), {}) == [
        Line("-1 a", "red"),
        Line("   (No newline at end of file)", "dim"),
        Line("+1 a", "green"),
    ]


def test_a_carriage_return_is_seen_only_where_it_changed():
    """A file that has them everywhere has them in every line."""
    everywhere = lines(changes("a\r\nb\r\n", "a\r\nc\r\n", "f"), {})
    assert [line.text for line in everywhere] == [" 1 a", "-2 b", "+2 c"]
    assert [line.text for line in lines(changes("a\r\n", "a\n", "f"), {})] == ["-1 a\\x0d", "+1 a"]


def test_a_new_file_is_its_content():
    """There is no diff of it; what was written is in the arguments."""
    details = {"isNew": True}
    assert lines(details, {"path": "f", "content": "a\n\n\tb\n"}) == [
        Line("+1 a", "green"),
        Line("+2 ", "green"),
        Line("+3     b", "green"),
    ]
    assert summary(details) == "new file"
    assert lines(details, {"content": ""}) == lines(details, {}) == lines(details, None) == []
    assert lines({"isNew": False}, {"content": "a"}) == []


def test_only_the_first_lines_are_shown_and_the_rest_is_counted():
    """Unless all of them fit."""
    details = changes("a\n", "".join(f"{number}\n" for number in range(1000)), "f")
    shown = lines(details, {}, most=3)
    assert [line.text for line in shown] == ["-   1 a", "+   1 0", "+   2 1", "… 998 more lines"]
    assert shown[-1].style == "dim"
    new = {"isNew": True}
    assert [line.text for line in lines(new, {"content": "a\nb\n"}, most=1)] == ["+1 a", "… 1 more line"]
    assert [line.text for line in lines(new, {"content": "a\nb\n"}, most=2)] == ["+1 a", "+2 b"]


def test_a_diff_that_was_cut_says_so_and_counts_nothing():
    """Its header says how much there was."""
    details = changes("", "".join(f"{number}\n" for number in range(4000)), "f")
    assert lines(details, {})[-1] == Line("… and more, which was not kept", "dim")
    assert summary(details) == ""


def test_nothing_changed_is_nothing_to_show():
    """Where a file was written that was the same before."""
    details = {"isNew": False, **changes("a\n", "a\n", "f")}
    assert lines(details, {"content": "a\n"}) == []
    assert summary(details) == ""


PIECES = [
    *(
        "@@ -1,2 +1,3 @@",
        "@@ -0,0 +1 @@",
        "@@ -9",
        "--- a/f",
        "+++ b/f",
        "+added",
        "-removed",
        " kept",
        "",
        "\\ No",
    ),
    *(
        "+12 x",
        "- 3 y",
        "    ...",
        " 4 z",
        "Index: f",
        "\x1b[31mred",
        "\u202eevil",
        "\t\t",
        "\r",
        "99999999999 x",
    ),
]
DIFFS = st.lists(st.sampled_from(PIECES) | st.text(max_size=4), max_size=12).map("\n".join)
NONSENSE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=4,
)
DETAILS = NONSENSE | st.fixed_dictionaries(
    {},
    optional={
        "diff": DIFFS | NONSENSE,
        "patch": DIFFS | NONSENSE,
        "isNew": st.booleans() | NONSENSE,
        "firstChangedLine": NONSENSE,
    },
)
ARGUMENTS = NONSENSE | st.fixed_dictionaries({"content": DIFFS | NONSENSE})


@given(DETAILS, ARGUMENTS, st.integers(-1, 5))
def test_whatever_the_details_are_lines_are_fit_for_a_terminal(details, arguments, most):
    """One line each, nothing in it that a terminal obeys, no colours of its own, no more than asked for."""
    shown = lines(details, arguments, most=most)
    for text, style in shown:
        assert visible(text) == text
        assert not {"\n", "\t"} & {*text}
        assert style in ("green", "red", "dim", "")
    assert most <= 0 or len(shown) <= most + 1
    assert isinstance(summary(details), str)


@given(
    st.lists(st.sampled_from(["a", "b", "\tc", ""]), max_size=30),
    st.lists(st.sampled_from("abd"), max_size=30),
)
def test_every_added_and_removed_line_is_shown(old, new):
    """Those removed are taken away, those added are there: the numbers tell where."""
    before, after = ("".join(f"{line}\n" for line in each) for each in (old, new))
    shown = lines(json.loads(json.dumps(changes(before, after, "f"))), {})
    width = max((len(str(numbered(line))) for line in shown if "…" not in line.text), default=0)
    for line in shown:
        if line.style != "dim":
            said = (old if line.style == "red" else new)[numbered(line) - 1]
            assert line.text == f"{line.text[0]}{line.text[1:].split()[0]:>{width}} {said.expandtabs(4)}"
    kept = [*old]
    for number in sorted((numbered(line) for line in shown if line.style == "red"), reverse=True):
        del kept[number - 1]
    for line in shown:
        if line.style == "green":
            kept.insert(numbered(line) - 1, new[numbered(line) - 1])
    assert kept == new


def numbered(line: Line) -> int:
    return int(line.text[1:].split()[0])
