"""`rename`: a name where the layout has one, and nothing changed where it has none."""

import json
import os
from pathlib import Path

import pytest

from perdure.session import tree
from perdure.session.layouts import LAYOUTS
from perdure.session.session import Session
from tests.front.commands.machine import Machine, at_terminal, process
from tests.layouts import ALL

NAMED = [name for name, layout in LAYOUTS.items() if layout.named]


def shown(machine: Machine, id: str) -> str:
    """What a listing calls a session."""
    (row,) = (row for row in machine.run("ls", "--all", "--limit", "0", "--json").data if row["id"] == id)
    return row["title"]


@pytest.mark.parametrize("layout", NAMED)
def test_a_session_has_the_name_it_was_given_last(layout, machine):
    """In listings; all it says is as it was."""
    ref = machine.add(layout, "hello", "there")
    machine.add(layout, "another")
    for words in (["A name"], ["Another", "one,", "in words"], ["Zoë's 名前 👩‍👩‍👧"]):
        name = " ".join(words)
        assert machine.run("rename", ref.id, *words) == (0, f"{layout}:{ref.id} is called {name}\n", "")
        assert shown(machine, ref.id) == name
    assert machine.texts(layout, ref) == ["hello", "there"]


def test_cortext_keeps_the_name_as_the_title_of_its_document(machine):
    """Which is where other programs look for it."""
    ref = machine.add("cortext")
    assert machine.run("rename", ref.id, "New", "title").code == 0
    state = Path(ref.path).parent / "session.json"
    assert json.loads(state.read_text())["title"] == "New title"


@pytest.mark.parametrize("layout", sorted(set(ALL) - set(NAMED)))
def test_where_the_layout_has_no_names_nothing_changes(layout, machine):
    """Wrong usage, told with the reason."""
    ref = machine.add(layout)
    before = machine.files()
    done = machine.run("rename", ref.id, "A name")
    assert (done.code, done.out) == (2, "")
    assert f"sessions of {layout} have no name" in done.err
    assert machine.files() == before


def test_an_empty_name_takes_the_name_away(machine):
    """What the user said first is the title then; and taking away what is not there changes nothing."""
    ref = machine.add("pi", "what I said")
    assert machine.run("rename", ref.id, "A name").code == 0
    assert machine.run("rename", ref.id, "") == (0, f"pi:{ref.id} has no name now\n", "")
    assert shown(machine, ref.id) == "what I said"
    before = machine.files()
    assert machine.run("rename", ref.id, " ").code == 0
    assert machine.files() == before


def test_a_conversation_of_cortext_is_never_without_a_title(machine):
    """Its document has one; an empty name is refused and changes nothing."""
    ref = machine.add("cortext")
    for title in ("The launch", "Another"):
        before = machine.files()
        done = machine.run("rename", ref.id, "")
        assert (done.code, done.out) == (2, "")
        assert f"would still be called {title!r}" in done.err
        assert machine.files() == before
        assert machine.run("rename", ref.id, "Another").code == 0


@pytest.mark.parametrize("layout", NAMED)
def test_the_same_name_again_writes_nothing(layout, machine):
    """Not even a line."""
    ref = machine.add(layout)
    assert machine.run("rename", ref.id, "A", "name").code == 0
    before = machine.files()
    assert machine.run("rename", ref.id, " A   name ").code == 0
    assert machine.files() == before


@pytest.mark.parametrize("layout", NAMED)
def test_a_name_does_not_move_the_conversation(layout, machine):
    """It goes on from where it stood."""
    ref = machine.add(layout, "one", "two")
    head = Session.view(machine.store(layout), ref).head
    assert machine.run("rename", ref.id, "A name").code == 0
    assert Session.view(machine.store(layout), ref).head == head


@pytest.mark.parametrize("layout", NAMED)
def test_a_held_session_keeps_its_name(layout, machine, monkeypatch):
    """Exit 4, and the process that has it is named."""
    monkeypatch.setattr("perdure.front.commands.rename._WAIT", 0.1)
    ref = machine.add(layout)
    with Session.open(machine.store(layout), ref):
        before = machine.files()
        done = machine.run("rename", ref.id, "A name")
        assert machine.files() == before
    assert (done.code, done.out) == (4, "")
    assert f"held by process {os.getpid()}" in done.err


def test_json_has_both_names(machine):
    """One array, with the full id."""
    ref = machine.add("pi")
    assert machine.run("rename", ref.id, "One").code == 0
    assert machine.run("rename", "--json", ref.id[:6], "Two").data == [
        {"program": "pi", "id": ref.id, "path": ref.path, "name": "Two", "before": "One"}
    ]


@pytest.mark.process
def test_a_hostile_name_is_kept_and_never_reaches_a_terminal_as_it_is(machine):
    """As it was typed in the file, but for white space; as escapes on the screen."""
    ref = machine.add("pi")
    name = "a\x1b[31mred\u202eb\x07"
    code, screen = at_terminal("rename", ref.id, name)
    assert code == 0
    assert not any(each in screen for each in (b"\x1b[31mred", "\u202e".encode(), b"\x07"))
    assert rb"a\x1b[31mred\u202eb\x07" in screen
    assert tree.name(machine.store("pi").read(ref).entries) == name


@pytest.mark.process
def test_g_4_an_unknown_session_is_not_named(machine):
    """Exit 3, as for every verb; and by the real program."""
    ref = machine.add("pi")
    assert machine.run("rename", "no-such-session", "A name").code == 3
    assert process("rename", f"pi:{ref.id}", "A", "name") == (0, f"pi:{ref.id} is called A name\n", "")
