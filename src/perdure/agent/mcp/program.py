"""An MCP server that is a program: started, talked to over its pipes, and ended with all that it started.

The SDK has such a transport too. This one bounds what a server may say at once, notices its end though a
child of its own holds the pipe, keeps the last of what it complained about, and leaves no process of its
group behind. What a server prints that is no message, a greeting or a log, is passed over.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from perdure.agent.aside import in_thread, settled
from perdure.agent.models.history import sound
from perdure.agent.supervisor import Process, Supervisor

if TYPE_CHECKING:
    from anyio import Event
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage
    from mcp_types import JSONRPCMessage

LONGEST_MESSAGE = 16 * 2**20
"""Bytes. A result may have some images of the size that a model is shown."""
_CHUNK = 64 * 1024
_TAIL = 8 * 1024  # of what it wrote to stderr
_FLUSH = 0.5  # seconds for what was said last to reach it
_PATIENCE = ((0, 1.0), (signal.SIGTERM, 1.0), (getattr(signal, "SIGKILL", 0), 1.0))
"""A server ends when its stdin does; if not, it is asked, and then made to, with so many seconds for each."""
_LAST_WORDS = 0.3  # what it wrote before it ended is there by then
_PACE = 0.01
_WAITING = 64
_EDGE = 256  # bytes at the beginning or the end of a message that say what it answers
_AT_ITS_BEGINNING = re.compile(rb'\s*{\s*(?:"jsonrpc"\s*:\s*"2.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,')
_AT_ITS_END = re.compile(rb'"id"\s*:\s*(\d{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2.0"\s*)?}\s*$')


class _Running:
    """The process of a server, and its pipes. asyncio would start it as a child of this program, and what it
    starts would live on if this program was killed."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader
    process: Process

    def __init__(self) -> None:
        self.exited = asyncio.Event()
        self._transports: list[asyncio.BaseTransport] = []

    async def start(
        self, supervisor: Supervisor, command: Sequence[str], cwd: str, environment: Mapping[str, str]
    ) -> None:
        """OSError if it cannot be started."""
        loop = asyncio.get_running_loop()

        def tell() -> None:
            with suppress(RuntimeError):  # the loop has been closed
                loop.call_soon_threadsafe(self.exited.set)

        if not supervisor.is_running:
            await in_thread(supervisor.begin)
        pipes = [os.pipe() for _ in range(3)]
        theirs = {0: pipes[0][0], 1: pipes[1][1], 2: pipes[2][1]}
        ours = [pipes[0][1], pipes[1][0], pipes[2][0]]
        try:
            self.process = supervisor.start(command, cwd=cwd, environment=environment, files=theirs)
        except BaseException:
            for each in ours:
                os.close(each)
            raise
        finally:
            for each in theirs.values():
                os.close(each)
        self.process.on_end(tell)
        written, *read = (
            open(each, mode, buffering=0) for each, mode in zip(ours, ("wb", "rb", "rb"), strict=True)
        )
        self.stdout, self.stderr = (asyncio.StreamReader(_CHUNK, loop) for _ in range(2))
        for pipe, reader in zip(read, (self.stdout, self.stderr), strict=True):
            transport, _ = await loop.connect_read_pipe(
                partial(asyncio.StreamReaderProtocol, reader, loop=loop), pipe
            )
            self._transports.append(transport)
        writing, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader(loop=loop), loop=loop), written
        )
        self._transports.append(writing)
        self.stdin = asyncio.StreamWriter(writing, protocol, None, loop)

    def close(self) -> None:
        for each in self._transports:
            each.close()


class Program:
    def __init__(
        self,
        command: Sequence[str],
        cwd: str,
        environment: Mapping[str, str],
        *,
        over: asyncio.Event,
        supervisor: Supervisor,
    ) -> None:
        """`over` is set when nothing more will come from it."""
        self._supervisor = supervisor
        self._command = command
        self._cwd = cwd
        self._environment = environment
        self._tail = b""
        self.stray = ""
        """The first line on stdout that is no message."""
        self._running: _Running | None = None
        self._over = over
        self._is_made_to_end = False

    @property
    def how_it_ended(self) -> str:
        code = self._running.process.exit_code if self._running is not None else None
        if code is None or self._is_made_to_end:
            return "it closed its output"
        return f"exit code {code}" if code >= 0 else f"signal {-code}"

    @property
    def last_words(self) -> str:
        """The last line on stderr. What Node writes last is its own version, and the error before that."""
        lines = [line for line in self._tail.decode("utf-8", "replace").splitlines() if line.strip()]
        if lines and lines[-1].startswith("Node.js v"):
            lines = [line for line in lines if "Error" in line] or lines
        return lines[-1] if lines else ""

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[TransportStreams, None]:
        """Its messages, and ours to it, as the SDK's sessions take them. OSError if it cannot be started."""
        import anyio
        from mcp.shared.message import SessionMessage

        running = _Running()
        # Who is cancelled meanwhile learns of it later: what was started is known then, and ended.
        with anyio.CancelScope(shield=True):
            await settled(running.start(self._supervisor, self._command, self._cwd, self._environment))
        self._running = running
        heard, hearing = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        # Some of ours may wait for a server that does not read: that a call is cancelled must not.
        saying, said = anyio.create_memory_object_stream[SessionMessage](_WAITING)
        try:
            async with anyio.create_task_group() as tasks:
                written, complained = anyio.Event(), anyio.Event()
                tasks.start_soon(self._read, heard)
                tasks.start_soon(self._write, said, written)
                tasks.start_soon(self._keep_tail, complained)
                tasks.start_soon(self._await_end, heard)
                try:
                    yield hearing, saying
                finally:
                    with anyio.CancelScope(shield=True):
                        hearing.close()
                        saying.close()
                        with anyio.move_on_after(_FLUSH):
                            await written.wait()
                        await self._end()
                        with anyio.move_on_after(_LAST_WORDS):
                            await complained.wait()
                    tasks.cancel_scope.cancel()
        finally:
            self._end_at_once()
            for stream in (heard, hearing, saying, said):
                stream.close()

    # --- talking -------------------------------------------------------------------------------------

    async def _read(self, heard: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """To the very end, also if nobody listens any more: a server that cannot write does not end."""
        import anyio
        from mcp.shared.message import SessionMessage

        assert self._running is not None
        lines, is_heard = Lines(LONGEST_MESSAGE), True
        while data := await self._running.stdout.read(_CHUNK):
            for line in lines.feed(data):
                message = message_of(line) if is_heard else None
                if message is None and isinstance(line, bytes) and not self.stray:
                    self.stray = line[:_EDGE].decode("utf-8", "replace").strip()
                if message is not None:
                    try:
                        await heard.send(SessionMessage(message))
                    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                        is_heard = False
        self._stop_listening(heard)

    async def _write(self, said: MemoryObjectReceiveStream[SessionMessage], done: Event) -> None:
        assert self._running is not None
        try:
            async for message in said:
                text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                self._running.stdin.write(f"{text}\n".encode())
                await self._running.stdin.drain()
        except OSError:
            pass  # it has ended, or closed its stdin: whoever waits for an answer learns of that by reading
        finally:
            done.set()

    async def _keep_tail(self, done: Event) -> None:
        assert self._running is not None
        while data := await self._running.stderr.read(_CHUNK):
            self._tail = (self._tail + data)[-_TAIL:]
        done.set()

    async def _await_end(self, heard: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        """Its own end counts, not that of its pipe, which a child in the background may hold for ever."""
        import anyio

        assert self._running is not None
        await self._running.exited.wait()
        with anyio.move_on_after(_LAST_WORDS):
            await self._over.wait()
        self._stop_listening(heard)

    def _stop_listening(self, heard: MemoryObjectSendStream[SessionMessage | Exception]) -> None:
        heard.close()
        self._over.set()

    # --- ending --------------------------------------------------------------------------------------

    async def _end(self) -> None:
        assert self._running is not None
        loop = asyncio.get_running_loop()
        self._running.stdin.close()
        for number, patience in _PATIENCE:
            if number:
                self._is_made_to_end |= not self._running.exited.is_set()
                self._signal(number)
            # Its children are waited for only when they were asked; those that are killed need nobody.
            is_asked = number == signal.SIGTERM
            end = loop.time() + (patience if not self._running.exited.is_set() else _LAST_WORDS)
            while self._is_alive(with_children=is_asked) and loop.time() < end:
                await asyncio.sleep(_PACE)
            if not self._is_alive():
                return

    def _end_at_once(self) -> None:
        """Whatever is left; also if the event loop lets nobody wait any more."""
        if self._is_alive():
            self._signal(_PATIENCE[-1][0])
        if self._running is not None:
            self._running.close()

    def _is_alive(self, *, with_children: bool = True) -> bool:
        assert self._running is not None
        return not self._running.exited.is_set() or (with_children and self._signal(0))

    def _signal(self, number: int) -> bool:
        """To all in its group, which has its number. False if there is nobody."""
        assert self._running is not None
        try:
            if os.name == "posix":
                os.killpg(self._running.process.pid, number)
            elif number:
                os.kill(self._running.process.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # some of them are another user's
        return os.name == "posix"


# --- messages ---------------------------------------------------------------------------------------


class TooLong(NamedTuple):
    """What is left of a line that was longer than any message may be."""

    start: bytes
    end: bytes


class Lines:
    """Lines out of bytes that are cut anywhere, without their ends; never more than `most` bytes are kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open = bytearray()
        self._start: bytes | None = None  # of a line that is too long, of which the rest is dropped

    def feed(self, data: bytes) -> Iterator[bytes | TooLong]:
        *ended, rest = data.split(b"\n")
        for piece in ended:
            self._add(piece)
            start, line = self._start, bytes(self._open)
            self._start, self._open = None, bytearray()
            yield line if start is None else TooLong(start, line)
        self._add(rest)

    def _add(self, piece: bytes) -> None:
        self._open += piece
        if self._start is None and len(self._open) > self._most:
            self._start = bytes(self._open[:_EDGE])
        if self._start is not None:
            del self._open[:-_EDGE]


def message_of(line: bytes | TooLong) -> JSONRPCMessage | None:
    """None for what is no message. An answer that cannot be taken fails the call that waits for it, as far
    as it can be told which one that is."""
    if isinstance(line, TooLong):
        return _failure(*line, f"the answer is longer than {LONGEST_MESSAGE // 2**20} MB")
    if not line.lstrip().startswith(b"{"):
        return None
    import mcp_types

    text = line.decode("utf-8", "replace")
    adapter = mcp_types.jsonrpc_message_adapter
    with suppress(ValueError):
        return adapter.validate_json(text, by_name=False)
    with suppress(ValueError, RecursionError):  # half of a character, escaped, is read by Python's own parser
        return adapter.validate_python(sound(json.loads(text)), by_name=False)
    if b'"jsonrpc"' not in line:
        return None
    return _failure(line[:_EDGE], line[-_EDGE:], "the answer cannot be read")


def _failure(start: bytes, end: bytes, why: str) -> JSONRPCMessage | None:
    from mcp_types import INTERNAL_ERROR, ErrorData, JSONRPCError

    found = _AT_ITS_BEGINNING.match(start) or _AT_ITS_END.search(end)
    if found is None:
        return None
    return JSONRPCError(jsonrpc="2.0", id=int(found[1]), error=ErrorData(code=INTERNAL_ERROR, message=why))
