"""What `soleur` can be called with, in one table; see `perdure.front.commands`."""

from __future__ import annotations

from perdure.front.commands import JSON, MAX_COST, MODEL, Argument, Command

_ID = Argument("id", "a session: its id, or the beginning of it", metavar="ID", completes="id:soleur")

_PROJECT = Argument("-p/--project", "of this project only", default=None, metavar="PROJECT")

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
                Argument(
                    "--context",
                    "attach this file, and do not ask for README.md",
                    default=None,
                    metavar="FILE",
                    completes="file",
                ),
                Argument("--no-context", "do not ask whether to attach README.md", "flag", False),
                _PROJECT._replace(name="--project", help="talk about this project, wherever you are"),
                MODEL,
                MAX_COST,
            ),
            ("soleur", "soleur spar --fresh", "soleur spar -s 8c2e", "soleur --project api-server"),
        ),
        Command(
            "sessions",
            "perdure.programs.soleur.listing:sessions",
            "list all sessions, the last talked in first",
            (JSON,),
            ("soleur sessions", "soleur sessions --json"),
        ),
        Command(
            "load",
            "perdure.programs.soleur.talk:load",
            "go on with a session",
            (_ID, MODEL, MAX_COST),
            ("soleur load 8c2e",),
        ),
        Command(
            "decisions",
            "perdure.programs.soleur.listing:decisions",
            "list what was decided, project by project",
            (
                _PROJECT,
                Argument("--tag", "those with this tag only", default=None, metavar="TAG"),
                JSON,
            ),
            ("soleur decisions", "soleur decisions -p api-server --json", "soleur decisions --tag pricing"),
        ),
    )
}
