"""The catalog's file may be damaged, held, gone, or used by others: no answer is wrong."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from perdure import config
from perdure.session import catalog_file
from perdure.session.catalog import Catalog, Scope
from perdure.session.indexing import Indexing
from perdure.session.stores import Found
from perdure.session.stores.file_store import FileStore
from tests import processes
from tests.catalog_scan import (
    CHAIN,
    answer,
    full_scan,
    listed,
    look,
    made,
    more,
    pi_path,
    put,
    store_of,
    titles,
)
from tests.crash.killing import Child, Report, alone
from tests.effort import some
from tests.layouts import ALL

# --- its file -------------------------------------------------------------------------------------------


def test_the_catalog_is_for_its_owner_only(home):
    """What sessions say is nobody else's business."""
    made("pi", "secret")
    old = os.umask(0)
    try:
        with Catalog() as catalog:
            catalog.catch_up(Scope.everything(), text=True)
            folder = Path(catalog.path).parent
            assert folder == home / ".cache" / "perdure"
            assert folder.stat().st_mode & 0o777 == 0o700
            names = sorted(path.name for path in folder.iterdir())
            assert names == ["catalog.db", "catalog.db-shm", "catalog.db-wal"]
            assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    finally:
        os.umask(old)


def test_the_catalog_is_where_caches_are(home, monkeypatch, tmp_path):
    """Where the user keeps them elsewhere, there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    look()
    assert (tmp_path / "perdure" / "catalog.db").is_file()
    assert list(home.iterdir()) == []


def damage(kind: str, path: str) -> None:
    match kind:
        case "garbage":
            Path(path).write_bytes(Random(1).randbytes(9000))
        case "header":
            with open(path, "r+b") as file:
                file.write(b"no such thing")
        case "cut":
            os.truncate(path, 5000)
        case "emptied":
            os.truncate(path, 0)
        case "gone":
            for suffix in ("", "-wal", "-shm"):
                Path(path + suffix).unlink(missing_ok=True)
        case "no tables":
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
                for name in ("session", "reading", "entry", "said"):
                    db.execute(f"DROP TABLE {name}")
        case "of another version":
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
                db.execute("PRAGMA user_version = 99")
        case "of something else":
            Path(path).unlink()
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
                db.execute("CREATE TABLE session (key)")


DAMAGE = [
    "garbage",
    "header",
    "cut",
    "emptied",
    "gone",
    "no tables",
    "of another version",
    "of something else",
]


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_catalog_is_made_anew(kind, workspace, later):
    """Nobody is told, for nothing is lost; and the next one need not read what this one read."""
    for layout in ALL:
        made(layout, layout)
    with Catalog() as catalog:
        catalog.catch_up(Scope.everything(), text=True)
        path = catalog.path
    damage(kind, path)
    for _ in range(2):
        with Catalog() as catalog:
            assert {row.title for row in answer(catalog, Scope.everything(), ["pi"]).rows} == {*ALL}
            assert catalog.notice == ""
    assert titles() == {*ALL}


@pytest.mark.parametrize("first", range(3), ids=["rows", "count", "search"])
@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_between_catching_up_and_the_questions_is_no_answer(kind, first, workspace):
    """They are answered all the same, whichever finds the damage."""
    for layout in ALL:
        made(layout, f"good {layout}", "x" * 20_000)
    every = {f"good {layout}" for layout in ALL}
    scope = Scope.everything()
    questions: list[Callable[[], object]] = [
        lambda: {row.title for row in catalog.rows(scope)} == every,
        lambda: catalog.count(scope) == len(ALL),
        lambda: {hit.row.title for hit in catalog.search(scope, "good").hits} == every,
    ]
    with Catalog() as catalog:
        catalog.catch_up(scope, text=True)
        catalog._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        catalog._db.execute("PRAGMA cache_size = 0")
        damage(kind, catalog.path)
        assert all(question() for question in (*questions[first:], *questions[:first]))
    with Catalog() as catalog:
        catalog.catch_up(scope, text=True)
        assert all(question() for question in questions)


BLOCKED: dict[str, Callable[[Path], object]] = {
    "a folder in its place": lambda path: path.mkdir(parents=True),
    "a file in its folder's place": lambda path: put(path.parent, b"a file"),
    "a folder in its log's place": lambda path: path.with_name("catalog.db-wal").mkdir(parents=True),
}


@pytest.mark.parametrize("kind", BLOCKED)
def test_a_catalog_that_cannot_be_kept_is_in_memory_and_says_so(kind, workspace, home):
    """With the reason, and where it would be."""
    BLOCKED[kind](home / ".cache" / "perdure" / "catalog.db")
    for layout in ALL:
        made(layout, layout)
    with Catalog() as catalog:
        assert {row.title for row in answer(catalog, Scope.everything(), ["pi"]).rows} == {*ALL}
        assert str(home / ".cache" / "perdure" / "catalog.db") in catalog.notice


ON_A_FULL_DISK = """
import resource, sys
from perdure.session.catalog import Catalog, Scope
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
scope = Scope.everything()
with Catalog() as catalog:
    catalog.catch_up(scope, text=True)
    hits, sessions, _ = catalog.search(scope, "good")
    print(len(catalog.rows(scope)), catalog.count(scope), sessions, catalog.notice)
"""


@pytest.mark.process
@pytest.mark.parametrize("size", [0, 5000, 50_000, 200_000])
def test_a_disk_that_is_full_is_in_nobodys_way(size, workspace):
    """Wherever the catalog stops growing."""
    for number in range(10):
        made("pi", f"good {number}", "x " * 10_000)
    done = processes.run(
        [sys.executable, "-c", ON_A_FULL_DISK, str(size)], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("10 10 10 The catalog ")
    assert titles() == {f"good {number}" for number in range(10)}


@pytest.mark.parametrize("is_new", [True, False], ids=["before its first use", "in use"])
def test_a_catalog_that_another_process_holds_is_done_without(is_new, workspace, monkeypatch):
    """After a wait, from memory, and with a word about it; afterwards it is used again."""
    monkeypatch.setattr(catalog_file, "_WAIT", 0.05)
    path = Path(config.cache("catalog.db"))
    if is_new:
        path.parent.mkdir(parents=True)
    else:
        look(text=True)
    for layout in ALL:
        made(layout, layout)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with Catalog() as catalog:
            assert {row.title for row in answer(catalog, Scope.everything(), ["pi"]).rows} == {*ALL}
            assert "locked" in catalog.notice
    with Catalog() as catalog:
        assert {row.title for row in answer(catalog, Scope.everything(), ["pi"]).rows} == {*ALL}
        assert catalog.notice == ""


def test_a_catalog_that_is_damaged_and_then_held_is_done_without(workspace, monkeypatch):
    """One misfortune after the other."""
    monkeypatch.setattr(catalog_file, "_WAIT", 0.05)
    made("pi", "hello")
    with Catalog() as catalog, contextlib.ExitStack() as held:
        scope = Scope.everything()
        catalog.catch_up(scope)
        catalog._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        catalog._db.execute("PRAGMA cache_size = 0")
        damage("garbage", catalog.path)
        anew = catalog._anew

        def anew_and_held() -> sqlite3.Connection:
            made_anew = anew()
            other = held.enter_context(
                contextlib.closing(sqlite3.connect(catalog.path, isolation_level=None))
            )
            other.execute("BEGIN EXCLUSIVE")
            return made_anew

        monkeypatch.setattr(catalog, "_anew", anew_and_held)
        catalog.catch_up(scope)
        assert [row.title for row in catalog.rows(scope)] == ["hello"]
        assert "locked" in catalog.notice


# --- with others ----------------------------------------------------------------------------------------

ASK = """
import json, sys
from perdure.session.catalog import Catalog, Scope
sys.stdin.readline()
scope = Scope.everything()
with Catalog() as catalog:
    catalog.catch_up(scope, text=True)
    rows = [row.path for row in catalog.rows(scope)]
    hits = [hit.row.path for hit in catalog.search(scope, "good").hits]
    print(json.dumps([rows, hits, catalog.notice]))
"""


@pytest.mark.process
@pytest.mark.parametrize("crowd", [2, 8])
def test_processes_that_catch_up_at_once_all_answer_right(crowd, workspace):
    """And leave one row for each session, and one text for each entry."""
    for number in range(40):
        made(ALL[number % 5], f"good {number}", "and more")
    with contextlib.ExitStack() as ended:
        crowded = [
            ended.enter_context(
                processes.Popen(
                    [sys.executable, "-c", ASK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            )
            for _ in range(crowd)
        ]
        for process in crowded:
            assert process.stdin
            process.stdin.write("\n")
            process.stdin.flush()
        said = [json.loads(process.communicate()[0]) for process in crowded]
    expected = [row.path for row in listed(text="good")]
    for rows, hits, notice in said:
        assert rows == expected
        assert sorted(hits) == sorted(expected)
        assert notice == ""
    with contextlib.closing(sqlite3.connect(config.cache("catalog.db"))) as db:
        counts = {
            "session": 40,
            "reading": 40,
            "entry WHERE id != ''": 80,
            "said WHERE entry != ''": 80,
        }
        for rows, count in counts.items():
            assert db.execute(f"SELECT count(*) FROM {rows}").fetchone() == (count,)


@pytest.mark.long
@pytest.mark.process
def test_processes_that_make_the_catalog_at_once_all_use_it(home):
    """None does without it, and none takes what another has just made for somebody else's, and removes it."""
    assert alone(make_at_once, home=str(home), times=some(40, everything=1000)) == []


def make_at_once(home: str, times: int) -> list[str]:
    """What went wrong."""
    wrong: list[str] = []
    for number in range(times):
        path = f"{home}/{number}/catalog.db"
        wait, go = os.pipe()

        def look(report: Report, path: str = path, wait: int = wait, go: int = go) -> None:
            os.close(go)
            os.read(wait, 1)  # until nobody could write any more
            with Catalog(path) as catalog:
                report([catalog.notice, os.stat(path).st_ino])

        with contextlib.ExitStack() as ended:
            children = [ended.enter_context(Child(look)) for _ in range(8)]
            os.close(go)
            os.close(wait)
            said = [child.next()[0] for child in children]
        wrong += [notice for notice, _ in said if notice]
        if len({inode for _, inode in said} | {os.stat(path).st_ino}) > 1:
            wrong.append(f"{path} was replaced")
    return wrong


@pytest.mark.long
@pytest.mark.process
def test_a_process_killed_while_it_catches_up_leaves_nothing_wrong(workspace, home):
    """At any moment of it, in a new catalog and in one that was there."""
    assert alone(kill_while_catching_up, home=str(home), kills=some(16, everything=80)) > 1


def kill_while_catching_up(home: str, kills: int) -> int:
    """How often it was really in the middle of it."""
    os.environ["HOME"] = home
    random = Random(str(home))
    refs = [(ALL[number % 5], made(ALL[number % 5], f"good {number}", "x " * 500)) for number in range(20)]
    path = config.cache("catalog.db")
    scope = Scope.everything()
    started = time.monotonic()
    catch_up(scope, lambda _: None)
    duration = time.monotonic() - started
    interrupted = 0
    for number in range(kills):
        if number % 4 == 0:
            damage("gone", path)
        for layout, ref in random.sample(refs, 5):
            more(layout, ref, f"more {number}")
        with Child(partial(catch_up, scope)) as child:
            time.sleep(random.random() * 1.5 * duration)
            child.kill()
            interrupted += child.status != 0
        with Catalog() as catalog:
            said = answer(catalog, scope, ["good", "more"])
            expected = full_scan(scope, ["good", "more"])
            assert said.rows == expected.rows
            for word in said.hits:
                assert {hit[:3] for hit in said.hits[word]} == {hit[:3] for hit in expected.hits[word]}
            assert catalog.notice == ""
    return interrupted


def catch_up(scope: Scope, report: Report) -> None:
    with Catalog() as catalog:
        catalog.catch_up(scope, lambda done, total: report(done), text=True)


def test_a_session_that_is_back_before_another_process_forgets_it_is_listed(home, monkeypatch):
    """Which looked when it was away, and is slower."""
    path = put(pi_path(home), *CHAIN)
    scope = Scope.everything()
    look()
    bring = Indexing.bring_up_to_date
    with Catalog() as quick, Catalog() as slow:

        def meanwhile(self: Indexing, *arguments: Any) -> None:
            monkeypatch.setattr(Indexing, "bring_up_to_date", bring)
            path.with_name("away").rename(path)
            quick.catch_up(scope)
            bring(self, *arguments)

        monkeypatch.setattr(Indexing, "bring_up_to_date", meanwhile)
        path.rename(path.with_name("away"))
        slow.catch_up(scope)
        assert [row.id for row in quick.rows(scope)] == ["s1"]


def test_a_session_that_goes_while_it_is_read_is_not_there(home, monkeypatch):
    """It is no broken one."""
    path = put(pi_path(home), *CHAIN)
    put(pi_path(home, "other.jsonl"), *CHAIN)
    bring = Indexing.bring_up_to_date

    def meanwhile(self: Indexing, *arguments: Any) -> None:
        path.unlink(missing_ok=True)
        bring(self, *arguments)

    monkeypatch.setattr(Indexing, "bring_up_to_date", meanwhile)
    assert [(row.id, row.problem) for row in listed()] == [("other", None)]


@pytest.mark.slow
def test_an_answer_is_of_one_moment(workspace):
    """Though another process changes everything between any two steps of it."""
    refs = {layout: made(layout, "good") for layout in ("pi", "cortext")}
    look(text=True)
    step = 1
    while is_changed_at(step, refs):
        step += 1
        for layout in refs:
            store = store_of(layout)
            assert isinstance(store, FileStore)
            refs[layout] = store.restore(store.trashed()[0].id)
        look(text=True)
    assert step > 2


def is_changed_at(step: int, refs: dict[str, Found]) -> bool:
    """Whether a search has so many steps, and is right if at this one all sessions are deleted."""
    scope = Scope.everything()
    steps = 0

    def meanwhile(_: str) -> None:
        nonlocal steps
        steps += 1
        if steps == step:
            for layout, ref in refs.items():
                store_of(layout).delete(ref)
            other.catch_up(scope, text=True)

    with Catalog() as catalog, Catalog() as other:
        catalog.catch_up(scope, text=True)
        catalog._db.set_trace_callback(meanwhile)
        hits, sessions, _ = catalog.search(scope, "good")
        catalog._db.set_trace_callback(None)
        assert sessions == len(hits)
        assert sessions in (0, len(refs))
    return steps >= step
