"""A line on as many lines as it takes."""

from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.utils import get_cwidth

from perdure.front.cells import folded, steady
from perdure.front.visible import one_line, width

texts = st.text() | st.text("ab 漢é👍🏽👨🇩🇪\u200d\ufe0f\u0301", max_size=60)


@given(st.lists(st.tuples(st.sampled_from(["", "bold"]), texts.map(one_line))), st.integers(2, 30))
def test_a_folded_line_loses_nothing_but_blanks(fragments, columns):
    """Every line fits, none is empty, and each character has the style it had."""
    lines = [*folded(fragments, columns)]
    assert all(0 < sum(get_cwidth(text) for _, text in line) <= columns for line in lines if drawn(line))
    assert all(lines)
    assert styled(part for line in lines for part in line) == styled(fragments)


def drawn(line) -> bool:
    """Not of marks alone, which have no columns."""
    return any(get_cwidth(character) for _, text in line for character in text)


def styled(fragments) -> list[tuple[str, str]]:
    return [(style, character) for style, text in fragments for character in text if character != " "]


def test_words_are_kept_whole_where_they_can_be():
    """One that is longer than a line has all of it, and goes on in the next."""
    lines = folded([("", "a few "), ("bold", "words"), ("", " and a verylongword")], 8)
    assert ["".join(text for _, text in line).rstrip() for line in lines] == [
        *("a few", "words", "and a", "verylong", "word")
    ]


@given(texts.map(one_line))
def test_no_two_characters_join(text):
    """To whoever measures them one by one, or together as a new terminal does, they are as wide as before."""
    shown = "".join(fragment[1] for fragment in steady([("", text)]))
    assert get_cwidth(shown) == get_cwidth(text)
    emoji = "".join(character for character in shown if character in "👍🏽👨👩🇩🇪DE ")
    assert width(emoji) == get_cwidth(emoji)
