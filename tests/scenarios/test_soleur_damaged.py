"""soleur with sessions that are damaged or cannot be read: they are listed, offered, repaired and named."""

import json
import re
import uuid

from tests.agent.models.wire_server import wire_server
from tests.programs.started import document, soleur

__all__ = ["soleur", "wire_server"]

QUESTION = "Resume last session? [Y/n]"


def talked(soleur, wire_server, *lines, answer="Who pays for it?"):
    """A session in which this was said; its id."""
    soleur.answers(wire_server, answer)
    done = soleur.within("--fresh", stdin="".join(f"{line}\n" for line in lines))
    assert done.code == 0, done
    return document(soleur.files[0])["id"]


def test_sol_06_sol_07_a_session_that_cannot_be_read_is_a_row_and_not_no_session(soleur, home):
    """As the only one: damaged, empty, or a folder of its name. As JSON, too."""
    folder = home / ".soleur" / "sessions"
    folder.mkdir(parents=True)
    ids = [str(uuid.UUID(int=at, version=4)) for at in range(3)]
    (folder / f"{ids[0]}.json").write_text('{"messages": [')
    (folder / f"{ids[1]}.json").write_text("")
    (folder / f"{ids[2]}.json").mkdir()
    done = soleur.within("sessions")
    assert (done.code, "No saved sessions found" in done.out) == (0, False)
    assert all(re.search(rf"^{id}.*\n +! \S", done.out, re.MULTILINE) for id in ids)
    assert {
        row["id"]: bool(row["problem"]) for row in json.loads(soleur.within("sessions", "--json").out)
    } == dict.fromkeys(ids, True)


def torn(soleur, wire_server) -> tuple[str, bytes]:
    """A session whose file ends in its second answer, and what is left of that file."""
    id = talked(soleur, wire_server, "Should we charge?", answer="Whom did you ask?")
    soleur.within("load", id, stdin="Ten of them.\n")
    path = soleur.files[0]
    left = path.read_bytes()[: path.read_bytes().rindex(b"Whom did you ask?")]
    path.write_bytes(left)
    return id, left


def test_sol_08_a_damaged_session_is_offered_with_its_damage_and_repaired_by_a_yes(soleur, wire_server):
    """The file as it was is set aside and named; the session goes on, and is damaged no more."""
    id, left = torn(soleur, wire_server)
    soleur.answers(wire_server, "What did they pay?")
    done = soleur.within(stdin="y\nTwenty dollars.\n")
    offered, damage, question, *_ = done.out.splitlines()
    assert (done.code, offered.split()[0], question.startswith(QUESTION)) == (0, id, True)
    assert re.fullmatch(r"Damaged: line \d+: it ends in the middle.*; resuming repairs it", damage)
    aside = soleur.files[0].with_name(f"{id}.json.damaged")
    assert aside.read_bytes() == left
    assert f"~/.soleur/sessions/{id}.json.damaged" in done.err
    assert soleur.said() == [
        *(("user", "Should we charge?"), ("assistant", "Whom did you ask?"), ("user", "Ten of them.")),
        *(("user", "Twenty dollars."), ("assistant", "What did they pay?")),
    ]
    assert json.loads(soleur.within("sessions", "--json").out)[0]["problem"] is None


def test_sol_08_a_no_or_the_end_of_input_leaves_a_damaged_session_as_it_is(soleur, wire_server):
    """Nothing is set aside before somebody wants to go on in it."""
    id, left = torn(soleur, wire_server)
    for answer in ("", "n\n"):
        assert soleur.within(stdin=answer).code == 0
        (path,) = (home_of_sessions := soleur.files[0].parent).iterdir()
        assert (path, path.read_bytes()) == (home_of_sessions / f"{id}.json", left)


def test_sol_05_a_damaged_session_that_is_loaded_names_the_file_that_was_set_aside(soleur, wire_server):
    """By its id, in the conversation too."""
    id, left = torn(soleur, wire_server)
    done = soleur.within("--fresh", stdin=f"/load {id}\n")
    assert f"The file as it was: ~/.soleur/sessions/{id}.json.damaged" in done.err
    (aside,) = soleur.files[0].parent.glob("*.damaged")
    assert aside.read_bytes() == left


def test_sol_08_a_session_of_which_nothing_can_be_read_is_named_and_the_next_one_offered(soleur, wire_server):
    """Or none, if there is no other: it is never said to be there to go on with."""
    mine = talked(soleur, wire_server, "mine")
    lost = str(uuid.UUID(int=7, version=4))
    (soleur.files[0].parent / f"{lost}.json").write_text("{")
    done = soleur.within(stdin="")
    assert done.out.startswith(f"{mine}  ")
    soleur.files[0].with_name(f"{mine}.json").unlink()
    done = soleur.within(stdin="")
    assert QUESTION not in done.out
    assert f"Not offered: {lost}: " in done.err
