"""Commands of the user's own, with real shells: what is recorded, and what is sent of it."""

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from perdure import AgentSession, PerdureError, SessionManager
from perdure.errors import UsageError
from perdure.session.entry import BashExecution
from perdure.session.session import Session
from perdure.testing import ScriptedModel

pytestmark = [pytest.mark.process, pytest.mark.anyio]

FOR_EVER = "sleep 1000 & echo $! > pid; echo begun; wait"


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "logs"))
    return tmp_path


@pytest.fixture
async def agent():
    async with AgentSession() as agent:
        yield agent


def on_disk(agent) -> list[Any]:
    """What another process would read now."""
    path: Any = Session.view(agent.session.store, agent.session.ref).path()
    return [entry.body.message for entry in path if entry.type == "message"]


async def say(agent, text) -> list[Any]:
    return [event async for event in agent.send_message(text)]


async def begun(agent, command, **options):
    """A command that has written something, and the task that waits for it."""
    has_written = asyncio.Event()
    task = asyncio.create_task(agent.run_command(command, watch=lambda _: has_written.set(), **options))
    await has_written.wait()
    return task


async def process_has_ended(project) -> bool:
    pid = (project / "pid").read_text().strip()
    return not Path(f"/proc/{pid}").exists() or b"sleep" not in Path(f"/proc/{pid}/cmdline").read_bytes()


async def test_pi_23_a_command_is_on_disk_when_it_is_returned(agent, project):
    """As the original records one: what it wrote as it wrote it, and no key that says nothing."""
    await agent.start(ScriptedModel())
    ran = await agent.run_command("echo out; echo err >&2; exit 3")
    assert ran == BashExecution("echo out; echo err >&2; exit 3", "out\nerr\n", 3, timestamp=ran.timestamp)
    assert on_disk(agent) == [ran]
    last = Session.view(agent.session.store, agent.session.ref).path()[-1]
    assert b"fullOutputPath" not in last.raw
    assert b"excludeFromContext" not in last.raw
    assert b'"cancelled":false,"truncated":false' in last.raw


async def test_pi_23_a_command_of_the_users_has_no_timeout(agent, monkeypatch):
    """They see it run, and stop it."""
    monkeypatch.setattr("perdure.agent.tools.bash.DEFAULT_TIMEOUT_S", 0.1)
    await agent.start(ScriptedModel())
    assert (await agent.run_command("sleep 0.4; echo done")).output == "done\n"


async def test_pi_23_the_model_reads_of_a_command_with_the_next_message(agent):
    model = ScriptedModel("one", "two")
    await agent.start(model)
    await say(agent, "hello")
    await agent.run_command("echo seen")
    await agent.run_command("echo hidden", is_sent=False)
    await say(agent, "and now?")
    texts = [message.text for message in model.requests[-1].messages]
    assert (texts[0], texts[1], texts[3]) == ("hello", "one", "and now?")
    assert "echo seen" in texts[2]
    assert not any("hidden" in text for text in texts)
    assert [message.exclude_from_context for message in on_disk(agent)[2:4]] == [UNSET, True]


async def test_pi_23_what_is_sent_is_the_same_remembered_or_read(agent):
    """And so is its size."""
    model = ScriptedModel("one", "two", "three")
    await agent.start(model)
    await say(agent, "hello")
    await agent.run_command("seq 1 100")
    remembered = agent.spent.tokens
    agent.agent._memory.forget()
    assert [*await agent.agent._memory.sent()][-1].text.count("\n") > 100
    assert agent.spent.tokens == remembered


async def test_g_3_a_command_is_something_that_was_said(agent):
    """In a new session: it has a head then, its model is recorded, and it stays."""
    id = await agent.start(ScriptedModel())
    await agent.run_command("true")
    assert [entry.type for entry in agent.session.entries] == ["model_change", "message"]
    await agent.close()
    assert [summary.id for summary in SessionManager().list_sessions()] == [id]


async def test_g_7_what_was_not_run_leaves_no_session(agent):
    """It says why, and there is nothing to be recorded."""
    await agent.start(ScriptedModel())
    with pytest.raises(PerdureError, match="NUL"):
        await agent.run_command("echo \0")
    with pytest.raises(PerdureError, match="Not run"):
        await agent.run_command("echo \ud800")
    assert not agent.is_busy
    await agent.close()
    assert SessionManager().list_sessions() == []


@pytest.mark.parametrize(
    ("command", "code"), [("exit 300", 44), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("true", 0)]
)
async def test_a_command_that_was_killed_has_the_code_that_a_shell_gives_it(agent, command, code):
    await agent.start(ScriptedModel())
    ran = await agent.run_command(command)
    assert (ran.exit_code, ran.cancelled) == (code, False)


async def test_a_long_output_is_cut_and_all_of_it_is_in_a_file(agent):
    await agent.start(ScriptedModel())
    ran = await agent.run_command("seq 1 5000")
    assert ran.truncated
    assert (ran.output.splitlines()[0], ran.output.splitlines()[-1]) == ("3001", "5000")
    assert isinstance(ran.full_output_path, str)
    assert Path(ran.full_output_path).read_text().splitlines() == [str(n) for n in range(1, 5001)]
    assert on_disk(agent) == [ran]


async def test_a_command_sees_no_secret_and_where_it_is(agent, project, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("HARMLESS", "yes")
    await agent.close()
    async with AgentSession() as other:
        await other.start(ScriptedModel())
        ran = await other.run_command("pwd; echo $HARMLESS $OPENAI_API_KEY $TERM")
    assert ran.output == f"{os.path.realpath(project)}\nyes dumb\n"


async def test_what_it_writes_is_shown_while_it_runs(agent):
    await agent.start(ScriptedModel())
    seen: list[str] = []
    task = asyncio.create_task(
        agent.run_command("echo one; read <fifo; echo two", watch=lambda result: seen.append(result.text))
    )
    os.mkfifo("fifo")
    while not seen:
        await asyncio.sleep(0.01)
    assert (seen, agent.is_busy) == (["one"], True)
    await asyncio.to_thread(Path("fifo").write_text, "go\n")
    assert (await task).output == "one\ntwo\n"
    assert not agent.is_busy


@pytest.mark.parametrize("is_sent", [True, False])
async def test_a_command_that_is_cancelled_is_recorded_before_that_is_told(agent, project, is_sent):
    """With what it had written, and none of its processes is left."""
    await agent.start(ScriptedModel())
    task = await begun(agent, FOR_EVER, is_sent=is_sent)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (ran,) = on_disk(agent)
    assert (ran.output, ran.cancelled, ran.exit_code) == ("begun\n", True, UNSET)
    assert ran.exclude_from_context is (UNSET if is_sent else True)
    assert await process_has_ended(project)
    assert not agent.is_busy


async def test_a_command_that_is_aborted_is_returned_as_cancelled(agent, project):
    model = ScriptedModel("fine")
    await agent.start(model)
    task = await begun(agent, FOR_EVER)
    agent.abort()
    ran = await task
    assert (ran.output, ran.cancelled) == ("begun\n", True)
    assert on_disk(agent) == [ran]
    assert await process_has_ended(project)
    await say(agent, "what was that?")
    assert "stopped it" in model.requests[0].messages[0].text


async def test_closing_ends_a_command_and_keeps_it(agent, project):
    await agent.start(ScriptedModel())
    task = await begun(agent, FOR_EVER)
    session = agent.session
    await agent.close()
    ran = await task
    assert ran.cancelled
    assert Session.view(session.store, session.ref).path()[-1].text == "begun\n"
    assert await process_has_ended(project)


async def test_one_thing_at_a_time(agent, project):
    """Neither a command in a turn, nor a turn or a second command beside a command."""
    gate = asyncio.Event()
    model = ScriptedModel(["half", gate], "never")
    await agent.start(model)
    async with asyncio.TaskGroup() as tasks:
        turn = tasks.create_task(say(agent, "hello"))
        while not model.requests:
            await asyncio.sleep(0)
        with pytest.raises(UsageError, match="at work"):
            await agent.run_command("touch ran")
        gate.set()
        await turn
        command = await begun(agent, FOR_EVER)
        with pytest.raises(UsageError, match="at work"):
            await agent.run_command("touch ran")
        with pytest.raises(UsageError, match="at work"):
            await say(agent, "again")
        with pytest.raises(UsageError, match="at work"):
            await agent.move(None)
        with pytest.raises(UsageError, match="not at work"):
            agent.steer("to whom?")
        agent.abort()
        await command
    assert not (project / "ran").exists()
    assert len(model.requests) == 1


async def test_a_turn_that_nobody_watches_any_more_ends_before_a_command_begins(agent):
    await agent.start(ScriptedModel(["half", asyncio.Event()]))
    async for event in agent.send_message("hello"):
        if event.type == "message_update" and event.extent:
            break
    ran = await agent.run_command("echo after")
    assert [getattr(message, "stop_reason", "") for message in on_disk(agent)] == ["", "aborted", ""]
    assert on_disk(agent)[-1] == ran
