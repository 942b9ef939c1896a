"""What a folder brings is read from the folder itself: no link leads to another file of the user's."""

import os
import subprocess
import threading
from functools import partial

import pytest

from perdure.agent import prompt
from perdure.agent.equipment import Equipment
from perdure.agent.reading import LeadsOut, bytes_of, text_in, users_text
from perdure.agent.settings import Settings
from perdure.errors import Unreadable
from perdure.programs.cortext.workspace import Workspace
from perdure.programs.soleur import attached

SECRET = "-----BEGIN OPENSSH PRIVATE KEY-----"


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "private" / "id_rsa"
    path.parent.mkdir()
    path.write_text(SECRET)
    return path


@pytest.fixture
def folder(tmp_path):
    """In no repository."""
    folder = tmp_path / "project"
    (folder / "docs").mkdir(parents=True)
    (folder / "docs" / "agents.txt").write_text("of the folder")
    return folder


@pytest.fixture
def repository(folder):
    make_repository(folder)
    (folder / "sub").mkdir()
    return folder


def make_repository(folder):
    """All that tells one."""
    (folder / ".git" / "objects").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".git" / "config").write_text(SECRET)


def told(cwd, home, notices=None):
    found = prompt.project_files(str(cwd), str(home), notice=[].append if notices is None else notices.append)
    return [text for _, text in found]


LEADING_OUT = {
    "the file itself": lambda at, secret: (at / "AGENTS.md").symlink_to(secret),
    "a relative way": lambda at, secret: (at / "AGENTS.md").symlink_to(os.path.relpath(secret, at)),
    "a link to a link": lambda at, secret: [
        (at / "near").symlink_to(secret),
        (at / "AGENTS.md").symlink_to("near"),
    ],
    "a linked folder": lambda at, secret: [
        (at / "near").symlink_to(secret.parent),
        (at / "AGENTS.md").symlink_to(f"near/{secret.name}"),
    ],
    "a way in and out": lambda at, secret: (at / "AGENTS.md").symlink_to(f"docs/../../private/{secret.name}"),
    "a process's files": lambda at, secret: (at / "AGENTS.md").symlink_to("/proc/self/environ"),
}


@pytest.mark.parametrize("kind", LEADING_OUT)
@pytest.mark.parametrize("name", prompt.NAMES)
def test_g_10_instructions_that_are_a_link_out_of_the_folder_are_not_read_and_named_once(
    repository, home, secret, kind, name
):
    """In a repository and in a folder of it."""
    LEADING_OUT[kind](repository, secret)
    (repository / "AGENTS.md").rename(repository / name)
    notices: list[str] = []
    assert told(repository / "sub", home, notices) == []
    (notice,) = notices
    assert notice.startswith(f"{repository / name} is left out: ")
    assert "a link that leads out" in notice


def test_g_10_a_link_inside_the_repository_is_followed(repository, home):
    """One file for all agents, under two names, also from a folder further down."""
    (repository / "AGENTS.md").symlink_to("docs/agents.txt")
    (repository / "docs" / "more.txt").write_text("more")
    (repository / "sub" / "CLAUDE.md").symlink_to("../docs/more.txt")
    notices: list[str] = []
    assert told(repository / "sub", home, notices) == ["of the folder", "more"]
    assert notices == []


@pytest.mark.process
def test_g_10_a_link_in_a_working_tree_ends_at_that_tree(folder, home):
    """The main one is another folder."""
    repository = folder
    run = partial(subprocess.run, check=True, cwd=repository, capture_output=True)
    run(["git", "init", "-q"])
    (repository / "kept").write_text("kept")
    run(["git", "add", "kept"])
    run(["git", "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x"])
    tree = repository.parent / "tree"
    run(["git", "worktree", "add", "-q", str(tree)])
    (tree / "AGENTS.md").symlink_to("kept")
    assert told(tree, home) == ["kept"]
    (tree / "AGENTS.md").unlink()
    (tree / "AGENTS.md").symlink_to(repository / "docs" / "agents.txt")
    assert told(tree, home) == []


def test_g_10_no_link_leads_into_the_repository_s_own_files(repository, home):
    """Its configuration may hold passwords; also by another case of the name, where that is the same."""
    for target in (".git/config", "docs/../.git/config", ".GIT/config"):
        (repository / "AGENTS.md").unlink(missing_ok=True)
        (repository / "AGENTS.md").symlink_to(target)
        assert told(repository, home) == []


def test_g_10_outside_of_a_repository_a_link_ends_at_its_folder(folder, home):
    """Also that of a folder above, which is a folder of its own; what was read already is no news."""
    (folder / "AGENTS.md").symlink_to("docs/agents.txt")
    (folder / "docs" / "CLAUDE.md").symlink_to("../../elsewhere")
    (folder.parent / "elsewhere").write_text("another folder's")
    notices: list[str] = []
    assert told(folder / "docs", home, notices) == ["of the folder"]
    (notice,) = notices
    assert "CLAUDE.md" in notice
    (folder / "docs" / "CLAUDE.md").unlink()
    (folder / "docs" / "CLAUDE.md").symlink_to("../AGENTS.md")
    assert told(folder / "docs", home, notices) == ["of the folder"]
    assert len(notices) == 1


def test_a_home_that_is_a_repository_opens_none_of_it_to_a_folder(home):
    """Who keeps settings in git has a repository around all they have."""
    make_repository(home)
    (home / "download").mkdir()
    (home / "key").write_text(SECRET)
    (home / "download" / "AGENTS.md").symlink_to("../key")
    assert told(home / "download", home) == []


def test_nor_does_a_repository_around_the_home(tmp_path, monkeypatch):
    """As one of a whole machine is; seen from a folder beside the home."""
    make_repository(tmp_path)
    home, beside = tmp_path / "home", tmp_path / "home-beside"
    home.mkdir()
    beside.mkdir()
    monkeypatch.setenv("HOME", str(home))
    (home / "key").write_text(SECRET)
    (beside / "AGENTS.md").symlink_to(home / "key")
    assert told(beside, home) == []


def test_the_user_s_own_instructions_may_be_links_to_anywhere(folder, home, tmp_path):
    """As those of people are who keep such files in one place."""
    kept = tmp_path / "dotfiles"
    kept.mkdir()
    (home / ".pi" / "agent").mkdir(parents=True)
    for number, at in enumerate((home / ".pi" / "agent", home)):
        (kept / str(number)).write_text(f"rule {number}")
        (at / "AGENTS.md").symlink_to(kept / str(number))
    notices: list[str] = []
    assert told(folder, home, notices) == ["rule 0", "rule 1"]
    assert notices == []


def test_g_10_a_link_that_is_swapped_while_it_is_read_never_leads_out(repository, secret):
    """Between the look and the reading a folder and a file become links, over and over."""
    inside, name = repository / "inside", repository / "AGENTS.md"
    for each in (repository / "real", repository / "fake"):
        each.mkdir()
    (repository / "real" / "id_rsa").write_text("good")
    name.symlink_to("inside/id_rsa")
    is_over = threading.Event()

    def swap() -> None:
        for at in range(10**9):
            if is_over.is_set():
                return
            new = repository / "new"
            new.symlink_to(secret.parent if at % 2 else repository / "real")
            os.replace(new, inside)

    swapper = threading.Thread(target=swap)
    swapper.start()
    seen = set()
    try:
        for _ in range(1500):
            try:
                seen.add(text_in(str(repository), str(name), 100).text)
            except OSError as error:
                seen.add(type(error).__name__)
    finally:
        is_over.set()
        swapper.join()
    assert SECRET not in seen
    assert {"good", LeadsOut.__name__} <= seen


def test_g_10_templates_and_skills_of_a_trusted_folder_do_not_lead_out_of_it(repository, home, secret):
    """A yes was for the folder: what its links lead to later nobody has seen. Those inside it count."""
    secret.write_text(f"---\ndescription: {SECRET}\n---\nx")
    (repository / "docs" / "near.md").write_text("---\ndescription: near\n---\nnear")
    own = repository / ".pi"
    for at in ("prompts", "skills/far", "skills/near"):
        (own / at).mkdir(parents=True)
    (own / "prompts" / "far.md").symlink_to(secret)
    (own / "prompts" / "near.md").symlink_to("../../docs/near.md")
    (own / "skills" / "far" / "SKILL.md").symlink_to(secret)
    (own / "skills" / "near" / "SKILL.md").symlink_to("../../../docs/near.md")
    (own / "skills" / "folder").symlink_to(secret.parent)
    secret.with_name("SKILL.md").write_text(secret.read_text())
    notices: list[str] = []
    found = Equipment(Settings(), str(repository), project=str(repository), notice=notices.append)
    assert {"near", "skill:near"} <= found.commands.keys()
    assert {"far", "skill:far", "skill:folder", "skill:private"}.isdisjoint(found.commands)
    assert SECRET not in "".join(found.prompts(["read"]))
    assert len([each for each in notices if "a link that leads out" in each]) == 3


def test_g_10_a_skill_that_becomes_a_link_is_not_said(repository, home, secret):
    """When it is asked for it is looked at again."""
    skill = repository / ".pi" / "skills" / "own" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: own\ndescription: own\n---\ntext")
    found = Equipment(Settings(), str(repository), project=str(repository), notice=lambda _: None)
    run = found.commands["skill:own"].run
    assert "text" in run("", None)  # type: ignore[arg-type]
    skill.unlink()
    skill.symlink_to(secret)
    with pytest.raises(Exception, match="a link that leads out"):
        run("", None)  # type: ignore[arg-type]


def test_cor_02_the_settings_of_a_workspace_do_not_lead_out_of_it(folder, secret):
    """Those of another program could look like some."""
    secret.write_text('{"default_model": "secret"}')
    (folder / ".workspace").mkdir()
    (folder / ".workspace" / "registry.json").symlink_to(secret)
    with pytest.raises(Unreadable, match="a link that leads out"):
        Workspace(str(folder)).settings()


def test_what_the_user_names_may_be_anywhere(folder, secret):
    """A link by its name is what they chose."""
    (folder / "notes.md").symlink_to(secret)
    assert attached.read("notes.md", str(folder), []).content == SECRET
    assert bytes_of(str(folder / "notes.md"), 100)[0].decode() == SECRET
    assert users_text(str(folder / "notes.md"), 100).text == SECRET
