"""The settings that a session goes on with, without reading what was said."""

import os
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings

from perdure.session import context, ids, tree
from perdure.session.convert import convert
from perdure.session.entry import Assistant, Body, Message, ModelChange, Text, ThinkingLevelChange, User, new
from perdure.session.session import Session
from perdure.session.stores import Header
from perdure.session.stores.memory import MemoryStore
from perdure.session.stores.pi_jsonl import PiStore
from tests.compacted import compacted_sessions
from tests.layouts import ALL, store_of

on_disk = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
CHOICES: list[Body] = [ModelChange("openai", "gpt"), ThinkingLevelChange("high")]


@pytest.fixture(params=["pi", "memory"])
def store(request, tmp_path):
    return PiStore(str(tmp_path), durability="process") if request.param == "pi" else MemoryStore()


def said(text: str) -> Message:
    return Message(User(text))


def answered(model: str) -> Message:
    return Message(Assistant([Text("yes")], provider="p", model=model))


CHOSEN_OFFLINE = ModelChange("offline", "offline", True)
OFFLINE_ANSWER = Message(Assistant([Text("yes")], provider="offline", model="offline"))


@on_disk
@given(entries=compacted_sessions())
def test_what_is_chosen_is_what_the_context_says(store, entries):
    """Condensed, reset, branched, with parents missing and entries there twice; and wherever it goes on."""
    ref = store.create(Header(ids.new_id(), "2026-01-31T09:05:00.000Z"), entries)
    session = Session.view(store, ref)
    assert session.chosen()[:2] == session.context()[1:3]
    for entry in session.entries:
        session.move(entry.id)
        assert session.chosen()[:2] == context.build(tree.path(session.entries, entry.id))[1:3]


def test_nothing_is_chosen_before_something_is_said(store):
    with Session.create(store) as session:
        assert session.chosen() == context.Chosen(None, "off", 0)


def test_the_search_ends_where_both_are_known(store):
    """The model is the one last heard from, or chosen since."""
    with Session.create(store) as session:
        session.append(said("one"), *CHOICES, said("two"), answered("claude"), said("three"))
        assert session.chosen() == context.Chosen(("p", "claude"), "high", 4)
        session.append(ModelChange("openai", "gpt"), said("four"))
        assert session.chosen() == context.Chosen(("openai", "gpt"), "high", 6)


@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        ([CHOSEN_OFFLINE], True),
        ([CHOSEN_OFFLINE, said("one"), OFFLINE_ANSWER], True),
        ([CHOSEN_OFFLINE, ThinkingLevelChange("high"), said("one"), OFFLINE_ANSWER], True),
        ([ModelChange("offline", "offline"), said("one"), OFFLINE_ANSWER], False),
        ([said("one"), OFFLINE_ANSWER], False),
        ([CHOSEN_OFFLINE, OFFLINE_ANSWER, ModelChange("offline", "offline")], False),
        ([CHOSEN_OFFLINE, ModelChange("p", "gpt"), answered("gpt"), OFFLINE_ANSWER], False),
        ([CHOSEN_OFFLINE, ModelChange("p", "gpt")], False),
        ([CHOSEN_OFFLINE, answered("gpt")], False),
        ([ModelChange("offline", "offline", "yes"), OFFLINE_ANSWER], False),
        ([ModelChange("p", "gpt", True), answered("gpt")], False),
    ],
)
def test_g_9_an_offline_is_the_users_choice_where_its_last_change_says_so(store, bodies, expected):
    """Whoever answered since; of another model it is never said."""
    with Session.create(store) as session:
        session.append(*bodies)
        assert session.chosen().is_model_chosen is expected


@pytest.mark.parametrize("layout", ALL)
@pytest.mark.parametrize("source", [each for each in ALL if each != "sibyl"])
def test_g_9_that_offline_was_chosen_survives_each_layout_that_keeps_a_model(source, layout, tmp_path):
    """And a fork there. Where there is no model, there is no choice of one."""
    store = store_of(source, tmp_path / "from")
    with Session.create(store) as session:
        session.append(CHOSEN_OFFLINE, said("one"), OFFLINE_ANSWER)
    target = store_of(layout, tmp_path / "to")
    converted = Session.view(target, convert(store, session.ref, target).ref)
    forked = Session.view(target, converted.fork())
    for found in (converted.chosen(), forked.chosen()):
        expected = (None, False) if layout == "sibyl" else (("offline", "offline"), True)
        assert (found.model, found.is_model_chosen) == expected


@pytest.mark.slow
@pytest.mark.parametrize("choices", [CHOICES, []])
def test_what_is_passed_over_is_not_kept_and_where_they_stand_near_not_read(tmp_path, monkeypatch, choices):
    """20 MB that are sent to a model, every word of them."""
    entries, parent = [], None
    for number in range(2000):
        entries.append(new(said(f"{number} " + "x" * 10_000), id=ids.new_id(), parent_id=parent))
        parent = entries[-1].id
    store = PiStore(str(tmp_path), durability="process")
    ref = store.create(Header("long", "2026-01-31T09:05:00.000Z"), entries)
    del entries
    with Session.open(store, ref) as session:
        session.append(*choices, said("on"))
    read, real = [], os.pread

    def watched(*arguments):
        data = real(*arguments)
        read.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", watched)
    session = Session.view(store, ref)
    tracemalloc.start()
    try:
        chosen = session.chosen()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert chosen[:2] == ((("openai", "gpt"), "high") if choices else (None, "off"))
    assert peak < 6_000_000 < ref.size / 3
    if choices:
        assert sum(read) < 100_000


# --- where a session stands ---------------------------------------------------------------------------


def test_a_session_is_empty_until_something_is_said_wherever_it_goes_on(store):
    with Session.create(store) as session:
        session.move(None)
        assert session.is_empty
        session.rename("a name")
        assert session.is_empty
        session.append(said("one"))
        session.move(None)
        assert session.head is None
        assert not session.is_empty
    assert not Session.view(store, session.ref).is_empty


def test_a_name_does_not_undo_a_move(store):
    """Names and labels are written where the conversation goes on, and it goes on there."""
    with Session.create(store) as session:
        one, _ = session.append(said("one"), said("two"))
        session.reload()
        session.move(None)
        session.rename("a name")
        assert len(session.entries) == 3
        assert session.head is None
        session.move(one.id)
        session.label(one.id, "here")
        session.append(said("instead of two"))
        assert [entry.text for entry in session.path() if entry.type == "message"] == [
            "one",
            "instead of two",
        ]
