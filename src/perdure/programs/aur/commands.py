"""What `aur` can be called with: one command, whose options say what it does; see `front.commands`."""

from __future__ import annotations

from collections import namedtuple

from perdure.errors import UsageError
from perdure.front.commands import JSON, MAX_COST, MODEL, Argument, Command

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from types import SimpleNamespace

STATUSES = ("active", "completed", "interrupted")
NEWEST = True
"""The value of `--resume` without an id."""
_ID = Argument("", "", default=None, metavar="ID", completes="id:aurora")

SPAWN = Command(
    "spawn",
    "perdure.programs.aur.talk:talk",
    "talk with an agent, turn after turn; or list, delete, clean up and recover such sessions",
    (
        Argument("-i/--interactive", "talk; which is what it does if nothing else is asked", "flag", False),
        Argument(
            "--agent",
            "who answers; with --list-sessions: whose to list",
            default=None,
            metavar="NAME",
            completes="names:perdure.programs.aur.agents:here",
        ),
        Argument("--session", "what to call the new session", default=None, metavar="NAME"),
        _ID._replace(
            name="--resume",
            help="go on with this session: its id, or the beginning of it; without one, with the newest of "
            "this directory, or else of all",
            kind="perhaps",
            left_out=NEWEST,
        ),
        MODEL,
        MAX_COST,
        Argument("--list-sessions", "list sessions, the last active first", "flag", False),
        Argument(
            "--status",
            f"with --list-sessions: only those that are {', '.join(STATUSES[:-1])} or {STATUSES[-1]}",
            default=None,
            choices=STATUSES,
            metavar="S",
        ),
        Argument(
            "--limit",
            "with --list-sessions: so many, the newest; 0 is all (default: 50 at a terminal, else all)",
            "number",
            None,
            metavar="N",
        ),
        JSON._replace(help="with --list-sessions: answer with JSON, for programs"),
        _ID._replace(name="--delete-session", help="delete this session; it goes to the trash"),
        Argument("--yes", "with --delete-session: do not ask", "flag", False),
        Argument(
            "--clean-sessions",
            "delete sessions in which nothing was said for more than so many days",
            default=None,
            metavar="DAYS",
        ),
        _ID._replace(name="--recover", help="keep every good line of a damaged session, without asking"),
    ),
    (
        "aur spawn --agent qa-test",
        "aur spawn --resume",
        "aur spawn --resume session-4f1c",
        "aur spawn --list-sessions --status interrupted",
        "aur spawn --clean-sessions 30",
    ),
)
COMMANDS = {SPAWN.name: SPAWN}


class Action(namedtuple("Action", "runs takes")):
    __slots__ = ()

    runs: str
    """The function, as `module:attr`."""
    takes: tuple[str, ...]
    """The options that mean something to it."""


TALK = Action(SPAWN.runs, ("interactive", "agent", "session", "resume", "model", "max_cost"))
ACTIONS = {
    "list_sessions": Action(
        "perdure.programs.aur.listing:list_sessions", ("agent", "status", "limit", "json")
    ),
    "delete_session": Action("perdure.programs.aur.removing:delete_session", ("yes",)),
    "clean_sessions": Action("perdure.programs.aur.removing:clean_sessions", ()),
    "recover": Action("perdure.programs.aur.recovering:recover", ()),
}
"""What is done instead of talking, each by the option that asks for it."""


def action_of(options: SimpleNamespace) -> Action:
    """What is to be done. UsageError if two things are, or if an option has nothing to do with it."""
    given = [each for each in SPAWN.arguments if getattr(options, each.attribute) != each.default]
    asked = [each for each in given if each.attribute in ACTIONS]
    if len(asked) > 1:
        raise _contradiction(asked[0], asked[1])
    action = ACTIONS[asked[0].attribute] if asked else TALK
    for each in given:
        if each not in asked and each.attribute not in action.takes:
            if asked:
                raise _contradiction(asked[0], each)
            wanted = next(_spelt(name) for name, other in ACTIONS.items() if each.attribute in other.takes)
            raise UsageError(
                f"{each.spellings[-1]} is an option of {wanted}", f"add {wanted}, or leave it out"
            )
    if options.session is not None and options.resume is not None:
        raise UsageError("--session names a new session and --resume an old one", "give one of them")
    return action


def _contradiction(one: Argument, other: Argument) -> UsageError:
    said = f"{one.spellings[-1]} and {other.spellings[-1]} do not go together"
    return UsageError(said, "give one of them; `aur spawn --help` says what each does")


def _spelt(attribute: str) -> str:
    return f"--{attribute.replace('_', '-')}"
