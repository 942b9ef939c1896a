"""Responses as llama.cpp sends them: no item has a number, no call an id, and `item_id` is its `call_id`."""

import json
from typing import Any

from perdure.agent.models import Model
from perdure.agent.models.openai_responses import OpenAIResponses
from perdure.session.entry import Text, Thinking, ToolCall
from tests.agent.models.asking import read

MODEL = Model(id="small", provider="custom", api="openai-responses", base_url="http://127.0.0.1:1/v1")


def told(type: str, **fields: Any) -> bytes:
    return b"data: " + json.dumps({"type": f"response.{type}", **fields}).encode() + b"\n\n"


def item(delta: str, key: str, *pieces: str, **begun: Any) -> tuple[bytes, bytes]:
    """How it begins and grows, and how it ends: all items end together."""
    whole = "".join(pieces)
    done = {"arguments": whole} if "call_id" in begun else {"content": [{"text": whole}]}
    grown = [told(f"{delta}.delta", item_id=key, delta=piece) for piece in pieces]
    begins = told("output_item.added", item=begun) + b"".join(grown)
    return begins, told("output_item.done", item=begun | done)


def call(name: str) -> tuple[bytes, bytes]:
    begun = {"type": "function_call", "call_id": f"fc_{name}", "name": "ls", "arguments": ""}
    return item("function_call_arguments", f"fc_{name}", '{"path":', f'"{name}"}}', **begun)


def test_items_without_numbers_are_known_by_their_ids():
    """What is said once is read once, and arguments find their call."""
    items = [
        item("reasoning_text", "rs_1", "Hm.", " Hm.", type="reasoning", id="rs_1", summary=[]),
        item("output_text", "msg_1", "Hello", " there", type="message", id="msg_1", content=[]),
        call("a"),
        call("b"),
    ]
    wire = [begin for begin, _ in items] + [end for _, end in items] + [told("completed", response={})]
    content = read(MODEL, OpenAIResponses().reader(MODEL), *wire).message.content
    assert isinstance(content, list)
    thought, said, *calls = content
    assert isinstance(thought, Thinking)
    assert thought.thinking == "Hm. Hm."
    assert isinstance(said, Text)
    assert said.text == "Hello there"
    assert calls == [ToolCall("fc_a", "ls", {"path": "a"}), ToolCall("fc_b", "ls", {"path": "b"})]
