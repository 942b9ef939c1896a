"""Where answers go: a real process for each, with real pipes, files and terminals around it."""

import json
import os
import subprocess
import sys
import textwrap
import time

import pexpect
import pytest

from tests import processes
from tests.needs import needs, needs_tool

pytestmark = pytest.mark.process

IMPORTS = "import sys\nfrom perdure.front.output import Output, OutputLost, Styled, abandon\nout = Output()\n"
ROWS, COLUMNS = 10, 40


def piped(code: str, stdin: str = "", **options) -> subprocess.CompletedProcess[str]:
    """What a program writes whose three streams are pipes."""
    command = [sys.executable, "-c", IMPORTS + textwrap.dedent(code)]
    return processes.run(command, input=stdin, capture_output=True, text=True, **options)


OURS = ("NO_COLOR", "COLUMNS", "PAGER", "LESSCHARSET")


def at_terminal(code: str, **environment: str) -> processes.spawn:
    """A program at a terminal of its own."""
    settings = {name: value for name, value in os.environ.items() if name not in OURS}
    return processes.spawn(
        [sys.executable, "-c", IMPORTS + textwrap.dedent(code)],
        dimensions=(ROWS, COLUMNS),
        env=settings | {"TERM": "xterm"} | environment,
        timeout=20,
    )


def written(code: str, **environment: str) -> str:
    """All that a program writes to its terminal, and it ends well."""
    child = at_terminal(code, **environment)
    text: str = child.read()
    child.close()
    assert child.exitstatus == 0, text
    return text.replace("\r\n", "\n")


# --- lines and notes ------------------------------------------------------------------------------------


def test_the_answer_is_on_stdout_and_what_is_said_about_it_on_stderr():
    """Parts are joined as they are; through a pipe there are no escape codes."""
    answer = piped("""
        out.line("a ", Styled("b", "red"), Styled("c", "match"), 1 * " d")
        out.note("hidden: ", Styled("3", "yellow"))
        out.flush()
    """)
    assert (answer.stdout, answer.stderr) == ("a bc d\n", "hidden: 3\n")


@pytest.mark.parametrize("stream", ["line", "note"])
def test_a_terminal_has_colour_unless_it_is_not_wanted(stream):
    """NO_COLOR and TERM=dumb are obeyed; NO_COLOR that is empty is not set."""
    code = f"out.{stream}('a', Styled('b', 'red'), 'c')"
    assert written(code) == "a\x1b[31mb\x1b[mc\n"
    assert written(code, NO_COLOR="") == "a\x1b[31mb\x1b[mc\n"
    assert written(code, NO_COLOR="1") == "abc\n"
    assert written(code, TERM="dumb") == "abc\n"


@pytest.mark.parametrize("style", ["bold", "dim", "red", "yellow", "green", "cyan", "match"])
def test_every_style_begins_and_ends(style):
    """Each by one code before the text and one after it."""
    before, after = written(f"out.line(Styled('text', {style!r}))").split("text")
    assert before.startswith("\x1b[")
    assert before.endswith("m")
    assert after == "\x1b[m\n"


def test_what_it_is_writing_to_is_known():
    """Whether it is a terminal and how wide; COLUMNS, if set to a number, says otherwise."""
    code = "out.line(str((out.is_terminal, out.colour, out.columns)))"
    assert written(code) == f"(True, True, {COLUMNS})\n"
    assert written(code, COLUMNS="120") == "(True, True, 120)\n"
    assert written(code, COLUMNS="wide") == f"(True, True, {COLUMNS})\n"
    settings = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    assert piped(code, env=settings).stdout == "(False, False, 80)\n"


def test_notes_do_not_overtake_the_answer(tmp_path):
    """In one file, or at one terminal, all is in the order in which it was said."""
    both = tmp_path / "both"
    with both.open("w") as file:
        code = IMPORTS + "out.line('1')\nout.note('2')\nout.line('3')\nout.note('4')"
        processes.run([sys.executable, "-c", code], stdout=file, stderr=file, check=True)
    assert both.read_text() == "1\n2\n3\n4\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_an_encoding_that_lacks_a_character_loses_nothing(encoding):
    """What it cannot write is spelled out, in JSON as JSON does it."""
    answer = processes.run(
        [sys.executable, "-c", IMPORTS + "out.line('a 你')\nout.note('b 你')\nout.data('c 你😀')"],
        env=os.environ | {"PYTHONIOENCODING": encoding},
        capture_output=True,
    )
    assert answer.stderr == b"b \\u4f60\n"
    line, data = answer.stdout.splitlines()
    assert line == b"a \\u4f60"
    assert json.loads(data) == "c 你😀"


# --- data and bytes -------------------------------------------------------------------------------------


def test_data_is_one_json_value_that_people_can_read():
    """Indented, in its own letters, and with nothing in it that a terminal obeys."""
    value = {"text": "Grüße 你 \x1b[31m \u202e \x7f \x9b \U000e0041", "list": [1, None, True]}
    answer = piped(f"out.data({value!r})")
    assert json.loads(answer.stdout) == value
    assert answer.stdout.startswith(
        '{\n  "text": "Grüße 你 \\u001b[31m \\u202e \\u007f \\u009b \\udb40\\udc41"'
    )


BYTES = bytes(range(256)) * 300


def test_bytes_go_through_a_pipe_exactly():
    """An export is what it is, in the order in which it was written."""
    code = f"{IMPORTS}out.line('first')\nout.raw(bytes(range(256)) * 300)\nout.line('last')"
    answer = processes.run([sys.executable, "-c", code], capture_output=True)
    assert answer.stdout == b"first\n" + BYTES + b"last\n"


def test_bytes_at_a_terminal_are_shown():
    """Text as text, the rest spelled out."""
    assert written(r"out.raw('Grüße\n'.encode() + b'\x1b[2J\xff\n')") == "Grüße\n\\x1b[2J\\xff\n"


# --- output that is lost --------------------------------------------------------------------------------


def test_output_that_nobody_takes_is_told_apart():
    """Not as any failed system call: `OutputLost`, with its cause."""
    reading, writing = os.pipe()
    os.close(reading)
    code = """
        try:
            out.line("x")
            out.flush()
        except OutputLost as lost:
            abandon(sys.stdout)
            sys.exit(42 if isinstance(lost.cause, BrokenPipeError) else 1)
    """
    try:
        command = [sys.executable, "-c", IMPORTS + textwrap.dedent(code)]
        answer = processes.run(command, stdout=writing, stderr=subprocess.PIPE)
    finally:
        os.close(writing)
    assert (answer.returncode, answer.stderr) == (42, b"")


@pytest.mark.parametrize("call", ["line(text)", "data(text)", "raw(text.encode())", "page(text)"])
def test_a_reader_that_leaves_in_the_middle_is_noticed_also_unbuffered(call):
    """Python's own streams take half a write for a whole one then, and all looks well."""
    code = f"""
        text = "x" * 10_000_000
        try:
            out.{call}
            out.flush()
        except OutputLost as lost:
            abandon(sys.stdout)
            sys.exit(42 if isinstance(lost.cause, BrokenPipeError) else 1)
    """
    command = [sys.executable, "-u", "-c", IMPORTS + textwrap.dedent(code)]
    with processes.Popen(command, stdout=subprocess.PIPE) as started:
        assert started.stdout
        assert started.stdout.read(10)
        started.stdout.close()
    assert started.returncode == 42


def test_unbuffered_all_of_it_arrives():
    """In every encoding."""
    code = f"{IMPORTS}out.line('ä' * 500_000)\nout.note('你')\nout.line('你')"
    for encoding, long, short in (("utf-8", "ä" * 500_000, "你"), ("latin-1", "ä" * 500_000, r"\u4f60")):
        settings = os.environ | {"PYTHONIOENCODING": encoding}
        answer = processes.run([sys.executable, "-u", "-c", code], env=settings, capture_output=True)
        assert answer.stdout.decode(encoding) == f"{long}\n{short}\n"
        assert answer.stderr.decode(encoding) == f"{short}\n"


def test_what_failed_is_one_line_that_begins_with_the_program():
    """With what to do about it; a question needs no semicolon."""
    answer = piped("""
        from perdure.errors import PerdureError
        out = Output(program="pi")
        errors = ("It broke", "mend\\nit"), ("It broke",), ("Did it break?", "mend it"), ("Is it you?",)
        for error in errors:
            out.failed(PerdureError(*error))
    """)
    lines = ["pi: It broke; mend it", "pi: It broke", "pi: Did it break? mend it", "pi: Is it you?"]
    assert (answer.stdout, answer.stderr.splitlines()) == ("", lines)


@pytest.mark.parametrize(("count", "shown", "more"), [(7, 7, []), (23, 20, ["  … and 3 more"])])
def test_what_may_have_been_meant_is_listed_a_line_each(count, shown, more):
    """Whatever it is called."""
    answer = piped(f"""
        from perdure.errors import Ambiguous
        out.failed(Ambiguous("x", [f"x{{number}}\\n\\x1b" for number in range({count})]))
    """)
    lines = [f"pi: {count} sessions match 'x':", *(f"  x{number} \\x1b" for number in range(shown)), *more]
    assert answer.stderr.splitlines() == lines


@needs("/dev/full", given=os.path.exists("/dev/full"))
@pytest.mark.parametrize("call", ["line('x')", "data('x')", "raw(b'x')", "page('x')"])
def test_output_that_cannot_be_written_is_told_apart(call):
    """Whatever wrote it."""
    code = f"{IMPORTS}try:\n    out.{call}\n    out.flush()\n"
    code += "except OutputLost:\n    abandon(sys.stdout), sys.exit(42)"
    with open("/dev/full", "w") as full:
        answer = processes.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE)
    assert (answer.returncode, answer.stderr) == (42, b"")


@needs_tool("sh")
def test_closed_streams_are_no_defect():
    """Nothing can be answered or said then: stdout says so, stderr does not matter."""
    code = (
        f"{IMPORTS}out.note('x')\nassert out.ask('y') is None\nout.progress('z').update(1, 2)\n"
        "try:\n    out.line('a')\nexcept OutputLost:\n    sys.exit(42)"
    )
    answer = processes.run(["sh", "-c", '"$0" -c "$1" <&- >&- 2>&-', sys.executable, code])
    assert answer.returncode == 42


# --- questions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stdin", "answer", "asked"),
    [
        ("y\n", True, 1),
        ("YES\n", True, 1),
        (" y \n", True, 1),
        ("y", True, 1),
        ("n\n", False, 1),
        ("No\n", False, 1),
        ("\n", False, 1),
        ("", None, 1),
        ("perhaps\nj\ny\n", True, 3),
        ("perhaps\n", None, 2),
    ],
)
def test_g_1_a_question_is_answered_through_a_pipe(stdin, answer, asked):
    """y is yes; n and Enter are no; the end of input is no answer; all else is asked again, and named."""
    done = piped("out.line(f\"{out.ask('Delete 2 sessions for good?')} {out.has_unused_input}\")", stdin)
    unused = stdin.split()[: asked - 1]
    assert done.stdout == f"{answer} {answer is None and bool(unused)}\n"
    assert done.stderr.startswith("Delete 2 sessions for good? [y/N] \n" * asked)
    assert all(repr(line) in done.stderr for line in unused)


def test_an_answer_that_is_no_text_is_none():
    """Bytes that cannot be read are no yes."""
    code = f"{IMPORTS}sys.exit(42 if out.ask('Sure?') is None else 1)"
    answer = processes.run([sys.executable, "-c", code], input=b"\xff\xfe\n", capture_output=True)
    assert answer.returncode == 42


def test_a_question_at_a_terminal():
    """The answer is typed behind the question, which is as safe as all else."""
    child = at_terminal(r"out.line(str(out.ask('Really \x1b[31m?')))")
    child.expect_exact("Really \\x1b[31m? [y/N] ")
    child.sendline("x")
    child.expect_exact("[y/N] ")
    child.sendline("y")
    child.expect_exact("True")
    child.expect(pexpect.EOF)
    child.close()


def test_g_5_a_signal_ends_a_question_whichever_thread_is_told_of_it(tmp_path, monkeypatch):
    """Then nothing wakes the call that waits for an answer, as with a signal that comes right before it."""
    monkeypatch.chdir(tmp_path)
    child = at_terminal("""
        import os, signal, threading, time
        from perdure.front.signals import Interrupted, directly
        def tell():
            while not os.path.exists("asked"):
                time.sleep(0.01)
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        threading.Thread(target=tell).start()
        try:
            directly(lambda: out.ask("Really?"))
        except Interrupted as error:
            out.line(f"{error.message}: {error.exit_code}")
    """)
    child.expect_exact("Really? [y/N] ")
    time.sleep(0.1)  # and now it waits
    (tmp_path / "asked").touch()
    child.expect_exact("\r\nStopped: 143\r\n")
    child.expect(pexpect.EOF)
    child.close()


# --- progress -------------------------------------------------------------------------------------------


def test_work_that_takes_its_time_shows_a_bar_and_wipes_it():
    """Not before a second has passed; afterwards nothing of it is left."""
    text = written("""
        import time
        with out.progress("Reading sessions") as progress:
            start = time.monotonic()
            progress.update(1, 4)
            while time.monotonic() < start + 1.3:
                progress.update(3, 4)
                time.sleep(0.01)
            assert out.is_progress_shown
        assert not out.is_progress_shown
        out.line("done")
    """)
    drawn = text.split("\r")
    assert drawn[0] == ""
    assert len(drawn) < 10
    assert drawn[1] == f"Reading sessions [{'=' * 12}{' ' * 4}] 3/4\x1b[K", "it fits, with its numbers"
    assert all(len(each) <= COLUMNS - 1 + len("\x1b[K") for each in drawn[1:-1])
    assert drawn[-1] == "\x1b[Kdone\n"


@pytest.mark.parametrize("way", ["quick", "dumb", "piped"])
def test_no_bar_where_none_is_wanted(way):
    """Work that is quick, a terminal that cannot wipe, and no terminal at all."""
    code = f"""
        import time
        with out.progress("Reading") as progress:
            start = time.monotonic()
            while time.monotonic() < start + {0.1 if way == "quick" else 1.2}:
                progress.update(1, 0)
                time.sleep(0.01)
        out.line("done")
    """
    text = piped(code) if way == "piped" else None
    shown = text.stderr + text.stdout if text else written(code, TERM="dumb" if way == "dumb" else "xterm")
    assert shown == "done\n"


# --- pages ----------------------------------------------------------------------------------------------

LONG = r"'\n'.join(f'\x1b[1mline {number}\x1b[m' for number in range(30))"
SHOWN = "".join(f"\x1b[1mline {number}\x1b[m\n" for number in range(30))


def test_what_fits_the_screen_is_not_paged():
    """Also if the user has a pager."""
    assert written("out.page('short')", PAGER="false") == "short\n"


def test_what_is_no_terminal_is_not_paged():
    """Whoever pipes it has a pager of their own, or wants none; the codes in it are the caller's business."""
    assert piped(f"out.page({LONG})", env=os.environ | {"PAGER": "false"}).stdout == SHOWN


def test_a_long_text_goes_through_the_users_pager(tmp_path):
    """All of it, with the arguments they set."""
    pager = tmp_path / "my pager"
    pager.write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv[1:])\nprint(len(sys.stdin.read()))\n")
    pager.chmod(0o755)
    assert written(f"out.page({LONG})", PAGER=f"'{pager}' -x") == f"['-x']\n{len(SHOWN)}\n"


def test_s6_a_pager_sees_no_secret_of_the_environment():
    """And all else, as it is the user's own."""
    seen = written(f"out.page({LONG})", PAGER="env", MY_TOKEN="canary", DB="x://u:canary@h", MY_HOME="/there")
    assert "MY_HOME=/there" in seen
    assert "TERM=" in seen
    assert "canary" not in seen


def test_long_lines_make_a_text_longer_than_the_screen():
    """Nine lines and the prompt fill it; one character more and they do not. Codes and marks take no room."""
    nearly = r"'\x1b[1m' + '\n'.join(['e\u0301' * 40] * 9)"
    assert "paged" not in written(f"out.page({nearly})", PAGER="echo paged")
    assert written(f"out.page({nearly} + 'x')", PAGER="echo paged") == "paged\n"


def test_without_a_pager_a_long_text_is_shown():
    """One that is set but not there, or set to nonsense, loses nothing."""
    assert written(f"out.page({LONG})", PAGER="no-such-pager") == SHOWN
    assert written(f"out.page({LONG})", PAGER="'") == SHOWN


@pytest.mark.parametrize("settings", [{"PAGER": ""}, {"PAGER": " "}, {"PAGER": "false", "TERM": "dumb"}])
def test_where_no_pager_is_wanted_a_long_text_is_shown(settings):
    """One that is set to nothing, as for git; and a terminal on which none could move."""
    assert written(f"out.page({LONG})", **settings) == SHOWN


@pytest.mark.parametrize(("encoding", "told"), [("utf-8", "utf-8"), ("UTF8", "utf-8"), ("latin-1", "unset")])
def test_less_is_told_which_characters_come(encoding, told):
    """Its locale may be another; all else in its environment is as it was."""
    pager = """sh -c 'echo "${LESSCHARSET-unset} $KEPT"'"""
    shown = written(f"out.page({LONG})", PAGER=pager, PYTHONIOENCODING=encoding, KEPT="yes")
    assert shown == f"{told} yes\n"


@needs_tool("less")
def test_less_shows_letters_of_all_scripts_where_the_locale_has_none():
    """Not as bytes between angle brackets."""
    code = f"out.page('Grüße 你\\n' + {LONG})"
    child = at_terminal(code, LC_ALL="C", PYTHONUTF8="1", LESS="")
    child.expect_exact("Grüße 你")
    child.expect_exact(":")
    child.send("q")
    child.expect(pexpect.EOF)
    child.close()


@needs_tool("less")
@pytest.mark.parametrize("pager", [None, "less", "less -S"])
def test_less_pages_with_colour_and_is_left_with_q(pager):
    """Its own prompt at the end of the first screen; Ctrl+C is for it to handle; then the program goes on."""
    settings = {} if pager is None else {"PAGER": pager}
    child = at_terminal(f"out.page({LONG})\nout.line('after')", **settings, LESS="")
    child.expect_exact("\x1b[1mline 3\x1b[m")
    child.expect_exact(":")
    child.send("\x03")
    child.send("q")
    while child.expect_exact(["after", pexpect.TIMEOUT], timeout=0.5) == 1:
        child.send("q")  # what was typed before it heard of Ctrl+C, it forgets
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_a_pager_that_leaves_early_is_no_error(tmp_path):
    """Also in the middle of a text that is longer than any pipe."""
    long = r"'\n'.join(['x' * 30] * 20_000)"
    assert written(f"out.page({long})\nout.line('after')", PAGER="head -n 1") == "x" * 30 + "\nafter\n"
