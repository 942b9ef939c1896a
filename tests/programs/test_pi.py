"""The command line of `pi`, from outside: a real process, its two outputs and its exit code."""

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest

from perdure import __version__, registry
from perdure.front.commands import SESSIONS, SHELLS
from tests import processes
from tests.needs import needs, needs_tool

pytestmark = pytest.mark.process

BIN = Path(sys.executable).parent


def run(*command, **options) -> subprocess.CompletedProcess[str]:
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return processes.run([str(part) for part in command], text=True, **options)


def pi(*arguments, **options) -> subprocess.CompletedProcess[str]:
    return run(BIN / "pi", *arguments, **options)


def main_after(setup: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The program's `main` in a new process whose `_run` does what `setup` says."""
    code = f"import sys\nfrom perdure.programs import pi\n{setup}\npi._run = run\nsys.exit(pi.main())"
    return run(sys.executable, "-c", code, *arguments)


ANSWERED = [["--version"], ["--help"], ["sessions"], ["sessions", "ls", "--help"], ["completion", "bash"]]


@pytest.mark.parametrize("name", ["pi", "perdure"])
def test_version_answers_with_the_name_it_was_called_by(name):
    """`pi --version` and `perdure --version` are one program under two names."""
    answer = run(BIN / name, "--version")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, f"{name} {__version__}\n", "")


def test_python_dash_m_runs_the_same_program():
    """`python -m perdure` works where the scripts are not on the PATH."""
    answer = run(sys.executable, "-m", "perdure", "--version")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, f"perdure {__version__}\n", "")


def test_version_loads_nothing_but_the_package():
    """Every module costs time at each start; these three are all that `--version` may load."""
    code = textwrap.dedent("""
        import sys
        before = set(sys.modules)
        from perdure.programs.pi import main
        code = main(["--version"])
        loaded = sorted(set(sys.modules) - before)
        import json
        print(json.dumps(loaded))
        sys.exit(code)
    """)
    answer = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert answer.returncode == 0
    loaded = json.loads(answer.stdout.splitlines()[-1])
    assert loaded == ["perdure", "perdure.programs", "perdure.programs.pi"]


@pytest.mark.parametrize("arguments", [["-h"], ["help"], ["--help", "--version"]])
def test_help_says_what_this_is_and_how_to_use_it(arguments):
    answer = run(BIN / "perdure", *arguments)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith(f"Perdure {__version__}: conversations with AI agents that last.\n")
    assert "usage: perdure [OPTION...] [MESSAGE...]\n" in answer.stdout
    assert "\n       perdure --print " in answer.stdout
    assert "`perdure sessions --help`" in answer.stdout
    assert "--session-id ID" in answer.stdout
    assert max(map(len, answer.stdout.splitlines())) < 80


@pytest.mark.parametrize("argument", [None, "hello", "\x1b[31mred\nlines \ufffe"])
def test_without_a_command_it_is_a_conversation(argument, home):
    """With no arguments too: a first-time user is told what can be typed. Any text may be said."""
    command = [BIN / "perdure", *([] if argument is None else [argument])]
    answer = processes.run(command, stdin=subprocess.DEVNULL, capture_output=True)
    assert answer.returncode == 0
    first, *_ = answer.stdout.decode().splitlines()
    assert first == f"Perdure {__version__}. /help says what can be typed here."
    assert b"\x1b" not in answer.stdout
    assert (b"\nResume: " in answer.stdout) == (argument is not None)
    assert (b"I can answer a few kinds" in answer.stdout) == (argument is not None)
    notices = answer.stderr.decode().splitlines()
    assert ["built-in `offline` model answers" in each for each in notices] == [True] * (argument is not None)


def test_the_example_in_the_help_runs(home):
    """What the help shows works when it is typed in."""
    library = pi("--help").stdout.partition("Python library:")[2]
    example = [line for line in library.splitlines() if line.startswith("    ")]
    assert len(example) == 4
    answer = run(sys.executable, "-c", textwrap.dedent("\n".join(example)))
    assert (answer.returncode, answer.stderr) == (0, "")
    session_id, count = answer.stdout.split()
    assert session_id
    assert count == "1"


@pytest.mark.parametrize(
    "arguments", [["--frobnicate"], ["--version", "--frobnicate"], ["--frobnicate", "explain", "this"]]
)
def test_an_unknown_argument_is_named_in_one_sentence(arguments):
    """Exit 2, nothing on stdout, and the way out."""
    answer = pi(*arguments)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("pi: unknown option '--frobnicate'; ")
    assert answer.stderr.endswith("run `pi --help`\n")


@needs("a system whose arguments are bytes", given=os.name == "posix")
@pytest.mark.parametrize(
    "argument", ["--two\nlines", "--\x1b[31mred", "--ünï", "--" + "x" * 100_000, b"--\xff\xfe"]
)
def test_a_strange_argument_cannot_break_the_sentence(argument):
    """Line breaks, escape codes, bytes that are no text and endless text still make one short line."""
    answer = processes.run([BIN / "pi", argument], stdin=subprocess.DEVNULL, capture_output=True)
    assert answer.returncode == 2
    assert answer.stderr.count(b"\n") == 1
    assert b"\x1b" not in answer.stderr
    assert len(answer.stderr) < 400


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["sesions"], "unknown command 'sesions': did you mean sessions? run `pi --help`"),
        (["modles"], "unknown command 'modles': did you mean models? run `pi --help`"),
        *(
            ([verb, "--all"], f"unknown command '{verb}': did you mean `pi sessions {verb}`?\n")
            for verb in SESSIONS
        ),
        (["sessions", "show", ""], "ID is empty; run `pi sessions ls --all` to see what there is\n"),
        (["sessions", "rm", "x", " "], "ID is empty; run `pi sessions ls --all` to see what there is\n"),
        (["sessions", "restore", ""], "ID is empty; run `pi sessions trash` to see what there is\n"),
        (
            ["sessions", "ls", "--status", "actve"],
            "--status: 'actve' is none of active, interrupted, idle, pau",
        ),
        (["sessions", "sho"], "unknown verb 'sho': did you mean show? run `pi sessions --help`"),
        (["sessions", "frobnicate"], "unknown verb 'frobnicate'; run `pi sessions --help`"),
        (["sessions", "--all"], "unknown verb '--all'; run `pi sessions --help`"),
        (["sessions", "ls", "--lmit"], "unknown option '--lmit': did you mean --limit? run `pi sessions ls"),
        (["sessions", "show"], "ID is missing; run `pi sessions show --help`"),
        (["completion"], "SHELL is missing; run `pi completion --help`"),
        (["completion", "fsh"], "'fsh' is none of bash, zsh, fish: did you mean fish? run `pi completion"),
    ],
)
def test_g_5_wrong_usage_is_one_sentence_and_what_to_run(arguments, sentence):
    """No usage dump, no traceback; a near miss is named."""
    answer = pi(*arguments)
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith(f"pi: {sentence}")
    assert answer.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [["sessions"], ["sessions", "--help"], ["sessions", "-h", "x"]])
def test_the_verbs_are_listed(arguments):
    """Each with what it does, under the name the program was called by."""
    answer = run(BIN / "perdure", *arguments)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith("usage: perdure sessions VERB")
    for verb, command in SESSIONS.items():
        assert f"  {verb} " in answer.stdout
        assert command.summary in answer.stdout


@pytest.mark.parametrize("verb", SESSIONS)
def test_every_verb_has_help_and_a_function(verb):
    """Usage, options and examples; and the table names what there is."""
    answer = pi("sessions", verb, "--help")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith(f"usage: pi sessions {verb} ")
    assert "--json" in answer.stdout
    assert f"\n  pi sessions {verb}" in answer.stdout.partition("examples:")[2]
    assert callable(registry.load(SESSIONS[verb].runs))


@pytest.mark.parametrize(
    ("verb", "says"),
    [
        ("ls", ["show so many, the newest;", "active, interrupted, idle, paused, completed, unreadable"]),
        ("search", ["show so many, the best;"]),
        ("export", ["stdout, as -", "for cortext, the folder to make"]),
    ],
)
def test_help_says_what_an_option_means_for_this_verb(verb, says):
    """However its lines are broken."""
    text = " ".join(pi("sessions", verb, "--help").stdout.split())
    assert [each for each in says if each not in text] == []


def test_a_verb_is_run_and_its_exit_code_is_the_programs(home):
    """0 when it is done, 3 when nothing is there, the hint on stderr."""
    done = pi("sessions", "ls", "--all", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, [])
    missing = pi("sessions", "show", "5f0c")
    assert (missing.returncode, missing.stdout) == (3, "")
    assert missing.stderr.startswith("pi: Session not found: 5f0c; ")


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_prints_the_code_for_a_shell(shell):
    """Both names of the program are completed by it."""
    answer = pi("completion", shell)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "pi" in answer.stdout.split()
    assert "perdure" in answer.stdout.split()


def test_an_error_is_one_sentence_with_its_hint_and_its_exit_code():
    """Whatever a user can cause is told once, without a traceback."""
    answer = main_after(
        "from perdure.errors import NotFound\n"
        "def run(name, arguments): raise NotFound('Session', 'x', ['y', 'z'])"
    )
    assert (answer.returncode, answer.stdout) == (3, "")
    assert answer.stderr == "perdure: Session not found: x; nearest: y, z\n"


def test_an_error_cannot_break_its_sentence():
    """Names of files and ids come from anywhere: what a terminal would obey is spelled out."""
    answer = main_after(
        "from perdure.errors import Unreadable\n"
        "def run(name, arguments): raise Unreadable('a\\x1b[2J\\nb\\u202e', 'it is \\ud800')"
    )
    assert (answer.returncode, answer.stdout) == (1, "")
    assert answer.stderr == "perdure: Cannot read a\\x1b[2J b\\u202e: it is \\ud800\n"


def test_a_defect_still_shows_its_traceback():
    """An error nobody foresaw is not dressed up as the user's."""
    answer = main_after("def run(name, arguments): raise ValueError('defect')")
    assert answer.returncode == 1
    assert "Traceback" in answer.stderr


def test_ctrl_c_ends_quietly_with_130():
    """An interrupted program says so with its exit code alone."""
    answer = main_after("import signal\ndef run(name, arguments): signal.raise_signal(signal.SIGINT)")
    assert (answer.returncode, answer.stdout, answer.stderr) == (130, "", "")


@pytest.mark.parametrize("arguments", ANSWERED)
def test_a_reader_that_left_is_no_error(arguments):
    """`pi --help | head -0`: no traceback, and the code other programs have then."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        answer = pi(*arguments, stdout=writing)
    finally:
        os.close(writing)
    assert (answer.returncode, answer.stderr) == (141, "")


@needs("/dev/full", given=os.path.exists("/dev/full"))
@pytest.mark.parametrize("arguments", ANSWERED)
def test_output_that_cannot_be_written_is_a_failure(arguments):
    """A full disk must not look like success."""
    with open("/dev/full", "w") as full:
        answer = pi(*arguments, stdout=full)
    assert answer.returncode == 1
    assert answer.stderr == "pi: the output could not be written: No space left on device\n"


@needs("/dev/full", given=os.path.exists("/dev/full"))
@pytest.mark.parametrize(("arguments", "code"), [(["--wrong"], 2), (["sessions", "show", "none"], 3)])
def test_an_error_that_cannot_be_told_leaves_its_exit_code(arguments, code):
    """Python's own, for what it could not write, would be 120."""
    with open("/dev/full", "w") as full:
        assert pi(*arguments, stderr=full).returncode == code
        assert pi(*arguments, stdout=full, stderr=full).returncode == code


ANSWERS = """if True:
    import sys
    from perdure.errors import NotFound
    from perdure.front.output import Output
    from perdure.programs import guarded

    def run():
        Output().line("an answer")
        {}

    sys.exit(guarded("pi", run))
"""


@needs("/dev/full", given=os.path.exists("/dev/full"))
@pytest.mark.parametrize(
    ("end", "code", "told"),
    [("return 0", 1, ""), ("return 4", 4, ""), ("raise NotFound('Session', 'x')", 3, "x")],
)
def test_a_lost_answer_is_told_whatever_the_exit_code_is(end, code, told):
    """And an error behind it, too."""
    with open("/dev/full", "w") as full:
        answer = run(sys.executable, "-c", ANSWERS.format(end), stdout=full)
    assert answer.returncode == code
    assert os.strerror(errno.ENOSPC) in answer.stderr
    assert told in answer.stderr
    assert "Traceback" not in answer.stderr


def test_ctrl_c_ends_one_whose_answer_nobody_reads():
    """It waits in its last write, and once more to write would be to wait once more."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while os.write(writing, bytes(4096)):
            pass
    os.set_blocking(writing, True)
    said = [sys.executable, "-c", ANSWERS.format("print('ready', file=sys.stderr)\n        return 0")]
    with processes.Popen(said, stdout=writing, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr
        assert waiting.stderr.readline() == "ready\n"
        while waiting.poll() is None:
            waiting.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):  # one that came just before the write
                waiting.wait(2)
        assert (waiting.returncode, waiting.stderr.read()) == (130, "")
    os.close(reading)
    os.close(writing)


@needs_tool("sh")
@pytest.mark.parametrize(
    ("command", "code", "stderr"),
    [
        ('"$0" --version >&-', 1, "pi: the output could not be written: standard output is closed\n"),
        ('"$0" sessions >&-', 1, "pi: the output could not be written: standard output is closed\n"),
        ('"$0" --wrong 2>&-', 2, ""),
        ('"$0" --wrong >&- 2>&-', 2, ""),
    ],
)
def test_closed_outputs_leave_the_exit_code(command, code, stderr):
    """A program started with its outputs closed has only its exit code to speak with."""
    answer = run("sh", "-c", command, BIN / "pi")
    assert (answer.returncode, answer.stdout, answer.stderr) == (code, "", stderr)
