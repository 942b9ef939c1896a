"""soleur's decisions over time: made again, edited, made elsewhere, and in a ledger that cannot be read."""

import json
import os
import re
from pathlib import Path

import pytest

from perdure.programs.soleur import ledger as ledgers
from perdure.session.session import Session
from perdure.session.stores import open_store
from perdure.session.stores.lock import Lock
from perdure.testing import user_entry
from tests.agent.models.wire_server import wire_server
from tests.moments import next_moment
from tests.programs.started import Program, document, soleur, system_of

__all__ = ["soleur", "wire_server"]


@pytest.fixture
def ledger(soleur) -> Path:
    return soleur.home / ".soleur" / "decisions" / "acme.md"


@pytest.fixture
def heading(soleur) -> str:
    """Of a ledger that somebody edits: it is this project's."""
    return f"# Decision Ledger: acme\n\n<!-- project root: {soleur.project} -->\n\n"


def told(system: str) -> list[str]:
    """The decisions that the partner was told of, without their days."""
    lines = system.partition("# Decisions so far\n\n")[2].partition("\n\n")[0]
    return re.findall(r"^- (?:[\d-]{10} )?(.*)$", lines, re.MULTILINE)


def listed(soleur) -> list[dict[str, object]]:
    return json.loads(soleur.within("decisions", "--json").out)


# --- made again -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_sol_12_what_was_taken_out_of_the_ledger_can_be_decided_again_by_hand(
    soleur, wire_server, ledger, heading
):
    """It is recorded, filed and in force; and lists have its time, source and session, not the first's."""
    soleur.answers(wire_server, "[DECISION: Only in Europe.] Why?", "Hm.")
    soleur.within("--fresh", stdin="Hello\n")
    first = soleur.files[0]
    for words in (["--fresh"], ["load", first.stem]):
        path, before = soleur.files[0], document(soleur.files[0])["decisions"][-1]["timestamp"]
        path.write_text(path.read_text().replace(before, "2026-01-31T09:05:00.000Z"))
        ledger.write_text(heading)
        assert listed(soleur) == []

        done = soleur.within(*words, stdin="/decide only in europe\n/decisions\nAnd?\n")
        assert "Decided: only in europe\n" in done.err
        assert done.out.count("  Manual  only in europe\n") == 1
        assert told(system_of(wire_server)) == ["only in europe"]
        assert ledger.read_text().count("] [Manual] only in europe\n") == 1
        found = document(soleur.files[0])["decisions"][-1]
        assert (found["source"], found["session_id"]) == ("Manual", soleur.files[0].stem)
        (row,) = listed(soleur)
        of_project = {"project": "acme", "project_root": str(soleur.project), "withdrawn": ""}
        assert row == {**{name: found[name] for name in row if name not in of_project}, **of_project}
    assert [each["source"] for each in document(first)["decisions"]] == ["AutoDetected", "Manual"]


def test_sol_12_autorecord_that_was_switched_off_before_a_decision_stays_off(soleur, wire_server):
    """The decision is the first that is recorded, and brings it along."""
    soleur.answers(wire_server, "[DECISION: Never mind.] Why?")
    soleur.within("--fresh", stdin="/autorecord off\n/decide Go.\n")
    (path,) = soleur.files
    assert soleur.within("load", path.stem, stdin="Hello\n/autorecord\n").err.splitlines()[-1] == (
        "Decisions in answers are not recorded."
    )
    assert [each["content"] for each in document(path)["decisions"]] == ["Go."]


# --- made elsewhere ---------------------------------------------------------------------------------------


@pytest.mark.process
def test_sol_12_what_others_decide_while_a_session_is_open_is_in_its_next_prompt(soleur, wire_server, ledger):
    """Another process, or who edits the ledger."""
    soleur.answers(wire_server, "Hm.")
    with soleur.piped("--fresh") as talk:
        talk.say("/decide Ours.", "One")
        talk.until(lambda: talk.out.count("Hm.") == 1)
        assert told(system_of(wire_server)) == ["Ours."]
        soleur.within("--fresh", stdin="/decide Theirs.\n")
        ledger.write_text(f"{ledger.read_text().replace('Ours', 'Ours, until May')}- By hand.\n")
        talk.say("Two")
        talk.until(lambda: talk.out.count("Hm.") == 2)
        assert talk.leave() == 0
    assert told(system_of(wire_server)) == ["Ours, until May.", "Theirs.", "By hand."]


@pytest.fixture
def miss(soleur, ledger, monkeypatch):
    """Decide something in a session of its own, and not in the ledger: somebody holds that."""
    monkeypatch.setattr(ledgers, "_PATIENCE", 0.0)
    ledger.parent.mkdir(parents=True)

    def decide(text: str) -> str:
        with Lock(str(soleur.home / ".soleur"), "locks/decisions/acme.lock", "acme", 0):
            done = soleur.within("--fresh", stdin=f"/decide {text}\n")
        assert "Not in the ledger: " in done.err
        return soleur.files[0].stem

    return decide


@pytest.mark.slow
@pytest.mark.parametrize("ledger_says", [None, [], ["By hand."]], ids=["gone", "empty", "there"])
def test_sol_12_what_did_not_come_into_the_ledger_comes_there_from_the_next_session_of_the_project(
    soleur, wire_server, ledger, heading, ledger_says, miss
):
    """Because its process was killed or the disk was full, or because the ledger is gone. Not from projects
    of another name; and an answer that marks it decides nothing new."""
    soleur.answers(wire_server, "[DECISION: theirs] Why?")
    if ledger_says is not None:
        ledger.write_text("".join([heading, *(f"- {line}\n" for line in ledger_says)]))
    miss("Theirs.")
    other = Program("soleur", soleur.home, soleur.home / "other")
    assert "No decisions recorded yet\n" in other.within("--fresh", stdin="/decisions\n").out
    known = [*(ledger_says or []), "Theirs."]
    done = soleur.within("--fresh", stdin="Hello\n/decisions\n")
    assert f"Told of {len(known)} decision{'s' if len(known) > 1 else ''} of acme" in done.err
    assert re.findall(r"  Manual  (.*)\n", done.out) == known
    assert told(system_of(wire_server)) == known
    assert document(soleur.files[0])["decisions"] == []
    assert ledger.read_text().endswith("[Manual] Theirs.\n")


@pytest.mark.process
def test_sol_12_a_ledger_that_cannot_be_written_hides_nothing_that_others_decided(
    soleur, ledger, heading, miss
):
    """They are told of it until it can, and then it is theirs to take out, for all who talk."""
    ledger.write_text(f"{heading}- By hand.\n")
    first = miss("Theirs.")
    held = Lock(str(soleur.home / ".soleur"), "locks/decisions/acme.lock", "acme", 0)
    with soleur.piped("--fresh") as talk:
        with held:
            talk.say("/decisions")
            talk.until(lambda: "Theirs." in talk.out)
            assert "Theirs." not in ledger.read_text()
        talk.say("/decide Ours.", "/decisions")
        talk.until(lambda: talk.out.count("Ours.") == 1)
        lines = ledger.read_text().splitlines()[4:]
        assert [line.rpartition("] ")[2] for line in lines] == ["- By hand.", "Theirs.", "Ours."]
        ledger.write_text(f"{heading}- By hand.\n")
        talk.say("/decisions")
        talk.until(lambda: talk.out.count("By hand.") == 3)
        assert talk.leave() == 0
    assert (talk.out.count("Theirs."), talk.out.count("Ours.")) == (2, 1)
    assert re.findall(r"  Manual  (.*)\n", soleur.within("--fresh", stdin="/decisions\n").out) == ["By hand."]
    assert soleur.within("load", first).code == 0


def test_sol_12_who_edits_the_ledger_hides_nothing_that_a_session_missed(soleur, ledger, heading, miss):
    """The ledger is newer than the session then, and nobody has looked there."""
    soleur.within("--fresh", stdin="/decide Ours.\n")
    miss("Theirs.")
    next_moment()
    ledger.write_text(f"{ledger.read_text()}- By hand.\n")
    done = soleur.within("--fresh", stdin="/decisions\n")
    assert re.findall(r"  Manual  (.*)\n", done.out) == ["Ours.", "By hand.", "Theirs."]


@pytest.mark.process
def test_sol_12_a_withdrawal_hides_nothing_that_others_missed_meanwhile(soleur, ledger, miss):
    """Who withdraws a decision has not looked into other sessions for what the ledger lacks."""
    with soleur.piped("--fresh") as talk:
        talk.say("/decide First.", "/decide Second.")
        talk.until(lambda: ledger.exists() and "Second." in ledger.read_text())
        miss("Theirs.")
        talk.say("/undecide 1")
        talk.until(lambda: "Withdrawn: First." in talk.err)
        talk.process.kill()
    done = soleur.within("--fresh", stdin="/decisions\n")
    assert re.findall(r"  Manual +(.*)\n", done.out) == ["Second.", "Theirs."]


@pytest.mark.process
def test_sol_12_what_a_session_decides_brings_along_what_others_missed_meanwhile(soleur, ledger, miss):
    """Or the ledger would be newer than their sessions, and nobody would look there any more."""
    with soleur.piped("--fresh") as talk:
        talk.say("/decide First.")
        talk.until(lambda: "Decided: First." in talk.err and ledger.exists())
        miss("Theirs.")
        talk.say("/decide Last.")
        assert talk.leave() == 0
    lines = ledger.read_text().splitlines()[4:]
    assert [line.rpartition("] ")[2] for line in lines] == ["First.", "Theirs.", "Last."]


def test_sol_12_what_was_taken_out_of_the_ledger_is_decided_by_an_answer_in_another_session(
    soleur, wire_server, ledger, heading
):
    """Who was not told of it does not repeat it."""
    soleur.answers(wire_server, "[DECISION: We charge per seat.] Why?")
    soleur.within("--fresh", stdin="/decide We charge per seat.\n")
    ledger.write_text(heading)
    assert "Decided: We charge per seat.\n" in soleur.within("--fresh", stdin="Hello\n").err


def test_sol_12_sessions_of_no_project_keep_their_decisions_to_themselves(soleur):
    """There is nothing that they have in common."""
    for text in ("One.", "Two."):
        with Session.create(open_store("soleur"), facts={"project_name": ""}) as session:
            session.append(user_entry("hello"))
        done = soleur.within("load", session.id, stdin=f"/decide {text}\n/decisions\n")
        assert re.findall(r"  Manual  (.*)\n", done.out) == [text]


@pytest.mark.process
def test_sol_12_a_mark_that_the_session_cannot_take_is_no_ledger_that_could_not_be_written(
    soleur, wire_server, ledger
):
    """Then the ledger has the decision, and nothing untrue is said of it."""
    soleur.answers(wire_server, "Hm.")
    ledger.mkdir(parents=True)
    soleur.within("--fresh", stdin=f"{'x' * 8000}\n/decide Ours.\n")
    ledger.rmdir()
    (path,) = soleur.files
    before = path.read_bytes()
    soleur.command = ["sh", "-c", 'ulimit -f 8; exec "$0" "$@"', *soleur.command]  # no file over 4 KB, or 8
    done = soleur.run("load", path.stem)
    assert path.read_bytes() == before
    assert "Not in the ledger" not in done.err
    assert "[Manual] Ours.\n" in ledger.read_text()


@pytest.mark.process
def test_sol_12_a_day_that_was_typed_into_the_ledger_is_that_day_everywhere(soleur, ledger):
    """Whatever clock its reader has; a minute is one of theirs."""
    ledger.parent.mkdir(parents=True)
    ledger.write_text("- [2026-01-31] By hand.\n- [2026-02-01 02:30] [Manual] By night.\n")
    for zone, night in (("America/New_York", "2026-01-31 21:30"), ("Asia/Tokyo", "2026-02-01 11:30")):
        done = soleur.run("decisions", env={**os.environ, "TZ": zone})
        assert done.out.splitlines()[2:] == [
            "2026-01-31        Manual  By hand.",
            f"{night}  Manual  By night.",
        ]
    assert [row["timestamp"] for row in listed(soleur)] == ["2026-01-31", "2026-02-01T02:30:00.000Z"]


# --- a ledger that cannot be read ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (Path.mkdir, "a folder is in its place"),
        (lambda path: path.symlink_to("elsewhere.md"), "it is a symbolic link"),
    ],
    ids=["folder", "link"],
)
def test_sol_12_with_a_ledger_that_cannot_be_read_sessions_say_what_was_decided(
    soleur, wire_server, ledger, make, why
):
    """In lists and in prompts; what is wrong with the ledger is said once, and with each list."""
    soleur.answers(wire_server, "Hm.")
    soleur.within("--fresh", stdin="/decide Ours.\n")
    next_moment()
    soleur.within("--fresh", stdin="/decide Theirs.\n")
    second, first = soleur.files
    ledger.unlink()
    make(ledger)
    done = soleur.within("load", first.stem, stdin="Hello\nAgain\n")
    assert (done.code, done.err.count(str(ledger))) == (0, 1)
    assert why in done.err
    assert told(system_of(wire_server)) == ["Ours.", "Theirs."]
    done = soleur.within("load", second.stem, stdin="/decisions\n")
    assert re.findall(r"  Manual  (.*)\n", done.out) == ["Ours.", "Theirs."]
    assert done.err.count(why) == 2
    assert sorted(str(row["content"]) for row in listed(soleur)) == ["Ours.", "Theirs."]
