"""That the offline model answers is a notice before its first answer, and no part of any answer."""

import asyncio
from typing import Any

import pytest

from perdure.agent.models import OFFLINE, Model, Piece, Request
from perdure.agent.models.offline import NOTICE, NOTICE_WITHOUT_TOOLS, Offline
from perdure.agent.tools import BUILT_IN
from perdure.registry import load
from perdure.session.entry import Assistant, Text, User

MODEL = Model(id=OFFLINE, provider=OFFLINE, api=OFFLINE)
READ = load(BUILT_IN["read"]).spec
ITS_OWN = Assistant([Text("hello")], provider=OFFLINE, model=OFFLINE)
ANOTHERS = Assistant([Text("hello")], provider="openai", model="gpt-4o")


def heard(*messages, tools=()):
    """Notices and text, in the order in which they come."""
    events: list[Any] = []

    async def ask():
        model = Offline(MODEL, events.append)
        async for piece in model.stream(Request(messages=messages, tools=tools)):
            if isinstance(piece, Piece):
                events.append(piece)

    asyncio.run(ask())
    return events


@pytest.mark.parametrize(("tools", "expected"), [((), NOTICE_WITHOUT_TOOLS), ([READ], NOTICE)])
def test_g_9_the_notice_comes_before_the_first_answer_and_is_no_part_of_it(tools, expected):
    """It says what the model can do here."""
    notice, *pieces = heard(User("hello"), tools=tools)
    assert notice == expected
    assert pieces
    assert "offline" not in "".join(piece.text for piece in pieces)


@pytest.mark.parametrize(("before", "count"), [((), 1), ((ANOTHERS,), 1), ((ITS_OWN,), 0)])
def test_g_9_the_first_answer_is_the_one_with_no_other_of_this_model_before_it(before, count):
    """Whoever answered before it."""
    events = heard(User("hello"), *before, User("hello again"))
    assert events.count(NOTICE_WITHOUT_TOOLS) == count


def test_g_9_a_summary_for_a_compaction_is_no_answer():
    """Its user reads none of it."""
    events = heard(
        User("<conversation>\n[User]: hello\n</conversation>\n\nSummarise the conversation above.")
    )
    assert NOTICE_WITHOUT_TOOLS not in events
    assert events
