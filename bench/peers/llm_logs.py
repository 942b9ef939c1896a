"""llm: its logs, a database to which every response is added with all that was said before it."""

from __future__ import annotations

import glob
import os
from functools import partial
from itertools import count
from typing import Any

import llm  # type: ignore[import-not-found]
import sqlite_utils  # type: ignore[import-not-found]
from llm.logs import LogStore, merged_log_rows  # type: ignore[import-not-found]

from bench.peers.protocol import Block, messages, scratch, serve, timed

Json = dict[str, Any]
TURN = 4
THREAD = "measured"


class Model(llm.Model):  # type: ignore[misc]
    model_id = "measured"

    def execute(self, *arguments: Any) -> None:
        raise NotImplementedError("nobody asks it anything")


def append(folder: str, session: str, synced: bool = False, cpu: bool = False) -> Block:
    """A turn behind the same conversation each time: its cost grows with what was said before."""
    store = _filled(folder, session)
    if synced:
        store.db.execute("PRAGMA synchronous=FULL")
    past = [message.to_dict() for message in store.thread_messages(THREAD)]
    turn = _messages(messages(session)[:TURN])
    numbers = count()
    made: list[Any] = []

    def answers() -> None:
        """Of a turn with one tool call there are two, and this one was never there: llm keeps no doubles."""
        asked = {"role": "user", "parts": [{"type": "text", "text": f"{next(numbers)} {_text(turn[0])}"}]}
        made[:] = _responses(past, [asked, *turn[1:]], THREAD)

    def log() -> None:
        for response in made:
            response.log_to_db(store.db)

    return timed(log, cpu=cpu, before=answers)


def load(folder: str, session: str) -> Block:
    store = _filled(folder, session)
    return timed(lambda: store.thread_messages(THREAD))


def search(folder: str, home: str, query: str) -> Block:
    store = logs_of_all(folder, home)
    assert merged_log_rows(store, query=query, count=20), "this would measure something else"
    return timed(lambda: merged_log_rows(store, query=query, count=20))


def logs_of_all(folder: str, home: str) -> LogStore:
    """Every session of pi's below a home as a conversation here. Made once, for all who ask."""
    path = os.path.join(folder, "logs.db")
    if os.path.exists(path):
        return LogStore(sqlite_utils.Database(path))
    store = _unsynced(path)
    files = glob.iglob(os.path.join(glob.escape(home), "sessions", "*", "*.jsonl"))
    with store.db.atomic():
        for thread, file in enumerate(files):
            past: list[Json] = []
            said = _messages(messages(file))
            for start in range(0, len(said), TURN):
                turn = said[start : start + TURN]
                for response in _responses(past, turn, str(thread)):
                    store.log(response, store.ensure_thread(str(thread), _text(said[0])[:100]))
                past += turn
    return store


def _filled(folder: str, session: str) -> LogStore:
    """Logs with one conversation: the same messages."""
    store = _unsynced(os.path.join(scratch(folder), "logs.db"))
    said = [llm.Message.from_dict(message) for message in _messages(messages(session))]
    with store.db.atomic():
        store.append(store.ensure_thread(THREAD), said)
    return store


def _unsynced(path: str) -> LogStore:
    database = sqlite_utils.Database(path)
    database.execute("PRAGMA synchronous=OFF")
    return LogStore(database)


def _responses(past: list[Json], turn: list[Json], thread: str) -> list[Any]:
    """To the prompt and to the tool's result, each with all that was said before."""
    made = []
    for at in range(1, len(turn), 2):
        record = {"model": Model.model_id, "prompt": {"messages": past + turn[:at]}, "messages": [turn[at]]}
        response = llm.Response.from_dict(record, model=MODEL)
        response.conversation = llm.Conversation(model=MODEL, id=thread)
        made.append(response)
    return made


def _messages(said: list[Json]) -> list[Json]:
    """As llm has them."""
    return [_message(message) for message in said]


def _message(message: Json) -> Json:
    match message:
        case {"role": "toolResult", "toolCallId": id, "toolName": name, "content": [{"text": text}]}:
            part = {"type": "tool_result", "name": name, "output": text, "tool_call_id": id}
            return {"role": "tool", "parts": [part]}
        case {"role": "assistant", "content": parts}:
            return {"role": "assistant", "parts": [_part(part) for part in parts]}
    return {"role": "user", "parts": [{"type": "text", "text": message["content"]}]}


def _part(part: Json) -> Json:
    match part:
        case {"type": "thinking", "thinking": text}:
            return {"type": "reasoning", "text": text}
        case {"type": "toolCall", "id": id, "name": name, "arguments": arguments}:
            return {"type": "tool_call", "name": name, "arguments": arguments, "tool_call_id": id}
    return {"type": "text", "text": part["text"]}


def _text(message: Json) -> str:
    text: str = message["parts"][0]["text"]
    return text


MODEL = Model()

if __name__ == "__main__":
    serve({"durable append": partial(append, synced=True), "append": append, "load": load, "search": search})
