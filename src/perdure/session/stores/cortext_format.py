"""Cortext's lines: entries to lines of messages.jsonl, and lines to entries.

A line is a message: role, content, timestamp, and ours behind them. What is no message stands in a line of
role `system` that says it in words, and has its record, in pi's form, as `entry`. What another program wrote
that is neither is an entry as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from perdure.errors import NotSaved
from perdure.session.entry import (
    BranchSummary,
    Compaction,
    Custom,
    Entry,
    Label,
    ModelChange,
    SessionInfo,
    ThinkingLevelChange,
    decode,
    placed,
)
from perdure.session.record import dumps, members
from perdure.session.stores import NOT_A_RECORD
from perdure.session.stores.line_reader import LineReader
from perdure.session.stores.plain import entry_of, joined, plain

_WRAPPED = frozenset({"role", "content", "timestamp", "entry"})
_LONGEST_WORDS = 300


def line(path: str, entry: Entry) -> bytes:
    """An entry as a line. Every line has role, content and timestamp, whatever it holds."""
    if b"\n" in entry.line:
        raise NotSaved(path, NOT_A_RECORD)
    try:
        parts = plain(entry, reserved=("entry",))
        if parts is None:
            when = members(entry.raw).get("timestamp", b"")
            parts = {
                "role": b'"system"',
                "content": dumps(words(entry)),
                "timestamp": when if when[:1] == b'"' else b'""',
                # A record that does not say what it follows would be given the one before it.
                "entry": entry.raw if b'"parentId"' in entry.raw else placed(entry).raw,
            }
    except ValueError:
        raise NotSaved(path, NOT_A_RECORD) from None
    return joined(parts)


def words(entry: Entry) -> str:
    """What a person who reads the file is told of an entry that is no message."""
    match entry.body:
        case Custom(custom_type="perdure.status", data={"status": str(status)}):
            said = f"Status: {status}"
        case Custom(custom_type=kind):
            said = f"Recorded: {kind}"
        case Compaction(summary=summary) | BranchSummary(summary=summary):
            said = f"Summary: {summary}"
        case ModelChange(provider=provider, model_id=model):
            said = f"Model: {provider}/{model}"
        case ThinkingLevelChange(thinking_level=level):
            said = f"Thinking level: {level}"
        case Label(label=str(label)):
            said = f"Label: {label}"
        case Label():
            said = "Label removed"
        case SessionInfo(name=str(name)):
            said = f"Title: {name}"
        case _:
            kind = entry.role or entry.type or "Entry"
            said = f"{kind}: {entry.text}" if entry.text else kind
    return said if len(said) <= _LONGEST_WORDS else said[: _LONGEST_WORDS - 1] + "…"


class CortextReader(LineReader):
    file = "messages.jsonl"
    record_start = re.compile(r'\{\s*"(?:role|content|timestamp|id|type)"\s*:')

    def is_record(self, value: Any) -> bool:
        return isinstance(value.get("role"), str) and "content" in value

    def record(self, text: bytes, number: int) -> None:
        parts = members(text)
        self.entries.append(self._wrapped(parts) or self._message(parts) or self._as_it_is(text, parts))

    def _wrapped(self, parts: Mapping[str, bytes]) -> Entry | None:
        if parts.keys() != _WRAPPED or parts["role"] != b'"system"' or parts["entry"][:1] != b"{":
            return None
        whole = members(parts["entry"])
        return self._as_it_is(parts["entry"], whole) if {"type", "id"} <= whole.keys() else None

    def _message(self, parts: Mapping[str, bytes]) -> Entry | None:
        """None for what is none. Programs leave out the content of a message that only calls tools."""
        if "content" not in parts and "tool_calls" in parts:
            parts = {**parts, "content": b"null"}
        id = self.next_id
        try:
            entry = entry_of(parts, id, self.last)
        except ValueError:
            return None
        if entry.id == id or "parent_id" not in parts:
            self.adopted = True
        return entry

    def _as_it_is(self, text: bytes, parts: Mapping[str, bytes]) -> Entry:
        """A record that names its own place, or else stands behind the one before it."""
        entry = decode(text)
        if entry.id and "parentId" in parts:
            return entry
        self.adopted = True
        parent = entry.parent_id if "parentId" in parts else self.last
        return placed(entry, id=entry.id or self.next_id, parent_id=parent)
