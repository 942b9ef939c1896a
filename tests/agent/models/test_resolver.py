"""The model somebody means is found, or the error says what is near; no other is taken in its place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.models import THINKING_LEVELS
from perdure.agent.models.registry import ModelRegistry
from perdure.agent.models.resolver import ModelResolver, wanted
from perdure.agent.settings import CustomModel, Settings
from perdure.errors import ModelError
from tests.effort import FEW

LOCAL = "http://127.0.0.1:8080/v1"
PLAIN = ModelResolver(ModelRegistry(Settings(), home="/nonexistent", environment={}))


def resolver(settings: Settings | None = None, **environment: str) -> ModelResolver:
    found = settings or Settings()
    return ModelResolver(ModelRegistry(found, environment=environment))


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("gpt-4o", "openai/gpt-4o"),
        ("openai/gpt-4o", "openai/gpt-4o"),
        (" gpt-4o:high ", "openai/gpt-4o"),
        ("claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
        ("openrouter/openai/gpt-4o", "openrouter/openai/gpt-4o"),
        ("anthropic/claude-sonnet-4.5", "openrouter/anthropic/claude-sonnet-4.5"),
        ("qwen/qwen3-coder:high", "openrouter/qwen/qwen3-coder"),
        ("ollama/qwen3:8b", "ollama/qwen3:8b"),
        ("offline", "offline/offline"),
        ("offline/offline", "offline/offline"),
    ],
)
def test_pi_15_a_model_by_what_people_call_it(text, reference):
    """Bare ids, providers, ids with slashes and colons, levels of thinking."""
    model = resolver().resolve(text)
    assert model.reference == reference


def test_pi_15_an_id_of_several_providers_is_the_one_that_can_be_asked():
    """The first of the preferred, then whoever has a key; the same each time."""
    text = "openai/gpt-oss-120b"
    assert resolver().resolve(text) == resolver().resolve(text)
    for provider, variable in (("groq", "GROQ_API_KEY"), ("openrouter", "OPENROUTER_API_KEY")):
        assert resolver(None, **{variable: "k"}).resolve(text).provider == provider
    assert resolver(OPENROUTER_API_KEY="k").resolve("gpt-4o").provider == "openai"


def test_pi_16_the_users_own_model_comes_first():
    own = Settings(models=(CustomModel(id="gpt-4o", base_url=LOCAL), CustomModel(id="mine", base_url=LOCAL)))
    assert resolver(own).resolve("gpt-4o").reference == "custom/gpt-4o"
    assert resolver(own).resolve("openai/gpt-4o").reference == "openai/gpt-4o"
    assert resolver(own).resolve("mine").base_url == LOCAL


@pytest.mark.parametrize(
    ("text", "environment", "reference"),
    [
        ("whatever", {"OPENAI_BASE_URL": LOCAL}, "openai/whatever"),
        ("openai/org/whatever", {"OPENAI_BASE_URL": LOCAL}, "openai/org/whatever"),
        ("gpt-4o", {"OPENAI_BASE_URL": LOCAL}, "openai/gpt-4o"),
        ("Qwen/Qwen3-8B", {"OPENAI_BASE_URL": LOCAL}, "openai/Qwen/Qwen3-8B"),
        ("Qwen/Qwen3-8B:high", {"OPENAI_BASE_URL": LOCAL}, "openai/Qwen/Qwen3-8B"),
        ("qwen/qwen3-coder", {"OPENAI_BASE_URL": LOCAL}, "openai/qwen/qwen3-coder"),
        ("google/gemma-3-4b", {"OPENAI_BASE_URL": LOCAL}, "openai/google/gemma-3-4b"),
        (
            "qwen/qwen3-coder",
            {"OPENAI_BASE_URL": LOCAL, "OPENROUTER_API_KEY": "k"},
            "openrouter/qwen/qwen3-coder",
        ),
        (
            "claude-sonnet-4-5",
            {"OPENAI_BASE_URL": LOCAL, "ANTHROPIC_API_KEY": "k"},
            "anthropic/claude-sonnet-4-5",
        ),
        ("qwen3:8b", {"OLLAMA_HOST": "box"}, "ollama/qwen3:8b"),
        ("hf.co/org/qwen3", {"OLLAMA_HOST": "box"}, "ollama/hf.co/org/qwen3"),
        ("qwen/qwen3-coder", {"OLLAMA_HOST": "box"}, "openrouter/qwen/qwen3-coder"),
    ],
)
def test_a_server_of_ones_own_is_asked_for_what_nobody_listed(text, environment, reference):
    """Ids with slashes too, and those that are listed where there is no key."""
    assert resolver(None, **environment).resolve(text).reference == reference


@pytest.mark.parametrize(
    ("text", "environment"),
    [
        ("google/gemma-3-4b", {"OPENAI_BASE_URL": LOCAL, "GEMINI_API_KEY": "k"}),
        ("/x", {"OPENAI_BASE_URL": LOCAL}),
        ("openai/gpt-99", {"OLLAMA_HOST": "box"}),
        ("gpt-99", {"OLLAMA_HOST": "box"}),
        ("Qwen/Qwen3-8B", {}),
    ],
)
def test_what_looks_like_another_providers_is_not_taken_to_ones_own_server(text, environment):
    with pytest.raises(ModelError, match="Unknown model"):
        resolver(None, **environment).resolve(text)


# --- thinking ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", THINKING_LEVELS)
def test_a_level_of_thinking_is_split_off(level):
    assert resolver().split(f"openai/gpt-4o:{level}") == ("openai/gpt-4o", level)
    assert resolver().split(f"ollama/qwen3:8b:{level}") == ("ollama/qwen3:8b", level)


@pytest.mark.parametrize(
    "text", ["qwen3:8b", "ollama/qwen3:8b", "x:free", "a:b:c", ":high", "", "gpt-4o:HIGH"]
)
def test_other_colons_belong_to_the_name(text):
    assert resolver().split(text) == (text, None)


def test_a_model_whose_name_ends_like_a_level_stays_whole():
    own = Settings(models=(CustomModel(id="mine:high", base_url=LOCAL),))
    assert resolver(own).split("mine:high") == ("mine:high", None)
    assert resolver(own).split("custom/mine:high:low") == ("custom/mine:high", "low")


@given(st.text(max_size=40))
def test_splitting_loses_nothing(text):
    """Name and level, joined, are what was written."""
    name, level = PLAIN.split(text)
    assert (f"{name}:{level}" if level else name) == text.strip()


# --- the default ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "reference"),
    [
        (Settings(default_model="gpt-4o"), "openai/gpt-4o"),
        (Settings(default_model="gpt-4o:low"), "openai/gpt-4o"),
        (Settings(default_model="gpt-4o", default_provider="openai"), "openai/gpt-4o"),
        (Settings(default_model="openai/gpt-4o", default_provider="openai"), "openai/gpt-4o"),
        (Settings(default_model="openai/gpt-4o", default_provider="openrouter"), "openrouter/openai/gpt-4o"),
        (Settings(default_model="offline"), "offline/offline"),
        (Settings(default_provider="offline"), "offline/offline"),
    ],
)
def test_pi_17_the_settings_name_the_default(settings, reference):
    assert resolver(settings, ANTHROPIC_API_KEY="k").resolve().reference == reference
    assert resolver(settings).resolve("claude-sonnet-4-5").provider == "anthropic", "an argument comes first"


def test_pi_17_the_settings_may_name_only_a_provider():
    assert resolver(Settings(default_provider="anthropic")).resolve().provider == "anthropic"
    with pytest.raises(ModelError, match="No model is set for provider 'groq', which is the default"):
        resolver(Settings(default_provider="groq")).resolve()


G_9 = [
    ({"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k", "GEMINI_API_KEY": "k", "OLLAMA_HOST": "h"}, "openai"),
    ({"ANTHROPIC_API_KEY": "k", "GEMINI_API_KEY": "k", "OLLAMA_HOST": "h"}, "anthropic"),
    ({"GOOGLE_API_KEY": "k", "OLLAMA_HOST": "h"}, "google"),
    ({"OPENAI_API_KEY": "", "OLLAMA_HOST": "h", "GROQ_API_KEY": "k"}, "ollama"),
    ({"OPENAI_BASE_URL": LOCAL, "OPENAI_MODEL": "mine"}, "openai"),
    ({"GROQ_API_KEY": "k"}, "offline"),
    ({}, "offline"),
]


@pytest.mark.parametrize(("environment", "provider"), G_9)
def test_g_9_the_first_provider_with_a_key_is_the_default(environment, provider):
    """openai, anthropic, google, then the server that OLLAMA_HOST names, then offline."""
    found = resolver(None, **environment)
    model = found.resolve()
    assert model.provider == provider
    assert found.resolve(None) == found.resolve("") == model


def test_g_9_the_model_of_a_server_of_ones_own_is_a_variable_or_a_documented_one():
    assert resolver(OLLAMA_HOST="h").resolve().id == "qwen3:8b"
    assert resolver(OLLAMA_HOST="h", OLLAMA_MODEL="llama3:70b").resolve().id == "llama3:70b"
    assert resolver(OPENAI_BASE_URL=LOCAL, OPENAI_MODEL="mine").resolve().id == "mine"
    assert resolver(OPENAI_API_KEY="k", OPENAI_MODEL="mine").resolve().id != "mine", (
        "OpenAI has no such model"
    )


def test_g_9_a_server_of_ones_own_is_not_asked_for_openais_model():
    """Which it has, only its user knows; also if the settings name no more than the provider."""
    for settings in (None, Settings(default_provider="openai")):
        found = resolver(settings, OPENAI_BASE_URL=LOCAL, ANTHROPIC_API_KEY="k")
        with pytest.raises(ModelError, match="No model is named for the server of OPENAI_BASE_URL") as caught:
            found.resolve()
        assert "-m NAME" in caught.value.hint
        assert "OPENAI_MODEL" in caught.value.hint


@pytest.mark.parametrize("key", ["\u2026", "two\nlines", "schlüssel"])
def test_g_9_a_key_that_cannot_be_used_does_not_make_way_for_the_next(key):
    """Whoever set it wants that provider, and is told when it is asked."""
    for first, environment in (
        ("openai", {"OPENAI_API_KEY": key, "ANTHROPIC_API_KEY": "k"}),
        ("anthropic", {"ANTHROPIC_API_KEY": key, "OLLAMA_HOST": "h"}),
    ):
        registry = ModelRegistry(Settings(), environment=environment)
        model = ModelResolver(registry).resolve()
        assert model.provider == first
        with pytest.raises(ModelError, match=f"{first.upper()}_API_KEY holds characters that no key has"):
            registry.key(model)
    assert resolver(OPENAI_API_KEY=" k\n").resolve().provider == "openai"


def test_g_9_an_unknown_name_of_the_environment_says_whose_it_is(monkeypatch):
    """With a level too; what is said as an argument is not."""
    for name in ("nope", "nope:high"):
        monkeypatch.setenv("PERDURE_MODEL", name)
        said = wanted()
        assert said is not None
        for text in (said, resolver().split(said)[0]):
            with pytest.raises(ModelError, match="Unknown model 'nope', which PERDURE_MODEL names"):
                resolver().resolve(text)
        with pytest.raises(ModelError) as caught:
            resolver().resolve(wanted("nope"))
        assert caught.value.message == "Unknown model 'nope'"


def test_g_9_argument_then_environment_then_the_programs_own_settings(monkeypatch):
    """What is left open is for pi's settings and the built-in default, which the resolver knows."""
    assert wanted() is wanted(None, None) is wanted("", "") is None
    assert wanted(None, "of the program") == "of the program"
    monkeypatch.setenv("PERDURE_MODEL", "of the environment")
    assert wanted(None, "of the program") == "of the environment"
    assert wanted("argument", "of the program") == "argument"


def test_g_9_the_resolver_itself_does_not_ask_the_environment_which_model(monkeypatch):
    monkeypatch.setenv("PERDURE_MODEL", "gpt-4o")
    assert ModelResolver(ModelRegistry()).resolve().reference == "offline/offline"


def test_pi_17_every_default_is_a_listed_model_that_calls_tools():
    """The built-in list has it with a window and a price."""
    for environment, provider in G_9[:3]:
        model = resolver(None, **environment).resolve()
        assert model.provider == provider
        assert model.context_window >= 128_000
        assert model.cost.output > 0


# --- what is unknown -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("gpt4o", "openai/gpt-4o"),
        ("GPT-4O", "openai/gpt-4o"),
        ("openai/gpt-4oo", "openai/gpt-4o"),
        ("claude-sonet-4-5", "anthropic/claude-sonnet-4-5"),
        ("gemini-2.5-flsh", "google/gemini-2.5-flash"),
        ("antropic/claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"),
    ],
)
def test_pi_17_an_unknown_id_names_the_nearest(text, near):
    with pytest.raises(ModelError) as caught:
        resolver(OPENAI_API_KEY="k").resolve(text)
    assert f"Unknown model {text!r}" in caught.value.message
    assert near in caught.value.hint
    assert caught.value.exit_code == 1


def test_pi_17_it_says_what_else_is_wrong():
    """A provider nobody knows; one that is known, but has no key."""
    with pytest.raises(ModelError) as caught:
        resolver().resolve("nobody/gpt-4o")
    assert "there is no provider 'nobody'" in caught.value.hint
    with pytest.raises(ModelError) as caught:
        resolver().resolve("openai/gpt-99")
    assert "OPENAI_API_KEY is not set" in caught.value.hint
    with pytest.raises(ModelError) as caught:
        resolver(OPENAI_API_KEY="k").resolve("openai/gpt-99")
    assert "OPENAI_API_KEY" not in caught.value.hint


def test_pi_17_an_unknown_default_says_that_it_is_one():
    with pytest.raises(ModelError, match="default model of the settings"):
        resolver(Settings(default_model="gone", default_provider="openai")).resolve()


OWN_SERVER = ModelResolver(
    ModelRegistry(Settings(), home="/nonexistent", environment={"OPENAI_BASE_URL": LOCAL, "OLLAMA_HOST": "h"})
)


@given(st.text(max_size=40))
@FEW
def test_the_model_of_a_reference_is_had_by_it_again(text):
    """As a session that was held with it asks for it."""
    try:
        model = OWN_SERVER.resolve(text)
    except ModelError:
        return
    assert not text or OWN_SERVER.split(model.reference)[1] or OWN_SERVER.resolve(model.reference) == model


@given(st.text(max_size=200))
@FEW
def test_whatever_is_written_is_a_model_or_a_model_error(text):
    try:
        PLAIN.resolve(text)
    except ModelError as error:
        message = error.message
    else:
        message = ""
    assert len(message) < 300
