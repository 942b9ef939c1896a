"""A conversation as OpenAI's two protocols, and those who imitate them, take it back, and how hard to think.

What was said may come from any provider, or from another program: ids with characters that a server refuses,
names of tools that are none, images that a model cannot see. Here each becomes something that is accepted. It
depends on what was said and on nothing else, so the beginning of a conversation is sent alike every time, and
a server's cache knows it again. Of efforts, a model is asked for the nearest it knows.
"""

from __future__ import annotations

import re
from hashlib import sha256
from urllib.parse import urlsplit

from perdure.agent.models import Model
from perdure.session.entry import Block, Content, Image, Text

NOTHING_SAID = "(empty message)"
NO_OUTPUT = "(no output)"

_LARGEST_IMAGE = (20 * 2**20 + 2) // 3 * 4  # of 20 MiB, as base64
_IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp"}


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


def name_of(name: str) -> str:
    """A called tool's name, also of one that another server allowed."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unknown"


def blocks_of(content: Content) -> list[Block]:
    return [Text(content)] if isinstance(content, str) else content


def shown(content: Content, model: Model) -> list[str | Image]:
    """Text that is not empty, and images that the model can see; for others a word in their place."""
    sees = "image" in model.input
    parts: list[str | Image] = []
    for block in blocks_of(content):
        match block:
            case Text(text=text) if text:
                parts.append(text)
            case Image(data=data) if sees and block.mime_type in _IMAGES and 0 < len(data) <= _LARGEST_IMAGE:
                parts.append(block)
            case Image():
                parts.append(f"({block.mime_type or 'image'} left out: it cannot be shown to this model)")
    return parts


def data_url(image: Image) -> str:
    return f"data:{image.mime_type};base64,{image.data}"


def is_openai(model: Model) -> bool:
    """Whether OpenAI itself serves it. Others are told only what all of them understand."""
    host = urlsplit(model.base_url).hostname or ""
    return host == "openai.com" or host.endswith((".openai.com", ".openai.azure.com"))


# --- how hard to think ----------------------------------------------------------------------------

_LEVELS = ("minimal", "low", "medium", "high", "xhigh", "max")
_COMMON = ("low", "medium", "high")
_GPT = re.compile(r"gpt-([5-9])(?:\.(\d+))?(?!\d)", re.ASCII)


def effort(model: Model, level: str) -> str:
    """The nearest to a level that the model knows; empty where it cannot be told anything fitting."""
    known = _efforts(model)
    if level not in _LEVELS:
        return "none" if "none" in known else ""
    thinking = [each for each in _LEVELS if each in known]
    at_most = [each for each in thinking if _LEVELS.index(each) <= _LEVELS.index(level)]
    return at_most[-1] if at_most else thinking[0]


def _efforts(model: Model) -> tuple[str, ...]:
    """What is not refused, by generation and kind. Others than OpenAI have mostly three."""
    found = _GPT.search(model.id.lower())
    if found is None or not is_openai(model):
        return _COMMON
    version, kinds = (int(found[1]), int(found[2] or 0)), model.id.lower().split("-")
    if "chat" in kinds:
        return ("medium",)
    if "pro" in kinds:
        return ("high",) if version == (5, 0) else ("medium", "high", "xhigh")
    if "codex" in kinds and "mini" in kinds:
        return ("medium", "high")
    most = ("xhigh",) if version >= (5, 2) or "max" in kinds else ()
    if "codex" in kinds or version >= (6, 0):  # these always think
        return (*_COMMON, *most)
    return ("minimal" if version == (5, 0) else "none", *_COMMON, *most)
