"""Aurora's layout: one JSONL file a session, a line that describes it and then a line for each turn.

    <home>/spawn/sessions/<id>.jsonl

    {"type":"metadata","session_id","agent","created_at","status","cwd",…}
    {"type":"turn","role","content","timestamp","tokens",…}
    {"type":"tool_result","tool_call_id","name","content","is_error","timestamp",…}
    {"type":"status","status","timestamp","id","parent_id"}
    {"type":"entry","entry":{…}}

What Aurora's document names comes first, in its order, and ours behind it. An entry that is none of these
is an `entry` line, with its record in pi's form; a line of a type nobody here knows is an entry as it stands.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import msgspec

from perdure.errors import NotSaved
from perdure.session import ids
from perdure.session.entry import Entry, decode, placed
from perdure.session.record import REFUSED, dumps, loads, members
from perdure.session.stores import NOT_A_RECORD, Cursor, Durability, Found, Header, files, lines
from perdure.session.stores.file_store import found
from perdure.session.stores.jsonl import JsonlStore
from perdure.session.stores.line_reader import LineReader
from perdure.session.stores.plain import Members, entry_of, joined, moment, plain

_SUFFIX = ".jsonl"
_DEFAULTS = {"agent": "default", "status": "active"}
_SPOKEN = frozenset({b'"user"', b'"assistant"', b'"system"'})
"""The roles whose messages are turns."""


class AuroraStore(JsonlStore):
    name = "aurora"

    def __init__(self, home: str, *, cwd: str | None = None, durability: Durability = "power") -> None:
        super().__init__(home, os.path.join(home, "spawn", "sessions"), durability, cwd=cwd)

    def new_id(self, header: Header) -> str:
        return ids.aurora_id()

    def create(self, header: Header, entries: Iterable[Entry] = ()) -> Found:
        """With its metadata on disk: a session is one before anything is said in it."""
        ids.check(header.id)
        relative = header.id + _SUFFIX
        ref = Found(header.id, os.path.join(self.root, relative))
        text = self.text(ref, self.first_line(ref, header), list(entries), self.reader(ref))
        with files.told(NotSaved, ref.path):
            files.make_folder(self.root)
        files.create(self.root, relative, text, sync=self.synced)
        return found(ref.id, ref.path)

    def reader(self, ref: Found) -> AuroraReader:
        id = os.path.basename(ref.path).removesuffix(_SUFFIX)
        return AuroraReader(ref.path, Header(id, "", facts=_DEFAULTS))

    def scan(
        self, ref: Found, descriptor: int, after: Cursor, end: int | None = None
    ) -> tuple[LineReader, Cursor]:
        reader, cursor = super().scan(ref, descriptor, after, end)
        if not after.offset:
            _look_for_metadata(reader)
        return reader, cursor

    def line(self, entry: Entry, reader: LineReader) -> bytes:
        if entry.line[:1] != b"{" or b"\n" in entry.line:
            raise NotSaved(reader.path, NOT_A_RECORD)
        parts = _status_parts(entry) if entry.type == "custom" else _spoken_parts(entry)
        if parts:
            return joined(parts)
        # A record that does not say what it follows would be given the one before it.
        raw = entry.raw if b'"parentId"' in entry.raw else placed(entry).raw
        return b"%b%b}" % (_ENTRY_START, raw)

    def first_line(self, ref: Found, header: Header) -> bytes:
        facts = {**_DEFAULTS, **header.facts}
        record: dict[str, Any] = {
            "type": "metadata",
            "session_id": header.id,
            "agent": facts.pop("agent"),
            "created_at": header.timestamp or ids.stamp(ids.now()),
            "status": facts.pop("status"),
            "cwd": header.cwd or self.cwd,
            **{name: value for name, value in facts.items() if name not in _OWN},
        }
        if header.parent_session:
            record["parent_session"] = header.parent_session
        if misnamed := {name: value for name, value in facts.items() if name in _OWN}:
            record["facts"] = misnamed
        return dumps(record)

    def _mended(self, ref: Found, descriptor: int) -> tuple[LineReader, bytes]:
        reader, text = super()._mended(ref, descriptor)
        _look_for_metadata(reader)
        return reader, text if text.strip() else self.first_line(ref, reader.header) + b"\n"


def _look_for_metadata(reader: LineReader) -> None:
    """Once all is read: the lines of a file without it are good lines, each for itself."""
    if not reader.headed and all(problem.line != 1 for problem in reader.problems):
        reader.problem(1, "no metadata line; the session is known by its file name alone")


_OWN = frozenset({"type", "session_id", "created_at", "cwd", "parent_session", "facts"})
"""Members of a metadata line that are no facts. A fact of such a name stands in `facts`."""


# --- entries to lines ----------------------------------------------------------------------------

_ENTRY_START = b'{"type":"entry","entry":'
_RESULT = ("tool_call_id", "name", "content", "is_error", "timestamp")
_STATUS = frozenset({"type", "id", "parentId", "timestamp", "customType", "data"})


def _spoken_parts(entry: Entry) -> Members | None:
    """A turn, or a tool's result; None for what is neither."""
    parts = plain(entry)
    if parts is None:
        return None
    role = parts.pop("role")
    if role not in _SPOKEN:
        return {"type": b'"tool_result"', **{name: parts.pop(name) for name in _RESULT}, **parts}
    said, given = parts.pop("content"), parts.pop("tokens", None)
    tokens = _tokens(said, parts)
    if given == tokens:  # and so would not come back
        return None
    when = parts.pop("timestamp")
    named = {"type": b'"turn"', "role": role, "content": said, "timestamp": when, "tokens": given or tokens}
    return {**named, **parts}


def _status_parts(entry: Entry) -> Members | None:
    """A change of status that says nothing else; None for any other entry."""
    try:
        record = members(entry.raw)
        data = members(record["data"])
    except (KeyError, ValueError):
        return None
    if (
        record.keys() != _STATUS
        or record["customType"] != b'"perdure.status"'
        or data.keys() != {"status"}
        or not all(map(_is_text, (data["status"], record["timestamp"], record["id"])))
        or not (record["parentId"] == b"null" or _is_text(record["parentId"]))
    ):
        return None
    place = {"id": record["id"], "parent_id": record["parentId"]}
    return {"type": b'"status"', "status": data["status"], "timestamp": record["timestamp"], **place}


def _is_text(raw: bytes) -> bool:
    return raw[:1] == b'"' and raw != b'""'


class _Usage(msgspec.Struct):
    output: Annotated[int, msgspec.Meta(gt=0, lt=2**53)]


_usage = msgspec.json.Decoder(_Usage)
_text = msgspec.json.Decoder(str)


def _tokens(content: bytes, parts: Mapping[str, bytes]) -> bytes:
    """What a turn says of its size: the provider's figure, or a quarter of its characters.

    It follows from the line itself, so it is no part of the entry; another figure is.
    """
    if "usage" in parts:
        try:
            return b"%d" % _usage.decode(parts["usage"]).output
        except REFUSED:
            pass
    return b"%d" % -(-_length(content) // 4)


def _length(text: bytes) -> int:
    """How many characters a JSON string has."""
    if b"\\" not in text:
        return len(text) - 2 if text.isascii() else len(text.decode("utf-8", "replace")) - 2
    try:
        return len(_text.decode(text))
    except REFUSED:
        pass
    try:
        return len(json.loads(text.decode("utf-8", "replace")))
    except ValueError:
        return 0


# --- lines to entries ----------------------------------------------------------------------------


class AuroraReader(LineReader):
    header_mark = b'"metadata"'
    record_start = re.compile(r'\{\s*"(?:type|role|id|session_id|timestamp)"\s*:')

    def __init__(self, path: str, header: Header) -> None:
        super().__init__(path, header)
        self._metadata: Mapping[str, bytes] = {}

    def is_record(self, value: Any) -> bool:
        return lines.is_record(value) or (
            isinstance(kind := value.get("type"), str) and _NEEDED.get(kind, _ANY) <= value.keys()
        )

    def record(self, text: bytes, number: int) -> None:
        parts = members(text)
        kind = parts.get("type", b'"turn"' if "role" in parts else b"")
        if kind == b'"metadata"' and not self.headed:
            self._take_metadata(parts, number)
            return
        if kind == b'"metadata"' and {**parts, "session_id": b""} == self._metadata:
            return
        try:
            entry = _READ[kind](self, parts) if kind in _READ else self._as_it_is(text, parts)
        except ValueError as error:
            self.problem(number, f"{error}; kept as it is")
            entry = self._as_it_is(text, parts)
        self.entries.append(entry)

    def _take_metadata(self, parts: Mapping[str, bytes], number: int) -> None:
        record = loads(joined(parts))
        id = self.header.id
        self.headed = True
        self._metadata = {**parts, "session_id": b""}  # whichever that is: a repair puts it right
        if record.get("session_id") not in (None, id):
            self.problem(number, f"it names another session: {record['session_id']!r:.60}")
            parts = {**parts, "session_id": dumps(id)}
        self.header_raw = joined(parts)
        facts = {name: value for name, value in record.items() if name not in _OWN}
        misnamed = record.get("facts", {})
        facts.update(misnamed if isinstance(misnamed, dict) else {"facts": misnamed})
        places = {name: record.get(name, "") for name in ("cwd", "parent_session")}
        facts.update((name, value) for name, value in places.items() if not isinstance(value, str))
        cwd, parent = (value if isinstance(value, str) else "" for value in places.values())
        self.header = Header(id, moment(parts.get("created_at", b"")), cwd, parent, {**_DEFAULTS, **facts})

    def _turn(self, parts: Mapping[str, bytes]) -> Entry:
        tokens = parts.get("tokens")
        if tokens is None:
            return self._message(parts, ("type",))
        said, rest = parts.get("content", b""), parts.get("message", b"")
        if (
            parts.get("role") in _SPOKEN
            and said[:1] == b'"'
            and b'"content"' not in rest
            and b'"usage"' not in rest
        ):
            is_ours = tokens == _tokens(said, parts)
            return self._message(parts, ("type", "tokens") if is_ours else ("type",))
        entry = self._message(parts, ("type", "tokens"))
        written = _spoken_parts(entry)  # from a line that is not in our form: what would one be that is?
        if written is not None and written.get("tokens") == tokens:
            return entry
        return self._message(parts, ("type",))

    def _tool_result(self, parts: Mapping[str, bytes]) -> Entry:
        if parts.get("role", b'"tool"') != b'"tool"':
            raise ValueError("a tool's result with a role of its own")
        return self._message({**parts, "role": b'"tool"'}, ("type",))

    def _message(self, parts: Mapping[str, bytes], own: tuple[str, ...]) -> Entry:
        id = self.next_id
        entry = entry_of(parts, id, self.last, own)
        if entry.id == id or "parent_id" not in parts:
            self.adopted = True
        return entry

    def _status(self, parts: Mapping[str, bytes]) -> Entry:
        data = dict(parts)
        for name in ("type", "timestamp", "parent_id"):
            data.pop(name, None)
        has_id = _is_text(parts.get("id", b""))
        id = data.pop("id") if has_id else dumps(self.next_id)
        if not has_id or "parent_id" not in parts:
            self.adopted = True
        record = {
            "type": b'"custom"',
            "id": id,
            "parentId": parts.get("parent_id") or dumps(self.last),
            "timestamp": dumps(moment(parts.get("timestamp", b""))),
            "customType": b'"perdure.status"',
            "data": joined(data),
        }
        return decode(joined(record))

    def _wrapped(self, parts: Mapping[str, bytes]) -> Entry:
        if parts.keys() != {"type", "entry"} or parts["entry"][:1] != b"{":
            raise ValueError("not an entry's record alone")
        return self._as_it_is(parts["entry"], members(parts["entry"]))

    def _second_metadata(self, parts: Mapping[str, bytes]) -> Entry:
        raise ValueError("a second metadata line")

    def _as_it_is(self, text: bytes, parts: Mapping[str, bytes]) -> Entry:
        """A record that names its own place, or else stands behind the one before it."""
        entry = decode(text)
        place = next((name for name in ("parentId", "parent_id") if name in parts), "")  # pi's name, or ours
        if entry.id and place == "parentId":
            return entry
        if not entry.id or not place:
            self.adopted = True
        parent = decode(b'{"parentId":%b}' % parts[place]).parent_id if place else self.last
        return placed(entry, id=entry.id or self.next_id, parent_id=parent)


_READ = {
    b'"turn"': AuroraReader._turn,
    b'"tool_result"': AuroraReader._tool_result,
    b'"status"': AuroraReader._status,
    b'"entry"': AuroraReader._wrapped,
    b'"metadata"': AuroraReader._second_metadata,
}
_NEEDED = {
    "turn": {"role", "content"},
    "tool_result": {"tool_call_id", "content"},
    "status": {"status"},
    "entry": {"entry"},
    "metadata": {"created_at"},
}
"""What makes an object in a damaged line a record."""
_ANY = {"timestamp"}
