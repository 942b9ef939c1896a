"""Large files cost what their reader needs, and not a multiple of their size: measured, in another process.

`make crash` has files of 1 GB and 200 MB; `make test` smaller ones, of which the same is true.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.crash.large_files import SENT
from tests.effort import some
from tests.layouts import store_of

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
LINES = ("pi", "aurora", "cortext")
DOCUMENTS = ("soleur", "sibyl")
OF_LINES = some(30, everything=1000)
"""Thousands of turns, which take some more megabytes."""
OF_DOCUMENTS = some(12, everything=160)
MOST_TO_LIST = 16
"""Megabytes more than the process had before."""


def done(*arguments: object) -> dict[str, Any]:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.crash.large_files", *map(str, arguments)],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return dict(json.loads(ran.stdout))


def peak_of(*command: str, home: Path, cwd: Path) -> float:
    """How many megabytes a program takes in which one thing is said."""
    ran = done("run", home, cwd, *command)
    assert ran["exit_code"] == 0, ran["told"]
    return float(ran["megabytes"])


HOMES = {"pi": ".pi/agent", "aurora": ".aurora", "cortext": "workspace"}
GO_ON: dict[str, tuple[str, ...]] = {
    "pi": ("pi", "--session"),
    "aurora": ("aur", "spawn", "--resume"),
    "cortext": ("cortext", "resume", "--no-commit", "--type", "plan"),
}


@pytest.mark.parametrize("layout", LINES)
def test_r15_a_session_of_very_many_turns_is_listed_and_resumed_by_its_ends(layout, tmp_path):
    """Listed from its beginning and its end; resumed with what is sent, and never with the whole of it, by
    the library and by its program."""
    home, cwd = tmp_path / HOMES[layout], tmp_path / "workspace"
    cwd.mkdir()
    if layout == "cortext":
        peak_of("cortext", "init", home=tmp_path, cwd=cwd)
    done("make", layout, home, OF_LINES)
    _listed_and_resumed(layout, home)
    (large,) = store_of(layout, home).list()
    short = done("make", layout, home, 1)["id"]
    of_large, of_short = (peak_of(*GO_ON[layout], id, home=tmp_path, cwd=cwd) for id in (large.id, short))
    print(of_large, of_short)
    assert of_large < of_short + MOST_TO_LIST


def _listed_and_resumed(layout: str, home: Path) -> None:
    listed = done("list", layout, home)
    print(listed)
    assert listed["size"] > OF_LINES
    assert listed["title"]
    assert listed["problem"] is None
    assert listed["megabytes"] < MOST_TO_LIST
    resumed = done("resume", layout, home)
    print(resumed)
    assert resumed["sent"] == SENT + 1
    assert resumed["last"].startswith(f"{OF_LINES * 1000 - 1} ")
    assert resumed["megabytes"] < MOST_TO_LIST


def test_r15_a_conversation_that_was_never_begun_anew_is_resumed_with_what_is_sent_of_it(tmp_path):
    """Its first turns and its last ones, of which aur keeps no others in memory."""
    (cwd := tmp_path / "workspace").mkdir()
    made = [
        done("make", "aurora", tmp_path / ".aurora", megabytes, "whole")["id"] for megabytes in (OF_LINES, 1)
    ]
    of_large, of_short = (peak_of("aur", "spawn", "--resume", id, home=tmp_path, cwd=cwd) for id in made)
    print(of_large, of_short)
    assert of_large < of_short + MOST_TO_LIST


@pytest.mark.parametrize("layout", DOCUMENTS)
def test_a_large_document_is_listed_by_its_ends_and_opened_in_three_times_its_size(layout, tmp_path):
    """All of it is there: what is sent, and every entry."""
    done("make", layout, tmp_path, OF_DOCUMENTS)
    listed = done("list", layout, tmp_path)
    print(listed)
    assert listed["title"]
    assert listed["problem"] is None
    assert listed["megabytes"] < MOST_TO_LIST
    opened = done("open", layout, tmp_path)
    print(opened)
    assert opened["sent"] == SENT + 1
    assert opened["entries"] == OF_DOCUMENTS * 1000 + 1
    assert opened["base"] + opened["megabytes"] < 3 * opened["size"] + some(40, everything=0)


@pytest.mark.parametrize("layout", DOCUMENTS)
def test_a_document_over_the_limit_is_refused_by_every_command_in_a_sentence(layout, tmp_path):
    """`ls` shows its row with the reason; what would open it says so, without a traceback, exit code 1."""
    from tests.processes import run

    home = tmp_path / f".{layout}"
    done("make", layout, home, 1)
    (path,) = [
        each for each in home.rglob("*") if each.suffix in (".json", ".lisp") and "index" not in each.name
    ]
    with path.open("r+b") as file:
        file.truncate(2**30)  # no byte of it takes room on the disk
    (tmp_path / "here").mkdir()

    def pi(*words: str) -> subprocess.CompletedProcess[str]:
        environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        command = [sys.executable, "-m", "perdure", "sessions", *words]
        return run(command, cwd=tmp_path / "here", env=environment, capture_output=True, text=True)

    (row,) = json.loads(pi("ls", "--all", "--json").stdout)
    assert "MB" in row["problem"]
    reference = f"{layout}:{row['id']}"
    for words in (["show"], ["export", "--to", "md"], ["export", "--to", "pi"], ["fork"], ["show", "--json"]):
        ran = pi(words[0], reference, *words[1:])
        assert ran.returncode == 1, (words, ran)
        assert str(path) in ran.stderr
        assert "1,024 MB" in ran.stderr
        assert "Traceback" not in ran.stderr
    looked = pi("doctor")
    assert looked.returncode == 1
    assert "1,024 MB" in looked.stdout
    assert pi("search", "lorem", "--all").returncode == 0
    assert pi("rm", reference).returncode == 0
