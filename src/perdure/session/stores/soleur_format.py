"""One thing a Soleur document lists, as an entry and back: a message, a decision, or a record of ours.

    messages   {role, content, timestamp, …}                        of the active path
    decisions  {content, timestamp, session_id, tags, source, …}
    entries    {"after": n, "entry": {…}}      any other record, whole; n messages are before it
               {"after": n, "record": "…"}     the same, as text: JSON that not every reader takes
               {"after": n, "decision": k}     here is the place of decisions[k]

What was read is written back as it stood. An item without an id is named by its place in its list, and
follows the entry before it; where that would not be true any more, it is given an id and a parent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.session.entry import Custom, Entry, decode, placed
from perdure.session.record import REFUSED, dumps, loads, members
from perdure.session.stores.json_text import is_sound, laid_out, on_one_line
from perdure.session.stores.plain import entry_of, joined, own_id, plain

MESSAGES, DECISIONS, ENTRIES = "messages", "decisions", "entries"
LISTS = {MESSAGES: "role", DECISIONS: "content", ENTRIES: "after"}
"""Each with the name its items begin with."""

DECISION, CONTEXT, PROJECT = "perdure.decision", "perdure.context", "perdure.project"
_LETTERS = {MESSAGES: "r", DECISIONS: "d", ENTRIES: "e"}
_ROLES = frozenset({b'"user"', b'"assistant"', b'"system"', b'"tool"'})
_SHOWN = frozenset({"user", "assistant", "system"})
_OF_A_DECISION = {"content": b'"', "timestamp": b'"', "session_id": b'"', "tags": b"[", "source": b'"'}
"""Its members, in order, and how the value of each begins."""
_OURS = frozenset({"id", "parent_id", "entry_timestamp"})
_OF_THE_ENTRY = frozenset({"type", "id", "parentId", "timestamp", "customType", "data"})


class Item:
    """An entry, and how it stands in a document. It is laid out when that is first asked for."""

    __slots__ = (
        *("entry", "list"),
        *("_found", "_has_id", "_has_parent", "_is_known", "_is_laid_out", "_raw", "_record"),
    )

    def __init__(
        self,
        entry: Entry,
        list: str = ENTRIES,
        raw: bytes = b"",
        *,
        has_id: bool = True,
        has_parent: bool = True,
        is_known: bool = True,
        found: Mapping[str, bytes] | None = None,
    ) -> None:
        self.entry = entry
        self.list = list
        """Where it may stand. A message that is not on the active path stands in `entries` all the same."""
        self._raw: bytes | msgspec.Raw = raw
        self._has_id = has_id
        self._has_parent = has_parent
        self._is_known = is_known
        self._found = found
        self._is_laid_out = False
        self._record: bytes | None = None

    @property
    def context(self) -> tuple[str, str | None] | None:
        """The name and the content of what is attached with it; of what it detaches, no content."""
        return _context(self.entry)

    @property
    def project_root(self) -> str:
        """The root of the session's project, if it names that."""
        return _project_root(self.entry)

    def text(self, place: int, before: str | None) -> bytes | None:
        """As it stands at this place of its list, counted from 1, behind the entry of this id. None if it
        would have to be given an id, and nobody knows what that would mean in it."""
        raw = bytes(self._raw)
        if not self._is_laid_out:
            found, raw = raw, laid_out(raw, 2)
            self._raw = raw if raw != found else self._raw
            self._is_laid_out = True
        id, parent = self.entry.id, self.entry.parent_id
        if (self._has_id or id == f"{_LETTERS[self.list]}{place}") and (self._has_parent or parent == before):
            return raw
        if not self._is_known:
            return None
        item = raw if raw[:1] == b"{" else b'{"content":%b}' % raw
        return laid_out(joined({**members(item), "id": dumps(id), "parent_id": dumps(parent)}), 2)

    def stand_in(self, document: msgspec.Raw) -> None:
        """Have its text there, and no copy of that."""
        self._raw = document

    @property
    def has_parent(self) -> bool:
        """Whether it names its parent itself."""
        return self._has_parent

    def behind(self, parent: str | None, place: int, *, keeps_id: bool) -> Item:
        """The same message at this place of `messages`, as the child of this entry."""
        dropped = {"parent_id"} if keeps_id else {"parent_id", "id"}
        kept = {name: value for name, value in members(bytes(self._raw)).items() if name not in dropped}
        return message_item(joined(kept), place, parent)

    def record(self, after: int) -> bytes:
        """As it stands in `entries`."""
        if self._record is None:
            found = self._found or _record_of(self.entry)
            parts = [b"%b: %b" % (dumps(name), laid_out(value, 3)) for name, value in found.items()]
            self._record = b",\n      ".join(parts)
        return b'{\n      "after": %d,\n      %b\n    }' % (after, self._record)


def _record_of(entry: Entry) -> dict[str, bytes]:
    raw = entry.raw
    if is_sound(raw):
        return {"entry": raw}
    return {"record": dumps(raw.decode("utf-8", "surrogateescape"))}


def item_of(entry: Entry, found: Mapping[str, bytes] | None = None) -> Item:
    """For an entry that was no message or decision where it was read; `found` is what it was there."""
    list = DECISIONS if entry.type == "custom" else MESSAGES if entry.role in _SHOWN else ENTRIES
    if list != ENTRIES and is_sound(entry.raw):
        shown = _decision(entry) if list == DECISIONS else plain(entry)
        if shown is not None:
            return Item(entry, list, joined(shown), found=found)
    return Item(entry, found=found)


def kind_of(value: Any) -> str:
    """Which list such an item belongs to."""
    names: Any = value if isinstance(value, dict) else ()
    if "role" in names and "content" in names:
        return MESSAGES
    if "after" in names and not {"entry", "record", "decision"}.isdisjoint(names):
        return ENTRIES
    return DECISIONS if "content" in names else ""


# --- reading: each raises ValueError for what it cannot take ------------------------------------------


def message_item(raw: bytes, place: int, before: str | None) -> Item:
    """An item of `messages`. An object that is no message is kept as one of no known shape."""
    found = {name: on_one_line(value) for name, value in members(raw).items()}
    own, has_parent = own_id(found.get("id", b"")), "parent_id" in found
    id = own or dumps(f"r{place}")
    role = found.get("role", b"").lower()
    if role in _ROLES:
        found["role"] = role  # Rust's names for them begin with a capital
    is_known = True
    try:
        clash = {name: found.pop(name) for name in [*found] if name in ("type", "parentId")}
        if clash:  # names an entry has for itself
            found["message"] = joined({**members(found.get("message", b"{}")), **clash})
        entry = entry_of({**found, "id": id}, "", before)
    except (ValueError, *REFUSED):
        is_known = False
        stamp = found.get("timestamp", b"")
        whole = {
            "type": b'"message"',
            "id": id,
            "parentId": found.get("parent_id", dumps(before)),
            "timestamp": stamp if stamp[:1] == b'"' else b'""',
            "message": on_one_line(raw),
        }
        entry = decode(joined(whole))
    return Item(entry, MESSAGES, raw, has_id=own != b"", has_parent=has_parent, is_known=is_known)


def decision_item(raw: bytes, place: int, before: str | None, session: str) -> Item:
    """An item of `decisions`. Some programs list nothing but what was decided."""
    item = b'{"content":%b}' % raw if raw[:1] == b'"' else raw
    found = {name: on_one_line(value) for name, value in members(item).items()}
    defaults = {"timestamp": b'""', "session_id": dumps(session), "tags": b"[]", "source": b'"Manual"'}
    data = {**{name: found.get(name) or defaults[name] for name in defaults}, **found}
    data = {name: data[name] for name in (*_OF_A_DECISION, *found) if name in data and name not in _OURS}
    stamp = found.get("entry_timestamp", data["timestamp"])
    own = own_id(found.get("id", b""))
    whole = {
        "type": b'"custom"',
        "id": own or dumps(f"d{place}"),
        "parentId": found.get("parent_id", dumps(before)),
        "timestamp": stamp if stamp[:1] == b'"' else b'""',
        "customType": dumps(DECISION),
        "data": joined(data),
    }
    return Item(decode(joined(whole)), DECISIONS, raw, has_id=own != b"", has_parent="parent_id" in found)


def record_item(found: Mapping[str, bytes], place: int, before: str | None) -> Item:
    """An item of `entries`: its members but for `after`."""
    if "record" in found:
        raw = str(value_of(found["record"])).encode("utf-8", "surrogateescape")
    else:
        raw = found["entry"] if "entry" in found else joined(found)
    entry = decode(on_one_line(raw))
    if not entry.id:
        entry = placed(
            entry, id=f"e{place}", parent_id=before if entry.parent_id is None else entry.parent_id
        )
    elif "entry" in found or "record" in found:
        return item_of(entry, found)
    return item_of(entry)


# --- decisions and context --------------------------------------------------------------------------------


def _decision(entry: Entry) -> dict[str, bytes] | None:
    """The members of a decision; None for what is none, or would not be the same when read again."""
    if entry.type != "custom" or DECISION.encode() not in entry.line:
        return None
    record = members(entry.raw)
    if record.keys() != _OF_THE_ENTRY or record["customType"] != dumps(DECISION):
        return None
    try:
        data = members(record["data"])
    except ValueError:
        return None
    ours = {"id": record["id"], "parent_id": record["parentId"]}
    if (
        any(data.get(name, b"")[:1] != begins for name, begins in _OF_A_DECISION.items())
        or not _OURS.isdisjoint(data)
        or own_id(record["id"]) != record["id"]
        or record["parentId"][:1] not in (b'"', b"n")
        or record["timestamp"][:1] != b'"'
    ):
        return None
    if record["timestamp"] != data["timestamp"]:
        ours["entry_timestamp"] = record["timestamp"]
    named = {name: data[name] for name in _OF_A_DECISION}
    return {**named, **ours, **{name: value for name, value in data.items() if name not in named}}


def _context(entry: Entry) -> tuple[str, str | None] | None:
    if entry.type == "custom" and CONTEXT.encode() in entry.line:
        match entry.body:
            case Custom(custom_type="perdure.context", data={"name": str(name), "content": str(content)}):
                return name, content
            case Custom(custom_type="perdure.context", data={"name": str(name), "is_detached": True}):
                return name, None
    return None


def _project_root(entry: Entry) -> str:
    if entry.type == "custom" and PROJECT.encode() in entry.line:
        match entry.body:
            case Custom(custom_type="perdure.project", data={"root": str(root)}):
                return root
    return ""


def value_of(raw: bytes) -> Any:
    return loads(b'{"value":%b}' % raw)["value"]
