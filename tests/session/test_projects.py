"""Which project a directory belongs to, with real repositories, working trees and submodules."""

import os
from pathlib import Path
from subprocess import run

import pytest

from perdure.session.projects import Project, project_of, root_of
from tests.needs import needs_tool

pytestmark = [pytest.mark.process, needs_tool("git")]


def git(folder: Path, *words: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    name = ["-c", "user.name=me", "-c", "user.email=me@example.com", "-c", "protocol.file.allow=always"]
    run(["git", *name, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def app(home) -> Path:
    """A repository with a commit."""
    folder = home / "work" / "app"
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "begin")
    return folder


def test_sol_08_a_project_is_the_root_of_its_repository(app):
    """From any folder below it; known by its full path, shown by its name."""
    (app / "src" / "deep").mkdir(parents=True)
    assert project_of(str(app / "src" / "deep")) == project_of(str(app)) == Project("app", str(app))


def test_sol_08_without_a_repository_a_project_is_the_directory(home):
    """Also if that is gone, or what is called .git there is none."""
    folder = home / "notes"
    (folder / ".git").mkdir(parents=True)
    assert project_of(str(folder)) == Project("notes", str(folder))
    assert root_of(str(home / "gone" / "app")) == str(home / "gone" / "app")
    (folder / ".git").rmdir()
    (folder / ".git").write_text("gitdir: /nowhere\n")
    assert root_of(str(folder)) == str(folder)


def test_sol_08_a_home_that_is_a_repository_does_not_count(home):
    """What its user keeps in git there are settings, not all their projects."""
    git(home, "init", "-q")
    (home / "app").mkdir()
    assert root_of(str(home / "app")) == str(home / "app")
    assert root_of(str(home)) == str(home)
    git(home, "commit", "-q", "--allow-empty", "-m", "begin")
    git(home, "worktree", "add", "-q", str(home / "settings"))
    assert root_of(str(home / "settings")) == str(home / "settings")


def test_sol_08_working_trees_share_the_root_of_the_main_one(app, home):
    """Of a bare repository, its folder."""
    git(app, "worktree", "add", "-q", str(home / "elsewhere"))
    (home / "elsewhere" / "src").mkdir()
    assert root_of(str(home / "elsewhere" / "src")) == str(app)
    git(home, "clone", "-q", "--bare", str(app), "bare.git")
    git(home / "bare.git", "worktree", "add", "-q", str(home / "tree"))
    assert root_of(str(home / "tree")) == str(home / "bare.git")


def test_sol_08_a_submodule_is_a_project_of_its_own(app, home):
    """It is another repository."""
    git(home / "lib", "init", "-q")
    git(home / "lib", "commit", "-q", "--allow-empty", "-m", "begin")
    git(app, "submodule", "add", "-q", str(home / "lib"), "lib")
    assert root_of(str(app / "lib")) == str(app / "lib")


def test_sol_08_a_folder_cannot_say_that_it_is_another_project(app, home):
    """A `.git` file may point anywhere; the repository must point back."""
    git(app, "worktree", "add", "-q", str(home / "tree"))
    hostile = home / "hostile"
    hostile.mkdir()
    (hostile / ".git").write_bytes((home / "tree" / ".git").read_bytes())
    assert root_of(str(hostile)) == str(hostile)
    os.mkfifo(home / "pipe")
    (hostile / ".git").write_text(f"gitdir: {home / 'pipe'}\n")
    assert root_of(str(hostile)) == str(hostile)


def test_sol_08_a_link_to_a_directory_is_that_directory(app, home):
    """There is one project, however one comes there."""
    (home / "link").symlink_to(app)
    assert root_of(str(home / "link")) == str(app)
