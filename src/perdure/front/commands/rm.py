"""`rm`: sessions go to the trash, and each line says how one comes back.

All names are looked up before the first session is touched: a wrong one among them deletes nothing.
"""

from __future__ import annotations

import shlex
from collections import Counter
from types import SimpleNamespace

from perdure.errors import Held, PerdureError
from perdure.front.output import Copyable, Output, Styled
from perdure.front.visible import fit, one_line
from perdure.session import reference, summary
from perdure.session.reference import Deleted
from perdure.session.stores.file_store import FileStore

_TITLE = 40  # columns of a title at a terminal: what brings it back matters more


def rm(options: SimpleNamespace, out: Output) -> int:
    facts = []
    code = 0
    chosen = reference.find_all(options.ids)
    names = Counter(reference.name_of(store, ref) for store, ref in chosen)
    for store, ref in chosen:
        name = reference.name_of(store, ref)
        assert isinstance(store, FileStore)
        try:
            gone = reference.called(store, store.delete(ref, summary.title_of(store, ref)))
        except PerdureError as error:
            out.failed(_explained(error, name))
            code = max(code, error.exit_code)
            continue
        if names[name] > 1 and gone.path:  # soon there are several of that name
            gone = gone._replace(reference=gone.path)
        facts.append(gone.facts)
        if not out.json:
            _tell(gone, out)
    if out.json:
        out.data(facts)
    return code


def _tell(gone: Deleted, out: Output) -> None:
    back = f"{out.program} sessions restore {shlex.quote(gone.reference)}"
    name, title = f"{gone.store.name}:{gone.trashed.id}", one_line(gone.trashed.title)
    title = fit(title, _TITLE) if out.is_terminal else title
    out.line("Deleted ", Styled(name, "bold"), f" ({title})" if title else "", "; restore: ", Copyable(back))
    out.flush()


def _explained(error: PerdureError, name: str) -> PerdureError:
    """Whoever deletes a session does not want to go on in it."""
    if not isinstance(error, Held):
        return error
    holder = f"process {error.pid}" if error.pid else "another process"
    return PerdureError(
        f"{name} was not deleted: {holder} is talking in it", "it can be deleted when that has ended"
    )
