"""A home in which all kinds of things happen to sessions: that part of a state machine."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import tempfile
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from perdure.errors import PerdureError
from perdure.session.catalog import Catalog, Scope
from perdure.session.entry import Entry
from perdure.session.layouts import LAYOUTS, Home, homes
from perdure.session.session import Session
from perdure.session.stores import Found, open_store
from perdure.session.stores.file_store import FileStore
from perdure.testing.builders import assistant_entry, tool_call_entry, user_entry
from tests import aurora_files, pi_files
from tests.catalog_scan import STATUSES, World, make_workspace

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
    """Sessions of all layouts in one home, and all that can happen to them."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=IN_MEMORY))
        self.home = self.folder / "home"
        self.aside = self.folder / "aside"
        self.aside.mkdir()
        make_workspace(self.home)
        self.held: dict[str, Session] = {}
        self.known: dict[str, None] = {}
        self.serial = 0
        self.entered = contextlib.ExitStack()
        self.be(World(str(self.home)))

    def teardown(self) -> None:
        for session in self.held.values():
            session.close()
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
            overwrite(path, at, word)
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
            overwrite(path, 0, source.read_bytes()[:size].ljust(size, b"\n"))
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
                    changes: dict[str, dict[str, object]] = {
                        "title": {"title": text},
                        "of another": {"conversation_id": text},
                        "no log_bytes": {"log_bytes": None},
                        "little": {"log_bytes": 10},
                        "much": {"log_bytes": 10**6},
                    }
                    path.write_text(json.dumps(known | changes[what]))

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
                remove(path)
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


def _cortext_line(id: str, parent: str | None, text: str) -> bytes:
    message = {"role": "user", "content": text, "timestamp": pi_files.STAMP, "id": id, "parent_id": parent}
    return json.dumps(message).encode()


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
