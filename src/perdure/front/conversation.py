"""A session that is talked in: what is said there, who answers, and what is queued while they do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from types import SimpleNamespace

from perdure.agent.aside import in_thread
from perdure.agent.events import QueueUpdate
from perdure.agent.models.resolver import wanted
from perdure.agent.session import AgentSession
from perdure.agent.tools import AgentToolResult
from perdure.errors import Conflict, PerdureError, UsageError
from perdure.front import asking, recalling, starting
from perdure.front.face import Face, Running
from perdure.front.narration import Narrator, words
from perdure.front.opening import Meant
from perdure.front.output import Styled
from perdure.front.visible import one_line
from perdure.session.entry import SessionInfo
from perdure.session.session import Session

_TAIL = 500
"""Characters of what a command printed that are looked at for its last line."""


class Conversation:
    def __init__(
        self,
        meant: Meant,
        session: Session,
        agent: AgentSession,
        face: Face,
        cwd: str,
        queue_changed: Callable[[], None],
    ) -> None:
        self.meant = meant
        self.session = session
        self.agent = agent
        self.cwd = cwd
        self.is_ready = False
        self.is_said = False
        """Whether something was said in it since it was opened."""
        self.is_turn = False
        """Whether what is typed now can still be said in the turn that runs."""
        self.steering: Sequence[str] = ()
        self.follow_ups: Sequence[str] = ()
        self._face = face
        self._queue_changed = queue_changed
        self._servers: asyncio.Future[None] | None = None
        self._noticed = 0

    async def start(self, options: SimpleNamespace, *, model: str, name: str) -> None:
        await self.agent.start(
            model or None,
            session=self.session,
            is_new=self.meant.is_new,
            default_model=wanted(None),
            thinking=options.thinking or None,
        )
        if name and (self.meant.is_new or self.session.is_empty):
            self.agent.agent.note_change(SessionInfo(name))  # with the first message
        elif name:
            await self.agent.rename(name)
        self.is_ready = True
        if self.agent.servers:  # while its user types
            self._servers = asyncio.ensure_future(self._equip())

    async def _equip(self) -> None:
        with suppress(PerdureError):  # which is among the notices
            await self.agent.ready()

    async def say(self, text: str) -> None:
        """A message, or a command of the agent's, to the end of what comes of it."""
        narrator = Narrator(self._face, self.agent.model.reference)
        self._face.doing("Sending")
        self.is_turn = True
        with self._noting_what_is_said():
            try:
                said = await self.agent.typed(text, lambda shown: self._face.line(shown))
                if said is not None:
                    await self._watch(said, narrator)
            except PerdureError as error:
                if not narrator.is_said:
                    self._face.edit(text)
                if isinstance(error, Conflict):
                    await self._take_in_what_others_wrote()
                raise
            finally:
                self.is_turn = False
                self.steering = self.follow_ups = ()
                self._queue_changed()
                narrator.end()
                if given_up := "\n".join(map(words, self.agent.given_up)):
                    self._face.edit(given_up)

    async def _take_in_what_others_wrote(self) -> None:
        """So that the next message stands behind it."""
        await in_thread(self.session.reload)
        await self.agent.move(self.session.head)
        self._face.note(Styled("What others wrote is read now; what is said next comes after it.", "yellow"))

    async def _watch(self, said: str, narrator: Narrator) -> None:
        content = await in_thread(asking.typed, said, self.cwd)
        starting.refuse_far_too_much(content, self.agent.model)
        async with aclosing(self.agent.send_message(content)) as events:
            async for event in events:
                if isinstance(event, QueueUpdate):
                    self.steering, self.follow_ups = event.steering, event.follow_up
                    self._queue_changed()
                narrator.see(event)
                self.show_notices()

    def queue(self, text: str, *, is_later: bool) -> None:
        """For the turn that runs; UsageError if it takes no more."""
        content = asking.typed(text, self.cwd)
        if not isinstance(content, str):
            raise UsageError("A picture is said in a message of its own")
        if is_later:
            self.agent.follow_up(content)
            self.follow_ups = [*self.follow_ups, content]
        else:
            self.agent.steer(content)
            self.steering = [*self.steering, content]

    async def run(self, text: str) -> None:
        """A command line of the user's; with a second `!`, the model is not told of it."""
        is_sent = not text.startswith("!")
        command = text.lstrip("!").strip()
        if not command:
            raise UsageError("There is no command behind the !", "as in !make test")
        begun = time.monotonic()
        self._face.line(Styled(f"! {one_line(command)}", "yellow"))
        self._face.doing("Running it")

        def watch(result: AgentToolResult) -> None:
            self._face.running([Running(command, begun, result.text[-_TAIL:])])

        with self._noting_what_is_said():
            try:
                ran = await self.agent.run_command(command, is_sent=is_sent, watch=watch)
            finally:
                self._face.running([])
        recalling.show_command(ran, self._face)

    @contextmanager
    def _noting_what_is_said(self) -> Iterator[None]:
        before = self.session.head
        try:
            yield
        finally:
            self.is_said |= self.session.head != before
            self.show_notices()

    def show_notices(self) -> None:
        """Those that nobody has seen."""
        new = self.agent.notices[self._noticed :]
        self._noticed += len(new)
        for notice in new:
            self._face.note(Styled(one_line(notice), "yellow"))

    async def close(self) -> None:
        """What arrived is kept; a new session in which nothing was said is removed."""
        if self._servers is not None:
            self._servers.cancel()
        try:
            await self.agent.close()
        finally:
            await in_thread(self.session.close)  # where the agent did not come to hold it
            if not self.is_said:
                await in_thread(self.meant.remove_if_unused)
