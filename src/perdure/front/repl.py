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
import stat
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from types import SimpleNamespace
from typing import NamedTuple

from perdure import __version__, config, registry
from perdure.agent.aside import in_thread
from perdure.agent.trust import Trust
from perdure.errors import Ambiguous, PerdureError, UsageError
from perdure.front import moving, opening, recalling, starting, trusting
from perdure.front.command_line import did_you_mean
from perdure.front.conversation import Conversation
from perdure.front.face import Face
from perdure.front.narration import words
from perdure.front.opening import Meant
from perdure.front.output import Output, OutputLost, Styled
from perdure.front.printed import Printed
from perdure.front.slash import COMMANDS, Slash
from perdure.session.session import Session

_AGAIN = 2.0
"""Seconds in which a second Ctrl+C leaves."""
_SHORT = 8
_COMMAND = re.compile(r"/([\w.:-]+)(?:\s+(.*))?", re.DOTALL)


class Profile(NamedTuple):
    """What makes the shell one program's."""

    program: str
    """Whose home keeps what was typed."""
    prompt: str
    commands: Mapping[str, Slash]


PI = Profile("pi", "> ", COMMANDS)


def repl(options: SimpleNamespace, out: Output, profile: Profile = PI) -> int:
    starting.check_tools(options)
    if options.message and _is_fed(out):
        raise UsageError(
            "There is a message, and stdin is no terminal",
            "--print sends both as one prompt; without a message, each line of stdin is one",
        )
    cwd = starting.in_directory(options.C)
    return asyncio.run(_run(options, out, profile, cwd))


async def _run(options: SimpleNamespace, out: Output, profile: Profile, cwd: str) -> int:
    shell = Shell(options, out, profile, cwd)
    shell.face = _face(shell, out, profile)
    return await shell.run()


def _face(shell: Shell, out: Output, profile: Profile) -> Face:
    if not out.is_terminal or not out.can_ask or config.setting("TERM", "dumb") == "dumb":
        from perdure.front.plain import Plain

        out.be_plain()
        return Plain(out, prompt=profile.prompt)
    from perdure.front.screen import Screen
    from perdure.front.typing_aid import Aid, Remembered
    from perdure.session import layouts

    aid = Aid(lambda: shell.known, shell.values, lambda: shell.cwd)
    history = Remembered(os.path.join(layouts.home_of(profile.program), "shell-history"))
    return Screen(out, prompt=profile.prompt, history=history, completer=aid)


def _is_fed(out: Output) -> bool:
    """Whether something may come in that nobody types."""
    try:
        mode = os.fstat(out.stdin.fileno()).st_mode if out.stdin is not None else 0
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


class Shell:
    face: Face

    def __init__(self, options: SimpleNamespace, out: Output, profile: Profile, cwd: str) -> None:
        self.options = options
        self.out = out
        self.cwd = cwd
        self.commands = profile.commands
        self._conversation: Conversation | None = None
        self._starting: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None
        """What is done with what was typed."""
        self._beside: set[asyncio.Task[None]] = set()
        self._waiting: deque[str] = deque()
        """Typed while something was done that takes no more words."""
        self._asked_about: set[str] = set()
        """Folders whose own settings are waiting for a yes."""
        self._interrupted_at = float("-inf")
        self._code: int | None = None
        self._error: Exception | None = None

    @property
    def conversation(self) -> Conversation:
        assert self._conversation is not None
        return self._conversation

    # --- its life ----------------------------------------------------------------------------------------

    async def run(self) -> int:
        with self._signals(), self._prints_told():
            try:
                if await self._begin():
                    await self.face.talk(self)
            except asyncio.CancelledError:
                if self._code is None:
                    raise
            finally:
                await self._end()
        if self._error is not None:
            raise self._error
        return self._code or 0

    async def _begin(self) -> bool:
        """Whether there is a conversation to begin with."""
        if self.options.resume is not None and self.face.is_drawn:
            meant = await self.find(self.options.resume)
        else:
            meant = await in_thread(opening.find_session, self.options, self.out, self.cwd)
        if meant is None or self._code is not None:
            return False
        await self.open(meant, model=self.options.model, name=self.options.name)
        if first := " ".join(self.options.message):
            self.enter(first)
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
        if self._conversation is None:
            return
        await self.conversation.close()
        with suppress(OSError, OutputLost):  # of a terminal that went away
            self.conversation.show_notices()
            self._say_how_to_go_on()

    def _say_how_to_go_on(self) -> None:
        """Unless there is nothing to go on with."""
        meant = self.conversation.meant
        if meant.is_kept and (self.conversation.is_said or not meant.is_new):
            command = starting.command_for(meant.ref, self.out.program)
            self.out.line(Styled(f"Resume: {command}", "dim"))
            self.out.flush()

    def leave(self, code: int) -> None:
        """End it, when the turn that is under way has kept what it has."""
        if self._code is None:
            self._code = code
        self.stop()
        self.face.leave()

    def stop(self) -> None:
        """End the running turn, or command. What waits for it is given back."""
        if self._waiting:
            self.face.edit("\n".join(self._waiting))
            self._waiting.clear()
            self._show_queue()
        if self._conversation is not None and self.conversation.is_ready:
            self.conversation.agent.abort()

    def interrupt(self, *, is_answered: bool = False) -> None:
        """Ctrl+C. `is_answered` says that it has ended something already."""
        now = time.monotonic()
        if now - self._interrupted_at < _AGAIN:
            return self.leave(130)
        self._interrupted_at = now
        if self._task is not None:
            self.stop()
        elif not is_answered:
            self.face.note(Styled("Ctrl+C again leaves, and so does Ctrl+D.", "dim"))

    @contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        actions: dict[str, Callable[[], None]] = {
            "SIGINT": self.interrupt,
            "SIGTERM": lambda: self.leave(128 + signal.SIGTERM),
            "SIGHUP": lambda: self.leave(128 + signal.SIGHUP),
        }
        caught = []
        for name, action in actions.items():
            number = getattr(signal, name, None)
            # What whoever started us wants ignored stays so: nohup, or a shell's background job.
            if number and signal.getsignal(number) is not signal.SIG_IGN:
                with suppress(NotImplementedError, RuntimeError):  # where loops have no signals
                    loop.add_signal_handler(number, action)
                    caught.append(number)
        try:
            yield
        finally:
            for number in caught:
                loop.remove_signal_handler(number)

    @contextmanager
    def _prints_told(self) -> Iterator[None]:
        """What extensions print is told like everything else: it would be written across the foot, or into an
        answer that somebody pipes on."""
        printed = Printed(asyncio.get_running_loop(), lambda line: self.face.note(Styled(line, "dim")))
        with redirect_stdout(printed), redirect_stderr(printed):
            yield

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

    async def open(self, meant: Meant, *, model: str = "", name: str = "") -> None:
        """Go on there. The conversation before it is let go of when this one is open: where that fails,
        everything is as it was."""
        session: Session | None = None
        try:
            cwd = config.here()  # which says it if the directory is gone
            session = await in_thread(meant.open)
            if not meant.is_new and (other := moving.elsewhere(meant, cwd)):
                match await moving.ask(other, cwd, self.face):
                    case "fork":
                        copied = await in_thread(opening.forked, session, meant.store, cwd)
                        await in_thread(session.close)
                        return await self.open(copied, model=model, name=name)
                    case "go":
                        os.chdir(other)
                        cwd = other
            agent = starting.agent_of(self.options, cwd, trusted=await self._is_trusted(cwd))
            if model:
                await in_thread(starting.find_model, agent, model, self.out)
        except BaseException:
            if session is not None:
                await in_thread(session.close)
            await in_thread(meant.remove_if_unused)
            with suppress(OSError):
                os.chdir(self.cwd)
            raise
        before = self._conversation
        self._conversation = Conversation(meant, session, agent, self.face, cwd, self._show_queue)
        if before is not None:
            await before.close()
            if before.is_said and before.meant.is_kept:
                self.face.note(
                    Styled(f"Left {before.session.id}; /resume {before.session.id} goes back.", "dim")
                )
        self.cwd = cwd
        await self._present(model, name)

    async def _is_trusted(self, cwd: str) -> bool:
        """Asked, or told, once."""
        decision = Trust().decision(cwd)
        if decision is not None or cwd in self._asked_about:
            return decision is not None and decision.is_trusted
        self._asked_about.add(cwd)
        return await self.face.aside(lambda: trusting.ask(cwd, self.out, may_ask=True))

    async def _present(self, model: str, name: str) -> None:
        """Who waits for the agent may type meanwhile."""
        session = self.conversation.session
        if session.is_empty:
            self.face.line(Styled(f"Perdure {__version__}. /help says what can be typed here.", "dim"))
        else:
            recalling.show(await in_thread(recalling.last_exchange, session), self.face)
        self._starting = asyncio.create_task(self._start(self.conversation, model, name))
        if not self.face.is_drawn:
            await self._starting

    async def _start(self, conversation: Conversation, model: str, name: str) -> None:
        """Without an agent there is nothing to be done here."""
        try:
            await conversation.start(self.options, model=model, name=name)
        except PerdureError as error:
            self._error = error
            return self.leave(error.exit_code)
        self.conversation.show_notices()
        if not conversation.session.is_empty:
            reference = conversation.agent.model.reference
            said = await in_thread(recalling.restored, conversation.session, reference)
            self.face.note(Styled(said, "dim"))
        self.face.doing("")

    # --- what is typed ------------------------------------------------------------------------------------

    def enter(self, text: str, *, is_later: bool = False) -> None:
        """Something was typed, at any moment."""
        if self._code is not None:
            return
        name = self._name_of(text)
        if self._task is None:
            self._task = asyncio.create_task(self._work_off(text))
        elif name and name in self.commands and self.commands[name].may_run_beside:
            task = asyncio.create_task(self.handle(text))
            self._beside.add(task)
            task.add_done_callback(self._beside.discard)
        else:
            if name or text.startswith("!") or not self._is_heard(text, is_later):
                self._waiting.append(text)
            self._show_queue()

    def _is_heard(self, text: str, is_later: bool) -> bool:
        """Whether the turn that runs takes it."""
        if self._conversation is None or not self.conversation.is_turn:
            return False
        try:
            self.conversation.queue(text, is_later=is_later)
        except PerdureError:  # then it is said when that turn is over; it may have ended just now
            return False
        return True

    def _show_queue(self) -> None:
        if self._conversation is not None:
            later = [*self.conversation.follow_ups, *self._waiting]
            self.face.queued([*map(words, self.conversation.steering)], [*map(words, later)])

    async def idle(self) -> None:
        """Wait until all that was typed is done."""
        while self._task is not None:
            await asyncio.wait([self._task])

    async def _work_off(self, text: str) -> None:
        try:
            while self._code is None:
                await self.handle(text)
                if not self._waiting:
                    break
                text = self._waiting.popleft()
                self._show_queue()
        finally:
            self._task = None

    async def handle(self, text: str) -> None:
        """One thing that was typed, to its end. What is wrong with it is told, and the talk goes on."""
        try:
            if self._starting is not None:
                await asyncio.wait([self._starting])
            if self._code is None:
                await self._handle(text)
        except PerdureError as error:
            self.face.failed(error)
        except OSError as error:
            self.face.failed(PerdureError(f"That failed: {error}"))
        except Exception as error:  # a defect, or a pipe that nobody reads any more: told at the top
            self._error = error
            self.leave(1)
        finally:
            self.face.doing("")

    async def _handle(self, text: str) -> None:
        if text.startswith("!"):
            return await self.conversation.run(text[1:])
        name = self._name_of(text)
        if name and name in self.commands:
            arguments = text.strip().partition(name)[2].strip()
            await registry.load(self.commands[name].runs)(self, arguments)
            return
        if name and name not in self.conversation.agent.commands:
            self.face.edit(text)
            near = did_you_mean(name, self.known)
            raise UsageError(f"There is no command /{name}{near}", "/help lists them")
        await self.conversation.say(text)

    def _name_of(self, text: str) -> str:
        """Of the command that it may be: a path is none."""
        found = _COMMAND.fullmatch(text.strip())
        return found[1] if found else ""

    @property
    def known(self) -> dict[str, str]:
        """Every command that can be typed, and what it does."""
        known = {command.name: command.summary for command in self.commands.values()}
        if self._conversation is not None:
            for command in self.conversation.agent.commands.values():
                known.setdefault(command.name, command.description)
        return dict(sorted(known.items()))

    def values(self, name: str, typed: str) -> Iterator[str]:
        """What may stand behind a command of this name."""
        if name in self.commands and (source := self.commands[name].completes):
            yield from registry.load(source)(self, typed)

    # --- what the foot of the screen says -------------------------------------------------------------------

    @property
    def facts(self) -> list[str]:
        """Model, share of its window, cost, session, directory."""
        if self._conversation is None or not self.conversation.is_ready:
            return ["starting"]
        agent, session = self.conversation.agent, self.conversation.session
        spent = agent.spent
        thinking = agent.agent.voice.thinking
        share = f"{100 * spent.tokens / max(spent.window, 1):.1f}% of {spent.window // 1000:,}k"
        return [
            agent.model.reference + (f":{thinking}" if thinking != "off" else ""),
            share if spent.tokens else "",
            f"${spent.cost:.4f}" if spent.cost else "",
            session.id[:_SHORT],
            config.as_typed(self.cwd),
        ]
