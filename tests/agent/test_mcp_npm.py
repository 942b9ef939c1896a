"""The MCP project's own servers for Node: what anybody may have in their settings."""

import asyncio
import json

import pytest

from perdure.agent.mcp import tools
from perdure.agent.tools import ToolContext
from perdure.session.entry import Image
from tests.agent.mcp_running import running, until
from tests.interop.original_pi import PEERS
from tests.needs import needs

NODE = PEERS / "node_modules" / ".bin" / "node"
SERVERS = PEERS / "node_modules" / "@modelcontextprotocol"
pytestmark = [
    pytest.mark.process,
    pytest.mark.anyio,
    needs(
        "MCP servers for Node (make peers)", given=NODE.exists() and (SERVERS / "server-filesystem").exists()
    ),
]


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
async def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    (folder / "note.txt").write_text("seventeen\n")

    def server(name: str, *arguments: str) -> dict[str, object]:
        program = SERVERS / f"server-{name}" / "dist" / "index.js"
        return {"command": str(NODE), "args": [str(program), *arguments]}

    async with running(folder, everything=server("everything"), files=server("filesystem", ".")) as found:
        assert found.notices == []
        yield found


async def test_both_are_ready_with_their_tools(shared):
    assert [(each.state, each.protocol) for each in shared.servers.states] == [("ready", "2025-11-25")] * 2
    assert {"everything_echo", "everything_get-sum", "files_read_text_file", "files_write_file"} <= {
        *shared.tools
    }
    assert "Echoes back" in shared.tools["everything_echo"].description


async def test_everything_answers(shared):
    assert (await shared.call("everything_echo", message="hello")).text == "Echo: hello"
    assert "3" in (await shared.call("everything_get-sum", a=1, b=2)).text
    (image,) = [
        each for each in (await shared.call("everything_get-tiny-image")).blocks if isinstance(each, Image)
    ]
    assert image.mime_type == "image/png"
    weather = json.loads((await shared.call("everything_get-structured-content", location="Chicago")).text)
    assert weather.keys() == {"temperature", "conditions", "humidity"}
    assert (
        "demo://resource/dynamic/text/1:\n" in (await shared.call("everything_get-resource-reference")).text
    )
    assert (
        "demo://resource/dynamic/blob/1" in (await shared.call("everything_get-resource-links", count=1)).text
    )


async def test_g_10_everything_sees_no_key(shared):
    seen = json.loads((await shared.call("everything_get-env")).text)
    assert seen.keys() <= {
        "HOME",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "LOGNAME",
        "PATH",
        "SHELL",
        "TERM",
        "TMPDIR",
        "TZ",
        "USER",
    }


async def test_a_long_operation_tells_of_its_progress_and_can_be_ended(shared, monkeypatch):
    monkeypatch.setattr(tools, "_BETWEEN_UPDATES", 0)
    seen = []
    context = ToolContext("/", update=lambda result: seen.append(result.text))
    tool = shared.tools["everything_trigger-long-running-operation"]
    done = asyncio.ensure_future(tool.run({"duration": 0.3, "steps": 3}, context))
    assert "completed" in (await done).text
    assert seen == ["1/3", "2/3", "3/3"]
    call = asyncio.ensure_future(tool.run({"duration": 60, "steps": 600}, context))
    await until(lambda: "1/600" in seen)
    call.cancel()
    await asyncio.wait([call])
    assert call.cancelled()
    assert (await shared.call("everything_echo", message="still here")).text == "Echo: still here"


async def test_files_are_read_and_written_within_the_folder_alone(shared, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    assert (await shared.call("files_read_text_file", path="note.txt")).text == "seventeen\n"
    written = await shared.call("files_write_file", path="new.txt", content="ünïcode")
    assert not written.is_error
    assert (await shared.call("files_read_text_file", path="new.txt")).text == "ünïcode"
    refused = await shared.call("files_read_text_file", path=str(secret))
    assert refused.is_error
    assert "outside allowed directories" in refused.text
