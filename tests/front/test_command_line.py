"""Options from words: the quick way and argparse say the same, and whatever is wrong is one sentence."""

import json
import re
import shlex
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.models import THINKING_LEVELS
from perdure.errors import UsageError
from perdure.front import command_line
from perdure.front.command_line import asks_for_help, help_of, help_of_all, parse
from perdure.front.commands import COMPLETION, SESSIONS, TALK, Argument, Command

COMMANDS = [*SESSIONS.values(), COMPLETION]
PROGRAM = "pi sessions"


def options_of(verb: str, *words: str) -> dict[str, object]:
    return vars(parse(SESSIONS[verb], words, PROGRAM))


def wrong(verb: str, *words: str) -> str:
    """What is said of a call that is wrong."""
    with pytest.raises(UsageError) as error:
        parse(SESSIONS[verb], words, PROGRAM)
    assert error.value.hint.endswith(f"run `pi sessions {verb} --help`")
    assert error.value.exit_code == 2
    return error.value.message


# --- right ------------------------------------------------------------------------------------------------


def test_what_is_left_out_has_its_default():
    """A verb finds an attribute for every argument of the table."""
    assert options_of("ls") == {"all": False, "program": "", "status": "", "limit": 20, "json": False}
    assert options_of("trash") == {"empty": False, "days": None, "yes": False, "json": False}
    assert options_of("doctor") == {"ids": [], "repair": False, "json": False}
    assert options_of("stats") == {"json": False}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["ls", "--all", "--limit", "0"], {"all": True, "limit": 0}),
        (["ls", "--limit=5", "--program=sibyl", "--json"], {"limit": 5, "program": "sibyl", "json": True}),
        (["ls", "--limit", "1", "--limit", "2"], {"limit": 2}),
        (["search", "flaky", "--all", "login"], {"query": ["flaky", "login"], "all": True}),
        (["search", "", "-"], {"query": ["", "-"]}),
        (["show", "--tree", "5f0c"], {"id": "5f0c", "tree": True}),
        (["rename", "5f0c", "a", "new", "name"], {"id": "5f0c", "name": ["a", "new", "name"]}),
        (["rename", "--json", "5f0c", "--", "--name", "--"], {"id": "5f0c", "name": ["--name", "--"]}),
        (["rm", "--", "-1", "--json"], {"ids": ["-1", "--json"], "json": False}),
        (["export", "5f0c", "-o", "-"], {"id": "5f0c", "output": "-", "to": "md"}),
        (["export", "5f0c", "-o", "", "--to", "html"], {"output": "", "to": "html"}),
        (["export", "5f0c", "--output=a=b"], {"output": "a=b"}),
        # and what only argparse reads
        (["export", "5f0c", "-ofile"], {"output": "file"}),
        (["export", "5f0c", "--out", "file"], {"output": "file"}),
        (["ls", "--lim", "3", "--prog=pi"], {"limit": 3, "program": "pi"}),
        (["search", "--a", "one", "--js", "two"], {"query": ["one", "two"], "all": True, "json": True}),
    ],
)
def test_words_become_options(words, expected):
    """In any order, joined or apart, options between the words that stand alone, and none behind `--`."""
    found = options_of(*words)
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(("text", "amount"), [("2", 2.0), ("2.50", 2.5), (".5", 0.5), ("0.0001", 0.0001)])
def test_an_amount_is_read_as_people_write_dollars(text, amount):
    assert parse(TALK, ["--max-cost", text], PROGRAM).max_cost == amount
    assert parse(TALK, [], PROGRAM).max_cost is None


@pytest.mark.parametrize(
    "text", ["0", "0.00", "-1", "", ".", "1e3", "nan", "inf", "$5", "1,5", "1.2.3", "٣", "9" * 10]
)
def test_what_is_no_amount_is_refused_with_the_option(text):
    with pytest.raises(UsageError, match="--max-cost"):
        parse(TALK, [f"--max-cost={text}"], PROGRAM)


@st.composite
def calls(draw) -> tuple[Command, list[str]]:
    """A verb and words that are often right for it: its options, near misses, values of all kinds."""
    command = draw(st.sampled_from([*COMMANDS, TALK]))
    spellings = [spelling for each in command.arguments if each.is_option for spelling in each.spellings]
    choices = [choice for each in command.arguments for choice in each.choices]
    values = [
        "",
        "-",
        "0",
        "7",
        "007",
        "٣",
        "1" * 12,
        "2.50",
        ".",
        "0.0",
        "-3",
        "a b",
        "-a b",
        "x=y",
        "--",
        "-x",
        "--x",
        *choices,
    ]
    word = st.sampled_from([*spellings, *spellings, *values])
    joined = st.builds("{}={}".format, st.sampled_from(spellings or ["--x"]), st.sampled_from(values))
    short = st.sampled_from(spellings or ["--x"]).map(lambda spelling: spelling[:-1])
    return command, draw(st.lists(st.one_of(word, word, joined, short, st.text(max_size=5)), max_size=6))


@given(calls())
def test_argparse_reads_alike_what_the_quick_way_accepts(call):
    """There are two ways to read a command line, and only one meaning."""
    command, words = call
    read, _ = command_line._divided(words)
    quick = command_line._read_quickly(command, read)
    if quick is not None:
        assert command_line._read_thoroughly(command, read, PROGRAM) == quick


@given(calls())
def test_whatever_is_typed_is_an_answer_or_wrong_usage(call):
    """Nothing else comes out of the parser: no other error, no exit, no option that is missing."""
    command, words = call
    try:
        found = vars(parse(command, words, PROGRAM))
    except UsageError:
        return
    assert set(found) == {argument.attribute for argument in command.arguments}
    for argument in command.arguments:
        value = found[argument.attribute]
        kinds = {"flag": bool, "number": int, "amount": float, "text": str, "perhaps": str}
        assert isinstance(value, list if argument.many else kinds[argument.kind]) or value == argument.default


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_examples_are_right(command):
    """Every example of the help is a call that is parsed, and the quick way is enough for it."""
    assert command.examples
    for example in command.examples:
        call = re.search(r"\{pi\} (?:sessions )?([^>|)#]+)", example)
        assert call
        name, *words = shlex.split(call[1])
        assert name == command.name
        assert command_line._read_quickly(command, words) is not None
        parse(command, words, PROGRAM)


@pytest.mark.process
def test_plain_calls_are_read_without_argparse():
    """Loading it takes longer than a listing."""
    code = (
        "import sys\n"
        "from perdure.front.command_line import parse\n"
        "from perdure.front.commands import SESSIONS\n"
        "parse(SESSIONS['ls'], ['--all', '--limit=3'], 'pi sessions')\n"
        "parse(SESSIONS['search'], ['words', '--since', '2w'], 'pi sessions')\n"
        "import json; print(json.dumps([name in sys.modules for name in ('argparse', 'typing', 'difflib')]))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout) == [False, False, False]


# --- wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["ls", "--lmit", "3"], "unknown option '--lmit': did you mean --limit?"),
        (["ls", "--hlp"], "unknown option '--hlp': did you mean --help?"),
        (["ls", "--limit", "x"], "--limit: 'x' is not a whole number that is 0 or more"),
        (["ls", "--limit", "-1"], "--limit: '-1' is not a whole number that is 0 or more"),
        (["ls", "--program", "soler"], "did you mean soleur?"),
        (["ls", "--program", "x"], "--program: 'x' is none of pi, aurora, soleur, sibyl, cortext"),
        (["ls", "--limit"], "--limit: expected one argument"),
        (["ls", "--limit", "--all"], "--limit: expected one argument"),
        (["search", "x", "--since=--"], "'--' cannot be since"),
        (["ls", "--status", "interupted"], "did you mean interrupted?"),
        (["ls", "--p", "pi", "--all=yes"], "--all: ignored explicit argument 'yes'"),
        (["ls", "extra"], "'extra' is one word too many"),
        (["show"], "ID is missing"),
        (["show", "a", "b"], "'b' is one word too many"),
        (["rename", "5f0c"], "NAME is missing"),
        (["rm", "--"], "ID is missing"),
        (["search", "--all"], "WORD is missing"),
        (["export", "x", "--to", "mkd"], "did you mean md?"),
        (["stats", "\x1b[31m" * 100], "is one word too many"),
    ],
)
def test_wrong_usage_is_one_sentence(words, sentence):
    """It names what is wrong, and what was meant where that is near."""
    said = wrong(*words)
    assert sentence in said
    assert len(said) < 200
    assert said.isprintable()


def test_a_word_with_a_dash_is_told_how_to_be_one():
    """An id or a word to search may begin like an option; the hint says how to write it then."""
    with pytest.raises(UsageError) as error:
        parse(SESSIONS["search"], ["-foo bar"], PROGRAM)
    assert error.value.message == "unknown option '-foo bar'"
    assert "comes after `--`" in error.value.hint
    assert options_of("search", "--", "-foo bar")["query"] == ["-foo bar"]


# --- help -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
@pytest.mark.parametrize("columns", [40, 80, 200])
def test_help_says_all_there_is(command, columns):
    """Usage, what it does, every argument with its meaning, and examples, on lines that fit."""
    text = help_of(command, "perdure sessions", columns)
    assert text.startswith(f"usage: perdure sessions {command.name}")
    in_a_row = " ".join(text.split())
    assert " ".join(command.summary.split()) in in_a_row
    for argument in command.arguments:
        assert all(spelling in text for spelling in argument.spellings if argument.is_option)
        assert argument.help in in_a_row
    examples = [example.format(pi="perdure") for example in command.examples]
    assert text.endswith("\n".join(["examples:", *(f"  {example}" for example in examples)]))
    if columns >= 80:
        assert max(map(len, text.splitlines())) < columns


def test_the_list_of_verbs_fits_a_terminal():
    """One line a verb, 80 columns."""
    lines = help_of_all(SESSIONS, "pi sessions").splitlines()
    for name, command in SESSIONS.items():
        assert [line for line in lines if line.startswith(f"  {name} ") and line.endswith(command.summary)]
    assert max(map(len, lines)) < 80


@pytest.mark.parametrize(
    ("words", "asked"),
    [([], False), (["-h"], True), (["x", "--help"], True), (["--", "--help"], False), (["--hel"], False)],
)
def test_help_is_asked_for_anywhere_before_the_end_of_options(words, asked):
    """Also behind words that would be wrong."""
    assert asks_for_help(words) is asked


# --- the table --------------------------------------------------------------------------------------------


def test_the_verbs_are_those_of_the_design():
    """All eleven, each with --json, each named like its module and its function."""
    verbs = ["ls", "show", "search", "rename", "fork", "export", "rm", "trash", "restore", "doctor", "stats"]
    assert list(SESSIONS) == verbs
    for name, command in SESSIONS.items():
        assert command.runs == f"perdure.front.commands.{name}:{name}"
        assert [argument.attribute for argument in command.arguments].count("json") == 1


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_the_table_makes_sense(command):
    """Nothing that takes all words stands before another, no two arguments share a name, flags have none."""
    alone = [argument for argument in command.arguments if not argument.is_option]
    assert not any(argument.many or argument.optional for argument in alone[:-1])
    names = [argument.attribute for argument in command.arguments]
    assert len(names) == len(set(names))
    for argument in command.arguments:
        assert argument.kind in ("flag", "text", "number")
        assert bool(argument.metavar) == (argument.kind != "flag")
        assert argument.completes in ("", "id", "deleted", "file")


@pytest.mark.parametrize("spelling", ["--append-system-prompt", "--append-system"])
def test_an_option_that_may_be_given_several_times_is_a_list(spelling):
    """In the order it was given, whoever reads it; and the table's default stays empty."""
    words = [spelling, "one", "hello", f"{spelling}=two"]
    assert parse(TALK, words, PROGRAM).append_system_prompt == ["one", "two"]
    assert not parse(TALK, ["hello"], PROGRAM).append_system_prompt


def test_the_levels_of_thinking_are_those_of_models():
    """The table may not load what knows them."""
    (thinking,) = (argument for argument in TALK.arguments if argument.name == "--thinking")
    assert thinking.choices == THINKING_LEVELS


def test_an_argument_is_called_by_its_long_name():
    """Without dashes, so that it can be an attribute."""
    assert Argument("-o/--output-file", "").attribute == "output_file"
    assert Argument("ids", "").attribute == "ids"
