"""What somebody who goes on with a conversation is told of it: a block of what is known, and the history."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perdure.agent.transcript import text_of
from perdure.session import ids
from perdure.session.context import said
from perdure.session.entry import Assistant, ToolResult, User
from perdure.session.record import dumps
from perdure.session.session import Session
from perdure.session.stores.cortext_transcript import is_shown
from perdure.session.stores.file_store import FileStore

OPENING, CLOSING = "<conversation-context>", "</conversation-context>"
UNSHOWN: Mapping[str, Any] = {"transcript": False}
"""The mark of what is said about a conversation, and is no part of its transcript."""


def block(session: Session, status: str) -> str:
    """What is known of a conversation, its summary included."""
    facts = session.header.facts
    active = next((entry.timestamp for entry in session.newest_first() if entry.type == "message"), "")
    known = {
        "Conversation": _fact(facts, "title"),
        "Type": _fact(facts, "conversation_type"),
        "Id": session.id,
        "Begun": session.header.timestamp,
        "Last active": active,
        "Messages": _count(session),
        "Status": status,
        "Where it stopped": _fact(facts, "context_summary"),
    }
    lines = [f"{name}: {' '.join(value.split())}" for name, value in known.items() if value.strip()]
    told = "This conversation is resumed. All that was said in it before follows."
    return "\n".join([OPENING, told, *lines, CLOSING])


def request() -> str:
    """What asks for the one reply in which the agent acknowledges that it goes on."""
    return (
        f"<resumed at {ids.stamp(ids.now())}>\nIn one short reply, and without calling any tool, say where "
        "we stopped, and ask where to pick up."
    )


def history(session: Session) -> str:
    """All that was said, whole; not what programs asked for, nor what was answered to that."""
    parts = []
    for _, message in said([entry for entry in session.path() if is_shown(entry)]):
        match message:
            case User(content=content):
                parts.append(f"## User\n\n{text_of(content)}")
            case Assistant():
                if text := text_of(message.content):
                    parts.append(f"## Assistant\n\n{text}")
                parts += [
                    f"## Tool call: {each.name}\n\n{dumps(each.arguments).decode()}" for each in message.calls
                ]
            case ToolResult(tool_name=name, content=content):
                parts.append(f"## Tool result: {name}\n\n{text_of(content)}")
    return "\n\n".join(parts)


def _count(session: Session) -> str:
    """Empty where a large conversation does not say how much was said in it."""
    if not session.is_large:
        return str(sum(entry.type == "message" for entry in session.entries))
    assert isinstance(session.store, FileStore)
    part = session.store.excerpt(session.ref)
    return "" if part is None or part.messages is None else str(part.messages)


def _fact(facts: Mapping[str, Any], name: str) -> str:
    value = facts.get(name)
    return value if isinstance(value, str) else ""
