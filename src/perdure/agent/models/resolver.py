"""Which model is meant by what somebody wrote, or by nothing.

    gpt-4o    openai/gpt-4o    openai/gpt-6.1-sol:high    ollama/qwen3:8b    openrouter/qwen/qwen3-coder

The environment is not asked which model is wanted: whoever talks to a user does that, with `wanted`, and
hands the answer in. So a program that uses this library gets the model it asked for. A name that is unknown
is an error and never another model: what somebody pays for is not guessed.
"""

from __future__ import annotations

from perdure import config
from perdure.agent.models import OFFLINE, THINKING_LEVELS, Model, ThinkingLevel
from perdure.agent.models.registry import OLLAMA, PREFERRED, ModelRegistry
from perdure.errors import ModelError

_NEAR = 3
_VARIABLE = "PERDURE_MODEL"


class _Named(str):
    """A name that nobody typed now, so that an error can say who gave it."""

    __slots__ = ()
    by = ""


class _ByVariable(_Named):
    by = _VARIABLE


class _BySettings(_Named):
    by = "default_model in this program's own settings"


def wanted(argument: str | None = None, program_default: str | None = None) -> str | None:
    """What a front end asks the resolver for: the argument, else PERDURE_MODEL, else the `default_model` of
    the program's own settings. None leaves it to pi's settings and what is built in."""
    variable = _ByVariable(config.setting(_VARIABLE).strip())
    return argument or variable or _BySettings(program_default or "") or None


class ModelResolver:
    def __init__(self, registry: ModelRegistry) -> None:
        self._registry = registry

    def resolve(self, text: str | None = None) -> Model:
        """The model; ModelError if there is none of that name. Whether there is a key is not asked."""
        return self.chosen(text)[0]

    def chosen(self, text: str | None = None) -> tuple[Model, ThinkingLevel | None]:
        """The same, and how much it shall think, if whoever named it said so."""
        if text:
            try:
                name, level = self.split(text)
                return self._named(name), level
            except ModelError as error:
                if not isinstance(text, _Named):
                    raise
                raise ModelError(f"{error.message}, which {text.by} names", error.hint) from None
        settings = self._registry.settings
        provider = settings.default_provider
        try:
            if settings.default_model:
                name, level = self.split(settings.default_model)
                is_whole = not provider or name.startswith(f"{provider}/")
                return self._named(name if is_whole else f"{provider}/{name}"), level
            if provider and provider != OFFLINE:
                return self._default_of(provider), None
        except ModelError as error:
            raise ModelError(
                f"{error.message}, which is the default model of the settings", error.hint
            ) from None
        return self._named(OFFLINE) if provider else self._built_in(), None

    def is_named(self, text: str | None = None) -> bool:
        """True if the text or the settings name a model; else `resolve` takes the first that can be had."""
        settings = self._registry.settings
        return bool(text or settings.default_model or settings.default_provider)

    def split(self, text: str) -> tuple[str, ThinkingLevel | None]:
        """A model's name and how much it shall think, if that is said. Other colons belong to the name."""
        kind = type(text)
        text = kind(text.strip())
        name, colon, last = text.rpartition(":")
        for level in THINKING_LEVELS:
            if colon and name and last == level and not self._is_known(text):
                return kind(name), level
        return text, None

    def _is_known(self, text: str) -> bool:
        return any(text in (model.id, model.reference) for model in self._registry.models())

    def _default_of(self, provider: str) -> Model:
        if model := self._registry.default(provider):
            return model
        variable, _ = self._registry.own_server(provider)
        if variable:
            hint = f"say which with -m NAME, or set {provider.upper()}_MODEL"
            raise ModelError(f"No model is named for the server of {variable}", hint)
        raise ModelError(f"No model is set for provider {provider!r}", "set default_model as well")

    def _built_in(self) -> Model:
        """The first provider that is set up; if its key cannot be used, that is said when it is asked."""
        for provider in PREFERRED:
            if self._registry.is_set_up(provider):
                return self._default_of(provider)
        return self._registry.default(OLLAMA) or self._named(OFFLINE)

    def _named(self, text: str) -> Model:
        found = self._registry.get(f"{OFFLINE}/{OFFLINE}" if text == OFFLINE else text)
        if found is None:
            alike = [model for model in self._registry.models() if model.id == text]
            listed = min(alike, key=self._rank, default=None)
            is_to_be_had = listed and (self._registry.is_custom(listed) or self._registry.is_usable(listed))
            found = listed if is_to_be_had else self._at_own_server(text) or listed or self._at_ollama(text)
        if found is None:
            raise self._unknown(text)
        return found

    def _rank(self, model: Model) -> tuple[bool, int, bool]:
        """The user's own, then the preferred providers, then one that can be asked; else the first."""
        place = PREFERRED.index(model.provider) if model.provider in PREFERRED else len(PREFERRED)
        return not self._registry.is_custom(model), place, not self._registry.is_usable(model)

    def _at_own_server(self, text: str) -> Model | None:
        """Any name, if a server of the user's own stands in OpenAI's place; but not one that begins with
        another provider that can be asked."""
        owner, slash, _ = text.partition("/")
        is_anothers = bool(slash) and (not owner or self._registry.has_key(owner))
        if not text or is_anothers or not self._registry.takes_any("openai"):
            return None
        return self._registry.get(f"openai/{text}")

    def _at_ollama(self, text: str) -> Model | None:
        """A name with a tag or an owner, as Ollama's have, if OLLAMA_HOST names a server."""
        owner, slash, _ = text.partition("/")
        is_like_theirs = owner not in ("", *self._registry.providers()) if slash else ":" in text
        has_server = self._registry.default(OLLAMA) is not None
        return self._registry.get(f"{OLLAMA}/{text}") if is_like_theirs and has_server else None

    def _unknown(self, text: str) -> ModelError:
        shown = text if len(text) <= 60 else f"{text[:57]}..."
        near = self._nearest(text)
        hints = [f"nearest: {', '.join(near)}" if near else "`pi models --all` lists all"]
        provider = text.partition("/")[0]
        if "/" in text and provider not in self._registry.providers():
            hints.append(f"there is no provider {provider[:40]!r}")
        elif "/" in text and not self._registry.has_key(provider):
            variable = self._registry.key_variable(provider)
            hints.append(f"and {provider} has no key" + (f": {variable} is not set" if variable else ""))
        return ModelError(f"Unknown model {shown!r}", "; ".join(hints))

    def _nearest(self, text: str) -> list[str]:
        """What looks most like it, then what holds it, then what looks somewhat like it; of its provider, if
        that is known."""
        import difflib

        provider, _, id = text.lower()[:100].partition("/")
        models = [model for model in self._registry.models() if id and model.provider == provider]
        low = id if models else text.lower()[:100].strip("/")
        models = models or self._registry.models()
        spelt: dict[str, str] = {}
        for model in models:
            spelt.setdefault(model.id.lower(), model.reference)
            spelt.setdefault(model.reference.lower(), model.reference)
        alike = [spelt[each] for each in difflib.get_close_matches(low, [*spelt], n=2 * _NEAR)]
        holding = sorted((each.reference for each in models if low and low in each.id.lower()), key=len)
        return [*dict.fromkeys((*alike[:1], *holding, *alike))][:_NEAR]
