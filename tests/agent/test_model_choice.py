"""Which model a session goes on with, and what its user is told of that (G-9)."""

import json
from typing import Any

import pytest

from perdure import AgentSession
from perdure.agent.events import MessageStart
from perdure.agent.models.offline import NOTICE
from perdure.session.entry import Assistant, User
from perdure.testing import ScriptedModel

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def talk(session_id: str | None = None, *texts: str, **options: Any) -> tuple[str, AgentSession]:
    """The session's id, and its agent, which is closed."""
    async with AgentSession() as agent:
        id = await agent.start(session_id=session_id, **options)
        for text in texts:
            async for _ in agent.send_message(text):
                pass
    return id, agent


# --- that `offline` answers ---------------------------------------------------------------------------------


async def test_g_9_that_offline_answers_is_noticed_before_the_answer_begins():
    """Also before it calls a tool."""
    async with AgentSession() as agent:
        await agent.start()
        assert agent.notices == []
        noticed = []
        async for event in agent.send_message("list ."):
            if isinstance(event, MessageStart):
                noticed.append((type(event.message), agent.notices == [NOTICE]))
    assert noticed[:2] == [(User, False), (Assistant, True)]
    assert agent.notices == [NOTICE]


async def test_g_9_nothing_that_is_kept_says_that_offline_answered(home):
    """Beside the name of the model."""
    id, _ = await talk(None, "hello", "list .")
    (file,) = home.rglob(f"*{id}.jsonl")
    assert "built-in" not in file.read_text(encoding="utf-8")


async def test_g_9_a_session_with_an_offline_answer_is_noticed_no_more():
    """Neither for the next message, nor when it goes on."""
    id, agent = await talk(None, "hello", "hello again")
    assert agent.notices == [NOTICE]
    _, agent = await talk(id, "and again")
    assert agent.notices == []


# --- which model a session goes on with ---------------------------------------------------------------------


@pytest.fixture
def key(monkeypatch):
    """Sets one, as a user does between two runs."""
    return lambda: monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


async def goes_on_with(id: str, **options: Any) -> tuple[str, list[str]]:
    """The provider of the model, and the notices, before anything is sent."""
    async with AgentSession() as agent:
        await agent.start(session_id=id, **options)
        return agent.model.provider, agent.notices


async def test_g_9_an_offline_that_nobody_chose_makes_way_for_a_real_model(key):
    """One line says so, before anything is sent."""
    id, _ = await talk(None, "hello")
    assert await goes_on_with(id) == ("offline", [])
    key()
    provider, (notice,) = await goes_on_with(id)
    assert provider == "openai"
    assert notice.startswith("Resuming with model openai/")
    assert "instead of offline" in notice


async def test_g_9_the_usual_choice_is_the_one_for_this_run_then_that_of_the_settings(key, home):
    """As for a new session."""
    id, _ = await talk(None, "hello")
    key()
    _, (notice,) = await goes_on_with(id, default_model="gpt-4o")
    assert "model openai/gpt-4o " in notice
    (home / ".pi" / "agent" / "settings.json").write_text('{"defaultModel": "openai/gpt-4o-mini"}')
    _, (notice,) = await goes_on_with(id)
    assert "model openai/gpt-4o-mini " in notice


async def test_g_9_the_thinking_of_the_offline_model_is_not_the_next_ones(key, home):
    """It was off because that model cannot think."""
    id, _ = await talk(None, "hello")
    key()
    (home / ".pi" / "agent" / "settings.json").write_text('{"defaultThinkingLevel": "high"}')
    async with AgentSession() as agent:
        await agent.start(session_id=id, default_model="openai/gpt-5")
        assert agent.agent.voice.thinking == "high"


async def test_g_9_where_the_usual_choice_cannot_be_had_the_session_stays_offline():
    """And that is said; nobody chose `offline` by that."""
    id, _ = await talk(None, "hello")
    for wanted in ("gpt-4o", "nosuch"):
        provider, (notice,) = await goes_on_with(id, default_model=wanted)
        assert provider == "offline"
        assert notice.endswith("; this session goes on with offline")
    async with AgentSession() as agent:
        await agent.start(session_id=id)
        assert not agent.agent.voice.is_chosen


@pytest.mark.parametrize("way", ["argument", "default", "model setting", "provider setting", "later"])
async def test_g_9_an_offline_that_its_user_chose_stays(way, key, home):
    """With `-m`, by a variable or a program's settings, by pi's, or with `/model`."""
    settings = {
        "model setting": '{"defaultModel": "offline"}',
        "provider setting": '{"defaultProvider": "offline"}',
    }
    file = home / ".pi" / "agent" / "settings.json"
    file.parent.mkdir(parents=True)
    file.write_text(settings.get(way, "{}"))
    async with AgentSession() as agent:
        id = await agent.start(
            "offline" if way == "argument" else None,
            default_model="offline" if way == "default" else None,
        )
        if way == "later":
            async for _ in agent.send_message("hello"):
                pass
            agent.set_model("offline")
        async for _ in agent.send_message("hello"):
            pass
    file.write_text("{}")
    key()
    for _ in range(2):  # and what is said in it keeps it so
        provider, notices = await goes_on_with(id)
        assert provider == "offline"
        assert [notice.partition(";")[0] for notice in notices] == [
            "This session goes on with offline/offline, as it was held"
        ]
        await talk(id, "and then")


async def test_g_9_an_offline_that_is_chosen_on_the_way_is_recorded_alone(home):
    """The model is the same, and what is new of it is that somebody chose it."""
    id, _ = await talk(None, "hello")
    (file,) = home.rglob(f"*{id}.jsonl")
    assert "isChosen" not in file.read_text()
    await talk(id, "more", model="offline")
    await talk(id, "more")
    changes = [
        each for each in map(json.loads, file.read_text().splitlines()) if each["type"] == "model_change"
    ]
    assert [each.get("isChosen") for each in changes] == [None, True]


async def test_g_9_after_a_real_model_that_is_gone_nobody_has_chosen_offline(key):
    """So the next run with a key makes the usual choice."""
    id, _ = await talk(None, "hello", model=ScriptedModel("hello"))
    _, agent = await talk(id, "hello")
    assert agent.notices[0].endswith("Another model goes on")
    key()
    provider, _ = await goes_on_with(id)
    assert provider == "openai"


@pytest.mark.parametrize("is_chosen", [True, False])
async def test_g_9_a_compaction_a_reset_and_a_fork_keep_what_was_chosen(is_chosen, key):
    """Nothing of what was said before is sent any more, and the model is the session's own."""
    async with AgentSession(settings={"compaction": {"keepRecentTokens": 10}}) as agent:
        id = await agent.start("offline" if is_chosen else None)
        for text in ("hello " * 100, "hello " * 100):
            async for _ in agent.send_message(text):
                pass
        async for _ in agent.compact():
            pass
        fork = agent.session.fork()
        await agent.reset()
        async for _ in agent.send_message("from scratch"):
            pass
    key()
    for each in (id, fork.id):
        provider, _ = await goes_on_with(each)
        assert provider == ("offline" if is_chosen else "openai")
