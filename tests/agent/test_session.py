"""What a shell does with a conversation beside talking: go back, name, look at what it has come to."""

import asyncio
import os
import tracemalloc
from contextlib import aclosing
from typing import Any

import pytest
from msgspec import structs

from perdure import AgentSession, NoCompaction, PerdureError, SummaryCompaction
from perdure.agent.models import Cost, Finished, Usage
from perdure.errors import NotFound, UsageError
from perdure.session import ids, tree
from perdure.session.entry import Assistant, Message, Text, ToolCall, User, new
from perdure.session.session import Session
from perdure.session.stores import Header, open_store
from perdure.testing import ScriptedModel
from perdure.testing.scripted import SCRIPTED
from tests.agent.mcp_servers import raw

pytestmark = pytest.mark.anyio

DEAR = structs.replace(SCRIPTED, cost=Cost(input=2.0, output=10.0), context_window=50_000)
USED = Finished("stop", Usage(10_000, 1_000))
PRICE = 0.03


@pytest.fixture(autouse=True)
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
async def agent():
    async with AgentSession(compaction=SummaryCompaction(is_automatic=False, keep_recent_tokens=10)) as agent:
        yield agent


async def say(agent, *texts) -> list[Any]:
    return [event for text in texts async for event in agent.send_message(text)]


def is_beginning(event) -> bool:
    """Of an answer."""
    return event.type == "message_update" and event.assistant_message_event.type == "start"


def size(agent) -> int:
    return os.path.getsize(agent.session.ref.path)


def on_disk(agent) -> list[Any]:
    return Session.view(agent.session.store, agent.session.ref).entries


# --- going back -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cwd", "why"),
    [
        ("gone", "No such file or directory"),
        ("gone/further", "No such file or directory"),
        ("a file", "Not a directory"),
        ("a\0b", "null"),
    ],
)
async def test_pi_05_a_directory_that_is_none_is_refused_before_anything_is_made(project, home, cwd, why):
    """As what its caller got wrong, with its name."""
    (project / "a file").touch()
    before = sorted(home.rglob("*"))
    for given in (cwd, project / cwd):
        with pytest.raises(UsageError, match=why) as refused:
            AgentSession(cwd=given)
        assert repr(str(given)) in refused.value.message
    assert sorted(home.rglob("*")) == before


async def test_pi_05_a_directory_may_be_given_in_any_way_a_person_would(project, home):
    (home / "code").mkdir()
    (home / "code" / "here").touch()
    for given in ("~/code", home / "code", os.path.relpath(home / "code")):
        async with AgentSession(cwd=given, tools=["ls"]) as agent:
            await agent.start(ScriptedModel(ToolCall("1", "ls", {}), "done"))
            results = [e.result for e in await say(agent, "go") if e.type == "tool_execution_end"]
            assert [result.text.strip() for result in results] == ["here"]


async def test_pi_23_a_move_writes_nothing_and_the_next_message_goes_on_there(agent):
    """And the model is sent that branch and no other."""
    model = ScriptedModel("one", "two", "three")
    await agent.start(model)
    await say(agent, "first", "second")
    before, answer = size(agent), agent.session.path()[2]
    await agent.move(answer.id)
    assert (size(agent), agent.session.head) == (before, answer.id)
    await say(agent, "instead")
    assert [message.text for message in model.requests[-1].messages] == ["first", "one", "instead"]
    assert [fork for fork in tree.forks(on_disk(agent)) if fork] == [answer.id]


async def test_pi_23_before_the_first_message_is_a_place_too(agent):
    """The session is not empty there: it is named at once, and stays when it is closed."""
    model = ScriptedModel("one", "two")
    await agent.start(model)
    await say(agent, "first")
    await agent.move(None)
    await agent.rename("a name")
    assert Session.view(agent.session.store, agent.session.ref).name == "a name"
    await say(agent, "another beginning")
    assert [message.text for message in model.requests[-1].messages] == ["another beginning"]
    session = agent.session
    await agent.close()
    assert len(tree.leaves(Session.view(session.store, session.ref).entries)) == 2


async def test_the_model_in_use_stays_and_is_recorded_where_the_session_says_otherwise(agent):
    """Also its way of thinking, which no answer tells of."""
    await agent.start(ScriptedModel("one", "two"))
    await say(agent, "first")
    answer = agent.session.head
    other = ScriptedModel("two", "three", model=structs.replace(SCRIPTED, id="other"))
    agent.set_model(other, "high")
    await say(agent, "second")
    await agent.move(answer)
    assert agent.model.id == "other"
    await say(agent, "instead")
    assert other.requests[-1].thinking == "high"
    assert agent.session.chosen()[:2] == (("scripted", "other"), "high")


async def test_an_unknown_entry_moves_nothing(agent):
    await agent.start(ScriptedModel("one", "two"))
    await say(agent, "first")
    with pytest.raises(NotFound):
        await agent.move("nothing")
    assert not agent.is_busy
    await say(agent, "second")
    assert [entry.text for entry in agent.session.tail(4)] == ["first", "one", "second", "two"]


async def test_a_move_in_a_turn_is_refused(agent):
    model = ScriptedModel("done")
    await agent.start(model)
    async with aclosing(agent.send_message("hello")) as events:
        await anext(events)
        with pytest.raises(UsageError, match="at work"):
            await agent.move(None)
        assert [event async for event in events]
    assert [entry.text for entry in agent.session.tail(9)] == ["hello", "done"]


async def test_labels_are_kept_and_taken_away_and_move_nothing(agent):
    await agent.start(ScriptedModel("one"))
    await say(agent, "first")
    head = agent.session.head
    await agent.label(head, "here")
    view = Session.view(agent.session.store, agent.session.ref)
    assert (view.labels, view.head) == ({head: "here"}, head)
    await agent.label(head, "")
    assert Session.view(agent.session.store, agent.session.ref).labels == {}


# --- what it has come to ------------------------------------------------------------------------------


@pytest.mark.process
async def test_what_was_spent_is_known_as_it_is_spent(agent):
    """Tokens as the provider counted them, with what was added since; dollars for every answer."""
    await agent.start(ScriptedModel(["one", USED], ["two", USED], model=DEAR))
    fresh = agent.spent
    assert fresh.tokens > 100  # the system prompt and the tools
    assert (fresh.window, fresh.cost) == (50_000, 0.0)
    await say(agent, "first")
    assert agent.spent == (spent := type(fresh)(11_000, 50_000, PRICE))
    await agent.run_command("printf %400s x")
    assert 100 < agent.spent.tokens - spent.tokens < 200
    await say(agent, "second")
    assert agent.spent.cost == pytest.approx(2 * PRICE)


async def test_a_session_that_was_not_read_yet_has_come_to_nothing_that_is_known(agent):
    id = await agent.start(ScriptedModel(["one", USED], model=DEAR))
    await say(agent, "first")
    await agent.close()
    async with AgentSession() as again:
        await again.start(ScriptedModel(["two", USED], model=DEAR), id)
        assert (again.spent.tokens, again.spent.cost) == (0, 0.0)
        known = [again.spent.tokens async for event in again.send_message("second") if is_beginning(event)]
        assert 11_000 < known[0] < 11_100
        assert again.spent.cost == pytest.approx(PRICE)


async def test_a_summary_costs_too_and_what_is_sent_is_known_after_it(agent):
    summary: list[Any] = ["the summary", Finished("stop", Usage(1_000, 100))]
    await agent.start(ScriptedModel("x" * 4000, ["y" * 4000, USED], summary, model=DEAR))
    await say(agent, "first", "second")
    before = agent.spent
    assert [event.type async for event in agent.compact()] == ["compaction_start", "compaction_end"]
    assert agent.spent.cost == pytest.approx(before.cost + 0.003)
    assert agent.spent.tokens < before.tokens / 2
    remembered = agent.spent
    agent.agent._memory.forget()
    await agent.agent._memory.sent()
    assert agent.spent == remembered


async def test_after_an_abort_the_figures_stay(agent):
    await agent.start(ScriptedModel(["one", USED], ["half", asyncio.Event()], model=DEAR))
    await say(agent, "first")
    async with aclosing(agent.send_message("second")) as events:
        async for event in events:
            if event.type == "message_update":
                agent.abort()
    assert 11_000 < agent.spent.tokens < 11_100
    assert agent.spent.cost == pytest.approx(PRICE)


async def test_after_a_move_nothing_is_known_until_something_is_said(agent):
    await agent.start(ScriptedModel(["one", USED], "two", model=DEAR))
    await say(agent, "first")
    await agent.move(None)
    assert agent.spent.tokens == 0
    await say(agent, "second")
    assert 0 < agent.spent.tokens < 11_000


# --- opening ----------------------------------------------------------------------------------------------


@pytest.fixture
def long():
    """20 MB that are sent to a model, every word of them."""
    entries, parent = [], None
    for number in range(2000):
        body = User(f"{number} " + "x" * 10_000) if number % 2 == 0 else ANSWER
        entries.append(new(Message(body), id=ids.new_id(), parent_id=parent))
        parent = entries[-1].id
    return open_store("pi", durability="process").create(Header("long", "2026-01-31T09:05:00.000Z"), entries)


ANSWER = Assistant([Text("yes " + "y" * 10_000)], provider="offline", model="offline")


@pytest.mark.slow
async def test_starting_keeps_nothing_of_what_was_said(agent, long):
    """The first message reads it."""
    model = ScriptedModel("on")
    tracemalloc.start()
    try:
        await agent.start(model, long.id)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000 < long.size / 2
    await say(agent, "go on")
    assert len(model.requests[0].messages) == 2001


@pytest.mark.slow
async def test_settings_that_were_far_away_are_near_after_the_next_message(agent, long):
    """A second start need not look for them as long as the first."""
    await agent.start(ScriptedModel("on"), long.id)
    assert agent.session.chosen().distance == 2000
    assert [entry.type for entry in on_disk(agent)[2000:]] == []
    await say(agent, "go on")
    types = [entry.type for entry in on_disk(agent)[2000:]]
    assert types == ["model_change", "thinking_level_change", "message", "message"]
    assert agent.session.chosen().distance == 3


async def test_a_new_session_is_not_read_at_all(agent, monkeypatch):
    """Nothing was said in it, and that is known."""
    opened = Session.create(open_store("pi", durability="process"))

    read: list[str] = []

    def read_back(*arguments):
        read.append("back")
        yield from ()

    monkeypatch.setattr(opened.store, "read", lambda *_: read.append("all"))
    monkeypatch.setattr(opened.store, "read_back", read_back)
    await agent.start(ScriptedModel("one"), session=opened, is_new=True)
    await say(agent, "hello")
    assert read == []


# --- beside a turn ------------------------------------------------------------------------------------------


async def test_a_session_is_named_at_once_also_while_a_turn_is_under_way(agent):
    """What is said goes on behind the name, and none of it is lost."""
    model = ScriptedModel(ToolCall("a", "ls", {}), "done", "more")
    await agent.start(model)
    async for event in agent.send_message("hello"):
        if event.type == "tool_execution_start":
            await agent.rename("a name")
            assert Session.view(agent.session.store, agent.session.ref).name == "a name"
    await say(agent, "again")
    assert [entry.type for entry in agent.session.path()].count("session_info") == 1
    assert [entry.text for entry in agent.session.tail(2)] == ["again", "more"]
    assert len(model.requests[-1].messages) == 5


async def test_another_model_answers_from_the_next_request_on(agent):
    """In the middle of a turn, with the results of the tools that the first one called."""
    other = ScriptedModel("done", model=structs.replace(SCRIPTED, id="other", context_window=9_000))
    await agent.start(ScriptedModel(ToolCall("a", "ls", {})))
    async for event in agent.send_message("hello"):
        if event.type == "tool_execution_start":
            agent.set_model(other)
            assert (agent.model.id, agent.spent.window) == ("other", 9_000)
    assert [type(message).__name__ for message in other.requests[0].messages] == [
        "User",
        "Assistant",
        "ToolResult",
    ]
    assert agent.session.chosen().model == ("scripted", "other")
    path: Any = agent.session.path()
    answers = [entry.body.message.model for entry in path if entry.role == "assistant"]
    assert answers == ["scripted", "other"]


# --- what it is told --------------------------------------------------------------------------------------


def last_words(system) -> list[str]:
    """How a system prompt ends, before the day."""
    return str(system.partition("\n\nToday is ")[0]).split("\n\n")


async def test_what_an_agent_is_told_is_said_from_the_next_request_on():
    """Before the start, after it and in a turn; it takes the place of what was told before."""
    model = ScriptedModel("one", ToolCall("a", "ls", {}), "two", "three")
    async with AgentSession(append_system_prompt=["at first"], system_prompt="You are a poet.") as agent:
        agent.tell("told before")
        await agent.start(model)
        await say(agent, "first")
        agent.tell("told after", "and more")
        async for event in agent.send_message("second"):
            if event.type == "tool_execution_start":
                agent.tell("told in a turn")
        agent.tell()
        await say(agent, "third")
    assert [last_words(request.system)[1:] for request in model.requests] == [
        ["told before"],
        ["told after", "and more"],
        ["told in a turn"],
        [],
    ]


@pytest.mark.process
async def test_what_it_is_told_while_servers_start_is_said_with_their_tools():
    """Also when they have started, and nobody has taken their tools yet."""
    model = ScriptedModel("one")
    async with AgentSession(settings={"mcp_servers": {"one": raw("server")}}) as agent:
        await agent.start(model)
        starting = asyncio.create_task(agent.ready())
        await asyncio.sleep(0)
        agent.tell("told too early")
        async for event in agent.send_message("hello"):
            if event.type == "agent_start":
                while agent.servers:
                    await asyncio.sleep(0.01)
                agent.tell("told in time")
        await starting
    (request,) = model.requests
    assert last_words(request.system)[-1] == "told in time"
    assert "one_echo" in request.system
    assert "too early" not in request.system


async def test_what_it_is_told_counts(agent):
    """Where no provider has counted what is sent."""
    await agent.start(ScriptedModel())
    before = agent.spent.tokens
    agent.tell("word " * 400)
    assert 500 <= agent.spent.tokens - before <= 502
    agent.tell()
    assert agent.spent.tokens == before


async def test_a_file_that_cannot_be_read_is_noticed_once(project):
    """However often the agent is told something."""
    (project / "AGENTS.md").symlink_to("nothing")
    async with AgentSession() as agent:
        await agent.start(ScriptedModel())
        agent.tell("one")
        agent.tell("two")
        assert len(agent.notices) == 1


async def test_an_agent_that_is_not_told_of_the_project_does_not_know_where_it_is(project):
    (project / "AGENTS.md").write_text("the project's words")
    model = ScriptedModel("one")
    async with AgentSession(system_prompt="You are a poet.", tells_of_project=False, tools=[]) as agent:
        await agent.start(model)
        await say(agent, "hello")
    assert model.requests[0].system.startswith("You are a poet.\n\nToday is ")
    assert str(project) not in model.requests[0].system


# --- where nothing can be done ------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "hello"])
async def test_where_there_is_nothing_to_condense_that_is_said_and_nothing_written(agent, text):
    """In an empty session, and in one of two messages."""
    await agent.start(ScriptedModel("one", "two"))
    if text:
        await say(agent, text)
    before = size(agent)
    with pytest.raises(PerdureError, match="nothing to condense"):
        await anext(agent.compact())
    assert (size(agent), agent.is_busy) == (before, False)
    await say(agent, "on")


async def test_a_session_without_compaction_says_so():
    async with AgentSession(compaction=NoCompaction()) as agent:
        await agent.start(ScriptedModel("one"))
        with pytest.raises(UsageError, match="NoCompaction"):
            await anext(agent.compact())
        assert not agent.is_busy


async def test_the_models_that_can_be_asked_are_those_with_a_key(monkeypatch):
    assert [model.reference for model in AgentSession().models()] == ["offline/offline"]
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    models = AgentSession().models()
    assert {model.provider for model in models} == {"openai", "offline"}
    assert "openai/gpt-4o" in {model.reference for model in models}
