"""The programs as another user: root with the user's HOME, and a second user of a shared workspace."""

import io
import os
import subprocess
from collections.abc import Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from unittest.mock import patch

import pytest

from perdure.programs.pi import main as pi_main
from tests.crash.killing import alone
from tests.forking import import_programs
from tests.layouts import store_of
from tests.needs import needs_tool
from tests.other_users import GROUP, OTHER, ROOT, USER, act, home_of_user, modes, needs_root, owners
from tests.programs.started import MAINS

pytestmark = [pytest.mark.process, needs_root]

TALKS = {
    "soleur": (["--fresh", "--no-context"], "Should we charge?\n/decide Charge per seat\n"),
    "sibyl": ([], "Hello\n/save\n"),
    "aur": (["spawn"], "Hello\n"),
    "pi": (["-p", "--model", "offline", "Hello"], ""),
}
LAYOUTS = {"soleur": ".soleur", "sibyl": ".sibyl", "aurora": ".aurora", "pi": ".pi/agent"}


def run(
    uid: int,
    home: Path,
    name: str,
    words: Sequence[str],
    stdin: str = "",
    *,
    cwd: Path | None = None,
    code: int = 0,
) -> str:
    """Run a program of ours as a user, and return what it said on stderr."""
    said = home.parent / "said"
    said.touch()
    said.chmod(0o666)

    def work() -> None:
        os.environ["HOME"] = str(home)
        os.umask(0o002)
        with TemporaryFile("w+") as given, patch("sys.stdin", given), chdir(cwd or home):
            given.write(stdin)
            given.seek(0)
            with redirect_stdout(io.TextIOWrapper(io.BytesIO())), said.open("w") as err, redirect_stderr(err):
                ended = {**MAINS, "pi": pi_main}[name](words)
        assert ended == code, said.read_text()

    act(uid, work, GROUP)
    return said.read_text()


def test_root_with_the_users_home_takes_nothing_away():
    """Root, the user, and again: each goes on with what is there, and all of it is the user's, who can delete
    it at last."""
    alone(talk_in_turns)


def talk_in_turns() -> None:
    import_programs()  # as another user nothing may be there to be imported
    with home_of_user() as home:
        for uid in (ROOT, USER, ROOT, USER):
            for name, (words, stdin) in TALKS.items():
                assert "Not saved" not in run(uid, home, name, words, stdin)
                assert owners(home) == {(USER, USER)}
            assert run(uid, home, "pi", ["sessions", "ls", "--all"]) == ""
        for layout, folder in LAYOUTS.items():
            id = next(store_of(layout, home / folder).list()).id
            for uid, command in ((ROOT, "rm"), (ROOT, "restore"), (USER, "rm"), (USER, "restore")):
                run(uid, home, "pi", ["sessions", command, id])
        assert owners(home) == {(USER, USER)}
        assert modes(home) <= {("folder", 0o700), ("file", 0o600)}


@needs_tool("git")
def test_what_root_commits_for_the_user_is_the_users_too():
    """Through sudo, in a repository that root began and in one of the user's: its objects, its index and its
    branch. The user commits afterwards."""
    alone(commit_in_turns)


def commit_in_turns() -> None:
    import_programs()
    with home_of_user() as home:
        (home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
        space = home / "space"
        space.mkdir()
        for path in (home / ".gitconfig", space):
            os.chown(path, USER, USER)
        os.environ["SUDO_UID"] = str(USER)
        run(ROOT, home, "cortext", ["init"], cwd=space)
        for uid, title in ((ROOT, "one"), (USER, "two"), (ROOT, "three"), (USER, "four")):
            said = run(uid, home, "cortext", ["start", "brainstorm", title], "An idea\n", cwd=space)
            assert "Not committed" not in said, said
            assert owners(home) == {(USER, USER)}
        git = ["git", "-C", str(space), "-c", f"safe.directory={space}"]
        for words, answer in ((["status", "--porcelain"], b""), (["rev-list", "--count", "HEAD"], b"5\n")):
            assert subprocess.run([*git, *words], capture_output=True, check=True).stdout == answer


@needs_tool("git")
def test_root_commits_under_its_own_name_in_the_workspace_of_a_user_who_has_none():
    """As in a container, where root's home is closed to whoever owns the workspace. A name that the
    repository gives counts first."""
    alone(commit_as_root)


def commit_as_root() -> None:
    import_programs()
    with home_of_user() as place, TemporaryDirectory() as roots:
        home, space = Path(roots, "root"), place / "space"
        home.mkdir()
        (home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")
        space.mkdir()
        os.chown(space, USER, USER)
        run(ROOT, home, "cortext", ["init", str(space)], cwd=home)
        for title in ("one", "two"):
            said = run(ROOT, home, "cortext", ["start", "brainstorm", title], "An idea\n", cwd=space)
            assert "Not committed" not in said, said
            with (space / ".git/config").open("a") as file:
                file.write("[user]\n\tname = Grace\n")
        assert owners(space) == {(USER, USER)}
        words = ["log", "-2", "--format=%an %ae %cn %ce"]
        git = ["git", "-C", str(space), "-c", f"safe.directory={space}", *words]
        names = subprocess.run(git, capture_output=True, check=True, text=True).stdout.splitlines()
        assert names == [f"{name} ada@example.org {name} ada@example.org" for name in ("Grace", "Ada")]


def test_another_user_of_a_shared_workspace_is_told_at_once():
    """Whose conversation it is, which file, and what to do; nothing of it changes. They begin conversations
    of their own there, and go on with this one when session.json is theirs; no other file changes hands."""
    alone(resume_as_another)


def resume_as_another() -> None:
    import_programs()
    with home_of_user() as home:
        space, other = home.parent / "space", home.parent / "other"
        for folder, uid in ((space, USER), (other, OTHER)):
            folder.mkdir()
            os.chown(folder, uid, GROUP)
            os.chmod(folder, 0o2775)
        run(USER, home, "cortext", ["init", "--no-commit"], cwd=space)
        run(USER, home, "cortext", ["start", "brainstorm", "Topic"], "An idea\n", cwd=space)
        (state,) = space.glob("conversations/*/*/.session/session.json")
        before = {path: path.read_bytes() for path in state.parent.iterdir()}
        id = os.path.join(*state.parts[-4:-2])
        run(OTHER, other, "cortext", ["init"], cwd=space)  # without which another user's does not count
        said = run(OTHER, other, "cortext", ["resume", id], "Mine\n", cwd=space, code=1)
        assert str(state) in said
        assert "belongs to " in said
        assert "chown" in said
        assert {path: path.read_bytes() for path in state.parent.iterdir()} == before
        assert {uid for uid, _ in owners(space)} == {USER}
        run(OTHER, other, "cortext", ["start", "plan", "Theirs"], "A plan\n", cwd=space)
        os.chown(state, OTHER, GROUP)
        run(OTHER, other, "cortext", ["resume", id], "Mine\n", cwd=space)
        log = state.with_name("messages.jsonl")
        assert log.read_bytes().startswith(before[log])
        assert b"Mine" in log.read_bytes()
        assert (log.stat().st_uid, state.stat().st_uid) == (USER, OTHER)
        run(USER, home, "cortext", ["resume", id], "Again\n", cwd=space, code=1)
