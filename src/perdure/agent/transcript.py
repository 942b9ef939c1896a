"""A conversation as text: something to read, and not to go on with.

What a tool printed and what a call was given is cut short, and the whole fits wherever it has to: what the
user said first stays, and the newest; that something is left out between them is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from perdure.agent.tokens import CHARACTERS
from perdure.session.entry import (
    AnyMessage,
    Assistant,
    Content,
    Image,
    Thinking,
    ToolCall,
    ToolResult,
    User,
)
from perdure.session.record import dumps

_RESULT = 2000
"""Characters of a tool's result, and of a call's arguments."""


def render(messages: Sequence[AnyMessage], most: int | None = None) -> str:
    """In at most so many tokens, if that is given."""
    parts = [part for message in messages for part in _parts(message)]
    room = CHARACTERS * most - len("<conversation>\n\n</conversation>") if most is not None else None
    if room is not None and sum(map(len, parts)) + 2 * len(parts) > room:
        parts = _bounded(parts, max(room, 0))
    return "<conversation>\n" + "\n\n".join(parts) + "\n</conversation>"


def _bounded(parts: Sequence[str], room: int) -> list[str]:
    first = next((at for at, part in enumerate(parts) if part.startswith(_USER)), None)
    asked = "" if first is None else parts[first]
    room -= len(_LEFT_OUT.format(10**9)) + 4
    newest: list[str] = []
    left = room - min(len(asked), room // 4)
    for part in reversed(parts if first is None else parts[first + 1 :]):
        if newest and len(part) + 2 > left:
            break
        newest.append(shortened(part, max(left - 2, 0)))
        left -= len(newest[-1]) + 2
    begin = [] if first is None else [shortened(asked, max(room - sum(len(part) + 2 for part in newest), 0))]
    left_out = len(parts) - len(begin) - len(newest)
    between = [_LEFT_OUT.format(left_out)] if left_out else []
    return [*begin, *between, *reversed(newest)]


_USER = "[User]: "
_LEFT_OUT = "[{} parts of the conversation are left out here]"


def _parts(message: AnyMessage) -> Iterator[str]:
    match message:
        case User(content=content):
            yield _USER + text_of(content)
        case ToolResult(content=content, is_error=is_error):
            text = shortened(text_of(content), _RESULT)
            yield f"[Tool result]: {'(failed) ' if is_error else ''}{text}"
        case Assistant(content=str(text)):
            yield f"[Assistant]: {text}"
        case Assistant(content=blocks):
            thinking = "\n".join(block.thinking for block in blocks if isinstance(block, Thinking))
            if thinking:
                yield f"[Assistant thinking]: {thinking}"
            if text := text_of(blocks):
                yield f"[Assistant]: {text}"
            if calls := "; ".join(map(_call, message.calls)):
                yield f"[Assistant tool calls]: {calls}"


def _call(call: ToolCall) -> str:
    return f"{call.name}({shortened(dumps(call.arguments).decode(), _RESULT)})"


def text_of(content: Content) -> str:
    """What there is to read, and where there was something to see."""
    if isinstance(content, str):
        return content
    shown = (_IMAGE if isinstance(block, Image) else getattr(block, "text", None) for block in content)
    return "\n".join(filter(None, shown))


_IMAGE = "[image]"


def shortened(text: str, most: int) -> str:
    """Beginning and end of a text that has more than so many characters."""
    if len(text) <= most:
        return text
    between = f"\n[{len(text) - most} characters and more are left out here]\n"
    left = most - len(between)
    if left < 40:
        return text[:most]
    return text[: left - left // 3] + between + text[-(left // 3) :]


def without(text: str, marks: Mapping[str, str]) -> str:
    """The text without all that begins with one of these marks and ends with the one that belongs to it. What
    has no end stays, and is not searched for it again wherever something begins."""
    last = {begin: text.rfind(end) for begin, end in marks.items()}
    pieces, at = [], 0
    for found in re.finditer(f"(?=({'|'.join(map(re.escape, marks))}))", text):
        inside = found.start() + len(found[1])
        if found.start() >= at and inside <= last[found[1]]:
            pieces.append(text[at : found.start()])
            at = text.index(marks[found[1]], inside) + len(marks[found[1]])
    return "".join([*pieces, text[at:]])
