"""Images of every size, to every protocol: what a server would refuse is not sent, now or in later turns."""

from __future__ import annotations

import re
from typing import Any

import pytest

from perdure.agent.models import Model, Request, Sent, WireProtocol
from perdure.agent.models.anthropic import AnthropicMessages
from perdure.agent.models.google import GoogleGenerativeAI
from perdure.agent.models.openai_chat import OpenAIChat
from perdure.agent.models.openai_responses import OpenAIResponses
from perdure.agent.tools.read import LARGEST_IMAGE
from perdure.session.entry import Image, Text, ToolCall, ToolResult, User
from tests.agent.models.asking import said_by

MiB = 2**20
LIMITS: dict[str, tuple[WireProtocol, int]] = {
    "anthropic-messages": (AnthropicMessages(), 5 * MiB),
    "openai-completions": (OpenAIChat(), -(-20 * MiB // 3) * 4),
    "openai-responses": (OpenAIResponses(), -(-20 * MiB // 3) * 4),
    "google-generative-ai": (GoogleGenerativeAI(), 100_000_000),
}


def sizes_sent(body: Any) -> list[int]:
    """Of everything in a request that is too long to be a text."""
    if isinstance(body, str):
        return [len(body.rpartition(",")[2])] if len(body) > 1000 else []
    parts = body.values() if isinstance(body, dict) else body if isinstance(body, list) else ()
    return [size for part in parts for size in sizes_sent(part)]


@pytest.mark.slow
@pytest.mark.parametrize("api", LIMITS)
def test_an_image_is_sent_up_to_the_servers_limit_and_else_a_word(api):
    """Said by the user or by a tool; were it sent, every later request of the session would be refused."""
    protocol, limit = LIMITS[api]
    model = Model(id="m", provider="p", api=api, base_url="https://example.test/v1", input=("text", "image"))
    for size, sent in [(limit, 2), (limit + 4, 0)]:
        image = Image("A" * size, "image/png")
        answer = said_by(model, ToolCall("call_1", "read", {}))
        history: list[Sent] = [User([Text("Look."), image]), answer, ToolResult("call_1", "read", [image])]
        body = protocol.call(model, Request(messages=history), "").body
        assert sizes_sent(body) == [size] * sent
        if not sent:
            assert len(re.findall("image, which|left out", str(body))) == 2


def test_pi_08_what_read_shows_is_more_than_one_protocol_takes():
    """So the limit is kept where it is one: at the wire."""
    as_base64 = -(-LARGEST_IMAGE // 3) * 4
    assert [api for api, (_, limit) in LIMITS.items() if limit < as_base64] == ["anthropic-messages"]
