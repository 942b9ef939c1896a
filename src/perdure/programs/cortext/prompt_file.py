"""A first prompt that is too long for a command line: a file in the workspace, where every tool may read.

It exists as long as the tool runs, only its user reads it, and git does not see it. A process that is killed
leaves its file behind, with all of a conversation in it. The file is named after the conversation's lock,
which its process holds for longer than the file exists: a file whose lock nobody holds was left behind.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from perdure.errors import NotSaved
from perdure.programs.cortext.workspace import FOLDER
from perdure.session.git_exclude import keep_out
from perdure.session.holder import holder_at
from perdure.session.stores import files

PROMPTS = os.path.join(FOLDER, "prompts")
_LOCKS = os.path.join(FOLDER, "locks")
_NAME = re.compile(r"conversation-(?:(.+)\.)?[a-z0-9_]{8}\.md", re.DOTALL)
_MODE = 0o600


@contextmanager
def written(prompt: bytes, workspace: str, lock: str) -> Iterator[str]:
    """The file's name, from the workspace on. `lock` is the conversation's, and held by this process."""
    stem = os.path.basename(lock).removesuffix(".lock")
    relative = os.path.join(PROMPTS, f"conversation-{stem}.{os.urandom(4).hex()}.md")
    with files.told(NotSaved, os.path.join(workspace, PROMPTS)):
        files.new_folder(workspace, PROMPTS, private=False)
        keep_out(workspace, [PROMPTS])
        with files.folder_of(workspace, relative) as (folder, name):
            file = files.make_in(folder, name, private=True)
    try:
        with file, files.told(NotSaved, os.path.join(workspace, relative)):
            files.write_all(file.fileno(), prompt)
        yield relative
    finally:
        _remove(workspace, relative)


def remove_left_behind(workspace: str) -> None:
    """Remove the files of processes that are gone."""
    for name in files.names(workspace, PROMPTS):
        if match := _NAME.fullmatch(name):
            lock = os.path.join(workspace, _LOCKS, f"{match[1] or ''}.lock")
            if holder_at(lock) is None:
                _remove(workspace, os.path.join(PROMPTS, name))


def _remove(workspace: str, relative: str) -> None:
    """Remove a file that is as `written` makes them: others here are their users'. What cannot be removed
    waits for the next start; the tool may have removed it already."""
    with suppress(OSError), files.folder_of(workspace, relative) as (folder, name):
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISREG(status.st_mode) and stat.S_IMODE(status.st_mode) == _MODE:
            os.unlink(name, dir_fd=folder)
