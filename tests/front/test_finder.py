"""Questions are answered at once, the last one always, and reading is in nobody's way."""

import queue
import sqlite3
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.errors import UsageError
from perdure.front import finder as finding
from perdure.front.finder import Answer, Finder, Question, Reading, unfinished
from perdure.session.query import expression
from tests.front.picked import talk


@contextmanager
def asked(cwd, *questions: Question, **about):
    """What a finder tells, beginning with the answers to these."""
    told: queue.Queue[object] = queue.Queue()
    finder = Finder(str(cwd), told.put, **about)
    for question in questions:
        finder.ask(question)
    try:
        yield finder, told
    finally:
        finder.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "finder"]


def all_known(told) -> Answer:
    """The answer when everything has been read."""
    while True:
        each = told.get(timeout=20)
        if isinstance(each, Answer) and each.is_read:
            return each
        assert not isinstance(each, Exception), each


def titles(answer: Answer) -> list[str]:
    return [offer.row.title for offer in answer.offers]


def test_what_is_known_is_answered_first_and_then_what_is_there(tmp_path):
    """The second finder knows of one session, and finds the other one."""
    talk(tmp_path, "the first", hours=2)
    newest = Question("", False, 10)
    with asked(tmp_path, newest) as (_, told):
        assert titles(all_known(told)) == ["the first"]
    talk(tmp_path, "the second")
    with asked(tmp_path, newest) as (_, told):
        first = told.get(timeout=20)
        assert (titles(first), first.is_looked, first.is_read) == (["the first"], False, False)
        second = told.get(timeout=20)
        assert (titles(second), second.is_looked) == (["the second", "the first"], True)
        assert titles(all_known(told)) == ["the second", "the first"]


def test_a_question_is_about_this_project_or_all_and_about_one_program_or_all(tmp_path):
    """With how many there are, and how many of them match."""
    here, there = tmp_path / "here", tmp_path / "there"
    talk(here, "a token of pi's", hours=1)
    talk(there, "another token", hours=2)
    talk(there, "a bug", hours=3)
    talk(here, "aurora's token", hours=4, program="aurora")

    def answer(query: str, is_everything: bool, program: str = "") -> tuple[list[str], int, int]:
        with asked(here, Question(query, is_everything, 10), program=program) as (_, told):
            found = all_known(told)
            return titles(found), found.matching, found.total

    assert answer("", False) == (["a token of pi's", "aurora's token"], 2, 2)
    assert answer("", True, "pi") == (["a token of pi's", "another token", "a bug"], 3, 3)
    assert answer("", False, "aurora") == (["aurora's token"], 1, 1)
    found, matching, total = answer("toke", True)
    assert (sorted(found), matching, total) == (["a token of pi's", "another token", "aurora's token"], 3, 4)
    assert answer("zebra", True) == ([], 0, 4)


def test_what_is_excluded_is_neither_offered_nor_counted(tmp_path):
    """The session that is open, mostly."""
    open_one = talk(tmp_path, "said here")
    talk(tmp_path, "said there", hours=2)
    for query in ("", "said"):
        with asked(tmp_path, Question(query, False, 10), exclude=open_one.path) as (_, told):
            answer = all_known(told)
            assert (titles(answer), answer.matching, answer.total) == (["said there"], 1, 1)


def test_more_are_given_when_more_are_asked_for(tmp_path):
    """And all are counted, however many were."""
    for hours in range(5):
        talk(tmp_path, f"number {hours}", hours=hours + 1)
    with asked(tmp_path, Question("", False, 2)) as (finder, told):
        answer = all_known(told)
        assert (titles(answer), answer.matching) == (["number 0", "number 1"], 5)
        finder.ask(Question("number", False, 3))
        answer = told.get(timeout=20)
        assert (len(answer.offers), answer.matching) == (3, 5)


def test_a_question_stops_the_reading_and_nothing_is_lost(tmp_path, monkeypatch):
    """It is answered before the next session is read; when nobody asks any more, all is read."""
    for number in range(30):
        talk(tmp_path, f"zebra {number}", hours=number + 1)
    monkeypatch.setattr(finding, "_PACE", 0)
    monkeypatch.setattr(finding, "_QUIET", 0)
    monkeypatch.setattr(finding, "_REFRESH", 60)
    told: list[object] = []
    is_done = threading.Event()
    queries = ["ze", "zeb", "zebr"]

    def tell(each: object) -> None:
        told.append(each)
        if isinstance(each, Reading) and queries:
            finder.ask(Question(queries.pop(0), False, 50))
        elif isinstance(each, Answer) and each.is_read and not queries:
            is_done.set()

    finder = Finder(str(tmp_path), tell)
    finder.ask(Question("z", False, 50))
    assert is_done.wait(20)
    finder.close()
    first = next(at for at, each in enumerate(told) if isinstance(each, Reading))
    for at, query in enumerate(("ze", "zeb", "zebr")):
        answer = told[first + 1 + 2 * at]
        assert isinstance(answer, Answer)
        assert (answer.question.query, answer.is_read) == (query, False)
    last = told[-1]
    assert isinstance(last, Answer)
    assert (last.question.query, last.matching) == ("zebr", 30)


def test_of_several_questions_the_last_one_is_answered(tmp_path):
    """Those before it may not be; and no answer comes after one to a later question."""
    for number in range(20):
        talk(tmp_path, f"zebra {number}", hours=number + 1)
    questions = [Question("zebra"[:length], False, 10) for length in range(6)]
    with asked(tmp_path, *questions) as (_, told):
        seen: list[Answer] = []
        while not seen or not seen[-1].is_read or seen[-1].question is not questions[-1]:
            each = told.get(timeout=20)
            seen += [each] if isinstance(each, Answer) else []
        places = [questions.index(answer.question) for answer in seen]
        assert places == sorted(places)
        assert seen[-1].matching == 20


def test_reading_shows_what_it_has_found_so_far(tmp_path, monkeypatch):
    """Who waits for much to be read sees it come."""
    for number in range(30):
        talk(tmp_path, f"zebra {number}", hours=number + 1)
    monkeypatch.setattr(finding, "_REFRESH", 0.001)
    with asked(tmp_path, Question("", False, 50)) as (_, told):
        seen = [told.get(timeout=20)]
        while not isinstance(seen[-1], Answer) or not seen[-1].is_read:
            seen.append(told.get(timeout=20))
    answers = [each for each in seen if isinstance(each, Answer)]
    assert len(answers) > 3
    assert len(answers[-1].offers) == 30


def test_files_in_doubt_are_looked_at_again(tmp_path):
    """Else what is known is taken for true."""
    talk(tmp_path, "it stays", hours=2)
    gone = talk(tmp_path, "it goes")
    newest = Question("", False, 10)
    with asked(tmp_path, newest) as (finder, told):
        assert titles(all_known(told)) == ["it goes", "it stays"]
        Path(gone.path).unlink()
        finder.ask(Question("", False, 10))
        assert titles(told.get(timeout=20)) == ["it goes", "it stays"]
        finder.ask(newest._replace(is_doubted=True))
        assert titles(all_known(told)) == ["it stays"]


def test_a_home_that_cannot_be_looked_at_is_told(tmp_path, home):
    """With the sessions of all others."""
    talk(tmp_path, "of pi's")
    (home / ".aurora" / "spawn").mkdir(parents=True)
    (home / ".aurora" / "spawn" / "sessions").write_text("no folder")
    with asked(tmp_path, Question("", True, 10)) as (_, told):
        answer = all_known(told)
    assert titles(answer) == ["of pi's"]
    assert [str(home / ".aurora") in notice for notice in answer.notices] == [True]


def test_what_goes_wrong_is_told(tmp_path, monkeypatch):
    """A thread that ends in silence would leave a screen that never answers."""
    trouble = OSError("no home")

    def fails() -> None:
        raise trouble

    monkeypatch.setattr("perdure.session.catalog.Scope.everything", fails)
    with asked(tmp_path, Question("", True, 10)) as (_, told):
        assert told.get(timeout=20) is trouble


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("auth bug", "auth bug*"),
        ("auth ", "auth "),
        ("auth b", "auth "),
        ("b", ""),
        ("bu", "bu*"),
        ("é", "é*"),
        ("会", "会*"),
        ("aut*", "aut*"),
        ('"race cond', '"race cond"*'),
        ('"race ', '"race "'),
        ('"race c', '"race "'),
        ('"race condition"', '"race condition"'),
    ],
)
def test_the_last_word_may_be_unfinished(typed, meant):
    """Unless it is known to have ended; one letter is too little to look for."""
    assert unfinished(typed) == meant


@pytest.fixture(scope="module")
def index():
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE said USING fts5 (text)")
    yield db
    db.close()


@given(st.text() | st.text("ab \"*'-:^()漢é", max_size=20))
@example('"')
@example('a" b"c*"')
def test_whatever_is_typed_is_a_search_or_none(index, typed):
    """And never an error."""
    try:
        words = expression(unfinished(typed))
    except UsageError:
        return
    index.execute("SELECT count(*) FROM said WHERE said MATCH ?", (words,)).fetchone()
