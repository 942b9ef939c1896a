"""The file that the catalog is in: its tables, and when it is none."""

from __future__ import annotations

import os
import sqlite3
import time

_VERSION = 6
"""Of the tables below and of all that is put into them. A catalog of another one is made anew."""
_WAIT = 5.0
"""Seconds for another process that is catching up. After that we do without the file."""
_PACE = 0.005
"""Seconds between two tries, while another process makes the catalog."""

_TABLES = """
CREATE TABLE session (
    key INTEGER PRIMARY KEY,
    program TEXT, home TEXT, folder TEXT, path TEXT, id TEXT,
    title TEXT, preview TEXT, messages INTEGER, turns INTEGER, kind TEXT, summary TEXT, created INTEGER,
    active INTEGER, waits INTEGER, recorded TEXT, cwd TEXT, project TEXT, root TEXT, size INTEGER,
    problem TEXT, lock TEXT, title_is_cut INTEGER, preview_is_cut INTEGER, summary_is_cut INTEGER,
    stamp INTEGER, has_text INTEGER
);
CREATE TABLE reading (session INTEGER PRIMARY KEY, state BLOB);
CREATE INDEX stamps ON session (home, program, folder, path, stamp, has_text);
CREATE INDEX newest ON session (active, id, path);
CREATE INDEX ids ON session (id);
CREATE TABLE entry (key INTEGER PRIMARY KEY, session INTEGER, id TEXT);
CREATE UNIQUE INDEX entries ON entry (session, id);
CREATE VIRTUAL TABLE said USING fts5 (
    session UNINDEXED, entry UNINDEXED, role UNINDEXED, text, tokenize = 'unicode61 remove_diacritics 2'
);
"""
_PASSING = {
    *(sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR),
    *(sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY),
}
_PAGE = 4096


def is_damage(error: Exception) -> bool:
    """Whether the file is no catalog, or not this version's. One that is locked, read-only or full is good,
    and only cannot be used now."""
    if isinstance(error, OSError):
        return False
    return _code(error) not in _PASSING


def _code(error: Exception) -> int:
    """What SQLite calls it; what is none of its own errors shows that the file is damaged."""
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF


class _NoCatalog(sqlite3.DatabaseError):
    """It is of another version, somebody else's, or cut short."""


def connect(path: str) -> sqlite3.Connection:
    """A catalog of this version in that file. What sessions say is their owner's business, and so is this."""
    if not os.path.lexists(path):
        from perdure.session.stores import files  # which a listing of known sessions does without

        files.make_empty(path)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(file).st_size % _PAGE:  # SQLite would take what is missing of the last page for zeros
            raise _NoCatalog("cut short")
    finally:
        os.close(file)
    db = sqlite3.connect(path, timeout=_WAIT, isolation_level=None)
    deadline = time.monotonic() + _WAIT
    try:
        while True:
            try:
                return prepared(db)
            except sqlite3.OperationalError as error:
                # SQLite itself waits for no other process that is making the catalog, too.
                if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                    raise
            if db.in_transaction:
                db.execute("ROLLBACK")
            time.sleep(_PACE)
    except BaseException:
        db.close()
        raise


def prepared(db: sqlite3.Connection) -> sqlite3.Connection:
    if _version(db) != _VERSION and _is_empty(db):
        # Readers and one writer at a time are not in each other's way, and a power cut leaves the old or the
        # new, though never synced when it is written: only when SQLite moves what was written to its place.
        db.execute(f"PRAGMA page_size = {_PAGE}")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("BEGIN IMMEDIATE")
        if not _version(db):
            for statement in _TABLES.split(";\n"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {_VERSION}")
        db.execute("COMMIT")
    db.execute("PRAGMA synchronous = NORMAL")
    return db


def _version(db: sqlite3.Connection) -> int:
    found: int = db.execute("PRAGMA user_version").fetchone()[0]
    return found


def _is_empty(db: sqlite3.Connection) -> bool:
    """Whether it is still to be made a catalog. Raises _NoCatalog where it is something else."""
    # One statement sees one moment: another process may be making it one.
    tables, version = db.execute(
        "SELECT count(*), (SELECT user_version FROM pragma_user_version) FROM sqlite_master"
    ).fetchone()
    if version not in (0, _VERSION):
        raise _NoCatalog(f"a catalog of version {version}")
    if tables and not version:
        raise _NoCatalog("tables of somebody else's")
    return not version
