"""Where a model is reached, what is spoken there, with which key: as the user says, else as built in."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.models import APIS, Cost, Model
from perdure.agent.models.registry import ModelRegistry
from perdure.agent.models.registry_addresses import address, ollama_address
from perdure.agent.settings import CustomModel, Settings
from perdure.errors import ModelError, PerdureError
from tests.effort import FEW

LOCAL = "http://127.0.0.1:8080/v1"


@pytest.fixture
def registry_of(tmp_path):
    """A registry of these settings, this models.json and this environment."""

    def make(models: Any = None, *, settings: Any = None, **environment: str) -> ModelRegistry:
        if models is not None:
            (tmp_path / "models.json").write_text(json.dumps({"providers": models}))
        return ModelRegistry(
            Settings.of({"models": settings or []}, str(tmp_path)),
            home=str(tmp_path),
            environment=environment,
        )

    return make


def get(registry: ModelRegistry, reference: str) -> Model:
    model = registry.get(reference)
    assert model is not None
    return model


def test_pi_15_a_built_in_model_has_all_that_is_known_of_it(registry_of):
    """Provider, address, price and window of gpt-4o."""
    model = get(registry_of(), "openai/gpt-4o")
    assert (model.provider, model.id, model.name) == ("openai", "gpt-4o", "GPT-4o")
    assert (model.base_url, model.api) == ("https://api.openai.com/v1", "openai-responses")
    assert (model.context_window, model.max_tokens) == (128_000, 16_384)
    assert model.cost == Cost(2.5, 10, 1.25)
    assert (model.reasoning, model.input) == (False, ("text", "image"))


@pytest.mark.parametrize(
    ("reference", "api"),
    [
        ("anthropic/claude-sonnet-4-5", "anthropic-messages"),
        ("google/gemini-2.5-flash", "google-generative-ai"),
        ("groq/llama-3.3-70b-versatile", "openai-completions"),
        ("openrouter/anthropic/claude-sonnet-4.5", "openai-completions"),
    ],
)
def test_each_provider_speaks_its_own_protocol(reference, api, registry_of):
    assert get(registry_of(), reference).api == api


def test_the_offline_model_is_always_there(registry_of):
    registry = registry_of()
    model = get(registry, "offline/offline")
    assert registry.models()[-1] is model
    assert (registry.key(model), registry.has_key("offline")) == ("", True)


def test_offline_is_had_without_reading_the_catalog(registry_of, monkeypatch):
    monkeypatch.setattr("perdure.agent.models.registry_catalog.FILE", "/nonexistent")
    assert registry_of().get("offline/offline")


@pytest.mark.parametrize(
    "reference", ["", "/", "openai", "openai/", "openai/nope", "nobody/gpt-4o", "gpt-4o"]
)
def test_only_whole_references_are_looked_up(reference, registry_of):
    assert registry_of().get(reference) is None


def test_every_model_can_be_had_by_its_reference(registry_of):
    registry = registry_of(OLLAMA_HOST="localhost")
    models = registry.models()
    assert [registry.get(model.reference) for model in models] == models
    assert len({model.reference for model in models}) == len(models) > 400
    assert {model.api for model in models} == {*APIS, "offline"}


# --- keys ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reference", "variable"),
    [
        ("openai/gpt-4o", "OPENAI_API_KEY"),
        ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ("google/gemini-2.5-flash", "GEMINI_API_KEY"),
        ("google/gemini-2.5-flash", "GOOGLE_API_KEY"),
        ("groq/llama-3.3-70b-versatile", "GROQ_API_KEY"),
        ("mistral/mistral-large-latest", "MISTRAL_API_KEY"),
        ("openrouter/openai/gpt-4o", "OPENROUTER_API_KEY"),
        ("xai/grok-4.3", "XAI_API_KEY"),
        ("deepseek/deepseek-chat", "DEEPSEEK_API_KEY"),
    ],
)
def test_a_providers_usual_variable_holds_its_key(reference, variable, registry_of):
    registry = registry_of(**{variable: " secret\n"})
    model = get(registry, reference)
    assert registry.key(model) == "secret"
    assert registry.has_key(model.provider)
    assert registry.is_usable(model)
    assert variable in registry.secret_names()


@pytest.mark.parametrize("empty", [{}, {"OPENAI_API_KEY": ""}, {"OPENAI_API_KEY": " "}])
def test_a_missing_key_names_the_variable_and_the_model_without(empty, registry_of):
    registry = registry_of(**empty)
    with pytest.raises(ModelError) as caught:
        registry.key(get(registry, "openai/gpt-4o"))
    assert "OPENAI_API_KEY is not set" in caught.value.message
    assert "set OPENAI_API_KEY" in caught.value.hint
    assert "offline" in caught.value.hint
    assert caught.value.exit_code == 1
    assert not registry.has_key("openai")
    assert registry.key_variable("openai") == "OPENAI_API_KEY"


@pytest.mark.parametrize("key", ["two\nlines", "schlüssel", "nul\0"])
def test_what_cannot_be_a_key_is_not_sent_and_not_shown(key, registry_of):
    registry = registry_of(OPENAI_API_KEY=key)
    with pytest.raises(ModelError, match="OPENAI_API_KEY holds characters") as caught:
        registry.key(get(registry, "openai/gpt-4o"))
    assert key not in f"{caught.value.message}{caught.value.hint}"
    assert (registry.has_key("openai"), registry.is_set_up("openai")) == (False, True)
    assert not registry.is_set_up("anthropic")
    assert registry.trouble(get(registry, "openai/gpt-4o")) == caught.value.message
    assert registry.trouble(get(registry, "anthropic/claude-sonnet-4-5")) == ""


def test_the_environment_is_read_when_none_is_passed(monkeypatch):
    monkeypatch.setenv("XAI_API_KEY", "mine")
    registry = ModelRegistry()
    assert registry.key(get(registry, "xai/grok-4.3")) == "mine"
    monkeypatch.setenv("XAI_API_KEY", "another")
    assert registry.key(get(registry, "xai/grok-4.3")) == "mine", "a registry is of one moment"


@pytest.mark.parametrize(
    ("written", "environment", "key"),
    [
        ("sk-literal", {}, "sk-literal"),
        ("MY_OWN_KEY", {"MY_OWN_KEY": "from there"}, "from there"),
        ("lower", {"lower": "from there"}, "from there"),
        ("ollama", {}, "ollama"),
        ("$MY_OWN_KEY", {"MY_OWN_KEY": "from there"}, "from there"),
        ("id:${MY_OWN_KEY}", {"MY_OWN_KEY": "from there"}, "id:from there"),
        ("MY_OWN_KEY", {}, None),
        ("$MY_OWN_KEY", {}, None),
    ],
)
def test_pi_16_a_key_is_a_literal_or_a_variable(written, environment, key, registry_of):
    """Of a provider in models.json and of a model in the settings alike. For commands, see
    `test_key_commands`."""
    providers = {"mine": {"baseUrl": LOCAL, "apiKey": written, "models": [{"id": "m"}]}}
    own = [{"id": "s", "base_url": LOCAL, "api_key": written}]
    registry = registry_of(providers, settings=own, **environment)
    for reference in ("mine/m", "custom/s"):
        model = get(registry, reference)
        assert registry.has_key(model.provider) is (key is not None)
        if key is None:
            with pytest.raises(ModelError) as caught:
                registry.key(model)
            assert "MY_OWN_KEY is not set" in caught.value.message
        else:
            assert registry.key(model) == key
    assert ("MY_OWN_KEY" in written) is ("MY_OWN_KEY" in registry.secret_names())


@pytest.mark.process
def test_pi_16_one_key_that_cannot_be_used_hides_no_other_model(registry_of):
    registry = registry_of(
        {"mine": {"baseUrl": LOCAL, "apiKey": "!false", "models": [{"id": "m"}]}}, XAI_API_KEY="k"
    )
    with pytest.raises(ModelError):
        registry.key(get(registry, "mine/m"))
    assert registry.key(get(registry, "xai/grok-4.3")) == "k"
    assert {model.reference for model in registry.models()} >= {"mine/m", "openai/gpt-4o"}


def test_a_providers_key_goes_to_that_provider_alone(registry_of):
    """Not to the address of a single model; where the provider itself is elsewhere, that is what is meant."""
    stray = [{"id": "gpt-4o", "provider": "openai", "base_url": "http://192.0.2.1/v1"}]
    registry = registry_of(settings=stray, OPENAI_API_KEY="secret")
    assert registry.key(get(registry, "openai/gpt-4o")) == ""
    assert registry.key(get(registry, "openai/gpt-4o-mini")) == "secret"
    moved = registry_of(OPENAI_API_KEY="secret", OPENAI_BASE_URL="http://192.0.2.1/v1")
    assert moved.key(get(moved, "openai/gpt-4o")) == "secret"


@pytest.mark.parametrize(
    ("name", "address", "url"),
    [
        ("corp", {"baseUrl": "https://corp.example/v1"}, "https://corp.example:444/v1"),
        ("corp", {"baseUrl": "https://corp.example/v1"}, "https://elsewhere.example/v1"),
        ("anthropic", {}, "https://elsewhere.example"),
        ("ollama", {}, "https://elsewhere.example/v1"),
    ],
)
def test_a_providers_key_and_headers_stay_from_a_model_elsewhere(name, address, url, registry_of):
    """Also those of models.json; a key and headers of the model's own go where it is."""
    own = [{"id": "m", "baseUrl": url}, {"id": "n", "baseUrl": url, "apiKey": "own", "headers": {"y": "2"}}]
    there = [{"id": "o"}, {"id": "p", "baseUrl": f"{address['baseUrl']}/other"}] if address else [{"id": "o"}]
    provider = {**address, "apiKey": "secret", "headers": {"x": "secret"}, "models": [*own, *there]}
    registry = registry_of({name: provider})
    stray, with_own = get(registry, f"{name}/m"), get(registry, f"{name}/n")
    assert (registry.key(stray), stray.headers) == ("", {})
    assert (registry.key(with_own), with_own.headers) == ("own", {"y": "2"})
    for each in there:
        model = get(registry, f"{name}/{each['id']}")
        assert (registry.key(model), model.headers) == ("secret", {"x": "secret"})


def test_a_provider_without_an_address_gives_its_key_to_its_models(registry_of):
    """There is nobody else it could be for."""
    provider = {"apiKey": "secret", "headers": {"x": "1"}, "models": [{"id": "m", "baseUrl": LOCAL}]}
    registry = registry_of({"lab": provider})
    model = get(registry, "lab/m")
    assert (registry.key(model), model.headers) == ("secret", {"x": "1"})


def test_no_key_is_in_a_model_or_in_what_anything_looks_like(registry_of):
    secret = "sk-very-secret"
    providers = {
        "mine": {
            "baseUrl": LOCAL,
            "apiKey": secret,
            "headers": {"x": secret, "y": "HEADER_KEY"},
            "models": [{"id": "m"}],
        },
        "openai": {"headers": {"x-proxy": secret}},
    }
    own = [{"id": "s", "base_url": LOCAL, "api_key": secret, "headers": {"x": secret}}]
    registry = registry_of(providers, settings=own, OPENAI_API_KEY=secret, HEADER_KEY=secret)
    models = registry.models()
    assert secret not in f"{registry!r}{models!r}"
    bare = [msgspec.structs.replace(model, headers={}) for model in models]
    assert secret not in msgspec.json.encode(bare).decode()
    assert get(registry, "mine/m").headers == {"x": secret, "y": secret}
    assert get(registry, "openai/gpt-4o").headers == {"x-proxy": secret}
    assert "HEADER_KEY" in registry.secret_names()


# --- the user's own models -----------------------------------------------------------------------------


def test_pi_16_a_model_of_the_settings(registry_of):
    """An id and an address are enough: a server of one's own, chat completions, no key."""
    registry = registry_of(settings=[{"id": "org/mine:7b", "base_url": f"{LOCAL}/"}])
    model = get(registry, "custom/org/mine:7b")
    assert model == Model(
        id="org/mine:7b", name="org/mine:7b", provider="custom", api="openai-completions", base_url=LOCAL
    )
    assert registry.key(model) == ""
    assert registry.is_custom(model)
    assert registry.models()[0] == model


def test_pi_16_everything_can_be_said_of_it(registry_of):
    own = {
        "id": "m",
        "provider": "lab",
        "base_url": LOCAL,
        "api": "anthropic-messages",
        "name": "Mine",
        "context_window": 1000,
        "max_tokens": 10,
        "cost": {"input": 1, "output": 2},
        "reasoning": True,
        "input": ["text", "image"],
        "headers": {"x-lab": "1"},
    }
    assert get(registry_of(settings=[own]), "lab/m") == Model(
        id="m",
        provider="lab",
        base_url=LOCAL,
        api="anthropic-messages",
        name="Mine",
        context_window=1000,
        max_tokens=10,
        cost=Cost(1, 2),
        reasoning=True,
        input=("text", "image"),
        headers={"x-lab": "1"},
    )


def test_pi_16_a_model_at_a_known_address_is_that_providers(registry_of):
    """So that a model newer than this release needs two words."""
    own = [
        {"id": "gpt-99", "base_url": "https://api.openai.com/v1"},
        {"id": "claude-99", "provider": "anthropic"},
    ]
    registry = registry_of(settings=own, OPENAI_API_KEY="o", ANTHROPIC_API_KEY="a")
    newest = get(registry, "openai/gpt-99")
    assert (newest.api, registry.key(newest)) == ("openai-responses", "o")
    other = get(registry, "anthropic/claude-99")
    assert (other.api, other.base_url, registry.key(other)) == (
        "anthropic-messages",
        "https://api.anthropic.com",
        "a",
    )


def test_pi_16_what_a_model_leaves_open_is_as_built_in(registry_of):
    own = [{"id": "gpt-4o", "provider": "openai", "base_url": LOCAL, "max_tokens": 5}]
    model = get(registry_of(settings=own), "openai/gpt-4o")
    assert (model.max_tokens, model.context_window, model.input) == (5, 128_000, ("text", "image"))
    assert (model.base_url, model.api) == (LOCAL, "openai-completions")
    assert model.cost == Cost(), "what OpenAI takes is not what they take there"
    priced = [{**own[0], "cost": {"input": 1}}, {"id": "gpt-4o-mini", "provider": "openai"}]
    registry = registry_of(settings=priced)
    assert get(registry, "openai/gpt-4o").cost == Cost(input=1)
    assert get(registry, "openai/gpt-4o-mini").cost.input > 0


@pytest.mark.parametrize(
    ("own", "cause"),
    [
        ([{"id": "m"}], "the settings passed in: model custom/m has no base_url"),
        ([{"id": "m", "base_url": LOCAL}] * 2, "the settings passed in: two models are custom/m"),
        ([{"id": "m", "base_url": "localhost:8080"}], "base_url of custom/m is no address"),
    ],
)
def test_a_model_that_cannot_be_reached_is_named(own, cause, registry_of):
    with pytest.raises(PerdureError, match=cause):
        registry_of(settings=own).models()


def test_what_a_model_speaks_or_lacks_names_the_file(registry_of):
    """And one that speaks what is unknown, as pi may know it, hides no other."""
    providers = {"lab": {"baseUrl": LOCAL, "api": "foo", "models": [{"id": "m"}]}}
    own = [{"id": "s", "base_url": LOCAL, "api": "foo"}]
    registry = registry_of(providers, settings=own)
    for reference, file in (("lab/m", "models.json"), ("custom/s", "he settings passed in")):
        model = get(registry, reference)
        with pytest.raises(ModelError, match=f"{file}: model {reference} speaks 'foo'") as caught:
            registry.key(model)
        assert "openai-completions" in caught.value.hint
        assert not registry.is_usable(model)
        assert registry.trouble(model) == caught.value.message
    with pytest.raises(PerdureError, match=r"models\.json: model lab/m has no base_url"):
        registry_of({"lab": {"models": [{"id": "m"}]}}).models()


def test_g_5_what_is_wrong_with_a_model_names_who_named_it(tmp_path):
    """A file, a project's file, or the program that passed its settings in."""
    project = tmp_path / "project"
    (project / ".pi").mkdir(parents=True)
    (project / ".pi" / "settings.json").write_text('{"models": [{"id": "p", "provider": "x", "api": "foo"}]}')
    (tmp_path / "settings.json").write_text('{"models": [{"id": "u", "provider": "x", "api": "foo"}]}')
    users = Settings.of(None, str(tmp_path), project=str(project))
    passed_in = Settings.of({"models": [{"id": "s", "provider": "x", "api": "foo"}]}, str(tmp_path))
    for settings, place in ((users, f"{project}/.pi/settings.json"), (passed_in, "the settings passed in")):
        with pytest.raises(PerdureError, match=f"^{place}: model x/. has no base_url"):
            ModelRegistry(settings, home=str(tmp_path), environment={}).models()


@pytest.mark.process
def test_g_5_a_key_knows_what_to_do_if_it_is_refused(registry_of):
    """Correct it where it is: a variable, a file, a command, or nowhere yet."""
    providers = {
        "file": {"baseUrl": LOCAL, "apiKey": "sk-1", "models": [{"id": "m"}]},
        "named": {"baseUrl": LOCAL, "apiKey": "$MINE", "models": [{"id": "m"}]},
        "command": {"baseUrl": LOCAL, "apiKey": "!echo sk-2", "models": [{"id": "m"}]},
    }
    own = [
        {"id": "m", "provider": "mine", "base_url": LOCAL, "api_key": "sk-3"},
        {"id": "keyless", "provider": "mine", "base_url": LOCAL},
    ]
    registry = registry_of(providers, settings=own, ANTHROPIC_API_KEY="a", GEMINI_API_KEY="g", MINE="m")
    expected = {
        "anthropic/claude-sonnet-4-5": "correct the key in ANTHROPIC_API_KEY",
        "google/gemini-2.5-pro": "correct the key in GEMINI_API_KEY",
        "named/m": "correct the key in MINE",
        "file/m": "models.json",
        "command/m": "command prints",
        "mine/m": "api_key in the settings passed in",
        "mine/keyless": "it was sent no key",
    }
    for reference, remedy in expected.items():
        key = registry.key(get(registry, reference))
        assert remedy in key.remedy
        assert "OPENAI" not in key.remedy
        assert str(key) not in repr(key) or not key


def test_pi_16_a_provider_of_pis_models_file(registry_of):
    """As the original documents it: limits and prices per model, protocol per provider or model."""
    providers = {
        "ollama": {
            "baseUrl": "http://localhost:11434/v1",
            "api": "openai-completions",
            "apiKey": "ollama",
            "models": [{"id": "llama3.1:8b", "name": "Llama", "contextWindow": 9, "maxTokens": 3}],
        },
        "proxy": {
            "baseUrl": "https://proxy.example.com/v1",
            "api": "anthropic-messages",
            "apiKey": "PROXY_KEY",
            "headers": {"x-team": "TEAM"},
            "models": [{"id": "one"}, {"id": "two", "api": "openai-responses", "headers": {"x-two": "2"}}],
        },
    }
    registry = registry_of(providers, PROXY_KEY="k", TEAM="blue")
    llama = get(registry, "ollama/llama3.1:8b")
    assert (llama.name, llama.context_window, llama.max_tokens, llama.base_url) == (
        "Llama",
        9,
        3,
        "http://localhost:11434/v1",
    )
    assert registry.key(llama) == "ollama"
    one, two = get(registry, "proxy/one"), get(registry, "proxy/two")
    assert (one.api, two.api) == ("anthropic-messages", "openai-responses")
    assert (one.headers, two.headers) == ({"x-team": "blue"}, {"x-team": "blue", "x-two": "2"})
    assert registry.key(one) == registry.key(two) == "k"
    assert registry.get("proxy/three") is None


def test_pi_16_a_built_in_provider_can_be_reached_elsewhere(registry_of):
    """All its models with it, and those that only the server there knows; single ones can be changed."""
    providers = {
        "anthropic": {"baseUrl": "https://proxy.example.com", "headers": {"x": "1"}},
        "openai": {
            "modelOverrides": {"gpt-4o": {"maxTokens": 7, "name": "Mine"}, "unknown": {"maxTokens": 1}}
        },
        "groq": {"apiKey": "sk-other", "models": [{"id": "added"}]},
    }
    registry = registry_of(providers, ANTHROPIC_API_KEY="k")
    model = get(registry, "anthropic/claude-sonnet-4-5")
    assert (model.base_url, model.api, model.headers) == (
        "https://proxy.example.com",
        "anthropic-messages",
        {"x": "1"},
    )
    assert model.context_window == 200_000
    assert registry.key(model) == "k"
    assert get(registry, "anthropic/only-there").api == "anthropic-messages"
    changed = get(registry, "openai/gpt-4o")
    assert (changed.name, changed.max_tokens, changed.context_window) == ("Mine", 7, 128_000)
    assert registry.get("openai/unknown") is None
    added = get(registry, "groq/added")
    assert (added.base_url, registry.key(added)) == ("https://api.groq.com/openai/v1", "sk-other")
    assert registry.key(get(registry, "groq/llama-3.3-70b-versatile")) == "sk-other"


# --- what the environment says of addresses -------------------------------------------------------------


@pytest.mark.parametrize(
    ("variable", "url", "reference", "base_url", "api"),
    [
        ("OPENAI_BASE_URL", f"{LOCAL}/", "openai/gpt-4o", LOCAL, "openai-completions"),
        ("OPENAI_BASE_URL", LOCAL, "openai/any/thing:8b", LOCAL, "openai-completions"),
        (
            "OPENAI_BASE_URL",
            "https://api.openai.com/v1/",
            "openai/gpt-4o",
            "https://api.openai.com/v1",
            "openai-responses",
        ),
        (
            "OPENAI_BASE_URL",
            "https://eu.api.openai.com/v1",
            "openai/gpt-4o",
            "https://eu.api.openai.com/v1",
            "openai-responses",
        ),
        (
            "OPENAI_BASE_URL",
            "https://api.openai.com.example.net/v1",
            "openai/gpt-4o",
            "https://api.openai.com.example.net/v1",
            "openai-completions",
        ),
        (
            "ANTHROPIC_BASE_URL",
            "http://127.0.0.1:1",
            "anthropic/claude-sonnet-4-5",
            "http://127.0.0.1:1",
            "anthropic-messages",
        ),
        (
            "GOOGLE_GEMINI_BASE_URL",
            "http://127.0.0.1:1/",
            "google/gemini-2.5-flash",
            "http://127.0.0.1:1/v1beta",
            "google-generative-ai",
        ),
        (
            "GEMINI_BASE_URL",
            "http://127.0.0.1:1/v1",
            "google/gemini-2.5-flash",
            "http://127.0.0.1:1/v1",
            "google-generative-ai",
        ),
        ("GROQ_BASE_URL", LOCAL, "groq/other", LOCAL, "openai-completions"),
    ],
)
def test_an_address_from_the_environment(variable, url, reference, base_url, api, registry_of):
    """What is not OpenAI's own speaks chat completions; a server of one's own needs no key."""
    registry = registry_of(**{variable: url})
    model = get(registry, reference)
    assert (model.base_url, model.api) == (base_url, api)
    is_own_server = "api.openai.com/" not in base_url
    assert registry.has_key(model.provider) is is_own_server
    if is_own_server:
        assert registry.key(model) == ""


def test_a_server_in_openais_place_has_neither_its_models_nor_its_prices(registry_of):
    """What is known of a model's name still holds; of other names nothing is known, so they may think."""
    registry = registry_of({"openai": {"modelOverrides": {"gpt-4": {"maxTokens": 7}}}}, OPENAI_BASE_URL=LOCAL)
    assert not any(model.provider == "openai" for model in registry.models())
    assert registry.default("openai") is None
    assert registry.own_server("openai") == ("OPENAI_BASE_URL", LOCAL)
    known, other = get(registry, "openai/gpt-4o"), get(registry, "openai/Qwen/Qwen3-8B")
    assert (known.input, known.reasoning, known.cost) == (("text", "image"), False, Cost())
    assert (other.id, other.reasoning, other.cost) == ("Qwen/Qwen3-8B", True, Cost())
    assert get(registry, "openai/gpt-4").max_tokens == 7
    named = registry_of(OPENAI_BASE_URL=LOCAL, OPENAI_MODEL="gpt-4o", OLLAMA_HOST="box")
    assert named.default("openai") == known
    assert {model.reference for model in named.models()} >= {"openai/gpt-4o", "ollama/qwen3:8b"}
    assert get(named, "ollama/llama3").reasoning


@pytest.mark.parametrize(
    ("models", "environment"),
    [
        (None, {}),
        (None, {"OPENAI_BASE_URL": "https://eu.api.openai.com/v1"}),
        (None, {"ANTHROPIC_BASE_URL": "https://gateway.example.com"}),
        ({"openai": {"baseUrl": "https://gateway.example.com/v1"}}, {}),
    ],
)
def test_another_way_to_the_same_models_has_them_all(models, environment, registry_of):
    """A region; a gateway that speaks like Anthropic; as pi has it, whatever models.json says."""
    registry = registry_of(models, **environment)
    for reference in ("openai/gpt-4o", "anthropic/claude-sonnet-4-5"):
        assert get(registry, reference).cost.input > 0
        assert reference in {model.reference for model in registry.models()}
    assert registry.default("openai")
    assert registry.own_server("openai") == registry.own_server("anthropic") == ("", "")


def test_a_model_may_say_what_it_speaks_wherever_it_is(registry_of):
    registry = registry_of({"openai": {"baseUrl": LOCAL, "api": "openai-responses"}})
    assert get(registry, "openai/gpt-4o").api == "openai-responses"


def test_the_environment_comes_before_the_file(registry_of):
    registry = registry_of({"openai": {"baseUrl": "http://192.0.2.1/v1"}}, OPENAI_BASE_URL=LOCAL)
    assert get(registry, "openai/gpt-4o").base_url == LOCAL


@pytest.mark.parametrize(
    "url", ["localhost:8080", "ftp://x", "http://", "http://[", "http://x y", "http://h:99999"]
)
def test_an_address_that_is_none_names_its_variable(url, registry_of):
    with pytest.raises(PerdureError, match="OPENAI_BASE_URL is no address"):
        registry_of(OPENAI_BASE_URL=url).models()


@pytest.mark.parametrize(
    ("host", "base_url"),
    [
        ("localhost", "http://localhost:11434"),
        ("127.0.0.1:1234", "http://127.0.0.1:1234"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:80", "http://127.0.0.1:80"),
        (":1234", "http://127.0.0.1:1234"),
        ("", "http://127.0.0.1:11434"),
        ("http://box", "http://box:80"),
        ("https://box/", "https://box:443"),
        ("https://box:8443/ollama", "https://box:8443/ollama"),
        ("[::1]:1234", "http://[::1]:1234"),
        ("::1", "http://[::1]:11434"),
        ("[::]", "http://[::1]:11434"),
        ("'box:1'", "http://box:1"),
    ],
)
def test_ollamas_variable_is_read_as_ollama_reads_it(host, base_url):
    assert ollama_address(host) == base_url
    assert address(ollama_address(host), "OLLAMA_HOST") == base_url


def test_any_model_of_an_ollama_server_is_accepted(registry_of):
    registry = registry_of(OLLAMA_HOST="0.0.0.0:5", OLLAMA_CONTEXT_LENGTH="4096")
    model = get(registry, "ollama/hf.co/org/qwen3:8b")
    assert (model.id, model.base_url, model.api) == (
        "hf.co/org/qwen3:8b",
        "http://127.0.0.1:5/v1",
        "openai-completions",
    )
    assert (model.context_window, registry.key(model)) == (4096, "")
    assert "ollama/qwen3:8b" in {each.reference for each in registry.models()}


def test_ollama_is_where_it_usually_is_unless_somebody_says_otherwise(registry_of):
    registry = registry_of()
    assert get(registry, "ollama/x").base_url == "http://127.0.0.1:11434/v1"
    assert not any(model.provider == "ollama" for model in registry.models())
    assert registry.default("ollama") is None


@given(st.text(max_size=30))
def test_no_text_is_an_address_that_ends_otherwise_than_with_an_error(text):
    for made in (text, ollama_address(text)):
        try:
            found = address(made, "X")
        except PerdureError:
            continue
        assert found.startswith(("http://", "https://"))
        assert not found.endswith("/")


@given(
    st.lists(
        st.builds(
            CustomModel,
            id=st.text(min_size=1, max_size=8),
            provider=st.sampled_from(["a", "openai"]),
            base_url=st.just(LOCAL),
        ),
        unique_by=lambda model: (model.provider, model.id),
        max_size=5,
    )
)
@FEW
def test_every_model_of_the_settings_can_be_had(tmp_path_factory, own):
    """Whatever its id is made of."""
    registry = ModelRegistry(
        Settings(models=tuple(own)), home=str(tmp_path_factory.getbasetemp()), environment={}
    )
    for model in own:
        assert get(registry, f"{model.provider}/{model.id}").base_url == LOCAL
