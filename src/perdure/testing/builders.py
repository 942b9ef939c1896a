"""Entries as a conversation makes them, each with its own id and an open parent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.session.entry import Entry


def user_entry(text: str) -> Entry:
    return Entry.message("user", text)


def assistant_entry(text: str, **fields: Any) -> Entry:
    return Entry.message("assistant", text, **{**_MODEL, **fields})


def tool_call_entry(name: str, arguments: Mapping[str, Any], *, call_id: str = "call-1") -> Entry:
    call = {"type": "toolCall", "id": call_id, "name": name, "arguments": dict(arguments)}
    return Entry.message("assistant", [call], **{**_MODEL, "stopReason": "toolUse"})


def tool_result_entry(
    text: str, *, call_id: str = "call-1", name: str = "bash", is_error: bool = False
) -> Entry:
    return Entry.message("toolResult", text, toolCallId=call_id, toolName=name, isError=is_error)


_MODEL = {"api": "scripted", "provider": "scripted", "model": "scripted"}
