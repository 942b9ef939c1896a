"""Whatever happens to sessions and to the catalog, a listing says what reading every session anew says.

One rule is one thing that happens: what this program writes, what others do to the files (both are in
`catalog_sessions`), what becomes of the catalog, what time it is, who else catches up. After it somebody
looks, and three have to agree: the catalog, one that knew nothing before, and the stores themselves.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import ClassVar, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test

from perdure.session.catalog import Catalog, Row, Scope
from perdure.session.layouts import homes
from tests import processes
from tests.catalog_scan import Answer, Scan, answer, full_scan, is_about, scan, seen_in
from tests.catalog_sessions import HOUR, PROJECTS, WORDS, Sessions, numbers, overwrite, remove

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
DEFAULT_EXAMPLES = 30
scopes = st.sampled_from(["", *PROJECTS])


class Truth(NamedTuple):
    fresh: Answer
    found: Scan


class Listings(Sessions):
    other: ClassVar[subprocess.Popen[str]]

    def teardown(self) -> None:
        for catalog in self.open:
            catalog.close()
        super().teardown()

    def __init__(self) -> None:
        super().__init__()
        self.catalog = self.home / ".cache" / "perdure" / "catalog.db"
        self.open: list[Catalog] = []
        self.quiet = 0

    # --- what becomes of the catalog ---------------------------------------------------------------------

    @rule(
        seed=st.integers(0, 2**32),
        kind=st.sampled_from(["gone", "garbage", "header", "cut", "page", "empty"]),
    )
    def damage_the_catalog(self, seed: int, kind: str) -> None:
        random = Random(seed)
        if not self.catalog.is_file():
            return
        data = self.catalog.read_bytes()
        match kind:
            case "gone":
                for each in self.files_of_the_catalog():
                    each.unlink()
            case "garbage":
                self.catalog.write_bytes(random.randbytes(len(data)))
            case "header":
                overwrite(self.catalog, 0, random.randbytes(random.randrange(1, 100)))
            case "cut":
                os.truncate(self.catalog, random.randrange(len(data) + 1))
            case "page" if nodes := [at for at in range(0, len(data), 4096) if data[at] in (2, 5, 10, 13)]:
                overwrite(self.catalog, random.choice(nodes), bytes(4096))
            case "empty":
                self.catalog.write_bytes(b"")

    @rule(version=st.sampled_from([0, 2, 2**31 - 1]))
    def be_of_another_version(self, version: int) -> None:
        if self.catalog.is_file():
            with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(self.catalog)) as db:
                db.execute(f"PRAGMA user_version = {version}")

    @rule()
    def keep_a_copy(self) -> None:
        for each in self.aside.glob("catalog.db*"):
            each.unlink()
        for each in self.files_of_the_catalog():
            shutil.copy2(each, self.aside)

    @rule(seed=st.integers(0, 2**32), wal=st.sampled_from(["whole", "lost", "cut", "damaged"]))
    def put_the_copy_back(self, seed: int, wal: str) -> None:
        """As after a crash, or from a backup: nobody has it open."""
        random = Random(seed)
        copy = self.aside / "catalog.db"
        if not copy.exists() or not self.catalog.parent.is_dir() or self.catalog.is_dir():
            return
        for catalog in self.open:
            catalog.close()
        self.open = []
        for each in self.files_of_the_catalog():
            each.unlink()
        shutil.copy2(copy, self.catalog)
        log = copy.with_name("catalog.db-wal")
        if log.exists() and wal != "lost":
            data = bytearray(log.read_bytes())
            if data and wal == "cut":
                del data[random.randrange(len(data)) :]
            if data and wal == "damaged":
                data[random.randrange(len(data))] ^= 255
            self.catalog.with_name(log.name).write_bytes(data)

    @rule(how=st.sampled_from(["folder", "file"]))
    def have_no_place_for_the_catalog(self, how: str) -> None:
        """Or have one again."""
        parent = self.catalog.parent
        if self.is_blocked():
            remove(self.catalog if parent.is_dir() else parent)
        elif how == "folder":
            parent.mkdir(parents=True, exist_ok=True)
            self.catalog.unlink(missing_ok=True)
            self.catalog.mkdir()
        else:
            remove(parent)
            parent.parent.mkdir(exist_ok=True)
            parent.write_text("not a folder")

    def is_blocked(self) -> bool:
        return self.catalog.is_dir() or self.catalog.parent.is_file()

    def files_of_the_catalog(self) -> list[Path]:
        names = (self.catalog.with_name(self.catalog.name + suffix) for suffix in ("", "-wal", "-shm"))
        return [path for path in names if path.is_file()]

    # --- who else is there, and what time it is ----------------------------------------------------------

    @rule(ahead=st.sampled_from([-24 * HOUR, -HOUR, 0, HOUR, 24 * HOUR]))
    def set_the_clock(self, ahead: int) -> None:
        """Not ahead where times are whole seconds: a file is then settled in the second it was changed."""
        if ahead <= 0 or not self.world.is_coarse:
            self.be(self.world._replace(ahead=ahead))

    @rule()
    def open_a_catalog(self) -> None:
        if len(self.open) < 3:
            self.open.append(Catalog())

    @precondition(lambda self: self.open)
    @rule(number=numbers, project=scopes, text=st.booleans())
    def use_an_open_catalog(self, number: int, project: str, text: bool) -> None:
        self.check(self.open[number % len(self.open)], project, self.truth(text))

    @precondition(lambda self: self.open)
    @rule(number=numbers)
    def close_a_catalog(self, number: int) -> None:
        self.open.pop(number % len(self.open)).close()

    @rule(project=scopes, text=st.booleans())
    def let_another_process_look(self, project: str, text: bool) -> None:
        cwd = str(self.home / project) if project else ""
        assert self.other.stdin
        assert self.other.stdout
        print(json.dumps([self.world, cwd, WORDS if text else ()]), file=self.other.stdin, flush=True)
        said = json.loads(self.other.stdout.readline())
        expected = self.expected(project, self.truth(False))
        assert sorted(map(tuple, said)) == sorted(map(seen_in, expected))

    # --- somebody looks ----------------------------------------------------------------------------------

    @rule(steps=st.integers(1, 4))
    def look_away(self, steps: int) -> None:
        self.quiet = steps

    @invariant()
    def all_agree(self) -> None:
        if self.quiet:
            self.quiet -= 1
            return
        self.serial += 1
        truth = self.truth(text=self.serial % 2 == 0)
        with Catalog() as catalog:
            self.check(catalog, "", truth)
            self.check(catalog, PROJECTS[self.serial % 3], truth)
            assert bool(catalog.notice) >= self.is_blocked()

    def truth(self, text: bool) -> Truth:
        """What a catalog says that knew nothing, and what the stores say: the same."""
        fresh = full_scan(Scope.everything(), WORDS if text else ())
        found = scan(homes())
        assert {row.path: seen_in(row) for row in fresh.rows} == found.sessions
        assert len(fresh.problems) == len(found.unreadable)
        return Truth(fresh, found)

    def expected(self, project: str, truth: Truth) -> list[Row]:
        cwd = str(self.home / project)
        rows = truth.fresh.rows
        return [row for row in rows if not project or is_about(row, truth.found.homes[row.path], cwd)]

    def check(self, catalog: Catalog, project: str, truth: Truth) -> None:
        scope = Scope.project(str(self.home / project)) if project else Scope.everything()
        said = answer(catalog, scope, [*truth.fresh.hits])
        expected = self.expected(project, truth)
        assert said.rows == expected
        assert len(said.problems) == len(truth.found.unreadable & {*scope.homes})
        assert catalog.count(scope) == len(said.rows)
        assert [row._replace(key=0) for row in catalog.rows(scope, limit=3)] == said.rows[:3]
        in_scope = {row.path for row in expected}
        for word, hits in said.hits.items():
            saying = {path: ids for path, ids in truth.found.saying(word).items() if path in in_scope}
            found = {hit.row.path: hit.entry for hit in hits}
            assert found.keys() == saying.keys()
            assert all(entry in saying[path] for path, entry in found.items())


@pytest.mark.hypothesis
def test_a_listing_is_what_a_full_scan_says_at_any_moment():
    """Of everything and of one project, rows and hits, whoever asks.

    A failure prints what happened, step by step. Only a long run takes the minutes to make that shorter.
    """
    is_long = settings().max_examples > DEFAULT_EXAMPLES
    program = "from tests.catalog_scan import serve; serve()"
    with processes.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as Listings.other:
        run_state_machine_as_test(
            Listings,
            settings=settings(
                max_examples=1000 if is_long else 6,
                stateful_step_count=30,
                phases=list(Phase) if is_long else [Phase.reuse, Phase.generate],
                suppress_health_check=list(HealthCheck),
                report_multiple_bugs=False,
            ),
        )
