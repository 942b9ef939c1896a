"""Whether a folder is trusted: who is asked, what they are shown, and what every answer means."""

import io
import json
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perdure.agent.project import KINDS, Offer
from perdure.agent.trust import Trust
from perdure.front.commands.mcp import mcp
from perdure.front.output import Output, Styled
from perdure.front.trusting import ask, lines, project
from perdure.front.visible import width
from perdure.programs.pi import main
from tests import processes
from tests.front.typed import Typed

ASKING = "from perdure.front.output import Output; from perdure.front.trusting import ask; import sys;"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Answered(NamedTuple):
    is_trusted: bool
    told: str


class Place:
    """A folder, and somebody who starts a program there."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._patch = monkeypatch

    def write(self, name: str, text: str = "") -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def ask(self, answer: str | None = None, *, may_ask: bool = True) -> Answered:
        """With an answer, at a terminal."""
        told = io.StringIO() if answer is None else Terminal()
        typed = Typed("y\n") if answer is None else Typed(answer, is_terminal=True)
        self._patch.setattr(sys, "stdin", typed)
        self._patch.setattr(sys, "stderr", told)
        found = ask(str(self.folder), Output(program="perdure"), may_ask=may_ask)
        return Answered(found, told.getvalue())

    @property
    def decision(self) -> bool | None:
        return Trust().all().get(str(self.folder))


@pytest.fixture
def place(tmp_path, monkeypatch) -> Place:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    return Place(tmp_path, monkeypatch)


@pytest.fixture
def offering(place) -> Place:
    place.write(".pi/extensions/a.py")
    place.write(".pi/extensions/b.py")
    place.write(".pi/settings.json", json.dumps({"mcpServers": {"x": {"command": "evil"}}, "theme": "dark"}))
    return place


NOTICE = (
    ".pi is not used: this folder is not trusted (2 extensions, 1 MCP server, settings); "
    "`perdure trust` shows and allows it\n"
)


def test_g_10_a_folder_with_nothing_to_offer_is_not_asked_about_and_not_trusted(place):
    """What an agent writes there a minute later waits for a yes too."""
    assert place.ask("y\n") == (False, "")
    assert place.ask() == (False, "")
    assert place.decision is None


def test_g_10_without_a_terminal_nothing_is_read_and_one_line_says_so(offering):
    """A yes that is piped in is nobody's."""
    assert offering.ask() == (False, NOTICE)
    assert offering.decision is None


def test_g_10_who_may_not_be_asked_is_not(offering, monkeypatch):
    """Also at a terminal."""
    monkeypatch.setenv("COLUMNS", "999")  # for a sentence on one line
    assert offering.ask("y\n", may_ask=False) == (False, NOTICE)


def test_g_10_an_agent_at_a_terminal_is_not_asked(offering, monkeypatch):
    """A command that an agent runs may make itself a terminal, and type a yes there."""
    monkeypatch.setenv("PERDURE_CALL", "a1")
    answered = offering.ask("y\n")
    assert not answered.is_trusted
    assert "[y/N]" not in answered.told
    assert "is not trusted" in answered.told
    assert offering.decision is None


@pytest.mark.parametrize("is_trusted", [True, False])
@pytest.mark.parametrize("answer", [None, "n\n"])
def test_g_10_what_is_decided_is_not_asked_again(is_trusted, answer, offering):
    """Nor spoken of."""
    Trust().decide(str(offering.folder), is_trusted)
    assert offering.ask(answer) == (is_trusted, "")


def test_g_10_a_yes_is_asked_for_once_with_all_that_it_allows(offering, monkeypatch):
    """And is kept."""
    monkeypatch.setenv("COLUMNS", "200")  # for the folder's name, which is long
    answered = offering.ask("y\n")
    assert answered.is_trusted
    assert answered.told == (
        f"{offering.folder} brings more than text. If you trust it, this is used:\n"
        "  extensions: Python that runs inside this program, with all your rights\n"
        "    .pi/extensions/a.py\n"
        "    .pi/extensions/b.py\n"
        "  servers: MCP servers: programs with all your rights, or addresses\n"
        "    x: runs evil\n"
        "  settings: values in place of yours\n"
        "    theme: dark\n"
        "That is 2 extensions, 1 MCP server, settings.\n"
        "A yes holds for this folder and everything below it, also for what comes to be there later.\n"
        f"Trust {offering.folder}? [y/N] Trusted; `perdure trust --revoke` changes that.\n"
    )
    assert offering.decision is True
    assert offering.ask("n\n") == (True, "")


@pytest.mark.slow
def test_g_10_what_is_asked_is_folded_between_words(place):
    """However long the folder's name is: its own words are whole, and so is what can be answered."""
    for length in range(1, 90):
        deep = Place(place.folder / ("x" * length), place._patch)
        deep.write(".pi/extensions/a.py")
        *said, question = deep.ask("n\n").told.splitlines()
        assert all(width(line) <= 80 for line in said)
        assert "[y/N] Not trusted;" in question
        for whole in ("brings", "more", "than", "text.", "Trust"):
            assert any(whole in line.split(" ") for line in [*said, question])


@pytest.mark.parametrize("answer", ["n\n", "\n", "perhaps\nno\n"])
def test_g_10_a_no_is_kept_too(answer, offering):
    """With how to change it."""
    answered = offering.ask(answer)
    assert not answered.is_trusted
    assert answered.told.endswith("[y/N] Not trusted; `perdure trust` changes that.\n")
    assert offering.decision is False
    assert offering.ask("y\n") == (False, "")


@pytest.mark.parametrize("answer", ["", "perhaps\n"])
def test_g_10_the_end_of_input_decides_nothing(answer, offering):
    """Ctrl+D is nobody's no."""
    answered = offering.ask(answer)
    assert not answered.is_trusted
    assert answered.told.endswith("Nothing is decided, and nothing of it is used now.\n")
    assert offering.decision is None


def test_g_10_a_damaged_file_is_told_of_and_trusts_nobody(offering, home, monkeypatch):
    """In one line, and nobody is asked what could not be kept."""
    monkeypatch.setenv("COLUMNS", "999")  # for a sentence on one line
    path = home / ".pi" / "agent" / "trust.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    answered = offering.ask("y\n")
    assert not answered.is_trusted
    assert answered.told.startswith("~/.pi/agent/trust.json is damaged, line 1: it is no JSON; until")
    assert answered.told.count("\n") == 1
    assert path.read_text() == "{"


def test_an_answer_that_cannot_be_kept_holds_for_this_time(offering, home, monkeypatch):
    """And that is said."""
    monkeypatch.setenv("COLUMNS", "999")  # for a sentence on one line
    (home / ".pi").write_text("no folder")
    answered = offering.ask("y\n")
    assert answered.is_trusted
    assert "That holds for this time only: Not saved: " in answered.told


def test_g_10_nothing_of_a_folder_can_pass_for_what_is_said_about_it(place):
    """No line feed and no escape code of its names gets through; long lists of harmless things are cut."""
    for number in range(24):
        place.write(f".pi/prompts/{number:02}\n    Trust? [y\x1b[2J.md")
    place.write(".pi/settings.json", json.dumps({"prompts": ["word " * 9999], "theme": "x" * 9999}))
    told = place.ask("n\n").told
    assert "\x1b" not in told
    assert told.count("Trust? [y") == 11  # and a text of the settings
    assert "\n    … and 13 more\n" in told
    assert "more characters)" in told
    assert len(told.splitlines()) < 50
    assert all(len(line) <= 80 for line in told.splitlines() if str(place.folder) not in line)


def test_g_10_of_what_is_dangerous_nothing_is_cut(place):
    """Neither the hundredth extension nor the end of a long command line; in bounded time."""
    numbers = [f"{number:02}" for number in range(99)]
    long = "x" * 400_000 + "THE-END"
    for each in numbers:
        place.write(f".pi/extensions/{each}.py")
    servers = {"long": {"command": "sh", "args": ["-c", long]}}
    servers |= {f"s{each}": {"command": f"run{each}"} for each in numbers}
    models = [{"id": f"m{each}", "baseUrl": f"there{each}", "apiKey": f"!key{each}"} for each in numbers]
    place.write(".pi/settings.json", json.dumps({"mcpServers": servers, "models": models}))
    told = "".join(place.ask("n\n").told.split())
    assert f"long:runssh-c{long}" in told
    for each in numbers:
        assert f"extensions/{each}.py" in told
        assert f"s{each}:runsrun{each}" in told
        assert f"m{each}:atthere{each}" in told
        assert f"models.{int(each)}.apiKeyruns!key{each}" in told
    assert told.count("more") == 1  # than text


def test_g_10_a_trusted_folder_is_its_real_path(offering, tmp_path_factory):
    """By whatever name somebody came there; and none, if it is not trusted."""
    link = tmp_path_factory.mktemp("links") / "link"
    link.symlink_to(offering.folder)
    out = Output(stderr=io.StringIO())
    assert project(str(link), out, may_ask=False) is None
    Trust().decide(str(offering.folder), True)
    assert project(str(link), out, may_ask=False) == str(offering.folder)


@pytest.mark.parametrize("command", ["models", "mcp"])
def test_g_10_a_command_that_reads_settings_says_what_it_left_aside(
    command, place, home, monkeypatch, capsys
):
    """In one line, as an agent does; nothing where the folder only holds text, and nothing when it is
    decided. What is wrong with the decisions is told where it matters."""
    monkeypatch.chdir(place.folder)
    monkeypatch.setattr(sys, "argv", ["pi"])

    def told() -> list[str]:
        assert main([command]) == 0
        return [line for line in capsys.readouterr().err.splitlines() if "trust" in line]

    decisions = home / ".pi" / "agent" / "trust.json"
    decisions.parent.mkdir(parents=True)
    decisions.write_text("{")
    assert told() == []
    place.write(".pi/settings.json", '{"theme": "dark"}')
    (line,) = told()
    assert line.startswith("~/.pi/agent/trust.json is damaged, line 1: it is no JSON; until")
    decisions.unlink()
    (line,) = told()
    assert line.startswith(".pi is not used: this folder is not trusted (settings)")
    Trust().decide(str(place.folder), False)
    assert told() == []


@pytest.mark.parametrize(("answer", "listed"), [("n\n", ""), ("y\n", "evil  disabled")])
def test_g_10_mcp_asks_before_it_uses_what_a_folder_brings(answer, listed, place, monkeypatch):
    """At a terminal."""
    place.write(".pi/settings.json", '{"mcpServers": {"evil": {"command": "evil", "disabled": true}}}')
    monkeypatch.chdir(place.folder)
    told, answered = Terminal(), io.StringIO()
    typed = Typed(answer, is_terminal=True)
    assert mcp(SimpleNamespace(name=[]), Output(stdout=answered, stderr=told, stdin=typed)) == 0
    assert "evil: runs evil; is disabled now\n" in told.getvalue()
    assert listed in answered.getvalue()
    assert bool(listed) == bool(answered.getvalue())


@pytest.mark.process
def test_a_folder_that_only_holds_text_loads_nothing_that_tells_of_others(tmp_path):
    """So that a listing of models is as quick as without any of this."""
    code = f"{ASKING} ask('.', Output(), may_ask=True); sys.exit('perdure.agent.project' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path).returncode == 0


def plain(line: tuple[str | Styled, ...]) -> str:
    return "".join(part.text if isinstance(part, Styled) else part for part in line)


TEXTS = st.text(st.characters(codec="utf-8"), max_size=300) | st.sampled_from(
    ["a" * 500, "界" * 100, "x " * 99]
)


@given(st.lists(st.lists(TEXTS, max_size=8), max_size=3), st.integers(1, 120))
@example([["a" * 500]], 8)  # as wide as what is before a line that goes on
def test_what_is_offered_is_folded_and_none_of_it_lost(offered, columns):
    """No line is wider than the screen, if that is not all too narrow; every line but a group's first is
    indented, and one that goes on is indented more."""
    offers = [Offer(kind, KINDS[kind], items) for kind, items in zip(KINDS, offered, strict=False)]
    shown = [*map(plain, lines(offers, columns))]
    assert all(width(line) <= max(columns, 28) for line in shown)
    assert all("\n" not in line for line in shown)
    starts = [line for line in shown if line.startswith("    ") and not line.startswith("        ")]
    assert len(starts) >= sum(
        bool(item.strip()) for offer in offers for item in offer.items if item[:1] != " "
    )
    whole = [*map(plain, lines(offers))]
    assert len(whole) == sum(1 + len(offer.items) for offer in offers)
    assert "".join("".join(shown).split()) == "".join("".join(whole).split())


@pytest.mark.process
@pytest.mark.parametrize(("typed", "decision"), [(b"y\n", True), (b"\x04", None)])
def test_g_10_at_a_real_terminal(typed, decision, offering):
    """Typed by somebody; Ctrl+D is the end of input."""
    ours, theirs = pty.openpty()
    code = f"{ASKING} sys.exit(ask({str(offering.folder)!r}, Output(), may_ask=True))"
    with processes.Popen(
        [sys.executable, "-c", code], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as started:
        os.close(theirs)
        os.write(ours, typed)
        seen = b""
        with suppress(OSError):  # Linux's way to say that the other side is closed
            while piece := os.read(ours, 2**16):
                seen += piece
        os.close(ours)
    assert started.returncode == bool(decision)
    assert b"Trust" in seen
    assert offering.decision is decision
