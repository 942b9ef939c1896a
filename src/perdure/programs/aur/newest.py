"""Which session `aur spawn --resume` means without an id: the one that was used last.

Those of this directory come first; the others count only where this directory has none. A session in which
nothing was said, or that cannot be read, is not resumed by itself.
"""

from __future__ import annotations

from typing import NamedTuple

from perdure import config
from perdure.errors import PerdureError
from perdure.front.output import Output
from perdure.programs.aur.listing import home
from perdure.session.catalog import Catalog, Scope


class Newest(NamedTuple):
    path: str
    """Of its file, by which it is found."""
    among: str
    """Whose newest it is, to be shown."""


def find_newest(cwd: str, out: Output) -> Newest:
    everywhere, here = Scope((home(),)), Scope((home(),), cwd)
    with Catalog() as catalog:
        with out.progress("Reading sessions") as progress:
            problems = catalog.catch_up(everywhere, progress.update)
        for scope, among in ((here, "the newest of this directory"), (everywhere, "the newest of all")):
            for row in catalog.rows(scope):
                if row.turns != 0 and row.lock:
                    return Newest(row.path, among)
    where = config.as_typed(home().sessions)
    raise PerdureError(
        problems[0] if problems else f"No session to resume in {where}", "`aur spawn` begins one"
    )
