"""`show`: a conversation as people read it, at a terminal and through a pipe."""

import html
import io
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyte
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.front import branches
from perdure.front.commands import show as command
from perdure.front.output import Output
from perdure.front.visible import visible, width
from perdure.session.entry import Entry, decode
from perdure.session.stores import Found
from perdure.testing import assistant_entry, tool_call_entry, tool_result_entry, user_entry
from perdure.testing.corpus import HOSTILE_TEXT, message_record, record
from perdure.testing.writing import child, turns
from tests import processes
from tests.front.commands.machine import Machine, process
from tests.front.test_markdown import FRAGMENTS, messages, words
from tests.front.test_render import ANSWER, conversation, kept
from tests.generated import sessions
from tests.layouts import ALL, store_of

DEEP = "".join("  " * depth + f"- level {depth}\n" for depth in range(15))
ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def machine(home, monkeypatch, capsys) -> Machine:
    monkeypatch.setenv("TZ", "UTC")
    return Machine(home, monkeypatch, capsys)


def chained(*entries: Entry) -> list[Entry]:
    made: list[Entry] = []
    for entry in entries:
        made.append(child(entry, made[-1] if made else None))
    return made


def saved(machine: Machine, entries: Sequence[Entry], layout: str = "pi") -> Found:
    return kept(machine.store(layout), entries, title="").ref


def at_terminal(*words: str, columns: int = 80, rows: int = 500, **environment: str) -> str:
    """What reaches a terminal, byte by byte. As long as it is long, nothing is paged."""
    settings = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")}
    spawned = processes.spawn(
        [*processes.PI, "sessions", "show", *words],
        encoding=None,
        dimensions=(rows, columns),
        env=settings | {"TERM": "xterm-256color", "PAGER": ""} | environment,
        timeout=60,
    )
    written: bytes = spawned.read()
    spawned.close()
    assert spawned.exitstatus == 0, written
    return written.decode()


def screen(written: str, columns: int = 80, rows: int = 500) -> list[str]:
    """What is then seen."""
    seen = pyte.Screen(columns, rows)
    pyte.Stream(seen).feed(written)
    return "\n".join(line.rstrip() for line in seen.display).rstrip("\n").split("\n")


def left_and_here() -> list[Entry]:
    """A conversation with a branch that was left, and a label."""
    ask, call, result, answer, regex, tokenizer = chained(
        user_entry("fix the parser"),
        tool_call_entry("read", {"path": "parser.py"}),
        tool_result_entry("def parse(): ...", name="read"),
        assistant_entry("I look at **it**"),
        user_entry("use a regex"),
        user_entry("write a real tokenizer"),
    )
    tokenizer = child(tokenizer, answer)
    label = child(record("label", b',"targetId":"%b","label":"start"' % ask.id.encode()), tokenizer)
    return [ask, call, result, answer, regex, tokenizer, label]


# --- through a pipe -----------------------------------------------------------------------------------


def test_through_a_pipe_everything_is_there_as_it_was_written(machine):
    """Nothing is cut, wrapped or coloured: what a grep would look for is found."""
    long = "\n".join(f"line {number} " + "x" * 200 for number in range(50))
    entries = chained(
        user_entry("ask " + "y" * 300),
        tool_call_entry("bash", {"command": "seq 50\necho done", "timeout": 9}),
        tool_result_entry(long),
        assistant_entry(ANSWER),
    )
    done = machine.run("show", saved(machine, entries).id)
    assert done.code == 0
    assert "\x1b" not in done.out
    for line in [*ANSWER.split("\n"), *long.split("\n"), "ask " + "y" * 300, "echo done", "timeout: 9"]:
        assert f"  {line}".rstrip() in done.out
    assert [entry.id for entry in entries if entry.id in done.out] == [
        entries[0].id,
        entries[1].id,
        entries[3].id,
    ]


def test_through_a_pipe_what_programs_noted_is_whole_too(machine):
    """On the line of its heading."""
    decision = b'"' + b"why " * 300 + b'"'
    entries = chained(
        *turns(1), record("custom", b',"customType":"perdure.decision","data":{"content":%b}' % decision)
    )
    entries.append(child(user_entry("on"), entries[-1]))
    shown = machine.run("show", saved(machine, entries).id).out
    assert f"note  perdure.decision: {'why ' * 300}" in shown


def test_a_message_cannot_pass_for_a_heading(machine):
    """What is said is indented, and headings are not."""
    entries = chained(user_entry("hello\nassistant  scripted  2026-01-31 09:05  abcdefabcdef\nforged"))
    lines = machine.run("show", saved(machine, entries).id).out.split("\n")
    headings = [line for line in lines[2:] if line and not line.startswith("  ")]
    assert len(headings) == 1
    assert headings[0].startswith("user  ")


@pytest.mark.parametrize("layout", ALL)
def test_every_layout_can_be_shown(layout, machine):
    """By its whole name; as a conversation, as a tree, and for programs."""
    ref = machine.add(layout, "first words", "second words")
    name = f"{layout}:{ref.id}"
    shown = machine.run("show", name).out
    assert shown.index("first words") < shown.index("second words")
    drawn = machine.run("show", name, "--tree").out
    assert "first words" in drawn
    assert "● here" in drawn
    data = machine.run("show", name, "--json").data
    assert (data["program"], data["id"]) == (layout, ref.id)
    assert [entry["text"] for entry in data["entries"] if entry["role"] == "user"] == [
        "first words",
        "second words",
    ]


def test_only_the_active_path_is_shown(machine):
    """What was left is in the tree, and the heading says so."""
    entries = left_and_here()
    ref = saved(machine, entries)
    shown, drawn = machine.run("show", ref.id).out, machine.run("show", ref.id, "--tree").out
    assert "use a regex" not in shown
    assert "use a regex" in drawn
    assert f"pi:{ref.id} · 5 of 6 messages · 1 other branch: --tree · " in shown
    assert f"pi:{ref.id} · 6 messages · " in drawn
    assert "--tree" not in drawn
    more = saved(machine, [*entries, child(user_entry("or a grammar"), entries[3])])
    assert " · 5 of 7 messages · 2 other branches: --tree · " in machine.run("show", more.id).out
    assert " · 6 messages · " in machine.run("show", saved(machine, chained(*turns(6))).id).out


def test_one_sees_where_a_thought_and_an_argument_end(machine):
    """Without colours: their further lines are indented further, and an answer stands apart."""
    thinking = {"type": "thinking", "thinking": "Two ways:\n\na regex,\nor more."}
    edit = {"path": "a.py", "old": "x: 1\ny: 2\n", "new": "z"}
    entries = chained(
        Entry.message("assistant", [thinking, {"type": "text", "text": "I take\nthe first."}]),
        tool_call_entry("edit", edit),
        tool_result_entry("done", name="edit"),
        Entry.message("bashExecution", "", command="for x in *\ndo ls", output="a.py"),
    )
    shown = machine.run("show", saved(machine, entries).id).out
    for part in (
        "\n  (thinking) Two ways:\n\n    a regex,\n    or more.\n\n  I take\n  the first.\n",
        "\n    path: a.py\n    old: x: 1\n      y: 2\n    new: z\n    done\n",
        "\n  $ for x in *\n    do ls\n  a.py\n",
    ):
        assert part in shown


def test_what_was_damaged_is_said_in_two_lines_on_stderr(machine):
    """The rest is shown, and what to do is named."""
    ref = saved(machine, turns(3))
    path = Path(ref.path)
    path.write_bytes(path.read_bytes() + b'{"torn')
    done = machine.run("show", ref.id)
    assert done.code == 0
    assert "turn 2" in done.out
    assert done.err.count("\n") == 2
    assert f" sessions doctor pi:{ref.id}` says more" in done.err


def test_wrong_calls_are_told_apart(machine):
    """No such session or entry: 3; both views at once: 2."""
    ref = saved(machine, turns(2))
    assert machine.run("show", "nothing").code == 3
    missing = machine.run("show", ref.id, "--entry", "zzz")
    assert (missing.code, missing.out) == (3, "")
    assert "Entry not found: zzz" in missing.err
    assert machine.run("show", ref.id, "--entry", "x", "--tree").code == 2


def test_a_session_in_which_nothing_was_said_says_so(machine):
    """Instead of nothing at all."""
    assert "Nothing was said yet." in machine.run("show", saved(machine, []).id).out


# --- one entry ----------------------------------------------------------------------------------------


def test_one_entry_is_shown_whole_also_off_the_path(machine):
    """By the beginning of its id; with the results of what it called."""
    entries = left_and_here()
    ref = saved(machine, entries)
    assert "use a regex" in machine.run("show", ref.id, "--entry", entries[4].id[:9]).out
    called = machine.run("show", ref.id, "--entry", entries[1].id).out
    assert "▸ read  parser.py" in called
    assert "def parse(): ..." in called
    assert "no result" not in called
    assert "fix the parser" not in called
    result = machine.run("show", ref.id, "--entry", entries[2].id).out
    assert result.startswith("tool  read")
    data = machine.run("show", ref.id, "--entry", entries[4].id, "--json").data
    assert (data["text"], data["on_path"]) == ("use a regex", False)


def test_an_entry_nobody_knows_is_shown_as_its_record(machine):
    """Whole means whole."""
    entries = chained(*turns(1), record("zebra", b',"stripes":{"wide":9}'))
    shown = machine.run("show", saved(machine, entries).id, "--entry", entries[1].id).out
    assert '"wide": 9' in shown


# --- the tree -----------------------------------------------------------------------------------------


def test_the_tree_indents_where_branches_part_and_nowhere_else(machine):
    """With ids that other commands take, labels, tools, and where the conversation stands."""
    ask, call, _, answer, regex, tokenizer, _ = entries = left_and_here()
    drawn = machine.run("show", saved(machine, entries).id, "--tree").out.split("\n")[3:]
    left = drawn[3].partition("(")[2]
    assert re.fullmatch(r"left 20\d\d-\d\d-\d\d \d\d:\d\d\)", left)
    assert drawn == [
        f"{ask.id}  user       fix the parser  “start”",
        f"{call.id}  assistant  read parser.py  [1 tool]",
        f"{answer.id}  assistant  I look at **it**",
        f"{regex.id}  ├─ user       use a regex  ({left}",
        f"{tokenizer.id}  └─ user       write a real tokenizer  ● here",
        "",
    ]


def test_several_first_entries_are_branches_too(machine):
    """A session may begin more than once."""
    first, second = user_entry("one"), user_entry("two")
    drawn = machine.run("show", saved(machine, [first, second]).id, "--tree").out
    assert f"{first.id}  ├─ user" in drawn
    assert f"{second.id}  └─ user" in drawn


def test_a_result_is_drawn_where_it_matters():
    """As a head, with a label, and where branches part; else its call stands for it."""
    call, result, one, other = chained(
        tool_call_entry("bash", {}), tool_result_entry("r"), user_entry("1"), user_entry("2")
    )
    path = [call, result]
    assert [row.id for row in branches.rows(path, result.id, {}, deepest=9)] == [call.id, result.id]
    path.append(one)
    assert [row.id for row in branches.rows(path, one.id, {}, deepest=9)] == [call.id, one.id]
    assert len(branches.rows(path, one.id, {result.id: "look"}, deepest=9)) == 3
    assert len(branches.rows([*path, child(other, result)], one.id, {}, deepest=9)) == 4


def simple(number: int, parent: int) -> Entry:
    above = b'"%d"' % parent if parent >= 0 else b"null"
    line = b'{"type":"message","id":"%d","parentId":%b,"message":{"role":"user","content":"%d"}}'
    return decode(line % (number, above, number))


@pytest.mark.slow
def test_a_hundred_thousand_entries_are_drawn_however_deep():
    """In line and in branches of branches, without a stack; and never further than asked for."""
    line = [simple(number, number - 1) for number in range(100_000)]
    assert {row.lead for row in branches.rows(line, line[-1].id, {}, deepest=5)} == {""}
    nested = [simple(number, (number - number % 2) - 1) for number in range(40_000)]
    drawn = branches.rows(nested, nested[-1].id, {}, deepest=5)
    assert len(drawn) == 40_000
    assert max(len(row.lead) for row in drawn) <= 3 * 6
    assert drawn[-1].lead.startswith("⋯")
    assert drawn[-1].is_head


@given(entries=sessions())
def test_every_entry_that_is_no_metadata_is_drawn_once(entries):
    """But for results in line with their calls."""
    drawn = [row.id for row in branches.rows(entries, None, {}, deepest=9)]
    assert len(drawn) == len(set(drawn))
    metadata = {"label", "session_info", "custom", "usage", "leaf"}
    wanted = {entry.id for entry in entries if entry.type not in metadata}
    missing = wanted - set(drawn)
    assert set(drawn) <= wanted
    assert {entry.role for entry in entries if entry.id in missing} <= {"toolResult"}


# --- at a terminal ------------------------------------------------------------------------------------


@pytest.mark.process
@pytest.mark.parametrize("columns", [40, 80, 200])
def test_at_a_terminal_no_line_is_too_long_and_headings_end_at_the_edge(columns, machine):
    """At any width; and prose is never wider than people read."""
    ref = saved(machine, conversation())
    shown = at_terminal(ref.id, columns=columns)
    lines = screen(shown, columns)
    written = ESCAPES.sub("", shown).replace("\r", "").split("\n")
    assert max(map(width, written)) <= columns
    headings = [line for line in lines if line.startswith(("user", "assistant"))]
    assert {width(line) for line in headings} == {columns}
    prose = [line for line in written if "two requests" in line or "start together" in line]
    assert prose
    assert max(map(width, prose)) <= 100
    drawn = ESCAPES.sub("", at_terminal(ref.id, "--tree", columns=columns)).replace("\r", "").split("\n")
    assert max(map(width, drawn)) <= columns


class Terminal(io.StringIO):
    """So many columns, without colours."""

    def isatty(self) -> bool:
        return True


@given(text=messages, columns=st.sampled_from([20, 40, 100]))
@example(text=DEEP, columns=20)
@example(text=DEEP, columns=100)
@example(text="|".join("abcdefghijklmnopqrstuvwxyz") + "\n" + "|".join("-" * 26), columns=20)
@example(text="7. seven\n7. again\n123456789. many", columns=20)
@example(text='[a](http://x.example "a title") <http://y.example> ``` x', columns=40)
@example(text="```python one two\nx\n```", columns=40)
def test_however_narrow_a_terminal_is_nothing_said_is_missing(text, columns):
    """Letter by letter; and no layout is worth more than what was said."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setenv("COLUMNS", str(columns))
        session = kept(store_of("pi", folder), [])
        face = command._Face(Output(stdout=Terminal()), session, is_whole=False)
        shown = Counter("".join(face._prose(text)))
    wanted = Counter(character for character in visible(text) if character.isalnum())
    plain = html.unescape(text) == text and "```" not in text and "~~~" not in text
    assert not plain or not wanted - shown
    assert words(text) == set() or shown


@pytest.mark.process
def test_at_a_terminal_answers_are_laid_out(machine):
    """Without the marks of Markdown, with its code in colours, and with where links lead."""
    ref = saved(machine, conversation())
    written = at_terminal(ref.id)
    seen = "\n".join(screen(written))
    assert "**" not in seen
    assert "```" not in seen
    assert "the RFC “OAuth 2.0” (https://www.rfc-editor.org/rfc/rfc6749)" in seen
    assert re.search(r"\x1b\[9[0-9]mdef\x1b\[0m", written)
    assert "8;;" not in written  # no link that leads elsewhere than it says


@pytest.mark.process
def test_at_a_terminal_results_and_thinking_are_cut_and_counted(machine):
    """To a few lines; a single one more is shown instead."""
    many, six = ("\n".join(f"line {number}" for number in range(count)) for count in (50, 6))
    thinking = {"type": "thinking", "thinking": "\n".join("abcdefgh")}
    entries = chained(
        Entry.message("assistant", [thinking]),
        tool_call_entry("bash", {"command": "seq"}),
        tool_result_entry(many),
        tool_call_entry("bash", {"command": "seq"}),
        tool_result_entry(six),
    )
    seen = "\n".join(screen(at_terminal(saved(machine, entries).id)))
    assert "… 45 more lines" in seen
    assert "… 5 more lines" in seen
    assert "line 5" in seen
    assert "line 6" not in seen
    whole = "\n".join(screen(at_terminal(saved(machine, entries).id, "--entry", entries[1].id)))
    assert "line 49" in whole


@pytest.mark.process
def test_a_call_that_goes_on_has_no_heading_but_its_id(machine):
    """Thirty steps of an agent are thirty lines, not thirty headings."""
    entries = chained(
        user_entry("go"),
        tool_call_entry("bash", {"command": "a"}),
        tool_result_entry("of a"),
        tool_call_entry("bash", {"command": "b"}),
        tool_result_entry("of b"),
    )
    lines = screen(at_terminal(saved(machine, entries).id))
    assert len([line for line in lines if line.startswith("assistant")]) == 1
    (second,) = [line for line in lines if line.startswith("  ▸ bash  b")]
    assert entries[3].id.startswith(second.split()[-1])
    assert width(second) == 80


@pytest.mark.process
@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=str)
def test_a_terminal_without_colours_gets_none(environment, machine):
    """Not one escape code, and the same words."""
    ref = saved(machine, conversation())
    written = at_terminal(ref.id, **environment)
    assert "\x1b" not in written
    assert ESCAPES.sub("", at_terminal(ref.id)) == written


@pytest.mark.process
def test_a_short_id_at_a_terminal_is_enough_for_other_commands(machine):
    """As much of it as tells it from all others."""
    entries = [child(record("zebra"), None), *turns(3)]
    ref = saved(machine, entries)
    for line in screen(at_terminal(ref.id, "--tree"))[3:]:
        shown = line.split()[0]
        assert machine.run("show", ref.id, "--entry", shown, "--json").data["id"].startswith(shown)


def hostile() -> list[Entry]:
    made = [message_record(b'"%b"' % text()) for name, text in HOSTILE_TEXT.items() if "MB" not in name]
    evil = "\x1b]0;owned\x07 \x1b[2J \x9b31m \x1bP \u202e \u2066 \x07 \x08\x08 \r \x1b[5m &#27;[5m &#x202e;"
    for text in (evil, *FRAGMENTS):
        call = {"type": "toolCall", "id": text, "name": text, "arguments": {text: text, "command": text}}
        blocks = [{"type": "text", "text": text}, {"type": "thinking", "thinking": text}, call]
        made.append(Entry.message("assistant", blocks, model=text, stopReason="error", errorMessage=text))
        made.append(Entry.message("toolResult", text, toolCallId=text, toolName=text, isError=True))
        made.append(Entry.message("bashExecution", "", command=text, output=text, fullOutputPath=text))
        made.append(Entry.message("user", [{"type": "image", "data": "aGk=", "mimeType": text}], timestamp=1))
    return chained(*made)


@pytest.mark.process
@pytest.mark.parametrize("view", [(), ("--tree",), ("--json",)], ids=str)
def test_nothing_hostile_reaches_a_terminal(view, machine):
    """Of all that is written, only our own colours are escape codes, and all else can be seen."""
    entries = hostile()
    ref = saved(machine, entries)
    written = at_terminal(ref.id, *view, rows=5000).replace("\r\n", "\n")
    plain = ESCAPES.sub("", written)
    assert visible(plain) == plain
    assert "\x1b[5m" not in written  # which we never use


@given(entries=sessions())
def test_no_session_raises_or_reaches_a_pipe_unseen(entries):
    """Whatever is in it: as a conversation, as a tree, and each entry by itself."""
    with tempfile.TemporaryDirectory() as folder:
        session = kept(store_of("pi", folder), entries)
        for stream in (io.StringIO(), Terminal()):
            face = command._Face(Output(stdout=stream), session, is_whole=False)
            lines = [
                *face.conversation(),
                *face.tree(),
                *(line for e in session.entries for line in face.entry(e)),
            ]
            for line in lines:
                shown = ESCAPES.sub("", line)
                assert visible(shown) == shown
                assert "\n" not in shown


@pytest.mark.process
def test_a_long_conversation_is_paged_and_a_short_one_is_not(machine, tmp_path):
    """By the pager the user likes."""
    pager = tmp_path / "pager"
    pager.write_text(f"#!/bin/sh\ncat > {tmp_path}/paged\n")
    pager.chmod(0o755)
    short, long = saved(machine, turns(1)), saved(machine, turns(60))
    at_terminal(short.id, rows=24, PAGER=str(pager))
    assert not (tmp_path / "paged").exists()
    at_terminal(long.id, rows=24, PAGER=str(pager))
    assert "turn 59" in (tmp_path / "paged").read_text()


@pytest.mark.process
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_is_no_error(unbuffered, machine):
    """`show | head -1`."""
    ref = saved(machine, turns(5000))
    shown = [sys.executable, "-m", "perdure", "sessions", "show", ref.id]
    settings = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with processes.Popen(shown, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=settings) as started:
        assert started.stdout
        assert started.stderr
        started.stdout.readline()
        started.stdout.close()
        assert started.stderr.read() == b""
    assert started.returncode == 141


@pytest.mark.process
def test_what_is_shown_is_the_same_from_a_real_process(machine):
    """Through real pipes."""
    ref = saved(machine, conversation())
    assert process("show", ref.id).out == machine.run("show", ref.id).out
