"""A line of questions to tools, as a plan that is run from its beginning for every answer.

A model has no memory but the conversation. So a plan is a generator that yields the calls it wants and is
sent their results; each time it starts anew, what the conversation holds already is given to it at once, and
the first calls that nobody has made yet are the answer. The same conversation always leads to the same calls.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from perdure.agent.models import Sent, arguments_of
from perdure.session.entry import Assistant, Image, ToolResult, User
from perdure.session.record import canonical

MOST_ROUNDS = 8
"""After so many answers with calls, a plan must do with what it has."""


class Call(NamedTuple):
    name: str
    arguments: Mapping[str, Any]

    @property
    def key(self) -> str:
        return f"{self.name} {canonical(dict(self.arguments)).decode()}"


class Found(NamedTuple):
    """What a tool said."""

    text: str = ""
    is_error: bool = False
    is_image: bool = False

    @property
    def body(self) -> str:
        """Without the remark a tool adds in brackets, after an empty line, when there was more."""
        return "" if self.is_error or self.text == "(empty file)" else _REMARK.sub("", self.text)

    @property
    def is_cut(self) -> bool:
        return not self.is_error and _REMARK.search(self.text) is not None


_REMARK = re.compile(r"(?:\n\n\[[^\n]*\])+\s*\Z")
NOT_ASKED = Found("", is_error=True)

T = TypeVar("T")
Steps = Generator[Sequence[Call], Sequence[Found], T]
"""Yields calls, is sent what was found, in the same order, and returns what that comes to."""
Plan = Steps[str]
"""Returns the answer."""


class Turn(NamedTuple):
    """What has happened since the user last said something."""

    before: Sequence[Sent]
    """What was said until then."""
    question: str
    known: Mapping[str, Found]
    rounds: int


def last_turn(messages: Sequence[Sent]) -> Turn:
    start = next((at for at in reversed(range(len(messages))) if isinstance(messages[at], User)), -1)
    since = messages[start + 1 :]
    results = {each.tool_call_id: each for each in since if isinstance(each, ToolResult)}
    known: dict[str, Found] = {}
    answers = [each for each in since if isinstance(each, Assistant)]
    for call in (call for each in answers for call in each.calls):
        if (result := results.get(call.id)) is not None:
            key = Call(call.name, arguments_of(call)).key
            is_image = any(isinstance(block, Image) for block in result.content)
            known[key] = Found(result.text, result.is_error, is_image)
    question = messages[start].text if start >= 0 else ""
    return Turn(messages[: max(start, 0)], question, known, len(answers))


def pursue(plan: Plan, turn: Turn, tools: Collection[str]) -> list[Call] | str:
    """The calls to make next, or the answer."""
    try:
        wanted = next(plan)
        while True:
            missing = {call.key: call for call in wanted if call.name in tools and call.key not in turn.known}
            if missing and turn.rounds < MOST_ROUNDS:
                return list(missing.values())
            wanted = plan.send([turn.known.get(call.key, NOT_ASKED) for call in wanted])
    except StopIteration as end:
        return str(end.value)


def where(path: str) -> dict[str, str]:
    """The argument of a tool that looks in the working directory unless it is told another."""
    return {"path": path} if path else {}


# --- what the tools print -----------------------------------------------------------------------------


class Hit(NamedTuple):
    path: str
    line: int
    text: str


_HIT = re.compile(r"(.+?):(\d+): ?(.*)")


def hits(found: Found) -> list[Hit]:
    """What grep found."""
    matched = (_HIT.fullmatch(line) for line in found.body.split("\n"))
    return [Hit(match[1], int(match[2]), match[3]) for match in matched if match]


def names(found: Found) -> list[str]:
    """What find or ls listed."""
    listed = found.body.split("\n")
    return [name for name in listed if name.strip() and not _NOTHING.match(name)]


_NOTHING = re.compile(r"\(empty directory\)$|No (files|matches) found\.")
