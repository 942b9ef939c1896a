"""What a model is sent: a pure fold of the path from root to head.

The stored entries are never touched. Here nothing before the last reset is sent, the last compaction
stands in for what it summarises, branch summaries and programs' messages become the user's, and every
tool call has exactly one result right behind it, because providers refuse anything else: a call whose
answer never came (the process died, the user pressed Ctrl+C) is answered "interrupted" in this view only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from perdure.session.entry import (
    AnyMessage,
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
    Message,
    ModelChange,
    System,
    Text,
    ThinkingLevelChange,
    ToolCall,
    ToolResult,
    User,
    decode,
)
from perdure.session.record import dumps, loads

INTERRUPTED = "Interrupted: this tool call did not finish, and its result is not known."
RESET = "perdure.reset"
"""A program's state: its user asked for a conversation from scratch. What was said stays in the file."""


class Context(NamedTuple):
    messages: list[AnyMessage]
    model: tuple[str, str] | None
    """Provider and model id last chosen, or last heard from."""
    thinking_level: str


def build(path: Sequence[Entry]) -> Context:
    model: tuple[str, str] | None = None
    thinking = "off"
    for entry in path:
        match entry.body if entry.type in _SETTINGS else None:
            case ModelChange(provider=provider, model_id=model_id):
                model = (provider, model_id)
            case ThinkingLevelChange(thinking_level=level):
                thinking = level
            case Message(message=Assistant(provider=provider, model=name)) if name:
                model = (provider, name)
    edits = {
        body.target_id: body.replacement
        for entry in path
        if entry.type == "context_edit" and isinstance(body := entry.body, ContextEdit)
    }
    return Context(_answered(_messages(_edited(_compacted(_since_reset(path)), edits))), model, thinking)


_SETTINGS = frozenset({"model_change", "thinking_level_change", "message"})


def is_reset(entry: Entry) -> bool:
    if entry.type != "custom" or RESET.encode() not in entry.line:
        return False
    return isinstance(body := entry.body, Custom) and body.custom_type == RESET


def _since_reset(path: Sequence[Entry]) -> Sequence[Entry]:
    last = max((at for at, entry in enumerate(path) if is_reset(entry)), default=-1)
    return path[last + 1 :]


def _compacted(path: Sequence[Entry]) -> Iterator[Entry]:
    last = max((at for at, entry in enumerate(path) if _is_compaction(entry)), default=None)
    if last is None:
        yield from path
        return
    compaction = path[last]
    yield compaction
    body = compaction.body
    assert isinstance(body, Compaction)
    first = next((at for at in range(last) if path[at].id == body.first_kept_entry_id), last)
    yield from (entry for entry in path[first:last] if entry.type != "compaction")
    yield from path[last + 1 :]


def _edited(entries: Iterable[Entry], edits: Mapping[str, dict[str, Any] | None]) -> Iterator[Body]:
    for entry in entries:
        body = entry.body
        if entry.id in edits:
            content = (edits[entry.id] or {}).get("content")
            if content is None:
                continue
            body = _saying(entry, content)
        yield body


def _saying(entry: Entry, content: Any) -> Body:
    record = loads(entry.raw)
    if isinstance(message := record.get("message"), dict):
        return decode(dumps({**record, "message": {**message, "content": content}})).body
    return decode(dumps({**record, "content": content})).body


def _is_compaction(entry: Entry) -> bool:
    return entry.type == "compaction" and isinstance(entry.body, Compaction)


def _messages(bodies: Iterable[Body]) -> Iterator[AnyMessage]:
    for body in bodies:
        match body:
            case Message(message=BashExecution() as ran):
                if ran.exclude_from_context is not True:
                    yield User(_described(ran), ran.timestamp)
            case Message(message=CustomRole(content=content, timestamp=timestamp)):
                yield User(content, timestamp)
            case Message(message=System()):
                pass
            case Message(message=Assistant() as said) if not said.content or said.stop_reason == "error":
                pass  # a failed call is in the record but is not sent: providers refuse half an answer
            case Message(message=message):
                yield message
            case CustomMessage(content=content):
                yield User(content)
            case Compaction(summary=summary):
                yield User(
                    "Earlier parts of this conversation were condensed. What they held:\n\n"
                    f"<summary>\n{summary}\n</summary>"
                )
            case BranchSummary(summary=summary) if summary:
                yield User(
                    "This conversation went down another branch and came back. What that branch held:\n\n"
                    f"<summary>\n{summary}\n</summary>"
                )


def _described(ran: BashExecution) -> str:
    lines = [f"I ran this command myself:\n```\n{ran.command}\n```"]
    lines.append(f"It printed:\n```\n{ran.output}\n```" if ran.output else "It printed nothing.")
    if ran.cancelled:
        lines.append("I stopped it before it ended.")
    elif isinstance(ran.exit_code, int) and ran.exit_code != 0:
        lines.append(f"It ended with code {ran.exit_code}.")
    if ran.truncated:
        where = f"; all of it is in {ran.full_output_path}" if ran.full_output_path else ""
        lines.append(f"The output above is cut{where}.")
    return "\n".join(lines)


def _answered(messages: Iterable[AnyMessage]) -> list[AnyMessage]:
    """Each call's result moved right behind it; calls without one answered, results without one left out."""
    view: list[AnyMessage] = []
    waiting: dict[str, int] = {}  # call id -> where its answer stands in the view
    for message in messages:
        if isinstance(message, ToolResult):
            at = waiting.pop(message.tool_call_id, None)
            if at is not None:
                view[at] = message
            continue
        view.append(message)
        if isinstance(message, Assistant) and not isinstance(message.content, str):
            for call in message.content:
                if isinstance(call, ToolCall):
                    waiting[call.id] = len(view)
                    view.append(
                        ToolResult(
                            call.id,
                            call.name,
                            [Text(INTERRUPTED)],
                            is_error=True,
                            timestamp=message.timestamp,
                        )
                    )
    return view
