"""Nothing that is in one session, or lies beside it, keeps the catalog from telling of the others."""

import contextlib
import json
import os
import sys
import time
from pathlib import Path

import pytest

from perdure.session.catalog import Catalog, Matches, Row, Scope
from perdure.session.layouts import homes
from perdure.session.session import Session
from perdure.session.stores import Header, open_store
from perdure.testing import user_entry
from tests import processes
from tests.layouts import store_of

STAMP = "2026-01-31T09:05:00.123Z"
LONE = "\ud800"


def line(**members: object) -> str:
    return json.dumps({"type": "message", "timestamp": STAMP, **members})


def message(role: str = "user", text: str = "zebra") -> dict[str, object]:
    return {"role": role, "content": [{"type": "text", "text": text}]}


HOSTILE = {
    "a surrogate in the last id": [line(id=f"a{LONE}", parentId=None, message=message())],
    "in a timestamp": [line(id="a", parentId=None, timestamp=LONE, message=message())],
    "in a role": [line(id="a", parentId=None, message=message(role=LONE))],
    "in a text": [line(id="a", parentId=None, message=message(text=f"zebra {LONE}"))],
    "in an id that is there twice": [
        line(id=LONE, parentId=None, message=message()),
        line(id=LONE, parentId=None, message=message(text="another zebra")),
    ],
    "in a name": [
        line(id="a", parentId=None, message=message()),
        line(id="b", type="session_info", name=LONE),
    ],
    "in a tool's arguments": [
        line(
            id="a",
            parentId=None,
            message={
                "role": "assistant",
                "content": [
                    {"type": "toolCall", "id": "c", "name": LONE, "arguments": {LONE: ["zebra", LONE]}}
                ],
            },
        )
    ],
    "NUL characters": [line(id="a\0b", parentId="\0", message=message(text="zebra\0zebra"))],
    "times beyond all calendars": [
        line(id=str(number), parentId=None, timestamp=text, message=message())
        for number, text in enumerate(
            ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "1e99", "", "-1"]
        )
    ],
    "members of other types": [
        line(id=1, parentId=[], timestamp={}, message="x"),
        line(id={}, parentId=7, message={"role": [], "content": {"a": 1}}),
        line(id="z", parentId=None, message=message()),
        '{"type":"message","id":"n","parentId":null,"timestamp":1e400,"message":{"role":"user","content":"zebra"}}',
    ],
    "nested deeply": [
        line(id="a", parentId=None, message=message()),
        '{"type":"x","a":' + "[" * 3000 + "]" * 3000 + "}",
    ],
}


@pytest.fixture
def around(home, tmp_path, monkeypatch):
    """Sound sessions, which must be listed and found whatever else is there; and a place beside them."""
    monkeypatch.chdir(tmp_path)
    store = open_store("pi")
    for id in ("before", "behind"):
        store.create(Header(id, STAMP), [user_entry("a zebra")])
    return Path(next(store.list()).path).parent


def answers() -> tuple[list[Row], Matches]:
    scope = Scope.everything()
    with Catalog() as catalog:
        assert catalog.catch_up(scope, text=True) == []
        rows, found = catalog.rows(scope), catalog.search(scope, "zebra")
        assert catalog.notice == ""
    return rows, found


def shown_by_the_program(*words: str) -> str:
    command = [sys.executable, "-m", "perdure", "sessions", *words]
    done = processes.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 3), done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.mark.process
@pytest.mark.parametrize("what", HOSTILE)
def test_a_session_with_anything_in_it_is_listed_and_hides_no_other(what, around):
    """Also again, when what is known of it is gone on from, and as JSON."""
    path = around / "2026-01-31T09-05-00-124Z_hostile.jsonl"
    header = '{"type":"session","version":3,"id":"hostile","timestamp":"2026-01-31T09:05:00.124Z","cwd":"/"}'
    path.write_text("\n".join([header, *HOSTILE[what], ""]))
    for _ in range(2):
        rows, found = answers()
        assert {row.id for row in rows} == {"before", "behind", "hostile"}
        assert {"before", "behind"} <= {hit.row.id for hit in found.hits}
        assert all(isinstance(hit.entry, str) and isinstance(hit.role, str) for hit in found.hits)
        (hostile,) = [row for row in rows if row.id == "hostile"]
        assert (hostile.messages or 0) >= 1
        with path.open("a") as file:
            file.write(line(id=f"more{time.time_ns()}", parentId=None, message=message()) + "\n")
    assert len(json.loads(shown_by_the_program("ls", "--all", "--json"))) == 3
    assert len(json.loads(shown_by_the_program("search", "--all", "zebra", "--json"))) >= 2


@pytest.mark.process
@pytest.mark.parametrize("program", ["pi", "sibyl", "cortext"])
def test_links_that_lead_nowhere_or_back_end_no_listing(program, around, tmp_path, monkeypatch):
    """Each verb still answers."""
    root = {
        "pi": around.parent,
        "sibyl": Path(os.environ["HOME"], ".sibyl", "sessions"),
        "cortext": tmp_path / "conversations",
    }[program]
    (tmp_path / ".workspace").mkdir()
    root.mkdir(parents=True, exist_ok=True)
    (root / "loop").symlink_to("loop")
    (root / "nowhere").symlink_to("absent")
    assert program in {home.program for home in homes()}
    rows, _ = answers()
    assert {"before", "behind"} <= {row.id for row in rows}
    for words in (["ls", "--all"], ["show", "before"], ["stats"]):
        assert shown_by_the_program(*words)


def test_a_file_from_the_end_of_all_times_is_listed(around):
    path = around / "odd.jsonl"
    path.write_text(line(id="a", parentId=None, timestamp="", message=message()) + "\n")
    os.utime(path, (2**40, 2**40))
    rows, _ = answers()
    assert {row.id for row in rows} == {"before", "behind", "odd"}


def test_one_that_goes_while_it_is_read_is_not_listed(around, monkeypatch):
    """Whoever looked just after would not have seen it either."""
    from perdure.session.stores.pi_jsonl import PiStore

    read = PiStore.read

    def slow(self, ref, *rest):
        if ref.id == "behind":
            os.unlink(ref.path)
        return read(self, ref, *rest)

    monkeypatch.setattr(PiStore, "read", slow)
    rows, _ = answers()
    assert [row.id for row in rows] == ["before"]


@pytest.mark.slow
def test_a_thousand_workspaces_are_no_obstacle(home, tmp_path, monkeypatch):
    """And the catalog is not thrown away for them."""
    monkeypatch.chdir(tmp_path)
    (home / ".cortext").mkdir()
    places = [tmp_path / f"w{number}" for number in range(1200)]
    for place in places:
        (place / ".workspace").mkdir(parents=True)
    (home / ".cortext" / "workspaces").write_text("\n".join(map(str, places)))
    store = store_of("cortext", places[700])
    header = Header("2026-01-31/001-plan-x", STAMP)
    store.create(header, [user_entry("zebra")])
    rows, found = answers()
    assert [row.id for row in rows] == [hit.row.id for hit in found.hits] == [header.id]


def test_an_incremental_reading_of_a_conversation_that_does_not_say_when_it_began(
    tmp_path, home, monkeypatch
):
    """It began with its first message, however it is read."""
    (tmp_path / ".workspace").mkdir()
    monkeypatch.chdir(tmp_path)
    store = open_store("cortext", str(tmp_path))
    ref = store.create(Header("2026-01-01/001-plan-x", STAMP), [user_entry("first")])
    state = Path(ref.path).with_name("session.json")
    known = json.loads(state.read_text())
    del known["created_at"]
    state.write_text(json.dumps(known))
    seen = set()
    for _ in range(3):
        rows, _ = answers()
        seen.add(rows[0].created)
        with open(ref.path, "a") as file:
            file.write(
                json.dumps({"role": "user", "content": "more", "timestamp": "2026-05-05T10:00:00Z"}) + "\n"
            )
    assert len(seen) == 1


@pytest.mark.slow
def test_a_file_of_megabytes_that_was_rewritten_and_grew_is_read_anew(around):
    """Not only its end is compared."""
    path = around / "big.jsonl"
    lines = [line(id="a", parentId=None, message=message(text="TITLE ONE"))]
    lines += [line(id=f"e{n}", parentId="a", message=message(text="x" * 4000)) for n in range(600)]
    path.write_text("\n".join([*lines, ""]))
    answers()
    lines[0] = lines[0].replace("TITLE ONE", "TITLE TWO")
    with path.open("r+") as file:
        file.write("\n".join([*lines, line(id="last", parentId="a", message=message()), ""]))
    rows, _ = answers()
    assert {row.title for row in rows} == {"a zebra", "TITLE TWO"}


@pytest.mark.process
def test_since_may_be_any_time(around):
    scope = Scope.everything()
    with Catalog() as catalog:
        catalog.catch_up(scope, text=True)
        assert catalog.search(scope, "zebra", since=10**15).hits == []
    assert shown_by_the_program("search", "--all", "zebra", "--since", "2900-01-01") == ""


def test_tables_of_somebody_else_are_no_catalog(around):
    import sqlite3

    with Catalog() as catalog:
        path = catalog.path
    os.unlink(path)
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE session (mine TEXT)")
    rows, _ = answers()
    assert len(rows) == 2


def test_a_session_that_is_named_is_found_by_that_name_only(around):
    store = open_store("pi")
    ref = next(ref for ref in store.list() if ref.id == "before")
    with Session.open(store, ref) as session:
        session.rename("the zebra plan")
    _, found = answers()
    assert {hit.row.id for hit in found.hits} == {"before", "behind"}
