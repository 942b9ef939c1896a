"""The trash: nothing gets lost on the way there and back, and nothing in it is deleted before its time."""

import errno
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import Ambiguous, Conflict, NotFound, NotSaved, PerdureError, UsageError
from perdure.session import ids, trash
from perdure.session.stores import Header, folders
from perdure.session.stores.file_store import FileStore
from perdure.session.stores.lock import Lock
from perdure.session.trash_note import Trashed
from perdure.testing.writing import turns
from tests.layouts import store_of
from tests.session.snapshot import snapshot

NAMES = ["project/s1.jsonl.v1", "project/s1.notes", "project/s1"]
"""A session that is a folder, the last, and what lies beside it."""


class World(NamedTuple):
    home: str
    root: Path

    def plant(self, said: str = "hello") -> None:
        session = self.root / "project" / "s1"
        (session / "blobs").mkdir(parents=True)
        (session / "log.jsonl").write_text(said)
        (session / "blobs" / "image").write_bytes(bytes(range(256)))
        (session / "blobs" / "link").symlink_to("../../../../outside")
        (self.root / "project" / "s1.jsonl.v1").write_text("old")
        (self.root / "project" / "s1.notes").mkdir()
        (self.root / "project" / "s1.notes" / "note").write_text(f"about {said}")

    def discard(self, names: list[str] = NAMES, id: str = "s1", **options: Any) -> Trashed:
        return trash.discard(self.home, id, "pi", str(self.root), names, **options)

    def restore(self, text: str = "s1", **options: Any) -> list[str]:
        return trash.restore(self.home, trash.find(self.home, text), str(self.root), **options)

    @property
    def trash(self) -> Path:
        return Path(self.home, "trash")

    def everything(self) -> dict[str, object]:
        return {"root": snapshot(self.root, times=True), "trash": snapshot(self.trash, times=True)}

    def folders(self) -> list[str]:
        return [each.folder for each in trash.listed(self.home)]


@pytest.fixture
def world(tmp_path) -> World:
    """Something outside that no link may lead to, and a store with another session in it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").write_text("precious")
    root = tmp_path / "home" / "sessions"
    (root / "project").mkdir(parents=True)
    (root / "project" / "s10.jsonl").write_text("another")
    return World(str(tmp_path / "home"), root)


@pytest.fixture(params=["one disk", "two disks"])
def disks(request, monkeypatch) -> None:
    """With two, no rename reaches from the store to the trash."""
    if request.param == "two disks":
        monkeypatch.setattr(folders, "_rename", refused(errno.EXDEV))


def refused(number: int) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return refuse


def at(moment: datetime) -> ids.Clock:
    return lambda: moment


NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


# --- there and back -----------------------------------------------------------------------------------


def test_a_session_goes_to_the_trash_and_comes_back_as_it_was(world, disks):
    """Files, folders, links and modes; the other session stays where it is, and the trash is empty again."""
    world.plant()
    before = snapshot(world.root, times=True)
    assert world.discard() == trash.listed(world.home)[0]
    assert os.listdir(world.root / "project") == ["s10.jsonl"]
    assert sorted(os.listdir(world.trash / "s1")) == ["s1", "s1.jsonl.v1", "s1.notes", "trash.json"]
    assert world.restore() == [str(world.root / name) for name in NAMES]
    after = snapshot(world.root, times=True)
    assert {**after, "project": None} == {**before, "project": None}  # only the time of their folder changed
    assert os.listdir(world.trash) == []


def test_the_note_says_what_it_was_when_it_was_deleted_and_where_it_lay(world, monkeypatch):
    monkeypatch.setattr(ids, "now", at(NOW))
    world.plant()
    world.discard()
    assert json.loads((world.trash / "s1" / "trash.json").read_text()) == {
        "program": "pi",
        "id": "s1",
        "deleted": "2026-06-01T12:00:00.000Z",
        "title": "",
        "root": str(world.root),
        "names": NAMES,
        "as": ["s1.jsonl.v1", "s1.notes", "s1"],
    }
    (found,) = trash.listed(world.home)
    assert found.size == len("hello") + 256 + len("old") + len("about hello") + _size_of_note(world)
    assert found == Trashed(
        "s1",
        "pi",
        "2026-06-01T12:00:00.000Z",
        "s1",
        found.size,
        str(world.root),
        tuple(NAMES),
        "",
        world.home,
    )


def _size_of_note(world: World) -> int:
    return (world.trash / "s1" / "trash.json").stat().st_size


def test_things_of_one_name_do_not_collide_in_the_trash(world):
    """Not with one another, whatever the case, and not with what the trash itself puts there."""
    names = [
        "a/x",
        "b/x",
        "c/X",
        "a/trash.json",
        "a/trash.json.tmp",
        ".dying-1",
        ".moving-1",
        "d/" + "é" * 120,
    ]
    names += ["e/" + "é" * 120]
    for name in names:
        (world.root / name).parent.mkdir(exist_ok=True)
        (world.root / name).write_text(name)
    before = snapshot(world.root)
    world.discard(names)
    assert len(os.listdir(world.trash / "s1")) == len(names) + 1
    world.restore()
    assert snapshot(world.root) == before


def test_what_lies_in_a_folder_that_is_deleted_too_goes_with_it(world):
    world.plant()
    before = snapshot(world.root)
    world.discard(["project/s1/log.jsonl", "project/s1", "project/s1"])
    assert sorted(os.listdir(world.trash / "s1")) == ["s1", "trash.json"]
    world.restore()
    assert snapshot(world.root) == before


def test_g_8_the_trash_is_for_its_owner_only_unless_the_umask_shall_rule(world):
    for private, folder, file in ((True, 0o700, 0o600), (False, 0o775, 0o664)):
        before = os.umask(0)
        try:
            (world.root / "s2").touch()
            world.discard(["s2"], private=private, id=f"s2-{private}")
        finally:
            os.umask(before)
        place = world.trash / f"s2-{private}"
        for path, mode in ((place, folder), (place / "trash.json", file)):
            assert stat.S_IMODE(path.stat().st_mode) == mode, path
    assert stat.S_IMODE(world.trash.stat().st_mode) == 0o700
    assert stat.S_IMODE((Path(world.home) / "locks" / "trash~.lock").stat().st_mode) == 0o600


@pytest.mark.parametrize(("private", "mode"), [(True, 0o700), (False, 0o775)])
def test_folders_that_are_gone_by_now_are_made_again(world, private, mode):
    world.plant()
    before = snapshot(world.root / "project" / "s1")
    world.discard()
    (world.root / "project" / "s10.jsonl").unlink()
    (world.root / "project").rmdir()
    world.root.rmdir()
    umask = os.umask(0)
    try:
        world.restore(private=private)
    finally:
        os.umask(umask)
    assert snapshot(world.root / "project" / "s1") == before
    for path in (world.root, world.root / "project"):
        assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_home_that_was_moved_has_its_sessions_restored_to_where_it_is_now(world, tmp_path):
    """A place is named from the root, and whoever restores says where that is."""
    world.plant()
    before = snapshot(world.root)
    world.discard()
    os.rename(world.home, tmp_path / "moved")
    moved = World(str(tmp_path / "moved"), tmp_path / "moved" / "sessions")
    moved.restore()
    assert snapshot(moved.root) == before


# --- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_nothing_is_restored_over_what_is_there(world, name, kind, disks):
    """Whichever of its files it is: none is moved, and the error says what to do."""
    world.plant()
    world.discard()
    there = world.root / name
    if kind == "file":
        there.write_text("new")
    elif kind == "folder":
        there.mkdir()
    else:
        there.symlink_to("nowhere")
    before = world.everything()
    with pytest.raises(Conflict, match=f"{there} exists already") as caught:
        world.restore()
    assert "delete it" in caught.value.hint
    assert world.everything() == before


def test_nothing_is_restored_under_an_id_that_is_taken(world):
    world.plant()
    world.discard()
    before = world.everything()
    with pytest.raises(Conflict, match=r"another session has by now: s1") as caught:
        world.restore(is_taken=lambda: True)
    assert "then restore again" in caught.value.hint
    assert world.everything() == before
    assert len(world.restore(is_taken=lambda: False)) == 3


def test_nothing_is_restored_through_a_link(world, tmp_path):
    """Wherever the link leads, and also if it is the folder's own."""
    world.plant()
    world.discard()
    (world.root / "project" / "s10.jsonl").unlink()
    (world.root / "project").rmdir()
    (world.root / "project").symlink_to(tmp_path / "outside")
    before = world.everything()
    with pytest.raises(Conflict, match="behind a link") as caught:
        world.restore()
    assert caught.value.hint
    assert world.everything() == before
    assert os.listdir(tmp_path / "outside") == ["precious"]


OUTSIDE = ["../outside/x", "/etc/x", "a/../../x", "a\0b", "a//b", "", ".", "..", "a/", "\ud800", "./a"]
BAD_NOTES: dict[str, Any] = {
    **{f"a place {name!r}": {"names": [name], "as": ["s1"]} for name in OUTSIDE},
    **{f"a file {name!r}": {"names": ["s1"], "as": [name]} for name in [*OUTSIDE, "trash.json", "a/b"]},
    "a list": [],
    "a number": 1,
    "no names": {"id": "s1"},
    "names that are no list": {"names": "s1", "as": "s1"},
    "names that are no texts": {"names": [["s1"]], "as": ["s1"]},
    "no places": {"names": ["s1"]},
    "too few places": {"names": ["s1", "s2"], "as": ["s1"]},
    "one name twice": {"names": ["s1", "s1"], "as": ["s1", "s2"]},
    "one place twice": {"names": ["s1", "s2"], "as": ["s1", "s1"]},
    "one in the other": {"names": ["s1/a", "s1"], "as": ["s2", "s1"]},
    "nothing": {"names": [], "as": []},
    "an old note of another store": {"paths": ["/elsewhere/s1"]},
    "an old note that climbs": {"paths": ["{root}/../../outside/s1"]},
}


@pytest.mark.slow
@pytest.mark.parametrize("note", BAD_NOTES)
def test_a_note_that_names_no_place_in_the_store_restores_nothing(world, tmp_path, note):
    """It is listed all the same, and nothing is touched."""
    folder = world.trash / "s1"
    folder.mkdir(parents=True)
    for name in ("s1", "s2"):
        (folder / name).write_text("mine")
    text = json.dumps(BAD_NOTES[note]).replace("{root}", str(world.root))
    (folder / "trash.json").write_text(text)
    (world.root.parent / "locks").mkdir()
    (world.root.parent / "locks" / "trash~.lock").touch()
    before = snapshot(tmp_path)
    with pytest.raises(Conflict, match=str(folder)) as caught:
        world.restore()
    assert caught.value.hint
    before.pop("home/locks/trash~.lock")
    assert before.items() <= snapshot(tmp_path).items()
    assert world.folders() == ["s1"]


def test_a_note_that_names_the_trash_itself_loses_nothing(tmp_path):
    """In a store whose root is its home, a place may be the one a file is in already."""
    world = World(str(tmp_path), tmp_path)
    (tmp_path / "s1").write_text("mine")
    world.discard(["s1"])
    note = tmp_path / "trash" / "s1" / "trash.json"
    note.write_text(note.read_text().replace('"names": [\n    "s1"', '"names": [\n    "trash/s1/s1"'))
    assert world.restore() == [str(tmp_path / "trash" / "s1" / "s1")]
    assert (tmp_path / "trash" / "s1" / "s1").read_text() == "mine"


@pytest.mark.parametrize("kind", ["none", "cut", "not text", "deep", "huge", "a folder", "a fifo", "a link"])
def test_a_folder_without_a_note_that_can_be_read_is_listed_by_its_name(world, tmp_path, kind):
    """Its age is unknown, so it stays; restoring says that it does not say where it lay."""
    folder = world.trash / "s1"
    folder.mkdir(parents=True)
    (folder / "s1").write_text("mine")
    good = json.dumps({"id": "x", "deleted": "2001-01-01T00:00:00.000Z", "names": ["s1"], "as": ["s1"]})
    note = folder / "trash.json"
    if kind == "a folder":
        note.mkdir()
    elif kind == "a fifo":
        os.mkfifo(note)
    elif kind == "a link":
        (tmp_path / "outside" / "note").write_text(good)
        note.symlink_to(tmp_path / "outside" / "note")
    elif kind != "none":
        texts = {
            "cut": good[:-2],
            "not text": "\udcff",
            "deep": "[" * 10**5,
            "huge": good + " " * 2**20 + "x",
        }
        note.write_bytes(os.fsencode(texts[kind]))
    (found,) = trash.listed(world.home)
    assert (found.id, found.deleted, found.folder) == ("s1", "", "s1")
    assert trash.expire(world.home, days=0) == []
    with pytest.raises(Conflict, match="does not say where it lay") as caught:
        world.restore()
    assert caught.value.hint
    assert (folder / "s1").read_text() == "mine"


def test_what_somebody_took_out_of_the_trash_is_missed_only_if_it_is_the_session_itself(world):
    world.plant()
    world.discard()
    (world.trash / "s1" / "s1.jsonl.v1").unlink()
    os.rename(world.trash / "s1" / "s1", world.trash / "elsewhere")
    with pytest.raises(Conflict, match="neither in its place nor in the trash"):
        world.restore()
    assert not (world.root / NAMES[1]).exists()
    os.rename(world.trash / "elsewhere", world.trash / "s1" / "s1")
    assert world.restore() == [str(world.root / name) for name in NAMES[1:]]


def test_what_somebody_put_into_a_folder_of_the_trash_is_not_deleted_by_restoring(world):
    world.plant()
    world.discard()
    (world.trash / "s1" / "own").write_text("mine")
    world.restore()
    assert (world.trash / "s1" / "own").read_text() == "mine"


def test_whoever_changes_the_trash_does_so_alone(world, monkeypatch):
    """The others are told which process it is; looking needs no lock."""
    monkeypatch.setattr(trash, "_WAIT", 0)
    world.plant()
    world.discard()
    (found,) = trash.listed(world.home)
    (world.root / "s2").touch()
    with Lock(world.home, "locks/trash~.lock", "", 0):
        for change in (
            lambda: world.restore(),
            lambda: world.discard(["s2"], id="s2"),
            lambda: trash.expire(world.home, days=0),
            lambda: trash.remove_for_good(world.home),
        ):
            with pytest.raises(Conflict, match=f"is in use by process {os.getpid()}"):
                change()
        assert trash.listed(world.home) == [found]


# --- finding ------------------------------------------------------------------------------------------


def test_of_several_deleted_under_one_id_the_last_is_found(world, monkeypatch):
    """The others by their folders; the first, whose folder is called like the id, as number 1."""
    for number in range(12):
        monkeypatch.setattr(ids, "now", at(NOW))  # all in one instant: the number tells
        (world.root / "s1").write_text(str(number))
        world.discard(["s1"])
    assert world.folders() == [*(f"s1.{number}" for number in range(12, 1, -1)), "s1"]
    assert [trash.find(world.home, text).folder for text in ("s1", "s1.1", "s1.2")] == ["s1.12", "s1", "s1.2"]
    world.restore("s1.3")
    assert (world.root / "s1").read_text() == "2"


def test_a_deleted_session_is_found_by_the_beginning_of_its_id(world):
    for id in ("abc", "abd", "a name for nobody's file"):
        (world.root / "x").touch()
        world.discard(["x"], id=id)
    assert trash.find(world.home, "abc").id == "abc"
    assert trash.find(world.home, "a n").id == "a name for nobody's file"
    assert trash.find(world.home, "x-").id == "a name for nobody's file"
    with pytest.raises(Ambiguous):
        trash.find(world.home, "ab")
    with pytest.raises(NotFound, match="Deleted session not found: abx") as caught:
        trash.find(world.home, "abx")
    assert "abc" in caught.value.hint
    with pytest.raises(UsageError):
        trash.find(world.home, None)  # type: ignore[arg-type]


def test_the_last_deleted_is_listed_first_and_what_does_not_say_when_last(world, monkeypatch):
    for id, days in (("old", 3), ("new", 1), ("middle", 2)):
        monkeypatch.setattr(ids, "now", at(NOW - timedelta(days=days)))
        (world.root / "x").touch()
        world.discard(["x"], id=id)
    (world.trash / "unknown").mkdir()
    (world.trash / "unknown" / "x").touch()
    (world.trash / "a file").touch()
    assert world.folders() == ["new", "middle", "old", "unknown"]


def test_where_nothing_was_deleted_nothing_is_made(tmp_path):
    """Not even by whoever wants to empty it."""
    home = str(tmp_path / "home")
    assert trash.listed(home) == trash.expire(home) == trash.remove_for_good(home) == []
    with pytest.raises(NotFound):
        trash.find(home, "s1")
    assert os.listdir(tmp_path) == []


# --- notes of the version before ----------------------------------------------------------------------


@pytest.mark.parametrize("by_link", [False, True], ids=["its path", "a link to it"])
def test_a_session_with_an_old_note_comes_back(world, tmp_path, by_link):
    """Old notes have absolute paths and no root; a root that is reached by a link is the same root."""
    world.plant()
    before = snapshot(world.root)
    world.discard()
    (tmp_path / "link").symlink_to(world.root)
    note = world.trash / "s1" / "trash.json"
    old = json.loads(note.read_text())
    old["paths"] = [str(world.root / name) for name in old.pop("names")]
    del old["root"], old["as"]
    note.write_text(json.dumps(old))
    (found,) = trash.listed(world.home)
    assert (found.id, found.root, found.names[-1]) == ("s1", "", str(world.root / NAMES[-1]))
    trash.restore(world.home, found, str(tmp_path / "link" if by_link else world.root))
    assert snapshot(world.root) == before
    assert world.folders() == []


# --- crashes ------------------------------------------------------------------------------------------


class Crash(BaseException):
    """From here on nothing reaches the disk, as if the process had been killed."""


STEPS = ["rename", "replace", "link", "symlink", "unlink", "mkdir", "rmdir", "write", "fsync", "fdatasync"]


@contextmanager
def stopping(at_step: int, *, crash: bool) -> Iterator[list[str]]:
    """The calls made. The one of this number does not happen: nor does any behind it, after a crash;
    or else it alone fails."""
    made: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for call in STEPS:
            patch.setattr(os, call, _stopped(call, getattr(os, call), made, at_step, crash))
        with suppress(Crash):
            yield made


def _stopped(
    call: str, real: Callable[..., Any], made: list[str], at_step: int, crash: bool
) -> Callable[..., Any]:
    def act(*arguments: Any, **options: Any) -> Any:
        made.append(call)
        if crash and len(made) > at_step:
            if call == "write" and len(made) == at_step + 1:
                real(arguments[0], arguments[1][: len(arguments[1]) // 2])
            raise Crash
        if len(made) == at_step + 1:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(*arguments, **options)

    return act


def everywhere(world: World) -> dict[str, list[Any]]:
    """What is whole in its place, or under its name in the trash: by the name from the root."""
    found: dict[str, list[Any]] = {name: [] for name in NAMES}
    for name in NAMES:
        places = [world.root / name, *world.trash.glob(f"*/{os.path.basename(name)}")]
        found[name] = [snapshot(place) for place in places if os.path.lexists(place)]
    return found


def each_step(tmp_path: Path, prepare: Callable[[World], None], act: Callable[[World], Any], *, crash: bool):
    """The world after `act` stopped at its first, second, … step; the last one did not stop any more."""
    for step in count():
        root = tmp_path / str(step) / "home" / "sessions"
        root.mkdir(parents=True)
        world = World(str(root.parent), root)
        prepare(world)
        error = None
        with stopping(step, crash=crash) as made:
            try:
                act(world)
            except PerdureError as refusal:
                error = refusal
        yield world, error
        if len(made) <= step:
            assert step > 5
            return


@pytest.mark.slow
def test_a_delete_that_crashes_at_any_step_loses_nothing_and_can_be_done_again(tmp_path, disks):
    """Each file is whole in its place or in the trash; the next delete puts all of it into one folder."""

    def prepare(world: World) -> None:
        world.plant()
        wanted.update({name: snapshot(world.root / name) for name in NAMES})

    wanted: dict[str, Any] = {}
    for world, _ in each_step(tmp_path, prepare, World.discard, crash=True):
        for name, copies in everywhere(world).items():
            assert copies, name
            assert all(copy == wanted[name] for copy in copies), name
        if (world.root / NAMES[-1]).exists():
            trash.expire(world.home, now=at(NOW + timedelta(days=10**5)))
            trash.remove_for_good(world.home)
            assert all(everywhere(world).values()), "a session that is not deleted was deleted for good"
            world.discard([name for name in NAMES if (world.root / name).exists()])
        left = os.listdir(world.root / "project")
        assert [name for name in left if not name.startswith(".dying-")] == []
        (folder,) = world.folders()
        assert sorted(set(os.listdir(world.trash / folder)) - {"trash.json"})[:3] == sorted(
            map(os.path.basename, NAMES)
        )
        world.restore()
        assert {name: snapshot(world.root / name) for name in NAMES} == wanted
        assert len(os.listdir(world.root / "project")) == len(NAMES)
        assert world.folders() == []


@pytest.mark.slow
def test_a_restore_that_crashes_at_any_step_loses_nothing_and_can_be_done_again(tmp_path, disks):
    """The session itself is back only when all of it is, and its id is not in its own way."""

    def prepare(world: World) -> None:
        world.plant()
        wanted.update({name: snapshot(world.root / name) for name in NAMES})
        world.discard()
        (world.root / "project").rmdir()

    wanted: dict[str, Any] = {}
    for world, _ in each_step(tmp_path, prepare, World.restore, crash=True):
        for name, copies in everywhere(world).items():
            assert copies, name
            assert all(copy == wanted[name] for copy in copies), name
        if (world.root / NAMES[-1]).exists():
            assert all((world.root / name).exists() for name in NAMES)
        if world.folders():
            world.restore(is_taken=lambda world=world: is_there_alone(world))
        assert {name: snapshot(world.root / name) for name in NAMES} == wanted
        assert sorted(os.listdir(world.root / "project")) == sorted(map(os.path.basename, NAMES))
        assert world.folders() == []


def is_there_alone(world: World) -> bool:
    return (world.root / NAMES[-1]).exists() and not (world.trash / "s1" / "s1").exists()


@pytest.mark.slow
@pytest.mark.parametrize("act", ["delete", "restore"])
def test_a_call_that_fails_at_any_step_moves_everything_or_nothing(tmp_path, disks, act):
    """A disk that reports an error once: the session is where it was, unless the call succeeded after all."""

    def prepare(world: World) -> None:
        world.plant()
        wanted.update({name: snapshot(world.root / name) for name in NAMES})
        if act == "restore":
            world.discard()
            (world.root / "project").rmdir()

    wanted: dict[str, Any] = {}
    errors = 0
    for world, error in each_step(tmp_path, prepare, getattr(World, _METHODS[act]), crash=False):
        if error:
            errors += 1
            assert world.home in error.message
            assert os.strerror(errno.EIO) in error.message
        is_in_place = bool(error) == (act == "delete")
        for name in NAMES:
            assert os.path.lexists(world.root / name) == is_in_place, name
        assert {name: copies for name, (*copies,) in everywhere(world).items()} == {
            name: [each] for name, each in wanted.items()
        }
        assert world.folders() == ([] if is_in_place else ["s1"])
        if act == "restore" and error:
            assert not (world.root / "project").exists()
    assert errors > 5


_METHODS = {"delete": "discard", "restore": "restore"}


def test_an_expiry_that_crashes_at_any_step_leaves_a_whole_session_or_none(tmp_path):
    """The next one finishes it, to the last file."""

    def prepare(world: World) -> None:
        world.plant()
        wanted.update(snapshot(world.root))
        world.discard()

    wanted: dict[str, Any] = {}
    for world, _ in each_step(tmp_path, prepare, lambda world: trash.expire(world.home, days=0), crash=True):
        if world.folders():
            world.restore()
            assert snapshot(world.root) == wanted
            world.discard()
        trash.expire(world.home, days=0)
        assert os.listdir(world.trash) == []


def test_what_lies_beside_a_session_is_not_deleted_for_good_while_that_is_in_its_place(world):
    """A delete was interrupted and never tried again: it is no deleted session, however old it gets."""
    world.plant()
    before = snapshot(world.root)
    for step in count():
        with stopping(step, crash=True):
            world.discard()
        if not (world.root / NAMES[0]).exists():
            break
    assert (world.root / NAMES[-1]).exists()
    assert trash.expire(world.home, now=at(NOW + timedelta(days=10**5))) == []
    assert trash.remove_for_good(world.home) == []
    world.restore()
    assert snapshot(world.root) == before


def test_a_full_disk_is_told_and_everything_is_where_it_was(world, monkeypatch):
    """Where the trash is on another disk, and there is no room on this one."""
    world.plant()
    before = snapshot(world.root)
    world.discard()
    with monkeypatch.context() as patch:
        patch.setattr(folders, "_rename", refused(errno.EXDEV))
        patch.setattr(os, "write", refused(errno.ENOSPC))
        with pytest.raises(NotSaved, match=os.strerror(errno.ENOSPC)):
            world.restore()
    assert os.listdir(world.root / "project") == ["s10.jsonl"]
    world.restore()
    assert snapshot(world.root) == before


# --- the end ------------------------------------------------------------------------------------------


def discarded(world: World, id: str, age: timedelta, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(ids, "now", at(NOW - age))
        (world.root / id).write_text(id)
        world.discard([id], id=id)


def test_a_session_is_kept_for_thirty_days_and_then_deleted_for_good(world, monkeypatch):
    for id, age in (
        ("fresh", timedelta()),
        ("exact", timedelta(days=30)),
        ("over", timedelta(days=30, milliseconds=1)),
        ("future", timedelta(days=-400)),
    ):
        discarded(world, id, age, monkeypatch)
    assert [each.id for each in trash.expire(world.home, now=at(NOW))] == ["over"]
    assert world.folders() == ["future", "fresh", "exact"]
    assert [each.id for each in trash.expire(world.home, now=at(NOW), days=0.5)] == ["exact"]
    kept = trash.expire(world.home, now=at(NOW), days=0, keep=lambda each: each.id == "fresh")
    assert kept == []
    assert [each.id for each in trash.expire(world.home, now=at(NOW), days=0)] == ["fresh"]
    assert [each.id for each in trash.remove_for_good(world.home)] == ["future"]
    assert os.listdir(world.trash) == []


@pytest.mark.parametrize("days", [-1, float("nan")])
def test_a_wrong_number_of_days_deletes_nothing(world, monkeypatch, days):
    discarded(world, "s1", timedelta(days=1000), monkeypatch)
    with pytest.raises(UsageError):
        trash.expire(world.home, days=days)
    assert trash.expire(world.home, days=float("inf")) == []
    assert world.folders() == ["s1"]


def test_emptying_deletes_what_does_not_say_its_age_and_nothing_behind_a_link(world, tmp_path, monkeypatch):
    world.plant()
    world.discard()
    (world.trash / "unknown").mkdir()
    (world.trash / "unknown" / "link").symlink_to(tmp_path / "outside")
    (world.trash / "linked").symlink_to(tmp_path / "outside")
    assert {each.folder for each in trash.remove_for_good(world.home)} == {"s1", "unknown"}
    assert os.listdir(world.trash) == ["linked"]
    assert os.listdir(tmp_path / "outside") == ["precious"]


def test_a_trash_that_is_a_link_is_neither_listed_nor_emptied(world, tmp_path):
    (tmp_path / "outside" / "s1").mkdir()
    world.trash.symlink_to(tmp_path / "outside")
    with pytest.raises(PerdureError):
        trash.listed(world.home)
    assert trash.remove_for_good(world.home) == trash.expire(world.home, days=0) == []
    (world.root / "s1").touch()
    with pytest.raises(NotSaved):
        world.discard(["s1"])
    assert sorted(os.listdir(tmp_path / "outside")) == ["precious", "s1"]
    assert (world.root / "s1").exists()


def test_what_cannot_be_deleted_does_not_save_the_others(world, monkeypatch):
    """It is told by its absence from what is gone, and tried again the next time."""
    for id in ("a", "b", "c"):
        discarded(world, id, timedelta(days=100), monkeypatch)
    real = os.unlink

    def unlink(name: str, **options: Any) -> None:
        if name == "b":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        real(name, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", unlink)
        assert {each.id for each in trash.expire(world.home, now=at(NOW))} == {"a", "c"}
    assert world.folders() == []
    assert len(os.listdir(world.trash)) == 1
    trash.expire(world.home, now=at(NOW))
    assert os.listdir(world.trash) == []


def test_links_planted_in_the_trash_lead_nowhere(world, tmp_path):
    """A folder's name that is taken by a link is passed over when deleting."""
    world.plant()
    world.trash.mkdir()
    (world.trash / "s1").symlink_to(tmp_path / "outside")
    assert world.discard().folder == "s1.2"
    assert world.folders() == ["s1.2"]
    (world.trash / "s1.2" / "trash.json.tmp").symlink_to(tmp_path / "outside" / "precious")
    (world.trash / "s1.2" / ".moving-0").symlink_to(tmp_path / "outside")
    world.restore()
    assert os.listdir(world.trash) == ["s1"]
    assert (tmp_path / "outside" / "precious").read_text() == "precious"


# --- any trash, any clock -----------------------------------------------------------------------------

TEN_YEARS = timedelta(days=3653)
moments = st.timedeltas(-TEN_YEARS, TEN_YEARS).map(lambda age: NOW - age)
near_the_limit = st.timedeltas(timedelta(days=29), timedelta(days=31))
no_stamps = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            "2001-01-01",
            "2001-01-01T00:00:00Z",
            "2001-01-01T00:00:00.000",
            "2001-01-01T00:00:00.000+00:00",
            "2001-01-01T00:00:00.000Z ",
            "2001-02-30T00:00:00.000Z",
            "20010101T000000.000Z",
            "0000-00-00T00:00:00.000Z",
            "2001-01-01T24:00:00.000Z",
            "2001-01-01 00:00:00.000Z",
        ]
    ),
    st.none(),
    st.integers(),
    st.floats(allow_nan=False),
    st.lists(st.integers(), max_size=2),
)


class Kept(NamedTuple):
    """What is in one folder of the trash: when it was deleted, or a stamp that is none, or no note at all."""

    moment: datetime | None
    stamp: Any
    has_note: bool
    mtime: datetime


@st.composite
def trashes(draw: st.DrawFn) -> tuple[list[Kept], datetime]:
    now = draw(moments)
    kinds = st.one_of(
        st.builds(lambda moment: Kept(moment, ids.stamp(moment), True, NOW), moments),
        st.builds(lambda age: Kept(now - age, ids.stamp(now - age), True, NOW), near_the_limit),
        st.builds(lambda stamp: Kept(None, stamp, True, NOW), no_stamps),
        st.just(Kept(None, None, False, NOW)),
    )
    dated = st.builds(lambda kept, mtime: kept._replace(mtime=mtime), kinds, moments)
    return draw(st.lists(dated, max_size=6)), now


@given(trashes())
def test_r17_exactly_what_says_it_is_older_than_thirty_days_is_deleted_for_good(case):
    """Whatever the clock, the stamps and the times of the files; the rest is there, and can be restored."""
    contents, now = case
    with tempfile.TemporaryDirectory() as home, without_syncs():
        world = World(home, Path(home, "sessions"))
        for number, kept in enumerate(contents):
            put(world, f"s{number}", kept)
        over = {
            f"s{number}"
            for number, kept in enumerate(contents)
            if kept.moment and now - truncated(kept.moment) > timedelta(days=30)
        }
        assert {each.id for each in trash.expire(home, now=at(now))} == over
        left = {f"s{number}": kept for number, kept in enumerate(contents) if f"s{number}" not in over}
        assert set(world.folders()) == left.keys()
        assert not contents or set(os.listdir(world.trash)) == left.keys()
        for id, kept in left.items():
            if kept.has_note:
                assert world.restore(id) == [str(world.root / id)]
                assert (world.root / id).read_text() == id
            else:
                assert (world.trash / id / id).read_text() == id


def put(world: World, id: str, kept: Kept) -> None:
    folder = world.trash / id
    folder.mkdir(parents=True)
    (folder / id).write_text(id)
    if kept.has_note:
        note = {"program": "pi", "id": id, "deleted": kept.stamp, "root": str(world.root)}
        (folder / "trash.json").write_text(json.dumps({**note, "names": [id], "as": [id]}))
    for path in (*folder.iterdir(), folder):
        os.utime(path, (kept.mtime.timestamp(), kept.mtime.timestamp()))


def truncated(moment: datetime) -> datetime:
    """As a stamp tells it."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


@contextmanager
def without_syncs() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for call in ("fsync", "fdatasync"):
            patch.setattr(os, call, lambda descriptor: None)
        yield


@pytest.mark.parametrize("layout", ["pi", "aurora", "soleur"])
def test_a_session_created_while_another_of_its_id_is_restored_stays(layout, tmp_path, monkeypatch):
    """Whoever is a moment later is refused; neither of them is lost."""
    store = store_of(layout, tmp_path)
    header = Header("mine", "2026-01-31T09:05:00.123Z", cwd="/home/me")
    store.delete(store.create(header, turns(1, word="old")))
    rename = folders._rename

    def create_first(*arguments):
        monkeypatch.setattr(folders, "_rename", rename)
        store.create(header, turns(2, word="new"))
        rename(*arguments)

    monkeypatch.setattr(folders, "_rename", create_first)
    with pytest.raises(NotSaved, match="File exists"):
        store.restore("mine")
    (ref,) = store.list()
    assert [entry.text for entry in store.read(ref).entries] == ["new 0", "new 1"]
    store.delete(ref)
    assert [entry.text for entry in store.read(store.restore("mine.1")).entries] == ["old 0"]


# --- deletes that were killed ---------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["pi", "aurora", "soleur"])
def test_a_session_whose_delete_was_killed_between_its_two_names_is_restored(layout, tmp_path, monkeypatch):
    """It is in its place and in the trash: the id there is its own, and no other session's."""
    store = store_of(layout, tmp_path)
    assert isinstance(store, FileStore)
    ref = store.create(Header("mine", "2026-01-31T09:05:00.123Z", cwd="/home/me"), turns(1))
    before = Path(ref.path).read_bytes()
    real = os.unlink

    def killed(path: Any, **options: Any) -> None:
        if path == os.path.basename(ref.path):
            raise Crash
        real(path, **options)

    monkeypatch.setattr(os, "unlink", killed)
    with pytest.raises(Crash):
        store.delete(ref)
    monkeypatch.setattr(os, "unlink", real)
    assert [each.id for each in store.trashed()] == [each.id for each in store.list()] == ["mine"]
    assert store.restore("mine").path == ref.path
    assert Path(ref.path).read_bytes() == before
    assert [*store.trashed()] == []


@pytest.mark.parametrize("note", [None, b"", b'{"program": "pi", "na'])
def test_a_folder_that_a_killed_delete_had_just_made_is_no_deleted_session(world, note):
    """Its session is in its place. It is used by the next delete, or goes with the trash."""
    (world.trash / "s1").mkdir(parents=True)
    if note is not None:
        (world.trash / "s1" / "trash.json").write_bytes(note)
    assert world.folders() == []
    world.plant()
    assert world.discard().folder == "s1"
    (world.trash / "s2").mkdir()
    assert [each.folder for each in trash.remove_for_good(world.home)] == ["s1"]
    assert os.listdir(world.trash) == []
