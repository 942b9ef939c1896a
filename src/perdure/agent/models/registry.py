"""Every model there is to talk to, where it is reached, and with which key.

Built in are those of `catalog.json`, which a script makes, and `offline`. Extensions add or change some, and
over that the user does in pi's `settings.json` and `models.json`; the environment says where a provider is
reached if not at its usual place. Keys stay in here: a `Model` has none, so whatever is printed, stored or
sent on has none either. And a provider's key goes where that provider is reached, never to the address of a
single model.

    registry = ModelRegistry()
    model = registry.get("openai/gpt-4o")
    speaker = Connections().to(registry.connected(model), registry.key(model))

Only these last two, `connected` and `key`, run the commands that somebody wrote in place of a key.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from perdure import config
from perdure.agent.models import APIS, OFFLINE, Cost, Key, Model
from perdure.agent.models.registry_addresses import address, is_at, is_same_place, ollama_address, spoken
from perdure.agent.models.registry_catalog import BuiltIn, Listed, catalog
from perdure.agent.models.registry_commands import Command
from perdure.agent.models.registry_values import Headers, Values, from_source
from perdure.agent.settings import (
    MODELS_FILE,
    PASSED_IN,
    CustomModel,
    CustomProvider,
    Settings,
    Traits,
    custom_providers,
    pi_home,
)
from perdure.errors import ModelError, PerdureError

if TYPE_CHECKING:
    from perdure.agent.models.registry_extensions import Provided

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
        extensions: Mapping[str, Provided] = {},
    ) -> None:
        """`extensions` are the providers that they bring, by name."""
        self.settings = Settings.load(home) if settings is None else settings
        self._home = home
        self._values = Values(config.environment() if environment is None else dict(environment))
        self._extensions = extensions
        self._connecting = frozenset(name for name, each in extensions.items() if each.connect)
        """Those that are reached over no wire protocol."""

    def models(self) -> list[Model]:
        """All that are known by name: the user's own, those of extensions, the built-in ones, `offline`."""
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
        return model.reference in self._named

    def key(self, model: Model) -> Key:
        """The model's key, empty if it needs none. If a command prints it, that is run. ModelError says which
        variable to set, or what the command did instead."""
        text = self._values.printed(self._written_key(model), f"the key of {model.reference}")
        return Key(text, self._remedy(model))

    def _remedy(self, model: Model) -> str:
        """What to do if the model's server does not accept its key: it depends on where that is from."""
        given, names, _ = self._key_of(model)
        where = self._source(model).removesuffix(": ")
        there = [name for name in names if self._values.setting(name)]
        if isinstance(given, Command):
            return f"look at what its command prints, in {given.source}"
        if there:
            return f"correct the key in {there[0]}"
        if given:
            return f"correct its api_key in {where}" if where else "correct its api_key"
        if names:
            return f"it was sent no key: set {names[0]}"
        return f"it was sent no key: give it an api_key in {where or self._path(MODELS_FILE)}"

    def connected(self, model: Model) -> Model:
        """The model with its headers as they are sent: commands among them are run."""
        if not any(isinstance(value, Command) for value in model.headers.values()):
            return model
        headers = self._values.sent(model.headers, model.reference)
        return msgspec.structs.replace(model, headers=headers)

    def sends_key(self, model: Model) -> bool:
        """Whether a key goes along. ModelError if there should be one; no command is run for it."""
        return bool(self._written_key(model))

    def _written_key(self, model: Model) -> str:
        """The key, or the command that will print it."""
        if model.api not in APIS and model.api != OFFLINE and model.provider not in self._connecting:
            said = f"{self._source(model)}model {model.reference} speaks {model.api!r}, which is unknown"
            raise ModelError(said[:1].upper() + said[1:], f"one of {', '.join(APIS)}")
        given, names, is_needed = self._key_of(model)
        if isinstance(given, Command):
            return given
        missing = [name for name in names if not self._values.setting(name)]
        if given and not missing:
            return _checked(self._values.meant(given), f"the key of {model.reference}")
        if not given and len(missing) < len(names):
            name = next(name for name in names if name not in missing)
            return _checked(self._values.setting(name), name)
        if is_needed:
            hint = f"set {missing[0]}, or take the model that needs no key: {OFFLINE}"
            raise _KeyNotSet(f"No key for {model.reference}: {missing[0]} is not set", hint)
        return ""

    def is_usable(self, model: Model) -> bool:
        """Whether it can be asked now, as far as that can be known without asking."""
        try:
            self._written_key(model)
        except ModelError:
            return False
        return True

    def trouble(self, model: Model) -> str:
        """Why it cannot be asked although it was set up; empty if it can, or if its key is just not set."""
        try:
            self._written_key(model)
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

    def missing_variable(self, model: Model) -> str:
        """The variable to set for a model that has no key; empty if it has one, or needs none."""
        _, names, is_needed = self._key_of(model)
        missing = [name for name in names if not self._values.setting(name)]
        return missing[0] if is_needed and missing else ""

    def stop_commands(self) -> None:
        """End what runs for a key: nobody waits for it any more."""
        self._values.stop_commands()

    def secret_names(self) -> frozenset[str]:
        """All variables that hold keys, set or not."""
        own = [each.headers for each in self._said.values()] + [each.headers for each in self._own.values()]
        written = [*self._keys.values(), *(value for headers in own for value in headers.values())]
        usual = [name for each in self._providers.values() for name in each.variables]
        return frozenset([*usual, *(name for text in written for name in self._values.variables(text))])

    def secret_values(self) -> frozenset[str]:
        """The keys themselves, as far as they are known."""
        given = [self._values.meant(key) for key in self._keys.values() if not isinstance(key, Command)]
        known = frozenset(filter(None, [*given, *map(self._values.setting, self.secret_names())]))
        return known | self._values.secrets()

    def __repr__(self) -> str:
        return "ModelRegistry(…)"

    def _examples(self, provider: str) -> list[Model]:
        """Models that have a provider's key."""
        found = self._providers.get(provider)
        if found:
            return [_unlisted(provider, found, "any")]
        return [model for model in self.models() if model.provider == provider]

    def _source(self, model: Model) -> str:
        """Who speaks of a model, in front of what is wrong with it; empty if nobody does."""
        found = self._named.get(model.reference, "")
        if not found and model.provider in self._extensions:
            found = self._extensions[model.provider].source
        elif not found and model.provider in self._files:
            found = self._path(MODELS_FILE)
        return f"{found}: " if found else ""

    def _reference(self, model: CustomModel) -> str:
        return f"{model.provider or self._owner(model.base_url)}/{model.id}"

    def _settings_of(self, model: CustomModel) -> str:
        """Where a model of the settings is named."""
        return model.source or PASSED_IN

    def _path(self, name: str) -> str:
        return config.as_typed(os.path.join(pi_home(self._home), name))

    def _key_of(self, model: Model) -> tuple[str, tuple[str, ...], bool]:
        """What was given as the key, the variables it may be in, and whether there has to be one."""
        provider = self._providers.get(model.provider)
        has_no_address = model.provider in self._connecting and not model.base_url
        is_there = has_no_address or (provider and is_same_place(model.base_url, provider.base_url))
        given = self._keys.get(model.reference) or (self._keys.get(model.provider, "") if is_there else "")
        if given:
            return given, self._values.variables(given), True
        return ("", provider.variables, provider.needs_key) if provider and is_there else ("", (), False)

    @cached_property
    def _files(self) -> Mapping[str, CustomProvider]:
        return custom_providers(self._home)

    @cached_property
    def _said(self) -> Mapping[str, CustomProvider]:
        """What `models.json` says of a provider, over what an extension does."""
        brought = {name: from_source(each, each.source) for name, each in self._extensions.items()}
        own = {name: from_source(each, self._path(MODELS_FILE)) for name, each in self._files.items()}
        if brought.keys().isdisjoint(own):
            return {**own, **brought}
        from perdure.agent.models.registry_extensions import laid_over

        both = {name: laid_over(each, brought[name]) for name, each in own.items() if name in brought}
        return {**own, **brought, **both}

    @cached_property
    def _named(self) -> Mapping[str, str]:
        """The models that the user named, by reference, and the file that does."""
        found = {
            f"{name}/{model.id}": self._path(MODELS_FILE)
            for name, each in self._files.items()
            for model in each.models
        }
        # A project's stand first in the settings, and count.
        own = {self._reference(model): self._settings_of(model) for model in self.settings.models[::-1]}
        return {**found, **dict(reversed(own.items()))}

    @cached_property
    def _catalog(self) -> Mapping[str, BuiltIn]:
        found = catalog().providers
        return {name: found[name] for name in (*PREFERRED, *found)}

    @cached_property
    def _own(self) -> Mapping[str, CustomModel]:
        """The models that somebody named, by reference, the user's first; what is said of a provider holds
        for its models. Its key and headers do not for one that is reached elsewhere, unless nothing says
        where the provider itself is reached: then they can only be meant for its models."""
        found = {}
        for name, each in self._said.items():
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
        mine: dict[str, str] = {}
        for model in self.settings.models:
            reference, file = self._reference(model), self._settings_of(model)
            if mine.get(reference) == file:
                said = f"{file}: two models are {reference}"
                raise PerdureError(said, "give one another provider")
            if mine.setdefault(reference, file) != file:
                continue  # a project's stand first, and its user's own of that name gives way
            own = from_source(model, file, model.project)
            found[reference] = msgspec.structs.replace(own, provider=reference.partition("/")[0])
        return {reference: found[reference] for reference in (*self._named, *found)}

    @cached_property
    def _keys(self) -> Mapping[str, str]:
        """What was given as the key of a provider, or of one model."""
        found = {name: each.api_key for name, each in self._said.items()}
        found |= {reference: model.api_key for reference, model in self._own.items()}
        return {name: key for name, key in found.items() if key}

    @cached_property
    def _providers(self) -> Mapping[str, _Provider]:
        found = {name: self._built_in(name, each) for name, each in self._catalog.items()}
        found[OLLAMA] = self._ollama(self._said.get(OLLAMA, CustomProvider()))
        for name, each in self._said.items():
            if name not in found and (each.base_url or name in self._connecting):
                url = address(each.base_url, f"baseUrl of {name}", each.api) if each.base_url else ""
                found[name] = _Provider(
                    api=spoken(each.api, name if name in self._connecting else "", url),
                    base_url=url,
                    takes_any=not each.models,
                    headers=self._values.headers(each.headers),
                )
        return found

    def _built_in(self, name: str, each: BuiltIn) -> _Provider:
        own = self._said.get(name, CustomProvider())
        set_here = [variable for variable in each.urls if self._values.setting(variable)]
        written = self._values.setting(set_here[0]) if set_here else own.base_url or each.base_url
        url = address(written, set_here[0] if set_here else f"baseUrl of {name}", own.api or each.api)
        is_elsewhere = not is_at(url, each.base_url)
        wanted = self._values.setting(f"{name.upper()}_MODEL") if is_elsewhere else ""
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
            headers=self._values.headers(own.headers),
        )

    def _ollama(self, own: CustomProvider) -> _Provider:
        host = self._values.setting("OLLAMA_HOST")
        written = own.base_url if own.base_url and not host else f"{ollama_address(host)}/v1"
        window = self._values.setting("OLLAMA_CONTEXT_LENGTH")
        return _Provider(
            api=own.api or "openai-completions",
            base_url=address(written, "OLLAMA_HOST" if host else f"baseUrl of {OLLAMA}"),
            takes_any=True,
            variables=("OLLAMA_API_KEY",),
            default=(self._values.setting("OLLAMA_MODEL") or OLLAMA_MODEL) if host else "",
            window=int(window) if window.isdecimal() and int(window) else 128_000,
            headers=self._values.headers(own.headers),
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
        own = self._said.get(model.provider, CustomProvider()).model_overrides.get(model.id)
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
        headers = Headers({**model.headers, **self._values.headers(own.headers)})
        said: dict[str, Any] = {
            "name": own.name or None,
            "api": own.api or None,
            "context_window": own.context_window,
            "max_tokens": own.max_tokens,
            "cost": own.cost,
            "reasoning": own.reasoning,
            "input": own.input,
            "headers": headers if own.headers else None,
        }
        return msgspec.structs.replace(model, **{name: it for name, it in said.items() if it is not None})

    def _owner(self, url: str) -> str:
        """Whose address it is."""
        return next(
            (name for name, each in self._catalog.items() if is_same_place(url, each.base_url)), CUSTOM
        )


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
