"""Notes of a project that outlive the conversation: the model takes them, `/notes` shows them.

All of the door but a provider is used once: a tool, a prompt, a command, what stands before and behind tools,
and a listener.
"""

import os
import sys
from typing import Annotated

from msgspec import Meta, Struct, structs

from perdure import AgentToolResult, Tool

FILE = "NOTES.md"


class Note(Struct):
    text: Annotated[str, Meta(description="One sentence that will be true next month.", max_length=500)]


def remember(args: Note, ctx) -> str:
    with open(ctx.path(FILE), "a", encoding="utf-8") as file:
        file.write(f"- {' '.join(args.text.split())}\n")
    return "Noted."


def notes(arguments: str, ctx) -> str | None:
    """show the project's notes; with a question, ask it about them"""
    path = os.path.join(ctx.cwd, FILE)
    text = open(path, encoding="utf-8").read() if os.path.exists(path) else ""
    if arguments:
        return f"These are my notes:\n\n{text}\n{arguments}"  # said to the model
    ctx.show(text.rstrip() or "There are no notes yet.")  # shown to the user
    return None


def register(api) -> None:
    api.tool(Tool("remember", "Take a note that later conversations will read.", Note, remember))
    api.prompt(f"{FILE} holds what earlier conversations found out. Read it first if it is there.")
    api.command("notes", notes)

    @api.before_tool
    def only_by_remember(call):
        """Notes are added to, and never rewritten."""
        if call.name in ("write", "edit") and os.path.basename(str(call.arguments.get("path"))) == FILE:
            return AgentToolResult(f"{FILE} is written by `remember` alone.", is_error=True)
        return call

    @api.after_tool
    def remind(call, result):
        """Whoever reads the notes is told how to add to them."""
        if call.name == "read" and os.path.basename(str(call.arguments.get("path"))) == FILE:
            return structs.replace(result, content=f"{result.text}\n[`remember` adds to these notes.]")
        return result

    def say_what_was_noted(event) -> None:
        results = [each for each in event.messages if getattr(each, "tool_name", "") == "remember"]
        taken = sum(not each.is_error for each in results)
        if taken:
            print(f"{taken} more in {FILE}", file=sys.stderr)  # stdout is for the answer

    api.on("agent_end", say_what_was_noted)
