"""A process with keys lets no other one look into it: real processes of an ordinary user."""

import json
import os
import subprocess
import sys

import pytest

from tests.agent.environments import MARK, ORDINARY, SECRET, UNMARKED
from tests.needs import needs
from tests.ordinary_user import as_ordinary_user

pytestmark = [pytest.mark.process, needs("Linux", given=sys.platform == "linux")]

LOOKS = """
import ctypes, json, os
pid, PTRACE_SEIZE = os.getppid(), 0x4206
def taken(look):
    try:
        return bool(look())
    except OSError:
        return False
def memory():
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as file:
        file.seek(next(int(line.split("-")[0], 16) for line in maps if "[stack]" in line))
        return True
print(json.dumps({
    "environment": taken(lambda: open(f"/proc/{pid}/environ", "rb").read()),
    "memory": taken(memory),
    "descriptors": taken(lambda: os.readlink(f"/proc/{pid}/fd/0")),
    "debugger": ctypes.CDLL(None).ptrace(PTRACE_SEIZE, pid, 0, 0) == 0,
}))
"""
ALL = ("environment", "memory", "descriptors", "debugger")
IS_LOOKED_INTO = """
import subprocess, sys
if {is_closed}:
    from perdure.agent.process_privacy import close_to_others
    close_to_others()
    close_to_others()
subprocess.run([sys.executable, "-I", "-c", {looks!r}], check=True)
"""


def run(code: str, **environment: str) -> str:
    command = as_ordinary_user([sys.executable, "-c", code])
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout


@pytest.mark.parametrize("is_closed", [False, True])
def test_s6_no_process_of_its_user_looks_into_one_that_is_closed(is_closed):
    """Neither a child, nor whoever reads its environment or memory, nor a debugger; before, each of them."""
    seen = json.loads(run(IS_LOOKED_INTO.format(is_closed=is_closed, looks=LOOKS)))
    assert seen == dict.fromkeys(ALL, not is_closed)


SUPERVISED = """
import os, sys
from perdure.agent.supervisor import Supervisor
supervisor = Supervisor()
started = supervisor.start([sys.executable, "-I", "-c", {looks!r}], cwd="/", environment={{}},
    files={{0: 0, 1: 1, 2: 2}})
started.wait()
supervisor.close()
"""


def test_s6_the_process_that_starts_commands_is_closed_too():
    """What commands are given passes through it, and some are given keys."""
    assert json.loads(run(SUPERVISED.format(looks=LOOKS))) == dict.fromkeys(ALL, False)


OVERWRITES = """
import json, os, subprocess, sys
shown = open("/proc/self/environ", "rb")
from perdure.agent.process_privacy import close_to_others
before = dict(os.environ)
close_to_others(["OTHER", "MY_VENDOR"], ["in-use-x08y15"])
assert dict(os.environ) == before
dump = "import json, os; print(json.dumps(dict(os.environ)))"
inherited = subprocess.run([sys.executable, "-I", "-c", dump], capture_output=True, check=True).stdout
print(json.dumps([shown.read().decode("utf-8", "surrogateescape"), before, json.loads(inherited)]))
"""


def test_s6_secrets_are_overwritten_where_the_kernel_shows_them_and_nowhere_else():
    """Root may read that. The process, and what it starts with all it has, have every variable as before."""
    known = {"OTHER": "by its name", "HELD": "x in-use-x08y15 x", "BYTES_TOKEN": "\udcff\udcfe"}
    given = {**ORDINARY, **SECRET, **UNMARKED, **known, "PYTHONPATH": "", "PYTHONUTF8": "1"}
    del given["SHORT"]  # which is a key only where it is in use
    shown, before, inherited = json.loads(run(OVERWRITES, **given))
    assert MARK not in shown
    held = dict(each.split("=", 1) for each in shown.split("\0") if "=" in each)
    hidden = {*SECRET, *UNMARKED, *known} - {"SHORT"}
    assert {name for name, value in held.items() if not value and before[name]} == hidden
    assert {name: before[name] for name in held.keys() - hidden} == {n: held[n] for n in held.keys() - hidden}
    assert before.items() >= given.items()
    assert inherited == before


def test_where_there_is_nothing_to_close_nothing_happens(monkeypatch):
    from perdure.agent.process_privacy import close_to_others

    monkeypatch.setattr(sys, "platform", "darwin")
    before = os.environ.copy()
    close_to_others()
    assert os.environ == before
