"""Files in Sibyl's layout, made by hand, and a store to put them in."""

from pathlib import Path
from typing import Any

from perdure.session import sexp, tree
from perdure.session.stores import Found
from perdure.session.stores.sibyl_sexp import SibylStore

GOLDEN = Path(__file__).parent / "golden" / "sibyl"
WHOLE = sorted(GOLDEN.glob("*.lisp"))
DAMAGED = sorted((GOLDEN / "damaged").glob("*.lisp"))


def put(home: Path, data: bytes, id: str = "s1") -> tuple[SibylStore, Found]:
    """A store whose only session, unless there were others, is a file with `data` in it."""
    path = home / "sessions" / id / "session.lisp"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return store_in(home), Found(id, str(path))


def store_in(home: Path) -> SibylStore:
    return SibylStore(str(home), durability="process")


def read_form(text: str) -> Any:
    """The one form in a text."""
    return sexp.loads(text)


class Seen:
    """A session as its readers see it."""

    def __init__(self, store: SibylStore, ref: Found) -> None:
        page = store.read(ref)
        folded = tree.fold(page.entries)
        self.header = page.header
        self.entries = folded.entries
        self.ids = [entry.id for entry in folded.entries]
        self.path = [entry.text for entry in tree.path(folded.entries, folded.ends.head)]
        self.lines = [problem.line for problem in page.problems]
        self.reasons = [problem.reason for problem in page.problems]
        self.notices = folded.notices
