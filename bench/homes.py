"""Homes with as many sessions as the machine's, in the layouts whose programs list all of them at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta

from bench.sessions import turns
from perdure.session import entry, ids
from perdure.session.entry import Entry
from perdure.session.stores import Header
from perdure.session.stores.aurora_jsonl import AuroraStore
from perdure.session.stores.cortext_folder import CortextStore

_AGENTS = ("default", "qa-test", "reviewer")
_TYPES = ("brainstorm", "debug", "plan", "learn", "meeting", "review", "projectmanage")
_BETWEEN = timedelta(minutes=50)
"""From one session to the next: 10,000 of them take a year."""


def aurora(home: str, sessions: int, *, age: timedelta = timedelta()) -> None:
    """The newest of them is of that age."""
    store = AuroraStore(home, cwd=home, durability="process")
    for number, moment, said in _made(sessions, age):
        facts = {"agent": _AGENTS[number % len(_AGENTS)], "status": "completed"}
        header = Header("", moment, facts=facts)
        store.create(header._replace(id=store.new_id(header)), said)


def cortext(workspace: str, sessions: int) -> None:
    """In one that `cortext init` has made."""
    store = CortextStore(workspace, durability="process")
    on_day: Counter[str] = Counter()
    for number, moment, said in _made(sessions, timedelta()):
        kind, day = _TYPES[number % len(_TYPES)], moment[:10]
        title = f"What to do about the {kind} of module {number}"
        on_day[day] += 1
        id = ids.cortext_id(day, on_day[day], kind, title)
        facts = {"conversation_type": kind, "title": title, "status": "paused"}
        store.create(Header(id, moment, facts=facts), said)


def _made(sessions: int, age: timedelta) -> Iterator[tuple[int, str, list[Entry]]]:
    """A number, a time and the turn that was said then, the newest first."""
    newest = ids.now() - age
    bodies = turns()
    for number in range(sessions):
        moment = ids.stamp(newest - _BETWEEN * number)
        said: list[Entry] = []
        for body in bodies[number % len(bodies)]:
            parent = said[-1].id if said else None
            said.append(entry.new(body, id=ids.new_id(), parent_id=parent, timestamp=moment))
        yield number, moment, said
