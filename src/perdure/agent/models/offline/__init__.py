"""The model that is always there: no network, no weights, and no pretence of either.

It is a program that answers a few kinds of questions about a folder, through the same tools and the same loop
as any model; it reads nothing by itself. A notice before a session's first answer says what it is, and how to
get a real model; no answer says so. The same conversation always gets the same answer. What it cannot do it
says.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import TYPE_CHECKING

from perdure.agent.aside import in_thread
from perdure.agent.models import OFFLINE, Finished, Model, Piece, Request, Sent, Usage
from perdure.agent.models.offline.inquiry import Call, Plan, Turn, last_turn, pursue
from perdure.agent.tokens import of_message, of_text
from perdure.session.entry import Assistant, Text, ToolCall, User
from perdure.session.record import dumps

if TYPE_CHECKING:
    from perdure.agent.models.offline.question import Question

_NAME = "The built-in `offline` model answers: no language model, but a program that "
_A_REAL_ONE = (
    "For a real one, `export ANTHROPIC_API_KEY=…` (or `OPENAI_API_KEY`, `GEMINI_API_KEY`, `OLLAMA_HOST`): "
    "`pi models` lists what there is, `-m` chooses."
)
NOTICE = f"{_NAME}searches this folder with real tools and does not think. {_A_REAL_ONE}"
NOTICE_WITHOUT_TOOLS = f"{_NAME}follows rules and does not think. {_A_REAL_ONE}"
WITHOUT_TOOLS = "I have no tools here to find an answer with; this takes a language model."
WHAT_IT_CAN = """\
I can answer a few kinds of questions about the files here:

- `explain this code`, `explain src/main.py`, `what is SessionManager`
- `find TODO`, `where is main defined`, `who calls parse`, `find files named *.toml`
- `read README.md`, `list src`"""
_CHANGES = "Changing, judging or writing code takes a language model; this program only finds and shows."
_COMMANDS = (
    "I do not run commands: without a model, nobody judges what they would do. Run it yourself in a shell."
)
_TAKES = {
    **dict.fromkeys(("search", "defined", "callers", "topic"), ("Looking for something", "grep", "find")),
    **dict.fromkeys(("count", "tests"), ("Counting files", "find")),
    "files": ("Finding files", "find"),
    "read": ("Reading a file", "read"),
    "list": ("Listing a folder", "ls"),
    "path": ("Looking at a file or a folder", "read", "ls"),
}
"""What a kind of question is about, and the tools of which it needs at least one."""


class Offline:
    def __init__(
        self,
        model: Model,
        notice: Callable[[str], None] = lambda _: None,
        answer: Callable[[], str] | None = None,
    ) -> None:
        """`notice` is called before the first answer of a conversation, with what the user should know. A
        program may have an `answer` of its own, made by rules of its own, where there are no tools."""
        self._model = model
        self._notice = notice
        self._own_answer = answer

    @property
    def model(self) -> Model:
        return self._model

    async def stream(self, request: Request) -> AsyncIterator[Piece | Finished]:
        if _is_first_answer(request):
            self._notice(NOTICE if request.tools else NOTICE_WITHOUT_TOOLS)
        if self._own_answer is None or request.tools or _is_for_summary(_question(request)):
            answer = respond(request)
        else:
            answer = await in_thread(self._own_answer)
        if isinstance(answer, str):
            text = answer.encode("utf-8", "replace").decode()
            for line in text.splitlines(keepends=True):
                yield Piece(0, "text", line)
            yield Finished("stop", _usage(request, Assistant([Text(text)])))
            return
        calls = [
            ToolCall(_call_id(request, at, call), call.name, call.arguments) for at, call in enumerate(answer)
        ]
        for index, call in enumerate(calls):
            yield Piece(index, "toolCall", dumps(call.arguments).decode(), call.id, call.name)
        yield Finished("toolUse", _usage(request, Assistant([*calls])))


def _is_first_answer(request: Request) -> bool:
    """Whether none of the answers that are sent back is this model's. A summary is no answer."""
    has_answered = any(isinstance(each, Assistant) and each.provider == OFFLINE for each in request.messages)
    return not has_answered and not _is_for_summary(_question(request))


def _question(request: Request) -> str:
    return last_turn(request.messages).question


def _is_for_summary(text: str) -> bool:
    if "</conversation>" not in text:
        return False
    from perdure.agent.models.offline import summary

    return summary.is_request(text)


def respond(request: Request) -> list[Call] | str:
    """The calls to make next, or the answer."""
    turn = last_turn(request.messages)
    if "</conversation>" in turn.question or "</summary>" in turn.question:
        from perdure.agent.models.offline import summary

        if _is_for_summary(turn.question):
            return summary.requested(turn.question)
        if resumed := summary.last_request(turn.question):
            turn = turn._replace(question=resumed)  # the turn was condensed while it was under way
    return _answer(turn, request)


def _answer(turn: Turn, request: Request) -> list[Call] | str:
    from perdure.agent.models.offline.question import question

    asked = question(turn.question)
    tools = frozenset(tool.name for tool in request.tools)
    if asked.kind == "title":
        return _title(request.messages)
    if asked.kind == "recap":
        from perdure.agent.models.offline import summary
        from perdure.agent.transcript import render

        recap = summary.requested(render(turn.before)) if turn.before else "Nothing has been said yet."
        return _paragraphs(recap)
    if asked.kind == "stopped":
        from perdure.agent.models.offline import summary

        return _paragraphs(summary.where_it_stopped(turn.before))
    if not tools:
        return _paragraphs(WITHOUT_TOOLS)
    match asked.kind:
        case "run":
            return _paragraphs(_COMMANDS)
        case "change":
            return _paragraphs(_CHANGES, WHAT_IT_CAN)
        case "help":
            return _paragraphs(WHAT_IT_CAN)
        case "unclear":
            return _paragraphs(
                f"I do not know what `{asked.subject}` is: I read each question by itself. "
                'Say its name, as in `where is main defined`, or put text in quotes, as in `find "this"`.'
            )
        case "survey" if asked.attached:
            from perdure.agent.models.offline.outline import of_text

            if told := of_text(asked.attached):
                return _paragraphs(told)
    doing, *takes = _TAKES.get(asked.kind, ("",))
    if takes and tools.isdisjoint(takes):
        either = " or ".join(f"`{name}`" for name in takes)
        return _paragraphs(f"{doing} takes {either}; this session has no such tool.")
    found = pursue(_plan(asked, tools), turn, tools)
    if not isinstance(found, str):
        return found
    return _paragraphs(*([f"I write only English, no {asked.tongue}."] if asked.tongue else []), found)


def _plan(asked: Question, tools: Collection[str]) -> Plan:
    from perdure.agent.models.offline import search
    from perdure.agent.models.offline.survey import counts, survey

    match asked.kind:
        case "survey":
            return survey("", tools)
        case "count" | "tests":
            return counts(only_tests=asked.kind == "tests")
        case "path":
            folder = asked.path.rstrip("/") or "/"
            return search.named(asked, tools, survey("" if folder == "." else folder, tools))
        case "topic":
            return search.topic(asked, tools, lambda folder: survey(folder, tools))
        case "files":
            return search.files(asked)
        case "read":
            return search.show(asked)
        case "list":
            return search.listing(asked)
        case _:
            return search.search(asked, tools)


def _paragraphs(*parts: str) -> str:
    return "\n\n".join(parts) + "\n"


def _title(messages: Sequence[Sent]) -> str:
    """What the conversation was begun with."""
    first = next((message.text for message in messages if isinstance(message, User)), "")
    if "</summary>" in first and (goal := re.search(r"## Goal\n(?:[-*] )?(.+)", first)):
        first = goal[1]
    line = " ".join(first.split())
    return line if len(line) <= 60 else line[:59].rsplit(" ", 1)[0] + "…"


def _call_id(request: Request, index: int, call: Call) -> str:
    """Nine letters and digits, which every provider takes back: another model may go on with this session."""
    from hashlib import blake2b

    place = f"{request.session_id} {len(request.messages)} {index} {_asked_at(request.messages)} {call.key}"
    number = int.from_bytes(blake2b(place.encode("utf-8", "replace"), digest_size=8).digest(), "big")
    letters = "0123456789abcdefghijklmnopqrstuvwxyz"
    return "".join(letters[number // 36**power % 36] for power in range(9))


def _asked_at(messages: Sequence[Sent]) -> float:
    return next((message.timestamp for message in reversed(messages) if isinstance(message, User)), 0)


def _usage(request: Request, answer: Assistant) -> Usage:
    beside = of_text(request.system) + of_text(dumps(request.tools).decode())
    return Usage(sum(map(of_message, request.messages)) + beside, of_message(answer))
