"""The offline model: it answers truthfully, through real tools, about any folder, and never fails."""

import asyncio
import os
import re
import subprocess
import sys
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import perdure
from perdure.agent.models import Finished, Request
from perdure.agent.models.offline import WHAT_IT_CAN, WITHOUT_TOOLS
from perdure.agent.models.offline.project import commands_in, first_paragraph
from perdure.agent.models.offline.question import question
from perdure.agent.models.offline.source import is_test, source
from perdure.agent.models.offline.summary import requested
from perdure.agent.tokens import of_message, of_text, used
from perdure.agent.tools import AgentToolResult
from perdure.session.context import INTERRUPTED
from perdure.session.entry import Assistant, Text, ToolResult, User, text_of
from perdure.session.record import dumps
from tests.agent.models.offline_talk import MODEL, TOOLS, answer, calls, folder, places, said, talk
from tests.effort import FEW

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[3]

# --- a folder explained -------------------------------------------------------------------------------


def test_this_repository_is_described_as_it_is():
    """All that an answer has to have; and every place it names is there."""
    text = said(ROOT, "explain this code")
    assert text.startswith("## What this is")
    assert "Conversations with AI agents that last." in text
    assert "`perdure.programs.pi:main`, `src/perdure/programs/pi.py:" in text
    assert re.search(r"Python \d{3}", text)
    assert re.search(r"## Tests\n\n\d{2,3} source files: `tests/`", text)
    assert "`make test`" in text
    assert len(text.splitlines()) <= 60
    found = places(text)
    assert len(found) >= 5
    names = {name for _, _, name in found}
    assert "main" in names
    assert len(names & {*perdure.__all__, "Entry"}) >= 3  # what it chose is what the package hands out
    for path, line, name in found:
        assert re.search(rf"(?:class|def) {name}\b", (ROOT / path).read_text().splitlines()[int(line) - 1])


JAVASCRIPT = {
    "README.md": "# shop\n\n[![build](b.svg)](x)\n\nA shop for small things that you can run yourself.\n",
    "package.json": '{"name": "shop", "bin": {"shop": "./bin/shop.js"}, "main": "src/index.js",'
    ' "scripts": {"test": "node --test", "start": "node ."}}',
    "bin/shop.js": '#!/usr/bin/env node\nimport { serve } from "../src/index.js";\nserve();\n',
    "src/index.js": 'import { Cart } from "./cart.js";\n\n/** Answer requests until told to stop. */\n'
    "export function serve() {}\nexport const close = () => {};\n",
    "src/cart.js": "/**\n * What somebody wants to buy.\n */\nexport class Cart {}\n"
    "export function total(cart) {}\n",
    "src/price.js": "// in cents\nexport async function price(name) {}\nfunction hidden() {}\n",
    "test/cart.test.js": "import { Cart } from '../src/cart.js';\n",
    "node_modules/left/index.js": "export function left() {}\n",
}
GO = {
    "README.rst": "ferry\n=====\n\n.. image:: x.svg\n\n"
    "Ferry carries files across a network, whole or not at all.\n",
    "go.mod": "module example.org/ferry\n\ngo 1.22\n",
    "main.go": "package main\n\n// main starts the ferry.\nfunc main() {}\n",
    "internal/boat/boat.go": "package boat\n\n// Boat carries one file.\ntype Boat struct{}\n\n"
    "// Cross goes over.\nfunc (b *Boat) Cross() error { return nil }\n\nfunc New() *Boat { return nil }\n"
    "func sink() {}\n",
    "internal/boat/boat_test.go": "package boat\nfunc TestCross() {}\n",
    "internal/port/port.go": "package port\n\n// Open waits for boats.\nfunc Open() {}\n",
}
RUST = {
    "README.md": "# quill\n\nQuill writes letters from templates, quickly and in any language.\n",
    "Cargo.toml": '[package]\nname = "quill"\n\n[[bin]]\nname = "quill"\npath = "src/main.rs"\n',
    "src/main.rs": "fn main() {}\n",
    "src/lib.rs": "pub mod ink;\n\n/// A letter to somebody.\npub struct Letter;\n\n"
    "/// Writes it.\npub fn write() {}\n",
    "src/ink.rs": "/// How dark it is.\n#[derive(Debug)]\npub enum Ink {}\npub trait Flow {}\nfn dry() {}\n",
    "tests/letters.rs": "#[test]\nfn it_writes() {}\n",
}
FOLDERS = [
    (
        JAVASCRIPT,
        {
            "A shop for small things",
            "JavaScript 5",
            "1 more in folders of other people's code",
            "`shop`: `./bin/shop.js`",
            "`src/cart.js:4` class `Cart`: What somebody wants to buy.",
            "`src/index.js:4` function `serve`: Answer requests until told to stop.",
            "1 source file: `test/` 1",
            "`npm test`: node --test",
        },
    ),
    (
        GO,
        {
            "Ferry carries files across a network",
            "Go 4",
            "- `main.go`",
            "`main.go:4` function `main`: main starts the ferry.",
            "`internal/boat/boat.go:4` type `Boat`: Boat carries one file.",
            "1 source file: `internal/boat/` 1",
            "- `go test ./...`: run the tests",
        },
    ),
    (
        RUST,
        {
            "Quill writes letters",
            "Rust 4",
            "`quill`: `src/main.rs`",
            "`src/lib.rs:4` struct `Letter`: A letter to somebody.",
            "`src/ink.rs:3` enum `Ink`: How dark it is.",
            "1 source file: `tests/` 1",
            "`cargo test`",
        },
    ),
]


@pytest.mark.parametrize(("files", "expected"), FOLDERS, ids=["javascript", "go", "rust"])
@pytest.mark.parametrize("words", ["explain this code", "What is this?", "how is this project organised"])
def test_other_languages_are_described_by_how_they_look(tmp_path, files, expected, words):
    """README, languages, entry points, five definitions where they are, tests, commands."""
    text = said(folder(tmp_path, files), words)
    assert [each for each in expected if each not in text] == []
    assert len(places(text)) >= 5
    for path, line, name in places(text):
        assert name in (tmp_path / path).read_text().splitlines()[int(line) - 1]


def test_an_empty_folder_is_said_to_be_empty(tmp_path):
    """Nothing is made up about nothing."""
    assert "`.` is empty" in said(tmp_path, "explain this code")


def test_a_folder_with_one_file_is_that_file(tmp_path):
    """Its own words, and what it defines."""
    folder(
        tmp_path, {"tool.py": '"""Counts sheep until one sleeps."""\n\ndef count():\n    """One by one."""\n'}
    )
    text = said(tmp_path, "explain this code")
    assert "Counts sheep until one sleeps." in text
    assert "- `tool.py:3` function `count`: One by one." in text


def test_hostile_names_and_bytes_do_no_harm(tmp_path):
    """Binary junk, names that are no text, broken code and broken manifests are passed over."""
    folder(
        tmp_path,
        {
            "junk.py": bytes(range(256)) * 10,
            "broken.py": "def f(:\n  '\\d'\nclass Whole:\n    pass\n",
            "nul.py": "x = '\0'\ndef g(): pass\n",
            "deep.py": "(" * 5000 + "\n",
            "package.json": "[[[",
            "pyproject.toml": "[project\nscripts = 7",
            "Cargo.toml": "package = 3",
            "README.md": b"\xff\xfe\x00",
            "pipe.txt": "",
        },
    )
    os.mkfifo(tmp_path / "waits")
    (tmp_path / os.fsdecode(b"caf\xe9.py")).write_text("def h(): pass\n")
    text = said(tmp_path, "explain this code")
    assert "Languages" in text
    text.encode("utf-8")


def test_a_huge_folder_takes_a_bounded_number_of_calls_and_says_so(tmp_path):
    """However many files there are."""
    for part in range(20):
        long = "long_" * 20
        folder(tmp_path, {f"part{part:02}/{long}{n:03}.py": "def work(): pass\n" for n in range(50)})
    (tmp_path / "README.md").write_text("A thousand modules that all do the same work.\n")
    messages = talk(tmp_path, "explain this code")
    results = [message for message in messages if isinstance(message, ToolResult)]
    assert len(results) < 40
    assert sum(len(text_of(each.content)) for each in results) < 250_000
    text = messages[-1].content[0].text
    assert "these counts are the least there can be" in text
    assert "A thousand modules" in text
    assert len(places(text)) >= 5


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ((), WITHOUT_TOOLS),
        (("bash",), "Tools that are off: without `find` it could not"),
        (("read",), "A shop for small things"),
        (("ls",), "without `read` it could not read the README"),
        (("grep",), "`src/cart.js:4` class `Cart`"),
        (("find", "grep"), "`src/cart.js:4` class `Cart`"),
    ],
)
def test_tools_that_are_off_are_done_without(tmp_path, names, expected):
    """It says what it could not do, and calls nothing that is not there."""
    messages = talk(folder(tmp_path, JAVASCRIPT), "explain this code", names)
    assert {call.name for each in messages if isinstance(each, Assistant) for call in calls(each)} <= {*names}
    assert expected in messages[-1].content[0].text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("find shop", "Looking for something takes `grep` or `find`; this session has no such tool."),
        ("how many files", "Counting files takes `find`; this session has no such tool."),
        ("read README.md", "Reading a file takes `read`; this session has no such tool."),
        ("list src", "Listing a folder takes `ls`; this session has no such tool."),
        ("explain src", "Looking for something takes `grep` or `find`; this session has no such tool."),
        (
            "explain src/cart.js",
            "Looking at a file or a folder takes `read` or `ls`; this session has no such",
        ),
    ],
)
def test_a_question_says_which_tool_it_takes(tmp_path, words, expected):
    """Where that is off, and no other would do."""
    assert expected in said(folder(tmp_path, JAVASCRIPT), words, ("bash",))


@pytest.mark.parametrize(
    "words",
    [
        "explain this code",
        "find shop",
        "read README.md",
        "run make",
        "fix it",
        "help",
        "def g(): pass\nexplain this",
    ],
)
def test_without_any_tool_it_says_that_it_has_none_and_nothing_else(tmp_path, words):
    """No folder, no search, no file: whoever has no tools here has none to switch on either."""
    assert said(folder(tmp_path, JAVASCRIPT), words, ()) == f"{WITHOUT_TOOLS}\n"


def test_failing_tools_do_not_stop_it(tmp_path):
    """An interrupted call is an error like any; it is not made again."""

    async def interrupted(*_):
        return AgentToolResult(INTERRUPTED, is_error=True)

    messages = talk(tmp_path, "explain this code", run=interrupted)
    answers = [message for message in messages if isinstance(message, Assistant)]
    made = [f"{call.name} {call.arguments}" for each in answers for call in calls(each)]
    assert len(made) == len({*made})
    assert text_of(messages[-1].content)


@FEW
@given(results=st.lists(st.tuples(st.text(), st.booleans()), min_size=1), words=st.text())
def test_it_answers_whatever_tools_say_and_users_ask(results, words):
    """No text leads to an exception, to calls without end, or to text that cannot be sent."""
    for asked in ("explain this code", f"find {words}", f"what does {words} do", f"read {words}", words):
        told = cycle(results)

        async def run(*_, told=told):
            text, is_error = next(told)
            return AgentToolResult(text, is_error=is_error)

        said("/", asked, run=run).encode("utf-8")


# --- other questions ----------------------------------------------------------------------------------


def test_text_is_found_with_files_and_lines(tmp_path):
    """Grouped by file, sources before tests, with the files that are called like it."""
    files = {
        "src/total.py": "def total(items):\n    return sum(items)\n",
        "src/bill.py": "from src.total import total\nprint(total([1]))\n",
        "tests/test_bill.py": "total\n",
        "notes.txt": "subtotal\n",
    }
    text = said(folder(tmp_path, files), "who calls total")
    assert "- `src/total.py:1` `def total(items):`" in text
    assert "- `src/bill.py`\n  - 1: `from src.total import total`\n  - 2: `print(total([1]))`" in text
    assert "subtotal" not in text
    assert text.index("src/bill.py") < text.index("tests/test_bill.py")
    assert "Files whose names match `total`:\n\n- `src/total.py`" in text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("find nothing_like_this", "Nothing was found for the text `nothing_like_this`."),
        ("find a.b", "- `x.txt`\n  - 1: `a.b`"),
        ("grep `a.+b`", "- `x.txt`\n  - 1: `a.b`"),
        ("find files named *.txt", "- `x.txt`"),
        ("find files named *.nix", "No file has a name that matches `*.nix`."),
        ("list", "- `deep/`\n- `x.txt`"),
        ("list deep", "- `y.py`"),
        ("ls deep", "- `y.py`"),
        ("read x.txt", "```txt\na.b\naxb\n```"),
        ("show y.py", "`deep/y.py`:"),
        ("read gone.txt", "`gone.txt` could not be read: "),
        ("explain deep", "`deep/y.py:1` class `Yes`"),
        ("explain @deep/y.py", "`deep/y.py:1` class `Yes`"),
        ("what does Yes do?", "class Yes:\n    pass"),
        ("run rm -rf /", "I do not run commands"),
        ("fix the bug in x.txt", "takes a language model"),
        ("hello", WHAT_IT_CAN),
        ("", WHAT_IT_CAN),
    ],
)
def test_small_questions(tmp_path, words, expected):
    """Each kind of question it knows, and what it says to the rest."""
    folder(tmp_path, {"x.txt": "a.b\naxb\n", "deep/y.py": "class Yes:\n    pass\n"})
    text = said(tmp_path, words)
    assert expected in text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("explain this code", ("survey", "", "")),
        ("Could you please give me an overview of this repo?", ("survey", "", "")),
        ("how do I run the tests?", ("survey", "", "")),
        ("write a summary of this project", ("survey", "", "")),
        ("explain @src/a.py", ("path", "", "src/a.py")),
        ("describe src/perdure", ("path", "", "src/perdure")),
        ("can you explain what main.go does?", ("path", "", "main.go")),
        ("what does the Session class do", ("topic", "Session", "")),
        ("explain how sessions are stored", ("topic", "sessions stored", "")),
        ("search for foo bar in src/x.py", ("search", "foo bar", "src/x.py")),
        ("find all usages of new_id in this repo", ("callers", "new_id", "")),
        ("where is `parse()` defined?", ("defined", "parse()", "")),
        ("which files contain Entry", ("search", "Entry", "")),
        ("find *.py", ("files", "*.py", "")),
        ("show me README", ("read", "", "README")),
        ("what files are there", ("list", "", "")),
        ('<file name="a/b.py">\nx = 1\n</file>\nexplain this', ("path", "", "a/b.py")),
    ],
)
def test_questions_are_told_apart(words, expected):
    """The kind, what it is about, and where."""
    assert question(words)[:3] == expected


def test_text_that_is_piped_in_is_what_is_explained(tmp_path):
    """It stands before the words of the command line."""
    text = said(
        tmp_path, "import os\n\n\ndef first():\n    '''One.'''\n\nclass Second: pass\nexplain this code"
    )
    assert "- line 4: function `first`: One." in text
    assert "- line 7: class `Second`" in text


def test_only_the_last_question_counts(tmp_path):
    """What was found for an earlier one is not taken for the next."""
    folder(tmp_path, {"a.py": "def one(): pass\n"})
    before = talk(tmp_path, "find one")
    folder(tmp_path, {"b.py": "def one(): pass\n"})
    after = talk(tmp_path, "find one", before=before)
    assert "b.py" not in before[-1].content[0].text
    assert "b.py" in after[-1].content[0].text
    ids = [call.id for each in after if isinstance(each, Assistant) for call in calls(each)]
    assert len(ids) == len({*ids})
    assert all(re.fullmatch("[a-z0-9]{9}", id) for id in ids)


def test_the_same_conversation_gets_the_same_pieces_in_lines(tmp_path):
    """Deterministic; text comes line by line, and tokens are counted."""
    tools = [TOOLS["grep"].spec]

    async def pieces():
        return [piece async for piece in MODEL.stream(Request(messages=[User("hello")], tools=tools))]

    first, second = asyncio.run(pieces()), asyncio.run(pieces())
    assert first == second
    *text, end = first
    assert len(text) == len(WHAT_IT_CAN.splitlines())
    assert all(piece.text.count("\n") == 1 for piece in text)
    assert end == Finished("stop", end.usage)
    sent = of_text("hello") + of_text(dumps(tools).decode())
    assert (end.usage.input, end.usage.output) == (sent, of_text("".join(piece.text for piece in text)))


def test_calls_and_tools_are_counted_too(tmp_path):
    """As the agent counts them where no provider does."""
    asked, called, result, *_ = talk(tmp_path, "find one", ("grep",))
    specs = of_text(dumps([TOOLS["grep"].spec]).decode())
    assert used(called, "input") == of_message(asked) + specs
    assert used(called, "output") == of_message(called) > 5
    after = asyncio.run(answer([asked, called, result], ("grep",)))
    assert used(after, "input") == sum(map(of_message, (asked, called, result))) + specs


def test_it_is_light_to_load():
    """No HTTP client and no parser is loaded to say what it is."""
    program = (
        "import sys, asyncio\n"
        "from perdure.agent.models import Model, Request\n"
        "from perdure.agent.models.offline import respond\n"
        "before = set(sys.modules)\n"
        "from perdure.session.entry import User\n"
        "respond(Request(messages=[User('explain this code')], tools=()))\n"
        "print(sorted(name for name in set(sys.modules) - before if not name.startswith('perdure')))\n"
        "print(sorted({'httpx2', 'tomllib', 'rich'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n[]\n"


# --- parts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "# T\n\nA real paragraph of words.",
            "A real paragraph of words.",
        ),
        (
            "T\n=\n\n[![a](b)](c) ![d](e)\n\n<p><img src=x></p>\n\nWords come after badges.",
            "Words come",
        ),
        ("# T\n\nA résumé.\n", "A résumé."),
        ("Test\n====\n\nA tool.", "A tool."),
        ("<h1>T</h1>\n\n[English](a) | [Deutsch](b)\n\nA tool.", "A tool."),
        ("> A motto in a quotation\n\nAnd what follows it.", "A motto in a quotation And what follows it."),
        (
            "---\ntitle: x\n---\n\n- a list\n\n```\ncode\n```\n\nThe [first](x) prose of it.",
            "The first prose of it.",
        ),
        ("<!-- hidden words that nobody sees -->\n", ""),
        ("", ""),
    ],
)
def test_a_readme_begins_with_its_first_real_paragraph(text, expected):
    """After titles, badges, comments, lists and code."""
    assert first_paragraph(text).startswith(expected)
    assert bool(first_paragraph(text)) == bool(expected)


def test_commands_are_those_of_blocks_of_code():
    """With or without a prompt; not the words around them, nor output."""
    readme = "run make now\n\n```console\n$ make test\nok\n$ pip install x\n```\n\n```python\nmake = 1\n```\n"
    assert commands_in(readme) == ["make test", "pip install x"]


def test_a_file_that_was_cut_is_read_as_far_as_it_is_whole():
    """The statement in which the cut is does not spoil those before it, and is known by its first line."""
    found = source("a.py", 'class A:\n    """Is whole."""\n\n\n@cache\ndef b():\n    return (1,\n')
    assert [(one.name, one.line, one.doc) for one in found.definitions] == [
        ("A", 1, "Is whole."),
        ("b", 6, ""),
    ]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("tests/test_a.py", True),
        ("src/a_test.go", True),
        ("web/a.spec.ts", True),
        ("src/test/java/ATest.java", True),
        ("src/testing/corpus.py", False),
        ("tests/golden/a.json", False),
        ("src/contest.py", False),
    ],
)
def test_tests_are_known_by_their_places_and_names(path, expected):
    """As each language has it."""
    assert is_test(path) == expected


def test_a_turn_that_was_condensed_goes_on(tmp_path):
    """The question is then in the summary, word for word."""
    folder(tmp_path, {"a.py": "def one(): pass\n"})
    text = (
        "Earlier parts of this conversation were condensed. What they held:\n\n<summary>\n## Goal\n- x\n\n"
        "The user's last request, word for word:\n<request>\nfind one\n</request>\n</summary>"
    )
    assert "- `a.py`\n  - 1: `def one(): pass`" in said(tmp_path, text)


def test_a_turn_that_was_cut_in_two_goes_on_with_its_own_question(tmp_path):
    """Not with the one before it, of which its summary tells first."""
    folder(tmp_path, {"a.py": "def one(): pass\n"})
    before, turn = (
        requested(f"<conversation>\n[User]: {words}\n</conversation>") for words in ("list", "find one")
    )
    condensed = f"<summary>\n{before}\n\n---\n\n{turn}\n</summary>"
    assert "- `a.py`\n  - 1: `def one(): pass`" in said(tmp_path, condensed)


def test_a_title_is_what_the_conversation_began_with():
    """Nothing else: programs take it as it is."""
    messages = [
        User("Why is the login test flaky?"),
        Assistant([Text("It races.")]),
        User("title for this session"),
    ]
    assert asyncio.run(answer(messages)).content == [Text("Why is the login test flaky?")]
    messages[0] = User("Condensed:\n<summary>\n## Goal\n- Mend the login test.\n\n## Progress\n</summary>")
    assert asyncio.run(answer(messages)).content == [Text("Mend the login test.")]


@pytest.mark.parametrize("mark", ["[", "![", "[a](", "<", "<!--", "<a ", "```\n", "\n"])
def test_a_readme_of_marks_without_an_end_is_read(mark):
    """In steps that grow with their number."""
    text = f"{mark * 100_000}\n\nIt counts the sheep of a shepherd."
    assert isinstance(first_paragraph(text), str)
    assert commands_in(f"```{text}") == []


def test_a_comment_of_many_blanks_is_read():
    """In steps that grow with their number."""
    found = source("a.js", f"/* It{' ' * 2**20}counts. */\nfunction sheep() {{}}")
    assert found.definitions[0].doc == "It counts."
