"""What is measured with: turns of four messages, 4.6 KB on disk, and sessions made of them.

The text is made up but not uniform: prose, code with newlines and quotes to escape, some of it not ASCII.
It is the same in every run and on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from perdure.session import entry, ids
from perdure.session.entry import Assistant, Body, Entry, Message, Text

TURN = 4  # messages
_TEXT = "the session file entry append return value lock until after naïve über 会話 → each line path"


def turns() -> list[list[Body]]:
    chance = random.Random(20)
    return [turn(chance, number, _TEXT.split()) for number in range(64)]


def entries(messages: int) -> Iterator[Entry]:
    bodies = [body for each in turns() for body in each]
    moment = ids.stamp(ids.now())
    parent: str | None = None
    for number in range(messages):
        made = entry.new(bodies[number % len(bodies)], id=ids.new_id(), parent_id=parent, timestamp=moment)
        parent = made.id
        yield made


def turn(chance: random.Random, number: int, words: Sequence[str]) -> list[Body]:
    def prose(size: int) -> str:
        return sentence(chance, size, words)

    call = entry.ToolCall(f"call_{number:024x}", "read", {"path": f"src/module_{number}.py", "limit": 200})
    thinking = entry.Thinking(prose(440), thinking_signature="c2ln" * 20)
    code = "\n".join(f'    {prose(9)} = f("{prose(24)}", {each})' for each in range(25))
    return [
        Message(entry.User(prose(150))),
        Message(Assistant([thinking, Text(prose(100)), call], model="m", stop_reason="toolUse")),
        Message(entry.ToolResult(call.id, call.name, [Text(code)])),
        Message(Assistant([Text(prose(790))], model="m")),
    ]


def sentence(chance: random.Random, size: int, words: Sequence[str]) -> str:
    text = ""
    while len(text) < size:
        text += chance.choice(words) + " "
    return text
