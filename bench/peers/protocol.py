"""A peer's side of the pipe, for those written in Python. It needs nothing but the standard library."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from itertools import cycle, islice
from typing import Any

Json = dict[str, Any]
Block = Callable[[int], list[float]]
"""Does so many calls, and says how many seconds each took."""
Say = Callable[[str], Awaitable[None]]
"""Says a prompt to an agent, and waits for the end of its answer."""


def serve(works: Mapping[str, Callable[..., Block]]) -> None:
    """Do the work that the command line names, in blocks, until nobody asks for more."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints is no answer
    block = works[sys.argv[1]](**json.loads(sys.argv[2]))
    print('"ready"', file=answers)
    for line in sys.stdin:
        print(json.dumps(block(int(line))), file=answers)


def timed(work: Callable[[], Any], *, cpu: bool = False, before: Callable[[], Any] | None = None) -> Block:
    clock = time.process_time if cpu else time.perf_counter

    def block(calls: int) -> list[float]:
        spent = []
        for _ in range(calls):
            if before is not None:
                before()
            start = clock()
            result = work()
            spent.append(clock() - start)
            del result
        return spent

    return block


def conversations(begin: Callable[[list[list[Json]]], Say]) -> Callable[..., Block]:
    """The work of an agent. A block is one conversation, from its first turn to its last, of as many turns as
    there are calls. `begin` is given these turns, to have its answers ready."""

    def work(folder: str, session: str) -> Block:
        said = messages(session)
        script = [said[at : at + 4] for at in range(0, len(said), 4)]

        async def block(calls: int) -> list[float]:
            turns = list(islice(cycle(script), calls))
            say = begin(turns)
            spent = []
            for prompt, *_ in turns:
                start = time.process_time()
                await say(prompt["content"])
                spent.append(time.process_time() - start)
            return spent

        return lambda calls: asyncio.run(block(calls))

    return work


def messages(session: str) -> list[dict[str, Any]]:
    """Those of a session in pi's layout."""
    with open(session, encoding="utf-8") as file:
        records = map(json.loads, file)
        return [record["message"] for record in records if record["type"] == "message"]


def scratch(folder: str) -> str:
    """A folder of this process's own."""
    return tempfile.mkdtemp(prefix="peer-", dir=folder)
