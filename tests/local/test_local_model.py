"""Whole conversations with a real language model: streamed, cut off, counted, resumed and condensed."""

import asyncio
import json
import subprocess
import sys
from contextlib import aclosing

import pytest

from perdure.agent.compaction import SummaryCompaction
from perdure.agent.events import AgentEvent, CompactionEnd, CompactionStart, MessageEnd, MessageUpdate
from perdure.agent.session import AgentSession
from perdure.session.entry import Assistant, Entry, Message, text_of
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
    stored = SessionManager(sessions_dir).load_session(id)[-1].body
    assert isinstance(stored, Message)
    assert isinstance(stored.message, Assistant)
    usage = stored.message.usage
    assert read_by(stored.message) > 0
    assert usage["output"] > 0
    assert usage["totalTokens"] == sum(usage[name] for name in ("input", "output", "cacheRead", "cacheWrite"))
    assert usage["cost"]["total"] == 0


async def test_an_answer_that_is_cut_off_stays_and_costs_the_server_nothing_more(
    agent, api, server, sessions_dir
):
    """What had arrived is kept as aborted, the server stops, and the conversation goes on."""
    before = server.metric("n_decode_total")
    events = []
    async with agent(api) as session:
        id = await session.start()
        async with aclosing(session.send_message(LONG)) as stream:
            async for event in stream:
                events.append(event)
                if len(streamed(events)) == 3:
                    session.abort()
        while await asyncio.to_thread(server.metric, "requests_processing"):
            await asyncio.sleep(0.1)
        made = server.metric("n_decode_total") - before
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
    """The model itself condenses it; then it reads less than before, and the file still has all of it."""
    prompts = [f"{SHORT} {notes(number)}" for number in range(4)]
    events: list[AgentEvent] = []
    async with agent(api, SummaryCompaction(threshold=600)) as session:
        id = await session.start()
        for prompt in prompts:
            events += await told(session, prompt)
            print(api, prompt[:20], answer_in(events).usage, said(answer_in(events))[:100])
    print([e for e in events if isinstance(e, CompactionEnd|CompactionStart)])


def notes(number: int) -> str:
    """Some 250 tokens."""
    return " ".join(f"Note {number}.{line}: the ship left the harbour in the morning." for line in range(14))
