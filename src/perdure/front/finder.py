"""Questions to the catalog from a screen that must not wait, answered by a thread that owns it.

What is known is answered at once. Then the files are looked at, first for what a listing says of them, then
for what was said in them, and each time the question is answered anew. A question never waits for that: it
stops the reading, which goes on when nobody types. Of several questions only the last one is answered.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from perdure.errors import UsageError
from perdure.session.catalog import Catalog, Row, Scope
from perdure.session.query import expression

_QUIET = 0.3
"""Seconds without a question before reading goes on: what was read of a batch is lost when one stops it."""
_REFRESH = 1.0
"""Seconds of reading after which the question is answered with what is known by then; then twice as many."""
_PACE = 0.1


class Question(NamedTuple):
    query: str
    """As it is typed. Where it has no word, it asks for the newest."""
    is_everything: bool
    """Of all projects, or of this one."""
    most: int
    is_doubted: bool = False
    """Whether the files are not as they were when they were looked at."""


class Offer(NamedTuple):
    """A session, and who said what matches."""

    row: Row
    role: str = ""
    snippet: str = ""


class Answer(NamedTuple):
    question: Question
    is_search: bool
    offers: Sequence[Offer]
    matching: int
    """How many there are, with those that would be more than were asked for."""
    is_all: bool
    """Whether all of them were counted, and not only the newest."""
    total: int
    """How many sessions the scope has."""
    is_looked: bool
    """Whether the files of the scope have been looked at since this began."""
    is_read: bool
    """Whether all that was said in them can be found."""
    notices: Sequence[str]


class Reading(NamedTuple):
    """How many sessions are still to be read: for their rows, or for what was said in them."""

    left: int
    is_text: bool


Told = Answer | Reading | Exception


class Finder:
    def __init__(
        self, cwd: str, tell: Callable[[Told], object], *, program: str = "", exclude: str = ""
    ) -> None:
        """`tell` is called in the thread: with answers, with how far reading is, and with the error that
        ended it. `exclude` is the path of a session that is not offered."""
        self._cwd = cwd
        self._program = program
        self._exclude = exclude
        self._tell = tell
        self._question: Question | None = None
        self._answered: Question | None = None
        self._is_over = False
        self._changed = threading.Condition()
        self._known: set[tuple[bool, bool]] = set()
        """Which scopes were looked at, and whether for what was said there, too."""
        self._notices: list[str] = []
        self._patience = _REFRESH
        self._thread = threading.Thread(target=self._run, name="finder", daemon=True)
        self._thread.start()

    def ask(self, question: Question) -> None:
        with self._changed:
            self._question = question
            if question.is_doubted:
                self._known = set()
            self._changed.notify()

    def close(self, wait: float = 0.5) -> None:
        """Reading stops at the next session; a disk that does not answer is not waited for."""
        with self._changed:
            self._is_over = True
            self._changed.notify()
        self._thread.join(wait)

    # --- the thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            with Catalog() as catalog:
                self._scopes = {True: Scope.everything(), False: Scope.project(self._cwd)}
                self._work(catalog)
        except Exception as error:
            self._tell(error)

    def _work(self, catalog: Catalog) -> None:
        quiet = 0.0
        while True:
            answered = self._answered
            is_all_known = answered is None or self._is_known(answered, text=True)
            with self._changed:
                self._changed.wait_for(self._is_wanted, None if is_all_known else quiet)
                question = self._question
                if self._is_over or question is None:
                    return
            if question is answered and not self._has_read(catalog, question):
                quiet = _QUIET
                continue
            self._tell(self._answer(catalog, question))
            self._answered = question
            quiet = 0.0

    def _is_wanted(self) -> bool:
        return self._is_over or self._question is not self._answered

    def _is_known(self, question: Question, *, text: bool) -> bool:
        """Whether the files were looked at that it is about, or all of them; `text`: for what was said."""
        return any(wide >= question.is_everything and read >= text for wide, read in self._known)

    def _has_read(self, catalog: Catalog, question: Question) -> bool:
        """Whether there is more to answer with. Who searches needs texts, which have the rows in them; to all
        others rows come first. Not if another question came meanwhile."""
        text = _words(question.query) != "" or self._is_known(question, text=False)
        known = self._known
        begun = told = time.monotonic()

        def progress(done: int, total: int) -> None:
            nonlocal told
            now = time.monotonic()
            if self._is_wanted() or now - begun > self._patience:
                raise _Stopped
            if now - told > _PACE:
                self._tell(Reading(total - done, text))
                told = now

        try:
            self._notices = catalog.catch_up(self._scope(question), progress, text=text)
        except _Stopped:
            if self._is_wanted():
                return False
            self._patience *= 2
            return True
        self._patience = _REFRESH
        known.add((question.is_everything, text))
        return True

    def _answer(self, catalog: Catalog, question: Question) -> Answer:
        scope = self._scope(question)
        words = _words(question.query)
        total = catalog.count(scope)
        if words:
            found = catalog.search(scope, words, limit=question.most)
            offers = [Offer(hit.row, hit.role, hit.snippet) for hit in found.hits]
            matching, is_all = found.sessions, found.is_all
        else:
            offers = [*map(Offer, catalog.rows(scope, limit=question.most))]
            matching, is_all = total, True
        shown = [offer for offer in offers if offer.row.path != self._exclude]
        left_out = len(offers) - len(shown)
        return Answer(
            question,
            words != "",
            shown,
            matching - left_out,
            is_all,
            total - left_out,
            self._is_known(question, text=False),
            self._is_known(question, text=True),
            [*self._notices, *([catalog.notice] if catalog.notice else ())],
        )

    def _scope(self, question: Question) -> Scope:
        return self._scopes[question.is_everything].of(self._program)


class _Stopped(Exception):
    """Somebody wants an answer, or leaves."""


def _words(query: str) -> str:
    """What is to be searched for; empty if that is nothing."""
    words = unfinished(query)
    try:
        expression(words)
    except UsageError:
        return ""
    return words


_LAST_WORD = re.compile(r'[^\s"*]+\Z')


def unfinished(query: str) -> str:
    """The query of somebody who may still be typing its last word: what begins like that is meant, too. A
    single letter is not looked for yet, for half of everything begins with it."""
    last = _LAST_WORD.search(query)
    is_phrase = query.count('"') % 2 == 1
    if last and len(last[0]) == 1 and last[0].isascii():
        query, last = query[: last.start()], None
    return query + '"' * is_phrase + "*" * (last is not None)
