"""Being another user for a while: what a test does in a process of its own, under another user's id."""

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure.testing.durable import process
from tests.needs import needs

ROOT, USER, OTHER = 0, 65534, 65533
GROUP = 60000
"""One that both users may be in."""
needs_root = needs("root", given=hasattr(os, "geteuid") and os.geteuid() == 0)


@contextmanager
def home_of_user() -> Iterator[Path]:
    """An empty home of USER's; not pytest's, which only its owner may enter."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name, "home")
        place.mkdir(0o700)
        os.chown(place, USER, USER)
        os.chmod(name, 0o755)
        yield place


def become(uid: int, *groups: int) -> None:
    os.setgroups(groups)
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def act(uid: int, work: Callable[[], object], *groups: int) -> None:
    """In a process of that user's, which must end well."""

    def as_user() -> None:
        become(uid, *groups)
        work()

    with process(as_user):
        pass


def owners(folder: Path) -> set[tuple[int, int]]:
    """The users and groups that anything in a folder belongs to, and the folder itself."""
    return {(found.st_uid, found.st_gid) for found in (each.lstat() for each in (folder, *folder.rglob("*")))}


def modes(folder: Path) -> set[tuple[str, int]]:
    return {
        ("folder" if each.is_dir() else "file", stat.S_IMODE(each.lstat().st_mode))
        for each in folder.rglob("*")
    }
