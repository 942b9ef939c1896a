"""`restore`: deleted sessions, back where they lay, under their own ids.

All names are looked up before the first session is moved: a wrong one among them restores nothing.
"""

from __future__ import annotations

from types import SimpleNamespace

from perdure.config import as_typed
from perdure.errors import PerdureError
from perdure.front.output import Output, Styled
from perdure.session import reference


def restore(options: SimpleNamespace, out: Output) -> int:
    back = []
    code = 0
    for gone in reference.find_deleted(options.ids):
        try:
            ref = gone.store.bring_back(gone.trashed)
        except PerdureError as error:
            out.failed(error)
            code = max(code, error.exit_code)
            continue
        back.append({"program": gone.store.name, "id": ref.id, "path": ref.path})
        if not out.json:
            place = as_typed(ref.path) if out.is_terminal else ref.path
            out.line("Restored ", Styled(f"{gone.store.name}:{ref.id}", "bold"), f": {place}")
    if out.json:
        out.data(back)
    return code
