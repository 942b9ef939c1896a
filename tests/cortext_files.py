"""Files in Cortext's layout, looked at and written by hand: a test must not ask the code under test how."""

import json
import re
from pathlib import Path
from typing import Any

from perdure.session.stores import Found
from perdure.session.stores.cortext_folder import CortextStore

GOLDEN = Path(__file__).parent / "golden" / "cortext"
ID = "2025-11-22/001-brainstorm-api-design"
STAMP = "2025-11-22T10:00:00.000Z"
MARK = re.compile(r"^<!-- (\S+) -->$", re.MULTILINE)


def store_in(folder: Path) -> CortextStore:
    return CortextStore(str(folder), durability="process")


def put(workspace: Path, files: dict[str, bytes], id: str = ID) -> tuple[CortextStore, Found]:
    """A workspace with one conversation of these files."""
    folder = workspace / "conversations" / id
    (folder / ".session").mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return store_in(workspace), Found(id, str(folder / ".session" / "messages.jsonl"))


def golden(name: str) -> dict[str, bytes]:
    """The files of a golden conversation."""
    folder = GOLDEN / name
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def folder_of(ref: Found) -> Path:
    return Path(ref.path).parents[1]


def lines_of(ref: Found) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(ref.path).read_bytes().split(b"\n") if line]


def state_of(ref: Found) -> dict[str, Any]:
    state = json.loads((folder_of(ref) / ".session" / "session.json").read_bytes())
    assert isinstance(state, dict)
    return state


def transcript_of(ref: Found) -> str:
    (path,) = folder_of(ref).glob("*.md")
    return path.read_bytes().decode()


def marks_of(ref: Found) -> list[str]:
    return MARK.findall(transcript_of(ref))


def check_complete(ref: Found, *, shown: int = 0) -> None:
    """All three files say the same: the log's messages are counted and shown, each once and in their order.

    The first `shown` messages are in the transcript in another program's way, without marks.
    """
    messages = [line for line in lines_of(ref) if "entry" not in line]
    state = state_of(ref)
    assert state["log_bytes"] == Path(ref.path).stat().st_size
    assert state["message_count"] == len(messages)
    assert state["last_active"] == max(line["timestamp"] for line in messages)
    assert state["conversation_id"] == folder_of(ref).name
    text = transcript_of(ref)
    told = [line for line in messages[shown:] if line.get("transcript") is not False]
    assert MARK.findall(text) == [line["id"] for line in told]
    after = MARK.split(text)[2::2]
    for line, block in zip(told, after, strict=True):
        assert block.startswith(f"\n## {line['role'].capitalize()}")
        assert line["content"] in block
        assert block.endswith("\n")


def statuses_of(ref: Found) -> list[str]:
    """What was recorded in the log, in its order."""
    entries = [line["entry"] for line in lines_of(ref) if "entry" in line]
    return [entry["data"]["status"] for entry in entries if entry.get("customType") == "perdure.status"]
