"""The ledger: everything that was decided in a project, in a Markdown file that people read and edit.

    # Decision Ledger: api-server

    <!-- project root: /home/me/api-server -->

    - [2026-01-31 09:05] [Manual] [db] Use SQLite.

    <home>/decisions/<name>.md      <home>/locks/decisions/<name>.lock      (see `ledger_files`)

It only grows: what people wrote stays, byte for byte, and what is added is there as a whole, on disk, or not
at all. It is the word on what was decided: who corrects a line, or takes one out, has the last word. Sessions
hold the same decisions, and know which of them have come here: what did not, because a process was killed or
the disk was full, is added later.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from typing import NamedTuple

from perdure.errors import Held, NotSaved, Unreadable
from perdure.programs.soleur.decisions import AUTO, MANUAL, Decision, likeness, one_line, withdrawn_at
from perdure.session import ids
from perdure.session.projects import Project
from perdure.session.stores import files, ledger_files
from perdure.session.stores.ledger_files import (
    EXTENSION,
    FOLDER,
    LARGEST,
    MOVED,
    OWN,
    check_project,
    comment,
)
from perdure.session.stores.lock import Lock
from perdure.session.stores.log import AppendLog

_PATIENCE = 5.0
"""Seconds. A line is added in far less: who holds the lock for so long is stuck."""
_HEADING = "# Decision Ledger: {}\n\n"
_WITHDRAWN = "<!-- withdrawn: {} {} -->\n"
_WITHDRAWAL = re.compile(rb"^<!-- withdrawn: ([0-9a-f]{16}) ([0-9TZ:.-]+) -->", re.MULTILINE)
"""A decision, by its digest, and when it was withdrawn: its text is gone from the ledger."""
_SOURCES = {MANUAL: "Manual", AUTO: "Auto"}
_LINE = re.compile(
    r"[-*+][ \t]+"
    r"(?:\[(?P<stamp>\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d)?)\][ \t]*)?"
    r"(?:\[(?P<source>(?i:Manual|Auto(?:Detected)?))\][ \t]*(?:\[(?P<tags>[^\[\]]*)\](?!\()[ \t]*)?)?"
    r"(?P<text>.*)",
    re.ASCII,
)
_NO_TEXT = re.compile(r"[-*_ \t]*|\[[^\]]*")
"""A rule across the page, or what is left of a line that was not written to its end."""


class Line(NamedTuple):
    stamp: str
    """2026-01-31 09:05, in UTC; empty if its author wrote none."""
    source: str
    tags: tuple[str, ...]
    text: str

    @property
    def likeness(self) -> str:
        return likeness(self.text)

    @property
    def timestamp(self) -> str:
        """The same as sessions have it; a day is that day."""
        moment = ids.moment(self.stamp)
        return "" if moment is None else ids.stamp(moment) if " " in self.stamp else self.stamp


class Known(NamedTuple):
    """A decision of a project, whoever knows of it."""

    content: str
    timestamp: str
    """As exact as is known; empty if nobody knows."""
    session_id: str
    """Empty if it is in the ledger alone."""
    tags: tuple[str, ...]
    source: str
    project: str
    project_root: str
    withdrawn: str = ""
    """When it was withdrawn; empty while it is in force."""


class Ledger:
    def __init__(self, home: str, project: Project) -> None:
        check_project(project.name)
        self.project = project
        self._home = home
        self._is_stuck = False
        """Whether it was waited for in vain: who has held it for so long is not waited for again."""
        self._look()

    def _look(self) -> None:
        self.stem, self.whose = ledger_files.find(self._home, self.project)
        self._relative = os.path.join(FOLDER, self.stem + EXTENSION)
        self.path = os.path.join(self._home, self._relative)

    @property
    def is_own(self) -> bool:
        """True if it is the project's, and so is written to."""
        return self.whose == OWN

    @property
    def last_look(self) -> int | None:
        """When sessions were last looked at for what is missing here, in nanoseconds; None if there is no
        such file. A process that writes here looks first, and takes the lock; who edits the file by hand does
        neither."""
        try:
            there = files.status(self._home, self._relative)
            lock = files.status(self._home, self._lock_place)
        except OSError:
            return 0  # nobody knows
        return min(each.st_mtime_ns for each in (there, lock) if each) if there else None

    def read(self) -> list[Line] | None:
        """None if there is no such file, or it is that of a project whose root is gone."""
        try:
            with files.open_to_read(self._home, self._relative) as file, files.told(Unreadable, self.path):
                data = self._bytes(file.fileno())
        except Unreadable as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise
        return None if self.whose == MOVED else _lines(data)

    def add(self, decisions: Sequence[Decision]) -> int:
        """Write those of the decisions that are not here yet, and say how many these were. Nothing is written
        to a ledger that may be another project's."""
        wanted = [each for each in decisions if one_line(each.content)]
        while wanted and self.is_own:
            stem = self.stem
            with self._lock() as lock, files.told(NotSaved, self.path):
                self._look()  # another project of that name may have made one meanwhile
                if self.stem != stem or not self.is_own:
                    continue
                if files.status(self._home, self._relative) is not None:
                    return self._append(lock, wanted)
                missing = _missing([], wanted)
                self._create(missing)
                return len(missing)
        return 0

    def claim(self) -> None:
        """The ledger is this project's from now on: its user has said so."""
        with (
            self._lock() as lock,
            files.told(NotSaved, self.path),
            self._keeping_time(),
            contextlib.closing(AppendLog(self._home, self._relative, lock, "power")) as log,
        ):
            log.append(comment(self.project.root))
        self._look()

    def leave(self, decisions: Sequence[Decision]) -> None:
        """The ledger is another project's: this one has its own, which is made now with these decisions, so
        that nobody is asked again."""
        self.stem = ledger_files.another_stem(self.project)
        self._relative = os.path.join(FOLDER, self.stem + EXTENSION)
        self.path = os.path.join(self._home, self._relative)
        with self._lock(), files.told(NotSaved, self.path):
            if files.status(self._home, self._relative) is None:
                self._create(_missing([], [each for each in decisions if one_line(each.content)]))
        self._look()

    def remove(self, content: str) -> str:
        """Take the lines of this decision out, and return where the file as it was is then: empty if none of
        its lines is that. That it was withdrawn is noted, so that no session brings it here again."""
        self.check_removable(content)
        if not self.is_own:
            return ""  # it is in sessions alone
        like = likeness(content)
        with self._lock(), files.told(NotSaved, self.path), self._keeping_time():
            if files.status(self._home, self._relative) is None:
                return ""
            with files.open_to_read(self._home, self._relative) as file:
                data = self._bytes(file.fileno())
            lines = data.splitlines(keepends=True)
            kept = [each for each in lines if not _says(each, like)]
            note = _WITHDRAWN.format(_digest(like), ids.stamp(ids.now())).encode()
            seal = [b"\n"] if kept and not kept[-1].endswith((b"\n", b"\r")) else []
            is_there = len(kept) < len(lines)
            aside = files.set_aside(self._home, self._relative, "before") if is_there else ""
            files.replace(self._home, self._relative, b"".join([*kept, *seal, note]))
            return os.path.join(self._home, aside) if is_there else ""

    def check_removable(self, content: str) -> None:
        """Raise if lines of this decision are in a ledger that may be another project's."""
        like = likeness(content)
        if not self.is_own and any(line.likeness == like for line in self.read() or ()):
            what = "it may be another project's; at a terminal, `soleur` asks whose it is"
            raise NotSaved(self.path, what)

    def set_aside_if_unreadable(self) -> str:
        """Move a ledger that cannot be read out of the way, and return where it is then; empty where it can
        be read, or is no file."""
        if not self.is_own or not self._is_unreadable():
            return ""
        with self._lock(), files.told(NotSaved, self.path):
            if not self._is_unreadable():
                return ""
            aside = files.set_aside(self._home, self._relative, "damaged")
            with files.folder_of(self._home, self._relative) as (folder, name):
                os.unlink(name, dir_fd=folder)
                files.sync_names(folder)
            return os.path.join(self._home, aside)

    def _is_unreadable(self) -> bool:
        try:
            self.read()
            return False
        except Unreadable:
            with files.told(NotSaved, self.path):
                there = files.status(self._home, self._relative)
            return there is not None and stat.S_ISREG(there.st_mode)

    @contextlib.contextmanager
    def _keeping_time(self) -> Iterator[None]:
        """What is written meanwhile does not change the ledger's time. By that `Notebook.file` knows which
        sessions were looked at for decisions that are missing here, and who writes this has not looked."""
        before = files.status(self._home, self._relative)
        yield
        if before is not None:
            with files.folder_of(self._home, self._relative) as (folder, name):
                os.utime(name, ns=(before.st_atime_ns, before.st_mtime_ns), dir_fd=folder)

    def _create(self, lines: Sequence[bytes]) -> None:
        files.new_folder(self._home, FOLDER)
        files.create(self._home, self._relative, b"".join([*self._heading(), *lines]))

    def _heading(self) -> list[bytes]:
        named = [comment(self.project.root), b"\n"] if self.project.root else []
        return [_HEADING.format(self.project.name).encode(), *named]

    def _append(self, lock: Lock, wanted: Sequence[Decision]) -> int:
        with contextlib.closing(AppendLog(self._home, self._relative, lock, "power")) as log:
            data = self._bytes(log.fileno())
            torn = _torn(data, wanted)
            missing = _missing(_lines(data.removesuffix(torn)), _not_withdrawn(data, wanted))
            if not missing:
                log.sync()  # all is there, perhaps from a process that died before it had synced it
                return 0
            missing.sort(key=lambda line: not line.startswith(torn))
            if torn and missing[0].startswith(torn):
                os.ftruncate(log.fileno(), len(data) - len(torn))  # and now all of it, in the same place
                log.refresh()
            heading = [] if data.strip() else self._heading()
            log.append(b"".join([*heading, *missing]))
            return len(missing)

    @property
    def _lock_place(self) -> str:
        return os.path.join("locks", FOLDER, f"{self.stem}.lock")

    def _lock(self) -> Lock:
        try:
            lock = Lock(self._home, self._lock_place, self.stem, 0.0 if self._is_stuck else _PATIENCE)
        except Held as error:
            self._is_stuck = True
            who = f"process {error.pid}" if error.pid else "another process"
            raise NotSaved(self.path, f"{who} is writing to it") from None
        self._is_stuck = False
        return lock

    def _bytes(self, descriptor: int) -> bytes:
        size = os.fstat(descriptor).st_size
        if size > LARGEST:
            what = f"it has {size >> 20} MB, and more than {LARGEST >> 20} are not read"
            raise Unreadable(self.path, what)
        data = files.read_all(descriptor, size)
        if not ledger_files.is_text(data):
            raise Unreadable(self.path, "it is not text in UTF-8")
        return data


def known(
    lines: Sequence[Line] | None, decisions: Sequence[Decision], missed: Sequence[Decision], project: Project
) -> list[Known]:
    """All that was decided, each once: what the ledger says, in its order, then what it `missed`, which is
    everything if there is none. By the decisions it is known in which session each was made."""
    missed, lines = (decisions, ()) if lines is None else (missed, lines)
    owners = _paired(lines, decisions)
    left = {likeness(each.content): each for each in reversed(missed)}
    found: dict[str, Known] = {}
    for number, line in enumerate(lines):
        owner = owners.get(number)
        said = owner if owner and not line.stamp else line  # such a line was written by hand, and says less
        found.setdefault(
            line.likeness,
            Known(
                line.text,
                owner.timestamp if owner else line.timestamp,
                owner.session_id if owner else "",
                said.tags,
                said.source,
                *project,
            ),
        )
    for like, each in reversed(left.items()):
        found.setdefault(
            like, Known(each.content, each.timestamp, each.session_id, each.tags, each.source, *project)
        )
    return [*found.values()]


def withdrawn(
    known: Iterable[Known], decisions: Iterable[Decision], withdrawals: Mapping[str, str], project: Project
) -> list[Known]:
    """Decisions that were withdrawn and are not known again, each once, in the order they were made."""
    seen = {likeness(each.content) for each in known}
    found: dict[str, Known] = {}
    for each in sorted(decisions, key=lambda each: each.timestamp):
        like = likeness(each.content)
        if like not in seen and (when := withdrawn_at(each, withdrawals)):
            said = each.content, each.timestamp, each.session_id, each.tags, each.source
            found[like] = Known(*said, *project, when)
    return [*found.values()]


# --- lines --------------------------------------------------------------------------------------------------


def _lines(data: bytes) -> list[Line]:
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")
    return [line for each in text.split("\n") if (line := _line(each))]


def _line(text: str) -> Line | None:
    found = _LINE.fullmatch(text)
    said = found["text"].strip() if found else ""
    if not found or not said or (found["tags"] is None and _NO_TEXT.fullmatch(said)):
        return None
    tags = [tag.strip() for tag in (found["tags"] or "").split(",")]
    source = AUTO if (found["source"] or "").lower().startswith("auto") else MANUAL
    stamp = (found["stamp"] or "").replace("T", " ")
    return Line(stamp, source, tuple(filter(None, tags)), said)


def _says(raw: bytes, like: str) -> bool:
    line = _line(raw.decode("utf-8-sig", "replace").rstrip("\r\n"))
    return line is not None and line.likeness == like


def _digest(like: str) -> str:
    return hashlib.sha256(like.encode()).hexdigest()[:16]


def _not_withdrawn(data: bytes, wanted: Iterable[Decision]) -> list[Decision]:
    """Those that were not withdrawn since they were made, as far as the ledger notes it."""
    noted = {digest.decode(): when.decode() for digest, when in _WITHDRAWAL.findall(data)}
    return [
        each
        for each in wanted
        if (when := noted.get(_digest(likeness(each.content)))) is None or when < each.timestamp
    ]


def _written(decision: Decision) -> bytes:
    text = one_line(decision.content)
    tags = ", ".join(filter(None, map(_tag, decision.tags)))
    stamp = _stamp(decision.timestamp)
    parts = [
        *([f"[{stamp}]"] if stamp else []),
        f"[{_SOURCES.get(decision.source, MANUAL)}]",
        # A text that begins with a bracket must not be read as tags, nor a rule as no text at all.
        *([f"[{tags}]"] if tags or _NO_TEXT.fullmatch(text) or text.startswith("[") else []),
        text,
    ]
    return f"- {' '.join(parts)}\n".encode()


def _tag(text: str) -> str:
    return one_line(re.sub(r"[\[\],]", " ", text))


def _stamp(timestamp: str) -> str:
    moment = ids.moment(timestamp)
    try:
        return moment.astimezone(UTC).isoformat(" ", "minutes")[:16] if moment else ""
    except OverflowError:
        return ""


# --- which are here already ---------------------------------------------------------------------------------


def _missing(lines: Sequence[Line], wanted: Iterable[Decision]) -> list[bytes]:
    seen = {line.likeness for line in lines}
    found: dict[str, bytes] = {}
    for each in wanted:
        if (like := likeness(each.content)) not in seen:
            found.setdefault(like, _written(each))
    return [*found.values()]


def _paired(lines: Sequence[Line], decisions: Iterable[Decision]) -> dict[int, Decision]:
    """Whose each line is, by its number: of decisions that are alike, that of the same minute and source. A
    line that is like nothing is an edited one, of a decision of the same minute and source that has no other:
    lines and decisions are in the same order."""
    numbers: dict[str, int] = {}
    for number, line in enumerate(lines):
        numbers.setdefault(line.likeness, number)
    owners: dict[int, Decision] = {}
    left: dict[str, Decision] = {}
    for decision in decisions:
        like = likeness(decision.content)
        if like not in numbers:
            left.setdefault(like, decision)
            continue
        number = numbers[like]
        if number not in owners or _fits(lines[number], decision) > _fits(lines[number], owners[number]):
            owners[number] = decision
    edited: dict[tuple[str, str], deque[int]] = {}
    for number in sorted(set(numbers.values()) - owners.keys()):
        edited.setdefault((lines[number].stamp, lines[number].source), deque()).append(number)
    for decision in left.values():
        stamp = _stamp(decision.timestamp)
        if stamp and (free := edited.get((stamp, decision.source))):
            owners[free.popleft()] = decision
    return owners


def _fits(line: Line, decision: Decision) -> bool:
    return (line.stamp, line.source) == (_stamp(decision.timestamp), decision.source)


def _torn(data: bytes, wanted: Iterable[Decision]) -> bytes:
    """The beginning of one of these at the end of a ledger, in the middle of a word: its process was killed
    while it wrote. Who edits a file does not leave just that. What ends with a word may be somebody's line,
    and stays as one."""
    tail = data[data.rfind(b"\n") + 1 :]
    lines = [_written(each) for each in wanted] if len(tail) > len(b"- [") else []
    says_something = _line(tail.decode("utf-8", "replace")) is not None
    for line in lines:
        ends_with_a_word = line[len(tail) :][:1].isspace()
        if line.startswith(tail) and not (says_something and ends_with_a_word):
            return tail
    return b""
