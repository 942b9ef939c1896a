"""Which model a session is talked in with: the one that is named, the session's own, or the usual choice.

A session goes on with its own model. The exception is an `offline` that nobody chose: it answered only
because no other model was set up. Where one can be had now, the usual choice is made, and a notice says so.
That the user chose `offline` is recorded with the model (`isChosen` of `model_change`), and then it stays.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from msgspec import UNSET, Struct

from perdure.agent.models import OFFLINE, THINKING_LEVELS, LanguageModel, Model
from perdure.agent.models.connections import Connections
from perdure.agent.models.registry import ModelRegistry
from perdure.agent.models.resolver import ModelResolver
from perdure.agent.settings import Settings, known_level
from perdure.errors import ModelError, UsageError
from perdure.session.context import Chosen
from perdure.session.entry import ModelChange


class Voice(Struct, frozen=True):
    """Who answers, and how."""

    model: LanguageModel
    thinking: str = "off"
    is_chosen: bool = True
    """False where nobody named the model: the first was taken that can be had."""

    @property
    def model_change(self) -> ModelChange:
        """What the session records of it. That a model was chosen matters for `offline` alone."""
        model = self.model.model
        is_chosen_offline = self.is_chosen and model.provider == OFFLINE
        return ModelChange(model.provider, model.id, is_chosen_offline or UNSET)


class ModelChooser:
    def __init__(
        self,
        settings: Settings,
        registry: ModelRegistry,
        connections: Connections,
        notice: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._registry = registry
        self._resolver = ModelResolver(registry)
        self._connections = connections
        self._notice = notice

    def choose(self, model: str | Model | LanguageModel, thinking: str | None = None) -> Voice:
        """The model that somebody asked for; ModelError if there is none of that name, or no key for it. A
        key that is a command is waited for."""
        if isinstance(model, str):
            found, level = self._resolver.chosen(model)
            return self.choose(found, thinking or level)
        connected = self._connected(model) if isinstance(model, Model) else model
        if thinking is not None and thinking not in THINKING_LEVELS:
            raise UsageError(
                f"No level of thinking: {thinking!r:.40}", f"one of {', '.join(THINKING_LEVELS)}"
            )
        return Voice(connected, thinking or self._default_thinking(connected.model))

    def restore(self, chosen: Chosen, default_model: str | None, thinking: str | None) -> Voice:
        """The model that a session goes on with; `default_model` is what the user wants where no session says
        otherwise."""
        if chosen.model is None:
            return self._usual(default_model, thinking)
        if chosen.model[0] == OFFLINE and not chosen.is_model_chosen:
            return self._in_place_of_offline(default_model, thinking)
        try:
            model = self._resolver.resolve("/".join(chosen.model))
            voice = self.choose(model, thinking or known_level(chosen.thinking_level))
        except ModelError as error:
            self._notice(f"{error.message}; this session was held with it. Another model goes on")
            return self._usual(default_model, thinking)
        self._say_that_it_stays(model, default_model)
        return voice

    def _usual(self, default_model: str | None, thinking: str | None) -> Voice:
        """`default_model`, else what the settings say, else the first for which there is a key."""
        found, level = self._resolver.chosen(default_model)
        voice = self.choose(found, thinking or level)
        return Voice(voice.model, voice.thinking, is_chosen=self._resolver.is_named(default_model))

    def _in_place_of_offline(self, default_model: str | None, thinking: str | None) -> Voice:
        try:
            voice = self._usual(default_model, thinking)
        except ModelError as error:
            self._notice(f"{error.message}; this session goes on with {OFFLINE}")
            return Voice(self.choose(OFFLINE).model, is_chosen=False)
        model = voice.model.model
        if model.provider != OFFLINE:
            instead = f"instead of {OFFLINE}, which nobody chose for this session"
            self._notice(f"Resuming with model {model.reference} {instead}; -m {OFFLINE} chooses it")
        return voice

    def _say_that_it_stays(self, model: Model, default_model: str | None) -> None:
        """Where the user may want another model: one is named for this run, or a real one can be had now."""
        if default_model or model.provider == OFFLINE:
            with suppress(ModelError):
                other = self._resolver.resolve(default_model)
                if other.reference != model.reference:
                    stays = f"This session goes on with {model.reference}, as it was held"
                    self._notice(f"{stays}; -m {other.reference} changes that")

    def _connected(self, model: Model) -> LanguageModel:
        return self._connections.to(self._registry.connected(model), self._registry.key(model))

    def _default_thinking(self, model: Model) -> str:
        """What the settings say, where it is known that the model can: a server may refuse it otherwise."""
        is_known = model.reasoning and not self._registry.takes_any(model.provider)
        return self._settings.default_thinking_level if is_known else "off"
