"""Files in pi's layout, written out here by hand: a test must not ask the code under test how they look."""

import binascii
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure.session.stores import Found
from perdure.session.stores.pi_jsonl import PiStore

GOLDEN = Path(__file__).parent / "golden" / "pi"
WHOLE = sorted(GOLDEN.glob("*.jsonl"))
DAMAGED = sorted((GOLDEN / "damaged").glob("*.jsonl"))

STAMP = "2026-01-31T09:05:00.123Z"
HEADER = b'{"type":"session","version":3,"id":"s1","timestamp":"%b","cwd":"/home/me/code"}' % STAMP.encode()
OUR_HEADER = HEADER[:-1] + b',"writer":"perdure"}'


def said(id: str, parent: str | None, text: str = "said", role: str = "user") -> bytes:
    """One message, as a line without its newline."""
    message = {"role": role, "content": text, "timestamp": 1769850300123}
    record = {"type": "message", "id": id, "parentId": parent, "timestamp": STAMP, "message": message}
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()


def chain(count: int, start: int = 1) -> list[bytes]:
    """Messages of ids m1, m2, …, each the child of the one before it."""
    numbers = range(start, start + count)
    return [said(f"m{n}", f"m{n - 1}" if n > 1 else None, f"text {n}") for n in numbers]


def sealed(line: bytes) -> bytes:
    """The line with its checksum: CRC-32, as eight hex digits, of all that stands before `,"crc":`."""
    return b'%b,"crc":"%08x"}' % (line[:-1], binascii.crc32(line[:-1]))


def text_of(*lines: bytes) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def put(folder: Path, data: bytes, name: str = "s1.jsonl") -> tuple[PiStore, Found]:
    """A store whose only session, unless there were others, is a file with `data` in it."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_bytes(data)
    return store_in(folder), Found(name.removesuffix(".jsonl"), str(path))


def store_in(folder: Path) -> PiStore:
    return PiStore(str(folder), sessions_dir=str(folder), cwd="/home/me/code", durability="process")


@contextmanager
def in_memory(otherwise: Path) -> Iterator[Path]:
    """A folder in memory, where the machine has such a place, for tests that write thousands of files."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield otherwise
        return
    with tempfile.TemporaryDirectory(dir=memory) as name:
        yield Path(name)
