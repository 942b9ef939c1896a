"""An entry is an envelope and its bytes.

The envelope (`id, parent_id, type, timestamp`) is all the engine needs to keep a session in order;
the body is decoded when somebody asks for it, and the record itself stays in `raw` as it was
written, so kinds and fields this version does not know survive every copy byte for byte.
The record is JSON in pi's form, whatever the layout on disk; a layout translates.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType

from perdure.errors import UsageError
from perdure.session.ids import new_id, now, stamp
from perdure.session.message_defaults import NEEDED, completed
from perdure.session.record import (
    REFUSED,
    WithArguments,
    canonical,
    dumps,
    loads_exactly,
    loads_some,
    members,
    without_huge_numbers,
)

# --- bodies -------------------------------------------------------------------------------------
# Field by field what pi writes. Optional fields are UNSET when absent, so they are left out again.


class Text(Struct, frozen=True, gc=False, tag="text", rename="camel"):
    text: str
    text_signature: str | UnsetType = UNSET


class Thinking(Struct, frozen=True, gc=False, tag="thinking", rename="camel"):
    thinking: str
    thinking_signature: str | UnsetType = UNSET
    redacted: bool | UnsetType = UNSET


class Image(Struct, frozen=True, gc=False, tag="image", rename="camel"):
    data: str
    mime_type: str


class ToolCall(WithArguments, frozen=True, gc=False, tag="toolCall", rename="camel"):
    id: str
    name: str
    arguments: Any
    thought_signature: str | UnsetType = UNSET


Block = Text | Thinking | Image | ToolCall
Content = str | list[Block]


class User(Struct, frozen=True, gc=False, tag="user", tag_field="role"):
    content: Content
    timestamp: float | int = 0

    @property
    def text(self) -> str:
        return text_of(self.content)


class Assistant(Struct, frozen=True, gc=False, tag="assistant", tag_field="role", rename="camel"):
    content: Content
    api: str = ""
    provider: str = ""
    model: str = ""
    usage: dict[str, Any] = msgspec.field(default_factory=lambda: completed("assistant", {})["usage"])
    stop_reason: str = "stop"
    error_message: str | UnsetType = UNSET
    timestamp: float | int = 0

    @property
    def text(self) -> str:
        return text_of(self.content)

    @property
    def calls(self) -> list[ToolCall]:
        if isinstance(self.content, str):  # which need not be looked through letter by letter
            return []
        return [block for block in self.content if isinstance(block, ToolCall)]

    @property
    def is_broken_off(self) -> bool:
        return self.stop_reason in ("aborted", "error")


class ToolResult(Struct, frozen=True, gc=False, tag="toolResult", tag_field="role", rename="camel"):
    tool_call_id: str
    tool_name: str
    content: Content
    details: Any = UNSET
    is_error: bool = False
    timestamp: float | int = 0

    @property
    def text(self) -> str:
        return text_of(self.content)


class BashExecution(Struct, frozen=True, gc=False, tag="bashExecution", tag_field="role", rename="camel"):
    command: str
    output: str
    exit_code: int | UnsetType | None = UNSET
    cancelled: bool = False
    truncated: bool = False
    full_output_path: str | UnsetType = UNSET
    exclude_from_context: bool | UnsetType = UNSET
    timestamp: float | int = 0


class CustomRole(Struct, frozen=True, gc=False, tag="custom", tag_field="role", rename="camel"):
    custom_type: str
    content: Content
    display: bool = True
    details: Any = UNSET
    timestamp: float | int = 0


class System(Struct, frozen=True, gc=False, tag="system", tag_field="role"):
    """The prompt a program had at the time. A record of it, never sent again: prompts are built anew."""

    content: Content = ""
    timestamp: float | int = 0


AnyMessage = User | Assistant | ToolResult | BashExecution | CustomRole | System


class Message(Struct, frozen=True, gc=False, tag="message"):
    message: AnyMessage


class ModelChange(Struct, frozen=True, tag="model_change", rename="camel"):
    provider: str
    model_id: str
    is_chosen: Any = UNSET
    """True of an `offline` that the user chose. It stays when another model can be had."""


class ThinkingLevelChange(Struct, frozen=True, tag="thinking_level_change", rename="camel"):
    thinking_level: str


class Compaction(Struct, frozen=True, tag="compaction", rename="camel"):
    summary: str
    first_kept_entry_id: Any = UNSET
    """An entry's id. Anything else keeps nothing; a compaction is one all the same."""
    tokens_before: Any = 0
    details: Any = UNSET
    from_hook: bool | UnsetType = UNSET
    usage: Any = UNSET


class BranchSummary(Struct, frozen=True, tag="branch_summary", rename="camel"):
    from_id: str
    summary: str
    details: Any = UNSET
    from_hook: bool | UnsetType = UNSET
    usage: Any = UNSET


class Custom(Struct, frozen=True, tag="custom", rename="camel"):
    """State of a program. Never shown to a model."""

    custom_type: str
    data: Any = UNSET


class CustomMessage(Struct, frozen=True, tag="custom_message", rename="camel"):
    """Text from a program, shown to the model as the user's."""

    custom_type: str
    content: Content
    display: bool = True
    details: Any = UNSET


class Label(Struct, frozen=True, tag="label", rename="camel"):
    target_id: str
    label: str | UnsetType | None = UNSET


class SessionInfo(Struct, frozen=True, tag="session_info"):
    name: str | UnsetType = UNSET


class ContextEdit(Struct, frozen=True, tag="context_edit", rename="camel"):
    """Changes what a model is sent of an earlier entry: other content, or (null) nothing."""

    target_id: str
    replacement: dict[str, Any] | None = None


class Unknown(Struct, frozen=True):
    """A kind, or a shape of one, that this version does not know. `fields` is the whole record."""

    type: str
    fields: dict[str, Any]


KnownBody = (
    Message
    | ModelChange
    | ThinkingLevelChange
    | Compaction
    | BranchSummary
    | Custom
    | CustomMessage
    | Label
    | SessionInfo
    | ContextEdit
)
Body = KnownBody | Unknown


# --- the entry ----------------------------------------------------------------------------------


class Entry(
    Struct,
    frozen=True,
    eq=False,
    gc=False,  # strings and bytes only: never part of a cycle, and 100,000 of them cost the collector nothing
    # `line` and `seal` are not in the record but about it, so their names there are none anybody uses.
    rename={"parent_id": "parentId", "line": "\ufffdline", "seal": "\ufffdseal"},
):
    type: str = ""
    id: str = ""
    parent_id: str | None = None
    timestamp: str = ""
    line: bytes = b""
    """The record as it stands in its file."""
    seal: int = 0
    """How many bytes at the end of `line` are the file's and not the record's: a checksum and the last brace.
    They stay on, so that a copy of an entry is a copy of its bytes; `raw` is without them."""

    @property
    def raw(self) -> bytes:
        """The record itself: one JSON object on one line."""
        return self.line[: -self.seal] + b"}" if self.seal else self.line

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and self.id == other.id and self.raw == other.raw

    def __ne__(self, other: object) -> bool:
        return not self == other  # a Struct's own would ask whether it is the same object

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def body(self) -> Body:
        return _decode_body(self)

    @property
    def role(self) -> str:
        """user, assistant, toolResult, bashExecution, custom; empty for what is no message."""
        if self.type == "custom_message":
            return "custom"
        if self.type != "message":
            return ""
        try:
            return _role_decoder.decode(self.line).message.role
        except REFUSED:
            message = _record(self).get("message")
            return _string(message.get("role")) if isinstance(message, dict) else ""

    @property
    def text(self) -> str:
        """What a person would read of it: the text parts of a message, or a summary."""
        body = self.body
        match body:
            case Message(message=message):
                return message.output if isinstance(message, BashExecution) else text_of(message.content)
            case CustomMessage(content=content):
                return text_of(content)
            case Compaction(summary=summary) | BranchSummary(summary=summary):
                return summary
            case SessionInfo(name=str(name)):
                return name
            case Unknown(type="message", fields={"message": {"content": content}}):
                return _loose_text(content)  # of a role or a shape of its own
            case _:
                return ""

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The calls that a model makes in it, in their order: each has an `id`, a `name` and `arguments`."""
        match self.body:
            case Message(message=Assistant() as answer):
                return answer.calls
            case _:
                return []

    @classmethod
    def message(cls, role: str, content: str | Sequence[Any], **fields: Any) -> Entry:
        """A new message. Its parent is open: `SessionManager.save` puts it behind the session's last entry.

        It has its id from the start, so saving it again after a failure cannot save it twice.
        `fields` are the message's other members by their JSON names (`toolCallId`, `model`, …).
        """
        moment = now()
        if isinstance(content, str):
            if role in ("assistant", "toolResult"):
                content = [{"type": "text", "text": content}]  # pi has blocks alone here
        elif not isinstance(content, list | tuple):
            raise UsageError(f"A message's content is text or a list of blocks, not {content!r:.40}")
        missing = [name for name in NEEDED.get(role, ()) if name not in fields]
        if missing:
            raise UsageError(
                f"A {role} message needs {' and '.join(missing)}", "give them as keyword arguments"
            )
        message = {"role": role, "content": content, **completed(role, fields)}
        message.setdefault("timestamp", int(moment.timestamp() * 1000))
        try:
            return new(Unknown("message", {"message": message}), id=new_id(), timestamp=stamp(moment))
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(f"A message that JSON cannot hold: {error}") from None


def new(body: Body, *, id: str = "", parent_id: str | None = None, timestamp: str = "") -> Entry:
    """An entry made here. Empty `id` and `timestamp` are filled in when it is given its place."""
    if isinstance(body, Unknown):
        kind = body.type
        record = dumps({"type": kind, **{k: v for k, v in body.fields.items() if k not in _ENVELOPE}})
        start = len(b'{"type":') + len(dumps(kind))
    else:
        kind, start = _KINDS[type(body)]
        record = dumps(body)
    # The members of a record in pi's order: its type, its place, and then what it says.
    place = dumps(_Place(id, parent_id, timestamp))
    return Entry(kind, id, parent_id, timestamp, b"%b,%b%b" % (record[:start], place[1:-1], record[start:]))


class _Place(Struct, gc=False, rename={"parent_id": "parentId"}):
    id: str
    parent_id: str | None
    timestamp: str


_KINDS = {
    kind: (str(kind.__struct_config__.tag), len(f'{{"type":"{kind.__struct_config__.tag}"'))
    for kind in get_args(KnownBody)
}
"""For every known body the name of its kind, and where its record's first member ends."""


def decode(line: bytes, seal: int = 0) -> Entry:
    """The entry in one record's bytes. Raises ValueError, with the reason, if it is not a JSON object.

    A record without an id comes back with an empty one: only its store knows its place in the file.
    """
    try:
        entry = _envelope_decoder.decode(line)
    except REFUSED:
        record = loads_some(line, _ENVELOPE)
        parent = record.get("parentId")
        entry = Entry(
            _string(record.get("type")),
            _string(record.get("id")),
            None if parent is None else _string(parent),
            _string(record.get("timestamp")),
        )
    _set(entry, "line", line)
    _set(entry, "seal", seal)  # always: a record may have a member of that name
    return entry


def placed(entry: Entry, **changes: str | None) -> Entry:
    """The entry with another id, parent_id or timestamp. Every other member keeps its bytes."""
    envelope = {
        "type": entry.type,
        "id": changes.get("id", entry.id),
        "parentId": changes.get("parent_id", entry.parent_id),
        "timestamp": changes.get("timestamp", entry.timestamp),
    }
    parts = {key: dumps(value) for key, value in envelope.items()}
    parts.update((key, value) for key, value in members(entry.raw).items() if key not in _ENVELOPE)
    raw = b"{" + b",".join(b"%b:%b" % (dumps(key), value) for key, value in parts.items()) + b"}"
    return decode(raw)


def share(entry: Entry, before: Entry | None) -> None:
    """Let it have the strings of the entry before it where they say the same: a million of them are large."""
    if before is not None:
        if entry.type == before.type:
            _set(entry, "type", before.type)
        if entry.parent_id == before.id:
            _set(entry, "parent_id", before.id)


def meaning(entry: Entry, *, without: Collection[str] = ()) -> bytes:
    """What a record says, apart from how it is written."""
    try:
        return canonical({key: value for key, value in _record(entry).items() if key not in without})
    except RecursionError:
        return entry.raw  # nested too deeply to be looked at that closely


def content_of(entry: Entry) -> bytes:
    """What the entry says, whatever its place in a session."""
    return meaning(entry, without=_PLACE)


def text_of(content: Content) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, Text))


# --- the codec ----------------------------------------------------------------------------------

_PLACE = frozenset({"id", "parentId", "timestamp"})
_ENVELOPE = _PLACE | {"type"}


_MISFIT = (msgspec.ValidationError, UnicodeEncodeError)  # the latter for names that hold lone surrogates


class _RoleOnly(Struct):
    role: str


class _MessageRole(Struct):
    message: _RoleOnly


_set = msgspec.structs.force_setattr
_envelope_decoder = msgspec.json.Decoder(Entry)
_role_decoder = msgspec.json.Decoder(_MessageRole)
_body_decoder = msgspec.json.Decoder(KnownBody)


def _record(entry: Entry) -> dict[str, Any]:
    """The whole record; empty where only its envelope could be read."""
    try:
        return loads_exactly(entry.raw)
    except ValueError:
        return {}


def _string(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _decode_body(entry: Entry) -> Body:
    try:
        known: KnownBody = _body_decoder.decode(entry.line)
        return known
    except REFUSED:
        record = _record(entry)
    plain = without_huge_numbers(record)  # a field that is a float takes no other number
    for each in (record,) if plain is record else (record, plain):
        try:
            known = msgspec.convert(each, KnownBody)
            return known
        except _MISFIT:
            if loose := _loose_message(each):
                return loose
    return Unknown(entry.type, record)


def _loose_message(record: dict[str, Any]) -> Message | None:
    """A message of a known role in which only some blocks are unknown: those stay plain dicts."""
    message = record.get("message")
    if record.get("type") != "message" or not isinstance(message, dict):
        return None
    blocks = message.get("content")
    if not isinstance(blocks, list):
        return None
    try:
        shell = msgspec.convert({**message, "content": []}, AnyMessage)
    except _MISFIT:
        return None
    return Message(msgspec.structs.replace(shell, content=[_loose_block(block) for block in blocks]))


def _loose_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(b["text"] for b in blocks if isinstance(b, dict) and isinstance(b.get("text"), str))


def _loose_block(block: Any) -> Any:
    try:
        return msgspec.convert(block, Block)
    except _MISFIT:
        return block
