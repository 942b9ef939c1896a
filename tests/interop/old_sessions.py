"""Session files of pi's older versions, and of its present one where only a file made by hand will do.

Version 1 is a list without ids, whose compactions count lines. Version 2 is a tree in which what extensions
say has another role.
"""

from __future__ import annotations

import json
from typing import Any

from tests.interop.original_pi import Json
from tests.interop.their_sessions import spoken


def as_lines(records: list[Json]) -> str:
    """As the original writes them."""
    return "".join(json.dumps(each, ensure_ascii=False, separators=(",", ":")) + "\n" for each in records)


def old_file(version: Json, *records: Json) -> str:
    at = {"timestamp": "2025-01-01T00:00:00.000Z"}
    header = {"type": "session", **version, "id": "old", **at, "cwd": "/some/where", "provider": "maker"}
    return as_lines([header, *({"type": record["type"], **at, **record} for record in records)])


def talk(count: int) -> list[Json]:
    roles = ["user", "assistant"] * count
    return [{"type": "message", "message": spoken(roles[n], f"Word {n}.")} for n in range(count)]


def compaction(**fields: Any) -> Json:
    return {"type": "compaction", "summary": "They talked.", "tokensBefore": 100, **fields}


def chained(*records: Json) -> list[Json]:
    ids = [None, *(f"0000000{number}" for number in range(len(records)))]
    return [
        {**each, "id": id, "parentId": above} for each, above, id in zip(records, ids, ids[1:], strict=False)
    ]


HOOK = {"type": "message", "message": spoken("hookMessage", "Injected.", customType="ext", display=True)}
MODEL = {"type": "model_change", "provider": "other", "modelId": "m-2"}
FROM_2, FROM_3 = compaction(firstKeptEntryIndex=2), compaction(firstKeptEntryIndex=3)
OLD = {
    "v1": old_file({}, *talk(5)),
    "v1 with more than talk": old_file({}, *talk(2), HOOK, MODEL, {"type": "from the past", "x": [1]}),
    "v1, version null": old_file({"version": None}, *talk(3)),
    "v1 compacted": old_file({}, *talk(4), FROM_3, *talk(2)),
    "v1 compacted twice": old_file({}, *talk(3), FROM_2, *talk(2), FROM_3, *talk(1)),
    "v1 compacted, keeping from the header": old_file(
        {}, *talk(3), compaction(firstKeptEntryIndex=0), *talk(1)
    ),
    "v1 compacted, keeping from past its end": old_file(
        {}, *talk(3), compaction(firstKeptEntryIndex=9), *talk(1)
    ),
    "v1 compacted, saying nothing of it": old_file({}, *talk(3), compaction(), *talk(1)),
    "v2": old_file({"version": 2}, *chained(*talk(2), HOOK, *talk(1))),
    "v2 compacted": old_file(
        {"version": 2}, *chained(*talk(3), compaction(firstKeptEntryId="00000001"), *talk(1))
    ),
}
