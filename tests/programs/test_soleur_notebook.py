"""What a partner is told of a project's decisions, and when a session knows that they are in the ledger."""

from pathlib import Path

from perdure.agent.session import AgentSession
from perdure.errors import NotSaved
from perdure.programs.soleur.decisions import LONGEST, unfiled
from perdure.programs.soleur.ledger import Ledger
from perdure.programs.soleur.notebook import Notebook
from perdure.session.projects import Project
from perdure.session.session import Session
from perdure.session.stores import open_store
from tests.agent.models.wire_server import wire_server
from tests.programs.started import soleur

__all__ = ["soleur", "wire_server"]

ACME = Project("acme", "")


def told(home: Path, *lines: str) -> str:
    """To the partner of a new session, of a ledger that has these lines."""
    place = str(home / ".soleur")
    path = Path(Ledger(place, ACME).path)
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"- {line}\n" for line in lines))
    with Session.create(open_store("soleur"), facts={"project_name": "acme"}) as session:
        (text,) = Notebook(session, place, ACME, autorecords_by_default=True).told()
    return text


def test_sol_12_a_partner_is_told_of_the_newest_100_decisions_and_how_many_are_left_out(home):
    """In their order, each with its day."""
    lines = [f"[2026-01-31 09:05] [Manual] Number {number}." for number in range(1, 151)]
    assert told(home, *lines).splitlines() == [
        *("# Decisions so far", "", "(50 older ones are not shown.)"),
        *(f"- 2026-01-31 Number {number}." for number in range(51, 151)),
    ]


def test_sol_12_a_partner_is_told_of_no_more_decisions_than_20_000_characters(home):
    """The newest ones; of each at most what one in an answer may have. One by hand need have no day."""
    long = "x" * (LONGEST - len("- ") - len("00"))
    first, second, older, *shown = told(
        home, *(f"{number:02}{long}" for number in range(40)), "y" * (LONGEST + 1), "Short."
    ).splitlines()
    assert (first, second, older) == ("# Decisions so far", "", "(22 older ones are not shown.)")
    numbered = [f"- {number:02}{long}" for number in range(22, 40)]
    assert shown == [*numbered, f"- {'y' * LONGEST}", "- Short."]
    assert 20_000 - LONGEST < sum(map(len, shown)) <= 20_000


def test_sol_12_what_could_not_be_marked_as_filed_is_marked_by_the_next_save(
    soleur, wire_server, monkeypatch
):
    """In the same process: else the next start would bring back a line that was taken out meanwhile."""
    record = AgentSession.record
    refused: list[object] = []

    async def refusing(self, *bodies):
        if not refused and any(getattr(body, "custom_type", "") == "perdure.filed" for body in bodies):
            refused.append(bodies)
            raise NotSaved(self.session.ref.path, "No space left on device")
        await record(self, *bodies)

    monkeypatch.setattr(AgentSession, "record", refusing)
    soleur.answers(wire_server, "Hm.")
    assert soleur.within("--fresh", stdin="/decide Go.\n").code == 0
    assert len(refused) == 1
    store = open_store("soleur")
    (ref,) = store.list()
    assert unfiled(store.read(ref).entries) == []
