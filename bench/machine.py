"""A machine that has been used for a year: 10,000 sessions of 100 projects, 100 MB, in pi's layout.

Prompts are plain ASCII; answers have some characters that are not. One word is in most messages. Each prompt
has another one that only two sessions have.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence

from bench.sessions import sentence, turn
from perdure.session import entry, ids
from perdure.session.entry import Body, Entry, Message
from perdure.session.stores import Found, Header
from perdure.session.stores.pi_jsonl import PiStore

COMMON = "session"
_PROJECTS = 100
_TURNS = 2
_BETWEEN = 50 * 60  # seconds from one session to the next: 10,000 of them take a year
_SYLLABLES = [first + second for first in "bdfgklmnprstvz" for second in "aeiou"]


class Machine:
    def __init__(self, folder: str, sessions: int) -> None:
        self.folder = folder
        """HOME on that machine."""
        self.home = os.path.join(folder, ".pi", "agent")
        self.projects = [os.path.join(folder, f"project-{n:02}") for n in range(min(_PROJECTS, sessions))]
        for project in self.projects:
            os.makedirs(project)
        self.sessions = list(self._made(sessions))
        """The newest first."""
        self.size = sum(each.size for each in self.sessions)
        self.rare = _name(len(self.projects) * (sessions // len(self.projects) // 2))
        """One of the words that two sessions have, one of them in the first project."""

    def environment(self) -> dict[str, str]:
        return environment(self.folder)

    def _made(self, sessions: int) -> Iterator[Found]:
        stores = [PiStore(self.home, cwd=project, durability="process") for project in self.projects]
        chance = random.Random(20)
        plain = _vocabulary(chance)
        prompts = [sentence(chance, 100, plain) for _ in range(256)]
        turns = [turn(chance, number, [*plain, *["naïve", "—", "→", "会話"] * 500]) for number in range(256)]
        now = ids.now()
        for number in range(sessions):
            moment = now.timestamp() - _BETWEEN * (number + 1)
            header = Header(ids.new_id(), ids.stamp(now.fromtimestamp(moment, now.tzinfo)))
            subject = f"{_name(number)} {COMMON} {chance.choice(prompts)}"
            entries = _entries(subject, chance.choices(turns, k=_TURNS), header.timestamp)
            made = stores[number % len(stores)].create(header, entries)
            os.utime(made.path, (moment, moment))
            yield made


def environment(home: str) -> dict[str, str]:
    """Of a process of that home: nothing of this machine's user, and bytecode is kept, as usual."""
    kept = ("PATH", "LANG", "LC_ALL", "TZ")
    return {name: os.environ[name] for name in kept if name in os.environ} | {"HOME": home}


def _entries(subject: str, turns: Sequence[Sequence[Body]], moment: str) -> Iterator[Entry]:
    parent: str | None = None
    for number, (_, *answers) in enumerate(turns):
        prompt = Message(entry.User(f"{'Go on with' if number else 'What of'} the {subject}"))
        for body in (prompt, *answers):
            made = entry.new(body, id=ids.new_id(), parent_id=parent, timestamp=moment)
            parent = made.id
            yield made


def _name(number: int) -> str:
    """A word that two sessions have."""
    return f"zq{number // 2}x"


def _vocabulary(chance: random.Random) -> list[str]:
    """To choose from: some words are said all the time and most hardly ever, as in every language."""
    known = ["".join(chance.choices(_SYLLABLES, k=chance.randint(1, 4))) for _ in range(20_000)]
    often = [known[int(len(known) * chance.random() ** 3)] for _ in range(100_000)]
    return [*often, *[COMMON] * 4_000]
