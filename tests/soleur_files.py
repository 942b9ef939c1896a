"""Files in Soleur's layout, written out by hand: a test must not ask the code under test how they look."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from perdure.session.entry import Custom, Entry, meaning, new
from perdure.session.stores import Found, Header
from perdure.session.stores.soleur_json import SoleurStore
from perdure.session.stores.whole_file import Document

GOLDEN = Path(__file__).parent / "golden" / "soleur"
WHOLE = sorted(GOLDEN.glob("*.json"))
DAMAGED = sorted((GOLDEN / "damaged").glob("*.json"))
ID = "5f0c1b9a-7e42-4c1d-9a6b-2f3e4d5c6b7a"
"""Of every session in the golden files."""
STAMP = "2026-01-31T09:05:00.123Z"


def store_in(home: Path) -> SoleurStore:
    return SoleurStore(str(home), cwd="/home/me/code", durability="process")


def put(home: Path, data: bytes, id: str = ID) -> tuple[SoleurStore, Found]:
    """A store whose only session, unless there were others, is a file with `data` in it."""
    path = home / "sessions" / f"{id}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return store_in(home), Found(id, str(path))


def golden(home: Path, name: str) -> tuple[SoleurStore, Found]:
    return put(home, (GOLDEN / f"{name}.json").read_bytes())


def append(store: SoleurStore, ref: Found, *entries: Entry) -> None:
    with store.writer(ref) as writer:
        writer.catch_up()
        writer.append(entries)


def custom(kind: str, data: object, id: str, parent: str | None = None, timestamp: str = STAMP) -> Entry:
    return new(Custom(kind, data), id=id, parent_id=parent, timestamp=timestamp)


def decision(content: str, id: str, parent: str | None = None, /, **changes: object) -> Entry:
    data = {"content": content, "timestamp": STAMP, "session_id": ID, "tags": ["db"], "source": "Manual"}
    return custom("perdure.decision", {**data, **changes}, id, parent)


def attached(name: str, content: str, id: str, parent: str | None = None) -> Entry:
    return custom("perdure.context", {"name": name, "content": content}, id, parent)


def document(ref: Found) -> dict[str, Any]:
    """The file, as any program reads it."""
    return json.loads(Path(ref.path).read_bytes())


def meanings(entries: Iterable[Entry]) -> list[bytes]:
    return [meaning(entry) for entry in entries]


def rewritten(entries: Sequence[Entry], parts: Sequence[int] = ()) -> Document:
    """What is read of a document that these entries were printed to, at once or part by part."""
    store, ref = SoleurStore("/nowhere", cwd="/home/me/code"), Found(ID, "s.json")
    text = store.print(Document(Header(ID, STAMP), [], [], {}), STAMP)
    at = 0
    for size in parts or [len(entries)]:
        made = store.parse(ref, text)
        text = store.print(made._replace(entries=[*made.entries, *entries[at : at + size]]), STAMP)
        at += size
    return store.parse(ref, text)
