"""The catalog misses no change, reads no more than it has to, and lets no session hide another."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.session.catalog import Catalog, Scope
from perdure.session.stores import START, Cursor, Found, Page, Store
from perdure.session.stores.jsonl import JsonlStore
from perdure.session.stores.whole_file import WholeFileStore
from tests import aurora_files, pi_files
from tests.catalog_scan import (
    CHAIN,
    HOUR,
    World,
    append,
    found,
    home_of,
    listed,
    look,
    made,
    more,
    pi_path,
    put,
    titles,
)
from tests.layouts import ALL
from tests.moments import next_moment

LINES = ("pi", "aurora", "cortext")


# --- what is read, and what is not ----------------------------------------------------------------------


@pytest.fixture
def readings(monkeypatch) -> list[Cursor]:
    """From where sessions were read, since this was last emptied."""
    begun: list[Cursor] = []
    for kind in (JsonlStore, WholeFileStore):

        def spied(self: Store, ref: Found, after: Cursor = START, read: Any = kind.read) -> Page:
            begun.append(after)
            return read(self, ref, after)

        monkeypatch.setattr(kind, "read", spied)
    return begun


@pytest.mark.parametrize("text", [False, True], ids=["to list", "to search"])
@pytest.mark.parametrize("layout", LINES)
def test_a_session_that_grew_is_read_from_where_it_ended(layout, text, workspace, readings):
    """Whatever its size, and though nothing of it is settled yet."""
    ref = made(layout, *[f"word {number} " + "x" * 1000 for number in range(200)])
    look(text)
    assert readings == [START]
    size = os.path.getsize(ref.path)
    assert size > 200_000
    for word in ("first", "second"):
        more(layout, ref, word)
        readings.clear()
        look(text)
        (cursor,) = readings
        assert cursor.offset >= size
        assert [row.preview for row in listed()] == [word]


@pytest.mark.parametrize("layout", ALL)
def test_what_did_not_change_is_not_read(layout, workspace, later, readings):
    """Once its files' times would tell a change; and text is read once, when somebody first wants it."""
    made(layout, "hello")
    for text, expected in [(False, [START]), (False, []), (True, [START]), (True, []), (False, [])]:
        readings.clear()
        look(text)
        assert readings == expected
    assert found("hello") == ["hello"]


@pytest.mark.parametrize("layout", ALL)
def test_what_just_changed_is_looked_at_until_its_times_tell(layout, workspace, readings):
    """A second change in the same tick of the clock has the first one's time."""
    made(layout, "hello")
    look()
    readings.clear()
    look()
    assert len(readings) == 1


def test_a_listing_of_one_project_reads_no_other(home, readings):
    """Where each project has a folder."""
    made("pi", "mine", cwd="/mine")
    made("pi", "theirs", cwd="/theirs")
    scope = Scope.project("/mine")
    with Catalog() as catalog:
        catalog.catch_up(scope)
        assert [row.title for row in catalog.rows(scope)] == ["mine"]
    assert readings == [START]
    assert titles() == {"mine", "theirs"}


def test_text_that_is_known_stays_up_to_date_in_every_listing(workspace):
    """Also where only rows were asked for in between."""
    refs = {layout: made(layout, "alfa") for layout in ALL}
    look(text=True)
    for layout, ref in refs.items():
        more(layout, ref, "brav")
        next_moment()  # hits come in the order of their times
    look()
    assert len(found("brav")) == len(found("alfa")) == len(ALL)
    listed(text="brav")


# --- what others do to a file ---------------------------------------------------------------------------


def in_place(path: Path, old: bytes, new: bytes, *, keep_times: bool = True) -> None:
    times = path.stat()
    data = path.read_bytes()
    assert len(old) == len(new)
    with path.open("r+b") as file:
        file.seek(data.index(old))
        file.write(new)
    if keep_times:
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def in_place_and_more(path: Path) -> None:
    in_place(path, b"text 1", b"TEXT 1")
    append(path, pi_files.said("m4", "m3") + b"\n")


def replace(path: Path, data: bytes) -> None:
    """With the same size, if that is given, and with the same times."""
    times = path.stat()
    path.with_name("new").write_bytes(data)
    os.replace(path.with_name("new"), path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


WAYS: dict[str, Callable[[Path], object]] = {
    "one word in place": lambda path: in_place(path, b"text 1", b"TEXT 1"),
    "one word in place, and more": lambda path: in_place_and_more(path),
    "another file of its size": lambda path: replace(path, path.read_bytes().replace(b"text", b"TEXT")),
    "more": lambda path: append(path, pi_files.said("m4", "m3", "more") + b"\n"),
    "half a line": lambda path: append(path, pi_files.said("m4", "m3")[:50]),
    "a line without its end": lambda path: append(path, pi_files.said("m4", "m3")),
    "an id that is there": lambda path: append(path, pi_files.said("m1", None, "other") + b"\n"),
    "a line that is there": lambda path: append(path, CHAIN[-1] + b"\n"),
    "a parent that is missing": lambda path: append(path, pi_files.said("m4", "m99") + b"\n"),
    "a line without an id": lambda path: append(path, pi_files.said("", None) + b"\n"),
    "no record": lambda path: append(path, b"{oops}\n"),
    "another header": lambda path: append(path, pi_files.HEADER.replace(b"s1", b"s2") + b"\n"),
    "less": lambda path: os.truncate(path, path.stat().st_size - 10),
    "nothing": lambda path: os.truncate(path, 0),
    "a time": lambda path: os.utime(path, (0, 0)),
}


@pytest.mark.parametrize("world", [World(""), World("", HOUR), World("", -HOUR), World("", 0, True)], ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_no_change_is_missed(way, world, home):
    """Before its times are settled and after, by a clock that was set back, where times are in seconds."""
    with world._replace(home=str(home)).entered():
        path = put(pi_path(home), *CHAIN)
        listed(text="text")
        WAYS[way](path)
        listed(text="text")
        for line in (pi_files.said("m5", "m1", "again"), pi_files.said("m6", "m5", "text")):
            append(path, line + b"\n")
            listed(text="text")


@pytest.mark.parametrize("layout", LINES)
def test_a_line_that_is_glued_to_the_last_one_is_damage_however_it_is_read(layout, workspace):
    """One program leaves out the last newline, another appends."""
    ref = made(layout, "hello")
    line = {
        "pi": pi_files.said,
        "aurora": aurora_files.turn,
        "cortext": lambda id, parent: json.dumps(
            {"role": "user", "content": "x", "timestamp": pi_files.STAMP, "id": id, "parent_id": parent}
        ).encode(),
    }[layout]
    append(Path(ref.path), line("a1", None))
    assert [row.messages for row in listed()] == [2]
    append(Path(ref.path), line("a2", "a1") + b"\n")
    (row,) = listed()
    assert row.messages == 3
    assert "saved from it" in (row.problem or "")


@pytest.mark.slow
def test_a_change_far_from_the_end_of_a_large_session_is_not_missed(home):
    """In place and of the same length, with more behind it."""
    long = [
        pi_files.said(f"m{n}", f"m{n - 1}" if n > 1 else None, f"text {n} " + "x" * 9000)
        for n in range(1, 400)
    ]
    path = put(pi_path(home), pi_files.HEADER, *long)
    assert path.stat().st_size > 3 * 2**20
    listed()
    WAYS["one word in place, and more"](path)
    (row,) = listed()
    assert row.title.startswith("TEXT 1")


def test_a_change_while_a_session_is_read_is_not_missed(home, monkeypatch):
    """At any point of the reading: what is kept of it is not taken for what is there now."""
    read = JsonlStore.read

    def read_and_changed(self: JsonlStore, ref: Found, after: Cursor = START) -> Page:
        page = read(self, ref, after)
        in_place(path, b"text 1", b"TEXT 1")
        monkeypatch.setattr(JsonlStore, "read", read)
        return page

    for world in (World(str(home)), World(str(home), HOUR)):
        path = put(pi_path(home), *CHAIN)
        monkeypatch.setattr(JsonlStore, "read", read_and_changed)
        with world.entered():
            look()
            (row,) = listed()
            assert row.title == "TEXT 1"


def test_a_conversation_whose_session_folder_becomes_a_link_cannot_be_read_any_more(workspace, later):
    """No link below a workspace is followed; the files themselves are as they were."""
    own = Path(made("cortext", "hello").path).parent
    assert [row.problem for row in listed()] == [None]
    own.rename(workspace / "elsewhere")
    own.symlink_to(workspace / "elsewhere")
    assert [row.status for row in listed()] == ["unreadable"]


@pytest.mark.parametrize("state", ["{}", '{"title":"T","log_bytes":null}', '{"created_at":null}'])
def test_a_conversation_of_another_program_began_with_its_first_message(state, workspace):
    """Where session.json does not say when, however often there is more."""
    ref = made("cortext", "hello")
    path = Path(ref.path)
    lines = [{"role": "user", "content": "x", "timestamp": f"2025-11-22T10:00:0{n}.000Z"} for n in range(3)]
    path.write_text("")
    path.with_name("session.json").write_text(state)
    for line in lines:
        append(path, json.dumps(line).encode() + b"\n")
        (row,) = listed()
        assert row.created == 1763805600000


# --- nobody hides another -------------------------------------------------------------------------------

FILES = {
    "pi": ".pi/agent/sessions/--code--/bad.jsonl",
    "aurora": ".aurora/spawn/sessions/bad.jsonl",
    "soleur": ".soleur/sessions/bad.json",
    "sibyl": ".sibyl/sessions/bad/session.lisp",
    "cortext": "work/conversations/2025-11-22/001-bad/.session/messages.jsonl",
}
BROKEN: dict[str, Callable[[Path], object]] = {
    "garbage": lambda path: path.write_bytes(b"\0\xff{]\n" * 9),
    "a folder": lambda path: path.mkdir(),
    "a dead link": lambda path: path.symlink_to("nowhere"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a pipe": lambda path: os.mkfifo(path),
    "very deep": lambda path: path.write_bytes(b'{"a":' * 100_000),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_session_is_listed_with_its_reason_and_hides_no_other(kind, workspace, home):
    """In every layout."""
    for layout in ALL:
        made(layout, f"good {layout}")
        path = home / FILES[layout]
        path.parent.mkdir(parents=True, exist_ok=True)
        BROKEN[kind](path)
    rows = listed(text="good")
    assert {row.title for row in rows} >= {f"good {layout}" for layout in ALL}
    paths = {str(home / path) for path in FILES.values()}
    bad = {row.program: row.problem or "" for row in rows if row.path in paths}
    assert bad.keys() == {*ALL}
    assert all(bad.values())
    assert len(found("good")) == len(ALL)


ODD = r"\ud800\udc00\udc00 \ud8"[:-4]
HOSTILE = {
    "id": pi_files.said("I", None, "text"),
    "id, twice": pi_files.said("I", None, "text") + b"\n" + pi_files.said("I", None, "other"),
    "parent": pi_files.said("m1", "I", "text"),
    "text": pi_files.said("m1", None, "text I"),
    "role": pi_files.said("m1", None, "text", role="I"),
    "time": pi_files.said("m1", None, "text").replace(pi_files.STAMP.encode(), b"I"),
    "type": pi_files.said("m1", None, "text").replace(b'"type":"message"', b'"type":"I"'),
    "name": b'{"type":"session_info","id":"m1","parentId":null,"timestamp":"x","name":"text I"}',
    "status": b'{"type":"custom","id":"m1","parentId":null,"timestamp":"x","customType":"perdure.status",'
    b'"data":{"status":"I"}}',
    "second header": b'{"type":"session","id":"I","timestamp":"x"}\n' + pi_files.said("m1", None, "text"),
}


@pytest.mark.parametrize("where", HOSTILE)
def test_what_is_no_text_hides_no_other(where, home):
    """JSON can say half of a surrogate pair, wherever it can say a text."""
    put(pi_path(home, "good.jsonl"), *CHAIN)
    put(pi_path(home, "bad.jsonl"), pi_files.HEADER, HOSTILE[where].replace(b"I", rb"\ud800"))
    for _ in range(2):
        rows = listed(text="text")
        assert len(rows) == 2
        for row in rows:
            assert {type(row[at]) for at in range(len(row))} <= {str, int, type(None)}
            assert isinstance(row.status, str)
        append(pi_path(home, "bad.jsonl"), pi_files.said("m9", None, "text") + b"\n")
    with Catalog() as catalog:
        hits = catalog.search(Scope.everything(), "text").hits
        assert {type(value) for hit in hits for value in (hit.entry, hit.role, hit.snippet)} == {str}


@pytest.mark.parametrize("layout", ["pi", "aurora", "soleur", "sibyl"])
def test_a_home_that_cannot_be_looked_at_is_named_and_hides_nothing_else(layout, workspace, home):
    """What was known of it is not shown, for it may be wrong by now; it is there again when the home is."""
    for each in ALL:
        made(each, f"in {each}", cwd=str(home))
    every = {f"in {each}" for each in ALL}
    assert titles() == every
    folder = Path(home_of(layout).sessions)
    folder.rename(folder.with_name("away"))
    folder.write_text("not a folder")
    for scope in (Scope.everything(), Scope.project(str(home))):
        with Catalog() as catalog:
            problems = catalog.catch_up(scope, text=True)
            assert len(problems) == (layout != "sibyl" or not scope.cwd)
            assert all(str(folder) in problem for problem in problems)
            rows = catalog.rows(scope)
            assert layout not in {row.program for row in rows}
            assert catalog.count(scope) == len(rows)
            assert layout not in {hit.row.program for hit in catalog.search(scope, "in").hits}
    assert titles() == every - {f"in {layout}"}
    folder.unlink()
    folder.with_name("away").rename(folder)
    assert titles() == every


@pytest.mark.parametrize("target", ["itself", "nowhere", "a folder", "a file"])
def test_a_link_among_sessions_hides_no_other(target, workspace, home):
    """Wherever it leads, it is not followed."""
    (home / "a folder").mkdir()
    put(home / "a folder" / "x.jsonl", *CHAIN)
    put(home / "a file", *CHAIN)
    for layout in ALL:
        own = Path(made(layout, f"good {layout}").path)
        for above in own.parents:
            if above in (home, Path(home_of(layout).path)):
                break
            link = above / "link"
            link.symlink_to(link if target == "itself" else home / target)
    assert {row.title for row in listed()} >= {f"good {layout}" for layout in ALL}
    assert not any("x.jsonl" in row.path for row in listed())


def test_a_session_and_a_link_that_change_places_are_each_listed_once(home):
    """What was listed before is still reached by its old name, through the link that is there now."""
    folder = Path(made("sibyl", "one").path).parent
    link, aside = folder.with_name("link"), folder.with_name("aside")
    link.symlink_to(link.name)
    assert len(listed()) == 2
    folder.rename(aside)
    link.rename(folder)
    aside.rename(link)
    assert {row.path for row in listed()} == {str(folder), str(link / "session.lisp")}


def test_a_projects_folder_that_is_a_link_is_told_and_not_followed(home):
    """In a listing of the project as in one of everything."""
    root = pi_path(home).parents[1]
    put(home / "away" / "x.jsonl", *CHAIN)
    root.mkdir(parents=True)
    (root / "--linked--").symlink_to(home / "away")
    rows = listed()
    assert [row.path for row in rows] == [str(root / "--linked--")]
    scope = Scope.project("/linked")
    with Catalog() as catalog:
        told = [*catalog.catch_up(scope), *(row.problem for row in catalog.rows(scope))]
        assert any("--linked--" in (each or "") for each in told)
        assert not any("x.jsonl" in (each or "") for each in told)


def test_a_file_in_the_place_of_a_projects_folder_is_none(home):
    """No session is listed there, and nothing is wrong."""
    root = pi_path(home).parents[1]
    root.mkdir(parents=True)
    (root / "--code--").write_text("a note")
    assert listed() == []
    assert listed(Scope.project("/code")) == []
    assert listed() == []


# --- which project --------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["pi", "aurora", "soleur"])
@pytest.mark.parametrize(
    "name", ["code", "my  project", " a b ", "tab\there", "caf\udce9", "x" * 230, "ünï", "a:b", "\u202eevil"]
)
def test_a_session_is_one_of_the_directory_it_was_started_in(layout, name, home):
    """Whatever that is called."""
    cwd = str(home / name)
    made(layout, "mine", cwd=cwd)
    made(layout, "another's", cwd=str(home / "elsewhere"))
    assert titles(Scope.project(cwd)) == {"mine"}
    assert titles() == {"mine", "another's"}


def test_a_conversation_is_one_of_the_workspace_it_is_in(workspace, home):
    """From any directory in it, and from no other."""
    made("cortext", "planned")
    for inside in (workspace, workspace / "deep" / "down"):
        assert titles(Scope.project(str(inside))) == {"planned"}
    for outside in (home, home / "workshop", home / "wor"):
        assert titles(Scope.project(str(outside))) == set()


def test_a_scope_of_one_program_has_that_alone(workspace):
    """And one of none, all."""
    for layout in ALL:
        made(layout, layout)
    for layout in ALL:
        assert titles(Scope.everything().of(layout)) == {layout}
    assert titles(Scope.everything().of("")) == {*ALL}
