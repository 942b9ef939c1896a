"""An MCP server's tools as ours: what they are called, what they take, and what they answer."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from perdure.agent.mcp.schema import Unusable, parameters
from perdure.agent.models.history import sound
from perdure.agent.tools import AgentToolResult, Tool, ToolContext
from perdure.agent.tools.read import LARGEST_IMAGE, image_kind
from perdure.session.entry import Image, Text

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult, ContentBlock, InputRequiredResult
    from mcp_types import Tool as TheirTool
    from pydantic import TypeAdapter

    Call = Callable[[str, Mapping[str, str], dict[str, object], ToolContext], Awaitable[AgentToolResult]]

_MOST_PAGES = 100
_MOST_TOOLS = 1_000
_LONGEST_NAME = 64
_LONGEST_START = 30  # of which the server's own name
_LONGEST_DESCRIPTION = 4 * 1024
_LONGEST_LINE = 200
_MOST_PARTS = 1_000
_SNIFFED = 512
_NAMED = 3  # of a list
_BETWEEN_UPDATES = 0.1  # seconds; a server may tell of its progress as often as it likes
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


# --- the tools ---------------------------------------------------------------------------------------


async def listed(client: Client) -> tuple[list[TheirTool], bool]:
    """The server's tools, and whether these are all of them."""
    from mcp import MCPError
    from mcp_types import METHOD_NOT_FOUND

    found: list[TheirTool] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        try:
            page = await client.list_tools(cursor=cursor)
        except MCPError as error:
            if error.code == METHOD_NOT_FOUND:
                return found, True  # it has other things to offer
            raise
        found += page.tools
        cursor = page.next_cursor
        if not cursor or len(found) > _MOST_TOOLS:
            break
    return found[:_MOST_TOOLS], not cursor and len(found) <= _MOST_TOOLS


def made(server: str, found: Iterable[TheirTool], call: Call) -> tuple[list[Tool], list[str]]:
    """Tools of ours, and which of theirs cannot be used, with the reason. None of them is read-only, whatever
    its server says of it: a hint that is wrong would let calls run at once that disturb one another."""
    tools, unusable = [], []
    for theirs in found:
        try:
            schema, names = parameters(theirs.input_schema)
        except Unusable as error:
            unusable.append(f"{one_line(theirs.name, _LONGEST_NAME)} ({one_line(str(error))})")
        else:
            run = partial(call, theirs.name, names)
            tools.append(Tool(tool_name(server, theirs.name), _description(theirs), schema, run))
    return tools, unusable


def tool_name(server: str, tool: str) -> str:
    """As every provider takes it: letters, digits, `_` and `-`, not too many, no digit first. Those of one
    server all begin with that of an empty name."""
    start = _cut(re.sub(r"^(?=[^A-Za-z_])", "_", server), _LONGEST_START)
    return _cut(f"{start}_{tool}", _LONGEST_NAME)


def _cut(text: str, most: int) -> str:
    name = re.sub(r"[^A-Za-z0-9_-]", "_", text)
    if len(name) <= most:
        return name
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{name[: most - 9]}_{mark}"


def _description(tool: TheirTool) -> str:
    title = tool.title or (tool.annotations.title if tool.annotations else None)
    return (tool.description or title or tool.name)[:_LONGEST_DESCRIPTION]


# --- their answers -----------------------------------------------------------------------------------


async def answer(
    client: Client, tool: str, arguments: Mapping[str, object], update: Callable[[AgentToolResult], None]
) -> AgentToolResult:
    """Not by the client's `call_tool`, which refuses what is not as the server's own schema for it says: a
    model can read that all the same."""
    from mcp_types import CallToolRequest, CallToolRequestParams, InputRequiredResult

    request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=sound({**arguments})))
    found = await client.session.send_request(request, _answer_type(), progress_callback=_Progress(update))
    if isinstance(found, InputRequiredResult):
        return AgentToolResult(f"{tool} asks its user for more, which is not possible here", is_error=True)
    return _result(found)


@cache
def _answer_type() -> TypeAdapter[CallToolResult | InputRequiredResult]:
    from mcp_types import CallToolResult, InputRequiredResult
    from pydantic import TypeAdapter

    return TypeAdapter(CallToolResult | InputRequiredResult)


class _Progress:
    def __init__(self, update: Callable[[AgentToolResult], None]) -> None:
        self._update = update
        self._next = 0.0

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        if (now := time.monotonic()) < self._next:
            return
        self._next = now + _BETWEEN_UPDATES
        how_far = f"{progress:g}/{total:g}" if total is not None else f"{progress:g}"
        self._update(AgentToolResult(one_line(f"{how_far} {message or ''}")))


def _result(found: CallToolResult) -> AgentToolResult:
    """Text and images as they are; of anything else, what it was."""
    blocks = [block for part in found.content[:_MOST_PARTS] if (block := _block(part)) is not None]
    if (more := len(found.content) - _MOST_PARTS) > 0:
        blocks.append(Text(f"[{more:,} more parts are left out]"))
    if not blocks and found.structured_content is not None:
        blocks = [Text(json.dumps(found.structured_content, ensure_ascii=False))]
    return AgentToolResult(blocks or "(no content)", is_error=found.is_error)


def _block(part: ContentBlock) -> Text | Image | None:
    """None for an empty text, which some providers refuse."""
    from mcp_types import TextResourceContents

    match part.type:
        case "text":
            return Text(part.text) if part.text else None
        case "image":
            return _image(part.data, part.mime_type)
        case "audio":
            return Text(f"[{_what(part.mime_type, part.data)}, which cannot be heard here]")
        case "resource_link":
            return Text(f"{part.title or part.name}: {part.uri}")
        case "resource":
            found = part.resource
            if isinstance(found, TextResourceContents):
                return Text(f"{found.uri}:\n{found.text}")
            return Text(f"[{found.uri}: {_what(found.mime_type or 'binary data', found.blob)}]")


def _image(data: str, kind: str) -> Text | Image:
    """By what it is, whatever it is called."""
    found = None
    if _size(data) <= LARGEST_IMAGE:
        try:
            found = image_kind(base64.b64decode(data, validate=True)[:_SNIFFED])
        except (binascii.Error, ValueError):
            pass
    return Image(data, found) if found else Text(f"[{_what(kind, data)}, which cannot be shown]")


def _what(kind: str, data: str) -> str:
    return f"{one_line(kind)}, {_size(data):,} bytes"


def _size(data: str) -> int:
    """Of what is encoded here."""
    return len(data) * 3 // 4 - data[-2:].count("=")


# --- words -------------------------------------------------------------------------------------------


def is_cut_off(error: BaseException) -> bool:
    """Whether it is only that the connection has ended."""
    from mcp import MCPError
    from mcp_types import CONNECTION_CLOSED

    error = _innermost(error)
    return isinstance(error, MCPError) and error.code == CONNECTION_CLOSED


def words(error: BaseException) -> str:
    """What went wrong, without what was sent."""
    from mcp import MCPError
    from pydantic import ValidationError

    error = _innermost(error)
    if isinstance(error, ValidationError):
        first: Any = error.errors(include_url=False, include_input=False)[0]
        return f"it sent what is not MCP: {'.'.join(map(str, first['loc']))}: {first['msg']}"
    return error.message if isinstance(error, MCPError) else str(error) or type(error).__name__


def _innermost(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def one_line(text: str, most: int = _LONGEST_LINE) -> str:
    """Bounded, and without what a terminal would obey."""
    plain = _COLOUR.sub("", text[: 10 * most])
    flat = " ".join("".join(each if each.isprintable() else " " for each in plain).split())
    return flat if len(flat) <= most else f"{flat[:most]}…"
