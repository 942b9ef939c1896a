"""All that a commit would bring is looked through for secrets, and nothing else is committed."""

import os
import shutil

import pytest

from perdure.programs.cortext import searching
from perdure.programs.cortext.fresh import fresh
from perdure.programs.cortext.repository import NotCommitted, commit
from perdure.programs.cortext.searching import Searched
from tests.front.planted import OPENSSH_KEYS, OTHER_ED25519_KEY, armored
from tests.programs.git_workspace import FOLDER, Workspace, template, workspace

__all__ = ["template", "workspace"]

pytestmark = pytest.mark.process

KEY = "AKIA" + "QYLPMN5HFIQR7XYA"  # in parts: what looks like one would be found here, too
OTHER = "ghp_" + "q1W2e3R4t5Y6u7I8o9P0a1S2d3F4g5H6j7K8"


def search(workspace: Workspace, message: str = "[session] Pause: Ship it") -> list[str]:
    return searching.search(str(workspace.path), FOLDER, message).found


@pytest.mark.parametrize(
    "name",
    [".session/session.json", ".session/messages.jsonl", "plan.md", "draft/notes.txt", "keys.bin", "é ü.env"],
)
def test_cor_18_a_secret_in_any_file_is_named_by_its_line_and_not_shown(workspace, name):
    """Whatever the file is, also where it is no text."""
    path = workspace.folder / name
    path.parent.mkdir(exist_ok=True)
    start = path.read_bytes() if path.exists() else b"\x00\xff\xfe\n"
    path.write_bytes(start + f"so: {KEY}\n".encode())
    line = (start + b"x").count(b"\n") + 1
    assert search(workspace) == [f"{name}, line {line}: AWS access key (AKIA…)"]


def test_cor_18_the_message_and_names_of_files_are_searched(workspace):
    """A title is in the message, and may be in a file's name; neither is shown."""
    (workspace.folder / f"{OTHER}.txt").write_text(f"{KEY}\n")
    assert search(workspace, f"[session] Pause: why {KEY}") == [
        "ghp_…[redacted].txt, line 1: AWS access key (AKIA…)",
        "the commit's message: AWS access key (AKIA…)",
        "a file's name: GitHub personal access token (ghp_…)",
    ]


def test_cor_18_every_name_is_searched_also_of_files_with_the_same_content(workspace):
    """A new file may be empty, and so may another one."""
    for name in (f"{KEY}", f"{OTHER}.txt", "first", "zz"):
        (workspace.folder / name).write_text("")
    assert sorted(search(workspace)) == [
        "a file's name: AWS access key (AKIA…)",
        "a file's name: GitHub personal access token (ghp_…)",
    ]


def test_cor_18_a_link_and_a_wide_text_are_searched_and_what_is_ignored_is_not(workspace):
    """As git would keep them; an ignored file is not committed."""
    os.symlink(f"/tmp/{KEY}", workspace.folder / "link")
    (workspace.folder / "wide.txt").write_bytes(f"it is {OTHER}\r\n".encode("utf-16"))
    (workspace.folder / "ignored.env").write_text(KEY)
    (workspace.folder / ".gitignore").write_text("*.env\n")
    assert [each.partition(":")[0] for each in search(workspace)] == ["link, line 1", "wide.txt, line 1"]


@pytest.mark.parametrize("around", ["plain", "é ü 密", "\n密密\n"])
@pytest.mark.parametrize(
    "encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "utf-8-sig"]
)
def test_cor_18_a_text_of_any_width_is_searched(workspace, encoding, around):
    """Whether its first bytes say how it is encoded, or not; it may be in the middle of something else."""
    text = f"{around} {KEY} {around}\r\nDB_PASSWORD={'hunter22Q4x'}\r\n"
    kinds = ["AWS access key (AKIA…)", "value of DB_PASSWORD (hun…)"]
    for start in (b"", b"\x7fELF\2\1\0\xff\xd8"):
        (workspace.folder / "wide.bin").write_bytes(start + text.encode(encoding))
        assert [each.partition(": ")[2] for each in search(workspace)] == kinds


def test_cor_18_a_file_too_large_to_be_searched_is_asked_about(workspace, monkeypatch):
    """The time has a bound; until HEAD has that very file."""
    monkeypatch.setattr(searching, "_LARGEST", 1000)
    (workspace.folder / "large").write_bytes(b"x" * 1001)
    (told,) = search(workspace)
    assert told.startswith("large: not searched")
    searched = searching.search(str(workspace.path), FOLDER, "")
    assert commit(str(workspace.path), FOLDER, lambda _: "x", seen=searched.seen)
    (workspace.folder / "plan.md").write_text("more\n")
    assert search(workspace) == []


def test_cor_18_what_a_sparse_checkout_keeps_in_git_alone_is_searched(workspace, monkeypatch):
    """Also if nothing is in it, or too much: neither is taken for the other."""
    monkeypatch.setattr(searching, "_LARGEST", 1000)
    workspace.commit()
    for name, text in {"empty": "", "key": KEY, "large": "x" * 1001}.items():
        path = workspace.folder / name
        path.write_text(text)
        at = f"{FOLDER}/{name}"
        workspace.git("add", at)
        workspace.git("update-index", "--skip-worktree", at)
        path.unlink()
    large, key = sorted(search(workspace), key=len, reverse=True)
    assert large.startswith("large: not searched")
    assert key == "key, line 1: AWS access key (AKIA…)"


def test_cor_18_what_head_has_is_not_asked_about_again(workspace):
    """Wherever in the conversation it turns up next; another one is."""
    log = workspace.folder / ".session/messages.jsonl"
    log.write_text(f'{{"content":"{KEY}"}}\n')
    workspace.commit()
    assert search(workspace, f"[session] Pause: {KEY}") == []
    log.write_text(log.read_text() + '{"content":"more"}\n')
    (workspace.folder / "plan.md").write_text(f"about {KEY}")
    assert search(workspace, f"[session] Pause: {KEY}") == []
    log.write_text(log.read_text() + f'{{"content":"{OTHER} {KEY}"}}\n')
    assert search(workspace) == [
        ".session/messages.jsonl, line 3: GitHub personal access token (ghp_…)",
    ]


def test_cor_18_another_private_key_is_asked_about_where_one_was_allowed(workspace):
    """Also if both begin with the same line, as those of ssh-keygen do."""
    key = workspace.folder / "id_ed25519"
    key.write_text(armored(OPENSSH_KEYS[0]))
    assert search(workspace) == ["id_ed25519, line 2: private key (b3Bl…)"]
    workspace.commit()
    key.write_text(armored(OPENSSH_KEYS[0]) + armored(OTHER_ED25519_KEY))
    assert search(workspace) == ["id_ed25519, line 9: private key (b3Bl…)"]


def test_cor_18_a_search_leaves_nothing_of_a_secret_in_the_repository(workspace):
    """Not even as an object that nothing points to."""
    (workspace.folder / "notes.txt").write_text(KEY)
    before = workspace.git("count-objects", "-v")
    assert search(workspace)
    assert workspace.git("count-objects", "-v") == before


def test_cor_18_what_changed_since_it_was_searched_is_not_committed(workspace):
    """The next pause searches that, too."""
    searched: Searched = searching.search(str(workspace.path), FOLDER, "")
    (workspace.folder / "plan.md").write_text(f"about {KEY}")
    with pytest.raises(NotCommitted, match=r"plan\.md changed meanwhile"):
        commit(str(workspace.path), FOLDER, lambda _: "x", seen=searched.seen)
    assert workspace.log() == ["mine"]
    searched = searching.search(str(workspace.path), FOLDER, "")
    assert searched.found
    assert commit(str(workspace.path), FOLDER, lambda _: "x", seen=searched.seen)


@pytest.mark.parametrize("below", ["", "draft"])
def test_cor_18_what_got_another_name_since_it_was_searched_is_not_committed(workspace, below):
    """Nobody looked at that name; also if another file that was searched has the same content."""
    (workspace.folder / below).mkdir(exist_ok=True)
    for name in ("first", "second"):
        (workspace.folder / name).write_text("the same")
    searched: Searched = searching.search(str(workspace.path), FOLDER, "")
    (workspace.folder / "first").rename(workspace.folder / below / KEY)
    with pytest.raises(NotCommitted, match="changed meanwhile"):
        commit(str(workspace.path), FOLDER, lambda _: "x", seen=searched.seen)
    assert workspace.log() == ["mine"]


@pytest.mark.parametrize("name", ["sha1", "sha256"])
def test_cor_18_only_what_is_new_is_read_in_repositories_of_either_hash(workspace, name):
    """The id of a file is the one that git gives it."""
    shutil.rmtree(workspace.path / ".git")
    workspace.git("init", "-q", f"--object-format={name}")
    workspace.identify()
    ids = {each.path: each.id for each in fresh(str(workspace.path), FOLDER, 2**20)}
    assert len(ids) == 3
    for path, id in ids.items():
        assert workspace.git("hash-object", "--no-filters", path).strip() == id
    assert ids == {each.path: each.id for each in fresh(str(workspace.path), FOLDER, 2)}
    assert workspace.commit()
    assert list(fresh(str(workspace.path), FOLDER, 2**20)) == []
