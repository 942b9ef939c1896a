"""The bash tool, with real shells. Who is alive is read from the kernel, by a tag in the command lines."""

import asyncio
import contextlib
import gc
import json
import os
import random
import re
import resource
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from perdure.agent import supervisor, supervisor_process
from perdure.agent.tools import BadArguments, ToolContext, bash, checked, processes
from perdure.agent.tools.bash import BASH
from perdure.session import ids
from tests.aged_sessions import remember
from tests.needs import needs_tool

CANCELS = max(30, int(os.environ.get("PERDURE_KILLS") or 0) // 10)
ENVIRONMENT = {"PATH": os.defpath + ":/usr/local/bin", "LANG": "C.UTF-8"}

pytestmark = [pytest.mark.process, pytest.mark.anyio]

LEFT_BEHIND = {
    "background": "sleep {tag} &",
    "nohup": "nohup sleep {tag} >/dev/null 2>&1 & disown",
    "orphan": "sh -c '(sleep {tag} &)'",
    "setsid": "setsid sleep {tag} >/dev/null 2>&1 &",
    "double fork": "(setsid sh -c '(exec sleep {tag} </dev/null >/dev/null 2>&1 &)' &)",
    "no environment": "(env -i setsid sh -c '(exec sleep {tag} &)' &)",
    "nothing of its parents": "(setsid env -i sleep {tag} </dev/null >/dev/null 2>&1 &)",
    "deaf to SIGTERM": "(trap '' TERM; setsid sh -c '(while :; do sleep {tag}; done &)' >/dev/null 2>&1 &)",
    "stopped": "(exec -a sleep bash -c 'kill -STOP $$; : {tag}') &",
}


def tagged(tag):
    """Pids of living processes that have the tag in their arguments; one that has ended has no arguments."""
    return {int(name) for name, said in of_all_processes("cmdline") if tag.encode() in said} - {os.getpid()}


def of_all_processes(file):
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/{file}", "rb", buffering=0) as opened:
            yield name, opened.read()


async def until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


@pytest.fixture
def tag():
    """A number of seconds that nothing else on this machine sleeps for."""
    tag = f"987654.{random.randrange(10**12):012}"
    yield tag
    left = tagged(tag)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left


@pytest.fixture(autouse=True)
def logs(tmp_path_factory, monkeypatch):
    """Where the full outputs go."""
    path = tmp_path_factory.mktemp("logs")
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


@pytest.fixture(autouse=True)
async def nothing_is_left_in_this_process():
    """No open file, no unfinished task, no dead child that nobody noticed."""
    supervisor.of_this_program().begin()  # it ends with this process
    before, children = len(os.listdir("/dev/fd")), own_children()
    yield
    await until(lambda: all(thread.name != "bash logs" for thread in threading.enumerate()))
    if len(os.listdir("/dev/fd")) != before:
        gc.collect()  # which names them
    assert len(os.listdir("/dev/fd")) == before
    assert own_children() == children


def own_children() -> set[str]:
    """Dead ones too, as long as nobody noticed. Other tests' servers are among them."""
    us = str(os.getpid()).encode()
    return {name for name, said in of_all_processes("stat") if said.rpartition(b")")[2].split()[1] == us}


async def call(command, cwd="/", update=lambda _: None, environment=ENVIRONMENT, **arguments):
    given = checked(BASH, {"command": command, **arguments})
    return await BASH.run(given, ToolContext(str(cwd), "call-1", environment, update))


async def test_pi_07_stdout_and_stderr_come_in_the_order_they_were_written(tmp_path):
    """One stream, run in the working directory, and nothing else is said about a success."""
    result = await call("echo one; echo two >&2; echo three; pwd", tmp_path)
    assert result.text == f"one\ntwo\nthree\n{tmp_path}"
    assert not result.is_error
    assert result.details is UNSET


@pytest.mark.parametrize(
    ("command", "arguments", "text", "is_error"),
    [
        ("true", {}, "(no output)", False),
        ("cat; read line; tty || true", {}, "not a tty", False),
        ("echo x; exit 3", {}, "x\n\nCommand exited with code 3", True),
        ("exit 1", {}, "(no output)\n\nCommand exited with code 1", True),
        ("no-such-program-here || exit 127", {}, None, True),
        ("echo x; kill -9 $$", {}, "x\n\nCommand was killed by SIGKILL", True),
        # `exec`, or the shell may find the time to say that somebody ended its command.
        ("echo x; exec sleep 60", {"timeout": 0.2}, "x\n\nCommand timed out after 0.2 s", True),
        ("echo x", {"timeout": "30"}, "x", False),
        (r"printf 'caf\303\251 \377 \0 \033[31m'", {}, "café \ufffd \0 \x1b[31m", False),
        ("if true; then", {}, None, True),
        ("echo a\0b", {}, "Not run: the command contains a NUL character", True),
        ("echo \ud800", {}, None, True),
        ("# " + "x" * 3_000_000, {}, "Not run: Argument list too long", True),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
async def test_pi_07_a_call_says_how_it_ended(command, arguments, text, is_error):
    """What was written, then why it failed, if it did; it never raises."""
    result = await call(command, **arguments)
    assert result.is_error == is_error
    assert result.text == text if text is not None else result.text


async def test_pi_07_a_working_directory_that_is_gone_is_named(tmp_path):
    """Not the shell, which is what the system would blame."""
    result = await call("true", tmp_path / "gone")
    assert result.is_error
    assert result.text == f"Not run: the working directory does not exist: {tmp_path / 'gone'}"


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"command": 1},
        {"command": "x", "timeout": 0},
        {"command": "x", "timeout": -1},
        {"command": "x", "timeout": 3600.1},
        {"command": "x", "timeout": []},
    ],
    ids=str,
)
async def test_pi_14_arguments_that_make_no_sense_are_refused(arguments):
    """By the definition that the model was shown."""
    with pytest.raises(BadArguments):
        checked(BASH, arguments)


async def test_pi_07_a_command_without_a_timeout_has_the_default_one(monkeypatch, tag):
    """And the result says what to do about it."""
    monkeypatch.setattr(bash, "DEFAULT_TIMEOUT_S", 0.2)
    result = await call(f"exec sleep {tag}")
    assert result.is_error
    assert result.text.startswith("(no output)\n\nCommand timed out after 0.2 s, the default. Set timeout, ")
    assert not tagged(tag)


async def test_pi_14_the_limits_of_the_timeout_are_in_the_description_and_in_the_error():
    assert "120" in BASH.description
    assert "3600" in BASH.description
    timeout = BASH.spec.parameters["properties"]["timeout"]
    assert timeout["maximum"] == 3600
    assert {"120", "3600"} <= {*re.findall(r"\d+", timeout["description"])}
    with pytest.raises(BadArguments, match="timeout is at most 3600 seconds"):
        checked(BASH, {"command": "x", "timeout": 3601})
    assert checked(BASH, {"command": "x", "timeout": 3600}).timeout == 3600


async def test_pi_07_a_log_that_was_written_lets_old_ones_expire(logs):
    """In a thread, when the call is over."""
    remember(ids.now() - timedelta(hours=1))
    old = logs / "perdure-bash-old" / "output.log"
    old.parent.mkdir()
    old.touch()
    os.utime(old, (0, 0))
    result = await call("seq 5000")
    await until(lambda: not old.parent.exists())
    assert os.path.exists(result.details["fullOutputPath"])


async def test_pi_14_the_schema_asks_for_a_command_and_maybe_a_timeout():
    """In the words that every provider takes."""
    schema = BASH.spec.parameters
    assert schema["required"] == ["command"]
    assert {name: each["type"] for name, each in schema["properties"].items()} == {
        "command": "string",
        "timeout": "number",
    }


@pytest.mark.parametrize(
    ("command", "remark", "first"),
    [
        ("seq 5000", "[Lines 3001 to 5000 of 5000. Full output: {path}]", "3001"),
        ("seq -f %099.0f 5000", "[Lines 4489 to 5000 of 5000. Full output: {path}]", f"{4489:099}"),
        (
            "seq 10; head -c 60000 /dev/zero | tr '\\0' x",
            "[The end of line 11, which is longer than 50 KB. Full output: {path}]",
            "x" * 51_200,
        ),
        (
            "yes é | head -c 40000 | tr '\\n' '\\377'",
            "[The end of line 1, which is longer than 50 KB. Full output: {path}]",
            None,
        ),
    ],
    ids=["lines", "bytes", "one line", "bytes that are no text"],
)
async def test_pi_07_of_long_output_the_end_is_shown_and_all_is_in_a_file(command, remark, first, logs):
    """The file has every byte and is nobody else's to read."""
    result = await call(command)
    path = Path(result.details["fullOutputPath"])
    *shown, last = result.text.split("\n\n")
    assert last == remark.format(path=path)
    assert first is None or "\n\n".join(shown).startswith(first)
    assert len("\n\n".join(shown).encode()) <= 51_200
    plain = subprocess.run(["bash", "-c", command], env=ENVIRONMENT, stdout=subprocess.PIPE, check=True)
    assert path.read_bytes() == plain.stdout
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.parent.parent == logs
    assert path.parent.name.startswith("perdure-")


@pytest.mark.parametrize("command", ["seq 2000", "head -c 51200 /dev/zero | tr '\\0' x"])
async def test_pi_07_output_that_fits_is_in_no_file(command, logs):
    """Up to the very limits."""
    result = await call(command)
    assert result.details is UNSET
    assert list(logs.iterdir()) == []


async def test_pi_07_output_that_cannot_be_kept_is_still_shown(logs):
    """A full disk is no fault of the command's: here, a limit of this process on the size of files."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        result = await call("seq 100000")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not result.is_error
    path = result.details["fullOutputPath"]
    assert result.text.endswith(
        f"[Lines 98001 to 100000 of 100000. The beginning of the output (File too large): {path}]"
    )
    assert os.path.getsize(path) == 100_000


async def test_pi_07_where_no_file_can_be_made_the_end_is_still_shown(monkeypatch, tmp_path):
    """And the reason is given."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    result = await call("seq 5000")
    assert result.details is UNSET
    assert result.text.endswith(
        "[Lines 3001 to 5000 of 5000. The rest could not be kept: No such file or directory.]"
    )


FLOOD = """
import asyncio, json, resource
from perdure.agent.tools import ToolContext
from perdure.agent.tools.bash import BASH, Bash

async def flood(size):
    command = f"head -c {size} /dev/zero | tr '\\\\0' 'x'; echo; echo the end"
    return await BASH.run(Bash(command), ToolContext("/", "", {"PATH": "/usr/bin:/bin"}))

asyncio.run(flood(1_000_000))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
result = asyncio.run(flood(60_000_000))
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([after - before, result.text[:7], result.details["fullOutputPath"]]))
"""


async def test_pi_07_a_flood_is_read_in_bounded_memory(logs):
    """60 MB of one line take less than 8 MB more than 1 MB does."""
    command = [sys.executable, "-c", FLOOD]
    done = subprocess.run(
        command, env={**ENVIRONMENT, "TMPDIR": str(logs)}, stdout=subprocess.PIPE, check=True
    )
    grown, text, path = json.loads(done.stdout)
    assert grown < 8_000 * (1024 if sys.platform == "darwin" else 1)
    assert text == "the end"
    assert os.path.getsize(path) == 60_000_009
    os.unlink(path)


async def test_pi_07_output_is_shown_while_it_comes_but_not_too_often():
    """The first at once, the last before the end; in between at most about ten times a second."""
    seen = []
    started = time.monotonic()
    command = "echo first; for i in {1..100}; do echo $i; sleep 0.005; done; sleep 0.3; echo last"
    result = await call(command, update=lambda shown: seen.append((time.monotonic() - started, shown.text)))
    took = time.monotonic() - started
    assert seen[0][1].startswith("first")
    assert [text for _, text in seen] == sorted((text for _, text in seen), key=len)
    assert 3 <= len(seen) <= 10 * took + 3
    assert any(text.endswith("100") for _, text in seen)
    assert all(result.text.startswith(text) for _, text in seen)


async def test_pi_07_a_child_in_the_background_does_not_hold_up_the_call_and_lives_on(tag):
    """Though it has the pipe open; it was asked for. The result names it, and says how long it lives."""
    started = time.monotonic()
    result = await call(f"sleep {tag} & echo done")
    assert time.monotonic() - started < 20
    (pid,) = tagged(tag)
    assert result.text == (
        f"done\n\n[Still running in the background: {pid} sleep. It ends with this conversation.]"
    )
    assert not result.is_error
    os.kill(pid, signal.SIGKILL)
    await until(lambda: not tagged(tag))


async def test_pi_07_a_child_in_the_background_that_never_stops_writing_does_not_hold_up_the_call(tag):
    """It is not read from any more when the command itself has ended."""
    result = await call(f"yes {tag} & echo done; sleep 0.1")
    assert not result.is_error
    await until(lambda: not tagged(tag))  # the pipe is closed, which ends it


@pytest.mark.parametrize("kind", LEFT_BEHIND)
@pytest.mark.parametrize("how", ["cancelled", "timed out"])
async def test_pi_07_nothing_is_left_of_a_call(kind, how, tag):
    """Children that left its process group, its session or its environment included."""
    command = f"{LEFT_BEHIND[kind].format(tag=tag)}\necho ready; sleep {tag}"
    limit = {"timeout": 0.5} if how == "timed out" else {}
    updates: list[Any] = []
    running = asyncio.create_task(call(command, update=updates.append, **limit))
    await until(lambda: len(sleepers(tag)) == 2 or running.done())
    if how == "cancelled":
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert updates[-1].text == "ready"
    else:
        assert "timed out after 0.5 s" in (await running).text
    assert not tagged(tag)


def sleepers(tag):
    starts = b"sleep\0"
    found = of_all_processes("cmdline")
    return {name for name, said in found if said.startswith(starts) and tag.encode() in said}


async def test_pi_07_a_cancelled_call_hands_over_what_it_had_written():
    """The last update has it, with the file if it is long."""
    updates: list[Any] = []
    running = asyncio.create_task(call("seq 5000; sleep 60", update=updates.append))
    await until(lambda: updates)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert "Lines 3001 to 5000 of 5000" in updates[-1].text
    assert Path(updates[-1].details["fullOutputPath"]).read_text().endswith("\n5000\n")


async def test_pi_07_a_program_may_use_the_moment_it_is_given_to_end(tmp_path):
    """SIGTERM comes first, and what is written on it is not lost."""
    updates: list[Any] = []
    running = asyncio.create_task(
        call("trap 'echo tidied; exit' TERM; echo ready; while :; do sleep 0.02; done", update=updates.append)
    )
    await until(lambda: updates)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert updates[-1].text.endswith("\ntidied")


async def test_pi_07_cancelling_again_and_again_does_not_stop_the_ending(tag):
    """An impatient user; a program that does not hear SIGTERM."""
    updates: list[Any] = []
    command = f"trap '' TERM; echo ready; while :; do sleep {tag}; done"
    running = asyncio.create_task(call(command, update=updates.append))
    await until(lambda: updates)
    while not running.done():
        running.cancel()
        await asyncio.sleep(0.01)
    assert running.cancelled()
    assert not tagged(tag)


async def test_pi_07_cancels_at_any_moment_leave_nothing_and_harm_nobody(tag, seed):
    """Every kind of child, while another call runs on undisturbed."""
    bystander = asyncio.create_task(call(f"echo up; sleep {tag}9; echo never"))
    await until(lambda: sleepers(f"{tag}9"))
    chance = random.Random(seed)
    for _ in range(0, CANCELS, 5):
        kinds = chance.choices(list(LEFT_BEHIND.values()), k=5)
        calls = [asyncio.create_task(call(f"{kind.format(tag=tag + '1')}\nsleep {tag}1")) for kind in kinds]
        for each in calls:
            await asyncio.sleep(chance.uniform(0, 0.02))
            each.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        assert all(each.cancelled() for each in calls)
        assert not tagged(f"{tag}1")
    assert not bystander.done()
    bystander.cancel()
    await asyncio.gather(bystander, return_exceptions=True)


@needs_tool("ps")
@pytest.mark.parametrize("kind", ["background", "nohup", "orphan", "stopped"])
async def test_pi_07_nothing_is_left_in_the_session_of_a_call_where_there_is_no_proc(kind, tag, monkeypatch):
    """With what ps tells: all but those that left the session and their parents."""
    monkeypatch.setattr(supervisor_process, "HAS_PROC", False)
    running = asyncio.create_task(call(f"{LEFT_BEHIND[kind].format(tag=tag)}\nsleep {tag}"))
    await until(lambda: len(sleepers(tag)) == 2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not tagged(tag)


async def test_pi_07_a_loop_that_cannot_watch_pipes_gets_the_same(monkeypatch, tag):
    """As on Windows: a thread reads."""
    monkeypatch.setattr(processes, "_CAN_WATCH_PIPES", False)
    assert "Lines 98001 to 100000 of 100000" in (await call("seq 100000")).text
    result = await call(f"echo x; sleep {tag} & exec sleep {tag}", timeout=0.2)
    assert result.text == "x\n\nCommand timed out after 0.2 s"
    assert not tagged(tag)


async def test_pi_07_a_perdure_inside_a_call_adds_its_mark_to_the_one_it_has():
    """So that who ends the outer call finds the children of the inner one."""
    result = await call("echo $PERDURE_CALL", environment={**ENVIRONMENT, "PERDURE_CALL": "outer"})
    outer, inner = result.text.split(":")
    assert outer == "outer"
    assert len(inner) == 32


async def test_an_update_that_fails_ends_the_command_and_is_not_hidden(tag):
    """Nothing runs on unseen."""

    def fail(_):
        raise RuntimeError("the screen is gone")

    with pytest.raises(RuntimeError, match="the screen is gone"):
        await call(f"echo x; sleep {tag}", update=fail)
    assert not tagged(tag)


async def test_a_loop_that_shuts_down_leaves_nothing_either(tag):
    """When every task is cancelled at once, as asyncio does at its end."""

    detached: list[Any] = []

    def own_loop():
        async def main():
            kind = LEFT_BEHIND["double fork"].format(tag=tag)
            detached.append(asyncio.create_task(call(f"{kind}\nsleep {tag}")))
            await until(lambda: len(sleepers(tag)) == 2)

        asyncio.run(main())

    await asyncio.to_thread(own_loop)
    await until(lambda: not tagged(tag))
