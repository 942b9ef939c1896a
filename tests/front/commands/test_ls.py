"""`ls`: every session of its scope, the last talked in first, aligned, and nothing wrong hides another."""

import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perdure.front.visible import width
from perdure.session.entry import Entry, placed
from perdure.session.ids import stamp
from perdure.session.session import Session
from tests import processes
from tests.front.commands.machine import at_terminal, break_home, process
from tests.layouts import ALL

WIDE = [
    "日本語のタイトルがここにあります、とても長い長い長い題名です",
    "👩‍👩‍👧 family 🏳️‍🌈 and 🇩🇪",
    "é combining ü and naïve",
]


def lines_of(shown: bytes) -> list[str]:
    """What a terminal was sent, without colours."""
    return re.sub(r"\x1b\[[\d;]*m", "", shown.decode()).replace("\r\n", "\n").splitlines()


def rows_of(done) -> set[tuple[str, str]]:
    return {(row["program"], row["id"]) for row in done.data}


@pytest.mark.parametrize("layout", ALL)
def test_a_session_of_each_layout_is_listed_with_what_was_said_in_it(layout, machine):
    ref = machine.add(layout, "fix the flaky login", "and the other")
    (row,) = machine.run("ls", "--all", "--json").data
    assert (row["program"], row["id"], row["path"]) == (layout, ref.id, ref.path)
    assert row["messages"] == 2
    assert row["title"] == ("The launch" if layout == "cortext" else "fix the flaky login")
    assert row["preview"] == "and the other"
    assert row["last_active"] == row["created"] == "2026-01-31T09:05:00.123Z"
    assert row["problem"] is None
    assert row["size"] == os.stat(ref.path).st_size
    human = machine.run("ls", "--all").out
    assert ref.id in human, "through a pipe ids are whole"


@pytest.mark.parametrize("layout", ["pi", "aurora", "soleur"])
def test_in_json_a_name_is_whole_and_a_title_says_whether_it_is_cut(layout, machine):
    """A title that is made from what was said has at most 200 characters."""
    long = " ".join(f"word-{number}" for number in range(100))
    cut, exact, spaced = (machine.add(layout, text) for text in (long, "x" * 200, "a \n b"))
    named = machine.add(layout, "hello", long)
    with Session.open(machine.store(layout), named) as session:
        session.rename(long)
    rows = {row["id"]: row for row in machine.run("ls", "--all", "--json").data}
    assert (len(rows[cut.id]["title"]), rows[cut.id]["title_is_cut"]) == (200, True)
    assert (rows[exact.id]["title"], rows[exact.id]["title_is_cut"]) == ("x" * 200, False)
    assert (rows[spaced.id]["title"], rows[spaced.id]["title_is_cut"]) == ("a b", False)
    assert (rows[named.id]["title"], rows[named.id]["title_is_cut"]) == (long, False)
    assert (len(rows[named.id]["preview"]), rows[named.id]["preview_is_cut"]) == (200, True)
    found = {row["id"]: row["title"] for row in machine.run("search", "word-99", "--all", "--json").data}
    assert found[named.id] == long
    assert machine.run("rm", named.id, cut.id).code == 0
    gone = {row["id"]: row for row in machine.run("trash", "--json").data}
    assert (gone[named.id]["title"], gone[named.id]["title_is_cut"]) == (long, False)
    assert (len(gone[cut.id]["title"]), gone[cut.id]["title_is_cut"]) == (200, True)


def test_the_last_talked_in_is_first(machine):
    """Whatever the times of the files."""
    for layout in ALL:
        ref = machine.add(layout)
        entry = Entry.message("user", "later")
        later = placed(entry, timestamp=f"2026-0{2 + ALL.index(layout)}-01T00:00:00Z")
        with Session.open(machine.store(layout), ref) as session:
            session.append(later)
        os.utime(ref.path, (0, 0))
    assert [row["program"] for row in machine.run("ls", "--all", "--json").data] == ALL[::-1]


def test_this_project_is_the_default_and_all_drops_it(machine, monkeypatch):
    """pi by its folder, aurora by its cwd, soleur by the directory's name, cortext by the workspace around
    us; sibyl's sessions belong to no project."""
    here, other = machine.user / "api-server", machine.user / "website"
    for place in (here, other):
        place.mkdir()
        monkeypatch.chdir(place)
        for layout in ("pi", "aurora", "soleur", "sibyl"):
            machine.add(layout, cwd=str(place))
    machine.add("cortext")
    monkeypatch.chdir(here)
    mine = rows_of(machine.run("ls", "--json"))
    assert mine == {(layout, machine.refs[layout][0].id) for layout in ("pi", "aurora", "soleur")}
    every = rows_of(machine.run("ls", "--all", "--json"))
    assert every == {(layout, ref.id) for layout, refs in machine.refs.items() for ref in refs}
    monkeypatch.chdir(machine.homes["cortext"].path)
    assert rows_of(machine.run("ls", "--json")) == {("cortext", machine.refs["cortext"][0].id)}


def test_no_session_is_said_with_what_to_do(machine):
    done = machine.run("ls")
    assert (done.code, done.out) == (0, "")
    assert "No sessions of this project" in done.err
    assert "sessions ls --all" in done.err
    assert machine.run("ls", "--json").data == []


def test_the_newest_so_many_and_how_many_are_hidden(machine):
    for number in range(25):
        machine.add("pi", f"number {number}")
    done = machine.run("ls", "--all")
    assert len(done.out.splitlines()) == 1 + 20
    assert "20 of 25 sessions shown" in done.err
    assert len(machine.run("ls", "--all", "--limit", "3", "--json").data) == 3
    done = machine.run("ls", "--all", "--limit", "0")
    assert len(done.out.splitlines()) == 1 + 25
    assert done.err == ""


def test_one_program_alone(machine):
    machine.sessions()
    for layout in ALL:
        found = rows_of(machine.run("ls", "--all", "--program", layout, "--json"))
        assert found == {(layout, ref.id) for ref in machine.refs[layout]}
    assert machine.run("ls", "--program", "emacs").code == 2


def test_one_status_alone(machine):
    """A live holder is active whatever is recorded; the count of the hidden is of those that match."""
    held, *others = [machine.add("pi") for _ in range(4)]
    with Session.open(machine.store("pi"), held):
        done = machine.run("ls", "--all", "--status", "active", "--json")
        assert rows_of(done) == {("pi", held.id)}
        waiting = rows_of(machine.run("ls", "--all", "--status", "interrupted", "--json"))
        assert waiting == {("pi", ref.id) for ref in others}, "their last word is a prompt"
        done = machine.run("ls", "--all", "--status", "interrupted", "--limit", "1")
        assert "1 of 3 sessions" in done.err
    assert machine.run("ls", "--all", "--status", "active", "--json").data == []


def test_a_broken_session_is_listed_with_its_reason_and_hides_no_other(machine):
    machine.sessions()
    broken = machine.refs["pi"][0]
    Path(broken.path).write_bytes(Path(broken.path).read_bytes() + b"{half a li")
    done = machine.run("ls", "--all")
    assert done.code == 0
    assert len([line for line in done.out.splitlines() if not line.startswith(" ")]) == 1 + 10
    assert re.search(r"! .*the last line is unfinished", done.out)
    (row,) = [row for row in machine.run("ls", "--all", "--json").data if row["problem"]]
    assert row["id"] == broken.id


def test_one_that_cannot_be_opened_is_listed_too(machine):
    ref = machine.add("pi")
    machine.add("aurora")
    os.unlink(ref.path)
    os.mkdir(ref.path)
    by_id = {row["id"]: row for row in machine.run("ls", "--all", "--json").data}
    assert by_id[ref.id]["status"] == "unreadable"
    assert "Is a directory" in by_id[ref.id]["problem"]
    assert len(by_id) == 2


@pytest.mark.parametrize("layout", ["pi", "aurora", "soleur", "sibyl"])
def test_a_home_that_cannot_be_read_is_named_and_hides_no_other(layout, machine):
    for other in ALL:
        if other != layout:
            machine.add(other)
    path = break_home(machine, layout)
    done = machine.run("ls", "--all", "--json")
    assert done.code == 0
    assert {row["program"] for row in done.data} == {*ALL} - {layout}
    assert path in done.err


@pytest.mark.parametrize("words", [(), ("--all",)])
def test_where_a_home_cannot_be_read_nothing_is_said_of_what_is_in_it(words, machine):
    path = break_home(machine, "pi")
    done = machine.run("ls", *words)
    assert (done.code, done.out) == (0, "")
    assert f"Cannot read {path}" in done.err
    assert "No sessions" not in done.err


@pytest.mark.process
@pytest.mark.parametrize("columns", [80, 100, 200])
def test_at_a_terminal_every_line_fits_and_the_columns_are_aligned(columns, machine, monkeypatch):
    """Wide characters, emoji and combining marks measured as a terminal draws them."""
    monkeypatch.setenv("COLUMNS", str(columns))
    for title in (*WIDE, "plain", "x" * 300):
        machine.add("pi", title)
    for layout in ALL:
        machine.add(layout, "also here")
    code, shown = at_terminal("ls", "--all")
    assert code == 0
    head, *rows = lines_of(shown)
    assert len(rows) == 10
    start = head.index("STATUS")
    for row in rows:
        assert width(row) <= columns
        before = next(at for at in range(len(row)) if width(row[:at]) >= start)
        assert re.match(r"(idle|interrupted|paused|active)$", row[before:].strip())


@pytest.mark.process
def test_ids_are_short_at_a_terminal_and_each_still_finds_its_session(machine):
    for layout in ALL:
        machine.add(layout)
        machine.add(layout)
    _, shown = at_terminal("ls", "--all")
    _, *rows = lines_of(shown)
    for row in rows:
        program, id = row.split()[:2]
        assert machine.run("show", id, "--json").data["program"] == program


@pytest.mark.process
def test_ids_that_are_long_and_begin_alike_leave_room_for_the_rest(machine, monkeypatch):
    """And are accepted as they are shown."""
    monkeypatch.setenv("COLUMNS", "80")
    for number in (1, 2):
        machine.add(
            "aurora", "a title of some length", id=f"review-the-login-flow-of-the-api-server-{number}"
        )
    _, shown = at_terminal("ls", "--all")
    _, *rows = lines_of(shown)
    assert all(width(row) <= 80 and "a title of some" in row for row in rows)
    for row in rows:
        assert machine.run("show", row.split()[1], "--json").data["program"] == "aurora"


@pytest.mark.process
def test_the_reason_of_a_broken_one_is_seen_at_80_columns(machine, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    ref = machine.add("pi")
    Path(ref.path).write_bytes(Path(ref.path).read_bytes() + b"{half a li")
    _, shown = at_terminal("ls", "--all")
    assert any("! line 3: the last line is unfinished" in line for line in lines_of(shown))
    assert "sessions doctor" in shown.decode()


@pytest.mark.process
def test_from_a_directory_that_is_gone(machine, monkeypatch):
    """One sentence; and all of them can be listed from there."""
    machine.add("pi")
    gone = machine.user / "gone"
    script = f"mkdir {gone} && cd {gone} && rmdir {gone} && {sys.executable} -m perdure sessions"
    for verb, code in (("ls", 1), ("search x", 1), ("ls --all", 0)):
        done = processes.run(["sh", "-c", f"{script} {verb}"], capture_output=True, text=True)
        assert done.returncode == code
        assert "Traceback" not in done.stderr
        assert code == 0 or "The current directory is gone" in done.stderr


def test_times_are_relative(machine):
    now = datetime.now(UTC)
    for age in (
        timedelta(0),
        timedelta(minutes=5),
        timedelta(hours=2, minutes=1),
        timedelta(days=3, hours=1),
    ):
        machine.add("pi", "x")
        ref = machine.refs["pi"][-1]
        with Session.open(machine.store("pi"), ref) as session:
            session.append(placed(Entry.message("user", "y"), timestamp=stamp(now - age)))
    shown = machine.run("ls", "--all").out
    assert re.findall(r"just now|\d+ \w+ ago", shown) == ["just now", "5 min ago", "2 h ago", "3 d ago"]


@pytest.mark.process
def test_a_session_that_dies_is_shown_as_its_layout_says(machine):
    """Asked of the lock: no listing ever shows a dead process as active."""
    shown = {}
    for layout in ALL:
        ref = machine.add(layout, "hello")
        home = machine.homes[layout]
        code = (
            "import sys, time; from perdure.session.session import Session;"
            "from perdure.session.stores import open_store;"
            f"store = open_store({layout!r}, {home.path!r});"
            f"session = Session.open(store, next(each for each in store.list() if each.id == {ref.id!r}));"
            "print('ready', flush=True); time.sleep(60)"
        )
        holder = processes.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        assert holder.stdout is not None
        holder.stdout.readline()
        (row,) = machine.run("ls", "--all", "--program", layout, "--json").data
        assert row["status"] == "active"
        holder.kill()
        holder.communicate()
        (row,) = machine.run("ls", "--all", "--program", layout, "--json").data
        shown[layout] = row["status"]
    assert shown == {
        "pi": "interrupted",
        "aurora": "interrupted",
        "soleur": "interrupted",
        "sibyl": "interrupted",
        "cortext": "paused",
    }


@pytest.mark.process
def test_the_first_listing_of_many_shows_how_far_it_is(machine, monkeypatch):
    """Only at a terminal, and it is gone when the list comes. Slowed down: the bar comes after a second."""
    for number in range(40):
        machine.add("pi", f"number {number}")
    code = (
        "import sys, time\n"
        "from perdure.session.stores.pi_jsonl import PiStore\n"
        "read = PiStore.read\n"
        "PiStore.read = lambda *args: (time.sleep(0.04), read(*args))[1]\n"
        "from perdure.programs.pi import main\n"
        "sys.exit(main(['sessions', 'ls', '--all']))\n"
    )
    script = machine.user / "slow.py"
    script.write_text(code)
    import pexpect

    child = pexpect.spawn(sys.executable, [str(script)], dimensions=(30, 100), timeout=30, encoding="utf-8")
    child.expect(r"Reading sessions \[=+ *\] \d+/40")
    child.expect(r"\r\x1b\[K")
    child.expect("PROGRAM")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert "Reading" not in process("ls", "--all").err


@pytest.mark.process
def test_hostile_titles_do_nothing_to_a_terminal(machine):
    machine.add("pi", "\x1b]0;owned\x07\x1b[2J title \u202egnp.exe \x9b31m")
    _, shown = at_terminal("ls", "--all")
    text = shown.decode()
    assert "\x1b]" not in text
    assert "\x1b[2J" not in text
    assert "\u202e" not in text
    assert "\x9b" not in text
