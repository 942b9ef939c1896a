"""kill -9 in a tool turn, at some points of it, and at all of them with `make crash`: what was told is there,
and whatever is left, the request that resumes it is one that each provider takes, of a model that goes on
with its own answers as of one that takes over. The stored bytes stay."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, structs

from perdure import registry
from perdure.agent.agent import Agent
from perdure.agent.compaction import NoCompaction
from perdure.agent.events import MessageEnd
from perdure.agent.loop import Bench
from perdure.agent.model_choice import Voice
from perdure.agent.models import APIS, Model, Request
from perdure.agent.settings import Retry
from perdure.agent.tools import AgentToolResult, Tool
from perdure.session.context import INTERRUPTED
from perdure.session.entry import Assistant, Thinking, ToolCall, ToolResult, text_of
from perdure.session.session import Session
from perdure.testing import ScriptedModel
from tests.agent.models.schemas import accepts
from tests.crash.killing import LAYOUTS, Child, Report, alone, share, store_in

pytestmark = pytest.mark.process

REPLIES: Any = (
    [
        Thinking("hmm", "signed"),
        "let me see",
        ToolCall("call_1", "echo", {"text": "x"}),
        ToolCall("call_2", "echo", {}),
    ],
    ["once more", ToolCall("call_3", "echo", {"text": "y"})],
    "done",
)


class Said(Struct):
    text: str = ""


def test_r20_a_turn_killed_anywhere_resumes_with_a_request_that_providers_take(tmp_path):
    """After any event, before and after any append, and inside a tool."""
    for layout, result in alone(kill_everywhere, home=str(tmp_path)).items():
        print(f"{layout}: {result['tried']} of {result['points']} points")
        assert result["points"] > 60
        assert result["unanswered"] > 0  # some kills did leave calls without results
        if result["wrong"]:
            shown = "\n".join(result["wrong"][:10])
            pytest.fail(f"{layout}, {len(result['wrong'])} of them:\n{shown}", pytrace=False)


class Points:
    """Counts the moments of a run, and ends the process at one of them."""

    def __init__(self, fatal: int) -> None:
        self.passed = 0
        self._fatal = fatal

    def __call__(self) -> None:
        self.passed += 1
        if self.passed == self._fatal:
            os.kill(os.getpid(), signal.SIGKILL)


def kill_everywhere(home: str) -> dict[str, Any]:
    """All layouts in one process: the SDKs, whose types say what providers take, are slow to load."""
    return {layout: _kill_everywhere(Path(home, layout), layout) for layout in LAYOUTS}


def _kill_everywhere(home: Path, layout: str) -> dict[str, Any]:
    home.mkdir()
    whole = _killed(Path(home, "whole"), layout, 0)
    points = whole["passed"]
    step = max(1, points // share(33, points, layout))
    wrong: list[str] = []
    unanswered = 0
    tried = range(1, points + 1, step)
    for point in tried:
        folder = Path(home, str(point))
        left = _killed(folder, layout, point)
        problems, was_unanswered = _looked_at(folder, layout, left["told"])
        unanswered += was_unanswered
        wrong += [f"point {point}: {problem}" for problem in problems]
    return {"points": points, "tried": len(tried), "wrong": wrong, "unanswered": unanswered}


def _killed(folder: Path, layout: str, fatal: int) -> dict[str, Any]:
    """A conversation that dies at this point; how many messages it had told of as kept."""
    folder.mkdir()
    with Child(lambda report: _talk(folder, layout, Points(fatal), report)) as child:
        code = child.wait()
        reports = child.heard()
    assert code == (-signal.SIGKILL if fatal else 0), reports
    told = [report for report in reports if isinstance(report, str)]
    return {"told": told, "passed": fatal or reports[-1]["passed"]}


def _talk(folder: Path, layout: str, point: Callable[[], None], report: Report) -> None:
    async def echo(args: Said, ctx: Any) -> AgentToolResult:
        point()
        return AgentToolResult(f"said {args.text}")

    async def talk() -> None:
        with Session.create(store_in(str(folder), layout, "process")) as session:
            append = session.append

            def watched(*bodies: Any) -> Any:
                point()
                made = append(*bodies)
                point()
                return made

            session.append = watched  # type: ignore[method-assign]
            agent = _agent(session, ScriptedModel(*REPLIES), echo)
            async with aclosing(agent.send("hello")) as events:
                async for event in events:
                    if isinstance(event, MessageEnd):
                        report(text_of(event.message.content))
                    point()

    asyncio.run(talk())
    report({"passed": point.passed})  # type: ignore[attr-defined]


def _agent(session: Session, model: ScriptedModel, echo: Any) -> Agent:
    bench = Bench({"echo": Tool("echo", "Says it again.", Said, echo)}, "/", {})
    return Agent(
        session,
        Voice(model, "high"),
        bench,
        system="be brief",
        strategy=NoCompaction(),
        retry=Retry(enabled=False),
    )


def _looked_at(folder: Path, layout: str, told: list[str]) -> tuple[list[str], bool]:
    store = store_in(str(folder), layout, "process")
    before = _bytes(folder)
    (ref,) = store.list()
    view = Session.view(store, ref)
    kept = [text_of(e.body.message.content) for e in view.path() if e.type == "message"]  # type: ignore[union-attr]
    problems = [f"told {told}, kept {kept}"] if kept[: len(told)] != told else []
    messages = view.context().messages
    unanswered = any(isinstance(m, ToolResult) and text_of(m.content) == INTERRUPTED for m in messages)
    if _bytes(folder) != before:
        problems.append("looking at it changed it")
    model = ScriptedModel("fine")
    problems += _resumed(store, ref, before, folder, model)
    (request,) = model.requests
    return [*problems, *(problem for api in APIS for problem in _refused(api, request))], unanswered


def _refused(api: str, request: Request) -> list[str]:
    """What a provider would not take of it: asked for a model that made the answers, and for another."""
    model = Model(id="m", provider="p", api=api, base_url="http://localhost/v1", reasoning=True)
    own = [
        structs.replace(message, api=api, provider="p", model="m")
        if isinstance(message, Assistant)
        else message
        for message in request.messages
    ]
    problems = []
    for who, messages in (("its own", own), ("another's", request.messages)):
        asked = structs.replace(request, messages=messages)
        body = registry.load(APIS[api])().call(model, asked, "key").body
        problems += [f"{api}, {who} answers: {problem}" for problem in accepts(api, body)]
    return problems


def _resumed(store: Any, ref: Any, before: dict[str, bytes], folder: Path, model: ScriptedModel) -> list[str]:
    """It goes on, runs nothing again, and what was there stays."""
    ran = []

    async def echo(args: Said, ctx: Any) -> AgentToolResult:
        ran.append(args.text)
        return AgentToolResult("")

    async def talk() -> None:
        with Session.open(store, ref) as session:
            async with aclosing(_agent(session, model, echo).send("go on")) as events:
                async for _ in events:
                    pass

    was = [entry.raw for entry in Session.view(store, ref).path()]
    asyncio.run(talk())
    path = Session.view(store, ref).path()
    problems = [f"it ran {ran} again"] if ran else []
    if path[-1].text != "fine":
        problems.append("it did not go on")
    if [entry.raw for entry in path[: len(was)]] != was:
        problems.append("what was there has changed")
    after = _bytes(folder)
    for name, data in before.items():
        if name.endswith(".jsonl") and not after[name].startswith(data.rpartition(b"\n")[0]):
            problems.append(f"{name} was not only appended to")
    return problems


def _bytes(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file() and "lock" not in path.name]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
