"""Every model there is to talk to, where it is reached, and with which key.

Built in are those of `catalog.json`, which a script makes, and `offline`. The user adds or changes some in
pi's `settings.json` and `models.json`; the environment says where a provider is reached if not at its usual
place. Keys stay in here: a `Model` has none, so whatever is printed, stored or sent on has none either. And a
provider's key goes where that provider is reached, never to the address of a single model.

    registry = ModelRegistry()
    model = registry.get("openai/gpt-4o")
    key = registry.key(model)
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NoReturn

import msgspec
from msgspec import Struct

from perdure import config
from perdure.agent.models import APIS, OFFLINE, Cost, Model
from perdure.agent.models.registry_addresses import address, is_at, is_same_place, ollama_address, spoken
from perdure.agent.models.registry_catalog import BuiltIn, Listed, catalog
from perdure.agent.settings import (
    FILE,
    MODELS_FILE,
    CustomModel,
    CustomProvider,
    Settings,
    Traits,
    custom_providers,
    pi_home,
)
from perdure.errors import ModelError, PerdureError

PREFERRED = ("openai", "anthropic", "google")
"""Who is asked first, where several could be."""
CUSTOM = "custom"
"""The provider of a model whose own the user did not name."""
OLLAMA = "ollama"
OLLAMA_MODEL = "qwen3:8b"
"""What is asked of an Ollama server if nobody says which: small, and it calls tools."""

_OFFLINE = Model(
    id=OFFLINE,
    name="Offline: no network, no weights",
    provider=OFFLINE,
    api=OFFLINE,
    context_window=1_000_000,
)
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")
_IN_TEXT = re.compile(r"\$(?:\{(\w+)\}|([A-Za-z_]\w*))")


class _Hidden(dict[str, str]):
    """Headers, which may hold secrets."""

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{name!r}: …" for name in self) + "}"


class _KeyNotSet(ModelError):
    """Nobody gave one, as opposed to one that cannot be used."""


class _Provider(Struct, frozen=True, kw_only=True):
    """One as it is reached here and now."""

    api: str
    base_url: str
    needs_key: bool = False
    takes_any: bool = False
    """Whether it is asked for models that nobody listed: it is not the server the list was made for."""
    place: str = ""
    """The variable that names a server of the user's own, which has other models, at no known price."""
    variables: tuple[str, ...] = ()
    default: str = ""
    window: int = 128_000
    """How much its models read, if nobody says more."""
    headers: Mapping[str, str] = {}


class ModelRegistry:
    def __init__(
        self,
        settings: Settings | None = None,
        *,
        home: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.settings = Settings.load(home) if settings is None else settings
        self._home = home
        self._environment = config.environment() if environment is None else dict(environment)

    def models(self) -> list[Model]:
        """All that are known by name: the user's own, then the built-in ones, `offline` last."""
        return [*self._known.values(), _OFFLINE]

    def get(self, reference: str) -> Model | None:
        """The model of a `provider/id`, if it is known, or if its provider takes any."""
        if reference == _OFFLINE.reference:
            return _OFFLINE
        if reference in self._known:
            return self._known[reference]
        name, _, id = reference.partition("/")
        provider = self._providers.get(name)
        return self._asked_for(name, provider, id) if provider and provider.takes_any and id else None

    def default(self, provider: str) -> Model | None:
        """The model of a provider for everyday work; an Ollama server has one if its variable is set."""
        found = self._providers.get(provider)
        return self.get(f"{provider}/{found.default}") if found and found.default else None

    def providers(self) -> list[str]:
        return [*dict.fromkeys((*self._providers, *(model.provider for model in self.models())))]

    def takes_any(self, provider: str) -> bool:
        """Whether it may have models that are not listed."""
        return provider in self._providers and self._providers[provider].takes_any

    def own_server(self, provider: str) -> tuple[str, str]:
        """The variable that puts a server of the user's own in a provider's place, and its address."""
        found = self._providers.get(provider)
        return (found.place, found.base_url) if found and found.place else ("", "")

    def is_custom(self, model: Model) -> bool:
        """Whether the user named it."""
        return model.reference in self._own

    def key(self, model: Model) -> str:
        """The model's key, empty if it needs none. ModelError says which variable to set."""
        if model.api not in APIS and model.api != OFFLINE:
            said = f"{self._source(model)}model {model.reference} speaks {model.api!r}, which is unknown"
            raise ModelError(said[:1].upper() + said[1:], f"one of {', '.join(APIS)}")
        given, names, is_needed = self._key_of(model)
        if any(value.startswith("!") for value in (given, *model.headers.values())):
            _refuse_command(model)
        missing = [name for name in names if not self._setting(name)]
        if given and not missing:
            return _checked(self._meant(given), f"the key of {model.reference}")
        if not given and len(missing) < len(names):
            name = next(name for name in names if name not in missing)
            return _checked(self._setting(name), name)
        if is_needed:
            hint = f"set {missing[0]}, or take the model that needs no key: {OFFLINE}"
            raise _KeyNotSet(f"No key for {model.reference}: {missing[0]} is not set", hint)
        return ""

    def is_usable(self, model: Model) -> bool:
        """Whether it can be asked now, as far as that can be known without asking."""
        try:
            self.key(model)
        except ModelError:
            return False
        return True

    def trouble(self, model: Model) -> str:
        """Why it cannot be asked although it was set up; empty if it can, or if its key is just not set."""
        try:
            self.key(model)
        except _KeyNotSet:
            return ""
        except ModelError as error:
            return error.message
        return ""

    def has_key(self, provider: str) -> bool:
        """Whether a provider can be asked: there is a key, or it needs none."""
        return any(map(self.is_usable, self._examples(provider)))

    def is_set_up(self, provider: str) -> bool:
        """Whether its user means to ask it: the same, or there is a key that cannot be used."""
        return self.has_key(provider) or any(map(self.trouble, self._examples(provider)))

    def key_variable(self, provider: str) -> str:
        """The variable to set where its key is missing; empty if none is read."""
        found = self._providers.get(provider)
        names = self._key_of(_unlisted(provider, found, "any"))[1] if found else ()
        return names[0] if names else ""

    def secret_names(self) -> frozenset[str]:
        """All variables that hold keys, set or not."""
        own = [each.headers for each in self._files.values()] + [each.headers for each in self._own.values()]
        written = [*self._keys.values(), *(value for headers in own for value in headers.values())]
        usual = [name for each in self._providers.values() for name in each.variables]
        return frozenset([*usual, *(name for text in written for name in self._variables(text))])

    def secret_values(self) -> frozenset[str]:
        """The keys themselves, as far as they are known."""
        given = [self._meant(key) for key in self._keys.values() if not key.startswith("!")]
        return frozenset(filter(None, [*given, *map(self._setting, self.secret_names())]))

    def __repr__(self) -> str:
        return "ModelRegistry(…)"

    def _examples(self, provider: str) -> list[Model]:
        """Models that have a provider's key."""
        found = self._providers.get(provider)
        if found:
            return [_unlisted(provider, found, "any")]
        return [model for model in self.models() if model.provider == provider]

    def _source(self, model: Model) -> str:
        """The file that speaks of a model, in front of what is wrong with it; empty if none does."""
        is_in_settings = any(
            model.id == each.id and model.provider == (each.provider or self._owner(each.base_url))
            for each in self.settings.models
        )
        name = FILE if is_in_settings else MODELS_FILE if model.provider in self._files else ""
        return f"{config.as_typed(os.path.join(pi_home(self._home), name))}: " if name else ""

    def _key_of(self, model: Model) -> tuple[str, tuple[str, ...], bool]:
        """What the user gave as the key, the variables it may be in, and whether there has to be one."""
        provider = self._providers.get(model.provider)
        is_there = provider is not None and is_same_place(model.base_url, provider.base_url)
        given = self._keys.get(model.reference) or (self._keys.get(model.provider, "") if is_there else "")
        if given:
            return given, self._variables(given), True
        return ("", provider.variables, provider.needs_key) if provider and is_there else ("", (), False)

    @cached_property
    def _files(self) -> Mapping[str, CustomProvider]:
        return custom_providers(self._home)

    @cached_property
    def _catalog(self) -> Mapping[str, BuiltIn]:
        found = catalog().providers
        return {name: found[name] for name in (*PREFERRED, *found)}

    @cached_property
    def _own(self) -> Mapping[str, CustomModel]:
        """The models that the user named, by reference; what `models.json` says of a provider holds for its
        models. Its key and headers do not for one that is reached elsewhere, unless nothing says where the
        provider itself is reached: then they can only be meant for its models."""
        found = {}
        for name, each in self._files.items():
            reached = self._providers.get(name)
            for model in each.models:
                is_there = not (model.base_url and reached) or is_same_place(model.base_url, reached.base_url)
                found[f"{name}/{model.id}"] = msgspec.structs.replace(
                    model,
                    provider=name,
                    api=model.api or each.api,
                    api_key=model.api_key or (each.api_key if is_there else ""),
                    headers={**(each.headers if is_there else {}), **model.headers},
                )
        mine: set[str] = set()
        for model in self.settings.models:
            owner = model.provider or self._owner(model.base_url)
            reference = f"{owner}/{model.id}"
            if reference in mine:
                raise PerdureError(f"Two models of the settings are {reference}", "give one another provider")
            mine.add(reference)
            found[reference] = msgspec.structs.replace(model, provider=owner)
        return found

    @cached_property
    def _keys(self) -> Mapping[str, str]:
        """What the user gave as the key of a provider, or of one model."""
        found = {name: each.api_key.strip() for name, each in self._files.items()}
        found |= {reference: model.api_key.strip() for reference, model in self._own.items()}
        return {name: key for name, key in found.items() if key}

    @cached_property
    def _providers(self) -> Mapping[str, _Provider]:
        found = {name: self._built_in(name, each) for name, each in self._catalog.items()}
        found[OLLAMA] = self._ollama(self._files.get(OLLAMA, CustomProvider()))
        for name, each in self._files.items():
            if name not in found and each.base_url:
                url = address(each.base_url, f"baseUrl of {name}", each.api)
                found[name] = _Provider(
                    api=spoken(each.api, "", url),
                    base_url=url,
                    takes_any=not each.models,
                    headers=self._resolved(each.headers),
                )
        return found

    def _built_in(self, name: str, each: BuiltIn) -> _Provider:
        own = self._files.get(name, CustomProvider())
        set_here = [variable for variable in each.urls if self._setting(variable)]
        written = self._setting(set_here[0]) if set_here else own.base_url or each.base_url
        url = address(written, set_here[0] if set_here else f"baseUrl of {name}", own.api or each.api)
        is_elsewhere = not is_at(url, each.base_url)
        wanted = self._setting(f"{name.upper()}_MODEL") if is_elsewhere else ""
        # What speaks like OpenAI may be anyone's; whoever speaks like Anthropic or Google passes on to them.
        # A `baseUrl` of models.json is, as pi has it, another way to the same models.
        place = set_here[0] if set_here and is_elsewhere and each.api.startswith("openai-") else ""
        return _Provider(
            api=spoken(own.api, each.api, url),
            place=place,
            base_url=url,
            needs_key=not is_elsewhere,
            takes_any=is_elsewhere,
            variables=each.keys,
            default=wanted or ("" if place else each.default),
            headers=self._resolved(own.headers),
        )

    def _ollama(self, own: CustomProvider) -> _Provider:
        host = self._setting("OLLAMA_HOST")
        written = own.base_url if own.base_url and not host else f"{ollama_address(host)}/v1"
        window = self._setting("OLLAMA_CONTEXT_LENGTH")
        return _Provider(
            api=own.api or "openai-completions",
            base_url=address(written, "OLLAMA_HOST" if host else f"baseUrl of {OLLAMA}"),
            takes_any=True,
            variables=("OLLAMA_API_KEY",),
            default=(self._setting("OLLAMA_MODEL") or OLLAMA_MODEL) if host else "",
            window=int(window) if window.isdecimal() and int(window) else 128_000,
            headers=self._resolved(own.headers),
        )

    @cached_property
    def _known(self) -> Mapping[str, Model]:
        found = {reference: self._custom(own) for reference, own in self._own.items()}
        for name, each in self._catalog.items():
            provider = self._providers[name]
            for listed in () if provider.place else each.models:
                reference = f"{name}/{listed.id}"
                if reference not in found:
                    found[reference] = self._overridden(_listed(name, provider, listed))
        for name, provider in self._providers.items():
            if provider.default:
                reference = f"{name}/{provider.default}"
                found.setdefault(reference, self._asked_for(name, provider, provider.default))
        return found

    def _asked_for(self, name: str, provider: _Provider, id: str) -> Model:
        """A model that is not listed where it is asked for. What is known of its name is true there too, but
        for the price; of other names nothing is, and a model is not told to be unable to think."""
        listed = self._built_in_model(name, id)
        if listed:
            return self._overridden(_listed(name, provider, msgspec.structs.replace(listed, cost=Cost())))
        return self._overridden(msgspec.structs.replace(_unlisted(name, provider, id), reasoning=True))

    def _built_in_model(self, provider: str, id: str) -> Listed | None:
        models = self._catalog[provider].models if provider in self._catalog else ()
        return next((each for each in models if each.id == id), None)

    def _overridden(self, model: Model) -> Model:
        own = self._files.get(model.provider, CustomProvider()).model_overrides.get(model.id)
        return self._changed(model, own) if own else model

    def _custom(self, own: CustomModel) -> Model:
        name = own.provider
        provider, built_in = self._providers.get(name), self._catalog.get(name)
        listed = self._built_in_model(name, own.id)
        reached = provider or _Provider(api="", base_url="")
        model = _listed(name, reached, listed) if listed else _unlisted(name, reached, own.id)
        if provider is None and not own.base_url:
            said = f"{self._source(model)}model {model.reference} has no base_url"
            raise PerdureError(said, "say there where it is reached")
        if own.base_url:
            usual = built_in.api if built_in else reached.api
            url = address(own.base_url, f"base_url of {name}/{own.id}", own.api or usual)
            headers = model.headers if is_same_place(url, reached.base_url) else {}
            api = spoken(own.api, usual, url)
            cost = model.cost if built_in and is_at(url, built_in.base_url) else Cost()
            model = msgspec.structs.replace(model, base_url=url, api=api, headers=headers, cost=cost)
        elif reached.place:
            model = msgspec.structs.replace(model, cost=Cost())
        return self._changed(model, own)

    def _changed(self, model: Model, own: Traits) -> Model:
        said: dict[str, Any] = {
            "name": own.name or None,
            "api": own.api or None,
            "context_window": own.context_window,
            "max_tokens": own.max_tokens,
            "cost": own.cost,
            "reasoning": own.reasoning,
            "input": own.input,
            "headers": _Hidden({**model.headers, **self._resolved(own.headers)}) if own.headers else None,
        }
        return msgspec.structs.replace(model, **{name: it for name, it in said.items() if it is not None})

    def _owner(self, url: str) -> str:
        """Whose address it is."""
        return next(
            (name for name, each in self._catalog.items() if is_same_place(url, each.base_url)), CUSTOM
        )

    def _resolved(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        return _Hidden({name: self._meant(value) for name, value in headers.items()})

    def _variables(self, text: str) -> tuple[str, ...]:
        """Those that a key or a header names: `$NAME` and `${NAME}` in it, or all of it, as pi has it."""
        if found := tuple(braced or plain for braced, plain in _IN_TEXT.findall(text)):
            return found
        return (text,) if self._setting(text) or _VARIABLE.fullmatch(text) else ()

    def _meant(self, text: str) -> str:
        if _IN_TEXT.search(text):
            return _IN_TEXT.sub(lambda found: self._setting(found[1] or found[2]), text)
        return self._setting(text) or text

    def _setting(self, variable: str) -> str:
        return self._environment.get(variable, "").strip()


def _listed(name: str, provider: _Provider, listed: Listed) -> Model:
    return Model(
        provider=name,
        api=provider.api,
        base_url=provider.base_url,
        headers=provider.headers,
        **msgspec.structs.asdict(listed),
    )


def _unlisted(name: str, provider: _Provider, id: str) -> Model:
    return _listed(name, provider, Listed(id=id, name=id, context_window=provider.window))


def _checked(key: str, source: str) -> str:
    if not (key.isascii() and key.isprintable()):
        raise ModelError(f"{source} holds characters that no key has", "copy the key once more")
    return key


def _refuse_command(model: Model) -> NoReturn:
    raise ModelError(
        f"The key of {model.reference} is a command: those come with trusted settings, in a later release",
        "put the key into a variable, and name that instead",
    )
