"""A session on its way out: what in it looks like a secret, and the same session with that masked.

It is read once, so that what is written is what was searched, and every format is made from the same entries.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator, Sequence
from typing import Any, NamedTuple, cast

from perdure.front.amounts import counted
from perdure.front.output import Output, Styled
from perdure.front.redaction import Redaction
from perdure.front.secrets import masked, without_secrets
from perdure.front.visible import one_line
from perdure.session import tree
from perdure.session.entry import Entry, decode
from perdure.session.record import dumps, loads_exactly
from perdure.session.stores import START, Cursor, Found, Page, Problems, Store

WRITE, REDACT, CANCEL = "write", "redact", "cancel"
_MOST_SHOWN = 10
_ON_EVERY_BRANCH = ("label", "session_info")
_USUAL = re.compile(r"entry [0-9a-f-]{1,36} \([A-Za-z_]{1,20}\)")


class Finding(NamedTuple):
    where: str
    kind: str
    shown: str
    is_aside: bool
    """Whether it is on another branch than the conversation, which a document to read does not show."""
    number: int
    """Of the secret: the same one may be in many entries, and an entry may have two that look alike."""

    def __str__(self) -> str:
        return f"{self.where}: {self.kind} ({self.shown})"


class Outgoing:
    """One session as it is now. `found` is what looks like a secret in it."""

    def __init__(self, store: Store, ref: Found) -> None:
        self._store, self._ref = store, ref
        self._page = store.read(ref)
        self._redaction = Redaction(1 + len(self._page.entries), self._part)
        self.found = [*dict.fromkeys(self._findings())]

    def _part(self, at: int) -> Any:
        return _records(self._page.entries[at - 1]) if at else _about(self._ref, self._page)

    def _findings(self) -> Iterator[Finding]:
        entries = self._page.entries
        on_path: set[str] = set()
        numbers: dict[str, int] = {}
        for hit in self._redaction.hits:
            where, is_aside = without_secrets(hit.field), False
            if hit.value:
                entry = entries[hit.value - 1]
                on_path = on_path or {each.id for each in tree.path(entries, tree.fold(entries).ends.head)}
                where = f"entry {entry.id} ({entry.role or entry.type})"
                where = where if _USUAL.fullmatch(where) else without_secrets(where)
                is_aside = entry.id not in on_path and entry.type not in _ON_EVERY_BRANCH
            number = numbers.setdefault(hit.secret, len(numbers))
            yield Finding(where, hit.kind, masked(hit.secret), is_aside, number)

    def how_many(self, found: Sequence[Finding]) -> str:
        """How many secrets these are, and of how many not every place is known."""
        there_are = counted(len({each.number for each in found}), "secret")
        more = self._redaction.only_named
        return f"{there_are}, {more:,} of them only where their names stand" if more else there_are

    def chosen(self, answer: str) -> tuple[Store, Found]:
        """As it is, or redacted."""
        if answer == REDACT:
            return self.redacted()
        return _snapshot(self._store, self._ref, self._page), self._ref

    def redacted(self) -> tuple[Store, Found]:
        """With every secret masked."""
        about = self._redaction.redacted(0)
        problems = zip(self._page.problems, about["problems"], strict=True)
        page = self._page._replace(
            header=self._page.header._replace(**about["header"]),
            entries=[self._redacted(at, entry) for at, entry in enumerate(self._page.entries, 1)],
            problems=[problem._replace(**told) for problem, told in problems],
        )
        return _snapshot(self._store, self._ref, page), self._ref._replace(**about["ref"])

    def _redacted(self, at: int, entry: Entry) -> Entry:
        if at not in self._redaction.places:
            return entry
        made = self._redaction.redacted(at)[0]
        if isinstance(made, str):
            return Entry(entry.type, entry.id, entry.parent_id, entry.timestamp, made.encode())
        return decode(dumps(made))


def _about(ref: Found, page: Page) -> dict[str, Any]:
    """What there is of a session beside its entries."""
    header = page.header._asdict() | {"facts": dict(page.header.facts)}
    del header["covers"]
    problems = [{"path": problem.path, "reason": problem.reason} for problem in page.problems]
    return {"header": header, "ref": {"id": ref.id, "path": ref.path}, "problems": problems}


def _records(entry: Entry) -> list[Any]:
    """Its values; its text, where it is nested too deeply for all of them to be read. Behind them is what
    they hide: it is searched, and not written where secrets are masked."""
    try:
        record = loads_exactly(entry.raw)
        return [record] if dumps(record) == entry.raw else [record, *_hidden(entry.raw)]
    except (RecursionError, ValueError):
        return [entry.raw.decode("utf-8", "replace")]


def _hidden(raw: bytes) -> list[Any]:
    """Members of which another one with the same name stands behind them: no reader gets these, but they are
    in the bytes. All of the text, where they cannot be told."""
    found: list[Any] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        last = {name: at for at, (name, _) in enumerate(pairs)}
        found.extend({name: value} for at, (name, value) in enumerate(pairs) if at != last[name])
        return dict(pairs)

    text = raw.decode("utf-8", "replace")
    try:
        json.loads(text, object_pairs_hook=members)
    except (RecursionError, ValueError):
        return [text]
    return found


class _Snapshot:
    """A store that has this one session, and reads no other."""

    def __init__(self, store: Store, ref: Found, page: Page) -> None:
        self.name = store.name
        self._store, self._ref, self._page = store, ref, page

    def read(self, ref: Found, after: Cursor = START) -> Page:
        return self._page

    def read_back(self, ref: Found, problems: Problems | None = None) -> Generator[Entry, None, None]:
        if problems is not None:
            problems += self._page.problems
        yield from reversed(self._page.entries)

    def holder(self, ref: Found) -> int | None:
        return self._store.holder(self._ref)


def _snapshot(store: Store, ref: Found, page: Page) -> Store:
    return cast("Store", _Snapshot(store, ref, page))  # what only reads asks for nothing else


# --- what its user says to it ----------------------------------------------------------------------------


def tell(found: Sequence[Finding], out: Output) -> None:
    """Name them."""
    out.note(Styled("This session seems to hold secrets:", "yellow"))
    more = len(found) - _MOST_SHOWN
    for each in [*map(str, found[:_MOST_SHOWN]), *([f"… and {more:,} more"] if more > 0 else [])]:
        out.note(Styled(f"  {one_line(each)}", "yellow"))


def choice(found: Sequence[Finding], out: Output, redact: str, *, may_ask: bool = True) -> str | None:
    """What becomes of them: they are written as they are, or masked, or nothing is written; None is no
    answer. Where nobody can be asked they are written, and `redact` says how to mask them."""
    tell(found, out)
    if not (may_ask and out.can_ask):
        out.note(Styled(one_line(f"They are written as they are; {redact} masks them."), "yellow"))
        return WRITE
    return out.choose("Write them as they are, redact them, or cancel?", (WRITE, REDACT, CANCEL), CANCEL)
