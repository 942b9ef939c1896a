"""Keys and headers that a command prints: run when they are needed, once, and told of without a secret."""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from perdure.agent import environment
from perdure.agent.models import Model
from perdure.agent.models.registry import ModelRegistry
from perdure.agent.models.registry_commands import Command
from perdure.agent.models.registry_extensions import provided
from perdure.agent.models.resolver import ModelResolver
from perdure.agent.settings import Settings
from perdure.agent.supervisor import Process
from perdure.errors import ModelError
from perdure.programs.pi import main

pytestmark = pytest.mark.process

LOCAL = "http://127.0.0.1:8080/v1"
SECRET = "sk-0123456789abcdef"
LIMIT = "perdure.agent.models.registry_commands.SECONDS"


@pytest.fixture
def registry_of(home):
    """A registry of these settings and this models.json, in the test's own home."""

    def make(models: Any = None, *, settings: Any = (), **options: Any) -> ModelRegistry:
        folder = home / ".pi" / "agent"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "models.json").write_text(json.dumps({"providers": models or {}}))
        (folder / "settings.json").write_text(json.dumps({"models": [*settings]}))
        return ModelRegistry(Settings.load(), **options)

    return make


@pytest.fixture
def lab(registry_of):
    """A registry with one model, whose key is this command, and that model."""

    def make(command: str, **more: Any) -> tuple[ModelRegistry, Model]:
        provider = {"baseUrl": LOCAL, "apiKey": f"!{command}", "models": [{"id": "m"}], **more}
        registry = registry_of({"lab": provider})
        return registry, get(registry, "lab/m")

    return make


@pytest.fixture
def canary(tmp_path):
    """A file that a command writes a line to whenever it is run."""
    return tmp_path / "canary"


def get(registry: ModelRegistry, reference: str) -> Model:
    model = registry.get(reference)
    assert model is not None
    return model


def runs(canary: Path) -> int:
    return len(canary.read_text().splitlines()) if canary.exists() else 0


def failure(registry: ModelRegistry, model: Model) -> ModelError:
    with pytest.raises(ModelError) as caught:
        registry.key(model)
    return caught.value


# --- what it is --------------------------------------------------------------------------------------------


def test_pi_16_the_key_is_what_the_command_prints(registry_of):
    """Trimmed; of a provider in models.json, of a model there, and of one in the settings."""
    provider = {
        "baseUrl": LOCAL,
        "apiKey": f" ! printf ' {SECRET}\\n\\n' ",
        "models": [{"id": "m"}, {"id": "n", "apiKey": "!echo sk-of-n"}],
    }
    own = [{"id": "s", "base_url": LOCAL, "api_key": "!echo sk-of-s"}]
    registry = registry_of({"lab": provider}, settings=own)
    assert registry.key(get(registry, "lab/m")) == SECRET
    assert registry.key(get(registry, "lab/n")) == "sk-of-n"
    assert registry.key(get(registry, "custom/s")) == "sk-of-s"


def test_a_shell_runs_it_with_the_users_whole_environment(lab, monkeypatch):
    """Secrets too: it is the user's command, and `op` has its token there. What it names is no key."""
    monkeypatch.setenv("OP_SESSION_TOKEN", "abc")
    registry, model = lab('test -d "$HOME" && echo "sk-$OP_SESSION_TOKEN" | tr a-c A-C')
    assert registry.key(model) == "sk-ABC"
    assert registry.secret_names().isdisjoint({"HOME", "OP_SESSION_TOKEN"})


def test_nothing_can_be_typed_into_it(lab):
    registry, model = lab("cat; echo sk-after-the-end")
    assert registry.key(model) == "sk-after-the-end"


def test_a_provider_that_is_built_in_may_have_a_command(registry_of):
    """It stands before the variable."""
    registry = registry_of(
        {"openai": {"apiKey": f"!echo {SECRET}"}}, environment={"OPENAI_API_KEY": "from the variable"}
    )
    assert registry.key(get(registry, "openai/gpt-4o")) == SECRET
    assert ModelResolver(registry).resolve().provider == "openai"


def test_only_what_was_written_is_a_command(registry_of, canary):
    """The value of a variable that begins with `!` is no key, or a header that is sent as it is."""
    trap = f"!echo run >> {canary}; echo x"
    provider = {
        "baseUrl": LOCAL,
        "apiKey": "$TRAP",
        "headers": {"x-one": "TRAP", "x-two": "${TRAP}"},
        "models": [{"id": "m"}],
    }
    registry = registry_of({"lab": provider}, environment={"TRAP": trap})
    model = get(registry, "lab/m")
    assert registry.key(model) == trap
    assert registry.connected(model).headers == {"x-one": trap, "x-two": trap}
    own = Model(id="m", provider="x", api="openai-completions", base_url=LOCAL, headers={"x": trap})
    assert registry.connected(own) is own
    assert runs(canary) == 0


# --- when it runs ------------------------------------------------------------------------------------------


def test_pi_16_to_list_models_runs_nothing(registry_of, canary, capsys, monkeypatch):
    """Whatever is asked about a model, but for its key and its headers as they are sent."""
    command = f"!echo run >> {canary}; echo {SECRET}"
    provider = {"baseUrl": LOCAL, "apiKey": command, "headers": {"x": command}, "models": [{"id": "m"}]}
    own = [{"id": "s", "base_url": LOCAL, "api_key": command, "headers": {"y": command}}]
    registry = registry_of({"lab": provider, "openai": {"apiKey": command}}, settings=own)
    for model in registry.models():
        registry.is_usable(model), registry.trouble(model), registry.is_custom(model), repr(model)
    for name in registry.providers():
        registry.has_key(name), registry.is_set_up(name), registry.default(name), registry.key_variable(name)
    for reference in ("lab/m", "custom/s", "openai/gpt-4o"):
        model = get(registry, reference)
        assert (registry.is_usable(model), registry.trouble(model)) == (True, "")
        assert registry.sends_key(model)
        assert registry.has_key(model.provider)
        assert registry.is_set_up(model.provider)
    assert registry.secret_values() == frozenset()
    assert ModelResolver(registry).resolve().provider == "openai"
    monkeypatch.setattr("sys.argv", ["pi"])
    for words in (["models"], ["models", "--all"], ["models", "lab", "--json"]):
        assert main(words) == 0
        assert "lab/m" in capsys.readouterr().out
    assert runs(canary) == 0
    registry.key(get(registry, "lab/m"))
    assert runs(canary) == 1, "the canary would have sung"


def test_a_listing_calls_a_key_that_a_command_prints_a_key(registry_of, capsys, monkeypatch):
    registry_of({"lab": {"baseUrl": LOCAL, "apiKey": "!echo x", "models": [{"id": "m"}]}})
    monkeypatch.setattr("sys.argv", ["pi"])
    assert main(["models", "lab"]) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("yes")


def test_it_runs_once_however_many_models_have_it(registry_of, canary):
    """For its keys and its headers; another registry asks anew."""
    command = f"!echo run >> {canary}; echo {SECRET}"
    lab = {
        "baseUrl": LOCAL,
        "apiKey": command,
        "headers": {"x": command},
        "models": [{"id": "m"}, {"id": "n"}],
    }
    registry = registry_of({"lab": lab, "groq": {"apiKey": command}})
    for reference in ("lab/m", "lab/n", "groq/llama-3.3-70b-versatile") * 2:
        model = get(registry, reference)
        assert registry.key(model) == SECRET
        registry.connected(model)
    assert runs(canary) == 1
    again = ModelRegistry()
    assert again.key(get(again, "lab/m")) == SECRET
    assert runs(canary) == 2


def at_once(ask: Any, threads: int = 8) -> list[Any]:
    """What each of several threads gets that ask together."""
    found: list[Any] = []
    together = threading.Barrier(threads)

    def run() -> None:
        together.wait()
        try:
            found.append(ask())
        except ModelError as error:
            found.append(error)

    running = [threading.Thread(target=run) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return found


def test_threads_that_ask_at_once_run_it_once(lab, canary):
    registry, model = lab(f"echo run >> {canary}; sleep 0.15; echo {SECRET}")
    assert at_once(lambda: registry.key(model)) == [SECRET] * 8
    assert runs(canary) == 1


def test_a_failure_is_for_those_who_waited_and_is_tried_again(lab, canary):
    """Somebody may unlock the safe meanwhile."""
    registry, model = lab(f"echo run >> {canary}; sleep 0.2; test -e {canary}.open && echo {SECRET}")
    found = at_once(lambda: registry.key(model))
    assert {type(each) for each in found} == {ModelError}
    assert runs(canary) == 1
    assert len({id(each) for each in found}) == 8, "each has an error of its own to raise"
    Path(f"{canary}.open").touch()
    assert (registry.key(model), registry.key(model)) == (SECRET, SECRET)
    assert runs(canary) == 2


# --- how it fails ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "cause"),
    [
        (f"echo {SECRET}; exit 3", "failed with exit code 3"),
        (
            f"echo {SECRET}; echo no; echo ' the safe\tis  locked' >&2; false",
            "exit code 1: the safe is locked",
        ),
        (f"echo {SECRET}; printf 'first\\nlast\\n\\n' >&2; exit 2", "failed with exit code 2: last"),
        (f"echo {SECRET} | tee /dev/stderr; exit 1", "failed with exit code 1: …"),
        (f"echo {SECRET}; printf '\\033[31mred\\007\\n' >&2; exit 1", "exit code 1: [31mred"),
        ("kill -9 $$", "was ended by signal 9"),
        ("no-such-program-anywhere", "failed with exit code 127: "),
        ("true", "printed nothing"),
        ("", "printed nothing"),
        ("echo hm >&2; printf ' \\n\\t\\n'", "printed nothing: hm"),
        (f"echo {SECRET}; echo {SECRET}", "printed 2 lines, and a key is one"),
        (f"printf '{SECRET}\\001x'", "printed characters that no key has"),
        (f"echo {SECRET}é", "printed characters that no key has"),
        (f"printf '{SECRET}\\377'", "printed characters that no key has"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_without_what_it_printed(command, cause, lab, home):
    registry, model = lab(command)
    error = failure(registry, model)
    assert error.message.startswith("~/.pi/agent/models.json: the command for the key of lab/m ")
    assert cause in error.message
    assert error.message.isprintable()
    assert SECRET not in error.said
    assert "run it in a shell" in error.hint
    assert command not in error.message or not command
    assert registry.is_usable(model), "to know it, it would have to be run"


def test_a_complaint_is_cut(lab):
    registry, model = lab("yes word | head -n 99 | tr '\\n' ' ' >&2; exit 1")
    assert len(failure(registry, model).message.partition("exit code 1: ")[2]) == 200


def test_a_command_that_the_shell_quotes_is_not_shown(lab, tmp_path):
    """It may have a secret in it. Some shells do that where they find a mistake."""
    quoted = tmp_path / "quoted"
    command = f"cat {quoted} >&2; exit 2 # token=hunter2"
    quoted.write_text(f"sh: -c: line 1: `{command}'\n")
    registry, model = lab(command)
    assert failure(registry, model).message.endswith("failed with exit code 2: sh: -c: line 1: `…'")


@pytest.mark.parametrize("stream", ["1", "2"])
def test_what_prints_without_end_is_ended(stream, lab):
    registry, model = lab(f"yes >&{stream}")
    began = time.monotonic()
    assert "printed more than 64 KB" in failure(registry, model).message
    assert time.monotonic() - began < 5


def test_what_takes_too_long_is_ended_with_all_that_it_started(lab, tmp_path, monkeypatch):
    """A pipe that they all hold is let go of."""
    monkeypatch.setattr(LIMIT, 0.2)
    fifo = tmp_path / "held"
    os.mkfifo(fifo)
    reading = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        registry, model = lab(f"exec 3> {fifo}; echo {SECRET}; sleep 60 & sleep 60")
        assert failure(registry, model).message.endswith("the key of lab/m took longer than 0.2 seconds")
        end = time.monotonic() + 5
        while is_held(reading) and time.monotonic() < end:
            time.sleep(0.01)
        assert not is_held(reading)
    finally:
        os.close(reading)


def test_what_is_said_because_it_is_ended_is_no_complaint(lab, monkeypatch):
    """As a shell says `Terminated` of the command that it waits for."""
    monkeypatch.setattr(LIMIT, 0.2)
    registry, model = lab("trap 'echo Terminated >&2' TERM; sleep 60 & wait; wait")
    assert failure(registry, model).message.endswith("the key of lab/m took longer than 0.2 seconds")


def is_held(pipe: int) -> bool:
    try:
        return os.read(pipe, 1) != b""
    except BlockingIOError:
        return True


def test_what_it_leaves_behind_is_neither_waited_for_nor_ended(lab, tmp_path, monkeypatch):
    """An agent that it starts, as some password helpers do, holds its output for as long as it lives."""
    monkeypatch.setattr("perdure.agent.models.registry_commands._DRAIN_SECONDS", 0.1)
    fifo = tmp_path / "life"
    os.mkfifo(fifo)
    life = os.open(fifo, os.O_RDWR)
    try:
        registry, model = lab(f"echo {SECRET}; (cat {fifo}; echo > {fifo}.lived) &")
        began = time.monotonic()
        assert registry.key(model) == SECRET
        assert time.monotonic() - began < 5
    finally:
        os.close(life)
    end = time.monotonic() + 5
    while not Path(f"{fifo}.lived").exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert Path(f"{fifo}.lived").exists()


def test_who_is_interrupted_leaves_nothing_running_and_may_ask_again(lab, canary, monkeypatch):
    registry, model = lab(f"echo run >> {canary}; echo {SECRET}")
    waits = Process.wait
    seen: list[Process] = []

    def interrupted(process: Process, timeout: float | None = None) -> bool:
        if not seen:
            seen.append(process)
            raise KeyboardInterrupt
        return waits(process, timeout)

    monkeypatch.setattr(Process, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        registry.key(model)
    assert seen[0].exit_code is not None
    assert registry.key(model) == SECRET


@pytest.mark.parametrize(
    ("command", "cause"),
    [("echo a\0b", "cannot be run"), (f"echo {'x' * 3_000_000}", "cannot be run: Argument list too long")],
)
def test_what_cannot_even_be_started_is_said(command, cause, lab):
    registry, model = lab(command)
    assert cause in failure(registry, model).message


def test_the_place_that_is_named_is_where_the_command_was_written(registry_of):
    """Not where the model was: its provider may have the key from elsewhere."""
    extension = provided(
        "ext", base_url=LOCAL, api_key="!false", models=[{"id": "e"}, {"id": "own"}], source="ext.py"
    )
    registry = registry_of(
        {
            "lab": {"baseUrl": LOCAL, "apiKey": "!false", "models": [{"id": "m"}]},
            "ext": {"models": [{"id": "own", "apiKey": "!exit 2"}, {"id": "more"}]},
        },
        settings=[
            {"id": "s", "provider": "lab", "base_url": LOCAL},
            {"id": "t", "provider": "lab", "base_url": LOCAL, "api_key": "!exit 2"},
        ],
        extensions={"ext": extension},
    )
    for reference, place in {
        "lab/m": "~/.pi/agent/models.json",
        "lab/s": "~/.pi/agent/models.json",
        "lab/t": "~/.pi/agent/settings.json",
        "ext/e": "ext.py",
        "ext/more": "ext.py",
        "ext/own": "~/.pi/agent/models.json",
    }.items():
        said = failure(registry, get(registry, reference)).message
        assert said.startswith(f"{place}: the command for the key of {reference} failed"), reference


# --- headers, and what is secret ---------------------------------------------------------------------------


def test_a_header_is_what_its_command_prints(lab, canary):
    """When a model is connected to. Neither the model before nor the one after shows it."""
    registry, model = lab(
        "echo sk-key", headers={"x-auth": f"!echo run >> {canary}; echo Bearer {SECRET}", "x-plain": "1"}
    )
    assert SECRET not in f"{model!r}"
    assert runs(canary) == 0
    connected = registry.connected(model)
    assert connected.headers == {"x-auth": f"Bearer {SECRET}", "x-plain": "1"}
    assert SECRET not in f"{connected!r}{registry!r}"
    assert registry.connected(connected) is connected
    assert runs(canary) == 1


def test_a_header_that_fails_is_named(lab):
    registry, model = lab("echo sk-key", headers={"x-auth": "!exit 4"})
    with pytest.raises(ModelError, match="the command for header 'x-auth' of lab/m failed with exit code 4"):
        registry.connected(model)
    assert registry.key(model) == "sk-key"


def test_what_a_command_gave_is_kept_from_children_from_then_on(lab):
    registry, model = lab(f"echo {SECRET}", headers={"x": "!echo Bearer tok-9876543210fedcba"})
    around = {"MINE": f"x={SECRET}", "OTHER": "tok-9876543210fedcba", "PLAIN": "1"}

    def seen() -> set[str]:
        kept = environment.for_children(
            around, registry.secret_names(), secret_values=registry.secret_values()
        )
        return around.keys() & kept.keys()

    assert SECRET not in registry.secret_values()
    registry.key(model)
    registry.connected(model)
    assert registry.secret_values() >= {SECRET, "tok-9876543210fedcba"}
    assert seen() == {"PLAIN"}


def test_a_command_is_not_shown(lab):
    _, model = lab("echo sk-key", headers={"x": "!echo hunter2"})
    assert "hunter2" not in f"{model!r}"
    assert "hunter2" not in repr(Command("!echo hunter2", "models.json"))
