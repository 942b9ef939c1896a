"""Model providers that extensions bring, and what the user says of them over that.

An extension says of a provider what `models.json` can say: it brings a new one, or a built-in one is reached
otherwise. If one speaks none of the wire protocols, a function of the extension's connects to it. What is
wrong is said when it is registered, so that one broken provider hides no other.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from functools import partial
from typing import Any

import msgspec

from perdure.agent.models import APIS, OFFLINE, Connect, Cost, Finished, LanguageModel, Model, Piece, Request
from perdure.agent.models.http_errors import beginning, masked, one_line
from perdure.agent.models.registry_addresses import address, is_same_place
from perdure.agent.models.registry_catalog import catalog
from perdure.agent.settings import CustomModel, CustomProvider, Traits
from perdure.errors import ModelError, PerdureError

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
_TAKEN = ("custom", OFFLINE)
_OF_MODELS = dict(zip(CustomModel.__struct_fields__, CustomModel.__struct_encode_fields__, strict=True))
_OF_COSTS = dict(zip(Cost.__struct_fields__, Cost.__struct_encode_fields__, strict=True))


class Provided(CustomProvider, frozen=True, kw_only=True):
    """A provider as an extension describes it, made by `provided`."""

    connect: Connect | None = None
    source: str = ""
    """Where it was registered, for messages."""

    def __repr__(self) -> str:
        return f"Provided(source={self.source!r})"

    @property
    def way(self) -> Connect | None:
        """Its `connect`, if it has one. All that goes wrong in it is a ModelError, so that a turn ends as it
        does with any other model."""
        return partial(_connected, self.connect, self.source) if self.connect else None


def provided(
    name: str,
    *,
    base_url: str = "",
    api: str = "",
    api_key: str = "",
    headers: Mapping[str, str] = {},
    models: Iterable[Mapping[str, Any] | CustomModel | Model] = (),
    connect: Connect | None = None,
    source: str = "",
) -> Provided:
    """A provider that can be used as it is described; PerdureError says what is wrong with it.

    Keys, headers and models are written as in the settings. `connect` is given a model and its key, and
    returns what has a `stream`, as a `LanguageModel` has.
    """
    whose = _whose(name, source)
    said = {
        "baseUrl": base_url,
        "api": api,
        "apiKey": api_key,
        "headers": dict(headers),
        "models": [*map(_spelt, models)],
    }
    try:
        checked = msgspec.convert(said, CustomProvider)
    except msgspec.ValidationError as error:
        cause, _, place = str(error).replace("`", "").partition(" - at $.")
        raise PerdureError(f"{whose}: {place}: {cause[:1].lower()}{cause[1:]}", "correct it there") from None
    for what, hint in _problems(name, checked, connect):
        raise PerdureError(f"{whose} {what}", hint)
    for url in (base_url, *(model.base_url for model in checked.models)):
        if url:
            address(url, f"{whose}: its base_url")
    return Provided(**msgspec.structs.asdict(checked), connect=connect, source=source)


def _problems(name: str, said: CustomProvider, connect: Connect | None) -> Iterator[tuple[str, str]]:
    """What is wrong, and what to do."""
    is_built_in = name in catalog().providers or name == "ollama"
    if not _NAME.fullmatch(name):
        yield "has a name that none can have", "letters and digits, then also dots, dashes and underscores"
    if name in _TAKEN:
        yield "has a name that is taken", "give it another"
    if connect is None:
        if not said.base_url and not is_built_in:
            yield "has no base_url", "say where it is reached, or give it a connect function"
        for api in (said.api, *(model.api for model in said.models)):
            if api and api not in APIS:
                yield f"speaks {api!r:.40}, which is unknown", f"one of {', '.join(APIS)}; or connect to it"
    else:
        if is_built_in:
            yield "is built in, and has a connect function", "give it another name"
        if not callable(connect) or inspect.iscoroutinefunction(connect):
            yield "has a connect that is no plain function", "what takes time is done by the model's stream"
        if not said.models:
            yield "has a connect function and no models", "name at least one"
        if said.base_url or any(model.base_url for model in said.models):
            yield "has a connect function and a base_url", "leave one of them out"
    seen = set()
    for model in said.models:
        if model.provider not in ("", name):
            yield f"has a model of provider {model.provider!r:.40}", "leave that out: its models are its own"
        if model.id in seen:
            yield f"has two models {model.id!r:.60}", "leave one of them out"
        seen.add(model.id)


def _whose(name: str, source: str) -> str:
    return f"{source}: provider {name!r:.40}" if source else f"Provider {name!r:.40}"


def _spelt(model: Any) -> Any:
    """All that can describe a model, as the settings have it."""
    if isinstance(model, Model | CustomModel):
        return msgspec.to_builtins(model)
    if not isinstance(model, Mapping):
        return model
    found = {_OF_MODELS.get(key, key): value for key, value in model.items()}
    if isinstance(cost := found.get("cost"), Mapping):
        found["cost"] = {_OF_COSTS.get(key, key): value for key, value in cost.items()}
    return found


# --- what the user says over it ----------------------------------------------------------------------------


def laid_over(own: CustomProvider, under: CustomProvider) -> CustomProvider:
    """What `models.json` says of a provider, over what an extension does; also of models, field by field."""
    mine = {model.id: model for model in own.models}
    models = []
    for model in under.models:
        change = mine.pop(model.id, None) or own.model_overrides.get(model.id)
        models.append(_changed(model, change, model.base_url or under.base_url) if change else model)
    return CustomProvider(
        base_url=own.base_url or under.base_url,
        api=own.api or under.api,
        api_key=own.api_key or under.api_key,
        headers={**under.headers, **own.headers},
        models=(*models, *mine.values()),
        model_overrides={**under.model_overrides, **own.model_overrides},
    )


def _changed(model: CustomModel, change: Traits, url: str) -> CustomModel:
    """A key and headers that were meant for where it is reached usually do not go elsewhere."""
    said = {name: getattr(change, name) for name in change.__struct_fields__}
    if said.get("base_url") and not is_same_place(said["base_url"], url):
        model = msgspec.structs.replace(model, api_key="", headers={})
    said["headers"] = {**model.headers, **change.headers}
    return msgspec.structs.replace(
        model, **{name: value for name, value in said.items() if value not in (None, "")}
    )


# --- models that an extension connects to ------------------------------------------------------------------


def _connected(connect: Connect, source: str, model: Model, key: str) -> LanguageModel:
    whose, secrets = _whose(model.provider, source), (key, *model.headers.values())
    with _explained(whose, secrets):
        speaker = connect(model, key)
        if not callable(getattr(speaker, "stream", None)):
            raise TypeError(f"connect returned {type(speaker).__name__}, which has no stream")
    return _Guarded(model, speaker, whose, secrets)


class _Guarded:
    """Called what its user called it, so that a session finds it again."""

    def __init__(self, model: Model, speaker: LanguageModel, whose: str, secrets: Iterable[str]) -> None:
        self._model = model
        self._speaker = speaker
        self._whose = whose
        self._secrets = secrets

    def __repr__(self) -> str:
        return f"{type(self._speaker).__name__}({self._model.reference!r})"

    @property
    def model(self) -> Model:
        return self._model

    async def stream(self, request: Request) -> AsyncGenerator[Piece | Finished, None]:
        with _explained(self._whose, self._secrets):
            async with aclosing(self._speaker.stream(request)) as pieces:
                async for piece in pieces:
                    if not isinstance(piece, Piece | Finished):
                        raise TypeError(f"its stream gave {type(piece).__name__}, no Piece and no Finished")
                    yield piece


@contextmanager
def _explained(whose: str, secrets: Iterable[str]) -> Iterator[None]:
    try:
        yield
    except ModelError as error:
        error.message = masked(beginning(error.message), secrets)
        error.args = (error.message,)
        raise
    except Exception as error:
        why = one_line(masked(beginning(f"{type(error).__name__}: {error}"), secrets))
        raise ModelError(f"{whose} failed: {why}", "that is for the extension to mend") from error
