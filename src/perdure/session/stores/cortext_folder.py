"""Cortext's layout: a folder a conversation, in a workspace that is in git.

    <workspace>/
      conversations/<YYYY-MM-DD>/<NNN>-<type>-<slug>/   a conversation; its id is the last two of these names
      .workspace/registry.json                          may name another folder than the first for a type
      .workspace/locks/, .workspace/trash/              ours, and kept out of git

Inside a workspace the user's umask rules. No link in it is followed.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from perdure.errors import Conflict, Held, InvalidId, NotSaved, PerdureError, Unreadable
from perdure.session import ids, listing, strangers
from perdure.session.entry import Entry
from perdure.session.git_exclude import keep_out
from perdure.session.stores import Durability, Found, Header, files, folders
from perdure.session.stores import cortext_state as layout
from perdure.session.stores.cortext_conversation import ConversationStore, contents
from perdure.session.stores.cortext_state import LOG, STATE, Tally
from perdure.session.stores.cortext_transcript import transcript
from perdure.session.stores.file_store import found
from perdure.session.stores.lock import Lock

CONVERSATIONS = "conversations"
_OWN = ".workspace"
_LOCKS = os.path.join(_OWN, "locks")
_NUMBERS = os.path.join(_LOCKS, "conversations~.lock")
_UNFINISHED = os.path.join(_LOCKS, "new~")
_REGISTRY = os.path.join(_OWN, "registry.json")
_WAIT = 10.0
_NUMBERED = re.compile(r"([0-9]{1,9})-")
_DEEPEST = 8  # folders above a conversation's own


class CortextStore(ConversationStore):
    name = "cortext"
    depth = _DEEPEST + 4

    def __init__(self, home: str, *, cwd: str | None = None, durability: Durability = "power") -> None:
        """`home` is the workspace, and that is also what its conversations are about, whatever `cwd` is."""
        super().__init__(os.path.abspath(home), durability)
        for folder in listing.conversation_folders(self.root):
            strangers.refuse_open(os.path.join(self.root, folder))

    # --- new ones ---------------------------------------------------------------------------------

    def new_id(self, header: Header) -> str:
        """The day's next number, for good: its folder is made, empty, so that it is not given twice. It is a
        conversation when it is created."""
        kind = "-".join(re.findall("[a-z0-9]+", str(header.facts.get("conversation_type", "")).lower()))
        title = header.facts.get("title")
        day = _day(header.timestamp)
        folder = self._folder(header)
        with self._numbering(), files.told(NotSaved, os.path.join(self.root, folder, day)):
            self._make_folders(*folder.split(os.sep), day)
            names = [
                name
                for each in listing.conversation_folders(self.root)
                for name in files.names(self.root, os.path.join(each, day))
            ]
            number = max((int(match[1]) for match in map(_NUMBERED.match, names) if match), default=0)
            while True:
                number += 1
                id = ids.cortext_id(day, number, kind[:32].strip("-") or "conversation", str(title or ""))
                with contextlib.suppress(FileExistsError):
                    self._make_folder(os.path.join(folder, id))
                    return id

    def _folder(self, header: Header) -> str:
        """That of a new conversation: the one that the registry names for its type, or else the usual one."""
        return listing.conversation_folder(self.root, str(header.facts.get("conversation_type", "")))

    def create(self, header: Header, entries: Iterable[Entry] = ()) -> Found:
        """Whole, or not there: it gets its name when all its files are written."""
        day, _, name = ids.check_dated(header.id).rpartition("/")
        if not day:
            raise InvalidId(header.id, "a day and a name, as in 2025-11-22/001-brainstorm-topic")
        above = self._folder(header)
        folder = os.path.join(above, day, name)
        ref = Found(header.id, os.path.join(self.root, folder, LOG))
        entries = list(entries)
        header = header._replace(timestamp=header.timestamp or ids.stamp(ids.now()))
        log = self.text(ref, None, entries, self.reader(ref))
        known = layout.folded(layout.members_of(header, self.home), entries[header.covers :])
        state = layout.whole(known, header.id, Tally().and_of(entries), len(log))
        shown = layout.transcript_name(known, header.id), transcript(layout.title_in(state), entries)
        with self._numbering(), files.told(NotSaved, ref.path):
            self._clear()
            try:
                self._make_folder(_UNFINISHED)
                self._make_folder(os.path.join(_UNFINISHED, ".session"))
                self._write([(LOG, log), (STATE, layout.printed(state))], sync=self.synced)
                self._write([shown], sync=False)
                self._make_folders(*above.split(os.sep), day)
                self._name(folder)
            except BaseException:
                with contextlib.suppress(OSError, PerdureError):
                    self._clear()
                files.remove_folder(self.root, folder)  # the number is free again
                raise
        return found(ref.id, ref.path)

    def _write(self, made: Sequence[tuple[str, bytes]], *, sync: bool) -> None:
        """Files of one folder of what is not finished."""
        for relative, data in made:
            with files.folder_of(self.root, os.path.join(_UNFINISHED, relative)) as (folder, name):
                with files.make_in(folder, name, private=False) as file:
                    files.write_all(file.fileno(), data)
                    if sync:
                        files.sync_data(file.fileno())
                if sync and relative == made[-1][0]:
                    files.sync_names(folder)

    def _name(self, folder: str) -> None:
        """Give what is finished its name. Only an empty folder, of `new_id`, can have it already."""
        with (
            files.folder_of(self.root, _UNFINISHED) as (here, own),
            files.folder_of(self.root, folder) as (there, name),
        ):
            os.rename(own, name, src_dir_fd=here, dst_dir_fd=there)
            if self.synced:
                try:
                    files.sync_folder(os.path.join(self.root, folder))
                    files.sync_names(there)
                except OSError:
                    os.rename(name, own, src_dir_fd=there, dst_dir_fd=here)
                    raise

    def _clear(self) -> None:
        """Remove what a killed process left unfinished."""
        if files.status(self.root, _UNFINISHED):
            folders.remove_tree(self.root, _UNFINISHED)

    def _make_folder(self, relative: str) -> None:
        """One that need not outlive a power cut under this name."""
        with files.folder_of(self.root, relative) as (folder, name):
            files.make_folder_in(folder, name, private=False)

    def _make_folders(self, *steps: str) -> None:
        files.make_folder(self.root, private=False)
        for count in range(len(steps)):
            files.new_folder(self.root, os.path.join(*steps[: count + 1]), private=False)

    @contextlib.contextmanager
    def _numbering(self) -> Iterator[None]:
        """One process at a time makes conversations."""
        self._keep_out_of_git()
        try:
            lock = Lock(self.home, _NUMBERS, CONVERSATIONS, _WAIT, private=False)
        except Held as held:
            holder = f"process {held.pid}" if held.pid else "another process"
            where = os.path.join(self.home, CONVERSATIONS)
            raise Conflict(where, f"is in use by {holder}", "try again later") from held
        with lock:
            yield

    # --- places -----------------------------------------------------------------------------------

    def lock(self, ref: Found, wait: float) -> Lock:
        self._keep_out_of_git()
        return super().lock(ref, wait)

    def _keep_out_of_git(self) -> None:
        """Once, when the first of them is about to be made."""
        if not os.path.lexists(os.path.join(self.home, _LOCKS)):
            keep_out(self.home, [_LOCKS, os.path.join(_OWN, "trash")])

    def _place(self, relative: str) -> tuple[str, str]:
        return self.home, _OWN

    def _beside(self, relative: str, names_in: Callable[[str], Sequence[str]] | None = None) -> Sequence[str]:
        """What people put into its folder, or wrote into the transcript."""
        whole = self._whole(relative)
        names = [
            *files.names(self.root, whole),
            *map(_in_session, files.names(self.root, f"{whole}/.session")),
        ]
        return [
            os.path.join(whole, name)
            for name in sorted({*names} - {".session", LOG, STATE})
            if not self._is_only_a_heading(os.path.join(whole, name))
        ]

    def _is_only_a_heading(self, relative: str) -> bool:
        try:
            text, _ = contents(self.root, relative)
        except Unreadable:
            return False
        return relative.endswith(".md") and text.startswith(b"# ") and text.find(b"\n") in (-1, len(text) - 1)

    def _remove(self, relative: str) -> None:
        folders.remove_tree(self.root, self._whole(relative))
        files.remove_folder(self.root, os.path.dirname(self._whole(relative)))  # if it was the day's only one


def _in_session(name: str) -> str:
    return os.path.join(".session", name)


def _day(timestamp: str) -> str:
    """Where the user is: a conversation late in the evening is that day's."""
    try:
        return f"{datetime.fromisoformat(timestamp).astimezone():%Y-%m-%d}"
    except (ValueError, OverflowError):
        return f"{ids.now().astimezone():%Y-%m-%d}"
