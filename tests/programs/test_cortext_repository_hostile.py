"""Nothing runs when a conversation is committed but git itself, whatever repository it is and whoever's."""

import subprocess
from collections.abc import Callable

import pytest

from perdure.programs.cortext.new_repository import start
from perdure.programs.cortext.repository import NotCommitted, commit, enclosing
from tests.programs.git_workspace import FOLDER, Workspace, not_committed, stand_in, template, workspace
from tests.programs.hostile_repository import Hostile

__all__ = ["template", "workspace"]

pytestmark = pytest.mark.process

FIRED_BY_ORDINARY_USE = {
    *("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-index-change"),
    *("reference-transaction", "post-checkout", "clean", "smudge", "process", "fsmonitor", "gpg", "editor"),
    *("alias", "textconv", "diff", "ssh", "credential", "remote"),
}


@pytest.fixture
def hostile(tmp_path, home) -> Hostile:
    return Hostile(tmp_path / "hostile", home, tmp_path / "traces")


def test_cor_18_nothing_of_a_hostile_repository_runs(hostile):
    """Not with the first commit of a conversation, nor with the next, nor with the start of a workspace."""
    workspace = Workspace(hostile.top)
    workspace.say_something()
    hostile.forget()
    assert workspace.commit()
    workspace.say_something("again")
    assert workspace.commit()
    assert workspace.commit() is None
    assert start(str(workspace.path)) is False
    found = enclosing(str(workspace.path))
    assert found is not None
    assert (found.top, bool(found.branch)) == (str(workspace.path), True)
    assert start(str(workspace.path.parent)) is True
    assert hostile.ran() == set()


def test_cor_18_all_of_it_runs_when_somebody_uses_git_there(hostile):
    """Otherwise the test above would prove nothing."""
    workspace = Workspace(hostile.top)
    hostile.forget()
    for text in ("once", "again"):
        workspace.say_something(text)
        hostile.git("add", f"{FOLDER}/plan.md", f"{FOLDER}/.session/session.json")
        hostile.git("-c", "commit.gpgSign=false", "commit", "-m", "theirs")
    for words in (
        ("log", "-p", "--ext-diff"),
        ("log", "-p", "--textconv"),
        ("commit", "--allow-empty", "-m", "theirs"),
        ("-c", "commit.gpgSign=false", "commit", "--allow-empty"),
        ("checkout", "HEAD~1"),
        ("evil",),
        ("fetch", "ssh://example.invalid/x"),
        ("fetch", "origin"),
        ("add", "."),
    ):
        hostile.git(*words, check=False)
    wanted = b"url=https://example.invalid\n"
    subprocess.run(
        ["git", "-C", hostile.top, "credential", "fill"], input=wanted, capture_output=True, timeout=60
    )
    assert hostile.ran() >= FIRED_BY_ORDINARY_USE


def test_cor_18_what_a_partial_clone_lacks_is_not_fetched(hostile):
    """Files beside the conversation may be missing; a tree on the way to it may not, and that is said."""
    workspace = Workspace(hostile.top)
    workspace.say_something()
    workspace.commit()
    objects = hostile.top / ".git" / "objects"

    def lose(name: str) -> None:
        id = subprocess.run(
            ["git", "-C", hostile.top, "rev-parse", name], capture_output=True, text=True, check=True
        ).stdout.strip()
        (objects / id[:2] / id[2:]).unlink()

    lose("HEAD:README.md")
    workspace.say_something("again")
    hostile.forget()
    assert workspace.commit()
    lose("HEAD:conversations")
    workspace.say_something("once more")
    with pytest.raises(NotCommitted, match="git says: "):
        workspace.commit()
    assert hostile.ran() == set()


def test_cor_18_hooks_that_are_settings_are_switched_off_by_name(workspace, tmp_path, monkeypatch):
    """Newer versions of git know them, and they are no files that could be looked for elsewhere."""
    for name in ("one", "two=and.a half"):
        workspace.git("config", f"hook.{name}.command", "touch ran")
        workspace.git("config", f"hook.{name}.event", "reference-transaction")
    bin = tmp_path / "bin"
    stand_in(bin, monkeypatch, 'env > "$here/$step"')
    assert workspace.commit()
    for step in ("update-index", "update-ref"):
        seen = dict(line.split("=", 1) for line in (bin / step).read_text().splitlines())
        keys = [seen[f"GIT_CONFIG_KEY_{at}"] for at in range(int(seen["GIT_CONFIG_COUNT"]))]
        assert keys == ["hook.one.enabled", "hook.two=and.a half.enabled"]
        assert {seen["GIT_CONFIG_VALUE_0"], seen["GIT_CONFIG_VALUE_1"]} == {"false"}
    assert not (workspace.path / "ran").exists()


def test_cor_18_a_git_that_cannot_be_silenced_is_not_used(workspace, tmp_path, monkeypatch):
    """One too old to be told any name."""
    stand_in(tmp_path / "bin", monkeypatch, "unset GIT_CONFIG_COUNT")
    assert "too old" in not_committed(workspace).message


LEADING_ASTRAY = {
    "GIT_DIR": "elsewhere.git",
    "GIT_WORK_TREE": "elsewhere",
    "GIT_INDEX_FILE": "elsewhere.index",
    "GIT_OBJECT_DIRECTORY": "elsewhere.objects",
    "GIT_CEILING_DIRECTORIES": "/",
    "GIT_NAMESPACE": "elsewhere",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "user.name",
    "GIT_CONFIG_VALUE_0": "Eve",
    "GIT_EXEC_PATH": "/nowhere",
    "GIT_TRACE": "1",
    "GIT_LITERAL_PATHSPECS": "0",
    "GIT_SSH_COMMAND": "false",
}
SECRETS = [
    "OPENAI_API_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "GITHUB_TOKEN",
    "DATABASE_URL",
    "PGPASSWORD",
    "GIT_PASSWORD",
]


def test_cor_18_the_environment_leads_nowhere_and_says_who_commits(workspace, tmp_path, monkeypatch):
    """The repository is the one around the workspace; name, address and date are the user's to say. No secret
    reaches git, and no language changes what we understand of it."""
    for name, value in LEADING_ASTRAY.items():
        monkeypatch.setenv(name, value)
    for name in SECRETS:
        monkeypatch.setenv(name, "canary-5ed1")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Grace")
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2001-02-03T04:05:06Z")
    bin = tmp_path / "bin"
    stand_in(bin, monkeypatch, 'env >> "$here/seen"')
    assert workspace.commit()
    for name in [*LEADING_ASTRAY, "GIT_AUTHOR_NAME", "GIT_AUTHOR_DATE"]:
        monkeypatch.delenv(name)
    assert workspace.git("log", "-1", "--format=%an %aI %cn").strip() == "Grace 2001-02-03T04:05:06+00:00 Ada"
    assert FOLDER in workspace.git("ls-tree", "-r", "--name-only", "HEAD")
    assert workspace.git("status", "--porcelain") == ""
    seen = (bin / "seen").read_text()
    assert "canary-5ed1" not in seen
    assert {line for line in seen.splitlines() if line.startswith("LC_ALL")} == {"LC_ALL=C"}


def test_cor_18_a_commit_takes_ten_starts_of_git(workspace, tmp_path, monkeypatch):
    """However many files there are beside it; and five to see that there is nothing to do."""
    bin = tmp_path / "bin"
    stand_in(bin, monkeypatch, 'echo "$step" >> "$here/steps"')
    steps = bin / "steps"
    assert workspace.commit()
    assert steps.read_text().split() == [
        *("rev-parse", "config", "cat-file", "ls-files", "hash-object"),
        *("hash-object", "commit-tree", "symbolic-ref", "update-index", "update-ref"),
    ]
    steps.unlink()
    assert workspace.commit() is None
    assert len(steps.read_text().split()) == 5


def test_cor_18_where_modes_mean_nothing_none_are_taken_from_the_disk(workspace):
    """On a disk where every file looks like a program, a file stays what it is in git."""
    workspace.git("config", "core.fileMode", "false")
    run = workspace.folder / "run"
    run.write_text("run")
    workspace.git("add", "--chmod=+x", str(run))
    for path in (run, workspace.folder / "plan.md"):
        path.chmod(0o755 if path != run else 0o644)
    workspace.commit()
    modes = dict(line.split()[::3][::-1] for line in workspace.git("ls-tree", f"HEAD:{FOLDER}").splitlines())
    assert modes == {".session": "040000", "plan.md": "100644", "run": "100755"}


def saying(message: str) -> Callable[[bool], str]:
    return lambda is_session_only: message


def test_cor_18_any_message_is_one(workspace):
    """Whatever a title brings along."""
    for message in ("two\nlines\n\nand more", "ünï 日本", "lone \ud800", "nul \0 in it", "", "-x"):
        workspace.say_something(repr(message))
        assert commit(str(workspace.path), FOLDER, saying(message))
        kept = workspace.git("log", "-1", "--format=%B").rstrip("\n")
        assert kept == message.replace("\ud800", "?").replace("\0", "")
