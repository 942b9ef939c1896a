"""A user's machine with sessions of all five layouts, and `pi sessions` typed on it."""

from __future__ import annotations

import json
import os
import pty
import sys
from contextlib import chdir, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from perdure.programs.pi import main
from perdure.session.entry import Entry, placed
from perdure.session.layouts import Home
from perdure.session.stores import Found, Header, Store
from perdure.testing import user_entry
from tests.front.typed import Typed
from tests.layouts import ALL, store_of
from tests.processes import PI, Popen, run
from tests.programs.started import MAINS
from tests.session.snapshot import snapshot

STAMP = "2026-01-31T09:05:00.123Z"
HOMES = {"pi": ".pi/agent", "aurora": ".aurora", "soleur": ".soleur", "sibyl": ".sibyl", "cortext": "notes"}


class Done(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


class Machine:
    def __init__(
        self, user: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.user = user
        self._patch = monkeypatch
        self._captured = capsys
        self.homes = {layout: Home(layout, str(user / HOMES[layout])) for layout in ALL}
        self.refs: dict[str, list[Found]] = {layout: [] for layout in ALL}
        self.add_workspace(self.homes["cortext"].path)

    def add_workspace(self, path: str) -> Home:
        """One that cortext knows, wherever we are."""
        store_of("cortext", path)
        known = self.user / ".cortext" / "workspaces"
        known.parent.mkdir(exist_ok=True)
        with known.open("a") as file:
            file.write(f"{path}\n")
        return Home("cortext", path)

    def store(self, layout: str) -> Store:
        return store_of(*self.homes[layout])

    def add(self, layout: str, *texts: str, id: str = "", home: Home | None = None, cwd: str = "") -> Found:
        """A session in which this was said."""
        store = store_of(*(home or self.homes[layout]))
        header = Header("", STAMP, cwd, facts={"title": "The launch", "conversation_type": "plan"})
        if layout != "cortext":
            header = header._replace(facts={})
        entries: list[Entry] = []
        for text in texts or ("hello",):
            parent = entries[-1].id if entries else None
            entries.append(placed(user_entry(text), parent_id=parent, timestamp=STAMP))
        made = store.create(header._replace(id=id or store.new_id(header)), entries)
        self.refs[layout].append(made)
        return made

    def texts(self, layout: str, ref: Found) -> list[str]:
        return [entry.text for entry in self.store(layout).read(ref).entries if entry.type == "message"]

    def sessions(self) -> Machine:
        """Two of each layout."""
        for layout in ALL:
            self.add(layout, "hello", f"of {layout}")
            self.add(layout, "another")
        return self

    def run(self, *words: str, stdin: str | Typed = "") -> Done:
        """`pi sessions …` in this process, through pipes."""
        self._patch.setattr(sys, "stdin", Typed(stdin) if isinstance(stdin, str) else stdin)
        self._captured.readouterr()
        code = main(["sessions", *words])
        return Done(code, *self._captured.readouterr())

    def call(self, program: str, *words: str, stdin: str = "") -> Done:
        """Any program's command line in this process; cortext's in its workspace."""
        where = self.homes["cortext"].path if program == "cortext" else self.user / "elsewhere"
        self._captured.readouterr()
        with chdir(where), TemporaryFile("w+", encoding="utf-8") as given, patch("sys.stdin", given):
            given.write(stdin)
            given.seek(0)
            code = (main if program == "pi" else MAINS[program])(words)
        return Done(code, *self._captured.readouterr())

    def outside(self) -> dict[str, tuple[object, ...]]:
        """All that is not the programs' own."""
        own = {".cache", ".cortext", *(each.split("/")[0] for each in HOMES.values())}
        return {name: facts for name, facts in snapshot(self.user).items() if name.split("/")[0] not in own}

    def files(self) -> dict[str, tuple[object, ...]]:
        """All there is, but locks, trash and what is a cache."""
        passing = ("/locks", "/trash", "/.cache", "index.lisp")
        return {
            name: facts
            for name, facts in snapshot(self.user).items()
            if not any(part in f"/{name}" for part in passing)
        }


def process(*words: str, stdin: str = "", **options: Any) -> Done:
    """The same as a real process."""
    done = run(
        [*PI, "sessions", *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def at_terminal(*words: str, answer: bytes = b"") -> tuple[int, bytes]:
    """The same at a terminal: the exit code, and every byte that reached it."""
    ours, theirs = pty.openpty()
    with Popen(
        [*PI, "sessions", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color"},
        start_new_session=True,
    ) as started:
        os.close(theirs)
        os.write(ours, answer)
        shown = b""
        with suppress(OSError):  # Linux's way to say that the other side is closed
            while piece := os.read(ours, 2**16):
                shown += piece
        os.close(ours)
    return started.returncode, shown


def break_home(machine: Machine, layout: str) -> str:
    """A file where a program's sessions should be, which binds root as well. Returns its path."""
    path = Path(machine.homes[layout].sessions)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("no folder")
    return str(path)
