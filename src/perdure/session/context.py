"""What a model is sent: a pure fold of the path from root to head.

The stored entries are never touched. Here nothing before the last reset is sent, the last compaction
stands in for what it summarises, branch summaries and programs' messages become the user's, and every
tool call has exactly one result right behind it, because providers refuse anything else: a call whose
answer never came (the process died, the user pressed Ctrl+C) is answered "interrupted" in this view only.
The path is read from its end, so that what is not sent need not be read, or at least not be kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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
    ToolResult,
    User,
    decode,
)
from perdure.session.record import dumps, loads_exactly

INTERRUPTED = "Interrupted: this tool call did not finish, and its result is not known."
RESET = "perdure.reset"
"""A program's state: its user asked for a conversation from scratch. What was said stays in the file."""
OFFLINE = "offline"
"""The provider, the api and the model that is always there."""
_OFFLINE = (OFFLINE, OFFLINE)
"""The one model of which it matters whether its user chose it."""


class Context(NamedTuple):
    messages: list[AnyMessage]
    model: tuple[str, str] | None
    """Provider and model id last chosen, or last heard from."""
    thinking_level: str
    condensed: int = 0
    """How many messages, from the first on, are a compaction's: its summary and what it kept. What their
    answers say of tokens was counted before it."""


class Chosen(NamedTuple):
    """What a session says of how it goes on."""

    model: tuple[str, str] | None
    """Provider and model id last chosen, or last heard from."""
    thinking_level: str
    distance: int = 0
    """How many entries were looked at to know that."""
    is_model_chosen: bool = False
    """True of an `offline` that is recorded as the user's choice; False of all other models."""


class Live(NamedTuple):
    """The end of a path as far back as a context is made of it. The settings may be from further back."""

    entries: list[Entry]
    """In the order of the path, the compaction among them if there is one."""
    model: tuple[str, str] | None
    thinking_level: str

    def context(self) -> Context:
        condensed, others = _in_order(self.entries)
        front = len(answered(condensed))
        return Context(answered([*condensed, *others]), self.model, self.thinking_level, front)


def build(path: Sequence[Entry]) -> Context:
    return live(reversed(path)).context()


def live(newest_first: Iterable[Entry]) -> Live:
    """What a context is made of, from a path that is read from its end, and read no further than it takes.

    What is passed over in search of settings is not kept, and a compaction that is written together with the
    settings of its time (`model_change`, `thinking_level_change`) ends that search too.
    """
    entries: list[Entry] = []
    settings = _Settings()
    first_kept = ""
    condensed: int | None = None  # once a compaction is met: how many of the entries count
    is_sent = True
    for entry in newest_first:
        if is_sent and is_reset(entry):
            is_sent = False
        elif is_sent:
            entries.append(entry)
            if condensed is None and _is_compaction(entry):
                condensed = len(entries)
                first_kept = _first_kept(entry)
                is_sent = bool(first_kept)
            elif condensed is not None and entry.id == first_kept:
                condensed = len(entries)
                is_sent = False
        if settings.are_known_from(entry) and not is_sent:
            break
    if condensed is not None:
        del entries[condensed:]
    entries.reverse()
    return Live(entries, settings.model, settings.thinking_level)


def chosen(newest_first: Iterable[Entry]) -> Chosen:
    """The settings alone, read no further than it takes; where one was never chosen, that is to the end."""
    settings = _Settings()
    distance = 0
    is_model_chosen: bool | None = None  # until the last change of the model is met
    for entry in newest_first:
        distance += 1
        are_known = settings.are_known_from(entry)
        if is_model_chosen is None and entry.type == "model_change":
            is_model_chosen = _is_choice(entry, settings.model)
        if are_known and (settings.model != _OFFLINE or is_model_chosen is not None):
            break
    return Chosen(settings.model, settings.thinking_level, distance, bool(is_model_chosen))


class _Settings:
    """The model and the way of thinking, looked for from the end of a path. Of an entry that cannot tell of
    them no more is read than its envelope."""

    def __init__(self) -> None:
        self.model: tuple[str, str] | None = None
        self._thinking: str | None = None

    def are_known_from(self, entry: Entry) -> bool:
        """With the next entry towards the beginning."""
        if self._thinking is None and entry.type == "thinking_level_change":
            self._thinking = _thinking_level(entry)
        elif self.model is None and entry.type in ("message", "model_change"):
            self.model = _model(entry)
        return self.model is not None and self._thinking is not None

    @property
    def thinking_level(self) -> str:
        return "off" if self._thinking is None else self._thinking


def said(entries: Sequence[Entry]) -> list[tuple[Entry, AnyMessage | None]]:
    """What a model is sent of each entry by itself, as later entries edited it; None if that is nothing."""
    return [*said_back(reversed(entries))][::-1]


def said_back(newest_first: Iterable[Entry]) -> Iterator[tuple[Entry, AnyMessage | None]]:
    """The same from the end of a path. Nothing is kept of it."""
    edits: dict[str, dict[str, Any] | None] = {}
    for entry in newest_first:
        body: Body | None = entry.body
        if isinstance(body, ContextEdit):
            edits.setdefault(body.target_id, body.replacement)
        elif entry.id in edits:
            content = (edits[entry.id] or {}).get("content")
            body = None if content is None else _saying(entry, content)
        yield entry, _message(body)


def messages_back(newest_first: Iterable[Entry]) -> Iterator[AnyMessage]:
    """What a model is sent of a path that is read from its end, each message by itself, back to a reset.

    Raises LookupError at a compaction, whose messages are sent in another order than that of the path.
    """
    for entry, message in said_back(newest_first):
        if is_reset(entry):
            return
        if _is_compaction(entry):
            raise LookupError(entry.id)
        if message is not None:
            yield message


def is_reset(entry: Entry) -> bool:
    if entry.type != "custom" or RESET.encode() not in entry.line:
        return False
    return isinstance(body := entry.body, Custom) and body.custom_type == RESET


def last_compaction(entries: Sequence[Entry]) -> Entry | None:
    """The one that counts."""
    return next((entry for entry in reversed(entries) if _is_compaction(entry)), None)


def _is_compaction(entry: Entry) -> bool:
    return entry.type == "compaction" and isinstance(entry.body, Compaction)


def _first_kept(compaction: Entry) -> str:
    body = compaction.body
    id = body.first_kept_entry_id if isinstance(body, Compaction) else ""
    return id if isinstance(id, str) and id != compaction.id else ""


def _model(entry: Entry) -> tuple[str, str] | None:
    match entry.body:
        case ModelChange(provider=provider, model_id=name):
            return provider, name
        case Message(message=Assistant(provider=provider, model=name)) if name:
            return provider, name
    return None


def _is_choice(entry: Entry, model: tuple[str, str] | None) -> bool:
    body = entry.body
    return isinstance(body, ModelChange) and body.is_chosen is True and _model(entry) == model == _OFFLINE


def _thinking_level(entry: Entry) -> str | None:
    return body.thinking_level if isinstance(body := entry.body, ThinkingLevelChange) else None


def _in_order(entries: Sequence[Entry]) -> tuple[list[AnyMessage | None], list[AnyMessage | None]]:
    """A compaction's summary and what it kept, and then what came after it."""
    compaction = last_compaction(entries)
    condensed: list[AnyMessage | None] = []
    others: list[AnyMessage | None] = []
    for entry, message in said(entries):
        if entry is compaction:
            condensed, others = [message, *others], []
        elif entry.type != "compaction":
            others.append(message)
    return condensed, others


def _saying(entry: Entry, content: Any) -> Body:
    record = loads_exactly(entry.raw)
    if isinstance(message := record.get("message"), dict):
        return decode(dumps({**record, "message": {**message, "content": content}})).body
    return decode(dumps({**record, "content": content})).body


def _message(body: Body | None) -> AnyMessage | None:
    match body:
        case Message(message=BashExecution() as ran):
            return None if ran.exclude_from_context is True else User(_described(ran), ran.timestamp)
        case Message(message=CustomRole(content=content, timestamp=timestamp)):
            return User(content, timestamp)
        case Message(message=System()):
            return None
        case Message(message=Assistant() as answer) if not answer.content or answer.stop_reason == "error":
            return None  # a failed call is in the record but is not sent: providers refuse half an answer
        case Message(message=message):
            return message
        case CustomMessage(content=content):
            return User(content)
        case Compaction(summary=summary):
            return User(
                "Earlier parts of this conversation were condensed. What they held:\n\n"
                f"<summary>\n{summary}\n</summary>"
            )
        case BranchSummary(summary=summary) if summary:
            return User(
                "This conversation went down another branch and came back. What that branch held:\n\n"
                f"<summary>\n{summary}\n</summary>"
            )
    return None


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


def answered(messages: Iterable[AnyMessage | None]) -> list[AnyMessage]:
    """Each call's result moved right behind it; calls without one answered, results without one left out."""
    view: list[AnyMessage] = []
    waiting: dict[str, int] = {}  # call id -> where its answer stands in the view
    for message in messages:
        if message is None:
            continue
        if isinstance(message, ToolResult):
            at = waiting.pop(message.tool_call_id, None)
            if at is not None:
                view[at] = message
            continue
        view.append(message)
        for call in message.calls if isinstance(message, Assistant) else ():
            waiting[call.id] = len(view)
            view.append(
                ToolResult(
                    call.id, call.name, [Text(INTERRUPTED)], is_error=True, timestamp=message.timestamp
                )
            )
    return view
