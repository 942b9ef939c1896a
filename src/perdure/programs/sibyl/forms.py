"""The document's converters: a tool call, a message, a session as an S-expression, and back.

What is no such form is a `UsageError` that says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import msgspec

from perdure.errors import UsageError
from perdure.programs.sibyl.conversation import conversation_of, entries_behind
from perdure.session import ids, record, sexp
from perdure.session.entry import Entry, ToolCall
from perdure.session.sexp import Value
from perdure.session.stores import Header
from perdure.session.stores.sibyl_document import text_of
from perdure.session.stores.sibyl_format import call_form, call_json, entry_of, message_form
from perdure.session.stores.sibyl_reader import document_of
from perdure.session.stores.sibyl_rules import stripped
from perdure.session.stores.whole_file import Document

T = TypeVar("T")


def tool_call_to_sexp(call: ToolCall) -> Value:
    """`(:id "…" :name "…" :arguments (("key" . "value") …))`"""
    return call_form(record.dumps(call))


def sexp_to_tool_call(value: Value) -> ToolCall:
    return _understood(lambda: msgspec.convert(record.loads_exactly(call_json(value)), ToolCall))


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
    document = Document(Header(session_id, now), entries_behind([], list(messages), summary), [], {})
    return sexp.loads(text_of(document, now))


def sexp_to_session(value: Value) -> tuple[list[Entry], str | None]:
    """Its messages, and the summary of its past."""
    document = document_of("the form", "", sexp.dumps(value).encode())
    if document.is_damaged:
        raise UsageError(f"Not a session: {document.problems[0].reason}")
    return conversation_of(document)


def _understood(convert: Callable[[], T]) -> T:
    try:
        return convert()
    except RecursionError:
        raise UsageError("Not what it should be: it is nested too deeply") from None
    except ValueError as error:
        raise UsageError(f"Not what it should be: {error}") from None
