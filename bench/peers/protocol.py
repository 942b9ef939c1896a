"""A peer's side of the pipe, for those written in Python. It needs nothing but the standard library."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

Block = Callable[[int], list[float]]
"""Does so many calls, and says how many seconds each took."""


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


def messages(session: str) -> list[dict[str, Any]]:
    """Those of a session in pi's layout."""
    with open(session, encoding="utf-8") as file:
        records = map(json.loads, file)
        return [record["message"] for record in records if record["type"] == "message"]


def scratch(folder: str) -> str:
    """A folder of this process's own."""
    return tempfile.mkdtemp(prefix="peer-", dir=folder)
