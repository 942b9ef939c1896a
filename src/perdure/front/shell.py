"""The shell: somebody talks with an agent until they leave.

What is typed is a message, a command (`/name`), or a command line to run (`!make test`). While the agent
works, what is typed is queued for it. Whatever ends the shell (its user, a signal, a terminal that went away)
ends the turn first, which keeps what arrived, and the last line says how to go on.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

from perdure import config, registry
from perdure.agent.aside import in_thread
from perdure.agent.trust import Trust
from perdure.errors import Ambiguous, Conflict, Held, NotSaved, PerdureError, UsageError
from perdure.front import moving, opening, recalling, signals, starting, trusting
from perdure.front.command_line import did_you_mean
from perdure.front.conversation import Conversation
from perdure.front.face import Face
from perdure.front.narration import words
from perdure.front.opening import Meant
from perdure.front.output import Output, OutputLost, Styled
from perdure.front.printed import told_instead
from perdure.front.profile import Profile
from perdure.front.visible import one_line
from perdure.session.session import Session

_AGAIN = 2.0
"""Seconds in which a second Ctrl+C leaves."""
_STOPPED = 130
_LEAVES = ("quit", "exit", "q")
"""What fingers know, whichever of them is the command here."""
_COMMAND = re.compile(r"/([\w.:-]+)(?:\s+(.*))?", re.DOTALL)


class Shell:
    face: Face

    def __init__(self, profile: Profile, out: Output, cwd: str) -> None:
        self.profile = profile
        self.commands = profile.commands
        self.out = out
        self.cwd = cwd
        self._conversation: Conversation | None = None
        self._starting: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None
        """What is done with what was typed."""
        self._beside: set[asyncio.Task[None]] = set()
        self._waiting: deque[str] = deque()
        """Typed while something was done that takes no more words."""
        self._has_failed = False
        """True if a message was not taken, or a turn failed, in any conversation of this run."""
        self._is_stopped = False
        self._interrupted_at = float("-inf")
        self._code: int | None = None
        self._left = asyncio.Event()
        self.hurried = asyncio.Event()
        """Whether Ctrl+C was pressed since somebody began to do, or to leave, what they wait for now."""
        self._error: Exception | None = None
        self._has_begun = False
        """Whether it has gone on without a conversation, and can again."""

    @property
    def conversation(self) -> Conversation:
        assert self._conversation is not None
        return self._conversation

    @property
    def is_talking(self) -> bool:
        """Whether there is one."""
        return self._conversation is not None

    # --- its life ----------------------------------------------------------------------------------------

    async def run(self) -> int:
        signals.catch(self.interrupt, self.leave)
        with told_instead(lambda line: self.face.note(Styled(line, "dim"))):
            try:
                if await self._begin():
                    await self.face.talk(self)
            except asyncio.CancelledError:
                if self._code is None:
                    raise
            finally:
                await self._end()
                with suppress(ValueError):  # of another thread
                    signal.set_wakeup_fd(-1)  # all is saved, and a signal would only meet a loop half closed
        if self._error is not None:
            raise self._error
        return self._code or 0

    async def _begin(self) -> bool:
        """Whether there is a conversation to begin with."""
        meant = await self.profile.begin(self)
        if meant is None:
            self._has_begun = True
            return self.profile.goes_on_alone and self._code is None
        if self._code is not None:
            await in_thread(meant.remove_if_unused)
            return False
        if not await self.open(meant, **self.profile.wishes):
            return False
        if first := self.profile.first:
            self._task = asyncio.create_task(self._work_off(lambda: first(self)))
            if not self.face.is_drawn:
                await self.idle()
        return self._code is None

    async def _end(self) -> None:
        """Whatever happens, what was said is kept, and how to go on is said last."""
        under_way = {task for task in (self._task, self._starting, *self._beside) if task and not task.done()}
        if under_way:
            self.stop()
            _, under_way = await asyncio.wait(under_way, timeout=_AGAIN)
        for task in under_way:
            task.cancel()
        if under_way:
            await asyncio.wait(under_way)
        lost: PerdureError | None = None
        if self._conversation is not None:
            try:
                lost = await self.conversation.save_for_the_last_time()
            finally:
                await self.conversation.close()
            self._has_failed |= self.conversation.has_failure
        if lost is not None or (self._has_failed and not self.face.is_drawn):  # whose user sees no more
            self._code = self._code or 1
        with suppress(OSError, OutputLost):  # of a terminal that went away
            for text in self._waiting:
                self.face.edit(text)
            if self._conversation is None:
                return
            self.conversation.show_notices()
            if lost is not None:
                self.out.failed(lost)
            meant = self.conversation.meant
            is_there = meant.is_kept and os.path.lexists(meant.ref.path)
            if is_there and (self.conversation.is_said or not meant.is_new):
                self.profile.say_how_to_go_on(self, is_saved=lost is None)
                self.out.flush()

    def leave(self, code: int) -> None:
        """End it, when the turn that is under way has kept what it has."""
        is_first = self._code is None
        self._code = code if not self._code else self._code  # also a signal to who is leaving
        self._left.set()
        self.stop()
        if is_first:
            self.hurried.clear()
        self.face.leave()

    @property
    def leaves_with(self) -> int | None:
        """The exit code, as soon as it is certain that its user leaves: more than 128 after a signal."""
        return self._code

    @property
    def is_busy(self) -> bool:
        """Whether something is done with what was typed."""
        return self._task is not None

    def stop(self) -> None:
        """End the running turn, or command. What waits for it is given back; commands are not done."""
        self._is_stopped = True
        self.hurried.set()
        if self._code is None:
            waiting, self._waiting = self._waiting, deque()
            if messages := [text for text in waiting if not self._is_command(text)]:
                self.face.edit("\n".join(messages))
            for text in filter(self._is_command, waiting):
                self.face.note(Styled(f"Not done: {one_line(text)}", "dim"))
            self._show_queue()
        if self._conversation is not None and self.conversation.is_ready:
            self.conversation.agent.abort()

    def interrupt(self, *, is_answered: bool = False) -> None:
        """Ctrl+C. `is_answered` says that it has ended something already."""
        self.hurried.set()
        now = time.monotonic()
        is_beginning = self._conversation is None and not self._has_begun  # nothing could be lost
        if is_beginning or now - self._interrupted_at < _AGAIN:
            return self.leave(_STOPPED)
        self._interrupted_at = now
        if self._task is not None:
            self.stop()
        elif not is_answered and self._code is None:
            self.face.note(Styled("Ctrl+C again leaves, and so does Ctrl+D.", "dim"))

    def forgive(self) -> None:
        """The next Ctrl+C is the first one."""
        self._interrupted_at = float("-inf")

    # --- which conversation ------------------------------------------------------------------------------

    async def find(self, text: str) -> Meant | None:
        """The session that is meant by this, or the one its user picks; None if none."""
        if text:
            try:
                return await self.face.aside(lambda: opening.resumed(text, self.out))
            except Ambiguous:
                if not self.face.is_drawn:
                    raise
        from perdure.front.picker import pick_session

        row = await self.face.full_screen(
            lambda input, output: pick_session(
                self.cwd,
                query=text,
                everything=bool(text),
                has_colour=self.face.has_colour,
                exclude=self.conversation.meant.ref.path if self._conversation else "",
                input=input,
                output=output,
            )
        )
        return await in_thread(opening.at, row.path) if row is not None else None

    async def open(self, meant: Meant, *, model: str = "", thinking: str = "", name: str = "") -> bool:
        """Go on there; False if its user does not want to. The conversation before it is let go of when this
        one is ready: where that fails, everything is as it was."""
        made: Conversation | None = None
        session: Session | None = None
        before = self._conversation
        try:
            if before is not None:
                await before.save()
            cwd = config.here()  # which says it if the directory is gone
            session = await self._opened(meant)
            if self.profile.asks_where and not meant.is_new and (other := moving.elsewhere(meant, cwd)):
                where = await moving.ask(other, cwd, self.face)
                if where is None:
                    await in_thread(session.close)
                    return False
                if where == "fork":
                    copied = await in_thread(opening.forked, session, meant.store, cwd)
                    await in_thread(session.close)
                    is_open = await self.open(copied, model=model, thinking=thinking, name=name)
                    self.face.note(Styled(f"This is a fork of {meant.ref.id}, which stays as it is.", "dim"))
                    return is_open
                if where == "go":
                    cwd = starting.in_directory(other)
            agent = self.profile.agent(meant, cwd, trusted=await self._is_trusted(cwd))
            if model:
                await in_thread(starting.find_model, agent, model, self.out)
            made = Conversation(meant, session, agent, self.face, cwd, self.profile, self._show_queue)
            if before is not None:
                await made.start(model=model, thinking=thinking, name=name)
        except BaseException:
            if made is not None:
                await made.close()
            elif session is not None:
                await in_thread(session.close)
            await in_thread(meant.remove_if_unused)
            with suppress(OSError):
                os.chdir(self.cwd)
            raise
        self._conversation, self.cwd = made, cwd
        if before is not None:
            self._has_failed |= before.has_failure
            await before.close()
            if before.is_said and before.meant.is_kept:
                left = before.session.id
                self.face.note(Styled(f"Left {left}; {self.profile.goes_to} {left} goes back.", "dim"))
        await self._present(model, thinking, name)
        return True

    async def let_go(self) -> None:
        """Of the conversation, which is saved; the shell goes on without one."""
        conversation = self.conversation
        await conversation.save()
        self._conversation, self._has_begun = None, True
        self._has_failed |= conversation.has_failure
        await conversation.close()
        self._show_queue()

    async def change_to(self, meant: Meant, *, model: str = "") -> bool:
        """Go on there, if that is not here; with its own model, unless one is named."""
        if meant.ref.path == self.conversation.meant.ref.path:
            self.face.note(Styled("That is this session.", "dim"))
            return False
        is_open = await self.open(meant, model=model)
        if not is_open:
            self.face.note(Styled("Nothing was opened.", "dim"))
        return is_open

    async def _opened(self, meant: Meant) -> Session:
        try:
            return await self.profile.opened(self, meant)
        except Held as error:
            error.hint = self.profile.hint_when_held(self, meant.ref.id)
            raise

    async def ask(self, question: str) -> bool | None:
        """In the conversation; None if there is no answer, and where its user has left meanwhile."""
        if self._code is not None:
            return None
        return await self.face.aside(lambda: self.out.ask(question, in_conversation=True))

    async def _is_trusted(self, cwd: str) -> bool:
        """Asked, or told, once; and not of who has left."""
        decision = Trust().decision(cwd)
        if decision is not None or cwd in self.profile.asked_about or self._code is not None:
            return decision is not None and decision.is_trusted
        is_trusted = await self.face.aside(lambda: trusting.ask(cwd, self.out, may_ask=True))
        self.profile.asked_about.add(cwd)
        return is_trusted

    async def _present(self, model: str, thinking: str, name: str) -> None:
        """Who waits for the agent may type meanwhile."""
        conversation = self.conversation
        self.profile.greet(self)
        if not conversation.session.is_empty:
            last = await in_thread(self.profile.last_exchange, conversation.session)
            recalling.show(last, self.face)
        self._starting = asyncio.create_task(self._start(conversation, model, thinking, name))
        if not self.face.is_drawn:
            await self._done_or_left(self._starting)

    async def _start(self, conversation: Conversation, model: str, thinking: str, name: str) -> None:
        """Without an agent there is nothing to be done here."""
        try:
            if not conversation.is_ready:
                await conversation.start(model=model, thinking=thinking, name=name)
            self._show_queue()  # and with it what the foot says of the agent
            conversation.show_notices()
            if not conversation.session.is_empty:
                await self.profile.say_what_was_restored(self, conversation)
                await conversation.weigh()
                self._show_queue()
            conversation.warn_of_damage(self.out.program)
        except Exception as error:
            if self._has_begun and isinstance(error, PerdureError):  # and goes on without one
                self.face.failed(error)
                self._conversation = None
                await self.profile.end(conversation)
                return await conversation.close()
            self._error = error  # told at the top
            self.leave(error.exit_code if isinstance(error, PerdureError) else 1)

    # --- what is typed ------------------------------------------------------------------------------------

    def enter(self, text: str, *, is_later: bool = False) -> None:
        """Something was typed, at any moment."""
        if self._code is not None:
            return
        name = self._name_of(text)
        if self._task is None:
            self._task = asyncio.create_task(self._work_off(text))
        elif name and (name not in self.known or self._may_run_beside(name)):
            task = asyncio.create_task(self.handle(text))
            self._beside.add(task)
            task.add_done_callback(self._beside.discard)
        else:
            # What waits is done first, so what comes behind it waits, too.
            must_wait = self._waiting or self._is_command(text) or not self.is_talking
            if must_wait or not self.conversation.queue(text, is_later=is_later):
                self._waiting.append(text)
            self._show_queue()

    def _may_run_beside(self, name: str) -> bool:
        return name in self.commands and self.commands[name].may_run_beside

    def _is_command(self, text: str) -> bool:
        return self._is_command_line(text) or bool(self._name_of(text))

    def _is_command_line(self, text: str) -> bool:
        return self.profile.runs_command_lines and text.startswith("!")

    def _show_queue(self) -> None:
        steering, follow_ups = self.conversation.queued if self.is_talking else ((), ())
        self.face.queued([*map(words, steering)], [*map(words, (*follow_ups, *self._waiting))])

    async def ready(self) -> None:
        """Wait until there is an agent to talk with."""
        if self._starting is not None:
            await asyncio.wait([self._starting])

    async def idle(self) -> None:
        """Wait until all that was typed is done."""
        while self._task is not None and self._code is None:
            await self._done_or_left(self._task)

    async def _done_or_left(self, task: asyncio.Task[None]) -> None:
        """Who has left is not kept by it."""
        left = asyncio.ensure_future(self._left.wait())
        try:
            await asyncio.wait([task, left], return_when=asyncio.FIRST_COMPLETED)
        finally:
            left.cancel()

    async def _work_off(self, text: str | Callable[[], Awaitable[None]]) -> None:
        """What was typed, or what the program does first, and then all that was typed meanwhile."""
        try:
            while self._code is None:
                self._is_stopped = False
                self.hurried.clear()
                if self._starting is not None and not self._starting.done():
                    self.face.doing("Making the model ready")
                    await asyncio.wait([self._starting])
                if not self._is_stopped:
                    await (self.handle(text) if isinstance(text, str) else self._attempt(text))
                elif isinstance(text, str):
                    self.face.edit(text)
                self.face.doing("")
                if not self._waiting:
                    break
                text = self._waiting.popleft()
                self._show_queue()
        finally:
            self._task = None

    async def handle(self, text: str) -> None:
        """One thing that was typed, to its end. What is wrong with it is told, and the talk goes on."""
        await self._attempt(lambda: self._handle(text))

    async def _attempt(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            if self._code is None:
                await work()
        except signals.Interrupted as error:
            self.face.failed(error)
            if error.exit_code != _STOPPED:
                self.leave(error.exit_code)
        except Conflict as error:
            if error.needs_reload:  # which is done here
                error.advice = "" if error.also else "send it again"
            self.face.failed(error)
            try:
                if self.is_talking:
                    await self.conversation.take_in_what_others_wrote()
            except PerdureError as further:
                self.face.failed(further)
        except PerdureError as error:
            self.face.failed(error)
        except OSError as error:
            with suppress(OSError):  # of a terminal that went away
                self.face.failed(PerdureError(f"That failed: {error}"))
        except Exception as error:  # a defect, or a pipe that nobody reads any more: told at the top
            self._error = error
            self.leave(1)

    async def _handle(self, text: str) -> None:
        if self.is_talking:
            self.profile.entered(self.conversation)
        if self._is_command_line(text):
            return await self.conversation.run(text[1:])
        name = self._name_of(text)
        if name and name not in self.known:
            near = did_you_mean(f"/{name.lower()}", (f"/{each}" for each in self.known))
            raise UsageError(f"There is no command /{name}{near}", "/help lists them")
        if name:
            self.face.echo(text)
        if name in self.commands:
            command, arguments = self.commands[name], text.strip().partition(name)[2].strip()
            try:
                await registry.load(command.runs)(self, f"{command.given} {arguments}".strip())
            except (NotSaved, Conflict):
                if arguments:  # a decision, say, is not to be typed again
                    self.face.edit(text)
                raise
            return
        if not self.is_talking:
            self._has_failed = True
            self.face.edit(text)
            raise self.profile.unheard()
        await self.conversation.say(text)

    def _name_of(self, text: str) -> str:
        """Of the command that it may be: a path is none."""
        found = _COMMAND.fullmatch(text.strip())
        name = found[1] if found else ""
        return next((each for each in _LEAVES if each in self.known), name) if name in _LEAVES else name

    @property
    def known(self) -> dict[str, str]:
        """Every command that can be typed, and what it does."""
        known = {command.name: command.summary for command in self.commands.values()}
        if self._conversation is not None and self.profile.takes_agents_commands:
            for command in self.conversation.agent.commands.values():
                known.setdefault(command.name, command.description)
        return dict(sorted(known.items()))

    def values(self, name: str, typed: str) -> Iterator[str]:
        """What may stand behind a command of this name."""
        if name in self.commands and (source := self.commands[name].completes):
            yield from registry.load(source)(self, typed)

    @property
    def facts(self) -> list[str]:
        """What the foot of the screen says."""
        if self._conversation is not None:
            return self._conversation.facts
        return [config.as_typed(self.cwd)] if self._has_begun else ["starting"]
