"""What its user sees of a session that goes on: the last exchange, and in one line what was restored."""

from __future__ import annotations

from contextlib import closing
from typing import Any, NamedTuple

from perdure.agent.tools import AgentToolResult
from perdure.front import diffs, render
from perdure.front.amounts import counted, size
from perdure.front.face import Face
from perdure.front.narration import call_lines, words
from perdure.front.output import Copyable, Styled
from perdure.front.visible import one_line
from perdure.session import context
from perdure.session.entry import Assistant, BashExecution, Entry, Message, ToolCall, ToolResult, User
from perdure.session.session import Session

_MOST = 50
"""Messages back to the last prompt. An exchange that is longer is shown without its beginning."""
_MOST_SHOWN = 6_000
"""Characters of an answer."""
_MOST_PRINTED = 200
"""Lines of what a command of the user's printed."""
MOST_READ = 20_000_000
"""Bytes of a session that are read to say what a model will be sent of it."""


def last_exchange(session: Session) -> list[Entry]:
    """From the last thing the user said on."""
    tail = session.tail(_MOST)
    at = max((at for at, entry in enumerate(tail) if entry.role == "user"), default=0)
    return tail[at:]


def last_exchange_since_reset(session: Session) -> list[Entry]:
    """None of before a reset. All entries are wanted soon, so they are read once, here, but for a large
    session's."""
    if not session.is_large and not session.entries:
        return []
    with closing(session.path_back()) as newest_first:
        last = next((each for each in newest_first if each.type == "message" or context.is_reset(each)), None)
    return last_exchange(session) if last and last.type == "message" else []


def show(entries: list[Entry], face: Face, *, is_over: bool = True) -> None:
    calls: dict[str, ToolCall] = {}
    for entry in entries:
        match entry.body:
            case Message(message=User() as message):
                if not face.is_drawn:
                    face.line(f"> {words(message.text)}")
                face.said(words(message.text))
            case Message(message=Assistant() as message):
                calls |= {call.id: call for call in message.calls}
                if message.text:
                    face.answer(_end_of(message.text, face))
                    face.end_of_answer()
                for part in render.ending(message):
                    face.note(Styled(one_line(part.text[:1].upper() + part.text[1:]), "red"))
            case Message(message=ToolResult() as result):
                call = calls.pop(result.tool_call_id, None)
                given = AgentToolResult(result.text, result.details, is_error=result.is_error)
                arguments = call.arguments if call else None
                lines = call_lines(
                    result.tool_name, arguments, given, is_error=result.is_error, columns=face.columns
                )
                for line in lines:
                    face.line(*line)
            case Message(message=BashExecution() as ran):
                face.line(Copyable(f"! {one_line(ran.command)}", "yellow"))
                show_command(ran, face)
    for call in calls.values():
        face.line(Styled(f"▸ {one_line(call.name)}  interrupted: its result is not known", "yellow"))
    if is_over and entries and entries[-1].role == "user":
        face.note(Styled("That was not answered. Say it again, or anything else.", "yellow"))


def _end_of(text: str, face: Face) -> str:
    """What of an answer is worth showing once more."""
    if len(text) <= _MOST_SHOWN:
        return text
    left, _, end = text[-_MOST_SHOWN:].partition("\n\n")
    end = end or left
    face.note(Styled(f"(… {size(len((text[: -len(end)]).encode()))} before this are not shown again)", "dim"))
    return end


def restored(session: Session, model: str) -> str:
    """In a line."""
    if session.ref.size > MOST_READ:
        return f"Resumed: a session of {size(session.ref.size)}, with {model}"
    live = session.live()
    messages = counted(sum(entry.type == "message" for entry in live), "message")
    if context.last_compaction(live) is None:
        return f"Resumed: {messages}, with {model}"
    return f"Resumed: a summary of what was said first, and {messages} since, with {model}"


class Answered(NamedTuple):
    """A tool's result, and what it was called with."""

    result: ToolResult
    arguments: Any


def results(session: Session) -> list[Answered]:
    """What the last tools answered."""
    calls: dict[str, Any] = {}
    found: list[Answered] = []
    for entry in session.tail(_MOST * 4):
        match entry.body:
            case Message(message=Assistant() as message):
                calls |= {call.id: call.arguments for call in message.calls}
            case Message(message=ToolResult() as result):
                found.append(Answered(result, calls.get(result.tool_call_id)))
    return found


def show_result(answered: Answered, face: Face) -> None:
    """All of it, and all that it changed."""
    result = answered.result
    called = one_line(f"{result.tool_name}  {render.glance(answered.arguments)}")
    face.line(Styled(f"▸ {called}", "bold"))
    _indented(result.text, face)
    for line in diffs.lines(None if result.is_error else result.details, answered.arguments):
        face.line(Copyable(f"    {line.text}", line.style or "dim"))


def show_command(ran: BashExecution, face: Face) -> None:
    """What it printed, and how it ended."""
    lines = render.lines(render.printed(ran.output))
    if (left := len(lines) - _MOST_PRINTED) > 0:
        face.line(Styled(f"  … {counted(left, 'line')} before", "dim"))
    for line in lines[-_MOST_PRINTED:]:
        face.line(Copyable(f"  {line}"))
    outcome = render.outcome(ran) or ("" if ran.output.strip() else "it printed nothing")
    if outcome:
        face.line(Styled(f"  ({one_line(outcome)})", "dim"))


def _indented(text: str, face: Face) -> None:
    for line in render.lines(render.printed(text)):
        face.line(Copyable(f"  {line}"))
