"""An agent's life: a model is chosen, tools are made ready, a session is opened, and people talk.

    async with AgentSession() as session:
        await session.start(model="gpt-4o")
        async for event in session.send_message("explain this code"):
            ...

Started with a session's id, it goes on where that ended: with its messages, its model, its way of thinking.
Nothing is written before something is said, and a new session in which nothing was said is removed again.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

from perdure import config, registry
from perdure.agent import environment, prompt
from perdure.agent.agent import Agent, Voice
from perdure.agent.aside import in_thread, when_free
from perdure.agent.compaction import CompactionStrategy, SummaryCompaction
from perdure.agent.events import AgentEvent
from perdure.agent.loop import Bench
from perdure.agent.models import OFFLINE, THINKING_LEVELS, LanguageModel, Model
from perdure.agent.models.connections import Connections
from perdure.agent.models.registry import ModelRegistry
from perdure.agent.models.resolver import ModelResolver
from perdure.agent.settings import Settings, known_level, pi_home
from perdure.agent.tools import BUILT_IN, Tool
from perdure.errors import ModelError, UsageError
from perdure.session.context import Context
from perdure.session.entry import Content, ModelChange, ThinkingLevelChange
from perdure.session.session import Session


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
    ) -> None:
        """Without a `sessions_dir`, sessions are kept with pi's. `tools` are those of your own and names of
        built-in ones; without it, all built-in ones. What `settings` do not say is read from pi's."""
        self._cwd = os.path.abspath(os.path.expanduser(cwd)) if cwd is not None else config.here()
        self._sessions_dir = sessions_dir
        self._settings = settings if isinstance(settings, Settings) else Settings.of(settings)
        self._tools = {tool.name: tool for tool in map(_tool, BUILT_IN if tools is None else tools)}
        self._compaction = compaction or strategy_of(self._settings)
        self._system_prompt = system_prompt
        self._append_system_prompt = append_system_prompt
        self._models = ModelRegistry(self._settings)
        self._resolver = ModelResolver(self._models)
        self._connections = Connections()
        named = self._compaction.model
        self._summariser = self._voice(named).model if named else None
        self._agent: Agent | None = None
        self._session: Session | None = None
        self._is_new = False
        self.notices: list[str] = []
        """What its user should know: settings that were not obeyed, a model that is not to be had."""

    def find_model(self, text: str) -> Model:
        """The model that is called this, if there is one and a key for it; ModelError says what is not."""
        return self._voice(text).model.model

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

        Which model: `model`; else the session's own; else `default_model`; else what the settings say; else
        the first for which there is a key. `session` is one that is open already, and is closed with this;
        if it `is_new`, it is removed when nothing is said in it.
        """
        if self._session is not None:
            raise UsageError("The session has been started already", "make another AgentSession")
        self._is_new = is_new or (session is None and session_id is None)
        self._session = session  # so that it is closed whatever happens
        try:
            # An unknown model is refused before a session is made.
            voice = self._voice(model, thinking) if model is not None else None
            opened = session
            if opened is None:
                opened = await self._opened(session_id)
            self._session = opened
            context = await in_thread(opened.context)
            voice = voice or self._restored(context, default_model, thinking)
            self._agent = Agent(
                opened,
                voice,
                Bench(self._tools, self._cwd, self._environment()),
                system=self._system(),
                strategy=self._compaction,
                summariser=self._summariser,
                retry=self._settings.retry,
                context=context,
            )
            self._note_changes(voice, context)
        except BaseException:
            await self.close()
            raise
        return opened.id

    def send_message(self, text: Content) -> AsyncGenerator[AgentEvent, None]:
        """Say something, and watch what comes of it; see `perdure.agent.events` for the order of events."""
        return self.agent.send(text)

    def abort(self) -> None:
        """End the running turn. What arrived is kept."""
        self.agent.abort()

    def steer(self, text: str) -> None:
        """Said as soon as the tools that are running have ended."""
        self.agent.steer(text)

    def follow_up(self, text: str) -> None:
        """Said when the agent has nothing more to do."""
        self.agent.follow_up(text)

    def compact(self, instructions: str = "") -> AsyncGenerator[AgentEvent, None]:
        """Condense the conversation now."""
        return self.agent.compact(instructions)

    def set_model(self, model: str | Model | LanguageModel, thinking: str | None = None) -> Model:
        """Another model from the next request on, of any provider."""
        voice = self._voice(model, thinking)
        self.agent.speak_as(voice)
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
        """Whether a turn is under way."""
        return self._agent is not None and self._agent.is_busy

    @property
    def model(self) -> Model:
        return self.agent.voice.model.model

    async def close(self) -> None:
        """End what is under way, keep what arrived, and let go of the session and of connections."""
        if self._agent is not None:
            await self._agent.finish()
        await self._connections.aclose()
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
        is_empty = self._is_new and session.head is None
        session.close()
        if is_empty:
            session.store.remove_empty(session.ref)

    def _voice(self, model: str | Model | LanguageModel, thinking: str | None = None) -> Voice:
        if isinstance(model, str):
            found, level = self._resolver.chosen(model)
            return self._voice(found, thinking or level)
        speaker = self._connections.to(model, self._models.key(model)) if isinstance(model, Model) else model
        if thinking is not None and thinking not in THINKING_LEVELS:
            raise UsageError(
                f"No level of thinking: {thinking!r:.40}", f"one of {', '.join(THINKING_LEVELS)}"
            )
        return Voice(speaker, thinking or self._default_thinking(speaker.model))

    def _default_thinking(self, model: Model) -> str:
        """What the settings say, where it is known that the model can: a server may refuse it otherwise."""
        is_known = model.reasoning and not self._models.takes_any(model.provider)
        return self._settings.default_thinking_level if is_known else "off"

    def _restored(self, context: Context, default_model: str | None, thinking: str | None) -> Voice:
        if context.model is not None:
            try:
                model = self._resolver.resolve("/".join(context.model))
                voice = self._voice(model, thinking or known_level(context.thinking_level))
                self._note_that_it_stays(model, default_model)
                return voice
            except ModelError as error:
                self.notices.append(f"{error.message}; this session was held with it. Another model goes on")
        found, level = self._resolver.chosen(default_model)
        return self._voice(found, thinking or level)

    def _note_that_it_stays(self, model: Model, default_model: str | None) -> None:
        """Said where its user may have meant another: one is named for this run, or a real one can be had by
        now."""
        if default_model or model.provider == OFFLINE:
            with suppress(ModelError):
                other = self._resolver.resolve(default_model)
                if other.reference != model.reference:
                    stays = f"This session goes on with {model.reference}, as it was held"
                    self.notices.append(f"{stays}; name {other.reference} to change that")

    def _note_changes(self, voice: Voice, context: Context) -> None:
        model = voice.model.model
        if context.model != (model.provider, model.id):
            self.agent.note_change(ModelChange(model.provider, model.id))
        if context.thinking_level != voice.thinking:
            self.agent.note_change(ThinkingLevelChange(voice.thinking))

    def _system(self) -> str:
        return prompt.build(
            cwd=self._cwd,
            tools=[tool.spec for tool in self._tools.values()],
            date=datetime.date.today(),
            home=os.path.expanduser("~"),
            custom=self._system_prompt,
            prompts=[text for text in self._settings.prompts if not _names_a_file(text)],
            append=self._append_system_prompt,
            agent_dir=pi_home(),
            notice=self.notices.append,
        )

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


def _names_a_file(text: str) -> bool:
    """The original pi has paths of prompt templates there."""
    return " " not in text.strip() and (text.endswith(".md") or text.startswith(("/", "~", "./", "../")))


def _tool(given: Tool | str) -> Tool:
    if isinstance(given, Tool):
        return given
    if given not in BUILT_IN:
        raise UsageError(f"There is no tool {given!r}", f"the tools are {', '.join(BUILT_IN)}")
    tool: Tool = registry.load(BUILT_IN[given])
    return tool
