"""What a row and a hit of the catalog say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.session import catalog as catalog_module
from perdure.session import lifecycle
from perdure.session.catalog import Catalog, Lasting, Scope
from perdure.session.query import MARK, UNMARK
from perdure.session.session import Session
from tests import pi_files, processes
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
    store_of,
)
from tests.layouts import ALL

# --- what a row says ------------------------------------------------------------------------------------

HOLD = """
import json, sys
from perdure.session.session import Session
from perdure.session.stores import Found, open_store
held = [Session.open(open_store(*home), Found(*ref)) for home, ref in json.load(sys.stdin)]
print("holding", flush=True)
import time; time.sleep(600)
"""


@pytest.mark.process
def test_who_is_alive_is_asked_of_the_lock(workspace):
    """Now, and not when the session was read: a process that dies records nothing."""
    refs = {layout: made(layout, "hello") for layout in ALL}
    over = {layout: made(layout, "over") for layout in ALL}
    for layout, ref in over.items():
        more(layout, ref, "done")
    for kind in (lifecycle.AURORA, lifecycle.CORTEXT):
        name = "aurora" if kind is lifecycle.AURORA else "cortext"
        with Session.open(store_of(name), over[name]) as session:
            kind.change(session, "completed")
    dead = {"pi": "interrupted", "aurora": "interrupted", "soleur": "interrupted", "sibyl": "interrupted"}
    dead["cortext"] = "paused"
    ended = {"pi": "idle", "aurora": "completed", "soleur": "idle", "sibyl": "idle", "cortext": "completed"}
    assert statuses("hello") == dead
    assert statuses("done") == ended
    with processes.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout
        json.dump([[home_of(layout), ref] for layout, ref in refs.items()], process.stdin)
        process.stdin.close()
        assert process.stdout.readline() == "holding\n"
        rows = [row for row in listed() if row.preview == "hello"]
        assert {row.status for row in rows} == {"active"}
        with Catalog() as catalog:
            scope = Scope.everything()
            assert {row.program for row in catalog.rows(scope, status="active")} == {*ALL}
            assert len(catalog.rows(scope, status="active", limit=2)) == 2
        process.kill()
        process.wait()
        assert {row.program: row.status for row in rows} == dead
    assert statuses("hello") == dead


def statuses(preview: str) -> dict[str, str]:
    return {row.program: row.status for row in listed() if row.preview == preview}


def test_names_that_are_no_text_come_back_as_they_are(home):
    """Of files, of folders, of directories: a file system has bytes."""
    cwd = os.fsdecode(b"/caf\xe9")
    ref = made("pi", "hello", cwd=cwd)
    path = Path(os.path.dirname(ref.path), os.fsdecode(b"\xff\xfe.jsonl"))
    os.rename(ref.path, path)
    for scope in (Scope.everything(), Scope.project(cwd)):
        (row,) = listed(scope, "hello")
        assert row.path == str(path)
        assert os.path.exists(row.path)
        assert (row.id, row.cwd) == ("\udcff\udcfe", cwd)
        with Catalog() as catalog:
            catalog.catch_up(scope)
            assert catalog.short(row) == row.id
    path.unlink()
    assert listed() == []


HUGE = "long \u202e\x00\x9b\r\n\t " * 1000 + "end"


@pytest.mark.parametrize("layout", ALL)
def test_a_huge_title_full_of_control_characters_becomes_one_line(layout, workspace):
    """In full where it is a name, else of a readable length; what was said is found all the same."""
    ref = made(layout, HUGE)
    if layout != "sibyl":
        with Session.open(store_of(layout), ref) as session:
            session.rename(HUGE)
    (row,) = listed(text="long")
    is_named = layout != "sibyl"
    assert row.title == ("long " * 1000 + "end" if is_named else row.preview)
    assert (row.facts["title_is_cut"], row.facts["preview_is_cut"]) == (not is_named, True)
    assert len(row.preview) == 200
    assert (row.title + row.preview).isprintable()
    assert len(found("end")) == 1


def test_the_last_talked_in_is_first(home):
    """By what was said and when, whatever the files' own times; of equal ones always the same order."""
    for number, minute in enumerate([5, 1, 9, 3]):
        line = pi_files.said("m1", None, f"at {minute}").replace(b"09:05", b"09:%02d" % minute)
        path = put(pi_path(home, f"{number}.jsonl"), pi_files.HEADER, line)
        os.utime(path, (number, number))
    rows = listed()
    assert [row.title for row in rows] == ["at 9", "at 5", "at 3", "at 1"]
    with Catalog() as catalog:
        scope = Scope.everything()
        assert [row.title for row in catalog.rows(scope, limit=2)] == ["at 9", "at 5"]
        assert catalog.count(scope) == 4


def test_sessions_of_one_id_and_one_time_have_one_order(home):
    """Whichever was known first: a listing does not depend on its own past."""
    names = ["--a--", "--b--", "--c--", "--d--"]
    for name in (names[2], names[0], names[3], names[1]):
        put(pi_path(home, folder=name), *CHAIN)
        listed()
    assert len(listed()) == 4


class Part(Lasting, namedtuple("Part", "id program title recorded waits lock path")):
    __slots__ = ()


def test_a_part_of_every_row_is_that_part_in_the_same_order(workspace):
    """Names that are no text included; and by status, too."""
    refs = {layout: made(layout, f"hello {number}") for layout in ALL for number in range(2)}
    os.rename(refs["pi"].path, Path(os.path.dirname(refs["pi"].path), os.fsdecode(b"\xff\xfe.jsonl")))
    rows = listed()
    with Catalog() as catalog:
        scope = Scope.everything()
        parts = catalog.some(scope, Part)
        assert len(parts) == 10
        assert "\udcff\udcfe" in {part.id for part in parts}
        assert parts == [Part._make(getattr(row, name) for name in Part._fields) for row in rows]
        assert [part.status for part in parts] == [row.status for row in rows]
        paused = [row.id for row in rows if row.status == "paused"]
        assert [part.id for part in catalog.some(scope, Part, status="paused")] == paused


def test_what_is_over_asks_no_lock(workspace, monkeypatch):
    """Of thousands of sessions, nearly all are."""
    for kind, name, status in (
        (lifecycle.AURORA, "aurora", "completed"),
        (lifecycle.CORTEXT, "cortext", "paused"),
    ):
        with Session.open(store_of(name), made(name, "over")) as session:
            kind.change(session, status)
    rows = listed()
    monkeypatch.setattr(catalog_module, "holder_at", None)
    assert {row.status for row in rows} == {"completed", "paused"}


def test_of_equal_hits_one_is_the_best_however_they_were_read(home):
    """One after the other, or all at once."""
    path = put(pi_path(home), pi_files.HEADER)
    for number in range(1, 6):
        append(path, pi_files.said(f"m{number}", f"m{number - 1}" if number > 1 else None, "same") + b"\n")
        listed(text="same")


@pytest.mark.slow
def test_entries_without_a_time_cost_no_more_than_others(home):
    """Thousands of them are of the same moment."""
    took = []
    for stamp in (pi_files.STAMP, ""):
        lines = [
            pi_files.said(f"m{n}", f"m{n - 1}" if n > 1 else None).replace(pi_files.STAMP.encode(), moment)
            for n in range(1, 8000)
            for moment in (
                [b"2026-01-31T%02d:%02d:00.%03dZ" % (n // 600 % 24, n // 10 % 60, n % 1000)]
                if stamp
                else [b""]
            )
        ]
        put(pi_path(home), pi_files.HEADER, *lines)
        started = time.process_time()
        look(text=True)
        took.append(time.process_time() - started)
    timed, untimed = took
    assert untimed < 4 * timed + 0.3


def test_progress_is_told_up_to_the_end(workspace):
    """One by one, and nothing where nothing is to be done."""
    for number in range(12):
        made(ALL[number % 5], "hello")
    told: list[tuple[int, int]] = []
    with World(os.environ["HOME"], HOUR).entered(), Catalog() as catalog:
        scope = Scope.everything()
        catalog.catch_up(scope, lambda *numbers: told.append(numbers))
        assert told == [(number, 12) for number in range(1, 13)]
        told.clear()
        catalog.catch_up(scope, lambda *numbers: told.append(numbers))
        assert told == []


ids = st.lists(st.text("ab1", min_size=6, max_size=11), min_size=1, max_size=12, unique=True)


@given(names=ids)
def test_a_short_id_is_the_beginning_of_one_session_alone(tmp_path_factory, names):
    """And not too short to be recognised."""
    home = tmp_path_factory.mktemp("home")
    for name in names:
        put(pi_path(home, f"{name}.jsonl"))
    with World(str(home)).entered(), Catalog() as catalog:
        scope = Scope.everything()
        catalog.catch_up(scope)
        for row in catalog.rows(scope):
            short = catalog.short(row)
            assert row.id.startswith(short)
            assert len(short) >= min(8, len(row.id))
            assert short == row.id or [name for name in names if name.startswith(short)] == [row.id]


# --- search ---------------------------------------------------------------------------------------------


def test_a_hit_is_the_best_message_of_its_session(home):
    """With who said it, when, and the words marked."""
    put(
        pi_path(home),
        pi_files.HEADER,
        pi_files.said("m1", None, "a token in a long text about many other things that nobody asked for"),
        pi_files.said("m2", "m1", "token", role="assistant"),
        pi_files.said("m3", "m2", "thanks"),
    )
    scope = Scope.everything()
    with Catalog() as catalog:
        catalog.catch_up(scope, text=True)
        (hit,), sessions, is_all = catalog.search(scope, "token")
        assert (sessions, is_all) == (1, True)
        assert (hit.row.id, hit.entry, hit.at) == ("s1", "m2", 1769850300123)
        assert hit.snippet == f"{MARK}token{UNMARK}"
        (hit,), *_ = catalog.search(scope, "token", role="user")
        assert (hit.entry, hit.role) == ("m1", "user")
        assert catalog.search(scope, "token", role="tool") == ([], 0, True)
        assert catalog.search(scope, "token thanks") == ([], 0, True)


@pytest.mark.parametrize("layout", ["pi", "aurora", "soleur", "cortext"])
def test_a_session_is_found_by_what_it_is_called_now(layout, workspace):
    """And not by what it was called before, however it was read."""
    ref = made(layout, "hello")
    for before, now in [("nothing", "alfa"), ("alfa", "brav")]:
        with Session.open(store_of(layout), ref) as session:
            session.rename(now)
        assert found(now) == [now]
        assert found(before) == []
        listed(text=now)


def test_a_search_may_begin_at_any_moment(home):
    """Also long before the first session, and long after the last."""
    put(pi_path(home), *CHAIN)
    at = 1769850300123
    for since, count in [(0, 1), (-1, 1), (at, 1), (at + 1, 0), (253402300799999, 0), (2**63, 0), (2**80, 0)]:
        assert len(found("text", since=since)) == count


def test_a_search_finds_no_more_than_it_is_asked_for(workspace):
    """And says how many there are."""
    for layout in ALL:
        made(layout, "good")
    scope = Scope.everything()
    with Catalog() as catalog:
        catalog.catch_up(scope, text=True)
        hits, sessions, is_all = catalog.search(scope, "good", limit=2)
        assert (len(hits), sessions, is_all) == (2, len(ALL), True)
        assert catalog.search(scope.of("pi"), "good").sessions == 1


def test_of_very_many_hits_the_newest_are_looked_at(home, monkeypatch):
    """Of those that are asked for: others take nobody's place. It is said that there are more."""
    monkeypatch.setattr(catalog_module, "MOST_RANKED", 3)
    for number in range(6):
        line = pi_files.said("m1", None, f"good {number}").replace(b"09:05", b"09:%02d" % number)
        put(pi_path(home, f"{number}.jsonl", f"--{'old' if number < 3 else 'new'}--"), pi_files.HEADER, line)
    everything, old = Scope.everything(), Scope.project("/old")
    with Catalog() as catalog:
        catalog.catch_up(everything, text=True)
        hits, _, is_all = catalog.search(everything, "good", role="user", limit=3)
        assert sorted(hit.row.id for hit in hits) == ["3", "4", "5"]
        assert not is_all
        assert len(catalog.search(old, "good", role="user", limit=3).hits) == 3
        hits, _, is_all = catalog.search(everything, "good", role="user")
        assert (len(hits), is_all) == (6, True)
