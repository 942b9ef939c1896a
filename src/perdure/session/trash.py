"""Deleted sessions go to the trash, whole, with a note of what they were and where they lay.

    <home>/trash/<id>/trash.json      and beside it the session's files

Called under the session's lock: what a live process holds is never moved.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from perdure.errors import NotSaved
from perdure.session import ids
from perdure.session.stores import files

NOTE = "trash.json"


def discard(home: str, id: str, program: str, paths: Sequence[str]) -> str:
    """Move a session's files into the trash. Returns the folder they are in now."""
    folder = os.path.join(home, "trash", id)
    number = 1
    try:
        files.make_folder(os.path.dirname(folder))
        while True:
            try:
                os.mkdir(folder, 0o700)
                break
            except FileExistsError:
                number += 1
                folder = os.path.join(home, "trash", f"{id}.{number}")
        note = {"program": program, "id": id, "deleted": ids.stamp(ids.now()), "paths": list(paths)}
        files.create(
            folder, NOTE, json.dumps(note, ensure_ascii=False, indent=2).encode("utf-8", "surrogateescape")
        )
        for path in paths:
            os.rename(path, os.path.join(folder, os.path.basename(path)))
            files.sync_folder(os.path.dirname(path))
        files.sync_folder(folder)
        files.sync_folder(os.path.dirname(folder))
    except OSError as error:
        raise NotSaved(folder, error) from error
    return folder
