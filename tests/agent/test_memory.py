"""What an agent remembers of its session is what the session says."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.draft import priced
from perdure.agent.memory import Memory
from perdure.agent.models import Cost, Usage
from perdure.agent.tokens import Counter
from perdure.session.entry import Assistant, BashExecution, Compaction, Text, ThinkingLevelChange, User
from perdure.session.session import Session
from perdure.session.stores.memory import MemoryStore

COST = Cost(input=1.0, output=2.0)
USAGES = [priced(Usage(), COST), priced(Usage(1_000, 100), COST), priced(Usage(5_000, 10), COST)]

users = st.builds(User, st.text(max_size=20))
answers = st.builds(
    Assistant,
    st.lists(st.builds(Text, st.text(max_size=20)), max_size=2),
    usage=st.sampled_from(USAGES),
    stop_reason=st.sampled_from(["stop", "aborted", "error"]),
)
commands = st.builds(
    BashExecution,
    st.text(max_size=9),
    st.text(max_size=20),
    exclude_from_context=st.sampled_from([True, False]),
)
compactions = st.builds(Compaction, st.text(max_size=20), usage=st.sampled_from(USAGES))
steps = st.one_of(users, answers, commands, compactions, st.integers(0, 999), st.just("move"))


@given(st.lists(steps, max_size=12))
def test_what_is_remembered_is_what_would_be_read(given_steps):
    """Messages, tokens and dollars, after every step, and wherever the conversation went on. A summary was
    paid before it is kept."""

    async def live() -> None:
        with Session.create(MemoryStore()) as session:
            memory, paid = Memory(session, 50), 0.0
            for step in given_steps:
                match step:
                    case User() | Assistant():
                        await memory.keep(step)
                    case BashExecution():
                        await memory.keep_command(step)
                    case Compaction():
                        await memory.keep_compaction(step, ThinkingLevelChange("low"))
                    case int():
                        memory.weigh(step)
                    case "move":
                        await memory.move(session.entries[0].id if session.entries else None)
                if isinstance(step, Assistant):
                    paid += step.usage["cost"]["total"]
                said = session.context()
                assert await memory.sent() == said.messages
                assert memory.tokens == Counter.of(said.messages, said.condensed, memory.beside).total
                assert memory.spent(9).cost == paid

    asyncio.run(live())
