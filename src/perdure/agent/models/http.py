"""All talking to models' servers: one request, an answer read as it comes, or in plain words what went wrong.

Nothing is tried twice here. What may work if it is tried again is `ModelUnavailable`, what was too long is
`ContextOverflow`, and anything else a `ModelError`: whoever asked decides by these alone, for every provider.
What a server says is shown as one bounded line, and no key is ever in it, even if the server repeats the key.
Closing a stream, or cancelling whoever reads it, closes its connection.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from email.utils import parsedate_to_datetime
from functools import cache
from socket import gaierror
from urllib.parse import urlsplit

import httpx2
import msgspec

from perdure import __version__
from perdure.agent.models import Call, Finished, Key, Model, Piece, Reader, Request, Usage, WireProtocol
from perdure.agent.models.history import json_text, sound
from perdure.agent.models.http_errors import MOST, beginning, failure, host_of, masked, one_line, parsed
from perdure.errors import ModelError, ModelUnavailable

_CONNECT_SECONDS = 15.0
_SILENCE_SECONDS = 300.0  # a model may think for minutes before its first word
_REFUSAL_SECONDS = 10.0  # for the rest of an answer that is none
_FAREWELL_SECONDS = 0.1  # for the end of a body that is complete: only then can its connection be used again
_REFUSAL_BYTES = 4 * MOST + 4  # what is cut here has more characters than are looked at
_EVENT_BYTES = 32 * 1024 * 1024
"""One may say the largest answer once more, each of its characters as an escape of three times its size."""
_MOST_TOKENS = 10**12
_DATE = 64
"""Characters of a header that says when."""
_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie", re.IGNORECASE)
_UNFIT = (ValueError, TypeError, LookupError, AttributeError, msgspec.MsgspecError)
"""What a reader raises for an event of a shape that its protocol does not have."""


@cache
def _certificates() -> ssl.SSLContext:
    """Reading them costs more than all else a client does at its start."""
    return httpx2.create_ssl_context()


class Wire:
    """The one client of a program. It belongs to the event loop it is first used in."""

    def __init__(self, silence: float = _SILENCE_SECONDS) -> None:
        self._silence = silence
        self._client: httpx2.AsyncClient | None = None

    @property
    def client(self) -> httpx2.AsyncClient:
        if self._client is None:
            try:
                self._client = self._made()
            except (ValueError, ImportError, OSError, httpx2.InvalidURL) as error:
                raise ModelError(
                    "The proxy or the certificates named in the environment cannot be used",
                    "correct or unset HTTPS_PROXY, ALL_PROXY or SSL_CERT_FILE",
                ) from error
        return self._client

    def _made(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            timeout=httpx2.Timeout(self._silence, connect=_CONNECT_SECONDS),
            verify=_certificates(),
            follow_redirects=False,  # the key would go along
            # A server on this machine is never behind the proxy of the network.
            mounts=dict.fromkeys(("all://127.0.0.1", "all://localhost", "all://[::1]")),
        )

    async def aclose(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


class Remote:
    """A model behind a wire protocol."""

    def __init__(self, model: Model, key: str, protocol: WireProtocol, wire: Wire) -> None:
        self._model = model
        self._key = key.strip()
        self._remedy = key.remedy if isinstance(key, Key) else ""
        self._protocol = protocol
        self._wire = wire

    def __repr__(self) -> str:
        return f"Remote({self._model.reference!r})"

    @property
    def model(self) -> Model:
        return self._model

    async def stream(self, request: Request) -> AsyncGenerator[Piece | Finished]:
        if not (self._key.isascii() and self._key.isprintable()):
            raise ModelError(
                f"The key for {self._model.provider} has characters that no key has", "copy it once more"
            )
        call = self._protocol.call(self._model, request, self._key)
        reading = _Reading(self._protocol.reader(self._model))
        with _explained(self._model, self._secrets(), self._remedy):
            async with self._answer(call) as chunks:
                async for chunk in chunks:
                    for piece in reading.feed(chunk):
                        yield piece
                    if reading.finished:
                        break
                else:
                    for piece in reading.end():
                        yield piece
                if reading.finished is None:
                    raise _broke_off(self._model)
                with suppress(TimeoutError, httpx2.HTTPError):
                    async with asyncio.timeout(_FAREWELL_SECONDS):
                        async for _ in chunks:
                            pass
        yield reading.finished

    @asynccontextmanager
    async def _answer(self, call: Call) -> AsyncIterator[AsyncIterator[bytes]]:
        """The bytes of an event stream; ModelError if the server answers with anything else."""
        headers = {
            "accept": "text/event-stream",
            "accept-encoding": "identity",  # to compress a stream, servers hold it back
            "content-type": "application/json",
            "user-agent": f"perdure/{__version__}",
            **_lower(call.headers),
            **_lower(self._model.headers),
        }
        asked = self._wire.client.stream(
            "POST", call.url, headers=headers, content=json_text(call.body).encode()
        )
        async with asked as response, aclosing(response.aiter_bytes()) as chunks:
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if response.status_code == 200 and kind == "text/event-stream":
                yield chunks
                return
            first = b""
            if response.status_code == 200 and kind not in ("text/html", "application/json"):
                while len(first) < len("event:") and (more := await anext(chunks, b"")):
                    first += more
                if _FIELD.match(first):
                    yield _with_first(first, chunks)
                    return
            text = masked(await _rest(first, chunks), self._secrets())
            if response.status_code == 200:
                raise _no_stream(self._model, kind, text)
            where = response.headers.get("location", "")
            if 300 <= response.status_code < 400 and where:
                raise ModelError(
                    f"{host_of(self._model)} sends requests on to {one_line(where)}",
                    f"if that is right, make it the base URL of {self._model.provider}",
                )
            raise failure(self._model, response.status_code, text, retry_after=_retry_after(response.headers))

    def _secrets(self) -> list[str]:
        of_headers = (value for name, value in self._model.headers.items() if _SECRET_HEADER.search(name))
        return [self._key, *(word for value in of_headers for word in value.split())]


class _Unfit(Exception):
    """The server sent what is no answer."""


class TooLargeEvent(Exception):
    """The server sent one event without an end."""


class _Reading:
    """Bytes of an event stream, as a reader understands them."""

    def __init__(self, reader: Reader) -> None:
        self.finished: Finished | None = None
        self._events = ServerEvents()
        self._reader = reader
        self._halves: dict[int, str] = {}

    def feed(self, chunk: bytes) -> Iterator[Piece]:
        return self._pieces(self._events.feed(chunk))

    def end(self) -> Iterator[Piece]:
        yield from self._pieces(self._events.end())
        if self.finished is None:
            yield from self._kept(self._reader.end())

    def _pieces(self, events: Iterable[tuple[str, str]]) -> Iterator[Piece]:
        try:
            for name, data in events:
                yield from self._kept(self._reader.feed(name, data))
                if self.finished:
                    return
        except _UNFIT as error:
            raise _Unfit from error

    def _kept(self, items: Iterable[Piece | Finished]) -> Iterator[Piece]:
        for item in items:
            if isinstance(item, Finished):
                usage = Usage(*(_tokens(each) for each in msgspec.structs.astuple(item.usage)))
                self.finished = msgspec.structs.replace(item, usage=usage)
                return
            yield self._whole(item)

    def _whole(self, piece: Piece) -> Piece:
        """A character may come in two halves, each escaped; half of one can be neither shown nor sent."""
        text = self._halves.pop(piece.index, "") + piece.text
        if "\ud800" <= text[-1:] <= "\udbff":
            self._halves[piece.index], text = text[-1], text[:-1]
        elif text.isascii():
            return piece
        return msgspec.structs.replace(piece, text=sound(text))


def _tokens(said: object) -> int:
    """A number that can be reckoned with, whatever the server calls one."""
    return int(min(max(said, 0), _MOST_TOKENS)) if isinstance(said, int | float) and said == said else 0


# --- server-sent events -------------------------------------------------------------------------


class ServerEvents:
    """Events out of bytes that are cut anywhere. `feed` and `end` yield an event's name and its data.

    A stream may end without the empty line that ends its last event; then `end` has it.
    """

    def __init__(self) -> None:
        self._open = bytearray()  # of a line whose end has not come
        self._size = 0
        self._name = ""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[tuple[str, str]]:
        self._size += len(chunk)
        if self._size > _EVENT_BYTES:
            raise TooLargeEvent
        is_open = not self._open.endswith(b"\r") and b"\n" not in chunk and b"\r" not in chunk
        self._open += chunk
        if is_open:
            return
        lines = bytes(self._open).splitlines(keepends=True)
        # Behind a carriage return the line feed may still be to come.
        self._open = bytearray() if lines[-1].endswith(b"\n") else bytearray(lines.pop())
        for line in lines:
            yield from self._line(line.rstrip(b"\r\n"))

    def end(self) -> Iterator[tuple[str, str]]:
        for line in bytes(self._open).splitlines():
            yield from self._line(line)
        yield from self._line(b"")

    def _line(self, line: bytes) -> Iterator[tuple[str, str]]:
        if not line:
            name, data = self._name, self._data
            self._name, self._data, self._size = "", [], len(self._open)
            if data:
                yield name, b"\n".join(data).decode("utf-8", "replace")
            return
        field, _, value = line.removeprefix(b"\xef\xbb\xbf").partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value.decode("utf-8", "replace")


_FIELD = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:data|event|id|retry)?:")


async def _with_first(first: bytes, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for chunk in chunks:
        yield chunk


async def _rest(first: bytes, chunks: AsyncIterator[bytes]) -> str:
    """The text of a refusal, as much of it as one can want to read."""
    read = bytearray(first)
    with suppress(TimeoutError, httpx2.HTTPError):
        async with asyncio.timeout(_REFUSAL_SECONDS):
            async for chunk in chunks:
                read += chunk
                if len(read) > _REFUSAL_BYTES:
                    break
    return beginning(read[:_REFUSAL_BYTES].decode("utf-8", "replace"))


# --- what went wrong ---------------------------------------------------------------------------


def _retry_after(headers: httpx2.Headers) -> float | None:
    """Seconds that a server asks to wait for."""
    with suppress(ValueError):
        return max(0.0, float(headers.get("retry-after-ms", "")) / 1000)
    given = headers.get("retry-after", "").strip()
    with suppress(ValueError):
        return max(0.0, float(given))
    with suppress(ValueError, TypeError, OverflowError):
        return max(0.0, parsedate_to_datetime(given[:_DATE]).timestamp() - time.time())
    return None


def _no_stream(model: Model, kind: str, text: str) -> ModelError:
    """Status 200, and yet no event stream."""
    said = parsed(text)
    if kind == "application/json" and said is None:
        return _broke_off(model)
    if isinstance(said, dict) and said.get("error"):
        return failure(model, 0, text)
    what = "a web page" if kind == "text/html" else "JSON" if said is not None else kind or "nothing"
    return ModelError(
        f"{host_of(model)} answered with {what} instead of a stream of events",
        f"check the base URL of {model.provider}: it often ends in /v1",
    )


def _broke_off(model: Model) -> ModelUnavailable:
    return ModelUnavailable(f"The answer of {model.reference} broke off", "try again")


@contextmanager
def _explained(model: Model, secrets: Iterable[str], remedy: str) -> Iterator[None]:
    """Every trouble on the way as a ModelError without secrets. `remedy` is for a refused key."""
    try:
        yield
    except ModelError as error:
        if error.kind == "key" and remedy:
            raise ModelError(masked(error.message, secrets), remedy, kind="key") from None
        error.args = (masked(error.message, secrets),)
        error.message = masked(error.message, secrets)
        raise
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        local = (urlsplit(model.base_url).hostname or "") in ("localhost", "127.0.0.1", "::1")
        hint = "is the server running there?" if local else "check the network and the base URL"
        raise ModelUnavailable(f"Cannot reach {host_of(model)}: {cause(error)}", hint) from None
    except httpx2.TimeoutException:
        raise ModelUnavailable(
            f"{host_of(model)} has been silent for too long", "try again, or ask for less at once"
        ) from None
    except (httpx2.UnsupportedProtocol, httpx2.InvalidURL, httpx2.LocalProtocolError, UnicodeError):
        address = re.sub(r"//[^/]*@", "//", masked(model.base_url, secrets))  # without user and password
        raise ModelError(
            f"No request can be made for {model.reference}: its base URL or headers are not valid",
            f"the base URL is {one_line(address) or 'empty'}",
        ) from None
    except TooLargeEvent:
        raise ModelError(
            f"{host_of(model)} sent more than {_EVENT_BYTES >> 20} MB as one event, which no answer has",
            f"check the base URL of {model.provider}, or take another model",
        ) from None
    except (httpx2.HTTPError, _Unfit) as error:
        raise _broke_off(model) from error


def cause(error: BaseException) -> str:
    """The operating system's word for it, which the layers above wrap."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({seen.verify_message})"
        if isinstance(seen, BaseExceptionGroup):
            return cause(seen.exceptions[0])
        if isinstance(seen, ssl.SSLError):
            return f"no TLS with it ({seen.reason})"
        if isinstance(seen, gaierror):
            return one_line(seen.strerror or "no such host")
        if isinstance(seen, OSError) and seen.errno:
            return os.strerror(seen.errno)
        seen = seen.__cause__ or seen.__context__
    return "no answer in time" if isinstance(error, httpx2.TimeoutException) else one_line(str(error))


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
