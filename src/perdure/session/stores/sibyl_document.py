"""One session of Sibyl's as a text: a form with the document's fields, then ours, one line a message.

    (:repl-session (:session-version 1)
     :id "…"
     …
     :messages (
    (:role :user …)
    (:role :assistant …)
     )
     :entries (
    (:after 2 :entry (:json "{…}"))
     )
    )

`:messages` is the conversation as it stands. Everything else, other branches included, is in `:entries`, each
with the number of messages before it, so that the order of all is restored.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TypeGuard

from perdure.session import context
from perdure.session.entry import Compaction, Custom, Entry
from perdure.session.record import dumps
from perdure.session.sexp import dumps as printed
from perdure.session.sexp import string
from perdure.session.stores import Header, sibyl_rules
from perdure.session.stores.sibyl_format import JSON, message_form
from perdure.session.stores.whole_file import Document
from perdure.session.tree import METADATA, on_active_path

VERSION = 1
VERSION_FORM = f"(:session-version {VERSION})"
COMMANDS = "perdure.commands"
"""The type of an entry that says how many commands there were before it: `Custom(COMMANDS, {"count": 7})`.
Each prompt behind it is one more, so a conversation needs one of them."""


class Forms:
    """The forms of messages as they stood in the text that was read, which is kept once and not in pieces."""

    def __init__(self, text: str = "", entries: Sequence[Entry] = ()) -> None:
        self._text = text
        self._entries = entries
        self._starts = array("q", [-1]) * len(entries)
        self._ends = array("q", [-1]) * len(entries)

    def put(self, number: int, start: int, end: int) -> None:
        """Where that of the entry of this number is."""
        self._starts[number], self._ends[number] = start, end

    def of(self, number: int, entry: Entry) -> str:
        """Empty if it was not read as it is now."""
        if number >= len(self._entries) or self._entries[number] is not entry or self._starts[number] < 0:
            return ""
        return self._text[self._starts[number] : self._ends[number]]


class Memory:
    """What is known of a document beside its entries."""

    def __init__(self) -> None:
        self.messages: dict[bytes, str] = {}
        """For each entry's line the form it was given; empty for one that cannot be a message."""
        self.forms = Forms()
        self.records: dict[bytes, str] = {}
        self.prompts: dict[bytes, bool] = {}
        """For each message's line whether the user said it."""
        self.dropped = sibyl_rules.Dropped()
        self.version = VERSION_FORM
        self.created = ""
        """When it was, in another program's way to write that."""
        self.unknown: dict[str, str] = {}
        """Fields that have no meaning here, as they were."""
        self.count = 0
        """How many messages are in `:messages`, as it was read or printed last."""
        self.modified = ""
        """When it was saved."""

    @staticmethod
    def of(document: Document) -> Memory:
        memory: Memory = document.memory.setdefault(Memory, Memory())
        return memory


def text_of(document: Document, saved: str) -> str:
    """The document as a file's text; `saved` is the time of this save."""
    header, memory = document.header, Memory.of(document)
    messages: list[str] = []
    others: list[str] = []
    state = _State(memory)
    for number, is_on_path in enumerate(_on_path(document.entries)):
        entry = document.entries[number]
        if is_on_path:
            state.add(entry, len(messages))
        form = (memory.forms.of(number, entry) or _message(entry, memory)) if is_on_path else ""
        if form and (entry.type == "message" or entry.id == by_place(len(messages))):
            messages.append(form)
        else:
            others.append(f"(:after {len(messages)} :entry {_record(entry, memory)})")
    memory.count, memory.modified = len(messages), saved
    facts = {
        name: value
        for name, value in sibyl_rules.split_facts(header.facts)[0].items()
        if name not in memory.unknown and name != "command_count"
    }
    named = {
        "id": string(header.id),
        "created-at": memory.created or (quoted(header.timestamp) if header.timestamp else "nil"),
        "last-modified": string(saved),
        "message-count": str(len(messages)),
        "command-count": printed(state.highest(header)),
        "summary": "nil" if state.summary is None else quoted(state.summary),
    }
    ours = {
        "context-start": str(state.start or ""),
        "summarized": str(state.summarized or ""),
        "cwd": header.cwd and quoted(header.cwd),
        "parent-session": header.parent_session and quoted(header.parent_session),
        "facts": printed([JSON, dumps(facts).decode()]) if facts else "",
        **memory.unknown,
    }
    return "\n".join(
        [
            f"(:repl-session {memory.version}",
            *(f" :{name} {text}" for name, text in named.items()),
            *_list("messages", messages),
            *(f" :{name} {text}" for name, text in ours.items() if text),
            *(_list("entries", others) if others else ()),
            ")\n",
        ]
    )


def by_place(messages: int) -> str:
    """The id of a form that has none, behind so many messages."""
    return f"r{messages + 1}"


def summary_of(entries: Sequence[Entry]) -> str | None:
    """What stands for the part of the conversation that is not sent any more, if anything does."""
    return _state_of(entries).summary


def commands_of(entries: Sequence[Entry], header: Header) -> int:
    """How many commands there were, as the session's file says it."""
    return _state_of(entries).highest(header)


def is_counted(entries: Sequence[Entry], header: Header) -> bool:
    """Whether the next prompt is one command more. If not, a `COMMANDS` entry has to come before it."""
    state = _state_of(entries)
    return state.is_counting and state.commands == state.highest(header)


class _State:
    """Where the conversation stands behind the entries added so far."""

    def __init__(self, memory: Memory) -> None:
        self.start = 0
        self.summary: str | None = None
        self.summarized = 0
        self.commands = 0
        self.is_counting = False
        """Since an entry said how many commands there were. Nobody counts those of other programs."""
        self._memory = memory
        self._messages_before: dict[str, int] = {}

    def add(self, entry: Entry, messages: int) -> None:
        """An entry of the active path, with so many messages before it."""
        self._messages_before[entry.id] = messages
        if entry.type == "message":
            if self.is_counting and self._is_prompt(entry):
                self.commands += 1
            return
        if context.is_reset(entry):
            self.start, self.summary, self.summarized = messages, None, 0
            self._messages_before.clear()  # a summary that comes later keeps nothing from before
        match entry.body if entry.type in ("compaction", "custom") else None:
            case Compaction(summary=summary, first_kept_entry_id=first):
                self.summary = summary
                self.summarized = self._messages_before.get(first if isinstance(first, str) else "", messages)
            case Custom(custom_type=kind, data={"count": count}) if kind == COMMANDS and _is_count(count):
                self.commands, self.is_counting = count, True

    def highest(self, header: Header) -> int:
        """Of the commands that were counted, and those the file spoke of when it was read."""
        told = header.facts.get("command_count")
        return max(self.commands, told) if _is_count(told) else self.commands

    def _is_prompt(self, entry: Entry) -> bool:
        known = self._memory.prompts.get(entry.line)
        if known is None:
            known = self._memory.prompts[entry.line] = entry.role == "user"
        return known


def _state_of(entries: Sequence[Entry]) -> _State:
    state = _State(Memory())
    for entry, is_on_path in zip(entries, _on_path(entries), strict=True):
        if is_on_path:
            state.add(entry, 0)
    return state


def _on_path(entries: Sequence[Entry]) -> list[bool]:
    """For each entry whether it is on the active path, or metadata chained behind the end of that."""
    flags = on_active_path(entries)
    head = max((at for at, is_on_path in enumerate(flags) if is_on_path), default=-1)
    chained = {entries[head].id if head >= 0 else None}
    for at in range(head + 1, len(entries)):
        if entries[at].type in METADATA and entries[at].parent_id in chained:
            flags[at] = True
            chained.add(entries[at].id)
    return flags


def _message(entry: Entry, memory: Memory) -> str:
    text = memory.messages.get(entry.line)
    if text is None:
        form = message_form(entry)
        text = memory.messages[entry.line] = printed(form) if form else ""
    return text


def _record(entry: Entry, memory: Memory) -> str:
    text = memory.records.get(entry.line)
    if text is None:
        text = memory.records[entry.line] = printed([JSON, entry.raw.decode("utf-8", "replace")])
    return text


def _list(name: str, forms: Sequence[str]) -> Sequence[str]:
    """A field's lines. What is added to a list changes no line of it."""
    return [f" :{name} (", *forms, " )"] if forms else [f" :{name} nil"]


def quoted(text: str) -> str:
    """A string, or the JSON of one that Lisp cannot have."""
    try:
        if "\0" not in text:
            return string(text)
    except ValueError:
        pass  # a lone surrogate is no character in Lisp
    return printed([JSON, dumps(text).decode()])


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
