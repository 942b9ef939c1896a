"""Whatever happens to sessions and to the catalog, a listing says what reading every session anew says.

One rule is one thing that happens: what this program writes, what others do to the files, what becomes of the
catalog, what time it is, who else catches up. After it somebody looks, and three have to agree: the catalog,
one that knew nothing before, and the stores themselves.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import ClassVar, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from perdure.errors import PerdureError
from perdure.session.catalog import Catalog, Row, Scope
from perdure.session.entry import Entry
from perdure.session.layouts import LAYOUTS, Home, homes
from perdure.session.session import Session
from perdure.session.stores import Found, open_store
from perdure.session.stores.file_store import FileStore
from perdure.testing.builders import assistant_entry, tool_call_entry, user_entry
from tests import aurora_files, pi_files
from tests.catalog_scan import STATUSES, Answer, Scan, World, answer, full_scan, is_about, scan, seen_in

ROOT = Path(__file__).parents[2]
WORDS = ("alfa", "brav", "char", "delt", "echo")
"""All that is ever said. They are of one length, so that one can stand in the place of another."""
_WORD = re.compile("|".join([*WORDS, *(word[::-1] for word in WORDS)]).encode())
PROJECTS = ("code", "other", "work/inside")
IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
HOUR = 3600 * 10**9
LINES = ("pi", "aurora", "cortext")
FOLDERS = ("sibyl", "cortext")
"""Layouts in which a session has a folder of its own."""
APPENDED = (
    *("line", "line", "line", "line", "unended", "unended", "unended", "half"),
    *("again", "twin", "orphan", "nameless", "garbage", "header"),
)
"""Most of it is sound: a session that is damaged once is read anew from then on, and shows nothing more."""

layouts = st.sampled_from(list(LAYOUTS))
numbers = st.integers(0, 30)
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
projects = st.sampled_from(PROJECTS)


class Sessions(RuleBasedStateMachine):
    other: ClassVar[subprocess.Popen[str]]

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=IN_MEMORY))
        self.home = self.folder / "home"
        self.catalog = self.home / ".cache" / "perdure" / "catalog.db"
        self.aside = self.folder / "aside"
        for each in (self.home / "work" / ".workspace", self.home / ".cortext", self.aside):
            each.mkdir(parents=True)
        (self.home / ".cortext" / "workspaces").write_text("~/work\n")
        self.open: list[Catalog] = []
        self.held: dict[str, Session] = {}
        self.known: dict[str, None] = {}
        self.serial = 0
        self.quiet = 0
        self.entered = contextlib.ExitStack()
        self.be(World(str(self.home)))

    def teardown(self) -> None:
        for each in (*self.open, *self.held.values()):
            each.close()
        self.entered.close()
        shutil.rmtree(self.folder)

    def be(self, world: World) -> None:
        self.world = world
        self.entered.close()
        self.entered.enter_context(world.entered())

    # --- which one -------------------------------------------------------------------------------------

    def sessions(self, *programs: str) -> list[tuple[Home, Found]]:
        """In the order in which they came up: ids are random, and what is drawn must not depend on them."""
        every: dict[str, tuple[Home, Found]] = {}
        for home in homes():
            with contextlib.suppress(PerdureError):
                every.update((ref.path, (home, ref)) for ref in open_store(*home).list())
        self.known = {path: None for path in self.known if path in every} | dict.fromkeys(sorted(every))
        return [every[path] for path in self.known if not programs or every[path][0].program in programs]

    def pick(self, number: int, *programs: str) -> tuple[Home, Found]:
        found = self.sessions(*programs)
        return found[number % len(found)] if found else (Home("pi", str(self.home)), Found("no", "/nowhere"))

    def file(self, number: int, *programs: str) -> Path | None:
        """The file of one of them, if that is one."""
        path = Path(self.pick(number, *programs)[1].path)
        return path if path.is_file() and not path.is_symlink() else None

    def own(self, number: int) -> Path | None:
        """All that a session consists of: its file, or its folder."""
        home, ref = self.pick(number)
        path = Path(ref.path)
        if home.program == "cortext" and path.parts[-2:] == (".session", "messages.jsonl"):
            path = path.parents[1]
        elif home.program == "sibyl" and path.name == "session.lisp":
            path = path.parent
        return path if os.path.lexists(path) else None

    def next(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}{self.serial}"

    # --- what this program writes ------------------------------------------------------------------------

    @initialize(
        mode=st.sampled_from(["now", "an hour later", "in whole seconds"]),
        some=st.lists(layouts, min_size=3, max_size=6),
    )
    def begin(self, mode: str, some: list[str]) -> None:
        """Nothing that was just changed is settled; all is; or most changes do not show in a file's times."""
        self.be(
            self.world._replace(
                ahead=HOUR if mode == "an hour later" else 0, is_coarse=mode == "in whole seconds"
            )
        )
        for layout in some:
            self.create(layout, "code", "alfa brav")

    @rule(layout=layouts, project=projects, text=texts)
    def create(self, layout: str, project: str, text: str) -> None:
        about = {} if layout == "sibyl" else {"cwd": str(self.home / project)}
        (home,) = (home for home in homes() if home.program == layout)
        with (
            contextlib.suppress(PerdureError),
            Session.create(open_store(*home, durability="process", **about)) as session,
        ):
            session.append(user_entry(text))

    @rule(
        number=numbers,
        what=st.sampled_from(["ask", "answer", "call", "rename", "label", "go back", "fork", "nothing"]),
        text=texts,
    )
    def write(self, number: int, what: str, text: str) -> None:
        home, ref = self.pick(number)
        with contextlib.suppress(PerdureError), contextlib.ExitStack() as opened:
            session = self.held.get(ref.path) or opened.enter_context(
                Session.open(open_store(*home, durability="process"), ref, wait=0)
            )
            match what:
                case "ask":
                    session.append(user_entry(text))
                case "answer":
                    session.append(assistant_entry(text), user_entry(text[::-1]))
                case "call":
                    session.append(tool_call_entry("bash", {"command": text}))
                case "rename":
                    session.rename(text)
                case "label" if session.head:
                    session.label(session.head, text)
                case "go back":
                    session.move(session.entries[0].id if session.entries else None)
                    session.append(user_entry(text))
                case "fork":
                    session.fork()

    @rule(number=numbers, status=st.sampled_from(["active", "completed", "interrupted", "paused"]))
    def change_status(self, number: int, status: str) -> None:
        home, ref = self.pick(number, *STATUSES)
        with (
            contextlib.suppress(PerdureError),
            Session.open(open_store(*home, durability="process"), ref, wait=0) as session,
        ):
            STATUSES[home.program].change(session, status)

    @rule(number=numbers)
    def hold(self, number: int) -> None:
        home, ref = self.pick(number)
        with contextlib.suppress(PerdureError):
            if ref.path not in self.held:
                self.held[ref.path] = Session.open(open_store(*home, durability="process"), ref, wait=0)

    @rule()
    def release(self) -> None:
        for path in list(self.held)[:1]:
            self.held.pop(path).close()

    @rule(number=numbers, how=st.sampled_from(["delete", "restore"]))
    def use_the_trash(self, number: int, how: str) -> None:
        home, ref = self.pick(number)
        with contextlib.suppress(PerdureError):
            store = open_store(*home, durability="process")
            assert isinstance(store, FileStore)
            if how == "delete":
                store.delete(ref)
            elif gone := store.trashed():
                store.restore(gone[0].id)

    # --- what others do to the files ---------------------------------------------------------------------

    @rule(
        number=numbers,
        ways=st.lists(st.sampled_from(APPENDED), min_size=1, max_size=4),
        text=texts,
    )
    def append_without_a_lock(self, number: int, ways: list[str], text: str) -> None:
        for way in ways:
            self.append_once(number, way, text)
            self.look_quickly()

    def append_once(self, number: int, way: str, text: str) -> None:
        home, ref = self.pick(number, *LINES)
        if not (path := self.file(number, *LINES)):
            return
        entries: list[Entry] = []
        with contextlib.suppress(PerdureError):
            entries = open_store(*home).read(ref).entries
        last = entries[-1].id if entries else None
        first = entries[0].id if entries else "none"
        id = self.next("x")
        line = {"pi": pi_files.said, "aurora": aurora_files.turn, "cortext": _cortext_line}[home.program]
        whole = path.read_bytes()
        added = {
            "line": line(id, last, text) + b"\n",
            "half": line(id, last, text)[: 20 + number],
            "unended": line(id, last, text),
            "twin": line(first, None, text) + b"\n",
            "again": whole.rstrip(b"\n").rpartition(b"\n")[2] + b"\n",
            "orphan": line(id, "nobody", text) + b"\n",
            "nameless": line("", None, text) + b"\n",
            "garbage": b'{"what": is this?\n',
            "header": whole.partition(b"\n")[0] + b"\n",
        }
        with path.open("ab") as file:
            file.write(added[way])

    @rule(
        number=numbers,
        ways=st.lists(
            st.sampled_from(["in place", "behind the back", "renamed over it"]), min_size=1, max_size=3
        ),
        word=st.sampled_from(WORDS),
    )
    def put_another_word(self, number: int, ways: list[str], word: str) -> None:
        """The file has the size it had, and all but the first way the time, too."""
        for way in ways:
            self.replace_a_word(number, way, word.encode())
            self.look_quickly()
            word = word[::-1]

    def replace_a_word(self, number: int, way: str, word: bytes) -> None:
        if not (path := self.file(number)):
            return
        times = path.stat().st_atime_ns, path.stat().st_mtime_ns
        data = path.read_bytes()
        places = [match.start() for match in _WORD.finditer(data)]
        if not places:
            return
        at = places[number % len(places)]
        if way == "renamed over it":
            new = path.with_name("new")
            new.write_bytes(data[:at] + word + data[at + len(word) :])
            os.replace(new, path)
        else:
            _overwrite(path, at, word)
        if way != "in place":
            os.utime(path, ns=times)

    def look_quickly(self) -> None:
        """And see only what is new, not whether it is right."""
        with Catalog() as catalog:
            catalog.catch_up(Scope.everything(), text=True)

    @rule(number=numbers, other=numbers, keep_times=st.booleans())
    def put_what_another_says(self, number: int, other: int, keep_times: bool) -> None:
        """In place, cut or filled up to the same size."""
        path, source = self.file(number), self.file(other)
        if path and source:
            times, size = path.stat(), path.stat().st_size
            _overwrite(path, 0, source.read_bytes()[:size].ljust(size, b"\n"))
            if keep_times:
                os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    @rule(number=numbers, part=st.floats(0, 1))
    def truncate(self, number: int, part: float) -> None:
        if path := self.file(number):
            os.truncate(path, int(path.stat().st_size * part))

    @rule(number=numbers, when=st.sampled_from([-HOUR, 0, 10**9, 2**31 * 10**9, 2**33 * 10**9]))
    def touch(self, number: int, when: int) -> None:
        """Into the past, before 1970, or far into the future."""
        if path := self.file(number):
            os.utime(path, ns=(when, when))

    @rule(
        number=numbers,
        what=st.sampled_from(
            ["nothing", "garbage", "title", "no log_bytes", "undated", "little", "much", "of another"]
        ),
        text=texts,
    )
    def write_the_state(self, number: int, what: str, text: str) -> None:
        """session.json, which is the truth for a part of what a conversation is."""
        if not (log := self.file(number, "cortext")):
            return
        path = log.with_name("session.json")
        with contextlib.suppress(OSError, ValueError):
            known = json.loads(path.read_bytes())
            match what:
                case "nothing":
                    path.unlink()
                case "garbage":
                    path.write_bytes(path.read_bytes()[:-20])
                case "undated":
                    path.write_text(json.dumps({"title": known.get("title")}))
                case _:
                    changes = {"title": {"title": text}, "of another": {"conversation_id": text}}
                    log_bytes = {"no log_bytes": None, "little": 10, "much": 10**6}
                    known |= changes.get(what) or {"log_bytes": log_bytes[what]}
                    path.write_text(json.dumps(known))

    @rule(number=numbers, other=numbers, how=st.sampled_from(["rename", "swap", "copy", "unlink", "project"]))
    def move(self, number: int, other: int, how: str) -> None:
        if not (path := self.own(number)):
            return
        there = self.own(other)
        new = path.with_name(f"{self.next('n')}{''.join(path.suffixes[-1:])}")
        match how:
            case "rename":
                path.rename(new)
            case "swap" if there and there not in (path, *path.parents) and path not in there.parents:
                path.rename(new)
                there.rename(path)
                new.rename(there)
            case "copy" if path.is_file():
                shutil.copy2(path, new)
            case "unlink":
                _remove(path)
            case "project" if path.parent.name.startswith("--"):
                path.parent.rename(path.parent.with_name(f"--{self.next('p')}--"))

    @rule(number=numbers, what=st.sampled_from(["folder", "link", "dead link", "link to itself", "fifo"]))
    def put_something_in_its_place(self, number: int, what: str) -> None:
        """That cannot be read, and that binds root, too."""
        if not (path := self.file(number)):
            return
        away = self.aside / self.next("moved")
        path.rename(away)
        match what:
            case "folder":
                path.mkdir()
            case "link":
                path.symlink_to(away)
            case "dead link":
                path.symlink_to("nowhere")
            case "link to itself":
                path.symlink_to(path.name)
            case "fifo":
                os.mkfifo(path)

    @rule(number=numbers, what=st.sampled_from(["folder", "link", "link to itself"]))
    def put_something_beside_it(self, number: int, what: str) -> None:
        if not (path := self.own(number)):
            return
        new = path.with_name(self.next("b"))
        match what:
            case "folder":
                new.mkdir()
            case "link":
                new.symlink_to(path.parent)
            case "link to itself":
                new.symlink_to(new.name)

    @rule(layout=layouts)
    def make_a_home_unreadable(self, layout: str) -> None:
        """Or readable again: a file where its sessions should be."""
        (home,) = (home for home in homes() if home.program == layout)
        sessions, away = Path(home.sessions), self.aside / layout
        if layout == "cortext":
            return  # its home is listed because it is there
        if away.exists():
            sessions.unlink()
            away.rename(sessions)
        elif sessions.is_dir():
            sessions.rename(away)
            sessions.write_text("not a folder")

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
                _overwrite(self.catalog, 0, random.randbytes(random.randrange(1, 100)))
            case "cut":
                os.truncate(self.catalog, random.randrange(len(data) + 1))
            case "page" if nodes := [at for at in range(0, len(data), 4096) if data[at] in (2, 5, 10, 13)]:
                _overwrite(self.catalog, random.choice(nodes), bytes(4096))
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
        for each in self.open:
            each.close()
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
            _remove(self.catalog if parent.is_dir() else parent)
        elif how == "folder":
            parent.mkdir(parents=True, exist_ok=True)
            self.catalog.unlink(missing_ok=True)
            self.catalog.mkdir()
        else:
            _remove(parent)
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
    @rule(number=numbers, project=st.sampled_from(["", *PROJECTS]), text=st.booleans())
    def use_an_open_catalog(self, number: int, project: str, text: bool) -> None:
        self.check(self.open[number % len(self.open)], project, self.truth(text))

    @precondition(lambda self: self.open)
    @rule(number=numbers)
    def close_a_catalog(self, number: int) -> None:
        self.open.pop(number % len(self.open)).close()

    @rule(project=st.sampled_from(["", *PROJECTS]), text=st.booleans())
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


class Truth(NamedTuple):
    fresh: Answer
    found: Scan


def _cortext_line(id: str, parent: str | None, text: str) -> bytes:
    message = {"role": "user", "content": text, "timestamp": pi_files.STAMP, "id": id, "parent_id": parent}
    return json.dumps(message).encode()


def _overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)


def test_a_listing_is_what_a_full_scan_says_at_any_moment():
    """Of everything and of one project, rows and hits, whoever asks."""
    program = "from tests.catalog_scan import serve; serve()"
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as Sessions.other:
        run_state_machine_as_test(
            Sessions,
            settings=settings(
                max_examples=max(30, settings().max_examples // 50),
                stateful_step_count=30,
                suppress_health_check=list(HealthCheck),
            ),
        )
