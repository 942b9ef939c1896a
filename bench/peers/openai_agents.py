"""openai-agents: its SQLiteSession, which keeps a conversation's items in a database."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from agents import SQLiteSession  # type: ignore[import-not-found]

from bench.peers.protocol import Block, messages, scratch, serve

Json = dict[str, Any]


class Unsynced(SQLiteSession):  # type: ignore[misc]
    @staticmethod
    def _configure_connection(connection: Any) -> None:
        SQLiteSession._configure_connection(connection)
        connection.execute("PRAGMA synchronous=OFF")


def append(folder: str, session: str, synced: bool = False, cpu: bool = False) -> Block:
    path = _filled(folder, session)
    kept = (SQLiteSession if synced else Unsynced)("measured", path)
    turn = _items(messages(session)[:4])
    return _timed(lambda: kept.add_items(turn), cpu=cpu)


def load(folder: str, session: str) -> Block:
    kept = SQLiteSession("measured", _filled(folder, session))
    return _timed(kept.get_items)


def tail(folder: str, session: str, count: int) -> Block:
    path = _filled(folder, session)

    async def open_and_look() -> list[Json]:
        kept = SQLiteSession("measured", path)
        items: list[Json] = await kept.get_items(limit=count)
        kept.close()
        return items

    return _timed(open_and_look)


def fork(folder: str, session: str) -> Block:
    path = _filled(folder, session)
    kept, copy = SQLiteSession("measured", path), SQLiteSession("copy", path)

    async def copied() -> None:
        await copy.add_items(await kept.get_items())

    return _timed(copied, after=copy.clear_session)


def _timed(
    work: Callable[[], Awaitable[Any]],
    *,
    cpu: bool = False,
    after: Callable[[], Awaitable[Any]] | None = None,
) -> Block:
    clock = time.process_time if cpu else time.perf_counter
    runner = asyncio.Runner()

    async def block(calls: int) -> list[float]:
        spent = []
        for _ in range(calls):
            start = clock()
            await work()
            spent.append(clock() - start)
            if after is not None:
                await after()
        return spent

    return lambda calls: runner.run(block(calls))


def _filled(folder: str, session: str) -> str:
    """A database with one conversation: the same messages."""
    path = os.path.join(scratch(folder), "sessions.db")
    kept = Unsynced("measured", path)
    asyncio.run(kept.add_items(_items(messages(session))))
    kept.close()
    return path


def _items(said: list[Json]) -> list[Json]:
    """As the Responses API has them, which is what this library keeps."""
    items: list[Json] = []
    for message in said:
        match message:
            case {"role": "user", "content": text}:
                items.append({"role": "user", "content": text})
            case {"role": "toolResult", "toolCallId": id, "content": [{"text": text}]}:
                items.append({"type": "function_call_output", "call_id": id, "output": text})
            case {"role": "assistant", "content": parts}:
                items += [_part(part) for part in parts]
    return items


def _part(part: Json) -> Json:
    match part:
        case {"type": "thinking", "thinking": text}:
            return {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": text}]}
        case {"type": "toolCall", "id": id, "name": name, "arguments": arguments}:
            call = {"call_id": id, "name": name, "arguments": json.dumps(arguments)}
            return {"type": "function_call", **call}
    output = {"type": "output_text", "text": part["text"], "annotations": []}
    return {"type": "message", "role": "assistant", "id": "msg_1", "content": [output]}


if __name__ == "__main__":
    serve(
        {
            "durable append": partial(append, synced=True),
            "append": append,
            "load": load,
            "tail": tail,
            "fork": fork,
        }
    )
