"""`doctor`: every damage is told and repaired, nothing that is well is touched, and no byte is lost."""

import os
import shlex
from pathlib import Path

import pytest

from perdure.front.output import Progress
from perdure.session.session import Session
from tests.front.commands.machine import Machine, at_terminal, break_home, process
from tests.layouts import ALL, GOLDEN

NOISE = b'\xff\x00(]}"{\n'


@pytest.fixture
def full(machine) -> Machine:
    return machine.sessions()


def damage(machine: Machine, layout: str) -> str:
    """Noise in the middle of its first session. Returns what that is called."""
    ref = machine.refs[layout][0]
    data = Path(ref.path).read_bytes()
    at = data.rindex(b")") if layout == "sibyl" else data.index(b"\n", len(data) // 2) + 1
    Path(ref.path).write_bytes(data[:at] + NOISE + data[at:])
    return f"{layout}:{ref.id}"


def test_where_all_is_well_it_says_how_many_were_looked_at(full):
    """Exit 0, nothing changed; in JSON nothing is wrong with anything."""
    before = full.files()
    assert full.run("doctor") == (0, "Looked at 10 sessions: all is well.\n", "")
    assert full.run("doctor", full.refs["pi"][0].id) == (0, "Looked at 1 session: all is well.\n", "")
    assert full.run("doctor", "--repair") == (0, "Looked at 10 sessions: all is well.\n", "")
    assert full.run("doctor", "--json") == (0, "[]\n", "")
    assert full.files() == before


def test_a_machine_without_sessions_is_well(machine):
    """And stays as it was."""
    before = machine.files()
    assert machine.run("doctor") == (0, "Looked at 0 sessions: all is well.\n", "")
    assert machine.files() == before


@pytest.mark.parametrize("layout", ALL)
def test_damage_is_told_and_the_command_it_names_repairs_it(layout, full):
    """Exit 1 before, 0 after; what is kept is what was promised, and the original bytes are still there."""
    name = damage(full, layout)
    ref = full.refs[layout][0]
    damaged = Path(ref.path).read_bytes()
    before = full.files()
    told = full.run("doctor")
    assert told.code == 1
    assert full.files() == before, "looking changed something"
    assert told.out.startswith(f"{name}  {ref.path}\n")
    assert "Looked at 10 sessions: 1 damaged.\n" in told.out
    (facts,) = full.run("doctor", "--json").data
    assert (facts["reference"], facts["path"], facts["repaired"]) == (name, ref.path, None)
    assert all(finding in told.out for finding in (*facts["findings"], facts["remedy"]))
    (command,) = (line for line in told.out.splitlines() if "--repair" in line)
    done = full.run(*shlex.split(command)[2:])
    assert done.code == 0
    assert f"Repaired: {facts['entries']} entr" in done.out
    kept = [ref for ref in full.store(layout).list() if ref.path not in before or ref.id == facts["id"]]
    assert any(len(full.store(layout).read(ref).entries) == facts["entries"] for ref in kept)
    assert damaged in [
        path.read_bytes() for path in Path(full.homes[layout].path).rglob("*") if path.is_file()
    ]
    others = [path for path in before if not (full.user / path).samefile(ref.path)]
    assert {
        path: before[path] for path in others if (full.user / path).is_file()
    }.items() <= full.files().items()


@pytest.mark.parametrize("layout", ALL)
def test_a_repair_says_where_the_bytes_are_that_were_there(layout, full):
    """In words and as data."""
    damage(full, layout)
    (facts,) = full.run("doctor", "--repair", "--json").data
    repaired = facts["repaired"]
    assert NOISE in Path(repaired["aside"]).read_bytes()
    assert repaired["left"] == []
    assert repaired["entries"] == facts["entries"]
    assert os.path.lexists(repaired["path"])


@pytest.mark.parametrize("layout", ["pi", "aurora", "cortext"])
def test_repairing_what_was_repaired_finds_all_well(layout, full):
    """Where the session itself is mended."""
    damage(full, layout)
    assert full.run("doctor", "--repair").code == 0
    assert full.run("doctor") == (0, "Looked at 10 sessions: all is well.\n", "")


@pytest.mark.parametrize("layout", ["soleur", "sibyl"])
def test_a_document_that_cannot_be_mended_is_named_with_the_session_that_holds_what_was_saved(layout, full):
    """It stays, and is told as long as it does."""
    damage(full, layout)
    (facts,) = full.run("doctor", "--repair", "--json").data
    again = full.run("doctor")
    assert again.code == 1
    assert f"in session {facts['repaired']['id']} already; this one can be deleted." in again.out
    assert "--repair" not in again.out
    assert full.run("doctor", "--repair").code == 1, "it is still there"
    assert full.run("rm", full.refs[layout][0].id).code == 0
    assert full.run("doctor").code == 0


@pytest.mark.slow
@pytest.mark.parametrize("layout", ALL)
def test_every_golden_damage_is_told_and_hides_no_other(layout, machine):
    """In one pass over all of them; what a repair leaves is told too, and a second repair does nothing."""
    home = Path(machine.homes[layout].sessions)
    for number, golden in enumerate(sorted((GOLDEN / layout / "damaged").iterdir())):
        place = {
            "pi": home / "--here--" / golden.name,
            "aurora": home / golden.name,
            "soleur": home / golden.name,
            "sibyl": home / golden.stem / "session.lisp",
            "cortext": home / "conversations" / "2025-11-22" / f"{number:03d}-{golden.stem}" / ".session",
        }[layout]
        if golden.is_dir():
            for path in golden.rglob("*"):
                if path.is_file():
                    copied = place.parent / path.relative_to(golden)
                    copied.parent.mkdir(parents=True, exist_ok=True)
                    copied.write_bytes(path.read_bytes())
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(golden.read_bytes())
    listed = len(list(machine.store(layout).list()))
    assert listed > 5
    done = machine.run("doctor", "--json")
    cases = done.data
    assert done.code == 1
    assert len(cases) > listed / 3
    assert len(cases) == len({each["path"] for each in cases})
    repaired = machine.run("doctor", "--repair", "--json")
    assert [each["path"] for each in repaired.data] == [each["path"] for each in cases]
    for each in repaired.data:
        offered = each["remedy"].startswith("A repair ")
        assert offered or each["repaired"] is None
        if each["repaired"]:
            assert each["repaired"]["entries"] == each["entries"]
    assert not any(each["repaired"] for each in machine.run("doctor", "--repair", "--json").data)


def test_only_the_sessions_that_are_named_are_looked_at(full):
    """And a wrong name among them repairs nothing."""
    damaged = [damage(full, layout) for layout in ALL]
    before = full.files()
    assert full.run("doctor", full.refs["pi"][1].id).code == 0
    assert [each["reference"] for each in full.run("doctor", "--json", *damaged[:2]).data] == damaged[:2]
    assert full.run("doctor", "--repair", *damaged, "no-such-session").code == 3
    assert full.files() == before


@pytest.mark.parametrize("layout", ALL)
def test_a_held_session_is_not_repaired_and_the_others_are(layout, full):
    """Exit 4, and it is as it was; looking is allowed at any time."""
    for each in ALL:
        damage(full, each)
    held = full.refs[layout][0]
    with Session.open(full.store(layout), held):
        before = Path(held.path).read_bytes()
        assert full.run("doctor", held.id).code == 1
        done = full.run("doctor", "--repair", "--json")
        assert Path(held.path).read_bytes() == before
    assert done.code == 4
    assert f"Session {held.id} is held by process {os.getpid()}" in done.err
    assert {each["program"] for each in done.data if each["repaired"]} == set(ALL) - {layout}


@pytest.mark.parametrize("layout", ALL)
def test_a_repair_that_failed_is_told_where_the_session_is(layout, full):
    """With its reason, without the command that just failed, and in the sum."""
    names = {each: damage(full, each) for each in ALL}
    held = full.refs[layout][0]
    with Session.open(full.store(layout), held):
        done = full.run("doctor", "--repair")
    assert (done.code, done.err) == (4, "")
    block = done.out.partition(f"{names[layout]}  ")[2].partition("\n")[2]
    told = [line for line in block.splitlines() if line.startswith("  Not repaired: ")]
    assert told == [f"  Not repaired: Session {held.id} is held by process {os.getpid()}"]
    assert "--repair" not in done.out
    assert done.out.endswith(
        "Looked at 10 sessions: 5 damaged, 4 of them repaired now, 1 could not be repaired.\n"
    )


@pytest.mark.parametrize("repair", [[], ["--repair"]], ids=str)
def test_what_cannot_be_read_is_not_called_damaged(repair, full):
    """A link among the sessions: nobody knows what is in it, and there is nothing to repair."""
    ref = full.refs["aurora"][0]
    elsewhere = full.user / "elsewhere.jsonl"
    Path(ref.path).rename(elsewhere)
    Path(ref.path).symlink_to(elsewhere)
    done = full.run("doctor", *repair)
    assert (done.code, done.err) == (1, "")
    assert "it is a symbolic link" in done.out
    assert done.out.endswith("Looked at 10 sessions: 1 cannot be read.\n")
    damage(full, "pi")
    assert "Looked at 10 sessions: 1 damaged, 1 cannot be read.\n" in full.run("doctor").out


@pytest.mark.parametrize("layout", ["pi", "aurora", "soleur", "sibyl"])
def test_a_home_that_cannot_be_looked_at_is_not_well_and_hides_no_other(layout, machine):
    """Told on stderr, exit 1; but not where other sessions were asked for."""
    others = [machine.add(each) for each in ALL if each != layout]
    path = break_home(machine, layout)
    done = machine.run("doctor")
    assert done.code == 1
    assert f"Cannot read {path}" in done.err
    assert done.out == f"Looked at {len(others)} sessions: all is well.\n"
    assert machine.run("doctor", others[0].id) == (0, "Looked at 1 session: all is well.\n", "")


@pytest.mark.parametrize("layout", ["pi", "aurora", "cortext"])
def test_a_bar_says_how_far_the_look_and_the_repair_are_and_nothing_after_it_is_gone(
    layout, full, monkeypatch
):
    """What would be told after its end would stay on the screen. A file of several pieces is told by each."""
    at_work: list[str] = []
    told: list[tuple[str, float]] = []

    class Watched(Progress):
        def __enter__(self):
            at_work.append(self._what)
            return super().__enter__()

        def __exit__(self, *exception):
            at_work.clear()

        def update(self, done, total, share=None):
            assert at_work == [self._what]
            told.append((self._what, share))

    id = damage(full, layout)
    with open(full.refs[layout][0].path, "ab") as file:
        file.write((b"x" * 2**19 + b"\n") * 6)
    monkeypatch.setattr("perdure.front.output.Progress", Watched)
    full.run("doctor", "--repair", id)
    for what in ("Looking at sessions", "Repairing sessions"):
        shares = [share for each, share in told if each == what]
        assert len({*shares}) > 2
        assert all(0 <= share <= 1 for share in shares)


def test_workspaces_that_share_an_id_are_told_apart(machine):
    """The command names the one that is damaged, by its path."""
    other = machine.add_workspace(str(machine.user / "other"))
    id = "2025-11-22/001-plan-launch"
    one, two = machine.add("cortext", "one", id=id), machine.add("cortext", "two", id=id, home=other)
    Path(two.path).write_bytes(Path(two.path).read_bytes() + NOISE)
    (facts,) = machine.run("doctor", "--json").data
    assert facts["reference"] == two.path
    before = Path(one.path).read_bytes()
    assert machine.run("doctor", "--repair", facts["reference"]).code == 0
    assert machine.run("doctor").code == 0
    assert Path(one.path).read_bytes() == before


@pytest.mark.process
def test_what_damage_says_never_reaches_a_terminal_as_it_is(machine):
    """Findings may quote a file: another session's id, or whatever is in its place."""
    ref = machine.add("aurora")
    text = Path(ref.path).read_text()
    Path(ref.path).write_text(text.replace(f'"{ref.id}"', r'"x\u001b[31mred\u202e\u0007"', 1))
    for words in (["doctor"], ["doctor", "--json"], ["doctor", "--repair"]):
        code, screen = at_terminal(*words)
        assert screen
        assert not any(each in screen for each in (b"\x1b[31mred", "\u202e".encode(), b"\x07")), words
    assert code == 0


@pytest.mark.process
def test_the_program_itself_examines_and_repairs(full):
    """As a process, with its exit codes."""
    names = [damage(full, layout) for layout in ALL]
    told = process("doctor", "--json")
    assert (told.code, [each["reference"] for each in told.data]) == (1, names)
    assert process("doctor", "--repair").code == 0
