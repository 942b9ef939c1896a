"""Soleur's layout: one JSON document a session, laid out for people to read, replaced as a whole.

    <home>/sessions/<uuid>.json      <home>/locks/<id>.lock      <home>/trash/<id>/

`messages` is the conversation as it stands, `decisions` what was decided. Everything else a session holds is
in `entries`, at the end, with its place in the order; a session that has nothing else has no `entries`.

Members stay in the order of the file, and what was read is written as it stood, so that a diff shows what was
said since.
"""

from __future__ import annotations

import contextlib
import os
import re
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, overload

import msgspec

from perdure.session import ids
from perdure.session.entry import share
from perdure.session.findings import MOST
from perdure.session.record import REFUSED, dumps, members
from perdure.session.stores import Durability, Excerpt, Found, Header, Problem, Problems, files, note
from perdure.session.stores.document_size import MOST_ITEMS, crowded
from perdure.session.stores.json_text import Damage, Piece, Walk, check_utf8, count_of_items, laid_out, walked
from perdure.session.stores.lines import is_overfull
from perdure.session.stores.plain import moment
from perdure.session.stores.soleur_edited import is_one_conversation, linked
from perdure.session.stores.soleur_format import (
    DECISIONS,
    ENTRIES,
    LISTS,
    MESSAGES,
    Item,
    decision_item,
    item_of,
    kind_of,
    message_item,
    record_item,
    value_of,
)
from perdure.session.stores.whole_file import Document, WholeFileStore
from perdure.session.tree import on_active_path

_AGENT = "sparring"
_ORDER = (
    *("id", "agent_type", "project_name", "project_context"),
    *("messages", "decisions", "created_at", "updated_at"),
)
_NO_FACTS = frozenset({"id", *LISTS, "created_at", "updated_at", "cwd", "parent_session", "facts"})
"""Members that are no facts. A fact of such a name is in `facts`, with a name of its own."""
_PLACE = b'{\n      "after": %d,\n      "decision": %d\n    }'
_EXTENSION = ".json"
_BESIDE = re.compile(r"tmp|damaged(\.\d+)?|[0-9a-f]{8}\.(displaced|tmp)")
_OBJECTS = re.compile(rb"\[\s*+[{\]]")
_NO_TEXT = re.compile("[\\udc80-\\udcff]")
_MARK = b"\xef\xbb\xbf"
_BETWEEN = "\n\n"
_LONG = 2**20
_MOST_VALUES = 100_000  # of a member that is read, and longer than that
_members_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_list_decoder = msgspec.json.Decoder(list[msgspec.Raw])


class SoleurStore(WholeFileStore):
    name = "soleur"
    item_start = b"{"

    def __init__(self, home: str, *, cwd: str | None = None, durability: Durability = "power") -> None:
        super().__init__(home, os.path.join(home, "sessions"), durability, cwd=cwd)

    def new_id(self, header: Header) -> str:
        return ids.soleur_id()

    def salvage_id(self, header: Header, digest: bytes) -> str:
        return ids.soleur_id(digest[:16])

    def place(self, id: str) -> str:
        return id + _EXTENSION

    def _beside(self, relative: str, names_in: Callable[[str], Sequence[str]] | None = None) -> Sequence[str]:
        start = f"{relative}."
        names = names_in("") if names_in else sorted(files.names(self.root, ""))
        return [each for each in names if each.startswith(start) and _BESIDE.fullmatch(each, len(start))]

    def print(self, document: Document, saved: str) -> bytes:
        header, items = document.header, _items(document)
        lists = _lists(items, on_active_path(document.entries))
        made = document.memory.get("members")
        if made is None:
            made = document.memory["members"] = _new_members(header, self.cwd)
        whole = {
            **made,
            "id": dumps(header.id),
            "project_context": _project_context(header, items) or made.get("project_context", b"null"),
            MESSAGES: b"",
            DECISIONS: b"",
            "created_at": made.get("created_at") or dumps(header.timestamp or saved),
            "updated_at": dumps(saved),
        }
        if root := next((item.project_root for item in reversed(items) if item.project_root), ""):
            whole["project_root"] = dumps(root)
        whole.pop(ENTRIES, None)
        if lists[ENTRIES]:
            whole[ENTRIES] = b""  # at the very end
        parts = [b"{"]
        for name, raw in whole.items():
            parts += [b",\n  " if len(parts) > 1 else b"\n  ", dumps(name), b": "]
            parts += _list(lists[name]) if name in lists else [laid_out(raw, 1)]
        return b"".join([*parts, b"\n}\n"])

    def parse(self, ref: Found, data: bytes) -> Document:
        data = data.removeprefix(_MARK)
        if not data.strip():
            lost = Problem(ref.path, 1, "the file is empty; if there was anything in it, it is lost")
            return Document(Header(ref.id, ""), [], [lost], {})
        try:
            return _Reading(ref, *_sound(ref, data)).document(self.cwd)
        except (_Odd, *REFUSED):
            text = data.decode("utf-8", "surrogateescape")
            walk = walked(text, LISTS, kind_of, MOST_ITEMS)
            if walk.is_crowded:
                raise crowded(ref.path) from None
            return _Reading(ref, walk.members, walk.lists, text, walk.damage).document(self.cwd)

    def parse_parts(self, ref: Found, first: bytes, last: bytes) -> Excerpt:
        first, last = first.removeprefix(_MARK).lstrip(), last.rstrip()
        reason = "no document begins here" if first[:1] != b"{" else "it ends in the middle"
        is_sound = first[:1] == b"{" and last[-1:] == b"}"
        texts = [part.decode("utf-8", "surrogateescape") for part in (first, last)]
        walks = [Walk(text, LISTS, kind_of, MOST_ITEMS) for text in texts]
        found = [
            _Reading(ref, walk.members, walk.lists, text, walk.damage).document(self.cwd)
            for walk, text in zip(walks, texts, strict=True)
        ]
        made = {
            name: piece.raw for walk in walks for name, piece in walk.members.items() if name not in LISTS
        }
        header = _header(ref, made, [])
        problems = [] if is_sound else [Problem(ref.path, 0, reason)]
        return Excerpt(found[0].entries, found[1].entries, problems, header)


# --- the members of a document ----------------------------------------------------------------------------


def _new_members(header: Header, cwd: str) -> dict[str, bytes]:
    """Those of a document that holds nothing yet, in their order; empty where each save says more."""
    facts = dict(header.facts)
    cwd = header.cwd or cwd
    named: dict[str, Any] = {
        "agent_type": facts.pop("agent_type", _AGENT),
        "project_name": facts.pop("project_name", os.path.basename(cwd)),
        "project_context": facts.pop("project_context", None),
        **({"created_at": header.timestamp} if header.timestamp else {}),
    }
    made = {name: dumps(named[name]) if name in named else b"" for name in _ORDER}
    ours = {"cwd": cwd, "parent_session": header.parent_session}
    made.update((name, dumps(text)) for name, text in ours.items() if text)
    clash = {name: facts.pop(name) for name in _NO_FACTS & facts.keys()}
    made.update((name, dumps(value)) for name, value in facts.items())
    if clash:
        made["facts"] = dumps(clash)
    return made


def _header(ref: Found, made: Mapping[str, bytes], items: Sequence[Item]) -> Header:
    values = {name: _value(raw) for name, raw in made.items() if raw}
    texts = {name: value for name, value in values.items() if isinstance(value, str)}
    facts = {name: value for name, value in values.items() if name not in _NO_FACTS}
    nested = values.get("facts", {})
    facts.update(nested if isinstance(nested, dict) else {"facts": nested})
    # What is derived from entries is no fact; what another program had attached before them is one.
    context, attached = facts.pop("project_context", None), _attached(items)
    if isinstance(context, str) and attached:
        context = None if context == attached else context.removesuffix(_BETWEEN + attached)
    if context is not None:
        facts["project_context"] = context
    facts.setdefault("agent_type", _AGENT)
    if cwd := texts.get("cwd", ""):
        facts.setdefault("project_name", os.path.basename(cwd))
    times = (item.entry.timestamp for item in items if item.entry.timestamp)
    began = moment(dumps(values.get("created_at"))) or next(times, "")
    return Header(ref.id, began, cwd, texts.get("parent_session", ""), facts)


def _project_context(header: Header, items: Sequence[Item]) -> bytes | None:
    """For other programs; None if it is as it was."""
    attached, before = _attached(items), header.facts.get("project_context")
    if attached is None or not isinstance(before, str | None):
        return None
    if not attached:
        return dumps(before)
    return dumps(attached if before is None else before + _BETWEEN + attached)


def _attached(items: Sequence[Item]) -> str | None:
    """All that is attached to a session, each part under its name; None where nothing ever was."""
    parts = dict([item.context for item in items if item.context])
    texts = [f"# {name}{_BETWEEN}{text}" for name, text in parts.items() if text is not None]
    return _BETWEEN.join(texts) if parts else None


def _value(raw: bytes) -> Any:
    if len(raw) > _LONG and raw[:1] != b'"' and raw.count(b",") > _MOST_VALUES:
        return None
    try:
        return value_of(raw)
    except ValueError:
        return None  # like what has very many values, it is of no use; in the file it stays


def _lists(items: Sequence[Item], is_active: Sequence[bool]) -> dict[str, list[bytes]]:
    """What each list holds, laid out."""
    messages: list[bytes] = []
    decisions: list[bytes] = []
    others: list[bytes] = []
    needed = 0  # of `others`: decisions that nothing follows have no other place than their own list
    before: str | None = None
    for item, active in zip(items, is_active, strict=True):
        shown = (
            decisions if item.list == DECISIONS else messages if item.list == MESSAGES and active else None
        )
        text = None if shown is None else item.text(len(shown) + 1, before)
        if shown is None or text is None:
            others.append(item.record(len(messages)))
        else:
            if shown is decisions:
                others.append(_PLACE % (len(messages), len(decisions)))
            shown.append(text)
        if shown is not decisions:
            needed = len(others)
        before = item.entry.id
    return {MESSAGES: messages, DECISIONS: decisions, ENTRIES: others[:needed]}


def _list(items: Sequence[bytes]) -> list[bytes]:
    return [b"[\n    ", b",\n    ".join(items), b"\n  ]"] if items else [b"[]"]


def _items(document: Document) -> Sequence[Item]:
    """One for each entry. What was read, or printed once, is not laid out again."""
    items: list[Item] = document.memory.setdefault("items", [])
    for number, entry in enumerate(document.entries):
        if number < len(items):
            if items[number].entry is entry:
                continue
            del items[number:]  # of an append that came to nothing
        items.append(item_of(entry))
    return items[: len(document.entries)]


# --- a file as it is --------------------------------------------------------------------------------------


class _Odd(Exception):
    """There is something to say of a document, and so its lines are needed."""


def _sound(ref: Found, data: bytes) -> tuple[dict[str, Piece], dict[str, Sequence[Piece | None]]]:
    """The members of a document and the items of its lists, if it is as we write one."""
    check_utf8(data)
    views = _members_decoder.decode(data)
    length = sum(len(b"\n  : ,") + len(dumps(name)) + memoryview(raw).nbytes for name, raw in views.items())
    if len(b"{\n}") + length - 1 != len(data.rstrip()):
        raise _Odd  # there are other blanks, or a name twice
    left, may_be_crowded = MOST_ITEMS + len(LISTS), data.count(b",") >= MOST_ITEMS  # an empty one counts, too
    lists: dict[str, Sequence[Piece | None]] = {}
    for name in [name for name in LISTS if name in views]:
        if not _OBJECTS.match(memoryview(views[name])):
            raise _Odd  # before millions of other things are taken apart
        left -= count_of_items(memoryview(views[name]), left) if may_be_crowded else 0
        if left < 0:
            raise crowded(ref.path)
        lists[name] = _Views(_list_decoder.decode(views[name]))
    return {name: Piece(0, b"" if name in lists else bytes(raw)) for name, raw in views.items()}, lists


class _Views(Sequence["Piece | None"]):
    """Items of a list as they stand in the bytes of a document. They are copied when they are asked for."""

    def __init__(self, views: list[msgspec.Raw]) -> None:
        self.views = views

    def __len__(self) -> int:
        return len(self.views)

    @overload
    def __getitem__(self, at: int) -> Piece: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Piece]: ...
    def __getitem__(self, at: int | slice) -> Piece | Sequence[Piece]:
        if isinstance(at, slice):
            return [Piece(0, bytes(view)) for view in self.views[at]]
        return Piece(0, bytes(self.views[at]))


class _Other(NamedTuple):
    """An item of `entries`."""

    after: int
    found: dict[str, bytes]
    piece: Piece
    place: int


class _Reading:
    """A document being put together from what was found of it."""

    def __init__(
        self,
        ref: Found,
        members: Mapping[str, Piece],
        lists: Mapping[str, Sequence[Piece | None]],
        text: str | None = None,
        damage: Sequence[Damage] = (),
    ) -> None:
        """Without a `text` it must be as it should be, or it is refused: `_Odd`."""
        self._ref = ref
        self._members = members
        self._lists = lists
        self._text = text
        self._items: list[Item] = []
        self._said, self._places = array("q"), array("q")
        """The number of each message among the items, and its place in its list."""
        self._decided: set[int] = set()
        self._problems: Problems = []
        self._counted = 0, 1  # a place in the text, and the line it is in
        self._is_again = False
        """Whether what is read was read before, and so what is wrong with it was said."""
        self._is_damaged = bool(damage)
        for offset, reason in damage:
            self._say(offset, reason)

    def document(self, cwd: str) -> Document:
        self._look_at_members()
        self._assemble()
        made = {name: piece.raw if name not in LISTS else b"" for name, piece in self._members.items()}
        header = _header(self._ref, made, self._items)
        if MESSAGES not in made:
            made = {**_new_members(header, cwd), **made}
        memory = {"members": made, "items": self._items}
        entries = [item.entry for item in self._items]
        return Document(header, entries, self._problems, memory, self._is_damaged)

    def _look_at_members(self) -> None:
        for name, piece in self._members.items():
            if name in LISTS and piece.raw not in (b"", b"null"):
                self._leave_out(piece, f"{name!r} is no list")
            elif name == "id" and _value(piece.raw) != self._ref.id:
                self._say(piece.offset, "another id than that of its file; ignored")
        if MESSAGES not in self._members and not self._is_damaged:
            self._say(0, "there is no list of messages in it")
        if self._text is not None and not self._is_damaged and (bad := _NO_TEXT.search(self._text)):
            self._say(bad.start(), "bytes that are no UTF-8; shown as \ufffd")

    # --- in the session's own order ---------------------------------------------------------------------

    def _assemble(self) -> None:
        others = list(self._others())
        places = {item.entry.id: place for place, item in self._read(others)} if self._is_damaged else {}
        self._put_in_order(others, places, {})
        if not is_one_conversation(self._items, self._said):
            self._items, self._said, self._places, self._decided = [], array("q"), array("q"), set()
            self._is_again = True
            read = self._read(others)
            said = self._ids_of_messages()
            self._put_in_order(
                others,
                {item.entry.id: place for place, item in read},
                {place: said.get(item.entry.parent_id, 0) for place, item in read},
            )
            self._items = linked(self._items, dict(zip(self._said, self._places, strict=True)))

    def _put_in_order(
        self, others: Iterable[_Other], places: Mapping[str, int], earliest: Mapping[int, int]
    ) -> None:
        """Messages in the order of their list, and between them the `others`. A parent is before its child:
        where messages are lost, `after` counts too many of them, and where some were inserted, too few. So
        `places` has the place of each other by its id, and `earliest` by its place how many messages are
        before it at least."""
        waiting = deque(others)
        messages = self._lists.get(MESSAGES, ())
        for number, piece in enumerate(messages):
            while waiting and max(waiting[0].after, earliest.get(waiting[0].place, 0)) <= number:
                self._add_other(waiting.popleft())
            item = self._made(message_item, piece, number + 1)
            if item is None:
                continue
            share(item.entry, self._items[-1].entry if self._items else None)
            if isinstance(messages, _Views):
                item.stand_in(messages.views[number])
            while waiting and waiting[0].place <= places.get(item.entry.parent_id or "", 0):
                self._add_other(waiting.popleft())
            self._said.append(len(self._items))
            self._places.append(number + 1)
            self._items.append(item)
        while waiting:
            self._add_other(waiting.popleft())
        for number in range(len(self._lists.get(DECISIONS, ()))):
            self._add_decision(number)

    def _ids_of_messages(self) -> dict[str | None, int]:
        """The place of each message in its list, by its id."""
        found: dict[str | None, int] = {}
        for place, piece in enumerate(self._lists.get(MESSAGES, ()), 1):
            if item := self._made(message_item, piece, place):
                found.setdefault(item.entry.id, place)
        return found

    def _others(self) -> Iterator[_Other]:
        for number, piece in enumerate(self._lists.get(ENTRIES, ()), 1):
            if piece is not None:
                try:
                    found = dict(members(b"" if is_overfull(piece.raw) else piece.raw))
                    yield _Other(_number(found.pop("after", b"")), found, piece, number)
                except ValueError:
                    self._leave_out(piece, "no entry")

    def _read(self, others: Iterable[_Other]) -> list[tuple[int, Item]]:
        """The place of each item of `entries`, and what it puts there."""
        found: list[tuple[int, Item]] = []
        for other in others:
            item = None
            if "decision" not in other.found:
                with contextlib.suppress(ValueError, *REFUSED):
                    item = record_item(other.found, other.place, None)
            else:
                item = self._decision(_number(other.found["decision"]))
            if item is not None:
                found.append((other.place, item))
        return found

    def _add_other(self, other: _Other) -> None:
        if "decision" in other.found:
            self._add_decision(_number(other.found["decision"]))
            return
        try:
            self._items.append(record_item(other.found, other.place, self._last))
        except (ValueError, *REFUSED):
            self._leave_out(other.piece, "no entry")

    def _add_decision(self, number: int) -> None:
        """At its place, or behind everything; once."""
        if number not in self._decided:
            self._decided.add(number)
            if item := self._decision(number):
                self._items.append(item)

    def _decision(self, number: int) -> Item | None:
        decisions = self._lists.get(DECISIONS, ())
        if not 0 <= number < len(decisions):
            return None
        return self._made(partial(decision_item, session=self._ref.id), decisions[number], number + 1)

    def _made(
        self, read: Callable[[bytes, int, str | None], Item], piece: Piece | None, place: int
    ) -> Item | None:
        if piece is not None:  # else it is torn, and that was said
            try:
                if is_overfull(piece.raw):
                    raise ValueError
                return read(piece.raw, place, self._last)
            except (ValueError, *REFUSED):
                self._leave_out(piece, "no object")
        return None

    @property
    def _last(self) -> str | None:
        return self._items[-1].entry.id if self._items else None

    # --- what is to be said -----------------------------------------------------------------------------

    def _leave_out(self, piece: Piece, reason: str) -> None:
        self._say(piece.offset, f"{reason}; left out")
        self._is_damaged = True

    def _say(self, offset: int, reason: str) -> None:
        if self._text is None:
            raise _Odd
        counted, line = self._counted if self._counted[0] <= offset else (0, 1)
        self._counted = offset, line + self._text.count("\n", counted, offset)
        problem = Problem(self._ref.path, self._counted[1], reason)
        if problem not in self._problems and not (self._is_again and len(self._problems) > MOST):
            note(self._problems, problem)


def _number(raw: bytes) -> int:
    return int(raw) if raw.isdigit() and len(raw) < 10 else -1
