"""session.json: what is known of a conversation as a whole. Pure: bytes in, bytes out.

It is the session's header. Members nobody here knows keep the bytes they were written with. Entries say what
changes (`perdure.status`, `perdure.agent_config`, `perdure.summary`, the session's name), and are folded into
it; what is counted (`message_count`, `last_active`) follows from the log.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from perdure.session import ids
from perdure.session.entry import Custom, Entry, SessionInfo
from perdure.session.record import REFUSED, dumps, loads, members
from perdure.session.stores import Header, Problem
from perdure.session.stores.plain import Members

LOG = os.path.join(".session", "messages.jsonl")
STATE = os.path.join(".session", "session.json")
_FILE = os.path.basename(STATE)
_DOCUMENTED = (
    *("version", "conversation_id", "conversation_type", "title", "status", "created_at", "last_active"),
    *("message_count", "agent_config", "context_summary"),
)
_NO_FACTS = frozenset(
    {"version", "conversation_id", "created_at", "last_active", "message_count", "log_bytes"}
    | {"cwd", "parent_session", "facts"}
)
"""Members that are not facts. A fact of such a name stands in `facts`."""
_STATUSES = ("active", "paused", "completed")
_UNKNOWN_STATUS_IS = "paused"
_NO_AGENT = b'{"command":"","system_prompt_hash":"","model":"","tools":[]}'
_NAME = re.compile(r"(\d+)-([^-]+)(?:-(.+))?")
_KIND = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


class State(NamedTuple):
    """session.json as it is on disk."""

    members: Members
    problems: tuple[Problem, ...] = ()
    is_there: bool = True
    is_damaged: bool = False
    """Whether the file holds bytes that writing these members would lose."""

    @property
    def log_bytes(self) -> int | None:
        """How much of the log this takes into account; None if it does not say."""
        size = _value(self.members.get("log_bytes", b"null"))
        return size if type(size) is int and size >= 0 else None

    @property
    def messages(self) -> int | None:
        """How many there were; None if it does not say."""
        count = _value(self.members.get("message_count", b"null"))
        return count if type(count) is int and count >= 0 else None

    def covers(self, size: int) -> int:
        """How much of a log of this size it takes into account. One that does not say, all of it: another
        program wrote it, beside the log."""
        if self.log_bytes is not None:
            return min(self.log_bytes, size)
        return size if self.is_there and not self.is_damaged else 0


class Tally(NamedTuple):
    """What is counted of the log."""

    messages: int = 0
    last_active: str = ""

    def and_of(self, entries: Iterable[Entry]) -> Tally:
        count, last = self.messages, self.last_active
        for entry in entries:
            if entry.type == "message":
                count += 1
                last = _later(last, entry.timestamp)
        return Tally(count, last)


def parsed(path: str, data: bytes, id: str) -> State:
    """Whatever is in the file. Of a torn one, the members that are whole."""
    text = data.removeprefix(b"\xef\xbb\xbf")
    try:
        text.decode()
        loads(text)
        found = dict(members(text))
    except ValueError as error:
        return State(_whole_members(text), (_broken(path, text, error),), is_damaged=True)
    name = id.rpartition("/")[2]
    wrong = []
    named = _value(found.get("conversation_id", dumps(name)))
    if named not in (name, id):
        wrong.append(f"it names another conversation: {named!r:.60}")
    if not _has_known_status(found):
        status = _value(found["status"])
        wrong.append(
            f"the status {status!r:.40} is none of {', '.join(_STATUSES)}; taken as {_UNKNOWN_STATUS_IS}"
        )
    return State(found, tuple(Problem(path, 0, reason, _FILE) for reason in wrong))


def _has_known_status(known: Members) -> bool:
    return "status" not in known or _value(known["status"]) in _STATUSES


def missing(path: str) -> State:
    reason = "missing; what it would say is taken from the folder's name and the messages"
    return State({}, (Problem(path, 0, reason, _FILE),), is_there=False)


def tally_in(state: State) -> Tally:
    """What it says it counted."""
    count, last = (_value(state.members.get(name, b"null")) for name in ("message_count", "last_active"))
    return Tally(count if type(count) is int else 0, last if isinstance(last, str) else "")


def folded(known: Members, entries: Iterable[Entry]) -> Members:
    """With what these entries, which are newer, say of the conversation as a whole: the last word counts."""
    found = dict(known)
    for entry in entries:
        found.update(_says(entry))
    return found


def says_facts(entry: Entry) -> bool:
    return bool(_says(entry))


def completed(known: Members, id: str, entries: Iterable[Entry] = ()) -> Members:
    """With what follows from its name and its messages, where it does not say itself."""
    day, _, name = id.rpartition("/")
    match = _NAME.fullmatch(name)
    kind, slug = (match[2], match[3] or "") if match else ("conversation", name)
    found = {"conversation_type": dumps(kind), "title": dumps(slug.replace("-", " ") or "Untitled"), **known}
    if not says_when(found):
        first = next((entry.timestamp for entry in entries if entry.timestamp), "")
        found["created_at"] = dumps(first or (f"{day}T00:00:00.000Z" if _DAY.fullmatch(day) else ""))
    return found


def says_when(known: Members) -> bool:
    """Whether it was written down when it began."""
    return isinstance(_value(known.get("created_at", b"null")), str)


def members_of(header: Header, workspace: str) -> Members:
    """What a header says, as members. Nothing in them names the workspace: others have it elsewhere."""
    misnamed = {name: value for name, value in header.facts.items() if name in _NO_FACTS}
    found = {name: dumps(value) for name, value in header.facts.items() if name not in _NO_FACTS}
    found["created_at"] = dumps(header.timestamp)
    if header.cwd not in ("", workspace):
        found["cwd"] = dumps(header.cwd)
    if header.parent_session:
        found["parent_session"] = dumps(header.parent_session.removeprefix(os.path.join(workspace, "")))
    if misnamed:
        found["facts"] = dumps(misnamed)
    return found


def header_of(known: Members, id: str, workspace: str, covers: int) -> Header:
    values = {name: _value(raw) for name, raw in known.items()}
    facts = {name: value for name, value in values.items() if name not in _NO_FACTS}
    misnamed = values.get("facts", {})
    facts.update(misnamed if isinstance(misnamed, dict) else {"facts": misnamed})
    if not _has_known_status(known):
        facts["status"] = _UNKNOWN_STATUS_IS
    created, cwd, parent = (
        value if isinstance(value := values.get(name), str) else ""
        for name in ("created_at", "cwd", "parent_session")
    )
    if parent.endswith(LOG):
        parent = os.path.join(workspace, parent)
    return Header(id, created, cwd or workspace, parent, facts, covers)


def whole(known: Members, id: str, tally: Tally, log_bytes: int) -> Members:
    """All members of session.json."""
    found = {
        **dict.fromkeys(_DOCUMENTED, b'""'),
        "version": b'"1.0"',
        "status": b'"active"',
        "agent_config": _NO_AGENT,
        **completed(known, id),
        "conversation_id": dumps(id.rpartition("/")[2]),
        "message_count": b"%d" % tally.messages,
        "log_bytes": b"%d" % log_bytes,
    }
    if not _has_known_status(found):
        found["status"] = dumps(_UNKNOWN_STATUS_IS)
    found["last_active"] = dumps(tally.last_active) if tally.last_active else found["created_at"]
    return found


def printed(members: Members) -> bytes:
    """A member a line, so that a diff shows what changed; what the document names is first, then ours."""
    order = [name for name in (*_DOCUMENTED, "log_bytes") if name in members]
    order += [name for name in members if name not in order]
    lines = [b"  %b: %b" % (dumps(name), _indented(members[name])) for name in order]
    return b"{\n" + b",\n".join(lines) + b"\n}\n"


def transcript_name(known: Members, id: str) -> str:
    """`<type>.md`. What a file says its type is becomes a name only if it can be nothing else."""
    for said in (known, completed({}, id)):
        kind = _value(said.get("conversation_type", b"null"))
        if isinstance(kind, str) and _KIND.fullmatch(kind):
            return f"{kind}.md"
    return "conversation.md"


def title_in(known: Members) -> str:
    title = _value(known.get("title", b"null"))
    return title if isinstance(title, str) else ""


def _says(entry: Entry) -> Members:
    """What one entry sets."""
    if entry.type == "session_info":
        match entry.body:
            case SessionInfo(name=str(name)) if name.strip():
                return {"title": dumps(name.strip())}
    elif entry.type == "custom":
        match entry.body:
            case Custom(custom_type="perdure.status", data={"status": str(status)}) if status in _STATUSES:
                return {"status": dumps(status)}
            case Custom(custom_type="perdure.summary", data={"summary": str(summary)}):
                return {"context_summary": dumps(summary)}
            case Custom(custom_type="perdure.agent_config", data=dict()):
                return {"agent_config": members(entry.raw)["data"]}
    return {}


def _broken(path: str, text: bytes, error: ValueError) -> Problem:
    if not text.strip(b"\0 \t\r\n"):
        reason, at = "empty" if not text else f"{len(text)} bytes of nothing", 1
    elif isinstance(error, UnicodeDecodeError):
        reason, at = "not UTF-8", text.count(b"\n", 0, error.start) + 1
    else:
        reason, at = getattr(error, "msg", None) or str(error), getattr(error, "lineno", 1)
    return Problem(path, at, f"damaged ({reason[:80]}); what it lacks is taken from the messages", _FILE)


def _whole_members(text: bytes) -> Members:
    """The members of an object up to where it is torn, or ends before the file does."""
    source = text.decode("utf-8", "replace")
    scan = json.JSONDecoder().raw_decode
    found: Members = {}
    match = re.compile(r"\s*\{\s*").match(source)
    separator, follow = re.compile(r"\s*:\s*"), re.compile(r"\s*([,}])\s*")
    try:
        while match and match[0].strip() != "}":
            name, at = scan(source, match.end())
            start = separator.match(source, at)
            if not isinstance(name, str) or start is None:
                break
            _, at = scan(source, start.end())
            match = follow.match(source, at)  # without it, who knows whether a number was all there
            if match:
                found[name] = source[start.end() : at].encode()
    except (ValueError, RecursionError):
        pass
    return found


def _value(raw: bytes) -> Any:
    try:
        return loads(b'{"value":%b}' % raw)["value"]
    except ValueError:
        return None


def _indented(raw: bytes) -> bytes:
    try:
        return msgspec.json.format(raw, indent=2).replace(b"\n", b"\n  ")
    except REFUSED:
        return raw  # there is JSON it does not take, and that is kept as well


def _later(one: str, other: str) -> str:
    moments = [ids.moment(one), ids.moment(other)]
    if None in moments:
        return one if moments[1] is None else other
    return one if moments[0] > moments[1] else other  # type: ignore[operator]
