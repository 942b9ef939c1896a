"""`pi models`: what there is to talk to, what it costs, and whether it can be asked now."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

from perdure import config
from perdure.agent.installed import Installed
from perdure.agent.models import Model
from perdure.agent.models.registry import ModelRegistry
from perdure.agent.models.resolver import ModelResolver, wanted
from perdure.agent.settings import Settings
from perdure.errors import ModelError
from perdure.front import trusting
from perdure.front.amounts import counted
from perdure.front.output import Output, Styled
from perdure.front.table import table
from perdure.session.layouts import home_of

_HEADS = ("", "MODEL", "NAME", "WINDOW", "IN", "OUT", "CAN", "KEY")
_PRICES = (4, 5)
_SPARE = ((7,), _PRICES, (3,), (6,), (2,))
"""What is shown beside a reference as far as a terminal is wide enough, the most wanted first."""


def models(options: SimpleNamespace, out: Output) -> int:
    home_of("pi")  # where models are set up
    registry = _registry(out)
    default = _default(registry, out)
    everything = registry.models()
    if options.text:
        found = [model for model in everything if _matches(model, options.text)]
    elif options.all:
        found = everything
    else:
        found = [model for model in everything if registry.is_usable(model) or model.reference == default]
    has_prices = any(model.cost.input for model in found)
    if out.json:
        out.data([_facts(model, registry, default) for model in found])
    elif found:
        rows = [_row(model, registry, default) for model in found]
        shown = table(out, _HEADS, rows, flexible=2, right=(3, *_PRICES), spare=_SPARE)
        has_prices &= _PRICES[0] in shown
    servers = _own_servers(registry, options.text)
    for line in servers:
        out.note(line)
    if not found and not servers:
        out.note(
            f"No model matches {' '.join(options.text)!r}; `{out.program} models --all` shows all of them."
        )
        return 3
    if not out.json and has_prices:
        out.note("Prices are US dollars a million tokens, in and out.")
    if not options.text and (more := len(everything) - len(found)):
        how = f"`{out.program} models openai` shows those of a provider, --all shows all"
        out.note(f"{counted(more, 'more model')} can be used with a key; {how}.")
    return 0


def _registry(out: Output) -> ModelRegistry:
    """All there is to choose from, as an agent that is started here would have it."""
    project = trusting.project(config.here(), out, may_ask=False)
    settings = Settings.load(project=project)
    if not any(Installed.find(settings, project)):
        return ModelRegistry(settings)
    from perdure.agent.equipment import registered

    found = registered(settings, project=project, notice=lambda text: out.note(Styled(text, "yellow")))
    return ModelRegistry(settings, extensions=found.providers)


def _default(registry: ModelRegistry, out: Output) -> str:
    """The model that is asked if nobody names one. Whatever keeps one from being asked is told."""
    reference, told = "", []
    try:
        default = ModelResolver(registry).resolve(wanted())
        reference = default.reference
        registry.sends_key(default)
    except ModelError as error:
        is_default = f"The default model is {reference}. " if reference else ""
        out.note(Styled(f"{is_default}{error.message}; {error.hint}.", "yellow"))
        told.append(error.message)
    of_providers = {each.provider: why for each in registry.models() if (why := registry.trouble(each))}
    for why in dict.fromkeys(of_providers.values()):
        if why not in told:
            out.note(Styled(f"{why}.", "yellow"))
    return reference


def _own_servers(registry: ModelRegistry, words: Sequence[str]) -> list[str]:
    """A line for each server that stands in a provider's place: what it has is not known here."""
    found = {name: registry.own_server(name) for name in registry.providers()}
    return [
        f"{name} is {_public(url)} ({variable}) and is asked for any model: -m NAME, or {name.upper()}_MODEL."
        for name, (variable, url) in found.items()
        if variable and all(word in f"{name}/" for word in " ".join(words).lower().split())
    ]


def _matches(model: Model, words: Sequence[str]) -> bool:
    """Whether all words are in its name, whatever stands between letters and digits: `gpt4o`, `opus 5.5`."""
    text = f"{model.reference} {model.name}".lower()
    bare = _bare(model.reference)
    return all(word in text or (_bare(word) or word) in bare for word in " ".join(words).lower().split())


def _bare(text: str) -> str:
    return re.sub(r"[\W_]+", "", text.lower())


def _row(model: Model, registry: ModelRegistry, default: str) -> list[str | Styled]:
    is_default = model.reference == default
    can = [name for name, it in (("thinks", model.reasoning), ("sees", "image" in model.input)) if it]
    return [
        "*" if is_default else "",
        Styled(model.reference, "cyan"),
        model.name,
        _brief(model.context_window),
        *(_price(price) for price in (model.cost.input, model.cost.output)),
        ", ".join(can) or "-",
        _key(model, registry),
    ]


def _key(model: Model, registry: ModelRegistry) -> str | Styled:
    if not registry.is_usable(model):
        variable = "" if registry.trouble(model) else registry.missing_variable(model)
        return Styled(f"needs {variable}" if variable else "unusable", "yellow")
    return Styled("yes", "green") if registry.sends_key(model) else "not needed"


def _facts(model: Model, registry: ModelRegistry, default: str) -> dict[str, Any]:
    """Everything but keys, and so no values of headers and nothing that is before an `@` in an address."""
    cost = model.cost
    return {
        "reference": model.reference,
        "provider": model.provider,
        "id": model.id,
        "name": model.name,
        "api": model.api,
        "base_url": _public(model.base_url),
        "context_window": model.context_window,
        "max_tokens": model.max_tokens,
        "cost": {
            "input": cost.input,
            "output": cost.output,
            "cache_read": cost.cache_read,
            "cache_write": cost.cache_write,
        },
        "reasoning": model.reasoning,
        "input": [*model.input],
        "headers": [*model.headers],
        "custom": registry.is_custom(model),
        "usable": registry.is_usable(model),
        "default": model.reference == default,
    }


def _public(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _price(dollars: float) -> str:
    return f"{dollars:.2f}" if not dollars or dollars >= 0.095 else f"{dollars:.3g}"


def _brief(tokens: int) -> str:
    """`128k`, `1M`, `1.05M`."""
    return f"{tokens / 1_000_000:.3g}M" if tokens >= 1_000_000 else f"{round(tokens / 1000)}k"
