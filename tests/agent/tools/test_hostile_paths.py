"""Whatever path a model writes, a tool does its work or says what is wrong with the path."""

import os
from typing import Any

import pytest
from msgspec import structs

from perdure.agent.tools import Tool
from perdure.agent.tools.edit import EDIT
from perdure.agent.tools.find import FIND
from perdure.agent.tools.grep import GREP
from perdure.agent.tools.ls import LS
from perdure.agent.tools.read import READ
from perdure.agent.tools.write import WRITE

CALLS: dict[str, tuple[Tool, dict[str, Any]]] = {
    "write": (WRITE, {"content": "x"}),
    "read": (READ, {}),
    "edit": (EDIT, {"edits": [{"old_text": "x", "new_text": "y"}]}),
    "ls": (LS, {}),
    "find": (FIND, {"pattern": "*"}),
    "grep": (GREP, {"pattern": "x"}),
}
WRONG = {
    "a NUL": ("a\0b", "NUL"),
    "half a character": ("a\ud800", "no file name can have"),
    "in a user's name": ("~\ud800/x", "no file name can have"),
    "100,000 characters": ("x" * 100_000, "255"),
    "a name of 300 bytes": ("x" * 300, "255"),
    "50,000 folders": ("a/" * 50_000 + "f", "4,095"),
    "more than the system takes at once": ("aa/" * 1_500 + "f", "4,095"),
    "a chain of links": ("0", "symbolic link"),
    "below a chain of links": ("0/f", "symbolic link"),
}
LINKS = 1_500


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """Made once: a disk takes seconds for so many links, and no test changes them."""
    folder = tmp_path_factory.mktemp("chain")
    for number in range(LINKS):
        os.symlink(str(number + 1), folder / str(number))
    return folder


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(("path", "fact"), WRONG.values(), ids=WRONG)
def test_a_path_that_can_be_none_is_refused(chain, ctx, refused, name, path, fact):
    """The result says what is wrong, and names the limit; nothing is left behind, and no error of Python's is
    shown."""
    tool, arguments = CALLS[name]
    said = refused(tool, within=structs.replace(ctx, cwd=str(chain)), path=path, **arguments)
    assert fact in said
    assert "Error" not in said
    assert len(said) < 1_000
    assert len(os.listdir(chain)) == LINKS


@pytest.fixture
def deep(tmp_path):
    """Removed from its end: pytest would call itself once for each folder."""
    yield (path := "b/" * 1_950 + "f")
    os.unlink(tmp_path / path)
    os.removedirs(tmp_path / os.path.dirname(path))


def test_2000_folders_are_a_path_like_any_other(tmp_path, call, deep):
    """The calls that make them do not call themselves once for each."""
    path = deep
    assert ", a new file" in call(WRITE, path=path, content="x").text
    assert call(READ, path=path).text == "x"
    assert not call(EDIT, path=path, edits=[{"old_text": "x", "new_text": "y"}]).is_error
    assert call(READ, path=path).text == "y"
    assert call(LS, path=os.path.dirname(path)).text == "f"


def test_where_one_folder_cannot_be_made_none_is_left(tmp_path, refused):
    """Of those that were made for it."""
    assert "255" in refused(WRITE, path=f"new/{'x' * 300}/f", content="x")
    assert os.listdir(tmp_path) == []
