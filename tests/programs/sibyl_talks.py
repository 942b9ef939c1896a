"""Talks in `sibyl` as tests hold them, and what is looked at after each: a real Lisp reads every session and
every index that is there, and counts what is in them.

from tests.programs.sibyl_talks import damaged, gate, lisp, …

__all__ = ["damaged", "gate", "lisp", …]
"""

import atexit
import functools
import itertools
import os
import re
import resource
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.programs.sibyl import list_sessions, load_session, save_session
from perdure.testing import assistant_entry, user_entry
from tests.agent.models.wire_server import Step, events
from tests.front.one_prompt import said
from tests.front.piped import Piped
from tests.front.terminal import Terminal
from tests.programs.started import Program
from tests.sibyl_files import read_form

FORBIDDEN = (
    b"usage",
    b"cost",
    b"token",
    b"model",
    b"provider",
    b"thinking",
    b"reasoning",
    b"tools",
    b"system",
)
"""What a session is not allowed to keep. No test here says such words."""
_ID = re.compile(r"^Session: (.+)$", re.MULTILINE)
_LISP = r"""
(defun form-of (path)
  (with-open-file (in (sb-ext:parse-native-namestring path) :external-format :utf-8)
    (with-standard-io-syntax (let ((*read-eval* nil)) (read in)))))
(defun seen (form)
  (if (eq (car form) :repl-session)
      (let ((session (cddr form)))
        (list (getf session :id) (getf session :message-count) (length (getf session :messages))))
      (loop for row in (cdr form) collect (list (getf (cdr row) :id) (getf (cdr row) :message-count)))))
(loop for path = (read-line *standard-input* nil) while path do
  (let ((found (handler-case (seen (form-of path))
                 (error (problem) (substitute #\Space #\Newline (princ-to-string problem))))))
    (with-standard-io-syntax
      (let ((*print-case* :downcase) (*print-pretty* nil) (*print-readably* nil)) (prin1 found)))
    (terpri)
    (finish-output)))
"""

Damaged = dict[Path, bytes | None]


class Lisp:
    """One that reads file after file."""

    def __init__(self) -> None:
        quiet = ("--noinform", "--no-sysinit", "--no-userinit", "--non-interactive")
        command = ["sbcl", *quiet, "--eval", f"(progn {_LISP})"]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def __call__(self, path: Path) -> Any:
        """What is in it: of a session its id, the number of messages it says and the number there is; of an
        index its rows."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{path}\n")
        stdin.flush()
        found = read_form(stdout.readline())
        assert not isinstance(found, str), (path, found)
        return found or []

    def close(self) -> None:
        self._process.communicate()


@functools.cache
def _lisp() -> Lisp:
    """For all tests of this process: it takes longer to start than to read all that they leave."""
    if shutil.which("sbcl") is None:
        pytest.skip("needs sbcl")
    started = Lisp()
    atexit.register(started.close)
    return started


@pytest.fixture
def lisp() -> Lisp:
    return _lisp()


@pytest.fixture
def damaged() -> Damaged:
    """What a test damages it puts here, and that stays as it is: its bytes, or None of what is gone."""
    return {}


def look_at_all(home: Path, damaged: Damaged) -> None:
    """Lisp reads all that a test has left there. The index says the same of it, before anybody has made it
    anew, and so does a list; and nothing of it is what sibyl may not keep."""
    for path, data in damaged.items():
        assert (path.read_bytes() if path.exists() else None) == data
    places = {home, Path(os.environ.get("SIBYL_HOME", home))}
    for folder in {path.parents[1] for place in places for path in place.rglob("session.lisp")}:
        there: dict[str, int] = {}
        for path in {*folder.glob("*/session.lisp")} - damaged.keys():
            id, says, counts = _lisp()(path)
            assert (id, says) == (path.parent.name, counts)
            there[id] = counts
            text = path.read_bytes().lower()
            assert [word for word in FORBIDDEN if word in text] == [], path
        indexed = dict(map(tuple, _lisp()(folder / "index.lisp")))
        assert {id: indexed[id] for id in indexed if folder / id / "session.lisp" not in damaged} == {
            id: counts for id, counts in there.items() if re.fullmatch(r"[\w-]+", id)
        }  # a folder that people named as they like is read each time
        rows = [row for row in list_sessions(directory=folder) if "problem" not in row]
        assert {row["id"]: row["message_count"] for row in rows} == there


class Gate(threading.Event):
    def then(self, text: str) -> Step:
        """An answer that comes when it is set."""

        def answer() -> Iterator[Any]:
            assert self.wait(20)
            yield from events(said(text))()

        return answer


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.set()


# --- sessions -------------------------------------------------------------------------------------------


def saved(*said: str, id: str) -> str:
    """A session in which this was said in turn, as a script saves it."""
    makers = itertools.cycle((user_entry, assistant_entry))
    save_session(id, [make(text) for make, text in zip(makers, said, strict=False)])
    return id


def file_of(home: Path, id: str) -> Path:
    return home / ".sibyl" / "sessions" / id / "session.lisp"


def corrupt(home: Path, damaged: Damaged, id: str) -> Path:
    path = file_of(home, id)
    damaged[path] = rest = path.read_bytes()[:-20]
    path.write_bytes(rest)
    return path


def move(home: Path, damaged: Damaged, id: str, name: str) -> Path:
    """As people do it who call a folder what they like."""
    path = file_of(home, id)
    damaged[path] = None
    path.parent.rename(path.parent.with_name(name))
    return file_of(home, name)


def texts(id: str) -> list[str]:
    """As another process reads them, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = load_session(id)
    assert loaded is not None
    return [message.text for message in loaded[0]]


def field(path: Path, name: str) -> str:
    found = re.search(rf"^ :{name} (.*)$", path.read_text(), re.MULTILINE)
    return found[1] if found else ""


def count(path: Path) -> int:
    """Of commands."""
    return int(field(path, "command-count"))


# --- talks ----------------------------------------------------------------------------------------------


def script(sibyl: Program, code: str) -> Piped:
    """Python that may call what sibyl has for scripts."""
    code = f"from perdure.programs.sibyl import *\n{code}"
    return Piped("-c", code, cwd=sibyl.project, command=[sys.executable])


def talks(sibyl: Program, *given: str) -> Piped:
    """One after another in one process, each with these arguments; behind each is `Left: CODE`."""
    return script(sibyl, "".join(f"print('Left:', start_repl({each}), flush=True)\n" for each in given))


def until_asked(talk: Piped, commands: int) -> None:
    """Until it waits for the next line, and so many were entered."""
    talk.until(lambda: talk.out.endswith(f"sibyl[{commands}]> "))


def codes_in(out: str) -> list[int]:
    """Of the talks that have ended."""
    return [*map(int, re.findall(r"^Left: (\d+)$", out, re.MULTILINE))]


def ids_in(out: str) -> list[str]:
    """Of the sessions that were begun or loaded, in turn."""
    return [*map(str, _ID.findall(out))]


def id_in(out: str) -> str:
    """Of the last one."""
    return ids_in(out)[-1]


def ended(id: str) -> str:
    """Its last words."""
    return f"Session saved: {id}\nResume with: sibyl --session-id {id}\n"


def fill_disk(talk: Piped | Terminal, *, room: int = 100) -> None:
    """No file that it writes may be longer, from now on."""
    pid = talk.pid if isinstance(talk, Terminal) else talk.process.pid
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))


def free_disk(talk: Piped | Terminal) -> None:
    fill_disk(talk, room=resource.RLIM_INFINITY)
