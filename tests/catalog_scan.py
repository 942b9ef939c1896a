"""What a catalog has to say, found out without one: every session read anew, by the store that keeps it."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

from perdure.errors import PerdureError
from perdure.session import catalog_file, lifecycle, listing, tree
from perdure.session.catalog import Catalog, Hit, Row, Scope
from perdure.session.entry import Assistant, Entry, Message, ToolCall
from perdure.session.ids import milliseconds
from perdure.session.layouts import LAYOUTS, Home, homes
from perdure.session.session import Session
from perdure.session.stores import Found, Store, open_store
from perdure.testing.builders import assistant_entry, user_entry
from tests import pi_files

HOUR = 3600 * 10**9
CHAIN = [pi_files.HEADER, *pi_files.chain(3)]
STATUSES = {"aurora": lifecycle.AURORA, "cortext": lifecycle.CORTEXT}


class Seen(NamedTuple):
    """A session, as a row of the catalog has to describe it."""

    program: str
    id: str
    path: str
    title: str
    messages: int | None
    turns: int | None
    kind: str
    summary: str
    active: int
    status: str
    cwd: str
    size: int
    is_well: bool


class Scan(NamedTuple):
    """What there is in some homes."""

    sessions: dict[str, Seen]
    """By path."""
    homes: dict[str, Home]
    """In which each is."""
    entries: dict[str, Sequence[Entry]]
    """Those of each session that can be read, by its path."""
    unreadable: set[Home]

    def saying(self, word: str) -> dict[str, set[str]]:
        """Which entries of which sessions contain a word; "" is a session's title."""
        found: dict[str, set[str]] = {}
        for path, entries in self.entries.items():
            texts = [("", self.sessions[path].title), *((entry.id, _said(entry)) for entry in entries)]
            if ids := {id for id, text in texts if word in re.findall(r"\w+", text.lower())}:
                found[path] = ids
        return found


def _said(entry: Entry) -> str:
    """What an entry says, and what it has a tool do."""
    match entry.body:
        case Message(message=Assistant(content=list(blocks))):
            calls = [json.dumps(block.arguments) for block in blocks if isinstance(block, ToolCall)]
            return "\n".join([entry.text, *calls])
    return entry.text if entry.type != "session_info" else ""  # a name is found as long as it is the title


def scan(places: Sequence[Home]) -> Scan:
    found = Scan({}, {}, {}, set())
    for home in places:
        store = open_store(*home)
        try:
            refs = list(store.list())
        except PerdureError:
            found.unreadable.add(home)
            continue
        for ref in refs:
            seen, entries = _seen(home, store, ref)
            found.sessions[ref.path] = seen
            found.homes[ref.path] = home
            if entries is not None:
                found.entries[ref.path] = entries
    return found


def _seen(home: Home, store: Store, ref: Found) -> tuple[Seen, Sequence[Entry] | None]:
    try:
        mtime = os.lstat(ref.path).st_mtime_ns // 10**6 if ref.inode else 0
    except OSError:
        mtime = 0
    holder = store.holder(ref)
    try:
        page = store.read(ref)
    except (PerdureError, RecursionError):
        seen = Seen(
            home.program, ref.id, ref.path, "", 0, 0, "", "", mtime, "unreadable", "", ref.size, False
        )
        return seen, None
    entries, _, notices = tree.fold(page.entries)
    messages = [entry for entry in entries if entry.type == "message"]
    spoken = [entry for entry in messages if entry.role in ("user", "assistant")]
    moments = [*(entry.timestamp for entry in spoken[-1:]), page.header.timestamp]
    prompts = (entry.text for entry in messages if entry.role == "user" and entry.text.split())

    def said(name: str) -> str:
        fact = page.header.facts.get(name)
        return fact if isinstance(fact, str) else ""

    titles = (
        named(tree.name(entries[page.header.covers :])),
        named(said("title")),
        named(tree.name(entries)),
        shown(next(prompts, "")),
    )
    if home.program in STATUSES:
        recorded = lifecycle.recorded(page.header, entries)
        status = STATUSES[home.program].shown(recorded, is_alive=holder is not None)
    else:
        waits = bool(messages) and is_open(messages[-1])
        status = "active" if holder is not None else "interrupted" if waits else "idle"
    seen = Seen(
        home.program,
        ref.id,
        ref.path,
        next(filter(None, titles), ""),
        len(messages),
        sum(entry.role in ("user", "assistant", "system") for entry in messages),
        named(changed_to(entries)) or named(said("agent")) or named(said("conversation_type")),
        shown(said("context_summary")),
        next(filter(None, map(milliseconds, moments)), max(0, mtime)),
        status,
        page.header.cwd,
        ref.size,
        not page.problems and not notices,
    )
    return seen, entries


def changed_to(entries: Sequence[Entry]) -> str:
    """The agent that its user last changed to."""
    found = ""
    for entry in entries:
        record = json.loads(entry.raw) if entry.type == "custom" else {}
        data = record.get("data")
        if record.get("customType") == "perdure.agent" and isinstance(data, dict):
            found = data["agent"] if isinstance(data.get("agent"), str) else found
    return found


def shown(text: str, longest: int = 200) -> str:
    """A text on one line that is not too long, without what a terminal would obey."""
    words = " ".join(text.lstrip()[: 5 * longest].encode("utf-8", "replace").decode().split())
    line = " ".join("".join(each for each in words if each.isprintable()).split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def named(text: str) -> str:
    """A name is shown in full."""
    return shown(text, 10_000)


def is_open(last: Entry) -> bool:
    """Whether a turn that ends like this did not end: a prompt, a tool's answer, a call."""
    match last.body:
        case Message(message=Assistant(content=content)):
            return any(isinstance(block, ToolCall) for block in content)
    return last.role in ("user", "toolResult")


def seen_in(row: Row) -> Seen:
    """The same of a row."""
    return Seen(
        row.program,
        row.id,
        row.path,
        row.title,
        row.messages,
        row.turns,
        row.kind,
        row.summary,
        row.active,
        row.status,
        row.cwd,
        row.size,
        row.problem is None,
    )


class Answer(NamedTuple):
    """All that a catalog says of a scope."""

    problems: list[str]
    rows: list[Row]
    hits: dict[str, list[Hit]]


def answer(catalog: Catalog, scope: Scope, words: Sequence[str] = ()) -> Answer:
    """Rows are without their keys, which mean nothing outside of one catalog."""
    problems = catalog.catch_up(scope, text=bool(words))
    rows = [row._replace(key=0) for row in catalog.rows(scope)]
    hits = {word: catalog.search(scope, word).hits for word in words}
    for word in hits:
        hits[word] = [hit._replace(row=hit.row._replace(key=0)) for hit in hits[word]]
    return Answer(problems, rows, hits)


def full_scan(scope: Scope, words: Sequence[str] = ()) -> Answer:
    """By a catalog that knows nothing yet, and has no file to keep anything in."""
    with Catalog(os.sep) as catalog:
        assert "Is a directory" in catalog.notice
        return answer(catalog, scope, words)


def is_about(row: Row, home: Home, cwd: str) -> bool:
    """Whether a session of a home is one of the project in `cwd`."""
    match LAYOUTS[home.program].project:
        case "folder":
            folder = os.path.join(home.sessions, f"--{cwd.strip('/').replace('/', '-')}--")
            return folder in (row.path, os.path.dirname(row.path))
        case "cwd":
            return row.cwd == cwd
        case "root":  # there are no repositories here
            directory = row.root or row.cwd
            return bool(row.root or row.project) and (
                directory == cwd if directory else row.project == os.path.basename(cwd)
            )
        case "home":
            return f"{cwd}/".startswith(f"{home.path}/")
    return False


# --- sessions to make ------------------------------------------------------------------------------------


def make_workspace(home: Path) -> Path:
    """Known to be one, and so a home like any other."""
    (home / "work" / ".workspace").mkdir(parents=True)
    (home / ".cortext").mkdir()
    (home / ".cortext" / "workspaces").write_text("~/work\n")
    return home / "work"


def home_of(layout: str) -> Home:
    (found,) = (each for each in homes() if each.program == layout)
    return found


def store_of(layout: str, cwd: str = "/home/me/code") -> Store:
    about = {} if layout == "sibyl" else {"cwd": cwd}
    return open_store(*home_of(layout), durability="process", **about)


def made(layout: str, *texts: str, cwd: str = "/home/me/code") -> Found:
    """A new session in which a user said this, in the layout's own home. The first is also its title."""
    store = store_of(layout, cwd)
    with Session.create(store, facts={"title": texts[0]} if layout == "cortext" else {}) as session:
        session.append(*map(user_entry, texts))
        return session.ref


def more(layout: str, ref: Found, *texts: str) -> None:
    with Session.open(store_of(layout), ref) as session:
        session.append(*map(assistant_entry, texts))


def pi_path(home: Path, name: str = "s1.jsonl", folder: str = "--home-me-code--") -> Path:
    return home / ".pi" / "agent" / "sessions" / folder / name


def put(path: Path, *lines: bytes) -> Path:
    """A file of another program's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


# --- what a listing says ---------------------------------------------------------------------------------


def look(text: bool = False) -> None:
    with Catalog() as catalog:
        catalog.catch_up(Scope.everything(), text=text)


def listed(scope: Scope | None = None, text: str = "") -> list[Row]:
    """What a listing says now; and that a full scan and the stores say the same."""
    scope = scope or Scope.everything()
    words = [text] if text else []
    with Catalog() as catalog:
        said = answer(catalog, scope, words)
        assert said == full_scan(scope, words)
    truth = scan(scope.homes)
    assert {row.path: seen_in(row) for row in said.rows}.items() <= truth.sessions.items()
    assert scope.cwd or len(said.rows) == len(truth.sessions)
    return said.rows


def titles(scope: Scope | None = None) -> set[str]:
    return {row.title for row in listed(scope)}


def found(word: str, **options: Any) -> list[str]:
    """The sessions a word is found in, by their titles."""
    scope = Scope.everything()
    with Catalog() as catalog:
        catalog.catch_up(scope, text=True)
        return [hit.row.title for hit in catalog.search(scope, word, **options).hits]


# --- the world a catalog is in --------------------------------------------------------------------------


class World(NamedTuple):
    """Where the sessions are, what time it is, and how well files tell when they were changed."""

    home: str
    ahead: int = 0
    """Nanoseconds that a clock is ahead of the one that files get their times from."""
    is_coarse: bool = False
    """Whether a file's times are whole seconds."""

    @contextmanager
    def entered(self) -> Iterator[None]:
        clock, stamp = time.time_ns, listing.stamp
        with (
            patch.dict(os.environ, HOME=self.home),
            patch.object(time, "time_ns", lambda: clock() + self.ahead),
            patch.object(catalog_file, "_WAIT", 0.1),
            patch.object(listing, "stamp", lambda *all: stamp(*map(_in_seconds, all)))
            if self.is_coarse
            else patch.object(listing, "stamp", stamp),
        ):
            yield


def _in_seconds(status: Any) -> Any:
    return status and SimpleNamespace(
        st_ino=status.st_ino,
        st_size=status.st_size,
        st_mtime_ns=status.st_mtime_ns // 10**9 * 10**9,
        st_ctime_ns=status.st_ctime_ns // 10**9 * 10**9,
    )


def serve() -> None:
    """Another process that catches up, when it is told to, and says what it then would list."""
    for line in sys.stdin:
        world, cwd, words = json.loads(line)
        with World(*world).entered():
            scope = Scope.project(cwd) if cwd else Scope.everything()
            with Catalog() as catalog:
                found = answer(catalog, scope, words)
        print(json.dumps([list(seen_in(row)) for row in found.rows]), flush=True)
