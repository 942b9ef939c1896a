"""What each of two programs says of one session file, in a form in which they can be compared.

How a summary or a command is worded for a model is each program's own. So the messages of the original's
context are put through our wording first; what is compared is which messages there are, and in what order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from perdure.session import context
from perdure.session.entry import AnyMessage, BranchSummary, Compaction, Entry, decode, new
from perdure.session.session import Session
from perdure.session.stores import Found
from perdure.session.stores.pi_format import header_from_name
from perdure.session.stores.pi_jsonl import PiStore
from perdure.session.tree import METADATA
from tests.interop.original_pi import Json


class Reading(NamedTuple):
    id: str
    cwd: str
    entries: list[Any]
    path: list[str]
    """From the first entry to the one the conversation goes on from."""
    name: str
    labels: dict[str, str]
    """Of entries that are there: in a fork a label may be left whose entry is on a branch left behind."""
    model: tuple[str, str] | None
    thinking_level: str
    messages: list[Any]
    """What a model is sent."""
    complaints: list[str]


def here(path: str | Path) -> Reading:
    """What Perdure reads in a file."""
    session = viewed(path)
    header = session.store.read(session.ref).header
    built = session.context()
    known = {entry.id for entry in session.entries}
    return Reading(
        header.id,
        header.cwd,
        [as_javascript_reads(entry.raw) for entry in session.entries],
        [entry.id for entry in session.path()],
        session.name,
        {target: label for target, label in session.labels.items() if target in known},
        built.model,
        built.thinking_level,
        said(built.messages),
        complaints(session),
    )


def there(dump: Json) -> Reading:
    """What the original pi reads in a file: the driver's `dump`."""
    assert "error" not in dump, dump
    kinds = {entry["id"]: entry["type"] for entry in dump["entries"]}
    path = dump["path"]
    while path and kinds[path[-1]] in METADATA:
        path = path[:-1]
    built = dump["context"]
    return Reading(
        dump["id"],
        dump["cwd"],
        [as_javascript_reads(json.dumps(entry)) for entry in dump["entries"]],
        path,
        dump["sessionName"] or "",
        dump["labels"],
        (built["model"]["provider"], built["model"]["modelId"]) if built["model"] else None,
        built["thinkingLevel"],
        said(context.build([_as_entry(message) for message in built["messages"]]).messages),
        [],
    )


def viewed(path: str | Path) -> Session:
    """A session by its file, wherever that is."""
    path = Path(path)
    store = PiStore(str(path.parent), sessions_dir=str(path.parent), durability="process")
    return Session.view(store, Found(header_from_name(path.name).id, str(path)))


def complaints(session: Session) -> list[str]:
    """All that Perdure has against a session: its file's problems and its tree's notices."""
    return [*session.notices, *map(str, session.problems)]


def texts(session: Session) -> list[str]:
    """What user and model said, from the first entry to the head."""
    return [entry.text for entry in session.path() if entry.role in ("user", "assistant")]


def said(messages: Iterable[AnyMessage]) -> list[Any]:
    """Kind and content of what a model is sent; the moment it was said is not sent."""
    return [(type(each).__name__, msgspec.to_builtins(getattr(each, "content", None))) for each in messages]


def as_javascript_reads(record: bytes | str) -> Json:
    """Without our checksum. JavaScript has one kind of number, and no infinity in its JSON."""
    fields = json.loads(record, parse_int=_number, parse_float=_number)
    return {key: value for key, value in fields.items() if key != "crc"}


def _number(digits: str) -> float | None:
    return float(digits) if math.isfinite(float(digits)) else None


def _as_entry(message: Json) -> Entry:
    """A message of the original's context, as the entry that makes it one."""
    match message["role"]:
        case "compactionSummary":
            return new(Compaction(message["summary"], ""))
        case "branchSummary":
            return new(BranchSummary(message["fromId"], message["summary"]))
        case _:
            return decode(json.dumps({"type": "message", "id": "any", "message": message}).encode())
