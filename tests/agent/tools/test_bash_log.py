"""Logs of commands, and when they go. Ages and sizes are set on real files; nothing waits."""

import os
import stat
import tempfile
import time
from datetime import timedelta

import pytest

from perdure.agent.tools import bash_log
from perdure.session import ids
from tests.aged_sessions import remember

DAY = 24 * 3600


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The system's folder for temporary files; and a clock that was right before."""
    remember(ids.now() - timedelta(hours=1))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def log(name: str, folder, *, days: float = 0, size: int = 10):
    """One that somebody left, so old and so large; it takes no room on the disk."""
    path = folder / f"perdure-bash-{name}" / "output.log"
    path.parent.mkdir(mode=0o700)
    with path.open("wb") as file:
        file.truncate(size)
    changed = time.time() - days * DAY
    os.utime(path, (changed, changed))
    return path


def names(folder) -> list[str]:
    return sorted(path.name.removeprefix("perdure-bash-") for path in folder.iterdir())


def test_pi_07_a_log_is_private_and_its_name_cannot_be_foreseen(folder):
    with bash_log.create() as one, bash_log.create() as other:
        assert one.name != other.name
        assert stat.S_IMODE(os.stat(one.name).st_mode) == 0o600
        assert stat.S_IMODE(os.stat(os.path.dirname(one.name)).st_mode) == 0o700


def test_pi_07_logs_go_after_seven_days(folder):
    log("old", folder, days=7.01)
    log("young", folder, days=6.99)
    bash_log.expire()
    assert names(folder) == ["young"]


def test_pi_07_a_clock_that_leapt_lets_no_log_expire_until_the_next_day(folder):
    """But for those that are too much together."""
    log("old", folder, days=8)
    log("large", folder, days=9, size=2 * bash_log.MOST_BYTES)
    remember(ids.now() - timedelta(days=31))
    bash_log.expire()
    assert names(folder) == ["old"]
    bash_log.expire()
    assert names(folder) == ["old"]
    remember(ids.now() - timedelta(days=2), agreed=False)
    bash_log.expire()
    assert names(folder) == []


def test_pi_07_of_more_than_a_gigabyte_the_oldest_go(folder):
    for number in range(5):
        log(f"{number}", folder, days=number, size=400 * 2**20)
    bash_log.expire()
    assert names(folder) == ["0", "1"]


def test_pi_07_a_log_that_is_being_written_stays(folder):
    """However old and large it and the others are; then it goes like any other."""
    with bash_log.create() as writing:
        writing.truncate(2 * bash_log.MOST_BYTES)
        os.utime(writing.name, (0, 0))
        bash_log.expire()
        assert os.path.exists(writing.name)
    bash_log.expire()
    assert names(folder) == []


def test_pi_07_a_folder_without_a_log_goes_when_it_is_old(folder):
    """Of a process that was killed between the two."""
    for name, days in (("old", 8), ("young", 1)):
        (folder / f"perdure-bash-{name}").mkdir()
        changed = time.time() - days * DAY
        os.utime(folder / f"perdure-bash-{name}", (changed, changed))
    bash_log.expire()
    assert names(folder) == ["young"]


def test_pi_07_what_others_put_there_is_left_alone(folder, tmp_path_factory, monkeypatch):
    """Links to what is ours elsewhere, in place of the folder or the log; more than a log in a folder."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    ours = log("ours", elsewhere, days=30)
    (folder / "perdure-bash-link").symlink_to(ours.parent)
    (folder / "perdure-bash-inside").mkdir()
    (folder / "perdure-bash-inside" / "output.log").symlink_to(ours)
    os.utime(folder / "perdure-bash-inside" / "output.log", (0, 0), follow_symlinks=False)
    (folder / "perdure-bash-file").write_text("x")
    kept = log("more", folder, days=30).parent / "notes.txt"
    kept.write_text("mine")
    bash_log.expire()
    assert ours.exists()
    assert kept.read_text() == "mine"
    assert names(folder) == ["file", "inside", "link", "more"]


def test_pi_07_a_folder_of_another_user_is_not_looked_into(folder, monkeypatch):
    path = log("theirs", folder, days=30)
    monkeypatch.setattr(os, "getuid", lambda: os.stat(path).st_uid + 1)
    bash_log.expire()
    assert path.exists()


def test_pi_07_a_place_that_cannot_be_listed_is_no_error(folder):
    bash_log.expire(str(folder / "gone"))
