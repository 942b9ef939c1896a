"""Prompt templates: files that are commands, as the original pi has them."""

import errno
import json
import os
import subprocess
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent import templates
from perdure.agent.templates import fill, find
from tests.interop.original_pi import INSTALLED, PEERS
from tests.needs import needs


@pytest.fixture
def folder(home):
    path = home / ".pi" / "agent" / "prompts"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def notices():
    return []


# --- filling ------------------------------------------------------------------------------------------

TEXTS = [
    "no place",
    "$1",
    "$1-$2-$3",
    "$10 $01 $0",
    "$@",
    "$ARGUMENTS",
    "all: $@, again $ARGUMENTS",
    "${1:-default} ${2:-two}",
    "${0:-zero} ${9:-nine}",
    "${@:-none} ${ARGUMENTS:-none}",
    "${1:-} ${1:-$1} ${1:-a:-b}",
    "${1:-over\nlines} end",
    "${@:2} ${@:0} ${@:1} ${@:99}",
    "${@:2:1} ${@:1:2} ${@:0:1} ${@:1:0} ${@:2:99}",
    "$ $$ $$1 \\$1 ${1} ${@} ${ARGUMENTS} $x ${x:-y} $ARGUMENTSx $@x $1x",
    "${1:-never closed $1 ${@:1",
    "${@:x} ${@:-1} ${@:1:} ${@::1} ${1:2}",
    "${1:-a}${2:-b}} $2} {$1}",
    "${99999999999999999999:-far} $99999999999999999999 ${@:99999999999999999999:1}",
    "€ $1 🙂 ${1:-🙂}",
]
ARGUMENTS = [
    "",
    "one",
    "one two three",
    "  spread \t out\n over lines ",
    '"API compatibility" now',
    "'single \"inside\"' \"double 'inside'\"",
    "glued\"to gether\"'so so'",
    "\"\" one '' two",
    '"never closed and more',
    "it's here",
    'back\\slash \\" quote"',
    "$1 $@ ${1:-x} $ARGUMENTS \\1 \\g<0> $& $$",
    "non\u00a0breaking 漢字\u3000字",
    "a b c d e f g h i j k",
]
LOADED = {
    "plain.md": "Just text.\n\nMore of it.\n",
    "full.md": '---\ndescription: Review changes\nargument-hint: "[focus]"\n---\n\nReview $1.\n',
    "undescribed.md": "---\nother: x\n---\n\n\nThe first line.\nThe second.\n",
    "windows.md": "---\r\ndescription: >-\r\n  folded\r\n  text\r\n---\r\nA\r\nB\r\n",
    "unclosed.md": "---\ndescription: x\nno end\n",
    ".hidden.md": "no",
    "other.txt": "no",
}


@pytest.mark.process
@needs("the original pi (make peers)", given=INSTALLED)
@pytest.mark.xdist_group("original pi")
def test_files_and_places_are_read_as_the_original_pi_reads_them(folder, notices):
    """Every text with every line of arguments, and a folder of files; asked in one process of it."""
    for name, text in LOADED.items():
        (folder / name).write_bytes(text.encode())
    core = PEERS / "node_modules/@earendil-works/pi-coding-agent/dist/core"
    script = f"""
        import {{ readFileSync }} from "node:fs";
        import * as pi from {json.dumps((core / "prompt-templates.js").as_uri())};
        const [texts, lines, promptPaths] = JSON.parse(readFileSync(0, "utf8"));
        const fill = (text, line) => pi.substituteArgs(text, pi.parseCommandArgs(line));
        const filled = texts.map((text) => lines.map((line) => fill(text, line)));
        const places = {{ cwd: "/", agentDir: "/", promptPaths, includeDefaults: false }};
        console.log(JSON.stringify([filled, pi.loadPromptTemplates(places).templates]));
    """
    done = subprocess.run(
        [PEERS / "node_modules/.bin/node", "--input-type=module", "-e", script],
        input=json.dumps([TEXTS, ARGUMENTS, [str(folder)]]).encode(),
        capture_output=True,
        check=True,
    )
    filled, loaded = json.loads(done.stdout)
    for text, answers in zip(TEXTS, filled, strict=True):
        assert [fill(text, arguments) for arguments in ARGUMENTS] == answers, text
    theirs = [
        (each["name"], each["description"], each.get("argumentHint", ""), each["content"], each["filePath"])
        for each in loaded
        if not each["name"].startswith(".")  # which it leaves out elsewhere
    ]
    assert find([str(folder)], [], notices.append) == sorted(theirs)
    assert notices == []


@pytest.mark.parametrize(
    ("text", "arguments", "wanted"),
    [
        ("Fix $1 in $2", "bug main.py", "Fix bug in main.py"),
        ("Review ${1:-correctness}.", "", "Review correctness."),
        ("Review ${1:-correctness}.", '"API compatibility"', "Review API compatibility."),
        ("$1: ${@:2}", "to all of you", "to: all of you"),
        ("${@:2:2}", "a b c d", "b c"),
        ("$1|$2", '"never closed', "never closed|"),
        ("$@", "$1 ${1:-x} $ARGUMENTS", "$1 ${1:-x} $ARGUMENTS"),
        ("${1:-$2}", "'' ''", "$2"),
    ],
)
def test_arguments_stand_in_their_places(text, arguments, wanted):
    """By number, all, some, or what is said without any."""
    assert fill(text, arguments) == wanted


@given(st.text(), st.text())
def test_arguments_are_never_filled_themselves(text, arguments):
    """Whatever they are: nothing of them is lost or added to where they stand."""
    words = " ".join(templates._words(arguments))
    assert fill(f"$@{text.replace('$', '')}$ARGUMENTS", arguments) == f"{words}{text.replace('$', '')}{words}"


@given(st.lists(st.text(st.characters(exclude_characters='"', exclude_categories=["Cs"]), min_size=1)))
def test_quoted_words_are_whole(words):
    """A word in quotes is one argument, whatever is in it."""
    line = " ".join(f'"{word}"' for word in words)
    places = "\0".join(f"${number}" for number in range(1, len(words) + 1))
    assert fill(places, line) == "\0".join(words)


@pytest.mark.parametrize(
    "text",
    ["${1:-" * 13_000, "}" + "${@:1:" * 10_000, "$" + "1" * 65_000, "${" * 32_000],
    ids=["defaults", "slices", "digits", "braces"],
)
def test_filling_takes_no_longer_than_the_text_is_long(text):
    """No file can keep a command from being answered, nor can what is pasted behind one."""
    began = time.process_time()
    fill(text, "'" + "x" * 1_000_000)
    assert time.process_time() - began < 1


# --- finding ------------------------------------------------------------------------------------------


def test_templates_come_from_folders_and_then_from_named_files_and_folders(folder, tmp_path, notices):
    """Direct children by name, links to files too; not folders, not what begins with a dot."""
    for name in ("b.md", "a.md", ".hidden.md", "c.txt"):
        (folder / name).write_text(f"text of {name}")
    (folder / "below.md").mkdir()
    (folder / "below.md" / "deep.md").write_text("too deep")
    (tmp_path / "elsewhere.txt").write_text("linked")
    (folder / "link.md").symlink_to(tmp_path / "elsewhere.txt")
    more = tmp_path / "more"
    more.mkdir()
    (more / "z.md").write_text("z")
    single = tmp_path / "single.md"
    single.write_text("single")
    found = find([str(folder), str(tmp_path / "missing")], [str(more), str(single)], notices.append)
    assert [(each.name, each.text) for each in found] == [
        ("a", "text of a.md"),
        ("b", "text of b.md"),
        ("link", "linked"),
        ("z", "z"),
        ("single", "single"),
    ]
    assert found[0].path == str(folder / "a.md")
    assert notices == []


def test_a_description_is_the_heads_or_the_first_line(folder, notices):
    """On one line, without what a terminal would obey; the first line is cut."""
    (folder / "a.md").write_text("---\ndescription: |\n  Two\x1b[31m\n  lines\nargument-hint: [file]\n---\nx")
    (folder / "b.md").write_text("\n\n  " + "word " * 20 + "\nnext")
    (folder / "c.md").write_text("---\ndescription: true\n---\n# Title\n")
    a, b, c = find([str(folder)], [], notices.append)
    assert (a.description, a.hint) == ("Two [31m lines", "[file]")
    assert b.description == ("word " * 20)[:59].rstrip() + "…"
    assert (c.description, c.hint) == ("# Title", "")


@pytest.mark.parametrize(
    ("name", "make", "why"),
    [
        ("x.md", lambda path: os.mkfifo(path), "it is not a regular file"),
        ("x.md", lambda path: path.symlink_to("missing"), "it links to a file that is not there"),
        ("x.md", lambda path: path.symlink_to(path), os.strerror(errno.ELOOP)),
        ("x.md", lambda path: path.write_text("x" * 65537), "it is larger than 64 KB"),
        ("x.md", lambda path: path.write_text(" \n"), "there is no text in it"),
        ("x.md", lambda path: path.write_text("---\na: b\n---\n"), "there is no text in it"),
        (
            "x.md",
            lambda path: path.write_text('---\na: b\nc: "d\n---\ntext'),
            "line 3: the quote that begins here is never closed",
        ),
        ("two words.md", lambda path: path.write_text("x"), "its name cannot be typed as a command"),
    ],
    ids=["pipe", "broken link", "endless link", "large", "empty", "only a head", "malformed", "name"],
)
def test_a_file_that_cannot_be_used_is_one_notice(folder, notices, name, make, why):
    """It names the file, and the line where there is one; the others are found."""
    make(folder / name)
    (folder / "good.md").write_text("x" * 65536)
    found = find([str(folder)], [str(folder / name)], notices.append)
    assert [each.name for each in found] == ["good"]
    assert notices == [f"~/.pi/agent/prompts/{name} is left out: {why}"]


def test_what_the_user_named_and_is_not_there_is_a_notice(home, notices):
    """Unlike a usual folder, which need not be there."""
    (home / "notes.txt").write_text("x")
    assert find([str(home / "none")], [str(home / "a.md"), str(home / "notes.txt")], notices.append) == []
    assert notices == [
        "~/a.md is left out: No such file or directory",
        "~/notes.txt is left out: its name does not end with .md",
    ]


def test_of_one_name_the_first_counts(folder, home, notices):
    """The other is a notice with both files; the same file by another way is none."""
    (folder / "a.md").write_text("first")
    (home / "a.md").write_text("second")
    linked = home / "linked"
    linked.symlink_to(folder)
    [only] = find([str(folder)], [str(home / "a.md"), str(folder / "a.md"), str(linked)], notices.append)
    assert only.text == "first"
    assert notices == ["~/a.md is left out: /a is already ~/.pi/agent/prompts/a.md"]


def test_bytes_that_are_no_text_are_replaced(folder, notices):
    """A file in another encoding is still a prompt, and one that every provider takes."""
    (folder / "a.md").write_bytes(b"caf\xe9")
    assert find([str(folder)], [], notices.append)[0].text == "caf\N{REPLACEMENT CHARACTER}"


# --- as commands --------------------------------------------------------------------------------------


def test_each_template_is_a_command_that_says_its_text(folder, notices, commands):
    """With the arguments in it; its description begins with those it takes."""
    (folder / "a.md").write_text("---\ndescription: Say a\nargument-hint: <what>\n---\na: $1")
    (folder / "b.md").write_text("b: $@")
    templates.register(commands, find([str(folder)], [], notices.append))
    assert {name: said for name, (_, said) in commands.items()} == {"a": "<what> Say a", "b": "b: $@"}
    assert [function("x y", None) for function, _ in commands.values()] == ["a: x", "b: x y"]
