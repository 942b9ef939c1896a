"""Whatever a listing calls a session finds it, nothing else does, and no broken home is in the way."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.errors import Ambiguous, NotFound, UsageError
from perdure.session import reference
from perdure.session.layouts import Home
from perdure.session.stores import Found, Header, Store, open_store
from perdure.testing import user_entry
from tests.layouts import ALL, store_of
from tests.moments import next_moment

STAMP = "2026-01-31T09:05:00.123Z"


def made(home: Home, id: str = "") -> Found:
    """A session of this home, with an id of its layout."""
    store = store_of(*home)
    header = Header("", STAMP, facts={"title": "The launch", "conversation_type": "plan"})
    return store.create(header._replace(id=id or store.new_id(header)), [user_entry("hello")])


def homes_in(folder: Path | str) -> list[Home]:
    return [Home(layout, os.path.join(folder, layout)) for layout in ALL]


@pytest.fixture
def machine(tmp_path) -> dict[Home, list[Found]]:
    """Three sessions in each layout."""
    return {home: [made(home) for _ in range(3)] for home in homes_in(tmp_path)}


def found(text: str, homes: "dict[Home, list[Found]] | list[Home]") -> Found:
    return reference.find(text, list(homes))[1]


# --- by every name it has ---------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ALL)
def test_g_4_every_name_of_a_session_finds_it(layout, machine):
    """`program:id`, the id, the path of its file; and the store that comes with it reads it."""
    for home, refs in machine.items():
        if home.program == layout:
            for ref in refs:
                for text in (f"{layout}:{ref.id}", ref.id, ref.path):
                    store, same = reference.find(text, list(machine))
                    assert same.path == ref.path
                    assert same.id == ref.id
                    assert reference.name_of(store, same) == f"{layout}:{ref.id}"
                    assert [entry.text for entry in store.read(same).entries] == ["hello"]


def test_a_session_is_found_as_it_is_now(machine):
    """Inode, size and time are those of its file."""
    for refs in machine.values():
        for ref in refs:
            status = os.stat(ref.path)
            assert found(ref.path, machine)[2:] == (status.st_ino, status.st_size, status.st_mtime_ns)


@pytest.mark.parametrize("layout", ["cortext", "sibyl"])
def test_the_folder_of_a_session_is_a_name_of_it(layout, machine, monkeypatch):
    """Where it has one for itself: absolute, relative, with a slash behind it, and through a link."""
    ((home, (ref, *_)),) = ((home, refs) for home, refs in machine.items() if home.program == layout)
    folder = Path(ref.path)
    while folder.name != ref.id.rpartition("/")[2]:
        folder = folder.parent
    link = Path(home.path).parent / "link"
    link.symlink_to(home.path)
    monkeypatch.chdir(folder.parent)
    for text in (f"{folder}", f"{folder}/", folder.name, f"./{folder.name}"):
        assert found(text, machine).path == ref.path
    assert found(str(link / folder.relative_to(home.path)), machine).path == ref.path
    monkeypatch.chdir(folder)
    assert found(".", machine).path == ref.path


def test_a_home_behind_a_link_is_the_same_home(tmp_path, monkeypatch):
    """A shell that follows links, as after `cd`, names another path than the home's own."""
    real = Home("aurora", str(tmp_path / "real"))
    ref = made(real)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    linked = Home("aurora", str(tmp_path / "link"))
    assert found(ref.path, [linked]).id == ref.id
    monkeypatch.chdir(Path(ref.path).parent)
    assert found(Path(ref.path).name, [linked]).id == ref.id


def test_a_folder_that_only_holds_a_session_is_no_name_of_it(machine):
    """Not a project's, not a home, not a day's, and not the root of all."""
    for home, (ref, *_) in machine.items():
        for folder in (home.path, os.path.dirname(home.path), "/"):
            with pytest.raises(NotFound):
                found(folder, [home])
        if home.program in ("pi", "aurora", "soleur"):
            with pytest.raises(NotFound):
                found(os.path.dirname(ref.path), [home])


def test_g_4_without_its_day_an_id_is_enough_if_one_day_has_it(tmp_path):
    """Numbers begin anew each day; several days of one name are several candidates."""
    home = Home("cortext", str(tmp_path))
    first = made(home, id="2025-11-22/001-plan-launch")
    made(home, id="2025-11-22/002-plan-other")
    for text in ("001-plan-launch", "cortext:001-plan-launch", "001", "cortext:001"):
        assert found(text, [home]).id == first.id
    made(home, id="2025-11-23/001-plan-launch")
    with pytest.raises(Ambiguous) as caught:
        found("001-plan-launch", [home])
    assert caught.value.candidates == (
        "cortext:2025-11-22/001-plan-launch",
        "cortext:2025-11-23/001-plan-launch",
    )


def test_what_is_called_exactly_so_comes_before_what_is_so_but_for_its_day(tmp_path):
    """A type's own folder holds conversations without days."""
    home = Home("cortext", str(tmp_path))
    made(home, id="2025-11-22/001-plan-launch")
    (tmp_path / "conversations" / "001-plan-launch" / ".session").mkdir(parents=True)
    assert found("001-plan-launch", [home]).id == "001-plan-launch"


# --- prefixes ---------------------------------------------------------------------------------------

LETTERS = st.text("ab1-", min_size=1, max_size=4).filter(lambda text: text.strip("-") == text)
FILES = {"pi": "{}.jsonl", "aurora": "{}.jsonl", "soleur": "{}.json", "sibyl": "{}/session.lisp"}


@contextmanager
def planted(sessions: set[tuple[str, str]]) -> Iterator[list[Home]]:
    """Files of these programs and ids, with nothing in them: names are all that counts."""
    with tempfile.TemporaryDirectory() as folder:
        homes = [home for home in homes_in(folder) if home.program in FILES]
        for home in homes:
            for program, id in sessions:
                if program == home.program:
                    path = Path(home.sessions, FILES[program].format(id))
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.touch()
        yield homes


@given(
    sessions=st.sets(st.tuples(st.sampled_from(list(FILES)), LETTERS), min_size=1, max_size=8),
    text=st.one_of(LETTERS, st.builds("{}:{}".format, st.sampled_from(list(FILES)), LETTERS), st.just("")),
)
def test_g_4_a_beginning_finds_the_one_that_has_it(sessions, text):
    """One: that one. Several: all are named. None: nothing is found. What is called exactly so goes first."""
    names = {f"{program}:{id}": id for program, id in sessions}
    exact = [name for name, id in names.items() if text in (name, id)]
    begun = [name for name, id in names.items() if text and (name.startswith(text) or id.startswith(text))]
    expected = sorted(exact or begun)
    with planted(sessions) as homes:
        if len(expected) == 1:
            assert [reference.name_of(*reference.find(text, homes))] == expected
            return
        with pytest.raises(Ambiguous if expected else NotFound) as caught:
            reference.find(text, homes)
    if isinstance(caught.value, Ambiguous):
        assert list(caught.value.candidates) == expected
    else:
        assert caught.value.message == f"Session not found: {text}"
        assert isinstance(caught.value, NotFound)
        assert set(caught.value.nearest) <= set(names)


@given(sessions=st.sets(st.tuples(st.sampled_from(list(FILES)), LETTERS), min_size=1, max_size=8))
def test_g_4_what_is_listed_is_found_by_its_whole_name(sessions):
    """Every session there is, whatever the others are called."""
    with planted(sessions) as homes:
        every = list(reference.listed(homes))
        assert {(home.program, ref.id) for home, ref in every} == sessions
        names = [f"{home.program}:{ref.id}" for home, ref in every]
        assert [ref for _, ref in reference.find_all(names, homes)] == [ref for _, ref in every]


# --- when it is not one -------------------------------------------------------------------------------


def test_g_4_an_unknown_id_names_the_nearest_with_their_programs(machine):
    """With and without a program, exit 3."""
    for home, (ref, *_) in machine.items():
        near = ref.id[:-1] + "~"
        for text in (near, f"{home.program}:{near}"):
            with pytest.raises(NotFound) as caught:
                found(text, machine)
            assert caught.value.message == f"Session not found: {text}"
            assert caught.value.exit_code == 3
            assert f"{home.program}:{ref.id}" in caught.value.nearest
            assert f"nearest: {caught.value.nearest[0]}" in caught.value.hint


def test_g_4_one_id_in_two_programs_is_told_apart_by_the_program(tmp_path):
    """And the program settles it."""
    pi, aurora, *_ = homes_in(tmp_path)
    here, there = made(pi, id="one"), made(aurora, id="one")
    with pytest.raises(Ambiguous) as caught:
        found("one", [pi, aurora])
    assert caught.value.candidates == ("aurora:one", "pi:one")
    assert caught.value.exit_code == 3
    assert found("pi:one", [pi, aurora]).path == here.path
    assert found("aurora:one", [pi, aurora]).path == there.path


def test_g_4_one_id_in_two_workspaces_is_told_apart_by_the_path(tmp_path):
    """And the path settles it, with the workspace's own store."""
    homes = [Home("cortext", str(tmp_path / name)) for name in ("a", "b")]
    refs = [made(home, id="2025-11-22/001-plan-launch") for home in homes]
    for text in ("cortext:2025-11-22/001-plan-launch", "001"):
        with pytest.raises(Ambiguous) as caught:
            found(text, homes)
        assert caught.value.candidates == tuple(ref.path for ref in refs)
    for home, ref in zip(homes, refs, strict=True):
        store, same = reference.find(ref.path, homes)
        assert same.path == ref.path
        assert [each.path for each in store.list()] == [ref.path]
        assert ref.path.startswith(home.path)


@pytest.mark.parametrize(
    "text", ["", " ", ":", "pi:", "/", ".", "..", "~", "\0", "a\0b", "\ud800", "x" * 10_000]
)
def test_what_is_no_name_finds_nothing(text, machine):
    """Not one session, whichever is the only one; and it is no crash."""
    for home, refs in machine.items():
        with pytest.raises((NotFound, Ambiguous)) as caught:
            found(text, [home])
        if isinstance(caught.value, Ambiguous):  # all that a program has begin with its name
            assert text == f"{home.program}:"
            assert len(caught.value.candidates) == len(refs)


def test_a_name_is_a_text(machine):
    """Anything else is wrong usage, and says so."""
    with pytest.raises(UsageError, match="An id is a string, not int"):
        found(1, machine)  # type: ignore[arg-type]


def test_a_directory_that_is_gone_is_not_in_the_way(machine, tmp_path, monkeypatch):
    """No relative path leads anywhere then; ids are as good as ever."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for refs in machine.values():
        assert found(refs[0].id, machine).path == refs[0].path


def test_an_id_written_as_a_terminal_shows_it_is_found(tmp_path):
    """File names may hold what no terminal may see, which a listing writes as escapes; long ones it cuts."""
    home = Home("pi", str(tmp_path))
    folder = Path(home.sessions)
    folder.mkdir(parents=True)
    for name in ("a\x1b[31mb", "c\u202ed", "e\udcfff", "g\U000e0041h"):
        (folder / f"{name}.jsonl").touch()
    for text, id in [
        (r"a\x1b[31mb", "a\x1b[31mb"),
        (r"pi:c\u202e", "c\u202ed"),
        (r"e\udcfff", "e\udcfff"),
        (r"g\U000e0041h", "g\U000e0041h"),
        ("pi:c…", "c\u202ed"),
        (r"a\x1b…", "a\x1b[31mb"),
    ]:
        assert found(text, [home]).id == id
    with pytest.raises(NotFound):
        found(r"\Uffffffff", [home])


def test_several_names_of_one_session_are_one(machine):
    """In the order they were given."""
    (first, _, _), (other, _, _), *_ = machine.values()
    chosen = reference.find_all([other.id, first.id, first.path, f"pi:{first.id}", other.path], list(machine))
    assert [ref.id for _, ref in chosen] == [other.id, first.id]


# --- homes that cannot be looked at -------------------------------------------------------------------


def broken(folder: Path) -> Home:
    """A file where its sessions should be: that binds root as well."""
    (folder / "spawn").mkdir(parents=True)
    (folder / "spawn" / "sessions").write_text("not a folder")
    return Home("aurora", str(folder))


def test_a_home_that_cannot_be_looked_at_hides_no_other(machine, tmp_path):
    """All sessions of the others are listed and found, and the reason is told once."""
    homes = [broken(tmp_path / "broken"), *machine]
    problems: list[str] = []
    assert {ref.path for _, ref in reference.listed(homes, problems)} == {
        ref.path for refs in machine.values() for ref in refs
    }
    assert problems == [f"Cannot read {homes[0].sessions}: Not a directory"]
    for refs in machine.values():
        assert found(refs[0].id, homes).path == refs[0].path


def test_where_nothing_was_found_the_home_that_was_not_looked_at_is_named(machine, tmp_path):
    """It may be there."""
    home = broken(tmp_path / "broken")
    with pytest.raises(NotFound) as caught:
        found("nowhere", [home, *machine])
    assert f"Cannot read {home.sessions}" in caught.value.hint
    with pytest.raises(NotFound) as caught:
        found("nowhere", list(machine))
    assert "Cannot read" not in caught.value.hint


def test_a_home_that_is_not_there_has_no_sessions(tmp_path):
    """As on a new machine: nothing is listed, nothing is wrong, and nothing is made."""
    problems: list[str] = []
    assert list(reference.listed(homes_in(tmp_path), problems)) == []
    assert reference.deleted(homes_in(tmp_path), problems) == []
    assert problems == []
    assert list(tmp_path.iterdir()) == []


# --- from names alone ---------------------------------------------------------------------------------

WATCHED = """
import json, sys
opened = []
sys.addaudithook(lambda event, arguments: opened.append(str(arguments[0])) if event == "open" else None)
from perdure.session import reference
from perdure.session.layouts import Home
text, *homes = json.loads(sys.argv[1])
reference.find(text, [Home(*home) for home in homes])
print(json.dumps([opened, sorted(sys.modules)]))
"""


@pytest.mark.process
@pytest.mark.parametrize("layout", ALL)
def test_no_session_is_read_and_only_its_own_store_is_loaded(layout, machine):
    """Finding one among many costs names and nothing else."""
    ((ref, *_),) = (refs for home, refs in machine.items() if home.program == layout)
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, json.dumps([ref.id, *machine])],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    opened, modules = json.loads(done.stdout)
    below = tuple(home.path for home in machine)
    read = [path for path in opened if path.startswith(below) and not os.path.isdir(path)]
    assert [path for path in read if ".workspace" not in path] == []
    stores = {"pi_jsonl", "aurora_jsonl", "soleur_json", "sibyl_sexp", "cortext_folder"}
    loaded = {name for name in stores if f"perdure.session.stores.{name}" in modules}
    assert [name for name in loaded if not name.startswith(layout)] == []
    assert loaded


# --- deleted ones ---------------------------------------------------------------------------------------


def delete(home: Home, ref: Found) -> Store:
    store = store_of(*home)
    store.delete(ref)
    return store


@pytest.mark.parametrize("layout", ALL)
def test_a_deleted_session_has_the_same_names(layout, machine):
    """`program:id`, id, a beginning, the path where it lay; and what is not deleted has none of them."""
    for home, (ref, other, _) in machine.items():
        if home.program != layout:
            continue
        delete(home, ref)
        names = (f"{layout}:{ref.id}", ref.id, ref.path, f"{layout}:{ref.id[:-1]}")
        for text in names[: 4 if not other.id.startswith(ref.id[:-1]) else 3]:
            (gone,) = reference.find_deleted([text], list(machine))
            assert gone.trashed.id == ref.id
            assert gone.reference == f"{layout}:{ref.id}"
        with pytest.raises(NotFound, match="Deleted session not found"):
            reference.find_deleted([other.id], list(machine))
        with pytest.raises(NotFound):
            found(ref.path, machine)


def test_what_was_deleted_last_is_first_whatever_its_layout(machine):
    """And each is restored by the name it is listed under."""
    order = []
    for home, refs in machine.items():
        delete(home, refs[0])
        order.append(f"{home.program}:{refs[0].id}")
        next_moment()
    gone = reference.deleted(list(machine))
    assert [each.reference for each in gone] == order[::-1]
    for each in gone:
        (same,) = reference.find_deleted([each.reference], list(machine))
        assert same.store.restore(same.name).id == each.trashed.id
    assert reference.deleted(list(machine)) == []


@pytest.mark.parametrize("layout", ALL)
def test_an_id_that_was_deleted_more_than_once_is_told_apart(layout, tmp_path):
    """The id, or its beginning, is the last one; each is found by the name it is listed under."""
    home = Home(layout, str(tmp_path))
    id = made(home).id
    delete(home, *(ref for _, ref in reference.listed([home])))
    texts = ["hello"]
    for word in ("again", "and again"):
        store = store_of(*home)
        delete(home, store.create(Header(id, STAMP), [user_entry(word)]))
        texts.append(word)
    gone = reference.deleted([home])
    assert len({each.reference for each in gone}) == 3
    assert gone[0].reference == f"{layout}:{id}"
    for text in (id, id[:-1], f"{layout}:{id}"):
        (last,) = reference.find_deleted([text], [home])
        assert last.trashed == gone[0].trashed
    for each, word in zip(gone, reversed(texts), strict=True):
        (same,) = reference.find_deleted([each.reference], [home])
        back = same.store.restore(same.name)
        assert [entry.text for entry in same.store.read(back).entries] == [word]
        os.rename(same.path, tmp_path / f"seen {word}")  # out of the way of the next


def test_one_id_deleted_in_two_workspaces_is_told_apart_by_where_it_lay(tmp_path):
    """And is listed so, too: what is listed can be restored."""
    homes = [Home("cortext", str(tmp_path / name)) for name in ("a", "b")]
    refs = [made(home, id="2025-11-22/001-plan-launch") for home in homes]
    for home, ref in zip(homes, refs, strict=True):
        delete(home, ref)
    folders = {os.path.dirname(os.path.dirname(ref.path)) for ref in refs}
    assert {each.reference for each in reference.deleted(homes)} == folders
    with pytest.raises(Ambiguous) as caught:
        reference.find_deleted(["001"], homes)
    assert set(caught.value.candidates) == folders
    for home in homes:
        (each,) = reference.find_deleted(
            [os.path.join(home.path, "conversations/2025-11-22/001-plan-launch")], homes
        )
        assert each.store.home == home.path


def test_what_does_not_say_where_it_lay_is_found_by_its_folder_alone(tmp_path):
    """Its note is lost: no text but its own name, or a beginning of that, means it."""
    home = Home("aurora", str(tmp_path))
    delete(home, made(home, id="plain"))
    (tmp_path / "trash" / "plain" / "trash.json").unlink()
    for text in ("plain", "aurora:plain", "pl"):
        (each,) = reference.find_deleted([text], [home])
        assert (each.trashed.id, each.path) == ("plain", "")
    for text in ("other", "/", ".", "~", str(tmp_path)):
        with pytest.raises(NotFound):
            reference.find_deleted([text], [home])


def test_a_trash_that_cannot_be_looked_at_hides_no_other(machine, tmp_path):
    """It is told, and named where nothing was found."""
    for home, refs in machine.items():
        delete(home, refs[0])
    blocked = Home("aurora", str(tmp_path / "blocked"))
    Path(blocked.path).mkdir()
    (Path(blocked.path) / "trash").write_text("not a folder")
    problems: list[str] = []
    assert len(reference.deleted([blocked, *machine], problems)) == len(machine)
    assert problems == [f"Cannot read {blocked.path}/trash: Not a directory"]
    with pytest.raises(NotFound) as caught:
        reference.find_deleted(["nowhere"], [blocked, *machine])
    assert f"Cannot read {blocked.path}/trash" in caught.value.hint


def test_what_was_deleted_is_said_to_be_in_the_trash(home):
    """Whoever looks for it has just deleted it, as a rule."""
    store = open_store("pi")
    header = Header("5f0c1b9a7e42", "2026-01-31T09:05:00.123Z")
    ref = store.create(header, [user_entry("hello")])
    assert reference.find("5F0C1B9A7E42")[1].id == ref.id, "upper case is no other id"
    assert reference.find("5f0c…7e42")[1].id == ref.id, "as a listing shows a long one"
    store.delete(ref)
    with pytest.raises(NotFound) as error:
        reference.find("5f0c")
    assert "it was deleted: `pi sessions restore pi:5f0c1b9a7e42`" in error.value.hint
