"""A key in settings that is a slip of one of ours is named once, at a terminal."""

import sys

import pytest

from tests.agent.models.wire_server import events, wire_server
from tests.front.one_prompt import pi, said
from tests.front.shell_terminal import say
from tests.front.terminal import Terminal, environment
from tests.programs.started import Program, aur, sibyl, soleur

__all__ = ["aur", "pi", "sibyl", "soleur", "wire_server"]

pytestmark = pytest.mark.process

PI = (sys.executable, "-m", "perdure")
SLIP = "settings.json: 'defaultModle' is not known: did you mean defaultModel?"


def shown_on(terminal: Terminal) -> str:
    return " ".join(line for line in terminal.scrollback if line)


@pytest.mark.parametrize("kind", ["xterm-256color", "dumb"])
def test_g_9_pi_names_a_slip_in_its_settings_once_at_a_terminal(pi, wire_server, kind):
    """Also where a second session is begun there; the keys of the original pi are none."""
    pi.use(wire_server, defaultModle="x", theme="dark", themes=[])
    with Terminal(*PI, cwd=pi.project, env=environment(None, kind), columns=120) as terminal:
        terminal.until("did you mean defaultModel?")
        say(terminal, "/new")
        say(terminal, "/session")
        terminal.until("Messages")
        terminal.keys("c-d")
        assert terminal.wait() == 0
        shown = shown_on(terminal)
    assert shown.count("is not known") == shown.count(SLIP) == 1


def test_g_9_a_slip_is_not_named_where_nobody_is_told(pi, wire_server):
    """Through pipes, with one prompt and in a listing: what a script reads stays as it was."""
    wire_server.script(events(said("ok")))
    pi.use(wire_server, defaultModle="x")
    for words, stdin in (([], "hello\n"), (["-p", "hello"], None), (["sessions", "ls", "--all"], None)):
        done = pi(*words, stdin=stdin)
        assert done.returncode == 0
        assert b"defaultModle" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "file", "text", "own"),
    [
        (
            "soleur",
            ".soleur/config.toml",
            "autorecrod = true",
            "'autorecrod' is not known: did you mean autorecord?",
        ),
        (
            "sibyl",
            ".sibyl/config.toml",
            'defualt_model = ""',
            "'defualt_model' is not known: did you mean default_model?",
        ),
        (
            "aur",
            ".aurora/config.json",
            '{"spwaner": {}, "soar": {}}',
            "'spwaner' is not known: did you mean spawner?",
        ),
    ],
)
def test_g_9_each_program_names_slips_in_its_own_settings_and_in_pis(
    request, wire_server, name, file, text, own
):
    """Once each, and no key of Aurora's."""
    program: Program = request.getfixturevalue(name)
    program.use(wire_server, defaultModle="x")
    path = program.home / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    words = {"soleur": ["--fresh"], "aur": ["spawn"]}.get(name, [])
    with program.terminal(*words, columns=120) as terminal:
        terminal.until("did you mean defaultModel?")
        terminal.until(own)
        terminal.keys("c-d")
        assert terminal.wait() == 0
        shown = shown_on(terminal)
    assert (shown.count("is not known"), shown.count(own), shown.count(SLIP)) == (2, 1, 1)


def test_g_9_one_prompt_at_a_terminal_names_a_slip(pi, wire_server):
    """On stderr, before the answer."""
    wire_server.script(events(said("ok")))
    pi.use(wire_server, defaultModle="x")
    with Terminal(*PI, "-p", "hello", cwd=pi.project, columns=120) as terminal:
        assert terminal.wait() == 0
        shown = shown_on(terminal)
    assert shown.count(SLIP) == 1
    assert shown.endswith("-p TEXT")
    assert shown.index("defaultModle") < shown.index("? ok ")
