"""A session that is talked in: what is said there, who answers, and what is queued while they do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from perdure import config
from perdure.agent.aside import in_thread
from perdure.agent.events import AgentEvent, MessageEnd, QueueUpdate
from perdure.agent.memory import NO_MARKS
from perdure.agent.models import OFFLINE
from perdure.agent.models.resolver import wanted
from perdure.agent.session import AgentSession
from perdure.agent.tools import AgentToolResult
from perdure.errors import Conflict, NotSaved, PerdureError, UsageError
from perdure.front import asking, recalling, starting
from perdure.front.amounts import tokens
from perdure.front.face import Face, Running
from perdure.front.narration import Narrator, end_of, words
from perdure.front.opening import Meant
from perdure.front.output import Copyable, OutputLost, Styled
from perdure.front.visible import one_line
from perdure.session.entry import Assistant, Body, SessionInfo, User
from perdure.session.session import Session

if TYPE_CHECKING:
    from perdure.front.profile import Profile


_LOST = "what is shown above and not saved is lost; all that was saved before it is there"
_ALL_SAID = "all that was said is saved"


class Conversation:
    def __init__(
        self,
        meant: Meant,
        session: Session,
        agent: AgentSession,
        face: Face,
        cwd: str,
        profile: Profile,
        queue_changed: Callable[[], None],
    ) -> None:
        self.meant = meant
        self.session = session
        self.agent = agent
        self.cwd = cwd
        self.is_ready = False
        self.named_model = ""
        """The model that its user named for it: with -m, or /model."""
        self.is_said = False
        """Whether something was said in it since it was opened."""
        self.refusal: PerdureError | None = None
        """Why what was said last is not on disk; None if it is."""
        self.has_refused = False
        """Whether something was not taken, because it could not be saved."""
        self.has_failed = False
        """True if a turn failed: its model did not answer. What the disk refuses is no such turn."""
        self._answer: Assistant | None = None
        """The last one of the turn that runs."""
        self.is_turn = False
        """Whether what is typed now can still be said in the turn that runs."""
        self.steering: Sequence[str] = ()
        self.follow_ups: Sequence[str] = ()
        self.face = face
        self._profile = profile
        self._queue_changed = queue_changed
        self._servers: asyncio.Future[None] | None = None
        self._noticed = 0
        self._is_copy_named = False
        """Whether its user was told where the damaged file is that was replaced."""
        self._saving = asyncio.Lock()
        """A timer saves, too: not what is being closed."""

    async def start(self, *, model: str, thinking: str = "", name: str = "") -> None:
        self.named_model = model
        await self._profile.prepare(self)
        await self.agent.start(
            model or None,
            session=self.session,
            is_new=self.meant.is_new,
            default_model=wanted(None, self._profile.default_model),
            thinking=thinking or None,
        )
        if name:
            try:
                if self.meant.is_new:
                    self.session.refuse_if_nameless()
                    self.agent.agent.note_change(SessionInfo(name))  # with the first message
                else:
                    await self.agent.rename(name)
            except PerdureError as error:
                self.face.failed(error)
        self.is_ready = True
        if self.agent.servers:  # while its user types
            self._servers = asyncio.ensure_future(self._equip())

    @property
    def has_failure(self) -> bool:
        """Whether a message was not taken, or a turn failed."""
        return self.has_refused or self.has_failed

    @property
    def queued(self) -> tuple[Sequence[str], Sequence[str]]:
        """What is said next, and what afterwards."""
        return self.steering, self.follow_ups

    @property
    def voice(self) -> str:
        """Who answers and how, in full."""
        model, thinking = self.agent.model, self.agent.agent.voice.thinking
        return f"{model.reference}:{thinking}" if model.reasoning else model.reference

    @property
    def model_for_another(self) -> str:
        """The model for a session that is begun from this one; empty for an `offline` that nobody chose."""
        voice = self.agent.agent.voice
        is_stand_in = voice.model.model.provider == OFFLINE and not voice.is_chosen
        return "" if is_stand_in else self.voice

    async def choose_model(self, name: str) -> None:
        """Another model from the next message on; ModelError if it cannot be had. The session records it at
        once, or with its first message: an empty session stays empty."""
        await in_thread(self.agent.find_model, name)  # a key may have to be made
        self.agent.set_model(name)
        self.named_model = name
        if self.is_said or not self.meant.is_new:
            await self.agent.save()

    @property
    def who(self) -> str:
        """The same for people."""
        return self.voice.removesuffix(":off")

    @property
    def facts(self) -> list[str]:
        """Model, share of its window, cost, session, directory: what the foot of the screen says."""
        if not self.is_ready:
            return ["starting"]
        (used, most), cost = self._profile.used(self.agent), self.agent.spent.cost
        return [
            self.who,
            f"{100 * used / max(most, 1):.1f}% of {tokens(most)}" if used else "",
            f"${cost:.4f}" if cost else "",
            self._profile.short_id(self.session),
            config.as_typed(self.cwd),
        ]

    async def weigh(self) -> None:
        """What of the model's window is used: of a session that is not too long to be read for that."""
        if self.session.ref.size <= recalling.MOST_READ and not self.agent.is_busy:
            await self.agent.recall()

    def warn_of_damage(self, program: str) -> None:
        if problems := self.session.problems:
            doctor = self._profile.doctor(program, self.session.id)
            said = f"Damaged: {problems[0].brief}; what can be read goes on. `{doctor}` says more."
            self.face.note(Styled(one_line(said), "yellow"))

    async def _equip(self) -> None:
        with suppress(PerdureError):  # which is among the notices
            await self.agent.ready()

    async def say(self, text: str) -> None:
        """A message, or a command of the agent's, to the end of what comes of it."""
        self.refusal = None
        with self._turn() as narrator:
            try:
                said: str | None = text
                if self._profile.takes_agents_commands:
                    said = await self.agent.typed(text, lambda shown: self.face.line(shown))
                if said is not None:
                    await self._send(text, said, narrator)
            except PerdureError as error:
                if not narrator.is_said:
                    if isinstance(error, NotSaved | Conflict):
                        self.has_refused, self.refusal = True, error
                    if not text.startswith("/"):
                        self.face.edit(text)
                raise

    async def be_opened(
        self, prompt: str, marks: Mapping[str, Any] = NO_MARKS, *, may_fail: bool = False
    ) -> None:
        """By whom its user talks with, who is told this. What `may_fail` is no turn of the user's."""
        has_failed = self.has_failed
        try:
            with self._turn() as narrator, self._noting_failure():
                await self._watch(self.agent.speak_first(prompt, marks), narrator)
        finally:
            if may_fail:
                self.has_failed = has_failed

    @contextmanager
    def _turn(self) -> Iterator[Narrator]:
        narrator = Narrator(self.face, self.agent.model.reference)
        self.face.doing("Sending")
        self.is_turn = True
        with self._noting_what_is_said():
            try:
                yield narrator
            finally:
                self.is_turn = False
                self.steering = self.follow_ups = ()
                self._queue_changed()
                narrator.end()
                if narrator.is_begun and (given_up := "\n".join(map(words, self.agent.given_up))):
                    self.face.edit(given_up)

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        self._answer = None
        try:
            yield
        except PerdureError as error:
            self.has_failed |= not isinstance(error, NotSaved | Conflict)
            raise
        self.has_failed |= self._answer is not None and self._answer.stop_reason == "error"

    async def _send(self, text: str, said: str, narrator: Narrator) -> None:
        """Only what its user typed names files: a command's words may be somebody else's."""
        notes: list[str] = []
        asked = await in_thread(asking.typed, text, self.cwd, notes.append)
        content = asked.content(said)
        has_files = bool(asked.texts or asked.blocks) and bool(self.agent.tools)
        starting.refuse_far_too_much(content, self.agent.model, can_read_files=has_files)
        await self._profile.saying(self)
        with self._noting_failure():
            await self._watch(self.agent.send_message(content), narrator, notes)

    async def _watch(
        self, turn: AsyncGenerator[AgentEvent, None], narrator: Narrator, notes: Sequence[str] = ()
    ) -> None:
        """`notes` are about what is said first."""
        left = [*notes]
        is_begun = False
        async with aclosing(turn) as events:
            async for event in events:
                if isinstance(event, MessageEnd) and isinstance(event.message, User):
                    if is_begun:  # it was queued
                        self._profile.entered(self)
                    is_begun = True
                if isinstance(event, QueueUpdate):
                    self.steering, self.follow_ups = event.steering, event.follow_up
                    self._queue_changed()
                self.show_notices()  # what is noticed on the way to an answer stands before it
                narrator.see(event)
                while left and narrator.is_said:
                    self.face.note(Styled(f"  {one_line(left.pop(0))}", "dim"))
                if isinstance(event, MessageEnd) and isinstance(event.message, Assistant):
                    self._answer = event.message
                    await self._profile.answered(self)

    async def record(self, *bodies: Body) -> None:
        """What a program keeps beside what is said."""
        try:
            await self.agent.record(*bodies)
        except (NotSaved, Conflict) as error:
            self.has_refused, self.refusal = True, error
            raise
        self.is_said, self.refusal = True, None

    async def save(self) -> bool:
        """All that arrived and is not on disk yet. Whether there was something. What others wrote meanwhile
        is no reason to lose it."""
        async with self._saving:
            try:
                return await self._save()
            except Conflict as error:
                if self.agent.is_busy or error.is_displaced:
                    raise
                error.hint = "what is there is read first, and then it is tried again"
                self.face.failed(error)
                await self.take_in_what_others_wrote()
                return await self._save()

    async def _save(self) -> bool:
        before = self.session.head
        try:
            return self.is_ready and await self._profile.save(self)
        finally:
            self.is_said |= self.session.head != before

    async def save_for_the_last_time(self) -> PerdureError | None:
        """What keeps it from being saved, if something does."""
        try:
            await self._profile.end(self)
            await self.save()
            await self.look_on_disk()
        except PerdureError as error:
            is_displaced = isinstance(error, Conflict) and error.is_displaced
            if is_displaced:
                with suppress(PerdureError):
                    await self.save()  # what waits, behind what is there now
            if self.agent.has_unsaved:
                error.hint = _LOST
            elif is_displaced:
                error.hint = ""
            elif not self.has_refused and await self._is_whole():
                error.hint = _ALL_SAID
            return error
        return None

    async def look_on_disk(self) -> None:
        """Whether what was saved is there, whatever others did to the file: what was deleted is put back, and
        where that cannot be, it is raised."""
        if self.is_ready and self.meant.is_kept and (self.is_said or not self.session.is_empty):
            async with self._saving:
                head = self.session.head
                try:
                    await in_thread(self.session.append)
                except Conflict as error:
                    if error.is_displaced:
                        raise
                    await in_thread(self.session.reload)
                    if not await in_thread(lambda: any(each.id == head for each in self.session.entries)):
                        raise

    async def _is_whole(self) -> bool:
        with suppress(PerdureError):
            await self.look_on_disk()
            return True
        return False

    async def take_in_what_others_wrote(self) -> None:
        """So that what is said next stands behind it."""
        await in_thread(self.session.reload)
        await self._profile.prepare(self)
        await self.agent.move(self.session.head)
        self.face.note(Styled("What others wrote is read now; what is said next comes after it.", "yellow"))

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
        self.face.line(Copyable(f"{'!' if is_sent else '!!'} {one_line(command)}", "yellow"))
        self.face.doing("Running it")

        last: AgentToolResult | None = None

        def watch(result: AgentToolResult) -> None:
            nonlocal last
            last = result
            self.face.running([Running(command, begun, end_of(result))])

        with self._noting_what_is_said():
            try:
                ran = await self.agent.run_command(command, is_sent=is_sent, watch=watch)
            except PerdureError:
                if last is not None:  # it ran, and what it printed is not saved yet
                    self.face.line(Copyable(last.text))
                raise
            finally:
                self.face.running([])
        recalling.show_command(ran, self.face)
        if last is not None and last.details and "background" in last.details:
            left = (
                f"Still running in the background: {last.details['background']}; until this conversation ends"
            )
            self.face.note(Styled(one_line(left), "dim"))

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
        if self.session.set_aside and not self._is_copy_named:
            self._is_copy_named = True
            new.append(f"The damaged file is kept as {config.as_typed(self.session.set_aside)}")
        for notice in new:
            self.face.note(Styled(one_line(notice), "yellow"))

    async def close(self) -> None:
        """What arrived is kept; a new session in which nothing was said is removed."""
        async with self._saving:
            self.is_ready = False
        if self._servers is not None:
            self._servers.cancel()
        try:
            await self.agent.close()
        finally:
            await in_thread(self.session.close)  # where the agent did not come to hold it
            if not self.is_said:
                await in_thread(self.meant.remove_if_unused)
        with suppress(OSError, OutputLost):  # of a terminal that went away
            self.show_notices()
