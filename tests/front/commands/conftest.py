"""What the tests of commands share."""

import pytest

from tests.front.commands.machine import Machine


@pytest.fixture
def machine(home, monkeypatch, capsys) -> Machine:
    """A user's home with nothing in it yet but a workspace that cortext knows; we are somewhere else."""
    (home / "elsewhere").mkdir()
    monkeypatch.chdir(home / "elsewhere")
    return Machine(home, monkeypatch, capsys)
