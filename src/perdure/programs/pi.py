"""`pi`, also installed as `perdure`: the coding agent's command line."""

import sys

from perdure import __version__
from perdure.programs import call, guarded, perform, show, show_version, unknown, words_of

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from collections.abc import Sequence

    from perdure.errors import UsageError

HELP = """\
Perdure {version}: conversations with AI agents that last.

usage: {name} [OPTION...] [MESSAGE...]
       {name} --print [OPTION...] MESSAGE...
       {name} COMMAND [...]

{talk}

commands:
{commands}

  -h, --help    show this text
  --version     show the version

Without --print it is a conversation: /help in it says what can be typed there.
Through a pipe each line is a message. Without a key in the environment a
built-in program answers, which searches this directory. `{name} models` says
which models there are, `{name} sessions --help` what can be done with
conversations.

The engine and the agent are also a Python library:

    from perdure import SessionManager
    sessions = SessionManager()
    session_id = sessions.create_session()
    print(session_id, len(sessions.list_sessions()))
"""
COMMANDS = {
    "sessions": "find, read and keep conversations",
    "models": "list models, what they cost, and which is the default",
    "mcp": "list MCP servers and their tools",
    "trust": "let this folder bring its own settings and extensions",
    "completion": "complete commands, options and ids in bash, zsh or fish",
}


def main(argv: "Sequence[str] | None" = None) -> int:
    name = _called_as(sys.argv[0])
    return guarded(name, lambda: _run(name, words_of(argv)))


def _run(name: str, arguments: "Sequence[str]") -> int:
    match [*arguments]:
        case ["--version"]:
            return show_version(name)
        case ["sessions", *words]:
            return _sessions(words, f"{name} sessions")
        case [command, *words] if command in COMMANDS:
            from perdure.front.commands import ALONE

            return call(ALONE[command], words, name)
        case ["complete", *words]:  # asked by the scripts of `completion`
            from perdure.front.completion import complete
            from perdure.front.output import Output

            return complete(words, COMMANDS, Output())
    return _talk(name, arguments)


def _talk(name: str, words: "Sequence[str]") -> int:
    from perdure.front.command_line import asks_for_help, parse
    from perdure.front.commands import ONCE, TALK

    if [*words] == ["help"] or asks_for_help(words):
        return _show_help(name)
    if words and _is_probably_a_command(words):
        raise _not_a_command(words[0], name)
    others = [word for word in words if word != "--version"]
    options = parse(TALK, others, name)
    if len(others) < len(words):
        return show_version(name)
    if options.print or options.mode == "json":
        return perform(ONCE, options, name)
    _refuse_nearly_a_command(options.message, name)
    return perform(TALK, options, name)


def _is_probably_a_command(words: "Sequence[str]") -> bool:
    from perdure.front.commands import SESSIONS

    return words[0] in SESSIONS and not {"-p", "--print"} & {*words}


def _not_a_command(word: str, name: str) -> "UsageError":
    from perdure.errors import UsageError

    return UsageError(f"unknown command {word!r}: did you mean `{name} sessions {word}`?")


def _refuse_nearly_a_command(message: "Sequence[str]", name: str) -> None:
    """A word alone that is nearly a command was probably meant as one."""
    from perdure.errors import UsageError
    from perdure.front.command_line import did_you_mean, quoted

    if len(message) == 1 and " " not in message[0]:
        (word,) = message
        near = did_you_mean(word, COMMANDS)
        if near:
            raise UsageError(f"unknown command {quoted(word)}{near}", f"run `{name} --help`")


def _show_help(name: str) -> int:
    from perdure.front.command_line import options_of
    from perdure.front.commands import TALK
    from perdure.front.output import Output

    commands = "\n".join(f"  {command:12}  {summary}" for command, summary in COMMANDS.items())
    talk = options_of(TALK, Output().columns)
    return show(HELP.format(name=name, version=__version__, commands=commands, talk=talk))


def _sessions(words: "Sequence[str]", program: str) -> int:
    from perdure.front.command_line import asks_for_help, help_of_all
    from perdure.front.commands import SESSIONS

    if words and words[0] in SESSIONS:
        return call(SESSIONS[words[0]], words[1:], program)
    if words and not asks_for_help(words):
        raise unknown("verb", words[0], SESSIONS, f"run `{program} --help`")
    return show(help_of_all(SESSIONS, program))


def _called_as(path: str) -> str:
    """`pi` when started under that name, on any system; `perdure` otherwise, which is always true."""
    stem = path.replace("\\", "/").rpartition("/")[2].partition(".")[0]
    return "pi" if stem == "pi" else "perdure"
