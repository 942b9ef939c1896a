"""What waits to be said: nothing of it is lost, however a turn ends."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import AgentSession
from perdure.agent.queue import Queue
from perdure.errors import ModelError, NotSaved, UsageError
from perdure.session.entry import ToolCall
from perdure.testing import ScriptedModel

STEPS = st.sampled_from(["steer", "follow up", "take", "take after tools", "say"])


@given(st.lists(STEPS, max_size=30))
def test_every_text_is_said_once_or_given_up(steps):
    """And each way keeps its order."""
    queue = Queue()
    queue.open()
    added: dict[str, list[str]] = {"steer": [], "follow up": []}
    said: list[str] = []
    taken: list[str] = []
    for number, step in enumerate(steps):
        if step in added:
            text = f"{step} {number}"
            (queue.steer if step == "steer" else queue.follow_up)(text)
            added[step].append(text)
        elif step == "say" and taken:
            said.append(taken.pop(0))
            queue.said()
        elif step.startswith("take") and not taken:
            taken = queue.take(has_results=step == "take after tools")
    has_left = bool(taken or {*added["steer"], *added["follow up"]} - {*said})
    assert queue.close() == has_left
    for step, texts in added.items():
        assert [text for text in [*said, *queue.given_up] if text.startswith(step)] == texts
    assert queue.update().steering == queue.update().follow_up == []
    with pytest.raises(UsageError):
        queue.steer("too late")
    queue.open()
    assert queue.given_up == []


# --- in a conversation ------------------------------------------------------------------------------------


@pytest.fixture
async def agent(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    async with AgentSession() as agent:
        yield agent


def has_begun(event) -> bool:
    """The answer has."""
    return event.type == "message_update" and event.assistant_message_event.type == "text_start"


def queue_some(agent) -> None:
    agent.follow_up("later")
    agent.steer("first")
    agent.steer("second")


QUEUED = ["first", "second", "later"]


@pytest.mark.anyio
async def test_g_6_what_was_queued_when_a_turn_is_aborted_can_be_had_back(agent):
    """In the order in which it would have been said, until something else is said."""
    await agent.start(ScriptedModel(["half", asyncio.Event()], "fine"))
    updates: list[Any] = []
    async with aclosing(agent.send_message("hello")) as events:
        async for event in events:
            if has_begun(event):
                queue_some(agent)
                agent.abort()
            if event.type == "queue_update":
                updates.append([*event.steering, *event.follow_up])
    assert agent.given_up == QUEUED
    assert updates[0] == QUEUED
    assert updates[-1] == []
    assert [event async for event in agent.send_message("again")]
    assert agent.given_up == []


@pytest.mark.anyio
async def test_what_was_queued_when_the_model_fails_can_be_had_back(agent):
    await agent.start(ScriptedModel(["half", ModelError("wrong key")]))
    async with aclosing(agent.send_message("hello")) as events:
        async for event in events:
            if has_begun(event):
                queue_some(agent)
    assert event.messages[-1].stop_reason == "error"
    assert agent.given_up == QUEUED


@pytest.mark.anyio
async def test_what_was_queued_in_a_turn_that_was_left_can_be_had_back(agent):
    await agent.start(ScriptedModel(["half", asyncio.Event()]))
    async with aclosing(agent.send_message("hello")) as events:
        async for event in events:
            if has_begun(event):
                queue_some(agent)
                break
    assert agent.given_up == QUEUED


@pytest.mark.anyio
async def test_what_was_said_is_not_given_up_and_what_could_not_be_recorded_is(agent, monkeypatch):
    """The disk is full when the second of two is to be said."""
    await agent.start(ScriptedModel(ToolCall("a", "ls", {}), "never"))
    real = agent.session.append

    def refuse(*bodies):
        if any("second" in repr(body) for body in bodies):
            raise NotSaved(agent.session.ref.path, OSError(28, "No space left on device"))
        return real(*bodies)

    monkeypatch.setattr(agent.session, "append", refuse)

    async def watch() -> None:
        async for event in agent.send_message("hello"):
            if event.type == "tool_execution_start":
                queue_some(agent)

    with pytest.raises(NotSaved):
        await watch()
    assert agent.session.tail(1)[0].text == "first"
    assert agent.given_up == ["second", "later"]


@pytest.mark.anyio
async def test_a_turn_that_ends_well_gives_nothing_up(agent):
    await agent.start(ScriptedModel(ToolCall("a", "ls", {}), "turned", "followed"))
    async for event in agent.send_message("hello"):
        if event.type == "tool_execution_start":
            queue_some(agent)
    assert agent.given_up == []
    assert [entry.text for entry in agent.session.tail(4)] == ["second", "turned", "later", "followed"]
