"""Lisp data as text: what is printed is read back, and what is not Lisp data is refused where it stands."""

import sys
import time
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.session.sexp import (
    DEPTH,
    LONGEST_NUMBER,
    Keyword,
    Pair,
    SexpError,
    Value,
    cons,
    dumps,
    loads,
    scan,
    string,
)

NAMES = st.from_regex(r"[a-z][a-z0-9*+/<>=!?$%&@^~_.-]{0,12}", fullmatch=True)
ATOMS = (
    st.none()
    | st.just(True)
    | st.text()
    | st.text(alphabet='a"\\\n\r\t ();:#')
    | NAMES.map(Keyword)
    | st.integers()
    | st.integers(-(10**700), 10**700)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.fractions().filter(lambda ratio: ratio.denominator > 1)
)
VALUES = st.recursive(
    ATOMS, lambda inner: st.lists(inner, min_size=1, max_size=5) | st.builds(cons, inner, inner)
)
"""Each is the one value of some Lisp object."""
NESTED_LISTS = st.recursive(ATOMS, lambda inner: st.lists(inner, min_size=1, max_size=5))

MESSAGE: list[Value] = [
    *(Keyword("role"), Keyword("user"), Keyword("content"), 'He said "go",\nand C:\\ it was.'),
    *(Keyword("parent-id"), None, Keyword("final"), True, Keyword("cost"), 1.5e-7),
    Keyword("arguments"),
    [Pair("command", "ls -la"), Pair("n", 5), ["paths", "a", "b"]],
]


def exact(value: object) -> str:
    """Python takes 1, 1.0 and True for equal, and 0.0 and -0.0. Lisp does not, and so neither do we here."""
    return repr(value)


def words(text: str) -> list[str]:
    return text.split()


def error_of(text: str) -> SexpError:
    with pytest.raises(SexpError) as caught:
        loads(text)
    return caught.value


@given(VALUES)
@example(MESSAGE)
def test_sib_04_what_is_printed_is_read_back(value):
    """Every value, exactly: its types, the sign of zero and the last bit of a float."""
    assert exact(loads(dumps(value))) == exact(value)


@given(VALUES, st.text(" \t\n\r\f"), VALUES)
def test_sib_04_forms_are_read_one_behind_the_other(first, gap, second):
    """`scan` says where a form ends, and begins after whitespace; `loads` takes one form only."""
    gap += "\n"
    text = gap + dumps(first) + gap + dumps(second) + gap
    value, end = scan(text)
    assert exact(value) == exact(first)
    value, end = scan(text, end)
    assert exact(value) == exact(second)
    assert text[end:] == gap
    assert error_of(text).offset == text.index(dumps(second), len(gap + dumps(first)))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("()", None),
        ("( \n )", None),
        ("NIL", None),
        ("nil", None),
        ("Nil", None),
        ("T", True),
        ("(nil ())", [None, None]),
        (":ROLE", Keyword("role")),
        (":Entry-Id", Keyword("entry-id")),
        (":nil", Keyword("nil")),
        (":a.b/c_1", Keyword("a.b/c_1")),
        ("+5", 5),
        ("-5", -5),
        ("5.", 5),
        ("-0", 0),
        ("007", 7),
        ("1/2", Fraction(1, 2)),
        ("-6/4", Fraction(-3, 2)),
        ("+4/2", 2),
        (".5", 0.5),
        ("-.5d0", -0.5),
        ("+.5", 0.5),
        ("1.5", 1.5),
        ("1e5", 1e5),
        ("1.e5", 1e5),
        ("1E+5", 1e5),
        ("1d-5", 1e-5),
        ("1.25S0", 1.25),
        ("1.25f0", 1.25),
        ("1.25L0", 1.25),
        ("1d-400", 0.0),
        ("0d99999999999", 0.0),
        ("-0.0d0", -0.0),
        (r'"a\"b\\c\d"', 'a"b\\cd'),
        (r'"\\\\\"\\"', '\\\\"\\'),
        ('"\\\n\0\r"', "\n\0\r"),
        ('""', ""),
        ('("a":b"c"1"d"(2)3)', ["a", Keyword("b"), "c", 1, "d", [2], 3]),
        ('("a" . "b")', Pair("a", "b")),
        ('("a"."b")', Pair("a", "b")),
        ("(1 . (2 3))", [1, 2, 3]),
        ("(1 .(2))", [1, 2]),
        ("(1 .2)", [1, 0.2]),
        ("(1 . nil)", [1]),
        ("(1 . ())", [1]),
        ("(1 2 . 3)", Pair(1, Pair(2, 3))),
        ("(1 . (2 . 3))", Pair(1, Pair(2, 3))),
        ("(1 . (2 . (3 . nil)))", [1, 2, 3]),
        ("((1 . 2) . (3 . 4))", Pair(Pair(1, 2), Pair(3, 4))),
        ("((1 . (2)) (3 . ((4) . 5)))", [[1, 2], Pair(3, Pair([4], 5))]),
    ],
)
def test_sib_04_a_lisp_object_has_one_value_however_it_is_written(text, value):
    """Case, redundant dots and the many ways to write a number make no difference."""
    assert exact(loads(text)) == exact(value)
    assert exact(loads(dumps(value))) == exact(value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([], "nil"),
        ([[], None], "(nil nil)"),
        (Pair("k", None), '("k")'),
        (Pair("k", []), '("k")'),
        (Pair("k", [1, 2]), '("k" 1 2)'),
        (Pair(1, Pair(2, 3)), "(1 2 . 3)"),
        ([Pair("k", "v")], '(("k" . "v"))'),
        (Keyword("a-b"), ":a-b"),
        ('"\\\n', '"\\"\\\\\n"'),
        (1.5, "1.5d0"),
        (1e22, "1.0d22"),
        (1.25e-7, "1.25d-7"),
        (-0.0, "-0.0d0"),
        (5e-324, "5.0d-324"),
        (True, "t"),
    ],
)
def test_sib_04_a_value_is_printed_in_one_way(value, text):
    """In lower case, with single spaces; floats as doubles, whatever the reader's default is."""
    assert dumps(value) == text


@given(st.text())
def test_sib_04_a_string_alone_is_printed_the_same(text):
    """`string` is for who prints piece by piece."""
    assert string(text) == dumps(text)


@pytest.mark.parametrize(
    ("car", "cdr", "value"),
    [
        ("k", [1], ["k", 1]),
        ("k", None, ["k"]),
        ("k", [], ["k"]),
        ("k", 1, Pair("k", 1)),
        ([1], [2], [[1], 2]),
    ],
)
def test_sib_04_cons_makes_the_one_right_value(car, cdr, value):
    """A list where the cdr is one, else a pair; and it is what comes back."""
    assert exact(cons(car, cdr)) == exact(value) == exact(loads(dumps(Pair(car, cdr))))


def test_sib_04_a_keyword_is_no_string():
    """They are different objects in Lisp, so a lookup by one never finds the other."""
    assert len({Keyword("a"), "a", ":a", loads(":A")}) == 3


# --- what is refused ------------------------------------------------------------------------------

FORBIDDEN = [
    *words(r"#.(quit) #. # #(1) #'car #:a #\a #x1F #1= #1# #|a|# #+a #p #*1 #<a> #1.5"),
    *words(r"'a '(1) `a `(1) ,a ,@a ;a |a| | \a"),
    *words("a foo nill tt + - 1+ --5 1.5.5 .. ... 1.0e .e5 +.e5 1_000 0x1F inf nan é \u0663"),
    *words(r"cl:nil cl::nil a:b 1:b : ::a :a:b :|a| :a|b| :a\b :é :1 :- :a#"),
    *words("1/0 -1/00 1/ /2 1/-2 1/2/3 1.5/2 1.5r0 1.5d\u0663 1d400 -1.8d308 1e99999999999"),
    *(":\u212a", ":" + "k" * 256, "9" * (LONGEST_NUMBER + 1)),
    *("\0", "\x01", "\x0b", "\x1b", "\x7f", "\x85", "\xa0", "\u2028", "\ufeff"),
]


@pytest.mark.parametrize("token", FORBIDDEN, ids=lambda token: ascii(token)[:20])
@pytest.mark.parametrize(
    ("before", "line", "column"),
    [("", 1, 1), ('\n(1 "\n"\n  (:a ', 4, 7), ("(1 .\n", 2, 1), ('("a\r\n"', 2, 2)],
)
def test_sib_04_what_is_no_data_is_refused_where_it_stands(before, line, column, token):
    """Alone, deep in a list, behind a dot and glued to another token; the message says line and column."""
    text = f"{before}{token} 2))"
    error = error_of(text)
    assert (error.offset, error.line, error.column) == (len(before), line, column)
    assert str(error) == f"line {line}, column {column}: {error.reason}"
    assert len(str(error)) < 200
    assert str(error).isprintable()


@pytest.mark.parametrize(
    ("text", "offset", "reason"),
    [
        ("", 0, "nothing to read"),
        (" \n", 2, "nothing to read"),
        (")", 0, "no list to end"),
        ("(1))", 3, "there is more behind the form"),
        ("1 2", 2, "there is more behind the form"),
        ("1 ;", 2, "there is more behind the form"),
        ("(1", 1, "the text ends inside a list"),
        ("(1 ", 3, "the text ends inside a list"),
        ('(1 "a', 3, "the string does not end"),
        ('"a\\"', 0, "the string does not end"),
        ('"\\', 0, "the string does not end"),
        ("(1 #.(quit))", 3, "#. is not read here"),
        ("(1 'a)", 3, "' is not read here"),
        ("(1 \0)", 3, "'\\x00' is not read here"),
        (". 1", 0, "a dot needs a form before it, and after it, in a list"),
        ("( . 1)", 2, "a dot needs a form before it, and after it, in a list"),
        ("(1 . ( . 2))", 7, "a dot needs a form before it, and after it, in a list"),
        ("(1 . . 2)", 5, "a dot needs a form before it, and after it, in a list"),
        ("(1 . )", 5, "no form follows the dot"),
        ("(1 . 2 3)", 7, "only one form may follow a dot"),
        ('(1 . 2 "3")', 7, "only one form may follow a dot"),
        ("(1 . 2 (3))", 7, "only one form may follow a dot"),
        ("(1 . 2 . 3)", 7, "only one form may follow a dot"),
        ("(1 . (2) 3)", 9, "only one form may follow a dot"),
        ("(1 . nil 3)", 9, "only one form may follow a dot"),
    ],
)
def test_sib_04_what_does_not_hold_together_is_refused(text, offset, reason):
    """Lists and strings without an end, ends without a list, and dots where none may be."""
    error = error_of(text)
    assert (error.offset, error.reason) == (offset, reason)


@pytest.mark.parametrize(
    "value",
    [
        *(False, [1, [False]], Pair(False, 1), Pair(1, False)),
        *(float("nan"), float("inf"), -float("inf"), 10**LONGEST_NUMBER, -(10**LONGEST_NUMBER)),
        *("a\ud800", ["\udc80"], b"", (1, 2), {}, object()),
        *(Keyword(name) for name in ("A", "", "1", "a b", ":a", "é", "a\n", "a" * 256)),
    ],
    ids=lambda value: ascii(type(value).__name__),
)
def test_sib_04_what_lisp_could_not_read_back_is_not_printed(value):
    """Nothing is printed as something near it."""
    with pytest.raises(ValueError, match=r"."):
        dumps(value)


def test_sib_04_a_lone_surrogate_is_no_string():
    """It is no character, and no file could hold it."""
    with pytest.raises(ValueError, match="surrogate"):
        string("\ud83d")


@pytest.mark.parametrize("limit", [640, 4300, 0], ids=["lowest", "as it is", "off"])
@pytest.mark.parametrize("sign", [1, -1])
def test_sib_04_the_interpreters_limit_on_digits_is_not_ours(limit, sign):
    """Integers are read and printed up to the bound of this module, however Python is set."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(limit)
    try:
        for digits in (640, 641, 4300, 4301, LONGEST_NUMBER):
            number = sign * (10**digits - 1)
            assert loads(dumps(number)) == number
            assert dumps(number).count("9") == digits
    finally:
        sys.set_int_max_str_digits(before)


# --- what is left of a text that breaks off -------------------------------------------------------


def unfinished(value: object, length: int) -> tuple[list[object], list[int]]:
    """The lists that are open after so many characters of the printed value, and where they began."""
    lists: list[object] = []
    starts: list[int] = []
    at = 0
    while isinstance(value, list) and at < length:
        items: list[object] = []
        lists.append(items)
        starts.append(at)
        at += 1
        for item in value:
            end = at + len(dumps(item))
            if end > length or (end == length and not isinstance(item, str | list)):
                break
            items.append(item)
            at = end + 1
        value = item
    return lists, starts


@given(NESTED_LISTS.filter(lambda value: isinstance(value, list)), st.data())
def test_sib_04_a_text_that_breaks_off_gives_what_is_complete(value, data):
    """Wherever it does: every complete form is there, in its list, and nothing that was cut."""
    text = dumps(value)
    length = data.draw(st.integers(0, len(text) - 1))
    error = error_of(text[:length])
    lists, starts = unfinished(value, length)
    assert exact(error.open) == exact(lists)
    assert error.starts == starts


def test_sib_04_every_place_to_break_off_is_an_error():
    """Each character of a session's text, dots included, keeps what is before it."""
    text = dumps([MESSAGE, MESSAGE])
    for length in range(len(text)):
        error = error_of(text[:length])
        assert error.offset <= length
        outermost = error.open[0] if length else []
        assert (MESSAGE in outermost) == (length > len(dumps(MESSAGE)))


@pytest.mark.parametrize(
    ("text", "lists", "starts"),
    [
        ('((1) ("a" . "b"', [[[1]], ["a", "b"]], [0, 5]),
        ('((1) ("a" . ("b" ', [[[1]], ["a", "b"]], [0, 5]),
        ("(1 . (2 . (3 (4 ", [[1, 2, 3], [4]], [0, 13]),
        ("(1 . nil ", [[1]], [0]),
        ("(1 (2 3) (4 #.", [[1, [2, 3]], [4]], [0, 9]),
        ("1 2", [], []),
    ],
)
def test_sib_04_the_open_lists_say_what_was_read(text, lists, starts):
    """Behind a dot too, where the parentheses make no list of their own."""
    error = error_of(text)
    assert (error.open, error.starts) == (lists, starts)


# --- bounds ---------------------------------------------------------------------------------------


def test_sib_04_depth_is_bounded_the_same_in_reading_and_printing():
    """What is printed is read; one list more is neither."""
    deep: list[Value] = [1]
    for _ in range(DEPTH - 1):
        deep = [deep]
    text = "(" * DEPTH + "1" + ")" * DEPTH
    assert dumps(deep) == text
    assert dumps(loads(text)) == text
    assert error_of(f"({text})").offset == DEPTH
    with pytest.raises(ValueError, match=f"more than {DEPTH}"):
        dumps([deep])


def test_sib_04_chains_of_pairs_are_bounded_the_same_in_reading_and_printing():
    """A pair in a pair is as deep as a list in a list, for everything in Python that walks them."""
    text = "(" + "1 " * DEPTH + ". 2)"
    value = loads(text)
    assert dumps(value) == text
    assert error_of("(1 . " + text + ")").offset == len(text) + 4
    with pytest.raises(ValueError, match=f"more than {DEPTH}"):
        dumps(Pair(1, value))


@pytest.mark.slow
def test_sib_04_chains_in_chains_do_not_end_the_process():
    """Very many pairs in each other are within both bounds; what Python does to them is an error at most."""
    text = "2"
    for _ in range(DEPTH):
        text = "(" + "1 " * (DEPTH // 5) + text + " . 3)"
    value = loads(text)
    assert dumps(value) == text
    for walk in (hash, repr, lambda pairs: pairs == loads(text)):
        with pytest.raises((TypeError, RecursionError)):
            walk(value)


def test_sib_04_a_list_that_holds_itself_is_not_printed():
    """Directly, or through a pair."""
    itself: list[Value] = [1]
    itself.append(itself)
    through_a_pair: list[Value] = []
    through_a_pair.append(Pair(1, through_a_pair))
    for value in (itself, through_a_pair):
        with pytest.raises(ValueError, match=f"more than {DEPTH}"):
            dumps(value)


MILLION = 1_000_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bomb", "offset"),
    [
        pytest.param("(" * MILLION, DEPTH, id="lists in lists"),
        pytest.param("(1 . " * MILLION, 5 * DEPTH, id="lists behind dots"),
        pytest.param("(" + "1 " * MILLION + ". 1)", 2 * MILLION + 4, id="a long dotted list"),
        pytest.param("(1 . " * 900 + "(" + "1 " * MILLION, 4501 + 2 * MILLION, id="a long list behind dots"),
        pytest.param('"' + '\\"' * MILLION, 0, id="a string without end"),
        pytest.param('(:a "' + "\\\\" * MILLION, 4, id="a string of backslashes without end"),
        pytest.param(" " * MILLION, MILLION, id="nothing but space"),
        pytest.param("1" * MILLION, 0, id="digits"),
        pytest.param("1d" + "9" * MILLION, 0, id="an exponent"),
        pytest.param("." * MILLION, 0, id="dots"),
        pytest.param(":" + "a" * MILLION, 0, id="a long keyword"),
        pytest.param("1 " + " " * MILLION + "x", MILLION + 2, id="something far behind"),
    ],
)
def test_sib_04_a_bomb_is_refused_in_time_that_grows_with_its_size(bomb, offset):
    """Nothing is tried again and again; the bound is far from what a slow machine needs."""
    start = time.process_time()
    error = error_of(bomb)
    assert error.offset == offset
    assert len(str(error)) < 200
    assert time.process_time() - start < 10


@pytest.mark.slow
def test_sib_04_a_file_of_longest_numbers_is_read_in_bounded_time():
    """A number costs the square of its digits, which is why they are bounded."""
    numbers = [10 ** (LONGEST_NUMBER - 1) + n for n in range(100)]
    text = dumps([*numbers])
    start = time.process_time()
    assert loads(text) == numbers
    assert time.process_time() - start < 30


@given(VALUES, st.data())
def test_sib_04_a_damaged_text_raises_nothing_but_its_error(value, data):
    """Characters are lost, doubled and replaced; what is still read is a value that can be printed."""
    text = dumps(value)
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 3)))
        text = text[:start] + data.draw(st.text('()". \\:#;|0e+-/nilt\n\0é', max_size=3)) + text[end:]
    error = None
    try:
        again = loads(text)
    except SexpError as caught:
        error = caught
    if error is None:
        assert exact(loads(dumps(again))) == exact(again)
    else:
        assert 0 <= error.offset <= len(text)
        assert [text[start] for start in error.starts] == ["("] * len(error.open)
