"""A turn, told: events of the agent in, words to a face out. Every face hears the same."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

from perdure.agent.draft import Draft
from perdure.agent.events import (
    AgentEvent,
    AutoRetryStart,
    CompactionEnd,
    CompactionStart,
    MessageEnd,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
)
from perdure.agent.tools import AgentToolResult
from perdure.front import render
from perdure.front.amounts import counted
from perdure.front.face import Face, Line, Running
from perdure.front.output import Styled
from perdure.front.visible import fit, one_line, width
from perdure.session.entry import Assistant, ToolCall, ToolResult, User

_DIFF_LINES = 20
_ERROR_LINES = 5
_NOT_RUN_LINES = 5
_TAIL = 500
"""Characters of what a tool printed that are looked at for its last line."""


class Narrator:
    def __init__(self, face: Face, model: str) -> None:
        self._face = face
        self._model = model
        self._running: dict[str, Running] = {}
        self._arguments: dict[str, Any] = {}
        self._waiting: dict[str, ToolCall] = {}
        """Calls of the answer that have not started."""
        self._not_run = 0
        """How many of the answer never will."""
        self._draft: Draft | None = None
        """An answer under way that is shown when it has ended."""
        self.is_begun = False
        self.is_said = False
        """Whether something was saved."""

    def see(self, event: AgentEvent) -> None:
        face = self._face
        self.is_begun = True
        match event:
            case MessageUpdate(draft=draft) if not face.shows_drafts:
                self._draft = draft
            case MessageUpdate(assistant_message_event=part):
                if part.type == "text_delta" and isinstance(part.delta, str):
                    face.answer(part.delta)
                elif part.type == "thinking_delta" and isinstance(part.delta, str):
                    face.think(part.delta)
                elif part.type in ("text_end", "thinking_end"):
                    face.end_of_answer()
                face.doing(f"{self._model} answers")
            case TurnStart():
                face.doing(f"Waiting for {self._model}")
            case MessageEnd(message=User() as message):
                self.is_said = True
                face.said(words(message.text))
            case MessageEnd(message=Assistant() as message):
                self._draft = None
                if not face.shows_drafts:
                    face.answer(message.text)
                face.end_of_answer()
                self._say_how_it_ended(message)
                if not message.is_broken_off:
                    self._waiting = {call.id: call for call in message.calls}
            case MessageEnd(message=ToolResult(tool_call_id=id)) if id in self._waiting:
                call = self._waiting.pop(id)
                self._not_run += 1
                if self._not_run <= _NOT_RUN_LINES:
                    face.line(
                        *_call_line(call.name, call.arguments, Styled("not run", "yellow"), face.columns)
                    )
            case TurnEnd(tool_results=results) if self._not_run:
                self._say_what_was_not_run(results[-1].text)
            case ToolExecutionStart(tool_call_id=id, tool_name=name, args=arguments):
                self._waiting.pop(id, None)
                self._arguments[id] = arguments
                self._running[id] = Running(_what(name, arguments), time.monotonic())
                self._tell_what_runs()
            case ToolExecutionUpdate(tool_call_id=id, partial_result=result) if id in self._running:
                self._running[id] = self._running[id]._replace(printed=end_of(result))
                self._tell_what_runs()
            case ToolExecutionEnd(tool_call_id=id, tool_name=name, result=result, is_error=is_error):
                self._running.pop(id, None)
                self._tell_what_runs()
                arguments = self._arguments.pop(id, None)
                for line in call_lines(name, arguments, result, is_error=is_error, columns=face.columns):
                    face.line(*line)
            case AutoRetryStart(attempt=attempt, max_attempts=most, delay_ms=delay, error_message=why):
                face.end_of_answer()
                face.note(Styled(one_line(retrying(why, attempt, most, delay)), "yellow"))
            case CompactionStart():
                face.doing("Condensing the conversation")
            case CompactionEnd(result=dict()):
                face.note(Styled("The conversation was condensed; all of it is still in the session.", "dim"))
            case CompactionEnd(error_message=str(why)):
                face.note(Styled(one_line(f"The conversation could not be condensed: {why}"), "yellow"))

    def end(self) -> None:
        """Nothing of it is under way any more."""
        self._running.clear()
        self._tell_what_runs()
        if self._draft is not None:  # it could not be saved, and is shown before it is lost
            self._face.answer(self._draft.message().text)
            self._draft = None
        self._face.end_of_answer()
        self._face.doing("")

    def _say_what_was_not_run(self, why: str) -> None:
        more, self._not_run = self._not_run - _NOT_RUN_LINES, 0
        if more > 0:
            self._face.line(Styled(f"▸ and {counted(more, 'more call')}: {one_line(why)}", "yellow"))

    def _tell_what_runs(self) -> None:
        self._face.running([*self._running.values()])
        if self._running:
            self._face.doing(f"Running {counted(len(self._running), 'tool')}")

    def _say_how_it_ended(self, answer: Assistant) -> None:
        for part in render.ending(answer):
            self._face.note(Styled(one_line(part.text[:1].upper() + part.text[1:]), "red"))
        if not answer.is_broken_off and not answer.text and not answer.calls:
            self._face.note(Styled("The model said nothing.", "yellow"))


def retrying(why: str, attempt: int, most: int, delay_ms: int) -> str:
    """What is said while a model that failed is about to be asked again."""
    return f"{why}; retrying in {delay_ms / 1000:g} s ({attempt} of {most})"


def end_of(result: AgentToolResult) -> str:
    """The end of what a tool has printed so far, without its own remark on that."""
    text = result.text[-_TAIL:]
    printed, remark, _ = text.rpartition("\n\n[")
    return printed if remark else text


def call_lines(
    name: str, arguments: Any, result: AgentToolResult, *, is_error: bool, columns: int
) -> Iterator[Line]:
    """A call in one line, what it printed folded; what it changed, line by line; why it failed, in a few."""
    printed = render.lines(render.printed(result.text))
    details = None if is_error else result.details
    from perdure.front import diffs

    changed = diffs.summary(details)
    end = Styled("failed", "red") if is_error else Styled(changed or counted(len(printed), "line"), "dim")
    yield _call_line(name, arguments, end, columns)
    for line in diffs.lines(details, arguments, most=_DIFF_LINES):
        text = f"    {line.text}"
        yield (Styled(fit(text, columns) if columns else text, line.style or "dim"),)
    if is_error:
        for text in printed[-_ERROR_LINES:]:
            text = f"    {one_line(text)}"
            yield (Styled(fit(text, columns) if columns else text, "dim"),)


def _call_line(name: str, arguments: Any, end: Styled, columns: int) -> Line:
    tool, glance = one_line(name), one_line(render.glance(arguments))
    if columns:
        tool = fit(tool, max(10, columns - width(end.text) - 4))
        glance = fit(glance, max(0, columns - width(tool) - width(end.text) - 6))
    about = f"  {glance}" if glance else ""
    return Styled("▸ ", "yellow"), Styled(tool, "bold"), about, Styled(f"  {end.text}", end.style)


def _what(name: str, arguments: Any) -> str:
    return f"{name}  {render.glance(arguments)}".rstrip()


_FILE = re.compile(r'<file name="[^"\n]*">(?:\n.*?\n)?</file>\n?', re.DOTALL)
_FILE_END = "\n</file>"
"""Behind the last one only empty files can be: each beginning of another would be searched to the end."""
_EMPTY_FILE = re.compile(r'<file name="[^"\n]*"></file>\n?')


def words(text: str) -> str:
    """What somebody typed, without the files that they named in it, which were sent before it."""
    end = text.rfind(_FILE_END) + len(_FILE_END) if _FILE_END in text else 0
    end += text.startswith("\n", end)
    said = _FILE.sub("", text[:end]) + _EMPTY_FILE.sub("", text[end:])
    return said.strip("\n") or text
