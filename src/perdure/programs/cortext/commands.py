"""What `cortext` can be called with, in one table; see `perdure.front.commands`."""

from __future__ import annotations

from perdure.front.commands import JSON, MAX_COST, MODEL, Argument, Command

FIRST_PROMPT: dict[str, tuple[str, ...]] = {
    "claude": (),
    "codex": (),
    "gemini": ("-i",),
    "opencode": ("--prompt",),
}
"""Other AI tools, and what stands before the first prompt of one that then goes on to talk."""
TOOLS = ("builtin", *FIRST_PROMPT)
STATUSES = ("active", "paused", "completed")
_TYPE = Argument(
    "--type",
    "only those of this type",
    default="",
    metavar="T",
    completes="names:perdure.programs.cortext.workspace:types_here",
)
_STATUS = Argument(
    "--status", f"only those with this status: {', '.join(STATUSES)}", choices=STATUSES, metavar="S"
)

_NO_COMMIT = Argument("--no-commit", "save conversations, and commit none of them in this run", "flag", False)

ALONE = Command(
    "",
    "perdure.programs.cortext.talk:alone",
    "a shell in which conversations are begun, resumed and completed",
    (MODEL, MAX_COST, _NO_COMMIT),
    ("cortext",),
)
COMMANDS = {
    command.name: command
    for command in (
        Command(
            "init",
            "perdure.programs.cortext.making:init",
            "make a folder a workspace",
            (
                Argument(
                    "folder",
                    "which folder (default: this one)",
                    default=None,
                    metavar="DIR",
                    optional=True,
                    completes="file",
                ),
                Argument("--no-commit", "its conversations are saved, and not committed", "flag", False),
            ),
            ("cortext init", "cortext init notes"),
        ),
        Command(
            "start",
            "perdure.programs.cortext.talk:start",
            "begin a conversation of a type",
            (
                Argument(
                    "type",
                    "brainstorm, debug, plan, learn, meeting, review, projectmanage, or one of your own",
                    metavar="TYPE",
                    completes="names:perdure.programs.cortext.workspace:types_here",
                ),
                Argument("title", "what it is about", metavar="TITLE", many=True),
                MODEL,
                MAX_COST,
                _NO_COMMIT,
            ),
            ("cortext start brainstorm API design", "cortext start debug 'Tokens expire too early'"),
        ),
        Command(
            "resume",
            "perdure.programs.cortext.listing:resume",
            "go on with a conversation, by its id or by words in it",
            (
                Argument(
                    "text",
                    "its number in the list, its id, or words in its title, summary or messages",
                    default=(),
                    metavar="ID|TEXT",
                    many=True,
                    optional=True,
                    completes="id:cortext",
                ),
                Argument(
                    "--list",
                    "show what can be resumed, or what of it TEXT finds; resume nothing",
                    "flag",
                    False,
                ),
                _TYPE,
                _STATUS,
                Argument(
                    "--tool",
                    f"who goes on with it: {', '.join(TOOLS)}",
                    choices=TOOLS,
                    metavar="NAME",
                ),
                Argument("--force", "also if it was marked complete", "flag", False),
                MODEL,
                MAX_COST,
                _NO_COMMIT,
                JSON,
            ),
            (
                "cortext resume --list",
                "cortext resume 001-brainstorm-api-design",
                "cortext resume api design --tool claude",
            ),
        ),
        Command(
            "list",
            "perdure.programs.cortext.listing:conversations",
            "list all conversations of the workspace, the last active first",
            (_TYPE, _STATUS, JSON),
            ("cortext list", "cortext list --type plan --status paused"),
        ),
    )
}
