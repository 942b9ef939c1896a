"""cortext, from outside: a workspace, where its conversations begin, and its repository (COR-18, COR-20)."""

import json

import pytest

from tests.agent.models.wire_server import wire_server
from tests.programs.workspaces import cortext

__all__ = ["cortext", "wire_server"]

pytestmark = pytest.mark.process


def test_cor_20_init_with_an_empty_name_makes_nothing(cortext):
    """It names no folder, and so not this one."""
    folder = cortext.home / "other"
    folder.mkdir()
    cortext.project = folder
    done = cortext.within("init", "")
    assert (done.code, done.out) == (2, "")
    assert "A folder needs a name" in done.err
    assert [*folder.iterdir()] == []


def test_cor_20_a_types_folder_in_the_registry_is_where_its_conversations_begin(cortext, wire_server):
    """In a folder for the day, numbered with all others of that day; they are resumed and committed there. A
    folder that leads out of the workspace is not used."""
    cortext.answers(wire_server, "Yes.")
    path = cortext.project / ".workspace" / "registry.json"
    registry = json.loads(path.read_text())
    registry["conversation_types"]["plan"]["folder"] = "notes/plans"
    registry["conversation_types"]["debug"]["folder"] = "../outside"
    path.write_text(json.dumps(registry))
    for kind, title in (("plan", "Ship"), ("debug", "Token"), ("plan", "Sell")):
        assert "Committed" in cortext.within("start", kind, title, stdin="Well?\n").err
    day = cortext.refs[0].id.partition("/")[0]
    assert [(ref.id, ref.path.removeprefix(f"{cortext.project}/")) for ref in cortext.refs] == [
        (f"{day}/{name}", f"{folder}/{day}/{name}/.session/messages.jsonl")
        for folder, name in (
            ("notes/plans", "001-plan-ship"),
            ("conversations", "002-debug-token"),
            ("notes/plans", "003-plan-sell"),
        )
    ]
    assert not (cortext.home / "outside").exists()
    assert cortext.git("status", "--porcelain", "--", "notes", "conversations") == ""
    assert cortext.within("resume", "ship").out.startswith('[Resuming "Ship"]')
