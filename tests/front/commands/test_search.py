"""`search`: what was said is found, by whom and when it was asked for, and each hit says how to open it."""

import re
import shlex
from datetime import UTC, datetime, timedelta

import pytest

from perdure.session.entry import Assistant, Entry, Message, Text, ToolCall, ToolResult, new, placed
from perdure.session.ids import new_id, stamp
from perdure.session.session import Session
from perdure.session.stores.jsonl import JsonlStore
from tests.front.commands.machine import at_terminal, break_home
from tests.layouts import ALL
from tests.moments import next_moment


def ids_of(done) -> set[str]:
    return {hit["id"] for hit in done.data}


@pytest.mark.parametrize("layout", ALL)
def test_what_was_said_is_found_in_each_layout_and_its_command_opens_it(layout, machine):
    ref = machine.add(layout, "the race is in the token refresh", "something else")
    machine.add(layout, "nothing of it")
    done = machine.run("search", "--all", "race", "--json")
    (hit,) = done.data
    assert (hit["program"], hit["id"], hit["role"]) == (layout, ref.id, "user")
    assert hit["matches"] == ["race"]
    assert "the race is in the token refresh" in hit["snippet"]
    program, *words = shlex.split(hit["command"])
    assert program in ("pi", "perdure")
    shown = machine.run(*words[1:])
    assert "the race is in the token refresh" in shown.out
    human = machine.run("search", "--all", "race").out
    assert hit["command"] in human
    assert "the [race] is in the token refresh" in human


def test_words_phrases_and_beginnings(machine):
    first = machine.add("pi", "the token refresh races the login").id
    second = machine.add("pi", "refresh the token").id
    assert ids_of(machine.run("search", "--all", "token", "refresh", "--json")) == {first, second}
    assert ids_of(machine.run("search", "--all", "token refresh", "--json")) == {first}
    assert ids_of(machine.run("search", "--all", '"token refresh" log*', "--json")) == {first}
    assert ids_of(machine.run("search", "--all", "refr*", "--json")) == {first, second}
    assert ids_of(machine.run("search", "--all", "TOKEN", "--json")) == {first, second}
    assert machine.run("search", "--all", "refr").code == 3


def test_words_are_found_where_no_blanks_are_written(machine):
    ref = machine.add("pi", "この会話は後で続けます")
    (hit,) = machine.run("search", "--all", "会話", "--json").data
    assert hit["id"] == ref.id
    assert hit["matches"] == ["会話"]
    assert "この会話は" in hit["snippet"]


def test_of_a_large_session_it_is_said_that_not_all_was_searched(machine, monkeypatch):
    """On stderr, whether something was found in it or not; of others there is no such line."""
    machine.add("pi", "hello", "x" * 2**21, "between", "y" * 2**21, "goodbye")
    assert "beginning" not in machine.run("search", "--all", "absent").err
    monkeypatch.setattr(JsonlStore, "large", 2**20)
    machine.add("pi", "hello again", "x" * 2**21, "between", "y" * 2**21, "goodbye")
    for word in ("absent", "again"):
        assert re.search(
            r"\b1 large session\b.*\bbeginning\b.*\bend\b", machine.run("search", "--all", word).err
        )


def test_nothing_found_is_said_and_exits_3(machine):
    machine.add("pi", "hello")
    done = machine.run("search", "--all", "absent")
    assert (done.code, done.out) == (3, "")
    assert "Nothing found" in done.err
    done = machine.run("search", "--all", "absent", "--json")
    assert (done.code, done.data) == (3, [])
    assert "search --all" in machine.run("search", "absent").err, "and where else to look"


@pytest.mark.parametrize("query", ["", "   ", "=>", '""', "*", "( ) : ^"])
def test_a_query_without_a_word_is_wrong_usage(query, machine):
    done = machine.run("search", "--all", query)
    assert done.code == 2
    assert "Nothing to search for" in done.err


def test_the_role_says_who(machine):
    """A prompt, an answer, what a tool was called with and what it answered."""
    ref = machine.add("pi", "zebra of the user")
    call = ToolCall("c1", "bash", {"command": "grep zebra_of_the_call"})
    with Session.open(machine.store("pi"), ref) as session:
        session.append(
            Message(Assistant([Text("on it"), call], model="m")),
            Message(ToolResult("c1", "bash", [Text("zebra of the tool")])),
            Message(Assistant([Text("zebra of the model")], model="m")),
        )
    found = {}
    for role in ("user", "assistant", "tool"):
        (hit,) = machine.run("search", "--all", "zebra", "--role", role, "--json").data
        assert hit["role"] == role
        found[role] = hit["snippet"]
    assert found["user"] == "zebra of the user"
    assert found["tool"] == "zebra of the tool"
    (hit,) = machine.run("search", "--all", "zebra_of_the_call", "--json").data
    assert hit["role"] == "assistant"
    assert machine.run("search", "--all", "zebra", "--role", "nobody").code == 2


def test_since_leaves_out_what_is_older(machine):
    now = datetime.now(UTC)
    ids = {}
    for hours in (1, 30, 24 * 20, 24 * 400):
        ref = machine.add("aurora", "x")
        with Session.open(machine.store("aurora"), ref) as session:
            session.append(
                placed(Entry.message("user", "zebra"), timestamp=stamp(now - timedelta(hours=hours)))
            )
        ids[hours] = ref.id
    for since, oldest in (("2h", 1), ("2d", 30), ("4w", 480), ("2m", 480), ("3y", 9600)):
        found = ids_of(machine.run("search", "--all", "zebra", "--since", since, "--json"))
        assert found == {id for hours, id in ids.items() if hours <= oldest}, since
    day = (now - timedelta(days=2)).strftime("%Y-%m-%d")
    assert ids_of(machine.run("search", "--all", "zebra", "--since", day, "--json")) == {ids[1], ids[30]}
    done = machine.run("search", "--all", "zebra", "--since", "tuesday")
    assert done.code == 2
    assert "2026-01-31" in done.err


def test_this_project_is_the_default_and_one_program_can_be_named(machine, monkeypatch):
    here, other = machine.user / "here", machine.user / "other"
    for place in (here, other):
        place.mkdir()
        machine.add("pi", "zebra", cwd=str(place))
    machine.add("sibyl", "zebra")
    monkeypatch.chdir(here)
    assert ids_of(machine.run("search", "zebra", "--json")) == {machine.refs["pi"][0].id}
    assert len(machine.run("search", "--all", "zebra", "--json").data) == 3
    found = machine.run("search", "--all", "zebra", "--program", "sibyl", "--json")
    assert ids_of(found) == {machine.refs["sibyl"][0].id}


def test_a_session_is_one_hit_however_often_it_matches(machine):
    machine.add("pi", *["zebra"] * 5)
    machine.add("pi", "zebra")
    assert len(machine.run("search", "--all", "zebra", "--json").data) == 2
    done = machine.run("search", "--all", "zebra", "--limit", "1")
    assert "1 of 2 sessions shown" in done.err


def test_all_of_them_are_found_if_all_are_asked_for(machine):
    """However often the newest says it; and where only the newest are looked at, that is said."""
    old = machine.add("pi", "zebra")
    with Session.open(machine.store("pi"), machine.add("pi", "x")) as session:
        session.append(*[Message(Assistant([Text("zebra")], model="m"))] * 1200)
        newer = session.id
    done = machine.run("search", "--all", "zebra", "--limit", "1")
    assert "1 of at least 1 sessions" in done.err
    assert "--limit 0" in done.err
    for limit in ("0", "2"):
        found = machine.run("search", "--all", "zebra", "--limit", limit, "--json")
        assert ids_of(found) == {old.id, newer}, "one that says it very often hides no other"


def test_of_more_hits_than_are_ranked_the_newest_are_looked_at(machine):
    """1,200 messages in one old session hide nothing newer."""
    old = machine.add("pi", *["zebra"] * 1200)
    with Session.open(machine.store("pi"), machine.add("pi", "x")) as session:
        session.append(Message(Assistant([Text("a zebra")], model="m")))
        newer = session.id
    found = machine.run("search", "--all", "zebra", "--json").data
    assert {hit["id"] for hit in found} == {old.id, newer}


def test_what_is_said_after_a_search_is_found_by_the_next(machine):
    ref = machine.add("pi", "before")
    assert machine.run("search", "--all", "zebra").code == 3
    with Session.open(machine.store("pi"), ref) as session:
        session.append(Message(Assistant([Text("zebra")], model="m")))
    assert ids_of(machine.run("search", "--all", "zebra", "--json")) == {ref.id}
    machine.run("rm", ref.id)
    assert machine.run("search", "--all", "zebra").code == 3
    machine.run("restore", ref.id)
    assert ids_of(machine.run("search", "--all", "zebra", "--json")) == {ref.id}


def test_a_listing_in_between_takes_nothing_from_a_search(machine):
    """A listing does not read what a search needs; the search makes up for it."""
    ref = machine.add("pi", "zebra one")
    machine.run("ls", "--all")
    assert ids_of(machine.run("search", "--all", "zebra", "--json")) == {ref.id}
    other = machine.add("pi", "zebra two")
    next_moment()
    machine.run("ls", "--all")
    with Session.open(machine.store("pi"), ref) as session:
        session.append(Message(Assistant([Text("giraffe")], model="m")))
    machine.run("ls", "--all")
    assert ids_of(machine.run("search", "--all", "zebra", "--json")) == {ref.id, other.id}
    assert ids_of(machine.run("search", "--all", "giraffe", "--json")) == {ref.id}


def test_a_home_that_cannot_be_read_hides_no_hit(machine):
    machine.add("pi", "zebra")
    path = break_home(machine, "aurora")
    done = machine.run("search", "--all", "zebra", "--json")
    assert (done.code, len(done.data)) == (0, 1)
    assert path in done.err


@pytest.mark.process
def test_at_a_terminal_the_match_is_marked_and_nothing_else_is_obeyed(machine):
    machine.add("pi", "before \x1b[31mred\x1b]0;t\x07 zebra \u202eafter")
    code, shown = at_terminal("search", "--all", "zebra")
    assert code == 0
    text = shown.decode()
    assert "\x1b[1;31mzebra\x1b[m" in text
    assert "\x1b[31m" not in text
    assert "\x1b]" not in text
    assert "\u202e" not in text


def test_a_name_is_found(machine):
    ref = machine.add("pi", "hello")
    machine.run("rename", ref.id, "the", "zebra", "plan")
    (hit,) = machine.run("search", "--all", "zebra", "--json").data
    assert (hit["id"], hit["title"], hit["role"]) == (ref.id, "the zebra plan", "title")
    _, *words = shlex.split(hit["command"])
    assert "hello" in machine.run(*words[1:]).out, "and its command opens the session"
    machine.run("rename", ref.id, "the", "giraffe", "plan")
    assert machine.run("search", "--all", "zebra").code == 3, "what it was called before is no name of it"
    assert ids_of(machine.run("search", "--all", "giraffe", "--json")) == {ref.id}
    machine.add("cortext", "x")
    assert {hit["program"] for hit in machine.run("search", "--all", "launch", "--json").data} == {"cortext"}


def test_a_fork_of_a_session_is_found_beside_it(machine):
    """Entries of both have the same times and ids."""
    ref = machine.add("pi", "zebra one", "zebra two")
    (fork,) = machine.run("fork", ref.id, "--json").data
    assert ids_of(machine.run("search", "--all", "zebra", "--json")) == {ref.id, fork["id"]}


def test_every_branch_is_searched(machine):
    ref = machine.add("pi", "root")
    store = machine.store("pi")
    with Session.open(store, ref) as session:
        (left,) = session.append(new(Message(Assistant([Text("giraffe")], model="m")), id=new_id()))
        session.move(session.path()[0].id)
        session.append(Message(Assistant([Text("zebra")], model="m")))
    assert ids_of(machine.run("search", "--all", "giraffe", "--json")) == {ref.id}
    (hit,) = machine.run("search", "--all", "giraffe", "--json").data
    assert hit["entry"] == left.id
    assert re.search("giraffe", machine.run("show", ref.id, "--entry", left.id).out)
