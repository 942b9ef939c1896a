"""A Soleur document that somebody edits by hand: what stands in `messages` is what is sent, in that order."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.session import context, tree
from perdure.session.entry import (
    Assistant,
    Body,
    Custom,
    Entry,
    Label,
    ModelChange,
    User,
    new,
    placed,
    text_of,
)
from perdure.session.session import Session
from perdure.session.stores import Found, Header
from perdure.session.stores.soleur_json import SoleurStore
from perdure.session.stores.whole_file import Document
from perdure.testing import assistant_entry, user_entry
from tests.soleur_files import ID, STAMP, decision, document, meanings, put

STORE, REF = SoleurStore("/nowhere", cwd="/home/me/code"), Found(ID, "s.json")


def sent(entries: list[Entry]) -> list[str]:
    """The texts that a model is sent."""
    folded = tree.fold(entries)
    built = context.build(tree.path(folded.entries, folded.ends.head))
    return [text_of(message.content) for message in built.messages if isinstance(message, User | Assistant)]


def printed(entries: list[Entry]) -> dict[str, Any]:
    text = STORE.print(Document(Header(ID, STAMP), entries, [], {}), STAMP)
    return json.loads(text)


def parsed(saved: dict[str, Any]) -> Document:
    return STORE.parse(REF, json.dumps(saved, indent=2, ensure_ascii=False).encode() + b"\n")


@st.composite
def sessions(draw: st.DrawFn) -> dict[str, Any]:
    """A document of a conversation with decisions, settings and abandoned branches. In some the first
    messages are another program's, without ids."""
    entries: list[Entry] = []
    head: str | None = None
    for number in range(draw(st.integers(1, 6))):
        for kind in draw(
            st.lists(st.sampled_from(["model", "decision", "note", "label", "branch"]), max_size=2)
        ):
            bodies: dict[str, Body] = {
                "model": ModelChange("custom", "test"),
                "note": Custom("perdure.filed", {"count": number}),
                "label": Label(head or "nothing", "here"),
            }
            at = f"{kind}{len(entries)}"
            if kind == "branch":  # said there, and given up
                entries.append(placed(user_entry(f"abandoned {at}"), id=at, parent_id=head))
                continue
            made = (
                decision("Use SQLite", at, head)
                if kind == "decision"
                else new(bodies[kind], id=at, parent_id=head)
            )
            entries.append(made)
            head = at
        say = user_entry if number % 2 == 0 else assistant_entry
        entries.append(placed(say(f"text {number}"), id=f"message{number}", parent_id=head))
        head = f"message{number}"
    saved = printed(entries)
    if draw(st.booleans()) and "entries" not in saved:
        for message in saved["messages"][: draw(st.integers(0, len(saved["messages"])))]:
            del message["id"], message["parent_id"]
    return saved


def edits(draw: st.DrawFn, messages: list[dict[str, Any]]) -> None:
    """What somebody does in an editor."""
    for number in range(draw(st.integers(1, 3))):
        how = draw(st.sampled_from(["insert", "copy", "remove", "move"]))
        at = draw(st.integers(0, len(messages)))
        if how == "insert":
            messages.insert(at, {"role": "user", "content": f"inserted {number}"})
        elif messages:
            chosen = draw(st.integers(0, len(messages) - 1))
            if how == "copy":
                messages.insert(at, {**messages[chosen], "content": f"copied {number}"})
            elif how == "remove" and len(messages) > 1:
                del messages[chosen]
            elif how == "move":
                messages.insert(min(at, len(messages) - 1), messages.pop(chosen))


@given(st.data())
def test_all_messages_of_an_edited_document_are_sent_in_its_order(data):
    """Whatever was inserted, copied, removed or moved, wherever; and what is saved says the same again."""
    saved = data.draw(sessions())
    before = sent(parsed(saved).entries)
    assert before == [message["content"] for message in saved["messages"]]
    edits(data.draw, saved["messages"])
    found = parsed(saved)
    assert found.problems == []
    wanted = [message["content"] for message in saved["messages"]]
    assert [text for text in sent(found.entries) if not text.startswith("abandoned")] == wanted
    again = STORE.parse(REF, STORE.print(found, STAMP))
    assert meanings(again.entries) == meanings(found.entries)


@pytest.mark.parametrize("place", range(4))
def test_a_message_inserted_by_hand_is_sent_with_all_others(tmp_path, place):
    """Also with a record between the messages, which counts and names them; and with what is said next."""
    first = placed(user_entry("one"), id="m1", parent_id=None)
    setting = new(ModelChange("custom", "test"), id="s1", parent_id="m1")
    second = placed(assistant_entry("two"), id="m2", parent_id="s1")
    third = placed(user_entry("three"), id="m3", parent_id="m2")
    saved = printed([first, setting, second, third])
    saved["messages"].insert(place, {"role": "user", "content": "by hand"})
    store, ref = put(tmp_path, json.dumps(saved, indent=2).encode() + b"\n")
    wanted = ["one", "two", "three"]
    wanted.insert(place, "by hand")
    with Session.open(store, ref) as session:
        assert [entry.text for entry in session.path() if entry.type == "message"] == wanted
        session.append(user_entry("four"))
    assert [each["content"] for each in document(ref)["messages"]] == [*wanted, "four"]
    assert session.problems == []


def test_an_inserted_message_does_not_bring_back_an_abandoned_branch():
    """It stands directly behind one, and its conversation goes past it."""
    said = [
        placed(user_entry("one"), id="m1", parent_id=None),
        placed(user_entry("abandoned"), id="b1", parent_id="m1"),
        placed(assistant_entry("two"), id="m2", parent_id="m1"),
    ]
    saved = printed(said)
    saved["messages"].insert(1, {"role": "user", "content": "by hand"})
    assert sent(parsed(saved).entries) == ["one", "by hand", "two"]
