"""Providers that extensions bring: checked when they are made, changed by the user, reached as they say."""

import json
from typing import Any

import pytest

from perdure.agent.models import Cost, Model
from perdure.agent.models.registry import CUSTOM, OLLAMA, ModelRegistry
from perdure.agent.models.registry_extensions import Provided, provided
from perdure.agent.models.resolver import ModelResolver
from perdure.agent.settings import CustomModel, Settings
from perdure.errors import ModelError, PerdureError
from perdure.programs.pi import main
from perdure.testing import ScriptedModel

LAB = "https://lab.example/v1"
ELSEWHERE = "https://elsewhere.example/v1"
SECRET = "sk-0123456789abcdef"


@pytest.fixture
def registry_of(tmp_path):
    """A registry with these providers of extensions, this models.json and these settings."""

    def make(
        *extensions: tuple[str, Provided], models: Any = None, settings: Any = (), **environment: str
    ) -> ModelRegistry:
        (tmp_path / "models.json").write_text(json.dumps({"providers": models or {}}))
        return ModelRegistry(
            Settings.of({"models": [*settings]}, str(tmp_path)),
            home=str(tmp_path),
            environment=environment,
            extensions=dict(extensions),
        )

    return make


def brought(name: str = "lab", **said: Any) -> tuple[str, Provided]:
    usual = {"base_url": LAB, "models": [{"id": "m"}], "source": "lab.py"}
    return name, provided(name, **{**usual, **said})


def connecting(name: str = "lab", **said: Any) -> tuple[str, Provided]:
    return brought(name, **{"base_url": "", "connect": scripted, **said})


def scripted(model: Model, key: str) -> ScriptedModel:
    return ScriptedModel("hello", model=model)


def get(registry: ModelRegistry, reference: str) -> Model:
    model = registry.get(reference)
    assert model is not None
    return model


# --- what is registered ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        {"id": "m", "context_window": 9, "cost": {"input": 1, "cache_read": 2}, "headers": {"x_y": "1"}},
        {"id": "m", "contextWindow": 9, "cost": {"input": 1, "cacheRead": 2}, "headers": {"x_y": "1"}},
        {"id": "m", "context_window": 9, "cost": Cost(input=1, cache_read=2), "headers": {"x_y": "1"}},
        CustomModel(id="m", context_window=9, cost=Cost(input=1, cache_read=2), headers={"x_y": "1"}),
        Model(
            id="m",
            provider="lab",
            api="openai-completions",
            context_window=9,
            cost=Cost(input=1, cache_read=2),
            headers={"x_y": "1"},
        ),
    ],
    ids=["snake", "camel", "cost", "CustomModel", "Model"],
)
def test_a_model_may_be_written_in_any_way(model, registry_of):
    found = get(registry_of(brought(models=[model])), "lab/m")
    assert (found.context_window, found.cost, found.headers) == (9, Cost(1, 0, 2), {"x_y": "1"})
    assert (found.base_url, found.api) == (LAB, "openai-completions")


@pytest.mark.parametrize(
    ("name", "said", "cause"),
    [
        ("a/b", {"base_url": LAB}, "provider 'a/b' has a name that none can have"),
        ("", {"base_url": LAB}, "provider '' has a name that none can have"),
        ("ä", {"base_url": LAB}, "has a name that none can have"),
        ("a\nb", {"base_url": LAB}, r"provider 'a\\nb' has a name that none can have"),
        (CUSTOM, {"base_url": LAB}, "has a name that is taken"),
        ("offline", {"base_url": LAB}, "has a name that is taken"),
        ("lab", {}, "provider 'lab' has no base_url"),
        ("lab", {"models": [{"id": "m", "base_url": LAB}]}, "has no base_url"),
        ("lab", {"base_url": "lab.example"}, "'lab': its base_url is no address"),
        ("lab", {"base_url": LAB, "models": [{"id": "m", "base_url": "x"}]}, "its base_url is no address"),
        ("lab", {"base_url": LAB, "api": "foo"}, "speaks 'foo', which is unknown"),
        ("lab", {"base_url": LAB, "models": [{"id": "m", "api": "foo"}]}, "speaks 'foo', which is unknown"),
        ("lab", {"connect": scripted}, "has a connect function and no models"),
        ("lab", {"connect": scripted, "models": [{"id": "m"}], "base_url": LAB}, "function and a base_url"),
        ("lab", {"connect": scripted, "models": [{"id": "m", "baseUrl": LAB}]}, "function and a base_url"),
        ("openai", {"connect": scripted, "models": [{"id": "m"}]}, "is built in, and has a connect"),
        ("lab", {"connect": "scripted", "models": [{"id": "m"}]}, "connect that is no plain function"),
        ("lab", {"base_url": LAB, "models": [{"name": "m"}]}, r"models\[0\]: object missing required .* id"),
        ("lab", {"base_url": LAB, "models": [{"id": ""}]}, r"models\[0\]\.id: expected str of length >= 1"),
        (
            "lab",
            {"base_url": LAB, "models": [{"id": "m", "context_window": "9"}]},
            r"0\]\.contextWindow: exp",
        ),
        ("lab", {"base_url": LAB, "models": ["m"]}, r"models\[0\]: expected object, got str"),
        ("lab", {"base_url": LAB, "headers": {"x": 1}}, r"headers\[\.\.\.\]: expected str, got int"),
        ("lab", {"base_url": 1}, "baseUrl: expected str, got int"),
        ("lab", {"base_url": LAB, "models": [{"id": "m"}] * 2}, "has two models 'm'"),
        ("lab", {"base_url": LAB, "models": [{"id": "m", "provider": "x"}]}, "has a model of provider 'x'"),
        ("lab", {"base_url": LAB, "models": [Model(id="m", provider="x", api="")]}, "model of provider 'x'"),
    ],
)
def test_what_is_wrong_with_a_provider_is_said_when_it_is_made(name, said, cause):
    """With its place, and with what to do; so it hides no other later."""
    with pytest.raises(PerdureError, match=cause) as caught:
        provided(name, **said, source="~/lab.py")
    assert caught.value.message.startswith("~/lab.py: provider ")
    assert caught.value.hint


def test_a_connect_that_has_to_be_awaited_is_refused():
    async def connect(model: Model, key: str) -> ScriptedModel:
        return scripted(model, key)

    with pytest.raises(PerdureError, match="Provider 'lab' has a connect that is no plain function"):
        provided("lab", models=[{"id": "m"}], connect=connect)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["openai", "groq", OLLAMA])
def test_a_provider_that_is_built_in_needs_no_address(name):
    assert provided(name, headers={"x": "1"}).headers == {"x": "1"}


def test_nothing_that_it_holds_is_shown():
    made = provided("lab", base_url=LAB, api_key=SECRET, headers={"x": SECRET}, source="lab.py")
    assert SECRET not in repr(made)
    assert "lab.py" in repr(made)


# --- over the wire -----------------------------------------------------------------------------------------


def test_a_provider_of_an_extension_is_like_one_of_models_json(registry_of):
    registry = registry_of(
        brought(api="anthropic-messages", api_key="$LAB_KEY", headers={"x": "TEAM"}), LAB_KEY="k", TEAM="blue"
    )
    model = get(registry, "lab/m")
    assert (model.base_url, model.api, model.headers) == (LAB, "anthropic-messages", {"x": "blue"})
    assert registry.key(model) == "k"
    assert "LAB_KEY" in registry.secret_names()
    assert registry.get("lab/other") is None
    assert get(registry_of(brought(models=())), "lab/anything").base_url == LAB


def test_a_key_that_is_missing_is_named(registry_of):
    registry = registry_of(brought(api_key="LAB_KEY"))
    assert not registry.has_key("lab")
    assert registry.key_variable("lab") == "LAB_KEY"
    with pytest.raises(ModelError, match="No key for lab/m: LAB_KEY is not set"):
        registry.key(get(registry, "lab/m"))


def test_it_may_change_a_built_in_provider(registry_of):
    """All its models with it, as models.json may: `baseUrl`, headers, key, models of its own."""
    registry = registry_of(
        brought("anthropic", base_url=LAB, headers={"x": "1"}, models=[]),
        brought("groq", base_url="", api_key=SECRET, models=[{"id": "new", "max_tokens": 5}]),
        ANTHROPIC_API_KEY="k",
    )
    model = get(registry, "anthropic/claude-sonnet-4-5")
    assert (model.base_url, model.headers, model.api) == (LAB, {"x": "1"}, "anthropic-messages")
    assert registry.key(model) == "k"
    new = get(registry, "groq/new")
    assert (new.base_url, new.max_tokens) == ("https://api.groq.com/openai/v1", 5)
    assert registry.key(new) == registry.key(get(registry, "groq/llama-3.3-70b-versatile")) == SECRET


def test_a_providers_key_goes_to_that_provider_alone(registry_of):
    """Not where a single model is; that may have a key of its own."""
    models = [{"id": "m", "base_url": ELSEWHERE}, {"id": "n", "base_url": ELSEWHERE, "api_key": "own"}]
    registry = registry_of(
        brought(api_key=SECRET, headers={"x": SECRET}, models=models),
        brought("openai", base_url="", models=models),
        OPENAI_API_KEY=SECRET,
    )
    for name in ("lab", "openai"):
        stray, with_own = get(registry, f"{name}/m"), get(registry, f"{name}/n")
        assert (registry.key(stray), stray.headers) == ("", {})
        assert (registry.key(with_own), with_own.headers) == ("own", {})


# --- what the user says over it ----------------------------------------------------------------------------


def test_models_json_is_laid_over_it_field_by_field(registry_of):
    extension = brought(
        api="openai-responses",
        api_key="$THEIRS",
        headers={"x": "theirs", "y": "theirs"},
        models=[{"id": "m"}],
    )
    own = {"lab": {"apiKey": "$MINE", "headers": {"y": "mine"}, "models": [{"id": "n", "maxTokens": 7}]}}
    registry = registry_of(extension, models=own, MINE="my-key")
    for reference in ("lab/m", "lab/n"):
        model = get(registry, reference)
        assert (model.base_url, model.api) == (LAB, "openai-responses")
        assert model.headers == {"x": "theirs", "y": "mine"}
        assert registry.key(model) == "my-key"
    assert get(registry, "lab/n").max_tokens == 7
    moved = registry_of(
        extension, models={"lab": {"baseUrl": ELSEWHERE, "api": "openai-completions"}}, THEIRS="t"
    )
    model = get(moved, "lab/m")
    assert (model.base_url, model.api, moved.key(model)) == (ELSEWHERE, "openai-completions", "t")


@pytest.mark.parametrize(
    "own", [{"models": [{"id": "m", "maxTokens": 7}]}, {"modelOverrides": {"m": {"maxTokens": 7}}}]
)
def test_what_the_user_leaves_open_of_a_model_is_as_the_extension_says(own, registry_of):
    theirs = {"id": "m", "name": "Mine", "context_window": 9, "max_tokens": 3, "reasoning": True}
    model = get(registry_of(brought(models=[theirs]), models={"lab": own}), "lab/m")
    assert (model.name, model.context_window, model.max_tokens, model.reasoning) == ("Mine", 9, 7, True)


@pytest.mark.parametrize(
    ("url", "key", "headers"), [(ELSEWHERE, "", {}), (f"{LAB}/other", SECRET, {"x": SECRET})]
)
def test_a_models_own_key_does_not_go_where_the_user_moves_it(url, key, headers, registry_of):
    theirs = {"id": "m", "api_key": SECRET, "headers": {"x": SECRET}}
    registry = registry_of(
        brought(models=[theirs]), models={"lab": {"models": [{"id": "m", "baseUrl": url}]}}
    )
    model = get(registry, "lab/m")
    assert (model.base_url, registry.key(model), model.headers) == (url, key, headers)


def test_the_users_own_models_come_first_and_an_extensions_do_not_take_names_away(registry_of):
    """Who says `gpt-4o` and has a key for OpenAI means that one, unless they named another themselves."""
    extension = brought(models=[{"id": "gpt-4o"}, {"id": "theirs"}])
    registry = registry_of(extension, settings=[{"id": "s", "base_url": ELSEWHERE}], OPENAI_API_KEY="k")
    assert [model.reference for model in registry.models()][:3] == ["custom/s", "lab/gpt-4o", "lab/theirs"]
    assert not registry.is_custom(get(registry, "lab/gpt-4o"))
    resolver = ModelResolver(registry)
    assert resolver.resolve("gpt-4o").provider == "openai"
    assert resolver.resolve("lab/gpt-4o").provider == "lab"
    assert resolver.resolve("theirs").reference == "lab/theirs"
    named = registry_of(extension, models={"lab": {"models": [{"id": "gpt-4o"}]}}, OPENAI_API_KEY="k")
    assert ModelResolver(named).resolve("gpt-4o").provider == "lab"


# --- what it connects to itself ----------------------------------------------------------------------------


def test_a_model_that_the_extension_connects_to(registry_of):
    registry = registry_of(connecting(models=[{"id": "m", "name": "Mine", "context_window": 9}]))
    model = get(registry, "lab/m")
    assert model in registry.models()
    assert (model.api, model.base_url, model.name, model.context_window) == ("lab", "", "Mine", 9)
    assert (registry.key(model), registry.sends_key(model)) == ("", False)
    assert registry.is_usable(model)
    assert registry.has_key("lab")
    assert ModelResolver(registry).resolve("m") == model
    assert registry.get("lab/other") is None


@pytest.mark.process
def test_it_needs_a_key_only_if_one_was_given(registry_of):
    registry = registry_of(connecting(api_key="LAB_KEY", api="lab-stream"))
    model = get(registry, "lab/m")
    assert model.api == "lab-stream"
    assert not registry.is_usable(model)
    with pytest.raises(ModelError, match="LAB_KEY is not set"):
        registry.key(model)
    assert registry_of(connecting(api_key="LAB_KEY"), LAB_KEY="k").key(model) == "k"
    assert registry_of(connecting(api_key="!echo k")).key(model) == "k"


def test_the_user_may_give_it_a_key_an_address_and_models(registry_of):
    own = {"apiKey": SECRET, "baseUrl": ELSEWHERE, "models": [{"id": "n"}]}
    registry = registry_of(connecting(), models={"lab": own})
    for reference in ("lab/m", "lab/n"):
        model = get(registry, reference)
        assert (model.api, model.base_url, registry.key(model)) == ("lab", ELSEWHERE, SECRET)
    elsewhere = {"apiKey": SECRET, "models": [{"id": "n", "baseUrl": ELSEWHERE}]}
    stray = registry_of(connecting(), models={"lab": elsewhere})
    assert stray.key(get(stray, "lab/n")) == ""
    assert stray.key(get(stray, "lab/m")) == SECRET


def test_pi_models_shows_what_extensions_bring(home, capsys, monkeypatch):
    """What can be asked now, and by name what lacks a key."""
    extensions = dict([connecting(), brought("corp", api_key="CORP_KEY")])

    def registry(out: object) -> ModelRegistry:
        return ModelRegistry(extensions=extensions)

    monkeypatch.setattr("perdure.front.commands.models._registry", registry)
    monkeypatch.setattr("sys.argv", ["pi"])
    assert main(["models", "--json"]) == 0
    rows = {row["reference"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["lab/m"]["api"] == "lab"
    assert rows["lab/m"]["usable"]
    assert "corp/m" not in rows
    assert main(["models", "corp"]) == 0
    assert "needs CORP_KEY" in capsys.readouterr().out
