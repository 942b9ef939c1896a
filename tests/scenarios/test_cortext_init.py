"""cortext, from outside: a workspace, where its conversations begin, and its repository (COR-18, COR-20)."""

import json
import os
import subprocess

import pytest

from perdure.config import LONGEST_PATH
from tests.agent.models.wire_server import wire_server
from tests.effort import some
from tests.front.terminal import Terminal
from tests.processes import Popen
from tests.programs.started import first_on_path
from tests.programs.workspaces import cortext

__all__ = ["cortext", "wire_server"]

pytestmark = pytest.mark.process


def test_cor_20_init_with_an_empty_name_makes_nothing(cortext):
    """It names no folder, and so not this one."""
    folder = cortext.home / "other"
    folder.mkdir()
    cortext.project = folder
    done = cortext.within("init", "")
    assert (done.code, done.out) == (2, "")
    assert "A folder needs a name" in done.err
    assert [*folder.iterdir()] == []


def test_cor_20_init_in_a_folder_that_is_too_deep_names_it(cortext, tmp_path, monkeypatch):
    """And makes nothing: no call of the system takes its path."""
    monkeypatch.chdir(tmp_path)
    for _ in range(LONGEST_PATH // 200 + 1):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
    done = subprocess.run([*cortext.command, "init"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
    assert str(tmp_path)[:40] in done.stderr
    assert "None" not in done.stderr
    assert os.listdir() == []


def test_cor_20_a_types_folder_in_the_registry_is_where_its_conversations_begin(cortext, wire_server):
    """In a folder for the day, numbered with all others of that day; they are resumed and committed there. A
    folder that leads out of the workspace is not used."""
    cortext.answers(wire_server, "Yes.")
    path = cortext.project / ".workspace" / "registry.json"
    registry = json.loads(path.read_text())
    registry["conversation_types"]["plan"]["folder"] = "notes/plans"
    registry["conversation_types"]["debug"]["folder"] = "../outside"
    path.write_text(json.dumps(registry))
    refused = "registry.json: '../outside' is not used as the folder of debug"
    for kind, title in (("plan", "Ship"), ("debug", "Token"), ("plan", "Sell")):
        done = cortext.within("start", kind, title, stdin="Well?\n")
        assert "Committed" in done.err
        assert (refused in done.err) == (kind == "debug")
    assert refused in cortext.within(stdin="/workspace.debug Nothing\n").err
    day = cortext.refs[0].id.partition("/")[0]
    assert [(ref.id, ref.path.removeprefix(f"{cortext.project}/")) for ref in cortext.refs] == [
        (f"{day}/{name}", f"{folder}/{day}/{name}/.session/messages.jsonl")
        for folder, name in (
            ("notes/plans", "001-plan-ship"),
            ("conversations", "002-debug-token"),
            ("notes/plans", "003-plan-sell"),
        )
    ]
    assert not (cortext.home / "outside").exists()
    assert cortext.git("status", "--porcelain", "--", "notes", "conversations") == ""
    assert cortext.within("resume", "ship").out.startswith('[Resuming "Ship"]')


# --- the repository ---------------------------------------------------------------------------------------


def test_cor_20_init_in_a_new_repository_commits_the_workspace(cortext):
    """And in it what init wrote, no more; the user's index and tree are clean then."""
    folder = cortext.home / "fresh"
    cortext.project = folder
    folder.mkdir()
    (folder / "mine.txt").write_text("not yet added")
    done = cortext.within("init")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[1:3] == [
        "Made a git repository there, for conversations to be committed to.",
        "Committed .workspace/ to it on main.",
    ]
    assert cortext.git("log", "--format=%s") == "[workspace] Begin\n"
    assert cortext.git("status", "--porcelain") == "?? mine.txt\n"
    assert ".workspace/registry.json" in cortext.git("ls-files").splitlines()
    assert all(name.startswith(".workspace/") for name in cortext.git("ls-files").splitlines())


@pytest.mark.long
def test_cor_20_of_inits_at_once_one_makes_the_workspace_and_its_repository(cortext):
    """The others wait for it, find both, and end as well."""
    for number in range(some(8, everything=100)):
        cortext.project = cortext.home / f"fresh{number}"
        cortext.project.mkdir()
        at_once = [
            Popen(
                [*cortext.command, "init"],
                cwd=cortext.project,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for _ in range(3)
        ]
        heard = [process.communicate(timeout=60) for process in at_once]
        assert [process.returncode for process in at_once] == [0, 0, 0], heard
        assert [err for _, err in heard] == [b"", b"", b""]
        for word in (b"Made a git repository", b"Committed .workspace/", b"Begin with:"):
            assert sum(word in out for out, _ in heard) == 1, heard
        assert sorted(os.listdir(cortext.project)) == [".git", ".workspace"]
        assert cortext.git("log", "--format=%s") == "[workspace] Begin\n"
        assert cortext.git("status", "--porcelain") == ""
        assert cortext.git("fsck", "--strict") == ""


def damage(folder):
    """As two that made it at once left it."""
    (folder / "objects").mkdir(parents=True)


def lead_nowhere(path):
    """As a working tree whose repository was removed."""
    path.write_text("gitdir: /nowhere/.git\n")


def link_nowhere(path):
    path.symlink_to("/nowhere/.git")


@pytest.mark.parametrize("make", [damage, lead_nowhere, link_nowhere])
def test_cor_20_init_names_a_repository_that_git_does_not_take_for_one(cortext, make):
    """Each time, and leaves it as it is; when it is out of the way, the next one makes another."""
    cortext.project = cortext.home / "fresh"
    cortext.project.mkdir()
    make(cortext.project / ".git")
    for _ in range(2):
        done = cortext.within("init")
        assert done.code == 0
        assert "~/fresh/.git" in done.err
        assert "move it away" in done.err
        assert "Made a git repository" not in done.out
    (cortext.project / ".git").rename(cortext.home / "away")
    done = cortext.within("init")
    assert (done.code, done.err) == (0, "")
    assert cortext.git("log", "--format=%s") == "[workspace] Begin\n"
    assert sorted(os.listdir(cortext.project)) == [".git", ".workspace"]


def test_cor_20_init_removes_what_a_killed_one_did_not_finish(cortext):
    """Also where the repository has got its name already."""
    (cortext.project / ".git.cortext.tmp").mkdir()
    done = cortext.within("init")
    assert (done.code, done.err) == (0, "")
    assert sorted(os.listdir(cortext.project)) == [".git", ".workspace"]


def test_cor_20_init_where_git_does_not_know_its_user_says_so_and_makes_the_workspace(cortext):
    """The repository is there, with nothing in it."""
    (cortext.home / ".gitconfig").write_text(
        "[user]\n\tuseConfigOnly = true\n[init]\n\tdefaultBranch = main\n"
    )
    folder = cortext.home / "fresh"
    folder.mkdir()
    cortext.project = folder
    done = cortext.within("init")
    assert done.code == 0
    assert "Not committed: git does not know who you are" in done.err
    assert cortext.git("status", "--porcelain") == "?? .workspace/\n"


def test_cor_18_init_in_a_repository_names_its_branch_the_switch_and_what_to_add(cortext):
    """It commits and stages nothing there; the command that it prints is one."""
    folder = cortext.home / "mine"
    (folder / "deep").mkdir(parents=True)
    cortext.project = folder
    cortext.git("init", "-q", "-b", "trunk")
    done = cortext.within("init", "deep")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[1:3] == [
        'Pauses commit conversations to branch trunk of ~/mine; `"commit": false` in '
        ".workspace/registry.json or --no-commit turns that off.",
        f"To commit the workspace, too: git -C {folder}/deep add .workspace",
    ]
    assert cortext.git("status", "--porcelain") == "?? deep/\n"
    cortext.git(*done.out.splitlines()[2].partition(": git ")[2].split())
    assert "A  deep/.workspace/registry.json" in cortext.git("status", "--porcelain").splitlines()
    assert "HEAD" not in cortext.git("branch", "--list")
    cortext.git("commit", "-qm", "mine")
    cortext.git("checkout", "-q", "--detach")
    (folder / "other").mkdir()
    assert "to no branch, as HEAD is detached, of ~/mine;" in cortext.within("init", "other").out


def test_g_5_the_commands_that_init_prints_can_be_copied_from_a_narrow_terminal(cortext, monkeypatch):
    """No line break is put into one."""
    monkeypatch.setenv("PATH", first_on_path())
    cortext.project = cortext.home
    cortext.git("init", "-q")
    folder = cortext.home / "a folder of its own"
    with Terminal(*cortext.command, "init", folder.name, cwd=cortext.home, columns=40) as terminal:
        assert terminal.wait() == 0
        lines = terminal.raw.decode().split("\r\n")
    assert f"To commit the workspace, too: git -C '{folder}' add .workspace" in lines
    assert f"  cd '{folder}'" in lines
    assert "  cortext start brainstorm What to build first" in lines


@pytest.mark.parametrize("how", ["option", "registry", "init", "init --no-commit there"])
def test_cor_18_where_commits_are_switched_off_conversations_are_only_saved(cortext, wire_server, how):
    """By an option for this run, or by the registry, which needs no trust for that. What looks like a secret
    is not asked about: it is not committed."""
    cortext.answers(wire_server, "Yes.")
    if how.startswith("init "):
        assert cortext.within("init", "--no-commit").out.splitlines() == [
            "~/work is a workspace already.",
            "Conversations are saved, and not committed: `commit` is off in .workspace/registry.json.",
        ]
        assert cortext.within("init", "--no-commit").out.endswith("already; nothing was changed.\n")
    elif how == "init":
        folder = cortext.home / "fresh"
        folder.mkdir()
        cortext.project = folder
        assert "and not committed: `commit` is off" in cortext.within("init", "--no-commit").out
        assert not (folder / ".git").exists()
        cortext.git("init", "-q")
    elif how == "registry":
        path = cortext.project / ".workspace" / "registry.json"
        path.write_text(path.read_text().replace('"commit": true', '"commit": false'))
    option = ["--no-commit"] if how == "option" else []
    why = "--no-commit was given" if option else "`commit` is off in .workspace/registry.json"
    secret = f"My key is AKIA{'Q3EGR7KJ2LMN5PST'}."
    for words in (["start", "plan", "Ship"], ["resume", "ship"]):
        done = cortext.within(*words, *option, stdin=f"{secret}\n/workspace.stop-conversation\n")
        assert (done.code, done.err) == (0, f"Saved, and not committed: {why}.\n")
    assert cortext.subjects == []
    assert cortext.state()["status"] == "paused"
    done = cortext.within(*option, stdin="/workspace.resume ship\n")
    assert f"Saved, and not committed: {why}." in done.err


def test_cor_18_where_commits_are_switched_off_init_makes_no_repository(cortext):
    """Nor does the next one, which is not told again."""
    folder = cortext.home / "fresh"
    folder.mkdir()
    cortext.project = folder
    cortext.within("init", "--no-commit")
    assert cortext.within("init").out == "~/fresh is a workspace already; nothing was changed.\n"
    assert not (folder / ".git").exists()


def test_cor_18_the_switch_changes_nothing_else_in_the_registry(cortext):
    """Numbers that Python cannot hold included, and what init does not know."""
    path = cortext.project / ".workspace" / "registry.json"
    path.write_text('\ufeff{"x": 1e400, "y": {"a" : 1.10},\n"commit" :true}')
    assert cortext.within("init", "--no-commit").code == 0
    assert path.read_text() == '{\n  "x": 1e400,\n  "y": {"a" : 1.10},\n  "commit": false\n}\n'


def test_cor_20_init_says_where_git_ignores_the_workspace(cortext):
    """As the user's own rules may have it: then nothing was committed."""
    rules = cortext.home / ".config" / "git" / "ignore"
    rules.parent.mkdir(parents=True)
    rules.write_text(".workspace\n")
    folder = cortext.home / "fresh"
    folder.mkdir()
    cortext.project = folder
    shown = cortext.within("init").out
    assert "Git ignores .workspace/, so it was not committed" in shown
    assert "Committed" not in shown


def test_cor_18_a_switch_that_is_neither_on_nor_off_is_an_error(cortext):
    """Nothing is committed that somebody may have meant to keep to themselves."""
    path = cortext.project / ".workspace" / "registry.json"
    path.write_text(path.read_text().replace('"commit": true', '"commit": "no"'))
    done = cortext.within("start", "plan", "Ship", stdin="Well?\n")
    assert done.code == 1
    assert "commit is not true or false" in done.err


def test_cor_18_the_offline_model_does_not_find_the_conversation_that_it_is_asked_in(cortext):
    """Nor its transcript; other conversations and all other files it does."""
    (cortext.project / "notes.md").write_text("A flumphery is a small bird.\n")
    other = cortext.talked("Birds", "What is a flumphery?", "A bird.")
    done = cortext.within(
        "start", "plan", "Flumphery", stdin='find "flumphery"\nfind files named *flumphery*\n'
    )
    assert done.code == 0
    own, found = cortext.refs[-1], done.out
    assert "`notes.md`" in found
    assert f"`conversations/{other.id}/.session/messages.jsonl`" in found
    assert f"conversations/{own.id}/" not in found
    assert "No file has a name that matches `*flumphery*`." in found
    done = cortext.within("resume", "flumphery", stdin='find "flumphery"\n')
    assert f"conversations/{own.id}/" not in done.out.partition("plan> ")[2]
