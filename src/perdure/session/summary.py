"""What a listing says of a session: a fold of its entries that can go on where it stopped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from perdure.errors import PerdureError
from perdure.session import tree
from perdure.session.entry import Assistant, Custom, Entry, Message, SessionInfo, ToolCall
from perdure.session.findings import how_many
from perdure.session.record import LONG
from perdure.session.stores import Excerpt, Found, Header, Problem, Store

LONGEST = 200
"""Characters of a text that stands for what was said: a title, a preview, a summary."""
_LONGEST_NAME = 10_000
"""And of a name, which is shown in full; more than this nobody gave it by hand."""
_SPOKEN = frozenset({"user", "assistant", "system"})


class Summary(NamedTuple):
    title: str
    """Its name, or else the first thing the user said, on one line."""
    is_named: bool
    preview: str
    """The last thing anybody said, on one line."""
    messages: int | None
    turns: int | None
    """Those of them that somebody said: what tools answered is none. None where not all of it was read."""
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
    root: str
    """The root of that project, where the session records it."""
    problem: str | None
    """What is wrong with it: the first reason, and how many more there are."""
    title_is_cut: bool
    preview_is_cut: bool
    summary_is_cut: bool
    """True if there is more of that text."""


class Tally(Struct, omit_defaults=True):
    """What the summary needs to know of the entries so far, and no more: it is kept with the catalog."""

    name: str = ""
    name_is_cut: bool = False
    named_at: int = 0
    prompt: str = ""
    prompt_is_cut: bool = False
    said: str = ""
    said_is_cut: bool = False
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
                    self.prompt, self.prompt_is_cut = _on_one_line(entry.text)
                if role in ("user", "assistant"):
                    self.said_at = entry.timestamp
                    said += [] if is_about_it else [entry]
            elif entry.type == "session_info" and isinstance(body := entry.body, SessionInfo):
                name = body.name if isinstance(body.name, str) else ""
                self.name, self.name_is_cut = _on_one_line(name, _LONGEST_NAME)
                self.named_at = self.entries
            elif entry.type == "custom" and (custom := _short(entry)):
                self._take(custom, entry.timestamp)
        if last is not None:
            self.waits = _waits(last)
        for entry in reversed(said):
            text, is_cut = _on_one_line(entry.text)
            if text:
                self.said, self.said_is_cut = text, is_cut
                break

    def _take(self, said: Custom, timestamp: str) -> None:
        """What a program says of a session, whichever program that is."""
        match said:
            case Custom(custom_type="perdure.status", data={"status": str(status)}) if status:
                self.status, self.status_at = status, self.entries
                self.opened_at = timestamp if status == "active" else self.opened_at
            case Custom(custom_type="perdure.summary"):
                self.summed_up_at = self.entries
            case Custom(custom_type="perdure.agent", data={"agent": str(agent)}):
                self.agent = _on_one_line(agent, _LONGEST_NAME)[0]

    def summary(self, header: Header, problems: Sequence[str] = (), messages: int | None = None) -> Summary:
        """`messages` is the session's own count of them, where it has one."""

        def fact(name: str, longest: int = _LONGEST_NAME) -> tuple[str, bool]:
            value = header.facts.get(name)
            return _on_one_line(value, longest) if isinstance(value, str) else ("", False)

        own = self.name, self.name_is_cut
        newer = own if self.named_at > header.covers else ("", False)
        names = [each for each in (newer, fact("title"), own) if each[0]]
        title, title_is_cut = names[0] if names else (self.prompt, self.prompt_is_cut)
        is_outdated = 0 < self.summed_up_at < self.said_last
        summary, summary_is_cut = ("", False) if is_outdated else fact("context_summary", LONGEST)
        return Summary(
            title,
            bool(names),
            self.said,
            self.messages if messages is None else messages,
            self.turns,
            self.agent or fact("agent")[0] or fact("conversation_type")[0],
            summary,
            header.timestamp,
            self.said_at or header.timestamp,
            self.opened_at,
            self.waits,
            (self.status if self.status_at > header.covers else "") or fact("status", LONGEST)[0],
            header.cwd,
            project if isinstance(project := header.facts.get("project_name"), str) else "",
            root if isinstance(root := header.facts.get("project_root"), str) else "",
            first_of(problems),
            title_is_cut,
            self.said_is_cut,
            summary_is_cut,
        )


def of(header: Header, entries: Iterable[Entry], problems: Sequence[str] = ()) -> Summary:
    """Of all entries of a tree at once."""
    tally = Tally()
    tally.add(entries)
    return tally.summary(header, problems)


def of_session(store: Store, ref: Found) -> Summary:
    """Of one that is read for it: whole, if it is not very large."""
    excerpt = getattr(store, "excerpt", None)  # not each store keeps files
    if excerpt is not None and (part := excerpt(ref)):
        return of_excerpt(part, str)
    page = store.read(ref)
    folded = tree.fold(page.entries)
    return of(page.header, folded.entries, [*map(str, page.problems), *folded.notices])


def of_excerpt(excerpt: Excerpt, tell: Callable[[Problem], str]) -> Summary:
    """Of a session whose middle nobody read: how much is said in it is known only if it says so itself.
    `tell` makes a sentence of what is wrong with it."""
    tally = Tally()
    tally.add(excerpt.first)
    prompt = tally.prompt, tally.prompt_is_cut
    tally.add(excerpt.last)
    tally.prompt, tally.prompt_is_cut = prompt  # what comes after the middle is not the first that was said
    first = tell(excerpt.problems[0]) if excerpt.problems else None
    problem = f"{first} (and more)" if excerpt.problems[1:] else first
    return tally.summary(excerpt.header)._replace(problem=problem, messages=excerpt.messages, turns=None)


def title_of(store: Store, ref: Found) -> str:
    """By which people know a session again that they delete; whatever is wrong with it, it can be deleted."""
    try:
        return of_session(store, ref).title
    except (PerdureError, OSError, RecursionError, ValueError):
        return ""


def _short(entry: Entry) -> Custom | None:
    """What a program says in it, if that may be about the session: its data may be of any size."""
    return body if len(entry.line) < LONG and isinstance(body := entry.body, Custom) else None


def first_of(problems: Sequence[str]) -> str | None:
    if len(problems) < 2:
        return problems[0] if problems else None
    return f"{problems[0]} (and {how_many(problems) - 1:,} more)"


_NOT_SHOWN = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]P_^X][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b."  # sequences that terminals obey
    "|[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)

_WORD = re.compile(r"\S")


def one_line(text: str) -> str:
    """Fit to be shown: no line break, no escape sequence, nothing that turns the reading direction."""
    return _on_one_line(text)[0]


def _on_one_line(text: str, longest: int = LONGEST) -> tuple[str, bool]:
    """The same, and whether there was more of it."""
    text = text.lstrip()
    shown = " ".join(text[: 5 * longest].split())
    if not shown.isprintable():  # which is quick to tell, and what follows is not
        shown = " ".join(_NOT_SHOWN.sub("", shown).split()).encode("utf-8", "replace").decode("utf-8")
    if len(shown) > longest:
        return shown[: longest - 1] + "…", True
    return shown, _WORD.search(text, 5 * longest) is not None


def _waits(last: Entry) -> bool:
    if last.role in ("user", "toolResult"):
        return True
    body = last.body
    return (
        isinstance(body, Message)
        and isinstance(body.message, Assistant)
        and any(isinstance(block, ToolCall) for block in body.message.content)
    )
