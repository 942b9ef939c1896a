"""`aur spawn --delete-session` and `--clean-sessions`: to the trash, and each answer says how to get back."""

from __future__ import annotations

import re
import shlex
from types import SimpleNamespace

from perdure.errors import Held, PerdureError, UsageError
from perdure.front.amounts import counted
from perdure.front.output import Copyable, Output, Styled
from perdure.front.visible import one_line
from perdure.programs.aur.listing import home
from perdure.session import expiry, reference, summary
from perdure.session.stores import Found, Store
from perdure.session.stores.file_store import FileStore
from perdure.session.trash_note import Trashed

_DAYS = re.compile(r"[0-9]+(\.[0-9]+)?", re.ASCII)
_MOST_DAYS = 10.0**9
"""Nothing is that old: any more days are the same."""
_MOST_NAMED = 5


# --- one ---------------------------------------------------------------------------------------------------


def delete_session(options: SimpleNamespace, out: Output) -> int:
    store, ref = reference.find(options.delete_session, [home()])
    assert isinstance(store, FileStore)
    pid = store.holder(ref)
    if pid is not None:
        raise _held(Held(ref.id, pid))
    if not options.yes and not _is_agreed(ref.id, out):
        out.note("Nothing was deleted; --yes answers for you.")
        return 0
    delete(store, ref, out)
    return 0


def delete(store: Store, ref: Found, out: Output) -> None:
    assert isinstance(store, FileStore)
    try:
        gone = store.delete(ref, summary.title_of(store, ref))
    except Held as held:
        raise _held(held) from None
    out.line(
        "Deleted session ", Styled(one_line(ref.id), "bold"), "; restore: ", Copyable(_way_back(store, gone))
    )


def _is_agreed(id: str, out: Output) -> bool:
    """Who pipes nothing in has said it all; who ends the input at a terminal, or behind what is no answer,
    has not."""
    answer = out.ask(f"Delete session {one_line(id)}?")
    if answer is None:
        return not out.has_read and (out.stdin is None or not out.stdin.isatty())
    return answer


def _held(held: Held) -> Held:
    held.hint = "it can be deleted when that has ended"
    return held


def _way_back(store: FileStore, gone: Trashed) -> str:
    """By its id, if that means it and no other."""
    name = gone.id
    try:
        (meant,) = reference.find_deleted([name])
        is_meant = (meant.trashed.home, meant.trashed.folder) == (gone.home, gone.folder)
    except PerdureError:
        is_meant = False
    if not is_meant:
        name = reference.called(store, gone).reference
    return f"pi sessions restore {shlex.quote(name)}"


# --- all that are old --------------------------------------------------------------------------------------


def clean_sessions(options: SimpleNamespace, out: Output) -> int:
    days = _days(options.clean_sessions)
    with out.progress("Cleaning up sessions") as progress:
        done = expiry.clean(home(), days, progress=progress.update)
    older = f"older than {counted_days(days) if days < _MOST_DAYS else 'that'}"
    if done.removed:
        back = _ways_back(done.removed)
        out.line(f"Deleted {counted(len(done.removed), 'session')} {older}; restore: {back}")
    elif done.held or done.undated or done.damaged or done.problems:
        out.line("Deleted 0 sessions.")
    else:
        out.line(f"Deleted 0 sessions: none is {older}.")
    _note_kept(done.held, "a process is in", out)
    _note_kept(done.undated, "no age is known of", out)
    for sentence in (*done.damaged, *done.problems):
        out.note(Styled(one_line(sentence), "yellow"))
    if done.damaged:
        out.note("`aur spawn --recover ID` keeps every good line of a damaged session.")
    return 1 if done.problems else 0


def _ways_back(removed: list[Trashed]) -> str:
    if len(removed) == 1:
        return f"pi sessions restore {shlex.quote(removed[0].id)}"
    return "pi sessions restore ID, and `pi sessions trash` lists them"


def _note_kept(ids: list[str], why: str, out: Output) -> None:
    if ids:
        named = ", ".join(ids[:_MOST_NAMED]) + (", …" if len(ids) > _MOST_NAMED else "")
        out.note(one_line(f"Kept {counted(len(ids), 'session')} that {why}: {named}"))


def counted_days(days: float) -> str:
    return counted(int(days), "day") if days == int(days) else f"{days:g} days"


def _days(text: str) -> float:
    if not _DAYS.fullmatch(text):
        raise UsageError(
            f"--clean-sessions: {text[:40]!r} is not a number of days that is 0 or more",
            "as in --clean-sessions 30",
        )
    return min(float(text), _MOST_DAYS)
