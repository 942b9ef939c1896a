"""`rm`, `trash`, `restore`: nothing is lost there and back, and nothing goes that was not named."""

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from perdure.session.session import Session
from tests.front.commands.machine import Machine, at_terminal, break_home, process
from tests.front.typed import Typed
from tests.layouts import ALL, store_of
from tests.moments import next_moment

HOSTILE = "a\x1b[31mb\u202ec\x07"


@pytest.fixture
def full(machine) -> Machine:
    return machine.sessions()


def title(layout: str) -> str:
    return "The launch" if layout == "cortext" else "hello"


def names(machine: Machine) -> list[str]:
    return [f"{layout}:{refs[0].id}" for layout, refs in machine.refs.items()]


# --- rm and restore ------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ALL)
def test_rm_then_restore_is_the_identity(layout, full):
    """On every file of every home, but for locks and the trash; by the command that `rm` itself prints, with
    the title by which people know it."""
    before = full.files()
    ref = full.refs[layout][0]
    done = full.run("rm", ref.id)
    assert done == (
        0,
        f"Deleted {layout}:{ref.id} ({title(layout)}); restore: perdure sessions restore {layout}:{ref.id}\n",
        "",
    )
    assert not os.path.lexists(ref.path)
    assert full.files() != before
    _, _, verb, name = shlex.split(done.out.partition("restore: ")[2])
    assert full.run(verb, name) == (0, f"Restored {layout}:{ref.id}: {ref.path}\n", "")
    assert full.files() == before


def test_rm_and_restore_take_several_at_once(full):
    """Of all layouts, each told with its own command; the others stay."""
    before = full.files()
    done = full.run("rm", *names(full))
    assert done.code == 0
    assert [line.split(" (")[0] for line in done.out.splitlines()] == [
        f"Deleted {name}" for name in names(full)
    ]
    assert full.run("restore", *names(full)).code == 0
    assert full.files() == before


@pytest.mark.parametrize("verb", ["rm", "restore"])
def test_g_4_a_wrong_name_among_many_changes_nothing(verb, full):
    """Whatever its place among them."""
    if verb == "restore":
        assert full.run("rm", *names(full)).code == 0
    before = full.files()
    for at in (0, 2, 5):
        words = names(full)
        words.insert(at, "no-such-session")
        done = full.run(verb, *words)
        assert (done.code, done.out) == (3, "")
        assert "ession not found: no-such-session" in done.err
        assert full.files() == before


def test_g_4_an_ambiguous_name_deletes_nothing(machine):
    """One id in two programs: both are named, with their programs."""
    machine.add("pi", id="twin")
    machine.add("aurora", id="twin")
    before = machine.files()
    done = machine.run("rm", "twin")
    assert (done.code, done.out) == (3, "")
    assert done.err.split("\n")[1:] == ["  aurora:twin", "  pi:twin", ""]
    assert machine.files() == before


@pytest.mark.slow
@pytest.mark.parametrize("layout", ALL)
def test_a_held_session_stays_and_the_others_go(layout, full):
    """It is told with the process that has it and when it can be deleted, and the exit code is 4."""
    held = full.refs[layout][0]
    own = full.files()
    with Session.open(full.store(layout), held):
        done = full.run("rm", *names(full))
    assert done.code == 4
    assert done.err == (
        f"perdure: {layout}:{held.id} was not deleted: process {os.getpid()} is talking in it; "
        "it can be deleted when that has ended\n"
    )
    assert done.out.count("Deleted ") == len(ALL) - 1
    assert f"{layout}:{held.id}" not in done.out
    assert full.texts(layout, held) == ["hello", f"of {layout}"]
    left = full.files()
    assert own.keys() & left.keys()
    assert all(left[name] == own[name] for name in own.keys() & left.keys())


def test_what_cannot_be_restored_is_told_and_the_others_come_back(full):
    """Its place is taken: nothing is replaced."""
    assert full.run("rm", *names(full)).code == 0
    ref = full.refs["aurora"][0]
    Path(ref.path).write_text("taken")
    done = full.run("restore", *names(full))
    assert done.code == 1
    assert done.out.count("Restored ") == len(ALL) - 1
    assert done.err.startswith(f"perdure: Not saved: {ref.path} ")
    assert Path(ref.path).read_text() == "taken"


def test_a_session_named_twice_is_deleted_and_restored_once(full):
    """By two of its names, as shells make of globs."""
    ref = full.refs["pi"][0]
    assert full.run("rm", ref.id, ref.path).out.count("Deleted") == 1
    assert full.run("restore", ref.id, f"pi:{ref.id}").out.count("Restored") == 1


def test_the_command_that_brings_back_is_exact_where_workspaces_share_an_id(machine):
    """Then it names the place, and each comes back to its own."""
    other = machine.add_workspace(str(machine.user / "other notes"))
    id = "2025-11-22/001-plan-launch"
    one, two = machine.add("cortext", "one", id=id), machine.add("cortext", "two", id=id, home=other)
    before = machine.files()
    assert machine.run("rm", id).code == 3
    done = machine.run("rm", one.path, two.path)
    assert done.code == 0
    assert machine.run("restore", id).code == 3
    for line in done.out.splitlines():
        _, _, verb, place = shlex.split(line.partition("restore: ")[2])
        assert machine.run(verb, place).code == 0
    assert machine.files() == before


@pytest.mark.parametrize("layout", ["pi", "aurora", "soleur", "sibyl"])
def test_a_home_that_cannot_be_read_is_not_in_the_way(layout, full):
    """Sessions of the others are deleted, listed and restored all the same."""
    broken = "aurora" if layout == "pi" else "pi"
    os.rename(full.homes[broken].sessions, full.user / "set aside")
    path = break_home(full, broken)
    ref = full.refs[layout][0]
    assert full.run("rm", ref.id).code == 0
    assert ref.id in full.run("trash").out
    assert full.run("restore", ref.id).code == 0
    done = full.run("rm", "no-such-session")
    assert done.code == 3
    assert f"Cannot read {path}" in done.err


def test_json_of_rm_and_restore_is_one_array_with_all_facts(full):
    """Errors go to stderr, and the code tells, as without it."""
    held = full.refs["sibyl"][0]
    with Session.open(full.store("sibyl"), held):
        done = full.run("rm", "--json", *names(full))
    assert done.code == 4
    assert "is talking in it" in done.err
    assert [each["reference"] for each in done.data] == [name for name in names(full) if "sibyl" not in name]
    for each in done.data:
        assert each["id"] == full.refs[each["program"]][0].id
        assert each["deleted"].endswith("Z")
        assert each["size"] > 0
        assert each["title"] == title(each["program"])
    back = full.run("restore", "--json", *(each["reference"] for each in done.data))
    assert {each["path"] for each in back.data} == {
        refs[0].path for layout, refs in full.refs.items() if layout != "sibyl"
    }


# --- trash -----------------------------------------------------------------------------------------------


def test_the_trash_of_all_homes_is_listed_the_last_deleted_first(full):
    """With program, id, title, time and size; for programs the times are exact."""
    for name in names(full):
        assert full.run("rm", name).code == 0
        next_moment()
    done = full.run("trash")
    assert (done.code, done.err) == (0, "")
    head, *lines = done.out.splitlines()
    assert head.split() == ["ID", "TITLE", "DELETED", "SIZE"]
    shown = [re.split(r"  +", line) for line in lines]
    assert [(id, deleted) for id, _, deleted, _ in shown] == [
        (name, "just now") for name in names(full)[::-1]
    ]
    facts = full.run("trash", "--json").data
    assert (
        [each["title"] for each in facts]
        == [called for _, called, _, _ in shown]
        == [title(layout) for layout in ALL][::-1]
    )
    assert all(each["deleted"].endswith("Z") for each in facts)
    assert [each["reference"] for each in facts] == names(full)[::-1]


def test_what_was_deleted_without_a_title_is_listed(machine):
    """By its id, as a session nobody could read, or one that another version deleted."""
    ref = machine.add("pi", id="gone")
    Path(ref.path).write_bytes(b"")
    done = machine.run("rm", "gone")
    assert done.out == "Deleted pi:gone; restore: perdure sessions restore pi:gone\n"
    _, line = machine.run("trash").out.splitlines()
    assert line.split()[:2] == ["pi:gone", "-"]


def test_an_empty_trash_says_so(machine):
    """On stderr, so that a pipe gets nothing; in JSON it is an empty list. There is nothing to ask then."""
    assert machine.run("trash") == (0, "", "The trash is empty.\n")
    assert machine.run("trash", "--json").data == []
    assert machine.run("trash", "--empty") == (0, "", "The trash is empty.\n")
    assert machine.run("trash", "--empty", "--json") == (0, "[]\n", "")


def test_what_is_listed_can_be_restored_also_if_its_id_was_deleted_twice(machine):
    """Each by the name it is listed under; the id alone is the last one."""
    for text in ("first", "second"):
        ref = machine.add("aurora", text, id="again")
        assert machine.run("rm", "again").code == 0
    last, first = (each["reference"] for each in machine.run("trash", "--json").data)
    assert last == "aurora:again"
    assert machine.run("restore", first).code == 0
    assert machine.texts("aurora", ref) == ["first"]


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "maybe\nno\n"])
def test_g_1_the_trash_is_emptied_only_after_a_yes(answer, full):
    """Anything else, the end of input too, changes nothing and is no failure. What would go is listed."""
    assert full.run("rm", *names(full)).code == 0
    listed = full.run("trash").out
    done = full.run("trash", "--empty", stdin=answer)
    assert (done.code, done.out) == (0, listed)
    assert "Delete 5 sessions, " in done.err
    assert "[y/N]" in done.err
    assert done.err.endswith("\nNothing was deleted; --yes answers for you.\n")
    assert full.run("trash", "--empty", "--json", stdin=answer).data == []
    assert len(full.run("trash", "--json").data) == 5


@pytest.mark.parametrize("how", ["asked", "--yes"])
def test_an_emptied_trash_is_empty_and_says_what_was_freed(how, full):
    """Of every home; sessions that are not in it stay."""
    rest = full.files()
    assert full.run("rm", *names(full)).code == 0
    size = sum(each["size"] for each in full.run("trash", "--json").data)
    listed = full.run("trash").out if how == "asked" else ""
    done = full.run("trash", "--empty", *([how] if how == "--yes" else []), stdin="y\n")
    assert done.code == 0
    assert done.out == f"{listed}Deleted 5 sessions, {size / 1000:.1f} kB, for good.\n"
    assert full.run("trash", "--json").data == []
    assert full.files().items() <= rest.items()
    for layout, refs in full.refs.items():
        assert full.texts(layout, refs[1]) == ["another"]
        assert full.run("restore", refs[0].id).code == 3


def aged(machine: Machine, layout: str, deleted: str) -> None:
    """Let the note of what was deleted first say another time."""
    home = machine.homes[layout].path
    (note,) = Path(home).glob("**/trash/*/trash.json")
    note.write_text(json.dumps({**json.loads(note.read_text()), "deleted": deleted}))


def test_only_what_is_old_enough_goes_with_days(full):
    """What was deleted just now stays, and what does not say when."""
    assert full.run("rm", *names(full)).code == 0
    aged(full, "pi", "2020-01-01T00:00:00.000Z")
    aged(full, "soleur", "at noon")
    old, unknown = (f"{layout}:{full.refs[layout][0].id}" for layout in ("pi", "soleur"))
    assert [each["reference"] for each in full.run("trash", "--days", "30", "--json").data] == [old]
    listed = full.run("trash").out.splitlines()
    assert listed[-2].startswith(old)
    assert listed[-1].split()[:3] == [unknown, "hello", "unknown"]
    assert re.split(r"  +", listed[-2])[2].endswith(" y ago")
    done = full.run("trash", "--empty", "--days", "30", "--yes", "--json")
    assert [each["reference"] for each in done.data] == [old]
    assert full.run("trash", "--days", "30").err == "Nothing was deleted that long ago.\n"
    assert full.run("trash", "--empty", "--days", "30").err == "Nothing was deleted that long ago.\n"
    assert len(full.run("trash", "--json").data) == 4
    assert full.run("trash", "--empty", "--yes").code == 0
    assert full.run("trash", "--json").data == [], "without days, age is not asked for"


def test_what_is_deleted_during_the_question_stays(full):
    """What was not asked about is not answered for."""
    first, second = names(full)[:2]
    assert full.run("rm", first).code == 0

    class Slow(Typed):
        def fileno(self) -> int:
            program, _, id = second.partition(":")
            store = full.store(program)
            store.delete(next(ref for ref in store.list() if ref.id == id))
            return super().fileno()

    done = full.run("trash", "--empty", stdin=Slow("y\n"))
    assert "\nDeleted 1 session, " in done.out
    assert [each["reference"] for each in full.run("trash", "--json").data] == [second]


# --- at a terminal ---------------------------------------------------------------------------------------


@pytest.mark.process
def test_hostile_ids_never_reach_a_terminal_as_they_are(machine):
    """Deleted, listed, not found, restored: escapes are written out, and what is shown finds them again."""
    folder = Path(machine.homes["aurora"].sessions)
    folder.mkdir(parents=True)
    (folder / f"{HOSTILE}.jsonl").write_text("")
    shown = r"aurora:a\x1b[31mb\u202ec\x07"
    raw = HOSTILE.encode()
    for words in (
        ["rm", shown],
        ["trash"],
        ["rm", shown],
        ["restore", shown],
        ["doctor", shown],
        ["rm", HOSTILE],
    ):
        _, screen = at_terminal(*words)
        assert screen
        assert not any(each in screen for each in (raw, b"\x1b[31mb", "\u202e".encode(), b"\x07")), words
        assert shown.encode() in screen or r"a\\x1b[31mb" in screen.decode(), screen


@pytest.mark.process
def test_at_a_terminal_a_long_title_gives_way(machine):
    """To the command that brings it back, and to the other columns."""
    machine.add("pi", "why " * 40, id="gone")
    _, screen = at_terminal("rm", "gone")
    told = re.sub(r"\x1b\[\d*m", "", screen.decode())
    assert re.fullmatch(
        r"Deleted pi:gone \((why ?)+…\); restore:\s+perdure sessions restore pi:gone\r\n", told
    )
    assert max(map(len, told.split("\r\n"))) <= 80
    listed = re.sub(r"\x1b\[\d*m", "", at_terminal("trash")[1].decode()).split("\r\n")
    assert max(map(len, listed)) == 80


@pytest.mark.process
def test_at_a_terminal_times_are_relative_and_a_yes_is_typed(machine):
    """And the question is asked there."""
    machine.add("pi", id="gone")
    assert machine.run("rm", "gone").code == 0
    assert b"just now" in at_terminal("trash")[1]
    code, screen = at_terminal("trash", "--empty", answer=b"y\n")
    assert code == 0
    assert b"Delete 1 session, " in screen
    assert b"for good." in screen


# --- as real processes ---------------------------------------------------------------------------------


@pytest.mark.process
def test_the_program_itself_deletes_lists_and_restores(full):
    """From another directory, all layouts, with the codes that scripts rely on."""
    before = full.files()
    assert process("rm", *names(full), cwd="/").code == 0
    assert len(process("trash", "--json", cwd="/").data) == 5
    assert process("rm", names(full)[0], cwd="/").code == 3
    assert process("restore", *names(full), cwd="/").code == 0
    assert full.files() == before


@pytest.mark.process
def test_a_session_that_another_process_holds_exits_with_4(machine):
    """The lock is the kernel's, so the real program says the same."""
    ref = machine.add("pi")
    with Session.open(store_of(*machine.homes["pi"]), ref):
        done = process("rm", ref.id)
    assert done.code == 4
    assert f": process {os.getpid()} is talking in it" in done.err


def test_of_two_deleted_that_are_called_alike_the_one_named_comes_back(machine):
    """In two places of one program, with two trashes: an id is never taken for the beginning of another."""
    elsewhere = Path(machine.homes["pi"].sessions) / "foo"
    inner = machine.add("pi", "in its project", id="abc1")
    outer = machine.add("pi", "moved elsewhere", id="abc")
    elsewhere.mkdir()
    moved = elsewhere / Path(outer.path).name
    os.rename(outer.path, moved)
    assert machine.run("rm", "abc1", "abc").code == 0
    assert machine.run("restore", "pi:abc").code == 0
    assert moved.exists()
    assert not Path(inner.path).exists()


def test_sessions_of_one_id_are_deleted_by_their_paths_in_one_call(machine, monkeypatch):
    """And each line says how that one comes back."""
    paths = []
    for place in ("one", "two"):
        (machine.user / place).mkdir()
        paths.append(machine.add("pi", place, id="abc", cwd=str(machine.user / place)).path)
    done = machine.run("rm", *paths, "--json")
    assert done.code == 0
    assert [each["title"] for each in done.data] == ["one", "two"]
    last = done.data[-1]
    assert machine.run("restore", last["reference"]).code == 0
    assert [Path(path).exists() for path in paths] == [False, True]


def test_with_the_trash_go_the_locks_of_sessions_that_are_gone(machine):
    """In every home; also where nothing is in the trash, and not where nothing is to be emptied."""
    stores = [machine.store(layout) for layout in ALL]
    kept = [machine.add(layout) for layout in ALL]
    for store, ref in zip(stores, kept, strict=True):
        store.writer(ref).release()
        Path(store.lock_path(ref)).with_name("gone.lock").touch()
    assert machine.run("trash").code == 0
    assert all(
        Path(store.lock_path(ref)).with_name("gone.lock").exists()
        for store, ref in zip(stores, kept, strict=True)
    )
    assert machine.run("trash", "--empty").code == 0
    for store, ref in zip(stores, kept, strict=True):
        assert [path.name for path in Path(store.lock_path(ref)).parent.glob("*[!~].lock")] == [
            Path(store.lock_path(ref)).name
        ]
