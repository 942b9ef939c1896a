"""Files in Aurora's layout, written out by hand: a test must not ask the code under test how they look."""

import json
from pathlib import Path

from perdure.session.stores import Found
from perdure.session.stores.aurora_jsonl import AuroraStore

GOLDEN = Path(__file__).parent / "golden" / "aurora"
WHOLE = sorted(GOLDEN.glob("*.jsonl"))
DAMAGED = sorted((GOLDEN / "damaged").glob("*.jsonl"))

ID = "session-0a1b2c3d4e5f"
STAMP = "2026-03-01T12:00:01.000Z"
METADATA = (
    b'{"type":"metadata","session_id":"session-0a1b2c3d4e5f","agent":"qa-test",'
    b'"created_at":"2026-03-01T12:00:00.000Z","status":"active","cwd":"/home/me/proj"}'
)


def turn(id: str, parent: str | None, text: str = "said", role: str = "user") -> bytes:
    """One turn, as a line of ours without its newline."""
    named = {"type": "turn", "role": role, "content": text, "timestamp": STAMP, "tokens": -(-len(text) // 4)}
    return json.dumps(
        {**named, "id": id, "parent_id": parent}, ensure_ascii=False, separators=(",", ":")
    ).encode()


def chain(count: int, start: int = 1) -> list[bytes]:
    """Turns of ids m1, m2, …, each the child of the one before it."""
    numbers = range(start, start + count)
    return [turn(f"m{n}", f"m{n - 1}" if n > 1 else None, f"text {n}") for n in numbers]


def text_of(*lines: bytes) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def put(home: Path, data: bytes, id: str = ID) -> tuple[AuroraStore, Found]:
    """A store whose only session, unless there were others, is a file with `data` in it."""
    store = store_in(home)
    path = Path(store.root, f"{id}.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return store, Found(id, str(path))


def store_in(home: Path) -> AuroraStore:
    return AuroraStore(str(home), cwd="/home/me/code", durability="process")
