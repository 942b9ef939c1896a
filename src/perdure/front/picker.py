"""Find a session: those of this project or all there are, the newest first, or by what was said in them.

Nothing that takes time is done while a key is answered. The catalog is asked in one thread and the end of the
highlighted session read in another; what comes too late for what is on the screen by then is dropped.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from prompt_toolkit.input import Input
from prompt_toolkit.output import Output

from perdure.errors import NotFound, PerdureError
from perdure.front import picker_lines, render
from perdure.front.amounts import counted
from perdure.front.cells import Fragments
from perdure.front.finder import Answer, Finder, Offer, Question, Reading, Told
from perdure.front.picker_lines import Said
from perdure.front.render import Prose, Turn
from perdure.front.selection import Selection
from perdure.session.catalog import Row
from perdure.session.layouts import homes
from perdure.session.session import Session
from perdure.session.stores import Found, open_store

_ROWS, _HITS = 200, 50
"""How many are asked for at first. More are when somebody goes on to the last of them."""
_MORE = 4
_NEAR_THE_END = 100
_LAST = 30
"""Messages from the end in which the last exchange is looked for."""
_LONGEST = 4000
_MOST_PREVIEWS = 500


async def pick_session(
    cwd: str,
    *,
    query: str = "",
    everything: bool = False,
    program: str = "",
    has_colour: bool = True,
    exclude: str = "",
    input: Input | None = None,
    output: Output | None = None,
) -> Row | None:
    """The session that was chosen; None if somebody left. `everything` begins with all projects, `program`
    leaves out all others, `exclude` is the path of one that is not offered."""
    screen = _Sessions(query, everything, program, has_colour=has_colour, input=input, output=output)
    loop = asyncio.get_running_loop()

    def tell(told: Told) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody wants to know any more
            loop.call_soon_threadsafe(screen.hear, told)

    finder = Finder(cwd, tell, program=program, exclude=exclude)
    try:
        chosen = await screen.pick(finder)
    finally:
        await asyncio.to_thread(finder.close)
    return chosen.row if chosen else None


class _Sessions(Selection[Offer]):
    keys = "type to search · ↑↓ move · Enter open · Tab this project or all · Esc leave"
    has_aside = True

    def __init__(self, query: str, everything: bool, program: str, **terminal: Any) -> None:
        super().__init__(query=query, **terminal)
        self._is_everything = everything
        self._of = f" of {program}" if program else ""
        self._asked = self._sent = Question("", everything, 0)
        self._answer: Answer | None = None
        self._reading: Reading | None = None
        self._is_entered = False
        """Whether Enter was pressed before there was an answer to what was typed."""
        self._noticed: set[str] = set()
        self._statuses: dict[str, str] = {}
        self._previews: dict[Row, list[Said]] = {}
        self._previewing: asyncio.Task[None] | None = None

    async def pick(self, finder: Finder) -> Offer | None:
        self._finder = finder
        self._ask()
        self._finder.ask(self._asked)
        self._sent = self._asked
        return await self.run()

    # --- asking ---------------------------------------------------------------------------------------

    def _ask(self, most: int = 0, *, is_doubted: bool = False) -> None:
        most = most or (_HITS if self.query.strip() else _ROWS)
        self._asked = Question(self.query, self._is_everything, most, is_doubted)
        self.redraw()

    def drawn(self) -> None:
        """What is typed is on the screen before it is looked for: the two would only delay each other. And of
        what is highlighted a preview is read, one at a time."""
        if self._sent is not self._asked:
            self._sent = self._asked
            self._finder.ask(self._sent)
        if self._previewing is None or self._previewing.done():
            self._previewing = self.in_background(self._read_previews())

    def hear(self, told: Told) -> None:
        match told:
            case _ if self.is_over:
                pass
            case Answer() if told.question is self._asked:
                self._take(told)
            case Reading():
                self._reading = told
                self.redraw()
            case Exception():
                self.end(None, told)

    def _take(self, answer: Answer) -> None:
        """An answer to what was asked before, with more in it, leaves the highlight where it is."""
        is_same = self._answer is not None and self._answer.question[:2] == answer.question[:2]
        path = self.highlighted.row.path if is_same and self.at and self.highlighted else ""
        kept = self.at if is_same else 0
        at = next((at for at, offer in enumerate(answer.offers) if offer.row.path == path), kept)
        self._answer = answer
        self._reading = None if answer.is_read else self._reading
        self._statuses.clear()
        self.show(answer.offers, at)
        for notice in answer.notices:
            if notice not in self._noticed:
                self._noticed.add(notice)
                self.say(notice)
        if self._is_entered and (answer.is_read if answer.is_search else answer.is_looked):
            self._is_entered = False
            self.say("")
            self.entered()

    @property
    def _is_answered(self) -> bool:
        return self._answer is not None and self._answer.question is self._asked

    # --- the keys -------------------------------------------------------------------------------------

    def typed(self, text: str) -> None:
        self._is_entered = False
        self._ask()

    def switched(self) -> None:
        self._is_entered = False
        self._is_everything = not self._is_everything
        self._ask()

    def moved(self) -> None:
        self._is_entered = False
        answer = self._answer
        if answer is None or not self._is_answered or self.at + _NEAR_THE_END <= len(self.items):
            return
        if len(self.items) < answer.matching or not answer.is_all:
            self._ask(self._asked.most * _MORE)

    def entered(self) -> None:
        """Who types quickly means what they typed, and not what was on the screen before that was found."""
        if not self._is_answered:
            self._is_entered = True
            self.say("Looking for it …")
        elif (offer := self.highlighted) is None:
            return
        elif picker_lines.is_unreadable(offer.row):
            self.say(picker_lines.trouble(offer.row))
        elif not os.path.lexists(offer.row.path):
            self.say("It is not there any more.")
            self._ask(is_doubted=True)
        else:
            self.end(offer)

    # --- what is drawn --------------------------------------------------------------------------------

    def row(self, item: Offer, columns: int) -> Fragments:
        return picker_lines.line(item.row, self._status(item.row), columns, has_project=self._is_everything)

    def aside(self, item: Offer, columns: int, lines: int) -> Iterable[Fragments]:
        exchange = self._previews.get(item.row, ())
        return picker_lines.about(item, self._status(item.row), exchange, columns, lines)

    def _status(self, row: Row) -> str:
        """Asked of its lock, once for an answer."""
        if row.path not in self._statuses:
            self._statuses[row.path] = row.status
        return self._statuses[row.path]

    def count(self) -> str:
        where = "all projects" if self._is_everything else "this project"
        words = []
        if self._reading:
            words.append(f"{'reading' if self._reading.is_text else 'listing'} {self._reading.left:,} more")
        if (answer := self._answer) and answer.is_search:
            words.append(f"{answer.matching:,}{'' if answer.is_all else '+'} of {answer.total:,}")
        elif answer and (answer.total or answer.is_looked):
            words.append(counted(answer.total, "session"))
        return " · ".join([*words, where])

    def nothing(self) -> str:
        answer = self._answer
        if answer is None or not self._is_answered:
            return ""
        where, elsewhere = (
            ("", "") if self._is_everything else (" in this project", "; Tab looks in all projects")
        )
        if answer.is_search and answer.total:
            return f"Nothing found{where}{elsewhere}." if answer.is_read else "Nothing found so far …"
        if not answer.is_looked:
            return "Looking for sessions …"
        return f"There is no session{self._of} to open{where}{elsewhere}."

    # --- previews -------------------------------------------------------------------------------------

    async def _read_previews(self) -> None:
        while (offer := self.highlighted) and offer.row.lock and offer.row not in self._previews:
            read = await asyncio.to_thread(_last_exchange, offer.row)
            if len(self._previews) >= _MOST_PREVIEWS:
                self._previews.clear()
            self._previews[offer.row] = read
            self.redraw()


def _last_exchange(row: Row) -> list[Said]:
    """What the user said last, and what was last said in answer; or why that cannot be told."""
    try:
        said = _view(row).tail(_LAST)
        asked = next((at for at in range(len(said) - 1, -1, -1) if said[at].role == "user"), 0)
        turns = render.turns(said[asked:])
        answers = turns[1:]
        answer = [turn for turn in answers if _prose(turn)][-1:] or answers[-1:]
        return [Said(turn.speaker, _prose(turn) or render.gist(turn)) for turn in (*turns[:1], *answer)]
    except PerdureError as error:
        return [Said("not shown", error.said)]
    except Exception as error:
        return [Said("not shown", f"{type(error).__name__}: {error}")]


def _view(row: Row) -> Session:
    """Without a look at all other sessions, which a reference would take."""
    around = [home for home in homes() if home.program == row.program and _is_in(row.path, home.sessions)]
    if not around:
        raise NotFound("Session", row.path)
    home = max(around, key=lambda home: len(home.path))
    return Session.view(open_store(*home), Found(row.id, row.path))


def _prose(turn: Turn) -> str:
    return "\n".join(part.text for part in turn.parts if isinstance(part, Prose)).strip()[:_LONGEST]


def _is_in(path: str, folder: str) -> bool:
    return path.startswith(os.path.join(folder, ""))
