"""Which folders the user trusts: decisions in pi's `trust.json`, which the original pi reads and writes too.

A decision is a folder's real path and a yes or a no; it holds for all below that has none of its own. What
cannot be read trusts nobody, and is never written over: somebody's decisions are in it.

    trust = Trust()
    trust.is_trusted(".")
    trust.decide(".", True)
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from perdure import config
from perdure.agent.process_origin import refuse_agent
from perdure.errors import NotSaved, PerdureError
from perdure.session import strangers
from perdure.session.holder import try_to_lock
from perdure.session.layouts import home_of, home_to_read
from perdure.session.stores import files

FILE = "trust.json"

_STALE = 10.0  # seconds after which the original pi takes a lock for forgotten, and renews its own before
_PATIENCE = 5.0
_GLANCE = 0.5  # seconds in which whoever is writing has written
_PAUSE = 0.02


class Decision(NamedTuple):
    path: str
    """The folder it was made for: the one asked about, or one above."""
    is_trusted: bool


class _Written(NamedTuple):
    entries: dict[str, bool | None]
    """None is the original pi's word for a decision that was taken back."""
    trouble: str = ""


class Trust:
    def __init__(self, home: str | None = None) -> None:
        """`home` is pi's own folder."""
        self._given = home
        self._home = home or home_to_read("pi")
        self.path = os.path.join(self._home, FILE)
        self._lock = f"{self.path}.lock"

    @property
    def trouble(self) -> str:
        """What is wrong with the file; empty if nothing is."""
        return self._read().trouble

    def decision(self, folder: str) -> Decision | None:
        """The nearest one, of the folder itself or of one above it."""
        entries = self._read().entries
        path = config.real_path(folder)
        while True:
            found = entries.get(path)
            if found is not None:
                return Decision(path, found)
            path, below = os.path.dirname(path), path
            if path == below:
                return None

    def is_trusted(self, folder: str) -> bool:
        found = self.decision(folder)
        return found is not None and found.is_trusted

    def decide(self, folder: str, is_trusted: bool | None) -> None:
        """A yes, a no, or with None neither: then what was decided above holds again. Refused where
        an agent's command asks for it."""
        refuse_agent("changed")
        if self._given is None:
            home_of("pi")  # NoHome, if the user has none
        path = config.real_path(folder)
        with self._locked():
            entries, trouble = self._read_once()
            if trouble:
                raise PerdureError(
                    trouble, "correct that file, or remove it; until then no folder is trusted"
                )
            before = dict(entries)
            if is_trusted is None:
                entries.pop(path, None)
            else:
                entries[path] = is_trusted
            if entries != before:
                # Where it is a link, what it leads to is replaced.
                target = config.real_path(self.path)
                with suppress(OSError):  # there is none yet, or it is another's, which a save says
                    os.chmod(target, 0o600)  # a replaced file keeps its mode, and others have no part in this
                files.replace(*os.path.split(target), _text(entries))

    def all(self) -> dict[str, bool]:
        """Every decision, by the folder it was made for."""
        return {path: found for path, found in self._read().entries.items() if found is not None}

    def _read(self) -> _Written:
        """The original pi writes into the file as it is: what looks damaged may only be half written."""
        found = self._read_once()
        for pause in range(round(_GLANCE / _PAUSE)):
            if not found.trouble or (pause and not os.path.isdir(self._lock)):
                break
            time.sleep(_PAUSE)
            found = self._read_once()
        return found

    def _read_once(self) -> _Written:
        source = config.as_typed(self.path)
        if doubt := strangers.doubt(self.path):
            return _Written({}, f"{source} is not used: {doubt.why}; {doubt.advice}")
        try:
            with open(self.path, "rb") as file:
                data = file.read()
        except (FileNotFoundError, NotADirectoryError):
            return _Written({})
        except OSError as error:
            return _Written({}, f"{source} cannot be read: {error.strerror or error}")
        import json

        try:
            entries = json.loads(data.decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            at = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
            return _Written({}, f"{source} is damaged{at}: it is no JSON")
        if not isinstance(entries, dict):
            return _Written({}, f"{source} is damaged: it holds no object")
        for path, value in entries.items():
            if value is not None and not isinstance(value, bool):
                what = f"the value of {path!r:.100} is neither true, false nor null"
                return _Written({}, f"{source} is damaged: {what}")
        return _Written(entries)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """The lock of the original pi, a folder; and one of the kernel's around it. The folder alone would
        not do: of two who find it forgotten, the second may remove what the first has just made."""
        with files.told(NotSaved, self.path):
            files.make_folder(self._home)
            home = os.open(self._home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                deadline = time.monotonic() + _PATIENCE
                while not (_is_first(home) and self._make_lock()):
                    if time.monotonic() >= deadline:
                        raise PerdureError(
                            f"{config.as_typed(self.path)} is being written by another process",
                            f"try again; if there is none, remove {config.as_typed(self._lock)}",
                        )
                    time.sleep(_PAUSE)
                try:
                    yield
                finally:
                    try:
                        os.rmdir(self._lock)
                    except OSError:
                        pass  # then it was taken for forgotten
            finally:
                os.close(home)

    def _make_lock(self) -> bool:
        try:
            if time.time() - os.lstat(self._lock).st_mtime > _STALE:
                os.rmdir(self._lock)
        except FileNotFoundError:
            pass
        try:
            os.mkdir(self._lock, 0o700)
        except FileExistsError:
            return False
        return True


def _is_first(home: int) -> bool:
    """Of our own processes."""
    try:
        return try_to_lock(home)
    except OSError:
        return True  # a disk without such locks: the original pi's has to do


def _text(entries: dict[str, bool | None]) -> bytes:
    """As JavaScript writes it: names in the order of their UTF-16, and what is no character escaped."""
    import json

    ordered = sorted(entries.items(), key=lambda entry: entry[0].encode("utf-16-be", "surrogatepass"))
    text = json.dumps(dict(ordered), indent=2, ensure_ascii=False)
    return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text).encode() + b"\n"
