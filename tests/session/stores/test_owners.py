"""Whose files are: a save takes none away from its owner, and root leaves none behind in a user's home."""

import errno
import os
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from perdure.agent.tools import replacing
from perdure.agent.tools.workspace import Place
from perdure.errors import NotSaved
from perdure.session.entry import Custom
from perdure.session.session import Session
from perdure.session.stores import Found, files, folders
from perdure.session.stores.file_store import FileStore
from tests.crash.killing import message, texts_in
from tests.layouts import ALL, store_of
from tests.other_users import (
    GROUP,
    OTHER,
    ROOT,
    USER,
    act,
    home_of_user,
    modes,
    needs_root,
    owners,
)

pytestmark = [pytest.mark.process, needs_root]

PRIVATE = {("folder", 0o700), ("file", 0o600)}


def add_to_all(layout: str, home: Path, text: str) -> None:
    """A message to every session there is, a new session, and one that is deleted and restored."""
    store = store_of(layout, home, "power")
    assert isinstance(store, FileStore)
    refs = list(store.list())
    for ref in refs:
        with Session.open(store, ref) as session:
            session.append(message(text))
    with Session.create(store) as session:
        session.append(message(text))
    with Session.create(store) as gone:
        gone.append(message(text))
    store.delete(gone.ref)
    store.restore(gone.id)
    store.delete(gone.ref)
    assert len(list(store.list())) == len(refs) + 1


@pytest.mark.parametrize("layout", ALL)
def test_what_root_saves_in_a_users_home_stays_that_users(layout):
    """Sessions, locks, indexes and trash: those that were there, and new ones. So the user goes on in them,
    lists and deletes them afterwards."""
    with home_of_user() as home:
        act(USER, lambda: store_of(layout, home))  # cortext's needs a workspace
        steps = [(ROOT, "0"), (USER, "1"), (ROOT, "2"), (USER, "3")]
        for uid, text in steps:
            act(uid, partial(add_to_all, layout, home, text))
            assert owners(home) == {(USER, USER)}
        if layout != "cortext":  # in a workspace the umask rules
            assert modes(home) <= PRIVATE
        store = store_of(layout, home)
        said = sorted((texts_in(store, ref) for ref in store.list()), key=len)
        assert said == [["3"], ["2", "3"], ["1", "2", "3"], ["0", "1", "2", "3"]]


def write(home: Path, text: bytes, mode: int) -> None:
    files.create(str(home), "file", text)
    os.chmod(home / "file", mode)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
@pytest.mark.parametrize("private", [True, False])
def test_a_replaced_file_keeps_owner_group_and_mode(mode, private):
    with home_of_user() as home:
        write(home, b"old", mode)
        os.chown(home / "file", USER, GROUP)
        files.replace(str(home), "file", b"new", private=private)
        found = (home / "file").stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (USER, GROUP, mode)
        assert (home / "file").read_bytes() == b"new"


def access_list(**permissions: int) -> bytes:
    """As the kernel keeps it: version, then tag, permissions and id of each entry, in this order."""
    tags = {"user": (0x01, -1), "other_user": (0x02, OTHER), "group": (0x04, -1), "mask": (0x10, -1)}
    entries = [(*tags[name], allowed) for name, allowed in permissions.items()] + [(0x20, -1, 0)]
    return struct.pack("<I", 2) + b"".join(
        struct.pack("<HHi", tag, allowed, whose) for tag, whose, allowed in entries
    )


def test_a_replaced_file_keeps_its_access_list():
    """Somebody else who may read it still may."""
    listed = access_list(user=6, other_user=4, group=0, mask=4)
    with home_of_user() as home:
        write(home, b"old", 0o600)
        try:
            os.setxattr(home / "file", "system.posix_acl_access", listed)
        except (OSError, AttributeError):
            pytest.skip("needs a file system with access lists")
        files.replace(str(home), "file", b"new")
        assert os.getxattr(home / "file", "system.posix_acl_access") == listed
        os.chmod(home, 0o755)
        act(OTHER, lambda: (home / "file").read_bytes())


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
@pytest.mark.parametrize("whose", [ROOT, USER])
def test_a_replaced_file_gets_no_access_list_that_it_did_not_have(mode, whose):
    """From its folder, which has one for new files. Also none that only begins to count with the next
    chmod; nor do the model's tools bring one."""
    with home_of_user() as home:
        write(home, b"old", mode)
        os.chown(home / "file", whose, GROUP)
        try:
            listed = access_list(user=7, other_user=6, group=5, mask=7)
            os.setxattr(home, "system.posix_acl_default", listed)
        except (OSError, AttributeError):
            pytest.skip("needs a file system with access lists")
        replacing.replace(Place(str(home / "new"), "new"), b"x")
        assert "system.posix_acl_access" in os.listxattr(home / "new")
        for replace in (
            lambda: files.replace(str(home), "file", b"new"),
            lambda: replacing.replace(Place(str(home / "file"), "file"), b"new"),
        ):
            replace()
            found = (home / "file").stat()
            assert "system.posix_acl_access" not in os.listxattr(home / "file")
            assert (found.st_uid, found.st_gid, found.st_mode & 0o7777) == (whose, GROUP, mode)


def test_where_a_file_system_has_no_access_lists_files_are_replaced(tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))

    for name in ("getxattr", "setxattr", "removexattr"):
        monkeypatch.setattr(os, name, refuse)
    for mode in (0o600, 0o640):
        (tmp_path / "file").write_bytes(b"old")
        os.chmod(tmp_path / "file", mode)
        files.replace(str(tmp_path), "file", b"new")
        assert (tmp_path / "file").read_bytes() == b"new"
        assert (tmp_path / "file").stat().st_mode & 0o7777 == mode


def test_the_owner_is_on_disk_before_the_name_is(monkeypatch):
    """Whatever a power cut leaves belongs to whom the file belongs."""
    calls: list[str] = []

    def noted(name: str, real: Callable[..., object], *arguments: object, **options: object) -> object:
        calls.append(name)
        return real(*arguments, **options)

    for name in ("fchown", "fsync", "replace"):
        monkeypatch.setattr(os, name, partial(noted, name, getattr(os, name)))
    with home_of_user() as home:
        write(home, b"old", 0o600)
        calls.clear()
        files.replace(str(home), "file", b"new")
    assert calls == ["fchown", "fsync", "replace", "fsync"]


def test_the_usual_save_asks_whose_the_file_is_and_changes_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").write_bytes(b"old")
    os.chmod(tmp_path / "file", 0o600)
    for name in ("fchown", "chown", "fchmod", "setxattr", "removexattr"):
        monkeypatch.setattr(os, name, lambda *_, n=name, **__: pytest.fail(n))
    files.replace(str(tmp_path), "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_file_that_was_there_already_is_given_to_nobody():
    """Whoever owns a folder may put another's file where root is about to open one."""
    with home_of_user() as home:
        write(home, b"root's", 0o600)
        os.chown(home / "file", ROOT, ROOT)
        os.link(home / "file", home / "lock")
        files.open_beneath(str(home), "lock", os.O_RDWR | os.O_CREAT).close()
        files.make_folder(str(home))
        assert (home / "file").stat().st_uid == ROOT


def test_what_is_moved_to_another_disk_keeps_its_owner(monkeypatch):
    with home_of_user() as home:
        (home / "old" / "deep").mkdir(parents=True)
        (home / "old" / "deep" / "file").write_bytes(b"x")
        (home / "new").mkdir()
        for each in (home / "old", *(home / "old").rglob("*")):
            os.chown(each, OTHER, GROUP)
        monkeypatch.setattr(folders, "_rename", across_disks)
        folders.move(str(home), "old", str(home / "new"), "moved")
        assert owners(home / "new" / "moved") == {(OTHER, GROUP)}


def across_disks(*_: object) -> None:
    import errno

    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


# --- another ordinary user --------------------------------------------------------------------------------


def share(folder: Path) -> None:
    """With the group, as people do."""
    for each in (folder, *folder.rglob("*")):
        os.chown(each, USER, GROUP)
        os.chmod(each, 0o2770 if each.is_dir() else 0o660)


def begin(layout: str, home: Path) -> Found:
    made: list[Found] = []
    store = store_of(layout, home)
    with Session.create(store) as session:
        session.append(message("before"))
        made.append(session.ref)
    return made[0]


def check_refusal(error: NotSaved, path: Path) -> None:
    assert str(path) in error.message
    assert "belongs to " in error.message
    assert "chown" in error.hint


@pytest.mark.parametrize("layout", ["soleur", "sibyl"])
def test_another_user_of_a_shared_folder_is_refused_and_told_whose_it_is(layout):
    """They cannot give the file back, so it is not taken. Once it is theirs, it is saved."""
    with home_of_user() as home:
        ref = begin(layout, home)
        share(home)
        path = Path(ref.path)
        before = path.stat()

        def save() -> None:
            with Session.open(store_of(layout, home), ref) as session:
                for _ in range(2):
                    with pytest.raises(NotSaved) as caught:
                        session.append(message("after"))
                    check_refusal(caught.value, path)

        act(OTHER, save, GROUP)
        after = path.stat()
        assert (after.st_ino, after.st_uid, after.st_mode) == (before.st_ino, USER, before.st_mode)
        assert texts_in(store_of(layout, home), ref) == ["before"]
        assert not list(home.rglob("*.tmp"))

        def save_at_last() -> None:
            with Session.open(store_of(layout, home), ref) as session:
                session.append(message("after"))

        os.chown(path, OTHER, GROUP)
        act(OTHER, save_at_last, GROUP)
        assert texts_in(store_of(layout, home), ref) == ["before", "after"]


def test_another_user_of_a_shared_workspace_leaves_session_json_to_its_owner():
    """What is said is in the log, which only grows; that session.json is behind it is told. What is kept in
    session.json alone is refused. The owner's next save brings it up to date."""
    with home_of_user() as home:
        ref = begin("cortext", home)
        share(home)
        state = Path(ref.path).with_name("session.json")
        before = state.read_bytes()

        def save() -> None:
            store = store_of("cortext", home)
            with Session.open(store, ref) as session:
                session.append(message("from another"))
                (told,) = store.read(ref).problems
                assert str(state) in told.reason
                with pytest.raises(NotSaved) as caught:
                    session.append(Custom("perdure.status", {"status": "paused"}))
                check_refusal(caught.value, state)

        act(OTHER, save, GROUP)
        assert state.read_bytes() == before
        assert {uid for uid, _ in owners(home)} == {USER}

        def go_on() -> None:
            store = store_of("cortext", home)
            with Session.open(store, ref) as session:
                session.append(message("after"))
            assert not store.read(ref).problems

        act(USER, go_on, GROUP)
        assert texts_in(store_of("cortext", home), ref) == ["before", "from another", "after"]
        assert state.stat().st_uid == USER
        assert b'"message_count": 3' in state.read_bytes()


def test_a_group_that_cannot_be_kept_is_in_the_way_only_if_it_may_read_or_write():
    with home_of_user() as home:
        for name, mode in (("private", 0o600), ("shared", 0o640)):
            files.create(str(home), name, b"old")
            os.chown(home / name, USER, GROUP)
            os.chmod(home / name, mode)

        def save() -> None:
            files.replace(str(home), "private", b"new")
            with pytest.raises(NotSaved, match=f"group {GROUP}") as caught:
                files.replace(str(home), "shared", b"new")
            assert "chgrp" in caught.value.hint

        act(USER, save)
        assert ((home / "private").read_bytes(), (home / "shared").read_bytes()) == (b"new", b"old")
