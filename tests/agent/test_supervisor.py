"""Processes that end with the program that started them, with real ones: kills, signals, forks."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.agent import supervisor_process
from perdure.agent.process_origin import MARK
from perdure.agent.supervisor import Process, Supervisor
from perdure.agent.tools import ToolContext
from perdure.agent.tools.bash import BASH, Bash
from tests.front.one_prompt import until
from tests.needs import needs_tool

pytestmark = pytest.mark.process

ENVIRONMENT = {"PATH": os.defpath}


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    supervisor = Supervisor()
    yield supervisor
    supervisor.close()


@pytest.fixture
def tag() -> Iterator[str]:
    """A number of seconds that nothing else on this machine sleeps for."""
    tag = f"987652.{random.randrange(10**12):012}"
    yield tag
    for pid in sleepers(tag):  # of a test that failed
        os.kill(pid, signal.SIGKILL)


def sleepers(tag: str) -> list[int]:
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", tag.encode()]:
            found.append(int(name))
    return found


def started(supervisor: Supervisor, script: str, **environment: str) -> Process:
    with open(os.devnull, "r+b") as nothing:
        files = dict.fromkeys(range(3), nothing.fileno())
        environment = {**ENVIRONMENT, **environment}
        return supervisor.start(["sh", "-c", script], cwd="/", environment=environment, files=files)


def run(supervisor: Supervisor, command: str) -> str:
    context = ToolContext("/", environment=ENVIRONMENT, supervisor=supervisor)
    return asyncio.run(BASH.run(Bash(command), context)).text


def own_process(supervisor: Supervisor) -> int:
    supervisor.begin()
    assert supervisor._link is not None
    return supervisor._link._process.pid


def test_closing_ends_all_and_the_next_command_begins_anew(supervisor, tag):
    """With a moment to end by themselves: one of these hears SIGTERM, one does not."""
    started(supervisor, f"trap '' TERM; setsid sleep {tag} & (setsid sleep {tag} &)")
    until(lambda: len(sleepers(tag)) == 2)
    supervisor.close()
    assert not sleepers(tag)
    assert run(supervisor, "echo again") == "again"


def test_releasing_leaves_them_alone(supervisor, tag):
    process = started(supervisor, f"sleep {tag} & echo")
    assert process.wait(20)
    supervisor.release()
    until(lambda: sleepers(tag))
    (left,) = sleepers(tag)
    os.kill(left, signal.SIGKILL)
    until(lambda: not sleepers(tag))


def test_signals_that_ask_it_to_end_are_not_for_it(supervisor, tag):
    """A terminal, a shell and a service manager send them to whole groups."""
    pid = own_process(supervisor)
    started(supervisor, f"exec sleep {tag}")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        os.kill(pid, number)
    assert run(supervisor, "echo well") == "well"
    until(lambda: len(sleepers(tag)) == 1)
    assert os.getsid(pid) == pid, "it has no terminal"


def test_a_supervisor_that_is_killed_hangs_nobody_and_leaves_nothing(supervisor, tag):
    """The command that runs has ended, and so has what an earlier one left; the next one runs."""
    assert "Still running in the background" in run(supervisor, f"(setsid sleep {tag} >/dev/null 2>&1 &)")
    pid = own_process(supervisor)

    async def running() -> str:
        context = ToolContext("/", environment=ENVIRONMENT, supervisor=supervisor)
        call = asyncio.create_task(BASH.run(Bash(f"echo begun; setsid sleep {tag} & sleep {tag}"), context))
        while len(sleepers(tag)) < 3:
            await asyncio.sleep(0.01)
        os.kill(pid, signal.SIGKILL)
        return (await asyncio.wait_for(call, 20)).text

    assert asyncio.run(running()) == "begun\n\nCommand was killed by SIGKILL"
    assert not sleepers(tag)
    assert run(supervisor, "echo next") == "next"
    assert own_process(supervisor) != pid


def test_a_supervisor_that_does_not_answer_is_replaced(supervisor, monkeypatch):
    monkeypatch.setattr("perdure.agent.supervisor._ANSWER_WITHIN_S", 0.2)
    os.kill(own_process(supervisor), signal.SIGSTOP)
    assert "Not run: " in run(supervisor, "echo lost")
    until(lambda: not supervisor.is_running)
    assert run(supervisor, "echo next") == "next"


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_a_supervisor_that_hangs_or_is_killed_when_it_is_closed_leaves_nothing(
    supervisor, tag, monkeypatch, number
):
    """It can say no more what it has ended; what has its mark is ended from here."""
    monkeypatch.setattr("perdure.agent.supervisor.GIVE_UP", 0.2)
    run(supervisor, f"(setsid sleep {tag} >/dev/null 2>&1 &)")
    until(lambda: len(sleepers(tag)) == 1)
    assert supervisor._link is not None
    supervisor._link._is_closing = True  # as it is from the first moment of closing on
    os.kill(own_process(supervisor), number)
    supervisor.close()
    until(lambda: not sleepers(tag))


def test_a_command_is_given_nothing_but_what_it_should_have(supervisor):
    """Its own descriptors, the signals as they are by default, its own session, and the mark."""
    script = "ls /proc/self/fd | tr '\\n' ' '; grep -E '(Blk|Ign):' /proc/self/status; ps -o sid= $$; echo $$"
    descriptors, rest = run(supervisor, script).split("SigBlk:")
    assert set(descriptors.split()) - {"61"} == {"0", "1", "2", "3"}  # 3 is the folder that ls reads
    blocked, _, ignored, session, pid = rest.split()
    assert (int(blocked, 16), int(ignored, 16) & 0x7FFFFFFF) == (0, 0)  # 32 and 33 are the C library's
    assert session == pid
    assert supervisor.mark in run(supervisor, f"echo ${MARK}")


def test_what_cannot_be_started_says_why(supervisor, tmp_path):
    """As `subprocess` says it: the command, or the directory."""
    file = tmp_path / "no-program"
    file.write_text("x")
    for command, cwd, kind, named in (
        (["no-such-program"], "/", FileNotFoundError, "no-such-program"),
        ([str(file)], "/", PermissionError, str(file)),
        (["sh", "-c", "x" * 3_000_000], "/", OSError, "sh"),
        (["sh"], str(tmp_path / "gone"), FileNotFoundError, str(tmp_path / "gone")),
    ):
        with pytest.raises(kind) as caught:
            supervisor.start(command, cwd=cwd, environment=ENVIRONMENT, files={0: 0, 1: 1, 2: 2})
        assert caught.value.filename == named
    with pytest.raises(ValueError, match="null"):
        supervisor.start(["a\0b"], cwd="/", environment={}, files={0: 0, 1: 1, 2: 2})


ODD = {
    "signals are blocked, as in threads that leave them to others": (
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGUSR1})"
    ),
    "SIGCHLD is ignored": "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
    "the interpreter is part of another program": "sys.executable = ''",
    "few files may be open": "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))",
    "the standard files are closed": "os.close(0), os.close(1)",
}
"""What a program may be like that a conversation is held in, and a line that makes it so."""


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_commands_run_in_a_program_where(odd):
    script = f"""
    import asyncio, os, resource, signal, sys
    from perdure.agent.tools import ToolContext
    from perdure.agent.tools.bash import BASH, Bash
    {odd}
    call = BASH.run(Bash("echo well; exit 3", timeout=20), ToolContext("/"))
    print(asyncio.run(call).text, file=sys.stderr)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True)
    assert done.stderr == "well\n\nCommand exited with code 3\n"


FORKED = """
import os, signal, sys, time
from perdure.agent.supervisor import Supervisor
supervisor = Supervisor()
supervisor.start(["sleep", sys.argv[1]], cwd="/", environment={"PATH": os.defpath}, files={0: 0, 1: 1, 2: 2})
forked = os.fork()
if not forked:
    inner = supervisor.start(["true"], cwd="/", environment={"PATH": os.defpath}, files={0: 0, 1: 1, 2: 2})
    assert inner.wait(20) and inner.exit_code == 0
    print("forked", os.getpid(), flush=True)
    time.sleep(600)
time.sleep(600)
"""


def test_a_fork_of_the_program_neither_uses_its_supervisor_nor_keeps_it_alive(tag):
    """It has a copy of the socket, which stays open when the program dies."""
    command = [sys.executable, "-c", textwrap.dedent(FORKED), tag]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        _, forked = program.stdout.readline().split()
        try:
            until(lambda: len(sleepers(tag)) == 1)
            program.kill()
            until(lambda: not sleepers(tag), 2)
            os.kill(int(forked), 0)
        finally:
            os.kill(int(forked), signal.SIGKILL)


def test_a_program_that_ends_without_a_word_leaves_nothing(tag):
    """Without `close`, and with a bash that belongs to no conversation."""
    script = """
    import asyncio, sys
    from perdure.agent.tools import ToolContext
    from perdure.agent.tools.bash import BASH, Bash
    print(asyncio.run(BASH.run(Bash(f"sleep {sys.argv[1]} >/dev/null 2>&1 &"), ToolContext("/"))).text)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), tag]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Still running" in done.stdout
    assert done.stderr == ""
    assert not sleepers(tag)


def test_many_commands_at_once_from_many_threads(supervisor):
    """Each gets its own exit code, and no descriptor is left."""
    from concurrent.futures import ThreadPoolExecutor

    supervisor.begin()
    before = len(os.listdir("/dev/fd"))

    def code(number: int) -> int | None:
        process = started(supervisor, f"exit {number % 100}")
        assert process.wait(30)
        return process.exit_code

    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(code, range(200))] == [number % 100 for number in range(200)]
    assert len(os.listdir("/dev/fd")) == before


def use_altered(monkeypatch, tmp_path, lines: str) -> None:
    """Let supervisors run with these lines at the end of their program."""
    source = Path(supervisor_process.__file__).read_text()
    assert source.count("\nif __name__ ==") == 1
    copy = tmp_path / "altered_supervisor.py"
    copy.write_text(source.replace("\nif __name__ ==", f"\n{lines}\n\nif __name__ =="))
    monkeypatch.setattr(supervisor_process, "__file__", str(copy))


WITHOUT = """
def unknown(*_):
    raise OSError(38, "not implemented")

def spawn_without_setsid(*words, setsid=False, **options):
    if setsid:
        raise NotImplementedError
    return spawn(*words, **options)

spawn, os.posix_spawn, os.pidfd_open = os.posix_spawn, spawn_without_setsid, unknown
HAS_PROC = False
_become_subreaper = lambda: False
"""


@needs_tool("ps")
def test_on_a_system_that_offers_less_groups_and_kinship_tell(supervisor, tag, monkeypatch, tmp_path):
    """No subreaper and no /proc, as on macOS: what is in the background ends, also an orphan, and without a
    wait. No pidfd, as in some sandboxes, and no setsid for a new process: all the same."""
    use_altered(monkeypatch, tmp_path, WITHOUT)
    assert run(supervisor, "exit 0") == "(no output)"
    started(supervisor, f"sleep {tag} & (sleep {tag} &) ; setsid sleep {tag} & sleep {tag}")
    left = started(supervisor, f"(sleep {tag} &)")
    assert left.wait(20)
    assert left.may_have_left_others
    until(lambda: len(sleepers(tag)) == 5)
    began = time.monotonic()
    ended = supervisor.close()
    assert time.monotonic() - began < supervisor_process.GIVE_UP
    assert not sleepers(tag)
    assert len([each for each in ended if each.name == "sleep"]) == 5


def test_where_processes_cannot_be_listed_groups_are_ended(supervisor, tag, monkeypatch, tmp_path):
    """Neither /proc nor ps: a time-out and a close end what is in the group of a command."""
    use_altered(monkeypatch, tmp_path, "HAS_PROC, os.environ['PATH'] = False, '/nowhere'")
    supervisor.begin()
    monkeypatch.setattr(supervisor_process, "HAS_PROC", False)
    monkeypatch.setenv("PATH", "/nowhere")
    context = ToolContext("/", environment=ENVIRONMENT, supervisor=supervisor)
    call = BASH.run(Bash(f"sleep {tag} & sleep {tag}", timeout=0.2), context)
    assert asyncio.run(call).text == "(no output)\n\nCommand timed out after 0.2 s"
    assert not sleepers(tag)
    run(supervisor, f"sleep {tag} >/dev/null 2>&1 &")
    until(lambda: len(sleepers(tag)) == 1)
    assert len(supervisor.close()) == 1
    assert not sleepers(tag)


NAMED_SLOWLY = """
GRACE, late = 10.0, 0.0
names, clock = name_of, time.monotonic
time.monotonic = lambda: clock() + late

def name_of(pid):
    global late
    late += 2 * GRACE
    return names(pid)
"""


def test_all_are_asked_to_end_before_they_are_forced(supervisor, monkeypatch, tmp_path):
    """However long it takes to list and name them, as `ps` may for each."""
    use_altered(monkeypatch, tmp_path, NAMED_SLOWLY)
    ready, asked = tmp_path / "ready", tmp_path / "asked"
    started(supervisor, f"trap 'echo > {asked}; exit' TERM; echo > {ready}; while :; do sleep 0.01; done")
    until(ready.exists)
    supervisor.close()
    assert asked.exists()
