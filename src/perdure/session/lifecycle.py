"""The statuses a session can have, and which may follow which.

A status is recorded as an entry, when it changes; the last word counts. Whether a session is really being
talked in is asked of its lock and never of that record: a process that dies records nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from perdure.errors import UsageError
from perdure.session.entry import Custom, Entry
from perdure.session.layouts import LAYOUTS, shown_status
from perdure.session.session import Session
from perdure.session.stores import Header

KIND = "perdure.status"
ACTIVE = "active"


class Lifecycle(NamedTuple):
    after: Mapping[str, tuple[str, ...]]
    """For each status those that may follow it."""
    when_dead: str
    """What an active session is whose process is gone."""
    reopened: tuple[str, ...] = ()
    """Statuses that become active again only if somebody insists."""

    def check(self, before: str, status: str, *, insist: bool = False) -> None:
        """Raise, naming what is allowed, unless `status` may follow `before`."""
        if status not in self.after:
            raise UsageError(f"Unknown status {status!r}", f"it is one of {', '.join(self.after)}")
        allowed = self.after.get(before, tuple(self.after))  # after one nobody here knows, any
        may_reopen = status == ACTIVE and before in self.reopened
        if status == before or status in allowed or (insist and may_reopen):
            return
        hint = f"after {before} it can become {' or '.join(allowed)}" if allowed else f"{before} is final"
        if may_reopen:
            hint = f"it is {before}, and becomes {ACTIVE} again only if you insist"
        raise UsageError(f"A session that is {before} cannot become {status}", hint)

    def shown(self, recorded: str, *, is_alive: bool) -> str:
        """What a listing says: an active session that nobody holds is one whose process died.

        Ask who holds it before reading what is recorded: a session that ends in between is then not dead.
        """
        return shown_status(self.when_dead, recorded, waits=False, is_held=is_alive)

    def resume(self, session: Session, *, insist: bool = False) -> str:
        """Make a session active that was just opened. Returns what it was before.

        Whoever was active in it is not any more, for the lock is ours: a death that nobody recorded is
        recorded first. A session in which nothing was said has had no such owner.
        """
        before = now(session) or ACTIVE
        changes = []
        if before == ACTIVE and next(session.newest_first(), None):
            before = self.when_dead
            changes.append(before)
        self.check(before, ACTIVE, insist=insist)
        if before != ACTIVE:
            changes.append(ACTIVE)
        if changes:
            session.append(*map(body, changes))
        return before

    def change(self, session: Session, status: str) -> None:
        """Record another status of a session we are in: how it ends, or that it rests or goes on."""
        before = now(session) or ACTIVE
        self.check(before, status)
        if before != status:
            session.append(body(status))


AURORA = Lifecycle(
    {
        ACTIVE: ("completed", "interrupted"),
        "completed": (ACTIVE,),
        "interrupted": (ACTIVE, "completed"),
    },
    when_dead=LAYOUTS["aurora"].when_dead,
)
CORTEXT = Lifecycle(
    {ACTIVE: ("paused", "completed"), "paused": (ACTIVE, "completed"), "completed": ()},
    when_dead=LAYOUTS["cortext"].when_dead,
    reopened=("completed",),
)


def body(status: str) -> Custom:
    return Custom(KIND, {"status": status})


def status_of(entry: Entry) -> str:
    """The status an entry records; empty if it records none."""
    if entry.type == "custom":
        match entry.body:
            case Custom(custom_type="perdure.status", data={"status": str(status)}):
                return status
    return ""


def now(session: Session) -> str:
    """The last word on the status of a session that is open."""
    newest = next(filter(None, map(status_of, session.newer(b"status"))), "")
    return newest or _known(session.header)


def recorded(header: Header, entries: Iterable[Entry]) -> str:
    """The last word on a session's status: of an entry the header does not know yet, or else the header's."""
    status = ""
    for number, entry in enumerate(entries):
        if number >= header.covers:
            status = status_of(entry) or status
    return status or _known(header)


def _known(header: Header) -> str:
    status = header.facts.get("status")
    return status if isinstance(status, str) else ""
