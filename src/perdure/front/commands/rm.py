"""`rm`: sessions go to the trash, and each line says how one comes back.

All names are looked up before the first session is touched: a wrong one among them deletes nothing.
"""

from __future__ import annotations

import shlex
from types import SimpleNamespace

from perdure.errors import PerdureError
from perdure.front.output import Output, Styled
from perdure.session import layouts, reference


def rm(options: SimpleNamespace, out: Output) -> int:
    gone: list[tuple[str, str]] = []
    code = 0
    for store, ref in reference.find_all(options.ids):
        try:
            store.delete(ref)
        except PerdureError as error:
            out.failed(error)
            code = max(code, error.exit_code)
        else:
            gone.append((store.name, ref.path))
    programs = {program for program, _ in gone}
    homes = [home for home in layouts.homes() if home.program in programs]
    deleted = reference.find_deleted([path for _, path in gone], homes)
    if out.json:
        out.data([each.facts for each in deleted])
        return code
    for each in deleted:
        back = f"{out.program} sessions restore {shlex.quote(each.reference)}"
        out.line("Deleted ", Styled(f"{each.store.name}:{each.trashed.id}", "bold"), f"; restore: {back}")
    return code
