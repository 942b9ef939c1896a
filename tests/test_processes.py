"""A program that is forked from the warm process does what it does in a new interpreter."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests import processes
from tests.processes import SCRIPTS

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[1]
PROGRAMS = {
    "its arguments": "import sys; print(sys.argv, sys.path[0], sys.flags.dont_write_bytecode)",
    "its name": "print(__name__, __import__('sys').modules['__main__'].__name__)",
    "its directory and umask": "import os; print(os.getcwd(), oct(os.umask(0)))",
    "its environment": "import os; print(sorted(os.environ.items()))",
    "its time zone": "import time; print(time.tzname)",
    "its streams": (
        "import sys\n"
        "for each in (sys.stdin, sys.stdout, sys.stderr):\n"
        "    print(each.name, each.mode, each.encoding, each.errors, each.line_buffering, each.newlines)\n"
        "    print(each.buffer.name, each.buffer.mode, each.fileno(), each.isatty(), each is sys.__stdin__)"
    ),
    "what it is given": "import sys; sys.stdout.write(sys.stdin.read().upper())",
    "both outputs": "import sys; print('a'); print('b', file=sys.stderr); sys.stdout.buffer.write(b'\\xff')",
    "signals": (
        "import signal\n"
        "print({each.name: str(signal.getsignal(each)).partition(' at ')[0] for each in signal.Signals})\n"
        "print(signal.pthread_sigmask(signal.SIG_BLOCK, ()), signal.set_wakeup_fd(-1))"
    ),
    "open files": "import os; print(sorted(os.listdir('/dev/fd')))",
    "its threads": "import threading as t; print(t.current_thread().name, t.active_count())",
    "a number": "raise SystemExit(300)",
    "a word": "raise SystemExit('wrong')",
    "nothing": "import sys; sys.exit()",
    "at once": "import os; os._exit(7)",
    "its own signal": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "exit handlers and threads": (
        "import atexit, threading, time\n"
        "atexit.register(print, 'handled')\n"
        "threading.Thread(target=lambda: (time.sleep(0.05), print('done'))).start()\n"
        "print('left')"
    ),
    "an output that nobody takes": "import sys; print('x'); sys.stdout.close(); sys.exit(4)",
    "a closed output": "import os; print('x'); os.close(1)",
}


@pytest.mark.parametrize("code", PROGRAMS.values(), ids=PROGRAMS)
def test_a_forked_program_is_like_any_other(code, tmp_path, monkeypatch):
    """What it sees, what it writes and how it ends are those of a new interpreter."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("ODD", "\udcff €")
    monkeypatch.chdir(tmp_path)
    # What C libraries have put into the environment since this process began, os.environ does not know.
    given: dict[str, Any] = {"input": b"some text", "capture_output": True, "env": dict(os.environ)}
    command = [sys.executable, "-c", code, "an argument", b"\xff"]
    assert processes.warm_program([*map(os.fsdecode, command)], os.environ)
    forked, new = (run(command, **given) for run in (processes.run, subprocess.run))
    assert (forked.returncode, forked.stdout) == (new.returncode, new.stdout)
    if code != PROGRAMS["a closed output"]:  # which each version of Python tells in other words
        assert forked.stderr == new.stderr


@pytest.mark.parametrize(("code", "ends_with"), [("1 / 0", 1), ("raise KeyboardInterrupt", -signal.SIGINT)])
def test_an_exception_that_nobody_catches_is_shown_and_ends_it(code, ends_with):
    """The last line says which, and Ctrl+C ends it as its signal does."""
    forked, new = (
        run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
        for run in (processes.run, subprocess.run)
    )
    assert forked.returncode == new.returncode == ends_with
    assert forked.stderr.splitlines()[-1] == new.stderr.splitlines()[-1]


@pytest.mark.parametrize("command", [processes.PI, [SCRIPTS / "soleur"], [SCRIPTS / "pi"]])
def test_the_programs_are_forked_as_modules_and_as_scripts(command):
    command = [*command, "--version"]
    forked, new = (run(command, capture_output=True) for run in (processes.run, subprocess.run))
    assert (forked.returncode, forked.stdout, forked.stderr) == (0, new.stdout, b"")


@pytest.mark.parametrize(
    ("command", "environment"),
    [
        ([sys.executable, "-u", "-c", "print(1)"], {}),
        ([sys.executable, "-W", "error", "-c", "print(1)"], {}),
        ([sys.executable, "-m", "pip"], {}),
        (["sh", "-c", "pi"], {}),
        ([sys.executable, "-c", "print(1)"], {"PYTHONPATH": "somewhere"}),
        ([sys.executable, "-c", "print(1)"], {"LC_ALL": "C"}),
    ],
)
def test_what_a_fork_cannot_stand_in_for_is_no_fork(command, environment):
    """Other programs, and what an interpreter is told when it starts."""
    assert processes.warm_program(command, os.environ | environment) is None


def test_the_end_of_a_process_is_waited_for_and_told():
    """As `subprocess` does: None, a time limit, then its exit code for ever."""
    process = processes.Popen([sys.executable, "-c", "input(); raise SystemExit(3)"], stdin=subprocess.PIPE)
    with process:
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        os.kill(process.pid, 0)
        process.communicate(b"\n", timeout=60)
    assert (process.poll(), process.wait(), process.returncode) == (3, 3, 3)


def test_many_run_at_once_and_each_hears_of_its_own_end():
    code = "import sys; input(); raise SystemExit(int(sys.argv[1]))"
    started = [
        processes.Popen([sys.executable, "-c", code, str(number)], stdin=subprocess.PIPE)
        for number in range(8)
    ]
    for number, process in reversed([*enumerate(started)]):
        process.communicate(b"\n")
        assert process.returncode == number


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_it_however_early_it_comes(number):
    """Also before it has begun."""
    code = "import time\nwhile True: time.sleep(0.01)"  # one that comes just before a sleep is heard after it
    for delay in (0, 0, 0, 0.001, 0.003, 0.01):
        with processes.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as process:
            time.sleep(delay)
            process.send_signal(number)
        assert process.returncode == -number


def test_at_a_terminal_it_is_the_one_that_keys_are_for():
    """Ctrl+C, typed, is a signal."""
    child = processes.spawn([sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(60)"])
    child.expect_exact("ready")
    child.send("\x03")
    child.expect(pexpect.EOF)
    child.close()
    assert (child.exitstatus, child.signalstatus) == (None, signal.SIGINT)


def test_a_long_run_is_one_for_what_is_called_too():
    """The numbers of `make crash` reach what it runs."""
    code = "from tests import effort, processes\n"
    code += "print(processes.call(effort.some, {'usual': 1, 'everything': 2}).out)"
    for kills, number in (("10000", "2"), ("", "1")):
        environment = {**os.environ, "PERDURE_KILLS": kills, "PERDURE_FUZZ_LINES": ""}
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True
        )
        assert done.stdout.split() == [number], done.stderr


def test_a_warm_process_that_has_ended_is_told():
    """Nobody waits for it."""
    code = "from tests import processes\n"
    code += "forker = processes._forker_for(['pi'])\nforker._process.kill()\nforker._process.wait()\n"
    code += "processes.run(processes.PI)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "Broken pipe" in done.stderr or "has ended" in done.stderr


def test_whoever_is_gone_leaves_no_process_behind(tmp_path):
    """A run of the tests that is killed takes its warm process along, and all that it had started."""
    code = (
        "import sys; from tests import processes\n"
        "one = processes.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(one.pid, processes._forker_for(['pi'])._process.pid, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as caller:
        assert caller.stdout
        pids = [*map(int, caller.stdout.readline().split())]
        caller.kill()
    end = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < end
        time.sleep(0.01)
