"""Deleted sessions go to the trash, whole, with a note of what they were and where they lay.

    <home>/trash/<id>/trash.json      and beside it the session's files

Called under the session's lock: what a live process holds is never moved.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Sequence

from perdure.errors import NotSaved
from perdure.session import ids
from perdure.session.stores import files

NOTE = "trash.json"


def discard(home: str, id: str, program: str, root: str, names: Sequence[str]) -> str:
    """Move a session's files, named from `root`, into the trash. Returns the folder they are in now."""
    folder = _new_folder(home, id)
    note = {
        "program": program,
        "id": id,
        "deleted": ids.stamp(ids.now()),
        "paths": [os.path.join(root, name) for name in names],
    }
    try:
        files.create(home, os.path.join(folder, NOTE), json.dumps(note, indent=2).encode())
        for name in names:
            files.move(root, name, home, os.path.join(folder, os.path.basename(name)))
    except NotSaved:
        files.remove_folder(home, folder, NOTE)  # what was not deleted leaves no trace; what was moved stays
        raise
    return os.path.join(home, folder)


def _new_folder(home: str, id: str) -> str:
    try:
        files.make_folder(os.path.join(home, "trash"))
    except OSError as error:
        raise NotSaved(os.path.join(home, "trash"), error) from error
    name = ids.file_name(id)
    for number in itertools.count(1):
        folder = os.path.join("trash", name if number == 1 else f"{name}.{number}")
        if files.new_folder(home, folder):
            return folder
    raise AssertionError("unreachable")
