"""`aur` as it is called from a shell."""

from perdure import __version__
from perdure.programs import guarded, perform, show, show_version, unknown, words_of

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "aur"
LISTING = f"{NAME} spawn --list-sessions"
_NOT_FOUND = 1
"""The exit code for an id that no session has: this program's document knows no other failure."""
HELP = """\
Aurora, of Perdure {version}: agents, spawned and talked to turn after turn.

usage: {name} spawn [-i] [--agent NAME] [--session NAME] [--resume [ID]] [-m MODEL]
                 [--max-cost DOLLARS]
       {name} spawn --list-sessions [--agent NAME] [--status S] [--limit N]
                    [--json]
       {name} spawn --delete-session ID [--yes]
       {name} spawn --clean-sessions DAYS
       {name} spawn --recover ID

{options}

  -h, --help    show this text
  --version     show the version

{places}
"""
PLACES = (
    "In the conversation /help says what can be typed. Sessions are in {sessions}, agents in {agents} and in "
    ".aurora/agents of a project. {settings} may set default_model, and in spawner.interactive: max_tokens "
    "(100,000), and session_expiry_days, after which sessions that nobody used go to the trash by themselves."
)


def main(argv: "Sequence[str] | None" = None) -> int:
    return guarded(NAME, lambda: _run(words_of(argv)))


def _run(words: "list[str]") -> int:
    if words[:1] == ["--version"]:
        return show_version(NAME)
    match words:
        case [] | ["help" | "-h" | "--help", *_]:
            return _show_help()
        case ["spawn", *rest]:
            return _spawn(rest)
    from perdure.programs.aur.commands import COMMANDS, SPAWN

    is_of_spawn = any(words[0].partition("=")[0] in each.spellings for each in SPAWN.arguments)
    hint = f"run `{NAME} spawn {words[0]}`" if is_of_spawn else f"run `{NAME} --help`"
    raise unknown("command", words[0], COMMANDS, hint)


def _spawn(words: "list[str]") -> int:
    from perdure.errors import NotFound
    from perdure.front.command_line import asks_for_help, parse
    from perdure.front.output import Output
    from perdure.programs.aur.background import start
    from perdure.programs.aur.commands import NEWEST, SPAWN, action_of

    if asks_for_help(words):
        return _show_help()
    options = parse(SPAWN, words, NAME)
    action = action_of(options)
    out = Output(program=NAME)
    options.newest = None
    if options.resume is NEWEST:
        from perdure import config
        from perdure.programs.aur.newest import find_newest

        options.newest = find_newest(config.here(), out)
        options.resume = options.newest.path
    start(options.resume or options.delete_session or options.recover or "", out)
    try:
        return perform(SPAWN._replace(runs=action.runs), options, NAME, LISTING)
    except NotFound as error:
        error.exit_code = _NOT_FOUND
        raise


def _show_help() -> int:
    import os
    import textwrap

    from perdure.front.command_line import options_of
    from perdure.front.output import Output
    from perdure.programs.aur.commands import SPAWN
    from perdure.session.layouts import Home, home_to_show

    columns = Output().columns
    home = Home("aurora", home_to_show("aurora"))
    places = PLACES.format(
        sessions=home.sessions,
        agents=os.path.join(home.path, "agents"),
        settings=os.path.join(home.path, "config.json"),
    )
    folded = textwrap.fill(places, min(columns, 80), break_long_words=False, break_on_hyphens=False)
    text = HELP.format(name=NAME, version=__version__, options=options_of(SPAWN, columns), places=folded)
    return show(text)
