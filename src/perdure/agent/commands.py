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
        elif isinstance(event, CompactionEnd) and event.aborted:
            ctx.show("Not condensed: it was stopped.")


async def name(arguments: str, ctx: CommandContext) -> None:
    if not arguments.strip():
        raise UsageError("/name needs a name", "as in /name the parser bug")
    called = arguments.strip()
    is_new = ctx.session.session.is_empty
    await ctx.session.rename(called)
    when = "will be called {!r} when something is said in it" if is_new else "is called {!r} now"
    ctx.show(f"This session {when.format(called)}.")


def help(arguments: str, ctx: CommandContext) -> None:
    commands = ctx.session.commands.values()
    widest = max(len(command.name) for command in commands)
    ctx.show("\n".join(f"/{each.name:{widest}}  {each.description}".rstrip() for each in commands))
    servers = ctx.session.servers
    more = f", and those of MCP servers: {', '.join(servers)}" if servers else ""
    ctx.show(f"\nTools: {', '.join(ctx.session.tools) or 'none'}{more}")
