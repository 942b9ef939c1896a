"""The commands that are always there: what somebody types as `/name`, and not for the model to read."""

from __future__ import annotations

from perdure.agent.events import CompactionEnd
from perdure.agent.extensions import Api, CommandContext
from perdure.errors import UsageError


def register(api: Api) -> None:
    api.command("compact", compact, "condense the conversation; what you add says what matters")
    api.command("name", name, "give this session a name")
    api.command("help", help, "what can be typed here")


async def compact(arguments: str, ctx: CommandContext) -> None:
    async for event in ctx.session.compact(arguments):
        if isinstance(event, CompactionEnd) and isinstance(event.result, dict):
            before = event.result["tokensBefore"]
            ctx.show(f"Condensed: it was about {before:,} tokens. All of it is still in the session.")


async def name(arguments: str, ctx: CommandContext) -> None:
    if not arguments.strip():
        raise UsageError("/name needs a name", "as in /name the parser bug")
    await ctx.session.rename(arguments.strip())
    ctx.show(f"This session is called {arguments.strip()!r} now.")


def help(arguments: str, ctx: CommandContext) -> None:
    commands = ctx.session.commands.values()
    widest = max(len(command.name) for command in commands)
    ctx.show("\n".join(f"/{each.name:{widest}}  {each.description}".rstrip() for each in commands))
