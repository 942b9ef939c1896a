"""Conversations with the offline model, through real tools in a real folder."""

import asyncio
import os
import re

from perdure.agent.draft import Draft
from perdure.agent.models import OFFLINE, Finished, Model, Request
from perdure.agent.models.offline import Offline
from perdure.agent.models.offline.inquiry import MOST_ROUNDS
from perdure.agent.tools import BUILT_IN, ToolContext, checked
from perdure.registry import load
from perdure.session.entry import ToolCall, ToolResult, User

MODEL = Offline(Model(id=OFFLINE, provider=OFFLINE, api=OFFLINE))
TOOLS = {name: load(where) for name, where in BUILT_IN.items()}
LOOKING = ("read", "grep", "find", "ls")


async def answer(messages, names=LOOKING):
    """One answer, as the loop makes it of the pieces."""
    draft = Draft(MODEL.model, 0)
    async for piece in MODEL.stream(Request(messages=messages, tools=[TOOLS[name].spec for name in names])):
        if isinstance(piece, Finished):
            return draft.finished(piece)
        draft.add(piece)
    raise AssertionError("it broke off")


def calls(message):
    return [block for block in message.content if isinstance(block, ToolCall)]


async def ran(call, cwd):
    tool = TOOLS[call.name]
    return await tool.run(checked(tool, call.arguments), ToolContext(str(cwd), call.id, {**os.environ}))


async def conversation(cwd, text, names, run, before):
    messages = [*before, User(text)]
    for _ in range(MOST_ROUNDS + 2):
        messages.append(await answer(messages, names))
        if not calls(messages[-1]):
            return messages
        for call in calls(messages[-1]):
            result = await run(call, cwd)
            messages.append(ToolResult(call.id, call.name, list(result.content), is_error=result.is_error))
    raise AssertionError("it never answered")


def talk(cwd, text, names=LOOKING, *, run=ran, before=()):
    """The whole conversation about one question, with real tools."""
    return asyncio.run(conversation(cwd, text, names, run, before))


def said(cwd, text, names=LOOKING, **options):
    message = talk(cwd, text, names, **options)[-1]
    return "".join(block.text for block in message.content)


def folder(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return root


def places(text):
    """Every `file:line` with the name that is said to be defined there."""
    return re.findall(r"^- `([^`]+):(\d+)` \S+ `([^`]+)`", text, re.M)
