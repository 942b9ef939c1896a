"""Files in Sibyl's layout, made by hand, and a store to put them in."""

from pathlib import Path
from typing import Any

from perdure.session import sexp
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
