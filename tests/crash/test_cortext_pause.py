"""A pause of cortext's takes many steps: messages, session.json, the transcript, a summary, a commit. Killed
between any two of them, the list is right, and the next pause completes what was missing."""

import io
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any
from unittest.mock import patch

import pytest

from perdure.programs.cortext.command_line import main
from perdure.programs.cortext.git import Git
from tests.cortext_files import check_complete
from tests.crash.killing import Child, Report, alone, die
from tests.crash.test_cortext_steps import CALLS, broken, kill
from tests.effort import ALL_KILLS, KILLS
from tests.pi_files import in_memory
from tests.programs.workspaces import Cortext

pytestmark = pytest.mark.process

EVERY = {"call": 1, "git": 1} if KILLS >= ALL_KILLS else {"call": 24, "git": 4}
"""Of the calls to the operating system, and of the commands to git: all of them with `make crash`."""
WORDS = "And GraphQL?\n/workspace.stop-conversation\n"


@pytest.fixture
def folder(tmp_path):
    with in_memory(tmp_path) as path:
        yield path


@pytest.mark.parametrize("step", ["call", "git"])
def test_cor_18_killed_between_any_two_steps_of_a_pause_the_next_one_completes_it(folder, step):
    """All that was there before is there, the status is right, each message is shown once, and the
    repository has what the disk has."""
    assert alone(kill_at_each_step, folder=str(folder), step=step) > (60 if step == "call" else 6)


def kill_at_each_step(folder: str, step: str) -> int:
    os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
    prepared = Path(folder) / "prepared"
    begun(prepared)
    for number in count(1, EVERY[step]):
        home = Path(folder) / "home"
        shutil.copytree(prepared, home, symlinks=True)
        os.environ["HOME"] = str(home)
        with Child(partial(pause_and_die, home, step, number)) as child:
            child.wait()
            is_told = "saved" in child.heard()
        try:
            check(home, is_told)
        except BaseException as error:
            error.add_note(f"killed at {step} {number}")
            raise
        shutil.rmtree(home)
        if child.status == 0:
            return number
    raise AssertionError("unreachable")


def begun(home: Path) -> None:
    """A workspace with a conversation that was held, paused and committed."""
    home.mkdir()
    os.environ["HOME"] = str(home)
    cortext = Cortext(home)
    cortext.talked("API design", "REST?", "Yes.")
    assert run(home, "resume", "api", words="")[0] == 0


class Told(io.StringIO):
    """What a user sees, who is told as soon as it is saved, and as soon as it is committed."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self.report = report

    def write(self, text: str) -> int:
        if "Session saved." in text:
            self.report("saved")
        elif found := re.search("Committed ([^ ,]+)", text):
            self.report(found[1])
        return super().write(text)


def run(home: Path, *options: str, words: str, report: Report = lambda _: None) -> tuple[int, str]:
    out = Told(report)
    with TemporaryFile("w+") as given, patch("sys.stdin", given), chdir(home / "work"):
        given.write(words)
        given.seek(0)
        with redirect_stdout(out), redirect_stderr(out):
            return main(options), out.getvalue()


def pause_and_die(home: Path, step: str, number: int, report: Report) -> None:
    with broken(number, CALLS, kill) if step == "call" else killed_at_git(number):
        code, said = run(home, "resume", "api", words=WORDS, report=report)
    if code:
        report({"failed": said})


@contextmanager
def killed_at_git(number: int) -> Iterator[None]:
    started = count(1)
    original: Callable[..., Any] = Git._started

    def counted(*arguments: Any, **options: Any) -> Any:
        if next(started) == number:
            die()
        return original(*arguments, **options)

    with patch.object(Git, "_started", counted):
        yield


def check(home: Path, is_told: bool) -> None:
    """`is_told` says that its user was told that it is saved."""
    code, listed = run(home, "resume", "--list", words="")
    assert code == 0
    _, row = listed.splitlines()
    assert "API design" in row
    assert " paused " in row
    code, said = run(home, "resume", "api", words="")
    assert code == 0, said
    assert "Not committed" not in said
    cortext = Cortext.__new__(Cortext)
    cortext.project, cortext.home = home / "work", home
    assert cortext.state()["status"] == "paused"
    assert cortext.is_committed(), cortext.git("status")
    asked = [line["content"] for line in cortext.lines() if line["role"] == "user"]
    assert asked in (["REST?", "And GraphQL?"], *([] if is_told else [["REST?"]]))
    assert [cortext.transcript().count(each) for each in asked] == [1] * len(asked)
    check_complete(cortext.ref)
    subprocess.run(["git", "fsck", "--strict"], cwd=cortext.project, check=True, capture_output=True)
