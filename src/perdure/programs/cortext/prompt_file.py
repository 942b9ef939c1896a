"""A first prompt that is too long for a command line: a file in the workspace, where every tool may read.

It exists as long as the tool runs, only its user reads it, and git does not see it. A process that is killed
leaves its file behind, with all of a conversation in it. The file is named after the conversation's lock,
which its process holds for longer than the file exists: a file whose lock nobody holds was left behind.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from tempfile import mkstemp

from perdure.errors import NotSaved, PerdureError
from perdure.programs.cortext.workspace import FOLDER
from perdure.session.git_exclude import keep_out
from perdure.session.holder import holder_at
from perdure.session.stores import files

PROMPTS = os.path.join(FOLDER, "prompts")
_LOCKS = os.path.join(FOLDER, "locks")
_PREFIX, _SUFFIX = "conversation-", ".md"


@contextmanager
def written(prompt: bytes, workspace: str, lock: str) -> Iterator[str]:
    """The file's name, from the workspace on. `lock` is the conversation's, and held by this process."""
    folder = os.path.join(workspace, PROMPTS)
    stem = os.path.basename(lock).removesuffix(".lock")
    with files.told(NotSaved, folder):
        files.new_folder(workspace, PROMPTS, private=False)
        keep_out(workspace, [PROMPTS])
        descriptor, path = mkstemp(_SUFFIX, f"{_PREFIX}{stem}.", folder)  # nobody else's to read: 0600
        with open(descriptor, "wb") as file:
            file.write(prompt)
    try:
        yield os.path.relpath(path, workspace)
    finally:
        with files.told(NotSaved, path):
            os.unlink(path)


def remove_left_behind(workspace: str) -> None:
    """Remove the files of processes that are gone. What cannot be removed waits for the next start."""
    for name in files.names(workspace, PROMPTS):
        if not name.startswith(_PREFIX) or not name.endswith(_SUFFIX):
            continue
        stem = name.removeprefix(_PREFIX).removesuffix(_SUFFIX).rpartition(".")[0]
        if holder_at(os.path.join(workspace, _LOCKS, f"{stem}.lock")) is not None:
            continue
        with (
            suppress(OSError, PerdureError),
            files.folder_of(workspace, os.path.join(PROMPTS, name)) as (folder, own),
        ):
            os.unlink(own, dir_fd=folder)
