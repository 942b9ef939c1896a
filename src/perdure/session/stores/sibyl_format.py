"""Sibyl's messages: an entry as the property list its document shows, and back.

    (:role :assistant :content "…" :timestamp "…" :tool-calls ((:id "…" :name "…" :arguments (("k" . "v"))))
     :entry-id "…" :parent-id "…" :message (:json "{…}"))

It is exact both ways. A JSON value that is one in Lisp too is written as that: text, and numbers whose every
digit comes back. Any other is written as `(:json "…")`, the JSON itself: true, false, null, arrays, objects,
and text that Lisp has no characters for. A NUL is written that way as well, so that one found in a file is
damage.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction

import msgspec

from perdure.session import ids
from perdure.session.entry import Entry
from perdure.session.record import REFUSED, dumps, elements, members
from perdure.session.sexp import Keyword, Pair, Value, cons
from perdure.session.sexp import dumps as printed
from perdure.session.stores import plain
from perdure.session.stores.plain import joined

_INTEGER = re.compile(rb"0|-?[1-9][0-9]{0,3999}")
_FLOAT = re.compile(rb"-?[0-9]{1,25}(?:\.[0-9]{1,25})?(?:[eE][+-]?[0-9]{1,5})?")
_UNIVERSAL_TIME_OF_1970 = 2_208_988_800
"""Lisp counts seconds from 1900. A number from here on is no time of a conversation if counted from 1970."""
_MILLISECONDS = 10**11
_ONE_LINE = {ord("\n"): " ", ord("\r"): " "}

JSON = Keyword("json")
ROLE = Keyword("role")
ENTRY_ID = Keyword("entry-id")
PARENT_ID = Keyword("parent-id")
_CONTENT = Keyword("content")
_TIMESTAMP = Keyword("timestamp")
_TOOL_CALLS = Keyword("tool-calls")
_ID = Keyword("id")
_NAME = Keyword("name")
_ARGUMENTS = Keyword("arguments")
_MESSAGE = Keyword("message")
_EXTRAS = Keyword("extras")
_THINKING = Keyword("thinking")
_ROLES = {b'"user"': Keyword("user"), b'"assistant"': Keyword("assistant"), b'"tool"': Keyword("tool")}
_OF_A_RESULT = {"tool_call_id": Keyword("tool-call-id"), "name": _NAME, "is_error": Keyword("is-error")}
_NAMES = {ENTRY_ID: "id", _MESSAGE: "message"} | {keyword: name for name, keyword in _OF_A_RESULT.items()}
_NAMED = frozenset(
    {"role", "content", "timestamp", "tool_calls", "id", "parent_id", "message", *_OF_A_RESULT}
    | {"interrupted", "failed"}  # which `message` says too
)
_raw = msgspec.json.Decoder(msgspec.Raw)
_text = msgspec.json.Decoder(str)


# --- values -------------------------------------------------------------------------------------


def value_of(raw: bytes) -> Value:
    """A JSON value in Lisp, from which `json_of` makes the same again."""
    first = raw[:1]
    if first == b'"':
        try:
            text = _text.decode(raw)
        except REFUSED:
            return _as_json(raw)
        return _as_json(raw) if "\0" in text else text
    if first and first in b"-0123456789":
        if _INTEGER.fullmatch(raw):
            return int(raw)
        if _FLOAT.fullmatch(raw) and dumps(number := float(raw)) == raw:
            return number
    return _as_json(raw)


def json_of(value: Value) -> bytes:
    """Any Lisp value in JSON. What other programs write as an association list is an object."""
    match value:
        case str():
            return dumps(value)
        case None:
            return b"null"
        case True:
            return b"true"
        case Keyword(name):
            return dumps(name)
        case float():
            return dumps(value)
        case int():
            return printed(value).encode()
        case Fraction():
            return dumps(printed(value))  # no number in JSON is one third
        case Pair():
            return _object([value])
        case [Keyword("json"), str(text)]:
            return checked(text)
        case list():
            if any(isinstance(each, Pair) for each in value) and all(map(_is_keyed, value)):
                return _object(value)
            return b"[" + b",".join(map(json_of, value)) + b"]"
    raise ValueError(f"{type(value).__name__} has no place in JSON")


def checked(text: str) -> bytes:
    """The text as JSON, if it is one value and nothing more. ValueError says why it is not."""
    raw = text.translate(_ONE_LINE).encode()
    try:
        _raw.decode(raw)
    except REFUSED:
        if elements(b"[%b]" % raw) != [raw.strip()]:
            raise ValueError("more than one JSON value") from None
    return raw


def _as_json(raw: bytes) -> Value:
    return [JSON, raw.decode("utf-8", "replace")]


def _association_list(raw: bytes) -> list[Value] | None:
    """An object as `(("name" . value) …)`; None if that would not be all of it."""
    try:
        found = members(raw)
        if raw != joined(found) and _has_twins(raw, len(found)):
            return None
    except ValueError:
        return None
    if any("\0" in name or not _is_encodable(name) for name in found):
        return None
    return [cons(name, value_of(value)) for name, value in found.items()]


def _has_twins(raw: bytes, names: int) -> bool:
    """Whether a name is in the object twice, which a mapping does not show."""
    try:
        pairs = json.JSONDecoder(object_pairs_hook=list, parse_int=float).decode(
            raw.decode("utf-8", "replace")
        )
    except (ValueError, RecursionError):
        return True
    return len(pairs) != names


def _is_encodable(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _is_keyed(item: Value) -> bool:
    head = item[0] if isinstance(item, Pair | list) and item else None
    return isinstance(head, str | Keyword)


def _object(pairs: Sequence[Value]) -> bytes:
    """An object of an association list. The first of one name counts, as it does in Lisp."""
    found: dict[str, bytes] = {}
    for pair in pairs:
        match pair:
            case Pair(key, value):
                found.setdefault(_name(key), json_of(value))
            case [key, *rest]:
                found.setdefault(_name(key), json_of(rest or None))
    return joined(found)


def _name(key: Value) -> str:
    if isinstance(key, Keyword):
        return key.name
    if isinstance(key, str):
        return key
    raise ValueError("an association list with a name that is none")


def properties(form: Value) -> dict[Keyword, Value]:
    """A property list as a mapping. The first of one name counts, as it does in Lisp."""
    if not isinstance(form, list) or len(form) % 2:
        raise ValueError("no property list")
    found: dict[Keyword, Value] = {}
    for name, value in zip(form[-2::-2], form[-1::-2], strict=True):
        if not isinstance(name, Keyword):
            raise ValueError("a property whose name is no keyword")
        found[name] = value
    return found


# --- tool calls ---------------------------------------------------------------------------------


def call_form(raw: bytes) -> list[Value]:
    """A tool call, which is a block of type toolCall in JSON."""
    try:
        call = dict(members(raw))
        id, name, arguments = (call.pop(key) for key in ("id", "name", "arguments"))
    except (KeyError, ValueError):
        return [JSON, raw.decode("utf-8", "replace")]
    call.pop("type", None)
    given: Value = _association_list(arguments)
    form: list[Value] = [_ID, value_of(id), _NAME, value_of(name)]
    form += [_ARGUMENTS, _as_json(arguments) if given is None else given or None]
    if call:
        form += [_EXTRAS, _as_json(joined(call))]
    return form


def call_json(form: Value) -> bytes:
    """The block of a tool call, ours or another program's."""
    if isinstance(form, list) and form[:1] == [JSON]:
        return json_of(form)
    fields = properties(form)
    arguments = fields.pop(_ARGUMENTS, None)
    found = {
        "type": b'"toolCall"',
        "id": json_of(fields.pop(_ID, "")),
        "name": json_of(fields.pop(_NAME, "")),
        "arguments": _arguments(arguments),
    }
    extras = fields.pop(_EXTRAS, None)
    found.update({key.name: json_of(value) for key, value in fields.items() if key.name not in found})
    if extras is not None:
        found.update(members(json_of(extras)))
    return joined(found)


def _arguments(value: Value) -> bytes:
    if isinstance(value, str) and value.startswith("{"):
        try:
            return checked(value)  # some programs keep them as the model wrote them
        except ValueError:
            pass
    return b"{}" if value is None else _mapping(value)


# --- messages -----------------------------------------------------------------------------------


def message_form(entry: Entry) -> list[Value] | None:
    """A message of the user, the assistant or a tool; None for any other entry."""
    found = plain.plain(entry)
    if found is None or found["role"] not in _ROLES or "thinking" in found:
        return None
    content, calls, rest = _content(found)
    form: list[Value] = [ROLE, _ROLES[found["role"]], _CONTENT, content]
    form += [_TIMESTAMP, value_of(found["timestamp"])]
    if calls:
        form += [_TOOL_CALLS, list(map(call_form, calls))]
    for name, keyword in _OF_A_RESULT.items():
        if name in found:
            form += [keyword, value_of(found[name])]
    parent = found["parent_id"]
    form += [ENTRY_ID, value_of(found["id"]), PARENT_ID, None if parent == b"null" else value_of(parent)]
    if rest:
        form += [_MESSAGE, _as_json(rest)]
    extras = {name: value for name, value in found.items() if name not in _NAMED}
    if extras:
        form += [_EXTRAS, _as_json(joined(extras))]
    return form


def _content(found: Mapping[str, bytes]) -> tuple[Value, list[bytes], bytes]:
    """What stands for content, the tool calls, and what else there is of the message.

    A message that blocks can say is said in blocks, with the calls behind them. One that has its calls
    between them is all in the rest, and content and calls only show it.
    """
    calls = elements(found["tool_calls"]) if "tool_calls" in found else []
    rest = found.get("message", b"")
    said = dict(members(rest)) if rest else {}
    if "content" not in said:
        is_nothing = found["content"] == b'""' and found["role"] != b'"user"'
        return None if is_nothing else value_of(found["content"]), calls, rest
    try:
        blocks = elements(said.pop("content"))
    except ValueError:
        blocks = []
    end = len(blocks)
    if found["role"] != b'"user"':
        while end and _is_call(blocks[end - 1]):
            end -= 1
        if any(map(_is_call, blocks[:end])):
            return value_of(found["content"]), list(filter(_is_call, blocks)), rest
    if not blocks:
        return value_of(found["content"]), [], rest
    return (
        [_association_list(block) or _as_json(block) for block in blocks[:end]],
        blocks[end:],
        (joined(said) if said else b""),
    )


def _is_call(block: bytes) -> bool:
    try:
        return members(block).get("type") == b'"toolCall"'
    except ValueError:
        return False


def entry_of(form: Value, id: str = "", parent: str | None = "") -> Entry:
    """The entry a message stands for, ours or another program's. ValueError says why it is none.

    `id` and `parent` are for a message that has none of its own.
    """
    found: dict[str, bytes] = {}
    extras: dict[str, bytes] = {}
    for key, value in properties(form).items():
        if key is ROLE or key == ROLE:
            found["role"] = json_of(value)
        elif key == _CONTENT:
            found["content"] = _content_json(value)
        elif key == _TIMESTAMP:
            found["timestamp"] = json_of(value) if isinstance(value, list) else dumps(moment_of(value))
        elif key == PARENT_ID:
            found["parent_id"] = json_of(value)
        elif value is None:
            pass  # as other programs write what is not there
        elif key in _NAMES:
            found[_NAMES[key]] = json_of(value)
        elif key == _TOOL_CALLS:
            found["tool_calls"] = b"[" + b",".join(map(call_json, _items(value))) + b"]"
        elif key == _EXTRAS:
            extras.update(members(json_of(value)))
        elif key == _THINKING and isinstance(value, str):
            extras["thinking"] = b'[{"type":"thinking","thinking":%b}]' % dumps(value)
        else:
            extras[key.name] = json_of(value)
    return plain.entry_of({**extras, **found}, id, parent)


def moment_of(value: Value) -> str:
    """A time, which may be a number: of seconds since 1900 or 1970, or of milliseconds."""
    if isinstance(value, str):
        return value
    if not isinstance(value, int | float) or isinstance(value, bool):
        return ""
    if value >= _MILLISECONDS:
        seconds = value / 1000
    else:
        seconds = value - _UNIVERSAL_TIME_OF_1970 if value >= _UNIVERSAL_TIME_OF_1970 else value
    try:
        return ids.stamp(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        return ""


def _content_json(value: Value) -> bytes:
    if isinstance(value, list) and value[0] != JSON:
        return b"[" + b",".join(map(_mapping, value)) + b"]"
    return json_of(value)


def _mapping(value: Value) -> bytes:
    """What is an object by its place, whether its names are keywords or text, and dotted or not."""
    if isinstance(value, list) and value[0] != JSON:
        if all(map(_is_keyed, value)):
            return _object(value)
        if isinstance(value[0], Keyword) and len(value) % 2 == 0:
            return joined({key.name: json_of(each) for key, each in properties(value).items()})
    return json_of(value)


def _items(value: Value) -> list[Value]:
    if not isinstance(value, list):
        raise ValueError("tool calls that are no list")
    return value
