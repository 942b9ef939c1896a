"""An MCP server at an address: the SDK's streamable HTTP, over a client that bounds and explains its answers.

The SDK lets a connection that fails end all others, and an answer that is no message be nameless. Here both
are errors of the one request that met them. Redirects are followed as the SDK allows it: within the address's
own origin, as everything that goes along (keys, cookies) was meant for that alone.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2

from perdure import __version__
from perdure.agent.aside import in_thread
from perdure.agent.mcp.program import LONGEST_MESSAGE
from perdure.agent.models.http import cause

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

_CONNECT_SECONDS = 15.0
_BETWEEN_STREAMS = 1.0  # seconds; a server may ask to be called again at once, for ever
_SERVER_ERROR = -32000


@asynccontextmanager
async def connected(
    url: str, headers: Mapping[str, str], *, silence: float, trouble: Callable[[str], None]
) -> AsyncGenerator[TransportStreams, None]:
    """`silence` is how many seconds an answer may take; `trouble` is told why a request had none."""
    from mcp.client.streamable_http import streamable_http_client

    # Certificates are read from a disk.
    client = await in_thread(_client, headers, silence, trouble)
    async with (
        client,
        streamable_http_client(url, http_client=client, max_sse_event_size=LONGEST_MESSAGE) as streams,
    ):
        yield streams


def _client(headers: Mapping[str, str], silence: float, trouble: Callable[[str], None]) -> _Client:
    return _Client(
        trouble,
        headers={"user-agent": f"perdure/{__version__}", **headers, "accept-encoding": "identity"},
        timeout=httpx2.Timeout(silence, connect=_CONNECT_SECONDS),
        # A server on this machine is never behind the proxy of the network.
        mounts=dict.fromkeys(("all://127.0.0.1", "all://localhost", "all://[::1]")),
    )


class _Client(httpx2.AsyncClient):
    def __init__(self, trouble: Callable[[str], None], **options: Any) -> None:
        super().__init__(**options)
        self._trouble = trouble
        self._last_stream = -_BETWEEN_STREAMS

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        if request.method == "GET":
            await self._pause()
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            if request.method != "POST":
                raise
            why = f"it cannot be reached: {cause(error)}"
            self._trouble(why)
            return _refusal(request, why)
        return await self._checked(request, response)

    async def _checked(self, request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.headers.get("content-encoding", "identity") != "identity":
            await response.aclose()  # what is small on the wire may be of any size
            return _refusal(request, "its answer is compressed, which was not asked for")
        if request.method == "POST" and response.status_code >= 400 and kind != "application/json":
            await response.aclose()
            return _refusal(request, _meaning(response))
        if kind != "text/event-stream":
            response.stream = _Bounded(response.stream)
        return response

    async def _pause(self) -> None:
        wait = self._last_stream + _BETWEEN_STREAMS - time.monotonic()
        self._last_stream = time.monotonic() + max(0, wait)
        if wait > 0:
            await asyncio.sleep(wait)


class _Bounded(httpx2.AsyncByteStream):
    """A body, as long as it is no longer than a message may be."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        try:
            async for chunk in self._stream:
                size += len(chunk)
                if size > LONGEST_MESSAGE:
                    raise httpx2.StreamError(f"the answer is longer than {LONGEST_MESSAGE // 2**20} MB")
                yield chunk
        except httpx2.TransportError as error:
            raise httpx2.StreamError(f"the answer broke off: {cause(error)}") from error

    async def aclose(self) -> None:
        await self._stream.aclose()


def _refusal(request: httpx2.Request, why: str) -> httpx2.Response:
    """What the SDK takes for the server's own word on this request."""
    said = {"jsonrpc": "2.0", "id": None, "error": {"code": _SERVER_ERROR, "message": why}}
    headers = {"content-type": "application/json"}
    return httpx2.Response(503, headers=headers, content=json.dumps(said).encode(), request=request)


def _meaning(response: httpx2.Response) -> str:
    said = f"it answered {response.status_code} {response.reason_phrase}".strip()
    if response.status_code in (401, 403):
        return f"{said}; a key is given in its headers"
    if response.status_code in (404, 405):
        return f"{said}; check its url, which often ends in /mcp"
    return said
