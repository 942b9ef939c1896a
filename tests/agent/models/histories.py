"""Conversations as a model is sent them, as hypothesis makes them: whoever said what, however badly.

They keep what `session.context` promises and nothing more: every tool call has its result right behind it,
and the last word is not the model's. Answers are the asked model's own or another provider's, with thinking,
ids and signatures of any kind; texts may be empty, blank, or hold lone surrogates; results may be images, or
say that the call was interrupted; arguments may not have been JSON; an id may be used twice.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from msgspec import UNSET

from perdure.agent.models import APIS, UNPARSED, Model, Sent
from perdure.session.context import INTERRUPTED
from perdure.session.entry import Assistant, Image, Text, Thinking, ToolCall, ToolResult, User
from tests.generated import NASTY

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SAID = ["hello", " ", "\n\t", "naïve 👩‍👩‍👧", "lone \ud83d", "ends in blanks \n", *NASTY]
IDS = ["call_1", "toolu_01A", "call_1|fc_2", "call_1_fc_2", "call 1", "x" * 90, "", "é", "\ud800"]
said = st.sampled_from(SAID) | st.text(max_size=5)
ids = st.sampled_from(IDS) | st.text(max_size=5)
names = st.sampled_from(["bash", "read", "mcp.server/tool", "", "a" * 130, "lone\ud800"])
signatures = st.sampled_from([UNSET, "", "c2lnbmF0dXJl", "not base64!", '{"type":"reasoning","id":"rs_1"}'])
images = st.builds(
    Image, st.sampled_from([PIXEL, ""]), st.sampled_from(["image/png", "image/jpeg", "image/tiff", ""])
)
text_blocks = st.builds(Text, said, text_signature=signatures)
arguments = st.one_of(
    st.sampled_from([{}, {"command": "ls"}, {UNPARSED: '{"command": "ls'}, None, "ls", 3, ["a"]]),
    st.dictionaries(said, said | st.none() | st.integers() | st.floats(), max_size=2),
)
calls = st.builds(ToolCall, ids, names, arguments, thought_signature=signatures)
results: st.SearchStrategy[Any] = st.one_of(
    st.just([Text(INTERRUPTED)]), said, st.lists(st.one_of(text_blocks, images), max_size=3)
)
users = st.builds(User, st.one_of(said, st.lists(st.one_of(text_blocks, images), max_size=3)))
thoughts = st.builds(
    Thinking, said, thinking_signature=signatures, redacted=st.sampled_from([UNSET, True, False])
)


@st.composite
def histories(draw: st.DrawFn, model: Model) -> list[Sent]:
    """Some of the answers are this model's own."""
    messages: list[Sent] = draw(st.lists(_answers(model, with_calls=False), max_size=1))
    for _ in range(draw(st.integers(1, 4))):
        messages += draw(st.lists(users, min_size=1, max_size=2))
        for _ in range(draw(st.integers(0, 2))):
            messages += draw(_tool_turns(model))
        messages += draw(st.lists(_answers(model, with_calls=False), max_size=2))
    last: list[Sent] = draw(st.one_of(_tool_turns(model), users.map(lambda user: [user])))
    return messages + last


@st.composite
def _tool_turns(draw: st.DrawFn, model: Model) -> list[Sent]:
    answer = draw(_answers(model, with_calls=True))
    made = [block for block in answer.content if isinstance(block, ToolCall)]
    return [
        answer,
        *(ToolResult(call.id, call.name, draw(results), is_error=draw(st.booleans())) for call in made),
    ]


@st.composite
def _answers(draw: st.DrawFn, model: Model, *, with_calls: bool) -> Assistant:
    content: Any = [
        *draw(st.lists(st.one_of(thoughts, text_blocks), max_size=3)),
        *(draw(st.lists(calls, min_size=1, max_size=3)) if with_calls else []),
    ]
    if not with_calls and draw(st.integers(0, 5)) == 0:
        content = draw(said)  # as other programs write it
    foreign = (draw(st.sampled_from(["openai", "anthropic", "google", "x"])), "some-model", draw(_apis))
    provider, name, api = draw(st.sampled_from([(model.provider, model.id, model.api), foreign]))
    reason = "toolUse" if with_calls else draw(st.sampled_from(["stop", "length", "aborted"]))
    return Assistant(content, api=api, provider=provider, model=name, stop_reason=reason)


_apis = st.sampled_from([*APIS, ""])
