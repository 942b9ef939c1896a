"""What `soleur` can be called with, in one table; see `perdure.front.commands`."""

from __future__ import annotations

from perdure.front.commands import Argument, Command

_JSON = Argument("--json", "answer with JSON, for programs", "flag", False)
_MODEL = Argument(
    "-m/--model", "which model: provider/id[:thinking]; see `pi models`", metavar="MODEL", completes="model"
)
_ID = Argument("id", "a session: its id, or the beginning of it", metavar="ID", completes="id:soleur")

COMMANDS = {
    command.name: command
    for command in (
        Command(
            "spar",
            "perdure.programs.soleur.talk:spar",
            "talk: go on with the last session, or begin a new one",
            (
                _ID._replace(name="-s/--session", help="go on with this session", default=None),
                Argument("--fresh", "begin a new session, and do not ask to resume one", "flag", False),
                _MODEL,
            ),
            ("soleur", "soleur spar --fresh", "soleur spar -s 8c2e"),
        ),
        Command(
            "sessions",
            "perdure.programs.soleur.listing:sessions",
            "list all sessions, the last talked in first",
            (_JSON,),
            ("soleur sessions", "soleur sessions --json"),
        ),
        Command(
            "load",
            "perdure.programs.soleur.talk:load",
            "go on with a session",
            (_ID, _MODEL),
            ("soleur load 8c2e",),
        ),
        Command(
            "decisions",
            "perdure.programs.soleur.listing:decisions",
            "list what was decided, project by project",
            (Argument("-p/--project", "of this project only", default=None, metavar="PROJECT"), _JSON),
            ("soleur decisions", "soleur decisions -p api-server --json"),
        ),
    )
}
