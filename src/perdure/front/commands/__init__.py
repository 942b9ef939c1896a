"""The verbs of `pi sessions`: what each is called, takes and does, in one table.

Pure data. Command lines, help and completion are made from it, and whatever else will take the same verbs. A
verb is one function in one module of this package, imported when it is called, and no module imports another:

    def ls(options, out: Output) -> int

`options` has an attribute for each argument of the table, `out` takes the answer, and the number is the exit
code: 0 done, 3 nothing found. Errors are raised.
"""

from __future__ import annotations

from collections import namedtuple

from perdure.session.layouts import LAYOUTS

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from typing import Any


class Argument(
    namedtuple(
        "Argument",
        "name help kind default choices metavar many optional completes left_out",
        defaults=("text", "", (), "", False, False, "", ""),
    )
):
    __slots__ = ()

    name: str
    """`--limit`, `-o/--output`, or, for what stands alone, `id`."""
    help: str
    kind: str
    """`flag`, `text`, `number` or `amount`, which is of dollars; `perhaps`, for an option whose text may be
    left out."""
    default: Any
    choices: tuple[str, ...]
    """All it may be, if that is known."""
    metavar: str
    """What help calls its value."""
    many: bool
    """Whether it takes all the words that are left, as a list; an option, one each time it is given."""
    optional: bool
    """Whether it may be left out, where it stands alone."""
    completes: str
    """What a shell offers for it: `id`, `id:soleur` (of one program), `deleted`, `file`, `model`, `server`,
    `names:module:attr` (of what that function tells); empty for nothing, or its choices."""
    left_out: Any
    """For `perhaps`: its value where the text is left out."""

    @property
    def attribute(self) -> str:
        """What it is called among a verb's options."""
        return self.spellings[-1].lstrip("-").replace("-", "_")

    @property
    def spellings(self) -> list[str]:
        return self.name.split("/")

    @property
    def is_option(self) -> bool:
        return self.name.startswith("-")


class Command(namedtuple("Command", "name runs summary arguments examples")):
    __slots__ = ()

    name: str
    runs: str
    """The function, as `module:attr`."""
    summary: str
    arguments: tuple[Argument, ...]
    examples: tuple[str, ...]
    """Calls as they are typed, the program as `{pi}`."""


JSON = Argument("--json", "answer with JSON, for programs", "flag", False)
MODEL = Argument(
    "-m/--model", "which model: provider/id[:thinking]; see `pi models`", metavar="MODEL", completes="model"
)
MAX_COST = Argument(
    "--max-cost",
    "ask no model any more when a conversation has cost so much since it was opened",
    "amount",
    None,
    metavar="DOLLARS",
)
_ALL = Argument("--all", "of all projects, not only of this directory", "flag", False)
_PROGRAM = Argument(
    "--program", f"only one program's: {', '.join(LAYOUTS)}", choices=(*LAYOUTS,), metavar="P"
)
_STATUSES = ("active", "interrupted", "idle", "paused", "completed", "unreadable")
_LIMIT = Argument("--limit", "show so many, the newest; 0 is all (default: 20)", "number", 20, metavar="N")
_ID = Argument(
    "id", "a session: its id, program:id, or the beginning of either", metavar="ID", completes="id"
)
_IDS = _ID._replace(name="ids", help="sessions: ids, program:id, or the beginning of either", many=True)
_ROLES = ("user", "assistant", "tool")
_FORMATS = ("md", "html", "json", *LAYOUTS)


_THINKING = ("off", "minimal", "low", "medium", "high", "xhigh")


def _verb(name: str, summary: str, arguments: tuple[Argument, ...], *examples: str) -> Command:
    return Command(name, f"perdure.front.commands.{name}:{name}", summary, (*arguments, JSON), examples)


SESSIONS = {
    command.name: command
    for command in (
        _verb(
            "ls",
            "list the sessions of this project, or all, the last active first",
            (
                _ALL,
                _PROGRAM,
                Argument(
                    "--status",
                    f"only those with this status: {', '.join(_STATUSES)}",
                    choices=_STATUSES,
                    metavar="S",
                ),
                _LIMIT,
            ),
            "{pi} sessions ls",
            "{pi} sessions ls --all --program aurora",
            "{pi} sessions ls --all --status interrupted --limit 0",
        ),
        _verb(
            "show",
            "show a conversation, or one entry of it",
            (
                _ID,
                Argument("--tree", "all branches, not only the active path", "flag", False),
                Argument("--entry", "one entry, whole", metavar="ENTRY"),
            ),
            "{pi} sessions show 5f0c",
            "{pi} sessions show pi:5f0c --tree",
        ),
        _verb(
            "search",
            'find sessions by what was said: words, "phrases", beginnings*',
            (
                Argument("query", "what to look for; all of it must be there", metavar="WORD", many=True),
                _ALL,
                _PROGRAM,
                Argument(
                    "--role", f"only what one said: {', '.join(_ROLES)}", choices=_ROLES, metavar="ROLE"
                ),
                Argument("--since", "only what is not older: 2h, 3d, 2w, 2026-01-31", metavar="WHEN"),
                _LIMIT._replace(help="show so many, the best; 0 is all (default: 20)"),
            ),
            "{pi} sessions search flaky login",
            "{pi} sessions search --all --since 2w '\"token refresh\" expir*'",
        ),
        _verb(
            "rename",
            "give a session a name",
            (_ID, Argument("name", "its new name", metavar="NAME", many=True)),
            "{pi} sessions rename 5f0c the flaky login test",
        ),
        _verb(
            "fork",
            "go on from any entry, without changing what came after it",
            (_ID, Argument("--at", "the entry to go on from (default: the last)", metavar="ENTRY")),
            "{pi} sessions fork 5f0c",
            "{pi} sessions fork 5f0c --at 9b41d0aa",
        ),
        _verb(
            "export",
            "write a session as a document, or as another program's session",
            (
                _ID,
                Argument(
                    "--to",
                    f"one of {', '.join(_FORMATS)} (default: md)",
                    default="md",
                    choices=_FORMATS,
                    metavar="FORMAT",
                ),
                Argument(
                    "-o/--output",
                    "write to this file (default: stdout, as -); for cortext, the folder to make",
                    metavar="FILE",
                    completes="file",
                ),
                Argument(
                    "--install", "put it where that program keeps its sessions, to go on there", "flag", False
                ),
                Argument("--redact", "mask what looks like a key, a token or a password", "flag", False),
            ),
            "{pi} sessions export 5f0c > talk.md",
            "{pi} sessions export 5f0c --to html -o talk.html --redact",
            "{pi} sessions export 5f0c --to aurora --install",
        ),
        _verb(
            "rm",
            "delete sessions; they go to the trash",
            (_IDS,),
            "{pi} sessions rm 5f0c 81ad",
        ),
        _verb(
            "trash",
            "list what was deleted, or empty the trash",
            (
                Argument("--empty", "delete for good what is there", "flag", False),
                Argument(
                    "--days", "only what was deleted so many days ago or more", "number", None, metavar="N"
                ),
                Argument("--yes", "do not ask", "flag", False),
            ),
            "{pi} sessions trash",
            "{pi} sessions trash --empty --days 30",
        ),
        _verb(
            "restore",
            "bring deleted sessions back",
            (_IDS._replace(help="deleted sessions, by the ids that `trash` lists", completes="deleted"),),
            "{pi} sessions restore 5f0c",
        ),
        _verb(
            "doctor",
            "say what is wrong with sessions, and repair it",
            (
                _IDS._replace(help="which sessions; all, if none is named", optional=True),
                Argument("--repair", "repair what can be; nothing is thrown away", "flag", False),
            ),
            "{pi} sessions doctor",
            "{pi} sessions doctor 5f0c --repair",
        ),
        _verb(
            "stats",
            "count sessions, messages and bytes, program by program",
            (),
            "{pi} sessions stats",
        ),
    )
}

MODELS = Command(
    "models",
    "perdure.front.commands.models:models",
    "list the models that can be used, what they cost, and which is the default",
    (
        Argument(
            "text",
            "only models with all these words in their names",
            metavar="TEXT",
            many=True,
            optional=True,
        ),
        Argument("--all", "also those that there is no key for", "flag", False),
        JSON,
    ),
    ("{pi} models", "{pi} models openai", "{pi} models opus 5.5", "{pi} models --all --json"),
)

MCP = Command(
    "mcp",
    "perdure.front.commands.mcp:mcp",
    "start the MCP servers of the settings, and list them with their tools",
    (
        Argument(
            "name",
            "only these servers, with all their tools",
            metavar="NAME",
            many=True,
            optional=True,
            completes="server",
        ),
        JSON,
    ),
    ("{pi} mcp", "{pi} mcp files", "{pi} mcp --json"),
)

TRUST = Command(
    "trust",
    "perdure.front.commands.trust:trust",
    "let a folder bring its own settings, extensions, skills and servers",
    (
        Argument(
            "dir",
            "the folder (default: this one)",
            default=None,
            metavar="DIR",
            optional=True,
            completes="file",
        ),
        Argument("--list", "list what was decided, and for which folders", "flag", False),
        Argument("--revoke", "take it back", "flag", False),
        Argument("-y/--yes", "answer yes, also where nobody can be asked", "flag", False),
        JSON._replace(help="print JSON; without --yes only what the folder would be allowed"),
    ),
    ("{pi} trust", "{pi} trust --list", "{pi} trust --revoke ~/code/demo"),
)

SHELLS = ("bash", "zsh", "fish")
COMPLETION = Command(
    "completion",
    "perdure.front.completion:completion",
    "print the code that lets a shell complete commands, options and ids",
    (Argument("shell", f"one of {', '.join(SHELLS)}", choices=SHELLS, metavar="SHELL"),),
    (
        'eval "$({pi} completion bash)"     # in ~/.bashrc; zsh in ~/.zshrc',
        "{pi} completion fish | source       # in ~/.config/fish/config.fish",
    ),
)

ALONE = {command.name: command for command in (MODELS, MCP, TRUST, COMPLETION)}
"""Those that are no verb of `sessions`."""

TALK = Command(
    "",
    "perdure.front.repl:repl",
    "talk with an agent that reads, writes and runs things in this directory",
    (
        Argument(
            "message",
            "what to say; @FILE adds a file",
            metavar="MESSAGE",
            many=True,
            optional=True,
            completes="file",
        ),
        Argument("-p/--print", "answer once, on stdout, and end", "flag", False),
        Argument(
            "--mode",
            "what is printed: text, the answer; json, every event, which implies --print",
            default="text",
            choices=("text", "json"),
            metavar="MODE",
        ),
        MODEL._replace(help="which model: provider/id[:thinking]; see `models`"),
        Argument(
            "--thinking", f"how hard it thinks: {', '.join(_THINKING)}", choices=_THINKING, metavar="LEVEL"
        ),
        MAX_COST,
        Argument("-c/--continue", "go on with this project's newest session", "flag", False),
        Argument(
            "-r/--resume",
            "go on with the session of this id, of this name, or in which this was said; or pick one",
            "perhaps",
            None,
            metavar="TEXT",
            completes="id",
        ),
        Argument(
            "--session",
            "go on with this session: an id or a file",
            default=None,
            metavar="ID",
            completes="id",
        ),
        Argument(
            "--session-id",
            "go on with the session of this id, or make it",
            default=None,
            metavar="ID",
            completes="id",
        ),
        Argument("--fork", "go on in a copy of this session", default=None, metavar="ID", completes="id"),
        Argument("--at", "with --fork: from this entry on", default=None, metavar="ENTRY"),
        Argument("-n/--name", "what to call the session", metavar="NAME"),
        Argument("--no-session", "keep nothing of it", "flag", False),
        Argument(
            "--tools",
            "only these tools: read, bash, edit, write, grep, find, ls, or others' by name",
            default=None,
            metavar="LIST",
        ),
        Argument("--no-tools", "no tools at all", "flag", False),
        Argument(
            "--system-prompt", "in place of the usual one: text, or a file", default=None, metavar="TEXT"
        ),
        Argument(
            "--append-system-prompt",
            "added to it: text, or a file; may be given several times",
            default=(),
            metavar="TEXT",
            many=True,
        ),
        Argument("-C", "go to this directory first", metavar="DIR", completes="file"),
    ),
    (
        "{pi}",
        '{pi} -p "explain this code"',
        "git diff | {pi} -p review this @docs/style.md",
        '{pi} -p -c "now write the tests"',
        "{pi} --mode json -m anthropic/claude-sonnet-4-5:high hello",
    ),
)
"""The program itself, without a command."""

ONCE = TALK._replace(runs="perdure.front.oneshot:oneshot")
"""With --print."""
