"""What all wire protocols share: a conversation as any server takes it back, and JSON as any server reads it.

What was said may come from any provider, or from another program: ids with characters that a server refuses,
names of tools that are none, images that a model cannot see. Here each becomes something that is accepted. It
depends on what was said and on nothing else, so the beginning of a conversation is sent alike every time, and
a server's cache knows it again.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any, NamedTuple

from perdure.agent.models import Model
from perdure.session.entry import Block, Content, Image, Text
from perdure.session.record import dumps, encode, parsed_exactly

NO_TEXT = "(no text)"
NO_OUTPUT = "(no output)"


class Ids:
    """The ids of tool calls in one request: no two alike, and a result's is that of its call."""

    def __init__(self, fits: re.Pattern[str], length: int) -> None:
        """One that does not fit is replaced by as many letters and digits."""
        self._fits = fits
        self._length = length
        self._taken: set[str] = set()
        self._open: dict[str, list[str]] = {}

    def of_call(self, id: str) -> str:
        given, _, _ = id.partition("|")  # behind it stands the id that the Responses protocol has beside it
        chosen, again = given if self._fits.fullmatch(given) else self._made(id), 0
        while chosen in self._taken:
            chosen, again = self._made(f"{id} {again}"), again + 1
        self._taken.add(chosen)
        self._open.setdefault(id, []).append(chosen)
        return chosen

    def of_result(self, id: str) -> str:
        """Empty if no such call is open."""
        waiting = self._open.get(id)
        return waiting.pop(0) if waiting else ""

    def _made(self, text: str) -> str:
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[: self._length]


def name_of(name: str, *, longest: int = 64, besides: str = "") -> str:
    """A called tool's name, made one that this server allows; `besides` are further signs that it knows."""
    return re.sub(f"[^A-Za-z0-9_{besides}-]", "_", name)[:longest] or "unknown"


def blocks_of(content: Content) -> list[Block]:
    return [Text(content)] if isinstance(content, str) else content


class Images(NamedTuple):
    """Those that a server takes. With any other, it would refuse every later request of the conversation."""

    kinds: frozenset[str]
    largest: int
    """As base64."""


def shown(content: Content, model: Model, images: Images) -> list[str | Image]:
    """Text that is not blank, and images that the model can see; for others a word in their place."""
    sees = "image" in model.input
    parts: list[str | Image] = []
    for block in blocks_of(content):
        match block:
            case Text(text=text) if text.strip():
                parts.append(text)
            case Image(data=data, mime_type=kind):
                is_seen = sees and kind in images.kinds and 0 < len(data) <= images.largest
                word = f"({kind or 'image'} left out: it cannot be shown to this model)"
                parts.append(block if is_seen else word)
    return parts


def json_text(value: Any) -> str:
    """Compact JSON, with only whole characters in it."""
    try:
        return encode(value).decode()
    except UnicodeEncodeError:
        return encode(sound(parsed_exactly(dumps(value)))).decode()


def sound(value: Any) -> Any:
    """With each lone surrogate, which is no character, replaced."""
    match value:
        case str():
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {sound(key): sound(each) for key, each in value.items()}
        case list():
            return [sound(each) for each in value]
    return value
