"""A conversation's folder goes into git as it is, beside whatever else is going on there."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure.programs.cortext.repository import commit
from tests.programs.git_workspace import FOLDER, Workspace, template, workspace

__all__ = ["template", "workspace"]

pytestmark = pytest.mark.process


# --- what is committed ----------------------------------------------------------------------------


def test_cor_18_the_session_is_committed_with_the_conversation(workspace):
    """On the current branch, under the message that was given, and once."""
    made = workspace.commit()
    assert made == (workspace.git("rev-parse", "main").strip(), "main", "session state saved")
    assert workspace.log() == ["session state saved", "mine"]
    assert [path for path in workspace.kept() if path.startswith(FOLDER)] == [
        f"{FOLDER}/.session/messages.jsonl",
        f"{FOLDER}/.session/session.json",
        f"{FOLDER}/plan.md",
    ]
    assert workspace.git("show", f"HEAD:{FOLDER}/plan.md") == "hello\n"
    assert workspace.git("status", "--porcelain") == ""
    assert workspace.commit() is None
    assert workspace.git("log", "-1", "--format=%an %ae %cn").strip() == "Ada ada@example.org Ada"
    assert workspace.git("reflog", "-1", "--format=%gs").strip() == "cortext: session state saved"


def test_cor_19_a_session_update_is_told_apart(workspace):
    """As long as nothing else came, changed or went."""
    told = []

    def say(is_session_only: bool) -> str:
        told.append(is_session_only)
        return "x"

    def change(what: Callable[[], object]) -> None:
        what()
        assert commit(str(workspace.path), FOLDER, say)

    state, extra = workspace.folder / ".session/session.json", workspace.folder / "draft.txt"
    change(lambda: None)
    change(lambda: state.write_text("{}"))
    change(lambda: extra.write_text("draft"))
    change(lambda: (extra.write_text("done"), state.write_text("[]")))
    change(state.unlink)
    change(extra.unlink)
    assert told == [False, True, False, False, True, False]


def test_cor_18_what_else_is_staged_or_changed_stays(workspace):
    """Byte for byte, and the user's own commits, with and without -a, take theirs and keep the session."""
    (workspace.path / "staged.txt").write_text("staged\n")
    workspace.git("add", "staged.txt")
    (workspace.path / "staged.txt").write_text("staged, and changed since\n")
    workspace.git("rm", "-q", "--cached", "other.txt")
    (workspace.path / "notes.txt").write_text("changed\n")
    (workspace.path / "untracked.txt").write_text("untracked\n")
    looks = [("diff",), ("diff", "--cached", "--", "*.txt"), ("ls-files", "-s", "--debug", "*.txt")]
    before = [workspace.git(*look) for look in looks]
    assert workspace.commit()
    assert [workspace.git(*look) for look in looks] == before
    assert workspace.git("diff", "--cached", "--stat", "--", FOLDER) == ""
    assert "staged.txt" not in workspace.kept()
    workspace.git("commit", "-q", "-m", "theirs")
    assert workspace.git("show", "HEAD:staged.txt") == "staged\n"
    workspace.say_something("again")
    workspace.commit()
    workspace.git("commit", "-q", "-a", "-m", "all")
    assert workspace.git("show", f"HEAD:{FOLDER}/plan.md") == "hello\nagain\n"
    assert workspace.git("show", "HEAD:notes.txt") == "changed\n"
    assert workspace.log() == ["all", "session state saved", "theirs", "session state saved", "mine"]


NAMES = [
    b"with space.txt",
    b"two\nlines",
    b"tab\there",
    b'"quoted" and \\back',
    b"not utf-8 \xff\xfe",
    "ünïcödé 日本".encode(),
    b"? x",
    b"H 100644 0\tfake",
    b":(glob)*",
    b"deep/er/and/deeper/file",
    b".session/more/of it",
]


def test_cor_18_files_are_kept_whatever_they_are_called(workspace, tmp_path):
    """With all their bytes, as a clone shows; links as links, programs as programs."""
    top = os.fsencode(workspace.folder)
    for at, name in enumerate(NAMES):
        path = os.path.join(top, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(b"\r\n\0\xff" * at)
    (workspace.folder / "run").write_text("#!/bin/sh\n")
    (workspace.folder / "run").chmod(0o755)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (workspace.folder / "out").symlink_to(outside)
    (workspace.folder / "secret.md").symlink_to(outside / "secret")
    (workspace.folder / "nowhere").symlink_to("no/where")
    (workspace.folder / ".session" / "link").symlink_to("../plan.md")
    for at in range(70):
        (workspace.folder / f"many-{at}").write_text(str(at))
    assert workspace.commit()
    assert workspace.git("status", "--porcelain") == ""
    workspace.git("fsck", "--strict")
    workspace.git("clone", "-q", ".", str(tmp_path / "clone"))
    assert contents(tmp_path / "clone" / FOLDER) == contents(workspace.folder)
    assert "secret" not in workspace.git("grep", "-h", "secret", "HEAD", check=False).splitlines()


def contents(folder: Path) -> dict[bytes, tuple[bool, bytes]]:
    found = {}
    for where, folders, names in os.walk(os.fsencode(folder)):
        for name in [*names, *(each for each in folders if os.path.islink(os.path.join(where, each)))]:
            path = os.path.join(where, name)
            is_link = os.path.islink(path)
            data = os.readlink(path) if is_link else Path(os.fsdecode(path)).read_bytes()
            mode = is_link or bool(os.stat(path).st_mode & 0o100)
            found[os.path.relpath(path, os.fsencode(folder))] = (mode, data)
    return found


def test_cor_18_what_is_deleted_is_gone_in_the_commit(workspace):
    """A file, a folder; and what was a file and is a folder, or the other way round, is what it is now."""
    (workspace.folder / "a").write_text("file")
    (workspace.folder / "b").mkdir()
    (workspace.folder / "b" / "c").write_text("in a folder")
    (workspace.folder / "gone").mkdir()
    (workspace.folder / "gone" / "x").write_text("x")
    workspace.commit()
    (workspace.folder / "a").unlink()
    (workspace.folder / "a").mkdir()
    (workspace.folder / "a" / "d").write_text("in a folder")
    shutil.rmtree(workspace.folder / "b")
    (workspace.folder / "b").symlink_to("a")
    shutil.rmtree(workspace.folder / "gone")
    workspace.commit()
    kept = workspace.git("ls-tree", "-r", "--name-only", f"HEAD:{FOLDER}").split()
    assert kept == [".session/messages.jsonl", ".session/session.json", "a/d", "b", "plan.md"]
    assert workspace.git("status", "--porcelain") == ""


@pytest.mark.parametrize("ignored", ["*.log\n*.md\n.session/\n*.jsonl\n", "conversations/\n", "*\n"])
def test_cor_18_what_is_ignored_is_left_out_but_the_session_and_the_transcript(workspace, ignored):
    """They belong in git by their nature; and what is there already stays, ignored or not."""
    (workspace.path / ".gitignore").write_text(ignored)
    for name in ("x.log", "deep.md/x.log", "deep.md/y.log"):
        (workspace.folder / name).parent.mkdir(exist_ok=True)
        (workspace.folder / name).write_text("ignored")
    workspace.git("add", "-f", f"{FOLDER}/deep.md/y.log")
    workspace.commit()
    kept = workspace.git("ls-tree", "-r", "--name-only", f"HEAD:{FOLDER}").split()
    assert kept == [".session/messages.jsonl", ".session/session.json", "deep.md/y.log", "plan.md"]


def test_cor_18_another_repository_in_the_folder_is_left_out(workspace):
    """So are pipes, and names that git has for itself on some disk. One around the session's files is no
    reason to lose those."""
    nested = workspace.folder / "cloned"
    nested.mkdir()
    workspace.git("init", "-q", str(nested))
    (nested / "file").write_text("theirs")
    workspace.git("init", "-q", str(workspace.folder / ".session" / "cloned"))
    os.mkfifo(workspace.folder / "pipe")
    os.mkfifo(workspace.folder / ".session" / "pipe")
    for name in ("git~1", ".GIT", ".g\u200cit", ".git ", "x\\.git"):
        (workspace.folder / ".session" / name).write_text("no")
    (workspace.folder / ".gitmodules").symlink_to("plan.md")
    workspace.commit()
    expected = [".session/messages.jsonl", ".session/session.json", "plan.md"]
    assert workspace.git("ls-tree", "-r", "--name-only", f"HEAD:{FOLDER}").split() == expected
    workspace.git("fsck", "--strict")
    workspace.git("init", "-q", str(workspace.folder))
    workspace.say_something("again")
    workspace.commit()
    workspace.git("commit", "-q", "-a", "--allow-empty", "-m", "all")
    assert workspace.git("ls-tree", "-r", "--name-only", f"HEAD:{FOLDER}").split() == expected
    assert workspace.git("show", f"HEAD:{FOLDER}/plan.md") == "hello\nagain\n"


# --- where ----------------------------------------------------------------------------------------


def detached(workspace: Workspace) -> Workspace:
    workspace.git("checkout", "-q", "--detach")
    return workspace


def unborn(workspace: Workspace) -> Workspace:
    workspace.git("checkout", "-q", "--orphan", "new")
    return workspace


def sha256(workspace: Workspace) -> Workspace:
    shutil.rmtree(workspace.path / ".git")
    workspace.git("init", "-q", "-b", "main", "--object-format=sha256")
    workspace.identify()
    return workspace


def split_index(workspace: Workspace) -> Workspace:
    workspace.git("update-index", "--split-index")
    return workspace


def compact_index(workspace: Workspace) -> Workspace:
    workspace.git("update-index", "--index-version", "4")
    return workspace


def sparse(workspace: Workspace) -> Workspace:
    """Of which the conversations are not."""
    (workspace.path / "src").mkdir()
    (workspace.path / "src" / "x").write_text("x")
    workspace.git("add", ".")
    workspace.git("commit", "-q", "-m", "x")
    workspace.git("sparse-checkout", "set", "--cone", "--sparse-index", "src")
    assert not workspace.folder.exists()
    workspace.folder.mkdir(parents=True)
    (workspace.folder / "plan.md").write_text("hello\n")
    (workspace.folder / ".session").mkdir()
    (workspace.folder / ".session" / "new").write_text("new")
    return workspace


def worktree(workspace: Workspace) -> Workspace:
    other = workspace.path.parent / "other tree"
    workspace.git("worktree", "add", "-q", "-b", "side", str(other))
    made = Workspace(other)
    made.say_something()
    return made


def submodule(workspace: Workspace) -> Workspace:
    above = Workspace(workspace.path.parent / "above")
    above.path.mkdir()
    above.git("init", "-q")
    above.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(workspace.path), "ws")
    made = Workspace(above.path / "ws")
    made.identify()
    made.say_something()
    return made


def subfolder(workspace: Workspace) -> Workspace:
    below = workspace.path / "my notes\n[a]*"
    below.mkdir()
    made = Workspace(below, workspace.path)
    made.say_something()
    return made


def a_file_was_there(workspace: Workspace) -> Workspace:
    """Where the folder of all conversations is."""
    shutil.rmtree(workspace.path / "conversations")
    (workspace.path / "conversations").write_text("a file")
    workspace.git("add", ".")
    workspace.git("commit", "-q", "-m", "a file")
    (workspace.path / "conversations").unlink()
    workspace.say_something()
    return workspace


PLACES = [
    *(detached, unborn, sha256, split_index, compact_index, sparse, worktree, submodule, subfolder),
    a_file_was_there,
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_cor_18_it_is_committed_wherever_the_workspace_is(workspace, place):
    """And the user's next commit keeps it, beside all that there was before."""
    workspace = place(workspace)
    before = {*workspace.git("ls-files", "-z").split("\0")[:-1]} - {"conversations"}
    prefix = "" if workspace.top == workspace.path else f"{workspace.path.name}/"
    branch = workspace.git("branch", "--show-current").strip()
    made = workspace.commit()
    assert made is not None
    assert made.id == workspace.git("rev-parse", "HEAD").strip()
    assert made.branch == branch
    assert workspace.git("show", f"HEAD:{prefix}{FOLDER}/plan.md") == "hello\n"
    workspace.git("commit", "-q", "--allow-empty", "-m", "theirs")
    assert {*workspace.kept()} >= {f"{prefix}{FOLDER}/plan.md", *before}
    assert workspace.commit() is None
    workspace.git("fsck", "--strict")


def test_cor_18_what_a_sparse_checkout_does_not_have_on_disk_is_not_deleted(workspace):
    """Only what is there can have changed."""
    workspace.commit()
    workspace = sparse(workspace)
    workspace.commit()
    kept = workspace.git("ls-tree", "-r", "--name-only", f"HEAD:{FOLDER}").split()
    assert kept == [".session/messages.jsonl", ".session/new", ".session/session.json", "plan.md"]
