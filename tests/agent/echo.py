"""A tool that does nothing but answer."""

from typing import Any

from msgspec import Struct

from perdure.agent.tools import AgentToolResult, Tool


class Said(Struct):
    text: str = ""


async def echo(args: Said, ctx: Any) -> AgentToolResult:
    return AgentToolResult(f"said {args.text}")


ECHO = Tool("echo", "Says it again.", Said, echo, is_read_only=True)
