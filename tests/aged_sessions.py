"""Sessions of Aurora's that say how old they are, written out as its document shows them."""

import json
import os
from datetime import datetime
from pathlib import Path

from perdure import config
from perdure.session import ids
from perdure.session.layouts import Home
from perdure.session.stores import Found
from tests.aurora_files import store_in


def turn(when: object, text: str = "said", role: str = "user") -> dict[str, object]:
    return {"type": "turn", "role": role, "content": text, "timestamp": _said(when)}


class Sessions:
    """In a home of their own."""

    def __init__(self, folder: Path) -> None:
        self.home = Home("aurora", str(folder))
        self.store = store_in(folder)

    def write(
        self,
        id: str,
        created: object,
        *lines: dict[str, object],
        agent: str = "default",
        status: str = "active",
        end: bytes = b"",
    ) -> Found:
        """`created` is a moment, or whatever is to stand in its place; None for nothing."""
        first: dict[str, object] = {"type": "metadata", "session_id": id, "agent": agent}
        if created is not None:
            first["created_at"] = _said(created)
        first["status"] = status
        path = Path(self.store.root, f"{id}.jsonl")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in (first, *lines)) + end)
        return Found(id, str(path))

    @property
    def ids(self) -> list[str]:
        """Of those that are there."""
        return sorted(each.id for each in self.store.list())


def remember(when: datetime, *, agreed: bool = True) -> Path:
    """As if a clean-up had last looked at the clock then."""
    path = Path(config.cache("last-seen"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{ids.stamp(when)} {'agreed' if agreed else 'alone'}\n")
    return path


def touch(path: str | Path, when: float) -> None:
    os.utime(path, (when, when))


def _said(when: object) -> object:
    return ids.stamp(when) if isinstance(when, datetime) else when
