"""Sibyl's list of sessions, `index.lisp`: a cache, never trusted over the files.

    (:session-index
    (:entry :id "…" :created-at "…" :last-modified "…" :message-count 2 :file-size 9 :file-time 17 :check 4)
    )

A row says which file it was made from, by size and time, and ends with a checksum of itself: where the file
is another by now, or the row is not as it was written, it counts for nothing. One row a line, so that one is
replaced without reading the others. Under a lock of its own, which no session's can be; replaced in one step,
so that it is whole whenever somebody reads it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from typing import NamedTuple
from zlib import crc32

from perdure.errors import Held, InvalidId
from perdure.session import ids
from perdure.session.sexp import Keyword, SexpError, Value, loads
from perdure.session.stores import Found, files
from perdure.session.stores.lock import Lock
from perdure.session.stores.sibyl_document import quoted
from perdure.session.stores.sibyl_format import moment_of, properties

NAME = "index.lisp"
_LOCK = os.path.join("locks", "index~.lock")
_WAIT = 10.0
_FEW = 16
_HEAD, _ROW_START, _TAIL = b"(:session-index", b'\n(:entry :id "', b"\n)\n"
_ROW = re.compile(
    r'(\(:entry :id "([^"\\]+)" :created-at "([^"\\]*)" :last-modified "([^"\\]*)"'
    r" :message-count ([0-9]{1,18}) :file-size (-?[0-9]{1,18}) :file-time (-?[0-9]{1,20})"
    r'(?: :problem ("(?:[^"\\]|\\.)*+"))?) :check ([0-9]{1,10})\)'
)
_TICK = 100_000_000
"""In nanoseconds: two changes of a file so near to each other may give it the same time."""


class Row(NamedTuple):
    """What a listing says of a session."""

    id: str
    created_at: str
    last_modified: str
    message_count: int
    size: int = -1
    """Of its file when this was written; -1 if that is not known."""
    mtime_ns: int = 0
    problem: str = ""
    """Why it, or a part of it, cannot be read."""

    def is_of(self, ref: Found) -> bool:
        return (self.size, self.mtime_ns) == (ref.size, ref.mtime_ns)


class Index:
    def __init__(self, root: str, home: str) -> None:
        self._root = root
        self._home = home
        self._is_stuck = False
        """Whether it was waited for in vain. A session's save waits for this: who has held it for so long is
        not waited for again, and the next list makes the rows that are missing."""

    def read(self) -> dict[str, Row]:
        """All rows, by id. One that was written too soon after its file is of no file for sure."""
        try:
            text, written = self._contents()
        except OSError:
            return {}
        return {
            id: row if row.mtime_ns + _TICK < written else row._replace(size=-1)
            for id, row in _rows(text).items()
        }

    def change(self, rows: Collection[Row], gone: Collection[str] = ()) -> None:
        """Put rows in, in place of those of their ids, and take others out."""
        rows = [row for row in rows if _is_plain(row.id)]
        try:
            lock = Lock(self._home, _LOCK, NAME, 0.0 if self._is_stuck else _WAIT)
        except Held:
            self._is_stuck = True
            raise
        self._is_stuck = False
        with lock:
            try:
                before, _ = self._contents()
            except FileNotFoundError:
                before = b""
            if len(rows) + len(gone) > _FEW or not _is_ours(before):
                known = {**_rows(before), **{row.id: row for row in rows}}
                after = _printed(row for id, row in known.items() if id not in gone)
            else:
                after = before
                for row in rows:
                    after = _replaced(after, row.id, _line(row))
                for id in gone:
                    after = _replaced(after, id, b"")
            files.replace(self._root, NAME, after, sync=False)  # also the same again: it is newer now

    def _contents(self) -> tuple[bytes, int]:
        """Its bytes, and when they were written."""
        with files.open_beneath(self._root, NAME, os.O_RDONLY | os.O_NONBLOCK) as file:
            status = os.fstat(file.fileno())
            return files.read_all(file.fileno(), status.st_size), status.st_mtime_ns


def _is_plain(id: str) -> bool:
    """Not so a folder that people named as they like: it is read each time."""
    try:
        return bool(ids.check(id))
    except InvalidId:
        return False


def _is_ours(text: bytes) -> bool:
    """Whether it is one row a line, as it is written here."""
    return (
        text.startswith(_HEAD + b"\n")
        and text.endswith(_TAIL)
        and text.count(b"\n") == text.count(_ROW_START) + _TAIL.count(b"\n")
    )


def _replaced(text: bytes, id: str, line: bytes) -> bytes:
    """With this line, or none, for all rows of this id."""
    start = b'%b%b" ' % (_ROW_START, id.encode())
    at = text.find(start)
    end = text.index(b"\n", at + 1) if at >= 0 else len(text) - len(_TAIL)
    while (twin := text.find(start, end)) >= 0:
        text = text[:twin] + text[text.index(b"\n", twin + 1) :]
    view = memoryview(text)
    return b"".join([view[: at if at >= 0 else end], line, view[end:]])


def _printed(rows: Iterable[Row]) -> bytes:
    return _HEAD + b"".join(map(_line, rows)) + _TAIL


def _line(row: Row) -> bytes:
    text = f'(:entry :id "{row.id}" :created-at {quoted(row.created_at)}'
    text += f" :last-modified {quoted(row.last_modified)} :message-count {row.message_count}"
    text += f" :file-size {row.size} :file-time {row.mtime_ns}"
    if row.problem:
        text += f" :problem {quoted(row.problem)}"
    line = text.encode()
    return b"\n%b :check %d)" % (line, crc32(line))


# --- reading ----------------------------------------------------------------------------------------


def _rows(data: bytes) -> dict[str, Row]:
    """By id. One that another program wrote has rows too, for that program; but none of them is believed."""
    try:
        text = data.decode()
        if _is_ours(data):
            matches = map(_ROW.fullmatch, text.split("\n")[1:-2])
            return {match[2]: _row_of_match(match) for match in matches if match}
        return {row.id: row for row in map(_row_of, _forms(loads(text)))}
    except (UnicodeDecodeError, SexpError, ValueError):
        return {}


def _row_of_match(match: re.Match[str]) -> Row:
    line, id, created, modified, count, size, time, problem, check = match.groups()
    is_sound = crc32(line.encode()) == int(check)
    why = str(loads(problem)) if problem else ""
    return Row(id, created, modified, int(count), int(size) if is_sound else -1, int(time), why)


def _forms(index: Value) -> list[Value]:
    """The rows of `(:session-index (:entry :id …) …)`, or of a bare list of them."""
    match index:
        case [Keyword("session-index"), *rows]:
            return rows
        case list():
            return index
    raise ValueError("no index")


def _row_of(form: Value) -> Row:
    if isinstance(form, list) and form[0] == Keyword("entry"):
        form = form[1:]
    fields = {key.name: value for key, value in properties(form).items()}
    id = fields.get("id")
    if not isinstance(id, str) or not _is_plain(id):
        raise ValueError("a row without an id")
    problem, count = fields.get("problem"), fields.get("message-count")
    return Row(
        id,
        moment_of(fields.get("created-at")),
        moment_of(fields.get("last-modified")),
        count if isinstance(count, int) else 0,
        problem=problem if isinstance(problem, str) else "",
    )
