"""pi's layout: one JSONL file a session, a header line and then one entry a line, in a folder a project.

    <home>/sessions/--<cwd>--/<time>_<id>.jsonl      <home>/locks/<id>.lock      <home>/trash/<id>/

A new session is an empty file: its name holds id and time, and the header is written with the first
entry. The file grows by appends alone. Only one of an old version is replaced, once, by its first
append, and then the original stays beside it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from perdure import config
from perdure.errors import NotSaved, Unreadable
from perdure.session import ids
from perdure.session.entry import Entry
from perdure.session.listing import pi_folder
from perdure.session.record import dumps, loads
from perdure.session.stores import START, Cursor, Durability, Found, Header, files, pi_format
from perdure.session.stores.file_store import found
from perdure.session.stores.jsonl import JsonlStore, JsonlWriter
from perdure.session.stores.line_reader import LineReader
from perdure.session.stores.lock import Lock
from perdure.session.stores.pi_format import PiReader


class PiStore(JsonlStore):
    name = "pi"
    depth = 1

    def __init__(
        self,
        home: str,
        *,
        sessions_dir: str | None = None,
        cwd: str | None = None,
        durability: Durability = "power",
        file: str = "",
    ) -> None:
        """With a `sessions_dir` of its own, the store has no folders for projects."""
        root = sessions_dir or os.path.join(home, "sessions")
        self._real_root = config.real_path(root)
        self._by_project = sessions_dir is None
        super().__init__(home, root, durability, cwd=cwd, file=file)

    def new_id(self, header: Header) -> str:
        return ids.new_id()

    def create(self, header: Header, entries: Iterable[Entry] = ()) -> Found:
        ids.check(header.id)
        header = header._replace(cwd=header.cwd or self.cwd)
        folder = pi_folder(header.cwd) if self._by_project else ""
        relative = os.path.join(folder, pi_format.file_name(header))
        ref = Found(header.id, os.path.join(self.root, relative))
        entries = list(entries)
        text = b""
        if entries or header.facts or header.parent_session:
            first = pi_format.header_line(header)
            reader = self.reader(ref)
            reader.record(first, 1)
            text = self.text(ref, first, entries, reader)
        with files.told(NotSaved, ref.path):
            files.make_folder(os.path.dirname(ref.path))
        files.create(self.root, relative, text, sync=self.synced)
        return found(header.id, ref.path)

    def header(self, ref: Found) -> Header:
        """From the first line, and from the file's name where that says nothing."""
        with files.open_to_read(self.root, self.relative(ref)) as file, files.told(Unreadable, ref.path):
            descriptor = file.fileno()
            return self.with_header(ref, descriptor, os.fstat(descriptor).st_size).header

    def reader(self, ref: Found) -> PiReader:
        return PiReader(ref.path, pi_format.header_from_name(os.path.basename(ref.path)))

    def line(self, entry: Entry, reader: LineReader) -> bytes:
        assert isinstance(reader, PiReader)
        return pi_format.entry_line(reader.path, entry, checksum=reader.checksums)

    def first_line(self, ref: Found, header: Header) -> bytes:
        timestamp = header.timestamp or ids.stamp(ids.now())
        return pi_format.header_line(header._replace(cwd=header.cwd or self.cwd, timestamp=timestamp))

    def _writer(self, ref: Found, lock: Lock, after: Cursor | None) -> PiWriter:
        return PiWriter(self, ref, lock, after)

    def _homes(self, holding: str = "trash") -> Sequence[str]:
        below = [name for name in files.names(self.root, "") if not name.endswith(".jsonl")]
        places = ("", *(os.path.join(name, "") for name in sorted(below)))
        homes = dict.fromkeys(os.path.join(*self._place(place)) for place in places)
        if self._by_project:  # also where no project is left
            homes[os.path.join(os.path.dirname(self._real_root), "")] = None
        return [home for home in homes if os.path.isdir(os.path.join(home, holding))] or list(homes)[:1]

    def _place(self, relative: str) -> tuple[str, str]:
        """This follows from where the file is and from nothing else: however a store was opened, a session
        has one lock."""
        root = self._real_root
        folder = os.path.dirname(relative)
        if folder == "":
            root, folder = os.path.split(root)
        above = os.path.basename(root)
        if folder.startswith("--") and folder.endswith("--") and above == "sessions":
            return os.path.dirname(root), ""
        return root, folder


class PiWriter(JsonlWriter):
    def _append(self, entries: Sequence[Entry]) -> Cursor:
        known = self._known
        if entries and not self._behind and isinstance(known, PiReader) and known.version < pi_format.VERSION:
            self._upgrade(known.version)
        return super()._append(entries)

    def _upgrade(self, version: int) -> None:
        """Replace a file of an old version by the same session in today's. The original stays beside it."""
        store, relative = self._store, self._store.relative(self._ref)
        reader, _ = store.scan(self._ref, self._log.fileno(), START)
        assert isinstance(reader, PiReader)
        header = dumps({**loads(reader.header_raw), "version": pi_format.VERSION})
        text = store.text(self._ref, header, reader.entries, reader)
        self._log.check()  # what is replaced is what was read
        files.set_aside(store.root, relative, f"v{version}")
        files.replace(store.root, relative, text)
        self._log.replaced()
        self._catch_up()
