"""What a session holds beside what is said in it, and its partner is told of: what is attached, what was
decided here and elsewhere in its project, and whether answers are searched for decisions."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.errors import PerdureError, UsageError
from perdure.programs.soleur import attached, ledger, recorded
from perdure.programs.soleur.attached import Part
from perdure.programs.soleur.decisions import (
    LONGEST,
    Decision,
    autorecord,
    autorecords,
    decided,
    filed,
    in_force,
    likeness,
    marked,
    one_line,
    unfiled,
    with_tags,
    withdrawals,
)
from perdure.programs.soleur.ledger import Known, Ledger
from perdure.programs.soleur.recorded import Recorded
from perdure.session import ids
from perdure.session.entry import Assistant, Body, Custom
from perdure.session.projects import Project
from perdure.session.session import Session
from perdure.session.stores.soleur_format import PROJECT

_MOST = 100
"""Decisions that a partner is told of, and characters of all of them."""
_MOST_CHARACTERS = 20_000


class Notebook:
    def __init__(
        self, session: Session, home: str, project: Project, *, autorecords_by_default: bool
    ) -> None:
        """All of the session is read for it."""
        entries, facts = session.entries, session.header.facts
        self._session_id = session.id
        self.project = project
        self._names_root = facts.get("project_root") == project.root or not project.root
        """Whether the session records the root of its project."""
        self.parts = attached.parts(entries, facts)
        self.decisions = decided(entries)
        self._withdrawn = withdrawals(entries)
        """When decisions were withdrawn here, by their likeness."""
        self.autorecords = autorecords(entries, autorecords_by_default)
        self._ledger: Ledger | None = None
        self.has_no_ledger: UsageError | None = None
        """Why not."""
        try:
            self._ledger = Ledger(home, project)
        except UsageError as error:
            self.has_no_ledger = error
        self._home = home
        self._elsewhere: Recorded | None = None
        """What other sessions of the project have decided; asked only where no ledger says it."""
        self._missed: list[Decision] = []
        """Of those, what could not come into the ledger there, nor from here yet."""
        self._has_looked = False
        """Whether others were asked for such."""
        self._unfiled = unfiled(entries)
        """Decisions that are not in the ledger yet."""
        self._filed = self._marked = len(self.decisions) - len(self._unfiled)
        """How many are, and how many of them the session knows of."""
        self.unreadable: PerdureError | None = None
        """Why the ledger could not be read, when that was last tried."""
        self.numbered: list[Known] = []
        """The decisions as the user last saw them with their numbers; a number means that list, whatever was
        withdrawn since, here or elsewhere."""
        self.set_aside = ""
        """Where a ledger is that could not be read, and was begun anew."""
        self.is_switched = False
        """Whether it is not recorded yet that `autorecords` is another."""
        self._found: list[Decision] = []
        """In answers that may not be on disk yet."""

    # --- what waits to be recorded with what is said next: an empty session stays empty ------------------

    @property
    def unrecorded(self) -> list[Custom]:
        switched = [autorecord(self.autorecords)] if self.is_switched else []
        named = [] if self._names_root else [Custom(PROJECT, {"root": self.project.root})]
        return [*switched, *named]

    def is_recorded(self) -> None:
        """The session has what was `unrecorded`."""
        self.is_switched, self._names_root = False, True

    # --- what is attached ------------------------------------------------------------------------------

    def attach(self, part: Part) -> bool:
        """Whether it takes the place of an earlier one."""
        names = [each.name for each in self.parts]
        if part.name in names:
            self.parts[names.index(part.name)] = part
            return True
        self.parts.append(part)
        return False

    def detach(self, part: Part) -> None:
        self.parts.remove(part)

    # --- what was decided ------------------------------------------------------------------------------

    def decision(self, text: str) -> Decision | None:
        """Made by hand; None if this session has it already. What was taken out of the ledger since then can
        be decided again."""
        content, tags = with_tags(" ".join(text.split()))
        if likeness(content) in self._own & self._in_force:
            return None
        return self._made(content, tags, "Manual")

    def found_in(self, answer: Assistant) -> Sequence[Body]:
        """What an answer marks as decided and nobody knows yet, to be recorded together with it. A partner is
        told of all decisions, so it may well repeat one of another session."""
        marks = marked(answer.text) if self.autorecords else []
        if not marks:
            return []
        seen = {*self._own, *(likeness(each.content) for each in self.known())}
        found: list[Decision] = []
        for text in marks:
            content, tags = with_tags(text)
            if likeness(content) not in seen:
                seen.add(likeness(content))
                found.append(self._made(content, tags, "AutoDetected"))
        self._found += found
        return [each.body for each in found]

    def take_found(self) -> list[Decision]:
        """Those of answers that are on disk now."""
        found, self._found = self._found, []
        self.keep(*found)
        return found

    def keep(self, *decisions: Decision) -> None:
        """They are recorded in the session."""
        self.decisions += decisions
        self._unfiled += decisions

    def file(self) -> bool:
        """Bring into the ledger what is not there yet: of this session, and of others of the project that
        were killed before they could, or whose disk was full. Whether the session does not say so: then
        `mark` is to be recorded. What fails is tried again with the next one."""
        count = len(self._unfiled)  # more may come meanwhile
        if self._ledger is not None and not self._ledger.is_own:
            if not self._has_looked:  # it is only read; who else waits for its user's word is known here
                others = recorded.of_project(self._home, self.project, beside=self._session_id)
                self._missed = in_force(others.missed, self._all_withdrawn(others))
                self._has_looked = True
        elif self._ledger is not None and (count or not self._has_looked):
            self.set_aside = self._ledger.set_aside_if_unreadable() or self.set_aside
            # Each who writes to the ledger looks first, so that only sessions written to after it can have
            # some. One that is gone is nobody's edit: what was decided before is decided still.
            since = self._ledger.last_look
            others = recorded.of_project(self._home, self.project, beside=self._session_id, since=since)
            wanted = in_force([*others.missed, *self._unfiled[:count]], self._all_withdrawn(others))
            self._missed = in_force(others.missed, self._all_withdrawn(others))
            if since is None:
                self._elsewhere = others
                wanted = self._everything
            self._ledger.add(wanted)
            self._missed, self._has_looked = [], True
            del self._unfiled[:count]
            self._filed += count
        return self._filed > self._marked

    @property
    def mark(self) -> Body:
        return filed(self._filed)

    def is_marked(self) -> None:
        """The session has the `mark`."""
        self._marked = self._filed

    def take_over(self, before: Notebook) -> None:
        """What waits for the disk: the session does not have it yet."""
        self._found = before._found
        self.autorecords, self.is_switched = before.autorecords, before.is_switched
        self._names_root = before._names_root
        self.numbered = before.numbered

    def known(self) -> list[Known]:
        """Everything that was decided in this project, as its ledger has it, and what has not come there."""
        lines = self._lines()
        decisions = self._everything if lines is None else self.decisions
        missed = in_force([*self._missed, *self._unfiled], self._withdrawn)
        return ledger.known(lines, decisions, missed, self.project)

    def listed(self) -> list[Known]:
        """The same, and behind it what was withdrawn."""
        known = self.numbered = self.known()
        others = recorded.of_project(self._home, self.project, beside=self._session_id)
        decisions = [*others.decisions, *self.decisions]
        return [*known, *ledger.withdrawn(known, decisions, self._all_withdrawn(others), self.project)]

    def check_withdrawable(self, content: str) -> None:
        """Raise if the decision is in a ledger that is only read: nothing is recorded then."""
        if self._ledger is not None:
            self._ledger.check_removable(content)

    def withdraw(self, content: str) -> str:
        """A decision is withdrawn, which the session has recorded: take it out of the ledger, and return
        where the file as it was is then, if it was there."""
        self._withdrawn[likeness(content)] = ids.stamp(ids.now())
        return "" if self._ledger is None else self._ledger.remove(content)

    def told(self) -> list[str]:
        """What the partner is told of all this, beside who it is."""
        return [text for text in (attached.prompt(self.parts), self._decisions_told()) if text]

    def _decisions_told(self) -> str:
        known = self.known()
        if not known:
            return ""
        lines: list[str] = []
        room = _MOST_CHARACTERS
        for each in reversed(known[-_MOST:]):
            line = " ".join(filter(None, ("-", each.timestamp[:10], one_line(each.content)[:LONGEST])))
            room -= len(line)
            if room < 0:
                break
            lines.insert(0, line)
        left = len(known) - len(lines)
        older = [f"({left} older ones are not shown.)"] if left else []
        return "\n".join(["# Decisions so far", "", *older, *lines])

    @property
    def _everything(self) -> list[Decision]:
        """What the sessions of the project have decided, in its order; of no project, this one alone."""
        if self._elsewhere is None and any(self.project):
            self._elsewhere = recorded.of_project(self._home, self.project, beside=self._session_id)
        others = self._elsewhere or Recorded.nothing()
        every = in_force([*others.decisions, *self.decisions], self._all_withdrawn(others))
        return sorted(every, key=lambda each: each.timestamp)

    def _all_withdrawn(self, others: Recorded) -> dict[str, str]:
        everywhere = Recorded([], [], {**others.withdrawn})
        everywhere.add(Recorded([], [], self._withdrawn))
        return everywhere.withdrawn

    @property
    def _own(self) -> set[str]:
        return {likeness(each.content) for each in (*self.decisions, *self._found)}

    @property
    def _in_force(self) -> set[str]:
        """What nobody has taken out of the ledger."""
        everything = [*(each.content for each in self.known()), *(each.content for each in self._found)]
        return {*map(likeness, everything)}

    def _lines(self) -> list[ledger.Line] | None:
        """None if there is no ledger, or none that can be read."""
        self.unreadable = None
        try:
            return self._ledger.read() if self._ledger is not None else None
        except PerdureError as error:
            self.unreadable = error
            return None

    def _made(self, content: str, tags: tuple[str, ...], source: str) -> Decision:
        return Decision(content, ids.stamp(ids.now()), self._session_id, tags, source)
