"""`trash`: what was deleted in every home, the last first; and how it goes for good.

What goes is what was listed and asked about, whatever else is deleted meanwhile. With `--days`, what does not
say when it was deleted is never old enough. With what goes, the locks go of all sessions that are gone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from types import SimpleNamespace

from perdure.errors import PerdureError
from perdure.front.ages import ago, seconds
from perdure.front.amounts import counted, size
from perdure.front.output import Output, Styled
from perdure.front.table import table
from perdure.session import layouts, reference
from perdure.session.reference import Deleted
from perdure.session.stores import open_store
from perdure.session.stores.file_store import FileStore

_DAY = 24 * 60 * 60


def trash(options: SimpleNamespace, out: Output) -> int:
    problems: list[str] = []
    found = [each for each in reference.deleted(problems=problems) if _is_old(each, options.days)]
    for problem in problems:
        out.note(problem)
    if found and options.empty:
        return _empty(found, options, out)
    if options.empty:
        _remove_unused_locks()
    if out.json:
        out.data([each.facts for each in found])
    elif found:
        _list(found, out)
    else:
        out.note(_nothing(options))
    return 0


def _list(found: Sequence[Deleted], out: Output) -> None:
    rows = [
        (Styled(each.reference, "cyan"), each.trashed.title or "-", _when(each), size(each.trashed.size))
        for each in found
    ]
    table(out, ("ID", "TITLE", "DELETED", "SIZE"), rows, flexible=1, right=(3,))


def _empty(found: Sequence[Deleted], options: SimpleNamespace, out: Output) -> int:
    if not options.yes and not _is_agreed(found, out):
        out.note("Nothing was deleted; --yes answers for you.")
        found = []
    gone: list[Deleted] = []
    code = 0
    for store in {id(each.store): each.store for each in found}.values():
        try:
            gone += _removed(store, [each for each in found if each.store is store])
        except PerdureError as error:
            out.failed(error)
            code = max(code, error.exit_code)
    if found:
        _remove_unused_locks()
    if len(gone) < len(found) and not code:
        out.note(
            f"{counted(len(found) - len(gone), 'session')} could not be deleted and stayed in the trash."
        )
        code = 1
    if out.json:
        out.data([each.facts for each in gone])
    elif gone:
        out.line(f"Deleted {_told(gone)} for good.")
    return code


def _is_agreed(found: Sequence[Deleted], out: Output) -> bool:
    if not out.json:
        _list(found, out)
    return out.ask(f"Delete {_told(found)} for good?") is True


def _removed(store: FileStore, chosen: Sequence[Deleted]) -> list[Deleted]:
    """Those of the chosen that are gone now."""
    known = {each.trashed: each for each in chosen}
    return [known[gone] for gone in store.remove_for_good(known.__contains__)]


def _remove_unused_locks() -> None:
    """In every home, also where the trash is empty. What cannot be removed is left for the next time."""
    for home in layouts.homes():
        with suppress(PerdureError, OSError):
            layouts.refuse_strangers(home)
            store = open_store(*home)
            assert isinstance(store, FileStore)
            store.remove_unused_locks()


def _is_old(each: Deleted, days: int | None) -> bool:
    if days is None:
        return True
    deleted = seconds(each.trashed.deleted)
    return deleted is not None and time.time() - deleted >= days * _DAY


def _when(each: Deleted) -> str:
    return ago(seconds(each.trashed.deleted)) or "unknown"


def _told(found: Sequence[Deleted]) -> str:
    return f"{counted(len(found), 'session')}, {size(sum(each.trashed.size for each in found))},"


def _nothing(options: SimpleNamespace) -> str:
    return "The trash is empty." if options.days is None else "Nothing was deleted that long ago."
