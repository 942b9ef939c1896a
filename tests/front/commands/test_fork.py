"""`fork`: a new session of the same home that shares a beginning with another one, which stays as it is."""

import os
import shlex
from pathlib import Path

import pytest

from perdure.session.session import Session
from tests.front.commands.machine import Machine, process
from tests.layouts import ALL

SAID = ("one", "two", "three", "four")


def forked(machine: Machine, layout: str, *words: str) -> str:
    """The id of the fork that this call makes."""
    (facts,) = machine.run("fork", "--json", *words).data
    assert facts["program"] == layout
    return facts["id"]


def texts(machine: Machine, layout: str, id: str) -> list[str]:
    (ref,) = (ref for ref in machine.store(layout).list() if ref.id == id)
    return machine.texts(layout, ref)


@pytest.mark.parametrize("layout", ALL)
def test_a_fork_has_all_that_was_said_and_its_source_is_as_it_was(layout, machine):
    """And the line names both, with the command that shows the new one."""
    ref = machine.add(layout, *SAID)
    before = machine.files()
    done = machine.run("fork", ref.id)
    assert (done.code, done.err) == (0, "")
    sentence, _, command = done.out.strip().partition("; show it: ")
    *_, new = sentence.split()
    assert sentence == f"Forked {layout}:{ref.id} as {new}"
    assert shlex.split(command) == ["perdure", "sessions", "show", new]
    assert texts(machine, layout, new.partition(":")[2]) == [*SAID]
    assert before.items() <= machine.files().items()
    assert len(list(machine.store(layout).list())) == 2


@pytest.mark.parametrize("layout", ALL)
@pytest.mark.parametrize("at", range(len(SAID)))
def test_a_fork_ends_where_it_is_told(layout, at, machine):
    """By the id of the entry, or its beginning."""
    ref = machine.add(layout, *SAID)
    entries = [entry for entry in machine.store(layout).read(ref).entries if entry.type == "message"]
    for id in (entries[at].id, entries[at].id[:9]):
        assert texts(machine, layout, forked(machine, layout, ref.id, "--at", id)) == [*SAID[: at + 1]]


@pytest.mark.parametrize("layout", ALL)
def test_an_entry_that_is_not_there_makes_no_fork(layout, machine):
    """Exit 3, and nothing is made."""
    ref = machine.add(layout)
    before = machine.files()
    done = machine.run("fork", ref.id, "--at", "no-such-entry")
    assert (done.code, done.out) == (3, "")
    assert "Entry not found: no-such-entry" in done.err
    assert machine.files() == before


@pytest.mark.parametrize("layout", ALL)
def test_a_fork_belongs_to_the_project_of_its_source(layout, machine):
    """Wherever it is made: in listings of that project, and not of this directory's."""
    project = machine.user / "project"
    project.mkdir()
    ref = machine.add(layout, *SAID, cwd=str(project))
    id = forked(machine, layout, ref.id)
    (new,) = (each for each in machine.store(layout).list() if each.id == id)
    source, fork = (machine.store(layout).read(each).header for each in (ref, new))
    assert fork.cwd == source.cwd
    if layout == "pi":
        assert os.path.dirname(new.path) == os.path.dirname(ref.path)


@pytest.mark.parametrize("layout", ALL)
def test_a_fork_is_made_also_while_another_process_talks_in_its_source(layout, machine):
    """Which is what one is told to do then."""
    ref = machine.add(layout, *SAID)
    with Session.open(machine.store(layout), ref):
        assert machine.run("fork", ref.id).code == 0


def test_a_fork_of_a_damaged_session_holds_what_could_be_read_and_says_so(machine):
    """With the command that says what is wrong."""
    ref = machine.add("pi", *SAID)
    Path(ref.path).write_bytes(Path(ref.path).read_bytes() + b"noise\n")
    done = machine.run("fork", ref.id)
    assert done.code == 0
    assert f"`perdure sessions doctor pi:{ref.id}`" in done.err


@pytest.mark.process
def test_the_program_itself_forks_and_shows_the_fork(machine):
    """By the command it prints."""
    ref = machine.add("pi", *SAID)
    done = process("fork", f"pi:{ref.id}", cwd="/")
    assert done.code == 0
    _, _, *command = shlex.split(done.out.partition("; show it: ")[2])
    shown = process(*command)
    assert shown.code == 0
    assert all(text in shown.out for text in SAID)
