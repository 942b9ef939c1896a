"""Whatever stands where a path belongs in a file that is no session, no program ends in a traceback.

Settings, decisions on trust, the list of workspaces, notes of the trash, a workspace's registry, ledgers,
what is typed in a conversation, and links that a folder brings.
"""

import json
from pathlib import Path

import pytest

from tests.effort import IS_LONG
from tests.front.commands.machine import STAMP, Machine

NUL, HALF = "a\0b", "a\ud800"
SELDOM = (
    "\0",
    "~\0x",
    "~\ud800",
    "x" * 100_000,
    "a/" * 50_000,
    "",
    ".",
    "..",
    "~nobody/x",
    "a\nb",
    "\u202eab",
)
VALUES = (NUL, HALF, *SELDOM) if IS_LONG else (NUL, HALF)
PYTHONS = ("Error", "embedded null", "codec can't", "recursion")
"""What Python says of such a path, and a user cannot use."""
LINKS = 1_500

pytestmark = [pytest.mark.process, pytest.mark.long]
hostile = pytest.mark.parametrize("value", VALUES, ids="{!a:.20}".format)


def put(folder: Path, name: str, said: object) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = said if isinstance(said, str) else json.dumps(said)
    path.write_bytes(text.encode("utf-8", "surrogatepass"))


def check(machine: Machine, *words: str, codes: tuple[int, ...] = (0,), stdin: str = "hello\n") -> None:
    before = machine.outside()
    done = machine.call(*words, stdin=stdin)
    assert done.code in codes, (words, done.err)
    assert not [each for each in PYTHONS if each in done.out + done.err], (words, done.err)
    assert machine.outside() == before


@hostile
@pytest.mark.parametrize("name", ["extensions", "skills", "prompts", "templates"])
def test_a_hostile_place_in_settings_is_left_out(machine, value, name):
    """What can be no file is left out, and named."""
    put(machine.user, ".pi/agent/settings.json", {name: [value]})
    check(machine, "pi", "-m", "offline", "-p", "hi")


@hostile
@pytest.mark.parametrize("name", ["sessionDir", "shellPath", "defaultModel", "defaultThinkingLevel"])
def test_a_hostile_setting_is_not_used_or_is_an_error(machine, value, name):
    put(machine.user, ".pi/agent/settings.json", {name: value})
    check(machine, "pi", "-p", "hi", codes=(0, 1))
    check(machine, "pi", "models", codes=(0, 1))


@hostile
@pytest.mark.parametrize("name", ["command", "args", "cwd", "env"])
def test_a_hostile_server_in_settings_does_not_start(machine, value, name):
    """A server that cannot be started is one that did not start."""
    values: dict[str, object] = {"args": [value], "env": {"A": value}}
    server = {"command": "false", name: values.get(name, value)}
    put(machine.user, ".pi/agent/settings.json", {"mcpServers": {"s": server}})
    check(machine, "pi", "mcp", codes=(0, 1))


@hostile
def test_a_hostile_folder_in_a_decision_on_trust_is_no_folder(machine, value):
    put(machine.user, ".pi/agent/trust.json", {value: True, f"/{value}": False})
    put(machine.user, "elsewhere/.pi/settings.json", {"extensions": [value]})
    for words in (["trust", "--list"], ["-m", "offline", "-p", "hi"], ["trust", "--json"]):
        check(machine, "pi", *words)


@hostile
def test_a_hostile_line_in_the_list_of_workspaces_hides_no_other(machine, value):
    """Each names no workspace."""
    ref = machine.add("cortext")
    known = machine.user / ".cortext" / "workspaces"
    put(machine.user, ".cortext/workspaces", f"{value}\n~{value}\n/{value}\n{known.read_text()}")
    check(machine, "pi", "sessions", "ls", "--all")
    assert [row["id"] for row in machine.run("ls", "--all", "--json").data] == [ref.id]


@hostile
@pytest.mark.parametrize("name", ["id", "program", "deleted", "root", "names", "as", "paths"])
def test_a_hostile_note_of_the_trash_leads_nowhere(machine, value, name):
    """What can be brought back is; else it says why, and stays. Nothing is made outside the store."""
    ref = machine.add("pi")
    machine.run("rm", ref.path)
    (note,) = Path(machine.homes["pi"].path, "trash").glob("*/trash.json")
    said = json.loads(note.read_text())
    said[name] = [value] if name in ("names", "as", "paths") else value
    if name == "paths":
        del said["names"]
    note.write_text(json.dumps(said))
    check(machine, "pi", "sessions", "trash")
    check(machine, "pi", "sessions", "restore", ref.id, codes=(0, 1, 3))
    check(machine, "pi", "sessions", "ls", "--all")
    check(machine, "pi", "sessions", "trash", "--empty", "--yes", codes=(0, 1))


@hostile
def test_a_hostile_registry_of_a_workspace_leads_nowhere(machine, value):
    kinds = {"plan": {"folder": value, "command": value, "tool": value}, value: {"folder": "x"}}
    registry = {"default_model": value, "tool": value, "conversation_types": kinds}
    put(Path(machine.homes["cortext"].path), ".workspace/registry.json", registry)
    put(Path(machine.homes["cortext"].path), ".workspace/commands/workspace.plan.md", "Plan.")
    check(machine, "cortext", "list")
    check(machine, "cortext", "start", "plan", "x", "-m", "offline", codes=(0, 1, 2))
    check(machine, "pi", "sessions", "ls", "--all")


@hostile
def test_a_hostile_root_in_a_ledger_is_nobodys(machine, value):
    ledger = f"<!-- project root: {value} -->\n- {STAMP[:10]} yes\n"
    put(machine.user, ".soleur/decisions/elsewhere.md", ledger)
    check(machine, "soleur", "decisions")
    check(machine, "soleur", "--fresh", "--no-context", "-m", "offline", codes=(0, 1))


CALLS = {
    "pi": ["-m", "offline"],
    "soleur": ["--fresh", "--no-context", "-m", "offline"],
    "sibyl": ["-m", "offline"],
    "aur": ["spawn", "-m", "offline"],
}
TYPED = (
    "look at @{}",
    "/export {}",
    "/context {}",
    "/detach {}",
    "/save {}",
    "/import {}",
    "/load {}",
    "/fork {}",
)


@hostile
@pytest.mark.parametrize("program", CALLS)
def test_after_a_hostile_name_is_typed_the_conversation_goes_on(machine, value, program):
    """In a message, and behind each command that takes a file."""
    typed = "".join(f"{each.format(value[:5_000])}\n" for each in TYPED).encode("utf-8", "replace").decode()
    done = machine.call(program, *CALLS[program], stdin=f"{typed}hello\n")
    assert done.code in (0, 1)
    assert not [each for each in PYTHONS if each in done.out + done.err], done.err


BROUGHT = (
    "AGENTS.md",
    ".pi/settings.json",
    ".pi/skills/a",
    ".pi/prompts/t.md",
    ".aurora/agents/z.md",
    ".git",
)


def test_a_chain_of_links_in_a_folder_is_no_way(machine):
    """The system follows 40 links; nothing calls itself once for each of more."""
    for name in BROUGHT:
        path = machine.user / "elsewhere" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        for number in range(LINKS):
            path.with_name(f"{path.name}.{number}").symlink_to(f"{path.name}.{number + 1}")
        path.symlink_to(f"{path.name}.0")
    check(machine, "pi", "-m", "offline", "-p", "hi")
    check(machine, "pi", "trust", "--json")
    check(machine, "pi", "sessions", "ls")
    check(machine, "pi", "-m", "offline", "-p", "hi", "@AGENTS.md", codes=(2,))
    check(machine, "soleur", "--fresh", "--context", "AGENTS.md", "-m", "offline", codes=(2,))
    check(machine, "aur", "spawn", "-m", "offline")
