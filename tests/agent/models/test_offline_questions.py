"""The offline model takes words for what people mean, or says that it does not know; and counts are true."""

import base64
import re

import pytest

from perdure.agent.models import OFFLINE
from perdure.agent.models.offline import NOTICE, NOTICE_WITHOUT_TOOLS, WHAT_IT_CAN
from perdure.agent.models.offline.question import question
from perdure.agent.models.registry import ModelRegistry
from perdure.agent.models.resolver import ModelResolver
from perdure.agent.settings import Settings
from perdure.front.commands import MODELS, TALK
from perdure.programs.pi import COMMANDS
from perdure.session.entry import Assistant
from tests.agent.models.offline_talk import calls, folder, places, said, talk

pytestmark = pytest.mark.process

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.mark.parametrize("line", [NOTICE, NOTICE_WITHOUT_TOOLS])
def test_its_notice_is_true_whether_or_not_a_model_is_set_up(line):
    """It cannot know; so it says only what it is, on one line, and how to get another."""
    assert line.startswith("The built-in `offline` model answers: no language model, but a program that ")
    assert "\n" not in line
    assert len(line) < 300


@pytest.mark.parametrize("line", [NOTICE, NOTICE_WITHOUT_TOOLS])
def test_each_variable_command_and_option_that_its_notice_names_does_what_it_says(line):
    """Each variable alone makes another model the default; the command lists, and the option chooses."""
    model, *others = re.findall(r"`([^`]+)`", line)
    assert model == OFFLINE
    variables = [re.sub("^export |=…$", "", name) for name in others if name.isupper() or "=" in name]
    assert len(variables) == len(others) - 2
    for variable in variables:
        registry = ModelRegistry(Settings(), home="/nonexistent", environment={variable: "127.0.0.1"})
        assert ModelResolver(registry).resolve().provider != OFFLINE
    command, option = others[-2:]
    assert f"`{command}` lists what there is, `{option}` chooses." in line
    program, verb = command.split()
    assert program == "pi"
    assert verb == MODELS.name in COMMANDS
    assert MODELS.summary.startswith("list ")
    (named,) = (argument for argument in TALK.arguments if option in argument.spellings)
    assert named.attribute == "model"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("what can you do?", ("help", "", "")),
        ("Who are you?", ("help", "", "")),
        ("what is 2+2", ("help", "", "")),
        ("how many files", ("count", "", "")),
        ("How many Python files are there?", ("count", "", "")),
        ("where are the tests?", ("tests", "", "")),
        ("and where is it defined", ("unclear", "it", "")),
        ("where is that function defined?", ("unclear", "that", "")),
        ("find `this`", ("search", "this", "")),
        ("Explain this code in German", ("survey", "", "")),
        ("list ..", ("list", "", "..")),
        ("explain ..", ("path", "", "..")),
        ("explain this code ...", ("survey", "", "")),
    ],
)
def test_plain_questions_are_not_taken_for_names(words, expected):
    """Nobody looks for a thing that is called `can` or `it`."""
    assert question(words)[:3] == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("how many files", "3 files: Python 3."),
        ("where are the tests?", "1 source file: `tests/` 1."),
        ("and where is it defined", "I do not know what `it` is"),
        ("explain this code in german", "I write only English, no German.\n\n## What this is"),
        ("def g(): pass\nexplain this", "has 1 line. It defines:\n\n- line 1: function `g`"),
        ("x = 1\nexplain this", "has 1 line, and no definition was recognised."),
        ("Thank you\nexplain this code", "## What this is"),
        ("what is 2+2", WHAT_IT_CAN),
    ],
)
def test_plain_questions_are_answered(tmp_path, words, expected):
    """About the folder, about what was piped in, or with what it cannot do."""
    folder(tmp_path, dict.fromkeys(("a.py", "src/b.py", "tests/test_a.py"), "def a(): pass\n"))
    assert expected in said(tmp_path, words)


def test_the_folder_above_is_listed_under_its_own_name(tmp_path):
    """Two dots at the end of a sentence are no full stop."""
    folder(tmp_path, {"inside/a.py": "", "beside.txt": ""})
    assert "`..`:\n\n- `beside.txt`\n- `inside/`" in said(tmp_path / "inside", "list ..")


def test_a_folder_above_is_described_by_whole_names(tmp_path):
    """What is in the working directory has shorter paths than the rest."""
    folder(tmp_path, {f"{name}/{sub}/x.py": "" for name in ("long_name", "in") for sub in ("a", "b")})
    (tmp_path / "other").mkdir()
    folder(tmp_path, {"other/x.py": ""})
    told = said(tmp_path / "long_name", "explain ..")
    assert {
        name for name in re.findall(r"`([^`]+)/` \d", told) if not name.startswith(str(tmp_path))
    } == set()


def test_a_big_file_is_read_on_to_its_main_class(tmp_path):
    """Past where one reading ends; and a class in which the last reading ends is there."""
    filler = "".join(f"    def method_{n}(self):\n        return {n}\n" for n in range(1500))
    last = 'def last():\n    """The end."""\n'
    folder(tmp_path, {"big.py": f'class Main:\n    """Everything."""\n{filler}\n\n{last}'})
    text = said(tmp_path, "explain big.py")
    assert "- `big.py:1` class `Main`: Everything." in text
    assert "function `last`: The end." in text
    folder(tmp_path, {"huge.py": f"class Main:\n{filler * 10}\n\n{last}"})
    messages = talk(tmp_path, "explain huge.py")
    assert "- `huge.py:1` class `Main`" in messages[-1].content[0].text
    assert "and more that was not read" in messages[-1].content[0].text
    assert sum(len(calls(each)) for each in messages if isinstance(each, Assistant)) < 8


def test_an_image_is_said_to_be_one(tmp_path):
    """Not a file of one line."""
    folder(tmp_path, {"dot.png": PIXEL})
    for words in ('<file name="dot.png"></file>\nwhat is this', "explain dot.png", "read ./dot.png"):
        assert "dot.png` is an image" in said(tmp_path, words)


# --- what is not the project's own --------------------------------------------------------------------


@pytest.mark.parametrize("others", ["_vendor", "vendor", "third_party", "node_modules"])
def test_other_peoples_code_does_not_describe_the_project(tmp_path, others):
    """Nor does it fill the definitions; it is counted, and caches are not."""
    files = {
        "own.py": "def own(): pass\n",
        f"pkg/{others}/enums.py": '"""All of the Enums."""\n' + "class E{0}: pass\n" * 5,
        f"pkg/{others}/__init__.py": '"""A library of somebody else."""\n',
        "__pycache__/own.cpython-311.pyc": b"\0",
    }
    text = said(folder(tmp_path, files), "explain this code")
    assert "No description was found" in text
    assert [name for _, _, name in places(text)] == ["own"]
    assert "1 file: Python 1 (2 more in folders of other people's code)." in text
    assert "A library of somebody else." in said(tmp_path, f"explain pkg/{others}")


def test_a_section_of_a_readme_does_not_describe_the_project(tmp_path):
    """A description that is declared does; without one, the first words are better than none."""
    readme = "# npm - a manager\n\n### Requirements\n\nYou should be running a version of it.\n"
    folder(tmp_path, {"README.md": readme, "a.js": "", "b.js": ""})
    assert "## What this is\n\nYou should be running" in said(tmp_path, "explain this code")
    folder(tmp_path, {"package.json": '{"description": "a package manager"}'})
    assert "## What this is\n\na package manager\n\n(from `package.json`)" in said(
        tmp_path, "explain this code"
    )


# --- what was found -----------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["(", "[", "{", "a,b}", "*", "?x", "!", "\\"])
def test_names_of_files_are_looked_for_as_they_are_written(tmp_path, words):
    """What means something in a glob means itself."""
    folder(tmp_path, {"plain.py": "nothing\n"})
    assert "Files whose names match" not in said(tmp_path, f"find `{words}`")
    folder(tmp_path, {f"odd{words}name": ""})
    listed = said(tmp_path, f"find `{words}`").partition("Files whose names match")[2]
    assert listed.count("\n- ") == 1


def test_counts_are_the_least_there_can_be_where_a_search_was_cut(tmp_path):
    """Lines, files and names."""
    folder(tmp_path, {f"total_{n:03}.txt": "total\n" for n in range(120)})
    text = said(tmp_path, "find total")
    assert "At least 100 lines in at least 100 files for the text `total`:" in text
    assert re.search(r"- and at least \d+ more files\n", text)
    assert "- and at least 35 more\n" in text
    assert "30 lines in 30 files for the text `total`:" in said(
        folder(tmp_path / "few", {f"{n}.txt": "total\n" for n in range(30)}), "find total"
    )


def test_definitions_are_all_counted_and_nothing_denies_them(tmp_path):
    """More than are shown are told of; and they are something that was found."""
    folder(tmp_path, {f"m{n}.py": "class Thing:\n    pass\n" for n in range(10)})
    text = said(tmp_path, "where is Thing defined")
    assert text.count("`class Thing:`") == 8
    assert "- and 2 more\n\nNo other line with it was found." in text
    assert "Nothing was found" not in text


def test_words_that_are_found_apart_are_shown(tmp_path):
    """Also when it was asked where they are."""
    folder(tmp_path, {"a.txt": "the retry of a policy\n"})
    assert "1 line in 1 file for the pattern `retry.*policy`" in said(tmp_path, "where is the retry policy")
