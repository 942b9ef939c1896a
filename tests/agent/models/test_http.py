"""One request and its answer, whatever the server does: real sockets, and bytes cut wherever they can be."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import socket
import time
from collections.abc import Iterable
from email.utils import formatdate
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.agent.models import Call, Finished, Key, Model, Piece, Request
from perdure.agent.models.history import json_text
from perdure.agent.models.http import Remote, ServerEvents, Wire
from perdure.agent.models.http_errors import failure
from perdure.errors import ModelError, ModelUnavailable
from perdure.session.entry import User
from tests.agent.models.wire_server import CUT, HANG, WireServer, events, raw, refuse

pytestmark = pytest.mark.anyio

KEY = "sk-very-secret-0123456789"
ASKED = Request(messages=[User("hi")])


class Plain:
    """A protocol that says what its events say; `end` ends the answer."""

    def call(self, model: Model, request: Request, key: str) -> Call:
        headers = {"authorization": f"Bearer {key}"} if key else {}
        return Call(f"{model.base_url}/say", headers, {"text": "lone \ud83d"})

    def reader(self, model: Model) -> Plain:
        return Plain()

    def feed(self, event: str, data: str) -> Iterable[Piece | Finished]:
        if event == "error":
            raise failure(MODEL, 0, data)
        if data == "nonsense":
            raise KeyError(data)
        yield Finished("stop") if data == "end" else Piece(0, "text", data)

    def end(self) -> Iterable[Piece | Finished]:
        return ()


MODEL = Model(id="m1", provider="acme", api="openai-completions", base_url="http://127.0.0.1:9/v1")


def model_at(server: WireServer, **fields: Any) -> Model:
    return Model(id="m1", provider="acme", api="openai-completions", base_url=server.url, **fields)


async def answer(model: Model, key: str = KEY, silence: float = 5) -> list[Piece | Finished]:
    wire = Wire(silence)
    try:
        return [each async for each in Remote(model, key, Plain(), wire).stream(ASKED)]
    finally:
        await wire.aclose()


async def trouble(model: Model, key: str = KEY, silence: float = 5) -> ModelError:
    with pytest.raises(ModelError) as raised:
        await answer(model, key, silence)
    return raised.value


def said(items: Iterable[Piece | Finished]) -> str:
    *pieces, end = items
    assert isinstance(end, Finished)
    return "".join(piece.text for piece in pieces if isinstance(piece, Piece))


# --- events -------------------------------------------------------------------------------------

STREAM = (
    ": a comment\r\n"
    "event: one\r\ndata: naïve 👩‍👩‍👧\r\n\r\n"
    'data:{"a":\ndata:  1}\n\n'
    "id: 7\nretry: 3\n\n"
    "event: two\rdata\rdata: x\r\r"
    "data: last, without its empty line\n"
).encode()
EVENTS = [
    ("one", "naïve 👩‍👩‍👧"),
    ("", '{"a":\n 1}'),
    ("two", "\nx"),
    ("", "last, without its empty line"),
]


def parsed(chunks: Iterable[bytes]) -> list[tuple[str, str]]:
    decoder = ServerEvents()
    found = [event for chunk in chunks for event in decoder.feed(chunk)]
    return [*found, *decoder.end()]


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"], ids=["plain", "BOM"])
def test_events_are_the_same_wherever_the_bytes_are_cut(start):
    """Between CR and LF, inside a character, inside a field's name: at every byte."""
    stream = start + STREAM
    assert parsed([stream]) == EVENTS
    assert parsed(bytes([byte]) for byte in stream) == EVENTS
    for at in range(len(stream)):
        assert parsed([stream[:at], stream[at:]]) == EVENTS


@given(st.lists(st.integers(0, len(STREAM)), max_size=6).map(sorted))
def test_events_are_the_same_in_any_pieces(cuts):
    """The law behind it: joining the chunks first changes nothing."""
    edges = [0, *cuts, len(STREAM)]
    assert parsed(STREAM[a:b] for a, b in itertools.pairwise(edges)) == EVENTS


def test_a_large_event_costs_what_its_size_costs():
    """Eight megabytes in small chunks: read at once, and not again with every chunk."""
    stream = b"data: " + b"x" * 8_000_000 + b"\n\n"
    start = time.process_time()
    ((_, data),) = parsed(stream[at : at + 4096] for at in range(0, len(stream), 4096))
    assert len(data) == 8_000_000
    assert time.process_time() - start < 2


async def test_pieces_come_while_the_answer_is_under_way(wire_server):
    """A delta is shown when it is sent, not when the answer is complete."""
    wire_server.script(events(b"data: first\n\n", HANG))
    wire = Wire()
    stream = Remote(model_at(wire_server), KEY, Plain(), wire).stream(ASKED)
    assert await anext(stream) == Piece(0, "text", "first")
    await stream.aclose()
    await wire.aclose()


@pytest.mark.parametrize("kind", ["text/event-stream; charset=utf-8", "TEXT/EVENT-STREAM", "text/plain", ""])
async def test_an_event_stream_is_known_by_its_form(wire_server, kind):
    """Not every server says what it sends."""
    wire_server.script(events(b"data: na\xc3", b"\xafve\n\n", b"data: end\n\n", kind=kind))
    assert said(await answer(model_at(wire_server))) == "naïve"


async def test_half_a_character_waits_for_its_other_half(wire_server):
    """Escaped as two, in two events: it is one character, and what stays half is none."""

    class Escaped(Plain):
        def reader(self, model: Model) -> Plain:
            return Escaped()

        def feed(self, event: str, data: str) -> Iterable[Piece | Finished]:
            yield from super().feed(event, json.loads(f'"{data}"'))

    wire_server.script(events(b"data: \\ud83d\n\ndata: \\ude00!\\udead\n\ndata: \\ud83d\n\ndata: end\n\n"))
    wire = Wire()
    items = [each async for each in Remote(model_at(wire_server), KEY, Escaped(), wire).stream(ASKED)]
    await wire.aclose()
    assert said(items) == "😀!\ufffd"


# --- the request --------------------------------------------------------------------------------


async def test_a_request_is_json_with_the_models_own_headers(wire_server):
    """And a lone surrogate, which servers refuse, is no part of it."""
    wire_server.script(events(b"data: end\n\n"))
    await answer(model_at(wire_server, headers={"X-Team": "blue", "User-Agent": "other"}))
    (asked,) = wire_server.requests
    assert (asked.target, asked.body) == ("/say", {"text": "lone \ufffd"})
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert (asked.headers["x-team"], asked.headers["user-agent"]) == ("blue", "other")
    assert asked.headers["content-type"] == "application/json"


async def test_one_connection_serves_all_requests(wire_server):
    """A new one costs a handshake for every turn."""
    wire_server.script(events(b"data: a\n\n", b"data: end\n\n"))
    wire = Wire()
    for _ in range(3):
        async for _ in Remote(model_at(wire_server), KEY, Plain(), wire).stream(ASKED):
            pass
    await wire.aclose()
    assert (len(wire_server.requests), wire_server.connections) == (3, 1)


async def test_a_complete_answer_does_not_wait_for_the_server(wire_server):
    """One that never closes the stream holds nobody up."""
    wire_server.script(events(b"data: a\n\n", b"data: end\n\n", HANG))
    async with asyncio.timeout(20):
        assert said(await answer(model_at(wire_server), silence=60)) == "a"


async def test_the_key_follows_no_redirect(wire_server):
    """A redirect is told and not followed: another host would get the key."""
    wire_server.script(refuse(307, headers={"Location": "http://elsewhere.example/v1"}))
    error = await trouble(model_at(wire_server))
    assert "http://elsewhere.example/v1" in str(error)
    assert not isinstance(error, ModelUnavailable)
    assert len(wire_server.requests) == 1


@given(
    st.recursive(
        st.text() | st.just("\ud800\udc00") | st.integers(),
        lambda each: st.lists(each, max_size=2),
        max_leaves=4,
    )
)
def test_json_text_is_utf8_whatever_it_is_made_of(value):
    """What JSON can say without half characters is said unchanged."""
    assert json.loads(json_text(value)) == json.loads(json.dumps(value))


# --- closing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [(), (b"data: a\n\n",)], ids=["before the first piece", "after it"])
async def test_cancelling_closes_the_connection(wire_server, parts):
    """The server sees it at once, and stops working for nobody."""
    wire_server.script(events(*parts, HANG))
    task = asyncio.create_task(answer(model_at(wire_server)))
    while not wire_server.requests:
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(wire_server.gone.wait, 5)


@pytest.mark.slow
async def test_closing_a_stream_closes_its_connection(wire_server):
    """Before `aclose` returns; the client itself stays usable."""
    wire_server.script(events(b"data: a\n\n", HANG), events(b"data: b\n\n", b"data: end\n\n"))
    wire = Wire()
    remote = Remote(model_at(wire_server), KEY, Plain(), wire)
    stream = remote.stream(ASKED)
    await anext(stream)
    await stream.aclose()
    assert await asyncio.to_thread(wire_server.gone.wait, 5)
    assert said([each async for each in remote.stream(ASKED)]) == "b"
    await wire.aclose()
    gc.collect()  # a socket that was left open would be a warning here


# --- what breaks --------------------------------------------------------------------------------

BROKEN = {
    "no end": events(b"data: a\n\n"),
    "nothing at all": events(),
    "reset in the middle": events(b"data: a\n\n", CUT),
    "reset before the answer": raw(CUT),
    "closed before the answer": raw(b"", b"connection: close"),
    "half a chunk": raw(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"
        b"Transfer-Encoding: chunked\r\n\r\nff\r\ndata: a\n\n"
    ),
    "not a chunk": raw(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", CUT
    ),
    "less than its length": raw(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n"
        b"Content-Length: 99\r\n\r\ndata: a\n\n"
    ),
    "an event of another shape": events(b"data: nonsense\n\n", b"data: end\n\n"),
    "broken JSON": refuse(200, b'{"broken'),
}


@pytest.mark.parametrize("step", BROKEN.values(), ids=BROKEN)
async def test_an_answer_that_breaks_off_may_be_asked_for_again(wire_server, step):
    """However it breaks: the model is said to be unavailable, and never that it finished."""
    wire_server.script(step)
    error = await trouble(model_at(wire_server))
    assert isinstance(error, ModelUnavailable)
    assert "acme/m1" in str(error)


async def test_an_event_without_an_end_is_refused_and_not_asked_for_again(wire_server, monkeypatch):
    """It was held in memory up to 64 MB, four times."""
    monkeypatch.setattr("perdure.agent.models.http._EVENT_BYTES", 2**20)
    wire_server.script(events(b"data: a\n\n", b"data: ", *[b"x" * 2**16] * 64))
    error = await trouble(model_at(wire_server))
    assert not isinstance(error, ModelUnavailable)
    assert "1 MB" in str(error)


@pytest.mark.slow
async def test_a_huge_error_does_not_keep_others_waiting(wire_server):
    """It is bounded before anything is looked for in it; and nothing of the key is in what is left."""
    said = json.dumps({"error": {"message": "models \x1b" * 2_500_000 + KEY}}).encode()
    wire_server.script(events(b"event: error\ndata: " + said + b"\n\n"))
    error = await trouble(model_at(wire_server))
    assert len(error.said) < 600
    assert KEY[:8] not in error.said


async def test_a_server_that_says_nothing_is_not_waited_for_for_ever(wire_server):
    """Silence is bounded, the length of an answer is not."""
    wire_server.script(events(b"data: a\n\n", HANG))
    error = await trouble(model_at(wire_server), silence=0.1)
    assert isinstance(error, ModelUnavailable)
    assert "silent" in str(error)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


async def test_nobody_listens():
    """The address is named, and for one of this machine the next thing to look at."""
    port = free_port()
    error = await trouble(Model(id="m", provider="ollama", api="", base_url=f"http://localhost:{port}/v1"))
    assert isinstance(error, ModelUnavailable)
    assert f"localhost:{port}" in str(error)
    assert "refused" in str(error)
    assert "running" in error.hint


async def test_no_such_host():
    """A name that nobody has."""
    error = await trouble(Model(id="m", provider="x", api="", base_url="https://nobody.invalid/v1"))
    assert isinstance(error, ModelUnavailable)
    assert "nobody.invalid:443" in str(error)


async def test_no_tls_there():
    """https to a server that speaks http."""

    async def speak_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(speak_http, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        error = await trouble(Model(id="m", provider="x", api="", base_url=f"https://127.0.0.1:{port}"))
    assert isinstance(error, ModelUnavailable)
    assert f"127.0.0.1:{port}" in str(error)


@pytest.mark.parametrize(
    "address", ["", "example.com/v1", "ftp://example.com", "http://[::1", "http://a:b:c/"]
)
async def test_an_address_that_is_none(address):
    """It will not get better by trying again."""
    error = await trouble(Model(id="m", provider="x", api="", base_url=address))
    assert not isinstance(error, ModelUnavailable)
    assert "base URL" in str(error)


async def test_a_header_that_cannot_be_sent(wire_server):
    """Said without showing it."""
    for value in ("umläut-secret", "two\nlines-secret"):
        error = await trouble(model_at(wire_server, headers={"X-Auth": value}))
        assert type(error) is ModelError
        assert "headers" in str(error)
        assert "secret" not in f"{error} {error.hint}"


@pytest.mark.parametrize("proxy", ["nonsense://proxy.example", "http://[::1", "http://a:b:c"])
async def test_a_proxy_that_is_none(monkeypatch, proxy):
    """One sentence, and no traceback of the client's."""
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    error = await trouble(MODEL)
    assert type(error) is ModelError
    assert "HTTPS_PROXY" in error.hint


async def test_a_server_here_is_not_behind_the_proxy(wire_server, monkeypatch):
    """Whatever the network's settings are."""
    monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{free_port()}")
    wire_server.script(events(b"data: a\n\n", b"data: end\n\n"))
    for host in ("127.0.0.1", "localhost"):
        model = Model(id="m1", provider="acme", api="", base_url=wire_server.url.replace("127.0.0.1", host))
        assert said(await answer(model)) == "a"


# --- what servers refuse ------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403])
async def test_a_wrong_key_is_never_shown(wire_server, status):
    """Not even if the server repeats it, in the message or in the hint."""
    body = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY}."}}).encode()
    wire_server.script(refuse(status, body))
    error = await trouble(model_at(wire_server, headers={"X-Auth": "Token other-secret"}))
    shown = f"{error} {error!r} {error.hint} {error.__notes__}"
    assert "key" in str(error)
    assert "Incorrect API key" in str(error)
    assert "acme" in error.hint
    assert KEY not in shown


async def test_g_5_a_refused_key_says_where_that_key_is_from(wire_server):
    """No other provider's variable is named."""
    wire_server.script(refuse(401, b'{"error":{"message":"no"}}'))
    error = await trouble(model_at(wire_server), Key(KEY, "correct the key in ACME_KEY"))
    assert (error.kind, error.hint) == ("key", "correct the key in ACME_KEY")
    assert "OPENAI" not in str(error)


@pytest.mark.parametrize("filler", ["x", "x ", "xy-"])
@pytest.mark.parametrize("where", ["refusal", "event"])
async def test_no_part_of_a_key_is_shown(wire_server, filler, where):
    """Also where the server's words are cut off in its middle, at any place."""
    for length in range(365, 400, 7):
        body = json.dumps({"message": (filler * 400)[:length] + " " + KEY + " tail" * 30}).encode()
        event = events(b"event: error\ndata: " + body)
        wire_server.script(refuse(400, body) if where == "refusal" else event)
        assert KEY[:8] not in str(await trouble(model_at(wire_server)))


async def test_secrets_in_headers_are_not_shown_either(wire_server):
    """A provider's own headers may hold the key."""
    wire_server.script(refuse(400, b"bad header: Token other-secret-value"))
    error = await trouble(model_at(wire_server, headers={"X-Auth": "Token other-secret-value"}), key="")
    assert "other-secret" not in str(error)
    assert "bad header" in str(error)


@pytest.mark.parametrize("key", ["sk-multi\nline-secret", "sk-umläut-secret", "sk-nul\x00-secret"])
async def test_a_key_that_no_header_can_hold(wire_server, key):
    """Said without showing it; nothing is sent."""
    error = await trouble(model_at(wire_server), key=key)
    assert type(error) is ModelError
    assert "secret" not in repr(error)
    assert not wire_server.requests


def test_a_remote_does_not_show_its_key():
    """Whatever prints it."""
    assert KEY not in repr(Remote(MODEL, KEY, Plain(), Wire())) + str(Remote(MODEL, KEY, Plain(), Wire()))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7),
        ({"Retry-After": "1.5"}, 1.5),
        ({"Retry-After": "3", "Retry-After-Ms": "250"}, 0.25),
        ({"Retry-After": "in an hour"}, 3600),
        ({"Retry-After": "an hour ago"}, 0),
        ({"Retry-After": "soon"}, None),
        ({}, None),
    ],
)
async def test_how_long_a_server_asks_to_wait(wire_server, headers, seconds):
    """In seconds, in milliseconds, or as a date."""
    dates = {"in an hour": 3600, "an hour ago": -3600}
    if (named := headers.get("Retry-After")) in dates:
        headers = {"Retry-After": formatdate(time.time() + dates[named], usegmt=True)}
    wire_server.script(refuse(429, b"{}", headers))
    error = await trouble(model_at(wire_server))
    assert isinstance(error, ModelUnavailable)
    assert error.retry_after == (None if seconds is None else pytest.approx(seconds, abs=5))


@pytest.mark.parametrize(
    ("kind", "body", "what"),
    [
        ("text/html", b"<!doctype html><title>Welcome</title>", "web page"),
        ("application/json", b'{"models":[]}', "JSON"),
        ("text/plain", b"Ollama is running", "text/plain"),
    ],
)
async def test_a_wrong_base_url_is_called_that(wire_server, kind, body, what):
    """Status 200, and yet no model there."""
    wire_server.script(refuse(200, body, {"Content-Type": kind}))
    error = await trouble(model_at(wire_server))
    assert type(error) is ModelError
    assert what in str(error)
    assert "base URL" in error.hint


async def test_an_error_with_status_200(wire_server):
    """It is read like any other."""
    wire_server.script(refuse(200, b'{"error":{"type":"overloaded_error","message":"Overloaded"}}'))
    assert isinstance(await trouble(model_at(wire_server)), ModelUnavailable)
