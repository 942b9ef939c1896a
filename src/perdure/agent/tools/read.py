"""`read`: some lines of a text file, or an image.

The cost is that of what is shown, and of skipping to it: a file of any size is read in pieces, and none of
it is kept but the lines to show. The kind of a file is told by its first bytes, never by its name.
"""

from __future__ import annotations

import codecs
import os
import re
import threading
from base64 import b64encode
from collections.abc import Iterator
from io import FileIO
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from perdure.agent.tools import AgentToolResult, Tool, ToolContext
from perdure.agent.tools.output import BYTES, LINES, head
from perdure.agent.tools.workspace import (
    SNIFFED,
    Place,
    Refused,
    filled,
    in_thread,
    is_binary,
    open_regular,
    place,
    telling,
    turn,
)
from perdure.session.entry import Image, Text

LARGEST_IMAGE = 5 * 2**20
"""Bytes. What a model cannot be shown of that is left out when it is asked, by each protocol's own limit."""
_PIECE = 2**20
_COUNTED = 16 * 2**20
"""How much more is read, at most, to say how many lines there are."""

_IMAGES = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
}
_BINARIES = {
    b"%PDF-": "a PDF document",
    b"\x7fELF": "an ELF program or library",
    b"PK\x03\x04": "a ZIP archive, or a document that is one",
    b"\x1f\x8b": "gzip-compressed data",
    b"BZh": "bzip2-compressed data",
    b"\xfd7zXZ": "xz-compressed data",
    b"\x28\xb5\x2f\xfd": "zstd-compressed data",
    b"SQLite format 3\0": "an SQLite database",
    b"\xca\xfe\xba\xbe": "a Java class or a Mach-O program",
    b"\xcf\xfa\xed\xfe": "a Mach-O program or library",
    b"\0asm": "a WebAssembly module",
}


class Read(Struct, frozen=True, forbid_unknown_fields=True):
    path: Annotated[str, Meta(description="The file, relative to the working directory or absolute.")]
    offset: Annotated[int, Meta(description="The first line to show, counted from 1.", ge=0)] = 1
    limit: Annotated[int, Meta(description="How many lines to show.", ge=1)] | UnsetType = UNSET


@telling
async def read(args: Read, ctx: ToolContext) -> AgentToolResult:
    target = place(ctx, args.path)
    async with turn(target):
        return await in_thread(_read, target, args)


READ = Tool(
    "read",
    f"Read a file. Text is shown from `offset` on, at most {LINES} lines or {BYTES // 1024} KB at once; the "
    "result says how to go on. Images (PNG, JPEG, GIF, WebP, up to 5 MB) are shown as images.",
    Read,
    read,
    is_read_only=True,
)


def _read(stop: threading.Event, target: Place, args: Read) -> AgentToolResult:
    shown = target.shown
    with open_regular(target) as file:
        try:
            start = filled(file, SNIFFED)
            size = max(os.fstat(file.fileno()).st_size, len(start))
            if kind := image_kind(start):
                return _image(file, start, kind, size, shown)
            _must_be_text(start, size, shown)
            return _text(_lf(_utf8(file, start, stop)), args, shown)
        except OSError as error:
            raise Refused(f"{shown} cannot be read: {error.strerror or error}.") from None


# --- images, and what is neither image nor text -----------------------------------------------------


def image_kind(start: bytes) -> str | None:
    """Each of these formats has a NUL near its beginning, and a text that starts like one has not."""
    if b"\0" not in start:
        return None
    return next((kind for kind, magic in _IMAGES.items() if magic.match(start)), None)


def _image(file: FileIO, start: bytes, kind: str, size: int, shown: str) -> AgentToolResult:
    data = start + filled(file, LARGEST_IMAGE + 1 - len(start)) if size <= LARGEST_IMAGE else b""
    if not 0 < len(data) <= LARGEST_IMAGE:
        raise Refused(
            f"{shown} is an image of {size:,} bytes, and the most that can be shown is {LARGEST_IMAGE:,}: "
            "make a smaller copy with bash, and read that."
        )
    note = f"{shown}: {kind}, {len(data):,} bytes"
    return AgentToolResult([Text(note), Image(b64encode(data).decode(), kind)])


def _must_be_text(start: bytes, size: int, shown: str) -> None:
    kind = next((kind for magic, kind in _BINARIES.items() if start.startswith(magic)), None)
    if kind is None and (is_binary(start) or _is_undecodable(start)):
        kind = "a binary file"
    if kind:
        raise Refused(
            f"{shown} is {kind} of {size:,} bytes, not text: look into it with bash (file, strings, xxd)."
        )


def _is_undecodable(start: bytes) -> bool:
    """Text in another encoding has some bytes that are not UTF-8; where there are many, it is no text."""
    text = start.decode("utf-8", "replace")
    odd = sum(c == "\ufffd" or (c < " " and c not in "\t\n\r\f\x1b\b") for c in text)
    return odd > max(8, 0.3 * len(text)) and not start.startswith((b"\xff\xfe", b"\xfe\xff"))


# --- text ---------------------------------------------------------------------------------------


def _text(pieces: Iterator[bytes], args: Read, name: str) -> AgentToolResult:
    first = max(args.offset, 1)
    wanted = LINES if args.limit is UNSET else min(args.limit, LINES)
    skipped, pieces = _skip(pieces, first - 1)
    data = bytearray()
    newlines = 0
    for piece in pieces:
        data += piece
        newlines += piece.count(b"\n")
        if newlines > wanted or len(data) > BYTES + 4:  # the last character may not be whole
            break
    if not data:
        if skipped == 0:
            return AgentToolResult("(empty file)")
        lines = f"{skipped:,} line{'s' * (skipped != 1)}"
        raise Refused(f"offset {first:,} is past the end: {name} has {lines}.")
    shown = head(data.decode("utf-8", "replace"), lines=wanted)
    if not shown.shown_lines:
        raise Refused(
            f"Line {first:,} of {name} is longer than {BYTES:,} bytes: show a part of it with bash, "
            f"such as `sed -n {first}p FILE | head -c 2000`."
        )
    last = first + shown.shown_lines - 1
    notes = []
    if shown.truncated:
        rest = _count(pieces, ended=data.endswith(b"\n"))
        total = "" if rest is None else f" of {skipped + newlines + rest:,}"
        notes.append(f"[Lines {first:,}-{last:,}{total}. Use offset={last + 1} to continue.]")
    if "\ufffd" in shown.text and _has_invalid(data):
        notes.append("[Bytes that are not UTF-8 are shown as \ufffd.]")
    body = shown.text.removesuffix("\n")
    return AgentToolResult("\n\n".join([body, *notes]))


def _skip(pieces: Iterator[bytes], lines: int) -> tuple[int, Iterator[bytes]]:
    """Passes over lines; how many there were, and what comes after them."""
    passed = 0
    ended = True
    for piece in pieces:
        here = piece.count(b"\n")
        if passed + here < lines:
            passed += here
            ended = piece.endswith(b"\n")
            continue
        at = 0
        for _ in range(lines - passed):
            at = piece.index(b"\n", at) + 1
        return lines, _with(piece[at:], pieces)
    return passed + (not ended), pieces


def _with(piece: bytes, pieces: Iterator[bytes]) -> Iterator[bytes]:
    if piece:
        yield piece
    yield from pieces


def _count(pieces: Iterator[bytes], *, ended: bool) -> int | None:
    """How many lines are left, with the one that is not ended yet; None if it takes long to tell."""
    lines = size = 0
    for piece in pieces:
        size += len(piece)
        if size > _COUNTED:
            return None
        lines += piece.count(b"\n")
        ended = piece.endswith(b"\n")
    return lines + (not ended)


def _has_invalid(data: bytearray) -> bool:
    """Whether a replacement character is ours. The end may be cut inside a character."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        return True
    return False


def _lf(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Lines end alike, as `edit` takes them to."""
    held = b""
    for piece in pieces:
        whole = held + piece
        held = b"\r" if whole.endswith(b"\r") else b""
        if ended := whole[: len(whole) - len(held)]:
            yield ended.replace(b"\r\n", b"\n")
    if held:
        yield held


def _utf8(file: FileIO, start: bytes, stop: threading.Event) -> Iterator[bytes]:
    """What is in the file, as UTF-8 without a byte order mark."""
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        decoder = codecs.getincrementaldecoder("utf-16")("replace")
        for piece in _pieces(file, start, stop):
            yield decoder.decode(piece).encode("utf-8", "replace")
        yield decoder.decode(b"", final=True).encode()
    else:
        yield from _pieces(file, start.removeprefix(codecs.BOM_UTF8), stop)


def _pieces(file: FileIO, start: bytes, stop: threading.Event) -> Iterator[bytes]:
    yield start
    # Small ones first: most of what is read is shown, and that is not much.
    piece = SNIFFED
    while not stop.is_set() and (data := file.read(piece)):
        yield data
        piece = min(2 * piece, _PIECE)
