"""`cortext` as it is called from a shell."""

from perdure import __version__
from perdure.programs import dispatch, guarded, show, show_version, words_of

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "cortext"
HELP = """\
Cortext, of Perdure {version}: conversations that live in a workspace, in git.

usage: {name} [-m MODEL] [--max-cost DOLLARS]
       {name} COMMAND [...]

{options}

commands:
{commands}

  -h, --help    show this text
  --version     show the version

A workspace is the nearest folder above that has .workspace/. In there are the
prompts of all types of conversation (commands/), what is part of each of them
(memory/), and registry.json: default_model, tool, inactivity_seconds, commit.
Without a command, {name} is a shell in which conversations are begun, resumed
and completed; /help says what can be typed there.
"""


def main(argv: "Sequence[str] | None" = None) -> int:
    return guarded(NAME, lambda: _run(words_of(argv)))


def _run(words: "list[str]") -> int:
    if words[:1] == ["--version"]:
        return show_version(NAME)
    from perdure.programs.cortext.commands import ALONE, COMMANDS

    return dispatch(NAME, words, COMMANDS, ALONE, f"{NAME} list", _show_help)


def _show_help() -> int:
    from perdure.front.command_line import options_of
    from perdure.front.output import Output
    from perdure.programs.cortext.commands import ALONE, COMMANDS

    commands = "\n".join(f"  {name:12}  {command.summary}" for name, command in COMMANDS.items())
    options = options_of(ALONE, Output().columns)
    return show(HELP.format(name=NAME, version=__version__, commands=commands, options=options))
