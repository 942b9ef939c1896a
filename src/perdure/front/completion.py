"""Completion in shells, by one truth: the scripts are thin, and ask the program itself at each Tab.

    perdure complete bash LINE BREAKS     the line up to the cursor, and the characters bash breaks words at
    perdure complete zsh|fish WORD...     the words behind the program's name, the last up to the cursor
    perdure complete zsh:soleur WORD...   the same for another program

Each line of the answer is a candidate, for zsh and fish with a tab and what it means; `:files` asks the shell
for the names of files. The scripts always call `perdure`, in the folder of the `pi` that was typed if it was
typed with one: on some machines `pi` is another program, which would take the question for a prompt.

A shell puts what it is offered on a command line, so only such ids are offered as no shell reads anything
into. And nobody wants to read an error while typing: what cannot be found out is not offered.
"""

from __future__ import annotations

import re
from collections import Counter, namedtuple
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import SimpleNamespace

from perdure import registry
from perdure.front.command_line import END_OF_OPTIONS
from perdure.front.commands import ALONE, SESSIONS, TALK, Argument, Command
from perdure.front.output import Copyable, Output

_FILES = ":files"
_HELP_OPTION = {"--help": "show what there is"}
_HARMLESS = re.compile(r"[\w.][\w.:/@+-]*")
_OTHERS: Mapping[str, tuple[str, str | None]] = {
    "aur": ("perdure.programs.aur.commands:COMMANDS", None),
    "cortext": ("perdure.programs.cortext.commands:COMMANDS", None),
    "sibyl": ("perdure.programs.sibyl.commands:COMMANDS", ""),
    "soleur": ("perdure.programs.soleur.commands:COMMANDS", "spar"),
}
"""Programs with tables of their own."""


class Candidate(namedtuple("Candidate", "text meaning", defaults=("",))):
    __slots__ = ()

    text: str
    meaning: str


def completion(options: SimpleNamespace, out: Output) -> int:
    """`pi completion SHELL`: the script for that shell."""
    out.line(Copyable(_SCRIPTS[options.shell].strip()))
    return 0


def complete(arguments: Sequence[str], commands: Mapping[str, str], out: Output) -> int:
    """`pi complete SHELL …`: what could stand where the cursor is, in a program that has these commands."""
    try:
        (shell, _, program), *words = arguments[0].partition(":"), *arguments[1:]
        is_quoted, breaks = False, ""
        if shell == "bash":
            line, breaks = words
            program, words, is_quoted = _split(line)
        *before, current = words
        found = candidates(before, current, commands, program)
    except Exception:
        return 0  # see above
    # bash replaces only what is behind the last of these characters
    at_break = [current.rfind(each) + 1 for each in ":=" if each in breaks and not is_quoted]
    for candidate in found:
        text = candidate.text if candidate.text == _FILES else candidate.text[max(at_break, default=0) :]
        out.line(text, f"\t{candidate.meaning}" if candidate.meaning and shell != "bash" else "")
    out.flush()
    return 0


def candidates(
    before: Sequence[str], current: str, commands: Mapping[str, str], program: str = "pi"
) -> list[Candidate]:
    """What could stand in place of `current`, behind the words before it. The commands are pi's; those of the
    other programs are in their tables."""
    match before:
        case _ if program in _OTHERS:
            found = _of_other(*_OTHERS[program], before, current)
        case []:
            version = _listed({"--version": "show the version"})
            is_option = current.startswith("-")
            found = chain(version, _of_command(TALK, [], current)) if is_option else _listed(commands)
        case ["sessions"]:
            verbs = {name: command.summary for name, command in SESSIONS.items()}
            found = _listed(_HELP_OPTION if current.startswith("-") else verbs)
        case ["sessions", verb, *rest] if verb in SESSIONS:
            found = _of_command(SESSIONS[verb], rest, current)
        case [command, *rest] if command in commands and command in ALONE:
            found = _of_command(ALONE[command], rest, current)
        case [command, *_] if command in commands:
            found = iter(())
        case _:
            found = _of_command(TALK, before, current)
    return [each for each in found if each.text.startswith(current) or each.text == _FILES]


def _of_other(table: str, usual: str | None, before: Sequence[str], current: str) -> Iterator[Candidate]:
    """`usual` is the command that is meant where none is named; None if one must be."""
    commands: Mapping[str, Command] = registry.load(table)
    if before and before[0] in commands:
        return _of_command(commands[before[0]], before[1:], current)
    named = {name: command.summary for name, command in commands.items() if name and not before}
    version = {} if before or not current.startswith("-") else {"--version": "show the version"}
    unnamed = () if usual is None else _of_command(commands[usual], before, current)
    return chain(_listed(named | version), unnamed)


def _of_command(command: Command, before: Sequence[str], current: str) -> Iterator[Candidate]:
    options = {spelling: each for each in command.arguments if each.is_option for spelling in each.spellings}
    alone = []
    wanted: Argument | None = None
    are_options_over = False
    for word in before:
        if wanted:
            wanted = None
        elif word == END_OF_OPTIONS:
            are_options_over = True
        elif not are_options_over and word.startswith("-"):
            wanted = options[word] if word in options and options[word].kind != "flag" else None
        else:
            alone.append(word)
    name, is_joined, _ = current.partition("=")
    if wanted:
        yield from _values(wanted, current)
    elif are_options_over or not current.startswith("-"):
        places = [each for each in command.arguments if not each.is_option]
        place = places[min(len(alone), len(places) - 1)] if places else None
        if place and (place.many or len(alone) < len(places)):
            yield from (each for each in _values(place, current) if each.text not in alone)
    elif not is_joined:
        yield from _listed({spelling: each.help for spelling, each in options.items()} | _HELP_OPTION)
    elif name in options:
        for each in _values(options[name], current.partition("=")[2]):
            yield each if each.text == _FILES else each._replace(text=f"{name}={each.text}")


def _values(argument: Argument, current: str) -> Iterator[Candidate]:
    kind, _, program = argument.completes.partition(":")
    match kind:
        case "id" if program:
            from perdure.session.reference import listed

            refs = (ref for home, ref in listed() if home.program == program)
            yield from (Candidate(ref.id) for ref in refs if _HARMLESS.fullmatch(ref.id))
        case "id":
            from perdure.session.reference import listed

            yield from _ids(((home.program, ref.id) for home, ref in listed()), current)
        case "deleted":
            from perdure.session.reference import deleted

            references = [each.reference.partition(":") for each in deleted()]
            yield from _ids(((program, id) for program, _, id in references), current)
        case "model":
            from perdure.agent.models.registry import ModelRegistry

            models = ModelRegistry()
            yield from (Candidate(each.reference) for each in models.models() if models.is_usable(each))
        case "server":
            from perdure.agent.settings import Settings

            yield from (Candidate(name) for name in Settings.load().mcp_servers if _HARMLESS.fullmatch(name))
        case "names":
            yield from (Candidate(name) for name in registry.load(program)() if _HARMLESS.fullmatch(name))
        case "file":
            yield Candidate(_FILES)
        case _:
            yield from map(Candidate, argument.choices)


def _ids(sessions: Iterable[tuple[str, str]], current: str) -> Iterator[Candidate]:
    """Bare ids where they are enough; with the program where they are not, or where it was begun to type."""
    harmless = sorted({(id, program) for program, id in sessions if _HARMLESS.fullmatch(id)})
    count = Counter(id for id, _ in harmless)
    for id, program in harmless:
        reference = f"{program}:{id}"
        if count[id] == 1 and id.startswith(current):
            yield Candidate(id)
        elif count[id] > 1 or current:
            yield Candidate(reference)


def _listed(meanings: Mapping[str, str]) -> Iterator[Candidate]:
    return (Candidate(text, meaning) for text, meaning in meanings.items())


def _split(line: str) -> tuple[str, list[str], bool]:
    """The program, the words behind it, the last as far as it was typed, and whether in quotes."""
    import shlex

    end = "\0"  # so that a word that was not begun is one, too
    for quote in ("", '"', "'"):
        try:
            program, *words, current = shlex.split(line + end + quote)
        except ValueError:
            continue
        return program.rpartition("/")[2], [*words, current.removesuffix(end)], bool(quote)
    return "", [], False


_SCRIPTS = {
    "bash": r"""
_perdure_complete() {
    local program=perdure candidate
    case $1 in */*) program=${1%/*}/perdure ;; esac
    program=${program/#\~/$HOME}
    COMPREPLY=()
    while IFS= read -r candidate; do
        case $candidate in
            '') ;;
            :files) compopt -o default 2>/dev/null ;;
            *) COMPREPLY+=("$candidate") ;;
        esac
    done <<< "$("$program" complete bash "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)"
}
complete -F _perdure_complete pi perdure soleur sibyl aur cortext
""",
    "zsh": r"""
#compdef pi perdure soleur sibyl aur cortext
_perdure_complete() {
    local program=perdure candidate
    local -a found
    [[ $words[1] == */* ]] && program=${~words[1]:h}/perdure
    local -a typed=("${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}")
    for candidate in "${(@f)$("$program" complete "zsh:${words[1]:t}" "${typed[@]}" 2>/dev/null)}"; do
        case $candidate in
            '') ;;
            :files) _files ;;
            *) found+=("${${candidate%%$'\t'*}//:/\\:}${${(M)candidate%%$'\t'*}:+:${candidate#*$'\t'}}") ;;
        esac
    done
    (( $#found )) && _describe perdure found
}
if (( $+compstate )); then  # from a file in $fpath
    _perdure_complete "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }
    compdef _perdure_complete pi perdure soleur sibyl aur cortext
fi
""",
    "fish": r"""
function __perdure_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct | string trim --left --chars "'\"")
    set -l program perdure
    string match -q '*/*' -- $words[1]; and set program (dirname -- $words[1])/perdure
    command -q $program; or return
    for candidate in ($program complete fish:(basename -- $words[1]) $words[2..-1] "$current" 2>/dev/null)
        if test "$candidate" = :files
            __fish_complete_path $current
        else
            echo $candidate
        end
    end
end
for name in pi perdure soleur sibyl aur cortext
    complete -c $name -f -a '(__perdure_complete)'
end
""",
}
