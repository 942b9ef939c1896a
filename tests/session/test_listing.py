"""Sessions are found by names alone, in every layout and in every place there is one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import Unreadable
from perdure.session import listing
from perdure.session.layouts import LAYOUTS, Home, homes
from perdure.session.stores import Found, Header, open_store
from perdure.session.stores.jsonl import JsonlStore
from perdure.session.stores.whole_file import WholeFileStore
from perdure.testing.builders import user_entry
from tests.layouts import ALL, store_of

STAMP = "2026-01-31T09:05:00.123Z"


@pytest.fixture(params=ALL)
def filled(request, tmp_path) -> Home:
    """With three sessions, and with much that is none."""
    home = Home(request.param, str(tmp_path / "home"))
    store = store_of(*home)
    for _ in range(3):
        store.create(Header(store.new_id(Header("", STAMP)), STAMP), [user_entry("hello")])
    root = Path(home.sessions)
    for name in ("notes.txt", "README", ".hidden", "x.jsonl.v1", "x.json.damaged", "x.tmp", "index.lisp"):
        (root / name).write_text("none of them")
    for name in ("empty", ".git", "trash", "a.folder"):
        (root / name).mkdir()
    (root / "dead").symlink_to("nowhere")
    (root / ".dying-0123456789abcdef").mkdir()  # as a delete leaves it that was killed
    for name in ("session.lisp", "metadata.json", "conversation.md"):
        (root / ".dying-0123456789abcdef" / name).write_text("not listed")
    return home


def found_in(home: Home, folder: str = "") -> list[Found]:
    """What `places` yields, as a store says it."""
    id_of = listing.namer(home.program)
    return [
        Found(id_of(name), path, *((status.st_ino, status.st_size, status.st_mtime_ns) if status else ()))
        for name, path, status, _ in listing.places(home, folder)
    ]


# --- what there is --------------------------------------------------------------------------------------


def test_a_listing_is_what_the_store_lists(filled):
    """With ids, paths, sizes and times; and each of them can be read."""
    store = open_store(*filled)
    refs = list(store.list())
    assert len(refs) == 3
    assert found_in(filled) == refs
    for ref in refs:
        status = os.stat(ref.path)
        assert ref[2:] == (status.st_ino, status.st_size, status.st_mtime_ns)
        assert [entry.text for entry in store.read(ref).entries] == ["hello"]
        assert store.read(ref).header.id == ref.id


def test_a_listing_reads_no_session(filled, monkeypatch):
    """Nor does the store's."""
    for kind in (JsonlStore, WholeFileStore):
        monkeypatch.setattr(kind, "read", None)
    assert len(found_in(filled)) == len(list(open_store(*filled).list())) == 3


@pytest.mark.parametrize("layout", ALL)
def test_where_nothing_was_ever_made_nothing_is_listed(layout, tmp_path):
    """Nor is anything made."""
    home = Home(layout, str(tmp_path / "none"))
    assert found_in(home) == list(open_store(*home).list()) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("layout", ["pi", "aurora", "soleur", "sibyl"])
@pytest.mark.parametrize("what", ["file", "link to itself"])
def test_a_place_that_cannot_be_looked_into_says_why(layout, what, tmp_path):
    """By the listing and by the store alike."""
    home = Home(layout, str(tmp_path))
    root = Path(home.sessions)
    root.parent.mkdir(parents=True, exist_ok=True)
    root.write_text("x") if what == "file" else root.symlink_to(root.name)
    for look in (lambda: found_in(home), lambda: list(open_store(*home).list())):
        with pytest.raises(Unreadable) as caught:
            look()
        assert str(root) in caught.value.message


@pytest.mark.parametrize("layout", ALL)
def test_what_changes_while_it_is_listed_is_no_error(layout, tmp_path, monkeypatch):
    """A session that is gone when its turn comes is gone, or there without a status."""
    home = Home(layout, str(tmp_path))
    store = store_of(*home)
    refs = [store.create(Header(store.new_id(Header("", STAMP)), STAMP)) for _ in range(5)]
    found = []
    for number, (_, path, status, _) in enumerate(listing.places(home)):
        found.append((path, status))
        if number == 1:
            for ref in refs:
                os.unlink(ref.path)
    assert len(found) >= 2
    assert {path for path, _ in found} <= {ref.path for ref in refs}
    assert all(status for _, status in found[:2])
    assert {path for path, status, *_ in found_in(home) if not status} <= {ref.id for ref in refs}


# --- pi: a folder a project -----------------------------------------------------------------------------


def test_a_projects_folder_is_the_part_of_the_listing_that_is_in_it(tmp_path):
    """Whatever else is there."""
    home = Home("pi", str(tmp_path))
    directories = ["/home/me/code", "/home/me/other", "/caf\udce9", "/" + "x" * 300, "/a:b\\c"]
    for cwd in directories:
        store = open_store(*home, cwd=cwd, durability="process")
        for _ in range(2):
            store.create(Header(store.new_id(Header("", STAMP)), STAMP))
    (Path(home.sessions) / "loose.jsonl").touch()
    every = found_in(home)
    assert len(every) == 2 * len(directories) + 1
    for cwd in directories:
        folder = os.path.join(home.sessions, listing.pi_folder(cwd))
        inside = found_in(home, folder)
        assert len(inside) == 2
        assert sorted(inside) == sorted(ref for ref in every if os.path.dirname(ref.path) == folder)
    assert found_in(home, os.path.join(home.sessions, listing.pi_folder("/never/used"))) == []


@given(cwd=st.text(st.characters(exclude_characters="\0")).map(lambda text: f"/{text}"))
def test_a_projects_folder_has_a_name_that_can_be_made(tmp_path_factory, cwd):
    """Of any directory: no separator in it, not too long, and the same each time."""
    name = listing.pi_folder(cwd)
    assert name == listing.pi_folder(cwd)
    assert name.startswith("--")
    assert name.endswith("--")
    assert "/" not in name
    assert len(os.fsencode(name)) <= 255


@pytest.mark.parametrize(
    ("name", "id", "time"),
    [
        ("2026-01-31T09-05-00-123Z_0a1b2c3d4e5f.jsonl", "0a1b2c3d4e5f", "2026-01-31T09:05:00.123Z"),
        ("2026-01-31T09-05-00-123Z_with_more_of_it.jsonl", "with_more_of_it", "2026-01-31T09:05:00.123Z"),
        ("s1.jsonl", "s1", ""),
        ("2026-01-31_x.jsonl", "2026-01-31_x", ""),
    ],
)
def test_a_name_tells_the_id_and_the_time(name, id, time):
    """Of files that pi names so; any other name is an id itself."""
    assert listing.pi_name(name) == (id, time)
    assert listing.pi_id(name) == id


# --- cortext: folders that types have for themselves ----------------------------------------------------


def conversation(workspace: Path, folder: str) -> str:
    own = workspace / folder / ".session"
    own.mkdir(parents=True)
    (own / "messages.jsonl").touch()
    return str(own / "messages.jsonl")


def test_conversations_are_where_the_registry_says_and_in_their_own_place(tmp_path):
    """Each once, under the last two names of its path, or the last one where there is no day."""
    kinds = {"plan": {"folder": "plans"}, "deep": {"folder": "a/b/c"}, "same": {"folder": "conversations"}}
    (tmp_path / ".workspace").mkdir()
    (tmp_path / ".workspace" / "registry.json").write_text(json.dumps({"conversation_types": kinds}))
    made = {
        conversation(tmp_path, "conversations/2025-11-22/001-x"): "2025-11-22/001-x",
        conversation(tmp_path, "plans/2025-11-23/001-y"): "2025-11-23/001-y",
        conversation(tmp_path, "plans/002-z"): "002-z",
        conversation(tmp_path, "a/b/c/003-w"): "003-w",
    }
    conversation(tmp_path, "elsewhere/2025-11-22/001-x")
    conversation(tmp_path, "conversations/2025-11-22/too/deep")
    conversation(tmp_path, "conversations/.hidden")
    assert {ref.path: ref.id for ref in found_in(Home("cortext", str(tmp_path)))} == made


@pytest.mark.parametrize(
    "registry",
    [
        *("", "[]", "{", "null", '{"conversation_types":[]}', '{"conversation_types":{"a":1}}'),
        *(
            json.dumps({"conversation_types": {"a": {"folder": folder}}})
            for folder in (
                "/etc",
                "..",
                "../other",
                "a/../../other",
                "",
                ".",
                ".git",
                "link",
                None,
                1,
                "a\0b",
                "x/" * 20,
            )
        ),
    ],
)
def test_a_registry_leads_nowhere_outside_of_its_workspace(registry, tmp_path):
    """Whatever it says, what is in `conversations/` is listed, and nothing from elsewhere."""
    workspace = tmp_path / "work"
    (workspace / ".workspace").mkdir(parents=True)
    (workspace / ".workspace" / "registry.json").write_text(registry)
    conversation(tmp_path, "other/001-secret")
    conversation(workspace, ".git/001-secret")
    (workspace / "link").symlink_to(tmp_path / "other")
    own = conversation(workspace, "conversations/2025-11-22/001-x")
    assert [ref.path for ref in found_in(Home("cortext", str(workspace)))] == [own]


# --- stamps ---------------------------------------------------------------------------------------------


def test_a_stamp_tells_every_change_of_a_file(tmp_path):
    """Of its size, either time, which file it is, or of the second one it is read from."""
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_text("one")
    other.write_text("two")

    def stamp() -> int:
        return listing.stamp(path.stat(), other.stat())

    seen = {stamp(), listing.stamp(path.stat()), listing.stamp(None), listing.stamp(None, other.stat())}
    assert listing.stamp(None) == 0
    assert 0 not in (stamp(), listing.stamp(path.stat()))
    os.utime(path, (1, 1))
    seen.add(stamp())
    path.write_text("three")
    seen.add(stamp())
    os.utime(other, (1, 1))
    seen.add(stamp())
    path.rename(tmp_path / "c")
    other.rename(path)
    (tmp_path / "c").rename(other)
    seen.add(stamp())
    assert len(seen) == 7


def test_a_stamp_is_the_same_in_every_process_and_fits_into_the_catalog():
    """It is a number of 64 bits, made of numbers."""
    status = os.stat_result(range(1, 20))
    assert listing.stamp(status) == listing.stamp(os.stat_result(range(1, 20)))
    assert -(2**63) <= listing.stamp(status) < 2**63


# --- homes ----------------------------------------------------------------------------------------------


@pytest.fixture
def user(home, tmp_path, monkeypatch) -> Path:
    """The home directory of a user who is somewhere else."""
    (tmp_path / "somewhere").mkdir()
    monkeypatch.chdir(tmp_path / "somewhere")
    return Path(home)


def test_every_program_has_its_usual_home(user):
    """Whether it is there or not."""
    assert homes() == [
        Home("pi", f"{user}/.pi/agent"),
        Home("aurora", f"{user}/.aurora"),
        Home("soleur", f"{user}/.soleur"),
        Home("sibyl", f"{user}/.sibyl"),
    ]


@pytest.mark.parametrize("layout", ["pi", "aurora", "soleur", "sibyl"])
def test_the_environment_says_where_a_home_is(layout, user, tmp_path, monkeypatch):
    """Absolute, from the user's home, or from here; and an empty word says nothing."""
    usual = {home.program: home.path for home in homes()}
    for said, expected in [
        (str(tmp_path), str(tmp_path)),
        ("~/elsewhere", f"{user}/elsewhere"),
        ("here", f"{tmp_path}/somewhere/here"),
        (f"{tmp_path}/a/../b/", f"{tmp_path}/b"),
        ("", usual[layout]),
    ]:
        monkeypatch.setenv(LAYOUTS[layout].home_variable, said)
        assert {home.program: home.path for home in homes()} == usual | {layout: expected}
        assert os.path.dirname(open_store(layout).root).startswith(expected)  # type: ignore[attr-defined]


def workspaces() -> list[str]:
    return [home.path for home in homes() if home.program == "cortext"]


def known(user: Path, text: str) -> None:
    (user / ".cortext").mkdir(exist_ok=True)
    (user / ".cortext" / "workspaces").write_bytes(os.fsencode(text))


def test_workspaces_are_those_that_cortext_knows(user, tmp_path):
    """One a line, each once, if it still is one."""
    for name in ("a", "b", "c d", "caf\udce9"):
        (tmp_path / name / ".workspace").mkdir(parents=True)
    (tmp_path / "was one").mkdir()
    (user / "own" / ".workspace").mkdir(parents=True)
    lines = [
        *(
            f"{tmp_path}/a",
            "",
            "   ",
            f"{tmp_path}/b/",
            f"{tmp_path}/a",
            f"{tmp_path}/b/../a",
            f"  {tmp_path}/c d \r",
        ),
        *(
            f"{tmp_path}/was one",
            f"{tmp_path}/gone",
            "~/own",
            f"{tmp_path}/caf\udce9",
            f"{tmp_path}/a\0b",
            "\0",
        ),
    ]
    known(user, "\n".join(lines))
    assert workspaces() == [
        f"{tmp_path}/a",
        f"{tmp_path}/b",
        f"{tmp_path}/c d",
        f"{user}/own",
        f"{tmp_path}/caf\udce9",
    ]


def test_the_workspace_around_us_is_one_without_being_known(user, tmp_path, monkeypatch):
    """The nearest; it is listed once, and first."""
    for name in ("outer", "outer/inner", "other"):
        (tmp_path / name / ".workspace").mkdir(parents=True)
    (tmp_path / "outer" / "inner" / "deep" / "down").mkdir(parents=True)
    known(user, f"{tmp_path}/other\n{tmp_path}/outer/inner\n")
    assert workspaces() == [f"{tmp_path}/other", f"{tmp_path}/outer/inner"]
    monkeypatch.chdir(tmp_path / "outer" / "inner" / "deep" / "down")
    assert workspaces() == [f"{tmp_path}/outer/inner", f"{tmp_path}/other"]
    monkeypatch.chdir(tmp_path / "outer")
    assert workspaces() == [f"{tmp_path}/outer", f"{tmp_path}/other", f"{tmp_path}/outer/inner"]


@pytest.mark.parametrize("what", ["nothing", "a folder", "a dead link", "not UTF-8", "empty"])
def test_a_list_of_workspaces_that_cannot_be_read_hides_nothing(what, user, tmp_path, monkeypatch):
    """The one around us is there without it."""
    (tmp_path / "work" / ".workspace").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    path = user / ".cortext" / "workspaces"
    path.parent.mkdir()
    match what:
        case "a folder":
            path.mkdir()
        case "a dead link":
            path.symlink_to("nowhere")
        case "not UTF-8":
            path.write_bytes(b"\xff\xfe\n\x80")
        case "empty":
            path.touch()
    assert workspaces() == [f"{tmp_path}/work"]
    assert len(homes()) == 5


def test_a_directory_that_is_gone_has_no_workspace_around_it(user, tmp_path, monkeypatch):
    """The others are there."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert len(homes()) == 4
