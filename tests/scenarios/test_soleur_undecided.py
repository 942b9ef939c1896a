"""soleur's decisions, withdrawn and filtered: `/undecide`, `/decisions #tag`, `--tag`."""

import json
import re
from pathlib import Path

import pytest

from perdure.session.stores.lock import Lock
from tests.agent.models.wire_server import wire_server
from tests.moments import next_moment
from tests.programs.started import document, soleur, system_of

__all__ = ["soleur", "wire_server"]


@pytest.fixture
def ledger(soleur, wire_server) -> Path:
    soleur.answers(wire_server, "Hm.")
    return soleur.home / ".soleur" / "decisions" / "acme.md"


def rows(text: str) -> list[tuple[str, str]]:
    """How, and what was decided, of a table."""
    return re.findall(r"  (Manual|Auto|Withdrawn) +(.*)\n", text)


def listed(soleur, *words: str) -> list[dict[str, str]]:
    return json.loads(soleur.within("decisions", "--json", *words).out)


@pytest.mark.parametrize("typed", ["1", "Only in Europe.", "only in europe", "Europe"])
def test_sol_12_a_decision_is_withdrawn_by_its_number_or_its_text(soleur, wire_server, ledger, typed):
    """Its line leaves the ledger, which is set aside as it was; the session keeps its record, notes the
    withdrawal, and lists mark it; the partner is told of it no more."""
    soleur.within("--fresh", stdin="/decide Only in Europe.\n/decide Hire two.\n")
    before = ledger.read_text()
    next_moment()
    done = soleur.within("--fresh", stdin=f"/undecide {typed}\nHello\n/decisions\n")
    assert (done.code, "Withdrawn: Only in Europe." in done.err) == (0, True)
    aside = ledger.with_name("acme.md.before")
    assert (aside.read_text(), f"~/.soleur/decisions/{aside.name}" in done.err) == (before, True)
    assert "Europe" not in ledger.read_text()
    assert ("Europe" in system_of(wire_server), "Hire two." in system_of(wire_server)) == (False, True)
    assert rows(done.out) == [("Manual", "Hire two."), ("Withdrawn", "Only in Europe.")]
    assert rows(soleur.within("decisions").out) == rows(done.out)
    second, first = soleur.files
    assert [each["content"] for each in document(first)["decisions"]] == ["Only in Europe.", "Hire two."]
    assert second.read_text().count('"perdure.undecided"') == 1
    kept, gone = listed(soleur)
    assert ((kept["content"], kept["withdrawn"]), bool(gone["withdrawn"])) == (("Hire two.", ""), True)


def test_sol_12_what_was_withdrawn_is_not_brought_back(soleur, wire_server, ledger):
    """Not by its own session, not where the ledger is gone; but it can be decided again."""
    soleur.within("--fresh", stdin="/decide Only in Europe.\n/decide Hire two.\n")
    (first,) = soleur.files
    next_moment()
    soleur.within("--fresh", stdin="/undecide 1\n")
    soleur.within("load", first.stem, stdin="/decide Hire three.\nHello\n")
    assert "Europe" not in ledger.read_text()
    ledger.unlink()
    soleur.within("--fresh", stdin="/decide Hire four.\nHello\n")
    assert re.findall(r"\[Manual\] (.*)\n", ledger.read_text()) == ["Hire two.", "Hire three.", "Hire four."]
    next_moment()
    soleur.within("load", first.stem, stdin="/decide Only in Europe.\nHello\n")
    assert "[Manual] Only in Europe.\n" in ledger.read_text()
    assert "Only in Europe." in system_of(wire_server)
    assert "Withdrawn" not in soleur.within("decisions").out


def test_sol_12_what_never_came_into_the_ledger_is_withdrawn_all_the_same(soleur, wire_server, ledger):
    """Its session files it no more when the ledger can be written again."""
    place = str(soleur.home / ".soleur")
    soleur.within("--fresh", stdin="/decide Hire two.\n")
    with Lock(place, "locks/decisions/acme.lock", "acme", 0):
        soleur.within("--fresh", stdin="/decide Only in Europe.\n")
    missed = soleur.files[0]
    with Lock(place, "locks/decisions/acme.lock", "acme", 0):
        next_moment()
        done = soleur.within("--fresh", stdin="/undecide Europe\n")
        assert "acme.md" in done.err
    soleur.within("load", missed.stem, stdin="Hello\n")
    soleur.within("--fresh", stdin="/decide Hire three.\nHello\n")
    assert "Europe" not in ledger.read_text()
    assert "Europe" not in system_of(wire_server)


@pytest.mark.process
def test_sol_12_a_number_is_that_of_the_list_that_was_shown(soleur, ledger):
    """Whatever was withdrawn since, here or by another process; what is withdrawn already is not found."""
    words = ["One.", "Two.", "Three.", "Four."]
    soleur.within("--fresh", stdin="".join(f"/decide {word}\n" for word in words))
    with soleur.piped("--fresh") as talk:
        talk.say("/decisions")
        talk.until(lambda: "Four." in talk.out)
        soleur.within("--fresh", stdin="/undecide One.\n")
        talk.say("/undecide 2", "/undecide 3", "/undecide 1")
        talk.until(lambda: "Decision not found: 1" in talk.err)
        assert re.findall(r"\[Manual\] (.*)\n", ledger.read_text()) == ["Four."]
        talk.say("/decisions", "/undecide 1")
        talk.until(lambda: "Withdrawn: Four." in talk.err)
        assert talk.leave() == 0


def test_sol_12_what_cannot_be_withdrawn_is_an_error_and_changes_nothing(soleur, ledger):
    """No number, a number that is none, nothing of that text, or several."""
    soleur.within("--fresh", stdin="/decide Hire two.\n/decide Hire three.\n")
    before = ledger.read_text()
    lines = [
        "/undecide",
        "/undecide 0",
        "/undecide 9",
        "/undecide 0000000012",
        "/undecide Fire one.",
        "/undecide Hire",
    ]
    done = soleur.within("--fresh", stdin="".join(f"{line}\n" for line in lines))
    assert "/undecide needs a decision" in done.err
    assert done.err.count("Decision not found: ") == 4
    assert "soleur: 2 decisions match 'Hire':\n  1 (Hire two.)\n  2 (Hire three.)\n" in done.err
    assert (ledger.read_text(), len(soleur.files)) == (before, 1)


def test_sol_12_decisions_are_listed_by_their_tag(soleur, ledger):
    """In the conversation with the numbers that `/undecide` takes, and from the shell; with and without #."""
    soleur.within("--fresh", stdin="/decide Hire two. #team\n/decide Per seat. #pricing,#plan.\n")
    done = soleur.within("--fresh", stdin="/decisions #Pricing\n/decisions team\n/decisions #no\n")
    assert re.findall(r"^(\d)  .*  Manual  (.*)$", done.out, re.MULTILINE) == [
        ("2", "Per seat. #pricing #plan"),
        ("1", "Hire two. #team"),
    ]
    assert "No decisions with #no recorded yet\n" in done.out
    assert "There are some with #plan, #pricing, #team." in done.err
    assert rows(soleur.within("decisions", "--tag", "plan").out) == [("Manual", "Per seat. #pricing #plan")]
    assert [each["content"] for each in listed(soleur, "--tag", "#team")] == ["Hire two."]
