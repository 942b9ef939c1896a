"""Sessions as hypothesis makes them: every kind of entry, hostile text, branches, labels, unknown kinds."""

from __future__ import annotations

from hypothesis import strategies as st

from perdure.session import ids
from perdure.session.entry import (
    Assistant,
    BashExecution,
    BranchSummary,
    Compaction,
    Custom,
    CustomMessage,
    Entry,
    Image,
    Label,
    Message,
    ModelChange,
    SessionInfo,
    Text,
    Thinking,
    ThinkingLevelChange,
    ToolCall,
    ToolResult,
    Unknown,
    User,
    new,
)

NASTY = [
    "",
    "\u2028",
    "\x85",
    "\x0b\x1c",
    "\0",
    "\r\n",
    "\ud800",
    "\udfff\ud800",
    "👩‍👩‍👧",
    "\u202eevil",
    '"\\',
    "}{",
    "</summary>",
]
texts = st.one_of(st.text(st.characters(), max_size=40), st.sampled_from(NASTY))
json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        texts,
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)
call_ids = st.sampled_from(["call-1", "call-2", "call-3"])
blocks = st.one_of(
    st.builds(Text, texts),
    st.builds(Thinking, texts, thinking_signature=texts),
    st.builds(Image, st.just("aGk="), st.just("image/png")),
    st.builds(
        ToolCall, call_ids, st.sampled_from(["bash", "read"]), st.dictionaries(texts, json_values, max_size=2)
    ),
)
contents = st.one_of(texts, st.lists(blocks, max_size=3))
messages = st.one_of(
    st.builds(User, contents),
    st.builds(
        Assistant,
        contents,
        provider=texts,
        model=texts,
        stop_reason=st.sampled_from(["stop", "toolUse", "error", "aborted"]),
    ),
    st.builds(
        ToolResult,
        call_ids,
        st.just("bash"),
        st.lists(st.builds(Text, texts), max_size=2),
        is_error=st.booleans(),
    ),
    st.builds(
        BashExecution,
        texts,
        texts,
        exit_code=st.one_of(st.none(), st.integers(0, 255)),
        truncated=st.booleans(),
    ),
)
keys = st.text("abcdefgh", min_size=1, max_size=5)
bodies = st.one_of(
    st.builds(Message, messages),
    st.builds(ModelChange, texts, texts),
    st.builds(ThinkingLevelChange, st.sampled_from(["off", "low", "high"])),
    st.builds(CustomMessage, texts, contents),
    st.builds(Custom, texts, json_values),
    st.builds(SessionInfo, texts),
    st.builds(BranchSummary, texts, texts),
    st.builds(
        Unknown, st.sampled_from(["zebra", "perdure_future"]), st.dictionaries(keys, json_values, max_size=3)
    ),
)


@st.composite
def sessions(draw: st.DrawFn, most: int = 12) -> list[Entry]:
    """Entries in file order, each parent before its child: chains, branches, labels and compactions."""
    made: list[Entry] = []
    for body in draw(st.lists(bodies, max_size=most)):
        parent = (
            draw(st.sampled_from([entry.id for entry in made]))
            if made and draw(st.integers(0, 4)) == 0
            else (made[-1].id if made else None)
        )
        if made and draw(st.integers(0, 9)) == 0:
            target = draw(st.sampled_from([entry.id for entry in made]))
            body = draw(
                st.sampled_from([Label(target, "mark"), Label(target), Compaction("so far", target, 9)])
            )
        made.append(new(body, id=ids.new_id(), parent_id=parent, timestamp="2026-01-31T09:05:00.123Z"))
    return made
