"""Every field of a session that can hold a text, each as a function that puts one there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from perdure.session.entry import Entry, decode
from perdure.testing import user_entry
from perdure.testing.writing import child

Planting = Callable[[str], dict[str, Any]]


def _message(role: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "message", "message": {"role": role, "content": content, "timestamp": 0, **fields}}


def _assistant(*blocks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    usual = {"api": "x", "provider": "p", "model": "m", "usage": {}, "stopReason": "stop"}
    return _message("assistant", [*blocks], **{**usual, **fields})


def _call(arguments: Any, id: str = "c1", name: str = "bash") -> dict[str, Any]:
    return _assistant({"type": "toolCall", "id": id, "name": name, "arguments": arguments})


def _result(text: str, **fields: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    return _message("toolResult", content, **{"toolCallId": "c1", "toolName": "bash", **fields})


def _bash(**fields: Any) -> dict[str, Any]:
    return _message("bashExecution", "", **{"command": "env", "output": "", "exitCode": 0, **fields})


ENTRIES: dict[str, Planting] = {
    "what a user says": lambda text: _message("user", f"It is {text} then."),
    "a block of it": lambda text: _message("user", [{"type": "text", "text": text}]),
    "an answer": lambda text: _assistant({"type": "text", "text": f"So:\n\n```\n{text}\n```\n"}),
    "a thought": lambda text: _assistant({"type": "thinking", "thinking": text, "thinkingSignature": "s"}),
    "a command": lambda text: _call({"command": f"run '{text}' now"}),
    "arguments in lists": lambda text: _call({"edits": [{"old": "x", "new": [text]}]}),
    "arguments that are text": lambda text: _call(json.dumps({"content": f"a\n{text}\n\u00e9"})),
    "the name of an argument": lambda text: _call({text: 1}),
    "the name of a tool": lambda text: _call({}, name=text),
    "the id of a call": lambda text: _call({}, id=text),
    "what a tool answers": lambda text: _result(f"one\n{text}\nthree"),
    "details of it": lambda text: _result("ok", details={"env": {"value": text}}),
    "JSON in what it answers": lambda text: _result(json.dumps({"out": json.dumps({"body": text})})),
    "a user's command": lambda text: _bash(command=f"echo {text}"),
    "what that prints": lambda text: _bash(output=f"\x1b[32m{text}\x1b[0m\nmore\n"),
    "a path of output": lambda text: _bash(truncated=True, fullOutputPath=f"/tmp/{text}"),
    "an error": lambda text: _assistant(stopReason="error", errorMessage=f"401: bad key {text}"),
    "the name of a model": lambda text: _assistant({"type": "text", "text": "hi"}, model=text),
    "a change of model": lambda text: {"type": "model_change", "provider": text, "modelId": text},
    "a system prompt": lambda text: _message("system", text),
    "a summary": lambda text: {
        "type": "compaction",
        "summary": text,
        "firstKeptEntryId": "a",
        "tokensBefore": 1,
    },
    "a summary of a branch": lambda text: {"type": "branch_summary", "fromId": "a", "summary": text},
    "the name of a session": lambda text: {"type": "session_info", "name": text},
    "a label": lambda text: {"type": "label", "targetId": "00000001", "label": text},
    "a message of a program": lambda text: {
        "type": "custom_message",
        "customType": "x",
        "content": text,
        "display": True,
    },
    "state of a program": lambda text: {"type": "custom", "customType": "x", "data": {"summary": text}},
    "a kind nobody knows": lambda text: {"type": "from_the_future", "list": [{"two": text}]},
    "a block nobody knows": lambda text: _message("user", [{"type": "hologram", "depth": text}]),
}


def planted_entries(plant: Planting, *texts: str) -> list[Entry]:
    """A conversation with one entry for each text, between two that hold none."""
    entries = [child(user_entry("hello"), None)]
    for number, text in enumerate(texts, 1):
        record = plant(text)
        kind = record.pop("type")
        envelope = {"type": kind, "id": f"{number:08x}", "parentId": entries[-1].id, "timestamp": STAMP}
        entries.append(decode(json.dumps({**envelope, **record}, ensure_ascii=number % 2 == 0).encode()))
    return [*entries, child(user_entry("bye"), entries[-1])]


STAMP = "2026-01-31T09:05:00.123Z"
