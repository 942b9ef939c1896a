"""`pi mcp`: which servers there are, whether they start, and what their tools are; then none is running."""

import json
import signal
import subprocess
import sys
import time
from uuid import uuid4

import pytest

from perdure.programs.pi import main
from tests.agent.mcp_running import hurry, processes
from tests.agent.mcp_servers import raw
from tests.front.commands.machine import Done

pytestmark = pytest.mark.process

TOOLS = [
    {"name": "one", "description": "The first.\nMore of it.", "inputSchema": {"type": "object"}},
    {"name": "two", "description": "\x1b[31mThe \u202esecond.", "inputSchema": {"type": "object"}},
]


@pytest.fixture
def mark():
    return uuid4().hex


@pytest.fixture
def run(home, tmp_path, monkeypatch, capsys):
    """`pi mcp` with these servers in the settings, in an empty folder."""
    monkeypatch.setattr("sys.argv", ["pi"])
    monkeypatch.chdir(tmp_path)
    hurry(monkeypatch)

    def run(*words: str, **servers: object) -> Done:
        folder = home / ".pi" / "agent"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "settings.json").write_text(json.dumps({"mcpServers": servers}))
        return Done(main(["mcp", *words]), *capsys.readouterr())

    return run


def test_without_servers_it_says_how_one_is_written(run):
    """As something that can be copied."""
    done = run()
    assert (done.code, done.out) == (0, "")
    first, *rest = done.err.splitlines()
    assert first == "No MCP server is configured. In ~/.pi/agent/settings.json one is written like this:"
    assert json.loads("".join(rest))["mcpServers"]["files"]["command"] == "npx"
    done = run("--json")
    assert (done.code, done.data) == (0, [])


def test_every_server_is_a_row(run, mark):
    """One that failed says why, and makes it a failure; one that is off does not."""
    good = raw("tools", json.dumps(TOOLS), mark)
    off = {"url": "https://me:secret@host/mcp?key=secret", "disabled": True}
    done = run(good=good, off=off)
    head, first, second = done.out.splitlines()
    assert done.code == 0
    assert head.split() == ["NAME", "STATE", "TOOLS", "WHERE"]
    assert first.split()[:4] == ["good", "ready", "2", sys.executable]
    assert second.split() == ["off", "disabled", "https://host/mcp"]
    assert done.err == "`pi mcp NAME` shows a server's tools.\n"
    assert processes(mark) == []
    done = run(
        good=good, bad=raw("exits", "3", "Error: \x1b[31mno key\x07", mark, env={"KEY": "${MISSING:-}"})
    )
    *_, row, why = done.out.splitlines()
    assert done.code == 1
    assert row.split()[:2] == ["bad", "failed"]
    assert why.strip() == "! did not start: exit code 3: Error: no key"
    assert processes(mark) == []


def test_of_a_server_that_is_named_the_tools_are_listed(run):
    """Each with the first line of what it says of itself, made harmless."""
    done = run("good", good=raw("tools", json.dumps(TOOLS)), bad={"command": "no-such-command"})
    assert done.code == 0
    assert "bad" not in done.out
    *_, about, head, one, two = done.out.splitlines()
    assert about.startswith("good: raw 1, MCP 2025-11-25, 2 tools, started in ")
    assert head.split() == ["TOOL", "DESCRIPTION"]
    assert one.split(None, 1) == ["good_one", "The first."]
    assert two.split(None, 1) == ["good_two", r"\x1b[31mThe \u202esecond."]


def test_as_json_there_is_everything_but_secrets(run):
    good = raw("tools", json.dumps(TOOLS), env={"TOKEN": "very-secret"})
    done = run("--json", good=good, bad={"url": "http://me:very-secret@127.0.0.1:9/?a=very-secret"})
    assert done.code == 1
    assert "very-secret" not in done.out + done.err
    found, failed = done.data
    assert found["name"] == "good"
    assert (found["state"], found["why"], found["protocol"], found["server"]) == (
        "ready",
        "",
        "2025-11-25",
        "raw 1",
    )
    assert [tool["name"] for tool in found["tools"]] == ["good_one", "good_two"]
    assert found["tools"][0]["description"] == "The first.\nMore of it."
    assert failed["address"] == "http://127.0.0.1:9/"
    assert failed["why"] == "did not start: it cannot be reached: Connection refused"
    assert failed["tools"] == []


def test_an_unknown_name_is_told_with_those_there_are(run):
    done = run("nobody", a={"command": "x"}, b={"command": "y"})
    assert (done.code, done.out) == (3, "")
    assert done.err == "pi: MCP server not found: nobody; there are: a, b\n"


def test_what_else_is_to_be_known_comes_below(run):
    schema = {"type": "object", "$ref": "http://127.0.0.1:9/"}
    done = run(a=raw("tools", json.dumps([{"name": "x", "inputSchema": schema}])))
    assert done.code == 0
    assert (
        "MCP server a has tools that cannot be used: x (its schema refers to http://127.0.0.1:9/" in done.err
    )


def test_g_10_the_servers_of_a_folder_wait_for_trust(run, tmp_path):
    folder = tmp_path / ".pi"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps({"mcpServers": {"theirs": raw("server")}}))
    assert "theirs" not in run().out
    assert main(["trust", "--yes"]) == 0
    assert "theirs" in run().out


def test_ctrl_c_ends_the_servers_too(home, tmp_path, mark):
    folder = home / ".pi" / "agent"
    folder.mkdir(parents=True)
    server = raw("silent", mark)
    (folder / "settings.json").write_text(json.dumps({"mcpServers": {"a": server}}))
    command = [sys.executable, "-m", "perdure", "mcp"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        end = time.monotonic() + 20
        while not processes(mark) and time.monotonic() < end:
            time.sleep(0.02)
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=20)
    assert program.returncode == 130
    assert out == b""
    assert b"Traceback" not in err
    assert processes(mark) == []
