"""Putting a conversation down: it is saved with its status, then with a summary, and then committed.

Each step is complete before the next begins, and none waits for a later one: killed anywhere between, what is
there is right, and the next pause does what was left undone.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from perdure.agent.aside import in_thread
from perdure.errors import PerdureError
from perdure.front.conversation import Conversation
from perdure.front.output import Styled
from perdure.front.visible import one_line
from perdure.programs.cortext import repository, summary
from perdure.programs.cortext.workspace import Workspace
from perdure.session import lifecycle
from perdure.session.entry import Custom
from perdure.session.lifecycle import CORTEXT
from perdure.session.session import Session

if TYPE_CHECKING:
    from perdure.programs.cortext.searching import Searched

_DONE = {"paused": "Pause", "completed": "Complete"}


async def put_down(conversation: Conversation, status: str) -> None:
    """Saved, with that status."""
    await conversation.save()
    session = conversation.session
    before = await in_thread(lifecycle.now, session)
    CORTEXT.check(before or lifecycle.ACTIVE, status)
    if before != status:
        await conversation.record(lifecycle.body(status))
    else:
        await in_thread(session.append)  # nothing, which completes a transcript that was cut meanwhile


async def summarise(conversation: Conversation, hurried: asyncio.Event) -> str:
    """Where it stopped, kept with it if that is another summary than before."""
    said = await summary.of(conversation, hurried)
    session = conversation.session
    if said != await in_thread(lambda: session.header.facts.get("context_summary")):
        await conversation.record(Custom("perdure.summary", {"summary": said}))
    return said


def searched(session: Session, workspace: Workspace, status: str) -> Searched:
    """What looks like a secret in all that a commit would bring."""
    from perdure.programs.cortext.searching import search

    return search(workspace.path, _folder(session, workspace), _message(session, status))


def not_committed(why: str) -> str:
    return f"Saved, and not committed: {why}."


def committed(
    session: Session, workspace: Workspace, status: str, seen: Collection[tuple[str, str]]
) -> Styled:
    """Commit what was looked through, and say in a sentence what became of that: whatever keeps it from being
    committed, it is saved."""

    def said(is_session_only: bool) -> str:
        return _message(session, status, "session update" if is_session_only else "")

    try:
        made = repository.commit(workspace.path, _folder(session, workspace), said, seen=seen)
    except PerdureError as error:
        return Styled(one_line(error.said), "yellow")
    if made is None:
        return Styled("Nothing is new since the last commit.", "dim")
    where = f" on {made.branch}" if made.branch else ", on no branch: HEAD is detached"
    return Styled(one_line(f"Committed {made.id[:10]}{where}."), "dim")


def _message(session: Session, status: str, what: str = "") -> str:
    title = one_line(title_of(session))
    done = what or _DONE[status]
    return f"[session] {done}: {title}\n\nSession state was saved: {session.id} is {status}.\n"


def _folder(session: Session, workspace: Workspace) -> str:
    """The conversation's, as named from the workspace."""
    return os.path.dirname(os.path.dirname(os.path.relpath(session.ref.path, workspace.path)))


def title_of(session: Session) -> str:
    title = session.header.facts.get("title")
    return title if isinstance(title, str) and title else session.id
