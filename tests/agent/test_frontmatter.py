"""Heads of Markdown files: what people write is read, and what is wrong names its line."""

import json
import os
import subprocess
import textwrap
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.agent.frontmatter import can_be_typed, named, one_line, read, split
from tests.interop.original_pi import INSTALLED, PEERS
from tests.needs import needs


def head_of(text):
    head, body = split(f"---\n{textwrap.dedent(text).strip(chr(10))}\n---\nbody")
    assert body == "body"
    return head


# --- what is read -------------------------------------------------------------------------------------

# Heads as they are found in such files; all of them are YAML, so the original pi can be asked about them.
YAML = [
    "name: pdf-tools\ndescription: Extract text. Use when reading PDFs.",
    "url: https://example.org/a:b\ntime: 'at 10:30'",
    "description:    blanks around   ",
    "# a comment\n\nname: a # another one\n  # and one more\ndescription: b",
    "issue: number#12 is no comment",
    "a: true\nb: false\nc: True\nd: FALSE\ne: 'true'\nf: yes",
    "disable-model-invocation: true # hidden\nname: x",
    'a: "say \\"hi\\"\\n\\ttab \\\\ \\x41 \\u00e9 \\U0001F600 \\/ \\e"',
    "a: \"\" # empty\nb: ''",
    "a: 'it''s'\nb: 'C:\\dir'",
    "empty:\nnothing: ~\nnull_: null\nname: x",
    "description: >\n  one\n  two\n\n  three\nname: x",
    "description: >-\n  one\n  two\n\n\n  three\n    kept\n    as is\n  four\n\nname: x",
    "description: |\n  one\n    two\n\n  # no comment\nname: x",
    "description: |-\n  one\n  two\n\n\nname: x",
    "description: |+\n  one\n\n\nname: x",
    "description: >+ # comment\n  one\n\nname: x",
    "description: |2-\n    two blanks more\n  none\nname: x",
    "description: |\n  the end of the head",
    "description: plain\n  goes on\n  and on\n\n  after a gap\nname: x",
    "description:\n  on the next line\n  and on\nname: x",
    "description:\n\n  # first a comment\n  'quoted'\nname: x",
    'description: "quoted\n  over lines\n\n  with a gap and \\\n  a join"\nname: x',
    "description: 'quoted\n  over lines'\nname: x",
    "metadata:\n  version: 1\n  nested:\n    deep: true\nname: x",
    "tools:\n  - read\n  - bash\nname: x",
    "tools:\n- read\n- bash: all\nname: x",
    'metadata: {"a": {"b": [1, 2]}}\nname: x',
    'metadata:\n  {\n    "a": 1,\n  }\nname: x',
    "tools: [read,\n  bash]\nname: x",
    "argument-hint: '[focus]'\nname: x",
    "\"name\": x\n'description': y",
    "name : x",
    "a: é ü 漢字 🙂",
]


@pytest.mark.process
@needs("the original pi (make peers)", given=INSTALLED)
@pytest.mark.xdist_group("original pi")
def test_what_is_yaml_is_read_as_the_original_pi_reads_it():
    """Words and switches; maps, lists, numbers and what is empty are not asked for."""
    texts = [f"---\n{head}\n---\n\nthe body\n" for head in YAML]
    texts += [text.replace("\n", "\r\n") for text in texts] + [f"\ufeff{texts[0]}"]
    module = PEERS / "node_modules/@earendil-works/pi-coding-agent/dist/utils/frontmatter.js"
    script = f"""
        import {{ readFileSync }} from "node:fs";
        import {{ parseFrontmatter }} from {json.dumps(module.as_uri())};
        console.log(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(parseFrontmatter)));
    """
    node = PEERS / "node_modules/.bin/node"
    done = subprocess.run(
        [node, "--input-type=module", "-e", script],
        input=json.dumps(texts).encode(),
        capture_output=True,
        check=True,
    )
    for text, theirs in zip(texts, json.loads(done.stdout), strict=True):
        wanted = {key: value for key, value in theirs["frontmatter"].items() if isinstance(value, str | bool)}
        assert split(text) == (wanted, theirs["body"]), text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("description: Use when: a PDF is there", "Use when: a PDF is there"),
        ("description:no blank", "no blank"),
        ("description: *bold* and @all and `code`", "*bold* and @all and `code`"),
        ("description: [focus]", "[focus]"),
        ("description: [a] [b]", "[a] [b]"),
        ("description: 2026", "2026"),
        ("description: - a dash", "- a dash"),
        ("description: > not a block", "> not a block"),
        ('description: "C:\\dir\\U0011FFFF"', "C:\\dir\N{REPLACEMENT CHARACTER}"),
        ('description: "\\ud83d\\ude00 \\ud83d"', "😀 \N{REPLACEMENT CHARACTER}"),
        ("description:\n  Use when: it says so\n  # not this\n  and so", "Use when: it says so and so"),
        ("description: |\n    four\n  two", "four\ntwo\n"),
        ("description:\tx", "x"),
        ("description: x\n\ty", "x y"),
    ],
)
def test_what_people_write_and_yaml_refuses_is_taken_as_it_is_meant(text, wanted):
    """A colon, a star, brackets: the words are what counts."""
    assert head_of(text) == {"description": wanted}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no head",
        "\n---\nname: x\n---\n",
        "--- \nname: x\nnever closed",
        "---\nname: x\n ---\n--- x\n",
        "----\nname: x\n----\n",
        "---\n\nA text between two rules.\n\n---\n\nAnother.\n",
        "---\n- a list: of\n---\n",
    ],
)
def test_without_a_head_all_is_body(text):
    """A head that is never closed is none, and a rule in a text begins none."""
    assert split(text) == ({}, text)


@pytest.mark.parametrize("text", ["---\n---\nbody\n", "---\n\n# only this\n--- \n\nbody"])
def test_an_empty_head_is_a_head(text):
    """Nothing of it is part of the text."""
    assert split(text) == ({}, "body")


@pytest.mark.parametrize(
    ("head", "line", "why"),
    [
        ('name: x\ndescription: "never closed', 3, "never closed"),
        ("name: x\ndescription: 'never closed\nmore: x", 3, "never closed"),
        ('a: "closed" and more', 2, "behind the closing quote"),
        ('a: "closed"\n  and more', 2, "behind the closing quote"),
        ("name: x\n\njust words", 4, "'just words' belongs to no key"),
        ("name: x\n- item: 1", 3, "belongs to no key"),
        ("  name: x\nname: y", 2, "belongs to no key"),
        ("name: x\n: y", 3, "belongs to no key"),
        ("name: x\ndescription: a\nname: y", 4, "'name' is there a second time"),
        ("name: x\n" + "word " * 100, 3, "…' belongs to no key"),
    ],
)
def test_what_is_wrong_names_its_line(head, line, why):
    """Counted from the first line of the file, with no more of it than a line can show."""
    with pytest.raises(ValueError, match=rf"^line {line}: ") as raised:
        split(f"---\n{head}\n---\n")
    assert why in str(raised.value)
    assert len(str(raised.value)) < 120


# --- laws ---------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    ["---\n", "\n", "\r\n", " ", "\t", "key:", "a: ", "x", *("\"'\\|>-+#[{}")],
)
PIECED = st.lists(PIECES).map("".join)


@given(st.text() | PIECED | PIECED.map(lambda head: f"---\n{head}\n---\n"))
@example('---\na: "\\U99999999"\n---\n')
@example("---\na:\n---")
def test_any_text_is_read_or_refused(text):
    """Words and switches, and text that every provider takes; or a ValueError with a line."""
    complaint = ""
    head: dict[str, str | bool] = {}
    body = ""
    try:
        head, body = split(text)
    except ValueError as error:
        complaint = str(error)
    assert not complaint or complaint.startswith("line ")
    assert all(type(value) in (str, bool) for value in head.values())
    "".join([body, *head, *map(str, head.values())]).encode()


@given(st.lists(st.text()), st.booleans(), st.booleans())
def test_what_is_written_in_quotes_reads_back(texts, is_ascii, is_windows):
    """Any text is a value, and stays what it was."""
    values = {f"key-{number}": text for number, text in enumerate(texts)}
    lines = [f"{key}: {json.dumps(value, ensure_ascii=is_ascii)}" for key, value in values.items()]
    end = "\r\n" if is_windows else "\n"
    assert split(end.join(["---", *lines, "---", "body"])) == (values, "body")


@given(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])))
def test_what_is_written_in_single_quotes_reads_back(value):
    """Where a quote is doubled and nothing else is special."""
    assert head_of("key: '{}' # comment".format(value.replace("'", "''"))) == {"key": value}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('a: "' + '\\"' * 30_000, id="escapes"),
        pytest.param("a: '" + "''" * 30_000, id="quotes"),
        pytest.param("a" + " " * 60_000, id="blanks"),
        pytest.param("a: " + " #" * 30_000, id="comments"),
        pytest.param("a:\n" + " \n" * 30_000, id="empty lines"),
        pytest.param("a: >\n" + "  x\n\n" * 10_000, id="a block"),
        pytest.param("a:\n  " + "x." * 30_000, id="a key that is none"),
        pytest.param("".join(f"k{at}: x\n" for at in range(8_000)), id="keys"),
    ],
)
def test_reading_takes_no_longer_than_the_text_is_long(text):
    """Nobody can write a head that delays a start."""
    began = time.process_time()
    try:
        split(f"---\nkey: value\n{text}\n---\n")
    except ValueError:
        pass
    assert time.process_time() - began < 1


# --- files --------------------------------------------------------------------------------------------


def test_a_file_is_read_up_to_a_bound_and_says_whether_it_goes_on(tmp_path):
    """A head is one wherever the text behind it ends; bytes that are no text do not matter."""
    file = tmp_path / "file.md"
    file.write_bytes(b"\xef\xbb\xbf---\r\nname: \xff\r\n---\r\n0123456789")
    assert read(str(file), 1000) == ({"name": "\N{REPLACEMENT CHARACTER}"}, "0123456789", False)
    assert read(str(file), 26) == ({"name": "\N{REPLACEMENT CHARACTER}"}, "0123", True)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: None, "No such file or directory"),
        (lambda path: path.mkdir(), "it is not a regular file"),
        (os.mkfifo, "it is not a regular file"),
        (lambda path: path.symlink_to("missing"), "it links to a file that is not there"),
        (lambda path: path.symlink_to(path), "symbolic links"),
        (lambda path: path.write_text("---\na: 'b\n---\n"), "line 2: "),
    ],
    ids=["missing", "folder", "pipe", "broken link", "endless link", "malformed"],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path, make, why):
    """In a few words, and at once: a pipe is not waited for."""
    path = tmp_path / "file.md"
    make(path)
    with pytest.raises(ValueError, match=why):
        read(str(path), 1000)


def test_a_file_is_named_as_its_user_would_type_it(home):
    """On one line, whatever its name."""
    assert named(f"{home}/a b.md") == "~/a b.md"
    assert named("/a\n\x1b[31m.md") == r"'/a\n\x1b[31m.md'"


def test_a_value_is_shown_on_one_line():
    """Without what a terminal or a reader of the line would be misled by; a switch is no text."""
    assert one_line(" a\n\n- b\x1b[31m\u202e\u2028\U000e0041c\td ", 60) == "a - b [31m c d"
    assert one_line("\u06cc\u200c\u062e", 60) == "\u06cc\u200c\u062e"  # as Persian is written
    assert one_line("0123456789", 10) == "0123456789"
    assert one_line("0123456789x", 10) == "012345678…"
    assert one_line(True, 10) == one_line(None, 10) == ""


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a\nb", "a\u00a0b", "\udcff", "x" * 256])
def test_a_name_that_cannot_be_typed_is_known(name):
    """A command is one word behind a slash."""
    assert not can_be_typed(name)


@pytest.mark.parametrize("name", ["review", "skill:pdf-tools", "Été_2", "x" * 255])
def test_a_name_that_can_be_typed_is_known_too(name):
    """In any script, and of any characters that are seen."""
    assert can_be_typed(name)
