"""What a listing says of a session: a fold of its entries that can go on where it stopped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from perdure.errors import PerdureError
from perdure.session import tree
from perdure.session.entry import Assistant, Custom, Entry, Message, SessionInfo, ToolCall
from perdure.session.stores import Found, Header, Store

LONGEST = 200
_LARGE = 2**26  # bytes that are not read for a title alone
_SPOKEN = frozenset({"user", "assistant", "system"})


class Summary(NamedTuple):
    title: str
    """Its name, or else the first thing the user said, on one line."""
    is_named: bool
    preview: str
    """The last thing anybody said, on one line."""
    messages: int
    turns: int
    """Those of them that somebody said: what tools answered is none."""
    kind: str
    """Whom it is with, or what kind of conversation it is, where the layout says so."""
    summary: str
    """Of where it stopped, on one line, where the layout keeps one."""
    created: str
    active: str
    """When somebody last said something; before that, when it was made."""
    opened: str
    """When it last became active, where the layout records that."""
    waits: bool
    """Whether the last word is a prompt, a tool's answer or a call: a turn that did not end."""
    status: str
    """The last word on it, where the layout records one."""
    cwd: str
    project: str
    """What else a layout calls the project it is about."""
    problem: str | None
    """What is wrong with it: the first reason, and how many more there are."""


class Tally(Struct, omit_defaults=True):
    """What the summary needs to know of the entries so far, and no more: it is kept with the catalog."""

    name: str = ""
    named_at: int = 0
    prompt: str = ""
    said: str = ""
    said_at: str = ""
    opened_at: str = ""
    messages: int = 0
    turns: int = 0
    waits: bool = False
    status: str = ""
    status_at: int = 0
    agent: str = ""
    summed_up_at: int = 0
    said_last: int = 0
    entries: int = 0

    def add(self, entries: Iterable[Entry]) -> None:
        """More of them, in the order of the tree."""
        last = None
        said: list[Entry] = []
        for entry in entries:
            self.entries += 1
            if entry.type == "message":
                self.messages += 1
                last = entry
                role = entry.role
                is_about_it = b'"transcript":false' in entry.raw
                self.said_last = self.said_last if is_about_it else self.entries
                self.turns += role in _SPOKEN
                if role == "user" and not self.prompt:
                    self.prompt = one_line(entry.text)
                if role in ("user", "assistant"):
                    self.said_at = entry.timestamp
                    said += [] if is_about_it else [entry]
            elif entry.type == "session_info" and isinstance(body := entry.body, SessionInfo):
                self.name = one_line(body.name) if isinstance(body.name, str) else ""
                self.named_at = self.entries
            elif entry.type == "custom" and isinstance(custom := entry.body, Custom):
                self._take(custom, entry.timestamp)
        if last is not None:
            self.waits = _waits(last)
        texts = (one_line(entry.text) for entry in reversed(said))
        self.said = next(filter(None, texts), self.said)

    def _take(self, said: Custom, timestamp: str) -> None:
        """What a program says of a session, whichever program that is."""
        match said:
            case Custom(custom_type="perdure.status", data={"status": str(status)}) if status:
                self.status, self.status_at = status, self.entries
                self.opened_at = timestamp if status == "active" else self.opened_at
            case Custom(custom_type="perdure.summary"):
                self.summed_up_at = self.entries
            case Custom(custom_type="perdure.agent", data={"agent": str(agent)}):
                self.agent = one_line(agent)

    def summary(self, header: Header, problems: Sequence[str] = ()) -> Summary:
        def fact(name: str) -> str:
            value = header.facts.get(name)
            return one_line(value) if isinstance(value, str) else ""

        newer = self.name if self.named_at > header.covers else ""
        name = newer or fact("title") or self.name
        return Summary(
            name or self.prompt,
            bool(name),
            self.said,
            self.messages,
            self.turns,
            self.agent or fact("agent") or fact("conversation_type"),
            "" if 0 < self.summed_up_at < self.said_last else fact("context_summary"),
            header.timestamp,
            self.said_at or header.timestamp,
            self.opened_at,
            self.waits,
            (self.status if self.status_at > header.covers else "") or fact("status"),
            header.cwd,
            project if isinstance(project := header.facts.get("project_name"), str) else "",
            first_of(problems),
        )


def of(header: Header, entries: Iterable[Entry], problems: Sequence[str] = ()) -> Summary:
    """Of all entries of a tree at once."""
    tally = Tally()
    tally.add(entries)
    return tally.summary(header, problems)


def title_of(store: Store, ref: Found) -> str:
    """By which people know a session again that they delete; whatever is wrong with it, it can be deleted."""
    try:
        page = store.read(ref) if ref.size < _LARGE else None
        return of(page.header, tree.fold(page.entries).entries).title if page else ""
    except (PerdureError, OSError, RecursionError, ValueError):
        return ""


def first_of(problems: Sequence[str]) -> str | None:
    if len(problems) < 2:
        return problems[0] if problems else None
    return f"{problems[0]} (and {len(problems) - 1} more)"


_NOT_SHOWN = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]P_^X][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b."  # sequences that terminals obey
    "|[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)


def one_line(text: str) -> str:
    """Fit to be shown: no line break, no escape sequence, nothing that turns the reading direction."""
    shown = " ".join(text.lstrip()[: 5 * LONGEST].split())
    if not shown.isprintable():  # which is quick to tell, and what follows is not
        shown = " ".join(_NOT_SHOWN.sub("", shown).split()).encode("utf-8", "replace").decode("utf-8")
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 1] + "…"


def _waits(last: Entry) -> bool:
    if last.role in ("user", "toolResult"):
        return True
    body = last.body
    return (
        isinstance(body, Message)
        and isinstance(body.message, Assistant)
        and any(isinstance(block, ToolCall) for block in body.message.content)
    )
