"""`pi` at a terminal, with much of everything: a long answer, a tool that prints 10 MB, a huge session."""

import re
import threading
import time
from collections.abc import Iterator
from functools import partial
from itertools import count, pairwise

import pytest

from perdure.testing import assistant_entry, user_entry
from tests.agent.models.wire_server import events, wire_server
from tests.front.one_prompt import called, said
from tests.front.shell_terminal import peak, say, shell, streamed, text_of, until_edited, until_idle

__all__ = ["shell", "wire_server"]

pytestmark = pytest.mark.process

MB = 1_000_000
FOOT = 20
"""Rows that may still change: the open block, the spinner, the editor, the status line."""
OURS = re.compile(
    rb"\x1b\["
    rb"(?:[0-9;]*m"  # colours
    rb"|[0-9]*[ABCD]"  # the cursor, from where it is
    rb"|[JK]"  # erase what is behind it
    rb"|\?(?:1|7|12|25|2004)[hl])"  # arrows, wrapping, the cursor's looks, marked pastes
)


def numbered_parts(size: int) -> Iterator[str]:
    """Markdown of many kinds, so many characters of it: all lines of it are numbered."""
    numbers = count(1)

    def each(times: int, line: str) -> str:
        return "".join(line.format(f"N{next(numbers):05}") for _ in range(times))

    while size > 0:
        parts = (
            each(1, "## {} is a heading\n\n"),
            each(2, "{} is a paragraph with **bold words**, `code` and *emphasis*, which is short.\n\n"),
            "```python\n",
            each(75, "{} = 'code that is a little longer than most, and fits in its line'\n"),
            "```\n\n",
            each(9, "- {} is an item of a list that is `long` enough to be wrapped at its *end*\n"),
            each(1, "\n> {} is a quotation\n\n"),
            "| number | what it is |\n|---|---|\n",
            each(12, "| {} | a row of a **table** |\n"),
            "\n",
            each(3, "1. {} is an item with a number\n\n   and a paragraph of its own\n"),
            "\n",
            each(12, "{} stands in a long paragraph which is wrapped several times. "),
            "\n\n",
        )
        part = "".join(parts)
        size -= len(part)
        yield part


def test_pi_23_the_scrollback_holds_each_line_of_a_long_answer_once_and_what_is_above_never_changes(shell):
    parts = [*numbered_parts(200_000)]
    portions = ["".join(parts[at : at + len(parts) // 4]) for at in range(0, len(parts), len(parts) // 4)]
    gates = [shell.gate() for _ in portions[1:]]
    pieces: list[str | threading.Event] = []
    for portion, gate in zip(portions, [*gates, "\nThe end."], strict=True):
        pieces += [*(portion[at : at + 100] for at in range(0, len(portion), 100)), gate]
    shell.answers(streamed(*pieces))
    terminal = shell.start()
    say(terminal, "count")
    snapshots: list[list[str]] = []
    looked = 0.0

    def has_come_to(text: str) -> bool:
        """Somewhere on the way, and there, it is looked at all of it."""
        nonlocal looked
        has_come = text in text_of(terminal)
        if has_come or time.monotonic() > looked + 0.7:
            snapshots.append(terminal.scrollback)
            looked = time.monotonic()
        return has_come

    for portion, gate in zip(portions, gates, strict=False):
        last = re.findall(r"N\d+", portion)[-1]
        terminal.until(partial(has_come_to, last), 60)
        gate.set()
    terminal.until(partial(has_come_to, "The end."), 60)
    until_idle(terminal)
    snapshots.append(terminal.scrollback)
    shown = re.findall(r"N\d{5}", "\n".join(snapshots[-1]))
    assert shown == re.findall(r"N\d{5}", "".join(portions))
    for before, after in pairwise(snapshots):
        above = "\n".join(before).rstrip().split("\n")[:-FOOT]
        assert after[: len(above)] == above
    ups = [int(rows or 1) for rows in re.findall(rb"\x1b\[([0-9]*)A", terminal.raw)]
    assert max(ups) < 24
    assert b"\x1b" not in OURS.sub(b"", terminal.raw)


def test_pi_23_while_a_tool_prints_10_mb_keys_are_answered_and_memory_stays(shell):
    prints = "yes 0123456789012345678901234567890123456789 | head -c 10000000; touch printed"
    waits = "while [ ! -e go ]; do sleep 0.02; done; echo the last line"
    command = ("c1", "bash", {"command": f"{prints}; {waits}"})
    shell.answers(events(called(command)), events(said("That was much.")), compaction={"enabled": False})
    terminal = shell.start(env={"TMPDIR": str(shell.pi.home)})
    at_first = peak(terminal.pid)
    say(terminal, "print")
    terminal.until("Running 1 tool")
    slowest = 0.0
    for typed in ("a", "ab", "abc", "abcd"):
        begun = time.monotonic()
        terminal.send(typed[-1])
        until_edited(terminal, typed)
        slowest = max(slowest, time.monotonic() - begun)
    terminal.until(lambda: (shell.pi.project / "printed").exists())
    (shell.pi.project / "go").touch()
    terminal.until("That was much.")
    until_idle(terminal)
    assert slowest < 1
    folded = [line for line in terminal.scrollback if line.startswith("▸ bash")]
    assert len(folded) == 1
    assert re.search(r"  [\d,]+ lines$", folded[0])
    assert "0123456789\n" not in text_of(terminal)
    assert peak(terminal.pid) < at_first + 60 * MB
    assert len(terminal.raw) < MB
    (whole,) = shell.pi.home.glob("perdure-bash-*/output.log")
    assert whole.stat().st_size == 10 * MB + len("the last line\n")


def test_pi_23_a_session_of_60_mb_opens_at_its_end_without_being_read_whole(shell, monkeypatch):
    monkeypatch.chdir(shell.pi.project)
    shell.answers(events(said("the last answer")))
    new = shell.start()
    usual = peak(new.pid)
    new.close()
    sessions = shell.pi.sessions
    session = sessions.create_session()
    text = "some words of an answer " * 1250
    model = {"provider": "custom", "model": "test"}
    turns = [(user_entry(f"question {n}"), assistant_entry(text, **model)) for n in range(2000)]
    last = [user_entry("the last question"), assistant_entry("the last answer", **model)]
    sessions.save(session, [entry for turn in [*turns, last] for entry in turn])
    terminal = shell.start("--session", session)
    terminal.until("Resumed: a session of 6")
    assert [line for line in terminal.screen if line][:2] == ["> the last question", "the last answer"]
    assert peak(terminal.pid) < usual + 15 * MB
