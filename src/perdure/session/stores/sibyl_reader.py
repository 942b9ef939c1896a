"""A session of Sibyl's, read form by form from a text that may be another program's, or damaged.

What a form's text was is remembered, so that it is written back like that. Where one cannot be read, the next
that begins as a message or an entry does is looked for, in bounded time.
"""

from __future__ import annotations

import itertools
import re
from array import array
from collections import deque
from typing import Any, NamedTuple

from perdure.errors import NewerFormat
from perdure.session import context
from perdure.session.entry import Body, Compaction, Custom, Entry, Unknown, decode, new, placed, share
from perdure.session.record import loads
from perdure.session.sexp import Keyword, SexpError, Value, scan
from perdure.session.stores import Excerpt, Header, Problem, Problems, note
from perdure.session.stores.document_size import MOST_ITEMS, crowded
from perdure.session.stores.sibyl_document import VERSION, Forms, Memory, by_place, quoted
from perdure.session.stores.sibyl_format import (
    ENTRY_ID,
    PARENT_ID,
    ROLE,
    entry_of,
    json_of,
    moment_of,
    properties,
)
from perdure.session.stores.whole_file import Document

_SESSION, _SESSION_VERSION = Keyword("repl-session"), Keyword("session-version")
_MESSAGES, _ENTRIES = Keyword("messages"), Keyword("entries")
_FORM = "form"
"""The type of an entry that is another program's form among the messages, and none of them."""
_AFTER, _ENTRY = Keyword("after"), Keyword("entry")
_NAMED = frozenset(
    {"id", "created-at", "last-modified", "message-count", "command-count", "summary", "context-start"}
    | {"summarized", "cwd", "parent-session", "facts", _MESSAGES.name, _ENTRIES.name}
)
_BLANKS = " \t\n\r\f"
_GAP = re.compile(f"[{_BLANKS}]*+")
_START = re.compile(rf"\([{_BLANKS}]*+:(role|after)(?=[{_BLANKS}])", re.IGNORECASE)
_MOST_TRIED = 4
"""Times the text's length: so much is read at most of forms that turn out to be none."""


_MOST_IN_A_FORM = 200_000
"""Words, strings and parentheses of one message or field: each takes more memory than text."""


def document_of(path: str, id: str, data: bytes) -> Document:
    """Whatever is in the file. `id` is the session's, whatever it says itself."""
    given = [data]
    del data  # it may be large: whoever decodes it is the last to have it
    reading = _Reading(path, given)
    reading.run()
    entries = reading.entries()
    header = reading.header(id, entries)
    memory = {Memory: reading.memory}
    count = reading.memory.count
    return Document(header, entries, reading.problems, memory, reading.is_damaged, reading.refusal, count)


def excerpt_of(path: str, id: str, first: bytes, last: bytes) -> Excerpt:
    """What is whole in the beginning of a session's file, and in its end."""
    found = [_Reading(path, [first]), _Reading(path, [last])]
    entries = []
    for reading in found:
        reading.run()
        entries.append(reading.entries())
    found[0].fields = {**found[1].fields, **found[0].fields}
    header = found[0].header(id, entries[0])
    is_begun = first.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"("
    is_ended = last.rstrip()[-1:] == b")"
    reason = "it ends too early" if is_begun else "no session begins here"
    problems = [] if is_begun and is_ended else [Problem(path, 0, reason)]
    return Excerpt(entries[0], entries[1], problems, header, found[0].told_count)


class _Field(NamedTuple):
    value: Value
    text: str
    at: int


class _Reading:
    """One pass over a text: fields, messages and entries out, and what is wrong with it."""

    def __init__(self, path: str, given: list[bytes]) -> None:
        """`given` has the file's bytes, which are taken out of it."""
        self.problems: Problems = []
        self.is_damaged = False
        self.refusal: NewerFormat | None = None
        self.memory = Memory()
        self._path = path
        self._text = ""
        self._counted = 0, 1  # a place in the text, and the line it is in
        self.fields: dict[str, _Field] = {}
        self._messages: list[Entry] = []
        """The id, or the parent, is empty where the form has none."""
        self._count = 0
        self._first = ""
        """How many messages there are, and when the first of them was said."""
        self._starts = array("q")
        self._ends = array("q")
        """Where in the text the form of each message is: a copy of each would be all of the text again."""
        self._records: list[tuple[int, Entry]] = []
        self._within: Keyword | None = None
        """The list whose elements are being read."""
        self._is_lost = False
        """Between what cannot be read and the next form that can."""
        self._before_the_end: set[str] | None = None
        """Once the session's form has ended: the ids and texts of all messages in it."""
        self._decode(given)
        self._left = _MOST_TRIED * len(self._text)

    def run(self) -> None:
        text = self._text
        key: Keyword | None = None
        at = self._begin()
        while at < len(text):
            if text[at] == ")":
                key = None
                at = self._end(at + 1)
            elif key in (_MESSAGES, _ENTRIES) and text[at] == "(":
                self._within, key = key, None
                at = _skip(text, at + 1)
            else:
                try:
                    value, end = scan(text, at, _MOST_IN_A_FORM)
                    if end == len(text) and text[end - 1] not in ')"':
                        raise SexpError("the text ends inside a word", text, end, [], [])
                except SexpError as error:
                    key = None
                    at = self._recover(error, at)
                    continue
                if self._is_lost and '"' not in text[at:end]:
                    at = self._next(at + 1, end - at)  # somebody's words, that only look like a message
                    continue
                self._is_lost = False
                if self._within or _begins_with(value, ROLE) or _begins_with(value, _AFTER):
                    end = self._element(value, at, end)
                elif key is not None:
                    self.fields.setdefault(key.name, _Field(value, text[at:end], at))
                    key = None
                elif isinstance(value, Keyword):
                    key = value
                elif _begins_with(value, _SESSION_VERSION):
                    self._version(value, at, end)
                else:
                    self._damage(at, "a form where a keyword should be; left out")
                    self._is_lost = False  # what follows it is in its place
                at = _skip(text, end)
        if self._before_the_end is None and text:
            self._damage(len(text), "it ends too early")
        if not self.is_damaged and "\0" in text:
            nul = "\0"
            self._damage(text.index(nul), f"{text.count(nul)} NUL bytes, the first of them in this line")

    # --- where forms are --------------------------------------------------------------------------

    def _decode(self, given: list[bytes]) -> None:
        data = given.pop().removeprefix(b"\xef\xbb\xbf")
        try:
            self._text = data.decode()
        except UnicodeDecodeError as error:
            self._text = data.decode("utf-8", "replace")
            self._damage(len(data[: error.start].decode()), "bytes that are no text, shown as U+FFFD")
            self._is_lost = False

    def _begin(self) -> int:
        """Where the first field is."""
        text = self._text
        at = _skip(text, 0)
        if at == len(text):
            self._problem(0, "it is empty")
            self._before_the_end = set()
            return at
        try:
            if text[at] == "(":
                value, end = scan(text, at + 1)
                if value == _SESSION:
                    return _skip(text, end)
        except SexpError:
            pass
        self._damage(at, "no session begins here" if text.strip(_BLANKS + "\0") else "nothing but NUL bytes")
        return self._next(at)

    def _end(self, at: int) -> int:
        """Behind a closing parenthesis: that of the list being read, or of the session."""
        text = self._text
        if self._before_the_end is None:
            if self._within:
                self._within = None
                return _skip(text, at)
            if not text[at:].strip(_BLANKS + "\0"):
                self._before_the_end = set()
                return len(text)
            texts = (self._form(number) for number in range(len(self._messages)))
            self._before_the_end = {*texts, *(entry.id for entry in self._messages)}
            self._damage(_skip(text, at), "more behind the end of the session")
        return self._next(at)

    def _recover(self, error: SexpError, at: int) -> int:
        """Behind the beginning of a form that cannot be read: where the next one begins."""
        text = self._text
        reason = "NUL bytes" if "\0" in text[at : error.offset + 1] else error.reason
        self._damage(error.offset, reason)
        read_to_the_end = text.startswith('"', error.offset)  # of a string that has none
        return self._next(at + 1, (len(text) if read_to_the_end else error.offset) - at)

    def _next(self, at: int, tried: int = 0) -> int:
        """Where the next message or entry may begin, if it is still worth trying."""
        self._left -= tried
        start = _START.search(self._text, at) if self._left > 0 else None
        if start is None:
            return len(self._text)
        self._within = _MESSAGES if start[1].lower() == "role" else _ENTRIES
        return start.start()

    def _damage(self, at: int, reason: str) -> None:
        """Said once for each stretch of what cannot be read."""
        if not self._is_lost:
            self._problem(at, reason)
        self.is_damaged = self._is_lost = True

    def _problem(self, at: int, reason: str) -> None:
        place, line = self._counted if self._counted[0] <= at else (0, 1)
        line += self._text.count("\n", place, at)
        self._counted = at, line
        note(self.problems, Problem(self._path, line, reason))

    # --- what they say ----------------------------------------------------------------------------

    def _version(self, value: Value, at: int, end: int) -> None:
        self.memory.version = self._text[at:end]
        match value:
            case [_, int(number)] if number > VERSION:
                self.refusal = NewerFormat(self._path, number, VERSION)

    def _element(self, value: Value, at: int, end: int) -> int:
        """Returns where to go on: behind it, or inside what only began like a message and went too far."""
        if len(self._messages) + len(self._records) >= MOST_ITEMS:
            raise crowded(self._path)
        text = self._text[at:end]
        is_record = self._within == _ENTRIES or _begins_with(value, _AFTER)
        try:
            if is_record:
                self._records.append(self._record(value))
                return end
            entry = entry_of(value)
        except (ValueError, RecursionError) as error:
            if is_record or not isinstance(value, list) or _begins_with(value, ROLE):
                self._damage(at, f"neither a message nor an entry ({error}); left out")
                return self._next(at + 1, end - at)
            entry = new(Unknown(_FORM, {"form": text}), parent_id="")
        known = self._before_the_end
        if known is None or not ((entry.id and entry.id in known) or text in known):
            self._messages.append(entry)
            self._starts.append(at)
            self._ends.append(end)
        return end

    def _form(self, number: int) -> str:
        """The text of a message."""
        return self._text[self._starts[number] : self._ends[number]]

    def _record(self, value: Value) -> tuple[int, Entry]:
        fields = properties(value)
        after = fields.get(_AFTER)
        if _ENTRY not in fields or not isinstance(after, int):
            raise ValueError("it does not say what it is, or where")
        return after, decode(json_of(fields[_ENTRY]))

    # --- all of it --------------------------------------------------------------------------------

    def header(self, id: str, entries: list[Entry]) -> Header:
        fields, memory = self.fields, self.memory
        memory.count = self._count
        memory.modified = self._moment("last-modified")
        own = self._string("id")
        if "id" in fields and own != id:
            self._problem(fields["id"].at, f"it calls itself {own[:60]!r}; its folder's name counts")
        created = fields.get("created-at")
        if created and not isinstance(created.value, str | None):
            memory.created = created.text
        known = self._json("facts")
        facts = dict(known) if isinstance(known, dict) else {}
        for name, field in fields.items():
            if name not in _NAMED:
                memory.unknown[name] = field.text
                facts[name] = self._json(name)
        if count := self._number("command-count"):
            facts["command_count"] = count
        return Header(
            id,
            self._moment("created-at") or self._first,
            self._string("cwd"),
            self._string("parent-session"),
            facts,
        )

    def entries(self) -> list[Entry]:
        """In the session's order, each with an id and a parent."""
        taken = {entry.id for entry in self._messages} | {entry.id for _, entry in self._records}
        records = deque(sorted(self._records, key=lambda record: record[0]))
        reset_at, summary_at = self._implied()
        count = len(self._messages)
        places, numbers = array("q"), array("q")  # of messages that stay as they are: among all, among them
        made: list[Entry] = []
        tip: str | None = None  # the end of the conversation so far
        above: str | None = None  # the same, without what only this reading put there
        is_form = False

        def add(entry: Entry) -> None:
            nonlocal tip
            if not entry.id:
                entry = placed(entry, id=_free(f"e{len(made) + 1}", taken))
            made.append(entry)
            tip = entry.id if entry.parent_id == tip else tip

        def add_implied(number: int, following: str) -> None:
            if number == reset_at:
                add(self._made("reset", Custom(context.RESET), tip, taken))
            if number == summary_at:
                add(self._made("summary", Compaction(self._string("summary"), following), tip, taken))

        for number, entry in enumerate(self._messages):
            while records and records[0][0] <= number:
                add(records.popleft()[1])
            above, id = above if is_form else tip, entry.id or _free(by_place(number), taken)
            is_form = entry.type == _FORM
            add_implied(number, id)
            parent = entry.parent_id
            if parent == "" or (parent == above != tip):
                parent = tip
            if (id, parent) != (entry.id, entry.parent_id):
                form = _in_its_place(entry, self._form(number), id, parent)
                entry = placed(entry, id=id, parent_id=parent)
                if form:
                    self.memory.messages[entry.line] = form
            else:
                places.append(len(made))
                numbers.append(number)
            share(entry, made[-1] if made else None)
            made.append(entry)
            tip = id
        for _, entry in records:
            add(entry)
        add_implied(count, "")
        self._count, self._first = count, self._messages[0].timestamp if self._messages else ""
        self._messages = []  # all of them are in what is returned
        self.memory.forms = forms = Forms(self._text, made)
        for place, number in zip(places, numbers, strict=True):
            forms.put(place, self._starts[number], self._ends[number])
        return made

    def _implied(self) -> tuple[int, int]:
        """Before which message a reset and a summary belong that only fields speak of; -1 for none."""
        kinds = {"reset" if context.is_reset(entry) else entry.type for _, entry in self._records}
        count = len(self._messages)
        start = min(self._number("context-start"), count)
        covered = max(start, min(self._number("summarized"), count))
        return (
            start if start and "reset" not in kinds else -1,
            covered if self._string("summary") and "compaction" not in kinds else -1,
        )

    def _made(self, name: str, body: Body, parent: str | None, taken: set[str]) -> Entry:
        return new(body, id=_free(name, taken), parent_id=parent, timestamp=self._moment("last-modified"))

    @property
    def told_count(self) -> int | None:
        """How many messages there are by what it says itself."""
        return self._number("message-count") or None

    def _moment(self, name: str) -> str:
        field = self.fields.get(name)
        return moment_of(field.value) or self._string(name) if field else ""

    def _number(self, name: str) -> int:
        field = self.fields.get(name)
        return field.value if field and isinstance(field.value, int) and field.value > 0 else 0

    def _string(self, name: str) -> str:
        value = self._json(name)
        return value if isinstance(value, str) else ""

    def _json(self, name: str) -> Any:
        field = self.fields.get(name)
        if field is None or isinstance(field.value, str):
            return field and field.value
        try:
            return loads(b'{"value":%b}' % json_of(field.value))["value"]
        except (ValueError, RecursionError):
            return field.text


def _in_its_place(entry: Entry, text: str, id: str, parent: str | None) -> str:
    """The text of another program's message, with the id and the parent it has here behind its own fields.
    Empty if it has others in it, which would count instead."""
    if entry.type != "message":
        return text
    added = {ENTRY_ID: id, PARENT_ID: parent} if not entry.id else {PARENT_ID: parent}
    lowered = text.lower()
    if entry.parent_id != "" or any(f":{key.name}" in lowered for key in added):
        return ""
    shown = [f":{key.name} {'nil' if value is None else quoted(value)}" for key, value in added.items()]
    return f"{text[:-1]} {' '.join(shown)})"


def _free(name: str, taken: set[str]) -> str:
    """The name, or one like it that is not taken; taken from now on."""
    names = itertools.chain([name], (f"{name}.{number}" for number in itertools.count(2)))
    free = next(each for each in names if each not in taken)
    taken.add(free)
    return free


def _begins_with(value: Value, name: Keyword) -> bool:
    return isinstance(value, list) and value[0] == name


def _skip(text: str, at: int) -> int:
    match = _GAP.match(text, at)
    assert match
    return match.end()
