"""What is measured with: turns of four messages, 4.6 KB on disk, and sessions made of them.

The text is made up but not uniform: prose, code with newlines and quotes to escape, some of it not ASCII.
It is the same in every run and on every machine.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

from perdure.session import entry, ids
from perdure.session.entry import Assistant, Body, Entry, Message, Text
from perdure.session.stores import Durability, Found, Header
from perdure.session.stores.pi_jsonl import PiStore

TURN = 4  # messages
_TEXT = "the session file entry append return value lock until after naïve über 会話 → each line path"


def turns() -> list[list[Body]]:
    chance = random.Random(20)
    return [_turn(chance, number) for number in range(64)]


def entries(messages: int) -> Iterator[Entry]:
    bodies = [body for turn in turns() for body in turn]
    moment = ids.stamp(ids.now())
    parent: str | None = None
    for number in range(messages):
        made = entry.new(bodies[number % len(bodies)], id=ids.new_id(), parent_id=parent, timestamp=moment)
        parent = made.id
        yield made


def _turn(chance: random.Random, number: int) -> list[Body]:
    call = entry.ToolCall(f"call_{number:024x}", "read", {"path": f"src/module_{number}.py", "limit": 200})
    thinking = entry.Thinking(_prose(chance, 440), thinking_signature="c2ln" * 20)
    code = "\n".join(f'    {_prose(chance, 9)} = f("{_prose(chance, 24)}", {each})' for each in range(25))
    return [
        Message(entry.User(_prose(chance, 150))),
        Message(Assistant([thinking, Text(_prose(chance, 100)), call], model="m", stop_reason="toolUse")),
        Message(entry.ToolResult(call.id, call.name, [Text(code)])),
        Message(Assistant([Text(_prose(chance, 790))], model="m")),
    ]


def _prose(chance: random.Random, size: int) -> str:
    words, known = "", _TEXT.split()
    while len(words) < size:
        words += chance.choice(known) + " "
    return words


class Ground:
    """A folder to measure in, and the sessions made there so far."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._made: dict[int, Found] = {}

    def store(self, durability: Durability) -> PiStore:
        return PiStore(self.folder, cwd="/project", durability=durability)

    def session(self, messages: int) -> Found:
        """A session of so many messages, shared by all who only read it."""
        if messages not in self._made:
            self._made[messages] = self.own_session(messages)
        return self._made[messages]

    def own_session(self, messages: int) -> Found:
        """A new one, to be written to."""
        header = Header(ids.new_id(), ids.stamp(ids.now()))
        return self.store("process").create(header, entries(messages))

    def raw_file(self, name: str, size: int = 0) -> int:
        """A descriptor that appends to a plain file of `size` bytes."""
        path = os.path.join(self.folder, name)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC, 0o600)
        os.write(descriptor, bytes(size))
        return descriptor
