"""`sibyl` as it is called from a shell."""

from perdure import __version__
from perdure.programs import call, guarded, show, show_version, words_of

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "sibyl"
HELP = """\
Sibyl, of Perdure {version}: a conversation that saves itself.

usage: {name} [--session-id ID] [--auto-save-interval SECONDS] [-m MODEL]

{options}

  -h, --help    show this text
  --version     show the version

In the conversation /help says what can be typed. Each message is saved at once,
as an S-expression that any Lisp reads, in {home}. What a script
wants of it: from perdure.programs.sibyl import start_repl, load_session
"""


def main(argv: "Sequence[str] | None" = None) -> int:
    return guarded(NAME, lambda: _run(words_of(argv)))


def _run(words: "list[str]") -> int:
    if words[:1] == ["--version"]:
        return show_version(NAME)
    from perdure.front.command_line import asks_for_help
    from perdure.programs.sibyl.commands import TALK

    if words[:1] == ["help"] or asks_for_help(words):
        return _show_help()
    return call(TALK, words, NAME, f"pi sessions ls --all --program {NAME}")


def _show_help() -> int:
    from perdure.front.command_line import options_of
    from perdure.front.output import Output
    from perdure.programs.sibyl.commands import TALK
    from perdure.session import layouts

    options = options_of(TALK, Output().columns)
    home = layouts.home_to_show("sibyl")
    return show(HELP.format(name=NAME, version=__version__, options=options, home=home))
