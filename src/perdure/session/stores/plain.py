"""A message in the form most programs give one: role, content, timestamp, and the rest behind them.

The layouts that hold such messages share this translation. It is exact both ways: what of a record has no
place among the named members stands in `message`, and members nobody named stay beside them. A record for
which even that would not be exact is no plain message, and its layout keeps it in pi's own form.

Values are never decoded on the way: each is copied as the bytes it was written with.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from perdure.session.entry import Entry, decode
from perdure.session.ids import stamp
from perdure.session.record import REFUSED, dumps, elements, loads, loads_exactly, members

Members = dict[str, bytes]

_ROLES = {
    b'"user"': b'"user"',
    b'"assistant"': b'"assistant"',
    b'"system"': b'"system"',
    b'"toolResult"': b'"tool"',
}
_PI_ROLES = {theirs: ours for ours, theirs in _ROLES.items()}
_TEXT_ALONE = (b'"user"', b'"system"')  # whose content is a string; that of the others is a list of blocks
_OF_A_RESULT = {"tool_call_id": "toolCallId", "name": "toolName", "is_error": "isError"}
_NAMED = frozenset(
    {"role", "content", "timestamp", "thinking", "tool_calls", "model", "usage", "interrupted", "failed"}
    | {"id", "parent_id", "message", *_OF_A_RESULT}
)
_ENVELOPE = frozenset({"type", "id", "parentId", "timestamp", "message"})
_raw_list = msgspec.json.Decoder(list[msgspec.Raw])


def plain(entry: Entry, reserved: Collection[str] = ()) -> Members | None:
    """The members of a message, in the order to write them; None for what is not a plain message.

    `reserved` are names the layout itself puts beside them.
    """
    if entry.type != "message":
        return None
    try:
        record = members(entry.raw)
        message = dict(members(record["message"]))
    except (KeyError, ValueError):
        return None
    extras = {name: value for name, value in record.items() if name not in _ENVELOPE}
    role = _ROLES.get(message.pop("role", b""))
    content = message.pop("content", None)
    place = [record.get(name, b"") for name in ("timestamp", "id", "parentId")]
    if (
        role is None
        or content is None
        or any(value[:1] != b'"' for value in place[:2])
        or place[2][:1] not in (b'"', b"n")
        or any(name in _NAMED or name in reserved for name in extras)
    ):
        return None
    parts = _parts(role, content)
    if parts is None:
        message["content"] = content
        parts = {"content": dumps(_loose_text(content))}
    made = message.pop("timestamp", None)
    if made == b"null":
        return None
    if made is None:
        message["timestamp"] = b"null"
    elif made != _milliseconds(entry.timestamp):
        message["timestamp"] = made
    found = {"role": role, "content": parts.pop("content"), "timestamp": place[0], **parts}
    if role == b'"tool"':
        for theirs, ours in _OF_A_RESULT.items():
            if ours not in message:
                return None
            found[theirs] = message.pop(ours)
    for name in ("model", "usage"):
        if name in message:
            found[name] = message.pop(name)
    flag = _FLAGS.get(message.get("stopReason", b""))
    if flag:
        found[flag] = b"true"
    found.update(id=place[1], parent_id=place[2])
    if message:
        found["message"] = joined(message)
    return {**found, **extras}


_FLAGS = {b'"aborted"': "interrupted", b'"error"': "failed"}


def entry_of(record: Mapping[str, bytes], id: str, parent: str | None, own: Collection[str] = ()) -> Entry:
    """The entry a plain message stands for, ours or another program's. ValueError says why it is none.

    `id` and `parent` are for a record that has none of its own; `own` are the names of members that are the
    layout's and not the message's.
    """
    if "role" not in record or "content" not in record:
        raise ValueError(f"a message without {'content' if 'role' in record else 'a role'}")
    role = record["role"]
    if role[:1] != b'"':
        raise ValueError("a message whose role is no text")
    role = _PI_ROLES.get(role, role)
    rest = dict(members(record["message"])) if "message" in record else {}
    when = moment(record.get("timestamp", b""))
    message = {"role": role, "content": rest.pop("content", None) or _content(role, record)}
    for theirs, ours in _OF_A_RESULT.items():
        if role == b'"toolResult"':
            message[ours] = record.get(theirs, b"false" if ours == "isError" else b'""')
    for name in ("model", "usage"):
        if name in record:
            message[name] = record[name]
    if "message" not in record and role == b'"assistant"':
        for reason, flag in _FLAGS.items():
            if record.get(flag) == b"true":
                message["stopReason"] = reason
    message.update(rest)
    if message.get("timestamp") == b"null":
        del message["timestamp"]
    elif "timestamp" not in message and (made := _milliseconds(when)):
        message["timestamp"] = made
    spare = _spare(role, record, message.get("stopReason", b""))
    whole = {
        "type": b'"message"',
        "id": own_id(record.get("id", b'""')) or dumps(id),
        "parentId": record["parent_id"] if "parent_id" in record else dumps(parent),
        "timestamp": dumps(when),
        "message": joined(message),
        **{
            name: value
            for name, value in record.items()
            if (name not in _NAMED or name in spare) and name not in own
        },
    }
    return decode(joined(whole))


def _spare(role: bytes, record: Mapping[str, bytes], reason: bytes) -> Collection[str]:
    """Members whose names say nothing in this message, and which so are like any that nobody named."""
    spare = _SPARE.get(role, _OF_A_RESULT.keys() if "tool_calls" in record else _SPARE[b'"user"'])
    idle = [
        flag for of, flag in _FLAGS.items() if flag in record and (reason != of or record[flag] != b"true")
    ]
    return {*spare, *idle} if idle else spare


_SPARE: Mapping[bytes, Collection[str]] = {
    **{role: {"thinking", "tool_calls", *_OF_A_RESULT} for role in _TEXT_ALONE},
    b'"assistant"': _OF_A_RESULT.keys(),
    b'"toolResult"': (),
}


def own_id(raw: bytes) -> bytes:
    """A number is an id too, if another program counts its messages."""
    if raw[:1] == b'"':
        return b"" if raw == b'""' else raw
    return b'"%b"' % raw if raw.isdigit() else b""


def joined(parts: Mapping[str, bytes]) -> bytes:
    """An object of members whose values are JSON already."""
    pieces = [b"{"]
    for name, value in parts.items():
        pieces += [b"," if len(pieces) > 1 else b"", dumps(name), b":", value]  # a value may be large
    return b"".join([*pieces, b"}"])


# --- content ------------------------------------------------------------------------------------


def _parts(role: bytes, content: bytes) -> Members | None:
    """Content taken apart: text, thinking and tool calls. None if it could not be put together again."""
    if role in _TEXT_ALONE:
        return {"content": content} if content[:1] == b'"' else None
    try:
        blocks = [(bytes(block), members(bytes(block))) for block in _raw_list.decode(content)]
    except (*REFUSED, ValueError):
        return None
    kinds = b"".join(_LETTERS.get(block.get("type", b""), b"?") for _, block in blocks)
    if kinds.lstrip(b"h").rstrip(b"c") not in (b"", b"t"):
        return None
    found = {"content": b'""'}
    for name, letter in (("thinking", b"h"), ("tool_calls", b"c")):
        if letter in kinds:
            chosen = [
                raw for (raw, _), kind in zip(blocks, kinds.decode(), strict=True) if kind.encode() == letter
            ]
            found[name] = b"[" + b",".join(chosen) + b"]"
    if b"t" in kinds:
        text = blocks[kinds.index(b"t")][1]
        if len(text) != 2 or text.get("text", b"")[:1] != b'"' or text["text"] == b'""':
            return None
        found["content"] = text["text"]
    return found


_LETTERS = {b'"text"': b"t", b'"thinking"': b"h", b'"toolCall"': b"c"}


def _content(role: bytes, record: Mapping[str, bytes]) -> bytes:
    content = record["content"]
    if role in _TEXT_ALONE:
        return b'""' if content == b"null" else content
    blocks = [*_elements(record.get("thinking", b"[]"))]
    if content[:1] == b"[":
        blocks += _elements(content)
    elif content not in (b'""', b"null"):
        blocks.append(b'{"type":"text","text":%b}' % content if content[:1] == b'"' else content)
    if "tool_calls" in record:
        blocks += map(_call, _elements(record["tool_calls"]))
    elif role not in (b'"assistant"', b'"toolResult"'):
        return content
    return b"[" + b",".join(blocks) + b"]"


def _elements(raw: bytes) -> list[bytes]:
    try:
        return elements(raw)
    except ValueError:
        return [] if raw == b"null" else [raw]


def _call(raw: bytes) -> bytes:
    """A tool call as pi has one, made of the forms others give it."""
    try:
        call = dict(members(raw))
    except ValueError:
        return raw
    if call.get("type") == b'"toolCall"':
        return raw
    try:
        call.update(members(call.pop("function")))
    except (KeyError, ValueError):
        pass
    arguments = call.pop("arguments", b"{}")
    if arguments[:1] == b'"':
        try:
            arguments = dumps(loads_exactly(msgspec.json.decode(arguments, type=str).encode()))
        except (ValueError, *REFUSED):
            pass
    call.pop("type", None)
    named = {"id": call.pop("id", b'""'), "name": call.pop("name", b'""'), "arguments": arguments}
    return joined({"type": b'"toolCall"', **named, **call})


def _loose_text(content: bytes) -> str:
    try:
        value: Any = loads(b'{"content":%b}' % content)["content"]
    except ValueError:
        return ""
    if isinstance(value, str):
        return value
    texts = (
        [block.get("text") for block in value if isinstance(block, dict)] if isinstance(value, list) else []
    )
    return "\n".join(text for text in texts if isinstance(text, str))


# --- time ---------------------------------------------------------------------------------------


def _milliseconds(stamped: str) -> bytes | None:
    try:
        when = datetime.fromisoformat(stamped)
    except ValueError:
        return None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return b"%d" % round(when.timestamp() * 1000)


def moment(raw: bytes) -> str:
    """When it was said, as an entry has it. Some programs count seconds, and some milliseconds."""
    try:
        value = msgspec.json.decode(raw) if raw else ""
    except REFUSED:
        value = loads(b'{"t":%b}' % raw)["t"]
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return stamp(datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC))
        except (ValueError, OverflowError, OSError):
            pass
    return ""
