"""A workspace in a real repository, and a git that does something of its own at a chosen step."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from perdure.programs.cortext.repository import Commit, NotCommitted, commit

FOLDER = "conversations/2026-11-17/001-plan-x"
GIT = shutil.which("git") or "git"


class Workspace:
    """`top` is the top of its working tree."""

    def __init__(self, path: Path, top: Path | None = None) -> None:
        self.path, self.top = path, top or path
        self.folder = path / FOLDER

    def git(self, *words: str, check: bool = True) -> str:
        run = subprocess.run(
            [GIT, "-C", str(self.top), *words], capture_output=True, check=check, stdin=subprocess.DEVNULL
        )
        return os.fsdecode(run.stdout)

    def identify(self) -> None:
        self.git("config", "user.name", "Ada")
        self.git("config", "user.email", "ada@example.org")

    def say_something(self, text: str = "hello", folder: str = FOLDER) -> None:
        """As the store saves it: a message, its state, and the readable transcript."""
        where = self.path / folder
        (where / ".session").mkdir(parents=True, exist_ok=True)
        for name in (".session/messages.jsonl", "plan.md"):
            with (where / name).open("a") as file:
                file.write(f"{text}\n")
        (where / ".session/session.json").write_text(f'{{"last": "{text}"}}\n')

    def commit(self, folder: str = FOLDER, wait: float = 10.0) -> Commit | None:
        return commit(str(self.path), folder, said, wait=wait)

    def kept(self, at: str = "HEAD") -> list[str]:
        """All paths of a commit."""
        return self.git("ls-tree", "-r", "-z", "--name-only", "--full-tree", at).split("\0")[:-1]

    def log(self) -> list[str]:
        return self.git("log", "--format=%s").splitlines()

    def state(self) -> list[str]:
        """All that a failed commit leaves alone: where the branch is, what is staged, and what git sees."""
        looks = [
            ("ls-files", "-s", "-z"),
            ("--no-optional-locks", "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all"),
        ]
        return [self.git(*look, check=False) for look in looks]


def said(is_session_only: bool) -> str:
    return "session update" if is_session_only else "session state saved"


def stand_in(folder: Path, monkeypatch, script: str) -> Path:
    """A git first on the PATH that runs this in a shell before it is git. `$step` is the command it is called
    with; `real` runs git and goes on."""
    folder.mkdir(exist_ok=True)
    program = folder / "git"
    program.write_text(
        f'#!/bin/sh\nhere={folder}\nreal() {{ {GIT} "$@"; }}\n'
        "step=; skip=\nfor word; do\n"
        '  if [ -n "$skip" ]; then skip=; elif [ "$word" = -c ]; then skip=1\n'
        '  elif [ "$word" != --no-pager ]; then step=$word; break; fi\ndone\n'
        f'{script}\nexec {GIT} "$@"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return program


@pytest.fixture(scope="module")
def template(tmp_path_factory) -> Path:
    """A repository with one commit, made once."""
    workspace = Workspace(tmp_path_factory.mktemp("template") / "ws")
    (workspace.path / ".workspace").mkdir(parents=True)
    (workspace.path / "notes.txt").write_text("notes\n")
    (workspace.path / "other.txt").write_text("other\n")
    workspace.git("init", "-q", "-b", "main", "--template=")
    workspace.identify()
    workspace.git("add", ".")
    workspace.git("commit", "-q", "-m", "mine")
    return workspace.path


@pytest.fixture
def workspace(template, tmp_path) -> Workspace:
    """With a conversation that is not in git yet."""
    shutil.copytree(template, tmp_path / "ws", symlinks=True)
    made = Workspace(tmp_path / "ws")
    made.say_something()
    return made


def not_committed(workspace: Workspace, **options) -> NotCommitted:
    """The reason; and that nothing changed."""
    before = workspace.state()
    with pytest.raises(NotCommitted) as raised:
        workspace.commit(**options)
    assert workspace.state() == before
    assert raised.value.hint
    assert "\n" not in raised.value.said
    return raised.value
