"""What Sibyl's document forbids a session to keep, and a session without it.

System messages, thinking, usage and cost, and whatever says which model or tools there were. What is left out
is counted by kind, so that a conversion can report it; a usage of zero and a model without a name are left
out too, but say nothing worth counting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from perdure.session.entry import Entry, decode, placed
from perdure.session.record import dumps, elements, loads, loads_exactly, members
from perdure.session.stores.plain import joined

_FACTS = {
    **dict.fromkeys(("api", "model", "provider"), "model"),
    **dict.fromkeys(("cost", "usage"), "usage"),
    "tools": "tools",
}
_AGENT_CONFIG = "agent_config"

_WHOLE = {
    "model_change": "model",
    "thinking_level_change": "thinking level",
    "active_tools_change": "tools",
    "usage": "usage",
}
_WITH_CONTENT = frozenset({"message", "custom_message", "context_edit"})
_WITH_USAGE = frozenset({"compaction", "branch_summary"})
_USAGE = ("usage", "cost")
_TOKENS = "tokensBefore"
"""How long a conversation was that was condensed."""
_MODEL = ("api", "provider", "model", "responseModel")


def forbidden(entry: Entry) -> list[str]:
    """The kinds of what would be left out of an entry, one for each time."""
    return _split(entry)[1]


def stripped(entry: Entry) -> Entry | None:
    """The entry without what is forbidden; itself if that is nothing, None if it is all."""
    return _split(entry)[0]


def split_facts(facts: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """What may be kept of what is known of a session as a whole, and the kinds of what may not."""
    kept = {name: value for name, value in facts.items() if name not in _FACTS}
    found = [_FACTS[name] for name in facts if name in _FACTS and _is_more_than_zero(facts[name])]
    config = kept.pop(_AGENT_CONFIG, None)
    if isinstance(config, Mapping):
        kept[_AGENT_CONFIG], more = split_facts(config)
        found += more
    elif config is not None:
        found.append("model")
    return kept, found


class Dropped:
    """Entries that were left out, by id. What follows them follows what they followed."""

    def __init__(self) -> None:
        self._above: dict[str, str | None] = {}
        """For each the nearest entry above it that was kept."""

    def allowed(self, entries: Sequence[Entry], before: Sequence[Entry]) -> list[Entry]:
        """What may be kept of the entries, which come behind those `before`, in a tree without gaps."""
        kept: list[Entry] = []
        for entry in entries:
            left = stripped(entry)
            parent = entry.parent_id
            above = self._above.get(parent, parent) if parent is not None else None
            if left is None:
                self._above[entry.id] = above
                continue
            if above != parent:
                left = placed(left, parent_id=above)
            if left.type == "compaction":
                left = self._keeping_the_same(left, [*before, *kept])
            kept.append(left)
        return kept

    def _keeping_the_same(self, compaction: Entry, before: Sequence[Entry]) -> Entry:
        """If the first entry it keeps was left out, it keeps from the next one on."""
        record = loads_exactly(compaction.raw)
        first = record.get("firstKeptEntryId")
        if not isinstance(first, str) or first not in self._above:
            return compaction
        by_id = {entry.id: entry for entry in before}
        above, at = self._above[first], by_id.get(compaction.parent_id or "")
        while at is not None and at.parent_id != above:
            at = by_id.pop(at.parent_id or "", None)
        return decode(dumps({**record, "firstKeptEntryId": at.id})) if at else compaction


def _split(entry: Entry) -> tuple[Entry | None, list[str]]:
    kind = _WHOLE.get(entry.type)
    if kind:
        return None, [kind]
    if entry.type == "custom" and b'"perdure.agent_config"' in entry.raw:
        return _without_model(entry)
    if entry.type not in _WITH_CONTENT and entry.type not in _WITH_USAGE:
        return entry, []
    if entry.role == "system":
        return None, ["system"]
    try:
        record = dict(members(entry.raw))
        inner = {"message": "message", "context_edit": "replacement"}.get(entry.type, "")
        said = dict(members(record[inner])) if inner else record
    except (KeyError, ValueError):
        return entry, []
    before = len(said), said.get("content")
    found: list[str] = []
    if entry.type in _WITH_CONTENT and "content" in said:
        said["content"], found = _without_thinking(said["content"])
    usage = [said.pop(name) for name in _USAGE if name in said and entry.type != "custom_message"]
    if entry.type == "compaction" and _says_more_than_zero(said.get(_TOKENS, b"0")):
        usage.append(said.pop(_TOKENS))
    model = [said.pop(name) for name in _MODEL if name in said and inner]
    found += ["usage"] * any(map(_says_more_than_zero, usage))
    found += ["model"] * any(name not in (b'""', b"null") for name in model)
    if before == (len(said), said.get("content")):
        return entry, []
    if inner:
        record[inner] = joined(said)
    return decode(joined(record)), found


def _without_model(entry: Entry) -> tuple[Entry, list[str]]:
    try:
        record = loads_exactly(entry.raw)
    except ValueError:
        return entry, []
    data = record.get("data")
    if record.get("customType") != "perdure.agent_config" or not isinstance(data, dict):
        return entry, []
    kept, found = split_facts(data)
    return (decode(dumps({**record, "data": kept})), found) if len(kept) < len(data) else (entry, [])


def _without_thinking(content: bytes) -> tuple[bytes, list[str]]:
    if content[:1] != b"[" or b"hinking" not in content:
        return content, []
    try:
        blocks = elements(content)
    except ValueError:
        return content, []
    kept = [block for block in blocks if not _is_thinking(block)]
    if len(kept) == len(blocks):
        return content, []
    return b"[" + b",".join(kept) + b"]", ["thinking"] * (len(blocks) - len(kept))


def _is_thinking(block: bytes) -> bool:
    try:
        return members(block).get("type") == b'"thinking"'
    except ValueError:
        return False


def _says_more_than_zero(raw: bytes) -> bool:
    try:
        return _is_more_than_zero(loads(b'{"usage":%b}' % raw))
    except ValueError:
        return True


def _is_more_than_zero(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_is_more_than_zero, value.values()))
    return value not in (0, None, "", [])
