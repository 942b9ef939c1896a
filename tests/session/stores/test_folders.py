"""Whole folders, moved and deleted: on one disk and across two, and never through a link."""

import errno
import os
import shutil
import socket
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from perdure.errors import NotSaved
from perdure.session.stores import folders
from tests.session.snapshot import snapshot

DISKS = [path for path in map(Path, ("/dev/shm", "/var/tmp", "/tmp")) if path.is_dir()]


@pytest.fixture
def other_disk(tmp_path) -> Iterator[Path]:
    others = [disk for disk in DISKS if disk.stat().st_dev != tmp_path.stat().st_dev]
    if not others:
        pytest.skip("needs two file systems")
    with tempfile.TemporaryDirectory(dir=others[0]) as place:
        yield Path(place)


@pytest.fixture(params=["one disk", "a rename that cannot reach", "two disks"])
def places(request, tmp_path, monkeypatch) -> tuple[Path, Path]:
    """Where something is, and where it is to be."""
    old = tmp_path / "old"
    new = request.getfixturevalue("other_disk") if request.param == "two disks" else tmp_path / "new"
    old.mkdir()
    new.mkdir(exist_ok=True)
    if request.param == "a rename that cannot reach":
        monkeypatch.setattr(folders, "_rename", refused(errno.EXDEV))
    return old, new


@pytest.fixture
def across(tmp_path, monkeypatch) -> tuple[Path, Path]:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(folders, "_rename", refused(errno.EXDEV))
    return tmp_path / "old", tmp_path / "new"


def refused(number: int) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return refuse


def plant(place: Path) -> None:
    """A folder of everything that may be moved; what its links lead to is outside."""
    (place / "a" / "b").mkdir(parents=True)
    (place / "empty").mkdir(mode=0o500)
    (place / "a" / "b" / "file").write_bytes(os.urandom(3 * 2**20 + 1))
    (place / "a" / "nothing").touch(mode=0o640)
    (place / "a" / "tool").touch(mode=0o755)
    (place / "a" / "link").symlink_to(place.parent / "outside")
    (place / "a" / "b" / "dangling").symlink_to("../nowhere")
    outside = place.parent / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "precious").write_bytes(b"precious")
    for number, path in enumerate([*sorted(place.rglob("*"), reverse=True), place]):
        os.utime(path, ns=(10**18 + number, 10**18 + number), follow_symlinks=False)


def move(old: Path, new: Path, name: str = "it", new_name: str = "moved") -> None:
    folders.move(str(old), name, str(new), new_name)


# --- moving -------------------------------------------------------------------------------------------


def test_a_folder_is_moved_with_all_in_it(places):
    """Content, modes and times; a link is the same link, and what it leads to is not touched."""
    old, new = places
    plant(old / "it")
    before = snapshot(old / "it", times=True)
    move(old, new)
    assert snapshot(new / "moved", times=True) == before
    assert os.listdir(new) == ["moved"]
    assert os.listdir(old) == ["outside"]
    assert (old / "outside" / "precious").read_bytes() == b"precious"


@pytest.mark.parametrize("kind", ["file", "empty", "link", "dangling"])
def test_what_is_no_folder_is_moved_as_it_is(places, kind):
    old, new = places
    (old / "target").write_bytes(b"not moved")
    if kind in ("file", "empty"):
        (old / "it").write_bytes(b"content" if kind == "file" else b"")
    else:
        (old / "it").symlink_to("target" if kind == "link" else "nowhere")
    before = snapshot(old / "it", times=True)
    move(old, new)
    assert snapshot(new / "moved", times=True) == before
    assert os.listdir(old) == ["target"]


def test_a_name_of_any_length_is_moved(places):
    """What is beside it for a while has a name of its own."""
    old, new = places
    name = "x" * 255
    (old / name).write_bytes(b"content")
    move(old, new, name, name)
    assert (new / name).read_bytes() == b"content"


@pytest.mark.parametrize("there", ["file", "folder", "empty folder", "link"])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_nothing_is_moved_over_what_is_there(places, kind, there):
    """Also where rename(2) would do it without a word."""
    old, new = places
    if kind == "file":
        (old / "it").write_bytes(b"mine")
    else:
        plant(old / "it")
    if there == "file":
        (new / "moved").write_bytes(b"theirs")
    elif there == "link":
        (new / "moved").symlink_to("nowhere")
    else:
        (new / "moved").mkdir()
        if there == "folder":
            (new / "moved" / "file").write_bytes(b"theirs")
    before = snapshot(old, times=True), snapshot(new, times=True)
    with pytest.raises(NotSaved, match="moved: File exists") as caught:
        move(old, new)
    assert isinstance(caught.value.__cause__, FileExistsError)
    assert (snapshot(old, times=True), snapshot(new, times=True)) == before


def test_a_copy_whose_original_is_still_there_counts_as_moved(places):
    """A move that was interrupted between the copy and the end of the original is finished."""
    old, new = places
    plant(old / "it")
    before = snapshot(old / "it")
    shutil.copytree(old / "it", new / "moved", symlinks=True)
    move(old, new)
    assert snapshot(new / "moved") == before
    assert not (old / "it").exists()


@pytest.mark.parametrize("kind", ["file", "folder", "second name"])
def test_what_is_moved_to_where_it_is_stays_there(places, kind):
    """It is no copy of itself that could be deleted; one of two names of a file could."""
    old, _ = places
    (old / "it").mkdir() if kind == "folder" else (old / "it").write_bytes(b"mine")
    if kind == "second name":
        os.link(old / "it", old / "moved")
    move(old, old, "it", "moved" if kind == "second name" else "it")
    assert os.listdir(old) == ["moved" if kind == "second name" else "it"]


@pytest.mark.parametrize("change", ["a byte", "a name", "a kind", "a link", "more", "less"])
def test_what_differs_in_anything_is_no_copy(tmp_path, change):
    for name in ("one", "two"):
        place = tmp_path / name
        (place / "a").mkdir(parents=True)
        (place / "a" / "file").write_bytes(bytes(2**20 + 5))
        (place / "a" / "link").symlink_to("somewhere")
        (place / "b").touch()
    two = tmp_path / "two"
    assert folders.are_same(str(tmp_path), "one", str(tmp_path), "two")
    if change == "a byte":
        (two / "a" / "file").write_bytes(bytes(2**20 + 4) + b"x")
    elif change == "a name":
        (two / "b").rename(two / "c")
    elif change == "a kind":
        (two / "b").unlink()
        (two / "b").mkdir()
    elif change == "a link":
        (two / "a" / "link").unlink()
        (two / "a" / "link").symlink_to("elsewhere")
    elif change == "more":
        (two / "z").touch()
    else:
        (two / "b").unlink()
    assert not folders.are_same(str(tmp_path), "one", str(tmp_path), "two")
    assert not folders.are_same(str(tmp_path), "one", str(tmp_path), "nothing")


@pytest.mark.parametrize("kind", ["fifo", "socket"])
@pytest.mark.parametrize("depth", ["itself", "in it"])
def test_what_cannot_be_copied_is_named_before_anything_changes(across, kind, depth, monkeypatch):
    """On one disk it is renamed with the rest."""
    old, new = across
    plant(old / "it")
    name = "it" if depth == "in it" else "special"
    special = old / "it" / "a" / "special" if depth == "in it" else old / "special"
    if kind == "fifo":
        os.mkfifo(special)
    else:
        monkeypatch.chdir(special.parent)  # an address is short
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("special")
    before = snapshot(old, times=True)
    with pytest.raises(NotSaved, match=f"{special}: it is no file, folder or link"):
        move(old, new, name)
    assert snapshot(old, times=True) == before
    assert os.listdir(new) == []
    monkeypatch.undo()
    move(old, new, name)
    assert snapshot(new / "moved") == {key.removeprefix(name): each for key, each in sub(before, name)}


def sub(tree: dict[str, Any], name: str) -> Iterator[tuple[str, Any]]:
    for key, each in tree.items():
        if key == name or key.startswith(f"{name}/"):
            yield key.removeprefix(name).removeprefix("/"), each[:-1]


@pytest.mark.parametrize("call", ["write", "mkdir", "symlink", "fdatasync", "fsync", "replace", "fchmod"])
def test_a_copy_that_fails_anywhere_leaves_the_original_and_nothing_else(across, monkeypatch, call):
    """The disk is full at each call in turn. Once the copy is whole, the next try finishes the move."""
    old, new = across
    plant(old / "it")
    before = snapshot(old, times=True)
    wanted = snapshot(old / "it", times=True)
    real = getattr(os, call)
    for number in range(100):
        calls = count()

        def full(*arguments: Any, calls: Any = calls, last: int = number, **options: Any) -> Any:
            if next(calls) == last:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(os, call, full)
            try:
                move(old, new)
            except NotSaved as error:
                message = error.message
            else:
                break
        assert os.strerror(errno.ENOSPC) in message
        if (new / "moved").exists():
            if (old / "it").exists():
                move(old, new)
            break
        assert snapshot(old, times=True) == before
        assert os.listdir(new) == []
    assert number > 0
    assert snapshot(new / "moved", times=True) == wanted
    assert os.listdir(old) == ["outside"]


def test_half_a_copy_of_a_move_that_was_killed_is_replaced_by_the_next(across, monkeypatch):
    old, new = across
    plant(old / "it")
    before = snapshot(old / "it")

    def kill(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        for call in ("symlink", "unlink", "rmdir", "replace"):  # nothing is tidied up by the dead
            patch.setattr(os, call, kill)
        with pytest.raises(KeyboardInterrupt):
            move(old, new)
    (left,) = os.listdir(new)
    assert left.startswith(folders.MOVING)
    assert snapshot(old / "it") == before
    move(old, new)
    assert snapshot(new / "moved")
    assert os.listdir(new) == ["moved"]


def test_what_changes_while_it_is_copied_is_not_deleted(across, monkeypatch):
    """A program that takes no lock may append: its words would be in neither place."""
    old, new = across
    plant(old / "it")
    real = os.symlink

    def meanwhile(*arguments: Any, **options: Any) -> None:
        with open(old / "it" / "a" / "b" / "file", "ab") as file:
            file.write(b"more")
        real(*arguments, **options)

    monkeypatch.setattr(os, "symlink", meanwhile)
    with pytest.raises(NotSaved, match="changed while it was copied"):
        move(old, new)
    assert (old / "it" / "a" / "b" / "file").read_bytes().endswith(b"more")
    assert os.listdir(new) == []


def test_a_copy_runs_as_nobody_else(across):
    """Whose it is may have changed on the way, so the set-uid bit does not come with it."""
    old, new = across
    plant(old / "it")
    (old / "it" / "a" / "tool").chmod(0o6755)
    move(old, new)
    assert stat.S_IMODE((new / "moved" / "a" / "tool").stat().st_mode) == 0o755


@pytest.mark.parametrize("end", ["old", "new"])
def test_no_link_on_the_way_is_followed(places, tmp_path, end):
    old, new = places
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "it").write_bytes(b"precious")
    (old / "it").write_bytes(b"mine")
    for place in (old, new):
        (place / "way").symlink_to(tmp_path / "outside")
    with pytest.raises(NotSaved):
        move(old, new, *(["way/it", "moved"] if end == "old" else ["it", "way/moved"]))
    assert os.listdir(tmp_path / "outside") == ["it"]
    assert (old / "it").read_bytes() == b"mine"


# --- deleting -----------------------------------------------------------------------------------------


def test_a_tree_is_deleted_and_what_its_links_lead_to_is_not(tmp_path):
    plant(tmp_path / "it")
    os.mkfifo(tmp_path / "it" / "fifo")
    (tmp_path / "it" / "loop").symlink_to(tmp_path / "it")
    folders.remove_tree(str(tmp_path), "it")
    assert snapshot(tmp_path).keys() == {"", "outside", "outside/precious"}


def test_a_link_is_no_tree_to_delete(tmp_path):
    """Not as the tree itself, and not on the way to it."""
    plant(tmp_path / "it")
    (tmp_path / "link").symlink_to("it")
    before = snapshot(tmp_path / "it", times=True)
    for name in ("link/a", "link"):
        with pytest.raises(NotSaved):
            folders.remove_tree(str(tmp_path), name)
    assert snapshot(tmp_path / "it", times=True) == before


def nested(place: Path, depth: int) -> None:
    """Deeper than any path may be long."""
    place.mkdir()
    folder = os.open(place, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("folder-in-folder", dir_fd=folder)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
        below = os.open("folder-in-folder", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)


@pytest.mark.slow
def test_a_tree_of_any_depth_is_deleted(tmp_path):
    nested(tmp_path / "it", 1100)
    assert folders.size(str(tmp_path), "it") == 0
    folders.remove_tree(str(tmp_path), "it")
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
def test_a_tree_too_deep_to_copy_stays_where_it_is(across):
    old, new = across
    nested(old / "it", 300)
    with pytest.raises(NotSaved, match="nested too deeply"):
        move(old, new)
    assert os.listdir(new) == []
    assert os.listdir(old) == ["it"]
    folders.remove_tree(str(old), "it")


def test_a_tree_loses_its_name_before_anything_in_it_goes(tmp_path, monkeypatch):
    """So no half of it is ever taken for the whole; another try goes on with the rest."""
    plant(tmp_path / "it")
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refused(errno.EIO))
        with pytest.raises(NotSaved, match=os.strerror(errno.EIO)):
            folders.remove_tree(str(tmp_path), "it")
    (dying,) = set(os.listdir(tmp_path)) - {"outside"}
    assert dying.startswith(folders.DYING)
    folders.remove_tree(str(tmp_path), dying)
    assert os.listdir(tmp_path) == ["outside"]


def test_what_is_left_of_the_deleted_is_swept_away_and_nothing_else(tmp_path):
    plant(tmp_path / "it")
    plant(tmp_path / "project" / "it")
    folders.condemn(str(tmp_path), "project/it")
    (tmp_path / "project" / ".dying-link").symlink_to(tmp_path / "it")
    before = snapshot(tmp_path / "it")
    folders.sweep(str(tmp_path), "project")
    folders.sweep(str(tmp_path), "nowhere")
    assert sorted(os.listdir(tmp_path / "project")) == [".dying-link", "outside"]
    assert snapshot(tmp_path / "it") == before


def test_several_may_delete_the_same_tree_at_once(tmp_path):
    for number in range(10):
        place = tmp_path / str(number)
        for wide in range(10):
            (place / str(wide) / "a" / "b" / "c").mkdir(parents=True)
            (place / str(wide) / "a" / "file").touch()
        dying = folders.condemn(str(tmp_path), str(number))
        errors: list[Exception] = []

        def delete(dying: str = dying, errors: list[Exception] = errors) -> None:
            try:
                folders.remove_tree(str(tmp_path), dying)
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=delete) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        assert os.listdir(tmp_path) == []
