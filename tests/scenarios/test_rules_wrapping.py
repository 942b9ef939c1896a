"""What the programs say at a terminal that is too narrow for it: no word is broken."""

import os
import re

import pytest

from tests.front.terminal import Terminal
from tests.processes import run
from tests.programs.started import SCRIPTS, first_on_path

pytestmark = pytest.mark.process

SAID = [
    ["pi", "-p", "hello", "-m", "nothing-of-this-name"],
    ["pi", "sessions", "show", "nothing"],
    ["pi", "sessions", "ls", "--help"],
    ["aur", "spawn", "--agent", "nobody"],
    ["aur", "spawn", "--clean-sessions", "many"],
    ["soleur", "load", "nothing"],
    ["sibyl", "--auto-save-interval", "soon"],
    ["cortext", "list"],
]


@pytest.mark.parametrize("columns", [40, 80, 120])
@pytest.mark.parametrize("words", SAID, ids=" ".join)
def test_g_5_no_word_of_a_notice_an_error_or_a_help_is_broken(words, columns, home):
    """What it says through a pipe, it says in the same words. Its lines fit, but for a word that is wider
    than the terminal and an example to copy, into which it puts no line break either."""
    command = [str(SCRIPTS / words[0]), *words[1:]]
    given = {**os.environ, "PATH": first_on_path(), "COLUMNS": str(columns)}
    plain = run(command, cwd=home, capture_output=True, env=given)
    said = (plain.stdout + plain.stderr).decode()
    with Terminal(*command, cwd=home, columns=columns) as terminal:
        assert terminal.wait() == plain.returncode
        lines = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", terminal.raw.decode()).split("\r\n")
    assert " ".join(lines).split() == said.split()
    prose = [line for line in lines if " " in line and not line.startswith(f"  {words[0]} ")]
    assert max(map(len, prose)) <= columns
