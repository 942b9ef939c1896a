"""A session as something to read: who spoke, and what they said, thought, called and got back.

Pure, and shared by every face: the terminal, Markdown and HTML are made from these parts. Nothing a session
holds raises here; what this version does not know is named. Texts are the session's own, and may hold
anything: to make them fit for a terminal or a page is what a face does.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from perdure.config import as_typed
from perdure.front.ages import seconds
from perdure.session import context, summary, tree
from perdure.session.entry import (
    Assistant,
    BashExecution,
    Body,
    BranchSummary,
    Compaction,
    ContextEdit,
    Custom,
    CustomMessage,
    CustomRole,
    Entry,
    Image,
    Label,
    Message,
    ModelChange,
    SessionInfo,
    System,
    Text,
    Thinking,
    ThinkingLevelChange,
    ToolCall,
    ToolResult,
    Unknown,
    User,
)
from perdure.session.layouts import LAYOUTS, shown_status
from perdure.session.record import dumps, loads
from perdure.session.session import Session
from perdure.session.summary import Summary

# --- parts --------------------------------------------------------------------------------------------


class Prose(NamedTuple):
    """Markdown, as somebody wrote it."""

    text: str


class Thought(NamedTuple):
    text: str
    """Empty where a provider keeps it to itself."""


class Picture(NamedTuple):
    media_type: str
    data: str
    """Base64."""

    @property
    def size(self) -> int:
        """In bytes."""
        return len(self.data.rstrip("=")) * 3 // 4


class Result(NamedTuple):
    """What a tool answered, and which entry holds it."""

    id: str
    timestamp: str
    text: str
    pictures: Sequence[Picture]
    is_error: bool
    label: str = ""


class Call(NamedTuple):
    id: str
    name: str
    arguments: Any
    result: Result | None = None


class Command(NamedTuple):
    """What the user ran themselves, beside the conversation."""

    command: str
    output: str
    outcome: str
    """How it ended, where that is worth a word."""


class Note(NamedTuple):
    """A fact, in a sentence or less."""

    text: str
    is_error: bool = False


Part = Prose | Thought | Picture | Call | Result | Command | Note


class Turn(NamedTuple):
    """One entry, and with it the results of the tools it called."""

    id: str
    speaker: str
    """user, assistant, tool, bash, system, program, summary, note; or a role nobody here knows."""
    detail: str
    """Which model, tool or program; what was summed up."""
    timestamp: str
    label: str
    parts: list[Part]


NO_LABELS: Mapping[str, str] = {}


def turns(path: Iterable[Entry], labels: Mapping[str, str] = NO_LABELS) -> list[Turn]:
    """A conversation in its order, each tool's result with its call where there is one before it."""
    made: list[Turn] = []
    waiting: dict[str, tuple[list[Part], int, Call]] = {}
    for entry in path:
        body = entry.body
        match body:
            case Label() | Custom(custom_type="perdure.filed" | "perdure.commands"):
                continue  # shown where it hangs; or a note of a program's to itself
            case Message(message=ToolResult() as result) if result.tool_call_id in waiting:
                parts, at, call = waiting.pop(result.tool_call_id)
                parts[at] = call._replace(result=_result(entry, result, labels.get(entry.id, "")))
                continue
        made.append(_turn(entry, body, labels))
        parts = made[-1].parts
        waiting.update(
            (part.id, (parts, at, part)) for at, part in enumerate(parts) if isinstance(part, Call)
        )
    return made


def turn(entry: Entry, labels: Mapping[str, str] = NO_LABELS) -> Turn:
    """One entry by itself."""
    return _turn(entry, entry.body, labels)


def _turn(entry: Entry, body: Body, labels: Mapping[str, str]) -> Turn:
    label = labels.get(entry.id, "")
    speaker, detail, parts = "note", "", list[Part]()
    match body:
        case Message(message=User(content=content)):
            speaker, parts = "user", _parts(content)
        case Message(message=Assistant() as said):
            speaker, detail, parts = "assistant", said.model, [*_parts(said.content), *ending(said)]
        case Message(message=ToolResult() as result):
            speaker, detail = "tool", result.tool_name
            parts = [_result(entry, result, label)]
        case Message(message=BashExecution() as ran):
            speaker, parts = "bash", [Command(_lines(ran.command), printed(ran.output), outcome(ran))]
        case Message(message=CustomRole(custom_type=kind, content=content)):
            speaker, detail, parts = "program", kind, _parts(content)
        case CustomMessage(custom_type=kind, content=content):
            speaker, detail, parts = "program", kind, _parts(content)
        case Message(message=System(content=content)):
            speaker, parts = "system", _parts(content)
        case Compaction(summary=text):
            speaker, detail, parts = "summary", "of what was said before", [Prose(_lines(text))]
        case BranchSummary(summary=text):
            speaker, detail, parts = "summary", "of another branch", [Prose(_lines(text))]
        case Unknown(type="message"):
            speaker = entry.role or "message"
            parts = [*_parts(entry.text), Note("a message of a shape this version does not know")]
        case _:
            parts = [Note(_fact(body))]
    return Turn(entry.id, speaker, detail, entry.timestamp, label, parts)


def _parts(content: Any) -> list[Part]:
    if isinstance(content, str):
        return [Prose(_lines(content))] if content else []
    return [_part(block) for block in content]


def _part(block: Any) -> Part:
    match block:
        case Text(text=text):
            return Prose(_lines(text))
        case Thinking(redacted=True):
            return Thought("")
        case Thinking(thinking=text):
            return Thought(_lines(text))
        case Image(data=data, mime_type=media_type):
            return Picture(media_type, data)
        case ToolCall(id=id, name=name, arguments=arguments):
            return Call(id, name, arguments)
        case {"type": str(kind)}:
            return Note(f"{kind}: a kind of content this version does not know")
        case _:
            return Note("content of a shape this version does not know")


def ending(said: Assistant) -> list[Note]:
    """Why an answer ended that did not just end."""
    why = said.error_message if isinstance(said.error_message, str) else ""
    if said.stop_reason == "aborted":
        return [Note("interrupted", is_error=True)]
    if said.stop_reason == "error" or why:
        return [Note(f"failed: {why}" if why else "failed", is_error=True)]
    cut = [Note("cut off: the answer reached its longest", is_error=True)]
    return cut if said.stop_reason == "length" else []


def _result(entry: Entry, result: ToolResult, label: str) -> Result:
    content = _parts(result.content)
    pictures = [part for part in content if isinstance(part, Picture)]
    texts = [part.text for part in content if isinstance(part, Prose | Thought | Note)]
    return Result(entry.id, entry.timestamp, printed("\n".join(texts)), pictures, result.is_error, label)


def outcome(ran: BashExecution) -> str:
    words = []
    if ran.cancelled:
        words.append("cancelled")
    elif isinstance(ran.exit_code, int) and ran.exit_code:
        words.append(f"exit code {ran.exit_code}")
    if ran.truncated:
        where = f", all of it is in {ran.full_output_path}" if isinstance(ran.full_output_path, str) else ""
        words.append(f"the output is cut{where}")
    return "; ".join(words)


def _fact(body: Body) -> str:
    match body:
        case ModelChange(provider=provider, model_id=model):
            return f"model: {provider}/{model}"
        case ThinkingLevelChange(thinking_level=level):
            return f"thinking: {level}"
        case SessionInfo(name=name):
            return f"name: {name}" if isinstance(name, str) and name.strip() else "the name was taken away"
        case Label(target_id=target, label=str(label)) if label:
            return f"label of {target}: {label}"
        case Label(target_id=target):
            return f"the label of {target} was taken away"
        case ContextEdit(target_id=target, replacement=replacement):
            what = "other content" if replacement else "nothing"
            return f"from here on a model is sent {what} for {target}"
        case Custom(custom_type=context.RESET):
            return "from here on it is a new conversation: nothing from before is sent"
        case Custom(custom_type=kind, data=data):
            return f"{kind}: {_told(data) or 'state of a program'}"
        case Unknown(type=kind):
            return f"{kind or 'an entry'}: a kind, or a shape of one, that this version does not know"
    return f"{type(body).__name__}: nothing to read"


def _told(state: Any) -> str:
    """What a person would want to know of a program's state: a status, the name of a context, a decision."""
    if isinstance(state, dict):
        for name in ("status", "name", "summary", "content"):
            if isinstance(value := state.get(name), str) and value.strip():
                return value
    return ""


_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")


def printed(text: str) -> str:
    """What a program printed, without the colours it printed it in: they are no content."""
    return _COLOURS.sub("", _lines(text))


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n")


# --- tool calls ---------------------------------------------------------------------------------------

_TELLING = ("command", "cmd", "pattern", "query", "url", "path", "file_path", "filePath", "name", "prompt")
_GLANCE = 500


def glance(arguments: Any) -> str:
    """What people look at first in a call: its command, its file, what it searches for. One line."""
    if isinstance(arguments, str):
        return first_line(arguments)
    if not isinstance(arguments, dict):
        return "" if arguments is None else first_line(as_json(arguments, indent=None))
    found = [value for name in _TELLING if isinstance(value := arguments.get(name), str)]
    texts = [value for value in arguments.values() if isinstance(value, str)]
    for value in (*found, *texts):
        if line := first_line(value):
            return line
    return first_line(as_json(arguments, indent=None)) if arguments else ""


class Field(NamedTuple):
    """One argument of a call."""

    name: str
    text: str
    hint: str
    """What it is written in: a language, or the name of a file that would hold it; empty if nobody knows."""

    @property
    def is_long(self) -> bool:
        return "\n" in self.text or len(self.text) > 100


def fields(arguments: Any) -> list[Field]:
    """A call's arguments one by one, texts as they are and everything else as JSON."""
    if not isinstance(arguments, dict):
        return [Field("", _shown(arguments), "json")] if arguments is not None else []
    files = (arguments.get(name) for name in ("path", "file_path", "filePath"))
    file = next((file for file in files if isinstance(file, str)), "")
    return [Field(name, _shown(value), _hint(name, value, file)) for name, value in arguments.items()]


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return printed(value)
    return as_json(value, indent=2 if isinstance(value, dict | list) else None)


def _hint(name: str, value: Any, file: str) -> str:
    if not isinstance(value, str):
        return "json"
    if name in ("command", "cmd"):
        return "bash"
    return file if "\n" in value else ""


def first_line(text: str) -> str:
    """The first one that says anything, with … if it is not all."""
    start = text[:_GLANCE].lstrip()
    line = start.partition("\n")[0].rstrip()
    return f"{line} …" if line and len(text.strip()) > len(line) else line


def lines(text: str) -> list[str]:
    """Those of what a program printed."""
    return text.rstrip("\n").split("\n") if text.strip("\n") else []


def as_json(value: Any, *, indent: int | None = 2) -> str:
    try:
        return json.dumps(value, indent=indent, ensure_ascii=False)
    except (RecursionError, TypeError, ValueError):
        return "(nested too deeply to be shown)"


def gist(said: Turn) -> str:
    """What was said, in a line."""
    other = ""
    for part in said.parts:
        match part:
            case Prose(text=text) if line := first_line(text):
                return line
            case Call(name=name, arguments=arguments):
                other = other or f"{name} {glance(arguments)}"
            case Command(command=command):
                other = other or f"$ {first_line(command)}"
            case Result(text=text):
                other = other or first_line(text)
            case Thought(text=text):
                other = other or f"({first_line(text) or 'thinking'})"
            case Picture(media_type=media_type):
                other = other or media_type
            case Note(text=text):
                other = other or first_line(text)
    return other


def clock(timestamp: str, *, is_local: bool = False) -> str:
    """`2026-01-31 09:05`, where the reader is, or in UTC, which is the same for all readers."""
    when = seconds(timestamp)
    try:
        shown = time.strftime("%Y-%m-%d %H:%M", time.localtime(when) if is_local else time.gmtime(when))
    except (OverflowError, OSError, ValueError):
        when = None
    return timestamp if when is None else shown if is_local else f"{shown} UTC"


# --- the whole ----------------------------------------------------------------------------------------


class Document(NamedTuple):
    """A conversation to be handed on: it does not say where its owner keeps their files."""

    title: str
    facts: Sequence[tuple[str, str]]
    turns: Sequence[Turn]


def document(session: Session) -> Document:
    path = session.path()
    said = turns(path, session.labels)
    about = summary_of(session)
    models = dict.fromkeys(each.detail for each in said if each.speaker == "assistant" and each.detail)
    others = other_branches(session, path)
    damage = [*(problem.brief for problem in session.problems), *session.notices]
    facts = {
        "program": session.store.name,
        "session": session.id,
        "began": about.created or (path[0].timestamp if path else ""),
        "directory": as_typed(about.cwd),
        "model": ", ".join(models),
        "messages": str(sum(entry.type == "message" for entry in path)),
        "other branches": f"{others}, not shown here" if others else "",
        "damage": summary.first_of(damage) or "",
    }
    return Document(about.title or session.id, [(name, fact) for name, fact in facts.items() if fact], said)


def summary_of(session: Session) -> Summary:
    """What a listing says of it."""
    return summary.of(session.header, session.entries, [*map(str, session.problems), *session.notices])


def other_branches(session: Session, path: Sequence[Entry]) -> int:
    """How many end elsewhere than on the path."""
    on_path = {entry.id for entry in path}
    return sum(leaf.id not in on_path for leaf in tree.leaves(session.entries))


def status(session: Session, about: Summary) -> str:
    """As it is to be shown: whether somebody talks in it is asked of its lock. What is not kept has none."""
    if (layout := LAYOUTS.get(session.store.name)) is None:
        return ""
    is_held = session.store.holder(session.ref) is not None
    return shown_status(layout.when_dead, about.status, waits=about.waits, is_held=is_held)


def data(session: Session) -> dict[str, Any]:
    """The whole session for programs: every entry of every branch, and which of them are its path."""
    header, about = session.header, summary_of(session)
    on_path = {entry.id for entry in session.path()}
    return {
        "program": session.store.name,
        "id": session.id,
        "path": session.ref.path,
        "header": {
            "timestamp": header.timestamp,
            "cwd": header.cwd,
            "parent_session": header.parent_session,
            "facts": _readable(dumps(dict(header.facts))),
        },
        "name": session.name,
        "title": about.title,
        "status": status(session, about),
        "head": session.head,
        "problems": [*map(str, session.problems), *session.notices],
        "labels": session.labels,
        "entries": [entry_data(entry, is_on_path=entry.id in on_path) for entry in session.entries],
    }


def entry_data(entry: Entry, *, is_on_path: bool) -> dict[str, Any]:
    return {
        "id": entry.id,
        "parent_id": entry.parent_id,
        "type": entry.type,
        "role": entry.role,
        "timestamp": entry.timestamp,
        "text": entry.text,
        "on_path": is_on_path,
        "record": _readable(entry.raw),
    }


_DEEPEST = 100


def _readable(raw: bytes) -> Any:
    """A record that every reader of JSON takes; else its text: numbers out of range, or nested so deeply
    that readers give up."""
    text = raw.decode("utf-8", "replace")
    try:
        record = loads(raw)
        json.dumps(record, allow_nan=False)
    except (RecursionError, ValueError):
        return text
    return text if text.count("[") + text.count("{") > _DEEPEST and _depth(record) > _DEEPEST else record


def _depth(value: Any) -> int:
    deepest, waiting = 0, [(value, 1)]
    while waiting:
        each, depth = waiting.pop()
        deepest = max(deepest, depth)
        inner = each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
        waiting += [(one, depth + 1) for one in inner]
    return deepest
