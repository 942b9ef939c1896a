"""A conversation that has become too long is sent without its middle, and stays stored whole."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.models import Model, Sent
from perdure.agent.session import AgentSession
from perdure.agent.tokens import of_message
from perdure.agent.turn_window import FIRST, LAST, LeftOut, TurnWindow, estimated, turns_of
from perdure.errors import UsageError
from perdure.session import context
from perdure.session.entry import Assistant, Block, Message, Text, ToolCall, ToolResult, User, new
from perdure.session.stores import open_store
from perdure.testing import ScriptedModel


def model_of(window: int) -> Model:
    return Model(id="m", provider="p", api="scripted", context_window=window, max_tokens=4096)


sizes = st.sampled_from([0, 1, 40, 4_000, 60_000])


@st.composite
def conversations(draw: st.DrawFn) -> list[Sent]:
    """As a session gives them: with calls that were never answered, and answers to nothing."""
    bodies: list[Message] = []
    for at in range(draw(st.integers(0, 30))):
        kind = draw(st.sampled_from(["user", "answer", "calls"]))
        text = "x" * draw(sizes)
        if kind == "user":
            bodies.append(Message(User(text)))
            continue
        calls = [f"c{at}-{number}" for number in range(draw(st.integers(1, 3)) if kind == "calls" else 0)]
        usage = {"output": draw(st.sampled_from([0, 7, 90_000]))}
        said: list[Block] = [Text(text), *(ToolCall(id, "bash", {"command": "ls"}) for id in calls)]
        bodies.append(Message(Assistant(said, usage=usage)))
        answered = draw(st.lists(st.sampled_from([*calls, "nobody's"]), unique=True)) if calls else []
        bodies += [Message(ToolResult(id, "bash", [Text("r" * draw(sizes))])) for id in answered]
    entries = [
        new(body, id=f"e{at}", parent_id=f"e{at - 1}" if at else None) for at, body in enumerate(bodies)
    ]
    built = context.build(entries).messages
    return [each for each in built if isinstance(each, User | Assistant | ToolResult)]


def is_accepted(messages: list[Sent]) -> bool:
    """By providers: each call is answered right behind it, and nothing else is."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolResult):
            if not waiting or waiting.pop(0) != message.tool_call_id:
                return False
        elif waiting:
            return False
        elif isinstance(message, Assistant):
            waiting = [call.id for call in message.calls]
    return not waiting


@given(
    conversations(),
    st.sampled_from([1, 50, 1_000, 20_000, 100_000]),
    st.sampled_from([4_096, 32_000, 1_000_000]),
    st.sampled_from([0, 3_000]),
)
def test_aur_16_what_is_sent_is_accepted_and_bounded_and_nothing_is_changed(messages, most, window, beside):
    """Whatever was said. It begins and ends as it did, in the same order, and what the user asked for last is
    always in it."""
    before = [*messages]
    strategy, model = TurnWindow(most), model_of(window)
    sent = [*strategy.sent(messages, beside, model)]
    assert messages == before
    assert is_accepted(sent)
    if beside + estimated(messages) <= strategy.limit(model):
        assert sent == messages
        return
    own = [each for each in sent if any(each is other for other in messages)]
    places = [next(at for at, other in enumerate(messages) if other is each) for each in own]
    assert places == sorted(places)
    assert len(sent) - len(own) <= 1
    assert len(turns_of(sent)) <= max(FIRST + LAST + 2, len(turns_of(own)))
    assert len(turns_of(own)) <= FIRST + LAST + 1
    if messages:
        assert sent[-1] is messages[-1]
        asked = [each for each in messages if isinstance(each, User)]
        assert not asked or any(each is asked[-1] for each in sent)
    if len(own) < len(messages):
        (marker,) = [each for each in sent if not any(each is other for other in messages)]
        assert isinstance(marker, User)
        left_out = len(turns_of(messages)) - len(turns_of(own))
        assert f"{left_out} turn" in marker.text
        if isinstance(messages[0], User):
            assert isinstance(sent[0], User)


@given(
    conversations(),
    st.sampled_from([1, 50, 1_000, 20_000, 100_000]),
    st.sampled_from([4_096, 32_000, 1_000_000]),
    st.sampled_from([0, 3_000]),
)
def test_aur_16_what_is_kept_in_memory_is_enough_for_whatever_is_sent(messages, most, window, beside):
    """Now, and with every model that is chosen later; and its weight is that of all that was said."""
    strategy, model = TurnWindow(most), model_of(window)
    kept = [
        each for each in strategy.kept(reversed(messages)) if isinstance(each, User | Assistant | ToolResult)
    ]
    assert [*strategy.sent(kept, beside, model)] == [*strategy.sent(messages, beside, model)]
    assert estimated(kept) == estimated(messages)
    if estimated(messages) <= most:
        assert kept == messages
    own = [each for each in kept if any(each is other for other in messages)]
    assert len(kept) - len(own) <= 1
    if len(own) < len(messages):
        *_, end = "".join("L" if isinstance(each, LeftOut) else "." for each in kept).split("L")
        needed = kept[len(kept) - len(end) :]
        first = turns_of(needed)[0]
        assert len(turns_of(kept)) == FIRST + 1 + len(turns_of(needed))
        without = needed[len(first) :]
        asked = any(isinstance(each, User) for each in without)
        assert estimated(without) <= most or len(turns_of(without)) < LAST or not asked


@given(conversations(), st.integers(0, 3))
def test_aur_16_what_was_left_out_does_not_come_back(messages, more):
    """A conversation that grows stays too long, also when a provider counts how little it was sent."""
    strategy, model = TurnWindow(1_000), model_of(1_000_000)
    if strategy.sent(messages, 0, model) is messages:
        return
    grown = [*messages, *[User("and?"), Assistant([Text("So.")], usage={"input": 1, "output": 1})] * more]
    assert strategy.sent(grown, 0, model) is not grown


def test_aur_16_the_first_2_and_the_last_10_turns_are_sent_with_a_marker_between():
    """By its own count of turns, and with all results of a turn."""
    turns: list[Sent] = []
    for number in range(20):
        turns += [User(f"question {number}"), Assistant([Text(f"answer {number} " + "x" * 400)])]
    turns.append(User("and now?"))
    sent = TurnWindow(1_000).sent(turns, 0, model_of(200_000))
    assert [each.text.split(" x")[0] for each in sent] == [
        "question 0",
        "answer 0",
        "[… 29 turns of this conversation are left out here, because it has become too long …]",
        *("answer 15", "question 16", "answer 16", "question 17", "answer 17"),
        *("question 18", "answer 18", "question 19", "answer 19", "and now?"),
    ]


def test_aur_16_a_long_series_of_tools_keeps_what_it_is_for():
    """The user's last words are sent, however many tools were called since."""
    turns: list[Sent] = [User("first"), Assistant([Text("yes")]), User("Find the bug.")]
    for number in range(30):
        call = Assistant([ToolCall(f"c{number}", "bash", {"command": "x" * 400})], stop_reason="toolUse")
        turns += [call, ToolResult(f"c{number}", "bash", [Text("nothing")])]
    sent = TurnWindow(1_000).sent(turns, 0, model_of(200_000))
    assert [each.text for each in sent if isinstance(each, User)] == [
        "first",
        "[… 20 turns of this conversation are left out here, because it has become too long …]",
        "Find the bug.",
    ]
    assert sum(isinstance(each, ToolResult) for each in sent) == LAST


def test_aur_16_what_a_model_cannot_read_is_left_out_even_of_the_last_turns():
    """As far as that helps: a window of 4,000 tokens holds three such turns beside an answer."""
    turns: list[Sent] = [
        User("u" * 3_600) if at % 2 == 0 else Assistant([Text("a" * 3_600)]) for at in range(9)
    ]
    sent = TurnWindow(100_000).sent(turns, 0, model_of(4_000))
    assert sum(map(of_message, sent)) <= 3_000
    assert [each.text[:3] for each in sent] == ["uuu", "aaa", "[… ", "uuu"]


def test_aur_16_the_agent_sends_the_window_and_the_session_keeps_everything(home):
    """Through a whole agent, which asks for no summary."""
    model = ScriptedModel(*["answer " + "x" * 2_000] * 12, model=model_of(200_000))

    async def talk() -> str:
        async with AgentSession(cwd=home, tools=[], compaction=TurnWindow(4_000)) as session:
            id = await session.start(model=model)
            for number in range(12):
                async for _ in session.send_message(f"question {number}"):
                    pass
            with pytest.raises(UsageError, match="Not compacted"):
                async for _ in session.compact():
                    pass
            return id

    id = asyncio.run(talk())
    assert len(model.requests) == 12
    asked = [each.text for each in model.requests[-1].messages if isinstance(each, User)]
    assert asked[:2] == [
        "question 0",
        "[… 11 turns of this conversation are left out here, because it has become too long …]",
    ]
    assert asked[2:] == [f"question {number}" for number in range(7, 12)]
    store = open_store("pi")
    (ref,) = [ref for ref in store.list() if ref.id == id]
    assert sum(entry.type == "message" for entry in store.read(ref).entries) == 24
