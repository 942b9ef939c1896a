"""The public names: few, sorted, lazy, and changed only on purpose."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import perdure

PUBLIC = [
    "AgentEvent",
    "AgentSession",
    "AgentToolResult",
    "Model",
    "ModelRegistry",
    "ModelResolver",
    "NoCompaction",
    "PerdureError",
    "Session",
    "SessionEntry",
    "SessionManager",
    "SessionSummary",
    "Settings",
    "SummaryCompaction",
    "Tool",
]


def test_the_public_names_are_these_and_no_others():
    """A name more or less is a decision, not an accident: change it here too, and in the changelog."""
    assert perdure.__all__ == PUBLIC == sorted(PUBLIC)
    assert len(PUBLIC) <= 25


def test_every_public_name_can_be_imported():
    for name in perdure.__all__:
        assert getattr(perdure, name) is not None
    assert set(perdure.__all__) <= set(dir(perdure))


def test_every_public_name_is_in_the_pages_for_those_who_write_python():
    pages = "".join(Path("docs", page).read_text() for page in ("library.md", "agent.md"))
    assert [name for name in perdure.__all__ if not re.search(rf"(?<!\w){name}(?!\w)", pages)] == []


@pytest.mark.process
def test_importing_perdure_loads_nothing_heavy():
    """The package alone costs nothing; what a name needs is imported when the name is used."""
    script = "import sys; before = set(sys.modules); import perdure; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['perdure']"


@pytest.mark.process
def test_listing_the_layouts_does_not_load_the_codec():
    """A command that only looks for sessions must not pay for decoding them."""
    script = (
        "import sys; from perdure.session.layouts import LAYOUTS, home_of; home_of('pi');"
        "print([n for n in ('msgspec', 'json', 'asyncio', 'dataclasses', 'pathlib') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nothing"):
        perdure.nothing  # noqa: B018
