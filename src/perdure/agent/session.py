"""An agent's life: a model is chosen, tools are made ready, a session is opened, and people talk.

    async with AgentSession() as session:
        await session.start(model="gpt-4o")
        async for event in session.send_message("explain this code"):
            ...

Started with a session's id, it goes on where that ended: with its messages, its model, its way of thinking.
Nothing is written before something is said, and a new session in which nothing was said is removed again.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Self

from perdure import config
from perdure.agent import environment, places, prompt
from perdure.agent.agent import Agent, Equipped
from perdure.agent.aside import in_thread, settled, when_free
from perdure.agent.compaction import CompactionStrategy, SummaryCompaction
from perdure.agent.equipment import Equipment
from perdure.agent.events import AgentEvent
from perdure.agent.extensions import Command, CommandContext, Register
from perdure.agent.hooks import in_words
from perdure.agent.limits import uncounted
from perdure.agent.loop import Bench
from perdure.agent.memory import NO_MARKS, Alongside, Spent
from perdure.agent.model_choice import ModelChooser, Voice
from perdure.agent.models import OFFLINE, LanguageModel, Model
from perdure.agent.models.connections import Connections
from perdure.agent.models.registry import ModelRegistry
from perdure.agent.process_origin import AgentMark
from perdure.agent.process_privacy import close_to_others
from perdure.agent.settings import Settings, pi_home, slips
from perdure.agent.supervisor import Supervisor, describe_processes
from perdure.agent.tools import AgentToolResult, Tool
from perdure.agent.trust import Trust
from perdure.errors import PerdureError, UsageError
from perdure.session.entry import BashExecution, Body, Content, SessionInfo
from perdure.session.session import Session

_COMMAND = re.compile(r"/(\S+)(?:\s+(.*))?", re.DOTALL)


class AgentSession:
    def __init__(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        sessions_dir: str | os.PathLike[str] | None = None,
        settings: Settings | Mapping[str, Any] | None = None,
        tools: Iterable[Tool | str] | None = None,
        compaction: CompactionStrategy | None = None,
        system_prompt: str | None = None,
        append_system_prompt: Sequence[str] = (),
        tells_of_project: bool = True,
        extensions: Iterable[Register] | None = None,
        trusted: bool | None = None,
        alongside: Alongside | None = None,
        offline_answer: Callable[[], str] | None = None,
    ) -> None:
        """Without a `sessions_dir`, sessions are kept with pi's. What `settings` do not say is read from pi's
        and, if it is `trusted`, from those of `cwd`: whether it is, the user has decided, unless you say so.
        `tools` are those of your own and names of those there are: built in, of extensions, of MCP servers;
        without it, all of them. `extensions` are functions that register what they add, in place of those
        that are installed. The system prompt `tells_of_project` or not: its instructions, its
        directory, and what settings and extensions add for work in it.
        What `alongside` makes of a whole answer is on disk together with it, or neither is.
        `offline_answer` makes what the `offline` model answers where there are no tools."""
        self._cwd = config.directory(cwd) if cwd is not None else config.here()
        self._sessions_dir = sessions_dir
        self.notices: list[str] = []
        """What its user should know: settings that were not obeyed, a model that is not to be had, that the
        `offline` model answers. More may come while it talks."""
        project = self._project = config.real_path(self._cwd) if self._is_trusted(trusted) else None
        self._settings = (
            settings if isinstance(settings, Settings) else Settings.of(settings, project=project)
        )
        self._equipment = Equipment(
            self._settings,
            self._cwd,
            project=project,
            tools=tools,
            own=extensions,
            notice=self.notices.append,
        )
        self._compaction = compaction or strategy_of(self._settings)
        self._system_prompt = system_prompt
        self._append_system_prompt = append_system_prompt
        self._tells_of_project = tells_of_project
        self._alongside = alongside
        self._models = ModelRegistry(self._settings, extensions=self._equipment.providers)
        self._supervisor = Supervisor()
        self._connections = Connections(
            self._equipment.providers, notice=self._notice_once, offline_answer=offline_answer
        )
        self._chooser = ModelChooser(self._settings, self._models, self._connections, self.notices.append)
        self._agent: Agent | None = None
        self._session: Session | None = None
        self._is_new = False
        self._mark: AgentMark | None = None
        """While it is started: a command that comes of it may not decide what is trusted."""

    def find_model(self, text: str) -> Model:
        """The model that is called this, if there is one and a key for it; ModelError says what is not."""
        return self._chooser.choose(text).model.model

    def slips_in_settings(self) -> list[str]:
        """A sentence for each key in the files of settings that is ignored, and nearly one of ours."""
        return slips(project=self._project)

    def models(self) -> list[Model]:
        """Those that can be asked now, as far as that is known without asking."""
        return [model for model in self._models.models() if self._models.is_usable(model)]

    async def start(
        self,
        model: str | Model | LanguageModel | None = None,
        session_id: str | None = None,
        *,
        session: Session | None = None,
        is_new: bool = False,
        default_model: str | None = None,
        thinking: str | None = None,
    ) -> str:
        """Open a session, a new one or that of `session_id`, and make its model ready. Returns its id.

        Which model: `model`; else the session's own, unless that is an `offline` that nobody chose; else
        `default_model`; else what the settings say; else the first for which there is a key. `session` is one
        that is open already, and is closed with this; if it `is_new`, it is removed when nothing is said in
        it.
        """
        if self._session is not None:
            raise UsageError("The session has been started already", "make another AgentSession")
        self._is_new = is_new or (session is None and session_id is None)
        self._session = session  # so that it is closed whatever happens
        self._mark = AgentMark()
        close_to_others(self._models.secret_names(), self._models.secret_values())
        try:
            # An unknown model is refused before a session is made.
            voice = await self._made(self._chooser.choose, model, thinking) if model is not None else None
            named = self._compaction.model
            summariser = (await self._made(self._chooser.choose, named)).model if named else None
            opened = session
            if opened is None:
                opened = await self._opened(session_id)
            self._session = opened
            chosen = await in_thread(opened.chosen)
            if voice is None:
                voice = await self._made(self._chooser.restore, chosen, default_model, thinking)
            self._agent = Agent(
                opened,
                voice,
                self._bench(self._equipment.tools),
                system=self._system(self._equipment.tools) if not self._equipment.has_servers else "",
                strategy=self._compaction,
                summariser=summariser,
                retry=self._settings.retry,
                limits=self._settings.limits,
                equip=self._equipped if self._equipment.has_servers else None,
                alongside=self._alongside,
            )
            self._agent.note_what_differs(chosen)
            for each in filter(None, (voice.model, summariser)):
                self._say_if_uncounted(each.model)
        except BaseException:
            await self.close()
            raise
        return opened.id

    def send_message(self, text: Content) -> AsyncGenerator[AgentEvent, None]:
        """Say something, and watch what comes of it; see `perdure.agent.events` for the order of events. What
        is a command to `typed` is text here."""
        return self.agent.send(text)

    def speak_first(
        self, prompt: str, marks: Mapping[str, Any] = NO_MARKS
    ) -> AsyncGenerator[AgentEvent, None]:
        """The agent opens the conversation: it is asked to by `prompt`, which is recorded, but is never a
        message of the user's. The events are those of `send_message`, without one for the prompt. `marks` are
        recorded with each message that comes of it, beside what it says."""
        return self.agent.speak_first(prompt, marks)

    def tell(self, *texts: str) -> None:
        """In place of what `append_system_prompt` said: the system prompt ends with these, before the day. At
        any time, also before the start and in a turn: the next request has it."""
        self._append_system_prompt = texts
        if self._agent is not None:
            self._agent.instruct(self._system(self._agent.bench.tools))

    @property
    def commands(self) -> Mapping[str, Command]:
        """What can be typed as `/name`: commands, built in and of extensions; skills; prompt templates."""
        return self._equipment.commands

    async def typed(self, text: str, show: Callable[[str], None] = lambda _: None) -> str | None:
        """What somebody who types this wants to be said: a command's words, or None if it has none; any other
        text as it is. A command shows its user something by `show`."""
        found = _COMMAND.fullmatch(text.strip())
        command = self.commands.get(found[1]) if found else None
        if found is None or command is None:
            return text
        try:
            said = command.run(found[2] or "", CommandContext(self, self._cwd, show))
            said = await said if isinstance(said, Awaitable) else said
            if said is not None and not isinstance(said, str):
                raise TypeError(f"a command returns text or None, not {type(said).__name__}")
        except PerdureError:
            raise
        except (Exception, SystemExit) as error:
            why = f"{command.place(error)}: {in_words(error)}"
            raise PerdureError(f"/{command.name} failed: {why}") from error
        return said

    async def ready(self) -> None:
        """Wait until all tools are there, as the first message does: those of MCP servers take a moment."""
        await self.agent.be_equipped()

    @property
    def tools(self) -> list[str]:
        """The names of those that the model may call."""
        return [*self.agent.bench.tools]

    @property
    def servers(self) -> list[str]:
        """The MCP servers whose tools are not there yet."""
        return self._equipment.waiting_for

    @property
    def waiting_for(self) -> list[str]:
        """The MCP servers that are still starting; the first message waits for them."""
        is_waiting = self._agent is not None and self._agent.is_waiting_for_tools
        return self._equipment.waiting_for if is_waiting else []

    async def rename(self, name: str) -> None:
        """Give the session a name: at once, or with its first message."""
        self.session.refuse_if_nameless()
        if self.session.is_empty:
            self.agent.note_change(SessionInfo(name))
        else:
            await self.record(SessionInfo(name))

    async def label(self, entry_id: str, text: str | None) -> None:
        """Name an entry of the session; None takes the name away."""
        await in_thread(self.session.label, entry_id, text)

    async def move(self, entry_id: str | None) -> None:
        """Go on from an earlier entry, None being before the first, with the model in use. Nothing is written
        before something is said there. Refused while something is under way."""
        await self.agent.move(entry_id)

    async def reset(self) -> None:
        """A conversation from scratch in the same session, with the model in use: what was said stays, and is
        not sent any more. On disk when this returns; refused while something is under way."""
        await self.agent.reset()

    async def record(self, *bodies: Body) -> None:
        """Entries of a program's own, on disk when this returns, behind all that came before them. Also while
        a turn is under way. If the disk refuses them, they are not kept here either."""
        await self.agent.memory.record(*bodies)

    async def save(self) -> bool:
        """Write what is not on disk: what arrived when that refused it, and settings that changed. Whether
        something was written; an empty session stays empty."""
        return await self.agent.memory.save()

    @property
    def has_unsaved(self) -> bool:
        """Whether something arrived that the disk refused. `save` writes it; `close` does not."""
        return self._agent is not None and self._agent.memory.has_unsaved

    async def run_command(
        self, command: str, *, is_sent: bool = True, watch: Callable[[AgentToolResult], None] = lambda _: None
    ) -> BashExecution:
        """Run a command of the user's own in the working directory, as the bash tool would. It is recorded,
        and sent to the model with the next message if it `is_sent`; `watch` is shown what it writes. `abort`
        ends it, and so does cancelling the task that waits for it: what it wrote is kept. Refused while
        something is under way."""
        return await self.agent.run_command(command, is_sent=is_sent, watch=watch)

    async def recall(self) -> None:
        """Read the session now, as the first message would: `spent` knows its tokens then."""
        await self.agent.memory.sent()

    def abort(self) -> None:
        """End the running turn, or command. What arrived is kept."""
        self.agent.abort()

    def steer(self, text: str) -> None:
        """Said as soon as the tools that are running have ended."""
        self.agent.steer(text)

    def follow_up(self, text: str) -> None:
        """Said when the agent has nothing more to do."""
        self.agent.follow_up(text)

    @property
    def given_up(self) -> list[str]:
        """What was queued in the last turn and never said: it was aborted or left, or it failed."""
        return self.agent.given_up

    def compact(self, instructions: str = "") -> AsyncGenerator[AgentEvent, None]:
        """Condense the conversation now."""
        return self.agent.compact(instructions)

    def set_model(self, model: str | Model | LanguageModel, thinking: str | None = None) -> Model:
        """Another model from the next request on, of any provider."""
        voice = self._chooser.choose(model, thinking)
        self.agent.speak_as(voice)
        self._say_if_uncounted(voice.model.model)
        return voice.model.model

    @property
    def agent(self) -> Agent:
        if self._agent is None:
            raise UsageError("The session has not been started", "await start() first")
        return self._agent

    @property
    def session(self) -> Session:
        if self._session is None:
            raise UsageError("The session has not been started", "await start() first")
        return self._session

    @property
    def is_busy(self) -> bool:
        """Whether a turn, or a command of the user's, is under way."""
        return self._agent is not None and self._agent.is_busy

    @property
    def model(self) -> Model:
        return self.agent.voice.model.model

    @property
    def spent(self) -> Spent:
        """Tokens and dollars, for whoever shows them; it costs nothing to ask."""
        return self.agent.memory.spent(self.model.context_window)

    async def close(self) -> None:
        """End what is under way, and what commands have left running; keep what arrived, and let go of the
        session and of connections."""
        try:
            if self._agent is not None:
                await self._agent.finish()
            await self._connections.aclose()
        finally:
            try:
                await self._equipment.close()
            finally:
                if ended := await in_thread(self._supervisor.close):
                    self.notices.append(f"Ended with the conversation: {describe_processes(ended)}")
                if self._mark is not None:
                    self._mark.close()
        session, self._session, self._agent = self._session, None, None
        if session is not None:
            await in_thread(self._let_go, session)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    # --- making it ready -----------------------------------------------------------------------------

    async def _opened(self, session_id: str | None) -> Session:
        from perdure.session.manager import SessionManager, pi_store

        if session_id is None:
            return await in_thread(Session.create, pi_store(self._sessions_dir, cwd=self._cwd))
        return await when_free(SessionManager(self._sessions_dir, wait=0).open_session, session_id)

    def _let_go(self, session: Session) -> None:
        is_empty = self._is_new and session.is_empty
        session.close()
        if is_empty:
            session.store.remove_empty(session.ref)

    def _is_trusted(self, said: bool | None) -> bool:
        if said is not None:
            return said
        decision = Trust().decision(self._cwd)
        if decision is None and places.may_bring_something(self._cwd):
            from perdure.agent.project import Project

            self.notices += filter(None, [Project(self._cwd).untrusted()])
        return decision is not None and decision.is_trusted

    async def _made(self, make: Callable[..., Voice], *arguments: Any) -> Voice:
        """In a thread, as a command may have to print the key. One that nobody waits for is ended."""
        making = asyncio.ensure_future(in_thread(make, *arguments))
        try:
            return await asyncio.shield(making)
        except asyncio.CancelledError:
            self._models.stop_commands()
            await settled(asyncio.wait([making]))
            making.exception()  # what became of it is nobody's any more
            raise

    async def _equipped(self) -> Equipped:
        tools = await self._equipment.all_tools()
        return partial(self._system, tools), self._bench(tools)

    def _bench(self, tools: Mapping[str, Tool]) -> Bench:
        own = self._session.own_path if self._session is not None else ""
        return Bench(
            *(tools, self._cwd, self._environment(), self._equipment.hooks, self._supervisor),
            own_paths=(own,) if own else (),
        )

    def _system(self, tools: Mapping[str, Tool]) -> str:
        return prompt.build(
            cwd=self._cwd,
            tools=[tool.spec for tool in tools.values()],
            date=datetime.date.today(),
            home=config.expanded_to_read("~"),
            custom=self._system_prompt,
            extensions=self._equipment.prompts(tools) if self._tells_of_project else (),
            prompts=self._settings.prompts if self._tells_of_project else (),
            append=self._append_system_prompt,
            agent_dir=pi_home(),
            tells_of_project=self._tells_of_project,
            notice=self._notice_once,
        )

    def _notice_once(self, notice: str) -> None:
        """The system prompt may be made many times, and a model chosen again."""
        if notice not in self.notices:
            self.notices.append(notice)

    def _say_if_uncounted(self, model: Model) -> None:
        if model.provider != OFFLINE and (notice := uncounted(model, self._settings.limits)):
            self._notice_once(notice)

    def _environment(self) -> dict[str, str]:
        return environment.for_children(
            config.environment(),
            self._models.secret_names(),
            self._settings.shell_environment,
            self._models.secret_values(),
        )


def strategy_of(settings: Settings) -> CompactionStrategy:
    """As the settings want it."""
    wanted = settings.compaction
    return SummaryCompaction(
        is_automatic=wanted.enabled,
        threshold=settings.compact_threshold,
        reserve_tokens=wanted.reserve_tokens,
        keep_recent_tokens=wanted.keep_recent_tokens,
        instructions=wanted.instructions,
        model=wanted.model,
    )
