"""The programs: each the engine with one face. None imports another; what starts them all is here.

Two promises hold for everything that starts. `--version` loads nothing but this package, because shells and
editors ask it at every start. And whatever goes wrong is told once, in one sentence on stderr, with the exit
code that scripts rely on: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 held by another process, 130
interrupted.
"""

import sys

from perdure import __version__

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import SimpleNamespace
    from typing import Any

    from perdure.errors import UsageError
    from perdure.front.commands import Command

READER_LEFT = 141  # what a shell reports for any program whose pipe was closed by the reader


_UTF8_MODE = ["-X", "utf8"]


def words_of(argv: "Sequence[str] | None") -> "list[str]":
    """The words of a command line: those given, or those that this process was started with.

    Words, names of files and the environment are UTF-8, whatever the locale is. Python decodes them before
    any code of ours runs, and cannot do it again: where it took another encoding, it is started again with
    this one. Nearly everywhere it is UTF-8 already.
    """
    if argv is not None:
        return [*argv]
    if sys.getfilesystemencoding() != "utf-8":
        _start_again_in_utf8()
    return sys.argv[1:]


def _start_again_in_utf8() -> None:
    """Replace this process by the same command in Python's UTF-8 mode. An option asks for that and no
    variable, which every command that we start would inherit. Returns where it cannot be done."""
    import os

    is_started_again = sys.orig_argv[1:3] == _UTF8_MODE
    if is_started_again or not sys.executable or hasattr(sys, "frozen"):
        return
    try:
        # Encoded as they were decoded, the words are the bytes that were given. Of two `utf8`, the first
        # counts.
        os.execv(sys.executable, [sys.executable, *_UTF8_MODE, *sys.orig_argv[1:]])
    except OSError:
        pass


def guarded(name: str, run: "Callable[[], int]") -> int:
    """Run a program and return its exit code; no exception a user can cause leaves here."""
    try:
        try:
            code = run()
        except KeyboardInterrupt:
            code = 130
        except Exception as error:
            code = _told(name, error)
        return _written_out(name, code)
    except KeyboardInterrupt:
        from perdure.front.output import abandon

        abandon(sys.stdout)  # whoever reads it may have stopped, and Python would wait for them once more
        return 130


def _told(name: str, error: Exception) -> int:
    """Tell the user of it, and return the exit code that says the same."""
    from perdure.errors import PerdureError
    from perdure.front.output import Output, OutputLost, abandon
    from perdure.front.visible import one_line

    out = Output(program=name)
    if isinstance(error, OutputLost):
        abandon(sys.stdout)
        if isinstance(error.cause, BrokenPipeError):
            return READER_LEFT
        reason = error.cause.strerror or str(error.cause)
        out.note(one_line(f"{name}: the output could not be written: {reason}"))
        return 1
    if isinstance(error, MemoryError):
        error = PerdureError("There is not enough memory for this", "nothing that was saved is touched")
    if not isinstance(error, PerdureError):
        raise error
    try:
        out.failed(error)
    except OutputLost as lost:  # of the answer before it
        _told(name, lost)
        out.failed(error)
    return error.exit_code


def _written_out(name: str, code: int) -> int:
    """What is still in a buffer is written here. Python does it later, and where nobody reads any more, of a
    terminal that was closed or on a full disk, it would end with a code of its own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not getattr(stream, "closed", False):
                stream.flush()
        except OSError as error:
            from perdure.front.output import OutputLost, abandon

            abandon(stream)
            if stream is sys.stdout:
                told = _told(name, OutputLost(error))
                code = code or told
    return code


def call(command: "Command", words: "Sequence[str]", program: str, listing: str = "") -> int:
    """`program` is what stands before it: `pi sessions`. `listing` shows what there are ids for."""
    from perdure.front.command_line import asks_for_help, help_of, parse
    from perdure.front.output import Output

    if asks_for_help(words):
        return show(help_of(command, program, Output().columns))
    return perform(command, parse(command, words, program), program, listing)


def dispatch(
    name: str,
    words: "Sequence[str]",
    commands: "Mapping[str, Command]",
    otherwise: "Command",
    listing: str,
    show_help: "Callable[[], int]",
) -> int:
    """The command that the first word names; without one, what the program does `otherwise`."""
    match words:
        case ["help" | "-h" | "--help", *_]:
            return show_help()
        case [word, *rest] if word in commands:
            return call(commands[word], rest, name, listing)
        case [word, *_] if not word.startswith("-"):
            raise unknown("command", word, commands, f"run `{name} --help`")
    return call(otherwise, words, name, listing)


def perform(command: "Command", options: "SimpleNamespace", program: str, listing: str = "") -> int:
    from perdure import registry
    from perdure.front.output import Output

    _refuse_nameless(command, vars(options), listing or f"{program.split()[0]} sessions ls --all")
    out = Output(json=getattr(options, "json", False), program=program.split()[0])
    code: int = registry.load(command.runs)(options, out)
    return code or int(out.has_unused_input)


def _refuse_nameless(command: "Command", options: "Mapping[str, Any]", listing: str) -> None:
    """What a script makes of a variable that is not set is no beginning of every id."""
    for argument in command.arguments:
        if argument.completes == "deleted" or argument.completes.partition(":")[0] == "id":
            given = options[argument.attribute]
            if given is None or (argument.kind == "perhaps" and given == argument.left_out):
                continue
            if not all(name.strip() for name in (given if argument.many else [given])):
                from perdure.errors import UsageError

                if argument.completes == "deleted":
                    listing = listing.replace("ls --all", "trash")
                raise UsageError(f"{argument.metavar} is empty", f"run `{listing}` to see what there is")


def show(text: str) -> int:
    """A page of help. Its examples and its code are to be copied."""
    from perdure.front.output import Copyable, Output

    out = Output()
    is_example = False
    for line in text.rstrip("\n").split("\n"):
        is_example = line == "examples:" or (is_example and line.startswith(" "))
        out.line(Copyable(line) if is_example or line.startswith("    ") else line)
    out.flush()
    return 0


def unknown(what: str, word: str, known: "Iterable[str]", hint: str) -> "UsageError":
    from perdure.errors import UsageError
    from perdure.front.command_line import did_you_mean, quoted

    return UsageError(f"unknown {what} {quoted(word)}{did_you_mean(word, known)}", hint)


def show_version(name: str) -> int:
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
