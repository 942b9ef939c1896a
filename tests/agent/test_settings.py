"""Settings are what the user wrote, in either spelling; whatever is wrong is named, and never guessed."""

import json
import os
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from msgspec import Struct, structs

from perdure.agent.environment import ShellEnvironment
from perdure.agent.models import Cost
from perdure.agent.settings import (
    Compaction,
    CustomModel,
    CustomProvider,
    Limits,
    Retry,
    Settings,
    custom_providers,
    pis_spelling,
    slips,
)
from perdure.errors import PerdureError, Unreadable

SNAKE = {
    "default_model": "gpt-4o",
    "default_provider": "openai",
    "default_thinking_level": "high",
    "models": [
        {
            "id": "mine",
            "base_url": "http://127.0.0.1:8080/v1",
            "context_window": 4096,
            "max_tokens": 512,
            "cost": {"input": 1, "output": 2, "cache_read": 0.5, "cache_write": 3},
            "headers": {"x_own_header": "1", "X-Other": "2"},
            "api_key": "MY_KEY",
        }
    ],
    "auto_compact": False,
    "compact_threshold": 0.7,
    "compaction": {"reserve_tokens": 1, "keep_recent_tokens": 2, "instructions": "short", "model": "m"},
    "retry": {"enabled": False, "max_retries": 1, "base_delay_ms": 2, "max_delay_ms": 3},
    "prompts": ["be brief"],
    "shell_environment": ["HARMLESS_TOKEN"],
}


def camel(value, *, is_named=False):
    if isinstance(value, list):
        return [camel(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key if is_named else key.split("_")[0] + "".join(part.title() for part in key.split("_")[1:]): camel(
            inner, is_named=key == "headers"
        )
        for key, inner in value.items()
    }


@pytest.fixture
def agent_home(home):
    path = home / ".pi" / "agent"
    path.mkdir(parents=True)
    return path


def write(folder, value, name="settings.json"):
    (folder / name).write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")


def test_without_a_file_there_are_defaults(home):
    """pi's own, as its documents give them."""
    found = Settings.load()
    assert found == Settings()
    assert (found.default_model, found.default_thinking_level, found.models) == ("", "off", ())
    assert found.compaction == Compaction(enabled=True, reserve_tokens=16384, keep_recent_tokens=20000)
    assert found.retry == Retry(enabled=True, max_retries=3, base_delay_ms=2000, max_delay_ms=60000)
    assert found.limits == Limits(
        answer_bytes=8 * 2**20, calls_at_once=8, calls_in_one_answer=64, turns=200, cost=None
    )
    assert found.auto_compact is True
    assert found.compact_threshold is None


@pytest.mark.parametrize("spelling", [SNAKE, camel(SNAKE)], ids=["snake", "camel"])
def test_every_key_is_read_in_both_spellings(spelling, agent_home):
    write(agent_home, spelling)
    found = Settings.load()
    assert found.default_model == "gpt-4o"
    assert found.default_provider == "openai"
    assert found.default_thinking_level == "high"
    (model,) = found.models
    assert (model.id, model.base_url, model.api_key) == ("mine", "http://127.0.0.1:8080/v1", "MY_KEY")
    assert (model.context_window, model.max_tokens) == (4096, 512)
    assert model.cost == Cost(1, 2, 0.5, 3)
    assert model.headers == {"x_own_header": "1", "X-Other": "2"}, "names of headers are nobody's to spell"
    assert found.auto_compact is found.compaction.enabled is False
    assert found.compact_threshold == 0.7
    assert found.compaction == Compaction(
        enabled=False, reserve_tokens=1, keep_recent_tokens=2, instructions="short", model="m"
    )
    assert found.retry == Retry(enabled=False, max_retries=1, base_delay_ms=2, max_delay_ms=3)
    assert found.prompts == ("be brief",)
    assert found.shell_environment == ShellEnvironment(allow=("HARMLESS_TOKEN",))


@pytest.mark.parametrize(
    ("written", "is_on"),
    [
        ({}, True),
        ({"autoCompact": False}, False),
        ({"compaction": {"enabled": False}}, False),
        ({"autoCompact": True, "compaction": {"enabled": False}}, True),
    ],
)
def test_the_two_names_of_one_switch_always_agree(written, is_on, agent_home):
    write(agent_home, written)
    found = Settings.load()
    assert found.auto_compact is found.compaction.enabled is is_on


def test_the_most_that_pi_can_think_is_the_most_there_is(agent_home):
    write(agent_home, {"defaultThinkingLevel": "max"})
    assert Settings.load().default_thinking_level == "xhigh"


def test_what_other_programs_keep_there_is_left_alone(agent_home):
    write(agent_home, {"theme": "dark", "packages": [1], "compaction": {"later": {}}, "defaultModel": "x"})
    assert Settings.load() == Settings(default_model="x")


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ({"defaultModel": 3}, "defaultModel: expected str, got int"),
        ({"default_model": 3}, "default_model: expected str, got int"),
        ({"retry": {"max_retries": "many"}}, "retry.max_retries: expected int, got str"),
        ({"retry": {"maxRetries": -1}}, "retry.maxRetries: expected int >= 0"),
        ({"compaction": True}, "compaction: expected object, got bool"),
        ({"models": [{"base_url": "http://x"}]}, "models[0]: object missing required field id"),
        ({"models": [{"id": "x", "context_window": 0}]}, "models[0].context_window: expected int >= 1"),
        (
            {"defaultThinkingLevel": "hard"},
            "defaultThinkingLevel: invalid enum value 'hard', which is none of off, minimal, low, medium,",
        ),
        ({"limits": {"turns": 0}}, "limits.turns: expected int >= 1"),
        ({"limits": {"answer_bytes": 2**30}}, "limits.answer_bytes: expected int <= 10485760"),
        ({"limits": {"cost": 0}}, "limits.cost: expected float > 0"),
        ({"limits": {"callsAtOnce": None}}, "limits.callsAtOnce: expected int, got null"),
        ({"compactThreshold": 0}, "compactThreshold: expected int >= 1"),
        (
            {"shellEnvironment": {"inherit": "some"}},
            "shellEnvironment.inherit: invalid enum value 'some', which is none of core, filtered, all",
        ),
        ({"shell_environment": {"deny": "A"}}, "shell_environment.deny: expected array, got str"),
        ({"shellEnvironment": "all"}, "shellEnvironment: expected object, got str"),
        ([], "expected object, got array"),
    ],
)
def test_a_value_of_the_wrong_kind_names_file_and_key(written, key, agent_home):
    """The key as it was written."""
    write(agent_home, written)
    with pytest.raises(PerdureError) as caught:
        Settings.load()
    assert f"~/.pi/agent/settings.json: {key}" in caught.value.message
    assert caught.value.hint


OURS_ALONE: dict[str, type[Struct]] = {"limits": Limits, "shellEnvironment": ShellEnvironment}
KNOWN = {
    group: {name for field in structs.fields(kind) for name in (field.name, field.encode_name)}
    for group, kind in OURS_ALONE.items()
}


@pytest.mark.parametrize("group", OURS_ALONE)
@pytest.mark.parametrize("is_beside_known", [True, False])
@given(key=st.text(min_size=1))
@example(key="maxCost")
@example(key="max_cost")
@example(key="cots")
@example(key="denied")
@example(key="a - at `$.retry`")
@example(key="\x1b[31m" * 99)
def test_an_unknown_key_where_only_ours_can_be_is_an_error(group, is_beside_known, key):
    """A limit that does not hold, or a variable that commands see, is worse than no start. It is named in the
    spelling of its writer, with the known ones."""
    assume(key not in KNOWN[group] and pis_spelling(key) not in KNOWN[group])
    known: dict[str, Any] = {"limits": {"cost": 1}, "shellEnvironment": {"deny": ["A"]}}
    data = {**known, group: {**known[group], key: 1}} if is_beside_known else {group: {key: 1}}
    with pytest.raises(PerdureError) as caught:
        Settings.of(data)
    said = caught.value.message
    assert said.isprintable()
    assert group in said
    assert repr(key)[:50] in said
    assert all(field.name in said or field.encode_name in said for field in structs.fields(OURS_ALONE[group]))
    assert len(said) < 300


@pytest.mark.parametrize("group", OURS_ALONE)
def test_an_unknown_key_is_named_with_the_file_that_it_is_in(group, agent_home, tmp_path):
    """The user's, or that of a project, also where both have that group."""
    (tmp_path / ".pi").mkdir()
    write(agent_home, {group: {"oops": 1}})
    with pytest.raises(PerdureError, match=r"~/\.pi/agent/settings\.json: .*'oops'"):
        Settings.load()
    write(agent_home, {group: {}})
    write(tmp_path / ".pi", {group: {"oops": 1}})
    with pytest.raises(PerdureError) as caught:
        Settings.load(project=str(tmp_path))
    assert caught.value.message.startswith(f"{tmp_path}/.pi/settings.json: {group}: ")
    assert caught.value.hint


def test_broken_json_names_file_line_and_cause(agent_home):
    write(agent_home, '{\n  "defaultModel": "x",\n  oops\n}')
    with pytest.raises(PerdureError, match=r"settings\.json: line 3: no JSON: .*\(column 3\)"):
        Settings.load()


@pytest.mark.parametrize("data", [b"\xff\xfe{", b"{" * 100_000, b"[" * 100_000])
def test_what_is_no_text_or_no_end_is_an_error_and_no_crash(data, agent_home):
    (agent_home / "settings.json").write_bytes(data)
    with pytest.raises(PerdureError, match=r"settings\.json"):
        Settings.load()


def test_a_folder_in_its_place_is_named(agent_home):
    (agent_home / "settings.json").mkdir()
    with pytest.raises(Unreadable, match=r"settings\.json"):
        Settings.load()


@pytest.mark.parametrize("text", ["", "  \n", "\ufeff{}"])
def test_an_empty_file_says_nothing(text, agent_home):
    write(agent_home, text)
    assert Settings.load() == Settings()


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from([*SNAKE, *camel(SNAKE), "id", "enabled", "headers", "x"]), inner, max_size=4
            )
        ),
        max_leaves=12,
    )
)
def test_any_json_is_settings_or_an_error_that_says_where(tmp_path_factory, value):
    folder = tmp_path_factory.mktemp("any")
    write(folder, value)
    said = ""
    try:
        found = Settings.load(str(folder))
    except PerdureError as error:
        said = error.message
    assert "settings.json" in said or isinstance(found, Settings)


def test_the_home_is_pis_own(tmp_path, monkeypatch):
    monkeypatch.setenv("PI_CODING_AGENT_DIR", str(tmp_path))
    write(tmp_path, {"defaultModel": "there"})
    assert Settings.load().default_model == "there"
    assert Settings.load(str(tmp_path / "other")).default_model == ""


def test_settings_of_a_program_come_before_the_users(agent_home):
    """Key by key, also inside groups; lists are replaced."""
    write(agent_home, {"defaultModel": "users", "retry": {"maxRetries": 7}, "prompts": ["a", "b"]})
    found = Settings.of({"default_model": "mine", "retry": {"base_delay_ms": 1}, "prompts": ("c",)})
    assert (found.default_model, found.retry.max_retries, found.retry.base_delay_ms) == ("mine", 7, 1)
    assert found.prompts == ("c",)
    assert Settings.of(None) == Settings.of({}) == Settings.load()
    with pytest.raises(PerdureError, match="passed in: retry: expected object, got int"):
        Settings.of({"retry": 1})


def test_g_10_a_projects_settings_are_read_only_where_it_is_named(tmp_path, monkeypatch, agent_home):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".pi").mkdir()
    write(tmp_path / ".pi", {"defaultModel": "its own"})
    assert Settings.load().default_model == ""
    assert Settings.load(project=str(tmp_path)).default_model == "its own"
    assert Settings.of({"default_model": "mine"}, project=str(tmp_path)).default_model == "mine"
    assert Settings.load(project=str(tmp_path / "other")) == Settings.load()
    write(tmp_path / ".pi", {"retry": 1})
    with pytest.raises(PerdureError, match=r"\.pi/settings.json: retry: expected object, got int"):
        Settings.load(project=str(tmp_path))


@pytest.mark.parametrize(
    ("users", "projects", "both"),
    [
        ({}, {"turns": 500, "answerBytes": 10**7, "callsAtOnce": 99}, Limits()),
        ({}, {"turns": 50, "cost": 1.5}, Limits(turns=50, cost=1.5)),
        ({"turns": 500, "cost": 2}, {"turns": 300, "cost": 9}, Limits(turns=300, cost=2)),
        ({"turns": 500, "cost": 2}, {"cost": None}, Limits(turns=500, cost=2)),
        (
            {"turns": 500, "cost": 2},
            {"calls_in_one_answer": 2},
            Limits(turns=500, cost=2, calls_in_one_answer=2),
        ),
    ],
)
def test_a_project_makes_limits_narrower_and_never_wider(users, projects, both, tmp_path, agent_home):
    """Whoever calls decides: an option, or a program's own settings, count before both."""
    (tmp_path / ".pi").mkdir()
    write(agent_home, {"limits": users})
    write(tmp_path / ".pi", {"limits": projects})
    assert Settings.load(project=str(tmp_path)).limits == both
    assert Settings.of({"limits": {"cost": 99}}, project=str(tmp_path)).limits == structs.replace(
        both, cost=99
    )


@pytest.mark.parametrize(
    ("users", "project", "found"),
    [
        ({}, {"inherit": "core", "deny": ["A"]}, {"inherit": "core", "deny": ("A",)}),
        ({}, {"inherit": "all", "allow": ["*"]}, {"inherit": "filtered"}),
        ({"allow": ["A"]}, ["B"], {"allow": ("A",)}),
        (["A"], {"allow": ["B"], "deny": ["A"]}, {"allow": ("A",), "deny": ("A",)}),
        ({"inherit": "all", "deny": ["A"]}, {"deny": ["B"]}, {"inherit": "all", "deny": ("A", "B")}),
        ({"inherit": "all"}, {"inherit": "filtered"}, {"inherit": "filtered"}),
        ({"inherit": "core"}, {"inherit": "all"}, {"inherit": "core"}),
    ],
)
def test_g_10_a_project_takes_variables_from_commands_and_gives_them_none(
    users, project, found, tmp_path, agent_home
):
    """Also if it is trusted: whose keys they are, says who sees them. It is told so."""
    write(agent_home, {"shellEnvironment": users})
    (tmp_path / ".pi").mkdir()
    write(tmp_path / ".pi", {"shell_environment": project})
    assert Settings.load(project=str(tmp_path)).shell_environment == ShellEnvironment(**found)
    told = [each for each in slips(project=str(tmp_path)) if "shellEnvironment" in each]
    asks = isinstance(project, list) or "allow" in project or project.get("inherit") == "all"
    assert [f"{tmp_path}/.pi/settings.json" in each for each in told] == [True] * asks


def test_a_python_program_chooses_what_commands_see(agent_home):
    write(agent_home, {"shellEnvironment": {"inherit": "core", "deny": ["A"]}})
    found = Settings.of({"shell_environment": ["B"]}).shell_environment
    assert found == ShellEnvironment(inherit="core", allow=("B",), deny=("A",))
    assert Settings.of({"shellEnvironment": {"inherit": "all"}}).shell_environment.inherit == "all"


def test_a_projects_settings_are_laid_over_the_users(tmp_path, agent_home):
    """Prompts, places, models and servers are added; the rest is replaced, key by key."""
    server = {"command": "users", "env": {"TOKEN": "secret"}}
    write(
        agent_home,
        {
            "defaultModel": "users",
            "retry": {"maxRetries": 7},
            "prompts": ["a", "mine.md"],
            "skills": ["~/skills"],
            "models": [{"id": "both", "contextWindow": 1}, {"id": "users"}],
            "mcpServers": {"both": server, "my_own": server},
        },
    )
    (tmp_path / ".pi").mkdir()
    write(
        tmp_path / ".pi",
        {
            "retry": {"baseDelayMs": 1},
            "prompts": ["b", "./its.md"],
            "skills": ["more"],
            "extensions": ["one.py"],
            "models": [{"id": "both", "contextWindow": 2}],
            "mcpServers": {"both": {"command": "project"}},
        },
    )
    found = Settings.load(project=str(tmp_path))
    assert (found.default_model, found.retry.max_retries, found.retry.base_delay_ms) == ("users", 7, 1)
    own = tmp_path / ".pi"
    assert found.prompts == ("a", "b")
    assert found.templates == (str(agent_home / "mine.md"), str(own / "its.md"))
    assert found.skills == (os.path.expanduser("~/skills"), str(own / "more"))
    assert found.extensions == (str(own / "one.py"),)
    assert [(model.id, model.context_window) for model in found.models] == [("both", 2), ("users", None)]
    assert [*found.mcp_servers] == ["both", "my_own"]
    both = found.mcp_servers["both"]
    assert (both.command, both.env) == ("project", {})  # the user's token is not given to another program


def test_g_10_a_server_starts_where_its_settings_are_from_and_not_where_the_user_works(
    tmp_path, agent_home, home, monkeypatch
):
    """A folder may hold what a command finds there before what its user means: node_modules, a module."""
    monkeypatch.chdir(tmp_path)
    servers = {
        "a": {"command": "x"},
        "b": {"command": "x", "cwd": "sub"},
        "c": {"cwd": "${PWD}"},
        "d": {"cwd": "/"},
    }
    write(agent_home, {"mcpServers": servers})
    assert [each.cwd for each in Settings.load().mcp_servers.values()] == [
        *(str(home), str(home / "sub"), "${PWD}", "/")
    ]
    (tmp_path / ".pi").mkdir()
    write(tmp_path / ".pi", {"mcpServers": {"a": {"command": "x"}, "e": {"command": "x", "cwd": "sub"}}})
    found = Settings.load(project=str(tmp_path)).mcp_servers
    assert (found["a"].cwd, found["e"].cwd) == (str(tmp_path), str(tmp_path / "sub"))
    assert found["b"].cwd == str(home / "sub")
    assert Settings.of({"mcp_servers": {"f": {"command": "x"}}}).mcp_servers["f"].cwd == ""


def test_names_of_servers_and_variables_stay_as_they_are_written(agent_home):
    server = {"command": "x", "env": {"my_var": "1"}, "startup_timeout_sec": 3, "headers": {"x_y": "z"}}
    write(agent_home, {"mcp_servers": {"my_server": server, "env": {"url": "http://x", "env": {"a_b": "c"}}}})
    found = Settings.load().mcp_servers
    assert [*found] == ["my_server", "env"]
    assert (found["my_server"].env, found["my_server"].startup_timeout_sec) == ({"my_var": "1"}, 3)
    assert (found["my_server"].headers, found["env"].env) == ({"x_y": "z"}, {"a_b": "c"})
    assert "my_var" not in repr(found)
    write(agent_home, {"mcpServers": {"a": {"command": ["x"]}}})
    with pytest.raises(PerdureError, match=r"mcpServers\.a\.command: expected str, got array"):
        Settings.load()


def test_pis_models_file_is_read(agent_home):
    """Names of providers and models stay as they are written."""
    write(
        agent_home,
        {
            "providers": {
                "my_proxy": {
                    "baseUrl": "http://127.0.0.1:1/v1",
                    "apiKey": "KEY_NAME",
                    "models": [{"id": "some_model", "contextWindow": 5}],
                    "modelOverrides": {"an_id": {"maxTokens": 3}},
                }
            }
        },
        "models.json",
    )
    provider = custom_providers()["my_proxy"]
    assert (provider.base_url, provider.api_key) == ("http://127.0.0.1:1/v1", "KEY_NAME")
    assert provider.models == (CustomModel(id="some_model", context_window=5),)
    assert provider.model_overrides["an_id"].max_tokens == 3
    write(agent_home, {"providers": {"p": {"models": {}}}}, "models.json")
    with pytest.raises(PerdureError, match=r"models\.json: providers\[\.\.\.\]\.models: expected array"):
        custom_providers()


def test_no_key_is_in_what_settings_look_like():
    secret = "sk-very-secret"
    model = CustomModel(id="m", api_key=secret, headers={"x": secret})
    provider = CustomProvider(api_key=secret, headers={"x": secret}, models=(model,))
    assert secret not in f"{Settings(models=(model,))!r}{provider!r}{model!r}{provider!s}"
