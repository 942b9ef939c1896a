"""Sessions saved, loaded and listed, and saved by themselves every so often.

However a session is saved, it is under the one lock that its store keeps for it.
"""

from __future__ import annotations

import os
import shlex
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from perdure import config
from perdure.errors import InvalidId, NotSaved, PerdureError
from perdure.front.autosave import Timer
from perdure.programs.sibyl.conversation import conversation_of, entries_behind, is_empty
from perdure.session import ids
from perdure.session.entry import Entry
from perdure.session.layouts import home_of
from perdure.session.stores import Found, Header, Problem
from perdure.session.stores.sibyl_sexp import SibylStore
from perdure.session.stores.whole_file import Document

Directory = str | os.PathLike[str] | None
State = tuple[str, Iterable[Entry], str | None]
"""What is saved by itself: an id, the messages, and the summary of what came before them."""


def generate_session_id() -> str:
    """Local time and a number. Never the same twice."""
    return ids.sibyl_id()


def save_session(
    session_id: str, messages: Iterable[Entry], summary: str | None = None, *, directory: Directory = None
) -> None:
    """Save a conversation; what is there already stays, and what is new follows it.

    `summary` stands for what was said before the first of these messages. All is on disk when this returns.
    """
    given = list(messages)
    store = _store(directory)
    ref = _ref(store, session_id)
    if not os.path.lexists(ref.path):
        if not given and summary is None:
            return  # a session in which nothing was said leaves no file
        header = Header(ref.id, ids.stamp(ids.now()))
        try:
            store.create(header, entries_behind([], given, summary))
            return
        except NotSaved:
            if not os.path.lexists(ref.path):
                raise  # else another process was first, and this is one more save
    with store.writer(ref) as writer:
        writer.append(entries_behind(writer.catch_up().entries, given, summary))


def load_session(session_id: str, *, directory: Directory = None) -> tuple[list[Entry], str | None] | None:
    """All messages of a session, and the summary of its past; None, with a warning, if it is missing or
    damaged."""
    store = _store(directory)
    try:
        ref = _ref(store, session_id)
        if not os.path.lexists(ref.path):
            raise PerdureError(f"Session not found: {session_id}")
        document = store.parse(ref, store.bytes_of(ref))
        if document.refusal is not None:  # it can be read, and not saved to
            warnings.warn(document.refusal.message, stacklevel=2)
        elif problem := problem_of(document):
            remedy = remedy_of(document, ref.id, directory)
            raise PerdureError(f"Session {session_id} is damaged: {problem}; {remedy}")
    except PerdureError as error:
        warnings.warn(error.message, stacklevel=2)
        return None
    return conversation_of(document)


def problem_of(document: Document) -> Problem | None:
    """Why it cannot be loaded, if it cannot."""
    is_corrupt = document.is_damaged or (document.problems and not document.entries)
    return document.problems[0] if is_corrupt else None


def remedy_of(document: Document, session_id: str, directory: Directory) -> str:
    """For a damaged one. The doctor looks at homes, and a directory may be in none."""
    if not document.entries:
        return "nothing complete is in it"
    name = shlex.quote(f"sibyl:{session_id}")
    where = "" if directory is None else "in the folder `sessions` of a SIBYL_HOME "
    return f"{where}`pi sessions doctor --repair {name}` saves every complete message of it"


def list_sessions(*, directory: Directory = None) -> list[dict[str, Any]]:
    """Every session: `id`, `created_at`, `last_modified`, `message_count`, and `problem` if it has one."""
    return [
        {
            "id": row.id,
            "created_at": row.created_at,
            "last_modified": row.last_modified,
            "message_count": row.message_count,
            **({"problem": row.problem} if row.problem else {}),
        }
        for row in _store(directory).listing()
    ]


# --- by itself --------------------------------------------------------------------------------------

_timers: list[Timer] = []
"""The one that runs, last, and those before it that were stopped in the middle of a save."""
_timers_turn = threading.RLock()  # a signal that ends the program may come while its thread has this


def start_auto_save_timer(
    get_state: Callable[[], State], interval: float = 300.0, *, directory: Directory = None
) -> None:
    """Save what `get_state` returns, every `interval` seconds from now on, in a thread of its own; zero or
    less mean never. There is one timer: another that runs is stopped.

    A conversation in which nothing was said is not saved. A failure, of the disk or of `get_state`, is one
    warning, however long it lasts, and so is its end; meanwhile it is tried again at each interval.
    """
    folder = None if directory is None else folder_of(directory)  # which no `chdir` moves

    def save() -> bool | None:
        session_id, messages, summary = get_state()
        given = list(messages)
        if is_empty(given):
            return None
        save_session(session_id, given, summary, directory=folder)
        return True

    timer = Timer(interval, save, name="Auto-save", told=_warn)
    with _timers_turn:
        earlier = _timers.copy()
        _timers.append(timer)
    timer.start()
    _stop(earlier, 5.0)


def stop_auto_save_timer(timeout: float = 5.0) -> bool:
    """No save begins by itself any more. Whether none is under way either, after `timeout` seconds at most;
    one that is, is the last."""
    with _timers_turn:
        running = _timers.copy()
    return _stop(running, timeout)


def _stop(timers: list[Timer], timeout: float) -> bool:
    """Whether all of them have ended within the time. Those that have are forgotten."""
    end = time.monotonic() + timeout
    for timer in timers:
        timer.stop(0)  # so that none begins a save while another is waited for
    ended = {timer for timer in timers if timer.stop(max(0.0, end - time.monotonic()))}
    with _timers_turn:
        _timers[:] = [timer for timer in _timers if timer not in ended]
    return len(ended) == len(timers)


def _warn(text: str) -> None:
    # With no memory of what was said before: `warnings.warn` would keep silent about a second outage.
    warnings.warn_explicit(text, UserWarning, __file__, 0, module=__name__)


# --- how --------------------------------------------------------------------------------------------


def _store(directory: Directory) -> SibylStore:
    if directory is None:
        return SibylStore(home_of("sibyl"))
    folder = folder_of(directory)
    return SibylStore(folder, sessions_dir=folder)


def folder_of(directory: str | os.PathLike[str]) -> str:
    return os.path.abspath(config.expanded(os.fspath(directory)))


def _ref(store: SibylStore, session_id: str) -> Found:
    try:
        ids.check(session_id)
    except InvalidId:
        for ref in store.list():  # people name folders as they like
            if ref.id == session_id:
                return ref
        raise
    return Found(session_id, os.path.join(store.root, store.place(session_id)))
