"""A server of the tests' own, for what a well-behaved one does not do: real sockets, scripted bytes.

    def test_…(wire_server):
        wire_server.script(events(b"data: 1\n\n", b"data: 2\n\n"), refuse(429, b"{}", {"Retry-After": "2"}))

Each connection is answered with the next step, the last one again and again. A step is a generator: what it
yields is sent at once, as it is; `CUT` resets the connection, and `HANG` waits until the client goes away.
In a stream of events, `READ` waits until the client has read what came before it, and `wire_server.reads`
counts these. What was asked is in `wire_server.requests`.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

CUT, HANG, READ = object(), object(), object()
COMMENTS = b": nothing of it is for anybody\n\n" * 2**17
"""More than a connection holds that nobody reads from: when it is sent, what came before it was read."""
Step = Callable[[], Iterable[Any]]


@dataclass(frozen=True)
class Asked:
    target: str
    headers: dict[str, str]
    """By names in lower case."""
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)


def raw(*parts: Any) -> Step:
    """These bytes, with the status line if one is wanted."""
    return lambda: iter(parts)


def refuse(status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> Step:
    """A whole answer with a length."""
    named = {"Content-Type": "application/json", **(headers or {})}
    head = f"HTTP/1.1 {status} Some Reason\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return raw(head.encode() + b"\r\n" + body)


def events(*parts: Any, kind: str = "text/event-stream") -> Step:
    """A chunked event stream, each part a chunk of its own; it ends well unless with CUT or HANG."""
    parts = tuple(each for part in parts for each in ((COMMENTS, READ) if part is READ else (part,)))

    def answer() -> Iterator[Any]:
        content = f"Content-Type: {kind}\r\n" if kind else ""
        yield f"HTTP/1.1 200 OK\r\n{content}Transfer-Encoding: chunked\r\n\r\n".encode()
        for part in parts:
            yield b"%x\r\n%b\r\n" % (len(part), part) if isinstance(part, bytes) else part
        yield b"0\r\n\r\n"

    return answer


class WireServer:
    def __init__(self) -> None:
        self.requests: list[Asked] = []
        self.connections = 0
        self.reads = 0
        self.gone = threading.Event()
        """Set when a client went away from a HANG."""
        self._steps: list[Step] = [events()]
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def script(self, *steps: Step) -> None:
        self._steps = [*steps]
        self.gone.clear()

    def close(self) -> None:
        for each in (self._listening, *self._open):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the other side was first
        for thread in self._threads:
            thread.join()
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**16)
            self._open.add(connection)
            self._threads.append(threading.Thread(target=self._serve, args=(connection,)))
            self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as reading:
            try:
                while asked := _request(reading):
                    self.requests.append(asked)
                    step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
                    if not self._answer(connection, step):
                        return
            except OSError:
                pass  # the client is gone, which is its right
            finally:
                self._open.discard(connection)

    def _answer(self, connection: socket.socket, step: Step) -> bool:
        """Whether the connection may be used again."""
        closing = False
        for part in step():
            if part is CUT:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return False
            if part is HANG:
                with suppress(ConnectionError):  # of a client that had not read all
                    if connection.recv(1):
                        return False
                self.gone.set()
                return False
            if part is READ:
                self.reads += 1
                continue
            closing = closing or b"connection: close" in part.lower()
            connection.sendall(part)
        return not closing


def _request(reading: Any) -> Asked | None:
    line = reading.readline()
    if not line:
        return None
    headers: dict[str, str] = {}
    while (header := reading.readline().strip()) != b"":
        name, _, value = header.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    body = reading.read(int(headers.get("content-length", 0)))
    return Asked(line.split()[1].decode(), headers, body)


@pytest.fixture
def wire_server() -> Iterator[WireServer]:
    server = WireServer()
    try:
        yield server
    finally:
        server.close()
