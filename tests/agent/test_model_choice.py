"""Which model a session goes on with, and what its user is told of that (G-9)."""

from typing import Any

import pytest

from perdure import AgentSession
from perdure.agent.models.offline import NOTICE
from perdure.session.entry import Assistant, User

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
            if event.type == "message_start":
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
