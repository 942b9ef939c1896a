"""The checks that other tests trust: they accept what OpenAI accepts, and find what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.agent.models.schemas import accepts


def chat(*messages: Any, **fields: Any) -> tuple[str, Any]:
    return "openai-completions", {"model": "m", "stream": True, "messages": [USER, *messages], **fields}


def responses(*items: Any, **fields: Any) -> tuple[str, Any]:
    return "openai-responses", {"model": "m", "stream": True, "input": [USER, *items], **fields}


USER = {"role": "user", "content": "hi"}


def calling(*ids: str, arguments: str = "{}", name: str = "bash") -> Any:
    function = {"name": name, "arguments": arguments}
    calls = [{"id": id, "type": "function", "function": function} for id in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def result(id: str) -> Any:
    return {"role": "tool", "tool_call_id": id, "content": "ok"}


def call(id: str, /, **fields: Any) -> Any:
    return {"type": "function_call", "call_id": id, "name": "bash", "arguments": "{}", **fields}


def output(id: str) -> Any:
    return {"type": "function_call_output", "call_id": id, "output": "ok"}


REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/tiff;base64,AA"}}
SAID = {"role": "assistant", "content": "yes"}


def test_what_is_right_is_accepted():
    """Calls with their results, reasoning with what it led to."""
    results = output("a"), output("b")
    assert accepts(*chat(calling("a", "b"), result("b"), result("a"), SAID)) == []
    assert accepts(*responses(REASONING, call("a", id="fc_1"), call("b"), *results, SAID)) == []


REFUSED = {
    "a member that nobody knows": chat(temprature=1),
    "a value of another type": chat({"role": "user", "content": [{"type": "text", "text": 3}]}),
    "an unanswered call": chat(calling("a")),
    "a call answered later": chat(calling("a"), SAID, result("a")),
    "a call answered twice": chat(calling("a"), result("a"), result("a")),
    "a result of no call": chat(result("a")),
    "an id twice in one answer": chat(calling("a", "a"), result("a"), result("a")),
    "an id that is too long": chat(calling("a" * 41), result("a" * 41)),
    "a name that is none": chat(calling("a", name="a.b"), result("a")),
    "arguments that are no object": chat(calling("a", arguments="[]"), result("a")),
    "arguments that are no JSON": chat(calling("a", arguments="{"), result("a")),
    "an answer of nothing": chat({"role": "assistant", "content": ""}),
    "the user twice": chat(USER),
    "no tools": chat(tools=[]),
    "an image of no kind": chat(SAID, {"role": "user", "content": [IMAGE]}),
    "responses: a member that nobody knows": responses(temprature=1),
    "responses: an unanswered call": responses(call("a")),
    "responses: a result of no call": responses(output("a")),
    "responses: words before the result": responses(call("a"), SAID, output("a")),
    "responses: an id of another kind": responses(call("a", id="msg_1"), output("a")),
    "responses: an id twice": responses(call("a", id="fc_1"), call("b", id="fc_1"), output("a"), output("b")),
    "responses: reasoning that was stored": responses({**REASONING, "encrypted_content": None}, SAID),
    "responses: reasoning that led to nothing": responses(REASONING),
    "responses: reasoning before the user": responses(REASONING, USER),
}


@pytest.mark.slow
@pytest.mark.parametrize("why", REFUSED)
def test_what_is_wrong_is_found(why):
    """By the types, or by the rules that they do not tell."""
    assert accepts(*REFUSED[why])
