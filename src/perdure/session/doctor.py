"""What is wrong with a session, in sentences; what a repair would keep; and the repair.

Looking changes nothing. A repair keeps every entry that can be read and never destroys a byte: where a file
is replaced, the one it replaces stays beside it; where a document cannot be mended, what can be saved of it
is a new session, and the document stays. Repairing what was repaired does nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from perdure.errors import PerdureError
from perdure.session import tree
from perdure.session.entry import Entry
from perdure.session.findings import Rest
from perdure.session.stores import Found, Problem, Repaired, Store

REPAIR = "A repair "
"""How the sentence begins that says what a repair would do."""


class Diagnosis(NamedTuple):
    ref: Found
    findings: list[str]
    """Everything that is not as it should be, a sentence each."""
    kept: list[Entry]
    """What can be read, and so what a repair keeps: each entry as the tree has it."""
    remedy: str
    """What a repair would do, or why there is none, in a sentence; empty where nothing is wrong."""
    is_only_read: bool = False
    """True if nothing is damaged, and a later version of its program wrote it: it is not written to."""
    is_readable: bool = True
    """Else nothing is known of it, not even that it is damaged."""

    @property
    def is_repairable(self) -> bool:
        return self.remedy.startswith(REPAIR)

    @property
    def messages(self) -> int:
        """How many messages are kept."""
        return sum(entry.type == "message" for entry in self.kept)


def examine(store: Store, ref: Found) -> Diagnosis:
    """Look at one session, also while somebody writes to it."""
    try:
        page = store.read(ref)
        remedy = store.remedy(ref, page)
    except PerdureError as error:
        remedy = "As long as that is so, nothing can be repaired."
        return Diagnosis(ref, [_sentence(error.message)], [], remedy, is_readable=False)
    kept, notices = tree.in_place(page.entries)
    findings = [_finding(problem) for problem in page.problems] + [_sentence(each) for each in notices]
    is_only_read = page.refusal is not None and not findings
    if page.refusal is not None:
        findings.append(_sentence(page.refusal.message))
        remedy = remedy or _sentence(page.refusal.hint)
    if findings and not remedy:
        remedy = "There is nothing to repair: it is read this way every time."
    return Diagnosis(ref, findings, kept, remedy, is_only_read)


def examine_all(store: Store) -> Iterator[Diagnosis]:
    """Look at every session, one at a time; those that are well are not in the result."""
    for ref in store.list():
        diagnosis = examine(store, ref)
        if diagnosis.findings:
            yield diagnosis


def repair(store: Store, ref: Found) -> Repaired | None:
    """Do what `examine` says a repair would do. None if there is nothing to do; `Held` while a process
    writes to the session."""
    return store.repair(ref)


def _finding(problem: Problem) -> str:
    if problem.stands_for > 1:
        return problem.brief
    place = f"line {problem.line} of " if problem.line else "in "
    return _sentence(f"{place}{os.path.basename(problem.path)}: {problem.reason}")


def _sentence(text: str) -> str:
    if isinstance(text, Rest):
        return text  # it knows how many it stands for
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")
