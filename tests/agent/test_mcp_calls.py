"""Calls of MCP servers' tools: what is sent, what comes back, what becomes of those that fail or end."""

import asyncio
import json
import sys
from typing import Any

import pytest

from perdure.agent.mcp import tools
from perdure.agent.tools import BadArguments, ToolContext
from perdure.session.entry import Image
from tests.agent import mcp_servers
from tests.agent.mcp_running import HANGS, hurry, running, until
from tests.agent.mcp_servers import DOT, raw

pytestmark = [pytest.mark.process, pytest.mark.anyio]


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
async def shared(tmp_path_factory):
    """A server that does as it is told, and the SDK's own, for all tests that leave them as they are."""
    sdk = {"command": sys.executable, "args": [mcp_servers.__file__, "sdk-stdio"]}
    async with running(
        tmp_path_factory.mktemp("shared"), a=raw("answers"), junk=raw("junk"), sdk=sdk
    ) as found:
        assert found.notices == []
        yield found


def result(*content: Any, **more: Any) -> list[str]:
    """A server's answer, a line."""
    return [
        json.dumps({"jsonrpc": "2.0", "id": "$ID", "result": {"content": content, **more}}).replace(
            '"$ID"', "$ID"
        )
    ]


TEXT = {"type": "text", "text": "hello"}
ANSWERS: dict[str, tuple[list[str], Any]] = {
    "text": (result(TEXT, {"type": "text", "text": ""}, TEXT), ["hello", "hello"]),
    "nothing": (result(), ["(no content)"]),
    "an empty text": (result({"type": "text", "text": ""}), ["(no content)"]),
    "structured": (result(structuredContent={"a": [1, "é"]}), ['{"a": [1, "é"]}']),
    "structured and text": (result(TEXT, structuredContent={"a": 1}), ["hello"]),
    "image": (result({"type": "image", "data": DOT, "mimeType": "image/png"}), [Image(DOT, "image/png")]),
    "image by another name": (
        result({"type": "image", "data": DOT, "mimeType": "image/svg+xml"}),
        [Image(DOT, "image/png")],
    ),
    "no image": (
        result({"type": "image", "data": "PHN2Zz4=", "mimeType": "image/svg+xml"}),
        ["[image/svg+xml, 5 bytes, which cannot be shown]"],
    ),
    "no base64": (
        result({"type": "image", "data": "!" * 8, "mimeType": "image/png"}),
        ["[image/png, 6 bytes, which cannot be shown]"],
    ),
    "large image": (
        result({"type": "image", "data": DOT[:-4] + "A" * 7_000_000, "mimeType": "image/png"}),
        ["[image/png, 5,250,066 bytes, which cannot be shown]"],
    ),
    "audio": (
        result({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}),
        ["[audio/wav, 3 bytes, which cannot be heard here]"],
    ),
    "resource": (
        result({"type": "resource", "resource": {"uri": "file:///a.txt", "text": "content"}}),
        ["file:///a.txt:\ncontent"],
    ),
    "blob": (
        result(
            {
                "type": "resource",
                "resource": {"uri": "file:///a", "blob": "AAA=", "mimeType": "application/pdf"},
            }
        ),
        ["[file:///a: application/pdf, 2 bytes]"],
    ),
    "link": (
        result({"type": "resource_link", "uri": "file:///a", "name": "a"}),
        ["a: file:///a"],
    ),
    "half a character": ([result(TEXT)[0].replace("hello", r"h\ud800i")], ["h\ufffdi"]),
    "many parts": (result(*[TEXT] * 1002), ["hello"] * 1000 + ["[2 more parts are left out]"]),
}
FAILURES: dict[str, tuple[list[str], str]] = {
    "said to be one": (result(TEXT, isError=True), "hello"),
    "JSON-RPC error": (['{"jsonrpc":"2.0","id":$ID,"error":{"code":-1,"message":"no"}}'], "get failed: no"),
    "too long": (
        [result({"type": "text", "text": "$LONG"})[0]],
        "get failed: the answer is longer than 16 MB",
    ),
    "no result": (['{"jsonrpc":"2.0","id":$ID,"result":3}'], "get failed: the answer cannot be read"),
    "not as MCP has it": (
        ['{"jsonrpc":"2.0","id":$ID,"result":{"content":3}}'],
        "get failed: it sent what is not MCP",
    ),
}


@pytest.mark.parametrize("kind", ANSWERS)
async def test_what_a_tool_answers_is_what_a_model_reads(kind, shared):
    lines, expected = ANSWERS[kind]
    found = await shared.call("a_get", lines=lines)
    assert not found.is_error
    assert [block if isinstance(block, Image) else block.text for block in found.blocks] == expected


@pytest.mark.parametrize("kind", FAILURES)
async def test_a_failure_is_a_result(kind, shared):
    """And the server goes on."""
    lines, expected = FAILURES[kind]
    found = await shared.call("a_get", lines=lines)
    assert found.is_error
    assert found.text.startswith(expected)
    assert (await shared.call("a_echo", x=1)).text == '{"x": 1}'


async def test_what_is_no_answer_is_passed_over(shared):
    """Greetings, bytes that are no text, answers to nobody."""
    for number in range(3):
        assert (await shared.call("junk_echo", number=number)).text == json.dumps({"number": number})


async def test_arguments_are_checked_before_the_server_sees_them(shared):
    """By the loop, with the schema that the model is shown."""
    assert (await shared.call("sdk_add", a=1)).text == "3"
    with pytest.raises(BadArguments, match="integer"):
        await shared.call("sdk_add", a="one")


async def test_half_a_character_in_an_argument_is_replaced(shared):
    assert json.loads((await shared.call("a_echo", x="a\ud800b")).text) == {"x": "a\ufffdb"}


async def test_the_sdks_own_server(shared):
    """It speaks the newest version there is."""
    state = shared.state("sdk")
    assert (state.protocol, state.version) == ("2026-07-28", "sdk 2")
    assert shared.tools["sdk_add"].description == "Add two numbers."
    failed = await shared.call("sdk_fail")
    assert (failed.is_error, failed.text) == (True, "Error executing tool fail")
    assert (await shared.call("sdk_dot")).blocks == [Image(DOT, "image/png")]


async def test_progress_is_shown(shared, monkeypatch):
    monkeypatch.setattr(tools, "_BETWEEN_UPDATES", 0)
    seen = []
    context = ToolContext("/", update=lambda result: seen.append(result.text))
    done: Any = shared.tools["sdk_steps"].run({}, context)
    assert (await done).text == "done"
    assert seen == ["1/3 step 1", "2/3 step 2", "3/3 step 3"]


async def test_progress_without_end_is_thinned_out(shared, monkeypatch):
    monkeypatch.setattr(tools, "_BETWEEN_UPDATES", HANGS)
    update = (
        '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$ID,"progress":%d}}'
    )
    seen: list[str] = []
    context = ToolContext("/", update=lambda result: seen.append(result.text))
    lines = [update % number for number in range(100)] + result(TEXT)
    done: Any = shared.tools["a_get"].run({"lines": lines}, context)
    assert (await done).text == "hello"
    assert seen == ["0"]


@pytest.mark.parametrize("server", ["a", "sdk"])
async def test_a_cancelled_call_is_cancelled_at_the_server(server, shared):
    """Which serves others meanwhile, and afterwards."""
    await shared.check_cancelling(server)


async def test_a_call_that_takes_too_long_is_an_error_and_ended(tmp_path):
    async with running(tmp_path, a=raw("server", toolTimeoutSec=0.1)) as found:
        failed = await found.call("a_wait")
        assert (failed.is_error, failed.text) == (
            True,
            "wait gave no answer within 0.1 seconds, and was told to end",
        )

        async def was_told() -> bool:
            return await found.waits("a") == (1, 1)

        await until(was_told)


async def test_a_server_that_does_not_read_holds_up_nobody(tmp_path, monkeypatch):
    """Also when more is to be said to it than a pipe takes, and when calls are cancelled."""
    hurry(monkeypatch)
    async with running(tmp_path, a=raw("server", toolTimeoutSec=0.1)) as found, asyncio.timeout(HANGS):
        assert (await found.call("a_sleep")).is_error
        for _ in range(3):
            assert "no answer within 0.1 seconds" in (await found.call("a_echo", x="x" * 2**20)).text


async def test_a_failure_is_told_without_the_servers_secrets(tmp_path):
    """Whichever way it is told. What a tool answers is the model's, as it is."""
    key = "k9-0123456789"
    settings = raw("answers", "${MY_VALUE}", env={"PLAIN": "${MY_VALUE}"})
    async with running(tmp_path, {"MY_VALUE": key}, a=settings) as found:
        text = {"type": "text", "text": f"not with {key}"}
        error = FAILURES["JSON-RPC error"][0][0].replace('"no"', f'"not with {key}"')
        assert (await found.call("a_get", lines=[error])).text == "get failed: not with …"
        assert (await found.call("a_get", lines=result(text, isError=True))).text == "not with …"
        assert (await found.call("a_get", lines=result(text))).text == f"not with {key}"
