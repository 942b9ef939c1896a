"""The programs as tests start them: installed, with a server in place of the model.

def test_…(soleur, wire_server):
    soleur.answers(wire_server, "What did they pay?")
    done = soleur("--fresh", stdin="Should we charge per seat?\n")
    assert done.out == …
"""

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from perdure.programs.aur.command_line import main as aur_main
from perdure.programs.cortext.command_line import main as cortext_main
from perdure.programs.sibyl.command_line import main as sibyl_main
from perdure.programs.soleur.command_line import main as soleur_main
from perdure.session.stores import open_store
from tests.agent.models.wire_server import Step, WireServer, events
from tests.front.one_prompt import Pi, said
from tests.front.piped import Piped
from tests.front.terminal import Terminal, environment

SCRIPTS = Path(sys.executable).parent
MODEL = "custom/test"
MAINS = {"aur": aur_main, "cortext": cortext_main, "soleur": soleur_main, "sibyl": sibyl_main}


class Done(NamedTuple):
    code: int
    out: str
    err: str


class Program(Pi):
    """In a directory of its own, whose name is its project's."""

    def __init__(self, name: str, home: Path, project: Path) -> None:
        super().__init__(home, project, [str(SCRIPTS / name)])
        self.name = name
        self.layout = "aurora" if name == "aur" else name
        project.mkdir(exist_ok=True)
        self._started: list[Terminal] = []

    def answers(self, server: WireServer, *steps: str | Step, **settings: Any) -> None:
        """The last one again and again."""
        server.script(*(events(said(each)) if isinstance(each, str) else each for each in steps))
        self.use(server, **settings)

    def run(self, *words: str, stdin: str | bytes | None = None, **options: Any) -> Done:
        done = self(*words, stdin=stdin, **options)
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def within(self, *words: str, stdin: str = "") -> Done:
        """The same in the test's own process: for what needs none of its own, and sooner."""
        out, err = io.StringIO(), io.StringIO()
        with TemporaryFile("w+", encoding="utf-8") as given, patch("sys.stdin", given):
            given.write(stdin)
            given.seek(0)
            with chdir(self.project), redirect_stdout(out), redirect_stderr(err):
                code = MAINS[self.name](words)
        return Done(code, out.getvalue(), err.getvalue())

    def piped(self, *words: str) -> Piped:
        return Piped(*words, cwd=self.project, command=self.command)

    @contextmanager
    def terminal(self, *words: str, kind: str = "xterm-256color", **options: Any) -> Iterator[Terminal]:
        """It is found by its name: what it says last does not depend on where this clone is."""
        variables = {**environment(None, kind), "PATH": first_on_path()}
        with Terminal(*self.command, *words, cwd=self.project, env=variables, **options) as terminal:
            yield terminal

    @property
    def files(self) -> list[Path]:
        """Of all its sessions, the last saved first."""
        refs = open_store(self.layout).list()
        return [Path(ref.path) for ref in sorted(refs, key=lambda ref: ref.mtime_ns, reverse=True)]

    def said(self) -> list[tuple[str, str]]:
        """In the session that was saved last, as another process reads it."""
        store = open_store(self.layout)
        (ref,) = [ref for ref in store.list() if Path(ref.path) == self.files[0]]
        entries = store.read(ref).entries
        return [(entry.role, entry.text) for entry in entries if entry.type == "message"]


def first_on_path() -> str:
    """The installed programs, before all others of their names."""
    return os.pathsep.join([str(SCRIPTS), os.environ["PATH"]])


def system_of(server: WireServer, at: int = -1) -> str:
    """What the model was told before the conversation, in a request."""
    first = server.requests[at].body["messages"][0]
    assert first["role"] in ("system", "developer")
    return str(first["content"])


def prompts_of(server: WireServer, at: int = -1) -> list[tuple[str, str]]:
    """And the conversation."""
    return [(each["role"], each["content"]) for each in server.requests[at].body["messages"][1:]]


def document(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.fixture
def soleur(home: Path) -> Program:
    return Program("soleur", home, home / "acme")


@pytest.fixture
def sibyl(home: Path, request: pytest.FixtureRequest) -> Iterator[Program]:
    """When the test is over, a Lisp reads all that there is of its sessions."""
    from tests.programs.sibyl_talks import look_at_all  # whose talks are in such a program

    damaged = request.getfixturevalue("damaged") if "damaged" in request.fixturenames else {}
    yield Program("sibyl", home, home / "work")
    look_at_all(home, damaged)


@pytest.fixture
def aur(home: Path) -> Program:
    return Program("aur", home, home / "work")
