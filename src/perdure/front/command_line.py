"""Options from words, by the table of commands.

Loading argparse takes longer than a listing. So what is written out in full and right is read here, which is
nearly every call, and the rest is left to argparse, built from the same table: abbreviations, `-oFILE`, and
whatever is wrong. The quick way gives up where it is not certain; what it accepts, argparse reads alike.
"""

from __future__ import annotations

from types import SimpleNamespace

from perdure.errors import UsageError

TYPE_CHECKING = False  # typing's own constant would cost its import
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, NoReturn

    from perdure.front.commands import Argument, Command

HELP = ("-h", "--help")
END_OF_OPTIONS = "--"


def parse(command: Command, words: Sequence[str], program: str) -> SimpleNamespace:
    """A verb's options, from the words behind it. `program` is what stands before it: `pi sessions`."""
    read, literal = _divided(words)
    found = _read_quickly(command, read) or _read_thoroughly(command, read, program)
    values, alone = found
    try:
        values |= _placed(command, [*alone, *literal])
    except ValueError as error:
        raise _wrong_usage(str(error), command, program) from None
    return SimpleNamespace(**values)


def asks_for_help(words: Sequence[str]) -> bool:
    return any(word in HELP for word in _divided(words)[0])


def help_of(command: Command, program: str, columns: int = 80) -> str:
    """What a verb does and takes, with examples."""
    name = program.split()[0]
    parser = _helper(command, columns, prog=f"{program} {command.name}".strip())
    parser.description = command.summary
    parser.epilog = "\n  ".join(["examples:", *(example.format(pi=name) for example in command.examples)])
    return parser.format_help().rstrip("\n")


def options_of(command: Command, columns: int = 80) -> str:
    """Only what it takes."""
    parser = _helper(command, columns, add_help=False, usage="-")
    return parser.format_help().partition("\n\n")[2].rstrip("\n")


def _helper(command: Command, columns: int, **settings: Any) -> ArgumentParser:
    import argparse

    width = min(columns, 100) - 1
    parser = argparse.ArgumentParser(
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=width), **settings
    )
    parser.color = False  # type: ignore[attr-defined]  # new in 3.14
    _add_options(parser, command)
    for argument in command.arguments:
        if not argument.is_option:
            nargs = {(True, True): "*", (True, False): "+", (False, True): "?"}
            parser.add_argument(
                argument.name,
                metavar=argument.metavar,
                help=argument.help,
                nargs=nargs.get((argument.many, argument.optional)),
            )
    return parser


def help_of_all(commands: Mapping[str, Command], program: str) -> str:
    """Which verbs there are, and what each does."""
    longest = max(map(len, commands))
    verbs = [f"  {name:{longest}}  {command.summary}" for name, command in commands.items()]
    more = f"`{program} VERB --help` says what a verb takes."
    return "\n".join([f"usage: {program} VERB [...]", "", *verbs, "", more])


def did_you_mean(text: str, known: Iterable[str]) -> str:
    """The end of a sentence that names something unknown."""
    import difflib

    near = difflib.get_close_matches(text[:60], [*known], n=1)
    return f": did you mean {near[0]}?" if near else ""


def quoted(word: str) -> str:
    """A word somebody typed, in a sentence."""
    return repr(word if len(word) <= 60 else word[:57] + "...")


def _divided(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words that may be options, and those that are not, whatever they begin with."""
    if END_OF_OPTIONS not in words:
        return [*words], []
    at = words.index(END_OF_OPTIONS)
    return [*words[:at]], [*words[at + 1 :]]


def _read_quickly(command: Command, words: Sequence[str]) -> tuple[dict[str, Any], list[str]] | None:
    """The options, and the words that stand alone. None if anything is not as plain as can be."""
    options = {spelling: each for each in command.arguments if each.is_option for spelling in each.spellings}
    values = _defaults(command)
    alone = []
    rest = iter(words)
    for word in rest:
        if not _looks_like_an_option(word):
            alone.append(word)
            continue
        name, is_joined, value = word.partition("=") if word.startswith("--") else (word, "", "")
        argument = options.get(name)
        if argument is None or (is_joined and argument.kind == "flag"):
            return None
        if argument.kind == "flag":
            values[argument.attribute] = True
            continue
        if argument.kind == "perhaps" and not is_joined:
            values[argument.attribute] = argument.left_out
            following = next(rest, None)
            if following is None:
                break
            if _looks_like_an_option(following):
                return None  # argparse knows how to go on with that one
            values[argument.attribute] = following
            continue
        if not is_joined:
            value = next(rest, END_OF_OPTIONS)
        if value == END_OF_OPTIONS or (not is_joined and _looks_like_an_option(value)):
            return None
        try:
            read = _value(argument, value)
        except ValueError:
            return None
        values[argument.attribute] = [*values[argument.attribute], read] if argument.many else read
    return values, alone


def _read_thoroughly(
    command: Command, words: Sequence[str], program: str
) -> tuple[dict[str, Any], list[str]]:
    """The same by argparse, which is told nothing of the words that stand alone: it would not let options
    stand between them."""
    import argparse

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            raise _wrong_usage(message.removeprefix("argument "), command, program)

    parser = Parser(add_help=False)
    _add_options(parser, command)
    found, alone = parser.parse_known_args(words)
    for word in alone:
        if _looks_like_an_option(word):
            known = [spelling for each in command.arguments if each.is_option for spelling in each.spellings]
            near = did_you_mean(word, [*known, *HELP])
            hint = "" if near else f"what begins with a dash and is none comes after `{END_OF_OPTIONS}`; "
            raise _wrong_usage(f"unknown option {quoted(word)}{near}", command, program, hint)
    for name, value in vars(found).items():
        given = value if isinstance(value, list) and value else [value]
        if END_OF_OPTIONS in given or [] in given:  # as some versions read `--limit=--`
            raise _wrong_usage(f"{quoted(END_OF_OPTIONS)} cannot be {name}", command, program)
    return _defaults(command) | vars(found), alone


def _add_options(parser: ArgumentParser, command: Command) -> None:
    import argparse

    def reader(argument: Argument) -> Any:
        def read(text: str) -> Any:
            try:
                return _value(argument, text)
            except ValueError as error:
                raise argparse.ArgumentTypeError(str(error)) from None

        return read

    for argument in command.arguments:
        if not argument.is_option:
            continue
        if argument.kind == "flag":
            parser.add_argument(
                *argument.spellings, action="store_true", default=argparse.SUPPRESS, help=argument.help
            )
        else:
            perhaps: dict[str, Any] = {}
            if argument.kind == "perhaps":
                perhaps = {"nargs": "?", "const": argument.left_out}
            parser.add_argument(
                *argument.spellings,
                default=argparse.SUPPRESS,
                type=reader(argument),
                action="append" if argument.many else "store",
                metavar=argument.metavar,
                help=argument.help,
                **perhaps,
            )


def _placed(command: Command, words: list[str]) -> dict[str, Any]:
    """The words that stand alone, each where it belongs; ValueError if they are too few or too many."""
    values: dict[str, Any] = {}
    for argument in command.arguments:
        if argument.is_option:
            continue
        if not words and not argument.optional:
            raise ValueError(f"{argument.metavar} is missing")
        if argument.many:
            values[argument.attribute], words = [_value(argument, word) for word in words], []
        else:
            values[argument.attribute] = _value(argument, words[0]) if words else argument.default
            words = words[1:]
    if words:
        raise ValueError(f"{quoted(words[0])} is one word too many")
    return values


def _defaults(command: Command) -> dict[str, Any]:
    return {each.attribute: each.default for each in command.arguments if each.is_option}


def _value(argument: Argument, text: str) -> Any:
    """What a word says; ValueError, with the sentence, if it is none this argument can have."""
    if argument.kind == "number":
        if not (text.isascii() and text.isdigit() and len(text) < 10):
            raise ValueError(f"{quoted(text)} is not a whole number that is 0 or more")
        return int(text)
    if argument.kind == "amount":
        digits = text.replace(".", "", 1)
        if not (digits.isascii() and digits.isdigit() and len(digits) < 10 and digits.strip("0")):
            raise ValueError(f"{quoted(text)} is not an amount of dollars that is more than 0, such as 2.50")
        return float(text)
    if argument.choices and text not in argument.choices:
        near = did_you_mean(text, argument.choices)
        raise ValueError(f"{quoted(text)} is none of {', '.join(argument.choices)}{near}")
    if not text.isascii() and not _may_name_a_file(argument, text):
        try:
            text.encode()
        except UnicodeEncodeError:  # Python's way to keep a byte that it could not decode
            raise ValueError(f"{quoted(text)} is not UTF-8 text") from None
    return text


def _may_name_a_file(argument: Argument, text: str) -> bool:
    """Names of files may be any bytes. A message is text, but for the files in it."""
    kind = argument.completes.partition(":")[0]
    return kind in ("id", "deleted") or (kind == "file" and (not argument.many or text.startswith("@")))


def _looks_like_an_option(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _wrong_usage(sentence: str, command: Command, program: str, hint: str = "") -> UsageError:
    call = f"{program} {command.name}".strip()
    return UsageError(sentence, f"{hint}run `{call} --help`")
