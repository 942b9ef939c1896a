"""The ledger of a project: what people may do to the file, and what a crash may."""

import errno
import os
import stat
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import NotSaved, PerdureError, Unreadable, UsageError
from perdure.programs.soleur import ledger
from perdure.programs.soleur.decisions import Decision, likeness, one_line
from perdure.programs.soleur.ledger import Known, Ledger, Line, known
from perdure.session import ids
from perdure.session.projects import Project
from perdure.session.stores.ledger_files import check_project, ledger_files
from perdure.session.stores.lock import Lock
from tests.crash.killing import Child, Gate, Report, alone, check_told, die
from tests.programs.waited import waits_for

STAMP = "2026-01-31T09:05:00.123Z"
MINUTE = "2026-01-31 09:05"


def made(content: str, /, **changes: Any) -> Decision:
    return Decision(content, STAMP, "s1")._replace(**changes)


def manual(text: str) -> Line:
    return Line(MINUTE, "Manual", (), text)


def put(home: Path, data: bytes, project: str = "api") -> Ledger:
    own = Ledger(str(home), Project(project, ""))
    Path(own.path).parent.mkdir(exist_ok=True)
    Path(own.path).write_bytes(data)
    return own


def lines_of(ledger: Ledger) -> list[Line]:
    return ledger.read() or []


# --- the file ---------------------------------------------------------------------------------------


def test_sol_12_a_ledger_is_markdown_that_people_can_read(home):
    """A heading, and a line for each decision: its minute in UTC, its source, its tags if any, its text."""
    own = Ledger(str(home / ".soleur"), Project("api server", ""))
    assert own.read() is None
    assert (
        own.add([made("Use SQLite.", tags=("db", "cost")), made("No\n  Redis", source="AutoDetected")]) == 2
    )
    assert own.add([made("Ship\x1b[2J it", timestamp="2026-02-01T00:30:00+01:00")]) == 1
    assert own.path == str(home / ".soleur" / "decisions" / "api server.md")
    assert Path(own.path).read_text() == (
        "# Decision Ledger: api server\n"
        "\n"
        "- [2026-01-31 09:05] [Manual] [db, cost] Use SQLite.\n"
        "- [2026-01-31 09:05] [Auto] No Redis\n"
        "- [2026-01-31 23:30] [Manual] Ship\\x1b[2J it\n"
    )
    assert lines_of(own)[:2] == [
        Line(MINUTE, "Manual", ("db", "cost"), "Use SQLite."),
        Line(MINUTE, "AutoDetected", (), "No Redis"),
    ]


def test_sol_12_a_ledger_is_its_owners_alone(home):
    """0600 in a folder of 0700, whatever the umask; and so is its lock."""
    before = os.umask(0)
    try:
        Ledger(str(home / ".soleur"), Project("api", "")).add([made("x")])
    finally:
        os.umask(before)
    found = {path.relative_to(home): stat.S_IMODE(path.stat().st_mode) for path in home.rglob("*")}
    assert {str(path): mode for path, mode in found.items()} == {
        ".soleur": 0o700,
        ".soleur/decisions": 0o700,
        ".soleur/decisions/api.md": 0o600,
        ".soleur/locks": 0o700,
        ".soleur/locks/decisions": 0o700,
        ".soleur/locks/decisions/api.lock": 0o600,
    }


LINES = {
    b"- [2026-01-31 09:05] [Auto] [db, cost] Use it": Line(MINUTE, "AutoDetected", ("db", "cost"), "Use it"),
    b"- [2026-01-31 09:05] [Manual] [] [RFC] 7": Line(MINUTE, "Manual", (), "[RFC] 7"),
    b"* [2026-01-31T09:05] [manual]  Use it ": manual("Use it"),
    b"- [2026-01-31 09:05] [Manual] [it](http://x)": manual("[it](http://x)"),
    b"- [2026-01-31] Use it": Line("2026-01-31", "Manual", (), "Use it"),
    b"- [Auto] [db] Use it": Line("", "AutoDetected", ("db",), "Use it"),
    b"- Use it": Line("", "Manual", (), "Use it"),
    b"+ [x] done": Line("", "Manual", (), "[x] done"),
    b"- caf\xe9": Line("", "Manual", (), "caf\N{REPLACEMENT CHARACTER}"),
    b"# Decision Ledger: api": None,
    b"": None,
    b"-": None,
    b"- ": None,
    b"---": None,
    b"- - -": None,
    b"We use it.": None,
    b"  - a detail": None,
    b"- [2026-01-31 09:05] [Manual]": None,
    b"- [2026-01-31 09:0": None,
    b"- [2026-01-31 09:05] [Man": None,
    b"- [2026-01-31 09:05] [Manual] [db, c": None,
}


@pytest.mark.parametrize(("text", "line"), LINES.items())
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r", b""], ids=["lf", "crlf", "cr", "none"])
def test_sol_12_what_people_write_into_a_ledger_is_read_as_far_as_it_is_a_decision(home, text, line, end):
    """Behind a byte order mark, before a heading or at the end of the file, with any line ends."""
    around = [text, end, b"## Later", end] if end else [b"## Earlier\n", text]
    assert put(home, b"".join([b"\xef\xbb\xbf", *around])).read() == ([line] if line else [])


def test_sol_12_what_people_wrote_stays_and_a_missing_line_end_is_added(home):
    """Byte for byte, whatever it is; what is new stands behind it on a line of its own."""
    theirs = b"\xef\xbb\xbfMy notes\r\n- caf\xe9\x00\r- [2026-01-31 09:05] [Manual] [d"
    own = put(home, theirs)
    assert own.add([made("Use it")]) == 1
    assert Path(own.path).read_bytes() == theirs + b"\n- [2026-01-31 09:05] [Manual] Use it\n"


@pytest.mark.parametrize("nothing", [b"", b"\n"])
def test_sol_12_an_empty_ledger_gets_its_heading(home, nothing):
    """Somebody made the file, and wrote nothing into it."""
    own = put(home, nothing)
    assert own.add([made("Use it")]) == 1
    lines = b"# Decision Ledger: api\n\n- [2026-01-31 09:05] [Manual] Use it\n"
    assert Path(own.path).read_bytes() == nothing + lines


# --- what is here already ---------------------------------------------------------------------------

text = st.text(st.one_of(st.characters(), st.sampled_from("[]-*_#,: \n\r\x1b\u2028\ud800")), max_size=30)
decisions = st.builds(
    Decision,
    text,
    st.sampled_from(
        [STAMP, "2026-01-31T09:05:59Z", "2026-02-28T23:59:59+05:00", "0001-01-01T00:00:00+09:00", ""]
    ),
    st.just("s1"),
    st.lists(text, max_size=3).map(tuple),
    st.sampled_from(["Manual", "AutoDetected"]),
)


@given(st.lists(decisions, max_size=6), st.lists(decisions, max_size=3))
def test_sol_12_every_decision_is_in_the_ledger_once_and_reads_as_it_was(first, more):
    """However often it is added; and what was there is the beginning of what is there."""
    with tempfile.TemporaryDirectory() as home:
        own = Ledger(home, Project("api", ""))
        added = own.add(first)
        before = lines_of(own)
        text = {likeness(each.content): each for each in reversed(first) if one_line(each.content)}
        assert {line.likeness: line.text for line in before} == {
            like: one_line(each.content) for like, each in text.items()
        }
        assert {line.likeness: line.source for line in before} == {
            like: each.source for like, each in text.items()
        }
        assert added == len(before) == len(text)
        start = Path(own.path).read_bytes() if before else b""
        assert own.add(first) == 0
        own.add(more)
        assert {likeness(each.content) for each in [*first, *more] if one_line(each.content)} == {
            line.likeness for line in lines_of(own)
        }
        assert not start or Path(own.path).read_bytes().startswith(start)


@pytest.mark.parametrize(
    "text", ["[RFC] 7", "[RFC](x) 7", "[half", "---", "[] x", "[Auto] [db] x", "- [2026-01-31] x"]
)
@pytest.mark.parametrize("tags", [(), ("db", "a b")])
@pytest.mark.parametrize("timestamp", [STAMP, ""])
def test_sol_12_a_text_that_looks_like_something_else_is_the_text_it_is(home, text, tags, timestamp):
    """No tag, no time and no rule across the page; and it is not added again."""
    own = Ledger(str(home), Project("api", ""))
    own.add([made(text, tags=tags, timestamp=timestamp)])
    assert own.read() == [Line(MINUTE if timestamp else "", "Manual", tags, text)]
    assert own.add([made(text, timestamp=timestamp)]) == 0


def test_sol_12_what_was_half_written_is_completed(home):
    """Its process was killed while it wrote."""
    own = Ledger(str(home), Project("api", ""))
    own.add([made("Use SQLite")])
    with open(own.path, "ab") as file:
        file.write(b"- [2026-01-31 09:05] [Manual] Ship on Fri")
    assert own.add([made("Ship on Friday")]) == 1
    assert [line.text for line in lines_of(own)] == ["Use SQLite", "Ship on Friday"]


def test_sol_12_decisions_of_one_minute_are_as_many_as_they_are(home):
    """Whoever made them."""
    now = ids.stamp(ids.now())
    for number, text in enumerate(("Use SQLite", "Use SQLite for tests", "Use Redis")):
        assert (
            Ledger(str(home), Project("now", "")).add([made(text, timestamp=now, session_id=f"s{number}")])
            == 1
        )
    assert [line.text for line in lines_of(Ledger(str(home), Project("now", "")))] == [
        *("Use SQLite", "Use SQLite for tests", "Use Redis"),
    ]


def test_sol_12_a_decision_without_a_time_is_not_taken_for_a_line_without_one(home):
    """Nothing says that they are one."""
    own = put(home, b"- By hand\n")
    assert own.add([made("Use SQLite", timestamp="")]) == 1


def test_sol_12_nothing_to_write_writes_nothing(home):
    """Not even a folder."""
    own = Ledger(str(home), Project("api", ""))
    assert own.add([]) == own.add([made(" \n")]) == 0
    assert list(home.iterdir()) == []


# --- everything that was decided ----------------------------------------------------------------------


def test_sol_12_a_projects_decisions_are_those_of_its_ledger_and_of_its_sessions_each_once():
    """In the ledger's order and words, with what sessions know of them; then what it missed."""
    lines = [
        Line(MINUTE, "Manual", ("db",), "Use SQLite, but only until May"),
        Line("", "Manual", (), "Ship on Friday."),
        Line("2025-12-24 10:00", "AutoDetected", (), "By hand"),
        Line("", "Manual", (), "use it"),
        Line("2025-99-24 10:00", "Manual", (), "Use it!"),
    ]
    decided = [
        made("Use SQLite", session_id="s1", tags=("cost",)),
        made(
            "ship on friday",
            session_id="s2",
            timestamp="2026-02-01T00:00:00Z",
            tags=("x",),
            source="AutoDetected",
        ),
        made("Hire nobody", session_id="s3", source="AutoDetected"),
        made("hire nobody.", session_id="s4"),
    ]
    assert known(lines, decided, decided[2:], Project("api", "")) == [
        Known("Use SQLite, but only until May", STAMP, "s1", ("db",), "Manual", "api", ""),
        Known("Ship on Friday.", "2026-02-01T00:00:00Z", "s2", ("x",), "AutoDetected", "api", ""),
        Known("By hand", "2025-12-24T10:00:00.000Z", "", (), "AutoDetected", "api", ""),
        Known("use it", "", "", (), "Manual", "api", ""),
        Known("Hire nobody", STAMP, "s3", (), "AutoDetected", "api", ""),
    ]
    assert (
        known(lines, decided, [], Project("api", ""))
        == known(lines, decided, decided[2:], Project("api", ""))[:4]
    )
    assert known([], [], [], Project("api", "")) == []


def test_sol_12_projects_are_those_that_have_a_ledger(home):
    """By name; not what an editor or a killed process left beside them, and nothing that leads elsewhere."""
    assert [*ledger_files(str(home))] == []
    for name in ("web", "api", "ünï cödé"):
        Ledger(str(home), Project(name, "")).add([made("x")])
    folder = home / "decisions"
    for name in ("api.md~", "api.md.1234abcd.tmp", "notes.txt", "a..b.md", ".md"):
        (folder / name).write_text("- x\n")
    (folder / "folder.md").mkdir()
    (folder / "link.md").symlink_to(folder / "api.md")
    found = [*ledger_files(str(home))]
    assert [each.stem for each in found] == ["api", "web", "ünï cödé"]
    assert {each.root for each in found} == {""}


def test_sol_08_two_projects_of_one_name_that_begin_their_ledgers_at_once_have_two(home):
    """Each has found that there is none yet: who comes second sees the other one's when it has the lock."""
    place = str(home / ".soleur")
    for each in "xy":
        (home / each / "app").mkdir(parents=True)
    first, second = (Ledger(place, Project("app", str(home / each / "app"))) for each in "xy")
    assert first.path == second.path
    assert (first.add([made("x")]), second.add([made("y")])) == (1, 1)
    assert [line.text for line in (*lines_of(first), *lines_of(second))] == ["x", "y"]
    assert first.path != second.path


@pytest.mark.parametrize("root", ["/x/ü b", "/x/-->", "/x/100%25", "/x/a\nb", "/x/\udcff"], ids=ascii)
def test_sol_08_a_ledger_names_any_root_on_one_line(home, root):
    """And is found again by it."""
    own = Ledger(str(home), Project("app", root))
    assert own.add([made("x")]) == 1
    assert Path(own.path).read_bytes().count(b"\n") == len(["heading", "", "root", "", "x"])
    (file,) = ledger_files(str(home))
    assert (file.root, Ledger(str(home), Project("app", root)).is_own) == (root, True)


# --- names ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["api", "Api Server 2", ".config", "a.b", "日本", "-x", "x" * 200, "é" * 100]
)
def test_sol_12_a_project_may_be_called_what_a_file_can_be_called(home, name):
    """And its ledger is where it should be."""
    assert check_project(name) == name
    own = Ledger(str(home), Project(name, ""))
    assert own.add([made("x")]) == 1
    assert os.path.dirname(os.path.realpath(own.path)) == str(home / "decisions")


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            "  ",
            ".",
            "..",
            "../x",
            "a/b",
            "/etc/passwd",
            "a\\b",
            "..\\x",
            "a..b",
            "x\0",
            "a\nb",
            "\x7f",
            "\x85",
        ),
        *("\u2028", "\udcff", "x" * 201, "é" * 101),
    ],
)
def test_sol_12_a_project_name_that_could_lead_elsewhere_is_refused(home, name):
    """With what a name may be; nothing is made."""
    with pytest.raises(UsageError, match="Not a name") as refused:
        Ledger(str(home), Project(name, ""))
    assert "a name has" in refused.value.hint
    assert list(home.iterdir()) == []


# --- what stands in the way -------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["file", "dangling", "folder"])
def test_sol_12_no_link_leads_out_of_the_ledgers_folder(home, tmp_path, what):
    """Neither to read nor to write; what it leads to stays as it is."""
    target = tmp_path / "api.md"
    if what != "dangling":
        target.write_text("- theirs\n")
    if what == "folder":
        (home / "decisions").symlink_to(tmp_path)
    else:
        (home / "decisions").mkdir()
        (home / "decisions" / "api.md").symlink_to(target)
    own = Ledger(str(home), Project("api", ""))
    with pytest.raises(NotSaved, match=r"api\.md"):
        own.add([made("x")])
    with pytest.raises(Unreadable, match=r"api\.md"):
        own.read()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == (
        {} if what == "dangling" else {"api.md": "- theirs\n"}
    )


@pytest.mark.parametrize("what", ["a folder", "a pipe", "too much"])
def test_sol_12_what_is_no_ledger_is_named_and_not_waited_for(home, what):
    """In one sentence with its path."""
    own = put(home, b"")
    if what == "too much":
        os.truncate(own.path, 2**24 + 1)
    else:
        os.unlink(own.path)
        (os.mkfifo if what == "a pipe" else os.mkdir)(own.path)
    for act in (own.read, partial(own.add, [made("x")])):
        with pytest.raises(PerdureError, match=r"api\.md: "):
            act()


def test_sol_12_a_ledger_that_another_process_writes_to_is_waited_for_once_and_then_named(home, monkeypatch):
    """With the process that has it; and once that is done it can be written to."""
    waited = waits_for(ledger, monkeypatch)
    monkeypatch.setattr(ledger, "_PATIENCE", 0.05)
    own = Ledger(str(home), Project("api", ""))
    with Lock(str(home), "locks/decisions/api.lock", "", 1):
        for _ in range(3):
            with pytest.raises(NotSaved, match=f"api.md: process {os.getpid()} is writing to it"):
                own.add([made("x")])
        assert own.add([]) == 0
        assert own.read() is None
    for text in "xy":
        assert own.add([made(text)]) == 1
    assert waited == [0.05, 0, 0, 0, 0.05]


# --- a disk that fails ----------------------------------------------------------------------------------


@contextmanager
def failing(name: str, length: int = 0) -> Iterator[None]:
    """`os.<name>` fails, a write when it has taken so many bytes."""
    real, calls = getattr(os, name), 0

    def fail(descriptor: int, *data: bytes) -> int:
        nonlocal calls
        calls += 1
        if calls == 1 and length:
            return int(real(descriptor, data[0][:length]))
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    setattr(os, name, fail)
    try:
        yield
    finally:
        setattr(os, name, real)


@pytest.mark.parametrize("there", [None, b"", b"- theirs", b"# Decision Ledger: api\n\n- theirs\n"])
def test_sol_12_a_full_disk_is_told_and_leaves_the_ledger_as_it_was(home, there):
    """Whatever part of the lines it took, and if it took all of them and could not sync them."""
    own = Ledger(str(home), Project("api", "")) if there is None else put(home, there)
    two = [made("Use SQLite"), made("No Redis", tags=("db",))]
    faults = [failing("fdatasync"), *(failing("write", length) for length in range(0, 90, 9))]
    for fault in faults:
        with fault, pytest.raises(NotSaved) as refused:
            own.add(two)
        check_told(refused.value, own.path, errno.ENOSPC)
        left = [path.name for path in (home / "decisions").iterdir()]
        assert left == ([] if there is None else ["api.md"])
        assert there is None or Path(own.path).read_bytes() == there
    assert own.add(two) == 2
    assert [line.text for line in lines_of(own)][-2:] == ["Use SQLite", "No Redis"]
    with failing("fdatasync"), pytest.raises(NotSaved):
        own.add(two)  # they are there, perhaps from a process that could not sync them either


# --- processes that are killed, and many at once ----------------------------------------------------------


@pytest.mark.process
@pytest.mark.parametrize("start", ["", "- theirs"])
def test_sol_12_a_process_that_is_killed_while_it_writes_leaves_no_half_decision(tmp_path, start):
    """Wherever it is killed: the next one completes the ledger to what it should have been. Of a line that
    was left behind a whole word nobody knows whether that was all of it: it stays."""
    assert alone(kill_while_writing, home=str(tmp_path), start=start) > 10


def kill_while_writing(home: str, start: str) -> int:
    two = [made("Use SQLite für alles", tags=("db",)), made("No Redis")]
    whole = Ledger(home, Project("whole", ""))
    if start:
        put(Path(home), start.encode(), "whole")
    whole.add(two)
    expected = Path(whole.path).read_bytes().replace(b"whole", b"torn", 1)
    lengths = range(0, len(expected) - len(start), 3)
    for length in lengths:
        torn = Ledger(home, Project("torn", ""))
        if start:
            put(Path(home), start.encode(), "torn")

        def work(report: Report, torn: Ledger = torn, length: int = length) -> None:
            write = os.write

            def deadly(descriptor: int, data: bytes) -> int:
                write(descriptor, data[:length])
                die()
                raise AssertionError("alive")

            os.write = deadly  # type: ignore[assignment]
            torn.add(two)

        with Child(work) as child:
            assert child.wait() < 0
        left = Path(torn.path).read_bytes() if start else b""
        torn.add(two)
        after = Path(torn.path).read_bytes()
        assert after.startswith(left), (left, after)
        may_be_whole = after[len(left) :].startswith((b" ", b"\n"))
        assert after.rstrip() == expected.rstrip() or may_be_whole or left.endswith((b"\n-", b"\n- ["))
        texts = [line.text for line in lines_of(torn)]
        words = two[0].content.split()
        beginnings = {" ".join(words[:count]) for count in range(1, len(words))} | {"No"}
        assert texts[:1] == (["theirs"] if start else texts[:1])
        rest = [text for text in texts[bool(start) :] if not (may_be_whole and text in beginnings)]
        assert rest == [each.content for each in two], (left, after)
        os.unlink(torn.path)
    return len(lengths)


def test_sol_12_what_was_left_of_a_line_is_completed_in_its_place_and_a_whole_line_is_left_alone(home):
    """Whatever else is added with it; a line without its end is whole all the same."""
    own = put(home, b"- [2026-01-31 09:05] [Manual] No Re")
    assert own.add([made("Use SQLite"), made("No Redis")]) == 2
    assert [line.text for line in lines_of(own)] == ["No Redis", "Use SQLite"]
    own = put(home, b"- [2026-01-31 09:05] [Manual] No Redis")
    assert own.add([made("No Redis"), made("No Redis for now")]) == 1
    assert [line.text for line in lines_of(own)] == ["No Redis", "No Redis for now"]
    own = put(home, b"- [2026-01-31 09:05] [Manual] No Redis")  # by an editor that writes no last line's end
    assert own.add([made("No Redis for now")]) == 1
    assert [line.text for line in lines_of(own)] == ["No Redis", "No Redis for now"]


@pytest.mark.process
def test_sol_12_processes_that_add_at_once_write_each_decision_once(tmp_path):
    """Four of them, all the same decisions in another order, and some of their own, all of this minute."""
    counted = alone(add_at_once, home=str(tmp_path))
    assert counted == {"lines": 4 * 5 + 10, "added": 4 * 5 + 10, "most": 1}


def add_at_once(home: str) -> dict[str, int]:
    now = ids.stamp(ids.now())

    def work(number: int, report: Report) -> None:
        mine = [made(f"of {number}: {each}", timestamp=now) for each in range(5)]
        shared = [made(f"of all: {each}", timestamp=now) for each in range(10)]
        gate.wait()
        for at, each in enumerate([*shared[number:], *shared[:number]]):
            report(Ledger(home, Project("api", "")).add([each, *mine[at : at + 1]]))

    children: list[Child] = []
    with Gate() as gate:
        try:
            children += [Child(partial(work, number)) for number in range(4)]
            gate.open(4)
            assert [child.wait() for child in children] == [0] * 4
            added = sum(sum(child.heard()) for child in children)
        finally:
            for child in children:
                child.__exit__()
    lines = lines_of(Ledger(home, Project("api", "")))
    most = max(Counter(line.text for line in lines).values())
    return {"lines": len(lines), "added": added, "most": most}
