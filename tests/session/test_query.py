"""What a person types is searched for, in every script, and is never a command to the index."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from perdure.errors import UsageError
from perdure.session.catalog import Catalog
from perdure.session.query import MARK, UNMARK, expression, readable, searchable

WORDS = ("alfa", "alfabet", "brav", "and", "or", "not", "near", "text", "said")
words = st.sampled_from(WORDS)


@contextlib.contextmanager
def index(*texts: str) -> Iterator[sqlite3.Connection]:
    """The catalog's own, with these texts in it."""
    with Catalog(os.sep) as catalog:
        for text in texts:
            catalog._db.execute(
                "INSERT INTO said (session, entry, role, text) VALUES (1, 'e', 'user', ?)",
                (searchable(text),),
            )
        yield catalog._db


def is_found(query: str, text: str) -> bool:
    with index(text) as db:
        return (
            db.execute("SELECT 1 FROM said WHERE said MATCH ?", (expression(query),)).fetchone() is not None
        )


def snippet(query: str, text: str) -> str:
    with index(text) as db:
        (cut,) = db.execute(
            "SELECT snippet(said, 3, ?, ?, '…', 16) FROM said WHERE said MATCH ?",
            (MARK, UNMARK, expression(query)),
        ).fetchone()
        return readable(cut)


# --- what it means ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "finds", "not_in"),
    [
        ("auth bug", "a bug in auth", "a bug in author"),
        ("Auth BUG", "auth: bug!", "auth"),
        ('"race condition"', "a race condition here", "a condition of the race"),
        ('"race condition', "a race condition here", "a condition of the race"),
        ("refresh*", "refreshing", "fresh"),
        ('"token refr"*', "the token refreshes", "token that refreshes"),
        ('"token refr*"', "token refr", "token refreshes"),
        ("src/auth.py", "in src/auth.py line 3", "auth py in src"),
        ("don't", "I don't know", "don the shirt"),
        ("naïve", "a naive idea", "native"),
        ("cafe\u0301", "das Café", "caf"),
        ("東京", "私は東京に住んでいます", "京の東"),
        ("入門", "Python入門2024年版", "門に入る"),
        ("2024年", "Python入門2024年版", "年2024"),
        ("日々", "日々の生活", "日の々"),
        ("한국", "대한민국 한국어", "국한"),
        ("กรุงเทพ", "ฉันอยู่กรุงเทพมหานคร", "เทพกรุง"),
        ("東*", "東京", "京"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος", "σίσυφ"),
        ("Привет", "привет, мир", "приветы"),
    ],
)
def test_a_query_means_what_it_says(query, finds, not_in):
    """Words, "phrases" and beginnings*, whatever the case and the accents; scripts without blanks, too."""
    assert is_found(query, finds)
    assert not is_found(query, not_in)


parts = st.lists(
    st.one_of(
        words.map(lambda word: (word, [word], False)),
        words.map(lambda word: (f"{word[:3]}*", [word[:3]], True)),
        st.lists(words, min_size=1, max_size=3).map(lambda some: (f'"{" ".join(some)}"', some, False)),
        st.lists(words, min_size=1, max_size=3).map(lambda some: (f'"{" ".join(some)}"*', some, True)),
    ),
    min_size=1,
    max_size=4,
)


@given(parts=parts, text=st.lists(words, max_size=8))
@example(parts=[("alfa", ["alfa"], False), ("not", ["not"], False), ("brav", ["brav"], False)], text=["alfa"])
def test_every_part_of_a_query_has_to_be_there(parts, text):
    """And no word is an operator, also if it is one's name, in capitals or not."""

    def is_there(some: list[str], is_begun: bool) -> bool:
        *whole, last = some
        return any(
            text[at : at + len(whole)] == whole
            and (text[at + len(whole)].startswith(last) if is_begun else text[at + len(whole)] == last)
            for at in range(len(text) - len(whole))
        )

    query = " ".join(part for part, _, _ in parts)
    expected = all(is_there(some, is_begun) for _, some, is_begun in parts)
    assert is_found(query, " ".join(text)) == expected
    assert is_found(query.upper(), " ".join(text)) == expected


@pytest.mark.parametrize(
    "query", ["", " ", '"', '""', "*", '"*"', "-", "()", "^", "…", "\0", "🙂", "\u200b", "\ud800"]
)
def test_where_nothing_is_searched_for_that_is_said(query):
    """With what can be."""
    with pytest.raises(UsageError, match="Nothing to search for"):
        expression(query)


HOSTILE = [
    *("AND", "OR", "NOT", "NEAR", "NEAR(", "NEAR(alfa brav, 2)", "alfa AND", "NOT alfa", "alfa OR OR"),
    *("text:alfa", "said:alfa", "{text role}: alfa", "- text : alfa", "^alfa", "alfa + brav", "alfa^2"),
    *("(alfa", "alfa)", "alfa -brav", "--", "alfa; DROP TABLE said", "alfa' OR '1'='1", 'alfa" OR "brav'),
    *(
        '"',
        '"alfa',
        'alfa"',
        '""alfa""',
        '"alfa""brav"',
        "alfa*brav",
        "**alfa**",
        "*alfa",
        'a"*"b',
        "alfa\0brav",
    ),
    *(
        "\ud800alfa",
        "alfa\udfff",
        "\x02alfa\x03",
        "alfa\u202e",
        "%",
        "_",
        "\\",
        "alfa\\",
        "?",
        "?1",
        ":x",
        "$x",
    ),
]


@given(
    query=st.one_of(
        st.text(), st.sampled_from(HOSTILE), st.text('"*^:()-+{}, \0aN東ก\u0301\u200b', max_size=20)
    )
)
def test_no_query_is_an_error_of_the_index(query):
    """It is searched for, or there is nothing to search for."""
    with contextlib.suppress(UsageError):
        is_found(query, "alfa brav")


@pytest.mark.parametrize("query", HOSTILE)
def test_what_is_typed_is_a_word_and_no_operator(query):
    """All words of it are searched for, and a text that has them is found."""
    typed = re.findall(r"[a-z0-9]+", searchable(query).lower())
    if not typed:
        with pytest.raises(UsageError):
            expression(query)
        return
    assert is_found(query, query)
    for word in typed:
        rest = " ".join(re.sub(rf"^{word}", "zzz", other) for other in typed)
        assert not is_found(query, rest), word


@pytest.mark.slow
def test_a_query_may_be_as_long_as_a_page():
    """Somebody pastes what they look for."""
    page = " ".join(f"w{number}" for number in range(5000))
    assert is_found(page, page)
    assert not is_found(page + " more", page)
    assert is_found(f'"{page}"', page)


# --- a text is found by what is in it ---------------------------------------------------------------------

SCRIPTS = (
    "abzAZ09 éßñøĀž αΩς жЯё אבת ابي १२ हिन्दी ไทยกำ ລາວ မြန်မာ ខ្មែរ"
    " 日本語々ー カナひら 한국어 漢字𠀀 e\u0301o\u0308"
    " 👩\u200d💻🙂 \n\t.,:;!?-_/\\'()[]{}<>@#$%^&*+=~`|\u200b\u00a0\u2028"
)
texts = st.text(SCRIPTS, max_size=40)


@given(text=texts)
@example(text="Python入門2024年版")
@example(text="a\u0301bc")
@example(text="日々の")
def test_a_text_is_found_by_each_of_its_words(text):
    """In every script, with whatever is written at its sides."""
    for word in text.split():
        if any(character.isalnum() for character in word):
            assert is_found(word, text)
            assert is_found(f'"{word}"', text)


@given(
    before=texts,
    text=st.text("日本語ー漢字ひらカナ한국어ไทยกลາວမြန်ខ្មែ", min_size=1, max_size=6),
    after=texts,
)
def test_a_word_of_a_script_without_blanks_is_found_in_any_sentence(before, text, after):
    """Whatever is written before and behind it, without a blank."""
    assume(any(character.isalnum() for character in text))
    assert is_found(text, f"{before}{text}{after}")


@given(text=st.text("abcdeXYZ09éж", min_size=1, max_size=8), rest=texts, length=st.integers(1, 8))
def test_a_text_is_found_by_the_beginning_of_a_word(text, rest, length):
    """Of any length."""
    assert is_found(f"{text[:length]}*", f"{rest} {text} {rest}")


# --- snippets ---------------------------------------------------------------------------------------------


@given(query=words, text=st.lists(words, min_size=1, max_size=60))
def test_a_snippet_marks_the_words_and_nothing_else(query, text):
    """All of them in it, and each as it is written; without the marks it is a part of the text."""
    said = " ".join(word.upper() if at % 3 else word for at, word in enumerate(text))
    assume(query in text)
    cut = snippet(query, said)
    marked = re.findall(f"{MARK}([^{MARK}{UNMARK}]*){UNMARK}", cut)
    plain = cut.replace(MARK, "").replace(UNMARK, "").strip("…")
    assert marked
    assert {word.lower() for word in marked} == {query}
    assert plain in said
    assert len(marked) == plain.lower().split().count(query)
    assert cut.count(MARK) == cut.count(UNMARK) == len(marked)


@pytest.mark.parametrize(
    ("query", "text", "cut"),
    [
        ("東京", "私は東京に住んでいます", "私は<東京>に住んでいます"),
        ('"race condition"', "a race condition", "a <race condition>"),
        ("refresh*", "it is refreshed.", "it is <refreshed>."),
        ("naive", "naïve idea", "<naïve> idea"),
        ("src/auth.py", "in src/auth.py here", "in <src/auth.py> here"),
    ],
)
def test_a_snippet_shows_the_text_as_it_was_written(query, text, cut):
    """Accents, punctuation and all; a phrase is marked as one."""
    assert snippet(query, text).replace(MARK, "<").replace(UNMARK, ">") == cut


@given(text=st.text())
def test_no_text_can_forge_a_mark(text):
    """Nor hold what the index, or a terminal, would take for something else."""
    stored = searchable(text)
    assert MARK not in stored
    assert UNMARK not in stored
    assert "\0" not in stored
    stored.encode()


@given(text=st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="\u200b")))
def test_what_is_stored_reads_as_it_was_written(text):
    """But for control characters."""
    assert readable(searchable(text)) == text
