"""The model that is always there: no network, no weights, and no pretence of either.

It is a program that answers a few kinds of questions about a folder, through the same tools and the same loop
as any model; it reads nothing by itself. The first line of an answer says what it is, and how to get a real
model. The same conversation always gets the same answer. What it cannot do it says.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from typing import TYPE_CHECKING

from perdure.agent.models import Finished, Model, Piece, Request, Sent, Usage
from perdure.agent.models.offline.inquiry import Call, Plan, Turn, last_turn, pursue
from perdure.session.entry import Assistant, ToolCall, User, text_of
from perdure.session.record import dumps

if TYPE_CHECKING:
    from perdure.agent.models.offline.question import Question
    from perdure.agent.models.offline.summary import Said

WHAT_IT_IS = (
    "This is the built-in `offline` model: no language model, but a program that searches this folder with "
    "real tools and does not think. For a real one, `export ANTHROPIC_API_KEY=…` (or `OPENAI_API_KEY`, "
    "`GEMINI_API_KEY`, `OLLAMA_HOST`) and choose it with `pi models`."
)
WHAT_IT_CAN = """\
I can answer a few kinds of questions about the files here:

- `explain this code`, `explain src/main.py`, `what is SessionManager`
- `find TODO`, `where is main defined`, `who calls parse`, `find files named *.toml`
- `read README.md`, `list src`"""
_CHANGES = "Changing, judging or writing code takes a language model; this program only finds and shows."
_COMMANDS = (
    "I do not run commands: without a model, nobody judges what they would do. Run it yourself in a shell."
)


class Offline:
    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def model(self) -> Model:
        return self._model

    async def stream(self, request: Request) -> AsyncIterator[Piece | Finished]:
        answer = respond(request)
        sent = _size(request)
        if isinstance(answer, str):
            text = answer.encode("utf-8", "replace").decode()
            for line in text.splitlines(keepends=True):
                yield Piece(0, "text", line)
            yield Finished("stop", Usage(_tokens(sent), _tokens(len(text))))
            return
        written = 0
        for index, call in enumerate(answer):
            arguments = dumps(call.arguments).decode("utf-8", "replace")
            written += len(arguments)
            yield Piece(index, "toolCall", arguments, _call_id(request, index, call), call.name)
        yield Finished("toolUse", Usage(_tokens(sent), _tokens(written)))


def respond(request: Request) -> list[Call] | str:
    """The calls to make next, or the answer."""
    turn = last_turn(request.messages)
    if "</conversation>" in turn.question or "</summary>" in turn.question:
        from perdure.agent.models.offline import summary

        if summary.is_request(turn.question):
            return summary.requested(turn.question)
        if resumed := summary.last_request(turn.question):
            turn = turn._replace(question=resumed)  # the turn was condensed while it was under way
    return _answer(turn, request)


def _answer(turn: Turn, request: Request) -> list[Call] | str:
    from perdure.agent.models.offline.question import question

    asked = question(turn.question)
    tools = frozenset(tool.name for tool in request.tools)
    match asked.kind:
        case "title":
            return _title(request.messages)
        case "recap":
            from perdure.agent.models.offline import summary

            said = _said(request.messages)
            return _honestly(summary.summary(said) if said else "Nothing has been said yet.")
        case "run":
            return _honestly(_COMMANDS)
        case "change":
            return _honestly(_CHANGES, WHAT_IT_CAN)
        case "help":
            return _honestly(WHAT_IT_CAN)
        case "unclear":
            return _honestly(
                f"I do not know what `{asked.subject}` is: I read each question by itself. "
                'Say its name, as in `where is main defined`, or put text in quotes, as in `find "this"`.'
            )
        case "survey" if asked.attached:
            from perdure.agent.models.offline.outline import of_text

            if told := of_text(asked.attached):
                return _honestly(told)
    if not tools:
        return _honestly(
            "This session has no tools, so I cannot look at any file: start it without `--no-tools`."
        )
    found = pursue(_plan(asked, tools), turn, tools)
    if not isinstance(found, str):
        return found
    return _honestly(*([f"I write only English, no {asked.tongue}."] if asked.tongue else []), found)


def _plan(asked: Question, tools: Collection[str]) -> Plan:
    from perdure.agent.models.offline import search
    from perdure.agent.models.offline.survey import counts, survey

    match asked.kind:
        case "survey":
            return survey("", tools)
        case "count" | "tests":
            return counts(tools, only_tests=asked.kind == "tests")
        case "path":
            folder = asked.path.rstrip("/") or "/"
            return search.named(asked, tools, survey("" if folder == "." else folder, tools))
        case "topic":
            return search.topic(asked, tools, lambda folder: survey(folder, tools))
        case "files":
            return search.files(asked, tools)
        case "read":
            return search.show(asked, tools)
        case "list":
            return search.listing(asked, tools)
        case _:
            return search.search(asked, tools)


def _honestly(*parts: str) -> str:
    return "\n\n".join([WHAT_IT_IS, *parts]) + "\n"


def _title(messages: Sequence[Sent]) -> str:
    """What the conversation was begun with."""
    first = next((text_of(message.content) for message in messages if isinstance(message, User)), "")
    line = " ".join(first.split())
    return line if len(line) <= 60 else line[:59].rsplit(" ", 1)[0] + "…"


def _said(messages: Sequence[Sent]) -> list[Said]:
    """The conversation before its last question."""
    from perdure.agent.models.offline.summary import Said

    last = max((at for at, message in enumerate(messages) if isinstance(message, User)), default=0)
    found = []
    for message in messages[:last]:
        if isinstance(message, Assistant) and not isinstance(message.content, str):
            calls = [block for block in message.content if isinstance(block, ToolCall)]
            told = "; ".join(f"{call.name}({dumps(call.arguments).decode()})" for call in calls)
            found += [Said("Assistant tool calls", told)] if told else []
        who = (
            "User"
            if isinstance(message, User)
            else "Assistant"
            if isinstance(message, Assistant)
            else "Tool result"
        )
        if text := text_of(message.content):
            found.append(Said(who, text))
    return found


def _call_id(request: Request, index: int, call: Call) -> str:
    """Nine letters and digits, which every provider takes back: another model may go on with this session."""
    from hashlib import blake2b

    place = f"{request.session_id} {len(request.messages)} {index} {_asked_at(request.messages)} {call.key}"
    number = int.from_bytes(blake2b(place.encode("utf-8", "replace"), digest_size=8).digest(), "big")
    letters = "0123456789abcdefghijklmnopqrstuvwxyz"
    return "".join(letters[number // 36**power % 36] for power in range(9))


def _asked_at(messages: Sequence[Sent]) -> float:
    return next((message.timestamp for message in reversed(messages) if isinstance(message, User)), 0)


def _size(request: Request) -> int:
    said = sum(len(text_of(message.content)) for message in request.messages)
    return len(request.system) + said


def _tokens(characters: int) -> int:
    return -(-characters // 4)
