"""`doctor`: what is wrong with sessions, what a repair would keep, and the repair.

Looking changes nothing. A session that cannot be read, or repaired, is in the way of no other.
"""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from perdure.errors import PerdureError
from perdure.front.amounts import counted
from perdure.front.output import Output, Styled
from perdure.session import doctor as engine
from perdure.session import reference
from perdure.session.doctor import Diagnosis
from perdure.session.layouts import Home
from perdure.session.stores import Found, Repaired, Store, open_store
from perdure.session.stores.file_store import FileStore


class _Case(NamedTuple):
    """A session that is not well."""

    reference: str
    store: Store
    diagnosis: Diagnosis
    """Without what can be read: that may be much, and there may be many."""
    entries: int
    messages: int
    """How much can be read."""
    repaired: Repaired | None = None
    left: Sequence[str] = ()
    """What is still found after the repair: what is lost is not there again."""
    refused: PerdureError | None = None
    """Why there was none."""


def doctor(options: SimpleNamespace, out: Output) -> int:
    problems: list[str] = []
    every = list(reference.listed(problems=problems))
    chosen = every
    if options.ids:
        paths = {ref.path for _, ref in reference.find_all(options.ids)}
        chosen = [(home, ref) for home, ref in every if ref.path in paths]
        problems = []  # of homes that nobody asked for
    cases = _examined(chosen, _names(every), out)
    if options.repair:
        cases = _all_repaired(cases, out)
    for problem in problems:
        out.note(problem)
    refusals = [case.refused for case in cases if case.refused]
    if out.json:
        for error in refusals:
            out.failed(error)
        out.data([_facts(case) for case in cases])
    else:
        _tell(cases, len(chosen), out)
    is_well = not problems and all(case.repaired or case.diagnosis.is_only_read for case in cases)
    return max((error.exit_code for error in refusals), default=0 if is_well else 1)


def _names(every: Sequence[tuple[Home, Found]]) -> dict[str, str]:
    """What each session is called, by its path; the path itself where others are called the same."""
    names = {ref.path: f"{home.program}:{ref.id}" for home, ref in every}
    count = Counter(names.values())
    return {path: name if count[name] == 1 else path for path, name in names.items()}


def _examined(chosen: Sequence[tuple[Home, Found]], names: dict[str, str], out: Output) -> list[_Case]:
    """Those that are not well."""
    stores = {home: open_store(*home) for home, _ in dict.fromkeys((home, None) for home, _ in chosen)}
    cases = []
    total = sum(ref.size for _, ref in chosen) or 1
    before = 0
    with out.progress("Looking at sessions") as progress:
        for number, (home, ref) in enumerate(chosen):
            store = stores[home]

            def watch(offset: int, number: int = number, before: int = before) -> None:
                progress.update(number, len(chosen), (before + offset) / total)

            watch(0)
            if isinstance(store, FileStore):
                store.watch = watch
            diagnosis = engine.examine(store, ref)
            is_gone = ref.inode and not os.path.lexists(ref.path)  # somebody deleted it meanwhile
            if diagnosis.findings and not is_gone:
                counts = len(diagnosis.kept), diagnosis.messages
                cases.append(_Case(names[ref.path], store, diagnosis._replace(kept=[]), *counts))
            before += ref.size
    return cases


def _all_repaired(cases: Sequence[_Case], out: Output) -> list[_Case]:
    """Those that a repair may change; the others as they are."""
    done = []
    with out.progress("Repairing sessions") as progress:
        for number, case in enumerate(cases):
            size = case.diagnosis.ref.size or 1

            def watch(offset: int, number: int = number, size: int = size) -> None:
                progress.update(number, len(cases), (number + offset / size) / len(cases))

            may_change = case.diagnosis.is_readable and not case.diagnosis.is_only_read
            done.append(_repaired(case, watch) if may_change else case)
    return done


def _repaired(case: _Case, watch: Callable[[int], object]) -> _Case:
    if isinstance(case.store, FileStore):
        case.store.watch = watch
    try:
        repaired = engine.repair(case.store, case.diagnosis.ref)
        left = engine.examine(case.store, repaired.ref).findings if repaired else ()
        return case._replace(repaired=repaired, left=left)
    except PerdureError as error:
        return case._replace(refused=error)


def _tell(cases: Sequence[_Case], looked_at: int, out: Output) -> None:
    for case in cases:
        diagnosis = case.diagnosis
        out.line(Styled(case.reference, "bold"), "  ", Styled(diagnosis.ref.path, "dim"))
        for finding in diagnosis.findings:
            out.line("  ", finding)
        style = "green" if case.repaired else "red" if case.refused else "yellow"
        for sentence in _outcome(case, out.program):
            out.line("  ", Styled(sentence, style))
    out.line(f"Looked at {counted(looked_at, 'session')}: {_summed_up(cases)}.")


def _summed_up(cases: Sequence[_Case]) -> str:
    if not cases:
        return "all is well"
    readable = [case for case in cases if case.diagnosis.is_readable]
    damaged = [case for case in readable if not case.diagnosis.is_only_read]
    counts = {
        "damaged": len(damaged),
        "of them repaired now": sum(case.repaired is not None for case in damaged),
        "could not be repaired": sum(case.refused is not None for case in damaged),
        "can only be read": len(readable) - len(damaged),
        "cannot be read": len(cases) - len(readable),
    }
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)


def _outcome(case: _Case, program: str) -> list[str]:
    """What was done, or can be."""
    if case.refused:
        return [f"Not repaired: {case.refused.message}", *filter(None, [case.refused.hint])]
    if case.repaired is None:
        command = f"{program} sessions doctor --repair {shlex.quote(case.reference)}"
        return [case.diagnosis.remedy, *([command] if case.diagnosis.is_repairable else [])]
    ref, entries, aside = case.repaired
    kept = "1 entry" if entries == 1 else f"{entries} entries"
    is_new = ref.path != case.diagnosis.ref.path
    sentences = [f"Repaired: {kept} kept" + (f" as {reference.name_of(case.store, ref)}." if is_new else ".")]
    if aside:
        sentences.append(f"What was there before: {aside}")
    return [*sentences, *(f"Still so: {finding}" for finding in case.left)]


def _facts(case: _Case) -> dict[str, Any]:
    diagnosis, repaired = case.diagnosis, case.repaired
    return {
        "reference": case.reference,
        "program": case.store.name,
        "id": diagnosis.ref.id,
        "path": diagnosis.ref.path,
        "findings": diagnosis.findings,
        "remedy": diagnosis.remedy,
        "entries": case.entries,
        "messages": case.messages,
        "repaired": repaired
        and {
            "id": repaired.ref.id,
            "path": repaired.ref.path,
            "entries": repaired.entries,
            "aside": repaired.aside,
            "left": [*case.left],
        },
    }
