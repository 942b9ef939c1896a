"""Sessions as hypothesis makes them in which something is not sent: condensed, reset, edited, on a branch."""

from __future__ import annotations

from hypothesis import strategies as st

from perdure.session import context
from perdure.session.entry import Body, Compaction, ContextEdit, Custom, Entry, Label, SessionInfo, new
from tests.generated import bodies


@st.composite
def compacted_sessions(draw: st.DrawFn, most: int = 15) -> list[Entry]:
    """Entries in file order, perhaps with some missing, some there again, and metadata at the end."""
    made: list[Entry] = []
    for any_body in draw(st.lists(bodies, max_size=most)):
        body: Body = any_body
        ids = [entry.id for entry in made]
        parent = ids[-1] if ids else None
        if ids and draw(st.integers(0, 7)) == 0:
            parent = draw(st.sampled_from(ids))
        if draw(st.booleans()) and ids:
            # From what is near: a compaction keeps what was said last.
            target = draw(st.sampled_from(ids[-5:]))
            kept = draw(st.sampled_from([target, "gone", "", 7]))
            body = draw(
                st.sampled_from(
                    [
                        body,
                        Compaction("so far", target, 9),
                        Compaction("otherwise", kept),
                        ContextEdit(target, None),
                        ContextEdit(target, {"content": "edited"}),
                        Custom(context.RESET),
                        Label(target, "mark"),
                    ]
                )
            )
        made.append(new(body, id=f"e{len(made)}", parent_id=parent, timestamp="2026-01-31T09:05:00.123Z"))
    if made and draw(st.integers(0, 3)) == 0:
        lost = draw(st.sets(st.sampled_from([entry.id for entry in made]), max_size=2))
        made = [entry for entry in made if entry.id not in lost]
    if made and draw(st.integers(0, 3)) == 0:
        made += draw(st.lists(st.sampled_from(made), max_size=2))
    for number in range(draw(st.integers(0, 2))):
        parent = made[-1].id if made else None
        made.append(new(SessionInfo("a name"), id=f"m{number}", parent_id=parent, timestamp="t"))
    return made
