"""Whole conversations with a real language model: streamed, cut off, counted, resumed and condensed."""

import asyncio
import json
import signal
import subprocess
import sys
from contextlib import aclosing

import pytest

from perdure.agent.compaction import SummaryCompaction
from perdure.agent.events import AgentEvent, AutoRetryStart, CompactionEnd, MessageEnd, MessageUpdate
from perdure.agent.session import AgentSession
from perdure.session.entry import Assistant, Compaction, Entry, Message, text_of
from perdure.session.manager import SessionManager
from tests.local.server import LONGEST, WINDOW

SHORT = "What is the capital of France?"
LONG = "Write a long story about a king and his three daughters."
"""It goes on until it is stopped, at the latest after LONGEST tokens."""

pytestmark = pytest.mark.anyio


async def told(agent: AgentSession, prompt: str) -> list[AgentEvent]:
    return [event async for event in agent.send_message(prompt)]


def streamed(events: list[AgentEvent]) -> list[str]:
    updates = (event.assistant_message_event for event in events if isinstance(event, MessageUpdate))
    return [str(update.delta) for update in updates if update.type == "text_delta"]


def answer_in(events: list[AgentEvent]) -> Assistant:
    ended = [event.message for event in events if isinstance(event, MessageEnd)]
    assert isinstance(ended[-1], Assistant)
    return ended[-1]


def said(message: Assistant) -> str:
    return text_of(message.content)


def read_by(message: Assistant) -> int:
    """Tokens that the model was sent."""
    return int(message.usage["input"] + message.usage["cacheRead"])


def is_whole(message: Assistant) -> bool:
    return message.stop_reason in ("stop", "length") and bool(said(message))


def message_of(entry: Entry) -> Assistant:
    body = entry.body
    assert isinstance(body, Message)
    assert isinstance(body.message, Assistant)
    return body.message


def compactions(events: list[AgentEvent]) -> list[CompactionEnd]:
    return [event for event in events if isinstance(event, CompactionEnd)]


def notes(tokens: int) -> str:
    """A text of about so many."""
    return " ".join(f"Note {line}: the ship left the harbour in the morning." for line in range(tokens // 13))


# --- one answer ---------------------------------------------------------------------------------------


async def test_what_streams_in_is_what_is_kept(agent, api, sessions_dir):
    """In several pieces, whatever is spoken; the pieces make the message, and the message is on disk."""
    async with agent(api) as session:
        id = await session.start()
        events = await told(session, SHORT)
    pieces = streamed(events)
    assert len(pieces) >= 3
    assert is_whole(answer_in(events))
    assert "".join(pieces) == said(answer_in(events))
    assert [entry.text for entry in SessionManager(sessions_dir).load_session(id)] == [SHORT, "".join(pieces)]


async def test_usage_is_counted_and_costs_nothing(agent, api, sessions_dir):
    """Tokens in and out, as the server counts them; a model without a price is free."""
    async with agent(api) as session:
        id = await session.start()
        await told(session, SHORT)
    stored = message_of(SessionManager(sessions_dir).load_session(id)[-1])
    usage = stored.usage
    assert read_by(stored) > 0
    assert usage["output"] > 0
    assert usage["totalTokens"] == sum(usage[name] for name in ("input", "output", "cacheRead", "cacheWrite"))
    assert usage["cost"]["total"] == 0


async def test_an_answer_that_is_cut_off_stays_and_costs_the_server_nothing_more(
    agent, api, server, sessions_dir
):
    """What had arrived is kept as aborted, the server stops, and the conversation goes on."""
    before = server.work
    events = []
    async with agent(api) as session:
        id = await session.start()
        async with aclosing(session.send_message(LONG)) as stream:
            async for event in stream:
                events.append(event)
                if len(streamed(events)) == 3:
                    session.abort()
        made = await asyncio.to_thread(server.work_since, before)
        after = answer_in(await told(session, SHORT))
    partial = answer_in(events)
    assert partial.stop_reason == "aborted"
    assert said(partial) == "".join(streamed(events))
    assert made < LONGEST // 2
    assert is_whole(after)
    kept = [entry.text for entry in SessionManager(sessions_dir).load_session(id)]
    assert kept == [LONG, said(partial), SHORT, said(after)]


# --- many answers -------------------------------------------------------------------------------------


async def test_a_resumed_conversation_is_sent_in_full(agent, api):
    """Another agent goes on with the same model, unasked, which reads all that was said before."""
    async with agent(api) as session:
        id = await session.start()
        first = answer_in(await told(session, SHORT))
    async with agent(api) as session:
        assert await session.start(session_id=id) == id
        assert session.model.api == api
        second = answer_in(await told(session, "And which one is the capital of Italy?"))
    assert is_whole(second)
    assert read_by(second) > first.usage["totalTokens"]


async def test_a_long_conversation_goes_on_behind_a_summary(agent, api, sessions_dir):
    """Which the model itself makes. It then reads less than before; the file has all that was said."""
    long, short = f"{notes(300)}\n{SHORT}", SHORT
    async with agent(api, SummaryCompaction(threshold=300, keep_recent_tokens=1), max_tokens=64) as session:
        id = await session.start()
        first = answer_in(await told(session, long))
        events = await told(session, short)
    second = answer_in(events)
    assert is_whole(second)
    assert read_by(second) < read_by(first)
    [condensed] = compactions(events)
    assert condensed.result["summary"]
    manager = SessionManager(sessions_dir)
    kept = [entry.text for entry in manager.load_session(id)]
    assert kept == [long, said(first), short, said(second)]
    with manager.view_session(id) as stored:
        [compaction] = [entry.body for entry in stored.entries if isinstance(entry.body, Compaction)]
    assert compaction.summary == condensed.result["summary"]
    assert compaction.usage["output"] > 0


# --- too much at once ---------------------------------------------------------------------------------


async def test_more_than_the_model_can_read_is_said_in_plain_words(agent, api):
    """Where nothing is condensed, the server's refusal ends the turn, and nothing is tried again."""
    async with agent(api, context_window=128_000) as session:
        await session.start()
        events = await told(session, notes(WINDOW + 200))
    assert not any(isinstance(event, AutoRetryStart) for event in events)
    failed = answer_in(events)
    assert failed.stop_reason == "error"
    assert str(failed.error_message).startswith("This is more than custom/small can read")


async def test_a_window_that_is_smaller_than_it_is_said_to_be_is_found_out(agent, sessions_dir):
    """The server refuses; what it refused is condensed, to what it can read, and then there is an answer."""
    prompt = f"{notes(WINDOW + 200)}\n{SHORT}"
    size = {"context_window": 128_000, "max_tokens": 64}
    async with agent("anthropic-messages", SummaryCompaction(), **size) as session:
        id = await session.start()
        events = await told(session, prompt)
    assert [event.reason for event in compactions(events)] == ["overflow"]
    answer = answer_in(events)
    assert is_whole(answer)
    assert 0 < read_by(answer) < WINDOW
    assert [entry.text for entry in SessionManager(sessions_dir).load_session(id)] == [prompt, said(answer)]


# --- the program --------------------------------------------------------------------------------------


@pytest.fixture
def pi(home, server, tmp_path):
    """Starts `pi --print`, its stdout a pipe."""
    settings = home / ".pi" / "agent" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text(json.dumps(server.settings()))

    def started(*words: str) -> "subprocess.Popen[bytes]":
        lean = ("--no-tools", "--system-prompt", "You are brief.")
        return subprocess.Popen(
            [sys.executable, "-m", "perdure", "--print", *lean, *words],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    return started


def test_pi_prints_events_and_then_goes_on_in_another_process(pi):
    """One JSON value a line, the session first; `-c` in text prints the answer alone."""
    with pi("--mode", "json", SHORT) as process:
        lines = [json.loads(line) for line in process.stdout]
    assert process.returncode == 0
    assert [lines[0]["type"], lines[1]["type"], lines[-1]["type"]] == ["session", "agent_start", "agent_end"]
    updates = [line["assistantMessageEvent"] for line in lines if line["type"] == "message_update"]
    text = "".join(update["delta"] for update in updates if update["type"] == "text_delta")
    *_, first = [line["message"] for line in lines if line["type"] == "message_end"]
    assert first["content"] == [{"type": "text", "text": text}]
    with pi("-c", "And which one is the capital of Italy?") as process:
        printed = process.stdout.read().decode()
    assert process.returncode == 0
    entries = SessionManager().load_session(lines[0]["id"])
    assert [entry.role for entry in entries] == ["user", "assistant"] * 2
    assert printed == f"{entries[-1].text}\n"
    second = message_of(entries[-1])
    assert read_by(second) > first["usage"]["totalTokens"]


def test_pi_that_is_interrupted_keeps_what_was_said(pi, server):
    """SIGINT in the middle of an answer: exit code 130, and the server is left in peace."""
    before = server.work
    with pi("--mode", "json", LONG) as process:
        for line in process.stdout:
            if b"text_delta" in line:
                process.send_signal(signal.SIGINT)
                break
        process.stdout.read()
    assert process.returncode == 128 + signal.SIGINT
    [session] = SessionManager().list_sessions()
    *_, last = SessionManager().load_session(session.id)
    assert message_of(last).stop_reason == "aborted"
    assert last.text
    assert server.work_since(before) < LONGEST // 2
