"""What a session is, counted: for somebody who asks."""

from __future__ import annotations

import os

from perdure.config import as_typed
from perdure.front.ages import ago, seconds
from perdure.front.amounts import size
from perdure.session.entry import Assistant, Message
from perdure.session.session import Session


def facts(session: Session) -> dict[str, str]:
    """All of it is read for that."""
    entries = session.entries
    messages = [entry for entry in entries if entry.type == "message"]
    tokens, cost = 0, 0.0
    for entry in messages:
        match entry.body if entry.role == "assistant" else None:
            case Message(message=Assistant(usage=usage)):
                tokens += _number(usage.get("totalTokens"))
                cost += _cost(usage)
    on_path = sum(entry.type == "message" for entry in session.path())
    elsewhere = f", {len(messages) - on_path:,} of them on other branches" if on_path < len(messages) else ""
    found = {
        "Session": session.id,
        "Name": session.name,
        "File": as_typed(session.ref.path),
        "Size": _size(session.ref.path),
        "Messages": f"{len(messages):,}{elsewhere}",
        "Tokens": f"{tokens:,}" if tokens else "",
        "Cost": f"${cost:.4f}" if cost else "",
        "Begun": ago(seconds(session.header.timestamp)),
    }
    return {name: fact for name, fact in found.items() if fact}


def _size(path: str) -> str:
    try:
        return size(os.path.getsize(path))
    except OSError:
        return ""  # it is in memory only


def _cost(usage: object) -> float:
    match usage:
        case {"cost": {"total": int() | float() as total}}:
            return float(total)
    return 0.0


def _number(value: object) -> int:
    return int(value) if isinstance(value, int | float) and value == value else 0
