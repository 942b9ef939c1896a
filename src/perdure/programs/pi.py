"""`pi`, also installed as `perdure`: the coding agent's command line.

Two promises hold for everything that starts here. `--version` loads nothing but this package, because
shells and editors ask it at every start. And whatever goes wrong is told once, in one sentence on
stderr, with the exit code that scripts rely on: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""

import sys

from perdure import __version__

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from collections.abc import Sequence

HELP = """\
Perdure {version}: conversations with AI agents that last.

usage: {name} [--help] [--version]

  -h, --help    show this text
  --version     show the version

The conversation itself comes in a later release. What works today is the session engine, as a
Python library: append-only sessions that survive crashes, in the original pi's file layout.

    from perdure import SessionManager
    sessions = SessionManager()
    session_id = sessions.create_session()
    print(session_id, len(sessions.list_sessions()))
"""

READER_LEFT = 141  # what a shell reports for any program whose pipe was closed by the reader


def main(argv: "Sequence[str] | None" = None) -> int:
    """Run the program and return its exit code; no exception a user can cause leaves here."""
    name = _called_as(sys.argv[0])
    try:
        return _run(name, sys.argv[1:] if argv is None else argv)
    except KeyboardInterrupt:
        return 130
    except _OutputLost as lost:
        _detach_stdout()
        if isinstance(lost.cause, BrokenPipeError):
            return READER_LEFT
        _complain(f"{name}: the output could not be written: {lost.cause.strerror or lost.cause}")
        return 1
    except Exception as error:
        from perdure.errors import PerdureError

        if not isinstance(error, PerdureError):
            raise
        _complain(f"{name}: {error.message}" + (f"; {error.hint}" if error.hint else ""))
        return error.exit_code


def _run(name: str, arguments: "Sequence[str]") -> int:
    for argument in arguments:
        if argument not in ("-h", "--help", "--version"):
            shown = argument if len(argument) <= 60 else argument[:57] + "..."
            _complain(
                f"{name}: unknown argument {shown!r}: run `{name} --help` to see what this release can do"
            )
            return 2
    if list(arguments) == ["--version"]:
        _show(f"{name} {__version__}\n")
    else:
        _show(HELP.format(name=name, version=__version__))
    return 0


def _called_as(path: str) -> str:
    """`pi` when started under that name, on any system; `perdure` otherwise, which is always true."""
    stem = path.replace("\\", "/").rpartition("/")[2].partition(".")[0]
    return "pi" if stem == "pi" else "perdure"


class _OutputLost(Exception):
    """What should have been shown was not: told apart from every other failed system call."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


def _show(text: str) -> None:
    # Flushed here, because the flush at interpreter exit can only answer with a traceback.
    if sys.stdout is None:
        raise _OutputLost(OSError("standard output is closed"))
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        raise _OutputLost(error) from error


def _complain(sentence: str) -> None:
    try:
        if sys.stderr is not None:
            sys.stderr.write(sentence + "\n")
            sys.stderr.flush()
    except OSError:
        pass  # nowhere is left to tell it; the exit code still does


def _detach_stdout() -> None:
    """Point stdout elsewhere, or the interpreter fails again on what is still in its buffer."""
    import os

    if sys.stdout is not None:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
