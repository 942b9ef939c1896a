"""`pi models`: what can be used now, the rest on request, the default marked, and never a key."""

import json
import os

import pytest

from perdure.programs.pi import main
from tests.front.commands.machine import Done

SECRET = "sk-very-secret"


@pytest.fixture
def run(home, monkeypatch, capsys):
    for name in [name for name in os.environ if name.endswith(("_BASE_URL", "_TOKEN"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr("sys.argv", ["pi"])

    def run(*words: str, **environment: str) -> Done:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            return Done(main(["models", *words]), *capsys.readouterr())

    return run


@pytest.fixture
def settings(home):
    folder = home / ".pi" / "agent"
    folder.mkdir(parents=True)

    def write(value: object, name: str = "settings.json") -> None:
        (folder / name).write_text(json.dumps(value))

    return write


def references(done: Done) -> list[str]:
    return [row["reference"] for row in done.data]


def test_on_a_fresh_machine_there_is_offline_and_a_word_about_the_rest(run):
    done = run()
    assert done.code == 0
    head, row = done.out.splitlines()
    assert head.split() == ["MODEL", "NAME", "WINDOW", "IN", "OUT", "CAN", "KEY"]
    assert row.startswith("*  offline/offline")
    assert row.endswith("not needed")
    assert "more models can be used with a key" in done.err
    assert "`pi models openai`" in done.err
    assert "--all" in done.err


def test_what_has_a_key_is_listed_and_the_default_has_a_star(run):
    done = run(ANTHROPIC_API_KEY=SECRET)
    rows = done.out.splitlines()[1:]
    assert {row[1:].split()[0].split("/")[0] for row in rows} == {"anthropic", "offline"}
    (default,) = [row for row in rows if row.startswith("*")]
    assert "anthropic/claude-sonnet" in default
    (row,) = [row for row in rows if " anthropic/claude-sonnet-4-5 " in row]
    assert row.split() == [
        *("anthropic/claude-sonnet-4-5", "Claude", "Sonnet", "4.5", "(latest)", "200k", "3.00", "15.00"),
        *("thinks,", "sees", "yes"),
    ]
    assert SECRET not in done.out + done.err


def test_g_9_the_star_is_at_what_the_environment_asks_for(run):
    done = run("gpt-4o", "--json", OPENAI_API_KEY="k", PERDURE_MODEL="gpt-4o-mini:high")
    assert [row["reference"] for row in done.data if row["default"]] == ["openai/gpt-4o-mini"]


def test_g_9_the_default_has_its_star_without_a_key_too(run):
    done = run(PERDURE_MODEL="gpt-4o")
    (row,) = [row for row in done.out.splitlines() if row.startswith("*")]
    assert " openai/gpt-4o " in row
    assert row.endswith("needs OPENAI_API_KEY")
    assert (
        "The default model is openai/gpt-4o. No key for openai/gpt-4o: OPENAI_API_KEY is not set" in done.err
    )
    assert "'nope', which PERDURE_MODEL names" in run(PERDURE_MODEL="nope").err


def test_a_key_that_cannot_be_used_is_told(run):
    """Once, be it of the default or not, and never shown."""
    done = run(ANTHROPIC_API_KEY="sk-\u2026", GROQ_API_KEY="gsk-\u2026")
    assert done.err.count("ANTHROPIC_API_KEY holds characters that no key has") == 1
    assert done.err.count("GROQ_API_KEY holds characters that no key has") == 1
    (row,) = [row for row in done.out.splitlines() if row.startswith("*")]
    assert " anthropic/claude-sonnet" in row
    assert row.endswith("unusable")
    assert "\u2026" not in done.out + done.err


def test_a_server_in_openais_place_is_a_line_and_not_openais_list(run):
    there = {"OPENAI_BASE_URL": f"http://user:{SECRET}@127.0.0.1:8080/v1"}
    done = run("--json", **there)
    assert references(done) == ["offline/offline"]
    line = (
        "openai is http://127.0.0.1:8080/v1 (OPENAI_BASE_URL) and is asked for any model: -m NAME, or OPENAI_"
    )
    assert line in done.err
    assert "No model is named for the server of OPENAI_BASE_URL" in done.err
    assert SECRET not in done.err
    found = run("openai/", "--json", **there)
    assert (found.code, line in found.err) == (0, True)
    assert not any(row["provider"] == "openai" for row in found.data)
    assert line not in run("claude", **there).err
    named = run("--json", OPENAI_MODEL="gpt-4o", **there)
    assert [(row["reference"], row["default"], row["cost"]["input"]) for row in named.data] == [
        ("openai/gpt-4o", True, 0),
        ("offline/offline", False, 0),
    ]


@pytest.mark.parametrize(
    ("columns", "heads"),
    [
        (30, ["MODEL"]),
        (80, ["MODEL", "WINDOW", "KEY"]),
        (100, ["MODEL", "IN", "OUT", "WINDOW"]),
        (200, ["MODEL", "NAME", "WINDOW", "IN", "OUT", "CAN", "KEY"]),
    ],
)
def test_at_a_terminal_references_are_whole_and_no_line_wraps(columns, heads, run, monkeypatch):
    """Then as much of the rest as fits; through a pipe nothing is left out."""
    piped = run("sonnet").out.splitlines()
    monkeypatch.setattr("perdure.front.output._is_terminal", lambda stream: True)
    monkeypatch.setattr("perdure.front.output._columns", lambda stream: columns)
    done = run("sonnet", NO_COLOR="1")
    lines = done.out.splitlines()
    assert set(heads) <= set(lines[0].split())
    assert [line.split()[0] for line in lines] == [line.split()[0] for line in piped]
    assert max(map(len, lines)) <= max(columns, max(len(line.split()[0]) for line in lines) + 3)
    assert ("IN" in lines[0].split()) is ("OUT" in lines[0].split()) is ("Prices" in done.err)
    assert "NAME" in piped[0]


def test_an_unknown_default_is_told_and_hides_nothing(run, settings):
    settings({"defaultModel": "gone"})
    done = run()
    assert done.code == 0
    assert "Unknown model 'gone', which is the default model of the settings" in done.err
    assert "offline/offline" in done.out


@pytest.mark.parametrize(
    ("words", "found", "missed"),
    [
        (["gpt4o"], "openai/gpt-4o", "openai/gpt-4.1"),
        (["GPT-4o", "mini"], "openai/gpt-4o-mini", "openai/gpt-4o"),
        (["sonnet 4.5"], "anthropic/claude-sonnet-4-5", "anthropic/claude-sonnet-4-6"),
        (["openai/", "o3"], "openai/o3", "openai/gpt-4o"),
        (["groq"], "groq/llama-3.3-70b-versatile", "openai/gpt-4o"),
    ],
)
def test_all_words_must_be_in_a_name(words, found, missed, run):
    """With or without a key, and whatever stands between letters and digits."""
    listed = references(run(*words, "--json"))
    assert found in listed
    assert missed not in listed


def test_a_model_without_a_key_says_which_variable_to_set(run):
    (row,) = [row for row in run("gpt-4o").out.splitlines() if " openai/gpt-4o " in row]
    assert row.endswith("needs OPENAI_API_KEY")


def test_nothing_found_is_said_on_stderr(run):
    done = run("xyzzy", "plugh")
    assert (done.code, done.out) == (3, "")
    assert done.err == "No model matches 'xyzzy plugh'; `pi models --all` shows all of them.\n"
    done = run("xyzzy", "--json")
    assert (done.code, done.data) == (3, [])


def test_all_shows_all(run):
    done = run("--all", "--json")
    assert len(done.data) > 400
    assert "more model" not in run("--all").err


def test_json_has_everything_but_keys(run, settings):
    settings(
        {
            "models": [
                {
                    "id": "mine",
                    "base_url": f"http://user:{SECRET}@127.0.0.1:8080/v1",
                    "api_key": SECRET,
                    "headers": {"x-key": SECRET},
                    "cost": {"input": 1, "output": 2, "cacheRead": 3, "cacheWrite": 4},
                }
            ]
        }
    )
    done = run("mine", "--json", OPENAI_API_KEY=SECRET)
    row = next(row for row in done.data if row["provider"] == "custom")
    assert row == {
        "reference": "custom/mine",
        "provider": "custom",
        "id": "mine",
        "name": "mine",
        "api": "openai-completions",
        "base_url": "http://127.0.0.1:8080/v1",
        "context_window": 128000,
        "max_tokens": 16384,
        "cost": {"input": 1, "output": 2, "cache_read": 3, "cache_write": 4},
        "reasoning": False,
        "input": ["text"],
        "headers": ["x-key"],
        "custom": True,
        "usable": True,
        "default": False,
    }
    assert SECRET not in done.out + done.err


def test_pi_16_models_of_the_users_own_come_first(run, settings):
    settings(
        {"providers": {"lab": {"baseUrl": "http://127.0.0.1:1/v1", "models": [{"id": "m"}]}}}, "models.json"
    )
    assert references(run("--json")) == ["lab/m", "offline/offline"]
    assert references(run("--json", OLLAMA_HOST="box")) == ["lab/m", "ollama/qwen3:8b", "offline/offline"]


def test_settings_that_are_broken_are_named(run, settings):
    settings({"defaultModel": 1})
    done = run()
    assert (done.code, done.out) == (1, "")
    assert "settings.json: defaultModel: expected str, got int" in done.err


def test_what_it_takes_is_completed(home, capsys):
    main(["complete", "zsh", "mod"])
    assert capsys.readouterr().out.startswith("models\t")
    main(["complete", "zsh", "models", "--"])
    assert {line.split("\t")[0] for line in capsys.readouterr().out.splitlines()} == {
        "--all",
        "--json",
        "--help",
    }


def test_help_says_what_it_does(run):
    done = run("--help")
    assert done.code == 0
    assert "pi models openai" in done.out
