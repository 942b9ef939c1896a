"""The rows of the engine: one session appended to, loaded, opened, forked, saved (P1 to P5, P11, P12)."""

from __future__ import annotations

import gc
import importlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import msgspec

from bench.ground import Ground
from bench.measure import Contender
from bench.row import Scale
from bench.sessions import TURN, entries, turns
from perdure.session import ids, sexp
from perdure.session.entry import AnyMessage, Body, Entry
from perdure.session.record import loads
from perdure.session.session import Session
from perdure.session.stores import Found, Header, files, open_store
from perdure.session.stores.pi_format import entry_line


def durable_append(ground: Ground, scale: Scale, stack: ExitStack) -> list[Contender]:
    text, turn = _turn_text(), turns()[0]
    raw = _raw_file(ground, stack, "p1")
    session = stack.enter_context(Session.create(ground.store("power")))

    def limit() -> None:
        os.write(raw, text)
        files.sync_data(raw)

    name = "write + fdatasync"  # which drifts within seconds: many rounds, of few calls each
    return [
        Contender(name, limit, calls=3),
        Contender("Session.append", lambda: session.append(*turn), name, 1.10, calls=3),
        *ground.peers.contenders(
            stack, "durable append", name, calls=3, every={"llm": 15}, session=_hundred_turns(ground, scale)
        ),
    ]


def append_cpu(ground: Ground, scale: Scale, stack: ExitStack) -> list[Contender]:
    encoder, encode = _fastest_encoder()
    records, turn = [loads(entry.raw) for entry in entries(TURN)], turns()[0]
    raw = _raw_file(ground, stack, "p2")
    session = stack.enter_context(Session.create(ground.store("process")))
    name, calls = f"{encoder} encode + write", scale.calls * 5
    return [
        Contender(name, lambda: os.write(raw, b"\n".join([*map(encode, records), b""])), calls=calls),
        Contender("Session.append", lambda: session.append(*turn), name, 5, calls),
        *ground.peers.contenders(
            stack,
            "append",
            name,
            calls=10,
            every={"llm": 15},
            session=_hundred_turns(ground, scale),
            cpu=True,
        ),
    ]


def growth(ground: Ground, scale: Scale, stack: ExitStack) -> list[Contender]:
    text, turn, store = _turn_text(), turns()[0], ground.store("process")

    def pair(turns: int, against: tuple[str | None, str], at_most: float | None) -> list[Contender]:
        ref = ground.own_session(turns * TURN)
        raw = _raw_file(ground, stack, f"p3-{turns}", ref.size)
        session = Session.open(store, ref)
        stack.callback(lambda: session.close())

        def restore() -> None:
            """Each block starts with the same size again: what is appended must not add up."""
            nonlocal session
            session.close()
            os.truncate(ref.path, ref.size)
            session = Session.open(store, ref)

        ours = partial(Contender, before=restore, calls=scale.calls * 2)
        return [
            Contender(
                f"write, {turns:,} turns", lambda: os.write(raw, text), against[0], calls=scale.calls * 2
            ),
            ours(f"Session.append, {turns:,} turns", lambda: session.append(*turn), against[1], at_most),
        ]

    def peers(turns: int, against: str, calls: int, every: int) -> list[Contender]:
        return ground.peers.contenders(
            stack,
            "append",
            against,
            f", {turns:,} turns",
            calls=calls,
            every={"llm": every},
            session=ground.session(turns * TURN).path,
        )

    few, many = scale.of(100), scale.of(10_000)
    writing, appending = first = pair(few, (None, f"write, {few:,} turns"), None)
    return [
        *first,
        *pair(many, (writing.name, appending.name), 1.1),
        *peers(few, writing.name, 2, 5),
        *peers(many, f"{{name}}, {few:,} turns", 1, 45),
    ]


def load(ground: Ground, scale: Scale, stack: ExitStack) -> list[Contender]:
    store, ref = ground.store("process"), ground.session(scale.of(100_000))

    def limit() -> list[Record]:
        gc.disable()
        try:
            return [decode_record(line) for batch in lines(ref.path) for line in batch]
        finally:
            gc.enable()

    def eager() -> tuple[list[Entry], list[Body]]:
        entries = store.read(ref).entries
        return entries, [entry.body for entry in entries]

    name = "lines + msgspec typed decode"
    return [
        Contender(name, limit),
        Contender("store.read, bodies on demand", lambda: store.read(ref), name, 0.55),
        Contender("store.read and every body", eager, name, 1.0),
        *ground.peers.contenders(stack, "load", name, every={"pi": 3, "llm": 9}, session=ref.path),
    ]


def open_at_prompt(ground: Ground, scale: Scale, stack: ExitStack) -> list[Contender]:
    store, shown = ground.store("power"), scale.of(100)
    decode = msgspec.json.Decoder(_Envelope).decode

    def contenders(ref: Found, messages: int) -> list[Contender]:
        def limit() -> list[_Envelope]:
            with open(ref.path, "rb", buffering=0) as file:
                return [decode(line) for line in _last_lines(file.fileno(), shown)]

        def ours() -> Session:
            session = Session.open(store, ref)
            session.tail(shown)
            return session

        name = f"last {shown} lines of {messages:,}"
        return [
            Contender(name, limit, calls=scale.calls),
            Contender(
                f"Session.open + tail of {messages:,}", ours, name, 2.0, scale.calls, after=Session.close
            ),
            *ground.peers.contenders(
                stack,
                "tail",
                name,
                f", {messages:,}",
                every={"pi": 1 + messages // 2_000, "openai-agents": 3},
                session=ref.path,
                count=shown,
            ),
        ]

    sizes = [scale.of(messages) for messages in (1_000, 10_000, 100_000)]
    return [each for size in sizes for each in contenders(ground.session(size), size)]


def fork(ground: Ground, scale: Scale, stack: ExitStack) -> list[Contender]:
    size, store, message = scale.of(10_000), ground.store("power"), turns()[0][0]
    ref = ground.session(size)
    fresh, loaded = partial(Session.view, store, ref), Session.view(store, ref)
    plain, branched = (stack.enter_context(Session.open(store, ground.own_session(size))) for _ in range(2))
    for each in (loaded, plain, branched):
        each.path()  # which reads everything
    half_way = branched.entries[size // 2].id

    def limit() -> str:
        with open(shutil.copyfile(ref.path, f"{ref.path}.copy"), "r+b") as copy:
            files.sync_data(copy.fileno())
        return copy.name

    def branch() -> None:
        branched.move(half_way)
        branched.append(message)

    def remove(forked: Found) -> None:
        os.unlink(forked.path)

    copying, appending = "copy + fdatasync", "Session.append, one message"
    return [
        Contender(copying, limit, after=os.unlink),
        Contender("Session.fork, nothing read yet", lambda: fresh().fork(), copying, 1.5, after=remove),
        Contender("Session.fork, all read", lambda: loaded.fork(), copying, 1.5, after=remove),
        Contender(appending, lambda: plain.append(message), calls=scale.calls),
        Contender("Session.move + append", branch, appending, 1.1, scale.calls),
        *ground.peers.contenders(
            stack, "fork", copying, every={"pi": 3, "openai-agents": 3}, session=ref.path
        ),
    ]


def save_document(ground: Ground, scale: Scale, stack: ExitStack) -> list[Contender]:
    """One more message in a session of 1,000, which is written anew; and S-expressions alone."""
    size, message = scale.of(1_000), turns()[0][0]
    encoder, encode = _fastest_encoder()
    decode = msgspec.json.Decoder().decode
    records = [loads(entry.raw) for entry in entries(size)]
    path = os.path.join(ground.folder, "p12")

    def limit() -> None:
        with open(f"{path}.tmp", "wb", buffering=0) as file:
            file.write(encode(records))
            files.sync_data(file.fileno())
        os.replace(f"{path}.tmp", path)
        files.sync_folder(ground.folder)

    def ours(layout: str) -> Contender:
        store = open_store(layout, f"{path}-{layout}")
        header = Header("", ids.stamp(ids.now()), cwd="/project")
        ref = store.create(header._replace(id=store.new_id(header)), entries(size))
        with open(ref.path, "rb") as file:
            text = file.read()
        session = Session.open(store, ref)
        stack.callback(lambda: session.close())

        def restore() -> None:
            """Each block starts with the same size again."""
            nonlocal session
            session.close()
            with open(ref.path, "wb") as file:
                file.write(text)
            session = Session.open(store, ref)

        return Contender(
            f"Session.append, {layout}", lambda: session.append(message), name, 1.5, scale.calls, restore
        )

    name = f"{encoder} encode + replace + fsync"
    soleur, sibyl = ours("soleur"), ours("sibyl")
    (found,) = open_store("sibyl", f"{path}-sibyl").list()
    with open(found.path, encoding="utf-8") as file:
        text = file.read()
    form, size_of = sexp.loads(text), f"{len(text.encode()) / 1e6:.2f} MB"
    printing, reading = f"{encoder} encode, the same", "msgspec decode, the same"
    encoded = encode(records)
    return [
        Contender(name, limit, calls=scale.calls),
        soleur,
        sibyl,
        Contender(printing, lambda: encode(records), calls=scale.calls),
        Contender(f"sexp.dumps, {size_of}", lambda: sexp.dumps(form), printing, calls=scale.calls),
        Contender(reading, lambda: decode(encoded), calls=scale.calls),
        Contender(f"sexp.loads, {size_of}", lambda: sexp.loads(text), reading, calls=scale.calls),
    ]


class _Envelope(msgspec.Struct, rename={"parent_id": "parentId"}):
    type: str
    id: str
    parent_id: str | None
    timestamp: str


class Record(_Envelope):
    message: AnyMessage


decode_record = msgspec.json.Decoder(Record).decode


def _hundred_turns(ground: Ground, scale: Scale) -> str:
    """What peers append to: for one of them it matters how much was said before."""
    return ground.session(scale.of(100) * TURN).path


def _turn_text() -> bytes:
    return b"".join([entry_line("", entry, checksum=True) + b"\n" for entry in entries(TURN)])


def _raw_file(ground: Ground, stack: ExitStack, name: str, size: int = 0) -> int:
    descriptor = ground.raw_file(name, size)
    stack.callback(os.close, descriptor)
    return descriptor


def _fastest_encoder() -> tuple[str, Callable[[Any], bytes]]:
    try:
        return "orjson", importlib.import_module("orjson").dumps
    except ImportError:
        return "msgspec", msgspec.json.Encoder().encode


def lines(path: str) -> Iterator[list[bytes]]:
    """Without the header. By the megabyte: the whole file at once is slower, for all its new memory."""
    with open(path, "rb") as file:
        file.readline()
        rest = b""
        while piece := file.read(2**20):
            *whole, rest = (rest + piece).split(b"\n")
            yield whole


def _last_lines(descriptor: int, count: int) -> list[bytes]:
    at = os.fstat(descriptor).st_size
    text = b""
    while at and text.count(b"\n") <= count:
        start = max(0, at - 2**17)
        text = os.pread(descriptor, at - start, start) + text
        at = start
    return text.split(b"\n")[-count - 1 : -1]
