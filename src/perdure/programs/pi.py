"""`pi`, also installed as `perdure`: the coding agent's command line.

Two promises hold for everything that starts here. `--version` loads nothing but this package, because
shells and editors ask it at every start. And whatever goes wrong is told once, in one sentence on
stderr, with the exit code that scripts rely on: 0 done, 1 failed, 2 wrong usage, 3 not found,
4 held by another process, 130 interrupted.
"""

import sys

from perdure import __version__

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import SimpleNamespace
    from typing import Any

    from perdure.errors import UsageError
    from perdure.front.commands import Command

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
READER_LEFT = 141  # what a shell reports for any program whose pipe was closed by the reader


def main(argv: "Sequence[str] | None" = None) -> int:
    """Run the program and return its exit code; no exception a user can cause leaves here."""
    name = _called_as(sys.argv[0])
    try:
        return _run(name, sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        from perdure.errors import PerdureError
        from perdure.front.output import Output, OutputLost
        from perdure.front.visible import one_line

        out = Output(program=name)
        if isinstance(error, OutputLost):
            out.abandon()
            if isinstance(error.cause, BrokenPipeError):
                return READER_LEFT
            reason = error.cause.strerror or str(error.cause)
            out.note(one_line(f"{name}: the output could not be written: {reason}"))
            return 1
        if not isinstance(error, PerdureError):
            raise
        out.failed(error)
        return error.exit_code


def _run(name: str, arguments: "Sequence[str]") -> int:
    match [*arguments]:
        case ["--version"]:
            return _show_version(name)
        case ["sessions", *words]:
            return _sessions(words, f"{name} sessions")
        case [command, *words] if command in COMMANDS:
            from perdure.front.commands import ALONE

            return _call(ALONE[command], words, name)
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
        return _show_version(name)
    if options.print or options.mode == "json":
        return _perform(ONCE, options, name)
    _refuse_nearly_a_command(options.message, name)
    return _perform(TALK, options, name)


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
    return _show(HELP.format(name=name, version=__version__, commands=commands, talk=talk))


def _sessions(words: "Sequence[str]", program: str) -> int:
    from perdure.front.command_line import asks_for_help, help_of_all
    from perdure.front.commands import SESSIONS

    if words and words[0] in SESSIONS:
        return _call(SESSIONS[words[0]], words[1:], program)
    if words and not asks_for_help(words):
        raise _unknown("verb", words[0], SESSIONS, f"run `{program} --help`")
    return _show(help_of_all(SESSIONS, program))


def _call(command: "Command", words: "Sequence[str]", program: str) -> int:
    from perdure.front.command_line import asks_for_help, help_of, parse
    from perdure.front.output import Output

    if asks_for_help(words):
        return _show(help_of(command, program, Output().columns))
    return _perform(command, parse(command, words, program), program)


def _perform(command: "Command", options: "SimpleNamespace", program: str) -> int:
    from perdure import registry
    from perdure.front.output import Output

    _refuse_nameless(command, vars(options), program)
    out = Output(json=getattr(options, "json", False), program=program.split()[0])
    try:
        code: int = registry.load(command.runs)(options, out)
    finally:
        out.flush()
    return code


def _refuse_nameless(command: "Command", options: "Mapping[str, Any]", program: str) -> None:
    """What a script makes of a variable that is not set is no beginning of every id."""
    for argument in command.arguments:
        if argument.completes in ("id", "deleted"):
            given = options[argument.attribute]
            if given is None or argument.kind == "perhaps":
                continue
            if not all(name.strip() for name in (given if argument.many else [given])):
                from perdure.errors import UsageError

                program = f"{program.split()[0]} sessions"
                listing = f"{program} {'trash' if argument.completes == 'deleted' else 'ls --all'}"
                raise UsageError(f"{argument.metavar} is empty", f"run `{listing}` to see what there is")


def _show(text: str) -> int:
    from perdure.front.output import Output

    out = Output()
    out.line(text.rstrip("\n"))
    out.flush()
    return 0


def _unknown(what: str, word: str, known: "Iterable[str]", hint: str) -> "UsageError":
    from perdure.errors import UsageError
    from perdure.front.command_line import did_you_mean, quoted

    return UsageError(f"unknown {what} {quoted(word)}{did_you_mean(word, known)}", hint)


def _called_as(path: str) -> str:
    """`pi` when started under that name, on any system; `perdure` otherwise, which is always true."""
    stem = path.replace("\\", "/").rpartition("/")[2].partition(".")[0]
    return "pi" if stem == "pi" else "perdure"


def _show_version(name: str) -> int:
    """As `Output` would, without the time that takes to load."""
    try:
        if sys.stdout is None:
            raise OSError("standard output is closed")
        sys.stdout.write(f"{name} {__version__}\n")
        sys.stdout.flush()
    except OSError as error:
        from perdure.front.output import OutputLost

        raise OutputLost(error) from error
    return 0
