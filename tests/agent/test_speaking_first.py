"""An agent that opens the conversation: it is asked to by a program, and its user has said nothing."""

import asyncio
from typing import Any

import pytest

from perdure.agent.events import MessageUpdate
from perdure.agent.settings import Retry, Settings
from perdure.errors import ModelUnavailable, NotSaved, UsageError
from perdure.session.entry import CustomMessage, User
from perdure.testing import ScriptedModel
from tests.agent.refusing import LAYOUTS, Disk, on_disk, session_in, talking, texts, told, view

pytestmark = pytest.mark.anyio

ASK = "Ask what this is about."


@pytest.fixture(params=LAYOUTS)
def session(request, home):
    with session_in(request.param, home / "kept") as session:
        yield session


async def test_the_opening_is_on_disk_before_the_model_is_asked_and_is_nobodys_message(session):
    """And what is sent then, and later, is what the session says."""
    seen = []

    def look(request):
        seen.append((on_disk(session), view(session).context().messages == [*request.messages]))
        return "What is it about?"

    model = ScriptedModel(look, "I see.")
    async with await talking(session, model) as agent:
        await told(agent.speak_first(ASK))
        assert seen == [([ASK], True)]
        (entry,) = (entry for entry in view(session).entries if entry.type == "custom_message")
        assert entry.body == CustomMessage("perdure.opening", ASK, display=False)
        assert model.requests[0].messages == (User(ASK),)
        assert texts(await agent.agent.memory.sent()) == texts(view(session).context().messages)
        await told(agent.send_message("About trains."))
        assert texts(model.requests[1].messages) == [ASK, "What is it about?", "About trains."]
        assert on_disk(session) == [ASK, "What is it about?", "About trains.", "I see."]
        users = [entry.text for entry in view(session).path() if entry.role == "user"]
        assert users == ["About trains."]


async def test_its_events_are_those_of_a_turn_without_a_prompt(session):
    async with await talking(session, ScriptedModel("Well?")) as agent:
        events = await told(agent.speak_first(ASK))
    types = [event.type for event in events if not isinstance(event, MessageUpdate)]
    assert types == ["agent_start", "turn_start", "message_start", "message_end", "turn_end", "agent_end"]
    assert texts(events[-1].messages) == ["Well?"]


async def test_a_busy_model_is_asked_again_and_what_is_queued_is_said(session):
    """As in any turn."""
    model = ScriptedModel(ModelUnavailable("busy"), "Well?", "I see.")
    settings = Settings(retry=Retry(base_delay_ms=1))
    async with await talking(session, model, settings=settings) as agent:
        async for event in agent.speak_first(ASK):
            if event.type == "auto_retry_start":
                agent.follow_up("It is about trains.")
        assert on_disk(session) == [ASK, "Well?", "It is about trains.", "I see."]


async def test_an_opening_that_is_aborted_is_kept_as_far_as_it_came(session):
    """And nothing else is begun meanwhile."""
    async with await talking(session, ScriptedModel(["Well, I", asyncio.Event()], "I see.")) as agent:
        async for event in agent.speak_first(ASK):
            if isinstance(event, MessageUpdate) and event.extent and not event.assistant_message_event.reason:
                with pytest.raises(UsageError, match="at work"):
                    await anext(agent.speak_first(ASK))
                agent.abort()
        last: Any = view(session).path()[-1]
        assert (last.text, last.body.message.stop_reason) == ("Well, I", "aborted")
        await told(agent.send_message("Go on."))
        assert on_disk(session) == [ASK, "Well, I", "Go on.", "I see."]


async def test_an_opening_that_cannot_be_recorded_asks_nobody(session):
    """It can be tried again, and is there once."""
    disk, model = Disk(session), ScriptedModel("Well?")
    async with await talking(session, model) as agent:
        disk.refusals = [1]
        with pytest.raises(NotSaved):
            await told(agent.speak_first(ASK))
        assert (model.requests, agent.has_unsaved, on_disk(session)) == ([], False, [])
        await told(agent.speak_first(ASK))
        assert on_disk(session) == [ASK, "Well?"]
