"""Which file is the ledger of a project. A ledger names the root of its project in a comment line:

    <home>/decisions/app.md             the first project of that name
    <home>/decisions/app-3f9a1c.md      the next one

    <!-- project root: /home/me/work/app -->

The last such line counts. A ledger without one is older than these lines, or somebody else's; one whose root
is gone may be that of a project that was moved. Whose these are only their user can say: until then they are
not written to.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import urllib.parse
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from perdure.errors import PerdureError, UsageError
from perdure.session.projects import Project
from perdure.session.stores import files

FOLDER, EXTENSION = "decisions", ".md"
LARGEST = 2**24
"""Bytes of a ledger that is read."""

OWN, UNCLAIMED, MOVED, OTHERS = "own", "unclaimed", "moved", "others"
"""Whose a ledger is: the project's (or it can be made), perhaps the project's (it names no root, or one that
is gone), or that of another project of the same name."""

_COMMENT = re.compile(rb"^<!-- project root: (.+?) -->[ \t]*\r?$", re.MULTILINE)
_SAYS_SOMETHING = re.compile(rb"^(?:\xef\xbb\xbf)?(?:#+|[-*+])[ \t]+[^\s\0]", re.MULTILINE)
"""A heading, or a decision."""
_LONGEST_NAME = 200
_LONGEST_STEM = _LONGEST_NAME + len("-3f9a1c")
_NO_NAME = re.compile("[/\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


SessionPlace: TypeAlias = tuple[str, str, str]
"""What a session says of its project: the root, the directory, the name."""


class LedgerFile(NamedTuple):
    stem: str
    """Its name without the extension."""
    root: str
    """Of its project; empty where it names none, or cannot be read."""
    is_readable: bool = True
    former: tuple[str, ...] = ()
    """The roots that it named before: its project was moved."""

    @property
    def project(self) -> str:
        """The name of its project."""
        return os.path.basename(self.root) or self.stem


def comment(root: str) -> bytes:
    """The line that names a root. Whatever the path is, it is one line, and does not end the comment."""
    kept = "".join(
        each if each.isprintable() and each not in "%>" else urllib.parse.quote(os.fsencode(each))
        for each in root
    )
    return f"<!-- project root: {kept} -->\n".encode()


def roots_in(data: bytes) -> list[str]:
    """The roots that a ledger names: the last one is its project's."""
    return [os.fsdecode(urllib.parse.unquote_to_bytes(each)) for each in _COMMENT.findall(data)]


def moved(home: str) -> dict[str, str]:
    """Where projects are that were elsewhere, by their former roots, as far as nothing is there now."""
    return {
        former: file.root
        for file in ledger_files(home)
        for former in file.former
        if former != file.root and not os.path.isdir(former)
    }


def places_of(project: Project, places: Iterable[SessionPlace], home: str) -> list[SessionPlace]:
    """Those that are the project's: sessions follow a project that was moved."""
    former = {before for before, now in moved(home).items() if now == project.root}
    return [
        (root, cwd, name)
        for root, cwd, name in places
        if project.has(root, cwd, name) or (root or cwd) in former
    ]


def ledger_files(home: str) -> Iterator[LedgerFile]:
    """All ledgers of a home, by name."""
    for name in sorted(files.names(home, FOLDER)):
        if name.endswith(EXTENSION):
            with contextlib.suppress(UsageError):
                stem = check_project(name.removesuffix(EXTENSION), _LONGEST_STEM)
                if found := _look(home, stem):
                    yield found


def find(home: str, project: Project) -> tuple[str, str]:
    """The stem of the project's ledger, also of one that is not there yet, and whose it is."""
    there = {each.stem: each for each in ledger_files(home)}
    if not project.root:
        same = there.get(project.name)
        return project.name, OTHERS if same and same.root else OWN
    for each in there.values():
        if each.root == project.root:
            return each.stem, OWN
    same = there.get(project.name)
    if same is None or not same.is_readable:
        moved = [each for each in there.values() if _is_moved(each, project)]
        return (moved[0].stem, MOVED) if moved else (project.name, OWN)
    if not same.root:
        return same.stem, UNCLAIMED
    moved = [each for each in (same, *there.values()) if _is_moved(each, project)]
    return (moved[0].stem, MOVED) if moved else (another_stem(project), OWN)


def another_stem(project: Project) -> str:
    """For a project whose name is taken by the ledger of another one."""
    return f"{project.name}-{hashlib.sha256(os.fsencode(project.root)).hexdigest()[:6]}"


def _is_moved(file: LedgerFile, project: Project) -> bool:
    return bool(file.root) and file.project == project.name and not os.path.isdir(file.root)


def _look(home: str, stem: str) -> LedgerFile | None:
    """A file that cannot be read names no root; a folder or a link is none."""
    relative = os.path.join(FOLDER, stem + EXTENSION)
    try:
        there = files.status(home, relative)
        if there is None or not stat.S_ISREG(there.st_mode):
            return None
        with files.open_to_read(home, relative) as file:
            size = os.fstat(file.fileno()).st_size
            data = files.read_all(file.fileno(), size) if size <= LARGEST else b"\0"
    except (OSError, PerdureError):
        return LedgerFile(stem, "", is_readable=False)
    *former, root = roots_in(data) or [""]
    return LedgerFile(stem, root, is_text(data), tuple(former))


def is_text(data: bytes) -> bool:
    """False for what is no ledger at all: a text in another encoding, or no text. A ledger in which some
    bytes are wrong is one."""
    with contextlib.suppress(UnicodeDecodeError):
        data.decode("utf-8-sig")
        if b"\0" not in data:
            return True
    return _SAYS_SOMETHING.search(data.replace(b"\r", b"\n")) is not None


def check_project(name: str, longest: int = _LONGEST_NAME) -> str:
    """The name itself, if a ledger can have it: it becomes that of a file, and leads nowhere else."""
    if not name.strip() or name == "." or ".." in name or _NO_NAME.search(name):
        what = "a name has no / or \\ in it, no .. and no control characters"
    elif len(name.encode()) > longest:
        what = f"a name has at most {longest} bytes"
    else:
        return name
    shown = name if len(name) <= 60 else name[:57] + "..."
    raise UsageError(f"Not a name that a project's ledger can have: {shown!r}", what)
