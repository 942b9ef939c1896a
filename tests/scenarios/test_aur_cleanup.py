"""The clean-up that happens by itself (AUR-09): in a process of its own, and said at the next start."""

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable
from contextlib import chdir
from datetime import datetime, timedelta, tzinfo
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from perdure.agent.tools import bash_log
from perdure.front.output import Output
from perdure.programs.aur import background
from perdure.session import ids, trash
from perdure.session.stores.file_store import FileStore
from perdure.session.stores.lock import Lock
from perdure.session.trash_note import NOTE
from tests import processes
from tests.aged_sessions import Sessions, remember, touch, turn
from tests.programs.started import aur

__all__ = ["aur"]
NOW = ids.now()
OLD = NOW - timedelta(days=31)
LIST = ("spawn", "--list-sessions")
SET_ASIDE = (
    "Set aside 1 session that nobody used for 30 days; `pi sessions trash` lists them, "
    "`pi sessions restore ID` brings one back\n"
)
GONE = "Deleted 1 session for good, after over 30 days in the trash\n"
CUT_SHORT = (
    "A clean-up of old sessions was cut short; it may have set some aside: " + SET_ASIDE.partition("; ")[2]
)


@pytest.fixture
def sessions(home) -> Sessions:
    """One is old."""
    found = Sessions(home / ".aurora")
    found.write("session-aaa", OLD, turn(OLD))
    found.write("session-bbb", NOW, turn(NOW))
    remember(NOW - timedelta(hours=1))
    return found


def configure(sessions: Sessions, days: object = 30) -> Path:
    path = Path(sessions.home.path, "config.json")
    path.write_text(json.dumps({"spawner": {"interactive": {"session_expiry_days": days}}}))
    return path


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.005)


def cleaners(home: Path) -> set[int]:
    """The processes that are at work in that home now: all that are left of the calls that began them."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes()
        except OSError:
            continue  # it is gone, or somebody else's
        if f"HOME={home}\0".encode() in variables:
            found.add(int(folder.name))
    return found


CALL = """
import os
from perdure.programs.aur.command_line import main
main({words!r})
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    print("no child")
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
def test_aur_09_old_sessions_are_set_aside_beside_the_next_start_and_that_is_said_once(
    aur, sessions, home, monkeypatch
):
    """Detached: a session of its own without a terminal, nothing inherited, no keys, in nobody's directory,
    least important, nobody's child, one at a time. What the trash has had for 30 days goes for good, as is
    said."""
    config = configure(sessions)
    forgotten = sessions.store.delete(sessions.write("session-ccc", OLD))
    note = Path(sessions.home.path, "trash", forgotten.folder, NOTE)
    note.write_text(note.read_text().replace(forgotten.deleted, ids.stamp(OLD)))
    lock = Path(sessions.home.path, "locks", "cleanup~.lock")
    monkeypatch.setenv("OPENAI_API_KEY", "canary-of-a-key")
    inherited, given = os.pipe()
    os.set_inheritable(given, True)
    with Lock(sessions.home.path, os.path.join("locks", "trash~.lock"), "trash", 0):  # it comes so far
        with monkeypatch.context() as elsewhere:
            elsewhere.setenv("AURORA_HOME", os.path.relpath(sessions.home.path, aur.project))
            first = aur.run(*LIST, close_fds=False)
        until(lambda: lock.exists() and lock.read_bytes())
        (pid,) = cleaners(home)
        os.kill(pid, signal.SIGSTOP)
    try:
        os.close(given)
        assert (first.code, first.err) == (0, "")
        assert os.read(inherited, 1) == b""
        os.close(inherited)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        parent, session, terminal, niceness = (int(state[at]) for at in (1, 3, 4, 16))
        assert (session, terminal, niceness) == (pid, 0, 19)
        assert parent != os.getpid()
        assert b"canary" not in Path(f"/proc/{pid}/environ").read_bytes()
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        targets = {os.readlink(f"/proc/{pid}/fd/{number}") for number in range(3)}
        assert targets == {os.devnull}
        second = processes.run(
            [sys.executable, "-c", CALL.format(words=LIST)], capture_output=True, text=True
        )
        assert second.stdout.endswith("\nno child\n")
        until(lambda: cleaners(home) == {pid})
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: not cleaners(home))
    config.unlink()
    assert sessions.ids == ["session-bbb"]
    assert [each.id for each in trash.listed(sessions.home.path)] == ["session-aaa"]
    said, again = aur.within(*LIST), aur.within(*LIST)
    assert (said.err, again.err) == (SET_ASIDE + GONE, "")
    assert said.out == again.out


def test_aur_09_what_is_restored_is_not_set_aside_again(aur, sessions):
    config = configure(sessions)
    background.clean_up("")
    sessions.store.restore("session-aaa")
    background.clean_up("")
    config.unlink()
    assert sessions.ids == ["session-aaa", "session-bbb"]
    assert aur.within(*LIST).err == SET_ASIDE  # by the first


def test_aur_09_the_session_that_a_call_is_about_is_not_taken_from_under_it(sessions):
    configure(sessions)
    for about in ("session-a", "aurora:session-aaa"):
        background.clean_up(about)
        assert sessions.ids == ["session-aaa", "session-bbb"]
    with chdir(sessions.store.root):
        begun = "session-aaa.jsonl", *background._paths("session-aaa.jsonl")
    background.clean_up(*begun)
    assert sessions.ids == ["session-aaa", "session-bbb"]
    background.clean_up("session-")  # which means none
    assert sessions.ids == ["session-bbb"]


def test_aur_09_it_is_begun_by_every_call_that_does_something_and_by_no_other(aur, sessions, monkeypatch):
    """Nor where only the project's settings ask for it: a folder that was downloaded must not delete."""
    begun: list[str] = []
    monkeypatch.setattr(background, "_detach", begun.append)
    (aur.project / ".aurora").mkdir()
    theirs = aur.project / ".aurora" / "config.json"
    theirs.write_text(configure(sessions).read_text())
    for words in (
        [],
        ["--help"],
        ["--version"],
        ["spawn", "--help"],
        ["spawn", "--bogus"],
        ["spawn", "--json"],
    ):
        aur.within(*words)
    assert begun == []
    aur.within(*LIST)
    aur.within("spawn", "--recover", "session-bbb")
    aur.within("spawn", "--clean-sessions", "300")
    aur.within("spawn", "--delete-session", "session-bbb", stdin="n\n")
    assert begun == ["", "session-bbb", "", "session-bbb"]
    Path(sessions.home.path, "config.json").unlink()
    aur.within(*LIST)
    assert len(begun) == 4


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            f'{{"spawner": {{"interactive": {{"session_expiry_days": {value}}}}}}}',
            "session_expiry_days is not a number",
        )
        for value in ("0", "-30", '"30"', "true", "NaN", "1e999", "[30]", "0.5")
    ]
    + [
        ('{"spawner": {"interactive": {"session_expiry_days": 30}}', "config.json is not JSON"),
        ('{"spawner": ["session_expiry_days"]}', "spawner is not a group of settings"),
    ],
)
def test_aur_09_bad_settings_keep_everything_and_are_said(aur, sessions, text, says):
    config = configure(sessions)
    config.write_text(text)
    background.clean_up("")
    config.unlink()
    assert sessions.ids == ["session-aaa", "session-bbb"]
    done = aur.within(*LIST)
    assert done.code == 0
    assert done.err.startswith("No session is cleaned up: ")
    assert says in done.err
    assert done.err.count("\n") == 1


def test_aur_09_a_setting_that_is_null_is_none_and_one_that_is_elsewhere_is_said_to_be(aur, sessions):
    config = configure(sessions, None)
    background.clean_up("")
    assert not Path(sessions.home.path, "cleanup.report").exists()
    config.write_text('{"session_expiry_days": 30}')
    background.clean_up("")
    config.unlink()
    assert sessions.ids == ["session-aaa", "session-bbb"]
    assert aur.within(*LIST).err == (
        "No session is cleaned up: ~/.aurora/config.json: 'session_expiry_days' is not known there: it "
        "belongs in spawner.interactive\n"
    )


@pytest.mark.parametrize("place", ["locks", "cleanup.report"])
def test_aur_09_where_nothing_can_be_written_nothing_happens_and_nothing_is_said(aur, sessions, place):
    """A folder, or a file, is where ours should be, and stays there: what could not be said is not done."""
    config = configure(sessions)
    there = Path(sessions.home.path, place)
    there.touch() if place == "locks" else (there / "x").mkdir(parents=True)
    background.clean_up("")
    config.unlink()
    assert aur.within(*LIST)[::2] == (0, "")
    assert sessions.ids == ["session-aaa", "session-bbb"]
    assert there.is_file() if place == "locks" else (there / "x").is_dir()


def test_aur_09_one_that_is_killed_midway_is_said_to_have_been_cut_short(aur, sessions, monkeypatch):
    """Once; and by no start while it is at work. What an earlier one did is said before it."""
    config = configure(sessions)
    background.clean_up("")
    sessions.write("session-ccc", OLD, turn(OLD))
    delete_all = FileStore.delete_all

    class Killed(BaseException):
        pass

    def killed(*given: Any, **options: Any) -> None:
        delete_all(*given, **options)
        monkeypatch.setattr(background, "_is_wanted", lambda: False)
        assert aur.within(*LIST).err == ""
        raise Killed

    monkeypatch.setattr(FileStore, "delete_all", killed)
    with pytest.raises(Killed):
        background.clean_up("")
    config.unlink()
    assert "session-ccc" not in sessions.ids
    assert aur.within(*LIST).err == SET_ASIDE + CUT_SHORT
    assert aur.within(*LIST).err == ""


def test_aur_09_what_could_not_be_cleaned_up_is_said_in_one_line(aur, sessions):
    """How often ever it was found to be so; the rest is cleaned up."""
    config = configure(sessions)
    for name in ("one", "two"):
        Path(sessions.store.root, f"{name}.jsonl").symlink_to(sessions.home.path)
        os.utime(Path(sessions.store.root, f"{name}.jsonl"), (1, 1), follow_symlinks=False)
    background.clean_up("")
    background.clean_up("")
    config.unlink()
    removed, wrong = aur.within(*LIST).err.splitlines(keepends=True)
    assert removed == SET_ASIDE
    assert re.fullmatch(r"Not all could be cleaned up: .* is a symbolic link \(and 1 more\)\n", wrong)


def test_aur_09_a_report_is_removed_when_it_was_said_and_not_before(aur, sessions, monkeypatch):
    """Whoever dies between the two has it said again; under one name."""
    config = configure(sessions)
    background.clean_up("")
    config.unlink()
    before = {*os.listdir(sessions.home.path)}
    with monkeypatch.context() as dying:
        dying.setattr(os, "unlink", lambda *given, **options: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            background.start("", Output(stderr=(said := StringIO())))
    assert said.getvalue() == SET_ASIDE
    assert {*os.listdir(sessions.home.path)} == before
    assert [aur.within(*LIST).err for _ in range(2)] == [SET_ASIDE, ""]
    assert {*os.listdir(sessions.home.path)} == before - {"cleanup.report"}


def test_aur_09_what_several_runs_did_is_all_said(aur, sessions):
    """Where nobody has started the program between them."""
    config = configure(sessions)
    background.clean_up("")
    sessions.write("session-ccc", OLD)
    sessions.write("session-ddd", OLD)
    background.clean_up("")
    sessions.write("session-eee", OLD)
    background.clean_up("")
    config.unlink()
    assert aur.within(*LIST).err == SET_ASIDE + SET_ASIDE.replace("1 session", "2 sessions") + SET_ASIDE


# --- clocks that are wrong ----------------------------------------------------------------------------------


@pytest.fixture
def leap(monkeypatch) -> Callable[[float], None]:
    """Sets the clock so many days ahead of the right one, or behind it."""

    def leap(days: float) -> None:
        class Wrong(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
                return datetime.now(tz) + timedelta(days=days)

        monkeypatch.setattr(ids, "datetime", Wrong)

    return leap


def trashed(sessions: Sessions) -> list[str]:
    return sorted(each.id for each in trash.listed(sessions.home.path))


def test_aur_09_one_start_with_a_clock_a_year_ahead_removes_nothing_and_that_is_said_once(
    aur, sessions, leap
):
    """Neither from the trash nor into it. The line has both dates, and the command for those whose clock is
    right. Back in the right year, all goes on as before, a day later."""
    config = configure(sessions)
    sessions.store.delete(sessions.write("session-ccc", NOW))
    leap(365)
    for _ in range(3):
        background.clean_up("")
    assert (sessions.ids, trashed(sessions)) == (["session-aaa", "session-bbb"], ["session-ccc"])
    config.unlink()
    said, again = aur.within(*LIST), aur.within(*LIST)
    assert f"{NOW:%Y-%m-%d}" in said.err
    assert f"{NOW + timedelta(days=365):%Y-%m-%d}" in said.err
    assert "`pi sessions trash --empty --days 30`" in said.err
    assert (said.err.count("\n"), again.err) == (1, "")
    configure(sessions)
    leap(0)
    background.clean_up("")
    assert (sessions.ids, trashed(sessions)) == (["session-aaa", "session-bbb"], ["session-ccc"])
    leap(1.1)
    background.clean_up("")
    assert (sessions.ids, trashed(sessions)) == (["session-bbb"], ["session-aaa", "session-ccc"])
    config.unlink()
    assert aur.within(*LIST).err == SET_ASIDE


def test_aur_09_a_leap_that_pi_saw_first_is_said_all_the_same(aur, sessions, leap, tmp_path):
    """`pi` asks whether the clock is believed before logs of commands expire, and tells nothing of it."""
    config = configure(sessions)
    (tmp_path / "perdure-bash-old").mkdir()
    touch(tmp_path / "perdure-bash-old", (NOW - timedelta(days=8)).timestamp())
    leap(365)
    bash_log.expire(str(tmp_path))
    assert (tmp_path / "perdure-bash-old").exists()
    for _ in range(2):
        background.clean_up("")
    assert sessions.ids == ["session-aaa", "session-bbb"]
    config.unlink()
    said, again = aur.within(*LIST), aur.within(*LIST)
    assert f"{NOW:%Y-%m-%d}" in said.err
    assert f"{NOW + timedelta(days=365):%Y-%m-%d}" in said.err
    assert (said.err.count("\n"), again.err) == (1, "")


def test_aur_09_after_two_months_away_the_clean_up_goes_on_the_next_day(aur, sessions, leap):
    config = configure(sessions)
    sessions.store.delete(sessions.write("session-ccc", NOW))
    for days in (60, 60.9):
        leap(days)
        background.clean_up("")
        assert trashed(sessions) == ["session-ccc"]
    leap(61.1)
    background.clean_up("")
    assert trashed(sessions) == ["session-aaa", "session-bbb"]
    config.unlink()
    lines = aur.within(*LIST).err.splitlines(keepends=True)
    assert lines[1:] == [SET_ASIDE.replace("1 session", "2 sessions"), GONE]


def test_aur_09_a_clean_up_of_the_trash_that_is_killed_is_said_to_have_been_cut_short(
    aur, sessions, leap, monkeypatch
):
    """Before the first goes for good, that it may have is written down."""
    config = configure(sessions)
    sessions.store.delete(sessions.write("session-ccc", NOW))
    remember(NOW + timedelta(days=31, hours=-1))
    leap(31)

    class Killed(BaseException):
        pass

    def killed(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as dying:
        dying.setattr("perdure.session.stores.folders.remove_tree", killed)
        with pytest.raises(Killed):
            background.clean_up("")
    config.unlink()
    *_, last = aur.within(*LIST).err.splitlines()
    assert last.startswith("A clean-up of the trash was cut short")
