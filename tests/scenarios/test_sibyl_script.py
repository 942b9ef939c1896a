"""sibyl in a program of somebody's own: what `start_repl` takes, and what it leaves as it was."""

import asyncio
import gc
import inspect
import os
import signal
import warnings
from collections.abc import Iterator
from typing import TextIO

import pytest

from perdure.errors import UsageError
from perdure.programs.sibyl import start_repl
from perdure.programs.sibyl.command_line import main
from perdure.programs.sibyl.commands import TALK


@pytest.fixture
def typed(monkeypatch, tmp_path) -> Iterator[TextIO]:
    """What its user types before they leave: nothing, unless it is written here."""
    with (tmp_path / "typed").open("w+") as file:
        monkeypatch.setattr("sys.stdin", file)
        yield file


def test_sib_18_start_repl_takes_what_the_document_names():
    """By name only, and nothing else. It is saved every five minutes, as the program does it."""
    parameters = inspect.signature(start_repl).parameters.values()
    assert {each.kind for each in parameters} == {inspect.Parameter.KEYWORD_ONLY}
    assert {each.name: each.default for each in parameters} == {
        "model": None,
        "system_prompt": None,
        "name": "Sibyl",
        "session_id": None,
        "auto_save_interval": 300,
        "directory": None,
    }
    (option,) = [each for each in TALK.arguments if each.name == "--auto-save-interval"]
    assert option.default == 300


def test_sib_18_the_name_is_what_it_greets_with(typed, capsys):
    """Without one, its own."""
    assert start_repl(name="Delphi") == 0
    assert capsys.readouterr().out.startswith("Delphi, of Perdure ")
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("Sibyl, of Perdure ")


@pytest.mark.process
def test_sib_18_the_signals_of_a_program_are_its_own_again_after_a_talk(typed, capsys):
    """Also if one of them ended it: in the talk they are the talk's."""
    seen: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda number, _: seen.append(number)) for number in numbers}
    own = {number: signal.getsignal(number) for number in numbers}
    try:
        typed.write(f"!kill -TERM {os.getpid()}\n")
        typed.seek(0)
        assert start_repl() == 128 + signal.SIGTERM
        assert seen == []
        assert {number: signal.getsignal(number) for number in numbers} == own
        signal.raise_signal(signal.SIGTERM)
        assert seen == [signal.SIGTERM]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.slow
def test_sib_18_in_an_event_loop_it_is_refused(home):
    """And nothing was begun that nobody awaits."""

    async def talk() -> None:
        start_repl()

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(UsageError, match="cannot be held in an event loop"):
            asyncio.run(talk())
        gc.collect()
    assert [str(each.message) for each in told] == []
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("interval", ["60", None])
def test_sib_18_an_interval_that_is_no_number_is_refused(home, interval):
    """Before a session is made."""
    with pytest.raises(UsageError, match="auto_save_interval is no number of seconds"):
        start_repl(auto_save_interval=interval)
    assert list(home.iterdir()) == []
