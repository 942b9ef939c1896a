"""What is given to a program is UTF-8, in every locale: words, names of files, directories, variables."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from perdure.programs.pi import main
from perdure.session.layouts import LAYOUTS
from perdure.session.stores import open_store
from tests.programs.started import SCRIPTS

TEXT = "ä€😀"
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
"""Python takes all that it is given for ASCII here, unless it is told otherwise."""
NOT_UTF_8 = os.fsdecode(b"caf\xe9")


class Place:
    """A home, and a directory to work in, with such names."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / f"home {TEXT}"
        self.project = self.home / f"project {TEXT}"
        self.project.mkdir(parents=True)

    def start(
        self, *command: str | bytes, stdin: str = "", settings: dict[str, str] = ASCII
    ) -> subprocess.CompletedProcess[str]:
        """A new interpreter, because what is tested is how one is started."""
        return subprocess.run(
            command,
            cwd=self.project,
            env={**os.environ, **settings, "HOME": str(self.home)},
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
        )

    def only_session(self, layout: str, home: Path) -> tuple[str, list[str]]:
        """The directory that it names, and what its user said."""
        store = open_store(layout, str(home))
        (ref,) = store.list()
        page = store.read(ref)
        said = [entry.text for entry in page.entries if entry.type == "message" and entry.role == "user"]
        return page.header.cwd, said


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)


def name_of(layout: str) -> str:
    return str(SCRIPTS / {"aurora": "aur"}.get(layout, layout))


CALLS: dict[str, Sequence[str]] = {
    "pi": (),
    "aurora": ("spawn",),
    "soleur": ("--fresh", "--no-context"),
    "sibyl": (),
    "cortext": ("start", "brainstorm", TEXT),
}


@pytest.mark.process
@pytest.mark.parametrize("layout", CALLS)
def test_what_is_said_in_a_locale_without_such_characters_is_kept_as_it_is(place, layout):
    """In each program, in a directory and a home whose names have them, too; no lone surrogate is saved."""
    home = place.home / LAYOUTS[layout].default_home.removeprefix("~/")
    if layout == "cortext":
        home = place.project
        assert place.start(name_of(layout), "init").returncode == 0
    done = place.start(name_of(layout), *CALLS[layout], "-m", "offline", stdin=f"{TEXT}\n")
    assert done.returncode == 0, done.stderr
    cwd, said = place.only_session(layout, home)
    assert TEXT in said
    assert cwd in ("", str(place.project))
    for path in home.rglob("*"):
        if path.suffix in (".jsonl", ".json", ".lisp") and path.is_file():
            assert b"\\udc" not in path.read_bytes()
    assert "\\u" not in done.stdout


@pytest.mark.process
def test_the_words_of_a_command_line_are_utf_8(place):
    """A prompt, a name, a file and a variable; and what is printed is UTF-8, too."""
    (place.project / f"{TEXT}.txt").write_text(f"inside {TEXT}")
    words = ["-m", "offline", "-n", f"name {TEXT}", "-p", f"read {TEXT}.txt", f"@{TEXT}.txt"]
    home = place.home / f"elsewhere {TEXT}"
    settings = {**ASCII, "PI_CODING_AGENT_DIR": str(home)}
    done = place.start(name_of("pi"), *words, settings=settings)
    assert done.returncode == 0, done.stderr
    assert f"inside {TEXT}" in done.stdout
    cwd, (said,) = place.only_session("pi", home)
    assert (cwd, said.count(f"{TEXT}.txt")) == (str(place.project), 2)
    (row,) = json.loads(place.start(name_of("pi"), "sessions", "ls", "--json", settings=settings).stdout)
    assert (row["title"], row["cwd"]) == (f"name {TEXT}", str(place.project))


@pytest.mark.process
@pytest.mark.parametrize(
    "command",
    [
        [sys.executable, "-P", "-m", "perdure"],
        [sys.executable, "-X", "utf8=0", "-m", "perdure"],
        [sys.executable, "-c", "import sys; from perdure.programs.pi import main; sys.exit(main())"],
    ],
    ids=["as a module", "against an option", "from code"],
)
def test_it_is_so_however_it_is_started(place, command):
    """A module, code of somebody else's, an interpreter that was told not to."""
    done = place.start(*command, "--session", f"none {TEXT}", "-p", "x")
    assert done.returncode == 3
    assert f"none {TEXT}" in done.stderr


@pytest.mark.process
def test_the_environment_stays_as_it_was(place):
    """What the program starts is told by nobody but its user which encoding to take."""
    code = (
        "import os, sys; from perdure.programs import words_of; words_of(None);"
        "print(sys.flags.utf8_mode, os.environ['PYTHONUTF8'], sys.argv[1], *sorted(os.environ), sep='\\n')"
    )
    mode, setting, word, *names = place.start(sys.executable, "-c", code, TEXT).stdout.split()
    assert (mode, setting, word) == ("1", "0", TEXT)
    assert names == sorted({*os.environ, *ASCII, "HOME"})


NOT_TEXT = [
    ("-p", NOT_UTF_8),
    ("-p", "x", "-n", NOT_UTF_8),
    ("-p", "x", f"--name={NOT_UTF_8}"),
    ("-p", "x", "--model", NOT_UTF_8),
    ("sessions", "search", NOT_UTF_8),
    ("sessions", "rename", "x", NOT_UTF_8),
    ("models", NOT_UTF_8),
]


@pytest.mark.parametrize("words", NOT_TEXT, ids=ascii)
def test_a_word_that_is_not_utf_8_is_wrong_usage(home, capsys, words):
    """It is no text, and would be saved as none."""
    assert main(words) == 2
    assert "not UTF-8" in capsys.readouterr().err
    assert not (home / ".pi").exists()


@pytest.mark.process
def test_a_name_of_a_file_may_be_any_bytes(place):
    """The system allows it, so such a file can be attached and such a directory worked in."""
    (place.project / NOT_UTF_8).mkdir()
    (place.project / NOT_UTF_8 / f"{NOT_UTF_8}.txt").write_text("what it says")
    words = ["-C", NOT_UTF_8, "-m", "offline", "-p", "read it", f"@{NOT_UTF_8}.txt"]
    command = [os.fsencode(each) for each in (name_of("pi"), *words)]
    done = place.start(*command)
    assert done.returncode == 0, done.stderr
    cwd, (said,) = place.only_session("pi", place.home / ".pi" / "agent")
    assert os.fsencode(cwd) == os.fsencode(place.project / NOT_UTF_8)
    assert "what it says" in said
