"""Power cuts under a pause of cortext's, which commits to the repository of its user: at any moment, git
finds nothing wrong afterwards, and who was told "Committed" has the commit."""

import os
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from perdure.programs.cortext import own_locks
from tests.crash.killing import Child, Report, alone, die
from tests.crash.power import LOG_FLUSH, NO_LOG_FLUSH, cut, disk, power_on
from tests.crash.test_cortext_pause import WORDS, run
from tests.crash.test_cortext_steps import CALLS, broken
from tests.effort import ALL_KILLS, KILLS
from tests.programs.workspaces import GIT_CONFIG, Cortext

__all__ = ["disk"]

pytestmark = pytest.mark.process

CUTS, EVERY = (100, 1) if KILLS >= ALL_KILLS else (5, 24)
"""How many at random moments, and which of the calls: all of them with `make crash`."""
KINDS = ["plain", "packed", "deep", "worktree", "detached", "sha256"]
LATER = [0, 0.05, 1, 7] if KILLS >= ALL_KILLS else [0, 0.5]
"""Seconds behind the line: the journal is written every five."""


def test_r2_a_power_cut_leaves_the_repository_whole_and_what_was_committed_in_it(disk, seed):
    """On its old commit or its new one, on the new one if that was said; with the user's own work, and with
    no lock that the next pause does not know for its own."""
    counted = alone(cut_again_and_again, cuts=CUTS, seed=seed, **disk)
    print(counted)
    assert counted["told"] > 0


def test_r2_cut_at_any_call_of_a_commit_the_repository_is_whole(disk, seed):
    """The same at each call to the operating system that cortext makes once the conversation is saved."""
    tried = alone(cut_at_each_call, seed=seed, **disk)
    print(f"{tried} cuts")
    assert tried > (60 if EVERY == 1 else 3)


def test_r2_a_repository_that_was_made_is_there_after_a_power_cut(disk, seed):
    """Whole, or not there at all, and then the next `cortext init` makes it."""
    counted = alone(cut_while_making, cuts=max(3, CUTS // 4), seed=seed, **disk)
    print(counted)
    assert counted["told"] > 0


# --- repositories -------------------------------------------------------------------------------------


class Repository:
    """The one of a user, with a conversation that was paused, and with work of their own in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.work = home / "work"

    def git(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self.work, env=os.environ | {"HOME": str(self.home)},
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout + done.stderr

    def begin(self, kind: str) -> None:
        self.work.mkdir(parents=True)
        os.environ["HOME"] = str(self.home)
        if kind == "sha256":
            self.git("init", "-q", "--object-format=sha256")
        cortext = Cortext(self.home)
        cortext.talked("API design", "REST?", "Yes.")
        (self.work / "notes.txt").write_text("notes\n")
        self.git("add", "notes.txt")
        self.git("commit", "-q", "-m", "mine")
        assert run(self.home, "resume", "api", words="")[0] == 0
        if kind == "packed":
            self.git("gc", "-q")
        elif kind == "deep":
            self.git("checkout", "-q", "-b", "topic/deep/one")
            self.git("pack-refs", "--all")
        elif kind == "detached":
            self.git("checkout", "-q", "--detach")
        elif kind == "worktree":
            self.work.rename(self.home / "main")
            subprocess.run(
                ["git", "worktree", "add", "-q", "../work", "-b", "side"], cwd=self.home / "main", check=True
            )
            (self.work / ".git").write_text("gitdir: ../main/.git/worktrees/work\n")  # wherever it is copied
        (self.work / "notes.txt").write_text("more notes\n")
        (self.work / "staged.txt").write_text("staged\n")
        self.git("add", "staged.txt")

    @property
    def tip(self) -> str:
        return self.git("rev-parse", "HEAD").strip()

    def locks(self) -> list[str]:
        """And what else is ours."""
        names = [str(path) for path in self.home.rglob(".git/**/*")]
        return [name for name in names if re.search(r"\.lock$|/cortext-", name)]

    def check(self, old: str, told: list[str]) -> None:
        """After a cut."""
        self.check_objects()
        tip = self.tip
        assert tip == old or self.git("rev-parse", "HEAD^").strip() == old
        assert all(tip.startswith(each) for each in told), f"{told} was committed, and the branch is at {tip}"
        assert self.git("show", ":staged.txt") == "staged\n"
        assert "A  staged.txt" in self.git("--no-optional-locks", "status", "--porcelain")

    def check_objects(self) -> None:
        said = self.git("fsck", "--strict", "--full", "--no-dangling")
        assert not re.search("error|missing|corrupt|empty|invalid|broken", said), said

    def check_later(self) -> None:
        """That it can be gone on with: by the next pause, and by the user."""
        code, said = run(self.home, "resume", "api", words=WORDS)
        assert code == 0, said
        assert "Committed " in said, said
        assert self.git("status", "--porcelain", "--", "conversations") == ""
        assert self.locks() == []
        kept = self.git("ls-tree", "-r", "--name-only", "HEAD", "conversations")
        self.git("commit", "-q", "-m", "theirs")
        assert self.git("show", "HEAD:staged.txt") == "staged\n"
        assert self.git("show", "HEAD:notes.txt") == "notes\n"
        assert self.git("ls-tree", "-r", "--name-only", "HEAD", "conversations") == kept
        self.check_objects()


# --- cuts ---------------------------------------------------------------------------------------------


def prepared(folder: Path, kinds: list[str]) -> dict[str, Path]:
    homes = {kind: folder / kind for kind in kinds}
    for kind, home in homes.items():
        Repository(home).begin(kind)
    return homes


@contextmanager
def on_disk(prepared: Path, place: str) -> Iterator[tuple[Repository, str]]:
    """A copy of a repository, and where its branch is."""
    home = Path(place) / "home"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(prepared, home, symlinks=True)
    os.environ["HOME"] = str(home)
    repository = Repository(home)
    old = repository.tip
    subprocess.run(["sync", "-f", place], check=True)
    with of_boot("the one before"):
        yield repository, old


def of_boot(name: str) -> Any:
    """A machine that lost its power has started anew. This one has not."""
    return patch.object(own_locks, "boot", lambda: name)


def check_after_cut(repository: Repository, old: str, heard: list[Any]) -> None:
    repository.check(old, [each for each in heard if each != "saved"])
    with of_boot("the next"):
        repository.check_later()


def pause(home: Path, report: Report) -> None:
    code, said = run(home, "resume", "api", words=WORDS, report=report)
    if code or "Committed " not in said:
        report({"failed": said})


def cut_again_and_again(cuts: int, seed: int, image: str, place: str) -> dict[str, int]:
    os.environ["XDG_CACHE_HOME"] = f"{os.path.dirname(image)}/cache"
    homes = prepared(Path(image).parent / "prepared", KINDS[:cuts])
    counted: Counter[str] = Counter()
    to_save, to_commit = 0.3, 0.3  # seconds, as long as nothing else is known
    for life in range(cuts):
        random = Random(f"{seed}/{life}/pause")
        kind, moment = KINDS[life % len(KINDS)], life % 4
        with on_disk(homes[kind], place) as (repository, old):
            begun = time.monotonic()
            with Child(partial(pause, repository.home)) as child:
                heard: list[Any] = child.at_least(1) if moment > 0 else []
                if heard:
                    to_save = time.monotonic() - begun
                if moment == 3:
                    while len(heard) < 2:
                        heard += child.at_least(1)
                    to_commit = time.monotonic() - begun - to_save
                    time.sleep(LATER[life // 4 % len(LATER)])
                else:
                    time.sleep(random.uniform(0, to_commit if heard else to_save))
                heard += child.heard()
                cut(place, random.choice([LOG_FLUSH, NO_LOG_FLUSH]))
                child.kill()
            power_on(image, place)
        is_locked = any(name.endswith(".lock") for name in repository.locks())
        counted.update({"cuts": 1, "told": len({*heard} - {"saved"}), "with locks": is_locked})
        try:
            counted["moved"] += repository.tip != old
            check_after_cut(repository, old, heard)
        except BaseException as error:
            error.add_note(f"{kind}, cut {life}, at moment {moment}, after {heard}")
            raise
    return counted


def cut_at_each_call(seed: int, image: str, place: str) -> int:
    os.environ["XDG_CACHE_HOME"] = f"{os.path.dirname(image)}/cache"
    homes = prepared(Path(image).parent / "prepared", KINDS if EVERY == 1 else KINDS[:1])
    for number in count(1 + seed % EVERY, EVERY):
        kind, how = [*homes][number % len(homes)], [LOG_FLUSH, NO_LOG_FLUSH][number // len(homes) % 2]
        with on_disk(homes[kind], place) as (repository, old):
            with Child(partial(pause_and_cut, repository.home, place, number, how)) as child:
                child.wait()
                heard = child.heard()
            power_on(image, place)
        if child.status == 0:
            return (number - 1) // EVERY
        try:
            check_after_cut(repository, old, heard)
        except BaseException as error:
            error.add_note(f"{kind}, cut at call {number} with {how}, after {heard}")
            raise
    raise AssertionError("unreachable")


def pause_and_cut(home: Path, place: str, number: int, how: int, report: Report) -> None:
    def lose_power(call: object, arguments: object) -> None:
        cut(place, how)
        die()

    with ExitStack() as behind:

        def reported(what: Any) -> None:
            report(what)
            if what == "saved":
                behind.enter_context(broken(number, CALLS, lose_power))

        pause(home, reported)


# --- a new one ----------------------------------------------------------------------------------------


def make(home: Path, report: Report) -> None:
    code, said = run(home, "init", words="", report=report)
    if code or "Committed " not in said:
        report({"failed": said})


def cut_while_making(cuts: int, seed: int, image: str, place: str) -> dict[str, int]:
    os.environ["XDG_CACHE_HOME"] = f"{os.path.dirname(image)}/cache"
    counted: Counter[str] = Counter()
    took = 0.1
    for life in range(cuts):
        random = Random(f"{seed}/{life}/init")
        home = Path(place) / str(life)
        (home / "work").mkdir(parents=True)
        (home / ".gitconfig").write_text(GIT_CONFIG)
        os.environ["HOME"] = str(home)
        subprocess.run(["sync", "-f", place], check=True)
        begun = time.monotonic()
        with of_boot("the one before"), Child(partial(make, home)) as child:
            if life % 3 == 0:
                heard = child.at_least(1)
                took = time.monotonic() - begun
            else:
                time.sleep(random.uniform(0, took))
                heard = child.heard()
            cut(place, random.choice([LOG_FLUSH, NO_LOG_FLUSH]))
            child.kill()
        power_on(image, place)
        repository = Repository(home)
        counted.update({"cuts": 1, "told": len(heard), "made": (repository.work / ".git").exists()})
        with of_boot("the next"):
            if heard:
                assert "[workspace] Begin" in repository.git("log")
            else:
                code, said = run(home, "init", words="")
                assert code == 0, said
            assert not (repository.work / ".git.cortext.tmp").exists()
            Cortext(home).talked("API design", "REST?", "Yes.")
            code, said = run(home, "resume", "api", words="")
            assert "Committed " in said, said
        repository.check_objects()
    return counted
