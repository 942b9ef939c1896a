"""An entry's line and its preview: as wide as there is space, and nothing in them that is not seen."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth

from perdure.front import tree_lines
from perdure.front.branches import Row
from perdure.front.cells import Fragments
from perdure.front.visible import visible, width
from perdure.session.entry import Entry
from perdure.testing import assistant_entry, tool_call_entry, tool_result_entry, user_entry
from tests.generated import sessions, texts

FAMILY = "👩‍👩‍👧"
columns = st.integers(0, 90)


def plain(line: Fragments) -> str:
    return "".join(text for _, text in line)


def is_fit(line: Fragments, columns: int) -> bool:
    """For a terminal of so many columns, by its count and by prompt_toolkit's."""
    text = plain(line)
    is_seen = visible(text) == text and "\n" not in text and "\t" not in text
    return is_seen and width(text) <= columns and get_cwidth(text) <= columns


@given(
    row=st.builds(
        Row,
        lead=st.sampled_from(["", "├─ ", "⋯  │  │  └─ "]),
        id=texts,
        speaker=texts | st.just("user"),
        text=texts,
        tools=st.integers(0, 2000),
        timestamp=texts | st.just("2026-01-31T09:05:00.123Z"),
        label=texts,
        is_head=st.booleans(),
        is_left=st.booleans(),
    ),
    columns=columns,
)
@example(Row("", "a", "user", FAMILY * 40, 3, "", FAMILY * 9, True, False), 80)
def test_a_line_is_never_wider_than_the_screen(row, columns):
    """Nor does it hold anything that a terminal obeys; and where one is, is said while there is space."""
    drawn = tree_lines.line(row, columns)
    assert is_fit(drawn, columns)
    assert is_fit(tree_lines.chosen(drawn, columns), columns)
    if row.is_head and columns >= 60:
        assert plain(drawn).endswith("● here")
        assert get_cwidth(plain(drawn)) == columns


@given(entries=sessions(), columns=columns, lines=st.integers(0, 20))
def test_a_preview_is_never_larger_than_its_place(entries, columns, lines):
    """Whatever was said."""
    for entry in entries:
        if entry.type != "label":
            shown = list(tree_lines.preview([entry], {entry.id: "\x1b"}, columns, lines))
            assert len(shown) <= max(lines, 1)
            assert all(is_fit(line, columns) for line in shown)


@given(text=texts, columns=st.integers(12, 40))
@example("a" * 50 + " " + "b" * 50, 20)
@example(f"{FAMILY} " * 20, 9)
@example("\tindented " * 9, 12)
@example("words … and … more words …", 9)
def test_a_preview_breaks_lines_and_loses_no_word(text, columns):
    """Between words where it can; what is left out at a break is blank."""
    shown = list(tree_lines.preview([user_entry(text)], {}, columns, 1000))[1:]
    assert "".join("".join(map(plain, shown)).split()) == "".join(visible(text.replace("\r\n", "\n")).split())


def test_a_preview_breaks_between_words():
    """And a word that is too long where it must."""
    shown = [plain(line) for line in tree_lines.preview([user_entry("one two three fourfivesix")], {}, 9, 9)]
    assert shown[1:] == ["one two", "three", "fourfive", "six"]


def test_a_preview_says_who_when_and_what_was_called():
    """With the beginning of each answer."""
    call = tool_call_entry("bash", {"command": "make test"})
    result = tool_result_entry("\n".join(f"line {number}" for number in range(9)))
    head, *told = [plain(line) for line in tree_lines.preview([call, result], {call.id: "run"}, 80, 20)]
    assert head.startswith("assistant  ")
    assert "“run”" in head
    assert head.endswith(call.id)
    assert told == ["▸ bash  make test", "  line 0", "  line 1", "  line 2"]
    thinking = Entry.message("assistant", [{"type": "thinking", "thinking": "hm"}], stopReason="aborted")
    assert [plain(line) for line in tree_lines.preview([thinking], {}, 80, 9)][1:] == [
        "(thinking) hm",
        "interrupted",
    ]
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    seen = tree_lines.preview([Entry.message("user", [image])], {}, 80, 9)
    assert [plain(line) for line in seen][1:] == ["[image/png, 2 B]"]
    ran = Entry.message("bashExecution", "", command="ls", output="a.py")
    assert [plain(line) for line in tree_lines.preview([ran], {}, 80, 9)][1:] == ["$ ls", "a.py"]


@pytest.mark.slow
def test_of_a_long_text_only_the_beginning_is_looked_at():
    """Thirty million letters cost no more than a page of them."""
    shown = list(tree_lines.preview([assistant_entry("x " * 15_000_000)], {}, 40, 5))
    assert [plain(line) for line in shown][1:] == ["x " * 19 + "x"] * 4
