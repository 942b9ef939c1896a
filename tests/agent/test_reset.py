"""A conversation from scratch in the same session: nothing before it is sent, and nothing is deleted."""

from pathlib import Path

import pytest

from perdure.agent.compaction import SummaryCompaction
from perdure.errors import NotSaved, PerdureError, UsageError
from perdure.session.entry import Custom, ModelChange
from perdure.session.session import Session
from perdure.testing import ScriptedModel
from tests.agent.refusing import LAYOUTS, Disk, on_disk, session_in, talking, texts, told, view

pytestmark = pytest.mark.anyio

RESET = "perdure.reset"


@pytest.fixture(params=LAYOUTS)
def session(request, home):
    with session_in(request.param, home / "kept") as session:
        yield session


async def test_sib_12_what_was_said_stays_and_is_not_sent_any_more(session):
    """On disk when it returns; whoever reads the session later is sent the same."""
    model = ScriptedModel("one", "two", "three")
    async with await talking(session, model) as agent:
        await told(agent.send_message("hello"))
        before = agent.spent.tokens
        await agent.reset()
        assert on_disk(session) == ["hello", "one", RESET]
        assert agent.spent.tokens < before
        await told(agent.send_message("again"))
        assert texts(model.requests[1].messages) == ["again"]
        assert on_disk(session) == ["hello", "one", RESET, "again", "two"]
        assert texts(view(session).context().messages) == ["again", "two"]
        assert texts(await agent.agent.memory.sent()) == ["again", "two"]


@pytest.mark.parametrize("is_recalled", [True, False])
async def test_it_holds_for_whoever_opens_the_session_again(session, is_recalled):
    """Before anything was said, and where that was read to say how much would be sent."""
    async with await talking(session, ScriptedModel("one")) as agent:
        await told(agent.send_message("hello " * 400))
        await agent.reset()
        await agent.record(Custom("perdure.other"))
    model = ScriptedModel("two")
    with Session.open(session.store, session.ref) as again:
        async with await talking(again, model, tools=[], system_prompt="Be brief.") as agent:
            if is_recalled:
                await agent.recall()
                assert 0 < agent.spent.tokens < 100
            await told(agent.send_message("again"))
            assert texts(model.requests[0].messages) == ["again"]


async def test_it_holds_after_a_refusal_and_after_others_wrote(session):
    """Whatever makes the agent read the session anew."""
    disk, model = Disk(session), ScriptedModel("one", "two")
    async with await talking(session, model) as agent:
        await told(agent.send_message("hello"))
        await agent.reset()
        disk.refusals = [disk.count + 1]
        with pytest.raises(NotSaved):
            await told(agent.send_message("refused"))
        await agent.recall()
        assert await agent.agent.memory.sent() == []
        session.reload()
        await agent.move(session.head)
        await agent.recall()
        assert await agent.agent.memory.sent() == []
        await told(agent.send_message("again"))
        assert texts(model.requests[1].messages) == ["again"]


async def test_what_was_said_before_it_is_not_condensed_either(session):
    compaction = SummaryCompaction(is_automatic=False, keep_recent_tokens=10)
    async with await talking(session, ScriptedModel("a" * 3000), compaction=compaction) as agent:
        await told(agent.send_message("b" * 3000))
        await agent.reset()
        with pytest.raises(PerdureError, match="nothing to condense"):
            await told(agent.compact())


async def test_who_goes_back_before_it_is_sent_what_was_said_there(session):
    model = ScriptedModel("one", "two", "three")
    async with await talking(session, model) as agent:
        await told(agent.send_message("hello"))
        answer = session.head
        await agent.reset()
        await told(agent.send_message("again"))
        await agent.move(answer)
        await told(agent.send_message("instead"))
        assert texts(model.requests[2].messages) == ["hello", "one", "instead"]


async def test_who_comes_back_to_where_it_was_made_is_sent_what_was_said_there(session):
    """What is said then follows that, and not the reset."""
    model = ScriptedModel("one", "two")
    async with await talking(session, model) as agent:
        await told(agent.send_message("hello"))
        answer = session.head
        await agent.reset()
        await agent.move(None)
        await agent.move(answer)
        await agent.recall()
        assert texts(await agent.agent.memory.sent()) == ["hello", "one"]
        await told(agent.send_message("go on"))
        assert texts(model.requests[1].messages) == ["hello", "one", "go on"]
        assert texts(view(session).context().messages) == ["hello", "one", "go on", "two"]


async def test_what_waits_to_be_saved_is_saved_before_it(session):
    """If that is refused, nothing is reset."""
    disk, model = Disk(session), ScriptedModel("one", "two")
    async with await talking(session, model) as agent:
        disk.refusals = [2, 3]
        with pytest.raises(NotSaved):
            await told(agent.send_message("hello"))
        with pytest.raises(NotSaved):
            await agent.reset()
        assert (on_disk(session), agent.is_busy) == (["hello"], False)
        await agent.reset()
        assert on_disk(session) == ["hello", "one", RESET]
        await told(agent.send_message("again"))
        assert texts(model.requests[1].messages) == ["again"]


async def test_it_is_refused_in_a_turn_and_nothing_in_an_empty_session(session):
    async with await talking(session, ScriptedModel("one")) as agent:
        before = Path(session.ref.path).read_bytes()
        await agent.reset()
        assert Path(session.ref.path).read_bytes() == before
        async for _ in agent.send_message("hello"):
            with pytest.raises(UsageError, match="at work"):
                await agent.reset()
        assert on_disk(session) == ["hello", "one"]


async def test_the_model_stays_and_is_noted_again_where_it_was_noted_long_ago(home, monkeypatch):
    """So that nobody has to look for it before the reset."""
    monkeypatch.setattr("perdure.agent.agent._FAR", 0)
    with session_in("pi", home / "kept") as session:
        async with await talking(session, ScriptedModel("one", "two")) as agent:
            await told(agent.send_message("hello"))
            await agent.reset()
            await told(agent.send_message("again"))
            entries = view(session).entries
    at = next(number for number, entry in enumerate(entries) if entry.type == "custom")
    assert entries[at + 1].body == ModelChange("scripted", "scripted")
