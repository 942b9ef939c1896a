"""How hard OpenAI's models, and those of others who speak like it, are asked to think."""

from __future__ import annotations

import pytest

from perdure.agent.models import Model, Request
from perdure.agent.models.openai_chat import OpenAIChat
from perdure.agent.models.openai_responses import OpenAIResponses
from perdure.agent.models.registry_catalog import catalog
from perdure.session.entry import User

OPENAI = "https://api.openai.com/v1"
LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh")
THREE = ("", "low", "low", "medium", "high", "high")
FOUR = ("", "low", "low", "medium", "high", "xhigh")
KNOWN = {
    **dict.fromkeys(["o1", "o3-mini", "o3-pro", "o4-mini", "gpt-5-codex", "gpt-5.1-codex", "my-gpt"], THREE),
    **dict.fromkeys(
        ["gpt-5", "gpt-5-mini", "gpt-5-2025-08-07"], ("", "minimal", "low", "medium", "high", "high")
    ),
    "gpt-5-pro": ("", *["high"] * 5),
    "gpt-5.1": ("none", "low", "low", "medium", "high", "high"),
    "gpt-5.1-chat-latest": ("", *["medium"] * 5),
    "gpt-5.1-codex-mini": ("", "medium", "medium", "medium", "high", "high"),
    **dict.fromkeys(["gpt-5.2", "gpt-5.4-nano", "gpt-5.6-sol", "gpt-5.10"], ("none", *FOUR[1:])),
    **dict.fromkeys(["gpt-5.1-codex-max", "gpt-5.3-codex", "gpt-6-astra", "gpt-6.1-sol"], FOUR),
    "gpt-5.2-pro": ("", "medium", "medium", "medium", "high", "xhigh"),
}


def asked(id: str, level: str, base_url: str = OPENAI) -> str:
    """The effort both protocols ask for; empty if neither does."""
    model = Model(id=id, provider="x", api="", base_url=base_url, reasoning=True)
    request = Request(messages=[User("hi")], thinking=level)
    chat = OpenAIChat().call(model, request, "").body.get("reasoning_effort", "")
    reasoning = OpenAIResponses().call(model, request, "").body.get("reasoning", {})
    assert reasoning.get("effort", "") == chat
    assert ("summary" in reasoning) is (chat not in ("", "none"))
    return str(chat)


@pytest.mark.parametrize("id", KNOWN)
def test_each_generation_is_asked_for_the_nearest_it_knows(id):
    """What it does not know is refused, not rounded."""
    assert tuple(asked(id, level) for level in LEVELS) == KNOWN[id]


@pytest.mark.parametrize("id", ["gpt-5.4", "openai/gpt-5", "qwen3:8b", "o3"])
def test_other_servers_are_asked_for_one_of_three(id):
    """Whatever their models are called; and nothing is said where thinking is off."""
    assert tuple(asked(id, level, "http://127.0.0.1:8080/v1") for level in LEVELS) == THREE


def test_no_level_is_beyond_any_model_of_the_catalog():
    """Those that reason can all be asked at every level."""
    ids = [model.id for model in catalog().providers["openai"].models if model.reasoning]
    assert all(asked(id, level) for id in ids for level in LEVELS[1:])
    assert len(ids) > 30
