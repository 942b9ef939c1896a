"""Files that are whole or not there, and for their owner only unless the caller says otherwise."""

import errno
import os
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from perdure.errors import NotSaved
from perdure.session.stores import files


def modes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): stat.S_IMODE(path.lstat().st_mode) for path in folder.rglob("*")}


@pytest.fixture
def any_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def make_everything(root: Path, *, private: bool) -> None:
    files.make_folder(str(root / "deep" / "deeper"), private=private)
    files.new_folder(str(root), "new", private=private)
    files.create(str(root), "new/created", b"x", private=private)
    files.create(str(root), "new/empty", b"", private=private)
    files.replace(str(root), "new/replaced", b"x", private=private)
    files.set_aside(str(root), "new/replaced", "v1", private=private)
    flags = os.O_RDWR | os.O_CREAT
    files.open_beneath(str(root), "new/opened", flags, private=private).close()


@pytest.mark.parametrize("no_links", [False, True], ids=["links", "no links"])
@pytest.mark.parametrize(
    ("private", "umask", "folder", "file"),
    [
        (True, 0o000, 0o700, 0o600),
        (True, 0o022, 0o700, 0o600),
        (False, 0o000, 0o775, 0o664),
        (False, 0o022, 0o755, 0o644),
        (False, 0o077, 0o700, 0o600),
    ],
)
def test_g_8_what_is_made_is_for_its_owner_only_unless_the_umask_shall_rule(
    tmp_path, any_umask, monkeypatch, private, umask, folder, file, no_links
):
    """Every way to make a file or a folder; also where the file system has no links."""
    os.umask(umask)
    if no_links:
        monkeypatch.setattr(os, "link", refused(errno.ENOTSUP))
    make_everything(tmp_path, private=private)
    made = modes(tmp_path)
    assert len(made) == 8
    for name, mode in made.items():
        assert mode == (folder if (tmp_path / name).is_dir() else file), name


def refused(number: int):
    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    return refuse


# --- replace ------------------------------------------------------------------------------------------


class Killed(BaseException):
    pass


def test_a_replacement_that_is_killed_again_and_again_leaves_one_temporary_at_most(tmp_path, monkeypatch):
    """The next one takes it away, and the old content is there until the new one is."""
    (tmp_path / "file").write_bytes(b"old")
    unlink = os.unlink

    def kill(*_, **__):
        monkeypatch.setattr(os, "unlink", kill)  # nothing is tidied up by the dead
        raise Killed

    for _ in range(5):
        monkeypatch.setattr(os, "unlink", unlink)
        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", kill)
            with pytest.raises(Killed):
                files.replace(str(tmp_path), "file", b"new")
        assert (tmp_path / "file").read_bytes() == b"old"
        assert sorted(os.listdir(tmp_path)) == ["file", "file.tmp"]
    monkeypatch.undo()
    files.replace(str(tmp_path), "file", b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"file": b"new"}


@pytest.mark.parametrize("call", ["open", "write", "fdatasync", "replace"])
def test_a_replacement_that_fails_leaves_the_file_as_it_was_and_nothing_beside_it(
    tmp_path, monkeypatch, call
):
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "file.tmp").write_bytes(b"left by the dead")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, refused(errno.ENOSPC))
        with pytest.raises(NotSaved, match=os.strerror(errno.ENOSPC)):
            files.replace(str(tmp_path), "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert set(os.listdir(tmp_path)) - {"file"} == ({"file.tmp"} if call == "open" else set())


def test_a_link_in_the_temporarys_place_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "victim").write_bytes(b"precious")
    (tmp_path / "file.tmp").symlink_to("victim")
    files.replace(str(tmp_path), "file", b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "file": b"new",
        "victim": b"precious",
    }


@pytest.mark.parametrize("sync", [True, False])
def test_a_replacement_is_synced_unless_it_can_be_made_again(tmp_path, monkeypatch, sync):
    """The data before the rename, the folder after it; or neither."""
    calls = []

    def noted(call, real, *arguments, **options):
        calls.append(call)
        return real(*arguments, **options)

    for call in ("fdatasync", "fsync", "replace"):
        monkeypatch.setattr(os, call, partial(noted, call, getattr(os, call)))
    files.replace(str(tmp_path), "file", b"new", sync=sync)
    assert calls == (["fdatasync", "replace", "fsync"] if sync else ["replace"])


# --- looking ------------------------------------------------------------------------------------------


def test_a_status_tells_a_link_from_what_it_leads_to_and_nothing_from_an_error(tmp_path):
    (tmp_path / "file").write_bytes(b"four")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "folder").mkdir()
    (tmp_path / "way").symlink_to("folder")
    root = str(tmp_path)
    found = files.status(root, "file")
    assert found is not None
    assert found.st_size == 4
    linked = files.status(root, "link")
    assert linked is not None
    assert stat.S_ISLNK(linked.st_mode)
    assert files.status(root, "none") is None
    assert files.status(root, "no/such/place") is None
    for name in ("way/file", "file/below", "..", "folder/..", "folder/../file"):
        with pytest.raises(OSError, match=r".") as caught:
            files.status(root, name)
        assert not isinstance(caught.value, FileNotFoundError)


def test_a_folder_is_taken_back_only_while_it_is_empty(tmp_path):
    assert files.new_folder(str(tmp_path), "a")
    assert not files.new_folder(str(tmp_path), "a")
    (tmp_path / "a" / "file").touch()
    files.remove_folder(str(tmp_path), "a")
    assert files.contents(str(tmp_path), "a") == ["file"]
    (tmp_path / "a" / "file").unlink()
    files.remove_folder(str(tmp_path), "a")
    assert files.contents(str(tmp_path), "") == []
    assert files.names(str(tmp_path), "a") == []


@pytest.mark.parametrize("is_symbolic", [False, True], ids=["second name", "symbolic link"])
def test_a_file_is_set_aside_under_a_name_of_its_own(tmp_path, is_symbolic):
    """A link that is there already is none: when the file is replaced, it leads to what replaced it."""
    (tmp_path / "file").write_text("before")
    there = tmp_path / "file.old"
    if is_symbolic:
        there.symlink_to("file")
    else:
        there.hardlink_to(tmp_path / "file")
    aside = files.set_aside(str(tmp_path), "file", "old")
    assert (aside == "file.old") is not is_symbolic
    files.replace(str(tmp_path), "file", b"after")
    assert (tmp_path / aside).read_text() == "before"
