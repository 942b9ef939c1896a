"""Models to talk to, over one HTTP client: making one costs more than a request, so all models share it.

What needs no network never loads the client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perdure import registry
from perdure.agent.models import APIS, OFFLINE, LanguageModel, Model

if TYPE_CHECKING:
    from perdure.agent.models.http import Wire


class Connections:
    def __init__(self) -> None:
        self._wire: Wire | None = None

    def to(self, model: Model, key: str) -> LanguageModel:
        """The model, ready to be asked. Nothing is sent yet. An api that is unknown has been refused by
        `ModelRegistry.key`."""
        if model.api == OFFLINE:
            offline: LanguageModel = registry.load("perdure.agent.models.offline:Offline")(model)
            return offline
        from perdure.agent.models.http import Remote, Wire

        if self._wire is None:
            self._wire = Wire()
        return Remote(model, key, registry.load(APIS[model.api])(), self._wire)

    async def aclose(self) -> None:
        if self._wire is not None:
            await self._wire.aclose()
            self._wire = None
