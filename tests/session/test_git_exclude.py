"""What is ours in a workspace stays out of git, by the repository's own list, without running git."""

import os
import subprocess
from pathlib import Path

import pytest

from perdure.session.git_exclude import keep_out
from perdure.session.stores import Header
from perdure.session.stores.cortext_folder import CortextStore
from perdure.testing import user_entry
from tests.needs import needs_tool

NAMES = [".workspace/locks", ".workspace/trash"]
LINES = ["/.workspace/locks/", "/.workspace/trash/"]


def repository(top: Path) -> Path:
    """What git takes for one, as far as we look; returns its list."""
    for name in ("objects", "refs", "info"):
        (top / ".git" / name).mkdir(parents=True)
    (top / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (top / ".git" / "info" / "exclude").write_text("# mine\n")
    return top / ".git" / "info" / "exclude"


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_the_lines_are_added_once_behind_what_is_there(tmp_path):
    """Also where that does not end its last line."""
    exclude = repository(tmp_path)
    exclude.write_text("# mine\n*.log")
    for _ in range(3):
        keep_out(str(tmp_path), NAMES)
    assert exclude.read_text() == "# mine\n*.log\n/.workspace/locks/\n/.workspace/trash/\n"


def test_a_workspace_inside_a_repository_is_named_from_its_top(tmp_path):
    """With the characters that mean something in a pattern taken by their word."""
    exclude = repository(tmp_path)
    workspace = tmp_path / "my notes" / "[a]*"
    workspace.mkdir(parents=True)
    keep_out(str(workspace), NAMES[:1])
    assert lines_of(exclude) == ["# mine", r"/my\ notes/\[a]\*/.workspace/locks/"]


def test_where_there_is_no_list_one_is_made(tmp_path):
    """Git makes none if its template has none."""
    exclude = repository(tmp_path)
    exclude.unlink()
    exclude.parent.rmdir()
    keep_out(str(tmp_path), NAMES)
    assert lines_of(exclude) == LINES


def test_a_further_working_tree_shares_the_list_of_its_repository(tmp_path):
    """Its `.git` is a file that leads to a folder, and that one names what it shares."""
    exclude = repository(tmp_path / "main")
    own = tmp_path / "main" / ".git" / "worktrees" / "other"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n")
    other = tmp_path / "other"
    other.mkdir()
    (other / ".git").write_text(f"gitdir: {own}\n")
    keep_out(str(other), NAMES)
    assert lines_of(exclude) == ["# mine", *LINES]


def test_a_submodule_has_a_list_of_its_own(tmp_path):
    """In the repository above it, which is named from the submodule's folder on."""
    above = repository(tmp_path)
    home = tmp_path / ".git" / "modules" / "sub"
    (home / "objects").mkdir(parents=True)
    (home / "HEAD").touch()
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / ".git").write_text("gitdir: ../.git/modules/sub\n")
    keep_out(str(tmp_path / "sub"), NAMES)
    assert lines_of(home / "info" / "exclude") == LINES
    assert lines_of(above) == ["# mine"]


@pytest.mark.parametrize("what", [".git", ".git/info", ".git/info/exclude"])
def test_no_link_is_followed(tmp_path, what):
    """Whoever put it there, nothing is written where it leads."""
    repository(tmp_path / "real")
    workspace = tmp_path / "workspace"
    repository(workspace)
    victim = tmp_path / "real" / what
    before = {path: path.read_bytes() for path in (tmp_path / "real").rglob("*") if path.is_file()}
    (workspace / what).rename(tmp_path / "away")
    (workspace / what).symlink_to(victim)
    keep_out(str(workspace), NAMES)
    assert {path: path.read_bytes() for path in (tmp_path / "real").rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "text", ["", "gitdir: ", "gitdir: /", "gitdir: gone", "gitdir: .", "words", "gitdir: \0", "\xff" * 99]
)
def test_a_git_file_that_leads_to_no_repository_is_ignored(tmp_path, text):
    """Nothing is made anywhere."""
    (tmp_path / ".git").write_text(text)
    keep_out(str(tmp_path), NAMES)
    assert [path.name for path in tmp_path.iterdir()] == [".git"]


@pytest.mark.parametrize("kind", ["a folder", "a pipe", "no permission"])
def test_a_list_that_cannot_be_written_is_no_error(tmp_path, kind):
    """It is a courtesy; the conversation is made all the same."""
    exclude = repository(tmp_path)
    exclude.unlink()
    match kind:
        case "a folder":
            exclude.mkdir()
        case "a pipe":
            os.mkfifo(exclude)
        case "no permission":
            exclude.touch(0o400)
            exclude.parent.chmod(0o500)
    store = CortextStore(str(tmp_path), durability="process")
    ref = store.create(Header("2026-01-31/001-a-b", ""), [user_entry("hello")])
    exclude.parent.chmod(0o700)
    assert len(store.read(ref).entries) == 1


def test_a_store_adds_them_when_it_first_makes_such_a_folder(tmp_path):
    """And not again: if the user takes them out, they stay out."""
    exclude = repository(tmp_path)
    store = CortextStore(str(tmp_path), durability="process")
    ref = store.create(Header("2026-01-31/001-a-b", ""))
    assert lines_of(exclude) == ["# mine", *LINES]
    exclude.write_text("# mine\n")
    with store.writer(ref) as writer:
        writer.append([user_entry("hello")])
    store.delete(ref)
    assert lines_of(exclude) == ["# mine"]


def test_outside_of_a_repository_there_is_nothing_to_do(tmp_path):
    """No list is made for one that may come later."""
    CortextStore(str(tmp_path), durability="process").create(Header("2026-01-31/001-a-b", ""))
    assert {path.name for path in tmp_path.iterdir()} == {".workspace", "conversations"}


@pytest.mark.process
@needs_tool("git")
def test_git_itself_sees_the_conversations_and_nothing_of_ours(tmp_path):
    """In a repository, in a folder of it, and in a further working tree."""

    def git(*arguments: str, at: Path) -> str:
        me = ["-c", "user.name=me", "-c", "user.email=me@example.invalid"]
        command = ["git", *me, *arguments]
        return subprocess.run(command, cwd=at, check=True, capture_output=True, text=True).stdout

    main, tree = tmp_path / "main", tmp_path / "tree"
    (main / "with space").mkdir(parents=True)
    git("init", at=main)
    git("commit", "--allow-empty", "--message=first", at=main)
    git("worktree", "add", str(tree), at=main)
    for workspace in (main, main / "with space", tree):
        store = CortextStore(str(workspace), durability="process")
        store.delete(store.create(Header("2026-01-31/001-a-b", "")))
        store.create(Header("2026-01-31/002-a-b", ""))
        shown = git("status", "--porcelain", "--untracked-files=all", at=workspace)
        assert "002-a-b/.session/session.json" in shown
        assert ".workspace" not in shown
