"""`pi --print`: one prompt, its answer on stdout, and nothing else there.

The answer is written when it is saved. Whatever ends the run early (a signal, a reader that went away, a full
disk) leaves a session that goes on from what was saved, and an exit code that says so.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager, redirect_stdout
from types import SimpleNamespace

from perdure import config
from perdure.agent.aside import in_thread, when_free
from perdure.agent.draft import Draft
from perdure.agent.events import (
    AgentEvent,
    AutoRetryStart,
    CompactionEnd,
    MessageEnd,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnStart,
    to_json,
)
from perdure.agent.models.resolver import wanted
from perdure.agent.session import AgentSession
from perdure.errors import Held, PerdureError, UsageError
from perdure.front import signals, starting, trusting, waiting
from perdure.front.asking import Asked, prompt
from perdure.front.moving import elsewhere, stays
from perdure.front.opening import Meant, find_session
from perdure.front.output import Copyable, Output, Styled
from perdure.front.visible import fit, one_line
from perdure.session.entry import Assistant, SessionInfo
from perdure.session.record import dumps
from perdure.session.session import Session
from perdure.session.stores.pi_format import header_record


def oneshot(options: SimpleNamespace, out: Output) -> int:
    cwd = starting.in_directory(options.C)
    asked = _asked(options, cwd, out)
    starting.check_tools(options)
    trusted = trusting.ask(cwd, out, may_ask=options.mode != "json")
    with redirect_stdout(sys.stderr):  # for what extensions print: stdout is for the answer, and `out` has it
        agent = starting.agent_of(options, cwd, trusted=trusted)
        if options.model:
            starting.find_model(agent, options.model, out)  # or a fork would be made for nothing
        return asyncio.run(_Run(agent, options, out, cwd).talk(asked))


class _Run:
    def __init__(self, agent: AgentSession, options: SimpleNamespace, out: Output, cwd: str) -> None:
        self._agent = agent
        self._options = options
        self._out = out
        self._cwd = cwd
        self._meant: Meant | None = None
        self._signal = 0
        self._is_json = options.mode == "json"
        self._last: Assistant | None = None
        self._draft: Draft | None = None
        """The answer under way."""
        self._is_said = False
        self._doing = "Opening the session"
        self._noticed = 0
        """How many of the agent's notices were shown."""

    async def talk(self, asked: Asked) -> int:
        try:
            with self._signals():
                async with self._agent, self._showing_that_time_passes():
                    self._meant = await in_thread(find_session, self._options, self._out, self._cwd)
                    session = await self._opened(self._meant)
                    return await self._talk(asked, self._meant, session)
        except asyncio.CancelledError:
            if not self._signal:
                raise
            return 128 + self._signal
        finally:
            if self._meant is not None and not self._is_said:
                await in_thread(self._meant.remove_if_unused)
            self._show_notices()
            self._say_how_to_go_on()

    async def _opened(self, meant: Meant) -> Session:
        """Who presses Ctrl+D while another process holds the session does not wait for it to leave."""
        is_over = asyncio.Event()
        notice = waiting.WaitNotice(self._out, self._out.note)

        def wait(error: Held) -> None:
            if is_over.is_set():
                raise error
            self._doing = "Waiting for the session"
            if self._out.is_watched:
                notice.show(error)

        try:
            with waiting.watch_for_ctrl_d(self._out, is_over.set):
                return await when_free(meant.open, waiting=wait)
        except Held as error:
            error.hint = starting.when_held(meant.ref.id, self._out.program)
            raise

    async def _talk(self, asked: Asked, meant: Meant, session: Session) -> int:
        self._doing = "Making the model ready"
        await self._agent.start(
            self._options.model or None,
            session=session,
            is_new=meant.is_new,
            default_model=wanted(None),
            thinking=self._options.thinking or None,
        )
        if self._out.is_watched:
            self._agent.notices += await in_thread(self._agent.slips_in_settings)
        self._say_what_is_unexpected(meant)
        if self._options.name:
            session.refuse_if_nameless()
            self._agent.agent.note_change(SessionInfo(self._options.name))
        said = await self._typed(asked, session)
        if said is None:
            if self._options.name and session.head is not None:
                await self._agent.rename(self._options.name)
            return 128 + self._signal if self._signal else 0
        content = asked.content(said)
        if not said.strip() and not (asked.texts or asked.blocks):
            raise UsageError(f"{asked.said.split()[0]} makes an empty prompt of that", "give it arguments")
        has_files = any(word.startswith("@") for word in self._options.message) and bool(self._agent.tools)
        starting.refuse_far_too_much(content, self._agent.model, can_read_files=has_files)
        if self._is_json:
            cwd = meant.header.cwd or config.here()
            self._line(dumps(header_record(meant.header._replace(id=session.id, cwd=cwd))))
        try:
            async with aclosing(self._agent.send_message(content)) as events:
                async for event in events:
                    self._show_notices()
                    self._see(event)
        except PerdureError:
            if self._draft is not None and not self._is_json:
                self._print(self._draft.message())  # it could not be saved, and is shown before it is lost
            raise
        return self._answer()

    async def _typed(self, asked: Asked, session: Session) -> str | None:
        """What is said to the model; None if a command has done it all, and its answer is shown."""
        shown: list[str] = []
        if asked.said.startswith("/"):
            self._doing = f"Running {asked.said.partition(' ')[0]}"
        before = session.head
        said = await self._agent.typed(asked.said, shown.append)
        self._is_said = session.head is not before
        for text in shown:
            if said is None and not self._is_json:
                self._out.line(text)
            else:
                self._out.note(text)
        if said is None and (asked.texts or asked.blocks):
            self._note(
                f"{asked.said.split()[0]} said nothing to the model, so what came with it was not sent"
            )
        if said == asked.said and (near := self._nearly_a_command(said)):
            self._note(f"There is no command {said.split()[0]}, so it is sent as it is; did you mean {near}?")
        return said

    def _nearly_a_command(self, said: str) -> str:
        name = said[1:].partition(" ")[0]
        if not said.startswith("/") or "/" in name or not name:
            return ""
        import difflib

        near = difflib.get_close_matches(name, [*self._agent.commands], n=1)
        return f"/{near[0]}" if near else ""

    # --- what is shown -------------------------------------------------------------------------------

    def _see(self, event: AgentEvent) -> None:
        if self._is_json:
            self._line(to_json(event))
        match event:
            case MessageUpdate(draft=draft):
                self._draft = draft
                self._doing = f"{self._agent.model.reference} answers"
            case TurnStart():
                self._doing = f"Waiting for {self._agent.model.reference}"
            case MessageEnd(message=message):
                self._is_said = True
                self._draft = None
                if isinstance(message, Assistant):
                    self._last = message
            case ToolExecutionStart(tool_name=name, args=arguments) if self._out.is_watched:
                self._doing = f"Running {name}"
                from perdure.front.render import glance

                self._progress(f"{name} {glance(arguments)}")
            case ToolExecutionEnd(tool_name=name, is_error=True, result=result):
                self._progress(f"{name} failed: {result.text.strip().rpartition(chr(10))[2]}")
            case AutoRetryStart(attempt=attempt, max_attempts=most, delay_ms=delay, error_message=why):
                from perdure.front.narration import retrying

                self._note(retrying(why, attempt, most, delay))
            case CompactionEnd(result=dict()):
                self._note("The conversation was condensed to make room; all of it is still in the session.")
            case CompactionEnd(error_message=str(why)):
                self._note(f"The conversation could not be condensed: {why}")

    def _progress(self, text: str) -> None:
        """What is going on, for somebody who watches."""
        if self._out.is_watched:
            self._out.note(Styled(fit(one_line(text), self._out.note_columns - 1), "dim"))

    @asynccontextmanager
    async def _showing_that_time_passes(self) -> AsyncIterator[None]:
        async def tick() -> None:
            begun = time.monotonic()
            while True:
                await asyncio.sleep(1)
                servers = ", ".join(self._agent.waiting_for)
                doing = f"Starting MCP servers: {servers}" if servers else self._doing
                if not self._out.is_progress_shown:
                    self._out.transient(f"{doing} ({time.monotonic() - begun:.0f} s)")

        ticking = asyncio.create_task(tick()) if self._out.is_watched and not self._is_json else None
        try:
            yield
        finally:
            if ticking is not None:
                ticking.cancel()
            self._out.transient("")

    def _note(self, text: str) -> None:
        self._out.note(Styled(one_line(text), "yellow"))

    def _line(self, data: bytes) -> None:
        self._out.raw(data + b"\n")
        self._out.flush()

    def _answer(self) -> int:
        last = self._last
        if self._signal:
            return 128 + self._signal
        if last is None:
            raise PerdureError("There was no answer")
        if last.is_broken_off:
            why = last.error_message if isinstance(last.error_message, str) else "the model failed"
            raise PerdureError(why)
        if not self._is_json:
            self._print(last)
        if last.stop_reason == "length":
            self._note("The answer was cut off: the model may not say more at once.")
        return 0

    def _print(self, answer: Assistant) -> None:
        if answer.text:
            text = answer.text if answer.text.endswith("\n") else f"{answer.text}\n"
            self._out.raw(text.encode("utf-8", "replace"))
        else:
            self._note("The model said nothing.")

    def _show_notices(self) -> None:
        new = self._agent.notices[self._noticed :]
        self._noticed += len(new)
        for notice in new:
            self._note(notice)

    def _say_what_is_unexpected(self, meant: Meant) -> None:
        self._show_notices()
        model = self._agent.model
        if self._agent.agent.voice.thinking != "off" and not model.reasoning:
            self._note(f"{model.reference} cannot be told how much to think.")
        here = config.here()
        if other := elsewhere(meant, here):
            self._note(stays(other, here))

    def _say_how_to_go_on(self) -> None:
        if not self._is_said or self._options.no_session or self._meant is None:
            return
        command = starting.command_for(self._meant.ref, self._out.program)
        self._out.note(Copyable(f"Go on: {command} -p TEXT", "dim"))

    # --- signals -------------------------------------------------------------------------------------

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Each ends the turn, which keeps what arrived; one that comes before it, or after it, the rest."""
        loop = asyncio.get_running_loop()
        caught = signals.heeded()
        task = asyncio.current_task()

        def stop(number: int) -> None:
            is_first = not self._signal
            self._signal = self._signal or number
            if is_first and self._agent.is_busy:
                self._agent.abort()
            elif task is not None:
                task.cancel()

        for each in caught:
            try:
                loop.add_signal_handler(each, stop, int(each))
            except (NotImplementedError, RuntimeError):
                pass  # where loops have no signals, Ctrl+C cancels this task
        try:
            yield
        finally:
            for each in caught:
                try:
                    loop.remove_signal_handler(each)
                except NotImplementedError:
                    pass


def _asked(options: SimpleNamespace, cwd: str, out: Output) -> Asked:
    try:
        return prompt(options.message, cwd, out)
    except UsageError as error:
        if options.resume and not options.message:
            hint = f"{options.resume!r} was taken as what to resume; the prompt comes after it"
            raise UsageError(error.message, hint) from None
        raise
