"""sibyl: a conversation that saves itself, as S-expressions a Lisp can read.

    save_session(id, messages, summary)      what is new in them is saved; nothing that is there is lost
    load_session(id)                         (messages, summary); None, with a warning, if that cannot be
    list_sessions()                          the last saved first
    generate_session_id()                    session-20250220-143022-847291

`directory` is that of the sessions: `~/.sibyl/sessions` if none is given, and SIBYL_HOME moves it. Any number
of threads and processes may save and load at once.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from perdure.errors import NotSaved, PerdureError, UsageError
from perdure.session import ids, record, sexp, tree
from perdure.session.entry import Compaction, Entry, ToolCall, content_of, new, placed
from perdure.session.layouts import home_of
from perdure.session.sexp import Value
from perdure.session.stores import Found, Header
from perdure.session.stores.sibyl_document import summary_of, text_of
from perdure.session.stores.sibyl_format import call_form, call_json, entry_of, message_form
from perdure.session.stores.sibyl_reader import document_of
from perdure.session.stores.sibyl_rules import stripped
from perdure.session.stores.sibyl_sexp import SibylStore
from perdure.session.stores.whole_file import Document

__all__ = [
    "generate_session_id",
    "list_sessions",
    "load_session",
    "message_to_sexp",
    "save_session",
    "session_to_sexp",
    "sexp_to_message",
    "sexp_to_session",
    "sexp_to_tool_call",
    "tool_call_to_sexp",
]

T = TypeVar("T")
Directory = str | os.PathLike[str] | None


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
        header = Header(ref.id, ids.stamp(ids.now()))
        try:
            store.create(header, _new([], given, summary))
            return
        except NotSaved:
            if not os.path.lexists(ref.path):
                raise  # else another process was first, and this is one more save
    with store.writer(ref) as writer:
        writer.append(_new(writer.catch_up().entries, given, summary))


def load_session(session_id: str, *, directory: Directory = None) -> tuple[list[Entry], str | None] | None:
    """All messages of a session, and the summary of its past; None, with a warning, if it is missing or
    damaged."""
    store = _store(directory)
    try:
        ref = _ref(store, session_id)
        if not os.path.lexists(ref.path):
            raise PerdureError(f"Session not found: {session_id}")
        document = store.parse(ref, store.bytes_of(ref))
        if document.is_damaged or (document.problems and not document.entries):
            remedy = "`pi sessions doctor` saves every complete message of it"
            raise PerdureError(f"Session {session_id} is damaged: {document.problems[0]}; {remedy}")
    except PerdureError as error:
        warnings.warn(error.message, stacklevel=2)
        return None
    return _conversation(document)


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


# --- converters -------------------------------------------------------------------------------------


def tool_call_to_sexp(call: ToolCall) -> Value:
    """`(:id "…" :name "…" :arguments (("key" . "value") …))`"""
    return call_form(record.dumps(call))


def sexp_to_tool_call(value: Value) -> ToolCall:
    return _understood(lambda: msgspec.convert(record.loads(call_json(value)), ToolCall))


def message_to_sexp(message: Entry) -> Value:
    """`(:role :user :content "…" :timestamp "…" …)`, without what a session here does not keep."""
    left = stripped(message)
    form = message_form(left) if left else None
    if form is None:
        raise UsageError("Only what the user, the assistant or a tool said is a message here")
    return form


def sexp_to_message(value: Value) -> Entry:
    return _understood(lambda: entry_of(value, ids.new_id(), None))


def session_to_sexp(session_id: str, messages: Iterable[Entry], summary: str | None = None) -> Value:
    """`(:repl-session (:session-version 1) :id "…" … :messages (…))`"""
    now = ids.stamp(ids.now())
    document = Document(Header(session_id, now), _new([], list(messages), summary), [], {})
    return sexp.loads(text_of(document, now))


def sexp_to_session(value: Value) -> tuple[list[Entry], str | None]:
    """Its messages, and the summary of its past."""
    document = document_of("the form", "", sexp.dumps(value).encode())
    if document.is_damaged:
        raise UsageError(f"Not a session: {document.problems[0].reason}")
    return _conversation(document)


# --- how --------------------------------------------------------------------------------------------


def _store(directory: Directory) -> SibylStore:
    if directory is None:
        return SibylStore(home_of("sibyl"))
    folder = os.path.abspath(os.path.expanduser(os.fspath(directory)))
    return SibylStore(folder, sessions_dir=folder)


def _ref(store: SibylStore, session_id: str) -> Found:
    return Found(session_id, os.path.join(store.root, store.place(ids.check(session_id))))


def _new(there: Sequence[Entry], messages: Sequence[Entry], summary: str | None) -> list[Entry]:
    """What of a conversation is not there yet, behind what is."""
    folded = tree.fold(there)
    known = {entry.id: entry for entry in folded.entries}
    tip = folded.ends.tip
    fresh: list[Entry] = []
    first: Any = msgspec.UNSET

    def add(entry: Entry) -> None:
        nonlocal tip
        fresh.append(entry)
        known[entry.id] = entry
        tip = entry.id

    for message in messages:
        left = stripped(message)
        if left is None:
            continue
        id = left.id or ids.new_id()
        if id in known and content_of(known[id]) != content_of(left):
            id = ids.new_id()
        if id not in known:
            add(placed(left, id=id, parent_id=tip, timestamp=left.timestamp or ids.stamp(ids.now())))
        first = id if first is msgspec.UNSET else first
    if summary and summary != summary_of([*folded.entries, *fresh]):
        body = Compaction(summary, first)
        add(new(body, id=ids.new_id(), parent_id=tip, timestamp=ids.stamp(ids.now())))
    return fresh


def _conversation(document: Document) -> tuple[list[Entry], str | None]:
    folded = tree.fold(document.entries)
    path = tree.path(folded.entries, folded.ends.head)
    return [entry for entry in path if entry.type == "message"], summary_of(folded.entries)


def _understood(convert: Callable[[], T]) -> T:
    try:
        return convert()
    except (ValueError, RecursionError) as error:
        raise UsageError(f"Not what it should be: {error}") from None
