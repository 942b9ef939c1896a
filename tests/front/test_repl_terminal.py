"""`pi` at a terminal: a real process on a real pty, and a server in place of the model."""

import re
import signal
import stat
import time

import pytest

from perdure.testing import assistant_entry, tool_call_entry, tool_result_entry, user_entry
from tests.agent.models.wire_server import CUT, events, wire_server
from tests.front.one_prompt import called, said
from tests.front.shell_terminal import (
    edited,
    hang_up,
    is_given_back,
    say,
    shell,
    streamed,
    text_of,
    until_edited,
    until_idle,
)
from tests.front.terminal import Tmux
from tests.needs import needs_tool

__all__ = ["shell", "wire_server"]

pytestmark = pytest.mark.process

MARKDOWN = """\
# Findings

The **parser** reads `all` of it.

```python
def main(total):
    return total
```
"""
COLOUR = re.compile(rb"\x1b\[[0-9;]*[34][0-9][0-9;]*m|\x1b\[[0-9;]*9[0-7]m")


# --- a conversation -----------------------------------------------------------------------------------


def test_pi_23_a_conversation_at_80_columns(shell):
    """Prompt, status, Markdown, messages of several lines, completion, and lines that come back."""
    model = {
        "id": "test",
        "base_url": f"{shell.server.url}/v1",
        "context_window": 8000,
        "cost": {"input": 1000, "output": 1000},
    }
    shell.answers(events(said(*MARKDOWN.splitlines(True))), events(said("understood")), models=[model])
    terminal = shell.start()
    assert [line for line in terminal.screen if line][1] == ">"
    assert terminal.cursor == (2, terminal.screen.index(">"))

    say(terminal, "what is here?")
    terminal.until("return total")
    until_idle(terminal)
    assert [line.strip() for line in terminal.screen if line][1:-2] == [
        "> what is here?",
        "Findings",
        "The parser reads all of it.",
        "def main(total):",
        "return total",
    ]
    assert re.search(rb"\x1b\[[0-9;]+mdef\x1b\[", terminal.raw)
    session = shell.pi.sessions.list_sessions()[0].id
    status = next(line for line in terminal.screen if line.startswith("custom/test"))
    assert status.split(" · ") == ["custom/test", "0.1% of 8k", "$0.0120", session[:8], "~/project"]

    terminal.send("one")
    terminal.keys("c-j")
    say(terminal, "two\\")
    terminal.send("three")
    terminal.keys("alt-enter")
    terminal.send("four")
    until_edited(terminal, "one\ntwo\nthree\nfour")
    terminal.keys("enter")
    terminal.until("understood")
    until_idle(terminal)
    terminal.paste("a\n\n  b\nc")
    until_edited(terminal, "a\n\n  b\nc")
    terminal.keys("enter")
    terminal.until(lambda: len(shell.server.requests) == 3)
    until_idle(terminal)
    assert shell.prompts == ["what is here?", "one\ntwo\nthree\nfour", "a\n\n  b\nc"]

    (shell.pi.project / "first file.txt").write_text("mind the gap")
    offers = {
        "/he": ("what can be typed here", "/help"),
        "see @fi": (" first file.txt", 'see @"first file.txt"'),
        "/resume ": (f" {session}", f"/resume {session}"),
    }
    for typed, (offered, completed) in offers.items():
        terminal.send(typed)
        terminal.until(offered)
        terminal.keys("tab")
        terminal.until(f"> {completed}\n")
        terminal.keys("c-u")
        until_edited(terminal, "")
    say(terminal, 'see @"first file.txt"')
    terminal.until(lambda: len(shell.server.requests) == 4)
    assert "mind the gap" in shell.prompts[-1]
    until_idle(terminal)
    terminal.keys("up")
    until_edited(terminal, 'see @"first file.txt"')
    terminal.keys("c-c", "c-d")
    assert terminal.wait() == 0
    assert terminal.screen[terminal.cursor[1] - 1].endswith(f" --session {session}")


def test_pi_23_the_next_start_knows_what_was_typed_and_leaves_nothing_if_nothing_is_said(shell):
    shell.answers(events(said("fine")))
    terminal = shell.start()
    say(terminal, "the first line")
    terminal.until("fine")
    until_idle(terminal)
    terminal.keys("c-d")
    assert terminal.wait() == 0

    history = shell.pi.home / ".pi" / "agent" / "shell-history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    terminal = shell.start()
    terminal.keys("up")
    until_edited(terminal, "the first line")
    terminal.keys("c-c")
    until_edited(terminal, "")
    terminal.keys("c-d")
    assert terminal.wait() == 0
    assert len(shell.pi.sessions.list_sessions()) == 1
    assert b"--session" not in terminal.raw


def test_pi_23_a_session_that_goes_on_shows_the_last_exchange_and_what_was_restored(shell, monkeypatch):
    monkeypatch.chdir(shell.pi.project)
    shell.answers(events(said("fine")))
    sessions = shell.pi.sessions
    session = sessions.create_session()
    spoken = {"provider": "custom", "model": "test"}
    sessions.save(
        session,
        [
            *(user_entry("long ago"), assistant_entry("forgotten", **spoken)),
            *(user_entry("list it"), tool_call_entry("ls", {"path": "."})),
            *(tool_result_entry("a.py\nb.py", name="ls"), assistant_entry("Two **files**.", **spoken)),
        ],
    )
    terminal = shell.start("--session", session[:6])
    terminal.until("Resumed")
    *shown, status = (line for line in terminal.screen if line)
    assert shown == [
        *("> list it", "▸ ls  .  2 lines", "Two files."),
        *("Resumed: 6 messages, with custom/test", ">"),
    ]
    assert re.fullmatch(rf"custom/test · \d+\.\d% of 8k · {session[:8]} · ~/project", status)


# --- while the agent works ----------------------------------------------------------------------------


def test_pi_23_what_is_typed_while_the_agent_works_is_queued_shown_and_said(shell):
    """Enter steers, Alt+Enter is for later. Esc gives what was not said back, before what is being typed."""
    first, later = shell.gate(), shell.gate()
    shell.answers(
        streamed("the beginning ", first, "and the end"),
        events(said("steered")),
        events(said("followed")),
        streamed("a part ", later),
        events(said("all of it")),
    )
    terminal = shell.start()
    say(terminal, "go")
    terminal.until("the beginning")
    terminal.send("afterwards")
    terminal.keys("alt-enter")
    terminal.until("queued for later: afterwards")
    say(terminal, "at once")
    terminal.until("queued: at once")
    terminal.send("still typing")
    until_edited(terminal, "still typing")
    assert len(shell.server.requests) == 1
    first.set()
    terminal.until("followed")
    until_idle(terminal)
    assert edited(terminal) == "still typing"
    assert "queued" not in text_of(terminal)
    assert shell.prompts == ["go", "at once", "afterwards"]
    shown = [line for line in terminal.screen if line]
    assert shown[1:-2] == [
        *("> go", "the beginning and the end"),
        *("> at once", "steered"),
        *("> afterwards", "followed"),
    ]

    terminal.keys("c-u")
    say(terminal, "again")
    terminal.until("a part")
    terminal.send("third")
    terminal.keys("alt-enter")
    say(terminal, "second")
    terminal.send("unsent")
    until_edited(terminal, "unsent")
    terminal.keys("escape")
    until_edited(terminal, "second\nthird\nunsent")
    assert shell.pi.messages()[-1] == ("assistant", "a part ")
    terminal.keys("enter")
    terminal.until("all of it")
    assert shell.prompts[-1] == "second\nthird\nunsent"


def test_pi_23_a_tool_call_is_one_line_what_it_printed_is_folded_and_what_it_changed_is_shown(shell):
    project = shell.pi.project
    (project / "main.py").write_text("def main():\n    print('hello')\n    return 0\n")
    waits = "seq 101 140; while [ ! -e go ]; do sleep 0.02; done"
    edits = [{"oldText": "'hello'", "newText": "'goodbye'"}]
    shell.answers(
        events(called(("c1", "bash", {"command": waits}))),
        events(
            called(
                ("c2", "edit", {"path": "main.py", "edits": edits}),
                ("c3", "write", {"path": "new.txt", "content": "alpha\nbeta\n"}),
                ("c4", "read", {"path": "nothing.txt"}),
            )
        ),
        events(said("Done.")),
    )
    terminal = shell.start()
    say(terminal, "work")
    terminal.until("Running 1 tool  1 s")
    terminal.until(lambda: "140" in (line.strip() for line in terminal.screen))
    call, printed = (line for line in terminal.screen if "140" in line)
    assert re.fullmatch(rf"▸ bash +{re.escape(waits)}  \d+ s", call)
    assert printed.strip() == "140"
    for spinner in "⠋⠴":
        terminal.until(f"{spinner} Running 1 tool")
    (project / "go").touch()
    terminal.until("Done.")
    until_idle(terminal)
    shown = [line for line in terminal.screen if line]
    assert shown[2:-3] == [
        f"▸ bash  {waits}  40 lines",
        "▸ edit  main.py  +1 -1",
        "     1 def main():",
        "    -2     print('hello')",
        "    +2     print('goodbye')",
        "     3     return 0",
        "▸ write  new.txt  new file",
        "    +1 alpha",
        "    +2 beta",
        "▸ read  nothing.txt  failed",
        "    nothing.txt does not exist. Use ls or find.",
    ]
    say(terminal, "/expand 4")
    terminal.until("  140\n>")
    numbers = [line.strip() for line in terminal.scrollback if re.fullmatch(r"  1\d\d", line)]
    assert numbers == [*map(str, range(101, 141))]
    terminal.keys("c-o")
    terminal.until("▸ read nothing.txt\n  nothing.txt does not exist. Use ls or find.")


def test_an_answer_that_broke_off_is_retried_below_it_and_only_the_whole_one_is_kept(shell):
    half = said("half an answer").partition(b"\n\n")[0] + b"\n\n"
    shell.answers(events(half, CUT), events(said("the whole answer")))
    terminal = shell.start()
    say(terminal, "go")
    terminal.until("the whole answer")
    until_idle(terminal)
    lines = [line for line in terminal.screen if line.strip()]
    at = lines.index("half an answer")
    assert "broke off; retrying in" in lines[at + 1]
    assert lines[at + 2] == "the whole answer"
    assert shell.pi.messages() == [("user", "go"), ("assistant", "the whole answer")]


# --- ending a turn, and the shell ---------------------------------------------------------------------


def test_g_6_esc_and_ctrl_c_end_the_turn_keep_what_arrived_and_the_shell_goes_on(shell):
    """Ctrl+C on a line clears it, Ctrl+D in one does not leave; a second Ctrl+C within two seconds leaves."""
    shell.answers(
        *(streamed(f"half {number} ", shell.gate()) for number in (1, 2)), events(said("still here"))
    )
    terminal = shell.start()
    terminal.send("draft")
    terminal.keys("home", "c-d")
    until_edited(terminal, "raft")
    terminal.keys("c-c")
    cleared = time.monotonic()
    until_edited(terminal, "")

    say(terminal, "one")
    terminal.until("half 1")
    terminal.keys("escape")
    terminal.until("Interrupted")
    until_idle(terminal)
    assert shell.pi.messages() == [("user", "one"), ("assistant", "half 1 ")]
    assert shell.pi.last().stop_reason == "aborted"

    say(terminal, "two")
    terminal.until("half 2")
    terminal.until(lambda: time.monotonic() > cleared + 2)
    terminal.keys("c-c")
    terminal.until(lambda: text_of(terminal).count("Interrupted") == 2)
    interrupted = time.monotonic()
    say(terminal, "three")
    terminal.until("still here")
    until_idle(terminal)
    assert [text for _, text in shell.asked[-1]] == ["one", "half 1 ", "two", "half 2 ", "three"]

    terminal.until(lambda: time.monotonic() > interrupted + 2)
    terminal.keys("c-c")
    terminal.until("Ctrl+C again leaves")
    terminal.keys("c-c")
    assert terminal.wait() == 130
    assert shell.pi.messages()[-2:] == [("user", "three"), ("assistant", "still here")]


def test_g_6_a_call_that_esc_kept_from_starting_is_shown_as_not_run(shell):
    """It waited for the one before it."""
    calls = called(
        ("a", "bash", {"command": "touch began; sleep 60"}), ("b", "bash", {"command": "touch two"})
    )
    shell.answers(events(calls))
    terminal = shell.start()
    say(terminal, "go")
    terminal.until((shell.pi.project / "began").exists)
    terminal.keys("escape")
    terminal.until("Interrupted")
    until_idle(terminal)
    first, second = (line for line in terminal.screen if line.startswith("▸ bash"))
    assert (first.split()[-1], second) == ("failed", "▸ bash  touch two  not run")
    assert not (shell.pi.project / "two").exists()
    assert [role for role, _ in shell.pi.messages()] == ["user", "assistant", "toolResult", "toolResult"]


def test_g_6_ctrl_c_twice_in_the_middle_of_an_answer_leaves_with_all_that_arrived(shell):
    shell.answers(streamed("half of it", shell.gate()))
    terminal = shell.start()
    say(terminal, "go")
    terminal.until("half of it")
    terminal.keys("c-c", "c-c")
    assert terminal.wait() == 130
    assert shell.pi.messages() == [("user", "go"), ("assistant", "half of it")]
    assert shell.pi.last().stop_reason == "aborted"
    assert terminal.screen[terminal.cursor[1] - 1].startswith("Resume: ")
    assert is_given_back(terminal)


@pytest.mark.parametrize(
    ("end", "code"),
    [
        pytest.param(lambda terminal: terminal.kill(signal.SIGKILL), -signal.SIGKILL, id="kill -9"),
        pytest.param(lambda terminal: terminal.kill(signal.SIGTERM), 143, id="SIGTERM"),
        pytest.param(lambda terminal: terminal.kill(signal.SIGHUP), 129, id="SIGHUP"),
        pytest.param(hang_up, 129, id="closed"),
    ],
)
def test_g_3_whatever_ends_it_in_the_middle_of_an_answer_all_that_was_acknowledged_is_there(shell, end, code):
    """Other processes can read it; the next start shows the last exchange, and the history has what was
    queued. What a model had said of an answer is kept by all but kill -9."""
    shell.answers(events(said("the first answer")), streamed("half of\n\nthe second", shell.gate()))
    terminal = shell.start()
    say(terminal, "one")
    terminal.until("the first answer")
    until_idle(terminal)
    say(terminal, "two")
    terminal.until("the second")
    say(terminal, "not said yet")
    terminal.until("queued: not said yet")
    end(terminal)
    assert terminal.wait() == code
    if end is not hang_up and code > 0:
        assert is_given_back(terminal)
    kept = [("user", "one"), ("assistant", "the first answer"), ("user", "two")]
    if code > 0:
        kept.append(("assistant", "half of\n\nthe second"))
        assert shell.pi.last().stop_reason == "aborted"
    assert shell.pi.messages() == kept

    terminal = shell.start("-c")
    terminal.until(f"Resumed: {len(kept)} messages, with custom/test")
    shown = [line for line in terminal.screen if line]
    answer = ["half of", "the second", "Interrupted"] if code > 0 else []
    assert shown[: len(answer) + 1] == ["> two", *answer]
    terminal.keys("up")
    until_edited(terminal, "not said yet")


# --- other terminals ----------------------------------------------------------------------------------


def test_pi_23_an_answer_is_complete_after_the_terminal_became_wider_narrower_and_tiny(shell):
    """Each line is there once, in order; but a terminal that becomes lower than what is open moves the top of
    that above, where it stays."""
    sizes = [(120, 30), (50, 24), (20, 6), (80, 24), (200, 50)]
    gates = [shell.gate() for _ in sizes]
    names = [[f"n{part}{item}" for item in range(9)] for part in range(len(sizes) + 1)]
    parts = [
        "".join(f"- {name} with `code` and more words\n" for name in items)
        # What is open when the size changes; the last word of it can be seen on any screen.
        + f"\n{last} is a paragraph that is longer than the narrowest line E{part}"
        for part, (*items, last) in enumerate(names)
    ]
    waiting = [piece for part, gate in zip(parts, gates, strict=False) for piece in (part, gate, "\n\n")]
    shell.answers(streamed(*waiting, parts[-1]), events(said("fine")))
    terminal = shell.start()
    say(terminal, "go")
    for part, (size, gate) in enumerate(zip(sizes, gates, strict=True)):
        terminal.until(f"E{part}")
        terminal.resize(*size)
        gate.set()
    terminal.until(f"E{len(sizes)}")
    until_idle(terminal)
    shown = re.findall(r"\bn\d\d\b", "\n".join(terminal.scrollback))
    assert [*dict.fromkeys(shown)] == [name for items in names for name in items]
    assert {name[1] for name in shown if shown.count(name) > 1} <= {"2"}
    say(terminal, "and now?")
    terminal.until("fine")
    terminal.keys("c-d")
    assert terminal.wait() == 0


def test_pi_23_without_colour_nothing_is_coloured(shell):
    command = ("c1", "bash", {"command": "printf '\\033[31mred\\033[0m'; exit 1"})
    shell.answers(events(called(command)), events(said(MARKDOWN)))
    terminal = shell.start(env={"NO_COLOR": "1"})
    say(terminal, "go")
    terminal.until("return total")
    until_idle(terminal)
    assert "\n▸ bash " in text_of(terminal)
    terminal.send("/")
    terminal.until("/compact")
    terminal.keys("c-u", "c-d")
    assert terminal.wait() == 0
    assert COLOUR.findall(terminal.raw) == []


def test_pi_23_on_a_dumb_terminal_no_escape_code_is_written(shell):
    """A conversation works there, and Ctrl+C ends a turn."""
    shell.answers(events(said(MARKDOWN)), streamed("one line\nhalf of", shell.gate()), events(said("fine")))
    terminal = shell.start(env={"TERM": "dumb"})
    say(terminal, "hello")
    terminal.until("return total")
    say(terminal, "more")
    terminal.until("one line")
    terminal.keys("c-c")
    terminal.until("Interrupted")
    assert shell.pi.last().stop_reason == "aborted"
    say(terminal, "and now?")
    terminal.until("fine")
    assert shell.prompts == ["hello", "more", "and now?"]
    terminal.keys("c-d")
    assert terminal.wait() == 0
    assert b"\x1b" not in terminal.raw


@needs_tool("tmux")
@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (200, 50)])
def test_pi_23_in_tmux_each_line_is_there_once(shell, columns, rows):
    gate = shell.gate()
    items = [f"- item {number:03} of a list with **bold** words" for number in range(1, 101)]
    code = [f"line_{number:03} = {number}" for number in range(1, 101)]
    answer = "\n".join(["# Heading", "", *items, "", "```python", *code, "```", "", "The end."])
    pieces = [answer[at : at + 40] for at in range(0, len(answer), 40)]
    shell.answers(streamed(*pieces[:60], gate, *pieces[60:]))
    with Tmux(*shell.command(), cwd=shell.pi.project, columns=columns, rows=rows) as tmux:
        tmux.until("custom/test")
        tmux.send("count")
        tmux.send_keys("Enter")
        tmux.until("item 05")
        gate.set()
        tmux.until("The end.")
        until_idle(tmux)
        shown = [line.strip() for line in tmux.capture() if line.strip()]
        wanted = [
            "> count",
            "Heading",
            *(f"• {item[2:].replace('*', '')}" for item in items),
            *code,
            "The end.",
        ]
        assert shown[1:-2] == wanted
        tmux.send_keys("C-d")
        tmux.until("Resume: ")
