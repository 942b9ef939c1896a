"""MCP servers at an address: the SDK's own, and one that answers as no server should."""

import asyncio
import gzip
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import pytest

from perdure.agent.mcp import http, server, tools
from perdure.agent.mcp.program import LONGEST_MESSAGE
from perdure.agent.tools import ToolContext
from perdure.session.entry import Image
from tests.agent import mcp_servers
from tests.agent.mcp_running import HANGS, running, until
from tests.agent.mcp_servers import DOT, OBJECT

pytestmark = [pytest.mark.process, pytest.mark.anyio]

Json = dict[str, Any]


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


# --- the SDK's own --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
async def shared(tmp_path_factory):
    command = [sys.executable, mcp_servers.__file__, "sdk-http"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as program:
        try:
            assert program.stdout is not None
            server = {
                "url": f"http://127.0.0.1:{program.stdout.readline().strip()}/mcp",
                "headers": {"Authorization": "Bearer ${MY_KEY}\n", "X-Other": "${NOT_SET:-plain}"},
            }
            environment = {"MY_KEY": "very-secret"}
            async with running(tmp_path_factory.mktemp("shared"), environment, sdk=server) as found:
                assert found.notices == []
                yield found
        finally:
            program.kill()


async def test_its_tools_are_called_as_any(shared):
    state = shared.state("sdk")
    assert (state.state, state.protocol, state.version) == ("ready", "2026-07-28", "sdk 2")
    assert (await shared.call("sdk_add", a=1)).text == "3"
    assert (await shared.call("sdk_dot")).blocks == [Image(DOT, "image/png")]
    assert (await shared.call("sdk_fail")).is_error


async def test_it_gets_the_headers_that_are_set(shared):
    assert (await shared.call("sdk_header", name="authorization")).text == "Bearer very-secret"
    assert (await shared.call("sdk_header", name="x-other")).text == "plain"
    assert (await shared.call("sdk_header", name="user-agent")).text.startswith("perdure/")
    assert "very-secret" not in repr(shared.servers.states)


async def test_it_tells_of_its_progress(shared, monkeypatch):
    monkeypatch.setattr(tools, "_BETWEEN_UPDATES", 0)
    seen = []
    context = ToolContext("/", update=lambda result: seen.append(result.text))
    done: Any = shared.tools["sdk_steps"].run({}, context)
    assert (await done).text == "done"
    assert seen == ["1/3 step 1", "2/3 step 2", "3/3 step 3"]


async def test_a_cancelled_call_is_cancelled_there(shared):
    await shared.check_cancelling("sdk")


# --- and others -----------------------------------------------------------------------------------------


class Site:
    """A web server whose answers a test writes. By default it is a proper MCP server of the older kind."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, dict[str, str], Json]] = []
        self.answers: dict[str, Callable[[Any, Json], object]] = {}
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"] or 0))
                site.answer(self, json.loads(body or b"{}"))

            def do_GET(self) -> None:
                site.answer(self, {"method": "GET"})

            def do_DELETE(self) -> None:
                site.answer(self, {"method": "DELETE"})

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/mcp"
        threading.Thread(target=self.server.serve_forever, args=[0.01], daemon=True).start()

    def answer(self, handler: Any, message: Json) -> None:
        self.seen.append((handler.command, handler.path, {**handler.headers}, message))
        self.answers.get(message["method"], self.properly)(handler, message)

    def properly(self, handler: Any, message: Json) -> None:
        results = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "site", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "get", "inputSchema": OBJECT}]},
            "tools/call": {"content": [{"type": "text", "text": "hello"}]},
        }
        method = message["method"]
        if method in results:
            send(handler, 200, {"jsonrpc": "2.0", "id": message["id"], "result": results[method]})
        elif "id" in message:
            error = {"code": -32601, "message": "Method not found"}
            send(handler, 200, {"jsonrpc": "2.0", "id": message["id"], "error": error})
        else:
            send(handler, 202 if method != "GET" else 405, b"")

    def times(self, method: str) -> int:
        return [seen[0] for seen in self.seen].count(method)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def send(handler: Any, status: int, content: Json | bytes, **headers: str) -> None:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    kind = {} if isinstance(content, bytes) else {"content-type": "application/json"}
    handler.send_response(status)
    for name, value in {**kind, **headers, "content-length": str(len(body))}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


@pytest.fixture
def site() -> Iterator[Site]:
    found = Site()
    yield found
    found.close()


async def test_an_older_server_is_understood(site, tmp_path):
    async with running(tmp_path, a={"url": site.url, "type": "streamable-http"}) as found:
        assert found.state("a").protocol == "2025-06-18"
        assert (await found.call("a_get")).text == "hello"
        assert found.notices == []


def with_status(status: int, content: bytes = b"<html>", **headers: str) -> Callable[[Any, Json], None]:
    return lambda handler, message: send(handler, status, content, content_type="text/html", **headers)


def dropped(handler: Any, message: Json) -> None:
    handler.connection.shutdown(2)
    handler.close_connection = True


def broken_off(handler: Any, message: Json) -> None:
    handler.send_response(200)
    for name, value in {"content-type": "application/json", "content-length": "1000"}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(b'{"jsonrpc"')
    dropped(handler, message)


def compressed(handler: Any, message: Json) -> None:
    body = gzip.compress(b" " * 2 * LONGEST_MESSAGE)
    send(handler, 200, body, content_type="application/json", content_encoding="gzip")


def endless(handler: Any, message: Json) -> None:
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.end_headers()
    handler.close_connection = True
    try:
        while True:
            handler.wfile.write(b" " * 2**20)
    except OSError:
        pass


def endless_event(handler: Any, message: Json) -> None:
    handler.send_response(200)
    handler.send_header("content-type", "text/event-stream")
    handler.end_headers()
    handler.close_connection = True
    try:
        handler.wfile.write(b"data: ")
        while True:
            handler.wfile.write(b" " * 2**20)
    except OSError:
        pass


FAILURES = {
    "unauthorised": (with_status(401), "it answered 401 Unauthorized; a key is given in its headers"),
    "forbidden": (with_status(403), "it answered 403 Forbidden; a key is given in its headers"),
    "not there": (with_status(404), "it answered 404 Not Found; check its url, which often ends in /mcp"),
    "broken": (with_status(502), "it answered 502 Bad Gateway"),
    "a web page": (with_status(200), "Unexpected content type: text/html"),
    "dropped": (dropped, "it cannot be reached: "),
    "broken off": (broken_off, "the answer broke off: "),
    "compressed": (compressed, "its answer is compressed, which was not asked for"),
    "endless": (endless, "the answer is longer than 16 MB"),
    "an endless event": (endless_event, "SSE stream failed: "),
}


@pytest.mark.parametrize("kind", FAILURES)
async def test_a_failure_concerns_one_call(kind, site, tmp_path):
    """It says what went wrong, and the next one is answered."""
    fails, why = FAILURES[kind]
    async with running(tmp_path, a={"url": site.url}) as found:
        site.answers["tools/call"] = fails
        for _ in range(2):
            failed = await asyncio.wait_for(found.call("a_get"), HANGS)
            assert failed.is_error
            assert why in failed.text
        del site.answers["tools/call"]
        assert (await found.call("a_get")).text == "hello"
        assert len(found.notices) == (kind == "dropped")


@pytest.mark.parametrize("kind", ["unauthorised", "not there", "a web page", "endless"])
async def test_a_server_that_cannot_be_talked_to_is_one_notice(kind, site, tmp_path):
    fails, why = FAILURES[kind]
    site.answers = dict.fromkeys(["server/discover", "initialize"], fails)
    headers = {"Authorization": "Bearer very-secret"}
    async with running(tmp_path, a={"url": f"{site.url}?key=very-secret", "headers": headers}) as found:
        (notice,) = found.notices
        assert notice.startswith("MCP server a did not start: ")
        assert why in notice
        assert "very-secret" not in notice + repr(found.servers.states)
        assert found.state("a").address == site.url


class Hanging:
    """Answers when it is let go of, or much too late."""

    def __init__(self) -> None:
        self._let_go = threading.Event()
        self.has_answered = False

    def __call__(self, handler: Any, message: Json) -> None:
        self.has_answered |= not self._let_go.wait(HANGS)
        handler.close_connection = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._let_go.set()


async def test_one_that_does_not_answer_is_not_waited_for(site, tmp_path):
    with Hanging() as hanging:
        site.answers = dict.fromkeys(["server/discover", "initialize"], hanging)
        async with running(tmp_path, a={"url": site.url, "startupTimeoutSec": 0.2}) as found:
            assert found.notices == ["MCP server a did not start within 0.2 s"]
        assert not hanging.has_answered


async def test_a_redirect_elsewhere_is_not_followed(site, tmp_path):
    """Our headers were meant for this address alone."""
    other = Site()
    try:
        site.answers["tools/call"] = lambda handler, _: send(handler, 307, b"", location=other.url)
        headers = {"Authorization": "Bearer very-secret"}
        async with running(tmp_path, a={"url": site.url, "headers": headers}) as found:
            failed = await found.call("a_get")
            assert failed.is_error
            assert "not followed" in failed.text
        assert other.seen == []
    finally:
        other.close()


async def test_a_redirect_to_another_page_is_followed(site, tmp_path):
    def redirected(handler: Any, message: Json) -> None:
        if handler.path == "/mcp":
            send(handler, 307, b"", location="/mcp/")
        else:
            site.properly(handler, message)

    site.answers["tools/call"] = redirected
    async with running(tmp_path, a={"url": site.url}) as found:
        assert (await found.call("a_get")).text == "hello"


async def test_what_a_server_says_when_it_refuses_is_told_without_its_secrets(site, tmp_path):
    """Also those that are a part of its address."""
    key = "k9-0123456789"

    def refusing(handler: Any, message: Json) -> None:
        error = {"code": -1, "message": f"{key} is unknown at {handler.path}"}
        send(handler, 403, {"jsonrpc": "2.0", "id": message["id"], "error": error})

    async with running(tmp_path, {"MY_VALUE": key}, a={"url": site.url + "/${MY_VALUE}"}) as found:
        site.answers["tools/call"] = refusing
        assert (await found.call("a_get")).text == "get failed: … is unknown at /mcp/…"
        (server,) = found.servers._servers
        server._miss(f"nobody is at {site.url}/{key}")
        assert found.notices == [f"MCP server a gave no answer: nobody is at {site.url}/…"]


async def test_a_server_that_is_gone_is_one_notice_and_may_come_back(tmp_path):
    site = Site()
    async with running(tmp_path, a={"url": site.url}) as found:
        assert (await found.call("a_get")).text == "hello"
        site.answers["tools/call"] = dropped
        for _ in range(3):
            assert "it cannot be reached" in (await found.call("a_get")).text
        (notice,) = found.notices
        assert notice.startswith("MCP server a gave no answer: it cannot be reached: ")
        del site.answers["tools/call"]
        assert (await found.call("a_get")).text == "hello"
        site.close()


def with_session(handler: Any, message: Json) -> None:
    info = {"name": "site", "version": "1"}
    result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info}
    send(handler, 200, {"jsonrpc": "2.0", "id": message["id"], "result": result}, mcp_session_id="1")


async def test_leaving_does_not_wait_for_a_server_that_hangs(site, tmp_path, monkeypatch):
    monkeypatch.setattr(server, "_FAREWELL", 0.5)
    with Hanging() as hanging:
        site.answers = {"initialize": with_session, "DELETE": hanging}
        async with running(tmp_path, a={"url": site.url}) as found:
            assert found.notices == []
        assert not hanging.has_answered
    assert site.times("DELETE") == 1


async def test_a_server_that_wants_to_be_called_again_at_once_is_not(site, tmp_path, monkeypatch):
    """Its own stream, which it ends each time: one call in a while is enough."""

    def stream(handler: Any, message: Json) -> None:
        send(handler, 200, b"retry: 0\nid: 1\ndata:\n\n", content_type="text/event-stream")

    monkeypatch.setattr(http, "_BETWEEN_STREAMS", HANGS)
    site.answers["GET"] = stream
    site.answers["initialize"] = with_session
    async with running(tmp_path, a={"url": site.url}):
        await until(lambda: site.times("GET"))
        await asyncio.sleep(0.1)
    assert site.times("GET") == 1
