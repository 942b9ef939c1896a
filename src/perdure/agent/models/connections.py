"""Models to talk to, over one HTTP client: making one costs more than a request, so all models share it.

What needs no network never loads the client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from perdure import registry
from perdure.agent.models import APIS, OFFLINE, Connect, LanguageModel, Model

if TYPE_CHECKING:
    from perdure.agent.models.http import Wire


class Provider(Protocol):
    """One of an extension's."""

    @property
    def way(self) -> Connect | None:
        """What connects to its models, if they are not reached over a wire protocol."""


class Connections:
    def __init__(
        self,
        extensions: Mapping[str, Provider] = {},
        notice: Callable[[str], None] = lambda _: None,
        offline_answer: Callable[[], str] | None = None,
    ) -> None:
        """`extensions` are the providers that they bring, by name. `notice` takes what a model has to say to
        the user beside its answers. `offline_answer` is what `offline` answers where there are no tools."""
        self._notice = notice
        self._offline_answer = offline_answer
        self._ways = {name: each.way for name, each in extensions.items()}
        self._wire: Wire | None = None

    def to(self, model: Model, key: str) -> LanguageModel:
        """The model, ready to be asked. Nothing is sent yet. `ModelRegistry.key` has refused an api that is
        unknown, and `ModelRegistry.connected` has run the commands among its headers."""
        if way := self._ways.get(model.provider):
            return way(model, key)
        if model.api == OFFLINE:
            offline: LanguageModel = registry.load("perdure.agent.models.offline:Offline")(
                model, self._notice, self._offline_answer
            )
            return offline
        from perdure.agent.models.http import Remote, Wire

        if self._wire is None:
            self._wire = Wire()
        return Remote(model, key, registry.load(APIS[model.api])(), self._wire)

    async def aclose(self) -> None:
        if self._wire is not None:
            await self._wire.aclose()
            self._wire = None
