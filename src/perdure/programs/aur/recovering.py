"""`aur spawn --recover`: every good line of a session is kept, and the file as it was stays beside it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from types import SimpleNamespace

from perdure import config
from perdure.errors import Held
from perdure.front.amounts import counted
from perdure.front.output import Copyable, Output, Styled
from perdure.front.visible import one_line
from perdure.programs.aur.listing import home
from perdure.session import doctor, reference
from perdure.session.findings import how_many
from perdure.session.stores import Found, Store

_MOST_SHOWN = 10


def recover(options: SimpleNamespace, out: Output) -> int:
    store, ref = reference.find(options.recover, [home()])
    before = doctor.examine(store, ref)
    if mend(store, ref, out):
        for line in shown(before.findings):
            out.note(Styled(line, "yellow"))
        out.line(Copyable(f"Resume: aur spawn --resume {shlex.quote(ref.id)}"))
    return 0


def shown(problems: Sequence[str]) -> list[str]:
    """Of very many the first, and how many more there are."""
    more = how_many(problems) - _MOST_SHOWN
    return [*map(one_line, problems[:_MOST_SHOWN]), *([f"… and {more:,} more"] if more > 0 else [])]


def mend(store: Store, ref: Found, out: Output) -> bool:
    """Whether there was something to do."""
    try:
        repaired = doctor.repair(store, ref)
    except Held as held:
        held.hint = "it can be recovered when that has ended"
        raise
    name = one_line(ref.id)
    if repaired is None:
        out.line(f"Nothing is damaged in session {name}.")
        return False
    aside = one_line(config.as_typed(repaired.aside) if out.is_terminal else repaired.aside)
    kept = counted(repaired.entries, "good line")
    out.line("Recovered session ", Styled(name, "bold"), f": {kept} kept; the file as it was: {aside}")
    return True
