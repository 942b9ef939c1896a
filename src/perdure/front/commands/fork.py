"""`fork`: a new session that shares another one's entries up to a point, so that both can go on."""

from __future__ import annotations

import shlex
from types import SimpleNamespace

from perdure.front.output import Copyable, Output, Styled
from perdure.session import reference
from perdure.session.session import Session


def fork(options: SimpleNamespace, out: Output) -> int:
    store, ref = reference.find(options.id)
    session = Session.view(store, ref)
    made = session.fork(options.at or None)
    called, new = reference.name_of(store, ref), reference.name_of(store, made)
    if session.problems:
        command = f"{out.program} sessions doctor {shlex.quote(called)}"
        out.note(f"{called} is damaged: the fork holds what could be read; `{command}` says what is wrong.")
    if out.json:
        out.data([{"program": store.name, "id": made.id, "path": made.path, "parent": called}])
    else:
        command = f"{out.program} sessions show {shlex.quote(new)}"
        out.line(f"Forked {called} as ", Styled(new, "bold"), "; show it: ", Copyable(command))
    return 0
