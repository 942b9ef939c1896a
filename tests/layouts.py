"""Every layout on disk, as tests open one: a store in an empty folder, and where its golden files are."""

from pathlib import Path

from perdure.session import tree
from perdure.session.layouts import LAYOUTS
from perdure.session.stores import Durability, Found, Store, open_store

GOLDEN = Path(__file__).parent / "golden"
ALL = list(LAYOUTS)


def store_of(layout: str, home: Path | str, durability: Durability = "process") -> Store:
    """Cortext's home is a workspace, which is there before anything is kept in it."""
    if (marker := LAYOUTS[layout].marker) and not Path(home, marker).is_dir():
        Path(home, marker).mkdir(parents=True, exist_ok=True)
    return open_store(layout, str(home), durability=durability)


class Seen:
    """A session as its readers see it."""

    def __init__(self, store: Store, ref: Found) -> None:
        page = store.read(ref)
        folded = tree.fold(page.entries)
        self.header = page.header
        self.entries = folded.entries
        self.ids = [entry.id for entry in folded.entries]
        self.path = [entry.text for entry in tree.path(folded.entries, folded.ends.head)]
        self.lines = [problem.line for problem in page.problems]
        self.reasons = [problem.reason for problem in page.problems]
        self.notices = folded.notices


def tree_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder but the locks, which say only who was there."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".lock"
    }
