"""Something else where a store needs a folder: the error names it, and the command that mends it."""

import re
import subprocess
from pathlib import Path

import pytest

from perdure.errors import PerdureError, Unreadable
from perdure.session.layouts import LAYOUTS, Home
from perdure.session.session import Session
from perdure.session.stores.file_store import FileStore
from perdure.testing import user_entry
from tests.layouts import ALL, store_of

pytestmark = pytest.mark.process


@pytest.fixture(params=ALL)
def session(request, tmp_path):
    """A session in which something was said, in a home with a blank in its name."""
    store = store_of(request.param, tmp_path / "my home")
    assert isinstance(store, FileStore)
    with Session.create(store) as made:
        made.append(user_entry("hello"))
    return store, made.ref


def folder_of(store: FileStore, name: str) -> Path:
    inside = LAYOUTS[store.name].marker
    return Path(store.home, inside, name)


def put(what: str, place: Path) -> None:
    if place.exists():
        place.rename(place.with_name(f"{place.name} before"))
    match what:
        case "a link":
            target = place.with_name("the real one")
            target.mkdir()
            place.symlink_to(target)
        case "a dangling link":
            place.symlink_to("nowhere")
        case "a file":
            place.write_text("x")


@pytest.mark.parametrize("what", ["a link", "a dangling link", "a file"])
@pytest.mark.parametrize("name", ["locks", "trash"])
def test_the_command_that_an_error_gives_mends_it(session, name, what):
    """It is the folder that is named, with where a link leads; nothing advises to try again."""
    store, ref = session
    place = folder_of(store, name)
    put(what, place)
    with pytest.raises(PerdureError) as raised:
        store.delete(ref)
    said = raised.value.said
    assert f"{place} is " in said or f"{place}: it is a symbolic link" in said or f"{place}: Not a" in said
    assert ("symbolic link" in said) == ("link" in what)
    assert (str(place.with_name("the real one")) in said) == (what == "a link")
    assert "again" not in said
    follow(said)
    store.delete(ref)
    assert [each.id for each in store.trashed()] == [ref.id]


def follow(said: str) -> None:
    command = re.search("`(.*)`", said)
    assert command is not None
    subprocess.run(["sh", "-c", command[1]], check=True)


@pytest.mark.parametrize(
    ("layout", "place", "is_users"),
    [("pi", ".pi/agent", True), ("pi", "code/theirs", False), ("cortext", "code/theirs", False)],
)
def test_only_in_the_user_s_own_home_a_command_touches_what_a_link_leads_to(home, layout, place, is_users):
    """A workspace, or a folder with a session's file in it, may bring a link to the user's keys."""
    store = store_of(layout, home / place)
    with Session.create(store) as made:
        made.append(user_entry("hello"))
    assert isinstance(store, FileStore)
    keys = home / ".ssh"
    keys.mkdir()
    (keys / "id").write_text("secret")
    locks = folder_of(store, "locks")
    locks.rename(locks.with_name("locks before"))
    locks.symlink_to(keys)
    with pytest.raises(PerdureError) as raised:
        store.delete(made.ref)
    follow(raised.value.said)
    assert not locks.is_symlink()
    assert (keys / "id").exists() != is_users
    assert (locks / "id").exists() == is_users
    store.delete(made.ref)


@pytest.mark.parametrize("layout", [layout for layout in ALL if layout != "cortext"])
def test_a_home_of_sessions_that_leads_nowhere_is_not_taken_for_empty(tmp_path, layout):
    """Its sessions are there again when its disk is."""
    store = store_of(layout, tmp_path)
    folder = Path(Home(layout, str(tmp_path)).sessions)
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.symlink_to(tmp_path / "unmounted")
    with pytest.raises(Unreadable, match=f"{folder}.*leads nowhere"):
        list(store.list())
