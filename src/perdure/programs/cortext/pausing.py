"""Putting a conversation down: it is saved with its status, then with a summary, and then committed.

Each step is complete before the next begins, and none waits for a later one: killed anywhere between, what is
there is right, and the next pause does what was left undone.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

from perdure.agent.aside import in_thread
from perdure.errors import PerdureError
from perdure.front.conversation import Conversation
from perdure.front.output import Output, Styled
from perdure.front.visible import one_line
from perdure.programs.cortext import repository, summary
from perdure.programs.cortext.git import Failed, Git
from perdure.programs.cortext.workspace import Workspace
from perdure.session import lifecycle
from perdure.session.entry import Custom
from perdure.session.lifecycle import CORTEXT
from perdure.session.session import Session
from perdure.session.stores import files
from perdure.session.stores.cortext_state import LOG

_DONE = {"paused": "Pause", "completed": "Complete"}
_MOST_SHOWN = 10


async def put_down(conversation: Conversation, status: str) -> None:
    """Saved, with that status."""
    await conversation.save()
    session = conversation.session
    before = await in_thread(lambda: lifecycle.recorded(session.header, [*session.entries]))
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


def secrets(session: Session, workspace: Workspace) -> list[str]:
    """What looks like one in the messages that HEAD does not have, by their lines."""
    from perdure.front.secrets import find

    name = os.path.join(_folder(session, workspace), LOG)
    with files.open_to_read(workspace.path, name) as file:
        there = files.read_all(file.fileno(), os.fstat(file.fileno()).st_size)
    before = _committed(workspace.path, name)
    before = before if there.startswith(before) else b""
    fresh = there[len(before) :].decode("utf-8", "replace").split("\n")
    found = find(enumerate(fresh, before.count(b"\n") + 1))
    return [f"{os.path.basename(LOG)}, line {each.line}: {each.kind} ({each.shown})" for each in found]


def is_wanted(found: Sequence[str], out: Output) -> bool:
    """Whether these secrets shall get into the repository."""
    out.note(Styled("What was said since the last commit seems to hold secrets:", "yellow"))
    more = len(found) - _MOST_SHOWN
    for each in [*found[:_MOST_SHOWN], *([f"… and {more} more"] if more > 0 else [])]:
        out.note(Styled(f"  {one_line(each)}", "yellow"))
    if not out.can_ask:
        out.note(Styled("Saved, and not committed: nobody is here to be asked.", "yellow"))
        return False
    answer = bool(out.ask("Commit it as it is?"))
    if not answer:
        out.note(Styled("Saved, and not committed; the next pause asks again.", "yellow"))
    return answer


def not_committed(why: str) -> str:
    return f"Saved, and not committed: {why}."


def committed(session: Session, workspace: Workspace, status: str) -> Styled:
    """Commit it, and say in a sentence what became of that: whatever keeps it from being committed, it is
    saved."""
    title = one_line(title_of(session))

    def said(is_session_only: bool) -> str:
        what = "session update" if is_session_only else _DONE[status]
        return f"[session] {what}: {title}\n\nSession state was saved: {session.id} is {status}.\n"

    try:
        made = repository.commit(workspace.path, _folder(session, workspace), said)
    except PerdureError as error:
        return Styled(one_line(error.said), "yellow")
    if made is None:
        return Styled("Nothing is new since the last commit.", "dim")
    where = f" on {made.branch}" if made.branch else ", on no branch: HEAD is detached"
    return Styled(one_line(f"Committed {made.id[:10]}{where}."), "dim")


def _folder(session: Session, workspace: Workspace) -> str:
    """The conversation's, as named from the workspace."""
    return os.path.dirname(os.path.dirname(os.path.relpath(session.ref.path, workspace.path)))


def _committed(workspace: str, name: str) -> bytes:
    """A file as HEAD has it; nothing, if it does not."""
    try:
        return Git(workspace).run("cat-file", "blob", f"HEAD:./{name}")
    except Failed:
        return b""


def title_of(session: Session) -> str:
    title = session.header.facts.get("title")
    return title if isinstance(title, str) and title else session.id
