"""A real Lisp reads what is printed here, and what it prints is read here."""

import subprocess
import sys
from collections.abc import Iterator
from io import TextIOWrapper

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.session.sexp import DEPTH, LONGEST_NUMBER, SexpError, dumps, loads
from tests.needs import needs_tool
from tests.session.test_sexp import MESSAGE, VALUES, exact, words

pytestmark = [pytest.mark.process, needs_tool("sbcl")]

# For a text with its length before it: one form is read, and printed in each way a program may choose.
ANSWERS = """
(let ((in (sb-sys:make-fd-stream 0 :input t :buffering :full :external-format :utf-8))
      (out (sb-sys:make-fd-stream 1 :output t :buffering :full :external-format :utf-8)))
  (loop for length = (read-line in nil) while length do
    (let ((text (make-string (parse-integer length))))
      (read-sequence text in)
      (handler-case
          (with-standard-io-syntax
            (let* ((*read-eval* nil)
                   (value (read-from-string text))
                   (texts (loop for (case pretty float) in '((:downcase nil single-float)
                                                             (:upcase nil single-float)
                                                             (:upcase t single-float)
                                                             (:downcase t double-float))
                                collect (let ((*print-case* case)
                                              (*print-pretty* pretty)
                                              (*read-default-float-format* float))
                                          (prin1-to-string value)))))
              (dolist (each texts)
                (format out "~D~%" (length each))
                (write-string each out))))
        (error (problem) (format out "~A~%" (type-of problem))))
      (finish-output out))))
"""
WAYS = 4


class Lisp:
    """One process for all the tests here: to start it takes longer than to ask it."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            ["sbcl", "--noinform", "--no-sysinit", "--no-userinit", "--non-interactive", "--eval", ANSWERS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self.process.stdin
        assert self.process.stdout
        self.questions = TextIOWrapper(self.process.stdin, encoding="utf-8", newline="")
        self.answers = TextIOWrapper(self.process.stdout, encoding="utf-8", newline="")

    def reprint(self, text: str) -> list[str]:
        """The form in the text as Lisp prints it, in each way. ValueError names the error it signals."""
        self.questions.write(f"{len(text)}\n{text}")
        self.questions.flush()
        return [self._text() for _ in range(WAYS)]

    def _text(self) -> str:
        length = self.answers.readline().strip()
        if not length.isdecimal():
            raise ValueError(length)
        return self.answers.read(int(length))

    def end(self) -> None:
        self.questions.close()
        assert self.process.wait() == 0
        self.answers.close()


@pytest.fixture(scope="module")
def lisp() -> Iterator[Lisp]:
    started = Lisp()
    yield started
    started.end()


@given(values=st.lists(VALUES, min_size=1, max_size=20))
@example(values=[MESSAGE])
def test_sib_04_lisp_reads_what_is_printed_and_is_read_in_turn(lisp, values):
    """Nothing is lost either way, whether it prints in upper or lower case, on one line or many."""
    for printed in lisp.reprint(dumps(values)):
        assert exact(loads(printed)) == exact(values)


@given(
    numbers=st.lists(
        st.floats(min_value=-sys.float_info.min, max_value=sys.float_info.min)
        | st.floats(allow_nan=False, allow_infinity=False),
        min_size=100,
        max_size=200,
    )
)
def test_sib_04_floats_come_back_from_lisp_to_the_last_bit(lisp, numbers):
    """The smallest ones too, where SBCL is one bit off unless the digits are chosen with care."""
    for printed in lisp.reprint(dumps(numbers)):
        assert exact(loads(printed)) == exact(numbers)


def test_sib_04_every_character_comes_back_from_lisp(lisp):
    """Controls, line ends of any kind and what is not assigned: all stand for themselves in a string."""
    surrogates = range(0xD800, 0xE000)
    text = "".join(chr(code) for code in range(sys.maxunicode + 1) if code not in surrogates)
    for printed in lisp.reprint(dumps(text)):
        assert loads(printed) == text


def test_sib_04_lisp_follows_to_the_deepest_list_and_the_longest_number(lisp):
    """What is within the bounds here is so in Lisp."""
    deepest = "(" * DEPTH + "1" + ")" * DEPTH
    dotted = "(" + "1 " * DEPTH + ". 2)"
    for text in (deepest, dotted, "9" * LONGEST_NUMBER, ":" + "k" * 255):
        for printed in lisp.reprint(text):
            assert dumps(loads(printed)) == text


@pytest.mark.parametrize(
    "text",
    [
        *words("5. +5. -5. +5 -0 007 .5 +.5 -.5d0 1.5 1e5 1E5 1.e5 1.d0 1d+5 1d-5 1s0 1f0 1l0 00.10d00"),
        *words("1/2 -3/4 +6/4 4/2 0/5 007/014"),
        *words("0e0 -0.0 -0.0d0 1.7976931348623157d308 () NIL nil T :ROLE :a.b :t :a<>=!?$%&@^~*+/_-."),
        *("( \t\r\n\f)", r'"\a\\\""', '("a"."b")', '("a":b"c"1"d"(2)3)'),
        *("(1 .2)", "(1 . 2.)", "(1 .(2))", "(1 . (2 . 3))", "(1 . nil)"),
    ],
)
def test_sib_04_lisp_and_this_reader_agree_on_what_odd_tokens_are(lisp, text):
    """The many ways to write a number, whitespace, and tokens with nothing between them."""
    for printed in lisp.reprint(text):
        assert exact(loads(printed)) == exact(loads(text))


@pytest.mark.parametrize(
    "text",
    [
        *words(r') (1 "a "\ . .. : :a:b 1d400 -1.8d308 1/0 #.(quit) #<a> ,a'),
        *("", " ", "\x7f", "(. 1)", "(1 .)", "(1 . (. 2))"),
        *("(1 . 2 3)", "(1 . 2 . 3)", "(1 . nil 2)", "(1 . (2) 3)"),
    ],
)
def test_sib_04_lisp_and_this_reader_refuse_the_same(lisp, text):
    """What does not hold together, what is out of range, and `#.` where reading must not evaluate."""
    with pytest.raises(SexpError):
        loads(text)
    with pytest.raises(ValueError, match=r"ERROR|END-OF-FILE"):
        lisp.reprint(text)


@pytest.mark.parametrize("text", [*words(r"foo cl:car 'a `a #(1) #\a :|a| :1 1+ |a|"), ":|a b|"])
def test_sib_04_data_of_lisp_that_is_not_ours_is_refused(lisp, text):
    """Lisp reads it; here it is an error, as it is and as Lisp prints it, and never something near it."""
    for each in (text, *lisp.reprint(text)):
        with pytest.raises(SexpError):
            loads(each)
