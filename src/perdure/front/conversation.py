"""A session that is talked in: what is said there, who answers, and what is queued while they do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress

from perdure.agent.aside import in_thread
from perdure.agent.events import QueueUpdate
from perdure.agent.models.resolver import wanted
from perdure.agent.session import AgentSession
from perdure.agent.tools import AgentToolResult
from perdure.errors import PerdureError, UsageError
from perdure.front import asking, recalling, starting
from perdure.front.face import Face, Running
from perdure.front.narration import Narrator, end_of, words
from perdure.front.opening import Meant
from perdure.front.output import Styled
from perdure.front.visible import one_line
from perdure.session.entry import SessionInfo
from perdure.session.session import Session


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

    async def start(self, *, model: str, thinking: str = "", name: str = "") -> None:
        await self.agent.start(
            model or None,
            session=self.session,
            is_new=self.meant.is_new,
            default_model=wanted(None),
            thinking=thinking or None,
        )
        if name and (self.meant.is_new or self.session.is_empty):
            self.agent.agent.note_change(SessionInfo(name))  # with the first message
        elif name:
            try:
                await self.agent.rename(name)
            except PerdureError as error:
                self._face.failed(error)
        self.is_ready = True
        if self.agent.servers:  # while its user types
            self._servers = asyncio.ensure_future(self._equip())

    @property
    def voice(self) -> str:
        """Who answers and how, in full."""
        model, thinking = self.agent.model, self.agent.agent.voice.thinking
        return f"{model.reference}:{thinking}" if model.reasoning else model.reference

    @property
    def who(self) -> str:
        """The same for people."""
        return self.voice.removesuffix(":off")

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
                    await self._watch(text, said, narrator)
            except PerdureError:
                if not narrator.is_said and not text.startswith("/"):
                    self._face.edit(text)
                raise
            finally:
                self.is_turn = False
                self.steering = self.follow_ups = ()
                self._queue_changed()
                narrator.end()
                if narrator.is_begun and (given_up := "\n".join(map(words, self.agent.given_up))):
                    self._face.edit(given_up)

    async def _watch(self, text: str, said: str, narrator: Narrator) -> None:
        """Only what its user typed names files: a command's words may be somebody else's."""
        notes: list[str] = []
        asked = await in_thread(asking.typed, text, self.cwd, notes.append)
        content = asked.content(said)
        starting.refuse_far_too_much(content, self.agent.model)
        async with aclosing(self.agent.send_message(content)) as events:
            async for event in events:
                if isinstance(event, QueueUpdate):
                    self.steering, self.follow_ups = event.steering, event.follow_up
                    self._queue_changed()
                narrator.see(event)
                while notes and narrator.is_said:
                    self._face.note(Styled(f"  {one_line(notes.pop(0))}", "dim"))
                self.show_notices()

    async def take_in_what_others_wrote(self) -> None:
        """So that what is said next stands behind it."""
        await in_thread(self.session.reload)
        await self.agent.move(self.session.head)
        self._face.note(Styled("What others wrote is read now; what is said next comes after it.", "yellow"))

    def queue(self, text: str, *, is_later: bool) -> bool:
        """Whether the turn that runs will say it. Files are said in a message of their own: they are read,
        and may be large."""
        if not self.is_turn or asking.names_files(text):
            return False
        try:
            if is_later:
                self.agent.follow_up(text)
                self.follow_ups = [*self.follow_ups, text]
            else:
                self.agent.steer(text)
                self.steering = [*self.steering, text]
        except UsageError:  # it has just ended
            return False
        return True

    async def run(self, text: str) -> None:
        """A command line of the user's; with a second `!`, the model is not told of it."""
        is_sent = not text.startswith("!")
        command = text.lstrip("!").strip()
        if not command:
            raise UsageError("There is no command behind the !", "as in !make test")
        begun = time.monotonic()
        self._face.line(Styled(f"{'!' if is_sent else '!!'} {one_line(command)}", "yellow"))
        self._face.doing("Running it")

        def watch(result: AgentToolResult) -> None:
            self._face.running([Running(command, begun, end_of(result))])

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
        self.is_ready = False
        if self._servers is not None:
            self._servers.cancel()
        try:
            await self.agent.close()
        finally:
            await in_thread(self.session.close)  # where the agent did not come to hold it
            if not self.is_said:
                await in_thread(self.meant.remove_if_unused)
