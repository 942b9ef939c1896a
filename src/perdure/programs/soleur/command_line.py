"""`soleur` as it is called from a shell."""

from perdure import __version__
from perdure.programs import dispatch, guarded, show, show_version, words_of

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "soleur"
HELP = """\
Soleur, of Perdure {version}: a sparring partner that asks hard questions.

usage: {name} [spar] [-s ID] [--fresh] [--context FILE | --no-context]
              [--project NAME] [-m MODEL] [--max-cost DOLLARS]
       {name} COMMAND [...]

{options}

commands:
{commands}

  -h, --help    show this text
  --version     show the version

{places}
"""
PLACES = (
    "In the conversation /help says what can be typed. Sessions are in {home}, and so is config.toml: "
    "default_model, and autorecord\xa0=\xa0false if answers are not to be searched for decisions. What the "
    "partner is told to be is in {prompt}; a prompt.md beside config.toml replaces it."
)


def main(argv: "Sequence[str] | None" = None) -> int:
    return guarded(NAME, lambda: _run(words_of(argv)))


def _run(words: "list[str]") -> int:
    if words[:1] == ["--version"]:
        return show_version(NAME)
    from perdure.programs.soleur.commands import COMMANDS

    return dispatch(NAME, words, COMMANDS, COMMANDS["spar"], f"{NAME} sessions", _show_help)


def _show_help() -> int:
    import textwrap

    from perdure import config
    from perdure.front.command_line import options_of
    from perdure.front.output import Output
    from perdure.programs.soleur import persona
    from perdure.programs.soleur.commands import COMMANDS
    from perdure.session import layouts

    columns = Output().columns
    places = PLACES.format(home=layouts.home_to_show("soleur"), prompt=config.as_typed(persona.BUILT_IN))
    folded = textwrap.fill(places, min(columns, 80), break_long_words=False, break_on_hyphens=False)
    commands = "\n".join(f"  {name:12}  {command.summary}" for name, command in COMMANDS.items())
    text = HELP.format(
        name=NAME,
        version=__version__,
        commands=commands,
        options=options_of(COMMANDS["spar"], columns),
        places=folded.replace("\xa0", " "),
    )
    return show(text)
