"""`rename`: a name for a session, where its layout has one."""

from __future__ import annotations

from types import SimpleNamespace

from perdure.errors import UsageError
from perdure.front.output import Output, Styled
from perdure.session import reference, tree
from perdure.session.session import Session

_WAIT = 1.0  # seconds: a save is over by then, a conversation is not


def rename(options: SimpleNamespace, out: Output) -> int:
    name = " ".join(" ".join(options.name).split())
    store, ref = reference.find(options.id)
    called = reference.name_of(store, ref)
    with Session.open(store, ref, wait=_WAIT) as session:
        session.refuse_if_nameless()
        header = session.header
        title = header.facts.get("title") or ""
        before = tree.name(session.entries[header.covers :]) or title or session.name
        if not name and title and before == title:  # which its header says, and no entry can take away
            raise UsageError(f"{called} would still be called {title!r}", "give it another name")
        if name != before:
            session.rename(name)
    if out.json:
        out.data([{"program": store.name, "id": ref.id, "path": ref.path, "name": name, "before": before}])
    elif name:
        out.line(Styled(called, "bold"), f" is called {name}")
    else:
        out.line(Styled(called, "bold"), " has no name now")
    return 0
