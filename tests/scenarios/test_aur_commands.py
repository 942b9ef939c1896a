"""aur beside the conversation: what it can be called with, and how sessions are listed, deleted, cleaned up
and recovered (AUR-04 to AUR-08, AUR-12)."""

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest

from perdure import __version__
from perdure.session import ids
from perdure.testing.durable import holding, needs_fork
from tests.aged_sessions import Sessions, turn
from tests.front.terminal import Terminal
from tests.programs.started import aur

__all__ = ["aur"]
NOW = ids.now()
OLD = NOW - timedelta(days=31)
YOUNG = NOW - timedelta(days=29)
HOSTILE = "\x1b]0;owned\x07\u202eqa"


@pytest.fixture
def sessions(home) -> Sessions:
    return Sessions(home / ".aurora")


@pytest.fixture
def three(sessions) -> Sessions:
    sessions.write(
        "session-aaa", OLD, turn(OLD), turn(OLD, "yes", "assistant"), agent="qa-test", status="completed"
    )
    sessions.write("session-bbb", YOUNG, turn(YOUNG), agent="architect")
    sessions.write("session-abc", NOW, turn(NOW), agent="qa-test", status="completed")
    return sessions


def listed(out: str) -> list[list[str]]:
    """The rows of a table, as words."""
    return [line.split() for line in out.split("\n\n")[0].splitlines()]


# --- what it can be called with ---------------------------------------------------------------------------


def test_aur_help_is_the_same_however_it_is_asked_for(aur):
    """And names every option; the version is one line."""
    alone = aur.within()
    assert alone.code == 0
    assert [aur.within(*words) for words in (["--help"], ["help"], ["spawn", "-h"])] == [alone] * 3
    for option in (
        "--interactive",
        "--agent",
        "--session",
        "--resume",
        "--model",
        "--list-sessions",
        "--status",
    ):
        assert option in alone.out
    for option in ("--json", "--limit", "--delete-session", "--yes", "--clean-sessions", "--recover"):
        assert option in alone.out
    assert aur.within("--version") == (0, f"aur {__version__}\n", "")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["spwan"], "did you mean spawn?"),
        (["--list-sessions"], "run `aur spawn --list-sessions`"),
        (["--resume=x"], "run `aur spawn --resume=x`"),
        (["--nope"], "unknown command '--nope'; run `aur --help`"),
        (["spawn", "--lst-sessions"], "did you mean --list-sessions?"),
        (["spawn", "hello"], "'hello' is one word too many"),
        (["spawn", "--list-sessions", "--recover", "x"], "--list-sessions and --recover do not go together"),
        (["spawn", "--delete-session", "x", "--clean-sessions", "3"], "do not go together"),
        (["spawn", "--list-sessions", "-i"], "--list-sessions and --interactive do not go together"),
        (["spawn", "--clean-sessions", "3", "--yes"], "--clean-sessions and --yes do not go together"),
        (["spawn", "--recover", "x", "-m", "offline"], "--recover and --model do not go together"),
        (
            ["spawn", "--session", "a", "--resume", "b"],
            "--session names a new session and --resume an old one",
        ),
        (["spawn", "--limit", "3"], "--limit is an option of --list-sessions"),
        (["spawn", "--list-sessions", "--limit", "x"], "'x' is not a whole number"),
        (["spawn", "--json"], "--json is an option of --list-sessions"),
        (["spawn", "--yes"], "--yes is an option of --delete-session"),
        (["spawn", "--list-sessions", "--status", "done"], "none of active, completed, interrupted"),
        (["spawn", "--delete-session", ""], "ID is empty; run `aur spawn --list-sessions`"),
        (["spawn", "--recover"], "--recover"),
        (["spawn", "--clean-sessions"], "--clean-sessions"),
        (["spawn", "--clean-sessions", "-5"], "'-5' is not a number of days that is 0 or more"),
        (["spawn", "--clean-sessions=-5"], "'-5' is not a number of days that is 0 or more"),
        (["spawn", "--clean-sessions", "nan"], "'nan' is not a number of days"),
        (["spawn", "--clean-sessions", "inf"], "'inf' is not a number of days"),
        (["spawn", "--clean-sessions", "1e3"], "'1e3' is not a number of days"),
        (["spawn", "--clean-sessions", "٣"], "is not a number of days"),
        (["spawn", "--list-sessions", "--agent", ""], "--agent: an agent's name is not empty"),
        (["spawn", "--clean-sessions", ""], "'' is not a number of days"),
        (["spawn", "--clean-sessions", "soon"], "'soon' is not a number of days"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_aur_08_what_is_wrong_on_the_command_line_is_a_usage_error_and_changes_nothing(
    aur, three, words, says
):
    """Unknown, contradicting, or no number of days: one sentence, exit 2."""
    done = aur.within(*words)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert says in done.err
    assert len(three.ids) == 3


@pytest.mark.parametrize("option", ["--delete-session", "--recover"])
def test_g_4_an_id_may_be_a_beginning_and_must_mean_one_session(aur, three, option):
    """An ambiguous one lists the candidates, exit 3; an unknown one the nearest, exit 1."""
    several = aur.within("spawn", option, "session-a")
    assert (several.code, several.out) == (3, "")
    assert several.err.splitlines()[1:] == ["  aurora:session-aaa", "  aurora:session-abc"]
    none = aur.within("spawn", option, "session-aba")
    assert (none.code, none.out, none.err.count("\n")) == (1, "", 1)
    assert none.err.startswith("aur: Session not found: session-aba; nearest: ")
    assert aur.within("spawn", option, "session-b").code == 0
    assert len(three.ids) == (2 if option == "--delete-session" else 3)


# --- AUR-04 to AUR-06: the list ---------------------------------------------------------------------------


def test_aur_04_all_sessions_are_in_a_table_the_last_active_first_and_counted(aur, three):
    """A dead process's is interrupted; the turns are counted, and not what tools said."""
    call = {
        "type": "tool_result",
        "tool_call_id": "c",
        "name": "ls",
        "content": "",
        "timestamp": ids.stamp(OLD),
    }
    three.write(
        "session-aaa",
        OLD,
        turn(OLD),
        call,
        turn(OLD, "yes", "assistant"),
        agent="qa-test",
        status="completed",
    )
    done = aur.within("spawn", "--list-sessions")
    assert (done.code, done.err) == (0, "")
    heads, *rows = listed(done.out)
    assert heads == ["session_id", "agent", "turn_count", "created_at", "status", "title"]
    assert [(*row[:3], *row[5:]) for row in rows] == [
        ("session-abc", "qa-test", "1", "completed", "said"),
        ("session-bbb", "architect", "1", "interrupted", "said"),
        ("session-aaa", "qa-test", "2", "completed", "said"),
    ]
    assert rows[2][3:5] == OLD.astimezone().strftime("%Y-%m-%d %H:%M").split()
    assert done.out.endswith("\n\n3 sessions\n")
    lines = done.out.splitlines()
    assert len({line.index(row[1]) for line, row in zip(lines[1:4], rows, strict=True)}) == 1


def test_aur_04_opening_counts_as_activity(aur, three):
    """Also where nothing is said then; every process sees it, and what was said is as old as it was."""
    assert aur.within("spawn", "--resume", "session-aaa", stdin="").code == 0
    _, *rows = listed(aur.within("spawn", "--list-sessions").out)
    assert [row[0] for row in rows] == ["session-aaa", "session-abc", "session-bbb"]
    assert rows[0][2:5] == ["2", *OLD.astimezone().strftime("%Y-%m-%d %H:%M").split()]
    (first, *_) = json.loads(aur.within("spawn", "--list-sessions", "--json").out)
    assert first["last_active"] >= ids.stamp(NOW)
    assert (
        aur.within("spawn", "--clean-sessions", "30").out
        == "Deleted 0 sessions: none is older than 30 days.\n"
    )


def test_aur_04_limit_shows_the_newest_and_counts_the_rest(aur, three):
    """Through a pipe all are shown without one; 0 is all; the number at the end is of all that match."""
    done = aur.within("spawn", "--list-sessions", "--limit", "2")
    assert [row[0] for row in listed(done.out)[1:]] == ["session-abc", "session-bbb"]
    assert done.out.endswith("\n\n1 more; --limit 0 lists all of them.\n3 sessions\n")
    some = aur.within("spawn", "--list-sessions", "--limit", "1", "--agent", "qa-test").out
    assert some.endswith("\n\n1 more; --limit 0 lists all of them.\n2 sessions of qa-test\n")
    assert aur.within("spawn", "--list-sessions", "--limit", "0") == aur.within("spawn", "--list-sessions")
    as_json = aur.within("spawn", "--list-sessions", "--json", "--limit", "2").out
    assert [each["session_id"] for each in json.loads(as_json)] == ["session-abc", "session-bbb"]


@pytest.mark.process
def test_aur_04_a_terminal_shows_fifty_rows_that_fit(aur, sessions):
    """With the beginning of an id that is enough to name it, and of the title what there is room for; JSON is
    for programs, and has all."""
    for number in range(52):
        sessions.write(f"session-{number:02}aaaaaaaaaa", NOW, turn(NOW, "a long title " * 5), agent="default")
    with aur.terminal("spawn", "--list-sessions", columns=80) as terminal:
        assert terminal.wait() == 0
        shown = terminal.scrollback
    rows = [line for line in shown if line.startswith("session-")]
    assert len(rows) == 50
    assert rows[0].split()[0] == "session-51aaaa"
    assert "a long" in rows[0]
    assert [line for line in shown if line][-2:] == ["2 more; --limit 0 lists all of them.", "52 sessions"]
    assert max(map(len, shown)) <= 80
    with aur.terminal("spawn", "--list-sessions", "--json") as terminal:
        assert terminal.wait() == 0
        assert sum('"session_id"' in line for line in terminal.scrollback) == 52


def test_aur_04_a_list_of_nothing_says_so(aur):
    assert aur.within("spawn", "--list-sessions") == (0, "No sessions in ~/.aurora/spawn/sessions.\n", "")
    assert aur.within("spawn", "--list-sessions", "--json") == (0, "[]\n", "")


def test_aur_04_of_a_home_that_cannot_be_read_no_list_says_that_it_is_empty(aur, home):
    (home / ".aurora").write_text("no folder")
    done = aur.within("spawn", "--list-sessions")
    assert (done.code, done.out) == (1, "")
    assert "Cannot read" in done.err


def test_aur_04_in_json_a_title_says_whether_it_is_cut(aur):
    """It is made from what was said, of which it has at most 200 characters."""
    aur.within("spawn", "--session", "long", stdin=f"{'word ' * 100}\n")
    (row,) = json.loads(aur.within("spawn", "--list-sessions", "--json").out)
    assert (len(row["title"]), row["title_is_cut"]) == (200, True)


def test_aur_04_a_name_that_is_hostile_is_shown_and_obeyed_by_no_terminal(aur, sessions):
    sessions.write("session-aaa", NOW, turn(NOW), agent=HOSTILE)
    done = aur.within("spawn", "--list-sessions")
    assert done.out.splitlines()[1].split()[:2] == ["session-aaa", "qa"]
    assert not {"\x1b", "\x07", "\u202e"} & {*done.out, *aur.within("spawn", "--list-sessions", "--json").out}
    named = aur.within("spawn", "--list-sessions", "--agent", HOSTILE).out
    assert named == "No sessions of \\x1b]0;owned\\x07\\u202eqa, out of 1.\n"


def test_aur_05_sessions_of_one_agent(aur, three):
    done = aur.within("spawn", "--list-sessions", "--agent", "qa-test")
    assert [row[0] for row in listed(done.out)[1:]] == ["session-abc", "session-aaa"]
    assert done.out.endswith("\n\n2 sessions of qa-test\n")
    nobody = aur.within("spawn", "--list-sessions", "--agent", "nobody")
    assert nobody == (0, "No sessions of nobody, out of 3.\n", "")


@pytest.mark.process
@needs_fork
def test_aur_06_sessions_of_one_status_and_of_an_agent_with_it(aur, three):
    """One is active as long as a process holds it, and no longer."""
    (ref,) = [each for each in three.store.list() if each.id == "session-bbb"]

    def ids_of(*filters: str) -> list[str]:
        done = aur.within("spawn", "--list-sessions", "--json", *filters)
        return [each["session_id"] for each in json.loads(done.out)]

    with holding(lambda: three.store.writer(ref)):
        assert ids_of("--status", "active") == ["session-bbb"]
        assert ids_of("--status", "interrupted") == []
    assert ids_of("--status", "active") == []
    assert ids_of("--status", "interrupted") == ["session-bbb"]
    assert ids_of("--status", "completed", "--agent", "qa-test") == ["session-abc", "session-aaa"]
    assert ids_of("--status", "completed", "--agent", "architect") == []
    assert aur.within("spawn", "--list-sessions", "--status", "interrupted").out.endswith(
        "\n\n1 session that is interrupted\n"
    )


def test_aur_04_as_json_it_has_the_same_names(aur, three):
    (_, _, oldest) = json.loads(aur.within("spawn", "--list-sessions", "--json").out)
    assert list(oldest)[:6] == ["session_id", "agent", "turn_count", "created_at", "last_active", "status"]
    assert [*oldest.values()][:3] == ["session-aaa", "qa-test", 2]
    assert (oldest["created_at"], oldest["problem"]) == (ids.stamp(OLD), None)


def test_aur_04_a_damaged_session_is_listed_with_what_is_wrong(aur, three):
    """It hides no other; what can be done about it is said."""
    three.write("session-ccc", NOW, turn(NOW), end=b"{broken\n{}\n")
    done = aur.within("spawn", "--list-sessions")
    assert done.code == 0
    assert done.out.endswith("4 sessions\n")
    assert "! line 3: not a record" in done.out
    assert done.err == "1 damaged; `aur spawn --recover ID` keeps every good line of one.\n"


def test_aur_04_what_no_repair_can_mend_is_not_called_damaged(aur, three):
    """What is no file is unreadable, and says why in words; what was recovered is like any other session,
    also if the lost line is one that another followed."""
    root = Path(three.store.root)
    (root / "folder.jsonl").mkdir()
    os.mkfifo(root / "pipe.jsonl")
    (root / "link.jsonl").symlink_to("session-aaa.jsonl")
    lost = turn(NOW) | {"id": "m2", "parent_id": "m1"}
    three.write("session-ccc", NOW, lost, end=b"{broken\n")
    assert aur.within("spawn", "--list-sessions").err.startswith("1 damaged;")
    assert aur.within("spawn", "--recover", "session-ccc").code == 0
    done = aur.within("spawn", "--list-sessions")
    assert (done.code, done.err) == (0, "")
    assert "m2" not in done.out
    assert done.out.count("unreadable") == 3
    for reason in ("not a regular file", "Is a directory", "it is a symbolic link"):
        assert f"! cannot be read: {reason}\n" in done.out


# --- AUR-07: one is deleted -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stdin", "words", "is_deleted"),
    [
        ("y\n", [], True),
        ("YES\n", [], True),
        ("maybe\ny\n", [], True),
        ("n\n", [], False),
        ("\n", [], False),
        ("maybe\nn\n", [], False),
        ("maybe", [], False),
        ("maybe\n", [], False),
        ("", [], True),
        ("n\n", ["--yes"], True),
    ],
)
def test_aur_07_through_a_pipe_an_answer_is_honoured_and_end_of_input_deletes(
    aur, three, stdin, words, is_deleted
):
    done = aur.within("spawn", "--delete-session", "session-bbb", *words, stdin=stdin)
    restore = "Deleted session session-bbb; restore: pi sessions restore session-bbb\n"
    is_unused = stdin.strip() == "maybe"
    assert (done.code, done.out) == (int(is_unused), restore if is_deleted else "")
    assert ("Nothing was deleted" in done.err) is not is_deleted
    assert done.err.count("Delete session session-bbb? [y/N]") == (not words) * (1 + ("maybe" in stdin))
    assert ("session-bbb" in three.ids) is not is_deleted
    assert ("session-bbb" in aur.within("spawn", "--list-sessions").out) is not is_deleted


@pytest.mark.process
def test_aur_07_at_a_terminal_end_of_input_deletes_nothing(aur, three):
    with aur.terminal("spawn", "--delete-session", "session-bbb") as terminal:
        terminal.until("Delete session session-bbb? [y/N]")
        terminal.keys("c-d")
        assert terminal.wait() == 0
        assert "Nothing was deleted" in "\n".join(terminal.screen)
    assert isinstance(terminal, Terminal)
    assert "session-bbb" in three.ids


def test_aur_07_a_deleted_one_is_answered_with_the_command_that_restores_it(aur, three):
    assert aur.within("spawn", "--delete-session", "session-bbb", "--yes").code == 0
    again = aur.within("spawn", "--delete-session", "session-bbb", "--yes")
    way = "it was deleted: `pi sessions restore aurora:session-bbb` brings it back"
    assert again == (1, "", f"aur: Session not found: session-bbb; {way}\n")


def test_aur_07_what_is_said_to_restore_it_does(aur, three):
    """Also the one deleted before it under the same id, which is then called otherwise."""
    path = Path(three.write("again", OLD, turn(OLD, "the first")).path)
    first = path.read_bytes()
    assert aur.within("spawn", "--delete-session", "again", "--yes").code == 0
    three.write("again", NOW, turn(NOW, "the second"))
    second = aur.within("spawn", "--delete-session", "again", "--yes").out
    command = second.partition("restore: ")[2].split()
    assert command == ["pi", "sessions", "restore", "again"]
    three.store.restore("again.1")
    assert path.read_bytes() == first


@pytest.mark.process
@needs_fork
def test_aur_07_one_that_a_process_is_in_is_not_deleted(aur, three):
    """Nor recovered: it says which process, exit 4; nothing is asked."""
    (ref,) = [each for each in three.store.list() if each.id == "session-bbb"]
    with holding(lambda: three.store.writer(ref)) as pid:
        for option, hint in (("--delete-session", "deleted"), ("--recover", "recovered")):
            done = aur.within("spawn", option, "session-bbb")
            assert (done.code, done.out) == (4, "")
            expected = (
                f"aur: Session session-bbb is held by process {pid}; it can be {hint} when that has ended\n"
            )
            assert done.err == expected
    assert "session-bbb" in three.ids


# --- AUR-08: all that are old -----------------------------------------------------------------------------


@pytest.mark.process
@needs_fork
def test_aur_08_old_sessions_are_deleted_the_number_is_said_and_why_others_are_kept(aur, three):
    """A live one, one without an age and a damaged one are named; a restored one comes back whole."""
    three.write("session-ddd", OLD, turn(OLD), end=b"{broken\n{}\n")
    three.write("session-eee", "once", turn("upon a time"))
    os.utime(Path(three.store.root, "session-eee.jsonl"), (1, 1))
    held = three.write("session-fff", OLD, turn(OLD))
    with holding(lambda: three.store.writer(held)):
        done = aur.within("spawn", "--clean-sessions", "30")
    assert done.code == 0
    assert done.out == "Deleted 1 session older than 30 days; restore: pi sessions restore session-aaa\n"
    alive, ageless, damaged, remedy = done.err.splitlines()
    assert alive == "Kept 1 session that a process is in: session-fff"
    assert ageless == "Kept 1 session that no age is known of: session-eee"
    assert damaged.startswith("session-ddd is damaged, and was kept: line 3: not a record")
    assert "--recover ID" in remedy
    assert three.ids == ["session-abc", "session-bbb", "session-ddd", "session-eee", "session-fff"]
    three.store.restore("session-aaa")
    assert "session-aaa" in aur.within("spawn", "--list-sessions").out


def test_aur_08_several_and_none_are_counted(aur, three):
    done = aur.within("spawn", "--clean-sessions", "0.5")
    back = "pi sessions restore ID, and `pi sessions trash` lists them"
    assert (done.code, done.err) == (0, "")
    assert done.out == f"Deleted 2 sessions older than 0.5 days; restore: {back}\n"
    assert aur.within("spawn", "--clean-sessions", "1") == (
        0,
        "Deleted 0 sessions: none is older than 1 day.\n",
        "",
    )


def test_aur_08_where_the_trash_cannot_be_used_that_is_said_and_nothing_is_lost(aur, three):
    Path(three.home.path, "trash").touch()
    done = aur.within("spawn", "--clean-sessions", "30")
    assert (done.code, done.out) == (1, "Deleted 0 sessions.\n")
    assert done.err.startswith("session-aaa was kept: ")
    assert "session-aaa" in three.ids


# --- AUR-12: without asking -------------------------------------------------------------------------------


def test_aur_12_a_damaged_session_is_recovered_without_asking(aur, sessions):
    """Every good line is kept, and the file as it was stays beside it; then there is no more to do."""
    good = json.dumps(turn(NOW, "and then")).encode() + b"\n"
    path = Path(sessions.write("session-aaa", NOW, turn(NOW), end=b"{broken\n" + good).path)
    before = path.read_bytes()
    done = aur.within("spawn", "--recover", "session-a")
    assert done.code == 0
    recovered, resume = done.out.splitlines()
    assert recovered.startswith("Recovered session session-aaa: 2 good lines kept; the file as it was: ")
    assert Path(recovered.rpartition(": ")[2]).read_bytes() == before
    assert resume == "Resume: aur spawn --resume session-aaa"
    assert "Line 3 of session-aaa.jsonl: not a record" in done.err
    assert path.read_bytes() == before.replace(b"{broken\n", b"")
    again = aur.within("spawn", "--recover", "session-aaa")
    assert again == (0, "Nothing is damaged in session session-aaa.\n", "")


@pytest.mark.parametrize(
    "data",
    [b"", b"\0" * 4096, b"no session\n\xff\xfe\n", b"{}{}{}"],
    ids=["empty", "nuls", "text", "objects"],
)
def test_aur_12_a_file_without_a_readable_line_never_crashes(aur, sessions, data):
    """It is listed, and recovered or left alone; its bytes are there in any case."""
    path = Path(sessions.write("session-aaa", NOW).path)
    path.write_bytes(data)
    for words in (
        ["--list-sessions"],
        ["--clean-sessions", "30"],
        ["--recover", "session-aaa"],
        ["--list-sessions"],
    ):
        done = aur.within("spawn", *words)
        assert done.code in (0, 1)
        assert "Traceback" not in done.err
    assert data in [each.read_bytes() for each in path.parent.iterdir()]
