"""`stats`: what it counts is what is there, program by program and in all."""

import os
import re

import pytest

from perdure.front.ages import ago, seconds
from perdure.front.commands.stats import _HEADS
from perdure.session.stores.jsonl import JsonlStore
from tests.front.commands.machine import STAMP, Machine, at_terminal, break_home, process
from tests.layouts import ALL


@pytest.fixture
def full(machine) -> Machine:
    return machine.sessions()


def test_a_machine_without_sessions_counts_none(machine):
    """And all five programs are there with nothing."""
    facts = machine.run("stats", "--json").data
    nothing = {
        "sessions": 0,
        "messages": 0,
        "size": 0,
        "oldest": "",
        "newest": "",
        "deleted": 0,
        "deleted_size": 0,
    }
    assert facts["programs"] == dict.fromkeys(ALL, nothing)
    assert facts["all"] == nothing
    assert machine.run("stats").code == 0


@pytest.mark.parametrize("layout", ALL)
def test_a_program_has_the_sessions_messages_and_bytes_of_its_files(layout, full):
    """What is deleted counts as deleted, and comes back."""
    first, second = full.refs[layout]
    facts = full.run("stats", "--json").data["programs"][layout]
    assert (facts["sessions"], facts["messages"], facts["deleted"]) == (2, 3, 0)
    assert facts["size"] == sum(os.stat(ref.path).st_size for ref in (first, second))
    assert facts["oldest"] == facts["newest"] == "2026-01-31T09:05:00.123Z"
    assert full.run("rm", first.id).code == 0
    facts = full.run("stats", "--json").data["programs"][layout]
    (gone,) = full.run("trash", "--json").data
    assert (facts["sessions"], facts["messages"]) == (1, 1)
    assert (facts["deleted"], facts["deleted_size"]) == (1, gone["size"])
    assert facts["size"] == os.stat(second.path).st_size


def test_all_is_the_sum_of_the_programs(full):
    """And of times the first and the last."""
    assert full.run("rm", *(refs[0].id for refs in full.refs.values())).code == 0
    facts = full.run("stats", "--json").data
    how = {"oldest": min, "newest": max}
    for name, value in facts["all"].items():
        assert value == how.get(name, sum)([sums[name] for sums in facts["programs"].values()])


def test_the_catalogs_own_size_is_that_of_its_files(full):
    """Which lie in the user's cache."""
    catalog = full.run("stats", "--json").data["catalog"]
    files = [path for path in (full.user / ".cache").rglob("catalog.db*") if path.is_file()]
    assert str(files[0]).startswith(catalog["path"])
    assert catalog["size"] == sum(path.stat().st_size for path in files) > 0


def test_the_table_has_a_line_for_each_program_that_has_something(machine):
    """And one for all; deleted sessions are something."""
    machine.add("pi", "one", "two", "three")
    ref = machine.add("sibyl")
    assert machine.run("rm", ref.id).code == 0
    done = machine.run("stats")
    assert (done.code, done.err) == (0, "")
    head, pi, sibyl, everything, catalog = done.out.splitlines()
    assert re.split(r"  +", head) == [*_HEADS]
    assert len({*_HEADS}) == len(_HEADS)
    assert pi.split()[:3] == ["pi", "1", "3"]
    assert sibyl.split()[:3] == ["sibyl", "0", "0"]
    assert everything.split()[:3] == ["all", "1", "3"]
    assert everything.split()[-3] == "1"
    assert re.split(r"  +", pi)[4:6] == [ago(seconds(STAMP))] * 2
    assert catalog.startswith("The catalog takes ")


@pytest.mark.parametrize("layout", ["pi", "aurora", "soleur", "sibyl"])
def test_a_home_that_cannot_be_looked_at_hides_no_other(layout, machine):
    """It is told once, on stderr."""
    for other in ALL:
        if other != layout:
            machine.add(other)
    path = break_home(machine, layout)
    done = machine.run("stats", "--json")
    assert done.data["all"]["sessions"] == len(ALL) - 1
    assert done.err.count(f"Cannot read {path}:") == 1


def test_a_damaged_session_counts_with_what_can_be_read_of_it(machine):
    """As in a listing."""
    ref = machine.add("aurora", "one", "two")
    with open(ref.path, "ab") as file:
        file.write(b"noise\n")
    facts = machine.run("stats", "--json").data["programs"]["aurora"]
    assert (facts["sessions"], facts["messages"]) == (1, 2)


def test_it_is_said_whose_messages_are_not_counted(machine, monkeypatch):
    """Of a session that is so large that only its beginning and its end were read."""
    machine.add("pi", "one")
    assert "not counted" not in machine.run("stats").err
    monkeypatch.setattr(JsonlStore, "large", 2**20)
    machine.add("pi", "one", "x" * 2**21, "three")
    done = machine.run("stats", "--json")
    assert done.data["programs"]["pi"]["messages"] == 1
    assert "1 large session" in done.err


@pytest.mark.process
def test_at_a_terminal_times_are_relative_and_the_table_fits(full):
    """In 80 columns."""
    code, screen = at_terminal("stats")
    assert code == 0
    shown = re.sub(r"\r[^\r\n]*\x1b\[K|\x1b\[\d*m", "", screen.decode())  # without a bar that was replaced
    table = shown.split("The catalog")[0]
    assert " ago" in table
    assert all(len(line) <= 80 for line in table.split("\r\n"))


@pytest.mark.process
def test_the_program_itself_counts(full):
    """As a process, from any directory."""
    assert process("stats", "--json", cwd="/").data["all"]["sessions"] == 10
